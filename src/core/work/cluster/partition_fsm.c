#include "core/work/cluster/partition_fsm.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = sizeof(uint32_t) + ROTA_JOB_QUEUE_NAME_MAX };
enum { MORE = 8 }; /* actions of a step that are not about one partition */

/* Two about each partition. */
static bool reserve_actions(struct rota_partition_fsm *fsm, size_t n_parts)
{
    return rota_vector_reserve(&fsm->actions, fsm->actions.size + 2 * n_parts + MORE);
}

bool rota_partition_fsm_init(struct rota_partition_fsm *fsm,
                             const struct rota_partition_options *options)
{
    *fsm = (struct rota_partition_fsm){.options = *options};
    rota_map_init(&fsm->parts, options->seed);
    return reserve_actions(fsm, 0);
}

void rota_partition_fsm_clear(struct rota_partition_fsm *fsm)
{
    fsm->actions.size = 0;
    while (fsm->trash.size > 0)
        free(fsm->trash.items[--fsm->trash.size]);
}

void rota_partition_fsm_deinit(struct rota_partition_fsm *fsm)
{
    const struct rota_map_entry *entry;
    rota_partition_fsm_clear(fsm);
    for (size_t place = 0; (entry = rota_map_next(&fsm->parts, &place));)
        free(entry->value);
    rota_map_deinit(&fsm->parts);
    rota_vector_deinit(&fsm->actions);
    rota_vector_deinit(&fsm->trash);
}

/* --- the list --- */

static struct rota_str write_key(char key[KEY_MAX], struct rota_str queue, uint32_t number)
{
    size_t size = queue.size < ROTA_JOB_QUEUE_NAME_MAX ? queue.size : ROTA_JOB_QUEUE_NAME_MAX;
    memcpy(key, &number, sizeof number);
    memcpy(key + sizeof number, queue.data, size);
    return rota_str_of(key, sizeof number + size);
}

struct rota_partition_held *rota_partition_fsm_find(const struct rota_partition_fsm *fsm,
                                                    struct rota_str queue, uint32_t number)
{
    char key[KEY_MAX];
    return rota_map_get(&fsm->parts, write_key(key, queue, number));
}

static void set_state(struct rota_partition_fsm *fsm, struct rota_partition_held *part,
                      enum rota_partition_state state)
{
    fsm->n_in[part->state]--;
    fsm->n_in[state]++;
    part->state = state;
}

/* Reserve room for everything that may have to be reported about it: a write that the store rejects
 * must have its consequences, even without memory. */
static bool want_part(struct rota_partition_fsm *fsm, struct rota_str queue, uint32_t number)
{
    struct rota_partition_held *part = rota_partition_fsm_find(fsm, queue, number);
    if (part || rota_job_queue_check(queue, NULL))
        return part != NULL;
    size_t n = fsm->parts.size + fsm->trash.size + 1;
    part = calloc(1, sizeof *part + KEY_MAX);
    if (!part)
        return false;
    part->number = number;
    part->key = write_key(part->bytes, queue, number);
    part->queue = rota_str_of(part->bytes + sizeof number, queue.size);
    if (!rota_vector_reserve(&fsm->trash, n) || !reserve_actions(fsm, n) ||
        !rota_map_put(&fsm->parts, part->key, part)) {
        free(part);
        return false;
    }
    fsm->n_in[part->state]++;
    return true;
}

static struct rota_partition_action *add_action(struct rota_partition_fsm *fsm,
                                                enum rota_partition_action_type type,
                                                struct rota_partition_held *part)
{
    struct rota_partition_action *action = &fsm->actions.items[fsm->actions.size++];
    *action = (struct rota_partition_action){.type = type, .part = part};
    return action;
}

/* None of its jobs is left, here or in flight. */
static void forget_part(struct rota_partition_fsm *fsm, struct rota_work_now now,
                        struct rota_partition_held *part, enum rota_partition_end end,
                        const char *why)
{
    struct rota_partition_action *action = add_action(fsm, ROTA_PARTITION_DO_FORGET, part);
    action->end = end;
    action->text = why;
    action->is_kept = rota_broker_partition_drop(fsm->options.broker, now, part->queue,
                                                 part->number, NULL) != ROTA_OK;
    for (size_t i = 0; fsm->is_taking && i < fsm->n_taken; i++)
        if (fsm->taken[i] == part)
            fsm->taken[i] = NULL;
    if (fsm->loaded == part)
        fsm->loaded = NULL;
    fsm->n_in[part->state]--;
    rota_map_remove(&fsm->parts, part->key);
    fsm->trash.items[fsm->trash.size++] = part;
}

static enum rota_partition_owner owner_of(const struct rota_partition_fsm *fsm,
                                          struct rota_str queue, uint32_t number)
{
    return fsm->options.owner(fsm->options.data, queue, number);
}

static bool is_ours(const struct rota_partition_fsm *fsm, struct rota_str queue, uint32_t number)
{
    return owner_of(fsm, queue, number) == ROTA_PARTITION_OURS;
}

/* --- leaving --- */

static void leave_part(struct rota_partition_fsm *fsm, struct rota_work_now now,
                       struct rota_partition_held *part)
{
    struct rota_broker *broker = fsm->options.broker;
    if (part->state == ROTA_PARTITION_LEAVING)
        return;
    if (part->state != ROTA_PARTITION_OPEN) {
        forget_part(fsm, now, part, ROTA_PARTITION_DROPPED, "another node owns it");
        return;
    }
    if (rota_broker_partition_close(broker, now, part->queue, part->number, &fsm->error)) {
        add_action(fsm, ROTA_PARTITION_DO_UNCLOSED, part)->text = fsm->error.text;
        return; /* at the next check */
    }
    part->until = rota_broker_last_number(broker);
    set_state(fsm, part, ROTA_PARTITION_LEAVING);
}

/* Its last changes are written. One whose queue was deleted is ours until its row is gone, so that
 * no check meanwhile wants it again. */
static void finish_leaving(struct rota_partition_fsm *fsm, struct rota_work_now now)
{
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(&fsm->parts, &place));) {
        struct rota_partition_held *part = entry->value;
        if (part->state != ROTA_PARTITION_LEAVING || part->until > fsm->durable)
            continue;
        if (!part->is_deleted) {
            forget_part(fsm, now, part, ROTA_PARTITION_RELEASED, "another node owns it");
            place = 0; /* the map has changed */
        } else if (!part->is_removing) {
            part->is_removing = true;
            add_action(fsm, ROTA_PARTITION_DO_REMOVE, part);
        }
    }
}

static void delete_queue(struct rota_partition_fsm *fsm, struct rota_work_now now,
                         struct rota_str queue)
{
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(&fsm->parts, &place));) {
        struct rota_partition_held *part = entry->value;
        if (part->state != ROTA_PARTITION_OPEN || !rota_str_is_equal(part->queue, queue))
            continue; /* another node has it, or soon will */
        leave_part(fsm, now, part);
        part->is_deleted = part->state == ROTA_PARTITION_LEAVING;
    }
}

static void remove_part(struct rota_partition_fsm *fsm, struct rota_work_now now,
                        const struct rota_partition_event *event)
{
    struct rota_partition_held *part = rota_partition_fsm_find(fsm, event->queue, event->number);
    if (!part || !part->is_removing || part->epoch != event->epoch)
        return;
    if (event->is_failed)
        part->is_removing = false; /* asked again */
    else
        forget_part(fsm, now, part, ROTA_PARTITION_REMOVED_ROW, "its queue was deleted");
}

/* --- taking and loading --- */

static void take_wanted(struct rota_partition_fsm *fsm)
{
    const struct rota_map_entry *entry;
    fsm->n_taken = 0;
    for (size_t place = 0;
         fsm->n_taken < ROTA_PARTITION_TAKE_MAX && (entry = rota_map_next(&fsm->parts, &place));) {
        struct rota_partition_held *part = entry->value;
        if (part->state != ROTA_PARTITION_WANTED)
            continue;
        set_state(fsm, part, ROTA_PARTITION_TAKING);
        fsm->taken[fsm->n_taken++] = part;
    }
    fsm->is_taking = true;
    add_action(fsm, ROTA_PARTITION_DO_TAKE, NULL);
}

static void hear_taken(struct rota_partition_fsm *fsm, struct rota_work_now now,
                       const struct rota_partition_event *event)
{
    bool is_taken =
        !event->is_failed && !rota_broker_raise_life(fsm->options.broker, now, event->epoch, NULL);
    fsm->is_taking = false;
    for (size_t i = 0; i < fsm->n_taken; i++) {
        struct rota_partition_held *part = fsm->taken[i];
        if (!part)
            continue;
        if (is_taken)
            part->epoch = event->epoch;
        set_state(fsm, part, is_taken ? ROTA_PARTITION_LOADING : ROTA_PARTITION_WANTED);
    }
}

static void load_next(struct rota_partition_fsm *fsm)
{
    const struct rota_map_entry *entry;
    for (size_t place = 0; !fsm->loaded && (entry = rota_map_next(&fsm->parts, &place));) {
        struct rota_partition_held *part = entry->value;
        if (part->state == ROTA_PARTITION_LOADING)
            fsm->loaded = part;
        fsm->is_load_begun = false;
    }
    add_action(fsm, ROTA_PARTITION_DO_LOAD, fsm->loaded)->is_first = !fsm->is_load_begun;
    fsm->is_load_begun = fsm->is_loading = true;
}

static void resume_calls(struct rota_partition_fsm *fsm, const char *why)
{
    add_action(fsm, ROTA_PARTITION_DO_RESUME, NULL)->text = why;
}

static void lose_part(struct rota_partition_fsm *fsm, struct rota_work_now now,
                      struct rota_partition_held *part, const char *why)
{
    forget_part(fsm, now, part, ROTA_PARTITION_LOST, why);
}

static void hear_loaded(struct rota_partition_fsm *fsm, struct rota_work_now now,
                        const struct rota_partition_event *event)
{
    struct rota_partition_held *part = fsm->loaded;
    fsm->is_loading = false;
    if (event->is_failed || !event->is_last || !part)
        return;
    fsm->loaded = NULL;
    if (rota_broker_partition_open(fsm->options.broker, now, part->queue, part->number, part->epoch,
                                   &fsm->error)) {
        lose_part(fsm, now, part, fsm->error.text);
        resume_calls(fsm, fsm->error.text);
        return;
    }
    set_state(fsm, part, ROTA_PARTITION_OPEN);
    add_action(fsm, ROTA_PARTITION_DO_OPENED, part);
    resume_calls(fsm, NULL);
}

/* --- checks --- */

/* If a check finds that we lost a partition which the route still gives to us, we want it back
 * at once: the calls that wait for this check would otherwise get the answer that its jobs do
 * not exist. */
static void see_row(struct rota_partition_fsm *fsm, struct rota_work_now now,
                    const struct rota_partition_event *event)
{
    struct rota_partition_held *part = rota_partition_fsm_find(fsm, event->queue, event->number);
    if (part) {
        part->is_seen = true;
        if (part->state < ROTA_PARTITION_LOADING ||
            (event->epoch == part->epoch && event->instance == fsm->options.instance))
            return;
        lose_part(fsm, now, part, "another node took it over");
    }
    bool may_take = !fsm->options.is_alone || !fsm->was_checked || event->is_waited_for;
    if (may_take && is_ours(fsm, event->queue, event->number))
        want_part(fsm, event->queue, event->number);
}

/* Partitions that the table does not have, and those that the route gives to others. */
static void check_parts(struct rota_partition_fsm *fsm, struct rota_work_now now)
{
    const struct rota_map_entry *entry;
    size_t n = 0;
    struct rota_partition_held **parts = malloc((fsm->parts.size + 1) * sizeof *parts);
    if (!parts)
        return; /* at the next check */
    for (size_t place = 0; (entry = rota_map_next(&fsm->parts, &place));)
        parts[n++] = entry->value;
    for (size_t i = 0; i < n; i++) {
        struct rota_partition_held *part = parts[i];
        bool is_seen = part->is_seen, has_row = part->state >= ROTA_PARTITION_LOADING;
        part->is_seen = false;
        if (!is_seen && has_row && part->epoch > 0 && part->is_old)
            lose_part(fsm, now, part, "its row is gone");
        else if (!is_ours(fsm, part->queue, part->number))
            leave_part(fsm, now, part);
        else
            part->is_old = has_row;
    }
    free((void *)parts);
}

/* Before any node is known, our partitions are not known either. */
static void hear_checked(struct rota_partition_fsm *fsm, struct rota_work_now now,
                         const struct rota_partition_event *event)
{
    fsm->is_checking = false;
    if (event->is_failed)
        return;
    check_parts(fsm, now);
    fsm->is_checked = owner_of(fsm, rota_str("any"), 0) != ROTA_PARTITION_NOBODYS;
    fsm->was_checked = true;
    fsm->checked_at = fsm->check_began_at;
    fsm->check_at = rota_time_add(now.boot, ROTA_PARTITION_CHECK);
    resume_calls(fsm, NULL);
}

/* --- doors --- */

static void do_what_is_due(struct rota_partition_fsm *fsm, struct rota_work_now now)
{
    if (fsm->n_in[ROTA_PARTITION_LEAVING] > 0)
        finish_leaving(fsm, now);
    if (!fsm->is_up)
        return;
    if (!fsm->is_checking && now.boot >= fsm->check_at) {
        fsm->check_began_at = now.boot;
        fsm->is_checking = true;
        add_action(fsm, ROTA_PARTITION_DO_CHECK, NULL);
    }
    if (fsm->n_in[ROTA_PARTITION_WANTED] > 0 && !fsm->is_taking)
        take_wanted(fsm);
    if (fsm->n_in[ROTA_PARTITION_LOADING] > 0 && !fsm->is_loading)
        load_next(fsm);
    if (!fsm->is_settled && rota_partition_fsm_is_loaded(fsm)) {
        fsm->is_settled = true;
        resume_calls(fsm, NULL);
    }
}

static void hear(struct rota_partition_fsm *fsm, struct rota_work_now now,
                 const struct rota_partition_event *event)
{
    struct rota_partition_held *part;
    switch (event->type) {
    case ROTA_PARTITION_TURN:
        fsm->durable = event->durable > fsm->durable ? event->durable : fsm->durable;
        break;
    case ROTA_PARTITION_UP:
        fsm->is_up = true;
        fsm->check_at = now.boot;
        break;
    case ROTA_PARTITION_DOWN:
        fsm->is_up = fsm->is_checked = false;
        break;
    case ROTA_PARTITION_ROUTE:
        fsm->is_checked = false;
        fsm->check_at = now.boot;
        break;
    case ROTA_PARTITION_WAITS:
        fsm->check_at = rota_time_min(fsm->check_at,
                                      rota_time_add(fsm->check_began_at, ROTA_PARTITION_CHECK_MIN));
        break;
    case ROTA_PARTITION_ROW:
        see_row(fsm, now, event);
        break;
    case ROTA_PARTITION_CHECKED:
        hear_checked(fsm, now, event);
        break;
    case ROTA_PARTITION_TAKEN:
        hear_taken(fsm, now, event);
        break;
    case ROTA_PARTITION_LOADED:
        hear_loaded(fsm, now, event);
        break;
    case ROTA_PARTITION_REJECTED:
        part = rota_partition_fsm_find(fsm, event->queue, event->number);
        if (part && part->epoch == event->epoch)
            lose_part(fsm, now, part, "the store rejected a write");
        break;
    case ROTA_PARTITION_UNUSABLE:
        fsm->is_loading = false;
        if (!fsm->loaded)
            break;
        lose_part(fsm, now, fsm->loaded, event->error);
        resume_calls(fsm, event->error);
        break;
    case ROTA_PARTITION_DELETED:
        delete_queue(fsm, now, event->queue);
        break;
    case ROTA_PARTITION_REMOVED:
        remove_part(fsm, now, event);
        break;
    }
}

/* The reservation fails only inside another step's RESUME, where no event has actions. */
void rota_partition_fsm_step(struct rota_partition_fsm *fsm, struct rota_work_now now,
                             const struct rota_partition_event *event)
{
    bool has_room = reserve_actions(fsm, fsm->parts.size);
    if (has_room || event->type == ROTA_PARTITION_WAITS)
        hear(fsm, now, event);
    if (has_room && event->type != ROTA_PARTITION_ROW && event->type != ROTA_PARTITION_WAITS)
        do_what_is_due(fsm, now);
}

rota_time rota_partition_fsm_deadline(const struct rota_partition_fsm *fsm)
{
    return fsm->is_up && !fsm->is_checking ? fsm->check_at : ROTA_TIME_NEVER;
}

/* --- questions --- */

bool rota_partition_fsm_is_loaded(const struct rota_partition_fsm *fsm)
{
    return fsm->is_checked && fsm->n_in[ROTA_PARTITION_WANTED] == 0 &&
           fsm->n_in[ROTA_PARTITION_TAKING] == 0 && fsm->n_in[ROTA_PARTITION_LOADING] == 0;
}

bool rota_partition_fsm_must_wait_to_add(struct rota_partition_fsm *fsm, struct rota_str queue,
                                         uint32_t number)
{
    const struct rota_partition_held *part = rota_partition_fsm_find(fsm, queue, number);
    if (part)
        return part->state < ROTA_PARTITION_OPEN;
    enum rota_partition_owner owner = owner_of(fsm, queue, number);
    return owner == ROTA_PARTITION_NOBODYS ||
           (owner == ROTA_PARTITION_OURS && want_part(fsm, queue, number));
}

bool rota_partition_fsm_must_wait(const struct rota_partition_fsm *fsm, struct rota_str queue,
                                  uint32_t number, rota_time since)
{
    const struct rota_partition_held *part = rota_partition_fsm_find(fsm, queue, number);
    if (part && part->state < ROTA_PARTITION_OPEN)
        return true;
    bool may_have = part ? part->state == ROTA_PARTITION_OPEN
                         : owner_of(fsm, queue, number) != ROTA_PARTITION_ANOTHERS;
    bool is_fresh = fsm->is_checked && since > 0 && fsm->checked_at >= since;
    return may_have && !is_fresh;
}

bool rota_partition_fsm_vouches(const struct rota_partition_fsm *fsm, struct rota_str queue,
                                uint32_t number)
{
    const struct rota_partition_held *part = rota_partition_fsm_find(fsm, queue, number);
    return part ? part->state == ROTA_PARTITION_OPEN : is_ours(fsm, queue, number);
}
