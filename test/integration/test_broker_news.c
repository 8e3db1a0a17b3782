/* What people are told of a broker: one sentence for each record that matters to them. */
#include "run/work/broker/work_broker_inside.h"
#include "vectors.h"

#include <stdio.h>
#include <string.h>

static char about[512], what[256];
static size_t n_told;
static bool last_is_job;

static void on_news(void *data, bool is_job, const char *subject, const char *text)
{
    assert_ptr_equal(data, &n_told);
    n_told++;
    last_is_job = is_job;
    snprintf(about, sizeof about, "%s", subject);
    snprintf(what, sizeof what, "%s", text);
}

static struct rota_work_broker *broker_that_tells(bool tells)
{
    static struct rota_work_broker broker; /* on one node: it has no cluster */
    broker.options.on_news = tells ? on_news : NULL;
    broker.options.data = &n_told;
    return &broker;
}

static void report(struct rota_work_record record)
{
    struct rota_work_effect effect = {.record = record};
    effect.record.queue = rota_str("mail");
    effect.record.id = (struct rota_job_id){1, 2};
    n_told = 0;
    rota_work_broker_news_report(broker_that_tells(true), &effect);
}

/* About the queue, or about the job. */
static void assert_told(bool is_job, const char *expected)
{
    char id[ROTA_JOB_ID_TEXT], subject[64];
    rota_job_id_format((struct rota_job_id){1, 2}, id);
    snprintf(subject, sizeof subject, "mail%s%s", is_job ? "/" : "", is_job ? id : "");
    assert_int_equal(n_told, 1);
    assert_int_equal(last_is_job, is_job);
    assert_string_equal(about, subject);
    assert_string_equal(what, expected);
}

static void a_job_that_dies_says_of_what(void **state)
{
    static char reason[101];
    char expected[256];
    (void)state;
    struct rota_work_record end = {.type = ROTA_WORK_END,
                                   .state = ROTA_JOB_DEAD,
                                   .n_attempts = 3,
                                   .cause = ROTA_JOB_CAUSE_FAILED};
    report(end);
    snprintf(expected, sizeof expected, "is dead after 3 attempts: %s",
             rota_job_cause_text(ROTA_JOB_CAUSE_FAILED));
    assert_told(true, expected);
    memset(reason, 'r', sizeof reason);
    end.reason = rota_str_of(reason, 1);
    report(end);
    strcat(expected, ": r");
    assert_told(true, expected);
    for (int size = 100; size <= 101; size++) { /* as much as has room in a line */
        end.reason = rota_str_of(reason, (size_t)size);
        report(end);
        assert_int_equal(strlen(what), strlen(expected) + 99);
    }
    end.state = ROTA_JOB_DONE; /* which is no news */
    report(end);
    assert_int_equal(n_told, 0);
    report((struct rota_work_record){.type = ROTA_WORK_REVIVE});
    assert_told(true, "is retried");
}

static void a_queue_says_what_is_set(void **state)
{
    const struct rota_work_layout layout = {.wanted = 4, .write = 5, .read = 6};
    (void)state;
    report((struct rota_work_record){.type = ROTA_WORK_PAUSE, .is_paused = true});
    assert_told(false, "is paused");
    report((struct rota_work_record){.type = ROTA_WORK_PAUSE});
    assert_told(false, "is resumed");
    report((struct rota_work_record){.type = ROTA_WORK_PAUSE, .is_paused = true, .weight = 1});
    assert_told(false, "is paused; a job is dead after killing 1 workers");
    report((struct rota_work_record){.type = ROTA_WORK_PAUSE, .weight = 7});
    assert_told(false, "is open; a job is dead after killing 7 workers");
    report((struct rota_work_record){.type = ROTA_WORK_LAYOUT, .layout = &layout});
    assert_told(false,
                "changes to 4 partitions: new jobs go to the first 5, workers read the first 6");
}

static void jobs_that_move_are_counted(void **state)
{
    static char ids[3 * 16];
    (void)state;
    struct rota_work_record chunk = {
        .type = ROTA_WORK_CHUNK, .key = rota_str("b:1"), .partition = 9};
    report(chunk);
    assert_int_equal(n_told, 0); /* it has arrived */
    chunk.bytes = rota_str_of(ids, 16);
    report(chunk);
    assert_told(false, "has 1 job of partition 9 moving to b:1");
    chunk.bytes = rota_str_of(ids, sizeof ids);
    report(chunk);
    assert_told(false, "has 3 jobs of partition 9 moving to b:1");
    chunk.key = rota_str("");
    report(chunk);
    assert_int_equal(n_told, 0); /* it is over */
}

static void usual_events_are_not_reported(void **state)
{
    static const enum rota_work_record_type types[] = {
        ROTA_WORK_ADD,    ROTA_WORK_JOB,  ROTA_WORK_START, ROTA_WORK_RETRY, ROTA_WORK_PRIORITY,
        ROTA_WORK_WEIGHT, ROTA_WORK_LIFE, ROTA_WORK_OWN,   ROTA_WORK_TAKEN, ROTA_WORK_FORGET,
    };
    struct rota_work_effect effect = {.record = {.type = ROTA_WORK_REVIVE}};
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        report((struct rota_work_record){.type = types[i]});
        assert_int_equal(n_told, 0);
    }
    rota_work_broker_news_report(broker_that_tells(false), &effect);
    assert_int_equal(n_told, 0);
    effect.queue = rota_str("late"); /* of a job that is gone: its record does not name it */
    rota_work_broker_news_report(broker_that_tells(true), &effect);
    assert_int_equal(strncmp(about, "late/", 5), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_dies_says_of_what),
        cmocka_unit_test(a_queue_says_what_is_set),
        cmocka_unit_test(jobs_that_move_are_counted),
        cmocka_unit_test(usual_events_are_not_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
