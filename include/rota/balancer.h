/* A balancer: which replica a try goes to.
 *
 * Two functions. Select chooses one of the replicas that could serve and counts
 * the try as in flight; report tells how it ended, which is also how a balancer
 * learns. To cancel is one more way to end, so no count can leak: whoever
 * selects reports once, whatever happens. A second report is refused and does
 * nothing, for the try names a slot and the serial number of its choice.
 *
 * A replica is a number that the caller gives out, the same for as long as the
 * same process is meant. Times are on the monotonic clock.
 *
 * The policies:
 *  - rota: scored on every choice; see below. The default.
 *  - look_aside: Milvus' rule. Nine of ten choices go round, the tenth goes to
 *    the lowest of (response - service) + (1 + waiting + executing)^3 x service
 *    by the last report of each.
 *  - round_robin: the replica whose turn was longest ago, whatever the others
 *    on the list are.
 *  - random: any.
 *
 * How rota scores, in microseconds of expected wait; the lowest wins:
 *
 *     service x (1 + penalty + part x (own work + others' work)) + silence
 *
 *  - service: a moving average of the time a try takes, from when it was sent,
 *    apart from waiting in a queue. A sample counts as at most 3 averages, so a
 *    pause of a busy machine changes little. Averages within 1.6 times the best
 *    count as the best, for what is left then is noise, and chasing noise makes
 *    clients move as a herd.
 *  - own work: our tries in flight there; counted at once, so that two choices
 *    in a row differ.
 *  - others' work: the queue that the last answer told of, fading, as we do not
 *    hear of its end. With many clients this is most of what there is to know.
 *  - part: how long one piece of waiting work takes to go there, as a part of a
 *    service time, learned from its waits and queues by Little's law. It is below 1
 *    where a replica serves several at once; without it a slow but idle replica
 *    would look as good as a quick one that is hardly busy.
 *  - silence: how long the oldest try in flight waits beyond what is usual while
 *    the replica answers nothing, or how long one that was cancelled did. It finds
 *    a frozen replica, which never answers and so never reports anything bad.
 *  - penalty: grows with each failure, by its class, fades, and halves with each
 *    answer. Failing is fast; without it a replica that fails looks like the best
 *    one.
 *
 * Among those within 1.3 times the lowest score turns are taken. One try in 100
 * goes to a replica that was not heard of for a while: nothing else would show
 * that a slow one has become quick.
 *
 * An unknown replica is average, not free, and its own work counts more until it
 * has answered a few times, so that it is tried out and not swamped. Its service
 * time is unknown before the third sample, begins with the lowest of these, and
 * has to differ more than 1.6 times up to the tenth: the first answers of a process
 * are slow, and a replica that gets no tries can't show that it is quicker.
 *
 * After failures in a row a replica is ejected: its circuit is open. After a
 * delay, longer each time and never exact, one try is let through; its answer
 * closes the circuit or opens it again. When more than half of the candidates
 * are ejected nobody is: the fault is then not theirs alone, or it makes no
 * difference, and the score still prefers those that fail least. */
#pragma once

#include <rota/error.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ROTA_TRIES_MAX = 1 << 20,            /* in flight, of one balancer */
    ROTA_BALANCER_REPLICAS_MAX = 65536,  /* with state */
    ROTA_BALANCER_CANDIDATES_MAX = 4096, /* of one choice, and as many excluded */
    ROTA_BALANCER_WORK_MAX = 1000000,    /* of one try */
    ROTA_BALANCER_LATENCIES = 32,        /* buckets of the latency histogram */
};

/* A replica that is no candidate and has no try in flight for so long is
 * forgotten. */
#define ROTA_BALANCER_IDLE (10 * ROTA_MIN)

struct rota_balancer;
struct rota_random;

enum rota_balancer_policy {
    ROTA_BALANCER_ROTA,
    ROTA_BALANCER_LOOK_ASIDE,
    ROTA_BALANCER_ROUND_ROBIN,
    ROTA_BALANCER_RANDOM,
};

/* How a try ended, by what it says about the replica. */
enum rota_outcome {
    ROTA_OUTCOME_OK,
    ROTA_OUTCOME_INPUT,       /* the request is wrong: an answer like any other */
    ROTA_OUTCOME_OVERLOAD,    /* it is well but full: go elsewhere, hold nothing against it */
    ROTA_OUTCOME_UNAVAILABLE, /* it can't be reached, or says that it can't serve */
    ROTA_OUTCOME_TIMEOUT,     /* no answer in time */
    ROTA_OUTCOME_CANCELLED,   /* we no longer wanted the answer; says nothing but its age */
    ROTA_OUTCOME_OTHER,       /* any other failure of the replica's */
};
enum { ROTA_OUTCOMES = ROTA_OUTCOME_OTHER + 1 };

/* "ok" for ROTA_OUTCOME_OK. Any thread. */
const char *rota_outcome_name(enum rota_outcome outcome);

/* Whether it counts against the replica. Any thread. */
bool rota_outcome_is_failure(enum rota_outcome outcome);

/* What the replica told along with its answer. */
struct rota_cost {
    int64_t response_us; /* from receipt to answer */
    int64_t service_us;  /* of that, without waiting in a queue */
    int64_t waiting;     /* work still waiting there as it answered */
};

struct rota_balancer_options {
    enum rota_balancer_policy policy;
    uint64_t seed; /* guards the table of replicas */

    /* look_aside only; 0 means the default. */
    rota_time expires;      /* a report older than this is none; 1 s */
    uint32_t check_every;   /* how often the scores are looked at; every 10th choice */
    uint32_t tolerance_ppm; /* scores this close are equal; 100,000: a tenth */

    /* look_aside as Milvus has it: an unknown replica scores 0, as if it were
     * the best, failures do not count, and when all are marked unavailable there
     * is no choice. Otherwise such a replica is as good as the best one and no
     * better, one that failed comes last for `expires`, twice as long each time,
     * and one that is unavailable is the last resort. */
    bool is_original;
};

/* "rota", "look_aside", "round_robin", "random". Parsing refuses other names.
 * Any thread. */
const char *rota_balancer_policy_name(enum rota_balancer_policy policy);
enum rota_code rota_balancer_policy_parse(struct rota_str name, enum rota_balancer_policy *policy,
                                          struct rota_error *error);

/* Gives `*balancer`; rota_balancer_free() ends it, tries in flight included; it
 * accepts NULL. */
enum rota_code rota_balancer_new(const struct rota_balancer_options *options,
                                 struct rota_balancer **balancer, struct rota_error *error);
void rota_balancer_free(struct rota_balancer *balancer);

/* Among whom to choose. */
struct rota_choice {
    const uint64_t *replicas;
    size_t n_replicas;
    const uint64_t *excluded; /* not these: they have failed this call, or have it already */
    size_t n_excluded;
    int64_t work; /* how much it is, as all tries count it; 0 means 1 */
};

/* One try in flight, to be reported once. Zeroed it is none: a report of that
 * is refused. */
struct rota_try {
    uint64_t replica;
    uint64_t serial;
    uint32_t slot;
};

/* Choose a replica and count a try on it. Gives `*chosen`; on failure nothing is
 * counted. ROTA_ERR_UNAVAILABLE when there is no candidate that is not excluded,
 * or when all are marked unavailable and the policy is the original's;
 * ROTA_ERR_LIMIT at a bound, unless an idle replica can be forgotten to make room. */
enum rota_code rota_balancer_select(struct rota_balancer *balancer, rota_time now,
                                    const struct rota_choice *choice, struct rota_random *random,
                                    struct rota_try *chosen, struct rota_error *error);

/* The try is on its way to the replica now: what it has waited so far, for a connection to open,
 * is not service time. Without this its time counts from the choice. */
void rota_balancer_sent(struct rota_balancer *balancer, rota_time now, struct rota_try sent);

/* The try has ended. `cost` is NULL when the replica told nothing. False, and
 * nothing done, when it was reported before. */
bool rota_balancer_report(struct rota_balancer *balancer, rota_time now, struct rota_try ended,
                          enum rota_outcome outcome, const struct rota_cost *cost);

/* What a health check found. An unavailable replica is taken only when no other
 * is left (by the original's look_aside not even then). A try that succeeds makes it available
 * again. A replica without state gets none when it is available. */
enum rota_code rota_balancer_mark(struct rota_balancer *balancer, rota_time now, uint64_t replica,
                                  bool is_available, struct rota_error *error);

/* Forget all about a replica, marks and failures included; its tries in flight
 * can still be reported. */
void rota_balancer_forget(struct rota_balancer *balancer, uint64_t replica);

/* Forget the replicas that are idle for too long; and when that is next needed. */
void rota_balancer_step(struct rota_balancer *balancer, rota_time now);
rota_time rota_balancer_deadline(const struct rota_balancer *balancer);

/* --- looking inside --- */

enum rota_circuit {
    ROTA_CIRCUIT_CLOSED,    /* in use */
    ROTA_CIRCUIT_OPEN,      /* ejected, until `open_until` */
    ROTA_CIRCUIT_HALF_OPEN, /* one try is let through, or is on its way */
};

/* "closed", "open", "half-open". Any thread. */
const char *rota_circuit_name(enum rota_circuit circuit);

struct rota_balancer_view {
    uint64_t replica;
    uint64_t n_tries; /* in flight */
    int64_t work;     /* of these together */
    int64_t score;    /* what the policy sees now; 0 where it looks at none */

    int64_t latency_us; /* moving average over what was answered; 0: never */
    int64_t service_us; /* rota: the estimate; 0: none yet */
    uint64_t outcomes[ROTA_OUTCOMES];
    /* Answers by latency: bucket 0 below 2 us, bucket i below 2^(i+1) us, the
     * last one all others. */
    uint64_t latencies[ROTA_BALANCER_LATENCIES];

    bool is_available; /* as marked */
    enum rota_circuit circuit;
    uint64_t n_ejections;
    rota_time open_until;  /* while the circuit is open */
    rota_time reported_at; /* of the last cost; ROTA_TIME_MIN: never */
    rota_time oldest_at;   /* when the oldest try in flight began; ROTA_TIME_NEVER: none */
};

/* What is known of a replica; false when nothing is. */
bool rota_balancer_look(const struct rota_balancer *balancer, rota_time now, uint64_t replica,
                        struct rota_balancer_view *view);

/* All replicas with state, the first `size` of them into `replicas`, in no
 * useful order. Returns how many there are. */
size_t rota_balancer_replicas(const struct rota_balancer *balancer, uint64_t *replicas,
                              size_t size);

size_t rota_balancer_n_tries(const struct rota_balancer *balancer);

/* Choices of rota's in which more than half of the candidates were ejected. */
uint64_t rota_balancer_n_panics(const struct rota_balancer *balancer);

#ifdef __cplusplus
}
#endif
