/* The client of sim_get: several Gets at a time, and pings. The planted bugs are here, in
 * what it makes of the machine's wishes and of answers. */
#pragma once

#include "get_checks.h"

void drive(struct world *world, struct get *get, const struct rota_get_fsm_event *event);
rota_time gap_of(const struct setting *setting);

/* A Get every now and then, as many at a time as there is room for. */
void start_some(struct world *world);
void ping(struct world *world);
void on_pong(struct world *world, uint32_t from, const struct message *message);
void on_response(struct world *world, uint32_t from, const struct message *message);
void on_refusal(struct world *world, uint32_t from, const struct message *message);
