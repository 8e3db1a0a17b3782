/* broker_load: partitions whose jobs are in a store. */
#pragma once

#include "core/work/broker/broker_queue.h"

/* Loaded jobs start to count. */
void rota_broker_load_begin(struct rota_broker *broker, struct rota_work_queue *queue,
                            struct rota_work_partition *partition);
