/* probe: check the nodes that serve a collection, as an independent client.
 *
 * A round gets the map and then asks each node for its health, with one pinned try. So circuits,
 * scores and failures are those of a client without other calls. Like a client, it leaves a node
 * with an open circuit alone until the circuit is half-open, and it does not ask a node again that
 * has not answered yet. */
#pragma once

#include "base/histogram.h"
#include "base/map.h"
#include "base/vector.h"
#include "cli/call/collection_options.h"
#include "core/call/shards/shard_map.h"

enum rota_probe_health {
    ROTA_PROBE_UNKNOWN,     /* not probed yet */
    ROTA_PROBE_SERVING,     /* as the node reports */
    ROTA_PROBE_UNCHECKED,   /* it answers, but has no health service */
    ROTA_PROBE_NOT_SERVING, /* as the node reports */
    ROTA_PROBE_FAILING,     /* no answer, or a malformed one */
};

/* "not serving" for ROTA_PROBE_NOT_SERVING. */
const char *rota_probe_health_name(enum rota_probe_health health);

struct rota_probe_node {
    int64_t node;
    struct rota_probe *probe;
    struct rota_str address, channel;  /* one of its shards; both as in the map */
    size_t n_shards;                   /* 0: the map no longer has it */
    enum rota_probe_health health;     /* as last reported */
    struct rota_histogram latency;     /* of answers, in nanoseconds */
    uint64_t n_probes, n_errors;       /* finished; of these, without an answer */
    char problem[ROTA_ERROR_TEXT_MAX]; /* while it is failing */
    struct rota_shards_view view;      /* without its strings */
    bool is_probing;
    rota_time started_at;
    uint64_t told; /* the last state reported, for the handler to keep */
};

struct rota_probe_handler {
    void (*on_map)(void *data);                                /* there is a new map */
    void (*on_node)(void *data, struct rota_probe_node *node); /* it was probed again */
    void (*on_gone)(void *data, struct rota_probe_node *node); /* the map has it no longer */
    void (*on_visited)(void *data);                            /* no probe is in flight */
    void (*on_failed)(void *data, struct rota_str text);       /* no map is available */
    void *data;                                                /* must stay valid */
};

struct rota_probe {
    const struct rota_collection_options *options;
    struct rota_probe_handler handler;
    struct rota_shards *shards;
    struct rota_shard_map *map; /* NULL: none yet */
    struct rota_map by_id;
    ROTA_VECTOR(struct rota_probe_node *) nodes; /* as in the map */
    size_t n_probing;
};

/* Fills `*probe`, which is zeroed; `options` must stay valid. rota_probe_close() ends it, also
 * after a failure; then run the loop once more. */
enum rota_code rota_probe_open(struct uv_loop_s *loop,
                               const struct rota_collection_options *options,
                               const struct rota_collection_nodes *directories,
                               const struct rota_probe_handler *handler, struct rota_probe *probe,
                               struct rota_error *error);
void rota_probe_close(struct rota_probe *probe);

/* Start a round. The results are reported from the loop. */
void rota_probe_visit(struct rota_probe *probe);

struct rota_probe_node *rota_probe_find(const struct rota_probe *probe, int64_t node);
enum rota_circuit rota_probe_circuit(const struct rota_probe_node *node);

/* Whether a replica serves, according to itself and the directory, and would be used (`node` may be
 * NULL); and whether every shard has replicas and all of them do. */
bool rota_probe_is_well(const struct rota_probe_node *node, const struct rota_replica *replica);
bool rota_probe_is_all_well(const struct rota_probe *probe);
