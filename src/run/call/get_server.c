/* The server of Gets: a frame around a callback that answers a batch of keys.
 *
 *     call --read--> batch --of shards held now--> on_batch --finish--> response
 *
 * The claim is checked twice, before the program gets the batch and again before its answer is
 * sent: in between the process may have been paused for longer than its claim lasts. */
#include "run/call/get_server_inside.h"

#include "core/call/get/interval_map.h"
#include "wire/message/cache_message.h"

#include <inttypes.h>
#include <stdlib.h>

/* --- the claim --- */

struct rota_get_head rota_get_server_current_head(struct rota_get_server *server)
{
    const struct rota_get_server_options *options = &server->options;
    server->looked.size = 0;
    for (size_t i = 0; i < server->held.size; i++) {
        const struct rota_get_held *held = &server->held.items[i];
        const struct rota_interval_claim *claim = &held->claim;
        if (held->is_held &&
            (!options->is_held || options->is_held(options->data, &claim->interval, claim->epoch)))
            server->looked.items[server->looked.size++] = *claim;
    }
    return (struct rota_get_head){.shards = server->looked.items, .n_shards = server->looked.size};
}

/* Whether every key is of a shard that is held; the batch remembers which ones. */
static bool all_match(struct rota_get_batch *batch, const struct rota_get_head *head)
{
    const struct rota_get_service *service = &batch->server->service;
    const char *key = batch->keys.data;
    for (size_t i = 0; i < batch->n_keys; i++, key += service->key_size) {
        uint64_t sharding_key = service->sharding_key(service->data, key);
        const struct rota_interval_claim *found;
        if (rota_interval_find_claim(batch->shards.items, batch->shards.size, sharding_key))
            continue;
        found = rota_interval_find_claim(head->shards, head->n_shards, sharding_key);
        if (!found)
            return false;
        if (!rota_vector_push(&batch->shards, *found)) {
            batch->has_failed = true;
            return true;
        }
    }
    return true;
}

static struct rota_get_held *find_held(struct rota_get_server *server,
                                       const struct rota_interval *shard)
{
    for (size_t i = 0; i < server->held.size; i++)
        if (rota_interval_is_equal(&server->held.items[i].claim.interval, shard))
            return &server->held.items[i];
    return NULL;
}

/* A place for one more shard; NULL: no memory, or there are too many. The epochs of shards that
 * were dropped are forgotten only for lack of room. */
static struct rota_get_held *add_held(struct rota_get_server *server)
{
    struct rota_get_held none = {.is_held = false};
    for (size_t i = 0; i < server->held.size && server->held.size >= ROTA_GET_SHARDS_MAX; i++)
        if (!server->held.items[i].is_held)
            return &server->held.items[i];
    if (server->held.size >= ROTA_GET_SHARDS_MAX ||
        !rota_vector_reserve(&server->looked, server->held.size + 1) ||
        !rota_vector_push(&server->held, none))
        return NULL;
    return &server->held.items[server->held.size - 1];
}

enum rota_code rota_get_server_hold(struct rota_get_server *server,
                                    const struct rota_interval *shard, uint64_t epoch,
                                    struct rota_error *error)
{
    if (!rota_interval_is_valid(shard))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "shard [%" PRIu64 ", %" PRIu64 ") of %" PRIu64
                              " has no keys: its start must be below its end and its count",
                              shard->from, shard->to, shard->of);
    struct rota_get_held *held = find_held(server, shard);
    if (held && epoch < held->claim.epoch)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "epoch %" PRIu64 " is lower than %" PRIu64
                              ", which this server already had: epochs must not go backwards",
                              epoch, held->claim.epoch);
    if (!held && !(held = add_held(server)))
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "no room for another shard: a server holds at most %d",
                              (int)ROTA_GET_SHARDS_MAX);
    rota_gauge_add(server->series.shards, !held->is_held);
    *held = (struct rota_get_held){{*shard, epoch}, true};
    server->epoch = epoch > server->epoch ? epoch : server->epoch;
    return ROTA_OK;
}

void rota_get_server_drop(struct rota_get_server *server, const struct rota_interval *shard)
{
    for (size_t i = 0; i < server->held.size; i++) {
        struct rota_get_held *held = &server->held.items[i];
        if (!held->is_held || (shard && !rota_interval_is_equal(&held->claim.interval, shard)))
            continue;
        held->is_held = false;
        rota_gauge_add(server->series.shards, -1);
    }
}

/* --- calls --- */

enum rota_code rota_get_server_read_request(void *data, struct rota_str request,
                                            struct rota_get_batch *batch, uint64_t *epoch,
                                            struct rota_error *error)
{
    struct rota_cache_request message;
    (void)data;
    enum rota_code code =
        rota_message_decode(&ROTA_CACHE_REQUEST, request, &message, &batch->arena, error);
    if (code)
        return code;
    size_t size = message.key.n * sizeof *message.key.items;
    char *keys = rota_buffer_extend(&batch->keys, size);
    batch->has_failed |= !keys;
    if (keys && size > 0)
        memcpy(keys, message.key.items, size);
    batch->n_keys = message.key.n;
    *epoch = message.epoch;
    if (message.partial)
        rota_get_batch_allow_problems(batch);
    return ROTA_OK;
}

/* Read the request; false when it was answered with an error. */
static bool read_batch(struct rota_get_batch *batch, uint64_t *epoch)
{
    struct rota_get_server *server = batch->server;
    struct rota_error error = {.text = "the request is malformed"};
    enum rota_code code = server->service.read_request(
        server->service.data, rota_server_call_request(batch->call), batch, epoch, &error);
    if (!code && batch->is_too_large)
        code = rota_error_set(&error, ROTA_ERR_LIMIT, "the request has more than %d keys",
                              (int)ROTA_GET_KEYS_MAX);
    if (!code && (batch->has_failed || !rota_vector_reserve(&batch->values, batch->n_keys)))
        code = rota_error_no_memory(&error, "for the request");
    if (!code) {
        if (batch->n_keys > 0)
            memset(batch->values.items, 0, batch->n_keys * sizeof *batch->values.items);
        batch->values.size = batch->n_keys;
        return true;
    }
    rota_get_batch_reject(batch, ROTA_GET_ENDED_INVALID,
                          code == ROTA_ERR_NO_MEMORY ? ROTA_STATUS_RESOURCE_EXHAUSTED
                                                     : ROTA_STATUS_INVALID_ARGUMENT,
                          error.text);
    return false;
}

void rota_get_server_take(struct rota_get_server *server, struct rota_server_call *call)
{
    struct rota_get_batch *batch = rota_get_batch_open(server, call);
    uint64_t epoch = 0;
    if (!batch) {
        rota_get_server_count(server, ROTA_GET_ENDED_FAILED);
        rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED,
                                "not enough memory for the request", NULL, 0);
        return;
    }
    call->is_measured = true; /* the client chooses by it how many it asks */
    rota_server_call_set_data(call, batch);
    if (!read_batch(batch, &epoch))
        return;
    struct rota_get_head head = {0};
    if (!server->on_idle)
        head = rota_get_server_current_head(server);
    /* A caller that knows a later epoch than any of ours knows claims that came after ours. */
    head.all_matched = head.n_shards > 0 && epoch <= server->epoch && all_match(batch, &head);
    if (batch->n_keys == 0)
        rota_get_batch_reply(batch, ROTA_GET_ENDED_EMPTY, &head);
    else if (!head.all_matched)
        rota_get_batch_reply_shard(batch, head);
    else
        server->options.on_batch(server->options.data, batch);
}

static void on_call(void *data, struct rota_server_call *call)
{
    rota_get_server_take(data, call);
}

void rota_get_server_cancel(void *data, struct rota_server_call *call)
{
    struct rota_get_batch *batch = rota_server_call_data(call);
    const struct rota_get_server_options *options = &batch->server->options;
    (void)data;
    if (options->on_cancel)
        options->on_cancel(options->data, batch);
}

void rota_get_server_leave(struct rota_get_server *server, void (*on_idle)(void *data), void *data)
{
    server->on_idle = on_idle;
    server->idle_data = data;
    if (server->n_batches == 0)
        on_idle(data);
}

/* --- life --- */

void rota_get_server_free(struct rota_get_server *server)
{
    while (server->at_rest) {
        struct rota_get_batch *batch = server->at_rest;
        server->at_rest = batch->next;
        rota_get_batch_free(batch);
    }
    rota_get_cache_writer_deinit(&server->writer);
    rota_vector_deinit(&server->held);
    rota_vector_deinit(&server->looked);
    rota_metrics_free(server->metrics);
    free(server);
}

static bool make_series(struct rota_get_server *server)
{
    static const char *const endings[] = {"answered", "empty", "not_matched", "failed", "invalid"};
    static const char keys[] = "rota_get_server_keys_total";
    static const char keys_help[] = "Served keys, by result.";
    struct rota_metrics *metrics = server->options.metrics;
    struct rota_get_server_series *series = &server->series;
    if (!metrics)
        metrics = server->metrics = rota_metrics_new(1);
    if (!metrics)
        return false;
    for (size_t i = 0; i < ROTA_GET_ENDINGS; i++) {
        struct rota_label label = {"result", rota_str(endings[i])};
        series->ended[i] = rota_metrics_counter(metrics, "rota_get_server_total",
                                                "Served multi-gets, by result.", &label, 1);
    }
    struct rota_label found = {"result", rota_str("found")};
    struct rota_label absent = {"result", rota_str("absent")};
    series->found = rota_metrics_counter(metrics, keys, keys_help, &found, 1);
    series->absent = rota_metrics_counter(metrics, keys, keys_help, &absent, 1);
    struct rota_label refused = {"result", rota_str("refused")};
    struct rota_label left = {"result", rota_str("left")};
    series->refused = rota_metrics_counter(metrics, keys, keys_help, &refused, 1);
    series->left = rota_metrics_counter(metrics, keys, keys_help, &left, 1);
    series->shards = rota_metrics_gauge(metrics, "rota_get_server_shards",
                                        "Shards that this server holds.", NULL, 0);
    return true;
}

static enum rota_code check_service(const struct rota_get_service *service,
                                    struct rota_error *error)
{
    if (!service->sharding_key || !service->read_request || !service->write_response)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a multi-get server needs a service with sharding_key, read_request "
                              "and write_response");
    if (service->key_size == 0 || service->key_size > ROTA_GET_KEY_SIZE_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the key of a service has 1 to %d bytes, not %zu",
                              (int)ROTA_GET_KEY_SIZE_MAX, service->key_size);
    return ROTA_OK;
}

enum rota_code rota_get_server_new(const struct rota_get_server_options *options,
                                   struct rota_get_server **result, struct rota_error *error)
{
    const struct rota_get_service *service = options->service ? options->service : rota_get_cache();
    enum rota_code code = check_service(service, error);
    if (code)
        return code;
    struct rota_get_server *server = calloc(1, sizeof *server);
    if (!server)
        return rota_error_no_memory(error, "for a multi-get server");
    server->options = *options;
    server->service = *service;
    if (!make_series(server)) {
        rota_get_server_free(server);
        return rota_error_no_memory(error, "for the metrics of a multi-get server");
    }
    *result = server;
    return ROTA_OK;
}

enum rota_code rota_get_server_open(struct rota_server *server,
                                    const struct rota_get_server_options *options,
                                    struct rota_get_server **result, struct rota_error *error)
{
    struct rota_get_server *ours;
    enum rota_code code = rota_get_server_new(options, &ours, error);
    if (code)
        return code;
    const struct rota_server_method method = {.path = ours->service.method,
                                              .on_call = on_call,
                                              .on_cancel = rota_get_server_cancel,
                                              .data = ours};
    code = rota_server_add(server, &method, error);
    if (code) {
        rota_get_server_free(ours);
        return code;
    }
    *result = ours;
    return ROTA_OK;
}

void rota_get_server_close(struct rota_get_server *server)
{
    if (!server)
        return;
    server->is_closed = true;
    if (server->n_batches == 0)
        rota_get_server_free(server);
}
