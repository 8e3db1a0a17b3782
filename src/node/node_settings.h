/* node_settings: the settings of a node. One table for the file, the environment and the command
 * line; docs/configuration.md is generated from it. */
#pragma once

#include "base/option.h"
#include "core/work/job/durability.h"
#include "wire/text/settings.h"

struct rota_tls;

struct rota_node_settings {
    const char *data, *listen, *http, *http_names, *workers, *workers_key, *workers_list;
    const char *advertise, *store, *zone, *weight, *roles, *certificate, *key, *ca, *ledger;
    const char *operators, *nodes, *name, *queue_settings;
    int durability; /* enum rota_durability */
    int log_level;
    int64_t partitions, memory, segment, peer_connections;
    rota_time ttl, align, drain_limit, idle_limit;
    bool insecure, repair;
    bool is_temporary; /* the data directory, made for this process; not an option */
};

enum {
    ROTA_NODE_SPACES_MAX = 64,      /* of a node */
    ROTA_NODE_SPACE_NAME_MAX = 200, /* bytes */
};

/* A space of shards that the cluster owns together. */
struct rota_node_space {
    const char *name, *log, *seats;
    int engine;
    int64_t shards;
};

enum {
    ROTA_NODE_ENGINE_STATIC,
    ROTA_NODE_ENGINE_RING,
    ROTA_NODE_ENGINE_LEASE,
    ROTA_NODE_ENGINE_GROUP
};

/* A collection of values that the cluster serves in shards. */
struct rota_node_cache {
    const char *name, *source;
    int64_t shards, memory, wanted;
    rota_time keep;
    int loss; /* enum rota_lease_loss */
    bool reshard;
};

/* A group of tasks that is watched. */
struct rota_node_group {
    const char *name, *log;
};

extern const struct rota_option rota_node_options[];
extern const size_t rota_node_n_options;
extern const struct rota_settings_kind rota_node_kinds[];
extern const size_t rota_node_n_kinds;

/* Whether the settings are consistent: known roles, a valid weight, keys and certificates in pairs,
 * spaces with different names. */
enum rota_code rota_node_settings_check(const struct rota_settings *settings,
                                        struct rota_error *error);

/* The part that checks addresses, URLs and files: node_check.c. */
enum rota_code rota_node_check_reach(const struct rota_settings *settings,
                                     struct rota_error *error);

/* Whether the certificate is for the host by which other nodes reach this one. */
enum rota_code rota_node_check_certificate(const struct rota_tls *tls, const char *certificate,
                                           const char *host, struct rota_error *error);

/* Whether option number `i` can change while the node runs. */
bool rota_node_settings_is_live(size_t i);

/* Whether `role` is among the roles of the settings. */
bool rota_node_settings_has_role(const struct rota_node_settings *settings, const char *role);

/* The first space among the sections from number `*place` on, which becomes its number; NULL if
 * there is none. */
const struct rota_node_space *rota_node_settings_space(const struct rota_settings *settings,
                                                       size_t *place);

/* "ring" for ROTA_NODE_ENGINE_RING. */
const char *rota_node_settings_engine_name(int engine);
