#include "core/call/shards/shard_map.h"

#include "base/text.h"

#include <assert.h>
#include <rota/experimental/random.h>
#include <stdlib.h>

/* A map, its channels, its replicas and their text are one piece of memory. */
struct piece {
    struct rota_shard_map map;
    struct rota_shard_channel channels[];
};

static int compare_names(const void *a, const void *b)
{
    return rota_str_compare(*(const struct rota_str *)a, *(const struct rota_str *)b);
}

/* Sorted copies, so that a hostile answer does not cost the square of its size. */
static enum rota_code check_names(const struct rota_shard_channel *channels, size_t n,
                                  struct rota_error *error)
{
    struct rota_str *names = malloc((n + 1) * sizeof *names);
    enum rota_code code = ROTA_OK;
    if (!names)
        return rota_error_no_memory(error, "for the shard map");
    for (size_t i = 0; i < n; i++)
        names[i] = channels[i].name;
    qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 1; i < n && !code; i++)
        if (rota_str_is_equal(names[i - 1], names[i]))
            code = rota_error_set(error, ROTA_ERR_INVALID, "shard map: duplicate channel %.*s",
                                  names[i].size > 100 ? 100 : (int)names[i].size, names[i].data);
    free(names);
    return code;
}

static enum rota_code check_channel(const struct rota_shard_channel *channel, size_t *n_replicas,
                                    size_t *n_bytes, struct rota_error *error)
{
    if (channel->name.size == 0 || channel->name.size > ROTA_SHARD_NAME_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "shard map: a channel name has %zu bytes; 1 to %d are allowed",
                              channel->name.size, ROTA_SHARD_NAME_MAX);
    if (channel->n_replicas > ROTA_SHARD_REPLICAS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "shard map: a channel has %zu replicas; at most %d are allowed",
                              channel->n_replicas, ROTA_SHARD_REPLICAS_MAX);
    *n_bytes += channel->name.size;
    *n_replicas += channel->n_replicas;
    for (size_t i = 0; i < channel->n_replicas; i++) {
        const struct rota_replica *replica = &channel->replicas[i];
        if (replica->address.size > ROTA_SHARD_NAME_MAX)
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "shard map: an address has %zu bytes; at most %d are allowed",
                                  replica->address.size, ROTA_SHARD_NAME_MAX);
        if (rota_shard_map_find_channel(channel, replica->node) != replica)
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "shard map: duplicate node %lld in a channel",
                                  (long long)replica->node);
        *n_bytes += replica->address.size;
    }
    return ROTA_OK;
}

enum rota_code rota_shard_map_new(int64_t collection, struct rota_str name,
                                  const struct rota_shard_channel *channels, size_t n_channels,
                                  struct rota_shard_map **map, struct rota_error *error)
{
    size_t n_replicas = 0, n_bytes = name.size;
    enum rota_code code = ROTA_OK;
    if (name.size > ROTA_SHARD_NAME_MAX)
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "shard map: the collection's name has %zu bytes; at most %d are allowed", name.size,
            ROTA_SHARD_NAME_MAX);
    if (n_channels > ROTA_SHARD_CHANNELS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "shard map: there are %zu channels; at most %d are allowed",
                              n_channels, ROTA_SHARD_CHANNELS_MAX);
    for (size_t i = 0; i < n_channels && !code; i++)
        code = check_channel(&channels[i], &n_replicas, &n_bytes, error);
    if (!code)
        code = check_names(channels, n_channels, error);
    if (code)
        return code;

    struct piece *piece = calloc(1, sizeof *piece + n_channels * sizeof *piece->channels +
                                        n_replicas * sizeof(struct rota_replica) + n_bytes);
    if (!piece)
        return rota_error_no_memory(error, "for the shard map");
    struct rota_replica *replicas = (struct rota_replica *)&piece->channels[n_channels];
    char *text = (char *)&replicas[n_replicas];
    for (size_t i = 0; i < n_channels; i++) {
        const struct rota_shard_channel *from = &channels[i];
        piece->channels[i] = (struct rota_shard_channel){
            .name = rota_text_put(&text, from->name),
            .replicas = replicas,
            .n_replicas = from->n_replicas,
        };
        for (size_t j = 0; j < from->n_replicas; j++) {
            *replicas = from->replicas[j];
            replicas++->address = rota_text_put(&text, from->replicas[j].address);
        }
    }
    piece->map = (struct rota_shard_map){
        .collection = collection,
        .name = rota_text_put(&text, name),
        .n_shares = 1,
        .n_channels = n_channels,
        .channels = piece->channels,
    };
    *map = &piece->map;
    return ROTA_OK;
}

struct rota_shard_map *rota_shard_map_share(struct rota_shard_map *map)
{
    if (map)
        map->n_shares++;
    return map;
}

void rota_shard_map_drop(struct rota_shard_map *map)
{
    if (!map)
        return;
    assert(map->n_shares > 0);
    if (--map->n_shares == 0)
        free(map);
}

const struct rota_shard_channel *rota_shard_map_find(const struct rota_shard_map *map,
                                                     struct rota_str channel)
{
    for (size_t i = 0; i < map->n_channels; i++)
        if (rota_str_is_equal(map->channels[i].name, channel))
            return &map->channels[i];
    return NULL;
}

const struct rota_replica *rota_shard_map_find_channel(const struct rota_shard_channel *channel,
                                                       int64_t node)
{
    for (size_t i = 0; i < channel->n_replicas; i++)
        if (channel->replicas[i].node == node)
            return &channel->replicas[i];
    return NULL;
}

/* The replicas of `channel` with the claim among them, into `replicas`. */
static size_t merge_claim(const struct rota_shard_channel *channel, int64_t refused_by,
                          const struct rota_replica *claim, struct rota_replica *replicas)
{
    size_t n = 0;
    bool is_placed = false;
    for (size_t i = 0; i < channel->n_replicas; i++) {
        const struct rota_replica *replica = &channel->replicas[i];
        if (replica->node == claim->node ||
            (replica->node == refused_by && !rota_shard_map_find_channel(channel, claim->node))) {
            replicas[n++] = *claim;
            is_placed = true;
        } else if (replica->node != refused_by) {
            replicas[n++] = *replica;
        }
    }
    if (!is_placed && n < ROTA_SHARD_REPLICAS_MAX)
        replicas[n++] = *claim;
    return n;
}

enum rota_code rota_shard_map_apply(const struct rota_shard_map *map, struct rota_str channel,
                                    int64_t refused_by, const struct rota_replica *claim,
                                    struct rota_shard_map **applied, struct rota_error *error)
{
    const struct rota_shard_channel *old = rota_shard_map_find(map, channel);
    if (!old)
        return rota_error_set(error, ROTA_ERR_NOT_FOUND, "shard map: claim on an unknown channel");
    const struct rota_replica *refuser = rota_shard_map_find_channel(old, refused_by);
    const struct rota_replica *known = rota_shard_map_find_channel(old, claim->node);
    if ((refuser && claim->epoch <= refuser->epoch) || (known && claim->epoch < known->epoch))
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "shard map: the claim of epoch %llu is not newer than the current one",
            (unsigned long long)claim->epoch);

    struct rota_replica replicas[ROTA_SHARD_REPLICAS_MAX];
    struct rota_shard_channel *channels = malloc(map->n_channels * sizeof *channels);
    if (!channels)
        return rota_error_no_memory(error, "for the shard map");
    memcpy(channels, map->channels, map->n_channels * sizeof *channels);
    struct rota_shard_channel *changed = &channels[old - map->channels];
    changed->n_replicas = merge_claim(old, refused_by, claim, replicas);
    changed->replicas = replicas;
    enum rota_code code =
        rota_shard_map_new(map->collection, map->name, channels, map->n_channels, applied, error);
    free(channels);
    return code;
}

static void swap_replicas(struct rota_replica *a, struct rota_replica *b)
{
    struct rota_replica moved = *a;
    *a = *b;
    *b = moved;
}

static void shuffle_replicas(struct rota_replica *replicas, size_t n, uint64_t turn,
                             struct rota_random *random)
{
    if (n == 0)
        return;
    swap_replicas(&replicas[0], &replicas[turn % n]);
    for (size_t i = n - 1; i > 1; i--)
        swap_replicas(&replicas[i], &replicas[1 + rota_random_below(random, i)]);
}

enum rota_code rota_shard_map_shuffle(const struct rota_shard_map *map, uint64_t turn,
                                      struct rota_random *random, struct rota_shard_map **shuffled,
                                      struct rota_error *error)
{
    enum rota_code code = rota_shard_map_new(map->collection, map->name, map->channels,
                                             map->n_channels, shuffled, error);
    if (code)
        return code;
    (*shuffled)->version = map->version;
    for (size_t i = 0; i < map->n_channels; i++) { /* there is no other reference yet */
        const struct rota_shard_channel *channel = &(*shuffled)->channels[i];
        shuffle_replicas((struct rota_replica *)channel->replicas, channel->n_replicas, turn,
                         random);
    }
    return ROTA_OK;
}
