/* space_feed: the map of a space and its latest changes, for followers elsewhere.
 *
 * A shard has one claim, or one in each zone. Claims are numbered: those of the first zone by
 * shard, then those of the second.
 *
 * Every update compares the map with the last one and numbers the difference. A follower gets the
 * map in *pieces*: a snapshot in parts of equal size, which are the same for all followers, then
 * the changes since it began. Each piece has the claims at the time it is sent, so a
 * slow follower misses intermediate states, never the last one, and nothing is kept for it. The
 * changes are in a ring; a follower that has fallen out of it, or comes from another history, gets
 * a snapshot again.
 *
 * Invariant: a follower that has got a whole piece has the claims of the feed's version. */
#pragma once

#include "base/vector.h"

#include <rota/experimental/random.h>
#include <rota/space.h>

enum {
    ROTA_SPACE_FEED_PIECE = 16384,      /* claims in a piece */
    ROTA_SPACE_FEED_NODES = 4096,       /* nodes in a piece */
    ROTA_SPACE_FEED_CHANGES_MIN = 1024, /* changes in the ring: as many as claims, at least these */
    ROTA_SPACE_FEED_ZONES_MAX = 16,
    ROTA_SPACE_FEED_ENGINE_MAX = 32, /* bytes of the name of an engine, with its NUL */
};

/* Where shards have an owner in each zone: the map has n_shards of them for each. */
struct rota_space_zones {
    const struct rota_str *names;
    size_t n; /* 1 to ROTA_SPACE_FEED_ZONES_MAX */
};

struct rota_space_feed_change {
    uint64_t version;
    uint32_t claim;
    uint32_t n_nodes; /* that were known then */
};

struct rota_space_feed {
    struct rota_random random; /* for histories */
    uint64_t history, version; /* version 0: the map is not known yet */
    char engine[ROTA_SPACE_FEED_ENGINE_MAX];
    char *zones[ROTA_SPACE_FEED_ZONES_MAX];
    size_t n_zones; /* at least one, which may have no name */
    uint32_t n_shards, n_claims;
    struct rota_space_shard *claims;
    ROTA_VECTOR(char *) nodes; /* their addresses */
    uint64_t *changed;         /* of each part: the number of changes at its last one */
    struct rota_space_feed_change *changes;
    size_t capacity;
    uint64_t n_changes; /* ever; the last `capacity` of them are there */
};

/* What a follower has. */
struct rota_space_follower {
    uint64_t history, version; /* history 0: nothing */
    uint64_t position;         /* changes that it has, or is to have when the snapshot is over */
    size_t n_nodes;
    uint32_t next_claim; /* of a snapshot */
    bool is_in_snapshot;
};

/* What to send next: nodes, and a part of the snapshot or some of the changes. */
struct rota_space_piece {
    bool is_snapshot; /* it begins */
    bool is_whole;
    size_t first_node, n_nodes;
    uint32_t first_claim, n_claims;
    uint64_t from, to; /* changes */
};

void rota_space_feed_init(struct rota_space_feed *feed, uint64_t seed);
void rota_space_feed_deinit(struct rota_space_feed *feed);

/* The map as it is now, copied; `zones`: NULL if a shard has one owner. False when there is no
 * memory: then the next update has the changes. */
bool rota_space_feed_update(struct rota_space_feed *feed, const struct rota_space_map *map,
                            const struct rota_space_zones *zones);

/* A follower that has this version of this history, from an earlier feed or this one. It gets at
 * least one piece, which is empty if it has everything. */
void rota_space_feed_resume(const struct rota_space_feed *feed, uint64_t history, uint64_t version,
                            struct rota_space_follower *follower);

/* The next piece; false when the follower has everything. It counts when it is sent; the feed must
 * not be updated in between. */
bool rota_space_feed_next(const struct rota_space_feed *feed,
                          const struct rota_space_follower *follower,
                          struct rota_space_piece *piece);
void rota_space_feed_sent(const struct rota_space_feed *feed, struct rota_space_follower *follower,
                          const struct rota_space_piece *piece);

/* The claim of change number `change`, which is in a piece. */
uint32_t rota_space_feed_claim(const struct rota_space_feed *feed, uint64_t change);
