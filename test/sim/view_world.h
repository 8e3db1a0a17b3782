/* The world of sim_view.c and sim_migrate.c: nodes that own shards by views in one
 * database, the database, and a resource that refuses epochs lower than one it has seen.
 *
 * A node is the machine of core/own/view_fsm.h and a driver; the database is that of
 * test/lib/view_table.h, asked by messages. Beside it there is another engine, for spaces
 * that are on their way to it or from it: a slot per shard in the database, which a node
 * may claim if it is free or its holder has no row. */
#pragma once

#include "core/own/migrate_fsm.h"
#include "core/own/view_fsm.h"
#include "sim/chaos.h"
#include "sim_main.h"
#include "view_table.h"
#include "wire/view_text.h"

enum { DATABASE, RESOURCE, FIRST_HOST, HOSTS_MAX = 6, NODES_MAX = FIRST_HOST + HOSTS_MAX };
enum { SHARDS_MAX = 16, OPEN_MAX = 64, CLAIMS_MAX = 1 << 14, NUMBERS_MAX = 4096 };
enum { TIMER_DEADLINE, TIMER_GIVE_UP, TIMER_EFFECT, TIMER_LATE_STOP };

#define TTL      (3 * ROTA_SEC)
#define QUIET_AT (60 * ROTA_SEC)
#define OWNED_AT (QUIET_AT + 8 * TTL)
#define END_AT   (OWNED_AT + 3 * TTL)
#define HOLD     (TTL * 5 / 4)
#define SKEW     (200 * ROTA_MSEC)

/* --- what goes over the wire --- */

enum request_type {
    REQUEST_JOIN,
    REQUEST_BEAT,
    REQUEST_LEAVE,
    REQUEST_EVICT,
    REQUEST_READ,
    REQUEST_PROPOSE,
    REQUEST_CLAIM, /* of the other engine */
    REQUEST_RELEASE,
};

struct request {
    enum request_type type;
    uint64_t ask;
    uint32_t database_life, host_life; /* the connection: it ends with either of them */
    struct view_table_row row;
    uint64_t former, known, known_hash, number; /* the hash is that of the known view's text */
    uint32_t shard;
    uint64_t epoch; /* of a claim: the floor */
    uint64_t run, ask_of_life;
    size_t text_size;
    char text[VIEW_TABLE_TEXT_MAX];
};

struct answer {
    enum request_type to;
    enum rota_view_event_type type;
    uint64_t ask;
    uint32_t host_life;
    uint64_t number, hash; /* of the view, and of its text */
    uint64_t unix_ms, highest;
    uint32_t shard;
    uint64_t epoch, run;
    size_t n_rows;
    struct view_table_row rows[VIEW_TABLE_ROWS_MAX];
    size_t text_size;
    char text[VIEW_TABLE_TEXT_MAX];
};

struct effect {
    uint32_t shard, node, life;
    uint64_t epoch;
};

/* --- who there is --- */

struct open_ask {
    uint64_t ask;
    enum rota_view_ask_type type;
    rota_time give_up_at;
};

struct host {
    bool is_ready, is_over;
    bool is_draining; /* an operator's word, which is kept over restarts */
    struct rota_view_fsm fsm;
    uint64_t seed;
    struct open_ask open[OPEN_MAX];
    size_t n_open;

    uint64_t serving[SHARDS_MAX]; /* the epoch; 0: not */
    uint64_t late[SHARDS_MAX];    /* a plant: what should have been stopped */
    uint64_t former[SHARDS_MAX];  /* a plant: the first epoch of this life */
    rota_time until;
    uint64_t run; /* of the other engine: its number, 0: it does not run */
    uint64_t n_runs, run_floor, n_claims;
    rota_time claim_at;
};

/* A slot of the other engine. */
struct slot {
    uint32_t node; /* 0: free */
    uint64_t instance, epoch;
};

struct claim {
    uint32_t shard, node, life;
    uint64_t epoch;
};

struct known_view {
    uint64_t number, hash;
};

struct world {
    struct rota_sim *sim;
    int plant;
    uint32_t n_hosts, n_shards;
    bool is_alone, are_twins;
    uint32_t observer; /* a node that takes no part; 0: there is none */
    rota_time give_up_after;
    enum rota_view_engine engine; /* of the first view */
    struct host hosts[NODES_MAX];
    struct rota_sim_chaos host_chaos, database_chaos;

    struct view_table table, replica, earlier;
    struct slot slots[SHARDS_MAX];
    uint64_t last_claim[NODES_MAX];
    bool is_failing_over;
    bool is_set_back; /* the database's clock is behind all numbers */
    uint32_t n_failovers;
    rota_time away_until; /* true time: the database answers nothing before */
    uint64_t number_max;  /* of all views that there were */
    uint64_t lost_max;    /* the same at the last fall back */
    uint64_t n_wishes, n_outcomes;

    struct claim claims[CLAIMS_MAX]; /* all that were ever started */
    size_t n_claims;
    uint64_t started[SHARDS_MAX]; /* the highest epoch that was */
    struct effect applied[SHARDS_MAX];
    struct known_view views[NUMBERS_MAX];
    size_t n_views;

    /* What a simulation does wrong, or besides; NULL: nothing. */
    void (*on_request)(struct world *world, uint32_t node, struct request *request);
    void (*on_answer)(struct world *world, uint32_t node, struct answer *answer);
    void (*on_event)(struct world *world, uint32_t node, struct rota_view_event *event);
    void (*on_made)(struct world *world, uint32_t node);
    void (*on_step)(struct world *world, uint32_t node, const struct rota_view_actions *todo);
    bool keeps_stops, stops_late, has_no_end, skips_fence, has_no_clock, changes_views; /* plants */
};

static inline bool chance(struct world *world, double probability)
{
    return rota_random_chance(rota_sim_random(world->sim), probability);
}

static inline rota_time clock_of(const struct world *world, uint32_t node)
{
    return rota_sim_mono(world->sim, node);
}

/* Twins are two processes with one name, of which one has to stand by. */
static inline void name_of(const struct world *world, uint32_t node, char name[VIEW_TABLE_NAME_MAX])
{
    uint32_t number = node >= FIRST_HOST ? node - FIRST_HOST : node;
    snprintf(name, VIEW_TABLE_NAME_MAX, "node-%u", world->are_twins ? number / 2 : number);
}

/* Those who know nothing of the views that were lost count from a number of before, and no clock
 * tells them better. */
static inline bool has_lost_numbers(const struct world *world)
{
    return world->is_set_back && world->n_failovers > 0;
}

/* --- the resource --- */

static inline void resource_apply(struct world *world, const struct effect *effect)
{
    struct effect *last = &world->applied[effect->shard];
    if (effect->epoch < last->epoch && !world->skips_fence)
        return;
    if (effect->epoch < last->epoch)
        rota_sim_fail(world->sim, "O3: an effect of epoch %llu on shard %u after one of %llu",
                      (unsigned long long)effect->epoch, effect->shard,
                      (unsigned long long)last->epoch);
    if (effect->epoch == last->epoch && !has_lost_numbers(world) &&
        (effect->node != last->node || effect->life != last->life))
        rota_sim_fail(world->sim, "O1: nodes %u and %u both act for shard %u with epoch %llu",
                      last->node, effect->node, effect->shard, (unsigned long long)effect->epoch);
    *last = *effect;
}

/* --- the database --- */

static inline uint64_t database_ms(const struct world *world)
{
    return (uint64_t)(rota_sim_wall(world->sim, DATABASE) / ROTA_MSEC);
}

static inline void answer_read(struct world *world, const struct request *request,
                               struct answer *answer)
{
    const struct view_table *table = &world->table;
    answer->type = ROTA_VIEW_SIGHT;
    answer->number = table->number;
    answer->hash = view_table_hash(table);
    answer->unix_ms = database_ms(world);
    answer->n_rows = table->n_rows;
    memcpy(answer->rows, table->rows, table->n_rows * sizeof *table->rows);
    for (uint32_t shard = 0; shard < world->n_shards; shard++)
        if (world->slots[shard].epoch > answer->highest)
            answer->highest = world->slots[shard].epoch;
    if (view_table_has(table, request->known, request->known_hash))
        return;
    answer->text_size = table->text_size;
    memcpy(answer->text, table->text, table->text_size);
}

static inline bool slot_is_free(struct world *world, const struct slot *slot)
{
    char name[VIEW_TABLE_NAME_MAX];
    name_of(world, slot->node, name);
    const struct view_table_row *row = view_table_find(&world->table, name);
    return slot->node == 0 || !row || row->instance != slot->instance;
}

/* What the node holds without serving it, for an answer was lost, is free. Then the first
 * free slot, from a place that differs by node. */
static inline void answer_claim(struct world *world, uint32_t from, const struct request *request,
                                struct answer *answer)
{
    uint64_t ms = world->has_no_clock ? 0 : database_ms(world);
    answer->shard = SHARDS_MAX;
    answer->run = request->run;
    if (request->ask_of_life <= world->last_claim[from])
        return; /* overtaken by a later one */
    world->last_claim[from] = request->ask_of_life;
    for (uint32_t shard = 0; shard < world->n_shards; shard++)
        if (world->slots[shard].node == from && (request->known >> shard & 1) == 0)
            world->slots[shard].node = 0;
    for (uint32_t i = 0; i < world->n_shards; i++) {
        uint32_t shard = (from * 7 + i) % world->n_shards;
        struct slot *slot = &world->slots[shard];
        if (!slot_is_free(world, slot))
            continue;
        uint64_t epoch = (slot->epoch > request->epoch ? slot->epoch : request->epoch) + 1;
        *slot = (struct slot){from, request->row.instance, epoch > ms ? epoch : ms};
        answer->shard = shard;
        answer->epoch = slot->epoch;
        return;
    }
}

static inline void answer_release(struct world *world, uint32_t from, const struct request *request)
{
    struct slot *slot = &world->slots[request->shard];
    if (slot->node == from && slot->epoch == request->epoch)
        slot->node = 0;
}

static inline void answer_propose(struct world *world, const struct request *request,
                                  struct answer *answer)
{
    struct view_table before = world->table;
    bool is_taken =
        view_table_propose(&world->table, request->known, request->known_hash, request->number,
                           rota_str_of(request->text, request->text_size));
    answer->type = is_taken ? ROTA_VIEW_PROPOSED : ROTA_VIEW_REFUSED;
    if (is_taken)
        world->earlier = before;
    if (world->table.number > world->number_max)
        world->number_max = world->table.number;
}

static inline void database_answer(struct world *world, uint32_t from, struct request *request)
{
    static struct answer answer;
    struct view_table *table = &world->table;
    if (rota_sim_now(world->sim) < world->away_until)
        return;
    memset(&answer, 0, offsetof(struct answer, text));
    answer.to = request->type;
    answer.ask = request->ask;
    answer.host_life = request->host_life;
    request->row.last_ping = rota_sim_wall(world->sim, DATABASE);
    if (world->on_request)
        world->on_request(world, from, request);
    switch (request->type) {
    case REQUEST_JOIN:
        answer.type = view_table_join(table, &request->row, request->former) ? ROTA_VIEW_JOINED
                                                                             : ROTA_VIEW_TAKEN;
        break;
    case REQUEST_BEAT:
        answer.type = view_table_beat(table, &request->row) ? ROTA_VIEW_BEATEN : ROTA_VIEW_GONE;
        break;
    case REQUEST_LEAVE:
        view_table_leave(table, request->row.name, request->row.instance);
        answer.type = ROTA_VIEW_LEFT;
        break;
    case REQUEST_EVICT:
        if (view_table_evict(table, request->row.name, request->row.instance, request->row.pings))
            rota_sim_note(world->sim, DATABASE, "evicts %s", request->row.name);
        answer.type = ROTA_VIEW_EVICTED;
        break;
    case REQUEST_READ:
        answer_read(world, request, &answer);
        break;
    case REQUEST_PROPOSE:
        answer_propose(world, request, &answer);
        break;
    case REQUEST_CLAIM:
        answer_claim(world, from, request, &answer);
        break;
    case REQUEST_RELEASE:
        answer_release(world, from, request);
        return;
    }
    if (world->on_answer)
        world->on_answer(world, from, &answer);
    rota_sim_send(world->sim, DATABASE, from,
                  rota_str_of(&answer, offsetof(struct answer, text) + answer.text_size));
}
