/* api: a node's HTTP API, in JSON.
 *
 * A route is a method, a path with stars for its names, and a handler. Most routes call a method
 * of a gRPC service of this very node, which forwards it to the right node: the request is made
 * from the path, the query and the body, the reply is written as JSON by the table of its
 * message. So the page, the command line and programs see the same cluster through any node.
 * `web/openapi.json` describes the routes; a test compares both. */
#pragma once

#include "node/node_inside.h"

#include "base/json.h"
#include "base/list.h"
#include "wire/grpc/http_target.h"
#include "wire/message/message.h"

enum { ROTA_API_NAMES_MAX = 4 };

/* One request, until it is answered. */
struct rota_api_call {
    struct rota_node *node;
    struct rota_http_request *request;
    const struct rota_http_target *target;     /* while the route's handler runs */
    struct rota_str names[ROTA_API_NAMES_MAX]; /* what the stars of the path match */
    struct rota_arena arena;
    char allow[32];             /* of 405: the methods that there are */
    struct rota_list_node link; /* in the node's `calls` */
};

struct rota_api_route {
    enum rota_http_method method;
    const char *path; /* "/api/v1/queues/STAR", where STAR is an asterisk */
    void (*handle)(struct rota_api_call *call);
    const char *summary;
};

/* For the HTTP server; `data` is the node. */
void rota_api_on_request(void *data, struct rota_http_request *request);
bool rota_api_is_urgent(void *data, struct rota_str target);
void rota_api_on_http_full(void *data, enum rota_http_bound bound, const char *peer);
void rota_api_end_requests(struct rota_node *node);

/* Answer, and end the call. */
void rota_api_answer(struct rota_api_call *call, unsigned status, const char *type,
                     struct rota_str body);
void rota_api_answer_json(struct rota_api_call *call, unsigned status, struct rota_buffer *buffer);
void rota_api_refuse(struct rota_api_call *call, unsigned status, const char *why);

/* End the call without an answer: another owner has its request. */
void rota_api_let_go(struct rota_api_call *call);

/* Answer with the whole document of a topic of this name. */
void rota_api_document(struct rota_api_call *call, const char *topic);

/* Call "/rota.v1.Queue/METHOD" of this node, or of another service when `method` is a whole
 * path, and answer with the result: the reply as JSON when there is a type for it, an empty
 * object otherwise. */
void rota_api_ask(struct rota_api_call *call, const char *method,
                  const struct rota_message_type *type, const void *request,
                  const struct rota_message_type *reply_type);

/* The same for a list that has to have something in it: an empty one is 404, with `otherwise`. */
void rota_api_ask_one(struct rota_api_call *call, const char *method,
                      const struct rota_message_type *type, const void *request,
                      const struct rota_message_type *reply_type, const char *otherwise);

/* Whether the request has the node's token. */
bool rota_api_has_token(const struct rota_api_call *call);

/* A number from the query; `otherwise` if it is missing. False: it is not a number, and the call
 * was refused. */
bool rota_api_number(struct rota_api_call *call, const char *name, uint64_t max, uint64_t otherwise,
                     uint64_t *number);

/* --- api_queue.c --- */

void rota_api_queues(struct rota_api_call *call);
void rota_api_queue(struct rota_api_call *call);
void rota_api_queue_pause(struct rota_api_call *call);
void rota_api_queue_resume(struct rota_api_call *call);
void rota_api_jobs(struct rota_api_call *call);
void rota_api_job_add(struct rota_api_call *call);
void rota_api_job(struct rota_api_call *call);
void rota_api_job_cancel(struct rota_api_call *call);
void rota_api_job_retry(struct rota_api_call *call);
void rota_api_workers(struct rota_api_call *call);

/* --- api_metrics.c --- */

void rota_api_metrics(struct rota_api_call *call);

/* --- api_space.c --- */

void rota_api_spaces(struct rota_api_call *call);
void rota_api_space(struct rota_api_call *call);
void rota_api_space_migrate(struct rota_api_call *call);
void rota_api_shard(struct rota_api_call *call);
void rota_api_shard_pin(struct rota_api_call *call);

/* --- api_plan.c --- */

void rota_api_plan(struct rota_api_call *call);
void rota_api_plan_apply(struct rota_api_call *call);
void rota_api_plan_outcome(struct rota_api_call *call);

/* Reject calls that have no answer yet. */
void rota_api_plans_end(struct rota_node *node);

/* --- api_cluster.c --- */

void rota_api_health(struct rota_api_call *call);
void rota_api_ready(struct rota_api_call *call);
void rota_api_node(struct rota_api_call *call);
void rota_api_cluster(struct rota_api_call *call);
void rota_api_node_drain(struct rota_api_call *call);
void rota_api_node_undrain(struct rota_api_call *call);
void rota_api_node_evict(struct rota_api_call *call);
void rota_api_events(struct rota_api_call *call);
void rota_api_calls(struct rota_api_call *call);
void rota_api_ledger(struct rota_api_call *call);

/* --- api_stream.c --- */

void rota_api_stream(struct rota_api_call *call);

/* --- api_group.c --- */

void rota_api_groups(struct rota_api_call *call);
void rota_api_group(struct rota_api_call *call);
