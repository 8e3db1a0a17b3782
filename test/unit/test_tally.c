/* How many workers there are, whichever nodes they are connected to. */
#include "core/work/cluster/tally.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct rota_tally tally;

static int set_up(void **state)
{
    (void)state;
    rota_tally_init(&tally, 7);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_tally_deinit(&tally);
    return 0;
}

static void add(size_t node, const char *queue, const char *worker, uint64_t slots,
                uint64_t running)
{
    assert_true(rota_tally_add(&tally, node, rota_str(queue), rota_str(worker), slots, running));
}

static void expect(const char *queue, uint64_t n_workers, uint64_t n_slots, uint64_t n_free)
{
    struct rota_tally_sum sum = rota_tally_of(&tally, rota_str(queue));
    assert_int_equal(sum.n_workers, n_workers);
    assert_int_equal(sum.n_slots, n_slots);
    assert_int_equal(sum.n_free, n_free);
}

static void worker_of_several_nodes_is_one(void **state)
{
    (void)state;
    expect("mail", 0, 0, 0);
    for (size_t node = 0; node < 3; node++)
        add(node, "mail", "ann", 4, 0);
    expect("mail", 1, 4, 4);
    expect("ann", 0, 0, 0);
}

static void jobs_running_on_any_node_take_slots(void **state)
{
    (void)state;
    /* Four slots: a job at each of two nodes, and the other two are told to all three. */
    add(0, "mail", "ann", 3, 1);
    add(1, "mail", "ann", 2, 0);
    add(1, "mail", "ann", 1, 1); /* a lease of its own row */
    add(2, "mail", "ann", 2, 0);
    expect("mail", 1, 4, 2);
}

static void polls_at_one_node_add_up(void **state)
{
    (void)state;
    add(0, "mail", "ann", 1, 0);
    add(0, "mail", "ann", 1, 0);
    add(1, "mail", "ann", 1, 0);
    expect("mail", 1, 2, 2);
}

static void the_nameless_and_other_queues_are_others(void **state)
{
    (void)state;
    add(0, "mail", "", 1, 0);
    add(0, "mail", "", 1, 0);
    add(1, "mail", "bob", 2, 2);
    add(1, "post", "bob", 2, 2);
    add(1, "mai", "lbob", 1, 0);
    expect("mail", 3, 4, 2);
    expect("post", 1, 2, 0);
    expect("mai", 1, 1, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(worker_of_several_nodes_is_one),
        TEST(jobs_running_on_any_node_take_slots),
        TEST(polls_at_one_node_add_up),
        TEST(the_nameless_and_other_queues_are_others),
    };
    return cmocka_run_group_tests_name("tally", tests, NULL, NULL);
}
