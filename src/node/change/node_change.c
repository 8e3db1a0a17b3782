#include "node/change/node_change.h"

#include "node/change/node_moves.h"
#include "node/documents/topics.h"
#include "node/node_inside.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

struct change {
    struct rota_node *node;
    enum rota_store_member_state state;
    rota_time after; /* of a drain; 0: now */
    bool is_dry_run;
    rota_node_on_changed *on_changed;
    void *data;
    struct rota_server_call *call;
    struct rota_list_node link; /* in the node's `changes`, while a thread or the store works */

    uv_work_t work;
    bool is_working, is_ended; /* answered, but a thread still has it */
    struct rota_node_moves moves;
    char address[ROTA_STORE_NAME_MAX + 1]; /* at first as it was given: perhaps its name */
    char actor[ROTA_SERVER_ACTOR_MAX]; /* as of the request: later its connection may be closed */
};

static void free_change(struct change *change)
{
    rota_node_moves_deinit(&change->moves);
    free(change);
}

static void finish_change(struct change *change, const struct rota_error *error, bool is_done)
{
    const struct rota_nodes_changed changed = {.plan = {change->moves.plan, change->moves.n},
                                               .is_done = is_done,
                                               .node = rota_str(change->address)};
    rota_list_remove(&change->link);
    change->on_changed(change->data, change->call, error, &changed);
    change->is_ended = true;
    if (!change->is_working)
        free_change(change);
}

static void fail_change(struct change *change, enum rota_code code, const char *why)
{
    struct rota_error error;
    rota_error_set(&error, code, "%s: %s", change->address, why);
    finish_change(change, &error, false);
}

static void on_set(void *data, const struct rota_store_answer *answer)
{
    static const char *const WORDS[] = {"is undrained", "is being drained", "is evicted"};
    struct change *change = data;
    if (answer->code) {
        fail_change(change, answer->code, answer->error.text);
    } else if (!answer->is_done) {
        fail_change(change, ROTA_ERR_NOT_FOUND, "no such node");
    } else {
        rota_peers_renew(change->node->peers);
        if (change->after > 0)
            rota_node_note(change->node, ROTA_EVENT_OPERATOR, rota_str(change->address),
                           "will be drained in %g s, by a plan",
                           (double)change->after / (double)ROTA_SEC);
        else
            rota_node_note(change->node, ROTA_EVENT_OPERATOR, rota_str(change->address),
                           "%s, by %s", WORDS[change->state],
                           change->call ? change->actor : "a plan");
        finish_change(change, NULL, true);
    }
}

static void set_member_state(struct change *change)
{
    const struct rota_store_request request = {
        .verb = ROTA_STORE_MEMBER_STATE,
        .member = {.address = rota_str(change->address),
                   .state = change->after > 0 ? ROTA_STORE_MEMBER_IN : change->state,
                   .drain_in = change->after}};
    struct rota_error error;
    rota_list_push(&change->node->changes, &change->link);
    enum rota_code code = rota_store_ask(change->node->store, &request, on_set, change, &error);
    if (code)
        fail_change(change, code, error.text);
}

static void work_out(uv_work_t *work)
{
    struct change *change = work->data;
    rota_node_moves_work_out(&change->moves);
}

static void on_worked_out(uv_work_t *work, int status)
{
    struct change *change = work->data;
    (void)status; /* it is never cancelled */
    change->is_working = false;
    if (change->is_ended) {
        free_change(change);
        return;
    }
    rota_list_remove(&change->link);
    if (change->is_dry_run)
        finish_change(change, NULL, false);
    else
        set_member_state(change);
}

static void on_queues(void *data, const struct rota_error *error, struct rota_str message)
{
    struct change *change = data;
    struct rota_node *node = change->node;
    const struct rota_peer *peer = rota_peers_seek(node->peers, rota_str(change->address));
    char none[ROTA_PEERS_NONE_MAX];
    if (!peer) {
        fail_change(change, ROTA_ERR_NOT_FOUND, rota_peers_format_none(node->peers, none));
        return;
    }
    memcpy(change->address, peer->address, sizeof change->address);
    if (!rota_node_moves_init(&change->moves, node, peer, change->state,
                              error ? rota_str("") : message)) {
        fail_change(change, ROTA_ERR_NO_MEMORY, "not enough memory to compute what moves");
        return;
    }
    rota_list_push(&node->changes, &change->link);
    change->work.data = change;
    change->is_working = !uv_queue_work(node->loop, &change->work, work_out, on_worked_out);
    if (!change->is_working)
        fail_change(change, ROTA_ERR_NO_MEMORY, "not enough memory to compute what moves");
}

static void on_cluster(void *data, const struct rota_error *error, struct rota_str json)
{
    struct change *change = data;
    (void)json;
    if (error)
        fail_change(change, error->code, error->text);
    else
        rota_topic_ask_queues(change->node, false, on_queues, change);
}

/* NULL: there is no such node, and the caller got the error. */
static struct change *make_change(struct rota_node *node, struct rota_str name,
                                  enum rota_store_member_state state,
                                  rota_node_on_changed *on_changed, void *data,
                                  struct rota_server_call *call)
{
    struct rota_error error;
    struct change *change = name.size <= ROTA_STORE_NAME_MAX ? calloc(1, sizeof *change) : NULL;
    if (!change) {
        rota_error_set(&error, ROTA_ERR_NOT_FOUND, "no such node");
        on_changed(data, call, &error, NULL);
        return NULL;
    }
    change->node = node;
    change->state = state;
    change->on_changed = on_changed;
    change->data = data;
    change->call = call;
    if (call)
        rota_server_call_actor(call, change->actor);
    if (name.size > 0)
        memcpy(change->address, name.data, name.size);
    return change;
}

void rota_node_change_drain(struct rota_node *node, struct rota_str address, rota_time after,
                            rota_node_on_changed *on_changed, void *data)
{
    struct change *change =
        make_change(node, address, ROTA_STORE_MEMBER_DRAINING, on_changed, data, NULL);
    if (!change)
        return;
    change->after = after;
    set_member_state(change);
}

void rota_node_change(struct rota_node *node, struct rota_str name,
                      enum rota_store_member_state state, bool is_dry_run,
                      rota_node_on_changed *on_changed, void *data, struct rota_server_call *call)
{
    struct change *change = make_change(node, name, state, on_changed, data, call);
    if (!change)
        return;
    change->is_dry_run = is_dry_run;
    rota_topic_ask(node, &rota_topics[ROTA_TOPIC_CLUSTER], on_cluster, change);
}

void rota_node_changes_end(struct rota_node *node)
{
    ROTA_LIST_DRAIN (change, &node->changes, struct change, link) {
        rota_store_forget(node->store, change);
        fail_change(change, ROTA_ERR_UNKNOWN, "this node is stopping, and the outcome is unknown");
    }
}
