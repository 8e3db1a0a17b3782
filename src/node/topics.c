#include "node/topics.h"

#include "node/api.h"
#include "node/peers.h"
#include "wire/json_scan.h"
#include "wire/message_json.h"
#include "wire/queue_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_TIMEOUT (5 * ROTA_SEC)

const struct rota_topic rota_topics[] = {
    [ROTA_TOPIC_CLUSTER] = {.name = "cluster",
                            .write = rota_api_write_node_part,
                            .key = "nodes",
                            .write_whole = rota_api_write_cluster},
    {.name = "calls", .write = rota_api_write_calls, .key = "calls"},
    {.name = "groups", .write = rota_api_write_groups},
    {.name = "ledger", .write = rota_api_write_ledger},
    {.name = "queues", .method = "Queues", .reply_type = &ROTA_QUEUE_QUEUES_REPLY},
    {.name = "spaces", .write = rota_api_write_spaces},
    {.name = "workers", .method = "Workers", .reply_type = &ROTA_QUEUE_WORKERS_REPLY},
};
const size_t rota_n_topics = sizeof rota_topics / sizeof rota_topics[0];

_Static_assert(sizeof rota_topics / sizeof rota_topics[0] <= ROTA_TOPICS_MAX, "too many topics");

const struct rota_topic *rota_topic_find(struct rota_str name)
{
    for (size_t i = 0; i < rota_n_topics; i++)
        if (rota_str_is_equal(name, rota_str(rota_topics[i].name)))
            return &rota_topics[i];
    return NULL;
}

/* --- parts put together --- */

bool rota_topic_append_entries(struct rota_str part, const char *key, struct rota_json *json)
{
    char *room = malloc(part.size + 1);
    struct rota_scan scan;
    struct rota_str found;
    if (!room)
        return false;
    rota_scan_init(&scan, part, room);
    rota_scan_object(&scan);
    while (rota_scan_key(&scan, &found)) {
        if (!rota_str_is_equal(found, rota_str(key))) {
            rota_scan_skip(&scan);
            continue;
        }
        rota_scan_array(&scan);
        while (rota_scan_item(&scan)) {
            struct rota_str entry = rota_scan_skip(&scan);
            if (!scan.failed)
                rota_json_raw(json, entry);
        }
    }
    free(room);
    return !scan.failed;
}

/* One that did not answer may still be asked by others; what it said before is not shown. */
static void write_all(struct rota_node *node, size_t topic, struct rota_json *json)
{
    const struct rota_topic *of = &rota_topics[topic];
    struct rota_buffer own = {0};
    struct rota_json own_json = {.buffer = &own};
    of->write(node, &own_json);
    rota_json_begin_object(json);
    rota_json_key(json, of->key);
    rota_json_begin_array(json);
    rota_topic_append_entries(rota_buffer_str(&own), of->key, json);
    for (size_t i = 0; i < rota_peers_n(node->peers); i++) {
        const struct rota_peer *peer = rota_peers_at(node->peers, i);
        if (!peer->is_self && peer->has_answered && peer->parts[topic].size > 0)
            rota_topic_append_entries(rota_buffer_str(&peer->parts[topic]), of->key, json);
    }
    rota_json_end_array(json);
    rota_json_key(json, "missing");
    rota_json_begin_array(json);
    for (size_t i = 0; i < rota_peers_n(node->peers); i++) {
        const struct rota_peer *peer = rota_peers_at(node->peers, i);
        if (!peer->is_self && !peer->has_answered && rota_peer_is_alive(peer))
            rota_json_text(json, peer->address);
    }
    rota_json_end_array(json);
    rota_json_end_object(json);
    rota_buffer_deinit(&own);
}

/* --- asking --- */

struct ask {
    struct rota_node *node;
    const struct rota_topic *topic;
    rota_on_document *on_document;
    void *data;
    struct rota_peers_wait wait;
    struct rota_call *call;
    struct rota_list_node link; /* in the node's `asks` */
};

static void finish(struct ask *ask, const struct rota_error *error, struct rota_str json)
{
    rota_on_document *on_document = ask->on_document;
    void *data = ask->data;
    rota_list_remove(&ask->link);
    free(ask);
    on_document(data, error, json);
}

static void fail(struct ask *ask, enum rota_code code, const char *why)
{
    struct rota_error error;
    rota_error_set(&error, code, "%s", why);
    finish(ask, &error, rota_str(""));
}

static void finish_with(struct ask *ask, struct rota_buffer *buffer)
{
    if (buffer->failed)
        fail(ask, ROTA_ERR_NO_MEMORY, "there is no memory for the document");
    else
        finish(ask, NULL, rota_buffer_str(buffer));
    rota_buffer_deinit(buffer);
}

static void on_seen(void *data)
{
    struct ask *ask = data;
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    if (ask->topic->write_whole)
        ask->topic->write_whole(ask->node, &json);
    else
        write_all(ask->node, ask->wait.topic, &json);
    finish_with(ask, &buffer);
}

static void on_reply(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct ask *ask = data;
    struct rota_arena arena = {0};
    struct rota_buffer buffer = {0};
    char why[256];
    (void)call;
    if (result->status != ROTA_STATUS_OK) {
        snprintf(why, sizeof why, "%s: %.*s", ask->topic->name, ROTA_STR_ARGS(result->text));
        fail(ask, ROTA_ERR_UNAVAILABLE, why);
        return;
    }
    const struct rota_message_type *type = ask->topic->reply_type;
    void *reply = rota_arena_take(&arena, type->size);
    if (!reply || rota_message_decode(type, result->message, reply, &arena, NULL)) {
        fail(ask, ROTA_ERR_INVALID, "an answer that can't be read");
    } else {
        struct rota_json json = {.buffer = &buffer};
        rota_message_write_json(type, reply, &json);
        finish_with(ask, &buffer);
    }
    rota_arena_deinit(&arena);
}

static void call_method(struct ask *ask)
{
    struct rota_error error;
    char path[64];
    snprintf(path, sizeof path, "/rota.v1.Queue/%s", ask->topic->method);
    struct rota_call_options options = {
        .method = rota_str(path), .timeout = ASK_TIMEOUT, .on_end = on_reply, .data = ask};
    if (rota_channel_call(ask->node->self, &options, &ask->call, &error))
        fail(ask, ROTA_ERR_UNAVAILABLE, error.text);
}

static void write_alone(struct ask *ask)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    ask->topic->write(ask->node, &json);
    finish_with(ask, &buffer);
}

void rota_topic_ask(struct rota_node *node, const struct rota_topic *topic,
                    rota_on_document *on_document, void *data)
{
    struct rota_error error;
    struct ask *ask = calloc(1, sizeof *ask);
    if (!ask) {
        rota_error_set(&error, ROTA_ERR_NO_MEMORY, "there is no memory for the document");
        on_document(data, &error, rota_str(""));
        return;
    }
    *ask = (struct ask){.node = node, .topic = topic, .on_document = on_document, .data = data};
    ask->wait = (struct rota_peers_wait){
        .topic = (size_t)(topic - rota_topics), .on_seen = on_seen, .data = ask};
    rota_list_push(&node->asks, &ask->link);
    if (topic->method)
        call_method(ask);
    else if (topic->key)
        rota_peers_look(node->peers, &ask->wait);
    else
        write_alone(ask);
}

void rota_topics_end(struct rota_node *node)
{
    struct rota_list_node *link;
    while ((link = rota_list_first(&node->asks))) {
        struct ask *ask = ROTA_LIST_ITEM(link, struct ask, link);
        rota_list_remove(&ask->wait.link);
        if (ask->call)
            rota_call_cancel(ask->call);
        fail(ask, ROTA_ERR_UNAVAILABLE, "this node stops");
    }
}
