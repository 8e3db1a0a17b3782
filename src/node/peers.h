/* peers: the other nodes of the cluster, and what they show.
 *
 * While somebody looks at a topic, all nodes are asked for their part of it once per second;
 * nobody is asked otherwise. Who there is comes from the members table of the store, with those
 * that are dead for an hour after they were last heard. What has happened at the others comes
 * along, and goes into this node's log.
 *
 * A node that does not answer in time is not waited for until it does again. */
#pragma once

#include "core/call/list.h"
#include "node/topics.h"

#include <rota/channel.h>
#include <rota/store.h>

struct rota_peers;

#define ROTA_PEERS_EVERY   ROTA_SEC
#define ROTA_PEERS_TIMEOUT (2 * ROTA_SEC)
#define ROTA_PEERS_WANTED  (5 * ROTA_SEC) /* so long after the last look */
#define ROTA_PEERS_DEAD    ROTA_HOUR      /* for so long they are shown */

enum { ROTA_PEERS_MAX = 4096 }; /* more are not looked at */

/* A node, this one too. */
struct rota_peer {
    char address[ROTA_STORE_NAME_MAX + 1], zone[ROTA_STORE_NAME_MAX + 1];
    char roles[ROTA_STORE_ROLES_MAX + 1];
    uint32_t weight;
    enum rota_store_member_state state; /* an operator's */
    rota_time ttl;
    rota_time beat_at;          /* own clock (rota_clock_boot): its last heartbeat */
    rota_time answered_at;      /* the same: its last answer to us; 0: none */
    bool is_self, has_answered; /* the last question */

    struct rota_buffer parts[ROTA_TOPICS_MAX]; /* what it has shown; empty: nothing */

    /* For peers.c alone. */
    struct rota_peers *peers;
    struct rota_channel *channel;
    struct rota_call *call;
    uint64_t life, after; /* of its events */
    bool is_listed, is_awaited, is_new;
};

/* Gives `*peers`; rota_peers_close() ends it. */
enum rota_code rota_peers_open(struct rota_node *node, struct rota_peers **peers,
                               struct rota_error *error);
void rota_peers_close(struct rota_peers *peers); /* accepts NULL; all waits are ended */

/* A look at a topic: `on_seen` comes when all have answered who can be expected to; later, or
 * from inside when what there is is fresh. The struct is the caller's until then. */
struct rota_peers_wait {
    size_t topic; /* its place in rota_topics */
    void (*on_seen)(void *data);
    void *data;

    rota_time since;
    struct rota_list_node link;
};
void rota_peers_look(struct rota_peers *peers, struct rota_peers_wait *wait);

/* Something was changed: what was seen before is not fresh any more. */
void rota_peers_renew(struct rota_peers *peers);

/* Somebody follows the events. */
void rota_peers_want_events(struct rota_peers *peers);

/* Whether a row of the members table is a node's: some are of what nodes serve. */
bool rota_peers_is_node(const struct rota_store_member *row);

/* All nodes that are known, by address; borrowed until the loop runs on. */
size_t rota_peers_n(const struct rota_peers *peers);
const struct rota_peer *rota_peers_at(const struct rota_peers *peers, size_t i);
const struct rota_peer *rota_peers_find(const struct rota_peers *peers, struct rota_str address);

/* Its place; SIZE_MAX: it is not known. */
size_t rota_peers_place(const struct rota_peers *peers, struct rota_str address);

/* "there is no such node; there are a:1, b:1 and 7 more". Returns `text`. */
enum { ROTA_PEERS_NONE_MAX = 1024 };
char *rota_peers_format_none(const struct rota_peers *peers, char text[ROTA_PEERS_NONE_MAX]);

/* By its heartbeat in the store, or because it talks to us. */
bool rota_peer_is_alive(const struct rota_peer *peer);
bool rota_peer_has_role(const struct rota_peer *peer, const char *role);
