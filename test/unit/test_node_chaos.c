/* Whom chaos strikes, and when. */
#include "demo/node_chaos.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { N_NODES = 3 };

static struct rota_node_chaos chaos;
static rota_time now;

static int set_up(void **state)
{
    (void)state;
    now = 100 * ROTA_SEC;
    rota_node_chaos_init(&chaos, N_NODES, 7, now);
    return 0;
}

/* Step at the deadline. */
static struct rota_node_chaos_todo step(uint32_t n_well)
{
    rota_time at = rota_node_chaos_deadline(&chaos);
    if (at != ROTA_TIME_NEVER && at > now)
        now = at;
    return rota_node_chaos_step(&chaos, now, n_well);
}

static bool is_strike(enum rota_node_chaos_act act)
{
    return act == ROTA_NODE_CHAOS_KILL || act == ROTA_NODE_CHAOS_STOP;
}

static void a_struck_node_returns_before_the_next_strike(void **state)
{
    size_t n_struck[N_NODES] = {0}, n_acts[ROTA_NODE_CHAOS_CONTINUE + 1] = {0};
    (void)state;
    for (int i = 0; i < 300; i++) {
        rota_time begun_at = now;
        struct rota_node_chaos_todo struck = step(N_NODES);
        assert_true(is_strike(struck.act));
        assert_true(struck.node < N_NODES);
        assert_true(now - begun_at >= ROTA_NODE_CHAOS_CALM_MIN);
        assert_int_equal(rota_node_chaos_step(&chaos, now, N_NODES - 1).act,
                         ROTA_NODE_CHAOS_NOTHING);
        begun_at = now;
        struct rota_node_chaos_todo back = step(N_NODES - 1);
        assert_int_equal(back.act, struck.act == ROTA_NODE_CHAOS_KILL ? ROTA_NODE_CHAOS_START
                                                                      : ROTA_NODE_CHAOS_CONTINUE);
        assert_int_equal(back.node, struck.node);
        assert_in_range(now - begun_at, ROTA_NODE_CHAOS_DOWN_MIN, ROTA_NODE_CHAOS_DOWN_MAX);

        assert_int_equal(rota_node_chaos_deadline(&chaos), ROTA_TIME_NEVER);
        now += ROTA_HOUR; /* it takes its time */
        assert_int_equal(step(N_NODES - 1).act, ROTA_NODE_CHAOS_NOTHING);
        assert_int_equal(step(N_NODES).act, ROTA_NODE_CHAOS_NOTHING);
        n_struck[struck.node]++;
        n_acts[struck.act]++;
    }
    for (int i = 0; i < N_NODES; i++)
        assert_true(n_struck[i] > 50);
    assert_true(n_acts[ROTA_NODE_CHAOS_KILL] > 50 && n_acts[ROTA_NODE_CHAOS_STOP] > 50);
}

static void no_node_is_struck_while_another_is_down(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(step(N_NODES - 1).act, ROTA_NODE_CHAOS_NOTHING);
    assert_true(is_strike(step(N_NODES).act));
}

static void the_end_brings_a_stopped_node_back_at_once(void **state)
{
    (void)state;
    struct rota_node_chaos_todo struck = step(N_NODES);
    rota_node_chaos_end(&chaos);
    assert_true(rota_node_chaos_deadline(&chaos) <= now);
    struct rota_node_chaos_todo back = rota_node_chaos_step(&chaos, now, N_NODES - 1);
    assert_false(is_strike(back.act) || back.act == ROTA_NODE_CHAOS_NOTHING);
    assert_int_equal(back.node, struck.node);
    assert_int_equal(step(N_NODES).act, ROTA_NODE_CHAOS_NOTHING);
    assert_int_equal(rota_node_chaos_deadline(&chaos), ROTA_TIME_NEVER);
    now += ROTA_DAY;
    assert_int_equal(step(N_NODES).act, ROTA_NODE_CHAOS_NOTHING);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_struck_node_returns_before_the_next_strike),
        TEST(no_node_is_struck_while_another_is_down),
        TEST(the_end_brings_a_stopped_node_back_at_once),
    };
    return cmocka_run_group_tests_name("node_chaos", tests, NULL, NULL);
}
