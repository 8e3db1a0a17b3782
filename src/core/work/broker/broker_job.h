/* broker_job: changes of a job's state, without effects: also used for replay. */
#pragma once

#include "core/work/broker/broker.h"
#include "core/work/job/job_table.h"

static inline bool rota_job_state_is_ended(int state)
{
    return state >= ROTA_JOB_DONE;
}

void rota_broker_job_set_state(struct rota_broker *broker, struct rota_job *job,
                               enum rota_job_state state);

/* A job from its spec, WAITING, in no lane or list. Its partition must be known. */
enum rota_code rota_broker_job_new(struct rota_broker *broker, const struct rota_job_spec *spec,
                                   struct rota_job_id id, rota_time at, uint64_t order,
                                   uint32_t *number, struct rota_error *error);

/* Remove a job; false when there is no memory for what effects point to. Erase it only when no
 * effect points to it, or the memory is reserved. */
void rota_broker_job_erase(struct rota_broker *broker, uint32_t number);
bool rota_broker_job_free(struct rota_broker *broker, uint32_t number);

/* Its last whole record is `record`. */
void rota_broker_job_whole(struct rota_broker *broker, uint32_t number, uint64_t record);

/* It waits, and enters its lane if it may be handed out. After rota_broker_ready(). */
void rota_broker_job_enter(struct rota_broker *broker, uint32_t number);

/* It leaves its lane, in which it must be; or only if it is there. */
void rota_broker_job_pull(struct rota_broker *broker, uint32_t number);

/* An attempt begins; the job has an extra. Takes one reference to `worker`, which may be NULL. */
void rota_broker_job_start(struct rota_broker *broker, uint32_t number, uint64_t attempt,
                           uint32_t n_attempts, struct rota_work_name *worker, rota_time at);

/* The running attempt is over and the job returns; `number` is that of the record about it. Its
 * state is WAITING or DELAYED, by `not_before`, but it is in no lane. */
void rota_broker_job_back(struct rota_broker *broker, uint32_t job_number,
                          const struct rota_work_record *record);

/* It ends as `record` says; takes `result`, which may be NULL. The job has an extra. */
void rota_broker_job_end(struct rota_broker *broker, uint32_t job_number,
                         const struct rota_work_record *record, char *result);

/* The workers that died at it are those of `record`. */
void rota_broker_job_set_killed(struct rota_broker *broker, struct rota_job_extra *extra,
                                const struct rota_work_record *record);

/* It waits again. Fails when its unique key is taken, or its fair key has no room. */
enum rota_code rota_broker_job_revive(struct rota_broker *broker, uint32_t job_number, rota_time at,
                                      struct rota_error *error);

/* A copy, counted; NULL when there is no memory, or nothing to copy. */
char *rota_broker_job_copy(struct rota_broker *broker, struct rota_str bytes);

/* Free a copy of `size` bytes. */
void rota_broker_job_discard_copy(struct rota_broker *broker, char *copy, size_t size);

/* The hash that is kept of a payload when its job is done; never 0. */
uint64_t rota_broker_job_hash_payload(const struct rota_broker *broker, struct rota_str payload);

void rota_broker_job_fill_spec(const struct rota_broker *broker, const struct rota_job *job,
                               struct rota_job_spec *spec);
