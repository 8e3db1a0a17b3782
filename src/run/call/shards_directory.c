/* The map source that asks a directory: rota.v1.Directory, at one or more addresses that know the
 * same.
 *
 * A question goes to one address and to the next when that is unreachable; for the last one it
 * waits. A collection that was answered is then watched: the directory sends the map again when
 * it changes. A broken watch is started again, at another address, after a growing pause. */
#include "run/call/shards_inside.h"

#include "core/call/backoff.h"
#include "io/clock.h"
#include "io/timer.h"

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

/* Use another one from now on, unless another question has switched already. */
static void move_on(struct directory *directory, size_t asked)
{
    if (directory->current == asked)
        directory->current = (asked + 1) % directory->n_channels;
}

/* --- messages --- */

const struct rota_directory_map *rota_shards_directory_decode_map(struct rota_str reply,
                                                                  struct rota_arena *arena)
{
    struct rota_directory_reply message;
    rota_message_decode(&ROTA_DIRECTORY_REPLY, reply, &message, arena, NULL);
    return message.shards;
}

bool rota_shards_directory_read_map(const struct rota_directory_map *from, struct rota_arena *arena,
                                    void (*use)(void *data, const struct rota_shards_map *map),
                                    void *data)
{
    const struct rota_directory_collection *collection = from ? from->collection : NULL;
    if (!collection || collection->id == 0)
        return false;
    const struct rota_directory_shard *shards = from->shards.items;
    struct rota_shard_channel *channels = rota_arena_take(arena, from->shards.n * sizeof *channels);
    if (!channels)
        return false;
    for (size_t i = 0; i < from->shards.n; i++)
        channels[i] = (struct rota_shard_channel){shards[i].channel, shards[i].nodes.items,
                                                  shards[i].nodes.n};
    use(data,
        &(struct rota_shards_map){collection->id, channels, from->shards.n, collection->name});
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

static void arm_timer(struct directory *directory)
{
    const struct rota_map_entry *entry;
    rota_time at = ROTA_TIME_NEVER, now = rota_clock_mono();
    size_t place = 0;
    while ((entry = rota_map_next(&directory->watches, &place))) {
        const struct watch *watch = entry->value;
        if (!watch->rpc)
            at = rota_time_min(at, watch->again_at);
    }
    rota_timer_set(&directory->timer, on_timer, now, at);
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
    arm_timer(directory);
}

static void watch_broke(struct watch *watch)
{
    watch->rpc = NULL;
    move_on(watch->directory, watch->asked);
    watch->again_at = rota_time_add(
        rota_clock_mono(), rota_backoff_failed(&watch->backoff, &watch->directory->shards->random));
}

static void replace_map(void *data, const struct rota_shards_map *map)
{
    struct watch *watch = data;
    if (map->id == watch->collection)
        rota_shards_replace(watch->directory->shards, map);
}

/* Versions belong to the directory, and a restarted or another directory may count from less:
 * its clock is unknown. So the first version on a stream only has to differ from ours, and the
 * others are ordered. */
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
        watch_end(watch); /* the map is no longer read */
        return;
    }
    struct rota_arena arena = {0};
    const struct rota_directory_map *map = rota_shards_directory_decode_map(message, &arena);
    if (map && is_news(watch, map->version)) {
        watch->version = map->version;
        watch->is_heard = true;
        shards->n_changes++;
        if (!rota_shards_directory_read_map(map, &arena, replace_map, watch))
            rota_shards_invalidate(shards, &watch->collection, 1);
    }
    rota_arena_deinit(&arena);
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
    arm_timer(directory);
}

static void watch_start(struct watch *watch)
{
    struct directory *directory = watch->directory;
    const struct rota_directory_collection collection = {.id = watch->collection};
    const struct rota_directory_request message = {&collection, watch->version};
    struct rota_buffer request = {0};
    watch->is_heard = false;
    watch->asked = directory->current;
    rota_message_encode(&ROTA_DIRECTORY_WATCH, &message, &request);
    struct rota_call_options options = {
        .method = rota_str("/rota.v1.Directory/WatchShards"),
        .request = rota_buffer_str(&request),
        .on_message = on_change,
        .on_end = on_watch_end,
        .data = watch,
    };
    if (request.failed ||
        rota_channel_call(directory->channels[watch->asked], &options, &watch->rpc, NULL))
        watch_broke(watch);
    rota_buffer_deinit(&request);
}

/* Watches of maps that are no longer read make room. */
static void drop_unread(struct directory *directory)
{
    for (size_t place = 0; place < directory->watches.capacity;) {
        struct watch *watch = directory->watches.entries[place].value;
        if (watch && !rota_shard_cache_peek(directory->shards->cache, watch->collection))
            watch_end(watch); /* the place is filled again */
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
    arm_timer(directory);
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

static void answer_question(void *data, const struct rota_shards_map *map)
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
    struct rota_arena arena = {0};
    const struct rota_directory_map *map = rota_shards_directory_decode_map(message, &arena);
    if (rota_shards_directory_read_map(map, &arena, answer_question, &told)) {
        size_t address = question->asked;
        question_free(question);
        watch_add(directory, told.collection, map->version, address);
    } else {
        question_failed(question, ROTA_ERR_IO,
                        rota_str("malformed reply: expected a map of shards"));
    }
    rota_arena_deinit(&arena);
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

static bool is_name(struct rota_str text)
{
    return text.size <= ROTA_SHARD_NAME_MAX && !(text.size && memchr(text.data, '\0', text.size));
}

static enum rota_code pack_question(struct question *question, const struct rota_shards_name *name,
                                    struct rota_error *error)
{
    const struct rota_directory_collection which = {name->database, name->collection, name->id};
    if (!is_name(name->database) || !is_name(name->collection))
        return rota_error_set(error, ROTA_ERR_INVALID, "a name must not contain a NUL byte");
    rota_message_encode(&ROTA_DIRECTORY_GET, &(struct rota_directory_request){&which, 0},
                        &question->request);
    if (question->request.failed)
        return rota_error_no_memory(error, "for a request to the directory");
    return ROTA_OK;
}

static void ask_directory(void *data, struct rota_shards *shards, uint64_t number,
                          const struct rota_shards_name *name)
{
    struct directory *directory = data;
    struct question *question = calloc(1, sizeof *question);
    struct rota_error error;
    if (!question) {
        rota_error_no_memory(&error, "for a request to the directory");
        rota_shards_tell(shards, number, NULL, &error);
        return;
    }
    question->number = number;
    question->directory = directory;
    enum rota_code code = pack_question(question, name, &error);
    if (code == ROTA_OK &&
        !rota_map_put(&directory->questions,
                      rota_str_of(&question->number, sizeof question->number), question))
        code = rota_error_no_memory(&error, "for a request to the directory");
    if (code) {
        question_free(question);
        rota_shards_tell(shards, number, NULL, &error);
        return;
    }
    question_send(question);
}

static void forget_question(void *data, uint64_t number)
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

/* Why the directory that would be asked now is unreachable, or that it does not respond. */
static bool explain_failure(void *data, struct rota_error *error)
{
    const struct directory *directory = data;
    const struct rota_channel *channel = directory->channels[directory->current];
    const struct rota_error *reason = rota_channel_reason(channel);
    if (rota_channel_state(channel) == ROTA_CHANNEL_READY || reason->code == ROTA_OK)
        rota_error_set(error, ROTA_ERR_UNAVAILABLE, "the directory %s does not respond",
                       rota_channel_target(channel));
    else
        rota_error_set(error, reason->code, "the directory is unreachable: %s", reason->text);
    return true;
}

/* --- life --- */

static void on_closed(uv_handle_t *handle)
{
    directory_free(handle->data);
}

static void close_directory(void *data)
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
        .tls = options->tls,
        .insecure = options->insecure,
        .backoff_max = WATCH_PAUSE_MAX,
        /* A question to a silent directory times out first, and is asked again. */
        .connect_timeout = 2 * ROTA_SHARD_FLIGHT_TIMEOUT,
    };
    if (options->n_directories == 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "shards: a directory or a source is required");
    if (options->n_directories > ROTA_SHARDS_DIRECTORIES_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "shards: more than %d directories",
                              ROTA_SHARDS_DIRECTORIES_MAX);
    struct directory *directory = calloc(1, sizeof *directory);
    if (!directory)
        return rota_error_no_memory(error, "for the directory of shards");
    directory->shards = shards;
    rota_map_init(&directory->questions, rota_random_next(&shards->random));
    rota_map_init(&directory->watches, rota_random_next(&shards->random));
    uv_timer_init(shards->loop, &directory->timer);
    directory->timer.data = directory;
    for (size_t i = 0; i < options->n_directories; i++) {
        enum rota_code code = rota_channel_open(shards->loop, options->directories[i], &with,
                                                &directory->channels[i], error);
        if (code) {
            close_directory(directory);
            return code;
        }
        directory->n_channels++;
    }
    *source = (struct rota_shards_source){.ask = ask_directory,
                                          .forget = forget_question,
                                          .explain = explain_failure,
                                          .close = close_directory,
                                          .data = directory};
    return ROTA_OK;
}
