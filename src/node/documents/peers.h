/* peers: the other nodes of the cluster, and what they report.
 *
 * While a client watches them, all nodes are asked for a report once per second; otherwise none is.
 * The list of nodes comes from the members table of the store, with dead ones for an hour after
 * their last heartbeat. Events of the others arrive as well, and go into this node's log.
 *
 * A round does not wait for a node that did not answer in time, until it answers again. */
#pragma once

#include "base/buffer.h"
#include "base/list.h"
#include "core/place/node_name.h"
#include "wire/message/nodes_message.h"

#include <rota/experimental/channel.h>
#include <rota/experimental/store_ask.h>

struct rota_node;
struct rota_peers;

#define ROTA_PEERS_EVERY   ROTA_SEC
#define ROTA_PEERS_TIMEOUT (2 * ROTA_SEC)
#define ROTA_PEERS_WANTED  (5 * ROTA_SEC) /* how long after the last request */
#define ROTA_PEERS_DEAD    ROTA_HOUR      /* for so long they are shown */

enum { ROTA_PEERS_MAX = 4096 }; /* more are ignored */

/* A node, this one too. */
struct rota_peer {
    char address[ROTA_STORE_NAME_MAX + 1], zone[ROTA_STORE_NAME_MAX + 1];
    char roles[ROTA_STORE_ROLES_MAX + 1];
    char name[ROTA_NODE_NAME_MAX + 1]; /* empty: none; see rota_peer_name() */
    uint32_t weight;
    enum rota_store_member_state state; /* an operator's */
    rota_time ttl;
    rota_time beat_at;          /* own clock (rota_clock_boot): its last heartbeat */
    rota_time answered_at;      /* the same: its last answer to us; 0: none */
    bool is_self, has_answered; /* the last question */

    struct rota_nodes_report report; /* its last one; empty: none */

    /* For peers.c alone. */
    struct rota_peers *peers;
    struct rota_buffer bytes; /* what `report` points into, and its structs */
    struct rota_arena arena;
    struct rota_channel *channel;
    struct rota_call *call;
    uint64_t life, after; /* of its events */
    bool is_listed, is_awaited, is_new;
};

/* Gives `*peers`; rota_peers_close() ends it. */
enum rota_code rota_peers_open(struct rota_node *node, struct rota_peers **peers,
                               struct rota_error *error);
void rota_peers_close(struct rota_peers *peers); /* accepts NULL; all waits are ended */

/* A request for reports, or for those with calls: `on_seen` is called when all nodes that can be
 * expected to have answered; later, or from inside when the data is fresh. The struct is the
 * caller's until then. */
struct rota_peers_wait {
    bool with_calls;
    void (*on_seen)(void *data);
    void *data;

    rota_time since;
    struct rota_list_node link;
};
void rota_peers_refresh(struct rota_peers *peers, struct rota_peers_wait *wait);

/* Something was changed: earlier reports are no longer fresh. */
void rota_peers_renew(struct rota_peers *peers);

/* A client follows the events. */
void rota_peers_want_events(struct rota_peers *peers);

/* Whether a row of the members table is a node's: some belong to services of nodes. */
bool rota_peers_is_node(const struct rota_store_member *row);

/* All nodes that are known, by address; borrowed until the loop runs on. */
size_t rota_peers_n(const struct rota_peers *peers);
const struct rota_peer *rota_peers_at(const struct rota_peers *peers, size_t i);
const struct rota_peer *rota_peers_find(const struct rota_peers *peers, struct rota_str address);

/* The node with this name or address, as an operator gave it. Of several with one name it is the
 * one that is alive; NULL if more than one is. */
const struct rota_peer *rota_peers_seek(const struct rota_peers *peers, struct rota_str name);

/* Its place; SIZE_MAX: it is not known. */
size_t rota_peers_place(const struct rota_peers *peers, struct rota_str address);

/* "no such node; the nodes are box (a:1), b:1 and 7 more". Returns `text`. */
enum { ROTA_PEERS_NONE_MAX = 2048 };
char *rota_peers_format_none(const struct rota_peers *peers, char text[ROTA_PEERS_NONE_MAX]);

/* By its heartbeat in the store, or because it talks to us. */
bool rota_peer_is_alive(const struct rota_peer *peer);
const char *rota_peer_name(const struct rota_peer *peer); /* or its address */
bool rota_peer_has_role(const struct rota_peer *peer, const char *role);
