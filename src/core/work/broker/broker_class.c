#include "core/work/broker/broker_inside.h"

#include "base/buffer.h"

#include <string.h>

/* --- lanes --- */

struct rota_choice *rota_broker_class_choice(const struct rota_work_class *class, uint32_t queue)
{
    for (size_t i = 0; i < class->n_queues; i++)
        if (class->queues[i] == queue)
            return &class->choices[i];
    return NULL;
}

bool rota_broker_class_fits(const struct rota_broker *broker, const struct rota_work_class *class,
                            const struct rota_lane *lane)
{
    const struct rota_capability_set *set =
        rota_capabilities_set_at(&broker->capabilities, lane->set);
    return rota_broker_class_choice(class, lane->queue) &&
           rota_capability_list_has(&class->capabilities, &set->list);
}

bool rota_broker_class_reserve_lane(struct rota_work_class *class, const struct rota_lane *lane,
                                    uint32_t number)
{
    if (!rota_vector_reserve(&class->has_lane, number / 64 + 1) ||
        !rota_choice_reserve(rota_broker_class_choice(class, lane->queue)))
        return false;
    while (class->has_lane.size <= number / 64)
        class->has_lane.items[class->has_lane.size++] = 0;
    return true;
}

void rota_broker_class_add_lane(struct rota_work_class *class, struct rota_lane *lane,
                                uint32_t number)
{
    rota_choice_watch(rota_broker_class_choice(class, lane->queue), lane);
    class->has_lane.items[number / 64] |= (uint64_t)1 << number % 64;
}

static bool add_lanes_of(const struct rota_broker *broker, struct rota_work_class *class,
                         const struct rota_work_queue *queue)
{
    for (size_t i = 0; i < queue->lanes.size; i++) {
        uint32_t number = queue->lanes.items[i];
        struct rota_lane *lane =
            number == ROTA_BROKER_NONE ? NULL : broker->lanes.all.items[number];
        if (!lane || !rota_broker_class_fits(broker, class, lane))
            continue;
        if (!rota_broker_class_reserve_lane(class, lane, number))
            return false;
        rota_broker_class_add_lane(class, lane, number);
    }
    return true;
}

static bool add_lanes(const struct rota_broker *broker, struct rota_work_class *class)
{
    class->choices = calloc(class->n_queues, sizeof *class->choices);
    if (!class->choices)
        return false;
    for (size_t i = 0; i < class->n_queues; i++)
        rota_choice_init(&class->choices[i]);
    for (size_t i = 0; i < class->n_queues; i++)
        if (!add_lanes_of(broker, class, broker->queues.all.items[class->queues[i]]))
            return false;
    return true;
}

/* --- coming and going --- */

/* Each name once, in order, followed by a blank, which is in none of them. */
static void append_names(struct rota_buffer *text, const struct rota_str *names, size_t n)
{
    struct rota_str sorted[ROTA_WORKER_CAPABILITIES_MAX];
    assert(n <= ROTA_WORKER_CAPABILITIES_MAX);
    n = rota_capabilities_sort(names, n, sorted);
    for (size_t i = 0; i < n; i++) {
        rota_buffer_append_str(text, sorted[i]);
        rota_buffer_append_char(text, ' ');
    }
}

static void free_class(struct rota_broker *broker, struct rota_work_class *class)
{
    for (size_t i = 0; i < class->n_queues; i++) {
        struct rota_work_queue *queue = broker->queues.all.items[class->queues[i]];
        if (--queue->n_classes == 0)
            rota_broker_queue_note_empty(broker, queue);
        if (class->choices)
            rota_choice_deinit(&class->choices[i]);
    }
    rota_vector_deinit(&class->has_lane);
    rota_capabilities_drop_list(&broker->capabilities, &class->capabilities);
    free(class->choices);
    free(class->text);
    free(class);
}

/* Take a reference to each queue at once: making the next one may sweep those without. */
static enum rota_code add_queues(struct rota_broker *broker, struct rota_work_class *class,
                                 const struct rota_worker_spec *spec, struct rota_error *error)
{
    for (size_t i = 0; i < spec->n_queues; i++) {
        struct rota_work_queue *queue;
        enum rota_code code = rota_broker_queue_need(broker, spec->queues[i], &queue, error);
        if (code)
            return code;
        bool is_known = false;
        for (size_t k = 0; k < class->n_queues; k++)
            is_known = is_known || class->queues[k] == queue->number;
        if (is_known)
            continue;
        class->queues[class->n_queues++] = queue->number;
        queue->is_deleted = false;
        queue->n_classes++;
    }
    return ROTA_OK;
}

static enum rota_code make_class(struct rota_broker *broker, const struct rota_worker_spec *spec,
                                 struct rota_buffer *text, struct rota_work_class **class,
                                 struct rota_error *error)
{
    struct rota_work_class *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for a worker");
    rota_list_init(&made->free_workers);
    enum rota_code code =
        rota_capabilities_make_list(&broker->capabilities, spec->capabilities, spec->n_capabilities,
                                    &made->capabilities, error);
    if (!code)
        code = add_queues(broker, made, spec, error);
    if (!code && (!add_lanes(broker, made) ||
                  !rota_map_put(&broker->classes.by_key, rota_buffer_str(text), made)))
        code = rota_error_no_memory(error, "for a worker");
    if (code) {
        free_class(broker, made);
        return code;
    }
    made->text = text->data; /* taken */
    made->text_size = text->size;
    *text = (struct rota_buffer){0};
    *class = made;
    return ROTA_OK;
}

enum rota_code rota_broker_class_need(struct rota_broker *broker,
                                      const struct rota_worker_spec *spec,
                                      struct rota_work_class **class, struct rota_error *error)
{
    struct rota_buffer text = {0};
    append_names(&text, spec->queues, spec->n_queues);
    rota_buffer_append_char(&text, '|');
    append_names(&text, spec->capabilities, spec->n_capabilities);
    enum rota_code code = ROTA_OK;
    if (text.failed)
        code = rota_error_no_memory(error, "for a worker");
    struct rota_work_class *known =
        code ? NULL : rota_map_get(&broker->classes.by_key, rota_buffer_str(&text));
    if (known)
        *class = known;
    else if (!code)
        code = make_class(broker, spec, &text, class, error);
    rota_buffer_deinit(&text);
    return code;
}

void rota_broker_class_settle(struct rota_broker *broker, struct rota_work_class *class)
{
    bool is_away = class->n_workers == 0 && class->n_leased > 0;
    broker->classes.n_away += is_away - (size_t) class->is_away;
    class->is_away = is_away;
    if (class->n_workers > 0 || class->n_leased > 0)
        return;
    rota_map_remove(&broker->classes.by_key, rota_str_of(class->text, class->text_size));
    free_class(broker, class);
}

/* --- free workers --- */

void rota_broker_class_put_free(struct rota_broker *broker, struct rota_work_worker *worker)
{
    struct rota_work_class *class = worker->class;
    assert(!worker->is_free);
    worker->is_free = true;
    if (rota_list_is_empty(&class->free_workers)) {
        class->free_since = broker->now.boot;
        rota_list_push(&broker->classes.free, &class->link);
    }
    rota_list_push(&class->free_workers, &worker->link);
}

void rota_broker_class_take_free(struct rota_work_worker *worker)
{
    struct rota_work_class *class = worker->class;
    assert(worker->is_free);
    worker->is_free = false;
    rota_list_remove(&worker->link);
    if (rota_list_is_empty(&class->free_workers))
        rota_list_remove(&class->link);
}

void rota_broker_class_turn(struct rota_broker *broker, struct rota_work_worker *worker)
{
    struct rota_work_class *class = worker->class;
    if (worker->is_free) {
        rota_broker_class_take_free(worker);
        rota_broker_class_put_free(broker, worker);
    }
    if (class->link.next) {
        rota_list_remove(&class->link);
        rota_list_push(&broker->classes.free, &class->link);
    }
}
