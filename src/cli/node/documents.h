/* documents: what nodes publish about the whole cluster, for commands that print it as tables. */
#pragma once

#include "cli/client.h"
#include "wire/message/nodes_message.h"
#include "wire/text/json_rows.h"

/* Get the documents of these topics from a node. Unknown topics are missing from `reply`, which is
 * borrowed until the next call. */
enum rota_code rota_documents_ask(struct rota_client *client, const struct rota_str *topics,
                                  size_t n_topics, struct rota_nodes_documents_reply *reply,
                                  struct rota_error *error);

/* The document of a topic; empty: missing. */
struct rota_str rota_documents_find(const struct rota_nodes_documents_reply *reply,
                                    const char *topic);

/* A whole number that is not negative; anything else is 0. */
uint64_t rota_documents_number(struct rota_str cell);
