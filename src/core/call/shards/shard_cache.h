/* shard_cache: the shard maps of many collections, and the questions to the directory for missing
 * ones.
 *
 *     get --cached--> map              get --not cached--> waits on a flight
 *     flight --answered, failed, timed out--> all waiters are answered
 *
 * Its idea: a *flight* is one question to the directory, shared by all callers that want the same
 * answer. Flights are numbered. A flight publishes its map only if it is younger than the flight of
 * the current map, and never if it was *fenced*: invalidated while in flight. So an old answer
 * can't undo a newer one, however late it arrives.
 *
 * Collections are known by id. A name only leads to an id, and is removed with its collection: an
 * alias that has moved can't answer for the old one.
 *
 * A map that is older than its time to live still serves, while one flight asks for the next: this
 * is safe because callees refuse a stale epoch, and it keeps calls going while the directory is
 * unreachable. A map that is not read is evicted.
 *
 * Actions are taken out with rota_shard_cache_next() after every other call, until there are
 * none. Time is monotonic. */
#pragma once

#include "base/histogram.h"
#include "core/call/failure.h"
#include "core/call/shards/shard_map.h"

#include <rota/time.h>

enum {
    ROTA_SHARD_COLLECTIONS_MAX = 65536, /* the least recently read makes room */
    ROTA_SHARD_NAMES_MAX = 16,          /* names of a collection; the oldest makes room */
    ROTA_SHARD_FLIGHTS_MAX = 4096,      /* one more fails with ROTA_ERR_LIMIT */
    ROTA_SHARD_WAITERS_MAX = 65536,     /* likewise */
    ROTA_SHARD_QUESTIONS_MAX =
        10, /* without success; then a waiter without a deadline gets the failure */
};

#define ROTA_SHARD_TTL            (60 * ROTA_SEC) /* after which a map is refreshed when read */
#define ROTA_SHARD_IDLE           (10 * ROTA_MIN) /* after which an unread map is evicted */
#define ROTA_SHARD_FLIGHT_TIMEOUT (10 * ROTA_SEC) /* after which the question is asked again */
#define ROTA_SHARD_REFRESH_GAP    ROTA_SEC        /* between two refreshes because of errors */

struct rota_shard_cache;

/* Zero means the default above. */
struct rota_shard_cache_options {
    uint64_t seed; /* guards the tables against chosen names */
    rota_time ttl, idle, flight_timeout, refresh_gap;
};

/* The caller's method, for the counters. */
enum rota_shard_method { ROTA_SHARD_GET_SHARD, ROTA_SHARD_GET_LEADERS };
enum { ROTA_SHARD_METHODS = 2 };

/* How a read was served. A forced one is neither hit nor miss. */
enum rota_shard_served { ROTA_SHARD_HIT, ROTA_SHARD_MISS, ROTA_SHARD_FORCED };
enum { ROTA_SHARD_SERVED = 3 };

struct rota_shard_query {
    enum rota_shard_method method;
    struct rota_str database, name;
    int64_t collection;      /* 0: known by its name alone */
    struct rota_str channel; /* empty: all of them */
    bool with_cache;         /* false: ask the directory now */
    rota_time deadline;      /* of this caller alone; 0 means none */
    uint64_t waiter;         /* the caller's number, unique among waiters */
};

enum rota_shard_action_type {
    ROTA_SHARD_ASK,    /* ask the directory about a collection */
    ROTA_SHARD_FORGET, /* the answer to this flight is no longer needed */
    ROTA_SHARD_TELL,   /* a waiter's answer */
};

struct rota_shard_action {
    enum rota_shard_action_type type;

    uint64_t flight;                /* of an ask, a forget */
    struct rota_str database, name; /* of an ask; valid until the next call */
    int64_t collection;
    bool is_forced;

    uint64_t waiter; /* of a TELL */
    enum rota_failure failure;
    struct rota_shard_map *map; /* a reference; NULL after a failure */
};

struct rota_shard_stats {
    uint64_t reads[ROTA_SHARD_METHODS][ROTA_SHARD_SERVED];
    uint64_t n_flights;              /* ever begun */
    uint64_t n_fenced;               /* whose answer was not published */
    uint64_t n_published;            /* maps put in place */
    uint64_t n_evicted;              /* unread, or to make room */
    uint64_t n_claims;               /* taken from a refusal */
    struct rota_histogram update_us; /* from the question to the published map */
};

enum rota_code rota_shard_cache_new(const struct rota_shard_cache_options *options,
                                    struct rota_shard_cache **cache, struct rota_error *error);
void rota_shard_cache_free(struct rota_shard_cache *cache); /* accepts NULL */

/* Read a map. Gives a reference in `*map`, or leaves NULL there: then the waiter is answered
 * later, exactly once, unless it is cancelled. A channel that the map does not have counts as a
 * miss, once per refresh gap. */
enum rota_code rota_shard_cache_get(struct rota_shard_cache *cache, rota_time now,
                                    const struct rota_shard_query *query,
                                    struct rota_shard_map **map, struct rota_error *error);

/* The waiter gets no answer; the flight continues for the others and for the cache. False when it
 * does not wait. */
bool rota_shard_cache_cancel(struct rota_shard_cache *cache, uint64_t waiter);

/* The directory has answered a flight with a map, to which the cache takes a reference, or with
 * a failure. An unknown flight, late or repeated, is ignored. A map of another collection than
 * requested is a failure. */
void rota_shard_cache_answered(struct rota_shard_cache *cache, rota_time now, uint64_t flight,
                               enum rota_failure failure, struct rota_shard_map *map);

/* The directory has sent a map without being asked, to which the cache takes a reference: it
 * replaces the current one, and all flights are older. Ignored for a collection that is not
 * cached. */
void rota_shard_cache_replace(struct rota_shard_cache *cache, rota_time now,
                              struct rota_shard_map *map);

/* The result of a try that was routed by `version` of the collection's map: does what
 * rota_failure_cache_effect() has for the failure. */
struct rota_shard_report {
    int64_t collection;
    uint64_t version;
    struct rota_str channel;
    int64_t node;
    enum rota_failure failure;
    const struct rota_replica *claim; /* the current one, from the refusal; or NULL */
};
void rota_shard_cache_report(struct rota_shard_cache *cache, rota_time now,
                             const struct rota_shard_report *report);

/* Drop maps, and fence the flights that may bring them back. Unknown ones are ignored. */
void rota_shard_cache_deprecate(struct rota_shard_cache *cache, struct rota_str database,
                                struct rota_str name);
void rota_shard_cache_invalidate(struct rota_shard_cache *cache, const int64_t *collections,
                                 size_t n_collections);
void rota_shard_cache_remove_database(struct rota_shard_cache *cache, struct rota_str database);

/* Let time pass: waiters and flights time out, unread maps are evicted. And when that is next
 * needed. */
void rota_shard_cache_step(struct rota_shard_cache *cache, rota_time now);
rota_time rota_shard_cache_deadline(const struct rota_shard_cache *cache);

/* The next action; false if there is none. Gives the map of a TELL. */
bool rota_shard_cache_next(struct rota_shard_cache *cache, struct rota_shard_action *action);

/* --- inspection --- */

/* The collection's map, borrowed until the next call, or NULL; does not count as a read. */
const struct rota_shard_map *rota_shard_cache_peek(const struct rota_shard_cache *cache,
                                                   int64_t collection);

/* Whether any map has the node; a table lookup, O(1). */
bool rota_shard_cache_has_node(const struct rota_shard_cache *cache, int64_t node);

size_t rota_shard_cache_size(const struct rota_shard_cache *cache);
size_t rota_shard_cache_n_databases(const struct rota_shard_cache *cache);
size_t rota_shard_cache_n_flights(const struct rota_shard_cache *cache);
size_t rota_shard_cache_n_waiters(const struct rota_shard_cache *cache);
const struct rota_shard_stats *rota_shard_cache_stats(const struct rota_shard_cache *cache);
