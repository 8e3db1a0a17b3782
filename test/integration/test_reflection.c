/* What a server tells of its own services: one question, one answer, on both versions. */
#include "base/buffer.h"
#include "loop.h"
#include "wire/message/message.h"
#include "wire/message/standard_message.h"

#include <rota/experimental/channel.h>
#include <rota/experimental/reflection.h>
#include <rota/server.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* As `protoc --descriptor_set_out` writes it: a.proto, package p, message M, services S and T with
 * method Do each. */
#define FILE_BYTES                                                                                 \
    "\x0a\x07"                                                                                     \
    "a.proto"                                                                                      \
    "\x12\x01p"                                                                                    \
    "\x22\x03\x0a\x01M"                                                                            \
    "\x32\x09\x0a\x01S\x12\x04\x0a\x02"                                                            \
    "Do"                                                                                           \
    "\x32\x09\x0a\x01T\x12\x04\x0a\x02"                                                            \
    "Do"
static const char set[] = "\x0a\x27" FILE_BYTES;
static const struct rota_str file = {FILE_BYTES, sizeof FILE_BYTES - 1};

static struct rota_server *server;
static struct rota_reflection *reflection;
static struct rota_channel *channel;
static struct rota_buffer reply;
static size_t n_replies, n_ends;
static enum rota_status status;
static char text[128];

static void on_do(void *data, struct rota_server_call *call)
{
    (void)data;
    rota_server_call_reply(call, rota_str(""));
}

static int set_up(void **state)
{
    const struct rota_str sets[] = {{set, sizeof set - 1}};
    const struct rota_server_method method = {.path = "/p.S/Do", .on_call = on_do};
    struct rota_error error;
    loop_set_up(state);
    n_replies = n_ends = 0;
    if (rota_server_open(&loop, NULL, &server, &error) ||
        rota_server_add(server, &method, &error) ||
        rota_reflection_open(server, sets, 1, &reflection, &error) ||
        rota_server_listen(server, "127.0.0.1:0", &error) ||
        rota_channel_open(&loop, rota_server_address(server, 0), NULL, &channel, &error))
        fail_msg("%s", error.text);
    return 0;
}

static int tear_down(void **state)
{
    rota_channel_close(channel);
    rota_server_close(server);
    rota_reflection_close(reflection);
    rota_buffer_deinit(&reply);
    return loop_tear_down(state);
}

static void on_message(void *data, struct rota_call *call, struct rota_str message)
{
    (void)data;
    (void)call;
    n_replies++;
    rota_buffer_clear(&reply);
    rota_buffer_append_str(&reply, message);
}

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    (void)data;
    (void)call;
    n_ends++;
    status = result->status;
    snprintf(text, sizeof text, "%.*s", ROTA_STR_ARGS(result->text));
}

static void ask_bytes(const char *version, struct rota_str request)
{
    char method[128];
    struct rota_error error;
    snprintf(method, sizeof method, "/grpc.reflection.%s.ServerReflection/ServerReflectionInfo",
             version);
    const struct rota_call_options options = {.method = rota_str(method),
                                              .request = request,
                                              .wait_for_ready = true,
                                              .on_message = on_message,
                                              .on_end = on_end};
    size_t before = n_ends;
    n_replies = 0;
    if (rota_channel_call(channel, &options, NULL, &error))
        fail_msg("%s", error.text);
    RUN_UNTIL(n_ends > before);
}

/* The answer repeats the question, and has one of the others. */
static void assert_answer(struct rota_standard_question question,
                          struct rota_standard_answer answer)
{
    static const char *const versions[] = {"v1", "v1alpha"};
    struct rota_buffer request = {0}, expected = {0};
    question.host = rota_str("example.org");
    rota_message_encode(&ROTA_STANDARD_REFLECTION_REQUEST, &question, &request);
    answer.valid_host = question.host;
    answer.original_request = rota_buffer_str(&request);
    rota_message_encode(&ROTA_STANDARD_REFLECTION_RESPONSE, &answer, &expected);
    for (int i = 0; i < 2; i++) {
        ask_bytes(versions[i], rota_buffer_str(&request));
        assert_int_equal(status, ROTA_STATUS_OK);
        assert_int_equal(n_replies, 1);
        assert_true(rota_str_is_equal(rota_buffer_str(&reply), rota_buffer_str(&expected)));
    }
    rota_buffer_deinit(&request);
    rota_buffer_deinit(&expected);
}

#define QUESTION(...) ((struct rota_standard_question){__VA_ARGS__})

static void assert_file(struct rota_standard_question question)
{
    const struct rota_standard_files files = {{&file, 1}};
    assert_answer(question, (struct rota_standard_answer){.file_descriptor_response = &files});
}

static void assert_error(struct rota_standard_question question, enum rota_status code,
                         const char *words)
{
    const struct rota_standard_error error = {code, rota_str(words)};
    assert_answer(question, (struct rota_standard_answer){.error_response = &error});
}

static void a_file_is_found_by_its_name_and_by_what_is_in_it(void **state)
{
    (void)state;
    assert_file(QUESTION(.file_by_filename = rota_str("a.proto")));
    assert_file(QUESTION(.file_containing_symbol = rota_str("p.M")));
    assert_file(QUESTION(.file_containing_symbol = rota_str("p.S.Do")));
    assert_error(QUESTION(.file_by_filename = rota_str("b.proto")), ROTA_STATUS_NOT_FOUND,
                 "no such file or symbol here");
    assert_error(QUESTION(.file_containing_symbol = rota_str("p.N")), ROTA_STATUS_NOT_FOUND,
                 "no such file or symbol here");
}

/* Not all that the files describe. */
static void the_services_that_are_served_are_listed(void **state)
{
    struct rota_standard_service names[] = {{rota_str("p.S")}, {rota_str("p.T")}};
    struct rota_standard_services services = {{names, 1}};
    const struct rota_standard_answer answer = {.list_services_response = &services};
    const struct rota_server_method longer = {.path = "/p.TT/Do", .on_call = on_do},
                                    other = {.path = "/p.T/Do", .on_call = on_do};
    (void)state;
    assert_int_equal(rota_server_add(server, &longer, NULL), ROTA_OK);
    assert_answer(QUESTION(.list_services = rota_str("*")), answer);
    assert_int_equal(rota_server_add(server, &other, NULL), ROTA_OK);
    services.service.n = 2;
    assert_answer(QUESTION(.list_services = rota_str("*")), answer);
}

static void messages_have_no_extensions(void **state)
{
    const struct rota_standard_extensions none = {rota_str("p.M")};
    (void)state;
    assert_answer(QUESTION(.all_extension_numbers_of_type = rota_str("p.M")),
                  (struct rota_standard_answer){.all_extension_numbers_response = &none});
    assert_error(QUESTION(.all_extension_numbers_of_type = rota_str("p.N")), ROTA_STATUS_NOT_FOUND,
                 "no such type here");
    assert_error(QUESTION(.file_containing_extension = rota_str("x")), ROTA_STATUS_NOT_FOUND,
                 "no such extension here");
}

static void what_is_not_a_question_is_refused(void **state)
{
    (void)state;
    assert_error(QUESTION(0), ROTA_STATUS_INVALID_ARGUMENT, "unknown request");
    ask_bytes("v1", rota_str("\xff"));
    assert_int_equal(status, ROTA_STATUS_INVALID_ARGUMENT);
    assert_string_equal(text, "the request is malformed");
    assert_int_equal(n_replies, 0);
}

static void a_bad_set_is_refused_by_its_number(void **state)
{
    const struct rota_str sets[] = {{set, sizeof set - 1}, {set, sizeof set - 2}};
    struct rota_reflection *other = NULL;
    struct rota_error error;
    (void)state;
    assert_int_equal(rota_reflection_open(server, sets, 2, &other, &error), ROTA_ERR_INVALID);
    assert_null(other);
    assert_string_equal(error.text, "reflection: descriptor set 1 is malformed or too large");
    rota_reflection_close(NULL);
}

#define RULE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(a_file_is_found_by_its_name_and_by_what_is_in_it),
        RULE(the_services_that_are_served_are_listed),
        RULE(messages_have_no_extensions),
        RULE(what_is_not_a_question_is_refused),
        RULE(a_bad_set_is_refused_by_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
