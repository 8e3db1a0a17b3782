/* This node, the others, and what has happened. */
#include "node/api.h"

#include "io/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

void rota_api_health(struct rota_api_call *call)
{
    rota_api_answer(call, 200, "text/plain", rota_str("ok\n"));
}

void rota_api_ready(struct rota_api_call *call)
{
    enum rota_node_state state = rota_node_state(call->node);
    char text[64];
    snprintf(text, sizeof text, "%s\n", rota_node_state_name(state));
    rota_api_answer(call, state == ROTA_NODE_SERVING ? 200 : 503, "text/plain", rota_str(text));
}

void rota_api_metrics(struct rota_api_call *call)
{
    size_t size;
    char *text = rota_metrics_text(call->node->metrics, &size);
    if (text)
        rota_api_answer(call, 200, "text/plain; version=0.0.4; charset=utf-8",
                        rota_str_of(text, size));
    else
        rota_api_refuse(call, 503, "there is no memory for the metrics");
    free(text);
}

/* --- nodes --- */

static void add_str(struct rota_json *json, const char *key, struct rota_str value)
{
    rota_json_key(json, key);
    rota_json_string(json, value);
}

static void add_ms(struct rota_json *json, const char *key, rota_time time)
{
    rota_json_key(json, key);
    rota_json_int(json, time / ROTA_MSEC);
}

static void add_usage(struct rota_json *json)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage))
        return;
    rota_json_key(json, "cpu_ms");
    rota_json_int(json, (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
                            (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000);
    rota_json_key(json, "memory_max");
    rota_json_int(json, usage.ru_maxrss * 1024);
}

static void add_self(struct rota_node *node, struct rota_json *json)
{
    rota_json_begin_object(json);
    add_str(json, "name", rota_str(node->advertise));
    add_str(json, "state", rota_str(rota_node_state_name(node->fsm.state)));
    add_str(json, "zone", rota_str(node->settings->zone));
    add_str(json, "roles", rota_str(node->settings->roles));
    add_str(json, "http", rota_str(rota_http_address(node->http)));
    add_ms(json, "started_ms", node->started_at);
    add_usage(json);
    for (size_t i = 0; i < node->n_roles; i++)
        node->roles[i].role->show(node->roles[i].data, json);
    rota_json_end_object(json);
}

void rota_api_node(struct rota_api_call *call)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    add_self(call->node, &json);
    rota_api_answer_json(call, 200, &buffer);
}

static void add_member(const struct rota_member *member, struct rota_json *json)
{
    rota_json_begin_object(json);
    add_str(json, "name", member->host.address);
    add_str(json, "zone", member->host.zone);
    rota_json_key(json, "weight");
    rota_json_double(json, (double)member->host.weight / ROTA_WEIGHT_ONE);
    rota_json_key(json, "is_draining");
    rota_json_bool(json, member->host.is_draining);
    rota_json_key(json, "is_placed");
    rota_json_bool(json, member->is_placed);
    rota_json_end_object(json);
}

void rota_api_write_cluster(struct rota_node *node, struct rota_json *json)
{
    size_t n;
    const struct rota_member *members = rota_members_list(node->members, &n);
    rota_json_begin_object(json);
    rota_json_key(json, "node");
    add_self(node, json);
    rota_json_key(json, "nodes");
    rota_json_begin_array(json);
    for (size_t i = 0; i < n; i++)
        add_member(&members[i], json);
    rota_json_end_array(json);
    rota_json_end_object(json);
}

void rota_api_cluster(struct rota_api_call *call)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    rota_api_write_cluster(call->node, &json);
    rota_api_answer_json(call, 200, &buffer);
}

/* --- events --- */

void rota_api_write_event(const struct rota_event *event, struct rota_json *json)
{
    rota_json_begin_object(json);
    rota_json_key(json, "number");
    rota_json_uint(json, event->number);
    add_ms(json, "at_ms", event->at);
    rota_json_key(json, "kind");
    rota_json_text(json, rota_event_kind_name(event->kind));
    rota_json_key(json, "subject");
    rota_json_text(json, event->subject);
    rota_json_key(json, "text");
    rota_json_text(json, event->text);
    rota_json_end_object(json);
}

void rota_api_events(struct rota_api_call *call)
{
    enum { AT_ONCE = 1000 };
    const struct rota_events *events = &call->node->events;
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    uint64_t after;
    if (!rota_api_number(call, "after", UINT64_MAX, 0, &after))
        return;
    rota_json_begin_object(&json);
    rota_json_key(&json, "events");
    rota_json_begin_array(&json);
    const struct rota_event *event;
    for (size_t i = 0; i < AT_ONCE && (event = rota_events_next(events, after)); i++) {
        rota_api_write_event(event, &json);
        after = event->number;
    }
    rota_json_end_array(&json);
    rota_json_key(&json, "after");
    rota_json_uint(&json, after);
    rota_json_end_object(&json);
    rota_api_answer_json(call, 200, &buffer);
}
