#include "base/buffer.h"

#include "vectors.h"
#include <rota/experimental/random.h>

#include <stdio.h>

static void appended_bytes_are_in_order(void **state)
{
    struct rota_buffer buffer = {0};
    (void)state;
    assert_int_equal(rota_buffer_str(&buffer).size, 0);
    assert_string_equal(rota_buffer_str(&buffer).data, "");
    rota_buffer_append(&buffer, NULL, 0);
    rota_buffer_append(&buffer, "a\0b", 3);
    rota_buffer_append_str(&buffer, rota_str_of("cdef", 2));
    rota_buffer_append_text(&buffer, "gh");
    rota_buffer_append_char(&buffer, 'i');
    rota_buffer_print(&buffer, "%d-%s", 12, "j");
    rota_buffer_print(&buffer, "%s", "");
    assert_true(rota_str_is_equal(rota_buffer_str(&buffer), rota_str_of("a\0bcdghi12-j", 12)));
    assert_int_equal(buffer.data[buffer.size], '\0');
    assert_false(buffer.failed);
    rota_buffer_deinit(&buffer);
    assert_null(buffer.data);
}

static void it_grows_at_every_size(void **state)
{
    static char model[100000];
    struct rota_buffer buffer = {0};
    struct rota_random random;
    size_t size = 0;
    (void)state;
    rota_random_init(&random, 1);
    while (size < sizeof model - 400) {
        char piece[300];
        size_t piece_size = rota_random_below(&random, sizeof piece);
        memset(piece, (int)('a' + piece_size % 26), piece_size);
        piece[piece_size] = '\0';
        if (piece_size % 2)
            rota_buffer_append(&buffer, piece, piece_size);
        else
            rota_buffer_print(&buffer, "%s", piece);
        memcpy(model + size, piece, piece_size);
        size += piece_size;
        assert_true(rota_str_is_equal(rota_buffer_str(&buffer), rota_str_of(model, size)));
        assert_true(!buffer.data || buffer.data[size] == '\0');
    }
    rota_buffer_deinit(&buffer);
}

/* The NUL behind the last byte has its place too. */
static void it_grows_byte_by_byte(void **state)
{
    struct rota_buffer buffer = {0};
    (void)state;
    for (size_t i = 1; i <= 300; i++) {
        rota_buffer_append_char(&buffer, 'x');
        assert_true(buffer.size == i && buffer.size < buffer.capacity);
        assert_int_equal(strlen(buffer.data), i);
    }
    rota_buffer_deinit(&buffer);
}

static void clearing_forgets_and_keeps_the_memory(void **state)
{
    struct rota_buffer buffer = {0};
    (void)state;
    rota_buffer_clear(&buffer);
    rota_buffer_append_text(&buffer, "something");
    const char *memory = buffer.data;
    rota_buffer_clear(&buffer);
    assert_int_equal(buffer.size, 0);
    assert_string_equal(buffer.data, "");
    rota_buffer_append_text(&buffer, "else");
    assert_ptr_equal(buffer.data, memory);
    assert_string_equal(buffer.data, "else");
    rota_buffer_deinit(&buffer);
}

static void after_a_failure_nothing_is_added(void **state)
{
    struct rota_buffer buffer = {0};
    (void)state;
    rota_buffer_append_text(&buffer, "kept");
    rota_buffer_append(&buffer, "more than there can be", SIZE_MAX / 2);
    assert_true(buffer.failed);
    rota_buffer_append_text(&buffer, "x");
    rota_buffer_print(&buffer, "%d", 5);
    assert_string_equal(buffer.data, "kept");
    rota_buffer_clear(&buffer);
    assert_false(buffer.failed);
    rota_buffer_append_text(&buffer, "well again");
    assert_string_equal(buffer.data, "well again");
    rota_buffer_deinit(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appended_bytes_are_in_order),
        cmocka_unit_test(it_grows_at_every_size),
        cmocka_unit_test(it_grows_byte_by_byte),
        cmocka_unit_test(clearing_forgets_and_keeps_the_memory),
        cmocka_unit_test(after_a_failure_nothing_is_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
