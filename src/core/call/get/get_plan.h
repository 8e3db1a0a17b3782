/* get_plan: where the keys of a Get go next; inside get_fsm.
 *
 * Keys with the same replicas are a group. The plan uses the best of these replicas: those that
 * have not failed before those that have, live ones before others, and never one that has
 * answered that it does not hold such keys. A broadcast goes to all of them, else one is chosen.
 * Then each host that was chosen gets one try with all the keys that go there. */
#pragma once

#include "core/call/get/get_tries.h"

/* All idle keys. Keys without a replica wait. */
void rota_get_plan_idle(struct rota_get_step *step);

/* Keys of a broadcast in flight also go to live replicas that were not known when they were
 * sent. */
void rota_get_plan_join(struct rota_get_step *step);

/* The try is slow: also send its keys to another replica, if there is one and a token for it. */
void rota_get_plan_hedge(struct rota_get_step *step, size_t index);
