#include "base/histogram.h"

#include "vectors.h"
#include <rota/experimental/random.h>

#include <stdlib.h>

enum { N = 20000 };

static struct rota_random chance;

static int64_t uniform(int i)
{
    (void)i;
    return rota_random_range(&chance, 0, 1000000);
}

static int64_t crowded_below(int i)
{
    double unit = rota_random_unit(&chance);
    (void)i;
    return (int64_t)(unit * unit * unit * 50e6);
}

static int64_t heavy_tailed(int i)
{
    double unit = 1 - rota_random_unit(&chance);
    double value = 1000 / (unit * unit * unit);
    (void)i;
    return value < 9e18 ? (int64_t)value : INT64_MAX;
}

static int64_t two_humps(int i)
{
    return i % 100 == 0 ? 5000000000 + rota_random_range(&chance, 0, 1000)
                        : 100 + rota_random_range(&chance, 0, 10);
}

static int64_t all_the_same(int i)
{
    (void)i;
    return 123456789;
}

static int64_t any_size(int i)
{
    return (int64_t)(rota_random_next(&chance) >> (1 + i % 63));
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void assert_near(uint64_t answer, double exact)
{
    double error = (double)answer - exact;
    assert_true(-exact / 64 <= error && error <= exact / 64);
}

static void quantiles_are_near_the_exact_ones(void **state)
{
    static int64_t (*const distributions[])(int) = {uniform,   crowded_below, heavy_tailed,
                                                    two_humps, all_the_same,  any_size};
    static const double quantiles[] = {0, 0.001, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1};
    static int64_t values[N];
    (void)state;
    rota_random_init(&chance, 1);
    for (size_t d = 0; d < sizeof distributions / sizeof distributions[0]; d++) {
        struct rota_histogram histogram = {0};
        for (int i = 0; i < N; i++) {
            values[i] = distributions[d](i);
            rota_histogram_record(&histogram, values[i]);
        }
        qsort(values, N, sizeof *values, compare);
        for (size_t i = 0; i < sizeof quantiles / sizeof quantiles[0]; i++) {
            size_t rank = (size_t)(quantiles[i] * N + 0.5); /* all are whole */
            double exact = (double)values[rank > 0 ? rank - 1 : 0];
            assert_near(rota_histogram_quantile(&histogram, quantiles[i]), exact);
        }
        assert_int_equal(rota_histogram_quantile(&histogram, 1), values[N - 1]);
    }
}

static void every_number_has_a_place(void **state)
{
    (void)state;
    for (int bit = 0; bit < 63; bit++) {
        for (int64_t offset = -2; offset <= 2; offset++) {
            struct rota_histogram histogram = {0};
            int64_t value = ((int64_t)1 << bit) + offset;
            rota_histogram_record(&histogram, 0);
            rota_histogram_record(&histogram, value);
            rota_histogram_record(&histogram, INT64_MAX);
            double exact = value < 0 ? 0 : (double)value;
            assert_near(rota_histogram_quantile(&histogram, 0.5), exact);
            assert_int_equal(rota_histogram_quantile(&histogram, 1), INT64_MAX);
        }
    }
}

static void small_numbers_are_exact(void **state)
{
    struct rota_histogram histogram = {0};
    (void)state;
    for (int64_t i = 1; i < 2 * ROTA_HISTOGRAM_PARTS; i++)
        rota_histogram_record(&histogram, i);
    for (uint64_t i = 1; i < 2 * ROTA_HISTOGRAM_PARTS; i++)
        assert_int_equal(
            rota_histogram_quantile(&histogram, (double)i / (2 * ROTA_HISTOGRAM_PARTS - 1)), i);
}

static void nothing_counted_is_zero(void **state)
{
    struct rota_histogram histogram = {0};
    (void)state;
    assert_int_equal(rota_histogram_quantile(&histogram, 0.5), 0);
    rota_histogram_record(&histogram, INT64_MIN);
    assert_int_equal(histogram.count, 1);
    assert_int_equal(rota_histogram_quantile(&histogram, 0.5), 0);
}

static void merged_is_as_if_recorded_in_one(void **state)
{
    static struct rota_histogram one, parts[3], merged;
    (void)state;
    rota_random_init(&chance, 2);
    for (int i = 0; i < N; i++) {
        int64_t value = any_size(i) >> 30; /* so that the sums are exact */
        rota_histogram_record(&one, value);
        rota_histogram_record(&parts[i % 2], value);
    }
    for (int i = 0; i < 3; i++) /* the last one is empty */
        rota_histogram_merge(&merged, &parts[i]);
    assert_memory_equal(&merged, &one, sizeof one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_near_the_exact_ones),
        cmocka_unit_test(every_number_has_a_place),
        cmocka_unit_test(small_numbers_are_exact),
        cmocka_unit_test(nothing_counted_is_zero),
        cmocka_unit_test(merged_is_as_if_recorded_in_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
