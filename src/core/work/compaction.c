#include "core/work/compaction.h"

static bool is_due(const struct rota_compaction_look *look)
{
    uint64_t live = look->live < UINT64_MAX / 4 ? look->live : UINT64_MAX / 4;
    uint64_t segment = look->segment_size;
    if (look->edge <= 1)
        return false; /* there is nothing old */
    if (look->is_damaged)
        return true;
    if (look->is_full) /* the jobs must fit beside what they are now */
        return look->bytes > live + 2 * segment;
    return look->bytes > 2 * live + ROTA_COMPACTION_SEGMENTS * segment;
}

uint64_t rota_compaction_step(struct rota_compaction *compaction,
                              const struct rota_compaction_look *look)
{
    if (compaction->number == 0 && is_due(look))
        compaction->number = look->edge;
    return compaction->number;
}

bool rota_compaction_done(struct rota_compaction *compaction, size_t n_left)
{
    if (n_left > 0)
        return false;
    compaction->number = 0;
    return true;
}
