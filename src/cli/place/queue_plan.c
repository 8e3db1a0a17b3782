#include "cli/place/queue_plan.h"

#include "cli/cli.h"
#include "cli/dry_run.h"
#include "cli/work/queue_workers.h"

#include <stdio.h>

typedef unsigned long long number;

/* --- a job --- */

static bool is_refused(enum rota_queue_plan plan, enum rota_queue_state state)
{
    bool is_over = state == ROTA_QUEUE_DEAD || state == ROTA_QUEUE_CANCELLED;
    return plan == ROTA_QUEUE_PLAN_RETRY ? !is_over : is_over || state == ROTA_QUEUE_DONE;
}

enum rota_code rota_queue_plan_job(enum rota_queue_plan plan, const struct rota_queue_result *now,
                                   int64_t priority, bool is_json, struct rota_buffer *buffer,
                                   struct rota_error *error)
{
    const char *state = rota_queue_view_state(now->state);
    const struct rota_queue_details *details = now->details;
    struct rota_dry_run dry_run;
    if (is_refused(plan, now->state))
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "job %s is %s already", now->job, state);
    rota_dry_run_begin(&dry_run, is_json, buffer);
    if (plan == ROTA_QUEUE_PLAN_PRIORITY)
        rota_dry_run_say(&dry_run, "job %s is %s now, with priority %d", now->job, state,
                         details->job.priority);
    else
        rota_dry_run_say(&dry_run, "job %s is %.*s", now->job, ROTA_STR_ARGS(details->explain));
    if (plan == ROTA_QUEUE_PLAN_PRIORITY)
        rota_dry_run_say(&dry_run, "it would have priority %lld", (long long)priority);
    else if (plan == ROTA_QUEUE_PLAN_RETRY)
        rota_dry_run_say(&dry_run, "it would wait again, with none of its attempts used (%u were)",
                         details->n_attempts);
    else if (now->state == ROTA_QUEUE_RUNNING)
        rota_dry_run_say(&dry_run, "it would be cancelled, and %.*s would have to stop attempt %u",
                         ROTA_STR_ARGS(details->worker), details->n_attempts);
    else
        rota_dry_run_say(&dry_run, "it would be cancelled before it starts");
    rota_dry_run_end(&dry_run);
    return ROTA_OK;
}

/* --- a queue --- */

/* `*info` is NULL if the queue does not exist yet. */
static enum rota_code look_up_queue(struct rota_client *client, struct rota_str queue,
                                    const struct rota_queue_info **info, struct rota_error *error)
{
    const struct rota_queue_setting request = {.queue = queue};
    struct rota_queue_list reply;
    enum rota_code code = rota_client_ask(client, "Queues", &ROTA_QUEUE_PAUSE, &request,
                                          &ROTA_QUEUE_QUEUES_REPLY, &reply, error);
    if (code)
        return code;
    rota_queue_view_read_missing(client);
    *info = reply.items.n > 0 ? reply.items.items : NULL;
    return ROTA_OK;
}

static void say_queue(struct rota_dry_run *dry_run, struct rota_str queue,
                      const struct rota_queue_info *info)
{
    if (!info) {
        rota_dry_run_say(dry_run, "there is no queue %.*s yet", ROTA_STR_ARGS(queue));
        return;
    }
    rota_dry_run_say(dry_run,
                     "queue %.*s is %s: %llu waiting, %llu delayed, %llu running, %llu dead; "
                     "workers: %llu, with %llu free slots",
                     ROTA_STR_ARGS(queue), info->is_paused ? "paused" : "open",
                     (number)info->n_waiting, (number)info->n_delayed, (number)info->n_running,
                     (number)info->n_dead, (number)info->n_workers, (number)info->n_free);
}

/* Begin a plan with the queue as it is. `*info` may be NULL: there is no such queue. */
static enum rota_code begin_plan(struct rota_client *client, struct rota_str queue,
                                 struct rota_buffer *buffer, struct rota_dry_run *dry_run,
                                 const struct rota_queue_info **info, struct rota_error *error)
{
    enum rota_code code = look_up_queue(client, queue, info, error);
    if (code)
        return code;
    rota_dry_run_begin(dry_run, client->options->json, buffer);
    say_queue(dry_run, queue, *info);
    return ROTA_OK;
}

enum rota_code rota_queue_plan_pause(struct rota_client *client, struct rota_str queue,
                                     bool is_paused, struct rota_buffer *buffer,
                                     struct rota_error *error)
{
    const struct rota_queue_info *info;
    struct rota_dry_run dry_run;
    enum rota_code code = begin_plan(client, queue, buffer, &dry_run, &info, error);
    static const struct rota_queue_info NONE;
    if (code)
        return code;
    info = info ? info : &NONE;
    if (info->is_paused == is_paused)
        rota_dry_run_say(&dry_run, "it would stay as it is");
    else if (is_paused)
        rota_dry_run_say(
            &dry_run,
            "it would be paused: %llu waiting job%s would not start; %llu running would continue",
            (number)info->n_waiting, info->n_waiting == 1 ? "" : "s", (number)info->n_running);
    else
        rota_dry_run_say(&dry_run, "it would be open: %llu waiting job%s would be handed out again",
                         (number)info->n_waiting, info->n_waiting == 1 ? "" : "s");
    rota_dry_run_end(&dry_run);
    return ROTA_OK;
}

/* The queue as it is, and one sentence about what it would be. */
static enum rota_code plan_change(struct rota_client *client, struct rota_str queue,
                                  struct rota_buffer *buffer, struct rota_error *error,
                                  const char *format, ...) __attribute__((format(printf, 5, 6)));

static enum rota_code plan_change(struct rota_client *client, struct rota_str queue,
                                  struct rota_buffer *buffer, struct rota_error *error,
                                  const char *format, ...)
{
    const struct rota_queue_info *info;
    struct rota_dry_run dry_run;
    enum rota_code code = begin_plan(client, queue, buffer, &dry_run, &info, error);
    if (code)
        return code;
    va_list arguments;
    va_start(arguments, format);
    rota_dry_run_say_list(&dry_run, format, arguments);
    va_end(arguments);
    rota_dry_run_end(&dry_run);
    return ROTA_OK;
}

enum rota_code rota_queue_plan_delete(struct rota_client *client, struct rota_str queue,
                                      uint64_t n_ended, struct rota_buffer *buffer,
                                      struct rota_error *error)
{
    return plan_change(client, queue, buffer, error,
                       "it would be deleted with its settings and %llu ended job%s",
                       (number)n_ended, n_ended == 1 ? "" : "s");
}

enum rota_code rota_queue_plan_weight(struct rota_client *client, struct rota_str queue,
                                      struct rota_str key, uint64_t percent,
                                      struct rota_buffer *buffer, struct rota_error *error)
{
    return plan_change(client, queue, buffer, error,
                       "the key %.*s would have weight %llu (keys without one have 100) for jobs "
                       "added from then on; no job moves",
                       ROTA_STR_ARGS(key), (number)percent);
}

enum rota_code rota_queue_plan_quarantine(struct rota_client *client, struct rota_str queue,
                                          uint64_t deaths, struct rota_buffer *buffer,
                                          struct rota_error *error)
{
    return plan_change(client, queue, buffer, error,
                       "a job would become dead after killing %llu worker%s", (number)deaths,
                       deaths == 1 ? "" : "s");
}

/* --- adding --- */

static bool has(struct rota_message_strs names, struct rota_str name)
{
    for (size_t i = 0; i < names.n; i++)
        if (rota_str_is_equal(names.items[i], name))
            return true;
    return false;
}

static bool can_do(const struct rota_queue_worker_info *worker, const struct rota_queue_job *spec)
{
    if (!has(worker->queues, spec->queue))
        return false;
    for (size_t i = 0; i < spec->n_can; i++)
        if (!has(worker->can, spec->can[i]))
            return false;
    return true;
}

static enum rota_code count_capable(struct rota_client *client, const struct rota_queue_job *spec,
                                    number *n, struct rota_error *error)
{
    const struct rota_queue_worker *workers;
    size_t n_workers;
    enum rota_code code = rota_queue_workers_ask(client, &workers, &n_workers, error);
    if (code)
        return code;
    *n = 0;
    for (size_t i = 0; i < n_workers; i++)
        *n += can_do(&workers[i].info, spec);
    return ROTA_OK;
}

static void say_added(struct rota_dry_run *dry_run, const struct rota_queue_job *spec,
                      size_t n_jobs, number n_capable)
{
    char delay[ROTA_TIME_TEXT_MAX];
    if (n_jobs == 1 && spec->payload.size > 0)
        rota_dry_run_say(dry_run, "a job with a payload of %zu byte%s would be added to it",
                         spec->payload.size, spec->payload.size == 1 ? "" : "s");
    else
        rota_dry_run_say(dry_run, "%zu job%s would be added to it", n_jobs, n_jobs == 1 ? "" : "s");
    if (spec->unique.size > 0)
        rota_dry_run_say(dry_run, "unless one with the unique key %.*s waits or runs",
                         ROTA_STR_ARGS(spec->unique));
    if (spec->idempotency_key.size > 0)
        rota_dry_run_say(dry_run, "unless one was added with the idempotency key %.*s",
                         ROTA_STR_ARGS(spec->idempotency_key));
    if (spec->delay > 0)
        rota_dry_run_say(dry_run, "it would not start for %s",
                         rota_span_format(spec->delay, delay));
    if (n_capable == 0)
        rota_dry_run_say(dry_run, "no connected worker could run it: it would wait for one");
    else
        rota_dry_run_say(dry_run, "connected workers that could run it: %llu", n_capable);
}

enum rota_code rota_queue_plan_add(struct rota_client *client, const struct rota_queue_job *spec,
                                   size_t n_jobs, struct rota_buffer *buffer,
                                   struct rota_error *error)
{
    const struct rota_queue_info *info;
    struct rota_dry_run dry_run;
    number n_capable = 0;
    enum rota_code code = rota_queue_check(spec, error);
    if (!code)
        code = count_capable(client, spec, &n_capable, error);
    if (!code)
        code = begin_plan(client, spec->queue, buffer, &dry_run, &info, error);
    if (code)
        return code;
    say_added(&dry_run, spec, n_jobs, n_capable);
    rota_dry_run_end(&dry_run);
    return ROTA_OK;
}
