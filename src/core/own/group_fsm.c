#include "core/own/group_fsm.h"

#include "core/own/group_fsm_inside.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static rota_time or_default(rota_time value, rota_time otherwise)
{
    return value > 0 ? value : otherwise;
}

static enum rota_code copy_seeds(struct rota_group_fsm *fsm,
                                 const struct rota_group_fsm_options *options,
                                 struct rota_error *error)
{
    size_t size = 1;
    if (options->n_seeds > ROTA_GROUP_PARTITIONS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "there are %zu initial partitions; at most %d are allowed",
                              options->n_seeds, ROTA_GROUP_PARTITIONS_MAX);
    for (size_t i = 0; i < options->n_seeds; i++) {
        const struct rota_group_seed *seed = &options->seeds[i];
        if (!rota_group_is_name(seed->name) || seed->position.size > ROTA_GROUP_POSITION_MAX)
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "initial partition %zu has an invalid name or position", i + 1);
        size += seed->name.size + seed->position.size;
    }
    fsm->seeds = calloc(options->n_seeds + 1, sizeof *fsm->seeds);
    char *end = fsm->seed_text = malloc(size);
    if (!fsm->seeds || !end)
        return rota_error_no_memory(error, "for a task of a group");
    for (size_t i = 0; i < options->n_seeds; i++) {
        const struct rota_group_seed *seed = &options->seeds[i];
        memcpy(end, seed->name.data, seed->name.size);
        if (seed->position.size > 0)
            memcpy(end + seed->name.size, seed->position.data, seed->position.size);
        fsm->seeds[i] = (struct rota_group_seed){
            .name = rota_str_of(end, seed->name.size),
            .mark = seed->mark,
            .position = rota_str_of(end + seed->name.size, seed->position.size),
        };
        end += seed->name.size + seed->position.size;
    }
    return ROTA_OK;
}

rota_time rota_group_fsm_fence_after(rota_time session, rota_time stop_within)
{
    rota_time after = session - session / 8 - stop_within;
    return after >= session / 3 ? after : 0;
}

enum rota_code rota_group_fsm_init(struct rota_group_fsm *fsm,
                                   const struct rota_group_fsm_options *options,
                                   struct rota_error *error)
{
    *fsm = (struct rota_group_fsm){
        .options = *options,
        .me = ROTA_GROUP_NOBODY,
        .epoch_at = ROTA_TIME_MIN,
        .log_ok_at = ROTA_TIME_MIN,
        .group_ok_at = ROTA_TIME_MIN,
    };
    struct rota_group_fsm_options *set = &fsm->options;
    set->fence_after = or_default(set->fence_after, ROTA_GROUP_FENCE_AFTER);
    set->progress_every = or_default(set->progress_every, ROTA_GROUP_PROGRESS_EVERY);
    set->wait_max = or_default(set->wait_max, ROTA_GROUP_WAIT_MAX);
    if (set->snapshot_records == 0)
        set->snapshot_records = ROTA_GROUP_SNAPSHOT_RECORDS;
    if (set->snapshot_bytes == 0)
        set->snapshot_bytes = ROTA_GROUP_SNAPSHOT_BYTES;
    rota_random_init(&fsm->random, options->seed);
    rota_map_init(&fsm->runs, options->seed);
    rota_group_fold_init(&fsm->fold);
    enum rota_code code = ROTA_OK;
    if (!options->is_observer && !rota_group_is_task_name(options->task))
        code = rota_error_set(error, ROTA_ERR_INVALID,
                              "a task's name has 1 to %d printable ASCII characters, without "
                              "spaces, quotes and backslashes",
                              ROTA_GROUP_TASK_NAME_MAX);
    if (!code)
        code = copy_seeds(fsm, options, error);
    if (!code && (!(fsm->name = rota_group_blob_new(options->task)) ||
                  !rota_vector_reserve(&fsm->actions, 8)))
        code = rota_error_no_memory(error, "for a task of a group");
    set->task = rota_str("");
    set->seeds = NULL;
    if (code)
        rota_group_fsm_deinit(fsm);
    return code;
}

static void clear_actions(struct rota_group_fsm *fsm)
{
    for (size_t i = 0; i < fsm->actions.size; i++) {
        rota_group_record_unref(fsm->actions.items[i].record);
        rota_group_def_unref(fsm->actions.items[i].def);
        rota_group_blob_unref(fsm->actions.items[i].position);
    }
    fsm->actions.size = 0;
}

static void clear_members(struct rota_group_fsm *fsm)
{
    free(fsm->members);
    free(fsm->members_text);
    fsm->members = NULL;
    fsm->members_text = NULL;
    fsm->n_members = 0;
}

void rota_group_fsm_deinit(struct rota_group_fsm *fsm)
{
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(&fsm->runs, &place));)
        rota_group_fsm_run_free(fsm, entry->value);
    rota_map_deinit(&fsm->runs);
    rota_group_fsm_send_forget(fsm);
    rota_group_fsm_send_end_snapshot(fsm);
    clear_actions(fsm);
    clear_members(fsm);
    for (size_t i = 0; i < fsm->roots.size; i++)
        rota_group_pending_deinit(&fsm->roots.items[i]);
    for (size_t i = 0; i < fsm->collected.size; i++)
        rota_group_record_unref(fsm->collected.items[i].record);
    rota_vector_deinit(&fsm->roots);
    rota_vector_deinit(&fsm->collected);
    rota_vector_deinit(&fsm->dirty);
    rota_vector_deinit(&fsm->held);
    rota_vector_deinit(&fsm->progressed);
    rota_vector_deinit(&fsm->offers);
    rota_vector_deinit(&fsm->sent);
    rota_vector_deinit(&fsm->extra_load);
    rota_vector_deinit(&fsm->actions);
    rota_group_fold_deinit(&fsm->fold);
    rota_group_blob_unref(fsm->name);
    free(fsm->seeds);
    free(fsm->seed_text);
    fsm->name = NULL;
    fsm->seeds = NULL;
    fsm->seed_text = NULL;
}

struct rota_group_action *rota_group_fsm_do(struct rota_group_fsm *fsm,
                                            enum rota_group_action_type type)
{
    if (!rota_vector_reserve(&fsm->actions, fsm->actions.size + 1)) {
        fsm->is_out_of_memory = true; /* the step ends with one FAIL: this one is written over */
        fsm->actions.size = fsm->actions.size > 0 ? fsm->actions.size - 1 : 0;
    }
    struct rota_group_action *action = &fsm->actions.items[fsm->actions.size++];
    *action = (struct rota_group_action){.type = type};
    return action;
}

/* --- stopping --- */

/* The others may start our partitions as soon as the group knows that we have left: we do not
 * leave before the last reader has stopped. */
static void say_farewell(struct rota_group_fsm *fsm)
{
    if (!fsm->owes_leave || fsm->n_stopping > 0)
        return;
    fsm->owes_leave = false;
    rota_group_fsm_do(fsm, ROTA_GROUP_DO_LEAVE);
}

static void leave_group(struct rota_group_fsm *fsm)
{
    fsm->owes_leave = fsm->owes_leave || fsm->is_joined;
    fsm->is_joined = fsm->is_leader = fsm->needs_epoch = false;
    fsm->group_ok_at = ROTA_TIME_MIN;
    clear_members(fsm);
}

void rota_group_fsm_drop(struct rota_group_fsm *fsm, enum rota_group_loss loss)
{
    if (fsm->state == ROTA_GROUP_AT_DONE)
        return;
    if (loss == ROTA_GROUP_LOGLESS || (loss && fsm->is_joined))
        rota_group_fsm_do(fsm, ROTA_GROUP_TELL_LOST)->loss = loss;
    rota_group_fsm_run_stop_all(fsm, true);
    leave_group(fsm);
    rota_group_fsm_send_forget(fsm);
    rota_group_fsm_send_end_snapshot(fsm);
    fsm->me = ROTA_GROUP_NOBODY;
    if (fsm->incarnation)
        fsm->former[fsm->n_former++ % ROTA_GROUP_FORMER_MAX] = fsm->incarnation;
    fsm->incarnation = 0;
    fsm->has_news = false;
    if (fsm->state == ROTA_GROUP_AT_LEAVING)
        fsm->state = ROTA_GROUP_AT_DONE;
    else if (fsm->state != ROTA_GROUP_AT_START)
        fsm->state = ROTA_GROUP_AT_READY;
}

void rota_group_fsm_fail(struct rota_group_fsm *fsm, enum rota_group_failure failure)
{
    rota_group_fsm_drop(fsm, ROTA_GROUP_NO_LOSS);
    fsm->state = ROTA_GROUP_AT_DONE;
    fsm->failure = failure;
    rota_group_fsm_do(fsm, ROTA_GROUP_FAIL)->failure = failure;
}

rota_time rota_group_fsm_fence_at(const struct rota_group_fsm *fsm)
{
    rota_time ok_at = rota_time_min(fsm->log_ok_at, fsm->group_ok_at);
    return ok_at == ROTA_TIME_MIN ? ROTA_TIME_MIN : rota_time_add(ok_at, fsm->options.fence_after);
}

static bool is_in_group(const struct rota_group_fsm *fsm)
{
    return fsm->state == ROTA_GROUP_AT_WAITING || fsm->state == ROTA_GROUP_AT_WORKING ||
           (fsm->state == ROTA_GROUP_AT_LEAVING && fsm->is_joined);
}

/* First of all, whatever the event is: stop what has run out of time. */
static void check_fence(struct rota_group_fsm *fsm, rota_time now)
{
    if (is_in_group(fsm) && now >= rota_group_fsm_fence_at(fsm))
        rota_group_fsm_drop(fsm, ROTA_GROUP_FENCED);
}

/* --- the group --- */

static void try_join(struct rota_group_fsm *fsm, rota_time now)
{
    enum { INCARNATION_SPREAD = 1 << 24 }; /* two processes of one name that start at once differ */
    bool is_fresh = fsm->replay == ROTA_GROUP_REPLAY_FOLD &&
                    now < rota_time_add(fsm->log_ok_at, fsm->options.fence_after);
    if (fsm->options.is_observer || fsm->state != ROTA_GROUP_AT_READY || fsm->n_stopping > 0 ||
        !is_fresh)
        return;
    if (fsm->fold.incarnation_floor >= ROTA_GROUP_NUMBER_MAX - INCARNATION_SPREAD) {
        rota_group_fsm_fail(fsm, ROTA_GROUP_OUT_OF_MEMORY);
        return;
    }
    fsm->incarnation =
        fsm->fold.incarnation_floor + 1 + rota_random_below(&fsm->random, INCARNATION_SPREAD);
    fsm->sequence = 0;
    fsm->is_joined = true;
    fsm->joined_at = fsm->waiting_since = now;
    fsm->state = ROTA_GROUP_AT_JOINING;
    rota_group_fsm_do(fsm, ROTA_GROUP_DO_JOIN)->incarnation = fsm->incarnation;
}

void rota_group_fsm_look_at_epoch(struct rota_group_fsm *fsm, rota_time now)
{
    if (fsm->state != ROTA_GROUP_AT_WAITING || fsm->me == ROTA_GROUP_NOBODY || fsm->needs_epoch ||
        fsm->fold.generation != fsm->generation)
        return;
    fsm->state = ROTA_GROUP_AT_WORKING;
    fsm->move_at = rota_time_add(now, fsm->options.move_every);
    for (size_t i = 0; i < fsm->held.size; i++) {
        rota_group_fsm_draft_mark(fsm, fsm->held.items[i]);
        rota_group_def_unref(fsm->held.items[i]);
    }
    fsm->held.size = 0;
}

/* The round's members, ourselves first: too many, and the last wait outside. */
static bool copy_members(struct rota_group_fsm *fsm, const struct rota_group_event *event)
{
    size_t size = 1;
    clear_members(fsm);
    for (size_t i = 0; i < event->n_members; i++)
        size += event->members[i].task.size;
    fsm->members = calloc(event->n_members + 1, sizeof *fsm->members);
    char *end = fsm->members_text = malloc(size);
    if (!fsm->members || !end)
        return false;
    fsm->members[fsm->n_members++].member = rota_group_self(fsm);
    for (size_t i = 0; i < event->n_members; i++) {
        struct rota_group_member member = event->members[i];
        if (!rota_group_is_task_name(member.task) || member.incarnation == 0 ||
            member.incarnation > ROTA_GROUP_NUMBER_MAX || fsm->n_members == ROTA_GROUP_TASKS_MAX ||
            rota_group_member_is_equal(member, rota_group_self(fsm)))
            continue;
        memcpy(end, member.task.data, member.task.size);
        fsm->members[fsm->n_members++].member =
            (struct rota_group_member){rota_str_of(end, member.task.size), member.incarnation};
        end += member.task.size;
    }
    return true;
}

bool rota_group_fsm_is_in_force(const struct rota_group_fsm *fsm)
{
    if (fsm->me == ROTA_GROUP_NOBODY || fsm->fold.leader != fsm->me ||
        fsm->fold.generation != fsm->generation || fsm->fold.n_tasks != fsm->n_members)
        return false;
    for (size_t i = 0; i < fsm->n_members; i++)
        if (!rota_group_fold_task(&fsm->fold, fsm->members[i].member))
            return false;
    return true;
}

static bool has_us(const struct rota_group_fsm *fsm, const struct rota_group_event *event)
{
    for (size_t i = 0; i < event->n_members; i++)
        if (rota_group_member_is_equal(event->members[i], rota_group_self(fsm)))
            return true;
    return false;
}

static void hear_round(struct rota_group_fsm *fsm, rota_time now,
                       const struct rota_group_event *event)
{
    bool is_new = fsm->state == ROTA_GROUP_AT_JOINING;
    if (!fsm->is_joined || fsm->state == ROTA_GROUP_AT_LEAVING || !has_us(fsm, event))
        return; /* a round that was made before we joined, or after we left */
    if (event->sent_at > fsm->group_ok_at)
        fsm->group_ok_at = event->sent_at;
    if (now >= rota_group_fsm_fence_at(fsm)) { /* it arrived too late to be of use */
        rota_group_fsm_drop(fsm, ROTA_GROUP_FENCED);
        return;
    }
    fsm->generation = event->generation;
    fsm->is_leader = event->is_leader;
    fsm->waiting_since = now;
    fsm->state = ROTA_GROUP_AT_WAITING;
    fsm->has_news = true;
    rota_group_fsm_do(fsm, ROTA_GROUP_TELL_ROUND)->number = fsm->generation;
    if (fsm->is_leader && !copy_members(fsm, event))
        fsm->is_out_of_memory = true;
    if (!fsm->is_leader)
        clear_members(fsm);
    rota_group_fsm_send_forget_epoch(fsm);
    fsm->needs_epoch = fsm->is_leader && !rota_group_fsm_is_in_force(fsm);
    rota_group_fsm_look_at_epoch(fsm, now);
    if (is_new)
        rota_group_fsm_run_look_at_all(fsm);
}

static void hear_group_ok(struct rota_group_fsm *fsm, rota_time sent_at)
{
    if (fsm->is_joined && sent_at >= fsm->joined_at && sent_at > fsm->group_ok_at)
        fsm->group_ok_at = sent_at;
}

static void check_wait(struct rota_group_fsm *fsm, rota_time now)
{
    bool is_waiting = fsm->state == ROTA_GROUP_AT_JOINING || fsm->state == ROTA_GROUP_AT_WAITING;
    if (is_waiting && now >= rota_time_add(fsm->waiting_since, fsm->options.wait_max))
        rota_group_fsm_drop(fsm, ROTA_GROUP_WAITED);
}

/* --- leaving --- */

static void begin_leave(struct rota_group_fsm *fsm, rota_time now)
{
    if (fsm->state == ROTA_GROUP_AT_LEAVING)
        return;
    if (!rota_group_may_run(fsm)) {
        rota_group_fsm_drop(fsm, ROTA_GROUP_NO_LOSS);
        fsm->state = ROTA_GROUP_AT_DONE;
        return;
    }
    fsm->state = ROTA_GROUP_AT_LEAVING;
    fsm->leaving_since = now;
    fsm->needs_epoch = false;
    rota_group_fsm_send_end_snapshot(fsm);
    rota_group_fsm_run_stop_all(fsm, false);
}

/* Gone once all have stopped and their last positions are in the log. */
static void check_leave(struct rota_group_fsm *fsm, rota_time now)
{
    if (fsm->state != ROTA_GROUP_AT_LEAVING)
        return;
    bool is_said = fsm->n_stopping == 0 && fsm->dirty.size == 0 && fsm->progressed.size == 0 &&
                   !fsm->send.record;
    if (is_said || now >= rota_time_add(fsm->leaving_since, fsm->options.fence_after))
        rota_group_fsm_drop(fsm, ROTA_GROUP_NO_LOSS);
}

/* --- the step --- */

static enum rota_code handle_event(struct rota_group_fsm *fsm, rota_time now,
                                   const struct rota_group_event *event, struct rota_error *error)
{
    switch (event->type) {
    case ROTA_GROUP_OPENED:
        rota_group_fsm_replay_open_log(fsm, event->first, event->end);
        break;
    case ROTA_GROUP_RECORD:
        rota_group_fsm_replay_hear_record(fsm, now, event);
        break;
    case ROTA_GROUP_LOG_OK:
        rota_group_fsm_replay_hear_end(fsm, event->sent_at);
        break;
    case ROTA_GROUP_LOG_LOST:
        rota_group_fsm_replay_lose_log(fsm);
        break;
    case ROTA_GROUP_APPENDED:
    case ROTA_GROUP_NOT_APPENDED:
        rota_group_fsm_send_hear_append(fsm, now, event);
        break;
    case ROTA_GROUP_REBALANCED:
        hear_round(fsm, now, event);
        break;
    case ROTA_GROUP_GROUP_OK:
        hear_group_ok(fsm, event->sent_at);
        break;
    case ROTA_GROUP_GROUP_LOST:
        if (fsm->is_joined)
            rota_group_fsm_drop(fsm, ROTA_GROUP_EXPELLED);
        break;
    case ROTA_GROUP_CHILD:
    case ROTA_GROUP_PROGRESS_MADE:
    case ROTA_GROUP_FINISHED_READING:
        return rota_group_fsm_run_hear_user(fsm, now, event, error);
    case ROTA_GROUP_STOPPED:
        rota_group_fsm_run_hear_stopped(fsm, event);
        break;
    case ROTA_GROUP_LEAVE:
        begin_leave(fsm, now);
        break;
    case ROTA_GROUP_TICK:
        break;
    }
    return ROTA_OK;
}

enum rota_code rota_group_fsm_step(struct rota_group_fsm *fsm, rota_time now,
                                   const struct rota_group_event *event, struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    clear_actions(fsm);
    if (fsm->state == ROTA_GROUP_AT_DONE) {
        if (event->type == ROTA_GROUP_STOPPED)
            rota_group_fsm_run_hear_stopped(fsm, event);
        say_farewell(fsm);
        return ROTA_OK;
    }
    check_fence(fsm, now);
    if (fsm->state != ROTA_GROUP_AT_DONE || event->type == ROTA_GROUP_STOPPED)
        code = handle_event(fsm, now, event, error);
    check_wait(fsm, now);
    say_farewell(fsm);
    try_join(fsm, now);
    rota_group_fsm_run_balance(fsm, now);
    rota_group_fsm_send_pump(fsm, now);
    check_leave(fsm, now);
    say_farewell(fsm);
    if (fsm->is_out_of_memory && fsm->state != ROTA_GROUP_AT_DONE) {
        clear_actions(fsm);
        fsm->state = ROTA_GROUP_AT_DONE;
        fsm->failure = ROTA_GROUP_OUT_OF_MEMORY;
        rota_group_fsm_do(fsm, ROTA_GROUP_FAIL)->failure = fsm->failure;
    }
    return code;
}

const struct rota_group_action *rota_group_fsm_actions(const struct rota_group_fsm *fsm, size_t *n)
{
    *n = fsm->actions.size;
    return fsm->actions.items;
}

rota_time rota_group_fsm_deadline(const struct rota_group_fsm *fsm)
{
    rota_time at = ROTA_TIME_NEVER;
    const struct rota_group_fsm_options *options = &fsm->options;
    if (fsm->state == ROTA_GROUP_AT_DONE)
        return at;
    if (is_in_group(fsm))
        at = rota_time_min(at, rota_group_fsm_fence_at(fsm));
    if (fsm->state == ROTA_GROUP_AT_JOINING || fsm->state == ROTA_GROUP_AT_WAITING)
        at = rota_time_min(at, rota_time_add(fsm->waiting_since, options->wait_max));
    if (fsm->state == ROTA_GROUP_AT_LEAVING)
        at = rota_time_min(at, rota_time_add(fsm->leaving_since, options->fence_after));
    if (fsm->send.record && !fsm->send.number && !fsm->send.is_appended)
        at = rota_time_min(at, fsm->send.retry_at);
    if (fsm->epoch_send.record && !fsm->epoch_send.number && !fsm->epoch_send.is_appended)
        at = rota_time_min(at, fsm->epoch_send.retry_at);
    if (rota_group_may_run(fsm) && fsm->progressed.size > 0 && !fsm->send.record)
        at = rota_time_min(at, fsm->progress_at);
    if (fsm->state == ROTA_GROUP_AT_WORKING && fsm->me != ROTA_GROUP_NOBODY) {
        if (fsm->full_until > 0 && !fsm->send.record)
            at = rota_time_min(at, fsm->full_until);
        if (options->move_every > 0)
            at = rota_time_min(at, fsm->move_at);
        if (options->withdraw_after > 0 && fsm->offers.size > 0 && !fsm->send.record)
            at = rota_time_min(at, rota_time_add(fsm->offers.items[0].at, options->withdraw_after));
    }
    return at;
}

/* --- questions --- */

bool rota_group_fsm_is_current(const struct rota_group_fsm *fsm, rota_time now,
                               struct rota_str partition, uint64_t token)
{
    const struct rota_group_run *run = rota_group_fsm_run_find(fsm, partition);
    return run && rota_group_may_run(fsm) && !run->is_stopping && !run->is_lost && !run->is_ended &&
           run->token == token && now < rota_group_fsm_fence_at(fsm);
}

uint64_t rota_group_fsm_trim_below(const struct rota_group_fsm *fsm)
{
    bool may_trim = fsm->state == ROTA_GROUP_AT_WORKING && fsm->me != ROTA_GROUP_NOBODY &&
                    fsm->fold.leader == fsm->me;
    return may_trim ? fsm->fold.replay_before : 0;
}

size_t rota_group_fsm_running(const struct rota_group_fsm *fsm)
{
    size_t n = 0;
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(&fsm->runs, &place));) {
        const struct rota_group_run *run = entry->value;
        n += !run->is_stopping && !run->is_ended && !run->is_lost;
    }
    return n;
}

static const char *explain_open_parent(const struct rota_group_fsm *fsm,
                                       const struct rota_group_def *def, struct rota_str *name)
{
    for (uint32_t i = 0; i < def->n_parents; i++) {
        const struct rota_group_partition *parent =
            rota_group_fold_find(&fsm->fold, def->parents[i]);
        enum rota_group_life life = parent ? rota_group_fold_life(parent) : ROTA_GROUP_NAMED;
        *name = def->parents[i].text;
        if (life == ROTA_GROUP_NAMED)
            return "is unknown so far";
        if (life != ROTA_GROUP_FINISHED && life != ROTA_GROUP_REMOVED)
            return "is not finished";
    }
    *name = rota_str("");
    return "";
}

char *rota_group_fsm_explain(const struct rota_group_fsm *fsm, struct rota_str partition,
                             char *text, size_t size)
{
    struct rota_group_name name = {partition, rota_group_hash(partition)};
    const struct rota_group_partition *found = rota_group_fold_find(&fsm->fold, name);
    const struct rota_group_run *run = rota_group_fsm_run_find(fsm, partition);
    enum rota_group_life life = found ? rota_group_fold_life(found) : ROTA_GROUP_NAMED;
    const struct rota_group_task *tasks = fsm->fold.tasks.items;
    struct rota_str parent = {0}, owner = {0}, target = {0};
    const char *why = "";
    unsigned long long token = found ? (unsigned long long)found->token : 0;
    if (found && found->owner != ROTA_GROUP_NOBODY)
        owner = tasks[found->owner].member.task;
    if (found && found->target != ROTA_GROUP_NOBODY)
        target = tasks[found->target].member.task;
    switch (life) {
    case ROTA_GROUP_NAMED:
        snprintf(text, size,
                 found ? "it has child partitions, but no task has reported it yet"
                       : "no task has reported it, or it was removed long ago");
        break;
    case ROTA_GROUP_CREATED:
        why = explain_open_parent(fsm, found->def, &parent);
        snprintf(text, size, "it waits, %s %.*s, because its parent %.*s %s",
                 owner.size ? "with" : "offered to", ROTA_STR_ARGS(owner.size ? owner : target),
                 ROTA_STR_ARGS(parent), why);
        break;
    case ROTA_GROUP_READY:
        snprintf(text, size, "it is offered to %.*s, which has not accepted it yet",
                 ROTA_STR_ARGS(target));
        break;
    case ROTA_GROUP_RUNNING:
        snprintf(text, size, "task %.*s owns it with fencing token %llu%s", ROTA_STR_ARGS(owner),
                 token, run && run->is_stopping ? "; its reader on this task is stopping" : "");
        break;
    case ROTA_GROUP_FINISHED:
        if (found->n_children > 0)
            snprintf(text, size, "it is finished; %u of its child partitions are not",
                     found->n_children);
        else
            snprintf(text, size, "it is finished; %.*s will remove it", ROTA_STR_ARGS(owner));
        break;
    case ROTA_GROUP_REMOVED:
        snprintf(text, size, "it is finished and removed");
        break;
    }
    return text;
}

const char *rota_group_fsm_state_name(enum rota_group_state state)
{
    static const char *const names[] = {"start",   "ready",   "joining", "waiting",
                                        "working", "leaving", "done"};
    return (unsigned)state < sizeof names / sizeof *names ? names[state] : "unknown";
}

const char *rota_group_fsm_loss_name(enum rota_group_loss loss)
{
    static const char *const names[] = {"none",     "fenced", "expelled",
                                        "unlisted", "waited", "log_lost"};
    return (unsigned)loss < sizeof names / sizeof *names ? names[loss] : "unknown";
}

const char *rota_group_fsm_failure_name(enum rota_group_failure failure)
{
    static const char *const names[] = {"none", "log_cut", "log_shrank", "snapshot_broken",
                                        "out_of_memory"};
    return (unsigned)failure < sizeof names / sizeof *names ? names[failure] : "unknown";
}
