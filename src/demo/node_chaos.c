#include "demo/node_chaos.h"

static rota_time span_between(struct rota_node_chaos *chaos, rota_time min, rota_time max)
{
    return min + (rota_time)rota_random_below(&chaos->random, (uint64_t)(max - min));
}

static void be_calm(struct rota_node_chaos *chaos, rota_time now)
{
    chaos->state = ROTA_NODE_CHAOS_CALM;
    chaos->at =
        rota_time_add(now, span_between(chaos, ROTA_NODE_CHAOS_CALM_MIN, ROTA_NODE_CHAOS_CALM_MAX));
}

void rota_node_chaos_init(struct rota_node_chaos *chaos, uint32_t n_nodes, uint64_t seed,
                          rota_time now)
{
    *chaos = (struct rota_node_chaos){.n_nodes = n_nodes};
    rota_random_init(&chaos->random, seed);
    be_calm(chaos, now);
}

static enum rota_node_chaos_act strike_node(struct rota_node_chaos *chaos, rota_time now)
{
    chaos->state = ROTA_NODE_CHAOS_DOWN;
    chaos->node = (uint32_t)rota_random_below(&chaos->random, chaos->n_nodes);
    chaos->is_stopped = rota_random_below(&chaos->random, 2) == 0;
    chaos->at =
        rota_time_add(now, span_between(chaos, ROTA_NODE_CHAOS_DOWN_MIN, ROTA_NODE_CHAOS_DOWN_MAX));
    return chaos->is_stopped ? ROTA_NODE_CHAOS_STOP : ROTA_NODE_CHAOS_KILL;
}

struct rota_node_chaos_todo rota_node_chaos_step(struct rota_node_chaos *chaos, rota_time now,
                                                 uint32_t n_well)
{
    enum rota_node_chaos_act act = ROTA_NODE_CHAOS_NOTHING;
    bool are_all_well = n_well >= chaos->n_nodes;
    switch (chaos->state) {
    case ROTA_NODE_CHAOS_CALM:
        if (chaos->is_over || now < chaos->at)
            break;
        if (are_all_well)
            act = strike_node(chaos, now);
        else
            be_calm(chaos, now); /* one died on its own */
        break;
    case ROTA_NODE_CHAOS_DOWN:
        if (!chaos->is_over && now < chaos->at)
            break;
        act = chaos->is_stopped ? ROTA_NODE_CHAOS_CONTINUE : ROTA_NODE_CHAOS_START;
        chaos->state = ROTA_NODE_CHAOS_BACK;
        break;
    case ROTA_NODE_CHAOS_BACK:
        if (are_all_well)
            be_calm(chaos, now);
        break;
    }
    return (struct rota_node_chaos_todo){.act = act, .node = chaos->node};
}

void rota_node_chaos_end(struct rota_node_chaos *chaos)
{
    chaos->is_over = true;
}

rota_time rota_node_chaos_deadline(const struct rota_node_chaos *chaos)
{
    switch (chaos->state) {
    case ROTA_NODE_CHAOS_CALM:
        return chaos->is_over ? ROTA_TIME_NEVER : chaos->at;
    case ROTA_NODE_CHAOS_DOWN:
        return chaos->is_over ? ROTA_TIME_MIN : chaos->at;
    case ROTA_NODE_CHAOS_BACK:
        break;
    }
    return ROTA_TIME_NEVER;
}
