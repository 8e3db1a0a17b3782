/* Packing and unpacking, within bounds. */
#include "wire/http2/gzip.h"

#include <rota/experimental/random.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct rota_buffer make(size_t size, unsigned n_letters)
{
    struct rota_buffer plain = {0};
    struct rota_random random;
    rota_random_init(&random, size);
    for (size_t i = 0; i < size; i++)
        rota_buffer_append_char(&plain, (char)('a' + rota_random_next(&random) % n_letters));
    return plain;
}

static void compressed_bytes_decompress(void **state)
{
    (void)state;
    for (size_t size = 200; size < 300000; size = size * 3 / 2) {
        struct rota_buffer plain = make(size, 4), packed = {0}, back = {0};
        rota_buffer_append_text(&packed, "before");
        rota_buffer_append_text(&back, "so");
        assert_true(rota_gzip_pack(rota_buffer_str(&plain), &packed));
        assert_in_range(packed.size, 20, size);
        assert_memory_equal(packed.data, "before", 6);
        struct rota_str inner = {packed.data + 6, packed.size - 6};
        assert_int_equal(rota_gzip_unpack(inner, size, &back), ROTA_GZIP_WHOLE);
        assert_int_equal(back.size, size + 2);
        assert_memory_equal(back.data, "so", 2);
        assert_memory_equal(back.data + 2, plain.data, size);
        assert_int_equal(rota_gzip_unpack(inner, size - 1, &back), ROTA_GZIP_TOO_LARGE);
        assert_int_equal(back.size, size + 2);
        rota_buffer_deinit(&plain);
        rota_buffer_deinit(&packed);
        rota_buffer_deinit(&back);
    }
}

static void incompressible_bytes_are_left_alone(void **state)
{
    struct rota_buffer packed = {0};
    (void)state;
    rota_buffer_append_text(&packed, "before");
    assert_false(rota_gzip_pack(rota_str(""), &packed));
    assert_false(rota_gzip_pack(rota_str("abc"), &packed));
    assert_int_equal(packed.size, 6);
    assert_false(packed.failed);
    rota_buffer_deinit(&packed);
}

static void decompressed_bytes_are_bounded(void **state)
{
    enum { LARGE = 64 << 20, MAX = 100000 };
    struct rota_buffer packed = {0}, plain = {0};
    char *zeros = calloc(1, LARGE);
    (void)state;
    assert_non_null(zeros);
    assert_true(rota_gzip_pack(rota_str_of(zeros, LARGE), &packed));
    assert_int_equal(rota_gzip_unpack(rota_buffer_str(&packed), MAX, &plain), ROTA_GZIP_TOO_LARGE);
    assert_in_range(plain.capacity, 1, 3 * MAX);
    assert_int_equal(plain.size, 0);
    free(zeros);
    rota_buffer_deinit(&packed);
    rota_buffer_deinit(&plain);
}

/* The sum at the end sees every change that matters; a few bits are for nothing. */
static void truncated_or_changed_gzip_is_detected(void **state)
{
    enum { SIZE = 3000, HEAD = 10 };
    struct rota_buffer plain = make(SIZE, 16), packed = {0}, back = {0};
    size_t n_same = 0;
    (void)state;
    assert_true(rota_gzip_pack(rota_buffer_str(&plain), &packed));
    for (size_t size = 0; size < packed.size; size++)
        assert_int_equal(rota_gzip_unpack(rota_str_of(packed.data, size), SIZE, &back),
                         ROTA_GZIP_DAMAGED);
    for (size_t i = HEAD; i < packed.size; i++) {
        packed.data[i] ^= 4;
        if (rota_gzip_unpack(rota_buffer_str(&packed), SIZE, &back) == ROTA_GZIP_WHOLE) {
            n_same++;
            assert_int_equal(back.size, SIZE);
            assert_memory_equal(back.data, plain.data, SIZE);
        }
        rota_buffer_clear(&back);
        packed.data[i] ^= 4;
    }
    assert_in_range(n_same, 0, 2);
    rota_buffer_append_char(&packed, '\0');
    assert_int_equal(rota_gzip_unpack(rota_buffer_str(&packed), SIZE, &back), ROTA_GZIP_DAMAGED);
    assert_int_equal(back.size, 0);
    rota_buffer_deinit(&plain);
    rota_buffer_deinit(&packed);
    rota_buffer_deinit(&back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compressed_bytes_decompress),
        cmocka_unit_test(incompressible_bytes_are_left_alone),
        cmocka_unit_test(decompressed_bytes_are_bounded),
        cmocka_unit_test(truncated_or_changed_gzip_is_detected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
