#include "core/work/worker/worker_fsm.h"

#include <assert.h>
#include <stdlib.h>

#define POLL_PAUSE  (100 * ROTA_MSEC) /* after an answer without jobs */
#define ASK_MAX     (10 * ROTA_SEC)   /* the longest wait before asking a node again */
#define SAY_MAX     (5 * ROTA_SEC)    /* ... before saying something again */
#define EXTEND_SOON (500 * ROTA_MSEC) /* after an ask without answer */

bool rota_worker_fsm_init(struct rota_worker_fsm *fsm,
                          const struct rota_worker_fsm_options *options)
{
    *fsm = (struct rota_worker_fsm){.options = *options, .pause_until = ROTA_TIME_MIN};
    struct rota_worker_fsm_options *held = &fsm->options;
    held->slots = held->slots ? held->slots : 1;
    held->n_nodes = held->n_nodes ? held->n_nodes : 1;
    held->lease = held->lease ? held->lease : 60 * ROTA_SEC;
    held->kill_after = held->kill_after ? held->kill_after : 5 * ROTA_SEC;
    held->retry_after = held->retry_after ? held->retry_after : 10 * ROTA_SEC;
    assert(held->slots <= ROTA_WORKER_FSM_SLOTS_MAX && held->n_nodes <= ROTA_WORKER_FSM_NODES_MAX);
    assert(held->lease >= 4 * held->kill_after);
    fsm->n_places = (size_t)held->slots * (held->n_nodes + 2);
    fsm->attempts = calloc(fsm->n_places, sizeof *fsm->attempts);
    for (size_t i = 0; i < ROTA_WORKER_FSM_NODES_MAX; i++)
        fsm->nodes[i] =
            (struct rota_worker_node){.ask_at = ROTA_TIME_MIN, .backoff = {.max = ASK_MAX}};
    rota_random_init(&fsm->random, held->seed);
    return fsm->attempts != NULL;
}

void rota_worker_fsm_deinit(struct rota_worker_fsm *fsm)
{
    free(fsm->attempts);
}

static rota_time extend_every(const struct rota_worker_fsm *fsm)
{
    return rota_time_min(ROTA_WORKER_FSM_EXTEND, fsm->options.lease / 4);
}

static struct rota_worker_attempt *attempt_at(struct rota_worker_fsm *fsm, uint32_t number)
{
    assert(number < fsm->n_places && fsm->attempts[number].state != ROTA_WORKER_GONE);
    return &fsm->attempts[number];
}

/* --- states --- */

static bool is_busy(const struct rota_worker_attempt *attempt)
{
    return attempt->state == ROTA_WORKER_RUNNING || attempt->state == ROTA_WORKER_STOPPING;
}

static void leave_slot(struct rota_worker_fsm *fsm, const struct rota_worker_attempt *attempt)
{
    if (is_busy(attempt))
        fsm->n_busy--;
}

static void begin_saying(struct rota_worker_fsm *fsm, rota_time now,
                         struct rota_worker_attempt *attempt, enum rota_job_cause cause)
{
    leave_slot(fsm, attempt);
    attempt->state = ROTA_WORKER_SAYING;
    attempt->cause = cause;
    attempt->say_at = now;
}

static void finish_attempt(struct rota_worker_fsm *fsm, struct rota_worker_attempt *attempt)
{
    leave_slot(fsm, attempt);
    attempt->state = ROTA_WORKER_FINISHED;
}

static void begin_stopping(struct rota_worker_fsm *fsm, rota_time now,
                           struct rota_worker_attempt *attempt, enum rota_worker_stop why)
{
    attempt->state = ROTA_WORKER_STOPPING;
    attempt->why = why;
    attempt->kill_at =
        rota_time_min(rota_time_min(rota_time_add(now, fsm->options.kill_after), attempt->kill_by),
                      why == ROTA_WORKER_STOP_LEASE ? attempt->lease_until : ROTA_TIME_NEVER);
}

/* --- events --- */

void rota_worker_fsm_polled(struct rota_worker_fsm *fsm, rota_time now, uint32_t number,
                            enum rota_worker_answer answer, size_t n_jobs)
{
    struct rota_worker_node *node = &fsm->nodes[number];
    node->n_asked = 0;
    if (answer == ROTA_WORKER_YES) {
        rota_backoff_succeeded(&node->backoff);
        node->ask_at = rota_time_add(now, n_jobs ? 0 : POLL_PAUSE);
    } else {
        node->ask_at = rota_time_add(now, rota_backoff_failed(&node->backoff, &fsm->random));
    }
}

uint32_t rota_worker_fsm_taken(struct rota_worker_fsm *fsm, rota_time now, uint32_t node,
                               rota_time timeout, bool *is_to_start)
{
    uint32_t number = 0;
    *is_to_start = false;
    while (number < fsm->n_places && fsm->attempts[number].state != ROTA_WORKER_GONE)
        number++;
    if (number == fsm->n_places)
        return ROTA_WORKER_FSM_NONE;
    struct rota_worker_attempt *attempt = &fsm->attempts[number];
    rota_time limit = fsm->options.timeout ? fsm->options.timeout : ROTA_TIME_NEVER;
    rota_time own = timeout > 0 ? timeout : ROTA_TIME_NEVER;
    *attempt = (struct rota_worker_attempt){
        .node = node,
        /* When it was handed out is unknown: some of the lease may be over. */
        .lease_until = rota_time_add(now, fsm->options.lease / 4 * 3),
        .extend_at = rota_time_add(now, extend_every(fsm)),
        .timeout_at = rota_time_add(now, rota_time_min(limit, own)),
        /* What is left of the grace is for the word of it to reach the broker. */
        .kill_by = rota_time_add(now, rota_time_add(own, ROTA_JOB_TIMEOUT_GRACE / 2)),
        .backoff = {.max = SAY_MAX},
    };
    fsm->n_used++;
    if (fsm->n_busy < fsm->options.slots && !fsm->is_leaving) {
        attempt->state = ROTA_WORKER_RUNNING;
        fsm->n_busy++;
        *is_to_start = true;
    } else {
        begin_saying(fsm, now, attempt, ROTA_JOB_CAUSE_GIVEN_BACK);
        attempt->retry_after = ROTA_MSEC; /* others can do it at once */
    }
    return number;
}

void rota_worker_fsm_not_started(struct rota_worker_fsm *fsm, rota_time now, uint32_t number)
{
    begin_saying(fsm, now, attempt_at(fsm, number), ROTA_JOB_CAUSE_GIVEN_BACK);
    fsm->pause_until = rota_time_add(now, rota_backoff_failed(&fsm->pause, &fsm->random));
}

void rota_worker_fsm_overflowed(struct rota_worker_fsm *fsm, rota_time now, uint32_t number)
{
    struct rota_worker_attempt *attempt = attempt_at(fsm, number);
    if (attempt->state == ROTA_WORKER_RUNNING)
        begin_stopping(fsm, now, attempt, ROTA_WORKER_STOP_RESULT);
}

void rota_worker_fsm_ended(struct rota_worker_fsm *fsm, rota_time now, uint32_t number,
                           int exit_code, int signal)
{
    struct rota_worker_attempt *attempt = attempt_at(fsm, number);
    rota_backoff_succeeded(&fsm->pause);
    if (attempt->state == ROTA_WORKER_STOPPING) {
        switch (attempt->why) {
        case ROTA_WORKER_STOP_NONE:
        case ROTA_WORKER_STOP_OVER:
            finish_attempt(fsm, attempt);
            return;
        case ROTA_WORKER_STOP_TIMEOUT:
        case ROTA_WORKER_STOP_RESULT:
            begin_saying(fsm, now, attempt, ROTA_JOB_CAUSE_FAILED);
            return;
        case ROTA_WORKER_STOP_LEASE:
        case ROTA_WORKER_STOP_LEAVING:
            begin_saying(fsm, now, attempt, ROTA_JOB_CAUSE_GIVEN_BACK);
            attempt->retry_after = ROTA_MSEC;
            return;
        }
    }
    if (signal == 0 && exit_code == 0) {
        begin_saying(fsm, now, attempt, ROTA_JOB_CAUSE_DONE);
    } else if (signal == 0 && exit_code == ROTA_WORKER_EXIT_LATER) {
        begin_saying(fsm, now, attempt, ROTA_JOB_CAUSE_GIVEN_BACK);
        attempt->retry_after = fsm->options.retry_after;
    } else {
        bool is_never = signal == 0 && exit_code == ROTA_WORKER_EXIT_NEVER;
        begin_saying(fsm, now, attempt, is_never ? ROTA_JOB_CAUSE_REFUSED : ROTA_JOB_CAUSE_FAILED);
    }
}

void rota_worker_fsm_extended(struct rota_worker_fsm *fsm, rota_time now, uint32_t number,
                              rota_time sent_at, enum rota_worker_answer answer)
{
    struct rota_worker_attempt *attempt = attempt_at(fsm, number);
    attempt->is_extending = false;
    switch (answer) {
    case ROTA_WORKER_YES:
        attempt->lease_until = rota_time_add(sent_at, fsm->options.lease);
        attempt->extend_at = rota_time_add(now, extend_every(fsm));
        break;
    case ROTA_WORKER_OVER:
        if (attempt->state == ROTA_WORKER_RUNNING)
            begin_stopping(fsm, now, attempt, ROTA_WORKER_STOP_OVER);
        else if (attempt->state == ROTA_WORKER_STOPPING)
            attempt->why = ROTA_WORKER_STOP_OVER;
        break;
    case ROTA_WORKER_UNKNOWN:
        attempt->extend_at = rota_time_add(now, EXTEND_SOON);
        break;
    }
}

void rota_worker_fsm_said(struct rota_worker_fsm *fsm, rota_time now, uint32_t number,
                          enum rota_worker_answer answer)
{
    struct rota_worker_attempt *attempt = attempt_at(fsm, number);
    attempt->is_saying = false;
    if (answer == ROTA_WORKER_UNKNOWN)
        attempt->say_at = rota_time_add(now, rota_backoff_failed(&attempt->backoff, &fsm->random));
    else
        finish_attempt(fsm, attempt);
}

void rota_worker_fsm_stop(struct rota_worker_fsm *fsm, rota_time now)
{
    if (!fsm->is_leaving) {
        fsm->is_leaving = true;
        fsm->drain_until = rota_time_add(now, fsm->options.drain);
        fsm->leave_at =
            rota_time_add(fsm->drain_until, 2 * fsm->options.kill_after + ROTA_WORKER_FSM_HURRY);
    } else if (!fsm->is_hurrying) {
        fsm->is_hurrying = true;
        fsm->drain_until = now;
        fsm->leave_at = rota_time_add(now, ROTA_WORKER_FSM_HURRY);
    }
}

/* --- actions --- */

/* How many jobs a node may be asked for: each has a slot, and jobs that arrive from other nodes
 * meanwhile have a place. */
static uint32_t room_for_jobs(const struct rota_worker_fsm *fsm)
{
    size_t n_free = fsm->options.slots - fsm->n_busy;
    size_t n_places = fsm->n_places - fsm->n_used;
    for (uint32_t i = 0; i < fsm->options.n_nodes; i++)
        n_places -= fsm->nodes[i].n_asked < n_places ? fsm->nodes[i].n_asked : n_places;
    return (uint32_t)(n_free < n_places ? n_free : n_places);
}

static bool next_of_node(struct rota_worker_fsm *fsm, rota_time now, uint32_t number,
                         struct rota_worker_action *action)
{
    struct rota_worker_node *node = &fsm->nodes[number];
    if (fsm->is_leaving) {
        if (node->n_asked == 0)
            return false;
        node->n_asked = 0;
        action->type = ROTA_WORKER_DO_UNPOLL;
        return true;
    }
    if (node->n_asked > 0 || now < node->ask_at || now < fsm->pause_until ||
        room_for_jobs(fsm) == 0)
        return false;
    node->n_asked = room_for_jobs(fsm);
    action->type = ROTA_WORKER_DO_POLL;
    action->n_jobs = node->n_asked;
    return true;
}

/* When its command is to be stopped if nothing else happens. */
static rota_time stop_at(const struct rota_worker_fsm *fsm,
                         const struct rota_worker_attempt *attempt)
{
    rota_time at =
        rota_time_min(attempt->timeout_at, attempt->lease_until - fsm->options.kill_after);
    return fsm->is_leaving ? rota_time_min(at, fsm->drain_until) : at;
}

static enum rota_worker_stop why_stop(const struct rota_worker_fsm *fsm, rota_time now,
                                      const struct rota_worker_attempt *attempt)
{
    if (now >= attempt->timeout_at)
        return ROTA_WORKER_STOP_TIMEOUT;
    if (fsm->is_leaving && now >= fsm->drain_until)
        return ROTA_WORKER_STOP_LEAVING;
    return ROTA_WORKER_STOP_LEASE;
}

static bool is_to_extend(const struct rota_worker_attempt *attempt)
{
    return is_busy(attempt) && !attempt->is_extending && attempt->why != ROTA_WORKER_STOP_OVER;
}

static bool next_of_stopping(const struct rota_worker_fsm *fsm, rota_time now,
                             struct rota_worker_attempt *attempt, struct rota_worker_action *action)
{
    if (!attempt->is_killed && (fsm->is_hurrying || now >= attempt->kill_at)) {
        attempt->is_told = attempt->is_killed = true;
        action->type = ROTA_WORKER_DO_KILL;
        return true;
    }
    if (attempt->is_told)
        return false;
    attempt->is_told = true;
    action->type = ROTA_WORKER_DO_TELL_END;
    return true;
}

static bool next_of_attempt(struct rota_worker_fsm *fsm, rota_time now,
                            struct rota_worker_attempt *attempt, struct rota_worker_action *action)
{
    if (attempt->state == ROTA_WORKER_RUNNING && now >= stop_at(fsm, attempt))
        begin_stopping(fsm, now, attempt, why_stop(fsm, now, attempt));
    if (attempt->state == ROTA_WORKER_STOPPING && next_of_stopping(fsm, now, attempt, action))
        return true;
    if (is_to_extend(attempt) && now >= attempt->extend_at) {
        attempt->is_extending = true;
        action->type = ROTA_WORKER_DO_EXTEND;
        return true;
    }
    if (attempt->state == ROTA_WORKER_SAYING && !attempt->is_saying && now >= attempt->say_at) {
        attempt->is_saying = true;
        action->type = ROTA_WORKER_DO_SAY;
        action->cause = attempt->cause;
        action->retry_after = attempt->retry_after;
        return true;
    }
    if (attempt->state == ROTA_WORKER_FINISHED && !attempt->is_extending && !attempt->is_saying) {
        attempt->state = ROTA_WORKER_GONE;
        fsm->n_used--;
        action->type = ROTA_WORKER_DO_FORGET;
        return true;
    }
    return false;
}

/* Attempts come first: the slots they free can be polled for. */
bool rota_worker_fsm_next(struct rota_worker_fsm *fsm, rota_time now, size_t *place,
                          struct rota_worker_action *action)
{
    for (; *place < fsm->n_places; ++*place) {
        *action = (struct rota_worker_action){.attempt = (uint32_t)*place};
        action->node = fsm->attempts[*place].node;
        if (next_of_attempt(fsm, now, &fsm->attempts[*place], action))
            return true;
    }
    for (; *place < fsm->n_places + fsm->options.n_nodes; ++*place) {
        uint32_t node = (uint32_t)(*place - fsm->n_places);
        *action = (struct rota_worker_action){.node = node, .attempt = ROTA_WORKER_FSM_NONE};
        if (next_of_node(fsm, now, node, action))
            return true;
    }
    return false;
}

static rota_time deadline_of(const struct rota_worker_fsm *fsm,
                             const struct rota_worker_attempt *attempt)
{
    rota_time at = is_to_extend(attempt) ? attempt->extend_at : ROTA_TIME_NEVER;
    switch (attempt->state) {
    case ROTA_WORKER_RUNNING:
        return rota_time_min(at, stop_at(fsm, attempt));
    case ROTA_WORKER_STOPPING:
        return attempt->is_killed ? at : rota_time_min(at, attempt->kill_at);
    case ROTA_WORKER_SAYING:
        return attempt->is_saying ? ROTA_TIME_NEVER : attempt->say_at;
    case ROTA_WORKER_GONE:
    case ROTA_WORKER_FINISHED:
        break;
    }
    return ROTA_TIME_NEVER;
}

rota_time rota_worker_fsm_deadline(const struct rota_worker_fsm *fsm)
{
    rota_time at = fsm->is_leaving ? fsm->leave_at : ROTA_TIME_NEVER;
    for (size_t i = 0; i < fsm->n_places; i++)
        at = rota_time_min(at, deadline_of(fsm, &fsm->attempts[i]));
    if (fsm->is_leaving || room_for_jobs(fsm) == 0)
        return at;
    for (uint32_t i = 0; i < fsm->options.n_nodes; i++)
        if (fsm->nodes[i].n_asked == 0)
            at = rota_time_min(at, fsm->nodes[i].ask_at > fsm->pause_until ? fsm->nodes[i].ask_at
                                                                           : fsm->pause_until);
    return at;
}

bool rota_worker_fsm_is_over(const struct rota_worker_fsm *fsm, rota_time now)
{
    return fsm->is_leaving && (fsm->n_used == 0 || now >= fsm->leave_at);
}

const char *rota_worker_fsm_stop_text(enum rota_worker_stop why)
{
    switch (why) {
    case ROTA_WORKER_STOP_NONE:
        break;
    case ROTA_WORKER_STOP_OVER:
        return "the attempt is over";
    case ROTA_WORKER_STOP_TIMEOUT:
        return "it timed out";
    case ROTA_WORKER_STOP_LEASE:
        return "its node was unreachable";
    case ROTA_WORKER_STOP_LEAVING:
        return "its worker is stopping";
    case ROTA_WORKER_STOP_RESULT:
        return "its output exceeds the maximum size of a result";
    }
    return NULL;
}
