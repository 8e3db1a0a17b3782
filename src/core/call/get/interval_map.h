/* interval_map: which hosts hold which intervals of sharding keys.
 *
 * The caller lists the hosts, with the data center of each; what they hold is learned from their
 * answers to Gets and to pings. The one idea: requests are numbered as they are sent, and an answer
 * counts only if its request is newer than the last one that counted. So an old answer can't undo a
 * newer one, however late it arrives, and no clock is needed.
 *
 * A host *claims* any number of intervals, each under an epoch. A *shard* here is an interval of
 * one dc. It remembers the highest epoch that was ever seen for it, also after its holder has left:
 * a claim with a lower epoch is *stale*, and its host is not a replica of the shard. Hosts that
 * hold it under the same epoch are all its replicas; 0 means no epoch is known, and is lower than
 * any other.
 *
 * While a dc is re-sharded its hosts hold intervals that overlap or leave holes; other dcs still
 * have the old ones. So a key's replicas are all the hosts with an interval that has it, and the
 * keys with the same replicas have the same *route*: that is what a lookup gives, for many keys at
 * once.
 *
 * Invariants: an id is never given to another host. Every replica of a route holds all the keys
 * that have the route. Nothing is remembered beyond the bounds: of shards without a host the one
 * updated longest ago is forgotten. */
#pragma once

#include <rota/error.h>
#include <rota/experimental/interval.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROTA_INTERVAL_HOSTS_MAX = 4096,
    ROTA_INTERVAL_TEXT_MAX = 1024,    /* bytes of an address, of a dc's name */
    ROTA_INTERVAL_CLAIMS_MAX = 1024,  /* of one host; an answer with more teaches nothing */
    ROTA_INTERVAL_SHARDS_MAX = 65536, /* whose epochs are remembered */
    ROTA_INTERVAL_MODULI_MAX = 8, /* different `of` at a time; hosts of others are not replicas */
    ROTA_INTERVAL_REPLICAS_MAX = 32, /* of one key; more are left out */
    ROTA_INTERVAL_KEYS_MAX = 65536,  /* of one lookup */
    ROTA_INTERVAL_FAILURES = 3,      /* in a row, after which a host is not live */
};

/* A host as the caller lists it. */
struct rota_interval_member {
    struct rota_str address, dc;
};

/* A host as the map knows it. */
struct rota_interval_host {
    uint64_t id; /* which a balancer uses, too */
    struct rota_str address, dc;

    const struct rota_interval_claim *claims; /* none: it has not answered yet, or holds nothing */
    size_t n_claims;
    size_t n_replicas;  /* of these, the claims on what no host has under a later epoch */
    uint64_t epoch;     /* the highest of those */
    uint64_t taught_by; /* number of the request whose answer counted last; 0: none */
    uint64_t lesson;    /* changes whenever any of this does */
    bool is_live;       /* it has not failed ROTA_INTERVAL_FAILURES times in a row */
    uint32_t n_failures;
};

/* What an answer says about its host. */
struct rota_interval_lesson {
    uint64_t number;                          /* of the request, from rota_interval_map_number() */
    const struct rota_interval_claim *claims; /* all that it holds */
    size_t n_claims;
};

enum rota_interval_learned {
    ROTA_INTERVAL_NOTHING, /* it is known, or older than what is known, or not intervals */
    ROTA_INTERVAL_GONE,    /* the host is no longer listed: ignore the answer */
    ROTA_INTERVAL_NEW,     /* the map has changed */
    ROTA_INTERVAL_STALE,   /* one of the shards was seen under a later epoch: ignore the answer for
                              its keys */
};

struct rota_interval_map;

/* `seed` guards the tables against chosen names. Gives `*map`;
 * rota_interval_map_free() ends it and accepts NULL. */
enum rota_code rota_interval_map_new(uint64_t seed, struct rota_interval_map **map,
                                     struct rota_error *error);
void rota_interval_map_free(struct rota_interval_map *map);

/* These are the hosts now: new ones are added, those that are not listed are removed, and the
 * others keep what is known about them, unless their dc changed. Of an address that is listed twice
 * the first counts. ROTA_ERR_LIMIT, ROTA_ERR_INVALID (an address that is empty or too long, a dc
 * that is too long) or ROTA_ERR_NO_MEMORY: nothing has changed. */
enum rota_code rota_interval_map_set_hosts(struct rota_interval_map *map,
                                           const struct rota_interval_member *members, size_t n,
                                           struct rota_error *error);

/* The next number for a request. Never 0, never twice. */
uint64_t rota_interval_map_number(struct rota_interval_map *map);

/* The host has answered. An answer also shows that it is live. A stale claim changes nothing
 * about its shard, but the host is not a replica of it. */
enum rota_interval_learned rota_interval_map_learn(struct rota_interval_map *map, uint64_t host,
                                                   const struct rota_interval_lesson *lesson);

/* The host was unreachable or did not answer in time. Its next answer shows that it is live
 * again. */
void rota_interval_map_failed(struct rota_interval_map *map, uint64_t host);

/* --- lookups --- */

/* The route of each key, 0 when no host holds it. Routes are valid until the map changes or the
 * next lookup. False when there is no memory. In the steady state nothing is allocated. n <=
 * ROTA_INTERVAL_KEYS_MAX. */
bool rota_interval_map_lookup(struct rota_interval_map *map, const uint64_t *keys, size_t n,
                              uint32_t *routes);

/* The replicas of a route, live or not; none for route 0. */
struct rota_interval_replicas {
    const struct rota_interval_host *const *items;
    size_t n;
};
struct rota_interval_replicas rota_interval_map_replicas(const struct rota_interval_map *map,
                                                         uint32_t route);

/* One more than the highest route that lookups have returned. */
uint32_t rota_interval_map_n_routes(const struct rota_interval_map *map);

/* --- inspection --- */

/* Changes whenever a lookup may return another result, or a host is live again: Gets that wait
 * are notified then. */
uint64_t rota_interval_map_version(const struct rota_interval_map *map);

/* A host by its id, NULL when it was removed; and all of them, for pings, in the order of the
 * list. Valid until the hosts are set again. */
const struct rota_interval_host *rota_interval_map_find(const struct rota_interval_map *map,
                                                        uint64_t host);
size_t rota_interval_map_n_hosts(const struct rota_interval_map *map);
const struct rota_interval_host *rota_interval_map_host(const struct rota_interval_map *map,
                                                        size_t index);

/* The first of the claims that has the sharding key; NULL: none. */
static inline const struct rota_interval_claim *rota_interval_find_claim(
    const struct rota_interval_claim *claims, size_t n, uint64_t sharding_key)
{
    uint64_t of = 0, key = sharding_key;
    for (size_t i = 0; i < n; i++) {
        const struct rota_interval *interval = &claims[i].interval;
        if (interval->of != of) { /* mostly all are of the same number */
            of = interval->of;
            key = of ? sharding_key % of : sharding_key;
        }
        if (key >= interval->from && (key < interval->to || interval->to == 0))
            return &claims[i];
    }
    return NULL;
}

/* The highest epoch seen for the shard of the dc; 0: none. */
uint64_t rota_interval_map_epoch(const struct rota_interval_map *map, struct rota_str dc,
                                 const struct rota_interval *shard);
