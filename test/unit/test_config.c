#include <rota/experimental/config.h>

#include "base/buffer.h"
#include "core/place/config.h"
#include <rota/experimental/random.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct rota_config *read_config(const char *text)
{
    struct rota_config *config;
    struct rota_error error;
    if (rota_config_parse(rota_str(text), "place.toml", &config, &error))
        fail_msg("%s", error.text);
    return config;
}

static void refused_with(const char *text, enum rota_code code, const char *start,
                         const char *phrase)
{
    struct rota_config *config = (struct rota_config *)text;
    struct rota_error error = {0};
    if (rota_config_parse(rota_str(text), "place.toml", &config, &error) != code)
        fail_msg("not refused, or not so: %s", error.text);
    assert_ptr_equal(config, text);
    if (!rota_str_has_prefix(rota_str(error.text), rota_str(start)) || !strstr(error.text, phrase))
        fail_msg("no \"%s...%s\" in: %s", start, phrase, error.text);
}

/* The text is refused, on this line, with a sentence that holds this phrase. */
static void refused(const char *text, int line, const char *phrase)
{
    char start[40];
    snprintf(start, sizeof start, "place.toml:%d: ", line);
    refused_with(text, ROTA_ERR_INVALID, start, phrase);
}

static struct rota_queue_config ask(const struct rota_config *config, const char *space,
                                    const char *queue, enum rota_task_type type)
{
    return rota_config_queue(config, rota_str(space), rota_str(queue), type);
}

static void check_counts(const struct rota_config *config, const char *space, const char *queue,
                         enum rota_task_type type, int64_t write, int64_t read)
{
    struct rota_queue_config found = ask(config, space, queue, type);
    assert_int_equal(found.write, write);
    assert_int_equal(found.read, read);
}

/* --- what a file says --- */

static void an_empty_file_has_the_defaults(void **state)
{
    struct rota_config *config = read_config("");
    struct rota_queue_config queue = ask(config, "n", "q", ROTA_TASK_WORKFLOW);
    struct rota_config_origin origins[ROTA_SETTINGS];
    (void)state;
    assert_int_equal(queue.write, 4);
    assert_int_equal(queue.read, 4);
    assert_int_equal(queue.degree, 20);
    assert_int_equal(queue.batch.new_value, 0);
    assert_int_equal(queue.mode.new_value, ROTA_SPREAD_LOOKUP);
    assert_int_equal(rota_config_ring_points(config), ROTA_RING_POINTS_DEFAULT);
    assert_int_equal(rota_config_align(config), 0);
    rota_config_explain(config, rota_str(""), rota_str(""), ROTA_TASK_NEXUS, origins);
    for (int i = 0; i < ROTA_SETTINGS; i++) {
        assert_int_equal(origins[i].line, 0);
        assert_int_equal(origins[i].value.new_value,
                         rota_setting_info((enum rota_setting)i)->fallback);
    }
    rota_config_unref(config);
}

static void the_top_of_the_file_holds_for_all(void **state)
{
    struct rota_config *config = read_config("matching.numTaskqueueWritePartitions = 8\n"
                                             "matching.numTaskqueueReadPartitions = 1_6\n"
                                             "matching.spreadRoutingBatchSize = 5\n"
                                             "matching.spreadRoutingMode = 'slots'\n"
                                             "matching.forwarderMaxChildrenPerNode = 3\n"
                                             "matching.alignMembershipChange = \"1m30s\"\n"
                                             "[system]\n"
                                             "ringpopReplicaPoints = 500\n");
    struct rota_queue_config queue = ask(config, "n", "q", ROTA_TASK_ACTIVITY);
    (void)state;
    assert_int_equal(queue.write, 8);
    assert_int_equal(queue.read, 16);
    assert_int_equal(queue.degree, 3);
    struct rota_spread spread = rota_queue_config_spread(&queue, rota_str("n:q:2"), 0);
    assert_int_equal(spread.batch, 5);
    assert_int_equal(spread.mode, ROTA_SPREAD_SLOTS);
    assert_int_equal(rota_config_ring_points(config), 500);
    assert_int_equal(rota_config_align(config), 90 * ROTA_SEC);
    rota_config_unref(config);
}

static const char STRENGTHS[] =
    "matching.numTaskqueueReadPartitions = 100\nmatching.numTaskqueueWritePartitions = 1\n"
    "[[override]]\ntype = 'activity'\nmatching.numTaskqueueWritePartitions = 2\n"
    "[[override]]\nnamespace = 'n'\nmatching.numTaskqueueWritePartitions = 3\n"
    "[[override]]\nnamespace = 'n'\ntype = 'activity'\nmatching.numTaskqueueWritePartitions = 4\n"
    "[[override]]\nqueue = 'q'\nmatching.numTaskqueueWritePartitions = 5\n"
    "[[override]]\nqueue = 'q'\ntype = 'activity'\nmatching.numTaskqueueWritePartitions = 6\n"
    "[[override]]\nqueue = 'q'\nnamespace = 'n'\nmatching.numTaskqueueWritePartitions = 7\n"
    "[[override]]\nqueue = 'q'\nnamespace = 'n'\ntype = 'activity'\n"
    "matching.numTaskqueueWritePartitions = 8\nmatching.numTaskqueueReadPartitions = 9\n";

static void the_more_specific_override_wins(void **state)
{
    struct rota_config *config = read_config(STRENGTHS);
    char *huge = test_malloc(3000);
    (void)state;
    check_counts(config, "x", "x", ROTA_TASK_NEXUS, 1, 100);
    check_counts(config, "x", "x", ROTA_TASK_ACTIVITY, 2, 100);
    check_counts(config, "n", "x", ROTA_TASK_NEXUS, 3, 100);
    check_counts(config, "n", "x", ROTA_TASK_ACTIVITY, 4, 100);
    check_counts(config, "x", "q", ROTA_TASK_NEXUS, 5, 100);
    check_counts(config, "x", "q", ROTA_TASK_ACTIVITY, 6, 100);
    check_counts(config, "n", "q", ROTA_TASK_NEXUS, 7, 100);
    check_counts(config, "n", "q", ROTA_TASK_ACTIVITY, 8, 9);
    check_counts(config, "", "", ROTA_TASK_UNSPECIFIED, 1, 100);

    memset(huge, 'q', 2999);
    huge[2999] = '\0';
    check_counts(config, "n", huge, ROTA_TASK_NEXUS, 3, 100);
    check_counts(config, huge, huge, ROTA_TASK_ACTIVITY, 2, 100);
    test_free(huge);
    rota_config_unref(config);
}

static void explain_names_the_line_and_the_scope(void **state)
{
    struct rota_config *config = read_config(STRENGTHS);
    struct rota_config_origin origins[ROTA_SETTINGS], *origin;
    (void)state;
    rota_config_explain(config, rota_str("n"), rota_str("q"), ROTA_TASK_NEXUS, origins);
    origin = &origins[ROTA_SETTING_WRITE_PARTITIONS];
    assert_int_equal(origin->value.new_value, 7);
    assert_int_equal(origin->line, 23);
    assert_true(origin->scope.has_queue && origin->scope.has_namespace && !origin->scope.has_type);
    assert_true(rota_str_is_equal(origin->scope.queue, rota_str("q")));
    assert_true(rota_str_is_equal(origin->scope.namespace_id, rota_str("n")));
    origin = &origins[ROTA_SETTING_READ_PARTITIONS];
    assert_int_equal(origin->line, 1);
    assert_false(origin->scope.has_queue || origin->scope.has_namespace || origin->scope.has_type);
    assert_int_equal(origins[ROTA_SETTING_SPREAD_BATCH].line, 0);
    rota_config_unref(config);
}

static void names_that_run_together_are_not_confused(void **state)
{
    struct rota_config *config =
        read_config("matching.numTaskqueueReadPartitions = 9\n"
                    "[[override]]\nnamespace = 'ab'\nqueue = 'c'\n"
                    "matching.numTaskqueueWritePartitions = 5\n"
                    "[[override]]\nnamespace = ''\nqueue = ''\n"
                    "matching.numTaskqueueWritePartitions = 6\n"
                    "[[override]]\nqueue = 'ab'\nmatching.numTaskqueueWritePartitions = 7\n");
    (void)state;
    check_counts(config, "ab", "c", ROTA_TASK_NEXUS, 5, 9);
    check_counts(config, "a", "bc", ROTA_TASK_NEXUS, 4, 9);
    check_counts(config, "", "", ROTA_TASK_NEXUS, 6, 9);
    check_counts(config, "ab", "", ROTA_TASK_NEXUS, 4, 9);
    check_counts(config, "", "ab", ROTA_TASK_NEXUS, 7, 9);
    rota_config_unref(config);
}

static void a_change_goes_key_by_key(void **state)
{
    struct rota_config *config = read_config(
        "matching.spreadRoutingBatchSize = { old = 0, new = 8, start = 2026-01-01T00:00:00Z, "
        "end = 2026-01-02T00:00:00Z }\n"
        "matching.spreadRoutingMode = { old = 'lookup', new = 'slots', start = '1767225600', "
        "end = 1767312000 }\n");
    struct rota_queue_config queue = ask(config, "n", "q", ROTA_TASK_ACTIVITY);
    rota_time start = 1767225600 * ROTA_SEC;
    int n_new = 0;
    (void)state;

    assert_int_equal(queue.batch.start, start);
    assert_int_equal(queue.batch.end, start + ROTA_DAY);
    assert_int_equal(queue.mode.start, start);
    assert_int_equal(queue.mode.end, start + ROTA_DAY);
    for (int i = 0; i < 1000; i++) {
        struct rota_partition partition = {.namespace_id = rota_str("n"),
                                           .queue = rota_str("q"),
                                           .type = ROTA_TASK_ACTIVITY,
                                           .id = i};
        struct rota_route_key key;
        rota_partition_route_key(&partition, 0, &key);
        struct rota_str text = rota_str_of(key.text, key.size);
        struct rota_spread early = rota_queue_config_spread(&queue, text, start);
        struct rota_spread middle = rota_queue_config_spread(&queue, text, start + ROTA_DAY / 2);
        struct rota_spread late = rota_queue_config_spread(&queue, text, start + ROTA_DAY);
        assert_int_equal(early.batch, 0);
        assert_int_equal(early.mode, ROTA_SPREAD_LOOKUP);
        assert_int_equal(late.batch, 8);
        assert_int_equal(late.mode, ROTA_SPREAD_SLOTS);
        assert_int_equal(middle.batch == 8, middle.mode == ROTA_SPREAD_SLOTS);
        n_new += middle.batch == 8;
    }
    assert_in_range(n_new, 400, 600);
    rota_config_unref(config);
}

static void a_share_keeps_a_configuration_alive(void **state)
{
    struct rota_config *config = read_config(STRENGTHS);
    struct rota_config *share = rota_config_ref(config);
    (void)state;
    assert_ptr_equal(share, config);
    rota_config_unref(config);
    check_counts(share, "n", "x", ROTA_TASK_NEXUS, 3, 100);
    rota_config_unref(share);
    rota_config_unref(NULL);
}

static void a_value_is_written_as_it_is_read(void **state)
{
    char text[ROTA_SETTING_TEXT_MAX], line[400];
    struct rota_gradual change = {0, 1, 1767225600 * ROTA_SEC, 1767312000 * ROTA_SEC + 1};
    struct rota_gradual fixed = rota_gradual_static(90 * ROTA_SEC);
    (void)state;
    assert_string_equal(rota_setting_format(ROTA_SETTING_SPREAD_MODE, &change, text),
                        "{ old = \"lookup\", new = \"slots\", start = 2026-01-01T00:00:00Z, "
                        "end = 2026-01-02T00:00:00.000000001Z }");
    snprintf(line, sizeof line, "matching.spreadRoutingMode = %s", text);
    struct rota_config *config = read_config(line);
    struct rota_gradual again = ask(config, "n", "q", ROTA_TASK_NEXUS).mode;
    assert_true(again.old_value == 0 && again.new_value == 1 && again.start == change.start &&
                again.end == change.end);
    rota_config_unref(config);
    assert_string_equal(rota_setting_format(ROTA_SETTING_ALIGN, &fixed, text), "\"1m30s\"");
    fixed = rota_gradual_static(7);
    assert_string_equal(rota_setting_format(ROTA_SETTING_SPREAD_BATCH, &fixed, text), "7");
}

/* --- what is refused --- */

static void an_unknown_key_is_refused_with_a_suggestion(void **state)
{
    (void)state;
    refused("\nmatching.numTaskQueueWritePartitions = 4", 2,
            "did you mean matching.numTaskqueueWritePartitions?");
    refused("spreadRoutingMode = 'slots'", 1, "did you mean matching.spreadRoutingMode?");
    refused("[matching]\nspreadRoutingMod = 'slots'", 2,
            "unknown setting matching.spreadRoutingMod; did you mean matching.spreadRoutingMode?");
    refused("entirely.different = 1", 1, "unknown setting entirely.different");
    refused("[[override]]\nqueu = 'x'", 2, "did you mean queue?");
    refused("queue = 'x'", 1, "unknown setting queue");
    refused("matching.spreadRoutingBatchSize.old = 1", 1, "unknown setting");
}

static void an_unknown_table_is_refused(void **state)
{
    (void)state;
    refused("[worker]", 1, "[worker] is not a configuration table");
    refused("\n[[overide]]\n", 2, "[[overide]] is not a configuration table");
    refused("[[matching]]\n", 1, "[[matching]] is not a configuration table");
    refused("[override]\nqueue = 'x'", 1, "an override must start with [[override]]");
    refused("[match]\n", 1, "[match] is not a configuration table");
}

static void a_value_of_another_type_is_refused(void **state)
{
    (void)state;
    refused("matching.numTaskqueueWritePartitions = '4'", 1,
            "takes an integer from 1 to 16777216, not \"4\"");
    refused("matching.numTaskqueueWritePartitions = true", 1, "not a boolean");
    refused("matching.numTaskqueueWritePartitions = {old=1,new=2,start=1,end=2}", 1, "not a table");
    refused("matching.spreadRoutingMode = 1", 1, "takes \"lookup\" or \"slots\"");
    refused("matching.spreadRoutingMode = 'slot'", 1, "not \"slot\"");
    refused("matching.spreadRoutingBatchSize = 2026-01-01T00:00:00Z", 1,
            "or a table of old, new, start and end, not a date-time");
    refused("matching.alignMembershipChange = 10", 1, "takes a duration from \"0s\" to \"1h\"");
    refused("matching.alignMembershipChange = '10'", 1, "not \"10\"");
    refused("[[override]]\nqueue = 7", 2, "queue takes a string, not an integer");
    refused("[[override]]\nqueue = {a = 1}", 2, "queue takes a string, not a table");
    refused("[[override]]\ntype = 'activty'", 2, "did you mean activity?");
    refused("[[override]]\ntype = 2", 2, "type takes a string");
}

static void a_value_out_of_bounds_is_refused(void **state)
{
    (void)state;
    refused("matching.numTaskqueueWritePartitions = 0", 1,
            "out of range: it takes an integer from 1 to 16777216");
    refused("matching.numTaskqueueReadPartitions = 16777217", 1, "out of range");
    refused("matching.numTaskqueueReadPartitions = -9223372036854775808", 1, "out of range");
    refused("matching.spreadRoutingBatchSize = 4000", 1, "takes an integer from 0 to ");
    refused("matching.spreadRoutingBatchSize = {old=-1, new=8, start=1, end=2}", 1, "from 0 to ");
    refused("matching.forwarderMaxChildrenPerNode = 0", 1, "out of range");
    refused("system.ringpopReplicaPoints = 10001", 1, "from 1 to 10000");
    refused("matching.alignMembershipChange = '2h'", 1, "out of range");
    refused("\n[[override]]\nqueue='q'\nmatching.spreadRoutingBatchSize = -1", 4, "out of range");
}

static void a_change_that_is_not_whole_is_refused(void **state)
{
    (void)state;
    refused("matching.spreadRoutingBatchSize = {}", 1, "the change has no old");
    refused("matching.spreadRoutingBatchSize = {old=0, start=1, end=2}", 1, "has no new");
    refused("matching.spreadRoutingBatchSize = {old=0, new=8, end=2}", 1, "has no start");
    refused("matching.spreadRoutingBatchSize = {old=0, new=8, start=2}", 1, "has no end");
    refused("matching.spreadRoutingBatchSize = {old=0, new=8, start=2, end=1}", 1,
            "its end is 1.000000000 s before its start");
    refused("matching.spreadRoutingBatchSize = {old=0, new=8, start=0, end=1}", 1,
            "start of a change must be a date-time or Unix seconds after 1970");
    refused("matching.spreadRoutingBatchSize = {old=0, new=8, start=-5, end=1}", 1, "start of");
    refused("matching.spreadRoutingBatchSize = {old=0, new=8, start=1, end=9223372036854775807}", 1,
            "end of a change");
    refused("matching.spreadRoutingBatchSize = {old=0, new=8, start=1, end='soon'}", 1, "end of");
    refused("matching.spreadRoutingBatchSize = {old=0, new=8, start=1, end=true}", 1, "end of");
    refused("matching.spreadRoutingBatchSize = {old=0, new=8, start=1, end={}}", 1, "end of");
    refused("matching.spreadRoutingBatchSize = {old=0, new='8', start=1, end=2}", 1, "not \"8\"");
    refused(
        "matching.spreadRoutingBatchSize = {old=0, nwe=8, start=1, end=2}", 1,
        "unknown field nwe in a change; a change has old, new, start and end; did you mean new?");
    refused("matching.spreadRoutingMode = {old='lookup', new={old=1}, start=1, end=2}", 1,
            "not a table");
}

static void an_override_without_a_proper_scope_is_refused(void **state)
{
    char text[2000] = "[[override]]\nqueue = '";
    (void)state;
    refused("\n[[override]]\nmatching.spreadRoutingBatchSize = 1", 2, "names no namespace");
    refused("[[override]]", 1, "names no namespace");
    refused("[[override]]\nqueue='q'\nsystem.ringpopReplicaPoints = 7", 3,
            "applies to all and cannot be overridden");
    refused("[[override]]\nqueue='q'\nmatching.alignMembershipChange = '1s'", 3,
            "cannot be overridden");
    refused("[[override]]\nqueue='/_sys/q/1'", 1, "starts with /_sys/, which is reserved");
    memset(text + strlen(text), 'q', ROTA_QUEUE_NAME_MAX + 1);
    strcat(text, "'");
    refused(text, 1, "at most 1000 are allowed");
}

static void two_overrides_of_one_scope_are_refused(void **state)
{
    (void)state;
    refused("[[override]]\nqueue='q'\n\n[[override]]\nqueue='r'\n[[override]]\nqueue=\"q\"\n", 6,
            "the override on line 1 has the same scope");
    refused("[[override]]\nqueue='q'\ntype='nexus'\n[[override]]\ntype='nexus'\nqueue=\"q\"\n", 4,
            "line 1");
    refused("[[override]]\nnamespace=''\n[[override]]\nnamespace=''\n", 3, "line 1");
}

static void a_file_that_is_not_toml_is_refused(void **state)
{
    (void)state;
    refused("matching.spreadRoutingBatchSize = 1\nmatching.spreadRoutingBatchSize = 1", 2,
            "already has a value, on line 1");
    refused("matching.spreadRoutingBatchSize = 1.5", 1, "floats are not supported");
    refused("[[override]]\nqueue = 'a'\nqueue = 'b'", 3, "line 2");
}

static void more_overrides_than_allowed_are_refused(void **state)
{
    struct rota_buffer text = {0};
    char start[40];
    (void)state;
    for (int i = 0; i < ROTA_CONFIG_OVERRIDES_MAX; i++)
        rota_buffer_print(&text, "[[override]]\nqueue = 'q%d'\n", i);
    rota_config_unref(read_config(text.data));
    rota_buffer_append_text(&text, "[[override]]\nqueue = 'one more'\n");
    snprintf(start, sizeof start, "place.toml:%d: ", 2 * ROTA_CONFIG_OVERRIDES_MAX + 1);
    refused_with(text.data, ROTA_ERR_LIMIT, start, "more than 4096 overrides");
    rota_buffer_deinit(&text);
}

static void a_mistake_keeps_the_previous_settings(void **state)
{
    struct rota_config *config = read_config(STRENGTHS), *same = config;
    (void)state;
    assert_int_equal(rota_config_parse(rota_str("x = 1"), "f", &config, NULL), ROTA_ERR_INVALID);
    assert_ptr_equal(config, same);
    check_counts(config, "n", "q", ROTA_TASK_ACTIVITY, 8, 9);
    rota_config_unref(config);
}

/* --- fewer read than write partitions --- */

static void fewer_read_than_write_partitions_are_refused(void **state)
{
    (void)state;
    refused("\nmatching.numTaskqueueWritePartitions = 5", 2,
            "would have 4 read partitions (the default) but 5 write partitions (line 2)");
    refused("matching.numTaskqueueReadPartitions = 3\n", 1,
            "3 read partitions (line 1) but 4 write partitions (the default)");
    refused("[[override]]\nqueue='q'\nmatching.numTaskqueueWritePartitions = 5", 3,
            "queues named \"q\" would have 4 read partitions (the default) but 5 write partitions "
            "(line 3)");

    /* Each is well by itself, but a queue of both is not. */
    refused("matching.numTaskqueueReadPartitions = 9\n"
            "[[override]]\nnamespace='n'\nmatching.numTaskqueueWritePartitions = 8\n"
            "[[override]]\nqueue='q'\nmatching.numTaskqueueReadPartitions = 5\n",
            7,
            "place.toml:7: queues named \"q\" of namespace \"n\" would have 5 read partitions "
            "(line 7) but 8 write partitions (line 4)");
    refused("[[override]]\ntype='nexus'\nmatching.numTaskqueueReadPartitions = 1", 3,
            "3: nexus queues would have 1 read partitions (line 3)");
}

static void counts_that_no_queue_has_are_not_refused(void **state)
{
    (void)state;
    /* A third override sees to the queue that the other two would spoil. */
    rota_config_unref(
        read_config("matching.numTaskqueueReadPartitions = 9\n"
                    "[[override]]\nnamespace='n'\nmatching.numTaskqueueWritePartitions = 8\n"
                    "[[override]]\nqueue='q'\nmatching.numTaskqueueReadPartitions = 5\n"
                    "[[override]]\nqueue='q'\nnamespace='n'\n"
                    "matching.numTaskqueueWritePartitions = 2\n"));
    /* Every type there is has its own count, so nobody sees the top's. */
    rota_config_unref(
        read_config("matching.numTaskqueueWritePartitions = 8\n"
                    "[[override]]\ntype='unspecified'\nmatching.numTaskqueueReadPartitions = 8\n"
                    "[[override]]\ntype='workflow'\nmatching.numTaskqueueReadPartitions = 8\n"
                    "[[override]]\ntype='activity'\nmatching.numTaskqueueReadPartitions = 9\n"
                    "[[override]]\ntype='nexus'\nmatching.numTaskqueueWritePartitions = 4\n"));
}

/* The same question answered the long way: every override is checked. */
struct plan {
    int space, queue, type; /* -1: not named */
    int64_t write, read;    /* 0: not set */
};

enum { NAMES = 3, KINDS = 4, PLANS = 14 }; /* the last name is mentioned by no reader */

static const char *const SPACES[NAMES] = {"n0", "n1", "other"};
static const char *const QUEUES[NAMES] = {"q0", "q1", "other"};

static int strength(const struct plan *plan)
{
    return 4 * (plan->queue >= 0) + 2 * (plan->space >= 0) + (plan->type >= 0);
}

static void resolve(const struct plan *plans, int n, const struct plan *queue, int64_t *write,
                    int64_t *read)
{
    int write_strength = -1, read_strength = -1;
    for (int i = 0; i < n; i++) {
        const struct plan *plan = &plans[i];
        if ((plan->space >= 0 && plan->space != queue->space) ||
            (plan->queue >= 0 && plan->queue != queue->queue) ||
            (plan->type >= 0 && plan->type != queue->type))
            continue;
        if (plan->write && strength(plan) > write_strength) {
            *write = plan->write;
            write_strength = strength(plan);
        }
        if (plan->read && strength(plan) > read_strength) {
            *read = plan->read;
            read_strength = strength(plan);
        }
    }
}

static int make_plans(struct rota_random *random, struct plan plans[PLANS])
{
    int n = 1, n_wanted = (int)rota_random_range(random, 1, PLANS);
    bool is_tame = rota_random_chance(random, 0.5);
    plans[0] = (struct plan){-1, -1, -1, rota_random_range(random, 1, 3), 0};
    plans[0].read = rota_random_range(random, is_tame ? plans[0].write : 1, 4);
    while (n < n_wanted) {
        struct plan plan = {(int)rota_random_range(random, -1, NAMES - 2),
                            (int)rota_random_range(random, -1, NAMES - 2),
                            (int)rota_random_range(random, -1, KINDS - 1), 0, 0};
        bool is_new = strength(&plan) > 0;
        for (int i = 0; i < n; i++)
            is_new = is_new && (plans[i].space != plan.space || plans[i].queue != plan.queue ||
                                plans[i].type != plan.type);
        if (!is_new)
            continue;
        plan.write = rota_random_range(random, 0, 3);
        plan.read = is_tame ? rota_random_range(random, 2, 4) : rota_random_range(random, 0, 4);
        plans[n++] = plan;
    }
    return n;
}

static void print_plans(const struct plan *plans, int n, struct rota_buffer *text)
{
    for (int i = 0; i < n; i++) {
        const struct plan *plan = &plans[i];
        if (i > 0)
            rota_buffer_append_text(text, "[[override]]\n");
        if (plan->space >= 0)
            rota_buffer_print(text, "namespace = '%s'\n", SPACES[plan->space]);
        if (plan->queue >= 0)
            rota_buffer_print(text, "queue = '%s'\n", QUEUES[plan->queue]);
        if (plan->type >= 0)
            rota_buffer_print(text, "type = '%s'\n",
                              rota_task_type_name((enum rota_task_type)plan->type));
        if (plan->write)
            rota_buffer_print(text, "matching.numTaskqueueWritePartitions = %d\n",
                              (int)plan->write);
        if (plan->read)
            rota_buffer_print(text, "matching.numTaskqueueReadPartitions = %d\n", (int)plan->read);
    }
}

/* Read one random file, and ask for every queue there can be. */
static bool agrees_with_the_long_way(struct rota_random *random, bool *is_refused)
{
    struct plan plans[PLANS];
    struct rota_buffer text = {0};
    struct rota_config *config = NULL;
    int n = make_plans(random, plans);
    bool is_bad = false, agrees = true;

    print_plans(plans, n, &text);
    *is_refused = rota_config_parse(rota_buffer_str(&text), "f", &config, NULL) != ROTA_OK;
    for (int i = 0; i < NAMES * NAMES * KINDS; i++) {
        struct plan queue = {i / KINDS % NAMES, i / KINDS / NAMES, i % KINDS, 0, 0};
        int64_t write = 0, read = 0;
        resolve(plans, n, &queue, &write, &read);
        is_bad = is_bad || read < write;
        if (config) {
            struct rota_queue_config found = ask(config, SPACES[queue.space], QUEUES[queue.queue],
                                                 (enum rota_task_type)queue.type);
            agrees = agrees && found.write == write && found.read == read;
        }
    }
    if (is_bad != *is_refused || !agrees)
        print_error("%s: %s\n", *is_refused ? "refused" : "accepted", text.data);
    rota_config_unref(config);
    rota_buffer_deinit(&text);
    return agrees && is_bad == *is_refused;
}

static void every_queue_gets_the_naive_result(void **state)
{
    struct rota_random random;
    int n_refused = 0;
    enum { ROUNDS = 20000 };
    (void)state;
    rota_random_init(&random, 1);
    for (int i = 0; i < ROUNDS; i++) {
        bool is_refused;
        assert_true(agrees_with_the_long_way(&random, &is_refused));
        n_refused += is_refused;
    }
    assert_in_range(n_refused, ROUNDS / 10, ROUNDS - ROUNDS / 10);
}

/* Files that pair everything with everything. Looking up every pair would take
 * minutes here, which is more than a test is given. */
static void many_overrides_are_judged_soon(void **state)
{
    enum { QUEUES_IN_FILE = 400, SPACES_IN_FILE = ROTA_CONFIG_OVERRIDES_MAX - 5 * QUEUES_IN_FILE };
    static char name[901];
    struct rota_buffer text = {0};
    (void)state;
    memset(name, 'x', sizeof name - 1);

    /* Both set both counts: the queue's always win. */
    for (int i = 0; i < ROTA_CONFIG_OVERRIDES_MAX; i++)
        rota_buffer_print(&text,
                          "[[override]]\n%s = '%s%d'\nmatching.numTaskqueueWritePartitions = %d\n"
                          "matching.numTaskqueueReadPartitions = %d\n",
                          i % 2 ? "queue" : "namespace", name, i, i % 2 ? 9 : 3, i % 2 ? 9 : 3);
    for (int i = 0; i < 8; i++)
        rota_config_unref(read_config(text.data));

    /* A queue's write count meets no namespace's read count, for the queue has
     * one of its own for each type. */
    rota_buffer_clear(&text);
    for (int i = 0; i < QUEUES_IN_FILE; i++) {
        rota_buffer_print(&text,
                          "[[override]]\nqueue = '%s%d'\n"
                          "matching.numTaskqueueWritePartitions = 9\n",
                          name, i);
        for (int type = 0; type < KINDS; type++)
            rota_buffer_print(&text,
                              "[[override]]\nqueue = '%s%d'\ntype = '%s'\n"
                              "matching.numTaskqueueReadPartitions = 9\n",
                              name, i, rota_task_type_name((enum rota_task_type)type));
    }
    for (int i = 0; i < SPACES_IN_FILE; i++)
        rota_buffer_print(&text,
                          "[[override]]\nnamespace = '%s%d'\n"
                          "matching.numTaskqueueReadPartitions = 4\n",
                          name, i);
    rota_config_unref(read_config(text.data));
    rota_buffer_deinit(&text);
}

/* --- the page --- */

static void the_page_has_the_table_of_the_code(void **state)
{
    struct rota_buffer table = {0};
    static char page[1 << 16];
    (void)state;
    FILE *file = fopen(TEST_DATA "/../../docs/dynamic-settings.md", "rb");
    assert_non_null(file);
    page[fread(page, 1, sizeof page - 1, file)] = '\0';
    fclose(file);
    rota_setting_print_table(&table);
    if (!strstr(page, table.data))
        fail_msg("docs/dynamic-settings.md needs this table:\n%s", table.data);
    rota_buffer_deinit(&table);
}

/* The example is the page's last block of TOML. */
static void the_example_of_the_page_is_read(void **state)
{
    static char page[1 << 16];
    struct rota_config *config;
    struct rota_error error;
    (void)state;
    FILE *file = fopen(TEST_DATA "/../../docs/dynamic-settings.md", "rb");
    assert_non_null(file);
    page[fread(page, 1, sizeof page - 1, file)] = '\0';
    fclose(file);

    char *block = NULL;
    for (char *at = page; (at = strstr(at, "```toml\n")); at += 8)
        block = at + 8;
    assert_non_null(block);
    struct rota_str text = rota_str_of(block, (size_t)(strstr(block, "```") - block));
    if (rota_config_parse(text, "docs", &config, &error))
        fail_msg("%s", error.text);
    check_counts(config, "orders", "email", ROTA_TASK_ACTIVITY, 16, 16);
    check_counts(config, "orders", "email", ROTA_TASK_WORKFLOW, 8, 8);
    check_counts(config, "orders", "sms", ROTA_TASK_ACTIVITY, 8, 8);
    check_counts(config, "users", "email", ROTA_TASK_ACTIVITY, 4, 4);
    check_counts(config, "users", "cleanup", ROTA_TASK_WORKFLOW, 1, 1);
    rota_config_unref(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_file_has_the_defaults),
        cmocka_unit_test(the_top_of_the_file_holds_for_all),
        cmocka_unit_test(the_more_specific_override_wins),
        cmocka_unit_test(explain_names_the_line_and_the_scope),
        cmocka_unit_test(names_that_run_together_are_not_confused),
        cmocka_unit_test(a_change_goes_key_by_key),
        cmocka_unit_test(a_share_keeps_a_configuration_alive),
        cmocka_unit_test(a_value_is_written_as_it_is_read),
        cmocka_unit_test(an_unknown_key_is_refused_with_a_suggestion),
        cmocka_unit_test(an_unknown_table_is_refused),
        cmocka_unit_test(a_value_of_another_type_is_refused),
        cmocka_unit_test(a_value_out_of_bounds_is_refused),
        cmocka_unit_test(a_change_that_is_not_whole_is_refused),
        cmocka_unit_test(an_override_without_a_proper_scope_is_refused),
        cmocka_unit_test(two_overrides_of_one_scope_are_refused),
        cmocka_unit_test(a_file_that_is_not_toml_is_refused),
        cmocka_unit_test(more_overrides_than_allowed_are_refused),
        cmocka_unit_test(a_mistake_keeps_the_previous_settings),
        cmocka_unit_test(fewer_read_than_write_partitions_are_refused),
        cmocka_unit_test(counts_that_no_queue_has_are_not_refused),
        cmocka_unit_test(every_queue_gets_the_naive_result),
        cmocka_unit_test(many_overrides_are_judged_soon),
        cmocka_unit_test(the_page_has_the_table_of_the_code),
        cmocka_unit_test(the_example_of_the_page_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
