/* Making a ring: from hosts, or from another ring by merging; and freeing it. */
#include "base/decimal.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/quote.h"
#include "base/sort.h"
#include "base/text.h"
#include "core/place/ring_inside.h"

#include <stdlib.h>

/* --- hosts --- */

static bool is_name(struct rota_str name)
{
    return name.size > 0 && name.size <= ROTA_ADDRESS_MAX;
}

static enum rota_code check_host(const struct rota_ring_host *host, struct rota_error *error)
{
    char shown[ROTA_QUOTE_MAX];
    if (host->address.size == 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "ring: a host without an address");
    if (!is_name(host->address))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "ring: an address has %zu bytes; at most %d are allowed",
                              host->address.size, ROTA_ADDRESS_MAX);
    if (host->zone.size > ROTA_ADDRESS_MAX || host->identity.size > ROTA_ADDRESS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "ring: host %s: zone or identity longer than %d bytes",
                              rota_quote(host->address, shown), ROTA_ADDRESS_MAX);
    if (host->weight != 0 && (host->weight < ROTA_WEIGHT_MIN || host->weight > ROTA_WEIGHT_MAX))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "ring: host %s: weight %u/1000 is not within %d/1000 to %d",
                              rota_quote(host->address, shown), host->weight, ROTA_WEIGHT_MIN,
                              ROTA_WEIGHT_MAX / ROTA_WEIGHT_ONE);
    return ROTA_OK;
}

static uint32_t points_of(uint32_t points_per_host, uint32_t weight)
{
    uint64_t points = ((uint64_t)points_per_host * weight + ROTA_WEIGHT_ONE / 2) / ROTA_WEIGHT_ONE;
    return points ? (uint32_t)points : 1;
}

static int compare_hosts(const void *a, const void *b)
{
    return rota_str_compare(((const struct rota_ring_host *)a)->address,
                            ((const struct rota_ring_host *)b)->address);
}

/* Number the zones in the order in which the hosts name them. */
static enum rota_code number_zones(struct rota_ring *ring, struct rota_error *error)
{
    enum rota_code code = ROTA_ERR_NO_MEMORY;
    struct rota_map numbers; /* zone -> its entry in zone_sizes */
    rota_map_init(&numbers, 0);

    ring->zone_sizes = calloc(ROTA_RING_ZONES_MAX, sizeof *ring->zone_sizes);
    if (!ring->zone_sizes)
        goto end;
    for (uint32_t i = 0; i < ring->n_hosts; i++) {
        struct rota_ring_entry *host = &ring->hosts[i];
        uint32_t *size = NULL;
        if (i > 0 && rota_str_is_equal(host->zone, host[-1].zone)) /* most often */
            size = &ring->zone_sizes[host[-1].zone_number];
        else
            size = rota_map_get(&numbers, host->zone);
        if (!size) {
            if (ring->n_zones == ROTA_RING_ZONES_MAX) {
                code = rota_error_set(error, ROTA_ERR_LIMIT, "ring: more than %d zones",
                                      ROTA_RING_ZONES_MAX);
                goto end;
            }
            size = &ring->zone_sizes[ring->n_zones++];
            if (!rota_map_put(&numbers, host->zone, size))
                goto end;
        }
        host->zone_number = (uint32_t)(size - ring->zone_sizes);
        ++*size;
    }
    code = ROTA_OK;
end:
    rota_map_deinit(&numbers);
    return code;
}

/* Copy `hosts`, which are checked, sorted and distinct, into a new ring. */
static enum rota_code take_hosts(struct rota_ring *ring, const struct rota_ring_host *hosts,
                                 size_t n_hosts, struct rota_error *error)
{
    size_t text_size = 1;
    uint64_t n_points = 0;

    for (size_t i = 0; i < n_hosts; i++) {
        uint32_t weight = hosts[i].weight ? hosts[i].weight : ROTA_WEIGHT_ONE;
        text_size += hosts[i].address.size + hosts[i].zone.size + hosts[i].identity.size;
        n_points += points_of(ring->points_per_host, weight);
    }
    if (n_points > ROTA_RING_TOTAL_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "ring: the hosts have %llu points; at most %d are allowed",
                              (unsigned long long)n_points, ROTA_RING_TOTAL_MAX);

    ring->n_points = (uint32_t)n_points;
    ring->n_hosts = (uint32_t)n_hosts;
    ring->text = malloc(text_size);
    ring->hosts = calloc(n_hosts + 1, sizeof *ring->hosts);
    ring->points = malloc((n_points + 1) * sizeof *ring->points);
    if (!ring->text || !ring->hosts || !ring->points)
        return ROTA_ERR_NO_MEMORY;

    char *text = ring->text;
    for (size_t i = 0; i < n_hosts; i++) {
        struct rota_ring_entry *host = &ring->hosts[i];
        host->address = rota_text_put(&text, hosts[i].address);
        host->zone = rota_text_put(&text, hosts[i].zone);
        host->identity = rota_text_put(&text, hosts[i].identity);
        host->weight = hosts[i].weight ? hosts[i].weight : ROTA_WEIGHT_ONE;
        if (host->weight > ring->max_weight)
            ring->max_weight = host->weight;
    }
    return number_zones(ring, error);
}

/* --- points --- */

/* The points of one host, by index, not yet sorted; returns how many. */
static uint32_t make_points(const struct rota_ring *ring, uint32_t number,
                            struct rota_ring_point *points)
{
    const struct rota_ring_entry *host = &ring->hosts[number];
    uint32_t n = points_of(ring->points_per_host, host->weight);
    char text[ROTA_ADDRESS_MAX + 16];
    char *end = text;
    bool is_own = host->identity.size == 0 || rota_str_is_equal(host->identity, host->address);
    struct rota_str name = is_own ? host->address : host->identity;

    memcpy(end, name.data, name.size);
    end += name.size;
    if (!is_own)
        *end++ = '#';
    for (uint32_t i = 0; i < n; i++) {
        char *stop = rota_decimal_put(end, i);
        points[i].hash = rota_hash_farm32(rota_str_of(text, (size_t)(stop - text)));
        points[i].host = number;
    }
    return n;
}

static int compare_points(const void *a, const void *b)
{
    const struct rota_ring_point *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return (x->host > y->host) - (x->host < y->host);
}

/* Sort a few points, most often none or one. */
static void sort_place(struct rota_ring_point *points, size_t n)
{
    enum { FEW = 32 };
    if (n > FEW) { /* hosts chosen to collide */
        qsort(points, n, sizeof *points, compare_points);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        struct rota_ring_point point = points[i];
        size_t j = i;
        for (; j > 0 && compare_points(&points[j - 1], &point) > 0; j--)
            points[j] = points[j - 1];
        points[j] = point;
    }
}

/* Choose the size of the table and allocate it. */
static enum rota_code make_starts(struct rota_ring *ring)
{
    int bits = 1;
    while (bits < 31 && (uint32_t)1 << bits < ring->n_points)
        bits++;
    ring->shift = 32 - bits;
    ring->starts = calloc(rota_ring_n_places(ring) + 1, sizeof *ring->starts);
    return ring->starts ? ROTA_OK : ROTA_ERR_NO_MEMORY;
}

/* Fill the table by counting: the number of points before a place is where it starts. */
static void count_starts(struct rota_ring *ring, const struct rota_ring_point *points)
{
    uint32_t *starts = ring->starts;
    for (size_t i = 0; i < ring->n_points; i++)
        starts[(points[i].hash >> ring->shift) + 1]++;
    for (size_t place = 1; place <= rota_ring_n_places(ring); place++)
        starts[place] += starts[place - 1];
}

/* The point after the last one leads back to the first. */
static void close_circle(struct rota_ring *ring)
{
    uint32_t n = ring->n_points;
    uint32_t first = n ? ring->points[0].host : ROTA_RING_NONE;
    ring->points[n] = (struct rota_ring_point){UINT32_MAX, first};
}

static struct rota_ring *ring_begin(uint32_t points_per_host)
{
    struct rota_ring *ring = calloc(1, sizeof *ring);
    if (ring) {
        atomic_init(&ring->n_refs, 1);
        ring->points_per_host = points_per_host;
    }
    return ring;
}

/* Make all points and sort them by dealing them out to the places of the table:
 * count, add up, deal; each place then holds a point or two. */
static enum rota_code fill_points(struct rota_ring *ring)
{
    struct rota_ring_point *made = malloc((ring->n_points + 1) * sizeof *made);
    if (!made || make_starts(ring)) {
        free(made);
        return ROTA_ERR_NO_MEMORY;
    }
    uint32_t *starts = ring->starts;
    size_t n = 0;
    for (uint32_t i = 0; i < ring->n_hosts; i++)
        n += make_points(ring, i, made + n);

    count_starts(ring, made);
    for (size_t i = 0; i < n; i++) /* moves each start to its place's end ... */
        ring->points[starts[made[i].hash >> ring->shift]++] = made[i];
    memmove(starts + 1, starts,
            rota_ring_n_places(ring) * sizeof *starts); /* ... which is the next start */
    starts[0] = 0;
    for (size_t place = 0; place < rota_ring_n_places(ring); place++)
        sort_place(ring->points + starts[place], starts[place + 1] - starts[place]);

    free(made);
    close_circle(ring);
    return ROTA_OK;
}

/* --- from hosts --- */

/* Set the sentence for the one failure that helpers report without words. */
static enum rota_code say_no_memory(enum rota_code code, size_t n_hosts, struct rota_error *error)
{
    if (code == ROTA_ERR_NO_MEMORY)
        rota_error_set(error, code, "ring: not enough memory for %zu hosts", n_hosts);
    return code;
}

/* A checked, sorted copy of `hosts`; refuses repeated addresses. */
static enum rota_code sort_hosts(const struct rota_ring_host *hosts, size_t n,
                                 struct rota_ring_host **sorted, struct rota_error *error)
{
    enum rota_code code;
    char shown[ROTA_QUOTE_MAX];

    if (n > ROTA_RING_HOSTS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "ring: there are %zu hosts; at most %d are allowed", n,
                              ROTA_RING_HOSTS_MAX);
    struct rota_ring_host *copy = malloc((n + 1) * sizeof *copy);
    if (!copy)
        return say_no_memory(ROTA_ERR_NO_MEMORY, n, error);
    for (size_t i = 0; i < n; i++) {
        if ((code = check_host(&hosts[i], error)))
            goto fail;
        copy[i] = hosts[i];
    }
    size_t repeated = rota_sort_distinct(copy, n, sizeof *copy, compare_hosts);
    if (repeated < n) {
        code = rota_error_set(error, ROTA_ERR_INVALID, "ring: host %s is listed twice",
                              rota_quote(copy[repeated].address, shown));
        goto fail;
    }
    *sorted = copy;
    return ROTA_OK;

fail:
    free(copy);
    return code;
}

enum rota_code rota_ring_new(const struct rota_ring_host *hosts, size_t n_hosts, uint32_t points,
                             struct rota_ring **ring, struct rota_error *error)
{
    struct rota_ring_host *sorted = NULL;
    struct rota_ring *made = NULL;
    enum rota_code code;

    if (points > ROTA_RING_POINTS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "ring: there are %u points per host; at most %d are allowed", points,
                              ROTA_RING_POINTS_MAX);
    if ((code = sort_hosts(hosts, n_hosts, &sorted, error)))
        return code;

    code = ROTA_ERR_NO_MEMORY;
    if (!(made = ring_begin(points ? points : ROTA_RING_POINTS_DEFAULT)))
        goto fail;
    if ((code = take_hosts(made, sorted, n_hosts, error)))
        goto fail;
    if ((code = fill_points(made)))
        goto fail;
    free(sorted);
    *ring = made;
    return ROTA_OK;

fail:
    free(sorted);
    rota_ring_unref(made);
    return say_no_memory(code, n_hosts, error);
}

/* --- from another ring --- */

/* What happens to the hosts when a ring changes: the next list, and the new number of each old
 * host, or ROTA_RING_NONE if it leaves. */
struct change {
    struct rota_ring_host *hosts;
    size_t n_hosts;
    uint32_t *new_numbers;
    uint32_t *added_numbers; /* the new numbers of the added ones, sorted */
};

static void change_deinit(struct change *change)
{
    free(change->hosts);
    free(change->new_numbers);
    free(change->added_numbers);
}

static enum rota_code plan_change(const struct rota_ring *ring, const struct rota_ring_host *added,
                                  size_t n_added, const struct rota_str *removed, size_t n_removed,
                                  struct change *change, struct rota_error *error)
{
    size_t n_old = ring->n_hosts;
    char shown[ROTA_QUOTE_MAX];

    change->hosts = calloc(n_old + n_added + 1, sizeof *change->hosts);
    change->new_numbers = calloc(n_old + 1, sizeof *change->new_numbers);
    change->added_numbers = calloc(n_added + 1, sizeof *change->added_numbers);
    if (!change->hosts || !change->new_numbers || !change->added_numbers)
        return ROTA_ERR_NO_MEMORY;

    for (size_t i = 0; i < n_removed; i++) {
        uint32_t number = rota_ring_find(ring, removed[i]);
        if (number == ROTA_RING_NONE || change->new_numbers[number] == ROTA_RING_NONE)
            return rota_error_set(error, ROTA_ERR_NOT_FOUND,
                                  "ring: cannot remove host %s: it is not on the ring",
                                  rota_quote(removed[i], shown));
        change->new_numbers[number] = ROTA_RING_NONE;
    }

    uint32_t old = 0;
    size_t fresh = 0;
    while (old < n_old || fresh < n_added) {
        struct rota_ring_host host;
        int order = old == n_old ? 1
                    : fresh == n_added
                        ? -1
                        : rota_str_compare(ring->hosts[old].address, added[fresh].address);
        if (order <= 0 && change->new_numbers[old] == ROTA_RING_NONE) {
            old++;
            continue;
        }
        if (order == 0)
            return rota_error_set(error, ROTA_ERR_INVALID, "ring: host %s is already on the ring",
                                  rota_quote(added[fresh].address, shown));
        if (order < 0) {
            host = rota_ring_host(ring, old);
            change->new_numbers[old++] = (uint32_t)change->n_hosts;
        } else {
            host = added[fresh];
            change->added_numbers[fresh++] = (uint32_t)change->n_hosts;
        }
        change->hosts[change->n_hosts++] = host;
    }
    if (change->n_hosts > ROTA_RING_HOSTS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "ring: there are %zu hosts; at most %d are allowed", change->n_hosts,
                              ROTA_RING_HOSTS_MAX);
    return ROTA_OK;
}

/* The index of the first old point, from `from` on, that stays and comes after
 * the new point, by hash and then by new number. */
static size_t count_before(const struct rota_ring *old, const struct change *change, size_t from,
                           const struct rota_ring_point *point)
{
    size_t at = rota_ring_seek(old, point->hash);
    if (at < from)
        at = from;
    while (at < old->n_points && old->points[at].hash == point->hash) {
        uint32_t number = change->new_numbers[old->points[at].host];
        if (number != ROTA_RING_NONE && number > point->host)
            break;
        at++;
    }
    return at;
}

/* Copy old points [from, to) that stay, under their new numbers, without a
 * branch for each; returns the end of what was written. */
static struct rota_ring_point *copy_points(const struct rota_ring *old, size_t from, size_t to,
                                           const uint32_t *new_numbers, struct rota_ring_point *out)
{
    for (size_t i = from; i < to; i++) {
        out->hash = old->points[i].hash;
        out->host = new_numbers[old->points[i].host];
        out += out->host != ROTA_RING_NONE;
    }
    return out;
}

/* Fill `ring` with the points of `old` under their new numbers and, merged
 * among them, those of the added hosts. */
static enum rota_code merge_points(struct rota_ring *ring, const struct rota_ring *old,
                                   const struct change *change, size_t n_added)
{
    size_t n_new = 0;
    for (size_t i = 0; i < n_added; i++)
        n_new += points_of(ring->points_per_host, ring->hosts[change->added_numbers[i]].weight);

    struct rota_ring_point *fresh = malloc((n_new + 1) * sizeof *fresh);
    if (!fresh)
        return ROTA_ERR_NO_MEMORY;
    n_new = 0;
    for (size_t i = 0; i < n_added; i++)
        n_new += make_points(ring, change->added_numbers[i], fresh + n_new);
    qsort(fresh, n_new, sizeof *fresh, compare_points);

    struct rota_ring_point *out = ring->points;
    size_t next = 0;
    for (size_t i = 0; i < n_new; i++) {
        size_t until = count_before(old, change, next, &fresh[i]);
        out = copy_points(old, next, until, change->new_numbers, out);
        *out++ = fresh[i];
        next = until;
    }
    copy_points(old, next, old->n_points, change->new_numbers, out);
    free(fresh);

    if (make_starts(ring))
        return ROTA_ERR_NO_MEMORY;
    count_starts(ring, ring->points);
    close_circle(ring);
    return ROTA_OK;
}

enum rota_code rota_ring_with(const struct rota_ring *ring, const struct rota_ring_host *added,
                              size_t n_added, const struct rota_str *removed, size_t n_removed,
                              struct rota_ring **next, struct rota_error *error)
{
    struct rota_ring_host *sorted = NULL;
    struct rota_ring *made = NULL;
    struct change change = {0};
    enum rota_code code;

    if ((code = sort_hosts(added, n_added, &sorted, error)))
        return code;
    if ((code = plan_change(ring, sorted, n_added, removed, n_removed, &change, error)))
        goto fail;
    code = ROTA_ERR_NO_MEMORY;
    if (!(made = ring_begin(ring->points_per_host)))
        goto fail;
    if ((code = take_hosts(made, change.hosts, change.n_hosts, error)))
        goto fail;
    if ((code = merge_points(made, ring, &change, n_added)))
        goto fail;
    *next = made;
    made = NULL;

fail:
    free(sorted);
    change_deinit(&change);
    rota_ring_unref(made);
    return say_no_memory(code, ring->n_hosts + n_added, error);
}

/* --- sharing --- */

struct rota_ring *rota_ring_ref(struct rota_ring *ring)
{
    atomic_fetch_add_explicit(&ring->n_refs, 1, memory_order_relaxed);
    return ring;
}

void rota_ring_unref(struct rota_ring *ring)
{
    if (!ring || atomic_fetch_sub_explicit(&ring->n_refs, 1, memory_order_acq_rel) > 1)
        return;
    free(ring->starts);
    free(ring->points);
    free(ring->hosts);
    free(ring->zone_sizes);
    free(ring->text);
    free(ring);
}
