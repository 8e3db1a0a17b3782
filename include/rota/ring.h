/* A ring: which hosts own a key, by consistent hashing.
 *
 * Every host has many points on a circle of 2^32; a key belongs to the host of the first point at
 * or after the key's hash. All processes that know the same hosts compute the same owners, without
 * communication.
 *
 * A ring is immutable. Lookups allocate nothing, take no lock, and may run on any number of threads
 * at once. A change of hosts makes a new ring from the old one; share a ring between threads with
 * rota_ring_ref().
 *
 * The layout is ringpop's: the points of a host are Fingerprint32 of its address followed by 0, 1,
 * 2, ... in decimal. Two extensions do not affect a ring that does not use them: a weight
 * multiplies a host's points, and zones make rota_ring_lookup_n() spread its answer over them. */
#pragma once

#include <rota/error.h>
#include <rota/str.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ROTA_RING_POINTS_DEFAULT = 100,     /* per host of weight 1 */
    ROTA_RING_POINTS_MAX = 10000,       /* largest value of that */
    ROTA_RING_HOSTS_MAX = 65535,        /* hosts in one ring */
    ROTA_RING_ZONES_MAX = 1024,         /* distinct zones in one ring */
    ROTA_RING_TOTAL_MAX = 64 * 1000000, /* points in one ring */
    ROTA_ADDRESS_MAX = 255,             /* bytes of an address, a zone, an identity */
    ROTA_WEIGHT_ONE = 1000,             /* weights are in thousandths */
    ROTA_WEIGHT_MIN = 10,
    ROTA_WEIGHT_MAX = 1000000,
};

struct rota_ring;

/* A host on the ring. The strings are copied. */
struct rota_ring_host {
    struct rota_str address;
    struct rota_str zone; /* empty: the zone of all hosts without one */
    /* In thousandths; 0 means ROTA_WEIGHT_ONE; ROTA_WEIGHT_MIN to ROTA_WEIGHT_MAX. */
    uint32_t weight;
    struct rota_str identity; /* empty: the address; otherwise points are of identity "#" index */
};

/* Builds a ring; a ring without hosts is valid. `points` is per host of weight 1; 0 means the
 * default. Rejects a bad or repeated address, and a weight or count out of range. Gives `*ring`;
 * release it with rota_ring_unref(). Any thread. */
enum rota_code rota_ring_new(const struct rota_ring_host *hosts, size_t n_hosts, uint32_t points,
                             struct rota_ring **ring, struct rota_error *error);

/* Builds the ring that results when the hosts `removed` (addresses) leave and the hosts `added`
 * join: equal to a fresh ring, but made by merging. A host in both lists is replaced. Adding a host
 * that is present, or removing one that is not, is an error. Gives `*next`. Any thread. */
enum rota_code rota_ring_with(const struct rota_ring *ring, const struct rota_ring_host *added,
                              size_t n_added, const struct rota_str *removed, size_t n_removed,
                              struct rota_ring **next, struct rota_error *error);

/* Add and release a reference; the last release frees the ring. rota_ring_unref() accepts NULL. Any
 * thread. */
struct rota_ring *rota_ring_ref(struct rota_ring *ring);
void rota_ring_unref(struct rota_ring *ring);

/* Hosts are numbered from 0, in the bytewise order of their addresses. */
size_t rota_ring_size(const struct rota_ring *ring);
size_t rota_ring_n_points(const struct rota_ring *ring);
size_t rota_ring_n_zones(const struct rota_ring *ring);
uint32_t rota_ring_points_per_host(const struct rota_ring *ring);

/* Host number `host`; the strings live as long as the ring. */
struct rota_ring_host rota_ring_host(const struct rota_ring *ring, uint32_t host);

/* The number of the host with this address, or ROTA_RING_NONE. */
uint32_t rota_ring_find(const struct rota_ring *ring, struct rota_str address);

#define ROTA_RING_NONE UINT32_MAX /* no such host, or the ring is empty */

/* The hash that places keys: FarmHash Fingerprint32. */
uint32_t rota_ring_hash(struct rota_str key);

/* The owner of a key, or of a key's hash, as a host number; ROTA_RING_NONE if the ring is empty. */
uint32_t rota_ring_lookup(const struct rota_ring *ring, struct rota_str key);
uint32_t rota_ring_lookup_hash(const struct rota_ring *ring, uint32_t hash);

/* The owners of many keys: memory accesses overlap, so each key costs less than a single lookup. */
void rota_ring_lookup_batch(const struct rota_ring *ring, const struct rota_str *keys, size_t n,
                            uint32_t *hosts);

/* Writes the first `n` distinct hosts clockwise from the key's position to `hosts`; returns how
 * many, which is less than `n` only if the ring has fewer hosts. The result for a smaller n is
 * always a prefix.
 *
 * On a ring with several zones no zone is used a second time before every zone that still has hosts
 * was used once, and so on: replicas are in distinct zones as far as possible. */
size_t rota_ring_lookup_n(const struct rota_ring *ring, struct rota_str key, size_t n,
                          uint32_t *hosts);
size_t rota_ring_lookup_n_hash(const struct rota_ring *ring, uint32_t hash, size_t n,
                               uint32_t *hosts);

/* Digests for comparing rings across machines: of the identities, and of all points in order. 0 for
 * an empty ring, and if out of memory. */
uint32_t rota_ring_hosts_checksum(const struct rota_ring *ring);
uint32_t rota_ring_points_checksum(const struct rota_ring *ring);

#ifdef __cplusplus
}
#endif
