#include "run/call/map_watch.h"

#include "io/clock.h"
#include "wire/message/directory_message.h"

#include <stdio.h>

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

enum rota_code rota_map_watch_apply(struct rota_space_table *table, struct rota_str reply,
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

/* --- watches --- */

const char *rota_map_watch_node(const struct rota_map_watch *watch)
{
    return rota_channel_target(watch->nodes->channels[watch->node]);
}

static void set_problem(struct rota_map_watch *watch, struct rota_str text)
{
    snprintf(watch->problem, sizeof watch->problem, "%.*s", ROTA_STR_ARGS(text));
}

static void on_update(void *data, struct rota_call *rpc, struct rota_str message)
{
    struct rota_map_watch *watch = data;
    struct rota_watch_event event = {.type = ROTA_WATCH_UPDATE, .number = watch->number};
    struct rota_error error;
    (void)rpc;
    enum rota_code code = rota_map_watch_apply(&watch->table, message, &event.is_whole, &error);
    if (code) {
        rota_map_watch_cancel(watch);
        set_problem(watch, rota_str(error.text));
        event.type = ROTA_WATCH_ENDED;
        event.status = ROTA_STATUS_INTERNAL;
    }
    rota_map_watch_step(watch, event);
    watch->handler->on_news(watch->data, code == ROTA_OK);
}

static void on_end(void *data, struct rota_call *rpc, const struct rota_call_result *result)
{
    struct rota_map_watch *watch = data;
    (void)rpc;
    watch->rpc = NULL;
    set_problem(watch,
                result->text.size > 0 ? result->text : rota_str(rota_status_name(result->status)));
    rota_map_watch_step(watch, (struct rota_watch_event){.type = ROTA_WATCH_ENDED,
                                                         .number = watch->number,
                                                         .status = result->status});
    watch->handler->on_news(watch->data, false);
}

/* False when it can't be begun now. */
static bool start_watch(struct rota_map_watch *watch, const struct rota_watch_actions *actions)
{
    const struct rota_directory_space_request message = {
        .space = watch->name, .history = watch->table.history, .version = watch->table.version};
    struct rota_buffer request = {0};
    struct rota_error error;
    watch->node = actions->node;
    watch->number = actions->number;
    rota_message_encode(&ROTA_DIRECTORY_SPACE_REQUEST, &message, &request);
    struct rota_call_options options = {
        .method = rota_str("/rota.v1.Directory/WatchSpace"),
        .request = rota_buffer_str(&request),
        .on_message = on_update,
        .on_end = on_end,
        .data = watch,
    };
    enum rota_code code = request.failed ? rota_error_no_memory(&error, "to follow a space")
                                         : rota_channel_call(watch->nodes->channels[watch->node],
                                                             &options, &watch->rpc, &error);
    rota_buffer_deinit(&request);
    if (code)
        set_problem(watch, rota_str(error.text));
    return code == ROTA_OK;
}

static void tell_missing(struct rota_map_watch *watch)
{
    struct rota_error error;
    rota_error_set(&error, ROTA_ERR_NOT_FOUND,
                   "space %.*s does not exist in the store of node %s; the first server that "
                   "opens it creates it",
                   ROTA_STR_ARGS(watch->name), rota_map_watch_node(watch));
    watch->handler->on_missing(watch->data, error.text);
}

void rota_map_watch_step(struct rota_map_watch *watch, struct rota_watch_event event)
{
    for (;;) {
        struct rota_watch_actions actions =
            rota_watch_fsm_step(&watch->fsm, rota_clock_mono(), &event, watch->nodes->random);
        if (actions.cancel)
            rota_map_watch_cancel(watch);
        if (actions.tell_missing)
            tell_missing(watch);
        if (!actions.start)
            break;
        rota_space_table_pause(&watch->table);
        if (start_watch(watch, &actions))
            break;
        event = (struct rota_watch_event){
            .type = ROTA_WATCH_ENDED, .number = actions.number, .status = ROTA_STATUS_UNAVAILABLE};
    }
    watch->handler->on_deadline(watch->data, rota_watch_fsm_deadline(&watch->fsm));
}

/* --- life --- */

void rota_map_watch_init(struct rota_map_watch *watch, struct rota_str name,
                         const struct rota_map_watch_nodes *nodes,
                         const struct rota_map_watch_handler *handler, void *data)
{
    *watch =
        (struct rota_map_watch){.name = name, .nodes = nodes, .handler = handler, .data = data};
    rota_space_table_init(&watch->table, rota_random_next(nodes->random));
    rota_watch_fsm_init(&watch->fsm, nodes->n, rota_random_below(nodes->random, nodes->n));
}

void rota_map_watch_cancel(struct rota_map_watch *watch)
{
    if (watch->rpc)
        rota_call_cancel(watch->rpc);
    watch->rpc = NULL;
}

void rota_map_watch_deinit(struct rota_map_watch *watch)
{
    rota_space_table_deinit(&watch->table);
}
