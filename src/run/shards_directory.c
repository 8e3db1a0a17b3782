/* The map source that asks a directory: rota.v1.Directory, at one or more
 * addresses that know the same.
 *
 * A question goes to one address and to the next when that is away; the last one
 * is waited for. What was answered once is watched: the directory sends the map
 * again when it changes. A watch that broke is begun again, elsewhere, after a
 * pause that grows. */
#include "run/shards_inside.h"

#include "core/call/backoff.h"
#include "io/clock.h"

#include "directory.pb-c.h"

#include <stdlib.h>

#define WATCH_PAUSE_MAX (2 * ROTA_SEC)

struct question {
    uint64_t number;
    struct directory *directory;
    struct rota_call *rpc;
    size_t asked;   /* the address that was asked last */
    size_t n_tried; /* addresses */
    struct rota_buffer request;
};

struct watch {
    int64_t collection;
    struct directory *directory;
    struct rota_call *rpc; /* NULL: between two attempts */
    size_t asked;          /* the address that it is at, or was last */
    uint64_t version;      /* of the map we have, as that address counts */
    bool is_heard;         /* since it is there */
    struct rota_backoff backoff;
    rota_time again_at;
};

struct directory {
    struct rota_shards *shards;
    struct rota_channel *channels[ROTA_SHARDS_DIRECTORIES_MAX];
    size_t n_channels, current;
    struct rota_map questions, watches;
    uv_timer_t timer;
};

static void directory_free(struct directory *directory)
{
    const struct rota_map_entry *entry;
    size_t place = 0;
    while ((entry = rota_map_next(&directory->questions, &place))) {
        struct question *question = entry->value;
        rota_buffer_deinit(&question->request);
        free(question);
    }
    place = 0;
    while ((entry = rota_map_next(&directory->watches, &place)))
        free(entry->value);
    rota_map_deinit(&directory->questions);
    rota_map_deinit(&directory->watches);
    free(directory);
}

/* Ask another one from now on, unless somebody has found that out before. */
static void move_on(struct directory *directory, size_t asked)
{
    if (directory->current == asked)
        directory->current = (asked + 1) % directory->n_channels;
}

/* --- messages --- */

static bool pack(const ProtobufCMessage *message, struct rota_buffer *buffer)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(size + 1);
    if (bytes)
        rota_buffer_append(buffer, bytes, protobuf_c_message_pack(message, bytes));
    free(bytes);
    return bytes && !buffer->failed;
}

static size_t count_replicas(const Rota__V1__ShardMap *from)
{
    size_t n = 0;
    for (size_t i = 0; i < from->n_shards; i++)
        n += from->shards[i]->n_nodes;
    return n;
}

bool rota_shards_read_map(const struct Rota__V1__ShardMap *from,
                          void (*use)(void *data, const struct rota_shards_map *map), void *data)
{
    if (!from || !from->collection || from->collection->id == 0 ||
        from->n_shards > ROTA_SHARD_CHANNELS_MAX)
        return false;
    struct rota_shard_channel *channels = calloc(from->n_shards + 1, sizeof *channels);
    struct rota_replica *replicas = calloc(count_replicas(from) + 1, sizeof *replicas), *end;
    if (!channels || !replicas) {
        free(channels);
        free(replicas);
        return false;
    }
    end = replicas;
    for (size_t i = 0; i < from->n_shards; i++) {
        const Rota__V1__Shard *shard = from->shards[i];
        channels[i] = (struct rota_shard_channel){rota_str(shard->channel), end, shard->n_nodes};
        for (size_t j = 0; j < shard->n_nodes; j++) {
            const Rota__V1__Node *node = shard->nodes[j];
            *end++ = (struct rota_replica){node->node_id, rota_str(node->address), node->epoch,
                                           node->serviceable};
        }
    }
    use(data, &(struct rota_shards_map){from->collection->id, channels, from->n_shards});
    free(channels);
    free(replicas);
    return true;
}

/* --- watches --- */

static void watch_start(struct watch *watch);

static struct watch *find_watch(const struct directory *directory, int64_t collection)
{
    return rota_map_get(&directory->watches, rota_str_of(&collection, sizeof collection));
}

static void watch_end(struct watch *watch)
{
    rota_map_remove(&watch->directory->watches,
                    rota_str_of(&watch->collection, sizeof watch->collection));
    if (watch->rpc)
        rota_call_cancel(watch->rpc);
    free(watch);
}

static void on_timer(uv_timer_t *timer);

static void arm(struct directory *directory)
{
    const struct rota_map_entry *entry;
    rota_time at = ROTA_TIME_NEVER, now = rota_clock_mono();
    size_t place = 0;
    while ((entry = rota_map_next(&directory->watches, &place))) {
        const struct watch *watch = entry->value;
        if (!watch->rpc)
            at = rota_time_min(at, watch->again_at);
    }
    if (at == ROTA_TIME_NEVER)
        uv_timer_stop(&directory->timer);
    else
        uv_timer_start(&directory->timer, on_timer,
                       at > now ? (uint64_t)((at - now) / ROTA_MSEC + 1) : 0, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct directory *directory = timer->data;
    const struct rota_map_entry *entry;
    rota_time now = rota_clock_mono();
    size_t place = 0;
    while ((entry = rota_map_next(&directory->watches, &place))) {
        struct watch *watch = entry->value;
        if (!watch->rpc && watch->again_at <= now)
            watch_start(watch);
    }
    arm(directory);
}

static void watch_broke(struct watch *watch)
{
    watch->rpc = NULL;
    move_on(watch->directory, watch->asked);
    watch->again_at = rota_time_add(
        rota_clock_mono(), rota_backoff_failed(&watch->backoff, &watch->directory->shards->random));
}

static void replace(void *data, const struct rota_shards_map *map)
{
    struct watch *watch = data;
    if (map->id == watch->collection)
        rota_shards_replace(watch->directory->shards, map);
}

/* Versions are the directory's own, and a directory that was started anew, or another
 * one, may count from less: nothing is known of its clock. So the first that is heard on
 * a stream has only to differ from what we have, and the others are in its order. */
static bool is_news(const struct watch *watch, uint64_t version)
{
    return watch->is_heard ? version > watch->version : version != watch->version;
}

static void on_change(void *data, struct rota_call *call, struct rota_str message)
{
    struct watch *watch = data;
    struct rota_shards *shards = watch->directory->shards;
    (void)call;
    rota_backoff_succeeded(&watch->backoff);
    if (!rota_shard_cache_peek(shards->cache, watch->collection)) {
        watch_end(watch); /* nobody reads it any more */
        return;
    }
    Rota__V1__WatchShardsReply *reply =
        rota__v1__watch_shards_reply__unpack(NULL, message.size, (const uint8_t *)message.data);
    if (!reply)
        return;
    if (reply->shards && is_news(watch, reply->shards->version)) {
        watch->version = reply->shards->version;
        watch->is_heard = true;
        shards->n_changes++;
        if (!rota_shards_read_map(reply->shards, replace, watch))
            rota_shards_invalidate(shards, &watch->collection, 1);
    }
    rota__v1__watch_shards_reply__free_unpacked(reply, NULL);
}

static void on_watch_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct watch *watch = data;
    struct directory *directory = watch->directory;
    (void)call;
    watch->rpc = NULL;
    if (result->status == ROTA_STATUS_NOT_FOUND) {
        rota_shards_invalidate(directory->shards, &watch->collection, 1);
        watch_end(watch);
    } else if (result->status == ROTA_STATUS_UNIMPLEMENTED) {
        watch_end(watch);
    } else {
        watch_broke(watch);
    }
    arm(directory);
}

static void watch_start(struct watch *watch)
{
    struct directory *directory = watch->directory;
    Rota__V1__WatchShardsRequest message = ROTA__V1__WATCH_SHARDS_REQUEST__INIT;
    Rota__V1__Collection collection = ROTA__V1__COLLECTION__INIT;
    struct rota_buffer request = {0};
    collection.id = watch->collection;
    message.collection = &collection;
    message.version = watch->version;
    watch->is_heard = false;
    watch->asked = directory->current;
    bool is_packed = pack(&message.base, &request);
    struct rota_call_options options = {
        .method = rota_str("/rota.v1.Directory/WatchShards"),
        .request = rota_buffer_str(&request),
        .on_message = on_change,
        .on_end = on_watch_end,
        .data = watch,
    };
    if (!is_packed ||
        rota_channel_call(directory->channels[watch->asked], &options, &watch->rpc, NULL)) {
        watch_broke(watch);
    }
    rota_buffer_deinit(&request);
}

/* Those whose map nobody reads make room. */
static void drop_unread(struct directory *directory)
{
    for (size_t place = 0; place < directory->watches.capacity;) {
        struct watch *watch = directory->watches.entries[place].value;
        if (watch && !rota_shard_cache_peek(directory->shards->cache, watch->collection))
            watch_end(watch); /* the place is filled anew */
        else
            place++;
    }
}

/* The collection's map was just answered in this version, by this address. */
static void watch_add(struct directory *directory, int64_t collection, uint64_t version,
                      size_t address)
{
    struct watch *watch = find_watch(directory, collection);
    if (watch) {
        if (address == watch->asked && version > watch->version)
            watch->version = version;
        return;
    }
    if (directory->watches.size >= ROTA_SHARDS_WATCHES_MAX)
        drop_unread(directory);
    if (directory->watches.size >= ROTA_SHARDS_WATCHES_MAX)
        return;
    watch = calloc(1, sizeof *watch);
    if (!watch)
        return;
    watch->collection = collection;
    watch->directory = directory;
    watch->version = version;
    watch->backoff.max = WATCH_PAUSE_MAX;
    if (!rota_map_put(&directory->watches,
                      rota_str_of(&watch->collection, sizeof watch->collection), watch)) {
        free(watch);
        return;
    }
    watch_start(watch);
    arm(directory);
}

/* --- questions --- */

static void question_free(struct question *question)
{
    rota_map_remove(&question->directory->questions,
                    rota_str_of(&question->number, sizeof question->number));
    rota_buffer_deinit(&question->request);
    free(question);
}

/* Takes the question. */
static void question_failed(struct question *question, enum rota_code code, struct rota_str text)
{
    struct directory *directory = question->directory;
    uint64_t number = question->number;
    struct rota_error error;
    rota_error_set(&error, code, "directory %s: %.*s",
                   rota_channel_target(directory->channels[question->asked]), ROTA_STR_ARGS(text));
    question_free(question);
    rota_shards_tell(directory->shards, number, NULL, &error);
}

struct answer {
    struct question *question;
    int64_t collection;
};

static void answer(void *data, const struct rota_shards_map *map)
{
    struct answer *answer = data;
    answer->collection = map->id;
    rota_shards_tell(answer->question->directory->shards, answer->question->number, map, NULL);
}

/* Takes the question. */
static void question_answered(struct question *question, struct rota_str message)
{
    struct directory *directory = question->directory;
    struct answer told = {.question = question};
    Rota__V1__GetShardsReply *reply =
        rota__v1__get_shards_reply__unpack(NULL, message.size, (const uint8_t *)message.data);
    if (!reply || !rota_shards_read_map(reply->shards, answer, &told)) {
        question_failed(question, ROTA_ERR_IO,
                        rota_str("malformed reply: expected a map of shards"));
    } else {
        size_t address = question->asked;
        question_free(question);
        watch_add(directory, told.collection, reply->shards->version, address);
    }
    if (reply)
        rota__v1__get_shards_reply__free_unpacked(reply, NULL);
}

static void question_send(struct question *question);

static void question_try_next(struct question *question, struct rota_str text)
{
    struct directory *directory = question->directory;
    move_on(directory, question->asked);
    if (++question->n_tried < directory->n_channels)
        question_send(question);
    else
        question_failed(question, ROTA_ERR_UNAVAILABLE, text);
}

static void on_reply(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct question *question = data;
    struct directory *directory = question->directory;
    (void)call;
    question->rpc = NULL;
    if (result->status == ROTA_STATUS_OK)
        question_answered(question, result->message);
    else if (result->status == ROTA_STATUS_NOT_FOUND)
        question_failed(question, ROTA_ERR_NOT_FOUND, result->text);
    else if (result->status == ROTA_STATUS_INVALID_ARGUMENT)
        question_failed(question, ROTA_ERR_INVALID, result->text);
    else
        question_try_next(question, result->text);
    rota_shards_settle(directory->shards, true);
}

static void question_send(struct question *question)
{
    struct directory *directory = question->directory;
    struct rota_error error;
    struct rota_call_options options = {
        .method = rota_str("/rota.v1.Directory/GetShards"),
        .request = rota_buffer_str(&question->request),
        .wait_for_ready = question->n_tried + 1 == directory->n_channels,
        .on_end = on_reply,
        .data = question,
    };
    question->asked = directory->current;
    if (rota_channel_call(directory->channels[question->asked], &options, &question->rpc, &error))
        question_try_next(question, rota_str(error.text));
}

static bool copy_text(struct rota_str text, char copy[ROTA_SHARD_NAME_MAX + 1])
{
    if (text.size > ROTA_SHARD_NAME_MAX || (text.size && memchr(text.data, '\0', text.size)))
        return false;
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return true;
}

static enum rota_code pack_question(struct question *question, const struct rota_shards_name *name,
                                    struct rota_error *error)
{
    char database[ROTA_SHARD_NAME_MAX + 1], collection[ROTA_SHARD_NAME_MAX + 1];
    Rota__V1__GetShardsRequest message = ROTA__V1__GET_SHARDS_REQUEST__INIT;
    Rota__V1__Collection which = ROTA__V1__COLLECTION__INIT;
    if (!copy_text(name->database, database) || !copy_text(name->collection, collection))
        return rota_error_set(error, ROTA_ERR_INVALID, "a directory knows no name with a NUL byte");
    which.database = database;
    which.name = collection;
    which.id = name->id;
    message.collection = &which;
    if (!pack(&message.base, &question->request))
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "a question to the directory");
    return ROTA_OK;
}

static void ask(void *data, struct rota_shards *shards, uint64_t number,
                const struct rota_shards_name *name)
{
    struct directory *directory = data;
    struct question *question = calloc(1, sizeof *question);
    struct rota_error error;
    if (!question) {
        rota_error_set(&error, ROTA_ERR_NO_MEMORY, "a question to the directory");
        rota_shards_tell(shards, number, NULL, &error);
        return;
    }
    question->number = number;
    question->directory = directory;
    enum rota_code code = pack_question(question, name, &error);
    if (code == ROTA_OK &&
        !rota_map_put(&directory->questions,
                      rota_str_of(&question->number, sizeof question->number), question))
        code = rota_error_set(&error, ROTA_ERR_NO_MEMORY, "a question to the directory");
    if (code) {
        question_free(question);
        rota_shards_tell(shards, number, NULL, &error);
        return;
    }
    question_send(question);
}

static void forget(void *data, uint64_t number)
{
    struct directory *directory = data;
    struct question *question =
        rota_map_get(&directory->questions, rota_str_of(&number, sizeof number));
    if (!question)
        return;
    if (question->rpc)
        rota_call_cancel(question->rpc);
    move_on(directory, question->asked); /* it took too long */
    question_free(question);
}

/* What keeps us from the directory that would be asked now, or that it is silent. */
static bool explain(void *data, struct rota_error *error)
{
    const struct directory *directory = data;
    const struct rota_channel *channel = directory->channels[directory->current];
    const struct rota_error *reason = rota_channel_reason(channel);
    if (rota_channel_state(channel) == ROTA_CHANNEL_READY || reason->code == ROTA_OK)
        rota_error_set(error, ROTA_ERR_UNAVAILABLE, "the directory %s does not answer",
                       rota_channel_target(channel));
    else
        rota_error_set(error, reason->code, "the directory can't be reached: %s", reason->text);
    return true;
}

/* --- life --- */

static void on_closed(uv_handle_t *handle)
{
    directory_free(handle->data);
}

static void close_all(void *data)
{
    struct directory *directory = data;
    for (size_t i = 0; i < directory->n_channels; i++)
        rota_channel_close(directory->channels[i]);
    uv_close((uv_handle_t *)&directory->timer, on_closed);
}

enum rota_code rota_shards_directory_new(struct rota_shards *shards,
                                         struct rota_shards_source *source,
                                         struct rota_error *error)
{
    const struct rota_shards_options *options = &shards->options;
    struct rota_channel_options with = {
        .tls = options->tls, .insecure = options->insecure, .backoff_max = WATCH_PAUSE_MAX};
    if (options->n_directories == 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "shards: neither a directory nor a source");
    if (options->n_directories > ROTA_SHARDS_DIRECTORIES_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "shards: more than %d directories",
                              ROTA_SHARDS_DIRECTORIES_MAX);
    struct directory *directory = calloc(1, sizeof *directory);
    if (!directory)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "shards: directory");
    directory->shards = shards;
    rota_map_init(&directory->questions, rota_random_next(&shards->random));
    rota_map_init(&directory->watches, rota_random_next(&shards->random));
    uv_timer_init(shards->loop, &directory->timer);
    directory->timer.data = directory;
    for (size_t i = 0; i < options->n_directories; i++) {
        enum rota_code code = rota_channel_open(shards->loop, options->directories[i], &with,
                                                &directory->channels[i], error);
        if (code) {
            close_all(directory);
            return code;
        }
        directory->n_channels++;
    }
    *source = (struct rota_shards_source){
        .ask = ask, .forget = forget, .explain = explain, .close = close_all, .data = directory};
    return ROTA_OK;
}
