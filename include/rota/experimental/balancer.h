/* A balancer: chooses the replica for a try.
 *
 * There are two functions. Select chooses one of the candidates and counts the try as in flight.
 * Report says how the try ended, and is how the balancer learns. Cancelling is one more way to end,
 * so no count can leak: report each selected try once, whatever happens. A second report is
 * rejected and changes nothing, because a try names a slot and the serial number of its choice.
 *
 * A replica is a number assigned by the caller, stable as long as it means the same process.
 * Timestamps are on the monotonic clock.
 *
 * The policies:
 *  - rota: scores the candidates on every choice; see below. The default.
 *  - look_aside: Milvus' rule. Nine of ten choices are round robin, the tenth goes to the
 *    lowest of (response - service) + (1 + waiting + executing)^3 x service by the last report
 *    of each.
 *  - round_robin: the least recently used replica, whatever the other candidates are.
 *  - random: any.
 *
 * How rota scores, in microseconds of expected wait; the lowest score wins:
 *
 *     service x (1 + penalty + part x (own work + others' work)) + silence
 *
 *  - service: a moving average of the duration of a try from its sending, without waiting in a
 *    queue. A sample counts as at most 3 averages, so a pause of a busy machine changes little.
 *    Averages within 1.6 times the best, or within a millisecond of it, count as the best: the
 *    difference is noise, and chasing noise makes clients move as a herd.
 *  - own work: this client's tries in flight there; counted at once, so that two choices in a
 *    row differ.
 *  - others' work: the queue length in the last answer, fading, because its end is not
 *    reported. With many clients this is most of the information there is.
 *  - part: how long one unit of waiting work takes there, as a fraction of a service time,
 *    learned from waits and queue lengths by Little's law. It is below 1 if a replica serves
 *    several calls at once; without it a slow but idle replica would look as good as a quick
 *    one that is hardly busy.
 *  - silence: how far the oldest try in flight exceeds its usual duration while the replica
 *    answers nothing, or how far a cancelled one did. It detects a frozen replica, which never
 *    answers and so never reports anything bad.
 *  - penalty: grows with each failure, by its class, fades, and halves with each answer.
 *    Failing is fast; without the penalty a failing replica looks like the best one.
 *
 * Replicas within 1.3 times the lowest score take turns. One try in 100 goes to a replica without a
 * recent answer: nothing else would show that a slow replica has become quick.
 *
 * An unknown replica is average, not free, and its own work counts more until it has answered a few
 * times, so that it is tried out and not swamped. Its service time is unknown before the third
 * sample, starts with the lowest of these, and up to the tenth sample has to differ more than 1.6
 * times: the first answers of a process are slow, and a replica that gets no tries cannot show that
 * it is quicker.
 *
 * After consecutive failures a replica is ejected: its circuit is open. After a delay, longer each
 * time and with jitter, one try is let through; its answer closes the circuit or opens it again. If
 * more than half of the candidates are ejected, none is: the fault is then not theirs alone, or it
 * makes no difference, and the score still prefers those that fail least. */
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
    ROTA_TRIES_MAX = 1 << 20,            /* in flight, per balancer */
    ROTA_BALANCER_REPLICAS_MAX = 65536,  /* replicas with state */
    ROTA_BALANCER_CANDIDATES_MAX = 4096, /* per choice, and as many excluded */
    ROTA_BALANCER_WORK_MAX = 1000000,    /* of one try */
    ROTA_BALANCER_LATENCIES = 32,        /* buckets of the latency histogram */
};

/* A replica that is neither a candidate nor has a try in flight for this long is forgotten. */
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
    ROTA_OUTCOME_OVERLOAD,    /* healthy but full: go elsewhere, without a penalty */
    ROTA_OUTCOME_UNAVAILABLE, /* unreachable, or reports that it cannot serve */
    ROTA_OUTCOME_TIMEOUT,     /* no answer in time */
    ROTA_OUTCOME_CANCELLED,   /* the answer was no longer needed; only its age counts */
    ROTA_OUTCOME_OTHER,       /* any other failure of the replica */
};
enum { ROTA_OUTCOMES = ROTA_OUTCOME_OTHER + 1 };

/* "ok" for ROTA_OUTCOME_OK. Any thread. */
const char *rota_outcome_name(enum rota_outcome outcome);

/* Whether it counts against the replica. Any thread. */
bool rota_outcome_is_failure(enum rota_outcome outcome);

/* The cost that a replica reports with its answer. */
struct rota_cost {
    int64_t response_us; /* from receipt to answer */
    int64_t service_us;  /* of that, without waiting in a queue */
    int64_t waiting;     /* work still waiting there at the time of the answer */
};

struct rota_balancer_options {
    enum rota_balancer_policy policy;
    uint64_t seed; /* protects the hash table of replicas */

    /* look_aside only; 0 means the default. */
    rota_time expires;      /* ignore reports older than this; 1 s */
    uint32_t check_every;   /* compare the scores every so many choices; 10 */
    uint32_t tolerance_ppm; /* scores this close are equal; 100,000: a tenth */

    /* look_aside exactly as in Milvus: an unknown replica scores 0, as if it were the best;
     * failures do not count; if all replicas are marked unavailable the choice fails. Otherwise an
     * unknown replica is as good as the best one and no better, a failed replica comes last for
     * `expires`, twice as long each time, and an unavailable one is the last resort. */
    bool is_original;

    void *reserved[4]; /* must be zero; room for future options */
};

/* "rota", "look_aside", "round_robin", "random". Parsing rejects other names. Any thread. */
const char *rota_balancer_policy_name(enum rota_balancer_policy policy);
enum rota_code rota_balancer_policy_parse(struct rota_str name, enum rota_balancer_policy *policy,
                                          struct rota_error *error);

/* Gives `*balancer`; free it with rota_balancer_free(), even with tries in flight; it accepts
 * NULL. */
enum rota_code rota_balancer_new(const struct rota_balancer_options *options,
                                 struct rota_balancer **balancer, struct rota_error *error);
void rota_balancer_free(struct rota_balancer *balancer);

/* The candidates of a choice. */
struct rota_choice {
    const uint64_t *replicas;
    size_t n_replicas;
    const uint64_t *excluded; /* skip these: they failed this call, or have it already */
    size_t n_excluded;
    int64_t work; /* relative cost, in a unit common to all tries; 0 means 1 */
};

/* A try in flight, to be reported once. A zeroed one is not a try: its report is rejected. */
struct rota_try {
    uint64_t replica;
    uint64_t serial;
    uint32_t slot;
};

/* Chooses a replica and counts a try on it. Gives `*chosen`; on failure nothing is counted.
 * ROTA_ERR_UNAVAILABLE if all candidates are excluded, or all are marked unavailable and
 * `is_original` is set; ROTA_ERR_LIMIT at a limit, unless an idle replica can be forgotten to make
 * room. */
enum rota_code rota_balancer_select(struct rota_balancer *balancer, rota_time now,
                                    const struct rota_choice *choice, struct rota_random *random,
                                    struct rota_try *chosen, struct rota_error *error);

/* Reports that the try is being sent now, so that its wait for a connection does not count as
 * service time. Without this call its time counts from the choice. */
void rota_balancer_sent(struct rota_balancer *balancer, rota_time now, struct rota_try sent);

/* Reports the end of a try. `cost` is NULL if the replica reported none. Returns false, without
 * effect, if the try was reported before. */
bool rota_balancer_report(struct rota_balancer *balancer, rota_time now, struct rota_try ended,
                          enum rota_outcome outcome, const struct rota_cost *cost);

/* Reports the result of a health check. An unavailable replica is chosen only if no other is left
 * (with `is_original` not even then). A successful try makes it available again. Marking an unknown
 * replica as available creates no state. */
enum rota_code rota_balancer_mark(struct rota_balancer *balancer, rota_time now, uint64_t replica,
                                  bool is_available, struct rota_error *error);

/* Forgets a replica, with marks and failures; its tries in flight can still be reported. */
void rota_balancer_forget(struct rota_balancer *balancer, uint64_t replica);

/* Forgets replicas that were idle for too long; and when that is needed next. */
void rota_balancer_step(struct rota_balancer *balancer, rota_time now);
rota_time rota_balancer_deadline(const struct rota_balancer *balancer);

/* --- introspection --- */

enum rota_circuit {
    ROTA_CIRCUIT_CLOSED,    /* in use */
    ROTA_CIRCUIT_OPEN,      /* ejected until `open_until` */
    ROTA_CIRCUIT_HALF_OPEN, /* one try is let through, or is in flight */
};

/* "closed", "open", "half-open". Any thread. */
const char *rota_circuit_name(enum rota_circuit circuit);

struct rota_balancer_view {
    uint64_t replica;
    uint64_t n_tries; /* in flight */
    int64_t work;     /* total of these */
    int64_t score;    /* as the policy sees it now; 0 if it has none */

    int64_t latency_us; /* moving average of answered tries; 0: none */
    int64_t service_us; /* rota: the estimate; 0: none yet */
    uint64_t outcomes[ROTA_OUTCOMES];
    /* Answers by latency: bucket 0 below 2 us, bucket i below 2^(i+1) us, the last one all
     * others. */
    uint64_t latencies[ROTA_BALANCER_LATENCIES];

    bool is_available; /* as marked */
    enum rota_circuit circuit;
    uint64_t n_ejections;
    rota_time open_until;  /* while the circuit is open */
    rota_time reported_at; /* of the last cost; ROTA_TIME_MIN: never */
    rota_time oldest_at;   /* start of the oldest try in flight; ROTA_TIME_NEVER: none */
};

/* Describes a replica; false if it is not known. */
bool rota_balancer_look(const struct rota_balancer *balancer, rota_time now, uint64_t replica,
                        struct rota_balancer_view *view);

/* Copies the first `size` known replicas into `replicas`, unordered. Returns the number of known
 * replicas. */
size_t rota_balancer_replicas(const struct rota_balancer *balancer, uint64_t *replicas,
                              size_t size);

size_t rota_balancer_n_tries(const struct rota_balancer *balancer);

/* Choices of the policy rota in which more than half of the candidates were ejected. */
uint64_t rota_balancer_n_panics(const struct rota_balancer *balancer);

#ifdef __cplusplus
}
#endif
