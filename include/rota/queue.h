/* Queues of jobs, for programs that have work and programs that do it.
 *
 * A client of brokers that hold queues together (<rota/broker.h>). It knows by itself which
 * of them has what: a new job goes to any partition of its queue, straight to the node
 * that has it, and to another partition when that node is unreachable or has no room; a poll
 * goes where the fewest polls of this client are. A node that cannot be reached is passed over
 * until its connection stands again.
 *
 * **An add is taken in once.** While nobody knows what became of it, it is made again with
 * the same id; only when that does not help for as long as `patience` allows the
 * outcome is told to be unknown.
 *
 * Whoever does work gets it with a lease, within which it completes, fails or extends the
 * work; what is too late is refused with ROTA_ERR_STALE, and somebody else may have it.
 *
 * All of it lives on the loop's thread. A callback comes once for each call that was begun,
 * from the loop, unless the client is closed before; it may use any function here. What it is
 * given is borrowed until it returns. */
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
    const char *nodes;    /* all brokers, "host:port" with commas between them */
    uint32_t partitions;  /* of each queue, until a node has said how many; 0 means 16 */
    struct rota_tls *tls; /* kept; NULL means plain text */
    bool insecure;        /* plain text to other machines too */
    rota_time timeout;    /* of one try; 0 means 10 s */
    rota_time patience;   /* for how long a call is repeated while no node answers; 0 means 30 s */
};

/* Gives `*queue`; rota_queue_close() ends it. Nothing is connected yet: rota_queue_probe() tells
 * whether a node can be reached. The client keeps connections and timers on `loop`, so that
 * uv_run() does not return by itself before rota_queue_close(). */
enum rota_code rota_queue_open(struct uv_loop_s *loop, const struct rota_queue_options *options,
                               struct rota_queue **queue, struct rota_error *error);

/* Takes `queue`, which may be NULL; no callback comes after. The loop has to run once more to
 * free everything. */
void rota_queue_close(struct rota_queue *queue);

/* Whether any node can be reached: ROTA_OK when one has answered, ROTA_ERR_UNAVAILABLE with the
 * reason as soon as every node has failed once, without the patience that other calls have. */
enum rota_code rota_queue_probe(struct rota_queue *queue,
                                void (*on_done)(void *data, const struct rota_queue_result *result),
                                void *data, struct rota_error *error);

/* --- for those who have work --- */

/* What is to be done; zero means the default, or none. Copied. */
struct rota_queue_job {
    struct rota_str queue, payload;
    const struct rota_str *can; /* what a worker must be able to do */
    size_t n_can;
    int16_t priority;
    rota_time delay, timeout; /* spans; the latter of one attempt */
    uint32_t max_attempts;

    struct rota_str unique; /* no second job with this key in the queue while one waits or runs */
    struct rota_str key;    /* the tenant: tenants share a queue fairly, by their weights */
    struct rota_str trace;  /* handed to the worker, for tracing */

    /* 1 to 256 bytes. An add with a key that was used before in this queue, by any client,
     * answers with the first job and adds none, until an hour after that job ended. Not together
     * with `unique`. */
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
    /* ROTA_OK; or why not: ROTA_ERR_INVALID, ROTA_ERR_NOT_FOUND, ROTA_ERR_STALE, ROTA_ERR_LIMIT
     * for no room, ROTA_ERR_UNAVAILABLE for certainly not done, ROTA_ERR_UNKNOWN for perhaps. */
    enum rota_code code;
    const char *text; /* what went wrong, "" when nothing did */

    const char *job; /* its name, "QUEUE/ID"; "" when there is none */
    bool is_new;     /* of an add; false: it was there, or one with its unique key */

    enum rota_queue_state state; /* of a look or a wait, like those below */
    struct rota_str result, progress, reason;
};
typedef void rota_queue_on_result(void *data, const struct rota_queue_result *result);

/* On an error no callback comes: ROTA_ERR_INVALID for what can't be, ROTA_ERR_LIMIT for one
 * call too many. `data` is kept; so it is with all that follow. */
enum rota_code rota_queue_add(struct rota_queue *queue, const struct rota_queue_job *job,
                              rota_queue_on_result *on_added, void *data, struct rota_error *error);

/* How a job is now; or how it ended, once it has: a node that is away is waited for. */
enum rota_code rota_queue_look(struct rota_queue *queue, const char *job,
                               rota_queue_on_result *on_seen, void *data, struct rota_error *error);
enum rota_code rota_queue_wait(struct rota_queue *queue, const char *job,
                               rota_queue_on_result *on_ended, void *data,
                               struct rota_error *error);
enum rota_code rota_queue_cancel(struct rota_queue *queue, const char *job,
                                 rota_queue_on_result *on_done, void *data,
                                 struct rota_error *error);

/* --- for those who do it --- */

struct rota_queue_wanted {
    struct rota_str queue;
    const struct rota_str *can;
    size_t n_can;
    uint32_t max_jobs;     /* 0 means 1 */
    rota_time lease, wait; /* 0 means 30 s each */
    struct rota_str worker;
};

struct rota_queue_work {
    const char *job;
    uint64_t attempt; /* to be named in all that is said of it */
    struct rota_str payload, key, trace;
    uint32_t n_attempts; /* which one it is, from 1 */
    rota_time timeout;   /* of this attempt; 0: none */
};

/* Wait for work; none, with ROTA_OK, when there was none in time. */
enum rota_code rota_queue_poll(struct rota_queue *queue, const struct rota_queue_wanted *wanted,
                               void (*on_work)(void *data, const struct rota_queue_result *result,
                                               const struct rota_queue_work *works, size_t n),
                               void *data, struct rota_error *error);

/* The three are made again while their outcome is unknown: said twice they are no error. */
enum rota_code rota_queue_complete(struct rota_queue *queue, const char *job, uint64_t attempt,
                                   struct rota_str result, rota_queue_on_result *on_done,
                                   void *data, struct rota_error *error);
/* `is_final`: it will never do. */
enum rota_code rota_queue_fail(struct rota_queue *queue, const char *job, uint64_t attempt,
                               struct rota_str reason, bool is_final, rota_queue_on_result *on_done,
                               void *data, struct rota_error *error);
/* `lease` is that of the poll, which a broker that was restarted does not know; 0: as it is. */
enum rota_code rota_queue_extend(struct rota_queue *queue, const char *job, uint64_t attempt,
                                 rota_time lease, struct rota_str progress,
                                 rota_queue_on_result *on_done, void *data,
                                 struct rota_error *error);

#ifdef __cplusplus
}
#endif
