/* http2_memo: a block of header fields that need not be packed or unpacked again. */
#pragma once

#include "wire/http2/hpack.h"

#include <string.h>

enum { ROTA_HTTP2_MEMO_MAX = 64 };

/* A block of fields that left its table as it was. As long as the table is still
 * the same, the same bytes are the same fields. */
struct rota_http2_memo {
    uint32_t n_added, n; /* of the table */
    uint32_t size;       /* 0: none */
    char bytes[ROTA_HTTP2_MEMO_MAX];
};

static inline bool rota_http2_memo_is_good(const struct rota_http2_memo *memo,
                                           const struct rota_hpack_table *table)
{
    return memo->size > 0 && memo->n_added == table->n_added && memo->n == table->n;
}

/* Store a block; `before` is the table's `n_added` before it. */
static inline void rota_http2_memo_set(struct rota_http2_memo *memo,
                                       const struct rota_hpack_table *table, uint32_t before,
                                       struct rota_str block)
{
    memo->size = 0;
    if (block.size > ROTA_HTTP2_MEMO_MAX || table->n_added != before)
        return;
    memo->size = (uint32_t)block.size;
    memo->n_added = table->n_added;
    memo->n = table->n;
    memcpy(memo->bytes, block.data, block.size);
}
