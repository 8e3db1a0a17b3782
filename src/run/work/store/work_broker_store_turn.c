/* What a broker has to write to its store: gathered by job, written in turns. */
#include "run/work/store/work_broker_store_inside.h"

#include "base/search.h"
#include "io/clock.h"
#include "wire/record/journal_record.h"

#include <stdlib.h>
#include <string.h>

/* --- gathering --- */

static struct rota_str key_of(const struct rota_broker_dirty *dirty)
{
    return rota_str_of(dirty->key, sizeof dirty->key);
}

static void write_key(char *key, const struct rota_partition_held *part, struct rota_job_id id)
{
    memcpy(key, &part, sizeof part);
    memcpy(key + sizeof part, &id, sizeof id);
}

static void remove_dirty(struct rota_broker_store *store, struct rota_broker_dirty *dirty)
{
    rota_map_remove(&store->dirty_jobs, key_of(dirty));
    rota_list_remove(&dirty->link);
    dirty->part->n_dirty--;
    free(dirty);
}

static bool gather_record(struct rota_broker_store *store, struct rota_partition_held *part,
                          const struct rota_work_record *record)
{
    char key[sizeof((struct rota_broker_dirty *)NULL)->key];
    bool is_new = record->type == ROTA_WORK_ADD || record->type == ROTA_WORK_JOB;
    write_key(key, part, record->id);
    struct rota_broker_dirty *dirty =
        rota_map_get(&store->dirty_jobs, rota_str_of(key, sizeof key));
    if (dirty) {
        dirty->is_new = dirty->is_new || is_new;
        return true;
    }
    dirty = malloc(sizeof *dirty);
    if (!dirty)
        return false;
    *dirty = (struct rota_broker_dirty){
        .part = part, .id = record->id, .number = record->number, .is_new = is_new};
    memcpy(dirty->key, key, sizeof key);
    if (!rota_map_put(&store->dirty_jobs, key_of(dirty), dirty)) {
        free(dirty);
        return false;
    }
    rota_list_push(&store->dirty, &dirty->link);
    part->n_dirty++;
    return true;
}

static bool append_job(struct rota_broker_store *store, const struct rota_work_record *record)
{
    struct rota_partition_held *part =
        rota_partition_fsm_find(&store->fsm, record->queue, record->partition);
    if (!part || part->state < ROTA_PARTITION_LOADING)
        return rota_vector_push(&store->voids, record->number);
    struct rota_broker_pending pending = {.number = record->number, .part = part};
    if (!rota_vector_reserve(&store->pending, store->pending.size + 1) ||
        !gather_record(store, part, record))
        return false;
    store->pending.items[store->pending.size++] = pending;
    return true;
}

static bool append_record(struct rota_broker_store *store, const struct rota_work_record *record)
{
    switch (record->type) {
    case ROTA_WORK_ADD:
    case ROTA_WORK_JOB:
    case ROTA_WORK_START:
    case ROTA_WORK_RETRY:
    case ROTA_WORK_END:
    case ROTA_WORK_REVIVE:
    case ROTA_WORK_PRIORITY:
    case ROTA_WORK_FORGET:
        return append_job(store, record);
    case ROTA_WORK_PAUSE: /* settings are rows already */
    case ROTA_WORK_WEIGHT:
    case ROTA_WORK_LAYOUT:
    case ROTA_WORK_LIFE: /* the store has given it */
    case ROTA_WORK_OWN:
    case ROTA_WORK_CHUNK: /* nothing is handed over where all share the rows */
    case ROTA_WORK_TAKEN:
    case ROTA_WORK_NODE:
        break;
    }
    return true;
}

bool rota_work_broker_store_turn_append(struct rota_work_broker *broker,
                                        const struct rota_work_record *record)
{
    if (!append_record(broker->store, record))
        return false;
    broker->log.appended = record->number;
    return true;
}

/* --- void records --- */

static int compare_numbers(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

void rota_work_broker_store_turn_void(struct rota_broker_store *store,
                                      const struct rota_partition_held *part)
{
    size_t n = 0;
    ROTA_LIST_EACH (dirty, &store->dirty, struct rota_broker_dirty, link) {
        if (dirty->part == part)
            remove_dirty(store, dirty);
    }
    for (size_t i = 0; i < store->pending.size; i++) {
        struct rota_broker_pending pending = store->pending.items[i];
        if (pending.part != part)
            store->pending.items[n++] = pending;
        else if (!rota_vector_push(&store->voids, pending.number))
            store->is_all_void = true; /* what is not remembered must not be acknowledged */
    }
    store->pending.size = n;
    if (store->voids.size > 1)
        qsort(store->voids.items, store->voids.size, sizeof *store->voids.items, compare_numbers);
}

bool rota_work_broker_store_turn_is_void(const struct rota_work_broker *broker, uint64_t first,
                                         uint64_t last)
{
    const struct rota_broker_store *store = broker->store;
    if (!store || last == 0)
        return false;
    if (store->is_all_void)
        return true;
    size_t low;
    ROTA_SEARCH(low, store->voids.size, middle, store->voids.items[middle] < first);
    return low < store->voids.size && store->voids.items[low] <= last;
}

/* No longer needed once all answers are sent. */
static void forget_voids(struct rota_broker_store *store)
{
    size_t n = 0;
    if (store->broker->log.answers.size > 0)
        return;
    store->is_all_void = false;
    while (n < store->voids.size && store->voids.items[n] <= store->broker->log.durable)
        n++;
    store->voids.size -= n;
    if (n > 0 && store->voids.size > 0)
        memmove(store->voids.items, store->voids.items + n,
                store->voids.size * sizeof *store->voids.items);
}

static void forget_pending(struct rota_broker_store *store)
{
    size_t n = 0;
    while (n < store->pending.size && store->pending.items[n].number <= store->broker->log.durable)
        n++;
    store->pending.size -= n;
    if (n > 0 && store->pending.size > 0)
        memmove(store->pending.items, store->pending.items + n,
                store->pending.size * sizeof *store->pending.items);
}

static void advance_durable(struct rota_broker_store *store, uint64_t number)
{
    if (number > store->broker->log.durable)
        rota_work_broker_durable(store->broker, number);
    forget_pending(store);
}

bool rota_work_broker_store_turn_is_written(const struct rota_work_broker *broker,
                                            struct rota_str queue, struct rota_job_id id)
{
    const struct rota_broker_store *store = broker->store;
    char key[sizeof((struct rota_broker_dirty *)NULL)->key];
    if (broker->log.durable >= rota_broker_last_number(broker->core))
        return true;
    if (!store || broker->log.appended < rota_broker_last_number(broker->core))
        return false;
    const struct rota_partition_held *part = rota_partition_fsm_find(
        &store->fsm, queue, rota_work_broker_cluster_place(broker->cluster, id));
    if (!part)
        return false;
    write_key(key, part, id);
    if (rota_map_get(&store->dirty_jobs, rota_str_of(key, sizeof key)))
        return false;
    for (size_t i = 0; store->has_turn && i < store->turn.n_jobs; i++)
        if (store->turn.jobs[i].id.high == id.high && store->turn.jobs[i].id.low == id.low)
            return false;
    return true;
}

/* --- a turn --- */

/* The current state of a job, with its texts in the arena; false when there is no memory. */
static bool take_job(struct rota_broker_store *store, const struct rota_broker_dirty *dirty,
                     struct rota_store_job *job)
{
    struct rota_arena *arena = &store->turn_arena;
    struct rota_work_record record;
    struct rota_journal_batch batch = {0};
    *job = (struct rota_store_job){.id = dirty->id, .has_payload = dirty->is_new};
    if (!rota_broker_job_record(store->broker->core, dirty->part->queue, dirty->id, &record)) {
        job->is_gone = true;
        return true;
    }
    job->state = record.state;
    job->priority = record.priority;
    job->n_attempts = record.n_attempts;
    job->enqueued_at = record.at;
    job->worker = rota_arena_copy(arena, record.worker);
    struct rota_job_spec spec = *record.spec;
    if (dirty->is_new)
        job->payload = rota_arena_copy(arena, spec.payload);
    spec.payload = rota_str_of("", 0);
    record.spec = &spec;
    char *body = rota_arena_take(arena, rota_journal_record_bound(&record));
    if (!body || !job->worker.data || (dirty->is_new && !job->payload.data))
        return false;
    job->record = rota_str_of(body, rota_journal_record_encode(&batch, &record, body, body));
    return true;
}

static int compare_parts(const void *a, const void *b)
{
    const struct rota_partition_held *left = *(struct rota_partition_held *const *)a;
    const struct rota_partition_held *right = *(struct rota_partition_held *const *)b;
    size_t size = left->queue.size < right->queue.size ? left->queue.size : right->queue.size;
    int order = memcmp(left->queue.data, right->queue.data, size);
    if (order)
        return order;
    if (left->queue.size != right->queue.size)
        return left->queue.size < right->queue.size ? -1 : 1;
    return left->number < right->number ? -1 : left->number > right->number;
}

/* The partitions of the first `n` dirty jobs, in order; sets the index in `jobs`. */
static bool list_parts(struct rota_broker_store *store, struct rota_store_job *jobs, size_t n)
{
    struct rota_partition_held **parts =
        rota_arena_take(&store->turn_arena, (n + 1) * sizeof(struct rota_partition_held *));
    struct rota_store_partition *made = rota_arena_take(&store->turn_arena, (n + 1) * sizeof *made);
    struct rota_list_node *at = store->dirty.next;
    size_t n_parts = 0;
    if (!parts || !made)
        return false;
    for (size_t i = 0; i < n; i++, at = at->next) {
        struct rota_partition_held *part = ROTA_LIST_ITEM(at, struct rota_broker_dirty, link)->part;
        if (!part->in_turn) {
            part->in_turn = 1;
            parts[n_parts++] = part;
        }
    }
    if (n_parts > 1)
        qsort((void *)parts, n_parts, sizeof *parts, compare_parts);
    bool is_made = true;
    for (size_t i = 0; i < n_parts; i++) {
        parts[i]->in_turn = i;
        made[i] = (struct rota_store_partition){
            .queue = rota_arena_copy(&store->turn_arena, parts[i]->queue),
            .number = parts[i]->number,
            .epoch = parts[i]->epoch};
        is_made = is_made && made[i].queue.data;
    }
    at = store->dirty.next;
    for (size_t i = 0; i < n; i++, at = at->next)
        jobs[i].partition = ROTA_LIST_ITEM(at, struct rota_broker_dirty, link)->part->in_turn;
    for (size_t i = 0; i < n_parts; i++)
        parts[i]->in_turn = 0;
    store->turn.partitions = made;
    store->turn.n_partitions = n_parts;
    return is_made;
}

static bool list_jobs(struct rota_broker_store *store)
{
    size_t most = store->dirty_jobs.size, n = 0, bytes = 0;
    if (most > ROTA_BROKER_STORE_JOBS_MAX)
        most = ROTA_BROKER_STORE_JOBS_MAX;
    struct rota_store_job *jobs = rota_arena_take(&store->turn_arena, (most + 1) * sizeof *jobs);
    if (!jobs)
        return false;
    for (struct rota_list_node *at = store->dirty.next; n < most; at = at->next) {
        if (bytes > ROTA_BROKER_STORE_BYTES_MAX)
            break;
        if (!take_job(store, ROTA_LIST_ITEM(at, struct rota_broker_dirty, link), &jobs[n]))
            return false;
        bytes += jobs[n].record.size + jobs[n].payload.size;
        n++;
    }
    store->turn.jobs = jobs;
    store->turn.n_jobs = n;
    return list_parts(store, jobs, n);
}

static bool list_removals(struct rota_broker_store *store)
{
    size_t n = store->removals.size;
    struct rota_store_removal *made = rota_arena_take(&store->turn_arena, (n + 1) * sizeof *made);
    for (size_t i = 0; made && i < n; i++) {
        made[i] = store->removals.items[i];
        made[i].queue = rota_arena_copy(&store->turn_arena, made[i].queue);
        if (!made[i].queue.data)
            return false;
    }
    store->turn.removals = made;
    store->turn.n_removals = n;
    return made != NULL;
}

static void drop_removals(struct rota_broker_store *store)
{
    for (size_t i = 0; i < store->removals.size; i++)
        free((char *)store->removals.items[i].queue.data);
    store->removals.size = 0;
}

/* All collected changes, or as many as fit into a turn. Without memory nothing is changed, and it
 * is tried again later. */
static bool make_turn(struct rota_broker_store *store)
{
    rota_arena_clear(&store->turn_arena);
    store->turn = (struct rota_store_turn){.instance = store->instance};
    if (!list_jobs(store) || !list_removals(store))
        return false;
    drop_removals(store);
    struct rota_list_node *first;
    for (size_t i = 0; i < store->turn.n_jobs && (first = rota_list_first(&store->dirty)); i++)
        remove_dirty(store, ROTA_LIST_ITEM(first, struct rota_broker_dirty, link));
    const struct rota_list_node *rest = rota_list_first(&store->dirty);
    store->turn_number = rest ? ROTA_LIST_ITEM(rest, struct rota_broker_dirty, link)->number - 1
                              : store->broker->log.appended;
    store->has_turn = true;
    return true;
}

void rota_work_broker_store_turn_write(struct rota_broker_store *store)
{
    forget_voids(store);
    if (!store->is_up || store->write.is_under_way || store->is_leaving)
        return;
    bool is_idle = rota_list_is_empty(&store->dirty) && store->removals.size == 0;
    if (!store->has_turn && is_idle) {
        advance_durable(store, store->broker->log.appended);
        return;
    }
    if (store->has_turn || make_turn(store))
        rota_work_broker_store_post(&store->write);
}

/* On the thread. */
void rota_work_broker_store_turn_work_write(struct rota_letter *letter)
{
    struct rota_broker_letter *own = ROTA_LIST_ITEM(letter, struct rota_broker_letter, letter);
    struct rota_broker_store *store = own->store;
    own->code = store->session ? rota_store_jobs_write(store->session, &store->turn, &own->error)
                               : rota_error_set(&own->error, ROTA_ERR_UNAVAILABLE, "not connected");
}

/* Release partitions that the turn found to be another node's before any answer is sent. */
static void finish_turn(struct rota_broker_store *store)
{
    store->has_turn = false;
    for (size_t i = 0; i < store->turn.n_partitions; i++) {
        const struct rota_store_partition *partition = &store->turn.partitions[i];
        if (partition->is_stale)
            rota_work_broker_store_parts_tell(
                store, &(struct rota_partition_event){.type = ROTA_PARTITION_REJECTED,
                                                      .queue = partition->queue,
                                                      .number = partition->number,
                                                      .epoch = partition->epoch});
    }
    for (size_t i = 0; i < store->turn.n_removals; i++) {
        const struct rota_store_removal *removal = &store->turn.removals[i];
        rota_work_broker_store_parts_tell(
            store, &(struct rota_partition_event){.type = ROTA_PARTITION_REMOVED,
                                                  .queue = removal->queue,
                                                  .number = removal->partition,
                                                  .epoch = removal->epoch});
    }
    advance_durable(store, store->turn_number);
}

void rota_work_broker_store_turn_done_write(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_broker_letter *own = ROTA_LIST_ITEM(letter, struct rota_broker_letter, letter);
    struct rota_broker_store *store = own->store;
    own->is_under_way = false;
    bool is_written = !is_cancelled && rota_work_broker_store_heard(own);
    if (is_written)
        finish_turn(store);
    if (!store->is_closing) {
        rota_work_broker_store_drive(store);
        return;
    }
    if (is_written)
        rota_work_broker_store_turn_write(store);
    if (!own->is_under_way)
        rota_work_broker_store_end(store);
}

void rota_work_broker_store_turn_deinit(struct rota_broker_store *store)
{
    ROTA_LIST_DRAIN (dirty, &store->dirty, struct rota_broker_dirty, link)
        remove_dirty(store, dirty);
    drop_removals(store);
    rota_vector_deinit(&store->removals);
    rota_vector_deinit(&store->pending);
    rota_vector_deinit(&store->voids);
    rota_map_deinit(&store->dirty_jobs);
    rota_arena_deinit(&store->turn_arena);
}
