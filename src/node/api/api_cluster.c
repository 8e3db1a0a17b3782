/* This node, the others, and their events. */
#include "node/api/api.h"

#include "node/documents/document.h"
#include "node/documents/topics.h"
#include "wire/message/message_json.h"
#include "wire/message/nodes_message.h"

#include <stdio.h>
#include <stdlib.h>

void rota_api_health(struct rota_api_call *call)
{
    rota_api_answer(call, 200, "text/plain", rota_str("ok\n"));
}

void rota_api_ready(struct rota_api_call *call)
{
    enum rota_node_state state = rota_node_state(call->node);
    char text[64];
    snprintf(text, sizeof text, "%s\n", rota_node_fsm_state_name(state));
    rota_api_answer(call, state == ROTA_NODE_SERVING ? 200 : 503, "text/plain", rota_str(text));
}

/* --- documents --- */

void rota_api_node(struct rota_api_call *call)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    rota_document_cluster_write_self(call->node, &json);
    rota_api_answer_json(call, 200, &buffer);
}

void rota_api_cluster(struct rota_api_call *call)
{
    rota_api_document(call, "cluster");
}

void rota_api_calls(struct rota_api_call *call)
{
    rota_api_document(call, "calls");
}

void rota_api_ledger(struct rota_api_call *call)
{
    rota_api_document(call, "ledger");
}

/* --- changes by operators --- */

/* {"is_dry_run": true}, or nothing. */
static void change_node(struct rota_api_call *call, const char *method)
{
    struct rota_nodes_change request = {0};
    struct rota_error error;
    struct rota_str body = rota_http_body(call->request);
    if (body.size > 0 &&
        rota_message_json_read(&ROTA_NODES_CHANGE, body, &request, &call->arena, &error)) {
        rota_api_refuse(call, 400, error.text);
        return;
    }
    if (request.node.size > 0 && !rota_str_is_equal(request.node, call->names[0])) {
        rota_api_refuse(call, 400, "the body names a different node than the path");
        return;
    }
    request.node = call->names[0];
    rota_api_ask(call, method, &ROTA_NODES_CHANGE, &request, &ROTA_NODES_CHANGED);
}

void rota_api_node_drain(struct rota_api_call *call)
{
    change_node(call, "/rota.v1.Nodes/Drain");
}

void rota_api_node_undrain(struct rota_api_call *call)
{
    change_node(call, "/rota.v1.Nodes/Undrain");
}

void rota_api_node_evict(struct rota_api_call *call)
{
    change_node(call, "/rota.v1.Nodes/Evict");
}

/* --- events --- */

/* The request, while the other nodes are asked. */
struct events_wait {
    struct rota_api_call *call;
    uint64_t after;
    enum rota_event_kind kind;
    bool is_of_kind;
};

static int compare_events(const void *a, const void *b)
{
    const struct rota_event *one = *(const struct rota_event *const *)a;
    const struct rota_event *other = *(const struct rota_event *const *)b;
    if (one->at != other->at)
        return one->at < other->at ? -1 : 1;
    return one->number < other->number ? -1 : one->number > other->number;
}

/* A page has events in the order in which they became known, sorted by when they happened. */
static void on_events_seen(void *data, const struct rota_error *error, struct rota_str document)
{
    enum { AT_ONCE = 1000 };
    const struct rota_event *page[AT_ONCE], *event;
    struct events_wait *wait = data;
    struct rota_api_call *call = wait->call;
    const struct rota_events *events = &call->node->events;
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    uint64_t after = wait->after;
    size_t n = 0;
    (void)error;
    (void)document;
    for (size_t i = 0; n < AT_ONCE && i < ROTA_EVENTS_KEPT; i++) {
        if (!(event = rota_events_next(events, after)))
            break;
        after = event->number;
        if (!wait->is_of_kind || event->kind == wait->kind)
            page[n++] = event;
    }
    qsort(page, n, sizeof page[0], compare_events);
    rota_json_begin_object(&json);
    rota_json_add_array(&json, "events");
    for (size_t i = 0; i < n; i++)
        rota_document_cluster_write_event(call->node, page[i], &json);
    rota_json_end_array(&json);
    rota_json_add_uint(&json, "after", after);
    rota_json_end_object(&json);
    rota_api_answer_json(call, 200, &buffer);
}

void rota_api_events(struct rota_api_call *call)
{
    struct rota_str kind;
    struct events_wait *wait = rota_arena_take(&call->arena, sizeof *wait);
    if (!wait) {
        rota_api_refuse(call, 503, "not enough memory for the response");
        return;
    }
    *wait = (struct events_wait){.call = call};
    if (!rota_api_number(call, "after", UINT64_MAX, 0, &wait->after))
        return;
    if (rota_http_target_find(call->target, "kind", &kind)) {
        wait->is_of_kind = true;
        if (!rota_event_kind_parse(kind, &wait->kind)) {
            rota_api_refuse(call, 400, "kind must be one of " ROTA_EVENT_KIND_NAMES);
            return;
        }
    }
    rota_topic_ask(call->node, &rota_topics[ROTA_TOPIC_CLUSTER], on_events_seen, wait);
}
