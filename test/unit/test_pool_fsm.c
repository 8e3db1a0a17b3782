#include "core/call/shards/pool_fsm.h"
#include "vectors.h"

#include <stdio.h>
#include <stdlib.h>

/* The rows P1 to P8 are the behaviours of the system that Rota is compatible with. */

static const struct rota_str ADDRESS = {"a:1", 3}, ELSEWHERE = {"b:2", 3};

enum { LOG_MAX = 256 };

struct world {
    struct rota_pool_fsm *pools;
    uint64_t opens[LOG_MAX], closes[LOG_MAX], tells[LOG_MAX], told[LOG_MAX];
    size_t n_opens, n_closes, n_tells;
    int64_t node;     /* of the last action */
    char address[16]; /* of the last open */
};

static void setup(struct world *world, struct rota_pool_options options)
{
    *world = (struct world){0};
    assert_int_equal(rota_pool_fsm_new(&options, &world->pools, NULL), ROTA_OK);
}

static void pump(struct world *world)
{
    struct rota_pool_action action;
    while (rota_pool_fsm_next(world->pools, &action)) {
        world->node = action.node;
        switch (action.type) {
        case ROTA_POOL_OPEN:
            world->opens[world->n_opens++ % LOG_MAX] = action.connection;
            snprintf(world->address, sizeof world->address, "%.*s", ROTA_STR_ARGS(action.address));
            break;
        case ROTA_POOL_CLOSE:
            world->closes[world->n_closes++ % LOG_MAX] = action.connection;
            break;
        case ROTA_POOL_TELL:
            world->tells[world->n_tells % LOG_MAX] = action.waiter;
            world->told[world->n_tells++ % LOG_MAX] = action.connection;
            break;
        }
    }
}

static void teardown(struct world *world)
{
    rota_pool_fsm_free(world->pools);
}

static uint64_t get(struct world *world, rota_time now, int64_t node, struct rota_str address,
                    uint64_t waiter)
{
    uint64_t connection = 99;
    struct rota_error error;
    if (rota_pool_fsm_get(world->pools, now, node, address, waiter, &connection, &error))
        fail_msg("%s", error.text);
    pump(world);
    return connection;
}

/* All opens from number `from` on of the log succeed. */
static void open_from(struct world *world, rota_time now, size_t from)
{
    for (size_t i = from; i < world->n_opens; i++)
        rota_pool_fsm_opened(world->pools, now, world->opens[i]);
    pump(world);
}

/* A pool with nothing on it, last used at `now`. */
static void make_ready(struct world *world, rota_time now, int64_t node)
{
    size_t from = world->n_opens;
    assert_int_equal(get(world, now, node, ADDRESS, 1), 0);
    open_from(world, now, from);
    rota_pool_fsm_release(world->pools, now, world->told[world->n_tells - 1]);
}

static bool leads(void *data, int64_t node)
{
    return data && *(int64_t *)data == node;
}

static void p1_nothing_is_opened_before_it_is_needed(void **state)
{
    struct world world;
    (void)state;
    setup(&world, (struct rota_pool_options){0});
    pump(&world);
    assert_int_equal(world.n_opens, 0);
    assert_int_equal(rota_pool_fsm_state(world.pools, 1), ROTA_POOL_NONE);
    assert_int_equal(rota_pool_fsm_deadline(world.pools), ROTA_TIME_NEVER);
    teardown(&world);
}

static void p2_first_get_opens_exactly_the_configured_number(void **state)
{
    static const int64_t sizes[][2] = {{0, 10}, {1, 1}, {3, 3}, {-5, 1}, {1000, 64}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct world world;
        setup(&world, (struct rota_pool_options){.size = sizes[i][0]});
        assert_int_equal(get(&world, 0, 7, ADDRESS, 1), 0);
        assert_int_equal(get(&world, 0, 7, ADDRESS, 2), 0);
        assert_int_equal(world.n_opens, sizes[i][1]);
        assert_int_equal(rota_pool_fsm_state(world.pools, 7), ROTA_POOL_OPENING);
        open_from(&world, 0, 0);
        assert_int_equal(world.n_tells, 2);
        assert_true(world.told[0] && world.told[1]);
        assert_int_equal(rota_pool_fsm_state(world.pools, 7), ROTA_POOL_READY);
        teardown(&world);
    }
}

static void pool_opens_whole_or_not_at_all(void **state)
{
    struct world world;
    (void)state;
    setup(&world, (struct rota_pool_options){.size = 3});
    get(&world, 0, 7, ADDRESS, 1);
    get(&world, 0, 7, ADDRESS, 2);
    rota_pool_fsm_opened(world.pools, 0, world.opens[0]);
    rota_pool_fsm_failed(world.pools, 0, world.opens[1]);
    pump(&world);
    assert_int_equal(world.n_tells, 2);
    assert_true(world.told[0] == 0 && world.told[1] == 0);
    assert_int_equal(world.n_closes, 2); /* the one that stood and the one under way */
    assert_int_equal(rota_pool_fsm_n_connections(world.pools), 0);
    assert_int_equal(rota_pool_fsm_state(world.pools, 7), ROTA_POOL_NEW);
    rota_pool_fsm_opened(world.pools, 0, world.opens[2]); /* too late: no news */
    assert_int_equal(get(&world, 0, 7, ADDRESS, 3), 0);
    assert_int_equal(world.n_opens, 6);
    open_from(&world, 0, 3);
    assert_true(world.told[2] > 0);
    teardown(&world);
}

static void p3_p4_closing_all_leaves_nothing(void **state)
{
    struct world world;
    (void)state;
    setup(&world, (struct rota_pool_options){.size = 2});
    for (int64_t node = 0; node < 50; node++)
        make_ready(&world, 0, node);
    get(&world, 0, 1, ADDRESS, 1);
    get(&world, 0, 1, ELSEWHERE, 2); /* the first call's connection drains, this one waits */
    rota_pool_fsm_close_all(world.pools);
    pump(&world);
    assert_int_equal(rota_pool_fsm_n_pools(world.pools), 0);
    assert_int_equal(rota_pool_fsm_n_connections(world.pools), 0);
    assert_int_equal(world.n_opens, world.n_closes);
    assert_int_equal(world.tells[world.n_tells - 1], 2);
    assert_int_equal(world.told[world.n_tells - 1], 0);
    teardown(&world);
}

/* The purge of a pool that was used at 0 and again at `again`. */
static bool is_purged(rota_time again, rota_time now, int64_t leader)
{
    struct world world;
    setup(&world, (struct rota_pool_options){.size = 2});
    make_ready(&world, 0, 7);
    if (again > 0)
        rota_pool_fsm_release(world.pools, again, get(&world, again, 7, ADDRESS, 1));
    for (rota_time at; (at = rota_pool_fsm_deadline(world.pools)) <= now;)
        rota_pool_fsm_step(world.pools, at, leads, &leader);
    bool is_gone = rota_pool_fsm_state(world.pools, 7) == ROTA_POOL_NONE;
    pump(&world);
    assert_int_equal(rota_pool_fsm_n_pools(world.pools), !is_gone);
    assert_int_equal(rota_pool_fsm_n_connections(world.pools) == 0, is_gone);
    assert_int_equal(world.n_opens - world.n_closes, rota_pool_fsm_n_connections(world.pools));
    teardown(&world);
    return is_gone;
}

static void p5_p6_p7_p8_idle_pool_of_no_leader_is_purged(void **state)
{
    (void)state;
    assert_false(is_purged(0, 59 * ROTA_MIN, 0));             /* P5: not idle for long enough */
    assert_false(is_purged(20 * ROTA_MIN, 70 * ROTA_MIN, 0)); /* P6: a get counts */
    assert_true(is_purged(20 * ROTA_MIN, 90 * ROTA_MIN, 0));
    assert_false(is_purged(0, 500 * ROTA_MIN, 7)); /* P7: still a leader */
    assert_true(is_purged(0, 70 * ROTA_MIN, 0));   /* P8 */
}

static void pool_with_a_call_on_it_is_not_purged(void **state)
{
    struct world world;
    (void)state;
    setup(&world, (struct rota_pool_options){.size = 1});
    make_ready(&world, 0, 7);
    uint64_t connection = get(&world, 0, 7, ADDRESS, 1);
    rota_pool_fsm_step(world.pools, 100 * ROTA_MIN, leads, NULL);
    pump(&world);
    assert_int_equal(world.n_closes, 0);
    rota_pool_fsm_release(world.pools, 100 * ROTA_MIN, connection);
    rota_pool_fsm_step(world.pools, 170 * ROTA_MIN, leads, NULL);
    assert_int_equal(rota_pool_fsm_n_pools(world.pools), 0);
    teardown(&world);
}

static void calls_go_round_the_connections(void **state)
{
    struct world world;
    uint64_t n_on[64] = {0};
    (void)state;
    setup(&world, (struct rota_pool_options){.size = 4});
    make_ready(&world, 0, 7);
    for (int i = 0; i < 40; i++)
        n_on[get(&world, 0, 7, ADDRESS, 1)]++;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(n_on[world.opens[i]], 10);
    teardown(&world);
}

static void pool_grows_with_the_calls_and_shrinks_without(void **state)
{
    struct world world;
    uint64_t connections[100];
    rota_time now = 0;
    (void)state;
    setup(&world, (struct rota_pool_options){.size = 2, .size_max = 5, .grow_at = 10});
    make_ready(&world, 0, 7);
    for (size_t i = 0; i < 100; i++) {
        connections[i] = get(&world, 0, 7, ADDRESS, 1);
        open_from(&world, 0, 2);
        if (i < 20)
            assert_int_equal(rota_pool_fsm_size(world.pools, 7), 2);
    }
    assert_int_equal(rota_pool_fsm_size(world.pools, 7), 5);
    for (int i = 0; i < 3; i++)
        rota_pool_fsm_step(world.pools, now += ROTA_MIN, leads, NULL);
    assert_int_equal(rota_pool_fsm_size(world.pools, 7), 5); /* busy: nothing shrinks */
    for (size_t i = 0; i < 100; i++)
        rota_pool_fsm_release(world.pools, now, connections[i]);
    for (int i = 0; i < 10; i++)
        rota_pool_fsm_step(world.pools, now += ROTA_MIN, leads, NULL);
    assert_int_equal(rota_pool_fsm_size(world.pools, 7), 1);
    pump(&world);
    assert_int_equal(world.n_closes, 4);
    assert_true(get(&world, now, 7, ADDRESS, 1) > 0);
    teardown(&world);
}

static void connection_is_never_closed_under_a_call(void **state)
{
    struct world world;
    (void)state;
    setup(&world, (struct rota_pool_options){.size = 1});
    make_ready(&world, 0, 7);
    uint64_t first = get(&world, 0, 7, ADDRESS, 1);
    uint64_t second = get(&world, 0, 7, ADDRESS, 1);
    assert_int_equal(get(&world, 0, 7, ELSEWHERE, 2), 0);
    assert_int_equal(world.n_closes, 0);
    assert_string_equal(world.address, "b:2");
    rota_pool_fsm_release(world.pools, 0, first);
    pump(&world);
    assert_int_equal(world.n_closes, 0);
    rota_pool_fsm_release(world.pools, 0, second);
    rota_pool_fsm_release(world.pools, 0, second); /* once too often */
    pump(&world);
    assert_int_equal(world.n_closes, 1);
    assert_int_equal(world.closes[0], first);
    teardown(&world);
}

/* The pool that had it has others by now, or none. */
static void connection_that_breaks_under_its_last_calls_is_closed(void **state)
{
    struct world world;
    (void)state;
    setup(&world, (struct rota_pool_options){.size = 1});
    make_ready(&world, 0, 7);
    uint64_t first = get(&world, 0, 7, ADDRESS, 1);
    assert_int_equal(get(&world, 0, 7, ELSEWHERE, 2), 0);
    rota_pool_fsm_failed(world.pools, 0, first);
    pump(&world);
    assert_int_equal(world.n_opens, 2); /* nothing is opened in its place */
    rota_pool_fsm_failed(world.pools, 0, first);
    rota_pool_fsm_release(world.pools, 0, first);
    open_from(&world, 0, 1);
    assert_int_equal(rota_pool_fsm_size(world.pools, 7), 1);
    teardown(&world);
}

static void node_that_returns_at_another_address_is_connected_there(void **state)
{
    struct world world;
    (void)state;
    setup(&world, (struct rota_pool_options){.size = 2});
    make_ready(&world, 0, 7);
    assert_string_equal(world.address, "a:1");
    assert_int_equal(get(&world, 0, 7, ELSEWHERE, 1), 0);
    assert_int_equal(world.n_closes, 2);
    assert_string_equal(world.address, "b:2");
    open_from(&world, 0, 2);
    assert_int_equal(rota_pool_fsm_size(world.pools, 7), 2);
    teardown(&world);
}

static void broken_connection_is_replaced_while_the_others_serve(void **state)
{
    struct world world;
    (void)state;
    setup(&world, (struct rota_pool_options){.size = 2});
    make_ready(&world, 0, 7);
    rota_pool_fsm_failed(world.pools, 0, world.opens[0]);
    pump(&world);
    assert_int_equal(world.n_opens, 3);
    for (int i = 0; i < 4; i++)
        assert_int_equal(get(&world, 0, 7, ADDRESS, 1), world.opens[1]);
    rota_pool_fsm_failed(world.pools, 0, world.opens[2]); /* can't be made: not at once again */
    get(&world, 0, 7, ADDRESS, 1);
    assert_int_equal(world.n_opens, 3);
    get(&world, ROTA_POOL_REDIAL_AFTER, 7, ADDRESS, 1);
    assert_int_equal(world.n_opens, 4);
    rota_pool_fsm_failed(world.pools, 0, world.opens[1]); /* the last that stood */
    pump(&world);
    assert_int_equal(rota_pool_fsm_state(world.pools, 7), ROTA_POOL_NEW);
    assert_int_equal(rota_pool_fsm_n_connections(world.pools), 0);
    teardown(&world);
}

static void warm_pool_is_ready_for_the_first_call(void **state)
{
    struct world world;
    (void)state;
    setup(&world, (struct rota_pool_options){.size = 2});
    assert_int_equal(rota_pool_fsm_warm(world.pools, 0, 7, ADDRESS, NULL), ROTA_OK);
    pump(&world);
    open_from(&world, 0, 0);
    assert_int_equal(world.n_tells, 0);
    assert_true(get(&world, 0, 7, ADDRESS, 1) > 0);
    teardown(&world);
}

static void cancelled_waiter_gets_no_answer_and_holds_nothing(void **state)
{
    struct world world;
    (void)state;
    setup(&world, (struct rota_pool_options){.size = 1});
    get(&world, 0, 7, ADDRESS, 1);
    assert_true(rota_pool_fsm_cancel(world.pools, 1));
    assert_false(rota_pool_fsm_cancel(world.pools, 1));
    get(&world, 0, 7, ADDRESS, 2);
    rota_pool_fsm_opened(world.pools, 0, world.opens[0]);
    assert_true(rota_pool_fsm_cancel(world.pools, 2)); /* chosen for already, not told yet */
    pump(&world);
    assert_int_equal(world.n_tells, 0);
    rota_pool_fsm_step(world.pools, 100 * ROTA_MIN, leads, NULL);
    assert_int_equal(rota_pool_fsm_n_pools(world.pools), 0); /* so no call is left on it */
    teardown(&world);
}

static void bad_input_is_refused_and_bounds_hold(void **state)
{
    struct world world;
    static char big[ROTA_POOL_ADDRESS_MAX + 1];
    uint64_t connection = 5;
    struct rota_error error;
    (void)state;
    setup(&world, (struct rota_pool_options){.size = 1});
    assert_int_equal(
        rota_pool_fsm_get(world.pools, 0, 1, rota_str_of(big, sizeof big), 1, &connection, &error),
        ROTA_ERR_INVALID);
    assert_int_equal(rota_pool_fsm_get(world.pools, 0, 1, rota_str(""), 1, &connection, &error),
                     ROTA_ERR_INVALID);
    assert_int_equal(connection, 5);
    assert_int_equal(rota_pool_fsm_n_pools(world.pools), 0);
    get(&world, 0, 1, ADDRESS, 1);
    assert_int_equal(rota_pool_fsm_get(world.pools, 0, 1, ADDRESS, 1, &connection, &error),
                     ROTA_ERR_INVALID);
    for (uint64_t i = 2; i <= ROTA_POOL_WAITERS_MAX; i++)
        get(&world, 0, 1, ADDRESS, i);
    assert_int_equal(rota_pool_fsm_get(world.pools, 0, 1, ADDRESS, 0, &connection, &error),
                     ROTA_ERR_LIMIT);
    rota_pool_fsm_opened(world.pools, 0, 12345);
    rota_pool_fsm_failed(world.pools, 0, 0);
    rota_pool_fsm_release(world.pools, 0, UINT64_MAX);
    teardown(&world);
}

static void nodes_with_a_pool_are_bounded(void **state)
{
    struct world world;
    uint64_t connection = 5;
    struct rota_error error;
    (void)state;
    setup(&world, (struct rota_pool_options){.size = 1});
    for (int64_t node = 0; node < ROTA_POOL_NODES_MAX; node++)
        get(&world, 0, node, ADDRESS, 1 + (uint64_t)node);
    assert_int_equal(rota_pool_fsm_get(world.pools, 0, ROTA_POOL_NODES_MAX, ADDRESS,
                                       ROTA_POOL_NODES_MAX + 1, &connection, &error),
                     ROTA_ERR_LIMIT);
    assert_int_equal(connection, 5);
    assert_int_equal(rota_pool_fsm_n_pools(world.pools), ROTA_POOL_NODES_MAX);
    teardown(&world);
}

static void connection_that_is_no_longer_needed_is_not_opened(void **state)
{
    struct world world;
    uint64_t connection;
    (void)state;
    setup(&world, (struct rota_pool_options){0});
    assert_int_equal(rota_pool_fsm_get(world.pools, 0, 1, ADDRESS, 1, &connection, NULL), ROTA_OK);
    rota_pool_fsm_close_all(world.pools); /* before the driver looks what there is to do */
    pump(&world);
    assert_int_equal(world.n_opens, 0);
    assert_int_equal(world.n_closes, 0);
    teardown(&world);
}

static void actions_name_their_node(void **state)
{
    struct world world;
    (void)state;
    setup(&world, (struct rota_pool_options){.size = 1});
    get(&world, 0, 7, ADDRESS, 1);
    assert_int_equal(world.node, 7);
    world.node = 0;
    open_from(&world, 0, 0);
    assert_int_equal(world.n_tells, 1);
    assert_int_equal(world.node, 7);
    rota_pool_fsm_close_all(world.pools);
    world.node = 0;
    pump(&world);
    assert_int_equal(world.n_closes, 1);
    assert_int_equal(rota_pool_fsm_deadline(world.pools), ROTA_TIME_NEVER);
    teardown(&world);
    rota_pool_fsm_free(NULL);
}

static void idle_time_begins_with_the_last_release(void **state)
{
    struct world world;
    (void)state;
    for (int i = 0; i < 2; i++) {
        setup(&world, (struct rota_pool_options){
                          .size = 1, .expiry = ROTA_MIN, .purge_every = 1, .shrink_every = 1});
        get(&world, 0, 7, ADDRESS, 1);
        open_from(&world, 0, 0);
        rota_pool_fsm_release(world.pools, 10 * ROTA_MIN, world.told[0]);
        rota_pool_fsm_step(world.pools, 11 * ROTA_MIN + i, leads, NULL);
        assert_int_equal(rota_pool_fsm_state(world.pools, 7), i ? ROTA_POOL_NONE : ROTA_POOL_READY);
        teardown(&world);
    }
}

/* The calls that it carried count no more. */
static void pool_whose_connection_broke_can_be_purged(void **state)
{
    struct world world;
    (void)state;
    setup(&world, (struct rota_pool_options){.size = 2, .expiry = ROTA_MIN, .purge_every = 1});
    get(&world, 0, 7, ADDRESS, 1);
    open_from(&world, 0, 0);
    get(&world, 0, 7, ADDRESS, 2);
    get(&world, 0, 7, ADDRESS, 3);
    rota_pool_fsm_failed(world.pools, 0, world.opens[0]);
    rota_pool_fsm_failed(world.pools, 0, world.opens[1]);
    pump(&world);
    rota_pool_fsm_step(world.pools, ROTA_HOUR, leads, NULL);
    assert_int_equal(rota_pool_fsm_state(world.pools, 7), ROTA_POOL_NONE);
    assert_int_equal(rota_pool_fsm_deadline(world.pools), ROTA_TIME_NEVER);
    teardown(&world);
}

static void connection_with_the_fewest_calls_is_given_up(void **state)
{
    (void)state;
    for (size_t fewest = 0; fewest < 3; fewest++) {
        struct world world;
        uint64_t held[6];
        setup(&world, (struct rota_pool_options){.size = 3, .shrink_every = ROTA_MIN});
        get(&world, 0, 7, ADDRESS, 1);
        open_from(&world, 0, 0);
        held[0] = world.told[0];
        for (size_t i = 1; i < 6; i++) /* two on each */
            held[i] = get(&world, 0, 7, ADDRESS, 2);
        for (size_t i = 0; i < 6; i++)
            if (held[i] == world.opens[fewest])
                rota_pool_fsm_release(world.pools, 0, held[i]);
        rota_pool_fsm_step(world.pools, ROTA_MIN, leads, NULL);
        pump(&world);
        assert_int_equal(world.n_closes, 1);
        assert_true(world.closes[0] == world.opens[fewest]);
        teardown(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p1_nothing_is_opened_before_it_is_needed),
        cmocka_unit_test(p2_first_get_opens_exactly_the_configured_number),
        cmocka_unit_test(pool_opens_whole_or_not_at_all),
        cmocka_unit_test(p3_p4_closing_all_leaves_nothing),
        cmocka_unit_test(p5_p6_p7_p8_idle_pool_of_no_leader_is_purged),
        cmocka_unit_test(pool_with_a_call_on_it_is_not_purged),
        cmocka_unit_test(calls_go_round_the_connections),
        cmocka_unit_test(pool_grows_with_the_calls_and_shrinks_without),
        cmocka_unit_test(connection_is_never_closed_under_a_call),
        cmocka_unit_test(connection_that_breaks_under_its_last_calls_is_closed),
        cmocka_unit_test(node_that_returns_at_another_address_is_connected_there),
        cmocka_unit_test(broken_connection_is_replaced_while_the_others_serve),
        cmocka_unit_test(warm_pool_is_ready_for_the_first_call),
        cmocka_unit_test(cancelled_waiter_gets_no_answer_and_holds_nothing),
        cmocka_unit_test(bad_input_is_refused_and_bounds_hold),
        cmocka_unit_test(nodes_with_a_pool_are_bounded),
        cmocka_unit_test(connection_that_is_no_longer_needed_is_not_opened),
        cmocka_unit_test(actions_name_their_node),
        cmocka_unit_test(idle_time_begins_with_the_last_release),
        cmocka_unit_test(pool_whose_connection_broke_can_be_purged),
        cmocka_unit_test(connection_with_the_fewest_calls_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
