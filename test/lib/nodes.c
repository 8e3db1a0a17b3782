#include "nodes.h"

#include <stdio.h>

/* Keeps RUN_UNTIL from sleeping on after what a timer did. */
static uv_timer_t ticking;

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

void loop_open(void)
{
    uv_loop_init(&loop);
    uv_timer_init(&loop, &ticking);
    uv_timer_start(&ticking, on_tick, 5, 5);
}

void loop_close(void)
{
    uv_close((uv_handle_t *)&ticking, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

void copy_str(char *to, size_t size, struct rota_str from)
{
    snprintf(to, size, "%.*s", ROTA_STR_ARGS(from));
}

void node_on_call(void *data, struct rota_server_call *call)
{
    struct node *node = data;
    struct rota_str epoch = {"", 0};
    size_t n;
    const struct rota_metadata *pairs = rota_server_call_metadata(call, &n);
    rota_metadata_get(pairs, n, "rota-epoch", &epoch);
    copy_str(node->epoch, sizeof node->epoch, epoch);
    copy_str(node->request, sizeof node->request, rota_server_call_request(call));
    node->n_calls++;
    if (node->is_keeping) {
        assert_true(node->n_kept < KEPT_MAX);
        node->kept[node->n_kept++] = call;
        return;
    }
    for (size_t i = 0; i < node->n_costs; i++)
        rota_server_call_cost(call, &node->costs[i]);
    if (node->status == ROTA_STATUS_OK)
        rota_server_call_reply(call, rota_server_call_request(call));
    else
        rota_server_call_finish(call, node->status, "as told", node->metadata, node->n_metadata);
}

static void node_on_cancel(void *data, struct rota_server_call *call)
{
    struct node *node = data;
    node->n_cancelled++;
    for (size_t i = 0; i < node->n_kept; i++)
        if (node->kept[i] == call)
            node->kept[i] = node->kept[--node->n_kept];
    rota_server_call_finish(call, ROTA_STATUS_CANCELLED, NULL, NULL, 0);
}

void node_open_with(struct node *node, int64_t id, struct rota_server_options options,
                    bool is_fenced)
{
    struct rota_server_method work = {.path = METHOD_WORK,
                                      .on_call = node_on_call,
                                      .on_cancel = node_on_cancel,
                                      .data = node,
                                      .is_fenced = is_fenced};
    struct rota_error error;
    *node = (struct node){.id = id};
    if (is_fenced && rota_claims_new(1, &node->claims, &error))
        fail_msg("%s", error.text);
    options.claims = node->claims;
    if (rota_server_open(&loop, &options, &node->server, &error) ||
        rota_health_open(node->server, &node->health, &error) ||
        rota_server_add(node->server, &work, &error) ||
        rota_server_listen(node->server, "127.0.0.1:0", &error))
        fail_msg("%s", error.text);
}

void node_open(struct node *node, int64_t id)
{
    node_open_with(node, id, (struct rota_server_options){0}, false);
}

void node_close(struct node *node)
{
    rota_server_close(node->server);
    rota_health_close(node->health);
    rota_claims_free(node->claims);
    node->server = NULL;
    node->health = NULL;
    node->claims = NULL;
}

struct rota_str node_address(const struct node *node)
{
    return rota_str(rota_server_address(node->server, 0));
}

struct rota_replica node_replica(const struct node *node, uint64_t epoch)
{
    return (struct rota_replica){node->id, node_address(node), epoch, true};
}

void node_claim(const struct node *node, const char *shard, const struct node *owner,
                uint64_t epoch)
{
    struct rota_claim claim = {.space = rota_str("1"),
                               .shard = rota_str(shard),
                               .node = owner->id,
                               .epoch = epoch,
                               .address = node_address(owner),
                               .is_held = node == owner};
    struct rota_error error;
    if (rota_claims_set(node->claims, &claim, &error))
        fail_msg("%s", error.text);
}
