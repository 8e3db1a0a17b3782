#include "view_world.h"

#include <stdio.h>
#include <string.h>

/* --- who there is --- */

bool chance(struct world *world, double probability)
{
    return rota_random_chance(rota_sim_random(world->sim), probability);
}

rota_time clock_of(const struct world *world, uint32_t node)
{
    return rota_sim_mono(world->sim, node);
}

void name_of(const struct world *world, uint32_t node, char name[VIEW_TABLE_NAME_MAX])
{
    uint32_t number = node >= FIRST_HOST ? node - FIRST_HOST : node;
    snprintf(name, VIEW_TABLE_NAME_MAX, "node-%u", world->are_twins ? number / 2 : number);
}

bool has_lost_numbers(const struct world *world)
{
    return world->is_set_back && world->n_failovers > 0;
}

/* --- the resource --- */

void resource_apply(struct world *world, const struct effect *effect)
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

static uint64_t database_ms(const struct world *world)
{
    return (uint64_t)(rota_sim_wall(world->sim, DATABASE) / ROTA_MSEC);
}

static void answer_read(struct world *world, const struct request *request, struct answer *answer)
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

static bool slot_is_free(struct world *world, const struct slot *slot)
{
    char name[VIEW_TABLE_NAME_MAX];
    name_of(world, slot->node, name);
    const struct view_table_row *row = view_table_find(&world->table, name);
    return slot->node == 0 || !row || row->instance != slot->instance;
}

/* What the node holds without serving it, for an answer was lost, is free. Then the first
 * free slot, from a place that differs by node. */
static void answer_claim(struct world *world, uint32_t from, const struct request *request,
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

static void answer_release(struct world *world, uint32_t from, const struct request *request)
{
    struct slot *slot = &world->slots[request->shard];
    if (slot->node == from && slot->epoch == request->epoch)
        slot->node = 0;
}

static void answer_propose(struct world *world, const struct request *request,
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

void database_answer(struct world *world, uint32_t from, struct request *request)
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
