#include "core/work/job/slab.h"

void rota_slab_init(struct rota_slab *slab, size_t item_size)
{
    assert(item_size >= sizeof(uint32_t));
    *slab = (struct rota_slab){.item_size = item_size};
    slab->shift = 1;
    while (item_size << slab->shift < ROTA_SLAB_CHUNK_MIN)
        slab->shift++;
}

void rota_slab_deinit(struct rota_slab *slab)
{
    for (size_t i = 0; i < slab->items.size; i++)
        free(slab->items.items[i]);
    rota_vector_deinit(&slab->items);
    rota_vector_deinit(&slab->chunks);
    rota_slab_init(slab, slab->item_size);
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

void rota_slab_close_chunk(struct rota_slab *slab, uint32_t index)
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

bool rota_slab_add_chunk(struct rota_slab *slab)
{
    uint32_t index = slab->vacant ? slab->vacant - 1 : (uint32_t)slab->chunks.size;
    if (index >= UINT32_MAX >> slab->shift)
        return false;
    char *items = malloc(slab->item_size << slab->shift);
    if (!items)
        return false;
    if (slab->vacant) {
        slab->vacant = slab->chunks.items[index].next;
    } else if (!rota_vector_reserve(&slab->items, index + 1) ||
               !rota_vector_reserve(&slab->chunks, index + 1)) {
        free(items);
        return false;
    } else {
        slab->items.size = slab->chunks.size = index + 1;
    }
    slab->items.items[index] = items;
    slab->chunks.items[index] = (struct rota_slab_chunk){0};
    if (index == 0) /* number 0 is not an item */
        slab->chunks.items[0].n_used = slab->chunks.items[0].n_touched = 1;
    slab->n_chunks++;
    open_chunk(slab, index);
    return true;
}

/* An item was returned to the chunk: it has room again, or is empty. */
void rota_slab_settle_chunk(struct rota_slab *slab, uint32_t index)
{
    struct rota_slab_chunk *chunk = &slab->chunks.items[index];
    if (chunk->n_used == (UINT32_C(1) << slab->shift) - 1)
        open_chunk(slab, index);
    if (chunk->n_used > 0 || (slab->open == index + 1 && !chunk->next))
        return; /* in use, or the only one with room */
    rota_slab_close_chunk(slab, index);
    free(slab->items.items[index]);
    slab->items.items[index] = NULL;
    *chunk = (struct rota_slab_chunk){.next = slab->vacant};
    slab->vacant = index + 1;
    slab->n_chunks--;
}

uint32_t rota_slab_next(const struct rota_slab *slab, uint32_t number)
{
    uint32_t slot = (number & ((UINT32_C(1) << slab->shift) - 1)) + 1;
    for (size_t i = number >> slab->shift; i < slab->chunks.size; i++, slot = 0)
        if (slot < slab->chunks.items[i].n_touched)
            return (uint32_t)(i << slab->shift) + slot;
    return 0;
}

size_t rota_slab_bytes(const struct rota_slab *slab)
{
    return (slab->n_chunks << slab->shift) * slab->item_size +
           slab->items.capacity * sizeof *slab->items.items +
           slab->chunks.capacity * sizeof *slab->chunks.items;
}
