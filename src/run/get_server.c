/* The server of Gets: a frame around a callback that answers a batch of keys.
 *
 *     call --read--> batch --of the shard held now--> on_batch --finish--> response
 *
 * What is held is looked at twice, before the program sees the batch and again
 * before its answer leaves: in between the process may have been stopped for longer
 * than it was sure of its shard. */
#include "base/metrics.h"
#include "run/get_message.h"
#include "run/server_inside.h"

#include <assert.h>
#include <inttypes.h>
#include <rota/server.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    AT_REST_MAX = 1024, /* batches kept for the next calls */

    /* What a response needs at most, beside the bytes of values and texts. */
    HEAD_ROOM = 1024,
    ENTRY_ROOM = 32,
    LEFT_ROOM = 16, /* of a key that is left out */
};

/* How a Get ended, for the metrics. */
enum ending { ANSWERED, EMPTY, NOT_MATCHED, FAILED, INVALID, ENDINGS };

struct series {
    struct rota_counter *ended[ENDINGS];
    struct rota_counter *found, *absent, *refused, *left;
    struct rota_gauge *epoch; /* of the shard that is held, 0: none is */
};

struct rota_get_batch {
    struct rota_get_server *server;
    struct rota_server_call *call;
    struct rota_get_batch *next; /* at rest */
    struct rota_buffer keys;
    size_t n_keys;
    ROTA_VECTOR(struct rota_str) values; /* without data: absent */
    ROTA_VECTOR(struct rota_get_entry) entries;
    ROTA_VECTOR(struct rota_get_problem) problems; /* ids are indices until it is finished */
    struct rota_arena arena;
    struct rota_interval shard;
    uint64_t epoch;
    void *data;
    bool has_failed, is_too_large;
    bool allows_problems, leaves_rest;
};

struct rota_get_server {
    struct rota_get_server_options options;
    struct rota_get_service service;
    struct rota_server *server;
    struct rota_metrics *metrics; /* our own, when none was given */
    struct series series;
    struct rota_get_writer writer;
    struct rota_cache_request scratch; /* for the cache's own codec */
    struct rota_get_batch *at_rest;
    size_t n_at_rest, n_batches; /* in use */
    struct rota_interval shard;
    uint64_t epoch; /* of the shard, which is the last one when none is held */
    bool has_shard, is_closed;
};

/* --- batches --- */

static void batch_free(struct rota_get_batch *batch)
{
    rota_buffer_deinit(&batch->keys);
    rota_vector_deinit(&batch->values);
    rota_vector_deinit(&batch->entries);
    rota_vector_deinit(&batch->problems);
    rota_arena_deinit(&batch->arena);
    free(batch);
}

static struct rota_get_batch *take_batch(struct rota_get_server *server,
                                         struct rota_server_call *call)
{
    struct rota_get_batch *batch = server->at_rest;
    if (batch) {
        server->at_rest = batch->next;
        server->n_at_rest--;
    } else if (!(batch = calloc(1, sizeof *batch))) {
        return NULL;
    }
    batch->server = server;
    batch->call = call;
    batch->data = NULL;
    batch->has_failed = batch->is_too_large = false;
    batch->allows_problems = batch->leaves_rest = false;
    server->n_batches++;
    return batch;
}

static void server_free(struct rota_get_server *server)
{
    while (server->at_rest) {
        struct rota_get_batch *batch = server->at_rest;
        server->at_rest = batch->next;
        batch_free(batch);
    }
    rota_get_writer_deinit(&server->writer);
    rota_cache_request_deinit(&server->scratch);
    rota_metrics_free(server->metrics);
    free(server);
}

/* The batch is over; its call is finished. */
static void give_back(struct rota_get_batch *batch)
{
    struct rota_get_server *server = batch->server;
    server->n_batches--;
    if (server->writer.buffer.capacity > ROTA_ARENA_KEPT_MAX)
        rota_buffer_deinit(&server->writer.buffer);
    rota_buffer_clear(&batch->keys);
    rota_arena_clear(&batch->arena);
    batch->n_keys = batch->values.size = batch->entries.size = batch->problems.size = 0;
    if (server->n_at_rest < AT_REST_MAX && batch->keys.capacity <= ROTA_ARENA_KEPT_MAX) {
        batch->next = server->at_rest;
        server->at_rest = batch;
        server->n_at_rest++;
    } else {
        batch_free(batch);
    }
    if (server->is_closed && server->n_batches == 0)
        server_free(server);
}

void *rota_get_batch_add(struct rota_get_batch *batch)
{
    size_t size = batch->server->service.key_size;
    batch->is_too_large |= batch->n_keys >= ROTA_GET_KEYS_MAX;
    char *key = batch->is_too_large ? NULL : rota_buffer_extend(&batch->keys, size);
    batch->has_failed |= !key;
    if (!key)
        return NULL;
    batch->n_keys++;
    return memset(key, 0, size);
}

void rota_get_batch_allow_problems(struct rota_get_batch *batch)
{
    batch->allows_problems = true;
}

struct rota_str rota_get_batch_copy(struct rota_get_batch *batch, struct rota_str bytes)
{
    struct rota_str copy = rota_arena_copy(&batch->arena, bytes);
    batch->has_failed |= !copy.data;
    return copy.data ? copy : rota_str("");
}

size_t rota_get_batch_n_keys(const struct rota_get_batch *batch)
{
    return batch->n_keys;
}

const void *rota_get_batch_key(const struct rota_get_batch *batch, size_t index)
{
    assert(index < batch->n_keys);
    return batch->keys.data + index * batch->server->service.key_size;
}

void rota_get_batch_put(struct rota_get_batch *batch, size_t index, struct rota_str value)
{
    assert(index < batch->n_keys);
    batch->values.items[index] = value.size > 0 ? value : rota_str("");
}

/* In the place of a value: there is none, and it is not absent either. */
static const char NOT_GIVEN[] = "";

static void add_problem(struct rota_get_batch *batch, size_t index, struct rota_str text)
{
    struct rota_get_problem problem = {index, text};
    batch->values.items[index] = rota_str_of(NOT_GIVEN, 0);
    batch->has_failed |= !rota_vector_push(&batch->problems, problem);
}

void rota_get_batch_refuse(struct rota_get_batch *batch, size_t index, const char *text)
{
    assert(index < batch->n_keys);
    if (batch->values.items[index].data != NOT_GIVEN)
        add_problem(batch, index, rota_get_batch_copy(batch, rota_str(*text ? text : "refused")));
}

void rota_get_batch_leave_rest(struct rota_get_batch *batch)
{
    batch->leaves_rest = true;
}

const struct rota_interval *rota_get_batch_shard(const struct rota_get_batch *batch,
                                                 uint64_t *epoch)
{
    if (epoch)
        *epoch = batch->epoch;
    return &batch->shard;
}

rota_time rota_get_batch_time_left(const struct rota_get_batch *batch)
{
    return rota_server_call_time_left(batch->call);
}

void rota_get_batch_set_data(struct rota_get_batch *batch, void *data)
{
    batch->data = data;
}

void *rota_get_batch_data(const struct rota_get_batch *batch)
{
    return batch->data;
}

/* --- what is held --- */

/* What an answer that leaves now may say of the shard. */
static struct rota_get_head look_at_shard(const struct rota_get_server *server)
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

/* Is the batch's shard the one of `head`, under the same epoch? */
static bool is_same(const struct rota_get_batch *batch, const struct rota_get_head *head)
{
    return head->has_shard && head->epoch == batch->epoch &&
           rota_interval_is_equal(&head->shard, &batch->shard);
}

bool rota_get_batch_is_cancelled(const struct rota_get_batch *batch)
{
    struct rota_get_head head = look_at_shard(batch->server);
    return rota_server_call_is_cancelled(batch->call) || !is_same(batch, &head);
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
                              " has no keys: it has to begin before it ends, and within its number",
                              shard->from, shard->to, shard->of);
    if (epoch < server->epoch && rota_interval_is_equal(shard, &server->shard))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "epoch %" PRIu64 " is before %" PRIu64
                              ", which was held here already: epochs do not go back",
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

/* --- answers --- */

static void count(struct rota_get_server *server, enum ending ending)
{
    rota_counter_add(server->series.ended[ending], 1);
}

static void fail(struct rota_get_batch *batch, enum ending ending, enum rota_status status,
                 const char *text)
{
    count(batch->server, ending);
    rota_server_call_finish(batch->call, status, text, NULL, 0);
    give_back(batch);
}

void rota_get_batch_fail(struct rota_get_batch *batch, enum rota_status status, const char *text)
{
    fail(batch, FAILED, status, text);
}

static size_t message_max(const struct rota_get_server *server)
{
    return server->options.message_max ? server->options.message_max : ROTA_GET_MESSAGE_MAX;
}

/* Write the response into the server's buffer. Values that are too large are refused
 * before they are copied. */
static enum rota_code write_response(struct rota_get_batch *batch, const struct rota_get_head *head,
                                     struct rota_error *error)
{
    struct rota_get_server *server = batch->server;
    const struct rota_get_service *service = &server->service;
    struct rota_buffer *buffer = &server->writer.buffer;
    size_t max = message_max(server), size = 0;
    for (size_t i = 0; i < batch->entries.size && size <= max; i++)
        size += batch->entries.items[i].value.size;
    rota_buffer_clear(buffer);
    enum rota_code code = ROTA_OK;
    if (size <= max) {
        code = service->write_response(service->data, head, batch->entries.items,
                                       batch->entries.size, &server->writer, error);
        size = buffer->size;
    }
    if (!code && buffer->failed)
        code = rota_error_set(error, ROTA_ERR_NO_MEMORY, "the response does not fit into memory");
    if (!code && size > max)
        code = rota_error_set(error, ROTA_ERR_LIMIT,
                              "the response has %zu bytes or more, and %zu are allowed; ask for "
                              "fewer keys",
                              size, max);
    return code;
}

/* Send the response: the head, and the values that were found. */
static void reply(struct rota_get_batch *batch, enum ending ending,
                  const struct rota_get_head *head)
{
    struct rota_error error = {.text = "the response could not be written"};
    enum rota_code code = write_response(batch, head, &error);
    if (code) {
        bool is_large = code == ROTA_ERR_LIMIT || code == ROTA_ERR_NO_MEMORY;
        fail(batch, FAILED, is_large ? ROTA_STATUS_RESOURCE_EXHAUSTED : ROTA_STATUS_INTERNAL,
             error.text);
        return;
    }
    count(batch->server, ending);
    rota_server_call_reply(batch->call, rota_buffer_str(&batch->server->writer.buffer));
    give_back(batch);
}

static void reply_not_matched(struct rota_get_batch *batch, struct rota_get_head head)
{
    head.all_matched = false;
    batch->entries.size = batch->problems.size = 0;
    reply(batch, NOT_MATCHED, &head);
}

/* What no longer fits is left for the next time; what never could is refused. One at
 * least is given or refused, so that there is an end of it. */
static void make_fit(struct rota_get_batch *batch)
{
    size_t max = message_max(batch->server), used = HEAD_ROOM + batch->n_keys * LEFT_ROOM;
    size_t n_refused = batch->problems.size, n_given = 0;
    char text[ROTA_ERROR_TEXT_MAX];
    for (size_t i = 0; i < n_refused; i++) {
        struct rota_str *why = &batch->problems.items[i].text;
        if (n_given > 0 && used + ENTRY_ROOM + why->size > max)
            *why = rota_str("");
        used += ENTRY_ROOM + why->size;
        n_given += why->size > 0;
    }
    for (size_t i = 0; i < batch->n_keys; i++) {
        struct rota_str value = batch->values.items[i];
        if (!value.data || value.data == NOT_GIVEN)
            continue;
        bool fits_alone = value.size <= max && HEAD_ROOM + ENTRY_ROOM + value.size <= max;
        if (!fits_alone) {
            snprintf(text, sizeof text, "its value has %zu bytes, and a response %zu at most",
                     value.size, max);
            rota_get_batch_refuse(batch, i, text);
            n_given++;
        } else if (n_given == 0 || used + ENTRY_ROOM + value.size <= max) {
            used += ENTRY_ROOM + value.size;
            n_given++;
        } else {
            add_problem(batch, i, rota_str(""));
        }
    }
}

/* A client that does not mind problems is to ask for other keys, or for fewer. */
static const char *problem_of_all(const struct rota_get_batch *batch)
{
    for (size_t i = 0; i < batch->problems.size; i++)
        if (batch->problems.items[i].text.size > 0)
            return batch->problems.items[i].text.data;
    return "the values of these keys are too large for one answer, ask for fewer at one time";
}

static uint64_t id_of(const struct rota_get_batch *batch, size_t index)
{
    const struct rota_get_service *service = &batch->server->service;
    return service->entry_id ? service->entry_id(service->data, rota_get_batch_key(batch, index))
                             : index;
}

/* The values that are there, with the ids of their keys. */
static bool collect_entries(struct rota_get_batch *batch)
{
    if (!rota_vector_reserve(&batch->entries, batch->n_keys))
        return false;
    for (size_t i = 0; i < batch->n_keys; i++) {
        const struct rota_str *value = &batch->values.items[i];
        if (value->data && value->data != NOT_GIVEN)
            batch->entries.items[batch->entries.size++] =
                (struct rota_get_entry){id_of(batch, i), *value};
    }
    return true;
}

static void count_keys(struct rota_get_batch *batch)
{
    const struct series *series = &batch->server->series;
    size_t n_left = 0, n_given = batch->entries.size + batch->problems.size;
    for (size_t i = 0; i < batch->problems.size; i++) {
        n_left += batch->problems.items[i].text.size == 0;
        batch->problems.items[i].id = id_of(batch, batch->problems.items[i].id);
    }
    rota_counter_add(series->found, batch->entries.size);
    rota_counter_add(series->absent, batch->n_keys - n_given);
    if (batch->problems.size == 0)
        return;
    rota_counter_add(series->left, n_left);
    rota_counter_add(series->refused, batch->problems.size - n_left);
}

void rota_get_batch_finish(struct rota_get_batch *batch)
{
    struct rota_get_head head = look_at_shard(batch->server);
    if (!is_same(batch, &head)) {
        reply_not_matched(batch, head);
        return;
    }
    for (size_t i = 0; i < batch->n_keys && batch->leaves_rest; i++)
        if (!batch->values.items[i].data)
            add_problem(batch, i, rota_str(""));
    if (batch->problems.size > 0 && !batch->allows_problems) {
        fail(batch, FAILED, ROTA_STATUS_RESOURCE_EXHAUSTED, problem_of_all(batch));
        return;
    }
    if (batch->allows_problems)
        make_fit(batch);
    if (batch->has_failed || !collect_entries(batch)) {
        fail(batch, FAILED, ROTA_STATUS_RESOURCE_EXHAUSTED, "the values do not fit into memory");
        return;
    }
    count_keys(batch);
    head.all_matched = true;
    head.problems = batch->problems.items;
    head.n_problems = batch->problems.size;
    reply(batch, ANSWERED, &head);
}

/* --- calls --- */

enum rota_code rota_get_cache_read_request(void *data, struct rota_str request,
                                           struct rota_get_batch *batch, uint64_t *epoch,
                                           struct rota_error *error)
{
    struct rota_cache_request *scratch = &batch->server->scratch;
    (void)data;
    enum rota_code code = rota_cache_request_decode(scratch, request, error);
    if (code)
        return code;
    size_t size = scratch->keys.size * sizeof *scratch->keys.items;
    char *keys = rota_buffer_extend(&batch->keys, size);
    batch->has_failed |= !keys;
    if (keys && size > 0)
        memcpy(keys, scratch->keys.items, size);
    batch->n_keys = scratch->keys.size;
    *epoch = scratch->epoch;
    if (scratch->is_partial)
        rota_get_batch_allow_problems(batch);
    return ROTA_OK;
}

/* Read the request; false when it was answered with what is wrong. */
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
        code = rota_error_set(&error, ROTA_ERR_NO_MEMORY, "the request does not fit into memory");
    if (!code) {
        if (batch->n_keys > 0)
            memset(batch->values.items, 0, batch->n_keys * sizeof *batch->values.items);
        batch->values.size = batch->n_keys;
        return true;
    }
    fail(batch, INVALID,
         code == ROTA_ERR_NO_MEMORY ? ROTA_STATUS_RESOURCE_EXHAUSTED : ROTA_STATUS_INVALID_ARGUMENT,
         error.text);
    return false;
}

static void on_call(void *data, struct rota_server_call *call)
{
    struct rota_get_server *server = data;
    struct rota_get_batch *batch = take_batch(server, call);
    uint64_t epoch = 0;
    if (!batch) {
        count(server, FAILED);
        rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED, "no memory", NULL, 0);
        return;
    }
    call->is_measured = true; /* the client chooses by it how many it asks */
    rota_server_call_set_data(call, batch);
    if (!read_batch(batch, &epoch))
        return;
    struct rota_get_head head = look_at_shard(server);
    batch->shard = head.shard;
    batch->epoch = head.epoch;
    /* Who knows a later epoch than ours of what we hold knows that we have lost it. */
    head.all_matched = head.has_shard && epoch <= head.epoch && all_match(batch);
    if (batch->n_keys == 0)
        reply(batch, EMPTY, &head);
    else if (!head.all_matched)
        reply_not_matched(batch, head);
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

static bool make_series(struct rota_get_server *server)
{
    static const char *const endings[] = {"answered", "empty", "not_matched", "failed", "invalid"};
    static const char keys[] = "rota_get_server_keys_total";
    static const char keys_help[] = "Keys that were served, by what was answered.";
    struct rota_metrics *metrics = server->options.metrics;
    struct series *series = &server->series;
    if (!metrics)
        metrics = server->metrics = rota_metrics_new(1);
    if (!metrics)
        return false;
    for (size_t i = 0; i < ENDINGS; i++) {
        struct rota_label label = {"result", rota_str(endings[i])};
        series->ended[i] = rota_metrics_counter(metrics, "rota_get_server_total",
                                                "Gets that were served, by result.", &label, 1);
    }
    struct rota_label found = {"result", rota_str("found")};
    struct rota_label absent = {"result", rota_str("absent")};
    series->found = rota_metrics_counter(metrics, keys, keys_help, &found, 1);
    series->absent = rota_metrics_counter(metrics, keys, keys_help, &absent, 1);
    struct rota_label refused = {"result", rota_str("refused")};
    struct rota_label left = {"result", rota_str("left")};
    series->refused = rota_metrics_counter(metrics, keys, keys_help, &refused, 1);
    series->left = rota_metrics_counter(metrics, keys, keys_help, &left, 1);
    series->epoch = rota_metrics_gauge(metrics, "rota_get_server_epoch",
                                       "Epoch of the shard that is held; 0: none is.", NULL, 0);
    return true;
}

static enum rota_code check_service(const struct rota_get_service *service,
                                    struct rota_error *error)
{
    if (!service->sharding_key || !service->read_request || !service->write_response)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a server of Gets needs a service with sharding_key, read_request "
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
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "server of Gets");
    ours->options = *options;
    ours->service = *service;
    ours->server = server;
    if (make_series(ours)) {
        struct rota_server_method method = {
            .path = service->method, .on_call = on_call, .on_cancel = on_cancel, .data = ours};
        code = rota_server_add(server, &method, error);
    } else {
        code = rota_error_set(error, ROTA_ERR_NO_MEMORY, "server of Gets: metrics");
    }
    if (code) {
        server_free(ours);
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
        server_free(server);
}
