/* What a node shows over HTTP: whether it is well, metrics, and the API. */
#include "node/node_inside.h"

#include "base/json.h"
#include "io/clock.h"
#include "wire/http_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static const char JSON[] = "application/json";

static void answer(struct rota_http_request *request, unsigned status, const char *type,
                   struct rota_str body)
{
    const struct rota_http_field fields[] = {
        {"Content-Type", type},
        {"Cache-Control", "no-store"},
        {"X-Content-Type-Options", "nosniff"},
        {"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"},
    };
    rota_http_answer(request, status, fields, sizeof fields / sizeof fields[0], body);
}

static void refuse(struct rota_http_request *request, unsigned status, const char *why)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    rota_json_begin_object(&json);
    rota_json_key(&json, "error");
    rota_json_text(&json, why);
    rota_json_end_object(&json);
    rota_buffer_append_char(&buffer, '\n');
    answer(request, status, JSON, rota_buffer_str(&buffer));
    rota_buffer_deinit(&buffer);
}

static void answer_json(struct rota_http_request *request, struct rota_buffer *buffer)
{
    rota_buffer_append_char(buffer, '\n');
    if (buffer->failed)
        refuse(request, 503, "there is no memory for the answer");
    else
        answer(request, 200, JSON, rota_buffer_str(buffer));
    rota_buffer_deinit(buffer);
}

/* --- what there is to see --- */

static void show_health(struct rota_node *node, struct rota_http_request *request)
{
    (void)node;
    answer(request, 200, "text/plain", rota_str("ok\n"));
}

static void show_ready(struct rota_node *node, struct rota_http_request *request)
{
    bool is_ready = node->fsm.state == ROTA_NODE_SERVING;
    char text[64];
    snprintf(text, sizeof text, "%s\n", rota_node_state_name(node->fsm.state));
    answer(request, is_ready ? 200 : 503, "text/plain", rota_str(text));
}

static void show_metrics(struct rota_node *node, struct rota_http_request *request)
{
    size_t size;
    char *text = rota_metrics_text(node->metrics, &size);
    if (!text) {
        refuse(request, 503, "there is no memory for the metrics");
        return;
    }
    answer(request, 200, "text/plain; version=0.0.4; charset=utf-8", rota_str_of(text, size));
    free(text);
}

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

static void add_self(struct rota_node *node, struct rota_json *json)
{
    struct rusage usage;
    rota_json_begin_object(json);
    add_str(json, "name", rota_str(node->advertise));
    add_str(json, "state", rota_str(rota_node_state_name(node->fsm.state)));
    add_str(json, "zone", rota_str(node->settings->zone));
    add_str(json, "roles", rota_str(node->settings->roles));
    add_str(json, "http", rota_str(rota_http_address(node->http)));
    add_ms(json, "started_ms", node->started_at);
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        rota_json_key(json, "cpu_ms");
        rota_json_int(json, (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
                                (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000);
        rota_json_key(json, "memory_max");
        rota_json_int(json, usage.ru_maxrss * 1024);
    }
    for (size_t i = 0; i < node->n_roles; i++)
        node->roles[i].role->show(node->roles[i].data, json);
    rota_json_end_object(json);
}

static void show_node(struct rota_node *node, struct rota_http_request *request)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    add_self(node, &json);
    answer_json(request, &buffer);
}

static void show_cluster(struct rota_node *node, struct rota_http_request *request)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    size_t n;
    const struct rota_member *members = rota_members_list(node->members, &n);
    rota_json_begin_object(&json);
    add_ms(&json, "now_ms", rota_clock_wall());
    rota_json_key(&json, "node");
    add_self(node, &json);
    rota_json_key(&json, "nodes");
    rota_json_begin_array(&json);
    for (size_t i = 0; i < n; i++) {
        rota_json_begin_object(&json);
        add_str(&json, "name", members[i].host.address);
        add_str(&json, "zone", members[i].host.zone);
        rota_json_key(&json, "weight");
        rota_json_double(&json, (double)members[i].host.weight / ROTA_WEIGHT_ONE);
        rota_json_key(&json, "is_draining");
        rota_json_bool(&json, members[i].host.is_draining);
        rota_json_key(&json, "is_placed");
        rota_json_bool(&json, members[i].is_placed);
        rota_json_end_object(&json);
    }
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    answer_json(request, &buffer);
}

/* --- who may see what --- */

struct route {
    const char *path;
    void (*show)(struct rota_node *node, struct rota_http_request *request);
};

static const struct route ROUTES[] = {
    {"/healthz", show_health},   {"/readyz", show_ready},           {"/metrics", show_metrics},
    {"/api/v1/node", show_node}, {"/api/v1/cluster", show_cluster},
};

static bool is_path(const struct rota_http_target *target, const char *path)
{
    for (size_t i = 0; i < target->n_parts; i++) {
        size_t size = target->parts[i].size;
        if (*path++ != '/' || strncmp(path, target->parts[i].data, size) != 0)
            return false;
        path += size;
    }
    return *path == '\0';
}

void rota_node_on_request(void *data, struct rota_http_request *request)
{
    static struct rota_http_target target; /* of one request at a time, on the loop's thread */
    struct rota_node *node = data;
    struct rota_error error;
    struct rota_guard_request question = {
        .is_change = rota_http_method(request) != ROTA_HTTP_GET,
        .has_body = rota_http_body(request).size > 0,
        .host = rota_http_field(request, "Host"),
        .origin = rota_http_field(request, "Origin"),
        .authorization = rota_http_field(request, "Authorization"),
        .content_type = rota_http_field(request, "Content-Type"),
    };
    enum rota_guard_verdict verdict = rota_guard_judge(&node->guard, &question);
    if (verdict) {
        refuse(request, rota_guard_status(verdict), rota_guard_text(verdict));
        return;
    }
    if (rota_http_target_parse(rota_http_target(request), &target, &error)) {
        refuse(request, 400, error.text);
        return;
    }
    for (size_t i = 0; i < sizeof ROUTES / sizeof ROUTES[0]; i++)
        if (is_path(&target, ROUTES[i].path)) {
            if (question.is_change)
                refuse(request, 405, "this can only be looked at");
            else
                ROUTES[i].show(node, request);
            return;
        }
    refuse(request, 404, "there is nothing here");
}
