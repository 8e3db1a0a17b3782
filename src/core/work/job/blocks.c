#include "core/work/job/blocks.h"

#include <string.h>

/* What malloc() takes for `size` bytes. */
static size_t large_size(size_t size)
{
    return (size + 8 + 15) / 16 * 16;
}

static struct rota_slab *slab_of(struct rota_blocks *blocks, size_t size)
{
    return &blocks->slabs[(size + sizeof(uint32_t) - 1) / ROTA_BLOCKS_STEP];
}

void rota_blocks_init(struct rota_blocks *blocks)
{
    blocks->large_bytes = 0;
    for (size_t i = 0; i < ROTA_BLOCKS_SIZES; i++)
        rota_slab_init(&blocks->slabs[i], ROTA_BLOCKS_STEP * (i + 1));
}

void rota_blocks_deinit(struct rota_blocks *blocks)
{
    for (size_t i = 0; i < ROTA_BLOCKS_SIZES; i++)
        rota_slab_deinit(&blocks->slabs[i]);
}

char *rota_blocks_take(struct rota_blocks *blocks, size_t size)
{
    if (size > ROTA_BLOCKS_SMALL_MAX) {
        char *large = malloc(size);
        blocks->large_bytes += large ? large_size(size) : 0;
        return large;
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
    if (size > ROTA_BLOCKS_SMALL_MAX) {
        blocks->large_bytes -= large_size(size);
        free(block);
        return;
    }
    memcpy(&number, block - sizeof number, sizeof number);
    rota_slab_give(slab_of(blocks, size), number);
}

size_t rota_blocks_bytes(const struct rota_blocks *blocks)
{
    size_t bytes = blocks->large_bytes;
    for (size_t i = 0; i < ROTA_BLOCKS_SIZES; i++)
        bytes += blocks->slabs[i].n_used * blocks->slabs[i].item_size;
    return bytes;
}
