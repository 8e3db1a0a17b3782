/* The rows L1 .. L14 are those that the original's own tests check. */
#include "balancing.h"

static struct bench look_aside(size_t n)
{
    return bench_new((struct rota_balancer_options){.policy = ROTA_BALANCER_LOOK_ASIDE}, n);
}

static struct bench original(size_t n)
{
    return bench_new(
        (struct rota_balancer_options){.policy = ROTA_BALANCER_LOOK_ASIDE, .is_original = true}, n);
}

static int64_t score(int64_t response, int64_t service, int64_t waiting, int64_t executing)
{
    return rota_policy_look_aside_score(&(struct rota_cost){response, service, waiting}, executing);
}

static void row_l1_a_report_stores_its_time(void **state)
{
    struct bench bench = look_aside(1);
    (void)state;
    bench_tell(&bench, 1, 5, 1, 1);
    assert_int_equal(bench_look(&bench, 1).reported_at, bench.now);
    bench_free(&bench);
}

static void row_l2_scores(void **state)
{
    (void)state;
    assert_int_equal(score(5, 1, 1, 0), 12);
    assert_int_equal(score(5, 2, 1, 0), 19);
    assert_int_equal(score(10, 1, 1, 0), 17);
    assert_int_equal(score(5, 1, 0, 0), 5);
    assert_int_equal(score(5, 1, 1, 5), 347);
    assert_int_equal(score(5, 2, 1, 5), 689);
    assert_int_equal(score(10, 1, 1, 5), 352);
    assert_int_equal(score(5, 1, 0, 5), 220);
    assert_int_equal(score(0, 0, 0, 4), 64); /* no report */
}

static void row_l3_overflow_is_the_largest_score(void **state)
{
    (void)state;
    assert_int_equal(score(5, 1, INT64_MAX / 2, 0), INT64_MAX);
    assert_int_equal(score(5, 1, INT64_MAX, INT64_MAX - 1), INT64_MAX);
    assert_int_equal(score(INT64_MAX, 1, 3000000, 0), INT64_MAX);
    assert_int_equal(score(0, 0, 0, INT64_MAX), INT64_MAX);
}

static void row_l4_a_negative_count_leaves_the_wait(void **state)
{
    (void)state;
    assert_int_equal(score(5, 1, -1, 0), 4);
    assert_int_equal(score(5, 1, 1, -1), 4);
}

static void assert_near(const size_t counts[65], size_t a, size_t b, size_t c)
{
    const size_t wanted[] = {a, b, c};
    for (int i = 0; i < 3; i++)
        if (counts[i + 1] + 1 < wanted[i] || counts[i + 1] > wanted[i] + 1)
            fail_msg("%zu/%zu/%zu instead of %zu/%zu/%zu", counts[1], counts[2], counts[3], a, b,
                     c);
}

/* 100 choices of which none ends. */
static void check_l5(struct bench bench, size_t a, size_t b, size_t c)
{
    size_t counts[65];
    bench.balancer->counter = 0;
    bench_count(&bench, 100, counts);
    assert_near(counts, a, b, c);
    bench_free(&bench);
}

static void row_l5_choices_follow_the_load(void **state)
{
    (void)state;
    for (int is_original = 0; is_original < 2; is_original++) {
        struct bench (*make)(size_t n) = is_original ? original : look_aside;
        struct bench bench = make(3);
        check_l5(bench, 34, 33, 33);

        bench = make(3);
        for (uint64_t r = 1; r <= 3; r++)
            bench_tell(&bench, r, 5, 1, 1);
        check_l5(bench, 34, 33, 33);

        bench = make(3);
        for (uint64_t r = 1; r <= 3; r++)
            bench_tell(&bench, r, 10 + 20 * (int64_t)r, 20 * (int64_t)r, 1);
        check_l5(bench, 40, 32, 28);

        bench = make(3);
        for (uint64_t r = 1; r <= 3; r++)
            bench_tell(&bench, r, 5, 1, r == 3 ? 20 : 0);
        check_l5(bench, 40, 40, 20);

        bench = make(3);
        for (uint64_t r = 1; r <= 3; r++)
            bench_tell(&bench, r, 5, 1, 0);
        bench_try(&bench, 3, 20);
        check_l5(bench, 40, 40, 20);
    }
}

static void mark(struct bench *bench, uint64_t replica, bool is_available)
{
    assert_int_equal(rota_balancer_mark(bench->balancer, bench->now, replica, is_available, NULL),
                     ROTA_OK);
}

static void row_l6_going_round_passes_the_unavailable(void **state)
{
    struct bench bench = look_aside(3);
    size_t counts[65];
    (void)state;
    mark(&bench, 2, false);
    bench_count(&bench, 100, counts);
    assert_int_equal(counts[2], 0);
    assert_true(counts[1] > 0 && counts[3] > 0);
    bench_free(&bench);
}

static void row_l7_when_all_are_unavailable_there_is_no_choice(void **state)
{
    struct bench bench = original(3);
    struct rota_choice choice = {.replicas = bench.replicas, .n_replicas = 3};
    struct rota_try chosen = {.replica = 99};
    (void)state;
    for (uint64_t counter = 0; counter < 2; counter++) { /* scored, and going round */
        for (uint64_t r = 1; r <= 3; r++)
            mark(&bench, r, false);
        bench.balancer->counter = counter;
        assert_int_equal(
            rota_balancer_select(bench.balancer, bench.now, &choice, &bench.random, &chosen, NULL),
            ROTA_ERR_UNAVAILABLE);
        assert_int_equal(chosen.replica, 99);
        assert_int_equal(rota_balancer_n_tries(bench.balancer), 0);
    }
    bench_free(&bench);
}

static void when_all_are_unavailable_they_are_still_tried(void **state)
{
    struct bench bench = look_aside(3);
    size_t counts[65];
    (void)state;
    bench_count_ended(&bench, 3, counts);
    for (uint64_t r = 1; r <= 3; r++)
        mark(&bench, r, false);
    assert_in_range(bench_select(&bench).replica, 1, 3);
    mark(&bench, 2, true);
    for (int i = 0; i < 20; i++) /* until one is well again */
        assert_int_equal(bench_select(&bench).replica, 2);
    bench_free(&bench);
}

static void row_l8_scores_of_zero_are_spread(void **state)
{
    struct bench bench = look_aside(3);
    size_t counts[65];
    (void)state;
    bench_count_ended(&bench, 30, counts);
    for (int i = 1; i <= 3; i++)
        assert_true(counts[i] >= 8);
    bench_free(&bench);
}

static void row_l9_a_cancelled_call_is_not_executing(void **state)
{
    struct bench bench = look_aside(1);
    struct rota_try tries[10];
    (void)state;
    for (int i = 0; i < 10; i++)
        tries[i] = bench_try(&bench, 1, 3);
    assert_int_equal(bench_look(&bench, 1).work, 30);
    for (int i = 0; i < 10; i++)
        bench_end(&bench, tries[i], ROTA_OUTCOME_CANCELLED);
    assert_int_equal(bench_look(&bench, 1).work, 0);
    bench_free(&bench);
}

static void row_l10_a_success_clears_the_flag(void **state)
{
    struct bench bench = original(1);
    struct rota_choice choice = {.replicas = bench.replicas, .n_replicas = 1};
    struct rota_try early = bench_select(&bench), chosen;
    (void)state;
    mark(&bench, 1, false);
    assert_int_equal(
        rota_balancer_select(bench.balancer, bench.now, &choice, &bench.random, &chosen, NULL),
        ROTA_ERR_UNAVAILABLE);
    bench_end(&bench, early, ROTA_OUTCOME_OK);
    assert_true(bench_look(&bench, 1).is_available);
    bench_select(&bench);
    bench_free(&bench);
}

/* How often replica 1 is chosen among 4 in 200 choices. It has just been
 * dropped; the others tell of 10 ms each. */
static size_t share_of_dropped(struct bench bench)
{
    size_t n = 0;
    for (uint64_t r = 1; r <= 4; r++)
        bench_tell(&bench, r, 12000, 10000, 0);
    rota_balancer_forget(bench.balancer, 1);
    for (int i = 0; i < 200; i++) {
        struct rota_try chosen = bench_select(&bench);
        struct rota_cost cost = {12000, 10000, 0};
        n += chosen.replica == 1;
        assert_true(
            rota_balancer_report(bench.balancer, bench.now, chosen,
                                 chosen.replica == 1 ? ROTA_OUTCOME_CANCELLED : ROTA_OUTCOME_OK,
                                 chosen.replica == 1 ? NULL : &cost));
    }
    bench_free(&bench);
    return n;
}

static void trap_a_a_dropped_replica_is_not_preferred(void **state)
{
    (void)state;
    assert_in_range(share_of_dropped(look_aside(4)), 40, 55);
    assert_true(share_of_dropped(original(4)) > 55); /* it gets every scored choice */
}

/* How many of 300 tries fall on replica 1 of 3, which fails at once, when the
 * others take 10 ms and calls overlap. */
static size_t share_of_failing(struct bench bench)
{
    struct rota_cost cost = {10000, 10000, 0};
    struct rota_try out[4] = {0};
    size_t n = 0;
    for (int i = 0; i < 300; i++) {
        struct rota_try chosen = bench_select(&bench);
        bench.now += 20 * ROTA_MSEC;
        if (chosen.replica == 1) {
            n++;
            bench_end(&bench, chosen, ROTA_OUTCOME_UNAVAILABLE);
            continue;
        }
        if (out[i % 4].serial)
            assert_true(rota_balancer_report(bench.balancer, bench.now, out[i % 4], ROTA_OUTCOME_OK,
                                             &cost));
        out[i % 4] = chosen;
    }
    bench_free(&bench);
    return n;
}

static void failures_count_against_a_replica(void **state)
{
    (void)state;
    assert_true(share_of_failing(look_aside(3)) < 10);
    assert_true(share_of_failing(original(3)) > 100);
}

static void when_all_have_failed_they_are_still_tried(void **state)
{
    struct bench bench = look_aside(2);
    (void)state;
    bench_run(&bench, 1, 0, ROTA_OUTCOME_TIMEOUT);
    bench_run(&bench, 2, 0, ROTA_OUTCOME_OTHER);
    bench_select(&bench);
    bench_free(&bench);
}

static void input_errors_and_overload_do_not_shun(void **state)
{
    struct bench bench = look_aside(2);
    size_t counts[65];
    (void)state;
    bench_run(&bench, 1, 0, ROTA_OUTCOME_INPUT);
    bench_run(&bench, 1, 0, ROTA_OUTCOME_OVERLOAD);
    bench_count_ended(&bench, 20, counts);
    assert_in_range(counts[1], 8, 12);
    bench_free(&bench);
}

static void an_expired_report_of_an_idle_replica_does_not_count(void **state)
{
    struct bench bench = look_aside(1);
    (void)state;
    bench_tell(&bench, 1, 5, 1, 1);
    assert_int_equal(bench_look(&bench, 1).score, 12);
    bench.now += ROTA_SEC;
    assert_int_equal(bench_look(&bench, 1).score, 12);
    bench.now++;
    assert_int_equal(bench_look(&bench, 1).score, 0);
    bench_try(&bench, 1, 1);
    assert_int_equal(bench_look(&bench, 1).score, 4 + 27);
    bench_free(&bench);
}

static void replica_without_a_report_scores_by_its_work(void **state)
{
    struct bench bench = look_aside(2);
    (void)state;
    struct rota_try first = bench_try(&bench, 1, 3), second = bench_try(&bench, 1, 1);
    assert_int_equal(bench_look(&bench, 1).score, 64);
    bench_end(&bench, second, ROTA_OUTCOME_INPUT);
    assert_int_equal(bench_look(&bench, 1).score, 27);
    bench_end(&bench, first, ROTA_OUTCOME_INPUT);
    assert_int_equal(bench_look(&bench, 1).score, 0);
    bench_free(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_l1_a_report_stores_its_time),
        cmocka_unit_test(row_l2_scores),
        cmocka_unit_test(row_l3_overflow_is_the_largest_score),
        cmocka_unit_test(row_l4_a_negative_count_leaves_the_wait),
        cmocka_unit_test(row_l5_choices_follow_the_load),
        cmocka_unit_test(row_l6_going_round_passes_the_unavailable),
        cmocka_unit_test(row_l7_when_all_are_unavailable_there_is_no_choice),
        cmocka_unit_test(when_all_are_unavailable_they_are_still_tried),
        cmocka_unit_test(row_l8_scores_of_zero_are_spread),
        cmocka_unit_test(row_l9_a_cancelled_call_is_not_executing),
        cmocka_unit_test(row_l10_a_success_clears_the_flag),
        cmocka_unit_test(trap_a_a_dropped_replica_is_not_preferred),
        cmocka_unit_test(failures_count_against_a_replica),
        cmocka_unit_test(when_all_have_failed_they_are_still_tried),
        cmocka_unit_test(input_errors_and_overload_do_not_shun),
        cmocka_unit_test(an_expired_report_of_an_idle_replica_does_not_count),
        cmocka_unit_test(replica_without_a_report_scores_by_its_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
