#include "core/node/node_plan.h"

#include <stdlib.h>
#include <string.h>

/* --- spaces --- */

/* A view of the hosts as they will be. `places` says which host each member is. */
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
            return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for a plan");
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
    enum rota_code code = places && hashes
                              ? make_view(hosts, n_hosts, &view, places, error)
                              : rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for a plan");
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

static uint32_t least_loaded(const struct rota_node_plan_host *hosts, size_t n_hosts,
                             const uint64_t *loads)
{
    uint32_t best = ROTA_NODE_PLAN_NOBODY;
    for (size_t i = 0; i < n_hosts; i++)
        if (hosts[i].weight_after > 0 && (best == ROTA_NODE_PLAN_NOBODY || loads[i] < loads[best]))
            best = (uint32_t)i;
    return best;
}

/* What has an owner that stays, stays; the rest goes to others, or to nobody. */
static enum rota_code place_others(const struct rota_node_plan_host *hosts, size_t n_hosts,
                                   const uint32_t *before, uint32_t n, bool is_taken,
                                   uint32_t *after, struct rota_error *error)
{
    uint64_t *loads = calloc(n_hosts + 1, sizeof *loads);
    if (!loads)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for a plan");
    for (uint32_t i = 0; i < n; i++) {
        bool stays = before[i] < n_hosts && hosts[before[i]].weight_after > 0;
        after[i] = stays ? before[i] : ROTA_NODE_PLAN_NOBODY;
        if (stays)
            loads[before[i]]++;
    }
    for (uint32_t i = 0; i < n && is_taken; i++) {
        uint32_t taker = after[i] == ROTA_NODE_PLAN_NOBODY ? least_loaded(hosts, n_hosts, loads)
                                                           : ROTA_NODE_PLAN_NOBODY;
        if (taker != ROTA_NODE_PLAN_NOBODY) {
            after[i] = taker;
            loads[taker]++;
        }
    }
    free(loads);
    return ROTA_OK;
}

enum rota_code rota_node_plan_place(struct rota_str space, enum rota_view_engine engine,
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

enum rota_code rota_node_plan_route(struct rota_str queue, struct rota_spread spread,
                                    const struct rota_node_plan_host *hosts, size_t n_hosts,
                                    bool is_after, uint32_t n, uint32_t *owners,
                                    struct rota_error *error)
{
    const struct rota_partition root = {
        .namespace_id = rota_str("default"), .queue = queue, .type = ROTA_TASK_WORKFLOW};
    struct rota_ring *ring = NULL;
    struct rota_ring_host *on_ring = calloc(n_hosts + 1, sizeof *on_ring);
    size_t n_on_ring = 0;
    if (!on_ring)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for a plan");
    for (size_t i = 0; i < n_hosts; i++) {
        uint32_t weight = is_after ? hosts[i].weight_after : hosts[i].weight_before;
        if (weight > 0 && hosts[i].has_queues)
            on_ring[n_on_ring++] = (struct rota_ring_host){
                .address = hosts[i].name, .zone = hosts[i].zone, .weight = weight};
    }
    enum rota_code code = rota_ring_new(on_ring, n_on_ring, 0, &ring, error);
    if (!code)
        rota_route_all(ring, &root, spread, n, owners);
    for (uint32_t i = 0; !code && i < n; i++) {
        struct rota_str name =
            owners[i] == ROTA_RING_NONE ? rota_str("") : rota_ring_host(ring, owners[i]).address;
        owners[i] = ROTA_NODE_PLAN_NOBODY;
        for (size_t j = 0; j < n_hosts && name.size > 0; j++)
            if (rota_str_is_equal(hosts[j].name, name))
                owners[i] = (uint32_t)j;
    }
    rota_ring_unref(ring);
    free(on_ring);
    return code;
}

/* --- counting --- */

/* The fair shares of `n` shards are by weight: what the hosts gain of them together. */
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

struct rota_node_plan_count rota_node_plan_count(struct rota_node_plan_host *hosts, size_t n_hosts,
                                                 const uint32_t *before, uint32_t n_before,
                                                 const uint32_t *after, uint32_t n_after)
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
