#include "cli/work/work.h"

#include "base/buffer.h"
#include "io/clock.h"
#include "run/work/queue/child.h"

#include <rota/queue.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define TIMEOUT (30 * ROTA_SEC) /* of a call; of a poll, in addition to its wait */

/* Each node has its own queue client, which makes every call once: worker_fsm repeats them. */
struct node {
    struct rota_work *work;
    uint32_t number;
    struct rota_queue *queue;
    bool is_unreachable; /* as last reported */
};

enum { OVER_TEXT_MAX = 256 };

/* A job that was taken, by the number of its attempt in worker_fsm. */
struct job {
    struct rota_work *work;
    uint32_t number; /* the index of this entry */
    struct node *node;
    char name[ROTA_QUEUE_JOB_MAX]; /* "QUEUE/ID" */
    uint64_t attempt, n_attempts;  /* its unique number; the count */
    char over[OVER_TEXT_MAX];      /* why the node no longer wants its result */
    struct rota_child *child;      /* NULL: ended, or not started */
    int exit_code, signal;
    struct rota_buffer result, log;
    rota_time extended_at;
};

struct rota_work {
    uv_loop_t *loop;
    struct rota_work_options options;
    struct rota_worker_fsm fsm;
    struct node nodes[ROTA_WORKER_FSM_NODES_MAX];
    struct job **jobs; /* by attempt; NULL: none */
    uv_timer_t timer;
    bool is_driving, is_again, is_over;
};

static void drive(struct rota_work *work);

static struct rota_str queue_of(const char *job)
{
    return rota_str_of(job, (size_t)(strchr(job, '/') - job));
}

static void log_phrase(const struct rota_work *work, enum rota_log_level level, const char *phrase,
                       const struct job *job, const char *how)
{
    struct rota_str queue = queue_of(job->name);
    rota_log(work->options.log, rota_clock_wall(), level, phrase, ROTA_LOG_FACT("queue", queue),
             ROTA_LOG_FACT("job", (const char *)job->name + queue.size + 1),
             ROTA_LOG_FACT("attempt", job->n_attempts), ROTA_LOG_FACT("number", job->attempt),
             ROTA_LOG_FACT("how", how));
}

/* --- calls --- */

/* What an answer means for an attempt. */
static enum rota_worker_answer judge(const struct rota_queue_result *result)
{
    if (result->code == ROTA_OK)
        return ROTA_WORKER_YES;
    return result->code == ROTA_ERR_STALE || result->code == ROTA_ERR_INVALID ||
                   result->code == ROTA_ERR_NOT_FOUND
               ? ROTA_WORKER_OVER
               : ROTA_WORKER_UNKNOWN;
}

/* Log that a node is unreachable once, and once when it is back. */
static void note_node(struct node *node, bool is_unreachable, const char *why)
{
    if (node->is_unreachable == is_unreachable)
        return;
    node->is_unreachable = is_unreachable;
    rota_log(node->work->options.log, rota_clock_wall(),
             is_unreachable ? ROTA_LOG_WARN : ROTA_LOG_INFO,
             is_unreachable ? "node unreachable" : "node reachable again",
             ROTA_LOG_FACT("node", node->work->options.nodes[node->number]),
             ROTA_LOG_FACT("why", *why ? why : "OK"));
}

/* --- commands --- */

static void on_overflow(void *data)
{
    struct job *job = data;
    rota_worker_fsm_overflowed(&job->work->fsm, rota_clock_boot(), job->number);
    drive(job->work);
}

/* A job that was cancelled, or belongs to another worker now, has ended for its node, which accepts
 * no log for it: write its lines to our own log. */
static void tell_log(const struct job *job)
{
    char line[ROTA_JOB_REASON_MAX + 1];
    struct rota_str rest = rota_buffer_str(&job->log);
    while (rest.size > 0) {
        const char *end = memchr(rest.data, '\n', rest.size);
        size_t size = end ? (size_t)(end - rest.data) : rest.size;
        snprintf(line, sizeof line, "%.*s", (int)size, rest.data);
        if (line[0])
            log_phrase(job->work, ROTA_LOG_INFO, "job logged", job, line);
        size += end != NULL;
        rest = rota_str_of(rest.data + size, rest.size - size);
    }
}

static void on_ended(void *data, int exit_code, int signal)
{
    struct job *job = data;
    job->exit_code = exit_code;
    job->signal = signal;
    rota_buffer_append_str(&job->result, rota_child_output(job->child));
    rota_buffer_append_str(&job->log, rota_child_log(job->child));
    while (job->log.size > 0 && job->log.data[job->log.size - 1] == '\n')
        job->log.size--;
    rota_child_free(job->child);
    job->child = NULL;
    if (job->work->fsm.attempts[job->number].why == ROTA_WORKER_STOP_OVER)
        tell_log(job);
    rota_worker_fsm_ended(&job->work->fsm, rota_clock_boot(), job->number,
                          job->result.failed ? -1 : exit_code, signal);
    drive(job->work);
}

/* "NAME=value" without NULs, which a value may contain. */
static const char *variable(struct rota_buffer *buffer, const char *name, struct rota_str value)
{
    rota_buffer_print(buffer, "%s=%.*s", name, (int)strnlen(value.data, value.size), value.data);
    rota_buffer_append_char(buffer, '\0');
    return buffer->failed ? "ROTA_NONE=" : buffer->data;
}

static void start(struct job *job, const struct rota_queue_work *handed)
{
    struct rota_work *work = job->work;
    struct rota_error error;
    char number[24];
    struct rota_buffer values[4] = {{0}};
    struct rota_str queue = queue_of(job->name);
    snprintf(number, sizeof number, "%u", handed->n_attempts);
    const char *environment[] = {
        variable(&values[0], "ROTA_JOB_ID", rota_str(job->name + queue.size + 1)),
        variable(&values[1], "ROTA_JOB_ATTEMPT", rota_str(number)),
        variable(&values[2], "ROTA_QUEUE", queue),
        variable(&values[3], "ROTA_TRACE", handed->trace.size ? handed->trace : rota_str("")),
        NULL,
    };
    struct rota_child_options options = {
        .argv = work->options.argv,
        .environment = environment,
        .input = handed->payload,
        .output_max = ROTA_JOB_PAYLOAD_MAX,
        .on_overflow = on_overflow,
        .on_end = on_ended,
        .data = job,
    };
    log_phrase(work, ROTA_LOG_DEBUG, "job started", job, number);
    if (rota_child_start(work->loop, work->options.guard, &options, &job->child, &error)) {
        log_phrase(work, ROTA_LOG_ERROR, "job not started", job, error.text);
        rota_buffer_append_str(&job->log, rota_str(error.text));
        rota_worker_fsm_not_started(&work->fsm, rota_clock_boot(), job->number);
    }
    for (size_t i = 0; i < 4; i++)
        rota_buffer_deinit(&values[i]);
}

/* --- polls --- */

static void take_jobs(struct node *node, const struct rota_queue_work *handed)
{
    struct rota_work *work = node->work;
    bool is_to_start;
    struct job *job = strchr(handed->job, '/') ? calloc(1, sizeof *job) : NULL;
    uint32_t number = job ? rota_worker_fsm_taken(&work->fsm, rota_clock_boot(), node->number,
                                                  handed->timeout, &is_to_start)
                          : ROTA_WORKER_FSM_NONE;
    if (number == ROTA_WORKER_FSM_NONE) {
        free(job); /* its lease will expire */
        return;
    }
    *job = (struct job){.work = work,
                        .number = number,
                        .node = node,
                        .attempt = handed->attempt,
                        .n_attempts = handed->n_attempts};
    snprintf(job->name, sizeof job->name, "%s", handed->job);
    work->jobs[number] = job;
    if (is_to_start)
        start(job, handed);
}

static void on_polled(void *data, const struct rota_queue_result *result,
                      const struct rota_queue_work *works, size_t n)
{
    struct node *node = data;
    enum rota_worker_answer answer = result->code ? ROTA_WORKER_UNKNOWN : ROTA_WORKER_YES;
    note_node(node, answer != ROTA_WORKER_YES, result->text);
    rota_worker_fsm_polled(&node->work->fsm, rota_clock_boot(), node->number, answer, n);
    for (size_t i = 0; i < n; i++)
        take_jobs(node, &works[i]);
    drive(node->work);
}

static void poll_node(struct rota_work *work, struct node *node, uint32_t n_jobs)
{
    const struct rota_work_options *options = &work->options;
    struct rota_queue_wanted wanted = {
        .queue = options->queues[0],
        .more = options->queues + 1,
        .n_more = options->n_queues - 1,
        .can = options->can,
        .n_can = options->n_can,
        .max_jobs = n_jobs,
        .lease = work->fsm.options.lease,
        .worker = rota_str(options->name),
    };
    struct rota_error error;
    if (!rota_queue_poll(node->queue, &wanted, on_polled, node, &error))
        return;
    note_node(node, true, error.text);
    rota_worker_fsm_polled(&work->fsm, rota_clock_boot(), node->number, ROTA_WORKER_UNKNOWN, 0);
}

/* --- reports about a job --- */

/* The node's words after the status say what happened to the job. */
static void note_over(struct job *job, const struct rota_queue_result *result)
{
    const char *words = strstr(result->text, ": ");
    snprintf(job->over, sizeof job->over, "%s", words && words[2] ? words + 2 : result->text);
}

static void on_extended(void *data, const struct rota_queue_result *result)
{
    struct job *job = data;
    enum rota_worker_answer answer = judge(result);
    note_node(job->node, answer == ROTA_WORKER_UNKNOWN, result->text);
    if (answer == ROTA_WORKER_OVER && job->child) {
        note_over(job, result);
        log_phrase(job->work, ROTA_LOG_INFO, "job attempt is over", job, job->over);
    }
    rota_worker_fsm_extended(&job->work->fsm, rota_clock_boot(), job->number, job->extended_at,
                             answer);
    drive(job->work);
}

/* The last complete line of the log: the progress. */
static struct rota_str last_line(struct rota_str log)
{
    while (log.size > 0 && log.data[log.size - 1] != '\n')
        log.size--;
    while (log.size > 0 && (log.data[log.size - 1] == '\n' || log.data[log.size - 1] == '\r'))
        log.size--;
    size_t begin = log.size;
    while (begin > 0 && log.data[begin - 1] != '\n')
        begin--;
    return rota_str_of(log.data + begin, log.size - begin);
}

static void extend(struct rota_work *work, struct job *job)
{
    struct rota_str progress = job->child ? last_line(rota_child_log(job->child)) : rota_str("");
    job->extended_at = rota_clock_boot();
    if (rota_queue_extend(job->node->queue, job->name, job->attempt, work->fsm.options.lease,
                          progress, on_extended, job, NULL))
        rota_worker_fsm_extended(&work->fsm, rota_clock_boot(), job->number, job->extended_at,
                                 ROTA_WORKER_UNKNOWN);
}

static void on_said(void *data, const struct rota_queue_result *result)
{
    struct job *job = data;
    enum rota_worker_answer answer = judge(result);
    note_node(job->node, answer == ROTA_WORKER_UNKNOWN, result->text);
    if (answer == ROTA_WORKER_OVER) {
        note_over(job, result);
        log_phrase(job->work, ROTA_LOG_WARN, "job result rejected", job, job->over);
    } else if (answer == ROTA_WORKER_YES) {
        log_phrase(job->work, ROTA_LOG_DEBUG, "job ended", job, rota_status_name(result->status));
    }
    rota_worker_fsm_said(&job->work->fsm, rota_clock_boot(), job->number, answer);
    drive(job->work);
}

/* One sentence, and below it the end of the log. */
static struct rota_str reason(const struct rota_work *work, const struct job *job,
                              char text[ROTA_JOB_REASON_MAX])
{
    const char *why = rota_worker_fsm_stop_text(work->fsm.attempts[job->number].why);
    struct rota_str log = rota_buffer_str(&job->log);
    int size = 0;
    if (why)
        size = snprintf(text, ROTA_JOB_REASON_MAX, "%s", why);
    else if (job->signal)
        size = snprintf(text, ROTA_JOB_REASON_MAX, "ended by signal %d", job->signal);
    else if (job->exit_code)
        size = snprintf(text, ROTA_JOB_REASON_MAX, "exit code %d", job->exit_code);
    size_t room = ROTA_JOB_REASON_MAX - (size_t)size;
    if (log.size == 0 || room < 2)
        return rota_str_of(text, (size_t)size);
    if (size > 0) {
        text[size++] = '\n';
        room--;
    }
    if (log.size > room)
        log = rota_str_of(log.data + log.size - room, room);
    memcpy(text + size, log.data, log.size);
    return rota_str_of(text, (size_t)size + log.size);
}

/* A failed command is also reported in the worker's log. */
static void tell_end(const struct rota_work *work, const struct job *job, enum rota_job_cause cause,
                     struct rota_str reason)
{
    enum { SHOWN = 200 };
    char how[SHOWN + 64];
    bool is_failed = cause == ROTA_JOB_CAUSE_FAILED || cause == ROTA_JOB_CAUSE_REFUSED;
    const char *newline = reason.size > 0 ? memchr(reason.data, '\n', reason.size) : NULL;
    if (newline)
        reason.size = (size_t)(newline - reason.data);
    if (reason.size > SHOWN)
        reason.size = SHOWN;
    snprintf(how, sizeof how, "%s: %.*s", rota_job_cause_text(cause), ROTA_STR_ARGS(reason));
    log_phrase(work, is_failed ? ROTA_LOG_INFO : ROTA_LOG_DEBUG, "job ends", job,
               is_failed ? how : rota_job_cause_text(cause));
}

static enum rota_queue_how how_ended(enum rota_job_cause cause)
{
    if (cause == ROTA_JOB_CAUSE_DONE)
        return ROTA_QUEUE_END_DONE;
    if (cause == ROTA_JOB_CAUSE_GIVEN_BACK)
        return ROTA_QUEUE_END_RETURNED;
    return cause == ROTA_JOB_CAUSE_REFUSED ? ROTA_QUEUE_END_FINAL : ROTA_QUEUE_END_FAILED;
}

static void say(struct rota_work *work, struct job *job, const struct rota_worker_action *action)
{
    char text[ROTA_JOB_REASON_MAX];
    bool is_done = action->cause == ROTA_JOB_CAUSE_DONE;
    struct rota_queue_outcome outcome = {.how = how_ended(action->cause),
                                         .result = is_done ? rota_buffer_str(&job->result)
                                                           : reason(work, job, text),
                                         .log = rota_buffer_str(&job->log),
                                         .retry_after = action->retry_after};
    tell_end(work, job, action->cause, outcome.result);
    if (rota_queue_finish(job->node->queue, job->name, job->attempt, &outcome, on_said, job, NULL))
        rota_worker_fsm_said(&work->fsm, rota_clock_boot(), job->number, ROTA_WORKER_UNKNOWN);
}

/* No call about it is in flight, or none will be answered. */
static void forget(struct rota_work *work, uint32_t number)
{
    struct job *job = work->jobs[number];
    work->jobs[number] = NULL;
    rota_child_free(job->child);
    rota_buffer_deinit(&job->result);
    rota_buffer_deinit(&job->log);
    free(job);
}

/* --- the machine --- */

static const char *why_stopped(const struct rota_work *work, const struct job *job)
{
    enum rota_worker_stop why = work->fsm.attempts[job->number].why;
    bool is_told = why == ROTA_WORKER_STOP_OVER && job->over[0];
    return is_told ? job->over : rota_worker_fsm_stop_text(why);
}

static void carry_out(struct rota_work *work, const struct rota_worker_action *action)
{
    struct job *job = action->attempt == ROTA_WORKER_FSM_NONE ? NULL : work->jobs[action->attempt];
    switch (action->type) {
    case ROTA_WORKER_DO_POLL:
        poll_node(work, &work->nodes[action->node], action->n_jobs);
        break;
    case ROTA_WORKER_DO_UNPOLL:
        rota_queue_stop_polls(work->nodes[action->node].queue);
        break;
    case ROTA_WORKER_DO_EXTEND:
        extend(work, job);
        break;
    case ROTA_WORKER_DO_TELL_END:
    case ROTA_WORKER_DO_KILL:
        log_phrase(work, ROTA_LOG_INFO, "job stopped", job, why_stopped(work, job));
        if (job->child)
            rota_child_signal(job->child, action->type == ROTA_WORKER_DO_KILL ? SIGKILL : SIGTERM);
        break;
    case ROTA_WORKER_DO_SAY:
        say(work, job, action);
        break;
    case ROTA_WORKER_DO_FORGET:
        forget(work, action->attempt);
        break;
    }
}

static void on_timer(uv_timer_t *timer)
{
    drive(timer->data);
}

static void set_timer(struct rota_work *work)
{
    rota_time at = rota_worker_fsm_deadline(&work->fsm), now = rota_clock_boot();
    if (at == ROTA_TIME_NEVER)
        uv_timer_stop(&work->timer);
    else
        uv_timer_start(&work->timer, on_timer,
                       at > now ? (uint64_t)((at - now) / ROTA_MSEC) + 1 : 0, 0);
}

/* The only caller of actions; their consequences are handled in the next round. */
static void drive(struct rota_work *work)
{
    struct rota_worker_action action;
    if (work->is_driving || work->is_over) {
        work->is_again = true;
        return;
    }
    work->is_driving = true;
    do {
        work->is_again = false;
        for (size_t place = 0;
             rota_worker_fsm_next(&work->fsm, rota_clock_boot(), &place, &action);)
            carry_out(work, &action);
    } while (work->is_again);
    work->is_driving = false;
    set_timer(work);
    if (rota_worker_fsm_is_over(&work->fsm, rota_clock_boot())) {
        work->is_over = true;
        work->options.on_over(work->options.data);
    }
}

/* --- doors --- */

static enum rota_code open_nodes(struct rota_work *work, struct rota_error *error)
{
    struct rota_queue_options with = {.tls = work->options.tls,
                                      .insecure = work->options.is_insecure,
                                      .timeout = TIMEOUT,
                                      .patience = 1};
    enum rota_code code = ROTA_OK;
    for (uint32_t i = 0; i < work->fsm.options.n_nodes && !code; i++) {
        work->nodes[i] = (struct node){.work = work, .number = i};
        with.nodes = work->options.nodes[i];
        code = rota_queue_open(work->loop, &with, &work->nodes[i].queue, error);
    }
    return code;
}

enum rota_code rota_work_open(uv_loop_t *loop, const struct rota_work_options *options,
                              struct rota_work **work, struct rota_error *error)
{
    struct rota_work *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for a worker");
    made->loop = loop;
    made->options = *options;
    uv_timer_init(loop, &made->timer);
    made->timer.data = made;
    enum rota_code code = ROTA_ERR_NO_MEMORY;
    if (!rota_worker_fsm_init(&made->fsm, &options->worker) ||
        !(made->jobs = calloc(made->fsm.n_places, sizeof *made->jobs)))
        rota_error_set(error, code, "not enough memory for %u jobs", options->worker.slots);
    else
        code = open_nodes(made, error);
    if (code) {
        rota_work_close(made);
        return code;
    }
    *work = made;
    uv_timer_start(&made->timer, on_timer, 0, 0);
    return ROTA_OK;
}

void rota_work_stop(struct rota_work *work)
{
    rota_worker_fsm_stop(&work->fsm, rota_clock_boot());
    drive(work);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void rota_work_close(struct rota_work *work)
{
    if (!work)
        return;
    work->is_over = true;
    for (uint32_t i = 0; i < ROTA_WORKER_FSM_NODES_MAX; i++)
        rota_queue_close(work->nodes[i].queue);
    for (size_t i = 0; work->jobs && i < work->fsm.n_places; i++)
        if (work->jobs[i])
            forget(work, (uint32_t)i);
    rota_worker_fsm_deinit(&work->fsm);
    free(work->jobs);
    uv_close((uv_handle_t *)&work->timer, on_closed);
}
