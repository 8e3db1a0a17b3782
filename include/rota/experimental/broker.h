/* A broker: the part of a node that serves job queues, over gRPC as rota.v1.Queue.
 *
 * Jobs arrive by Add, wait for a worker with the required capabilities, and are tracked to their
 * end. Whatever process is lost on the way, an acknowledged job completes, becomes dead with a
 * reason, or still waits. proto/rota/v1/queue.proto has the service, docs/queues.md its guarantees.
 *
 * In each iteration of the loop the broker first collects all input and then processes it as a
 * batch: one append to the journal, one message to each worker. It replies when the record is on
 * disk.
 *
 * Use a broker only on the loop's thread. */
#pragma once

#include <rota/error.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_log;
struct rota_members_source;
struct rota_server;
struct rota_store;
struct rota_tls;
struct rota_work_broker;
struct uv_loop_s; /* a uv_loop_t */

enum {
    ROTA_WORK_BROKER_POLLS_MAX = 60000,    /* concurrent */
    ROTA_WORK_BROKER_WATCHERS_MAX = 10000, /* of jobs and queues */
    /* Bytes of a request: set the server's message_max to this. */
    ROTA_WORK_BROKER_MESSAGE_MAX = 40 << 20,
};

struct rota_work_broker_options {
    /* Where jobs are kept; set one. `directory`: of the journal, created if missing. `store`: the
     * URL of a store (<rota/store.h>) shared by all nodes, with jobs as rows; needs `advertise`,
     * and `members` (<rota/experimental/store_members.h>) unless this node is alone. `is_memory`:
     * in memory only, lost with the process. */
    const char *directory, *store;
    bool is_memory;
    bool repair;         /* skip damaged records of the journal, and count them */
    size_t segment_size; /* bytes, of the journal; 0 means 64 MiB */

    /* Where workers connect over ZeroMQ, "host:port", and the keys, as in
     * <rota/experimental/connector.h>; NULL: nowhere. Without keys the address must be local. */
    const char *workers_address, *workers_key_file, *workers_file;
    bool is_insecure; /* allow plaintext to remote nodes */

    /* Sent with calls to other nodes, as in <rota/experimental/channel.h>, to authenticate this
     * node. Kept, and may change; NULL: none. */
    const char *token;

    /* The journal cannot be written: nothing is acknowledged from now on. After a restart of the
     * broker everything acknowledged before is there. From the loop; may be NULL. */
    void (*on_failed)(void *data, const struct rota_error *error);

    /* News for operators: a job "QUEUE/ID" died or is retried, a queue is paused, its jobs move.
     * `what` is the end of a sentence. From the loop; may be NULL. */
    void (*on_news)(void *data, bool is_job, const char *about, const char *what);
    /* This node is listed now, owns partitions and knows the settings of queues. From the loop, and
     * on open; may be NULL. */
    void (*on_listed)(void *data);
    void *data; /* kept */

    /* The nodes that serve the queues together, as in <rota/experimental/members.h>; taken, also on
     * failure. NULL: this node is alone. `advertise`: this node's address in that list. */
    struct rota_members_source *members;
    const char *advertise;
    bool drain_delists;   /* draining also removes this node from the list: wait for that */
    struct rota_tls *tls; /* for calls to other nodes; kept; NULL means plaintext */

    uint32_t partitions; /* of a queue without a layout, the same on all nodes; 0 means 16 */
    size_t jobs_max;     /* not ended; 0 means 50,000,000 */
    size_t bytes_max;    /* of payloads and results; 0 means 4 GiB */
    /* How long done and cancelled jobs are kept, less at bytes_max; 0 means 1 h. */
    rota_time keep;
    const struct rota_log *log; /* kept; NULL: none */

    /* The file of dynamic settings (<rota/experimental/config.h>), which is watched: partitions of
     * queues and their spread. Kept; NULL: none. */
    const char *settings_file;

    /* The number of the view that the list comes from, and a hint that there is a later one, by
     * what another node knows. From the loop; may be NULL. */
    uint64_t (*view)(void *data);
    void (*on_later_view)(void *data);

    /* The settings of queues are rows of this store, which all nodes share and read again after
     * each interval; 0 means 1 s. Kept; NULL: that of `store`, or each node has its own. */
    struct rota_store *settings_store;
    rota_time settings_interval;

    void *reserved[2]; /* must be zero; room for future options */
};

/* Serves rota.v1.Queue on `server`, which is kept and whose message_max must be at least
 * ROTA_WORK_BROKER_MESSAGE_MAX. Gives `*broker`; close it with rota_work_broker_close(), after the
 * server. */
enum rota_code rota_work_broker_open(struct uv_loop_s *loop, struct rota_server *server,
                                     const struct rota_work_broker_options *options,
                                     struct rota_work_broker **broker, struct rota_error *error);

/* Where workers connect; NULL: nowhere. */
const char *rota_work_broker_workers_address(const struct rota_work_broker *broker);

/* Drains the broker: it accepts no new jobs and hands none out; waiting polls return an empty list.
 * Running jobs may still be completed. */
void rota_work_broker_drain(struct rota_work_broker *broker);

/* Whether a draining broker is done: no job runs, every job that other nodes can take has been
 * handed over, and they know that this node holds no jobs. */
bool rota_work_broker_is_drained(const struct rota_work_broker *broker);

/* Ends a drain. */
void rota_work_broker_restore(struct rota_work_broker *broker);

/* Whether this node has been listed and placed, and knows the settings of queues. One that is alone
 * is listed. */
bool rota_work_broker_is_listed(const struct rota_work_broker *broker);

/* Takes `broker`, which may be NULL. Pending records are written if possible; run the loop until
 * this is done and everything is freed. */
void rota_work_broker_close(struct rota_work_broker *broker);

struct rota_work_broker_counts {
    size_t jobs; /* not ended, now */
    size_t waiting, running, dead, polls, watchers;
    size_t memory; /* bytes of all jobs */
    uint64_t turns_total, records_total, durable_total;

    /* Among several nodes. */
    size_t remote;         /* jobs of other nodes that run here, on connected workers */
    size_t unreachable;    /* nodes */
    uint64_t visits_total; /* steals caused by this node: idle workers sent to waiting jobs */
    /* Jobs of other nodes for workers here; our jobs for theirs. */
    uint64_t fetched_total, lent_total;

    /* Workers over ZeroMQ, as in struct rota_connector_stats. */
    uint64_t sends_refused_total, dropped_total, malformed_total;
    uint64_t turned_away_total, keys_refused_total;
};
struct rota_work_broker_counts rota_work_broker_counts(const struct rota_work_broker *broker);

#ifdef __cplusplus
}
#endif
