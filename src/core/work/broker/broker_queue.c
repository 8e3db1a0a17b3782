#include "core/work/broker/broker_inside.h"

#include "base/hash.h"
#include "base/quote.h"
#include "base/search.h"

#include <string.h>

/* --- queues --- */

struct rota_work_queue *rota_broker_queue(const struct rota_broker *broker, struct rota_str name)
{
    if (broker->queues.last && rota_str_is_equal(rota_broker_queue_name(broker->queues.last), name))
        return broker->queues.last;
    return rota_map_get(&broker->queues.by_name, name);
}

/* A treap: searched by name, and balanced by random ranks, so it is not deep. */

struct rota_work_queue *rota_broker_queue_after(const struct rota_broker *broker,
                                                struct rota_str name)
{
    struct rota_work_queue *found = NULL;
    for (struct rota_work_queue *at = broker->queues.in_order; at;) {
        bool is_after = rota_str_compare(rota_broker_queue_name(at), name) > 0;
        found = is_after ? at : found;
        at = is_after ? at->left : at->right;
    }
    return found;
}

static bool is_before(const struct rota_work_queue *a, const struct rota_work_queue *b)
{
    return rota_str_compare(rota_broker_queue_name(a), rota_broker_queue_name(b)) < 0;
}

/* Split what is below its place to its two sides. */
static void order_queue(struct rota_broker *broker, struct rota_work_queue *queue)
{
    struct rota_work_queue **at = &broker->queues.in_order;
    struct rota_work_queue **left = &queue->left, **right = &queue->right;
    queue->rank = rota_hash_sip64(broker->seed, rota_broker_queue_name(queue));
    while (*at && (*at)->rank >= queue->rank)
        at = is_before(queue, *at) ? &(*at)->left : &(*at)->right;
    for (struct rota_work_queue *below = *at; below;)
        if (is_before(below, queue)) {
            *left = below;
            left = &below->right;
            below = below->right;
        } else {
            *right = below;
            right = &below->left;
            below = below->left;
        }
    *left = *right = NULL;
    *at = queue;
}

static void unorder_queue(struct rota_broker *broker, const struct rota_work_queue *queue)
{
    struct rota_work_queue **at = &broker->queues.in_order;
    struct rota_work_queue *left = queue->left, *right = queue->right;
    while (*at != queue)
        at = is_before(queue, *at) ? &(*at)->left : &(*at)->right;
    while (left && right)
        if (left->rank >= right->rank) {
            *at = left;
            at = &left->right;
            left = left->right;
        } else {
            *at = right;
            at = &right->left;
            right = right->left;
        }
    *at = left ? left : right;
}

/* Whether its settings differ from the defaults. */
static bool is_set(const struct rota_broker *broker, const struct rota_work_queue *queue)
{
    return queue->is_paused || queue->kills_max > 0 || rota_fair_is_weighed(&queue->fair) ||
           (queue->laid_at && !rota_layout_is_equal(&queue->layout, &broker->options.layout));
}

/* Whether a job, a worker or another broker needs it. A partition without jobs is opened again
 * with the next one, unless a store decides that. */
static bool is_used(const struct rota_broker *broker, const struct rota_work_queue *queue)
{
    bool is_coming = !rota_job_id_is_none(broker->chunks.coming.name) &&
                     broker->chunks.coming.ids.size > 0 &&
                     broker->chunks.coming.queue == queue->number;
    if (queue->n_classes > 0 || is_coming)
        return true;
    for (size_t i = 0; i < queue->partitions.size; i++)
        if (queue->partitions.items[i].n_jobs > 0 || queue->partitions.items[i].is_loaded ||
            (queue->partitions.items[i].is_open && broker->options.has_rows))
            return true;
    for (size_t i = 0; i < broker->chunks.sent.size; i++)
        if (broker->chunks.sent.items[i]->queue == queue->number)
            return true;
    return false;
}

void rota_broker_queue_free(struct rota_broker *broker, struct rota_work_queue *queue)
{
    if (broker->queues.last == queue)
        broker->queues.last = NULL;
    broker->queues.all.items[queue->number] = NULL;
    if (queue->number < broker->queues.free_number)
        broker->queues.free_number = queue->number;
    rota_map_remove(&broker->queues.by_name, rota_broker_queue_name(queue));
    unorder_queue(broker, queue);
    rota_fair_queue_deinit(&queue->fair);
    rota_vector_deinit(&queue->partitions);
    rota_vector_deinit(&queue->lanes);
    rota_broker_discard(broker, queue);
}

static void free_lane(struct rota_broker *broker, uint32_t number)
{
    struct rota_lane *lane = broker->lanes.all.items[number];
    struct rota_work_queue *queue = broker->queues.all.items[lane->queue];
    size_t place = 0;
    for (const struct rota_map_entry *entry;
         queue->n_classes > 0 && (entry = rota_map_next(&broker->classes.by_key, &place));) {
        struct rota_work_class *class = entry->value;
        if (!rota_broker_class_has(class, number))
            continue;
        rota_choice_unwatch(rota_broker_class_choice(class, lane->queue), lane);
        class->has_lane.items[number / 64] &= ~((uint64_t)1 << number % 64);
    }
    if (number < broker->lanes.free_number)
        broker->lanes.free_number = number;
    rota_capabilities_set_at(&broker->capabilities, lane->set)->n_refs--;
    queue->lanes.items[lane->set] = ROTA_BROKER_NONE;
    queue->n_lanes--;
    broker->lanes.all.items[number] = NULL;
    broker->lanes.n--;
    rota_lane_deinit(lane);
    free(lane);
}

/* Lanes without jobs, and the sets that only these needed. */
static void sweep_lanes(struct rota_broker *broker)
{
    broker->lanes.dirty.size = 0; /* matched, or empty */
    for (uint32_t i = 0; i < broker->lanes.all.size; i++)
        if (broker->lanes.all.items[i]) {
            broker->lanes.all.items[i]->is_dirty = false;
            if (broker->lanes.all.items[i]->n_jobs == 0)
                free_lane(broker, i);
        }
    rota_capabilities_sweep(&broker->capabilities);
}

/* A lane that was just emptied may still be marked dirty. */
static void free_lanes_of(struct rota_broker *broker, const struct rota_work_queue *queue)
{
    for (size_t i = 0; i < queue->lanes.size; i++) {
        uint32_t number = queue->lanes.items[i];
        if (number == ROTA_BROKER_NONE)
            continue;
        for (size_t k = 0;
             broker->lanes.all.items[number]->is_dirty && k < broker->lanes.dirty.size; k++)
            if (broker->lanes.dirty.items[k] == number) {
                broker->lanes.dirty.items[k] =
                    broker->lanes.dirty.items[--broker->lanes.dirty.size];
                break;
            }
        free_lane(broker, number);
    }
}

/* Forget unused queues with default settings. */
static void sweep_queues(struct rota_broker *broker)
{
    if (!rota_vector_reserve(&broker->output.trash,
                             broker->output.trash.size + broker->queues.all.size))
        return;
    for (size_t i = 0; i < broker->queues.all.size; i++) {
        struct rota_work_queue *queue = broker->queues.all.items[i];
        if (!queue || is_used(broker, queue) || is_set(broker, queue))
            continue;
        free_lanes_of(broker, queue);
        rota_broker_queue_free(broker, queue);
    }
}

void rota_broker_queue_note_empty(struct rota_broker *broker, struct rota_work_queue *queue)
{
    if (!queue->is_noted)
        queue->is_noted = rota_vector_push(&broker->queues.empties, queue->number);
}

bool rota_broker_has_empty(const struct rota_broker *broker)
{
    return broker->queues.empties.size > 0;
}

void rota_broker_forget_empty(struct rota_broker *broker, struct rota_work_now now)
{
    size_t n = broker->queues.empties.size;
    rota_broker_at(broker, now);
    if (!rota_vector_reserve(&broker->output.trash, broker->output.trash.size + n))
        return;
    for (size_t i = 0; i < n; i++) {
        uint32_t number = broker->queues.empties.items[i];
        struct rota_work_queue *queue = broker->queues.all.items[number];
        if (!queue || !queue->is_noted)
            continue; /* already removed */
        queue->is_noted = false;
        if (is_used(broker, queue) || is_set(broker, queue))
            continue;
        free_lanes_of(broker, queue);
        rota_broker_queue_free(broker, queue);
    }
    broker->queues.empties.size = 0;
}

/* The first number that is free in a table of pointers, none being so below `*from`; with room. */
#define FREE_NUMBER(vector, from, number)                                                          \
    __extension__({                                                                                \
        while (*(from) < (vector)->size && (vector)->items[*(from)])                               \
            ++*(from);                                                                             \
        *(number) = (uint32_t) * (from);                                                           \
        *(from) < (vector)->size || rota_vector_push((vector), NULL);                              \
    })

static enum rota_code make_queue(struct rota_broker *broker, struct rota_str name,
                                 struct rota_work_queue **queue, struct rota_error *error)
{
    uint32_t number;
    struct rota_work_queue *made = calloc(1, sizeof *made);
    if (!made || !FREE_NUMBER(&broker->queues.all, &broker->queues.free_number, &number))
        goto no_memory;
    made->number = number;
    made->name_size = (uint16_t)name.size;
    memcpy(made->name, name.data, name.size);
    if (!rota_map_put(&broker->queues.by_name, rota_broker_queue_name(made), made))
        goto no_memory;
    rota_fair_queue_init(&made->fair, &broker->lanes.fair, broker->seed);
    order_queue(broker, made);
    broker->queues.all.items[number] = made;
    *queue = made;
    return ROTA_OK;

no_memory:
    free(made);
    return rota_error_no_memory(error, "for a queue");
}

enum rota_code rota_broker_queue_need(struct rota_broker *broker, struct rota_str name,
                                      struct rota_work_queue **queue, struct rota_error *error)
{
    struct rota_work_queue *known = rota_broker_queue(broker, name);
    if (known) {
        broker->queues.last = known;
        *queue = known;
        return ROTA_OK;
    }
    enum rota_code code = rota_job_queue_check(name, error);
    if (code)
        return code;
    if (broker->queues.by_name.size >= broker->options.queues_max)
        sweep_queues(broker);
    if (broker->queues.by_name.size >= broker->options.queues_max)
        return rota_error_set(
            error, ROTA_ERR_LIMIT,
            "the node already has %zu queues with jobs, workers or settings, the maximum",
            broker->options.queues_max);
    return make_queue(broker, name, queue, error);
}

/* --- lanes --- */

/* Every class that fits gets room first, so that all of them learn of the lane or none. */
static bool reserve_in_classes(struct rota_broker *broker, const struct rota_lane *lane,
                               uint32_t number)
{
    size_t place = 0;
    if (broker->queues.all.items[lane->queue]->n_classes == 0)
        return true;
    for (const struct rota_map_entry *entry;
         (entry = rota_map_next(&broker->classes.by_key, &place));) {
        struct rota_work_class *class = entry->value;
        if (rota_broker_class_fits(broker, class, lane) &&
            !rota_broker_class_reserve_lane(class, lane, number))
            return false;
    }
    return true;
}

static enum rota_code make_lane(struct rota_broker *broker, struct rota_work_queue *queue,
                                struct rota_capability_set *set, struct rota_lane **lane,
                                struct rota_error *error)
{
    uint32_t number;
    struct rota_lane *made = calloc(1, sizeof *made);
    if (made) {
        *made = (struct rota_lane){.queue = queue->number, .set = set->number};
        rota_list_init(&made->watches);
    }
    if (!made || !FREE_NUMBER(&broker->lanes.all, &broker->lanes.free_number, &number) ||
        !rota_vector_reserve(&broker->lanes.dirty, broker->lanes.all.size) ||
        !rota_vector_reserve(&queue->lanes, set->number + 1) ||
        !reserve_in_classes(broker, made, number)) {
        free(made);
        return rota_error_no_memory(error, "for a lane of jobs");
    }
    while (queue->lanes.size <= set->number)
        queue->lanes.items[queue->lanes.size++] = ROTA_BROKER_NONE;
    set->n_refs++;
    queue->lanes.items[set->number] = number;
    queue->n_lanes++;
    broker->lanes.all.items[number] = made;
    broker->lanes.n++;
    size_t place = 0;
    for (const struct rota_map_entry *entry;
         queue->n_classes > 0 && (entry = rota_map_next(&broker->classes.by_key, &place));)
        if (rota_broker_class_fits(broker, entry->value, made))
            rota_broker_class_add_lane(entry->value, made, number);
    *lane = made;
    return ROTA_OK;
}

enum rota_code rota_broker_queue_need_lane(struct rota_broker *broker,
                                           const struct rota_job_spec *spec,
                                           struct rota_lane **lane, struct rota_error *error)
{
    struct rota_work_queue *queue = rota_broker_queue(broker, spec->queue);
    struct rota_capability_set *set;
    if (queue && spec->n_capabilities == 0 && queue->lanes.size > 0 &&
        queue->lanes.items[0] != ROTA_BROKER_NONE) { /* what most jobs need: set 0, nothing */
        broker->queues.last = queue;
        *lane = broker->lanes.all.items[queue->lanes.items[0]];
        return ROTA_OK;
    }
    if (broker->lanes.n >= ROTA_BROKER_LANES_MAX ||
        broker->capabilities.n_sets >= ROTA_BROKER_SETS_MAX)
        sweep_lanes(broker);
    enum rota_code code = rota_broker_queue_need(broker, spec->queue, &queue, error);
    if (!code)
        code = rota_capabilities_set(&broker->capabilities, spec->capabilities,
                                     spec->n_capabilities, &set, error);
    if (code)
        return code;
    if (set->number < queue->lanes.size && queue->lanes.items[set->number] != ROTA_BROKER_NONE) {
        *lane = broker->lanes.all.items[queue->lanes.items[set->number]];
        return ROTA_OK;
    }
    if (broker->lanes.n >= ROTA_BROKER_LANES_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "the node already has jobs of %zu pairs of a queue and a set of "
                              "capabilities, the maximum",
                              broker->lanes.n);
    return make_lane(broker, queue, set, lane, error);
}

/* --- partitions --- */

/* Where it is, or would be. */
static size_t find_partition(const struct rota_work_queue *queue, uint32_t partition)
{
    size_t low;
    ROTA_SEARCH(low, queue->partitions.size, middle,
                queue->partitions.items[middle].number < partition);
    return low;
}

struct rota_work_partition *rota_broker_queue_search_partition(const struct rota_work_queue *queue,
                                                               uint32_t partition)
{
    size_t index = find_partition(queue, partition);
    bool is_known =
        index < queue->partitions.size && queue->partitions.items[index].number == partition;
    return is_known ? &queue->partitions.items[index] : NULL;
}

enum rota_code rota_broker_queue_need_partition(struct rota_work_queue *queue, uint32_t number,
                                                struct rota_work_partition **partition,
                                                struct rota_error *error)
{
    struct rota_work_partition *known = rota_broker_partition(queue, number);
    if (!known) {
        size_t index = find_partition(queue, number);
        if (!rota_vector_reserve(&queue->partitions, queue->partitions.size + 1))
            return rota_error_no_memory(error, "for a partition");
        known = &queue->partitions.items[index];
        memmove(known + 1, known, (queue->partitions.size++ - index) * sizeof *known);
        *known = (struct rota_work_partition){.number = number};
    }
    *partition = known;
    return ROTA_OK;
}

/* --- jobs by id --- */

uint32_t rota_broker_queue_find_job(const struct rota_broker *broker, struct rota_str queue,
                                    struct rota_job_id id)
{
    uint32_t number = rota_job_table_find(&broker->jobs, id);
    while (number) {
        const struct rota_work_queue *own =
            rota_broker_queue_of(broker, rota_job_at(&broker->jobs, number));
        if (rota_str_is_equal(rota_broker_queue_name(own), queue))
            break;
        number = rota_job_table_find_next(&broker->jobs, number);
    }
    return number;
}

enum rota_code rota_broker_queue_want_job(const struct rota_broker *broker, struct rota_str queue,
                                          struct rota_job_id id, uint32_t *number,
                                          struct rota_error *error)
{
    char text[ROTA_JOB_ID_TEXT], quoted[ROTA_QUOTE_MAX];
    uint32_t found = rota_broker_queue_find_job(broker, queue, id);
    if (!found)
        return rota_error_set(error, ROTA_ERR_NOT_FOUND, "there is no job %s in queue %s",
                              rota_job_id_format(id, text), rota_quote(queue, quoted));
    *number = found;
    return ROTA_OK;
}
