/* blocks: the bytes that jobs carry, in slabs of pieces of equal size.
 *
 * Payloads and results come and go with every job. They are in slabs, one for each size, which
 * costs a few instructions where malloc() takes a hundred, and gives memory back in whole chunks
 * where malloc() would keep what lies between others. Each piece is preceded by its number in
 * the slab, four bytes. Small sizes are 8 bytes apart, larger ones an eighth of a power of two.
 * Those above half a megabyte use malloc(). The caller states the size when it returns a piece. */
#pragma once

#include "core/work/job/slab.h"

enum {
    ROTA_BLOCKS_STEP = 8,
    ROTA_BLOCKS_SMALL = 32, /* sizes */
    ROTA_BLOCKS_SMALL_MAX = ROTA_BLOCKS_STEP * ROTA_BLOCKS_SMALL,
    ROTA_BLOCKS_DOUBLINGS = 11,
    ROTA_BLOCKS_PER_DOUBLING = 8,
    ROTA_BLOCKS_SIZES = ROTA_BLOCKS_SMALL + ROTA_BLOCKS_DOUBLINGS * ROTA_BLOCKS_PER_DOUBLING,
    ROTA_BLOCKS_MAX = (ROTA_BLOCKS_SMALL_MAX << ROTA_BLOCKS_DOUBLINGS) - (int)sizeof(uint32_t),
};

struct rota_blocks {
    struct rota_slab slabs[ROTA_BLOCKS_SIZES];
    size_t huge_bytes; /* from malloc(), with its overhead */
};

void rota_blocks_init(struct rota_blocks *blocks);

/* Also frees all pieces in slabs; huge ones must have been returned before. */
void rota_blocks_deinit(struct rota_blocks *blocks);

/* A piece of `size` bytes, which are not set; NULL when there is no memory. */
char *rota_blocks_take(struct rota_blocks *blocks, size_t size);
void rota_blocks_give(struct rota_blocks *blocks, char *block, size_t size);

/* Of all pieces that are taken, with their numbers. */
size_t rota_blocks_bytes(const struct rota_blocks *blocks);
