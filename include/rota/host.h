/* A host as membership lists it: where it is, how much it takes, and when. */
#pragma once

#include <rota/ring.h>
#include <rota/time.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_host {
    struct rota_str address;
    struct rota_str zone; /* empty: none named */
    uint32_t weight;      /* in thousandths; 0 means ROTA_WEIGHT_ONE */
    bool is_draining;     /* a member that is given nothing: not on the ring */

    /* Wall clock. A host is on the ring from `start_at` until just before
     * `stop_at`, so that all who know it flip together; 0 means no bound. */
    rota_time start_at, stop_at;
};

/* Whether the host stands on the ring at `now` (wall clock). */
static inline bool rota_host_is_placed(const struct rota_host *host, rota_time now)
{
    return !host->is_draining && (host->start_at == 0 || host->start_at <= now) &&
           (host->stop_at == 0 || now < host->stop_at);
}

/* The host as a ring is built from it. */
static inline struct rota_ring_host rota_host_to_ring(const struct rota_host *host)
{
    struct rota_ring_host on_ring = {host->address, host->zone, host->weight, {"", 0}};
    return on_ring;
}

#ifdef __cplusplus
}
#endif
