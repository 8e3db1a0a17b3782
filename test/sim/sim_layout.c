/* Nodes that change the spread of a queue gradually: the real machines of
 * core/work/cluster/layouts.h, each with a clock and a disk of its own.
 *
 * An operator asks any node for another batch and mode, at once or over some seconds. The node
 * writes the layout to its disk; nodes pass layouts on by chance. Messages are lost, late and come
 * twice; nodes crash, pause, and have their wall clocks set.
 *
 * At every moment a node routes each partition as the layout that it knows says, by the latest
 * time that it has seen: none changes early, late, twice or back. Once faults stop, all nodes end
 * up with what was wished last, whoever was asked for it. */
#include "core/work/cluster/layouts.h"
#include "sim/sim_chaos.h"
#include "sim_main.h"

#include <string.h>

enum { NODES = 4, PARTS_MAX = 48 };
enum { TIMER_FLIP, TIMER_TELL };

#define QUIET_AT   (60 * ROTA_SEC)
#define END_AT     (100 * ROTA_SEC)
#define WISH_EVERY (6 * ROTA_SEC)
#define TELL_EVERY (300 * ROTA_MSEC)

enum plant {
    PLANT_NONE,
    PLANT_FROM_ARRIVAL,
    PLANT_NOT_ON_DISK,
    PLANT_ONE_NODE,
    PLANT_AT_ONCE,
    PLANT_NO_TIMER,
    PLANT_CLOCK_BACK,
    PLANT_JUMPS,
    N_PLANTS,
};

static const struct sim_plant plants[N_PLANTS - 1] = {
    {"from-arrival", "a change counts from when a node learns of it"},
    {"not-on-disk", "a node that restarts has forgotten when a change began"},
    {"one-node", "only the node that was asked knows of a change until it ends"},
    {"at-once", "all partitions change at the start"},
    {"no-timer", "a partition changes only when something else happens"},
    {"clock-back", "a clock that is set back undoes what has changed"},
    {"jumps", "a second gradual change starts in the middle of the first"},
};

struct setting {
    struct rota_work_layout layout;
    rota_time at;
};

struct node {
    struct rota_layouts layouts;
    struct setting disk;
    rota_time seen_at; /* the latest look at the wall clock since the change was set */
    /* The same of each partition. One that comes while a change continues and the clock is behind
     * may be looked at by either. */
    rota_time looked_at[PARTS_MAX];
    rota_time overdue_since; /* true time; ROTA_TIME_NEVER: nothing is */
    bool is_up;
};

struct world {
    struct rota_sim *sim;
    struct rota_random *random;
    enum plant plant;
    struct rota_sim_chaos chaos;
    struct node nodes[NODES];
    struct setting latest; /* that a node has on disk */
    uint32_t n_gradual;    /* changes that were begun */
};

static const struct rota_work_layout USUAL = {
    .wanted = 16, .write = 16, .read = 16, .spread = {ROTA_SPREAD_SLOTS, 16}};

static struct rota_str queue(void)
{
    return rota_str("q");
}

/* The order in which the store of this world has them. */
static bool is_later(const struct setting *a, const struct setting *b)
{
    const int64_t own[] = {a->at,
                           a->layout.wanted,
                           a->layout.read,
                           a->layout.write,
                           a->layout.spread.batch,
                           a->layout.spread.mode,
                           a->layout.change.from.batch,
                           a->layout.change.from.mode,
                           a->layout.change.start,
                           a->layout.change.end};
    const int64_t other[] = {b->at,
                             b->layout.wanted,
                             b->layout.read,
                             b->layout.write,
                             b->layout.spread.batch,
                             b->layout.spread.mode,
                             b->layout.change.from.batch,
                             b->layout.change.from.mode,
                             b->layout.change.start,
                             b->layout.change.end};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i] != other[i])
            return own[i] > other[i];
    return false;
}

/* --- a node --- */

static void step(struct world *world, uint32_t number)
{
    struct node *node = &world->nodes[number];
    struct rota_layouts_flip flip;
    rota_time now = rota_sim_wall(world->sim, number);
    if (world->plant == PLANT_CLOCK_BACK && now < node->seen_at) {
        rota_layouts_deinit(&node->layouts);
        rota_layouts_init(&node->layouts, &USUAL, 1);
        rota_layouts_set(&node->layouts, now, queue(), &node->disk.layout);
    }
    while (rota_layouts_step(&node->layouts, now, &flip))
        rota_sim_note(world->sim, number, "partition %u changes", flip.partition);
    if (now > node->seen_at)
        node->seen_at = now;
    for (uint32_t p = 0; p < PARTS_MAX; p++)
        if (now > node->looked_at[p])
            node->looked_at[p] = now;
    rota_time deadline = rota_layouts_deadline(&node->layouts);
    rota_sim_set_timer(world->sim, number, TIMER_FLIP, ROTA_SIM_WALL,
                       world->plant == PLANT_NO_TIMER ? ROTA_TIME_NEVER : deadline);
}

static void put_in_force(struct world *world, uint32_t number, bool is_restart)
{
    struct node *node = &world->nodes[number];
    struct rota_work_layout layout = node->disk.layout;
    rota_time now = rota_sim_wall(world->sim, number);
    if (world->plant == PLANT_AT_ONCE || (world->plant == PLANT_NOT_ON_DISK && is_restart))
        layout.change = (struct rota_layout_change){0};
    if (world->plant == PLANT_FROM_ARRIVAL && layout.change.end) {
        layout.change.end += now - layout.change.start;
        layout.change.start = now;
    }
    if (!rota_layouts_set(&node->layouts, now, queue(), &layout))
        rota_sim_fail(world->sim, "there is no memory");
    node->seen_at = now;
    for (uint32_t p = 0; p < PARTS_MAX; p++)
        node->looked_at[p] = now;
    step(world, number);
}

/* True when it is later than what the node has. */
static bool take(struct world *world, uint32_t number, const struct setting *setting)
{
    struct node *node = &world->nodes[number];
    if (!is_later(setting, &node->disk))
        return false;
    bool is_same = memcmp(&node->disk.layout.change, &setting->layout.change,
                          sizeof setting->layout.change) == 0;
    struct node before = *node;
    node->disk = *setting;
    put_in_force(world, number, false);
    if (is_same && before.seen_at > node->seen_at) { /* the change continues */
        node->seen_at = before.seen_at;
        for (uint32_t p = 0; p < before.disk.layout.read; p++)
            node->looked_at[p] = before.looked_at[p];
    }
    if (is_later(setting, &world->latest))
        world->latest = *setting;
    return true;
}

static void tell(struct world *world, uint32_t number)
{
    uint32_t to = (uint32_t)rota_random_range(world->random, 0, NODES - 1);
    struct setting setting;
    memset(&setting, 0, sizeof setting); /* the padding is sent, too */
    setting = world->nodes[number].disk;
    bool is_held_back = world->plant == PLANT_ONE_NODE && setting.layout.change.end &&
                        rota_sim_life(world->sim, number) &&
                        rota_layout_is_changing(&setting.layout, rota_sim_wall(world->sim, number));
    if (to != number && setting.at > 0 && !is_held_back)
        rota_sim_send(world->sim, number, to, rota_str_of(&setting, sizeof setting));
    rota_sim_set_timer(world->sim, number, TIMER_TELL, ROTA_SIM_MONO,
                       rota_sim_mono(world->sim, number) + TELL_EVERY);
}

static void on_start(void *data, uint32_t number)
{
    struct world *world = data;
    struct node *node = &world->nodes[number];
    rota_layouts_init(&node->layouts, &USUAL, 1);
    node->is_up = true;
    node->overdue_since = ROTA_TIME_NEVER;
    if (world->plant == PLANT_ONE_NODE && node->disk.layout.change.end) {
        /* What it was about to do is lost with it. */
        node->disk.layout.spread = node->disk.layout.change.from;
        node->disk.layout.change = (struct rota_layout_change){0};
    }
    put_in_force(world, number, true);
    tell(world, number);
}

static void on_crash(void *data, uint32_t number)
{
    struct world *world = data;
    rota_layouts_deinit(&world->nodes[number].layouts);
    world->nodes[number].is_up = false;
}

static void on_message(void *data, uint32_t number, uint32_t from, struct rota_str message)
{
    struct setting setting;
    (void)from;
    memcpy(&setting, message.data, sizeof setting);
    take(data, number, &setting);
}

static void on_timer(void *data, uint32_t number, uint32_t timer)
{
    if (timer == TIMER_TELL)
        tell(data, number);
    step(data, number);
}

/* --- the operator --- */

static void ask(struct world *world, uint32_t number)
{
    struct node *node = &world->nodes[number];
    rota_time now = rota_sim_wall(world->sim, number);
    struct rota_random *random = world->random;
    struct rota_layout_wish wish = {
        .wanted =
            rota_random_range(random, 0, 3) ? 0 : (uint32_t)rota_random_range(random, 1, PARTS_MAX),
        .has_spread = rota_random_range(random, 0, 4) > 0,
        .spread = {.mode = (enum rota_spread_mode)rota_random_range(random, 0, 1),
                   .batch = (uint32_t)rota_random_range(random, 1, 3) * 8},
        .gradual = rota_random_range(random, 0, 3)
                       ? rota_random_range(random, ROTA_MSEC, 12 * ROTA_SEC)
                       : 0};
    struct rota_work_layout layout = node->disk.layout;
    if (world->plant == PLANT_JUMPS)
        layout.change = (struct rota_layout_change){0};
    struct setting setting = {.at = now > node->disk.at ? now : node->disk.at + 1};
    bool is_changing = rota_layout_is_changing(&node->disk.layout, now);
    if (rota_layout_want(&layout, &wish, now, &setting.layout, NULL))
        return;
    const struct rota_layout_change *was = &node->disk.layout.change;
    if (is_changing && setting.layout.change.end && setting.layout.change.start != was->start)
        rota_sim_fail(world->sim, "a change began in the middle of another");
    world->n_gradual += setting.layout.change.end && setting.layout.change.start == now;
    take(world, number, &setting);
    step(world, number);
}

static void on_wish(void *data, uint64_t number)
{
    struct world *world = data;
    uint32_t node = (uint32_t)rota_random_range(world->random, 0, NODES - 1);
    if (rota_sim_is_up(world->sim, node) && !rota_sim_is_paused(world->sim, node))
        ask(world, node);
    rota_time next = rota_sim_now(world->sim) + rota_sim_exponential(world->random, WISH_EVERY);
    if (next < QUIET_AT)
        rota_sim_call(world->sim, next, on_wish, world, number + 1);
}

/* --- what must hold --- */

/* By the library's rule for gradual settings, one partition at a time. */
static bool is_right(const struct node *node, uint32_t partition)
{
    const struct rota_work_layout *layout = &node->disk.layout;
    const struct rota_gradual change = {0, 1, layout->change.start, layout->change.end};
    struct rota_spread is = rota_layouts_spread(&node->layouts, queue(), partition);
    struct rota_partition one = rota_layout_partition(queue(), partition);
    struct rota_route_key key;
    rota_partition_route_key(&one, 0, &key);
    rota_time when = rota_gradual_when(&change, rota_str_of(key.text, key.size));
    const struct rota_spread *to = &layout->spread, *from = &layout->change.from;
    bool may_be_new = when <= node->seen_at, may_be_old = when > node->looked_at[partition];
    return (may_be_new && is.mode == to->mode && is.batch == to->batch) ||
           (may_be_old && is.mode == from->mode && is.batch == from->batch);
}

static const char *every_partition_is_where_it_should_be(void *data)
{
    struct world *world = data;
    for (uint32_t i = 0; i < NODES; i++) {
        const struct node *node = &world->nodes[i];
        for (uint32_t p = 0; node->is_up && p < node->disk.layout.read; p++)
            if (!is_right(node, p))
                return "a partition is not routed as its layout says";
    }
    return NULL;
}

static const char *nothing_is_late(void *data)
{
    struct world *world = data;
    rota_time now = rota_sim_now(world->sim);
    for (uint32_t i = 0; i < NODES; i++) {
        struct node *node = &world->nodes[i];
        bool is_overdue = node->is_up && !rota_sim_is_paused(world->sim, i) &&
                          rota_layouts_deadline(&node->layouts) <= rota_sim_wall(world->sim, i);
        if (!is_overdue)
            node->overdue_since = ROTA_TIME_NEVER;
        else if (node->overdue_since == ROTA_TIME_NEVER)
            node->overdue_since = now;
        else if (now - node->overdue_since > ROTA_MSEC)
            return "a partition does not change in time";
    }
    return NULL;
}

static void check_end(struct world *world)
{
    for (uint32_t i = 0; i < NODES; i++) {
        const struct node *node = &world->nodes[i];
        if (!node->is_up || is_later(&world->latest, &node->disk) ||
            is_later(&node->disk, &world->latest))
            rota_sim_fail(world->sim, "node %u does not have the latest layout", i);
        for (uint32_t p = 0; node->is_up && p < world->latest.layout.read; p++) {
            struct rota_spread is = rota_layouts_spread(&node->layouts, queue(), p);
            if (is.mode != world->latest.layout.spread.mode ||
                is.batch != world->latest.layout.spread.batch)
                rota_sim_fail(world->sim, "partition %u never changed at node %u", p, i);
        }
        if (node->is_up && node->layouts.n_changing > 0)
            rota_sim_fail(world->sim, "node %u keeps instants of a change that is over", i);
    }
}

static void run(struct sim_case *run)
{
    struct world world = {.plant = (enum plant)run->plant, .latest = {.layout = USUAL}};
    for (uint32_t i = 0; i < NODES; i++)
        world.nodes[i].disk = world.latest;
    world.sim = sim_case_new(run, (struct rota_sim_options){
                                      .n_nodes = NODES,
                                      .link = {.delay_min = ROTA_MSEC,
                                               .delay_mean = 20 * ROTA_MSEC,
                                               .delay_max = 2 * ROTA_SEC,
                                               .loss = 0.1,
                                               .duplication = 0.05},
                                      .skew_max = 200 * ROTA_MSEC,
                                      .drift_max_ppm = 200,
                                      .on_start = on_start,
                                      .on_crash = on_crash,
                                      .on_message = on_message,
                                      .on_timer = on_timer,
                                      .data = &world,
                                  });
    world.random = rota_sim_random(world.sim);
    rota_sim_add_check(world.sim, every_partition_is_where_it_should_be, &world);
    rota_sim_add_check(world.sim, nothing_is_late, &world);
    const struct rota_sim_chaos_options faults = {
        .quiet_at = QUIET_AT,
        .crash_every = 4 * ROTA_SEC,
        .crash_for = 2 * ROTA_SEC,
        .pause_every = 8 * ROTA_SEC,
        .pause_for = ROTA_SEC,
        .split_every = 15 * ROTA_SEC,
        .split_for = 4 * ROTA_SEC,
        .jump_every = 5 * ROTA_SEC,
        .jump_max = 3 * ROTA_SEC,
    };
    rota_sim_chaos_start(&world.chaos, world.sim, &faults);
    rota_sim_call(world.sim, ROTA_SEC, on_wish, &world, 1);
    if (rota_sim_run(world.sim, END_AT))
        check_end(&world);
    for (uint32_t i = 0; i < NODES; i++)
        if (world.nodes[i].is_up)
            rota_layouts_deinit(&world.nodes[i].layouts);
    sim_case_end(run, world.sim);
}

int main(int argc, char **argv)
{
    const struct sim_suite suite = {
        .name = "sim_layout",
        .n_seeds = 150,
        .n_plant_seeds = 50,
        .kept = {716047254424, 716047254483},
        .plants = plants,
        .n_plants = N_PLANTS - 1,
        .run = run,
    };
    return sim_main(argc, argv, &suite);
}
