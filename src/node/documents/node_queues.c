#include "node/documents/node_queues.h"

#include "wire/text/json_scan.h"

#include <stdlib.h>

#define MOMENT_MAX ((uint64_t)(INT64_MAX / ROTA_MSEC)) /* in milliseconds since 1970 */

typedef enum rota_code queue_seen(void *data, const struct rota_node_queue *queue,
                                  struct rota_error *error);

static void read_field(struct rota_scan *scan, struct rota_str key, struct rota_node_queue *queue)
{
    struct rota_work_layout *layout = &queue->layout;
    if (rota_str_is_equal(key, rota_str("name")))
        queue->name = rota_json_scan_string(scan);
    else if (rota_str_is_equal(key, rota_str("wanted")))
        layout->wanted = (uint32_t)rota_json_scan_uint(scan, UINT32_MAX);
    else if (rota_str_is_equal(key, rota_str("write")))
        layout->write = (uint32_t)rota_json_scan_uint(scan, UINT32_MAX);
    else if (rota_str_is_equal(key, rota_str("read")))
        layout->read = (uint32_t)rota_json_scan_uint(scan, UINT32_MAX);
    else if (rota_str_is_equal(key, rota_str("batch")))
        layout->spread.batch = (uint32_t)rota_json_scan_uint(scan, UINT32_MAX);
    else if (rota_str_is_equal(key, rota_str("is_slots")))
        layout->spread.mode = rota_json_scan_bool(scan) ? ROTA_SPREAD_SLOTS : ROTA_SPREAD_LOOKUP;
    else if (rota_str_is_equal(key, rota_str("change_from_batch")))
        layout->change.from.batch = (uint32_t)rota_json_scan_uint(scan, UINT32_MAX);
    else if (rota_str_is_equal(key, rota_str("change_from_slots")))
        layout->change.from.mode =
            rota_json_scan_bool(scan) ? ROTA_SPREAD_SLOTS : ROTA_SPREAD_LOOKUP;
    else if (rota_str_is_equal(key, rota_str("change_start_ms")))
        layout->change.start = (rota_time)rota_json_scan_uint(scan, MOMENT_MAX) * ROTA_MSEC;
    else if (rota_str_is_equal(key, rota_str("change_end_ms")))
        layout->change.end = (rota_time)rota_json_scan_uint(scan, MOMENT_MAX) * ROTA_MSEC;
    else
        rota_json_scan_skip(scan);
}

static enum rota_code read_items(struct rota_scan *scan, queue_seen *on_queue, void *data,
                                 struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    struct rota_str key;
    rota_json_scan_array(scan);
    while (!code && rota_json_scan_item(scan)) {
        struct rota_node_queue queue = {.name = rota_str("")};
        rota_json_scan_object(scan);
        while (rota_json_scan_key(scan, &key))
            read_field(scan, key, &queue);
        if (!scan->failed && !rota_layout_check(&queue.layout, NULL))
            code = on_queue(data, &queue, error);
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
        return rota_error_no_memory(error, "to query the queues");
    rota_json_scan_init(&scan, document, room);
    rota_json_scan_object(&scan);
    while (!code && rota_json_scan_key(&scan, &key)) {
        if (rota_str_is_equal(key, rota_str("items")))
            code = read_items(&scan, on_queue, data, error);
        else
            rota_json_scan_skip(&scan);
    }
    free(room);
    return code;
}
