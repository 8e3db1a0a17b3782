/* Gets over two data centers that fail, move and are re-sharded under them.
 *
 * Node 0 is a client with several Gets at a time, and pings; the others are hosts
 * that hold shards by lease (get_servers.h). First one dc at a time is in trouble:
 * hosts or all of it crash, stop, become slow, are cut off, deny what they hold, or it
 * goes from 4 shards to 8 host by host. Then anything happens anywhere. Then it is quiet.
 *
 * Each key of a Get has one result, the right one, or is named with a reason (C1); it
 * comes from a host that held its shard (R3) and not from one whose claim the client
 * has seen to be over (O3). Nothing begins after the deadline, nothing is left running
 * after the finish, and there is one finish. While one dc is well no Get fails, and none
 * fails before its deadline. A broadcast asks all replicas that the client knows of.
 *
 * At the end the ways to send copies are compared under growing load, also when it is
 * too much, and with a frozen host. */
#include "get_clients.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of all seeds, for whoever reads the output. */
static struct rota_get_stats totals;

/* --- the world --- */

static void on_start(void *data, uint32_t node)
{
    struct world *world = (struct world *)data;
    if (node != 0) {
        server_start(&world->cluster, node);
        return;
    }
    rota_time now = clock_of(world);
    rota_budget_init(&world->budget, now, &ROTA_BUDGET_RETRIES);
    rota_hedge_init(&world->hedge, now,
                    &(struct rota_hedge_options){.budget = ROTA_GET_BUDGET_HEDGES});
    rota_get_load_init(&world->load, now);
    rota_sim_set_timer(world->sim, 0, (uint32_t)world->n_gets, ROTA_SIM_MONO, now + ROTA_MSEC);
    rota_sim_set_timer(world->sim, 0, (uint32_t)world->n_gets + 1, ROTA_SIM_MONO,
                       now + 5 * ROTA_MSEC);
}

static void on_message(void *data, uint32_t node, uint32_t from, struct rota_str bytes)
{
    struct world *world = (struct world *)data;
    struct message message;
    memcpy(&message, bytes.data, bytes.size);
    if (node != 0) {
        server_take(&world->cluster, node, &message);
        return;
    }
    if (message.type == RESPONSE)
        note_told(world, from, &message);
    if (message.type == REFUSAL)
        on_refusal(world, from, &message);
    else if (message.is_ping)
        on_pong(world, from, &message);
    else
        on_response(world, from, &message);
    bool is_untold = world->plant == PLANT_STALE_TAKEN || world->plant == PLANT_MISMATCH_TAKEN ||
                     world->plant == PLANT_MISMATCH_AGAIN;
    if (message.type == RESPONSE && !is_untold)
        check_map(world, from);
}

static void on_timer(void *data, uint32_t node, uint32_t timer)
{
    struct world *world = (struct world *)data;
    if (node != 0 && timer == TIMER_RENEW)
        server_renew(&world->cluster, node);
    else if (node != 0)
        server_end(&world->cluster, node, timer);
    else if (timer == world->n_gets)
        ping(world);
    else if (timer == world->n_gets + 1)
        start_some(world);
    else if (world->gets[timer].is_active)
        drive(world, &world->gets[timer], &(struct rota_get_fsm_event){.type = ROTA_GET_TICK});
}

/* --- faults --- */

static uint32_t first_of(uint64_t dc)
{
    return FIRST_SERVER + (uint32_t)dc * N_HOSTS;
}

static void block_dc(struct world *world, uint64_t dc, bool is_blocked)
{
    for (uint32_t node = first_of(dc); node < first_of(dc) + N_HOSTS; node++) {
        rota_sim_block(world->sim, 0, node, is_blocked);
        rota_sim_block(world->sim, node, 0, is_blocked);
    }
}

static const struct rota_sim_link LINK = {100 * ROTA_USEC, 300 * ROTA_USEC, 20 * ROTA_MSEC, 0.002,
                                          0.01};

/* A dc is well if what it is sent and what it answers arrives: a Get whose time is over after two
 * tries would not outlast two losses in a row. */
static void set_losses(struct world *world, uint64_t dc, bool has_losses)
{
    struct rota_sim_link link = LINK;
    link.loss = has_losses ? LINK.loss : 0;
    for (uint32_t node = first_of(dc); node < first_of(dc) + N_HOSTS; node++) {
        rota_sim_set_link(world->sim, 0, node, &link);
        rota_sim_set_link(world->sim, node, 0, &link);
    }
}

static void on_restart(void *data, uint64_t node)
{
    struct world *world = (struct world *)data;
    rota_sim_crash(world->sim, (uint32_t)node);
    rota_sim_start(world->sim, (uint32_t)node);
}

/* One host after the other comes back with the new number of shards. */
static void reshard(struct world *world, uint64_t dc)
{
    world->cluster.n_shards[dc] = SHARDS_MAX;
    for (uint32_t i = 0; i < N_HOSTS; i++)
        rota_sim_call(world->sim, rota_sim_now(world->sim) + i * 60 * ROTA_MSEC, on_restart, world,
                      first_of(dc) + i);
}

static void end_trouble(void *data, uint64_t dc)
{
    struct world *world = (struct world *)data;
    block_dc(world, dc, false);
    for (uint32_t node = first_of(dc); node < first_of(dc) + N_HOSTS; node++) {
        rota_sim_resume(world->sim, node);
        rota_sim_start(world->sim, node);
        world->cluster.servers[node].service = world->setting.service;
        world->cluster.servers[node].is_confused = false;
    }
}

static void begin_trouble(void *data, uint64_t window)
{
    struct world *world = (struct world *)data;
    struct rota_random *random = rota_sim_random(world->sim);
    uint64_t dc = window % N_DCS;
    uint32_t victim = first_of(dc) + (uint32_t)rota_random_below(random, N_HOSTS / 2);
    rota_time span = 100 * ROTA_MSEC + (rota_time)rota_random_below(random, 500 * ROTA_MSEC);
    for (uint64_t other = 0; other < N_DCS; other++)
        set_losses(world, other, other == dc);
    if (world->is_resharded && window < N_DCS) {
        reshard(world, dc);
        return;
    }
    switch (rota_random_below(random, 6)) {
    case 0:
        rota_sim_crash(world->sim, victim);
        break;
    case 1:
        for (uint32_t node = first_of(dc); node < first_of(dc) + N_HOSTS; node++)
            rota_sim_crash(world->sim, node);
        break;
    case 2:
        rota_sim_pause(world->sim, victim);
        break;
    case 3:
        world->cluster.servers[victim].service *= 100;
        break;
    case 4:
        block_dc(world, dc, true);
        break;
    case 5:
        world->cluster.servers[victim].is_confused = true;
        break;
    }
    rota_sim_call(world->sim, rota_sim_now(world->sim) + span, end_trouble, world, dc);
}

static void on_assign(void *data, uint64_t number)
{
    struct world *world = (struct world *)data;
    if (!world->setting.is_frozen || rota_sim_now(world->sim) < world->setting.record_at)
        cluster_assign(&world->cluster); /* else it would be replaced */
    rota_sim_call(world->sim, rota_sim_now(world->sim) + ASSIGN_EVERY, on_assign, world, number);
}

/* A host is stopped with work in hand, and continues when others have its shard: what
 * it answers then is over. No other process can answer before that. */
static void on_freeze(void *data, uint64_t step)
{
    struct world *world = (struct world *)data;
    static const rota_time after[] = {20 * ROTA_MSEC, 350 * ROTA_MSEC, FREEZE - 370 * ROTA_MSEC};
    for (uint32_t node = first_of(0); node < first_of(1); node++) {
        if (step == 0)
            world->cluster.servers[node].service *= 50;
        else if (step == 1 && node % 2 == 0 && world->cluster.servers[node].n_claims > 0)
            rota_sim_pause(world->sim, node);
        else if (step == 2)
            rota_sim_resume(world->sim, node);
    }
    if (step == 0)
        block_dc(world, 1, true);
    if (step < 3)
        rota_sim_call(world->sim, rota_sim_now(world->sim) + after[step], on_freeze, world,
                      step + 1);
    for (uint64_t dc = 0; step == 3 && dc < N_DCS; dc++)
        end_trouble(world, dc);
}

static void on_chaos(void *data, uint64_t number)
{
    struct world *world = (struct world *)data;
    (void)number;
    rota_sim_chaos_start(&world->chaos, world->sim,
                         &(struct rota_sim_chaos_options){
                             .first_node = FIRST_SERVER,
                             .quiet_at = QUIET_AT,
                             .crash_every = 200 * ROTA_MSEC,
                             .crash_for = 200 * ROTA_MSEC,
                             .pause_every = 150 * ROTA_MSEC,
                             .pause_for = 300 * ROTA_MSEC,
                             .split_every = 500 * ROTA_MSEC,
                             .split_for = 200 * ROTA_MSEC,
                         });
}

static const char *all_is_well(void *data)
{
    return ((struct world *)data)->violation;
}

/* --- one run --- */

static void open_world(struct world *world, const struct sim_case *run)
{
    const struct setting *setting = &world->setting;
    bool is_loaded = setting->load > 0;
    struct rota_sim_options options = {
        .n_nodes = N_NODES,
        .link = LINK,
        .drift_max_ppm = 100,
        .on_start = on_start,
        .on_message = on_message,
        .on_timer = on_timer,
        .data = world,
    };
    if (is_loaded)
        options.link = (struct rota_sim_link){100 * ROTA_USEC, 200 * ROTA_USEC, ROTA_MSEC, 0, 0};
    world->plant = (enum plant)run->plant;
    world->sim = sim_case_new(run, options);
    world->n_gets = is_loaded ? 2048 : N_GETS;
    world->gets = (struct get *)calloc(world->n_gets, sizeof *world->gets);
    rota_random_init(&world->random, run->seed);
    rota_interval_map_new(run->seed, &world->map, NULL);
    rota_balancer_new(&(struct rota_balancer_options){.seed = run->seed}, &world->balancer, NULL);
    list_hosts(world);
    world->shared = (struct rota_get_shared){
        .map = world->map,
        .balancer = world->balancer,
        .random = &world->random,
        .budget = &world->budget,
        .hedge = world->plant == PLANT_NEVER_HEDGES ? NULL : &world->hedge,
        .load = &world->load,
        .stats = &world->stats,
    };
    for (size_t i = 0; i < world->n_gets; i++)
        rota_get_fsm_init(&world->gets[i].fsm, &world->shared);
    world->cluster.sim = world->sim;
    world->cluster.n_slots = setting->n_slots;
    world->cluster.is_steady = setting->is_steady;
    world->cluster.leaves_out = !is_loaded;
    world->cluster.n_each = is_loaded ? 1 : 1 + (uint32_t)(run->seed / ROTA_GET_MODES % 3);
    world->cluster.n_shards[0] = world->cluster.n_shards[1] = 4;
    rota_random_init(&world->cluster.random, run->seed + 1);
    for (uint32_t node = FIRST_SERVER; node < N_NODES; node++)
        world->cluster.servers[node].service = setting->service;
    rota_sim_add_check(world->sim, all_is_well, world);
    rota_sim_call(world->sim, 0, on_assign, world, 0);
}

static void close_world(struct world *world, struct sim_case *run)
{
    for (size_t i = 0; i < world->n_gets; i++)
        rota_get_fsm_deinit(&world->gets[i].fsm, clock_of(world));
    if (!world->violation && rota_balancer_n_tries(world->balancer) > 0)
        rota_sim_fail(world->sim, "the balancer was not told of the end of all tries");
    if (!world->violation && world->stats.n_running > 0)
        rota_sim_fail(world->sim, "tries are counted that do not run");
    if (!run->plant) {
        totals.n_gets += world->stats.n_gets;
        totals.n_tries += world->stats.n_tries;
        totals.n_retries += world->stats.n_retries;
        totals.n_hedges += world->stats.n_hedges;
        totals.n_cancelled += world->stats.n_cancelled;
        totals.n_mismatched += world->stats.n_mismatched;
        totals.n_stale += world->stats.n_stale;
        totals.n_waits += world->stats.n_waits;
        totals.n_failed += world->stats.n_failed;
    }
    sim_case_end(run, world->sim);
    rota_interval_map_free(world->map);
    rota_balancer_free(world->balancer);
    free(world->gets);
}

static void run_seed(struct sim_case *run)
{
    struct world *world = (struct world *)calloc(1, sizeof *world);
    world->setting = (struct setting){
        .mode = (enum rota_get_mode)(run->seed % ROTA_GET_MODES),
        .service = ROTA_MSEC,
        .n_slots = 2,
    };
    open_world(world, run);
    struct rota_random *random = rota_sim_random(world->sim);
    world->is_resharded = rota_random_chance(random, 0.5);
    for (uint64_t dc = 0; dc < N_DCS; dc++)
        set_losses(world, dc, false);
    for (uint64_t i = 0; i < N_WINDOWS; i++)
        rota_sim_call(world->sim, (rota_time)i * WINDOW + 400 * ROTA_MSEC, begin_trouble, world, i);
    rota_sim_call(world->sim, CHAOS_AT, on_freeze, world, 0);
    rota_sim_call(world->sim, CHAOS_AT + FREEZE, on_chaos, world, 0);
    rota_sim_run(world->sim, END_AT);
    if (!rota_sim_violation(world->sim) && world->n_ended < 100)
        rota_sim_fail(world->sim, "only %d Gets have ended", (int)world->n_ended);
    close_world(world, run);
    free(world);
}

/* --- copies under load --- */

struct figures {
    double p50_ms, p99_ms, p999_ms, slowest_ms, share, failed;
    double goodput; /* whole Gets for each one that was to be */
};

static void on_frozen(void *data, uint64_t number)
{
    struct world *world = (struct world *)data;
    (void)number;
    for (uint32_t node = first_of(0); node < first_of(1); node++)
        if (world->cluster.servers[node].n_claims > 0) {
            rota_sim_pause(world->sim, node);
            return;
        }
}

static struct figures measure_seed(struct setting setting, enum plant plant, uint64_t seed)
{
    struct world *world = (struct world *)calloc(1, sizeof *world);
    struct sim_case run = {.seed = seed, .plant = (int)plant};
    const rota_time end_at = 20 * ROTA_SEC;
    setting.record_at = 6 * ROTA_SEC;
    setting.n_slots = 4;
    world->setting = setting;
    open_world(world, &run);
    if (setting.is_frozen)
        rota_sim_call(world->sim, setting.record_at, on_frozen, world, 0);
    rota_sim_run(world->sim, end_at);
    const struct rota_histogram *latency = &world->latency;
    uint64_t n = world->stats.n_gets ? world->stats.n_gets : 1;
    struct figures figures = {
        .p50_ms = (double)rota_histogram_quantile(latency, 0.5) / 1000,
        .p99_ms = (double)rota_histogram_quantile(latency, 0.99) / 1000,
        .p999_ms = (double)rota_histogram_quantile(latency, 0.999) / 1000,
        .slowest_ms = (double)rota_histogram_quantile(latency, 1) / 1000,
        .share = (double)world->stats.n_copies[ROTA_GET_ALL] / (double)n,
        .failed = (double)(world->n_failed + world->n_skipped) / (double)n,
        .goodput =
            (double)world->n_good * (double)gap_of(&setting) / (double)(end_at - setting.record_at),
    };
    close_world(world, &run);
    free(world);
    return figures;
}

/* The mean of some seeds: one alone says little where the load is near to what copies can bear. The
 * slowest is that of all. */
static struct figures measure(struct setting setting, enum plant plant)
{
    enum { SEEDS = 4 };
    struct figures mean = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct figures one = measure_seed(setting, plant, seed);
        mean.p50_ms += one.p50_ms / SEEDS;
        mean.p99_ms += one.p99_ms / SEEDS;
        mean.p999_ms += one.p999_ms / SEEDS;
        mean.share += one.share / SEEDS;
        mean.failed += one.failed / SEEDS;
        mean.goodput += one.goodput / SEEDS;
        mean.slowest_ms = one.slowest_ms > mean.slowest_ms ? one.slowest_ms : mean.slowest_ms;
    }
    return mean;
}

static double lower(double a, double b)
{
    return a < b ? a : b;
}

/* Adaptive is about as good as the better of the two, whichever that is. */
static bool compare(bool is_steady)
{
    static const enum rota_get_mode modes[] = {ROTA_GET_MODE_BROADCAST, ROTA_GET_MODE_HEDGE,
                                               ROTA_GET_MODE_ADAPTIVE};
    bool is_fine = true;
    printf("# p50 / p99 / p99.9 of Gets, in ms; service 10 ms, %s; 2 dcs x 4 shards x 4 "
           "slots\n# %-6s %-24s %-24s %s\n",
           is_steady ? "steady" : "exponential", "load", "broadcast", "hedge",
           "adaptive (part broadcast)");
    for (int percent = 10; percent <= 60; percent += 10) {
        struct figures of[3];
        printf("# %3d %%  ", percent);
        for (size_t i = 0; i < 3; i++) {
            char text[64];
            struct setting setting = {.mode = modes[i],
                                      .load = percent / 100.0,
                                      .service = 10 * ROTA_MSEC,
                                      .is_steady = is_steady};
            of[i] = measure(setting, PLANT_NONE);
            snprintf(text, sizeof text, "%.1f / %.0f / %.0f", of[i].p50_ms, of[i].p99_ms,
                     of[i].p999_ms);
            printf("%-24s ", text);
        }
        printf("(%.2f)\n", of[2].share);
        is_fine = is_fine && of[2].p50_ms <= 1.3 * lower(of[0].p50_ms, of[1].p50_ms) &&
                  of[2].p99_ms <= 1.3 * lower(of[0].p99_ms, of[1].p99_ms) &&
                  of[2].p999_ms <= 1.5 * lower(of[0].p999_ms, of[1].p999_ms) &&
                  of[2].failed < 0.001;
    }
    if (!is_fine)
        printf("# adaptive is more than 1.3 times worse than the better one (p99.9: 1.5 times)\n");
    return is_fine;
}

/* With more work than the servers can do adaptive gets as much done as one copy does. */
static bool saturate(void)
{
    bool is_fine = true;
    printf("# whole Gets of those that were to be; %-12s %-12s %s\n", "broadcast", "hedge",
           "adaptive (part broadcast)");
    for (int percent = 80; percent <= 140; percent += 20) {
        struct setting setting = {.load = percent / 100.0, .service = 10 * ROTA_MSEC};
        setting.mode = ROTA_GET_MODE_BROADCAST;
        double broadcast = measure(setting, PLANT_NONE).goodput;
        setting.mode = ROTA_GET_MODE_HEDGE;
        double one = measure(setting, PLANT_NONE).goodput;
        setting.mode = ROTA_GET_MODE_ADAPTIVE;
        struct figures adaptive = measure(setting, PLANT_NONE);
        printf("# %3d %% %38.2f %11.2f %11.2f (%.2f)\n", percent, broadcast, one, adaptive.goodput,
               adaptive.share);
        is_fine = is_fine && adaptive.goodput >= 0.9 * one;
    }
    if (!is_fine)
        printf("# adaptive gets less than 0.9 of that done which one copy does\n");
    return is_fine;
}

/* Where replicas are steady adaptive asks one, and that one may be frozen. This does not
 * show in the slowest of a hundred, and no Get waits until its host is out of time; as
 * some would if nothing were hedged. */
static bool freeze(void)
{
    const double timeout_ms = 2000.0 / 3;
    struct setting setting = {
        .mode = ROTA_GET_MODE_ADAPTIVE,
        .load = 0.2,
        .service = ROTA_MSEC,
        .ping_period = ROTA_SEC,
        .is_steady = true,
    };
    struct figures well = measure(setting, PLANT_NONE);
    setting.is_frozen = true;
    struct figures frozen = measure(setting, PLANT_NONE);
    struct figures unhedged = measure(setting, PLANT_NEVER_HEDGES);
    bool is_fine = frozen.p99_ms <= 1.5 * well.p99_ms && frozen.slowest_ms < timeout_ms / 10 &&
                   unhedged.slowest_ms >= timeout_ms;
    printf("# p99 and slowest Get, in ms, service 1 ms, steady: %.1f, %.1f; with a frozen host "
           "%.1f, %.1f (part broadcast %.2f); without hedges %.1f, %.1f\n",
           well.p99_ms, well.slowest_ms, frozen.p99_ms, frozen.slowest_ms, frozen.share,
           unhedged.p99_ms, unhedged.slowest_ms);
    if (!is_fine)
        printf("# a frozen host shows, or the lack of hedges does not\n");
    return is_fine;
}

int main(int argc, char **argv)
{
    static const struct sim_suite suite = {
        .name = "sim_get",
        .n_seeds = 1000,
        .n_plant_seeds = 200,
        .kept = {500002895},
        .plants = plants,
        .n_plants = N_PLANTS - 1,
        .run = run_seed,
    };
    int code = sim_main(argc, argv, &suite);
    printf("# %llu Gets, %llu failed; %llu tries, %llu retries, %llu hedges, %llu cancelled, %llu "
           "mismatched, %llu stale, %llu waits\n",
           (unsigned long long)totals.n_gets, (unsigned long long)totals.n_failed,
           (unsigned long long)totals.n_tries, (unsigned long long)totals.n_retries,
           (unsigned long long)totals.n_hedges, (unsigned long long)totals.n_cancelled,
           (unsigned long long)totals.n_mismatched, (unsigned long long)totals.n_stale,
           (unsigned long long)totals.n_waits);
    if (argc > 1 || SIM_IS_SLOW) /* figures are the same with a sanitizer */
        return code;
    bool is_fine = compare(false);
    is_fine = compare(true) && is_fine;
    is_fine = saturate() && is_fine;
    is_fine = freeze() && is_fine;
    return is_fine ? code : 1;
}
