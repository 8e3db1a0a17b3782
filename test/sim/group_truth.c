#include "group_truth.h"

#include <stdlib.h>
#include <string.h>

/* --- rules 1 to 3, by hand --- */

static struct author *author_of(struct world *world, struct rota_group_member member, bool is_new)
{
    char key[ROTA_GROUP_METADATA_MAX];
    struct author *author =
        rota_map_get(&world->sequences, rota_str(rota_group_record_metadata_format(member, key)));
    if (author || !is_new)
        return author;
    author = calloc(1, sizeof *author);
    if (!author)
        die("no memory");
    memcpy(author->key, key, sizeof key);
    push(&world->authors, author);
    if (!rota_map_put(&world->sequences, rota_str(author->key), author))
        die("no memory");
    return author;
}

bool is_listed_in(const struct rota_group_record *record, struct rota_group_member member)
{
    for (size_t i = 0; i < record->n_tasks; i++)
        if (rota_group_member_is_equal(record->tasks[i].member, member))
            return true;
    return false;
}

bool is_due_to_count(struct world *world, const struct rota_group_record *record)
{
    struct author *author = author_of(world, record->author, false);
    if (record->kind == ROTA_GROUP_EPOCH)
        return record->prev_epoch == world->epoch && record->epoch == world->epoch + 1 &&
               is_listed_in(record, record->author);
    return record->epoch == world->epoch && author && author->epoch == world->epoch &&
           record->sequence > author->sequence;
}

static void book(struct world *world, const struct rota_group_record *record)
{
    if (record->kind == ROTA_GROUP_EPOCH) {
        world->epoch = record->epoch;
        for (size_t i = 0; i < record->n_tasks; i++)
            author_of(world, record->tasks[i].member, true)->epoch = record->epoch;
    }
    struct author *author = author_of(world, record->author, true);
    if (record->sequence > author->sequence)
        author->sequence = record->sequence;
}

/* --- what a record did to partitions --- */

static uint32_t serial_at(const struct rota_group_fold *fold, uint32_t place)
{
    return place == ROTA_GROUP_NOBODY ? 0 : fold->tasks.items[place].serial;
}

static bool is_serial_listed(const struct rota_group_fold *fold, uint32_t serial)
{
    for (size_t i = 0; i < fold->tasks.size; i++)
        if (fold->tasks.items[i].serial == serial && fold->tasks.items[i].is_listed)
            return true;
    return false;
}

static bool has_change(const struct rota_group_record *record, struct rota_str name,
                       enum rota_group_change_type type)
{
    for (size_t i = 0; record->kind == ROTA_GROUP_STATE && i < record->n_changes; i++)
        if (record->changes[i].type == type &&
            rota_str_is_equal(record->changes[i].def->name.text, name))
            return true;
    return false;
}

static bool is_by(const struct world *world, const struct rota_group_record *record,
                  uint32_t serial)
{
    const struct rota_group_task *task = rota_group_fold_task(&world->fold, record->author);
    return task && task->serial == serial;
}

static void check_finished(struct world *world, uint32_t index)
{
    struct part *part = part_of(world, index);
    if (part->is_finished)
        return;
    part->is_finished = true;
    world->n_open--;
    if (part->read_max < part->length)
        rota_sim_fail(world->sim, "p%u is finished, but read to %u of %u only", index,
                      part->read_max, part->length);
    for (uint8_t i = 0; i < part->n_children; i++)
        if (!part_of(world, part->children[i])->is_created)
            rota_sim_fail(world->sim, "p%u is finished before its child p%u is known", index,
                          part->children[i]);
}

static void check_removed(struct world *world, uint32_t index)
{
    struct part *part = part_of(world, index);
    if (part->is_removed)
        return;
    part->is_removed = true;
    if (!part->is_finished)
        rota_sim_fail(world->sim, "p%u is removed, but not finished", index);
    for (uint8_t i = 0; i < part->n_children; i++)
        if (!part_of(world, part->children[i])->is_finished)
            rota_sim_fail(world->sim, "p%u is removed before its child p%u is finished", index,
                          part->children[i]);
}

/* From owner to owner: only away from the gone, or by the owner's own word; with a
 * token that grows. */
static void check_owner(struct world *world, uint64_t offset,
                        const struct rota_group_record *record, uint32_t index,
                        const struct rota_group_partition *partition)
{
    struct part *part = part_of(world, index);
    uint32_t owner = serial_at(&world->fold, partition->owner);
    uint32_t target = serial_at(&world->fold, partition->target);
    struct rota_str name = part->def->name.text;

    if (part->owner && owner != part->owner && is_serial_listed(&world->fold, part->owner) &&
        !(has_change(record, name, ROTA_GROUP_MOVE) && is_by(world, record, part->owner)))
        rota_sim_fail(world->sim, "p%u moves at offset %llu, though its owner lives", index,
                      (unsigned long long)offset);
    if (part->target && target != part->target && owner != part->target &&
        is_serial_listed(&world->fold, part->target) &&
        !has_change(record, name, ROTA_GROUP_WITHDRAW))
        rota_sim_fail(world->sim, "the offer of p%u to a task that lives is gone at offset %llu",
                      index, (unsigned long long)offset);
    if (owner && owner != part->owner && (partition->token != offset || offset < part->token))
        rota_sim_fail(world->sim, "p%u has a new owner at offset %llu, but token %llu after %llu",
                      index, (unsigned long long)offset, (unsigned long long)partition->token,
                      (unsigned long long)part->token);
    if (!owner && !target)
        rota_sim_fail(world->sim, "p%u is with nobody after offset %llu", index,
                      (unsigned long long)offset);
    if (owner && target)
        rota_sim_fail(world->sim, "p%u has an owner and is offered", index);
    if (owner && owner != part->owner) {
        part->token = partition->token;
        part->granted_mark = part->mark;
        part->idle_since = ROTA_TIME_NEVER;
    }
    part->owner = owner;
    part->target = target;
}

static void check_touched(struct world *world, uint64_t offset,
                          const struct rota_group_record *record,
                          const struct rota_group_partition *partition)
{
    enum rota_group_life life = rota_group_fold_life(partition);
    uint32_t index = partition->def ? part_find(world, partition->def->name.text) : UINT32_MAX;
    if (index == UINT32_MAX || life == ROTA_GROUP_NAMED)
        return;
    struct part *part = part_of(world, index);
    part->is_created = true;
    if (life == ROTA_GROUP_REMOVED) {
        check_removed(world, index);
        return;
    }
    if (part->is_removed)
        rota_sim_fail(world->sim, "p%u is back after it was removed", index);
    check_owner(world, offset, record, index, partition);
    if (life == ROTA_GROUP_FINISHED)
        check_finished(world, index);
    else if (part->is_finished)
        rota_sim_fail(world->sim, "p%u is open again after it was finished", index);
}

/* What is committed with a record that counts, change by change. */
static void note_positions(struct world *world, const struct rota_group_record *record)
{
    for (size_t i = 0; record->kind == ROTA_GROUP_STATE && i < record->n_changes; i++) {
        const struct rota_group_change *change = &record->changes[i];
        uint32_t index = part_find(world, change->def->name.text);
        if (i < world->fold.refusals.size && !world->fold.refusals.items[i] &&
            change->has_position && index != UINT32_MAX)
            part_of(world, index)->mark = change->mark;
    }
}

void observe(struct world *world, uint64_t offset, struct entry *entry)
{
    enum rota_group_verdict verdict = ROTA_GROUP_ACCEPTED;
    if (!entry->record) {
        rota_group_fold_skip(&world->fold, offset, entry->size, entry->why);
    } else {
        bool is_due = is_due_to_count(world, entry->truth);
        if (rota_group_fold_apply(&world->fold, offset, entry->record, &verdict))
            die("no memory");
        if (verdict == ROTA_GROUP_ACCEPTED ? !is_due
                                           : is_due && entry->truth->kind != ROTA_GROUP_SNAPSHOT)
            rota_sim_fail(world->sim, "the record at offset %llu is %s, and should%s count",
                          (unsigned long long)offset, rota_group_fold_verdict_name(verdict),
                          is_due ? "" : " not");
        if (is_due && verdict == ROTA_GROUP_ACCEPTED) {
            book(world, entry->truth);
            if (world->log.replay_from < entry->truth->replay_from)
                world->log.replay_from = entry->truth->replay_from;
            note_positions(world, entry->truth);
        }
        for (size_t i = 0; verdict == ROTA_GROUP_ACCEPTED && i < world->fold.touched.size; i++)
            check_touched(world, offset, entry->truth,
                          &world->fold.partitions.items[world->fold.touched.items[i]]);
    }
    if (offset % world->shape.digest_every == 0)
        entry->digest = rota_group_fold_digest(&world->fold);
}

void check_agreement(struct world *world, uint32_t node, uint64_t offset)
{
    const struct rota_group_fsm *fsm = &world->tasks[node].fsm;
    const struct entry *entry = &world->log.entries.items[offset];
    if (fsm->replay != ROTA_GROUP_REPLAY_FOLD || fsm->fold.next != offset + 1 || !entry->digest)
        return;
    if (rota_group_fold_digest(&fsm->fold) != entry->digest)
        rota_sim_fail(world->sim, "node %u disagrees on the state after offset %llu", node,
                      (unsigned long long)offset);
}

/* --- readers --- */

/* A reader on a node that stood still may not know yet; it reads nothing. */
static bool is_harmless(const struct world *world, uint32_t node, struct rota_str name,
                        uint64_t token)
{
    const struct task *task = &world->tasks[node];
    if (rota_sim_is_paused(world->sim, node))
        return true;
    return rota_sim_now(world->sim) - task->resumed_at <= 2 * STOP_MAX &&
           !rota_group_fsm_is_current(&task->fsm, rota_sim_mono(world->sim, node), name, token);
}

static void check_alone(struct world *world, uint32_t node, uint32_t index)
{
    const struct part *part = part_of(world, index);
    for (uint8_t i = 0; i < part->n_runners; i++) {
        uint32_t other = part->runners[i].node;
        const struct task *task = &world->tasks[other];
        uint64_t token = task->readers.items[part->runners[i].place].token;
        if (other == node)
            rota_sim_fail(world->sim, "p%u is started at node %u before its reader has stopped",
                          index, node);
        else if (!is_harmless(world, other, part->def->name.text, token))
            rota_sim_fail(world->sim, "p%u runs at node %u and at node %u at once", index, other,
                          node);
    }
}

void check_start(struct world *world, uint32_t node, uint32_t index, uint64_t token,
                 uint32_t position)
{
    struct part *part = part_of(world, index);
    check_alone(world, node, index);
    for (uint8_t i = 0; i < part->n_parents; i++)
        if (!part_of(world, part->parents[i])->is_finished)
            rota_sim_fail(world->sim, "p%u is started before its parent p%u is finished", index,
                          part->parents[i]);
    if (token > part->token)
        rota_sim_fail(world->sim, "p%u is started under token %llu, which nobody gave", index,
                      (unsigned long long)token);
    if (token < part->started_token)
        rota_sim_fail(world->sim, "p%u is started under token %llu after %llu", index,
                      (unsigned long long)token, (unsigned long long)part->started_token);
    part->started_token = token;
    if (position > part->read_max)
        rota_sim_fail(world->sim, "p%u is started at %u, but read to %u only", index, position,
                      part->read_max);
    if (token == part->token && (int64_t)position < part->granted_mark)
        rota_sim_fail(world->sim, "p%u is started at %u, though %lld was committed", index,
                      position, (long long)part->granted_mark);
}

void check_read(struct world *world, uint32_t node, uint32_t index, uint64_t token)
{
    const struct part *part = part_of(world, index);
    if (token != part->token)
        rota_sim_fail(world->sim, "node %u reads p%u under token %llu, but %llu is in force", node,
                      index, (unsigned long long)token, (unsigned long long)part->token);
    if (part->is_finished)
        rota_sim_fail(world->sim, "node %u reads p%u, which is finished", node, index);
}

/* --- the whole --- */

static bool is_run(const struct world *world, const struct part *part)
{
    for (uint8_t i = 0; i < part->n_runners; i++)
        if (!rota_sim_is_paused(world->sim, part->runners[i].node))
            return true;
    return false;
}

void check_whole(struct world *world)
{
    rota_time now = rota_sim_now(world->sim);
    for (uint32_t i = 0; i < world->parts.size && !rota_sim_violation(world->sim); i++) {
        struct part *part = part_of(world, i);
        if (!part->is_created || part->is_finished)
            continue;
        const struct rota_group_partition *partition =
            rota_group_fold_find(&world->fold, part->def->name);
        if (!partition || rota_group_fold_life(partition) == ROTA_GROUP_NAMED) {
            rota_sim_fail(world->sim, "p%u is lost", i);
            return;
        }
        if (partition->n_parents_open > 0 || is_run(world, part)) {
            part->idle_since = ROTA_TIME_NEVER;
            continue;
        }
        part->idle_since = rota_time_min(part->idle_since, now);
        rota_time since =
            part->idle_since > world->quiet_since ? part->idle_since : world->quiet_since;
        if (now - since > OWNED_WITHIN)
            rota_sim_fail(world->sim, "p%u is read by nobody for %lld s, though all is well", i,
                          (long long)((now - since) / ROTA_SEC));
    }
    if (!rota_group_fold_is_sound(&world->fold))
        rota_sim_fail(world->sim, "the fold is not sound");
}

void check_end(struct world *world)
{
    check_whole(world);
    for (uint32_t i = 0; i < world->parts.size; i++) {
        const struct part *part = part_of(world, i);
        if (!part->is_finished)
            rota_sim_fail(world->sim, "p%u, %s, is not read to its end: %u of %u", i,
                          part->is_created ? "which is known" : "which nobody knows",
                          part->read_max, part->length);
    }
}

void truth_deinit(struct world *world)
{
    rota_group_fold_deinit(&world->fold);
    for (size_t i = 0; i < world->authors.size; i++)
        free(world->authors.items[i]);
    rota_vector_deinit(&world->authors);
    rota_map_deinit(&world->sequences);
}
