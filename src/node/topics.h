/* topics: the documents that a node shows, in JSON.
 *
 * A topic is a name and how its document is made. Most are the parts of all nodes put together:
 * a node writes {KEY: [...]} of itself, hears those of the others (peers.h), and the whole is
 * {KEY: [all entries], "missing": [nodes that did not answer]}. Some are known to each node
 * alike, or answered for all by another service. Whoever wants one more adds a line to the
 * table in topics.c; it is then at GET /api/v1/NAME if a route says so, on the stream, and for
 * the command line. */
#pragma once

#include "base/json.h"
#include "core/call/list.h"
#include "wire/message.h"

#include <rota/error.h>

enum {
    ROTA_TOPIC_CLUSTER, /* the first of the table: the nodes themselves */
    ROTA_TOPICS_MAX = 16,
};

struct rota_node;

struct rota_topic {
    const char *name;

    /* What this node has, an object. NULL: `method` answers for all nodes. */
    void (*write)(struct rota_node *node, struct rota_json *json);

    /* The array of the object that has an entry for each thing of this node. NULL: what one
     * node writes is all there is. */
    const char *key;

    /* Put the parts together in another way than one behind the other; NULL: so. */
    void (*write_whole)(struct rota_node *node, struct rota_json *json);

    const char *method; /* of rota.v1.Queue, and what it replies with */
    const struct rota_message_type *reply_type;
};

extern const struct rota_topic rota_topics[];
extern const size_t rota_n_topics;

/* NULL: there is none of this name. */
const struct rota_topic *rota_topic_find(struct rota_str name);

/* Ask for the whole document. `on_document` is called once, later or from inside; with an error
 * there is no document. */
typedef void rota_on_document(void *data, const struct rota_error *error, struct rota_str json);
void rota_topic_ask(struct rota_node *node, const struct rota_topic *topic,
                    rota_on_document *on_document, void *data);

/* Answer all that was asked for and has not come, with an error. */
void rota_topics_end(struct rota_node *node);

/* Append the entries under `key` of the document `part` to an array that is open. False: it is
 * not such a document, and nothing or not all was appended. */
bool rota_topic_append_entries(struct rota_str part, const char *key, struct rota_json *json);
