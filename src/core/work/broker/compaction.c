#include "core/work/broker/compaction.h"

#include "core/work/broker/broker.h"

enum { BATCH = 64 }; /* bytes that begin one */

/* Whether so much is obsolete that going through all segments is worth it. */
static bool is_due(const struct rota_compaction *compaction,
                   const struct rota_compaction_look *look)
{
    uint64_t live = look->live < UINT64_MAX / 4 ? look->live : UINT64_MAX / 4;
    uint64_t segment = look->segment_size;
    if (look->is_damaged && !compaction->is_mended)
        return true;
    if (look->is_full)
        return look->bytes > live + 2 * segment;
    return look->bytes > 2 * live + ROTA_COMPACTION_SEGMENTS * segment;
}

/* Up to which record the oldest segment can go, or some of them; 0: it can't now. */
static uint64_t find_end(const struct rota_compaction_look *look, const struct rota_broker *broker,
                         bool is_due)
{
    uint64_t spare = rota_room_spare(&look->room), half = rota_room_all(&look->room) / 2;
    uint64_t bytes = 0, end = look->old[0].end;
    if (is_due && rota_broker_rewrite_size(broker, end, SIZE_MAX, spare) <= spare)
        return end;
    for (size_t i = 0; i < look->n_old && look->is_full; i++) {
        bytes += look->old[i].bytes;
        end = look->old[i].end;
        uint64_t most = bytes - bytes / 4 < half ? bytes - bytes / 4 : half;
        if (rota_broker_rewrite_size(broker, end, SIZE_MAX, most) <= most)
            return end;
    }
    return 0;
}

static void hold_on(struct rota_compaction *compaction, rota_time until)
{
    compaction->is_waiting = true;
    compaction->again_at = until;
}

static void begin_compaction(struct rota_compaction *compaction, rota_time now,
                             const struct rota_compaction_look *look,
                             const struct rota_broker *broker)
{
    if (compaction->until == 0 && is_due(compaction, look)) {
        compaction->until = look->edge;
        compaction->is_mended = true;
    }
    if (compaction->until == 0 && !look->is_full)
        return;
    compaction->number = find_end(look, broker, compaction->until > 0);
    if (compaction->number == 0)
        hold_on(compaction, now + ROTA_COMPACTION_AGAIN);
}

/* Write some of them, if there is a place for them. */
static struct rota_compaction_todo compact_some(struct rota_compaction *compaction, rota_time now,
                                                const struct rota_compaction_look *look,
                                                struct rota_broker *broker)
{
    struct rota_compaction_todo todo = {0};
    size_t need =
        BATCH + (size_t)rota_broker_rewrite_size(broker, compaction->number, ROTA_COMPACTION_JOBS,
                                                 ROTA_COMPACTION_BYTES);
    uint64_t room = look->room.left > look->room.waiting ? look->room.left - look->room.waiting : 0;
    bool is_in_vain = compaction->is_waiting && room < need;
    if (is_in_vain &&
        room >= BATCH + rota_broker_rewrite_size(broker, compaction->number, 1, SIZE_MAX))
        need = (size_t)room; /* they do not all fit into one piece: begin with some */
    if (room < need) {
        if (is_in_vain) /* check again whether it fits */
            compaction->number = 0;
        else
            todo.want = (size_t)look->room.waiting + need;
        compaction->left = look->room.left;
        hold_on(compaction, now + ROTA_COMPACTION_AGAIN);
        return todo;
    }
    compaction->is_waiting = false;
    todo.has_written = true;
    if (rota_broker_rewrite(broker, compaction->number, ROTA_COMPACTION_JOBS, need - BATCH) > 0)
        return todo;
    todo.drop_below = compaction->dropped = compaction->number;
    compaction->number = 0;
    hold_on(compaction, now + ROTA_COMPACTION_DROPPED);
    return todo;
}

/* What it waits for has happened, or it has timed out. */
static bool is_over(const struct rota_compaction *compaction, rota_time now,
                    const struct rota_compaction_look *look)
{
    if (compaction->dropped && look->old[0].end > compaction->dropped)
        return true;
    if (compaction->number && look->room.left > compaction->left)
        return true;
    return now >= compaction->again_at;
}

struct rota_compaction_todo rota_compaction_step(struct rota_compaction *compaction, rota_time now,
                                                 const struct rota_compaction_look *look,
                                                 struct rota_broker *broker)
{
    struct rota_compaction_todo todo = {0};
    if (look->n_old == 0 || look->old[0].end > compaction->until)
        compaction->until = 0; /* everything to be deleted is gone */
    if (look->n_old == 0) {
        compaction->number = compaction->dropped = 0;
        compaction->is_waiting = false;
        return todo;
    }
    if (compaction->is_waiting && !is_over(compaction, now, look))
        return todo;
    if (look->is_busy) {
        if (compaction->is_waiting)
            hold_on(compaction, now + ROTA_COMPACTION_AGAIN);
        return todo;
    }
    if (compaction->dropped && look->old[0].end <= compaction->dropped) { /* it still exists */
        todo.drop_below = compaction->dropped;
        hold_on(compaction, now + ROTA_COMPACTION_DROPPED);
        return todo;
    }
    compaction->dropped = 0;
    if (compaction->number == 0) {
        compaction->is_waiting = false;
        begin_compaction(compaction, now, look, broker);
    }
    return compaction->number ? compact_some(compaction, now, look, broker) : todo;
}

rota_time rota_compaction_deadline(const struct rota_compaction *compaction)
{
    return compaction->is_waiting ? compaction->again_at : ROTA_TIME_NEVER;
}
