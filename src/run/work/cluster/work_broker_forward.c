#include "run/work/cluster/work_broker_forward.h"
#include "run/work/broker/work_broker_reply.h"
#include "run/work/broker/work_broker_workers.h"
#include "run/work/cluster/work_broker_settings.h"

#include <stdio.h>
#include <stdlib.h>

/* Messages for a node, one call at a time. */
struct listener {
    struct rota_buffer words; /* of a TellRequest */
    size_t n;
    bool is_told; /* a call is in flight */
    size_t size;
    char address[];
};

/* --- calls --- */

/* Whether a status means that the node was not reached. */
static bool is_silent(enum rota_status status)
{
    return status == ROTA_STATUS_UNAVAILABLE || status == ROTA_STATUS_DEADLINE_EXCEEDED;
}

/* A node that answers is up, whatever it answers. */
static void on_ask_end(struct rota_broker_ask *ask, const struct rota_call_result *result)
{
    struct rota_broker_sent *sent = ROTA_LIST_ITEM(ask, struct rota_broker_sent, ask);
    struct rota_broker_forward *forward = sent->forward;
    rota_time now = rota_work_broker_now().boot;
    if (is_silent(result->status))
        rota_tree_fsm_failed(forward->tree, now, rota_str(sent->node));
    else
        rota_tree_fsm_reached(forward->tree, now, rota_str(sent->node));
    if (sent->on_end)
        sent->on_end(sent, result);
    rota_work_broker_touch(forward->broker);
}

bool rota_work_broker_forward_send(struct rota_broker_forward *forward,
                                   const struct rota_broker_sent *sent, const char *method,
                                   struct rota_str request, rota_time timeout)
{
    const struct rota_call_options options = {
        .method = rota_str(method), .request = request, .timeout = timeout};
    struct rota_broker_sent *made = malloc(sizeof *made);
    if (!made)
        return false;
    *made = *sent;
    made->forward = forward;
    made->ask = (struct rota_broker_ask){.on_end = on_ask_end};
    if (rota_work_broker_ask(forward->broker->cluster, &forward->sent, &made->ask,
                             rota_str(sent->node), &options, NULL)) {
        rota_tree_fsm_failed(forward->tree, rota_work_broker_now().boot, rota_str(sent->node));
        rota_work_broker_touch(forward->broker);
        return false;
    }
    return true;
}

/* --- words --- */

static struct listener *need_listener(struct rota_broker_forward *forward, struct rota_str address)
{
    struct listener *listener = rota_map_get(&forward->listeners, address);
    if (listener)
        return listener;
    listener = calloc(1, sizeof *listener + address.size + 1);
    if (!listener)
        return NULL;
    listener->size = address.size;
    memcpy(listener->address, address.data, address.size);
    if (rota_map_put(&forward->listeners, rota_str_of(listener->address, address.size), listener))
        return listener;
    free(listener);
    return NULL;
}

/* A word that can't be stored is sent with the next refresh. */
static void add_word(struct rota_broker_forward *forward, const struct rota_tree_action *action)
{
    struct listener *listener = need_listener(forward, action->to);
    const struct rota_queue_word word = {
        .is_offer = action->word.kind == ROTA_TREE_OFFER,
        .node = action->word.node,
        .queue = action->word.queue,
        .can = action->word.can,
        .stamp = action->word.stamp,
        .n = action->word.n,
        .hops = action->word.hops,
        .age_ms = rota_queue_to_ms(action->word.age),
    };
    if (!listener || listener->words.size > (size_t)ROTA_BROKER_WORDS_BYTES || listener->n >= 4096)
        return;
    rota_message_encode_entry(&ROTA_QUEUE_WORD, 1, &word, &listener->words);
    listener->n++;
}

static void on_told(struct rota_broker_sent *sent, const struct rota_call_result *result)
{
    struct listener *listener = rota_map_get(&sent->forward->listeners, rota_str(sent->node));
    (void)result;
    if (listener)
        listener->is_told = false;
}

static void notify_listeners(struct rota_broker_forward *forward)
{
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(&forward->listeners, &place));) {
        struct listener *listener = entry->value;
        struct rota_broker_sent sent = {.on_end = on_told};
        if (listener->is_told || listener->n == 0)
            continue;
        rota_broker_sent_name(sent.node, sizeof sent.node, rota_str(listener->address));
        if (!listener->words.failed)
            listener->is_told = rota_work_broker_forward_send(
                forward, &sent, "/rota.peer.v1.QueuePeer/Tell", rota_buffer_str(&listener->words),
                ROTA_BROKER_TELL_TIMEOUT);
        rota_buffer_clear(&listener->words);
        listener->n = 0;
    }
}

void rota_work_broker_forward_hear(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_server_call *call = request->call;
    const struct rota_queue_list *message = &request->as.list;
    const struct rota_queue_word *words = message->items.items;
    for (size_t i = 0; broker->forward && i < message->items.n; i++) {
        const struct rota_tree_word word = {
            .kind = words[i].is_offer ? ROTA_TREE_OFFER : ROTA_TREE_WANT,
            .node = words[i].node,
            .queue = words[i].queue,
            .can = words[i].can,
            .stamp = words[i].stamp,
            .n = (uint32_t)words[i].n,
            .hops = (uint32_t)words[i].hops,
            .age = rota_queue_from_ms(words[i].age_ms),
        };
        if (!rota_job_queue_check(word.queue, NULL))
            rota_tree_fsm_hear(broker->forward->tree, rota_work_broker_now().boot, &word);
    }
    rota_work_broker_touch(broker);
    rota_work_broker_answer(broker, call, 0, rota_str(""));
}

/* --- visits --- */

bool rota_work_broker_forward_is_peer(const struct rota_broker_forward *forward,
                                      struct rota_str address)
{
    const struct rota_broker_cluster *cluster = forward->broker->cluster;
    for (size_t i = 0; i < rota_work_broker_cluster_n_peers(cluster); i++)
        if (rota_str_is_equal(rota_work_broker_cluster_peer(cluster, i), address))
            return true;
    return false;
}

static void on_visit_over(struct rota_broker_sent *sent, const struct rota_call_result *result)
{
    struct rota_broker_forward *forward = sent->forward;
    struct rota_queue_visited visited = {0};
    rota_arena_clear(&forward->broker->front.arena);
    if (result->status != ROTA_STATUS_OK ||
        rota_message_decode(&ROTA_QUEUE_VISITED, result->message, &visited,
                            &forward->broker->front.arena, NULL))
        visited = (struct rota_queue_visited){0};
    rota_tree_fsm_answered(forward->tree, rota_work_broker_now().boot, sent->number,
                           (uint32_t)visited.n, visited.is_lost);
}

/* Let a node visit another: ourselves, or a listed one. */
static void cause_visit(struct rota_broker_forward *forward, const struct rota_tree_action *action)
{
    struct rota_buffer *buffer = &forward->broker->front.buffer;
    const struct rota_queue_word request = {.node = action->word.node,
                                            .queue = action->word.queue,
                                            .can = action->word.can,
                                            .n = action->word.n};
    struct rota_broker_sent sent = {.on_end = on_visit_over, .number = action->visit};
    if (rota_str_is_equal(action->to, rota_work_broker_cluster_self(forward->broker->cluster))) {
        rota_work_broker_fetch_visit(forward, NULL, action->visit, &action->word);
        return;
    }
    rota_buffer_clear(buffer);
    rota_message_encode(&ROTA_QUEUE_VISIT, &request, buffer);
    rota_broker_sent_name(sent.node, sizeof sent.node, action->to);
    if (buffer->failed || !rota_work_broker_forward_is_peer(forward, action->to) ||
        !rota_work_broker_forward_send(forward, &sent, "/rota.peer.v1.QueuePeer/Visit",
                                       rota_buffer_str(buffer), ROTA_BROKER_VISIT_TIMEOUT))
        rota_tree_fsm_answered(forward->tree, rota_work_broker_now().boot, action->visit, 0, false);
}

void rota_work_broker_forward_visit(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_server_call *call = request->call;
    const struct rota_queue_word *message = &request->as.word;
    struct rota_broker_forward *forward = broker->forward;
    struct rota_error error;
    const struct rota_tree_word offer = {.node = message->node,
                                         .queue = message->queue,
                                         .can = message->can,
                                         .n = (uint32_t)message->n};
    enum rota_code code = rota_job_queue_check(message->queue, &error);
    if (!code && (!forward || !rota_work_broker_forward_is_peer(forward, message->node)))
        code = rota_error_set(&error, ROTA_ERR_NOT_FOUND, "no such peer of this node");
    if (code)
        rota_work_broker_reply_error(call, &error, false);
    else
        rota_work_broker_fetch_visit(forward, call, 0, &offer);
}

void rota_work_broker_forward_visited(struct rota_work_broker *broker, struct rota_str queue,
                                      size_t n)
{
    if (!broker->forward)
        return;
    rota_tree_fsm_visited(broker->forward->tree, rota_work_broker_now().boot, queue, (uint32_t)n);
    rota_work_broker_forward_count(broker->forward, queue, 0, (uint32_t)n);
    rota_work_broker_touch(broker);
}

/* --- a turn --- */

static uint32_t clamp_count(size_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

enum { OFFERS_MAX = 4096 }; /* reported at a time */

/* Report this node's state. A node that is about to stop has neither demand nor supply. */
static void report_own_load(struct rota_broker_forward *forward, struct rota_work_now now)
{
    struct rota_broker *core = forward->broker->core;
    struct rota_idle_view idle;
    struct rota_waiting_view waiting;
    bool is_open = !forward->broker->front.fsm.is_draining && !forward->broker->is_failed &&
                   rota_work_broker_cluster_n_peers(forward->broker->cluster) > 0;
    rota_broker_share(core, now, is_open);
    rota_tree_fsm_begin(forward->tree, now.boot);
    for (size_t place = 0; is_open && rota_broker_next_idle(core, &place, &idle);)
        for (size_t i = 0; i < idle.n_queues; i++)
            rota_tree_fsm_have(forward->tree, ROTA_TREE_WANT, idle.queues[i], idle.can,
                               clamp_count(idle.n_free), now.boot);
    size_t n_offers = 0; /* where very many queues have jobs, the others follow as these are done */
    for (size_t place = 0;
         is_open && n_offers < OFFERS_MAX && rota_broker_next_waiting(core, &place, &waiting);
         n_offers++)
        rota_tree_fsm_have(forward->tree, ROTA_TREE_OFFER, waiting.queue, waiting.can,
                           clamp_count(waiting.n_jobs), now.boot - (now.wall - waiting.first_at));
    rota_tree_fsm_end(forward->tree);
}

static bool execute_tree_actions(struct rota_broker_forward *forward)
{
    size_t n, i = 0;
    const struct rota_tree_action *actions = rota_tree_fsm_actions(forward->tree, &n);
    for (; i < n; i++) {
        struct rota_tree_action action = actions[i];
        if (action.type == ROTA_TREE_DO_TELL)
            add_word(forward, &action);
        else
            cause_visit(forward, &action);
        actions = rota_tree_fsm_actions(forward->tree, &n); /* there may be more */
    }
    rota_tree_fsm_clear(forward->tree);
    return i > 0;
}

void rota_work_broker_forward_turn(struct rota_work_broker *broker, struct rota_work_now now)
{
    struct rota_broker_forward *forward = broker->forward;
    if (!forward)
        return;
    if (now.boot >= rota_remote_fsm_deadline(&forward->remote))
        rota_remote_fsm_tick(&forward->remote, now.boot);
    if (now.boot >= rota_tree_fsm_deadline(forward->tree))
        rota_tree_fsm_tick(forward->tree, now.boot);
    report_own_load(forward, now);
    while (execute_tree_actions(forward) | rota_work_broker_remote_drive(forward))
        ;
    notify_listeners(forward);
}

rota_time rota_work_broker_forward_deadline(const struct rota_work_broker *broker)
{
    if (!broker->forward)
        return ROTA_TIME_NEVER;
    return rota_time_min(rota_tree_fsm_deadline(broker->forward->tree),
                         rota_remote_fsm_deadline(&broker->forward->remote));
}

/* --- metrics and descriptions --- */

void rota_work_broker_forward_count(struct rota_broker_forward *forward, struct rota_str queue,
                                    uint32_t n_fetched, uint32_t n_lent)
{
    struct rota_broker_traffic *traffic = rota_map_get(&forward->traffic, queue);
    forward->n_fetched += n_fetched;
    forward->n_lent += n_lent;
    if (!traffic && forward->traffic.size < ROTA_BROKER_QUEUES_MAX && n_fetched + n_lent > 0) {
        traffic = calloc(1, sizeof *traffic + queue.size);
        if (!traffic)
            return;
        traffic->name_size = queue.size;
        memcpy(traffic->name, queue.data, queue.size);
        if (!rota_map_put(&forward->traffic, rota_str_of(traffic->name, queue.size), traffic)) {
            free(traffic);
            return;
        }
    }
    if (traffic) {
        traffic->n_fetched += n_fetched;
        traffic->n_lent += n_lent;
    }
}

void rota_work_broker_forward_info(const struct rota_work_broker *broker,
                                   struct rota_queue_info *info)
{
    const struct rota_broker_traffic *traffic =
        broker->forward ? rota_map_get(&broker->forward->traffic, info->name) : NULL;
    if (!traffic)
        return;
    info->fetched_total = traffic->n_fetched;
    info->lent_total = traffic->n_lent;
}

void rota_work_broker_forward_counts(const struct rota_work_broker *broker,
                                     struct rota_work_broker_counts *counts)
{
    const struct rota_broker_forward *forward = broker->forward;
    if (!forward)
        return;
    struct rota_tree_counts tree = rota_tree_fsm_counts(forward->tree);
    counts->remote = forward->remote.attempts.size;
    counts->unreachable = tree.down;
    counts->visits_total = tree.visits_total;
    counts->fetched_total = forward->n_fetched;
    counts->lent_total = forward->n_lent;
}

void rota_work_broker_forward_explain(struct rota_work_broker *broker, struct rota_str queue,
                                      char *text, size_t size)
{
    size_t used = strlen(text);
    if (!broker->forward || used >= size || rota_work_broker_cluster_n_peers(broker->cluster) == 0)
        return;
    struct rota_str parent = rota_tree_parents_one(broker->forward->tree, queue);
    if (parent.size > 0)
        snprintf(text + used, size - used,
                 " on this node; workers of other nodes can take it through %.*s",
                 ROTA_STR_ARGS(parent));
    else
        snprintf(text + used, size - used,
                 " on this node; workers of other nodes can take it when they ask this node");
}

/* --- life --- */

static struct rota_str owner_of_partition(void *data, struct rota_str queue, uint32_t partition)
{
    struct rota_broker_forward *forward = data;
    return rota_work_broker_cluster_owner(forward->broker->cluster, queue, partition);
}

static struct rota_str peer_at(void *data, size_t index)
{
    struct rota_broker_forward *forward = data;
    return rota_work_broker_cluster_peer(forward->broker->cluster, index);
}

static void on_route(void *data)
{
    struct rota_broker_forward *forward = data;
    rota_tree_fsm_routed(forward->tree, rota_work_broker_now().boot);
    rota_work_broker_touch(forward->broker);
}

enum rota_code rota_work_broker_forward_open(struct rota_work_broker *broker,
                                             struct rota_error *error)
{
    struct rota_work_now now = rota_work_broker_now();
    struct rota_broker_forward *forward = calloc(1, sizeof *forward);
    struct rota_tree_options options = {
        .self = rota_work_broker_cluster_self(broker->cluster),
        .stamp = now.wall > 0 ? (uint64_t)now.wall : 0,
        .seed = broker->seed,
        .partitions = rota_work_broker_cluster_n_partitions(broker->cluster),
        .owner = owner_of_partition,
        .node = peer_at,
        .data = forward,
    };
    if (forward) {
        forward->broker = broker;
        forward->tree = rota_tree_fsm_new(&options, now.boot);
    }
    if (!forward || !forward->tree) {
        free(forward);
        return rota_error_no_memory(error, "to forward a request");
    }
    rota_remote_fsm_init(&forward->remote, broker->seed);
    rota_map_init(&forward->listeners, broker->seed);
    rota_map_init(&forward->traffic, broker->seed);
    rota_list_init(&forward->sent);
    rota_list_init(&forward->trips);
    forward->subscriber =
        (struct rota_broker_cluster_subscriber){.on_route = on_route, .data = forward};
    rota_work_broker_cluster_subscribe(broker->cluster, &forward->subscriber);
    broker->forward = forward;
    return ROTA_OK;
}

void rota_work_broker_forward_close(struct rota_work_broker *broker)
{
    struct rota_broker_forward *forward = broker->forward;
    const struct rota_map_entry *entry;
    if (!forward)
        return;
    broker->forward = NULL;
    rota_work_broker_cluster_unsubscribe(&forward->subscriber);
    rota_work_broker_ask_drop_all(&forward->sent);
    ROTA_LIST_DRAIN (trip, &forward->trips, struct rota_broker_trip, link) {
        if (trip->call)
            rota_server_call_finish(trip->call, ROTA_STATUS_UNAVAILABLE, "this node is stopping",
                                    NULL, 0);
        rota_list_remove(&trip->link);
        free(trip);
    }
    for (size_t place = 0; (entry = rota_map_next(&forward->listeners, &place));)
        rota_buffer_deinit(&((struct listener *)entry->value)->words);
    rota_map_deinit_values(&forward->listeners);
    rota_map_deinit_values(&forward->traffic);
    rota_remote_fsm_deinit(&forward->remote);
    rota_tree_fsm_free(forward->tree);
    free(forward);
}
