#include "io/net/zmq.h"

#include "io/net/address.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#define JUDGE_ENDPOINT "inproc://zeromq.zap.01"
#define DOMAIN         "rota"

/* ZMQ_ZAP_ENFORCE_DOMAIN, which the header names only for drafts; the library has it. */
enum { ENFORCE_DOMAIN = 93 };

struct rota_zmq {
    void *context;
    bool is_shared;
    void *judge;      /* NULL: none */
    char request[32]; /* the question that waits for its answer */
    size_t request_size;
};

struct rota_zmq_socket {
    void *socket;
    void *monitor;
    bool is_router, has_keys;
    int event_fd;
    char endpoint[256];
};

_Static_assert(sizeof(struct rota_zmq_message) == sizeof(zmq_msg_t), "room for a message");

static zmq_msg_t *as_zmq(const struct rota_zmq_message *message)
{
    return (zmq_msg_t *)(void *)message->opaque;
}

enum rota_code rota_zmq_check(struct rota_error *error)
{
    (void)error;
    return ROTA_OK;
}

/* --- contexts --- */

/* The context of all that share one, while there are any. */
static struct {
    pthread_mutex_t lock;
    void *context;
    size_t n_users;
} common = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *share_context(void)
{
    pthread_mutex_lock(&common.lock);
    if (!common.context) {
        common.context = zmq_ctx_new();
        if (common.context) /* each connection takes three, and 1,023 are allowed by default */
            zmq_ctx_set(common.context, ZMQ_MAX_SOCKETS,
                        zmq_ctx_get(common.context, ZMQ_SOCKET_LIMIT));
    }
    void *context = common.context;
    common.n_users += context != NULL;
    pthread_mutex_unlock(&common.lock);
    return context;
}

/* Gives the context when it has no user left. */
static void *unshare_context(void)
{
    void *context = NULL;
    pthread_mutex_lock(&common.lock);
    if (--common.n_users == 0) {
        context = common.context;
        common.context = NULL;
    }
    pthread_mutex_unlock(&common.lock);
    return context;
}

static enum rota_code open_context(bool is_shared, struct rota_zmq **zmq, struct rota_error *error)
{
    struct rota_zmq *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for ZeroMQ");
    made->is_shared = is_shared;
    made->context = is_shared ? share_context() : zmq_ctx_new();
    if (!made->context)
        goto fail;
    if (!is_shared) {
        made->judge = zmq_socket(made->context, ZMQ_REP);
        if (!made->judge || zmq_bind(made->judge, JUDGE_ENDPOINT) != 0)
            goto fail;
    }
    *zmq = made;
    return ROTA_OK;

fail:
    rota_error_set(error, ROTA_ERR_IO, "ZeroMQ could not be started: %s", zmq_strerror(errno));
    rota_zmq_close(made);
    return ROTA_ERR_IO;
}

enum rota_code rota_zmq_open(struct rota_zmq **zmq, struct rota_error *error)
{
    return open_context(false, zmq, error);
}

enum rota_code rota_zmq_share(struct rota_zmq **zmq, struct rota_error *error)
{
    return open_context(true, zmq, error);
}

void rota_zmq_close(struct rota_zmq *zmq)
{
    if (!zmq)
        return;
    if (zmq->judge) {
        int none = 0;
        zmq_setsockopt(zmq->judge, ZMQ_LINGER, &none, sizeof none);
        zmq_close(zmq->judge);
    }
    void *context = zmq->context && zmq->is_shared ? unshare_context() : zmq->context;
    while (context && zmq_ctx_term(context) != 0 && errno == EINTR)
        ;
    free(zmq);
}

/* --- sockets --- */

static bool set_int(struct rota_zmq_socket *socket, int option, int value)
{
    return zmq_setsockopt(socket->socket, option, &value, sizeof value) == 0;
}

static bool set_key(struct rota_zmq_socket *socket, int option, const struct rota_key *key)
{
    return zmq_setsockopt(socket->socket, option, key->bytes, sizeof key->bytes) == 0;
}

static int to_ms(rota_time span)
{
    rota_time ms = span / ROTA_MSEC;
    return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

/* With a domain the library asks the authenticator, and does not fall back to versions of the
 * protocol without one: what a web page can send reads like version 1. */
static bool set_domain(struct rota_zmq_socket *socket)
{
    return zmq_setsockopt(socket->socket, ZMQ_ZAP_DOMAIN, DOMAIN, strlen(DOMAIN)) == 0 &&
           set_int(socket, ENFORCE_DOMAIN, 1);
}

static bool set_keys(struct rota_zmq_socket *socket, const struct rota_zmq_options *options)
{
    if (socket->is_router && !set_domain(socket))
        return false;
    if (!options->public_key)
        return true;
    if (!set_key(socket, ZMQ_CURVE_PUBLICKEY, options->public_key) ||
        !set_key(socket, ZMQ_CURVE_SECRETKEY, options->secret_key))
        return false;
    if (!socket->is_router)
        return set_key(socket, ZMQ_CURVE_SERVERKEY, options->broker_key);
    return set_int(socket, ZMQ_CURVE_SERVER, 1);
}

/* Longer than a socket lives after its connection. -1 would drop the messages that have arrived and
 * are not read yet when the connection ends, and so would IMMEDIATE. */
enum { NEVER_MS = 24 * 60 * 60 * 1000 };

static bool set_options(struct rota_zmq_socket *socket, const struct rota_zmq_options *options)
{
    int64_t message_max = (int64_t)options->message_max;
    bool is_well =
        zmq_setsockopt(socket->socket, ZMQ_MAXMSGSIZE, &message_max, sizeof message_max) == 0 &&
        set_int(socket, ZMQ_SNDHWM, options->high_water) &&
        set_int(socket, ZMQ_RCVHWM, options->high_water) && set_int(socket, ZMQ_LINGER, 0) &&
        set_int(socket, ZMQ_IPV6, 1) &&
        set_int(socket, ZMQ_HANDSHAKE_IVL, to_ms(options->handshake_timeout));
    if (is_well && socket->is_router)
        is_well = set_int(socket, ZMQ_ROUTER_MANDATORY, 1) &&
                  set_int(socket, ZMQ_ROUTER_HANDOVER, 1) && set_int(socket, ZMQ_BACKLOG, 1024);
    else if (is_well)
        is_well = set_int(socket, ZMQ_RECONNECT_IVL, NEVER_MS);
    return is_well && set_keys(socket, options);
}

enum {
    EVENTS = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
             ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
             ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_ACCEPTED,
};

static bool open_monitor(struct rota_zmq *zmq, struct rota_zmq_socket *socket)
{
    static atomic_uint_least64_t n_monitors; /* a name is free again only some time later */
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "inproc://monitor-%" PRIu64,
             (uint64_t)atomic_fetch_add(&n_monitors, 1));
    if (zmq_socket_monitor(socket->socket, endpoint, EVENTS) != 0)
        return false;
    socket->monitor = zmq_socket(zmq->context, ZMQ_PAIR);
    if (!socket->monitor)
        return false;
    int none = 0;
    return zmq_setsockopt(socket->monitor, ZMQ_LINGER, &none, sizeof none) == 0 &&
           zmq_connect(socket->monitor, endpoint) == 0;
}

/* A socket that speaks both calls "127.0.0.1:1" "[::ffff:127.0.0.1]:1": the same, but nothing
 * that people write. */
static void unmap_ipv4(char *endpoint)
{
    static const char MAPPED[] = "[::ffff:";
    char *begin = strstr(endpoint, MAPPED), *end = begin ? strchr(begin, ']') : NULL;
    if (!end || !memchr(begin, '.', (size_t)(end - begin)))
        return;
    char *host = begin + sizeof MAPPED - 1;
    size_t size = (size_t)(end - host);
    memmove(begin, host, size);
    memmove(begin + size, end + 1, strlen(end + 1) + 1);
}

static enum rota_code open_socket(struct rota_zmq *zmq, const struct rota_zmq_options *options,
                                  bool is_router, struct rota_zmq_socket **socket,
                                  struct rota_error *error)
{
    struct rota_zmq_socket *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for a socket");
    made->is_router = is_router;
    made->has_keys = options->public_key;
    made->socket = zmq_socket(zmq->context, is_router ? ZMQ_ROUTER : ZMQ_DEALER);
    if (!made->socket || !set_options(made, options) || !open_monitor(zmq, made))
        goto fail;
    if ((is_router ? zmq_bind : zmq_connect)(made->socket, options->endpoint) != 0)
        goto fail;
    size_t size = sizeof made->endpoint;
    if (zmq_getsockopt(made->socket, ZMQ_LAST_ENDPOINT, made->endpoint, &size) != 0)
        goto fail;
    unmap_ipv4(made->endpoint);
    *socket = made;
    return ROTA_OK;

fail:
    rota_error_set(error, ROTA_ERR_IO, "cannot %s %s: %s%s", is_router ? "listen on" : "connect to",
                   options->endpoint, zmq_strerror(errno), rota_address_help(errno));
    rota_zmq_socket_close(made, 0);
    return ROTA_ERR_IO;
}

enum rota_code rota_zmq_listen(struct rota_zmq *zmq, const struct rota_zmq_options *options,
                               struct rota_zmq_socket **socket, struct rota_error *error)
{
    return open_socket(zmq, options, true, socket, error);
}

enum rota_code rota_zmq_connect(struct rota_zmq *zmq, const struct rota_zmq_options *options,
                                struct rota_zmq_socket **socket, struct rota_error *error)
{
    return open_socket(zmq, options, false, socket, error);
}

void rota_zmq_socket_close(struct rota_zmq_socket *socket, rota_time linger)
{
    if (!socket)
        return;
    if (socket->socket) {
        set_int(socket, ZMQ_LINGER, to_ms(linger));
        zmq_socket_monitor(socket->socket, NULL, 0);
        zmq_close(socket->socket);
    }
    if (socket->monitor)
        zmq_close(socket->monitor);
    free(socket);
}

const char *rota_zmq_socket_endpoint(const struct rota_zmq_socket *socket)
{
    return socket->endpoint;
}

/* --- waiting --- */

static int fd_of(void *socket)
{
    int fd = -1;
    size_t size = sizeof fd;
    zmq_getsockopt(socket, ZMQ_FD, &fd, &size);
    return fd;
}

size_t rota_zmq_socket_fds(const struct rota_zmq_socket *socket, int fds[ROTA_ZMQ_FDS_MAX])
{
    fds[0] = fd_of(socket->socket);
    fds[1] = fd_of(socket->monitor);
    return 2;
}

int rota_zmq_judge_fd(const struct rota_zmq *zmq)
{
    return zmq->judge ? fd_of(zmq->judge) : -1;
}

/* --- messages --- */

bool rota_zmq_message_init(struct rota_zmq_message *message, size_t size)
{
    return zmq_msg_init_size(as_zmq(message), size) == 0;
}

void rota_zmq_message_deinit(struct rota_zmq_message *message)
{
    zmq_msg_close(as_zmq(message));
}

void rota_zmq_message_move(struct rota_zmq_message *to, struct rota_zmq_message *from)
{
    zmq_msg_init(as_zmq(to));
    zmq_msg_move(as_zmq(to), as_zmq(from));
}

void *rota_zmq_message_data(const struct rota_zmq_message *message)
{
    return zmq_msg_data(as_zmq(message));
}

size_t rota_zmq_message_size(const struct rota_zmq_message *message)
{
    return zmq_msg_size(as_zmq(message));
}

struct rota_str rota_zmq_message_str(const struct rota_zmq_message *message)
{
    return rota_str_of(rota_zmq_message_data(message), rota_zmq_message_size(message));
}

struct rota_str rota_zmq_message_user(const struct rota_zmq_message *message)
{
    const char *user = zmq_msg_gets(as_zmq(message), "User-Id");
    return rota_str(user ? user : "");
}

/* Receive one part; false when there is none. */
static bool receive_part(void *socket, zmq_msg_t *part)
{
    zmq_msg_init(part);
    while (zmq_msg_recv(part, socket, ZMQ_DONTWAIT) < 0)
        if (errno != EINTR) {
            zmq_msg_close(part);
            return false;
        }
    return true;
}

/* Skip the parts after `part`. */
static void skip_rest(void *socket, zmq_msg_t *part)
{
    while (zmq_msg_more(part)) {
        zmq_msg_close(part);
        if (!receive_part(socket, part))
            return; /* parts of a message arrive together */
    }
    zmq_msg_close(part);
}

enum rota_code rota_zmq_receive(struct rota_zmq_socket *socket, struct rota_zmq_route *route,
                                struct rota_zmq_message *message)
{
    zmq_msg_t *part = as_zmq(message);
    route->size = 0;
    if (socket->is_router) {
        zmq_msg_t from;
        if (!receive_part(socket->socket, &from))
            return ROTA_ERR_NOT_FOUND;
        size_t size = zmq_msg_size(&from);
        bool is_good = size <= ROTA_ZMQ_ROUTE_MAX && zmq_msg_more(&from);
        if (!is_good) {
            skip_rest(socket->socket, &from);
            return ROTA_ERR_INVALID;
        }
        route->size = (uint8_t)size;
        memcpy(route->bytes, zmq_msg_data(&from), size);
        zmq_msg_close(&from);
    }
    if (!receive_part(socket->socket, part))
        return ROTA_ERR_NOT_FOUND;
    if (!zmq_msg_more(part))
        return ROTA_OK;
    skip_rest(socket->socket, part);
    return ROTA_ERR_INVALID;
}

static enum rota_code code_of_errno(void)
{
    switch (errno) {
    case EAGAIN:
        return ROTA_ERR_LIMIT;
    case EHOSTUNREACH:
        return ROTA_ERR_NOT_FOUND;
    default:
        return ROTA_ERR_IO;
    }
}

enum rota_code rota_zmq_send(struct rota_zmq_socket *socket, struct rota_str route,
                             struct rota_zmq_message *message)
{
    if (socket->is_router)
        while (zmq_send(socket->socket, route.data, route.size, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
            if (errno != EINTR)
                return code_of_errno();
    while (zmq_msg_send(as_zmq(message), socket->socket, ZMQ_DONTWAIT) < 0)
        if (errno != EINTR)
            return code_of_errno();
    return ROTA_OK;
}

/* --- events of connections --- */

/* A broker without keys does not report them: a peer that is not let in is unknown. */
static void tell_unfinished(const struct rota_zmq_socket *socket, uint32_t value,
                            struct rota_error *why)
{
    bool has_keys = socket->has_keys || !socket->is_router;
    rota_error_set(why, ROTA_ERR_INVALID, "the peer ended the handshake%s (%s)",
                   has_keys ? ": do the keys match?" : ", or does not speak ZeroMQ",
                   zmq_strerror((int)value));
}

static enum rota_zmq_event report_socket_event(const struct rota_zmq_socket *socket, uint16_t event,
                                               uint32_t value, struct rota_error *why)
{
    bool is_router = socket->is_router;
    switch (event) {
    case ZMQ_EVENT_ACCEPTED:
        return ROTA_ZMQ_ACCEPTED;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        return ROTA_ZMQ_CONNECTED;
    case ZMQ_EVENT_DISCONNECTED:
        rota_error_set(why, ROTA_ERR_UNAVAILABLE, "the connection was closed");
        return ROTA_ZMQ_DISCONNECTED;
    case ZMQ_EVENT_CLOSED:
        rota_error_set(why, ROTA_ERR_UNAVAILABLE, "cannot connect");
        return ROTA_ZMQ_FAILED;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        rota_error_set(why, ROTA_ERR_INVALID,
                       is_router ? "the peer's key is not in our list"
                                 : "our key is not in the peer's list");
        return ROTA_ZMQ_FAILED;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        if (value == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC) {
            rota_error_set(why, ROTA_ERR_INVALID,
                           is_router ? "the peer has a different key for this broker"
                                     : "the peer's key differs from the one we have for it");
            return ROTA_ZMQ_FAILED;
        }
        rota_error_set(
            why, ROTA_ERR_INVALID,
            "the peer speaks another protocol: only one side uses keys, or it is not ZeroMQ (0x%x)",
            value);
        return ROTA_ZMQ_FAILED;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        tell_unfinished(socket, value, why);
        return ROTA_ZMQ_FAILED;
    default:
        return ROTA_ZMQ_NOTHING;
    }
}

enum rota_zmq_event rota_zmq_next_event(struct rota_zmq_socket *socket, struct rota_error *why)
{
    zmq_msg_t part;
    while (receive_part(socket->monitor, &part)) {
        uint16_t event = 0;
        uint32_t value = 0;
        if (zmq_msg_size(&part) >= sizeof event + sizeof value) {
            memcpy(&event, zmq_msg_data(&part), sizeof event);
            memcpy(&value, (char *)zmq_msg_data(&part) + sizeof event, sizeof value);
        }
        skip_rest(socket->monitor, &part);
        socket->event_fd = (int)value;
        enum rota_zmq_event told = report_socket_event(socket, event, value, why);
        if (told != ROTA_ZMQ_NOTHING)
            return told;
    }
    return ROTA_ZMQ_NOTHING;
}

int rota_zmq_event_fd(const struct rota_zmq_socket *socket)
{
    return socket->event_fd;
}

int rota_zmq_message_fd(const struct rota_zmq_message *message)
{
    return zmq_msg_get(as_zmq(message), ZMQ_SRCFD);
}

/* A descriptor of our own for the connection, or -1: the library closes it on its own thread, and
 * the number may belong to another file by now. A connection of ours has the port of the router. */
static int hold_connection(const struct rota_zmq_socket *socket, int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } own, peer;
    socklen_t own_size = sizeof own, peer_size = sizeof peer;
    const char *port = strrchr(socket->endpoint, ':');
    int held = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (held < 0)
        return -1;
    if (port && getsockname(held, &own.any, &own_size) == 0 &&
        getpeername(held, &peer.any, &peer_size) == 0) {
        in_port_t found = own.any.sa_family == AF_INET    ? own.v4.sin_port
                          : own.any.sa_family == AF_INET6 ? own.v6.sin6_port
                                                          : 0;
        if (found && ntohs(found) == strtoul(port + 1, NULL, 10))
            return held;
    }
    close(held);
    return -1;
}

uint64_t rota_zmq_received(const struct rota_zmq_socket *socket, int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    int held = hold_connection(socket, fd);
    if (held < 0)
        return 0;
    bool is_known = getsockopt(held, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
    close(held);
    return is_known ? info.tcpi_bytes_received : 0;
}

void rota_zmq_cut(const struct rota_zmq_socket *socket, int fd)
{
    int held = hold_connection(socket, fd);
    if (held < 0)
        return;
    shutdown(held, SHUT_RDWR);
    close(held);
}

/* --- the judge --- */

/* Parts of a question: version, number, domain, address, identity, mechanism, and the
 * key where the mechanism is CURVE. */
enum { PART_NUMBER = 1, PART_ADDRESS = 3, PART_MECHANISM = 5, PART_KEY = 6 };

/* See unmap_ipv4(); here it is alone. */
static struct rota_str unmapped_address(struct rota_str address)
{
    struct rota_str prefix = rota_str("::ffff:");
    bool is_mapped = address.size > prefix.size &&
                     memcmp(address.data, prefix.data, prefix.size) == 0 &&
                     memchr(address.data, '.', address.size);
    return is_mapped ? rota_str_of(address.data + prefix.size, address.size - prefix.size)
                     : address;
}

static void take_part(struct rota_zmq *zmq, struct rota_zmq_question *question, int index,
                      struct rota_str part, bool *is_curve)
{
    switch (index) {
    case PART_NUMBER:
        zmq->request_size = part.size < sizeof zmq->request ? part.size : sizeof zmq->request;
        memcpy(zmq->request, part.data, zmq->request_size);
        break;
    case PART_ADDRESS:
        part = unmapped_address(part);
        snprintf(question->address, sizeof question->address, "%.*s", ROTA_STR_ARGS(part));
        break;
    case PART_MECHANISM:
        *is_curve = rota_str_is_equal(part, rota_str("CURVE"));
        break;
    case PART_KEY:
        question->has_key = *is_curve && part.size == sizeof question->key.bytes;
        if (question->has_key)
            memcpy(question->key.bytes, part.data, part.size);
        break;
    default:
        break;
    }
}

bool rota_zmq_next_question(struct rota_zmq *zmq, struct rota_zmq_question *question)
{
    zmq_msg_t part;
    bool has_more = true, is_curve = false;
    memset(question, 0, sizeof *question);
    zmq->request_size = 0;
    if (!zmq->judge)
        return false;
    for (int i = 0; has_more; i++) {
        if (!receive_part(zmq->judge, &part))
            return false;
        has_more = zmq_msg_more(&part);
        take_part(zmq, question, i, rota_str_of(zmq_msg_data(&part), zmq_msg_size(&part)),
                  &is_curve);
        zmq_msg_close(&part);
    }
    return true;
}

void rota_zmq_answer(struct rota_zmq *zmq, bool is_let_in, struct rota_str name)
{
    const struct rota_str parts[] = {
        rota_str("1.0"),
        rota_str_of(zmq->request, zmq->request_size),
        rota_str(is_let_in ? "200" : "400"),
        rota_str(is_let_in ? "OK" : "this key is not in the list"),
        name,
        rota_str(""),
    };
    enum { N_PARTS = sizeof parts / sizeof *parts };
    for (int i = 0; i < N_PARTS;
         i++) /* the library reads the parts only when all of them are sent */
        while (zmq_send(zmq->judge, parts[i].data, parts[i].size,
                        ZMQ_DONTWAIT | (i + 1 < N_PARTS ? ZMQ_SNDMORE : 0)) < 0)
            if (errno != EINTR)
                return; /* the peer has disconnected */
}

/* --- keys --- */

bool rota_zmq_make_keys(char public_key[ROTA_KEY_TEXT_SIZE + 1],
                        char secret_key[ROTA_KEY_TEXT_SIZE + 1])
{
    return zmq_curve_keypair(public_key, secret_key) == 0;
}
