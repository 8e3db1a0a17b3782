#include "core/call/shard_map.h"
#include "vectors.h"

#include <rota/random.h>

static void c21_shuffle_goes_round_and_keeps_everybody(void **state)
{
    struct rota_replica replicas[5] = {
        {.node = 0}, {.node = 1}, {.node = 2}, {.node = 3}, {.node = 4}};
    struct rota_shard_channel channels[6];
    struct rota_shard_map *map, *shuffled;
    struct rota_random random;
    bool is_second[5] = {false};
    (void)state;
    rota_random_init(&random, 5);
    for (size_t n = 0; n <= 5; n++) /* none, one, several */
        channels[n] = (struct rota_shard_channel){rota_str_of(&"abcdef"[n], 1), replicas, n};
    assert_int_equal(rota_shard_map_new(1, channels, 6, &map, NULL), ROTA_OK);
    for (uint64_t turn = 0; turn < 100; turn++) {
        assert_int_equal(rota_shard_map_shuffle(map, turn, &random, &shuffled, NULL), ROTA_OK);
        for (size_t n = 0; n <= 5; n++) {
            const struct rota_replica *order = shuffled->channels[n].replicas;
            uint32_t seen = 0;
            assert_int_equal(shuffled->channels[n].n_replicas, n);
            for (size_t i = 0; i < n; i++)
                seen |= 1u << order[i].node;
            assert_int_equal(seen, (1u << n) - 1);
            if (n > 0)
                assert_int_equal(order[0].node, turn % n);
            if (n == 5 && turn % 5 == 0)
                is_second[order[1].node] = true;
        }
        rota_shard_map_drop(shuffled);
    }
    for (int i = 1; i < 5; i++)
        assert_true(is_second[i]);                          /* the rest is by chance */
    assert_int_equal(map->channels[5].replicas[0].node, 0); /* who shares it sees no change */
    rota_shard_map_drop(map);
}

static void hostile_maps_are_refused(void **state)
{
    struct rota_replica twice[2] = {{.node = 1}, {.node = 1}};
    static struct rota_replica many[ROTA_SHARD_REPLICAS_MAX + 1];
    static struct rota_shard_channel rows[ROTA_SHARD_CHANNELS_MAX + 1];
    struct rota_shard_channel same[2] = {{{"a", 1}, NULL, 0}, {{"a", 1}, NULL, 0}};
    struct rota_shard_channel row = {{"a", 1}, twice, 2};
    struct rota_shard_map *map = NULL;
    struct rota_error error;
    (void)state;
    assert_int_equal(rota_shard_map_new(1, &row, 1, &map, &error), ROTA_ERR_INVALID);
    assert_string_equal(error.text, "shard map: node 1 is there twice in a channel");
    assert_int_equal(rota_shard_map_new(1, same, 2, &map, &error), ROTA_ERR_INVALID);
    row = (struct rota_shard_channel){{"a", 1}, many, ROTA_SHARD_REPLICAS_MAX + 1};
    assert_int_equal(rota_shard_map_new(1, &row, 1, &map, &error), ROTA_ERR_LIMIT);
    assert_int_equal(rota_shard_map_new(1, rows, ROTA_SHARD_CHANNELS_MAX + 1, &map, &error),
                     ROTA_ERR_LIMIT);
    row = (struct rota_shard_channel){{"", 0}, many, 1};
    assert_int_equal(rota_shard_map_new(1, &row, 1, &map, &error), ROTA_ERR_INVALID);
    assert_null(map);
    assert_int_equal(rota_shard_map_new(1, NULL, 0, &map, &error), ROTA_OK);
    rota_shard_map_drop(map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c21_shuffle_goes_round_and_keeps_everybody),
        cmocka_unit_test(hostile_maps_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
