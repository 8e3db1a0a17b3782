#include "core/call/budget.h"
#include "vectors.h"

static int spend_all(struct rota_budget *budget, rota_time now)
{
    int n = 0;
    while (rota_budget_spend(budget, now))
        n++;
    return n;
}

static void a_part_of_the_calls_can_be_spent(void **state)
{
    struct rota_budget budget;
    (void)state;
    rota_budget_init(&budget, 0, &(struct rota_budget_options){.ppm = 50000, .most = 10});
    assert_false(rota_budget_spend(&budget, 0));
    for (int i = 0; i < 19; i++)
        rota_budget_earn(&budget);
    assert_false(rota_budget_spend(&budget, 0));
    rota_budget_earn(&budget);
    assert_true(rota_budget_spend(&budget, 0));
    assert_false(rota_budget_spend(&budget, 0));
    assert_int_equal(budget.n_spent, 1);
    assert_int_equal(budget.n_refused, 3);
    assert_int_equal(budget.n_calls, 20);
}

static void savings_are_bounded(void **state)
{
    struct rota_budget budget;
    (void)state;
    rota_budget_init(&budget, 0, &(struct rota_budget_options){.ppm = 200000, .most = 7});
    for (int i = 0; i < 10000; i++)
        rota_budget_earn(&budget);
    assert_int_equal(spend_all(&budget, 0), 7);
}

static void time_brings_some(void **state)
{
    struct rota_budget budget;
    (void)state;
    rota_budget_init(&budget, 5, &(struct rota_budget_options){.per_second = 3, .most = 10});
    assert_int_equal(spend_all(&budget, 5), 3); /* the first second's */
    int n = 0;
    for (rota_time now = 5; now <= 5 + 10 * ROTA_SEC; now += 777777)
        n += rota_budget_spend(&budget, now);
    assert_in_range(n, 29, 30); /* none is lost to small steps */
    assert_int_equal(spend_all(&budget, ROTA_TIME_NEVER), 10);
}

static void time_that_goes_back_takes_nothing(void **state)
{
    struct rota_budget budget;
    (void)state;
    rota_budget_init(&budget, ROTA_SEC, &(struct rota_budget_options){.per_second = 1});
    assert_true(rota_budget_spend(&budget, ROTA_TIME_MIN));
    assert_false(rota_budget_spend(&budget, 0));
    assert_true(rota_budget_spend(&budget, 2 * ROTA_SEC));
}

static void unused_tokens_are_returned(void **state)
{
    struct rota_budget budget;
    (void)state;
    rota_budget_init(&budget, 0, &(struct rota_budget_options){.per_second = 1, .most = 1});
    assert_true(rota_budget_spend(&budget, 0));
    rota_budget_refund(&budget);
    assert_true(rota_budget_spend(&budget, 0));
    assert_int_equal(budget.n_spent, 1);
    rota_budget_refund(&budget);
    rota_budget_refund(&budget);
    assert_int_equal(budget.n_spent, 0);
    assert_int_equal(spend_all(&budget, 0), 1); /* bounded as ever */
}

static void ten_tokens_are_kept_by_default(void **state)
{
    struct rota_budget budget;
    (void)state;
    rota_budget_init(&budget, 0, &(struct rota_budget_options){.per_second = 11});
    assert_int_equal(spend_all(&budget, 0), 10);
    assert_int_equal(spend_all(&budget, ROTA_HOUR), 10);
    rota_budget_init(&budget, 0, &(struct rota_budget_options){.per_second = 1, .most = 1});
    assert_int_equal(spend_all(&budget, 10 * ROTA_SEC), 1);
}

/* Time brings a millionth of `per_second` each microsecond; a token is whole when the last part
 * is there, and what is less than a microsecond counts the next time. */
static void time_brings_each_part_when_it_is_due(void **state)
{
    struct rota_budget budget;
    (void)state;
    rota_budget_init(&budget, 0, &(struct rota_budget_options){.per_second = 4, .most = 10});
    assert_int_equal(spend_all(&budget, 0), 4);
    for (rota_time now = 0; now < 250 * ROTA_MSEC; now += 999)
        assert_false(rota_budget_spend(&budget, now));
    assert_false(rota_budget_spend(&budget, 250 * ROTA_MSEC - 1));
    assert_true(rota_budget_spend(&budget, 250 * ROTA_MSEC));
    assert_false(rota_budget_spend(&budget, 250 * ROTA_MSEC));
    assert_int_equal(spend_all(&budget, ROTA_SEC), 3);
}

static void an_hour_brings_as_much_as_a_longer_time(void **state)
{
    struct rota_budget budget;
    (void)state;
    const struct rota_budget_options options = {.per_second = 1, .most = 10000};
    rota_budget_init(&budget, 0, &options);
    assert_int_equal(spend_all(&budget, ROTA_HOUR), 3601);
    assert_int_equal(spend_all(&budget, 3 * ROTA_HOUR), 3600);
    assert_int_equal(spend_all(&budget, 3 * ROTA_HOUR + 2 * ROTA_SEC), 2);
    rota_budget_init(&budget, 0, &(struct rota_budget_options){UINT32_MAX, UINT32_MAX, UINT32_MAX});
    assert_true(rota_budget_spend(&budget, ROTA_TIME_NEVER));
    assert_true(budget.parts == (UINT32_MAX - UINT64_C(1)) * 1000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_of_the_calls_can_be_spent),
        cmocka_unit_test(savings_are_bounded),
        cmocka_unit_test(time_brings_some),
        cmocka_unit_test(time_that_goes_back_takes_nothing),
        cmocka_unit_test(unused_tokens_are_returned),
        cmocka_unit_test(ten_tokens_are_kept_by_default),
        cmocka_unit_test(time_brings_each_part_when_it_is_due),
        cmocka_unit_test(an_hour_brings_as_much_as_a_longer_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
