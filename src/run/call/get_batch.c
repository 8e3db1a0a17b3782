/* Batches: the keys of one call, the program's answers, and the response. */
#include "core/call/get/interval_map.h"
#include "run/call/get_server_inside.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEY_SHOWN_MAX = 128 };

enum {
    AT_REST_MAX = 1024, /* batches kept for the next calls */

    /* The maximum size of a response, without the bytes of values and texts. */
    HEAD_ROOM = 1024,
    SHARD_ROOM = 48,
    ENTRY_ROOM = 32,
    LEFT_ROOM = 16, /* of a key that is left out */
};

/* --- batches --- */

void rota_get_batch_free(struct rota_get_batch *batch)
{
    rota_buffer_deinit(&batch->keys);
    rota_vector_deinit(&batch->values);
    rota_vector_deinit(&batch->entries);
    rota_vector_deinit(&batch->problems);
    rota_vector_deinit(&batch->shards);
    rota_arena_deinit(&batch->arena);
    free(batch);
}

struct rota_get_batch *rota_get_batch_open(struct rota_get_server *server,
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

/* The batch is over; its call is finished. */
static void release_batch(struct rota_get_batch *batch)
{
    struct rota_get_server *server = batch->server;
    server->n_batches--;
    if (server->writer.buffer.capacity > ROTA_ARENA_KEPT_MAX)
        rota_buffer_deinit(&server->writer.buffer);
    rota_buffer_clear(&batch->keys);
    rota_arena_clear(&batch->arena);
    batch->n_keys = batch->values.size = batch->entries.size = batch->problems.size = 0;
    batch->shards.size = 0;
    if (server->n_at_rest < AT_REST_MAX && batch->keys.capacity <= ROTA_ARENA_KEPT_MAX) {
        batch->next = server->at_rest;
        server->at_rest = batch;
        server->n_at_rest++;
    } else {
        rota_get_batch_free(batch);
    }
    if (server->n_batches > 0)
        return;
    if (server->is_closed)
        rota_get_server_free(server);
    else if (server->on_idle)
        server->on_idle(server->idle_data);
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

bool rota_get_batch_metadata(const struct rota_get_batch *batch, const char *name,
                             struct rota_str *value)
{
    size_t n;
    const struct rota_metadata *pairs = rota_server_call_metadata(batch->call, &n);
    return rota_metadata_get(pairs, n, name, value);
}

void rota_get_batch_put(struct rota_get_batch *batch, size_t index, struct rota_str value)
{
    assert(index < batch->n_keys);
    batch->values.items[index] = value.size > 0 ? value : rota_str("");
}

/* In the place of a value: there is no value, and the key is not absent either. */
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

const struct rota_interval_claim *rota_get_batch_shard(const struct rota_get_batch *batch,
                                                       size_t index)
{
    const struct rota_get_service *service = &batch->server->service;
    return rota_interval_find_claim(
        batch->shards.items, batch->shards.size,
        service->sharding_key(service->data, rota_get_batch_key(batch, index)));
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

/* Whether all shards of the batch are among those of `head`, under the same epochs. */
static bool is_still_held(const struct rota_get_batch *batch, const struct rota_get_head *head)
{
    for (size_t i = 0, k; i < batch->shards.size; i++) {
        const struct rota_interval_claim *needed = &batch->shards.items[i];
        for (k = 0; k < head->n_shards; k++)
            if (head->shards[k].epoch == needed->epoch &&
                rota_interval_is_equal(&head->shards[k].interval, &needed->interval))
                break;
        if (k == head->n_shards)
            return false;
    }
    return true;
}

bool rota_get_batch_is_cancelled(const struct rota_get_batch *batch)
{
    struct rota_get_head head = rota_get_server_current_head(batch->server);
    return rota_server_call_is_cancelled(batch->call) || !is_still_held(batch, &head);
}

/* --- answers --- */

void rota_get_batch_reject(struct rota_get_batch *batch, enum rota_get_ending ending,
                           enum rota_status status, const char *text)
{
    rota_get_server_count(batch->server, ending);
    rota_server_call_finish(batch->call, status, text, NULL, 0);
    release_batch(batch);
}

void rota_get_batch_fail(struct rota_get_batch *batch, enum rota_status status, const char *text)
{
    rota_get_batch_reject(batch, ROTA_GET_ENDED_FAILED, status, text);
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
        code = rota_error_no_memory(error, "for the response");
    if (!code && size > max)
        code = rota_error_set(
            error, ROTA_ERR_LIMIT,
            "the response has at least %zu bytes; at most %zu are allowed: request fewer keys",
            size, max);
    return code;
}

/* Send the response: the head, and the values that were found. */
void rota_get_batch_reply(struct rota_get_batch *batch, enum rota_get_ending ending,
                          const struct rota_get_head *head)
{
    struct rota_error error = {.text = "the response could not be written"};
    enum rota_code code = write_response(batch, head, &error);
    if (code) {
        bool is_large = code == ROTA_ERR_LIMIT || code == ROTA_ERR_NO_MEMORY;
        rota_get_batch_reject(batch, ROTA_GET_ENDED_FAILED,
                              is_large ? ROTA_STATUS_RESOURCE_EXHAUSTED : ROTA_STATUS_INTERNAL,
                              error.text);
        return;
    }
    rota_get_server_count(batch->server, ending);
    rota_server_call_reply(batch->call, rota_buffer_str(&batch->server->writer.buffer));
    release_batch(batch);
}

void rota_get_batch_reply_shard(struct rota_get_batch *batch, struct rota_get_head head)
{
    head.all_matched = false;
    batch->entries.size = batch->problems.size = 0;
    rota_get_batch_reply(batch, ROTA_GET_ENDED_NOT_MATCHED, &head);
}

/* What no longer fits is left for the next request; what never could is rejected. At least one
 * is returned or rejected, so that there is progress. */
static void make_fit(struct rota_get_batch *batch)
{
    size_t head = HEAD_ROOM + batch->server->held.size * SHARD_ROOM;
    size_t max = message_max(batch->server), used = head + batch->n_keys * LEFT_ROOM;
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
        bool fits_alone = value.size <= max && head + ENTRY_ROOM + value.size <= max;
        if (!fits_alone) {
            snprintf(text, sizeof text, "its value has %zu bytes; a response has at most %zu",
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

/* A client that does not know about problems has to ask for other keys, or for fewer. */
static void reject_for_problems(struct rota_get_batch *batch)
{
    const struct rota_get_service *service = &batch->server->service;
    for (size_t i = 0; i < batch->problems.size; i++) {
        const struct rota_get_problem *problem = &batch->problems.items[i];
        char name[KEY_SHOWN_MAX];
        struct rota_error error;
        if (problem->text.size == 0)
            continue;
        snprintf(name, sizeof name, "number %" PRIu64, problem->id);
        if (service->name_key)
            service->name_key(service->data, rota_get_batch_key(batch, problem->id), name,
                              sizeof name);
        name[sizeof name - 1] = '\0';
        rota_error_set(&error, ROTA_ERR_INVALID, "key %s: %.*s", name,
                       ROTA_STR_ARGS(problem->text));
        rota_get_batch_reject(batch, ROTA_GET_ENDED_INVALID, ROTA_STATUS_INVALID_ARGUMENT,
                              error.text);
        return;
    }
    rota_get_batch_reject(
        batch, ROTA_GET_ENDED_FAILED, ROTA_STATUS_RESOURCE_EXHAUSTED,
        "the values of these keys are too large for one response; request fewer keys at a time");
}

static uint64_t id_of(const struct rota_get_batch *batch, size_t index)
{
    const struct rota_get_service *service = &batch->server->service;
    return service->entry_id ? service->entry_id(service->data, rota_get_batch_key(batch, index))
                             : index;
}

/* The values found, with the ids of their keys. */
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
    const struct rota_get_server_series *series = &batch->server->series;
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
    struct rota_get_head head = rota_get_server_current_head(batch->server);
    if (!is_still_held(batch, &head)) {
        rota_get_batch_reply_shard(batch, head);
        return;
    }
    for (size_t i = 0; i < batch->n_keys && batch->leaves_rest; i++)
        if (!batch->values.items[i].data)
            add_problem(batch, i, rota_str(""));
    if (batch->problems.size > 0 && !batch->allows_problems) {
        reject_for_problems(batch);
        return;
    }
    if (batch->allows_problems)
        make_fit(batch);
    if (batch->has_failed || !collect_entries(batch)) {
        rota_get_batch_reject(batch, ROTA_GET_ENDED_FAILED, ROTA_STATUS_RESOURCE_EXHAUSTED,
                              "the values do not fit in memory");
        return;
    }
    count_keys(batch);
    head.all_matched = true;
    head.problems = batch->problems.items;
    head.n_problems = batch->problems.size;
    rota_get_batch_reply(batch, ROTA_GET_ENDED_ANSWERED, &head);
}
