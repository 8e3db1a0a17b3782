/* What the application of group_world.h reads: partitions that split in two, pairs of which merge
 * again. The content and the future of a partition are fixed once, so that every reader finds the
 * same. */
#pragma once

#include "group_world.h"

struct part *part_of(struct world *world, uint32_t index);
uint32_t part_find(struct world *world, struct rota_str name);

/* What comes after it, once and for all. A pair of children may end in one. */
void part_grow(struct world *world, uint32_t index);

/* A position as the log keeps it: digits, and as much more as is asked for. */
struct rota_str position_format(const struct world *world, uint32_t position,
                                char text[ROTA_GROUP_POSITION_MAX]);
uint32_t position_parse(const struct rota_blob *position);
void data_init(struct world *world);
void data_deinit(struct world *world);
