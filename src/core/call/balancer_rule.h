/* balancer_rule: what a policy of the balancer consists of.
 *
 * The balancer keeps the replicas, the tries in flight and the counts; a rule only chooses among
 * candidates and learns from results. A rule keeps its state per replica in the union below. The
 * simulator adds rules of its own for comparison. */
#pragma once

#include "base/map.h"
#include "base/vector.h"

#include <rota/experimental/balancer.h>
#include <rota/experimental/random.h>

#define ROTA_BALANCER_NONE SIZE_MAX

/* Rota's own policy. Decaying numbers hold their value as of the time `_at`. */
struct rota_policy_rota {
    double service_us; /* 0: not known */
    double waiting;    /* work of other clients */
    double mean_wait_us, mean_waiting;
    double part;       /* part of a service time that one waiting call adds; 0: not known */
    double silence_us; /* of tries that were cancelled or timed out */
    double penalty;    /* in tries that are in flight */
    rota_time service_at, waiting_at, silence_at, penalty_at;
    double score;        /* in the current choice */
    uint64_t turn;       /* serial of the last try, without probes */
    uint32_t n_answers;  /* of the first few */
    uint32_t n_samples;  /* of service_us; of the first few */
    uint32_t n_failures; /* in a row */
    uint32_t n_opened;   /* in a row */
    enum rota_circuit circuit;
    rota_time open_until;
    uint64_t opened; /* serial of the last try before that */
    uint64_t probe;  /* serial of the probe that is let through; 0: none */
};

struct rota_policy_look_aside {
    struct rota_cost cost;
    uint32_t n_failures; /* in a row */
    rota_time shunned_until;
};

struct rota_policy_round_robin {
    uint64_t turn; /* the last one; 0: none yet */
};

/* For rules of the simulator. */
struct rota_policy_reference {
    double value;
    rota_time value_at;
};

struct rota_balancer_replica {
    uint64_t id;
    uint64_t n_tries;
    int64_t work;
    uint32_t oldest, newest; /* slots of its tries in flight */
    rota_time seen_at;       /* as a candidate, or in a report */
    rota_time reported_at;   /* its last cost */
    double latency_us;
    bool is_unavailable;
    uint64_t n_ejections;
    uint64_t outcomes[ROTA_OUTCOMES];
    uint64_t latencies[ROTA_BALANCER_LATENCIES];
    union {
        struct rota_policy_rota rota;
        struct rota_policy_look_aside look_aside;
        struct rota_policy_round_robin round_robin;
        struct rota_policy_reference reference;
    };
};

/* A try in flight, or a free place. A replica's are in one list, oldest first. */
struct rota_balancer_slot {
    struct rota_balancer_replica *replica; /* NULL: forgotten meanwhile */
    uint64_t serial;                       /* 0: free */
    rota_time began_at;
    int64_t work;
    uint32_t older, newer; /* `newer` is also the next free place */
};

/* How a try ended, for a rule. */
struct rota_balancer_end {
    enum rota_outcome outcome;
    const struct rota_cost *cost; /* NULL: none was reported; never negative times */
    rota_time latency;
    uint64_t serial;
};

/* The candidates of one choice that are not excluded; there is at least one. */
struct rota_balancer_field {
    struct rota_balancer_replica *const *replicas;
    size_t n;
    uint64_t serial;   /* of the next try */
    bool has_excluded; /* not the first try of its call */
    struct rota_random *random;
};

struct rota_balancer_rule {
    const char *name;

    /* The index of the chosen one, or ROTA_BALANCER_NONE. */
    size_t (*choose)(struct rota_balancer *balancer, rota_time now,
                     const struct rota_balancer_field *field);

    /* A try has ended; the common counts are up to date and no longer include its work. NULL:
     * nothing to learn. */
    void (*on_end)(struct rota_balancer *balancer, rota_time now,
                   struct rota_balancer_replica *replica, const struct rota_balancer_end *end);

    /* For the view. NULL: none. */
    double (*score)(const struct rota_balancer *balancer, rota_time now,
                    const struct rota_balancer_replica *replica);
};

struct rota_balancer {
    const struct rota_balancer_rule *rule;
    struct rota_balancer_options options; /* defaults filled in */
    struct rota_map replicas;
    ROTA_VECTOR(struct rota_balancer_slot) slots;
    ROTA_VECTOR(struct rota_balancer_replica *) field; /* of the current choice */
    uint32_t first_free;
    size_t n_tries;
    uint64_t serial;           /* of the last choice */
    uint64_t counter;          /* look_aside's */
    uint64_t n_panics;         /* choices that had to disregard ejections */
    rota_time now;             /* the latest time passed in */
    rota_time sweep_at;        /* when to look for idle ones */
    struct rota_random random; /* for delays after a report, which is given none */
    void *rule_data;           /* the simulator's */
};

extern const struct rota_balancer_rule rota_policy_rota;
extern const struct rota_balancer_rule rota_policy_look_aside;
extern const struct rota_balancer_rule rota_policy_round_robin;
extern const struct rota_balancer_rule rota_policy_random;

/* A balancer with a custom rule; `rule` and `data` are kept. */
enum rota_code rota_balancer_new_with(const struct rota_balancer_options *options,
                                      const struct rota_balancer_rule *rule, void *data,
                                      struct rota_balancer **balancer, struct rota_error *error);

/* When the replica's oldest try in flight began; ROTA_TIME_NEVER: none is. */
rota_time rota_balancer_oldest(const struct rota_balancer *balancer,
                               const struct rota_balancer_replica *replica);

/* What is left of `value` after `age`: half of it with each `half_life`. */
double rota_balancer_fade(double value, rota_time age, rota_time half_life);

/* look_aside's formula: the largest number when it overflows, `response -
 * service` when a count is negative. A response of 0 means no report: executing
 * cubed. */
int64_t rota_policy_look_aside_score(const struct rota_cost *cost, int64_t executing);
