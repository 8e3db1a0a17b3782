#include "core/work/cluster/remote_fsm.h"

#include "base/container.h"

#include <stdlib.h>
#include <string.h>

/* The head of a block that actions may point to, which is freed when they are done. */
struct rota_remote_block {
    struct rota_remote_block *next;
};

struct said {
    struct rota_remote_block block;
    char bytes[];
};

struct key {
    struct rota_job_id id;
    uint64_t attempt;
};

struct attempt {
    struct rota_remote_block block;
    struct rota_heap_node due; /* when to call; never while a call is in flight */
    struct key key;
    uint64_t session; /* 0: over */
    rota_time lease, again;
    bool is_ending, is_calling;
    bool is_held;                /* the worker has named it */
    bool is_end_called;          /* the call in flight is that of the end */
    bool is_given_up;            /* the end is not the worker's: its session is over */
    bool is_give_up_called;      /* ... and is the call in flight */
    rota_time adrift_until;      /* it runs without a session until then; 0: it has one */
    struct rota_attempt_end end; /* as reported; its bytes are `said` */
    struct said *said;           /* of the end, or of the last progress */
    size_t progress_size;
    size_t queue_size, node_size;
    char names[]; /* the queue, then the node */
};

static struct rota_str key_of(const struct key *key)
{
    return rota_str_of(key, sizeof *key);
}

static struct attempt *find_attempt(const struct rota_remote_fsm *fsm, struct rota_job_id id,
                                    uint64_t number)
{
    struct key key = {id, number};
    return rota_map_get(&fsm->attempts, key_of(&key));
}

static struct attempt *of_node(struct rota_heap_node *node)
{
    return ROTA_CONTAINER(node, struct attempt, due);
}

/* --- actions --- */

static void discard_block(struct rota_remote_fsm *fsm, struct rota_remote_block *block)
{
    block->next = fsm->trash;
    fsm->trash = block;
}

static void discard_said(struct rota_remote_fsm *fsm, struct attempt *attempt)
{
    if (attempt->said)
        discard_block(fsm, &attempt->said->block);
    attempt->said = NULL;
    attempt->progress_size = 0;
}

static bool add_action(struct rota_remote_fsm *fsm, enum rota_remote_action_type type,
                       const struct attempt *attempt, enum rota_code code)
{
    struct rota_remote_action action = {
        .type = type, .session = attempt->session, .end = attempt->end, .code = code};
    action.node = rota_str_of(attempt->names + attempt->queue_size, attempt->node_size);
    action.end.queue = rota_str_of(attempt->names, attempt->queue_size);
    action.end.id = attempt->key.id;
    action.end.attempt = attempt->key.attempt;
    if (type == ROTA_REMOTE_DO_EXTEND && attempt->said)
        action.end.reason = rota_str_of(attempt->said->bytes, attempt->progress_size);
    return rota_vector_push(&fsm->actions, action);
}

static void forget_attempt(struct rota_remote_fsm *fsm, struct attempt *attempt)
{
    rota_map_remove(&fsm->attempts, key_of(&attempt->key));
    rota_heap_remove(&fsm->due, &attempt->due);
    discard_said(fsm, attempt);
    discard_block(fsm, &attempt->block);
}

/* Its place in the heap was reserved with it, so that this can't fail. */
static void call_at(struct rota_remote_fsm *fsm, struct attempt *attempt, rota_time at)
{
    rota_heap_remove(&fsm->due, &attempt->due);
    attempt->due.at = at;
    rota_heap_push(&fsm->due, &attempt->due);
}

static void give_up(struct rota_remote_fsm *fsm, struct attempt *attempt, enum rota_job_cause cause)
{
    discard_said(fsm, attempt);
    attempt->end = (struct rota_attempt_end){
        .cause = cause,
        .reason = rota_str("its worker disconnected"),
        .retry_after = cause == ROTA_JOB_CAUSE_LOST ? 0 : ROTA_MSEC,
    };
    attempt->is_ending = attempt->is_given_up = true;
    fsm->n_lost++;
}

static void call_owner(struct rota_remote_fsm *fsm, rota_time now, struct attempt *attempt)
{
    if (attempt->is_calling)
        return;
    if (attempt->adrift_until && attempt->adrift_until <= now && !attempt->is_ending)
        give_up(fsm, attempt, ROTA_JOB_CAUSE_GIVEN_BACK);
    if (add_action(fsm, attempt->is_ending ? ROTA_REMOTE_DO_END : ROTA_REMOTE_DO_EXTEND, attempt,
                   ROTA_OK)) {
        attempt->is_calling = true;
        attempt->is_end_called = attempt->is_ending;
        attempt->is_give_up_called = attempt->is_given_up;
        call_at(fsm, attempt, ROTA_TIME_NEVER);
    } else {
        call_at(fsm, attempt, now + ROTA_REMOTE_AGAIN);
    }
}

/* --- events --- */

enum rota_code rota_remote_fsm_take(struct rota_remote_fsm *fsm, rota_time now, uint64_t session,
                                    struct rota_str node, const struct rota_worker_running *running,
                                    rota_time lease, struct rota_error *error)
{
    if (fsm->attempts.size >= ROTA_REMOTE_ATTEMPTS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "%d jobs of other nodes are already running here, the maximum",
                              ROTA_REMOTE_ATTEMPTS_MAX);
    struct attempt *attempt = calloc(1, sizeof *attempt + running->queue.size + node.size + 1);
    if (!attempt)
        goto no_memory;
    attempt->key = (struct key){running->id, running->attempt};
    attempt->session = session;
    attempt->lease = lease;
    attempt->again = ROTA_REMOTE_AGAIN;
    attempt->queue_size = running->queue.size;
    attempt->node_size = node.size;
    memcpy(attempt->names, running->queue.data, running->queue.size);
    memcpy(attempt->names + running->queue.size, node.data, node.size);
    attempt->due.at = rota_time_add(now, lease / ROTA_REMOTE_EXTENDS);
    attempt->due.order = ++fsm->n_taken;
    if (find_attempt(fsm, running->id, running->attempt) ||
        !rota_heap_push(&fsm->due, &attempt->due))
        goto no_memory;
    if (rota_map_put(&fsm->attempts, key_of(&attempt->key), attempt))
        return ROTA_OK;
    rota_heap_remove(&fsm->due, &attempt->due);

no_memory:
    free(attempt);
    return rota_error_no_memory(error, "for a job of another node");
}

bool rota_remote_fsm_has(const struct rota_remote_fsm *fsm, struct rota_job_id id, uint64_t number,
                         uint64_t *session)
{
    const struct attempt *attempt = find_attempt(fsm, id, number);
    if (attempt)
        *session = attempt->session;
    return attempt != NULL;
}

static void copy_said(char *to, struct rota_str *part)
{
    if (part->size)
        memcpy(to, part->data, part->size);
    part->data = to;
}

bool rota_remote_fsm_end(struct rota_remote_fsm *fsm, rota_time now,
                         const struct rota_attempt_end *end, enum rota_code *code)
{
    struct attempt *attempt = find_attempt(fsm, end->id, end->attempt);
    *code = attempt && attempt->is_ending ? ROTA_ERR_STALE : ROTA_OK;
    if (!attempt || *code)
        return attempt != NULL;
    struct said *said = malloc(sizeof *said + end->bytes.size + end->reason.size);
    if (!said) {
        *code = ROTA_ERR_NO_MEMORY;
        return true;
    }
    discard_said(fsm, attempt);
    attempt->said = said;
    attempt->end = *end;
    copy_said(said->bytes, &attempt->end.bytes);
    copy_said(said->bytes + end->bytes.size, &attempt->end.reason);
    attempt->is_ending = true;
    attempt->again = ROTA_REMOTE_AGAIN;
    call_owner(fsm, now, attempt);
    return true;
}

bool rota_remote_fsm_progress(struct rota_remote_fsm *fsm, rota_time now, struct rota_job_id id,
                              uint64_t number, struct rota_str text)
{
    struct attempt *attempt = find_attempt(fsm, id, number);
    struct said *said = attempt && !attempt->is_ending ? malloc(sizeof *said + text.size) : NULL;
    if (!said)
        return attempt != NULL;
    discard_said(fsm, attempt);
    copy_said(said->bytes, &text);
    attempt->said = said;
    attempt->progress_size = text.size;
    call_owner(fsm, now, attempt);
    return true;
}

/* The next attempt of a worker; `*place` starts at 0. */
static struct attempt *next_of(const struct rota_remote_fsm *fsm, uint64_t session, size_t *place)
{
    const struct rota_map_entry *entry;
    while ((entry = rota_map_next(&fsm->attempts, place)))
        if (((struct attempt *)entry->value)->session == session)
            return entry->value;
    return NULL;
}

size_t rota_remote_fsm_lost(struct rota_remote_fsm *fsm, rota_time now, uint64_t session,
                            enum rota_job_cause cause)
{
    size_t n = 0;
    struct attempt *attempt;
    for (size_t place = 0; (attempt = next_of(fsm, session, &place));) {
        attempt->session = 0;
        n++;
        if (attempt->is_ending)
            continue;
        give_up(fsm, attempt, cause);
        call_owner(fsm, now, attempt);
    }
    return n;
}

void rota_remote_fsm_adrift(struct rota_remote_fsm *fsm, uint64_t session, rota_time until)
{
    struct attempt *attempt;
    for (size_t place = 0; (attempt = next_of(fsm, session, &place));) {
        attempt->session = 0;
        attempt->adrift_until = until;
    }
}

enum rota_code rota_remote_fsm_claim(struct rota_remote_fsm *fsm, rota_time now, uint64_t session,
                                     struct rota_str node,
                                     const struct rota_worker_running *running, bool *is_running,
                                     struct rota_error *error)
{
    struct attempt *attempt = find_attempt(fsm, running->id, running->attempt);
    if (attempt && attempt->session)
        return rota_error_set(error, ROTA_ERR_STALE, "another session has the attempt");
    if (!attempt) {
        enum rota_code code =
            rota_remote_fsm_take(fsm, now, session, node, running, ROTA_REMOTE_LEASE, error);
        if (code)
            return code;
        attempt = find_attempt(fsm, running->id, running->attempt);
    }
    attempt->session = session;
    attempt->adrift_until = 0;
    *is_running = !attempt->is_ending || attempt->is_given_up;
    if (!*is_running)
        return ROTA_OK; /* the worker's own result is in flight */
    attempt->is_ending = attempt->is_given_up = false;
    attempt->again = ROTA_REMOTE_AGAIN;
    call_owner(fsm, now, attempt);
    return ROTA_OK;
}

uint32_t rota_remote_fsm_move(struct rota_remote_fsm *fsm, uint64_t session, uint64_t to)
{
    uint32_t n = 0;
    struct attempt *attempt;
    for (size_t place = 0; (attempt = next_of(fsm, session, &place));) {
        attempt->session = to;
        n += !attempt->is_ending;
    }
    return n;
}

static void send_back(struct rota_remote_fsm *fsm, rota_time now, struct attempt *attempt)
{
    discard_said(fsm, attempt);
    attempt->end = (struct rota_attempt_end){
        .cause = ROTA_JOB_CAUSE_GIVEN_BACK,
        .reason = rota_str("it did not reach its worker"),
        .retry_after = ROTA_MSEC,
    };
    attempt->session = 0;
    attempt->is_ending = attempt->is_given_up = true;
    call_owner(fsm, now, attempt);
}

uint32_t rota_remote_fsm_holds(struct rota_remote_fsm *fsm, rota_time now, uint64_t session,
                               uint64_t n_taken, struct rota_worker_running *held, size_t *n_held)
{
    uint32_t n_lost = 0;
    size_t n_left = 0;
    const struct rota_map_entry *entry;
    for (size_t i = 0; i < *n_held; i++) {
        struct attempt *attempt = find_attempt(fsm, held[i].id, held[i].attempt);
        if (attempt && session && attempt->session == session)
            attempt->is_held = true;
        else
            held[n_left++] = held[i];
    }
    *n_held = n_left;
    for (size_t place = 0; (entry = rota_map_next(&fsm->attempts, &place));) {
        struct attempt *attempt = entry->value;
        bool is_missed = attempt->session == session && !attempt->is_ending && !attempt->is_held &&
                         attempt->due.order <= n_taken;
        attempt->is_held = false;
        n_lost += is_missed;
        if (is_missed)
            send_back(fsm, now, attempt);
    }
    return n_lost;
}

static bool is_final(enum rota_code code)
{
    return code == ROTA_OK || code == ROTA_ERR_STALE || code == ROTA_ERR_NOT_FOUND ||
           code == ROTA_ERR_INVALID;
}

void rota_remote_fsm_answered(struct rota_remote_fsm *fsm, rota_time now, struct rota_job_id id,
                              uint64_t number, enum rota_code code, bool is_cancelled)
{
    struct attempt *attempt = find_attempt(fsm, id, number);
    if (!attempt || !attempt->is_calling)
        return;
    attempt->is_calling = false;
    if (attempt->is_give_up_called && !attempt->is_given_up) { /* claimed meanwhile */
        attempt->is_give_up_called = false;
        call_owner(fsm, now, attempt);
        return;
    }
    if (!is_final(code)) {
        call_at(fsm, attempt, now + attempt->again);
        attempt->again = rota_time_min(2 * attempt->again, ROTA_REMOTE_AGAIN_MAX);
        return;
    }
    attempt->again = ROTA_REMOTE_AGAIN;
    if (!attempt->is_end_called && code == ROTA_OK) {
        if (attempt->is_ending) /* reported meanwhile */
            call_owner(fsm, now, attempt);
        else
            call_at(fsm, attempt, rota_time_add(now, attempt->lease / ROTA_REMOTE_EXTENDS));
        return;
    }
    fsm->n_done += code == ROTA_OK;
    fsm->n_refused += code != ROTA_OK;
    if (!attempt->is_ending)
        attempt->end.cause = is_cancelled ? ROTA_JOB_CAUSE_CANCELLED : ROTA_JOB_CAUSE_LOST;
    if (attempt->session)
        add_action(fsm, attempt->is_ending ? ROTA_REMOTE_DO_TELL : ROTA_REMOTE_DO_CANCEL, attempt,
                   code);
    forget_attempt(fsm, attempt);
}

/* --- time --- */

void rota_remote_fsm_tick(struct rota_remote_fsm *fsm, rota_time now)
{
    struct rota_heap_node *first;
    while ((first = rota_heap_first(&fsm->due)) && first->at <= now)
        call_owner(fsm, now, of_node(first));
}

rota_time rota_remote_fsm_deadline(const struct rota_remote_fsm *fsm)
{
    const struct rota_heap_node *first = rota_heap_first(&fsm->due);
    return first ? first->at : ROTA_TIME_NEVER;
}

/* --- life --- */

const struct rota_remote_action *rota_remote_fsm_actions(const struct rota_remote_fsm *fsm,
                                                         size_t *n)
{
    *n = fsm->actions.size;
    return fsm->actions.items;
}

void rota_remote_fsm_clear(struct rota_remote_fsm *fsm)
{
    fsm->actions.size = 0;
    while (fsm->trash) {
        struct rota_remote_block *block = fsm->trash;
        fsm->trash = block->next;
        free(block);
    }
}

void rota_remote_fsm_init(struct rota_remote_fsm *fsm, uint64_t seed)
{
    *fsm = (struct rota_remote_fsm){0};
    rota_map_init(&fsm->attempts, seed);
}

void rota_remote_fsm_deinit(struct rota_remote_fsm *fsm)
{
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(&fsm->attempts, &place));) {
        struct attempt *attempt = entry->value;
        discard_said(fsm, attempt);
        discard_block(fsm, &attempt->block);
    }
    rota_map_deinit(&fsm->attempts);
    rota_heap_deinit(&fsm->due);
    rota_remote_fsm_clear(fsm);
    rota_vector_deinit(&fsm->actions);
}
