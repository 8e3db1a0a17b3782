#include "node/node_queues.h"

#include "wire/json_scan.h"

#include <stdlib.h>

typedef enum rota_code queue_seen(void *data, struct rota_str name, struct rota_error *error);

static enum rota_code read_items(struct rota_scan *scan, queue_seen *on_queue, void *data,
                                 struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    struct rota_str key;
    rota_scan_array(scan);
    while (!code && rota_scan_item(scan)) {
        struct rota_str name = rota_str("");
        rota_scan_object(scan);
        while (rota_scan_key(scan, &key)) {
            if (rota_str_is_equal(key, rota_str("name")))
                name = rota_scan_string(scan);
            else
                rota_scan_skip(scan);
        }
        if (!scan->failed)
            code = on_queue(data, name, error);
    }
    return code;
}

/* {"items": [{"name", ...}]} */
enum rota_code rota_node_queues_each(struct rota_str document, queue_seen *on_queue, void *data,
                                     struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    struct rota_scan scan;
    struct rota_str key;
    char *room = malloc(document.size + 1);
    if (!room)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory to read of the queues");
    rota_scan_init(&scan, document, room);
    rota_scan_object(&scan);
    while (!code && rota_scan_key(&scan, &key)) {
        if (rota_str_is_equal(key, rota_str("items")))
            code = read_items(&scan, on_queue, data, error);
        else
            rota_scan_skip(&scan);
    }
    free(room);
    return code;
}
