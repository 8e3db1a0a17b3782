/* Pieces of any size keep their bytes, and give their memory back. */
#include "core/work/job/blocks.h"

#include <rota/experimental/random.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct piece {
    char *bytes;
    size_t size;
    char fill;
};

static void check(const struct piece *piece)
{
    for (size_t i = 0; i < piece->size; i++)
        if (piece->bytes[i] != piece->fill)
            fail_msg("byte %zu of %zu was overwritten", i, piece->size);
}

static void pieces_of_any_size_keep_their_bytes(void **state)
{
    enum { N = 5000, STEPS = 100000 };
    static struct piece pieces[N];
    struct rota_blocks blocks;
    struct rota_random chance;
    (void)state;
    rota_random_init(&chance, 1);
    rota_blocks_init(&blocks);
    for (int i = 0; i < STEPS; i++) {
        struct piece *piece = &pieces[rota_random_below(&chance, N)];
        if (piece->bytes) {
            check(piece);
            rota_blocks_give(&blocks, piece->bytes, piece->size);
        }
        piece->size =
            1 + (size_t)rota_random_below(&chance, i % 8 ? ROTA_BLOCKS_SMALL_MAX + 20 : 40000);
        piece->fill = (char)i;
        piece->bytes = rota_blocks_take(&blocks, piece->size);
        assert_non_null(piece->bytes);
        memset(piece->bytes, piece->fill, piece->size);
    }
    for (size_t i = 0; i < N; i++)
        if (pieces[i].bytes) {
            check(&pieces[i]);
            rota_blocks_give(&blocks, pieces[i].bytes, pieces[i].size);
        }
    assert_int_equal(blocks.huge_bytes, 0);
    rota_blocks_deinit(&blocks);
}

static void returned_blocks_are_not_counted(void **state)
{
    enum { N = 100000, SIZE = 100 };
    static char *pieces[N];
    struct rota_blocks blocks;
    (void)state;
    rota_blocks_init(&blocks);
    for (size_t i = 0; i < N; i++)
        pieces[i] = rota_blocks_take(&blocks, SIZE);
    size_t full = rota_blocks_bytes(&blocks);
    assert_in_range(full, N * SIZE, N * (SIZE + 4));
    for (size_t i = 0; i < N; i++)
        rota_blocks_give(&blocks, pieces[i], SIZE);
    assert_int_equal(rota_blocks_bytes(&blocks), 0);
    char *huge = rota_blocks_take(&blocks, ROTA_BLOCKS_MAX + 1);
    assert_in_range(rota_blocks_bytes(&blocks), ROTA_BLOCKS_MAX + 1, ROTA_BLOCKS_MAX + 33);
    rota_blocks_give(&blocks, huge, ROTA_BLOCKS_MAX + 1);
    assert_int_equal(rota_blocks_bytes(&blocks), 0);
    rota_blocks_deinit(&blocks);
}

/* An eighth at most is lost, and each size fits. */
static void sizes_are_close_to_each_other(void **state)
{
    struct rota_blocks blocks;
    (void)state;
    rota_blocks_init(&blocks);
    for (size_t size = 1; size <= ROTA_BLOCKS_MAX; size += 1 + size / 100) {
        char *piece = rota_blocks_take(&blocks, size);
        assert_non_null(piece);
        memset(piece, 1, size);
        size_t bytes = rota_blocks_bytes(&blocks);
        assert_in_range(bytes, size + 4, size + 4 + 7 + size / 8);
        rota_blocks_give(&blocks, piece, size);
    }
    char *largest = rota_blocks_take(&blocks, ROTA_BLOCKS_MAX);
    assert_non_null(largest);
    assert_int_equal(blocks.huge_bytes, 0);
    rota_blocks_give(&blocks, largest, ROTA_BLOCKS_MAX);
    rota_blocks_deinit(&blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_close_to_each_other),
        cmocka_unit_test(pieces_of_any_size_keep_their_bytes),
        cmocka_unit_test(returned_blocks_are_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
