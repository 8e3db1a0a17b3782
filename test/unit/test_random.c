#include <rota/experimental/random.h>

#include "vectors.h"

/* The published sequences: a simulation that failed must fail again next year. */
static void random_numbers_never_change(void **state)
{
    static const uint64_t mixed[] = {0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f,
                                     0xf88bb8a8724c81ec};
    static const uint64_t from_1234[] = {11520, 0, 1509978240, 1215971899390074240};
    static const uint64_t from_seed_0[] = {0x99ec5f36cb75f2b4, 0xbf6e1f784956452a,
                                           0x1a5f849d4933e6e0, 0x6aa594f1262d2d2c};
    struct rota_random random = {{1, 2, 3, 4}};
    uint64_t counter = 0;
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(rota_random_mix(&counter), mixed[i]);
        assert_int_equal(rota_random_next(&random), from_1234[i]);
    }
    rota_random_init(&random, 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(rota_random_next(&random), from_seed_0[i]);
}

static void derived_numbers_never_change(void **state)
{
    static const uint64_t dice[] = {4, 5, 1, 3, 5, 6, 3, 4, 6, 6};
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 0);
    for (size_t i = 0; i < sizeof dice / sizeof dice[0]; i++)
        assert_int_equal(rota_random_range(&random, 1, 6), dice[i]);
}

/* With n draws each face is met n/bound times, give or take 5 deviations. */
static void below_is_even(void **state)
{
    static const uint64_t bounds[] = {1, 2, 3, 7, 10, 64};
    enum { N = 100000 };
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 1);
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        uint64_t bound = bounds[i];
        int counts[64] = {0};
        for (int j = 0; j < N; j++) {
            uint64_t number = rota_random_below(&random, bound);
            assert_true(number < bound);
            counts[number]++;
        }
        double expected = (double)N / (double)bound;
        for (size_t j = 0; j < bound; j++) {
            double off = counts[j] - expected;
            assert_true(off * off <= 25 * expected);
        }
    }
}

/* At three quarters of the range, multiples of three would be met twice as often
 * as the others if nothing were rejected. */
static void below_has_no_bias_at_large_bounds(void **state)
{
    uint64_t bound = (uint64_t)3 << 62;
    int thirds[3] = {0};
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 1);
    for (int i = 0; i < 30000; i++)
        thirds[rota_random_below(&random, bound) % 3]++;
    for (int i = 0; i < 3; i++)
        assert_true(thirds[i] > 9500 && thirds[i] < 10500);
    for (int i = 0; i < 1000; i++)
        assert_true(rota_random_below(&random, UINT64_MAX) < UINT64_MAX);
}

static void range_reaches_both_ends(void **state)
{
    struct rota_random random;
    bool is_met[5] = {false};
    int n_negative = 0;
    (void)state;
    rota_random_init(&random, 1);
    for (int i = 0; i < 200; i++) {
        int64_t number = rota_random_range(&random, -2, 2);
        assert_true(number >= -2 && number <= 2);
        is_met[number + 2] = true;
        n_negative += rota_random_range(&random, INT64_MIN, INT64_MAX) < 0;
        assert_true(rota_random_range(&random, INT64_MAX - 1, INT64_MAX) >= INT64_MAX - 1);
        assert_true(rota_random_range(&random, INT64_MIN, INT64_MIN + 1) <= INT64_MIN + 1);
        assert_true(rota_random_range(&random, INT64_MIN, INT64_MAX - 1) < INT64_MAX);
    }
    for (int i = 0; i < 5; i++)
        assert_true(is_met[i]);
    assert_true(n_negative > 50 && n_negative < 150);
    assert_int_equal(rota_random_range(&random, 7, 7), 7);
}

static void unit_and_chance_stay_within_their_ends(void **state)
{
    struct rota_random random;
    double sum = 0;
    int n_true = 0;
    (void)state;
    rota_random_init(&random, 1);
    for (int i = 0; i < 10000; i++) {
        double unit = rota_random_unit(&random);
        assert_true(unit >= 0 && unit < 1);
        sum += unit;
        n_true += rota_random_chance(&random, 0.25);
        assert_false(rota_random_chance(&random, 0));
        assert_true(rota_random_chance(&random, 1));
    }
    assert_true(sum > 4800 && sum < 5200);
    assert_true(n_true > 2250 && n_true < 2750);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_numbers_never_change),
        cmocka_unit_test(derived_numbers_never_change),
        cmocka_unit_test(below_is_even),
        cmocka_unit_test(below_has_no_bias_at_large_bounds),
        cmocka_unit_test(range_reaches_both_ends),
        cmocka_unit_test(unit_and_chance_stay_within_their_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
