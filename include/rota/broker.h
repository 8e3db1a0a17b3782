/* A broker: queues of jobs, served over gRPC as rota.v1.Queue.
 *
 * Jobs come in by Add, wait for a worker that can do them, and are seen to their end:
 * whoever is lost on the way, a job that was acknowledged is done, is dead with a reason,
 * or still waits. proto/rota/v1/queue.proto has the service, docs/queues.md what it
 * promises.
 *
 * Within a turn of the loop all that came in is taken first, then carried out at once: one
 * append to the journal, one answer for each worker. An answer goes out when its record is
 * on disk.
 *
 * All of it lives on the loop's thread. */
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
struct rota_tls;
struct rota_work_broker;
struct uv_loop_s; /* a uv_loop_t */

enum {
    ROTA_WORK_BROKER_POLLS_MAX = 60000,      /* that wait at one time */
    ROTA_WORK_BROKER_WATCHERS_MAX = 10000,   /* of jobs and queues */
    ROTA_WORK_BROKER_MESSAGE_MAX = 40 << 20, /* bytes of a request: give it to the server */
};

struct rota_work_broker_options {
    /* The directory of its journal, which is made if it is not there; or the URL of a store
     * (<rota/store.h>) that all nodes share, with jobs as rows, and `advertise` for what to call
     * us there; or jobs are in memory alone, and gone with the process, which has to be said. */
    const char *directory, *store;
    bool is_memory;
    bool repair;         /* pass over what is damaged in the journal, and count it */
    size_t segment_size; /* of the journal; 0 means 64 MiB */

    /* Where workers connect over ZeroMQ, "host:port", and the keys for it, as in
     * <rota/connector.h>; NULL: nowhere. Without keys it is an address of this machine. */
    const char *workers_address, *workers_key_file, *workers_file;
    bool is_insecure; /* other brokers are asked in plain text beyond this machine, too */

    /* Sent with calls to other brokers, as in <rota/channel.h>, so that they know us for one of
     * theirs. Kept, and may change; NULL: none. */
    const char *token;

    /* The journal can't be written any more: nothing is acknowledged from now on, and who
     * starts the broker anew finds all that was. From the loop; may be NULL. */
    void (*on_failed)(void *data, const struct rota_error *error);

    /* Something that people want to know: a job "QUEUE/ID" died or is tried again, a queue is
     * paused, jobs of it move; as the end of a sentence. From the loop; may be NULL. */
    void (*on_news)(void *data, bool is_job, const char *about, const char *what);
    /* It is one of the nodes now: partitions are its own. From the loop, and when it is opened;
     * may be NULL. */
    void (*on_listed)(void *data);
    void *data; /* kept */

    /* The nodes that hold the queues together, as in <rota/members.h>; taken, also on failure.
     * NULL: this broker is alone. And by which address this one is listed among them. */
    struct rota_members_source *members;
    const char *advertise;
    bool drain_delists; /* who drains this broker takes it off the list, too: that is waited for */
    struct rota_tls *tls; /* for calls to them, kept; NULL means plain text */

    uint32_t partitions;        /* of a queue that was given no others, alike at all nodes; 0: 16 */
    size_t jobs_max;            /* that have not ended; 0 means 50,000,000 */
    size_t bytes_max;           /* of payloads and results; 0 means 4 GiB */
    rota_time keep;             /* how long ended jobs are remembered; 0 means 1 h */
    const struct rota_log *log; /* kept; NULL: none */
};

/* Serve rota.v1.Queue on `server`, kept, whose message_max is at least
 * ROTA_WORK_BROKER_MESSAGE_MAX. Gives `*broker`; rota_work_broker_close() ends it, after
 * the server. */
enum rota_code rota_work_broker_open(struct uv_loop_s *loop, struct rota_server *server,
                                     const struct rota_work_broker_options *options,
                                     struct rota_work_broker **broker, struct rota_error *error);

/* Where workers connect; NULL: nowhere. */
const char *rota_work_broker_workers_address(const struct rota_work_broker *broker);

/* Take no more jobs in and hand none out: polls that wait are answered with none. What
 * runs may still be completed. */
void rota_work_broker_drain(struct rota_work_broker *broker);

/* Whether a broker that drains has nothing left to do: nothing runs, what other nodes can take has
 * been handed over to them, and they know that this one holds no jobs. */
bool rota_work_broker_is_drained(const struct rota_work_broker *broker);

/* Take that back. */
void rota_work_broker_restore(struct rota_work_broker *broker);

/* Whether it is one of the nodes; one that is alone is. */
bool rota_work_broker_is_listed(const struct rota_work_broker *broker);

/* Takes `broker`, which may be NULL. What waits for the disk is written, if it can be; the
 * loop has to run until that is done and everything freed. */
void rota_work_broker_close(struct rota_work_broker *broker);

struct rota_work_broker_counts {
    size_t jobs; /* that have not ended, now */
    size_t running, polls, watchers;
    size_t memory; /* bytes of all jobs */
    uint64_t turns_total, records_total, durable_total;

    /* Among several nodes. */
    size_t remote;         /* jobs of other nodes that run here, on workers that are connected */
    size_t unreachable;    /* nodes */
    uint64_t visits_total; /* of idle workers to waiting jobs, that this node caused */
    uint64_t fetched_total, lent_total; /* jobs of others for workers here; ours for theirs */

    /* Of workers over ZeroMQ, as in struct rota_connector_stats. */
    uint64_t sends_refused_total, dropped_total, malformed_total;
    uint64_t turned_away_total, keys_refused_total;
};
struct rota_work_broker_counts rota_work_broker_counts(const struct rota_work_broker *broker);

#ifdef __cplusplus
}
#endif
