/* blocks: the bytes that jobs carry, in pieces of like size side by side.
 *
 * A payload or a result is mostly small, and such come and go with every job. Small ones lie in
 * slabs, one for each size, which costs a few instructions where malloc() takes a hundred, and
 * less room: before a piece stands the number that its slab knows it by, four bytes. What is
 * larger is malloc's. Whoever gives a piece back says how large it was. */
#pragma once

#include "core/work/slab.h"

enum {
    ROTA_BLOCKS_STEP = 8,
    ROTA_BLOCKS_SIZES = 32,
    ROTA_BLOCKS_SMALL_MAX = ROTA_BLOCKS_STEP * ROTA_BLOCKS_SIZES - (int)sizeof(uint32_t),
};

struct rota_blocks {
    struct rota_slab slabs[ROTA_BLOCKS_SIZES];
    size_t large_bytes; /* of malloc's, with what it adds */
};

void rota_blocks_init(struct rota_blocks *blocks);

/* Also gives back all that is small; what is large must have gone before. */
void rota_blocks_deinit(struct rota_blocks *blocks);

/* A piece of `size` bytes, which are not set; NULL when there is no memory. */
char *rota_blocks_take(struct rota_blocks *blocks, size_t size);
void rota_blocks_give(struct rota_blocks *blocks, char *block, size_t size);

/* Of all that is taken, with what stands before it. */
size_t rota_blocks_bytes(const struct rota_blocks *blocks);
