/* node_inside: the parts of a node: start and stop (node.c), its parts (node_open.c) and its
 * HTTP API (api.h). Private to these and its roles. */
#pragma once

#include "base/list.h"
#include "core/call/get/places.h"
#include "core/place/node_book.h"
#include "core/place/node_name.h"
#include "io/clock.h"
#include "io/net/address.h"
#include "io/net/http.h"
#include "node/node.h"
#include "node/role/role.h"
#include "node/rules/access.h"

#include <rota/experimental/channel.h>
#include <rota/experimental/health.h>
#include <rota/experimental/reflection.h>
#include <rota/tls.h>

enum {
    ROTA_NODE_ROLES_MAX = 8,
    ROTA_NODE_NAMES_MAX = 16,
    ROTA_NODE_MEASURED_MAX = 200, /* queues that have series; of more only the sums are shown */
    ROTA_NODE_MEASURED_NAME = 256,
    ROTA_NODE_FILES_WANTED = 8192, /* descriptors: connections over gRPC, HTTP and ZeroMQ, files */
};

/* The role that every node has among the members of the store, where others are listed, too. */
#define ROTA_NODE_ROLE "node"

struct rota_node_service;
struct rota_peers;
struct rota_node_caches;
struct rota_node_spaces;
struct rota_space_service;
struct rota_streams;

struct rota_node_role {
    const struct rota_role *role;
    void *data;
};

struct rota_node {
    uv_loop_t *loop;
    struct rota_node_options options;
    const struct rota_node_settings *settings;
    const struct rota_log *log;
    struct rota_node_fsm fsm;
    struct rota_events events;
    uv_timer_t timer; /* the machine's, and a check whether the roles are idle */
    uint32_t weight;  /* in thousandths, set by an operator; 0: that of the settings */
    bool is_placed;   /* the members' list gives it work */
    bool is_failing;  /* see rota_node_fail() */
    bool is_drained_by_operator, has_served, has_drained, has_seen_members;
    bool has_left;        /* the list, or would have: an operator has drained it */
    bool was_killed;      /* the previous process of this directory did not leave the cluster */
    rota_time started_at; /* wall clock */

    int lock_fd; /* of the data directory; -1: none */
    char token[ROTA_GUARD_TOKEN_SIZE + 1];
    char secret[ROTA_GUARD_TOKEN_SIZE +
                1]; /* of the cluster; empty until it is read from the store */
    bool is_secret_asked, is_secret_missed;
    int local_token_fd; /* -1: none; see io/local_token.h */
    struct rota_access access;
    char *operators, *nodes; /* the texts that `access` points into */
    char *advertise;
    char self_name[ROTA_ADDRESS_HOST_MAX + 1]; /* the host in it: as our certificate has it */
    struct rota_node_name_seek naming;
    char name[ROTA_NODE_NAME_MAX + 1]; /* that heartbeats have; empty: the address serves as one */
    bool is_named;                     /* it is certain that no other node has the name */
    struct rota_node_book book;
    struct rota_guard guard;
    struct rota_str names[ROTA_NODE_NAMES_MAX];

    struct rota_metrics *metrics;
    struct rota_tls *tls, *self_tls, *peers_tls; /* NULL: plain text */
    struct rota_store *store;
    struct rota_members *members;
    struct rota_members_source *rows; /* of `members`, which owns it */
    struct rota_heartbeat *heartbeat;
    struct rota_server *server;
    struct rota_health *health;
    struct rota_reflection *reflection;
    struct rota_channel *self; /* to our own gRPC server, for the API */
    struct rota_http *http;
    struct rota_refusals refusals[ROTA_HTTP_BOUNDS];
    struct rota_streams *streams;
    struct rota_peers *peers;
    struct rota_node_service *service;
    size_t n_reading; /* calls of it that only read: a node that stops does not wait for them */
    char measured[ROTA_NODE_MEASURED_MAX][ROTA_NODE_MEASURED_NAME]; /* queues */
    size_t n_measured;
    struct rota_space_service *space_service;
    struct rota_space_directory *space_directory;
    struct rota_node_spaces *spaces;
    struct rota_space_members *queue_members; /* of the role "queue"; NULL: without it */
    struct rota_node_caches *caches;
    size_t n_shards;               /* of all spaces, that this node has now */
    struct rota_list_node gone;    /* nodes whose state is being asked for, see node_news.c */
    struct rota_list_node changes; /* that operators have asked for, until they are made */
    struct rota_list_node plans;   /* that were applied */
    uint64_t n_plans;
    struct rota_list_node plannings; /* requests for plans that are worked out, see api_plan.c */
    struct rota_list_node asks;      /* documents that have not arrived */
    struct rota_list_node calls;     /* requests over HTTP that are not answered */
    struct rota_node_role roles[ROTA_NODE_ROLES_MAX];
    size_t n_roles;
};

/* --- node.c --- */

void rota_node_step(struct rota_node *node, enum rota_node_event event);

/* A role can't go on, nor the node without it: it fails when the loop continues. */
void rota_node_fail(struct rota_node *node);

/* Record an event, for people. */
#define rota_node_note(node, kind, subject, ...)                                                   \
    rota_events_add(&(node)->events, rota_clock_wall(), (kind), (subject), __VA_ARGS__)

/* --- node_open.c --- */

/* All parts, in order; after a failure rota_node_open_close_parts() closes those that were opened.
 */
enum rota_code rota_node_open_parts(struct rota_node *node, struct rota_error *error);
void rota_node_open_close_parts(struct rota_node *node);

/* Be a member from now on; or, when `is_leaving`, until now. */
enum rota_code rota_node_open_heartbeat(struct rota_node *node, bool is_leaving,
                                        struct rota_error *error);

/* A channel to another node, or to ourselves: in plain text, or by our certificates. */
enum rota_code rota_node_open_channel(struct rota_node *node, const char *address,
                                      size_t message_max, struct rota_channel **channel,
                                      struct rota_error *error);

/* Serve, once it is placed and all roles are ready. */
void rota_node_open_look_ready(struct rota_node *node);

/* The host names that HTTP requests may use: its own address, and those of the settings. */
void rota_node_open_note_names(struct rota_node *node);

/* --- node_naming.c --- */

/* Choose the name to seek, once the address is known. */
enum rota_code rota_node_naming_open(struct rota_node *node, struct rota_error *error);

/* Begin heartbeats, if the name may be used; otherwise it is waited for. */
void rota_node_naming_join(struct rota_node *node);

/* All members of the store, from time to time; `data` is the node. */
void rota_node_naming_take_rows(void *data, const struct rota_store_answer *answer);

/* The name of this node, or its address. */
const char *rota_node_naming_name(const struct rota_node *node);

/* --- node_access.c --- */

/* Read the node's token, or make it, and the names of operators and nodes. */
enum rota_code rota_node_access_open(struct rota_node *node, struct rota_error *error);
void rota_node_access_close(struct rota_node *node);

/* Let commands on this machine find the token, once the server listens. */
void rota_node_access_publish(struct rota_node *node);

/* Ask the store for the secret of the cluster, unless it is known. `data` is the node. */
void rota_node_access_ask(void *data);

/* Identify the caller: `identify` of the server's options. */
uint32_t rota_node_access_identify(void *data, struct rota_server_call *call, char *actor);

/* --- node_news.c --- */

/* Record events about other nodes: of all nodes that see one, one records it. */
void rota_node_news_note_members(struct rota_node *node, const struct rota_members_change *change);
void rota_node_news_end(struct rota_node *node);
