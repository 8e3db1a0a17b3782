/* service_client_inside: the parts of service_client.h, which are in files of their own.
 *
 *     client --one for each name--> space --those that wait--> call
 *
 * A call is one of shards_inside.h, with retries, connections and health checks as there; only its
 * replicas come from here. The map of a space comes from a directory (map_watch.h); follow decides
 * for each call whether it goes or waits. */
#pragma once

#include "core/call/service/follow.h"
#include "run/call/map_watch.h"
#include "run/call/shards_hooks.h"
#include "wire/grpc/call_notes.h"

#include <rota/service_client.h>

/* A deadline of the client's timer. */
struct rota_service_moment {
    struct rota_heap_node node;       /* first */
    struct rota_service_space *space; /* or */
    struct rota_service_call *call;
};

struct rota_service_space {
    struct rota_service_client *client;
    int64_t id; /* among the spaces of this client */
    struct rota_map_watch watch;
    struct rota_service_moment moment;
    struct rota_list_node waiting; /* calls, for the map */
    char name[];
};

struct rota_service_call {
    struct rota_service_client *client;
    struct rota_service_space *space;
    struct rota_shards_call *call;
    struct rota_list_node link;    /* of all */
    struct rota_list_node waiting; /* of the space */
    struct rota_service_moment moment;
    struct rota_follow follow;
    uint64_t asked; /* the question that waits for an answer */
    uint32_t shard; /* UINT32_MAX: not known yet */
    uint64_t epoch; /* of the last try */
    bool has_shard;
    char channel[ROTA_NOTE_NUMBER_MAX];
    char node[ROTA_CHANNEL_TARGET_MAX + 1]; /* of the last try */
    void (*on_reply)(void *data, const struct rota_service_reply *reply);
    void *data;
    struct rota_metadata metadata[ROTA_SERVICE_METADATA_MAX];
    struct rota_str key;
    char strings[]; /* of key and metadata */
};

struct rota_service_client {
    struct uv_loop_s *loop;
    struct rota_shards *shards;
    struct rota_shards_hooks hooks;
    struct rota_channel *channels[ROTA_SERVICE_NODES_MAX];
    struct rota_map_watch_nodes nodes;
    char *zone; /* NULL: none is preferred */
    int64_t retries;
    uv_timer_t timer;
    struct rota_heap moments;
    struct rota_map spaces;
    struct rota_list_node calls;
    size_t n_calls;
    uint64_t n_moments;
    struct rota_random random;
    struct rota_buffer text; /* that is built for the program */
    bool is_closed;
};

/* --- service_client.c --- */

/* Look again for where the call can go. */
void rota_service_client_call_answer(struct rota_service_call *call);

/* Call it at this time; ROTA_TIME_NEVER: never. */
void rota_service_client_moment_set(struct rota_service_client *client,
                                    struct rota_service_moment *moment, rota_time at);

/* Answer the call's question with a failure that ends it. */
void rota_service_client_call_refuse(struct rota_service_call *call, enum rota_status status,
                                     const char *text);

/* --- service_client_map.c --- */

struct rota_service_space *rota_service_client_map_space_open(struct rota_service_client *client,
                                                              struct rota_str name);
void rota_service_client_map_space_free(struct rota_service_space *space);

/* The map has changed: calls that wait look again. */
void rota_service_client_map_space_wake(struct rota_service_space *space);
