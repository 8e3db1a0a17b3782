/* Calls, from their session to their handler. */
#include "run/rpc/server_inside.h"

#include "base/quote.h"
#include "core/call/failure.h"
#include "io/clock.h"
#include "wire/grpc/call_notes.h"

#include <stdio.h>
#include <stdlib.h>

/* --- the memory of calls --- */

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

void rota_server_arrive_call_free(struct rota_server_call *call)
{
    struct rota_server *server = call->server;
    struct rota_server_connection *connection = call->connection;
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
        free(call->route.room);
        free(call);
    }
    connection->n_calls--;
    rota_server_connection_free(connection);
    rota_server_unref(server);
}

/* --- the ways out --- */

static void cancel_call(struct rota_server_call *call)
{
    struct rota_server *server = call->server;
    bool is_waiting = call->ticket.place == ROTA_ADMISSION_WAITING;
    if (call->is_cancelled || (!call->is_with_handler && !is_waiting))
        return;
    call->is_cancelled = true;
    rota_heap_remove(&server->deadlines, &call->node);
    server->counts.cancelled_total++;
    rota_counter_add(server->series.cancelled, 1);
    if (is_waiting)
        rota_server_arrive_call_leave(call); /* its handler is never called */
    else if (call->method->on_cancel)
        call->method->on_cancel(call->method->data, call);
}

void rota_server_arrive_call_touch(struct rota_server_call *call)
{
    if (call->connection->link)
        rota_link_touch(call->connection->link);
}

void rota_server_arrive_call_uncount(struct rota_server_call *call)
{
    if (!call->is_counted)
        return;
    call->is_counted = false;
    call->server->n_calls--;
    rota_gauge_add(call->server->series.under_way, -1);
}

void rota_server_arrive_call_leave(struct rota_server_call *call)
{
    struct rota_server *server = call->server;
    if (call->ticket.place == ROTA_ADMISSION_OUT)
        return;
    rota_admission_leave(&server->admission, &call->ticket);
    rota_gauge_set(server->series.waiting, (int64_t)server->admission.n_waiting);
    if (rota_admission_has_next(&server->admission))
        rota_server_arm(server, 0); /* from the loop: a handler is not called by another */
}

void rota_server_arrive_refuse(struct rota_server_call *call, enum rota_server_refusal refusal,
                               enum rota_status status, const char *text,
                               const struct rota_metadata *metadata, size_t n_metadata)
{
    struct rota_server *server = call->server;
    server->counts.refused_total++;
    rota_counter_add(server->series.refused[refusal], 1);
    rota_heap_remove(&server->deadlines, &call->node);
    rota_server_arrive_call_leave(call);
    rota_http2_finish(&call->h2, status, rota_str(text), metadata, n_metadata);
    rota_server_arrive_call_touch(call);
}

void rota_server_arrive_call_expire(struct rota_server_call *call)
{
    static const char text[] = "the deadline has passed";
    if (call->ticket.place == ROTA_ADMISSION_WAITING) {
        rota_server_arrive_refuse(call, ROTA_SERVER_TOO_LATE, ROTA_STATUS_DEADLINE_EXCEEDED, text,
                                  NULL, 0);
        return;
    }
    rota_heap_remove(&call->server->deadlines, &call->node);
    rota_http2_finish(&call->h2, ROTA_STATUS_DEADLINE_EXCEEDED, rota_str(text), NULL, 0);
    rota_server_arrive_call_touch(call);
    cancel_call(call);
}

/* --- callbacks of a session --- */

static struct rota_http2_call *on_accept(void *data)
{
    struct rota_server_connection *connection = data;
    struct rota_server_call *call = call_new(connection->server);
    if (!call)
        return NULL;
    call->connection = connection;
    call->method = NULL;
    call->data = NULL;
    call->is_in_session = true;
    call->is_with_handler = call->is_counted = call->is_cancelled = false;
    call->has_cost = call->is_measured = call->route.is_read = false;
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
    call->is_tallied = server->tally.on_begin && call->method->is_fenced;
    if (call->is_tallied)
        call->tally_number = server->tally.on_begin(server->tally.data, call);
    server->counts.calls_total++;
    rota_counter_add(server->series.calls, 1);
    call->method->on_call(call->method->data, call);
}

/* It runs now. */
static void run_call(struct rota_server_call *call)
{
    struct rota_histogram *wait = call->server->series.wait;
    if (wait)
        rota_histogram_record(wait, call->ticket.started_at - call->ticket.arrived_at);
    hand_over(call);
}

static void refuse_overload(struct rota_server_call *call)
{
    struct rota_metadata note = {rota_str(ROTA_NOTE_FAILURE),
                                 rota_str(rota_failure_name(ROTA_FAILURE_OVERLOAD))};
    rota_server_arrive_refuse(call, ROTA_SERVER_QUEUE_FULL,
                              rota_failure_status(ROTA_FAILURE_OVERLOAD),
                              "too many calls are waiting for a handler", &note, 1);
}

/* Ask the claims, and for a place: the call is refused, waits, or runs. */
static void admit_call(struct rota_server_call *call)
{
    struct rota_server *server = call->server;
    rota_time now = rota_clock_mono();
    call->ticket.deadline =
        call->h2.head.timeout == ROTA_TIME_NEVER ? ROTA_TIME_NEVER : call->node.at;
    call->ticket.arrived_at = call->ticket.started_at = now;
    if (!rota_server_fence(call))
        return;
    if (call->method->is_urgent) {
        hand_over(call);
        return;
    }
    bool can_wait = !call->method->on_message; /* nothing would hold its messages back */
    switch (rota_admission_enter(&server->admission, now, can_wait, &call->ticket)) {
    case ROTA_ADMISSION_OUT:
        refuse_overload(call);
        break;
    case ROTA_ADMISSION_WAITING:
        rota_gauge_set(server->series.waiting, (int64_t)server->admission.n_waiting);
        break;
    case ROTA_ADMISSION_RUNNING:
        run_call(call);
        break;
    }
}

/* The handler has everything it needs to begin. */
static void arrive_call(struct rota_server_call *call)
{
    bool has_queue = call->server->options.handlers_max > 0;
    bool is_routed = rota_server_fence_call_is_routed(call);
    /* A fenced method has one owner: a client has no choice for which it would need the cost. */
    call->is_measured = has_queue || (is_routed && !call->method->is_fenced);
    if (call->is_measured)
        admit_call(call);
    else if (!call->method->is_fenced || rota_server_fence(call))
        hand_over(call);
}

void rota_server_arrive_start_waiting(struct rota_server *server)
{
    struct rota_admission_ticket *ticket;
    while (!server->is_closed &&
           (ticket = rota_admission_next(&server->admission, rota_clock_mono()))) {
        struct rota_server_call *call = ROTA_LIST_ITEM(ticket, struct rota_server_call, ticket);
        rota_gauge_set(server->series.waiting, (int64_t)server->admission.n_waiting);
        if (ticket->place == ROTA_ADMISSION_OUT)
            rota_server_arrive_refuse(call, ROTA_SERVER_TOO_LATE, ROTA_STATUS_DEADLINE_EXCEEDED,
                                      "the deadline has passed", NULL, 0);
        else if (rota_server_fence(call)) /* it may have moved meanwhile */
            run_call(call);
    }
}

static void refuse_method(struct rota_server_call *call)
{
    char path[ROTA_QUOTE_MAX], text[ROTA_QUOTE_MAX + 32];
    snprintf(text, sizeof text, "unknown method %s",
             rota_quote(rota_buffer_str(&call->h2.head.path), path));
    rota_server_arrive_refuse(call, ROTA_SERVER_NO_METHOD, ROTA_STATUS_UNIMPLEMENTED, text, NULL,
                              0);
}

/* False when the caller has no role that the method needs, and was refused. */
static bool check_roles(struct rota_server_call *call)
{
    uint32_t needed = call->method->roles;
    size_t n;
    struct rota_str token;
    char text[256];
    if (needed == 0 || (rota_server_call_roles(call) & needed))
        return true;
    const struct rota_metadata *metadata = rota_server_call_metadata(call, &n);
    if ((needed & ROTA_ROLE_OPERATOR) && rota_metadata_get(metadata, n, "authorization", &token))
        snprintf(text, sizeof text,
                 "only operators may call %.80s: the token you sent does not belong to this node "
                 "(each node has its own, in the file token of its data directory)",
                 call->method->path);
    else if (needed & ROTA_ROLE_OPERATOR)
        snprintf(text, sizeof text,
                 "only operators may call %.80s: send the node's token, or use a certificate that "
                 "it lists in `operators`",
                 call->method->path);
    else
        snprintf(text, sizeof text, "only nodes of this cluster may call %.80s",
                 call->method->path);
    rota_server_arrive_refuse(call, ROTA_SERVER_NO_ROLE, ROTA_STATUS_UNAUTHENTICATED, text, NULL,
                              0);
    return false;
}

static void on_head(void *data, struct rota_http2_call *h2)
{
    struct rota_server_connection *connection = data;
    struct rota_server *server = connection->server;
    struct rota_server_call *call = (struct rota_server_call *)h2;
    if (server->is_closed) {
        rota_http2_finish(h2, ROTA_STATUS_UNAVAILABLE, rota_str("the server is closed"), NULL, 0);
        return;
    }
    call->method = find_method(server, rota_buffer_str(&h2->head.path));
    if (!call->method) {
        refuse_method(call);
        return;
    }
    if (!check_roles(call))
        return;
    if (server->n_calls >= server->options.calls_max) {
        rota_server_arrive_refuse(call, ROTA_SERVER_CALLS_FULL, ROTA_STATUS_RESOURCE_EXHAUSTED,
                                  "the server has too many calls in progress", NULL, 0);
        return;
    }
    call->is_counted = true;
    server->n_calls++;
    rota_gauge_add(server->series.under_way, 1);
    if (h2->head.timeout != ROTA_TIME_NEVER) {
        call->node.at = rota_time_add(rota_clock_mono(), h2->head.timeout);
        call->node.order = server->n_started++;
        if (rota_heap_push(&server->deadlines, &call->node))
            rota_server_arm(server, call->node.at);
    }
    if (call->method->on_message) {
        rota_http2_expect_stream(h2);
        arrive_call(call);
    }
}

static void on_request(void *data, struct rota_http2_call *h2)
{
    struct rota_server_connection *connection = data;
    struct rota_server *server = connection->server;
    struct rota_server_call *call = (struct rota_server_call *)h2;
    if (!call->method->on_message) {
        if (server->is_closed)
            rota_http2_cancel(h2);
        else
            arrive_call(call);
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

static void on_http2_end(void *data, struct rota_http2_call *h2,
                         const struct rota_http2_result *result)
{
    struct rota_server_call *call = (struct rota_server_call *)h2;
    (void)data;
    (void)result;
    cancel_call(call);
}

static void on_room(void *data, struct rota_http2_call *h2)
{
    struct rota_server_call *call = (struct rota_server_call *)h2;
    (void)data;
    if (call->is_with_handler && call->method->on_room)
        call->method->on_room(call->method->data, call);
}

static void on_release(void *data, struct rota_http2_call *h2)
{
    struct rota_server_call *call = (struct rota_server_call *)h2;
    (void)data;
    call->is_in_session = false;
    if (!call->is_with_handler) { /* it never reached its handler, or has finished */
        rota_server_arrive_call_uncount(call);
        rota_server_arrive_call_leave(call);
    }
    rota_server_arrive_call_free(call);
}

struct rota_http2_handler rota_server_arrive_handler(struct rota_server_connection *connection)
{
    return (struct rota_http2_handler){
        .on_accept = on_accept,
        .on_head = on_head,
        .on_request = on_request,
        .on_message = on_message,
        .on_end = on_http2_end,
        .on_room = on_room,
        .on_release = on_release,
        .data = connection,
    };
}
