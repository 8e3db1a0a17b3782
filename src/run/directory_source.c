/* What a directory knows: from a file of shards, or from a ring of hosts. */
#include "run/directory.h"

#include "base/hash.h"
#include "base/vector.h"
#include "run/file_watch.h"

#include <rota/ring.h>
#include <stdio.h>
#include <stdlib.h>

struct rota_directory_source {
    struct rota_directory_source_options options;
    char *path, *names;
    struct rota_file_watch *watch;
    struct rota_members *members;
};

static void source_free(struct rota_directory_source *source)
{
    free(source->path);
    free(source->names);
    free(source);
}

static char *copy_bytes(const void *bytes, size_t size)
{
    char *copy = malloc(size + 1);
    if (!copy)
        return NULL;
    if (size > 0)
        memcpy(copy, bytes, size);
    copy[size] = '\0';
    return copy;
}

static enum rota_code source_new(const char *path,
                                 const struct rota_directory_source_options *options,
                                 struct rota_directory_source **result, struct rota_error *error)
{
    struct rota_directory_source *source = calloc(1, sizeof *source);
    size_t database = options->database.size, name = options->name.size;
    if (!source || !(source->path = copy_bytes(path, strlen(path))) ||
        !(source->names = malloc(database + name + 1))) {
        if (source)
            source_free(source);
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "directory: %s", path);
    }
    source->options = *options;
    if (database > 0)
        memcpy(source->names, options->database.data, database);
    if (name > 0)
        memcpy(source->names + database, options->name.data, name);
    source->options.database = rota_str_of(source->names, database);
    source->options.name = rota_str_of(source->names + database, name);
    *result = source;
    return ROTA_OK;
}

static void on_error(void *data, const struct rota_error *error)
{
    struct rota_directory_source *source = data;
    if (source->options.on_error)
        source->options.on_error(source->options.data, error);
}

/* --- a file of shards --- */

static enum rota_code on_content(void *data, struct rota_str content, struct rota_error *error)
{
    struct rota_directory_source *source = data;
    struct rota_shards_file file;
    enum rota_code code = rota_shards_file_parse(content, source->path, &file, error);
    if (code)
        return code;
    if (file.n_collections == 0) /* more likely a writer's first half than the truth */
        code = rota_error_set(error, ROTA_ERR_INVALID, "%s: no collection is there", source->path);
    else
        code = rota_directory_set(source->options.directory, file.collections, file.n_collections,
                                  error);
    rota_shards_file_deinit(&file);
    return code;
}

static void on_closed(void *data)
{
    source_free(data);
}

enum rota_code rota_directory_watch_file(struct uv_loop_s *loop, const char *path,
                                         const struct rota_directory_source_options *options,
                                         struct rota_directory_source **result,
                                         struct rota_error *error)
{
    struct rota_directory_source *source;
    enum rota_code code = source_new(path, options, &source, error);
    if (code)
        return code;
    struct rota_file_watch_options watch = {
        .path = path,
        .size_max = ROTA_SHARDS_TEXT_MAX,
        .on_content = on_content,
        .on_error = on_error,
        .on_closed = on_closed,
        .data = source,
    };
    code = rota_file_watch_open(loop, &watch, &source->watch, error);
    if (code) {
        source_free(source);
        return code;
    }
    *result = source;
    return ROTA_OK;
}

/* --- a ring --- */

/* Two hashes of its address. */
int64_t rota_directory_node_of(struct rota_str address)
{
    char twice[2 * ROTA_ADDRESS_MAX];
    memcpy(twice, address.data, address.size);
    memcpy(twice + address.size, address.data, address.size);
    uint64_t high = rota_hash_farm32(rota_str_of(twice, 2 * address.size));
    return (int64_t)((high << 32 | rota_hash_farm32(address)) >> 1);
}

enum { CHANNEL_MAX = ROTA_SHARD_NAME_MAX + 12 };

struct placement {
    struct rota_shard_channel *channels;
    struct rota_replica *replicas;
    uint32_t *hosts;
    char (*names)[CHANNEL_MAX];
};

static void placement_deinit(struct placement *placement)
{
    free(placement->channels);
    free(placement->replicas);
    free(placement->hosts);
    free(placement->names);
}

static bool placement_init(struct placement *placement, size_t n_shards, size_t n_replicas)
{
    *placement = (struct placement){
        .channels = calloc(n_shards, sizeof *placement->channels),
        .replicas = calloc(n_shards * n_replicas, sizeof *placement->replicas),
        .hosts = calloc(n_replicas, sizeof *placement->hosts),
        .names = calloc(n_shards, sizeof *placement->names),
    };
    if (placement->channels && placement->replicas && placement->hosts && placement->names)
        return true;
    placement_deinit(placement);
    return false;
}

/* Whom shard `i` belongs to. Who stands on a ring follows from its hosts alone, so
 * there is no claim that could change hands: all epochs are 1. */
static void place_shard(const struct rota_directory_source *source, const struct rota_ring *ring,
                        struct placement *placement, size_t i)
{
    struct rota_replica *replicas = &placement->replicas[i * source->options.n_replicas];
    snprintf(placement->names[i], CHANNEL_MAX, "%.*s-%zu", ROTA_STR_ARGS(source->options.name), i);
    struct rota_str name = rota_str(placement->names[i]);
    size_t n = rota_ring_lookup_n(ring, name, source->options.n_replicas, placement->hosts);
    for (size_t j = 0; j < n; j++) {
        struct rota_str address = rota_ring_host(ring, placement->hosts[j]).address;
        replicas[j] = (struct rota_replica){rota_directory_node_of(address), address, 1, true};
    }
    placement->channels[i] = (struct rota_shard_channel){name, replicas, n};
}

static enum rota_code place(struct rota_directory_source *source, struct rota_error *error)
{
    const struct rota_directory_source_options *options = &source->options;
    struct placement placement;
    if (!placement_init(&placement, options->n_shards, options->n_replicas))
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "directory: %u shards", options->n_shards);
    struct rota_ring *ring = rota_members_ring(source->members);
    for (size_t i = 0; i < options->n_shards; i++)
        place_shard(source, ring, &placement, i);
    struct rota_shards_collection collection = {options->database, options->name, options->id,
                                                placement.channels, options->n_shards};
    enum rota_code code = rota_directory_set(options->directory, &collection, 1, error);
    placement_deinit(&placement);
    rota_ring_unref(ring);
    return code;
}

static void on_change(void *data, const struct rota_members_change *change)
{
    const struct rota_directory_source *source = data;
    struct rota_error error;
    (void)change;
    if (place(data, &error))
        on_error(data, &error);
    else if (source->options.on_change)
        source->options.on_change(source->options.data);
}

static bool has_hosts(const struct rota_members *members)
{
    size_t n;
    rota_members_list(members, &n);
    return n > 0;
}

static enum rota_code check_ring(const struct rota_directory_source_options *options,
                                 struct rota_error *error)
{
    if (options->n_shards < 1 || options->n_shards > ROTA_SHARD_CHANNELS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "directory: %u shards, 1 to %d are allowed",
                              options->n_shards, ROTA_SHARD_CHANNELS_MAX);
    if (options->n_replicas < 1 || options->n_replicas > ROTA_SHARD_REPLICAS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "directory: %u replicas, 1 to %d are allowed", options->n_replicas,
                              ROTA_SHARD_REPLICAS_MAX);
    if (options->database.size == 0 || options->database.size > ROTA_SHARD_NAME_MAX ||
        options->name.size == 0 || options->name.size > ROTA_SHARD_NAME_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "directory: a database and a collection have 1 to %d bytes",
                              ROTA_SHARD_NAME_MAX);
    if (options->id <= 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "directory: the id of a collection is above 0");
    return ROTA_OK;
}

enum rota_code rota_directory_watch_ring(struct uv_loop_s *loop, struct rota_members_source *hosts,
                                         const struct rota_directory_source_options *options,
                                         struct rota_directory_source **result,
                                         struct rota_error *error)
{
    struct rota_directory_source *source = NULL;
    enum rota_code code = check_ring(options, error);
    if (code || (code = source_new("", options, &source, error))) {
        hosts->stop(hosts);
        return code;
    }
    struct rota_members_options with = {.on_error = on_error, .data = source};
    if ((code = rota_members_open(loop, hosts, &with, &source->members, error))) {
        source_free(source);
        return code;
    }
    code = rota_members_subscribe(source->members, "directory", on_change, source, error);
    if (!code && has_hosts(source->members))
        code = place(source, error);
    if (code) {
        rota_directory_source_close(source);
        return code;
    }
    *result = source;
    return ROTA_OK;
}

void rota_directory_source_close(struct rota_directory_source *source)
{
    if (!source)
        return;
    if (source->watch) {
        rota_file_watch_close(source->watch); /* which frees the source when it has gone */
        return;
    }
    rota_members_close(source->members);
    source_free(source);
}
