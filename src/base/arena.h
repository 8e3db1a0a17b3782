/* An arena: pieces of memory that are freed all at once.
 *
 * A piece stays where it is until the arena is cleared. Clearing keeps the newest chunk, which
 * is the largest, so a reused arena soon allocates nothing; one that has grown past
 * ROTA_ARENA_KEPT_MAX frees everything. An arena starts zeroed. */
#pragma once

#include <rota/str.h>

enum { ROTA_ARENA_KEPT_MAX = 1 << 20 }; /* bytes that a cleared arena holds on to */

struct rota_arena_chunk;

struct rota_arena {
    struct rota_arena_chunk *chunks; /* the newest first */
};

/* `size` bytes, aligned for anything; NULL when there is no memory. */
void *rota_arena_take(struct rota_arena *arena, size_t size);

/* A copy followed by a NUL; its data is NULL when there is no memory. */
struct rota_str rota_arena_copy(struct rota_arena *arena, struct rota_str bytes);

/* Free all pieces. */
void rota_arena_clear(struct rota_arena *arena);
void rota_arena_deinit(struct rota_arena *arena);
