/* The store of a broker: jobs as rows that the nodes of a cluster share.
 *
 * A partition that is ours is *taken*, which gives it an epoch, its jobs are *loaded*, and
 * it is *open* until it is given up or turns out to be another's:
 *
 *     WANTED --take--> TAKING --> LOADING --all read--> OPEN --route--> LEAVING --written--> gone
 *     any of these --its epoch is another's--> gone
 *
 * What changes is gathered by job. When nothing is being written, all that was gathered
 * becomes a turn: the jobs as they are now, in one transaction (io/store_jobs.h). An answer
 * goes out when the turn with its record is known to be committed; a turn whose outcome is
 * not known is written again. Records of a partition that was lost are *void*: what waits for
 * them is refused.
 *
 * One thread has the connection; each kind of letter is under way once. While the store is
 * away for longer than ROTA_BROKER_STORE_PATIENCE nothing is taken in or handed out, and
 * those who wait are told so. For the files of the broker alone. */
#pragma once

#include "core/call/backoff.h"
#include "io/mailbox.h"
#include "io/store_jobs.h"
#include "run/broker_inside.h"

#include <rota/store.h>

enum {
    ROTA_BROKER_STORE_JOBS_MAX = 4096,     /* of a turn */
    ROTA_BROKER_STORE_BYTES_MAX = 8 << 20, /* ... unless it is one job */
    ROTA_BROKER_STORE_TAKE_MAX = 256,      /* partitions of one taking */
    ROTA_BROKER_STORE_PARKED_MAX = 65536,  /* calls that wait for a partition */
};

#define ROTA_BROKER_STORE_PATIENCE (5 * ROTA_SEC)
#define ROTA_BROKER_STORE_LOOK     (1 * ROTA_SEC)   /* how often all partitions are looked at */
#define ROTA_BROKER_STORE_LOOK_MIN (50 * ROTA_MSEC) /* ... when calls wait for it */

enum rota_broker_held_state {
    ROTA_BROKER_HELD_WANTED,
    ROTA_BROKER_HELD_TAKING,
    ROTA_BROKER_HELD_LOADING,
    ROTA_BROKER_HELD_OPEN,
    ROTA_BROKER_HELD_LEAVING, /* closed: what it has left is being written */
};

/* A partition that we have or want. */
struct rota_broker_held {
    enum rota_broker_held_state state;
    uint32_t number;
    uint64_t epoch;
    size_t n_dirty;   /* jobs that are to be written */
    size_t in_turn;   /* while a turn is made: its index in it */
    uint64_t until;   /* LEAVING: the last record that is to be written */
    bool is_seen;     /* while partitions are looked at */
    bool is_old;      /* it was there when they were looked at before */
    bool is_deleted;  /* LEAVING: with its queue, and so is its row to be */
    bool is_removing; /* ... which is on its way */
    struct rota_str queue;
    struct rota_str key; /* in `parts`: the number, then the queue */
    char bytes[];
};

/* A job that was changed since it was last written. */
struct rota_broker_dirty {
    struct rota_list_node link;
    struct rota_broker_held *part;
    struct rota_job_id id; /* the key in `dirty_jobs`, with `part` */
    uint64_t number;       /* of the first record that is not written */
    bool is_new;
    char key[sizeof(void *) + sizeof(struct rota_job_id)];
};

struct rota_broker_pending {
    uint64_t number;
    const struct rota_broker_held *part;
};

struct rota_broker_parked {
    struct rota_list_node link;
    rota_time at; /* monotonic: when the call came */
    struct rota_server_call *call;
    struct rota_broker_service *service;
};

/* A table of settings, as it was looked at last. */
struct rota_broker_seen {
    uint64_t hash;
    bool is_refused; /* a row of it was: it is tried again */
};

/* What a letter brings to the thread, and back. */
struct rota_broker_letter {
    struct rota_letter letter;
    struct rota_broker_store *store;
    bool is_under_way;
    enum rota_code code;
    struct rota_error error;
};

struct rota_broker_store {
    struct rota_work_broker *broker;
    struct rota_sql_url url;
    char name[ROTA_SQL_URL_TEXT_MAX];
    uint64_t instance;
    struct rota_error why;               /* it is down; the thread has errors of its own */
    char owner[ROTA_STORE_NAME_MAX + 1]; /* what we are called there; may be empty */
    struct rota_thread *thread;
    uv_timer_t timer;
    unsigned n_parts_open; /* of this struct: the thread and the timer */
    void (*on_closed)(void *data);
    void *data;
    struct rota_random random;
    struct rota_backoff backoff;

    bool is_up, is_closing, is_leaving;
    bool is_told_down; /* in the log, once until it is up again */
    bool is_away;      /* for too long */
    bool is_looked;    /* all partitions were looked at since the route changed */
    bool was_looked;   /* ... ever */
    bool is_settled;   /* all that was found first is open */
    rota_time down_at, retry_at, look_at; /* boot; ROTA_TIME_NEVER: not at all */
    rota_time look_began_at;              /* boot: the one under way, or the last one */
    rota_time looked_at;                  /* boot: when the last one began that is over */
    size_t bytes_max;                     /* of a payload, of a result */

    struct rota_map parts;
    size_t n_in[ROTA_BROKER_HELD_LEAVING + 1]; /* parts by state */
    struct rota_broker_seen pauses, weights, layouts;
    struct rota_list_node dirty; /* by number */
    struct rota_map dirty_jobs;
    ROTA_VECTOR(struct rota_store_setting) settings; /* their texts are owned */
    ROTA_VECTOR(struct rota_broker_pending) pending; /* records that are not written */
    ROTA_VECTOR(uint64_t) voids;                     /* sorted */
    ROTA_VECTOR(uint64_t) quiet; /* settings that were read here, and need not be written */
    bool is_all_void;
    struct rota_list_node parked;
    size_t n_parked;
    rota_time resumed_at; /* of the call that is handled anew: when it came; 0: there is none */

    struct rota_broker_cluster_subscriber route;
    bool has_route;

    /* Letters, and what they carry. */
    struct rota_broker_letter connect, write, look, take, load, leave;
    struct rota_store_turn turn;
    struct rota_arena turn_arena;
    uint64_t turn_number;
    bool has_turn; /* made, and not known to be written */
    struct rota_store_jobs_list list;
    struct rota_store_partition taken[ROTA_BROKER_STORE_TAKE_MAX];
    struct rota_broker_held *taken_parts[ROTA_BROKER_STORE_TAKE_MAX]; /* NULL: given up */
    char taken_queues[ROTA_BROKER_STORE_TAKE_MAX][ROTA_JOB_QUEUE_NAME_MAX];
    size_t n_taken;
    uint64_t taken_epoch;
    struct rota_broker_held *loaded; /* NULL: none, or given up */
    char load_queue[ROTA_JOB_QUEUE_NAME_MAX + 1], load_after[ROTA_JOB_ID_TEXT];
    uint32_t load_number;
    struct rota_sql_result rows;
    uint64_t n_loaded;
    size_t new_bytes_max;

    struct rota_store_session *session; /* the thread's, while a letter is under way */
};

/* --- broker_store.c --- */

/* Post a letter of ours. */
void rota_broker_store_post(struct rota_broker_letter *letter);

/* A letter came back with its code: whether to go on. What failed is tried again later, over
 * another connection. */
bool rota_broker_store_heard(struct rota_broker_letter *letter);

/* See what there is to do, and set the timer. */
void rota_broker_store_drive(struct rota_broker_store *store);

/* A call waits for what the next look at all partitions says. */
void rota_broker_store_look_soon(struct rota_broker_store *store);

/* All that could be written is: let go of the store. */
void rota_broker_store_end(struct rota_broker_store *store);

/* The store has answered a look: jobs may be taken in and handed out. */
void rota_broker_store_there(struct rota_broker_store *store);

/* --- broker_store_turn.c --- */

bool rota_broker_store_append(struct rota_work_broker *broker,
                              const struct rota_work_record *record);

/* Write what was gathered, if nothing is being written. */
void rota_broker_store_write(struct rota_broker_store *store);
void rota_broker_store_work_write(struct rota_letter *letter);
void rota_broker_store_done_write(struct rota_letter *letter, bool is_cancelled);

/* The partition is gone: its records are void. */
void rota_broker_store_void(struct rota_broker_store *store, const struct rota_broker_held *part);
void rota_broker_store_turn_deinit(struct rota_broker_store *store);

/* --- broker_store_parts.c --- */

struct rota_broker_held *rota_broker_store_part(const struct rota_broker_store *store,
                                                struct rota_str queue, uint32_t number);

/* ... made if need be; NULL when it can't be. */
struct rota_broker_held *rota_broker_store_want(struct rota_broker_store *store,
                                                struct rota_str queue, uint32_t number);

/* Take what is wanted, load what is taken, give up what is not ours any more. */
void rota_broker_store_take(struct rota_broker_store *store);

/* The row of a partition whose queue was deleted is gone. */
void rota_broker_store_removed(struct rota_broker_store *store,
                               const struct rota_store_setting *setting);

/* It is another's. Takes `part`. */
void rota_broker_store_lose(struct rota_broker_store *store, struct rota_broker_held *part,
                            const char *why);
void rota_broker_store_work_take(struct rota_letter *letter);
void rota_broker_store_done_take(struct rota_letter *letter, bool is_cancelled);
void rota_broker_store_work_load(struct rota_letter *letter);
void rota_broker_store_done_load(struct rota_letter *letter, bool is_cancelled);
void rota_broker_store_work_look(struct rota_letter *letter);
void rota_broker_store_done_look(struct rota_letter *letter, bool is_cancelled);
void rota_broker_store_parts_deinit(struct rota_broker_store *store);

/* --- broker_store_gate.c --- */

/* Calls that wait for a partition are looked at anew; or refused, when `why` is set. */
void rota_broker_store_unpark(struct rota_broker_store *store, const char *why);
