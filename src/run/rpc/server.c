#include "run/rpc/server_inside.h"

#include "base/container.h"
#include "io/clock.h"
#include "io/timer.h"

#include <rota/log.h>

#include <stdlib.h>

/* --- life --- */

void rota_server_unref(struct rota_server *server)
{
    if (--server->n_references > 0)
        return;
    for (struct rota_server_call *call; (call = server->at_rest);) {
        server->at_rest = call->next;
        rota_http2_call_deinit(&call->h2);
        free(call->route.room);
        free(call);
    }
    rota_map_deinit_values(&server->methods);
    rota_heap_deinit(&server->deadlines);
    rota_metrics_free(server->metrics);
    free(server);
}

static void on_timer_closed(uv_handle_t *handle)
{
    rota_server_unref(handle->data);
}

static struct rota_counter *labelled_counter(struct rota_metrics *metrics, const char *name,
                                             const char *help, const char *label, const char *value)
{
    struct rota_label pair = {label, rota_str(value)};
    return rota_metrics_counter(metrics, name, help, &pair, 1);
}

static void make_series(struct rota_server_series *c, struct rota_metrics *metrics, bool has_queue)
{
    static const char *const reasons[ROTA_SERVER_REFUSALS] = {
        [ROTA_SERVER_NO_METHOD] = "method", [ROTA_SERVER_CALLS_FULL] = "calls",
        [ROTA_SERVER_QUEUE_FULL] = "queue", [ROTA_SERVER_TOO_LATE] = "deadline",
        [ROTA_SERVER_STALE] = "stale",      [ROTA_SERVER_UNFENCED] = "unfenced",
        [ROTA_SERVER_NO_ROLE] = "role",
    };
    c->calls = rota_metrics_counter(metrics, "rota_server_calls_total",
                                    "Calls passed to a handler.", NULL, 0);
    c->cancelled = rota_metrics_counter(metrics, "rota_server_cancelled_total",
                                        "Calls cancelled by the client or timed out.", NULL, 0);
    for (int i = 0; i < ROTA_SERVER_REFUSALS; i++)
        c->refused[i] = labelled_counter(metrics, "rota_server_refused_total",
                                         "Calls rejected before they reached a handler, by reason.",
                                         "reason", reasons[i]);
    for (int i = 0; i < ROTA_HTTP2_FAULTS; i++)
        c->faults[i] = labelled_counter(metrics, "rota_server_faults_total",
                                        "Connections closed because of a peer's fault, by fault.",
                                        "fault", rota_http2_fault_name((enum rota_http2_fault)i));
    c->handshakes = rota_metrics_counter(metrics, "rota_server_handshakes_failed_total",
                                         "Failed TLS handshakes.", NULL, 0);
    static const char *const bounds[ROTA_SERVER_FULLS] = {[ROTA_SERVER_PEER_FULL] = "peer",
                                                          [ROTA_SERVER_ALL_FULL] = "connections",
                                                          [ROTA_SERVER_HELD_FULL] = "bytes"};
    for (int i = 0; i < ROTA_SERVER_FULLS; i++)
        c->full[i] =
            labelled_counter(metrics, "rota_server_full_total",
                             "Times a connection limit was reached: connections of one peer "
                             "address, all connections, or bytes held by them.",
                             "bound", bounds[i]);
    c->connections =
        rota_metrics_gauge(metrics, "rota_server_connections", "Open connections.", NULL, 0);
    c->under_way = rota_metrics_gauge(metrics, "rota_server_calls",
                                      "Calls accepted and not finished.", NULL, 0);
    c->waiting =
        rota_metrics_gauge(metrics, "rota_server_waiting", "Calls waiting for a handler.", NULL, 0);
    if (has_queue)
        c->wait = rota_metrics_histogram(metrics, "rota_server_wait_seconds",
                                         "Time that calls wait for a handler.", ROTA_SEC, NULL, 0);
}

enum rota_code rota_server_open(struct uv_loop_s *loop, const struct rota_server_options *options,
                                struct rota_server **result, struct rota_error *error)
{
    struct rota_server *server = calloc(1, sizeof *server);
    if (!server)
        return rota_error_no_memory(error, "for a server");
    rota_list_init(&server->connections);
    if (options)
        server->options = *options;
    struct rota_metrics *metrics = server->options.metrics;
    if (!metrics)
        metrics = server->metrics = rota_metrics_new(1);
    if (!metrics) {
        free(server);
        return rota_error_no_memory(error, "for a server");
    }
    make_series(&server->series, metrics, server->options.handlers_max > 0);
    if (server->options.calls_max == 0)
        server->options.calls_max = ROTA_SERVER_CALLS_MAX;
    if (server->options.connections_max == 0)
        server->options.connections_max = ROTA_SERVER_CONNECTIONS_MAX;
    if (server->options.peer_connections_max == 0)
        server->options.peer_connections_max = (server->options.connections_max + 1) / 2;
    if (server->options.keepalive_interval == 0)
        server->options.keepalive_interval = 2 * ROTA_HOUR;
    if (server->options.idle_timeout == 0)
        server->options.idle_timeout = ROTA_SERVER_IDLE_TIMEOUT;
    server->held.max = server->options.held_max ? server->options.held_max : ROTA_SERVER_HELD_MAX;
    if (server->options.waiting_max == 0)
        server->options.waiting_max = ROTA_SERVER_WAITING_MAX;
    rota_admission_init(&server->admission, server->options.handlers_max,
                        server->options.waiting_max);
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
        return rota_error_set(error, ROTA_ERR_INVALID, "server: method %s is already registered",
                              method->path);
    if (method->is_fenced && !server->options.claims)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "server: method %s is fenced, but the server has no claims",
                              method->path);
    if (server->methods.size >= ROTA_SERVER_METHODS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "server: more than %d methods",
                              ROTA_SERVER_METHODS_MAX);
    size_t size = strlen(method->path) + 1;
    struct rota_server_method *copy = malloc(sizeof *copy + size);
    if (!copy)
        return rota_error_no_memory(error, "for method %s of the server", method->path);
    *copy = *method;
    copy->path = memcpy(copy + 1, method->path, size);
    if (!rota_map_put(&server->methods, rota_str(copy->path), copy)) {
        free(copy);
        return rota_error_no_memory(error, "for method %s of the server", method->path);
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

/* --- the timer --- */

static void on_timer(uv_timer_t *timer);

void rota_server_arm(struct rota_server *server, rota_time at)
{
    if (at >= server->timer_at || server->is_closed)
        return;
    server->timer_at = at;
    rota_timer_set(&server->timer, on_timer, rota_clock_mono(), at);
}

/* --- connections --- */

void rota_server_connection_free(struct rota_server_connection *connection)
{
    struct rota_server *server = connection->server;
    if (!connection->is_freed || connection->n_calls > 0)
        return;
    free(connection);
    rota_server_unref(server);
}

static void check_drained(struct rota_server *server)
{
    if (!server->is_draining || server->is_closed || server->n_connections > 0)
        return;
    server->is_draining = false;
    server->drain_until = ROTA_TIME_NEVER;
    if (server->on_drained)
        server->on_drained(server->drain_data, server->n_cut);
}

static void connection_gone(struct rota_server_connection *connection)
{
    struct rota_server *server = connection->server;
    if (!connection->link)
        return;
    connection->link = NULL;
    rota_list_remove(&connection->in_server);
    server->n_connections--;
    rota_gauge_set(server->series.connections, (int64_t)server->n_connections);
}

static void on_connection_gone(void *data, const struct rota_error *reason,
                               enum rota_http2_fault fault)
{
    struct rota_server_connection *connection = data;
    struct rota_server *server = connection->server;
    (void)reason;
    if (fault) {
        server->counts.faults_total++;
        rota_counter_add(server->series.faults[fault], 1);
    }
    connection_gone(connection);
}

static void on_freed(void *data)
{
    struct rota_server_connection *connection = data;
    struct rota_server *server = connection->server;
    check_drained(server);
    connection->is_freed = true;
    rota_server_connection_free(connection);
}

/* Count it, and log it now and then. */
static void note_full(struct rota_server *server, enum rota_server_full bound, const char *peer)
{
    static const char *const phrases[ROTA_SERVER_FULLS] = {
        [ROTA_SERVER_PEER_FULL] = "connections rejected: their peer is at its limit",
        [ROTA_SERVER_ALL_FULL] = "connections wait: the limit is reached",
        [ROTA_SERVER_HELD_FULL] = "calls rejected: too many bytes are held",
    };
    uint64_t n, max = bound == ROTA_SERVER_HELD_FULL  ? server->held.max
                      : bound == ROTA_SERVER_ALL_FULL ? server->options.connections_max
                                                      : server->options.peer_connections_max;
    rota_counter_add(server->series.full[bound], 1);
    server->counts.turned_away_total += bound == ROTA_SERVER_PEER_FULL;
    if (!rota_places_note_refusal(&server->refusals[bound], rota_clock_mono(), &n) ||
        !server->options.log)
        return;
    rota_log(server->options.log, rota_clock_wall(), ROTA_LOG_WARN, phrases[bound],
             ROTA_LOG_FACT("times", n), ROTA_LOG_FACT("bound", max),
             ROTA_LOG_FACT("connections", (uint64_t)server->n_connections),
             ROTA_LOG_FACT("peer", peer));
}

static void on_held_full(void *data)
{
    note_full(data, ROTA_SERVER_HELD_FULL, "");
}

static void on_full(void *data, const char *peer, bool is_peer)
{
    note_full(data, is_peer ? ROTA_SERVER_PEER_FULL : ROTA_SERVER_ALL_FULL, peer);
}

static void on_stream(void *data, struct rota_stream *stream)
{
    struct rota_server *server = data;
    struct rota_server_connection *connection = calloc(1, sizeof *connection);
    struct rota_http2_options options = {
        .is_server = true,
        .message_max = server->options.message_max,
        .streams_max = server->options.connection_calls_max,
        .keepalive_interval = server->options.keepalive_interval,
        .keepalive_timeout = server->options.keepalive_timeout,
        .idle_timeout =
            server->options.idle_timeout == ROTA_TIME_NEVER ? 0 : server->options.idle_timeout,
        .held = &server->held,
        .on_held_full = on_held_full,
        .held_data = server,
    };
    struct rota_http2_handler calls = rota_server_arrive_handler(connection);
    struct rota_link_handler handler = {
        .on_gone = on_connection_gone, .on_freed = on_freed, .data = connection};
    if (!connection ||
        rota_link_new(server->loop, &options, &calls, &handler, &connection->link, NULL)) {
        free(connection);
        rota_stream_close(stream);
        return;
    }
    connection->server = server;
    rota_list_push(&server->connections, &connection->in_server);
    server->n_connections++;
    server->n_references++;
    rota_gauge_set(server->series.connections, (int64_t)server->n_connections);
    rota_link_accept(connection->link, stream, server->options.open_timeout);
}

static void on_refused(void *data, const char *peer, const struct rota_error *reason)
{
    struct rota_server *server = data;
    uint64_t n;
    server->counts.handshakes_failed_total++;
    rota_counter_add(server->series.handshakes, 1);
    if (!rota_places_note_refusal(&server->failed_handshakes, rota_clock_mono(), &n) ||
        !server->options.log)
        return;
    rota_log(server->options.log, rota_clock_wall(), ROTA_LOG_WARN, "TLS handshakes failed",
             ROTA_LOG_FACT("times", n), ROTA_LOG_FACT("peer", peer),
             ROTA_LOG_FACT("reason", reason->text));
}

enum rota_code rota_server_listen(struct rota_server *server, const char *address,
                                  struct rota_error *error)
{
    if (server->n_listeners == ROTA_SERVER_LISTENERS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "server: more than %d addresses",
                              ROTA_SERVER_LISTENERS_MAX);
    struct rota_listener_options options = {
        .tls = server->options.tls,
        .open_timeout = server->options.open_timeout,
        .connections_max = server->options.connections_max,
        .peer_connections_max = server->options.peer_connections_max,
        .insecure = server->options.insecure,
    };
    struct rota_listener_handler handler = {on_stream, on_refused, on_full, server};
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
    ROTA_LIST_DRAIN (connection, &server->connections, struct rota_server_connection, in_server) {
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
    ROTA_LIST_EACH (c, &server->connections, struct rota_server_connection, in_server) {
        rota_http2_drain(rota_link_session(c->link));
        rota_link_touch(c->link);
    }
    rota_server_arm(server, server->n_connections > 0 ? server->drain_until : 0);
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
        rota_server_arrive_call_expire(ROTA_CONTAINER(node, struct rota_server_call, node));
    rota_server_arrive_start_waiting(server);
    if (!server->is_closed && now >= server->drain_until)
        close_connections(server, "the server is shutting down");
    if (server->is_draining && server->n_connections == 0)
        check_drained(server);
    if ((node = rota_heap_first(&server->deadlines)))
        rota_server_arm(server, node->at);
    rota_server_arm(server, server->drain_until);
    rota_link_leave();
}

struct rota_server_counts rota_server_counts(const struct rota_server *server)
{
    struct rota_server_counts counts = server->counts;
    counts.connections = server->n_connections;
    counts.calls = server->n_calls;
    counts.waiting = server->admission.n_waiting;
    counts.held = server->held.size;
    return counts;
}
