/* slab: many items of one size, each identified by a small number.
 *
 * A number is half the size of a pointer, and survives growth. Items are in chunks, so that
 * nothing is ever moved and only the last chunk has room for growth; an empty chunk is freed,
 * except one spare. Number 0 is not an item.
 *
 * Chunks are so large that malloc() maps each by itself, if it is set up that way
 * (io/memory.h): then a chunk that is freed returns to the system at once. */
#pragma once

#include "base/vector.h"

#include <assert.h>
#include <string.h>

enum { ROTA_SLAB_CHUNK_MIN = 512 << 10 }; /* bytes */

struct rota_slab_chunk {
    uint32_t n_used, n_touched; /* those above `n_touched` were never used */
    uint32_t free;              /* 1 + the first free one below that; 0: none */
    uint32_t next, previous;    /* chunks with room; 1 + index */
    uint32_t spare[3];          /* a power of two */
};

struct rota_slab {
    ROTA_VECTOR(char *) items;                  /* of each chunk; enough to find an item */
    ROTA_VECTOR(struct rota_slab_chunk) chunks; /* as many */
    size_t item_size;                           /* at least 4 */
    unsigned shift;                             /* a chunk has 1 << shift items */
    size_t n_used, n_chunks;
    uint32_t open;   /* the first chunk with room; 1 + index */
    uint32_t vacant; /* the first entry without a chunk; 1 + index */
};

void rota_slab_init(struct rota_slab *slab, size_t item_size);
void rota_slab_deinit(struct rota_slab *slab);

static inline void *rota_slab_at(const struct rota_slab *slab, uint32_t number)
{
    return slab->items.items[number >> slab->shift] +
           (number & ((UINT32_C(1) << slab->shift) - 1)) * slab->item_size;
}

/* Adding, filling, reopening and freeing chunks: needed by few takes and gives, and kept out of
 * line. */
__attribute__((noinline)) bool rota_slab_add_chunk(struct rota_slab *slab);
__attribute__((noinline)) void rota_slab_close_chunk(struct rota_slab *slab, uint32_t index);
__attribute__((noinline)) void rota_slab_settle_chunk(struct rota_slab *slab, uint32_t index);

/* Another item, whose bytes are not set, and its number; NULL when there is no memory. */
static inline void *rota_slab_take(struct rota_slab *slab, uint32_t *number)
{
    if (!slab->open && !rota_slab_add_chunk(slab))
        return NULL;
    uint32_t index = slab->open - 1;
    struct rota_slab_chunk *chunk = &slab->chunks.items[index];
    uint32_t slot = chunk->free ? chunk->free - 1 : chunk->n_touched++;
    char *item = slab->items.items[index] + slot * slab->item_size;
    if (chunk->free)
        memcpy(&chunk->free, item, sizeof chunk->free);
    slab->n_used++;
    if (++chunk->n_used == UINT32_C(1) << slab->shift)
        rota_slab_close_chunk(slab, index);
    *number = (index << slab->shift) + slot;
    return item;
}

/* Return an item. The slab uses its first four bytes from now on, the others stay as they are
 * until it is taken again. */
static inline void rota_slab_give(struct rota_slab *slab, uint32_t number)
{
    uint32_t size = UINT32_C(1) << slab->shift;
    uint32_t index = number >> slab->shift, slot = number & (size - 1);
    struct rota_slab_chunk *chunk = &slab->chunks.items[index];
    assert(number != 0 && chunk->n_used > 0);
    memcpy(rota_slab_at(slab, number), &chunk->free, sizeof chunk->free);
    chunk->free = slot + 1;
    slab->n_used--;
    chunk->n_used--;
    if (chunk->n_used == size - 1 || chunk->n_used == 0)
        rota_slab_settle_chunk(slab, index);
}

/* The next number, used or returned, after `number`; 0 ends it. Start with 0. */
uint32_t rota_slab_next(const struct rota_slab *slab, uint32_t number);

size_t rota_slab_bytes(const struct rota_slab *slab);
