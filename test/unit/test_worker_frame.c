/* The frames between a broker and its workers: frames read back as written, and invalid ones are
 * refused. The bytes are compared with protobuf's. */
#include "wire/message/worker_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define STR(text) rota_str(text)

static struct rota_buffer body;

static int setup(void **state)
{
    (void)state;
    memset(&body, 0, sizeof body);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rota_buffer_deinit(&body);
    return 0;
}

static struct rota_str written(void)
{
    assert_false(body.failed);
    return rota_buffer_str(&body);
}

/* --- the frame --- */

static void a_frame_is_a_name_and_a_body(void **state)
{
    uint8_t frame[32];
    struct rota_str type, rest;
    (void)state;
    uint8_t *to = rota_worker_frame_head_write(frame, STR("text"));
    assert_int_equal(to - frame, rota_worker_head_size(STR("text")));
    memcpy(to, "hello", 5);
    assert_int_equal(rota_worker_frame_parse(rota_str_of(frame, 10), &type, &rest, NULL), ROTA_OK);
    assert_true(rota_str_is_equal(type, STR("text")) && rota_str_is_equal(rest, STR("hello")));
    assert_int_equal(rota_worker_frame_parse(rota_str_of(frame, 5), &type, &rest, NULL), ROTA_OK);
    assert_int_equal(rest.size, 0);
    for (size_t size = 0; size < 5; size++)
        assert_int_equal(rota_worker_frame_parse(rota_str_of(frame, size), &type, &rest, NULL),
                         ROTA_ERR_INVALID);
}

/* --- the session --- */

static void a_hello_reads_back_as_protobuf_would_write_it(void **state)
{
    static const char bytes[] = "\x0a\x0brota-worker\x10\x01\x1a\x05"
                                "alpha \xac\x02";
    struct rota_worker_hello hello = {.version = 1, .name = STR("alpha"), .epoch = 300}, read;
    (void)state;
    rota_worker_frame_hello_write(&hello, &body);
    assert_int_equal(written().size, sizeof bytes - 1);
    assert_memory_equal(written().data, bytes, sizeof bytes - 1);
    assert_int_equal(rota_worker_frame_hello_read(written(), &read, NULL), ROTA_OK);
    assert_true(rota_str_is_equal(read.name, hello.name));
    assert_int_equal(read.epoch, 300);
}

static void another_protocol_or_version_is_recognized(void **state)
{
    struct rota_worker_hello hello = {.version = 2, .name = STR("alpha"), .epoch = 1}, read;
    struct rota_error error;
    (void)state;
    rota_worker_frame_hello_write(&hello, &body);
    assert_int_equal(rota_worker_frame_hello_read(written(), &read, &error), ROTA_ERR_UNAVAILABLE);
    assert_non_null(strstr(error.text, "version 2"));
    assert_int_equal(rota_worker_frame_hello_read(STR(""), &read, &error), ROTA_ERR_UNAVAILABLE);
    assert_int_equal(rota_worker_frame_hello_read(STR("\x0a"), &read, &error), ROTA_ERR_INVALID);
    assert_int_equal(rota_worker_frame_hello_read(STR("\x08\x01"), &read, &error),
                     ROTA_ERR_INVALID);
}

static void a_name_is_printable_and_has_no_blanks(void **state)
{
    char name[ROTA_WORKER_NAME_MAX + 2];
    (void)state;
    memset(name, 'x', sizeof name);
    assert_int_equal(rota_worker_frame_name_check(rota_str_of(name, ROTA_WORKER_NAME_MAX), NULL),
                     ROTA_OK);
    assert_int_equal(rota_worker_frame_name_check(rota_str_of(name, sizeof name - 1), NULL),
                     ROTA_ERR_INVALID);
    assert_int_equal(rota_worker_frame_name_check(STR(""), NULL), ROTA_ERR_INVALID);
    assert_int_equal(rota_worker_frame_name_check(STR("a b"), NULL), ROTA_ERR_INVALID);
    assert_int_equal(rota_worker_frame_name_check(STR("\xc3\xbc"), NULL), ROTA_ERR_INVALID);
    assert_int_equal(rota_worker_frame_name_check(rota_str_of("a\0b", 3), NULL), ROTA_ERR_INVALID);
}

static void a_welcome_has_a_valid_heartbeat(void **state)
{
    struct rota_worker_welcome welcome = {1, 9, {250 * ROTA_MSEC, 4}, 1000}, read;
    static const struct {
        rota_time interval;
        uint32_t missed_max;
        uint64_t session;
    } wrong[] = {
        {0, 3, 1},        {ROTA_MSEC, 3, 1},  {ROTA_HOUR, 3, 1},
        {ROTA_SEC, 0, 1}, {ROTA_SEC, 101, 1}, {ROTA_SEC, 3, 0},
    };
    (void)state;
    rota_worker_frame_welcome_write(&welcome, &body);
    assert_int_equal(rota_worker_frame_welcome_read(written(), &read, NULL), ROTA_OK);
    assert_int_equal(read.session, 9);
    assert_int_equal(read.beat.interval, 250 * ROTA_MSEC);
    assert_int_equal(read.beat.missed_max, 4);
    assert_int_equal(read.message_max, 1000);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        rota_buffer_clear(&body);
        welcome.beat = (struct rota_beat){wrong[i].interval, wrong[i].missed_max};
        welcome.session = wrong[i].session;
        rota_worker_frame_welcome_write(&welcome, &body);
        assert_int_equal(rota_worker_frame_welcome_read(written(), &read, NULL), ROTA_ERR_INVALID);
    }
}

static void a_goodbye_of_the_future_is_a_refusal(void **state)
{
    struct rota_worker_bye bye = {ROTA_BYE_REPLACED, STR("why")}, read;
    (void)state;
    rota_worker_frame_bye_write(&bye, &body);
    assert_int_equal(rota_worker_frame_bye_read(written(), &read, NULL), ROTA_OK);
    assert_int_equal(read.reason, ROTA_BYE_REPLACED);
    assert_true(rota_str_is_equal(read.text, bye.text));
    assert_int_equal(rota_worker_frame_bye_read(STR("\x08\x63"), &read, NULL), ROTA_OK);
    assert_int_equal(read.reason, ROTA_BYE_REFUSED);
    assert_int_equal(rota_worker_frame_bye_read(STR(""), &read, NULL), ROTA_OK);
    assert_int_equal(read.reason, ROTA_BYE_STOPPING);
}

/* --- batches --- */

static const struct rota_job_id ID = {0x0123456789abcdefu, 0xfedcba9876543210u};

static void a_batch_of_jobs_reads_back_in_order(void **state)
{
    struct rota_worker_batch batch;
    struct rota_worker_job read;
    enum rota_code code = ROTA_ERR_IO;
    (void)state;
    for (uint64_t i = 1; i <= 3; i++) {
        struct rota_worker_job job = {
            .queue = STR("matches"),
            .id = ID,
            .attempt = i << 32,
            .n_attempts = (uint32_t)i,
            .priority = (int16_t)-i,
            .timeout = (rota_time)i * ROTA_SEC + 1,
            .payload = rota_str_of("a\0b", 3),
            .key = STR("team"),
            .trace = STR("trace"),
        };
        rota_worker_batch_job_write(&job, &body);
    }
    batch = rota_worker_batch(written());
    for (uint64_t i = 1; i <= 3; i++) {
        assert_true(rota_worker_batch_job_next(&batch, &read, &code, NULL));
        assert_true(rota_str_is_equal(read.queue, STR("matches")));
        assert_true(read.id.high == ID.high && read.id.low == ID.low);
        assert_int_equal(read.attempt, i << 32);
        assert_int_equal(read.n_attempts, i);
        assert_int_equal(read.priority, -(int)i);
        assert_int_equal(read.timeout, (rota_time)i * ROTA_SEC + ROTA_MSEC); /* rounded up */
        assert_int_equal(read.payload.size, 3);
        assert_true(rota_str_is_equal(read.key, STR("team")));
        assert_true(rota_str_is_equal(read.trace, STR("trace")));
    }
    assert_false(rota_worker_batch_job_next(&batch, &read, &code, NULL));
    assert_int_equal(code, ROTA_OK);
}

static void ends_verdicts_cancels_and_steps_read_back(void **state)
{
    struct rota_worker_batch batch;
    enum rota_code code;
    (void)state;
    struct rota_attempt_end end = {.queue = STR("q"),
                                   .id = ID,
                                   .attempt = 7,
                                   .cause = ROTA_JOB_CAUSE_FAILED,
                                   .bytes = STR("bytes"),
                                   .reason = STR("why"),
                                   .retry_after = 5 * ROTA_SEC},
                            read_end;
    rota_worker_batch_end_write(&end, &body);
    batch = rota_worker_batch(written());
    assert_true(rota_worker_batch_end_next(&batch, &read_end, &code, NULL));
    assert_int_equal(read_end.cause, ROTA_JOB_CAUSE_FAILED);
    assert_int_equal(read_end.retry_after, 5 * ROTA_SEC);
    assert_true(rota_str_is_equal(read_end.bytes, end.bytes));
    assert_true(rota_str_is_equal(read_end.reason, end.reason));

    rota_buffer_clear(&body);
    struct rota_worker_verdict verdict = {STR("q"), ID, 7, ROTA_ERR_STALE}, read_verdict;
    rota_worker_batch_verdict_write(&verdict, &body);
    batch = rota_worker_batch(written());
    assert_true(rota_worker_batch_verdict_next(&batch, &read_verdict, &code, NULL));
    assert_int_equal(read_verdict.code, ROTA_ERR_STALE);

    rota_buffer_clear(&body);
    struct rota_worker_cancel cancel = {STR("q"), ID, 7, ROTA_JOB_CAUSE_TIMED_OUT}, read_cancel;
    rota_worker_batch_cancel_write(&cancel, &body);
    batch = rota_worker_batch(written());
    assert_true(rota_worker_batch_cancel_next(&batch, &read_cancel, &code, NULL));
    assert_int_equal(read_cancel.cause, ROTA_JOB_CAUSE_TIMED_OUT);

    rota_buffer_clear(&body);
    struct rota_worker_step step = {STR("q"), ID, 7, STR("half")}, read_step;
    rota_worker_batch_step_write(&step, &body);
    batch = rota_worker_batch(written());
    assert_true(rota_worker_batch_step_next(&batch, &read_step, &code, NULL));
    assert_true(rota_str_is_equal(read_step.text, STR("half")));
    assert_false(rota_worker_batch_step_next(&batch, &read_step, &code, NULL));
    assert_int_equal(code, ROTA_OK);
}

static void check_end(struct rota_attempt_end end)
{
    struct rota_attempt_end read;
    enum rota_code code = ROTA_OK;
    struct rota_error error;
    rota_buffer_clear(&body);
    rota_worker_batch_end_write(&end, &body);
    struct rota_worker_batch batch = rota_worker_batch(written());
    assert_false(rota_worker_batch_end_next(&batch, &read, &code, &error));
    assert_int_equal(code, ROTA_ERR_INVALID);
    assert_true(strlen(error.text) > 0);
}

static void an_invalid_end_is_refused(void **state)
{
    struct rota_attempt_end good = {
        .queue = STR("q"), .id = ID, .attempt = 7, .cause = ROTA_JOB_CAUSE_DONE};
    struct rota_attempt_end wrong;
    (void)state;
    wrong = good, wrong.queue = STR("no blanks");
    check_end(wrong);
    wrong = good, wrong.queue = STR("");
    check_end(wrong);
    wrong = good, wrong.id = (struct rota_job_id){0, 0};
    check_end(wrong);
    wrong = good, wrong.attempt = 0;
    check_end(wrong);
}

/* What the broker judges: who said it keeps its session, and its other jobs. */
static void a_valid_end_is_read_whatever_its_text(void **state)
{
    char *large = calloc(1, ROTA_JOB_PAYLOAD_MAX + 1);
    struct rota_attempt_end end = {.queue = STR("q"),
                                   .id = ID,
                                   .attempt = 7,
                                   .cause = (enum rota_job_cause)99,
                                   .bytes = rota_str_of(large, ROTA_JOB_PAYLOAD_MAX + 1),
                                   .reason = rota_str_of(large, 5000)};
    struct rota_worker_step step = {STR("q"), ID, 7, rota_str_of(large, 5000)}, read_step;
    struct rota_attempt_end read;
    enum rota_code code = ROTA_OK;
    (void)state;
    rota_worker_batch_end_write(&end, &body);
    struct rota_worker_batch batch = rota_worker_batch(written());
    assert_true(rota_worker_batch_end_next(&batch, &read, &code, NULL));
    assert_int_equal(read.cause, ROTA_JOB_CAUSE_NONE);
    assert_int_equal(read.bytes.size, ROTA_JOB_PAYLOAD_MAX + 1);
    assert_int_equal(read.reason.size, 5000);
    rota_buffer_clear(&body);
    rota_worker_batch_step_write(&step, &body);
    batch = rota_worker_batch(written());
    assert_true(rota_worker_batch_step_next(&batch, &read_step, &code, NULL));
    assert_int_equal(read_step.text.size, 5000);
    free(large);
}

static void a_batch_has_a_bound_and_earlier_entries_are_valid(void **state)
{
    struct rota_worker_step step = {STR("q"), ID, 7, STR("")}, read;
    enum rota_code code = ROTA_OK;
    (void)state;
    for (int i = 0; i <= ROTA_WORKER_BATCH_MAX; i++)
        rota_worker_batch_step_write(&step, &body);
    struct rota_worker_batch batch = rota_worker_batch(written());
    for (int i = 0; i < ROTA_WORKER_BATCH_MAX; i++)
        assert_true(rota_worker_batch_step_next(&batch, &read, &code, NULL));
    assert_false(rota_worker_batch_step_next(&batch, &read, &code, NULL));
    assert_int_equal(code, ROTA_ERR_INVALID);
}

static void unknown_later_fields_are_skipped(void **state)
{
    uint32_t slots = 0;
    (void)state;
    assert_int_equal(rota_worker_batch_slots_read(STR("\x08\x05\x98\x06\x01"), &slots, NULL),
                     ROTA_OK);
    assert_int_equal(slots, 5);
}

static void verdicts_may_go_along_with_jobs(void **state)
{
    struct rota_worker_verdict verdict = {STR("q"), ID, 7, ROTA_ERR_STALE}, read_verdict;
    struct rota_worker_job job = {.queue = STR("q"), .id = ID, .attempt = 8}, read_job;
    struct rota_buffer verdicts = {0};
    enum rota_code code;
    (void)state;
    for (verdict.attempt = 1; verdict.attempt <= 3; verdict.attempt++)
        rota_worker_batch_verdict_write(&verdict, &verdicts);
    rota_buffer_clear(&body);
    rota_worker_batch_job_write(&job, &body);
    rota_worker_batch_ended_append(rota_buffer_str(&verdicts), &body);
    rota_worker_batch_job_write(&job, &body);

    struct rota_worker_batch batch = rota_worker_batch(written());
    for (int i = 0; i < 2; i++) {
        assert_true(rota_worker_batch_job_next(&batch, &read_job, &code, NULL));
        assert_int_equal(read_job.attempt, 8);
    }
    assert_false(rota_worker_batch_job_next(&batch, &read_job, &code, NULL));
    assert_int_equal(code, ROTA_OK);

    batch = rota_worker_ended_batch(written());
    for (uint64_t i = 1; i <= 3; i++) {
        assert_true(rota_worker_batch_verdict_next(&batch, &read_verdict, &code, NULL));
        assert_int_equal(read_verdict.attempt, i);
        assert_int_equal(read_verdict.code, ROTA_ERR_STALE);
    }
    assert_false(rota_worker_batch_verdict_next(&batch, &read_verdict, &code, NULL));
    assert_int_equal(code, ROTA_OK);
    rota_buffer_deinit(&verdicts);
}

/* --- ready --- */

static struct rota_str capabilities[ROTA_WORKER_CAPABILITIES_MAX], queues[ROTA_WORKER_QUEUES_MAX];
static struct rota_worker_running running[ROTA_WORKER_SLOTS_MAX];

static void offers_of_a_worker_read_back(void **state)
{
    struct rota_str has[] = {STR("gpu"), STR("game=go")}, serves[] = {STR("matches")};
    struct rota_worker_running runs[] = {{STR("matches"), ID, 3}};
    struct rota_worker_ready ready = {has, serves, runs, 2, 1, 1, 4, true};
    struct rota_worker_ready read = {
        .capabilities = capabilities, .queues = queues, .running = running};
    (void)state;
    rota_worker_batch_ready_write(&ready, &body);
    assert_int_equal(rota_worker_batch_ready_read(written(), &read, NULL), ROTA_OK);
    assert_true(read.takes_ended_with_jobs);
    assert_int_equal(read.n_capabilities, 2);
    assert_true(rota_str_is_equal(capabilities[1], STR("game=go")));
    assert_int_equal(read.n_queues, 1);
    assert_int_equal(read.slots, 4);
    assert_int_equal(read.n_running, 1);
    assert_int_equal(running[0].attempt, 3);
}

static void an_invalid_offer_is_refused(void **state)
{
    struct rota_str many[ROTA_WORKER_CAPABILITIES_MAX + 1], serves[] = {STR("q")};
    struct rota_worker_ready read = {
        .capabilities = capabilities, .queues = queues, .running = running};
    struct rota_error error;
    (void)state;
    assert_int_equal(rota_worker_batch_ready_read(STR(""), &read, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "no queue"));
    for (size_t i = 0; i <= ROTA_WORKER_CAPABILITIES_MAX; i++)
        many[i] = STR("c");
    struct rota_worker_ready ready = {.capabilities = many,
                                      .n_capabilities = ROTA_WORKER_CAPABILITIES_MAX + 1,
                                      .queues = serves,
                                      .n_queues = 1};
    rota_worker_batch_ready_write(&ready, &body);
    assert_int_equal(rota_worker_batch_ready_read(written(), &read, &error), ROTA_ERR_LIMIT);
    many[0] = STR("not a capability");
    ready.n_capabilities = 1;
    rota_buffer_clear(&body);
    rota_worker_batch_ready_write(&ready, &body);
    assert_int_equal(rota_worker_batch_ready_read(written(), &read, &error), ROTA_ERR_INVALID);
    ready.n_capabilities = 0;
    ready.slots = ROTA_WORKER_SLOTS_MAX + 1;
    rota_buffer_clear(&body);
    rota_worker_batch_ready_write(&ready, &body);
    assert_int_equal(rota_worker_batch_ready_read(written(), &read, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "slots"));
}

/* --- what it has --- */

static void attempts_of_a_worker_read_back_as_written(void **state)
{
    static struct rota_worker_running room[ROTA_WORKER_HELD_MAX];
    struct rota_worker_running held[] = {{STR("q"), {1, 2}, 3}, {STR("p"), {4, 5}, UINT64_MAX}};
    struct rota_worker_holds holds = {held, 2, 7, 8, false, 0}, read = {.held = room};
    struct rota_worker_check check = {UINT64_MAX, 1}, same;
    (void)state;
    rota_buffer_clear(&body);
    rota_worker_batch_holds_write(&holds, &body);
    assert_int_equal(rota_worker_batch_holds_read(written(), &read, NULL), ROTA_OK);
    assert_int_equal(read.n_held, 2);
    assert_int_equal(read.up_to, 7);
    assert_int_equal(read.round, 8);
    assert_int_equal(room[1].attempt, UINT64_MAX);
    assert_int_equal(room[1].id.low, 5);
    assert_false(read.has_slots);
    for (uint32_t slots = 0; slots <= ROTA_WORKER_SLOTS_MAX; slots += ROTA_WORKER_SLOTS_MAX) {
        struct rota_worker_holds more = {held, 2, 7, 8, true, slots};
        rota_buffer_clear(&body);
        rota_worker_batch_holds_write(&more, &body);
        assert_int_equal(rota_worker_batch_holds_read(written(), &read, NULL), ROTA_OK);
        assert_true(read.has_slots && read.slots == slots && read.n_held == 2);
    }
    assert_int_equal(rota_worker_batch_holds_read(STR("\x20\x82\x20"), &read, NULL),
                     ROTA_ERR_INVALID);
    assert_int_equal(rota_worker_batch_holds_read(STR("\x22\x00"), &read, NULL), ROTA_ERR_INVALID);
    rota_buffer_clear(&body);
    rota_worker_batch_check_write(&check, &body);
    assert_int_equal(rota_worker_batch_check_read(written(), &same, NULL), ROTA_OK);
    assert_true(same.up_to == check.up_to && same.round == 1);
    assert_int_equal(rota_worker_batch_holds_read(written(), &read, NULL), ROTA_OK);
    assert_int_equal(read.n_held, 0);
}

static void attempts_of_a_worker_are_bounded(void **state)
{
    static struct rota_worker_running held[ROTA_WORKER_HELD_MAX + 1];
    struct rota_worker_holds holds = {held, ROTA_WORKER_HELD_MAX + 1, 7, 8, false, 0};
    struct rota_worker_holds read = {.held = held};
    struct rota_error error;
    (void)state;
    for (size_t i = 0; i <= ROTA_WORKER_HELD_MAX; i++)
        held[i] = (struct rota_worker_running){STR("q"), {1, i + 1}, 1};
    rota_buffer_clear(&body);
    rota_worker_batch_holds_write(&holds, &body);
    assert_int_equal(rota_worker_batch_holds_read(written(), &read, &error), ROTA_ERR_LIMIT);
    assert_int_equal(rota_worker_batch_holds_read(STR("\x0a\x01"), &read, &error),
                     ROTA_ERR_INVALID);
    assert_int_equal(rota_worker_batch_holds_read(STR("\x08\x01"), &read, &error),
                     ROTA_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(a_frame_is_a_name_and_a_body),
        TEST(a_hello_reads_back_as_protobuf_would_write_it),
        TEST(another_protocol_or_version_is_recognized),
        TEST(a_name_is_printable_and_has_no_blanks),
        TEST(a_welcome_has_a_valid_heartbeat),
        TEST(a_goodbye_of_the_future_is_a_refusal),
        TEST(a_batch_of_jobs_reads_back_in_order),
        TEST(ends_verdicts_cancels_and_steps_read_back),
        TEST(an_invalid_end_is_refused),
        TEST(a_valid_end_is_read_whatever_its_text),
        TEST(a_batch_has_a_bound_and_earlier_entries_are_valid),
        TEST(unknown_later_fields_are_skipped),
        TEST(offers_of_a_worker_read_back),
        TEST(an_invalid_offer_is_refused),
        cmocka_unit_test(verdicts_may_go_along_with_jobs),
        cmocka_unit_test(attempts_of_a_worker_read_back_as_written),
        cmocka_unit_test(attempts_of_a_worker_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
