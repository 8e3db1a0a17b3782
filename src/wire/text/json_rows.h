/* json_rows: the entries of an array in a JSON document as rows of cells, for tables.
 *
 *     {"nodes": [{"name": "a:1", "jobs": 3, "load": {"cpu": 2}}, ...]}
 *
 * read with the key "nodes" and the fields "name", "jobs" and "load.cpu" is a row of a:1, 3 and
 * 2. Texts are decoded, other values stay as written, null and missing fields are empty. */
#pragma once

#include "base/arena.h"

#include <rota/error.h>
#include <rota/str.h>
#include <stddef.h>

enum {
    ROTA_ROWS_MAX = 100000, /* of one document */
    ROTA_ROWS_FIELDS_MAX = 32,
};

struct rota_rows {
    struct rota_arena arena;
    struct rota_str *cells;   /* row by row */
    struct rota_str *objects; /* each entry as it was written */
    size_t n_rows, n_fields;
};

/* Fills `*rows`, which rota_json_rows_deinit() ends. ROTA_ERR_INVALID for a malformed document,
 * ROTA_ERR_NOT_FOUND when it has no such key. */
enum rota_code rota_json_rows_read(struct rota_str document, const char *key,
                                   const char *const *fields, size_t n_fields,
                                   struct rota_rows *rows, struct rota_error *error);
void rota_json_rows_deinit(struct rota_rows *rows);

static inline struct rota_str rota_rows_cell(const struct rota_rows *rows, size_t row, size_t field)
{
    return rows->cells[row * rows->n_fields + field];
}
