#include "core/own/group_fsm_inside.h"

#include <stdlib.h>

struct rota_group_run *rota_group_fsm_run_find(const struct rota_group_fsm *fsm,
                                               struct rota_str name)
{
    return rota_map_get(&fsm->runs, name);
}

static void drop_children(struct rota_group_fsm *fsm, struct rota_group_run *run)
{
    for (size_t i = 0; i < run->children.size; i++)
        rota_group_pending_deinit(&run->children.items[i]);
    fsm->n_children -= run->children.size;
    run->children.size = 0;
}

void rota_group_fsm_run_free(struct rota_group_fsm *fsm, struct rota_group_run *run)
{
    fsm->n_stopping -= run->is_stopping;
    fsm->n_moving -= run->is_moving;
    drop_children(fsm, run);
    rota_vector_deinit(&run->children);
    rota_group_def_unref(run->def);
    rota_group_blob_unref(run->position);
    free(run);
}

void rota_group_fsm_run_end(struct rota_group_fsm *fsm, struct rota_group_run *run)
{
    rota_map_remove(&fsm->runs, run->def->name.text);
    rota_group_fsm_run_free(fsm, run);
}

static void stop_run(struct rota_group_fsm *fsm, struct rota_group_run *run, bool is_lost)
{
    if (is_lost) {
        run->is_lost = true;
        drop_children(fsm, run);
        run->has_progress = run->has_finish = false;
    }
    if (run->is_stopping || run->is_ended)
        return;
    struct rota_group_action *action = rota_group_fsm_do(fsm, ROTA_GROUP_DO_STOP);
    action->def = rota_group_def_ref(run->def);
    action->token = run->token;
    run->is_stopping = true;
    fsm->n_stopping++;
}

void rota_group_fsm_run_stop_all(struct rota_group_fsm *fsm, bool is_lost)
{
    const struct rota_map_entry *entry;
    ROTA_VECTOR(struct rota_group_run *) ended = {0};
    for (size_t place = 0; (entry = rota_map_next(&fsm->runs, &place));) {
        struct rota_group_run *run = entry->value;
        stop_run(fsm, run, is_lost);
        if (is_lost && run->is_ended && !rota_vector_push(&ended, run))
            fsm->is_out_of_memory = true;
    }
    for (size_t i = 0; i < ended.size; i++) /* no task reads it, and another task moves it */
        rota_group_fsm_run_end(fsm, ended.items[i]);
    rota_vector_deinit(&ended);
}

/* --- changes by the fold --- */

static void start_run(struct rota_group_fsm *fsm, const struct rota_group_partition *partition)
{
    struct rota_group_run *run = calloc(1, sizeof *run);
    if (!run || !rota_map_put(&fsm->runs, partition->def->name.text, run)) {
        free(run);
        fsm->is_out_of_memory = true;
        return;
    }
    run->def = rota_group_def_ref(partition->def);
    run->token = partition->token;
    run->mark = partition->mark;
    run->position = rota_group_blob_ref(partition->position);
    struct rota_group_action *action = rota_group_fsm_do(fsm, ROTA_GROUP_DO_START);
    action->def = rota_group_def_ref(partition->def);
    action->position = rota_group_blob_ref(partition->position);
    action->token = partition->token;
    action->mark = partition->mark;
}

/* A run that the fold may have changed; NULL when it has ended. */
static struct rota_group_run *check_run(struct rota_group_fsm *fsm,
                                        const struct rota_group_partition *partition,
                                        struct rota_group_run *run)
{
    bool is_ours = partition->owner == fsm->me && partition->token == run->token;
    if (is_ours && rota_group_fold_life(partition) == ROTA_GROUP_RUNNING)
        return run;
    if (is_ours && !run->is_stopping) { /* finished: the reader reported it */
        rota_group_fsm_run_end(fsm, run);
        return NULL;
    }
    if (!is_ours && run->is_ended) { /* moved */
        rota_group_fsm_run_end(fsm, run);
        return NULL;
    }
    stop_run(fsm, run, true);
    return run;
}

/* Whether something follows from the fold alone that has to be written about it. */
static bool is_due(const struct rota_group_fsm *fsm, const struct rota_group_partition *partition)
{
    const struct rota_group_fold *fold = &fsm->fold;
    if (partition->target == fsm->me)
        return true;
    if (partition->owner == fsm->me && partition->n_children == 0 && fold->is_seeded &&
        rota_group_fold_life(partition) == ROTA_GROUP_FINISHED)
        return true;
    return partition->sharer && partition->sharer == fold->tasks.items[fsm->me].serial &&
           partition->owner != ROTA_GROUP_NOBODY;
}

void rota_group_fsm_run_look(struct rota_group_fsm *fsm, uint32_t place)
{
    const struct rota_group_partition *partition = &fsm->fold.partitions.items[place];
    if (!partition->def || fsm->me == ROTA_GROUP_NOBODY)
        return;
    struct rota_group_run *run = rota_group_fsm_run_find(fsm, partition->def->name.text);
    if (run && !run->is_lost)
        run = check_run(fsm, partition, run);
    bool may_start = fsm->state == ROTA_GROUP_AT_WAITING || fsm->state == ROTA_GROUP_AT_WORKING;
    if (!run && may_start && partition->owner == fsm->me &&
        rota_group_fold_life(partition) == ROTA_GROUP_RUNNING)
        start_run(fsm, partition);
    if (is_due(fsm, partition))
        rota_group_fsm_draft_mark(fsm, partition->def);
}

void rota_group_fsm_run_look_at_touched(struct rota_group_fsm *fsm)
{
    for (size_t i = 0; i < fsm->fold.touched.size && fsm->me != ROTA_GROUP_NOBODY; i++)
        rota_group_fsm_run_look(fsm, fsm->fold.touched.items[i]);
}

void rota_group_fsm_run_look_at_all(struct rota_group_fsm *fsm)
{
    uint32_t place = ROTA_GROUP_NOBODY;
    if (fsm->me == ROTA_GROUP_NOBODY)
        return;
    while (rota_group_fold_next_of(&fsm->fold, &fsm->fold.tasks.items[fsm->me], &place))
        rota_group_fsm_run_look(fsm, place);
}

/* --- reports of the user --- */

void rota_group_fsm_run_hear_stopped(struct rota_group_fsm *fsm,
                                     const struct rota_group_event *event)
{
    struct rota_group_run *run = rota_group_run_of(fsm, event);
    if (!run || !run->is_stopping)
        return;
    run->is_stopping = false;
    fsm->n_stopping--;
    if (!run->is_lost) {
        run->is_ended = true;
        rota_group_fsm_draft_mark(fsm, run->def);
        return;
    }
    struct rota_group_def *def = rota_group_def_ref(run->def);
    rota_group_fsm_run_end(fsm, run);
    const struct rota_group_partition *partition = rota_group_fold_find(&fsm->fold, def->name);
    if (partition && rota_group_may_run(fsm)) /* it may be ours again by now */
        rota_group_fsm_run_look(fsm, (uint32_t)(partition - fsm->fold.partitions.items));
    rota_group_def_unref(def);
}

static enum rota_code check_child(const struct rota_group_fsm *fsm,
                                  const struct rota_group_event *event, struct rota_error *error)
{
    const struct rota_group_def *child = event->child;
    bool has_parent = event->partition.size == 0 && child->n_parents == 0;
    if (!rota_group_is_name(child->name.text))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a partition's name must be UTF-8 of 1 to %d bytes",
                              ROTA_GROUP_NAME_MAX);
    for (uint32_t i = 0; i < child->n_parents; i++) {
        struct rota_str parent = child->parents[i].text;
        has_parent = has_parent || rota_str_is_equal(parent, event->partition);
        if (!rota_group_is_name(parent) || rota_str_is_equal(parent, child->name.text))
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "a parent of a partition has an invalid name");
    }
    if (!has_parent)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a child must be reported by one of its parents");
    if (event->position.size > ROTA_GROUP_POSITION_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the position has %zu bytes; at most %d are allowed",
                              event->position.size, ROTA_GROUP_POSITION_MAX);
    if (fsm->n_children >= ROTA_GROUP_CHILDREN_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "%d partitions are already waiting to be reported",
                              ROTA_GROUP_CHILDREN_MAX);
    return ROTA_OK;
}

static enum rota_code hear_child(struct rota_group_fsm *fsm, const struct rota_group_event *event,
                                 struct rota_error *error)
{
    struct rota_group_run *run = rota_group_run_of(fsm, event);
    enum rota_code code = check_child(fsm, event, error);
    bool is_root = event->partition.size == 0;
    if (code)
        return code;
    if ((!is_root && (!run || run->is_lost)) ||
        rota_group_fsm_draft_is_known(fsm, event->child->name))
        return ROTA_OK;
    struct rota_group_pending pending = {
        .def = rota_group_def_ref(event->child),
        .mark = event->mark,
        .position = rota_group_blob_new(event->position),
    };
    if (!pending.position || !(is_root ? rota_vector_push(&fsm->roots, pending)
                                       : rota_vector_push(&run->children, pending))) {
        rota_group_pending_deinit(&pending);
        return rota_error_no_memory(error, "for a new partition");
    }
    fsm->n_children++;
    if (run)
        rota_group_fsm_draft_mark(fsm, run->def);
    return ROTA_OK;
}

static enum rota_code hear_position(struct rota_group_run *run,
                                    const struct rota_group_event *event, struct rota_error *error)
{
    if (event->position.size > ROTA_GROUP_POSITION_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the position has %zu bytes; at most %d are allowed",
                              event->position.size, ROTA_GROUP_POSITION_MAX);
    if (event->mark < run->mark)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a position with watermark %lld after one with watermark %lld",
                              (long long)event->mark, (long long)run->mark);
    struct rota_blob *position = rota_group_blob_new(event->position);
    if (!position)
        return rota_error_no_memory(error, "for a position");
    rota_group_blob_unref(run->position);
    run->position = position;
    run->mark = event->mark;
    run->has_progress = true;
    return ROTA_OK;
}

/* Positions are batched: one record for many, now and then. */
void rota_group_fsm_run_mark_late(struct rota_group_fsm *fsm, rota_time now,
                                  struct rota_group_run *run)
{
    if (run->is_late)
        return;
    if (!rota_vector_push(&fsm->progressed, run->def)) {
        fsm->is_out_of_memory = true;
        return;
    }
    rota_group_def_ref(run->def);
    run->is_late = true;
    if (fsm->progressed.size == 1)
        fsm->progress_at = rota_time_add(now, fsm->options.progress_every);
}

enum rota_code rota_group_fsm_run_hear_user(struct rota_group_fsm *fsm, rota_time now,
                                            const struct rota_group_event *event,
                                            struct rota_error *error)
{
    if (event->type == ROTA_GROUP_CHILD)
        return hear_child(fsm, event, error);
    struct rota_group_run *run = rota_group_run_of(fsm, event);
    if (!run || run->is_lost || run->is_ended || run->has_finish)
        return ROTA_OK;
    bool is_finish = event->type == ROTA_GROUP_FINISHED_READING;
    if (!is_finish || event->position.size > 0 || event->mark > run->mark) {
        enum rota_code code = hear_position(run, event, error);
        if (code)
            return code;
    }
    if (is_finish) {
        run->has_finish = true;
        run->is_end = event->is_end;
        rota_group_fsm_draft_mark(fsm, run->def);
    } else {
        rota_group_fsm_run_mark_late(fsm, now, run);
    }
    return ROTA_OK;
}

/* --- balance --- */

static struct rota_group_run *find_movable(const struct rota_group_fsm *fsm)
{
    uint32_t place = ROTA_GROUP_NOBODY;
    const struct rota_group_partition *partition;
    const struct rota_group_task *self = &fsm->fold.tasks.items[fsm->me];
    while ((partition = rota_group_fold_next_of(&fsm->fold, self, &place))) {
        struct rota_group_run *run = rota_group_fsm_run_find(fsm, partition->def->name.text);
        if (run && !run->is_stopping && !run->is_ended && !run->is_lost && !run->has_finish &&
            run->children.size == 0)
            return run;
    }
    return NULL;
}

void rota_group_fsm_run_balance(struct rota_group_fsm *fsm, rota_time now)
{
    uint32_t moves_max = fsm->options.moves_max ? fsm->options.moves_max : 1;
    if (fsm->options.move_every <= 0 || fsm->state != ROTA_GROUP_AT_WORKING ||
        fsm->me == ROTA_GROUP_NOBODY || now < fsm->move_at)
        return;
    fsm->move_at = rota_time_add(now, fsm->options.move_every);
    while (fsm->n_moving < moves_max) {
        uint32_t least = rota_group_fold_least_loaded(&fsm->fold, ROTA_GROUP_NOBODY, fsm->me, NULL,
                                                      rota_blob_str(fsm->name));
        const struct rota_group_task *tasks = fsm->fold.tasks.items;
        if (least == ROTA_GROUP_NOBODY ||
            tasks[fsm->me].load < tasks[least].load + 2 + 2 * (uint32_t)fsm->n_moving)
            return;
        struct rota_group_run *run = find_movable(fsm);
        if (!run)
            return;
        stop_run(fsm, run, false);
        run->is_moving = true;
        fsm->n_moving++;
    }
}
