#include <rota/server.h>

#include "base/heap.h"
#include "base/map.h"
#include "base/metrics.h"
#include "io/clock.h"
#include "io/listener.h"
#include "run/link.h"
#include "wire/call_notes.h"

#include <assert.h>
#include <stdlib.h>
#include <uv.h>

/* A call is two things' at once: the session's, until its stream is gone, and
 * the handler's, until it has finished it. */
struct rota_server_call {
    struct rota_http2_call h2;  /* first, so that one is the other */
    struct rota_heap_node node; /* waits for its deadline */
    struct rota_server *server;
    struct connection *connection;
    const struct rota_server_method *method;
    struct rota_server_call *next; /* at rest */
    void *data;
    struct rota_cost cost;
    bool is_in_session, is_with_handler, is_admitted, is_cancelled, has_cost;
};

struct connection {
    struct rota_server *server;
    struct rota_link *link; /* NULL once it is gone */
    struct connection *next, *previous;
    size_t n_calls; /* that name it */
    bool is_freed;
};

struct counters {
    struct rota_counter *calls, *cancelled, *refused_method, *refused_calls;
    struct rota_counter *faults[ROTA_HTTP2_FAULTS];
    struct rota_gauge *connections, *under_way;
};

struct rota_server {
    struct rota_server_options options;
    struct rota_metrics *metrics; /* our own, when none was given */
    struct counters counters;
    struct uv_loop_s *loop;
    struct rota_listener *listeners[ROTA_SERVER_LISTENERS_MAX];
    size_t n_listeners;
    struct rota_map methods;
    const struct rota_server_method *last_method; /* most calls are like the one before */
    struct rota_str last_path;
    uv_timer_t timer;
    rota_time timer_at;
    struct rota_heap deadlines;
    uint64_t n_started;
    struct connection *connections;
    size_t n_connections, n_calls, n_at_rest;
    struct rota_server_call *at_rest;
    struct rota_server_counts counts;
    size_t n_references; /* the timer, connections, calls that are in use */

    void (*on_drained)(void *data, size_t n_cut);
    void *drain_data;
    rota_time drain_until;
    size_t n_cut;
    bool is_draining, is_closed;
};

/* --- life --- */

static void unref(struct rota_server *server)
{
    if (--server->n_references > 0)
        return;
    for (struct rota_server_call *call; (call = server->at_rest);) {
        server->at_rest = call->next;
        rota_http2_call_deinit(&call->h2);
        free(call);
    }
    const struct rota_map_entry *entry;
    size_t place = 0;
    while ((entry = rota_map_next(&server->methods, &place)))
        free(entry->value);
    rota_map_deinit(&server->methods);
    rota_heap_deinit(&server->deadlines);
    rota_metrics_free(server->metrics);
    free(server);
}

static void on_timer_closed(uv_handle_t *handle)
{
    unref(handle->data);
}

static struct rota_counter *counter(struct rota_metrics *metrics, const char *name,
                                    const char *help, const char *label, const char *value)
{
    struct rota_label pair = {label, rota_str(value)};
    return rota_metrics_counter(metrics, name, help, &pair, 1);
}

static void make_counters(struct counters *c, struct rota_metrics *metrics)
{
    static const char refused[] = "rota_server_refused_total";
    static const char refused_help[] = "Calls refused before a handler saw them, by reason.";
    c->calls = rota_metrics_counter(metrics, "rota_server_calls_total",
                                    "Calls that were given to a handler.", NULL, 0);
    c->cancelled = rota_metrics_counter(metrics, "rota_server_cancelled_total",
                                        "Calls whose answer was not wanted any more.", NULL, 0);
    c->refused_method = counter(metrics, refused, refused_help, "reason", "method");
    c->refused_calls = counter(metrics, refused, refused_help, "reason", "calls");
    for (int i = 0; i < ROTA_HTTP2_FAULTS; i++)
        c->faults[i] = counter(metrics, "rota_server_faults_total",
                               "Connections ended because of what the peer did, by fault.", "fault",
                               rota_http2_fault_name((enum rota_http2_fault)i));
    c->connections =
        rota_metrics_gauge(metrics, "rota_server_connections", "Connections now.", NULL, 0);
    c->under_way =
        rota_metrics_gauge(metrics, "rota_server_calls", "Calls with a handler now.", NULL, 0);
}

enum rota_code rota_server_open(struct uv_loop_s *loop, const struct rota_server_options *options,
                                struct rota_server **result, struct rota_error *error)
{
    struct rota_server *server = calloc(1, sizeof *server);
    if (!server)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "server");
    if (options)
        server->options = *options;
    struct rota_metrics *metrics = server->options.metrics;
    if (!metrics)
        metrics = server->metrics = rota_metrics_new(1);
    if (!metrics) {
        free(server);
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "server");
    }
    make_counters(&server->counters, metrics);
    if (server->options.calls_max == 0)
        server->options.calls_max = ROTA_SERVER_CALLS_MAX;
    if (server->options.connections_max == 0)
        server->options.connections_max = ROTA_SERVER_CONNECTIONS_MAX;
    if (server->options.keepalive_interval == 0)
        server->options.keepalive_interval = 2 * ROTA_HOUR;
    rota_map_init(&server->methods, (uint64_t)rota_clock_mono() ^ (uintptr_t)server);
    server->loop = loop;
    server->timer_at = server->drain_until = ROTA_TIME_NEVER;
    uv_timer_init(loop, &server->timer);
    server->timer.data = server;
    server->n_references = 1;
    *result = server;
    return ROTA_OK;
}

enum rota_code rota_server_add(struct rota_server *server, const struct rota_server_method *method,
                               struct rota_error *error)
{
    if (rota_map_get(&server->methods, rota_str(method->path)))
        return rota_error_set(error, ROTA_ERR_INVALID, "server: method %s is served already",
                              method->path);
    if (server->methods.size >= ROTA_SERVER_METHODS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "server: more than %d methods",
                              ROTA_SERVER_METHODS_MAX);
    size_t size = strlen(method->path) + 1;
    struct rota_server_method *copy = malloc(sizeof *copy + size);
    if (!copy)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "server: method %s", method->path);
    *copy = *method;
    copy->path = memcpy(copy + 1, method->path, size);
    if (!rota_map_put(&server->methods, rota_str(copy->path), copy)) {
        free(copy);
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "server: method %s", method->path);
    }
    return ROTA_OK;
}

bool rota_server_has_service(const struct rota_server *server, struct rota_str service)
{
    const struct rota_map_entry *entry;
    size_t place = 0;
    while ((entry = rota_map_next(&server->methods, &place))) {
        struct rota_str path = entry->key;
        if (path.size > service.size + 1 && path.data[service.size + 1] == '/' &&
            memcmp(path.data + 1, service.data, service.size) == 0)
            return true;
    }
    return false;
}

/* --- the memory of calls and connections --- */

static void connection_free(struct connection *connection)
{
    struct rota_server *server = connection->server;
    if (!connection->is_freed || connection->n_calls > 0)
        return;
    free(connection);
    unref(server);
}

static struct rota_server_call *call_new(struct rota_server *server)
{
    struct rota_server_call *call = server->at_rest;
    if (call) {
        server->at_rest = call->next;
        server->n_at_rest--;
    } else {
        call = calloc(1, sizeof *call);
        if (!call)
            return NULL;
        rota_http2_call_init(&call->h2);
        call->server = server;
    }
    server->n_references++;
    return call;
}

/* Free a call that neither the session nor a handler has. */
static void call_free(struct rota_server_call *call)
{
    struct rota_server *server = call->server;
    struct connection *connection = call->connection;
    if (call->is_in_session || call->is_with_handler)
        return;
    rota_heap_remove(&server->deadlines, &call->node);
    if (server->n_at_rest < ROTA_SERVER_CALLS_KEPT_MAX) {
        rota_http2_call_reset(&call->h2);
        call->next = server->at_rest;
        server->at_rest = call;
        server->n_at_rest++;
    } else {
        rota_http2_call_deinit(&call->h2);
        free(call);
    }
    connection->n_calls--;
    connection_free(connection);
    unref(server);
}

/* --- deadlines --- */

static void on_timer(uv_timer_t *timer);

static void arm(struct rota_server *server, rota_time at)
{
    if (at >= server->timer_at || server->is_closed)
        return;
    rota_time now = rota_clock_mono();
    server->timer_at = at;
    uv_timer_start(&server->timer, on_timer, at > now ? (uint64_t)((at - now) / ROTA_MSEC + 1) : 0,
                   0);
}

static void cancel(struct rota_server_call *call)
{
    struct rota_server *server = call->server;
    if (call->is_cancelled || !call->is_with_handler)
        return;
    call->is_cancelled = true;
    rota_heap_remove(&server->deadlines, &call->node);
    server->counts.cancelled_total++;
    rota_counter_add(server->counters.cancelled, 1);
    if (call->method->on_cancel)
        call->method->on_cancel(call->method->data, call);
}

static void touch(struct rota_server_call *call)
{
    if (call->connection->link)
        rota_link_touch(call->connection->link);
}

static void expire(struct rota_server_call *call)
{
    rota_heap_remove(&call->server->deadlines, &call->node);
    rota_http2_finish(&call->h2, ROTA_STATUS_DEADLINE_EXCEEDED, rota_str("the deadline has passed"),
                      NULL, 0);
    touch(call);
    cancel(call);
}

/* --- what a session says of its calls --- */

static struct rota_http2_call *on_accept(void *data)
{
    struct connection *connection = data;
    struct rota_server_call *call = call_new(connection->server);
    if (!call)
        return NULL;
    call->connection = connection;
    call->method = NULL;
    call->data = NULL;
    call->is_in_session = true;
    call->is_with_handler = call->is_admitted = call->is_cancelled = call->has_cost = false;
    connection->n_calls++;
    return &call->h2;
}

static const struct rota_server_method *find_method(struct rota_server *server,
                                                    struct rota_str path)
{
    if (server->last_method && rota_str_is_equal(path, server->last_path))
        return server->last_method;
    const struct rota_server_method *method = rota_map_get(&server->methods, path);
    if (method) {
        server->last_method = method;
        server->last_path = rota_str(method->path);
    }
    return method;
}

static void hand_over(struct rota_server_call *call)
{
    struct rota_server *server = call->server;
    call->is_with_handler = true;
    server->counts.calls_total++;
    rota_counter_add(server->counters.calls, 1);
    call->method->on_call(call->method->data, call);
}

static void on_head(void *data, struct rota_http2_call *h2)
{
    struct connection *connection = data;
    struct rota_server *server = connection->server;
    struct rota_server_call *call = (struct rota_server_call *)h2;
    if (server->is_closed) {
        rota_http2_finish(h2, ROTA_STATUS_UNAVAILABLE, rota_str("the server is closed"), NULL, 0);
        return;
    }
    call->method = find_method(server, rota_buffer_str(&h2->head.path));
    if (!call->method) {
        server->counts.refused_total++;
        rota_counter_add(server->counters.refused_method, 1);
        rota_http2_finish(h2, ROTA_STATUS_UNIMPLEMENTED, rota_str("no such method here"), NULL, 0);
        return;
    }
    if (server->n_calls >= server->options.calls_max) {
        server->counts.refused_total++;
        rota_counter_add(server->counters.refused_calls, 1);
        rota_http2_finish(h2, ROTA_STATUS_RESOURCE_EXHAUSTED,
                          rota_str("the server has too many calls under way"), NULL, 0);
        return;
    }
    call->is_admitted = true;
    server->n_calls++;
    rota_gauge_add(server->counters.under_way, 1);
    if (h2->head.timeout != ROTA_TIME_NEVER) {
        call->node.at = rota_time_add(rota_clock_mono(), h2->head.timeout);
        call->node.order = server->n_started++;
        if (rota_heap_push(&server->deadlines, &call->node))
            arm(server, call->node.at);
    }
    if (call->method->on_message) {
        rota_http2_expect_stream(h2);
        hand_over(call);
    }
}

static void on_request(void *data, struct rota_http2_call *h2)
{
    struct connection *connection = data;
    struct rota_server *server = connection->server;
    struct rota_server_call *call = (struct rota_server_call *)h2;
    if (!call->method->on_message) {
        if (server->is_closed)
            rota_http2_cancel(h2);
        else
            hand_over(call);
    } else if (!server->is_closed) {
        call->method->on_requests_end(call->method->data, call);
    }
}

static void on_message(void *data, struct rota_http2_call *h2, struct rota_str message)
{
    struct rota_server_call *call = (struct rota_server_call *)h2;
    (void)data;
    if (!call->server->is_closed)
        call->method->on_message(call->method->data, call, message);
}

static void on_end(void *data, struct rota_http2_call *h2, const struct rota_http2_result *result)
{
    (void)data;
    (void)result;
    cancel((struct rota_server_call *)h2);
}

static void on_room(void *data, struct rota_http2_call *h2)
{
    struct rota_server_call *call = (struct rota_server_call *)h2;
    (void)data;
    if (call->is_with_handler && call->method->on_room)
        call->method->on_room(call->method->data, call);
}

static void leave_admission(struct rota_server_call *call)
{
    if (!call->is_admitted)
        return;
    call->is_admitted = false;
    call->server->n_calls--;
    rota_gauge_add(call->server->counters.under_way, -1);
}

static void on_release(void *data, struct rota_http2_call *h2)
{
    struct rota_server_call *call = (struct rota_server_call *)h2;
    (void)data;
    call->is_in_session = false;
    if (!call->is_with_handler) /* it never got there, or is through */
        leave_admission(call);
    call_free(call);
}

/* --- connections --- */

static void check_drained(struct rota_server *server)
{
    if (!server->is_draining || server->is_closed || server->n_connections > 0)
        return;
    server->is_draining = false;
    server->drain_until = ROTA_TIME_NEVER;
    if (server->on_drained)
        server->on_drained(server->drain_data, server->n_cut);
}

static void connection_gone(struct connection *connection)
{
    struct rota_server *server = connection->server;
    if (!connection->link)
        return;
    connection->link = NULL;
    *(connection->previous ? &connection->previous->next : &server->connections) = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    server->n_connections--;
    rota_gauge_set(server->counters.connections, (int64_t)server->n_connections);
}

static void on_gone(void *data, const struct rota_error *reason, enum rota_http2_fault fault)
{
    struct connection *connection = data;
    struct rota_server *server = connection->server;
    (void)reason;
    if (fault) {
        server->counts.faults_total++;
        rota_counter_add(server->counters.faults[fault], 1);
    }
    connection_gone(connection);
}

static void on_freed(void *data)
{
    struct connection *connection = data;
    struct rota_server *server = connection->server;
    check_drained(server);
    connection->is_freed = true;
    connection_free(connection);
}

static void on_stream(void *data, struct rota_stream *stream)
{
    struct rota_server *server = data;
    struct connection *connection = calloc(1, sizeof *connection);
    struct rota_http2_options options = {
        .is_server = true,
        .message_max = server->options.message_max,
        .streams_max = server->options.connection_calls_max,
        .keepalive_interval = server->options.keepalive_interval,
        .keepalive_timeout = server->options.keepalive_timeout,
    };
    struct rota_http2_handler calls = {
        .on_accept = on_accept,
        .on_head = on_head,
        .on_request = on_request,
        .on_message = on_message,
        .on_end = on_end,
        .on_room = on_room,
        .on_release = on_release,
        .data = connection,
    };
    struct rota_link_handler handler = {
        .on_gone = on_gone, .on_freed = on_freed, .data = connection};
    if (!connection ||
        rota_link_new(server->loop, &options, &calls, &handler, &connection->link, NULL)) {
        free(connection);
        rota_stream_close(stream);
        return;
    }
    connection->server = server;
    connection->next = server->connections;
    if (connection->next)
        connection->next->previous = connection;
    server->connections = connection;
    server->n_connections++;
    server->n_references++;
    rota_gauge_set(server->counters.connections, (int64_t)server->n_connections);
    rota_link_accept(connection->link, stream);
}

enum rota_code rota_server_listen(struct rota_server *server, const char *address,
                                  struct rota_error *error)
{
    if (server->n_listeners == ROTA_SERVER_LISTENERS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "server: more than %d addresses",
                              ROTA_SERVER_LISTENERS_MAX);
    struct rota_listener_options options = {
        .tls = server->options.tls,
        .connections_max = server->options.connections_max,
        .insecure = server->options.insecure,
    };
    struct rota_listener_handler handler = {.on_accept = on_stream, .data = server};
    enum rota_code code = rota_listener_open(server->loop, address, &options, &handler,
                                             &server->listeners[server->n_listeners], error);
    if (code == ROTA_OK)
        server->n_listeners++;
    return code;
}

const char *rota_server_address(const struct rota_server *server, size_t index)
{
    return index < server->n_listeners && server->listeners[index]
               ? rota_listener_address(server->listeners[index])
               : NULL;
}

/* --- the end --- */

static void close_listeners(struct rota_server *server)
{
    for (size_t i = 0; i < server->n_listeners; i++) {
        rota_listener_close(server->listeners[i]);
        server->listeners[i] = NULL;
    }
}

static void close_connections(struct rota_server *server, const char *reason)
{
    struct connection *connection;
    while ((connection = server->connections)) {
        struct rota_link *link = connection->link;
        server->n_cut += rota_http2_n_calls(rota_link_session(link));
        connection_gone(connection);
        rota_link_close(link, reason);
    }
}

void rota_server_drain(struct rota_server *server, rota_time timeout,
                       void (*on_drained)(void *data, size_t n_cut), void *data)
{
    if (server->is_draining || server->is_closed)
        return;
    server->is_draining = true;
    server->on_drained = on_drained;
    server->drain_data = data;
    server->drain_until = rota_time_add(rota_clock_mono(), timeout);
    server->n_cut = 0;
    close_listeners(server);
    for (struct connection *c = server->connections; c; c = c->next) {
        rota_http2_drain(rota_link_session(c->link));
        rota_link_touch(c->link);
    }
    arm(server, server->n_connections > 0 ? server->drain_until : 0);
}

void rota_server_close(struct rota_server *server)
{
    if (!server)
        return;
    server->is_closed = true;
    close_listeners(server);
    close_connections(server, "the server is closed");
    uv_close((uv_handle_t *)&server->timer, on_timer_closed);
}

static void on_timer(uv_timer_t *timer)
{
    struct rota_server *server = timer->data;
    struct rota_heap_node *node;
    rota_time now = rota_clock_mono();
    rota_link_enter();
    server->timer_at = ROTA_TIME_NEVER;
    while (!server->is_closed && (node = rota_heap_first(&server->deadlines)) && node->at <= now)
        expire((struct rota_server_call *)((char *)node - offsetof(struct rota_server_call, node)));
    if (!server->is_closed && now >= server->drain_until)
        close_connections(server, "the server is shutting down");
    if (server->is_draining && server->n_connections == 0)
        check_drained(server);
    if ((node = rota_heap_first(&server->deadlines)))
        arm(server, node->at);
    arm(server, server->drain_until);
    rota_link_leave();
}

struct rota_server_counts rota_server_counts(const struct rota_server *server)
{
    struct rota_server_counts counts = server->counts;
    counts.connections = server->n_connections;
    counts.calls = server->n_calls;
    return counts;
}

/* --- a call, for its handler --- */

struct rota_str rota_server_call_request(const struct rota_server_call *call)
{
    return rota_buffer_str(&call->h2.decoder.message);
}

const struct rota_metadata *rota_server_call_metadata(struct rota_server_call *call, size_t *n)
{
    return rota_grpc_fields_pairs(&call->h2.head.metadata, n);
}

rota_time rota_server_call_time_left(const struct rota_server_call *call)
{
    if (call->h2.head.timeout == ROTA_TIME_NEVER)
        return ROTA_TIME_NEVER;
    rota_time now = rota_clock_mono();
    return call->node.at > now ? call->node.at - now : 0;
}

bool rota_server_call_is_cancelled(const struct rota_server_call *call)
{
    return call->is_cancelled;
}

void rota_server_call_set_data(struct rota_server_call *call, void *data)
{
    call->data = data;
}

void *rota_server_call_data(const struct rota_server_call *call)
{
    return call->data;
}

enum rota_code rota_server_call_head(struct rota_server_call *call,
                                     const struct rota_metadata *metadata, size_t n,
                                     struct rota_error *error)
{
    return rota_http2_reply_head(&call->h2, metadata, n, error);
}

enum rota_code rota_server_call_send(struct rota_server_call *call, struct rota_str message)
{
    assert(call->is_with_handler);
    enum rota_code code = rota_http2_send(&call->h2, message);
    if (code == ROTA_OK)
        touch(call);
    return code;
}

void rota_server_call_cost(struct rota_server_call *call, const struct rota_cost *cost)
{
    if (!call->has_cost || cost->response_us > call->cost.response_us)
        call->cost = *cost;
    call->has_cost = true;
}

void rota_server_call_reply(struct rota_server_call *call, struct rota_str message)
{
    switch (rota_server_call_send(call, message)) {
    case ROTA_OK:
    case ROTA_ERR_UNAVAILABLE: /* nobody hears it */
        rota_server_call_finish(call, ROTA_STATUS_OK, NULL, NULL, 0);
        break;
    case ROTA_ERR_LIMIT:
    case ROTA_ERR_INVALID:
    case ROTA_ERR_NOT_FOUND:
    case ROTA_ERR_IO:
    case ROTA_ERR_NO_MEMORY:
        rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED,
                                "the client does not take its replies", NULL, 0);
        break;
    }
}

/* End the stream, with the cost beside the handler's own pairs. */
static void finish_with_cost(struct rota_server_call *call, enum rota_status status,
                             const char *text, const struct rota_metadata *metadata,
                             size_t n_metadata)
{
    struct rota_metadata pairs[ROTA_SERVER_TRAILERS_MAX + 1];
    char cost[ROTA_NOTE_COST_MAX];
    if (n_metadata > 0)
        memcpy(pairs, metadata, n_metadata * sizeof *pairs);
    pairs[n_metadata].name = rota_str(ROTA_NOTE_COST);
    pairs[n_metadata].value = rota_str(rota_note_format_cost(&call->cost, cost));
    rota_http2_finish(&call->h2, status, rota_str(text), pairs, n_metadata + 1);
}

void rota_server_call_finish(struct rota_server_call *call, enum rota_status status,
                             const char *text, const struct rota_metadata *metadata,
                             size_t n_metadata)
{
    assert(call->is_with_handler);
    call->is_with_handler = false;
    leave_admission(call);
    rota_heap_remove(&call->server->deadlines, &call->node);
    if (call->has_cost && n_metadata <= ROTA_SERVER_TRAILERS_MAX)
        finish_with_cost(call, status, text ? text : "", metadata, n_metadata);
    else
        rota_http2_finish(&call->h2, status, rota_str(text ? text : ""), metadata, n_metadata);
    touch(call);
    call_free(call);
}
