#include "work_submit.h"

#include <stdio.h>

enum { TIMER_SUBMIT };

/* --- jobs --- */

static void make_spec(struct world *world, uint32_t number)
{
    struct job *job = &world->jobs[number];
    const struct shape *shape = &world->shape;
    struct rota_random *random = world->random;
    job->part = shape->is_fair ? 0 : (uint32_t)rota_random_below(random, PARTS);
    snprintf(job->payload, sizeof job->payload, "%*s%u", (int)shape->payload_size, "job ", number);
    job->n_key = shape->is_fair     ? number % KEYS
                 : shape->are_keyed ? (uint32_t)rota_random_below(random, KEYS)
                                    : 0;
    bool has_key = shape->is_fair || job->n_key > 0;
    snprintf(job->key, sizeof job->key, has_key ? "key %u" : "", job->n_key);
    if (shape->are_unique && chance(world, 0.3)) { /* a key has one partition */
        job->part = (uint32_t)rota_random_below(random, PARTS);
        snprintf(job->unique, sizeof job->unique, "u%u", job->part);
    }
    job->spec = (struct rota_job_spec){
        .queue = queue_of(job->part),
        .partition = job->part % PARTS_OF_QUEUE,
        .capabilities = job->capabilities,
        .payload = rota_str(job->payload),
        .timeout = chance(world, 0.3) ? 2 * ROTA_SEC : 0,
        .max_attempts = chance(world, 0.1) ? (uint32_t)rota_random_range(random, 1, 3) : 100,
        .backoff = rota_random_range(random, 50, 300) * ROTA_MSEC,
        .backoff_max = ROTA_SEC,
        .unique = rota_str(job->unique),
        .key = rota_str(job->key),
    };
    job->spec.id = rota_job_id_make(ROTA_SIM_WALL_START, job->spec.partition, 0);
    job->spec.id.low = rota_random_next(random) << 16 | number;
    if (shape->have_priorities && chance(world, 0.4))
        job->spec.priority = (int16_t)rota_random_range(random, -2, 2);
    job->priority = job->spec.priority;
    for (uint32_t i = 0; i < shape->n_caps; i++)
        if (chance(world, 0.3)) {
            job->caps |= 1U << i;
            job->capabilities[job->spec.n_capabilities++] = rota_str(cap_names[i]);
        }
}

void make_jobs(struct world *world)
{
    rota_time at = 400 * ROTA_MSEC;
    for (uint32_t i = 0; i < world->shape.n_jobs; i++) {
        struct job *job = &world->jobs[i];
        make_spec(world, i);
        at += rota_sim_exponential(world->random, world->shape.add_every);
        job->add_at = at;
        if (world->shape.cancel_every && chance(world, 0.15))
            job->cancel_at = at + span_upto(world, 3 * ROTA_SEC);
    }
    world->n_jobs = world->shape.n_jobs;
}

/* Times are made up when a job is sent for the first time. */
static void set_times(struct world *world, struct job *job)
{
    rota_time wall = rota_sim_wall(world->sim, SUBMITTER);
    if (world->shape.have_delays && chance(world, 0.2))
        job->spec.not_before = wall + span_upto(world, 2 * ROTA_SEC);
    if (world->shape.have_deadlines && chance(world, 0.1))
        job->spec.deadline = wall + ROTA_SEC + span_upto(world, 20 * ROTA_SEC);
}

static uint32_t guess_owner(struct world *world, const struct job *job)
{
    if (chance(world, 0.1))
        return FIRST_BROKER + (uint32_t)rota_random_below(world->random, world->shape.n_brokers);
    return world->rows[job->part].owner;
}

void submit_on_timer(struct world *world)
{
    rota_time now = rota_sim_now(world->sim);
    for (uint32_t i = 0; i < world->n_jobs; i++) {
        struct job *job = &world->jobs[i];
        struct frame frame = {.type = ADD, .job = i};
        bool is_again = job->again_at && now >= job->again_at;
        bool is_cancel =
            job->is_acked && job->cancel_at && now >= job->cancel_at && !job->is_cancel_answered;
        if (now < job->add_at || now < job->next_at ||
            (job->is_answered && !is_cancel && !is_again))
            continue;
        if (job->next_at == 0)
            set_times(world, job);
        if (job->is_answered && !is_again)
            frame.type = CANCEL_JOB;
        if (is_again)
            job->again_at = 0;
        post(world, SUBMITTER, guess_owner(world, job), &frame);
        job->next_at = now + 300 * ROTA_MSEC + span_upto(world, 400 * ROTA_MSEC);
    }
    set_timer(world, SUBMITTER, TIMER_SUBMIT, 10 * ROTA_MSEC);
}

void submit_on_message(struct world *world, const struct frame *frame)
{
    struct job *job = &world->jobs[frame->job];
    world->n_limits += frame->code == ROTA_ERR_LIMIT;
    if (frame->type == CANCELLED) {
        job->is_cancel_answered |= frame->code == ROTA_OK || frame->code == ROTA_ERR_INVALID;
        return;
    }
    if (job->is_answered)
        return;
    if (frame->code == ROTA_OK) {
        job->is_answered = true;
        if (chance(world, world->shape.repeats))
            job->again_at = rota_sim_now(world->sim) + span_upto(world, 5 * ROTA_SEC);
        job->is_merged = frame->other != frame->job;
    } else if (frame->code == ROTA_ERR_INVALID) {
        job->is_answered = job->is_refused = true;
    }
}

/* --- people --- */

void set_pause(struct world *world, uint32_t node, uint32_t queue, bool is_paused)
{
    struct broker *broker = broker_at(world, node);
    if (rota_broker_pause(broker->machine, now_of(world, node), rota_str(queue_names[queue]),
                          is_paused, &broker->pause_number[queue], NULL))
        rota_sim_fail(world->sim, "node %u can't pause a queue", node);
    broker->is_pause_open[queue] = true;
    broker->pause_next[queue] = is_paused;
    drive(world, node);
}

void set_weights(struct world *world, uint32_t node)
{
    struct broker *broker = broker_at(world, node);
    char key[16];
    uint64_t number;
    for (uint32_t i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "key %u", i);
        rota_broker_set_weight(broker->machine, now_of(world, node), queue_of(0), rota_str(key),
                               weights[i], &number, NULL);
    }
    drive(world, node);
}

void set_priority(struct world *world, uint32_t node, uint32_t number, int16_t priority)
{
    struct job *job = &world->jobs[number];
    if (world->shape.n_brokers == 1 &&
        !rota_broker_set_priority(broker_at(world, node)->machine, now_of(world, node),
                                  queue_of(job->part), job->spec.id, priority,
                                  &job->priority_number, NULL))
        job->priority = priority;
    drive(world, node);
}

static void revive(struct world *world, uint32_t node, uint32_t number)
{
    struct job *job = &world->jobs[number];
    uint64_t record;
    if ((job->is_dead || job->is_cancelled) &&
        !rota_broker_revive(broker_at(world, node)->machine, now_of(world, node),
                            queue_of(job->part), job->spec.id, &record, NULL)) {
        job->is_revived = true;
        job->n_runs = 0;
        job->wait_at = NOBODY;
    }
    drive(world, node);
}

/* A worker takes fewer at a time, perhaps none; or as many as it has slots. */
static void set_slots(struct world *world, uint32_t node, bool is_whole)
{
    struct broker *broker = broker_at(world, node);
    for (size_t i = 0; i < broker->sessions.size; i++) {
        uint64_t session = broker->sessions.items[i].session;
        if (worker_at(world, broker->sessions.items[i].node)->polls)
            continue; /* it asks for as many as it wants */
        uint32_t slots = worker_at(world, broker->sessions.items[i].node)->slots;
        if (!is_whole)
            slots = (uint32_t)rota_random_below(world->random, slots + 1);
        rota_broker_worker_slots(broker->machine, now_of(world, node), session, slots);
    }
    drive(world, node);
}

bool is_serving(struct world *world, uint32_t node)
{
    return rota_sim_is_up(world->sim, node) && !rota_sim_is_paused(world->sim, node) &&
           broker_at(world, node)->machine && broker_at(world, node)->is_ready;
}

void operate(void *data, uint64_t number)
{
    struct world *world = data;
    struct rota_random *random = world->random;
    uint32_t node = FIRST_BROKER + (uint32_t)rota_random_below(random, world->shape.n_brokers);
    uint32_t job = (uint32_t)rota_random_below(random, world->n_jobs);
    rota_time next =
        rota_sim_now(world->sim) + rota_sim_exponential(random, world->shape.operate_every);
    if (is_serving(world, node))
        switch (rota_random_below(random, 5)) {
        case 0:
            set_pause(world, node, (uint32_t)rota_random_below(random, QUEUES), chance(world, 0.4));
            break;
        case 1:
            set_weights(world, node);
            break;
        case 2:
            set_priority(world, node, job, (int16_t)rota_random_range(random, -2, 2));
            break;
        case 3:
            revive(world, node, job);
            break;
        case 4:
            set_slots(world, node, chance(world, 0.5));
            break;
        }
    if (next < world->shape.quiet_at)
        rota_sim_call(world->sim, next, operate, world, number + 1);
}

void resume(void *data, uint64_t number)
{
    struct world *world = data;
    for (uint32_t node = FIRST_BROKER; is_broker(world, node); node++)
        for (uint32_t queue = 0; queue < QUEUES && is_serving(world, node); queue++)
            if (is_queue_paused(broker_at(world, node), rota_str(queue_names[queue])))
                set_pause(world, node, queue, false);
    for (uint32_t node = FIRST_BROKER; is_broker(world, node); node++)
        if (is_serving(world, node))
            set_slots(world, node, true);
    rota_sim_call(world->sim, rota_sim_now(world->sim) + ROTA_SEC, resume, world, number + 1);
}
