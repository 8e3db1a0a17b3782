#include "group_reader.h"
#include "group_task.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 400 }; /* of all readers of a task, at one look */

static struct reader *reader_find(struct world *world, uint32_t node, uint32_t index)
{
    const struct part *part = part_of(world, index);
    for (uint8_t i = 0; i < part->n_runners; i++)
        if (part->runners[i].node == node)
            return &world->tasks[node].readers.items[part->runners[i].place];
    return NULL;
}

void reader_start(struct world *world, uint32_t node, uint32_t index, uint64_t token,
                  uint32_t position)
{
    struct task *task = &world->tasks[node];
    struct part *part = part_of(world, index);
    struct reader reader = {
        .part = index, .position = position, .committed = position, .token = token};
    check_start(world, node, index, token, position);
    world->n_starts++;
    if (part->n_runners == RUNNERS_MAX) {
        rota_sim_fail(world->sim, "p%u runs at %d nodes", index, RUNNERS_MAX);
        return;
    }
    part->runners[part->n_runners++] = (struct runner){node, (uint32_t)task->readers.size};
    push(&task->readers, reader);
}

/* It is gone permanently. */
static void reader_end(struct world *world, uint32_t node, uint32_t index)
{
    struct task *task = &world->tasks[node];
    struct part *part = part_of(world, index);
    for (uint8_t i = 0; i < part->n_runners; i++) {
        if (part->runners[i].node != node)
            continue;
        uint32_t place = part->runners[i].place, last = (uint32_t)task->readers.size - 1;
        part->runners[i] = part->runners[--part->n_runners];
        task->readers.items[place] = task->readers.items[last];
        task->readers.size--;
        if (place == last)
            return;
        struct part *moved = part_of(world, task->readers.items[place].part);
        for (uint8_t k = 0; k < moved->n_runners; k++)
            if (moved->runners[k].node == node)
                moved->runners[k].place = place;
        return;
    }
}

void readers_end(struct world *world, uint32_t node)
{
    while (world->tasks[node].readers.size > 0)
        reader_end(world, node, world->tasks[node].readers.items[0].part);
}

static void report(struct world *world, uint32_t node, struct rota_group_event event)
{
    if (!world->tasks[node].is_failed && !rota_sim_violation(world->sim))
        drive(world, node, event);
}

static bool report_children(struct world *world, uint32_t node, uint32_t index, uint32_t from,
                            uint32_t to)
{
    bool is_lost = false;
    for (uint8_t i = 0; i < part_of(world, index)->n_children; i++) {
        const struct part *part = part_of(world, index);
        uint32_t at = part->child_at[i];
        if (at > to || (at <= from && (at > 0 || from > 0)))
            continue;
        if (world->plant == PLANT_CHILD_LOST && chance(world, 0.1)) {
            is_lost = true;
            continue;
        }
        report(world, node,
               (struct rota_group_event){.type = ROTA_GROUP_CHILD,
                                         .partition = part->def->name.text,
                                         .child = part_of(world, part->children[i])->def,
                                         .position = rota_str("0")});
    }
    return is_lost;
}

/* One step of one reader; it may be gone afterwards. */
static void reader_step(struct world *world, uint32_t node, uint32_t place)
{
    struct reader *reader = &world->tasks[node].readers.items[place];
    uint32_t index = reader->part, from = reader->position;
    char text[ROTA_GROUP_POSITION_MAX];
    struct rota_str name = part_of(world, index)->def->name.text;
    if (world->plant != PLANT_NO_TOKEN &&
        !rota_group_fsm_is_current(&world->tasks[node].fsm, rota_sim_mono(world->sim, node), name,
                                   reader->token))
        return;
    check_read(world, node, index, reader->token);
    part_grow(world, index);

    struct part *part = part_of(world, index);
    uint32_t to = from + 1 + (uint32_t)rota_random_below(world->random, 3);
    if (to > part->length)
        to = part->length;
    reader->position = to;
    if (part->read_max < to)
        part->read_max = to;
    bool is_over = to == part->length, is_leaf = part->n_children == 0;
    is_leaf |= report_children(world, node, index, from, to);
    struct rota_str position = position_format(world, to, text);
    if (is_over || chance(world, 0.5))
        report(world, node,
               (struct rota_group_event){.type = ROTA_GROUP_PROGRESS_MADE,
                                         .partition = name,
                                         .mark = to,
                                         .position = position});
    reader = reader_find(world, node, index);
    if (!is_over || !reader || reader->is_stopping)
        return;
    reader->is_over = true;
    report(world, node,
           (struct rota_group_event){.type = ROTA_GROUP_FINISHED_READING,
                                     .partition = name,
                                     .mark = to,
                                     .position = position,
                                     .is_end = is_leaf});
    reader = reader_find(world, node, index);
    if (reader && !reader->is_stopping)
        reader_end(world, node, index);
}

void readers_step(struct world *world, uint32_t node)
{
    struct task *task = &world->tasks[node];
    size_t n = task->readers.size < STEPS_MAX ? task->readers.size : STEPS_MAX;
    size_t first = n ? rota_random_below(world->random, task->readers.size) : 0;
    for (size_t i = 0; i < n && task->readers.size > 0; i++) {
        uint32_t place = (uint32_t)((first + i) % task->readers.size);
        if (!task->readers.items[place].is_stopping && !task->readers.items[place].is_over)
            reader_step(world, node, place);
        if (rota_sim_violation(world->sim) || task->is_failed)
            return;
    }
}

/* --- stopping --- */

static void arm_stop(struct world *world, uint32_t node)
{
    const struct task *task = &world->tasks[node];
    rota_sim_set_timer(world->sim, node, TIMER_STOP, ROTA_SIM_MONO,
                       task->stopping.size ? task->stopping.items[0].at : ROTA_TIME_NEVER);
}

void reader_stop(struct world *world, uint32_t node, uint32_t index)
{
    struct task *task = &world->tasks[node];
    struct reader *reader = reader_find(world, node, index);
    rota_time at = rota_sim_mono(world->sim, node) + span_upto(world, world->shape.stop_max);
    if (world->plant == PLANT_UNLISTED_RUNS)
        at = rota_sim_mono(world->sim, node);
    else if (reader)
        reader->is_stopping = true;
    if (task->stopping.size > 0 && at < task->stopping.items[task->stopping.size - 1].at)
        at = task->stopping.items[task->stopping.size - 1].at;
    push(&task->stopping, ((struct stopping){index, at}));
    arm_stop(world, node);
}

void readers_stopped(struct world *world, uint32_t node)
{
    struct task *task = &world->tasks[node];
    size_t n = 0;
    rota_time now = rota_sim_mono(world->sim, node);
    while (n < task->stopping.size && task->stopping.items[n].at <= now)
        n++;
    for (size_t i = 0; i < n; i++) {
        uint32_t index = task->stopping.items[i].part;
        if (world->plant != PLANT_UNLISTED_RUNS)
            reader_end(world, node, index);
    }
    struct stopping *done = malloc((n + 1) * sizeof *done);
    if (!done)
        die("no memory");
    memcpy(done, task->stopping.items, n * sizeof *done);
    task->stopping.size -= n;
    memmove(task->stopping.items, task->stopping.items + n,
            task->stopping.size * sizeof *task->stopping.items);
    for (size_t i = 0; i < n; i++)
        report(
            world, node,
            (struct rota_group_event){.type = ROTA_GROUP_STOPPED,
                                      .partition = part_of(world, done[i].part)->def->name.text});
    free(done);
    arm_stop(world, node);
}
