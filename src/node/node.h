/* node: one process of a cluster.
 *
 * It opens what its settings say, becomes a member of the cluster in the store, serves, and
 * stops cleanly: node/rules/node_fsm.h decides, this carries it out. Roles are its services for
 * others; each is a part with the same few functions (role.h). */
#pragma once

#include "node/node_settings.h"
#include "node/rules/events.h"
#include "node/rules/guard.h"
#include "node/rules/node_fsm.h"

#include <rota/experimental/members.h>
#include <rota/experimental/store_members.h>
#include <rota/log.h>
#include <rota/metrics.h>
#include <rota/server.h>
#include <rota/store.h>
#include <uv.h>

struct rota_node;
struct rota_role;

struct rota_node_options {
    struct rota_settings *settings; /* kept; checked by rota_node_settings_check() */
    const struct rota_log *log;     /* kept */

    /* It serves: `line` is the output of a server program, "ready grpc=...". */
    void (*on_ready)(void *data, const char *line);

    /* Everything is closed and freed, the node too; `has_failed`: it could not go on. */
    void (*on_ended)(void *data, bool has_failed);
    void *data; /* kept */
};

/* Open a node. Gives `*node`, until on_ended. */
enum rota_code rota_node_open(uv_loop_t *loop, const struct rota_node_options *options,
                              struct rota_node **node, struct rota_error *error);

/* Stop it cleanly; the second time at once. */
void rota_node_stop(struct rota_node *node);

/* Apply `fresh` settings, which were checked, as far as they can change while it runs, and read
 * the certificates again. Other differences are logged: they need a restart. Certificates that
 * can't be read change nothing. */
enum rota_code rota_node_reload(struct rota_node *node, const struct rota_settings *fresh,
                                struct rota_error *error);

/* Record that settings could not be read again, or not be applied: an event, for people. */
void rota_node_note_unread(struct rota_node *node, const struct rota_error *why);

enum rota_node_state rota_node_state(const struct rota_node *node);
