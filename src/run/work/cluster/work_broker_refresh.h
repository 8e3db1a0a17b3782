/* broker_refresh: calls that follow another view than this node knows. core/work/cluster/refresh.h
 * decides which wait, and which are sent on. */
#pragma once

#include "run/work/broker/work_broker_front.h"

struct rota_broker_errand;
struct rota_broker_part;

/* A call of another node has arrived: take the number of its view. */
void rota_work_broker_refresh_hear(struct rota_work_broker *broker, struct rota_server_call *call,
                                   struct rota_front_call *front);

/* Let the call begin when the view that it wants is known, or it has waited long enough. False:
 * it need not wait, and was not taken. */
bool rota_work_broker_refresh_park(struct rota_work_broker *broker,
                                   const struct rota_broker_method *method,
                                   struct rota_server_call *call,
                                   const struct rota_front_call *front);

/* The node that an errand was sent to has refused it: whether it begins again, which takes it. */
bool rota_work_broker_refresh_again(struct rota_broker_errand *errand,
                                    const struct rota_broker_part *part);

/* This node has joined or left the view: other nodes have to read it. */
void rota_work_broker_refresh_tell(struct rota_work_broker *broker);

/* The number of the caller's view says all. */
rota_broker_handler rota_work_broker_refresh_look;

void rota_work_broker_refresh_turn(struct rota_work_broker *broker, rota_time now);
rota_time rota_work_broker_refresh_deadline(const struct rota_work_broker *broker, rota_time now);
