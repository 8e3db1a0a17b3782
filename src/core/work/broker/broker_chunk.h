/* broker_chunk: jobs that move to other nodes, chunk by chunk. */
#pragma once

#include "base/vector.h"
#include "core/work/broker/broker_queue.h"

/* Some jobs of a partition that move to another broker. */
struct rota_work_chunk {
    struct rota_job_id name;
    uint32_t queue, partition;
    uint64_t number; /* of its last record */
    size_t n_ids;    /* 0: the receiver has it */
    char *to;
    struct rota_job_id ids[]; /* sorted */
};

/* A chunk that is being received: its jobs so far. */
struct rota_work_coming {
    struct rota_job_id name; /* none: no chunk is being received */
    ROTA_VECTOR(struct rota_job_id) ids;
    uint32_t queue; /* of them */
};

/* A chunk that was received from another broker. */
struct rota_work_taken {
    struct rota_job_id name;
    uint64_t number;
    rota_time over_at; /* wall clock: since when its sender knows; 0: it may ask again */
};

struct rota_broker_chunks {
    ROTA_VECTOR(struct rota_work_chunk *) sent;
    ROTA_VECTOR(struct rota_work_taken) taken;
    struct rota_work_coming coming;
};

enum rota_code rota_broker_chunk_read(struct rota_broker *broker,
                                      const struct rota_work_record *record,
                                      struct rota_error *error);
enum rota_code rota_broker_chunk_read_taken(struct rota_broker *broker,
                                            const struct rota_work_record *record,
                                            struct rota_error *error);

/* A job of the chunk that is being received was made; false when there is no memory. */
bool rota_broker_chunk_note_coming(struct rota_broker *broker, const struct rota_job *job);

/* Undo a chunk that was not completed: its sender still has it. False when there is no memory. */
bool rota_broker_chunk_drop_coming(struct rota_broker *broker);

/* Rewrite all chunks; false when there is no memory for all of them. */
bool rota_broker_chunk_rewrite_all(struct rota_broker *broker);
void rota_broker_chunk_free_all(struct rota_broker *broker);

/* How many jobs of the partition are in flight. */
size_t rota_broker_chunk_n_jobs(const struct rota_broker *broker,
                                const struct rota_work_queue *queue, uint32_t partition);

/* Whether a job is in flight, as far as is known; it may be forgotten here already. */
bool rota_broker_chunk_has(const struct rota_broker *broker, const struct rota_work_queue *queue,
                           struct rota_job_id id);

/* The job has returned: it is no longer in flight. False when there is no memory for the record. */
bool rota_broker_chunk_undo(struct rota_broker *broker, const struct rota_work_queue *queue,
                            struct rota_job_id id);
