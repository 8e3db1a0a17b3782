#include "core/call/blacklist.h"

#include <stdlib.h>

struct item {
    int64_t node;
    rota_time until;
};

/* The key is the collection's eight bytes and then the channel. */
struct shard {
    size_t n_items;
    struct item items[ROTA_BLACKLIST_NODES_MAX];
    size_t key_size;
    char key[];
};

enum { CHANNEL_MAX = 1024, KEY_MAX = sizeof(int64_t) + CHANNEL_MAX };

void rota_blacklist_init(struct rota_blacklist *blacklist, uint64_t seed, rota_time lasts,
                         rota_time sweep_every)
{
    *blacklist = (struct rota_blacklist){
        .lasts = lasts,
        .sweep_every = sweep_every > 0 ? sweep_every : ROTA_BLACKLIST_SWEEP,
        .sweep_at = ROTA_TIME_NEVER,
    };
    rota_map_init(&blacklist->shards, seed);
}

void rota_blacklist_deinit(struct rota_blacklist *blacklist)
{
    rota_map_deinit_values(&blacklist->shards);
    blacklist->sweep_at = ROTA_TIME_NEVER;
}

/* False for a channel that is too long to be one. */
static bool make_channel_key(int64_t collection, struct rota_str channel, char bytes[KEY_MAX],
                             struct rota_str *key)
{
    if (channel.size > CHANNEL_MAX)
        return false;
    memcpy(bytes, &collection, sizeof collection);
    if (channel.size > 0)
        memcpy(bytes + sizeof collection, channel.data, channel.size);
    *key = rota_str_of(bytes, sizeof collection + channel.size);
    return true;
}

static struct shard *find_shard(const struct rota_blacklist *blacklist, int64_t collection,
                                struct rota_str channel)
{
    char bytes[KEY_MAX];
    struct rota_str key;
    return make_channel_key(collection, channel, bytes, &key)
               ? rota_map_get(&blacklist->shards, key)
               : NULL;
}

static struct shard *find_or_add(struct rota_blacklist *blacklist, int64_t collection,
                                 struct rota_str channel)
{
    char bytes[KEY_MAX];
    struct rota_str key;
    if (!make_channel_key(collection, channel, bytes, &key))
        return NULL;
    struct shard *shard = rota_map_get(&blacklist->shards, key);
    if (shard || blacklist->shards.size == ROTA_BLACKLIST_SHARDS_MAX)
        return shard;
    shard = calloc(1, sizeof *shard + key.size);
    if (!shard)
        return NULL;
    memcpy(shard->key, key.data, key.size);
    shard->key_size = key.size;
    if (!rota_map_put(&blacklist->shards, rota_str_of(shard->key, shard->key_size), shard)) {
        free(shard);
        return NULL;
    }
    return shard;
}

/* The place of `node`, or where it may be put. */
static struct item *place_for(struct shard *shard, int64_t node)
{
    struct item *ends_first = &shard->items[0];
    for (size_t i = 0; i < shard->n_items; i++) {
        if (shard->items[i].node == node)
            return &shard->items[i];
        if (shard->items[i].until < ends_first->until)
            ends_first = &shard->items[i];
    }
    return shard->n_items < ROTA_BLACKLIST_NODES_MAX ? &shard->items[shard->n_items++] : ends_first;
}

void rota_blacklist_add(struct rota_blacklist *blacklist, rota_time now, int64_t collection,
                        struct rota_str channel, int64_t node)
{
    if (blacklist->lasts <= 0)
        return;
    struct shard *shard = find_or_add(blacklist, collection, channel);
    if (!shard)
        return;
    *place_for(shard, node) = (struct item){node, rota_time_add(now, blacklist->lasts)};
    if (blacklist->sweep_at == ROTA_TIME_NEVER)
        blacklist->sweep_at = rota_time_add(now, blacklist->sweep_every);
}

bool rota_blacklist_has(const struct rota_blacklist *blacklist, rota_time now, int64_t collection,
                        struct rota_str channel, int64_t node)
{
    const struct shard *shard = find_shard(blacklist, collection, channel);
    for (size_t i = 0; shard && i < shard->n_items; i++)
        if (shard->items[i].node == node)
            return now < shard->items[i].until;
    return false;
}

static void remove_shard(struct rota_blacklist *blacklist, struct shard *shard)
{
    rota_map_remove(&blacklist->shards, rota_str_of(shard->key, shard->key_size));
    free(shard);
}

void rota_blacklist_clear(struct rota_blacklist *blacklist, int64_t collection,
                          struct rota_str channel)
{
    struct shard *shard = find_shard(blacklist, collection, channel);
    if (shard)
        remove_shard(blacklist, shard);
}

/* Remove expired entries; true when nothing is left. */
static bool sweep_expired(struct shard *shard, rota_time now)
{
    size_t n = 0;
    for (size_t i = 0; i < shard->n_items; i++)
        if (now < shard->items[i].until)
            shard->items[n++] = shard->items[i];
    shard->n_items = n;
    return n == 0;
}

void rota_blacklist_step(struct rota_blacklist *blacklist, rota_time now)
{
    if (now < blacklist->sweep_at)
        return;
    /* A removal moves later entries back, so the place is checked again; one
     * that wraps round to a place before it waits for the next sweep. */
    for (size_t place = 0; place < blacklist->shards.capacity;) {
        struct shard *shard = blacklist->shards.entries[place].value;
        if (shard && sweep_expired(shard, now))
            remove_shard(blacklist, shard);
        else
            place++;
    }
    blacklist->sweep_at =
        blacklist->shards.size ? rota_time_add(now, blacklist->sweep_every) : ROTA_TIME_NEVER;
}

rota_time rota_blacklist_deadline(const struct rota_blacklist *blacklist)
{
    return blacklist->sweep_at;
}

size_t rota_blacklist_n_shards(const struct rota_blacklist *blacklist)
{
    return blacklist->shards.size;
}
