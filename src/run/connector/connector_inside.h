/* connector_inside: what the files of a connector share.
 *
 *     connector.c         the public functions
 *     connector_socket.c  the socket thread: its loop, queues, sending, stopping
 *     connector_news.c    letters to the consumer
 *     connector_broker.c  the side that listens    } both translate messages into events
 *     connector_worker.c  the side that connects   } of their machine, and back
 *     connector_keys.c    addresses and keys
 *
 * Both threads run a libuv loop with a mailbox. Fields that are the "socket's" are used by the
 * socket thread only, once it has started; the "consumer's" likewise. */
#pragma once

#include "base/buffer.h"
#include "base/list.h"
#include "base/map.h"
#include "base/vector.h"
#include "core/work/worker/join_fsm.h"
#include "core/work/worker/sessions.h"
#include "io/mailbox.h"
#include "io/net/zmq.h"
#include "wire/message/worker_frame.h"
#include "wire/text/keys_file.h"

#include <rota/connector.h>
#include <stdatomic.h>
#include <uv.h>

/* Messages that the library itself queues for a peer, each way: few, since our own queues are
 * counted and bounded. */
enum { ROTA_CONNECTOR_HIGH_WATER = 256 };

/* A thread with a loop that other threads post letters to. */
struct rota_connector_thread {
    uv_loop_t loop;
    struct rota_mailbox *mailbox;
    uv_thread_t handle;
    const char *name;
    bool is_open;
};

enum rota_code rota_connector_thread_open(struct rota_connector_thread *thread, const char *name,
                                          struct rota_error *error);
enum rota_code rota_connector_thread_start(struct rota_connector_thread *thread,
                                           struct rota_error *error);
/* Wait for its end, when all handles of its loop are closed. */
void rota_connector_thread_join(struct rota_connector_thread *thread);
/* Release one that was opened and not started. */
void rota_connector_thread_abandon(struct rota_connector_thread *thread);

struct rota_connector_type {
    char name[ROTA_CONNECTOR_TYPE_NAME_MAX + 1];
    rota_connector_on_message *on_message; /* NULL: none */
    void *data;
    bool is_async;
};

/* A message from rota_connector_send() until the socket has taken it. */
struct rota_connector_outgoing {
    struct rota_letter letter;
    struct rota_connector *connector;
    struct rota_connector_peer *peer; /* a reference */
    struct rota_connector_outgoing *next;
    uint64_t stamp;
    size_t size;
    struct rota_zmq_message message;
};

/* What the consumer receives about one session: its begin and its end. Allocated with the
 * session, so that the end can always be reported. */
struct rota_connector_news {
    struct rota_letter up, down;
    struct rota_connector *connector;
    struct rota_connector_peer *peer; /* a reference */
    uint64_t stamp, session, epoch;
    struct rota_error why;
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

/* The same names as in struct rota_connector_stats. */
struct rota_connector_counters {
    atomic_uint_least64_t n_sent, bytes_sent, n_received, bytes_received;
    atomic_uint_least64_t n_refused, n_dropped, n_unhandled, n_malformed, n_strangers;
    atomic_uint_least64_t n_sessions, n_lost, n_turned_away, n_keys_refused, n_retries, n_pauses;
    atomic_size_t n_peers;
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
    void (*say_goodbye)(struct rota_connector *connector); /* to all */
    void (*end_all)(struct rota_connector *connector);
};

extern const struct rota_connector_side rota_connector_broker_side;
extern const struct rota_connector_side rota_connector_worker_side;

/* Log lines that any remote peer can cause. Of each kind a few are written per period, from all
 * peers together; at its end, one with the number of suppressed lines. */
enum rota_connector_line {
    ROTA_CONNECTOR_LINE_MALFORMED,
    ROTA_CONNECTOR_LINE_TURNED_AWAY,
    ROTA_CONNECTOR_LINE_REFUSED,
    ROTA_CONNECTOR_LINE_KEY,
    ROTA_CONNECTOR_N_LINES,
};

enum { ROTA_CONNECTOR_LINES_MAX = 5 };
#define ROTA_CONNECTOR_LINES_SPAN (10 * ROTA_SEC)

struct rota_connector_lines {
    rota_time until; /* the period's end; 0: none is running */
    uint64_t n_written, n_left_out;
};

/* A connection that has not had a session yet. It may also be one that can't authenticate: the
 * library reads a whole message of such a peer, too. */
struct rota_connector_guest {
    int fd;
    rota_time since;
};

/* It has little to send, and little time: a hello is short, and is said at once. More guests than
 * places make the oldest one leave. */
enum { ROTA_CONNECTOR_GUESTS_MAX = 8192, ROTA_CONNECTOR_GUEST_BYTES = 64 << 10 };
#define ROTA_CONNECTOR_GUEST_TIME (10 * ROTA_SEC)
#define ROTA_CONNECTOR_GUEST_LOOK (50 * ROTA_MSEC)

struct rota_connector_keys {
    struct rota_buffer own_text, workers_text;
    struct rota_key public_key, secret_key, broker_key;
    struct rota_keys workers; /* a broker's */
    long long stamp[3];       /* of the file that they were read from */
    bool is_on;
};

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
    bool has_cut;                                    /* their memory is to be returned */

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

static inline void rota_count(atomic_uint_least64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

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

/* --- connector_lines.c; on the socket thread --- */

/* Whether a line may be written now; it is counted either way. */
bool rota_connector_may_log(struct rota_connector *connector, enum rota_connector_line line);

/* Log the numbers of suppressed lines of periods that ended before `now`; and when to do that
 * next. */
void rota_connector_lines_tick(struct rota_connector *connector, rota_time now);
rota_time rota_connector_lines_deadline(const struct rota_connector *connector);

/* --- connector_socket.c --- */

enum rota_code rota_connector_socket_open(struct rota_connector *connector,
                                          struct rota_error *error);
/* Watch the socket's events; and close it. */
enum rota_code rota_connector_watch(struct rota_connector *connector, struct rota_error *error);
void rota_connector_unwatch(struct rota_connector *connector, rota_time linger);

/* True on the socket thread of this connector. */
bool rota_connector_is_on_socket(const struct rota_connector *connector);

/* A message of a type and a body. NULL when there is no memory. Any thread. */
struct rota_connector_outgoing *rota_connector_outgoing_new(struct rota_connector *connector,
                                                            struct rota_connector_peer *peer,
                                                            struct rota_str type,
                                                            struct rota_str body);
/* Called when the letter of a message was delivered. */
void rota_connector_done_outgoing(struct rota_letter *letter, bool is_cancelled);

/* From the socket thread: after what is queued for the peer. */
void rota_connector_say(struct rota_connector *connector, struct rota_connector_peer *peer,
                        const char *type, struct rota_str body);
/* At once, before what is queued, to a connection that may have no session; it may get lost. */
void rota_connector_say_bye(struct rota_connector *connector, struct rota_str route,
                            enum rota_worker_bye_reason reason, const char *text);
/* Drop the peer's queue. */
void rota_connector_drop_queue(struct rota_connector *connector, struct rota_connector_peer *peer);

/* --- connector_news.c --- */

/* A session begins: reserve a place and the letters about it. NULL when there is none. */
struct rota_connector_news *rota_connector_news_new(struct rota_connector *connector,
                                                    struct rota_connector_peer *peer);
void rota_connector_tell_up(struct rota_connector_news *news);
void rota_connector_tell_down(struct rota_connector_news *news, const struct rota_error *why);
void rota_connector_tell_retry(struct rota_connector *connector, const struct rota_error *why,
                               rota_time wait);
void rota_connector_tell_room(struct rota_connector_peer *peer);
/* Socket's: the turn is over, post its letters to the consumer. */
void rota_connector_tell_all(struct rota_connector *connector);

/* Pass a message to its handler; takes it. False when there is no memory. */
bool rota_connector_dispatch(struct rota_connector *connector, struct rota_connector_peer *peer,
                             struct rota_str type, struct rota_str body,
                             struct rota_zmq_message *message);

/* Whether the consumer is slow; it posts `resume` when it has caught up. */
bool rota_connector_is_behind(struct rota_connector *connector);

/* --- connector_keys.c --- */

/* Read the address and the keys, and reject an insecure combination. */
enum rota_code rota_connector_keys_open(struct rota_connector *connector, bool is_broker,
                                        struct rota_error *error);
void rota_connector_keys_close(struct rota_connector_keys *keys);
/* Socket's: answer authentication requests. */
void rota_connector_judge(struct rota_connector *connector);
