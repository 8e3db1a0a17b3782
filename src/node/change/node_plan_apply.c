/* Applying a plan. */
#include "node/change/node_plan_inside.h"

#include "node/change/node_change.h"
#include "node/documents/peers.h"
#include "wire/message/queue_message.h"

#include <stdio.h>
#include <stdlib.h>

/* --- applying --- */

static void free_unused(struct rota_node_plan *plan)
{
    if (plan->is_freed && plan->n_under_way == 0 && plan->n_looks == 0)
        rota_node_plan_free(plan);
}

/* A drain in progress still calls us back, and a comparison may be in a worker thread. */
static void release_plan(struct rota_node_plan *plan)
{
    rota_list_remove(&plan->link);
    plan->is_freed = true;
    free_unused(plan);
}

static void ask_more(struct rota_node_plan *plan);

static void settle_step(struct rota_node_plan *plan, const char *failure)
{
    plan->n_under_way--;
    if (failure)
        snprintf(plan->failure, sizeof plan->failure, "%s", failure);
    if (plan->is_freed)
        free_unused(plan);
    else if (!plan->is_asking)
        ask_more(plan);
}

void rota_node_plan_apply_look_ended(struct rota_node_plan *plan)
{
    plan->n_looks--;
    free_unused(plan);
}

static void on_drained(void *data, struct rota_server_call *call, const struct rota_error *error,
                       const struct rota_nodes_changed *changed)
{
    struct rota_node_plan *plan = data;
    (void)call;
    (void)changed;
    settle_step(plan, error ? error->text : NULL);
}

bool rota_node_plan_apply_is_going(const struct rota_node_plan_host *host)
{
    return host->weight_before > 0 && host->weight_after == 0;
}

/* It needs an action; new nodes join by themselves. */
static bool is_changed(const struct rota_node_plan_host *host)
{
    return host->weight_before > 0 && host->weight_after != host->weight_before;
}

/* A call to a node, for its weight or a queue. */
struct asking {
    struct rota_node_plan *plan;
    struct rota_channel *channel;
};

static void on_asked(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct asking *asking = data;
    struct rota_node_plan *plan = asking->plan;
    char text[ROTA_ERROR_TEXT_MAX];
    (void)call;
    snprintf(text, sizeof text, "%s: %s: %.*s", rota_channel_target(asking->channel),
             rota_status_name(result->status),
             (int)(result->text.size < 300 ? result->text.size : 300), result->text.data);
    bool has_failed = result->status != ROTA_STATUS_OK;
    rota_channel_close(asking->channel);
    free(asking);
    settle_step(plan, has_failed ? text : NULL);
}

static void ask_host(struct rota_node_plan *plan, struct rota_str host, const char *method,
                     const struct rota_message_type *type, const void *request)
{
    struct rota_buffer bytes = {0};
    struct rota_error error;
    struct asking *asking = calloc(1, sizeof *asking);
    rota_message_encode(type, request, &bytes);
    struct rota_call_options options = {.method = rota_str(method),
                                        .request = rota_buffer_str(&bytes),
                                        .timeout = 10 * ROTA_SEC,
                                        .wait_for_ready = true,
                                        .on_end = on_asked,
                                        .data = asking};
    enum rota_code code = asking && !bytes.failed ? ROTA_OK : rota_node_plan_no_memory(&error);
    if (!code) {
        asking->plan = plan;
        code = rota_node_open_channel(plan->node, host.data, 0, &asking->channel, &error);
    }
    if (!code)
        code = rota_channel_call(asking->channel, &options, NULL, &error);
    rota_buffer_deinit(&bytes);
    if (code) {
        rota_channel_close(asking ? asking->channel : NULL);
        free(asking);
        settle_step(plan, error.text);
    }
}

static void weigh_host(struct rota_node_plan *plan, const struct rota_node_plan_host *host,
                       rota_time after)
{
    const struct rota_nodes_change request = {.node = host->name,
                                              .weight = host->weight_after,
                                              .delay_ms = (uint64_t)(after / ROTA_MSEC)};
    ask_host(plan, host->name, "/rota.v1.Nodes/Weigh", &ROTA_NODES_WEIGH, &request);
}

/* Any node that holds queues and stays forwards it to the others. */
static void lay_out(struct rota_node_plan *plan, const struct rota_node_plan_thing *thing)
{
    const struct rota_queue_lay_out request = {
        .queue = thing->name,
        .partitions = thing->wished.wanted,
        .has_spread = rota_node_plan_spread_differs(&thing->layout, &thing->wished),
        .gradual_ms = (uint64_t)(plan->gradual / ROTA_MSEC),
        .batch = thing->wished.spread.batch,
        .is_slots = thing->wished.spread.mode == ROTA_SPREAD_SLOTS};
    for (size_t i = 0; i < plan->hosts.size; i++) {
        const struct rota_node_plan_host *host = &plan->hosts.items[i];
        if (host->has_queues && host->weight_before > 0 && host->weight_after > 0) {
            ask_host(plan, host->name, "/rota.v1.Queue/SetLayout", &ROTA_QUEUE_SET_LAYOUT,
                     &request);
            return;
        }
    }
    settle_step(plan, "no remaining node has the role queue");
}

bool rota_node_plan_apply_is_in_progress(const struct rota_node_plan *plan)
{
    return plan->next_host < plan->hosts.size || plan->next_thing < plan->things.size ||
           plan->n_under_way > 0;
}

/* The hosts that change do so one after the other, if the plan is gradual. */
static void change_host(struct rota_node_plan *plan, const struct rota_node_plan_host *host)
{
    rota_time after = plan->n_changed++ * plan->every;
    plan->n_under_way++;
    if (rota_node_plan_apply_is_going(host))
        rota_node_change_drain(plan->node, host->name, after, on_drained, plan);
    else
        weigh_host(plan, host, after);
}

/* Every change is asked for now, a few at a time: when a host drains is up to the store, when it
 * has another weight to the host, when the partitions of a queue change to its layout, which the
 * nodes keep. */
static void ask_more(struct rota_node_plan *plan)
{
    plan->is_asking = true;
    while (plan->next_host < plan->hosts.size && plan->n_under_way < ROTA_NODE_PLAN_ASKS_MAX) {
        const struct rota_node_plan_host *host = &plan->hosts.items[plan->next_host++];
        if (is_changed(host))
            change_host(plan, host);
    }
    while (plan->next_thing < plan->things.size && plan->n_under_way < ROTA_NODE_PLAN_ASKS_MAX) {
        const struct rota_node_plan_thing *thing = &plan->things.items[plan->next_thing++];
        if (!rota_node_plan_is_changed(thing))
            continue;
        plan->n_under_way++;
        lay_out(plan, thing);
    }
    plan->is_asking = false;
}

static void forget_oldest(struct rota_node *node)
{
    struct rota_list_node *link = rota_list_first(&node->plans);
    size_t n = 0;
    for (struct rota_list_node *at = link; at && at != &node->plans; at = at->next)
        n++;
    if (n >= ROTA_NODE_PLANS_MAX)
        release_plan(ROTA_LIST_ITEM(link, struct rota_node_plan, link));
}

enum rota_code rota_node_plan_apply(struct rota_node_plan *plan, uint64_t *id,
                                    struct rota_error *error)
{
    struct rota_node *node = plan->node;
    size_t n_hosts = 0, n_queues = 0, n_left = 0;
    for (size_t i = 0; i < plan->hosts.size; i++) {
        n_left += plan->hosts.items[i].weight_after > 0 && plan->hosts.items[i].weight_before > 0;
        n_hosts += is_changed(&plan->hosts.items[i]);
    }
    for (size_t i = 0; i < plan->things.size; i++)
        n_queues += rota_node_plan_is_changed(&plan->things.items[i]);
    if (n_left == 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "no node would be left");
    forget_oldest(node);
    plan->id = *id = ++node->n_plans;
    plan->moved_at = rota_clock_boot() + plan->gradual;
    rota_node_note(node, ROTA_EVENT_OPERATOR, rota_str("plan"),
                   "%llu is applied: %zu nodes and queues to change", (unsigned long long)plan->id,
                   n_hosts + n_queues);
    plan->every = n_hosts > 1 ? plan->gradual / (rota_time)(n_hosts - 1) : 0;
    rota_list_push(&node->plans, &plan->link);
    ask_more(plan);
    return ROTA_OK;
}

void rota_node_plans_end(struct rota_node *node)
{
    ROTA_LIST_DRAIN (plan, &node->plans, struct rota_node_plan, link)
        release_plan(plan);
}
