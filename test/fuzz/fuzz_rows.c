/* Documents of nodes as tables: any bytes are such a document or none; what is read is drawn
 * without a byte that drives a terminal, whatever is typed. */
#include "cli/node/top.h"
#include "wire/text/json_rows.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first half is what was typed, up to a newline; the rest is a document. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *newline = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t n_keys = newline ? (size_t)(newline - data) : 0;
    struct rota_str document =
        newline ? rota_str_of(newline + 1, size - n_keys - 1) : rota_str_of(data, size);
    static struct rota_top_screen screen;
    const struct rota_top_view *view = &rota_top_views[0];
    const char *fields[ROTA_TOP_COLUMNS_MAX];
    struct rota_rows rows = {0};
    struct rota_error error = {0};
    struct rota_top top;
    for (size_t i = 0; i < view->n_columns; i++)
        fields[i] = view->columns[i].field;
    enum rota_code code =
        rota_json_rows_read(document, view->key, fields, view->n_columns, &rows, &error);
    if (code) {
        assert(rows.n_rows == 0 && error.code == code);
        return 0;
    }
    rota_top_init(&top);
    rota_top_take(&top, 0, rows.cells, rows.n_rows);
    rota_top_take(&top, ROTA_SEC, rows.cells, rows.n_rows);
    if (rota_top_feed(&top, rota_str_of(data, n_keys)))
        top.view = 0; /* these are its rows */
    rota_top_draw(&top, "title", 1, NULL, 0, &screen);
    assert(screen.n == (size_t)top.height);
    for (size_t i = 0; i < screen.text.size; i++)
        assert((unsigned char)screen.text.data[i] >= ' ');
    rota_top_screen_deinit(&screen);
    rota_top_deinit(&top);
    rota_json_rows_deinit(&rows);
    return 0;
}
