/* topics: the documents that a node shows, in JSON.
 *
 * A topic is a name and a way to make its document: of what all nodes report (peers.h), of what is
 * the same on each node, or by a service that answers for all. To add one, add a line to the table
 * in topics.c; it is then at GET /api/v1/NAME if a route says so, on the stream, and available to
 * the command line. */
#pragma once

#include "node/documents/topic.h"

#include <rota/error.h>

struct rota_node;

extern const struct rota_topic rota_topics[];
extern const size_t rota_n_topics;

/* NULL: there is no such topic. */
const struct rota_topic *rota_topic_find(struct rota_str name);

/* Request the document; of queues its first page. `on_document` is called once, later or from
 * inside; with an error there is no document. */
typedef void rota_on_document(void *data, const struct rota_error *error, struct rota_str json);
void rota_topic_ask(struct rota_node *node, const struct rota_topic *topic,
                    rota_on_document *on_document, void *data);

/* Request queues for rota_node_queues_each(): the first page, or all, which may be large. */
void rota_topic_ask_queues(struct rota_node *node, bool is_whole, rota_on_document *on_queues,
                           void *data);

/* Answer all pending requests, with an error. */
void rota_topics_end(struct rota_node *node);
