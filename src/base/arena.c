#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>

enum { CHUNK_MIN = 4096, ALIGNMENT = _Alignof(max_align_t) };

struct rota_arena_chunk {
    struct rota_arena_chunk *next; /* older and smaller */
    size_t used, capacity;
    _Alignas(max_align_t) char data[];
};

static bool add_chunk(struct rota_arena *arena, size_t needed)
{
    const struct rota_arena_chunk *newest = arena->chunks;
    size_t capacity = newest ? 2 * newest->capacity : CHUNK_MIN;
    if (capacity < needed)
        capacity = needed;
    struct rota_arena_chunk *chunk = malloc(sizeof *chunk + capacity);
    if (!chunk)
        return false;
    *chunk = (struct rota_arena_chunk){.next = arena->chunks, .capacity = capacity};
    arena->chunks = chunk;
    return true;
}

void *rota_arena_take(struct rota_arena *arena, size_t size)
{
    if (size > PTRDIFF_MAX / 4) /* also leaves room to round up, and for the chunk's head */
        return NULL;
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if ((!arena->chunks || arena->chunks->capacity - arena->chunks->used < size) &&
        !add_chunk(arena, size))
        return NULL;
    void *piece = arena->chunks->data + arena->chunks->used;
    arena->chunks->used += size;
    return piece;
}

struct rota_str rota_arena_copy(struct rota_arena *arena, struct rota_str bytes)
{
    char *copy = bytes.size < SIZE_MAX ? rota_arena_take(arena, bytes.size + 1) : NULL;
    if (!copy)
        return (struct rota_str){0};
    if (bytes.size > 0)
        memcpy(copy, bytes.data, bytes.size);
    copy[bytes.size] = '\0';
    return rota_str_of(copy, bytes.size);
}

static void free_from(struct rota_arena_chunk *chunk)
{
    while (chunk) {
        struct rota_arena_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
}

void rota_arena_clear(struct rota_arena *arena)
{
    struct rota_arena_chunk *newest = arena->chunks;
    if (!newest)
        return;
    if (newest->capacity > ROTA_ARENA_KEPT_MAX) {
        rota_arena_deinit(arena);
        return;
    }
    free_from(newest->next);
    newest->next = NULL;
    newest->used = 0;
}

void rota_arena_deinit(struct rota_arena *arena)
{
    free_from(arena->chunks);
    arena->chunks = NULL;
}
