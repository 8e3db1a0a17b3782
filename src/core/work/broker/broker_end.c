#include "core/work/broker/broker_inside.h"

#include <stdio.h>

/* Ask a worker to stop an attempt that is no longer needed. */
static void cancel_at(struct rota_broker *broker, const struct rota_job *job, uint64_t session,
                      enum rota_job_cause cause, uint64_t number)
{
    if (!session)
        return; /* it gives its own delay */
    struct rota_work_effect *effect = rota_broker_emit(broker, ROTA_WORK_DO_CANCEL, job);
    effect->session = session;
    effect->cause = cause;
    effect->number = number;
}

static void tell_ended(struct rota_broker *broker, const struct rota_job *job,
                       enum rota_job_cause cause, uint64_t number)
{
    if (broker->output.is_unwatched)
        return;
    struct rota_work_effect *effect = rota_broker_emit(broker, ROTA_WORK_TELL_ENDED, job);
    effect->number = number;
    effect->cause = cause;
}

static bool is_said_by_worker(enum rota_job_cause cause)
{
    return cause == ROTA_JOB_CAUSE_DONE || cause == ROTA_JOB_CAUSE_FAILED ||
           cause == ROTA_JOB_CAUSE_REFUSED || cause == ROTA_JOB_CAUSE_GIVEN_BACK;
}

/* Only attempts in which a worker tried count. */
static bool is_counted(enum rota_job_cause cause)
{
    return cause != ROTA_JOB_CAUSE_GIVEN_BACK && cause != ROTA_JOB_CAUSE_HANDED_OVER;
}

/* The workers that died at a job, as a record has them. */
static struct rota_work_record killed_of(const struct rota_job_extra *extra)
{
    const struct rota_job_story *story = extra->story;
    return (struct rota_work_record){
        .weight = story ? story->n_killed : 0,
        .key = rota_str_of(story ? story->killed : NULL, story ? story->killed_size : 0)};
}

uint64_t rota_broker_end_finish(struct rota_broker *broker, uint32_t job_number,
                                enum rota_job_state state, enum rota_job_cause cause,
                                struct rota_str reason, char *result, size_t result_size)
{
    struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    struct rota_work_queue *queue = rota_broker_queue_of(broker, job);
    uint64_t session = job->state == ROTA_JOB_RUNNING ? extra->session : 0;
    rota_broker_job_leave(broker, job_number);
    if (session)
        rota_broker_worker_release(broker, job_number);

    struct rota_work_record *record = state == ROTA_JOB_DONE
                                          ? rota_broker_note(broker, ROTA_WORK_END, job)
                                          : rota_broker_write(broker, ROTA_WORK_END, job);
    record->state = state;
    record->cause = cause;
    record->reason = reason;
    record->attempt = extra->attempt;
    record->n_attempts = extra->n_attempts;
    record->bytes = rota_str_of(result, result_size);
    if (state == ROTA_JOB_DEAD) {
        record->weight = killed_of(extra).weight;
        record->key = killed_of(extra).key;
    }
    rota_broker_job_end(broker, job_number, record, result);
    queue->n_done += state == ROTA_JOB_DONE;
    queue->n_dead += state == ROTA_JOB_DEAD;
    record->reason = rota_str_of(extra->reason, extra->reason_size); /* our copy now */
    uint64_t number = record->number;

    tell_ended(broker, job, cause, number);
    if (!is_said_by_worker(cause) && cause != ROTA_JOB_CAUSE_LOST)
        cancel_at(broker, job, session, cause, number);
    return number;
}

/* Twice as long with each attempt, jittered by a fifth. */
static rota_time backoff_of(struct rota_broker *broker, const struct rota_job_extra *extra)
{
    rota_time wait = extra->backoff ? extra->backoff : ROTA_JOB_BACKOFF_FIRST;
    rota_time max = extra->backoff_max ? extra->backoff_max : ROTA_JOB_BACKOFF_MAX;
    for (uint32_t i = 1; i < extra->n_attempts && wait < max; i++)
        wait = rota_time_add(wait, wait);
    wait = rota_time_min(wait, max);
    wait = wait / 5 * 4 + (rota_time)rota_random_below(&broker->random, (uint64_t)wait / 5 * 2 + 1);
    return rota_time_min(wait, max);
}

/* A returned job waits, too, or the worker that can't do it would get it again and again. */
static rota_time delay_of(struct rota_broker *broker, const struct rota_job_extra *extra,
                          enum rota_job_cause cause, rota_time retry_after)
{
    if (retry_after > 0)
        return retry_after;
    return cause == ROTA_JOB_CAUSE_HANDED_OVER ? 0 : backoff_of(broker, extra);
}

static bool is_out_of_attempts(const struct rota_job_extra *extra)
{
    uint32_t max = extra->max_attempts ? extra->max_attempts : ROTA_JOB_ATTEMPTS_DEFAULT;
    return extra->n_attempts >= max;
}

/* The last reason in a job's history. */
static struct rota_str kept_reason(const struct rota_job_extra *extra, struct rota_str reason)
{
    const struct rota_job_story *story = extra->story;
    const struct rota_job_moment *last =
        story && story->size ? &story->moments[story->size - 1] : NULL;
    if (!last || last->reason_size != reason.size)
        return rota_str_of("", 0);
    return rota_str_of(last->reason, last->reason_size);
}

/* What follows an attempt that is over. */
struct sequel {
    enum rota_job_cause cause;
    struct rota_str reason;
    rota_time delay;
    bool is_counted;
    struct rota_work_record killed; /* `weight` and `key` of it */
};

static uint64_t come_back(struct rota_broker *broker, uint32_t job_number,
                          const struct sequel *sequel)
{
    struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    enum rota_job_cause cause = sequel->cause;
    struct rota_str reason = sequel->reason;
    uint64_t session = extra->session;
    rota_time delay = sequel->delay;
    if (session)
        rota_broker_worker_release(broker, job_number);

    struct rota_work_record *record = rota_broker_write(broker, ROTA_WORK_RETRY, job);
    record->attempt = extra->attempt;
    record->n_attempts = extra->n_attempts - (sequel->is_counted || !extra->n_attempts ? 0 : 1);
    record->cause = cause;
    record->reason = reason;
    record->weight = sequel->killed.weight;
    record->key = sequel->killed.key;
    record->not_before = delay > 0 ? rota_time_add(broker->now.wall, delay) : 0;
    rota_broker_job_back(broker, job_number, record);
    rota_broker_queue_of(broker, job)->n_retries++;
    record->reason = kept_reason(extra, reason);
    record->key = killed_of(extra).key;
    uint64_t number = record->number;

    extra->wait_until = delay > 0 ? rota_time_add(broker->now.boot, delay) : ROTA_TIME_NEVER;
    rota_broker_timer_set(broker, job);
    rota_broker_job_enter(broker, job_number);
    rota_broker_tell(broker, job, number);
    if (cause == ROTA_JOB_CAUSE_TIMED_OUT || cause == ROTA_JOB_CAUSE_HANDED_OVER)
        cancel_at(broker, job, session, cause, number);
    return number;
}

uint64_t rota_broker_end_attempt_over(struct rota_broker *broker, uint32_t job_number,
                                      enum rota_job_cause cause, struct rota_str reason,
                                      rota_time retry_after)
{
    const struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    const struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    if (cause == ROTA_JOB_CAUSE_REFUSED || (is_counted(cause) && is_out_of_attempts(extra)))
        return rota_broker_end_finish(broker, job_number, ROTA_JOB_DEAD, cause, reason, NULL, 0);
    return come_back(broker, job_number,
                     &(struct sequel){.cause = cause,
                                      .reason = reason,
                                      .delay = delay_of(broker, extra, cause, retry_after),
                                      .is_counted = is_counted(cause),
                                      .killed = killed_of(extra)});
}

/* --- attempts that are lost --- */

/* One more worker has died at the job: `record` has how many, and their names in `text`. */
static void add_killed(const struct rota_job_extra *extra, char text[ROTA_JOB_KEY_MAX],
                       struct rota_work_record *record)
{
    *record = killed_of(extra);
    struct rota_str name = extra->worker ? rota_str_of(extra->worker->bytes, extra->worker->size)
                                         : rota_str("unknown");
    int size = snprintf(text, ROTA_JOB_KEY_MAX, "%.*s%s%.*s", ROTA_STR_ARGS(record->key),
                        record->key.size ? ", " : "", ROTA_STR_ARGS(name));
    if (size >= ROTA_JOB_KEY_MAX) { /* the first ones are kept */
        static const char MORE[] = ", ...";
        size_t kept = record->key.size;
        bool is_marked =
            kept >= sizeof MORE - 1 &&
            memcmp(record->key.data + kept - (sizeof MORE - 1), MORE, sizeof MORE - 1) == 0;
        size = (int)kept;
        if (!is_marked && kept + sizeof MORE <= ROTA_JOB_KEY_MAX)
            size += snprintf(text + kept, ROTA_JOB_KEY_MAX - kept, "%s", MORE);
    }
    record->key = rota_str_of(text, (size_t)size);
    record->weight++;
}

static uint64_t lose_by_death(struct rota_broker *broker, uint32_t job_number,
                              struct rota_job_extra *extra, const char *reason)
{
    struct rota_work_queue *queue =
        rota_broker_queue_of(broker, rota_job_at(&broker->jobs, job_number));
    char names[ROTA_JOB_KEY_MAX], text[ROTA_JOB_KEY_MAX + 64];
    struct sequel sequel = {.cause = ROTA_JOB_CAUSE_LOST,
                            .reason = rota_str(reason),
                            .delay = backoff_of(broker, extra),
                            .is_counted = true};
    add_killed(extra, names, &sequel.killed);
    uint32_t n = sequel.killed.weight;
    uint32_t max = queue->kills_max ? queue->kills_max : broker->options.kills_max;
    if (n < max && !is_out_of_attempts(extra))
        return come_back(broker, job_number, &sequel);
    rota_broker_job_set_killed(broker, extra, &sequel.killed);
    if (n >= max)
        snprintf(text, sizeof text, "killed %u worker%s: %.*s", n, n == 1 ? "" : "s",
                 ROTA_STR_ARGS(sequel.killed.key));
    else
        snprintf(text, sizeof text, "%s", reason);
    queue->n_quarantined += n >= max;
    return rota_broker_end_finish(broker, job_number, ROTA_JOB_DEAD, ROTA_JOB_CAUSE_LOST,
                                  rota_str(text), NULL, 0);
}

uint64_t rota_broker_end_attempt_lost(struct rota_broker *broker, uint32_t job_number,
                                      enum rota_work_loss loss, const char *reason)
{
    const struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    bool is_ours = loss == ROTA_LOSS_OURS || extra->is_unsent;
    if (loss == ROTA_LOSS_DIED && !is_ours)
        return lose_by_death(broker, job_number, extra, reason);
    if (!is_ours && is_out_of_attempts(extra))
        return rota_broker_end_finish(broker, job_number, ROTA_JOB_DEAD, ROTA_JOB_CAUSE_LOST,
                                      rota_str(reason), NULL, 0);
    return come_back(broker, job_number,
                     &(struct sequel){.cause = ROTA_JOB_CAUSE_LOST,
                                      .reason = rota_str(reason),
                                      .is_counted = !is_ours,
                                      .killed = killed_of(extra)});
}

bool rota_broker_end_may_resume(const struct rota_broker *broker, const struct rota_job *job,
                                uint64_t attempt)
{
    const struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    if (job->state == ROTA_JOB_RUNNING || !rota_broker_is_attempt_open(job, extra) ||
        extra->attempt != attempt)
        return false;
    uint32_t partition = rota_job_partition(&broker->jobs, job);
    return rota_broker_may_dispatch(broker) &&
           rota_broker_partition(rota_broker_queue_of(broker, job), partition)->is_open;
}

struct rota_work_name *rota_broker_end_resumes_for(const struct rota_job_extra *extra)
{
    const struct rota_job_story *story = extra->story;
    for (uint32_t i = story ? story->size : 0; i-- > 0;)
        if (story->moments[i].worker && story->moments[i].attempt == extra->attempt)
            return story->moments[i].worker;
    return NULL;
}

/* The worker of the last attempt that was lost did not die. */
static void take_back_death(struct rota_broker *broker, struct rota_job_extra *extra)
{
    struct rota_work_record killed = killed_of(extra);
    if (!extra->story || !extra->story->was_killed)
        return;
    killed.weight--;
    if (killed.key.size > extra->story->killed_before)
        killed.key.size = extra->story->killed_before;
    rota_broker_job_set_killed(broker, extra, &killed);
}

/* Only the worker that has an attempt knows its number. So a late report, after the job was
 * handed out again, still shows that this worker is alive. */
static void hear_late(struct rota_broker *broker, const struct rota_job *job, uint64_t attempt)
{
    struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    if (job->state == ROTA_JOB_RUNNING && extra && extra->ended == attempt &&
        extra->ended_cause == ROTA_JOB_CAUSE_LOST)
        take_back_death(broker, extra);
}

void rota_broker_end_resume(struct rota_broker *broker, uint32_t job_number)
{
    struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    struct rota_work_name *worker = rota_broker_end_resumes_for(extra);
    uint32_t n_attempts = extra->n_attempts;
    if (extra->story && extra->story->was_ours)
        n_attempts++; /* it did not count */
    take_back_death(broker, extra);
    rota_broker_job_leave(broker, job_number);
    if (worker)
        worker->n_refs++;
    rota_broker_job_start(broker, job_number, extra->attempt, n_attempts, worker, broker->stamp);
    extra->wait_until = ROTA_TIME_NEVER;
    extra->handed = (uint32_t)broker->matching.n_handed;
    rota_broker_timer_limit_attempt(broker, extra);
    extra->lease_until = rota_time_add(broker->now.boot, broker->options.grace);
    rota_broker_timer_set(broker, job);
    struct rota_work_record *record = rota_broker_write(broker, ROTA_WORK_START, job);
    record->attempt = extra->attempt;
    record->n_attempts = extra->n_attempts;
    if (worker)
        record->worker = rota_str_of(worker->bytes, worker->size);
    record->weight = killed_of(extra).weight;
    record->key = killed_of(extra).key;
    rota_broker_tell(broker, job, 0);
}

/* --- reports of workers --- */

enum rota_code rota_broker_end_attempt_check(const struct rota_attempt_end *end,
                                             struct rota_error *error)
{
    if (!is_said_by_worker(end->cause))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a worker must end an attempt as done, failed, refused or returned");
    if (end->bytes.size > ROTA_JOB_PAYLOAD_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "the result has %zu bytes, more than %d",
                              end->bytes.size, ROTA_JOB_PAYLOAD_MAX);
    if (end->retry_after < 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "retry_after is negative");
    return ROTA_OK;
}

static enum rota_code refuse_stale(const struct rota_job *job, uint64_t attempt,
                                   struct rota_error *error)
{
    char text[ROTA_JOB_ID_TEXT];
    if (job->state == ROTA_JOB_CANCELLED)
        return rota_error_set(error, ROTA_ERR_STALE, "job %s is cancelled",
                              rota_job_id_format(job->id, text));
    return rota_error_set(error, ROTA_ERR_STALE,
                          "attempt %llu of job %s is not the running one: the job is %s",
                          (unsigned long long)attempt, rota_job_id_format(job->id, text),
                          rota_job_state_name((enum rota_job_state)job->state));
}

/* Whether the attempt runs, and is that of the caller. */
static bool is_running(const struct rota_broker *broker, const struct rota_job *job,
                       const struct rota_job_extra *extra, uint64_t attempt, uint64_t session)
{
    if (job->state != ROTA_JOB_RUNNING || !extra || extra->attempt != attempt)
        return false;
    const struct rota_work_worker *holder = rota_broker_worker(broker, extra->session);
    return session == ROTA_BROKER_NO_SESSION ? !holder || holder->is_poll
                                             : !session || extra->session == session;
}

static bool is_of_session(uint64_t session)
{
    return session && session != ROTA_BROKER_NO_SESSION;
}

/* The reason why the last attempt ended. */
static struct rota_str ended_reason(const struct rota_job_extra *extra)
{
    const struct rota_job_story *story = extra->story;
    for (uint32_t i = story ? story->size : 0; i-- > 0;) {
        const struct rota_job_moment *moment = &story->moments[i];
        if (moment->attempt == extra->ended && moment->state != ROTA_JOB_RUNNING)
            return rota_str_of(moment->reason, moment->reason_size);
    }
    return rota_str_of(extra->reason, extra->reason_size);
}

static bool was_said_before(const struct rota_job_extra *extra, const struct rota_attempt_end *end,
                            struct rota_str reason)
{
    if (!extra || extra->ended != end->attempt || !end->attempt ||
        extra->ended_cause != (uint8_t)end->cause)
        return false;
    return end->cause == ROTA_JOB_CAUSE_DONE
               ? rota_str_is_equal(end->bytes, rota_str_of(extra->result, extra->result_size))
               : rota_str_is_equal(reason, ended_reason(extra));
}

enum rota_code rota_broker_end(struct rota_broker *broker, struct rota_work_now now,
                               const struct rota_attempt_end *end, uint64_t *number,
                               struct rota_error *error)
{
    uint32_t job_number;
    char room[ROTA_JOB_REASON_MAX];
    struct rota_error why; /* set if it fails */
    struct rota_str reason =
        end->reason.size ? rota_job_reason_cut(end->reason, room) : rota_str_of(NULL, 0);
    rota_broker_at(broker, now);
    rota_broker_ended_fetch_oldest(broker);
    enum rota_code bad = rota_broker_end_attempt_check(end, &why);
    enum rota_code code =
        rota_broker_queue_want_job(broker, end->queue, end->id, &job_number, error);
    if (code && !bad)
        return code;
    const struct rota_job *job = code ? NULL : rota_job_at(&broker->jobs, job_number);
    const struct rota_job_extra *extra = job ? rota_job_extra_of(&broker->jobs, job) : NULL;
    if (!bad && was_said_before(extra, end, reason)) {
        *number = extra->ended_by;
        return ROTA_OK;
    }
    bool is_its = job && is_running(broker, job, extra, end->attempt, end->session);
    if (!is_its && !bad && !is_of_session(end->session) &&
        rota_broker_end_may_resume(broker, job, end->attempt) && rota_broker_ready(broker, NULL)) {
        rota_broker_end_resume(broker, job_number); /* the broker gave up on it too early */
        is_its = true;
    }
    if (bad && (!is_its || !is_of_session(end->session)))
        return rota_error_set(error, bad, "%s", why.text);
    if (!is_its) {
        hear_late(broker, job, end->attempt);
        return refuse_stale(job, end->attempt, error);
    }

    char *result = NULL;
    if (!rota_broker_ready(broker, rota_broker_lane_of(broker, job)) ||
        (!bad && end->cause == ROTA_JOB_CAUSE_DONE && end->bytes.size > 0 &&
         !(result = rota_broker_job_copy(broker, end->bytes))))
        return rota_error_no_memory(error, "to end a job");
    struct rota_work_worker *worker = rota_broker_worker(broker, extra->session);
    if (bad)
        *number = rota_broker_end_attempt_over(broker, job_number, ROTA_JOB_CAUSE_FAILED,
                                               rota_str(why.text), 0);
    else if (end->cause == ROTA_JOB_CAUSE_DONE)
        *number = rota_broker_end_finish(broker, job_number, ROTA_JOB_DONE, end->cause, reason,
                                         result, result ? end->bytes.size : 0);
    else
        *number =
            rota_broker_end_attempt_over(broker, job_number, end->cause, reason, end->retry_after);
    rota_broker_ended_forget(broker, 0);
    rota_broker_match(broker);
    if (worker)
        rota_broker_match_serve(broker, worker);
    return bad ? rota_error_set(error, bad, "%s", why.text) : ROTA_OK;
}

enum rota_code rota_broker_lose(struct rota_broker *broker, struct rota_work_now now,
                                struct rota_str queue, struct rota_job_id id, uint64_t attempt,
                                uint64_t *number, struct rota_error *error)
{
    uint32_t job_number;
    rota_broker_at(broker, now);
    enum rota_code code = rota_broker_queue_want_job(broker, queue, id, &job_number, error);
    if (code)
        return code;
    const struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    const struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    if (extra && attempt && extra->ended == attempt && extra->ended_cause == ROTA_JOB_CAUSE_LOST) {
        *number = extra->ended_by;
        return ROTA_OK; /* reported before, or detected here */
    }
    if (!is_running(broker, job, extra, attempt, ROTA_BROKER_NO_SESSION))
        return refuse_stale(job, attempt, error);
    if (!rota_broker_ready(broker, rota_broker_lane_of(broker, job)))
        return rota_error_no_memory(error, "to end a job");
    *number =
        rota_broker_end_attempt_lost(broker, job_number, ROTA_LOSS_DIED, "its worker was lost");
    rota_broker_ended_forget(broker, 0);
    rota_broker_match(broker);
    return ROTA_OK;
}

enum rota_code rota_broker_extend(struct rota_broker *broker, struct rota_work_now now,
                                  struct rota_str queue, struct rota_job_id id, uint64_t attempt,
                                  uint64_t session, rota_time lease, struct rota_str progress,
                                  struct rota_error *error)
{
    uint32_t job_number;
    char room[ROTA_JOB_REASON_MAX];
    progress = rota_job_reason_cut(progress, room);
    rota_broker_at(broker, now);
    enum rota_code code = rota_broker_queue_want_job(broker, queue, id, &job_number, error);
    if (code)
        return code;
    struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    if (!is_of_session(session) && rota_broker_end_may_resume(broker, job, attempt) &&
        rota_broker_ready(broker, NULL))
        rota_broker_end_resume(broker, job_number);
    if (!is_running(broker, job, extra, attempt, session)) {
        hear_late(broker, job, attempt);
        return refuse_stale(job, attempt, error);
    }
    char *copy = NULL;
    if (!rota_broker_ready(broker, NULL) ||
        (progress.size > 0 && !(copy = rota_broker_job_copy(broker, progress))))
        return rota_error_no_memory(error, "for the progress of a job");
    if (copy) {
        rota_broker_job_discard_copy(broker, extra->progress, extra->progress_size);
        extra->progress = copy;
        extra->progress_size = (uint16_t)progress.size;
    }
    if (lease > 0 && !extra->session)
        extra->lease = lease;
    lease = extra->lease || extra->session ? extra->lease : broker->options.grace;
    extra->lease_until = lease ? rota_time_add(broker->now.boot, lease) : ROTA_TIME_NEVER;
    rota_broker_timer_set(broker, job);
    rota_broker_tell(broker, job, 0);
    return ROTA_OK;
}

/* --- time --- */

static void on_attempt_time(struct rota_broker *broker, uint32_t job_number,
                            struct rota_job_extra *extra)
{
    if (extra->attempt_until <= broker->now.boot) {
        rota_broker_end_attempt_over(broker, job_number, ROTA_JOB_CAUSE_TIMED_OUT,
                                     rota_str("the attempt timed out"), 0);
        return;
    }
    if (broker->now.boot <
        broker->workers.spare_until) { /* a worker could not have extended it meanwhile */
        extra->lease_until = broker->workers.spare_until;
        rota_broker_timer_set(broker, rota_job_at(&broker->jobs, job_number));
        return;
    }
    if (extra->lease > 0)
        rota_broker_end_attempt_lost(broker, job_number, ROTA_LOSS_DIED, "its lease expired");
    else
        rota_broker_end_attempt_lost(broker, job_number, ROTA_LOSS_OURS,
                                     "its worker did not reconnect");
}

bool rota_broker_end_on_time(struct rota_broker *broker, uint32_t job_number)
{
    struct rota_job *job = rota_job_at(&broker->jobs, job_number);
    struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
    if (!rota_broker_ready(broker, rota_broker_lane_of(broker, job)))
        return false;
    const struct rota_work_partition *partition = rota_broker_partition(
        rota_broker_queue_of(broker, job), rota_job_partition(&broker->jobs, job));
    if (!partition->is_open) { /* another broker decides; its timer is set when it is ours again */
        rota_broker_timer_drop(broker, job);
        return true;
    }
    struct rota_work_worker *worker = rota_broker_worker(broker, extra->session);
    bool is_running = job->state == ROTA_JOB_RUNNING;
    if (extra->deadline_at <= broker->now.boot) {
        rota_broker_end_finish(broker, job_number, ROTA_JOB_DEAD, ROTA_JOB_CAUSE_DEADLINE,
                               rota_str(is_running ? "not completed before its deadline"
                                                   : "not started before its deadline"),
                               NULL, 0);
    } else if (is_running) {
        on_attempt_time(broker, job_number, extra);
    } else {
        rota_broker_job_set_state(broker, job, ROTA_JOB_WAITING);
        extra->wait_until = ROTA_TIME_NEVER;
        rota_broker_timer_set(broker, job);
        rota_broker_job_enter(broker, job_number);
        rota_broker_tell(broker, job, 0);
    }
    if (is_running && worker)
        rota_broker_match_offer(broker, worker);
    return true;
}
