/* The map of a space, from a directory. */
#include "run/call/service_client_inside.h"

#include "io/clock.h"

#include <stdio.h>
#include <stdlib.h>

/* --- updates --- */

static enum rota_code apply_claims(struct rota_space_table *table,
                                   const struct rota_directory_claims *claims,
                                   struct rota_error *error)
{
    struct rota_directory_claims_reader reader = {.claims = claims};
    struct rota_directory_claim claim;
    size_t zone;
    enum rota_code next, code = rota_space_table_zone(table, claims->zone, &zone, error);
    while (!code &&
           (next = rota_directory_message_claims_next(&reader, &claim)) != ROTA_ERR_NOT_FOUND) {
        if (next)
            return rota_error_set(error, next, "the directory sent malformed claims");
        const struct rota_space_table_claim known = {claim.epoch, claim.owner, claim.is_moving};
        code = rota_space_table_claim(table, zone, claim.shard, &known, error);
    }
    return code;
}

static enum rota_code apply_update(struct rota_space_table *table,
                                   const struct rota_directory_update *update,
                                   struct rota_error *error)
{
    const struct rota_space_table_head head = {.history = update->history,
                                               .version = update->version,
                                               .is_snapshot = update->is_snapshot,
                                               .is_whole = update->is_whole,
                                               .engine = update->engine,
                                               .n_shards = update->n_shards};
    const struct rota_directory_space_node *nodes = update->nodes.items;
    const struct rota_directory_claims *claims = update->claims.items;
    enum rota_code code = rota_space_table_begin(table, &head, error);
    for (size_t i = 0; !code && i < update->nodes.n; i++)
        code = rota_space_table_node(table, update->first_node + i, nodes[i].address, error);
    for (size_t i = 0; !code && i < update->claims.n; i++)
        code = apply_claims(table, &claims[i], error);
    return code ? code : rota_space_table_end(table, &head, error);
}

enum rota_code rota_service_client_map_apply(struct rota_space_table *table, struct rota_str reply,
                                             bool *is_whole, struct rota_error *error)
{
    struct rota_directory_space_reply message;
    struct rota_arena arena = {0};
    const struct rota_directory_update *update = NULL;
    enum rota_code code =
        rota_message_decode(&ROTA_DIRECTORY_SPACE_REPLY, reply, &message, &arena, error);
    if (!code && !(update = message.update))
        code = rota_error_set(error, ROTA_ERR_INVALID, "the directory sent an empty reply");
    if (!code)
        code = apply_update(table, update, error);
    *is_whole = !code && update->is_whole;
    if (code)
        rota_space_table_abort(table);
    rota_arena_deinit(&arena);
    return code;
}

void rota_service_client_map_space_wake(struct rota_service_space *space)
{
    struct rota_list_node waiting;
    rota_list_take(&waiting, &space->waiting);
    ROTA_LIST_DRAIN (call, &waiting, struct rota_service_call, waiting) {
        rota_list_remove(&call->waiting);
        rota_service_client_call_answer(call);
    }
}

/* --- watches --- */

static const char *directory_of(const struct rota_service_space *space)
{
    return rota_channel_target(space->client->channels[space->directory]);
}

static void set_problem(struct rota_service_space *space, struct rota_str text)
{
    snprintf(space->problem, sizeof space->problem, "%.*s", ROTA_STR_ARGS(text));
}

static void on_update(void *data, struct rota_call *rpc, struct rota_str message)
{
    struct rota_service_space *space = data;
    struct rota_shards *shards = space->client->shards;
    struct rota_error error;
    bool is_whole;
    (void)rpc;
    if (rota_service_client_map_apply(&space->table, message, &is_whole, &error)) {
        rota_call_cancel(space->rpc);
        space->rpc = NULL;
        set_problem(space, rota_str(error.text));
        rota_service_client_map_watch(space,
                                      (struct rota_watch_event){.type = ROTA_WATCH_ENDED,
                                                                .number = space->rpc_number,
                                                                .status = ROTA_STATUS_INTERNAL});
    } else {
        rota_service_client_map_watch(space, (struct rota_watch_event){.type = ROTA_WATCH_UPDATE,
                                                                       .number = space->rpc_number,
                                                                       .is_whole = is_whole});
        rota_service_client_map_space_wake(space);
    }
    rota_shards_settle(shards, true);
}

static void on_end(void *data, struct rota_call *rpc, const struct rota_call_result *result)
{
    struct rota_service_space *space = data;
    struct rota_shards *shards = space->client->shards;
    (void)rpc;
    space->rpc = NULL;
    set_problem(space,
                result->text.size > 0 ? result->text : rota_str(rota_status_name(result->status)));
    rota_service_client_map_watch(space, (struct rota_watch_event){.type = ROTA_WATCH_ENDED,
                                                                   .number = space->rpc_number,
                                                                   .status = result->status});
    rota_shards_settle(shards, true);
}

/* False when it can't be begun now. */
static bool start_watch(struct rota_service_space *space, const struct rota_watch_actions *actions)
{
    const struct rota_directory_space_request message = {
        .space = rota_str_of(space->name, space->name_size),
        .history = space->table.history,
        .version = space->table.version,
    };
    struct rota_buffer request = {0};
    struct rota_error error;
    space->directory = actions->node;
    space->rpc_number = actions->number;
    rota_message_encode(&ROTA_DIRECTORY_SPACE_REQUEST, &message, &request);
    struct rota_call_options options = {
        .method = rota_str("/rota.v1.Directory/WatchSpace"),
        .request = rota_buffer_str(&request),
        .on_message = on_update,
        .on_end = on_end,
        .data = space,
    };
    enum rota_code code = request.failed ? rota_error_no_memory(&error, "to follow a space")
                                         : rota_channel_call(space->client->channels[actions->node],
                                                             &options, &space->rpc, &error);
    rota_buffer_deinit(&request);
    if (code)
        set_problem(space, rota_str(error.text));
    return code == ROTA_OK;
}

static void tell_missing(struct rota_service_space *space)
{
    struct rota_list_node waiting;
    struct rota_error error;
    rota_error_set(&error, ROTA_ERR_NOT_FOUND,
                   "space %s does not exist in the store of node %s; the first server that opens "
                   "it creates it",
                   space->name, directory_of(space));
    rota_list_take(&waiting, &space->waiting);
    ROTA_LIST_DRAIN (call, &waiting, struct rota_service_call, waiting) {
        rota_list_remove(&call->waiting);
        if (space->table.is_known)
            rota_list_push(&space->waiting, &call->waiting);
        else
            rota_service_client_call_refuse(call, ROTA_STATUS_NOT_FOUND, error.text);
    }
}

void rota_service_client_map_watch(struct rota_service_space *space, struct rota_watch_event event)
{
    struct rota_service_client *client = space->client;
    for (;;) {
        struct rota_watch_actions actions =
            rota_watch_fsm_step(&space->watch, rota_clock_mono(), &event, &client->random);
        if (actions.cancel && space->rpc)
            rota_call_cancel(space->rpc);
        if (actions.cancel)
            space->rpc = NULL;
        if (actions.tell_missing)
            tell_missing(space);
        if (!actions.start)
            break;
        rota_space_table_pause(&space->table);
        if (start_watch(space, &actions))
            break;
        event = (struct rota_watch_event){
            .type = ROTA_WATCH_ENDED, .number = actions.number, .status = ROTA_STATUS_UNAVAILABLE};
    }
    rota_service_client_moment_set(client, &space->moment, rota_watch_fsm_deadline(&space->watch));
}

/* --- life --- */

struct rota_service_space *rota_service_client_map_space_open(struct rota_service_client *client,
                                                              struct rota_str name)
{
    struct rota_service_space *space = rota_map_get(&client->spaces, name);
    if (space)
        return space;
    space = calloc(1, sizeof *space + name.size + 1);
    if (!space)
        return NULL;
    memcpy(space->name, name.data, name.size);
    space->name_size = name.size;
    space->client = client;
    space->id = (int64_t)client->spaces.size + 1;
    space->moment.space = space;
    rota_list_init(&space->waiting);
    rota_space_table_init(&space->table, rota_random_next(&client->random));
    rota_watch_fsm_init(&space->watch, client->n_nodes,
                        rota_random_below(&client->random, client->n_nodes));
    if (rota_map_put(&client->spaces, rota_str_of(space->name, space->name_size), space))
        return space;
    rota_service_client_map_space_free(space);
    return NULL;
}

void rota_service_client_map_space_free(struct rota_service_space *space)
{
    rota_heap_remove(&space->client->moments, &space->moment.node);
    rota_space_table_deinit(&space->table);
    free(space);
}
