#include "node/rules/node_plan_rules.h"

#include "base/heap.h"

#include <stdlib.h>

/* --- cost --- */

static uint64_t n_points(const struct rota_node_plan_host *hosts, size_t n_hosts, bool is_after)
{
    uint64_t weight = 0;
    for (size_t i = 0; i < n_hosts; i++)
        weight += is_after ? hosts[i].weight_after : hosts[i].weight_before;
    return weight * ROTA_RING_POINTS_DEFAULT / ROTA_WEIGHT_ONE;
}

uint64_t rota_node_plan_rules_cost(const struct rota_node_plan_host *hosts, size_t n_hosts,
                                   struct rota_node_plan_size size)
{
    uint64_t before = n_points(hosts, n_hosts, false), after = n_points(hosts, n_hosts, true);
    return size.n_ring_spaces * after + (size.n_queues > 0 ? before + after : 0) + size.n_shards;
}

enum rota_node_plan_verdict rota_node_plan_rules_judge(uint64_t cost, bool has_token)
{
    return cost > ROTA_NODE_PLAN_COST_MAX                  ? ROTA_NODE_PLAN_TOO_LARGE
           : cost > ROTA_NODE_PLAN_COST_OPEN && !has_token ? ROTA_NODE_PLAN_NEEDS_TOKEN
                                                           : ROTA_NODE_PLAN_FITS;
}

/* --- spaces --- */

/* A view of the future hosts. `places` maps each member to its host. */
static enum rota_code make_view(const struct rota_node_plan_host *hosts, size_t n_hosts,
                                struct rota_view *view, uint32_t *places, struct rota_error *error)
{
    for (size_t i = 0; i < n_hosts; i++) {
        struct rota_view_member member = {.span = {1, 0},
                                          .name = hosts[i].name,
                                          .instance = i + 1,
                                          .weight = hosts[i].weight_after};
        if (member.weight == 0)
            continue;
        if (member.weight > ROTA_VIEW_WEIGHT_MAX)
            member.weight = ROTA_VIEW_WEIGHT_MAX;
        places[view->members.size] = (uint32_t)i;
        if (!rota_vector_push(&view->members, member))
            return rota_error_no_memory(error, "for a plan");
    }
    return ROTA_OK;
}

static enum rota_code place_ring(struct rota_str space, const struct rota_node_plan_host *hosts,
                                 size_t n_hosts, uint32_t n, uint32_t *after,
                                 struct rota_error *error)
{
    struct rota_view view = {.number = 1, .base = 1, .engine = ROTA_VIEW_RING, .n_shards = n};
    uint32_t *places = calloc(n_hosts + 1, sizeof *places);
    uint32_t *hashes = calloc(n, sizeof *hashes);
    enum rota_code code = places && hashes ? make_view(hosts, n_hosts, &view, places, error)
                                           : rota_error_no_memory(error, "for a plan");
    for (uint32_t i = 0; !code && i < n; i++)
        hashes[i] = rota_view_hash(space, i);
    if (!code)
        code = rota_view_place(&view, 1, ROTA_VIEW_RING, hashes, after, error);
    for (uint32_t i = 0; !code && i < n; i++)
        if (after[i] != ROTA_VIEW_NOBODY)
            after[i] = places[after[i]];
    rota_view_deinit(&view);
    free(places);
    free(hashes);
    return code;
}

/* The heap holds the hosts that stay: `at` counts the shards of one, `order` is its index. */
static bool share_out(struct rota_heap *heap, uint32_t n, uint32_t *after)
{
    for (uint32_t i = 0; i < n && heap->size > 0; i++) {
        struct rota_heap_node *first = rota_heap_first(heap);
        if (after[i] != ROTA_NODE_PLAN_NOBODY)
            continue;
        after[i] = (uint32_t)first->order;
        rota_heap_remove(heap, first);
        first->at++;
        if (!rota_heap_push(heap, first))
            return false;
    }
    return true;
}

/* Shards whose owner stays do not move; the rest goes to other hosts, or has no owner. */
static enum rota_code place_others(const struct rota_node_plan_host *hosts, size_t n_hosts,
                                   const uint32_t *before, uint32_t n, bool is_taken,
                                   uint32_t *after, struct rota_error *error)
{
    struct rota_heap heap = {0};
    struct rota_heap_node *takers = calloc(n_hosts + 1, sizeof *takers);
    bool is_well = takers != NULL;
    for (uint32_t i = 0; is_well && i < n; i++) {
        bool stays = before[i] < n_hosts && hosts[before[i]].weight_after > 0;
        after[i] = stays ? before[i] : ROTA_NODE_PLAN_NOBODY;
        if (stays)
            takers[before[i]].at++;
    }
    for (size_t i = 0; is_well && i < n_hosts && is_taken; i++) {
        takers[i].order = i;
        is_well = hosts[i].weight_after == 0 || rota_heap_push(&heap, &takers[i]);
    }
    is_well = is_well && share_out(&heap, n, after);
    rota_heap_deinit(&heap);
    free(takers);
    return is_well ? ROTA_OK : rota_error_no_memory(error, "for a plan");
}

enum rota_code rota_node_plan_rules_place(struct rota_str space, enum rota_view_engine engine,
                                          const struct rota_node_plan_host *hosts, size_t n_hosts,
                                          const uint32_t *before, const bool *is_pinned, uint32_t n,
                                          uint32_t *after, struct rota_error *error)
{
    if (engine != ROTA_VIEW_RING)
        return place_others(hosts, n_hosts, before, n, engine != ROTA_VIEW_STATIC, after, error);
    enum rota_code code = place_ring(space, hosts, n_hosts, n, after, error);
    for (uint32_t i = 0; !code && i < n; i++)
        if (is_pinned[i] && before[i] < n_hosts && hosts[before[i]].weight_after > 0)
            after[i] = before[i];
    return code;
}

/* --- queues --- */

/* Hosts of a ring are numbered by address; rota_ring_find() maps each. */
enum rota_code rota_node_plan_rules_ring_init(struct rota_node_plan_ring *ring,
                                              const struct rota_node_plan_host *hosts,
                                              size_t n_hosts, bool is_after,
                                              struct rota_error *error)
{
    struct rota_ring_host *on_ring = calloc(n_hosts + 1, sizeof *on_ring);
    uint32_t *places = calloc(n_hosts + 1, sizeof *places);
    size_t n_on_ring = 0;
    *ring = (struct rota_node_plan_ring){.places = places};
    for (size_t i = 0; on_ring && i < n_hosts; i++) {
        uint32_t weight = is_after ? hosts[i].weight_after : hosts[i].weight_before;
        if (weight > 0 && hosts[i].has_queues)
            on_ring[n_on_ring++] = (struct rota_ring_host){
                .address = hosts[i].name, .zone = hosts[i].zone, .weight = weight};
    }
    enum rota_code code = on_ring && places
                              ? rota_ring_new(on_ring, n_on_ring, 0, &ring->ring, error)
                              : rota_error_no_memory(error, "for a plan");
    for (size_t i = 0; !code && i < n_hosts; i++) {
        uint32_t number = rota_ring_find(ring->ring, hosts[i].name);
        if (number != ROTA_RING_NONE)
            places[number] = (uint32_t)i;
    }
    free(on_ring);
    if (code)
        rota_node_plan_rules_ring_deinit(ring);
    return code;
}

void rota_node_plan_rules_ring_deinit(struct rota_node_plan_ring *ring)
{
    rota_ring_unref(ring->ring);
    free(ring->places);
    *ring = (struct rota_node_plan_ring){0};
}

void rota_node_plan_rules_route(const struct rota_node_plan_ring *ring, struct rota_str queue,
                                const struct rota_work_layout *layout, rota_time now, uint32_t n,
                                uint32_t *owners)
{
    rota_layout_route(layout, ring->ring, queue, now, n, owners);
    for (uint32_t i = 0; i < n; i++)
        owners[i] = owners[i] == ROTA_RING_NONE ? ROTA_NODE_PLAN_NOBODY : ring->places[owners[i]];
}

/* --- counting --- */

/* The fair shares of `n` shards are by weight: the sum of what the hosts gain. */
static double fair_gain(const struct rota_node_plan_host *hosts, size_t n_hosts, uint32_t n)
{
    double before = 0, after = 0, gain = 0;
    for (size_t i = 0; i < n_hosts; i++) {
        before += hosts[i].weight_before;
        after += hosts[i].weight_after;
    }
    for (size_t i = 0; i < n_hosts && before > 0 && after > 0; i++) {
        double more = hosts[i].weight_after / after - hosts[i].weight_before / before;
        gain += more > 0 ? more * n : 0;
    }
    return gain;
}

struct rota_node_plan_count rota_node_plan_rules_count(struct rota_node_plan_host *hosts,
                                                       size_t n_hosts, const uint32_t *before,
                                                       uint32_t n_before, const uint32_t *after,
                                                       uint32_t n_after)
{
    struct rota_node_plan_count count = {0};
    uint64_t leaving = 0;
    for (uint32_t i = 0; i < n_before; i++) {
        uint32_t from = before[i], to = i < n_after ? after[i] : ROTA_NODE_PLAN_NOBODY;
        if (from >= n_hosts)
            continue;
        hosts[from].n_before++;
        leaving += hosts[from].weight_after == 0;
        if (i >= n_after)
            continue; /* it is gone */
        count.lost += to >= n_hosts;
        count.moves += to < n_hosts && to != from;
    }
    for (uint32_t i = 0; i < n_after; i++)
        if (after[i] < n_hosts)
            hosts[after[i]].n_after++;
    double gain = fair_gain(hosts, n_hosts, n_before);
    count.minimum = leaving > (uint64_t)gain ? leaving : (uint64_t)gain;
    return count;
}
