/* remote_fsm: attempts at jobs of other nodes, by workers that are connected here.
 *
 * The other node handed us the job under a lease. While its worker lives we *extend* the
 * lease, three times as often as needed; when the worker says how it went its slot is free,
 * and we carry the *end* back, again and again until the other node has answered; only then the
 * worker is told. An
 * attempt that the other node does not know any more, because its lease ran out, the job was
 * cancelled or has moved, is *cancelled* at the worker.
 *
 *     RUNNING --worker says how it went, or is lost--> ENDING --answered--> gone
 *     RUNNING --refused: it is over there--> gone, and cancelled here
 *
 * When the other node can't be reached the worker goes on: the node may be back within its
 * grace, and an end that comes too late is refused there. When we are lost, nobody extends, and
 * the job goes to another when the lease is over. One call is under way for an attempt at a
 * time, and every call is answered. */
#pragma once

#include "base/heap.h"
#include "base/map.h"
#include "base/vector.h"
#include "core/work/broker.h"

enum {
    ROTA_REMOTE_ATTEMPTS_MAX = 65536,
    ROTA_REMOTE_EXTENDS = 3, /* in the time of a lease */
};

#define ROTA_REMOTE_LEASE     (10 * ROTA_SEC)
#define ROTA_REMOTE_AGAIN     (250 * ROTA_MSEC) /* until a call that failed is made again; doubles */
#define ROTA_REMOTE_AGAIN_MAX (3 * ROTA_SEC)

enum rota_remote_action_type {
    ROTA_REMOTE_DO_EXTEND, /* call the node of the job; answer with rota_remote_fsm_answered() */
    ROTA_REMOTE_DO_END,    /* the same */
    ROTA_REMOTE_DO_CANCEL, /* tell the worker of `session` to stop, for `end.cause` */
    ROTA_REMOTE_DO_TELL,   /* tell it what became of its end: `code` */
};

/* What it points to stays until rota_remote_fsm_clear(). */
struct rota_remote_action {
    enum rota_remote_action_type type;
    uint64_t session;            /* 0: it is gone */
    struct rota_str node;        /* that has the job */
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
    uint64_t n_done, n_refused, n_lost; /* how they ended, in all */
};

void rota_remote_fsm_init(struct rota_remote_fsm *fsm, uint64_t seed);
void rota_remote_fsm_deinit(struct rota_remote_fsm *fsm);

const struct rota_remote_action *rota_remote_fsm_actions(const struct rota_remote_fsm *fsm,
                                                         size_t *n);
void rota_remote_fsm_clear(struct rota_remote_fsm *fsm);

/* A worker's session has been given an attempt of a node, under a lease that began at `now`. */
enum rota_code rota_remote_fsm_take(struct rota_remote_fsm *fsm, rota_time now, uint64_t session,
                                    struct rota_str node, const struct rota_worker_running *attempt,
                                    rota_time lease, struct rota_error *error);

/* Whether an attempt is one of these, and whose. */
bool rota_remote_fsm_has(const struct rota_remote_fsm *fsm, struct rota_job_id id, uint64_t attempt,
                         uint64_t *session);

/* The worker says how it went; copied. False when it is none of these. `*code` is
 * ROTA_ERR_STALE when that was said before: it counts once; ROTA_ERR_NO_MEMORY leaves it as it
 * was. */
bool rota_remote_fsm_end(struct rota_remote_fsm *fsm, rota_time now,
                         const struct rota_attempt_end *end, enum rota_code *code);

/* It says that it goes on; copied. False when it is none of these. */
bool rota_remote_fsm_progress(struct rota_remote_fsm *fsm, rota_time now, struct rota_job_id id,
                              uint64_t attempt, struct rota_str text);

/* The session is gone: what it had is ended as `cause`. LOST, when its worker died, backs off;
 * FAILED and GIVEN_BACK are tried again at once. Returns how many those were. */
size_t rota_remote_fsm_lost(struct rota_remote_fsm *fsm, rota_time now, uint64_t session,
                            enum rota_job_cause cause);

/* Another session of the same worker has taken the place of one; returns how many attempts run
 * in it. */
uint32_t rota_remote_fsm_move(struct rota_remote_fsm *fsm, uint64_t session, uint64_t to);

/* A worker that was asked when `n_taken` attempts had been taken in all says what it has: what
 * it does not name never came to it, and goes back. Returns how many those were. Of `held` those
 * that it has of other nodes are taken out. */
uint32_t rota_remote_fsm_holds(struct rota_remote_fsm *fsm, rota_time now, uint64_t session,
                               uint64_t n_taken, struct rota_worker_running *held, size_t *n_held);

/* What the other node said to EXTEND or END: ROTA_OK, ROTA_ERR_STALE or _NOT_FOUND (it is
 * over), ROTA_ERR_INVALID (it will never take it); all else: make the call again. `is_cancelled`:
 * it is over because somebody cancelled the job. */
void rota_remote_fsm_answered(struct rota_remote_fsm *fsm, rota_time now, struct rota_job_id id,
                              uint64_t attempt, enum rota_code code, bool is_cancelled);

void rota_remote_fsm_tick(struct rota_remote_fsm *fsm, rota_time now);
rota_time rota_remote_fsm_deadline(const struct rota_remote_fsm *fsm);
