#include "core/work/slab.h"

#include <string.h>

void rota_slab_init(struct rota_slab *slab, size_t item_size)
{
    assert(item_size >= sizeof(uint32_t));
    *slab = (struct rota_slab){.item_size = item_size};
}

void rota_slab_deinit(struct rota_slab *slab)
{
    for (size_t i = 0; i < slab->chunks.size; i++)
        free(slab->chunks.items[i].items);
    rota_vector_deinit(&slab->chunks);
    *slab = (struct rota_slab){.item_size = slab->item_size};
}

static void open_chunk(struct rota_slab *slab, uint32_t index)
{
    struct rota_slab_chunk *chunk = &slab->chunks.items[index];
    chunk->previous = 0;
    chunk->next = slab->open;
    if (slab->open)
        slab->chunks.items[slab->open - 1].previous = index + 1;
    slab->open = index + 1;
}

static void close_chunk(struct rota_slab *slab, uint32_t index)
{
    struct rota_slab_chunk *chunk = &slab->chunks.items[index];
    if (chunk->previous)
        slab->chunks.items[chunk->previous - 1].next = chunk->next;
    else
        slab->open = chunk->next;
    if (chunk->next)
        slab->chunks.items[chunk->next - 1].previous = chunk->previous;
    chunk->next = chunk->previous = 0;
}

static bool add_chunk(struct rota_slab *slab)
{
    uint32_t index = slab->vacant ? slab->vacant - 1 : (uint32_t)slab->chunks.size;
    if (index >= UINT32_MAX / ROTA_SLAB_CHUNK)
        return false;
    char *items = malloc(ROTA_SLAB_CHUNK * slab->item_size);
    if (!items)
        return false;
    if (slab->vacant)
        slab->vacant = slab->chunks.items[index].next;
    else if (!rota_vector_push(&slab->chunks, (struct rota_slab_chunk){0})) {
        free(items);
        return false;
    }
    slab->chunks.items[index] = (struct rota_slab_chunk){.items = items};
    if (index == 0) /* number 0 is no item */
        slab->chunks.items[0].n_used = slab->chunks.items[0].n_touched = 1;
    slab->n_chunks++;
    open_chunk(slab, index);
    return true;
}

uint32_t rota_slab_take_unset(struct rota_slab *slab)
{
    if (!slab->open && !add_chunk(slab))
        return 0;
    uint32_t index = slab->open - 1;
    struct rota_slab_chunk *chunk = &slab->chunks.items[index];
    uint32_t slot = chunk->free ? chunk->free - 1 : chunk->n_touched++;
    char *item = chunk->items + slot * slab->item_size;
    if (chunk->free)
        memcpy(&chunk->free, item, sizeof chunk->free);
    if (++chunk->n_used == ROTA_SLAB_CHUNK)
        close_chunk(slab, index);
    slab->n_used++;
    return index * ROTA_SLAB_CHUNK + slot;
}

uint32_t rota_slab_take(struct rota_slab *slab)
{
    uint32_t number = rota_slab_take_unset(slab);
    if (number)
        memset(rota_slab_at(slab, number), 0, slab->item_size);
    return number;
}

void rota_slab_give(struct rota_slab *slab, uint32_t number)
{
    uint32_t index = number / ROTA_SLAB_CHUNK, slot = number % ROTA_SLAB_CHUNK;
    struct rota_slab_chunk *chunk = &slab->chunks.items[index];
    assert(number != 0 && chunk->n_used > 0);
    memcpy(chunk->items + slot * slab->item_size, &chunk->free, sizeof chunk->free);
    chunk->free = slot + 1;
    slab->n_used--;
    if (chunk->n_used-- == ROTA_SLAB_CHUNK)
        open_chunk(slab, index);
    if (chunk->n_used > 0 || (slab->open == index + 1 && !chunk->next))
        return; /* in use, or the only one with room */
    close_chunk(slab, index);
    free(chunk->items);
    *chunk = (struct rota_slab_chunk){.next = slab->vacant};
    slab->vacant = index + 1;
    slab->n_chunks--;
}

uint32_t rota_slab_next(const struct rota_slab *slab, uint32_t number)
{
    uint32_t slot = number % ROTA_SLAB_CHUNK + 1;
    for (size_t i = number / ROTA_SLAB_CHUNK; i < slab->chunks.size; i++, slot = 0)
        if (slot < slab->chunks.items[i].n_touched)
            return (uint32_t)(i * ROTA_SLAB_CHUNK) + slot;
    return 0;
}

size_t rota_slab_bytes(const struct rota_slab *slab)
{
    return slab->n_chunks * ROTA_SLAB_CHUNK * slab->item_size +
           slab->chunks.capacity * sizeof *slab->chunks.items;
}
