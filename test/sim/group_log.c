#include "group_log.h"

#include <stdlib.h>
#include <string.h>

static uint64_t log_end(const struct world *world)
{
    return world->log.entries.size;
}

/* --- plants that change what is read, for all alike --- */

static bool is_stale_epoch(const struct world *world, const struct rota_group_record *record)
{
    return record->kind == ROTA_GROUP_EPOCH && record->epoch <= world->fold.epoch;
}

/* A member of the fold under a name that outlives the fold's task: a record may be read later. */
static struct rota_group_member lasting_member(const struct world *world, uint32_t place)
{
    struct rota_group_member member = world->fold.tasks.items[place].member;
    for (uint32_t node = FIRST_TASK; node < FIRST_TASK + world->shape.n_tasks; node++)
        if (rota_str_is_equal(rota_str(world->tasks[node].name), member.task)) {
            member.task = rota_str(world->tasks[node].name);
            return member;
        }
    die("a member that is no task");
    return member;
}

/* What was offered is offered once more, though it was taken: the author speaks for
 * the owner. */
static void plant_withdraw(struct world *world, struct rota_group_record *record)
{
    for (size_t i = 0; record->kind == ROTA_GROUP_STATE && i < record->n_changes; i++) {
        struct rota_group_change *change = &record->changes[i];
        const struct rota_group_partition *partition =
            rota_group_fold_find(&world->fold, change->def->name);
        if (change->type != ROTA_GROUP_CLEAR || !partition ||
            partition->owner == ROTA_GROUP_NOBODY ||
            rota_group_fold_life(partition) == ROTA_GROUP_FINISHED)
            continue;
        record->author = lasting_member(world, partition->owner);
        record->sequence = world->fold.tasks.items[partition->owner].sequence + 1;
        change->type = ROTA_GROUP_MOVE;
        change->token = partition->token;
        change->target = lasting_member(world, world->fold.leader);
        struct rota_group_change first = record->changes[0];
        record->changes[0] = *change;
        *change = first;
        return;
    }
}

static void plant_changes(struct world *world, struct rota_group_record *record)
{
    for (size_t i = 0; i < record->n_changes; i++) {
        struct rota_group_change *change = &record->changes[i];
        if (world->plant == PLANT_POSITION_LOST)
            change->has_position = false;
        if (world->plant == PLANT_CHILD_FIRST)
            change->def->n_parents = 0;
    }
}

/* The record as all folds are given it. */
static void plant_record(struct world *world, struct rota_group_record *record)
{
    const struct rota_group_task *task = rota_group_fold_task(&world->fold, record->author);
    if (world->plant == PLANT_OLD_EPOCH && record->kind == ROTA_GROUP_STATE)
        record->epoch = world->fold.epoch;
    if (world->plant == PLANT_TWO_LEADERS && is_stale_epoch(world, record)) {
        record->prev_epoch = world->fold.epoch;
        record->epoch = world->fold.epoch + 1;
    }
    if (world->plant == PLANT_REPEATED && task && record->sequence <= task->sequence)
        record->sequence = task->sequence + 1;
    if (world->plant == PLANT_STRANGER && !task && record->kind == ROTA_GROUP_STATE &&
        world->fold.epoch > 0) {
        record->author = lasting_member(world, world->fold.leader);
        record->sequence = world->fold.tasks.items[world->fold.leader].sequence + 1;
        record->epoch = world->fold.epoch;
    }
    if (world->plant == PLANT_WITHDRAWN_TWICE && is_due_to_count(world, record))
        plant_withdraw(world, record);
    plant_changes(world, record);
}

/* --- appends --- */

static void log_push(struct world *world, struct entry entry)
{
    push(&world->log.entries, entry);
    observe(world, log_end(world) - 1, &world->log.entries.items[log_end(world) - 1]);
    if (!world->log.is_sweeping) {
        world->log.is_sweeping = true;
        rota_sim_set_timer(world->sim, LOG, TIMER_SWEEP, ROTA_SIM_MONO,
                           rota_sim_mono(world->sim, LOG) + 3 * ROTA_MSEC);
    }
}

static uint64_t log_append(struct world *world, struct rota_group_record *record)
{
    struct entry entry = {.truth = rota_group_record_ref(record), .size = record->size};
    if (world->plant) {
        entry.record = carry(world, record);
        if (entry.record)
            plant_record(world, entry.record);
    } else {
        entry.record = rota_group_record_ref(record);
    }
    log_push(world, entry);
    return log_end(world) - 1;
}

/* Something that is no record of ours, or not one of today. */
static void log_rubbish(struct world *world)
{
    static const char *const lines[] = {
        "",
        "hello",
        "{}",
        "[1,2,3]",
        "{\"version\":2,\"kind\":\"epoch\",\"epoch\":7,\"members\":[]}",
        "{\"version\":1,\"kind\":\"epoch\"}",
        "{\"version\":1,\"kind\":\"state\",\"taskID\":\"t",
        "\xff\xfe\x00 not even text",
        "{\"syncEpoch\":\"x\",\"taskID\":\"t3\",\"messageTimestamp\":\"y\",\"connectorState\":[]}",
    };
    const char *line = lines[rota_random_below(world->random, sizeof lines / sizeof *lines)];
    struct rota_group_record *record = NULL;
    struct entry entry = {.size = strlen(line)};
    if (rota_group_record_parse(rota_str(line), &record, &entry.why, &world->error))
        die("no memory");
    if (entry.why == ROTA_GROUP_ACCEPTED || record)
        rota_sim_fail(world->sim, "rubbish is taken for a record: %s", line);
    log_push(world, entry);
}

/* An epoch of one member, as a version that is not ours yet might write it. */
static struct rota_group_record *future_epoch(struct world *world)
{
    const struct rota_group_task *leader = &world->fold.tasks.items[world->fold.leader];
    struct rota_group_record *record = rota_group_record_new(ROTA_GROUP_EPOCH);
    if (!record || !(record->tasks = calloc(1, sizeof *record->tasks)))
        die("no memory");
    record->author = record->tasks[0].member = leader->member;
    record->n_tasks = 1;
    record->sequence = leader->sequence + 1;
    record->prev_epoch = world->fold.epoch;
    record->epoch = world->fold.epoch + 1;
    return record;
}

static void log_future(struct world *world)
{
    static const char version[] = "\"version\":1";
    struct rota_group_record *record = NULL;
    struct entry entry = {0};
    if (world->fold.epoch == 0)
        return;
    struct rota_group_record *epoch = future_epoch(world);
    struct rota_group_record *read = carry(world, epoch);
    char *at = memmem(world->buffer.data, world->buffer.size, version, sizeof version - 1);
    rota_group_record_unref(epoch);
    if (!at)
        die("a record without a version");
    at[sizeof version - 2] = '2';
    entry.size = world->buffer.size;
    if (rota_group_record_parse(rota_buffer_str(&world->buffer), &record, &entry.why,
                                &world->error))
        die("no memory");
    if (entry.why != ROTA_GROUP_FUTURE)
        rota_sim_fail(world->sim, "a record of a later version is %s",
                      rota_group_fold_verdict_name(entry.why));
    if (world->plant == PLANT_FUTURE_READ) {
        entry.record = read;
        entry.truth = rota_group_record_new(ROTA_GROUP_EPOCH); /* counts for nothing */
    } else {
        rota_group_record_unref(read);
    }
    log_push(world, entry);
}

void log_disturb(struct world *world)
{
    uint64_t kind = rota_random_below(world->random, 4), end = log_end(world);
    if (kind == 0)
        log_future(world);
    else if (kind == 1 && end > 0) {
        const struct entry *old = &world->log.entries.items[rota_random_below(world->random, end)];
        if (old->truth && old->truth->author.task.size > 0)
            log_append(world, old->truth);
    } else
        log_rubbish(world);
}

void log_cut(struct world *world, bool is_blind)
{
    uint64_t told = world->log.replay_from, fresh = world->fold.replay_from;
    uint64_t first = is_blind ? log_end(world) : chance(world, 0.5) ? told : fresh;
    if (first <= world->log.first)
        return;
    rota_sim_note(world->sim, LOG, "is cut off before %llu", (unsigned long long)first);
    world->log.first = first;
    world->is_cut |= is_blind;
    world->n_cuts++;
}

/* --- its node --- */

static void log_answer(struct world *world, uint32_t node)
{
    struct held *held = &world->log.held[node];
    struct note note = held->note;
    held->is_held = false;
    note.type = TELL_BATCH;
    note.first = world->log.first;
    note.end = log_end(world);
    note.to = note.from + BATCH_MAX < note.end ? note.from + BATCH_MAX : note.end;
    if (world->shape.is_one_by_one && note.to > note.from + 1 + note.request % 3)
        note.to = note.from + 1 + note.request % 3;
    tell(world, LOG, node, &note);
}

void log_on_timer(struct world *world, uint32_t timer)
{
    if (timer == TIMER_SWEEP)
        world->log.is_sweeping = false;
    else
        rota_sim_set_timer(world->sim, LOG, TIMER_HOLD, ROTA_SIM_MONO,
                           rota_sim_mono(world->sim, LOG) + HOLD);
    for (uint32_t node = FIRST_TASK; node < FIRST_TASK + world->shape.n_tasks; node++)
        if (world->log.held[node].is_held &&
            (timer == TIMER_HOLD || world->log.held[node].note.from < log_end(world)))
            log_answer(world, node);
}

void log_on_message(struct world *world, uint32_t from, const struct note *ask)
{
    struct note note = *ask;
    if (ask->type == ASK_OPEN) {
        note.type = TELL_OPEN;
        note.first = world->log.first;
        note.end = log_end(world);
        tell(world, LOG, from, &note);
    } else if (ask->type == ASK_READ) {
        world->log.held[from] = (struct held){true, note};
        if (note.from < log_end(world) || note.from < world->log.first)
            log_answer(world, from);
    } else if (ask->type == ASK_TRIM) {
        if (note.from <= world->log.first)
            return;
        rota_sim_note(world->sim, LOG, "is trimmed before %llu", (unsigned long long)note.from);
        world->log.first = note.from;
        world->n_cuts++;
    } else if (ask->type == ASK_APPEND) {
        note.type = TELL_APPENDED;
        note.first = log_append(world, world->sent.items[note.slot]);
        tell(world, LOG, from, &note);
    }
}

void log_deinit(struct world *world)
{
    for (size_t i = 0; i < world->log.entries.size; i++) {
        rota_group_record_unref(world->log.entries.items[i].record);
        rota_group_record_unref(world->log.entries.items[i].truth);
    }
    rota_vector_deinit(&world->log.entries);
    for (size_t i = 0; i < world->sent.size; i++)
        rota_group_record_unref(world->sent.items[i]);
    rota_vector_deinit(&world->sent);
    rota_buffer_deinit(&world->buffer);
}
