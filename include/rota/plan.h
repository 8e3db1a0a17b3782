/* A plan: what would move if hosts, weights, batch, mode or counts changed.
 *
 * Every partition is routed twice, by the rings and settings of now and by
 * those of then, with the very functions that route calls; so a plan does not
 * estimate, it tells. Spaces are added one after the other and only counts are
 * kept, so the size of a plan depends on the hosts alone.
 *
 * A partition of both sides whose host differs is moved. One that only the
 * later side has is new, one that only the earlier side has is gone, and one
 * that loses its host because the later ring is empty is lost; none of these
 * counts as moved.
 *
 * Only batch and mode can change gradually, key by key. What comes from other
 * hosts, weights, points or counts happens at once, so a plan with a window
 * refuses those. */
#pragma once

#include <rota/error.h>
#include <rota/ring.h>
#include <rota/route.h>
#include <rota/time.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ROTA_PLAN_BUCKETS_MAX = 1000 };

/* Partitions of either side, all spaces together. */
#define ROTA_PLAN_PARTITIONS_MAX (UINT64_C(1) << 32)

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
    ROTA_PLAN_LOST, /* nothing owns it any more; `to` is ROTA_RING_NONE */
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

    /* The window of a gradual change of batch or mode, wall clock; both 0 means
     * at once. The moves are then also counted per bucket of time. `before` and
     * `after` have to be the same ring. */
    rota_time start, end;
    size_t n_buckets; /* 0 means 24; a window without length has one */

    /* Every move as it is found, by space and partition; may be NULL. */
    void (*on_move)(void *data, const struct rota_plan_move *move);
    void *data; /* kept */
};

/* A host of either ring. after = before + arriving - leaving. */
struct rota_plan_host {
    struct rota_str address;
    struct rota_str zone;                 /* the later one where it changes */
    bool is_before, is_after;             /* on which of the rings it stands */
    uint32_t zone_before, zone_after;     /* indexes into the zones; valid if on that ring */
    uint32_t weight_before, weight_after; /* in thousandths; 0 if not on that ring */
    uint64_t before, after;               /* partitions it owns */
    uint64_t arriving, leaving;           /* new ones and gone ones included */
};

struct rota_plan_zone {
    struct rota_str name; /* empty: hosts that name none */
    uint32_t n_hosts_before, n_hosts_after;
    uint64_t weight_before, weight_after; /* of its hosts, in thousandths */
    uint64_t before, after;
};

/* How even a load lies over the hosts, or zones, of one side. */
struct rota_plan_spread {
    uint32_t n;
    uint64_t max;
    double mean, stddev; /* of partitions, whatever the weights */
    double max_to_fair;  /* the largest load against the fair share by weight: 1 is even;
                          * 0 when there are no partitions */
};

struct rota_plan_result {
    uint64_t n_spaces;
    uint64_t before, after;                   /* partitions of each side */
    uint64_t moved, added, gone, lost, stays; /* before = stays + moved + gone + lost */

    /* The least an even placement moves: the partitions of the hosts that go,
     * counted, and what the fair shares (by weight) of the others gain beyond
     * that. Loads are never quite fair, so `moved` can be a little less. */
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

/* Route a space both ways and count. A space that is refused changes nothing;
 * one that exceeds ROTA_PLAN_PARTITIONS_MAX is, and so is another number of
 * partitions within a window. */
enum rota_code rota_plan_add(struct rota_plan *plan, const struct rota_plan_space *space,
                             struct rota_error *error);

/* The hosts alone, for use in `on_move`; their counts are still growing. */
const struct rota_plan_host *rota_plan_hosts(const struct rota_plan *plan, size_t *n_hosts);

/* What was found so far; valid until the next call on the plan. */
const struct rota_plan_result *rota_plan_result(struct rota_plan *plan);

/* moved / minimum, or -1 when nothing had to move. It is a little under 1 where a
 * host that comes takes less than its fair share. */
double rota_plan_ratio(const struct rota_plan_result *result);

#ifdef __cplusplus
}
#endif
