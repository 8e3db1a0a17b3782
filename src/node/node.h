/* node: one process of a cluster.
 *
 * It opens what its settings say, becomes a member of the cluster in the store, serves, and
 * goes in order: core/node/node_fsm.h decides, this carries it out. Roles are what it does for
 * others; each is a part of its own with the same few doors (role.h). */
#pragma once

#include "core/node/events.h"
#include "core/node/guard.h"
#include "core/node/node_fsm.h"
#include "node/node_settings.h"

#include <rota/log.h>
#include <rota/members.h>
#include <rota/metrics.h>
#include <rota/server.h>
#include <rota/store.h>
#include <rota/store_members.h>
#include <uv.h>

struct rota_node;
struct rota_role;

struct rota_node_options {
    struct rota_settings *settings; /* kept; checked by rota_node_settings_check() */
    const struct rota_log *log;     /* kept */

    /* It serves: `line` is what a server program prints, "ready grpc=...". */
    void (*on_ready)(void *data, const char *line);

    /* Everything is closed and freed, the node too; `has_failed`: it could not go on. */
    void (*on_ended)(void *data, bool has_failed);
    void *data; /* kept */
};

/* Open a node. Gives `*node`, until on_ended. */
enum rota_code rota_node_open(uv_loop_t *loop, const struct rota_node_options *options,
                              struct rota_node **node, struct rota_error *error);

/* Stop it in order; the second time at once. */
void rota_node_stop(struct rota_node *node);

/* Take over what can change while it runs from `fresh` settings, which were checked, into its
 * own, and read the certificates again. Whatever else is different is logged: it needs a restart.
 * Certificates that can't be read change nothing. */
enum rota_code rota_node_reload(struct rota_node *node, const struct rota_settings *fresh,
                                struct rota_error *error);

/* Note that settings could not be read again, or not be taken over: an event, for people. */
void rota_node_note_unread(struct rota_node *node, const struct rota_error *why);

enum rota_node_state rota_node_state(const struct rota_node *node);
