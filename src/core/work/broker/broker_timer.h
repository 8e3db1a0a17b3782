/* broker_timer: timers of jobs. */
#pragma once

#include "core/work/broker/broker.h"
#include "core/work/job/job_table.h"

/* Set the job's timer to what its state needs. */
void rota_broker_timer_set(struct rota_broker *broker, const struct rota_job *job);

/* From now on the attempt has its timeout, if it has one, and the grace after it. The timer is not
 * set. */
void rota_broker_timer_limit_attempt(const struct rota_broker *broker,
                                     struct rota_job_extra *extra);

/* Stop the job's timer. */
void rota_broker_timer_drop(struct rota_broker *broker, const struct rota_job *job);

/* The job's extra, with room for its timer; NULL when there is no memory. */
struct rota_job_extra *rota_broker_timer_need_extra(struct rota_broker *broker,
                                                    uint32_t job_number);

/* The first extra that is due; 0: none. */
uint32_t rota_broker_timer_due(const struct rota_broker *broker);
rota_time rota_broker_timer_first(const struct rota_broker *broker);
