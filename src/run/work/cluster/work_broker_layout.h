/* broker_layout: how many partitions each queue has, and changes of that. All but `open` accept
 * NULL for the layouts. */
#pragma once

#include "run/work/cluster/work_broker_rows.h"

struct rota_broker_layouts;

/* Set a message's fields for the spread of partitions, and the change in progress. */
#define ROTA_BROKER_TELL_SPREAD(message, layout)                                                   \
    do {                                                                                           \
        (message)->batch = (layout)->spread.batch;                                                 \
        (message)->is_slots = (layout)->spread.mode == ROTA_SPREAD_SLOTS;                          \
        (message)->change_from_batch = (layout)->change.from.batch;                                \
        (message)->change_from_slots = (layout)->change.from.mode == ROTA_SPREAD_SLOTS;            \
        (message)->change_start_ms = (uint64_t)((layout)->change.start / ROTA_MSEC);               \
        (message)->change_end_ms = (uint64_t)((layout)->change.end / ROTA_MSEC);                   \
    } while (0)

enum rota_code rota_work_broker_layout_open(struct rota_work_broker *broker,
                                            struct rota_error *error);
void rota_work_broker_layout_close(struct rota_broker_layouts *layouts);
bool rota_work_broker_layout_turn(struct rota_broker_layouts *layouts, struct rota_work_now now);
rota_time rota_work_broker_layout_deadline(const struct rota_broker_layouts *layouts);

/* The layout of a queue as it was set, or as the file of dynamic settings has it. The route follows
 * in the next turn. */
struct rota_work_layout rota_work_broker_layout_of(const struct rota_work_broker *broker,
                                                   struct rota_str queue);

/* Towards that of a queue without settings. */
rota_broker_layout_maker rota_work_broker_layout_make_usual;

/* Report how far this node is with the layout of a queue. What `reply` points into is in `records`,
 * which failed without memory. */
void rota_work_broker_layout_report(const struct rota_work_broker *broker, struct rota_str queue,
                                    struct rota_queue_changed_reply *reply,
                                    struct rota_buffer *records);

/* The methods. */
rota_broker_handler rota_work_broker_layout_set;
/* Texts in it are borrowed until the next call. */
void rota_work_broker_layout_info(const struct rota_work_broker *broker,
                                  struct rota_queue_info *info);
