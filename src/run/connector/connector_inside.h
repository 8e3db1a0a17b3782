/* connector_inside: what the files of a connector share.
 *
 *     connector.c         the public functions
 *     connector_broker.c  the side that listens    } both translate messages into events
 *     connector_worker.c  the side that connects   } of their machine, and back
 *
 * The socket thread, its letters to the consumer, its log lines and the keys have headers of
 * their own.
 *
 * Both threads run a libuv loop with a mailbox. Fields that are the "socket's" are used by the
 * socket thread only, once it has started; the "consumer's" likewise. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "base/vector.h"
#include "core/work/worker/join_fsm.h"
#include "core/work/worker/sessions.h"
#include "run/connector/connector_counters.h"
#include "run/connector/connector_keys.h"
#include "run/connector/connector_lines.h"
#include "run/connector/connector_news.h"
#include "run/connector/connector_socket.h"

#include <rota/experimental/connector.h>
#include <stdatomic.h>
#include <uv.h>

/* Messages that the library itself queues for a peer, each way: few, since our own queues are
 * counted and bounded. */
enum { ROTA_CONNECTOR_HIGH_WATER = 256 };

struct rota_connector_type {
    char name[ROTA_CONNECTOR_TYPE_NAME_MAX + 1];
    rota_connector_on_message *on_message; /* NULL: none */
    void *data;
    bool is_async;
};

struct rota_connector_peer {
    atomic_size_t n_refs;
    struct rota_connector *connector;
    char name[ROTA_WORKER_NAME_MAX + 1];

    /* The session of a message: socket's, 0 when there is none; copied to messages that are sent
     * from other threads. */
    uint64_t stamp;
    atomic_uint_least64_t told_stamp;
    atomic_uint_least64_t session, epoch; /* as reported to the consumer */

    /* From the send until the socket has taken it. */
    atomic_size_t n_queued, bytes_queued;
    atomic_bool was_refused;
    struct rota_letter room;
    atomic_bool is_room_told, is_dropping;

    /* Socket's. */
    struct rota_connector_outgoing *first, *last;
    struct rota_list_node blocked;
    struct rota_connector_news *news; /* of the current session */
    struct rota_session in_table;     /* of a broker */
    struct rota_zmq_route route;

    /* Of a broker: how the session ended; the consumer may read it once that is reported. */
    enum rota_session_end how;
};

/* One side's part: a broker's, or a worker's. All on the socket thread. */
struct rota_connector_side {
    /* A message has arrived; takes it. */
    void (*take)(struct rota_connector *connector, const struct rota_zmq_route *route,
                 struct rota_zmq_message *message);
    /* A message that could not be read. */
    void (*take_malformed)(struct rota_connector *connector, const struct rota_zmq_route *route,
                           const struct rota_error *why);
    /* A message to `peer` was sent; or could not be, because its connection is closed. */
    void (*on_sent)(struct rota_connector *connector, struct rota_connector_peer *peer);
    void (*on_gone)(struct rota_connector *connector, struct rota_connector_peer *peer,
                    const struct rota_error *why);
    /* The connection itself: made, closed, failed. After the messages, or before. */
    bool takes_events_early;
    void (*on_event)(struct rota_connector *connector, enum rota_zmq_event event,
                     const struct rota_error *why);
    void (*tick)(struct rota_connector *connector, rota_time now, bool is_drained);
    rota_time (*deadline)(const struct rota_connector *connector);
    /* End the session of `peer` by our own decision. */
    void (*drop)(struct rota_connector *connector, struct rota_connector_peer *peer,
                 enum rota_worker_bye_reason reason, const struct rota_error *why);
    /* To all. False: there is no message that the socket should linger for. */
    bool (*say_goodbye)(struct rota_connector *connector);
    void (*end_all)(struct rota_connector *connector);
};

extern const struct rota_connector_side rota_connector_broker_side;
extern const struct rota_connector_side rota_connector_worker_side;

/* A connection that has not had a session yet. It may also be one that can't authenticate: the
 * library reads a whole message of such a peer, too. */
struct rota_connector_guest {
    int fd;
    rota_time since;
};

/* It may send little, and has little time: a hello is short, and comes first. If there are more
 * guests than places, the oldest one is disconnected. */
enum { ROTA_CONNECTOR_GUESTS_MAX = 8192, ROTA_CONNECTOR_GUEST_BYTES = 64 << 10 };
#define ROTA_CONNECTOR_GUEST_TIME (10 * ROTA_SEC)
#define ROTA_CONNECTOR_GUEST_LOOK (50 * ROTA_MSEC)

struct rota_connector {
    struct rota_connector_options options; /* texts are copies */
    const struct rota_connector_side *side;
    char address[300], endpoint[300];
    struct rota_connector_counters counters;
    bool is_started;
    atomic_bool is_closed; /* set by the consumer; sends fail from then on */

    /* Fixed once it has started. */
    ROTA_VECTOR(struct rota_connector_type *) types;
    struct rota_map types_by_name;

    /* Socket's. */
    struct rota_connector_thread thread;
    struct rota_zmq *zmq;
    struct rota_zmq_socket *socket; /* a worker has one while it is in a session, or connecting */
    struct rota_connector_keys keys;
    uv_poll_t *polls[ROTA_ZMQ_FDS_MAX];
    uv_poll_t *judge_poll;
    uv_prepare_t prepare;
    uv_idle_t idle;
    uv_timer_t timer;
    struct rota_list_node blocked; /* peers whose queue waits for room */
    struct rota_letter stop, resume;
    struct rota_letters news;          /* for the consumer, posted at the end of the turn */
    bool is_paused;                    /* the consumer is slow */
    bool is_touched;                   /* the socket was used since the last read */
    bool are_events_due, is_judge_due; /* they need attention */
    bool is_stopping;
    rota_time stop_at;
    bool has_event;
    enum rota_zmq_event event;
    struct rota_error event_error;
    struct rota_random random;
    struct rota_buffer scratch;
    size_t places_max;

    struct rota_connector_lines lines[ROTA_CONNECTOR_N_LINES]; /* a broker's */

    ROTA_VECTOR(struct rota_connector_guest) guests; /* a broker's, the oldest first */
    rota_time guests_at;                             /* when to look at them; 0: there are none */

    struct rota_sessions sessions;      /* a broker's */
    struct rota_join_fsm join;          /* a worker's */
    struct rota_connector_peer *broker; /* a worker's */
    struct rota_error join_error;       /* why the current attempt failed */
    uint64_t session;                   /* of the last welcome */

    /* The consumer. */
    struct rota_connector_thread own; /* when there is no loop */
    struct rota_mailbox *consumer;
    struct rota_letters held; /* see rota_connector_hold() */
    struct rota_letter close, last;
    struct rota_letter retry;
    atomic_bool is_retry_told;
    struct rota_error retry_error;
    rota_time retry_wait;
    void (*on_closed)(void *data);
    void *closed_data;

    /* Between the two. */
    atomic_size_t n_inbox, inbox_bytes;
    atomic_bool wants_resume;
    atomic_size_t n_scheduled;
    atomic_size_t n_places; /* sessions whose end the consumer has not received yet */
};

/* --- connector.c --- */

/* Whether a broker could be opened with these options, except for its socket: its address and
 * its keys. */
enum rota_code rota_connector_check_broker(const struct rota_connector_options *options,
                                           struct rota_error *error);

struct rota_connector_peer *rota_connector_peer_new(struct rota_connector *connector,
                                                    struct rota_str name);

/* On the consumer: collect messages from now on, and send them together, with one wake-up of the
 * socket thread, on release. */
void rota_connector_hold(struct rota_connector *connector);
void rota_connector_let_go(struct rota_connector *connector);
