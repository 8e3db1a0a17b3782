/* A client for job queues: add jobs, wait for them, or execute them.
 *
 * The client connects to a cluster of nodes (<rota/broker.h>) and finds the right node itself. A
 * new job goes to any partition of its queue, directly to the node that owns the partition; if that
 * node is unreachable or full, the job goes to another partition. A poll goes to the partition with
 * the fewest outstanding polls of this client. The client skips an unreachable node until it has
 * reconnected to it.
 *
 * An add is idempotent: while its outcome is unknown, the client repeats it with the same id. It
 * reports ROTA_ERR_UNKNOWN only if the outcome is still unknown after `patience`.
 *
 * A worker gets a job with a lease. It must complete, fail or extend the job before the lease
 * expires; after that the job may run elsewhere, and the late call fails with ROTA_ERR_STALE.
 *
 * Use a client only on the loop's thread. Each call that was started gets exactly one callback,
 * from the loop, unless the client is closed first. A callback may call any function of this
 * header; its arguments are borrowed until it returns. */
#pragma once

#include <rota/error.h>
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
};

struct rota_queue_options {
    const char *nodes; /* all nodes, "host:port", separated by commas */
    /* Of each queue, until a node reports the number; 0 means 16, at most 65536. */
    uint32_t partitions;
    struct rota_tls *tls; /* kept; NULL means plaintext */
    bool insecure;        /* allow plaintext to remote hosts */
    rota_time timeout;    /* of one try; 0 means 10 s */
    rota_time patience;   /* how long to repeat a call while no node answers; 0 means 30 s */
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

struct rota_queue_result {
    /* ROTA_OK, or the reason for the failure: ROTA_ERR_INVALID, ROTA_ERR_NOT_FOUND, ROTA_ERR_STALE,
     * ROTA_ERR_LIMIT (full), ROTA_ERR_UNAVAILABLE (certainly not done), ROTA_ERR_UNKNOWN (perhaps
     * done). */
    enum rota_code code;
    const char *text; /* the error as a sentence; "" on success */

    const char *job; /* its name, "QUEUE/ID"; "" if there is none */
    bool is_new;     /* of an add; false: this job, or one with its key, existed already */

    enum rota_queue_state state; /* of a look or a wait, like the fields below */
    struct rota_str result, progress, reason;
};
typedef void rota_queue_on_result(void *data, const struct rota_queue_result *result);

/* Adds a job. If this returns an error, the callback is not called: ROTA_ERR_INVALID for a bad
 * argument, ROTA_ERR_LIMIT for too many calls. `data` is kept. All functions below behave
 * likewise. */
enum rota_code rota_queue_add(struct rota_queue *queue, const struct rota_queue_job *job,
                              rota_queue_on_result *on_added, void *data, struct rota_error *error);

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

/* Complete, fail or extend a job. The client repeats these calls while their outcome is unknown;
 * repeating them is harmless. */
enum rota_code rota_queue_complete(struct rota_queue *queue, const char *job, uint64_t attempt,
                                   struct rota_str result, rota_queue_on_result *on_done,
                                   void *data, struct rota_error *error);
/* `is_final`: the job can never succeed; do not retry it. */
enum rota_code rota_queue_fail(struct rota_queue *queue, const char *job, uint64_t attempt,
                               struct rota_str reason, bool is_final, rota_queue_on_result *on_done,
                               void *data, struct rota_error *error);
/* `lease` is the duration from now. Pass the lease of the poll: a restarted node does not know it.
 * 0 keeps the current lease, or means 5 s after such a restart. */
enum rota_code rota_queue_extend(struct rota_queue *queue, const char *job, uint64_t attempt,
                                 rota_time lease, struct rota_str progress,
                                 rota_queue_on_result *on_done, void *data,
                                 struct rota_error *error);

#ifdef __cplusplus
}
#endif
