#include "core/own/space_feed.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct rota_str NO_NAME = {"", 0};
static const struct rota_space_zones ONE_ZONE = {&NO_NAME, 1};

void rota_space_feed_init(struct rota_space_feed *feed, uint64_t seed)
{
    *feed = (struct rota_space_feed){0};
    rota_random_init(&feed->random, seed);
}

void rota_space_feed_deinit(struct rota_space_feed *feed)
{
    for (size_t i = 0; i < feed->n_zones; i++)
        free(feed->zones[i]);
    for (size_t i = 0; i < feed->nodes.size; i++)
        free(feed->nodes.items[i]);
    rota_vector_deinit(&feed->nodes);
    free(feed->claims);
    free(feed->changed);
    free(feed->changes);
    *feed = (struct rota_space_feed){0};
}

/* --- the map --- */

static bool is_same(const struct rota_space_shard *a, const struct rota_space_shard *b)
{
    return a->epoch == b->epoch && a->owner == b->owner && a->state == b->state;
}

static size_t part_of(uint32_t claim)
{
    return claim / ROTA_SPACE_FEED_PIECE;
}

static void copy_engine(struct rota_space_feed *feed, struct rota_str engine)
{
    snprintf(feed->engine, sizeof feed->engine, "%.*s", ROTA_STR_ARGS(engine));
}

/* Nodes that are new; false without memory. */
static bool copy_nodes(struct rota_space_feed *feed, const struct rota_space_map *map)
{
    while (feed->nodes.size < map->n_nodes) {
        char *copy = rota_text_copy(map->nodes[feed->nodes.size]);
        if (!copy || !rota_vector_push(&feed->nodes, copy)) {
            free(copy);
            return false;
        }
    }
    return true;
}

static bool copy_zones(struct rota_space_feed *feed, const struct rota_space_zones *zones)
{
    while (feed->n_zones < zones->n) {
        if (!(feed->zones[feed->n_zones] = rota_text_copy(zones->names[feed->n_zones])))
            return false;
        feed->n_zones++;
    }
    return true;
}

/* Other shards, zones, or nodes under the same numbers are another space: nothing from before
 * counts. */
static bool begin_history(struct rota_space_feed *feed, const struct rota_space_map *map,
                          const struct rota_space_zones *zones)
{
    uint32_t n_claims = map->n_shards * (uint32_t)zones->n;
    struct rota_space_feed made = {
        .random = feed->random,
        .version = 1,
        .n_shards = map->n_shards,
        .n_claims = n_claims,
        .capacity = n_claims > ROTA_SPACE_FEED_CHANGES_MIN ? n_claims : ROTA_SPACE_FEED_CHANGES_MIN,
    };
    made.claims = calloc(n_claims, sizeof *made.claims);
    made.changed = calloc(part_of(n_claims) + 1, sizeof *made.changed);
    made.changes = calloc(made.capacity, sizeof *made.changes);
    if (!made.claims || !made.changed || !made.changes || !copy_zones(&made, zones) ||
        !copy_nodes(&made, map)) {
        rota_space_feed_deinit(&made);
        return false;
    }
    memcpy(made.claims, map->shards, n_claims * sizeof *made.claims);
    do
        made.history = rota_random_next(&made.random);
    while (made.history == 0);
    copy_engine(&made, map->engine);
    rota_space_feed_deinit(feed);
    *feed = made;
    return true;
}

static bool is_other_space(const struct rota_space_feed *feed, const struct rota_space_map *map,
                           const struct rota_space_zones *zones)
{
    if (feed->version == 0 || feed->n_shards != map->n_shards || feed->n_zones != zones->n ||
        map->n_nodes < feed->nodes.size)
        return true;
    for (size_t i = 0; i < zones->n; i++)
        if (!rota_str_is_equal(rota_str(feed->zones[i]), zones->names[i]))
            return true;
    for (size_t i = 0; i < feed->nodes.size; i++)
        if (!rota_str_is_equal(rota_str(feed->nodes.items[i]), map->nodes[i]))
            return true;
    return false;
}

static void note_change(struct rota_space_feed *feed, uint32_t claim)
{
    feed->changes[feed->n_changes++ % feed->capacity] = (struct rota_space_feed_change){
        .version = feed->version + 1, .claim = claim, .n_nodes = (uint32_t)feed->nodes.size};
    feed->changed[part_of(claim)] = feed->n_changes;
}

bool rota_space_feed_update(struct rota_space_feed *feed, const struct rota_space_map *map,
                            const struct rota_space_zones *zones)
{
    uint64_t before = feed->n_changes;
    if (!zones)
        zones = &ONE_ZONE;
    if (map->engine.size == 0 || map->n_shards == 0 || zones->n == 0)
        return true; /* it is not known yet */
    if (is_other_space(feed, map, zones))
        return begin_history(feed, map, zones);
    bool is_other_engine = !rota_str_is_equal(rota_str(feed->engine), map->engine);
    if (!copy_nodes(feed, map))
        return false;
    for (uint32_t i = 0; i < feed->n_claims; i++) {
        if (is_same(&feed->claims[i], &map->shards[i]))
            continue;
        feed->claims[i] = map->shards[i];
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
        /* its version comes, also if nothing is new */
        .history = history,
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
    piece->n_nodes = at_most(feed->nodes.size - at.n_nodes, ROTA_SPACE_FEED_NODES);
    piece->first_claim = at.next_claim;
    piece->from = piece->to = at.position;
    if (at.n_nodes + piece->n_nodes < feed->nodes.size)
        return true; /* no claim comes before its node */
    if (at.is_in_snapshot)
        piece->n_claims = (uint32_t)at_most(feed->n_claims - at.next_claim, ROTA_SPACE_FEED_PIECE);
    else
        piece->to += at_most(feed->n_changes - at.position, ROTA_SPACE_FEED_PIECE);
    piece->is_whole = piece->to == feed->n_changes &&
                      (!at.is_in_snapshot || at.next_claim + piece->n_claims == feed->n_claims);
    return true;
}

void rota_space_feed_sent(const struct rota_space_feed *feed, struct rota_space_follower *follower,
                          const struct rota_space_piece *piece)
{
    if (piece->is_snapshot)
        *follower = (struct rota_space_follower){.history = feed->history, .is_in_snapshot = true};
    follower->n_nodes = piece->first_node + piece->n_nodes;
    follower->next_claim += piece->n_claims;
    follower->position = piece->to;
    if (follower->next_claim == feed->n_claims)
        follower->is_in_snapshot = false;
    if (piece->is_whole)
        follower->version = feed->version;
}

uint32_t rota_space_feed_claim(const struct rota_space_feed *feed, uint64_t change)
{
    return change_at(feed, change)->claim;
}
