/* A plan: what would move if hosts, weights, batch, mode or counts changed.
 *
 * Every partition is routed twice, by the rings and settings of now and by
 * those of then, with the very functions that route calls; so a plan does not
 * estimate, it tells. Spaces are added one after the other and only counts are
 * kept, so the size of a plan depends on the hosts alone.
 *
 * A partition of both sides whose host differs is moved. One that only the
 * later side has is new, one that only the earlier side has is gone; neither
 * counts as moved. */
#pragma once

#include <rota/error.h>
#include <rota/ring.h>
#include <rota/route.h>
#include <rota/time.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ROTA_PLAN_BUCKETS_MAX = 1000 };

/* One side of a queue: how it is cut and routed. */
struct rota_plan_side {
    uint32_t n_partitions; /* at most ROTA_PARTITIONS_MAX */
    struct rota_spread spread;
};

/* A normal queue of one type, now and then. */
struct rota_plan_space {
    struct rota_str namespace_id;
    struct rota_str queue;
    enum rota_task_type type;
    struct rota_plan_side before, after;
};

enum rota_plan_kind {
    ROTA_PLAN_MOVED,
    ROTA_PLAN_NEW,  /* `from` means nothing */
    ROTA_PLAN_GONE, /* `to` means nothing */
};

/* One partition that does not stay. A host is an index into the result's
 * hosts, or ROTA_RING_NONE where the ring of that side is empty. */
struct rota_plan_move {
    const struct rota_plan_space *space;
    uint32_t partition;
    enum rota_plan_kind kind;
    uint32_t from, to;
    rota_time at; /* when it flips; 0 without a window */
};

struct rota_plan_options {
    struct rota_ring *before, *after; /* shared until the plan is freed */

    /* The window of a gradual change, wall clock; both 0 means at once. The
     * moves are then also counted per bucket of time. */
    rota_time start, end;
    size_t n_buckets; /* 0 means 24 */

    /* Every move as it is found, by space and partition; may be NULL. */
    void (*on_move)(void *data, const struct rota_plan_move *move);
    void *data; /* kept */
};

/* A host of either ring. after = before + arriving - leaving. */
struct rota_plan_host {
    struct rota_str address;
    struct rota_str zone;             /* the later one where it changes */
    bool is_before, is_after;         /* on which of the rings it stands */
    uint32_t zone_before, zone_after; /* indexes into the zones; valid if on that ring */
    uint64_t before, after;           /* partitions it owns */
    uint64_t arriving, leaving;       /* new ones and gone ones included */
};

struct rota_plan_zone {
    struct rota_str name; /* empty: hosts that name none */
    uint32_t n_hosts_before, n_hosts_after;
    uint64_t before, after;
};

/* How even a load lies over the hosts, or zones, of one side. */
struct rota_plan_spread {
    uint32_t n;
    uint64_t max;
    double mean, stddev;
};

struct rota_plan_result {
    uint64_t n_spaces;
    uint64_t before, after;             /* partitions of each side */
    uint64_t moved, added, gone, stays; /* before = stays + moved + gone */

    /* What any placement has to move: the larger of the partitions whose host
     * leaves, and of what the fair shares (by weight) of the hosts gain. */
    double minimum;

    const struct rota_plan_host *hosts; /* of both rings, by address */
    size_t n_hosts;
    const struct rota_plan_zone *zones; /* of both rings, by name */
    size_t n_zones;
    struct rota_plan_spread hosts_before, hosts_after, zones_before, zones_after;

    const uint64_t *buckets; /* moves per equal part of the window */
    size_t n_buckets;        /* 0 without a window */
};

struct rota_plan;

/* Begin a plan without spaces. Gives `*plan`; rota_plan_free() ends it. */
enum rota_code rota_plan_new(const struct rota_plan_options *options, struct rota_plan **plan,
                             struct rota_error *error);
void rota_plan_free(struct rota_plan *plan);

/* Route a space both ways and count. A space that is refused changes nothing. */
enum rota_code rota_plan_add(struct rota_plan *plan, const struct rota_plan_space *space,
                             struct rota_error *error);

/* The hosts alone, for use in `on_move`; their counts are still growing. */
const struct rota_plan_host *rota_plan_hosts(const struct rota_plan *plan, size_t *n_hosts);

/* What was found so far; valid until the next call on the plan. */
const struct rota_plan_result *rota_plan_result(struct rota_plan *plan);

/* moved / minimum, or -1 when nothing had to move. */
double rota_plan_ratio(const struct rota_plan_result *result);

#ifdef __cplusplus
}
#endif
