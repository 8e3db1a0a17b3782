/* shards_view: the state of a collection's replicas as text. */
#pragma once

#include "base/json.h"
#include "cli/node/probe.h"
#include "cli/table.h"
#include "cli/terminal.h"

/* Append a row for each replica as a table or as lines, or one JSON document. */
enum rota_code rota_shards_show_append(const struct rota_probe *probe, enum rota_table_form form,
                                       const struct rota_terminal *terminal,
                                       struct rota_buffer *buffer, struct rota_error *error);

/* Append a table of at most `height` lines, to be drawn over the previous one. */
void rota_shards_show_redraw(const struct rota_probe *probe, const struct rota_terminal *terminal,
                             size_t height, struct rota_buffer *buffer);

/* One node, without its circuit: columns, each after a tab, or members of an object. */
void rota_shards_show_append_node(const struct rota_probe_node *node, struct rota_buffer *buffer);
void rota_shards_show_add_node(const struct rota_probe_node *node, struct rota_json *json);
