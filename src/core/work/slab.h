/* slab: many items of one size, each named by a small number.
 *
 * A number is half the size of a pointer, and survives growth. Items lie in chunks, so
 * that nothing is ever moved and no room is kept for growth but in the last chunk; a
 * chunk without items is given back, one spare apart. Number 0 is no item. */
#pragma once

#include "base/vector.h"

#include <assert.h>

enum { ROTA_SLAB_CHUNK = 1024 }; /* items */

struct rota_slab_chunk {
    char *items;
    uint32_t n_used, n_touched; /* those above `n_touched` were never used */
    uint32_t free;              /* 1 + the first free one below that; 0: none */
    uint32_t next, previous;    /* chunks with room; 1 + index */
};

struct rota_slab {
    ROTA_VECTOR(struct rota_slab_chunk) chunks;
    size_t item_size; /* at least 4 */
    size_t n_used, n_chunks;
    uint32_t open;   /* the first chunk with room; 1 + index */
    uint32_t vacant; /* the first entry without a chunk; 1 + index */
};

void rota_slab_init(struct rota_slab *slab, size_t item_size);
void rota_slab_deinit(struct rota_slab *slab);

/* Another item, zeroed; 0 when there is no memory. The second does not set its bytes. */
uint32_t rota_slab_take(struct rota_slab *slab);
uint32_t rota_slab_take_unset(struct rota_slab *slab);

/* Give an item back. Its first four bytes are the slab's from now on, the others stay as they
 * are until it is taken again. */
void rota_slab_give(struct rota_slab *slab, uint32_t number);

static inline void *rota_slab_at(const struct rota_slab *slab, uint32_t number)
{
    const struct rota_slab_chunk *chunk = &slab->chunks.items[number / ROTA_SLAB_CHUNK];
    return chunk->items + number % ROTA_SLAB_CHUNK * slab->item_size;
}

/* The next number, used or given back, behind `number`; 0 ends it. Start with 0. */
uint32_t rota_slab_next(const struct rota_slab *slab, uint32_t number);

size_t rota_slab_bytes(const struct rota_slab *slab);
