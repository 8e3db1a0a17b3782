/* node_spaces: the spaces of a node.
 *
 * Those of its settings it owns together with the other nodes that have them; those that only
 * the store knows of it looks at, so that any node can tell about all. They are drained and
 * closed before the node leaves: what it owned is others' then, at once, and not only when it
 * is missed. */
#pragma once

#include "run/space_service.h"

struct rota_json;
struct rota_node;
struct rota_node_spaces;

/* How often the store is asked for spaces that are not known here. */
#define ROTA_NODE_SPACES_EVERY (30 * ROTA_SEC)

/* Open them at the node's store, members and service. Gives `*spaces`, which
 * rota_node_spaces_close() ends. On failure nothing is open. */
enum rota_code rota_node_spaces_open(struct rota_node *node, struct rota_node_spaces **spaces,
                                     struct rota_error *error);

/* Own nothing any more; or again. */
void rota_node_spaces_drain(struct rota_node_spaces *spaces);
void rota_node_spaces_undrain(struct rota_node_spaces *spaces);
bool rota_node_spaces_is_idle(const struct rota_node_spaces *spaces);

/* Takes `spaces`, which may be NULL: then `on_closed` is called from inside. Else it is called
 * from the loop when the last is closed; until then store and members stay. */
void rota_node_spaces_close(struct rota_node_spaces *spaces, void (*on_closed)(void *data),
                            void *data);

/* What somebody has seen of a space; zero: nothing. */
struct rota_space_seen {
    uint64_t stamp, version;
};

/* Write the changes of a space since `seen`, which becomes the present, as space_watch.h has
 * them; none of a shard when only its version is another. False: it is as it was, or there is
 * no such space. */
bool rota_node_spaces_write_changes(struct rota_node_spaces *spaces, struct rota_str name,
                                    struct rota_space_seen *seen, struct rota_json *json);
