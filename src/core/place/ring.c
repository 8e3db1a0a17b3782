#include <rota/ring.h>

#include "base/buffer.h"
#include "base/decimal.h"
#include "base/hash.h"
#include "core/place/ring_inside.h"

#include <stdlib.h>

/* --- questions --- */

size_t rota_ring_size(const struct rota_ring *ring)
{
    return ring->n_hosts;
}

size_t rota_ring_n_points(const struct rota_ring *ring)
{
    return ring->n_points;
}

size_t rota_ring_n_zones(const struct rota_ring *ring)
{
    return ring->n_zones;
}

uint32_t rota_ring_points_per_host(const struct rota_ring *ring)
{
    return ring->points_per_host;
}

struct rota_ring_host rota_ring_host(const struct rota_ring *ring, uint32_t host)
{
    const struct rota_ring_entry *h = &ring->hosts[host];
    return (struct rota_ring_host){
        .address = h->address, .zone = h->zone, .weight = h->weight, .identity = h->identity};
}

uint32_t rota_ring_find(const struct rota_ring *ring, struct rota_str address)
{
    uint32_t from = 0, to = ring->n_hosts;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        int order = rota_str_compare(ring->hosts[middle].address, address);
        if (order == 0)
            return middle;
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return ROTA_RING_NONE;
}

const struct rota_ring_point *rota_ring_points(const struct rota_ring *ring)
{
    return ring->points;
}

uint32_t rota_ring_max_weight(const struct rota_ring *ring)
{
    return ring->max_weight;
}

uint32_t rota_ring_hash(struct rota_str key)
{
    return rota_hash_farm32(key);
}

uint32_t rota_ring_lookup_hash(const struct rota_ring *ring, uint32_t hash)
{
    return ring->points[rota_ring_seek(ring, hash)].host;
}

uint32_t rota_ring_lookup(const struct rota_ring *ring, struct rota_str key)
{
    return rota_ring_lookup_hash(ring, rota_hash_farm32(key));
}

enum { GROUP = 16 }; /* how many waits for memory overlap */

static void seek_group(const struct rota_ring *ring, const uint32_t *hashes, size_t n, uint32_t *at)
{
    for (size_t i = 0; i < n; i++)
        __builtin_prefetch(&ring->starts[hashes[i] >> ring->shift]);
    for (size_t i = 0; i < n; i++)
        __builtin_prefetch(&ring->points[ring->starts[hashes[i] >> ring->shift]]);
    for (size_t i = 0; i < n; i++)
        at[i] = (uint32_t)rota_ring_seek(ring, hashes[i]);
}

void rota_ring_seek_many(const struct rota_ring *ring, const uint32_t *hashes, size_t n,
                         uint32_t *at)
{
    for (size_t first = 0; first < n; first += GROUP)
        seek_group(ring, hashes + first, n - first < GROUP ? n - first : GROUP, at + first);
}

void rota_ring_lookup_batch(const struct rota_ring *ring, const struct rota_str *keys, size_t n,
                            uint32_t *hosts)
{
    uint32_t hashes[GROUP], at[GROUP];
    for (size_t first = 0; first < n; first += GROUP) {
        size_t size = n - first < GROUP ? n - first : GROUP;
        for (size_t i = 0; i < size; i++)
            hashes[i] = rota_hash_farm32(keys[first + i]);
        seek_group(ring, hashes, size, at);
        for (size_t i = 0; i < size; i++)
            hosts[first + i] = ring->points[at[i]].host;
    }
}

/* --- several hosts of one key --- */

/* Which hosts were already found: a scan of the answer while that is short, otherwise a bit per
 * host. */
struct seen {
    uint64_t bits[(ROTA_RING_HOSTS_MAX + 64) / 64];
};

static void seen_init(struct seen *seen, uint32_t n_hosts)
{
    memset(seen->bits, 0, (n_hosts / 64 + 1) * sizeof *seen->bits);
}

/* True the first time. */
static bool seen_add(struct seen *seen, uint32_t host)
{
    uint64_t bit = (uint64_t)1 << host % 64;
    if (seen->bits[host / 64] & bit)
        return false;
    seen->bits[host / 64] |= bit;
    return true;
}

static bool is_among(uint32_t host, const uint32_t *hosts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (hosts[i] == host)
            return true;
    return false;
}

/* A bit per host number modulo 64 spares most scans of the answer. */
static void walk_few(const struct rota_ring *ring, size_t at, size_t n, uint32_t *hosts)
{
    uint64_t maybe = 0;
    for (size_t found = 0; found < n; at++) {
        if (at >= ring->n_points)
            at = 0;
        uint32_t host = ring->points[at].host;
        uint64_t bit = (uint64_t)1 << host % 64;
        if (maybe & bit && is_among(host, hosts, found))
            continue;
        maybe |= bit;
        hosts[found++] = host;
    }
}

static void walk_many(const struct rota_ring *ring, size_t at, size_t n, uint32_t *hosts)
{
    struct seen seen;
    seen_init(&seen, ring->n_hosts);
    for (size_t found = 0; found < n; at++) {
        if (at >= ring->n_points)
            at = 0;
        uint32_t host = ring->points[at].host;
        if (seen_add(&seen, host))
            hosts[found++] = host;
    }
}

/* Round after round from the same start, each taking one new host of every zone that has one left.
 * A round knows beforehand how many it will find, so it stops as soon as it has them. */
static void walk_zones(const struct rota_ring *ring, size_t start, size_t n, uint32_t *hosts)
{
    struct seen seen;
    uint32_t used[ROTA_RING_ZONES_MAX];
    seen_init(&seen, ring->n_hosts);
    memset(used, 0, ring->n_zones * sizeof *used);

    size_t found = 0;
    for (uint32_t round = 0; found < n; round++) {
        size_t left = 0;
        for (uint32_t zone = 0; zone < ring->n_zones; zone++)
            left += ring->zone_sizes[zone] > round;
        for (size_t at = start; left > 0 && found < n; at++) {
            if (at >= ring->n_points)
                at = 0;
            uint32_t host = ring->points[at].host;
            uint32_t zone = ring->hosts[host].zone_number;
            if (used[zone] == round && seen_add(&seen, host)) {
                used[zone]++;
                hosts[found++] = host;
                left--;
            }
        }
    }
}

size_t rota_ring_lookup_n_hash(const struct rota_ring *ring, uint32_t hash, size_t n,
                               uint32_t *hosts)
{
    enum { FEW = 16 };
    if (n > ring->n_hosts)
        n = ring->n_hosts;
    if (n == 0)
        return 0;

    size_t at = rota_ring_seek(ring, hash);
    if (ring->n_zones > 1 && n > 1)
        walk_zones(ring, at, n, hosts);
    else if (n <= FEW)
        walk_few(ring, at, n, hosts);
    else
        walk_many(ring, at, n, hosts);
    return n;
}

size_t rota_ring_lookup_n(const struct rota_ring *ring, struct rota_str key, size_t n,
                          uint32_t *hosts)
{
    return rota_ring_lookup_n_hash(ring, rota_hash_farm32(key), n, hosts);
}

/* --- digests --- */

static uint32_t hash_text(struct rota_buffer *text)
{
    uint32_t hash = text->failed ? 0 : rota_hash_farm32(rota_buffer_str(text));
    rota_buffer_deinit(text);
    return hash;
}

static int compare_strs(const void *a, const void *b)
{
    return rota_str_compare(*(const struct rota_str *)a, *(const struct rota_str *)b);
}

uint32_t rota_ring_hosts_checksum(const struct rota_ring *ring)
{
    struct rota_buffer text = {0};
    struct rota_str *names = calloc(ring->n_hosts + 1, sizeof *names);
    if (!names || ring->n_hosts == 0) {
        free(names);
        return 0;
    }
    for (uint32_t i = 0; i < ring->n_hosts; i++) {
        const struct rota_ring_entry *host = &ring->hosts[i];
        names[i] = host->identity.size ? host->identity : host->address;
    }
    qsort(names, ring->n_hosts, sizeof *names, compare_strs);
    for (uint32_t i = 0; i < ring->n_hosts; i++) {
        if (i > 0 && rota_str_is_equal(names[i], names[i - 1]))
            continue;
        if (i > 0)
            rota_buffer_append_char(&text, ';');
        rota_buffer_append_str(&text, names[i]);
    }
    free(names);
    return hash_text(&text);
}

uint32_t rota_ring_points_checksum(const struct rota_ring *ring)
{
    struct rota_buffer text = {0};
    if (ring->n_points == 0)
        return 0;
    for (uint32_t i = 0; i < ring->n_points; i++) {
        char number[11];
        char *end = rota_decimal_put(number, ring->points[i].hash);
        *end++ = '-';
        rota_buffer_append(&text, number, (size_t)(end - number));
        rota_buffer_append_str(&text, ring->hosts[ring->points[i].host].address);
        rota_buffer_append_char(&text, ';');
    }
    return hash_text(&text);
}
