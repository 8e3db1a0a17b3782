/* connector_socket: the socket thread of a connector: its loop, queues, sending, stopping. */
#pragma once

#include "io/mailbox.h"
#include "io/net/zmq.h"
#include "wire/message/worker_frame.h"

#include <uv.h>

struct rota_connector;
struct rota_connector_peer;

/* A thread with a loop that other threads post letters to. */
struct rota_connector_thread {
    uv_loop_t loop;
    struct rota_mailbox *mailbox;
    uv_thread_t handle;
    const char *name;
    bool is_open;
};

enum rota_code rota_connector_socket_thread_open(struct rota_connector_thread *thread,
                                                 const char *name, struct rota_error *error);
enum rota_code rota_connector_socket_thread_start(struct rota_connector_thread *thread,
                                                  struct rota_error *error);
/* Wait for its end, when all handles of its loop are closed. */
void rota_connector_socket_thread_join(struct rota_connector_thread *thread);
/* Release one that was opened and not started. */
void rota_connector_socket_thread_abandon(struct rota_connector_thread *thread);

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

enum rota_code rota_connector_socket_open(struct rota_connector *connector,
                                          struct rota_error *error);
/* Watch the socket's events; and close it. */
enum rota_code rota_connector_socket_watch(struct rota_connector *connector,
                                           struct rota_error *error);
void rota_connector_socket_unwatch(struct rota_connector *connector, rota_time linger);

/* True on the socket thread of this connector. */
bool rota_connector_socket_is_here(const struct rota_connector *connector);

/* A message of a type and a body. NULL when there is no memory. Any thread. */
struct rota_connector_outgoing *rota_connector_socket_outgoing_new(struct rota_connector *connector,
                                                                   struct rota_connector_peer *peer,
                                                                   struct rota_str type,
                                                                   struct rota_str body);

/* From the socket thread: after what is queued for the peer. */
void rota_connector_socket_say(struct rota_connector *connector, struct rota_connector_peer *peer,
                               const char *type, struct rota_str body);
/* At once, before what is queued, to a connection that may have no session; it may get lost. */
void rota_connector_socket_say_bye(struct rota_connector *connector, struct rota_str route,
                                   enum rota_worker_bye_reason reason, const char *text);
/* Drop the peer's queue. */
void rota_connector_socket_drop_queue(struct rota_connector *connector,
                                      struct rota_connector_peer *peer);
