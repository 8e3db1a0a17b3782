#include "core/call/service/space_table.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct learned {
    uint32_t shard;
    uint64_t epoch;
    rota_time until;
    size_t size;
    char address[];
};

/* --- sides --- */

static void side_deinit(struct rota_space_table_side *side)
{
    for (size_t i = 0; i < side->nodes.size; i++)
        free(side->nodes.items[i]);
    for (size_t i = 0; i < side->n_zones; i++) {
        free(side->zones[i].name);
        free(side->zones[i].claims);
    }
    rota_vector_deinit(&side->nodes);
    *side = (struct rota_space_table_side){0};
}

void rota_space_table_init(struct rota_space_table *table, uint64_t seed)
{
    *table = (struct rota_space_table){0};
    rota_map_init(&table->learned, seed);
}

void rota_space_table_deinit(struct rota_space_table *table)
{
    side_deinit(&table->now);
    side_deinit(&table->next);
    rota_map_deinit_values(&table->learned);
}

static struct rota_space_table_side *side_of(struct rota_space_table *table)
{
    return table->is_in_snapshot ? &table->next : &table->now;
}

/* --- updates --- */

static enum rota_code reject(struct rota_error *error, const char *what)
{
    return rota_error_set(error, ROTA_ERR_INVALID, "the directory sent %s", what);
}

enum rota_code rota_space_table_begin(struct rota_space_table *table,
                                      const struct rota_space_table_head *head,
                                      struct rota_error *error)
{
    if (head->n_shards == 0 || head->n_shards > ROTA_SPACE_SHARDS_MAX)
        return reject(error, "a space without shards, or with too many");
    if (head->history == 0 || head->version == 0)
        return reject(error, "an update without a version");
    if (head->is_snapshot) {
        side_deinit(&table->next);
        table->is_in_snapshot = true;
        table->next.n_shards = (uint32_t)head->n_shards;
        return ROTA_OK;
    }
    if (!table->is_in_snapshot && head->history != table->history)
        return reject(error, "changes of another history");
    if (side_of(table)->n_shards != head->n_shards)
        return reject(error, "another number of shards without a snapshot");
    return ROTA_OK;
}

enum rota_code rota_space_table_node(struct rota_space_table *table, uint64_t number,
                                     struct rota_str address, struct rota_error *error)
{
    struct rota_space_table_side *side = side_of(table);
    if (number >= ROTA_SPACE_NODES_MAX || number > side->nodes.size)
        return reject(error, "nodes that are not in order");
    if (address.size == 0 || address.size > ROTA_SHARD_NAME_MAX ||
        memchr(address.data, '\0', address.size))
        return reject(error, "an invalid address of a node");
    char *copy = rota_text_copy(address);
    if (!copy)
        return rota_error_no_memory(error, "for the map of a space");
    if (number == side->nodes.size) {
        if (!rota_vector_push(&side->nodes, copy)) {
            free(copy);
            return rota_error_no_memory(error, "for the map of a space");
        }
        return ROTA_OK;
    }
    bool is_same = strcmp(side->nodes.items[number], copy) == 0;
    free(copy);
    return is_same ? ROTA_OK : reject(error, "another address for a node");
}

enum rota_code rota_space_table_zone(struct rota_space_table *table, struct rota_str name,
                                     size_t *zone, struct rota_error *error)
{
    struct rota_space_table_side *side = side_of(table);
    for (*zone = 0; *zone < side->n_zones; ++*zone)
        if (rota_str_is_equal(rota_str(side->zones[*zone].name), name))
            return ROTA_OK;
    if (side->n_zones == ROTA_SPACE_TABLE_ZONES_MAX || name.size > ROTA_SHARD_NAME_MAX ||
        (name.size > 0 && memchr(name.data, '\0', name.size)))
        return reject(error, "too many zones, or an invalid zone name");
    struct rota_space_table_zone made = {
        .name = rota_text_copy(name),
        .claims = calloc(side->n_shards, sizeof *made.claims),
    };
    if (!made.name || !made.claims) {
        free(made.name);
        free(made.claims);
        return rota_error_no_memory(error, "for the map of a space");
    }
    side->zones[side->n_zones++] = made;
    return ROTA_OK;
}

enum rota_code rota_space_table_claim(struct rota_space_table *table, size_t zone, uint32_t shard,
                                      const struct rota_space_table_claim *claim,
                                      struct rota_error *error)
{
    struct rota_space_table_side *side = side_of(table);
    if (zone >= side->n_zones || shard >= side->n_shards)
        return reject(error, "a claim on a shard that is not in the space");
    if (claim->owner > side->nodes.size)
        return reject(error, "a claim of a node that it did not send");
    side->zones[zone].claims[shard] = *claim;
    return ROTA_OK;
}

enum rota_code rota_space_table_end(struct rota_space_table *table,
                                    const struct rota_space_table_head *head,
                                    struct rota_error *error)
{
    (void)error;
    if (head->is_whole && table->is_in_snapshot) {
        side_deinit(&table->now);
        table->now = table->next;
        table->next = (struct rota_space_table_side){0};
        table->is_in_snapshot = false;
        table->is_known = true;
    }
    if (table->is_in_snapshot)
        return ROTA_OK;
    if (head->is_whole) {
        table->history = head->history;
        table->version = head->version;
        snprintf(table->engine, sizeof table->engine, "%.*s", ROTA_STR_ARGS(head->engine));
    }
    table->n_updates++;
    return ROTA_OK;
}

void rota_space_table_pause(struct rota_space_table *table)
{
    side_deinit(&table->next);
    table->is_in_snapshot = false;
}

void rota_space_table_abort(struct rota_space_table *table)
{
    rota_space_table_pause(table);
    table->history = table->version = 0;
}

/* --- learned claims --- */

static uint64_t known_epoch(const struct rota_space_table *table, uint32_t shard)
{
    uint64_t epoch = 0;
    for (size_t i = 0; i < table->now.n_zones; i++)
        if (table->now.zones[i].claims[shard].epoch > epoch)
            epoch = table->now.zones[i].claims[shard].epoch;
    return epoch;
}

static void forget_learned(struct rota_space_table *table, uint32_t shard)
{
    free(rota_map_remove(&table->learned, rota_str_of(&shard, sizeof shard)));
}

/* The learned claim if it still counts. */
static const struct learned *find_learned(struct rota_space_table *table, rota_time now,
                                          uint32_t shard)
{
    if (table->learned.size == 0)
        return NULL;
    const struct learned *found = rota_map_get(&table->learned, rota_str_of(&shard, sizeof shard));
    if (!found)
        return NULL;
    if (now < found->until && found->epoch > known_epoch(table, shard))
        return found;
    forget_learned(table, shard);
    return NULL;
}

bool rota_space_table_learn(struct rota_space_table *table, rota_time now, uint32_t shard,
                            const struct rota_replica *claim)
{
    if (!table->is_known || shard >= table->now.n_shards || claim->address.size == 0 ||
        claim->address.size > ROTA_SHARD_NAME_MAX || table->now.n_zones > 1)
        return false;
    const struct learned *before = find_learned(table, now, shard);
    if (claim->epoch <= known_epoch(table, shard) || (before && claim->epoch <= before->epoch))
        return false;
    if (!before && table->learned.size >= ROTA_SPACE_TABLE_LEARNED_MAX)
        return false;
    struct learned *made = malloc(sizeof *made + claim->address.size);
    if (!made)
        return false;
    *made = (struct learned){.shard = shard,
                             .epoch = claim->epoch,
                             .until = rota_time_add(now, ROTA_SPACE_TABLE_LEARNED_FOR),
                             .size = claim->address.size};
    memcpy(made->address, claim->address.data, claim->address.size);
    forget_learned(table, shard);
    if (rota_map_put(&table->learned, rota_str_of(&made->shard, sizeof made->shard), made))
        return true;
    free(made);
    return false;
}

/* --- looking --- */

bool rota_space_table_look(struct rota_space_table *table, rota_time now, uint32_t shard,
                           bool with_learned, struct rota_space_table_shard *result)
{
    const struct rota_space_table_side *side = &table->now;
    *result = (struct rota_space_table_shard){0};
    if (!table->is_known || shard >= side->n_shards)
        return false;
    const struct learned *learned = with_learned ? find_learned(table, now, shard) : NULL;
    if (learned) {
        result->replicas[result->n_replicas++] = (struct rota_space_table_replica){
            .address = rota_str_of(learned->address, learned->size),
            .zone = rota_str(""),
            .epoch = learned->epoch,
            .is_learned = true};
        return true;
    }
    for (size_t i = 0; i < side->n_zones; i++) {
        const struct rota_space_table_claim *claim = &side->zones[i].claims[shard];
        result->is_moving |= claim->owner > 0 && claim->is_moving;
        if (claim->owner == 0 || claim->is_moving)
            continue;
        result->replicas[result->n_replicas++] = (struct rota_space_table_replica){
            .address = rota_str(side->nodes.items[claim->owner - 1]),
            .zone = rota_str(side->zones[i].name),
            .epoch = claim->epoch};
    }
    return true;
}
