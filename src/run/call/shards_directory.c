/* A question is answered from the watch of its space, as soon as that has the whole map; then the
 * directory sends what changes. A map that is asked for again at once has not helped: if the
 * directory sends nothing new, another one is watched. A watch ends when a map has changed that is
 * no longer read. */
#include "run/call/shards_directory.h"

#include "base/hash.h"
#include "io/clock.h"
#include "io/timer.h"
#include "run/call/map_watch.h"
#include "run/call/shards_inside.h"

#include <rota/space.h>
#include <stdio.h>
#include <stdlib.h>

enum { NUMBER_MAX = 11 }; /* bytes of a shard's, with its NUL */

struct directory {
    struct rota_shards *shards;
    struct rota_channel *channels[ROTA_SHARDS_DIRECTORIES_MAX];
    struct rota_map_watch_nodes nodes;
    struct rota_map questions, follows;
};

/* A space, by the id of its collection. */
struct follow {
    struct directory *directory;
    int64_t id;
    struct rota_map_watch watch;
    uv_timer_t timer; /* of the watch */
    struct rota_list_node questions;
    uint64_t history, version; /* of the map that the cache was given; 0: none */
    rota_time told_at;
    bool is_missing; /* the store has no such space */
    char name[];
};

struct question {
    uint64_t number;
    struct rota_list_node link;
};

/* --- maps --- */

enum rota_code rota_shards_directory_space(struct rota_str database, struct rota_str collection,
                                           char text[ROTA_SHARDS_DIRECTORY_NAME_MAX + 1],
                                           struct rota_error *error)
{
    bool is_default =
        database.size == 0 || rota_str_is_equal(database, rota_str(ROTA_SHARDS_DIRECTORY_DEFAULT));
    size_t size = collection.size + (is_default ? 0 : database.size + 1);
    if (collection.size == 0 || size > ROTA_SHARDS_DIRECTORY_NAME_MAX ||
        memchr(collection.data, '\0', collection.size) ||
        (!is_default && memchr(database.data, '\0', database.size)))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the name of a collection, with its database, has 1 to %d bytes, and "
                              "no NUL",
                              ROTA_SHARDS_DIRECTORY_NAME_MAX);
    snprintf(text, ROTA_SHARDS_DIRECTORY_NAME_MAX + 1, "%.*s%s%.*s",
             is_default ? 0 : (int)database.size, is_default ? "" : database.data,
             is_default ? "" : "/", ROTA_STR_ARGS(collection));
    return ROTA_OK;
}

static void read_shard(const struct rota_space_table_side *side, uint32_t shard,
                       struct rota_shard_channel *channel, struct rota_replica *replicas)
{
    channel->replicas = replicas;
    for (size_t i = 0; i < side->n_zones; i++) {
        const struct rota_space_table_claim *claim = &side->zones[i].claims[shard];
        struct rota_str address =
            rota_str(claim->owner > 0 ? side->nodes.items[claim->owner - 1] : "");
        if (claim->owner > 0)
            replicas[channel->n_replicas++] = (struct rota_replica){
                rota_space_node(address), address, claim->epoch, !claim->is_moving};
    }
}

enum rota_code rota_shards_directory_map(const struct rota_space_table *table,
                                         struct rota_arena *arena, struct rota_shards_map *map,
                                         struct rota_error *error)
{
    const struct rota_space_table_side *side = &table->now;
    size_t n = side->n_shards;
    if (n > ROTA_SHARD_CHANNELS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "%zu shards, and a collection has at most %d: "
                              "<rota/service_client.h> calls the shards of larger spaces",
                              n, ROTA_SHARD_CHANNELS_MAX);
    struct rota_shard_channel *channels = rota_arena_take(arena, n * sizeof *channels);
    struct rota_replica *replicas =
        rota_arena_take(arena, (n * side->n_zones + 1) * sizeof *replicas);
    char *names = rota_arena_take(arena, n * NUMBER_MAX);
    if (!channels || !replicas || !names)
        return rota_error_no_memory(error, "for a map of shards");
    for (uint32_t i = 0; i < n; i++) {
        char *name = names + (size_t)i * NUMBER_MAX;
        snprintf(name, NUMBER_MAX, "%u", (unsigned)i);
        channels[i] = (struct rota_shard_channel){.name = rota_str(name)};
        read_shard(side, i, &channels[i], replicas + i * side->n_zones);
    }
    *map = (struct rota_shards_map){.channels = channels, .n_channels = n};
    return ROTA_OK;
}

/* Whether the directory that is watched has sent all that it has. */
static bool is_current(const struct follow *follow)
{
    return follow->watch.table.is_known && follow->watch.fsm.state == ROTA_WATCH_WATCHING &&
           follow->watch.fsm.first_by == ROTA_TIME_NEVER;
}

static void free_question(struct directory *directory, struct question *question)
{
    rota_map_remove(&directory->questions, rota_str_of(&question->number, sizeof question->number));
    rota_list_remove(&question->link);
    free(question);
}

/* Answer the questions with a map, or with an error. */
static void answer_questions(struct follow *follow, const struct rota_shards_map *map,
                             const struct rota_error *error)
{
    struct directory *directory = follow->directory;
    follow->told_at = rota_clock_mono();
    ROTA_LIST_DRAIN (question, &follow->questions, struct question, link) {
        uint64_t number = question->number;
        free_question(directory, question);
        rota_shards_tell(directory->shards, number, map, error);
    }
}

/* Tell the cache, if there is something new or a question. */
static void tell_map(struct follow *follow)
{
    struct rota_shards *shards = follow->directory->shards;
    const struct rota_space_table *table = &follow->watch.table;
    struct rota_arena arena = {0};
    struct rota_shards_map map;
    struct rota_error error;
    bool is_news = follow->history != table->history || follow->version != table->version;
    bool is_cached = rota_shard_cache_peek(shards->cache, follow->id) != NULL;
    enum rota_code code = rota_shards_directory_map(table, &arena, &map, &error);
    if (code) {
        answer_questions(follow, NULL, &error);
    } else {
        map.id = follow->id;
        map.name = follow->watch.name;
        if (is_news && is_cached && follow->version > 0) {
            shards->n_changes++;
            rota_shards_replace(shards, &map);
        }
        answer_questions(follow, &map, NULL);
    }
    follow->history = table->history;
    follow->version = table->version;
    rota_arena_deinit(&arena);
}

/* --- follows --- */

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void follow_end(struct follow *follow)
{
    rota_map_remove(&follow->directory->follows, rota_str_of(&follow->id, sizeof follow->id));
    rota_map_watch_cancel(&follow->watch);
    rota_map_watch_deinit(&follow->watch);
    uv_close((uv_handle_t *)&follow->timer, on_timer_closed);
}

static bool is_unread(const struct follow *follow)
{
    return rota_list_is_empty(&follow->questions) &&
           !rota_shard_cache_peek(follow->directory->shards->cache, follow->id);
}

static void on_news(void *data, bool is_changed)
{
    struct follow *follow = data;
    struct rota_shards *shards = follow->directory->shards;
    if (is_changed && follow->watch.table.history == follow->history)
        rota_map_watch_step(&follow->watch, (struct rota_watch_event){.type = ROTA_WATCH_SERVED});
    if (follow->is_missing || (is_changed && is_unread(follow)))
        follow_end(follow);
    else if (is_changed && is_current(follow))
        tell_map(follow);
    rota_shards_settle(shards, true);
}

static void on_missing(void *data, const char *text)
{
    struct follow *follow = data;
    struct rota_error error;
    rota_error_set(&error, ROTA_ERR_NOT_FOUND, "%s", text);
    rota_shards_invalidate(follow->directory->shards, &follow->id, 1);
    answer_questions(follow, NULL, &error);
    follow->is_missing = true;
}

static void on_timer(uv_timer_t *timer)
{
    struct follow *follow = timer->data;
    struct rota_shards *shards = follow->directory->shards;
    rota_map_watch_step(&follow->watch, (struct rota_watch_event){.type = ROTA_WATCH_TICK});
    rota_shards_settle(shards, true);
}

static void on_deadline(void *data, rota_time at)
{
    struct follow *follow = data;
    rota_timer_set(&follow->timer, on_timer, rota_clock_mono(), at);
}

static struct follow *find_follow(const struct directory *directory, int64_t id)
{
    return rota_map_get(&directory->follows, rota_str_of(&id, sizeof id));
}

/* Those of maps that are no longer read make room. */
static void end_unread(struct directory *directory)
{
    for (size_t place = 0; place < directory->follows.capacity;) {
        struct follow *follow = directory->follows.entries[place].value;
        if (follow && is_unread(follow))
            follow_end(follow); /* the place is filled again */
        else
            place++;
    }
}

static enum rota_code follow_space(struct directory *directory, int64_t id, const char *name,
                                   struct follow **result, struct rota_error *error)
{
    static const struct rota_map_watch_handler HANDLER = {on_news, on_missing, on_deadline};
    size_t size = strlen(name);
    if (directory->follows.size >= ROTA_SHARDS_WATCHES_MAX)
        end_unread(directory);
    if (directory->follows.size >= ROTA_SHARDS_WATCHES_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "shards: more than %d collections in use",
                              ROTA_SHARDS_WATCHES_MAX);
    struct follow *follow = calloc(1, sizeof *follow + size + 1);
    if (!follow)
        return rota_error_no_memory(error, "for the directory of shards");
    snprintf(follow->name, size + 1, "%s", name);
    follow->directory = directory;
    follow->id = id;
    rota_list_init(&follow->questions);
    if (!rota_map_put(&directory->follows, rota_str_of(&follow->id, sizeof follow->id), follow)) {
        free(follow);
        return rota_error_no_memory(error, "for the directory of shards");
    }
    uv_timer_init(directory->shards->loop, &follow->timer);
    follow->timer.data = follow;
    rota_map_watch_init(&follow->watch, rota_str_of(follow->name, size), &directory->nodes,
                        &HANDLER, follow);
    *result = follow;
    return ROTA_OK;
}

/* --- questions --- */

/* A space has no id of its own: a collection has one that follows from its name. */
static int64_t id_of(const char *space)
{
    int64_t id = (int64_t)(rota_hash_xxh64(0, rota_str(space)) >> 1);
    return id > 0 ? id : 1;
}

static enum rota_code find_space(struct directory *directory, const struct rota_shards_name *name,
                                 struct follow **result, struct rota_error *error)
{
    char space[ROTA_SHARDS_DIRECTORY_NAME_MAX + 1];
    int64_t id = name->id;
    if (name->collection.size > 0) {
        enum rota_code code =
            rota_shards_directory_space(name->database, name->collection, space, error);
        if (code)
            return code;
        id = id_of(space);
    }
    *result = find_follow(directory, id);
    if ((name->id != 0 && name->id != id) || (name->collection.size == 0 && !*result))
        return rota_error_set(error, ROTA_ERR_NOT_FOUND,
                              "no collection with id %lld is in use here: use its name",
                              (long long)name->id);
    return *result ? ROTA_OK : follow_space(directory, id, space, result, error);
}

/* The cache was given the same just now, and the map did not help. */
static bool is_doubtful(const struct follow *follow)
{
    const struct rota_space_table *table = &follow->watch.table;
    return follow->version > 0 && follow->history == table->history &&
           follow->version == table->version &&
           rota_clock_mono() < rota_time_add(follow->told_at, ROTA_SHARD_TTL / 2);
}

static void ask_directory(void *data, struct rota_shards *shards, uint64_t number,
                          const struct rota_shards_name *name)
{
    struct directory *directory = data;
    struct question *question = calloc(1, sizeof *question);
    struct follow *follow;
    struct rota_error error;
    enum rota_code code = question ? find_space(directory, name, &follow, &error)
                                   : rota_error_no_memory(&error, "for a request to the directory");
    if (!code) {
        question->number = number;
        if (!rota_map_put(&directory->questions,
                          rota_str_of(&question->number, sizeof question->number), question))
            code = rota_error_no_memory(&error, "for a request to the directory");
    }
    if (code) {
        free(question);
        rota_shards_tell(shards, number, NULL, &error);
        return;
    }
    rota_list_push(&follow->questions, &question->link);
    rota_map_watch_step(&follow->watch, (struct rota_watch_event){.type = ROTA_WATCH_START});
    if (is_current(follow)) {
        if (is_doubtful(follow))
            rota_map_watch_step(&follow->watch,
                                (struct rota_watch_event){.type = ROTA_WATCH_WAITED});
        tell_map(follow);
    }
}

static void forget_question(void *data, uint64_t number)
{
    struct directory *directory = data;
    struct question *question =
        rota_map_get(&directory->questions, rota_str_of(&number, sizeof number));
    if (question)
        free_question(directory, question);
}

/* Why a directory that is asked is unreachable, or that it does not respond. */
static bool explain_failure(void *data, struct rota_error *error)
{
    const struct directory *directory = data;
    const struct rota_map_entry *entry;
    const struct follow *follow = NULL;
    size_t place = 0;
    while ((!follow || is_current(follow)) && (entry = rota_map_next(&directory->follows, &place)))
        follow = entry->value;
    if (!follow || is_current(follow))
        return false;
    const struct rota_channel *channel = directory->channels[follow->watch.node];
    const struct rota_error *reason = rota_channel_reason(channel);
    if (rota_channel_state(channel) != ROTA_CHANNEL_READY && reason->code != ROTA_OK)
        rota_error_set(error, reason->code, "the directory is unreachable: %s", reason->text);
    else if (follow->watch.problem[0] && rota_channel_state(channel) == ROTA_CHANNEL_READY)
        rota_error_set(error, ROTA_ERR_UNAVAILABLE, "the directory %s: %s",
                       rota_channel_target(channel), follow->watch.problem);
    else
        rota_error_set(error, ROTA_ERR_UNAVAILABLE, "the directory %s does not respond",
                       rota_channel_target(channel));
    return true;
}

/* --- life --- */

static void close_directory(void *data)
{
    struct directory *directory = data;
    const struct rota_map_entry *entry;
    size_t place = 0;
    while ((entry = rota_map_next(&directory->questions, &place)))
        free(entry->value);
    rota_map_deinit(&directory->questions);
    while (directory->follows.size > 0) {
        place = 0;
        follow_end(rota_map_next(&directory->follows, &place)->value);
    }
    rota_map_deinit(&directory->follows);
    for (size_t i = 0; i < directory->nodes.n; i++)
        rota_channel_close(directory->channels[i]);
    free(directory);
}

enum rota_code rota_shards_directory_new(struct rota_shards *shards,
                                         struct rota_shards_source *source,
                                         struct rota_error *error)
{
    const struct rota_shards_options *options = &shards->options;
    const struct rota_channel_options with = {
        .tls = options->tls,
        .insecure = options->insecure,
        .connect_timeout = ROTA_WATCH_FIRST_WITHIN,
        .backoff_max = ROTA_WATCH_PAUSE_MAX,
        .keepalive_interval = ROTA_MAP_WATCH_KEEPALIVE,
        .keepalive_timeout = ROTA_MAP_WATCH_KEEPALIVE_TIMEOUT,
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
    directory->nodes =
        (struct rota_map_watch_nodes){.channels = directory->channels, .random = &shards->random};
    rota_map_init(&directory->questions, rota_random_next(&shards->random));
    rota_map_init(&directory->follows, rota_random_next(&shards->random));
    for (size_t i = 0; i < options->n_directories; i++) {
        enum rota_code code = rota_channel_open(shards->loop, options->directories[i], &with,
                                                &directory->channels[i], error);
        if (code) {
            close_directory(directory);
            return code;
        }
        directory->nodes.n++;
    }
    *source = (struct rota_shards_source){.ask = ask_directory,
                                          .forget = forget_question,
                                          .explain = explain_failure,
                                          .close = close_directory,
                                          .data = directory};
    return ROTA_OK;
}
