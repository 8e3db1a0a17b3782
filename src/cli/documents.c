#include "cli/documents.h"

enum rota_code rota_documents_ask(struct rota_queue_client *client, const struct rota_str *topics,
                                  size_t n_topics, struct rota_nodes_documents_reply *reply,
                                  struct rota_error *error)
{
    const struct rota_nodes_documents request = {.topics = {topics, n_topics}, .is_whole = true};
    return rota_queue_client_ask(client, "/rota.v1.Nodes/Documents", &ROTA_NODES_DOCUMENTS,
                                 &request, &ROTA_NODES_DOCUMENTS_REPLY, reply, error);
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

void rota_documents_append_span(struct rota_buffer *buffer, uint64_t ms)
{
    static const struct {
        uint64_t ms;
        const char *unit;
    } UNITS[] = {{86400000, "d"}, {3600000, "h"}, {60000, "min"}, {1000, "s"}};
    for (size_t i = 0; i < sizeof UNITS / sizeof UNITS[0]; i++)
        if (ms >= UNITS[i].ms) {
            rota_buffer_print(buffer, "%llu %s", (unsigned long long)(ms / UNITS[i].ms),
                              UNITS[i].unit);
            return;
        }
    rota_buffer_print(buffer, "%llu ms", (unsigned long long)ms);
}
