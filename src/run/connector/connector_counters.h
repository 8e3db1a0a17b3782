/* connector_counters: what a connector counts, on both of its threads. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* The same names as in struct rota_connector_stats. */
struct rota_connector_counters {
    atomic_uint_least64_t n_sent, bytes_sent, n_received, bytes_received;
    atomic_uint_least64_t n_refused, n_dropped, n_unhandled, n_malformed, n_strangers;
    atomic_uint_least64_t n_sessions, n_lost, n_turned_away, n_keys_refused, n_retries, n_pauses;
    atomic_size_t n_peers;
};

static inline void rota_count(atomic_uint_least64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}
