/* space_table: a client's map of a space, from the updates of a directory.
 *
 * A snapshot is put together aside while the last whole map stays in use; changes are applied in
 * place. What a directory sends is checked: numbers out of their range, a claim of an unknown
 * node, or too much of anything end the update, and the next one has to be a snapshot.
 *
 * A server that rejects a call may name the current claim, which the directory does not know yet.
 * It is *learned*: it counts until the directory has one that is not older, or for a while, so
 * that a wrong one does no lasting harm.
 *
 * Invariant: what is in use is a whole map, whatever was sent since. */
#pragma once

#include "base/arena.h"
#include "base/map.h"
#include "base/vector.h"

#include <rota/error.h>
#include <rota/experimental/shard.h>
#include <rota/space.h>
#include <rota/time.h>

enum {
    ROTA_SPACE_TABLE_ZONES_MAX = 16,
    ROTA_SPACE_TABLE_LEARNED_MAX = 4096, /* claims from rejections */
};

#define ROTA_SPACE_TABLE_LEARNED_FOR (10 * ROTA_SEC)

/* The claim on a shard in one zone. */
struct rota_space_table_claim {
    uint64_t epoch;
    uint32_t owner; /* the number of the node plus one; 0: none */
    bool is_moving;
};

struct rota_space_table_zone {
    char *name;
    struct rota_space_table_claim *claims; /* by shard */
};

/* A map, whole or not. */
struct rota_space_table_side {
    uint32_t n_shards;
    ROTA_VECTOR(char *) nodes; /* their addresses; NULL: not sent */
    struct rota_space_table_zone zones[ROTA_SPACE_TABLE_ZONES_MAX];
    size_t n_zones;
};

struct rota_space_table {
    struct rota_space_table_side now, next; /* next: a snapshot that is not whole */
    bool is_known, is_in_snapshot;
    uint64_t history, version; /* of what is in use; 0: start with a snapshot */
    uint64_t n_updates;        /* of what is in use: grows with each */
    struct rota_map learned;   /* by shard */
    char engine[32];
};

/* The head of an update; the fields of SpaceUpdate. */
struct rota_space_table_head {
    uint64_t history, version;
    bool is_snapshot, is_whole;
    struct rota_str engine;
    uint64_t n_shards;
};

void rota_space_table_init(struct rota_space_table *table, uint64_t seed);
void rota_space_table_deinit(struct rota_space_table *table);

/* An update: begin, its nodes and claims, end. After an error of one of these call _abort(). The
 * owner is a number plus one, 0 for none. */
enum rota_code rota_space_table_begin(struct rota_space_table *table,
                                      const struct rota_space_table_head *head,
                                      struct rota_error *error);
enum rota_code rota_space_table_node(struct rota_space_table *table, uint64_t number,
                                     struct rota_str address, struct rota_error *error);
enum rota_code rota_space_table_zone(struct rota_space_table *table, struct rota_str name,
                                     size_t *zone, struct rota_error *error);
enum rota_code rota_space_table_claim(struct rota_space_table *table, size_t zone, uint32_t shard,
                                      const struct rota_space_table_claim *claim,
                                      struct rota_error *error);
enum rota_code rota_space_table_end(struct rota_space_table *table,
                                    const struct rota_space_table_head *head,
                                    struct rota_error *error);
void rota_space_table_abort(struct rota_space_table *table);

/* The watch has ended: a snapshot that is not whole is dropped, the rest stays. */
void rota_space_table_pause(struct rota_space_table *table);

/* A rejection named this claim. False: what is known is not older. */
bool rota_space_table_learn(struct rota_space_table *table, rota_time now, uint32_t shard,
                            const struct rota_replica *claim);

/* A replica of a shard, as it is to be called. */
struct rota_space_table_replica {
    struct rota_str address; /* borrowed until the next update */
    struct rota_str zone;
    uint64_t epoch;
    bool is_learned;
};

/* What is known about a shard. */
struct rota_space_table_shard {
    struct rota_space_table_replica replicas[ROTA_SPACE_TABLE_ZONES_MAX];
    size_t n_replicas; /* that can be called */
    bool is_moving;    /* one is moving to a new owner */
};

/* False when there is no such shard, or no map yet. */
bool rota_space_table_look(struct rota_space_table *table, rota_time now, uint32_t shard,
                           bool with_learned, struct rota_space_table_shard *result);
