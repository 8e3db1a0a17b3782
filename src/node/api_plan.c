/* Plans: what a change of nodes would move, doing it, and what came. */
#include "node/api.h"

#include "node/node_plan.h"
#include "node/topics.h"

struct planning {
    struct rota_api_call *call;
    bool is_applied;
};

static void refuse(struct rota_api_call *call, const struct rota_error *error)
{
    rota_api_refuse(call,
                    error->code == ROTA_ERR_NO_MEMORY   ? 503
                    : error->code == ROTA_ERR_NOT_FOUND ? 404
                                                        : 400,
                    error->text);
}

static void on_queues(void *data, const struct rota_error *failure, struct rota_str json_queues)
{
    const struct planning *planning = data;
    struct rota_api_call *call = planning->call;
    struct rota_node_plan *plan;
    struct rota_error error;
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    uint64_t id;
    if (rota_node_plan_new(call->node, rota_http_body(call->request),
                           failure ? rota_str("{}") : json_queues, &plan, &error)) {
        refuse(call, &error);
        return;
    }
    if (!planning->is_applied) {
        rota_node_plan_write(plan, &json);
        rota_node_plan_free(plan);
    } else if (rota_node_plan_apply(plan, &id, &error)) {
        rota_node_plan_free(plan);
        refuse(call, &error);
        return;
    } else {
        rota_json_begin_object(&json);
        rota_json_key(&json, "id");
        rota_json_uint(&json, id);
        rota_json_end_object(&json);
    }
    rota_api_answer_json(call, 200, &buffer);
}

static void on_cluster(void *data, const struct rota_error *failure, struct rota_str json)
{
    const struct planning *planning = data;
    (void)json;
    if (failure)
        rota_api_refuse(planning->call, 503, failure->text);
    else
        rota_topic_ask(planning->call->node, rota_topic_find(rota_str("queues")), on_queues, data);
}

static void begin(struct rota_api_call *call, bool is_applied)
{
    struct planning *planning = rota_arena_take(&call->arena, sizeof *planning);
    if (!planning) {
        rota_api_refuse(call, 503, "there is no memory for a plan");
        return;
    }
    *planning = (struct planning){call, is_applied};
    rota_topic_ask(call->node, &rota_topics[ROTA_TOPIC_CLUSTER], on_cluster, planning);
}

void rota_api_plan(struct rota_api_call *call)
{
    begin(call, false);
}

void rota_api_plan_apply(struct rota_api_call *call)
{
    begin(call, true);
}

static void on_queues_looked(void *data, const struct rota_error *failure, struct rota_str document)
{
    struct rota_api_call *call = data;
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    struct rota_str text = call->names[0];
    uint64_t id = 0;
    bool is_number = text.size > 0 && text.size < 10;
    for (size_t i = 0; is_number && i < text.size; i++) {
        is_number = text.data[i] >= '0' && text.data[i] <= '9';
        id = 10 * id + (uint64_t)(text.data[i] - '0');
    }
    if (is_number &&
        rota_node_plan_write_outcome(call->node, id, failure ? rota_str("{}") : document, &json))
        rota_api_answer_json(call, 200, &buffer);
    else
        rota_api_refuse(call, 404, "this node has applied no such plan");
}

static void on_looked(void *data, const struct rota_error *failure, struct rota_str document)
{
    struct rota_api_call *call = data;
    (void)failure;
    (void)document;
    rota_topic_ask(call->node, rota_topic_find(rota_str("queues")), on_queues_looked, call);
}

void rota_api_plan_outcome(struct rota_api_call *call)
{
    rota_topic_ask(call->node, &rota_topics[ROTA_TOPIC_CLUSTER], on_looked, call);
}
