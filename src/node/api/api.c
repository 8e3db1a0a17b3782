#include "node/api/api.h"

#include "base/metrics.h"
#include "node/api/pages.h"
#include "node/documents/topics.h"
#include "wire/message/message_json.h"
#include "wire/message/queue_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_TIMEOUT (10 * ROTA_SEC)

static void answer_routes(struct rota_api_call *call);
static void answer_openapi(struct rota_api_call *call);

static const struct rota_api_route ROUTES[] = {
    {ROTA_HTTP_GET, "/healthz", rota_api_health, "whether the process runs"},
    {ROTA_HTTP_GET, "/readyz", rota_api_ready, "whether the node is serving"},
    {ROTA_HTTP_GET, "/metrics", rota_api_metrics, "metrics in the Prometheus text format"},
    {ROTA_HTTP_GET, "/api/v1", answer_routes, "the list of routes"},
    {ROTA_HTTP_GET, "/api/v1/openapi.json", answer_openapi, "the OpenAPI description"},
    {ROTA_HTTP_GET, "/api/v1/node", rota_api_node, "this node"},
    {ROTA_HTTP_GET, "/api/v1/cluster", rota_api_cluster, "all nodes and the ring"},
    {ROTA_HTTP_POST, "/api/v1/nodes/*/drain", rota_api_node_drain, "drain a node"},
    {ROTA_HTTP_POST, "/api/v1/nodes/*/undrain", rota_api_node_undrain, "undrain a node"},
    {ROTA_HTTP_POST, "/api/v1/nodes/*/evict", rota_api_node_evict, "mark a node as dead"},
    {ROTA_HTTP_GET, "/api/v1/events", rota_api_events, "events of all nodes"},
    {ROTA_HTTP_GET, "/api/v1/stream", rota_api_stream, "all documents as they change"},
    {ROTA_HTTP_POST, "/api/v1/plan", rota_api_plan, "preview a change"},
    {ROTA_HTTP_POST, "/api/v1/plan/apply", rota_api_plan_apply, "apply a change"},
    {ROTA_HTTP_GET, "/api/v1/plans/*", rota_api_plan_outcome, "the outcome of a plan"},
    {ROTA_HTTP_GET, "/api/v1/queues", rota_api_queues, "all queues"},
    {ROTA_HTTP_GET, "/api/v1/queues/*", rota_api_queue, "one queue"},
    {ROTA_HTTP_POST, "/api/v1/queues/*/pause", rota_api_queue_pause, "pause a queue"},
    {ROTA_HTTP_POST, "/api/v1/queues/*/resume", rota_api_queue_resume, "resume a queue"},
    {ROTA_HTTP_GET, "/api/v1/queues/*/jobs", rota_api_jobs, "the jobs of a queue in one state"},
    {ROTA_HTTP_POST, "/api/v1/queues/*/jobs", rota_api_job_add, "add a job"},
    {ROTA_HTTP_GET, "/api/v1/queues/*/jobs/*", rota_api_job, "one job, with its history"},
    {ROTA_HTTP_POST, "/api/v1/queues/*/jobs/*/cancel", rota_api_job_cancel, "cancel a job"},
    {ROTA_HTTP_POST, "/api/v1/queues/*/jobs/*/retry", rota_api_job_retry,
     "retry a dead or cancelled job"},
    {ROTA_HTTP_GET, "/api/v1/calls", rota_api_calls, "call statistics of each replica"},
    {ROTA_HTTP_GET, "/api/v1/groups", rota_api_groups, "the watched groups"},
    {ROTA_HTTP_GET, "/api/v1/groups/*", rota_api_group,
     "one group and the history of its partitions"},
    {ROTA_HTTP_GET, "/api/v1/ledger", rota_api_ledger, "the state of a chaos test"},
    {ROTA_HTTP_GET, "/api/v1/spaces", rota_api_spaces, "all spaces"},
    {ROTA_HTTP_GET, "/api/v1/spaces/*", rota_api_space, "the owners of a space's shards"},
    {ROTA_HTTP_POST, "/api/v1/spaces/*/migrate", rota_api_space_migrate,
     "switch a space to another engine"},
    {ROTA_HTTP_GET, "/api/v1/spaces/*/shards/*", rota_api_shard,
     "one shard, and why it is placed there"},
    {ROTA_HTTP_POST, "/api/v1/spaces/*/shards/*/pin", rota_api_shard_pin, "pin or unpin a shard"},
    {ROTA_HTTP_GET, "/api/v1/workers", rota_api_workers, "the connected workers"},
};
enum { N_ROUTES = sizeof ROUTES / sizeof ROUTES[0] };

/* --- answers --- */

void rota_api_let_go(struct rota_api_call *call)
{
    rota_list_remove(&call->link);
    rota_arena_deinit(&call->arena);
    free(call);
}

/* Count one more answer with this status. */
static void count_answer(const struct rota_api_call *call, unsigned status)
{
    char text[16];
    snprintf(text, sizeof text, "%u", status);
    struct rota_label label = {"status", rota_str(text)};
    rota_counter_add(rota_metrics_counter(call->node->metrics, "rota_http_answers_total",
                                          "HTTP responses, by status.", &label, 1),
                     1);
}

void rota_api_answer(struct rota_api_call *call, unsigned status, const char *type,
                     struct rota_str body)
{
    const struct rota_http_field fields[] = {
        {"Content-Type", type},
        {"Cache-Control", "no-store"},
        {"X-Content-Type-Options", "nosniff"},
        {"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"},
        {"Allow", call->allow},
    };
    size_t n_fields = sizeof fields / sizeof fields[0] - (call->allow[0] == '\0');
    count_answer(call, status);
    rota_http_answer(call->request, status, fields, n_fields, body);
    rota_api_let_go(call);
}

void rota_api_answer_json(struct rota_api_call *call, unsigned status, struct rota_buffer *buffer)
{
    rota_buffer_append_char(buffer, '\n');
    if (buffer->failed)
        rota_api_answer(call, 503, "application/json",
                        rota_str("{\"error\":\"not enough memory for the response\"}\n"));
    else
        rota_api_answer(call, status, "application/json", rota_buffer_str(buffer));
    rota_buffer_deinit(buffer);
}

void rota_api_refuse(struct rota_api_call *call, unsigned status, const char *why)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    rota_json_begin_object(&json);
    rota_json_add_text(&json, "error", why);
    rota_json_end_object(&json);
    rota_api_answer_json(call, status, &buffer);
}

bool rota_api_number(struct rota_api_call *call, const char *name, uint64_t max, uint64_t otherwise,
                     uint64_t *number)
{
    struct rota_str text;
    char why[128];
    uint64_t read = 0;
    *number = otherwise;
    if (!rota_http_target_find(call->target, name, &text))
        return true;
    bool is_number = text.size > 0;
    for (size_t i = 0; is_number && i < text.size; i++)
        is_number = text.data[i] >= '0' && text.data[i] <= '9' &&
                    !__builtin_mul_overflow(read, 10, &read) &&
                    !__builtin_add_overflow(read, (uint64_t)(text.data[i] - '0'), &read);
    *number = read;
    if (is_number && read <= max)
        return true;
    snprintf(why, sizeof why, "%s must be a whole number up to %llu", name,
             (unsigned long long)max);
    rota_api_refuse(call, 400, why);
    return false;
}

/* --- through gRPC --- */

struct question {
    struct rota_api_call *call;
    const struct rota_message_type *reply_type;
    const char
        *otherwise; /* the error for an empty list; NULL: it is not a list, or may be empty */
};

static unsigned http_status(enum rota_status status)
{
    switch (status) {
    case ROTA_STATUS_OK:
        return 200;
    case ROTA_STATUS_INVALID_ARGUMENT:
    case ROTA_STATUS_OUT_OF_RANGE:
        return 400;
    case ROTA_STATUS_UNAUTHENTICATED:
        return 401;
    case ROTA_STATUS_PERMISSION_DENIED:
        return 403;
    case ROTA_STATUS_NOT_FOUND:
        return 404;
    case ROTA_STATUS_ALREADY_EXISTS:
    case ROTA_STATUS_FAILED_PRECONDITION:
    case ROTA_STATUS_ABORTED:
        return 409;
    case ROTA_STATUS_RESOURCE_EXHAUSTED:
        return 429;
    case ROTA_STATUS_UNIMPLEMENTED:
        return 501;
    case ROTA_STATUS_UNAVAILABLE:
        return 503;
    case ROTA_STATUS_DEADLINE_EXCEEDED:
    case ROTA_STATUS_CANCELLED:
        return 504;
    case ROTA_STATUS_UNKNOWN:
    case ROTA_STATUS_INTERNAL:
    case ROTA_STATUS_DATA_LOSS:
        return 500;
    }
    return 500;
}

static void answer_reply(const struct question *question, struct rota_str message)
{
    struct rota_api_call *call = question->call;
    const struct rota_message_type *type = question->reply_type;
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    struct rota_error error;
    if (type) {
        void *reply = rota_arena_take(&call->arena, type->size);
        if (!reply) {
            rota_api_refuse(call, 503, "not enough memory for the response");
            return;
        }
        if (rota_message_decode(type, message, reply, &call->arena, &error)) {
            rota_api_refuse(call, 500, error.text);
            return;
        }
        if (question->otherwise && ((const struct rota_queue_list *)reply)->items.n == 0) {
            rota_api_refuse(call, 404, question->otherwise);
            return;
        }
        rota_message_json_write(type, reply, &json);
    } else {
        rota_json_begin_object(&json);
        rota_json_end_object(&json);
    }
    rota_api_answer_json(call, 200, &buffer);
}

static void on_question_end(void *data, struct rota_call *made,
                            const struct rota_call_result *result)
{
    struct question *question = data;
    struct rota_api_call *call = question->call;
    char why[512];
    (void)made;
    if (result->status == ROTA_STATUS_OK) {
        answer_reply(question, result->message);
        return;
    }
    snprintf(why, sizeof why, "%.*s", ROTA_STR_ARGS(result->text));
    rota_api_refuse(call, http_status(result->status),
                    why[0] ? why : rota_status_name(result->status));
}

void rota_api_ask_one(struct rota_api_call *call, const char *method,
                      const struct rota_message_type *type, const void *request,
                      const struct rota_message_type *reply_type, const char *otherwise)
{
    struct rota_buffer message = {0};
    struct rota_error error = {0};
    char path[64];
    struct question *question = rota_arena_take(&call->arena, sizeof *question);
    if (type)
        rota_message_encode(type, request, &message);
    if (!question || message.failed) {
        rota_buffer_deinit(&message);
        rota_api_refuse(call, 503, "not enough memory for the request");
        return;
    }
    *question = (struct question){call, reply_type, otherwise};
    snprintf(path, sizeof path, "%s%s", method[0] == '/' ? "" : "/rota.v1.Queue/", method);
    /* The guard has seen the token of every request that changes something. */
    char peer[ROTA_ADDRESS_TEXT_MAX], who[ROTA_SERVER_ACTOR_MAX];
    snprintf(who, sizeof who, "an operator with the token, over HTTP, from %s",
             rota_http_peer(call->request, peer));
    const struct rota_metadata actor = {rota_str(ROTA_NOTE_ACTOR), rota_str(who)};
    struct rota_call_options options = {
        .method = rota_str(path),
        .request = rota_buffer_str(&message),
        .metadata = &actor,
        .n_metadata = 1,
        .timeout = ASK_TIMEOUT,
        .on_end = on_question_end,
        .data = question,
    };
    if (rota_channel_call(call->node->self, &options, NULL, &error))
        rota_api_refuse(call, 503, error.text);
    rota_buffer_deinit(&message);
}

void rota_api_ask(struct rota_api_call *call, const char *method,
                  const struct rota_message_type *type, const void *request,
                  const struct rota_message_type *reply_type)
{
    rota_api_ask_one(call, method, type, request, reply_type, NULL);
}

/* --- documents --- */

static void on_document(void *data, const struct rota_error *error, struct rota_str json)
{
    struct rota_api_call *call = data;
    struct rota_buffer buffer = {0};
    if (error) {
        rota_api_refuse(call, 503, error->text);
        return;
    }
    rota_buffer_append_str(&buffer, json);
    rota_api_answer_json(call, 200, &buffer);
}

void rota_api_document(struct rota_api_call *call, const char *topic)
{
    rota_topic_ask(call->node, rota_topic_find(rota_str(topic)), on_document, call);
}

/* --- routes --- */

/* Whether the path matches, star by star; what the stars match goes to `names`. */
static bool fits_path(const char *path, const struct rota_http_target *target,
                      struct rota_str names[ROTA_API_NAMES_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < target->n_parts; i++) {
        if (*path++ != '/')
            return false;
        size_t size = strcspn(path, "/");
        if (size == 1 && *path == '*')
            names[n++] = target->parts[i];
        else if (!rota_str_is_equal(target->parts[i], rota_str_of(path, size)))
            return false;
        path += size;
    }
    return *path == '\0';
}

static const struct rota_page *find_page(struct rota_str path)
{
    for (size_t i = 0; i < rota_n_pages; i++)
        if (rota_str_is_equal(path, rota_str(rota_pages[i].path)))
            return &rota_pages[i];
    return NULL;
}

static const char *const METHODS[] = {[ROTA_HTTP_GET] = "GET",
                                      [ROTA_HTTP_POST] = "POST",
                                      [ROTA_HTTP_PUT] = "PUT",
                                      [ROTA_HTTP_DELETE] = "DELETE"};

/* One more method of this path. */
static void note_method(struct rota_api_call *call, enum rota_http_method method)
{
    size_t size = strlen(call->allow);
    snprintf(call->allow + size, sizeof call->allow - size, "%s%s%s", size > 0 ? ", " : "",
             METHODS[method], method == ROTA_HTTP_GET ? ", HEAD" : "");
}

/* The route, or NULL: `*status` says whether it exists for another method. */
static const struct rota_api_route *find_route(struct rota_api_call *call, unsigned *status)
{
    *status = 404;
    for (size_t i = 0; i < N_ROUTES; i++) {
        if (!fits_path(ROUTES[i].path, call->target, call->names))
            continue;
        if (ROUTES[i].method == rota_http_method(call->request)) {
            call->allow[0] = '\0';
            return &ROUTES[i];
        }
        note_method(call, ROUTES[i].method);
        *status = 405;
    }
    if (find_page(rota_http_target(call->request)) &&
        rota_http_method(call->request) != ROTA_HTTP_GET) {
        note_method(call, ROTA_HTTP_GET);
        *status = 405;
    }
    return NULL;
}

static void answer_routes(struct rota_api_call *call)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    rota_json_begin_object(&json);
    rota_json_add_array(&json, "routes");
    for (size_t i = 0; i < N_ROUTES; i++) {
        rota_json_begin_object(&json);
        rota_json_add_text(&json, "method", METHODS[ROUTES[i].method]);
        rota_json_add_text(&json, "path", ROUTES[i].path);
        rota_json_add_text(&json, "summary", ROUTES[i].summary);
        rota_json_end_object(&json);
    }
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_api_answer_json(call, 200, &buffer);
}

static void answer_openapi(struct rota_api_call *call)
{
    const struct rota_page *page = find_page(rota_str("/openapi.json"));
    if (page)
        rota_api_answer(call, 200, page->type, rota_str_of(page->bytes, page->size));
    else
        rota_api_refuse(call, 404, "this rotad was built without the OpenAPI description");
}

/* A file of the dashboard; false if the path is not one. The page loads nothing from other sites,
 * and can't be shown in a frame. */
static bool show_page(struct rota_api_call *call)
{
    const struct rota_page *page = find_page(rota_http_target(call->request));
    if (!page || rota_http_method(call->request) != ROTA_HTTP_GET)
        return false;
    const struct rota_http_field fields[] = {
        {"Content-Type", page->type},
        {"ETag", page->tag},
        {"Cache-Control", "no-cache"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; "
                                    "frame-ancestors 'none'"},
    };
    bool is_known =
        rota_str_is_equal(rota_http_field(call->request, "If-None-Match"), rota_str(page->tag));
    count_answer(call, is_known ? 304 : 200);
    rota_http_answer_static(call->request, is_known ? 304 : 200, fields,
                            sizeof fields / sizeof fields[0],
                            rota_str_of(page->bytes, is_known ? 0 : page->size));
    rota_api_let_go(call);
    return true;
}

/* Without a route nothing can be changed: a request with the right host name gets that answer. */
static enum rota_guard_verdict judge_request(const struct rota_node *node,
                                             const struct rota_http_request *request,
                                             const struct rota_api_route *route)
{
    struct rota_guard_request question = {
        .is_change = route && route->method != ROTA_HTTP_GET,
        .is_preview = route && route->handle == rota_api_plan,
        .has_body = rota_http_body(request).size > 0,
        .host = rota_http_field(request, "Host"),
        .origin = rota_http_field(request, "Origin"),
        .authorization = rota_http_field(request, "Authorization"),
        .content_type = rota_http_field(request, "Content-Type"),
    };
    return rota_guard_judge(&node->guard, &question);
}

bool rota_api_has_token(const struct rota_api_call *call)
{
    return !rota_guard_judge_token(&call->node->guard,
                                   rota_http_field(call->request, "Authorization"));
}

/* The names of a call point into its target, so that lives as long. */
struct whole_call {
    struct rota_api_call call;
    struct rota_http_target target;
};

void rota_api_on_request(void *data, struct rota_http_request *request)
{
    struct rota_node *node = data;
    struct rota_error error;
    unsigned status = 404;
    struct whole_call *whole = calloc(1, sizeof *whole);
    if (!whole) {
        rota_http_answer(request, 503, NULL, 0, rota_str(""));
        return;
    }
    struct rota_api_call *call = &whole->call;
    *call = (struct rota_api_call){.node = node, .request = request, .target = &whole->target};
    rota_list_push(&node->calls, &call->link);
    enum rota_code code = rota_http_target_parse(rota_http_target(request), &whole->target, &error);
    const struct rota_api_route *route = code ? NULL : find_route(call, &status);
    enum rota_guard_verdict verdict = judge_request(node, request, route);
    if (verdict || code) {
        rota_api_refuse(call, verdict ? rota_guard_status(verdict) : 400,
                        verdict ? rota_guard_text(verdict) : error.text);
        return;
    }
    if (show_page(call))
        return;
    if (route)
        route->handle(call);
    else
        rota_api_refuse(call, status, status == 405 ? "method not allowed here" : "no such path");
}

/* Routes that show whether a node is well, served even when it is full. */
bool rota_api_is_urgent(void *data, struct rota_str target)
{
    static const char *const URGENT[] = {"/healthz", "/readyz", "/metrics"};
    (void)data;
    for (size_t i = 0; i < sizeof URGENT / sizeof URGENT[0]; i++)
        if (rota_str_is_equal(target, rota_str(URGENT[i])))
            return true;
    return false;
}

void rota_api_on_http_full(void *data, enum rota_http_bound bound, const char *peer)
{
    static const char *const NAMES[ROTA_HTTP_BOUNDS] = {[ROTA_HTTP_BOUND_PEER] = "peer",
                                                        [ROTA_HTTP_BOUND_CONNECTIONS] =
                                                            "connections",
                                                        [ROTA_HTTP_BOUND_BODIES] = "bytes"};
    struct rota_node *node = data;
    struct rota_label label = {"bound", rota_str(NAMES[bound])};
    uint64_t n;
    rota_counter_add(
        rota_metrics_counter(node->metrics, "rota_http_full_total",
                             "Times an HTTP connection limit was reached: connections of one peer "
                             "address, all connections, or bytes held by requests.",
                             &label, 1),
        1);
    if (rota_places_note_refusal(&node->refusals[bound], rota_clock_mono(), &n))
        rota_log(node->log, rota_clock_wall(), ROTA_LOG_WARN, "HTTP rejected: a limit is reached",
                 ROTA_LOG_FACT("bound", NAMES[bound]), ROTA_LOG_FACT("times", n),
                 ROTA_LOG_FACT("peer", peer));
}

void rota_api_end_requests(struct rota_node *node)
{
    ROTA_LIST_DRAIN (call, &node->calls, struct rota_api_call, link)
        rota_api_refuse(call, 503, "this node is stopping");
}
