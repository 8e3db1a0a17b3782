#include "core/call/shards/shard_cache.h"

#include "core/call/shards/shard_flights.h"
#include "core/call/shards/shard_table.h"

#include <assert.h>
#include <stdlib.h>

struct waiter {
    struct rota_heap_node node; /* first; `at` is its deadline */
    uint64_t number;
    uint32_t n_questions;       /* that never answered it, and it had no deadline */
    struct rota_list_node link; /* of the flight's, then of those to be answered */
    enum rota_failure failure;
    struct rota_shard_map *map;
};

struct rota_shard_cache {
    struct rota_shard_cache_options options;
    struct rota_shard_table table;
    uint64_t version; /* of the last map */
    struct rota_shard_flights flights;
    struct rota_map by_waiter;
    struct rota_heap waiters;
    struct rota_list_node asks, forgets, tells;

    struct rota_shard_stats stats;
};

static rota_time or_default(rota_time span, rota_time normal)
{
    return span > 0 ? span : normal;
}

enum rota_code rota_shard_cache_new(const struct rota_shard_cache_options *options,
                                    struct rota_shard_cache **cache, struct rota_error *error)
{
    struct rota_shard_cache *c = calloc(1, sizeof *c);
    if (!c)
        return rota_error_no_memory(error, "for the shard cache");
    c->options = (struct rota_shard_cache_options){
        .ttl = or_default(options->ttl, ROTA_SHARD_TTL),
        .idle = or_default(options->idle, ROTA_SHARD_IDLE),
        .flight_timeout = or_default(options->flight_timeout, ROTA_SHARD_FLIGHT_TIMEOUT),
        .refresh_gap = or_default(options->refresh_gap, ROTA_SHARD_REFRESH_GAP),
    };
    rota_shard_table_init(&c->table, options->seed, ROTA_SHARD_COLLECTIONS_MAX,
                          ROTA_SHARD_NAMES_MAX);
    rota_shard_flights_init(&c->flights, options->seed, c->options.flight_timeout);
    rota_map_init(&c->by_waiter, options->seed);
    rota_list_init(&c->asks);
    rota_list_init(&c->forgets);
    rota_list_init(&c->tells);
    *cache = c;
    return ROTA_OK;
}

static void waiter_free(struct rota_shard_cache *cache, struct waiter *waiter)
{
    rota_map_remove(&cache->by_waiter, rota_str_of(&waiter->number, sizeof waiter->number));
    rota_heap_remove(&cache->waiters, &waiter->node);
    rota_list_remove(&waiter->link);
    rota_shard_map_drop(waiter->map);
    free(waiter);
}

void rota_shard_cache_free(struct rota_shard_cache *cache)
{
    if (!cache)
        return;
    const struct rota_map_entry *entry;
    size_t place = 0;
    while ((entry = rota_map_next(&cache->by_waiter, &place))) {
        struct waiter *waiter = entry->value;
        rota_shard_map_drop(waiter->map);
        free(waiter);
    }
    ROTA_LIST_EACH (flight, &cache->forgets, struct rota_shard_flight, todo)
        free(flight);
    rota_map_deinit(&cache->by_waiter);
    rota_heap_deinit(&cache->waiters);
    rota_shard_flights_deinit(&cache->flights);
    rota_shard_table_deinit(&cache->table);
    free(cache);
}

/* --- flights --- */

static struct rota_shard_flight *begin_flight(struct rota_shard_cache *cache, rota_time now,
                                              bool is_forced, int64_t collection,
                                              struct rota_str database, struct rota_str name)
{
    struct rota_shard_flight *flight =
        rota_shard_flights_begin(&cache->flights, now, is_forced, collection, database, name);
    if (!flight)
        return NULL;
    rota_list_push(&cache->asks, &flight->todo);
    cache->stats.n_flights++;
    return flight;
}

/* The flight whose answer suffices for such a query, or NULL. A forced one is newer, so it
 * suffices for all. */
static struct rota_shard_flight *join_flight(const struct rota_shard_cache *cache,
                                             const struct rota_shard_query *query)
{
    struct rota_shard_flight *flight = rota_shard_flights_find(
        &cache->flights, true, query->collection, query->database, query->name);
    if (!flight && query->with_cache)
        flight = rota_shard_flights_find(&cache->flights, false, query->collection, query->database,
                                         query->name);
    return flight;
}

/* Ask for the next map of what was last asked for at `*asked_at`, unless a flight does or did so
 * just now. */
static void refresh_map(struct rota_shard_cache *cache, rota_time now, rota_time *asked_at,
                        int64_t collection, struct rota_str database, struct rota_str name)
{
    if (now < rota_time_add(*asked_at, cache->options.refresh_gap))
        return;
    if (rota_shard_flights_find(&cache->flights, false, collection, database, name) ||
        rota_shard_flights_find(&cache->flights, true, collection, database, name))
        return;
    if (begin_flight(cache, now, false, collection, database, name))
        *asked_at = now;
}

/* --- reading --- */

static enum rota_code check_query(const struct rota_shard_cache *cache,
                                  const struct rota_shard_query *query, struct rota_error *error)
{
    if (query->database.size > ROTA_SHARD_NAME_MAX || query->name.size > ROTA_SHARD_NAME_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "shard cache: a name has more than %d bytes",
                              ROTA_SHARD_NAME_MAX);
    if (query->collection == 0 && query->name.size == 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "shard cache: the collection needs an id or a name");
    if (rota_map_get(&cache->by_waiter, rota_str_of(&query->waiter, sizeof query->waiter)))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "shard cache: waiter %llu is already waiting",
                              (unsigned long long)query->waiter);
    return ROTA_OK;
}

/* Whether the entry can answer; a missing channel is looked up again, unless the map is
 * brand-new. */
static bool can_answer(const struct rota_shard_cache *cache, rota_time now,
                       const struct rota_shard_entry *entry, const struct rota_shard_query *query)
{
    if (!entry || !query->with_cache)
        return false;
    return query->channel.size == 0 || rota_shard_map_find(entry->map, query->channel) ||
           now < rota_time_add(entry->fetched_at, cache->options.refresh_gap);
}

/* A map used beyond its time to live, or that is incomplete, triggers a refresh. A collection known
 * by name is requested by name: the name may lead to another collection by now. */
static void refresh_old(struct rota_shard_cache *cache, rota_time now,
                        struct rota_shard_entry *entry, struct rota_shard_name *name,
                        const struct rota_shard_query *query)
{
    rota_time fetched_at = name ? name->fetched_at : entry->fetched_at;
    if (!entry->is_incomplete && now < rota_time_add(fetched_at, cache->options.ttl))
        return;
    refresh_map(cache, now, name ? &name->asked_at : &entry->asked_at, name ? 0 : entry->collection,
                query->database, query->name);
}

static enum rota_code add_waiter(struct rota_shard_cache *cache, rota_time now,
                                 const struct rota_shard_query *query, struct rota_error *error)
{
    if (cache->by_waiter.size == ROTA_SHARD_WAITERS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "shard cache: more than %d waiters",
                              ROTA_SHARD_WAITERS_MAX);
    struct rota_shard_flight *flight = join_flight(cache, query);
    if (!flight && cache->flights.by_number.size == ROTA_SHARD_FLIGHTS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "shard cache: more than %d requests in flight",
                              ROTA_SHARD_FLIGHTS_MAX);

    struct waiter *waiter = calloc(1, sizeof *waiter);
    if (!waiter)
        return rota_error_no_memory(error, "for the shard cache");
    waiter->number = query->waiter;
    waiter->node.at = query->deadline > 0 ? query->deadline : ROTA_TIME_NEVER;
    waiter->node.order = query->waiter;
    if (!rota_map_put(&cache->by_waiter, rota_str_of(&waiter->number, sizeof waiter->number),
                      waiter) ||
        !rota_heap_push(&cache->waiters, &waiter->node))
        goto fail;
    if (!flight)
        flight = begin_flight(cache, now, !query->with_cache, query->collection, query->database,
                              query->name);
    if (!flight)
        goto fail;
    rota_list_push(&flight->waiters, &waiter->link);
    return ROTA_OK;

fail:
    waiter_free(cache, waiter);
    return rota_error_no_memory(error, "for the shard cache");
}

enum rota_code rota_shard_cache_get(struct rota_shard_cache *cache, rota_time now,
                                    const struct rota_shard_query *query,
                                    struct rota_shard_map **map, struct rota_error *error)
{
    enum rota_code code = check_query(cache, query, error);
    if (code)
        return code;
    struct rota_shard_name *name =
        query->collection ? NULL
                          : rota_shard_table_find_name(&cache->table, query->database, query->name);
    struct rota_shard_entry *entry =
        name ? name->entry : rota_shard_table_find(&cache->table, query->collection);
    uint64_t *reads = cache->stats.reads[query->method];

    if (can_answer(cache, now, entry, query)) {
        reads[ROTA_SHARD_HIT]++;
        rota_shard_table_touch(&cache->table, entry, now);
        refresh_old(cache, now, entry, name, query);
        *map = rota_shard_map_share(entry->map);
        return ROTA_OK;
    }
    code = add_waiter(cache, now, query, error);
    if (code)
        return code;
    reads[query->with_cache ? ROTA_SHARD_MISS : ROTA_SHARD_FORCED]++;
    *map = NULL;
    return ROTA_OK;
}

bool rota_shard_cache_cancel(struct rota_shard_cache *cache, uint64_t number)
{
    struct waiter *waiter = rota_map_get(&cache->by_waiter, rota_str_of(&number, sizeof number));
    if (!waiter)
        return false;
    waiter_free(cache, waiter);
    return true;
}

/* --- answers --- */

static void answer_waiter(struct rota_shard_cache *cache, struct waiter *waiter,
                          enum rota_failure failure, struct rota_shard_map *map)
{
    rota_heap_remove(&cache->waiters, &waiter->node);
    rota_list_remove(&waiter->link);
    waiter->failure = failure;
    waiter->map = rota_shard_map_share(map);
    rota_list_push(&cache->tells, &waiter->link);
}

static void answer_flight_waiters(struct rota_shard_cache *cache, struct rota_shard_flight *flight,
                                  enum rota_failure failure, struct rota_shard_map *map)
{
    ROTA_LIST_DRAIN (waiter, &flight->waiters, struct waiter, link)
        answer_waiter(cache, waiter, failure, map);
}

/* Put `map`, to which the caller keeps its reference, in place. False when there is no memory:
 * then the old one stays. */
static bool place_map(struct rota_shard_cache *cache, rota_time now,
                      struct rota_shard_flight *flight, struct rota_shard_map *map)
{
    struct rota_shard_entry *entry = rota_shard_table_add(
        &cache->table, now, rota_shard_flight_database(flight), map->collection);
    if (!entry)
        return false;
    if (!rota_shard_table_set_map(&cache->table, entry, rota_shard_map_share(map))) {
        rota_shard_map_drop(map);
        if (!entry->map)
            rota_shard_table_remove(&cache->table, entry);
        return false;
    }
    map->version = ++cache->version;
    entry->flight = flight->number;
    entry->fetched_at = entry->asked_at = now;
    entry->is_incomplete = false;
    cache->stats.n_evicted = cache->table.n_evicted;
    if (flight->name_size > 0)
        rota_shard_table_set_name(&cache->table, entry, rota_shard_flight_database(flight),
                                  rota_shard_flight_name(flight));
    cache->stats.n_published++;
    rota_histogram_record(&cache->stats.update_us, (now - flight->began_at) / ROTA_USEC);
    return true;
}

/* Publish the map of the flight, if allowed; returns the map that its waiters get. */
static struct rota_shard_map *publish_map(struct rota_shard_cache *cache, rota_time now,
                                          struct rota_shard_flight *flight,
                                          struct rota_shard_map *map)
{
    const struct rota_shard_entry *entry = rota_shard_table_find(&cache->table, map->collection);
    if (rota_shard_flights_is_fenced(&cache->flights, flight, map->collection)) {
        cache->stats.n_fenced++;
        return map;
    }
    if (entry && entry->flight > flight->number) {
        cache->stats.n_fenced++;
        return entry->map; /* the map of a younger flight is better */
    }
    place_map(cache, now, flight, map);
    return map;
}

void rota_shard_cache_answered(struct rota_shard_cache *cache, rota_time now, uint64_t number,
                               enum rota_failure failure, struct rota_shard_map *map)
{
    struct rota_shard_flight *flight = rota_shard_flights_get(&cache->flights, number);
    if (!flight)
        goto out;
    if (!failure && (!map || (flight->collection && map->collection != flight->collection)))
        failure = ROTA_FAILURE_INTERNAL;
    if (failure)
        answer_flight_waiters(cache, flight, failure, NULL);
    else
        answer_flight_waiters(cache, flight, ROTA_FAILURE_NONE,
                              publish_map(cache, now, flight, map));
    rota_list_remove(&flight->todo);
    rota_shard_flights_end(&cache->flights, flight);
    free(flight);
out:
    rota_shard_map_drop(map);
}

void rota_shard_cache_replace(struct rota_shard_cache *cache, rota_time now,
                              struct rota_shard_map *map)
{
    struct rota_shard_entry *entry = rota_shard_table_find(&cache->table, map->collection);
    if (!entry || !rota_shard_table_set_map(&cache->table, entry, map)) {
        rota_shard_map_drop(map);
        return;
    }
    map->version = ++cache->version;
    entry->fetched_at = now;
    entry->is_incomplete = false;
    rota_shard_flights_fence_collection(&cache->flights, map->collection);
    cache->stats.n_published++;
}

/* --- dropping --- */

static void drop_entry(struct rota_shard_cache *cache, struct rota_shard_entry *entry)
{
    rota_shard_flights_fence_collection(&cache->flights, entry->collection);
    rota_shard_table_remove(&cache->table, entry);
}

void rota_shard_cache_deprecate(struct rota_shard_cache *cache, struct rota_str database,
                                struct rota_str name)
{
    if (database.size > ROTA_SHARD_NAME_MAX || name.size > ROTA_SHARD_NAME_MAX)
        return;
    const struct rota_shard_name *known = rota_shard_table_find_name(&cache->table, database, name);
    rota_shard_flights_fence(&cache->flights,
                             rota_shard_flights_find(&cache->flights, false, 0, database, name));
    rota_shard_flights_fence(&cache->flights,
                             rota_shard_flights_find(&cache->flights, true, 0, database, name));
    if (known)
        drop_entry(cache, known->entry);
}

void rota_shard_cache_invalidate(struct rota_shard_cache *cache, const int64_t *collections,
                                 size_t n_collections)
{
    for (size_t i = 0; i < n_collections; i++) {
        struct rota_shard_entry *entry = rota_shard_table_find(&cache->table, collections[i]);
        if (entry)
            drop_entry(cache, entry);
        else
            rota_shard_flights_fence_collection(&cache->flights, collections[i]);
    }
}

void rota_shard_cache_remove_database(struct rota_shard_cache *cache, struct rota_str database)
{
    struct rota_shard_entry *entry;
    rota_shard_flights_fence_database(&cache->flights, database);
    while ((entry = rota_shard_table_find_database(&cache->table, database)))
        drop_entry(cache, entry);
}

/* --- what tries report --- */

/* Put the claim into the entry's map; false when it is not newer. Flights in progress began
 * before the claim was known. A claim of a node that was listed already leaves one replica fewer:
 * nothing fails at those that are left, so only the directory can name the one that is missing. */
static bool apply_claim(struct rota_shard_cache *cache, struct rota_shard_entry *entry,
                        const struct rota_shard_report *report)
{
    struct rota_shard_map *map;
    const struct rota_shard_channel *old = rota_shard_map_find(entry->map, report->channel);
    size_t n_before = old ? old->n_replicas : 0;
    if (!report->claim ||
        rota_shard_map_apply(entry->map, report->channel, report->node, report->claim, &map, NULL))
        return false;
    if (!rota_shard_table_set_map(&cache->table, entry, map)) {
        rota_shard_map_drop(map);
        return false;
    }
    map->version = ++cache->version;
    entry->is_incomplete |= rota_shard_map_find(map, report->channel)->n_replicas < n_before;
    rota_shard_flights_fence_collection(&cache->flights, entry->collection);
    cache->stats.n_claims++;
    return true;
}

void rota_shard_cache_report(struct rota_shard_cache *cache, rota_time now,
                             const struct rota_shard_report *report)
{
    struct rota_str none = {"", 0};
    struct rota_shard_entry *entry = rota_shard_table_find(&cache->table, report->collection);
    if (!entry || entry->map->version != report->version)
        return;
    switch (rota_failure_cache_effect(report->failure)) {
    case ROTA_CACHE_KEEP:
        break;
    case ROTA_CACHE_REFRESH:
        refresh_map(cache, now, &entry->asked_at, entry->collection, none, none);
        break;
    case ROTA_CACHE_APPLY:
        if (apply_claim(cache, entry, report))
            break;
        __attribute__((fallthrough));
    case ROTA_CACHE_INVALIDATE:
        /* A map that is wrong as soon as it arrives shows that the directory lags; dropping it
         * again and again would only add load. */
        if (now >= rota_time_add(entry->fetched_at, cache->options.refresh_gap))
            drop_entry(cache, entry);
        break;
    }
}

/* --- time --- */

/* Without a deadline nothing else ends a wait for a directory that does not answer. */
static void tell_patient(struct rota_shard_cache *cache, struct rota_shard_flight *flight)
{
    ROTA_LIST_EACH (waiter, &flight->waiters, struct waiter, link) {
        if (waiter->node.at == ROTA_TIME_NEVER && ++waiter->n_questions == ROTA_SHARD_QUESTIONS_MAX)
            answer_waiter(cache, waiter, ROTA_FAILURE_TIMEOUT, NULL);
    }
}

/* The flight's waiters keep waiting for the same question, which is asked again. */
static bool ask_again(struct rota_shard_cache *cache, rota_time now,
                      const struct rota_shard_flight *flight)
{
    struct rota_str database = rota_shard_flight_database(flight),
                    name = rota_shard_flight_name(flight);
    struct rota_shard_flight *next = rota_shard_flights_find(&cache->flights, flight->is_forced,
                                                             flight->collection, database, name);
    if (!next)
        next = begin_flight(cache, now, flight->is_forced, flight->collection, database, name);
    for (struct rota_list_node *first; next && (first = rota_list_first(&flight->waiters));) {
        rota_list_remove(first);
        rota_list_push(&next->waiters, first);
    }
    return next != NULL;
}

static void time_out(struct rota_shard_cache *cache, rota_time now,
                     struct rota_shard_flight *flight)
{
    bool is_asked = !flight->todo.next;
    rota_list_remove(&flight->todo);
    rota_shard_flights_end(&cache->flights, flight);
    tell_patient(cache, flight);
    if (!rota_list_is_empty(&flight->waiters) && !ask_again(cache, now, flight))
        answer_flight_waiters(cache, flight, ROTA_FAILURE_TIMEOUT, NULL);
    if (is_asked)
        rota_list_push(&cache->forgets, &flight->todo);
    else
        free(flight);
}

void rota_shard_cache_step(struct rota_shard_cache *cache, rota_time now)
{
    struct rota_heap_node *node;
    struct rota_shard_entry *entry;
    while ((node = rota_heap_first(&cache->waiters)) && node->at <= now &&
           node->at != ROTA_TIME_NEVER)
        answer_waiter(cache, (struct waiter *)node, ROTA_FAILURE_DEADLINE, NULL);
    while ((node = rota_heap_first(&cache->flights.by_time)) && node->at <= now)
        time_out(cache, now, (struct rota_shard_flight *)node);
    while ((entry = rota_shard_table_oldest(&cache->table)) &&
           rota_time_add(entry->read_at, cache->options.idle) <= now) {
        rota_shard_table_remove(&cache->table, entry);
        cache->stats.n_evicted = ++cache->table.n_evicted;
    }
}

rota_time rota_shard_cache_deadline(const struct rota_shard_cache *cache)
{
    const struct rota_heap_node *waiter = rota_heap_first(&cache->waiters);
    const struct rota_heap_node *flight = rota_heap_first(&cache->flights.by_time);
    const struct rota_shard_entry *entry = rota_shard_table_oldest(&cache->table);
    rota_time at = ROTA_TIME_NEVER;
    if (waiter)
        at = rota_time_min(at, waiter->at);
    if (flight)
        at = rota_time_min(at, flight->at);
    if (entry)
        at = rota_time_min(at, rota_time_add(entry->read_at, cache->options.idle));
    return at;
}

bool rota_shard_cache_next(struct rota_shard_cache *cache, struct rota_shard_action *action)
{
    struct waiter *waiter = ROTA_LIST_FIRST(&cache->tells, struct waiter, link);
    struct rota_shard_flight *ask = ROTA_LIST_FIRST(&cache->asks, struct rota_shard_flight, todo),
                             *forget =
                                 ROTA_LIST_FIRST(&cache->forgets, struct rota_shard_flight, todo);
    if (waiter) {
        *action = (struct rota_shard_action){.type = ROTA_SHARD_TELL,
                                             .waiter = waiter->number,
                                             .failure = waiter->failure,
                                             .map = waiter->map};
        waiter->map = NULL; /* the caller has it */
        waiter_free(cache, waiter);
    } else if (ask) {
        *action = (struct rota_shard_action){.type = ROTA_SHARD_ASK,
                                             .flight = ask->number,
                                             .database = rota_shard_flight_database(ask),
                                             .name = rota_shard_flight_name(ask),
                                             .collection = ask->collection,
                                             .is_forced = ask->is_forced};
        rota_list_remove(&ask->todo);
    } else if (forget) {
        *action = (struct rota_shard_action){.type = ROTA_SHARD_FORGET, .flight = forget->number};
        rota_list_remove(&forget->todo);
        free(forget);
    }
    return waiter || ask || forget;
}

/* --- looking inside --- */

const struct rota_shard_map *rota_shard_cache_peek(const struct rota_shard_cache *cache,
                                                   int64_t collection)
{
    const struct rota_shard_entry *entry = rota_shard_table_find(&cache->table, collection);
    return entry ? entry->map : NULL;
}

bool rota_shard_cache_has_node(const struct rota_shard_cache *cache, int64_t node)
{
    return rota_shard_table_has_node(&cache->table, node);
}

size_t rota_shard_cache_size(const struct rota_shard_cache *cache)
{
    return cache->table.entries.size;
}

size_t rota_shard_cache_n_databases(const struct rota_shard_cache *cache)
{
    return cache->table.databases.size;
}

size_t rota_shard_cache_n_flights(const struct rota_shard_cache *cache)
{
    return cache->flights.by_number.size;
}

size_t rota_shard_cache_n_waiters(const struct rota_shard_cache *cache)
{
    return cache->by_waiter.size;
}

const struct rota_shard_stats *rota_shard_cache_stats(const struct rota_shard_cache *cache)
{
    return &cache->stats;
}
