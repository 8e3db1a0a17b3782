/* node_spaces: the spaces of a node.
 *
 * It takes part in the spaces of its settings, together with the other nodes that have them;
 * those that are only in the store it observes, so that any node can show all. They are drained
 * and closed before the node leaves: other nodes take its shards over at once, not only after a
 * timeout. */
#pragma once

#include "run/own/space_service.h"

struct rota_json;
struct rota_node;
struct rota_node_spaces;

/* How often the store is asked which spaces there are. */
#define ROTA_NODE_SPACES_EVERY (5 * ROTA_SEC)

/* Open them at the node's store, members and service. Gives `*spaces`, which
 * rota_node_spaces_close() ends. On failure nothing is open. */
enum rota_code rota_node_spaces_open(struct rota_node *node, struct rota_node_spaces **spaces,
                                     struct rota_error *error);

/* Ask the store now: a space was created or deleted here. */
void rota_node_spaces_refresh(struct rota_node_spaces *spaces);

/* Own nothing from now on; or undo that. */
void rota_node_spaces_drain(struct rota_node_spaces *spaces);
void rota_node_spaces_undrain(struct rota_node_spaces *spaces);
bool rota_node_spaces_is_idle(const struct rota_node_spaces *spaces);

/* Takes `spaces`, which may be NULL: then `on_closed` is called from inside. Else it is called
 * from the loop when the last is closed; until then store and members stay. */
void rota_node_spaces_close(struct rota_node_spaces *spaces, void (*on_closed)(void *data),
                            void *data);

/* What a follower has seen of a space; zero: nothing. */
struct rota_space_seen {
    uint64_t stamp, version;
};

/* Write the changes of a space since `seen`, which is updated, as space_watch.h has them;
 * without shards when only its version differs. False: it has not changed, or there is no such
 * space. */
bool rota_node_spaces_write_changes(struct rota_node_spaces *spaces, struct rota_str name,
                                    struct rota_space_seen *seen, struct rota_json *json);
