#include "core/call/get/interval_index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUTES_KEPT_MAX = 65536, /* of several moduli, from one lookup to the next */
    TABLE_MAX = 4096,        /* a modulus up to this has a table */
};

void rota_interval_index_deinit(struct rota_interval_index *index)
{
    rota_vector_deinit(&index->sorted);
    rota_vector_deinit(&index->active);
    rota_vector_deinit(&index->points);
    rota_vector_deinit(&index->segments);
    rota_vector_deinit(&index->tables);
    rota_vector_deinit(&index->routes);
    rota_vector_deinit(&index->members);
    rota_vector_deinit(&index->meetings);
}

/* --- building --- */

static int compare_pieces(const void *a, const void *b)
{
    const struct rota_interval_piece *x = a, *y = b;
    if (x->shard.of != y->shard.of)
        return x->shard.of < y->shard.of ? -1 : 1;
    if (x->shard.from != y->shard.from)
        return x->shard.from < y->shard.from ? -1 : 1;
    return x->host->id < y->host->id ? -1 : x->host->id > y->host->id;
}

static int compare_points(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Collect where the segments of one modulus may start. */
static bool collect_points(struct rota_interval_index *index, size_t first, size_t end)
{
    index->points.size = 0;
    bool is_fine = rota_vector_push(&index->points, 0);
    for (size_t i = first; i < end && is_fine; i++) {
        const struct rota_interval *shard = &index->sorted.items[i].shard;
        is_fine = rota_vector_push(&index->points, shard->from) &&
                  (shard->to == 0 || rota_vector_push(&index->points, shard->to));
    }
    if (is_fine)
        qsort(index->points.items, index->points.size, sizeof *index->points.items, compare_points);
    return is_fine;
}

/* The hosts that have the keys at `point`, of those in `active` before it and
 * those that begin there. */
static bool advance_to_point(struct rota_interval_index *index, uint64_t point, size_t *next,
                             size_t end)
{
    size_t n = 0;
    for (size_t i = 0; i < index->active.size; i++) {
        struct rota_interval_piece piece = index->active.items[i];
        if (piece.shard.to == 0 || piece.shard.to > point)
            index->active.items[n++] = piece;
    }
    index->active.size = n;
    for (; *next < end && index->sorted.items[*next].shard.from == point; ++*next)
        if (!rota_vector_push(&index->active, index->sorted.items[*next]))
            return false;
    return true;
}

/* Append the host to the last route, unless it is full or has the host. */
static bool add_member(struct rota_interval_index *index, struct rota_interval_route *route,
                       const struct rota_interval_host *host)
{
    if (route->n == ROTA_INTERVAL_REPLICAS_MAX)
        return true;
    for (uint32_t i = 0; i < route->n; i++)
        if (index->members.items[route->first + i] == host)
            return true;
    route->n++;
    return rota_vector_push(&index->members, host);
}

static bool add_segment(struct rota_interval_index *index, uint64_t start)
{
    struct rota_interval_route route = {.first = (uint32_t)index->members.size};
    struct rota_interval_segment segment = {.start = start};
    for (size_t i = 0; i < index->active.size; i++)
        if (!add_member(index, &route, index->active.items[i].host))
            return false;
    if (route.n > 0) {
        segment.route = (uint32_t)index->routes.size;
        if (!rota_vector_push(&index->routes, route))
            return false;
    }
    return rota_vector_push(&index->segments, segment);
}

static uint32_t route_in(const struct rota_interval_index *index,
                         const struct rota_interval_modulus *modulus, uint64_t key)
{
    const struct rota_interval_segment *base = &index->segments.items[modulus->first];
    uint32_t n = modulus->n;
    while (n > 1) { /* to the last segment that does not start after the key */
        uint32_t half = n / 2;
        base = base[half].start <= key ? base + half : base;
        n -= half;
    }
    return base->route;
}

/* The route of every key, when these are few. */
static bool add_table(struct rota_interval_index *index, struct rota_interval_modulus *modulus)
{
    size_t first = index->tables.size;
    if (modulus->of == 0 || modulus->of > TABLE_MAX)
        return true;
    if (!rota_vector_reserve(&index->tables, first + modulus->of))
        return false;
    for (uint64_t key = 0; key < modulus->of; key++)
        index->tables.items[index->tables.size++] = route_in(index, modulus, key);
    modulus->table = (uint32_t)first + 1;
    return true;
}

/* Cut the keys of one modulus where any host's begin or end. */
static bool add_modulus(struct rota_interval_index *index, size_t first, size_t end)
{
    struct rota_interval_modulus modulus = {.of = index->sorted.items[first].shard.of,
                                            .first = (uint32_t)index->segments.size};
    size_t next = first;
    if (!collect_points(index, first, end))
        return false;
    index->active.size = 0;
    for (size_t i = 0; i < index->points.size; i++) {
        uint64_t point = index->points.items[i];
        if (i > 0 && point == index->points.items[i - 1])
            continue;
        if (!advance_to_point(index, point, &next, end) || !add_segment(index, point))
            return false;
    }
    modulus.n = (uint32_t)index->segments.size - modulus.first;
    index->moduli[index->n_moduli++] = modulus;
    return add_table(index, &index->moduli[index->n_moduli - 1]);
}

bool rota_interval_index_begin(struct rota_interval_index *index)
{
    index->sorted.size = index->segments.size = index->routes.size = index->members.size = 0;
    index->tables.size = 0;
    index->n_moduli = index->n_meetings = 0;
    if (index->meetings.size)
        memset(index->meetings.items, 0, index->meetings.size * sizeof *index->meetings.items);
    return rota_vector_push(&index->routes, (struct rota_interval_route){0});
}

bool rota_interval_index_add(struct rota_interval_index *index,
                             const struct rota_interval_host *host,
                             const struct rota_interval *shard)
{
    struct rota_interval_piece piece = {host, *shard};
    return rota_vector_push(&index->sorted, piece);
}

bool rota_interval_index_build(struct rota_interval_index *index)
{
    if (index->sorted.size > 1)
        qsort(index->sorted.items, index->sorted.size, sizeof *index->sorted.items, compare_pieces);
    for (size_t first = 0, end; first < index->sorted.size; first = end) {
        uint64_t of = index->sorted.items[first].shard.of;
        for (end = first; end < index->sorted.size; end++)
            if (index->sorted.items[end].shard.of != of)
                break;
        if (index->n_moduli < ROTA_INTERVAL_MODULI_MAX && !add_modulus(index, first, end))
            return false;
    }
    index->n_own_routes = index->routes.size;
    index->n_own_members = index->members.size;
    return true;
}

/* --- lookups --- */

static size_t place_of_join(const struct rota_interval_index *index, uint32_t a, uint32_t b)
{
    uint64_t counter = index->seed ^ ((uint64_t)a << 32 | b);
    counter *= 0x9e3779b97f4a7c15u;
    size_t mask = index->meetings.size - 1;
    size_t place = (size_t)(counter >> 32) & mask;
    while (index->meetings.items[place].a != 0 &&
           (index->meetings.items[place].a != a || index->meetings.items[place].b != b))
        place = (place + 1) & mask;
    return place;
}

/* Make the table of meetings larger; its size is a power of two. */
static bool grow_meetings(struct rota_interval_index *index)
{
    size_t n = index->meetings.size, size = n ? 2 * n : 64;
    struct rota_interval_meeting *old = index->meetings.items;
    struct rota_interval_meeting *items =
        (struct rota_interval_meeting *)calloc(size, sizeof *items);
    if (!items)
        return false;
    index->meetings.items = items;
    index->meetings.size = index->meetings.capacity = size;
    for (size_t i = 0; i < n; i++)
        if (old[i].a != 0)
            items[place_of_join(index, old[i].a, old[i].b)] = old[i];
    free(old);
    return true;
}

/* The members of both. */
static bool join_routes(struct rota_interval_index *index, uint32_t a, uint32_t b, uint32_t *joined)
{
    struct rota_interval_route route = {.first = (uint32_t)index->members.size};
    struct rota_interval_route parts[2] = {index->routes.items[a], index->routes.items[b]};
    for (size_t part = 0; part < 2; part++)
        for (uint32_t i = 0; i < parts[part].n; i++)
            if (!add_member(index, &route, index->members.items[parts[part].first + i]))
                return false;
    *joined = (uint32_t)index->routes.size;
    return rota_vector_push(&index->routes, route);
}

static bool find_joined_route(struct rota_interval_index *index, uint32_t a, uint32_t b,
                              uint32_t *route)
{
    if (a == 0 || b == 0) {
        *route = a | b;
        return true;
    }
    if (2 * (index->n_meetings + 1) > index->meetings.size && !grow_meetings(index))
        return false;
    struct rota_interval_meeting *meeting = &index->meetings.items[place_of_join(index, a, b)];
    if (meeting->a == 0) {
        uint32_t joined;
        if (!join_routes(index, a, b, &joined))
            return false;
        *meeting = (struct rota_interval_meeting){a, b, joined};
        index->n_meetings++;
    }
    *route = meeting->route;
    return true;
}

/* The routes of meetings are made again when there are too many of them. */
static void trim_routes(struct rota_interval_index *index)
{
    if (index->n_meetings < ROUTES_KEPT_MAX)
        return;
    index->routes.size = index->n_own_routes;
    index->members.size = index->n_own_members;
    index->n_meetings = 0;
    memset(index->meetings.items, 0, index->meetings.size * sizeof *index->meetings.items);
}

/* The routes of the keys by one modulus. */
static void look_up_by_modulus(const struct rota_interval_index *index,
                               const struct rota_interval_modulus *modulus, const uint64_t *keys,
                               size_t n, uint32_t *routes)
{
    const uint32_t *table = modulus->table ? &index->tables.items[modulus->table - 1] : NULL;
    uint64_t of = modulus->of;
    if (table && (of & (of - 1)) == 0)
        for (size_t i = 0; i < n; i++)
            routes[i] = table[keys[i] & (of - 1)];
    else if (table)
        for (size_t i = 0; i < n; i++)
            routes[i] = table[keys[i] % of];
    else
        for (size_t i = 0; i < n; i++)
            routes[i] = route_in(index, modulus, of ? keys[i] % of : keys[i]);
}

bool rota_interval_index_lookup(struct rota_interval_index *index, const uint64_t *keys, size_t n,
                                uint32_t *routes)
{
    enum { AT_ONCE = 256 };
    uint32_t own[AT_ONCE];
    assert(n <= ROTA_INTERVAL_KEYS_MAX);
    trim_routes(index);
    if (index->n_moduli == 0)
        memset(routes, 0, n * sizeof *routes);
    else
        look_up_by_modulus(index, &index->moduli[0], keys, n, routes);
    for (size_t m = 1; m < index->n_moduli; m++)
        for (size_t first = 0; first < n; first += AT_ONCE) {
            size_t size = n - first < AT_ONCE ? n - first : AT_ONCE;
            look_up_by_modulus(index, &index->moduli[m], keys + first, size, own);
            for (size_t i = 0; i < size; i++)
                if (!find_joined_route(index, routes[first + i], own[i], &routes[first + i]))
                    return false;
        }
    return true;
}

struct rota_interval_replicas rota_interval_index_replicas(const struct rota_interval_index *index,
                                                           uint32_t route)
{
    if (route == 0)
        return (struct rota_interval_replicas){0};
    const struct rota_interval_route *found = &index->routes.items[route];
    return (struct rota_interval_replicas){&index->members.items[found->first], found->n};
}
