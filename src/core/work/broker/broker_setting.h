/* broker_setting: pauses and weights. */
#pragma once

#include "core/work/broker/broker_queue.h"

/* Reserve memory for a change of a queue, which is made if needed. */
enum rota_code rota_broker_setting_begin(struct rota_broker *broker, struct rota_work_now now,
                                         struct rota_str name, struct rota_work_queue **queue,
                                         struct rota_error *error);

/* ... and its record. */
struct rota_work_record *rota_broker_setting_write(struct rota_broker *broker,
                                                   enum rota_work_record_type type,
                                                   const struct rota_work_queue *queue);

/* Rewrite all of them; false when there is no memory. */
bool rota_broker_setting_rewrite_all(struct rota_broker *broker,
                                     const struct rota_work_queue *queue);
