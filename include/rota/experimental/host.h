/* A host in the membership: its address, its weight, and when it is in use. */
#pragma once

#include <rota/ring.h>
#include <rota/time.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_host {
    struct rota_str address;
    struct rota_str zone; /* empty: none */
    uint32_t weight;      /* in thousandths; 0 means ROTA_WEIGHT_ONE */
    bool is_draining;     /* a member that is assigned nothing: not on the ring */

    /* Wall clock. A host is on the ring from `start_at` until just before `stop_at`, so that all
     * members change over together; 0 means no bound. */
    rota_time start_at, stop_at;
};

/* Whether the host is on the ring at `now` (wall clock). */
static inline bool rota_host_is_placed(const struct rota_host *host, rota_time now)
{
    return !host->is_draining && (host->start_at == 0 || host->start_at <= now) &&
           (host->stop_at == 0 || now < host->stop_at);
}

/* The host as input of a ring. */
static inline struct rota_ring_host rota_host_to_ring(const struct rota_host *host)
{
    struct rota_ring_host on_ring = {host->address, host->zone, host->weight, {"", 0}};
    return on_ring;
}

#ifdef __cplusplus
}
#endif
