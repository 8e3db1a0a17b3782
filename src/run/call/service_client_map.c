/* The spaces of a service client: the calls that wait for their maps. */
#include "run/call/service_client_inside.h"

#include <stdlib.h>

void rota_service_client_map_space_wake(struct rota_service_space *space)
{
    struct rota_list_node waiting;
    rota_list_take(&waiting, &space->waiting);
    ROTA_LIST_DRAIN (call, &waiting, struct rota_service_call, waiting) {
        rota_list_remove(&call->waiting);
        rota_service_client_call_answer(call);
    }
}

static void on_news(void *data, bool is_changed)
{
    struct rota_service_space *space = data;
    struct rota_shards *shards = space->client->shards;
    if (is_changed)
        rota_service_client_map_space_wake(space);
    rota_shards_settle(shards, true);
}

static void on_missing(void *data, const char *text)
{
    struct rota_service_space *space = data;
    struct rota_list_node waiting;
    rota_list_take(&waiting, &space->waiting);
    ROTA_LIST_DRAIN (call, &waiting, struct rota_service_call, waiting) {
        rota_list_remove(&call->waiting);
        if (space->watch.table.is_known)
            rota_list_push(&space->waiting, &call->waiting);
        else
            rota_service_client_call_refuse(call, ROTA_STATUS_NOT_FOUND, text);
    }
}

static void on_deadline(void *data, rota_time at)
{
    struct rota_service_space *space = data;
    rota_service_client_moment_set(space->client, &space->moment, at);
}

struct rota_service_space *rota_service_client_map_space_open(struct rota_service_client *client,
                                                              struct rota_str name)
{
    static const struct rota_map_watch_handler HANDLER = {on_news, on_missing, on_deadline};
    struct rota_service_space *space = rota_map_get(&client->spaces, name);
    if (space)
        return space;
    space = calloc(1, sizeof *space + name.size + 1);
    if (!space)
        return NULL;
    memcpy(space->name, name.data, name.size);
    space->client = client;
    space->id = (int64_t)client->spaces.size + 1;
    space->moment.space = space;
    rota_list_init(&space->waiting);
    rota_map_watch_init(&space->watch, rota_str_of(space->name, name.size), &client->nodes,
                        &HANDLER, space);
    if (rota_map_put(&client->spaces, space->watch.name, space))
        return space;
    rota_service_client_map_space_free(space);
    return NULL;
}

void rota_service_client_map_space_free(struct rota_service_space *space)
{
    rota_heap_remove(&space->client->moments, &space->moment.node);
    rota_map_watch_deinit(&space->watch);
    free(space);
}
