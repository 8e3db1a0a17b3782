#include "io/http2_inside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void what_was_given_back_is_taken_again_and_zeroed_when_asked(void **state)
{
    struct rota_http2_pool pool = {0};
    nghttp2_mem memory = rota_http2_pool_memory(&pool);
    (void)state;
    void *first = memory.malloc(100, memory.mem_user_data);
    assert_non_null(first);
    memset(first, 0xff, 100);
    memory.free(first, memory.mem_user_data);
    assert_int_equal(pool.size, 128);

    char *again = memory.calloc(12, 10, memory.mem_user_data);
    assert_ptr_equal(again, first);
    assert_int_equal(pool.size, 0);
    for (int i = 0; i < 120; i++)
        assert_int_equal(again[i], 0);
    memory.free(again, memory.mem_user_data);
    memory.free(NULL, memory.mem_user_data);
    rota_http2_pool_deinit(&pool);
}

static void a_piece_that_grows_keeps_its_content(void **state)
{
    struct rota_http2_pool pool = {0};
    nghttp2_mem memory = rota_http2_pool_memory(&pool);
    (void)state;
    char *piece = memory.realloc(NULL, 10, memory.mem_user_data);
    assert_non_null(piece);
    memset(piece, 'x', 10);
    for (size_t size = 20; size < 5000; size *= 2) {
        piece = memory.realloc(piece, size, memory.mem_user_data);
        assert_non_null(piece);
        for (int i = 0; i < 10; i++)
            assert_int_equal(piece[i], 'x');
        memset(piece + 10, 'y', size - 10);
    }
    memory.free(piece, memory.mem_user_data);
    rota_http2_pool_deinit(&pool);
}

static void no_more_is_kept_than_the_bound_and_nothing_impossible_is_given(void **state)
{
    enum { N = 2000 };
    static void *pieces[N];
    struct rota_http2_pool pool = {0};
    nghttp2_mem memory = rota_http2_pool_memory(&pool);
    (void)state;
    for (int i = 0; i < N; i++)
        assert_non_null(pieces[i] = memory.malloc(1000, memory.mem_user_data));
    for (int i = 0; i < N; i++)
        memory.free(pieces[i], memory.mem_user_data);
    assert_int_equal(pool.size, ROTA_HTTP2_POOL_MAX);
    assert_null(memory.malloc(SIZE_MAX, memory.mem_user_data));
    assert_null(memory.calloc(SIZE_MAX / 2, 3, memory.mem_user_data));
    rota_http2_pool_deinit(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_given_back_is_taken_again_and_zeroed_when_asked),
        cmocka_unit_test(a_piece_that_grows_keeps_its_content),
        cmocka_unit_test(no_more_is_kept_than_the_bound_and_nothing_impossible_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
