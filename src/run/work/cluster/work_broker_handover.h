/* broker_handover: jobs of partitions that belong to another node are handed over. All with a
 * handover accept NULL. */
#pragma once

#include "run/work/broker/work_broker_front.h"

struct rota_broker_handover;

enum rota_code rota_work_broker_handover_open(struct rota_work_broker *broker,
                                              struct rota_error *error);
void rota_work_broker_handover_close(struct rota_broker_handover *handover);

/* True when something changed. */
bool rota_work_broker_handover_turn(struct rota_broker_handover *handover,
                                    struct rota_work_now now);
rota_time rota_work_broker_handover_deadline(const struct rota_broker_handover *handover);

/* Adopt jobs, or learn that their sender knows that they are here. */
rota_broker_handler rota_work_broker_handover_adopt;

/* A node is permanently lost. */
rota_broker_handler rota_work_broker_handover_forget_node;
