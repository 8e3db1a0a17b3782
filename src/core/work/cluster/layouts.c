#include "core/work/cluster/layouts.h"

#include "base/container.h"
#include "core/place/flips_fsm.h"
#include "core/work/cluster/layout_file.h"

#include <stdlib.h>
#include <string.h>

struct queue {
    struct rota_work_layout layout;
    struct rota_flips_fsm flips; /* without partitions: no change is in progress */
    struct rota_heap_node due;
    size_t name_size;
    char name[]; /* the key in `queues` */
};

static struct rota_str name_of(const struct queue *queue)
{
    return rota_str_of(queue->name, queue->name_size);
}

static struct queue *find_queue(const struct rota_layouts *layouts, struct rota_str name)
{
    return layouts->queues.size > 0 ? rota_map_get(&layouts->queues, name) : NULL;
}

void rota_layouts_init(struct rota_layouts *layouts, const struct rota_work_layout *usual,
                       uint64_t seed)
{
    *layouts = (struct rota_layouts){.usual = *usual};
    rota_map_init(&layouts->queues, seed);
}

/* The change of the queue is over, or another takes its place. */
static void end_change(struct rota_layouts *layouts, struct queue *queue)
{
    layouts->n_changing -= (size_t)queue->flips.n;
    rota_heap_remove(&layouts->dues, &queue->due);
    rota_flips_fsm_deinit(&queue->flips);
}

static void free_queue(struct rota_layouts *layouts, struct queue *queue)
{
    end_change(layouts, queue);
    free(queue);
}

void rota_layouts_deinit(struct rota_layouts *layouts)
{
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(&layouts->queues, &place));)
        free_queue(layouts, entry->value);
    rota_map_deinit(&layouts->queues);
    rota_heap_deinit(&layouts->dues);
    rota_config_unref(layouts->config);
}

void rota_layouts_set_config(struct rota_layouts *layouts, struct rota_config *config)
{
    rota_config_unref(layouts->config);
    layouts->config = config;
}

/* The layout of a queue that is not listed. */
static struct rota_work_layout usual_of(const struct rota_layouts *layouts, struct rota_str name)
{
    if (!layouts->config)
        return layouts->usual;
    const struct rota_layout_file file = rota_layout_file_of(layouts->config, name);
    return rota_layout_file_usual(&file, &layouts->usual);
}

struct rota_work_layout rota_layouts_get(const struct rota_layouts *layouts, struct rota_str queue)
{
    const struct queue *found = find_queue(layouts, queue);
    return found ? found->layout : usual_of(layouts, queue);
}

static struct queue *add_queue(struct rota_layouts *layouts, struct rota_str name)
{
    if (layouts->queues.size >= ROTA_LAYOUTS_MAX)
        return NULL;
    struct queue *made = calloc(1, sizeof *made + name.size + 1);
    if (!made)
        return NULL;
    made->name_size = name.size;
    memcpy(made->name, name.data, name.size);
    if (!rota_map_put(&layouts->queues, name_of(made), made)) {
        free(made);
        return NULL;
    }
    return made;
}

/* It is in the heap already, so that this needs no memory. */
static void await_next(struct rota_layouts *layouts, struct queue *queue)
{
    rota_heap_remove(&layouts->dues, &queue->due);
    queue->due.at = rota_flips_fsm_deadline(&queue->flips);
    queue->due.order = ++layouts->order;
    if (queue->due.at == ROTA_TIME_NEVER || !rota_heap_push(&layouts->dues, &queue->due))
        end_change(layouts, queue);
}

/* Compute the instants of all partitions. Of a change in progress, those that passed are kept. */
static bool follow_change(struct rota_layouts *layouts, rota_time now, struct queue *queue,
                          const struct rota_work_layout *layout, bool goes_on)
{
    const struct rota_queue_config config = rota_layout_config(layout);
    const struct rota_partition root = rota_layout_partition(name_of(queue), 0);
    size_t others = layouts->n_changing - (size_t)queue->flips.n;
    struct rota_flips_fsm made, *flips = goes_on ? &queue->flips : &made;
    rota_flips_fsm_init(&made, &root);
    if (others + layout->read > ROTA_LAYOUTS_CHANGING_MAX ||
        rota_flips_fsm_reserve(flips, layout->read, NULL) ||
        (queue->due.place == 0 && !rota_heap_push(&layouts->dues, &queue->due))) {
        rota_flips_fsm_deinit(&made);
        return false;
    }
    rota_flips_fsm_set(flips, now, &config, layout->read);
    if (!goes_on) {
        rota_flips_fsm_deinit(&queue->flips);
        queue->flips = made;
    }
    layouts->n_changing = others + layout->read;
    await_next(layouts, queue);
    return true;
}

static bool is_same_change(const struct rota_work_layout *a, const struct rota_work_layout *b)
{
    struct rota_work_layout like = *a;
    like.wanted = b->wanted;
    like.write = b->write;
    like.read = b->read;
    return rota_layout_is_equal(&like, b);
}

bool rota_layouts_set(struct rota_layouts *layouts, rota_time now, struct rota_str name,
                      const struct rota_work_layout *layout)
{
    struct queue *queue = find_queue(layouts, name);
    if (rota_layout_is_equal(layout, &layouts->usual)) {
        if (queue) {
            rota_map_remove(&layouts->queues, name);
            free_queue(layouts, queue);
        }
        return true;
    }
    bool is_new = !queue;
    if (is_new && !(queue = add_queue(layouts, name)))
        return false;
    /* A change that ended here is over, whatever the clock says now. */
    bool is_same = !is_new && is_same_change(&queue->layout, layout);
    bool is_changing = is_same ? queue->flips.n > 0 : rota_layout_is_changing(layout, now);
    if (!is_changing) {
        end_change(layouts, queue);
    } else if (!follow_change(layouts, now, queue, layout, is_same)) {
        if (is_new) {
            rota_map_remove(&layouts->queues, name);
            free_queue(layouts, queue);
        }
        return false;
    }
    queue->layout = *layout;
    return true;
}

struct rota_spread rota_layouts_spread(const struct rota_layouts *layouts, struct rota_str queue,
                                       uint32_t partition)
{
    const struct queue *found = find_queue(layouts, queue);
    if (!found)
        return usual_of(layouts, queue).spread;
    return found->flips.n > 0 ? rota_flips_fsm_spread(&found->flips, partition)
                              : found->layout.spread;
}

void rota_layouts_route(const struct rota_layouts *layouts, const struct rota_ring *ring,
                        struct rota_str queue, uint32_t *hosts)
{
    const struct queue *found = find_queue(layouts, queue);
    const struct rota_work_layout layout = found ? found->layout : usual_of(layouts, queue);
    rota_time seen_at = found && found->flips.n > 0 ? found->flips.seen_at[0] : ROTA_TIME_NEVER;
    rota_layout_route(&layout, ring, queue, seen_at, layout.read, hosts);
}

bool rota_layouts_step(struct rota_layouts *layouts, rota_time now, struct rota_layouts_flip *flip)
{
    struct rota_heap_node *first;
    struct rota_flip found;
    while ((first = rota_heap_first(&layouts->dues)) && first->at <= now) {
        struct queue *queue = ROTA_CONTAINER(first, struct queue, due);
        bool has_flipped = rota_flips_fsm_step(&queue->flips, now, &found);
        await_next(layouts, queue);
        if (has_flipped) {
            *flip = (struct rota_layouts_flip){name_of(queue), (uint32_t)found.partition,
                                               found.new_spread};
            return true;
        }
    }
    return false;
}

rota_time rota_layouts_deadline(const struct rota_layouts *layouts)
{
    const struct rota_heap_node *first = rota_heap_first(&layouts->dues);
    return first ? first->at : ROTA_TIME_NEVER;
}
