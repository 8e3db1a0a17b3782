#include "core/call/backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void the_wait_grows_to_its_bound_and_stays(void **state)
{
    struct rota_backoff backoff = {.first = ROTA_SEC, .max = 20 * ROTA_SEC};
    struct rota_random random;
    rota_time step = ROTA_SEC;
    (void)state;
    rota_random_init(&random, 1);
    for (int i = 0; i < 50; i++) {
        rota_time wait = rota_backoff_failed(&backoff, &random);
        assert_true(wait >= step / 5 * 4 - 5 && wait <= step / 5 * 6 + 5);
        assert_true(wait <= 20 * ROTA_SEC);
        step = step / 5 * 8 < 20 * ROTA_SEC ? step / 5 * 8 : 20 * ROTA_SEC;
    }
    assert_true(step == 20 * ROTA_SEC);
}

static void a_success_starts_over(void **state)
{
    struct rota_backoff backoff = {0};
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 2);
    for (int i = 0; i < 20; i++)
        rota_backoff_failed(&backoff, &random);
    assert_true(rota_backoff_failed(&backoff, &random) > 20 * ROTA_SEC);
    rota_backoff_succeeded(&backoff);
    assert_true(rota_backoff_failed(&backoff, &random) <= ROTA_BACKOFF_FIRST * 6 / 5);
}

static void two_that_failed_together_retry_apart(void **state)
{
    struct rota_backoff a = {0}, b = {0};
    struct rota_random random_a, random_b;
    (void)state;
    rota_random_init(&random_a, 3);
    rota_random_init(&random_b, 4);
    for (int i = 0; i < 10; i++)
        assert_true(rota_backoff_failed(&a, &random_a) != rota_backoff_failed(&b, &random_b));
}

static void absurd_bounds_overflow_nothing(void **state)
{
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 5);
    struct rota_backoff huge = {.first = ROTA_TIME_NEVER, .max = ROTA_TIME_NEVER};
    struct rota_backoff tiny = {.first = 1, .max = 1};
    struct rota_backoff swapped = {.first = ROTA_SEC, .max = 1};
    for (int i = 0; i < 200; i++) {
        assert_true(rota_backoff_failed(&huge, &random) > 0);
        assert_int_equal(rota_backoff_failed(&tiny, &random), 1);
        assert_in_range(rota_backoff_failed(&swapped, &random), ROTA_SEC / 5 * 4, ROTA_SEC);
    }
}

static void a_step_too_small_to_grow_goes_to_the_bound(void **state)
{
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 6);
    for (rota_time first = 1; first < 20; first++) {
        struct rota_backoff backoff = {.first = first, .max = 1000};
        for (int i = 0; i < 30; i++)
            rota_backoff_failed(&backoff, &random);
        assert_int_equal(backoff.next, 1000);
    }
}

static void the_defaults_are_200_ms_and_30_s(void **state)
{
    struct rota_backoff backoff = {0};
    struct rota_random random;
    rota_time least = ROTA_TIME_NEVER, most = 0;
    (void)state;
    rota_random_init(&random, 7);
    for (int i = 0; i < 10000; i++) {
        rota_time wait = rota_backoff_failed(&backoff, &random);
        assert_int_equal(backoff.next, 320 * ROTA_MSEC);
        rota_backoff_succeeded(&backoff);
        least = rota_time_min(least, wait);
        most = wait > most ? wait : most;
    }
    /* All of 0.8 to 1.2 times, and nothing else. */
    assert_in_range(least, 160 * ROTA_MSEC, 161 * ROTA_MSEC);
    assert_in_range(most, 239 * ROTA_MSEC, 240 * ROTA_MSEC);
    for (int i = 0; i < 30; i++)
        rota_backoff_failed(&backoff, &random);
    assert_int_equal(backoff.next, 30 * ROTA_SEC);
}

static void the_wait_grows_by_three_fifths(void **state)
{
    struct rota_backoff backoff = {.first = 1000, .max = 2559};
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 8);
    rota_backoff_failed(&backoff, &random);
    assert_int_equal(backoff.next, 1600); /* more than five eighths: the next one is the last */
    rota_backoff_failed(&backoff, &random);
    assert_int_equal(backoff.next, 2559);
    backoff = (struct rota_backoff){.first = 1600, .max = 2560};
    rota_backoff_failed(&backoff, &random);
    assert_int_equal(backoff.next, 2560);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_wait_grows_to_its_bound_and_stays),
        cmocka_unit_test(a_success_starts_over),
        cmocka_unit_test(two_that_failed_together_retry_apart),
        cmocka_unit_test(absurd_bounds_overflow_nothing),
        cmocka_unit_test(a_step_too_small_to_grow_goes_to_the_bound),
        cmocka_unit_test(the_defaults_are_200_ms_and_30_s),
        cmocka_unit_test(the_wait_grows_by_three_fifths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
