/* get_server_inside: the parts of the server of get.h, which are in files of their own:
 * get_server.c has the shard that is held, the calls, open and close; get_batch.c the batches
 * and their answers. */
#pragma once

#include "base/metrics.h"
#include "run/call/get_message.h"
#include "run/rpc/server_inside.h"

#include <rota/server.h>

/* How a Get ended, for the metrics. */
enum rota_get_ending {
    ROTA_GET_ENDED_ANSWERED,
    ROTA_GET_ENDED_EMPTY,
    ROTA_GET_ENDED_NOT_MATCHED,
    ROTA_GET_ENDED_FAILED,
    ROTA_GET_ENDED_INVALID,
    ROTA_GET_ENDINGS
};

struct rota_get_server_series {
    struct rota_counter *ended[ROTA_GET_ENDINGS];
    struct rota_counter *found, *absent, *refused, *left;
    struct rota_gauge *shards; /* that are held */
};

struct rota_get_batch {
    struct rota_get_server *server;
    struct rota_server_call *call;
    struct rota_get_batch *next; /* at rest */
    struct rota_buffer keys;
    size_t n_keys;
    ROTA_VECTOR(struct rota_str) values; /* without data: absent */
    ROTA_VECTOR(struct rota_get_entry) entries;
    ROTA_VECTOR(struct rota_get_problem) problems; /* ids are indices until it is finished */
    struct rota_arena arena;
    ROTA_VECTOR(struct rota_interval_claim) shards; /* of its keys, as they were at the start */
    void *data;
    bool has_failed, is_too_large;
    bool allows_problems, leaves_rest;
};

/* A shard that the server holds, or did. */
struct rota_get_held {
    struct rota_interval_claim claim;
    bool is_held;
};

struct rota_get_server {
    struct rota_get_server_options options;
    struct rota_get_service service;
    struct rota_metrics *metrics; /* our own, when none was given */
    struct rota_get_server_series series;
    struct rota_get_writer writer;
    struct rota_get_batch *at_rest;
    size_t n_at_rest, n_batches; /* in use */
    ROTA_VECTOR(struct rota_get_held) held;
    ROTA_VECTOR(struct rota_interval_claim) looked; /* room for rota_get_server_current_head() */
    uint64_t epoch;                                 /* the highest that it ever had */
    void (*on_idle)(void *data);                    /* when the last batch ends; NULL: stays */
    void *idle_data;
    bool is_closed;
};

static inline void rota_get_server_count(struct rota_get_server *server,
                                         enum rota_get_ending ending)
{
    rota_counter_add(server->series.ended[ending], 1);
}

/* --- get_server.c --- */

/* A get server that is on no rota_server: the caller adds the method, and passes each call on. So
 * several collections can share a method. `rota_get_server_cancel` is an on_cancel. */
enum rota_code rota_get_server_new(const struct rota_get_server_options *options,
                                   struct rota_get_server **get_server, struct rota_error *error);
void rota_get_server_take(struct rota_get_server *server, struct rota_server_call *call);
void rota_get_server_cancel(void *data, struct rota_server_call *call);

/* Tell clients from now on that no shard is held, but finish the batches there are; then on_idle
 * is called, from the loop or at once. */
void rota_get_server_leave(struct rota_get_server *server, void (*on_idle)(void *data), void *data);

/* What an answer that is sent now may say about the shards; valid until the next look. */
struct rota_get_head rota_get_server_current_head(struct rota_get_server *server);
void rota_get_server_free(struct rota_get_server *server);

/* --- get_batch.c --- */

/* A batch for the call; NULL when there is no memory. */
struct rota_get_batch *rota_get_batch_open(struct rota_get_server *server,
                                           struct rota_server_call *call);
void rota_get_batch_free(struct rota_get_batch *batch);

/* Answer it, successfully or not. They take `batch`. */
void rota_get_batch_reject(struct rota_get_batch *batch, enum rota_get_ending ending,
                           enum rota_status status, const char *text);
void rota_get_batch_reply(struct rota_get_batch *batch, enum rota_get_ending ending,
                          const struct rota_get_head *head);
void rota_get_batch_reply_shard(struct rota_get_batch *batch, struct rota_get_head head);
