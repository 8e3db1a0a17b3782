#include "core/work/broker/broker_inside.h"

#include "base/quote.h"

#include <stdio.h>

/* --- jobs --- */

static struct rota_str name_of(const struct rota_work_name *name)
{
    return name ? rota_str_of(name->bytes, name->size) : rota_str_of("", 0);
}

static size_t add_moments(const struct rota_job_extra *extra, struct rota_job_event *events)
{
    size_t n = 0;
    for (uint32_t i = 0; extra->story && i < extra->story->size; i++) {
        const struct rota_job_moment *moment = &extra->story->moments[i];
        events[n++] = (struct rota_job_event){
            .at = moment->at,
            .state = (enum rota_job_state)moment->state,
            .cause = (enum rota_job_cause)moment->cause,
            .attempt = moment->attempt,
            .worker = name_of(moment->worker),
            .reason = rota_str_of(moment->reason, moment->reason_size),
        };
    }
    return n;
}

/* How it was added. Its start time is not kept beyond its first attempt. */
static struct rota_job_event first_event(struct rota_broker *broker, const struct rota_job *job,
                                         const struct rota_job_extra *extra)
{
    struct rota_job_event event = {.at = job->enqueued_at, .state = ROTA_JOB_WAITING};
    char at[ROTA_TIME_TEXT_MAX];
    if (!extra || !extra->is_put_off)
        return event;
    event.state = ROTA_JOB_DELAYED;
    if (extra->not_before && !extra->story) {
        snprintf(broker->shown.put_off, sizeof broker->shown.put_off, "not before %s",
                 rota_time_format(extra->not_before, at));
        event.reason = rota_str(broker->shown.put_off);
    }
    return event;
}

/* How it was added, the kept history, and its current state: the newest are shown. */
static void fill_events(struct rota_broker *broker, const struct rota_job *job,
                        const struct rota_job_extra *extra, struct rota_job_view *view)
{
    struct rota_job_event *events = broker->shown.events;
    size_t n = 0;
    events[n++] = first_event(broker, job, extra);
    if (extra)
        n += add_moments(extra, events + n);
    if (extra && extra->started)
        events[n++] = (struct rota_job_event){.at = extra->started,
                                              .state = ROTA_JOB_RUNNING,
                                              .attempt = extra->attempt,
                                              .worker = name_of(extra->worker)};
    if (extra && rota_job_state_is_ended(job->state))
        events[n++] = (struct rota_job_event){
            .at = extra->since,
            .state = (enum rota_job_state)job->state,
            .cause = (enum rota_job_cause)extra->cause,
            .attempt = extra->started ? extra->attempt : 0,
            .worker = name_of(extra->worker),
            .reason = rota_str_of(extra->reason, extra->reason_size),
        };
    view->n_events = n < ROTA_JOB_STORY_MAX ? n : ROTA_JOB_STORY_MAX;
    view->events = events + (n - view->n_events);
}

static void fill_view(const struct rota_broker *broker, uint32_t number, struct rota_job_view *view)
{
    const struct rota_job *job = rota_job_at(&broker->jobs, number);
    const struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    *view = (struct rota_job_view){
        .id = job->id, .state = (enum rota_job_state)job->state, .enqueued_at = job->enqueued_at};
    rota_broker_job_fill_spec(broker, job, &view->spec);
    fill_events((struct rota_broker *)broker, job, extra, view); /* into its scratch */
    if (!extra)
        return;
    view->ended_at = rota_job_state_is_ended(job->state) ? extra->since : 0;
    view->not_before = job->state == ROTA_JOB_DELAYED ? extra->not_before : 0;
    view->attempt = extra->attempt;
    view->is_attempt_open = rota_broker_is_attempt_open(job, extra);
    view->n_attempts = extra->n_attempts;
    view->worker = name_of(extra->worker);
    view->progress = rota_str_of(extra->progress, extra->progress_size);
    view->result = rota_str_of(extra->result, extra->result_size);
    view->reason = rota_str_of(extra->reason, extra->reason_size);
    bool is_back = job->state == ROTA_JOB_WAITING || job->state == ROTA_JOB_DELAYED;
    if (is_back && extra->story && extra->story->size > 0) {
        const struct rota_job_moment *last = &extra->story->moments[extra->story->size - 1];
        view->reason = rota_str_of(last->reason, last->reason_size);
    }
}

enum rota_code rota_broker_find(const struct rota_broker *broker, struct rota_str queue,
                                struct rota_job_id id, struct rota_job_view *view,
                                struct rota_error *error)
{
    uint32_t number;
    enum rota_code code = rota_broker_queue_want_job(broker, queue, id, &number, error);
    if (!code)
        fill_view(broker, number, view);
    return code;
}

bool rota_broker_next_job(const struct rota_broker *broker, struct rota_str queue,
                          enum rota_job_state state, size_t *place, struct rota_job_view *view)
{
    const struct rota_work_queue *found = rota_broker_queue(broker, queue);
    if (!found || *place > UINT32_MAX)
        return false;
    uint32_t i = (uint32_t)*place;
    while ((i = rota_job_table_next(&broker->jobs, i))) {
        const struct rota_job *job = rota_job_at(&broker->jobs, i);
        if (job->state == (uint8_t)state && rota_broker_queue_of(broker, job) == found)
            break;
    }
    if (!i)
        return false;
    fill_view(broker, i, view);
    *place = i;
    return true;
}

/* --- why --- */

struct capable {
    size_t n_workers, n_slots, n_free;
};

/* Polls of one name are one worker, which may also have slots that are not seen. */
static void add_class(const struct rota_work_class *class, struct capable *sum)
{
    sum->n_workers += class->n_workers - class->n_polls + class->n_pollers;
    sum->n_slots += class->n_slots + class->n_leased;
    sum->n_free += class->n_free;
}

static struct capable count_capable(const struct rota_broker *broker, uint32_t lane)
{
    struct capable found = {0};
    size_t place = 0;
    for (const struct rota_map_entry *entry;
         (entry = rota_map_next(&broker->classes.by_key, &place));) {
        const struct rota_work_class *class = entry->value;
        if (!rota_broker_class_has(class, lane))
            continue;
        add_class(class, &found);
    }
    return found;
}

/* Jobs of a queue that run on an unknown worker, and need all that this one needs: such a worker
 * could run it. */
static size_t count_unknown(const struct rota_broker *broker, const struct rota_work_queue *queue,
                            const struct rota_capability_set *needed)
{
    size_t n = 0;
    for (uint32_t i = 0;
         queue->counts[ROTA_JOB_RUNNING] > 0 && (i = rota_job_table_next(&broker->jobs, i));) {
        const struct rota_job *job = rota_job_at(&broker->jobs, i);
        if (job->state != ROTA_JOB_RUNNING || rota_broker_queue_of(broker, job) != queue)
            continue;
        const struct rota_job_extra *extra = rota_job_extra_known(&broker->jobs, job);
        const struct rota_capability_set *set =
            rota_capabilities_set_at(&broker->capabilities, rota_broker_lane_of(broker, job)->set);
        n += !extra->session && !extra->poller &&
             rota_capability_list_has(&set->list, &needed->list);
    }
    return n;
}

static void explain_incapable(const struct rota_broker *broker, const struct rota_job *job,
                              char *text, size_t size)
{
    const struct rota_capability_set *set =
        rota_capabilities_set_at(&broker->capabilities, rota_broker_lane_of(broker, job)->set);
    const struct rota_work_queue *queue = rota_broker_queue_of(broker, job);
    struct rota_str name = rota_broker_queue_name(queue);
    size_t n_running = count_unknown(broker, queue, set);
    if (n_running > 0) {
        snprintf(text, size, "waiting: every capable worker is busy (%zu such job%s running)",
                 n_running, n_running == 1 ? " is" : "s are");
        return;
    }
    if (queue->n_classes == 0 || set->list.size == 0) {
        snprintf(text, size, "waiting: no worker serves queue %.*s", ROTA_STR_ARGS(name));
        return;
    }
    bool is_one = set->list.size == 1; /* several workers may have all of it between them */
    size_t used =
        (size_t)snprintf(text, size, "waiting: no %sworker of queue %.*s has%s",
                         is_one ? "" : "single ", ROTA_STR_ARGS(name), is_one ? "" : " all of");
    for (size_t i = 0; i < set->list.size && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s %.*s", i > 0 ? "," : "",
                                 ROTA_STR_ARGS(set->names[i]));
}

static void explain_waiting(const struct rota_broker *broker, const struct rota_job *job,
                            char *text, size_t size)
{
    const struct rota_work_queue *queue = rota_broker_queue_of(broker, job);
    const struct rota_work_partition *partition =
        rota_broker_partition(queue, rota_job_partition(&broker->jobs, job));
    struct capable found = count_capable(broker, job->lane);
    if (!partition->is_open)
        snprintf(text, size, "waiting: this node does not own partition %u, or is handing it over",
                 partition->number);
    else if (broker->matching.is_on_hold)
        snprintf(text, size, "waiting: this node hands out no jobs now");
    else if ((job->flags & ROTA_JOB_UNSAFE) || !rota_broker_may_dispatch(broker))
        snprintf(text, size, "waiting: its record is not on disk yet");
    else if (queue->is_paused)
        snprintf(text, size, "waiting: queue %.*s is paused",
                 ROTA_STR_ARGS(rota_broker_queue_name(queue)));
    else if (found.n_workers == 0)
        explain_incapable(broker, job, text, size);
    else
        snprintf(text, size, "waiting: %zu capable worker%s, but no free slot (%zu slot%s)",
                 found.n_workers, found.n_workers == 1 ? "" : "s", found.n_slots,
                 found.n_slots == 1 ? "" : "s");
}

/* The remaining duration, or 0 when it is over. */
static char *format_left(const struct rota_broker *broker, struct rota_work_now now,
                         rota_time until, char text[ROTA_TIME_TEXT_MAX])
{
    rota_time boot = now.boot > broker->now.boot ? now.boot : broker->now.boot;
    rota_time left = until > boot ? until - boot : 0;
    return rota_span_format((left + ROTA_MSEC - 1) / ROTA_MSEC * ROTA_MSEC, text);
}

static void explain_running(const struct rota_broker *broker, struct rota_work_now now,
                            const struct rota_job_extra *extra, char *text, size_t size)
{
    char left[ROTA_TIME_TEXT_MAX], worker[ROTA_QUOTE_MAX];
    uint32_t max = extra->max_attempts ? extra->max_attempts : ROTA_JOB_ATTEMPTS_DEFAULT;
    rota_quote(name_of(extra->worker), worker);
    if (!extra->session && extra->lease == 0)
        snprintf(text, size,
                 "running: worker %s had it when the node stopped; the worker has %s left to "
                 "reconnect",
                 worker, format_left(broker, now, extra->lease_until, left));
    else
        snprintf(text, size, "running: attempt %u of %u, on worker %s", extra->n_attempts, max,
                 worker);
}

/* A deadline also passes when nothing runs, and before anything ever did. */
static void explain_dead(const struct rota_job_extra *extra, char *text, size_t size)
{
    char reason[ROTA_QUOTE_MAX];
    const char *cause = rota_job_cause_text((enum rota_job_cause)extra->cause);
    rota_quote(rota_str_of(extra->reason, extra->reason_size), reason);
    if (extra->cause == ROTA_JOB_CAUSE_LOST &&
        rota_str_has_prefix(rota_str_of(extra->reason, extra->reason_size), rota_str("killed ")))
        snprintf(text, size,
                 "dead: quarantined because it %.*s; run it again with `rota job retry`",
                 (int)extra->reason_size, extra->reason);
    else if (extra->cause == ROTA_JOB_CAUSE_DEADLINE && extra->n_attempts == 0)
        snprintf(text, size, "dead: its deadline passed before %s",
                 extra->attempt ? "a counted attempt started" : "the first attempt started");
    else if (extra->cause == ROTA_JOB_CAUSE_DEADLINE)
        snprintf(text, size, "dead: its deadline passed after attempt %u started",
                 extra->n_attempts);
    else if (extra->cause == ROTA_JOB_CAUSE_LOST) /* the broker's own words */
        snprintf(text, size, "dead: attempt %u was lost: %.*s", extra->n_attempts,
                 (int)extra->reason_size, extra->reason);
    else
        snprintf(text, size, "dead: attempt %u %s: %s", extra->n_attempts, cause, reason);
}

static void explain_ended(const struct rota_job *job, const struct rota_job_extra *extra,
                          char *text, size_t size)
{
    const char *state = rota_job_state_name((enum rota_job_state)job->state);
    if (job->state == ROTA_JOB_DEAD)
        explain_dead(extra, text, size);
    else
        snprintf(text, size, "%s after %u attempt%s", state, extra->n_attempts,
                 extra->n_attempts == 1 ? "" : "s");
}

char *rota_broker_explain(const struct rota_broker *broker, struct rota_work_now now,
                          struct rota_str queue, struct rota_job_id id, char *text, size_t size)
{
    uint32_t number = rota_broker_queue_find_job(broker, queue, id);
    if (!number) {
        snprintf(text, size, "no such job on this node");
        return text;
    }
    char left[ROTA_TIME_TEXT_MAX];
    const struct rota_job *job = rota_job_at(&broker->jobs, number);
    const struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    if (job->state == ROTA_JOB_WAITING || !extra) {
        explain_waiting(broker, job, text, size);
        return text;
    }
    switch ((enum rota_job_state)job->state) {
    case ROTA_JOB_WAITING:
        break;
    case ROTA_JOB_DELAYED:
        if (extra->cause == ROTA_JOB_CAUSE_NONE)
            snprintf(text, size, "delayed: starts in %s at the earliest",
                     format_left(broker, now, extra->wait_until, left));
        else if (extra->cause == ROTA_JOB_CAUSE_GIVEN_BACK) /* which does not count */
            snprintf(text, size, "delayed: its worker returned it; the next attempt starts in %s",
                     format_left(broker, now, extra->wait_until, left));
        else
            snprintf(text, size, "delayed: attempt %u %s; the next starts in %s", extra->n_attempts,
                     rota_job_cause_text((enum rota_job_cause)extra->cause),
                     format_left(broker, now, extra->wait_until, left));
        break;
    case ROTA_JOB_RUNNING:
        explain_running(broker, now, extra, text, size);
        break;
    case ROTA_JOB_DONE:
    case ROTA_JOB_DEAD:
    case ROTA_JOB_CANCELLED:
        explain_ended(job, extra, text, size);
        break;
    }
    return text;
}

/* --- queues and workers --- */

static rota_time oldest_of(const struct rota_broker *broker, const struct rota_work_queue *queue)
{
    rota_time oldest = 0;
    for (size_t i = 0; i < queue->lanes.size; i++) {
        if (queue->lanes.items[i] == ROTA_BROKER_NONE)
            continue;
        rota_time here =
            rota_lane_oldest(broker->lanes.all.items[queue->lanes.items[i]], &broker->jobs);
        if (here && (!oldest || here < oldest))
            oldest = here;
    }
    return oldest;
}

static struct capable count_serving(const struct rota_broker *broker, uint32_t queue)
{
    struct capable found = {0};
    size_t place = 0;
    for (const struct rota_map_entry *entry;
         (entry = rota_map_next(&broker->classes.by_key, &place));) {
        const struct rota_work_class *class = entry->value;
        for (size_t i = 0; i < class->n_queues; i++)
            if (class->queues[i] == queue)
                add_class(class, &found);
    }
    return found;
}

/* A deleted queue is remembered for a while, and shown when it is used again. */
static bool is_shown(const struct rota_work_queue *queue)
{
    size_t n_jobs = 0;
    if (!queue || !queue->is_deleted || queue->n_classes > 0)
        return queue;
    for (int i = 0; i < ROTA_JOB_STATES; i++)
        n_jobs += queue->counts[i];
    return n_jobs > 0;
}

static void show_queue(const struct rota_broker *broker, const struct rota_work_queue *queue,
                       struct rota_queue_view *view)
{
    struct capable serving = count_serving(broker, queue->number);
    *view = (struct rota_queue_view){
        .name = rota_broker_queue_name(queue),
        .is_paused = queue->is_paused,
        .oldest_at = oldest_of(broker, queue),
        .n_added = queue->n_added,
        .n_done = queue->n_done,
        .n_dead = queue->n_dead,
        .n_retries = queue->n_retries,
        .n_quarantined = queue->n_quarantined,
        .kills_max = queue->kills_max,
        .n_workers = serving.n_workers,
        .n_slots = serving.n_slots,
        .n_free = serving.n_free,
    };
    for (int i = 0; i < ROTA_JOB_STATES; i++)
        view->counts[i] = queue->counts[i];
    for (size_t i = 0; i < queue->partitions.size; i++)
        view->n_partitions += queue->partitions.items[i].is_open;
}

bool rota_broker_next_queue(const struct rota_broker *broker, struct rota_str *after,
                            struct rota_queue_view *view)
{
    const struct rota_work_queue *queue = rota_broker_queue_after(broker, *after);
    while (queue && !is_shown(queue))
        queue = rota_broker_queue_after(broker, rota_broker_queue_name(queue));
    if (!queue)
        return false;
    *after = rota_broker_queue_name(queue);
    show_queue(broker, queue, view);
    return true;
}

size_t rota_broker_n_in_state(const struct rota_broker *broker, enum rota_job_state state)
{
    return broker->counts[state];
}

bool rota_broker_find_queue(const struct rota_broker *broker, struct rota_str name,
                            struct rota_queue_view *view)
{
    const struct rota_work_queue *queue = rota_broker_queue(broker, name);
    if (!is_shown(queue))
        return false;
    show_queue(broker, queue, view);
    return true;
}

/* Workers with leases, after the sessions. */
static void show_class(const struct rota_broker *broker, const struct rota_work_class *class,
                       struct rota_worker_view *view)
{
    for (size_t i = 0; i < class->capabilities.size; i++) {
        const struct rota_capability *each =
            broker->capabilities.names.items[class->capabilities.items[i]];
        view->can[view->n_can++] = rota_str_of(each->name, each->size);
    }
    for (size_t i = 0; i < class->n_queues; i++)
        view->queues[view->n_queues++] =
            rota_broker_queue_name(broker->queues.all.items[class->queues[i]]);
}

static bool next_leaser(const struct rota_broker *broker, size_t *place,
                        struct rota_worker_view *view)
{
    size_t i = *place - broker->workers.all.size;
    while (i < broker->workers.pollers.size && broker->workers.pollers.items[i]->n_leased == 0)
        i++;
    if (i >= broker->workers.pollers.size)
        return false;
    const struct rota_work_poller *poller = broker->workers.pollers.items[i];
    *view = (struct rota_worker_view){
        .name = name_of(poller->name),
        .slots = poller->n_leased,
        .n_running = poller->n_leased,
        .heard_at = poller->heard_at,
    };
    show_class(broker, poller->class, view);
    *place = broker->workers.all.size + i + 1;
    return true;
}

bool rota_broker_next_worker(const struct rota_broker *broker, size_t *place,
                             struct rota_worker_view *view)
{
    while (*place < broker->workers.all.size &&
           (!broker->workers.all.items[*place] || broker->workers.all.items[*place]->is_gone))
        ++*place;
    if (*place >= broker->workers.all.size)
        return next_leaser(broker, place, view);
    const struct rota_work_worker *worker = broker->workers.all.items[(*place)++];
    *view = (struct rota_worker_view){
        .session = worker->session,
        .epoch = worker->epoch,
        .name = name_of(worker->name),
        .slots = worker->slots,
        .n_running = worker->n_running,
        .heard_at = worker->heard_at,
    };
    show_class(broker, worker->class, view);
    return true;
}
