/* remote_fsm: attempts at jobs of other nodes, by workers that are connected here.
 *
 * The other node handed us the job under a lease. While its worker lives we *extend* the lease,
 * three times as often as needed; when the worker reports the result its slot is free, and we send
 * the *end* to the other node, repeatedly until it has answered; only then the worker is
 * acknowledged. An attempt that the other node no longer knows, because its lease expired, the job
 * was cancelled or has moved, is *cancelled* at the worker.
 *
 *     RUNNING --worker reports its end, or is lost--> ENDING --answered--> gone
 *     RUNNING --refused: it is over there--> gone, and cancelled here
 *
 * A worker that returns *claims* what it still runs: the other node resumes an attempt that was
 * given up too early, when it is extended.
 *
 * When the other node is unreachable the worker continues: the node may return within its grace,
 * and it rejects an end that is too late. When we fail, the lease is not extended, and the job
 * goes to another worker when it expires. One call per attempt is in flight at a time, and every
 * call is answered. */
#pragma once

#include "base/heap.h"
#include "base/map.h"
#include "base/vector.h"
#include "core/work/broker/broker.h"

enum {
    ROTA_REMOTE_ATTEMPTS_MAX = 65536,
    ROTA_REMOTE_EXTENDS = 3, /* per duration of a lease */
};

#define ROTA_REMOTE_LEASE     (10 * ROTA_SEC)
#define ROTA_REMOTE_AGAIN     (250 * ROTA_MSEC) /* before a failed call is repeated; doubles */
#define ROTA_REMOTE_AGAIN_MAX (3 * ROTA_SEC)

enum rota_remote_action_type {
    ROTA_REMOTE_DO_EXTEND, /* call the node of the job; answer with rota_remote_fsm_answered() */
    ROTA_REMOTE_DO_END,    /* the same */
    ROTA_REMOTE_DO_CANCEL, /* tell the worker of `session` to stop, for `end.cause` */
    ROTA_REMOTE_DO_TELL,   /* report the result of its end: `code` */
};

/* Pointers are valid until rota_remote_fsm_clear(). */
struct rota_remote_action {
    enum rota_remote_action_type type;
    uint64_t session;            /* 0: it is over */
    struct rota_str node;        /* that has the job; empty: the one that the route names */
    struct rota_attempt_end end; /* of EXTEND queue, id and attempt, and progress as `reason` */
    enum rota_code code;
};

struct rota_remote_block;

struct rota_remote_fsm {
    struct rota_map attempts; /* by id and attempt */
    struct rota_heap due;
    ROTA_VECTOR(struct rota_remote_action) actions;
    struct rota_remote_block *trash; /* what actions point to */
    uint64_t n_taken;
    uint64_t n_done, n_refused, n_lost; /* counted by result */
};

void rota_remote_fsm_init(struct rota_remote_fsm *fsm, uint64_t seed);
void rota_remote_fsm_deinit(struct rota_remote_fsm *fsm);

const struct rota_remote_action *rota_remote_fsm_actions(const struct rota_remote_fsm *fsm,
                                                         size_t *n);
void rota_remote_fsm_clear(struct rota_remote_fsm *fsm);

/* A worker's session has received an attempt of a node, under a lease that began at `now`. */
enum rota_code rota_remote_fsm_take(struct rota_remote_fsm *fsm, rota_time now, uint64_t session,
                                    struct rota_str node, const struct rota_worker_running *attempt,
                                    rota_time lease, struct rota_error *error);

/* Whether an attempt is one of these, and of which node. */
bool rota_remote_fsm_has(const struct rota_remote_fsm *fsm, struct rota_job_id id, uint64_t attempt,
                         uint64_t *session);

/* The worker reports the end; copied. False if the attempt is not one of these. `*code` is
 * ROTA_ERR_STALE when it was reported before: it counts once; ROTA_ERR_NO_MEMORY leaves it
 * unchanged. */
bool rota_remote_fsm_end(struct rota_remote_fsm *fsm, rota_time now,
                         const struct rota_attempt_end *end, enum rota_code *code);

/* The worker reports progress; copied. False if the attempt is not one of these. */
bool rota_remote_fsm_progress(struct rota_remote_fsm *fsm, rota_time now, struct rota_job_id id,
                              uint64_t attempt, struct rota_str text);

/* The session is over: its attempts end with `cause`. LOST, when its worker died, backs off;
 * FAILED and GIVEN_BACK are retried at once. Returns how many those were. */
size_t rota_remote_fsm_lost(struct rota_remote_fsm *fsm, rota_time now, uint64_t session,
                            enum rota_job_cause cause);

/* The session is over because this node was not listening: its attempts go on without one. Those
 * that are not claimed until then are given back. */
void rota_remote_fsm_adrift(struct rota_remote_fsm *fsm, uint64_t session, rota_time until);

/* A worker that returns names an attempt at a job of `node`: the attempt continues if that node has
 * not given the job to another worker, and is cancelled otherwise. `*is_running` is false when the
 * worker has reported its end before. ROTA_ERR_STALE when another session has it. */
enum rota_code rota_remote_fsm_claim(struct rota_remote_fsm *fsm, rota_time now, uint64_t session,
                                     struct rota_str node,
                                     const struct rota_worker_running *running, bool *is_running,
                                     struct rota_error *error);

/* Another session of the same worker has replaced one; returns how many attempts run in it. */
uint32_t rota_remote_fsm_move(struct rota_remote_fsm *fsm, uint64_t session, uint64_t to);

/* A worker that was asked when `n_taken` attempts in total had been taken reports what it has:
 * attempts that it does not name never reached it, and are returned. Returns how many those
 * were. Attempts of other nodes are removed from `held`. */
uint32_t rota_remote_fsm_holds(struct rota_remote_fsm *fsm, rota_time now, uint64_t session,
                               uint64_t n_taken, struct rota_worker_running *held, size_t *n_held);

/* The other node's answer to EXTEND or END: ROTA_OK, ROTA_ERR_STALE or _NOT_FOUND (it is over),
 * ROTA_ERR_INVALID (it will never accept it); all else: repeat the call. `is_cancelled`: it is
 * over because the job was cancelled. */
void rota_remote_fsm_answered(struct rota_remote_fsm *fsm, rota_time now, struct rota_job_id id,
                              uint64_t attempt, enum rota_code code, bool is_cancelled);

void rota_remote_fsm_tick(struct rota_remote_fsm *fsm, rota_time now);
rota_time rota_remote_fsm_deadline(const struct rota_remote_fsm *fsm);
