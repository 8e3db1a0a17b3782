/* Calls through a shard map that ages, over a network that loses and repeats.
 *
 * Node 0 is a client with several calls at a time; node 1 is the directory; the others are replicas
 * of one shard, three of which lead it at a time. Leaders move, with a new epoch, without notice: a
 * replica that no longer leads, or leads under another epoch, refuses with the current claim, if it
 * knows it. Replicas fail in every way there is, crash, stop, and are cut off; callers change their
 * minds.
 *
 * Each call finishes exactly once and in time. No try begins after the deadline,
 * beyond the attempts or beyond the budget; none is left running. A replica that
 * failed a call is not tried by it again before the directory was asked, and not at
 * all when all it met were overloaded. What must not happen twice does not. A caller
 * who changes its mind leaves the map alone. Once faults stop, calls succeed, and all
 * leaders have their share of them. */
#include "core/call/call_fsm.h"
#include "core/call/shards/shard_cache.h"
#include "sim/sim_chaos.h"
#include "sim_main.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENT, DIRECTORY, FIRST_REPLICA, N_REPLICAS = 5, N_NODES = FIRST_REPLICA + N_REPLICAS };
enum { N_LEADERS = 3, N_CALLS = 8, TIMER_CACHE = N_CALLS };

#define QUIET_AT (60 * ROTA_SEC)
#define END_AT   (130 * ROTA_SEC)

/* A replica that failed shortly before the end of the faults is ejected for 48 s at most. */
#define LATE_AT (QUIET_AT + 50 * ROTA_SEC)

enum plant {
    PLANT_NONE,
    PLANT_FORGETS_EXCLUDED,
    PLANT_CACHE_CLEARS,
    PLANT_NO_DEADLINE,
    PLANT_NO_BUDGET,
    PLANT_NO_TICK,
    PLANT_LEAVES_LOSER,
    PLANT_ANY_ANSWER,
    PLANT_SENDS_TWICE,
    PLANT_FINISHES_TWICE,
    PLANT_NO_REFRESH,
    PLANT_ONE_REPLICA,
    PLANT_CANCEL_EMPTIES,
    PLANT_SWEEPS_FULL,
    PLANT_FIRST_COSTS,
    N_PLANTS,
};

static const struct sim_plant plants[N_PLANTS - 1] = {
    {"forgets-excluded", "a call does not remember who failed it"},
    {"cache-clears", "an answer from the cache counts as a refresh"},
    {"no-deadline", "a call does not know its deadline"},
    {"no-budget", "retries cost nothing"},
    {"no-tick", "time is not told to calls"},
    {"leaves-loser", "a try is not cancelled at the end"},
    {"any-answer", "an answer counts for whatever try runs"},
    {"sends-twice", "all calls are taken to be idempotent"},
    {"finishes-twice", "a call that is done still listens"},
    {"no-refresh", "the directory is never asked past the cache, nor told of errors"},
    {"one-replica", "the first replica of a map is taken for the only one"},
    {"cancel-empties", "a call that is cancelled drops the map"},
    {"sweeps-full", "overload is taken for an error that passes"},
    {"first-costs", "the first sweep costs tokens, too, and there are none"},
};

enum message_type { ASK, LEADERS, TRY, ANSWER };

/* Without padding: it is sent as it is, and no copy has to keep what padding holds. */
struct message {
    enum message_type type;
    enum rota_failure failure;
    uint64_t slot, flight, serial, number; /* of the call, of the try */
    uint64_t epoch;
    int64_t claim_node, nodes[N_LEADERS];
    uint64_t claim_epoch, epochs[N_LEADERS];
};

struct call {
    struct rota_call_fsm fsm;
    bool is_active;
    uint64_t serial, waiter; /* of the lookup, 0: none */
    uint64_t asked;          /* its number */
    bool is_asked_with_cache;

    /* What the machine must not contradict. */
    rota_time deadline, started_at;
    enum rota_call_repeat repeat;
    uint32_t n_tries, n_leaders_max, n_finished, n_executed;
    uint64_t executed; /* the try that was, 0: none */
    uint64_t running[ROTA_CALL_RUNNING_MAX];
    int64_t running_on[ROTA_CALL_RUNNING_MAX];
    int64_t failed[ROTA_CALL_TRIES_MAX];
    size_t n_failed;
    int64_t overloaded[ROTA_CALL_TRIES_MAX]; /* that refused it, ever */
    size_t n_overloaded;
    bool has_other_failure, sweeps_again;
};

/* Less than the usual one, which few calls of so short a time would use up. */
static const struct rota_budget_options BUDGET = {.ppm = 10000, .most = 5};

struct world {
    struct rota_sim *sim;
    enum plant plant;
    struct rota_sim_chaos chaos;
    const char *violation;

    /* The truth: the epoch of each replica, 0 when it leads nothing, and who
     * took its place. */
    uint64_t epochs[N_NODES], last_epoch;
    uint32_t successor[N_NODES];

    struct rota_shard_cache *cache;
    struct rota_balancer *balancer;
    struct rota_random random;
    struct rota_blacklist blacklist;
    struct rota_budget budget;
    struct rota_hedge hedge;
    struct rota_call_stats stats;
    struct rota_call_shared shared;
    struct call calls[N_CALLS];
    uint64_t serial, waiter;
    rota_time began_at;
    uint64_t n_calls, n_retries, n_hedges, n_late_ok, n_late_failed;
    uint64_t n_late_by[N_NODES]; /* answers */
};

static rota_time clock_of(const struct world *world)
{
    return rota_sim_mono(world->sim, CLIENT);
}

static void violate(struct world *world, const char *what)
{
    if (!world->violation)
        world->violation = what;
}

/* --- what must hold, told step by step --- */

static bool is_late(const struct world *world)
{
    return rota_sim_now(world->sim) > LATE_AT;
}

static bool is_among(const int64_t *nodes, size_t n, int64_t node)
{
    for (size_t i = 0; i < n; i++)
        if (nodes[i] == node)
            return true;
    return false;
}

static bool has_failed(const struct call *call, int64_t node)
{
    return is_among(call->failed, call->n_failed, node);
}

static size_t place_of(const struct call *call, uint64_t number)
{
    for (size_t i = 0; i < ROTA_CALL_RUNNING_MAX; i++)
        if (call->running[i] == number)
            return i;
    return ROTA_CALL_RUNNING_MAX;
}

static void note_start(struct world *world, struct call *call,
                       const struct rota_call_fsm_action *action)
{
    rota_time now = clock_of(world);
    size_t place = place_of(call, 0);
    if (now >= call->deadline || action->deadline > call->deadline)
        violate(world, "a try begins or may run after the deadline");
    if (++call->n_tries > call->n_leaders_max + ROTA_CALL_RETRIES)
        violate(world, "a call has more tries than it may");
    if (has_failed(call, action->replica->node))
        violate(world, "a replica is tried again before a refresh");
    if (!call->has_other_failure &&
        is_among(call->overloaded, call->n_overloaded, action->replica->node))
        violate(world, "overloaded replicas are swept again");
    if (place == ROTA_CALL_RUNNING_MAX) {
        violate(world, "more tries run than may");
        return;
    }
    for (size_t i = 0; i < ROTA_CALL_RUNNING_MAX; i++)
        if (call->running[i] && call->running_on[i] == action->replica->node)
            violate(world, "two tries run on one replica");
    call->running[place] = action->number;
    call->running_on[place] = action->replica->node;
    world->n_hedges += action->is_hedge;
    world->n_retries += !action->is_hedge && call->sweeps_again;

    if ((double)world->n_retries > BUDGET.ppm / 1e6 * (double)world->n_calls)
        violate(world, "there are more retries than the budget allows");
}

static void note_end(struct call *call, uint64_t number, bool is_failure, bool is_overload)
{
    size_t place = place_of(call, number);
    if (number == 0 || place == ROTA_CALL_RUNNING_MAX)
        return;
    if (is_failure && call->n_failed < ROTA_CALL_TRIES_MAX)
        call->failed[call->n_failed++] = call->running_on[place];
    if (is_overload && call->n_overloaded < ROTA_CALL_TRIES_MAX)
        call->overloaded[call->n_overloaded++] = call->running_on[place];
    call->has_other_failure |= is_failure && !is_overload;
    call->running[place] = 0;
}

/* An answer of the directory itself that offers nobody else clears the failed. */
static void note_leaders(struct call *call, const struct rota_shard_map *map)
{
    const struct rota_shard_channel *channel = &map->channels[0];
    if (channel->n_replicas > call->n_leaders_max)
        call->n_leaders_max = (uint32_t)channel->n_replicas;
    if (call->is_asked_with_cache)
        return;
    for (size_t i = 0; i < channel->n_replicas; i++)
        if (!has_failed(call, channel->replicas[i].node))
            return;
    call->n_failed = 0;
    call->sweeps_again = true;
}

static const char *ask_violation(void *data)
{
    struct world *world = data;
    size_t n_running = 0;
    for (size_t i = 0; i < N_CALLS; i++) {
        struct call *call = &world->calls[i];
        if (call->is_active && clock_of(world) > call->deadline + ROTA_MSEC)
            violate(world, "a call outlives its deadline");
        for (size_t j = 0; j < ROTA_CALL_RUNNING_MAX; j++)
            n_running += call->running[j] != 0;
    }
    if (n_running != rota_balancer_n_tries(world->balancer))
        violate(world, "the balancer counts other tries than those that run");
    return world->violation;
}

/* --- the client --- */

static void drive(struct world *world, uint32_t slot, struct rota_call_fsm_event event);

static void send(struct world *world, uint32_t from, uint32_t to, struct message message)
{
    rota_sim_send(world->sim, from, to, rota_str_of(&message, sizeof message));
}

static_assert(sizeof(struct message) == (7 + 2 * N_LEADERS) * sizeof(uint64_t) +
                                            sizeof(enum message_type) + sizeof(enum rota_failure),
              "a message has padding");

static struct message blank(enum message_type type)
{
    return (struct message){.type = type};
}

static void pump_cache(struct world *world)
{
    struct rota_shard_action action;
    while (rota_shard_cache_next(world->cache, &action)) {
        if (action.type == ROTA_SHARD_ASK) {
            struct message ask = blank(ASK);
            ask.flight = action.flight;
            send(world, CLIENT, DIRECTORY, ask);
        }
        if (action.type != ROTA_SHARD_TELL)
            continue;
        for (uint32_t i = 0; i < N_CALLS; i++) {
            struct call *call = &world->calls[i];
            if (!call->is_active || call->waiter != action.waiter)
                continue;
            call->waiter = 0;
            drive(world, i,
                  (struct rota_call_fsm_event){.type = ROTA_CALL_LEADERS,
                                               .number = call->asked,
                                               .failure = action.failure,
                                               .map = action.map});
            break;
        }
        rota_shard_map_drop(action.map);
    }
    rota_sim_set_timer(world->sim, CLIENT, TIMER_CACHE, ROTA_SIM_MONO,
                       rota_shard_cache_deadline(world->cache));
}

static void ask_leaders(struct world *world, uint32_t slot,
                        const struct rota_call_fsm_action *action)
{
    struct call *call = &world->calls[slot];
    struct rota_shard_map *map = NULL;
    struct rota_shard_query query = {
        .database = rota_str("default"),
        .collection = 1,
        .channel = rota_str("channel"),
        .with_cache = action->with_cache || world->plant == PLANT_NO_REFRESH,
        .deadline = call->deadline,
        .waiter = ++world->waiter,
    };
    call->asked = action->number;
    call->is_asked_with_cache = action->with_cache;
    call->waiter = query.waiter;
    if (rota_shard_cache_get(world->cache, clock_of(world), &query, &map, NULL))
        violate(world, "the cache refuses");
    if (map)
        drive(world, slot,
              (struct rota_call_fsm_event){
                  .type = ROTA_CALL_LEADERS, .number = action->number, .map = map});
    rota_shard_map_drop(map);
}

static void start_try(struct world *world, uint32_t slot, const struct rota_call_fsm_action *action)
{
    struct call *call = &world->calls[slot];
    uint32_t node = (uint32_t)action->replica->node;
    note_start(world, call, action);
    if (!rota_sim_is_up(world->sim, node)) {
        drive(world, slot,
              (struct rota_call_fsm_event){.type = ROTA_CALL_TRY_ENDED,
                                           .number = action->number,
                                           .failure = ROTA_FAILURE_UNREACHABLE});
        return;
    }
    struct message message = blank(TRY);
    message.slot = slot;
    message.serial = call->serial;
    message.number = action->number;
    message.epoch = action->replica->epoch;
    send(world, CLIENT, node, message);
}

static void finish(struct world *world, uint32_t slot, const struct rota_call_fsm_action *action,
                   const struct rota_call_fsm_event *event, int64_t answered_by)
{
    struct call *call = &world->calls[slot];
    rota_time now = clock_of(world);
    if (++call->n_finished > 1)
        violate(world, "a call finishes twice");
    for (size_t i = 0; i < ROTA_CALL_RUNNING_MAX; i++)
        if (call->running[i])
            violate(world, "a try is left running");
    if (action->failure == ROTA_FAILURE_NONE && action->node != answered_by)
        violate(world, "a call succeeds by a replica that did not answer it");
    if (action->failure == ROTA_FAILURE_CANCELLED && event->type != ROTA_CALL_CANCEL)
        violate(world, "a call is cancelled by nobody");
    if (is_late(world) && call->started_at > now - 5 * ROTA_SEC && event->type != ROTA_CALL_CANCEL)
        *(action->failure ? &world->n_late_failed : &world->n_late_ok) += 1;
    world->n_late_by[answered_by] += is_late(world);
    if (call->waiter)
        rota_shard_cache_cancel(world->cache, call->waiter);
    call->waiter = 0;
    if (world->plant == PLANT_FINISHES_TWICE) {
        call->fsm.state = ROTA_CALL_TRYING;
        return;
    }
    call->is_active = false;
    rota_call_fsm_deinit(&call->fsm, now);
}

/* The event, as the model of the call sees it before the machine does. */
static int64_t note_event(struct world *world, struct call *call,
                          const struct rota_call_fsm_event *event)
{
    size_t place = event->number ? place_of(call, event->number) : ROTA_CALL_RUNNING_MAX;
    int64_t node = place < ROTA_CALL_RUNNING_MAX ? call->running_on[place] : 0;
    bool is_own_claim =
        event->failure == ROTA_FAILURE_STALE && event->claim && event->claim->node == node;
    if (event->type == ROTA_CALL_TRY_ENDED)
        note_end(call, event->number, event->failure && !is_own_claim,
                 event->failure == ROTA_FAILURE_OVERLOAD);
    if (event->type == ROTA_CALL_LEADERS && event->map && event->number == call->asked)
        note_leaders(call, event->map);
    if (event->type == ROTA_CALL_LEADERS && world->plant == PLANT_CACHE_CLEARS)
        call->fsm.is_asked_with_cache = false;
    return node;
}

static void drive(struct world *world, uint32_t slot, struct rota_call_fsm_event event)
{
    struct call *call = &world->calls[slot];
    rota_time now = clock_of(world);
    int64_t answered_by = note_event(world, call, &event);
    bool had_map = rota_shard_cache_peek(world->cache, 1);
    if (world->plant == PLANT_SWEEPS_FULL && event.failure == ROTA_FAILURE_OVERLOAD)
        event.failure = ROTA_FAILURE_RETRIABLE;
    if (world->plant == PLANT_FIRST_COSTS && event.type == ROTA_CALL_TRY_ENDED) {
        world->budget.parts = 0;
        call->fsm.sweeps_again = true;
    }
    struct rota_call_fsm_actions todo = rota_call_fsm_step(&call->fsm, now, &event);
    if (world->plant == PLANT_FORGETS_EXCLUDED)
        call->fsm.n_excluded = call->fsm.n_excluded_by_overload = 0;
    bool is_last = todo.n > 0 && todo.items[todo.n - 1].type == ROTA_CALL_FINISH;
    for (size_t i = 0; i < todo.n; i++) {
        const struct rota_call_fsm_action *action = &todo.items[i];
        switch (action->type) {
        case ROTA_CALL_ASK_LEADERS:
            ask_leaders(world, slot, action);
            break;
        case ROTA_CALL_START_TRY:
            start_try(world, slot, action);
            break;
        case ROTA_CALL_CANCEL_TRY:
            if (world->plant != PLANT_LEAVES_LOSER)
                note_end(call, action->number, !is_last, false);
            break;
        case ROTA_CALL_REPORT:
            if (world->plant != PLANT_NO_REFRESH)
                rota_shard_cache_report(world->cache, now,
                                        &(struct rota_shard_report){.collection = 1,
                                                                    .version = action->version,
                                                                    .channel = rota_str("channel"),
                                                                    .node = action->node,
                                                                    .failure = action->failure,
                                                                    .claim = action->claim});
            break;
        case ROTA_CALL_FINISH:
            if (rota_call_fsm_is_unbudgeted(&call->fsm) && !call->sweeps_again)
                violate(world, "the budget ends a call that has not met all replicas");
            finish(world, slot, action, &event, answered_by);
            break;
        }
    }
    if (event.type == ROTA_CALL_CANCEL && world->plant == PLANT_CANCEL_EMPTIES)
        rota_shard_cache_invalidate(world->cache, &(int64_t){1}, 1);
    if (event.type == ROTA_CALL_CANCEL && had_map && !rota_shard_cache_peek(world->cache, 1))
        violate(world, "a caller who changes its mind drops the map");
    rota_time at = call->is_active
                       ? rota_call_fsm_deadline(&call->fsm)
                       : now + rota_random_range(rota_sim_random(world->sim), 0, 200 * ROTA_MSEC);
    if (world->plant == PLANT_NO_TICK && call->is_active)
        at = ROTA_TIME_NEVER;
    rota_sim_set_timer(world->sim, CLIENT, slot, ROTA_SIM_MONO, at);
}

static void start_call(struct world *world, uint32_t slot)
{
    struct rota_random *random = rota_sim_random(world->sim);
    struct call *call = &world->calls[slot];
    rota_time now = clock_of(world);
    *call = (struct call){
        .is_active = true,
        .serial = ++world->serial,
        .started_at = now,
        .deadline = now + rota_random_range(random, 100 * ROTA_MSEC, 3 * ROTA_SEC),
        .repeat = (enum rota_call_repeat)rota_random_below(random, 3),
    };
    if (rota_sim_now(world->sim) > QUIET_AT) /* so that time is no reason to fail */
        call->deadline = now + 4 * ROTA_SEC;
    world->n_calls++;
    struct rota_call_fsm_options options = {
        .collection = 1,
        .channel = rota_str("channel"),
        .deadline = world->plant == PLANT_NO_DEADLINE ? 0 : call->deadline,
        .try_timeout = 300 * ROTA_MSEC,
        .hedge_after = rota_random_chance(random, 0.5) ? 0 : 40 * ROTA_MSEC,
        .repeat = world->plant == PLANT_SENDS_TWICE ? ROTA_REPEAT_ANY : call->repeat,
    };
    rota_call_fsm_init(&call->fsm, &world->shared, &options);
    drive(world, slot, (struct rota_call_fsm_event){.type = ROTA_CALL_START});
}

static void client_timer(struct world *world, uint32_t timer)
{
    if (timer == TIMER_CACHE) {
        rota_shard_cache_step(world->cache, clock_of(world));
        rota_blacklist_step(&world->blacklist, clock_of(world));
    } else if (!world->calls[timer].is_active) {
        start_call(world, timer);
    } else {
        bool is_fed_up = rota_random_chance(rota_sim_random(world->sim), 0.05);
        drive(world, timer,
              (struct rota_call_fsm_event){.type = is_fed_up ? ROTA_CALL_CANCEL : ROTA_CALL_TICK});
    }
    pump_cache(world);
}

static void client_answered(struct world *world, uint32_t from, const struct message *message)
{
    struct call *call = &world->calls[message->slot];
    struct rota_replica claim = {message->claim_node, {"a:1", 3}, message->claim_epoch, true};
    struct rota_call_fsm_event event = {
        .type = ROTA_CALL_TRY_ENDED,
        .number = message->number,
        .failure = message->failure,
        .is_sent = true,
        .claim = message->claim_node ? &claim : NULL,
    };
    (void)from;
    if (!call->is_active || call->serial != message->serial)
        return;
    if (world->plant == PLANT_ANY_ANSWER && place_of(call, message->number) == 2) {
        /* The machine takes it for the try that runs, the model knows better. */
        for (size_t i = 0; i < ROTA_CALL_RUNNING_MAX; i++)
            if (call->fsm.running[i].number)
                call->fsm.running[i].number = message->number;
    }
    drive(world, (uint32_t)message->slot, event);
    pump_cache(world);
}

static void client_told(struct world *world, const struct message *message)
{
    struct rota_replica replicas[N_LEADERS];
    struct rota_shard_map *map;
    for (size_t i = 0; i < N_LEADERS; i++)
        replicas[i] =
            (struct rota_replica){message->nodes[i], {"a:1", 3}, message->epochs[i], true};
    struct rota_shard_channel channel = {rota_str("channel"), replicas, N_LEADERS};
    if (world->plant == PLANT_ONE_REPLICA)
        channel.n_replicas = 1;
    if (rota_shard_map_new(1, rota_str(""), &channel, 1, &map, NULL))
        violate(world, "the directory talks nonsense");
    else
        rota_shard_cache_answered(world->cache, clock_of(world), message->flight, ROTA_FAILURE_NONE,
                                  map);
    pump_cache(world);
}

/* --- the others --- */

static void directory_asked(struct world *world, struct message message)
{
    size_t n = 0;
    message.type = LEADERS;
    for (uint32_t i = FIRST_REPLICA; i < N_NODES; i++)
        if (world->epochs[i]) {
            message.nodes[n] = i;
            message.epochs[n++] = world->epochs[i];
        }
    send(world, DIRECTORY, CLIENT, message);
}

static enum rota_failure misfortune(struct world *world)
{
    static const enum rota_failure kinds[] = {ROTA_FAILURE_OVERLOAD, ROTA_FAILURE_RETRIABLE,
                                              ROTA_FAILURE_INTERNAL, ROTA_FAILURE_NOT_LOADED,
                                              ROTA_FAILURE_INPUT};
    struct rota_random *random = rota_sim_random(world->sim);
    if (rota_sim_now(world->sim) > QUIET_AT || !rota_random_chance(random, 0.3))
        return ROTA_FAILURE_NONE;
    return kinds[rota_random_below(random, sizeof kinds / sizeof *kinds)];
}

/* Act on the call, unless a fault comes before or the epoch is not right. */
static void replica_tried(struct world *world, uint32_t node, struct message message)
{
    struct call *call = &world->calls[message.slot];
    uint32_t successor = world->successor[node];
    message.type = ANSWER;
    message.failure = misfortune(world);
    if (message.epoch != world->epochs[node]) {
        message.failure = ROTA_FAILURE_STALE;
        message.claim_node = world->epochs[node] ? node : world->epochs[successor] ? successor : 0;
        message.claim_epoch = world->epochs[message.claim_node];
    }
    if (message.failure == ROTA_FAILURE_NONE && call->serial == message.serial &&
        call->executed != message.number) {
        call->executed = message.number;
        if (++call->n_executed > 1 && call->repeat != ROTA_REPEAT_ANY)
            violate(world, "what must not happen twice does");
    }
    send(world, node, CLIENT, message);
}

/* A leader is replaced, or continues under a new epoch; again in a while. */
static void move_leader(void *data, uint64_t number)
{
    struct world *world = data;
    struct rota_random *random = rota_sim_random(world->sim);
    uint32_t old, new;
    do
        old = FIRST_REPLICA + (uint32_t)rota_random_below(random, N_REPLICAS);
    while (!world->epochs[old]);
    do
        new = FIRST_REPLICA + (uint32_t)rota_random_below(random, N_REPLICAS);
    while (world->epochs[new] && new != old);
    world->epochs[old] = 0;
    world->epochs[new] = ++world->last_epoch;
    world->successor[old] = new;
    rota_time next = rota_sim_now(world->sim) + rota_sim_exponential(random, 3 * ROTA_SEC);
    if (next < QUIET_AT)
        rota_sim_call(world->sim, next, move_leader, world, number + 1);
}

/* --- what the world calls --- */

static void on_start(void *data, uint32_t node)
{
    struct world *world = data;
    if (node != CLIENT)
        return;
    world->began_at = clock_of(world);
    rota_budget_init(&world->budget, world->began_at, &BUDGET);
    rota_hedge_init(&world->hedge, world->began_at, &(struct rota_hedge_options){0});
    for (uint32_t i = 0; i < N_CALLS; i++)
        rota_sim_set_timer(world->sim, CLIENT, i, ROTA_SIM_MONO, world->began_at + i * ROTA_MSEC);
}

static void on_message(void *data, uint32_t node, uint32_t from, struct rota_str bytes)
{
    struct message message;
    memcpy(&message, bytes.data, sizeof message);
    switch (message.type) {
    case ASK:
        directory_asked(data, message);
        break;
    case LEADERS:
        client_told(data, &message);
        break;
    case TRY:
        replica_tried(data, node, message);
        break;
    case ANSWER:
        client_answered(data, from, &message);
        break;
    }
}

static void on_timer(void *data, uint32_t node, uint32_t timer)
{
    (void)node;
    client_timer(data, timer);
}

/* No map grows old here: what is wrong with it has to come out by errors. */
static void make_client(struct world *world, uint64_t seed)
{
    struct rota_balancer_options balancer = {.policy = (enum rota_balancer_policy)(seed % 4)};
    struct rota_shard_cache_options cache = {.ttl = ROTA_HOUR, .flight_timeout = ROTA_SEC};
    struct rota_error error;
    if (rota_balancer_new(&balancer, &world->balancer, &error) ||
        rota_shard_cache_new(&cache, &world->cache, &error)) {
        fprintf(stderr, "%s\n", error.text);
        exit(2);
    }
    rota_random_init(&world->random, seed);
    rota_blacklist_init(&world->blacklist, seed, 2 * ROTA_SEC, 0);
    world->shared = (struct rota_call_shared){
        .balancer = world->balancer,
        .random = &world->random,
        .blacklist = &world->blacklist,
        .budget = world->plant == PLANT_NO_BUDGET ? NULL : &world->budget,
        .hedge = &world->hedge,
        .stats = &world->stats,
    };
}

/* A connection does not bring a request twice, and a replica that refused it once could otherwise
 * act on the copy. Answers do come twice. */
static void link_nodes(struct world *world, double loss)
{
    struct rota_sim_link link = {.delay_min = ROTA_MSEC,
                                 .delay_mean = 10 * ROTA_MSEC,
                                 .delay_max = 600 * ROTA_MSEC,
                                 .loss = loss};
    for (uint32_t i = DIRECTORY; i < N_NODES; i++) {
        link.duplication = i == DIRECTORY ? 0.05 : 0;
        rota_sim_set_link(world->sim, CLIENT, i, &link);
        link.duplication = 0.05;
        rota_sim_set_link(world->sim, i, CLIENT, &link);
    }
}

/* From now on a replica that is ejected answers its next probe. */
static void end_losses(void *data, uint64_t number)
{
    (void)number;
    link_nodes(data, 0);
}

/* Long after all faults: all leaders serve. */
static void check_shares(struct world *world)
{
    for (uint32_t i = FIRST_REPLICA; i < N_NODES; i++)
        if (world->epochs[i] && world->n_late_by[i] * 20 < world->n_late_ok)
            rota_sim_fail(world->sim, "a leader has no share of the calls");
}

static void run(struct sim_case *run)
{
    static struct world world;
    world = (struct world){.plant = (enum plant)run->plant};
    make_client(&world, run->seed);
    for (uint32_t i = 0; i < N_LEADERS; i++)
        world.epochs[FIRST_REPLICA + i] = ++world.last_epoch;
    world.sim = sim_case_new(run, (struct rota_sim_options){
                                      .n_nodes = N_NODES,
                                      .skew_max = ROTA_SEC,
                                      .drift_max_ppm = 500,
                                      .on_start = on_start,
                                      .on_message = on_message,
                                      .on_timer = on_timer,
                                      .data = &world,
                                  });
    link_nodes(&world, 0.02);
    rota_sim_call(world.sim, QUIET_AT, end_losses, &world, 0);
    rota_sim_add_check(world.sim, ask_violation, &world);
    rota_sim_call(world.sim, ROTA_SEC, move_leader, &world, 1);
    struct rota_sim_chaos_options faults = {
        .first_node = DIRECTORY,
        .quiet_at = QUIET_AT,
        .crash_every = 4 * ROTA_SEC,
        .crash_for = 2 * ROTA_SEC,
        .pause_every = 4 * ROTA_SEC,
        .pause_for = ROTA_SEC,
        .split_every = 10 * ROTA_SEC,
        .split_for = 2 * ROTA_SEC,
    };
    rota_sim_chaos_start(&world.chaos, world.sim, &faults);
    if (rota_sim_run(world.sim, END_AT)) {
        check_shares(&world);
        if (world.n_late_ok < 100 || world.n_late_failed * 10 > world.n_late_ok)
            rota_sim_fail(world.sim, "calls fail long after all faults");
        if (world.n_retries == 0 || world.n_hedges == 0)
            rota_sim_fail(world.sim, "nothing is retried or hedged: the run shows nothing");
    }
    for (size_t i = 0; i < N_CALLS; i++)
        if (world.calls[i].is_active)
            rota_call_fsm_deinit(&world.calls[i].fsm, 0);
    rota_shard_cache_free(world.cache);
    rota_balancer_free(world.balancer);
    rota_blacklist_deinit(&world.blacklist);
    sim_case_end(run, world.sim);
}

int main(int argc, char **argv)
{
    return sim_main(argc, argv,
                    &(struct sim_suite){
                        .name = "sim_call",
                        .n_seeds = 1000,
                        .kept = {673, 700879, 701154, 190622178576, 384416218644, 384416218673},
                        .n_plant_seeds = 50,
                        .plants = plants,
                        .n_plants = N_PLANTS - 1,
                        .run = run,
                    });
}
