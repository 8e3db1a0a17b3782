#include "even_world.h"

enum { EVEN_REPLICAS = 3, EVEN_CALLERS_MAX = 16, EVEN_CALLS = 12000 };

struct even_caller {
    enum { EVEN_CALLS_NEXT, EVEN_SENDS, EVEN_HEARS } step;
    rota_time at;
    struct rota_try chosen;
};

struct even_world {
    const struct even_options *options;
    struct rota_balancer *balancer;
    struct rota_random random;
    rota_time open_at[EVEN_REPLICAS]; /* ROTA_TIME_NEVER: nobody has called yet */
    bool has_answered[EVEN_REPLICAS];
    rota_time service, opening;
    double pauses;        /* part of the tries that meet one */
    rota_time wakeup;     /* what it costs a process to run again after it slept */
    rota_time stop_every; /* on average, between two times that a process does not run */
    rota_time busy_until[EVEN_REPLICAS], stop_at[EVEN_REPLICAS], stopped_until[EVEN_REPLICAS];
    rota_time stopped[EVEN_REPLICAS]; /* in all */
    struct even_caller callers[EVEN_CALLERS_MAX];
    int n_calls, counts[EVEN_REPLICAS];
};

static void even_choose(struct even_world *world, struct even_caller *caller, rota_time now)
{
    static const uint64_t replicas[EVEN_REPLICAS] = {0, 1, 2};
    struct rota_choice choice = {.replicas = replicas, .n_replicas = EVEN_REPLICAS};
    if (rota_balancer_select(world->balancer, now, &choice, &world->random, &caller->chosen, NULL))
        abort();
    uint64_t replica = caller->chosen.replica;
    world->counts[replica]++;
    world->n_calls++;
    if (world->open_at[replica] == ROTA_TIME_NEVER)
        world->open_at[replica] =
            now + world->opening / 2 + rota_sim_exponential(&world->random, world->opening / 2);
    caller->step = EVEN_SENDS;
    caller->at = world->open_at[replica] > now ? world->open_at[replica] : now;
}

/* When an answer of a replica that is ready at `at` is sent. */
static rota_time even_answer(struct even_world *world, uint64_t replica, rota_time at)
{
    enum { STOP_MEAN = 2 };
    while (at >= world->stop_at[replica]) {
        world->stopped_until[replica] =
            world->stop_at[replica] + rota_sim_exponential(&world->random, STOP_MEAN * ROTA_MSEC);
        world->stopped[replica] += world->stopped_until[replica] - world->stop_at[replica];
        world->stop_at[replica] =
            world->stopped_until[replica] + rota_sim_exponential(&world->random, world->stop_every);
    }
    return at < world->stopped_until[replica] ? world->stopped_until[replica] : at;
}

static rota_time even_service(struct even_world *world, uint64_t replica, rota_time now)
{
    rota_time time = world->service / 2 + rota_sim_exponential(&world->random, world->service / 2);
    if (rota_random_below(&world->random, 1000) < (uint64_t)(world->pauses * 1000))
        time += rota_sim_exponential(&world->random, 10 * world->service);
    if (!world->has_answered[replica])
        time += rota_sim_exponential(&world->random, 10 * world->service);
    if (now > world->busy_until[replica] + ROTA_MSEC)
        time += world->wakeup;
    world->has_answered[replica] = true;
    rota_time at = even_answer(world, replica, now + time);
    if (at > world->busy_until[replica])
        world->busy_until[replica] = at;
    return at;
}

static void even_step(struct even_world *world, struct even_caller *caller)
{
    rota_time now = caller->at;
    switch (caller->step) {
    case EVEN_CALLS_NEXT:
        even_choose(world, caller, now);
        break;
    case EVEN_SENDS:
        rota_balancer_sent(world->balancer, now, caller->chosen);
        caller->step = EVEN_HEARS;
        caller->at = even_service(world, caller->chosen.replica, now);
        break;
    case EVEN_HEARS:
        rota_balancer_report(world->balancer, now, caller->chosen, ROTA_OUTCOME_OK, NULL);
        caller->step = EVEN_CALLS_NEXT;
        caller->at = world->options->is_paced ? now + 8 * world->service : now;
        break;
    }
}

double even_run(const struct even_options *options)
{
    struct rota_balancer_options with = {.seed = options->seed};
    struct even_world world = {.options = options};
    if (rota_balancer_new_with(&with, options->rule, NULL, &world.balancer, NULL))
        abort();
    rota_random_init(&world.random, options->seed);
    world.service = (rota_time)rota_random_range(&world.random, 30 * ROTA_USEC, 5 * ROTA_MSEC);
    if (rota_random_below(&world.random, 2) == 0) /* handlers that do next to nothing */
        world.service =
            (rota_time)rota_random_range(&world.random, 30 * ROTA_USEC, 100 * ROTA_USEC);
    world.wakeup = (rota_time)rota_random_below(&world.random, 200 * ROTA_USEC);
    world.stop_every = rota_random_range(&world.random, 100, 1000) * ROTA_MSEC;
    world.opening = rota_random_range(&world.random, 2, 20) * world.service;
    world.pauses = (double)rota_random_below(&world.random, 20) / 1000;
    for (int i = 0; i < EVEN_REPLICAS; i++) {
        world.open_at[i] = options->is_warm ? 0 : ROTA_TIME_NEVER;
        world.has_answered[i] = options->is_warm;
        world.stop_at[i] = ROTA_SEC + rota_sim_exponential(&world.random, world.stop_every);
    }
    for (int i = 0; i < options->n_callers; i++)
        world.callers[i].at = ROTA_SEC;
    rota_time now = ROTA_SEC;
    while (world.n_calls < EVEN_CALLS) {
        struct even_caller *next = &world.callers[0];
        for (int i = 1; i < options->n_callers; i++)
            if (world.callers[i].at < next->at)
                next = &world.callers[i];
        now = next->at;
        even_step(&world, next);
    }
    rota_balancer_free(world.balancer);
    double worst = 0, share = (double)EVEN_CALLS / EVEN_REPLICAS, stopped = 0;
    for (int i = 0; i < EVEN_REPLICAS; i++) {
        double off = world.counts[i] > share ? world.counts[i] - share : share - world.counts[i];
        double part = (double)world.stopped[i] / (double)(now - ROTA_SEC);
        worst = off / share > worst ? off / share : worst;
        stopped = part > stopped ? part : stopped;
    }
    return worst > stopped ? worst - stopped : 0;
}
