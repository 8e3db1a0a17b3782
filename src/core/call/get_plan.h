/* get_plan: where the keys of a Get go next; inside get_fsm.
 *
 * Keys with the same replicas are a group. Of these replicas the best ones count:
 * those that have not failed before those that have, live ones before others, and
 * never one that has said that it does not hold such keys. A broadcast goes to all
 * of them, else one is chosen. Then each host that was chosen gets one try with all
 * the keys that go there. */
#pragma once

#include "core/call/get_tries.h"

/* All idle keys. Those for which there is nobody wait. */
void rota_get_plan_idle(struct rota_get_step *step);

/* Keys of a broadcast that are out go to the live replicas that were not known when
 * they were sent, too. */
void rota_get_plan_join(struct rota_get_step *step);

/* The try is slow: its keys go to another replica as well, if there is one and a
 * token for it. */
void rota_get_plan_hedge(struct rota_get_step *step, size_t index);
