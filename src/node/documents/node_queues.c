#include "node/documents/node_queues.h"

#include "wire/message/lean.h"
#include "wire/message/queue_message.h"

#define MOMENT_MAX ((uint64_t)(INT64_MAX / ROTA_MSEC)) /* in milliseconds since 1970 */

static struct rota_spread spread_of(uint64_t batch, bool is_slots)
{
    return (struct rota_spread){.batch = (uint32_t)batch,
                                .mode = is_slots ? ROTA_SPREAD_SLOTS : ROTA_SPREAD_LOOKUP};
}

static rota_time moment_of(uint64_t ms)
{
    return (rota_time)(ms < MOMENT_MAX ? ms : MOMENT_MAX) * ROTA_MSEC;
}

enum rota_code rota_node_queues_each(struct rota_str message,
                                     enum rota_code (*on_queue)(void *data,
                                                                const struct rota_node_queue *queue,
                                                                struct rota_error *error),
                                     void *data, struct rota_error *error)
{
    struct rota_lean_reader reader = rota_lean_reader(message);
    struct rota_lean_field field = {0};
    enum rota_code code = ROTA_OK;
    while (!code && rota_lean_next(&reader, &field) == ROTA_LEAN_FIELD) {
        struct rota_queue_info info;
        if (field.number != 1 || field.type != ROTA_LEAN_BYTES ||
            rota_message_decode(&ROTA_QUEUE_INFO, field.bytes, &info, NULL, NULL))
            continue;
        const struct rota_node_queue queue = {
            .name = info.name,
            .layout = {.wanted = (uint32_t)info.wanted,
                       .write = (uint32_t)info.write,
                       .read = (uint32_t)info.read,
                       .spread = spread_of(info.batch, info.is_slots),
                       .change = {.from = spread_of(info.change_from_batch, info.change_from_slots),
                                  .start = moment_of(info.change_start_ms),
                                  .end = moment_of(info.change_end_ms)}}};
        if (!rota_layout_check(&queue.layout, NULL))
            code = on_queue(data, &queue, error);
    }
    return code;
}
