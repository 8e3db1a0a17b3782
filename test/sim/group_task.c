#include "group_task.h"

#include <stdlib.h>
#include <string.h>

/* --- faults that a task meets at a bad moment --- */

static void crash_call(void *data, uint64_t node)
{
    struct world *world = data;
    rota_sim_crash(world->sim, (uint32_t)node);
}

static void start_call(void *data, uint64_t node)
{
    struct world *world = data;
    rota_sim_start(world->sim, (uint32_t)node);
}

static void kill_soon(struct world *world, uint32_t node, rota_time within)
{
    rota_time now = rota_sim_now(world->sim), at = now + span_upto(world, within);
    rota_sim_call(world->sim, at, crash_call, world, node);
    rota_sim_call(world->sim, at + span_upto(world, 4 * ROTA_SEC), start_call, world, node);
}

/* The leader may die at any step of its round. */
static void leader_step(struct world *world, uint32_t node)
{
    if (rota_sim_now(world->sim) + ROTA_SEC < world->shape.quiet_at &&
        chance(world, world->shape.leader_dies))
        kill_soon(world, node, 60 * ROTA_MSEC);
}

/* --- asking --- */

static void ask(struct world *world, uint32_t node, uint32_t whom, struct note note)
{
    note.life = rota_sim_life(world->sim, node);
    note.sent_at = rota_sim_mono(world->sim, node);
    tell(world, node, whom, &note);
}

/* Open, or read on; the answer to any earlier question is not waited for. */
static void ask_log(struct world *world, uint32_t node)
{
    struct task *task = &world->tasks[node];
    task->asked_at = rota_sim_mono(world->sim, node);
    ask(world, node, LOG,
        (struct note){.type = task->is_open ? ASK_READ : ASK_OPEN,
                      .request = ++task->request,
                      .from = task->read_from});
    rota_sim_set_timer(world->sim, node, TIMER_READ, ROTA_SIM_MONO, task->asked_at + READ_TIMEOUT);
}

static void ask_group(struct world *world, uint32_t node)
{
    struct task *task = &world->tasks[node];
    ask(world, node, GROUP,
        (struct note){.type = task->is_answered ? ASK_BEAT : ASK_JOIN,
                      .incarnation = task->incarnation,
                      .joining = task->joining,
                      .round = task->round});
}

static void arm_append(struct world *world, uint32_t node)
{
    const struct task *task = &world->tasks[node];
    rota_time until = ROTA_TIME_NEVER;
    for (size_t i = 0; i < task->appends.size; i++)
        until = rota_time_min(until, task->appends.items[i].until);
    rota_sim_set_timer(world->sim, node, TIMER_APPEND, ROTA_SIM_MONO, until);
}

static void do_append(struct world *world, uint32_t node, const struct rota_group_action *action)
{
    struct task *task = &world->tasks[node];
    rota_time now = rota_sim_mono(world->sim, node);
    action->record->timestamp = rota_sim_wall(world->sim, node);
    struct rota_group_record *copy = carry(world, action->record);
    if (!copy)
        return;
    if (copy->kind != ROTA_GROUP_EPOCH && copy->size > 256 << 10)
        rota_sim_fail(world->sim, "node %u appends a record of %zu bytes", node, copy->size);
    push(&world->sent, copy);
    push(&task->appends, ((struct append){action->number, now + APPEND_WITHIN}));
    ask(world, node, LOG,
        (struct note){
            .type = ASK_APPEND, .number = action->number, .slot = (uint32_t)world->sent.size - 1});
    arm_append(world, node);
    if (copy->kind == ROTA_GROUP_EPOCH || (copy->kind == ROTA_GROUP_SNAPSHOT && copy->index == 0))
        leader_step(world, node);
}

static void do_join(struct world *world, uint32_t node, uint64_t incarnation)
{
    struct task *task = &world->tasks[node];
    if (task->fsm.fold.next < task->opened_end)
        rota_sim_fail(world->sim, "node %u joins before it has read the log", node);
    for (size_t i = 0; i < task->readers.size && world->plant != PLANT_UNLISTED_RUNS; i++)
        if (!task->readers.items[i].is_over)
            rota_sim_fail(world->sim, "node %u joins while it still reads p%u", node,
                          task->readers.items[i].part);
    task->wants_join = true;
    task->is_answered = false;
    task->incarnation = incarnation;
    task->joining++;
    task->round = 0;
    task->group_ok_at = rota_sim_mono(world->sim, node);
    ask_group(world, node);
}

static void do_leave(struct world *world, uint32_t node)
{
    struct task *task = &world->tasks[node];
    if (task->wants_join)
        ask(world, node, GROUP, (struct note){.type = ASK_LEAVE, .joining = task->joining});
    task->wants_join = task->is_answered = false;
}

/* What a snapshot of ours makes superfluous may go. */
static void trim(struct world *world, uint32_t node, const struct rota_group_record *record)
{
    uint64_t below = rota_group_fsm_trim_below(&world->tasks[node].fsm);
    if (record->kind != ROTA_GROUP_SNAPSHOT || !world->shape.is_trimmed)
        return;
    if (world->plant == PLANT_TRIMS_EARLY)
        below = record->next;
    if (below > 0)
        ask(world, node, LOG, (struct note){.type = ASK_TRIM, .from = below});
}

static void do_fail(struct world *world, uint32_t node, enum rota_group_failure failure)
{
    struct task *task = &world->tasks[node];
    rota_sim_note(world->sim, node, "fails: %s", rota_group_fsm_failure_name(failure));
    readers_end(world, node);
    task->is_failed = true;
    task->wants_join = false;
    if (!world->is_cut || (failure != ROTA_GROUP_LOG_CUT && failure != ROTA_GROUP_SNAPSHOT_BROKEN))
        rota_sim_fail(world->sim, "node %u fails: %s", node, rota_group_fsm_failure_name(failure));
}

/* --- the one caller of the machine --- */

static void act(struct world *world, uint32_t node, const struct rota_group_action *action)
{
    struct task *task = &world->tasks[node];
    uint32_t index = action->def ? part_find(world, action->def->name.text) : UINT32_MAX;
    switch (action->type) {
    case ROTA_GROUP_DO_READ:
        task->read_from = action->offset;
        ask_log(world, node);
        break;
    case ROTA_GROUP_DO_APPEND:
        do_append(world, node, action);
        break;
    case ROTA_GROUP_DO_JOIN:
        do_join(world, node, action->incarnation);
        break;
    case ROTA_GROUP_DO_LEAVE:
        do_leave(world, node);
        break;
    case ROTA_GROUP_DO_START:
        rota_sim_note(world->sim, node, "starts p%u, token %llu, at %u", index,
                      (unsigned long long)action->token, position_parse(action->position));
        reader_start(world, node, index, action->token, position_parse(action->position));
        break;
    case ROTA_GROUP_DO_STOP:
        rota_sim_note(world->sim, node, "stops p%u", index);
        reader_stop(world, node, index);
        break;
    case ROTA_GROUP_TELL_ROUND:
        break;
    case ROTA_GROUP_TELL_LOST:
        rota_sim_note(world->sim, node, "is out: %s", rota_group_fsm_loss_name(action->loss));
        break;
    case ROTA_GROUP_TELL_EPOCH:
        rota_sim_note(world->sim, node, "is in epoch %llu", (unsigned long long)action->number);
        break;
    case ROTA_GROUP_TELL_COUNTED:
        trim(world, node, action->record);
        for (size_t i = 0; world->plant == PLANT_REOWNED && i < action->record->n_changes; i++)
            if (action->record->changes[i].type == ROTA_GROUP_SHARE)
                push(&task->shared, part_find(world, action->record->changes[i].def->name.text));
        break;
    case ROTA_GROUP_TELL_REFUSED:
        rota_sim_note(world->sim, node, "is refused p%u: %s", index,
                      rota_group_fold_refusal_name(action->refusal));
        break;
    case ROTA_GROUP_FAIL:
        do_fail(world, node, action->failure);
        break;
    }
}

void drive(struct world *world, uint32_t node, struct rota_group_event event)
{
    struct task *task = &world->tasks[node];
    struct rota_error error;
    enum rota_group_state state = task->fsm.state;
    size_t n;
    if (!task->is_ready || task->is_failed)
        return;
    if (rota_group_fsm_step(&task->fsm, rota_sim_mono(world->sim, node), &event, &error))
        rota_sim_fail(world->sim, "node %u: %s", node, error.text);
    if (state != task->fsm.state)
        rota_sim_note(world->sim, node, "is %s", rota_group_fsm_state_name(task->fsm.state));
    const struct rota_group_action *actions = rota_group_fsm_actions(&task->fsm, &n);
    for (size_t i = 0; i < n; i++)
        act(world, node, &actions[i]);
    rota_sim_set_timer(world->sim, node, TIMER_FSM, ROTA_SIM_MONO,
                       rota_group_fsm_deadline(&task->fsm));
    if (task->fsm.state == ROTA_GROUP_AT_DONE && !task->is_failed && !task->is_over &&
        task->stopping.size == 0) {
        task->is_over = true;
        kill_soon(world, node, 0);
    }
}

/* --- the log's answers --- */

static void lose_log(struct world *world, uint32_t node)
{
    struct task *task = &world->tasks[node];
    rota_sim_note(world->sim, node, "loses the log");
    task->is_open = false;
    drive(world, node, (struct rota_group_event){.type = ROTA_GROUP_LOG_LOST});
    ask_log(world, node);
}

/* A snapshot with less than all of it, which is told to be whole. */
static struct rota_group_record *plant_piece(struct world *world, struct rota_group_record *record)
{
    struct rota_group_record *copy = carry(world, record);
    while (copy && copy->n_partitions > 1) {
        struct rota_group_partition_state *last = &copy->partitions[--copy->n_partitions];
        rota_group_def_unref(last->def);
        rota_group_blob_unref(last->position);
    }
    return copy;
}

/* An epoch that keeps those who were there before it. */
static struct rota_group_record *plant_dead(struct world *world, uint32_t node,
                                            struct rota_group_record *record)
{
    const struct rota_group_fold *fold = &world->tasks[node].fsm.fold;
    struct rota_group_record *copy = carry(world, record);
    if (!copy)
        return NULL;
    copy->tasks = realloc(copy->tasks, (copy->n_tasks + fold->tasks.size) * sizeof *copy->tasks);
    if (!copy->tasks)
        die("no memory");
    for (size_t i = 0; i < fold->tasks.size; i++)
        if (fold->tasks.items[i].serial && !is_listed_in(copy, fold->tasks.items[i].member))
            copy->tasks[copy->n_tasks++].member = fold->tasks.items[i].member;
    return copy;
}

/* The entry as this task is given it; a share. */
static struct rota_group_record *given(struct world *world, uint32_t node,
                                       const struct entry *entry)
{
    const struct rota_group_fsm *fsm = &world->tasks[node].fsm;
    struct rota_group_record *record = entry->record;
    if (record && world->plant == PLANT_MISSING_PIECE && record->kind == ROTA_GROUP_SNAPSHOT &&
        fsm->replay == ROTA_GROUP_REPLAY_COLLECT)
        return plant_piece(world, record);
    if (record && world->plant == PLANT_DEAD_COME_BACK && record->kind == ROTA_GROUP_EPOCH &&
        fsm->state == ROTA_GROUP_AT_START && fsm->replay == ROTA_GROUP_REPLAY_FOLD)
        return plant_dead(world, node, record);
    return rota_group_record_ref(record);
}

/* Which entry comes at this place of a batch. */
static uint64_t place_of(struct world *world, uint64_t offset, uint64_t to)
{
    const struct entry *entries = world->log.entries.items;
    if (world->plant != PLANT_BY_TIMESTAMP)
        return offset;
    uint64_t other = offset % 2 ? offset - 1 : offset + 1;
    if (other >= to || !entries[offset].record || !entries[other].record)
        return offset;
    bool is_later = entries[offset].record->timestamp > entries[other].record->timestamp;
    return (offset < other) == is_later ? other : offset;
}

static void hear_batch(struct world *world, uint32_t node, const struct note *note)
{
    struct task *task = &world->tasks[node];
    uint64_t from = note->from;
    if (from < note->first && world->plant != PLANT_FROM_SCRATCH) {
        lose_log(world, node);
        return;
    }
    if (from < note->first)
        from = note->first;
    for (uint64_t offset = from; offset < note->to; offset++) {
        const struct entry *entry = &world->log.entries.items[place_of(world, offset, note->to)];
        struct rota_group_record *record = given(world, node, entry);
        drive(world, node,
              (struct rota_group_event){.type = ROTA_GROUP_RECORD,
                                        .offset = offset,
                                        .record = record,
                                        .size = entry->size,
                                        .why = entry->why});
        rota_group_record_unref(record);
        check_agreement(world, node, offset);
        if (task->request != note->request || task->is_failed || rota_sim_violation(world->sim))
            return;
    }
    task->read_from = note->to;
    if (note->to == note->end || world->plant == PLANT_JOINS_EARLY)
        drive(world, node,
              (struct rota_group_event){
                  .type = ROTA_GROUP_LOG_OK, .end = note->to, .sent_at = note->sent_at});
    if (task->request == note->request && !task->is_failed)
        ask_log(world, node);
}

static void hear_log(struct world *world, uint32_t node, const struct note *note)
{
    struct task *task = &world->tasks[node];
    if (note->request != task->request)
        return;
    task->n_silent = 0;
    if (note->type == TELL_BATCH) {
        hear_batch(world, node, note);
        return;
    }
    if (task->is_open)
        return;
    task->is_open = true;
    task->opened_end = note->end;
    rota_sim_set_timer(world->sim, node, TIMER_READ, ROTA_SIM_MONO, ROTA_TIME_NEVER);
    drive(world, node,
          (struct rota_group_event){.type = ROTA_GROUP_OPENED,
                                    .first = world->plant == PLANT_FROM_SCRATCH ? 0 : note->first,
                                    .end = note->end});
}

static void hear_appended(struct world *world, uint32_t node, const struct note *note)
{
    struct task *task = &world->tasks[node];
    for (size_t i = 0; i < task->appends.size; i++) {
        if (task->appends.items[i].number != note->number)
            continue;
        task->appends.items[i] = task->appends.items[--task->appends.size];
        arm_append(world, node);
        if (world->sent.items[note->slot]->kind == ROTA_GROUP_EPOCH)
            leader_step(world, node);
        drive(world, node,
              (struct rota_group_event){
                  .type = ROTA_GROUP_APPENDED, .number = note->number, .offset = note->first});
        return;
    }
}

static void appends_late(struct world *world, uint32_t node)
{
    struct task *task = &world->tasks[node];
    rota_time now = rota_sim_mono(world->sim, node);
    for (size_t i = task->appends.size; i-- > 0;) {
        struct append late = task->appends.items[i];
        if (late.until > now)
            continue;
        task->appends.items[i] = task->appends.items[--task->appends.size];
        drive(world, node,
              (struct rota_group_event){.type = ROTA_GROUP_NOT_APPENDED, .number = late.number});
        i = task->appends.size; /* it may have sent more */
    }
    arm_append(world, node);
}

/* The log is unresponsive: ask again, and after a while give it up. */
static void log_silent(struct world *world, uint32_t node)
{
    struct task *task = &world->tasks[node];
    if (++task->n_silent >= 3 && task->is_open) {
        task->n_silent = 0;
        lose_log(world, node);
    } else {
        ask_log(world, node);
    }
}

/* --- the group's answers --- */

static void lose_group(struct world *world, uint32_t node)
{
    struct task *task = &world->tasks[node];
    rota_sim_note(world->sim, node, "loses the group");
    task->wants_join = task->is_answered = false;
    drive(world, node, (struct rota_group_event){.type = ROTA_GROUP_GROUP_LOST});
}

static void hear_round(struct world *world, uint32_t node, const struct note *note)
{
    struct task *task = &world->tasks[node];
    const struct round *round = &world->group.rounds.items[note->round - 1];
    const struct round *listed = round;
    bool is_leader = round->leaders[0] == node || round->leaders[1] == node;
    task->round = note->round;
    if (world->plant == PLANT_GENERATIONS && round->generation <= task->generation_max)
        return;
    task->generation_max = round->generation;
    if (world->plant == PLANT_STALE_MEMBERS && round->number > 1)
        listed = round - 1;
    if (is_leader)
        leader_step(world, node);
    uint64_t generation = round->generation;
    if (world->plant == PLANT_OLD_ROUND && generation < task->fsm.fold.generation)
        generation = task->fsm.fold.generation;
    drive(world, node,
          (struct rota_group_event){.type = ROTA_GROUP_REBALANCED,
                                    .generation = generation,
                                    .members = listed->members,
                                    .n_members = listed->n_members,
                                    .is_leader = is_leader,
                                    .sent_at = note->sent_at});
}

static void hear_group(struct world *world, uint32_t node, const struct note *note)
{
    struct task *task = &world->tasks[node];
    if (!task->wants_join || note->joining != task->joining)
        return;
    if (note->type == TELL_UNKNOWN) {
        if (world->plant != PLANT_DEAF_GROUP)
            lose_group(world, node);
        return;
    }
    task->is_answered = true;
    if (note->sent_at > task->group_ok_at)
        task->group_ok_at = note->sent_at;
    if (note->type == TELL_ROUND && note->round > task->round)
        hear_round(world, node, note);
    else
        drive(world, node,
              (struct rota_group_event){.type = ROTA_GROUP_GROUP_OK, .sent_at = note->sent_at});
}

static void beat(struct world *world, uint32_t node)
{
    struct task *task = &world->tasks[node];
    rota_time now = rota_sim_mono(world->sim, node);
    rota_sim_set_timer(world->sim, node, TIMER_BEAT, ROTA_SIM_MONO, now + BEAT_EVERY);
    if (!task->wants_join)
        return;
    if (world->plant == PLANT_DEAF_GROUP && task->is_answered)
        drive(world, node, (struct rota_group_event){.type = ROTA_GROUP_GROUP_OK, .sent_at = now});
    else if (now - task->group_ok_at > SESSION)
        lose_group(world, node);
    if (task->wants_join)
        ask_group(world, node);
}

/* --- its node --- */

/* What was offered and not taken is read by who offered it. */
static void plant_reowned(struct world *world, uint32_t node)
{
    struct task *task = &world->tasks[node];
    for (size_t i = 0; i < task->shared.size; i++) {
        const struct part *part = part_of(world, task->shared.items[i]);
        if (part->owner == 0 && part->n_runners == 0 && !part->is_finished)
            reader_start(world, node, task->shared.items[i], part->token, 0);
    }
    task->shared.size = 0;
}

void task_on_start(struct world *world, uint32_t node)
{
    struct task *task = &world->tasks[node];
    const struct shape *shape = &world->shape;
    struct rota_group_fsm_options options = {
        .task = rota_str(task->name),
        .fence_after = FENCE_AFTER,
        .progress_every = 500 * ROTA_MSEC,
        .wait_max = 6 * ROTA_SEC,
        .snapshot_records = shape->snapshot_records,
        .withdraw_after = shape->withdraw_after,
        .move_every = shape->move_every,
        .moves_max = 2,
        .seeds = world->seeds,
        .n_seeds = shape->n_seeds,
        .seed = rota_random_next(world->random),
    };
    rota_time now = rota_sim_mono(world->sim, node);
    if (rota_group_fsm_init(&task->fsm, &options, &world->error)) {
        rota_sim_fail(world->sim, "node %u: %s", node, world->error.text);
        return;
    }
    task->is_ready = true;
    task->heard_at = rota_sim_now(world->sim);
    ask_log(world, node);
    rota_sim_set_timer(world->sim, node, TIMER_BEAT, ROTA_SIM_MONO,
                       now + span_upto(world, BEAT_EVERY));
    rota_sim_set_timer(world->sim, node, TIMER_STEP, ROTA_SIM_MONO,
                       now + span_upto(world, shape->step_every));
}

void task_on_crash(struct world *world, uint32_t node)
{
    struct task *task = &world->tasks[node];
    char name[sizeof task->name];
    readers_end(world, node);
    if (task->is_ready)
        rota_group_fsm_deinit(&task->fsm);
    rota_vector_deinit(&task->readers);
    rota_vector_deinit(&task->stopping);
    rota_vector_deinit(&task->appends);
    rota_vector_deinit(&task->shared);
    memcpy(name, task->name, sizeof name);
    *task = (struct task){.resumed_at = -ROTA_DAY};
    memcpy(task->name, name, sizeof name);
}

/* A node that has heard nothing for so long stood still. */
static void notice_pause(struct world *world, uint32_t node)
{
    struct task *task = &world->tasks[node];
    rota_time now = rota_sim_now(world->sim);
    if (now - task->heard_at > BEAT_EVERY + 100 * ROTA_MSEC)
        task->resumed_at = now;
    task->heard_at = now;
}

void task_on_message(struct world *world, uint32_t node, const struct note *message)
{
    struct note note = *message;
    notice_pause(world, node);
    if (note.life != rota_sim_life(world->sim, node) || world->tasks[node].is_failed)
        return;
    if (world->plant == PLANT_FENCE_FROM_ARRIVAL)
        note.sent_at = rota_sim_mono(world->sim, node);
    if (note.type == TELL_OPEN || note.type == TELL_BATCH)
        hear_log(world, node, &note);
    else if (note.type == TELL_APPENDED)
        hear_appended(world, node, &note);
    else
        hear_group(world, node, &note);
}

void task_on_timer(struct world *world, uint32_t node, uint32_t timer)
{
    notice_pause(world, node);
    if (world->tasks[node].is_failed)
        return;
    if (timer == TIMER_FSM)
        drive(world, node, (struct rota_group_event){.type = ROTA_GROUP_TICK});
    else if (timer == TIMER_BEAT)
        beat(world, node);
    else if (timer == TIMER_READ)
        log_silent(world, node);
    else if (timer == TIMER_APPEND)
        appends_late(world, node);
    else if (timer == TIMER_STOP)
        readers_stopped(world, node);
    else {
        plant_reowned(world, node);
        readers_step(world, node);
        rota_sim_set_timer(world->sim, node, TIMER_STEP, ROTA_SIM_MONO,
                           rota_sim_mono(world->sim, node) + world->shape.step_every);
    }
}
