/* broker_end: ends attempts and jobs. */
#pragma once

#include "core/work/broker/broker_worker.h"
#include "core/work/job/job_table.h"

/* End the running attempt: the job returns to the queue, or is DEAD when it is out of attempts.
 * After rota_broker_ready() with its lane. Returns the number of the record. */
uint64_t rota_broker_end_attempt_over(struct rota_broker *broker, uint32_t job_number,
                                      enum rota_job_cause cause, struct rota_str reason,
                                      rota_time retry_after);

/* The same when it is lost. */
uint64_t rota_broker_end_attempt_lost(struct rota_broker *broker, uint32_t job_number,
                                      enum rota_work_loss loss, const char *reason);

/* Whether the last attempt can still be ended: it runs, or it was lost and the job was not
 * handed out since. */
static inline bool rota_broker_is_attempt_open(const struct rota_job *job,
                                               const struct rota_job_extra *extra)
{
    bool is_back = job->state == ROTA_JOB_WAITING || job->state == ROTA_JOB_DELAYED;
    return job->state == ROTA_JOB_RUNNING ||
           (is_back && extra && extra->attempt && extra->ended == extra->attempt &&
            extra->ended_cause == ROTA_JOB_CAUSE_LOST && extra->cause == ROTA_JOB_CAUSE_LOST);
}

/* Whether a lost attempt may be resumed: the job was not handed out since. */
bool rota_broker_end_may_resume(const struct rota_broker *broker, const struct rota_job *job,
                                uint64_t attempt);

/* ... and its worker; NULL: not known. */
struct rota_work_name *rota_broker_end_resumes_for(const struct rota_job_extra *extra);

/* Resume it as if it had not been lost, in no session. After rota_broker_ready(). */
void rota_broker_end_resume(struct rota_broker *broker, uint32_t job_number);

/* End the job. After rota_broker_ready(), and it has an extra. */
uint64_t rota_broker_end_finish(struct rota_broker *broker, uint32_t job_number,
                                enum rota_job_state state, enum rota_job_cause cause,
                                struct rota_str reason, char *result, size_t result_size);

/* Its timer fired; false when there is no memory. */
bool rota_broker_end_on_time(struct rota_broker *broker, uint32_t job_number);
