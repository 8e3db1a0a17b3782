/* store_jobs: the jobs of queues as rows of the store.
 *
 * A partition has a row that says who owns it and under which epoch, and a row for each of
 * its jobs. Whoever wants it takes it, which gives it an epoch that nobody ever had; from
 * then on what former owners write is refused. A *turn* is all that a broker has to write
 * at one time, for any number of partitions, in one transaction that looks at their epochs
 * first and holds their rows: so a turn and a taking come one after the other.
 *
 * Invariants: of a partition that is another's nothing is changed, and the turn says so of
 * that partition alone. A turn writes whole jobs, so that one whose outcome is unknown may be
 * written again.
 *
 * All of this blocks. */
#pragma once

#include "core/work/job.h"
#include "io/store.h"

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
    bool is_gone;     /* there is no such job any more, and nothing below counts */
    bool has_payload; /* the row may be new; otherwise the payload is in it */
    enum rota_job_state state;
    int16_t priority;
    uint32_t n_attempts;
    rota_time enqueued_at;
    struct rota_str worker, record, payload;
};

struct rota_store_setting {
    struct rota_str queue, key;
    uint32_t weight; /* of the key; 0: this is about the pause */
    bool is_paused;
    uint32_t kills_max;
    bool is_layout; /* this is about the layout, and nothing else */
    struct rota_work_layout layout;
    rota_time at;   /* of the layout; the latest counts */
    uint64_t epoch; /* not 0: the queue was deleted; the row of its partition goes, if it is still
                     * the writer's under this epoch, and rows that say what every queue has */
    uint32_t partition;
};

struct rota_store_turn {
    uint64_t instance;                         /* of who writes */
    struct rota_store_partition *partitions;   /* by queue, then number; each once */
    const struct rota_store_job *jobs;         /* each once */
    const struct rota_store_setting *settings; /* for all owners: no epoch guards them */
    size_t n_partitions, n_jobs, n_settings;
};

/* ROTA_ERR_UNKNOWN, ROTA_ERR_UNAVAILABLE: write the same again. */
enum rota_code rota_store_jobs_write(struct rota_store_session *session,
                                     struct rota_store_turn *turn, struct rota_error *error);

/* Take partitions; all get the same epoch, which is also the owner's life from now on. */
enum rota_code rota_store_jobs_take(struct rota_store_session *session, uint64_t instance,
                                    struct rota_str owner,
                                    const struct rota_store_partition *partitions,
                                    size_t n_partitions, uint64_t *epoch, struct rota_error *error);

/* Jobs of a partition by id, those behind `after` ("": from the first): `id`, `record`,
 * `payload`. None: that was all. */
enum rota_code rota_store_jobs_load(struct rota_store_session *session, struct rota_str queue,
                                    uint32_t partition, struct rota_str after,
                                    struct rota_sql_result *result, struct rota_error *error);

/* All partitions that ever had an owner: `queue`, `part`, `epoch`, `instance`; queues: `queue`,
 * `is_paused`; weights: `queue`, `fair_key`, `weight`; layouts, the latest of a queue last:
 * `queue`, `made_at`, `wanted`, `written`, `readable`, `batch`, `mode`. */
struct rota_store_jobs_list {
    struct rota_sql_result partitions, queues, weights, layouts;
};
enum rota_code rota_store_jobs_list(struct rota_store_session *session,
                                    struct rota_store_jobs_list *list, struct rota_error *error);
void rota_store_jobs_list_deinit(struct rota_store_jobs_list *list);

/* How many bytes a payload, or a result, may have for this database to take it. */
enum rota_code rota_store_jobs_bound(struct rota_store_session *session, size_t *bytes,
                                     struct rota_error *error);
