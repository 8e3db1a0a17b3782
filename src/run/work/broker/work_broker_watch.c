/* Watchers of a job or a queue. Those of a job get its latest state, not each step on the way;
 * those of a queue each change, as far as the client keeps up. */
#include "run/work/broker/work_broker_inside.h"
#include "run/work/broker/work_broker_reply.h"
#include "run/work/broker/work_broker_show.h"
#include "run/work/store/work_broker_store.h"

#include <stdlib.h>

void rota_work_broker_watch_init(struct rota_broker_watchers *watchers, uint64_t seed)
{
    rota_map_init(&watchers->of_jobs, seed);
    rota_list_init(&watchers->of_queues);
    rota_list_init(&watchers->dirty);
}

void rota_work_broker_watch_deinit(struct rota_broker_watchers *watchers)
{
    rota_map_deinit(&watchers->of_jobs);
    rota_vector_deinit(&watchers->changes);
}

static struct rota_str key_of(const struct rota_job_id *id)
{
    return rota_str_of(id, sizeof *id);
}

static bool is_of_queue(const struct rota_broker_watcher *watcher)
{
    return rota_job_id_is_none(watcher->id);
}

static bool join_job(struct rota_work_broker *broker, struct rota_broker_watcher *watcher)
{
    struct rota_broker_watched *watched =
        rota_map_get(&broker->watchers.of_jobs, key_of(&watcher->id));
    if (!watched) {
        watched = calloc(1, sizeof *watched);
        if (!watched)
            return false;
        watched->id = watcher->id;
        rota_list_init(&watched->watchers);
        if (!rota_map_put(&broker->watchers.of_jobs, key_of(&watched->id), watched)) {
            free(watched);
            return false;
        }
    }
    rota_list_push(&watched->watchers, &watcher->link);
    return true;
}

static void forget_watcher(struct rota_work_broker *broker, struct rota_broker_watcher *watcher)
{
    rota_list_remove(&watcher->link);
    rota_list_remove(&watcher->dirty);
    struct rota_broker_watched *watched =
        is_of_queue(watcher) ? NULL : rota_map_get(&broker->watchers.of_jobs, key_of(&watcher->id));
    if (watched && rota_list_is_empty(&watched->watchers)) {
        rota_map_remove(&broker->watchers.of_jobs, key_of(&watched->id));
        free(watched);
    }
    broker->watchers.n--;
    rota_broker_set_watched(broker->core, broker->watchers.n > 0);
    free(watcher);
}

static void end_watcher(struct rota_work_broker *broker, struct rota_broker_watcher *watcher,
                        enum rota_status status, const char *text)
{
    struct rota_server_call *call = watcher->call;
    rota_server_call_set_data(call, NULL);
    forget_watcher(broker, watcher);
    rota_server_call_finish(call, status, text, NULL, 0);
}

static void mark_watcher(struct rota_work_broker *broker, struct rota_broker_watcher *watcher,
                         uint64_t number)
{
    if (number > watcher->number)
        watcher->number = number;
    if (!watcher->dirty.next)
        rota_list_push(&broker->watchers.dirty, &watcher->dirty);
}

static struct rota_broker_watcher *make_watcher(struct rota_work_broker *broker,
                                                const struct rota_queue_about *request,
                                                struct rota_job_id id, struct rota_error *error)
{
    if (broker->watchers.n >= ROTA_WORK_BROKER_WATCHERS_MAX) {
        rota_error_set(error, ROTA_ERR_LIMIT, "there are already %d watchers, the maximum",
                       ROTA_WORK_BROKER_WATCHERS_MAX);
        return NULL;
    }
    struct rota_broker_watcher *watcher = calloc(1, sizeof *watcher + request->queue.size + 1);
    if (watcher) {
        memcpy(watcher->name, request->queue.data, request->queue.size);
        watcher->queue = rota_str_of(watcher->name, request->queue.size);
        watcher->id = id;
        if (is_of_queue(watcher)) {
            rota_list_push(&broker->watchers.of_queues, &watcher->link);
            return watcher;
        }
        if (join_job(broker, watcher))
            return watcher;
    }
    free(watcher);
    rota_error_no_memory(error, "for a watcher");
    return NULL;
}

void rota_work_broker_watch_open(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_server_call *call = request->call;
    const struct rota_queue_about *message = &request->as.about;
    struct rota_job_id id;
    struct rota_job_view view;
    struct rota_error error;
    struct rota_broker_watcher *watcher = NULL;
    enum rota_code code = rota_job_queue_check(message->queue, &error);
    if (!code)
        code = rota_queue_message_id_read(message->id, &id, &error);
    if (!code && !rota_job_id_is_none(id))
        code = rota_broker_find(broker->core, message->queue, id, &view, &error);
    if (!code)
        watcher = make_watcher(broker, message, id, &error);
    if (!watcher) {
        rota_work_broker_reply_error(call, &error, false);
        return;
    }
    broker->watchers.n++;
    rota_broker_set_watched(broker->core, true);
    watcher->call = call;
    rota_server_call_set_data(call, watcher);
    if (is_of_queue(watcher))
        rota_server_call_head(call, NULL, 0, NULL); /* it is watched from now on */
    else
        mark_watcher(broker, watcher, rota_broker_last_number(broker->core));
    rota_work_broker_touch(broker);
}

void rota_work_broker_watch_cancel(struct rota_work_broker *broker, struct rota_server_call *call)
{
    struct rota_broker_watcher *watcher = rota_server_call_data(call);
    if (watcher)
        end_watcher(broker, watcher, ROTA_STATUS_CANCELLED, "the caller disconnected");
}

void rota_work_broker_watch_room(struct rota_work_broker *broker, struct rota_server_call *call)
{
    struct rota_broker_watcher *watcher = rota_server_call_data(call);
    if (!watcher || !watcher->is_full)
        return;
    watcher->is_full = false;
    if (!is_of_queue(watcher))
        mark_watcher(broker, watcher, watcher->number);
    rota_work_broker_touch(broker);
}

/* --- telling --- */

/* One change of a queue: the name of the job and its state. */
static void tell_queue(struct rota_work_broker *broker, struct rota_broker_watcher *watcher,
                       const struct rota_queue_job_info *info)
{
    struct rota_queue_news news = {.job = info, .n_missed = watcher->n_missed};
    rota_buffer_clear(&broker->front.buffer);
    rota_message_encode(&ROTA_QUEUE_NEWS, &news, &broker->front.buffer);
    if (broker->front.buffer.failed ||
        rota_server_call_send(watcher->call, rota_buffer_str(&broker->front.buffer)))
        watcher->n_missed++;
    else
        watcher->n_missed = 0;
}

static enum rota_job_state state_of(const struct rota_work_broker *broker,
                                    const struct rota_work_effect *effect)
{
    struct rota_job_view view;
    if (effect->type != ROTA_WORK_TELL_ENDED) {
        if (effect->session)
            return ROTA_JOB_RUNNING;
        bool is_known = !rota_broker_find(broker->core, effect->queue, effect->id, &view, NULL);
        return is_known && view.state == ROTA_JOB_DELAYED ? ROTA_JOB_DELAYED : ROTA_JOB_WAITING;
    }
    if (effect->cause == ROTA_JOB_CAUSE_DONE)
        return ROTA_JOB_DONE;
    return effect->cause == ROTA_JOB_CAUSE_CANCELLED ? ROTA_JOB_CANCELLED : ROTA_JOB_DEAD;
}

static void miss_watchers(struct rota_work_broker *broker)
{
    ROTA_LIST_EACH (watcher, &broker->watchers.of_queues, struct rota_broker_watcher, link)
        watcher->n_missed++;
}

static void keep_change(struct rota_work_broker *broker, struct rota_broker_change change,
                        struct rota_str queue)
{
    size_t size = queue.size < sizeof change.queue ? queue.size : 0;
    memcpy(change.queue, queue.data, size);
    if (broker->watchers.changes.size >= ROTA_BROKER_CHANGES_MAX ||
        !rota_vector_push(&broker->watchers.changes, change))
        miss_watchers(broker);
}

static void note_change(struct rota_work_broker *broker, const struct rota_work_effect *effect)
{
    enum rota_job_state state = state_of(broker, effect);
    struct rota_broker_change change = {
        .number = effect->number,
        .id = effect->id,
        .state = state,
        .cause = effect->cause,
        .attempt = state >= ROTA_JOB_DONE ? effect->attempt : 0, /* else it may be open */
        .n_attempts = effect->n_attempts,
    };
    keep_change(broker, change, effect->queue);
}

static void tell_queues(struct rota_work_broker *broker, const struct rota_broker_change *change)
{
    char id[ROTA_QUEUE_ID_SIZE];
    struct rota_queue_job_spec spec = {.queue = rota_str(change->queue),
                                       .id = rota_queue_message_id_write(change->id, id)};
    struct rota_queue_job_info info = {.spec = &spec,
                                       .state = change->state,
                                       .cause = change->cause,
                                       .attempt = change->attempt,
                                       .n_attempts = change->n_attempts};
    ROTA_LIST_EACH (watcher, &broker->watchers.of_queues, struct rota_broker_watcher, link) {
        if (rota_str_is_equal(watcher->queue, spec.queue))
            tell_queue(broker, watcher, &info);
    }
}

/* In order: a change that is not on disk holds up those after it. */
static void flush_changes(struct rota_work_broker *broker)
{
    size_t n = 0;
    while (n < broker->watchers.changes.size &&
           broker->watchers.changes.items[n].number <= broker->log.durable)
        tell_queues(broker, &broker->watchers.changes.items[n++]);
    broker->watchers.changes.size -= n;
    if (n > 0 && broker->watchers.changes.size > 0)
        memmove(broker->watchers.changes.items, broker->watchers.changes.items + n,
                broker->watchers.changes.size * sizeof *broker->watchers.changes.items);
}

void rota_work_broker_watch_tell(struct rota_work_broker *broker,
                                 const struct rota_work_effect *effect)
{
    if (broker->watchers.n == 0 ||
        rota_work_broker_store_turn_is_void(broker, effect->number, effect->number))
        return;
    if (!rota_list_is_empty(&broker->watchers.of_queues))
        note_change(broker, effect);
    struct rota_broker_watched *watched =
        rota_map_get(&broker->watchers.of_jobs, key_of(&effect->id));
    if (!watched)
        return;
    ROTA_LIST_EACH (watcher, &watched->watchers, struct rota_broker_watcher, link)
        mark_watcher(broker, watcher, effect->number);
}

void rota_work_broker_watch_added(struct rota_work_broker *broker,
                                  const struct rota_work_record *record)
{
    if (rota_list_is_empty(&broker->watchers.of_queues))
        return;
    bool is_delayed = record->spec->not_before > record->at;
    struct rota_broker_change change = {
        .number = record->number,
        .id = record->id,
        .state = is_delayed ? ROTA_JOB_DELAYED : ROTA_JOB_WAITING,
    };
    keep_change(broker, change, record->queue.size ? record->queue : record->spec->queue);
}

/* The job's state; false when the watcher is gone. */
static void tell_job(struct rota_work_broker *broker, struct rota_broker_watcher *watcher)
{
    struct rota_job_view view;
    struct rota_queue_news news = {0};
    rota_list_remove(&watcher->dirty);
    if (watcher->is_full)
        return;
    if (rota_broker_find(broker->core, watcher->queue, watcher->id, &view, NULL)) {
        if (rota_work_broker_cluster_is_alone(broker->cluster))
            end_watcher(broker, watcher, ROTA_STATUS_NOT_FOUND, "the job has expired");
        else
            end_watcher(broker, watcher, ROTA_STATUS_UNAVAILABLE,
                        "the job has expired or is on another node; watch it again");
        return;
    }
    rota_arena_clear(&broker->front.arena);
    rota_buffer_clear(&broker->front.buffer);
    news.job = rota_work_broker_show_job(broker, &view, ROTA_BROKER_SHOW_ALL);
    if (news.job)
        rota_message_encode(&ROTA_QUEUE_NEWS, &news, &broker->front.buffer);
    if (!news.job || broker->front.buffer.failed) {
        end_watcher(broker, watcher, ROTA_STATUS_RESOURCE_EXHAUSTED,
                    "not enough memory for the reply");
        return;
    }
    if (rota_server_call_send(watcher->call, rota_buffer_str(&broker->front.buffer)) ==
        ROTA_ERR_LIMIT)
        watcher->is_full = true;
    else if (view.state >= ROTA_JOB_DONE)
        end_watcher(broker, watcher, ROTA_STATUS_OK, "");
}

void rota_work_broker_watch_flush(struct rota_work_broker *broker)
{
    flush_changes(broker);
    ROTA_LIST_EACH (watcher, &broker->watchers.dirty, struct rota_broker_watcher, dirty) {
        if (watcher->number <= broker->log.durable)
            tell_job(broker, watcher);
    }
}

void rota_work_broker_watch_end(struct rota_work_broker *broker)
{
    struct rota_list_node *first;
    size_t place = 0;
    const struct rota_map_entry *entry;
    ROTA_LIST_DRAIN (watcher, &broker->watchers.of_queues, struct rota_broker_watcher, link)
        end_watcher(broker, watcher, ROTA_STATUS_UNAVAILABLE, "this node is stopping");
    while ((entry = rota_map_next(&broker->watchers.of_jobs, &place))) {
        struct rota_broker_watched *watched = entry->value;
        first = rota_list_first(&watched->watchers);
        end_watcher(broker, ROTA_LIST_ITEM(first, struct rota_broker_watcher, link),
                    ROTA_STATUS_UNAVAILABLE, "this node is stopping");
        place = 0;
    }
}

static bool is_lost(const struct rota_work_broker *broker, struct rota_job_id id,
                    struct rota_str of, struct rota_str queue, uint32_t partition)
{
    return rota_str_is_equal(of, queue) &&
           rota_work_broker_cluster_place(broker->cluster, id) == partition;
}

void rota_work_broker_watch_lost(struct rota_work_broker *broker, struct rota_str queue,
                                 uint32_t partition)
{
    size_t n = 0, place = 0;
    for (size_t i = 0; i < broker->watchers.changes.size; i++)
        if (!is_lost(broker, broker->watchers.changes.items[i].id,
                     rota_str(broker->watchers.changes.items[i].queue), queue, partition))
            broker->watchers.changes.items[n++] = broker->watchers.changes.items[i];
    broker->watchers.changes.size = n;
    for (const struct rota_map_entry *entry;
         (entry = rota_map_next(&broker->watchers.of_jobs, &place));) {
        struct rota_broker_watched *watched = entry->value;
        struct rota_list_node *first = rota_list_first(&watched->watchers);
        if (!first)
            continue;
        struct rota_broker_watcher *watcher =
            ROTA_LIST_ITEM(first, struct rota_broker_watcher, link);
        if (!is_lost(broker, watched->id, watcher->queue, queue, partition))
            continue;
        end_watcher(broker, watcher, ROTA_STATUS_UNAVAILABLE,
                    "the partition moved to another node");
        place = 0; /* the map may have changed */
    }
}
