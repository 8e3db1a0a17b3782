/* delivery_fsm: what connected workers are sent, and what follows from what they report.
 *
 *     connected --READY--> a session of the broker --disconnected, lost--> gone
 *
 * The connections lose messages without notice, but keep their order. So each message of jobs or
 * cancels begins a *round*, and a worker that was sent any is asked what it has: its answer shows
 * what reached it of all rounds up to the question. What did not is lost and goes to a worker
 * again; what it has and should not have is cancelled. Up to round `sure` this is known. A worker
 * that was sent nothing is also asked now and then, since its own messages may be lost, too; one
 * that never reports its capabilities is disconnected.
 *
 * A worker may run jobs of other nodes (remote_fsm.h): they keep slots that our jobs do not get.
 * A worker that returns names what it runs. Attempts at jobs of this node are the broker's to
 * judge; those at jobs that the route gives to another node, and that are not here, are claimed
 * there. An attempt that no node lets it keep is cancelled.
 *
 * Invariants: an attempt goes to one session; only the session that has it ends it; jobs and
 * cancels are sent in their order; no conclusion is drawn from an answer about what was sent after
 * its question; jobs of other nodes and ours together never exceed the slots that the worker
 * reported.
 *
 * It drives a broker and a remote_fsm that the caller supplies, and is pure, too: the caller
 * executes their effects and actions. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "base/vector.h"
#include "core/work/broker/broker.h"
#include "core/work/cluster/remote_fsm.h"
#include "core/work/worker/sessions.h"

enum {
    ROTA_DELIVERY_BATCH_MAX = 4096,       /* entries of one message */
    ROTA_DELIVERY_BATCH_BYTES = 16 << 20, /* of jobs in one message; one job may have more */
    ROTA_DELIVERY_JOB_BYTES = 128,        /* of a job without its texts, at most */
    ROTA_DELIVERY_READY_CHECKS = 3,       /* after this many an unready worker is disconnected */
    ROTA_DELIVERY_SURE_CHECKS = 4,        /* ... and after this many without a question, one */
};

#define ROTA_DELIVERY_CHECK (3 * ROTA_SEC) /* how often workers are checked */

/* A connected worker, in the caller's memory; zeroed before CONNECTED, and kept until
 * DISCONNECTED. */
struct rota_delivery_worker {
    struct rota_list_node link, dirty;
    uint64_t session; /* of the broker, the key in `by_session`; 0: not ready */
    uint32_t slots;   /* as reported by the worker */
    uint32_t n_kept;  /* ... for jobs of other nodes */
    bool takes_ended_with_jobs;
    size_t n_jobs, n_cancels, n_verdicts; /* entries that were written and not sent */
    size_t n_bytes;                       /* of the jobs, at most */

    uint64_t round, sure;
    uint64_t handed;                   /* the last that it was sent, as the broker counts them */
    unsigned n_unready;                /* checks that found it not ready */
    unsigned n_sure;                   /* that found nothing to ask */
    uint64_t asked_round, asked_taken; /* of the last question; attempts of other nodes till then */
};

struct rota_delivery_options {
    struct rota_broker *broker;     /* kept */
    struct rota_remote_fsm *remote; /* kept; NULL: no jobs of other nodes come here */

    /* Whether the route gives a job to another node, whose address is `*node`, borrowed. Asked only
     * when there is a remote. */
    bool (*is_others)(void *data, struct rota_str queue, struct rota_job_id id,
                      struct rota_str *node);
    void *data; /* kept */
    uint64_t seed;
};

enum rota_delivery_event_type {
    ROTA_DELIVERY_TICK,

    /* A connection: `worker`. */
    ROTA_DELIVERY_CONNECTED,
    ROTA_DELIVERY_DISCONNECTED, /* `how`; it is forgotten */

    /* From a worker: `worker`. */
    ROTA_DELIVERY_READY,    /* `spec`, `takes_ended_with_jobs`, and `held`, which it runs */
    ROTA_DELIVERY_END,      /* `end` */
    ROTA_DELIVERY_PROGRESS, /* `end`: the text is its reason */
    ROTA_DELIVERY_SLOTS,    /* `n` */
    ROTA_DELIVERY_HOLDS,    /* `held`, of the question `up_to` and `round`; `n` slots, if any */

    /* For a worker: `worker`, or that of `session`. HAND and FETCHED without actions: it can't be
     * sent there. */
    ROTA_DELIVERY_HAND,    /* a job of the broker, the `handed`th, of `size` bytes */
    ROTA_DELIVERY_FETCHED, /* ... of `node`: `attempt`, under `lease` */
    ROTA_DELIVERY_CANCEL,  /* `attempt`; `n` slots for jobs of other nodes become free */
    ROTA_DELIVERY_VERDICT, /* the answer to an END */
    ROTA_DELIVERY_LOST,    /* the broker has ended the session */
    ROTA_DELIVERY_KEEP,    /* `n` slots for jobs of other nodes */
    ROTA_DELIVERY_RELEASE, /* ... and no longer */

    ROTA_DELIVERY_FLUSH, /* send what was written */
    ROTA_DELIVERY_DRAIN, /* `is_draining`: workers get no jobs */
};

/* Everything is borrowed. */
struct rota_delivery_event {
    enum rota_delivery_event_type type;
    uint32_t n;
    bool has_slots, takes_ended_with_jobs, is_draining;
    enum rota_session_end how;
    struct rota_delivery_worker *worker;
    uint64_t session;
    union {
        struct {                                 /* of READY and HOLDS */
            const struct rota_worker_spec *spec; /* name, epoch, capabilities, queues and slots */
            struct rota_worker_running *held;    /* changed */
            size_t n_held;
            uint64_t up_to, round;
        };
        struct { /* of HAND, FETCHED and CANCEL */
            uint64_t handed;
            size_t size;
            const struct rota_worker_running *attempt;
            struct rota_str node;
            rota_time lease;
        };
        struct rota_attempt_end *end; /* its session is set */
    };
};

enum rota_delivery_action_type {
    ROTA_DELIVERY_DO_WRITE,  /* append the entry of the event to the batch of its kind */
    ROTA_DELIVERY_DO_CANCEL, /* append a cancel of `attempt`, which is LOST */
    ROTA_DELIVERY_DO_MERGE,  /* move the batch of verdicts into that of jobs */
    ROTA_DELIVERY_DO_SEND_VERDICTS,
    ROTA_DELIVERY_DO_SEND_JOBS,
    ROTA_DELIVERY_DO_SEND_CANCELS,
    ROTA_DELIVERY_DO_ASK,    /* what it has: `number` is the last that was handed out; `round` */
    ROTA_DELIVERY_DO_ANSWER, /* the END has ended with `code`, by record `number` */
    ROTA_DELIVERY_DO_DROP,   /* end the connection because of `fsm->error` */
    ROTA_DELIVERY_DO_REFUSE, /* the same, for what the worker has sent */
    ROTA_DELIVERY_DO_LEARN,  /* its slots were not known: `number`, now `worker->slots` */
};

/* Fields that its type does not name are not set. */
struct rota_delivery_action {
    enum rota_delivery_action_type type;
    enum rota_code code;
    struct rota_delivery_worker *worker;
    const struct rota_worker_running *attempt; /* of the event */
    uint64_t number, round;
};

/* In this order. Borrowed until the next step. */
struct rota_delivery_actions {
    const struct rota_delivery_action *items;
    size_t n;
};

struct rota_delivery_fsm {
    struct rota_delivery_options options;
    struct rota_map by_session;
    struct rota_list_node workers, dirty;
    rota_time check_at;
    bool is_draining;
    struct rota_error error; /* of DROP and REFUSE */
    ROTA_VECTOR(struct rota_delivery_action) actions;
};

/* False when there is no memory. */
bool rota_delivery_fsm_init(struct rota_delivery_fsm *fsm,
                            const struct rota_delivery_options *options, rota_time now);
void rota_delivery_fsm_deinit(struct rota_delivery_fsm *fsm);

/* Gives what to do. Without memory less is done, and the rest with the next check or flush. */
struct rota_delivery_actions rota_delivery_fsm_step(struct rota_delivery_fsm *fsm,
                                                    struct rota_work_now now,
                                                    const struct rota_delivery_event *event);

/* When it needs a tick, on the monotonic clock. */
rota_time rota_delivery_fsm_deadline(const struct rota_delivery_fsm *fsm);

/* Whether a session of the broker is that of a connected worker. */
bool rota_delivery_fsm_has(const struct rota_delivery_fsm *fsm, uint64_t session);
