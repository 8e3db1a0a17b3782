/* shards_view: what was found out about the replicas of a collection, as text. */
#pragma once

#include "base/json.h"
#include "cli/probe.h"
#include "cli/terminal.h"

/* Append a line for each replica, with tabs between its parts; a table with a head,
 * for a terminal; or one JSON document. A table of at most `height` lines is drawn
 * over another, and within the terminal's width; 0 means neither. */
void rota_shards_view_lines(const struct rota_probe *probe, struct rota_buffer *buffer);
void rota_shards_view_table(const struct rota_probe *probe, const struct rota_terminal *terminal,
                            int height, struct rota_buffer *buffer);
void rota_shards_view_json(const struct rota_probe *probe, struct rota_buffer *buffer);

/* One node, without its circuit: columns, each behind a tab, or members of an
 * object. */
void rota_shards_view_append_node(const struct rota_probe_node *node, struct rota_buffer *buffer);
void rota_shards_view_add_node(const struct rota_probe_node *node, struct rota_json *json);
