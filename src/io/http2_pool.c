#include "io/http2_inside.h"

#include <nghttp2/nghttp2.h>
#include <stdlib.h>

/* nghttp2 takes and gives back a dozen small pieces of memory for each call, in
 * few sizes. With hundreds of calls under way malloc keeps up badly: it has
 * room for seven of a size in its fast lists. So each session keeps what is
 * given back, up to ROTA_HTTP2_POOL_MAX bytes. */

enum {
    STEP = 64, /* sizes are rounded up to a multiple of it */
    PIECE_MAX = STEP * ROTA_HTTP2_POOL_SIZES,
};

/* In front of each piece; as large as malloc's alignment. */
union head {
    size_t size; /* usable bytes behind it */
    union head *next;
    max_align_t alignment;
};

static void *take(size_t size, void *user)
{
    struct rota_http2_pool *pool = user;
    if (size == 0)
        return NULL;
    if (size <= PIECE_MAX) {
        size_t index = (size - 1) / STEP;
        union head *head = pool->free[index];
        size = (index + 1) * STEP;
        if (head) {
            pool->free[index] = head->next;
            pool->size -= size;
            head->size = size;
            return head + 1;
        }
    }
    union head *head = size < SIZE_MAX - sizeof *head ? malloc(sizeof *head + size) : NULL;
    if (!head)
        return NULL;
    head->size = size;
    return head + 1;
}

static void give(void *piece, void *user)
{
    struct rota_http2_pool *pool = user;
    if (!piece)
        return;
    union head *head = (union head *)piece - 1;
    if (head->size > PIECE_MAX || pool->size + head->size > ROTA_HTTP2_POOL_MAX) {
        free(head);
        return;
    }
    size_t index = head->size / STEP - 1;
    pool->size += head->size;
    head->next = pool->free[index];
    pool->free[index] = head;
}

static void *take_zeroed(size_t n, size_t size, void *user)
{
    if (size > 0 && n > SIZE_MAX / size)
        return NULL;
    void *piece = take(n * size, user);
    return piece ? memset(piece, 0, n * size) : NULL;
}

static void *resize(void *piece, size_t size, void *user)
{
    size_t before = piece ? ((union head *)piece - 1)->size : 0;
    if (piece && size > 0 && size <= before)
        return piece;
    void *moved = take(size, user);
    if (!moved)
        return NULL;
    if (piece)
        memcpy(moved, piece, before);
    give(piece, user);
    return moved;
}

nghttp2_mem rota_http2_pool_memory(struct rota_http2_pool *pool)
{
    return (nghttp2_mem){pool, take, give, take_zeroed, resize};
}

void rota_http2_pool_deinit(struct rota_http2_pool *pool)
{
    for (size_t i = 0; i < ROTA_HTTP2_POOL_SIZES; i++) {
        for (union head *head; (head = pool->free[i]);) {
            pool->free[i] = head->next;
            free(head);
        }
    }
}
