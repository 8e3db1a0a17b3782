#include "base/metrics.h"

#include "vectors.h"

#include <stdio.h>

static struct rota_metrics *metrics;

static int set_up(void **state)
{
    (void)state;
    metrics = rota_metrics_new(1);
    return metrics ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    rota_metrics_free(metrics);
    return 0;
}

/* The text without the registry's own metric, which comes first. */
static const char *format(void)
{
    static struct rota_buffer buffer;
    rota_buffer_clear(&buffer);
    rota_metrics_format(metrics, &buffer);
    assert_false(buffer.failed);
    const char *end = strstr(buffer.data, "\nrota_metrics_refused_total ");
    assert_non_null(end);
    static char kept[1 << 16];
    snprintf(kept, sizeof kept, "%s", strchr(end + 1, '\n') + 1);
    rota_buffer_deinit(&buffer);
    return kept;
}

static uint64_t refused(void)
{
    return rota_counter_get(
        rota_metrics_counter(metrics, "rota_metrics_refused_total", "", NULL, 0));
}

static void text_is_prometheus(void **state)
{
    struct rota_label one[] = {{"shard", rota_str("1")}, {"host", rota_str("a:1")}};
    struct rota_label other[] = {{"host", rota_str("b:1")}, {"shard", rota_str("2")}};
    (void)state;
    rota_counter_add(rota_metrics_counter(metrics, "rota_calls_total", "Calls made", one, 2), 3);
    rota_gauge_set(rota_metrics_gauge(metrics, "rota_hosts", "Hosts\non the \\ ring", NULL, 0), -7);
    rota_counter_add(rota_metrics_counter(metrics, "rota_calls_total", "Calls made", other, 2), 4);
    struct rota_histogram *wait =
        rota_metrics_histogram(metrics, "rota_wait_seconds", "Waits", 1000000000, other, 2);
    for (int i = 0; i < 4; i++)
        rota_histogram_record(wait, 5000000);
    rota_histogram_record(rota_metrics_histogram(metrics, "rota_size", "Sizes", 1, NULL, 0), 12);
    rota_metrics_histogram(metrics, "rota_none", "Nothing", 1, NULL, 0);

    assert_string_equal(format(),
                        "# HELP rota_calls_total Calls made\n"
                        "# TYPE rota_calls_total counter\n"
                        "rota_calls_total{host=\"a:1\",shard=\"1\"} 3\n"
                        "rota_calls_total{host=\"b:1\",shard=\"2\"} 4\n"
                        "# HELP rota_hosts Hosts\\non the \\\\ ring\n"
                        "# TYPE rota_hosts gauge\n"
                        "rota_hosts -7\n"
                        "# HELP rota_wait_seconds Waits\n"
                        "# TYPE rota_wait_seconds summary\n"
                        "rota_wait_seconds{host=\"b:1\",shard=\"2\",quantile=\"0.5\"} 0.005\n"
                        "rota_wait_seconds{host=\"b:1\",shard=\"2\",quantile=\"0.99\"} 0.005\n"
                        "rota_wait_seconds{host=\"b:1\",shard=\"2\",quantile=\"0.999\"} 0.005\n"
                        "rota_wait_seconds_sum{host=\"b:1\",shard=\"2\"} 0.02\n"
                        "rota_wait_seconds_count{host=\"b:1\",shard=\"2\"} 4\n"
                        "# HELP rota_size Sizes\n"
                        "# TYPE rota_size summary\n"
                        "rota_size{quantile=\"0.5\"} 12\n"
                        "rota_size{quantile=\"0.99\"} 12\n"
                        "rota_size{quantile=\"0.999\"} 12\n"
                        "rota_size_sum 12\n"
                        "rota_size_count 1\n"
                        "# HELP rota_none Nothing\n"
                        "# TYPE rota_none summary\n"
                        "rota_none{quantile=\"0.5\"} NaN\n"
                        "rota_none{quantile=\"0.99\"} NaN\n"
                        "rota_none{quantile=\"0.999\"} NaN\n"
                        "rota_none_sum 0\n"
                        "rota_none_count 0\n");
    assert_int_equal(refused(), 0);
}

static void asking_again_gives_the_same_series(void **state)
{
    struct rota_label labels[] = {{"a", rota_str("1")}, {"b", rota_str("2")}};
    struct rota_label turned[] = {{"b", rota_str("2")}, {"a", rota_str("1")}};
    (void)state;
    struct rota_gauge *gauge = rota_metrics_gauge(metrics, "x", "X", labels, 2);
    assert_ptr_equal(gauge, rota_metrics_gauge(metrics, "x", "X", turned, 2));
    assert_ptr_not_equal(gauge, rota_metrics_gauge(metrics, "x", "X", labels, 1));
    assert_ptr_not_equal(gauge, rota_metrics_gauge(metrics, "x", "X", NULL, 0));
    rota_gauge_set(gauge, 5);
    rota_gauge_add(gauge, -7);
    assert_int_equal(rota_gauge_get(gauge), -2);
}

static void label_values_may_hold_any_bytes(void **state)
{
    struct rota_label label = {"l", rota_str_of("a\"b\\c\nd\te\0f\rg\xff\u00e9", 16)};
    (void)state;
    rota_gauge_set(rota_metrics_gauge(metrics, "x", "X", &label, 1), 1);
    assert_string_equal(format(), "# HELP x X\n"
                                  "# TYPE x gauge\n"
                                  "x{l=\"a\\\"b\\\\c\\nd\ufffde\ufffdf\ufffdg\ufffd\u00e9\"} 1\n");
}

static void assert_refused(const char *name, const char *label, struct rota_str value)
{
    struct rota_label labels[] = {{label, value}};
    uint64_t before = refused();
    struct rota_counter *counter = rota_metrics_counter(metrics, name, "X", labels, 1);
    rota_counter_add(counter, 1000);
    assert_int_equal(refused(), before + 1);
    assert_null(strstr(format(), "1000"));
}

static void bad_names_are_refused(void **state)
{
    static char long_value[ROTA_METRICS_VALUE_MAX + 1];
    struct rota_label many[ROTA_METRICS_LABELS_MAX + 1];
    char names[ROTA_METRICS_LABELS_MAX + 1][2];
    struct rota_str v = rota_str("v");
    (void)state;
    memset(long_value, 'x', sizeof long_value);
    assert_refused("", "l", v);
    assert_refused("1x", "l", v);
    assert_refused("x-y", "l", v);
    assert_refused("x{", "l", v);
    assert_refused("\u00e9", "l", v);
    assert_refused("x", "", v);
    assert_refused("x", "l:m", v);
    assert_refused("x", "__l", v);
    assert_refused("x", "quantile", v);
    assert_refused("x", "l", rota_str_of(long_value, sizeof long_value));

    for (size_t i = 0; i <= ROTA_METRICS_LABELS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "%c", (int)('a' + i));
        many[i] = (struct rota_label){names[i], v};
    }
    uint64_t before = refused();
    rota_metrics_counter(metrics, "many", "X", many, ROTA_METRICS_LABELS_MAX);
    assert_int_equal(refused(), before);
    rota_metrics_counter(metrics, "many", "X", many, ROTA_METRICS_LABELS_MAX + 1);
    many[1].name = many[0].name;
    rota_metrics_counter(metrics, "many", "X", many, 2);
    assert_int_equal(refused(), before + 2);
}

static void a_name_means_one_type(void **state)
{
    (void)state;
    rota_counter_add(rota_metrics_counter(metrics, "x:y_2", "X", NULL, 0), 1);
    rota_gauge_set(rota_metrics_gauge(metrics, "x:y_2", "X", NULL, 0), 9);
    rota_histogram_record(rota_metrics_histogram(metrics, "x:y_2", "X", 1, NULL, 0), 9);
    struct rota_label label = {"l", rota_str("v")};
    rota_gauge_set(rota_metrics_gauge(metrics, "x:y_2", "X", &label, 1), 9);
    assert_int_equal(refused(), 3);
    assert_string_equal(format(), "# HELP x:y_2 X\n# TYPE x:y_2 counter\nx:y_2 1\n");
}

static void series_have_a_bound(void **state)
{
    char text[16];
    struct rota_label label = {.name = "n"};
    struct rota_counter *first = NULL;
    (void)state;
    for (int i = 0; i < ROTA_METRICS_SERIES_MAX + 99; i++) {
        snprintf(text, sizeof text, "%d", i);
        label.value = rota_str(text);
        struct rota_counter *counter = rota_metrics_counter(metrics, "x", "X", &label, 1);
        rota_counter_add(counter, 1);
        if (i == 0)
            first = counter;
    }
    assert_int_equal(refused(), 100); /* its own series is one of them */
    label.value = rota_str("0");
    assert_ptr_equal(rota_metrics_counter(metrics, "x", "X", &label, 1), first);
    assert_int_equal(rota_counter_get(first), 1);
    rota_metrics_gauge(metrics, "another", "X", NULL, 0);
    assert_int_equal(refused(), 101);
    assert_null(strstr(format(), "another"));
}

static void series_of_a_label_can_be_forgotten(void **state)
{
    struct rota_label one[] = {{"queue", rota_str("a")}, {"state", rota_str("dead")}};
    struct rota_label trap[] = {{"queue", rota_str("b")}, {"state", rota_str("x,queue=\"a\"")}};
    (void)state;
    rota_gauge_set(rota_metrics_gauge(metrics, "jobs", "Jobs", one, 2), 1);
    rota_gauge_set(rota_metrics_gauge(metrics, "jobs", "Jobs", trap, 2), 2);
    rota_gauge_set(rota_metrics_gauge(metrics, "paused", "Paused", one, 1), 3);
    rota_metrics_forget(metrics, &one[0]);
    assert_string_equal(format(), "# HELP jobs Jobs\n# TYPE jobs gauge\n"
                                  "jobs{queue=\"b\",state=\"x,queue=\\\"a\\\"\"} 2\n");
    assert_int_equal(rota_gauge_get(rota_metrics_gauge(metrics, "jobs", "Jobs", one, 2)), 0);
}

static void text_is_what_format_writes(void **state)
{
    struct rota_metrics *registry = rota_metrics_new(1);
    struct rota_buffer buffer = {0};
    size_t size = 77;
    (void)state;
    rota_counter_add(rota_metrics_counter(registry, "calls_total", "calls", NULL, 0), 3);
    rota_metrics_format(registry, &buffer);
    char *text = rota_metrics_text(registry, &size);
    assert_int_equal(size, buffer.size);
    assert_string_equal(text, buffer.data);
    free(text);
    rota_buffer_deinit(&buffer);
    rota_metrics_free(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_what_format_writes),
        cmocka_unit_test_setup_teardown(text_is_prometheus, set_up, tear_down),
        cmocka_unit_test_setup_teardown(asking_again_gives_the_same_series, set_up, tear_down),
        cmocka_unit_test_setup_teardown(label_values_may_hold_any_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_names_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_name_means_one_type, set_up, tear_down),
        cmocka_unit_test_setup_teardown(series_have_a_bound, set_up, tear_down),
        cmocka_unit_test_setup_teardown(series_of_a_label_can_be_forgotten, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
