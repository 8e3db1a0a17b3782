/* cache_service: the shards of a collection that this node holds, from its lease to its last
 * answer.
 *
 *     open --> ready: the source can be read and the store is there
 *     leave --> clients learn that it holds nothing, calls end, leases are released --> on_left
 *
 * The calls arrive at the server of the node, which passes them on: all shards have its address. */
#pragma once

#include <rota/error.h>
#include <rota/experimental/lease.h>
#include <rota/experimental/store_ask.h>
#include <rota/log.h>
#include <rota/time.h>

/* The collection NAME is space cache/NAME in the store. */
#define ROTA_CACHE_SERVICE_PREFIX "cache/"

struct rota_cache_service;
struct rota_metrics;
struct rota_server_call;

/* The texts are kept. */
struct rota_cache_service_options {
    const char *store, *dc, *source;
    const char *name; /* of the collection */
    const char *host; /* its name as a holder of leases */
    int64_t shards, memory;
    int64_t wanted;     /* initial number of shards */
    int64_t wanted_max; /* maximum number of shards; 0: the initial one */
    rota_time ttl, keep;
    enum rota_lease_loss loss;
    bool is_alone, is_reshard;
    const struct rota_log *log;   /* kept */
    struct rota_metrics *metrics; /* kept; NULL means none */

    /* It can serve: clients should find it from now on. */
    void (*on_ready)(void *data);

    /* It holds another number of shards than before. */
    void (*on_shards)(void *data);

    /* The source or the store can't be used as configured, and retrying won't help. The caller
     * decides whether to close it. */
    void (*on_refused)(void *data, const struct rota_error *error);

    /* Everything is released, after rota_cache_service_leave(). */
    void (*on_left)(void *data);
    void *data; /* kept */
};

/* Gives `*service`; rota_cache_service_close() ends it. Invalid options are an error. */
enum rota_code rota_cache_service_open(struct uv_loop_s *loop,
                                       const struct rota_cache_service_options *options,
                                       struct rota_cache_service **service,
                                       struct rota_error *error);

/* Hold up to `wanted` shards from now on, within `wanted_max`. */
void rota_cache_service_set_wanted(struct rota_cache_service *service, uint32_t wanted);

/* Answers a call of rota.v1.Cache/Get; its on_cancel is rota_get_server_cancel(). */
void rota_cache_service_take(struct rota_cache_service *service, struct rota_server_call *call);

void rota_cache_service_leave(struct rota_cache_service *service);

/* Takes `service`, which may be NULL; a lease that is still held is released, and the loop runs
 * until everything is freed; its calls must have ended. No callback but `on_closed`, which may be
 * NULL, is called after this. */
void rota_cache_service_close(struct rota_cache_service *service, void (*on_closed)(void *data),
                              void *data);

/* How many shards it holds. */
size_t rota_cache_service_n_shards(const struct rota_cache_service *service);

/* Write the role of the members that serve a collection, which is also the name of its space. */
enum rota_code rota_cache_service_role(const char *name, char role[ROTA_STORE_ROLES_MAX],
                                       struct rota_error *error);
