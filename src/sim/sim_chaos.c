#include "sim/sim_chaos.h"

#include <assert.h>

enum fault { CRASH, PAUSE, SPLIT, JUMP };
enum { N_FAULTS = JUMP + 1 };

static rota_time gap_of(const struct rota_sim_chaos *chaos, enum fault fault)
{
    const rota_time gaps[N_FAULTS] = {chaos->options.crash_every, chaos->options.pause_every,
                                      chaos->options.split_every, chaos->options.jump_every};
    return gaps[fault];
}

static void strike_node(void *data, uint64_t number);
static void undo_fault(void *data, uint64_t number);

static void plan_fault(struct rota_sim_chaos *chaos, enum fault fault)
{
    rota_time gap = gap_of(chaos, fault);
    if (gap == 0)
        return;
    rota_time at = rota_sim_now(chaos->sim) + rota_sim_exponential(&chaos->random, gap);
    if (at < chaos->options.quiet_at)
        rota_sim_call(chaos->sim, at, strike_node, chaos, fault);
}

static void plan_end(struct rota_sim_chaos *chaos, enum fault fault, uint32_t node, rota_time mean)
{
    rota_time at = rota_sim_now(chaos->sim) + rota_sim_exponential(&chaos->random, mean);
    if (at < chaos->options.quiet_at)
        rota_sim_call(chaos->sim, at, undo_fault, chaos, (uint64_t)fault << 32 | node);
}

static void split_network(struct rota_sim_chaos *chaos, uint32_t node)
{
    uint8_t groups[ROTA_SIM_NODES_MAX] = {0};
    uint32_t n = rota_sim_n_nodes(chaos->sim), first = chaos->options.first_node;

    if (rota_random_chance(&chaos->random, 0.5)) {
        for (uint32_t i = 0; i < chaos->options.n_nodes; i++)
            groups[first + i] = rota_random_chance(&chaos->random, 0.5);
        rota_sim_split(chaos->sim, groups);
        return;
    }
    bool is_deaf = rota_random_chance(&chaos->random, 0.5);
    for (uint32_t peer = 0; peer < n; peer++)
        if (peer != node)
            rota_sim_block(chaos->sim, is_deaf ? peer : node, is_deaf ? node : peer, true);
}

static void strike_node(void *data, uint64_t number)
{
    struct rota_sim_chaos *chaos = data;
    struct rota_sim *sim = chaos->sim;
    const struct rota_sim_chaos_options *options = &chaos->options;
    uint32_t node =
        options->first_node + (uint32_t)rota_random_below(&chaos->random, options->n_nodes);
    rota_time by = rota_random_range(&chaos->random, -options->jump_max, options->jump_max);

    switch ((enum fault)number) {
    case CRASH:
        rota_sim_crash(sim, node);
        plan_end(chaos, CRASH, node, options->crash_for);
        break;
    case PAUSE:
        rota_sim_pause(sim, node);
        plan_end(chaos, PAUSE, node, options->pause_for);
        break;
    case SPLIT:
        split_network(chaos, node);
        plan_end(chaos, SPLIT, node, options->split_for);
        break;
    case JUMP:
        rota_sim_set_wall(sim, node, rota_sim_true_wall(sim) + by);
        break;
    }
    plan_fault(chaos, (enum fault)number);
}

static void undo_fault(void *data, uint64_t number)
{
    struct rota_sim_chaos *chaos = data;
    uint32_t node = (uint32_t)number, fault = (uint32_t)(number >> 32);

    if (fault == CRASH)
        rota_sim_start(chaos->sim, node);
    else if (fault == PAUSE)
        rota_sim_resume(chaos->sim, node);
    else
        rota_sim_heal(chaos->sim);
}

/* Everything is repaired, clocks included: as if time were synced again. */
static void repair_all(void *data, uint64_t number)
{
    struct rota_sim_chaos *chaos = data;
    (void)number;
    if (chaos->options.split_every)
        rota_sim_heal(chaos->sim);
    for (uint32_t i = 0; i < chaos->options.n_nodes; i++) {
        uint32_t node = chaos->options.first_node + i;
        rota_sim_start(chaos->sim, node);
        rota_sim_resume(chaos->sim, node);
        if (chaos->options.jump_every)
            rota_sim_sync_wall(chaos->sim, node);
    }
}

void rota_sim_chaos_start(struct rota_sim_chaos *chaos, struct rota_sim *sim,
                          const struct rota_sim_chaos_options *options)
{
    *chaos = (struct rota_sim_chaos){.sim = sim, .options = *options};
    assert(options->first_node < rota_sim_n_nodes(sim));
    if (chaos->options.n_nodes == 0)
        chaos->options.n_nodes = rota_sim_n_nodes(sim) - options->first_node;
    assert(chaos->options.n_nodes <= rota_sim_n_nodes(sim) - options->first_node);

    rota_random_init(&chaos->random, rota_random_next(rota_sim_random(sim)));
    for (int fault = 0; fault < N_FAULTS; fault++)
        plan_fault(chaos, (enum fault)fault);
    rota_sim_call(sim, options->quiet_at, repair_all, chaos, 0);
}
