/* cache_service: a server of a sharded cache, from its lease to its last answer.
 *
 *     open --> ready: the source can be read and the store knows us
 *     leave --> removed from the members, calls end, leases are released --> on_left
 *
 * It has as many gRPC servers as it wants shards, since one server answers for one shard; those
 * without a shard are on standby. Each is a member of the store, by its address, so that clients
 * find it; the first one is also listed as the process, so that processes that divide the shards
 * of a data centre can count themselves. */
#pragma once

#include <rota/error.h>
#include <rota/lease.h>
#include <rota/log.h>
#include <rota/store.h>
#include <rota/time.h>

struct rota_cache_service;
struct rota_tls;

/* The texts are kept. */
struct rota_cache_service_options {
    const char *store, *space, *dc, *source;
    const char *host;   /* its name as a holder of leases */
    const char *listen; /* with several shards wanted, the first of as many ports */
    int64_t shards, memory;
    int64_t wanted;     /* initial number of shards */
    int64_t wanted_max; /* maximum number of shards; 0: the initial one */
    rota_time ttl, keep, drain;
    enum rota_lease_loss loss;
    bool is_alone, is_reshard, insecure;
    struct rota_tls *tls;       /* kept; NULL: plain text */
    const struct rota_log *log; /* kept */

    /* It serves, and clients can find it. */
    void (*on_ready)(void *data);

    /* The source, the store or the addresses can't be used as configured, and retrying won't
     * help. The caller decides whether to close it. */
    void (*on_refused)(void *data, const struct rota_error *error);

    /* Everything is released, after rota_cache_service_leave(). */
    void (*on_left)(void *data);
    void *data; /* kept */
};

/* Gives `*service`; rota_cache_service_close() ends it. Invalid options and addresses are an
 * error. */
enum rota_code rota_cache_service_open(struct uv_loop_s *loop,
                                       const struct rota_cache_service_options *options,
                                       struct rota_cache_service **service,
                                       struct rota_error *error);

/* Hold up to `wanted` shards from now on, within `wanted_max`. */
void rota_cache_service_set_wanted(struct rota_cache_service *service, uint32_t wanted);

void rota_cache_service_leave(struct rota_cache_service *service);

/* Takes `service`, which may be NULL; a lease that is still held is released, and the loop runs
 * until everything is freed. No callback but `on_closed`, which may be NULL, is called after
 * this. */
void rota_cache_service_close(struct rota_cache_service *service, void (*on_closed)(void *data),
                              void *data);

/* Its servers. `*shard` is the one that number `i` holds under the returned epoch; 0: it holds
 * none. */
size_t rota_cache_service_n_servers(const struct rota_cache_service *service);
const char *rota_cache_service_address(const struct rota_cache_service *service, size_t i);
uint64_t rota_cache_service_shard(const struct rota_cache_service *service, size_t i,
                                  uint32_t *shard);

/* Write the role of the members that serve a space's cache; or of the processes, one member of
 * each. */
enum rota_code rota_cache_service_role(const char *space, char role[ROTA_STORE_ROLES_MAX],
                                       struct rota_error *error);
enum rota_code rota_cache_service_process_role(const char *space, char role[ROTA_STORE_ROLES_MAX],
                                               struct rota_error *error);
