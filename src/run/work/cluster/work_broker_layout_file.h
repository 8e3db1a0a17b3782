/* broker_layout_file: the file of dynamic settings, watched, whose layouts the queues obey. All but
 * `open` and `info` accept NULL for the file. */
#pragma once

#include "run/work/broker/work_broker_front.h"

#include "core/work/cluster/layout_file.h"

struct rota_broker_layout_file;

/* Does nothing when the options name no file. Fails if it is unreadable or invalid. */
enum rota_code rota_work_broker_layout_file_open(struct rota_work_broker *broker,
                                                 struct rota_error *error);
void rota_work_broker_layout_file_close(struct rota_broker_layout_file *file);

/* Bring queues to the layouts of a new file, a number of them in each turn. */
void rota_work_broker_layout_file_turn(struct rota_broker_layout_file *file,
                                       struct rota_work_now now);

rota_time rota_work_broker_layout_file_deadline(const struct rota_broker_layout_file *file);

/* ROTA_ERR_INVALID with the place in the file, if the file decides about what is requested. */
enum rota_code rota_work_broker_layout_file_permit(const struct rota_broker_layout_file *file,
                                                   struct rota_str queue,
                                                   const struct rota_layout_wish *wish,
                                                   struct rota_error *error);

/* Set where the partitions and the spread of a queue come from. Borrowed until the next call. */
void rota_work_broker_layout_file_info(const struct rota_work_broker *broker,
                                       struct rota_queue_info *info);
