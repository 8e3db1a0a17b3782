#include "core/call/shards/shard_flights.h"

#include "core/call/shards/shard_cache.h"

#include <stdlib.h>

enum { FENCES_MAX = 1024 };

/* Forced or not, by id or by name, and then the id, or the database's size, the
 * database and the name: no two questions share a key. */
enum { KEY_HEAD = 2, KEY_MAX = KEY_HEAD + sizeof(uint32_t) + 2 * ROTA_SHARD_NAME_MAX };

void rota_shard_flights_init(struct rota_shard_flights *flights, uint64_t seed, rota_time timeout)
{
    *flights = (struct rota_shard_flights){.timeout = timeout};
    rota_map_init(&flights->by_number, seed);
    rota_map_init(&flights->by_key, seed);
}

void rota_shard_flights_deinit(struct rota_shard_flights *flights)
{
    rota_map_deinit_values(&flights->by_number);
    rota_map_deinit(&flights->by_key);
    rota_heap_deinit(&flights->by_time);
    rota_vector_deinit(&flights->fences);
}

static struct rota_str make_flight_key(bool is_forced, int64_t collection, struct rota_str database,
                                       struct rota_str name, char bytes[KEY_MAX])
{
    uint32_t size = (uint32_t)database.size;
    char *end = bytes;
    *end++ = is_forced ? 'f' : 'n';
    *end++ = collection ? 'i' : 't';
    if (collection) {
        memcpy(end, &collection, sizeof collection);
        return rota_str_of(bytes, KEY_HEAD + sizeof collection);
    }
    memcpy(end, &size, sizeof size);
    end += sizeof size;
    if (database.size > 0)
        memcpy(end, database.data, database.size);
    end += database.size;
    if (name.size > 0)
        memcpy(end, name.data, name.size);
    return rota_str_of(bytes, (size_t)(end - bytes) + name.size);
}

struct rota_shard_flight *rota_shard_flights_find(const struct rota_shard_flights *flights,
                                                  bool is_forced, int64_t collection,
                                                  struct rota_str database, struct rota_str name)
{
    char bytes[KEY_MAX];
    return rota_map_get(&flights->by_key,
                        make_flight_key(is_forced, collection, database, name, bytes));
}

struct rota_shard_flight *rota_shard_flights_get(const struct rota_shard_flights *flights,
                                                 uint64_t number)
{
    return rota_map_get(&flights->by_number, rota_str_of(&number, sizeof number));
}

static struct rota_str key_of(const struct rota_shard_flight *flight)
{
    return rota_str_of(flight->text + flight->database_size + flight->name_size, flight->key_size);
}

/* No one may join the flight from now on. */
static void close_flight(struct rota_shard_flights *flights, struct rota_shard_flight *flight)
{
    if (rota_map_get(&flights->by_key, key_of(flight)) == flight)
        rota_map_remove(&flights->by_key, key_of(flight));
}

void rota_shard_flights_end(struct rota_shard_flights *flights, struct rota_shard_flight *flight)
{
    close_flight(flights, flight);
    rota_map_remove(&flights->by_number, rota_str_of(&flight->number, sizeof flight->number));
    rota_heap_remove(&flights->by_time, &flight->node);
    flights->n_named -= flight->collection == 0;
    if (flights->n_named == 0)
        flights->fences.size = 0; /* no flight is left that they could stop */
}

static struct rota_shard_flight *flight_new(struct rota_shard_flights *flights, rota_time now,
                                            bool is_forced, int64_t collection,
                                            struct rota_str database, struct rota_str name)
{
    char bytes[KEY_MAX];
    struct rota_str key = make_flight_key(is_forced, collection, database, name, bytes);
    struct rota_shard_flight *flight =
        calloc(1, sizeof *flight + database.size + name.size + key.size);
    if (!flight)
        return NULL;
    flight->node.at = rota_time_add(now, flights->timeout);
    flight->node.order = flight->number = flights->number + 1;
    flight->collection = collection;
    flight->is_forced = is_forced;
    flight->began_at = now;
    flight->database_size = database.size;
    flight->name_size = name.size;
    flight->key_size = key.size;
    rota_list_init(&flight->waiters);
    if (database.size > 0)
        memcpy(flight->text, database.data, database.size);
    if (name.size > 0)
        memcpy(flight->text + database.size, name.data, name.size);
    memcpy(flight->text + database.size + name.size, key.data, key.size);
    return flight;
}

struct rota_shard_flight *rota_shard_flights_begin(struct rota_shard_flights *flights,
                                                   rota_time now, bool is_forced,
                                                   int64_t collection, struct rota_str database,
                                                   struct rota_str name)
{
    if (flights->by_number.size == ROTA_SHARD_FLIGHTS_MAX)
        return NULL;
    struct rota_shard_flight *flight =
        flight_new(flights, now, is_forced, collection, database, name);
    if (!flight)
        return NULL;
    struct rota_str number = rota_str_of(&flight->number, sizeof flight->number);
    if (!rota_map_put(&flights->by_number, number, flight) ||
        !rota_map_put(&flights->by_key, key_of(flight), flight) ||
        !rota_heap_push(&flights->by_time, &flight->node)) {
        rota_map_remove(&flights->by_number, number);
        rota_map_remove(&flights->by_key, key_of(flight));
        free(flight);
        return NULL;
    }
    flights->number++;
    flights->n_named += collection == 0;
    return flight;
}

void rota_shard_flights_fence(struct rota_shard_flights *flights, struct rota_shard_flight *flight)
{
    if (!flight)
        return;
    flight->is_fenced = true;
    close_flight(flights, flight);
}

static void fence_all_named(struct rota_shard_flights *flights)
{
    const struct rota_map_entry *entry;
    size_t place = 0;
    while ((entry = rota_map_next(&flights->by_number, &place))) {
        struct rota_shard_flight *flight = entry->value;
        if (flight->collection == 0)
            rota_shard_flights_fence(flights, flight);
    }
}

/* It is not yet known which collection a flight by name will bring, so these are stopped on
 * arrival; if that means to remember too much, all of them are stopped. */
void rota_shard_flights_fence_collection(struct rota_shard_flights *flights, int64_t collection)
{
    struct rota_str none = {"", 0};
    struct rota_shard_fence fence = {collection, flights->number};
    if (collection) {
        rota_shard_flights_fence(flights,
                                 rota_shard_flights_find(flights, false, collection, none, none));
        rota_shard_flights_fence(flights,
                                 rota_shard_flights_find(flights, true, collection, none, none));
    }
    if (flights->n_named == 0)
        return;
    if (flights->fences.size == FENCES_MAX || !rota_vector_push(&flights->fences, fence)) {
        fence_all_named(flights);
        flights->fences.size = 0;
    }
}

void rota_shard_flights_fence_database(struct rota_shard_flights *flights, struct rota_str database)
{
    const struct rota_map_entry *entry;
    size_t place = 0;
    while ((entry = rota_map_next(&flights->by_number, &place))) {
        struct rota_shard_flight *flight = entry->value;
        if (rota_str_is_equal(rota_shard_flight_database(flight), database))
            rota_shard_flights_fence(flights, flight);
    }
}

bool rota_shard_flights_is_fenced(const struct rota_shard_flights *flights,
                                  const struct rota_shard_flight *flight, int64_t collection)
{
    for (size_t i = 0; flight->collection == 0 && i < flights->fences.size; i++)
        if (flights->fences.items[i].collection == collection &&
            flight->number <= flights->fences.items[i].number)
            return true;
    return flight->is_fenced;
}
