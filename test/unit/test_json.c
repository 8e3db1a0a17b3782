#include "base/json.h"

#include "vectors.h"
#include <rota/experimental/random.h>

#include <float.h>
#include <math.h>
#include <stdio.h>

static void commas_come_by_themselves(void **state)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    (void)state;
    rota_json_begin_object(&json);
    rota_json_add_array(&json, "a");
    rota_json_end_array(&json);
    rota_json_add_array(&json, "b");
    rota_json_int(&json, INT64_MIN);
    rota_json_uint(&json, UINT64_MAX);
    rota_json_double(&json, 0.5);
    rota_json_bool(&json, true);
    rota_json_bool(&json, false);
    rota_json_null(&json);
    rota_json_text(&json, NULL);
    rota_json_text(&json, "x\"y");
    rota_json_begin_object(&json);
    rota_json_end_object(&json);
    rota_json_begin_array(&json);
    rota_json_int(&json, 1);
    rota_json_end_array(&json);
    rota_json_begin_array(&json);
    rota_json_int(&json, 1);
    rota_json_end_array(&json);
    rota_json_int(&json, 2);
    rota_json_end_array(&json);
    rota_json_key_str(&json, rota_str_of("c\0", 2));
    rota_json_string(&json, rota_str("d"));
    rota_json_end_object(&json);
    assert_string_equal(buffer.data,
                        "{\"a\":[],\"b\":[-9223372036854775808,18446744073709551615,0.5,true,false,"
                        "null,null,\"x\\\"y\",{},[1],[1],2],\"c\\u0000\":\"d\"}");
    assert_int_equal(json.depth, 0);
    rota_buffer_deinit(&buffer);
}

static json_t *round_trip(struct rota_buffer *buffer)
{
    json_error_t error;
    json_t *parsed = json_loadb(buffer->data, buffer->size, JSON_ALLOW_NUL, &error);
    if (!parsed)
        fail_msg("%s: %s", error.text, buffer->data);
    return parsed;
}

static void a_key_and_its_value_go_in_together(void **state)
{
    const struct rota_str names[] = {rota_str("a"), rota_str("b")};
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    (void)state;
    rota_json_begin_object(&json);
    rota_json_add_string(&json, "s", rota_str("x"));
    rota_json_add_text(&json, "t", NULL);
    rota_json_add_int(&json, "i", -1);
    rota_json_add_uint(&json, "u", UINT64_MAX);
    rota_json_add_bool(&json, "b", true);
    rota_json_add_double(&json, "d", 0.5);
    rota_json_add_strings(&json, "n", names, 2);
    rota_json_add_strings(&json, "none", NULL, 0);
    rota_json_end_object(&json);
    assert_true(rota_str_is_equal(
        rota_buffer_str(&buffer),
        rota_str("{\"s\":\"x\",\"t\":null,\"i\":-1,\"u\":18446744073709551615,\"b\":true,"
                 "\"d\":0.5,\"n\":[\"a\",\"b\"],\"none\":[]}")));
    rota_buffer_deinit(&buffer);
}

static void finite_numbers_read_back_and_others_are_null(void **state)
{
    static const double values[] = {0,       -0.0,    0.1,      1e300, -DBL_MAX, 0x1p-1074,
                                    DBL_MIN, 1.0 / 3, 1e15 + 1, NAN,   INFINITY, -INFINITY};
    enum { N = sizeof values / sizeof values[0] };
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    (void)state;
    rota_json_begin_array(&json);
    for (size_t i = 0; i < N; i++)
        rota_json_double(&json, values[i]);
    rota_json_end_array(&json);
    json_t *parsed = round_trip(&buffer);
    assert_int_equal(json_array_size(parsed), N);
    for (size_t i = 0; i < N; i++) {
        const json_t *item = json_array_get(parsed, i);
        if (isfinite(values[i]))
            assert_true(json_number_value(item) == values[i]);
        else
            assert_true(json_is_null(item));
    }
    json_decref(parsed);
    rota_buffer_deinit(&buffer);
}

static void deep_nesting_keeps_its_commas(void **state)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    (void)state;
    for (int i = 0; i < ROTA_JSON_DEPTH_MAX / 2; i++) {
        rota_json_begin_array(&json);
        rota_json_int(&json, i);
        rota_json_begin_object(&json);
        rota_json_key(&json, "k");
    }
    rota_json_null(&json);
    for (int i = 0; i < ROTA_JSON_DEPTH_MAX / 2; i++) {
        rota_json_key(&json, "z");
        rota_json_int(&json, i);
        rota_json_end_object(&json);
        rota_json_int(&json, i);
        rota_json_end_array(&json);
    }
    json_decref(round_trip(&buffer));
    rota_buffer_deinit(&buffer);
}

/* Bytes that are text come back as they were; any others leave the JSON valid. */
static void any_bytes_may_be_written(void **state)
{
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 1);
    for (int round = 0; round < 3000; round++) {
        struct rota_buffer buffer = {0};
        struct rota_json json = {.buffer = &buffer};
        char bytes[64];
        size_t size = rota_random_below(&random, sizeof bytes + 1);
        bool is_ascii = round % 2;
        for (size_t i = 0; i < size; i++)
            bytes[i] = (char)(rota_random_next(&random) & (is_ascii ? 0x7f : 0xff));
        rota_json_begin_object(&json);
        rota_json_key_str(&json, rota_str_of(bytes, strnlen(bytes, size)));
        rota_json_int(&json, round);
        rota_json_key(&json, "value beside it");
        rota_json_string(&json, rota_str_of(bytes, size));
        rota_json_end_object(&json);

        json_t *parsed = round_trip(&buffer);
        if (is_ascii) {
            struct rota_str again = vectors_str(parsed, "value beside it");
            assert_true(rota_str_is_equal(again, rota_str_of(bytes, size)));
        }
        json_decref(parsed);
        rota_buffer_deinit(&buffer);
    }
}

static void existing_json_is_embedded_unchanged(void **state)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    (void)state;
    rota_json_begin_object(&json);
    rota_json_add_array(&json, "a");
    rota_json_raw(&json, rota_str("{\"b\":1}"));
    rota_json_raw(&json, rota_str("[]"));
    rota_json_end_array(&json);
    rota_json_key(&json, "c");
    rota_json_raw(&json, rota_str("2"));
    rota_json_end_object(&json);
    assert_true(
        rota_str_is_equal(rota_buffer_str(&buffer), rota_str("{\"a\":[{\"b\":1},[]],\"c\":2}")));
    rota_buffer_deinit(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_come_by_themselves),
        cmocka_unit_test(a_key_and_its_value_go_in_together),
        cmocka_unit_test(finite_numbers_read_back_and_others_are_null),
        cmocka_unit_test(deep_nesting_keeps_its_commas),
        cmocka_unit_test(any_bytes_may_be_written),
        cmocka_unit_test(existing_json_is_embedded_unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
