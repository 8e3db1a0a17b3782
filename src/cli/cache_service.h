/* cache_service: a server of a sharded cache, from its lease to its last answer.
 *
 *     open --> ready: the source can be read and the store knows us
 *     signal --> leaving: out of the members, calls end, leases are given back --> over
 *     second signal --> over at once
 *
 * It has as many gRPC servers as it wants shards, for one server answers for one shard;
 * those that hold none stand by. Each is a member of the store, by its address, so that
 * clients find it. */
#pragma once

#include <rota/error.h>
#include <rota/lease.h>
#include <rota/log.h>
#include <rota/time.h>

struct rota_cache_service_options {
    const char *store, *space, *dc, *source;
    const char *listen;    /* with several shards wanted, the first of as many ports */
    const char *advertise; /* what clients know it by, and its name; NULL: where it listens */
    int64_t shards, wanted, memory;
    rota_time ttl, keep, drain;
    enum rota_lease_loss loss;
    enum rota_log_level log_level;
    bool is_alone, is_reshard, insecure;
};

/* Run it until it is over; returns an exit code. */
int rota_cache_service_run(const struct rota_cache_service_options *options);

/* Write the role by which the members that serve a space's cache are known. */
enum rota_code rota_cache_service_role(const char *space, char *role, size_t size,
                                       struct rota_error *error);
