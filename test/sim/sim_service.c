/* Calls to the owners of shards that move, by the maps of directories that lag.
 *
 * Node 0 is a client with several calls at a time, the next are directories, the others are
 * servers. Shards move all the time: the former owner stops, then the next one starts under the
 * next epoch, and everybody else learns it later. A server rejects a call by epoch and may name the
 * claim that it knows; some name a wrong one. Servers and directories crash, stop and are cut off,
 * streams of updates break. In the end one directory is down and one has been cut off from the
 * store for long; and the client starts over now and then, without a map.
 *
 * Each call finishes exactly once and in time, never because of a rejection. What must not happen
 * twice does not. No claim that did not do is tried again without a pause, no shard is called while
 * it is in flight, redirects do not go on and on. A map that is whole is the directory's. Once
 * faults stop, every call succeeds although shards still move. */
#include "core/call/call_fsm.h"
#include "core/call/service/follow.h"
#include "core/call/service/watch_fsm.h"
#include "core/own/space_feed.h"
#include "sim/sim_chaos.h"
#include "sim_main.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CLIENT,
    FIRST_DIRECTORY,
    N_DIRECTORIES = 3,
    FIRST_SERVER = FIRST_DIRECTORY + N_DIRECTORIES,
    N_SERVERS = 4,
    N_NODES = FIRST_SERVER + N_SERVERS,
    N_SHARDS = 6,
    N_CALLS = 8,
    TIMER_WATCH = N_CALLS,
    TIMER_POLL,
};

#define QUIET_AT (60 * ROTA_SEC)
#define END_AT   (110 * ROTA_SEC)
#define POLL     (100 * ROTA_MSEC) /* of connections that have broken */
#define TIMEOUT  (12 * ROTA_SEC)

enum plant {
    PLANT_NONE,
    PLANT_NO_PAUSE,
    PLANT_ENDLESS_HOPS,
    PLANT_CALLS_MOVING,
    PLANT_COUNTS_REJECTIONS,
    PLANT_REPEATS_RUN,
    PLANT_ONE_DIRECTORY,
    PLANT_NO_DOUBT,
    PLANT_IGNORES_HISTORY,
    PLANT_IGNORES_GAPS,
    PLANT_NO_WAKE,
    PLANT_NO_TICK,
    N_PLANTS,
};

static const struct sim_plant plants[N_PLANTS - 1] = {
    {"no-pause", "a claim that did not do is tried again at once"},
    {"endless-hops", "redirects are not counted"},
    {"calls-moving", "a shard on its way counts as owned"},
    {"counts-rejections", "a rejection by epoch is an attempt like others"},
    {"repeats-run", "a call that must not happen twice is repeated"},
    {"one-directory", "the first directory is the only one"},
    {"no-doubt", "a directory without news is believed forever"},
    {"ignores-history", "a version counts at another directory"},
    {"ignores-gaps", "a lost update is not noticed"},
    {"no-wake", "calls that wait are not told of a new map"},
    {"no-tick", "time is not told to the watch"},
};

struct claim {
    uint32_t owner; /* a node; 0: none */
    uint64_t epoch;
    uint64_t is_moving;
};

enum message_type { WATCH, UPDATE, TRY, ANSWER };

/* Without padding: it is sent as it is. */
struct message {
    uint64_t type, number, serial, slot;
    uint64_t history, version, is_snapshot, is_whole; /* and: n claims, and which */
    uint64_t n, shards[N_SHARDS];
    uint64_t owners[N_SHARDS], epochs[N_SHARDS], moving[N_SHARDS];
    uint64_t shard, epoch, failure, claim_node, claim_epoch;
};

struct call {
    bool is_active;
    uint64_t serial;
    uint32_t shard;
    struct rota_call_fsm fsm;
    struct rota_follow follow;
    uint64_t asked;  /* waits for a map */
    rota_time until; /* of follow */
    rota_time deadline, started_at;
    bool is_once; /* must not happen twice */
    uint32_t n_executed;
    struct {
        uint64_t number;
        uint32_t node, life;
    } running[ROTA_CALL_RUNNING_MAX];

    /* The last try that was rejected. */
    uint32_t last_node;
    uint64_t last_epoch;
    rota_time last_at;
    uint32_t n_hops; /* at once, while the directory had no news */
    uint64_t n_news;
};

struct world {
    struct rota_sim *sim;
    enum plant plant;
    struct rota_sim_chaos directory_chaos, server_chaos;
    const char *violation;

    struct claim truth[N_SHARDS];
    struct claim known[N_SERVERS][N_SHARDS]; /* by servers */
    bool is_held[N_SERVERS][N_SHARDS];

    struct rota_space_feed feeds[N_DIRECTORIES];
    struct rota_space_shard seen[N_DIRECTORIES][N_SHARDS];
    struct rota_space_follower followers[N_DIRECTORIES];
    uint64_t numbers[N_DIRECTORIES], sent[N_DIRECTORIES]; /* of the watch; of its updates */
    bool is_watched[N_DIRECTORIES];
    rota_time cut_until[N_DIRECTORIES]; /* off the store */

    struct rota_space_table table;
    struct rota_watch_fsm watch;
    uint64_t watch_number, received;
    uint32_t watched, watched_life; /* the node, 0: none */

    struct rota_balancer *balancer;
    struct rota_random random;
    struct rota_blacklist blacklist;
    struct rota_budget budget;
    struct rota_call_stats stats;
    struct rota_call_shared shared;
    struct call calls[N_CALLS];
    uint64_t n_news[N_SHARDS]; /* changes of what the client knows from directories */
    uint64_t serial, n_late_ok, n_redirects, n_waits;
};

static struct rota_str addresses[N_NODES] = {{"n0", 2}, {"n1", 2}, {"n2", 2}, {"n3", 2},
                                             {"n4", 2}, {"n5", 2}, {"n6", 2}, {"n7", 2}};
static_assert(N_NODES == 8, "an address for each node");

static int64_t node_of(struct rota_str address)
{
    return address.data[1] - '0';
}

static rota_time clock_of(const struct world *world)
{
    return rota_sim_mono(world->sim, CLIENT);
}

static bool is_quiet(const struct world *world)
{
    return rota_sim_now(world->sim) > QUIET_AT;
}

static bool is_late(const struct world *world)
{
    return rota_sim_now(world->sim) > QUIET_AT + 20 * ROTA_SEC;
}

static void violate(struct world *world, const char *what)
{
    if (!world->violation)
        world->violation = what;
}

static const char *ask_violation(void *data)
{
    struct world *world = data;
    for (size_t i = 0; i < N_CALLS; i++)
        if (world->calls[i].is_active &&
            clock_of(world) > world->calls[i].deadline + 10 * ROTA_MSEC)
            violate(world, "a call outlives its deadline");
    return world->violation;
}

static void send(struct world *world, uint32_t from, uint32_t to, const struct message *message)
{
    rota_sim_send(world->sim, from, to, rota_str_of(message, sizeof *message));
}

/* --- the truth --- */

static bool is_server_up(const struct world *world, uint32_t node)
{
    return rota_sim_is_up(world->sim, node) && !rota_sim_is_paused(world->sim, node);
}

/* A directory reads the store. */
static void look_at_store(void *data, uint64_t index)
{
    struct world *world = data;
    rota_time now = rota_sim_now(world->sim);
    struct rota_random *random = rota_sim_random(world->sim);
    uint32_t node = FIRST_DIRECTORY + (uint32_t)index;
    if (now >= world->cut_until[index] && is_server_up(world, node)) {
        for (uint32_t i = 0; i < N_SHARDS; i++) {
            const struct claim *claim = &world->truth[i];
            world->seen[index][i] =
                (struct rota_space_shard){.epoch = claim->epoch,
                                          .owner = claim->owner ? claim->owner : ROTA_SPACE_NOBODY,
                                          .state = !claim->owner      ? ROTA_SPACE_UNOWNED
                                                   : claim->is_moving ? ROTA_SPACE_MOVING
                                                                      : ROTA_SPACE_OWNED};
        }
        const struct rota_space_map map = {.engine = rota_str("ring"),
                                           .nodes = addresses,
                                           .n_nodes = N_NODES,
                                           .shards = world->seen[index],
                                           .n_shards = N_SHARDS};
        rota_space_feed_update(&world->feeds[index], &map, NULL);
        if (!is_quiet(world) && rota_random_chance(random, 0.01))
            world->cut_until[index] = now + rota_sim_exponential(random, 5 * ROTA_SEC);
    }
    if (world->is_watched[index] && is_server_up(world, node)) {
        struct rota_space_piece piece;
        while (rota_space_feed_next(&world->feeds[index], &world->followers[index], &piece)) {
            struct message update = {.type = UPDATE, .number = world->numbers[index]};
            update.serial = ++world->sent[index];
            update.history = world->feeds[index].history;
            update.version = world->feeds[index].version;
            update.is_snapshot = piece.is_snapshot;
            update.is_whole = piece.is_whole;
            for (uint64_t i = 0; i < piece.n_claims + (piece.to - piece.from) && i < N_SHARDS;
                 i++) {
                uint32_t shard =
                    piece.n_claims ? (uint32_t)i
                                   : rota_space_feed_claim(&world->feeds[index], piece.to - 1 - i);
                if (!piece.n_claims && i >= piece.to - piece.from)
                    break;
                const struct rota_space_shard *seen = &world->feeds[index].claims[shard];
                update.shards[update.n] = shard;
                update.owners[update.n] = seen->owner == ROTA_SPACE_NOBODY ? 0 : seen->owner + 1;
                update.epochs[update.n] = seen->epoch;
                update.moving[update.n++] = seen->state == ROTA_SPACE_MOVING;
            }
            if (piece.to - piece.from > N_SHARDS) { /* a message has no room: all of them */
                for (uint32_t i = 0; i < N_SHARDS; i++) {
                    const struct rota_space_shard *seen = &world->feeds[index].claims[i];
                    update.shards[i] = i;
                    update.owners[i] = seen->owner == ROTA_SPACE_NOBODY ? 0 : seen->owner + 1;
                    update.epochs[i] = seen->epoch;
                    update.moving[i] = seen->state == ROTA_SPACE_MOVING;
                }
                update.n = N_SHARDS;
            }
            send(world, node, CLIENT, &update);
            rota_space_feed_sent(&world->feeds[index], &world->followers[index], &piece);
        }
    }
    rota_sim_call(world->sim, now + rota_random_range(random, ROTA_MSEC, 60 * ROTA_MSEC),
                  look_at_store, world, index);
}

/* The server learns who owns the shard now: `which` is shard and server. */
static void learn_claim(void *data, uint64_t which)
{
    struct world *world = data;
    uint32_t shard = (uint32_t)(which % N_SHARDS), server = (uint32_t)(which / N_SHARDS);
    const struct claim *truth = &world->truth[shard];
    if (truth->is_moving || truth->epoch < world->known[server][shard].epoch)
        return;
    world->known[server][shard] = *truth;
}

static void start_shard(void *data, uint64_t shard)
{
    struct world *world = data;
    struct claim *truth = &world->truth[shard];
    struct rota_random *random = rota_sim_random(world->sim);
    if (!truth->is_moving)
        return;
    truth->is_moving = false;
    uint32_t server = truth->owner - FIRST_SERVER;
    if (!rota_sim_is_up(world->sim, truth->owner))
        return;
    world->known[server][shard] = *truth;
    world->is_held[server][shard] = true;
    for (uint32_t i = 0; i < N_SERVERS; i++)
        rota_sim_call(world->sim,
                      rota_sim_now(world->sim) + rota_random_range(random, 0, 300 * ROTA_MSEC),
                      learn_claim, world, i * N_SHARDS + shard);
}

/* To a server that is up. The last one is down in the end. */
static void move_shard(struct world *world, uint32_t shard)
{
    struct rota_random *random = rota_sim_random(world->sim);
    struct claim *truth = &world->truth[shard];
    uint32_t n = is_quiet(world) ? N_SERVERS - 1 : N_SERVERS;
    uint32_t owner = FIRST_SERVER + (uint32_t)rota_random_below(random, n);
    if (truth->is_moving || !is_server_up(world, owner))
        return;
    for (uint32_t i = 0; i < N_SERVERS; i++)
        world->is_held[i][shard] = false;
    *truth = (struct claim){.owner = owner, .epoch = truth->epoch + 1, .is_moving = true};
    rota_sim_call(world->sim,
                  rota_sim_now(world->sim) + rota_random_range(random, 0, 500 * ROTA_MSEC),
                  start_shard, world, shard);
}

static void move_shards(void *data, uint64_t n)
{
    struct world *world = data;
    struct rota_random *random = rota_sim_random(world->sim);
    (void)n;
    move_shard(world, (uint32_t)rota_random_below(random, N_SHARDS));
    for (uint32_t i = 0; i < N_SHARDS; i++) { /* of servers that have died */
        const struct claim *truth = &world->truth[i];
        bool is_served = truth->owner && is_server_up(world, truth->owner) &&
                         world->is_held[truth->owner - FIRST_SERVER][i];
        if (!truth->is_moving && !is_served && (is_quiet(world) || rota_random_chance(random, 0.3)))
            move_shard(world, i);
    }
    /* Within bounds: a call may wait for a shard that has no owner, but not until its deadline. */
    rota_time pause = rota_time_min(rota_sim_exponential(random, ROTA_SEC), 3 * ROTA_SEC);
    rota_sim_call(world->sim, rota_sim_now(world->sim) + pause, move_shards, world, 0);
}

/* --- the client's calls --- */

static void drive(struct world *world, uint32_t slot, struct rota_call_fsm_event event);
static void step_watch(struct world *world, struct rota_watch_event event);

static void go(struct world *world, uint32_t slot, const struct rota_space_table_shard *shard)
{
    struct call *call = &world->calls[slot];
    struct rota_replica replicas[ROTA_SPACE_TABLE_ZONES_MAX];
    const struct rota_shard_channel channel = {rota_str("shard"), replicas, shard->n_replicas};
    struct rota_shard_map *map = NULL;
    uint64_t asked = call->asked;
    for (size_t i = 0; i < shard->n_replicas; i++)
        replicas[i] = (struct rota_replica){.node = node_of(shard->replicas[i].address),
                                            .address = shard->replicas[i].address,
                                            .epoch = shard->replicas[i].epoch,
                                            .is_serviceable = true};
    if (rota_shard_map_new(1, rota_str(""), &channel, 1, &map, NULL))
        abort();
    call->asked = 0;
    drive(world, slot,
          (struct rota_call_fsm_event){.type = ROTA_CALL_LEADERS, .number = asked, .map = map});
    rota_shard_map_drop(map);
}

static void set_timer(struct world *world, uint32_t slot);

/* Whether calls beside this one wait for a map. */
static bool is_waited_for(const struct world *world, const struct call *call)
{
    for (size_t i = 0; i < N_CALLS; i++)
        if (&world->calls[i] != call && world->calls[i].is_active && world->calls[i].asked)
            return true;
    return false;
}

/* As the driver does. */
static void answer(struct world *world, uint32_t slot)
{
    struct call *call = &world->calls[slot];
    struct rota_space_table_shard shard;
    if (!call->is_active || call->asked == 0)
        return;
    if (rota_follow_look(&call->follow, &world->table, clock_of(world), call->shard, node_of,
                         &shard, &call->until))
        step_watch(world, (struct rota_watch_event){.type = ROTA_WATCH_SERVED,
                                                    .is_waited = is_waited_for(world, call)});
    if (world->plant == PLANT_CALLS_MOVING && shard.n_replicas == 0 && shard.is_moving) {
        const struct rota_space_table_claim *claim = &world->table.now.zones[0].claims[call->shard];
        shard.replicas[shard.n_replicas++] = (struct rota_space_table_replica){
            .address = addresses[claim->owner - 1], .epoch = claim->epoch};
    }
    if (shard.n_replicas > 0) {
        call->until = ROTA_TIME_NEVER;
        go(world, slot, &shard);
        return;
    }
    world->n_waits++;
    set_timer(world, slot);
    step_watch(world, (struct rota_watch_event){.type = ROTA_WATCH_START});
    if (world->plant != PLANT_NO_DOUBT)
        step_watch(world, (struct rota_watch_event){.type = ROTA_WATCH_WAITED});
}

static void wake(struct world *world)
{
    for (uint32_t i = 0; i < N_CALLS && world->plant != PLANT_NO_WAKE; i++)
        answer(world, i);
}

static void set_timer(struct world *world, uint32_t slot)
{
    struct call *call = &world->calls[slot];
    rota_time at = ROTA_TIME_NEVER;
    if (call->is_active)
        at = rota_time_min(rota_call_fsm_deadline(&call->fsm),
                           call->asked ? call->until : ROTA_TIME_NEVER);
    rota_sim_set_timer(world->sim, CLIENT, slot, ROTA_SIM_MONO, at);
}

static void check_try(struct world *world, struct call *call, const struct rota_replica *replica)
{
    rota_time now = clock_of(world);
    const struct rota_space_table_claim *claim = &world->table.now.zones[0].claims[call->shard];
    if (now >= call->deadline)
        violate(world, "a try begins after the deadline");
    if (call->last_epoch == replica->epoch && call->last_node == (uint32_t)replica->node &&
        now - call->last_at < 10 * ROTA_MSEC)
        violate(world, "a claim that did not do is tried again without a pause");
    if (claim->is_moving && claim->epoch == replica->epoch)
        violate(world, "a shard is called while it is on its way");
    bool is_at_once =
        now - call->last_at < 10 * ROTA_MSEC && call->n_news == world->n_news[call->shard];
    if (!is_at_once)
        call->n_hops = 0;
    else if (claim->epoch !=
             replica->epoch) /* not to the directory's, which all others expire to */
        call->n_hops++;
    call->n_news = world->n_news[call->shard];
    if (call->n_hops > ROTA_FOLLOW_HOPS_MAX)
        violate(world, "redirects are followed on and on");
}

static void start_try(struct world *world, uint32_t slot, const struct rota_call_fsm_action *action)
{
    struct call *call = &world->calls[slot];
    uint32_t node = (uint32_t)action->replica->node;
    check_try(world, call, action->replica);
    if (!rota_sim_is_up(world->sim, node)) {
        drive(world, slot,
              (struct rota_call_fsm_event){.type = ROTA_CALL_TRY_ENDED,
                                           .number = action->number,
                                           .failure = ROTA_FAILURE_UNREACHABLE});
        return;
    }
    for (size_t i = 0; i < ROTA_CALL_RUNNING_MAX; i++)
        if (call->running[i].number == 0) {
            call->running[i].number = action->number;
            call->running[i].node = node;
            call->running[i].life = rota_sim_life(world->sim, node);
            break;
        }
    struct message message = {.type = TRY, .number = action->number, .serial = call->serial};
    message.slot = slot;
    message.shard = call->shard;
    message.epoch = action->replica->epoch;
    send(world, CLIENT, node, &message);
}

static void end_try(struct call *call, uint64_t number)
{
    for (size_t i = 0; i < ROTA_CALL_RUNNING_MAX; i++)
        if (call->running[i].number == number)
            call->running[i].number = 0;
}

static void report(struct world *world, struct call *call,
                   const struct rota_call_fsm_action *action)
{
    rota_time now = clock_of(world);
    bool is_redirected = action->failure == ROTA_FAILURE_STALE && action->claim &&
                         rota_space_table_learn(&world->table, now, call->shard, action->claim);
    world->n_redirects += is_redirected;
    rota_follow_failed(&call->follow, now, action->node, action->epoch, action->failure,
                       &world->random);
    if (world->plant == PLANT_NO_PAUSE)
        call->follow.retry_at = 0;
    if (world->plant == PLANT_ENDLESS_HOPS)
        call->follow.n_hops = 0;
    if (rota_follow_is_followed(action->failure)) {
        call->last_node = (uint32_t)action->node;
        call->last_epoch = action->epoch;
        call->last_at = now;
    }
}

static void finish(struct world *world, struct call *call,
                   const struct rota_call_fsm_action *action)
{
    if (!call->is_active)
        violate(world, "a call finishes twice");
    if (rota_follow_is_followed(action->failure))
        violate(world, "a call fails that no server has acted on, and there is time");
    if (action->failure == ROTA_FAILURE_NONE && call->n_executed == 0)
        violate(world, "a call went well that no server has seen");
    if (is_late(world) && rota_sim_now(world->sim) - call->started_at < TIMEOUT - ROTA_SEC)
        world->n_late_ok += action->failure == ROTA_FAILURE_NONE;
    if (is_late(world) && action->failure != ROTA_FAILURE_NONE)
        violate(world, "a call fails long after all faults");
    call->is_active = false;
    call->asked = 0;
}

static void drive(struct world *world, uint32_t slot, struct rota_call_fsm_event event)
{
    struct call *call = &world->calls[slot];
    struct rota_call_fsm_actions todo = rota_call_fsm_step(&call->fsm, clock_of(world), &event);
    bool asks = false;
    for (size_t i = 0; i < todo.n; i++) {
        const struct rota_call_fsm_action *action = &todo.items[i];
        switch (action->type) {
        case ROTA_CALL_ASK_LEADERS:
            call->asked = action->number;
            call->until = ROTA_TIME_NEVER;
            asks = true;
            break;
        case ROTA_CALL_START_TRY:
            start_try(world, slot, action);
            break;
        case ROTA_CALL_CANCEL_TRY:
            end_try(call, action->number);
            break;
        case ROTA_CALL_REPORT:
            report(world, call, action);
            break;
        case ROTA_CALL_FINISH:
            finish(world, call, action);
            break;
        }
    }
    if (asks)
        answer(world, slot);
    set_timer(world, slot);
}

static void begin_call(void *data, uint64_t slot)
{
    struct world *world = data;
    struct call *call = &world->calls[slot];
    struct rota_random *random = rota_sim_random(world->sim);
    rota_time now = clock_of(world);
    rota_sim_call(world->sim, rota_sim_now(world->sim) + rota_sim_exponential(random, ROTA_SEC / 4),
                  begin_call, world, slot);
    if (call->is_active)
        return;
    rota_call_fsm_deinit(&call->fsm, now);
    *call = (struct call){.is_active = true,
                          .serial = ++world->serial,
                          .shard = (uint32_t)rota_random_below(random, N_SHARDS),
                          .is_once = rota_random_chance(random, 0.5),
                          .deadline = now + TIMEOUT,
                          .started_at = rota_sim_now(world->sim),
                          .until = ROTA_TIME_NEVER,
                          .last_at = -TIMEOUT};
    rota_follow_init(&call->follow);
    const struct rota_call_fsm_options options = {
        .collection = 1,
        .channel = rota_str("shard"),
        .deadline = call->deadline,
        .repeat = call->is_once && world->plant != PLANT_REPEATS_RUN ? ROTA_REPEAT_UNSENT
                                                                     : ROTA_REPEAT_ANY,
        .is_followed = world->plant != PLANT_COUNTS_REJECTIONS,
        .try_timeout = 2 * ROTA_SEC,
    };
    rota_call_fsm_init(&call->fsm, &world->shared, &options);
    drive(world, (uint32_t)slot, (struct rota_call_fsm_event){.type = ROTA_CALL_START});
}

/* --- the client's map --- */

static void step_watch(struct world *world, struct rota_watch_event event)
{
    struct rota_watch_actions actions =
        rota_watch_fsm_step(&world->watch, clock_of(world), &event, &world->random);
    if (actions.cancel)
        world->watched = 0;
    if (actions.tell_missing)
        violate(world, "a space is missing");
    if (actions.start) {
        uint32_t node = FIRST_DIRECTORY + (uint32_t)actions.node;
        if (world->watched)
            violate(world, "there are two watches");
        rota_space_table_pause(&world->table);
        world->watched = node;
        world->watched_life = rota_sim_life(world->sim, node);
        world->watch_number = actions.number;
        world->received = 0;
        struct message message = {.type = WATCH, .number = actions.number};
        message.history = world->table.history;
        message.version = world->table.version;
        if (world->plant == PLANT_IGNORES_HISTORY && message.history)
            message.history = world->feeds[actions.node].history;
        send(world, CLIENT, node, &message);
    }
    rota_sim_set_timer(world->sim, CLIENT, TIMER_WATCH, ROTA_SIM_MONO,
                       world->plant == PLANT_NO_TICK ? ROTA_TIME_NEVER
                                                     : rota_watch_fsm_deadline(&world->watch));
}

static void end_watch(struct world *world)
{
    world->watched = 0;
    step_watch(world, (struct rota_watch_event){.type = ROTA_WATCH_ENDED,
                                                .number = world->watch_number,
                                                .status = ROTA_STATUS_UNAVAILABLE});
}

static enum rota_code apply(struct world *world, const struct message *update)
{
    const struct rota_space_table_head head = {.history = update->history,
                                               .version = update->version,
                                               .is_snapshot = update->is_snapshot,
                                               .is_whole = update->is_whole,
                                               .engine = rota_str("ring"),
                                               .n_shards = N_SHARDS};
    size_t zone;
    struct rota_space_table *table = &world->table;
    if (world->plant == PLANT_IGNORES_HISTORY && !update->is_snapshot)
        table->history = update->history;
    enum rota_code code = rota_space_table_begin(table, &head, NULL);
    for (uint32_t i = 0; !code && i < N_NODES; i++)
        code = rota_space_table_node(table, i, addresses[i], NULL);
    if (!code)
        code = rota_space_table_zone(table, rota_str(""), &zone, NULL);
    for (size_t i = 0; !code && i < update->n; i++) {
        const struct rota_space_table_claim claim = {.epoch = update->epochs[i],
                                                     .owner = (uint32_t)update->owners[i],
                                                     .is_moving = update->moving[i] != 0};
        world->n_news[update->shards[i]]++;
        code = rota_space_table_claim(table, zone, (uint32_t)update->shards[i], &claim, NULL);
    }
    return code ? code : rota_space_table_end(table, &head, NULL);
}

static void check_map(struct world *world)
{
    const struct rota_space_feed *feed = &world->feeds[world->watched - FIRST_DIRECTORY];
    if (feed->version != world->table.version)
        return;
    for (uint32_t i = 0; i < N_SHARDS; i++)
        if (feed->claims[i].epoch != world->table.now.zones[0].claims[i].epoch)
            violate(world, "a map that is whole is not the directory's");
}

static void on_update(struct world *world, const struct message *update)
{
    if (!world->watched || update->number != world->watch_number)
        return;
    bool is_next = update->serial == world->received + 1;
    world->received = update->serial;
    if (!is_next && world->plant != PLANT_IGNORES_GAPS) { /* a stream has no gaps: it broke */
        rota_space_table_pause(&world->table);
        end_watch(world);
        return;
    }
    if (apply(world, update)) {
        rota_space_table_abort(&world->table);
        end_watch(world);
        return;
    }
    if (update->is_whole)
        check_map(world);
    step_watch(world, (struct rota_watch_event){.type = ROTA_WATCH_UPDATE,
                                                .number = world->watch_number,
                                                .is_whole = update->is_whole});
    wake(world);
}

/* Connections to nodes that are down, or were, have broken. */
static void poll_connections(struct world *world)
{
    if (world->watched && (!rota_sim_is_up(world->sim, world->watched) ||
                           rota_sim_life(world->sim, world->watched) != world->watched_life))
        end_watch(world);
    for (uint32_t i = 0; i < N_CALLS; i++)
        for (size_t j = 0; j < ROTA_CALL_RUNNING_MAX; j++) {
            struct call *call = &world->calls[i];
            uint64_t number = call->running[j].number;
            uint32_t node = call->running[j].node;
            if (!call->is_active || number == 0 ||
                (rota_sim_is_up(world->sim, node) &&
                 rota_sim_life(world->sim, node) == call->running[j].life))
                continue;
            end_try(call, number);
            drive(world, i,
                  (struct rota_call_fsm_event){.type = ROTA_CALL_TRY_ENDED,
                                               .number = number,
                                               .failure = ROTA_FAILURE_BROKEN,
                                               .is_sent = true});
        }
    rota_sim_set_timer(world->sim, CLIENT, TIMER_POLL, ROTA_SIM_MONO, clock_of(world) + POLL);
}

/* Another client, with the calls of this one: it has no map. */
static void start_over(void *data, uint64_t n)
{
    struct world *world = data;
    struct rota_random *random = rota_sim_random(world->sim);
    rota_space_table_deinit(&world->table);
    rota_space_table_init(&world->table, 1);
    for (uint32_t i = 0; i < N_SHARDS; i++)
        world->n_news[i]++;
    uint64_t number = world->watch.number;
    rota_watch_fsm_init(&world->watch, world->plant == PLANT_ONE_DIRECTORY ? 1 : N_DIRECTORIES,
                        rota_random_below(random, N_DIRECTORIES));
    world->watch.number = number; /* of a connection of its own, so no message is mistaken */
    world->watched = 0;
    wake(world);
    rota_sim_call(world->sim,
                  rota_sim_now(world->sim) + rota_sim_exponential(random, 15 * ROTA_SEC),
                  start_over, world, n);
}

/* --- servers --- */

static void on_try(struct world *world, uint32_t node, const struct message *message)
{
    uint32_t server = node - FIRST_SERVER, shard = (uint32_t)message->shard;
    const struct claim *known = &world->known[server][shard];
    struct rota_random *random = rota_sim_random(world->sim);
    struct call *call = &world->calls[message->slot];
    bool is_held = world->is_held[server][shard];
    struct message reply = *message;
    reply.type = ANSWER;
    reply.failure = ROTA_FAILURE_NONE;
    reply.claim_node = 0;
    if (is_held && message->epoch == known->epoch) {
        if (call->serial == message->serial && ++call->n_executed > 1 && call->is_once)
            violate(world, "what must not happen twice does");
    } else {
        reply.failure = ROTA_FAILURE_STALE;
        bool is_news =
            message->epoch < known->epoch || (!is_held && message->epoch == known->epoch);
        if (is_news && known->owner) {
            reply.claim_node = known->owner;
            reply.claim_epoch = known->epoch;
        }
        if (!is_quiet(world) && rota_random_chance(random, 0.3)) { /* a wrong one */
            reply.claim_node = FIRST_SERVER + rota_random_below(random, N_SERVERS);
            reply.claim_epoch = message->epoch + 1;
        }
    }
    send(world, node, CLIENT, &reply);
}

static void on_answer(struct world *world, const struct message *message)
{
    struct call *call = &world->calls[message->slot];
    struct rota_replica claim = {.node = (int64_t)message->claim_node,
                                 .address = addresses[message->claim_node],
                                 .epoch = message->claim_epoch,
                                 .is_serviceable = true};
    if (!call->is_active || call->serial != message->serial)
        return;
    end_try(call, message->number);
    drive(world, (uint32_t)message->slot,
          (struct rota_call_fsm_event){.type = ROTA_CALL_TRY_ENDED,
                                       .number = message->number,
                                       .failure = (enum rota_failure)message->failure,
                                       .is_sent = true,
                                       .claim = message->claim_node ? &claim : NULL});
}

/* --- the world --- */

static void on_watch(struct world *world, uint32_t node, const struct message *message)
{
    uint32_t index = node - FIRST_DIRECTORY;
    if (world->is_watched[index] && message->number < world->numbers[index])
        return; /* a stream that was given up is not opened again */
    world->is_watched[index] = true;
    world->numbers[index] = message->number;
    world->sent[index] = 0;
    rota_space_feed_resume(&world->feeds[index], message->history, message->version,
                           &world->followers[index]);
}

static void on_message(void *data, uint32_t node, uint32_t from, struct rota_str bytes)
{
    struct world *world = data;
    struct message message;
    (void)from;
    memcpy(&message, bytes.data, sizeof message);
    switch ((enum message_type)message.type) {
    case WATCH:
        on_watch(world, node, &message);
        break;
    case UPDATE:
        on_update(world, &message);
        break;
    case TRY:
        on_try(world, node, &message);
        break;
    case ANSWER:
        on_answer(world, &message);
        break;
    }
}

/* A new process: it owns nothing, and has a history of its own. */
static void on_start(void *data, uint32_t node)
{
    struct world *world = data;
    if (node == CLIENT) {
        poll_connections(world);
    } else if (node < FIRST_SERVER) {
        uint32_t index = node - FIRST_DIRECTORY;
        rota_space_feed_deinit(&world->feeds[index]);
        rota_space_feed_init(&world->feeds[index], rota_random_next(rota_sim_random(world->sim)));
        world->is_watched[index] = false;
    } else {
        memset(world->known[node - FIRST_SERVER], 0, sizeof world->known[0]);
        memset(world->is_held[node - FIRST_SERVER], 0, sizeof world->is_held[0]);
    }
}

static void on_timer(void *data, uint32_t node, uint32_t timer)
{
    struct world *world = data;
    (void)node;
    if (timer == TIMER_POLL) {
        poll_connections(world);
    } else if (timer == TIMER_WATCH) {
        step_watch(world, (struct rota_watch_event){.type = ROTA_WATCH_TICK});
    } else {
        struct call *call = &world->calls[timer];
        if (call->is_active)
            drive(world, timer, (struct rota_call_fsm_event){.type = ROTA_CALL_TICK});
        if (call->is_active && call->asked && clock_of(world) >= call->until)
            answer(world, timer);
        set_timer(world, timer);
    }
}

/* In the end a directory is down, one is cut off, and a server is down. */
static void end_faults(void *data, uint64_t n)
{
    struct world *world = data;
    (void)n;
    rota_sim_crash(world->sim, FIRST_DIRECTORY);
    world->cut_until[1] = END_AT;
    world->cut_until[2] = 0;
    rota_sim_crash(world->sim, N_NODES - 1);
}

static void make_client(struct world *world, uint64_t seed)
{
    rota_time begin = 0;
    rota_random_init(&world->random, seed);
    rota_space_table_init(&world->table, seed);
    rota_watch_fsm_init(&world->watch, world->plant == PLANT_ONE_DIRECTORY ? 1 : N_DIRECTORIES,
                        seed % N_DIRECTORIES);
    if (rota_balancer_new(&(struct rota_balancer_options){.seed = seed}, &world->balancer, NULL))
        abort();
    rota_blacklist_init(&world->blacklist, seed, 2 * ROTA_SEC, 0);
    struct rota_budget_options budget = ROTA_BUDGET_RETRIES;
    rota_budget_init(&world->budget, begin, &budget);
    world->shared = (struct rota_call_shared){.balancer = world->balancer,
                                              .random = &world->random,
                                              .blacklist = &world->blacklist,
                                              .budget = &world->budget,
                                              .stats = &world->stats};
}

static void end_world(struct world *world)
{
    for (size_t i = 0; i < N_CALLS; i++)
        rota_call_fsm_deinit(&world->calls[i].fsm, 0);
    for (size_t i = 0; i < N_DIRECTORIES; i++)
        rota_space_feed_deinit(&world->feeds[i]);
    rota_space_table_deinit(&world->table);
    rota_balancer_free(world->balancer);
    rota_blacklist_deinit(&world->blacklist);
}

static void run(struct sim_case *run)
{
    static struct world world;
    const struct rota_sim_chaos_options faults = {.quiet_at = QUIET_AT,
                                                  .crash_every = 8 * ROTA_SEC,
                                                  .crash_for = 2 * ROTA_SEC,
                                                  .pause_every = 8 * ROTA_SEC,
                                                  .pause_for = ROTA_SEC,
                                                  .split_every = 15 * ROTA_SEC,
                                                  .split_for = 2 * ROTA_SEC};
    struct rota_sim_chaos_options directories = faults, servers = faults;
    world = (struct world){.plant = (enum plant)run->plant};
    make_client(&world, run->seed);
    world.sim = sim_case_new(run, (struct rota_sim_options){
                                      .n_nodes = N_NODES,
                                      .link = {.delay_min = ROTA_MSEC,
                                               .delay_mean = 2 * ROTA_MSEC,
                                               .delay_max = 50 * ROTA_MSEC},
                                      .skew_max = ROTA_SEC,
                                      .drift_max_ppm = 500,
                                      .on_start = on_start,
                                      .on_message = on_message,
                                      .on_timer = on_timer,
                                      .data = &world,
                                  });
    directories.first_node = FIRST_DIRECTORY;
    directories.n_nodes = N_DIRECTORIES;
    servers.first_node = FIRST_SERVER;
    rota_sim_add_check(world.sim, ask_violation, &world);
    rota_sim_call(world.sim, 0, move_shards, &world, 0);
    for (uint64_t i = 0; i < N_DIRECTORIES; i++)
        rota_sim_call(world.sim, 0, look_at_store, &world, i);
    for (uint64_t i = 0; i < N_CALLS; i++)
        rota_sim_call(world.sim, ROTA_SEC, begin_call, &world, i);
    rota_sim_call(world.sim, 10 * ROTA_SEC, start_over, &world, 0);
    rota_sim_call(world.sim, QUIET_AT + ROTA_SEC, end_faults, &world, 0);
    rota_sim_chaos_start(&world.directory_chaos, world.sim, &directories);
    rota_sim_chaos_start(&world.server_chaos, world.sim, &servers);
    if (rota_sim_run(world.sim, END_AT)) {
        if (world.n_late_ok < 100)
            rota_sim_fail(world.sim, "few calls go well long after all faults");
        if (world.n_redirects == 0 || world.n_waits == 0)
            rota_sim_fail(world.sim, "nothing is redirected or waits: the run shows nothing");
    }
    end_world(&world);
    sim_case_end(run, world.sim);
}

int main(int argc, char **argv)
{
    return sim_main(
        argc, argv,
        &(struct sim_suite){
            .name = "sim_service",
            .n_seeds = 300,
            .kept = {5091, 5594, 935293004654, 935293010527, 935293011491, 401774702639},
            .n_plant_seeds = 50,
            .plants = plants,
            .n_plants = N_PLANTS - 1,
            .run = run,
        });
}
