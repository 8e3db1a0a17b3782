/* Explanations that name the workers of other nodes. */
#include "core/work/broker/elsewhere.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct rota_elsewhere elsewhere;
static const struct rota_str NEEDED[] = {{"a", 1}, {"b", 1}};

static void begin(size_t n_can)
{
    rota_elsewhere_deinit(&elsewhere);
    rota_elsewhere_init(&elsewhere, 7, rota_str("q"), NEEDED, n_can);
}

static int set_up(void **state)
{
    (void)state;
    rota_elsewhere_init(&elsewhere, 7, rota_str("q"), NEEDED, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_elsewhere_deinit(&elsewhere);
    return 0;
}

/* A node with one worker of `queue`, which has one capability. */
static void add(size_t node, const char *address, const char *queue, const char *name,
                const char *can, uint64_t slots, uint64_t n_running)
{
    struct rota_str queues = rota_str(queue), cans = rota_str(can);
    struct rota_elsewhere_worker worker = {.name = rota_str(name),
                                           .slots = slots,
                                           .n_running = n_running,
                                           .can = &cans,
                                           .n_can = 1,
                                           .queues = &queues,
                                           .n_queues = 1};
    assert_true(rota_elsewhere_add(&elsewhere, node, rota_str(address), &worker, 1));
}

static void expect(const char *wanted)
{
    char text[512];
    assert_string_equal(rota_elsewhere_explain(&elsewhere, text, sizeof text), wanted);
}

static void no_worker_serves_the_queue(void **state)
{
    (void)state;
    expect("no worker on any other node serves it");
    add(0, "n0", "other", "w", "a", 1, 0);
    expect("no worker on any other node serves it");
    assert_false(rota_elsewhere_is_able(&elsewhere));
}

static void no_worker_has_the_capabilities(void **state)
{
    (void)state;
    add(0, "n0", "q", "w", "b", 1, 0);
    expect("no worker on any other node has a");
}

static void all_capabilities_between_several_workers_do_not_suffice(void **state)
{
    (void)state;
    begin(2);
    add(0, "n0", "q", "w", "a", 1, 0);
    add(1, "n1", "q", "v", "b", 1, 0);
    expect("no single worker on any other node has all of a, b");
    assert_false(rota_elsewhere_is_able(&elsewhere));
}

static void capable_workers_are_named_with_node_and_free_slots(void **state)
{
    (void)state;
    add(0, "n0", "q", "w", "a", 2, 2);
    expect("1 capable worker on n0, no free slot");
    add(1, "n1", "q", "v", "a", 2, 1);
    expect("2 capable workers on n0, n1, 1 slot is free");
    add(2, "n2", "q", "v", "a", 2, 0); /* the same worker, connected twice */
    expect("2 capable workers on n0, n1, n2, 2 slots are free");
    add(3, "n3", "q", "u", "a", 1, 0);
    expect("3 capable workers on n0, n1, n2 and 1 more, 3 slots are free");
    assert_true(rota_elsewhere_is_able(&elsewhere));
}

static void unresponsive_nodes_are_named(void **state)
{
    (void)state;
    rota_elsewhere_add_silent(&elsewhere, rota_str("n5"));
    expect("no worker on any other node serves it; n5 did not report workers");
    add(0, "n0", "q", "w", "a", 1, 1);
    expect("1 capable worker on n0, no free slot; n5 did not report workers");
}

static void long_explanations_are_cut(void **state)
{
    (void)state;
    char text[8];
    assert_string_equal(rota_elsewhere_explain(&elsewhere, text, sizeof text), "no work");
}

static void workers_that_do_not_fit_do_not_hide_those_that_do(void **state)
{
    struct rota_str other = rota_str("r"), q = rota_str("q"), a = rota_str("a"), z = rota_str("z");
    const struct rota_elsewhere_worker workers[] = {
        {.name = rota_str("w1"),
         .slots = 1,
         .can = &a,
         .n_can = 1,
         .queues = &other,
         .n_queues = 1},
        {.name = rota_str("w2"), .slots = 1, .can = &z, .n_can = 1, .queues = &q, .n_queues = 1},
        {.name = rota_str("w3"), .slots = 1, .can = &a, .n_can = 1, .queues = &q, .n_queues = 1},
    };
    char alone[512], among[512];
    (void)state;
    assert_true(rota_elsewhere_add(&elsewhere, 0, rota_str("b:1"), workers + 2, 1));
    rota_elsewhere_explain(&elsewhere, alone, sizeof alone);
    begin(1);
    assert_true(rota_elsewhere_add(&elsewhere, 0, rota_str("b:1"), workers, 3));
    assert_string_equal(rota_elsewhere_explain(&elsewhere, among, sizeof among), alone);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_worker_serves_the_queue),
        TEST(no_worker_has_the_capabilities),
        TEST(all_capabilities_between_several_workers_do_not_suffice),
        TEST(capable_workers_are_named_with_node_and_free_slots),
        TEST(unresponsive_nodes_are_named),
        TEST(long_explanations_are_cut),
        TEST(workers_that_do_not_fit_do_not_hide_those_that_do),
    };
    return cmocka_run_group_tests_name("elsewhere", tests, NULL, NULL);
}
