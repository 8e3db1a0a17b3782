#include "sim/balance.h"

#include "base/heap.h"
#include "base/histogram.h"
#include "core/call/hedge.h"
#include "sim/balance_rules.h"
#include "sim/sim.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { N_CALLS = 60000, TRIES_OUT_MAX = 2, EXCLUDED_MAX = 16 };

#define NETWORK_DELAY (250 * ROTA_USEC) /* each way */

/* --- what there is --- */

enum kind {
    ARRIVAL,   /* of a call */
    TROUBLE,   /* the scenario does something */
    HEDGE,     /* a call has been out for long */
    TIMEOUT,   /* a try has been out for too long */
    TO_SERVER, /* a try arrives */
    SERVED,    /* a try has been served */
    TO_CLIENT, /* its answer arrives */
};

struct event {
    struct rota_heap_node heap; /* first, so that the heap's pointer is ours */
    enum kind kind;
};

struct call {
    struct event hedge; /* first */
    struct call *next_free;
    struct attempt *out[TRIES_OUT_MAX];
    uint32_t n_out, client, n_tries;
    bool is_counted, is_final;
    rota_time began_at;
    uint64_t excluded[EXCLUDED_MAX]; /* failed, or have it */
    uint32_t n_excluded;
};

/* A try: the client's until it is reported, the server's until it is answered;
 * gone when neither has it. */
struct attempt {
    struct event step; /* first */
    struct event timeout;
    struct attempt *previous, *next; /* in a server's queue, or the free list */
    struct call *call;               /* NULL: the client no longer waits */
    struct rota_try token;
    uint32_t server;
    bool is_at_server, is_queued;
    rota_time sent_at, received_at, started_at, service;
    enum rota_outcome outcome;
    struct rota_cost cost;
};

struct server {
    uint32_t n_slots, n_busy, n_waiting, n_coming;
    struct attempt *first, *last; /* waiting */
    double slowness;
    bool is_down, is_failing;
    rota_time frozen_at, frozen_until, cold_until;
    uint64_t n_tries;
};

struct client {
    struct rota_balancer *balancer;
    struct rota_hedge *hedge;
    struct rota_budget retries;
};

struct world {
    const struct rota_balance_options *options;
    const struct rota_balance_scenario *scenario;
    struct rota_heap events;
    uint64_t order;
    rota_time now;
    struct rota_random load, service, choice; /* apart, so that policies meet the same load */
    double rate;                              /* calls per second */
    uint32_t n_calls, n_arrived, n_live;
    struct event arrival, trouble;
    uint64_t n_troubles;
    struct server servers[ROTA_BALANCE_REPLICAS_MAX];
    uint64_t ids[ROTA_BALANCE_REPLICAS_MAX];
    struct client clients[ROTA_BALANCE_CLIENTS_MAX];
    struct call *free_calls;
    struct attempt *free_attempts;
    struct rota_balance_truth truth;
    struct rota_histogram latencies;
    bool is_out_of_memory;
    uint64_t n_counted, n_failed, n_wasted, n_hedged, n_tries, n_odd, n_final, n_final_ok;
    uint64_t n_final_tries, n_final_odd;
    uint64_t n_events;
};

static const struct rota_balance_scenario *at(const struct world *world)
{
    return world->scenario;
}

static void push(struct world *world, struct event *event, enum kind kind, rota_time when)
{
    event->kind = kind;
    event->heap.at = when;
    event->heap.order = world->order++;
    if (!rota_heap_push(&world->events, &event->heap))
        world->is_out_of_memory = true;
}

static void drop(struct world *world, struct event *event)
{
    rota_heap_remove(&world->events, &event->heap);
}

/* --- memory --- */

static struct call *call_new(struct world *world)
{
    struct call *call = world->free_calls;
    if (call)
        world->free_calls = call->next_free;
    else
        call = malloc(sizeof *call);
    if (call)
        memset(call, 0, sizeof *call);
    return call;
}

static void call_free(struct world *world, struct call *call)
{
    drop(world, &call->hedge);
    call->next_free = world->free_calls;
    world->free_calls = call;
}

static struct attempt *attempt_new(struct world *world)
{
    struct attempt *attempt = world->free_attempts;
    if (attempt)
        world->free_attempts = attempt->next;
    else
        attempt = malloc(sizeof *attempt);
    if (attempt)
        memset(attempt, 0, sizeof *attempt);
    return attempt;
}

/* Give it back once neither side has it. */
static void attempt_release(struct world *world, struct attempt *attempt)
{
    if (attempt->call || attempt->is_at_server)
        return;
    drop(world, &attempt->step);
    drop(world, &attempt->timeout);
    attempt->next = world->free_attempts;
    world->free_attempts = attempt;
}

/* --- servers --- */

static struct server *server_of(struct world *world, const struct attempt *attempt)
{
    return &world->servers[attempt->server];
}

static void answer(struct world *world, struct attempt *attempt, enum rota_outcome outcome)
{
    const struct server *server = server_of(world, attempt);
    attempt->outcome = outcome;
    attempt->cost = (struct rota_cost){
        .response_us = (world->now - attempt->received_at) / ROTA_USEC,
        .service_us = attempt->started_at ? (world->now - attempt->started_at) / ROTA_USEC : 0,
        .waiting = server->n_waiting,
    };
    push(world, &attempt->step, TO_CLIENT, world->now + NETWORK_DELAY);
}

static void serve(struct world *world, struct attempt *attempt)
{
    struct server *server = server_of(world, attempt);
    double slowness = server->slowness * (world->now < server->cold_until ? 3 : 1);
    server->n_busy++;
    attempt->started_at = world->now;
    attempt->service =
        (rota_time)((double)rota_sim_exponential(&world->service, at(world)->service) * slowness);
    push(world, &attempt->step, SERVED, world->now + attempt->service);
}

static void queue_put(struct server *server, struct attempt *attempt)
{
    attempt->is_queued = true;
    attempt->previous = server->last;
    attempt->next = NULL;
    *(server->last ? &server->last->next : &server->first) = attempt;
    server->last = attempt;
    server->n_waiting++;
}

static void queue_take(struct server *server, struct attempt *attempt)
{
    attempt->is_queued = false;
    *(attempt->previous ? &attempt->previous->next : &server->first) = attempt->next;
    *(attempt->next ? &attempt->next->previous : &server->last) = attempt->previous;
    server->n_waiting--;
}

static bool is_frozen(const struct world *world, const struct server *server)
{
    return world->now < server->frozen_until;
}

static void serve_waiting(struct world *world, struct server *server)
{
    while (server->first && server->n_busy < server->n_slots && !server->is_down &&
           !is_frozen(world, server)) {
        struct attempt *attempt = server->first;
        queue_take(server, attempt);
        serve(world, attempt);
    }
}

static void arrive_at_server(struct world *world, struct attempt *attempt)
{
    struct server *server = server_of(world, attempt);
    server->n_coming--;
    attempt->received_at = world->now;
    if (server->is_down || server->is_failing) {
        answer(world, attempt, ROTA_OUTCOME_UNAVAILABLE);
    } else if (server->n_waiting >= at(world)->queue_max) {
        answer(world, attempt, ROTA_OUTCOME_OVERLOAD);
    } else {
        queue_put(server, attempt);
        serve_waiting(world, server);
    }
}

static void end_service(struct world *world, struct attempt *attempt)
{
    struct server *server = server_of(world, attempt);
    if (is_frozen(world, server)) { /* what was left when it froze is left when it thaws */
        push(world, &attempt->step, SERVED, server->frozen_until + world->now - server->frozen_at);
        return;
    }
    server->n_busy--;
    answer(world, attempt, ROTA_OUTCOME_OK);
    serve_waiting(world, server);
}

/* The client no longer wants it: out of the queue with it; what is being served
 * goes on. */
static void cancel_at_server(struct world *world, struct attempt *attempt)
{
    struct server *server = server_of(world, attempt);
    if (!attempt->is_queued || at(world)->is_uncancelled)
        return;
    queue_take(server, attempt);
    attempt->is_at_server = false;
    attempt_release(world, attempt);
}

static double expected_us(const void *data, uint64_t replica)
{
    const struct world *world = data;
    const struct server *server = &world->servers[replica];
    double service = (double)at(world)->service / ROTA_USEC * server->slowness *
                     (world->now < server->cold_until ? 3 : 1);
    double ahead = server->n_busy + server->n_waiting + server->n_coming;
    double frozen = is_frozen(world, server) ? (double)(server->frozen_until - world->now) : 0;
    if (server->is_down || server->is_failing || server->n_slots == 0)
        return 1e15 + ahead;
    double wait = ahead < server->n_slots ? 0 : ahead - server->n_slots + 1;
    return service * (1 + wait / server->n_slots) + frozen / ROTA_USEC;
}

/* --- clients --- */

static void exclude(struct call *call, uint64_t replica)
{
    if (call->n_excluded < EXCLUDED_MAX)
        call->excluded[call->n_excluded++] = replica;
}

static bool send_try(struct world *world, struct call *call)
{
    struct client *client = &world->clients[call->client];
    struct rota_choice choice = {.replicas = world->ids,
                                 .n_replicas = at(world)->n_replicas,
                                 .excluded = call->excluded,
                                 .n_excluded = call->n_excluded};
    struct rota_try token;
    struct attempt *attempt = attempt_new(world);
    if (!attempt) {
        world->is_out_of_memory = true;
        return false;
    }
    if (rota_balancer_select(client->balancer, world->now, &choice, &world->choice, &token, NULL)) {
        attempt_release(world, attempt);
        return false;
    }
    attempt->call = call;
    attempt->token = token;
    attempt->server = (uint32_t)token.replica;
    attempt->is_at_server = true;
    attempt->sent_at = world->now;
    call->out[call->n_out++] = attempt;
    world->servers[attempt->server].n_coming++;
    world->servers[attempt->server].n_tries++;
    world->n_tries += call->is_counted;
    world->n_odd += call->is_counted && attempt->server == 0;
    world->n_final_tries += call->is_final;
    world->n_final_odd += call->is_final && attempt->server == 0;
    push(world, &attempt->step, TO_SERVER, world->now + NETWORK_DELAY);
    push(world, &attempt->timeout, TIMEOUT, world->now + at(world)->timeout);
    return true;
}

static void finish(struct world *world, struct call *call, bool is_ok)
{
    if (call->is_counted) {
        rota_histogram_record(&world->latencies, (world->now - call->began_at) / ROTA_USEC);
        world->n_counted++;
        world->n_failed += !is_ok;
    }
    world->n_final += call->is_final;
    world->n_final_ok += call->is_final && is_ok;
    world->n_live--;
    call_free(world, call);
}

/* The try is over for the client. */
static void report(struct world *world, struct attempt *attempt, enum rota_outcome outcome,
                   const struct rota_cost *cost)
{
    const struct rota_balance_plants *plants = &world->options->plants;
    struct call *call = attempt->call;
    struct client *client = &world->clients[call->client];
    if (rota_outcome_is_failure(outcome) && plants->hides_failures)
        outcome = ROTA_OUTCOME_CANCELLED;
    if (outcome != ROTA_OUTCOME_CANCELLED || !plants->leaks_cancelled)
        rota_balancer_report(client->balancer, world->now, attempt->token, outcome, cost);
    if (outcome == ROTA_OUTCOME_OK || outcome == ROTA_OUTCOME_CANCELLED)
        rota_hedge_record(client->hedge, world->now, world->now - attempt->sent_at);

    for (uint32_t i = 0; i < call->n_out; i++)
        if (call->out[i] == attempt)
            call->out[i] = call->out[--call->n_out];
    attempt->call = NULL;
    drop(world, &attempt->timeout);
}

/* Try once more, elsewhere if there is an elsewhere. */
static void try_again(struct world *world, struct call *call)
{
    struct client *client = &world->clients[call->client];
    bool may = call->n_tries < at(world)->n_tries &&
               (world->options->retries_freely || rota_budget_spend(&client->retries, world->now));
    if (call->n_excluded >= at(world)->n_replicas)
        call->n_excluded = 0;
    call->n_tries++;
    if (!may || !send_try(world, call))
        finish(world, call, false);
}

static void fail(struct world *world, struct attempt *attempt, enum rota_outcome outcome)
{
    struct call *call = attempt->call;
    exclude(call, attempt->token.replica);
    world->n_wasted += call->is_counted;
    report(world, attempt, outcome, outcome == ROTA_OUTCOME_TIMEOUT ? NULL : &attempt->cost);
    if (call->n_out == 0)
        try_again(world, call);
}

static void arrive_at_client(struct world *world, struct attempt *attempt)
{
    struct call *call = attempt->call;
    attempt->is_at_server = false;
    if (!call) {
        attempt_release(world, attempt);
        return;
    }
    if (attempt->outcome != ROTA_OUTCOME_OK) {
        fail(world, attempt, attempt->outcome);
    } else {
        report(world, attempt, ROTA_OUTCOME_OK, &attempt->cost);
        while (call->n_out > 0) {
            struct attempt *other = call->out[0];
            report(world, other, ROTA_OUTCOME_CANCELLED, NULL);
            cancel_at_server(world, other);
        }
        finish(world, call, true);
    }
    attempt_release(world, attempt);
}

static void time_out(struct world *world, struct attempt *attempt)
{
    fail(world, attempt, ROTA_OUTCOME_TIMEOUT);
    cancel_at_server(world, attempt);
}

static void hedge(struct world *world, struct call *call)
{
    struct client *client = &world->clients[call->client];
    if (call->n_out != 1)
        return;
    if (!world->options->plants.hedges_for_free && !rota_hedge_spend(client->hedge, world->now))
        return;
    exclude(call, call->out[0]->token.replica);
    if (send_try(world, call))
        world->n_hedged += call->is_counted;
}

static rota_time burst_from(const struct world *world)
{
    return (rota_time)(world->n_calls / world->rate / 5 * ROTA_SEC);
}

/* Calls come by chance at a rate that the scenario may raise for a while. */
static rota_time next_gap(struct world *world)
{
    double rate = world->rate;
    if (at(world)->trouble == ROTA_BALANCE_BURST && world->now >= burst_from(world) &&
        world->now < burst_from(world) + 10 * ROTA_SEC)
        rate *= 5;
    return rota_sim_exponential(&world->load, (rota_time)((double)ROTA_SEC / rate));
}

static void arrive(struct world *world)
{
    struct call *call = call_new(world);
    if (!call) {
        world->is_out_of_memory = true;
        return;
    }
    call->client = (uint32_t)rota_random_below(&world->load, at(world)->n_clients);
    call->began_at = world->now;
    call->is_counted = world->n_arrived >= world->n_calls / 10;
    call->is_final = world->n_arrived >= world->n_calls / 5 * 4;
    call->n_tries = 1;
    world->n_live++;
    if (++world->n_arrived < world->n_calls)
        push(world, &world->arrival, ARRIVAL, world->now + next_gap(world));

    struct client *client = &world->clients[call->client];
    rota_budget_earn(&client->retries, world->now);
    rota_time hedge_at = rota_hedge_begin(client->hedge, world->now, ROTA_TIME_NEVER);
    if (world->options->hedges && hedge_at != ROTA_TIME_NEVER)
        push(world, &call->hedge, HEDGE, hedge_at);
    if (!send_try(world, call))
        finish(world, call, false);
}

/* --- trouble --- */

/* Everything at the server ends, as connections do. */
static void restart(struct world *world, struct server *server, rota_time down_for)
{
    while (server->first) {
        struct attempt *attempt = server->first;
        queue_take(server, attempt);
        answer(world, attempt, ROTA_OUTCOME_UNAVAILABLE);
    }
    for (size_t i = 0; i < world->events.size; i++) {
        struct event *event = (struct event *)world->events.nodes[i];
        if (event->kind == SERVED && server_of(world, (struct attempt *)event) == server) {
            event->kind = TO_CLIENT; /* at the time it has: later than at once, never lost */
            ((struct attempt *)event)->outcome = ROTA_OUTCOME_UNAVAILABLE;
        }
    }
    server->n_busy = 0;
    server->is_down = down_for > 0;
    server->n_slots = at(world)->n_slots;
    server->cold_until = world->now + down_for + 2 * ROTA_SEC;
}

static void refuse_all(struct world *world, bool is_failing)
{
    for (uint32_t i = 0; i < at(world)->n_replicas; i++)
        world->servers[i].is_failing = is_failing;
}

static rota_time trouble_restarts(struct world *world, uint64_t number)
{
    struct server *server = &world->servers[number / 2 % at(world)->n_replicas];
    if (number % 2 == 0) {
        restart(world, server, 2 * ROTA_SEC);
        return 2 * ROTA_SEC;
    }
    server->is_down = false;
    return ROTA_SEC;
}

static rota_time trouble_leaks(struct world *world)
{
    struct server *server = &world->servers[0];
    if (server->n_slots == 0) {
        restart(world, server, 0);
        return 5 * ROTA_SEC;
    }
    server->n_slots--;
    return 2 * ROTA_SEC;
}

static rota_time trouble_freezes(struct world *world, uint64_t number)
{
    struct server *server = &world->servers[0];
    if (number % 2 == 0) {
        server->frozen_at = world->now;
        server->frozen_until = world->now + ROTA_SEC;
        return ROTA_SEC;
    }
    serve_waiting(world, server);
    return 9 * ROTA_SEC;
}

static rota_time trouble_flips(struct world *world)
{
    struct server *server = &world->servers[rota_random_below(&world->load, at(world)->n_replicas)];
    server->slowness = server->slowness > 1 ? 1 : at(world)->slowness;
    return rota_sim_exponential(&world->load, 500 * ROTA_MSEC / (rota_time)at(world)->n_replicas);
}

static void trouble(struct world *world)
{
    uint64_t number = world->n_troubles++;
    rota_time next = 0;
    switch (at(world)->trouble) {
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
    push(world, &world->trouble, TROUBLE, world->now + next);
}

/* --- a run --- */

/* Calls per second that use the wanted part of what the replicas can bear. */
static double rate_of(const struct rota_balance_scenario *scenario)
{
    double one = scenario->n_slots / ((double)scenario->service / ROTA_SEC), all = 0;
    for (uint32_t i = 0; i < scenario->n_replicas; i++) {
        double slowness = i == 0 ? scenario->slowness : 1;
        if (scenario->trouble == ROTA_BALANCE_FLIPS) /* half of the time each */
            slowness = 2 / (1 + 1 / scenario->slowness);
        if ((scenario->trouble != ROTA_BALANCE_FAILS &&
             scenario->trouble != ROTA_BALANCE_RECOVERS) ||
            i > 0)
            all += one / slowness;
    }
    return all * scenario->load;
}

static void handle(struct world *world, struct event *event)
{
    switch (event->kind) {
    case ARRIVAL:
        arrive(world);
        break;
    case TROUBLE:
        trouble(world);
        break;
    case HEDGE:
        hedge(world, (struct call *)event);
        break;
    case TIMEOUT:
        time_out(world, (struct attempt *)((char *)event - offsetof(struct attempt, timeout)));
        break;
    case TO_SERVER:
        arrive_at_server(world, (struct attempt *)event);
        break;
    case SERVED:
        end_service(world, (struct attempt *)event);
        break;
    case TO_CLIENT:
        arrive_at_client(world, (struct attempt *)event);
        break;
    }
}

static void loop(struct world *world)
{
    while ((world->n_arrived < world->n_calls || world->n_live > 0) && !world->is_out_of_memory) {
        struct event *event = (struct event *)rota_heap_first(&world->events);
        if (!event)
            return;
        drop(world, event);
        world->now = event->heap.at;
        world->n_events++;
        handle(world, event);
    }
}

static const struct rota_balancer_rule *const RULES[] = {
    &rota_policy_rota,       &rota_policy_look_aside,       &rota_policy_round_robin,
    &rota_policy_random,     &rota_balance_least_in_flight, &rota_balance_p2c,
    &rota_balance_peak_ewma, &rota_policy_look_aside, /* the original */
    &rota_balance_oracle,
};
enum { N_RULES = sizeof RULES / sizeof *RULES, ORIGINAL = 7 };

size_t rota_balance_n_policies(void)
{
    return N_RULES;
}

const char *rota_balance_policy(size_t index)
{
    assert(index < N_RULES);
    return index == ORIGINAL ? "look_aside_original" : RULES[index]->name;
}

static enum rota_code clients_init(struct world *world, struct rota_error *error)
{
    const struct rota_balance_options *options = world->options;
    size_t policy = 0;
    while (policy < N_RULES && strcmp(options->policy, rota_balance_policy(policy)) != 0)
        policy++;
    if (policy == N_RULES)
        return rota_error_set(error, ROTA_ERR_NOT_FOUND, "balance: no policy is called %s",
                              options->policy);
    const struct rota_balancer_rule *rule = RULES[policy];
    if (options->plants.rule)
        rule = options->plants.rule;

    for (uint32_t i = 0; i < at(world)->n_clients; i++) {
        struct client *client = &world->clients[i];
        struct rota_balancer_options balancer = {.seed = options->seed + i,
                                                 .is_original = policy == ORIGINAL};
        enum rota_code code =
            rota_balancer_new_with(&balancer, rule, &world->truth, &client->balancer, error);
        if (code)
            return code;
        client->hedge = malloc(sizeof *client->hedge);
        if (!client->hedge)
            return rota_error_set(error, ROTA_ERR_NO_MEMORY, "balance: a client");
        rota_hedge_init(client->hedge, 0, &(struct rota_hedge_options){0});
        rota_budget_init(&client->retries, 0, &ROTA_BUDGET_RETRIES);
    }
    return ROTA_OK;
}

static void world_init(struct world *world, const struct rota_balance_options *options)
{
    uint64_t seed = options->seed;
    world->options = options;
    world->scenario = options->scenario;
    world->n_calls = options->n_calls ? options->n_calls : N_CALLS;
    world->rate = rate_of(at(world));
    world->truth = (struct rota_balance_truth){.expected_us = expected_us, .world = world};
    rota_random_init(&world->load, rota_random_mix(&seed));
    rota_random_init(&world->service, rota_random_mix(&seed));
    rota_random_init(&world->choice, rota_random_mix(&seed));
    for (uint32_t i = 0; i < at(world)->n_replicas; i++) {
        world->ids[i] = i;
        world->servers[i] = (struct server){.n_slots = at(world)->n_slots, .slowness = 1};
    }
    world->servers[0].slowness = at(world)->slowness;
    push(world, &world->trouble, TROUBLE, 0);
    push(world, &world->arrival, ARRIVAL, 0);
}

static void world_free(struct world *world)
{
    for (size_t i = 0; i < world->events.size; i++) { /* tries that nobody waits for */
        struct event *event = (struct event *)world->events.nodes[i];
        if (event->kind == TO_SERVER || event->kind == SERVED || event->kind == TO_CLIENT)
            free(event);
    }
    for (uint32_t i = 0; i < at(world)->n_replicas; i++)
        for (struct attempt *attempt = world->servers[i].first, *next; attempt; attempt = next) {
            next = attempt->next;
            free(attempt);
        }
    for (struct call *call = world->free_calls, *next; call; call = next) {
        next = call->next_free;
        free(call);
    }
    for (struct attempt *attempt = world->free_attempts, *next; attempt; attempt = next) {
        next = attempt->next;
        free(attempt);
    }
    for (uint32_t i = 0; i < at(world)->n_clients; i++) {
        rota_balancer_free(world->clients[i].balancer);
        free(world->clients[i].hedge);
    }
    rota_heap_deinit(&world->events);
    free(world);
}

static double per(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static struct rota_balance_result summarize(const struct world *world)
{
    const struct rota_histogram *latencies = &world->latencies;
    double n = (double)world->n_counted, busiest = 0, sum = 0;
    struct rota_balance_result result = {
        .n_calls = world->n_counted,
        .n_failed = world->n_failed,
        .mean_us = (int64_t)per(latencies->sum, n),
        .p50_us = (int64_t)rota_histogram_quantile(latencies, 0.5),
        .p99_us = (int64_t)rota_histogram_quantile(latencies, 0.99),
        .p999_us = (int64_t)rota_histogram_quantile(latencies, 0.999),
        .wasted = per((double)world->n_wasted, n),
        .hedged = per((double)world->n_hedged, n),
        .n_odd = per((double)world->n_odd, n),
        .final_part = per((double)world->n_final_ok, (double)world->n_final),
        .final_odd = per((double)world->n_final_odd, (double)world->n_final_tries),
        .n_events = world->n_events,
    };
    for (uint32_t i = 0; i < at(world)->n_replicas; i++) {
        double n_tries = (double)world->servers[i].n_tries;
        busiest = n_tries > busiest ? n_tries : busiest;
        sum += n_tries;
    }
    result.imbalance = per(busiest * at(world)->n_replicas, sum);
    for (uint32_t i = 0; i < at(world)->n_clients; i++) {
        struct rota_balancer_view view;
        const struct rota_balancer *balancer = world->clients[i].balancer;
        result.leaked += rota_balancer_n_tries(balancer);
        for (uint32_t r = 0; r < at(world)->n_replicas; r++)
            if (rota_balancer_look(balancer, world->now, world->ids[r], &view))
                result.n_ejections += view.n_ejections;
    }
    return result;
}

enum rota_code rota_balance_run(const struct rota_balance_options *options,
                                struct rota_balance_result *result, struct rota_error *error)
{
    if (options->n_calls > ROTA_BALANCE_CALLS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "balance: %u calls, at most %d are possible",
                              options->n_calls, ROTA_BALANCE_CALLS_MAX);
    assert(options->scenario->n_replicas <= ROTA_BALANCE_REPLICAS_MAX &&
           options->scenario->n_clients <= ROTA_BALANCE_CLIENTS_MAX);
    struct world *world = calloc(1, sizeof *world);
    if (!world)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "balance: a world");
    world_init(world, options);
    enum rota_code code = clients_init(world, error);
    if (!code)
        loop(world);
    if (!code && world->is_out_of_memory)
        code = rota_error_set(error, ROTA_ERR_NO_MEMORY, "balance: a world");
    if (!code)
        *result = summarize(world);
    world_free(world);
    return code;
}
