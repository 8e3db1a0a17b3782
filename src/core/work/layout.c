#include "core/work/layout.h"

#include "core/work/job.h"

enum rota_code rota_layout_check(const struct rota_work_layout *layout, struct rota_error *error)
{
    if (layout->write < 1 || layout->wanted < layout->write || layout->read < layout->wanted ||
        layout->read > ROTA_JOB_PARTITIONS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a queue has 1 to %d partitions, and reads all that it writes to",
                              ROTA_JOB_PARTITIONS_MAX);
    return rota_spread_check(layout->spread, error);
}

bool rota_layout_is_equal(const struct rota_work_layout *a, const struct rota_work_layout *b)
{
    return a->wanted == b->wanted && a->write == b->write && a->read == b->read &&
           a->spread.mode == b->spread.mode && a->spread.batch == b->spread.batch;
}

bool rota_layout_is_later(const struct rota_work_layout *a, rota_time a_at,
                          const struct rota_work_layout *b, rota_time b_at)
{
    const uint64_t own[] = {a->wanted, a->write, a->read, a->spread.batch, a->spread.mode};
    const uint64_t other[] = {b->wanted, b->write, b->read, b->spread.batch, b->spread.mode};
    if (a_at != b_at)
        return a_at > b_at;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i] != other[i])
            return own[i] > other[i];
    return false;
}

/* A wish that comes while another is being carried out may be between both counts: then there
 * are two steps left. */
struct rota_work_layout rota_layout_want(struct rota_work_layout now, uint32_t wanted,
                                         struct rota_spread spread)
{
    now.wanted = wanted;
    now.spread = spread;
    if (wanted > now.read)
        now.read = wanted;
    if (wanted < now.write)
        now.write = wanted;
    return now;
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

/* --- the second step --- */

void rota_layout_fsm_look(struct rota_layout_fsm *fsm, rota_time now,
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
