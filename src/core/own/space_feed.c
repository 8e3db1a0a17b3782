#include "core/own/space_feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rota_space_feed_init(struct rota_space_feed *feed, uint64_t seed)
{
    *feed = (struct rota_space_feed){0};
    rota_random_init(&feed->random, seed);
}

void rota_space_feed_deinit(struct rota_space_feed *feed)
{
    free(feed->shards);
    free(feed->changed);
    free(feed->changes);
    *feed = (struct rota_space_feed){0};
}

/* --- the map --- */

static bool is_same(const struct rota_space_shard *a, const struct rota_space_shard *b)
{
    return a->epoch == b->epoch && a->owner == b->owner && a->state == b->state;
}

static size_t part_of(uint32_t shard)
{
    return shard / ROTA_SPACE_FEED_PIECE;
}

static void copy_engine(struct rota_space_feed *feed, struct rota_str engine)
{
    snprintf(feed->engine, sizeof feed->engine, "%.*s", ROTA_STR_ARGS(engine));
}

/* Another number of shards is another space: nothing from before counts. */
static bool begin_history(struct rota_space_feed *feed, const struct rota_space_map *map)
{
    size_t capacity =
        map->n_shards > ROTA_SPACE_FEED_CHANGES_MIN ? map->n_shards : ROTA_SPACE_FEED_CHANGES_MIN;
    struct rota_space_shard *shards = calloc(map->n_shards, sizeof *shards);
    uint64_t *changed = calloc(part_of(map->n_shards) + 1, sizeof *changed);
    struct rota_space_feed_change *changes = calloc(capacity, sizeof *changes);
    if (!shards || !changed || !changes) {
        free(shards);
        free(changed);
        free(changes);
        return false;
    }
    struct rota_random random = feed->random;
    rota_space_feed_deinit(feed);
    memcpy(shards, map->shards, map->n_shards * sizeof *shards);
    *feed = (struct rota_space_feed){
        .random = random,
        .version = 1,
        .shards = shards,
        .n_shards = map->n_shards,
        .n_nodes = map->n_nodes,
        .changed = changed,
        .changes = changes,
        .capacity = capacity,
    };
    do
        feed->history = rota_random_next(&feed->random);
    while (feed->history == 0);
    copy_engine(feed, map->engine);
    return true;
}

static void note_change(struct rota_space_feed *feed, uint32_t shard)
{
    feed->changes[feed->n_changes++ % feed->capacity] = (struct rota_space_feed_change){
        .version = feed->version + 1, .shard = shard, .n_nodes = (uint32_t)feed->n_nodes};
    feed->changed[part_of(shard)] = feed->n_changes;
}

bool rota_space_feed_update(struct rota_space_feed *feed, const struct rota_space_map *map)
{
    uint64_t before = feed->n_changes;
    if (map->engine.size == 0 || map->n_shards == 0)
        return true; /* it is not known yet */
    if (feed->version == 0 || feed->n_shards != map->n_shards || map->n_nodes < feed->n_nodes)
        return begin_history(feed, map);
    bool is_other_engine = !rota_str_is_equal(rota_str(feed->engine), map->engine);
    feed->n_nodes = map->n_nodes;
    for (uint32_t i = 0; i < feed->n_shards; i++) {
        if (is_same(&feed->shards[i], &map->shards[i]))
            continue;
        feed->shards[i] = map->shards[i];
        note_change(feed, i);
    }
    copy_engine(feed, map->engine);
    feed->version += feed->n_changes != before || is_other_engine;
    return true;
}

/* --- followers --- */

static uint64_t oldest_change(const struct rota_space_feed *feed)
{
    return feed->n_changes > feed->capacity ? feed->n_changes - feed->capacity : 0;
}

static const struct rota_space_feed_change *change_at(const struct rota_space_feed *feed,
                                                      uint64_t change)
{
    return &feed->changes[change % feed->capacity];
}

void rota_space_feed_resume(const struct rota_space_feed *feed, uint64_t history, uint64_t version,
                            struct rota_space_follower *follower)
{
    uint64_t low = oldest_change(feed), high = feed->n_changes;
    *follower = (struct rota_space_follower){0};
    if (history != feed->history || version == 0 || version > feed->version)
        return;
    while (low < high) { /* the first change that is later */
        uint64_t middle = low + (high - low) / 2;
        if (change_at(feed, middle)->version > version)
            high = middle;
        else
            low = middle + 1;
    }
    if (low == oldest_change(feed) && low > 0)
        return; /* some of them may be gone */
    *follower = (struct rota_space_follower){
        .history = history,
        .version = version,
        .position = low,
        .n_nodes = low > 0 ? change_at(feed, low - 1)->n_nodes : 0,
    };
}

static bool is_behind(const struct rota_space_feed *feed,
                      const struct rota_space_follower *follower)
{
    return follower->history != feed->history || follower->position < oldest_change(feed);
}

static size_t at_most(size_t n, size_t max)
{
    return n < max ? n : max;
}

bool rota_space_feed_next(const struct rota_space_feed *feed,
                          const struct rota_space_follower *follower,
                          struct rota_space_piece *piece)
{
    struct rota_space_follower at = *follower;
    if (feed->version == 0)
        return false;
    *piece = (struct rota_space_piece){.is_snapshot = is_behind(feed, follower)};
    if (piece->is_snapshot)
        at = (struct rota_space_follower){
            .history = feed->history, .position = feed->n_changes, .is_in_snapshot = true};
    if (!at.is_in_snapshot && at.version == feed->version && at.position == feed->n_changes)
        return false;

    piece->first_node = at.n_nodes;
    piece->n_nodes = at_most(feed->n_nodes - at.n_nodes, ROTA_SPACE_FEED_NODES);
    piece->first_shard = at.next_shard;
    piece->from = piece->to = at.position;
    if (at.n_nodes + piece->n_nodes < feed->n_nodes)
        return true; /* no claim comes before its node */
    if (at.is_in_snapshot)
        piece->n_shards = (uint32_t)at_most(feed->n_shards - at.next_shard, ROTA_SPACE_FEED_PIECE);
    else
        piece->to += at_most(feed->n_changes - at.position, ROTA_SPACE_FEED_PIECE);
    piece->is_whole = piece->to == feed->n_changes &&
                      (!at.is_in_snapshot || at.next_shard + piece->n_shards == feed->n_shards);
    return true;
}

void rota_space_feed_sent(const struct rota_space_feed *feed, struct rota_space_follower *follower,
                          const struct rota_space_piece *piece)
{
    if (piece->is_snapshot)
        *follower = (struct rota_space_follower){.history = feed->history, .is_in_snapshot = true};
    follower->n_nodes = piece->first_node + piece->n_nodes;
    follower->next_shard += piece->n_shards;
    follower->position = piece->to;
    if (follower->next_shard == feed->n_shards)
        follower->is_in_snapshot = false;
    if (piece->is_whole)
        follower->version = feed->version;
}

uint32_t rota_space_feed_shard(const struct rota_space_feed *feed, uint64_t change)
{
    return change_at(feed, change)->shard;
}
