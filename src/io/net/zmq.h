/* zmq: ZeroMQ sockets of the two kinds that connectors need. The one file that knows the library.
 *
 * Each option that is set here is the answer to one of the library's traps:
 *
 *     ROUTER_MANDATORY     a message for a peer that is full or gone is rejected, not lost
 *     ROUTER_HANDOVER      a second peer with the same routing id takes over, and is not
 *                          kept waiting silently
 *     no routing id        the router gives each connection one of its own; so a
 *                          connection that breaks and is made again is a new peer
 *     RECONNECT_IVL        a day: the library does not reconnect by itself while a socket
 *                          lives. -1 would lose what arrived just before the end, like a
 *                          goodbye, and so would IMMEDIATE
 *     LINGER               closing ends
 *     MAXMSGSIZE           a peer that announces more is cut off
 *     DONTWAIT everywhere  nothing blocks; a caller that is rejected keeps the message
 *     ZAP_DOMAIN           peers are authenticated, with keys or without: old versions
 *                          of the protocol, which a web page can imitate, are never let in
 *     ZAP_ENFORCE_DOMAIN   without an authenticator, no peer is let in
 *
 * A context has one thread for I/O inside. A socket belongs to one thread at a time; a message
 * may be made on any. */
#pragma once

#include "wire/text/keys_file.h"

#include <rota/error.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>

struct rota_zmq;
struct rota_zmq_socket;

/* ROTA_ERR_INVALID if this Rota was built without ZeroMQ; nothing below may be called then. */
enum rota_code rota_zmq_check(struct rota_error *error);

/* A separate context, with its authentication. Gives `*zmq`; rota_zmq_close() ends it when its
 * sockets are closed, and waits for their linger. */
enum rota_code rota_zmq_open(struct rota_zmq **zmq, struct rota_error *error);

/* The one context that all its users share: many workers of a process have one thread for I/O,
 * which wakes up once for all of them. Its last user waits for the linger of all. Any thread. */
enum rota_code rota_zmq_share(struct rota_zmq **zmq, struct rota_error *error);

void rota_zmq_close(struct rota_zmq *zmq);

struct rota_zmq_options {
    const char *endpoint; /* "tcp://..." */
    size_t message_max;
    int high_water; /* messages that the library keeps for a peer, each way */
    rota_time handshake_timeout;
    const struct rota_key *public_key, *secret_key; /* ours; NULL: no keys */
    const struct rota_key *broker_key;              /* of the connecting side */
};

/* A router that listens, or a dealer that connects. Gives `*socket`. */
enum rota_code rota_zmq_listen(struct rota_zmq *zmq, const struct rota_zmq_options *options,
                               struct rota_zmq_socket **socket, struct rota_error *error);
enum rota_code rota_zmq_connect(struct rota_zmq *zmq, const struct rota_zmq_options *options,
                                struct rota_zmq_socket **socket, struct rota_error *error);
/* What was sent has `linger` to leave. `socket` may be NULL. */
void rota_zmq_socket_close(struct rota_zmq_socket *socket, rota_time linger);

/* Where it listens, with its port: "tcp://127.0.0.1:4711". */
const char *rota_zmq_socket_endpoint(const struct rota_zmq_socket *socket);

/* --- waiting --- */

/* Any event makes one of these readable; then ask below until there is nothing more, also after
 * each message that was sent: the library signals each event once. */
enum { ROTA_ZMQ_FDS_MAX = 2 };
size_t rota_zmq_socket_fds(const struct rota_zmq_socket *socket, int fds[ROTA_ZMQ_FDS_MAX]);
int rota_zmq_judge_fd(const struct rota_zmq *zmq); /* -1: none */

/* --- messages --- */

struct rota_zmq_message {
    _Alignas(void *) unsigned char opaque[64];
};

/* A message of `size` bytes to be written. False when there is no memory. Any thread. */
bool rota_zmq_message_init(struct rota_zmq_message *message, size_t size);
void rota_zmq_message_deinit(struct rota_zmq_message *message);
/* `to` is not initialized, `from` is empty then. */
void rota_zmq_message_move(struct rota_zmq_message *to, struct rota_zmq_message *from);
void *rota_zmq_message_data(const struct rota_zmq_message *message);
size_t rota_zmq_message_size(const struct rota_zmq_message *message);
struct rota_str rota_zmq_message_str(const struct rota_zmq_message *message);

/* Whom the judge has let in, of a message from a router; empty without keys. */
struct rota_str rota_zmq_message_user(const struct rota_zmq_message *message);

/* The next message, to be deinited; and for a router the connection that it came from, of at
 * most ROTA_ZMQ_ROUTE_MAX bytes. ROTA_ERR_NOT_FOUND when there is none now. ROTA_ERR_INVALID for
 * one of several parts: it is dropped, and the route is that of its sender. */
enum { ROTA_ZMQ_ROUTE_MAX = 255 };
struct rota_zmq_route {
    uint8_t size;
    char bytes[ROTA_ZMQ_ROUTE_MAX];
};
enum rota_code rota_zmq_receive(struct rota_zmq_socket *socket, struct rota_zmq_route *route,
                                struct rota_zmq_message *message);

/* Send `message`, which is empty then. ROTA_ERR_LIMIT: there is no room now; the
 * message stays. ROTA_ERR_NOT_FOUND: no such connection. ROTA_ERR_IO: anything else. */
enum rota_code rota_zmq_send(struct rota_zmq_socket *socket, struct rota_str route,
                             struct rota_zmq_message *message);

/* --- events of connections --- */

enum rota_zmq_event {
    ROTA_ZMQ_NOTHING,
    ROTA_ZMQ_CONNECTED,
    ROTA_ZMQ_DISCONNECTED,
    ROTA_ZMQ_FAILED,   /* it was not made */
    ROTA_ZMQ_ACCEPTED, /* by a router; authentication follows */
};

/* The next event; `why`, which may be NULL, is filled for the last two. */
enum rota_zmq_event rota_zmq_next_event(struct rota_zmq_socket *socket, struct rota_error *why);

/* The connection of the last event, if that was ACCEPTED or DISCONNECTED, and that of a message
 * from a router. It belongs to the library: use it as a name. */
int rota_zmq_event_fd(const struct rota_zmq_socket *socket);
int rota_zmq_message_fd(const struct rota_zmq_message *message);

/* How many bytes a connection of this router has sent, and its end. The library has neither: it
 * notices the end like that of any connection. 0, and nothing, if it is closed already. */
uint64_t rota_zmq_received(const struct rota_zmq_socket *socket, int fd);
void rota_zmq_cut(const struct rota_zmq_socket *socket, int fd);

/* --- the judge --- */

struct rota_zmq_question {
    struct rota_key key;
    bool has_key;
    char address[64]; /* of the peer */
};

/* A peer that wants to be let in; false: none now. Each question is to be answered before the
 * next, with the name of the accepted key; it is empty without keys. */
bool rota_zmq_next_question(struct rota_zmq *zmq, struct rota_zmq_question *question);
void rota_zmq_answer(struct rota_zmq *zmq, bool is_let_in, struct rota_str name);

/* --- keys --- */

/* A new pair, as text with its NUL. */
bool rota_zmq_make_keys(char public_key[ROTA_KEY_TEXT_SIZE + 1],
                        char secret_key[ROTA_KEY_TEXT_SIZE + 1]);
