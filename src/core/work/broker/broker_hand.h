/* broker_hand: opens, closes and hands over partitions. */
#pragma once

#include "core/work/broker/broker_queue.h"

/* Rewrite the settings of a queue; false when there is no memory for all of it. */
bool rota_broker_hand_rewrite_queue(struct rota_broker *broker,
                                    const struct rota_work_queue *queue);
