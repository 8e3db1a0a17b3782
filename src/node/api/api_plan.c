/* Plans: what a change of nodes would move, applying it, and its result.
 *
 * The caller chooses how long that takes, so it is computed on a worker thread, one at a time:
 * the loop only copies what the thread needs. */
#include "node/api/api.h"

#include "node/change/node_plan.h"
#include "node/documents/topics.h"

#include <stdlib.h>
#include <uv.h>

enum planning_kind { PREVIEW, APPLY, LOOK };

struct planning {
    uv_work_t work;
    struct rota_api_call *call; /* NULL: the node stops, and has refused it */
    enum planning_kind kind;
    bool has_token;
    uint64_t id; /* of a comparison */
    struct rota_node_plan *plan;
    struct rota_node_plan_look *look;
    enum rota_code code;
    enum rota_node_plan_verdict verdict;
    struct rota_error error;
    struct rota_buffer buffer;  /* the preview */
    struct rota_list_node link; /* in the node's `plannings`: the first one is being worked out */
};

static void end_planning(struct planning *planning)
{
    rota_list_remove(&planning->link);
    rota_node_plan_free(planning->plan);
    rota_node_plan_look_free(planning->look);
    rota_buffer_deinit(&planning->buffer);
    free(planning);
}

static void refuse_planning(struct planning *planning)
{
    rota_api_refuse(planning->call,
                    planning->verdict == ROTA_NODE_PLAN_NEEDS_TOKEN ? 401
                    : planning->code == ROTA_ERR_NO_MEMORY          ? 503
                    : planning->code == ROTA_ERR_NOT_FOUND          ? 404
                                                                    : 400,
                    planning->error.text);
}

/* --- the worker thread --- */

static void work_out(uv_work_t *work)
{
    struct planning *planning = work->data;
    struct rota_json json = {.buffer = &planning->buffer};
    if (planning->look) {
        planning->code = rota_node_plan_look_work_out(planning->look, &planning->error);
        return;
    }
    planning->code = rota_node_plan_work_out(planning->plan, planning->has_token,
                                             &planning->verdict, &planning->error);
    if (!planning->code && planning->kind == PREVIEW)
        rota_node_plan_write(planning->plan, &json);
}

/* --- the answer --- */

static void apply_planning(struct planning *planning)
{
    struct rota_json json = {.buffer = &planning->buffer};
    uint64_t id;
    planning->code = rota_node_plan_apply(planning->plan, &id, &planning->error);
    if (planning->code)
        return;
    planning->plan = NULL; /* it is the node's */
    rota_json_begin_object(&json);
    rota_json_add_uint(&json, "id", id);
    rota_json_end_object(&json);
}

static void work_on(struct rota_node *node);

static void on_worked_out(uv_work_t *work, int status)
{
    struct planning *planning = work->data;
    struct rota_json json = {.buffer = &planning->buffer};
    (void)status; /* work is never cancelled once a thread has it */
    if (!planning->call) {
        end_planning(planning);
        return;
    }
    struct rota_node *node = planning->call->node;
    if (!planning->code && planning->kind == APPLY)
        apply_planning(planning);
    if (!planning->code && planning->kind == LOOK)
        rota_node_plan_look_write(planning->look, &json);
    if (planning->code)
        refuse_planning(planning);
    else
        rota_api_answer_json(planning->call, 200, &planning->buffer);
    end_planning(planning);
    work_on(node);
}

static void work_on(struct rota_node *node)
{
    struct rota_list_node *first = rota_list_first(&node->plannings);
    if (!first)
        return;
    struct planning *planning = ROTA_LIST_ITEM(first, struct planning, link);
    planning->work.data = planning;
    uv_queue_work(node->loop, &planning->work, work_out, on_worked_out);
}

/* Copy the current state, and wait for the thread. */
static void begin_work(struct planning *planning, struct rota_str queues)
{
    struct rota_api_call *call = planning->call;
    struct rota_node *node = call->node;
    size_t n = 0;
    for (struct rota_list_node *at = node->plannings.next; at != &node->plannings; at = at->next)
        n++;
    if (n >= ROTA_NODE_PLANNINGS_MAX) {
        rota_api_refuse(call, 429, "this node is computing other plans; try again later");
        end_planning(planning);
        return;
    }
    planning->code =
        planning->kind == LOOK
            ? rota_node_plan_look_new(node, planning->id, queues, &planning->look, &planning->error)
            : rota_node_plan_new(node, rota_http_body(call->request), queues, &planning->plan,
                                 &planning->error);
    if (!planning->code && !planning->plan && !planning->look)
        planning->code = rota_error_set(&planning->error, ROTA_ERR_NOT_FOUND,
                                        "no such plan: this node has not applied it");
    if (planning->code) {
        refuse_planning(planning);
        end_planning(planning);
        return;
    }
    rota_list_push(&node->plannings, &planning->link);
    if (n == 0)
        work_on(node);
}

static void on_queues(void *data, const struct rota_error *failure, struct rota_str queues)
{
    begin_work(data, failure ? rota_str("") : queues);
}

static void on_cluster(void *data, const struct rota_error *failure, struct rota_str json)
{
    struct planning *planning = data;
    (void)json;
    if (failure && planning->kind != LOOK) {
        rota_api_refuse(planning->call, 503, failure->text);
        end_planning(planning);
        return;
    }
    rota_topic_ask_queues(planning->call->node, true, on_queues, planning);
}

static void begin_planning(struct rota_api_call *call, enum planning_kind kind, uint64_t id)
{
    struct planning *planning = calloc(1, sizeof *planning);
    if (!planning) {
        rota_api_refuse(call, 503, "not enough memory for a plan");
        return;
    }
    *planning = (struct planning){
        .call = call, .kind = kind, .id = id, .has_token = rota_api_has_token(call)};
    rota_topic_ask(call->node, &rota_topics[ROTA_TOPIC_CLUSTER], on_cluster, planning);
}

void rota_api_plan(struct rota_api_call *call)
{
    begin_planning(call, PREVIEW, 0);
}

void rota_api_plan_apply(struct rota_api_call *call)
{
    begin_planning(call, APPLY, 0);
}

void rota_api_plan_outcome(struct rota_api_call *call)
{
    struct rota_str text = call->names[0];
    uint64_t id = 0;
    bool is_number = text.size > 0 && text.size < 10;
    for (size_t i = 0; is_number && i < text.size; i++) {
        is_number = text.data[i] >= '0' && text.data[i] <= '9';
        id = 10 * id + (uint64_t)(text.data[i] - '0');
    }
    if (is_number)
        begin_planning(call, LOOK, id);
    else
        rota_api_refuse(call, 404, "no such plan: this node has not applied it");
}

/* The first one is with the thread, and ends when the thread is done. */
void rota_api_plans_end(struct rota_node *node)
{
    bool is_working = true;
    ROTA_LIST_DRAIN (planning, &node->plannings, struct planning, link) {
        rota_api_refuse(planning->call, 503, "this node is stopping");
        rota_list_remove(&planning->link);
        planning->call = NULL;
        if (!is_working)
            end_planning(planning);
        is_working = false;
    }
}
