#include "cli/queue_plan.h"

#include "cli/cli.h"
#include "cli/dry_run.h"
#include "cli/queue_workers.h"

#include <stdio.h>

typedef unsigned long long number;

/* --- a job --- */

/* The job as it is; what is read is the client's until it asks again. */
static enum rota_code describe(struct rota_queue_client *client,
                               const struct rota_queue_about *about,
                               struct rota_queue_description *description, struct rota_error *error)
{
    enum rota_code code = rota_queue_client_ask(client, "Describe", &ROTA_QUEUE_DESCRIBE, about,
                                                &ROTA_QUEUE_DESCRIPTION, description, error);
    const struct rota_queue_job_info *info = code ? NULL : description->job;
    if (!code && (!info || info->state >= ROTA_JOB_STATES))
        code = rota_error_set(error, ROTA_ERR_UNAVAILABLE, "malformed reply: expected a job");
    return code;
}

static enum rota_code refuse_state(struct rota_str name, uint64_t state, struct rota_error *error)
{
    return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "job %.*s is %s already",
                          ROTA_STR_ARGS(name), rota_job_state_name((enum rota_job_state)state));
}

static void say_cancel(struct rota_dry_run *dry_run, struct rota_str name,
                       const struct rota_queue_description *now)
{
    const struct rota_queue_job_info *info = now->job;
    rota_dry_run_say(dry_run, "job %.*s is %s now: %.*s", ROTA_STR_ARGS(name),
                     rota_job_state_name((enum rota_job_state)info->state),
                     ROTA_STR_ARGS(now->explain));
    if (info->state == ROTA_JOB_RUNNING)
        rota_dry_run_say(dry_run, "it would be cancelled, and %.*s told to stop attempt %llu",
                         ROTA_STR_ARGS(info->worker), (number)info->n_attempts);
    else
        rota_dry_run_say(dry_run, "it would be cancelled before it starts");
}

static void say_retry(struct rota_dry_run *dry_run, struct rota_str name,
                      const struct rota_queue_description *now)
{
    const struct rota_queue_job_info *info = now->job;
    rota_dry_run_say(dry_run, "job %.*s is %s now: %.*s", ROTA_STR_ARGS(name),
                     rota_job_state_name((enum rota_job_state)info->state),
                     ROTA_STR_ARGS(now->explain));
    rota_dry_run_say(dry_run, "it would wait again, with none of its attempts used (%llu were)",
                     (number)info->n_attempts);
}

static void say_priority(struct rota_dry_run *dry_run, struct rota_str name,
                         const struct rota_queue_description *now, int64_t priority)
{
    const struct rota_queue_job_info *info = now->job;
    const struct rota_queue_job_spec *spec = info->spec;
    rota_dry_run_say(dry_run, "job %.*s is %s now, with priority %lld", ROTA_STR_ARGS(name),
                     rota_job_state_name((enum rota_job_state)info->state),
                     spec ? (long long)spec->priority : 0);
    rota_dry_run_say(dry_run, "it would have priority %lld", (long long)priority);
}

enum plan { PLAN_CANCEL, PLAN_RETRY, PLAN_PRIORITY };

static enum rota_code plan_job(struct rota_queue_client *client,
                               const struct rota_queue_about *about, enum plan plan,
                               struct rota_buffer *buffer, struct rota_error *error)
{
    struct rota_queue_description now;
    struct rota_buffer name = {0};
    struct rota_dry_run dry_run;
    enum rota_code code = describe(client, about, &now, error);
    if (code)
        return code;
    const struct rota_queue_job_info *info = now.job;
    uint64_t state = info->state;
    bool is_ended = state == ROTA_JOB_DONE || state == ROTA_JOB_DEAD || state == ROTA_JOB_CANCELLED;
    rota_queue_client_append_name(&name, about->queue, about->id);
    bool is_refused = is_ended;
    if (plan == PLAN_RETRY)
        is_refused = !is_ended || state == ROTA_JOB_DONE;
    if (is_refused) {
        code = refuse_state(rota_buffer_str(&name), state, error);
    } else {
        rota_dry_run_begin(&dry_run, client->options->json, buffer);
        if (plan == PLAN_RETRY)
            say_retry(&dry_run, rota_buffer_str(&name), &now);
        else if (plan == PLAN_PRIORITY)
            say_priority(&dry_run, rota_buffer_str(&name), &now, about->priority);
        else
            say_cancel(&dry_run, rota_buffer_str(&name), &now);
        rota_dry_run_end(&dry_run);
    }
    rota_buffer_deinit(&name);
    return code;
}

enum rota_code rota_queue_plan_cancel(struct rota_queue_client *client,
                                      const struct rota_queue_about *about,
                                      struct rota_buffer *buffer, struct rota_error *error)
{
    return plan_job(client, about, PLAN_CANCEL, buffer, error);
}

enum rota_code rota_queue_plan_retry(struct rota_queue_client *client,
                                     const struct rota_queue_about *about,
                                     struct rota_buffer *buffer, struct rota_error *error)
{
    return plan_job(client, about, PLAN_RETRY, buffer, error);
}

enum rota_code rota_queue_plan_priority(struct rota_queue_client *client,
                                        const struct rota_queue_about *about,
                                        struct rota_buffer *buffer, struct rota_error *error)
{
    return plan_job(client, about, PLAN_PRIORITY, buffer, error);
}

/* --- a queue --- */

/* `*info` is NULL when there is no such queue yet. */
static enum rota_code look(struct rota_queue_client *client, struct rota_str queue,
                           const struct rota_queue_info **info, struct rota_error *error)
{
    const struct rota_queue_setting request = {.queue = queue};
    struct rota_queue_list reply;
    enum rota_code code = rota_queue_client_ask(client, "Queues", &ROTA_QUEUE_PAUSE, &request,
                                                &ROTA_QUEUE_QUEUES_REPLY, &reply, error);
    if (code)
        return code;
    rota_queue_client_tell_missing(client);
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

enum rota_code rota_queue_plan_pause(struct rota_queue_client *client, struct rota_str queue,
                                     bool is_paused, struct rota_buffer *buffer,
                                     struct rota_error *error)
{
    const struct rota_queue_info *info;
    struct rota_dry_run dry_run;
    enum rota_code code = look(client, queue, &info, error);
    static const struct rota_queue_info NONE;
    if (code)
        return code;
    rota_dry_run_begin(&dry_run, client->options->json, buffer);
    say_queue(&dry_run, queue, info);
    info = info ? info : &NONE;
    if (info->is_paused == is_paused)
        rota_dry_run_say(&dry_run, "it would stay as it is");
    else if (is_paused)
        rota_dry_run_say(
            &dry_run,
            "it would be paused: %llu waiting job%s would not start, and %llu that run go on",
            (number)info->n_waiting, info->n_waiting == 1 ? "" : "s", (number)info->n_running);
    else
        rota_dry_run_say(&dry_run, "it would be open: %llu waiting job%s would be handed out again",
                         (number)info->n_waiting, info->n_waiting == 1 ? "" : "s");
    rota_dry_run_end(&dry_run);
    return ROTA_OK;
}

enum rota_code rota_queue_plan_delete(struct rota_queue_client *client, struct rota_str queue,
                                      uint64_t n_ended, struct rota_buffer *buffer,
                                      struct rota_error *error)
{
    const struct rota_queue_info *info;
    struct rota_dry_run dry_run;
    enum rota_code code = look(client, queue, &info, error);
    if (code)
        return code;
    rota_dry_run_begin(&dry_run, client->options->json, buffer);
    say_queue(&dry_run, queue, info);
    rota_dry_run_say(&dry_run, "it would be deleted with its settings and %llu ended job%s",
                     (number)n_ended, n_ended == 1 ? "" : "s");
    rota_dry_run_end(&dry_run);
    return ROTA_OK;
}

enum rota_code rota_queue_plan_weight(struct rota_queue_client *client, struct rota_str queue,
                                      struct rota_str key, uint64_t percent,
                                      struct rota_buffer *buffer, struct rota_error *error)
{
    const struct rota_queue_info *info;
    struct rota_dry_run dry_run;
    enum rota_code code = look(client, queue, &info, error);
    if (code)
        return code;
    rota_dry_run_begin(&dry_run, client->options->json, buffer);
    say_queue(&dry_run, queue, info);
    rota_dry_run_say(&dry_run,
                     "the key %.*s would have a weight of %llu, against the 100 that keys without "
                     "one have, for jobs that are added from then on; no job moves",
                     ROTA_STR_ARGS(key), (number)percent);
    rota_dry_run_end(&dry_run);
    return ROTA_OK;
}

enum rota_code rota_queue_plan_quarantine(struct rota_queue_client *client, struct rota_str queue,
                                          uint64_t deaths, struct rota_buffer *buffer,
                                          struct rota_error *error)
{
    const struct rota_queue_info *info;
    struct rota_dry_run dry_run;
    enum rota_code code = look(client, queue, &info, error);
    if (code)
        return code;
    rota_dry_run_begin(&dry_run, client->options->json, buffer);
    say_queue(&dry_run, queue, info);
    rota_dry_run_say(&dry_run, "a job would be dead after the deaths of %llu worker%s",
                     (number)deaths, deaths == 1 ? "" : "s");
    rota_dry_run_end(&dry_run);
    return ROTA_OK;
}

/* --- adding --- */

/* What the broker would refuse by itself. */
static enum rota_code check(const struct rota_queue_job_spec *spec, struct rota_error *error)
{
    const struct rota_job_spec asked = {
        .queue = spec->queue,
        .capabilities = spec->can.items,
        .n_capabilities = spec->can.n,
        .payload = spec->payload,
        .priority = (int16_t)spec->priority,
        .timeout = rota_queue_from_ms(spec->timeout_ms),
        .max_attempts = (uint32_t)spec->max_attempts,
        .backoff = rota_queue_from_ms(spec->backoff_ms),
        .unique = spec->unique,
        .key = spec->key,
        .trace = spec->trace,
    };
    enum rota_code code = rota_job_spec_check(&asked, error);
    if (!code && spec->deadline_ms &&
        rota_queue_from_ms(spec->deadline_ms) <= rota_cli_now(ROTA_TIME_MIN))
        code = rota_error_set(error, ROTA_ERR_INVALID, "the deadline of the job has passed");
    return code;
}

static bool has(struct rota_message_strs names, struct rota_str name)
{
    for (size_t i = 0; i < names.n; i++)
        if (rota_str_is_equal(names.items[i], name))
            return true;
    return false;
}

static bool can_do(const struct rota_queue_worker_info *worker,
                   const struct rota_queue_job_spec *spec)
{
    if (!has(worker->queues, spec->queue))
        return false;
    for (size_t i = 0; i < spec->can.n; i++)
        if (!has(worker->can, spec->can.items[i]))
            return false;
    return true;
}

static enum rota_code count_capable(struct rota_queue_client *client,
                                    const struct rota_queue_job_spec *spec, number *n,
                                    struct rota_error *error)
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

static void say_added(struct rota_dry_run *dry_run, const struct rota_queue_job_spec *spec,
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
    if (spec->delay_ms > 0)
        rota_dry_run_say(dry_run, "it would not start for %s",
                         rota_span_format(rota_queue_from_ms(spec->delay_ms), delay));
    if (n_capable == 0)
        rota_dry_run_say(dry_run, "no worker that is connected could do it: it would wait for one");
    else
        rota_dry_run_say(dry_run, "workers that could do it: %llu", n_capable);
}

enum rota_code rota_queue_plan_add(struct rota_queue_client *client,
                                   const struct rota_queue_job_spec *spec, size_t n_jobs,
                                   struct rota_buffer *buffer, struct rota_error *error)
{
    const struct rota_queue_info *info;
    struct rota_dry_run dry_run;
    number n_capable = 0;
    enum rota_code code = check(spec, error);
    if (!code)
        code = count_capable(client, spec, &n_capable, error);
    if (!code)
        code = look(client, spec->queue, &info, error);
    if (code)
        return code;
    rota_dry_run_begin(&dry_run, client->options->json, buffer);
    say_queue(&dry_run, spec->queue, info);
    say_added(&dry_run, spec, n_jobs, n_capable);
    rota_dry_run_end(&dry_run);
    return ROTA_OK;
}
