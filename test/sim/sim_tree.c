/* Jobs here, workers there: nodes that forward over a network that loses, repeats and delays.
 *
 * Each node has jobs of several queues and capability sets, some have workers, and all run
 * the real machines tree_fsm and remote_fsm. What a broker does with them is modelled: a
 * job goes to the first free worker of its node, or to a node that visits, under a lease.
 * Every fourth seed is a *calm* world, in which nothing is lost and every message takes one
 * millisecond: there the bound of tree_fsm.h is checked as it stands. In the others nodes crash,
 * stop, are cut off, and the route changes, seen by each node at another time; then it is
 * quiet, though one node may be gone for good, and the bound with its refreshes holds. Some calm
 * worlds are *streams*: one node has all workers, and jobs that never end.
 *
 * No job waits beyond the bound while a worker that can do it is idle, anywhere that can be
 * reached. No job is with two workers, unless one of their nodes was in trouble within a
 * lease. No worker has more jobs than slots, nor one it can't do, and none is busy for ever. Beside
 * a stream, jobs of other nodes are begun in time. */
#include "core/work/breath.h"
#include "core/work/remote_fsm.h"
#include "core/work/tree_fsm.h"
#include "sim/chaos.h"
#include "sim_main.h"

enum {
    NODES_MAX = 8,
    WORKERS_MAX = 4, /* of a node; each has one slot */
    JOBS_MAX = 400,
    N_QUEUES = 3,
    N_NAMES = 5,
    CALLS_MAX = 2048,
    SEEN_MAX = 4096,
    TRIPS_MAX = 256,
};

#define QUIET_AT     (20 * ROTA_SEC)
#define END_AT       (40 * ROTA_SEC)
#define CALM         ROTA_MSEC /* what a message takes in a calm world */
#define CALL_TIMEOUT ROTA_SEC
#define LEASE        (3 * ROTA_SEC)
#define WORK_MAX     (8 * ROTA_SEC)
#define SHARE_BOUND  (2 * (ROTA_BREATH_EVERY + ROTA_BREATH_FOR + WORK_MAX))
#define NO_WORKER    UINT32_MAX

enum plant {
    PLANT_NONE,
    PLANT_REFUSAL_UNTOLD,
    PLANT_WANT_SAID_ONCE,
    PLANT_OFFER_SAID_ONCE,
    PLANT_DEAD_PARENT_KEPT,
    PLANT_SLOT_NOT_KEPT,
    PLANT_SLOT_NOT_FREED,
    PLANT_ROUTE_UNTOLD,
    PLANT_NEVER_EXTENDED,
    PLANT_NEVER_REFRESHED,
    PLANT_END_ONCE,
    PLANT_CAN_IGNORED,
    PLANT_LEASE_FORGOTTEN,
    PLANT_NEVER_BREATHES,
};

enum type { TELL, TOLD, VISIT, WENT, POLL, HANDED, EXTEND, END, ANSWER };

/* Without holes, for its bytes are part of the trace. */
struct message {
    enum type type;
    enum rota_tree_kind kind;
    enum rota_code code;
    uint32_t is_lost, queue, can, node, n, hops, job;
    uint64_t call; /* of the sender; answers carry it back */
    uint64_t stamp, visit, attempt;
    rota_time age, until; /* `until`: true time, when the caller gives up */
};
_Static_assert(sizeof(struct message) == 10 * 4 + 6 * 8, "there are holes in a message");

struct call {
    uint64_t number; /* 0: free */
    uint32_t to, worker, trip;
    rota_time until; /* on the clock of the caller */
    struct message message;
};

enum slot { IDLE, KEPT, BUSY };

struct worker {
    uint32_t node, can, queues; /* masks */
    enum slot slot;
    uint32_t job; /* when it is busy, or has ended and was not answered */
    uint64_t attempt;
    rota_time idle_since, busy_since; /* true time */
    rota_time done_at;                /* on the clock of its node; 0: it has said so */
    rota_time free_since;             /* the same */
    struct rota_breath breath;
    bool is_up;
};

struct job {
    uint32_t node, queue, can;
    enum { WAITING, RUNNING, DONE } state;
    uint64_t attempt;
    rota_time since;       /* true time */
    rota_time lease_until; /* on the clock of its node; NEVER: with a worker there */
    uint32_t holder;       /* the worker it was handed to, in truth */
    rota_time handed_at;   /* true time */

    /* The last end that a worker of another node has said: where, of which attempt, when. */
    uint32_t end_node;
    uint64_t end_attempt;
    rota_time end_at;
};

/* A visit that we are on. */
struct trip {
    bool is_used, is_lost;
    uint32_t from, n, n_left;
    uint64_t call, visit; /* of whoever has sent us; `visit` when that is ourselves */
};

struct node {
    struct rota_tree_fsm *fsm;
    struct trip trips[TRIPS_MAX];
    struct rota_remote_fsm remote;
    struct call calls[CALLS_MAX];
    uint64_t n_calls;
    size_t calls_end;        /* the places of calls that were ever used */
    uint32_t view;           /* of the route */
    rota_time troubled_at;   /* true time: when it was last in trouble */
    uint64_t seen[SEEN_MAX]; /* polls that came, by sender and number */
    size_t n_seen;
};

struct world {
    struct rota_sim *sim;
    struct rota_sim_chaos chaos;
    enum plant plant;
    bool is_calm, is_stream;
    uint32_t n_nodes, n_partitions, degree, n_views;
    struct node nodes[NODES_MAX];
    struct worker workers[NODES_MAX * WORKERS_MAX];
    uint32_t n_workers;
    struct job jobs[JOBS_MAX];
    uint32_t n_jobs, n_done, n_remote;
    uint64_t n_attempts;
    char names[NODES_MAX][8];
    rota_time worst; /* wait of a job while a worker was idle */
};

static const char *const QUEUES[N_QUEUES] = {"mail", "film", "sums"};

/* Of all seeds, for whoever reads the output. */
static struct {
    uint64_t n_jobs, n_remote, n_visits, n_vain, n_said;
    rota_time worst_calm, worst;
} totals;

static rota_time mono(const struct world *world, uint32_t node)
{
    return rota_sim_mono(world->sim, node);
}

static struct rota_str can_text(uint32_t can, char text[2 * N_NAMES])
{
    size_t size = 0;
    for (uint32_t i = 0; i < N_NAMES; i++)
        if (can >> i & 1) {
            text[size++] = (char)('a' + i);
            text[size++] = ' ';
        }
    return rota_str_of(text, size);
}

static uint32_t can_mask(struct rota_str text)
{
    uint32_t can = 0;
    for (size_t i = 0; i < text.size; i += 2)
        can |= 1u << (text.data[i] - 'a');
    return can;
}

static uint32_t queue_of(struct rota_str name)
{
    uint32_t queue = 0;
    while (!rota_str_is_equal(name, rota_str(QUEUES[queue])))
        queue++;
    return queue;
}

static uint32_t node_of(const struct world *world, struct rota_str name)
{
    uint32_t node = 0;
    while (!rota_str_is_equal(name, rota_str(world->names[node])))
        node++;
    return node;
}

static bool can_do(const struct worker *worker, const struct job *job)
{
    return (worker->can & job->can) == job->can && worker->queues >> job->queue & 1;
}

/* --- the route --- */

struct viewer {
    struct world *world;
    uint32_t node;
};
static struct viewer viewers[NODES_MAX];

/* By chance, but the same for all with one view. Some nodes may have no partition. */
static struct rota_str owner(void *data, struct rota_str queue, uint32_t partition)
{
    const struct viewer *viewer = (const struct viewer *)data;
    const struct world *world = viewer->world;
    uint64_t mix = rota_sim_seed(world->sim) * 1000003 +
                   (uint64_t)world->nodes[viewer->node].view * 7919 + queue_of(queue) * 104729 +
                   partition;
    return rota_str(world->names[rota_random_mix(&mix) % world->n_nodes]);
}

static struct rota_str node_at(void *data, size_t index)
{
    const struct world *world = ((const struct viewer *)data)->world;
    return rota_str(index < world->n_nodes ? world->names[index] : "");
}

/* --- calls --- */

static void send(struct world *world, uint32_t from, uint32_t to, const struct message *message)
{
    rota_sim_send(world->sim, from, to, rota_str_of(message, sizeof *message));
}

static void call(struct world *world, uint32_t from, uint32_t to, struct message message,
                 uint32_t worker, uint32_t trip)
{
    struct node *node = &world->nodes[from];
    rota_time timeout = message.type == VISIT ? 2 * CALL_TIMEOUT : CALL_TIMEOUT;
    for (size_t i = 0; i < CALLS_MAX; i++) {
        struct call *place = &node->calls[i];
        if (place->number)
            continue;
        if (i >= node->calls_end)
            node->calls_end = i + 1;
        message.call = ++node->n_calls;
        message.until = rota_sim_now(world->sim) + timeout;
        *place =
            (struct call){message.call, to, worker, trip, mono(world, from) + timeout, message};
        send(world, from, to, &message);
        return;
    }
    rota_sim_fail(world->sim, "node %u has too many calls under way", from);
}

static void answer(struct world *world, uint32_t from, uint32_t to, const struct message *to_what,
                   struct message message)
{
    message.call = to_what->call;
    send(world, from, to, &message);
}

/* --- jobs --- */

/* A node in trouble, or cut off, within this span may not have been heard. */
static bool was_troubled(const struct world *world, uint32_t node, rota_time span)
{
    return rota_sim_now(world->sim) - world->nodes[node].troubled_at < span;
}

static void hand_out(struct world *world, uint32_t number, uint32_t holder, rota_time lease_until)
{
    struct job *job = &world->jobs[number];
    if (job->holder != NO_WORKER && job->holder != holder) {
        const struct worker *other = &world->workers[job->holder];
        if (other->slot == BUSY && other->job == number && other->attempt == job->attempt &&
            world->is_calm)
            rota_sim_fail(world->sim, "job %u is with two workers", number);
        if (other->slot == BUSY && other->job == number && other->attempt == job->attempt &&
            other->is_up && !was_troubled(world, other->node, 2 * LEASE) &&
            !was_troubled(world, job->node, 2 * LEASE) &&
            rota_sim_now(world->sim) > QUIET_AT + 2 * LEASE)
            rota_sim_fail(world->sim, "job %u is with two workers, and neither was in trouble",
                          number);
    }
    job->state = RUNNING;
    job->attempt = ++world->n_attempts;
    job->lease_until = lease_until;
    job->holder = holder;
    job->handed_at = rota_sim_now(world->sim);
}

static void begin(struct world *world, uint32_t number, uint32_t job, uint64_t attempt)
{
    struct worker *worker = &world->workers[number];
    if (worker->slot == BUSY)
        rota_sim_fail(world->sim, "worker %u has two jobs and one slot", number);
    if (!can_do(worker, &world->jobs[job]))
        rota_sim_fail(world->sim, "worker %u can't do job %u", number, job);
    worker->slot = BUSY;
    worker->job = job;
    worker->attempt = attempt;
    worker->busy_since = rota_sim_now(world->sim);
    rota_time mean = job % 20 == 0 ? 3 * ROTA_SEC : 200 * ROTA_MSEC;
    worker->done_at =
        mono(world, worker->node) +
        rota_time_min(rota_sim_exponential(rota_sim_random(world->sim), mean), WORK_MAX);
}

static void set_idle(struct world *world, struct worker *worker)
{
    if (worker->slot == BUSY)
        worker->idle_since = rota_sim_now(world->sim);
    if (worker->slot != IDLE)
        worker->free_since = mono(world, worker->node);
    worker->slot = IDLE;
}

static void wait_again(struct world *world, struct job *job)
{
    job->state = WAITING;
    job->since = rota_sim_now(world->sim);
    job->lease_until = ROTA_TIME_NEVER;
}

static bool finish(struct world *world, uint32_t number, uint64_t attempt, enum rota_code *code)
{
    struct job *job = &world->jobs[number];
    *code = ROTA_OK;
    if (job->attempt == attempt && job->state == DONE)
        return false; /* said twice */
    if (job->state != RUNNING || job->attempt != attempt) {
        *code = ROTA_ERR_STALE;
        return false;
    }
    job->state = DONE;
    world->n_done++;
    return true;
}

/* Each worker is a kind of its own, with one slot. */
static bool draws_breath(struct world *world, struct worker *worker)
{
    return world->plant != PLANT_NEVER_BREATHES &&
           rota_breath_holds(&worker->breath, mono(world, worker->node), worker->free_since);
}

/* What waits at a node goes to the idle there, the oldest first. */
static void match_here(struct world *world, uint32_t node)
{
    for (uint32_t j = 0; j < world->n_jobs; j++) {
        if (world->jobs[j].node != node || world->jobs[j].state != WAITING)
            continue;
        for (uint32_t w = 0; w < world->n_workers; w++) {
            struct worker *worker = &world->workers[w];
            bool is_free = worker->slot == IDLE ||
                           (worker->slot == KEPT && world->plant == PLANT_SLOT_NOT_KEPT);
            if (worker->node != node || !worker->is_up || !is_free ||
                !can_do(worker, &world->jobs[j]) || draws_breath(world, worker))
                continue;
            hand_out(world, j, w, ROTA_TIME_NEVER);
            begin(world, w, j, world->jobs[j].attempt);
            break;
        }
    }
}

/* --- visits --- */

/* All who went are back, or nobody went: whoever has sent them is told. */
static void end_trip(struct world *world, uint32_t node, struct trip *trip)
{
    bool is_untold = trip->n == 0 && world->plant == PLANT_REFUSAL_UNTOLD;
    if (trip->n_left > 0)
        return;
    trip->is_used = false;
    if (trip->from != node)
        send(world, node, trip->from,
             &(struct message){
                 .type = WENT, .call = trip->call, .n = trip->n, .is_lost = trip->is_lost});
    else if (!is_untold)
        rota_tree_fsm_answered(world->nodes[node].fsm, mono(world, node), trip->visit, trip->n,
                               trip->is_lost);
}

/* As many idle workers as can do it go. */
static void go(struct world *world, uint32_t node, uint32_t from, const struct message *visit)
{
    uint32_t place = 0;
    while (place + 1 < TRIPS_MAX && world->nodes[node].trips[place].is_used)
        place++;
    struct trip *trip = &world->nodes[node].trips[place];
    *trip =
        (struct trip){.is_used = true, .from = from, .call = visit->call, .visit = visit->visit};
    for (uint32_t w = 0; w < world->n_workers && trip->n < visit->n; w++) {
        struct worker *worker = &world->workers[w];
        if (worker->node != node || !worker->is_up || worker->slot != IDLE ||
            (worker->can & visit->can) != visit->can || !(worker->queues >> visit->queue & 1))
            continue;
        worker->slot = KEPT;
        rota_breath_end(&worker->breath, mono(world, node));
        trip->n++;
        trip->n_left++;
        call(world, node, visit->node,
             (struct message){.type = POLL, .queue = visit->queue, .can = worker->can, .n = 1}, w,
             place);
    }
    if (world->plant != PLANT_WANT_SAID_ONCE)
        rota_tree_fsm_sent(world->nodes[node].fsm, mono(world, node),
                           rota_str(QUEUES[visit->queue]), trip->n);
    end_trip(world, node, trip);
}

/* A repeated request is the network's doing: a call is answered once. */
static bool is_repeated(struct node *node, uint32_t from, uint64_t number)
{
    uint64_t key = (uint64_t)from << 48 | number;
    for (size_t i = 0; i < node->n_seen && i < SEEN_MAX; i++)
        if (node->seen[i] == key)
            return true;
    node->seen[node->n_seen++ % SEEN_MAX] = key;
    return false;
}

static void on_poll(struct world *world, uint32_t node, uint32_t from,
                    const struct message *message)
{
    struct message reply = {.type = HANDED, .job = UINT32_MAX};
    if (is_repeated(&world->nodes[node], from, message->call) ||
        message->until <= rota_sim_now(world->sim))
        return;
    for (uint32_t j = 0; j < world->n_jobs && reply.n == 0; j++) {
        struct job *job = &world->jobs[j];
        bool is_free = job->state == WAITING ||
                       (job->state == RUNNING && world->plant == PLANT_LEASE_FORGOTTEN &&
                        job->lease_until != ROTA_TIME_NEVER);
        if (job->node != node || !is_free || job->queue != message->queue ||
            ((message->can & job->can) != job->can && world->plant != PLANT_CAN_IGNORED))
            continue;
        uint32_t holder = NO_WORKER;
        for (size_t i = 0; i < world->nodes[from].calls_end; i++)
            if (world->nodes[from].calls[i].number == message->call)
                holder = world->nodes[from].calls[i].worker;
        hand_out(world, j, holder, mono(world, node) + LEASE);
        reply.n = 1;
        reply.job = j;
        reply.attempt = job->attempt;
        world->n_remote++;
    }
    if (world->plant != PLANT_OFFER_SAID_ONCE)
        rota_tree_fsm_visited(world->nodes[node].fsm, mono(world, node),
                              rota_str(QUEUES[message->queue]), reply.n);
    answer(world, node, from, message, reply);
}

static struct rota_job_id job_id(uint32_t job)
{
    return (struct rota_job_id){.high = 1, .low = job};
}

static void on_handed(struct world *world, uint32_t node, uint32_t w, const struct message *reply)
{
    struct worker *worker = &world->workers[w];
    if (worker->slot != KEPT && world->plant != PLANT_SLOT_NOT_KEPT)
        return; /* it was lost, and is another now */
    if (reply->n == 0) {
        if (worker->slot == KEPT && world->plant != PLANT_SLOT_NOT_FREED)
            set_idle(world, worker);
        return;
    }
    begin(world, w, reply->job, reply->attempt);
    rota_remote_fsm_take(
        &world->nodes[node].remote, mono(world, node), (uint64_t)w + 1, rota_str("node"),
        &(struct rota_worker_running){
            .queue = rota_str("q"), .id = job_id(reply->job), .attempt = reply->attempt},
        LEASE, NULL);
}

/* --- driving --- */

static void do_tree(struct world *world, uint32_t node, const struct rota_tree_action *action)
{
    uint32_t to = node_of(world, action->to);
    struct message message = {
        .type = action->type == ROTA_TREE_DO_TELL ? TELL : VISIT,
        .kind = action->word.kind,
        .stamp = action->word.stamp,
        .queue = queue_of(action->word.queue),
        .can = can_mask(action->word.can),
        .node = node_of(world, action->word.node),
        .n = action->word.n,
        .hops = action->word.hops,
        .age = action->word.age,
        .visit = action->visit,
    };
    if (to != node) {
        call(world, node, to, message, NO_WORKER, 0);
        return;
    }
    go(world, node, node, &message);
}

static void do_remote(struct world *world, uint32_t node, const struct rota_remote_action *action)
{
    uint32_t w = (uint32_t)action->session - 1, job = (uint32_t)action->end.id.low;
    struct message message = {.type = action->type == ROTA_REMOTE_DO_EXTEND ? EXTEND : END,
                              .job = job,
                              .attempt = action->end.attempt,
                              .n = action->end.cause == ROTA_JOB_CAUSE_DONE};
    switch (action->type) {
    case ROTA_REMOTE_DO_EXTEND:
        if (world->plant == PLANT_NEVER_EXTENDED)
            rota_remote_fsm_answered(&world->nodes[node].remote, mono(world, node), action->end.id,
                                     action->end.attempt, ROTA_OK);
        else
            call(world, node, world->jobs[job].node, message, NO_WORKER, 0);
        break;
    case ROTA_REMOTE_DO_END:
        call(world, node, world->jobs[job].node, message, NO_WORKER, 0);
        break;
    case ROTA_REMOTE_DO_CANCEL:
        if (world->workers[w].slot == BUSY && world->workers[w].job == job)
            set_idle(world, &world->workers[w]);
        break;
    case ROTA_REMOTE_DO_TELL:
        break;
    }
}

static void look(struct world *world, uint32_t node)
{
    struct rota_tree_fsm *fsm = world->nodes[node].fsm;
    rota_time now = mono(world, node);
    char text[2 * N_NAMES];
    rota_tree_fsm_begin(fsm, now);
    for (uint32_t w = 0; w < world->n_workers; w++) {
        const struct worker *worker = &world->workers[w];
        for (uint32_t q = 0; q < N_QUEUES; q++)
            if (worker->node == node && worker->is_up && worker->slot == IDLE &&
                worker->queues >> q & 1)
                rota_tree_fsm_have(fsm, ROTA_TREE_WANT, rota_str(QUEUES[q]),
                                   can_text(worker->can, text), 1, now);
    }
    for (uint32_t j = 0; j < world->n_jobs; j++) {
        const struct job *job = &world->jobs[j];
        if (job->node == node && job->state == WAITING)
            rota_tree_fsm_have(fsm, ROTA_TREE_OFFER, rota_str(QUEUES[job->queue]),
                               can_text(job->can, text), 1,
                               now - (rota_sim_now(world->sim) - job->since));
    }
    rota_tree_fsm_end(fsm);
}

static void set_timer(struct world *world, uint32_t node)
{
    const struct node *of = &world->nodes[node];
    rota_time at =
        rota_time_min(rota_tree_fsm_deadline(of->fsm), rota_remote_fsm_deadline(&of->remote));
    for (size_t i = 0; i < of->calls_end; i++)
        if (of->calls[i].number)
            at = rota_time_min(at, of->calls[i].until);
    for (uint32_t w = 0; w < world->n_workers; w++)
        if (world->workers[w].node == node && world->workers[w].slot == BUSY &&
            world->workers[w].done_at)
            at = rota_time_min(at, world->workers[w].done_at);
    for (uint32_t w = 0; w < world->n_workers; w++)
        if (world->workers[w].node == node && world->workers[w].slot == IDLE &&
            world->workers[w].breath.until > mono(world, node))
            at = rota_time_min(at, world->workers[w].breath.until);
    for (uint32_t j = 0; j < world->n_jobs; j++)
        if (world->jobs[j].node == node && world->jobs[j].state == RUNNING)
            at = rota_time_min(at, world->jobs[j].lease_until);
    rota_sim_set_timer(world->sim, node, 0, ROTA_SIM_MONO, at);
}

/* Until there is nothing more to do: what is sent to ourselves happens at once. */
static void turn(struct world *world, uint32_t number)
{
    struct node *node = &world->nodes[number];
    for (bool is_over = false; !is_over && !rota_sim_violation(world->sim);) {
        size_t n, n_remote;
        match_here(world, number);
        look(world, number);
        const struct rota_tree_action *all = rota_tree_fsm_actions(node->fsm, &n);
        size_t n_done = 0;
        while (n_done < n) { /* the list moves when a visit to ourselves is answered */
            struct rota_tree_action action = all[n_done++];
            do_tree(world, number, &action);
            all = rota_tree_fsm_actions(node->fsm, &n);
        }
        rota_tree_fsm_clear(node->fsm);
        const struct rota_remote_action *remote = rota_remote_fsm_actions(&node->remote, &n_remote);
        for (size_t i = 0; i < n_remote; i++)
            do_remote(world, number, &remote[i]);
        rota_remote_fsm_clear(&node->remote);
        is_over = n_done == 0 && n_remote == 0;
    }
    set_timer(world, number);
}

/* --- what comes --- */

static struct call *take_call(struct node *node, uint64_t number)
{
    for (size_t i = 0; i < node->calls_end; i++)
        if (node->calls[i].number == number)
            return &node->calls[i];
    return NULL;
}

/* How a call ended: with an answer, or with NULL when there was none. */
static void end_call(struct world *world, uint32_t number, struct call *place,
                     const struct message *reply)
{
    struct node *node = &world->nodes[number];
    struct call call = *place;
    rota_time now = mono(world, number);
    struct rota_str to = rota_str(world->names[call.to]);
    bool is_reply = reply != NULL;
    place->number = 0;
    if (is_reply)
        rota_tree_fsm_reached(node->fsm, now, to);
    else if (call.message.type <= VISIT && world->plant != PLANT_DEAD_PARENT_KEPT)
        rota_tree_fsm_failed(node->fsm, now, to);
    switch (call.message.type) {
    case VISIT:
        if ((is_reply && reply->n > 0) || world->plant != PLANT_REFUSAL_UNTOLD)
            rota_tree_fsm_answered(node->fsm, now, call.message.visit, is_reply ? reply->n : 0,
                                   is_reply && reply->is_lost);
        break;
    case POLL:
        on_handed(world, number, call.worker, is_reply ? reply : &(struct message){.n = 0});
        node->trips[call.trip].n_left--;
        node->trips[call.trip].is_lost |= !is_reply;
        end_trip(world, number, &node->trips[call.trip]);
        break;
    case EXTEND:
    case END:
        if (!is_reply && call.message.type == END && world->plant == PLANT_END_ONCE)
            break;
        rota_remote_fsm_answered(&node->remote, now, job_id(call.message.job), call.message.attempt,
                                 is_reply ? reply->code : ROTA_ERR_UNAVAILABLE);
        break;
    case TELL:
    case TOLD:
    case WENT:
    case HANDED:
    case ANSWER:
        break;
    }
}

static void on_tell(struct world *world, uint32_t node, const struct message *message)
{
    char text[2 * N_NAMES];
    rota_tree_fsm_hear(world->nodes[node].fsm, mono(world, node),
                       &(struct rota_tree_word){
                           .kind = message->kind,
                           .node = rota_str(world->names[message->node]),
                           .queue = rota_str(QUEUES[message->queue]),
                           .can = can_text(message->can, text),
                           .stamp = message->stamp,
                           .n = message->n,
                           .hops = message->hops,
                           .age = message->age,
                       });
}

static void on_attempt(struct world *world, uint32_t node, uint32_t from,
                       const struct message *message)
{
    struct job *job = &world->jobs[message->job];
    struct message reply = {.type = ANSWER, .code = ROTA_OK};
    bool is_it = job->state == RUNNING && job->attempt == message->attempt;
    if (message->type == EXTEND && is_it)
        job->lease_until = mono(world, node) + LEASE;
    else if (message->type == EXTEND)
        reply.code = ROTA_ERR_STALE;
    else if (message->n)
        finish(world, message->job, message->attempt, &reply.code);
    else if (is_it)
        wait_again(world, job);
    answer(world, node, from, message, reply);
}

static void on_message(void *data, uint32_t node, uint32_t from, struct rota_str bytes)
{
    struct world *world = (struct world *)data;
    struct message message;
    memcpy(&message, bytes.data, sizeof message);
    struct call *place = NULL;
    switch (message.type) {
    case TELL:
        on_tell(world, node, &message);
        answer(world, node, from, &message, (struct message){.type = TOLD});
        break;
    case VISIT:
        go(world, node, from, &message);
        break;
    case POLL:
        on_poll(world, node, from, &message);
        break;
    case EXTEND:
    case END:
        on_attempt(world, node, from, &message);
        break;
    case TOLD:
    case WENT:
    case HANDED:
    case ANSWER:
        place = take_call(&world->nodes[node], message.call);
        if (place)
            end_call(world, node, place, &message);
        break;
    }
    turn(world, node);
}

static void on_work_done(struct world *world, uint32_t w)
{
    struct worker *worker = &world->workers[w];
    struct node *node = &world->nodes[worker->node];
    struct rota_attempt_end end = {.queue = rota_str("q"),
                                   .id = job_id(worker->job),
                                   .attempt = worker->attempt,
                                   .cause = ROTA_JOB_CAUSE_DONE};
    enum rota_code code;
    worker->done_at = 0;
    if (rota_remote_fsm_end(&node->remote, mono(world, worker->node), &end, &code)) {
        world->jobs[worker->job].end_node = worker->node;
        world->jobs[worker->job].end_attempt = worker->attempt;
        world->jobs[worker->job].end_at = rota_sim_now(world->sim);
    } else {
        finish(world, worker->job, worker->attempt, &code);
    }
    set_idle(world, worker);
}

static void on_timer(void *data, uint32_t node, uint32_t timer)
{
    struct world *world = (struct world *)data;
    struct node *of = &world->nodes[node];
    rota_time now = mono(world, node);
    (void)timer;
    for (size_t i = 0; i < of->calls_end; i++)
        if (of->calls[i].number && of->calls[i].until <= now)
            end_call(world, node, &of->calls[i], NULL);
    for (uint32_t w = 0; w < world->n_workers; w++)
        if (world->workers[w].node == node && world->workers[w].slot == BUSY &&
            world->workers[w].done_at && world->workers[w].done_at <= now)
            on_work_done(world, w);
    for (uint32_t j = 0; j < world->n_jobs; j++)
        if (world->jobs[j].node == node && world->jobs[j].state == RUNNING &&
            world->jobs[j].lease_until <= now)
            wait_again(world, &world->jobs[j]);
    if (world->plant != PLANT_NEVER_REFRESHED || world->is_calm)
        rota_tree_fsm_tick(of->fsm, now);
    rota_remote_fsm_tick(&of->remote, now);
    turn(world, node);
    if (world->plant == PLANT_NEVER_REFRESHED && !world->is_calm)
        rota_sim_set_timer(world->sim, node, 0, ROTA_SIM_MONO, now + 100 * ROTA_MSEC);
}

/* --- lives --- */

static void on_start(void *data, uint32_t number)
{
    struct world *world = (struct world *)data;
    struct node *node = &world->nodes[number];
    rota_time now = mono(world, number);
    viewers[number] = (struct viewer){world, number};
    node->fsm = rota_tree_fsm_new(
        &(struct rota_tree_options){
            .self = rota_str(world->names[number]),
            .stamp = (uint64_t)rota_sim_wall(world->sim, number),
            .seed = rota_sim_seed(world->sim) + number,
            .partitions = world->n_partitions,
            .degree = world->degree,
            .owner = owner,
            .node = node_at,
            .data = &viewers[number],
        },
        now);
    rota_remote_fsm_init(&node->remote, 1);
    node->view = world->n_views;
    node->troubled_at = rota_sim_now(world->sim);
    memset(node->calls, 0, sizeof node->calls);
    memset(node->trips, 0, sizeof node->trips);
    for (uint32_t w = 0; w < world->n_workers; w++)
        if (world->workers[w].node == number) {
            world->workers[w].is_up = true;
            world->workers[w].slot = IDLE;
            world->workers[w].attempt = 0;
            world->workers[w].idle_since = rota_sim_now(world->sim);
            world->workers[w].free_since = now;
            world->workers[w].breath = (struct rota_breath){0};
        }
    for (uint32_t j = 0; j < world->n_jobs; j++) /* its disk knows them; its clock is another */
        if (world->jobs[j].node == number) {
            world->jobs[j].since = rota_sim_now(world->sim);
            if (world->jobs[j].state == RUNNING)
                world->jobs[j].lease_until = now + LEASE;
        }
    turn(world, number);
}

static void on_crash(void *data, uint32_t number)
{
    struct world *world = (struct world *)data;
    struct node *node = &world->nodes[number];
    rota_tree_fsm_free(node->fsm);
    node->fsm = NULL;
    rota_remote_fsm_deinit(&node->remote);
    for (uint32_t w = 0; w < world->n_workers; w++)
        if (world->workers[w].node == number) {
            world->workers[w].is_up = false;
            world->workers[w].slot = IDLE;
        }
}

static bool is_well(const struct world *world, uint32_t node)
{
    return rota_sim_is_up(world->sim, node) && !rota_sim_is_paused(world->sim, node);
}

static void on_add(void *data, uint64_t number)
{
    struct world *world = (struct world *)data;
    struct rota_random *random = rota_sim_random(world->sim);
    rota_time now = rota_sim_now(world->sim);
    uint32_t n = rota_random_chance(random, 0.1) ? 1 + (uint32_t)rota_random_below(random, 12) : 1;
    for (uint32_t i = 0; i < n && world->n_jobs < JOBS_MAX; i++) {
        uint32_t node = (uint32_t)rota_random_below(random, world->n_nodes);
        if (!is_well(world, node))
            continue;
        world->jobs[world->n_jobs++] = (struct job){
            .node = node,
            .queue = (uint32_t)rota_random_below(random, N_QUEUES),
            .can = (uint32_t)(rota_random_next(random) & rota_random_next(random)) &
                   ((1 << N_NAMES) - 1),
            .since = now,
            .lease_until = ROTA_TIME_NEVER,
            .holder = NO_WORKER,
        };
        turn(world, node);
    }
    if (now < END_AT - 10 * ROTA_SEC)
        rota_sim_call(world->sim, now + rota_sim_exponential(random, 150 * ROTA_MSEC), on_add,
                      world, number + 1);
}

/* Node 0 has always jobs that wait; the others now and then one. */
static void on_stream(void *data, uint64_t number)
{
    enum { AHEAD = 3, OTHERS_EVERY = 500 };
    struct world *world = (struct world *)data;
    rota_time now = rota_sim_now(world->sim);
    uint32_t n_waiting = 0;
    for (uint32_t j = 0; j < world->n_jobs; j++)
        n_waiting += world->jobs[j].node == 0 && world->jobs[j].state == WAITING;
    for (uint32_t j = 0; j < JOBS_MAX && n_waiting < AHEAD; j++) {
        struct job *job = &world->jobs[j];
        if (j < world->n_jobs && (job->state != DONE || job->node != 0))
            continue;
        *job = (struct job){.since = now, .lease_until = ROTA_TIME_NEVER, .holder = NO_WORKER};
        world->n_jobs += j == world->n_jobs;
        n_waiting++;
    }
    if (number % OTHERS_EVERY == 0 && world->n_jobs < JOBS_MAX) {
        uint32_t node = 1 + (uint32_t)(number / OTHERS_EVERY) % (world->n_nodes - 1);
        world->jobs[world->n_jobs++] = (struct job){
            .node = node, .since = now, .lease_until = ROTA_TIME_NEVER, .holder = NO_WORKER};
        turn(world, node);
    }
    turn(world, 0);
    rota_sim_call(world->sim, now + 20 * ROTA_MSEC, on_stream, world, number + 1);
}

static void on_see(void *data, uint64_t node)
{
    struct world *world = (struct world *)data;
    if (rota_sim_is_paused(world->sim, (uint32_t)node))
        rota_sim_call(world->sim, rota_sim_now(world->sim) + 100 * ROTA_MSEC, on_see, world, node);
    if (!is_well(world, (uint32_t)node))
        return; /* who starts anew sees it */
    world->nodes[node].view = world->n_views;
    if (world->plant != PLANT_ROUTE_UNTOLD)
        rota_tree_fsm_routed(world->nodes[node].fsm, mono(world, (uint32_t)node));
    turn(world, (uint32_t)node);
}

/* Another route, which each node sees at another time. */
static void on_route(void *data, uint64_t number)
{
    struct world *world = (struct world *)data;
    struct rota_random *random = rota_sim_random(world->sim);
    world->n_views++;
    for (uint32_t node = 0; node < world->n_nodes; node++)
        rota_sim_call(world->sim,
                      rota_sim_now(world->sim) + (rota_time)rota_random_below(random, 2 * ROTA_SEC),
                      on_see, world, node);
    if (number < 3)
        rota_sim_call(world->sim, rota_sim_now(world->sim) + 5 * ROTA_SEC, on_route, world,
                      number + 1);
}

/* --- what must hold --- */

static uint32_t depth_of(const struct world *world)
{
    uint32_t depth = 0;
    for (int64_t p = world->n_partitions - 1; p > 0; depth++)
        p = (p - 1) / world->degree;
    return depth + 1; /* a node without partitions stands below them */
}

/* As tree_fsm.h says; in a calm world beliefs may still be out of date, here twice. */
static rota_time bound_of(const struct world *world)
{
    rota_time trips = (depth_of(world) + 2) * 2 * (world->is_calm ? CALM : 20 * ROTA_MSEC);
    rota_time bound = 3 * trips + 2 * ROTA_TREE_PAUSE;
    return world->is_calm ? bound : bound + 3 * ROTA_TREE_REFRESH + CALL_TIMEOUT;
}

static void check_pair(struct world *world, uint32_t j, uint32_t w)
{
    const struct job *job = &world->jobs[j];
    const struct worker *worker = &world->workers[w];
    rota_time now = rota_sim_now(world->sim), since = job->since;
    bool is_breathing =
        worker->node == job->node && worker->breath.until > mono(world, worker->node);
    if (worker->slot == BUSY || !worker->is_up || !can_do(worker, job) || is_breathing)
        return;
    if (worker->idle_since > since)
        since = worker->idle_since;
    if (!world->is_calm && since < QUIET_AT)
        since = QUIET_AT;
    if (now - since > world->worst)
        world->worst = now - since;
    if (now - since > bound_of(world))
        rota_sim_fail(world->sim, "job %u at %u waits %lld ms while worker %u at %u is idle", j,
                      job->node, (long long)((now - since) / ROTA_MSEC), w, worker->node);
}

/* Beside a stream. */
static void check_shares(struct world *world)
{
    for (uint32_t j = 0; j < world->n_jobs; j++)
        if (world->jobs[j].node != 0 && world->jobs[j].state == WAITING &&
            rota_sim_now(world->sim) - world->jobs[j].since > SHARE_BOUND)
            rota_sim_fail(world->sim, "job %u of node %u waits while younger ones are done", j,
                          world->jobs[j].node);
}

static void on_check(void *data, uint64_t number)
{
    struct world *world = (struct world *)data;
    rota_time now = rota_sim_now(world->sim);
    for (uint32_t node = 0; node < world->n_nodes; node++)
        if (!is_well(world, node))
            world->nodes[node].troubled_at = now;
    for (uint32_t j = 0; j < world->n_jobs; j++)
        for (uint32_t w = 0; world->jobs[j].state == WAITING && w < world->n_workers; w++)
            if ((world->is_calm || now > QUIET_AT) && is_well(world, world->jobs[j].node))
                check_pair(world, j, w);
    if (world->is_stream)
        check_shares(world);
    rota_sim_call(world->sim, now + 5 * ROTA_MSEC, on_check, world, number + 1);
}

/* Whoever can do what is left is busy with something else, and not for ever. */
static void check_end(struct world *world)
{
    for (uint32_t j = 0; j < world->n_jobs && !rota_sim_violation(world->sim); j++)
        for (uint32_t w = 0; world->jobs[j].state == WAITING && w < world->n_workers; w++)
            if (can_do(&world->workers[w], &world->jobs[j]) && world->workers[w].slot == KEPT &&
                rota_sim_now(world->sim) - world->workers[w].idle_since > bound_of(world))
                rota_sim_fail(world->sim, "job %u is not done in the end", j);
    for (uint32_t w = 0; w < world->n_workers && !rota_sim_violation(world->sim); w++)
        if (world->workers[w].slot == BUSY &&
            rota_sim_now(world->sim) - world->workers[w].busy_since > 15 * ROTA_SEC)
            rota_sim_fail(world->sim, "worker %u is busy for ever", w);
    for (uint32_t j = 0; j < world->n_jobs && !rota_sim_violation(world->sim); j++) {
        const struct job *job = &world->jobs[j];
        uint64_t session;
        if (job->end_attempt && is_well(world, job->node) && is_well(world, job->end_node) &&
            rota_sim_now(world->sim) - job->end_at > 10 * ROTA_SEC &&
            rota_remote_fsm_has(&world->nodes[job->end_node].remote, job_id(j), job->end_attempt,
                                &session))
            rota_sim_fail(world->sim, "the end of job %u is not carried back", j);
    }
    if (!rota_sim_violation(world->sim) && world->n_workers > 0 && world->n_done == 0)
        rota_sim_fail(world->sim, "nothing was done");
}

/* --- one run --- */

static void make_workers(struct world *world, struct rota_random *random)
{
    for (uint32_t node = 0; node < world->n_nodes; node++)
        for (uint32_t i = 0; i < WORKERS_MAX; i++)
            if (rota_random_chance(random, 0.4))
                world->workers[world->n_workers++] = (struct worker){
                    .node = node,
                    .can = (uint32_t)(rota_random_next(random) | rota_random_next(random)) &
                           ((1 << N_NAMES) - 1),
                    .queues = 1 + (uint32_t)rota_random_below(random, (1 << N_QUEUES) - 1),
                };
}

/* All of them at the node that has a stream, and able to do all of it. */
static void make_stream_workers(struct world *world, struct rota_random *random)
{
    world->n_workers = 1 + (uint32_t)rota_random_below(random, WORKERS_MAX);
    for (uint32_t w = 0; w < world->n_workers; w++)
        world->workers[w] =
            (struct worker){.can = (1 << N_NAMES) - 1, .queues = (1 << N_QUEUES) - 1};
}

static void start_faults(struct world *world)
{
    rota_sim_chaos_start(&world->chaos, world->sim,
                         &(struct rota_sim_chaos_options){
                             .quiet_at = QUIET_AT,
                             .crash_every = 4 * ROTA_SEC,
                             .crash_for = 2 * ROTA_SEC,
                             .pause_every = 4 * ROTA_SEC,
                             .pause_for = 2 * ROTA_SEC,
                             .split_every = 4 * ROTA_SEC,
                             .split_for = 2 * ROTA_SEC,
                         });
    rota_sim_call(world->sim, ROTA_SEC, on_route, world, 0);
}

static void on_quiet(void *data, uint64_t number)
{
    struct world *world = (struct world *)data;
    const struct rota_sim_link link = {ROTA_MSEC, 3 * ROTA_MSEC, 20 * ROTA_MSEC, 0, 0.02};
    (void)number;
    for (uint32_t a = 0; a < world->n_nodes; a++)
        for (uint32_t b = 0; b < world->n_nodes; b++)
            rota_sim_set_link(world->sim, a, b, &link);
    if (world->n_nodes > 2 && rota_sim_seed(world->sim) % 2) /* and one is gone for good */
        rota_sim_crash(world->sim, (uint32_t)rota_sim_seed(world->sim) % world->n_nodes);
}

static void run_seed(struct sim_case *run)
{
    struct world *world = (struct world *)calloc(1, sizeof *world);
    struct rota_random random;
    rota_random_init(&random, run->seed * 31 + 7);
    world->plant = (enum plant)run->plant;
    world->is_calm = run->seed % 4 == 0;
    world->is_stream = run->seed % 16 == 4;
    world->n_nodes = 2 + (uint32_t)rota_random_below(&random, NODES_MAX - 1);
    world->n_partitions = 1 + (uint32_t)rota_random_below(&random, 64);
    world->degree = 2 + (uint32_t)rota_random_below(&random, 19);
    for (uint32_t i = 0; i < NODES_MAX; i++)
        snprintf(world->names[i], sizeof world->names[i], "node%u", i);
    if (world->is_stream)
        make_stream_workers(world, &random);
    else
        make_workers(world, &random);
    struct rota_sim_options options = {
        .n_nodes = world->n_nodes,
        .link = {ROTA_MSEC, 5 * ROTA_MSEC, 300 * ROTA_MSEC, 0.05, 0.05},
        .drift_max_ppm = 100,
        .on_start = on_start,
        .on_crash = on_crash,
        .on_message = on_message,
        .on_timer = on_timer,
        .data = world,
    };
    if (world->is_calm)
        options.link = (struct rota_sim_link){CALM, CALM, CALM, 0, 0};
    world->sim = sim_case_new(run, options);
    rota_sim_call(world->sim, 100 * ROTA_MSEC, world->is_stream ? on_stream : on_add, world, 0);
    rota_sim_call(world->sim, 0, on_check, world, 0);
    if (!world->is_calm) {
        start_faults(world);
        rota_sim_call(world->sim, QUIET_AT, on_quiet, world, 0);
    }
    rota_sim_run(world->sim, END_AT);
    check_end(world);
    for (uint32_t node = 0; node < world->n_nodes; node++) {
        if (!world->nodes[node].fsm)
            continue;
        struct rota_tree_counts counts = rota_tree_fsm_counts(world->nodes[node].fsm);
        totals.n_visits += run->plant ? 0 : counts.visits_total;
        totals.n_vain += run->plant ? 0 : counts.visits_vain_total;
        totals.n_said += run->plant ? 0 : counts.said_total;
        on_crash(world, node);
    }
    if (!run->plant) {
        totals.n_jobs += world->n_jobs;
        totals.n_remote += world->n_remote;
        rota_time *worst = world->is_calm ? &totals.worst_calm : &totals.worst;
        if (world->worst > *worst)
            *worst = world->worst;
    }
    sim_case_end(run, world->sim);
    free(world);
}

static const struct sim_plant PLANTS[] = {
    {"refusal-untold", "that nobody goes on a visit is not told"},
    {"want-said-once", "who was sent does not say that it is idle again"},
    {"offer-said-once", "who was visited does not say that more jobs wait"},
    {"dead-parent-kept", "a parent that does not answer is told for ever"},
    {"slot-not-kept", "the slot of a visitor is given away meanwhile"},
    {"slot-not-freed", "the slot of a visit in vain is kept for ever"},
    {"route-untold", "another route is not noticed"},
    {"never-extended", "leases of other nodes are not extended"},
    {"never-refreshed", "words are said once, and lost ones are not said again"},
    {"end-once", "an end that was not answered is not said again"},
    {"can-ignored", "a visitor is handed what it can't do"},
    {"lease-forgotten", "what a visitor has is handed to the next one too"},
    {"never-breathes", "workers that have jobs of their node never look at those of others"},
};

int main(int argc, char **argv)
{
    static const struct sim_suite suite = {
        .name = "sim_tree",
        .n_seeds = 1000,
        .n_plant_seeds = 200,
        .plants = PLANTS,
        .n_plants = sizeof PLANTS / sizeof *PLANTS,
        .run = run_seed,
    };
    int result = sim_main(argc, argv, &suite);
    printf("# %llu jobs, %llu of them handed to other nodes; %llu words, %llu visits, %llu of "
           "them refused; longest wait beside an idle worker %.0f ms when calm, %.0f ms after "
           "faults\n",
           (unsigned long long)totals.n_jobs, (unsigned long long)totals.n_remote,
           (unsigned long long)totals.n_said, (unsigned long long)totals.n_visits,
           (unsigned long long)totals.n_vain, (double)totals.worst_calm / (double)ROTA_MSEC,
           (double)totals.worst / (double)ROTA_MSEC);
    return result;
}
