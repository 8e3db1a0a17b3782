/* shard_flights: the questions to the directory that are in flight.
 *
 * A flight is known by its number until it ends, and by what it asks for while others may still
 * join it. Numbers grow, so of two answers the one with the higher number is the newer question's.
 *
 * A fenced flight continues for its waiters, but no other waiter joins it and its answer is not
 * kept. A flight by name can also be fenced by the id that it turns out to bring: such fences
 * are remembered while there is a flight by name. */
#pragma once

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/vector.h"

struct rota_shard_flight {
    struct rota_heap_node node; /* first; `at` is when it times out */
    uint64_t number;
    int64_t collection; /* 0: asked by name */
    bool is_forced, is_fenced;
    rota_time began_at;
    struct rota_list_node waiters; /* the cache's */
    struct rota_list_node todo;    /* the cache's: to be asked or forgotten */
    size_t database_size, name_size, key_size;
    char text[]; /* the database, the name, the key */
};

/* No flight by name up to `number` may bring the collection. */
struct rota_shard_fence {
    int64_t collection;
    uint64_t number;
};

struct rota_shard_flights {
    struct rota_map by_number, by_key;
    struct rota_heap by_time;
    ROTA_VECTOR(struct rota_shard_fence) fences;
    size_t n_named;
    uint64_t number; /* of the last flight */
    rota_time timeout;
};

void rota_shard_flights_init(struct rota_shard_flights *flights, uint64_t seed, rota_time timeout);
void rota_shard_flights_deinit(struct rota_shard_flights *flights);

/* The flight that can be joined for this, or the one with this number; NULL. */
struct rota_shard_flight *rota_shard_flights_find(const struct rota_shard_flights *flights,
                                                  bool is_forced, int64_t collection,
                                                  struct rota_str database, struct rota_str name);
struct rota_shard_flight *rota_shard_flights_get(const struct rota_shard_flights *flights,
                                                 uint64_t number);

/* Begin a new flight; NULL at the bound or without memory. */
struct rota_shard_flight *rota_shard_flights_begin(struct rota_shard_flights *flights,
                                                   rota_time now, bool is_forced,
                                                   int64_t collection, struct rota_str database,
                                                   struct rota_str name);

/* The flight has ended. Gives it to the caller, who frees it. */
void rota_shard_flights_end(struct rota_shard_flights *flights, struct rota_shard_flight *flight);

/* Fence one flight, which may be NULL; all that may bring a collection; all that asked about a
 * database. */
void rota_shard_flights_fence(struct rota_shard_flights *flights, struct rota_shard_flight *flight);
void rota_shard_flights_fence_collection(struct rota_shard_flights *flights, int64_t collection);
void rota_shard_flights_fence_database(struct rota_shard_flights *flights,
                                       struct rota_str database);

/* Whether the flight must not bring the collection. */
bool rota_shard_flights_is_fenced(const struct rota_shard_flights *flights,
                                  const struct rota_shard_flight *flight, int64_t collection);

static inline struct rota_str rota_shard_flight_database(const struct rota_shard_flight *flight)
{
    return rota_str_of(flight->text, flight->database_size);
}

static inline struct rota_str rota_shard_flight_name(const struct rota_shard_flight *flight)
{
    return rota_str_of(flight->text + flight->database_size, flight->name_size);
}
