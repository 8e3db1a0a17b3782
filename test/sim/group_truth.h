/* What must hold in group_world.h, looked at as each record comes into the log, as
 * each reader starts and reads, and now and then as a whole.
 *
 * The world keeps a fold of the log as it really is. Whether a record should count is worked out a
 * second time, by hand; what a change does to a partition is compared with what it was before. The
 * tasks learn nothing of this. */
#pragma once

#include "group_data.h"

bool is_listed_in(const struct rota_group_record *record, struct rota_group_member member);

/* Whether a record should count; of a snapshot's piece: whether it may. */
bool is_due_to_count(struct world *world, const struct rota_group_record *record);

/* The record is in the log. */
void observe(struct world *world, uint64_t offset, struct entry *entry);

/* A task has accepted the record at `offset`. */
void check_agreement(struct world *world, uint32_t node, uint64_t offset);
void check_start(struct world *world, uint32_t node, uint32_t index, uint64_t token,
                 uint32_t position);

/* A reader reads, and believes that it may. */
void check_read(struct world *world, uint32_t node, uint32_t index, uint64_t token);

/* Every partition that was made is known, and, when all has been well for long
 * enough, every one that may be read is read. */
void check_whole(struct world *world);

/* All is read to the end: nothing was lost on the way. */
void check_end(struct world *world);
void truth_deinit(struct world *world);
