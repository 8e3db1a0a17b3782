#include "sim/world.h"

#include <assert.h>

/* --- clocks and timers --- */

rota_time rota_sim_mono(const struct rota_sim *sim, uint32_t node)
{
    const struct rota_sim_clock *clock = &rota_sim_get(sim, node)->clock;
    return rota_time_add(rota_sim_clock_ticks(clock, sim->now), clock->mono_offset);
}

rota_time rota_sim_wall(const struct rota_sim *sim, uint32_t node)
{
    const struct rota_sim_clock *clock = &rota_sim_get(sim, node)->clock;
    return rota_time_add(rota_sim_clock_ticks(clock, sim->now), clock->wall_offset);
}

/* The true time, now or later, at which a timer is due. */
static rota_time timer_due_at(const struct rota_sim *sim, const struct rota_sim_pending *timer)
{
    const struct rota_sim_clock *clock = &sim->nodes[timer->node].clock;
    rota_time offset = timer->clock == ROTA_SIM_MONO ? clock->mono_offset : clock->wall_offset;
    rota_time when = rota_sim_clock_when(clock, rota_time_add(timer->at, -offset));
    return when > sim->now ? when : sim->now;
}

static void unset_timer(struct rota_sim *sim, struct rota_sim_node *node,
                        struct rota_sim_pending **slot)
{
    struct rota_sim_pending *timer = *slot;
    if (!timer)
        return;
    rota_heap_remove(timer->is_late ? &node->backlog : &sim->queue, &timer->heap);
    sim->n_late -= timer->is_late;
    rota_sim_pending_free(sim, timer);
    *slot = NULL;
}

static struct rota_sim_pending **timer_slot(struct rota_sim *sim, struct rota_sim_node *node,
                                            uint32_t timer)
{
    assert(timer < ROTA_SIM_TIMERS_MAX);
    while (node->timers.size <= timer) {
        if (!rota_vector_push(&node->timers, NULL)) {
            rota_sim_fail(sim, "not enough memory for timer %u", timer);
            return NULL;
        }
    }
    return &node->timers.items[timer];
}

void rota_sim_set_timer(struct rota_sim *sim, uint32_t node, uint32_t timer,
                        enum rota_sim_clock_kind clock, rota_time at)
{
    struct rota_sim_node *n = rota_sim_get(sim, node);
    assert(n->is_up);
    struct rota_sim_pending **slot = timer_slot(sim, n, timer);
    if (!slot)
        return;
    unset_timer(sim, n, slot);
    if (at == ROTA_TIME_NEVER)
        return;
    struct rota_sim_pending *event = rota_sim_pending_new(sim, ROTA_SIM_WAIT_TIMER, node, 0);
    if (!event)
        return;
    event->number = timer;
    event->clock = clock;
    event->is_late = false;
    event->at = at;
    if (rota_sim_pending_put(sim, &sim->queue, event, timer_due_at(sim, event)))
        *slot = event;
}

/* The clocks have changed: move their timers. */
static void move_timers(struct rota_sim *sim, struct rota_sim_node *node)
{
    for (size_t i = 0; i < node->timers.size; i++) {
        struct rota_sim_pending *timer = node->timers.items[i];
        if (!timer || timer->is_late)
            continue;
        rota_heap_remove(&sim->queue, &timer->heap);
        if (!rota_sim_pending_put(sim, &sim->queue, timer, timer_due_at(sim, timer)))
            node->timers.items[i] = NULL;
    }
}

void rota_sim_jump_wall(struct rota_sim *sim, uint32_t node, rota_time by)
{
    struct rota_sim_node *n = rota_sim_get(sim, node);
    rota_time offset = rota_time_add(n->clock.wall_offset, by);
    if (offset > ROTA_SIM_TIME_MAX)
        offset = ROTA_SIM_TIME_MAX;
    if (offset < -ROTA_SIM_TIME_MAX)
        offset = -ROTA_SIM_TIME_MAX;
    n->clock.wall_offset = offset;
    rota_sim_trace_record_number(sim, ROTA_SIM_JUMPED, node, ROTA_SIM_NO_NODE, (uint64_t)by);
    move_timers(sim, n);
}

void rota_sim_set_wall(struct rota_sim *sim, uint32_t node, rota_time wall)
{
    rota_sim_jump_wall(sim, node, rota_time_add(wall, -rota_sim_wall(sim, node)));
}

void rota_sim_sync_wall(struct rota_sim *sim, uint32_t node)
{
    rota_sim_set_wall(sim, node, rota_sim_true_wall(sim) + rota_sim_get(sim, node)->skew);
}

void rota_sim_set_drift(struct rota_sim *sim, uint32_t node, int32_t drift_ppm)
{
    struct rota_sim_node *n = rota_sim_get(sim, node);
    rota_sim_clock_set_drift(&n->clock, sim->now, drift_ppm);
    rota_sim_trace_record_number(sim, ROTA_SIM_DRIFTED, node, ROTA_SIM_NO_NODE,
                                 (uint64_t)(int64_t)drift_ppm);
    move_timers(sim, n);
}

/* --- lives --- */

void rota_sim_crash(struct rota_sim *sim, uint32_t node)
{
    struct rota_sim_node *n = rota_sim_get(sim, node);
    if (!n->is_up)
        return;
    for (size_t i = 0; i < n->timers.size; i++)
        unset_timer(sim, n, &n->timers.items[i]);
    sim->n_late -= n->backlog.size;
    rota_sim_pending_empty(sim, &n->backlog);
    n->is_up = false;
    n->is_paused = false;
    rota_sim_trace_record_number(sim, ROTA_SIM_CRASHED, node, ROTA_SIM_NO_NODE, n->life);
    if (sim->options.on_crash)
        sim->options.on_crash(sim->options.data, node);
}

void rota_sim_start(struct rota_sim *sim, uint32_t node)
{
    struct rota_sim_node *n = rota_sim_get(sim, node);
    if (n->is_up)
        return;
    n->is_up = true;
    n->life++;
    n->clock.mono_offset =
        rota_random_range(&sim->own, 0, 30 * ROTA_DAY) - rota_sim_clock_ticks(&n->clock, sim->now);
    rota_sim_trace_record_number(sim, ROTA_SIM_STARTED, node, ROTA_SIM_NO_NODE, n->life);
    sim->options.on_start(sim->options.data, node);
}

void rota_sim_pause(struct rota_sim *sim, uint32_t node)
{
    struct rota_sim_node *n = rota_sim_get(sim, node);
    if (!n->is_up || n->is_paused)
        return;
    n->is_paused = true;
    rota_sim_trace_record_number(sim, ROTA_SIM_PAUSED, node, ROTA_SIM_NO_NODE, 0);
}

void rota_sim_resume(struct rota_sim *sim, uint32_t node)
{
    struct rota_sim_node *n = rota_sim_get(sim, node);
    if (!n->is_paused)
        return;
    n->is_paused = false;
    rota_sim_trace_record_number(sim, ROTA_SIM_RESUMED, node, ROTA_SIM_NO_NODE, n->backlog.size);
    sim->n_late -= n->backlog.size;
    struct rota_heap_node *first;
    while ((first = rota_heap_first(&n->backlog))) {
        struct rota_sim_pending *event = (struct rota_sim_pending *)first;
        rota_heap_remove(&n->backlog, first);
        event->is_late = false;
        if (!rota_sim_pending_put(sim, &sim->queue, event, first->at) &&
            event->what == ROTA_SIM_WAIT_TIMER)
            n->timers.items[event->number] = NULL;
    }
}
