/* A space goes from one engine to another and back, again and again, while everything
 * fails that fails in sim_view.c: ring, static, and an engine of its own in the
 * database (view_world.h). Operators begin, commit and take back at any time, also while
 * nodes crash, pause, or have missed the phase before.
 *
 * Checked after every event: O1 to O4 and O7 as in sim_view.c, over all engines; so epochs
 * of an engine are above those of the one before. Besides:
 *  - the phases of the space follow each other as core/own/migrate_fsm.h has it;
 *  - nobody serves anything at the moment at which the new engine may begin;
 *  - some time after the last fault no move is in flight, every shard is served, and what
 *    operators wanted is done or refused, also by a node that only observes. */
#include "view_node.h"

#include <string.h>

enum plant {
    PLANT_NONE,
    PLANT_NO_STOPPING,
    PLANT_ACK_FIRST,
    PLANT_LOW_NUMBER,
    PLANT_NO_FLOOR,
    PLANT_EARLY_RUN,
    PLANT_TIMERS,
    PLANT_BLIND_ACK,
    PLANT_BACK,
    PLANT_OBSERVER,
    N_PLANTS,
};

static const struct sim_plant plants[N_PLANTS - 1] = {
    {"no-stopping", "the new engine follows without a phase in which nobody owns"},
    {"ack-first", "a phase is acked before the old engine has stopped"},
    {"low-number", "the new engine begins at the next number, not above the old one's epochs"},
    {"no-floor", "an engine of its own goes on with the epochs that it had"},
    {"early-run", "a phase is left before all have acked it"},
    {"timers", "an engine runs until a timer says otherwise"},
    {"blind-ack", "a node acks a phase that it has not heard of"},
    {"back", "a move is taken back when it is stopping"},
    {"observer", "what an observer proposes never follows on the view that there is"},
};

/* --- what must hold of each view --- */

static bool is_after(const struct rota_view *before, const struct rota_view *after)
{
    if (before->number == 0)
        return after->phase == ROTA_VIEW_STABLE || after->phase == ROTA_VIEW_SHADOW;
    bool is_same = before->engine == after->engine;
    bool is_by_view =
        rota_migrate_is_by_view(before->engine) && rota_migrate_is_by_view(before->to);
    switch (before->phase) {
    case ROTA_VIEW_STABLE:
        return is_same && (after->phase == ROTA_VIEW_STABLE || after->phase == ROTA_VIEW_SHADOW);
    case ROTA_VIEW_SHADOW:
        if (after->phase == ROTA_VIEW_STABLE)
            return is_same || (after->engine == before->to && is_by_view);
        return is_same && (after->phase == ROTA_VIEW_SHADOW || after->phase == ROTA_VIEW_STOPPING);
    case ROTA_VIEW_STOPPING:
        if (after->phase == ROTA_VIEW_STARTING)
            return after->engine == before->to;
        return is_same && after->phase == ROTA_VIEW_STOPPING;
    case ROTA_VIEW_STARTING:
        return is_same && (after->phase == ROTA_VIEW_STARTING || after->phase == ROTA_VIEW_STABLE ||
                           after->phase == ROTA_VIEW_SHADOW);
    }
    return false;
}

static void read_view(struct world *world, const struct view_table *table, struct rota_view *view)
{
    struct rota_error error;
    *view = (struct rota_view){0};
    if (table->number > 0 &&
        rota_view_text_parse(rota_str_of(table->text, table->text_size), view, &error))
        rota_sim_fail(world->sim, "a view is no view: %s", error.text);
}

static bool is_any_served(const struct world *world)
{
    for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world->n_hosts; node++)
        for (uint32_t shard = 0; shard < world->n_shards; shard++)
            if (is_served(world, node, shard))
                return true;
    return false;
}

static void check_view(struct world *world)
{
    struct rota_view before, after;
    read_view(world, &world->earlier, &before);
    read_view(world, &world->table, &after);
    rota_sim_note(world->sim, DATABASE, "is %s %s to %s", rota_view_phase_name(after.phase),
                  rota_view_engine_name(after.engine), rota_view_engine_name(after.to));
    if (!is_after(&before, &after))
        rota_sim_fail(world->sim, "phase %s of %s follows on %s of %s",
                      rota_view_phase_name(after.phase), rota_view_engine_name(after.engine),
                      rota_view_phase_name(before.phase), rota_view_engine_name(before.engine));
    if (before.phase == ROTA_VIEW_STOPPING && after.phase == ROTA_VIEW_STARTING &&
        is_any_served(world))
        rota_sim_fail(world->sim, "the new engine begins while a shard is served");
    rota_view_deinit(&before);
    rota_view_deinit(&after);
}

/* --- bugs --- */

static void sabotage_request(struct world *world, uint32_t node, struct request *request)
{
    if (world->plant == PLANT_OBSERVER && request->type == REQUEST_PROPOSE &&
        node == world->observer)
        request->known++;
    if (world->plant == PLANT_BLIND_ACK && request->type == REQUEST_BEAT)
        request->row.acked = world->table.number;
    if (world->plant == PLANT_NO_FLOOR && request->type == REQUEST_CLAIM)
        request->epoch = 0;
}

static void sabotage_answer(struct world *world, uint32_t node, struct answer *answer)
{
    (void)node;
    for (size_t i = 0; i < answer->n_rows && answer->to == REQUEST_READ; i++) {
        if (world->plant == PLANT_EARLY_RUN)
            answer->rows[i].acked = answer->number;
        if (world->plant == PLANT_LOW_NUMBER)
            answer->rows[i].highest = 0;
    }
    if (world->plant == PLANT_LOW_NUMBER)
        answer->highest = answer->unix_ms = 0;
    if (answer->to == REQUEST_PROPOSE && answer->type == ROTA_VIEW_PROPOSED)
        check_view(world);
}

static void sabotage_step(struct world *world, uint32_t node, const struct rota_view_actions *todo)
{
    struct rota_view *next = &world->hosts[node].fsm.proposal;
    for (size_t i = 0; i < todo->n_asks; i++) {
        if (todo->asks[i].type != ROTA_VIEW_PROPOSE || next->phase != ROTA_VIEW_STOPPING)
            continue;
        if (world->plant == PLANT_NO_STOPPING) {
            next->engine = next->to;
            next->phase = ROTA_VIEW_STARTING;
        }
        if (world->plant == PLANT_BACK && chance(world, 0.5)) {
            next->to = next->engine;
            next->phase = ROTA_VIEW_STABLE;
        }
    }
}

static void plant(struct world *world)
{
    world->on_request = sabotage_request;
    world->on_answer = sabotage_answer;
    world->on_step = sabotage_step;
    world->stops_late = world->plant == PLANT_ACK_FIRST;
    world->has_no_end = world->plant == PLANT_TIMERS;
    world->has_no_clock = world->plant == PLANT_NO_FLOOR;
}

/* --- operators --- */

static void disturb(struct world *world, uint32_t node, struct rota_random *random)
{
    static const enum rota_view_wish_type TYPES[] = {ROTA_VIEW_MIGRATE, ROTA_VIEW_COMMIT,
                                                     ROTA_VIEW_COMMIT,  ROTA_VIEW_CANCEL,
                                                     ROTA_VIEW_PIN,     ROTA_VIEW_UNPIN};
    char name[VIEW_TABLE_NAME_MAX];
    const struct rota_view *view = rota_view_fsm_view(&world->hosts[node].fsm);
    struct rota_view_wish wish = {.type = TYPES[rota_random_below(random, 6)],
                                  .id = ++world->n_wishes,
                                  .shard = (uint32_t)rota_random_below(random, world->n_shards),
                                  .to = (enum rota_view_engine)rota_random_below(random, 3)};
    name_of(world, FIRST_HOST + (uint32_t)rota_random_below(random, world->n_hosts), name);
    wish.name = rota_str(name);
    if (wish.type == ROTA_VIEW_COMMIT && view->phase == ROTA_VIEW_SHADOW)
        wish.to = view->to;
    if (chance(world, 0.1))
        drive(world, node, (struct rota_view_event){.type = ROTA_VIEW_SHUTDOWN});
    else
        drive(world, node, (struct rota_view_event){.type = ROTA_VIEW_WISH, .wish = wish});
}

static void operate(void *data, uint64_t number)
{
    struct world *world = data;
    struct rota_random *random = rota_sim_random(world->sim);
    uint32_t node = FIRST_HOST + (uint32_t)rota_random_below(random, world->n_hosts);
    rota_time next = rota_sim_now(world->sim) + rota_sim_exponential(random, ROTA_SEC);
    if (rota_sim_is_up(world->sim, node) && !rota_sim_is_paused(world->sim, node))
        disturb(world, node, random);
    if (next < QUIET_AT)
        rota_sim_call(world->sim, next, operate, world, number + 1);
}

/* --- what must hold in the end --- */

static const char *all_is_owned(void *data)
{
    struct world *world = data;
    if (rota_sim_now(world->sim) < OWNED_AT)
        return NULL;
    for (uint32_t shard = 0; shard < world->n_shards; shard++) {
        bool is_on = false, is_owned = true;
        for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world->n_hosts; node++) {
            const struct rota_view_fsm *fsm = &world->hosts[node].fsm;
            struct rota_view_owner owner;
            is_on |= is_served(world, node, shard);
            if (!world->hosts[node].is_ready)
                continue;
            if (fsm->view.phase == ROTA_VIEW_STOPPING || fsm->view.phase == ROTA_VIEW_STARTING)
                return "O5: a move to another engine does not end";
            /* A seat may be of somebody who is not there. */
            if (fsm->view.engine == ROTA_VIEW_STATIC)
                is_owned = rota_view_fsm_owner(fsm, shard, &owner);
        }
        if (is_owned && !is_on)
            return "O5: a shard is not served, long after the last fault";
    }
    return NULL;
}

/* What operators want is done or refused, whichever node they ask. */
static const char *no_wish_waits(void *data)
{
    struct world *world = data;
    if (rota_sim_now(world->sim) < OWNED_AT)
        return NULL;
    for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world->n_hosts; node++)
        if (world->hosts[node].is_ready && world->hosts[node].fsm.wishes.size > 0)
            return "a wish waits, long after the last fault";
    return NULL;
}

/* --- worlds --- */

static void run(struct sim_case *run)
{
    static struct world world;
    struct rota_random shape;
    rota_random_init(&shape, run->seed);
    memset(&world, 0, sizeof world);
    world.plant = run->plant;
    world.engine = (enum rota_view_engine)rota_random_below(&shape, 3);
    make_world(&world, run, &shape);
    if (world.n_hosts > 2 && !world.are_twins && rota_random_chance(&shape, 0.5))
        world.observer = FIRST_HOST + world.n_hosts - 1;
    plant(&world);
    rota_sim_add_check(world.sim, all_is_owned, &world);
    rota_sim_add_check(world.sim, no_wish_waits, &world);
    start_faults(&world);
    start_database_faults(&world);
    rota_sim_call(world.sim, ROTA_SEC, operate, &world, 0);
    rota_sim_run(world.sim, END_AT);
    end_world(&world, run);
}

int main(int argc, char **argv)
{
    return sim_main(argc, argv,
                    &(struct sim_suite){
                        .name = "sim_migrate",
                        .n_seeds = 1000,
                        .n_plant_seeds = 2000,
                        .plants = plants,
                        .n_plants = N_PLANTS - 1,
                        .run = run,
                    });
}
