/* broker_workers: workers that are connected to a broker (<rota/experimental/connector.h>). All but
 * `check` and `open` accept NULL. */
#pragma once

#include "core/work/broker/broker.h"

#include <rota/experimental/broker.h>
#include <uv.h>

struct rota_broker_workers;

/* Whether workers could connect with these options; checked before anything is created. */
enum rota_code rota_work_broker_workers_check(const struct rota_work_broker_options *options,
                                              struct rota_error *error);
enum rota_code rota_work_broker_workers_open(struct rota_work_broker *broker, uv_loop_t *loop,
                                             struct rota_error *error);
void rota_work_broker_workers_close(struct rota_broker_workers *workers);

/* False when the session is not a worker's. */
bool rota_work_broker_workers_hand(struct rota_broker_workers *workers,
                                   const struct rota_work_effect *effect);
void rota_work_broker_workers_cancel(struct rota_broker_workers *workers,
                                     const struct rota_work_effect *effect, uint32_t n_released);
void rota_work_broker_workers_verdict(struct rota_broker_workers *workers, uint64_t connection,
                                      struct rota_str verdict);
void rota_work_broker_workers_lost(struct rota_broker_workers *workers, uint64_t session);
void rota_work_broker_workers_flush(struct rota_broker_workers *workers);
void rota_work_broker_workers_drain(struct rota_broker_workers *workers); /* or end that */

/* Keep free slots of a session for jobs of another node, or release them, as the end of a job from
 * there does, or its cancel, by `n_released`. False when there is no such session. */
bool rota_work_broker_workers_keep(struct rota_broker_workers *workers, uint64_t session,
                                   uint32_t n);
void rota_work_broker_workers_release(struct rota_broker_workers *workers, uint64_t session,
                                      uint32_t n);
void rota_work_broker_workers_counts(const struct rota_broker_workers *workers,
                                     struct rota_work_broker_counts *counts);

/* A job of another node for a connected session, under a lease; false when the session can't take
 * it. And the answer to its end. */
bool rota_work_broker_workers_hand_other(struct rota_broker_workers *workers, struct rota_str node,
                                         rota_time lease, const struct rota_work_effect *effect);
void rota_work_broker_workers_tell(struct rota_broker_workers *workers, uint64_t session,
                                   struct rota_str verdict);
