#include "demo/up.h"

#include "base/arena.h"
#include "base/buffer.h"
#include "wire/message/space_message.h"

#include <stdio.h>
#include <stdlib.h>

#define TICK       (250 * ROTA_MSEC)
#define CALL_LIMIT (30 * ROTA_SEC) /* a node is paused for less */

const char rota_up_space[] = "sample-shards";

/* A question in flight. More are sent while a node is paused, so that when it resumes, it answers
 * some that were sent after a later owner was known. */
struct ask {
    struct ask *next;
    struct rota_up_claims *claims;
    uint32_t node;
    uint64_t asked;
};

struct rota_up_claims {
    uv_timer_t timer;
    struct rota_check_claims *check;
    struct {
        struct rota_channel *channel;
        char address[ROTA_CHANNEL_TARGET_MAX];
        size_t n_asks;
    } nodes[ROTA_UP_NODES_MAX];
    size_t n_nodes;
    struct ask *asks;
};

/* --- answers --- */

/* The index of the answer's node among ours; SIZE_MAX: it is not ours. */
static size_t find_node(const struct rota_up_claims *claims, struct rota_str address)
{
    for (size_t i = 0; i < claims->n_nodes; i++)
        if (rota_str_is_equal(address, rota_str(claims->nodes[i].address)))
            return i;
    return SIZE_MAX;
}

static void take_shard(const struct ask *ask, uint32_t shard, struct rota_message_strs nodes,
                       const struct rota_space_claim_info *claim)
{
    struct rota_check_claims *check = ask->claims->check;
    bool is_owned = claim->state == ROTA_SPACE_OWNED && claim->owner > 0 && claim->owner <= nodes.n;
    size_t owner = is_owned ? find_node(ask->claims, nodes.items[claim->owner - 1]) : SIZE_MAX;
    if (claim->epoch)
        rota_check_claims_reported(check, shard, ask->node, owner, claim->epoch, ask->asked);
    if (claim->held)
        rota_check_claims_held(check, shard, ask->node, claim->held, ask->asked);
}

static void take_answer(const struct ask *ask, struct rota_str message)
{
    struct rota_check_claims *check = ask->claims->check;
    struct rota_arena arena = {0};
    struct rota_space_show show;
    if (!rota_message_decode(&ROTA_SPACE_SHOW_REPLY, message, &show, &arena, NULL)) {
        const struct rota_space_claim_info *shards = show.shards.items;
        check->n_answers++;
        for (uint32_t i = 0; i < show.shards.n && i < check->n_shards; i++)
            take_shard(ask, i, show.nodes, &shards[i]);
    }
    rota_arena_deinit(&arena);
}

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct ask *ask = data;
    struct ask **place = &ask->claims->asks;
    (void)call;
    while (*place != ask)
        place = &(*place)->next;
    *place = ask->next;
    ask->claims->nodes[ask->node].n_asks--;
    if (result->status == ROTA_STATUS_OK)
        take_answer(ask, result->message);
    free(ask);
}

/* --- questions --- */

static void put(struct rota_up_claims *claims, uint32_t node)
{
    struct rota_buffer buffer = {0};
    struct rota_space_request request = {.space = rota_str(rota_up_space)};
    struct ask *ask = calloc(1, sizeof *ask);
    rota_message_encode(&ROTA_SPACE_SHOW, &request, &buffer);
    if (ask)
        *ask = (struct ask){
            .claims = claims, .node = node, .asked = rota_check_claims_asked(claims->check)};
    struct rota_call_options options = {.method = rota_str("/rota.v1.Space/Show"),
                                        .request = rota_buffer_str(&buffer),
                                        .timeout = CALL_LIMIT,
                                        .on_end = on_end,
                                        .data = ask};
    if (!ask || buffer.failed ||
        rota_channel_call(claims->nodes[node].channel, &options, NULL, NULL)) {
        free(ask);
    } else {
        ask->next = claims->asks;
        claims->asks = ask;
        claims->nodes[node].n_asks++;
    }
    rota_buffer_deinit(&buffer);
}

static void on_tick(uv_timer_t *timer)
{
    struct rota_up_claims *claims = timer->data;
    for (uint32_t i = 0; i < claims->n_nodes; i++)
        if (claims->nodes[i].n_asks < ROTA_UP_ASKS_MAX)
            put(claims, i);
}

/* --- doors --- */

enum rota_code rota_up_claims_open(uv_loop_t *loop, const char *const *nodes, size_t n,
                                   struct rota_check_claims *claims, struct rota_up_claims **result,
                                   struct rota_error *error)
{
    struct rota_channel_options options = {.backoff_max = ROTA_SEC};
    struct rota_up_claims *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for the owners of shards");
    made->check = claims;
    uv_timer_init(loop, &made->timer);
    made->timer.data = made;
    for (; made->n_nodes < n; made->n_nodes++) {
        snprintf(made->nodes[made->n_nodes].address, ROTA_CHANNEL_TARGET_MAX, "%s",
                 nodes[made->n_nodes]);
        enum rota_code code = rota_channel_open(loop, nodes[made->n_nodes], &options,
                                                &made->nodes[made->n_nodes].channel, error);
        if (code) {
            rota_up_claims_close(made);
            return code;
        }
    }
    uv_timer_start(&made->timer, on_tick, 0, (uint64_t)(TICK / ROTA_MSEC));
    *result = made;
    return ROTA_OK;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void rota_up_claims_close(struct rota_up_claims *claims)
{
    if (!claims)
        return;
    for (size_t i = 0; i < claims->n_nodes; i++)
        rota_channel_close(claims->nodes[i].channel); /* its calls are dropped */
    while (claims->asks) {
        struct ask *ask = claims->asks;
        claims->asks = ask->next;
        free(ask);
    }
    uv_close((uv_handle_t *)&claims->timer, on_closed);
}
