/* What a directory sends of a space: any bytes are updates or none, and what a client makes of them
 * is a map within its bounds. The input is a sequence of replies, each behind its size in two
 * bytes. */
#include "core/call/shards/shard_map.h"
#include "run/call/map_watch.h"
#include "run/call/shards_directory.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_side(const struct rota_space_table_side *side)
{
    assert(side->n_shards <= ROTA_SPACE_SHARDS_MAX && side->nodes.size <= ROTA_SPACE_NODES_MAX);
    assert(side->n_zones <= ROTA_SPACE_TABLE_ZONES_MAX);
    for (size_t i = 0; i < side->n_zones; i++)
        for (uint32_t j = 0; j < side->n_shards; j++)
            assert(side->zones[i].claims[j].owner <= side->nodes.size);
}

/* ... and as the maps of <rota/experimental/shards.h>. */
static void check_shards(const struct rota_space_table *table)
{
    struct rota_arena arena = {0};
    struct rota_shards_map read;
    struct rota_shard_map *map = NULL;
    if (!rota_shards_directory_map(table, &arena, &read, NULL) &&
        !rota_shard_map_new(1, rota_str(""), read.channels, read.n_channels, &map, NULL)) {
        assert(map->n_channels == table->now.n_shards);
        for (size_t i = 0; i < map->n_channels; i++) {
            assert(map->channels[i].n_replicas <= table->now.n_zones);
            assert(rota_shard_map_find(map, map->channels[i].name) == &map->channels[i]);
        }
    }
    rota_shard_map_drop(map);
    rota_arena_deinit(&arena);
}

static void check_table(struct rota_space_table *table)
{
    struct rota_space_table_shard shard;
    check_side(&table->now);
    check_side(&table->next);
    assert(table->is_known == (table->now.n_shards > 0));
    for (uint32_t i = 0; i < 4; i++)
        if (rota_space_table_look(table, 0, i, true, &shard))
            for (size_t j = 0; j < shard.n_replicas; j++)
                assert(shard.replicas[j].address.size > 0);
    if (table->is_known)
        check_shards(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rota_space_table table;
    rota_space_table_init(&table, 1);
    while (size >= 2) {
        size_t n = (size_t)data[0] << 8 | data[1];
        bool is_whole;
        data += 2;
        size -= 2;
        n = n < size ? n : size;
        bool was_known = table.is_known;
        enum rota_code code = rota_map_watch_apply(&table, rota_str_of(data, n), &is_whole, NULL);
        assert(!code ||
               (table.history == 0 && !table.is_in_snapshot && table.is_known == was_known));
        assert(!is_whole || table.is_known);
        check_table(&table);
        data += n;
        size -= n;
    }
    rota_space_table_deinit(&table);
    return 0;
}
