/* Two nodes with connected workers: the real machines of core/work/worker/delivery_fsm.h,
 * sessions.h and join_fsm.h, core/work/cluster/remote_fsm.h and core/work/broker/broker.h, each
 * node with a disk of its own. Idle workers of a node fetch jobs of the other.
 *
 * Half of the worlds are *dirty*: messages are lost, late, doubled and out of order, nodes and
 * workers crash, pause and are cut off, slots change and nodes drain. The others are *clean*: only
 * nodes crash and pause, for a moment, and the network keeps its order, as one connection does.
 *
 * An attempt goes to one session, and only the worker that has it ends it, in one way; no job is
 * done twice; a node that drains hands nothing out. In a clean world no job is charged for an
 * attempt that its worker did not end, no worker has more jobs than slots, and none is told to stop
 * what the node of the job waits for. Once faults stop,
 * every job gets done, and every worker is ready, with slots that its node knows. */
#include "base/vector.h"
#include "core/work/worker/delivery_fsm.h"
#include "core/work/worker/join_fsm.h"
#include "sim/sim_chaos.h"
#include "sim_main.h"
#include "wire/message/queue_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BROKERS = 2,
    WORKERS = 4,
    NODES = BROKERS + WORKERS,
    JOBS_MAX = 240,
    ITEMS_MAX = 32,
    BATCH_MAX = 64,
    SEEN_MAX = 256,
    CALLS_MAX = 64,
    SLOTS = 2,
};
enum { TIMER_LOOK, TIMER_VISIT, TIMER_WORK };

#define QUIET_AT     (60 * ROTA_SEC)
#define END_AT       (300 * ROTA_SEC) /* after the longest pause between two attempts */
#define CALL_TIMEOUT (2 * ROTA_SEC)

/* Nothing is lost, and all arrives in order. */
static const struct rota_sim_link ORDERLY = {
    .delay_min = 5 * ROTA_MSEC, .delay_mean = 5 * ROTA_MSEC, .delay_max = 5 * ROTA_MSEC};

enum plant {
    PLANT_NONE,
    PLANT_NEVER_ASKS,
    PLANT_ANY_ANSWER,
    PLANT_ANY_TAKEN,
    PLANT_CHARGED,
    PLANT_NO_CLAIMS,
    PLANT_ALL_OWN,
    PLANT_REMOTES_LEFT,
    PLANT_NOT_RELEASED,
    PLANT_RELEASED_TWICE,
    PLANT_UNREADY_KEPT,
    PLANT_SLOTS_UNLEARNED,
    PLANT_OTHER_SESSION,
    PLANT_SENT_AGAIN,
    PLANT_NO_SESSION,
    PLANT_NOT_DRAINED,
    N_PLANTS,
};

static const struct sim_plant plants[N_PLANTS - 1] = {
    {"never-asks", "no worker is asked what it has"},
    {"any-answer", "an answer counts for all that was sent until it came"},
    {"any-taken", "... and for all jobs of the other node that were taken until it came"},
    {"charged", "a session that ends because its node paused has died"},
    {"no-claims", "what a worker that returns runs is ignored"},
    {"all-own", "jobs of the other node that a worker names are looked for here"},
    {"remotes-left", "jobs of the other node do not end with the session that has them"},
    {"not-released", "a slot that was kept for the other node is never free again"},
    {"released-twice", "... or counts twice"},
    {"unready-kept", "a worker that is never ready stays connected"},
    {"slots-unlearned", "the slots in an answer are ignored"},
    {"other-session", "an end is credited to another worker of the node"},
    {"sent-again", "what a worker runs is sent to its next session once more"},
    {"no-session", "whoever knows an attempt may end it"},
    {"not-drained", "a worker that becomes ready while its node drains gets jobs"},
};

/* --- messages --- */

enum frame_type {
    HELLO, /* worker to node */
    READY,
    BEAT, /* either way */
    ENDS,
    SLOTS_ARE,
    HOLDS,
    WELCOME, /* node to worker */
    BYE,
    JOBS,
    CANCELS,
    VERDICTS,
    CHECK,
    POLL, /* node to node */
    POLLED,
    EXTEND,
    END,
    ANSWERED,
};

struct entry {
    uint64_t attempt;
    uint32_t job;
    enum rota_job_cause cause;
    enum rota_code code;
};

struct frame {
    enum frame_type type;
    uint64_t epoch;  /* of the worker's session */
    uint64_t serial; /* of a call between nodes */
    uint64_t up_to, round;
    uint32_t slots, n;
    struct entry entries[BATCH_MAX];
};

/* --- the parts of a world --- */

/* A worker's connection, at its node. */
struct conn {
    struct rota_session session;
    struct rota_delivery_worker delivery;
    uint32_t worker;
    uint64_t route[2];
    bool is_dropped;
    struct frame jobs, cancels, verdicts;
};

struct call {
    enum frame_type type;
    uint64_t serial, session; /* 0: free */
    uint32_t n;
    struct entry entry;
    rota_time until;
};

struct kept {
    struct rota_buffer bytes;
    uint64_t number;
};

struct node {
    struct world *world;
    uint32_t number;
    struct rota_broker *core; /* NULL: down */
    struct rota_remote_fsm remote;
    struct rota_delivery_fsm delivery;
    struct rota_sessions sessions;
    ROTA_VECTOR(struct conn *) conns;
    ROTA_VECTOR(struct kept) disk;
    struct call calls[CALLS_MAX];
    uint64_t polling; /* the session of a poll that is answered now */
    struct frame polled;
    bool is_draining;
};

struct item {
    struct entry entry;
    rota_time due_at, again_at;
    bool is_ended;
};

struct worker {
    struct rota_join_fsm join;
    bool is_up;
    struct item items[ITEMS_MAX];
    size_t n_items;
    uint64_t seen[SEEN_MAX];
    size_t n_seen;
    uint32_t slots;
};

/* What is true of an attempt. */
struct attempt {
    uint64_t number, session;
    uint32_t worker;
    bool is_ended;
    enum rota_job_cause cause;
};

struct job {
    struct rota_job_id id;
    uint32_t home;
    uint32_t n_done, n_failed;
    uint32_t n_astray; /* attempts that the other node may have lost: its crash is not our pause */
    ROTA_VECTOR(struct attempt) attempts;
};

struct world {
    struct rota_sim *sim;
    struct rota_random *random;
    enum plant plant;
    bool is_clean;
    struct rota_sim_chaos chaos, worker_chaos;
    struct node nodes[BROKERS];
    struct worker workers[WORKERS];
    struct job jobs[JOBS_MAX];
    uint32_t n_jobs;
    uint64_t serial;
};

static void die(const char *text)
{
    fprintf(stderr, "%s\n", text);
    exit(2);
}

static struct rota_work_now now_of(const struct world *world, uint32_t node)
{
    return (struct rota_work_now){.boot = rota_sim_mono(world->sim, node),
                                  .wall = rota_sim_wall(world->sim, node)};
}

static struct rota_str queue(void)
{
    return rota_str("q");
}

static bool by_chance(struct world *world, int percent)
{
    return rota_random_range(world->random, 0, 99) < percent;
}

static uint32_t home_of(uint32_t worker)
{
    return (worker - BROKERS) % BROKERS;
}

static uint32_t job_of(struct rota_job_id id)
{
    return (uint32_t)(id.low & 0xffff);
}

static void post(struct world *world, uint32_t from, uint32_t to, const struct frame *frame)
{
    rota_sim_send(
        world->sim, from, to,
        rota_str_of(frame, offsetof(struct frame, entries) + frame->n * sizeof *frame->entries));
}

static void add_entry(struct frame *frame, struct entry entry)
{
    if (frame->n == BATCH_MAX)
        die("a batch is too long");
    frame->entries[frame->n++] = entry;
}

/* --- the truth --- */

static struct attempt *find_attempt(struct world *world, uint32_t job, uint64_t number)
{
    for (size_t i = 0; i < world->jobs[job].attempts.size; i++)
        if (world->jobs[job].attempts.items[i].number == number)
            return &world->jobs[job].attempts.items[i];
    return NULL;
}

static void note_handed(struct world *world, uint32_t node, const struct conn *conn, uint32_t job,
                        uint64_t number)
{
    const struct attempt *known = find_attempt(world, job, number);
    struct attempt made = {
        .number = number, .session = conn->delivery.session, .worker = conn->worker};
    rota_sim_note(world->sim, node, "job %u attempt %llx to worker %u", job,
                  (unsigned long long)number, conn->worker);
    if (known)
        rota_sim_fail(world->sim, "attempt %llx at job %u is handed out twice",
                      (unsigned long long)number, job);
    else if (!rota_vector_push(&world->jobs[job].attempts, made))
        die("no memory");
    if (world->nodes[node].is_draining)
        rota_sim_fail(world->sim, "node %u drains and hands out job %u", node, job);
}

/* The node of a job has accepted an end. */
static void note_ended(struct world *world, uint32_t job, uint64_t number,
                       enum rota_job_cause cause)
{
    struct attempt *attempt = find_attempt(world, job, number);
    if (!attempt)
        rota_sim_fail(world->sim, "an attempt at job %u ended that no worker has", job);
    else if (attempt->is_ended && attempt->cause != cause)
        rota_sim_fail(world->sim, "an attempt at job %u ended in two ways", job);
    if (!attempt || attempt->is_ended)
        return;
    attempt->is_ended = true;
    attempt->cause = cause;
    world->jobs[job].n_failed += cause == ROTA_JOB_CAUSE_FAILED;
}

static void check_giver(struct world *world, uint32_t job, uint64_t number, uint32_t worker)
{
    const struct attempt *attempt = find_attempt(world, job, number);
    if (attempt && attempt->worker != worker)
        rota_sim_fail(world->sim, "worker %u ends an attempt of worker %u", worker,
                      attempt->worker);
}

/* A worker is told to stop: the node of the job must have given the attempt up. */
static void check_cancel(struct world *world, const struct entry *entry)
{
    const struct job *job = &world->jobs[entry->job];
    const struct rota_broker *core = world->nodes[job->home].core;
    struct rota_job_view view;
    if (world->is_clean && core && !rota_broker_find(core, queue(), job->id, &view, NULL) &&
        view.state == ROTA_JOB_RUNNING && view.attempt == entry->attempt)
        rota_sim_fail(world->sim, "job %u is cancelled, and its node waits for it", entry->job);
}

/* --- a node's machine --- */

static void settle(struct world *world, uint32_t number);

static void send_batch(struct world *world, struct node *node, struct conn *conn,
                       struct frame *batch)
{
    for (uint32_t i = 0; i < batch->n && batch->type == CANCELS; i++)
        check_cancel(world, &batch->entries[i]);
    batch->epoch = conn->session.epoch;
    post(world, node->number, conn->worker, batch);
    rota_sessions_sent(&node->sessions, &conn->session, rota_sim_mono(world->sim, node->number));
    batch->n = 0;
}

static struct conn *of_delivery(struct rota_delivery_worker *delivery)
{
    return ROTA_LIST_ITEM(delivery, struct conn, delivery);
}

static void verdict(struct world *world, struct node *node, struct conn *conn, uint64_t session,
                    struct entry entry);

/* `entry` is what the event brings. */
static void carry_out(struct world *world, struct node *node,
                      const struct rota_delivery_action *action,
                      const struct rota_delivery_event *event, struct entry entry)
{
    struct conn *conn = of_delivery(action->worker);
    struct frame ask = {.type = CHECK, .epoch = conn->session.epoch};
    switch (action->type) {
    case ROTA_DELIVERY_DO_WRITE:
        if (event->type == ROTA_DELIVERY_HAND || event->type == ROTA_DELIVERY_FETCHED)
            note_handed(world, node->number, conn, entry.job, entry.attempt);
        add_entry(event->type == ROTA_DELIVERY_CANCEL    ? &conn->cancels
                  : event->type == ROTA_DELIVERY_VERDICT ? &conn->verdicts
                                                         : &conn->jobs,
                  entry);
        break;
    case ROTA_DELIVERY_DO_CANCEL:
        add_entry(&conn->cancels, (struct entry){.job = job_of(action->attempt->id),
                                                 .attempt = action->attempt->attempt,
                                                 .cause = ROTA_JOB_CAUSE_LOST});
        break;
    case ROTA_DELIVERY_DO_MERGE: /* verdicts that go along with jobs are lost with them */
        send_batch(world, node, conn, &conn->verdicts);
        break;
    case ROTA_DELIVERY_DO_SEND_VERDICTS:
        send_batch(world, node, conn, &conn->verdicts);
        break;
    case ROTA_DELIVERY_DO_SEND_JOBS:
        send_batch(world, node, conn, &conn->jobs);
        break;
    case ROTA_DELIVERY_DO_SEND_CANCELS:
        send_batch(world, node, conn, &conn->cancels);
        break;
    case ROTA_DELIVERY_DO_ASK:
        ask.up_to = action->number;
        ask.round = action->round;
        if (world->plant != PLANT_NEVER_ASKS)
            post(world, node->number, conn->worker, &ask);
        break;
    case ROTA_DELIVERY_DO_ANSWER: /* its record is on disk at once */
        if (action->code == ROTA_OK) {
            check_giver(world, entry.job, entry.attempt, conn->worker);
            note_ended(world, entry.job, entry.attempt, entry.cause);
        }
        entry.code = action->code;
        verdict(world, node, conn, 0, entry);
        break;
    case ROTA_DELIVERY_DO_DROP:
    case ROTA_DELIVERY_DO_REFUSE:
        conn->is_dropped = true;
        break;
    case ROTA_DELIVERY_DO_LEARN:
        break;
    }
}

/* Whether there was anything to do. */
static bool step(struct world *world, struct node *node, struct rota_delivery_event event,
                 struct entry entry)
{
    struct rota_delivery_action actions[BATCH_MAX];
    struct rota_delivery_actions todo =
        rota_delivery_fsm_step(&node->delivery, now_of(world, node->number), &event);
    if (todo.n > BATCH_MAX)
        die("too many actions");
    if (todo.n > 0)
        memcpy(actions, todo.items, todo.n * sizeof *actions);
    for (size_t i = 0; i < todo.n; i++)
        carry_out(world, node, &actions[i], &event, entry);
    return todo.n > 0;
}

static void verdict(struct world *world, struct node *node, struct conn *conn, uint64_t session,
                    struct entry entry)
{
    step(world, node,
         (struct rota_delivery_event){.type = ROTA_DELIVERY_VERDICT,
                                      .worker = conn ? &conn->delivery : NULL,
                                      .session = session},
         entry);
}

static void end_conn(struct world *world, struct node *node, struct conn *conn, bool is_in_order)
{
    enum rota_session_end how =
        is_in_order ? ROTA_SESSION_LEFT
                    : rota_sessions_judge_end(&node->sessions, &conn->session,
                                              rota_sim_mono(world->sim, node->number));
    if (world->plant == PLANT_CHARGED && how == ROTA_SESSION_EXCUSED)
        how = ROTA_SESSION_DIED;
    rota_sim_note(world->sim, node->number, "the session of worker %u ends: %d", conn->worker,
                  (int)how);
    rota_sessions_remove(&node->sessions, &conn->session);
    if (world->plant == PLANT_REMOTES_LEFT)
        node->delivery.options.remote = NULL;
    step(world, node,
         (struct rota_delivery_event){
             .type = ROTA_DELIVERY_DISCONNECTED, .worker = &conn->delivery, .how = how},
         (struct entry){0});
    node->delivery.options.remote = &node->remote;
    post(world, node->number, conn->worker,
         &(struct frame){.type = BYE, .epoch = conn->session.epoch});
    for (size_t i = 0; i < node->conns.size; i++)
        if (node->conns.items[i] == conn)
            node->conns.items[i--] = node->conns.items[--node->conns.size];
    free(conn);
}

/* --- calls between nodes --- */

static bool call_other(struct world *world, struct node *node, struct call call, uint32_t n)
{
    struct frame frame = {.type = call.type, .serial = ++world->serial, .slots = n};
    for (size_t i = 0; i < CALLS_MAX; i++) {
        if (node->calls[i].serial)
            continue;
        call.serial = frame.serial;
        call.n = n;
        call.until = rota_sim_mono(world->sim, node->number) + CALL_TIMEOUT;
        node->calls[i] = call;
        add_entry(&frame, call.entry);
        post(world, node->number, !node->number, &frame);
        return true;
    }
    return false;
}

static void answer_remote(struct world *world, struct node *node, const struct call *call,
                          enum rota_code code)
{
    rota_remote_fsm_answered(&node->remote, rota_sim_mono(world->sim, node->number),
                             world->jobs[call->entry.job].id, call->entry.attempt, code, false);
}

static void release(struct world *world, struct node *node, uint64_t session, uint32_t n)
{
    if (world->plant == PLANT_NOT_RELEASED)
        return;
    if (world->plant == PLANT_RELEASED_TWICE)
        n *= 2;
    step(world, node,
         (struct rota_delivery_event){.type = ROTA_DELIVERY_RELEASE, .session = session, .n = n},
         (struct entry){0});
}

/* Jobs of the other node, or none, for a worker that went. */
static void take_fetched(struct world *world, struct node *node, const struct call *call,
                         const struct frame *frame)
{
    uint32_t n_taken = 0;
    for (uint32_t i = 0; i < frame->n; i++) {
        const struct entry *entry = &frame->entries[i];
        struct rota_delivery_event event = {
            .type = ROTA_DELIVERY_FETCHED,
            .session = call->session,
            .attempt =
                &(struct rota_worker_running){queue(), world->jobs[entry->job].id, entry->attempt},
            .node = rota_str("other:1"),
            .lease = ROTA_REMOTE_LEASE};
        if (step(world, node, event, *entry)) {
            world->jobs[entry->job].n_astray--;
            n_taken++;
        } else
            call_other(world, node,
                       (struct call){.type = END,
                                     .entry = {.job = entry->job,
                                               .attempt = entry->attempt,
                                               .cause = ROTA_JOB_CAUSE_GIVEN_BACK}},
                       0);
    }
    release(world, node, call->session, call->n > n_taken ? call->n - n_taken : 0);
}

/* `frame` NULL: no answer came in time. */
static void end_call(struct world *world, struct node *node, struct call *at,
                     const struct frame *frame)
{
    struct call call = *at;
    *at = (struct call){0};
    if (call.type == POLL)
        take_fetched(world, node, &call, frame ? frame : &(struct frame){0});
    else
        answer_remote(world, node, &call, frame ? frame->entries[0].code : ROTA_ERR_UNAVAILABLE);
}

/* Answer the other node. */
static void hear_call(struct world *world, struct node *node, const struct frame *frame)
{
    struct rota_work_now now = now_of(world, node->number);
    const struct entry *entry = &frame->entries[0];
    const struct job *job = &world->jobs[entry->job];
    struct frame answer = {.type = ANSWERED, .serial = frame->serial};
    struct rota_str serves = queue();
    uint64_t number;
    if (frame->type == POLL) {
        struct rota_worker_spec spec = {.name = rota_str("visitor"),
                                        .queues = &serves,
                                        .n_queues = 1,
                                        .slots = frame->slots,
                                        .lease = ROTA_REMOTE_LEASE,
                                        .is_poll = true,
                                        .is_hasty = true};
        node->polled = (struct frame){.type = POLLED, .serial = frame->serial};
        if (rota_broker_worker_open(node->core, now, &spec, &node->polling, NULL))
            die("a visitor is not let in");
        settle(world, node->number);
        if (node->polled.n == 0)
            rota_broker_worker_close(node->core, now, node->polling);
        node->polling = 0;
        post(world, node->number, !node->number, &node->polled);
        return;
    }
    struct rota_attempt_end end = {.queue = queue(),
                                   .id = job->id,
                                   .attempt = entry->attempt,
                                   .session = ROTA_BROKER_NO_SESSION,
                                   .cause = entry->cause,
                                   .retry_after = entry->cause == ROTA_JOB_CAUSE_GIVEN_BACK};
    struct entry result = *entry;
    if (frame->type == EXTEND)
        result.code =
            rota_broker_extend(node->core, now, queue(), job->id, entry->attempt,
                               ROTA_BROKER_NO_SESSION, ROTA_REMOTE_LEASE, rota_str(""), NULL);
    else if (entry->cause == ROTA_JOB_CAUSE_LOST)
        result.code =
            rota_broker_lose(node->core, now, queue(), job->id, entry->attempt, &number, NULL);
    else
        result.code = rota_broker_end(node->core, now, &end, &number, NULL);
    bool is_given_up = entry->cause == ROTA_JOB_CAUSE_LOST ||
                       entry->cause == ROTA_JOB_CAUSE_GIVEN_BACK ||
                       entry->code == ROTA_ERR_UNAVAILABLE; /* not the worker's own */
    if (frame->type == END && result.code == ROTA_OK && !is_given_up)
        note_ended(world, entry->job, entry->attempt, entry->cause);
    add_entry(&answer, result);
    post(world, node->number, !node->number, &answer);
}

static void carry_out_remote(struct world *world, struct node *node)
{
    size_t n;
    const struct rota_remote_action *actions = rota_remote_fsm_actions(&node->remote, &n);
    for (size_t i = 0; i < n; i++) {
        struct rota_remote_action action = actions[i];
        struct call call = {.type = action.type == ROTA_REMOTE_DO_EXTEND ? EXTEND : END,
                            .entry = {.job = job_of(action.end.id),
                                      .attempt = action.end.attempt,
                                      .cause = action.end.cause,
                                      .code = action.code}};
        if (rota_str_is_equal(action.end.reason, rota_str("its worker disconnected")))
            call.entry.code = ROTA_ERR_UNAVAILABLE;
        if (action.type == ROTA_REMOTE_DO_TELL) {
            verdict(world, node, NULL, action.session, call.entry);
        } else if (action.type == ROTA_REMOTE_DO_CANCEL) {
            step(world, node,
                 (struct rota_delivery_event){
                     .type = ROTA_DELIVERY_CANCEL,
                     .session = action.session,
                     .attempt =
                         &(struct rota_worker_running){queue(), action.end.id, action.end.attempt},
                     .n = world->plant == PLANT_NOT_RELEASED ? 0 : 1},
                 call.entry);
        } else if (!call_other(world, node, call, 0)) {
            answer_remote(world, node, &call, ROTA_ERR_UNAVAILABLE);
        }
        actions = rota_remote_fsm_actions(&node->remote, &n);
    }
    rota_remote_fsm_clear(&node->remote);
}

/* --- a node's broker --- */

static void append(struct world *world, struct node *node, const struct rota_work_record *record)
{
    struct rota_journal_batch batch = {0};
    struct kept kept = {.number = record->number};
    rota_queue_message_write_jobs(&batch, record, &kept.bytes);
    if (kept.bytes.failed || !rota_vector_push(&node->disk, kept))
        die("no memory for a record");
    if (record->type == ROTA_WORK_END && record->state == ROTA_JOB_DONE &&
        ++world->jobs[job_of(record->id)].n_done > 1)
        rota_sim_fail(world->sim, "job %u is done twice", job_of(record->id));
    if (record->type == ROTA_WORK_END && record->state == ROTA_JOB_DEAD)
        rota_sim_fail(world->sim, "job %u is dead", job_of(record->id));
}

static void dispatch(struct world *world, struct node *node, const struct rota_work_effect *effect)
{
    const struct entry entry = {.job = job_of(effect->id), .attempt = effect->attempt};
    struct job *job = &world->jobs[entry.job];
    if (world->is_clean && effect->n_attempts > job->n_failed + job->n_astray + 1)
        rota_sim_fail(world->sim, "job %u failed %u times, and %u attempts are counted", entry.job,
                      job->n_failed, effect->n_attempts - 1);
    if (effect->session == node->polling) {
        add_entry(&node->polled, entry);
        job->n_astray++;
    } else
        step(world, node,
             (struct rota_delivery_event){
                 .type = ROTA_DELIVERY_HAND, .session = effect->session, .handed = effect->handed},
             entry);
}

static void execute(struct world *world, struct node *node, const struct rota_work_effect *effect)
{
    const struct entry entry = {
        .job = job_of(effect->id), .attempt = effect->attempt, .cause = effect->cause};
    if (effect->type == ROTA_WORK_DO_RECORD)
        append(world, node, &effect->record);
    else if (effect->type == ROTA_WORK_DO_DISPATCH)
        dispatch(world, node, effect);
    else if (effect->type == ROTA_WORK_DO_CANCEL)
        step(world, node,
             (struct rota_delivery_event){
                 .type = ROTA_DELIVERY_CANCEL,
                 .session = effect->session,
                 .attempt = &(struct rota_worker_running){queue(), effect->id, effect->attempt}},
             entry);
    else if (effect->type == ROTA_WORK_TELL_LOST)
        step(world, node,
             (struct rota_delivery_event){.type = ROTA_DELIVERY_LOST, .session = effect->session},
             entry);
}

/* Effects and actions until there are none; records are on disk at once. */
static void settle(struct world *world, uint32_t number)
{
    struct node *node = &world->nodes[number];
    size_t n, n_actions;
    do {
        const struct rota_work_effect *effects = rota_broker_effects(node->core, &n);
        for (size_t i = 0; i < n; i++)
            execute(world, node, &effects[i]);
        rota_broker_clear(node->core);
        rota_broker_durable(node->core, now_of(world, number), rota_broker_last_number(node->core));
        carry_out_remote(world, node);
        for (size_t i = 0; i < node->conns.size; i++)
            if (node->conns.items[i]->is_dropped) {
                end_conn(world, node, node->conns.items[i], true);
                i = (size_t)-1;
            }
        rota_broker_effects(node->core, &n);
        rota_remote_fsm_actions(&node->remote, &n_actions);
    } while (n + n_actions > 0);
    step(world, node, (struct rota_delivery_event){.type = ROTA_DELIVERY_FLUSH}, (struct entry){0});
    rota_time at = rota_time_min(rota_broker_deadline(node->core),
                                 rota_delivery_fsm_deadline(&node->delivery));
    at = rota_time_min(at, rota_remote_fsm_deadline(&node->remote));
    at = rota_time_min(at, rota_sessions_deadline(&node->sessions));
    for (size_t i = 0; i < CALLS_MAX; i++)
        if (node->calls[i].serial)
            at = rota_time_min(at, node->calls[i].until);
    rota_sim_set_timer(world->sim, number, TIMER_LOOK, ROTA_SIM_MONO, at);
}

static void look(struct world *world, struct node *node)
{
    rota_time now = rota_sim_mono(world->sim, node->number);
    struct rota_session *session;
    if (rota_sessions_listened(&node->sessions, now))
        while ((session = rota_sessions_next_dead(&node->sessions, now)))
            end_conn(world, node, ROTA_LIST_ITEM(session, struct conn, session), false);
    while ((session = rota_sessions_next_heartbeat(&node->sessions, now))) {
        rota_sessions_sent(&node->sessions, session, now);
        post(world, node->number, ROTA_LIST_ITEM(session, struct conn, session)->worker,
             &(struct frame){.type = BEAT, .epoch = session->epoch});
    }
    for (size_t i = 0; i < CALLS_MAX; i++)
        if (node->calls[i].serial && node->calls[i].until <= now)
            end_call(world, node, &node->calls[i], NULL);
    rota_broker_tick(node->core, now_of(world, node->number));
    rota_remote_fsm_tick(&node->remote, now);
    if (world->plant == PLANT_UNREADY_KEPT)
        for (size_t i = 0; i < node->conns.size; i++)
            node->conns.items[i]->delivery.n_unready = 0;
    step(world, node, (struct rota_delivery_event){.type = ROTA_DELIVERY_TICK}, (struct entry){0});
}

/* An idle worker goes to the other node. */
static void visit(struct world *world, struct node *node)
{
    struct rota_idle_worker idle;
    if (!node->is_draining && rota_broker_find_idle(node->core, queue(), rota_str(""), &idle) &&
        rota_delivery_fsm_has(&node->delivery, idle.session)) {
        step(world, node,
             (struct rota_delivery_event){
                 .type = ROTA_DELIVERY_KEEP, .session = idle.session, .n = idle.n_free},
             (struct entry){0});
        if (!call_other(world, node, (struct call){.type = POLL, .session = idle.session},
                        idle.n_free))
            release(world, node, idle.session, idle.n_free);
    }
    rota_sim_set_timer(world->sim, node->number, TIMER_VISIT, ROTA_SIM_MONO,
                       rota_sim_mono(world->sim, node->number) +
                           rota_random_range(world->random, 100, 900) * ROTA_MSEC);
}

/* --- messages at a node --- */

static struct conn *find_conn(struct node *node, uint32_t worker, uint64_t epoch)
{
    for (size_t i = 0; i < node->conns.size; i++)
        if (node->conns.items[i]->worker == worker && node->conns.items[i]->session.epoch == epoch)
            return node->conns.items[i];
    return NULL;
}

static void hear_hello(struct world *world, struct node *node, uint32_t from, uint64_t epoch)
{
    static const char *const NAMES[WORKERS] = {"w0", "w1", "w2", "w3"};
    struct rota_session *replaced = NULL;
    struct rota_str name = rota_str(NAMES[from - BROKERS]);
    rota_time now = rota_sim_mono(world->sim, node->number);
    if (find_conn(node, from, epoch))
        return; /* doubled */
    if (rota_sessions_judge(&node->sessions, name, epoch, &replaced) != ROTA_SESSION_NEW) {
        post(world, node->number, from, &(struct frame){.type = BYE, .epoch = epoch});
        return;
    }
    if (replaced)
        end_conn(world, node, ROTA_LIST_ITEM(replaced, struct conn, session), false);
    struct conn *conn = calloc(1, sizeof *conn);
    if (!conn || !rota_vector_push(&node->conns, conn))
        die("no memory");
    conn->worker = from;
    conn->route[0] = from;
    conn->route[1] = epoch;
    conn->session.route = rota_str_of(conn->route, sizeof conn->route);
    conn->session.name = name;
    conn->session.epoch = epoch;
    conn->jobs.type = JOBS;
    conn->cancels.type = CANCELS;
    conn->verdicts.type = VERDICTS;
    if (!rota_sessions_add(&node->sessions, &conn->session, now))
        die("no memory");
    step(world, node,
         (struct rota_delivery_event){.type = ROTA_DELIVERY_CONNECTED, .worker = &conn->delivery},
         (struct entry){0});
    post(world, node->number, from, &(struct frame){.type = WELCOME, .epoch = epoch});
}

static void hear_ready(struct world *world, struct node *node, struct conn *conn,
                       const struct frame *frame)
{
    struct rota_str serves = queue();
    struct rota_worker_running held[BATCH_MAX];
    const struct rota_worker_spec spec = {.name = conn->session.name,
                                          .epoch = conn->session.epoch,
                                          .queues = &serves,
                                          .n_queues = 1,
                                          .slots = frame->slots};
    for (uint32_t i = 0; i < frame->n; i++)
        held[i] = (struct rota_worker_running){queue(), world->jobs[frame->entries[i].job].id,
                                               frame->entries[i].attempt};
    if (world->plant == PLANT_NOT_DRAINED)
        node->delivery.is_draining = false;
    step(world, node,
         (struct rota_delivery_event){.type = ROTA_DELIVERY_READY,
                                      .worker = &conn->delivery,
                                      .spec = &spec,
                                      .held = held,
                                      .n_held = world->plant == PLANT_NO_CLAIMS ? 0 : frame->n,
                                      .takes_ended_with_jobs = conn->worker % 2},
         (struct entry){0});
    node->delivery.is_draining = node->is_draining;
    for (uint32_t i = 0; i < frame->n && world->plant == PLANT_SENT_AGAIN; i++)
        step(world, node,
             (struct rota_delivery_event){.type = ROTA_DELIVERY_HAND,
                                          .session = conn->delivery.session},
             frame->entries[i]);
}

static void hear_end(struct world *world, struct node *node, struct conn *conn, struct entry entry)
{
    struct rota_attempt_end end = {.queue = queue(),
                                   .id = world->jobs[entry.job].id,
                                   .attempt = entry.attempt,
                                   .cause = entry.cause};
    struct conn *credited = conn;
    if (world->plant == PLANT_OTHER_SESSION)
        credited = node->conns.items[0];
    uint64_t session = credited->delivery.session;
    if (world->plant == PLANT_NO_SESSION) {
        struct conn *last = node->conns.items[node->conns.size - 1];
        uint64_t number;
        end.session = 0;
        if (by_chance(world, 20) && last != conn &&
            !rota_broker_end(node->core, now_of(world, node->number), &end, &number, NULL)) {
            check_giver(world, entry.job, entry.attempt, last->worker);
            return;
        }
    }
    bool is_answered =
        step(world, node,
             (struct rota_delivery_event){
                 .type = ROTA_DELIVERY_END, .worker = &credited->delivery, .end = &end},
             entry);
    if (session && !is_answered) /* the other node answers */
        check_giver(world, entry.job, entry.attempt, credited->worker);
}

static void hear_holds(struct world *world, struct node *node, struct conn *conn,
                       const struct frame *frame)
{
    struct rota_worker_running held[BATCH_MAX];
    struct rota_delivery_worker *worker = &conn->delivery;
    for (uint32_t i = 0; i < frame->n; i++)
        held[i] = (struct rota_worker_running){queue(), world->jobs[frame->entries[i].job].id,
                                               frame->entries[i].attempt};
    if (world->plant == PLANT_ANY_TAKEN)
        worker->asked_taken = node->remote.n_taken;
    step(world, node,
         (struct rota_delivery_event){.type = ROTA_DELIVERY_HOLDS,
                                      .worker = worker,
                                      .held = held,
                                      .n_held = frame->n,
                                      .up_to = world->plant == PLANT_ANY_ANSWER ? worker->handed
                                                                                : frame->up_to,
                                      .round = frame->round,
                                      .has_slots = world->plant != PLANT_SLOTS_UNLEARNED,
                                      .n = frame->slots},
         (struct entry){0});
}

static void node_on_message(struct world *world, uint32_t number, uint32_t from,
                            const struct frame *frame)
{
    struct node *node = &world->nodes[number];
    struct conn *conn = NULL;
    if (from < BROKERS) {
        if (frame->type == POLL || frame->type == EXTEND || frame->type == END)
            hear_call(world, node, frame);
        for (size_t i = 0; i < CALLS_MAX; i++)
            if ((frame->type == POLLED || frame->type == ANSWERED) &&
                node->calls[i].serial == frame->serial)
                end_call(world, node, &node->calls[i], frame);
    } else if (frame->type == HELLO) {
        hear_hello(world, node, from, frame->epoch);
    } else if (!(conn = find_conn(node, from, frame->epoch))) {
        post(world, number, from, &(struct frame){.type = BYE, .epoch = frame->epoch});
    } else {
        rota_sessions_heard(&node->sessions, &conn->session, rota_sim_mono(world->sim, number));
        if (frame->type == READY)
            hear_ready(world, node, conn, frame);
        else if (frame->type == HOLDS)
            hear_holds(world, node, conn, frame);
        else if (frame->type == SLOTS_ARE)
            step(world, node,
                 (struct rota_delivery_event){
                     .type = ROTA_DELIVERY_SLOTS, .worker = &conn->delivery, .n = frame->slots},
                 (struct entry){0});
        for (uint32_t i = 0; frame->type == ENDS && i < frame->n; i++)
            hear_end(world, node, conn, frame->entries[i]);
    }
    settle(world, number);
}

/* --- the life of a node --- */

static bool is_others(void *data, struct rota_str name, struct rota_job_id id,
                      struct rota_str *owner)
{
    const struct node *node = data;
    (void)name;
    *owner = rota_str("other:1");
    return node->world->jobs[job_of(id)].home != node->number &&
           node->world->plant != PLANT_ALL_OWN;
}

static void read_disk(struct world *world, struct node *node)
{
    for (size_t i = 0; i < node->disk.size; i++) {
        struct rota_journal_batch batch = {0};
        struct rota_journal_room room;
        struct rota_work_record record;
        struct rota_error error;
        size_t place = 0;
        if (!rota_queue_message_read_jobs(&batch, rota_buffer_str(&node->disk.items[i].bytes),
                                          &place, &record, &room))
            die("a record can't be read");
        record.number = node->disk.items[i].number;
        if (rota_broker_replay(node->core, &record, &error))
            rota_sim_fail(world->sim, "%.200s", error.text);
    }
}

static void start_node(struct world *world, uint32_t number)
{
    struct node *node = &world->nodes[number];
    uint64_t chance = rota_random_next(world->random);
    struct rota_work_now now = now_of(world, number);
    if (rota_broker_new(
            &(struct rota_broker_options){.seed = chance, .secret = ~chance, .kills_max = 1000},
            &node->core, NULL))
        die("no memory for a broker");
    read_disk(world, node);
    rota_broker_begin(node->core, now);
    if (rota_broker_partition_open(node->core, now, queue(), number, 1, NULL))
        die("no memory for a partition");
    rota_remote_fsm_init(&node->remote, chance);
    rota_sessions_init(&node->sessions, rota_peer_fsm_clamp_heartbeat((struct rota_beat){0}), 100,
                       chance >> 1, chance);
    const struct rota_delivery_options options = {.broker = node->core,
                                                  .remote = &node->remote,
                                                  .is_others = is_others,
                                                  .data = node,
                                                  .seed = chance};
    if (!rota_delivery_fsm_init(&node->delivery, &options, now.boot))
        die("no memory");
    node->is_draining = false;
    settle(world, number);
    visit(world, node);
    settle(world, number);
}

static void crash_node(struct world *world, uint32_t number)
{
    struct node *node = &world->nodes[number];
    if (!node->core)
        return;
    for (uint32_t i = 0; i < world->n_jobs; i++)
        for (size_t k = 0; k < world->jobs[i].attempts.size; k++) {
            const struct attempt *attempt = &world->jobs[i].attempts.items[k];
            world->jobs[i].n_astray += !attempt->is_ended && world->jobs[i].home != number &&
                                       home_of(attempt->worker) == number;
        }
    for (size_t i = 0; i < node->conns.size; i++)
        free(node->conns.items[i]);
    node->conns.size = 0;
    memset(node->calls, 0, sizeof node->calls);
    rota_delivery_fsm_deinit(&node->delivery);
    rota_remote_fsm_deinit(&node->remote);
    rota_sessions_deinit(&node->sessions);
    rota_broker_free(node->core);
    node->core = NULL;
}

/* --- a worker --- */

static void arm_worker(struct world *world, uint32_t number)
{
    const struct worker *worker = &world->workers[number - BROKERS];
    rota_time at = rota_join_fsm_deadline(&worker->join);
    for (size_t i = 0; i < worker->n_items; i++)
        at = rota_time_min(at, worker->items[i].is_ended ? worker->items[i].again_at
                                                         : worker->items[i].due_at);
    rota_sim_set_timer(world->sim, number, TIMER_WORK, ROTA_SIM_MONO, at);
}

static void say(struct world *world, uint32_t number, enum frame_type type, uint64_t up_to,
                uint64_t round)
{
    struct worker *worker = &world->workers[number - BROKERS];
    struct frame frame = {.type = type,
                          .epoch = worker->join.epoch,
                          .up_to = up_to,
                          .round = round,
                          .slots = worker->slots};
    for (size_t i = 0; i < worker->n_items && (type == READY || type == HOLDS); i++)
        add_entry(&frame, worker->items[i].entry);
    post(world, number, home_of(number), &frame);
    rota_join_fsm_step(&worker->join, rota_sim_mono(world->sim, number),
                       &(struct rota_join_event){.type = ROTA_JOIN_SENT});
}

static void join(struct world *world, uint32_t number, enum rota_join_event_type type)
{
    struct worker *worker = &world->workers[number - BROKERS];
    struct rota_join_event event = {
        .type = type, .is_drained = true, .wall = rota_sim_wall(world->sim, number)};
    struct rota_join_actions todo =
        rota_join_fsm_step(&worker->join, rota_sim_mono(world->sim, number), &event);
    if (todo.tell_down)
        worker->is_up = false;
    if (todo.open)
        say(world, number, HELLO, 0, 0);
    if (todo.tell_up) {
        worker->is_up = true;
        say(world, number, READY, 0, 0);
    }
    if (todo.beat)
        say(world, number, BEAT, 0, 0);
    if (todo.open && !world->nodes[home_of(number)].core)
        join(world, number, ROTA_JOIN_LOST); /* the connection is refused */
}

static void drop_item(struct worker *worker, const struct entry *entry, bool is_verdict)
{
    for (size_t i = 0; i < worker->n_items; i++)
        if (worker->items[i].entry.job == entry->job &&
            worker->items[i].entry.attempt == entry->attempt &&
            (!is_verdict || worker->items[i].is_ended))
            worker->items[i--] = worker->items[--worker->n_items];
}

static bool is_seen(struct worker *worker, uint64_t attempt)
{
    for (size_t i = 0; i < worker->n_seen && i < SEEN_MAX; i++)
        if (worker->seen[i] == attempt)
            return true;
    worker->seen[worker->n_seen++ % SEEN_MAX] = attempt;
    return false;
}

static void take_job(struct world *world, uint32_t number, struct entry entry)
{
    struct worker *worker = &world->workers[number - BROKERS];
    rota_time wait = by_chance(world, 80) ? 300 * ROTA_MSEC : 5 * ROTA_SEC;
    int luck = (int)rota_random_range(world->random, 0, 9);
    if (rota_sim_now(world->sim) >= QUIET_AT)
        luck = 9; /* all is well from now on */
    uint32_t n_busy = 0;
    if (worker->n_items == ITEMS_MAX || is_seen(worker, entry.attempt))
        return;
    entry.cause = luck == 0   ? ROTA_JOB_CAUSE_FAILED
                  : luck == 1 ? ROTA_JOB_CAUSE_GIVEN_BACK
                              : ROTA_JOB_CAUSE_DONE;
    worker->items[worker->n_items++] = (struct item){
        .entry = entry,
        .due_at = rota_sim_mono(world->sim, number) + rota_sim_exponential(world->random, wait)};
    for (size_t i = 0; i < worker->n_items; i++)
        n_busy += !worker->items[i].is_ended;
    if (world->is_clean && n_busy > worker->slots)
        rota_sim_fail(world->sim, "worker %u has %u jobs and %u slots", number, n_busy,
                      worker->slots);
}

static void work(struct world *world, uint32_t number)
{
    struct worker *worker = &world->workers[number - BROKERS];
    rota_time now = rota_sim_mono(world->sim, number);
    struct frame ends = {.type = ENDS, .epoch = worker->join.epoch};
    for (size_t i = 0; i < worker->n_items; i++) {
        struct item *item = &worker->items[i];
        bool is_new = !item->is_ended && item->due_at <= now;
        item->is_ended = item->is_ended || is_new;
        if (!is_new && (!item->is_ended || item->again_at > now))
            continue;
        item->again_at = now + 700 * ROTA_MSEC;
        add_entry(&ends, item->entry);
    }
    if (worker->is_up && ends.n > 0) {
        post(world, number, home_of(number), &ends);
        join(world, number, ROTA_JOIN_SENT);
    }
    join(world, number, ROTA_JOIN_TICK);
    arm_worker(world, number);
}

static void worker_on_message(struct world *world, uint32_t number, const struct frame *frame)
{
    struct worker *worker = &world->workers[number - BROKERS];
    if (frame->epoch != worker->join.epoch)
        return; /* for another connection */
    if (frame->type == BYE) {
        join(world, number, ROTA_JOIN_LOST);
    } else if (frame->type == WELCOME) {
        join(world, number, ROTA_JOIN_WELCOME);
    } else {
        join(world, number, ROTA_JOIN_HEARD);
        if (frame->type == CHECK && worker->is_up)
            say(world, number, HOLDS, frame->up_to, frame->round);
        for (uint32_t i = 0; i < frame->n && worker->is_up; i++)
            if (frame->type == JOBS)
                take_job(world, number, frame->entries[i]);
            else
                drop_item(worker, &frame->entries[i], frame->type == VERDICTS);
    }
    arm_worker(world, number);
}

static void start_worker(struct world *world, uint32_t number)
{
    struct worker *worker = &world->workers[number - BROKERS];
    *worker = (struct worker){.slots = SLOTS};
    rota_join_fsm_init(&worker->join,
                       &(struct rota_join_options){.seed = rota_random_next(world->random)},
                       rota_sim_mono(world->sim, number));
    work(world, number);
}

/* --- what happens --- */

static bool is_node(uint32_t number)
{
    return number < BROKERS;
}

static void on_start(void *data, uint32_t number)
{
    if (is_node(number))
        start_node(data, number);
    else
        start_worker(data, number);
}

static void on_crash(void *data, uint32_t number)
{
    if (is_node(number))
        crash_node(data, number);
}

static void on_message(void *data, uint32_t number, uint32_t from, struct rota_str message)
{
    struct frame frame = {0};
    memcpy(&frame, message.data, message.size);
    if (is_node(number))
        node_on_message(data, number, from, &frame);
    else
        worker_on_message(data, number, &frame);
}

static void on_timer(void *data, uint32_t number, uint32_t timer)
{
    struct world *world = data;
    if (timer == TIMER_WORK) {
        work(world, number);
        return;
    }
    if (timer == TIMER_VISIT)
        visit(world, &world->nodes[number]);
    else
        look(world, &world->nodes[number]);
    settle(world, number);
}

static bool is_well(const struct world *world, uint32_t number)
{
    return rota_sim_is_up(world->sim, number) && !rota_sim_is_paused(world->sim, number);
}

static void add_call(void *data, uint64_t unused)
{
    struct world *world = data;
    uint32_t number = (uint32_t)rota_random_range(world->random, 0, BROKERS - 1);
    struct node *node = &world->nodes[number];
    rota_time next =
        rota_sim_now(world->sim) + rota_sim_exponential(world->random, 250 * ROTA_MSEC);
    struct rota_job_id id;
    uint64_t record;
    bool is_new;
    (void)unused;
    if (next < QUIET_AT && world->n_jobs + 1 < JOBS_MAX)
        rota_sim_call(world->sim, next, add_call, world, 0);
    if (!is_well(world, number))
        return;
    struct rota_job_spec spec = {
        .queue = queue(),
        .partition = number,
        .max_attempts = 1000,
        .id = rota_job_id_make(rota_sim_wall(world->sim, number), number, world->n_jobs)};
    world->jobs[world->n_jobs].id = spec.id;
    world->jobs[world->n_jobs++].home = number;
    if (rota_broker_add(node->core, now_of(world, number), &spec, &id, &is_new, &record, NULL))
        die("a job is refused");
    settle(world, number);
}

static void drain(struct world *world, uint32_t number, bool is_draining)
{
    struct node *node = &world->nodes[number];
    node->is_draining = is_draining;
    step(world, node,
         (struct rota_delivery_event){.type = ROTA_DELIVERY_DRAIN, .is_draining = is_draining},
         (struct entry){0});
    settle(world, number);
}

/* Slots change, and nodes drain for a while. */
static void change_call(void *data, uint64_t unused)
{
    struct world *world = data;
    bool is_over = rota_sim_now(world->sim) >= QUIET_AT - 2 * ROTA_SEC;
    uint32_t number = BROKERS + (uint32_t)rota_random_range(world->random, 0, WORKERS - 1);
    (void)unused;
    for (uint32_t i = BROKERS; i < NODES; i++) {
        if ((i != number && !is_over) || !is_well(world, i))
            continue;
        world->workers[i - BROKERS].slots =
            is_over ? SLOTS : (uint32_t)rota_random_range(world->random, 0, 3);
        if (world->workers[i - BROKERS].is_up)
            say(world, i, SLOTS_ARE, 0, 0);
    }
    for (uint32_t i = 0; i < BROKERS; i++)
        if (is_well(world, i))
            drain(world, i, !is_over && by_chance(world, 20));
    if (!is_over)
        rota_sim_call(world->sim, rota_sim_now(world->sim) + 2 * ROTA_SEC, change_call, world, 0);
}

static void resume_call(void *data, uint64_t number)
{
    rota_sim_resume(((struct world *)data)->sim, (uint32_t)number);
}

/* In a clean world no node pauses for as long as the leases of the other last. */
static void pause_call(void *data, uint64_t number)
{
    struct world *world = data;
    rota_time now = rota_sim_now(world->sim),
              until = now + rota_random_range(world->random, 1, 5500) * ROTA_MSEC,
              next = until + rota_random_range(world->random, 7000, 15000) * ROTA_MSEC;
    rota_sim_pause(world->sim, (uint32_t)number);
    rota_sim_call(world->sim, until, resume_call, world, number);
    if (next < QUIET_AT)
        rota_sim_call(world->sim, next, pause_call, world, number);
}

/* The network recovers, too, and no node drains. */
static void quiet_call(void *data, uint64_t unused)
{
    struct world *world = data;
    (void)unused;
    for (uint32_t i = 0; i < BROKERS; i++)
        if (is_well(world, i))
            drain(world, i, false);
    for (uint32_t i = 0; i < NODES; i++)
        for (uint32_t k = 0; k < NODES; k++)
            rota_sim_set_link(world->sim, i, k, &ORDERLY);
}

/* --- the end --- */

static void check_end(struct world *world)
{
    for (uint32_t i = 0; i < world->n_jobs; i++)
        if (world->jobs[i].n_done == 0)
            rota_sim_fail(world->sim, "job %u is not done", i);
    for (uint32_t i = BROKERS; i < NODES; i++) {
        struct node *node = &world->nodes[home_of(i)];
        const struct worker *worker = &world->workers[i - BROKERS];
        const struct conn *conn = find_conn(node, i, worker->join.epoch);
        if (worker->n_items > 0)
            rota_sim_fail(world->sim, "worker %u still has a job", i);
        if (conn && !conn->delivery.session)
            rota_sim_fail(world->sim, "worker %u is not ready", i);
        if (conn &&
            (conn->delivery.slots != worker->slots || conn->delivery.n_kept > worker->slots))
            rota_sim_fail(world->sim, "worker %u has %u slots, and its node knows %u", i,
                          worker->slots, conn->delivery.slots);
    }
    for (uint32_t i = 0; i < BROKERS; i++)
        if (!rota_broker_is_sound(world->nodes[i].core))
            rota_sim_fail(world->sim, "broker %u is not sound", i);
}

static void free_world(struct world *world)
{
    for (uint32_t i = 0; i < BROKERS; i++) {
        struct node *node = &world->nodes[i];
        crash_node(world, i);
        for (size_t k = 0; k < node->disk.size; k++)
            rota_buffer_deinit(&node->disk.items[k].bytes);
        rota_vector_deinit(&node->disk);
        rota_vector_deinit(&node->conns);
    }
    for (uint32_t i = 0; i < world->n_jobs; i++)
        rota_vector_deinit(&world->jobs[i].attempts);
    free(world);
}

static void run_world(struct sim_case *run)
{
    struct world *world = calloc(1, sizeof *world);
    if (!world)
        die("no memory for a world");
    world->plant = (enum plant)run->plant;
    world->is_clean = run->seed % 2 == 0;
    struct rota_sim_link link = ORDERLY;
    if (!world->is_clean)
        link = (struct rota_sim_link){.delay_min = ROTA_MSEC,
                                      .delay_mean = 10 * ROTA_MSEC,
                                      .delay_max = 800 * ROTA_MSEC,
                                      .loss = 0.05,
                                      .duplication = 0.05};
    world->sim = sim_case_new(run, (struct rota_sim_options){.n_nodes = NODES,
                                                             .link = link,
                                                             .skew_max = ROTA_SEC,
                                                             .drift_max_ppm = 200,
                                                             .on_start = on_start,
                                                             .on_crash = on_crash,
                                                             .on_message = on_message,
                                                             .on_timer = on_timer,
                                                             .data = world});
    world->random = rota_sim_random(world->sim);
    for (uint32_t i = 0; i < BROKERS; i++) {
        world->nodes[i].world = world;
        world->nodes[i].number = i;
    }
    rota_sim_chaos_start(&world->chaos, world->sim,
                         &(struct rota_sim_chaos_options){.n_nodes = BROKERS,
                                                          .quiet_at = QUIET_AT,
                                                          .crash_every = 12 * ROTA_SEC,
                                                          .crash_for = 600 * ROTA_MSEC});
    if (world->is_clean) {
        for (uint32_t i = 0; i < BROKERS; i++)
            rota_sim_call(world->sim, (2 + 5 * i) * ROTA_SEC, pause_call, world, i);
    } else {
        rota_sim_chaos_start(&world->worker_chaos, world->sim,
                             &(struct rota_sim_chaos_options){.n_nodes = NODES,
                                                              .quiet_at = QUIET_AT,
                                                              .crash_every = 6 * ROTA_SEC,
                                                              .crash_for = ROTA_SEC,
                                                              .pause_every = 6 * ROTA_SEC,
                                                              .pause_for = 3 * ROTA_SEC,
                                                              .split_every = 8 * ROTA_SEC,
                                                              .split_for = 3 * ROTA_SEC});
        rota_sim_call(world->sim, ROTA_SEC, change_call, world, 0);
        rota_sim_call(world->sim, QUIET_AT + ROTA_MSEC, quiet_call, world, 0);
    }
    rota_sim_call(world->sim, ROTA_SEC, add_call, world, 0);
    if (rota_sim_run(world->sim, END_AT))
        check_end(world);
    sim_case_end(run, world->sim);
    free_world(world);
}

int main(int argc, char **argv)
{
    const struct sim_suite suite = {
        .name = "sim_delivery",
        .n_seeds = 400,
        .plants = plants,
        .n_plants = N_PLANTS - 1,
        .run = run_world,
    };
    return sim_main(argc, argv, &suite);
}
