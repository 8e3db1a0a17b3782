/* Connectors: messages between a broker and its workers, over ZeroMQ.
 *
 * A broker listens, workers connect to it. Each side sends messages of types that have a
 * name, and registers a handler for those it wants to hear. Both sides beat: one that is
 * silent for three intervals is gone, and its other side is told. A worker whose broker
 * is gone comes back by itself, after a delay that grows.
 *
 * **Threads.** A connector has two. The *socket* thread alone touches the socket; a
 * handler of rota_connector_register_handler() runs on it, and must be short. The
 * *consumer* thread runs the handlers of rota_connector_register_handler_async(), all
 * callbacks of the options, and what rota_connector_schedule() is given, one after the
 * other: what they share needs no lock. The consumer is the thread of `loop`, or one of
 * the connector's own.
 *
 * **Sessions.** From a worker's hello to its loss is a session; a worker that comes back
 * has another, on another connection. Within a session messages arrive in order, none
 * twice and none missing, or the session ends: what was sent in it and is not answered
 * may have arrived or not. Nothing of an older session arrives in a later one. A worker
 * that was restarted ends the session of its former life at once.
 *
 * **Bounds.** What can't leave at once waits in a queue of its peer; when that is full,
 * rota_connector_send() refuses. When the consumer is behind, the socket is not read any
 * more until it has caught up, so that the senders' queues fill instead.
 *
 * **Keys.** With keys (CURVE) the broker lets in the workers of a list, each under its
 * own name only, and workers know that it is their broker; all is encrypted. Without
 * them an address must be of this machine, unless `is_insecure` says otherwise. */
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
    ROTA_CONNECTOR_TYPE_NAME_MAX = 64,      /* letters, digits, '.', '_', '-' */
    ROTA_CONNECTOR_MESSAGE_MAX = 17 << 20,  /* bytes; the default, and what both must take */
    ROTA_CONNECTOR_QUEUE_MAX = 10000,       /* messages that wait to leave, per peer */
    ROTA_CONNECTOR_QUEUE_BYTES = 128 << 20, /* ... and their bytes */
    ROTA_CONNECTOR_INBOX_MAX = 10000,       /* messages that wait for the consumer */
    ROTA_CONNECTOR_INBOX_BYTES = 128 << 20,
    ROTA_CONNECTOR_WORKERS_MAX = 65536,
    ROTA_CONNECTOR_SCHEDULED_MAX = 65536,
    ROTA_CONNECTOR_KEY_SIZE = 41, /* a key as text, with its NUL */
};

/* The other side of a session: to a broker each session of a worker is a peer of its own,
 * to a worker its broker is one peer for ever. Valid from on_connected until on_disconnected
 * returns, on the consumer; rota_connector_peer_ref() keeps it longer. */
struct rota_connector_peer;

/* What a worker is called, also while it is gone; to a worker, the address of its
 * broker. Any thread. */
struct rota_str rota_connector_peer_name(const struct rota_connector_peer *peer);

/* The number of its session, never 0 and not used again by the broker; of a broker's the
 * last one that on_connected told of. Any thread. */
uint64_t rota_connector_peer_session(const struct rota_connector_peer *peer);

/* Of a worker: grows with each of its sessions. Any thread. */
uint64_t rota_connector_peer_epoch(const struct rota_connector_peer *peer);

/* Any thread. */
struct rota_connector_peer *rota_connector_peer_ref(struct rota_connector_peer *peer);
void rota_connector_peer_unref(struct rota_connector_peer *peer);

/* A message has come. It is borrowed. */
typedef void rota_connector_on_message(void *data, struct rota_connector_peer *from,
                                       struct rota_str message);

/* All texts are copied. Zero means the default. */
struct rota_connector_options {
    const char *address; /* "HOST:PORT": where to listen, or whom to connect to */
    const char *name;    /* of a worker: printable ASCII without blanks, at most 128 bytes */

    struct uv_loop_s *loop; /* the consumer; kept. NULL: a thread of the connector's own */

    /* A broker's: what workers are told to keep to. 1 s and 3. */
    rota_time interval;
    uint32_t missed_max;

    /* A worker's: how long until the welcome, 5 s; the delay before it tries again, from
     * 200 ms to 30 s. */
    rota_time join_timeout;
    rota_time reconnect_first, reconnect_max;

    rota_time linger; /* how long closing may take for what waits to leave; 0 means 1 s */

    size_t message_max, queue_max, queue_bytes, inbox_max, inbox_bytes, workers_max;

    /* CURVE. Our own key pair, as rota_connector_key_make() writes it, refused when others can
     * read or change the file; a broker's list of workers, a line each with a name and a public
     * key; a worker's broker, by its public key. A list that has changed is read again. */
    const char *key_file;
    const char *workers_file;
    const char *broker_key;
    bool is_insecure; /* without keys also beyond this machine */

    const struct rota_log *log; /* kept; used by both threads, so it must bear that */

    /* On the consumer; each may be NULL. */

    /* A session has begun. */
    void (*on_connected)(void *data, struct rota_connector_peer *peer);
    /* It is over. What was sent and not answered may have arrived or not. */
    void (*on_disconnected)(void *data, struct rota_connector_peer *peer,
                            const struct rota_error *why);
    /* A worker's: it could not come into a session, and tries again after `wait`. */
    void (*on_retry)(void *data, const struct rota_error *why, rota_time wait);
    /* A message of a type that has no handler. */
    void (*on_unhandled)(void *data, struct rota_connector_peer *from, struct rota_str type,
                         struct rota_str message);
    /* After a refusal for want of room: half of the queue is free again. */
    void (*on_room)(void *data, struct rota_connector_peer *peer);
    void *data; /* kept */
};

/* Make one side, without threads yet: a broker has its address, and port 0 has become a
 * number. Gives `*connector`; rota_connector_close() ends it. ROTA_ERR_INVALID, or
 * ROTA_ERR_IO when the address is taken. */
enum rota_code rota_connector_open_broker(const struct rota_connector_options *options,
                                          struct rota_connector **connector,
                                          struct rota_error *error);
enum rota_code rota_connector_open_worker(const struct rota_connector_options *options,
                                          struct rota_connector **connector,
                                          struct rota_error *error);

/* --- before it starts --- */

/* A type of messages; gives its number, by which it is sent. The same name has the same
 * number. Names that begin with "rota." are for what docs/worker-protocol.md says.
 * ROTA_ERR_INVALID, or ROTA_ERR_LIMIT with ROTA_CONNECTOR_TYPES_MAX. */
enum rota_code rota_connector_register(struct rota_connector *connector, const char *name,
                                       uint32_t *type, struct rota_error *error);

/* What to do with messages of a type: on the socket thread, or (async) on the consumer.
 * One handler for each type: a second is ROTA_ERR_INVALID. */
enum rota_code rota_connector_register_handler(struct rota_connector *connector, uint32_t type,
                                               rota_connector_on_message *on_message, void *data,
                                               struct rota_error *error);
enum rota_code rota_connector_register_handler_async(struct rota_connector *connector,
                                                     uint32_t type,
                                                     rota_connector_on_message *on_message,
                                                     void *data, struct rota_error *error);

/* Start the threads. With a loop: on its thread. */
enum rota_code rota_connector_start(struct rota_connector *connector, struct rota_error *error);

/* --- while it runs --- */

/* Send a message, which is copied. Any thread. ROTA_ERR_UNAVAILABLE when there is no
 * session; ROTA_ERR_LIMIT when the peer's queue is full, or the message too large
 * (ROTA_ERR_INVALID). A message that was taken arrives, or the session ends. */
enum rota_code rota_connector_send(struct rota_connector *connector,
                                   struct rota_connector_peer *peer, uint32_t type,
                                   struct rota_str message, struct rota_error *error);

/* To a worker: its broker. NULL to a broker. Any thread. */
struct rota_connector_peer *rota_connector_broker(struct rota_connector *connector);

/* End a worker's session, or ours with the broker, for a reason that it is told; on_disconnected
 * follows. Any thread. */
void rota_connector_drop(struct rota_connector *connector, struct rota_connector_peer *peer,
                         const char *why);

/* Run a function on the consumer. Any thread. ROTA_ERR_LIMIT when
 * ROTA_CONNECTOR_SCHEDULED_MAX wait, ROTA_ERR_UNAVAILABLE when it is closing. One that was taken
 * is called, or `is_cancelled` when the connector was closed before. */
enum rota_code rota_connector_schedule(struct rota_connector *connector,
                                       void (*call)(void *data, bool is_cancelled), void *data);

/* "HOST:PORT" of a broker, with its port; of a worker as it was given. Any thread. */
const char *rota_connector_address(const struct rota_connector *connector);

/* Takes `connector`, which may be NULL. No callback comes after, except `on_closed`, which may be
 * NULL. The other side is told goodbye, and what waits has `linger` to leave.
 *
 * With a loop: on its thread, from a callback too; returns at once, and `on_closed` is
 * called from the loop. With a thread of its own: from any other thread; returns when
 * both threads have ended and `on_closed` was called. No other thread may use the
 * connector any more. */
void rota_connector_close(struct rota_connector *connector, void (*on_closed)(void *data),
                          void *data);

/* --- numbers --- */

struct rota_connector_stats {
    uint64_t n_sent, bytes_sent;         /* messages that the socket took, beats included */
    uint64_t n_received, bytes_received; /* whatever came */
    uint64_t n_refused;                  /* sends refused for want of room */
    uint64_t n_dropped;                  /* taken, but their session ended first */
    uint64_t n_unhandled;                /* of a type without a handler */
    uint64_t n_malformed;                /* that could not be read */
    uint64_t n_strangers;                /* that came without a session */
    uint64_t n_sessions, n_lost;         /* begun, and ended */
    uint64_t n_turned_away;              /* hellos that were refused */
    uint64_t n_keys_refused;             /* connections with a key that is not known */
    uint64_t n_retries;                  /* tries of a worker that came to nothing */
    uint64_t n_pauses;                   /* times that the consumer was behind */
    size_t n_peers;                      /* sessions now */
};

/* Any thread. */
void rota_connector_stats(const struct rota_connector *connector,
                          struct rota_connector_stats *stats);

/* --- keys --- */

/* Make a key pair and write it to `path`, which must not exist, for its owner's eyes
 * only; gives the public key as text. Any thread. */
enum rota_code rota_connector_key_make(const char *path, char public_key[ROTA_CONNECTOR_KEY_SIZE],
                                       struct rota_error *error);

/* The public key of a pair that was written so, and that nobody else can read or change: a file of
 * our own is for us alone, that of another owner may be for its group, too. Any thread. */
enum rota_code rota_connector_key_read(const char *path, char public_key[ROTA_CONNECTOR_KEY_SIZE],
                                       struct rota_error *error);

#ifdef __cplusplus
}
#endif
