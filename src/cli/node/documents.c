#include "cli/node/documents.h"

enum rota_code rota_documents_ask(struct rota_client *client, const struct rota_str *topics,
                                  size_t n_topics, struct rota_nodes_documents_reply *reply,
                                  struct rota_error *error)
{
    const struct rota_nodes_documents request = {.topics = {topics, n_topics}};
    return rota_client_ask(client, "/rota.v1.Nodes/Documents", &ROTA_NODES_DOCUMENTS, &request,
                           &ROTA_NODES_DOCUMENTS_REPLY, reply, error);
}

struct rota_str rota_documents_find(const struct rota_nodes_documents_reply *reply,
                                    const char *topic)
{
    const struct rota_nodes_document *documents = reply->documents.items;
    for (size_t i = 0; i < reply->documents.n; i++)
        if (rota_str_is_equal(documents[i].topic, rota_str(topic)))
            return documents[i].json;
    return rota_str("");
}

uint64_t rota_documents_number(struct rota_str cell)
{
    uint64_t number = 0;
    for (size_t i = 0; i < cell.size; i++)
        if (cell.data[i] < '0' || cell.data[i] > '9' ||
            __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(cell.data[i] - '0'), &number))
            return 0;
    return number;
}
