#include "cli/work.h"

#include "base/arena.h"
#include "io/clock.h"
#include "run/child.h"
#include "wire/queue_message.h"

#include <rota/channel.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define POLL_WAIT   (30 * ROTA_SEC) /* that a node lets a poll wait */
#define POLL_SPARE  (30 * ROTA_SEC) /* ... and how much longer the answer may take */
#define SAY_TIMEOUT (30 * ROTA_SEC)

enum { MESSAGE_MAX = 32 << 20 };

struct node {
    struct rota_work *work;
    uint32_t number;
    struct rota_channel *channel;
    struct rota_call *poll; /* NULL: none is under way */
    bool is_away;           /* as was last told */
};

enum { OVER_TEXT_MAX = 256 };

/* A job that was taken, by the number of its attempt in the machine. */
struct job {
    struct rota_work *work;
    uint32_t number; /* the place of this */
    struct node *node;
    char queue[ROTA_JOB_QUEUE_NAME_MAX + 1], id[ROTA_QUEUE_ID_SIZE];
    uint64_t attempt, n_attempts; /* its number, which is never used again; the count */
    char over[OVER_TEXT_MAX];     /* why the broker wants no more of it */
    struct rota_child *child;     /* NULL: has ended, or was not started */
    int exit_code, signal;
    struct rota_buffer result, log;
    rota_time extended_at;
    struct rota_call *extend, *say;
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

static void tell(const struct rota_work *work, enum rota_log_level level, const char *phrase,
                 const struct job *job, const char *how)
{
    struct rota_job_id id = {0, 0};
    char text[ROTA_JOB_ID_TEXT];
    rota_queue_id_read(rota_str_of(job->id, sizeof job->id), &id, NULL);
    rota_log(work->options.log, rota_clock_wall(), level, phrase,
             ROTA_LOG_FACT("queue", (const char *)job->queue),
             ROTA_LOG_FACT("job", (const char *)rota_job_id_format(id, text)),
             ROTA_LOG_FACT("attempt", job->n_attempts), ROTA_LOG_FACT("number", job->attempt),
             ROTA_LOG_FACT("how", how));
}

/* --- calls --- */

/* What an answer means for an attempt. */
static enum rota_worker_answer judge(enum rota_status status)
{
    switch (status) {
    case ROTA_STATUS_OK:
        return ROTA_WORKER_YES;
    case ROTA_STATUS_ABORTED:
    case ROTA_STATUS_FAILED_PRECONDITION:
    case ROTA_STATUS_INVALID_ARGUMENT:
    case ROTA_STATUS_NOT_FOUND:
        return ROTA_WORKER_OVER;
    case ROTA_STATUS_ALREADY_EXISTS:
    case ROTA_STATUS_CANCELLED:
    case ROTA_STATUS_DATA_LOSS:
    case ROTA_STATUS_DEADLINE_EXCEEDED:
    case ROTA_STATUS_INTERNAL:
    case ROTA_STATUS_OUT_OF_RANGE:
    case ROTA_STATUS_PERMISSION_DENIED:
    case ROTA_STATUS_RESOURCE_EXHAUSTED:
    case ROTA_STATUS_UNAUTHENTICATED:
    case ROTA_STATUS_UNAVAILABLE:
    case ROTA_STATUS_UNIMPLEMENTED:
    case ROTA_STATUS_UNKNOWN:
        break;
    }
    return ROTA_WORKER_UNKNOWN;
}

/* False when it was not even begun. */
static bool call(struct node *node, const char *method, const struct rota_message_type *type,
                 const void *message, struct rota_call_options options, struct rota_call **made,
                 struct rota_error *error)
{
    struct rota_buffer buffer = {0};
    char path[64];
    snprintf(path, sizeof path, "/rota.v1.Queue/%s", method);
    rota_message_encode(type, message, &buffer);
    options.method = rota_str(path);
    options.request = rota_buffer_str(&buffer);
    enum rota_code code = buffer.failed
                              ? rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for a request")
                              : rota_channel_call(node->channel, &options, made, error);
    rota_buffer_deinit(&buffer);
    return code == ROTA_OK;
}

static struct rota_queue_about about(const struct job *job)
{
    return (struct rota_queue_about){.queue = rota_str(job->queue),
                                     .id = rota_str_of(job->id, sizeof job->id),
                                     .attempt = job->attempt};
}

/* Of a node that is away people are told once, and once that it is back. */
static void note_node(struct node *node, bool is_away, const char *why)
{
    if (node->is_away == is_away)
        return;
    node->is_away = is_away;
    rota_log(node->work->options.log, rota_clock_wall(), is_away ? ROTA_LOG_WARN : ROTA_LOG_INFO,
             is_away ? "node away" : "node back",
             ROTA_LOG_FACT("node", rota_channel_target(node->channel)), ROTA_LOG_FACT("why", why));
}

/* --- commands --- */

static void on_overflow(void *data)
{
    struct job *job = data;
    rota_worker_fsm_overflowed(&job->work->fsm, rota_clock_boot(), job->number);
    drive(job->work);
}

/* A job that was cancelled, or is somebody else's, has ended for its broker, which takes no log for
 * it any more: its lines go to our own. */
static void tell_log(const struct job *job)
{
    char line[ROTA_JOB_REASON_MAX + 1];
    struct rota_str rest = rota_buffer_str(&job->log);
    while (rest.size > 0) {
        const char *end = memchr(rest.data, '\n', rest.size);
        size_t size = end ? (size_t)(end - rest.data) : rest.size;
        snprintf(line, sizeof line, "%.*s", (int)size, rest.data);
        if (line[0])
            tell(job->work, ROTA_LOG_INFO, "job logged", job, line);
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

/* "NAME=value" without the NULs that a value may have. */
static const char *variable(struct rota_buffer *buffer, const char *name, struct rota_str value)
{
    rota_buffer_print(buffer, "%s=%.*s", name, (int)strnlen(value.data, value.size), value.data);
    rota_buffer_append_char(buffer, '\0');
    return buffer->failed ? "ROTA_NONE=" : buffer->data;
}

static void start(struct job *job, const struct rota_queue_handed *handed)
{
    struct rota_work *work = job->work;
    struct rota_error error;
    struct rota_job_id id = {0, 0};
    char text[ROTA_JOB_ID_TEXT], number[24];
    struct rota_buffer values[4] = {{0}};
    rota_queue_id_read(handed->id, &id, NULL);
    snprintf(number, sizeof number, "%llu", (unsigned long long)handed->n_attempts);
    const char *environment[] = {
        variable(&values[0], "ROTA_JOB_ID", rota_str(rota_job_id_format(id, text))),
        variable(&values[1], "ROTA_JOB_ATTEMPT", rota_str(number)),
        variable(&values[2], "ROTA_QUEUE", handed->queue),
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
    tell(work, ROTA_LOG_DEBUG, "job begins", job, number);
    if (rota_child_start(work->loop, work->options.guard, &options, &job->child, &error)) {
        tell(work, ROTA_LOG_ERROR, "job not started", job, error.text);
        rota_buffer_append_str(&job->log, rota_str(error.text));
        rota_worker_fsm_not_started(&work->fsm, rota_clock_boot(), job->number);
    }
    for (size_t i = 0; i < 4; i++)
        rota_buffer_deinit(&values[i]);
}

/* --- polls --- */

static void take(struct node *node, const struct rota_queue_handed *handed)
{
    struct rota_work *work = node->work;
    bool is_to_start;
    struct job *job = calloc(1, sizeof *job);
    if (!job || handed->id.size != ROTA_QUEUE_ID_SIZE ||
        handed->queue.size > ROTA_JOB_QUEUE_NAME_MAX) {
        free(job); /* its lease will be over */
        return;
    }
    uint32_t number = rota_worker_fsm_taken(&work->fsm, rota_clock_boot(), node->number,
                                            rota_queue_from_ms(handed->timeout_ms), &is_to_start);
    if (number == ROTA_WORKER_FSM_NONE) {
        free(job);
        return;
    }
    job->work = work;
    job->number = number;
    job->node = node;
    job->attempt = handed->attempt;
    job->n_attempts = handed->n_attempts;
    snprintf(job->queue, sizeof job->queue, "%.*s", ROTA_STR_ARGS(handed->queue));
    memcpy(job->id, handed->id.data, sizeof job->id);
    work->jobs[number] = job;
    if (is_to_start)
        start(job, handed);
}

static void on_polled(void *data, struct rota_call *ended, const struct rota_call_result *result)
{
    struct node *node = data;
    struct rota_queue_list reply = {0};
    struct rota_arena arena = {0};
    struct rota_error error;
    enum rota_worker_answer answer =
        result->status == ROTA_STATUS_OK ? ROTA_WORKER_YES : ROTA_WORKER_UNKNOWN;
    (void)ended;
    node->poll = NULL;
    if (answer == ROTA_WORKER_YES &&
        rota_message_decode(&ROTA_QUEUE_POLL_REPLY, result->message, &reply, &arena, &error)) {
        answer = ROTA_WORKER_UNKNOWN;
        reply.items.n = 0;
        note_node(node, true, error.text);
    } else {
        char why[200];
        snprintf(why, sizeof why, "%s%s%.*s", rota_status_name(result->status),
                 result->text.size ? ": " : "",
                 (int)(result->text.size > 150 ? 150 : result->text.size),
                 result->text.size ? result->text.data : "");
        note_node(node, answer != ROTA_WORKER_YES, why);
    }
    rota_worker_fsm_polled(&node->work->fsm, rota_clock_boot(), node->number, answer,
                           reply.items.n);
    for (size_t i = 0; i < reply.items.n; i++)
        take(node, &((const struct rota_queue_handed *)reply.items.items)[i]);
    rota_arena_deinit(&arena);
    drive(node->work);
}

static void poll_node(struct rota_work *work, struct node *node, uint32_t n_jobs)
{
    const struct rota_work_options *options = &work->options;
    struct rota_queue_poll request = {
        .queues = {.items = options->queues, .n = options->n_queues},
        .can = {.items = options->can, .n = options->n_can},
        .max_jobs = n_jobs,
        .lease_ms = rota_queue_to_ms(work->fsm.options.lease),
        .wait_ms = rota_queue_to_ms(POLL_WAIT),
        .worker = rota_str(options->name),
    };
    struct rota_call_options with = {
        .timeout = POLL_WAIT + POLL_SPARE, .on_end = on_polled, .data = node};
    struct rota_error error;
    if (call(node, "Poll", &ROTA_QUEUE_POLL, &request, with, &node->poll, &error))
        return;
    note_node(node, true, error.text);
    rota_worker_fsm_polled(&work->fsm, rota_clock_boot(), node->number, ROTA_WORKER_UNKNOWN, 0);
}

/* --- what is said of a job --- */

/* The broker says it best: that the job is cancelled, or what else has become of it. */
static void note_over(struct job *job, const struct rota_call_result *result)
{
    if (result->text.size > 0)
        snprintf(
            job->over, sizeof job->over, "%.*s",
            (int)(result->text.size < sizeof job->over ? result->text.size : sizeof job->over - 1),
            result->text.data);
    else
        snprintf(job->over, sizeof job->over, "%s", rota_status_name(result->status));
}

static void on_extended(void *data, struct rota_call *ended, const struct rota_call_result *result)
{
    struct job *job = data;
    enum rota_worker_answer answer = judge(result->status);
    (void)ended;
    job->extend = NULL;
    note_node(job->node, answer == ROTA_WORKER_UNKNOWN, rota_status_name(result->status));
    if (answer == ROTA_WORKER_OVER && job->child) {
        note_over(job, result);
        tell(job->work, ROTA_LOG_INFO, "job is over", job, job->over);
    }
    rota_worker_fsm_extended(&job->work->fsm, rota_clock_boot(), job->number, job->extended_at,
                             answer);
    drive(job->work);
}

/* The last line of the log that is whole: how far it has got. */
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
    struct rota_queue_about request = about(job);
    struct rota_call_options with = {
        .timeout = work->fsm.options.lease / 4, .on_end = on_extended, .data = job};
    if (job->child)
        request.bytes = last_line(rota_child_log(job->child));
    job->extended_at = rota_clock_boot();
    request.lease_ms = rota_queue_to_ms(work->fsm.options.lease);
    if (!call(job->node, "Extend", &ROTA_QUEUE_EXTEND, &request, with, &job->extend, NULL))
        rota_worker_fsm_extended(&work->fsm, rota_clock_boot(), job->number, job->extended_at,
                                 ROTA_WORKER_UNKNOWN);
}

static void on_said(void *data, struct rota_call *ended, const struct rota_call_result *result)
{
    struct job *job = data;
    enum rota_worker_answer answer = judge(result->status);
    (void)ended;
    job->say = NULL;
    note_node(job->node, answer == ROTA_WORKER_UNKNOWN, rota_status_name(result->status));
    if (answer == ROTA_WORKER_OVER) {
        note_over(job, result);
        tell(job->work, ROTA_LOG_WARN, "job was not ours to end", job, job->over);
    } else if (answer == ROTA_WORKER_YES)
        tell(job->work, ROTA_LOG_DEBUG, "job ended", job, rota_status_name(result->status));
    rota_worker_fsm_said(&job->work->fsm, rota_clock_boot(), job->number, answer);
    drive(job->work);
}

/* One sentence, and below it the end of the log. */
static struct rota_str reason(const struct rota_work *work, const struct job *job,
                              char text[ROTA_JOB_REASON_MAX])
{
    const char *why = rota_worker_stop_text(work->fsm.attempts[job->number].why);
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

/* A command that fails is told of to whoever looks at the worker, too. */
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
    tell(work, is_failed ? ROTA_LOG_INFO : ROTA_LOG_DEBUG, "job ends", job,
         is_failed ? how : rota_job_cause_text(cause));
}

static void say(struct rota_work *work, struct job *job, const struct rota_worker_action *action)
{
    struct rota_queue_about request = about(job);
    struct rota_call_options with = {.timeout = SAY_TIMEOUT, .on_end = on_said, .data = job};
    char text[ROTA_JOB_REASON_MAX];
    bool is_done = action->cause == ROTA_JOB_CAUSE_DONE;
    request.bytes = is_done ? rota_buffer_str(&job->result) : reason(work, job, text);
    request.log = rota_buffer_str(&job->log);
    request.is_final = action->cause == ROTA_JOB_CAUSE_REFUSED;
    request.is_given_back = action->cause == ROTA_JOB_CAUSE_GIVEN_BACK;
    request.retry_after_ms = rota_queue_to_ms(action->retry_after);
    tell_end(work, job, action->cause, request.bytes);
    if (!call(job->node, is_done ? "Complete" : "Fail",
              is_done ? &ROTA_QUEUE_COMPLETE : &ROTA_QUEUE_FAIL, &request, with, &job->say, NULL))
        rota_worker_fsm_said(&work->fsm, rota_clock_boot(), job->number, ROTA_WORKER_UNKNOWN);
}

static void forget(struct rota_work *work, uint32_t number)
{
    struct job *job = work->jobs[number];
    work->jobs[number] = NULL;
    if (job->extend)
        rota_call_cancel(job->extend);
    if (job->say)
        rota_call_cancel(job->say);
    rota_child_free(job->child);
    rota_buffer_deinit(&job->result);
    rota_buffer_deinit(&job->log);
    free(job);
}

/* --- the machine --- */

static void unpoll(struct node *node)
{
    if (node->poll)
        rota_call_cancel(node->poll);
    node->poll = NULL;
}

static const char *why_stopped(const struct rota_work *work, const struct job *job)
{
    enum rota_worker_stop why = work->fsm.attempts[job->number].why;
    bool is_told = why == ROTA_WORKER_STOP_OVER && job->over[0];
    return is_told ? job->over : rota_worker_stop_text(why);
}

static void carry_out(struct rota_work *work, const struct rota_worker_action *action)
{
    struct job *job = action->attempt == ROTA_WORKER_FSM_NONE ? NULL : work->jobs[action->attempt];
    switch (action->type) {
    case ROTA_WORKER_DO_POLL:
        poll_node(work, &work->nodes[action->node], action->n_jobs);
        break;
    case ROTA_WORKER_DO_UNPOLL:
        unpoll(&work->nodes[action->node]);
        break;
    case ROTA_WORKER_DO_EXTEND:
        extend(work, job);
        break;
    case ROTA_WORKER_DO_TELL_END:
    case ROTA_WORKER_DO_KILL:
        tell(work, ROTA_LOG_INFO, "job stopped", job, why_stopped(work, job));
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

/* The one caller of what is to be done; what that brings about is looked at in another round. */
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
    struct rota_channel_options with = {
        .tls = work->options.tls,
        .insecure = work->options.is_insecure,
        .message_max = MESSAGE_MAX,
        .backoff_max = 2 * ROTA_SEC, /* a broker that is back waits for us, but not for long */
        .keepalive_interval = 30 * ROTA_SEC,
        .keepalive_timeout = 30 * ROTA_SEC,
    };
    enum rota_code code = ROTA_OK;
    for (uint32_t i = 0; i < work->fsm.options.n_nodes && !code; i++) {
        work->nodes[i] = (struct node){.work = work, .number = i};
        code = rota_channel_open(work->loop, work->options.nodes[i], &with, &work->nodes[i].channel,
                                 error);
    }
    return code;
}

enum rota_code rota_work_open(uv_loop_t *loop, const struct rota_work_options *options,
                              struct rota_work **work, struct rota_error *error)
{
    struct rota_work *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for a worker");
    made->loop = loop;
    made->options = *options;
    uv_timer_init(loop, &made->timer);
    made->timer.data = made;
    enum rota_code code = ROTA_ERR_NO_MEMORY;
    if (!rota_worker_fsm_init(&made->fsm, &options->worker) ||
        !(made->jobs = calloc(made->fsm.n_places, sizeof *made->jobs)))
        rota_error_set(error, code, "no memory for %u jobs", options->worker.slots);
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
    for (size_t i = 0; work->jobs && i < work->fsm.n_places; i++)
        if (work->jobs[i])
            forget(work, (uint32_t)i);
    for (uint32_t i = 0; i < ROTA_WORKER_FSM_NODES_MAX; i++)
        rota_channel_close(work->nodes[i].channel);
    rota_worker_fsm_deinit(&work->fsm);
    free(work->jobs);
    uv_close((uv_handle_t *)&work->timer, on_closed);
}
