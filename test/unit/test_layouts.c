#include "core/work/cluster/layouts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define START (1000 * ROTA_SEC)
#define SPAN  (10 * ROTA_SEC)
#define Q     rota_str("q")

static const struct rota_spread SLOTS = {.mode = ROTA_SPREAD_SLOTS, .batch = 16};
static const struct rota_spread LOOKUP = {.mode = ROTA_SPREAD_LOOKUP, .batch = 4};

static struct rota_work_layout laid(uint32_t n)
{
    return (struct rota_work_layout){.wanted = n, .write = n, .read = n, .spread = SLOTS};
}

static struct rota_work_layout changing(uint32_t n)
{
    struct rota_work_layout layout = laid(n);
    layout.spread = LOOKUP;
    layout.change = (struct rota_layout_change){SLOTS, START, START + SPAN};
    return layout;
}

static int set_up(void **state)
{
    static struct rota_layouts layouts;
    const struct rota_work_layout usual = laid(4);
    rota_layouts_init(&layouts, &usual, 1);
    *state = &layouts;
    return 0;
}

static int tear_down(void **state)
{
    struct rota_layouts *layouts = *state;
    rota_layouts_deinit(layouts);
    return 0;
}

static uint32_t step_all(struct rota_layouts *layouts, rota_time now)
{
    struct rota_layouts_flip flip;
    uint32_t n = 0;
    while (rota_layouts_step(layouts, now, &flip)) {
        assert_true(rota_str_is_equal(flip.queue, Q));
        assert_int_equal(flip.spread.batch, 4);
        assert_int_equal(rota_layouts_spread(layouts, Q, flip.partition).batch, 4);
        n++;
    }
    return n;
}

static uint32_t n_new(const struct rota_layouts *layouts, uint32_t n)
{
    uint32_t n_found = 0;
    for (uint32_t i = 0; i < n; i++)
        n_found += rota_layouts_spread(layouts, Q, i).batch == 4;
    return n_found;
}

static void a_queue_without_a_layout_has_the_usual_one(void **state)
{
    struct rota_layouts *layouts = *state;
    const struct rota_work_layout usual = laid(4), other = laid(8);
    assert_int_equal(rota_layouts_get(layouts, Q).read, 4);
    assert_true(rota_layouts_set(layouts, START, Q, &other));
    assert_int_equal(rota_layouts_get(layouts, Q).read, 8);
    assert_int_equal(rota_layouts_deadline(layouts), ROTA_TIME_NEVER);
    assert_true(rota_layouts_set(layouts, START, Q, &usual));
    assert_int_equal(rota_layouts_get(layouts, Q).read, 4);
    assert_int_equal(layouts->queues.size, 0);
}

static void partitions_change_one_by_one(void **state)
{
    struct rota_layouts *layouts = *state;
    struct rota_work_layout layout = changing(64);
    uint32_t n = 0, n_steps = 0;
    assert_true(rota_layouts_set(layouts, START, Q, &layout));
    assert_int_equal(n_new(layouts, 64), 0);
    while (rota_layouts_deadline(layouts) != ROTA_TIME_NEVER) {
        rota_time deadline = rota_layouts_deadline(layouts);
        assert_true(deadline > START && deadline <= START + SPAN);
        assert_int_equal(step_all(layouts, deadline - 1), 0);
        uint32_t n_now = step_all(layouts, deadline);
        assert_true(n_now >= 1 && n_now <= 2);
        n += n_now;
        n_steps++;
        assert_int_equal(n_new(layouts, 64), n);
    }
    assert_int_equal(n, 64);
    assert_true(n_steps > 60);
    assert_int_equal(layouts->n_changing, 0);
}

static void a_clock_that_is_set_back_undoes_nothing(void **state)
{
    struct rota_layouts *layouts = *state;
    struct rota_work_layout layout = changing(64);
    assert_true(rota_layouts_set(layouts, START, Q, &layout));
    uint32_t n = step_all(layouts, START + SPAN / 2);
    assert_true(n > 16 && n < 48);
    assert_int_equal(step_all(layouts, START), 0);
    assert_int_equal(n_new(layouts, 64), n);
    layout.wanted = layout.read = 80; /* the change continues */
    assert_true(rota_layouts_set(layouts, START, Q, &layout));
    assert_int_equal(n_new(layouts, 64), n);
    step_all(layouts, START + SPAN);
    assert_int_equal(n_new(layouts, 80), 80);
    layout.write = 80;
    assert_true(rota_layouts_set(layouts, START, Q, &layout)); /* over is over */
    assert_int_equal(n_new(layouts, 80), 80);
}

static void a_node_that_comes_late_catches_up(void **state)
{
    struct rota_layouts *layouts = *state;
    struct rota_work_layout layout = changing(64);
    assert_true(rota_layouts_set(layouts, START + SPAN / 2, Q, &layout));
    uint32_t n = n_new(layouts, 64);
    assert_true(n > 16 && n < 48);
    assert_int_equal(step_all(layouts, START + SPAN), 64 - n);
}

static void a_layout_at_once_takes_the_place_of_a_change(void **state)
{
    struct rota_layouts *layouts = *state;
    struct rota_work_layout layout = changing(64), other = laid(64);
    assert_true(rota_layouts_set(layouts, START, Q, &layout));
    assert_true(rota_layouts_set(layouts, START, Q, &other));
    assert_int_equal(n_new(layouts, 64), 0);
    assert_int_equal(rota_layouts_deadline(layouts), ROTA_TIME_NEVER);
    assert_int_equal(layouts->n_changing, 0);
}

static void the_route_is_that_of_the_last_step(void **state)
{
    enum { N = 64 };
    struct rota_layouts *layouts = *state;
    struct rota_work_layout layout = changing(N);
    const struct rota_ring_host hosts[] = {
        {.address = rota_str("a:1")}, {.address = rota_str("b:1")}, {.address = rota_str("c:1")}};
    uint32_t found[N];
    struct rota_ring *ring;
    assert_int_equal(rota_ring_new(hosts, 3, 0, &ring, NULL), ROTA_OK);
    assert_true(rota_layouts_set(layouts, START, Q, &layout));
    for (rota_time now = START; now <= START + SPAN + ROTA_SEC; now += ROTA_SEC) {
        step_all(layouts, now);
        rota_layouts_route(layouts, ring, Q, found);
        for (uint32_t i = 0; i < N; i++) {
            struct rota_partition one = rota_layout_partition(Q, i);
            assert_int_equal(found[i], rota_route(ring, &one, rota_layouts_spread(layouts, Q, i)));
        }
    }
    rota_ring_unref(ring);
}

static void changing_partitions_are_bounded(void **state)
{
    struct rota_layouts *layouts = *state;
    struct rota_work_layout layout = changing(65536), small = changing(1);
    char name[16];
    for (uint32_t i = 0; i < ROTA_LAYOUTS_CHANGING_MAX / 65536; i++) {
        snprintf(name, sizeof name, "q%u", i);
        assert_true(rota_layouts_set(layouts, START, rota_str(name), &layout));
    }
    assert_false(rota_layouts_set(layouts, START, Q, &small));
    assert_int_equal(rota_layouts_get(layouts, Q).read, 4);
    small.change = (struct rota_layout_change){0};
    assert_true(rota_layouts_set(layouts, START, rota_str("q0"), &small));
    small = changing(1);
    assert_true(rota_layouts_set(layouts, START, Q, &small));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_queue_without_a_layout_has_the_usual_one),
        TEST(partitions_change_one_by_one),
        TEST(a_clock_that_is_set_back_undoes_nothing),
        TEST(a_node_that_comes_late_catches_up),
        TEST(a_layout_at_once_takes_the_place_of_a_change),
        TEST(the_route_is_that_of_the_last_step),
        TEST(changing_partitions_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
