/* What a program can see of the nodes. */
#include "run/call/shards_inside.h"

#include "io/clock.h"

size_t rota_shards_nodes(const struct rota_shards *shards, int64_t *nodes, size_t size)
{
    const struct rota_map_entry *entry;
    size_t place = 0, n = 0;
    while ((entry = rota_map_next(&shards->nodes, &place))) {
        const struct rota_shards_node *node = entry->value;
        if (n < size)
            nodes[n] = node->id;
        n++;
    }
    return n;
}

bool rota_shards_look_at(const struct rota_shards *shards, int64_t id,
                         struct rota_shards_view *view)
{
    const struct rota_shards_node *node = rota_shards_nodes_find(shards, id);
    if (!node)
        return false;
    struct rota_shards_view v = {
        .node = node->id,
        .address = node->address,
        .health = ROTA_HEALTH_WELL,
        .n_connections = rota_shards_nodes_n_connections(node),
        .problem = node->problem,
        .failed_at = node->failed_at,
    };
    rota_health_fsm_look(&shards->health, (uint64_t)id, &v.health, &v.n_failed_checks);
    v.has_balance =
        rota_balancer_look(shards->balancer, rota_clock_mono(), (uint64_t)id, &v.balance);
    *view = v;
    return true;
}
