#include "io/net/http.h"

#include "base/buffer.h"
#include "base/list.h"
#include "core/call/get/places.h"
#include "io/clock.h"
#include "io/net/listener.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

struct rota_http {
    struct MHD_Daemon *daemon;
    struct rota_http_handler handler;
    size_t body_max, bodies_max;
    size_t n_bytes; /* of bodies, now */
    rota_time idle_timeout;
    struct rota_places places;
    struct rota_list_node waiting, reserved; /* connections without a whole request, oldest first */
    uv_poll_t poll;                          /* of the library's own epoll */
    uv_timer_t timer;
    unsigned n_handles; /* that are not closed */
    struct rota_list_node streams;
    char address[ROTA_ADDRESS_TEXT_MAX];
};

struct connection {
    struct rota_http *http;
    int fd;
    struct rota_peer_key peer;
    enum rota_place place;
    rota_time since;            /* it waits for a request */
    struct rota_list_node link; /* in `waiting` or `reserved`, or in none while it is served */
};

struct rota_http_request {
    struct rota_http *http;
    struct MHD_Connection *connection; /* NULL when it is closed */
    struct connection *on;             /* valid as long as that */
    enum rota_http_method method;
    struct rota_buffer body;
    struct MHD_Response *response; /* the answer, until it is sent */
    unsigned status;
    bool has_head;     /* its header fields were checked */
    bool is_too_large; /* the rest of its body is skipped */
    bool is_too_much;  /* so is this: all requests hold too many bytes */
    bool is_handed;    /* to the handler */
    bool is_suspended; /* until it is answered */
    bool is_answered;
    size_t target_size;
    char target[];
};

struct rota_http_stream {
    struct rota_http *http;
    struct MHD_Connection *connection;
    struct rota_list_node link; /* in the server's `streams` */
    struct rota_buffer bytes;
    size_t n_taken; /* of them, from the front */
    void (*on_gone)(void *data);
    void *data;
    bool is_suspended;
    bool is_closed; /* by its owner, which is no longer notified */
    bool is_cut;    /* the client is too slow */
};

static void on_timer(uv_timer_t *timer);

/* --- connections --- */

/* The library notices by the socket. */
static void end_connection(struct connection *connection)
{
    rota_list_remove(&connection->link);
    shutdown(connection->fd, SHUT_RDWR);
}

/* From now on it waits for a request. */
static void set_waiting(struct connection *connection)
{
    struct rota_http *http = connection->http;
    rota_list_remove(&connection->link);
    connection->since = rota_clock_mono();
    rota_list_push(connection->place == ROTA_PLACE_RESERVED ? &http->reserved : &http->waiting,
                   &connection->link);
}

static void end_late(struct rota_list_node *list, rota_time since)
{
    ROTA_LIST_DRAIN (oldest, list, struct connection, link) {
        if (oldest->since > since)
            return;
        end_connection(oldest);
    }
}

static const struct sockaddr *address_of(struct MHD_Connection *given)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(given, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    return info ? info->client_addr : NULL;
}

static void begin_connection(struct rota_http *http, struct MHD_Connection *given, void **context)
{
    const struct sockaddr *address = address_of(given);
    enum rota_place refused;
    char peer[ROTA_ADDRESS_TEXT_MAX] = "";
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(given, MHD_CONNECTION_INFO_CONNECTION_FD);
    int fd = info ? info->connect_fd : -1;
    struct connection *made = calloc(1, sizeof *made);
    if (!made || !address || fd < 0) {
        free(made);
        if (fd >= 0)
            shutdown(fd, SHUT_RDWR);
        return;
    }
    *made = (struct connection){.http = http, .fd = fd, .peer = rota_address_peer(address)};
    made->place = rota_places_take(&http->places, rota_peer_key_str(&made->peer), &refused);
    *context = made;
    set_waiting(made);
    if (made->place == ROTA_PLACE_GIVEN)
        return;
    if (http->handler.on_full)
        http->handler.on_full(http->handler.data,
                              refused == ROTA_PLACE_PEER_FULL ? ROTA_HTTP_BOUND_PEER
                                                              : ROTA_HTTP_BOUND_CONNECTIONS,
                              rota_address_format(address, peer));
    struct connection *oldest = ROTA_LIST_FIRST(&http->reserved, struct connection, link);
    if (rota_places_is_over_reserve(&http->places) && oldest)
        end_connection(oldest);
}

static void on_connection(void *data, struct MHD_Connection *given, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct connection *connection = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        begin_connection(data, given, context);
    } else if (connection) {
        rota_list_remove(&connection->link);
        rota_places_give_back(&connection->http->places, rota_peer_key_str(&connection->peer),
                              connection->place);
        free(connection);
        *context = NULL;
    }
}

static struct connection *connection_of(struct MHD_Connection *given)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(given, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* Only running the library shows that. */
static void resume_connection(struct rota_http *http, struct MHD_Connection *connection)
{
    MHD_resume_connection(connection);
    uv_timer_start(&http->timer, on_timer, 0, 0);
}

/* --- requests --- */

static void free_request(struct rota_http_request *request)
{
    if (request->response)
        MHD_destroy_response(request->response);
    request->http->n_bytes -= request->body.size;
    rota_buffer_deinit(&request->body);
    free(request);
}

/* The library's first callback for a request; it passes the result to later ones. */
static void *on_target(void *data, const char *target, struct MHD_Connection *connection)
{
    size_t size = strlen(target);
    if (size > ROTA_HTTP_TARGET_MAX)
        return NULL;
    struct rota_http_request *request = calloc(1, sizeof *request + size + 1);
    if (!request)
        return NULL;
    request->http = data;
    request->connection = connection;
    request->on = connection_of(connection);
    request->target_size = size;
    memcpy(request->target, target, size + 1);
    return request;
}

/* A path stays as received. */
static size_t on_unescape(void *data, struct MHD_Connection *connection, char *text)
{
    (void)data, (void)connection;
    return strlen(text);
}

static enum rota_http_method find_method(const char *name)
{
    static const struct {
        const char *name;
        enum rota_http_method method;
    } methods[] = {
        {"GET", ROTA_HTTP_GET}, {"HEAD", ROTA_HTTP_GET},      {"POST", ROTA_HTTP_POST},
        {"PUT", ROTA_HTTP_PUT}, {"DELETE", ROTA_HTTP_DELETE},
    };
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (strcmp(name, methods[i].name) == 0)
            return methods[i].method;
    return ROTA_HTTP_OTHER;
}

/* Refuse a request that the handler does not see. */
static enum MHD_Result refuse_request(struct MHD_Connection *connection, unsigned status, char *why)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(why), why, MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    enum MHD_Result result = MHD_add_response_header(response, "Content-Type", "text/plain");
    if (result && (status == MHD_HTTP_SERVICE_UNAVAILABLE || status == MHD_HTTP_BAD_REQUEST))
        result = MHD_add_response_header(response, "Connection", "close");
    if (result)
        result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

/* A request with two lengths may be one request to us and two to a proxy. */
static bool has_two_lengths(struct MHD_Connection *connection)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Transfer-Encoding") &&
           MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
}

static enum MHD_Result look_at_head(struct rota_http_request *request, const char *method)
{
    static char two_lengths[] = "a request has Content-Length or Transfer-Encoding, not both\n";
    request->has_head = true;
    request->method = find_method(method);
    return has_two_lengths(request->connection)
               ? refuse_request(request->connection, MHD_HTTP_BAD_REQUEST, two_lengths)
               : MHD_YES;
}

static void take_body(struct rota_http_request *request, const char *bytes, size_t size)
{
    struct rota_http *http = request->http;
    if (request->is_too_large || request->is_too_much)
        return;
    request->is_too_large = size > http->body_max - request->body.size;
    request->is_too_much = size > http->bodies_max - http->n_bytes;
    if (request->is_too_much && http->handler.on_full)
        http->handler.on_full(http->handler.data, ROTA_HTTP_BOUND_BODIES, "");
    if (request->is_too_large || request->is_too_much)
        return;
    rota_buffer_append(&request->body, bytes, size);
    request->is_too_large = request->body.failed;
    if (!request->body.failed)
        http->n_bytes += size;
}

/* On a connection in reserve only urgent requests, and nothing after them. */
static bool may_be_served(const struct rota_http_request *request)
{
    const struct rota_http *http = request->http;
    return !request->on || request->on->place == ROTA_PLACE_GIVEN ||
           (http->handler.is_urgent &&
            http->handler.is_urgent(http->handler.data, rota_http_target(request)));
}

static enum MHD_Result send_answer(struct rota_http_request *request)
{
    if (request->on && request->on->place == ROTA_PLACE_RESERVED)
        MHD_add_response_header(request->response, "Connection", "close");
    enum MHD_Result result =
        MHD_queue_response(request->connection, request->status, request->response);
    MHD_destroy_response(request->response);
    request->response = NULL;
    return result;
}

static enum MHD_Result on_access(void *data, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *bytes,
                                 size_t *n_bytes, void **given)
{
    static char too_long[] = "the path is too long\n";
    static char too_large[] = "the body is too large\n";
    static char too_much[] = "the node holds too many bytes of requests; try again later\n";
    static char full[] =
        "the connection limit of the node or of this peer is reached; try again later\n";
    (void)data, (void)url, (void)version;
    struct rota_http_request *request = *given;
    if (!request)
        return refuse_request(connection, MHD_HTTP_URI_TOO_LONG, too_long);
    if (!request->has_head && !may_be_served(request))
        return refuse_request(connection, MHD_HTTP_SERVICE_UNAVAILABLE, full);
    if (!request->has_head)
        return look_at_head(request, method);
    if (*n_bytes > 0) {
        take_body(request, bytes, *n_bytes);
        *n_bytes = 0;
        return MHD_YES;
    }
    if (request->is_too_large)
        return refuse_request(connection, MHD_HTTP_CONTENT_TOO_LARGE, too_large);
    if (request->is_too_much)
        return refuse_request(connection, MHD_HTTP_SERVICE_UNAVAILABLE, too_much);
    if (!request->is_handed) {
        request->is_handed = true;
        if (request->on)
            rota_list_remove(&request->on->link);
        request->http->handler.on_request(request->http->handler.data, request);
    }
    if (request->is_answered)
        return request->response ? send_answer(request) : MHD_NO;
    MHD_suspend_connection(connection);
    request->is_suspended = true;
    return MHD_YES;
}

/* The library is done with it: it was answered, or its client has disconnected. */
static void on_completed(void *data, struct MHD_Connection *connection, void **given,
                         enum MHD_RequestTerminationCode code)
{
    (void)data, (void)connection, (void)code;
    struct rota_http_request *request = *given;
    if (!request)
        return;
    *given = NULL;
    if (request->on && request->is_handed)
        set_waiting(request->on);
    request->connection = NULL;
    request->on = NULL;
    if (request->is_answered || !request->is_handed)
        free_request(request);
}

enum rota_http_method rota_http_method(const struct rota_http_request *request)
{
    return request->method;
}

struct rota_str rota_http_target(const struct rota_http_request *request)
{
    return rota_str_of(request->target, request->target_size);
}

struct rota_str rota_http_body(const struct rota_http_request *request)
{
    return rota_buffer_str(&request->body);
}

struct rota_str rota_http_field(const struct rota_http_request *request, const char *name)
{
    const char *value = request->connection ? MHD_lookup_connection_value(request->connection,
                                                                          MHD_HEADER_KIND, name)
                                            : NULL;
    return rota_str_of(value, value ? strlen(value) : 0);
}

char *rota_http_peer(const struct rota_http_request *request, char text[ROTA_ADDRESS_TEXT_MAX])
{
    const struct sockaddr *address = request->connection ? address_of(request->connection) : NULL;
    if (address)
        return rota_address_format(address, text);
    snprintf(text, ROTA_ADDRESS_TEXT_MAX, "unknown");
    return text;
}

/* --- answers --- */

/* `response` NULL: there was no memory for it, and the connection is closed. */
static void answer_request(struct rota_http_request *request, unsigned status,
                           const struct rota_http_field *fields, size_t n_fields,
                           struct MHD_Response *response)
{
    for (size_t i = 0; response && i < n_fields; i++)
        if (!MHD_add_response_header(response, fields[i].name, fields[i].value)) {
            MHD_destroy_response(response);
            response = NULL;
        }
    request->is_answered = true;
    request->status = status;
    request->response = response;
    if (!request->connection)
        free_request(request);
    else if (request->is_suspended)
        resume_connection(request->http, request->connection);
}

void rota_http_answer(struct rota_http_request *request, unsigned status,
                      const struct rota_http_field *fields, size_t n_fields, struct rota_str body)
{
    answer_request(request, status, fields, n_fields,
                   MHD_create_response_from_buffer(body.size, (void *)(uintptr_t)body.data,
                                                   MHD_RESPMEM_MUST_COPY));
}

void rota_http_answer_static(struct rota_http_request *request, unsigned status,
                             const struct rota_http_field *fields, size_t n_fields,
                             struct rota_str body)
{
    answer_request(request, status, fields, n_fields,
                   MHD_create_response_from_buffer(body.size, (void *)(uintptr_t)body.data,
                                                   MHD_RESPMEM_PERSISTENT));
}

/* --- streams --- */

static ssize_t on_wanted(void *data, uint64_t position, char *bytes, size_t size)
{
    (void)position;
    struct rota_http_stream *stream = data;
    size_t n = stream->bytes.size - stream->n_taken;
    if (stream->is_cut)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (n > 0) {
        if (n > size)
            n = size;
        memcpy(bytes, stream->bytes.data + stream->n_taken, n);
        stream->n_taken += n;
        if (stream->n_taken == stream->bytes.size)
            stream->bytes.size = stream->n_taken = 0;
        return (ssize_t)n;
    }
    if (stream->is_closed)
        return MHD_CONTENT_READER_END_OF_STREAM;
    MHD_suspend_connection(stream->connection);
    stream->is_suspended = true;
    return 0;
}

static void on_ended(void *data)
{
    struct rota_http_stream *stream = data;
    rota_list_remove(&stream->link);
    if (!stream->is_closed)
        stream->on_gone(stream->data);
    rota_buffer_deinit(&stream->bytes);
    free(stream);
}

static void wake_stream(struct rota_http_stream *stream)
{
    if (!stream->is_suspended)
        return;
    stream->is_suspended = false;
    resume_connection(stream->http, stream->connection);
}

struct rota_http_stream *rota_http_answer_stream(struct rota_http_request *request, unsigned status,
                                                 const struct rota_http_field *fields,
                                                 size_t n_fields, void (*on_gone)(void *data),
                                                 void *data)
{
    enum { CHUNK = 16 << 10 };
    struct rota_http_stream *stream = request->connection ? calloc(1, sizeof *stream) : NULL;
    struct MHD_Response *response =
        stream ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, CHUNK, on_wanted, stream,
                                                   on_ended)
               : NULL;
    if (!response) {
        free(stream);
        answer_request(request, status, NULL, 0, NULL);
        return NULL;
    }
    *stream = (struct rota_http_stream){
        .http = request->http,
        .connection = request->connection,
        .on_gone = on_gone,
        .data = data,
    };
    rota_list_push(&request->http->streams, &stream->link);
    /* Until the library has taken it, it ends without a notification. */
    stream->is_closed = true;
    answer_request(request, status, fields, n_fields, response);
    if (!request->response)
        return NULL; /* it was freed with the response */
    stream->is_closed = false;
    return stream;
}

/* What was taken makes room once it is the larger part. */
static bool append_to_stream(struct rota_http_stream *stream, struct rota_str bytes)
{
    size_t n_left = stream->bytes.size - stream->n_taken;
    if (stream->n_taken > n_left) {
        memmove(stream->bytes.data, stream->bytes.data + stream->n_taken, n_left);
        stream->bytes.size = n_left;
        stream->n_taken = 0;
    }
    if (bytes.size > ROTA_HTTP_STREAM_MAX - n_left)
        return false;
    rota_buffer_append_str(&stream->bytes, bytes);
    return !stream->bytes.failed;
}

/* The library waits for a client that does not read; it finds out by the socket. */
static void cut_stream(struct rota_http_stream *stream)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(stream->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    stream->is_cut = true;
    if (info)
        shutdown(info->connect_fd, SHUT_RDWR);
}

void rota_http_stream_send(struct rota_http_stream *stream, struct rota_str bytes)
{
    if (!stream->is_cut && !append_to_stream(stream, bytes))
        cut_stream(stream);
    wake_stream(stream);
}

void rota_http_stream_close(struct rota_http_stream *stream)
{
    stream->is_closed = true;
    wake_stream(stream);
}

/* --- the server --- */

/* The library names a timeout only for connections that it has. After accept() has failed for lack
 * of file descriptors it accepts again with the next run, but asks for none: so the timer always
 * runs. */
static void run_library(struct rota_http *http)
{
    enum { LAST_RESORT_MS = 1000 };
    MHD_UNSIGNED_LONG_LONG wait;
    rota_time now = rota_clock_mono();
    end_late(&http->waiting, now - http->idle_timeout);
    end_late(&http->reserved, now - ROTA_HTTP_RESERVE_TIME);
    MHD_run(http->daemon);
    uv_update_time(http->timer.loop);
    if (!MHD_get_timeout(http->daemon, &wait) || wait > LAST_RESORT_MS)
        wait = LAST_RESORT_MS;
    uv_timer_start(&http->timer, on_timer, wait, 0);
}

static void on_timer(uv_timer_t *timer)
{
    run_library(timer->data);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    run_library(poll->data);
}

/* The socket is the library's when this succeeds. */
static struct MHD_Daemon *start_library(struct rota_http *http, int fd)
{
    /* Connections that were closed to make room still exist for a short time. */
    unsigned n_max = http->places.max + 4 * ROTA_HTTP_RESERVE;
    return MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_access,
                            http, MHD_OPTION_LISTEN_SOCKET, fd,                           /* */
                            MHD_OPTION_URI_LOG_CALLBACK, on_target, http,                 /* */
                            MHD_OPTION_UNESCAPE_CALLBACK, on_unescape, NULL,              /* */
                            MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,              /* */
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,            /* */
                            MHD_OPTION_CONNECTION_LIMIT, n_max,                           /* */
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)ROTA_HTTP_MEMORY, /* */
                            MHD_OPTION_CONNECTION_TIMEOUT,
                            (unsigned)(ROTA_HTTP_SILENCE / ROTA_SEC), /* */
                            MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
}

static void on_closed(uv_handle_t *handle)
{
    struct rota_http *http = handle->data;
    if (--http->n_handles > 0)
        return;
    rota_places_deinit(&http->places);
    free(http);
}

enum rota_code rota_http_open(struct uv_loop_s *loop, const char *address,
                              const struct rota_http_options *options,
                              const struct rota_http_handler *handler, struct rota_http **http,
                              struct rota_error *error)
{
    static const struct rota_http_options defaults;
    int fd;
    if (!options)
        options = &defaults;
    struct rota_http *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "to serve HTTP on %s", address);
    made->handler = *handler;
    made->body_max = options->body_max ? options->body_max : ROTA_HTTP_BODY_MAX;
    made->bodies_max = options->bodies_max ? options->bodies_max : ROTA_HTTP_BODIES_MAX;
    made->idle_timeout = options->idle_timeout ? options->idle_timeout : ROTA_HTTP_IDLE;
    rota_list_init(&made->streams);
    rota_list_init(&made->waiting);
    rota_list_init(&made->reserved);
    rota_places_init(&made->places,
                     options->connections_max ? options->connections_max
                                              : ROTA_HTTP_CONNECTIONS_MAX,
                     options->peer_connections_max, ROTA_HTTP_RESERVE,
                     (uint64_t)rota_clock_mono() ^ (uintptr_t)made);
    const struct rota_listener_options plain = {
        .insecure = options->insecure,
        .instead = "listen on loopback and put a TLS proxy in front"};
    enum rota_code code = rota_listener_bind(loop, address, &plain, &fd, made->address, error);
    if (code) {
        free(made);
        return code;
    }
    made->daemon = start_library(made, fd);
    if (!made->daemon) {
        close(fd);
        free(made);
        return rota_error_set(error, ROTA_ERR_IO, "cannot serve HTTP on %s: libmicrohttpd failed",
                              address);
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(made->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    int status = uv_poll_init(loop, &made->poll, info->epoll_fd);
    if (status) {
        MHD_stop_daemon(made->daemon);
        free(made);
        return rota_error_set(error, ROTA_ERR_IO, "cannot serve HTTP on %s: %s", address,
                              uv_strerror(status));
    }
    uv_timer_init(loop, &made->timer);
    made->poll.data = made->timer.data = made;
    made->n_handles = 2;
    uv_poll_start(&made->poll, UV_READABLE, on_poll);
    uv_timer_start(&made->timer, on_timer, 0, 0);
    *http = made;
    return ROTA_OK;
}

void rota_http_close(struct rota_http *http)
{
    if (!http)
        return;
    ROTA_LIST_EACH (stream, &http->streams, struct rota_http_stream, link)
        wake_stream(stream);
    uv_close((uv_handle_t *)&http->poll, on_closed);
    uv_close((uv_handle_t *)&http->timer, on_closed);
    MHD_stop_daemon(http->daemon);
}

const char *rota_http_address(const struct rota_http *http)
{
    return http->address;
}
