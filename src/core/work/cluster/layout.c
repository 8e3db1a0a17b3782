#include "core/work/cluster/layout.h"

#include "core/work/job/job.h"

static bool is_same_spread(struct rota_spread a, struct rota_spread b)
{
    return a.mode == b.mode && a.batch == b.batch;
}

static bool is_same_change(const struct rota_layout_change *a, const struct rota_layout_change *b)
{
    return is_same_spread(a->from, b->from) && a->start == b->start && a->end == b->end;
}

static bool has_change(const struct rota_work_layout *layout)
{
    return layout->change.start != 0 || layout->change.end != 0;
}

static enum rota_code check_change(const struct rota_layout_change *change,
                                   struct rota_error *error)
{
    if (change->start <= 0 || change->end <= change->start ||
        change->end - change->start > ROTA_LAYOUT_CHANGE_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a gradual change must take more than 0 and at most %lld hours",
                              (long long)(ROTA_LAYOUT_CHANGE_MAX / ROTA_HOUR));
    return rota_spread_check(change->from, error);
}

enum rota_code rota_layout_check(const struct rota_work_layout *layout, struct rota_error *error)
{
    if (layout->write < 1 || layout->wanted < layout->write || layout->read < layout->wanted ||
        layout->read > ROTA_JOB_PARTITIONS_MAX)
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "a queue has 1 to %d partitions and must read all partitions that it writes",
            ROTA_JOB_PARTITIONS_MAX);
    enum rota_code code = rota_spread_check(layout->spread, error);
    return code || !has_change(layout) ? code : check_change(&layout->change, error);
}

bool rota_layout_is_equal(const struct rota_work_layout *a, const struct rota_work_layout *b)
{
    return a->wanted == b->wanted && a->write == b->write && a->read == b->read &&
           is_same_spread(a->spread, b->spread) && is_same_spread(a->change.from, b->change.from) &&
           a->change.start == b->change.start && a->change.end == b->change.end;
}

/* --- the first step --- */

bool rota_layout_is_changing(const struct rota_work_layout *layout, rota_time now)
{
    return has_change(layout) && now < layout->change.end;
}

static enum rota_code change_spread(const struct rota_layout_wish *wish, rota_time now,
                                    struct rota_work_layout *next, struct rota_error *error)
{
    struct rota_layout_change change = wish->change;
    bool is_same = is_same_spread(wish->spread, next->spread);
    if (is_same && (wish->gradual > 0 || (change.end && is_same_change(&change, &next->change))))
        return ROTA_OK;
    if (wish->gradual > 0)
        change = (struct rota_layout_change){
            .from = next->spread, .start = now, .end = rota_time_add(now, wish->gradual)};
    if (change.end && rota_layout_is_changing(next, now))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a gradual change to batch %u and mode %s takes %lld more seconds; "
                              "wait until it ends, or change the queue immediately",
                              next->spread.batch, rota_spread_mode_name(next->spread.mode),
                              (long long)((next->change.end - now) / ROTA_SEC + 1));
    next->change = change;
    next->spread = wish->spread;
    return ROTA_OK;
}

/* A request during another change may be between both counts: then there are two steps left. */
enum rota_code rota_layout_want(const struct rota_work_layout *layout,
                                const struct rota_layout_wish *wish, rota_time now,
                                struct rota_work_layout *next, struct rota_error *error)
{
    struct rota_work_layout made = *layout;
    made.wanted = wish->wanted ? wish->wanted : layout->wanted;
    if (made.wanted > made.read)
        made.read = made.wanted;
    if (made.wanted < made.write)
        made.write = made.wanted;
    enum rota_code code = wish->has_spread ? change_spread(wish, now, &made, error) : ROTA_OK;
    if (!code)
        code = rota_layout_check(&made, error);
    if (!code)
        *next = made;
    return code;
}

bool rota_layout_is_settled(const struct rota_work_layout *layout)
{
    return layout->write == layout->wanted && layout->read == layout->wanted;
}

uint32_t rota_layout_write(const struct rota_work_layout *layout, uint32_t partition)
{
    return partition < layout->write ? partition : partition % layout->write;
}

uint32_t rota_layout_read(const struct rota_work_layout *layout, uint32_t partition)
{
    return partition < layout->read ? partition : partition % layout->read;
}

/* --- the route --- */

struct rota_queue_config rota_layout_config(const struct rota_work_layout *layout)
{
    const struct rota_layout_change *change = &layout->change;
    bool is_gradual = has_change(layout);
    return (struct rota_queue_config){
        .write = layout->write,
        .read = layout->read,
        .batch = {.old_value = is_gradual ? change->from.batch : layout->spread.batch,
                  .new_value = layout->spread.batch,
                  .start = change->start,
                  .end = change->end},
        .mode = {.old_value = is_gradual ? change->from.mode : layout->spread.mode,
                 .new_value = layout->spread.mode,
                 .start = change->start,
                 .end = change->end},
    };
}

struct rota_partition rota_layout_partition(struct rota_str queue, uint32_t partition)
{
    return (struct rota_partition){.namespace_id = rota_str("default"),
                                   .queue = queue,
                                   .type = ROTA_TASK_WORKFLOW,
                                   .id = partition};
}

void rota_layout_route(const struct rota_work_layout *layout, const struct rota_ring *ring,
                       struct rota_str queue, rota_time now, uint32_t n, uint32_t *hosts)
{
    const struct rota_queue_config config = rota_layout_config(layout);
    struct rota_partition one = rota_layout_partition(queue, 0);
    struct rota_route_key key;
    rota_route_all(ring, &one, layout->spread, n, hosts);
    for (uint32_t i = 0; i < n && rota_layout_is_changing(layout, now); i++) {
        one.id = i;
        rota_partition_route_key(&one, 0, &key);
        struct rota_spread spread =
            rota_queue_config_spread(&config, rota_str_of(key.text, key.size), now);
        if (!is_same_spread(spread, layout->spread))
            hosts[i] = rota_route(ring, &one, spread);
    }
}

/* --- the second step --- */

void rota_layout_fsm_follow_layout(struct rota_layout_fsm *fsm, rota_time now,
                                   const struct rota_work_layout *layout, rota_time at)
{
    if (fsm->at == at && rota_layout_is_equal(&fsm->layout, layout))
        return;
    fsm->layout = *layout;
    fsm->at = at;
    fsm->ask_at = now;
    fsm->is_asking = false;
    fsm->n_rounds = 0;
}

void rota_layout_fsm_rest(struct rota_layout_fsm *fsm)
{
    *fsm = (struct rota_layout_fsm){.round = fsm->round}; /* late answers are known by it */
}

bool rota_layout_fsm_ask(struct rota_layout_fsm *fsm, rota_time now, size_t n)
{
    if (fsm->is_asking || now < fsm->ask_at || rota_layout_is_settled(&fsm->layout))
        return false;
    fsm->round++;
    fsm->n_awaited = n;
    fsm->is_asking = fsm->is_known = fsm->is_empty = true;
    return true;
}

/* Two that were made at the same time may differ. */
void rota_layout_fsm_answer(struct rota_layout_fsm *fsm, uint64_t round,
                            const struct rota_work_layout *layout, rota_time at, uint64_t n_beyond)
{
    if (!fsm->is_asking || round != fsm->round || fsm->n_awaited == 0)
        return;
    fsm->n_awaited--;
    fsm->is_known &= layout && at == fsm->at && rota_layout_is_equal(layout, &fsm->layout);
    fsm->is_empty &= n_beyond == 0;
}

bool rota_layout_fsm_is_answered(const struct rota_layout_fsm *fsm)
{
    return fsm->is_asking && fsm->n_awaited == 0;
}

bool rota_layout_fsm_step(struct rota_layout_fsm *fsm, rota_time now, uint64_t n_beyond,
                          struct rota_work_layout *next)
{
    bool is_growing = fsm->layout.write < fsm->layout.wanted;
    if (!rota_layout_fsm_is_answered(fsm))
        return false;
    fsm->is_asking = false;
    fsm->ask_at = rota_time_add(now, ROTA_LAYOUT_ASK);
    bool is_well = fsm->is_known && (is_growing || (fsm->is_empty && n_beyond == 0));
    fsm->n_rounds = is_well ? fsm->n_rounds + 1 : 0;
    if (fsm->n_rounds < (is_growing ? 1 : ROTA_LAYOUT_ROUNDS))
        return false;
    *next = fsm->layout;
    if (is_growing)
        next->write = next->wanted;
    else
        next->read = next->wanted;
    return true;
}

rota_time rota_layout_fsm_deadline(const struct rota_layout_fsm *fsm)
{
    if (fsm->is_asking || fsm->at == 0 || rota_layout_is_settled(&fsm->layout))
        return ROTA_TIME_NEVER;
    return fsm->ask_at;
}
