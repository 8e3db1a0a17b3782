/* Membership: which hosts there are, and the ring of those that are given work.
 *
 * A source (a hosts file, a table) lists the hosts; operators' overrides hold
 * whatever the source says; the wall clock decides when a `start_at` or a
 * `stop_at` comes. What stands on the ring follows from these three alone. */
#pragma once

#include <rota/host.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ROTA_MEMBERS_MAX = ROTA_RING_HOSTS_MAX, /* hosts of one snapshot */
    ROTA_MEMBERS_OVERRIDES_MAX = 65535,     /* hosts that are evicted or drained */
};

/* How long a change takes to reach everybody, as rota_members_align() assumes. */
#define ROTA_MEMBERS_PROPAGATION (3 * ROTA_SEC)

/* A host of the source, and what became of it. Its weight is never 0. */
struct rota_member {
    struct rota_host host;
    bool is_evicted; /* an operator holds it for dead, even if it answers */
    bool is_drained; /* an operator has asked that it be given nothing */
    bool is_placed;  /* it stands on the ring */
};

/* What is different now. Each address is in one list at most; all three empty
 * means that nothing is. */
struct rota_members_change {
    const struct rota_str *added;   /* stand on the ring and did not before */
    const struct rota_str *removed; /* no longer stand on the ring */
    const struct rota_str *changed; /* the rest: another weight, zone or state, or a
                                     * host that came or went without being placed */
    size_t n_added, n_removed, n_changed;
};

/* The moment to join or leave so that all flip together: the next multiple of
 * `alignment` since the epoch strictly after `now` + `propagation` (usually
 * ROTA_MEMBERS_PROPAGATION). An alignment of 0 means `now`. Any thread. */
rota_time rota_members_align(rota_time now, rota_time alignment, rota_time propagation);

#ifdef __cplusplus
}
#endif
