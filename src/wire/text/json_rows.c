#include "wire/text/json_rows.h"

#include "wire/text/json_scan.h"

#include <stdlib.h>
#include <string.h>

/* A decoded text, or the value as it is. */
static struct rota_str read_value(struct rota_str raw, struct rota_arena *arena)
{
    struct rota_scan scan;
    char *room;
    if (rota_str_is_equal(raw, rota_str("null")))
        return rota_str("");
    if (raw.size == 0 || raw.data[0] != '"')
        return rota_arena_copy(arena, raw);
    room = rota_arena_take(arena, raw.size);
    if (!room)
        return rota_str("");
    rota_json_scan_init(&scan, raw, room);
    return rota_json_scan_string(&scan);
}

/* The cells of one entry whose fields begin with `prefix`, which ends with a dot or is empty. */
static void read_entry(struct rota_str object, struct rota_str prefix, const char *const *fields,
                       size_t n_fields, struct rota_str *cells, struct rota_arena *arena)
{
    struct rota_scan scan;
    struct rota_str key;
    char *room = malloc(object.size + 1);
    if (!room)
        return;
    rota_json_scan_init(&scan, object, room);
    rota_json_scan_object(&scan);
    while (rota_json_scan_key(&scan, &key)) {
        struct rota_str value = rota_json_scan_skip(&scan);
        for (size_t i = 0; i < n_fields && !scan.failed; i++) {
            struct rota_str field = rota_str(fields[i]);
            if (!rota_str_has_prefix(field, prefix))
                continue;
            field = rota_str_of(field.data + prefix.size, field.size - prefix.size);
            if (rota_str_is_equal(field, key)) {
                cells[i] = read_value(value, arena);
            } else if (prefix.size == 0 && rota_str_has_prefix(field, key) &&
                       field.data[key.size] == '.' && value.data[0] == '{') {
                read_entry(value, rota_str_of(field.data, key.size + 1), fields, n_fields, cells,
                           arena);
            }
        }
    }
    free(room);
}

/* How many entries the array has that the scan is at; the scan is a copy. */
static size_t count_entries(struct rota_scan scan)
{
    size_t n = 0;
    rota_json_scan_array(&scan);
    for (; rota_json_scan_item(&scan); n++)
        rota_json_scan_skip(&scan);
    return n;
}

static enum rota_code read_array(struct rota_scan *scan, const char *const *fields, size_t n_fields,
                                 struct rota_rows *rows, struct rota_error *error)
{
    size_t n = count_entries(*scan);
    if (n > ROTA_ROWS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "a document with more than %d rows",
                              ROTA_ROWS_MAX);
    rows->n_fields = n_fields;
    rows->cells = rota_arena_take(&rows->arena, (n * n_fields + 1) * sizeof *rows->cells);
    rows->objects = rota_arena_take(&rows->arena, (n + 1) * sizeof *rows->objects);
    if (!rows->cells || !rows->objects)
        return rota_error_no_memory(error, "for a document");
    rota_json_scan_array(scan);
    while (rota_json_scan_item(scan)) {
        struct rota_str object = rota_json_scan_skip(scan);
        if (scan->failed || object.data[0] != '{')
            return rota_error_set(error, ROTA_ERR_INVALID, "a document whose rows are not objects");
        struct rota_str *cells = &rows->cells[rows->n_rows * n_fields];
        for (size_t i = 0; i < n_fields; i++)
            cells[i] = rota_str("");
        read_entry(object, rota_str(""), fields, n_fields, cells, &rows->arena);
        rows->objects[rows->n_rows++] = rota_arena_copy(&rows->arena, object);
    }
    return ROTA_OK;
}

enum rota_code rota_json_rows_read(struct rota_str document, const char *key,
                                   const char *const *fields, size_t n_fields,
                                   struct rota_rows *rows, struct rota_error *error)
{
    struct rota_rows made = {0};
    struct rota_scan scan;
    struct rota_str found;
    enum rota_code code = ROTA_ERR_NOT_FOUND;
    char *room = malloc(document.size + 1);
    if (!room)
        return rota_error_no_memory(error, "for a document");
    rota_json_scan_init(&scan, document, room);
    rota_json_scan_object(&scan);
    while (rota_json_scan_key(&scan, &found)) {
        if (code != ROTA_ERR_NOT_FOUND || !rota_str_is_equal(found, rota_str(key)))
            rota_json_scan_skip(&scan);
        else if ((code = read_array(&scan, fields, n_fields, &made, error)))
            break;
    }
    if (!code || code == ROTA_ERR_NOT_FOUND) {
        rota_json_scan_end(&scan);
        if (scan.failed)
            code = rota_error_set(error, ROTA_ERR_INVALID, "a document that is not JSON");
        else if (code)
            rota_error_set(error, code, "a document without %s", key);
    }
    free(room);
    if (code)
        rota_json_rows_deinit(&made);
    else
        *rows = made;
    return code;
}

void rota_json_rows_deinit(struct rota_rows *rows)
{
    rota_arena_deinit(&rows->arena);
    *rows = (struct rota_rows){0};
}
