/* broker_replay: reads and rewrites the journal. */
#pragma once

#include "core/work/broker/broker.h"
#include "core/work/job/job_table.h"

/* How far the journal was read, written and rewritten, as numbers of its records. */
struct rota_broker_journal {
    uint64_t life;
    uint64_t last_number, durable, life_number;
    uint64_t rewrite_number, settings_number;
    size_t rewrite_left;
    bool is_begun;
};

/* Begin the next life; its attempts are above all others. After rota_broker_ready(). */
void rota_broker_replay_next_life(struct rota_broker *broker);

/* Fill a JOB record with a job's current state; `record->spec` is set before. */
void rota_broker_replay_fill_job(const struct rota_broker *broker, const struct rota_job *job,
                                 struct rota_work_record *record);

/* A new job from a JOB record. It is in no lane or list. */
enum rota_code rota_broker_replay_take_job(struct rota_broker *broker,
                                           const struct rota_work_record *record, uint32_t *number,
                                           struct rota_error *error);

/* Convert the times of a job that was read to the monotonic clock. */
void rota_broker_replay_start_clocks(struct rota_broker *broker, uint32_t job_number);
