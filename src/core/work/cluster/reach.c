#include "core/work/cluster/reach.h"

enum rota_reach rota_reach_of(bool is_open, bool is_heard, bool has_failed)
{
    if (is_open && (is_heard || !has_failed))
        return ROTA_REACH_READY;
    return has_failed ? ROTA_REACH_FAILING : ROTA_REACH_UNKNOWN;
}

/* The nodes in this state, from a random one on; `n` when there is none but `other_than`. */
static size_t find_in_state(const enum rota_reach *nodes, size_t n, enum rota_reach state,
                            size_t other_than, uint64_t chance)
{
    size_t n_in = 0;
    for (size_t i = 0; i < n; i++)
        n_in += nodes[i] == state && i != other_than;
    size_t wanted = n_in > 0 ? (size_t)(chance % n_in) : 0;
    for (size_t i = 0; i < n && n_in > 0; i++)
        if (nodes[i] == state && i != other_than && wanted-- == 0)
            return i;
    return n;
}

size_t rota_reach_choose(const enum rota_reach *nodes, size_t n, size_t owner, bool is_retry,
                         uint64_t chance)
{
    bool is_failing = owner >= n || nodes[owner] == ROTA_REACH_FAILING;
    if (!is_failing && !is_retry)
        return owner;
    size_t found = find_in_state(nodes, n, ROTA_REACH_READY, owner, chance);
    if (found == n)
        found = find_in_state(nodes, n, ROTA_REACH_UNKNOWN, owner, chance);
    if (found == n && (!is_failing || !is_retry))
        found = owner;
    if (found >= n)
        found = find_in_state(nodes, n, ROTA_REACH_FAILING, owner, chance);
    return found < n ? found : owner < n ? owner : 0;
}
