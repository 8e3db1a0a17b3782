#include "run/own/space_service.h"

#include "base/list.h"
#include "base/text.h"
#include "core/own/view.h"
#include "run/own/space_admin.h"
#include "wire/grpc/grpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rota_space_service {
    struct rota_store *store;
    struct rota_space *spaces[ROTA_SPACE_LIST_MAX]; /* by name */
    size_t n_spaces;
    bool is_ended;
    rota_space_service_on_done *on_done;
    void *data;
    const struct rota_node_book *book; /* may be NULL */
    struct rota_list_node waiting;     /* changes that are not in the store yet */
};

/* A call that changes something. */
struct change {
    struct rota_space_service *service;
    char name[ROTA_SPACE_ADMIN_NAME_MAX + 1]; /* of the space */
    struct rota_server_call *call;
    bool is_dry_run;
    struct rota_space_admin admin; /* of a space that is created or deleted */
    struct rota_list_node link;
    char actor[ROTA_SERVER_ACTOR_MAX];
};

/* --- names --- */

static struct rota_str name_of(const struct rota_space_service *service, struct rota_str address)
{
    return service->book ? rota_node_book_name(service->book, address) : address;
}

static void append_named(const struct rota_space_service *service, const char *text,
                         struct rota_buffer *buffer)
{
    if (service->book)
        rota_node_book_rewrite(service->book, rota_str(text), buffer);
    else
        rota_buffer_append_text(buffer, text);
}

/* A list of names and addresses as one of addresses, for free(). NULL: there is no memory. Of one
 * that is too long, enough is left to be rejected. */
static char *resolve_list(const struct rota_space_service *service, struct rota_str list)
{
    struct rota_buffer buffer = {0};
    if (service->book)
        rota_node_book_resolve(service->book, list, ROTA_VIEW_SEATS_MAX + 1, &buffer);
    else
        rota_buffer_append_str(&buffer, list);
    char *copy = buffer.failed ? NULL : rota_text_copy(rota_buffer_str(&buffer));
    rota_buffer_deinit(&buffer);
    return copy;
}

/* --- as messages --- */

bool rota_space_service_info(const struct rota_space *space, struct rota_arena *arena,
                             struct rota_space_info *info)
{
    const struct rota_space_map *map = rota_space_map(space);
    struct rota_space_migration_info *migration = NULL;
    if (map->phase != ROTA_SPACE_STABLE) {
        if (!(migration = rota_arena_take(arena, sizeof *migration)))
            return false;
        *migration = (struct rota_space_migration_info){
            .to = map->to,
            .phase = rota_str(rota_space_phase_name(map->phase)),
            .differences = map->n_differences,
            .is_counted = map->is_counted,
        };
    }
    *info = (struct rota_space_info){
        .name = map->name,
        .engine = map->engine,
        .n_shards = map->n_shards,
        .version = map->version,
        .n_owned = map->n_owned,
        .n_moving = map->n_moving,
        .migration = migration,
        .trouble = rota_str(map->trouble ? map->trouble : ""),
    };
    return true;
}

bool rota_space_service_list(const struct rota_space_service *service, struct rota_arena *arena,
                             struct rota_space_list *list)
{
    struct rota_space_info *infos = rota_arena_take(arena, (service->n_spaces + 1) * sizeof *infos);
    bool is_filled = infos != NULL;
    for (size_t i = 0; is_filled && i < service->n_spaces; i++)
        is_filled = rota_space_service_info(service->spaces[i], arena, &infos[i]);
    *list = (struct rota_space_list){.spaces = {infos, is_filled ? service->n_spaces : 0}};
    return is_filled;
}

static bool show_space(const struct rota_space_service *service, const struct rota_space *space,
                       struct rota_arena *arena, struct rota_space_show *show)
{
    const struct rota_space_map *map = rota_space_map(space);
    struct rota_space_info *info = rota_arena_take(arena, sizeof *info);
    struct rota_space_claim_info *claims =
        rota_arena_take(arena, ((size_t)map->n_shards + 1) * sizeof *claims);
    struct rota_str *names = rota_arena_take(arena, (map->n_nodes + 1) * sizeof *names);
    if (!info || !claims || !names || !rota_space_service_info(space, arena, info))
        return false;
    for (size_t i = 0; i < map->n_nodes; i++)
        names[i] = name_of(service, map->nodes[i]);
    for (uint32_t i = 0; i < map->n_shards; i++) {
        const struct rota_space_shard *shard = &map->shards[i];
        claims[i] = (struct rota_space_claim_info){
            .owner = shard->owner == ROTA_SPACE_NOBODY ? 0 : (uint64_t)shard->owner + 1,
            .epoch = shard->epoch,
            .state = shard->state,
            .is_pinned = shard->is_pinned,
            .held = rota_space_epoch(space, i),
        };
    }
    *show = (struct rota_space_show){.space = info,
                                     .nodes = {map->nodes, map->n_nodes},
                                     .shards = {claims, map->n_shards},
                                     .node_names = {names, map->n_nodes}};
    return true;
}

static struct rota_str explain_shard(const struct rota_space_service *service,
                                     const struct rota_space *space, uint32_t shard,
                                     struct rota_arena *arena)
{
    char why[ROTA_SPACE_TEXT_MAX];
    struct rota_buffer text = {0};
    append_named(service, rota_space_explain(space, shard, why, sizeof why), &text);
    struct rota_str kept = {0};
    if (!text.failed)
        kept = rota_arena_copy(arena, rota_buffer_str(&text));
    rota_buffer_deinit(&text);
    return kept;
}

bool rota_space_service_explain(const struct rota_space_service *service,
                                const struct rota_space *space, uint32_t shard,
                                struct rota_arena *arena,
                                struct rota_space_explanation *explanation)
{
    const struct rota_space_map *map = rota_space_map(space);
    const struct rota_space_shard *claim = &map->shards[shard];
    struct rota_space_event events[ROTA_SPACE_SERVICE_HISTORY];
    size_t n = rota_space_history(space, shard, events, ROTA_SPACE_SERVICE_HISTORY);
    struct rota_space_change *changes = rota_arena_take(arena, (n + 1) * sizeof *changes);
    struct rota_str why = explain_shard(service, space, shard, arena);
    struct rota_str owner =
        claim->owner == ROTA_SPACE_NOBODY ? rota_str("") : map->nodes[claim->owner];
    if (!changes || !why.data)
        return false;
    for (size_t i = 0; i < n; i++)
        changes[i] = (struct rota_space_change){
            .at_ms = events[i].at > 0 ? (uint64_t)(events[i].at / ROTA_MSEC) : 0,
            .owner = events[i].owner,
            .epoch = events[i].epoch,
            .what = rota_str(rota_space_message_state_name(events[i].state)),
            .owner_name = name_of(service, events[i].owner),
        };
    *explanation = (struct rota_space_explanation){
        .shard = shard,
        .owner = owner,
        .epoch = claim->epoch,
        .state = claim->state,
        .why = why,
        .history = {changes, n},
        .is_pinned = claim->is_pinned,
        .owner_name = name_of(service, owner),
    };
    return true;
}

enum rota_status rota_space_service_look_up(const struct rota_space_service *service,
                                            struct rota_str name, uint64_t shard,
                                            struct rota_space **space,
                                            char text[ROTA_SPACE_TEXT_MAX])
{
    enum { SHOWN = 200 }; /* bytes of a name */
    struct rota_space *found = rota_space_service_find(service, name);
    const struct rota_space_map *map = found ? rota_space_map(found) : NULL;
    if (service->is_ended) {
        snprintf(text, ROTA_SPACE_TEXT_MAX, "this node is stopping");
        return ROTA_STATUS_UNAVAILABLE;
    }
    if (!map) {
        snprintf(text, ROTA_SPACE_TEXT_MAX, "there is no space \"%.*s\"",
                 (int)(name.size < SHOWN ? name.size : SHOWN), name.data);
        return ROTA_STATUS_NOT_FOUND;
    }
    if (map->engine.size == 0) {
        snprintf(text, ROTA_SPACE_TEXT_MAX, "space %.*s is unknown so far%s%s",
                 ROTA_STR_ARGS(map->name), map->trouble ? ": " : "",
                 map->trouble ? map->trouble : "");
        return ROTA_STATUS_UNAVAILABLE;
    }
    if (shard >= map->n_shards) {
        snprintf(text, ROTA_SPACE_TEXT_MAX, "space %.*s has the shards 0 to %u, not %llu",
                 ROTA_STR_ARGS(map->name), map->n_shards - 1, (unsigned long long)shard);
        return ROTA_STATUS_NOT_FOUND;
    }
    *space = found;
    return ROTA_STATUS_OK;
}

/* --- calls --- */

static void reply_message(struct rota_server_call *call, const struct rota_message_type *type,
                          const void *message)
{
    struct rota_buffer bytes = {0};
    rota_message_encode(type, message, &bytes);
    if (bytes.failed)
        rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED,
                                "not enough memory for the reply", NULL, 0);
    else
        rota_server_call_reply(call, rota_buffer_str(&bytes));
    rota_buffer_deinit(&bytes);
}

static void refuse_memory(struct rota_server_call *call)
{
    rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED, "not enough memory for the reply",
                            NULL, 0);
}

/* Read a request that names a space and perhaps a shard of it. NULL: the call was finished. */
static struct rota_space *read_request(const struct rota_space_service *service,
                                       struct rota_server_call *call,
                                       const struct rota_message_type *type,
                                       struct rota_space_request *request)
{
    struct rota_arena none = {0};
    struct rota_error error;
    char text[ROTA_SPACE_TEXT_MAX];
    if (rota_message_decode(type, rota_server_call_request(call), request, &none, &error)) {
        rota_server_call_finish(call, ROTA_STATUS_INVALID_ARGUMENT, error.text, NULL, 0);
        return NULL;
    }
    struct rota_space *space = NULL;
    enum rota_status status =
        rota_space_service_look_up(service, request->space, request->shard, &space, text);
    if (status) {
        rota_server_call_finish(call, status, text, NULL, 0);
        return NULL;
    }
    return space;
}

static void on_list(void *data, struct rota_server_call *call)
{
    struct rota_arena arena = {0};
    struct rota_space_list list;
    if (rota_space_service_list(data, &arena, &list))
        reply_message(call, &ROTA_SPACE_LIST_REPLY, &list);
    else
        refuse_memory(call);
    rota_arena_deinit(&arena);
}

static void on_show(void *data, struct rota_server_call *call)
{
    struct rota_arena arena = {0};
    struct rota_space_request request;
    struct rota_space_show show;
    struct rota_space *space = read_request(data, call, &ROTA_SPACE_SHOW, &request);
    if (!space)
        return;
    if (show_space(data, space, &arena, &show))
        reply_message(call, &ROTA_SPACE_SHOW_REPLY, &show);
    else
        refuse_memory(call);
    rota_arena_deinit(&arena);
}

static void on_explain(void *data, struct rota_server_call *call)
{
    struct rota_arena arena = {0};
    struct rota_space_request request;
    struct rota_space_explanation explanation;
    struct rota_space *space = read_request(data, call, &ROTA_SPACE_EXPLAIN, &request);
    if (!space)
        return;
    if (rota_space_service_explain(data, space, (uint32_t)request.shard, &arena, &explanation))
        reply_message(call, &ROTA_SPACE_EXPLAIN_REPLY, &explanation);
    else
        refuse_memory(call);
    rota_arena_deinit(&arena);
}

/* --- changes --- */

static void finish_change(struct change *change, enum rota_code code, const char *text)
{
    struct rota_buffer named = {0};
    append_named(change->service, text ? text : "", &named);
    rota_buffer_append_char(&named, '\0');
    struct rota_str sentence = rota_str(named.failed || !text ? "" : named.data);
    struct rota_space_plan plan = {.plan = {&sentence, sentence.size > 0},
                                   .is_done = !change->is_dry_run};
    if (code)
        rota_server_call_finish(change->call,
                                code == ROTA_ERR_INVALID ? ROTA_STATUS_FAILED_PRECONDITION
                                                         : rota_grpc_status_of_code(code),
                                sentence.data, NULL, 0);
    else
        reply_message(change->call, &ROTA_SPACE_PLAN_REPLY, &plan);
    rota_buffer_deinit(&named);
    rota_list_remove(&change->link);
    rota_space_admin_forget(&change->admin);
    free(change);
}

static void on_outcome(void *data, const struct rota_space_outcome *outcome)
{
    struct change *change = data;
    struct rota_space_service *service = change->service;
    if (!outcome->code && !change->is_dry_run && service->on_done) {
        struct rota_buffer named = {0};
        append_named(service, outcome->text, &named);
        rota_buffer_append_char(&named, '\0');
        service->on_done(service->data, rota_str(change->name),
                         named.failed ? outcome->text : named.data, change->actor);
        rota_buffer_deinit(&named);
    }
    finish_change(change, outcome->code, outcome->code ? outcome->error.text : outcome->text);
}

/* A call that waits for its outcome. NULL: it was finished. */
static struct change *begin_change(struct rota_space_service *service,
                                   const struct rota_space_request *request,
                                   struct rota_server_call *call)
{
    struct change *change = calloc(1, sizeof *change);
    if (!change) {
        refuse_memory(call);
        return NULL;
    }
    *change = (struct change){.service = service, .call = call, .is_dry_run = request->is_dry_run};
    snprintf(change->name, sizeof change->name, "%.*s",
             (int)(request->space.size < sizeof change->name ? request->space.size
                                                             : sizeof change->name - 1),
             request->space.data);
    rota_server_call_actor(call, change->actor); /* later its connection may be closed */
    rota_list_push(&service->waiting, &change->link);
    return change;
}

static void on_pin(void *data, struct rota_server_call *call)
{
    struct rota_space_request request;
    struct rota_error error;
    struct rota_space *space = read_request(data, call, &ROTA_SPACE_PIN, &request);
    struct change *change = space ? begin_change(data, &request, call) : NULL;
    if (!change)
        return;
    const struct rota_node_book *book = change->service->book;
    struct rota_str node = book ? rota_node_book_address(book, request.node) : request.node;
    enum rota_code code = rota_space_pin(space, (uint32_t)request.shard, node, request.is_dry_run,
                                         on_outcome, change, &error);
    if (code)
        finish_change(change, code, error.text);
}

static void on_migrate(void *data, struct rota_server_call *call)
{
    struct rota_space_request request;
    struct rota_error error;
    char text[ROTA_SPACE_TEXT_MAX];
    struct rota_space *space = read_request(data, call, &ROTA_SPACE_MIGRATE, &request);
    if (space && !rota_space_has_engine(request.engine)) {
        snprintf(text, sizeof text, "unknown engine %.*s; use static, ring, lease or group",
                 (int)(request.engine.size < 40 ? request.engine.size : 40), request.engine.data);
        rota_server_call_finish(call, ROTA_STATUS_INVALID_ARGUMENT, text, NULL, 0);
        return;
    }
    struct change *change = space ? begin_change(data, &request, call) : NULL;
    if (!change)
        return;
    rota_time shadow = request.shadow_ms < (uint64_t)(ROTA_DAY / ROTA_MSEC)
                           ? (rota_time)request.shadow_ms * ROTA_MSEC
                           : ROTA_DAY;
    enum rota_code code = rota_space_migrate(space, request.engine, shadow, request.is_dry_run,
                                             on_outcome, change, &error);
    if (code)
        finish_change(change, code, error.text);
}

static void on_reseat(void *data, struct rota_server_call *call)
{
    struct rota_space_request request;
    struct rota_error error;
    struct rota_space *space = read_request(data, call, &ROTA_SPACE_RESEAT, &request);
    struct change *change = space ? begin_change(data, &request, call) : NULL;
    if (!change)
        return;
    char *seats = resolve_list(data, request.seats);
    enum rota_code code =
        seats ? rota_space_reseat(space, seats, request.is_dry_run, on_outcome, change, &error)
              : rota_error_no_memory(&error, "for the list of nodes");
    free(seats);
    if (code)
        finish_change(change, code, error.text);
}

/* A request to create or delete a space. NULL: the call was finished. */
static struct change *begin_admin(struct rota_space_service *service, struct rota_server_call *call,
                                  const struct rota_message_type *type,
                                  struct rota_space_request *request)
{
    struct rota_arena none = {0};
    struct rota_error error;
    if (rota_message_decode(type, rota_server_call_request(call), request, &none, &error)) {
        rota_server_call_finish(call, ROTA_STATUS_INVALID_ARGUMENT, error.text, NULL, 0);
        return NULL;
    }
    if (service->is_ended || !service->store) {
        rota_server_call_finish(
            call, ROTA_STATUS_UNAVAILABLE,
            service->is_ended ? "this node is stopping" : "this node has no store", NULL, 0);
        return NULL;
    }
    return begin_change(service, request, call);
}

/* Nothing was requested, so the request itself is at fault. */
static void refuse_request(struct change *change, enum rota_code code, struct rota_error *error)
{
    struct rota_server_call *call = change->call;
    rota_server_call_finish(call,
                            code == ROTA_ERR_INVALID ? ROTA_STATUS_INVALID_ARGUMENT
                                                     : rota_grpc_status_of_code(code),
                            error->text, NULL, 0);
    rota_list_remove(&change->link);
    free(change);
}

static void on_create(void *data, struct rota_server_call *call)
{
    enum { SHARDS = 64 };
    struct rota_space_service *service = data;
    struct rota_space_request request;
    struct rota_error error;
    struct change *change = begin_admin(service, call, &ROTA_SPACE_CREATE, &request);
    if (!change)
        return;
    char *engine = rota_text_copy(request.engine.size ? request.engine : rota_str_of("ring", 4));
    char *seats = resolve_list(service, request.seats);
    char *name = rota_text_copy(request.space);
    const struct rota_space_options options = {
        .name = name,
        .engine = engine,
        .seats = seats,
        .n_shards = request.n_shards ? (uint32_t)request.n_shards : SHARDS,
    };
    enum rota_code code =
        name && engine && seats
            ? rota_space_admin_create(&change->admin, service->store, &options, request.is_dry_run,
                                      on_outcome, change, &error)
            : rota_error_no_memory(&error, "for the space");
    free(name);
    free(engine);
    free(seats);
    if (code)
        refuse_request(change, code, &error);
}

static void on_delete(void *data, struct rota_server_call *call)
{
    struct rota_space_service *service = data;
    struct rota_space_request request;
    struct rota_error error;
    struct change *change = begin_admin(service, call, &ROTA_SPACE_DELETE, &request);
    if (!change)
        return;
    enum rota_code code = rota_space_admin_delete(&change->admin, service->store, request.space,
                                                  request.is_dry_run, on_outcome, change, &error);
    if (code)
        refuse_request(change, code, &error);
}

/* --- life --- */

void rota_space_service_use_names(struct rota_space_service *service,
                                  const struct rota_node_book *book)
{
    service->book = book;
}

enum rota_code rota_space_service_open(struct rota_server *server, struct rota_store *store,
                                       rota_space_service_on_done *on_done, void *data,
                                       struct rota_space_service **service,
                                       struct rota_error *error)
{
    struct rota_space_service *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for the space service");
    made->store = store;
    made->on_done = on_done;
    made->data = data;
    rota_list_init(&made->waiting);
    const struct rota_server_method methods[] = {
        {.path = "/rota.v1.Space/List", .on_call = on_list, .data = made},
        {.path = "/rota.v1.Space/Show", .on_call = on_show, .data = made},
        {.path = "/rota.v1.Space/Explain", .on_call = on_explain, .data = made},
        {.path = "/rota.v1.Space/Pin",
         .on_call = on_pin,
         .data = made,
         .roles = ROTA_ROLE_OPERATOR | ROTA_ROLE_NODE},
        {.path = "/rota.v1.Space/Migrate",
         .on_call = on_migrate,
         .data = made,
         .roles = ROTA_ROLE_OPERATOR | ROTA_ROLE_NODE},
        {.path = "/rota.v1.Space/Create",
         .on_call = on_create,
         .data = made,
         .roles = ROTA_ROLE_OPERATOR | ROTA_ROLE_NODE},
        {.path = "/rota.v1.Space/Delete",
         .on_call = on_delete,
         .data = made,
         .roles = ROTA_ROLE_OPERATOR | ROTA_ROLE_NODE},
        {.path = "/rota.v1.Space/Reseat",
         .on_call = on_reseat,
         .data = made,
         .roles = ROTA_ROLE_OPERATOR | ROTA_ROLE_NODE},
    };
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        enum rota_code code = rota_server_add(server, &methods[i], error);
        if (code) { /* no callback can have been called: this is before the loop continues */
            free(made);
            return code;
        }
    }
    *service = made;
    return ROTA_OK;
}

void rota_space_service_close(struct rota_space_service *service)
{
    if (service)
        rota_space_service_end(service);
    free(service);
}

/* The place of a name, or where it would be. */
static size_t place_of_space(const struct rota_space_service *service, struct rota_str name)
{
    size_t i = 0;
    while (i < service->n_spaces &&
           rota_str_compare(rota_space_map(service->spaces[i])->name, name) < 0)
        i++;
    return i;
}

enum rota_code rota_space_service_add(struct rota_space_service *service, struct rota_space *space,
                                      struct rota_error *error)
{
    if (service->n_spaces == ROTA_SPACE_LIST_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "a node serves at most %d spaces",
                              ROTA_SPACE_LIST_MAX);
    size_t at = place_of_space(service, rota_space_map(space)->name);
    memmove(&service->spaces[at + 1], &service->spaces[at],
            (service->n_spaces - at) * sizeof service->spaces[0]);
    service->spaces[at] = space;
    service->n_spaces++;
    return ROTA_OK;
}

void rota_space_service_end(struct rota_space_service *service)
{
    service->is_ended = true;
    service->n_spaces = 0;
    ROTA_LIST_DRAIN (change, &service->waiting, struct change, link)
        finish_change(
            change, ROTA_ERR_UNKNOWN,
            "this node is stopping, and the outcome is unknown: check before you repeat the "
            "request");
}

void rota_space_service_remove(struct rota_space_service *service, struct rota_str name)
{
    size_t at = place_of_space(service, name);
    if (!rota_space_service_find(service, name))
        return;
    service->n_spaces--;
    memmove(&service->spaces[at], &service->spaces[at + 1],
            (service->n_spaces - at) * sizeof service->spaces[0]);
}

struct rota_space *rota_space_service_find(const struct rota_space_service *service,
                                           struct rota_str name)
{
    size_t at = place_of_space(service, name);
    return at < service->n_spaces &&
                   rota_str_is_equal(rota_space_map(service->spaces[at])->name, name)
               ? service->spaces[at]
               : NULL;
}
