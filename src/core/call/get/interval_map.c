#include "core/call/get/interval_map.h"

#include "base/map.h"
#include "base/vector.h"
#include "core/call/get/interval_index.h"

#include <assert.h>
#include <string.h>

enum { SLOT_BITS = 13 }; /* of an id, the others make it the only one ever */

static_assert(2 * ROTA_INTERVAL_HOSTS_MAX <= 1 << SLOT_BITS, "there are two lists at a time");

/* An interval of a dc, and the latest that was seen of it. */
struct shard {
    uint64_t epoch;
    uint64_t taught_by; /* the number of the newest request whose answer counted */
    uint32_t n_claims;  /* on it, under any epoch; and that of an answer being learned */
    uint32_t key_size;
    char key[]; /* the interval and the dc's name */
};

/* What is known about a claim of a host, next to what it says. */
struct holding {
    struct shard *shard;
    bool is_replica;
};

struct host {
    struct rota_interval_host view;
    ROTA_VECTOR(struct rota_interval_claim) claims;
    ROTA_VECTOR(struct holding) holdings;
    bool is_listed;
    char text[]; /* the address and the dc's name */
};

struct rota_interval_map {
    uint64_t seed, n_ids, n_requests, n_lessons, version;
    struct rota_map by_address, shards;
    ROTA_VECTOR(struct host *) hosts; /* in the order of the list */
    ROTA_VECTOR(struct host *) slots; /* by the lower bits of their ids */
    ROTA_VECTOR(uint32_t) free_slots;
    ROTA_VECTOR(struct shard *) learned; /* the shards of the answer being learned */

    struct rota_interval_index index; /* rebuilt by the first lookup after a change */
    bool is_indexed;
};

enum rota_code rota_interval_map_new(uint64_t seed, struct rota_interval_map **map,
                                     struct rota_error *error)
{
    struct rota_interval_map *m = (struct rota_interval_map *)calloc(1, sizeof *m);
    if (!m)
        return rota_error_no_memory(error, "for a map of intervals");
    m->seed = m->index.seed = seed;
    rota_map_init(&m->by_address, seed);
    rota_map_init(&m->shards, seed);
    *map = m;
    return ROTA_OK;
}

static void end_host(struct host *host)
{
    rota_vector_deinit(&host->claims);
    rota_vector_deinit(&host->holdings);
    free(host);
}

void rota_interval_map_free(struct rota_interval_map *map)
{
    if (!map)
        return;
    size_t place = 0;
    const struct rota_map_entry *entry;
    while ((entry = rota_map_next(&map->shards, &place)))
        free(entry->value);
    for (size_t i = 0; i < map->hosts.size; i++)
        end_host(map->hosts.items[i]);
    rota_map_deinit(&map->by_address);
    rota_map_deinit(&map->shards);
    rota_vector_deinit(&map->hosts);
    rota_vector_deinit(&map->slots);
    rota_vector_deinit(&map->free_slots);
    rota_vector_deinit(&map->learned);
    rota_interval_index_deinit(&map->index);
    free(map);
}

static void mark_changed(struct rota_interval_map *map)
{
    map->version++;
    map->is_indexed = false;
}

/* --- hosts --- */

/* A slot for one more host; false when there is no memory. The list of free ones always has
 * room, so that freeing one can't fail. */
static bool take_slot(struct rota_interval_map *map, uint32_t *slot)
{
    if (map->free_slots.size > 0) {
        *slot = map->free_slots.items[--map->free_slots.size];
        return true;
    }
    struct host *none = NULL;
    *slot = (uint32_t)map->slots.size;
    return rota_vector_reserve(&map->free_slots, map->slots.size + 1) &&
           rota_vector_push(&map->slots, none);
}

static struct host *new_host(struct rota_interval_map *map,
                             const struct rota_interval_member *member)
{
    uint32_t slot;
    struct host *host =
        (struct host *)calloc(1, sizeof *host + member->address.size + member->dc.size);
    if (!host || !take_slot(map, &slot)) {
        free(host);
        return NULL;
    }
    char *dc = host->text + member->address.size;
    memcpy(host->text, member->address.data, member->address.size);
    if (member->dc.size > 0)
        memcpy(dc, member->dc.data, member->dc.size);
    host->view = (struct rota_interval_host){
        .id = ++map->n_ids << SLOT_BITS | slot,
        .address = rota_str_of(host->text, member->address.size),
        .dc = rota_str_of(dc, member->dc.size),
        .is_live = true,
    };
    map->slots.items[slot] = host;
    return host;
}

static uint32_t slot_of(uint64_t id)
{
    return (uint32_t)(id & ((1u << SLOT_BITS) - 1));
}

static void free_host(struct rota_interval_map *map, struct host *host)
{
    uint32_t slot = slot_of(host->view.id);
    map->slots.items[slot] = NULL;
    map->free_slots.items[map->free_slots.size++] = slot;
    for (size_t i = 0; i < host->holdings.size; i++)
        host->holdings.items[i].shard->n_claims--;
    if (host->view.n_replicas > 0)
        mark_changed(map);
    end_host(host);
}

static struct host *find_host(const struct rota_interval_map *map, uint64_t id)
{
    uint32_t slot = slot_of(id);
    struct host *host = slot < map->slots.size ? map->slots.items[slot] : NULL;
    return host && host->view.id == id ? host : NULL;
}

/* The new list, next to the current one. */
struct listing {
    struct rota_map by_address;
    ROTA_VECTOR(struct host *) hosts;
};

/* Add the host to the list. Takes `host` when it is new. */
static bool list_host(struct rota_interval_map *map, struct listing *next,
                      const struct rota_interval_member *member)
{
    if (rota_map_get(&next->by_address, member->address))
        return true;
    struct host *host = (struct host *)rota_map_get(&map->by_address, member->address);
    bool is_known = host && rota_str_is_equal(host->view.dc, member->dc);
    if (!is_known)
        host = new_host(map, member);
    if (!host)
        return false;
    if (!rota_vector_push(&next->hosts, host)) {
        if (!is_known)
            free_host(map, host);
        return false;
    }
    return rota_map_put(&next->by_address, host->view.address, host);
}

/* Free a list and its hosts, except marked ones. */
static void end_listing(struct rota_interval_map *map, struct listing *listing)
{
    for (size_t i = 0; i < listing->hosts.size; i++)
        if (!listing->hosts.items[i]->is_listed)
            free_host(map, listing->hosts.items[i]);
    rota_map_deinit(&listing->by_address);
    rota_vector_deinit(&listing->hosts);
}

static void mark_listed(struct host **hosts, size_t n, bool is_listed)
{
    for (size_t i = 0; i < n; i++)
        hosts[i]->is_listed = is_listed;
}

static enum rota_code check_members(const struct rota_interval_member *members, size_t n,
                                    struct rota_error *error)
{
    for (size_t i = 0; i < n; i++) {
        const struct rota_interval_member *member = &members[i];
        if (member->address.size == 0 || member->address.size > ROTA_INTERVAL_TEXT_MAX)
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "host %zu of the list: an address has 1 to %d bytes, not %zu", i,
                                  ROTA_INTERVAL_TEXT_MAX, member->address.size);
        if (member->dc.size > ROTA_INTERVAL_TEXT_MAX)
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "host %zu of the list: a dc's name has up to %d bytes, not %zu",
                                  i, ROTA_INTERVAL_TEXT_MAX, member->dc.size);
    }
    return ROTA_OK;
}

enum rota_code rota_interval_map_set_hosts(struct rota_interval_map *map,
                                           const struct rota_interval_member *members, size_t n,
                                           struct rota_error *error)
{
    struct listing next = {0}, old = {map->by_address, {0}};
    enum rota_code code = check_members(members, n, error);
    if (code)
        return code;
    rota_map_init(&next.by_address, map->seed);
    for (size_t i = 0; i < n && !code; i++)
        if (!list_host(map, &next, &members[i]))
            code = rota_error_no_memory(error, "for a list of %zu hosts", n);
    if (!code && next.hosts.size > ROTA_INTERVAL_HOSTS_MAX)
        code = rota_error_set(error, ROTA_ERR_LIMIT, "a list of %zu hosts; the limit is %d",
                              next.hosts.size, ROTA_INTERVAL_HOSTS_MAX);
    if (code) {
        mark_listed(map->hosts.items, map->hosts.size, true);
        end_listing(map, &next);
        mark_listed(map->hosts.items, map->hosts.size, false);
        return code;
    }
    memcpy(&old.hosts, &map->hosts, sizeof old.hosts);
    memcpy(&map->hosts, &next.hosts, sizeof map->hosts);
    map->by_address = next.by_address;
    mark_listed(map->hosts.items, map->hosts.size, true);
    end_listing(map, &old);
    mark_listed(map->hosts.items, map->hosts.size, false);
    return ROTA_OK;
}

uint64_t rota_interval_map_number(struct rota_interval_map *map)
{
    return ++map->n_requests;
}

/* --- what they hold --- */

struct shard_name {
    char bytes[sizeof(struct rota_interval) + ROTA_INTERVAL_TEXT_MAX];
    size_t size;
};

static struct rota_str name_shard(struct shard_name *name, struct rota_str dc,
                                  const struct rota_interval *interval)
{
    struct rota_interval plain = *interval; /* there is more than one way to write the end */
    if (plain.of > 0 && plain.to == 0)
        plain.to = plain.of;
    memcpy(name->bytes, &plain, sizeof plain);
    if (dc.size > 0)
        memcpy(name->bytes + sizeof plain, dc.data, dc.size);
    name->size = sizeof plain + dc.size;
    return rota_str_of(name->bytes, name->size);
}

static struct shard *find_shard(const struct rota_interval_map *map, struct rota_str dc,
                                const struct rota_interval *interval)
{
    struct shard_name name;
    if (dc.size > ROTA_INTERVAL_TEXT_MAX)
        return NULL;
    return (struct shard *)rota_map_get(&map->shards, name_shard(&name, dc, interval));
}

/* Make room for one more shard; false: all of them are held. */
static bool forget_oldest(struct rota_interval_map *map)
{
    struct shard *oldest = NULL;
    const struct rota_map_entry *entry;
    size_t place = 0;
    while ((entry = rota_map_next(&map->shards, &place))) {
        struct shard *shard = (struct shard *)entry->value;
        if (shard->n_claims == 0 && (!oldest || shard->taught_by < oldest->taught_by))
            oldest = shard;
    }
    if (!oldest)
        return false;
    rota_map_remove(&map->shards, rota_str_of(oldest->key, oldest->key_size));
    free(oldest);
    return true;
}

/* The shard of claim number `i` of the host, added if needed; NULL when there is no memory.
 * Usually it is the one that the host had there before. */
static struct shard *know_shard(struct rota_interval_map *map, const struct host *host, size_t i,
                                const struct rota_interval *interval)
{
    struct rota_str dc = host->view.dc;
    if (i < host->claims.size && rota_interval_is_equal(&host->claims.items[i].interval, interval))
        return host->holdings.items[i].shard;
    struct shard *shard = find_shard(map, dc, interval);
    if (shard)
        return shard;
    if (map->shards.size >= ROTA_INTERVAL_SHARDS_MAX && !forget_oldest(map))
        return NULL;
    struct shard_name name;
    struct rota_str key = name_shard(&name, dc, interval);
    shard = (struct shard *)calloc(1, sizeof *shard + key.size);
    if (!shard)
        return NULL;
    memcpy(shard->key, key.data, key.size);
    shard->key_size = (uint32_t)key.size;
    if (!rota_map_put(&map->shards, rota_str_of(shard->key, key.size), shard)) {
        free(shard);
        return NULL;
    }
    return shard;
}

/* The shards of the answer, all or none, marked so that none of them is forgotten meanwhile. */
static bool know_shards(struct rota_interval_map *map, const struct host *host,
                        const struct rota_interval_lesson *lesson)
{
    size_t n = lesson->n_claims;
    map->learned.size = 0;
    if (n > ROTA_INTERVAL_CLAIMS_MAX || !rota_vector_reserve(&map->learned, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct rota_interval *interval = &lesson->claims[i].interval;
        struct shard *shard =
            rota_interval_is_valid(interval) ? know_shard(map, host, i, interval) : NULL;
        if (!shard)
            return false;
        shard->n_claims++;
        map->learned.items[map->learned.size++] = shard;
    }
    return true;
}

static void unmark_shards(struct rota_interval_map *map)
{
    for (size_t i = 0; i < map->learned.size; i++)
        map->learned.items[i]->n_claims--;
}

/* Sum up what the host holds, which has changed. */
static void sum_up(struct rota_interval_map *map, struct host *host)
{
    struct rota_interval_host *view = &host->view;
    view->claims = host->claims.items;
    view->n_claims = host->claims.size;
    view->n_replicas = 0;
    view->epoch = 0;
    for (size_t i = 0; i < host->claims.size; i++) {
        uint64_t epoch = host->claims.items[i].epoch;
        if (!host->holdings.items[i].is_replica)
            continue;
        view->n_replicas++;
        view->epoch = epoch > view->epoch ? epoch : view->epoch;
    }
    view->lesson = ++map->n_lessons;
}

/* The shard is held elsewhere under a later epoch; true when the host was a replica of it. */
static bool supersede_claim(struct rota_interval_map *map, struct host *host,
                            const struct shard *shard)
{
    bool is_changed = false;
    for (size_t i = 0; i < host->holdings.size; i++) {
        struct holding *holding = &host->holdings.items[i];
        is_changed |= holding->shard == shard && holding->is_replica;
        holding->is_replica &= holding->shard != shard;
    }
    if (is_changed)
        sum_up(map, host);
    return is_changed;
}

/* The shard was seen under this epoch; true when that is later than before, so that its current
 * replicas no longer count. */
static bool raise_epoch(struct rota_interval_map *map, struct shard *shard, uint64_t epoch)
{
    bool is_changed = false;
    if (epoch <= shard->epoch)
        return false;
    shard->epoch = epoch;
    for (size_t i = 0; shard->n_claims > 1 && i < map->hosts.size; i++)
        is_changed |= supersede_claim(map, map->hosts.items[i], shard);
    return is_changed;
}

/* Whether the answer says what is known about the host. */
static bool is_known(const struct rota_interval_map *map, const struct host *host,
                     const struct rota_interval_lesson *lesson)
{
    if (host->view.lesson == 0 || host->claims.size != lesson->n_claims)
        return false;
    for (size_t i = 0; i < lesson->n_claims; i++)
        if (host->holdings.items[i].shard != map->learned.items[i] ||
            host->claims.items[i].epoch != lesson->claims[i].epoch)
            return false;
    return true;
}

/* What the host holds now; true when that differs from before. */
static bool teach_host(struct rota_interval_map *map, struct host *host,
                       const struct rota_interval_lesson *lesson)
{
    size_t n = lesson->n_claims;
    if (is_known(map, host, lesson)) {
        host->view.taught_by = lesson->number;
        return false;
    }
    if (!rota_vector_reserve(&host->claims, n) || !rota_vector_reserve(&host->holdings, n))
        return false; /* the next answer may find room */
    host->view.taught_by = lesson->number;
    for (size_t i = 0; i < host->holdings.size; i++)
        host->holdings.items[i].shard->n_claims--;
    size_t n_before = host->view.n_replicas;
    host->claims.size = host->holdings.size = n;
    for (size_t i = 0; i < n; i++) {
        struct shard *shard = map->learned.items[i];
        shard->n_claims++;
        host->claims.items[i] = lesson->claims[i];
        host->holdings.items[i] = (struct holding){shard, lesson->claims[i].epoch == shard->epoch};
    }
    sum_up(map, host);
    return n_before + host->view.n_replicas > 0;
}

enum rota_interval_learned rota_interval_map_learn(struct rota_interval_map *map, uint64_t host,
                                                   const struct rota_interval_lesson *lesson)
{
    struct host *taught = find_host(map, host);
    bool is_new = false, is_stale = false;
    if (!taught)
        return ROTA_INTERVAL_GONE;
    map->version += !taught->view.is_live;
    taught->view.n_failures = 0;
    taught->view.is_live = true;
    if (!know_shards(map, taught, lesson)) {
        unmark_shards(map);
        return ROTA_INTERVAL_NOTHING;
    }
    for (size_t i = 0; i < lesson->n_claims; i++) {
        struct shard *shard = map->learned.items[i];
        is_new |= raise_epoch(map, shard, lesson->claims[i].epoch);
        if (lesson->number > shard->taught_by)
            shard->taught_by = lesson->number;
    }
    for (size_t i = 0; i < lesson->n_claims; i++)
        is_stale |= lesson->claims[i].epoch < map->learned.items[i]->epoch;
    if (lesson->number > taught->view.taught_by)
        is_new |= teach_host(map, taught, lesson);
    unmark_shards(map);
    if (is_new)
        mark_changed(map);
    if (is_stale)
        return ROTA_INTERVAL_STALE;
    return is_new ? ROTA_INTERVAL_NEW : ROTA_INTERVAL_NOTHING;
}

void rota_interval_map_failed(struct rota_interval_map *map, uint64_t host)
{
    struct host *failed = find_host(map, host);
    if (failed && ++failed->view.n_failures >= ROTA_INTERVAL_FAILURES) {
        failed->view.n_failures = ROTA_INTERVAL_FAILURES;
        failed->view.is_live = false;
    }
}

/* --- lookups --- */

static bool build_index(struct rota_interval_map *map)
{
    bool is_fine = rota_interval_index_begin(&map->index);
    for (size_t i = 0; i < map->hosts.size && is_fine; i++) {
        const struct host *host = map->hosts.items[i];
        for (size_t k = 0; k < host->holdings.size && is_fine; k++)
            if (host->holdings.items[k].is_replica)
                is_fine = rota_interval_index_add(&map->index, &host->view,
                                                  &host->claims.items[k].interval);
    }
    map->is_indexed = is_fine && rota_interval_index_build(&map->index);
    return map->is_indexed;
}

bool rota_interval_map_lookup(struct rota_interval_map *map, const uint64_t *keys, size_t n,
                              uint32_t *routes)
{
    return (map->is_indexed || build_index(map)) &&
           rota_interval_index_lookup(&map->index, keys, n, routes);
}

struct rota_interval_replicas rota_interval_map_replicas(const struct rota_interval_map *map,
                                                         uint32_t route)
{
    return rota_interval_index_replicas(&map->index, route);
}

uint32_t rota_interval_map_n_routes(const struct rota_interval_map *map)
{
    return rota_interval_index_n_routes(&map->index);
}

/* --- looking inside --- */

uint64_t rota_interval_map_version(const struct rota_interval_map *map)
{
    return map->version;
}

const struct rota_interval_host *rota_interval_map_find(const struct rota_interval_map *map,
                                                        uint64_t host)
{
    const struct host *found = find_host(map, host);
    return found ? &found->view : NULL;
}

size_t rota_interval_map_n_hosts(const struct rota_interval_map *map)
{
    return map->hosts.size;
}

const struct rota_interval_host *rota_interval_map_host(const struct rota_interval_map *map,
                                                        size_t index)
{
    assert(index < map->hosts.size);
    return &map->hosts.items[index]->view;
}

uint64_t rota_interval_map_epoch(const struct rota_interval_map *map, struct rota_str dc,
                                 const struct rota_interval *shard)
{
    const struct shard *found = find_shard(map, dc, shard);
    return found ? found->epoch : 0;
}
