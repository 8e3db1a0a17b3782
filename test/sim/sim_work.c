/* Jobs, brokers and workers, while everything fails: brokers and workers crash, pause, are
 * cut off, and restart within moments; frames are lost, repeated, late and out of order;
 * clocks jump; disks tear the last write, lose what was not synced, fail to sync, fill up and
 * turn bits; partitions change hands; people pause queues, weigh keys and cancel jobs.
 *
 * The brokers are the real machine of core/work/broker/broker.h; the rest of the world is in
 * work_world.h and its parts, and what must hold in work_truth.h:
 *  - W1: no job that was acknowledged is lost: each is done, or cancelled because somebody
 *    said so, or dead because its attempts or its time were used up;
 *  - W2: one completion of a job is accepted, of the attempt that runs, and no job runs
 *    after that;
 *  - W3: a job runs only where its capabilities are;
 *  - W5: the job of a lost worker is queued again in time, and nobody waits for the dead;
 *  - W6: after a restart all that was acknowledged is there: jobs, ends, pauses, priorities,
 *    ages; no record contradicts another;
 *  - no job waits beside an idle worker that can take it; the highest priority goes first,
 *    then the oldest; keys share a queue by their weights; nothing begins before its time;
 *  - nothing grows above its bound, and the machine is valid after every call. */
#include "work_scenarios.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct sim_plant plants[N_PLANTS - 1] = {
    {"add-early", "an add is answered before it is on disk"},
    {"end-early", "an end is answered before it is on disk"},
    {"damage", "a damaged journal is read up to the damage"},
    {"eio", "a sync that failed is taken as done"},
    {"full", "what a full disk does not take is taken as written"},
    {"no-fence", "an end counts for whatever attempt runs"},
    {"identity", "a worker that comes back under its name was never away"},
    {"cancel-requeues", "a job that is cancelled waits again"},
    {"immortal", "a worker that is not heard of is not lost"},
    {"adds-early", "adds are taken in before all jobs of a partition have come"},
    {"stale-copy", "jobs that were handed over are not forgotten"},
    {"forget-first", "jobs are forgotten before their new owner has them"},
    {"adopt-early", "jobs are taken over before they are on disk"},
    {"close-early", "jobs are sent before the close is on disk, which alone is gone by"},
    {"all-capable", "every worker is taken to be able to do everything"},
    {"cut-early", "a journal is cut before what was written anew is on disk"},
    {"no-life", "a broker forgets how many lives it has had"},
    {"wall-clock", "a broker goes by the wall clock"},
    {"pause-lost", "pauses are not read from the journal"},
    {"priority-lost", "priorities are not read from the journal"},
    {"age-lost", "a job that is handed over is as new"},
    {"no-durable", "a broker hears of its disk only when an answer waits"},
    {"no-key", "the keys of jobs are dropped"},
    {"weight-lost", "weights are not read from the journal"},
    {"slots", "a worker is taken to have a slot more"},
    {"retry-lost", "retries are not read from the journal"},
    {"same-time", "of two jobs of one moment the second is not read"},
    {"start-late", "the start of an attempt is written behind what came after it"},
    {"never-came", "what did not come to a worker is not found out"},
    {"no-asking", "jobs are written anew on a full disk whether there is room for them or not"},
    {"no-stall", "a broker does not see that it stood still itself"},
    {"no-return", "what a worker still has when it comes back is not looked at"},
    {"no-quarantine", "a job may kill as many workers as it likes"},
    {"still-open", "an attempt that a hand-over cancels can still end at the new owner"},
};

/* --- faults of disks, and restarts within moments --- */

enum fault { EIO_NEXT, FILL, FLIP, SLOW, RESTART, MOVE };
enum { N_FAULTS = MOVE + 1 };

static rota_time gap_of(const struct shape *shape, enum fault fault)
{
    const rota_time gaps[N_FAULTS] = {shape->eio_every,  shape->full_every,    shape->flip_every,
                                      shape->slow_every, shape->restart_every, shape->move_every};
    return gaps[fault];
}

static void empty_call(void *data, uint64_t number)
{
    struct world *world = data;
    world->brokers[number].disk.room = NO_ROOM;
    world->brokers[number].disk.reserve = 2000;
}

static void fill(struct world *world, uint64_t number)
{
    world->brokers[number].disk.room = rota_random_below(world->random, 500);
    rota_sim_call(world->sim, rota_sim_now(world->sim) + span_upto(world, 3 * ROTA_SEC), empty_call,
                  world, number);
}

static void plan(struct world *world, enum fault fault);

static void strike(void *data, uint64_t number)
{
    struct world *world = data;
    struct rota_random *random = world->random;
    uint64_t which = rota_random_below(random, world->shape.n_brokers);
    struct disk *disk = &world->brokers[which].disk;
    uint32_t worker = FIRST_WORKER + (uint32_t)rota_random_below(random, world->shape.n_workers);
    switch ((enum fault)number) {
    case EIO_NEXT:
        disk->is_eio = true;
        break;
    case FILL:
        fill(world, which);
        break;
    case FLIP:
        disk_flip(world, disk);
        end_node(world, FIRST_BROKER + (uint32_t)which, span_upto(world, 500 * ROTA_MSEC));
        break;
    case SLOW:
        disk->slow_for = span_upto(world, 500 * ROTA_MSEC);
        break;
    case RESTART:
        end_node(world, worker, ROTA_MSEC + span_upto(world, 30 * ROTA_MSEC));
        break;
    case MOVE:
        table_move(world, (uint32_t)rota_random_below(random, PARTS),
                   FIRST_BROKER + (uint32_t)which);
        break;
    }
    plan(world, (enum fault)number);
}

static void plan(struct world *world, enum fault fault)
{
    rota_time gap = gap_of(&world->shape, fault);
    if (gap == 0)
        return;
    rota_time at = rota_sim_now(world->sim) + rota_sim_exponential(world->random, gap);
    if (at < world->shape.quiet_at)
        rota_sim_call(world->sim, at, strike, world, fault);
}

static void calm_call(void *data, uint64_t number)
{
    struct world *world = data;
    (void)number;
    /* A hanging worker is a fault like the others: each hang costs 12 s (the job's timeout and the
     * broker's grace), so a lone worker with one slot may not get through its jobs by the end. */
    world->shape.hangs = 0;
    for (uint32_t i = 0; i < world->shape.n_brokers; i++) {
        empty_call(world, i);
        world->brokers[i].disk.is_eio = false;
        rota_sim_start(world->sim, FIRST_BROKER + i);
    }
    for (uint32_t i = 0; i < world->shape.n_workers; i++)
        rota_sim_start(world->sim, FIRST_WORKER + i);
}

static void start_chaos(struct world *world)
{
    const struct shape *shape = &world->shape;
    rota_sim_chaos_start(&world->broker_chaos, world->sim,
                         &(struct rota_sim_chaos_options){
                             .first_node = FIRST_BROKER,
                             .n_nodes = shape->n_brokers,
                             .quiet_at = shape->quiet_at,
                             .crash_every = shape->broker_crash_every,
                             .crash_for = 400 * ROTA_MSEC,
                             .pause_every = shape->pause_every,
                             .pause_for = 700 * ROTA_MSEC,
                             .jump_every = shape->jump_every,
                             .jump_max = 10 * ROTA_SEC,
                         });
    rota_sim_chaos_start(&world->worker_chaos, world->sim,
                         &(struct rota_sim_chaos_options){
                             .first_node = FIRST_WORKER,
                             .quiet_at = shape->quiet_at,
                             .crash_every = shape->worker_crash_every,
                             .crash_for = ROTA_SEC,
                             .pause_every = shape->pause_every,
                             .pause_for = 2 * ROTA_SEC,
                             .jump_every = shape->jump_every,
                             .jump_max = ROTA_HOUR,
                         });
    rota_sim_chaos_start(&world->net_chaos, world->sim,
                         &(struct rota_sim_chaos_options){
                             .quiet_at = shape->quiet_at,
                             .split_every = shape->split_every,
                             .split_for = ROTA_SEC,
                         });
    for (int fault = 0; fault < N_FAULTS; fault++)
        plan(world, (enum fault)fault);
    if (shape->operate_every)
        rota_sim_call(world->sim, ROTA_SEC, operate, world, 0);
    rota_sim_call(world->sim, LOOK_EVERY, look, world, 0);
    rota_sim_call(world->sim, shape->quiet_at, calm_call, world, 0);
    rota_sim_call(world->sim, shape->quiet_at, resume, world, 0);
}

/* --- what the world calls --- */

static void on_start(void *data, uint32_t node)
{
    struct world *world = data;
    if (is_broker(world, node)) {
        broker_on_start(world, node);
        if (broker_at(world, node)->machine)
            set_timer(world, node, TIMER_HAND, 100 * ROTA_MSEC);
    } else if (is_worker(node)) {
        worker_on_start(world, node);
    } else if (node == SUBMITTER) {
        submit_on_timer(world);
    }
}

static void on_crash(void *data, uint32_t node)
{
    struct world *world = data;
    if (is_broker(world, node))
        broker_on_crash(world, node);
    else if (is_worker(node))
        worker_on_crash(world, node);
}

static void broker_on_message(struct world *world, uint32_t node, uint32_t from,
                              const struct frame *frame)
{
    if (!broker_at(world, node)->machine)
        return; /* it does not begin with a damaged journal */
    if (frame->type == TELL_ROWS)
        hear_rows(world, node, frame);
    else if (frame->type == HAND || frame->type == HAND_LAST)
        hear_hand(world, node, from, frame);
    else if (frame->type == HAND_TAKEN)
        hear_taken(world, node, frame);
    else if (frame->type == ADD)
        hear_add(world, node, frame);
    else if (frame->type == CANCEL_JOB)
        hear_cancel(world, node, frame);
    else if (frame->type == HELLO)
        hear_hello(world, node, from, frame);
    else if (frame->type == BEAT)
        hear_beat(world, node, from, frame);
    else if (frame->type == HOLDS)
        hear_holds(world, node, frame);
    else if (frame->type == EXTEND)
        hear_extend(world, node, from, frame);
    else if (frame->type == END)
        hear_end(world, node, from, frame);
}

static void on_message(void *data, uint32_t node, uint32_t from, struct rota_str message)
{
    struct world *world = data;
    struct frame frame;
    memcpy(&frame, message.data, sizeof frame);
    if (node == TABLE)
        table_on_message(world, from, &frame);
    else if (node == SUBMITTER)
        submit_on_message(world, &frame);
    else if (is_worker(node))
        worker_on_message(world, node, from, &frame);
    else
        broker_on_message(world, node, from, &frame);
}

static void tick_each(struct world *world, uint32_t node)
{
    struct rota_broker *machine = broker_at(world, node)->machine;
    struct rota_work_now now = now_of(world, node), then = now;
    while ((then.boot = rota_broker_deadline(machine)) < now.boot) {
        rota_broker_tick(machine, then);
        drive(world, node);
    }
}

static void broker_on_timer(struct world *world, uint32_t node, uint32_t timer)
{
    struct broker *broker = broker_at(world, node);
    if (!broker->machine)
        return;
    if (timer == TIMER_DISK) {
        disk_on_timer(world, node);
    } else if (timer == TIMER_COMPACT) {
        compact_on_timer(world, node);
    } else if (timer == TIMER_ROWS) {
        ask_rows(world, node);
    } else if (timer == TIMER_HAND) {
        hand_on_timer(world, node);
    } else {
        for (size_t i = 0; i < broker->sessions.size && world->plant == PLANT_IMMORTAL; i++)
            rota_broker_worker_heard(broker->machine, now_of(world, node),
                                     broker->sessions.items[i].session);
        if (world->plant == PLANT_NO_STALL) /* as if all had come in time */
            tick_each(world, node);
        rota_broker_tick(broker->machine, now_of(world, node));
        drive(world, node);
    }
}

static void on_timer(void *data, uint32_t node, uint32_t timer)
{
    struct world *world = data;
    if (node == SUBMITTER)
        submit_on_timer(world);
    else if (is_broker(world, node))
        broker_on_timer(world, node, timer);
    else if (timer == TIMER_BEAT)
        beat_on_timer(world, node);
    else
        work_on_timer(world, node);
}

/* --- shapes --- */

static rota_time some(struct rota_random *random, double probability, rota_time mean)
{
    return rota_random_chance(random, probability) ? rota_random_range(random, mean / 2, 2 * mean)
                                                   : 0;
}

static struct shape random_shape(struct rota_random *random)
{
    bool is_lossy = rota_random_chance(random, 0.5);
    return (struct shape){
        .n_brokers = (uint32_t)rota_random_range(random, 1, BROKERS_MAX),
        .n_workers = (uint32_t)rota_random_range(random, 1, WORKERS_MAX),
        .n_jobs = (uint32_t)rota_random_range(random, 10, 50),
        .n_caps = (uint32_t)rota_random_below(random, CAPS),
        .are_keyed = rota_random_chance(random, 0.4),
        .are_unique = rota_random_chance(random, 0.3),
        .have_deadlines = rota_random_chance(random, 0.3),
        .have_delays = rota_random_chance(random, 0.4),
        .have_priorities = rota_random_chance(random, 0.5),
        .quiet_at = 8 * ROTA_SEC,
        .end_at = 60 * ROTA_SEC,
        .add_every = rota_random_range(random, 5, 150) * ROTA_MSEC,
        .work_for = rota_random_range(random, 10, 500) * ROTA_MSEC,
        .broker_crash_every = some(random, 0.6, 2 * ROTA_SEC),
        .worker_crash_every = some(random, 0.5, 2 * ROTA_SEC),
        .pause_every = some(random, 0.4, 2 * ROTA_SEC),
        .split_every = some(random, 0.4, 2 * ROTA_SEC),
        .jump_every = some(random, 0.4, ROTA_SEC),
        .restart_every = some(random, 0.4, ROTA_SEC),
        .move_every = some(random, 0.6, 500 * ROTA_MSEC),
        .operate_every = some(random, 0.5, 300 * ROTA_MSEC),
        .cancel_every = some(random, 0.4, ROTA_SEC),
        .eio_every = some(random, 0.2, 2 * ROTA_SEC),
        .full_every = some(random, 0.2, 2 * ROTA_SEC),
        .flip_every = some(random, 0.2, 2 * ROTA_SEC),
        .slow_every = some(random, 0.4, 200 * ROTA_MSEC),
        .compact_every = some(random, 0.5, 300 * ROTA_MSEC),
        .loss = is_lossy ? 0.05 : 0,
        .duplication = is_lossy ? 0.1 : 0,
        .fails = 0.08,
        .gives_back = 0.04,
        .refuses = 0.01,
        .hangs = 0.05,
        .repeats = 0.2,
        .jobs_max = rota_random_chance(random, 0.1) ? 12 : 0,
    };
}

/* Keys of different weight with all their jobs at once, and a restart in the middle. */
static void make_fair(struct shape *shape, struct rota_random *random)
{
    *shape = (struct shape){.n_brokers = 1,
                            .n_workers = 4,
                            .n_jobs = 240,
                            .is_fair = true,
                            .add_every = 8 * ROTA_MSEC,
                            .work_for = 60 * ROTA_MSEC,
                            .compact_every = some(random, 0.5, 300 * ROTA_MSEC),
                            .quiet_at = 4 * ROTA_SEC,
                            .end_at = 40 * ROTA_SEC};
}

/* More jobs than the disk has room for: it is full, and stays so until they are worked off. */
static void make_full(struct shape *shape, struct rota_random *random)
{
    *shape = (struct shape){.n_brokers = 1,
                            .n_workers = 4,
                            .n_jobs = 300,
                            .add_every = 3 * ROTA_MSEC,
                            .work_for = 40 * ROTA_MSEC,
                            .broker_crash_every = some(random, 0.5, 2 * ROTA_SEC),
                            .worker_crash_every = some(random, 0.3, 2 * ROTA_SEC),
                            .compact_every = 5 * ROTA_MSEC,
                            .disk_size = 120000,
                            .payload_size = (size_t)rota_random_range(random, 300, 500),
                            .quiet_at = 6 * ROTA_SEC,
                            .end_at = 60 * ROTA_SEC};
}

static void weigh_call(void *data, uint64_t number)
{
    struct world *world = data;
    if (is_serving(world, FIRST_BROKER)) {
        set_weights(world, FIRST_BROKER);
        set_pause(world, FIRST_BROKER, 0, true);
    }
    (void)number;
}

static void go_call(void *data, uint64_t number)
{
    struct world *world = data;
    (void)number;
    if (is_serving(world, FIRST_BROKER))
        set_pause(world, FIRST_BROKER, 0, false);
}

static void script_fair(struct world *world)
{
    rota_sim_call(world->sim, 350 * ROTA_MSEC, weigh_call, world, 0);
    rota_sim_call(world->sim, ROTA_SEC, go_call, world, 0);
    rota_time at = rota_random_range(world->random, 1100, 1800) * ROTA_MSEC;
    rota_sim_call(world->sim, at, crash_call, world, FIRST_BROKER);
    rota_sim_call(world->sim, at + 50 * ROTA_MSEC, start_call, world, FIRST_BROKER);
    plain_jobs(world);
}

/* --- a run --- */

static void make_workers(struct world *world)
{
    struct rota_random *random = world->random;
    for (uint32_t i = 0; i < world->shape.n_workers; i++) {
        struct worker *worker = &world->workers[i];
        snprintf(worker->name, sizeof worker->name, "worker-%u", i);
        worker->caps = (uint32_t)rota_random_below(random, 1U << CAPS);
        worker->queues = (uint32_t)rota_random_range(random, 1, (1 << QUEUES) - 1);
        worker->slots = (uint32_t)rota_random_range(random, 1, SLOTS_MAX);
        worker->polls = rota_random_chance(random, 0.2);
        worker->has_leases = worker->polls || rota_random_chance(random, 0.3);
        worker->is_checked = !worker->polls && rota_random_chance(random, 0.5);
    }
    world->workers[0].caps = (1U << CAPS) - 1; /* somebody can do it */
    world->workers[0].queues = (1U << QUEUES) - 1;
}

static void world_init(struct world *world, struct sim_case *run)
{
    struct rota_random random;
    const struct scenario *scenario = scenario_of(run);
    rota_random_init(&random, run->seed);
    world->plant = (enum plant)run->plant;
    world->shape = scenario ? calm_shape() : random_shape(&random);
    if (!scenario)
        world->shape.kills_max = run->seed % 4 == 1 ? ROTA_JOB_KILLS_DEFAULT : KILLS_MANY;
    if (!scenario && run->seed % 10 == 0)
        make_fair(&world->shape, &random);
    if (!scenario && run->seed % 10 == 5)
        make_full(&world->shape, &random);
    if (scenario && scenario->shape)
        scenario->shape(&world->shape);
    world->sim = sim_case_new(run, (struct rota_sim_options){
                                       .n_nodes = FIRST_WORKER + world->shape.n_workers,
                                       .link = {.delay_min = ROTA_MSEC / 2,
                                                .delay_mean = 5 * ROTA_MSEC,
                                                .delay_max = DELAY_MAX,
                                                .loss = world->shape.loss,
                                                .duplication = world->shape.duplication},
                                       .skew_max = ROTA_SEC,
                                       .drift_max_ppm = 200,
                                       .on_start = on_start,
                                       .on_crash = on_crash,
                                       .on_message = on_message,
                                       .on_timer = on_timer,
                                       .data = world,
                                   });
    world->random = rota_sim_random(world->sim);
    for (uint32_t i = 0; i < BROKERS_MAX; i++)
        empty_call(world, i);
    for (uint32_t i = 0; i < PARTS; i++)
        world->rows[i] = (struct row){
            .epoch = 1,
            .owner = FIRST_BROKER + (uint32_t)rota_random_below(&random, world->shape.n_brokers)};
    make_workers(world);
    make_jobs(world);
    if (world->shape.is_fair)
        script_fair(world);
    if (world->shape.disk_size)
        plain_jobs(world);
    if (scenario)
        scenario->script(world);
}

static void world_free(struct world *world, struct sim_case *run)
{
    for (uint32_t i = 0; i < BROKERS_MAX; i++)
        broker_deinit(world, FIRST_BROKER + i);
    for (size_t i = 0; i < world->sent.size; i++)
        free(world->sent.items[i]);
    rota_vector_deinit(&world->sent);
    rota_vector_deinit(&world->runs);
    sim_case_end(run, world->sim);
    free(world);
}

static void run(struct sim_case *run)
{
    struct world *world = calloc(1, sizeof *world);
    uint32_t which;
    if (!world)
        die("no memory");
    world_init(world, run);
    start_chaos(world);
    const struct scenario *scenario = scenario_of(run);
    bool is_fine = rota_sim_run(world->sim, world->shape.quiet_at + 4 * ROTA_SEC);
    while (is_fine && !(is_all_well(world, &which) && are_all_let_in(world)) &&
           rota_sim_now(world->sim) < world->shape.end_at)
        is_fine = rota_sim_run(world->sim, rota_sim_now(world->sim) + ROTA_SEC);
    if (is_fine)
        check_end(world);
    const char *wrong = scenario && !rota_sim_violation(world->sim) ? scenario->check(world) : NULL;
    if (wrong)
        rota_sim_fail(world->sim, "%s", wrong);
    world_free(world, run);
}

int main(int argc, char **argv)
{
    struct sim_scenario names[N_SCENARIOS];
    for (int i = 0; i < N_SCENARIOS; i++)
        names[i] = scenarios[i].name;
    return sim_main(
        argc, argv,
        &(struct sim_suite){
            .name = "sim_work",
            .n_seeds = 1000,
            .n_plant_seeds = 1000,
            .kept = {101604, 205587, 723744979, 772016731881, 749458074657, 906665973855},
            .plants = plants,
            .n_plants = N_PLANTS - 1,
            .scenarios = names,
            .n_scenarios = N_SCENARIOS,
            .n_scenario_seeds = 20,
            .run = run,
        });
}
