#include "wire/grpc/grpc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* --- messages --- */

static void frame(struct rota_buffer *wire, struct rota_str message)
{
    uint8_t prefix[ROTA_GRPC_PREFIX_SIZE];
    rota_grpc_prefix_encode(prefix, (uint32_t)message.size, false);
    rota_buffer_append(wire, prefix, sizeof prefix);
    rota_buffer_append_str(wire, message);
}

static void messages_come_out_whole_however_they_are_cut(void **state)
{
    static const char *const sent[] = {"", "a", "hello", "", "the last one"};
    struct rota_buffer wire = {0};
    (void)state;
    for (size_t i = 0; i < 5; i++)
        frame(&wire, rota_str(sent[i]));

    for (size_t step = 1; step <= wire.size; step++) {
        struct rota_grpc_decoder decoder = {.max = 12};
        size_t n = 0;
        for (size_t at = 0; at < wire.size; at += step) {
            size_t left = wire.size - at;
            struct rota_str input = {wire.data + at, left < step ? left : step};
            while (rota_grpc_decoder_next(&decoder, &input) == ROTA_GRPC_MESSAGE) {
                assert_true(n < 5);
                assert_true(
                    rota_str_is_equal(rota_buffer_str(&decoder.message), rota_str(sent[n++])));
                assert_true(rota_grpc_decoder_is_clean(&decoder));
            }
            assert_int_equal(input.size, 0);
        }
        assert_int_equal(n, 5);
        assert_true(rota_grpc_decoder_is_clean(&decoder));
        rota_buffer_deinit(&decoder.message);
    }
    rota_buffer_deinit(&wire);
}

static enum rota_grpc_found first(const void *bytes, size_t size, size_t max)
{
    struct rota_grpc_decoder decoder = {.max = max};
    struct rota_str input = rota_str_of(bytes, size);
    enum rota_grpc_found found = rota_grpc_decoder_next(&decoder, &input);
    assert_true(found != ROTA_GRPC_MORE || !rota_grpc_decoder_is_clean(&decoder) || size == 0);
    rota_buffer_deinit(&decoder.message);
    return found;
}

static void malformed_message_is_named(void **state)
{
    (void)state;
    assert_int_equal(first("", 0, 9), ROTA_GRPC_MORE);
    assert_int_equal(first("\0\0\0\0", 4, 9), ROTA_GRPC_MORE);
    assert_int_equal(first("\0\0\0\0\0", 5, 0), ROTA_GRPC_MESSAGE);
    assert_int_equal(first("\0\0\0\0\1", 5, 0), ROTA_GRPC_TOO_LARGE);
    assert_int_equal(first("\0\0\0\0\11", 5, 9), ROTA_GRPC_MORE);
    assert_int_equal(first("\0\0\0\0\12", 5, 9), ROTA_GRPC_TOO_LARGE);
    assert_int_equal(first("\0\377\377\377\377", 5, 4 << 20), ROTA_GRPC_TOO_LARGE);
    assert_int_equal(first("\1\0\0\0\1", 5, 9), ROTA_GRPC_COMPRESSED);
    assert_int_equal(first("\2\0\0\0\1", 5, 9), ROTA_GRPC_MALFORMED);
}

static void a_compressed_message_is_taken_if_it_may_be(void **state)
{
    struct rota_grpc_decoder decoder = {.max = 9, .takes_compressed = true};
    struct rota_str input = rota_str_of("\1\0\0\0\1x\0\0\0\0\1y", 12);
    (void)state;
    assert_int_equal(rota_grpc_decoder_next(&decoder, &input), ROTA_GRPC_MESSAGE);
    assert_true(decoder.is_compressed);
    assert_int_equal(rota_grpc_decoder_next(&decoder, &input), ROTA_GRPC_MESSAGE);
    assert_false(decoder.is_compressed);
    rota_buffer_deinit(&decoder.message);
    assert_int_equal(rota_grpc_encoding_parse(rota_str("identity")), ROTA_GRPC_IDENTITY);
    assert_int_equal(rota_grpc_encoding_parse(rota_str("gzip")), ROTA_GRPC_GZIP);
    assert_int_equal(rota_grpc_encoding_parse(rota_str("gzip2")), ROTA_GRPC_ENCODING_OTHER);
}

static void an_announced_size_is_not_allocated_before_the_bytes_arrive(void **state)
{
    struct rota_grpc_decoder decoder = {.max = 4 << 20};
    struct rota_str input = rota_str_of("\0\0\77\0\0x", 6); /* almost 4 MiB, one byte of it */
    (void)state;
    assert_int_equal(rota_grpc_decoder_next(&decoder, &input), ROTA_GRPC_MORE);
    assert_in_range(decoder.message.capacity, 1, 1024);
    assert_false(rota_grpc_decoder_is_clean(&decoder));
    rota_buffer_deinit(&decoder.message);
}

static void every_decoder_result_has_a_status(void **state)
{
    (void)state;
    assert_int_equal(rota_grpc_found_status(ROTA_GRPC_MESSAGE, ROTA_GRPC_IDENTITY), ROTA_STATUS_OK);
    assert_int_equal(rota_grpc_found_status(ROTA_GRPC_TOO_LARGE, ROTA_GRPC_GZIP),
                     ROTA_STATUS_RESOURCE_EXHAUSTED);
    assert_int_equal(rota_grpc_found_status(ROTA_GRPC_COMPRESSED, ROTA_GRPC_ENCODING_OTHER),
                     ROTA_STATUS_UNIMPLEMENTED);
    assert_int_equal(rota_grpc_found_status(ROTA_GRPC_COMPRESSED, ROTA_GRPC_IDENTITY),
                     ROTA_STATUS_INTERNAL);
    assert_int_equal(rota_grpc_found_status(ROTA_GRPC_MALFORMED, ROTA_GRPC_GZIP),
                     ROTA_STATUS_INTERNAL);
}

/* --- timeouts --- */

static void check_timeout(rota_time span, const char *expected)
{
    char text[ROTA_GRPC_TIMEOUT_MAX];
    size_t size = rota_grpc_timeout_format(span, text);
    assert_string_equal(text, expected);
    assert_int_equal(size, strlen(expected));
}

static void a_timeout_is_written_in_two_digits(void **state)
{
    (void)state;
    check_timeout(10 * ROTA_SEC, "10S");
    check_timeout(10 * ROTA_SEC - 3 * ROTA_MSEC, "10000m");
    check_timeout(2 * ROTA_SEC, "2000m");
    check_timeout(250 * ROTA_MSEC, "250m");
    check_timeout(251 * ROTA_MSEC, "260m");
    check_timeout(7 * ROTA_USEC, "7000n");
    check_timeout(0, "1n");
    check_timeout(-5, "1n");
    check_timeout(ROTA_TIME_NEVER, "2600000H");
}

static void a_timeout_read_back_is_equal_or_slightly_longer(void **state)
{
    (void)state;
    for (rota_time span = 1; span < 1000 * ROTA_DAY; span += span / 7 + 1) {
        char text[ROTA_GRPC_TIMEOUT_MAX];
        rota_time back;
        size_t size = rota_grpc_timeout_format(span, text);
        assert_int_equal(rota_grpc_timeout_parse(rota_str_of(text, size), &back), ROTA_OK);
        assert_true(back >= span && back <= span + span / 9 + 1);
    }
}

static void only_digits_and_a_unit_are_a_timeout(void **state)
{
    static const char *const bad[] = {"",   "1",   "S",   "1s",         "-1S",
                                      "+1", "1 S", "1SS", "123456789S", "0x1S"};
    rota_time span = 77;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(rota_grpc_timeout_parse(rota_str(bad[i]), &span), ROTA_ERR_INVALID);
    assert_int_equal(rota_grpc_timeout_parse(rota_str_of("1\0S", 3), &span), ROTA_ERR_INVALID);
    assert_int_equal(span, 77);
    assert_int_equal(rota_grpc_timeout_parse(rota_str("0n"), &span), ROTA_OK);
    assert_int_equal(span, 0);
    assert_int_equal(rota_grpc_timeout_parse(rota_str("00000003M"), &span), ROTA_OK);
    assert_true(span == 3 * ROTA_MIN);
    assert_int_equal(rota_grpc_timeout_parse(rota_str("99999999H"), &span), ROTA_OK);
    assert_true(span == ROTA_TIME_NEVER);
}

/* --- texts --- */

static void check_percent(const char *text, const char *escaped)
{
    struct rota_buffer buffer = {0};
    rota_grpc_percent_encode(&buffer, rota_str(text));
    assert_true(rota_str_is_equal(rota_buffer_str(&buffer), rota_str(escaped)));
    rota_buffer_clear(&buffer);
    rota_grpc_percent_decode(&buffer, rota_str(escaped));
    assert_true(rota_str_is_equal(rota_buffer_str(&buffer), rota_str(text)));
    rota_buffer_deinit(&buffer);
}

static void a_status_text_survives_the_header(void **state)
{
    struct rota_buffer buffer = {0};
    (void)state;
    check_percent("", "");
    check_percent("no such shard: 7", "no such shard: 7");
    check_percent("100%", "100%25");
    check_percent("\xc3\xbc\n\x7f", "%C3%BC%0A%7F");
    rota_grpc_percent_decode(&buffer, rota_str("%c3%bc %zz %4"));
    assert_string_equal(buffer.data, "\xc3\xbc %zz %4");
    rota_buffer_deinit(&buffer);
}

static void a_long_status_text_is_cut_between_characters(void **state)
{
    struct rota_buffer text = {0}, escaped = {0};
    (void)state;
    rota_buffer_append_char(&text, 'x');
    for (int i = 0; i < ROTA_GRPC_TEXT_MAX; i++)
        rota_buffer_append_text(&text, "\xc3\xbc");
    rota_grpc_percent_encode(&escaped, rota_buffer_str(&text));
    assert_int_equal(escaped.size, 1 + (ROTA_GRPC_TEXT_MAX - 2) * 3);
    rota_buffer_deinit(&text);
    rota_buffer_deinit(&escaped);
}

static void base64_is_read_with_and_without_padding(void **state)
{
    static const char *const pairs[][2] = {
        {"", ""},           {"f", "Zg"},         {"fo", "Zm8"},       {"foo", "Zm9v"},
        {"foob", "Zm9vYg"}, {"\xff\xfe", "//4"}, {"fooba", "Zm9vYmE"}};
    struct rota_buffer buffer = {0};
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        rota_buffer_clear(&buffer);
        rota_grpc_base64_encode(&buffer, rota_str(pairs[i][0]));
        assert_true(rota_str_is_equal(rota_buffer_str(&buffer), rota_str(pairs[i][1])));
        rota_buffer_clear(&buffer);
        assert_int_equal(rota_grpc_base64_decode(&buffer, rota_str(pairs[i][1])), ROTA_OK);
        assert_true(rota_str_is_equal(rota_buffer_str(&buffer), rota_str(pairs[i][0])));
    }
    rota_buffer_clear(&buffer);
    assert_int_equal(rota_grpc_base64_decode(&buffer, rota_str("Zg==")), ROTA_OK);
    assert_string_equal(buffer.data, "f");
    static const char *const bad[] = {"Z", "Zg=", "Z===", "Zm9*", "Z\nm9", "====", "Zm9vY"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(rota_grpc_base64_decode(&buffer, rota_str(bad[i])), ROTA_ERR_INVALID);
    assert_int_equal(buffer.size, 1);
    rota_buffer_deinit(&buffer);
}

static bool is_valid(const char *name, struct rota_str value)
{
    struct rota_metadata pair = {rota_str(name), value};
    return rota_grpc_metadata_is_valid(&pair);
}

static void metadata_that_would_break_a_header_is_refused(void **state)
{
    (void)state;
    assert_true(is_valid("rota-epoch", rota_str("7")));
    assert_true(is_valid("x", rota_str("")));
    assert_true(is_valid("x-bin", rota_str_of("\0\n", 2)));
    assert_false(is_valid("x", rota_str_of("\0", 1)));
    assert_false(is_valid("x", rota_str("a\r\nb")));
    assert_false(is_valid("x", rota_str(" a")));
    assert_false(is_valid("X", rota_str("a")));
    assert_false(is_valid("", rota_str("a")));
    assert_false(is_valid(":path", rota_str("a")));
    assert_false(is_valid("grpc-status", rota_str("0")));
    assert_false(is_valid("te", rota_str("trailers")));
    assert_false(is_valid("content-length", rota_str("1")));
    assert_false(is_valid("transfer-encoding", rota_str("chunked")));
}

/* --- status --- */

static void status_codes_have_their_names_and_numbers(void **state)
{
    (void)state;
    assert_string_equal(rota_status_name(ROTA_STATUS_OK), "OK");
    assert_string_equal(rota_status_name(ROTA_STATUS_UNAUTHENTICATED), "UNAUTHENTICATED");
    assert_string_equal(rota_status_name((enum rota_status)99), "UNKNOWN");
    for (int i = 0; i <= 16; i++) {
        char text[3] = {0};
        size_t size = 0;
        if (i >= 10)
            text[size++] = '1';
        text[size++] = (char)('0' + i % 10);
        assert_int_equal(rota_grpc_status_parse(rota_str_of(text, size)), i);
    }
    static const char *const bad[] = {"", "17", "-1", "100", "x", "1 "};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(rota_grpc_status_parse(rota_str(bad[i])), ROTA_STATUS_UNKNOWN);
}

static void http_and_resets_have_a_status(void **state)
{
    (void)state;
    assert_int_equal(rota_grpc_status_of_http(404), ROTA_STATUS_UNIMPLEMENTED);
    assert_int_equal(rota_grpc_status_of_http(503), ROTA_STATUS_UNAVAILABLE);
    assert_int_equal(rota_grpc_status_of_http(200), ROTA_STATUS_UNKNOWN);
    assert_int_equal(rota_grpc_status_of_http(415), ROTA_STATUS_UNKNOWN);
    assert_int_equal(rota_grpc_status_of_reset(7), ROTA_STATUS_UNAVAILABLE);
    assert_int_equal(rota_grpc_status_of_reset(8), ROTA_STATUS_CANCELLED);
    assert_int_equal(rota_grpc_status_of_reset(11), ROTA_STATUS_RESOURCE_EXHAUSTED);
    assert_int_equal(rota_grpc_status_of_reset(0), ROTA_STATUS_INTERNAL);
    assert_int_equal(rota_grpc_status_of_reset(4000000000u), ROTA_STATUS_INTERNAL);
}

static void an_error_is_the_same_to_the_caller(void **state)
{
    (void)state;
    for (int i = ROTA_OK; i <= ROTA_ERR_STALE; i++) {
        enum rota_code code = (enum rota_code)i, told = code;
        if (code == ROTA_ERR_NO_MEMORY)
            told = ROTA_ERR_LIMIT;
        if (code == ROTA_ERR_IO)
            told = ROTA_ERR_UNAVAILABLE;
        assert_int_equal(rota_grpc_code_of_status(rota_grpc_status_of_code(code)), told);
    }
    assert_int_equal(rota_grpc_code_of_status(ROTA_STATUS_FAILED_PRECONDITION), ROTA_ERR_INVALID);
    assert_int_equal(rota_grpc_code_of_status(ROTA_STATUS_DEADLINE_EXCEEDED), ROTA_ERR_UNKNOWN);
    assert_int_equal(rota_grpc_code_of_status(ROTA_STATUS_UNAUTHENTICATED), ROTA_ERR_UNAVAILABLE);
    assert_int_equal(rota_grpc_code_of_status((enum rota_status)99), ROTA_ERR_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_out_whole_however_they_are_cut),
        cmocka_unit_test(malformed_message_is_named),
        cmocka_unit_test(a_compressed_message_is_taken_if_it_may_be),
        cmocka_unit_test(an_announced_size_is_not_allocated_before_the_bytes_arrive),
        cmocka_unit_test(every_decoder_result_has_a_status),
        cmocka_unit_test(a_timeout_is_written_in_two_digits),
        cmocka_unit_test(a_timeout_read_back_is_equal_or_slightly_longer),
        cmocka_unit_test(only_digits_and_a_unit_are_a_timeout),
        cmocka_unit_test(a_status_text_survives_the_header),
        cmocka_unit_test(a_long_status_text_is_cut_between_characters),
        cmocka_unit_test(base64_is_read_with_and_without_padding),
        cmocka_unit_test(metadata_that_would_break_a_header_is_refused),
        cmocka_unit_test(status_codes_have_their_names_and_numbers),
        cmocka_unit_test(http_and_resets_have_a_status),
        cmocka_unit_test(an_error_is_the_same_to_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
