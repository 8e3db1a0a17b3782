/* The engines of a space, each held to the same checks; and spaces that change theirs. */
#include "engine_checks.h"

static const struct kind kinds[] = {
    {"static", .can_pin = true},
    {"ring", .can_pin = true, .is_replaced = true},
    {"lease", .is_replaced = true},
    {"group", .is_replaced = true},
};

/* In one life of the nodes, for opening them costs more than the checks. */
static void engine_owns_and_explains(void **state)
{
    world_open(*state, 4 * ROTA_SEC);
    check_one_owner_each();
    check_explain();
    check_stale_epoch_is_refused();
    check_pin_moves_one_shard_only();
    check_dry_run_changes_nothing();
    check_drain_owns_nothing();
    check_stop_is_waited_for();
    world_close();
}

static void engine_stops_in_time(void **state)
{
    world_open(*state, 1 * ROTA_SEC);
    check_one_owner_each();
    check_loss_of_the_store_stops_everything();
    check_dead_node_is_replaced_and_refused();
    world_close();
}

static void space_moves_from_engine_to_engine(void **state)
{
    static const char *const path[] = {"lease", "group", "static", "ring"};
    struct rota_error error;
    (void)state;
    world_open(&kinds[1], 2 * ROTA_SEC);
    check_one_owner_each();
    for (size_t i = 0; i < sizeof path / sizeof *path; i++) {
        struct node *node = &nodes[i % NODES];
        uint64_t before[SHARDS];
        size_t n = node->n_outcomes;
        for (uint32_t shard = 0; shard < SHARDS; shard++)
            before[shard] = truth[shard].epoch;
        if (rota_space_migrate(node->space, rota_str(path[i]), ROTA_MSEC, false, node_on_outcome,
                               node, &error))
            fail_msg("%s", error.text);
        AWAIT(node->n_outcomes == n + 1);
        assert_int_equal(node->outcome.code, ROTA_OK);
        for (size_t k = 0; k < NODES; k++)
            AWAIT(rota_str_is_equal(rota_space_map(nodes[k].space)->engine, rota_str(path[i])) &&
                  rota_space_map(nodes[k].space)->phase == ROTA_SPACE_STABLE);
        AWAIT(all_know_all());
        for (uint32_t shard = 0; i < 3 && shard < SHARDS; shard++)
            assert_true(truth[shard].epoch > before[shard]);
    }
    world_close();
}

/* With an argument only those whose names are like that are run. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        {"static owns and tells why", engine_owns_and_explains, NULL, NULL, (void *)&kinds[0]},
        {"ring owns and tells why", engine_owns_and_explains, NULL, NULL, (void *)&kinds[1]},
        {"lease owns and tells why", engine_owns_and_explains, NULL, NULL, (void *)&kinds[2]},
        {"group owns and tells why", engine_owns_and_explains, NULL, NULL, (void *)&kinds[3]},
        {"static stops in time", engine_stops_in_time, NULL, NULL, (void *)&kinds[0]},
        {"ring stops in time", engine_stops_in_time, NULL, NULL, (void *)&kinds[1]},
        {"lease stops in time", engine_stops_in_time, NULL, NULL, (void *)&kinds[2]},
        {"group stops in time", engine_stops_in_time, NULL, NULL, (void *)&kinds[3]},
        {"ring moves to every engine", space_moves_from_engine_to_engine, NULL, NULL, NULL},
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
