/* Connectors: messages between a broker and its workers, over ZeroMQ.
 *
 * A broker listens, workers connect. Each side sends messages of named types and registers handlers
 * for the types it wants to receive. Both sides send heartbeats: a side that sends nothing for
 * three intervals is considered dead, and its peer is notified. A worker that has lost its broker
 * reconnects by itself, after a growing delay.
 *
 * Threads. A connector has two. The socket thread alone uses the socket; a handler of
 * rota_connector_register_handler() runs on it, and must be short. The consumer thread runs the
 * handlers of rota_connector_register_handler_async(), all callbacks of the options, and the
 * functions passed to rota_connector_schedule(), one after the other, so they need no lock among
 * themselves. The consumer is the thread of `loop`, or a thread of the connector's own.
 *
 * Sessions. A session lasts from a worker's hello to its loss; a worker that reconnects gets a new
 * session. Within a session messages arrive in order, without duplicates or gaps, or the session
 * ends: then messages that were sent and not answered may or may not have arrived. Messages never
 * cross from one session to a later one. A worker that restarts ends its former session at once.
 *
 * Limits. A message that cannot be sent at once waits in a queue of its peer; if the queue is full,
 * rota_connector_send() fails. If the consumer falls behind, the socket is not read until it has
 * caught up, so that the queues of the senders fill instead (backpressure).
 *
 * Keys. With keys (CURVE) the broker admits the workers in a list, each only under its own name,
 * and workers authenticate their broker; all traffic is encrypted. Without keys the address must be
 * local, unless `is_insecure` is set. */
#pragma once

#include <rota/error.h>
#include <rota/log.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_connector;
struct uv_loop_s;

enum {
    ROTA_CONNECTOR_TYPES_MAX = 256,
    ROTA_CONNECTOR_TYPE_NAME_MAX = 64, /* letters, digits, '.', '_', '-' */
    /* Bytes; the default, and the minimum that both sides accept. */
    ROTA_CONNECTOR_MESSAGE_MAX = 17 << 20,
    ROTA_CONNECTOR_QUEUE_MAX = 10000,       /* messages waiting to be sent, per peer */
    ROTA_CONNECTOR_QUEUE_BYTES = 128 << 20, /* ... and their bytes */
    ROTA_CONNECTOR_INBOX_MAX = 10000,       /* messages waiting for the consumer */
    ROTA_CONNECTOR_INBOX_BYTES = 128 << 20,
    ROTA_CONNECTOR_WORKERS_MAX = 65536,
    ROTA_CONNECTOR_SCHEDULED_MAX = 65536,
    ROTA_CONNECTOR_KEY_SIZE = 41, /* a key as text, with its NUL */
};

/* The other side of a session. To a broker each session of a worker is a separate peer; to a worker
 * its broker is one peer forever. Valid from on_connected until on_disconnected returns, on the
 * consumer; rota_connector_peer_ref() extends this. */
struct rota_connector_peer;

/* The worker's name, even after its session; for a worker, the address of its broker. Any
 * thread. */
struct rota_str rota_connector_peer_name(const struct rota_connector_peer *peer);

/* The session's number, never 0 and never reused by the broker; for a worker, of the last session
 * reported by on_connected. Any thread. */
uint64_t rota_connector_peer_session(const struct rota_connector_peer *peer);

/* Of a worker: grows with each of its sessions. Any thread. */
uint64_t rota_connector_peer_epoch(const struct rota_connector_peer *peer);

/* Any thread. */
struct rota_connector_peer *rota_connector_peer_ref(struct rota_connector_peer *peer);
void rota_connector_peer_unref(struct rota_connector_peer *peer);

/* A message has arrived. Borrowed. */
typedef void rota_connector_on_message(void *data, struct rota_connector_peer *from,
                                       struct rota_str message);

/* All strings are copied. Zero means the default. */
struct rota_connector_options {
    const char *address; /* "HOST:PORT" to listen at, or to connect to */
    const char *name;    /* of a worker: printable ASCII without blanks, at most 128 bytes */

    struct uv_loop_s *loop; /* the consumer; kept. NULL: a thread of its own */

    /* Broker: the heartbeat interval of the workers, 1 s, and how many may be missed, 3. */
    rota_time interval;
    uint32_t missed_max;

    /* Worker: timeout of the welcome, 5 s; first and longest delay before it reconnects, 200 ms and
     * 30 s. */
    rota_time join_timeout;
    rota_time reconnect_first, reconnect_max;

    rota_time linger; /* how long to wait for unsent messages when closing; 0 means 1 s */

    /* Defaults: the constants above. */
    size_t message_max, queue_max, queue_bytes, inbox_max, inbox_bytes, workers_max;

    /* CURVE. `key_file`: our key pair, as written by rota_connector_key_make(); rejected if others
     * can read or change the file. `workers_file`: the broker's list of workers, a name and a
     * public key per line; read again when it changes. `broker_key`: for a worker, the public key
     * of its broker. */
    const char *key_file;
    const char *workers_file;
    const char *broker_key;
    bool is_insecure; /* allow remote addresses without keys */

    const struct rota_log *log; /* kept; used by both threads, so it must be thread-safe */

    /* On the consumer; each may be NULL. */

    /* A session has started. */
    void (*on_connected)(void *data, struct rota_connector_peer *peer);
    /* A session has ended. Messages that were sent and not answered may or may not have arrived. */
    void (*on_disconnected)(void *data, struct rota_connector_peer *peer,
                            const struct rota_error *why);
    /* Worker: could not start a session; tries again after `wait`. */
    void (*on_retry)(void *data, const struct rota_error *why, rota_time wait);
    /* A message of a type that has no handler. */
    void (*on_unhandled)(void *data, struct rota_connector_peer *from, struct rota_str type,
                         struct rota_str message);
    /* Half of the queue is free again after a send failed because it was full. */
    void (*on_room)(void *data, struct rota_connector_peer *peer);
    void *data; /* kept */

    void *reserved[4]; /* must be zero; room for future options */
};

/* Opens one side, without threads yet. A broker binds its address now, and port 0 becomes a real
 * port. Gives `*connector`; close it with rota_connector_close(). ROTA_ERR_INVALID, or ROTA_ERR_IO
 * if the address is in use. */
enum rota_code rota_connector_open_broker(const struct rota_connector_options *options,
                                          struct rota_connector **connector,
                                          struct rota_error *error);
enum rota_code rota_connector_open_worker(const struct rota_connector_options *options,
                                          struct rota_connector **connector,
                                          struct rota_error *error);

/* --- before the start --- */

/* Registers a type of messages and returns its number, for sending; the same name has the same
 * number. Names that begin with "rota." are reserved for docs/worker-protocol.md. ROTA_ERR_INVALID,
 * or ROTA_ERR_LIMIT at ROTA_CONNECTOR_TYPES_MAX. */
enum rota_code rota_connector_register(struct rota_connector *connector, const char *name,
                                       uint32_t *type, struct rota_error *error);

/* Registers the handler of a type, on the socket thread or (async) on the consumer. Each type has
 * one handler: a second is ROTA_ERR_INVALID. */
enum rota_code rota_connector_register_handler(struct rota_connector *connector, uint32_t type,
                                               rota_connector_on_message *on_message, void *data,
                                               struct rota_error *error);
enum rota_code rota_connector_register_handler_async(struct rota_connector *connector,
                                                     uint32_t type,
                                                     rota_connector_on_message *on_message,
                                                     void *data, struct rota_error *error);

/* Starts the threads. With a loop: call it on the loop's thread. */
enum rota_code rota_connector_start(struct rota_connector *connector, struct rota_error *error);

/* --- while running --- */

/* Sends a message, which is copied. Any thread. ROTA_ERR_UNAVAILABLE without a session,
 * ROTA_ERR_LIMIT if the peer's queue is full, ROTA_ERR_INVALID if the message is too large. An
 * accepted message arrives, or the session ends. */
enum rota_code rota_connector_send(struct rota_connector *connector,
                                   struct rota_connector_peer *peer, uint32_t type,
                                   struct rota_str message, struct rota_error *error);

/* For a worker: its broker. For a broker: NULL. Any thread. */
struct rota_connector_peer *rota_connector_broker(struct rota_connector *connector);

/* Ends a worker's session, or ours with the broker; the peer gets the reason, and on_disconnected
 * follows. Any thread. */
void rota_connector_drop(struct rota_connector *connector, struct rota_connector_peer *peer,
                         const char *why);

/* Runs a function on the consumer. Any thread. ROTA_ERR_LIMIT if ROTA_CONNECTOR_SCHEDULED_MAX wait,
 * ROTA_ERR_UNAVAILABLE if the connector is closing. An accepted function is always called, with
 * `is_cancelled` if the connector was closed first. */
enum rota_code rota_connector_schedule(struct rota_connector *connector,
                                       void (*call)(void *data, bool is_cancelled), void *data);

/* "HOST:PORT" of a broker, with its actual port; of a worker, as given. Any thread. */
const char *rota_connector_address(const struct rota_connector *connector);

/* Takes `connector`, which may be NULL. The other side gets a goodbye, and unsent messages have
 * `linger` to leave. No callback is called afterwards, except `on_closed`, which may be NULL.
 *
 * With a loop: call it on the loop's thread, also from a callback; it returns at once, and
 * `on_closed` is called from the loop. With a thread of its own: call it from any other thread; it
 * returns when both threads have ended and `on_closed` was called. No other thread may use the
 * connector then. */
void rota_connector_close(struct rota_connector *connector, void (*on_closed)(void *data),
                          void *data);

/* --- statistics --- */

struct rota_connector_stats {
    uint64_t n_sent, bytes_sent;         /* messages accepted by the socket, with heartbeats */
    uint64_t n_received, bytes_received; /* all messages */
    uint64_t n_refused;                  /* sends that failed because the queue was full */
    uint64_t n_dropped;                  /* accepted, but their session ended first */
    uint64_t n_unhandled;                /* of a type without a handler */
    uint64_t n_malformed;                /* that could not be decoded */
    uint64_t n_strangers;                /* that arrived without a session */
    uint64_t n_sessions, n_lost;         /* started, and ended */
    uint64_t n_turned_away;              /* rejected hellos, connections without one */
    uint64_t n_keys_refused;             /* connections with an unknown key */
    uint64_t n_retries;                  /* failed attempts of a worker to start a session */
    uint64_t n_pauses;                   /* times that the consumer fell behind */
    size_t n_peers;                      /* sessions now */
};

/* Any thread. */
void rota_connector_stats(const struct rota_connector *connector,
                          struct rota_connector_stats *stats);

/* --- keys --- */

/* Creates a key pair and writes it to `path`, which must not exist, readable only by its owner;
 * returns the public key as text. Any thread. */
enum rota_code rota_connector_key_make(const char *path, char public_key[ROTA_CONNECTOR_KEY_SIZE],
                                       struct rota_error *error);

/* Reads the public key of such a pair. Rejects a file that other users can read or change: our own
 * file must be private, one of another owner may be accessible to its group. Any thread. */
enum rota_code rota_connector_key_read(const char *path, char public_key[ROTA_CONNECTOR_KEY_SIZE],
                                       struct rota_error *error);

#ifdef __cplusplus
}
#endif
