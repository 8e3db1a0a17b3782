/* store_jobs: the jobs of queues as rows of the store.
 *
 * A partition has a row with its owner and epoch, and a row for each of its jobs. A broker takes
 * it, which gives it a new, unique epoch (fencing token); from then on writes of former owners are
 * rejected. A *turn* is everything that a broker has to write at a time, for any number of
 * partitions, in one transaction that checks their epochs first and locks their rows: so a turn and
 * a taking are serialized.
 *
 * Invariants: a turn changes nothing of a partition that another broker owns, and reports only that
 * partition. A turn writes whole jobs, so that one with an unknown outcome may be written again.
 *
 * All functions block. */
#pragma once

#include "core/work/job/job.h"
#include "io/sql/store_session.h"

enum {
    ROTA_STORE_JOBS_LOAD = 512,     /* rows of one load, at most */
    ROTA_STORE_JOBS_CHUNK = 1 << 20 /* bytes that several rows of a statement have, at most */
};

struct rota_store_partition {
    struct rota_str queue;
    uint32_t number;
    uint64_t epoch;
    bool is_stale; /* set by a write: it is another's */
};

/* A job that was changed. All is borrowed. */
struct rota_store_job {
    size_t partition; /* its index among those of the turn */
    struct rota_job_id id;
    bool is_gone;     /* the job was removed, and nothing below counts */
    bool has_payload; /* the row may be new; otherwise the payload is in it */
    enum rota_job_state state;
    int16_t priority;
    uint32_t n_attempts;
    rota_time enqueued_at;
    struct rota_str worker, record, payload;
};

/* A partition of a queue that was deleted: its row goes, if the writer still owns it under this
 * epoch. */
struct rota_store_removal {
    struct rota_str queue;
    uint32_t partition;
    uint64_t epoch;
};

struct rota_store_turn {
    uint64_t instance;                       /* of the writer */
    struct rota_store_partition *partitions; /* by queue, then number; each once */
    const struct rota_store_job *jobs;       /* each once */
    const struct rota_store_removal *removals;
    size_t n_partitions, n_jobs, n_removals;
};

/* ROTA_ERR_UNKNOWN, ROTA_ERR_UNAVAILABLE: write the same again. */
enum rota_code rota_store_jobs_write(struct rota_store_session *session,
                                     struct rota_store_turn *turn, struct rota_error *error);

/* Take partitions; all get the same epoch, which is also the owner's life from now on. */
enum rota_code rota_store_jobs_take_partitions(struct rota_store_session *session,
                                               uint64_t instance, struct rota_str owner,
                                               const struct rota_store_partition *partitions,
                                               size_t n_partitions, uint64_t *epoch,
                                               struct rota_error *error);

/* Jobs of a partition by id, after `after` ("": from the first): `id`, `record`, `payload`.
 * None: the end. */
enum rota_code rota_store_jobs_load(struct rota_store_session *session, struct rota_str queue,
                                    uint32_t partition, struct rota_str after,
                                    struct rota_sql_result *result, struct rota_error *error);

/* All partitions that ever had an owner: `queue`, `part`, `epoch`, `instance`. */
enum rota_code rota_store_jobs_list_partitions(struct rota_store_session *session,
                                               struct rota_sql_result *list,
                                               struct rota_error *error);

/* How many bytes a payload, or a result, may have for this database to take it. */
enum rota_code rota_store_jobs_bound(struct rota_store_session *session, size_t *bytes,
                                     struct rota_error *error);
