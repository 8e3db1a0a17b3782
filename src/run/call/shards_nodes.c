/* Nodes: their connections, the attempts on them, and whether they are well. */
#include "run/call/shards_inside.h"

#include "core/own/shard_note.h"
#include "io/clock.h"
#include "wire/grpc/call_notes.h"
#include "wire/message/standard_message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char CHECK_METHOD[] = "/grpc.health.v1.Health/Check";

#define DEFAULT_TIMEOUT (3 * ROTA_SEC) /* of a connection's first answer */

/* --- nodes --- */

struct rota_shards_node *rota_shards_nodes_find(const struct rota_shards *shards, int64_t id)
{
    return rota_map_get(&shards->nodes, rota_str_of(&id, sizeof id));
}

static struct rota_shards_node *add_node(struct rota_shards *shards, int64_t id)
{
    struct rota_shards_node *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    node->id = id;
    node->shards = shards;
    node->failed_at = ROTA_TIME_MIN;
    rota_list_init(&node->connections);
    if (!rota_map_put(&shards->nodes, rota_str_of(&node->id, sizeof node->id), node)) {
        free(node);
        return NULL;
    }
    rota_shards_metrics_measure_node(node);
    /* At the bound a node is not checked, which does no harm. */
    rota_health_fsm_add(&shards->health, rota_clock_mono(), (uint64_t)id, NULL);
    return node;
}

void rota_shards_node_failed(struct rota_shards_node *node, struct rota_str problem)
{
    snprintf(node->problem, sizeof node->problem, "%.*s", ROTA_STR_ARGS(problem));
    node->failed_at = rota_clock_mono();
}

size_t rota_shards_nodes_n_connections(const struct rota_shards_node *node)
{
    size_t n = 0;
    ROTA_LIST_EACH (connection, &node->connections, const struct rota_shards_connection, link)
        n += !connection->is_over && rota_channel_state(connection->channel) == ROTA_CHANNEL_READY;
    return n;
}

static void close_health(struct rota_shards_node *node)
{
    rota_channel_close(node->health);
    node->health = NULL;
    node->check = NULL;
}

static bool is_at(const struct rota_shards_node *node, struct rota_str address)
{
    return rota_str_is_equal(address, rota_str(node->address));
}

/* The node's address. Another address means another process, and what was known about the old one
 * no longer holds. */
static bool set_address(struct rota_shards_node *node, struct rota_str address)
{
    struct rota_shards *shards = node->shards;
    bool was_elsewhere = node->address[0] != '\0';
    if (is_at(node, address))
        return true;
    if (address.size >= sizeof node->address || memchr(address.data, '\0', address.size))
        return false;
    memcpy(node->address, address.data, address.size);
    node->address[address.size] = '\0';
    if (was_elsewhere) {
        node->problem[0] = '\0';
        node->failed_at = ROTA_TIME_MIN;
        close_health(node);
        rota_balancer_forget(shards->balancer, (uint64_t)node->id);
        rota_health_fsm_remove(&shards->health, (uint64_t)node->id);
        rota_health_fsm_add(&shards->health, rota_clock_mono(), (uint64_t)node->id, NULL);
    }
    return true;
}

void rota_shards_nodes_meet(struct rota_shards *shards, const struct rota_shard_map *map)
{
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < map->n_channels; i++)
            for (size_t j = 0; j < map->channels[i].n_replicas; j++) {
                const struct rota_replica *replica = &map->channels[i].replicas[j];
                struct rota_shards_node *node = rota_shards_nodes_find(shards, replica->node);
                if (!node || is_at(node, replica->address))
                    continue;
                if (pass == 0) /* before any connection, since it may be in several shards */
                    rota_blacklist_clear(&shards->blacklist, map->collection,
                                         map->channels[i].name);
                else
                    set_address(node, replica->address);
            }
}

static enum rota_code open_channel(const struct rota_shards_node *node,
                                   struct rota_channel **channel, struct rota_error *error)
{
    const struct rota_shards_options *options = &node->shards->options;
    struct rota_channel_options with = {
        .tls = options->tls,
        .insecure = options->insecure,
        .connect_timeout = options->health_timeout > 0 ? options->health_timeout : DEFAULT_TIMEOUT,
    };
    return rota_channel_open(node->shards->loop, node->address, &with, channel, error);
}

/* --- connections --- */

static void connection_free(struct rota_shards_connection *connection)
{
    rota_list_remove(&connection->link);
    rota_channel_close(connection->channel);
    free(connection);
}

/* No new attempts; those on it end by themselves, and the last one closes it. */
static void connection_over(struct rota_shards_connection *connection)
{
    struct rota_shards *shards = connection->shards;
    rota_map_remove(&shards->connections,
                    rota_str_of(&connection->number, sizeof connection->number));
    connection->is_over = true;
    if (connection->n_attempts == 0)
        connection_free(connection);
}

static void connection_failed(struct rota_shards_connection *connection)
{
    struct rota_shards *shards = connection->shards;
    rota_pool_fsm_failed(shards->pools, rota_clock_mono(), connection->number);
    connection_over(connection);
}

/* It is random whether the try's timer or ours is first to notice an unresponsive node. */
static struct rota_str problem_of(const struct rota_call_result *result)
{
    return result->status == ROTA_STATUS_DEADLINE_EXCEEDED ? rota_str(ROTA_SHARDS_SILENT)
                                                           : result->text;
}

/* A connection counts as open when the node has answered on it, whatever the answer: one that
 * accepts and then hangs is useless. */
static void on_first_answer(void *data, struct rota_call *rpc,
                            const struct rota_call_result *result)
{
    struct rota_shards_connection *connection = data;
    struct rota_shards *shards = connection->shards;
    (void)rpc;
    if (result->status == ROTA_STATUS_UNAVAILABLE ||
        result->status == ROTA_STATUS_DEADLINE_EXCEEDED) {
        rota_shards_node_failed(connection->node, problem_of(result));
        connection_failed(connection);
    } else {
        rota_pool_fsm_opened(shards->pools, rota_clock_mono(), connection->number);
    }
    rota_shards_settle(shards, true);
}

static enum rota_code check_now(struct rota_shards *shards, struct rota_channel *channel,
                                void (*on_end)(void *, struct rota_call *,
                                               const struct rota_call_result *),
                                void *data, struct rota_call **rpc, struct rota_error *error)
{
    rota_time timeout = shards->options.health_timeout;
    struct rota_call_options options = {
        .method = rota_str(CHECK_METHOD),
        .timeout = timeout > 0 ? timeout : DEFAULT_TIMEOUT,
        .on_end = on_end,
        .data = data,
    };
    return rota_channel_call(channel, &options, rpc, error);
}

static void open_connection(struct rota_shards *shards, const struct rota_pool_action *action)
{
    struct rota_shards_node *node = rota_shards_nodes_find(shards, action->node);
    struct rota_shards_connection *connection = calloc(1, sizeof *connection);
    struct rota_error error;
    if (!node)
        node = add_node(shards, action->node);
    if (!node || !connection || !set_address(node, action->address))
        goto fail;
    connection->number = action->connection;
    connection->shards = shards;
    connection->node = node;
    if (open_channel(node, &connection->channel, &error)) {
        rota_shards_node_failed(node, rota_str(error.text));
        goto fail;
    }
    if (!rota_map_put(&shards->connections,
                      rota_str_of(&connection->number, sizeof connection->number), connection)) {
        rota_channel_close(connection->channel);
        goto fail;
    }
    rota_list_push(&node->connections, &connection->link);
    if (check_now(shards, connection->channel, on_first_answer, connection, NULL, &error)) {
        rota_shards_node_failed(node, rota_str(error.text));
        connection_failed(connection);
    }
    return;

fail:
    free(connection);
    rota_pool_fsm_failed(shards->pools, rota_clock_mono(), action->connection);
}

static struct rota_shards_connection *find_connection(const struct rota_shards *shards,
                                                      uint64_t number)
{
    return rota_map_get(&shards->connections, rota_str_of(&number, sizeof number));
}

void rota_shards_nodes_do_pool(struct rota_shards *shards, const struct rota_pool_action *action)
{
    struct rota_shards_connection *connection;
    switch (action->type) {
    case ROTA_POOL_OPEN:
        open_connection(shards, action);
        break;
    case ROTA_POOL_CLOSE:
        connection = find_connection(shards, action->connection);
        if (connection)
            connection_over(connection);
        break;
    case ROTA_POOL_TELL:
        break; /* the caller knows the waiters */
    }
}

/* --- attempts --- */

/* It is over: its connection is for others. */
static void leave_connection(struct rota_shards_attempt *attempt)
{
    struct rota_shards_connection *connection = attempt->on;
    struct rota_shards *shards = attempt->call->run->shards;
    attempt->number = 0;
    attempt->rpc = NULL;
    attempt->on = NULL;
    if (!connection)
        return;
    connection->n_attempts--;
    if (!connection->is_over)
        rota_pool_fsm_release(shards->pools, rota_clock_mono(), connection->number);
    else if (connection->n_attempts == 0)
        connection_free(connection);
}

/* It could not be made. */
static void refuse_attempt(struct rota_shards_attempt *attempt, enum rota_failure failure,
                           const char *text)
{
    struct rota_shards_call *call = attempt->call;
    uint64_t number = attempt->number;
    leave_connection(attempt);
    call->has_status = true;
    call->status = rota_failure_status(failure);
    rota_buffer_clear(&call->text);
    rota_buffer_append_text(&call->text, text);
    rota_shards_calls_note(call, (struct rota_call_fsm_event){.type = ROTA_CALL_TRY_ENDED,
                                                              .number = number,
                                                              .failure = failure});
}

/* The metadata of the node's answer. */
struct notes {
    struct rota_str failure;
    struct rota_cost cost;
    struct rota_replica claim;
    bool has_cost, has_claim;
};

static void read_notes(const struct rota_call_result *result, struct notes *notes)
{
    struct rota_str value;
    *notes = (struct notes){0};
    if (rota_metadata_get(result->metadata, result->n_metadata, ROTA_NOTE_FAILURE, &value))
        notes->failure = value;
    if (rota_metadata_get(result->metadata, result->n_metadata, ROTA_NOTE_COST, &value))
        notes->has_cost = rota_call_notes_parse_cost(value, &notes->cost);
    if (rota_metadata_get(result->metadata, result->n_metadata, ROTA_NOTE_CLAIM, &value))
        notes->has_claim = rota_call_notes_parse_claim(value, &notes->claim);
}

static void keep_answer(struct rota_shards_call *call, const struct rota_call_result *result)
{
    call->has_status = true;
    call->status = result->status;
    rota_buffer_clear(&call->text);
    rota_buffer_append_str(&call->text, result->text);
    rota_buffer_clear(&call->message);
    rota_buffer_append_str(&call->message, result->message);
}

static void drive_health(struct rota_shards *shards, rota_time now, struct rota_health_event event);

static void on_answer(void *data, struct rota_call *rpc, const struct rota_call_result *result)
{
    struct rota_shards_attempt *attempt = data;
    struct rota_shards_call *call = attempt->call;
    struct rota_shards *shards = call->run->shards;
    struct rota_shards_node *node = attempt->on->node;
    struct notes notes;
    (void)rpc;
    read_notes(result, &notes);
    keep_answer(call, result);
    enum rota_failure failure =
        rota_failure_of_reply(result->status, result->may_have_run, notes.failure);
    if (call->message.failed)
        failure = ROTA_FAILURE_LOCAL; /* no memory to keep it */
    call->may_have_run |= result->may_have_run && !rota_failure_is_refusal(failure);
    rota_time now = rota_clock_mono();
    if (failure == ROTA_FAILURE_NONE)
        rota_histogram_record(node->latency, now - attempt->started_at);
    if (rota_failure_is_heard(failure)) {
        node->problem[0] = '\0';
        drive_health(
            shards, now,
            (struct rota_health_event){.type = ROTA_HEALTH_HEARD, .node = (uint64_t)node->id});
    } else if (rota_outcome_is_failure(rota_failure_outcome(failure)))
        rota_shards_node_failed(node, problem_of(result));

    struct rota_call_fsm_event event = {
        .type = ROTA_CALL_TRY_ENDED,
        .number = attempt->number,
        .failure = failure,
        .is_sent = result->may_have_run,
        .cost = notes.has_cost ? &notes.cost : NULL,
        .claim = notes.has_claim ? &notes.claim : NULL,
    };
    if (failure == ROTA_FAILURE_UNREACHABLE && !attempt->on->is_over)
        connection_failed(attempt->on);
    leave_connection(attempt);
    rota_shards_calls_step(call, &event);
    rota_shards_settle(shards, true);
}

/* Send it, now that there is a connection. */
static void send_try(struct rota_shards_attempt *attempt)
{
    struct rota_shards_call *call = attempt->call;
    const struct rota_shards_request *request = &call->run->request;
    struct rota_error error;
    char epoch[ROTA_NOTE_NUMBER_MAX], space[ROTA_NOTE_NUMBER_MAX], shard[ROTA_SHARD_NOTE_MAX];
    rota_time left = attempt->deadline - rota_clock_mono();
    snprintf(epoch, sizeof epoch, "%" PRIu64, attempt->epoch);
    const struct rota_shard_map *map =
        rota_shard_cache_peek(call->run->shards->cache, call->fsm.options.collection);
    struct rota_str named = map ? map->name : rota_str("");
    snprintf(space, sizeof space, "%" PRId64, call->fsm.options.collection);
    if (call->run->user)
        named = request->name.collection;
    struct rota_metadata notes[2 + ROTA_SHARDS_METADATA_MAX] = {
        {rota_str(ROTA_NOTE_EPOCH), rota_str(epoch)},
        {rota_str(ROTA_NOTE_SHARD),
         rota_shard_note_format(named.size > 0 ? named : rota_str(space), call->channel, shard)},
    };
    size_t n_notes = 2;
    for (size_t i = 0; i < call->run->n_metadata; i++)
        notes[n_notes++] = call->run->metadata[i];
    struct rota_call_options options = {
        .method = request->method,
        .request = request->request,
        .metadata = notes,
        .n_metadata = n_notes,
        .on_end = on_answer,
        .data = attempt,
    };
    if (request->on_request)
        options.request = request->on_request(request->data, call->channel);
    if (attempt->deadline != ROTA_TIME_NEVER)
        options.timeout = left > 1 ? left : 1;
    enum rota_code code = rota_channel_call(attempt->on->channel, &options, &attempt->rpc, &error);
    if (code == ROTA_OK)
        return;
    if (code == ROTA_ERR_UNAVAILABLE && !attempt->on->is_over)
        connection_failed(attempt->on);
    refuse_attempt(attempt, rota_failure_of_answer(code), error.text);
}

static void on_connected(struct rota_shards_attempt *attempt, uint64_t number)
{
    struct rota_shards *shards = attempt->call->run->shards;
    struct rota_shards_connection *connection = find_connection(shards, number);
    if (!connection) {
        struct rota_shards_node *node = rota_shards_nodes_find(shards, attempt->node);
        const char *problem = node ? node->problem : "";
        struct rota_error error;
        rota_error_set(&error, ROTA_ERR_UNAVAILABLE, "no connection to node %" PRId64 "%s%s",
                       attempt->node, problem[0] ? ": " : "", problem);
        refuse_attempt(attempt, ROTA_FAILURE_UNREACHABLE, error.text);
        return;
    }
    attempt->on = connection;
    connection->n_attempts++;
    send_try(attempt);
}

void rota_shards_nodes_attempt_start(struct rota_shards_attempt *attempt,
                                     const struct rota_replica *replica)
{
    struct rota_shards *shards = attempt->call->run->shards;
    struct rota_error error;
    uint64_t connection = 0;
    attempt->node = replica->node;
    attempt->epoch = replica->epoch;
    if (!rota_shards_wait_begin(shards, &attempt->waiter)) {
        refuse_attempt(attempt, ROTA_FAILURE_LOCAL, "not enough memory");
        return;
    }
    enum rota_code code =
        rota_pool_fsm_get(shards->pools, rota_clock_mono(), replica->node, replica->address,
                          attempt->waiter.number, &connection, &error);
    if (code == ROTA_OK && connection == 0)
        return;
    rota_shards_wait_end(shards, &attempt->waiter);
    if (code == ROTA_OK)
        on_connected(attempt, connection);
    else /* an invalid address counts as unreachable */
        refuse_attempt(attempt,
                       code == ROTA_ERR_INVALID ? ROTA_FAILURE_UNREACHABLE
                                                : rota_failure_of_answer(code),
                       error.text);
}

void rota_shards_nodes_attempt_opened(struct rota_shards_attempt *attempt, uint64_t connection)
{
    if (connection != 0)
        rota_shards_calls_note(
            attempt->call,
            (struct rota_call_fsm_event){.type = ROTA_CALL_TRY_SENT, .number = attempt->number});
    on_connected(attempt, connection);
}

void rota_shards_nodes_attempt_cancel(struct rota_shards_attempt *attempt)
{
    struct rota_shards *shards = attempt->call->run->shards;
    if (attempt->waiter.number) {
        rota_pool_fsm_cancel(shards->pools, attempt->waiter.number);
        rota_shards_wait_end(shards, &attempt->waiter);
    }
    attempt->call->may_have_run |= attempt->rpc != NULL;
    if (attempt->rpc)
        rota_call_cancel(attempt->rpc);
    leave_connection(attempt);
}

/* --- health --- */

static void do_health(struct rota_shards *shards, const struct rota_health_actions *todo);

static void drive_health(struct rota_shards *shards, rota_time now, struct rota_health_event event)
{
    struct rota_health_actions todo = rota_health_fsm_step(&shards->health, now, &event);
    do_health(shards, &todo);
}

static bool is_serving(const struct rota_call_result *result)
{
    if (result->status == ROTA_STATUS_UNIMPLEMENTED)
        return true; /* it has no such service, but it answers */
    return result->status == ROTA_STATUS_OK && rota_standard_message_is_serving(result->message);
}

static void on_checked(void *data, struct rota_call *rpc, const struct rota_call_result *result)
{
    struct rota_shards_node *node = data;
    struct rota_shards *shards = node->shards;
    bool is_healthy = is_serving(result);
    enum rota_health_state state;
    uint32_t n_failures = 0;
    (void)rpc;
    node->check = NULL;
    rota_health_fsm_look(&shards->health, (uint64_t)node->id, &state, &n_failures);
    if (is_healthy && n_failures > 0)
        node->problem[0] = '\0';
    if (!is_healthy)
        rota_shards_node_failed(node,
                                result->status == ROTA_STATUS_OK
                                    ? rota_str("its health service reports that it is not serving")
                                    : problem_of(result));
    drive_health(shards, rota_clock_mono(),
                 (struct rota_health_event){.type = ROTA_HEALTH_ANSWERED,
                                            .node = (uint64_t)node->id,
                                            .check = node->check_number,
                                            .is_healthy = is_healthy});
    rota_shards_settle(shards, true);
}

static enum rota_code ask_health(struct rota_shards_node *node, uint64_t check)
{
    enum rota_code code = ROTA_OK;
    struct rota_error error;
    if (node->check) { /* its time is over */
        rota_call_cancel(node->check);
        rota_shards_node_failed(node, rota_str(ROTA_SHARDS_SILENT));
    }
    node->check = NULL;
    node->check_number = check;
    if (!node->health)
        code = open_channel(node, &node->health, &error);
    if (code == ROTA_OK)
        code = check_now(node->shards, node->health, on_checked, node, &node->check, &error);
    if (code)
        rota_shards_node_failed(node, rota_str(error.text));
    return code;
}

static void do_health(struct rota_shards *shards, const struct rota_health_actions *todo)
{
    struct rota_shards_node *node = rota_shards_nodes_find(shards, (int64_t)todo->node);
    rota_time now = rota_clock_mono();
    if (todo->tell) {
        rota_balancer_mark(shards->balancer, now, todo->node, todo->state == ROTA_HEALTH_WELL,
                           NULL);
        if (node && todo->state == ROTA_HEALTH_DROPPED)
            node->n_drops++;
    }
    if (todo->ask && (!node || ask_health(node, todo->check)))
        drive_health(shards, now,
                     (struct rota_health_event){
                         .type = ROTA_HEALTH_ANSWERED, .node = todo->node, .check = todo->check});
}

void rota_shards_nodes_check_health(struct rota_shards *shards, rota_time now)
{
    while (rota_health_fsm_deadline(&shards->health) <= now)
        drive_health(shards, now, (struct rota_health_event){.type = ROTA_HEALTH_TICK});
}

/* --- life --- */

static void node_free(struct rota_shards_node *node)
{
    close_health(node);
    ROTA_LIST_DRAIN (connection, &node->connections, struct rota_shards_connection, link) {
        rota_map_remove(&node->shards->connections,
                        rota_str_of(&connection->number, sizeof connection->number));
        connection_free(connection);
    }
    free(node->series);
    free(node);
}

/* A connection that is still in use, although its pool was removed, keeps its node. */
static struct rota_shards_node *find_idle(const struct rota_shards *shards)
{
    const struct rota_map_entry *entry;
    size_t place = 0;
    while ((entry = rota_map_next(&shards->nodes, &place))) {
        struct rota_shards_node *node = entry->value;
        if (rota_pool_fsm_state(shards->pools, node->id) == ROTA_POOL_NONE &&
            rota_list_is_empty(&node->connections))
            return node;
    }
    return NULL;
}

void rota_shards_nodes_forget(struct rota_shards *shards)
{
    struct rota_shards_node *node;
    if (rota_pool_fsm_n_pools(shards->pools) == shards->nodes.size)
        return;
    while ((node = find_idle(shards))) {
        rota_health_fsm_remove(&shards->health, (uint64_t)node->id);
        rota_map_remove(&shards->nodes, rota_str_of(&node->id, sizeof node->id));
        node_free(node);
    }
}

void rota_shards_nodes_close(struct rota_shards *shards)
{
    const struct rota_map_entry *entry;
    size_t place = 0;
    while ((entry = rota_map_next(&shards->nodes, &place))) {
        struct rota_shards_node *node = entry->value;
        close_health(node);
        ROTA_LIST_EACH (connection, &node->connections, struct rota_shards_connection, link) {
            rota_channel_close(connection->channel);
            connection->channel = NULL;
        }
    }
}

void rota_shards_nodes_free(struct rota_shards *shards)
{
    const struct rota_map_entry *entry;
    size_t place = 0;
    while ((entry = rota_map_next(&shards->nodes, &place)))
        node_free(entry->value);
}
