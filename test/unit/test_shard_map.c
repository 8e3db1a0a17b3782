#include "core/call/shards/shard_map.h"
#include "vectors.h"

#include <rota/experimental/random.h>
#include <stdio.h>

static void c21_shuffle_goes_round_and_keeps_all_replicas(void **state)
{
    struct rota_replica replicas[5] = {
        {.node = 0}, {.node = 1}, {.node = 2}, {.node = 3}, {.node = 4}};
    struct rota_shard_channel channels[6];
    struct rota_shard_map *map, *shuffled;
    struct rota_random random;
    bool is_second[5] = {false};
    (void)state;
    rota_random_init(&random, 5);
    for (size_t i = 0; i <= 5; i++) /* several, one, none */
        channels[i] = (struct rota_shard_channel){rota_str_of(&"abcdef"[i], 1), replicas, 5 - i};
    assert_int_equal(rota_shard_map_new(1, rota_str("books"), channels, 6, &map, NULL), ROTA_OK);
    for (uint64_t turn = 0; turn < 400; turn++) {
        assert_int_equal(rota_shard_map_shuffle(map, turn, &random, &shuffled, NULL), ROTA_OK);
        assert_true(rota_str_is_equal(shuffled->name, rota_str("books")));
        for (size_t n = 0; n <= 5; n++) {
            const struct rota_replica *order = shuffled->channels[5 - n].replicas;
            uint32_t seen = 0;
            assert_int_equal(shuffled->channels[5 - n].n_replicas, n);
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
    assert_int_equal(map->channels[0].replicas[0].node, 0); /* who shares it sees no change */
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
    assert_int_equal(rota_shard_map_new(1, rota_str(""), &row, 1, &map, &error), ROTA_ERR_INVALID);
    assert_string_equal(error.text, "shard map: duplicate node 1 in a channel");
    assert_int_equal(rota_shard_map_new(1, rota_str(""), same, 2, &map, &error), ROTA_ERR_INVALID);
    row = (struct rota_shard_channel){{"a", 1}, many, ROTA_SHARD_REPLICAS_MAX + 1};
    assert_int_equal(rota_shard_map_new(1, rota_str(""), &row, 1, &map, &error), ROTA_ERR_LIMIT);
    assert_int_equal(
        rota_shard_map_new(1, rota_str(""), rows, ROTA_SHARD_CHANNELS_MAX + 1, &map, &error),
        ROTA_ERR_LIMIT);
    row = (struct rota_shard_channel){{"", 0}, many, 1};
    assert_int_equal(rota_shard_map_new(1, rota_str(""), &row, 1, &map, &error), ROTA_ERR_INVALID);
    assert_null(map);
    assert_int_equal(rota_shard_map_new(1, rota_str(""), NULL, 0, &map, &error), ROTA_OK);
    rota_shard_map_drop(map);
}

static void names_of_a_map_are_bounded(void **state)
{
    static char bytes[ROTA_SHARD_NAME_MAX + 1];
    struct rota_replica replica = {.node = 1};
    struct rota_shard_channel row = {.replicas = &replica, .n_replicas = 1};
    struct rota_shard_map *map;
    struct rota_error error;
    struct rota_str longest = rota_str_of(bytes, ROTA_SHARD_NAME_MAX);
    struct rota_str longer = rota_str_of(bytes, ROTA_SHARD_NAME_MAX + 1);
    (void)state;
    memset(bytes, 'x', sizeof bytes);
    row.name = replica.address = longest;
    assert_int_equal(rota_shard_map_new(1, longest, &row, 1, &map, &error), ROTA_OK);
    assert_true(rota_str_is_equal(map->channels[0].replicas[0].address, longest));
    assert_true(rota_str_is_equal(map->channels[0].name, longest));
    assert_true(rota_str_is_equal(map->name, longest));
    rota_shard_map_drop(map);
    assert_int_equal(rota_shard_map_new(1, longer, &row, 1, &map, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "the collection's name"));
    row.name = longer;
    assert_int_equal(rota_shard_map_new(1, longest, &row, 1, &map, &error), ROTA_ERR_INVALID);
    row.name = longest;
    replica.address = longer;
    assert_int_equal(rota_shard_map_new(1, longest, &row, 1, &map, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "an address has"));
}

static void map_at_its_bounds_is_taken(void **state)
{
    static struct rota_replica many[ROTA_SHARD_REPLICAS_MAX];
    static struct rota_shard_channel rows[ROTA_SHARD_CHANNELS_MAX];
    static char names[ROTA_SHARD_CHANNELS_MAX][8];
    struct rota_shard_map *map;
    (void)state;
    for (int i = 0; i < ROTA_SHARD_REPLICAS_MAX; i++)
        many[i].node = i;
    for (int i = 0; i < ROTA_SHARD_CHANNELS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "%d", i % 1000000);
        rows[i].name = rota_str(names[i]);
    }
    rows[0].replicas = many;
    rows[0].n_replicas = ROTA_SHARD_REPLICAS_MAX;
    assert_int_equal(rota_shard_map_new(1, rota_str(""), rows, ROTA_SHARD_CHANNELS_MAX, &map, NULL),
                     ROTA_OK);
    assert_int_equal(map->n_channels, ROTA_SHARD_CHANNELS_MAX);
    rota_shard_map_drop(map);
}

/* Nodes 1, 2 and 3 under the epochs 10, 20 and 30. A node that is refused by names who has it. */
static void claim_replaces_the_node_that_refused(void **state)
{
    static const struct {
        int64_t refused_by, claimed_by;
        uint64_t epoch;
        int64_t nodes[5]; /* after it; 0 ends them */
        enum rota_code code;
    } rows[] = {
        {2, 4, 21, {1, 4, 3}, ROTA_OK}, {2, 4, 20, {0}, ROTA_ERR_INVALID},
        {2, 3, 30, {1, 3}, ROTA_OK},    {2, 3, 29, {0}, ROTA_ERR_INVALID},
        {2, 2, 21, {1, 2, 3}, ROTA_OK}, {9, 4, 1, {1, 2, 3, 4}, ROTA_OK},
        {9, 1, 11, {1, 2, 3}, ROTA_OK}, {1, 2, 20, {2, 3}, ROTA_OK},
    };
    struct rota_replica replicas[] = {
        {1, {"a:1", 3}, 10, true}, {2, {"a:2", 3}, 20, true}, {3, {"a:3", 3}, 30, true}};
    struct rota_shard_channel channels[] = {{{"a", 1}, replicas, 1}, {{"b", 1}, replicas, 3}};
    struct rota_shard_map *map, *applied;
    (void)state;
    assert_int_equal(rota_shard_map_new(1, rota_str("books"), channels, 2, &map, NULL), ROTA_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rota_replica claim = {rows[i].claimed_by, {"new", 3}, rows[i].epoch, true};
        assert_int_equal(
            rota_shard_map_apply(map, rota_str("b"), rows[i].refused_by, &claim, &applied, NULL),
            rows[i].code);
        if (rows[i].code)
            continue;
        const struct rota_shard_channel *changed = &applied->channels[1];
        size_t n = 0;
        for (; rows[i].nodes[n]; n++) {
            const struct rota_replica *replica = &changed->replicas[n];
            bool is_new = replica->node == rows[i].claimed_by;
            assert_int_equal(replica->node, rows[i].nodes[n]);
            assert_int_equal(replica->epoch, is_new ? rows[i].epoch : 10 * (uint64_t)replica->node);
            assert_int_equal(rota_str_is_equal(replica->address, rota_str("new")), is_new);
        }
        assert_int_equal(changed->n_replicas, n);
        assert_int_equal(applied->channels[0].n_replicas, 1); /* as it was */
        assert_int_equal(applied->collection, 1);
        assert_true(rota_str_is_equal(applied->name, rota_str("books")));
        rota_shard_map_drop(applied);
    }
    struct rota_replica claim = {4, {"new", 3}, 99, true};
    assert_int_equal(rota_shard_map_apply(map, rota_str("c"), 1, &claim, &applied, NULL),
                     ROTA_ERR_NOT_FOUND);
    rota_shard_map_drop(map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c21_shuffle_goes_round_and_keeps_all_replicas),
        cmocka_unit_test(hostile_maps_are_refused),
        cmocka_unit_test(names_of_a_map_are_bounded),
        cmocka_unit_test(map_at_its_bounds_is_taken),
        cmocka_unit_test(claim_replaces_the_node_that_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
