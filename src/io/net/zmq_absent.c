/* In place of zmq.c where libzmq is not installed. Connectors ask rota_zmq_check() before anything
 * else, so there is never a socket or a message to use the rest with. */
#include "io/net/zmq.h"

#include <stdlib.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define UNREACHABLE(function)                                                                      \
    function                                                                                       \
    {                                                                                              \
        abort();                                                                                   \
    }

enum rota_code rota_zmq_check(struct rota_error *error)
{
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "this Rota was built without libzmq, so it cannot use ZeroMQ");
}

/* NOLINTBEGIN(misc-unused-parameters) */
UNREACHABLE(enum rota_code rota_zmq_open(struct rota_zmq **zmq, struct rota_error *error))
UNREACHABLE(enum rota_code rota_zmq_share(struct rota_zmq **zmq, struct rota_error *error))
UNREACHABLE(void rota_zmq_close(struct rota_zmq *zmq))
UNREACHABLE(enum rota_code rota_zmq_listen(struct rota_zmq *zmq,
                                           const struct rota_zmq_options *options,
                                           struct rota_zmq_socket **socket,
                                           struct rota_error *error))
UNREACHABLE(enum rota_code rota_zmq_connect(struct rota_zmq *zmq,
                                            const struct rota_zmq_options *options,
                                            struct rota_zmq_socket **socket,
                                            struct rota_error *error))
UNREACHABLE(void rota_zmq_socket_close(struct rota_zmq_socket *socket, rota_time linger))
UNREACHABLE(const char *rota_zmq_socket_endpoint(const struct rota_zmq_socket *socket))
UNREACHABLE(size_t rota_zmq_socket_fds(const struct rota_zmq_socket *socket,
                                       int fds[ROTA_ZMQ_FDS_MAX]))
UNREACHABLE(int rota_zmq_judge_fd(const struct rota_zmq *zmq))
UNREACHABLE(bool rota_zmq_message_init(struct rota_zmq_message *message, size_t size))
UNREACHABLE(void rota_zmq_message_deinit(struct rota_zmq_message *message))
UNREACHABLE(void rota_zmq_message_move(struct rota_zmq_message *to, struct rota_zmq_message *from))
UNREACHABLE(void *rota_zmq_message_data(const struct rota_zmq_message *message))
UNREACHABLE(size_t rota_zmq_message_size(const struct rota_zmq_message *message))
UNREACHABLE(struct rota_str rota_zmq_message_str(const struct rota_zmq_message *message))
UNREACHABLE(struct rota_str rota_zmq_message_user(const struct rota_zmq_message *message))
UNREACHABLE(enum rota_code rota_zmq_receive(struct rota_zmq_socket *socket,
                                            struct rota_zmq_route *route,
                                            struct rota_zmq_message *message))
UNREACHABLE(enum rota_code rota_zmq_send(struct rota_zmq_socket *socket, struct rota_str route,
                                         struct rota_zmq_message *message))
UNREACHABLE(enum rota_zmq_event rota_zmq_next_event(struct rota_zmq_socket *socket,
                                                    struct rota_error *why))
UNREACHABLE(int rota_zmq_event_fd(const struct rota_zmq_socket *socket))
UNREACHABLE(int rota_zmq_message_fd(const struct rota_zmq_message *message))
UNREACHABLE(uint64_t rota_zmq_received(const struct rota_zmq_socket *socket, int fd))
UNREACHABLE(void rota_zmq_cut(const struct rota_zmq_socket *socket, int fd))
UNREACHABLE(bool rota_zmq_next_question(struct rota_zmq *zmq, struct rota_zmq_question *question))
UNREACHABLE(void rota_zmq_answer(struct rota_zmq *zmq, bool is_let_in, struct rota_str name))
UNREACHABLE(bool rota_zmq_make_keys(char public_key[ROTA_KEY_TEXT_SIZE + 1],
                                    char secret_key[ROTA_KEY_TEXT_SIZE + 1]))
/* NOLINTEND(misc-unused-parameters) */
