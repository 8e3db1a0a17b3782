#include "core/call/shards/health_fsm.h"

#include <assert.h>
#include <stdlib.h>

struct node {
    struct rota_heap_node moment; /* first: when to check, or when the check times out */
    uint64_t id;
    uint64_t check; /* that is out; 0: none */
    enum rota_health_state state;
    uint32_t n_failures; /* in a row */
    rota_time asked_at;
    rota_time heard_at; /* without meaning unless `is_heard` */
    bool is_heard;
};

const char *rota_health_state_name(enum rota_health_state state)
{
    switch (state) {
    case ROTA_HEALTH_WELL:
        return "well";
    case ROTA_HEALTH_UNAVAILABLE:
        return "unavailable";
    case ROTA_HEALTH_DROPPED:
        return "dropped";
    }
    return "unknown";
}

static struct rota_str key_of(const uint64_t *id)
{
    return rota_str_of(id, sizeof *id);
}

static struct node *find_node(const struct rota_health_fsm *fsm, uint64_t id)
{
    return rota_map_get(&fsm->nodes, key_of(&id));
}

void rota_health_fsm_init(struct rota_health_fsm *fsm, const struct rota_health_options *options)
{
    *fsm = (struct rota_health_fsm){.options = *options};
    struct rota_health_options *o = &fsm->options;
    if (o->interval <= 0)
        o->interval = ROTA_SEC;
    if (o->timeout <= 0)
        o->timeout = 3 * ROTA_SEC;
    if (o->n_unavailable == 0)
        o->n_unavailable = 3;
    if (o->n_dropped == 0)
        o->n_dropped = 5;
    if (o->n_dropped < o->n_unavailable)
        o->n_dropped = o->n_unavailable;
    if (o->interval_max <= 0)
        o->interval_max = 30 * ROTA_SEC;
    if (o->interval_max < o->interval)
        o->interval_max = o->interval;
    rota_map_init(&fsm->nodes, options->seed);
    rota_random_init(&fsm->random, options->seed);
}

void rota_health_fsm_deinit(struct rota_health_fsm *fsm)
{
    rota_map_deinit_values(&fsm->nodes);
    rota_heap_deinit(&fsm->moments);
}

/* The node was in the heap until now or is put there first, so there is room: rota_heap_remove()
 * keeps it. */
static bool set_moment(struct rota_health_fsm *fsm, struct node *node, rota_time at)
{
    rota_heap_remove(&fsm->moments, &node->moment);
    node->moment.at = at;
    node->moment.order = node->id;
    return rota_heap_push(&fsm->moments, &node->moment);
}

enum rota_code rota_health_fsm_add(struct rota_health_fsm *fsm, rota_time now, uint64_t id,
                                   struct rota_error *error)
{
    if (find_node(fsm, id))
        return ROTA_OK;
    if (fsm->nodes.size >= ROTA_HEALTH_NODES_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "health: %d nodes are already listed, the maximum",
                              ROTA_HEALTH_NODES_MAX);
    struct node *node = calloc(1, sizeof *node);
    if (!node)
        return rota_error_no_memory(error, "for the health of a node");
    node->id = id;
    /* Nodes that are listed together are not asked together. */
    rota_time wait = rota_random_range(&fsm->random, 0, fsm->options.interval);
    if (!set_moment(fsm, node, rota_time_add(now, wait)) ||
        !rota_map_put(&fsm->nodes, key_of(&node->id), node)) {
        rota_heap_remove(&fsm->moments, &node->moment);
        free(node);
        return rota_error_no_memory(error, "for the health of a node");
    }
    return ROTA_OK;
}

void rota_health_fsm_remove(struct rota_health_fsm *fsm, uint64_t id)
{
    struct node *node = rota_map_remove(&fsm->nodes, key_of(&id));
    if (!node)
        return;
    rota_heap_remove(&fsm->moments, &node->moment);
    free(node);
}

/* --- one node --- */

/* The interval between checks. For a dropped node it doubles, and is jittered. */
static rota_time interval_of(struct rota_health_fsm *fsm, const struct node *node)
{
    const struct rota_health_options *options = &fsm->options;
    rota_time interval = options->interval;
    if (node->state != ROTA_HEALTH_DROPPED)
        return interval;
    for (uint32_t i = options->n_dropped; i <= node->n_failures; i++) {
        if (interval >= options->interval_max / 2) {
            interval = options->interval_max;
            break;
        }
        interval *= 2;
    }
    return rota_random_range(&fsm->random, interval / 2, interval);
}

static enum rota_health_state state_of(const struct rota_health_fsm *fsm, const struct node *node)
{
    if (node->n_failures >= fsm->options.n_dropped)
        return ROTA_HEALTH_DROPPED;
    return node->n_failures >= fsm->options.n_unavailable ? ROTA_HEALTH_UNAVAILABLE
                                                          : ROTA_HEALTH_WELL;
}

/* One more failure, or a success that clears all; the check that was out is over. */
static struct rota_health_actions conclude_check(struct rota_health_fsm *fsm, rota_time now,
                                                 struct node *node, bool is_healthy)
{
    enum rota_health_state was = node->state;
    if (is_healthy)
        node->n_failures = 0;
    else if (node->n_failures < UINT32_MAX)
        node->n_failures++;
    node->state = state_of(fsm, node);
    node->check = 0;

    rota_time next = rota_time_add(node->asked_at, interval_of(fsm, node));
    set_moment(fsm, node, next > now ? next : now);
    return (struct rota_health_actions){
        .tell = node->state != was, .node = node->id, .state = node->state};
}

static struct rota_health_actions tick(struct rota_health_fsm *fsm, rota_time now,
                                       struct node *node)
{
    rota_time interval = fsm->options.interval;
    assert(node);
    if (node->check != 0) /* its time is over */
        return conclude_check(fsm, now, node, false);
    if (node->is_heard && now - node->heard_at < interval) {
        node->asked_at = node->heard_at;
        return conclude_check(fsm, now, node, true);
    }
    node->asked_at = now;
    node->check = ++fsm->n_checks;
    set_moment(fsm, node, rota_time_add(now, fsm->options.timeout));
    return (struct rota_health_actions){.ask = true, .node = node->id, .check = node->check};
}

/* --- the machine --- */

struct rota_health_actions rota_health_fsm_step(struct rota_health_fsm *fsm, rota_time now,
                                                const struct rota_health_event *event)
{
    struct rota_health_actions nothing = {0};
    struct node *node = NULL;
    switch (event->type) {
    case ROTA_HEALTH_TICK:
        if (rota_health_fsm_deadline(fsm) > now)
            return nothing;
        return tick(fsm, now, (struct node *)rota_heap_first(&fsm->moments));
    case ROTA_HEALTH_ANSWERED:
        node = find_node(fsm, event->node);
        if (!node || event->check == 0 || node->check != event->check)
            return nothing;
        return conclude_check(fsm, now, node, event->is_healthy);
    case ROTA_HEALTH_HEARD:
        node = find_node(fsm, event->node);
        if (!node)
            return nothing;
        node->is_heard = true;
        node->heard_at = now;
        if (node->n_failures == 0)
            return nothing;
        node->asked_at = now;
        return conclude_check(fsm, now, node, true);
    }
    return nothing;
}

rota_time rota_health_fsm_deadline(const struct rota_health_fsm *fsm)
{
    const struct rota_heap_node *first = rota_heap_first(&fsm->moments);
    return first ? first->at : ROTA_TIME_NEVER;
}

bool rota_health_fsm_look(const struct rota_health_fsm *fsm, uint64_t id,
                          enum rota_health_state *state, uint32_t *n_failures)
{
    const struct node *node = find_node(fsm, id);
    if (!node)
        return false;
    *state = node->state;
    *n_failures = node->n_failures;
    return true;
}
