/* group_view: the current state of a group, as JSON and as a sheet. */
#pragma once

#include "cli/table.h"

#include <rota/group.h>

/* `explain` is a partition to explain; NULL: none. */
void rota_group_show_json(struct rota_buffer *buffer, const struct rota_group *group,
                          const char *name, const char *explain);

/* The sheet of that document. */
extern const struct rota_table rota_group_show_sheet;

/* Where a partition is and why, as one line of text. */
void rota_group_show_explain(struct rota_buffer *buffer, const struct rota_group *group,
                             const char *partition);
