#include "core/own/lease_share.h"

uint32_t rota_lease_share_of_weight(uint32_t n_shards, uint64_t weight, uint64_t all)
{
    return (uint32_t)((n_shards * weight + all - 1) / all);
}

uint32_t rota_lease_share_of_member(const struct rota_view *view, struct rota_str self,
                                    uint32_t n_shards, uint32_t wanted)
{
    uint64_t all = 0, own = 0;
    for (size_t i = 0; i < view->members.size; i++) {
        const struct rota_view_member *member = &view->members.items[i];
        if (member->span.to != 0)
            continue;
        all += member->weight;
        if (self.data ? rota_str_is_equal(member->name, self) : member->weight > own)
            own = member->weight;
    }
    uint32_t share = own == 0 ? n_shards : rota_lease_share_of_weight(n_shards, own, all);
    return wanted == 0 || share < wanted ? share : wanted;
}

rota_time rota_lease_share_read_interval(rota_time ttl, uint32_t n_shards)
{
    return ttl / 4 + n_shards * (ROTA_MSEC / 16);
}
