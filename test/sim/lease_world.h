/* The world of sim_lease.c but for its hosts: how it is built, what can be done wrong
 * in it, its database and its resource. */
#pragma once

#include "core/own/lease_fsm.h"
#include "lease_table.h"
#include "sim/chaos.h"
#include "sim_main.h"

enum { DATABASE, RESOURCE, FIRST_HOST, HOSTS_MAX = 7, NODES_MAX = FIRST_HOST + HOSTS_MAX };
enum { SHARDS_MAX = 6, OPEN_MAX = 64 };
enum { TIMER_DEADLINE, TIMER_GIVE_UP, TIMER_EFFECT };

#define TTL          (3 * ROTA_SEC)
#define GRID         (TTL / 12)
#define QUIET_AT     (60 * ROTA_SEC)
#define OWNED_AT     (QUIET_AT + 6 * TTL)
#define END_AT       (OWNED_AT + 4 * TTL)
#define FAILOVER_MAX (TTL * 11 / 10) /* from a holder's death to the next one's start */
#define SHARES_AFTER (TTL * 3 / 2)   /* from a death to the others' larger shares */
#define DRIFT_EVEN   200             /* ppm: clocks that run as evenly as real ones */
#define HOLD         (TTL * 5 / 4)
#define FAILOVER_MIN ROTA_SEC
#define SKEW         (200 * ROTA_MSEC)

enum kind {
    KIND_STORM,      /* all but stale fail-overs */
    KIND_GRID,       /* nothing takes time, all happens at whole steps; no guard is needed */
    KIND_STALE,      /* stale fail-overs without a hold, by clocks that are about right */
    KIND_STALE_HOLD, /* with one, by clocks that are not; hosts are told what was lost */
    N_KINDS,
};

enum plant {
    PLANT_NONE,
    PLANT_ARRIVAL,
    PLANT_LESS_EQUAL,
    PLANT_PING_NO_EPOCH,
    PLANT_PING_BY_HOST,
    PLANT_PING_ALL,
    PLANT_UNKNOWN,
    PLANT_WALL,
    PLANT_NO_WATCH,
    PLANT_WATCH_FROM_ASK,
    PLANT_NO_FLOOR,
    PLANT_NO_HOLD,
    PLANT_NO_GUARD,
    PLANT_TIMERS,
    PLANT_ALONE,
    PLANT_RELEASE,
    PLANT_NO_FENCE,
    PLANT_NO_STRAYS,
    PLANT_RARE_LOOKS,
    PLANT_SHARE_BLIND,
    PLANT_SHARE_STRICT,
    PLANT_NO_HEIRS,
    N_PLANTS,
};

static const struct sim_plant plants[N_PLANTS - 1] = {
    {"arrival", "a grant is counted from when its answer came"},
    {"less-equal", "the end of a grant is compared with <= instead of <"},
    {"ping-no-epoch", "a ping asks for the instance, but not for the epoch"},
    {"ping-by-host", "a ping asks for the host's name, not for instance and epoch"},
    {"ping-all", "pings are never alone, and when one is confirmed all are taken to be"},
    {"unknown", "a ping with unknown outcome is taken as success"},
    {"wall-clock", "holders go by the wall clock"},
    {"no-watch", "a row is dead when the database's clock says so"},
    {"watch-from-ask", "a row stands still since the list was asked for"},
    {"no-floor", "an epoch is not raised above those that were seen"},
    {"no-hold", "claims are granted at once after a stale fail-over"},
    {"no-guard", "clocks are taken to run evenly"},
    {"timers", "a shard is served until a timer says otherwise"},
    {"alone", "a host says that it is alone with its name, and is not"},
    {"release", "a release does not name the epoch"},
    {"no-fence", "the resource takes effects of any epoch"},
    {"no-strays", "what a claim without an answer took is forgotten"},
    {"rare-looks", "who could hold more looks every third of a ttl"},
    {"share-blind", "who has its share does not look until that grows"},
    {"share-strict", "who has its share takes nothing of the dead until that grows"},
    {"no-heirs", "who takes what the dead leave counts it as lost only until the next look"},
};

enum request_type { REQUEST_CLAIM, REQUEST_LIST, REQUEST_PING, REQUEST_RELEASE };

/* Those that go out together, and what became of each. */
struct ping {
    uint64_t ask;
    uint32_t shard;
    uint64_t epoch;
    enum rota_lease_event_type outcome;
};

struct request {
    enum request_type type;
    uint64_t ask;
    uint32_t database_life, host_life; /* the connection: it ends with either of them */
    uint32_t shard;
    uint64_t epoch;
    struct lease_table_claim claim; /* host and instance are set for all */
    size_t n_pings;
    struct ping pings[SHARDS_MAX];
};

struct answer {
    enum rota_lease_event_type type;
    uint64_t ask;
    uint32_t host_life;
    uint32_t shard;
    uint64_t epoch;
    size_t n_pings;
    struct ping pings[SHARDS_MAX];
    size_t n_rows;
    struct rota_lease_row rows[LEASE_TABLE_SHARDS_MAX];
};

struct effect {
    uint32_t shard, node, life;
    uint64_t epoch;
};

struct open_ask {
    uint64_t ask;
    enum rota_lease_action_type type;
    rota_time give_up_at;
};

struct host {
    bool is_ready, is_over; /* it waits for its end, after DONE or a loss */
    uint32_t name;
    bool is_alone;
    uint32_t n_wanted;
    uint32_t n_told; /* of the fail-overs */
    uint64_t instance;
    struct rota_lease_fsm fsm;
    struct open_ask open[OPEN_MAX];
    size_t n_open;
};

struct world {
    struct rota_sim *sim;
    enum plant plant;
    enum kind kind;
    bool aborts;    /* a loss ends the process */
    bool is_shared; /* hosts want all shards, and each is told its share */
    bool is_even;   /* clocks run evenly: fail-overs are in time */
    bool is_ragged; /* who dies in peace has not pinged all of its shards at the same time */
    rota_time give_up_after;
    uint32_t n_hosts, n_shards;
    struct host hosts[NODES_MAX];
    struct rota_sim_chaos host_chaos, database_chaos;

    struct lease_table table, replica;
    bool is_failing_over;
    uint32_t n_failovers;
    rota_time stale_until;        /* without a hold O4 is not promised before */
    uint64_t granted[SHARDS_MAX]; /* the highest epoch of all times */
    uint64_t lost[SHARDS_MAX];    /* the same at the last fail-over */
    uint32_t victim;              /* the host that dies in peace; 0: none has */
    rota_time died_at;
    bool is_orphan[SHARDS_MAX];        /* what it held */
    struct effect started[SHARDS_MAX]; /* with the highest epoch */
    struct effect applied[SHARDS_MAX]; /* the last */
};

static bool chance(struct world *world, double probability)
{
    return rota_random_chance(rota_sim_random(world->sim), probability);
}

/* --- the database --- */

/* What a broken statement would match. */
static void sabotage(struct world *world, struct request *request)
{
    const struct lease_table_row *row = &world->table.rows[request->shard];
    struct lease_table_claim *claim = &request->claim;
    bool is_same = row->instance == claim->instance;
    if (request->type == REQUEST_PING && world->plant == PLANT_PING_BY_HOST)
        is_same = row->instance != 0 && row->host == claim->host;
    if (is_same && ((request->type == REQUEST_PING && world->plant == PLANT_PING_NO_EPOCH) ||
                    (request->type == REQUEST_PING && world->plant == PLANT_PING_BY_HOST) ||
                    (request->type == REQUEST_RELEASE && world->plant == PLANT_RELEASE))) {
        claim->instance = row->instance;
        request->epoch = row->epoch;
    }
    if (request->type == REQUEST_CLAIM && world->plant == PLANT_NO_FLOOR)
        claim->floor = 0;
    if (request->type == REQUEST_CLAIM && world->plant == PLANT_NO_WATCH) {
        claim->n_dead = world->n_shards;
        for (uint32_t i = 0; i < world->n_shards; i++)
            claim->dead[i] = (struct rota_lease_dead){.shard = i,
                                                      .epoch = world->table.rows[i].epoch,
                                                      .pings = world->table.rows[i].pings};
    }
}

static void note_grant(struct world *world, uint32_t shard, uint64_t epoch)
{
    if (epoch <= world->granted[shard])
        rota_sim_fail(world->sim, "O2: shard %u is granted with epoch %llu after %llu", shard,
                      (unsigned long long)epoch, (unsigned long long)world->granted[shard]);
    world->granted[shard] = epoch;
}

static void answer_claim(struct world *world, rota_time now, const struct request *request,
                         struct answer *answer)
{
    answer->type = ROTA_LEASE_NONE;
    if (!lease_table_claim(&world->table, now, &request->claim, &answer->shard, &answer->epoch))
        return;
    answer->type = ROTA_LEASE_CLAIMED;
    note_grant(world, answer->shard, answer->epoch);
}

/* Whom the table confirms is whom it granted to, or there are two owners. */
static void answer_ping(struct world *world, rota_time now, struct request request,
                        struct ping *ping)
{
    uint64_t asked = request.epoch = ping->epoch;
    request.shard = ping->shard;
    sabotage(world, &request);
    ping->epoch = world->table.rows[ping->shard].epoch;
    ping->outcome = ROTA_LEASE_TAKEN;
    if (!lease_table_ping(&world->table, now, ping->shard, request.claim.instance, request.epoch))
        return;
    ping->outcome = ROTA_LEASE_PINGED;
    if (ping->epoch != asked)
        rota_sim_fail(world->sim, "O1: epoch %llu of shard %u is confirmed, but %llu is granted",
                      (unsigned long long)asked, ping->shard, (unsigned long long)ping->epoch);
}

static void answer_pings(struct world *world, rota_time now, const struct request *request,
                         struct answer *answer)
{
    answer->type = ROTA_LEASE_PINGED;
    answer->n_pings = request->n_pings;
    memcpy(answer->pings, request->pings, request->n_pings * sizeof *request->pings);
    for (size_t i = 0; i < answer->n_pings; i++)
        answer_ping(world, now, *request, &answer->pings[i]);
}

static void database_answer(struct world *world, uint32_t from, struct request request)
{
    struct lease_table *table = &world->table;
    rota_time now = rota_sim_wall(world->sim, DATABASE);
    struct answer answer = {.ask = request.ask, .host_life = request.host_life};

    if (request.type != REQUEST_PING)
        sabotage(world, &request);
    switch (request.type) {
    case REQUEST_CLAIM:
        answer_claim(world, now, &request, &answer);
        break;
    case REQUEST_LIST:
        answer.type = ROTA_LEASE_LISTED;
        answer.n_rows = lease_table_list(table, request.claim.host, answer.rows);
        break;
    case REQUEST_PING:
        answer_pings(world, now, &request, &answer);
        break;
    case REQUEST_RELEASE:
        lease_table_release(table, now, request.shard, request.claim.instance, request.epoch);
        answer.type = ROTA_LEASE_RELEASED;
        break;
    }
    size_t size = offsetof(struct answer, rows) + answer.n_rows * sizeof answer.rows[0];
    rota_sim_send(world->sim, DATABASE, from, rota_str_of(&answer, size));
}

/* The replica takes over as it is. */
static void database_start(struct world *world)
{
    if (!world->is_failing_over)
        return;
    struct rota_sim *sim = world->sim;
    struct rota_random *random = rota_sim_random(sim);
    bool is_right = world->kind == KIND_STALE;
    rota_time off = rota_random_range(random, is_right ? -SKEW : -2 * ROTA_HOUR, SKEW);

    rota_sim_set_wall(sim, DATABASE, rota_sim_true_wall(sim) + off);
    world->is_failing_over = false;
    world->table = world->replica;
    memcpy(world->lost, world->granted, sizeof world->lost);
    world->n_failovers++;
    if (world->kind == KIND_STALE)
        world->stale_until = rota_sim_now(sim) + HOLD;
    else if (world->plant != PLANT_NO_HOLD)
        world->table.hold_until = rota_sim_wall(sim, DATABASE) + HOLD;
    rota_sim_note(sim, DATABASE, "is the replica now");
}

static void replicate(void *data, uint64_t number)
{
    struct world *world = data;
    rota_time gap = rota_sim_exponential(rota_sim_random(world->sim), TTL);
    world->replica = world->table;
    rota_sim_call(world->sim, rota_sim_now(world->sim) + gap, replicate, world, number);
}

static void start_node(void *data, uint64_t node)
{
    struct world *world = data;
    rota_sim_start(world->sim, (uint32_t)node);
}

static void fail_over(void *data, uint64_t number)
{
    struct world *world = data;
    struct rota_random *random = rota_sim_random(world->sim);
    rota_time now = rota_sim_now(world->sim);
    rota_time back_at = now + FAILOVER_MIN + rota_sim_exponential(random, ROTA_SEC);
    rota_time next = back_at + rota_sim_exponential(random, 12 * ROTA_SEC);

    if (back_at >= QUIET_AT)
        return;
    world->is_failing_over = true;
    rota_sim_crash(world->sim, DATABASE);
    rota_sim_call(world->sim, back_at, start_node, world, DATABASE);
    rota_sim_call(world->sim, next, fail_over, world, number + 1);
}

/* --- the resource --- */

static void resource_apply(struct world *world, const struct effect *effect)
{
    struct effect *last = &world->applied[effect->shard];
    if (effect->epoch < last->epoch && world->plant != PLANT_NO_FENCE)
        return;
    if (effect->epoch < last->epoch)
        rota_sim_fail(world->sim, "O3: an effect of epoch %llu on shard %u after one of %llu",
                      (unsigned long long)effect->epoch, effect->shard,
                      (unsigned long long)last->epoch);
    if (effect->epoch == last->epoch && (effect->node != last->node || effect->life != last->life))
        rota_sim_fail(world->sim, "O1: nodes %u and %u both act for shard %u with epoch %llu",
                      last->node, effect->node, effect->shard, (unsigned long long)effect->epoch);
    *last = *effect;
}
