#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void pieces_stay_where_they_are(void **state)
{
    struct rota_arena arena = {0};
    char *pieces[200];
    (void)state;
    for (size_t i = 0; i < 200; i++) {
        pieces[i] = rota_arena_take(&arena, i * 7);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % _Alignof(max_align_t), 0);
        memset(pieces[i], (int)i, i * 7);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t j = 0; j < i * 7; j++)
            assert_int_equal((unsigned char)pieces[i][j], i);
    rota_arena_deinit(&arena);
}

static void copies_end_with_a_nul(void **state)
{
    struct rota_arena arena = {0};
    (void)state;
    struct rota_str copy = rota_arena_copy(&arena, rota_str_of("a\0b", 3));
    assert_memory_equal(copy.data, "a\0b", 4);
    assert_int_equal(copy.size, 3);
    assert_string_equal(rota_arena_copy(&arena, rota_str("")).data, "");
    rota_arena_deinit(&arena);
}

static void cleared_arena_uses_its_memory_again(void **state)
{
    struct rota_arena arena = {0};
    (void)state;
    for (size_t i = 0; i < 20; i++)
        assert_non_null(rota_arena_take(&arena, 3000));
    rota_arena_clear(&arena);
    const struct rota_arena_chunk *kept = arena.chunks;
    assert_non_null(kept);
    for (size_t i = 0; i < 10; i++)
        assert_non_null(rota_arena_take(&arena, 3000));
    assert_ptr_equal(arena.chunks, kept);
    rota_arena_deinit(&arena);
}

static void a_large_arena_frees_its_memory(void **state)
{
    struct rota_arena arena = {0};
    (void)state;
    assert_non_null(rota_arena_take(&arena, ROTA_ARENA_KEPT_MAX + 1));
    rota_arena_clear(&arena);
    assert_null(arena.chunks);
}

static void impossible_sizes_are_refused(void **state)
{
    struct rota_arena arena = {0};
    (void)state;
    assert_null(rota_arena_take(&arena, SIZE_MAX));
    assert_null(rota_arena_take(&arena, SIZE_MAX - 64));
    assert_null(rota_arena_copy(&arena, rota_str_of("", SIZE_MAX)).data);
    rota_arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_stay_where_they_are),
        cmocka_unit_test(copies_end_with_a_nul),
        cmocka_unit_test(cleared_arena_uses_its_memory_again),
        cmocka_unit_test(a_large_arena_frees_its_memory),
        cmocka_unit_test(impossible_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
