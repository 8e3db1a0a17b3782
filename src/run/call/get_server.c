/* The server of Gets: a frame around a callback that answers a batch of keys.
 *
 *     call --read--> batch --of the shard held now--> on_batch --finish--> response
 *
 * The claim is checked twice, before the program gets the batch and again before its answer is
 * sent: in between the process may have been paused for longer than its claim lasts. */
#include "run/call/get_server_inside.h"

#include "wire/message/cache_message.h"

#include <inttypes.h>
#include <stdlib.h>

/* --- the claim --- */

/* What an answer that is sent now may say about the shard. */
struct rota_get_head rota_get_server_look(const struct rota_get_server *server)
{
    struct rota_get_head head = {0};
    const struct rota_get_server_options *options = &server->options;
    if (!server->has_shard ||
        (options->is_held && !options->is_held(options->data, &server->shard, server->epoch)))
        return head;
    head.shard = server->shard;
    head.epoch = server->epoch;
    head.has_shard = true;
    return head;
}

static bool all_match(const struct rota_get_batch *batch)
{
    const struct rota_get_service *service = &batch->server->service;
    const char *key = batch->keys.data;
    for (size_t i = 0; i < batch->n_keys; i++, key += service->key_size)
        if (!rota_interval_has(&batch->shard, service->sharding_key(service->data, key)))
            return false;
    return true;
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
    if (epoch < server->epoch && rota_interval_is_equal(shard, &server->shard))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "epoch %" PRIu64 " is lower than %" PRIu64
                              ", which this server already had: epochs must not go backwards",
                              epoch, server->epoch);
    server->shard = *shard;
    server->epoch = epoch;
    server->has_shard = true;
    rota_gauge_set(server->series.epoch, (int64_t)epoch);
    return ROTA_OK;
}

void rota_get_server_drop(struct rota_get_server *server)
{
    server->has_shard = false;
    rota_gauge_set(server->series.epoch, 0);
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

static void on_call(void *data, struct rota_server_call *call)
{
    struct rota_get_server *server = data;
    struct rota_get_batch *batch = rota_get_batch_take(server, call);
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
    struct rota_get_head head = rota_get_server_look(server);
    batch->shard = head.shard;
    batch->epoch = head.epoch;
    /* A caller that knows a later epoch of our shard knows that we have lost it. */
    head.all_matched = head.has_shard && epoch <= head.epoch && all_match(batch);
    if (batch->n_keys == 0)
        rota_get_batch_reply(batch, ROTA_GET_ENDED_EMPTY, &head);
    else if (!head.all_matched)
        rota_get_batch_reply_shard(batch, head);
    else
        server->options.on_batch(server->options.data, batch);
}

static void on_cancel(void *data, struct rota_server_call *call)
{
    struct rota_get_server *server = data;
    if (server->options.on_cancel)
        server->options.on_cancel(server->options.data, rota_server_call_data(call));
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
    series->epoch =
        rota_metrics_gauge(metrics, "rota_get_server_epoch",
                           "Epoch of the shard that this server holds; 0: none.", NULL, 0);
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

enum rota_code rota_get_server_open(struct rota_server *server,
                                    const struct rota_get_server_options *options,
                                    struct rota_get_server **result, struct rota_error *error)
{
    const struct rota_get_service *service = options->service ? options->service : rota_get_cache();
    enum rota_code code = check_service(service, error);
    if (code)
        return code;
    struct rota_get_server *ours = calloc(1, sizeof *ours);
    if (!ours)
        return rota_error_no_memory(error, "for a multi-get server");
    ours->options = *options;
    ours->service = *service;
    ours->server = server;
    if (make_series(ours)) {
        struct rota_server_method method = {
            .path = service->method, .on_call = on_call, .on_cancel = on_cancel, .data = ours};
        code = rota_server_add(server, &method, error);
    } else {
        code = rota_error_no_memory(error, "for the metrics of a multi-get server");
    }
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
