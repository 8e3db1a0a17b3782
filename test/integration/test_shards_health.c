#include "shards_world.h"

#include <stdio.h>
#include <stdlib.h>

/* How often the node was asked how it is, connections' first questions included. */
static uint64_t n_checks(const struct world *world, int64_t node)
{
    return rota_server_counts(world->nodes[node].server).calls_total - world->nodes[node].n_calls;
}

static bool is_available(const struct world *world, int64_t node)
{
    struct rota_shards_view view;
    return !rota_shards_look_at(world->shards, node, &view) || !view.has_balance ||
           view.balance.is_available;
}

/* The checks have given the node up. */
static bool is_dropped(const struct world *world, int64_t node)
{
    char none[64], *text = rota_shards_metrics(world->shards);
    assert_non_null(text);
    snprintf(none, sizeof none, "rota_health_dropped_total{node=\"%d\"} 0\n", (int)node);
    bool is_dropped = !strstr(text, none);
    free(text);
    return is_dropped;
}

static void on_map(void *data, const struct rota_shards_map *map, struct rota_str text)
{
    (void)map, (void)text;
    *(bool *)data = true;
}

/* Connections to all nodes stand. */
static void world_open_warm(struct world *world, struct rota_shards_options options)
{
    bool is_seen = false;
    struct rota_shards_query query = {.name = {.collection = rota_str("books")},
                                      .is_warmed = true,
                                      .on_map = on_map,
                                      .data = &is_seen};
    world_open_with(world, options);
    assert_int_equal(rota_shards_look(world->shards, &query, NULL), ROTA_OK);
    for (int64_t node = 1; node <= NODES; node++)
        RUN_UNTIL(is_seen && n_checks(world, node) >= WORLD_CONNECTIONS);
}

static struct rota_shards_request preferring(struct world *world, int64_t node)
{
    struct rota_shards_request what = request(world, ROTA_SHARDS_NAMED);
    what.has_preferred = true;
    what.preferred = node;
    what.hedge_after = -1; /* nobody else is */
    return what;
}

static void node_that_answers_calls_gets_no_health_check(void **state)
{
    struct world world;
    (void)state;
    world_open_warm(&world, (struct rota_shards_options){.health_interval = 100 * ROTA_MSEC});
    uint64_t before = n_checks(&world, 1), silent = n_checks(&world, 3);
    while (n_checks(&world, 3) < silent + 8) {
        execute(&world, preferring(&world, 1));
        assert_int_equal(world.by[0], 1);
    }
    /* None, but for the pauses of a busy machine; else as many as the other. */
    assert_in_range(n_checks(&world, 1) - before, 0, 4);

    before = n_checks(&world, 1);
    RUN_UNTIL(n_checks(&world, 1) == before + 3); /* it is unresponsive now, too */
    world_close(&world);
}

static void node_that_is_well_again_is_called_again(void **state)
{
    struct world world;
    (void)state;
    world_open_warm(&world, (struct rota_shards_options){.health_interval = 10 * ROTA_MSEC});
    rota_health_set(world.nodes[1].health, "", false, NULL);
    RUN_UNTIL(is_dropped(&world, 1));
    for (int i = 0; i < 10; i++) {
        execute(&world, request(&world, ROTA_SHARDS_NAMED));
        assert_int_equal(world.by[0], 2);
    }
    rota_health_set(world.nodes[1].health, "", true, NULL);
    RUN_UNTIL(is_available(&world, 1)); /* nobody has called it */
    do
        execute(&world, request(&world, ROTA_SHARDS_NAMED));
    while (world.by[0] != 1);
    world_close(&world);
}

static struct rota_shards_view look_at(const struct world *world, int64_t node)
{
    struct rota_shards_view view;
    assert_true(rota_shards_look_at(world->shards, node, &view));
    return view;
}

static void problem_of_a_node_is_shown_until_it_is_well(void **state)
{
    struct world world;
    (void)state;
    world_open_warm(&world, (struct rota_shards_options){.health_interval = 10 * ROTA_MSEC});
    RUN_UNTIL(look_at(&world, 1).n_connections == WORLD_CONNECTIONS);
    rota_health_set(world.nodes[1].health, "", false, NULL);
    RUN_UNTIL(is_dropped(&world, 1));
    assert_string_equal(look_at(&world, 1).problem,
                        "its health service reports that it is not serving");
    rota_health_set(world.nodes[1].health, "", true, NULL);
    RUN_UNTIL(is_available(&world, 1));
    assert_string_equal(look_at(&world, 1).problem, "");
    assert_true(look_at(&world, 1).failed_at != ROTA_TIME_MIN);

    node_close(&world.nodes[1]); /* nobody calls it: the checks alone notice */
    world.nodes[1].server = NULL;
    RUN_UNTIL(look_at(&world, 1).health == ROTA_HEALTH_DROPPED);
    struct rota_shards_view view = look_at(&world, 1);
    assert_non_null(strstr(view.problem, view.address));
    assert_int_equal(view.n_connections, 0);
    assert_int_equal(look_at(&world, 2).n_connections, WORLD_CONNECTIONS);
    char *text = rota_shards_metrics(world.shards);
    assert_non_null(strstr(text, "rota_pool_connections{node=\"1\"} 0\n"));
    assert_non_null(strstr(text, "rota_pool_connections_all 4\n"));
    free(text);
    world_close(&world);
}

static void failed_checks_count_as_set(void **state)
{
    struct world world;
    (void)state;
    world_open_warm(&world, (struct rota_shards_options){.health_interval = 10 * ROTA_MSEC,
                                                         .health_unavailable = 1,
                                                         .health_dropped = 2});
    rota_health_set(world.nodes[1].health, "", false, NULL);
    RUN_UNTIL(look_at(&world, 1).n_failed_checks > 0);
    assert_int_equal(look_at(&world, 1).health, ROTA_HEALTH_UNAVAILABLE);
    RUN_UNTIL(look_at(&world, 1).n_failed_checks > 1);
    assert_int_equal(look_at(&world, 1).health, ROTA_HEALTH_DROPPED);
    world_close(&world);
}

/* Nodes that have too much to do fail their health checks first. */
static void nodes_that_all_fail_their_checks_are_still_called(void **state)
{
    (void)state;
    for (int policy = ROTA_BALANCER_ROTA; policy <= ROTA_BALANCER_RANDOM; policy++) {
        struct world world;
        world_open_warm(&world,
                        (struct rota_shards_options){.health_interval = 10 * ROTA_MSEC,
                                                     .policy = (enum rota_balancer_policy)policy});
        for (int64_t node = 1; node <= NODES; node++)
            rota_health_set(world.nodes[node].health, "", false, NULL);
        for (int64_t node = 1; node <= NODES; node++)
            RUN_UNTIL(!is_available(&world, node));
        execute(&world, request(&world, ROTA_SHARDS_ALL));
        assert_int_equal(world.result.status, ROTA_STATUS_OK);
        world_close(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_that_answers_calls_gets_no_health_check),
        cmocka_unit_test(node_that_is_well_again_is_called_again),
        cmocka_unit_test(problem_of_a_node_is_shown_until_it_is_well),
        cmocka_unit_test(failed_checks_count_as_set),
        cmocka_unit_test(nodes_that_all_fail_their_checks_are_still_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
