/* broker_store_inside: jobs as rows that the nodes of a cluster share.
 *
 * partition_fsm decides which partitions are taken, loaded, opened and left.
 *
 * Changes are collected by job. When no write is in flight, all that was collected becomes a turn:
 * the current state of the jobs, in one transaction (io/sql/store_jobs.h). An answer is sent when
 * the turn with its record is known to be committed; a turn with an unknown outcome is written
 * again. Records of a partition that was lost are *void*: answers that wait for them fail.
 *
 * The store's thread has the connection; at most one letter of each kind is in flight. While the
 * store is unreachable for longer than ROTA_BROKER_STORE_PATIENCE jobs are neither accepted nor
 * handed out, and waiting calls fail. Private to the files of the broker. */
#pragma once

#include "core/work/cluster/partition_fsm.h"
#include "io/sql/store_jobs.h"
#include "run/store/store_thread.h"
#include "run/work/broker/work_broker_inside.h"
#include "run/work/store/work_broker_store.h"

enum {
    ROTA_BROKER_STORE_JOBS_MAX = 4096,     /* of a turn */
    ROTA_BROKER_STORE_BYTES_MAX = 8 << 20, /* ... unless it is one job */
    ROTA_BROKER_STORE_PARKED_MAX = 65536,  /* calls that wait for a partition */
};

#define ROTA_BROKER_STORE_PATIENCE (5 * ROTA_SEC)

/* A job that was changed since it was last written. */
struct rota_broker_dirty {
    struct rota_list_node link;
    struct rota_partition_held *part;
    struct rota_job_id id; /* the key in `dirty_jobs`, with `part` */
    uint64_t number;       /* of the first record that is not written */
    bool is_new;
    char key[sizeof(void *) + sizeof(struct rota_job_id)];
};

struct rota_broker_pending {
    uint64_t number;
    const struct rota_partition_held *part;
};

struct rota_broker_parked {
    struct rota_list_node link;
    struct rota_broker_request *request;
};

/* What a letter carries to the thread, and back. */
struct rota_broker_letter {
    struct rota_letter letter;
    struct rota_broker_store *store;
    bool is_under_way;
    enum rota_code code;
    struct rota_error error;
};

struct rota_broker_store {
    struct rota_work_broker *broker;
    struct rota_store *store; /* our own, with its thread and connection */
    uint64_t instance;
    struct rota_error why;               /* it is down; the thread has its own errors */
    char owner[ROTA_STORE_NAME_MAX + 1]; /* our name there; may be empty */
    uv_timer_t timer;
    unsigned n_parts_open; /* of this struct: the store and the timer */
    void (*on_closed)(void *data);
    void *data;
    bool is_up, is_closing, is_leaving;
    rota_time down_at; /* boot */
    size_t bytes_max;  /* of a payload, of a result */

    struct rota_partition_fsm fsm;
    bool is_driving;             /* its actions are executed */
    struct rota_list_node dirty; /* by number */
    struct rota_map dirty_jobs;
    ROTA_VECTOR(struct rota_store_removal) removals; /* their texts are owned */
    ROTA_VECTOR(struct rota_broker_pending) pending; /* records that are not written */
    ROTA_VECTOR(uint64_t) voids;                     /* sorted */
    bool is_all_void;
    struct rota_list_node parked;
    size_t n_parked;

    struct rota_broker_cluster_subscriber route;
    bool has_route;

    /* Letters, and what they carry. */
    struct rota_broker_letter write, look, take, load, leave;
    struct rota_store_turn turn;
    struct rota_arena turn_arena;
    uint64_t turn_number;
    bool has_turn; /* made, and not known to be written */
    struct rota_sql_result list;
    struct rota_store_partition taken[ROTA_PARTITION_TAKE_MAX];
    char taken_queues[ROTA_PARTITION_TAKE_MAX][ROTA_JOB_QUEUE_NAME_MAX];
    size_t n_taken;
    uint64_t taken_epoch;
    char load_queue[ROTA_JOB_QUEUE_NAME_MAX + 1], load_after[ROTA_JOB_ID_TEXT];
    uint32_t load_number;
    struct rota_sql_result rows;
    uint64_t n_loaded;
    size_t new_bytes_max;

    struct rota_store_session *session; /* the thread's */
};

/* --- work_broker_store.c --- */

/* Post a letter of ours. */
void rota_work_broker_store_post(struct rota_broker_letter *letter);

/* A letter has returned with its code: whether to go on. A failed one is retried later, over
 * another connection. */
bool rota_work_broker_store_heard(struct rota_broker_letter *letter);

/* Run what is due, and set the timer. */
void rota_work_broker_store_drive(struct rota_broker_store *store);

/* A call waits for the next check of all partitions. */
void rota_work_broker_store_look_soon(struct rota_broker_store *store);

/* Everything possible is written: release the store. */
void rota_work_broker_store_end(struct rota_broker_store *store);

/* The store has answered a check: jobs may be accepted and handed out. */
void rota_work_broker_store_there(struct rota_broker_store *store);

/* --- work_broker_store_turn.c --- */

bool rota_work_broker_store_turn_append(struct rota_work_broker *broker,
                                        const struct rota_work_record *record);

/* Write what was collected, if no write is in flight. */
void rota_work_broker_store_turn_write(struct rota_broker_store *store);
void rota_work_broker_store_turn_work_write(struct rota_letter *letter);
void rota_work_broker_store_turn_done_write(struct rota_letter *letter, bool is_cancelled);

/* The partition is lost: its records are void. */
void rota_work_broker_store_turn_void(struct rota_broker_store *store,
                                      const struct rota_partition_held *part);
void rota_work_broker_store_turn_deinit(struct rota_broker_store *store);

/* --- work_broker_store_parts.c --- */

/* Step the machine, and execute its actions. */
void rota_work_broker_store_parts_tell(struct rota_broker_store *store,
                                       const struct rota_partition_event *event);

/* ... because records were written, or something is due. */
void rota_work_broker_store_parts_take(struct rota_broker_store *store);

enum rota_partition_owner rota_work_broker_store_parts_owner(void *data, struct rota_str queue,
                                                             uint32_t number);
void rota_work_broker_store_parts_work_take(struct rota_letter *letter);
void rota_work_broker_store_parts_done_take(struct rota_letter *letter, bool is_cancelled);
void rota_work_broker_store_parts_work_load(struct rota_letter *letter);
void rota_work_broker_store_parts_done_load(struct rota_letter *letter, bool is_cancelled);
void rota_work_broker_store_parts_work_look(struct rota_letter *letter);
void rota_work_broker_store_parts_done_look(struct rota_letter *letter, bool is_cancelled);
void rota_work_broker_store_parts_deinit(struct rota_broker_store *store);

/* --- work_broker_store_gate.c --- */

/* Handle calls that wait for a partition again; or reject them, when `why` is set. */
void rota_work_broker_store_gate_unpark(struct rota_broker_store *store, const char *why);
