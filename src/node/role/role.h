/* role: a service of a node for others, behind a few functions. */
#pragma once

#include <rota/error.h>
#include <stdbool.h>
#include <stddef.h>

struct rota_get;
struct rota_node;
struct rota_node_cache;
struct rota_arena;
struct rota_metrics;
struct rota_nodes_report;
struct rota_store_answer;

struct rota_role {
    const char *name; /* as the settings have it */

    /* Open it on the node's loop and server. `*role_data` is the role's own from then on. */
    enum rota_code (*open)(struct rota_node *node, void **role_data, struct rota_error *error);

    /* Whether it can serve; rota_node_open_look_ready() is called when it can. NULL: at once. */
    bool (*is_ready)(const void *role_data);

    /* The store has the node's first heartbeat: a good time to read the members. NULL: nothing. */
    void (*look)(void *role_data);

    /* All members of the store, from time to time. NULL: nothing. */
    void (*hear_rows)(void *role_data, const struct rota_store_answer *answer);

    /* Accept nothing new, and hand over what there is; then is_idle is called now and then. */
    void (*drain)(void *role_data);
    bool (*is_idle)(const void *role_data);

    /* Continue as before a drain. NULL: it does so by itself. */
    void (*restore)(void *role_data);

    /* Takes `role_data`; the loop runs until everything is freed. */
    void (*close)(void *role_data);

    /* Add the state, in `arena`. */
    void (*report)(const void *role_data, struct rota_arena *arena,
                   struct rota_nodes_report *report);

    /* Set series that are not counted as things happen; before they are shown. NULL: none. */
    void (*measure)(const void *role_data, struct rota_metrics *metrics);

    /* What it adds to the roles by which others find the node among the members: ",cache/fruit".
     * NULL: nothing. Borrowed. */
    const char *(*member_roles)(void *role_data);

    /* Its address apart from gRPC, "zmq=ADDRESS" for the ready line; NULL: none. Borrowed. */
    const char *(*reach)(const void *role_data);
};

extern const struct rota_role rota_role_cache;
extern const struct rota_role rota_role_group;
extern const struct rota_role rota_role_queue;

/* Collection number `i` of the role "cache" and its client; NULL past the last. */
const struct rota_node_cache *rota_role_cache_at(const struct rota_node *node, size_t i,
                                                 const struct rota_get **get);
