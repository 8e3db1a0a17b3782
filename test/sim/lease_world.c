#include "lease_world.h"

#include <string.h>

#define HOLD         (TTL * 5 / 4)
#define FAILOVER_MIN ROTA_SEC

const struct sim_plant plants[N_PLANTS - 1] = {
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

bool chance(struct world *world, double probability)
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

void database_answer(struct world *world, uint32_t from, struct request request)
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

void database_start(struct world *world)
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

void replicate(void *data, uint64_t number)
{
    struct world *world = data;
    rota_time gap = rota_sim_exponential(rota_sim_random(world->sim), TTL);
    world->replica = world->table;
    rota_sim_call(world->sim, rota_sim_now(world->sim) + gap, replicate, world, number);
}

void start_node(void *data, uint64_t node)
{
    struct world *world = data;
    rota_sim_start(world->sim, (uint32_t)node);
}

void fail_over(void *data, uint64_t number)
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

void resource_apply(struct world *world, const struct effect *effect)
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
