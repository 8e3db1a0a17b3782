#include "core/work/cluster/layout_file.h"
#include "core/work/cluster/layouts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define Q   rota_str("q")
#define NOW (1800000000 * ROTA_SEC) /* 2027-01-15T08:00:00Z */

static const struct rota_work_layout USUAL = {
    .wanted = 16, .write = 16, .read = 16, .spread = {.mode = ROTA_SPREAD_SLOTS, .batch = 16}};

static struct rota_config *parse(const char *text)
{
    struct rota_config *config;
    struct rota_error error;
    if (rota_config_parse(rota_str(text), "f", &config, &error))
        fail_msg("%s", error.text);
    return config;
}

static struct rota_layout_file file_of(const char *text)
{
    struct rota_config *config = parse(text);
    struct rota_layout_file file = rota_layout_file_of(config, Q);
    rota_config_unref(config);
    return file;
}

static struct rota_work_layout want(const char *text, struct rota_work_layout layout)
{
    const struct rota_layout_file file = file_of(text);
    struct rota_error error;
    if (rota_layout_file_want(&file, &layout, NOW, &layout, &error))
        fail_msg("%s", error.text);
    return layout;
}

static void check(struct rota_work_layout layout, uint32_t wanted, uint32_t write, uint32_t read)
{
    assert_int_equal(layout.wanted, wanted);
    assert_int_equal(layout.write, write);
    assert_int_equal(layout.read, read);
}

#define COUNTS(n)                                                                                  \
    "matching.numTaskqueueWritePartitions = " #n "\nmatching.numTaskqueueReadPartitions = " #n "\n"

static void without_a_file_nothing_is_named(void **state)
{
    const struct rota_layout_file file = rota_layout_file_of(NULL, Q);
    const struct rota_layout_wish wish = {.wanted = 3, .has_spread = true};
    uint32_t line;
    (void)state;
    struct rota_work_layout layout = rota_layout_file_usual(&file, &USUAL);
    assert_true(rota_layout_is_equal(&layout, &USUAL));
    assert_false(rota_layout_file_decides(&file, &wish, &line));
}

static void queues_without_jobs_have_the_final_values_at_once(void **state)
{
    const struct rota_layout_file file = file_of(
        "matching.spreadRoutingBatchSize = { old = 0, new = 8, start = 2027-01-15T07:00:00Z, "
        "end = 2027-01-15T09:00:00Z }\n" COUNTS(4));
    (void)state;
    struct rota_work_layout layout = rota_layout_file_usual(&file, &USUAL);
    check(layout, 4, 4, 4);
    assert_int_equal(layout.spread.batch, 8);
    assert_int_equal(layout.spread.mode, ROTA_SPREAD_SLOTS); /* the file does not name it */
    assert_int_equal(layout.change.end, 0);
}

static void too_many_partitions_are_refused_and_leave_the_usual_ones(void **state)
{
    const struct rota_layout_file file = file_of(COUNTS(65537));
    struct rota_work_layout layout = rota_layout_file_usual(&file, &USUAL), next = {0};
    struct rota_error error;
    (void)state;
    assert_int_equal(layout.wanted, 16);
    assert_int_equal(rota_layout_file_want(&file, &USUAL, NOW, &next, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "line 1: a queue has at most 65536 partitions"));
    assert_int_equal(next.wanted, 0);
}

static void counts_change_in_steps(void **state)
{
    (void)state;
    check(want(COUNTS(8), USUAL), 8, 8, 16);
    check(want(COUNTS(32), USUAL), 32, 16, 32);
    check(want(COUNTS(16), USUAL), 16, 16, 16);
}

static void settings_that_the_file_does_not_name_stay(void **state)
{
    struct rota_work_layout set = USUAL;
    set.wanted = set.write = set.read = 4;
    set.spread.batch = 2;
    (void)state;
    struct rota_work_layout layout = want("", set);
    assert_true(rota_layout_is_equal(&layout, &set));
    layout = want("matching.spreadRoutingMode = \"lookup\"", set);
    check(layout, 4, 4, 4);
    assert_int_equal(layout.spread.batch, 2);
    assert_int_equal(layout.spread.mode, ROTA_SPREAD_LOOKUP);
}

#define WINDOW "start = 2027-01-15T07:00:00Z, end = 2027-01-15T09:00:00Z }\n"

static void a_gradual_change_is_that_of_the_file(void **state)
{
    static const char FILE[] =
        "matching.spreadRoutingBatchSize = { old = 4, new = 8, " WINDOW
        "matching.spreadRoutingMode = { old = \"lookup\", new = \"slots\", " WINDOW;
    (void)state;
    struct rota_work_layout layout = want(FILE, USUAL);
    assert_int_equal(layout.spread.batch, 8);
    assert_int_equal(layout.spread.mode, ROTA_SPREAD_SLOTS);
    assert_int_equal(layout.change.from.batch, 4);
    assert_int_equal(layout.change.from.mode, ROTA_SPREAD_LOOKUP);
    assert_int_equal(layout.change.start, NOW - ROTA_HOUR);
    assert_int_equal(layout.change.end, NOW + ROTA_HOUR);
    struct rota_work_layout again = want(FILE, layout);
    assert_true(rota_layout_is_equal(&again, &layout));
}

static void another_gradual_change_waits_for_the_end_of_one(void **state)
{
    struct rota_work_layout layout =
        want("matching.spreadRoutingBatchSize = { old = 4, new = 8, " WINDOW, USUAL);
    const struct rota_layout_file other =
        file_of("matching.spreadRoutingBatchSize = { old = 4, new = 8, "
                "start = 2027-01-15T07:00:00Z, end = 2027-01-15T10:00:00Z }");
    struct rota_error error;
    (void)state;
    assert_int_equal(rota_layout_file_want(&other, &layout, NOW, &layout, &error),
                     ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "takes 3601 more seconds"));
    /* ... but the spread it leads to, without a change, is no other one. */
    struct rota_work_layout same = want("matching.spreadRoutingBatchSize = 8", layout);
    assert_true(rota_layout_is_equal(&same, &layout));
}

static void a_change_that_is_over_has_its_new_value(void **state)
{
    (void)state;
    struct rota_work_layout layout =
        want("matching.spreadRoutingBatchSize = { old = 4, new = 8, start = 2027-01-15T06:00:00Z, "
             "end = 2027-01-15T08:00:00Z }",
             USUAL);
    assert_int_equal(layout.spread.batch, 8);
    assert_int_equal(layout.change.end, 0);
}

static void batch_and_mode_change_together(void **state)
{
    const struct rota_layout_file file =
        file_of("matching.spreadRoutingBatchSize = { old = 4, new = 8, " WINDOW
                "matching.spreadRoutingMode = { old = \"lookup\", new = \"slots\", "
                "start = 2027-01-15T07:00:00Z, end = 2027-01-15T09:00:01Z }");
    struct rota_work_layout layout = USUAL;
    struct rota_error error;
    (void)state;
    assert_int_equal(rota_layout_file_want(&file, &layout, NOW, &layout, &error), ROTA_ERR_INVALID);
    assert_string_equal(error.text,
                        "the batch in line 1 and the mode in line 2 change at different "
                        "times: give both the same start and end");
}

static void the_file_decides_about_what_it_names(void **state)
{
    const struct rota_layout_file counts = file_of("\n" COUNTS(4)),
                                  mode = file_of("matching.spreadRoutingMode = \"lookup\"");
    const struct rota_layout_wish more = {.wanted = 8}, spread = {.has_spread = true};
    uint32_t line;
    (void)state;
    assert_true(rota_layout_file_decides(&counts, &more, &line));
    assert_int_equal(line, 2);
    assert_false(rota_layout_file_decides(&counts, &spread, &line));
    assert_true(rota_layout_file_decides(&mode, &spread, &line));
    assert_int_equal(line, 1);
    assert_false(rota_layout_file_decides(&mode, &more, &line));
}

static void a_queue_that_is_not_listed_obeys_the_file(void **state)
{
    struct rota_layouts layouts;
    struct rota_work_layout set = USUAL;
    set.wanted = set.write = set.read = 2;
    (void)state;
    rota_layouts_init(&layouts, &USUAL, 1);
    rota_layouts_set_config(&layouts, parse(COUNTS(4) "[[override]]\nqueue = \"q\"\n" COUNTS(
                                          8) "matching.spreadRoutingBatchSize = 3\n"));
    check(rota_layouts_get(&layouts, Q), 8, 8, 8);
    assert_int_equal(rota_layouts_spread(&layouts, Q, 0).batch, 3);
    check(rota_layouts_get(&layouts, rota_str("other")), 4, 4, 4);
    assert_true(rota_layouts_set(&layouts, NOW, Q, &set));
    check(rota_layouts_get(&layouts, Q), 2, 2, 2);
    assert_true(rota_layouts_set(&layouts, NOW, Q, &USUAL)); /* as a queue that was deleted */
    check(rota_layouts_get(&layouts, Q), 8, 8, 8);
    rota_layouts_set_config(&layouts, NULL);
    check(rota_layouts_get(&layouts, Q), 16, 16, 16);
    rota_layouts_deinit(&layouts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_file_nothing_is_named),
        cmocka_unit_test(queues_without_jobs_have_the_final_values_at_once),
        cmocka_unit_test(too_many_partitions_are_refused_and_leave_the_usual_ones),
        cmocka_unit_test(counts_change_in_steps),
        cmocka_unit_test(settings_that_the_file_does_not_name_stay),
        cmocka_unit_test(a_gradual_change_is_that_of_the_file),
        cmocka_unit_test(another_gradual_change_waits_for_the_end_of_one),
        cmocka_unit_test(a_change_that_is_over_has_its_new_value),
        cmocka_unit_test(batch_and_mode_change_together),
        cmocka_unit_test(the_file_decides_about_what_it_names),
        cmocka_unit_test(a_queue_that_is_not_listed_obeys_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
