#include "node/documents/topics.h"

#include "node/documents/document.h"
#include "node/documents/peers.h"
#include "node/node_inside.h"
#include "wire/message/message_json.h"
#include "wire/message/queue_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_TIMEOUT (5 * ROTA_SEC)

const struct rota_topic rota_topics[] = {
    [ROTA_TOPIC_CLUSTER] = {.name = "cluster",
                            .write = rota_document_cluster_write,
                            .is_of_all = true},
    {.name = "calls", .write = rota_document_calls_write, .is_of_all = true, .with_calls = true},
    {.name = "groups", .write = rota_document_groups_write},
    {.name = "ledger", .write = rota_document_ledger_write},
    {.name = "queues", .method = "Queues", .reply_type = &ROTA_QUEUE_QUEUES_REPLY},
    {.name = "spaces", .write = rota_document_spaces_write},
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

/* --- asking --- */

struct ask {
    struct rota_node *node;
    const struct rota_topic *topic;
    rota_on_document *on_document;
    void *data;
    struct rota_peers_wait wait;
    struct rota_call *call;
    bool is_message,
        is_whole; /* wanted: the reply of `method` as a message, in `pages`; all pages */
    struct rota_buffer pages;
    struct rota_list_node link; /* in the node's `asks` */
};

static void finish_ask(struct ask *ask, const struct rota_error *error, struct rota_str json)
{
    rota_on_document *on_document = ask->on_document;
    void *data = ask->data;
    struct rota_buffer pages = ask->pages;
    rota_list_remove(&ask->link);
    free(ask);
    on_document(data, error, json);
    rota_buffer_deinit(&pages);
}

static void fail_ask(struct ask *ask, enum rota_code code, const char *why)
{
    struct rota_error error;
    rota_error_set(&error, code, "%s", why);
    finish_ask(ask, &error, rota_str(""));
}

static void finish_with(struct ask *ask, struct rota_buffer *buffer)
{
    if (buffer->failed)
        fail_ask(ask, ROTA_ERR_NO_MEMORY, "not enough memory for the document");
    else
        finish_ask(ask, NULL, rota_buffer_str(buffer));
    rota_buffer_deinit(buffer);
}

static void write_document(void *data)
{
    struct ask *ask = data;
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    ask->topic->write(ask->node, &json);
    finish_with(ask, &buffer);
}

static void call_method(struct ask *ask, struct rota_str after);

/* One more page of queues, or the only one: messages are joined so. */
static void take_page(struct ask *ask, struct rota_str message, struct rota_str next)
{
    rota_buffer_append_str(&ask->pages, message);
    if (ask->pages.failed)
        fail_ask(ask, ROTA_ERR_NO_MEMORY, "not enough memory for the queues");
    else if (ask->is_whole && next.size > 0)
        call_method(ask, next);
    else
        finish_ask(ask, NULL, rota_buffer_str(&ask->pages));
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
        fail_ask(ask, ROTA_ERR_UNAVAILABLE, why);
        return;
    }
    const struct rota_message_type *type = ask->topic->reply_type;
    void *reply = rota_arena_take(&arena, type->size);
    if (!reply || rota_message_decode(type, result->message, reply, &arena, NULL)) {
        fail_ask(ask, ROTA_ERR_INVALID, "a malformed reply");
    } else if (ask->is_message) {
        take_page(ask, result->message, ((const struct rota_queue_list *)reply)->next);
    } else {
        struct rota_json json = {.buffer = &buffer};
        rota_message_json_write(type, reply, &json);
        finish_with(ask, &buffer);
    }
    rota_arena_deinit(&arena);
}

static void call_method(struct ask *ask, struct rota_str after)
{
    struct rota_error error;
    struct rota_buffer request = {0};
    char path[64];
    if (after.size > 0)
        rota_message_encode(&ROTA_QUEUE_PAGE, &(struct rota_queue_page){.after = after}, &request);
    snprintf(path, sizeof path, "/rota.v1.Queue/%s", ask->topic->method);
    struct rota_call_options options = {.method = rota_str(path),
                                        .request = rota_buffer_str(&request),
                                        .timeout = ASK_TIMEOUT,
                                        .on_end = on_reply,
                                        .data = ask};
    if (request.failed)
        fail_ask(ask, ROTA_ERR_NO_MEMORY, "not enough memory for the document");
    else if (rota_channel_call(ask->node->self, &options, &ask->call, &error))
        fail_ask(ask, ROTA_ERR_UNAVAILABLE, error.text);
    rota_buffer_deinit(&request);
}

/* Begin; NULL without memory: then that was the answer. */
static struct ask *new_ask(struct rota_node *node, const struct rota_topic *topic,
                           rota_on_document *on_document, void *data)
{
    struct rota_error error;
    struct ask *ask = calloc(1, sizeof *ask);
    if (!ask) {
        rota_error_no_memory(&error, "for the document");
        on_document(data, &error, rota_str(""));
        return NULL;
    }
    *ask = (struct ask){.node = node, .topic = topic, .on_document = on_document, .data = data};
    ask->wait = (struct rota_peers_wait){
        .with_calls = topic->with_calls, .on_seen = write_document, .data = ask};
    rota_list_push(&node->asks, &ask->link);
    return ask;
}

void rota_topic_ask(struct rota_node *node, const struct rota_topic *topic,
                    rota_on_document *on_document, void *data)
{
    struct ask *ask = new_ask(node, topic, on_document, data);
    if (ask && topic->method)
        call_method(ask, rota_str(""));
    else if (ask && topic->is_of_all)
        rota_peers_refresh(node->peers, &ask->wait);
    else if (ask)
        write_document(ask);
}

void rota_topic_ask_queues(struct rota_node *node, bool is_whole, rota_on_document *on_queues,
                           void *data)
{
    struct ask *ask = new_ask(node, rota_topic_find(rota_str("queues")), on_queues, data);
    if (!ask)
        return;
    ask->is_message = true;
    ask->is_whole = is_whole;
    call_method(ask, rota_str(""));
}

void rota_topics_end(struct rota_node *node)
{
    ROTA_LIST_DRAIN (ask, &node->asks, struct ask, link) {
        rota_list_remove(&ask->wait.link);
        if (ask->call)
            rota_call_cancel(ask->call);
        fail_ask(ask, ROTA_ERR_UNAVAILABLE, "this node is stopping");
    }
}
