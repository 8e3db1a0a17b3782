/* The groups that this node watches. */
#include "node/api/api.h"

#include "node/documents/document.h"
#include "node/role/role_group.h"

void rota_api_groups(struct rota_api_call *call)
{
    rota_api_document(call, "groups");
}

void rota_api_group(struct rota_api_call *call)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    const struct rota_watched_group *watched;
    for (size_t i = 0; (watched = rota_role_group_at(call->node, i)); i++)
        if (rota_str_is_equal(call->names[0], rota_str(watched->name)))
            break;
    if (!watched) {
        rota_api_refuse(call, 404, "this node does not watch this group");
        return;
    }
    rota_document_groups_write_one(watched, &json);
    rota_api_answer_json(call, 200, &buffer);
}
