#include "tree_drive.h"

#include <string.h>

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
                                     action->end.attempt, ROTA_OK, false);
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
            world->workers[w].yield.until > mono(world, node))
            at = rota_time_min(at, world->workers[w].yield.until);
    for (uint32_t j = 0; j < world->n_jobs; j++)
        if (world->jobs[j].node == node && world->jobs[j].state == RUNNING)
            at = rota_time_min(at, world->jobs[j].lease_until);
    rota_sim_set_timer(world->sim, node, 0, ROTA_SIM_MONO, at);
}

void turn(struct world *world, uint32_t number)
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
                                 is_reply ? reply->code : ROTA_ERR_UNAVAILABLE, false);
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

void on_message(void *data, uint32_t node, uint32_t from, struct rota_str bytes)
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

void on_timer(void *data, uint32_t node, uint32_t timer)
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
