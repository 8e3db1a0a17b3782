/* A plan: what would move if hosts, weights, batch, mode or counts changed.
 *
 * A plan routes every partition twice, by the rings and settings before and after, with the same
 * functions that route calls; so a plan is exact, not an estimate. Spaces are added one after the
 * other and only counts are kept, so the size of a plan depends only on the number of hosts.
 *
 * A partition on both sides whose host differs is moved. A partition only on the later side is new,
 * one only on the earlier side is gone, and one that loses its host because the later ring is empty
 * is lost; none of these counts as moved.
 *
 * Only batch and mode can change gradually, key by key. Changes of hosts, weights, points or counts
 * happen at once, so a plan with a window rejects them. */
#pragma once

#include <rota/error.h>
#include <rota/experimental/route.h>
#include <rota/ring.h>
#include <rota/time.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ROTA_PLAN_BUCKETS_MAX = 1000 };

/* Partitions of either side, over all spaces. */
#define ROTA_PLAN_PARTITIONS_MAX (UINT64_C(1) << 32)

/* One side of a queue: its partitions and their routing. */
struct rota_plan_side {
    uint32_t n_partitions; /* at most ROTA_PARTITIONS_MAX */
    struct rota_spread spread;
};

/* A normal queue of one type, before and after. */
struct rota_plan_space {
    struct rota_str namespace_id;
    struct rota_str queue;
    enum rota_task_type type;
    struct rota_plan_side before, after;
};

enum rota_plan_kind {
    ROTA_PLAN_MOVED,
    ROTA_PLAN_NEW,  /* `from` is meaningless */
    ROTA_PLAN_GONE, /* `to` is meaningless */
    ROTA_PLAN_LOST, /* it loses its owner; `to` is ROTA_RING_NONE */
};

/* A partition that does not stay. A host is an index into the result's hosts, or ROTA_RING_NONE if
 * the ring of that side is empty. */
struct rota_plan_move {
    const struct rota_plan_space *space;
    uint32_t partition;
    enum rota_plan_kind kind;
    uint32_t from, to;
    rota_time at; /* when it changes; 0 without a window */
};

struct rota_plan_options {
    struct rota_ring *before, *after; /* referenced until the plan is freed */

    /* The window of a gradual change of batch or mode, wall clock; both 0 means at once. With a
     * window, moves are also counted per bucket of time, and `before` and `after` must be the same
     * ring. */
    rota_time start, end;
    /* 0 means 24, at most ROTA_PLAN_BUCKETS_MAX; a window of zero length has one. */
    size_t n_buckets;

    /* Called for every move as it is found, by space and partition; may be NULL. */
    void (*on_move)(void *data, const struct rota_plan_move *move);
    void *data; /* kept */

    void *reserved[4]; /* must be zero; room for future options */
};

/* A host of either ring. after = before + arriving - leaving. */
struct rota_plan_host {
    struct rota_str address;
    struct rota_str zone;                 /* the later one if it changes */
    bool is_before, is_after;             /* on which of the rings it is */
    uint32_t zone_before, zone_after;     /* indexes into the zones; valid if on that ring */
    uint32_t weight_before, weight_after; /* in thousandths; 0 if not on that ring */
    uint64_t before, after;               /* partitions it owns */
    uint64_t arriving, leaving;           /* including new and gone partitions */
};

struct rota_plan_zone {
    struct rota_str name; /* empty: hosts without a zone */
    uint32_t n_hosts_before, n_hosts_after;
    uint64_t weight_before, weight_after; /* of its hosts, in thousandths */
    uint64_t before, after;
};

/* How evenly the load is spread over the hosts, or zones, of one side. */
struct rota_plan_spread {
    uint32_t n;
    uint64_t max;
    double mean, stddev; /* in partitions, regardless of weights */
    /* The largest load relative to the fair share by weight: 1 is even; 0 if there are no
     * partitions. */
    double max_to_fair;
};

struct rota_plan_result {
    uint64_t n_spaces;
    uint64_t before, after;                   /* partitions of each side */
    uint64_t moved, added, gone, lost, stays; /* before = stays + moved + gone + lost */

    /* A lower bound for an even placement: the partitions of the hosts that leave, plus what the
     * fair shares (by weight) of the others gain beyond that. Loads are never quite fair, so
     * `moved` can be slightly less. */
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

/* Creates a plan without spaces. Gives `*plan`; free it with rota_plan_free(). */
enum rota_code rota_plan_new(const struct rota_plan_options *options, struct rota_plan **plan,
                             struct rota_error *error);
void rota_plan_free(struct rota_plan *plan);

/* Routes a space both ways and counts the moves. A rejected space changes nothing; a space is
 * rejected if it exceeds ROTA_PLAN_PARTITIONS_MAX or changes the number of partitions within a
 * window. */
enum rota_code rota_plan_add(struct rota_plan *plan, const struct rota_plan_space *space,
                             struct rota_error *error);

/* Only the hosts, for use in `on_move`; their counts are still growing. */
const struct rota_plan_host *rota_plan_hosts(const struct rota_plan *plan, size_t *n_hosts);

/* The result so far; valid until the next call on the plan. */
const struct rota_plan_result *rota_plan_result(struct rota_plan *plan);

/* moved / minimum, or -1 if nothing had to move. Slightly under 1 if a new host gets less than its
 * fair share. */
double rota_plan_ratio(const struct rota_plan_result *result);

#ifdef __cplusplus
}
#endif
