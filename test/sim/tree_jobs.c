#include "tree_jobs.h"

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

void set_idle(struct world *world, struct worker *worker)
{
    if (worker->slot == BUSY)
        worker->idle_since = rota_sim_now(world->sim);
    if (worker->slot != IDLE)
        worker->free_since = mono(world, worker->node);
    worker->slot = IDLE;
}

void wait_again(struct world *world, struct job *job)
{
    job->state = WAITING;
    job->since = rota_sim_now(world->sim);
    job->lease_until = ROTA_TIME_NEVER;
}

bool finish(struct world *world, uint32_t number, uint64_t attempt, enum rota_code *code)
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
static bool yields(struct world *world, struct worker *worker)
{
    return world->plant != PLANT_NEVER_YIELDS &&
           rota_yield_holds(&worker->yield, mono(world, worker->node), worker->free_since);
}

void match_here(struct world *world, uint32_t node)
{
    for (uint32_t j = 0; j < world->n_jobs; j++) {
        if (world->jobs[j].node != node || world->jobs[j].state != WAITING)
            continue;
        for (uint32_t w = 0; w < world->n_workers; w++) {
            struct worker *worker = &world->workers[w];
            bool is_free = worker->slot == IDLE ||
                           (worker->slot == KEPT && world->plant == PLANT_SLOT_NOT_KEPT);
            if (worker->node != node || !worker->is_up || !is_free ||
                !can_do(worker, &world->jobs[j]) || yields(world, worker))
                continue;
            hand_out(world, j, w, ROTA_TIME_NEVER);
            begin(world, w, j, world->jobs[j].attempt);
            break;
        }
    }
}

/* --- visits --- */

void end_trip(struct world *world, uint32_t node, struct trip *trip)
{
    bool is_untold = trip->n == 0 && world->plant == PLANT_REFUSAL_UNTOLD;
    if (trip->n_left > 0)
        return;
    trip->is_used = false;
    if (trip->from != node)
        post(world, node, trip->from,
             &(struct message){
                 .type = WENT, .call = trip->call, .n = trip->n, .is_lost = trip->is_lost});
    else if (!is_untold)
        rota_tree_fsm_answered(world->nodes[node].fsm, mono(world, node), trip->visit, trip->n,
                               trip->is_lost);
}

void go(struct world *world, uint32_t node, uint32_t from, const struct message *visit)
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
        rota_yield_end(&worker->yield, mono(world, node));
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

void on_poll(struct world *world, uint32_t node, uint32_t from, const struct message *message)
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

struct rota_job_id job_id(uint32_t job)
{
    return (struct rota_job_id){.high = 1, .low = job};
}

void on_handed(struct world *world, uint32_t node, uint32_t w, const struct message *reply)
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
