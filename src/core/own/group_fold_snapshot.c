#include "core/own/group_fold_inside.h"

#include <assert.h>
#include <stdlib.h>

/* --- pieces in the log --- */

enum rota_group_verdict rota_group_fold_snapshot_piece(struct rota_group_fold *fold,
                                                       uint64_t offset, uint32_t author,
                                                       const struct rota_group_record *record)
{
    if (author != fold->leader)
        return ROTA_GROUP_NOT_LEADER;
    if (record->index == 0 && record->next >= fold->replay_from && record->next <= offset) {
        fold->coming.next = record->next;
        fold->coming.count = record->count;
        fold->coming.index = 0;
    }
    if (fold->coming.count != record->count || fold->coming.next != record->next ||
        fold->coming.index != record->index || record->index >= record->count)
        return ROTA_GROUP_OUT_OF_ORDER;
    if (++fold->coming.index == record->count) {
        fold->replay_before = fold->replay_from;
        fold->replay_from = record->next;
        fold->coming.count = 0;
        fold->n_records = fold->n_bytes = 0;
    }
    return ROTA_GROUP_ACCEPTED;
}

/* --- saving --- */

struct writer {
    const struct rota_group_fold *fold;
    ROTA_VECTOR(struct rota_group_record *) pieces;
    ROTA_VECTOR(struct rota_group_partition_state) partitions;
    ROTA_VECTOR(struct rota_group_def *) removed;
    uint32_t *places; /* of tasks: where in the snapshot's list */
    size_t size;
};

static uint32_t place_of_task(const struct writer *writer, uint32_t task)
{
    return task == ROTA_GROUP_NOBODY ? ROTA_GROUP_NOBODY : writer->places[task];
}

/* What was gathered becomes a piece; the shares go with it. */
static bool close_piece(struct writer *writer)
{
    struct rota_group_record *piece = rota_group_record_new(ROTA_GROUP_SNAPSHOT);
    if (!piece)
        return false;
    if (!rota_vector_push(&writer->pieces, piece)) {
        rota_group_record_unref(piece);
        return false;
    }
    piece->next = writer->fold->next;
    piece->replay_from = writer->fold->replay_from;
    piece->partitions = writer->partitions.items;
    piece->n_partitions = writer->partitions.size;
    piece->removed = writer->removed.items;
    piece->n_removed = writer->removed.size;
    writer->partitions.items = NULL;
    writer->partitions.size = writer->partitions.capacity = 0;
    writer->removed.items = NULL;
    writer->removed.size = writer->removed.capacity = 0;
    writer->size = 0;
    return true;
}

static bool make_room_in_piece(struct writer *writer, size_t size)
{
    if (writer->size > 0 && writer->size + size > ROTA_GROUP_CHUNK_MAX && !close_piece(writer))
        return false;
    writer->size += size;
    return true;
}

static bool save_removed(struct writer *writer, struct rota_group_def *def)
{
    struct rota_group_partition_state state = {.def = def};
    if (!make_room_in_piece(writer, rota_group_partition_size_max(&state)) ||
        !rota_vector_reserve(&writer->removed, writer->removed.size + 1))
        return false;
    writer->removed.items[writer->removed.size++] = rota_group_def_ref(def);
    return true;
}

/* First those in their order, then those that are referred to: a reader links these to their
 * children anyway. */
static bool save_all_removed(struct writer *writer)
{
    const struct rota_group_fold *fold = writer->fold;
    for (uint32_t i = fold->removed_first; i != ROTA_FOLD_NONE; i = fold->partitions.items[i].next)
        if (!save_removed(writer, fold->partitions.items[i].def))
            return false;
    for (size_t i = 0; i < fold->partitions.size; i++) {
        const struct rota_group_partition *partition = &fold->partitions.items[i];
        if (partition->def && partition->stage == ROTA_FOLD_REMOVED && partition->n_children > 0 &&
            !save_removed(writer, partition->def))
            return false;
    }
    return true;
}

static bool save_partition(struct writer *writer, const struct rota_group_partition *partition)
{
    struct rota_group_partition_state state = {
        .def = partition->def,
        .position = partition->position,
        .mark = partition->mark,
        .token = partition->token,
        .owner = place_of_task(writer, partition->owner),
        .target = place_of_task(writer, partition->target),
        .sharer = place_of_task(writer,
                                rota_group_fold_table_find_serial(writer->fold, partition->sharer)),
        .is_finished = partition->stage == ROTA_FOLD_FINISHED,
    };
    if (!make_room_in_piece(writer, rota_group_partition_size_max(&state)) ||
        !rota_vector_reserve(&writer->partitions, writer->partitions.size + 1))
        return false;
    rota_group_def_ref(state.def);
    rota_group_blob_ref(state.position);
    writer->partitions.items[writer->partitions.size++] = state;
    return true;
}

/* The first piece has the tasks and the group's own words. */
static bool save_words(struct writer *writer)
{
    const struct rota_group_fold *fold = writer->fold;
    struct rota_group_record *first = writer->pieces.items[0];
    size_t text_size = 1;
    for (size_t i = 0; i < fold->tasks.size; i++)
        text_size += fold->tasks.items[i].member.task.size;
    first->tasks = calloc(fold->n_tasks + 1, sizeof *first->tasks);
    char *end = first->text = malloc(text_size);
    if (!first->tasks || !end)
        return false;
    for (size_t i = 0; i < fold->tasks.size; i++) {
        const struct rota_group_task *task = &fold->tasks.items[i];
        if (!task->serial)
            continue;
        memcpy(end, task->member.task.data, task->member.task.size);
        first->tasks[first->n_tasks++] = (struct rota_group_task_state){
            .member = {rota_str_of(end, task->member.task.size), task->member.incarnation},
            .sequence = task->sequence,
        };
        end += task->member.task.size;
    }
    first->state_epoch = fold->epoch;
    first->state_epoch_offset = fold->epoch_offset;
    first->state_generation = fold->generation;
    first->state_replay_from = fold->replay_from;
    memcpy(first->state_sync_epoch, fold->sync_epoch, sizeof fold->sync_epoch);
    first->incarnation_floor = fold->incarnation_floor;
    first->leader = place_of_task(writer, fold->leader);
    first->is_seeded = fold->is_seeded;
    return true;
}

static bool save_fold(struct writer *writer)
{
    const struct rota_group_fold *fold = writer->fold;
    writer->places = calloc(fold->tasks.size + 1, sizeof *writer->places);
    if (!writer->places)
        return false;
    for (uint32_t i = 0, n = 0; i < fold->tasks.size; i++)
        writer->places[i] = fold->tasks.items[i].serial ? n++ : ROTA_GROUP_NOBODY;
    if (!close_piece(writer) || !save_words(writer) || !save_all_removed(writer))
        return false;
    for (size_t i = 0; i < fold->partitions.size; i++) {
        const struct rota_group_partition *partition = &fold->partitions.items[i];
        bool is_known = partition->def && (partition->stage == ROTA_FOLD_ALIVE ||
                                           partition->stage == ROTA_FOLD_FINISHED);
        if (is_known && !save_partition(writer, partition))
            return false;
    }
    return writer->size == 0 || close_piece(writer);
}

enum rota_code rota_group_fold_save(const struct rota_group_fold *fold,
                                    struct rota_group_record ***pieces, size_t *n_pieces)
{
    struct writer writer = {.fold = fold};
    bool is_saved = save_fold(&writer);
    free(writer.places);
    if (is_saved && writer.pieces.size <= ROTA_GROUP_CHUNKS_MAX) {
        for (size_t i = 0; i < writer.pieces.size; i++) {
            writer.pieces.items[i]->index = (uint32_t)i;
            writer.pieces.items[i]->count = (uint32_t)writer.pieces.size;
        }
        *pieces = writer.pieces.items;
        *n_pieces = writer.pieces.size;
        return ROTA_OK;
    }
    for (size_t i = 0; i < writer.partitions.size; i++) {
        rota_group_def_unref(writer.partitions.items[i].def);
        rota_group_blob_unref(writer.partitions.items[i].position);
    }
    for (size_t i = 0; i < writer.removed.size; i++)
        rota_group_def_unref(writer.removed.items[i]);
    for (size_t i = 0; i < writer.pieces.size; i++)
        rota_group_record_unref(writer.pieces.items[i]);
    rota_vector_deinit(&writer.partitions);
    rota_vector_deinit(&writer.removed);
    rota_vector_deinit(&writer.pieces);
    return is_saved ? ROTA_ERR_LIMIT : ROTA_ERR_NO_MEMORY;
}

/* --- loading --- */

static enum rota_code load_words(struct rota_group_fold *fold,
                                 const struct rota_group_record *first, struct rota_error *error)
{
    if (first->n_tasks > ROTA_GROUP_TASKS_MAX ||
        (first->leader != ROTA_GROUP_NOBODY && first->leader >= first->n_tasks) ||
        (first->n_tasks > 0) != (first->leader != ROTA_GROUP_NOBODY))
        return rota_error_set(error, ROTA_ERR_INVALID, "a snapshot whose leader is not a member");
    for (size_t i = 0; i < first->n_tasks; i++) {
        struct rota_group_member member = first->tasks[i].member;
        if (!rota_group_is_task_name(member.task) ||
            rota_group_fold_table_find_task(fold, member) != ROTA_FOLD_NONE)
            return rota_error_set(error, ROTA_ERR_INVALID, "a snapshot with a duplicate member");
        uint32_t place = rota_group_fold_table_add_task(fold, member);
        if (place == ROTA_FOLD_NONE)
            return rota_error_no_memory(error, "for a snapshot of %zu tasks", first->n_tasks);
        assert(place == i); /* the fold is fresh */
        fold->tasks.items[place].sequence = first->tasks[i].sequence;
    }
    fold->next = first->next;
    fold->epoch = first->state_epoch;
    fold->epoch_offset = first->state_epoch_offset;
    fold->generation = first->state_generation;
    fold->replay_from = first->state_replay_from;
    memcpy(fold->sync_epoch, first->state_sync_epoch, sizeof fold->sync_epoch);
    fold->incarnation_floor = first->incarnation_floor;
    fold->leader = first->leader;
    fold->is_seeded = first->is_seeded;
    return ROTA_OK;
}

static enum rota_code load_removed(struct rota_group_fold *fold,
                                   const struct rota_group_record *piece, struct rota_error *error)
{
    for (size_t i = 0; i < piece->n_removed; i++) {
        struct rota_group_def *def = piece->removed[i];
        if (rota_group_fold_table_find(fold, def->name) != ROTA_FOLD_NONE)
            return rota_error_set(error, ROTA_ERR_INVALID, "a snapshot with a duplicate partition");
        rota_group_fold_table_remove(fold, rota_group_fold_table_add(fold, def));
    }
    return ROTA_OK;
}

static bool is_place(const struct rota_group_fold *fold, uint32_t task)
{
    return task == ROTA_GROUP_NOBODY || task < fold->n_tasks;
}

static enum rota_code load_partition(struct rota_group_fold *fold,
                                     const struct rota_group_partition_state *state,
                                     struct rota_error *error)
{
    bool has_owner = state->owner != ROTA_GROUP_NOBODY;
    bool has_target = state->target != ROTA_GROUP_NOBODY;
    if (!is_place(fold, state->owner) || !is_place(fold, state->target) ||
        !is_place(fold, state->sharer) || has_owner == has_target ||
        (state->is_finished && !has_owner))
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "a snapshot with a partition that does not belong to exactly one member");
    if (rota_group_fold_table_find(fold, state->def->name) != ROTA_FOLD_NONE)
        return rota_error_set(error, ROTA_ERR_INVALID, "a snapshot with a duplicate partition");
    uint32_t place = rota_group_fold_table_add(fold, state->def);
    struct rota_group_partition *partition = &fold->partitions.items[place];
    partition->mark = state->mark;
    partition->position = rota_group_blob_ref(state->position);
    partition->token = state->token;
    if (state->sharer != ROTA_GROUP_NOBODY)
        partition->sharer = fold->tasks.items[state->sharer].serial;
    rota_group_fold_table_make(fold, place, state->def);
    if (state->is_finished) {
        partition->stage = ROTA_FOLD_FINISHED; /* its parents no longer wait for it */
        fold->n_unfinished--;
    }
    rota_group_fold_table_give(fold, place, state->owner, state->target);
    return ROTA_OK;
}

static bool reserve_tables(struct rota_group_fold *fold, struct rota_group_record *const *pieces,
                           size_t n_pieces)
{
    size_t n = 0;
    for (size_t i = 0; i < n_pieces; i++) {
        n += pieces[i]->n_removed;
        for (size_t j = 0; j < pieces[i]->n_partitions; j++)
            n += 1 + (size_t)pieces[i]->partitions[j].def->n_parents;
    }
    return rota_group_fold_table_reserve(fold, n);
}

static void link_partitions(struct rota_group_fold *fold)
{
    size_t n = fold->partitions.size;
    for (uint32_t i = 0; i < n; i++)
        if (fold->partitions.items[i].def && fold->partitions.items[i].stage == ROTA_FOLD_ALIVE)
            rota_group_fold_table_link(fold, i);
}

static bool is_whole(struct rota_group_record *const *pieces, size_t n_pieces)
{
    for (size_t i = 0; i < n_pieces; i++)
        if (pieces[i]->kind != ROTA_GROUP_SNAPSHOT || pieces[i]->index != i ||
            pieces[i]->count != n_pieces || pieces[i]->next != pieces[0]->next)
            return false;
    return n_pieces > 0;
}

enum rota_code rota_group_fold_load(struct rota_group_fold *fold,
                                    struct rota_group_record *const *pieces, size_t n_pieces,
                                    struct rota_error *error)
{
    if (!is_whole(pieces, n_pieces))
        return rota_error_set(error, ROTA_ERR_INVALID, "an incomplete snapshot");
    if (!reserve_tables(fold, pieces, n_pieces))
        return rota_error_no_memory(error, "for a snapshot of %zu pieces", n_pieces);
    fold->is_loading =
        true; /* partitions that are referred to are not distinguished from the rest yet */
    enum rota_code code = load_words(fold, pieces[0], error);
    for (size_t i = 0; i < n_pieces && !code; i++)
        code = load_removed(fold, pieces[i], error);
    for (size_t i = 0; i < n_pieces && !code; i++)
        for (size_t j = 0; j < pieces[i]->n_partitions && !code; j++)
            code = load_partition(fold, &pieces[i]->partitions[j], error);
    if (code)
        return code;
    link_partitions(fold);
    fold->is_loading = false;
    if (fold->is_out_of_memory)
        return rota_error_no_memory(error, "for a snapshot of %zu pieces", n_pieces);
    return ROTA_OK;
}
