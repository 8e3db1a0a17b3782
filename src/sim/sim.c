#include "sim/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- events and their memory --- */

struct rota_sim_pending *rota_sim_pending_new(struct rota_sim *sim, enum rota_sim_what what,
                                              uint32_t node, size_t size)
{
    uint32_t size_class = 0;
    if (size > ROTA_SIM_MESSAGE_MAX)
        rota_sim_fail(sim, "a message of %zu bytes to node %u exceeds the limit of %d", size, node,
                      ROTA_SIM_MESSAGE_MAX);
    if (sim->queue.size + sim->n_late >= ROTA_SIM_PENDING_MAX)
        rota_sim_fail(sim, "%d events are already pending, the maximum", ROTA_SIM_PENDING_MAX);
    if (sim->is_failed)
        return NULL;

    while ((size_t)ROTA_SIM_SMALLEST << 2 * size_class < size)
        size_class++;
    struct rota_sim_pending *event = sim->free[size_class];
    if (event)
        sim->free[size_class] = event->next_free;
    else
        event = malloc(sizeof *event + ((size_t)ROTA_SIM_SMALLEST << 2 * size_class));
    if (!event) {
        rota_sim_fail(sim, "not enough memory for an event");
        return NULL;
    }
    event->heap.place = 0;
    event->heap.order = sim->order++;
    event->what = what;
    event->size_class = size_class;
    event->node = node;
    event->size = size;
    return event;
}

void rota_sim_pending_free(struct rota_sim *sim, struct rota_sim_pending *event)
{
    event->next_free = sim->free[event->size_class];
    sim->free[event->size_class] = event;
}

bool rota_sim_pending_put(struct rota_sim *sim, struct rota_heap *heap,
                          struct rota_sim_pending *event, rota_time at)
{
    event->heap.at = at;
    if (rota_heap_push(heap, &event->heap))
        return true;
    rota_sim_fail(sim, "not enough memory for a queue");
    rota_sim_pending_free(sim, event);
    return false;
}

void rota_sim_pending_empty(struct rota_sim *sim, struct rota_heap *heap)
{
    for (size_t i = 0; i < heap->size; i++)
        rota_sim_pending_free(sim, (struct rota_sim_pending *)heap->nodes[i]);
    heap->size = 0;
}

/* --- the world --- */

static void start_first(void *data, uint64_t number)
{
    rota_sim_start(data, (uint32_t)number);
}

static void node_init(struct rota_sim *sim, uint32_t number)
{
    const struct rota_sim_options *options = &sim->options;
    struct rota_sim_node *node = &sim->nodes[number];
    node->skew = rota_random_range(&sim->own, -options->skew_max, options->skew_max);
    node->clock.wall_offset = ROTA_SIM_WALL_START + node->skew;
    node->clock.drift_ppm =
        (int32_t)rota_random_range(&sim->own, -options->drift_max_ppm, options->drift_max_ppm);
    rota_sim_call(sim, 0, start_first, sim, number);
}

enum rota_code rota_sim_new(const struct rota_sim_options *options, struct rota_sim **sim,
                            struct rota_error *error)
{
    struct rota_sim_link link = rota_sim_net_link_normal(options->link);
    if (options->n_nodes < 1 || options->n_nodes > ROTA_SIM_NODES_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "a world of %u nodes: 1 to %d are allowed",
                              options->n_nodes, ROTA_SIM_NODES_MAX);
    if (!rota_sim_net_link_is_valid(&link))
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "the link: needs 0 <= min <= mean <= max delay, and chances in [0, 1]");
    if (options->skew_max < 0 || options->skew_max > ROTA_SIM_TIME_MAX ||
        options->drift_max_ppm < 0 || options->drift_max_ppm > ROTA_SIM_DRIFT_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the clocks: a skew of 0 or more and a drift of 0 to %d ppm",
                              ROTA_SIM_DRIFT_MAX);

    struct rota_sim *s = calloc(1, sizeof *s + options->n_nodes * sizeof *s->nodes);
    if (!s)
        return rota_error_no_memory(error, "for a simulation of %u nodes", options->n_nodes);
    uint64_t seed = options->seed;
    s->options = *options;
    s->options.link = link;
    rota_random_init(&s->own, rota_random_mix(&seed));
    rota_random_init(&s->users, rota_random_mix(&seed));
    for (uint32_t i = 0; i < options->n_nodes; i++)
        node_init(s, i);
    *sim = s;
    return ROTA_OK;
}

void rota_sim_free(struct rota_sim *sim)
{
    if (!sim)
        return;
    rota_sim_pending_empty(sim, &sim->queue);
    rota_heap_deinit(&sim->queue);
    for (uint32_t i = 0; i < sim->options.n_nodes; i++) {
        struct rota_sim_node *node = &sim->nodes[i];
        rota_sim_pending_empty(sim, &node->backlog);
        rota_heap_deinit(&node->backlog);
        rota_vector_deinit(&node->timers);
        free(node->blocked);
        free(node->links);
    }
    for (int size_class = 0; size_class < ROTA_SIM_CLASSES; size_class++) {
        for (struct rota_sim_pending *event = sim->free[size_class], *next; event; event = next) {
            next = event->next_free;
            free(event);
        }
    }
    free(sim);
}

static void deliver_message(struct rota_sim *sim, struct rota_sim_pending *event)
{
    bool is_up = sim->nodes[event->node].is_up;
    struct rota_str bytes = rota_str_of(event->bytes, event->size);
    rota_sim_trace_record(
        sim, (struct rota_sim_event){.kind = is_up ? ROTA_SIM_MESSAGE : ROTA_SIM_VANISHED,
                                     .node = event->node,
                                     .peer = event->from,
                                     .bytes = bytes});
    if (is_up)
        sim->options.on_message(sim->options.data, event->node, event->from, bytes);
}

static void deliver_event(struct rota_sim *sim, struct rota_sim_pending *event)
{
    switch (event->what) {
    case ROTA_SIM_WAIT_TIMER:
        sim->nodes[event->node].timers.items[event->number] = NULL;
        rota_sim_trace_record_number(sim, ROTA_SIM_TIMER, event->node, ROTA_SIM_NO_NODE,
                                     event->number);
        sim->options.on_timer(sim->options.data, event->node, (uint32_t)event->number);
        break;
    case ROTA_SIM_WAIT_MESSAGE:
        deliver_message(sim, event);
        break;
    case ROTA_SIM_WAIT_CALL:
        rota_sim_trace_record_number(sim, ROTA_SIM_CALL, ROTA_SIM_NO_NODE, ROTA_SIM_NO_NODE,
                                     event->number);
        event->call(event->data, event->number);
        break;
    }
    rota_sim_pending_free(sim, event);
}

/* Keep events for a paused node for later. */
static void hold_event(struct rota_sim *sim, struct rota_sim_node *node,
                       struct rota_sim_pending *event)
{
    bool is_timer = event->what == ROTA_SIM_WAIT_TIMER;
    uint64_t number = event->number;
    event->is_late = true;
    if (rota_sim_pending_put(sim, &node->backlog, event, event->heap.at))
        sim->n_late++;
    else if (is_timer)
        node->timers.items[number] = NULL;
}

/* What was late is queued again with the time it had, so `at` may be past. */
static void advance_clock(struct rota_sim *sim, rota_time at)
{
    if (at > sim->now) {
        sim->now = at;
        sim->instant = 0;
    } else if (++sim->instant > ROTA_SIM_INSTANT_EVENTS_MAX) {
        rota_sim_fail(sim, "time does not advance: %d events at one time",
                      ROTA_SIM_INSTANT_EVENTS_MAX);
    }
}

static void ask_checks(struct rota_sim *sim)
{
    for (size_t i = 0; i < sim->n_checks && !sim->is_failed; i++) {
        const char *sentence = sim->checks[i].ask(sim->checks[i].data);
        if (sentence)
            rota_sim_fail(sim, "%s", sentence);
    }
}

/* The next event, or NULL. */
static struct rota_sim_pending *next_event(const struct rota_sim *sim)
{
    struct rota_heap_node *first = rota_heap_first(&sim->queue);
    return first && first->at <= ROTA_SIM_TIME_MAX ? (struct rota_sim_pending *)first : NULL;
}

bool rota_sim_step(struct rota_sim *sim)
{
    struct rota_sim_pending *event = next_event(sim);
    if (sim->is_failed || !event)
        return false;
    rota_heap_remove(&sim->queue, &event->heap);
    advance_clock(sim, event->heap.at);
    sim->n_events++;
    if (event->what != ROTA_SIM_WAIT_CALL && sim->nodes[event->node].is_paused)
        hold_event(sim, &sim->nodes[event->node], event);
    else
        deliver_event(sim, event);
    ask_checks(sim);
    return !sim->is_failed;
}

bool rota_sim_run(struct rota_sim *sim, rota_time until)
{
    assert(until <= ROTA_SIM_TIME_MAX || until == ROTA_TIME_NEVER);
    while (!sim->is_failed) {
        struct rota_sim_pending *event = next_event(sim);
        if (!event || event->heap.at > until)
            break;
        rota_sim_step(sim);
    }
    if (!sim->is_failed && until != ROTA_TIME_NEVER && until > sim->now) {
        advance_clock(sim, until);
        ask_checks(sim);
    }
    return !sim->is_failed;
}

void rota_sim_call(struct rota_sim *sim, rota_time at, void (*call)(void *data, uint64_t number),
                   void *data, uint64_t number)
{
    struct rota_sim_pending *event =
        rota_sim_pending_new(sim, ROTA_SIM_WAIT_CALL, ROTA_SIM_NO_NODE, 0);
    if (!event)
        return;
    event->call = call;
    event->data = data;
    event->number = number;
    rota_sim_pending_put(sim, &sim->queue, event, at > sim->now ? at : sim->now);
}

/* --- checks and queries --- */

void rota_sim_add_check(struct rota_sim *sim, const char *(*check)(void *data), void *data)
{
    assert(sim->n_checks < ROTA_SIM_CHECKS_MAX);
    sim->checks[sim->n_checks++] = (struct rota_sim_check){check, data};
}

void rota_sim_fail(struct rota_sim *sim, const char *format, ...)
{
    if (sim->is_failed)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(sim->violation, sizeof sim->violation, format, args);
    va_end(args);
    sim->is_failed = true;
}

const char *rota_sim_violation(const struct rota_sim *sim)
{
    return sim->is_failed ? sim->violation : NULL;
}

rota_time rota_sim_now(const struct rota_sim *sim)
{
    return sim->now;
}

rota_time rota_sim_true_wall(const struct rota_sim *sim)
{
    return ROTA_SIM_WALL_START + sim->now;
}

uint64_t rota_sim_n_events(const struct rota_sim *sim)
{
    return sim->n_events;
}

uint64_t rota_sim_trace_hash(const struct rota_sim *sim)
{
    return sim->hash;
}

uint64_t rota_sim_seed(const struct rota_sim *sim)
{
    return sim->options.seed;
}

uint32_t rota_sim_n_nodes(const struct rota_sim *sim)
{
    return sim->options.n_nodes;
}

struct rota_random *rota_sim_random(struct rota_sim *sim)
{
    return &sim->users;
}

bool rota_sim_is_up(const struct rota_sim *sim, uint32_t node)
{
    return rota_sim_get(sim, node)->is_up;
}

bool rota_sim_is_paused(const struct rota_sim *sim, uint32_t node)
{
    return rota_sim_get(sim, node)->is_paused;
}

uint32_t rota_sim_life(const struct rota_sim *sim, uint32_t node)
{
    return rota_sim_get(sim, node)->life;
}
