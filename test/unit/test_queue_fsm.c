#include "core/place/queue_fsm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static const struct rota_partition QUEUE = {
    .namespace_id = {"orders", 6}, .queue = {"email", 5}, .type = ROTA_TASK_ACTIVITY, .id = 7};

static struct rota_queue_config config_of(int64_t write, int64_t read, int64_t batch)
{
    return (struct rota_queue_config){.write = write,
                                      .read = read,
                                      .batch = rota_gradual_static(batch),
                                      .mode = rota_gradual_static(ROTA_SPREAD_SLOTS),
                                      .degree = 20};
}

static struct rota_queue_fsm queue_with(struct rota_queue_config config)
{
    struct rota_queue_fsm fsm;
    struct rota_error error;
    if (rota_queue_fsm_init(&fsm, 0, &QUEUE, &config, &error))
        fail_msg("%s", error.text);
    return fsm;
}

static void want(struct rota_queue_fsm *fsm, struct rota_queue_config config)
{
    assert_int_equal(rota_queue_fsm_want(fsm, 0, &config, NULL), ROTA_OK);
}

/* All news of `now` as text: "4/8" for counts, "p3" for a flip. */
static const char *news_at(struct rota_queue_fsm *fsm, rota_time now)
{
    static char text[256];
    struct rota_queue_news news;
    size_t end = 0;
    text[0] = '\0';
    while (rota_queue_fsm_step(fsm, now, &news)) {
        const char *space = end ? " " : "";
        if (news.type == ROTA_QUEUE_COUNTS)
            end += (size_t)snprintf(text + end, sizeof text - end, "%s%d/%d", space,
                                    (int)news.write, (int)news.read);
        else
            end += (size_t)snprintf(text + end, sizeof text - end, "%sp%d", space,
                                    (int)news.flip.partition);
    }
    return text;
}

static void initial_configuration_is_not_reported(void **state)
{
    struct rota_queue_fsm fsm = queue_with(config_of(2, 4, 3));
    (void)state;
    assert_int_equal(rota_queue_fsm_deadline(&fsm), ROTA_TIME_NEVER);
    assert_string_equal(news_at(&fsm, 0), "");
    assert_int_equal(rota_queue_fsm_config(&fsm).write, 2);
    assert_int_equal(rota_queue_fsm_config(&fsm).read, 4);
    assert_int_equal(rota_flips_fsm_spread(&fsm.flips, 3).batch, 3);
    rota_queue_fsm_deinit(&fsm);
}

static void raising_is_reported_at_once(void **state)
{
    struct rota_queue_fsm fsm = queue_with(config_of(2, 2, 0));
    (void)state;
    want(&fsm, config_of(3, 4, 0));
    assert_int_equal(rota_queue_fsm_deadline(&fsm), ROTA_TIME_MIN);
    assert_string_equal(news_at(&fsm, 0), "3/4");
    assert_string_equal(news_at(&fsm, 0), "");
    rota_queue_fsm_deinit(&fsm);
}

static void lowering_waits_for_the_reports(void **state)
{
    struct rota_queue_fsm fsm = queue_with(config_of(4, 4, 0));
    (void)state;
    rota_queue_fsm_report_empty(&fsm, 0, 3, true); /* before it counts */
    want(&fsm, config_of(2, 2, 0));
    assert_string_equal(news_at(&fsm, 0), "2/4");
    assert_int_equal(rota_queue_fsm_config(&fsm).read, 4);
    rota_queue_fsm_report_empty(&fsm, 0, 2, true);
    assert_string_equal(news_at(&fsm, 0), "");
    rota_queue_fsm_report_empty(&fsm, 0, 3, true);
    assert_string_equal(news_at(&fsm, 0), "2/2");
    rota_queue_fsm_deinit(&fsm);
}

/* Partitions flip as long as they are read, also those that are to go. */
static void partitions_flip_while_they_are_read(void **state)
{
    struct rota_queue_fsm fsm = queue_with(config_of(3, 3, 0));
    (void)state;
    want(&fsm, config_of(1, 1, 8));
    assert_string_equal(news_at(&fsm, 0), "1/3 p0 p1 p2");
    rota_queue_fsm_report_empty(&fsm, 0, 2, true);
    want(&fsm, config_of(1, 1, 4));
    assert_string_equal(news_at(&fsm, 0), "1/2 p0 p1");
    want(&fsm, config_of(1, 4, 4)); /* new ones are as they are */
    assert_string_equal(news_at(&fsm, 0), "1/4");
    assert_int_equal(rota_flips_fsm_spread(&fsm.flips, 3).batch, 4);
    rota_queue_fsm_deinit(&fsm);
}

static void partition_that_a_report_ends_does_not_flip(void **state)
{
    struct rota_queue_fsm fsm = queue_with(config_of(3, 3, 0));
    (void)state;
    want(&fsm, config_of(1, 1, 8));
    rota_queue_fsm_report_empty(&fsm, 0, 2, true);
    assert_string_equal(news_at(&fsm, 0), "1/2 p0 p1");
    rota_queue_fsm_deinit(&fsm);
}

static void refused_configuration_changes_nothing(void **state)
{
    struct rota_queue_fsm fsm = queue_with(config_of(2, 4, 3));
    struct rota_queue_config bad = config_of(4, 2, 8), large = config_of(1, INT64_MAX, 8);
    (void)state;
    assert_int_equal(rota_queue_fsm_want(&fsm, 0, &bad, NULL), ROTA_ERR_INVALID);
    assert_int_equal(rota_queue_fsm_want(&fsm, 0, &large, NULL), ROTA_ERR_INVALID);
    assert_string_equal(news_at(&fsm, 0), "");
    assert_int_equal(rota_queue_fsm_config(&fsm).batch.new_value, 3);
    rota_queue_fsm_deinit(&fsm);
}

/* Whoever made the queue may reuse the memory of its names. */
static void names_of_the_queue_are_copied(void **state)
{
    struct rota_queue_config config = config_of(2, 4, 3);
    char space[] = "orders", name[] = "email";
    struct rota_partition queue = QUEUE;
    struct rota_queue_fsm fsm;
    (void)state;
    queue.namespace_id = rota_str(space);
    queue.queue = rota_str(name);
    assert_int_equal(rota_queue_fsm_init(&fsm, 0, &queue, &config, NULL), ROTA_OK);
    space[0] = name[0] = 'x';
    assert_true(rota_str_is_equal(fsm.queue.namespace_id, rota_str("orders")));
    assert_true(rota_str_is_equal(fsm.queue.queue, rota_str("email")));
    assert_true(rota_str_is_equal(fsm.flips.queue.namespace_id, rota_str("orders")));
    assert_true(rota_str_is_equal(fsm.flips.queue.queue, rota_str("email")));
    assert_int_equal(fsm.queue.id, 0);
    rota_queue_fsm_deinit(&fsm);
    assert_null(fsm.names);
    assert_null(fsm.counts.empties);
}

static void reports_have_both_counts_and_both_spreads(void **state)
{
    struct rota_queue_fsm fsm = queue_with(config_of(2, 2, 3));
    struct rota_queue_news news;
    (void)state;
    want(&fsm, config_of(1, 3, 5));
    assert_true(rota_queue_fsm_step(&fsm, 0, &news));
    assert_int_equal(news.type, ROTA_QUEUE_COUNTS);
    assert_int_equal(news.flip.new_spread.batch, 0);
    assert_true(rota_queue_fsm_step(&fsm, 0, &news));
    assert_int_equal(news.type, ROTA_QUEUE_FLIP);
    assert_int_equal(news.write, 1);
    assert_int_equal(news.read, 3);
    assert_int_equal(news.flip.partition, 0);
    assert_int_equal(news.flip.old_spread.batch, 3);
    assert_int_equal(news.flip.new_spread.batch, 5);
    rota_queue_fsm_deinit(&fsm);
}

/* One of the two counts is enough. */
static void each_count_alone_is_reported(void **state)
{
    struct rota_queue_fsm fsm = queue_with(config_of(2, 3, 3));
    (void)state;
    want(&fsm, config_of(1, 3, 3));
    assert_int_equal(rota_queue_fsm_deadline(&fsm), ROTA_TIME_MIN);
    assert_string_equal(news_at(&fsm, 0), "1/3");
    assert_int_equal(rota_queue_fsm_deadline(&fsm), ROTA_TIME_NEVER);
    want(&fsm, config_of(1, 4, 3));
    assert_int_equal(rota_queue_fsm_deadline(&fsm), ROTA_TIME_MIN);
    assert_string_equal(news_at(&fsm, 0), "1/4");
    assert_int_equal(rota_queue_fsm_config(&fsm).write, 1);
    assert_int_equal(rota_queue_fsm_config(&fsm).degree, 20);
    rota_queue_fsm_deinit(&fsm);
}

static void id_of_the_queue_is_ignored(void **state)
{
    struct rota_queue_config config = config_of(2, 4, 3);
    struct rota_partition queue = QUEUE;
    struct rota_queue_fsm fsm;
    (void)state;
    queue.id = -1;
    assert_int_equal(rota_queue_fsm_init(&fsm, 0, &queue, &config, NULL), ROTA_OK);
    rota_queue_fsm_deinit(&fsm);
}

static void invalid_queue_is_refused(void **state)
{
    struct rota_queue_config config = config_of(1, 1, 0);
    struct rota_partition sticky = QUEUE, reserved = QUEUE;
    struct rota_queue_fsm fsm;
    (void)state;
    sticky.kind = ROTA_PARTITION_STICKY;
    reserved.queue = rota_str("/_sys/q/1");
    assert_int_equal(rota_queue_fsm_init(&fsm, 0, &sticky, &config, NULL), ROTA_ERR_INVALID);
    assert_int_equal(rota_queue_fsm_init(&fsm, 0, &reserved, &config, NULL), ROTA_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_configuration_is_not_reported),
        cmocka_unit_test(raising_is_reported_at_once),
        cmocka_unit_test(lowering_waits_for_the_reports),
        cmocka_unit_test(partitions_flip_while_they_are_read),
        cmocka_unit_test(partition_that_a_report_ends_does_not_flip),
        cmocka_unit_test(refused_configuration_changes_nothing),
        cmocka_unit_test(names_of_the_queue_are_copied),
        cmocka_unit_test(reports_have_both_counts_and_both_spreads),
        cmocka_unit_test(each_count_alone_is_reported),
        cmocka_unit_test(id_of_the_queue_is_ignored),
        cmocka_unit_test(invalid_queue_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
