#include "io/net/listener.h"

#include "base/list.h"
#include "core/call/get/places.h"
#include "io/clock.h"
#include "io/net/stream_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ACCEPTS_PER_EVENT = 64 }; /* so that open streams get their turn */

/* A connection, from accept(2) until its file descriptor is free again. */
struct guest {
    struct rota_listener *listener;
    struct rota_stream *stream;
    struct rota_list_node link; /* while in the handshake */
    struct rota_peer_key key;
};

struct rota_listener {
    uv_poll_t poll;
    uv_timer_t pause;
    int fd;
    int n_holds; /* handles that are not closed, and guests */
    bool is_closed;
    struct rota_listener_options options;
    struct rota_listener_handler handler;
    struct rota_listener_counts counts;
    struct rota_places places;
    struct rota_list_node in_handshake; /* guests */
    char address[ROTA_ADDRESS_TEXT_MAX];
};

static void release_listener(struct rota_listener *listener)
{
    if (--listener->n_holds > 0)
        return;
    rota_places_deinit(&listener->places);
    free(listener);
}

static void on_handle_closed(uv_handle_t *handle)
{
    release_listener(handle->data);
}

static void on_poll(uv_poll_t *poll, int status, int events);

/* Accept when there is a place and no pause. */
static void resume_accepting(struct rota_listener *listener)
{
    bool is_full = listener->counts.connections >= listener->options.connections_max;
    bool is_pausing = uv_is_active((uv_handle_t *)&listener->pause);
    if (listener->is_closed)
        return;
    if (is_full || is_pausing)
        uv_poll_stop(&listener->poll);
    else if (!uv_is_active((uv_handle_t *)&listener->poll))
        uv_poll_start(&listener->poll, UV_READABLE, on_poll);
}

static void on_pause_over(uv_timer_t *timer)
{
    resume_accepting(timer->data);
}

/* --- guests --- */

static void on_guest_gone(void *data)
{
    struct guest *guest = data;
    struct rota_listener *listener = guest->listener;
    rota_list_remove(&guest->link);
    rota_places_give_back(&listener->places, rota_peer_key_str(&guest->key), ROTA_PLACE_GIVEN);
    free(guest);
    listener->counts.connections--;
    resume_accepting(listener);
    release_listener(listener);
}

static void on_guest_open(void *data)
{
    static const struct rota_stream_handler none;
    struct guest *guest = data;
    struct rota_listener *listener = guest->listener;
    rota_list_remove(&guest->link);
    rota_stream_set_handler(guest->stream, &none);
    listener->counts.accepted++;
    listener->handler.on_accept(listener->handler.data, guest->stream);
}

static void on_guest_failed(void *data, const struct rota_error *reason)
{
    struct guest *guest = data;
    struct rota_listener *listener = guest->listener;
    rota_list_remove(&guest->link);
    listener->counts.refused++;
    if (listener->handler.on_refused)
        listener->handler.on_refused(listener->handler.data, rota_stream_peer(guest->stream),
                                     reason);
}

static void receive_guest(struct rota_listener *listener, int fd, const struct sockaddr *from)
{
    struct guest *guest = calloc(1, sizeof *guest);
    struct rota_peer_key key = rota_address_peer(from);
    struct rota_error error;
    enum rota_place refused = ROTA_PLACE_OUT_OF_MEMORY;
    if (!guest || rota_places_take(&listener->places, rota_peer_key_str(&key), &refused)) {
        char peer[ROTA_ADDRESS_TEXT_MAX];
        close(fd);
        free(guest);
        listener->counts.accept_errors += refused == ROTA_PLACE_OUT_OF_MEMORY;
        if (refused == ROTA_PLACE_PEER_FULL && listener->handler.on_full)
            listener->handler.on_full(listener->handler.data, rota_address_format(from, peer),
                                      true);
        return;
    }
    guest->listener = listener;
    guest->key = key;
    rota_list_push(&listener->in_handshake, &guest->link);
    listener->n_holds++;
    listener->counts.connections++;

    const struct rota_stream_handler handler = {
        .on_open = on_guest_open,
        .on_close = on_guest_failed,
        .data = guest,
    };
    if (rota_stream_accept(listener->poll.loop, fd, listener->options.tls,
                           listener->options.open_timeout, &handler, on_guest_gone, &guest->stream,
                           &error)) {
        rota_list_remove(&guest->link);
        listener->counts.accept_errors++;
        if (listener->handler.on_refused)
            listener->handler.on_refused(listener->handler.data, "a peer", &error);
        on_guest_gone(guest);
    }
}

/* --- accepting --- */

static bool is_peers_fault(int number)
{
    return number == ECONNABORTED || number == EPROTO || number == EINTR;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct rota_listener *listener = poll->data;
    union {
        struct sockaddr_storage room;
        struct sockaddr any;
    } from;
    (void)status, (void)events;
    for (int i = 0; i < ACCEPTS_PER_EVENT && !listener->is_closed &&
                    listener->counts.connections < listener->options.connections_max;
         i++) {
        socklen_t size = sizeof from;
        int fd = accept4(listener->fd, &from.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            receive_guest(listener, fd, &from.any);
        } else if (errno == EAGAIN) {
            return;
        } else if (!is_peers_fault(errno)) {
            /* Out of file descriptors or memory: accepting again at once would only spin. */
            listener->counts.accept_errors++;
            uv_timer_start(&listener->pause, on_pause_over, ROTA_LISTENER_PAUSE / ROTA_MSEC, 0);
            break;
        }
    }
    if (!listener->is_closed && listener->handler.on_full &&
        listener->counts.connections >= listener->options.connections_max)
        listener->handler.on_full(listener->handler.data, "", false);
    resume_accepting(listener);
}

/* --- opening and closing --- */

static enum rota_code report_listen_error(const char *address, int number, struct rota_error *error)
{
    return rota_error_set(error, ROTA_ERR_IO, "cannot listen on %s: %s%s", address,
                          strerror(number), rota_address_help(number));
}

static int bind_socket(const struct sockaddr *target, socklen_t size)
{
    int on = 1;
    int fd = socket(target->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, target, size) == 0 && listen(fd, ROTA_LISTENER_BACKLOG) == 0)
        return fd;
    int number = errno;
    close(fd);
    errno = number;
    return -1;
}

/* Listen at the first address of the name where that succeeds. */
static enum rota_code bind_any(const char *text, const struct addrinfo *found,
                               const struct rota_listener_options *options, int *fd,
                               struct rota_error *error)
{
    enum rota_code code = rota_error_set(error, ROTA_ERR_NOT_FOUND, "%s has no address", text);
    for (const struct addrinfo *each = found; each; each = each->ai_next) {
        if (!options->tls &&
            (code = rota_stream_check_plain(each->ai_addr, options->insecure, error))) {
            if (options->instead)
                rota_error_set(error, code,
                               "%s: plaintext is allowed only on loopback; %s, or set insecure",
                               text, options->instead);
            continue;
        }
        *fd = bind_socket(each->ai_addr, each->ai_addrlen);
        if (*fd >= 0)
            return ROTA_OK;
        code = report_listen_error(text, errno, error);
    }
    return code;
}

static void note_address(int fd, char text[ROTA_ADDRESS_TEXT_MAX])
{
    union {
        struct sockaddr_storage room;
        struct sockaddr any;
    } bound = {.room = {0}};
    socklen_t size = sizeof bound;
    getsockname(fd, &bound.any, &size);
    rota_address_format(&bound.any, text);
}

enum rota_code rota_listener_bind(struct uv_loop_s *loop, const char *text,
                                  const struct rota_listener_options *options, int *fd,
                                  char bound[ROTA_ADDRESS_TEXT_MAX], struct rota_error *error)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct rota_address address;
    uv_getaddrinfo_t request;
    enum rota_code code = rota_address_parse(text, &address, error);
    if (code)
        return code;
    int status = uv_getaddrinfo(loop, &request, NULL, address.host, address.port_text, &hints);
    if (status)
        return rota_error_set(error, ROTA_ERR_NOT_FOUND, "cannot look up %s: %s", text,
                              rota_address_lookup_error(status));
    code = bind_any(text, request.addrinfo, options, fd, error);
    uv_freeaddrinfo(request.addrinfo);
    if (!code)
        note_address(*fd, bound);
    return code;
}

enum rota_code rota_listener_open(struct uv_loop_s *loop, const char *address,
                                  const struct rota_listener_options *options,
                                  const struct rota_listener_handler *handler,
                                  struct rota_listener **listener, struct rota_error *error)
{
    struct rota_listener *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "to listen on %s", address);
    if (options)
        made->options = *options;
    if (made->options.open_timeout <= 0)
        made->options.open_timeout = ROTA_STREAM_OPEN_TIMEOUT;
    if (made->options.connections_max == 0)
        made->options.connections_max = ROTA_LISTENER_CONNECTIONS_MAX;
    made->handler = *handler;
    rota_list_init(&made->in_handshake);
    rota_places_init(&made->places, made->options.connections_max,
                     made->options.peer_connections_max, 0,
                     (uint64_t)rota_clock_mono() ^ (uintptr_t)made);

    enum rota_code code =
        rota_listener_bind(loop, address, &made->options, &made->fd, made->address, error);
    if (code) {
        free(made);
        return code;
    }
    int status = uv_poll_init_socket(loop, &made->poll, made->fd);
    if (status) {
        code = rota_error_set(error, ROTA_ERR_IO, "cannot listen on %s: %s", address,
                              uv_strerror(status));
        close(made->fd);
        free(made);
        return code;
    }
    uv_timer_init(loop, &made->pause);
    made->poll.data = made->pause.data = made;
    made->n_holds = 2;
    resume_accepting(made);
    *listener = made;
    return ROTA_OK;
}

void rota_listener_close(struct rota_listener *listener)
{
    if (!listener || listener->is_closed)
        return;
    listener->is_closed = true;
    uv_close((uv_handle_t *)&listener->poll, on_handle_closed);
    uv_close((uv_handle_t *)&listener->pause, on_handle_closed);
    close(listener->fd);
    ROTA_LIST_EACH (guest, &listener->in_handshake, struct guest, link)
        rota_stream_close(guest->stream);
}

const char *rota_listener_address(const struct rota_listener *listener)
{
    return listener->address;
}

struct rota_listener_counts rota_listener_counts(const struct rota_listener *listener)
{
    return listener->counts;
}
