/* worker_fsm: what a polling worker does with its slots: when to ask for jobs, when to stop a
 * command, what to report, and when to leave.
 *
 *     taken --a slot is free--> RUNNING --ended--> SAYING --answered--> gone
 *       |                          |                 ^
 *       |                          +--over, out of time, no lease, leaving--> STOPPING --ended--+
 *       +--none is free, given back at once--> SAYING                                           |
 *                                                    ^--(nothing to say: gone)------------------+
 *
 * We hold an attempt by a lease, which is extended while its command runs. STOPPING asks the
 * command to end, and kills it `kill_after` later. The result of an attempt is reported until the
 * node answers, or until it no longer matters.
 *
 * Invariants: at most as many commands run as there are slots; a command is killed before its lease
 * can expire, so that no other worker runs it by then; a command that was asked to stop does not
 * count as successful, whatever its exit code; no jobs are requested while leaving; every job taken
 * is run, returned or left to its lease, and never forgotten before.
 *
 * It polls several nodes at a time, each for as many jobs as there are free slots: surplus jobs
 * are returned at once. */
#pragma once

#include "core/call/backoff.h"
#include "core/work/job/job.h"

enum {
    ROTA_WORKER_FSM_SLOTS_MAX = 1000,
    ROTA_WORKER_FSM_NODES_MAX = 64,
    ROTA_WORKER_FSM_NONE = UINT32_MAX, /* no attempt */

    /* The meaning of a command's exit code, except 0; all others: failed. */
    ROTA_WORKER_EXIT_NEVER = 65, /* no attempt will ever succeed */
    ROTA_WORKER_EXIT_LATER = 75, /* not now; does not count as an attempt */
};

#define ROTA_WORKER_FSM_EXTEND (2 * ROTA_SEC) /* at least this often */
#define ROTA_WORKER_FSM_HURRY  (3 * ROTA_SEC) /* for the last reports, when it hurries */

/* Zero means the default. */
struct rota_worker_fsm_options {
    uint32_t slots, n_nodes; /* 1 */
    rota_time lease;         /* 60 s; at least four times `kill_after` */
    rota_time timeout;       /* of a command; 0: none but the job's own */
    rota_time kill_after;    /* from asking a command to end to killing it; 5 s */
    rota_time drain;         /* for running commands when asked to stop; 0: stopped at once */
    rota_time retry_after;   /* of ROTA_WORKER_EXIT_LATER; 10 s */
    uint64_t seed;
};

enum rota_worker_attempt_state {
    ROTA_WORKER_GONE, /* the place is free */
    ROTA_WORKER_RUNNING,
    ROTA_WORKER_STOPPING,
    ROTA_WORKER_SAYING,
    ROTA_WORKER_FINISHED, /* GONE as soon as no call about it is in flight */
};

/* Why a command was asked to stop. */
enum rota_worker_stop {
    ROTA_WORKER_STOP_NONE,
    ROTA_WORKER_STOP_OVER,    /* cancelled, or another worker's: its result is not needed */
    ROTA_WORKER_STOP_TIMEOUT, /* it took too long */
    ROTA_WORKER_STOP_LEASE,   /* its node is unreachable, and the lease nearly expired */
    ROTA_WORKER_STOP_LEAVING,
    ROTA_WORKER_STOP_RESULT, /* it prints more than a result may have */
};

struct rota_worker_attempt {
    enum rota_worker_attempt_state state;
    enum rota_worker_stop why;
    uint32_t node;
    bool is_extending, is_saying; /* a call about it is in flight */
    bool is_told, is_killed;      /* of STOPPING: asked to end, killed */
    rota_time lease_until;
    rota_time extend_at;
    rota_time timeout_at;
    rota_time kill_by; /* at the latest: soon after the broker gives the job to another worker */
    rota_time kill_at;
    rota_time say_at;
    enum rota_job_cause cause; /* of SAYING */
    rota_time retry_after;
    struct rota_backoff backoff; /* of reporting it */
};

struct rota_worker_node {
    uint32_t n_asked; /* jobs, by the poll in flight; 0: there is none */
    rota_time ask_at;
    struct rota_backoff backoff;
};

struct rota_worker_fsm {
    struct rota_worker_fsm_options options;
    struct rota_worker_node nodes[ROTA_WORKER_FSM_NODES_MAX];
    struct rota_worker_attempt *attempts;
    size_t n_places, n_used; /* places, and how many are not GONE */
    uint32_t n_busy;         /* slots that are taken */
    rota_time pause_until;   /* no polls: commands can't be started */
    struct rota_backoff pause;
    bool is_leaving, is_hurrying;
    rota_time drain_until, leave_at; /* of is_leaving: when patience ends */
    struct rota_random random;
};

enum rota_worker_action_type {
    ROTA_WORKER_DO_POLL,     /* ask `node` for `n_jobs` */
    ROTA_WORKER_DO_UNPOLL,   /* cancel the poll at `node` */
    ROTA_WORKER_DO_EXTEND,   /* `attempt` */
    ROTA_WORKER_DO_TELL_END, /* ask the command of `attempt` to end */
    ROTA_WORKER_DO_KILL,     /* kill it */
    ROTA_WORKER_DO_SAY,      /* report that `attempt` ended with `cause` */
    ROTA_WORKER_DO_FORGET,   /* `attempt` is gone, and its number may be reused */
};

struct rota_worker_action {
    enum rota_worker_action_type type;
    uint32_t node, attempt, n_jobs;
    enum rota_job_cause cause;
    rota_time retry_after;
};

/* The result of a call. */
enum rota_worker_answer {
    ROTA_WORKER_YES,
    ROTA_WORKER_OVER,    /* the attempt is no longer ours */
    ROTA_WORKER_UNKNOWN, /* no answer, or not now */
};

/* Fills `fsm`; rota_worker_fsm_deinit() ends it. False when there is no memory. */
bool rota_worker_fsm_init(struct rota_worker_fsm *fsm,
                          const struct rota_worker_fsm_options *options);
void rota_worker_fsm_deinit(struct rota_worker_fsm *fsm);

/* --- events --- */

/* A poll has ended, with this many jobs, which are taken next. */
void rota_worker_fsm_polled(struct rota_worker_fsm *fsm, rota_time now, uint32_t node,
                            enum rota_worker_answer answer, size_t n_jobs);

/* A job has arrived, with a duration for its attempt (0: none). Gives the attempt's number, and
 * whether to start its command; if not it is returned. ROTA_WORKER_FSM_NONE: there is no place
 * to remember it, and its lease will expire. */
uint32_t rota_worker_fsm_taken(struct rota_worker_fsm *fsm, rota_time now, uint32_t node,
                               rota_time timeout, bool *is_to_start);

/* Its command can't be started: return it, and request no others until later. */
void rota_worker_fsm_not_started(struct rota_worker_fsm *fsm, rota_time now, uint32_t attempt);

/* Its command prints more than a result may have. */
void rota_worker_fsm_overflowed(struct rota_worker_fsm *fsm, rota_time now, uint32_t attempt);

/* Its command has ended: with a code, or by a signal when that is not 0. */
void rota_worker_fsm_ended(struct rota_worker_fsm *fsm, rota_time now, uint32_t attempt,
                           int exit_code, int signal);

/* An EXTEND that was sent at `sent_at`, or a SAY, was answered. */
void rota_worker_fsm_extended(struct rota_worker_fsm *fsm, rota_time now, uint32_t attempt,
                              rota_time sent_at, enum rota_worker_answer answer);
void rota_worker_fsm_said(struct rota_worker_fsm *fsm, rota_time now, uint32_t attempt,
                          enum rota_worker_answer answer);

/* Asked to leave; a second time: at once. */
void rota_worker_fsm_stop(struct rota_worker_fsm *fsm, rota_time now);

/* --- actions --- */

/* The next action at `now`; false when there is none. Start with *place = 0, after every event. */
bool rota_worker_fsm_next(struct rota_worker_fsm *fsm, rota_time now, size_t *place,
                          struct rota_worker_action *action);

/* When to ask for actions again; ROTA_TIME_NEVER: after an event. */
rota_time rota_worker_fsm_deadline(const struct rota_worker_fsm *fsm);

/* Asked to leave, and nothing is left to do, or nothing worth waiting for. */
bool rota_worker_fsm_is_over(const struct rota_worker_fsm *fsm, rota_time now);

/* Why an attempt was stopped, for people; NULL: it was not. */
const char *rota_worker_fsm_stop_text(enum rota_worker_stop why);
