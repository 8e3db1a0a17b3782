/* A client for job queues: add jobs, wait for them, or execute them.
 *
 * The client connects to a cluster of nodes (<rota/experimental/broker.h>) and finds the right node
 * itself. A new job goes to any partition of its queue, directly to the node that owns the
 * partition; if that node is unreachable or full, the job goes to another partition. A poll goes to
 * the partition with the fewest outstanding polls of this client. The client skips an unreachable
 * node until it has reconnected to it.
 *
 * An add is idempotent: while its outcome is unknown, the client repeats it with the same id. It
 * reports ROTA_ERR_UNKNOWN only if the outcome is still unknown after `patience`.
 *
 * A call whose node is unreachable goes to the others at once, each of them once, before `patience`
 * counts.
 *
 * A worker gets a job with a lease. It must complete, fail or extend the job before the lease
 * expires; after that the job may run elsewhere, and the late call fails with ROTA_ERR_STALE.
 *
 * Use a client only on the loop's thread. Each call that was started gets exactly one callback,
 * from the loop, unless the client is closed first. A callback may call any function of this
 * header; its arguments are borrowed until it returns. */
#pragma once

#include <rota/error.h>
#include <rota/rpc.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_queue;
struct rota_queue_result;
struct rota_tls;
struct uv_loop_s; /* a uv_loop_t */

enum {
    ROTA_QUEUE_JOB_MAX = 300,     /* bytes of a job's name, "QUEUE/ID", with its NUL */
    ROTA_QUEUE_CALLS_MAX = 65536, /* calls of one client that have not ended */
    ROTA_QUEUE_ADDS_MAX = 4096,   /* jobs of one rota_queue_add_all() */
};

struct rota_queue_options {
    const char *nodes; /* all nodes, "host:port", separated by commas */
    /* Of each queue, until a node reports the number; 0 means 16, at most 65536. */
    uint32_t partitions;
    struct rota_tls *tls; /* kept; NULL means plaintext */
    bool insecure;        /* allow plaintext to remote hosts */
    rota_time timeout;    /* of one try; 0 means 10 s */
    rota_time patience;   /* how long to repeat a call while no node answers; 0 means 30 s */
    /* Until a node has answered this client, a call fails as soon as every node has failed once. */
    bool fail_fast;

    /* A call failed with `last` and is repeated, for the `n`-th time since a node answered it. Must
     * not close the client. May be NULL. */
    void (*on_retry)(void *data, const struct rota_queue_result *last, unsigned n);
    void *data; /* kept */

    void *reserved[4]; /* must be zero; room for future options */
};

/* Opens a client. Gives `*queue`; close it with rota_queue_close(). Nothing is connected yet: use
 * rota_queue_probe() to check that a node is reachable. The client keeps connections and timers on
 * `loop`, so uv_run() does not return before rota_queue_close(). */
enum rota_code rota_queue_open(struct uv_loop_s *loop, const struct rota_queue_options *options,
                               struct rota_queue **queue, struct rota_error *error);

/* Takes `queue`, which may be NULL. No callback is called afterwards. Run the loop once more to
 * free everything. */
void rota_queue_close(struct rota_queue *queue);

/* Checks whether any node is reachable: ROTA_OK once a node has answered, ROTA_ERR_UNAVAILABLE with
 * the reason as soon as every node has failed once. `patience` does not apply. */
enum rota_code rota_queue_probe(struct rota_queue *queue,
                                void (*on_done)(void *data, const struct rota_queue_result *result),
                                void *data, struct rota_error *error);

/* For simple programs: runs the loop until every call of the client has ended, or uv_stop() is
 * called. Not from inside a callback; callbacks must not close the client meanwhile. */
void rota_queue_await(struct rota_queue *queue);

/* --- adding jobs --- */

/* A job to add. Zero means the default, or none. Copied. */
struct rota_queue_job {
    struct rota_str queue, payload; /* 1 to 255 letters, digits, '.', '_', '-'; at most 16 MiB */
    const struct rota_str *can;     /* capabilities that a worker must have, at most 16 */
    size_t n_can;
    int16_t priority; /* higher runs first */
    /* Durations: before the first attempt; of one attempt (0: unlimited). */
    rota_time delay, timeout;
    uint32_t max_attempts; /* 0 means 5; at most 1000 */
    /* After the first failure, doubled with each further one; and at most. 0 means 1 s and 10 min.
     */
    rota_time backoff, backoff_max;
    rota_time deadline; /* wall clock: not started later, and stopped then */

    struct rota_str unique; /* the queue has at most one job with this key that waits or runs */
    struct rota_str key;    /* the tenant: tenants share a queue fairly, by their weights */
    struct rota_str trace;  /* passed to the worker, for tracing */

    /* 1 to 256 bytes. If any client used this key in this queue before, the add returns the
     * first job and adds none. The key expires with its job: an hour after the job ended (a dead
     * job: no limit), or once 100,000 more have ended on its node, or the node is out of room.
     * Not together with `unique`. */
    struct rota_str idempotency_key;
};

enum rota_queue_state {
    ROTA_QUEUE_WAITING,
    ROTA_QUEUE_DELAYED,
    ROTA_QUEUE_RUNNING,
    ROTA_QUEUE_DONE,
    ROTA_QUEUE_DEAD,
    ROTA_QUEUE_CANCELLED,
};

/* An entry of a job's history. */
struct rota_queue_entry {
    rota_time at; /* wall clock */
    enum rota_queue_state state;
    const char *cause; /* NULL: none */
    uint64_t attempt;  /* 0 until the attempt is over */
    struct rota_str worker, reason;
};

/* What is known about a job besides its state. Times are on the wall clock, 0: none. */
struct rota_queue_details {
    struct rota_queue_job job; /* as it was added; without a delay */
    struct rota_str explain;   /* why it is in its state, as a sentence; of a description */
    rota_time added_at, not_before, ended_at;
    uint32_t n_attempts;
    struct rota_str worker;
    const struct rota_queue_entry *entries; /* oldest first; none of a list */
    size_t n_entries;
};

/* The jobs of a queue by state, and the workers that serve it. */
struct rota_queue_counts {
    uint64_t waiting, delayed, running, done, dead, cancelled, workers;
    bool is_paused;
};

struct rota_queue_result {
    /* ROTA_OK, or the reason for the failure: ROTA_ERR_INVALID, ROTA_ERR_NOT_FOUND, ROTA_ERR_STALE,
     * ROTA_ERR_LIMIT (full), ROTA_ERR_UNAVAILABLE (certainly not done), ROTA_ERR_UNKNOWN (perhaps
     * done). */
    enum rota_code code;
    enum rota_status status; /* the same in gRPC's words */
    const char *text;        /* the error as a sentence; "" on success */
    const char *node;        /* the node that answered, or failed last; "" if there is none */

    const char *job; /* its name, "QUEUE/ID"; "" if there is none */
    bool is_new;     /* of an add; false: this job, or one with its key, existed already */
    bool is_ours;    /* of an add; the job is the one that was to be added */

    enum rota_queue_state state; /* of a look or a wait, like the fields below */
    struct rota_str result, progress, reason;
    const struct rota_queue_details *details; /* NULL: not of this call */

    /* Of lists and counts: nodes that did not answer, and why; what they have is missing. */
    const struct rota_str *missing, *missing_why;
    size_t n_missing;
    uint64_t next;                   /* of a list: where it continues; 0: this was the end */
    bool is_known;                   /* of counts: there is such a queue */
    struct rota_queue_counts counts; /* of counts */
};
typedef void rota_queue_on_result(void *data, const struct rota_queue_result *result);
typedef void rota_queue_on_results(void *data, const struct rota_queue_result *result,
                                   const struct rota_queue_result *items, size_t n);

/* Whether a job can be added as far as a client knows: ROTA_ERR_INVALID if a node would reject it
 * whatever its state. Any thread. */
enum rota_code rota_queue_check(const struct rota_queue_job *job, struct rota_error *error);

/* Adds a job. If this returns an error, the callback is not called: ROTA_ERR_INVALID for a bad
 * argument, ROTA_ERR_LIMIT for too many calls. `data` is kept. All functions below behave
 * likewise. */
enum rota_code rota_queue_add(struct rota_queue *queue, const struct rota_queue_job *job,
                              rota_queue_on_result *on_added, void *data, struct rota_error *error);

/* Adds several jobs of one queue with one call, each as rota_queue_add() would: some may be added
 * and others not. The callback gets a result for each job, in the order of `jobs`; its first
 * `result` is the failure that ended the call, if there is one. */
enum rota_code rota_queue_add_all(struct rota_queue *queue, const struct rota_queue_job *jobs,
                                  size_t n, rota_queue_on_results *on_added, void *data,
                                  struct rota_error *error);

/* --- jobs that exist --- */

/* Describes a job: its state, its details, and a sentence that explains it, for which its node may
 * ask others. `with_payload`: also the payload, which may be large. */
enum rota_code rota_queue_describe(struct rota_queue *queue, const char *job, bool with_payload,
                                   rota_queue_on_result *on_seen, void *data,
                                   struct rota_error *error);

/* Lists jobs of a queue in one state, unordered: at most `max` of them (at most 1000), and the
 * next ones with `after` set to the `next` of the last result; 0 begins. */
enum rota_code rota_queue_list(struct rota_queue *queue, struct rota_str name,
                               enum rota_queue_state state, uint32_t max, uint64_t after,
                               rota_queue_on_results *on_listed, void *data,
                               struct rota_error *error);

/* Counts the jobs and workers of a queue on all nodes. */
enum rota_code rota_queue_count(struct rota_queue *queue, struct rota_str name,
                                rota_queue_on_result *on_counted, void *data,
                                struct rota_error *error);

/* Runs a dead or cancelled job again, with all its attempts; sets the priority of a job that has
 * not ended. */
enum rota_code rota_queue_retry(struct rota_queue *queue, const char *job,
                                rota_queue_on_result *on_done, void *data,
                                struct rota_error *error);
enum rota_code rota_queue_set_priority(struct rota_queue *queue, const char *job, int16_t priority,
                                       rota_queue_on_result *on_done, void *data,
                                       struct rota_error *error);

/* Returns the current state of a job; waits until the job has ended; cancels the job. A wait
 * continues when its node fails and comes back within `patience`. */
enum rota_code rota_queue_look(struct rota_queue *queue, const char *job,
                               rota_queue_on_result *on_seen, void *data, struct rota_error *error);
enum rota_code rota_queue_wait(struct rota_queue *queue, const char *job,
                               rota_queue_on_result *on_ended, void *data,
                               struct rota_error *error);
enum rota_code rota_queue_cancel(struct rota_queue *queue, const char *job,
                                 rota_queue_on_result *on_done, void *data,
                                 struct rota_error *error);

/* --- executing jobs --- */

struct rota_queue_wanted {
    struct rota_str queue;
    const struct rota_str *more; /* further queues */
    size_t n_more;
    const struct rota_str *can; /* capabilities of the worker, at most 256 */
    size_t n_can;
    uint32_t max_jobs;      /* 0 means 1; at most 1000 */
    rota_time lease, wait;  /* 0 means 30 s each; at most 1 day and 10 min */
    struct rota_str worker; /* a name for display; "" means "poll" */
};

struct rota_queue_work {
    const char *job;
    uint64_t attempt; /* fencing token: pass it to every call about this job */
    struct rota_str payload, key, trace;
    uint32_t n_attempts; /* which attempt this is, from 1 */
    rota_time timeout;   /* of this attempt; 0: none */
};

/* Waits for jobs. If none arrives in time, the result is ROTA_OK with `n` = 0. */
enum rota_code rota_queue_poll(struct rota_queue *queue, const struct rota_queue_wanted *wanted,
                               void (*on_work)(void *data, const struct rota_queue_result *result,
                                               const struct rota_queue_work *works, size_t n),
                               void *data, struct rota_error *error);

/* Ends the polls in flight without their callbacks. Jobs on the way go back to the queue. */
void rota_queue_stop_polls(struct rota_queue *queue);

/* Complete, fail or extend a job. The client repeats these calls while their outcome is unknown;
 * repeating them is harmless. */
enum rota_code rota_queue_complete(struct rota_queue *queue, const char *job, uint64_t attempt,
                                   struct rota_str result, rota_queue_on_result *on_done,
                                   void *data, struct rota_error *error);
/* `is_final`: the job can never succeed; do not retry it. */
enum rota_code rota_queue_fail(struct rota_queue *queue, const char *job, uint64_t attempt,
                               struct rota_str reason, bool is_final, rota_queue_on_result *on_done,
                               void *data, struct rota_error *error);
enum rota_queue_how {
    ROTA_QUEUE_END_DONE,
    ROTA_QUEUE_END_FAILED,
    ROTA_QUEUE_END_FINAL,    /* failed, and the job can never succeed */
    ROTA_QUEUE_END_RETURNED, /* not counted as an attempt */
};

/* How an attempt ended, with all that a worker can say of it. */
struct rota_queue_outcome {
    enum rota_queue_how how;
    struct rota_str result; /* or the reason */
    struct rota_str log;    /* its end is kept */
    rota_time retry_after;  /* of a failure or a return; 0: as the job's backoff says */
};
enum rota_code rota_queue_finish(struct rota_queue *queue, const char *job, uint64_t attempt,
                                 const struct rota_queue_outcome *outcome,
                                 rota_queue_on_result *on_done, void *data,
                                 struct rota_error *error);

/* `lease` is the duration from now. Pass the lease of the poll: a restarted node does not know it.
 * 0 keeps the current lease, or means 5 s after such a restart. One try takes a quarter of the
 * lease at most, so that there is time for another. */
enum rota_code rota_queue_extend(struct rota_queue *queue, const char *job, uint64_t attempt,
                                 rota_time lease, struct rota_str progress,
                                 rota_queue_on_result *on_done, void *data,
                                 struct rota_error *error);

#ifdef __cplusplus
}
#endif
