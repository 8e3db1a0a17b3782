/* The life of a node. */
#include "node/rules/node_fsm.h"

#include <rota/experimental/random.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct rota_node_fsm fsm;
static rota_time now;

static int set_up(void **state)
{
    (void)state;
    now = 100 * ROTA_SEC;
    rota_node_fsm_init(&fsm, 30 * ROTA_SEC);
    return 0;
}

static void check(enum rota_node_event event, unsigned actions, enum rota_node_state state)
{
    assert_int_equal(rota_node_fsm_step(&fsm, now, event), actions);
    assert_string_equal(rota_node_fsm_state_name(fsm.state), rota_node_fsm_state_name(state));
}

static void serve(void)
{
    check(ROTA_NODE_OPENED, ROTA_NODE_DO_JOIN, ROTA_NODE_JOINING);
    check(ROTA_NODE_JOINED, ROTA_NODE_DO_SERVE, ROTA_NODE_SERVING);
}

static void node_drains_leaves_and_closes_when_it_is_stopped(void **state)
{
    (void)state;
    serve();
    check(ROTA_NODE_STOP, ROTA_NODE_DO_DRAIN, ROTA_NODE_STOPPING);
    check(ROTA_NODE_IDLE, ROTA_NODE_DO_LEAVE, ROTA_NODE_LEAVING);
    check(ROTA_NODE_LEFT, ROTA_NODE_DO_CLOSE, ROTA_NODE_CLOSING);
    check(ROTA_NODE_CLOSED, ROTA_NODE_DO_END, ROTA_NODE_ENDED);
    assert_false(fsm.has_failed);
}

static void limits_end_phases_that_do_not_end_on_their_own(void **state)
{
    (void)state;
    serve();
    assert_int_equal(rota_node_fsm_deadline(&fsm), ROTA_TIME_NEVER);
    check(ROTA_NODE_STOP, ROTA_NODE_DO_DRAIN, ROTA_NODE_STOPPING);
    assert_int_equal(rota_node_fsm_deadline(&fsm), now + 30 * ROTA_SEC);
    now += 30 * ROTA_SEC - 1;
    check(ROTA_NODE_TICK, 0, ROTA_NODE_STOPPING);
    now += 1;
    check(ROTA_NODE_TICK, ROTA_NODE_DO_LEAVE, ROTA_NODE_LEAVING);
    now = rota_node_fsm_deadline(&fsm);
    check(ROTA_NODE_TICK, ROTA_NODE_DO_CLOSE, ROTA_NODE_CLOSING);
}

static void second_stop_is_immediate(void **state)
{
    (void)state;
    serve();
    check(ROTA_NODE_STOP, ROTA_NODE_DO_DRAIN, ROTA_NODE_STOPPING);
    check(ROTA_NODE_STOP, ROTA_NODE_DO_CLOSE, ROTA_NODE_CLOSING);
    check(ROTA_NODE_STOP, 0, ROTA_NODE_CLOSING);
}

static void node_that_has_not_joined_has_nothing_to_leave(void **state)
{
    (void)state;
    check(ROTA_NODE_STOP, ROTA_NODE_DO_CLOSE, ROTA_NODE_CLOSING);
}

static void node_that_may_be_listed_leaves(void **state)
{
    (void)state;
    check(ROTA_NODE_OPENED, ROTA_NODE_DO_JOIN, ROTA_NODE_JOINING);
    check(ROTA_NODE_STOP, ROTA_NODE_DO_LEAVE, ROTA_NODE_LEAVING);
}

static void drained_node_runs_on_and_may_be_restored(void **state)
{
    (void)state;
    serve();
    check(ROTA_NODE_DRAIN, ROTA_NODE_DO_DRAIN, ROTA_NODE_DRAINING);
    assert_int_equal(rota_node_fsm_deadline(&fsm), ROTA_TIME_NEVER); /* it takes what it takes */
    check(ROTA_NODE_IDLE, 0, ROTA_NODE_DRAINED);
    check(ROTA_NODE_RESTORE, ROTA_NODE_DO_JOIN, ROTA_NODE_JOINING);
    check(ROTA_NODE_JOINED, ROTA_NODE_DO_SERVE, ROTA_NODE_SERVING);
    check(ROTA_NODE_DRAIN, ROTA_NODE_DO_DRAIN, ROTA_NODE_DRAINING);
    check(ROTA_NODE_RESTORE, ROTA_NODE_DO_JOIN, ROTA_NODE_JOINING); /* half way, too */
}

static void draining_node_that_is_stopped_continues_draining(void **state)
{
    (void)state;
    serve();
    check(ROTA_NODE_DRAIN, ROTA_NODE_DO_DRAIN, ROTA_NODE_DRAINING);
    check(ROTA_NODE_STOP, 0, ROTA_NODE_STOPPING);
    check(ROTA_NODE_RESTORE, 0, ROTA_NODE_STOPPING); /* too late */
    check(ROTA_NODE_IDLE, ROTA_NODE_DO_LEAVE, ROTA_NODE_LEAVING);
}

static void failure_closes_at_once(void **state)
{
    (void)state;
    serve();
    check(ROTA_NODE_FAILED, ROTA_NODE_DO_CLOSE, ROTA_NODE_CLOSING);
    check(ROTA_NODE_FAILED, 0, ROTA_NODE_CLOSING);
    assert_true(fsm.has_failed);
}

/* Whatever comes, in whatever order: it ends after a stop, once, and serves only in between. */
static void any_order_of_events_ends(void **state)
{
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 7);
    for (int life = 0; life < 20000; life++) {
        unsigned n_closes = 0, n_ends = 0, n_stops = 0;
        rota_node_fsm_init(&fsm, 30 * ROTA_SEC);
        for (int i = 0; i < 60; i++) {
            enum rota_node_event event =
                (enum rota_node_event)rota_random_below(&random, ROTA_NODE_TICK + 1);
            now += (rota_time)rota_random_below(&random, 20) * ROTA_SEC;
            unsigned actions = rota_node_fsm_step(&fsm, now, event);
            n_stops += event == ROTA_NODE_STOP || event == ROTA_NODE_FAILED;
            n_closes += (actions & ROTA_NODE_DO_CLOSE) != 0;
            n_ends += (actions & ROTA_NODE_DO_END) != 0;
            assert_false(actions & ROTA_NODE_DO_SERVE && n_stops > 0);
            assert_false(fsm.state == ROTA_NODE_SERVING && n_stops > 0);
            assert_false(n_ends > n_closes);
        }
        for (int i = 0; i < 4 && fsm.state != ROTA_NODE_ENDED; i++) {
            n_closes += (rota_node_fsm_step(&fsm, now, ROTA_NODE_STOP) & ROTA_NODE_DO_CLOSE) != 0;
            n_ends += (rota_node_fsm_step(&fsm, now, ROTA_NODE_CLOSED) & ROTA_NODE_DO_END) != 0;
        }
        assert_int_equal(fsm.state, ROTA_NODE_ENDED);
        assert_int_equal(n_closes, 1);
        assert_int_equal(n_ends, 1);
    }
}

/* What each event does in each state: "state actions", empty when it does nothing. */
static void every_event_does_this_in_every_state(void **state)
{
    enum { J = 1, S = 2, D = 4, L = 8, C = 16, E = 32 };
    static const struct {
        enum rota_node_event event;
        struct {
            enum rota_node_state from, to;
            unsigned actions;
        } steps[9];
        size_t n;
    } EVENTS[] = {
        {ROTA_NODE_OPENED, {{ROTA_NODE_STARTING, ROTA_NODE_JOINING, J}}, 1},
        {ROTA_NODE_JOINED, {{ROTA_NODE_JOINING, ROTA_NODE_SERVING, S}}, 1},
        {ROTA_NODE_DRAIN,
         {{ROTA_NODE_JOINING, ROTA_NODE_DRAINED, D}, {ROTA_NODE_SERVING, ROTA_NODE_DRAINING, D}},
         2},
        {ROTA_NODE_RESTORE,
         {{ROTA_NODE_DRAINING, ROTA_NODE_JOINING, J}, {ROTA_NODE_DRAINED, ROTA_NODE_JOINING, J}},
         2},
        {ROTA_NODE_IDLE,
         {{ROTA_NODE_DRAINING, ROTA_NODE_DRAINED, 0}, {ROTA_NODE_STOPPING, ROTA_NODE_LEAVING, L}},
         2},
        {ROTA_NODE_STOP,
         {{ROTA_NODE_STARTING, ROTA_NODE_LEAVING, L},
          {ROTA_NODE_JOINING, ROTA_NODE_LEAVING, L},
          {ROTA_NODE_SERVING, ROTA_NODE_STOPPING, D},
          {ROTA_NODE_DRAINING, ROTA_NODE_STOPPING, 0},
          {ROTA_NODE_DRAINED, ROTA_NODE_LEAVING, L},
          {ROTA_NODE_STOPPING, ROTA_NODE_CLOSING, C},
          {ROTA_NODE_LEAVING, ROTA_NODE_CLOSING, C}},
         7},
        {ROTA_NODE_LEFT, {{ROTA_NODE_LEAVING, ROTA_NODE_CLOSING, C}}, 1},
        {ROTA_NODE_FAILED,
         {{ROTA_NODE_STARTING, ROTA_NODE_CLOSING, C},
          {ROTA_NODE_JOINING, ROTA_NODE_CLOSING, C},
          {ROTA_NODE_SERVING, ROTA_NODE_CLOSING, C},
          {ROTA_NODE_DRAINING, ROTA_NODE_CLOSING, C},
          {ROTA_NODE_DRAINED, ROTA_NODE_CLOSING, C},
          {ROTA_NODE_STOPPING, ROTA_NODE_CLOSING, C},
          {ROTA_NODE_LEAVING, ROTA_NODE_CLOSING, C}},
         7},
        {ROTA_NODE_CLOSED, {{ROTA_NODE_CLOSING, ROTA_NODE_ENDED, E}}, 1},
        {ROTA_NODE_TICK,
         {{ROTA_NODE_STOPPING, ROTA_NODE_LEAVING, L}, {ROTA_NODE_LEAVING, ROTA_NODE_CLOSING, C}},
         2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof EVENTS / sizeof *EVENTS; i++)
        for (unsigned from = 0; from <= ROTA_NODE_ENDED; from++) {
            enum rota_node_state to = (enum rota_node_state)from;
            unsigned actions = 0;
            for (size_t k = 0; k < EVENTS[i].n; k++)
                if (EVENTS[i].steps[k].from == from) {
                    to = EVENTS[i].steps[k].to;
                    actions = EVENTS[i].steps[k].actions;
                }
            fsm = (struct rota_node_fsm){.state = (enum rota_node_state)from,
                                         .drain_limit = 30 * ROTA_SEC,
                                         .until = now,
                                         .has_joined = true};
            check(EVENTS[i].event, actions, to);
            rota_time limit = to == ROTA_NODE_STOPPING  ? 30 * ROTA_SEC
                              : to == ROTA_NODE_LEAVING ? ROTA_NODE_LEAVE_LIMIT
                                                        : ROTA_TIME_NEVER;
            if (to != (enum rota_node_state)from)
                assert_int_equal(rota_node_fsm_deadline(&fsm),
                                 limit == ROTA_TIME_NEVER ? limit : now + limit);
            assert_int_equal(fsm.has_failed, EVENTS[i].event == ROTA_NODE_FAILED);
        }
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(node_drains_leaves_and_closes_when_it_is_stopped),
        TEST(limits_end_phases_that_do_not_end_on_their_own),
        TEST(second_stop_is_immediate),
        TEST(node_that_has_not_joined_has_nothing_to_leave),
        TEST(node_that_may_be_listed_leaves),
        TEST(drained_node_runs_on_and_may_be_restored),
        TEST(draining_node_that_is_stopped_continues_draining),
        TEST(failure_closes_at_once),
        TEST(any_order_of_events_ends),
        TEST(every_event_does_this_in_every_state),
    };
    return cmocka_run_group_tests_name("node_fsm", tests, NULL, NULL);
}
