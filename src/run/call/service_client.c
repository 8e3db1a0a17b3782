#include "run/call/service_client_inside.h"

#include "base/hash.h"
#include "base/text.h"
#include "io/clock.h"
#include "io/timer.h"

#include <rota/space.h>
#include <stdio.h>
#include <stdlib.h>

#define TIMEOUT_DEFAULT (10 * ROTA_SEC)

uint32_t rota_service_shard_of(struct rota_str key, uint32_t n_shards)
{
    return rota_hash_shard(key, n_shards);
}

/* --- time --- */

static void on_timer(uv_timer_t *timer);

static void arm_timer(struct rota_service_client *client)
{
    const struct rota_heap_node *first = rota_heap_first(&client->moments);
    if (client->is_closed)
        return;
    uv_update_time(client->loop);
    rota_timer_set(&client->timer, on_timer, rota_clock_mono(),
                   first ? first->at : ROTA_TIME_NEVER);
}

void rota_service_client_moment_set(struct rota_service_client *client,
                                    struct rota_service_moment *moment, rota_time at)
{
    if (moment->node.place != 0 && moment->node.at == at)
        return;
    rota_heap_remove(&client->moments, &moment->node);
    moment->node.at = at;
    moment->node.order = ++client->n_moments;
    if (at != ROTA_TIME_NEVER) /* without memory a call waits for the next update */
        rota_heap_push(&client->moments, &moment->node);
    arm_timer(client);
}

static void on_timer(uv_timer_t *timer)
{
    struct rota_service_client *client = timer->data;
    rota_time now = rota_clock_mono();
    struct rota_heap_node *first;
    while ((first = rota_heap_first(&client->moments)) && first->at <= now) {
        struct rota_service_moment *moment = (struct rota_service_moment *)first;
        rota_heap_remove(&client->moments, first);
        if (moment->space)
            rota_map_watch_step(&moment->space->watch,
                                (struct rota_watch_event){.type = ROTA_WATCH_TICK});
        else
            rota_service_client_call_answer(moment->call);
    }
    arm_timer(client);
    rota_shards_settle(client->shards, true);
}

/* --- where a call goes --- */

/* The call no longer waits. */
static void stop_waiting(struct rota_service_call *call)
{
    rota_list_remove(&call->waiting);
    if (call->moment.node.place != 0)
        rota_service_client_moment_set(call->client, &call->moment, ROTA_TIME_NEVER);
}

static void give_answer(struct rota_service_call *call, enum rota_failure failure,
                        struct rota_shard_map *map)
{
    uint64_t asked = call->asked;
    call->asked = 0;
    stop_waiting(call);
    rota_shards_calls_note(call->call, (struct rota_call_fsm_event){.type = ROTA_CALL_LEADERS,
                                                                    .number = asked,
                                                                    .failure = failure,
                                                                    .map = map});
}

void rota_service_client_call_refuse(struct rota_service_call *call, enum rota_status status,
                                     const char *text)
{
    call->call->has_status = true;
    call->call->status = status;
    rota_buffer_clear(&call->call->text);
    rota_buffer_append_text(&call->call->text, text);
    give_answer(call, ROTA_FAILURE_INPUT, NULL);
}

/* The shard, as soon as the number of shards is known. */
static void find_shard(struct rota_service_call *call)
{
    uint32_t n_shards = call->space->watch.table.now.n_shards;
    uint32_t shard = call->has_shard ? call->shard : rota_hash_shard(call->key, n_shards);
    if (call->channel[0] != '\0' && shard == call->shard)
        return;
    call->shard = shard;
    snprintf(call->channel, sizeof call->channel, "%u", (unsigned)shard);
    call->call->channel = call->call->fsm.options.channel = rota_str(call->channel);
}

static void go(struct rota_service_call *call, const struct rota_space_table_shard *shard)
{
    struct rota_replica replicas[ROTA_SPACE_TABLE_ZONES_MAX];
    const struct rota_shard_channel channel = {rota_str(call->channel), replicas,
                                               shard->n_replicas};
    const char *zone = call->client->zone;
    struct rota_shard_map *map = NULL;
    for (size_t i = 0; i < shard->n_replicas; i++)
        replicas[i] = (struct rota_replica){
            .node = rota_space_node(shard->replicas[i].address),
            .address = shard->replicas[i].address,
            .epoch = shard->replicas[i].epoch,
            /* one of another zone is called when there is none of ours */
            .is_serviceable = !zone || rota_str_is_equal(rota_str(zone), shard->replicas[i].zone),
        };
    enum rota_code code =
        rota_shard_map_new(call->space->id, rota_str(""), &channel, 1, &map, NULL);
    give_answer(call, code ? ROTA_FAILURE_LOCAL : ROTA_FAILURE_NONE, map);
}

void rota_service_client_call_answer(struct rota_service_call *call)
{
    struct rota_service_space *space = call->space;
    struct rota_space_table_shard shard;
    rota_time until = ROTA_TIME_NEVER;
    if (call->asked == 0)
        return;
    stop_waiting(call);
    if (space->watch.table.is_known)
        find_shard(call);
    if (rota_follow_look(&call->follow, &space->watch.table, rota_clock_mono(), call->shard,
                         rota_space_node, &shard, &until))
        rota_map_watch_step(&space->watch, (struct rota_watch_event){
                                               .type = ROTA_WATCH_SERVED,
                                               .is_waited = !rota_list_is_empty(&space->waiting)});
    if (call->follow.reason == ROTA_FOLLOW_NO_SHARD) {
        struct rota_error error;
        rota_error_set(&error, ROTA_ERR_INVALID, "space %s has no shard %u: it has %u shards",
                       space->name, (unsigned)call->shard,
                       (unsigned)space->watch.table.now.n_shards);
        rota_service_client_call_refuse(call, ROTA_STATUS_INVALID_ARGUMENT, error.text);
        return;
    }
    if (shard.n_replicas > 0) {
        go(call, &shard);
        return;
    }
    rota_list_push(&space->waiting, &call->waiting);
    rota_service_client_moment_set(call->client, &call->moment, until);
    rota_map_watch_step(&space->watch, (struct rota_watch_event){.type = ROTA_WATCH_START});
    rota_map_watch_step(&space->watch, (struct rota_watch_event){.type = ROTA_WATCH_WAITED});
}

/* --- hooks --- */

static void on_ask(void *data, struct rota_shards_call *call, uint64_t number)
{
    struct rota_service_call *ours = call->run->user;
    (void)data;
    ours->asked = number;
    rota_service_client_call_answer(ours);
}

static void on_start(void *data, struct rota_shards_call *call, const struct rota_replica *replica)
{
    struct rota_service_call *ours = call->run->user;
    (void)data;
    ours->epoch = replica->epoch;
    snprintf(ours->node, sizeof ours->node, "%.*s", ROTA_STR_ARGS(replica->address));
}

static void on_report(void *data, struct rota_shards_call *call, rota_time now,
                      const struct rota_call_fsm_action *action)
{
    struct rota_service_client *client = data;
    struct rota_service_call *ours = call->run->user;
    bool is_redirected =
        action->failure == ROTA_FAILURE_STALE && action->claim &&
        rota_space_table_learn(&ours->space->watch.table, now, ours->shard, action->claim);
    rota_follow_failed(&ours->follow, now, action->node, action->epoch, action->failure,
                       &client->random);
    if (is_redirected)
        rota_service_client_map_space_wake(ours->space);
}

static void on_free(void *data, struct rota_shards_call *call)
{
    struct rota_service_client *client = data;
    struct rota_service_call *ours = call->run->user;
    stop_waiting(ours);
    rota_list_remove(&ours->link);
    client->n_calls--;
    call->run->user = NULL;
    free(ours);
}

/* --- results for the program --- */

/* Why it waited until its deadline, and what to do. */
static void explain_wait(const struct rota_service_call *call, struct rota_buffer *text)
{
    const struct rota_service_space *space = call->space;
    const char *node = call->node, *reason = space->watch.problem;
    const char *directory = rota_map_watch_node(&space->watch);
    switch (call->follow.reason) {
    case ROTA_FOLLOW_NO_MAP:
        rota_buffer_print(text,
                          "no node has sent its map in time; the last one asked was %s%s%s; "
                          "is a rotad with the store of the space running there?",
                          directory, reason[0] ? ": " : "", reason);
        return;
    case ROTA_FOLLOW_NO_OWNER:
        rota_buffer_print(text,
                          "it has no owner according to node %s; is a server of the space "
                          "running?",
                          directory);
        return;
    case ROTA_FOLLOW_MOVING:
        rota_buffer_print(text, "it waits for its former owner to stop, according to node %s",
                          directory);
        return;
    case ROTA_FOLLOW_REJECTED:
    case ROTA_FOLLOW_CIRCLE:
        rota_buffer_print(text, "server %s rejects epoch %llu, and node %s knows of no other owner",
                          node, (unsigned long long)call->epoch, directory);
        return;
    case ROTA_FOLLOW_UNREACHABLE:
        rota_buffer_print(text, "its owner %s is unreachable, and node %s knows of no other owner",
                          node, directory);
        return;
    case ROTA_FOLLOW_NONE:
    case ROTA_FOLLOW_NO_SHARD:
        break;
    }
    if (node[0] != '\0')
        rota_buffer_print(text, "no reply from server %s", node);
    else
        rota_buffer_append_text(text, "it was not sent");
}

static struct rota_str text_of(struct rota_service_call *call)
{
    struct rota_service_client *client = call->client;
    const struct rota_shards_call *inner = call->call;
    struct rota_buffer *text = &client->text;
    struct rota_str reason = rota_shards_text_of(client->shards, inner->failure, inner);
    if (inner->failure == ROTA_FAILURE_NONE)
        return rota_str("");
    rota_buffer_clear(text);
    if (call->epoch == 0 && inner->failure == ROTA_FAILURE_INPUT)
        return reason; /* it is about the space */
    rota_buffer_print(text, "space %s", call->space->name);
    if (call->channel[0] != '\0')
        rota_buffer_print(text, ", shard %s", call->channel);
    rota_buffer_append_text(text, ": ");
    if (inner->failure == ROTA_FAILURE_DEADLINE) {
        rota_buffer_append_text(text, "the deadline has passed: ");
        explain_wait(call, text);
    } else {
        if (call->node[0] != '\0')
            rota_buffer_print(text, "server %s: ", call->node);
        rota_buffer_append_str(text, reason);
    }
    return text->failed ? reason : rota_buffer_str(text);
}

static void on_tell(void *data, struct rota_shards_call *call)
{
    struct rota_service_call *ours = call->run->user;
    (void)data;
    struct rota_service_reply reply = {
        .status = rota_shards_status_of(call->failure, call),
        .text = text_of(ours),
        .failure = rota_failure_name(call->failure),
        .shard = ours->channel[0] != '\0' ? ours->shard : UINT32_MAX,
        .epoch = ours->epoch,
        .node = rota_str(ours->node),
        .n_tries = call->n_tries,
        .may_have_run = call->may_have_run || call->failure == ROTA_FAILURE_NONE,
    };
    if (call->failure == ROTA_FAILURE_NONE)
        reply.message = rota_buffer_str(&call->message);
    ours->on_reply(ours->data, &reply);
}

/* --- calls --- */

static bool is_space_name(struct rota_str name)
{
    return name.size > 0 && name.size <= ROTA_SERVICE_NAME_MAX &&
           !memchr(name.data, '\0', name.size);
}

static enum rota_code check_request(const struct rota_service_client *client,
                                    const struct rota_service_request *request,
                                    struct rota_error *error)
{
    const char *problem = NULL;
    if (!is_space_name(request->space))
        problem = "the name of a space has 1 to 200 bytes";
    else if (request->method.size == 0 || request->method.data[0] != '/')
        problem = "a method must look like \"/package.Service/Method\"";
    else if (!request->on_reply)
        problem = "on_reply is not set";
    else if (request->repeat != ROTA_REPEAT_UNSENT && request->repeat != ROTA_REPEAT_REFUSED &&
             request->repeat != ROTA_REPEAT_ANY)
        problem = "unknown value of repeat";
    else if (request->timeout < 0 || request->try_timeout < 0)
        problem = "a timeout must not be negative";
    else if (request->n_metadata > ROTA_SERVICE_METADATA_MAX)
        problem = "too many pairs of metadata";
    if (problem)
        return rota_error_set(error, ROTA_ERR_INVALID, "service client: %s", problem);
    if (client->n_calls >= ROTA_SERVICE_CALLS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "service client: more than %d calls at a time",
                              ROTA_SERVICE_CALLS_MAX);
    return ROTA_OK;
}

static enum rota_code find_space(struct rota_service_client *client, struct rota_str name,
                                 struct rota_service_space **space, struct rota_error *error)
{
    if (!rota_map_get(&client->spaces, name) && client->spaces.size >= ROTA_SERVICE_SPACES_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "service client: more than %d spaces",
                              ROTA_SERVICE_SPACES_MAX);
    *space = rota_service_client_map_space_open(client, name);
    return *space ? ROTA_OK : rota_error_no_memory(error, "to follow a space");
}

/* With copies of its key and metadata. */
static struct rota_service_call *call_new(const struct rota_service_request *request)
{
    size_t size = request->key.size + 1;
    for (size_t i = 0; i < request->n_metadata; i++)
        size += request->metadata[i].name.size + request->metadata[i].value.size;
    struct rota_service_call *call = calloc(1, sizeof *call + size);
    if (!call)
        return NULL;
    char *place = call->strings;
    call->key = rota_text_put(&place, request->key);
    for (size_t i = 0; i < request->n_metadata; i++) {
        call->metadata[i].name = rota_text_put(&place, request->metadata[i].name);
        call->metadata[i].value = rota_text_put(&place, request->metadata[i].value);
    }
    call->has_shard = request->has_shard;
    call->shard = request->has_shard ? request->shard : UINT32_MAX;
    call->on_reply = request->on_reply;
    call->data = request->data;
    call->moment.call = call;
    rota_follow_init(&call->follow);
    return call;
}

enum rota_code rota_service_client_call(struct rota_service_client *client,
                                        const struct rota_service_request *request,
                                        struct rota_service_call **result, struct rota_error *error)
{
    struct rota_service_space *space;
    enum rota_code code = check_request(client, request, error);
    if (code == ROTA_OK)
        code = find_space(client, request->space, &space, error);
    if (code)
        return code;
    struct rota_service_call *call = call_new(request);
    if (!call)
        return rota_error_no_memory(error, "to call a service");
    call->client = client;
    call->space = space;
    const struct rota_shards_request inner = {
        .name = {.collection = request->space},
        .method = request->method,
        .request = request->request,
        .timeout = request->timeout > 0 ? request->timeout : TIMEOUT_DEFAULT,
        .try_timeout = request->try_timeout,
        .hedge_after = request->hedge_after,
        .retries = request->retries ? request->retries : client->retries,
        .repeat = request->repeat,
    };
    call->call = rota_shards_call_begin(client->shards, &inner, space->id, call, call->metadata,
                                        request->n_metadata);
    if (!call->call) {
        free(call);
        return rota_error_no_memory(error, "to call a service");
    }
    rota_list_push(&client->calls, &call->link);
    client->n_calls++;
    if (result)
        *result = call;
    rota_shards_settle(client->shards, false);
    return ROTA_OK;
}

void rota_service_call_cancel(struct rota_service_call *call)
{
    rota_shards_call_cancel(call->call);
}

enum rota_code rota_service_client_follow(struct rota_service_client *client, struct rota_str name,
                                          struct rota_error *error)
{
    struct rota_service_space *space;
    if (!is_space_name(name))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "service client: the name of a space has 1 to 200 bytes");
    enum rota_code code = find_space(client, name, &space, error);
    if (code == ROTA_OK)
        rota_map_watch_step(&space->watch, (struct rota_watch_event){.type = ROTA_WATCH_START});
    return code;
}

bool rota_service_client_look(struct rota_service_client *client, struct rota_str name,
                              uint32_t shard, struct rota_service_view *view)
{
    struct rota_service_space *space = rota_map_get(&client->spaces, name);
    struct rota_space_table_shard found;
    if (!space ||
        !rota_space_table_look(&space->watch.table, rota_clock_mono(), shard, true, &found))
        return false;
    *view = (struct rota_service_view){
        .n_shards = space->watch.table.now.n_shards,
        .engine = rota_str(space->watch.table.engine),
        .owner = found.n_replicas > 0 ? found.replicas[0].address : rota_str(""),
        .epoch = found.n_replicas > 0 ? found.replicas[0].epoch : 0,
        .is_moving = found.is_moving,
    };
    return true;
}

/* --- life --- */

static void client_free(struct rota_service_client *client)
{
    const struct rota_map_entry *entry;
    size_t place = 0;
    while ((entry = rota_map_next(&client->spaces, &place)))
        rota_service_client_map_space_free(entry->value);
    rota_map_deinit(&client->spaces);
    rota_heap_deinit(&client->moments);
    rota_buffer_deinit(&client->text);
    free(client->zone);
    free(client);
}

static void on_timer_closed(uv_handle_t *handle)
{
    client_free(handle->data);
}

void rota_service_client_close(struct rota_service_client *client)
{
    if (!client)
        return;
    client->is_closed = true;
    rota_shards_close(client->shards);
    ROTA_LIST_DRAIN (call, &client->calls, struct rota_service_call, link)
        on_free(client, call->call); /* the rest of it goes with the shards */
    for (size_t i = 0; i < client->nodes.n; i++)
        rota_channel_close(client->channels[i]);
    uv_close((uv_handle_t *)&client->timer, on_timer_closed);
}

/* The maps are asked for by the hooks. */
static void ask_nothing(void *data, struct rota_shards *shards, uint64_t number,
                        const struct rota_shards_name *name)
{
    (void)data, (void)shards, (void)number, (void)name;
}

static enum rota_code open_parts(struct rota_service_client *client,
                                 const struct rota_service_client_options *options,
                                 struct rota_error *error)
{
    const struct rota_shards_source source = {.ask = ask_nothing};
    const struct rota_shards_options shards = {.source = &source,
                                               .tls = options->tls,
                                               .insecure = options->insecure,
                                               .metrics = options->metrics,
                                               .seed = options->seed};
    const struct rota_channel_options channel = {.tls = options->tls,
                                                 .insecure = options->insecure,
                                                 .token = options->token,
                                                 .connect_timeout = ROTA_WATCH_FIRST_WITHIN,
                                                 .backoff_max = ROTA_WATCH_PAUSE_MAX,
                                                 .keepalive_interval = ROTA_MAP_WATCH_KEEPALIVE,
                                                 .keepalive_timeout =
                                                     ROTA_MAP_WATCH_KEEPALIVE_TIMEOUT};
    enum rota_code code = rota_shards_open(client->loop, &shards, &client->shards, error);
    if (code)
        return code;
    client->shards->hooks = &client->hooks;
    for (size_t i = 0; !code && i < options->n_nodes; i++) {
        code = rota_channel_open(client->loop, options->nodes[i], &channel, &client->channels[i],
                                 error);
        client->nodes.n += !code;
    }
    return code;
}

enum rota_code rota_service_client_open(struct uv_loop_s *loop,
                                        const struct rota_service_client_options *options,
                                        struct rota_service_client **result,
                                        struct rota_error *error)
{
    if (options->n_nodes == 0 || !options->nodes)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "service client: the address of a node is required");
    if (options->n_nodes > ROTA_SERVICE_NODES_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "service client: more than %d nodes",
                              ROTA_SERVICE_NODES_MAX);
    struct rota_service_client *client = calloc(1, sizeof *client);
    if (!client || (options->zone && !(client->zone = strdup(options->zone)))) {
        free(client);
        return rota_error_no_memory(error, "for a service client");
    }
    uint64_t seed = options->seed ? options->seed : (uint64_t)rota_clock_mono() ^ (uintptr_t)client;
    client->loop = loop;
    client->retries = options->retries;
    client->nodes =
        (struct rota_map_watch_nodes){.channels = client->channels, .random = &client->random};
    client->hooks = (struct rota_shards_hooks){.ask = on_ask,
                                               .report = on_report,
                                               .start = on_start,
                                               .tell = on_tell,
                                               .free = on_free,
                                               .data = client};
    rota_random_init(&client->random, seed);
    rota_map_init(&client->spaces, seed);
    rota_list_init(&client->calls);
    uv_timer_init(loop, &client->timer);
    client->timer.data = client;
    enum rota_code code = open_parts(client, options, error);
    if (code) {
        rota_service_client_close(client);
        return code;
    }
    *result = client;
    return ROTA_OK;
}
