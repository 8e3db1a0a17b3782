#include <rota/experimental/route.h>

#include "ring_vectors.h"

static struct rota_str server(const json_t *ring, const json_t *index)
{
    const json_t *servers = json_object_get(ring, "servers");
    return rota_str(json_string_value(json_array_get(servers, (size_t)json_integer_value(index))));
}

static struct rota_partition partition_of(const json_t *row)
{
    struct rota_partition partition = {
        .namespace_id = vectors_str(row, "namespace_id"),
        .queue = vectors_str(row, "queue"),
        .type = (enum rota_task_type)vectors_int(row, "task_type"),
    };
    return partition;
}

static void check_key(const struct rota_partition *partition, uint32_t batch, struct rota_str text,
                      int64_t index)
{
    struct rota_route_key key;
    assert_int_equal(rota_partition_check(partition, NULL), ROTA_OK);
    rota_partition_route_key(partition, batch, &key);
    assert_true(rota_str_is_equal(rota_str_of(key.text, key.size), text));
    assert_int_equal(key.index, index);
}

static void spread_routing_is_the_originals(void **state)
{
    json_t *root = vectors_load("spread.json");
    const json_t *row;
    size_t i, n_routes = 0;
    (void)state;

    json_array_foreach (json_object_get(root, "rows"), i, row) {
        const json_t *description = vectors_ring(root, vectors_str(row, "ring"));
        struct rota_ring *ring = ring_of_vector(description);
        struct rota_spread spread = {.batch = (uint32_t)vectors_int(row, "batch_size")};
        struct rota_partition partition = partition_of(row);
        const json_t *keys = json_object_get(row, "keys");
        size_t first = (size_t)vectors_int(row, "first_partition");
        size_t n = first + json_array_size(keys);
        uint32_t *all = test_malloc(n * sizeof *all);
        rota_route_all(ring, &partition, spread, n, all);

        for (size_t k = 0; k < json_array_size(keys); k++) {
            partition.id = (int64_t)(first + k);
            check_key(&partition, spread.batch,
                      rota_str(json_string_value(json_array_get(keys, k))),
                      json_integer_value(json_array_get(json_object_get(row, "indexes"), k)));
            uint32_t host = rota_route(ring, &partition, spread);
            assert_true(rota_str_is_equal(
                rota_ring_host(ring, host).address,
                server(description, json_array_get(json_object_get(row, "owners"), k))));
            assert_int_equal(host, all[first + k]);
            n_routes++;
        }
        test_free(all);
        rota_ring_unref(ring);
    }
    assert_true(n_routes >= 15 * 20);
    json_decref(root);
}

static void sticky_and_worker_commands_ignore_the_batch(void **state)
{
    json_t *root = vectors_load("spread.json");
    const json_t *row;
    size_t i;
    (void)state;

    json_array_foreach (json_object_get(root, "other_kinds"), i, row) {
        const json_t *description = vectors_ring(root, vectors_str(row, "ring"));
        struct rota_ring *ring = ring_of_vector(description);
        struct rota_spread spread = {.batch = (uint32_t)vectors_int(row, "batch_size")};
        struct rota_partition partition = partition_of(row);
        bool is_sticky = rota_str_is_equal(vectors_str(row, "kind"), rota_str("sticky"));
        partition.kind = is_sticky ? ROTA_PARTITION_STICKY : ROTA_PARTITION_WORKER_COMMANDS;
        if (is_sticky)
            partition.sticky_name = vectors_str(row, "sticky_name");

        check_key(&partition, spread.batch, vectors_str(row, "key"), vectors_int(row, "index"));
        for (int mode = ROTA_SPREAD_LOOKUP; mode <= ROTA_SPREAD_SLOTS; mode++) {
            spread.mode = (enum rota_spread_mode)mode;
            assert_true(rota_str_is_equal(
                rota_ring_host(ring, rota_route(ring, &partition, spread)).address,
                server(description, json_object_get(row, "owner"))));
        }
        rota_ring_unref(ring);
    }
    assert_true(i >= 30);
    json_decref(root);
}

static void an_empty_ring_has_no_owners(void **state)
{
    struct rota_partition partition = {.queue = rota_str("q")};
    struct rota_ring *ring;
    uint32_t all[20];
    (void)state;
    assert_int_equal(rota_ring_new(NULL, 0, 0, &ring, NULL), ROTA_OK);
    for (int mode = ROTA_SPREAD_LOOKUP; mode <= ROTA_SPREAD_SLOTS; mode++) {
        for (uint32_t batch = 0; batch <= 8; batch += 8) {
            struct rota_spread spread = {(enum rota_spread_mode)mode, batch};
            assert_int_equal(rota_route(ring, &partition, spread), ROTA_RING_NONE);
            rota_route_all(ring, &partition, spread, 20, all);
            for (int i = 0; i < 20; i++)
                assert_int_equal(all[i], ROTA_RING_NONE);
        }
    }
    rota_ring_unref(ring);
}

static void impossible_spreads_are_refused(void **state)
{
    struct rota_error error;
    (void)state;
    for (uint32_t batch = 0; batch <= ROTA_BATCH_MAX; batch++) {
        struct rota_spread good = {ROTA_SPREAD_SLOTS, batch};
        assert_int_equal(rota_spread_check(good, NULL), ROTA_OK);
    }
    struct rota_spread large = {ROTA_SPREAD_LOOKUP, ROTA_BATCH_MAX + 1};
    struct rota_spread strange = {(enum rota_spread_mode)2, 1};
    assert_int_equal(rota_spread_check(large, &error), ROTA_ERR_INVALID);
    assert_string_equal(error.text, "the batch is 513; at most 512 is allowed");
    assert_int_equal(rota_spread_check(strange, &error), ROTA_ERR_INVALID);
    assert_string_equal(error.text, "spread mode 2 is unknown");
}

static void modes_have_names(void **state)
{
    enum rota_spread_mode mode = ROTA_SPREAD_LOOKUP;
    (void)state;
    assert_int_equal(rota_spread_mode_parse(rota_str("slots"), &mode), ROTA_OK);
    assert_int_equal(mode, ROTA_SPREAD_SLOTS);
    assert_int_equal(rota_spread_mode_parse(rota_str("lookup"), &mode), ROTA_OK);
    assert_int_equal(mode, ROTA_SPREAD_LOOKUP);
    assert_int_equal(rota_spread_mode_parse(rota_str("slot"), &mode), ROTA_ERR_INVALID);
    assert_string_equal(rota_spread_mode_name(ROTA_SPREAD_SLOTS), "slots");
    assert_string_equal(rota_spread_mode_name(ROTA_SPREAD_LOOKUP), "lookup");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spread_routing_is_the_originals),
        cmocka_unit_test(sticky_and_worker_commands_ignore_the_batch),
        cmocka_unit_test(an_empty_ring_has_no_owners),
        cmocka_unit_test(impossible_spreads_are_refused),
        cmocka_unit_test(modes_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
