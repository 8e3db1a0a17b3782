#include "node/api/node_service.h"

#include "core/own/view.h"

#include "node/change/node_change.h"
#include "node/documents/document.h"
#include "node/documents/node_report.h"
#include "node/documents/peers.h"
#include "node/documents/topics.h"
#include "node/node_inside.h"

#include <stdlib.h>
#include <string.h>

#define EVENTS_EVERY (200 * ROTA_MSEC) /* how often the log is checked for followers */

struct rota_node_service {
    struct rota_node *node;
    uv_timer_t timer, weigh_timer;
    uint32_t weight;                   /* that is due, set by ... */
    char actor[ROTA_SERVER_ACTOR_MAX]; /* ... this caller */
    struct rota_list_node followers;
};

/* --- answers --- */

static void reply_message(struct rota_server_call *call, const struct rota_message_type *type,
                          const void *message)
{
    struct rota_buffer buffer = {0};
    rota_message_encode(type, message, &buffer);
    if (buffer.failed)
        rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED,
                                "not enough memory for the reply", NULL, 0);
    else
        rota_server_call_reply(call, rota_buffer_str(&buffer));
    rota_buffer_deinit(&buffer);
}

static void refuse_call(struct rota_server_call *call, enum rota_status status, const char *why)
{
    rota_server_call_finish(call, status, why, NULL, 0);
}

/* False: it can't be read, and was refused. */
static bool read_request(struct rota_server_call *call, const struct rota_message_type *type,
                         void *request, struct rota_arena *arena)
{
    struct rota_error error;
    if (!rota_message_decode(type, rota_server_call_request(call), request, arena, &error))
        return true;
    refuse_call(call, ROTA_STATUS_INVALID_ARGUMENT, error.text);
    return false;
}

static struct rota_nodes_event message_of(const struct rota_node *node,
                                          const struct rota_event *event)
{
    struct rota_str by = rota_str(event->node[0] ? event->node : node->advertise);
    struct rota_str subject = rota_str(event->subject);
    struct rota_str name = rota_node_book_name(&node->book, subject);
    return (struct rota_nodes_event){
        .number = event->number,
        .at_ms = (uint64_t)(event->at / ROTA_MSEC),
        .kind = rota_str(rota_event_kind_name(event->kind)),
        .subject = subject,
        .text = rota_str(event->text),
        .node = by,
        .node_name = rota_node_book_name(&node->book, by),
        .subject_name = rota_str_is_equal(name, subject) ? rota_str("") : name,
    };
}

/* --- documents --- */

/* Whole documents, which arrive one by one. */
struct gathering {
    struct rota_node_service *service;
    struct rota_server_call *call;
    size_t n_open;
    struct rota_buffer reply;
    struct part {
        struct gathering *gathering;
        const struct rota_topic *topic;
    } parts[ROTA_NODES_TOPICS_MAX];
};

static void append_document(struct rota_buffer *buffer, const char *topic, struct rota_str json)
{
    struct rota_nodes_document document = {rota_str(topic), json};
    struct rota_nodes_documents_reply one = {.documents = {&document, 1}};
    rota_message_encode(&ROTA_NODES_DOCUMENTS_REPLY, &one, buffer); /* messages are joined so */
}

static void finish_gathering(struct gathering *gathering)
{
    if (--gathering->n_open > 0)
        return;
    gathering->service->node->n_reading--;
    if (gathering->reply.failed)
        refuse_call(gathering->call, ROTA_STATUS_RESOURCE_EXHAUSTED,
                    "not enough memory for the reply");
    else
        rota_server_call_reply(gathering->call, rota_buffer_str(&gathering->reply));
    rota_buffer_deinit(&gathering->reply);
    free(gathering);
}

/* An unavailable one is left out. */
static void on_document(void *data, const struct rota_error *error, struct rota_str json)
{
    struct part *part = data;
    if (!error)
        append_document(&part->gathering->reply, part->topic->name, json);
    finish_gathering(part->gathering);
}

static void gather_documents(struct rota_node_service *service, struct rota_server_call *call,
                             const struct rota_nodes_documents *request)
{
    struct gathering *gathering = calloc(1, sizeof *gathering);
    size_t n = 0;
    if (!gathering) {
        refuse_call(call, ROTA_STATUS_RESOURCE_EXHAUSTED, "not enough memory for the reply");
        return;
    }
    service->node->n_reading++;
    *gathering = (struct gathering){.service = service, .call = call, .n_open = 1};
    for (size_t i = 0; i < request->topics.n; i++) {
        const struct rota_topic *topic = rota_topic_find(request->topics.items[i]);
        if (topic)
            gathering->parts[n++] = (struct part){gathering, topic};
    }
    gathering->n_open += n;
    for (size_t i = 0; i < n; i++)
        rota_topic_ask(service->node, gathering->parts[i].topic, on_document, &gathering->parts[i]);
    finish_gathering(gathering);
}

static void on_documents(void *data, struct rota_server_call *call)
{
    struct rota_node_service *service = data;
    struct rota_arena arena = {0};
    struct rota_nodes_documents request;
    if (read_request(call, &ROTA_NODES_DOCUMENTS, &request, &arena))
        gather_documents(service, call, &request);
    rota_arena_deinit(&arena);
}

/* --- the report for other nodes --- */

static void on_report(void *data, struct rota_server_call *call)
{
    const struct rota_node_service *service = data;
    struct rota_arena arena = {0};
    struct rota_nodes_ask request;
    struct rota_nodes_report report;
    if (read_request(call, &ROTA_NODES_ASK, &request, &arena)) {
        rota_node_report_make(service->node, request.with_calls, &arena, &report);
        rota_node_report_add_events(service->node, &request, &arena, &report);
        reply_message(call, &ROTA_NODES_REPORT, &report);
    }
    rota_arena_deinit(&arena);
}

/* --- one node --- */

struct showing {
    struct rota_node_service *service;
    struct rota_server_call *call;
    char name[ROTA_STORE_NAME_MAX + 1];
};

/* The entry of the list of nodes; the document is only waited for. */
static void on_shown(void *data, const struct rota_error *error, struct rota_str json)
{
    struct showing *showing = data;
    struct rota_node *node = showing->service->node;
    const struct rota_peer *peer = rota_peers_seek(node->peers, rota_str(showing->name));
    char none[ROTA_PEERS_NONE_MAX], text[2 * ROTA_PEERS_NONE_MAX];
    (void)json;
    showing->service->node->n_reading--;
    if (error)
        refuse_call(showing->call, ROTA_STATUS_UNAVAILABLE, error->text);
    else if (!peer) {
        snprintf(text, sizeof text, "%.300s: %s", showing->name,
                 rota_peers_format_none(node->peers, none));
        refuse_call(showing->call, ROTA_STATUS_NOT_FOUND, text);
    } else {
        struct rota_buffer buffer = {0};
        rota_document_cluster_write_node(node, peer, &(struct rota_json){.buffer = &buffer});
        reply_message(showing->call, &ROTA_NODES_SHOWN,
                      &(struct rota_nodes_shown){.json = rota_buffer_str(&buffer)});
        rota_buffer_deinit(&buffer);
    }
    free(showing);
}

static void on_show(void *data, struct rota_server_call *call)
{
    struct rota_node_service *service = data;
    struct rota_arena arena = {0};
    struct rota_nodes_change request;
    struct showing *showing;
    if (!read_request(call, &ROTA_NODES_SHOW, &request, &arena)) {
        rota_arena_deinit(&arena);
        return;
    }
    if (request.node.size == 0)
        request.node = rota_str(service->node->advertise);
    if (request.node.size > ROTA_STORE_NAME_MAX) {
        refuse_call(call, ROTA_STATUS_INVALID_ARGUMENT, "the name of the node is too long");
    } else if (!(showing = calloc(1, sizeof *showing))) {
        refuse_call(call, ROTA_STATUS_RESOURCE_EXHAUSTED, "not enough memory for the reply");
    } else {
        showing->service = service;
        showing->call = call;
        memcpy(showing->name, request.node.data, request.node.size);
        service->node->n_reading++;
        rota_topic_ask(service->node, &rota_topics[ROTA_TOPIC_CLUSTER], on_shown, showing);
    }
    rota_arena_deinit(&arena);
}

/* --- events --- */

struct follower {
    struct rota_node_service *service;
    struct rota_server_call *call;
    struct rota_list_node link;
    uint64_t after;
    bool kinds[ROTA_EVENT_KINDS];
    bool is_followed; /* keep following; otherwise end after the present ones */
    bool is_cancelled;
};

static void end_follower(struct follower *follower, enum rota_status status)
{
    struct rota_node_service *service = follower->service;
    rota_list_remove(&follower->link);
    service->node->n_reading--;
    rota_server_call_finish(follower->call, status, NULL, NULL, 0);
    free(follower);
    if (rota_list_is_empty(&service->followers))
        uv_timer_stop(&service->timer);
}

/* Send until there is no room; then continue when there is. */
static void send_events(struct follower *follower)
{
    const struct rota_node *node = follower->service->node;
    const struct rota_event *event;
    struct rota_buffer buffer = {0};
    bool has_room = true;
    while (has_room && (event = rota_events_next(&node->events, follower->after))) {
        if (follower->kinds[event->kind]) {
            struct rota_nodes_event message = message_of(node, event);
            rota_buffer_clear(&buffer);
            rota_message_encode(&ROTA_NODES_EVENT, &message, &buffer);
            has_room =
                !buffer.failed && !rota_server_call_send(follower->call, rota_buffer_str(&buffer));
        }
        if (has_room)
            follower->after = event->number;
    }
    rota_buffer_deinit(&buffer);
    if (has_room && !follower->is_followed)
        end_follower(follower, ROTA_STATUS_OK);
}

static void on_timer(uv_timer_t *timer)
{
    struct rota_node_service *service = timer->data;
    rota_peers_want_events(service->node->peers);
    ROTA_LIST_EACH (follower, &service->followers, struct follower, link) {
        if (follower->is_followed)
            send_events(follower);
    }
}

static void on_events_seen(void *data, const struct rota_error *error, struct rota_str json)
{
    struct follower *follower = data;
    struct rota_node_service *service = follower->service;
    bool is_followed = follower->is_followed;
    (void)json;
    if (error) {
        end_follower(follower, ROTA_STATUS_UNAVAILABLE);
        return;
    }
    if (follower->is_cancelled) {
        end_follower(follower, ROTA_STATUS_CANCELLED);
        return;
    }
    rota_list_push(&service->followers, &follower->link);
    send_events(follower);
    if (is_followed)
        uv_timer_start(&service->timer, on_timer, EVENTS_EVERY / ROTA_MSEC,
                       EVENTS_EVERY / ROTA_MSEC);
}

static bool read_kinds(const struct rota_message_strs *names, bool kinds[ROTA_EVENT_KINDS])
{
    enum rota_event_kind kind;
    for (int i = 0; i < ROTA_EVENT_KINDS; i++)
        kinds[i] = names->n == 0;
    for (size_t i = 0; i < names->n; i++) {
        if (!rota_event_kind_parse(names->items[i], &kind))
            return false;
        kinds[kind] = true;
    }
    return true;
}

static void on_events(void *data, struct rota_server_call *call)
{
    struct rota_node_service *service = data;
    struct rota_arena arena = {0};
    struct rota_nodes_events request;
    struct follower *follower = calloc(1, sizeof *follower);
    bool is_read = read_request(call, &ROTA_NODES_EVENTS, &request, &arena);
    if (is_read && follower && read_kinds(&request.kinds, follower->kinds)) {
        follower->service = service;
        follower->call = call;
        follower->after = request.after;
        follower->is_followed = request.is_followed;
        service->node->n_reading++;
        rota_server_call_set_data(call, follower);
        rota_topic_ask(service->node, &rota_topics[ROTA_TOPIC_CLUSTER], on_events_seen, follower);
    } else {
        if (is_read)
            refuse_call(call,
                        follower ? ROTA_STATUS_INVALID_ARGUMENT : ROTA_STATUS_RESOURCE_EXHAUSTED,
                        follower ? "kind must be one of " ROTA_EVENT_KIND_NAMES
                                 : "not enough memory for the reply");
        free(follower);
    }
    rota_arena_deinit(&arena);
}

/* A call that still waits for the other nodes ends when they have answered. */
static void on_events_cancel(void *data, struct rota_server_call *call)
{
    struct follower *follower = rota_server_call_data(call);
    (void)data;
    follower->is_cancelled = true;
    if (follower->link.next)
        end_follower(follower, ROTA_STATUS_CANCELLED);
}

static void on_events_room(void *data, struct rota_server_call *call)
{
    struct follower *follower = rota_server_call_data(call);
    (void)data;
    if (follower->link.next)
        send_events(follower);
}

/* --- changes by operators --- */

static void on_changed(void *data, struct rota_server_call *call, const struct rota_error *error,
                       const struct rota_nodes_changed *changed)
{
    struct rota_node_service *service = data;
    service->node->n_reading--;
    if (error)
        refuse_call(call,
                    error->code == ROTA_ERR_NOT_FOUND ? ROTA_STATUS_NOT_FOUND
                                                      : ROTA_STATUS_UNAVAILABLE,
                    error->text);
    else
        reply_message(call, &ROTA_NODES_CHANGED, changed);
}

static void change_state(struct rota_node_service *service, struct rota_server_call *call,
                         enum rota_store_member_state state)
{
    struct rota_arena arena = {0};
    struct rota_nodes_change request;
    if (read_request(call, &ROTA_NODES_CHANGE, &request, &arena)) {
        service->node->n_reading++;
        rota_node_change(service->node, request.node, state, request.is_dry_run, on_changed,
                         service, call);
    }
    rota_arena_deinit(&arena);
}

static void on_drain(void *data, struct rota_server_call *call)
{
    change_state(data, call, ROTA_STORE_MEMBER_DRAINING);
}

static void on_undrain(void *data, struct rota_server_call *call)
{
    change_state(data, call, ROTA_STORE_MEMBER_IN);
}

static void on_evict(void *data, struct rota_server_call *call)
{
    change_state(data, call, ROTA_STORE_MEMBER_EVICTED);
}

/* --- life --- */

static enum rota_code set_weight(struct rota_node_service *service, struct rota_error *error)
{
    struct rota_node *node = service->node;
    if (!node->heartbeat)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "this node is not a member of the cluster now");
    node->weight = service->weight;
    rota_node_note(node, ROTA_EVENT_OPERATOR, rota_str(node->advertise),
                   "has weight %g now, set by %s", (double)node->weight / ROTA_WEIGHT_ONE,
                   service->actor);
    return rota_node_open_heartbeat(node, false, error);
}

static void on_weigh_timer(uv_timer_t *timer)
{
    struct rota_node_service *service = timer->data;
    set_weight(service, NULL); /* one that leaves needs none */
}

static void on_weigh(void *data, struct rota_server_call *call)
{
    struct rota_node_service *service = data;
    struct rota_node *node = service->node;
    struct rota_arena arena = {0};
    struct rota_nodes_change request;
    struct rota_nodes_changed changed = {.is_done = true, .node = rota_str(node->advertise)};
    struct rota_error error;
    if (!read_request(call, &ROTA_NODES_WEIGH, &request, &arena)) {
        rota_arena_deinit(&arena);
        return;
    }
    if (!rota_str_is_equal(request.node, rota_str(node->advertise)) &&
        !rota_str_is_equal(request.node, rota_str(node->name)))
        refuse_call(call, ROTA_STATUS_INVALID_ARGUMENT,
                    "only the node itself can change its weight");
    else if (request.weight < ROTA_WEIGHT_MIN || request.weight > ROTA_VIEW_WEIGHT_MAX)
        refuse_call(call, ROTA_STATUS_INVALID_ARGUMENT, "invalid weight");
    else if (!node->heartbeat)
        refuse_call(call, ROTA_STATUS_FAILED_PRECONDITION,
                    "this node is not a member of the cluster now");
    else {
        service->weight = (uint32_t)request.weight;
        rota_server_call_actor(call, service->actor);
        uv_timer_stop(&service->weigh_timer);
        if (request.delay_ms > 0)
            uv_timer_start(&service->weigh_timer, on_weigh_timer, request.delay_ms, 0);
        if (request.delay_ms == 0 && set_weight(service, &error))
            refuse_call(call, ROTA_STATUS_UNAVAILABLE, error.text);
        else
            reply_message(call, &ROTA_NODES_CHANGED, &changed);
    }
    rota_arena_deinit(&arena);
}

enum { CHANGES = ROTA_ROLE_OPERATOR | ROTA_ROLE_NODE }; /* callers that may change the cluster */

static const struct rota_server_method METHODS[] = {
    {.path = "/rota.v1.Nodes/Show", .on_call = on_show},
    {.path = "/rota.v1.Nodes/Documents", .on_call = on_documents},
    {.path = "/rota.peer.v1.NodePeer/Report", .on_call = on_report, .roles = ROTA_ROLE_NODE},
    {.path = "/rota.v1.Nodes/Events",
     .on_call = on_events,
     .on_cancel = on_events_cancel,
     .on_room = on_events_room},
    {.path = "/rota.v1.Nodes/Drain", .on_call = on_drain, .roles = CHANGES},
    {.path = "/rota.v1.Nodes/Undrain", .on_call = on_undrain, .roles = CHANGES},
    {.path = "/rota.v1.Nodes/Evict", .on_call = on_evict, .roles = CHANGES},
    {.path = "/rota.v1.Nodes/Weigh", .on_call = on_weigh, .roles = CHANGES},
};

enum rota_code rota_node_service_open(struct rota_node *node, struct rota_node_service **service,
                                      struct rota_error *error)
{
    struct rota_node_service *made = calloc(1, sizeof *made);
    enum rota_code code = ROTA_OK;
    if (!made)
        return rota_error_no_memory(error, "for a service");
    made->node = node;
    rota_list_init(&made->followers);
    uv_timer_init(node->loop, &made->timer);
    uv_timer_init(node->loop, &made->weigh_timer);
    made->timer.data = made->weigh_timer.data = made;
    *service = made;
    for (size_t i = 0; !code && i < sizeof METHODS / sizeof METHODS[0]; i++) {
        struct rota_server_method method = METHODS[i];
        method.data = made;
        code = rota_server_add(node->server, &method, error);
    }
    return code;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_weigh_timer_closed(uv_handle_t *handle)
{
    struct rota_node_service *service = handle->data;
    uv_close((uv_handle_t *)&service->timer, on_closed);
}

void rota_node_service_close(struct rota_node_service *service)
{
    if (!service)
        return;
    ROTA_LIST_DRAIN (follower, &service->followers, struct follower, link)
        end_follower(follower, ROTA_STATUS_UNAVAILABLE);
    uv_close((uv_handle_t *)&service->weigh_timer, on_weigh_timer_closed);
}
