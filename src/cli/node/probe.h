/* probe: visits the nodes that serve a collection, as a client of its own.
 *
 * A visit asks for the map and then each node for its health, with one pinned try:
 * so circuits, scores and failures are those that a client with no other calls
 * would have. A node whose circuit is open is left alone until it is half-open, as
 * a client would, and one that has not answered yet is not asked again. */
#pragma once

#include "base/histogram.h"
#include "base/map.h"
#include "base/vector.h"
#include "cli/call/collection_options.h"
#include "core/call/shards/shard_map.h"

enum rota_probe_health {
    ROTA_PROBE_UNKNOWN,     /* not asked yet */
    ROTA_PROBE_SERVING,     /* it says so */
    ROTA_PROBE_UNCHECKED,   /* it answers, but has no health service */
    ROTA_PROBE_NOT_SERVING, /* it says so */
    ROTA_PROBE_FAILING,     /* no answer, or not one that was asked for */
};

/* "not serving" for ROTA_PROBE_NOT_SERVING. */
const char *rota_probe_health_name(enum rota_probe_health health);

struct rota_probe_node {
    int64_t node;
    struct rota_probe *probe;
    struct rota_str address, channel;  /* one of its shards; both of the map */
    size_t n_shards;                   /* 0: the map no longer has it */
    enum rota_probe_health health;     /* as it was last heard */
    struct rota_histogram latency;     /* of answers, in nanoseconds */
    uint64_t n_probes, n_errors;       /* that ended; of these, without an answer */
    char problem[ROTA_ERROR_TEXT_MAX]; /* while it is failing */
    struct rota_shards_view view;      /* without its strings */
    bool is_probing;
    rota_time started_at;
    uint64_t told; /* the state last reported, kept by the handler */
};

struct rota_probe_handler {
    void (*on_map)(void *data);                                /* there is a new map */
    void (*on_node)(void *data, struct rota_probe_node *node); /* it was looked at again */
    void (*on_gone)(void *data, struct rota_probe_node *node); /* the map has it no longer */
    void (*on_visited)(void *data);                            /* no probe is in flight */
    void (*on_failed)(void *data, struct rota_str text);       /* there is no map to be had */
    void *data;                                                /* kept */
};

struct rota_probe {
    const struct rota_collection_options *options;
    struct rota_probe_handler handler;
    struct rota_shards *shards;
    struct rota_shard_map *map; /* NULL: none yet */
    struct rota_map by_id;
    ROTA_VECTOR(struct rota_probe_node *) nodes; /* as the map has them */
    size_t n_probing;
};

/* Fills `*probe`, which is zeroed; `options` are kept. rota_probe_close() ends it,
 * also after a failure; the loop has to run once more. */
enum rota_code rota_probe_open(struct uv_loop_s *loop,
                               const struct rota_collection_options *options,
                               const struct rota_collection_nodes *directories,
                               const struct rota_probe_handler *handler, struct rota_probe *probe,
                               struct rota_error *error);
void rota_probe_close(struct rota_probe *probe);

/* Begin a visit; all that follows is told from the loop. */
void rota_probe_visit(struct rota_probe *probe);

struct rota_probe_node *rota_probe_find(const struct rota_probe *probe, int64_t node);
enum rota_circuit rota_probe_circuit(const struct rota_probe_node *node);

/* Whether a replica serves, as far as it and the directory say, and would be used
 * (`node` may be NULL); and whether all of them do, of shards that each have one. */
bool rota_probe_is_well(const struct rota_probe_node *node, const struct rota_replica *replica);
bool rota_probe_is_all_well(const struct rota_probe *probe);
