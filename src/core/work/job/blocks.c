#include "core/work/job/blocks.h"

#include <string.h>

/* What malloc() takes for `size` bytes. */
static size_t huge_size(size_t size)
{
    return (size + 8 + 15) / 16 * 16;
}

/* `size` with the number, and more than 0. */
static size_t index_of(size_t size)
{
    if (size <= ROTA_BLOCKS_SMALL_MAX)
        return (size - 1) / ROTA_BLOCKS_STEP;
    unsigned exponent = 63 - (unsigned)__builtin_clzll(size - 1); /* at least 8 */
    size_t step = ((size_t)1 << exponent) / ROTA_BLOCKS_PER_DOUBLING;
    return ROTA_BLOCKS_SMALL + (exponent - 8) * ROTA_BLOCKS_PER_DOUBLING +
           (size - 1 - ((size_t)1 << exponent)) / step;
}

static size_t size_at(size_t index)
{
    if (index < ROTA_BLOCKS_SMALL)
        return ROTA_BLOCKS_STEP * (index + 1);
    index -= ROTA_BLOCKS_SMALL;
    size_t base = (size_t)ROTA_BLOCKS_SMALL_MAX << index / ROTA_BLOCKS_PER_DOUBLING;
    return base + base / ROTA_BLOCKS_PER_DOUBLING * (index % ROTA_BLOCKS_PER_DOUBLING + 1);
}

static struct rota_slab *slab_of(struct rota_blocks *blocks, size_t size)
{
    return &blocks->slabs[index_of(size + sizeof(uint32_t))];
}

void rota_blocks_init(struct rota_blocks *blocks)
{
    blocks->huge_bytes = 0;
    for (size_t i = 0; i < ROTA_BLOCKS_SIZES; i++)
        rota_slab_init(&blocks->slabs[i], size_at(i));
}

void rota_blocks_deinit(struct rota_blocks *blocks)
{
    for (size_t i = 0; i < ROTA_BLOCKS_SIZES; i++)
        rota_slab_deinit(&blocks->slabs[i]);
}

char *rota_blocks_take(struct rota_blocks *blocks, size_t size)
{
    if (size > ROTA_BLOCKS_MAX) {
        char *huge = malloc(size);
        blocks->huge_bytes += huge ? huge_size(size) : 0;
        return huge;
    }
    uint32_t number;
    char *item = rota_slab_take(slab_of(blocks, size), &number);
    if (!item)
        return NULL;
    memcpy(item, &number, sizeof number);
    return item + sizeof number;
}

void rota_blocks_give(struct rota_blocks *blocks, char *block, size_t size)
{
    uint32_t number;
    if (size > ROTA_BLOCKS_MAX) {
        blocks->huge_bytes -= huge_size(size);
        free(block);
        return;
    }
    memcpy(&number, block - sizeof number, sizeof number);
    rota_slab_give(slab_of(blocks, size), number);
}

size_t rota_blocks_bytes(const struct rota_blocks *blocks)
{
    size_t bytes = blocks->huge_bytes;
    for (size_t i = 0; i < ROTA_BLOCKS_SIZES; i++)
        bytes += blocks->slabs[i].n_used * blocks->slabs[i].item_size;
    return bytes;
}
