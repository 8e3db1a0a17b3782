/* What a program that checks the cluster has seen, as it writes it down. */
#include "node/documents/document.h"

#include "io/file.h"
#include "node/node_inside.h"
#include "wire/text/json_scan.h"

enum { LEDGER_MAX = 256 << 10 }; /* bytes of the file */

/* A single JSON object, which is sent as it is. */
static bool is_object(struct rota_str text)
{
    struct rota_scan scan;
    rota_json_scan_init(&scan, text, NULL);
    size_t blanks = 0;
    while (blanks < text.size && strchr(" \t\r\n", text.data[blanks]))
        blanks++;
    rota_json_scan_skip(&scan);
    rota_json_scan_end(&scan);
    return !scan.failed && blanks < text.size && text.data[blanks] == '{';
}

/* It is small and local, so it is read at once. Without one there is no check. */
void rota_document_ledger_write(struct rota_node *node, struct rota_json *json)
{
    const char *path = node->settings->ledger;
    struct rota_buffer content = {0};
    struct rota_error error = {0};
    enum rota_code code =
        path ? rota_file_read(path, LEDGER_MAX, &content, &error) : ROTA_ERR_NOT_FOUND;
    if (!code && !is_object(rota_buffer_str(&content)))
        code = rota_error_set(&error, ROTA_ERR_INVALID, "%.1000s does not contain a JSON object",
                              path);
    rota_json_begin_object(json);
    rota_json_key(json, "ledger");
    if (code)
        rota_json_null(json);
    else
        rota_json_raw(json, rota_buffer_str(&content));
    rota_json_add_text(json, "why_away", code && code != ROTA_ERR_NOT_FOUND ? error.text : NULL);
    rota_json_end_object(json);
    rota_buffer_deinit(&content);
}
