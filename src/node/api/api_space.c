/* Spaces and their shards: the documents of rota.v1.Space, from the node's own maps. */
#include "node/api/api.h"

#include "node/documents/document.h"
#include "node/node_spaces.h"
#include "node/rules/space_watch.h"
#include "wire/message/message_json.h"

#include <stdio.h>

/* --- looking --- */

void rota_api_spaces(struct rota_api_call *call)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    rota_document_spaces_write(call->node, &json);
    rota_api_answer_json(call, 200, &buffer);
}

/* The space in the path, with this shard. NULL: it does not exist, and the call was refused. */
static struct rota_space *look_up_space(struct rota_api_call *call, uint64_t shard)
{
    char text[ROTA_SPACE_TEXT_MAX];
    struct rota_space *space = NULL;
    enum rota_status status =
        rota_space_service_look_up(call->node->space_service, call->names[0], shard, &space, text);
    if (status)
        rota_api_refuse(call, status == ROTA_STATUS_NOT_FOUND ? 404 : 503, text);
    return space;
}

static void write_space(const struct rota_node_book *book, const struct rota_space_map *map,
                        const struct rota_space_info *info, struct rota_json *json)
{
    rota_json_begin_object(json);
    rota_message_json_write_members(&ROTA_SPACE_INFO, info, json);
    rota_json_add_array(json, "nodes");
    for (size_t i = 0; i < map->n_nodes; i++)
        rota_json_string(json, map->nodes[i]);
    rota_json_end_array(json);
    rota_json_add_array(json, "node_names");
    for (size_t i = 0; i < map->n_nodes; i++)
        rota_json_string(json, rota_node_book_name(book, map->nodes[i]));
    rota_json_end_array(json);
    rota_json_add_array(json, "shards");
    for (uint32_t i = 0; i < map->n_shards; i++) {
        rota_json_begin_array(json);
        rota_json_int(json, rota_space_watch_owner(&map->shards[i]));
        rota_json_uint(json, map->shards[i].epoch);
        rota_json_uint(json, map->shards[i].state);
        rota_json_end_array(json);
    }
    rota_json_end_array(json);
    rota_json_end_object(json);
}

void rota_api_space(struct rota_api_call *call)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    struct rota_space_info info;
    struct rota_space *space = look_up_space(call, 0);
    if (!space)
        return;
    if (!rota_space_service_info(space, &call->arena, &info)) {
        rota_api_refuse(call, 503, "not enough memory for the response");
        return;
    }
    write_space(&call->node->book, rota_space_map(space), &info, &json);
    rota_api_answer_json(call, 200, &buffer);
}

/* The shard in the second star of the path. False: it is not a shard, and the call was refused. */
static bool read_shard(struct rota_api_call *call, uint64_t *shard)
{
    struct rota_str text = call->names[1];
    uint64_t number = 0;
    bool is_number = text.size > 0 && text.size < 10;
    for (size_t i = 0; is_number && i < text.size; i++) {
        is_number = text.data[i] >= '0' && text.data[i] <= '9';
        number = 10 * number + (uint64_t)(text.data[i] - '0');
    }
    if (!is_number)
        rota_api_refuse(call, 400, "a shard must be a number, 0 or higher");
    *shard = number;
    return is_number;
}

void rota_api_shard(struct rota_api_call *call)
{
    struct rota_space_explanation explanation;
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    uint64_t shard;
    struct rota_space *space = read_shard(call, &shard) ? look_up_space(call, shard) : NULL;
    if (!space)
        return;
    if (!rota_space_service_explain(call->node->space_service, space, (uint32_t)shard, &call->arena,
                                    &explanation)) {
        rota_api_refuse(call, 503, "not enough memory for the response");
        return;
    }
    rota_message_json_write(&ROTA_SPACE_EXPLAIN_REPLY, &explanation, &json);
    rota_api_answer_json(call, 200, &buffer);
}

/* --- changing --- */

static bool read_body(struct rota_api_call *call, const struct rota_message_type *type,
                      struct rota_space_request *request)
{
    struct rota_error error;
    if (rota_message_json_read(type, rota_http_body(call->request), request, &call->arena,
                               &error)) {
        rota_api_refuse(call, 400, error.text);
        return false;
    }
    request->space = call->names[0];
    return true;
}

void rota_api_space_migrate(struct rota_api_call *call)
{
    struct rota_space_request request;
    if (!read_body(call, &ROTA_SPACE_MIGRATE_BODY, &request))
        return;
    rota_api_ask(call, "/rota.v1.Space/Migrate", &ROTA_SPACE_MIGRATE, &request,
                 &ROTA_SPACE_PLAN_REPLY);
}

void rota_api_shard_pin(struct rota_api_call *call)
{
    struct rota_space_request request;
    uint64_t shard;
    if (!read_shard(call, &shard) || !read_body(call, &ROTA_SPACE_PIN_BODY, &request))
        return;
    request.shard = shard;
    rota_api_ask(call, "/rota.v1.Space/Pin", &ROTA_SPACE_PIN, &request, &ROTA_SPACE_PLAN_REPLY);
}
