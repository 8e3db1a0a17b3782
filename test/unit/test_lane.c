#include "core/work/job/lane.h"
#include "vectors.h"

#include <rota/experimental/random.h>
#include <stdio.h>

enum { N = 3000 };

static struct rota_job_table table;
static struct rota_random chance;

static uint32_t make_job(uint64_t order, int spread)
{
    uint32_t number = rota_job_table_add(&table, (struct rota_job_id){1, order});
    struct rota_job *job = rota_job_at(&table, number);
    job->order = order;
    job->tag = rota_random_below(&chance, (uint64_t)spread);
    job->enqueued_at = (rota_time)rota_random_below(&chance, (uint64_t)spread);
    job->priority = (int16_t)rota_random_range(&chance, -1, 1);
    return number;
}

static void jobs_come_out_in_order_whatever_goes_in(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        static bool is_inside[N + 1];
        static uint32_t numbers[N];
        struct rota_lane lane = {0};
        size_t n_inside = 0;
        rota_random_init(&chance, seed);
        rota_job_table_init(&table, seed);
        for (size_t i = 0; i < N; i++) {
            numbers[i] = make_job(i + 1, seed % 2 ? 4 : 100000);
            is_inside[i] = false;
            if (seed % 4 == 1) /* they were loaded at once */
                rota_job_at(&table, numbers[i])->order = 7;
        }
        for (int step = 0; step < 6 * N; step++) {
            size_t i = rota_random_below(&chance, N);
            double wanted = step < 3 * N ? 0.8 : 0.2; /* it fills, then it drains */
            if (!is_inside[i] && rota_random_chance(&chance, wanted)) {
                assert_true(rota_lane_reserve(&lane));
                rota_lane_push(&lane, &table, numbers[i]);
            } else if (is_inside[i] && !rota_random_chance(&chance, wanted)) {
                rota_lane_remove(&lane, &table, numbers[i]);
            } else {
                continue;
            }
            is_inside[i] = !is_inside[i];
            n_inside += is_inside[i] ? 1 : -(size_t)1;
            assert_int_equal(lane.size, n_inside);
            if (step % 100 == 0)
                assert_true(rota_lane_is_sound(&lane, &table));
        }
        while (lane.size > 0) { /* the first is before all others */
            uint32_t first = rota_lane_first(&lane);
            rota_time oldest = ROTA_TIME_NEVER;
            for (size_t i = 0; i < N; i++) {
                if (!is_inside[i])
                    continue;
                assert_false(rota_job_is_before(rota_job_at(&table, numbers[i]),
                                                rota_job_at(&table, first)));
                oldest = rota_time_min(oldest, rota_job_at(&table, numbers[i])->enqueued_at);
            }
            assert_int_equal(rota_lane_oldest(&lane, &table), oldest);
            rota_lane_remove(&lane, &table, first);
            is_inside[rota_job_at(&table, first)->id.low - 1] = false;
        }
        assert_int_equal(rota_lane_first(&lane), 0);
        assert_int_equal(rota_lane_oldest(&lane, &table), 0);
        rota_lane_deinit(&lane);
        rota_job_table_deinit(&table);
    }
}

static void a_lane_filled_in_order_takes_little_more_than_four_bytes(void **state)
{
    struct rota_lane lane = {0};
    (void)state;
    rota_random_init(&chance, 1);
    rota_job_table_init(&table, 1);
    for (uint64_t i = 1; i <= 100000; i++) {
        uint32_t number = make_job(i, 1);
        rota_job_at(&table, number)->priority = 0;
        assert_true(rota_lane_reserve(&lane));
        rota_lane_push(&lane, &table, number);
    }
    assert_true(lane.is_by_age);
    assert_in_range(rota_lane_bytes(&lane), 400000, 450000);
    for (uint64_t i = 1; i <= 100000; i++) {
        uint32_t first = rota_lane_first(&lane);
        assert_int_equal(rota_job_at(&table, first)->order, i);
        rota_lane_remove(&lane, &table, first);
    }
    assert_in_range(rota_lane_bytes(&lane), 0, 20000); /* leaves are given back */
    rota_lane_deinit(&lane);
    rota_job_table_deinit(&table);
}

static void leaves_of_few_jobs_are_merged(void **state)
{
    struct rota_lane lane = {0};
    static uint32_t numbers[50000];
    (void)state;
    rota_random_init(&chance, 1);
    rota_job_table_init(&table, 1);
    for (uint64_t i = 0; i < 50000; i++) {
        numbers[i] = make_job(i + 1, 1);
        rota_job_at(&table, numbers[i])->priority = 0;
        assert_true(rota_lane_reserve(&lane));
        rota_lane_push(&lane, &table, numbers[i]);
    }
    for (int i = 49999; i >= 0; i--)
        if (i % 100 != 0)
            rota_lane_remove(&lane, &table, numbers[i]);
    assert_int_equal(lane.size, 500);
    assert_in_range(lane.to - lane.from, 1, 30);
    assert_true(rota_lane_is_sound(&lane, &table));
    rota_lane_deinit(&lane);
    rota_job_table_deinit(&table);
}

static uint32_t make_ordered(uint64_t order)
{
    uint32_t number = make_job(order, 1);
    rota_job_at(&table, number)->priority = 0;
    return number;
}

/* The leaf is full to its end, has room at its front, and another one follows. */
static void a_job_is_appended_to_a_leaf_with_room_at_its_front(void **state)
{
    struct rota_lane lane = {0};
    uint32_t numbers[ROTA_LANE_LEAF + 1];
    (void)state;
    rota_random_init(&chance, 1);
    rota_job_table_init(&table, 1);
    for (uint64_t i = 0; i <= ROTA_LANE_LEAF; i++) {
        numbers[i] = make_ordered(10 * (i + 1));
        assert_true(rota_lane_reserve(&lane));
        rota_lane_push(&lane, &table, numbers[i]);
    }
    rota_lane_remove(&lane, &table, numbers[0]);
    uint32_t between = make_ordered(10 * ROTA_LANE_LEAF + 5);
    assert_true(rota_lane_reserve(&lane));
    rota_lane_push(&lane, &table, between);
    assert_true(rota_lane_is_sound(&lane, &table));
    for (uint64_t i = 1; i <= ROTA_LANE_LEAF; i++) {
        if (i == ROTA_LANE_LEAF) {
            assert_int_equal(rota_lane_first(&lane), between);
            rota_lane_remove(&lane, &table, between);
        }
        assert_int_equal(rota_lane_first(&lane), numbers[i]);
        rota_lane_remove(&lane, &table, numbers[i]);
    }
    rota_lane_deinit(&lane);
    rota_job_table_deinit(&table);
}

/* As a queue that is never empty: leaves come at the end and go at the front. */
static void a_lane_that_slides_does_not_grow(void **state)
{
    enum { INSIDE = 6 * ROTA_LANE_LEAF, ALL = 60 * ROTA_LANE_LEAF };
    static uint32_t numbers[ALL];
    struct rota_lane lane = {0};
    size_t most = 0;
    (void)state;
    rota_job_table_init(&table, 1);
    for (size_t i = 0; i < ALL; i++) {
        numbers[i] = rota_job_table_add(&table, (struct rota_job_id){1, i + 1});
        rota_job_at(&table, numbers[i])->order = i + 1;
        assert_true(rota_lane_reserve(&lane));
        rota_lane_push(&lane, &table, numbers[i]);
        if (i >= INSIDE) {
            assert_int_equal(rota_lane_first(&lane), numbers[i - INSIDE]);
            rota_lane_remove(&lane, &table, numbers[i - INSIDE]);
            assert_int_equal(lane.size, INSIDE);
        }
        if (i % ROTA_LANE_LEAF == 0)
            assert_true(rota_lane_is_sound(&lane, &table));
        if (i == ALL / 2)
            most = rota_lane_bytes(&lane);
    }
    assert_true(rota_lane_bytes(&lane) <= most + sizeof(struct rota_lane_leaf));
    rota_lane_deinit(&lane);
    rota_job_table_deinit(&table);
}

/* Something inside has this value for a moment, and the lane is not sound. */
#define NOTICED(place, value)                                                                      \
    do {                                                                                           \
        __typeof__(place) before = (place);                                                        \
        (place) = (value);                                                                         \
        assert_false(rota_lane_is_sound(&lane, &table));                                           \
        (place) = before;                                                                          \
        assert_true(rota_lane_is_sound(&lane, &table));                                            \
    } while (0)

static void what_is_wrong_inside_is_noticed(void **state)
{
    struct rota_lane lane = {0};
    uint32_t numbers[3];
    (void)state;
    rota_random_init(&chance, 1);
    rota_job_table_init(&table, 1);
    for (uint64_t i = 0; i < 3; i++) {
        numbers[i] = make_ordered(i + 1);
        rota_job_at(&table, numbers[i])->enqueued_at = 5;
        rota_job_at(&table, numbers[i])->tag = i;
        assert_true(rota_lane_reserve(&lane));
        rota_lane_push(&lane, &table, numbers[i]);
    }
    assert_true(lane.is_by_age);
    struct rota_lane_leaf *leaf = lane.leaves[lane.from];
    NOTICED(lane.size, 2);
    NOTICED(leaf->from, leaf->to);
    NOTICED(leaf->to, ROTA_LANE_LEAF + 1);
    NOTICED(leaf->jobs[leaf->from], numbers[1]); /* it is there twice */
    NOTICED(rota_job_at(&table, numbers[1])->priority, 1);
    NOTICED(rota_job_at(&table, numbers[1])->enqueued_at, 4); /* in order, but not of age */
    lane.is_by_age = false;
    rota_job_at(&table, numbers[1])->enqueued_at = 4;
    assert_true(rota_lane_is_sound(&lane, &table));
    rota_lane_deinit(&lane);
    rota_job_table_deinit(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_come_out_in_order_whatever_goes_in),
        cmocka_unit_test(a_lane_filled_in_order_takes_little_more_than_four_bytes),
        cmocka_unit_test(leaves_of_few_jobs_are_merged),
        cmocka_unit_test(a_job_is_appended_to_a_leaf_with_room_at_its_front),
        cmocka_unit_test(a_lane_that_slides_does_not_grow),
        cmocka_unit_test(what_is_wrong_inside_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
