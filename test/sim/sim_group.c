/* Tasks share partitions through a log and a membership that do their worst.
 *
 * The tasks are the real machine of core/own/group_fsm.h; the rest, a world of log,
 * membership and application, is in group_world.h and its parts, which also
 * say what must hold (group_truth.h):
 *  - a partition runs at one task at a time, and is read only under the token that
 *    the log has in force; tokens grow;
 *  - a record counts exactly when it should; all tasks agree on the state;
 *  - what a task owns that lives and is listed does not move, but by its own word;
 *  - a child starts when its parents are finished, not before; positions never go
 *    back, nothing is skipped, a start begins at what was committed;
 *  - nothing is finished before it is read and its children are known, nothing
 *    removed before these are finished; no partition that was made is ever lost;
 *  - once all is well every partition is read again within a bound, and in the end
 *    all are read to their ends;
 *  - no record is above its bound. */
#include "group_scenarios.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct sim_plant plants[N_PLANTS - 1] = {
    {"by-timestamp", "records are taken in the order of their timestamps"},
    {"old-epoch", "a state counts though its epoch is over"},
    {"two-leaders", "an epoch counts though it does not follow the one in force"},
    {"reowned", "who offered a partition reads it when nobody took it yet"},
    {"unlisted-runs", "readers go on after they were told to stop"},
    {"fence-arrival", "the fence is counted from when an answer came"},
    {"missing-piece", "a snapshot is taken as whole though a part is missing"},
    {"child-first", "a child does not wait for its parents"},
    {"no-token", "readers do not ask whether they may"},
    {"joins-early", "a task joins before it has read the log to its end"},
    {"withdrawn-twice", "what was offered and taken is offered again"},
    {"position-lost", "positions do not come with a partition"},
    {"dead-come-back", "on replay an epoch adds members instead of replacing them"},
    {"future-read", "a record of a later version is read as one of today"},
    {"child-lost", "a partition is finished without one of its children"},
    {"from-scratch", "a log that was cut off is taken as whole"},
    {"generations", "a round with a lower generation is taken for an old one"},
    {"forgetful", "a membership that forgot its members makes a round at once"},
    {"stale-members", "a leader writes the members of the round before"},
    {"repeated", "a record counts as often as it is in the log"},
    {"stranger", "a record counts though its author is no member"},
    {"deaf-group", "a task does not hear that it is out of the group"},
    {"trims-early", "a leader trims what a snapshot stands for before it is whole"},
    {"old-round", "a leader takes every round that it hears of for the latest one"},
};

/* --- faults of the world itself --- */

enum fault { FORGET, CUT, RUBBISH, LAG, LATE, LEAVE, SLOW };
enum { N_FAULTS = SLOW + 1 };

static rota_time gap_of(const struct shape *shape, enum fault fault)
{
    const rota_time gaps[N_FAULTS] = {shape->forget_every, shape->cut_every,  shape->rubbish_every,
                                      shape->lag_every,    shape->late_every, shape->leave_every,
                                      shape->slow_every};
    return gaps[fault];
}

static void set_links(struct world *world, uint32_t node, const struct rota_sim_link *link)
{
    for (uint32_t whom = LOG; whom <= GROUP; whom++) {
        rota_sim_set_link(world->sim, node, whom, link);
        rota_sim_set_link(world->sim, whom, node, link);
    }
}

static void unlag_call(void *data, uint64_t number)
{
    set_links(data, (uint32_t)number, NULL);
}

static void lag(struct world *world, uint32_t node)
{
    struct rota_sim_link link = {.delay_min = ROTA_MSEC,
                                 .delay_mean = 100 * ROTA_MSEC + span_upto(world, ROTA_SEC),
                                 .delay_max = 4 * ROTA_SEC,
                                 .loss = world->shape.loss};
    set_links(world, node, &link);
    rota_sim_call(world->sim, rota_sim_now(world->sim) + span_upto(world, 4 * ROTA_SEC), unlag_call,
                  world, node);
}

/* Answers take long, then the group hears nothing to answer. */
static void deafen_call(void *data, uint64_t number)
{
    struct world *world = data;
    rota_sim_block(world->sim, (uint32_t)number, GROUP, true);
}

static void late(struct world *world, uint32_t node)
{
    static const rota_time delays[] = {[LOG] = 900 * ROTA_MSEC, [GROUP] = 1200 * ROTA_MSEC};
    rota_time at = rota_sim_now(world->sim) + 2 * ROTA_SEC + span_upto(world, ROTA_SEC);
    for (uint32_t whom = LOG; whom <= GROUP; whom++) {
        struct rota_sim_link link = {delays[whom], delays[whom], delays[whom], 0, 0};
        rota_sim_set_link(world->sim, whom, node, &link);
    }
    rota_sim_call(world->sim, at, deafen_call, world, node);
    rota_sim_call(world->sim, at + 5 * ROTA_SEC, unlag_call, world, node);
    rota_sim_call(world->sim, at + 5 * ROTA_SEC, heal_call, world, node);
}

/* The log's answers come in time, the group's do not: an epoch may be read before the round
 * that it answers is heard of. */
static void slow(struct world *world, uint32_t node)
{
    struct rota_sim_link link = {.delay_min = 300 * ROTA_MSEC,
                                 .delay_mean = 700 * ROTA_MSEC,
                                 .delay_max = 1300 * ROTA_MSEC,
                                 .loss = world->shape.loss};
    rota_sim_set_link(world->sim, GROUP, node, &link);
    rota_sim_call(world->sim, rota_sim_now(world->sim) + span_upto(world, 4 * ROTA_SEC), unlag_call,
                  world, node);
}

static void plan(struct world *world, enum fault fault);

static void strike(void *data, uint64_t number)
{
    struct world *world = data;
    uint32_t node = FIRST_TASK + (uint32_t)rota_random_below(world->random, world->shape.n_tasks);
    switch ((enum fault)number) {
    case FORGET:
        rounds_forget(world);
        break;
    case CUT:
        log_cut(world, false);
        break;
    case RUBBISH:
        log_disturb(world);
        break;
    case LAG:
        lag(world, node);
        break;
    case LATE:
        late(world, node);
        break;
    case SLOW:
        slow(world, node);
        break;
    case LEAVE:
        if (rota_sim_is_up(world->sim, node) && !rota_sim_is_paused(world->sim, node))
            drive(world, node, (struct rota_group_event){.type = ROTA_GROUP_LEAVE});
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
    if (at + 8 * ROTA_SEC < world->shape.quiet_at)
        rota_sim_call(world->sim, at, strike, world, fault);
}

static void look(void *data, uint64_t number)
{
    struct world *world = data;
    check_whole(world);
    rota_sim_call(world->sim, rota_sim_now(world->sim) + ROTA_SEC, look, world, number);
}

static void start_chaos(struct world *world)
{
    const struct shape *shape = &world->shape;
    rota_sim_chaos_start(&world->chaos, world->sim,
                         &(struct rota_sim_chaos_options){
                             .first_node = FIRST_TASK,
                             .quiet_at = shape->quiet_at,
                             .crash_every = shape->crash_every,
                             .crash_for = 1500 * ROTA_MSEC,
                             .pause_every = shape->pause_every,
                             .pause_for = shape->pause_for,
                             .jump_every = shape->jump_every,
                             .jump_max = 10 * ROTA_SEC,
                         });
    rota_sim_chaos_start(&world->splits, world->sim,
                         &(struct rota_sim_chaos_options){
                             .quiet_at = shape->quiet_at,
                             .split_every = shape->split_every,
                             .split_for = 2 * ROTA_SEC,
                         });
    rota_sim_chaos_start(&world->log_pauses, world->sim,
                         &(struct rota_sim_chaos_options){
                             .first_node = LOG,
                             .n_nodes = 1,
                             .quiet_at = shape->quiet_at,
                             .pause_every = shape->log_pause_every,
                             .pause_for = 1500 * ROTA_MSEC,
                         });
    rota_sim_chaos_start(&world->group_pauses, world->sim,
                         &(struct rota_sim_chaos_options){
                             .first_node = GROUP,
                             .n_nodes = 1,
                             .quiet_at = shape->quiet_at,
                             .pause_every = shape->group_pause_every,
                             .pause_for = 1500 * ROTA_MSEC,
                         });
    for (int fault = 0; fault < N_FAULTS; fault++)
        plan(world, (enum fault)fault);
    rota_sim_call(world->sim, ROTA_SEC, look, world, 0);
}

/* --- what the world calls --- */

static void on_start(void *data, uint32_t node)
{
    struct world *world = data;
    if (node == LOG)
        log_on_timer(world, TIMER_HOLD);
    else if (node == GROUP)
        rounds_on_timer(world, TIMER_EXPIRE);
    else
        task_on_start(world, node);
}

static void on_crash(void *data, uint32_t node)
{
    task_on_crash(data, node);
}

static void on_message(void *data, uint32_t node, uint32_t from, struct rota_str message)
{
    struct note note;
    memcpy(&note, message.data, sizeof note);
    if (node == LOG)
        log_on_message(data, from, &note);
    else if (node == GROUP)
        rounds_on_message(data, from, &note);
    else
        task_on_message(data, node, &note);
}

static void on_timer(void *data, uint32_t node, uint32_t timer)
{
    if (node == LOG)
        log_on_timer(data, timer);
    else if (node == GROUP)
        rounds_on_timer(data, timer);
    else
        task_on_timer(data, node, timer);
}

/* --- shapes --- */

static rota_time some(struct rota_random *random, double probability, rota_time mean)
{
    return rota_random_chance(random, probability) ? rota_random_range(random, mean / 2, 2 * mean)
                                                   : 0;
}

static struct shape shape_small(struct rota_random *random)
{
    struct shape shape = {
        .n_tasks = (uint32_t)rota_random_range(random, 1, rota_random_chance(random, 0.2) ? 12 : 5),
        .n_seeds = (uint32_t)rota_random_range(random, 1, 6),
        .length_max = (uint32_t)rota_random_range(random, 2, 8),
        .digest_every = 4,
        .open_goal = (uint32_t)rota_random_range(random, 4, 20),
        .partitions_max = 600,
        .merges = 0.4,
        .step_every = rota_random_range(random, 150, 500) * ROTA_MSEC,
        .stop_max = rota_random_range(random, 0, STOP_MAX),
        .quiet_at = 24 * ROTA_SEC,
        .end_at = 90 * ROTA_SEC,
        .crash_every = some(random, 0.7, 4 * ROTA_SEC),
        .pause_every = some(random, 0.5, 4 * ROTA_SEC),
        .pause_for = rota_random_range(random, 1, 6) * ROTA_SEC,
        .split_every = some(random, 0.4, 6 * ROTA_SEC),
        .jump_every = some(random, 0.3, 2 * ROTA_SEC),
        .log_pause_every = some(random, 0.3, 6 * ROTA_SEC),
        .group_pause_every = some(random, 0.3, 8 * ROTA_SEC),
        .forget_every = some(random, 0.2, 8 * ROTA_SEC),
        .cut_every = some(random, 0.5, 3 * ROTA_SEC),
        .rubbish_every = some(random, 0.3, ROTA_SEC),
        .leave_every = some(random, 0.3, 4 * ROTA_SEC),
        .lag_every = some(random, 0.3, 3 * ROTA_SEC),
        .late_every = some(random, 0.3, 3 * ROTA_SEC),
        .loss = rota_random_chance(random, 0.5) ? 0.02 : 0,
        .duplication = rota_random_chance(random, 0.5) ? 0.05 : 0,
        .snapshot_records = (uint64_t)rota_random_range(random, 20, 150),
        .withdraw_after = some(random, 0.3, ROTA_SEC),
        .move_every = some(random, 0.3, ROTA_SEC),
        .is_trimmed = rota_random_chance(random, 0.5),
        .is_named = rota_random_chance(random, 0.5),
        .has_twins = rota_random_chance(random, 0.1),
        .is_one_by_one = rota_random_chance(random, 0.2),
    };
    shape.leader_dies = rota_random_chance(random, 0.4) ? 0.15 : 0;
    shape.leader_wrong = rota_random_chance(random, 0.2) ? 0.2 : 0;
    shape.leader_double = rota_random_chance(random, 0.3) ? 0.4 : 0;
    return shape;
}

/* Up to 200 tasks, with a few partitions each. */
static void make_wide(struct shape *shape, struct rota_random *random)
{
    shape->n_tasks = (uint32_t)rota_random_range(random, 40, TASKS_MAX);
    shape->n_seeds = shape->open_goal = shape->n_tasks;
    shape->partitions_max = 3 * shape->n_tasks;
    shape->digest_every = 256;
    shape->length_max = 3;
    shape->step_every = 4 * ROTA_SEC;
    shape->snapshot_records = 500;
    shape->quiet_at = 10 * ROTA_SEC;
    shape->is_one_by_one = false;
    shape->crash_every = ROTA_SEC;
    shape->rubbish_every = shape->move_every = 0;
}

/* Up to 20,000 partitions, for a few tasks. */
static void make_many(struct shape *shape, struct rota_random *random)
{
    shape->n_tasks = (uint32_t)rota_random_range(random, 3, 10);
    shape->n_seeds = (uint32_t)rota_random_range(random, 1000, PARTITIONS_MAX - 4000);
    shape->open_goal = shape->partitions_max = shape->n_seeds + 4000;
    shape->digest_every = 128;
    shape->length_max = 2;
    shape->step_every = 100 * ROTA_MSEC;
    shape->snapshot_records = 500;
    shape->quiet_at = 8 * ROTA_SEC;
    shape->end_at = 300 * ROTA_SEC;
    shape->is_one_by_one = false;
}

/* Nothing but answers that come late, to tasks that are slow to stop. */
static void make_late(struct shape *shape)
{
    no_faults(shape);
    shape->n_tasks = 4;
    shape->open_goal = 24;
    shape->stop_max = STOP_MAX;
    shape->late_every = 2 * ROTA_SEC;
    shape->loss = 0;
}

static struct shape shape_of(const struct sim_case *run, struct rota_random *random)
{
    struct shape shape = shape_small(random);
    if (run->scenario)
        scenarios[run->scenario - 1].shape(&shape);
    else if (run->seed % 500 == 100)
        make_wide(&shape, random);
    else if (run->seed % 200 == 0)
        make_many(&shape, random);
    else if (run->seed % 50 == 25)
        shape_b11(&shape);
    else if (run->seed % 50 == 27)
        make_late(&shape);
    else if (run->seed % 50 == 28)
        shape_h10(&shape);
    else if (run->seed % 50 == 26 && run->plant == PLANT_FROM_SCRATCH)
        shape_h7(&shape);
    return shape;
}

/* --- a run --- */

static void world_init(struct world *world, struct sim_case *run)
{
    struct rota_random random;
    rota_random_init(&random, run->seed);
    world->plant = (enum plant)run->plant;
    world->shape = shape_of(run, &random);
    world->quiet_since = world->shape.quiet_at;
    world->sim = sim_case_new(run, (struct rota_sim_options){
                                       .n_nodes = FIRST_TASK + world->shape.n_tasks,
                                       .link = {.delay_min = ROTA_MSEC / 2,
                                                .delay_mean = 5 * ROTA_MSEC,
                                                .delay_max = ROTA_SEC,
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
    world->group.generation = rota_random_below(world->random, 1000);
    rota_group_fold_init(&world->fold);
    rota_map_init(&world->sequences, 1);
    data_init(world);
    for (uint32_t i = 0; i < world->shape.n_tasks; i++) {
        struct task *task = &world->tasks[FIRST_TASK + i];
        task->resumed_at = -ROTA_DAY;
        snprintf(task->name, sizeof task->name, "task-%u", world->shape.has_twins ? i / 2 : i);
    }
}

static void world_free(struct world *world, struct sim_case *run)
{
    for (uint32_t i = 0; i < world->shape.n_tasks; i++)
        task_on_crash(world, FIRST_TASK + i);
    data_deinit(world);
    log_deinit(world);
    rounds_deinit(world);
    truth_deinit(world);
    sim_case_end(run, world->sim);
    free(world);
}

/* A log that is cut off too far: whoever starts has to say so, and nobody runs. */
static void check_cut(struct world *world)
{
    for (uint32_t i = 0; i < world->shape.n_tasks; i++)
        if (!world->tasks[FIRST_TASK + i].is_failed)
            rota_sim_fail(world->sim, "node %u goes on without the log's beginning",
                          FIRST_TASK + i);
}

static void run(struct sim_case *run)
{
    struct world *world = calloc(1, sizeof *world);
    if (!world)
        die("no memory");
    world_init(world, run);
    const struct scenario *scenario = run->scenario ? &scenarios[run->scenario - 1] : NULL;
    if (world->shape.is_cut_blindly && !scenario)
        script_h7(world);
    start_chaos(world);
    if (scenario && scenario->script)
        scenario->script(world);
    bool is_fine = rota_sim_run(world->sim, world->shape.quiet_at);
    while (is_fine && world->n_open > 0 && !world->is_cut &&
           rota_sim_now(world->sim) < world->shape.end_at)
        is_fine = rota_sim_run(world->sim, rota_sim_now(world->sim) + ROTA_SEC);
    if (is_fine && world->is_cut)
        check_cut(world);
    else if (is_fine)
        check_end(world);
    world_free(world, run);
}

int main(int argc, char **argv)
{
    return sim_main(argc, argv,
                    &(struct sim_suite){
                        .name = "sim_group",
                        .n_seeds = 1000,
                        .n_plant_seeds = 1000,
                        /* Leaders that heard of their rounds late. */
                        .kept = {702839, 801449, 802359, 391761379800},
                        .plants = plants,
                        .n_plants = N_PLANTS - 1,
                        .scenarios = scenario_names,
                        .n_scenarios = N_SCENARIOS,
                        .n_scenario_seeds = 8,
                        .run = run,
                    });
}
