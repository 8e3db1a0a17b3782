/* documents: what nodes show of the whole cluster, for commands that print it as tables. */
#pragma once

#include "cli/client.h"
#include "wire/message/nodes_message.h"
#include "wire/text/json_rows.h"

/* Ask a node for the documents of these topics. Those that it does not know are not in `reply`,
 * which is borrowed until the next question. */
enum rota_code rota_documents_ask(struct rota_client *client, const struct rota_str *topics,
                                  size_t n_topics, struct rota_nodes_documents_reply *reply,
                                  struct rota_error *error);

/* The document of a topic; empty: it is not there. */
struct rota_str rota_documents_find(const struct rota_nodes_documents_reply *reply,
                                    const char *topic);

/* A whole number that is not negative; 0 for anything else. */
uint64_t rota_documents_number(struct rota_str cell);
