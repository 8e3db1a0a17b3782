#include "sim/balance_world.h"

#include "sim/sim.h"

/* --- servers --- */

static struct rota_balance_server *server_of(struct rota_balance_world *world,
                                             const struct rota_balance_attempt *attempt)
{
    return &world->servers[attempt->server];
}

static void answer_attempt(struct rota_balance_world *world, struct rota_balance_attempt *attempt,
                           enum rota_outcome outcome)
{
    const struct rota_balance_server *server = server_of(world, attempt);
    attempt->outcome = outcome;
    attempt->cost = (struct rota_cost){
        .response_us = (world->now - attempt->received_at) / ROTA_USEC,
        .service_us = attempt->started_at ? (world->now - attempt->started_at) / ROTA_USEC : 0,
        .waiting = server->n_waiting,
    };
    rota_balance_push(world, &attempt->step, ROTA_BALANCE_TO_CLIENT,
                      world->now + ROTA_BALANCE_DELAY);
}

static void serve_attempt(struct rota_balance_world *world, struct rota_balance_attempt *attempt)
{
    struct rota_balance_server *server = server_of(world, attempt);
    double slowness = server->slowness * (world->now < server->cold_until ? 3 : 1);
    server->n_busy++;
    attempt->started_at = world->now;
    attempt->service =
        (rota_time)((double)rota_sim_exponential(&world->service, world->scenario->service) *
                    slowness);
    rota_balance_push(world, &attempt->step, ROTA_BALANCE_AT_SERVED, world->now + attempt->service);
}

static void queue_put(struct rota_balance_server *server, struct rota_balance_attempt *attempt)
{
    rota_list_push(&server->waiting, &attempt->link);
    server->n_waiting++;
}

static void queue_take(struct rota_balance_server *server, struct rota_balance_attempt *attempt)
{
    rota_list_remove(&attempt->link);
    server->n_waiting--;
}

static bool is_frozen(const struct rota_balance_world *world,
                      const struct rota_balance_server *server)
{
    return world->now < server->frozen_until;
}

static void serve_waiting(struct rota_balance_world *world, struct rota_balance_server *server)
{
    ROTA_LIST_DRAIN (attempt, &server->waiting, struct rota_balance_attempt, link) {
        if (server->n_busy >= server->n_slots || server->is_down || is_frozen(world, server))
            return;
        queue_take(server, attempt);
        serve_attempt(world, attempt);
    }
}

void rota_balance_servers_arrive_at(struct rota_balance_world *world,
                                    struct rota_balance_attempt *attempt)
{
    struct rota_balance_server *server = server_of(world, attempt);
    server->n_coming--;
    attempt->received_at = world->now;
    bool is_unlucky = server->is_flaky && rota_random_below(&world->service, 3) == 0;
    if (server->is_down || server->is_failing || is_unlucky) {
        answer_attempt(world, attempt, ROTA_OUTCOME_UNAVAILABLE);
    } else if (server->n_waiting >= world->scenario->queue_max) {
        answer_attempt(world, attempt, ROTA_OUTCOME_OVERLOAD);
    } else {
        queue_put(server, attempt);
        serve_waiting(world, server);
    }
}

void rota_balance_servers_end_service(struct rota_balance_world *world,
                                      struct rota_balance_attempt *attempt)
{
    struct rota_balance_server *server = server_of(world, attempt);
    if (is_frozen(world, server)) { /* the remaining time is the same after the freeze */
        rota_balance_push(world, &attempt->step, ROTA_BALANCE_AT_SERVED,
                          server->frozen_until + world->now - server->frozen_at);
        return;
    }
    server->n_busy--;
    answer_attempt(world, attempt, ROTA_OUTCOME_OK);
    serve_waiting(world, server);
}

void rota_balance_servers_cancel(struct rota_balance_world *world,
                                 struct rota_balance_attempt *attempt)
{
    struct rota_balance_server *server = server_of(world, attempt);
    if (!attempt->link.next || world->scenario->is_uncancelled)
        return;
    queue_take(server, attempt);
    attempt->is_at_server = false;
    rota_balance_attempt_release(world, attempt);
}

double rota_balance_servers_expected_us(const void *data, uint64_t replica)
{
    const struct rota_balance_world *world = data;
    const struct rota_balance_server *server = &world->servers[replica];
    double service = (double)world->scenario->service / ROTA_USEC * server->slowness *
                     (world->now < server->cold_until ? 3 : 1);
    double ahead = server->n_busy + server->n_waiting + server->n_coming;
    double frozen = is_frozen(world, server) ? (double)(server->frozen_until - world->now) : 0;
    if (server->is_down || server->is_failing || server->n_slots == 0)
        return 1e15 + ahead;
    double wait = ahead < server->n_slots ? 0 : ahead - server->n_slots + 1;
    return service * (1 + wait / server->n_slots) + frozen / ROTA_USEC;
}

/* --- trouble --- */

/* Everything at the server ends, as connections do. */
static void restart_server(struct rota_balance_world *world, struct rota_balance_server *server,
                           rota_time down_for)
{
    ROTA_LIST_DRAIN (attempt, &server->waiting, struct rota_balance_attempt, link) {
        queue_take(server, attempt);
        answer_attempt(world, attempt, ROTA_OUTCOME_UNAVAILABLE);
    }
    for (size_t i = 0; i < world->events.size; i++) {
        struct rota_balance_event *event = (struct rota_balance_event *)world->events.nodes[i];
        if (event->kind == ROTA_BALANCE_AT_SERVED &&
            server_of(world, (struct rota_balance_attempt *)event) == server) {
            event->kind =
                ROTA_BALANCE_TO_CLIENT; /* at the time it has: later than at once, never lost */
            ((struct rota_balance_attempt *)event)->outcome = ROTA_OUTCOME_UNAVAILABLE;
        }
    }
    server->n_busy = 0;
    server->is_down = down_for > 0;
    server->n_slots = world->scenario->n_slots;
    server->cold_until = world->now + down_for + 2 * ROTA_SEC;
}

static void refuse_all(struct rota_balance_world *world, bool is_failing)
{
    for (uint32_t i = 0; i < world->scenario->n_replicas; i++)
        world->servers[i].is_failing = is_failing;
}

static rota_time trouble_restarts(struct rota_balance_world *world, uint64_t number)
{
    struct rota_balance_server *server = &world->servers[number / 2 % world->scenario->n_replicas];
    if (number % 2 == 0) {
        restart_server(world, server, 2 * ROTA_SEC);
        return 2 * ROTA_SEC;
    }
    server->is_down = false;
    return ROTA_SEC;
}

static rota_time trouble_leaks(struct rota_balance_world *world)
{
    struct rota_balance_server *server = &world->servers[0];
    if (server->n_slots == 0) {
        restart_server(world, server, 0);
        return 5 * ROTA_SEC;
    }
    server->n_slots--;
    return 2 * ROTA_SEC;
}

static rota_time trouble_freezes(struct rota_balance_world *world, uint64_t number)
{
    struct rota_balance_server *server = &world->servers[0];
    if (number % 2 == 0) {
        server->frozen_at = world->now;
        server->frozen_until = world->now + ROTA_SEC;
        return ROTA_SEC;
    }
    serve_waiting(world, server);
    return 9 * ROTA_SEC;
}

static rota_time trouble_flips(struct rota_balance_world *world)
{
    struct rota_balance_server *server =
        &world->servers[rota_random_below(&world->load, world->scenario->n_replicas)];
    server->slowness = server->slowness > 1 ? 1 : world->scenario->slowness;
    return rota_sim_exponential(&world->load,
                                500 * ROTA_MSEC / (rota_time)world->scenario->n_replicas);
}

static rota_time trouble_ramps(struct rota_balance_world *world)
{
    struct rota_balance_server *server = &world->servers[0];
    server->slowness = server->slowness < world->scenario->slowness ? server->slowness * 1.08 : 1;
    return 500 * ROTA_MSEC;
}

void rota_balance_servers_strike(struct rota_balance_world *world)
{
    uint64_t number = world->n_troubles++;
    rota_time next = 0;
    switch (world->scenario->trouble) {
    case ROTA_BALANCE_STEADY:
    case ROTA_BALANCE_BURST:
        return;
    case ROTA_BALANCE_FAILS:
        world->servers[0].is_failing = true;
        return;
    case ROTA_BALANCE_RECOVERS:
        world->servers[0].is_failing = number == 0;
        if (number > 0)
            return;
        next = (rota_time)(world->n_calls / world->rate / 2 * ROTA_SEC);
        break;
    case ROTA_BALANCE_BLACKOUT:
        refuse_all(world, number % 2 == 0);
        next = number % 2 == 0 ? 2 * ROTA_SEC : 8 * ROTA_SEC;
        break;
    case ROTA_BALANCE_FLIPS:
        next = trouble_flips(world);
        break;
    case ROTA_BALANCE_RAMPS:
        next = trouble_ramps(world);
        break;
    case ROTA_BALANCE_FLAKY:
        world->servers[0].is_flaky = true;
        return;
    case ROTA_BALANCE_FREEZES:
        next = trouble_freezes(world, number);
        break;
    case ROTA_BALANCE_RESTARTS:
        next = trouble_restarts(world, number);
        break;
    case ROTA_BALANCE_LEAKS:
        next = trouble_leaks(world);
        break;
    }
    rota_balance_push(world, &world->trouble, ROTA_BALANCE_AT_TROUBLE, world->now + next);
}
