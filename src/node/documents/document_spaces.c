/* The spaces that this node knows, as rota.v1.Space lists them. */
#include "node/documents/document.h"

#include "node/node_inside.h"
#include "run/own/space_service.h"
#include "wire/message/message_json.h"

void rota_document_spaces_write(struct rota_node *node, struct rota_json *json)
{
    struct rota_arena arena = {0};
    struct rota_space_list list;
    if (!rota_space_service_list(node->space_service, &arena, &list))
        json->buffer->failed = true;
    rota_message_json_write(&ROTA_SPACE_LIST_REPLY, &list, json);
    rota_arena_deinit(&arena);
}
