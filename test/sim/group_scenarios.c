#include "group_scenarios.h"

const struct sim_scenario scenario_names[N_SCENARIOS] = {
    {"B1", "a group of one task, which restarts and meets its own old records"},
    {"B2", "rounds overtake epochs that are slow to come"},
    {"B3", "who offers dies at once; the offers to the living stay"},
    {"B4", "the epoch of a round comes when the next round has begun"},
    {"B5", "partitions split between a round and its epoch"},
    {"B6", "two leaders in every round"},
    {"B7", "rounds without a leader, until somebody notices"},
    {"B8", "tasks that answer late, and are out just when they do"},
    {"B9", "all restart again and again, and replay who was there"},
    {"B10", "the log ends in rubbish and in records that are over"},
    {"B11", "names and positions as large as can be"},
    {"B13", "a partition comes back while its old reader still stops"},
    {"B14", "the log alone, or the group alone, is out of reach"},
    {"B15", "tasks die around the ends of partitions"},
    {"H1", "the group forgets everything and counts from 1 again"},
    {"H2", "tasks stand still for longer than their session and come back"},
    {"H3", "a live task misses an epoch by a moment"},
    {"H4", "wall clocks jump, and go back"},
    {"H5", "pairs merge, with parents that are gone long since"},
    {"H7", "the log is cut off beyond the snapshot: nobody starts"},
    {"H8", "an offer that is not taken goes to another"},
    {"H9", "many tasks split at once"},
    {"H10", "leaders hear of their rounds when the epoch of a later one is in force"},
};

void no_faults(struct shape *shape)
{
    shape->crash_every = shape->pause_every = shape->split_every = shape->jump_every = 0;
    shape->log_pause_every = shape->group_pause_every = shape->forget_every = 0;
    shape->rubbish_every = shape->lag_every = shape->late_every = shape->leave_every = 0;
    shape->slow_every = 0;
    shape->leader_dies = shape->leader_wrong = shape->leader_double = 0;
}

static void shape_b1(struct shape *shape)
{
    no_faults(shape);
    shape->n_tasks = 1;
    shape->crash_every = 4 * ROTA_SEC;
    shape->duplication = 0.2;
}

static void shape_b2(struct shape *shape)
{
    no_faults(shape);
    shape->n_tasks = 6;
    shape->leave_every = shape->crash_every = 2 * ROTA_SEC;
    shape->log_pause_every = 4 * ROTA_SEC;
}

static void shape_b3(struct shape *shape)
{
    no_faults(shape);
    shape->n_tasks = 5;
    shape->open_goal = 24;
    shape->crash_every = 1500 * ROTA_MSEC;
}

static void shape_b4(struct shape *shape)
{
    shape_b2(shape);
    shape->lag_every = 2 * ROTA_SEC;
    shape->open_goal = 24;
}

static void shape_b5(struct shape *shape)
{
    no_faults(shape);
    shape->n_tasks = 5;
    shape->open_goal = 40;
    shape->length_max = 3;
    shape->leave_every = 1500 * ROTA_MSEC;
    shape->lag_every = 2 * ROTA_SEC;
}

static void shape_b6(struct shape *shape)
{
    no_faults(shape);
    shape->n_tasks = 5;
    shape->leader_double = 1;
    shape->crash_every = 3 * ROTA_SEC;
    shape->leader_dies = 0.1;
}

static void shape_b7(struct shape *shape)
{
    no_faults(shape);
    shape->n_tasks = 4;
    shape->leader_wrong = 0.7;
    shape->crash_every = 4 * ROTA_SEC;
}

static void shape_b8(struct shape *shape)
{
    no_faults(shape);
    shape->n_tasks = 5;
    shape->lag_every = ROTA_SEC;
    shape->pause_every = 2 * ROTA_SEC;
    shape->pause_for = 2 * ROTA_SEC;
}

static void shape_b9(struct shape *shape)
{
    no_faults(shape);
    shape->crash_every = ROTA_SEC;
    shape->snapshot_records = 30;
    shape->cut_every = 3 * ROTA_SEC;
}

static void shape_b10(struct shape *shape)
{
    no_faults(shape);
    shape->rubbish_every = 50 * ROTA_MSEC;
    shape->crash_every = 3 * ROTA_SEC;
}

void shape_b11(struct shape *shape)
{
    no_faults(shape);
    shape->n_tasks = 3;
    shape->name_size = 500;
    shape->position_size = 4000;
    shape->n_seeds = shape->open_goal = 120;
    shape->length_max = 5;
    shape->crash_every = 4 * ROTA_SEC;
    shape->snapshot_records = 60;
    shape->cut_every = 2 * ROTA_SEC;
}

static void shape_b13(struct shape *shape)
{
    no_faults(shape);
    shape->n_tasks = 2;
    shape->stop_max = STOP_MAX;
    shape->forget_every = 6 * ROTA_SEC;
    shape->group_pause_every = 5 * ROTA_SEC;
    shape->pause_every = 5 * ROTA_SEC;
    shape->move_every = ROTA_SEC;
}

static void shape_b15(struct shape *shape)
{
    no_faults(shape);
    shape->length_max = 2;
    shape->crash_every = ROTA_SEC;
    shape->loss = 0.05;
}

static void shape_h1(struct shape *shape)
{
    no_faults(shape);
    shape->forget_every = 4 * ROTA_SEC;
    shape->crash_every = 5 * ROTA_SEC;
}

static void shape_h2(struct shape *shape)
{
    no_faults(shape);
    shape->n_tasks = 4;
    shape->pause_every = 2 * ROTA_SEC;
    shape->pause_for = 4 * ROTA_SEC;
}

static void shape_h3(struct shape *shape)
{
    no_faults(shape);
    shape->n_tasks = 4;
    shape->pause_every = 1500 * ROTA_MSEC;
    shape->pause_for = SESSION;
    shape->lag_every = 3 * ROTA_SEC;
}

static void shape_h4(struct shape *shape)
{
    no_faults(shape);
    shape->jump_every = 200 * ROTA_MSEC;
    shape->crash_every = 5 * ROTA_SEC;
}

static void shape_h5(struct shape *shape)
{
    no_faults(shape);
    shape->merges = 1;
    shape->open_goal = 16;
    shape->length_max = 4;
    shape->crash_every = 3 * ROTA_SEC;
}

void shape_h7(struct shape *shape)
{
    no_faults(shape);
    shape->snapshot_records = 1000000;
    shape->is_cut_blindly = true;
}

static void shape_h8(struct shape *shape)
{
    no_faults(shape);
    shape->n_tasks = 4;
    shape->withdraw_after = ROTA_SEC;
    shape->pause_every = ROTA_SEC;
    shape->pause_for = 1500 * ROTA_MSEC; /* mostly within the session: alive, but silent */
}

static void shape_h9(struct shape *shape)
{
    no_faults(shape);
    shape->n_tasks = 10;
    shape->n_seeds = 10;
    shape->open_goal = 120;
    shape->length_max = 3;
}

void shape_h10(struct shape *shape)
{
    no_faults(shape);
    shape->n_tasks = 8;
    shape->open_goal = 40;
    shape->leader_double = 1;
    shape->leave_every = shape->slow_every = 400 * ROTA_MSEC;
    shape->crash_every = ROTA_SEC;
}

void heal_call(void *data, uint64_t number)
{
    struct world *world = data;
    (void)number;
    rota_sim_heal(world->sim);
}

static void isolate_call(void *data, uint64_t number)
{
    struct world *world = data;
    rota_time now = rota_sim_now(world->sim);
    uint32_t node = FIRST_TASK + (uint32_t)rota_random_below(world->random, world->shape.n_tasks);
    uint32_t whom = chance(world, 0.5) ? LOG : GROUP;
    if (now + 8 * ROTA_SEC > world->shape.quiet_at)
        return;
    rota_sim_block(world->sim, node, whom, true);
    rota_sim_block(world->sim, whom, node, true);
    rota_sim_call(world->sim, now + span_upto(world, 6 * ROTA_SEC), heal_call, world, number);
    rota_sim_call(world->sim, now + 7 * ROTA_SEC, isolate_call, world, number);
}

static void script_b14(struct world *world)
{
    rota_sim_call(world->sim, 3 * ROTA_SEC, isolate_call, world, 0);
}

/* All die, the log is cut off, all come back: they must say so. */
static void cut_call(void *data, uint64_t number)
{
    struct world *world = data;
    (void)number;
    for (uint32_t i = 0; i < world->shape.n_tasks; i++)
        rota_sim_crash(world->sim, FIRST_TASK + i);
    log_cut(world, true);
    if (chance(world, 0.5)) /* there is something, but no beginning */
        log_disturb(world);
    for (uint32_t i = 0; i < world->shape.n_tasks; i++)
        rota_sim_start(world->sim, FIRST_TASK + i);
}

void script_h7(struct world *world)
{
    rota_sim_call(world->sim, 8 * ROTA_SEC, cut_call, world, 0);
}

const struct scenario scenarios[N_SCENARIOS] = {
    {shape_b1, NULL},        {shape_b2, NULL},  {shape_b3, NULL},  {shape_b4, NULL},
    {shape_b5, NULL},        {shape_b6, NULL},  {shape_b7, NULL},  {shape_b8, NULL},
    {shape_b9, NULL},        {shape_b10, NULL}, {shape_b11, NULL}, {shape_b13, NULL},
    {no_faults, script_b14}, {shape_b15, NULL}, {shape_h1, NULL},  {shape_h2, NULL},
    {shape_h3, NULL},        {shape_h4, NULL},  {shape_h5, NULL},  {shape_h7, script_h7},
    {shape_h8, NULL},        {shape_h9, NULL},  {shape_h10, NULL},
};
