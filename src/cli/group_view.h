/* group_view: a group as it stands, as a table and as JSON. */
#pragma once

#include "base/buffer.h"

#include <rota/group.h>

/* `explain` is a partition to say more of; NULL: none. */
void rota_group_view_text(struct rota_buffer *buffer, const struct rota_group *group,
                          const char *name, const char *explain);
void rota_group_view_json(struct rota_buffer *buffer, const struct rota_group *group,
                          const char *name, const char *explain);
