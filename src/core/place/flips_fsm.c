#include "core/place/flips_fsm.h"

#include <assert.h>
#include <stdlib.h>

/* An instant at which a partition is to be checked. */
struct rota_flips_due {
    rota_time at;
    uint32_t partition;
};

enum {
    BATCH,
    MODE,
    DUES = 1 + ROTA_FLIPS_CHANGES, /* of one partition at most: at once, and each change's */
};

void rota_flips_fsm_init(struct rota_flips_fsm *fsm, const struct rota_partition *queue)
{
    assert(queue->kind == ROTA_PARTITION_NORMAL);
    *fsm = (struct rota_flips_fsm){.queue = *queue};
}

void rota_flips_fsm_deinit(struct rota_flips_fsm *fsm)
{
    free(fsm->told);
    free(fsm->dues);
    *fsm = (struct rota_flips_fsm){0};
}

enum rota_code rota_flips_fsm_reserve(struct rota_flips_fsm *fsm, int64_t n,
                                      struct rota_error *error)
{
    assert(n >= 0 && n <= ROTA_PARTITIONS_MAX);
    if (n <= fsm->room)
        return ROTA_OK;
    struct rota_spread *told = realloc(fsm->told, (size_t)n * sizeof *told);
    if (told)
        fsm->told = told;
    struct rota_flips_due *dues = realloc(fsm->dues, (size_t)n * DUES * sizeof *dues);
    if (dues)
        fsm->dues = dues;
    if (!told || !dues)
        return rota_error_no_memory(error, "for the changes of %lld partitions", (long long)n);
    fsm->room = n;
    return ROTA_OK;
}

/* --- one partition --- */

static struct rota_str key_of(const struct rota_flips_fsm *fsm, int64_t partition,
                              struct rota_route_key *key)
{
    struct rota_partition one = fsm->queue;
    one.id = partition;
    rota_partition_route_key(&one, 0, key);
    return rota_str_of(key->text, key->size);
}

/* How a partition is routed, when each change was last checked. */
static struct rota_spread spread_of(const struct rota_flips_fsm *fsm, struct rota_str key)
{
    return (struct rota_spread){
        .mode =
            (enum rota_spread_mode)rota_gradual_value(&fsm->changes[MODE], key, fsm->seen_at[MODE]),
        .batch = (uint32_t)rota_gradual_value(&fsm->changes[BATCH], key, fsm->seen_at[BATCH]),
    };
}

static bool is_same_spread(struct rota_spread a, struct rota_spread b)
{
    return a.mode == b.mode && a.batch == b.batch;
}

static void add_due(struct rota_flips_fsm *fsm, rota_time at, int64_t partition)
{
    assert(fsm->n_dues < (size_t)fsm->room * DUES);
    fsm->dues[fsm->n_dues++] = (struct rota_flips_due){at, (uint32_t)partition};
}

/* --- planning --- */

static int compare_dues(const void *a, const void *b)
{
    const struct rota_flips_due *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->partition > y->partition) - (x->partition < y->partition);
}

static void plan_one(struct rota_flips_fsm *fsm, int64_t partition, bool is_known)
{
    struct rota_route_key key;
    struct rota_str text = key_of(fsm, partition, &key);
    struct rota_spread spread = spread_of(fsm, text);

    if (!is_known)
        fsm->told[partition] = spread;
    else if (!is_same_spread(fsm->told[partition], spread))
        add_due(fsm, ROTA_TIME_MIN, partition);
    for (int i = 0; i < ROTA_FLIPS_CHANGES; i++) {
        const struct rota_gradual *change = &fsm->changes[i];
        if (change->old_value != change->new_value &&
            !rota_gradual_is_new(change, text, fsm->seen_at[i]))
            add_due(fsm, rota_gradual_when(change, text), partition);
    }
}

/* Find all future instants again; the routing of the first `n_known` partitions was reported. */
static void plan_flips(struct rota_flips_fsm *fsm, int64_t n_known)
{
    fsm->n_dues = fsm->next_due = 0;
    for (int64_t i = 0; i < fsm->n; i++)
        plan_one(fsm, i, i < n_known);
    if (fsm->n_dues > 0)
        qsort(fsm->dues, fsm->n_dues, sizeof *fsm->dues, compare_dues);
}

void rota_flips_fsm_set(struct rota_flips_fsm *fsm, rota_time now,
                        const struct rota_queue_config *config, int64_t n)
{
    const struct rota_gradual changes[] = {[BATCH] = config->batch, [MODE] = config->mode};
    int64_t n_known = n < fsm->n ? n : fsm->n;
    bool needs_plan = n > fsm->n; /* instants of removed partitions do no harm */
    assert(n >= 0 && n <= fsm->room);

    for (int i = 0; i < ROTA_FLIPS_CHANGES; i++) {
        bool is_other = fsm->n == 0 || !rota_gradual_is_equal(&fsm->changes[i], &changes[i]);
        if (is_other || now > fsm->seen_at[i])
            fsm->seen_at[i] = now;
        fsm->changes[i] = changes[i];
        needs_plan |= is_other;
    }
    fsm->n = n;
    if (needs_plan)
        plan_flips(fsm, n_known);
}

/* --- telling --- */

bool rota_flips_fsm_step(struct rota_flips_fsm *fsm, rota_time now, struct rota_flip *flip)
{
    for (int i = 0; i < ROTA_FLIPS_CHANGES; i++)
        if (now > fsm->seen_at[i])
            fsm->seen_at[i] = now;
    now = rota_time_min(fsm->seen_at[BATCH], fsm->seen_at[MODE]); /* what both have reached */
    while (fsm->next_due < fsm->n_dues && fsm->dues[fsm->next_due].at <= now) {
        int64_t partition = fsm->dues[fsm->next_due++].partition;
        struct rota_route_key key;
        if (partition >= fsm->n)
            continue;
        struct rota_spread before = fsm->told[partition];
        struct rota_spread spread = spread_of(fsm, key_of(fsm, partition, &key));
        if (!is_same_spread(before, spread)) {
            fsm->told[partition] = spread;
            *flip = (struct rota_flip){partition, before, spread};
            return true;
        }
    }
    return false;
}

rota_time rota_flips_fsm_deadline(const struct rota_flips_fsm *fsm)
{
    return fsm->next_due < fsm->n_dues ? fsm->dues[fsm->next_due].at : ROTA_TIME_NEVER;
}

struct rota_spread rota_flips_fsm_spread(const struct rota_flips_fsm *fsm, int64_t partition)
{
    assert(partition >= 0 && partition < fsm->n);
    return fsm->told[partition];
}
