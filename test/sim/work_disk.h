/* A broker's journal, modelled: what is written and not synced may be lost, torn or whole
 * after a crash; a sync may be slow, or fail, and then nothing is known of what it was to
 * sync; the disk may be full; a bit of what lies there may turn.
 *
 * A batch is what one sync made durable, and has one checksum: it is whole, or it is not.
 * One that is not whole at the very end was never acknowledged, and is cut off. One that has
 * others after it was: that is damage, and a broker does not begin with less than all. */
#pragma once

#include "work_world.h"

enum { TIMER_TICK, TIMER_DISK, TIMER_COMPACT, TIMER_ROWS, TIMER_HAND };

struct kept *keep(const struct rota_work_record *record);
void set_timer(struct world *world, uint32_t node, uint32_t timer, rota_time after);
void disk_append(struct broker *broker, const struct rota_work_record *record);

/* Say how many jobs may come in, and look whether the reserve can be had back. */
void disk_bound(struct world *world, uint32_t node);

/* Begin to write what waits, unless the last batch is in flight yet. */
void disk_write(struct world *world, uint32_t node);
void disk_on_timer(struct world *world, uint32_t node);
void disk_crash(struct world *world, struct broker *broker);

/* Turn a bit somewhere; the end can't be told from a torn write, and is spared. */
void disk_flip(struct world *world, struct disk *disk);

/* Make ready to read: cut a torn end off. False for damage. */
bool disk_open(struct world *world, struct disk *disk);
void disk_deinit(struct broker *broker);
void compact_on_timer(struct world *world, uint32_t node);
