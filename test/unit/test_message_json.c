/* Messages as JSON, with those of rota.v1.Queue. */
#include "wire/message/message_json.h"
#include "wire/message/queue_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct rota_arena arena;
static struct rota_error error;

static int tear_down(void **state)
{
    (void)state;
    rota_arena_deinit(&arena);
    return 0;
}

static void check_written(const struct rota_message_type *type, const void *message,
                          const char *text)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    rota_message_json_write(type, message, &json);
    assert_string_equal(buffer.data, text);
    rota_buffer_deinit(&buffer);
}

static void all_members_are_written(void **state)
{
    struct rota_str can[] = {rota_str("gpu"), rota_str("x\"y")};
    struct rota_queue_job_spec spec = {
        .queue = rota_str("mail"),
        .payload = rota_str_of("\xff\0a", 3),
        .id = rota_str_of("\0\1\2\3\4\5\6\7\x8\x9\xa\xb\xc\xd\xe\xff", 16),
        .can = {can, 2},
        .priority = -7,
        .deadline_ms = 12,
        .key = rota_str("<b>\xc3\xa4</b>"),
    };
    struct rota_queue_event event = {.at_ms = 1, .state = ROTA_JOB_RUNNING, .attempt = 3};
    struct rota_queue_job_info info = {
        .spec = &spec, .state = ROTA_JOB_DEAD, .cause = 99, .events = {&event, 1}};
    (void)state;
    check_written(
        &ROTA_QUEUE_JOB_INFO, &info,
        "{\"spec\":{\"queue\":\"mail\",\"payload\":{\"base64\":\"/wBh\"},"
        "\"id\":\"000102030405060708090a0b0c0d0eff\",\"can\":[\"gpu\",\"x\\\"y\"],\"partition\":0,"
        "\"priority\":-7,\"delay_ms\":0,\"not_before_ms\":0,\"deadline_ms\":12,\"timeout_ms\":0,"
        "\"max_attempts\":0,\"backoff_ms\":0,\"backoff_max_ms\":0,\"unique\":\"\","
        "\"key\":\"<b>\xc3\xa4</"
        "b>\",\"trace\":\"\",\"is_again\":false,\"is_known\":false,\"idempotency_key\":\"\"},"
        "\"state\":\"dead\",\"cause\":99,"
        "\"enqueued_ms\":0,\"ended_ms\":0,\"not_before_ms\":0,\"attempt\":0,\"n_attempts\":0,"
        "\"worker\":\"\",\"progress\":\"\",\"reason\":\"\",\"result\":\"\","
        "\"events\":[{\"at_ms\":1,\"state\":\"running\",\"cause\":\"none\",\"attempt\":3,"
        "\"worker\":\"\",\"reason\":\"\"}]}");
    check_written(&ROTA_QUEUE_DESCRIPTION, &(struct rota_queue_description){0},
                  "{\"job\":null,\"explain\":\"\"}");
}

static void members_are_read_in_any_order(void **state)
{
    struct rota_queue_job_spec spec;
    (void)state;
    assert_int_equal(
        rota_message_json_read(
            &ROTA_QUEUE_JOB_SPEC,
            rota_str(" { \"priority\" : -3, \"queue\":\"m\\u00e4\", \"can\":[\"a\",\"b\"],"
                     "\"id\":\"000102030405060708090A0b0c0d0eff\","
                     "\"payload\": {\"base64\":\"/wBh\"}, \"key\":\"k\", \"delay_ms\":5}"),
            &spec, &arena, &error),
        ROTA_OK);
    assert_true(rota_str_is_equal(spec.queue, rota_str("m\xc3\xa4")));
    assert_true(rota_str_is_equal(spec.payload, rota_str_of("\xff\0a", 3)));
    assert_true(
        rota_str_is_equal(spec.id, rota_str_of("\0\1\2\3\4\5\6\7\x8\x9\xa\xb\xc\xd\xe\xff", 16)));
    assert_int_equal(spec.priority, -3);
    assert_int_equal(spec.delay_ms, 5);
    assert_int_equal(spec.can.n, 2);
    assert_true(rota_str_is_equal(spec.can.items[1], rota_str("b")));
    assert_true(rota_str_is_equal(spec.key, rota_str("k")));
    assert_int_equal(
        rota_message_json_read(&ROTA_QUEUE_JOB_SPEC, rota_str("{}"), &spec, &arena, &error),
        ROTA_OK);
    assert_int_equal(spec.queue.size, 0);
}

static void malformed_json_is_refused(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "is not a JSON object"},
        {"[]", "is not a JSON object"},
        {"{\"queue\":\"a\"", "is not a JSON object"},
        {"{\"queue\":\"a\"} x", "is not a JSON object"},
        {"{\"queue\":7}", "queue of the job has a value of the wrong type"},
        {"{\"delay_ms\":-1}", "delay_ms of the job has a value of the wrong type"},
        {"{\"delay_ms\":1.5}", "delay_ms of the job has"},
        {"{\"partition\":65536}", "partition of the job has"},
        {"{\"prioriti\":1}", "a job has no \"prioriti\"; did you mean priority"},
        {"{\"id\":\"0g\"}", "id of the job takes pairs of hexadecimal"},
        {"{\"id\":\"0\"}", "id of the job takes pairs of hexadecimal"},
        {"{\"payload\":{\"base65\":\"\"}}", "payload of the job takes a string, or"},
        {"{\"payload\":{\"base64\":\"!\"}}", "payload of the job takes a string, or"},
        {"{\"can\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\",\"11\",\"12\","
         "\"13\",\"14\",\"15\",\"16\",\"17\"]}",
         "can of the job has at most 16 entries"},
        {"{\"can\":[1]}", "can of the job has a value of the wrong type"},
    };
    struct rota_queue_job_spec spec, zero;
    (void)state;
    memset(&zero, 0, sizeof zero);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(rota_message_json_read(&ROTA_QUEUE_JOB_SPEC, rota_str(cases[i].text),
                                                &spec, &arena, &error),
                         ROTA_ERR_INVALID);
        if (!strstr(error.text, cases[i].why))
            fail_msg("%s: %s", cases[i].text, error.text);
        assert_memory_equal(&spec, &zero, sizeof spec);
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_members_are_written),
        TEST(members_are_read_in_any_order),
        TEST(malformed_json_is_refused),
    };
    return cmocka_run_group_tests_name("message_json", tests, NULL, NULL);
}
