#include "core/work/job/job_table.h"

enum { PIECE = 4096, BUCKETS_MIN = 64, CACHE_LINE = 64, HALF = ROTA_JOB_FORESEEN / 2 };

/* Buckets per job: chains are short then, since reading another job is a cache miss. The index
 * shrinks when there are twice as many, so that it does not follow every job that comes and
 * goes. Each job pays for its own buckets, one step for each. */
enum { PLACES = 4, PLACES_MAX = 2 * PLACES };

_Static_assert(sizeof(struct rota_job) == 88, "a job is small");
_Static_assert(sizeof(struct rota_job_extra) == 256, "what is found by a shift");

void rota_job_table_init(struct rota_job_table *table, uint64_t seed)
{
    *table = (struct rota_job_table){0};
    for (int i = 0; i < 2; i++) {
        seed += 0x9e3779b97f4a7c15u;
        table->seeds[i] = (seed ^ seed >> 29) * 0xbf58476d1ce4e5b9u;
    }
    rota_slab_init(&table->jobs, sizeof(struct rota_job));
    rota_slab_init(&table->extras, sizeof(struct rota_job_extra));
    rota_blocks_init(&table->blocks);
}

void rota_job_table_deinit(struct rota_job_table *table)
{
    rota_slab_deinit(&table->jobs);
    rota_slab_deinit(&table->extras);
    rota_blocks_deinit(&table->blocks);
    for (size_t i = 0; i < table->buckets.size; i++)
        free(table->buckets.items[i]);
    rota_vector_deinit(&table->buckets);
}

/* --- the index --- */

static uint32_t *bucket_at(const struct rota_job_table *table, size_t index)
{
    return &table->buckets.items[index / PIECE][index % PIECE];
}

static size_t bucket_of(const struct rota_job_table *table, uint32_t hash)
{
    size_t index = hash & (table->n_buckets - 1);
    return index < table->n_split ? hash & (2 * table->n_buckets - 1) : index;
}

static bool begin_index(struct rota_job_table *table)
{
    if (table->n_buckets > 0)
        return true;
    uint32_t *piece = calloc(PIECE, sizeof *piece);
    if (!piece || !rota_vector_push(&table->buckets, piece)) {
        free(piece);
        return false;
    }
    table->n_buckets = BUCKETS_MIN;
    return true;
}

/* Move the jobs of bucket `from` that belong elsewhere by now. */
static void move_chain(struct rota_job_table *table, size_t from)
{
    uint32_t number = *bucket_at(table, from);
    *bucket_at(table, from) = 0;
    while (number) {
        struct rota_job *job = rota_job_at(table, number);
        uint32_t next = job->id_next, *bucket = bucket_at(table, bucket_of(table, job->hash));
        job->id_next = *bucket;
        *bucket = number;
        number = next;
    }
}

/* Prefetch the `nth` job of a bucket, from 0, which is needed soon; those before it are in the
 * cache. Inline, because a compiler may drop the call of a function that only prefetches. */
__attribute__((always_inline)) static inline void prefetch_nth(const struct rota_job_table *table,
                                                               size_t bucket, int nth)
{
    uint32_t number = *bucket_at(table, bucket);
    for (; number && nth > 0; nth--)
        number = rota_job_at(table, number)->id_next;
    if (!number)
        return;
    const struct rota_job *job = rota_job_at(table, number);
    __builtin_prefetch(&job->id_next, 1);
    __builtin_prefetch((const char *)(&job->id + 1) - 1, 1); /* perhaps in the next line */
}

/* ... and the extra of the first one. */
__attribute__((always_inline)) static inline void fetch_extra(const struct rota_job_table *table,
                                                              size_t bucket)
{
    uint32_t number = *bucket_at(table, bucket);
    uint32_t extra = number ? rota_job_at(table, number)->extra : 0;
    for (size_t i = 0; extra && i < sizeof(struct rota_job_extra); i += CACHE_LINE)
        __builtin_prefetch((const char *)rota_job_extra_at(table, extra) + i, 1);
}

/* Buckets are split one after the other: prefetch the next ones. */
__attribute__((always_inline)) static inline void fetch_splits(const struct rota_job_table *table,
                                                               size_t from)
{
    for (int nth = 0; nth < 3; nth++) {
        size_t bucket = from + (size_t)(3 - nth) * HALF;
        if (bucket < table->n_buckets)
            prefetch_nth(table, bucket, nth);
    }
}

/* Without memory chains get longer, that is all. */
static void grow_index(struct rota_job_table *table)
{
    size_t fresh = table->n_buckets + table->n_split;
    if (fresh / PIECE == table->buckets.size) {
        uint32_t *piece = calloc(PIECE, sizeof *piece);
        if (!piece || !rota_vector_push(&table->buckets, piece)) {
            free(piece);
            return;
        }
    }
    size_t from = table->n_split++;
    fetch_splits(table, from);
    move_chain(table, from);
    if (table->n_split == table->n_buckets) {
        table->n_buckets *= 2;
        table->n_split = 0;
    }
}

static void shrink_index(struct rota_job_table *table)
{
    if (table->n_split == 0) {
        if (table->n_buckets == BUCKETS_MIN)
            return;
        table->n_buckets /= 2;
        table->n_split = table->n_buckets;
    }
    table->n_split--;
    size_t last = table->n_buckets + table->n_split;
    move_chain(table, last);
    if (last % PIECE == 0 && last > 0)
        free(table->buckets.items[--table->buckets.size]);
}

uint32_t rota_job_table_add(struct rota_job_table *table, struct rota_job_id id)
{
    uint32_t number;
    struct rota_job *job = begin_index(table) ? rota_slab_take(&table->jobs, &number) : NULL;
    if (!job)
        return 0;
    uint32_t hash = rota_job_table_hash(table, id);
    uint32_t *bucket = bucket_at(table, bucket_of(table, hash));
    *job = (struct rota_job){.id = id, .hash = hash, .id_next = *bucket};
    *bucket = number;
    for (int i = 0; i < PLACES && PLACES * table->jobs.n_used > table->n_buckets + table->n_split;
         i++)
        grow_index(table);
    return number;
}

static void leave_list(struct rota_job_table *table, struct rota_job *job)
{
    if (!job->record)
        return;
    if (job->older)
        rota_job_at(table, job->older)->newer = job->newer;
    else
        table->oldest = job->newer;
    if (job->newer)
        rota_job_at(table, job->newer)->older = job->older;
    else
        table->newest = job->older;
    job->newer = job->older = 0;
    job->record = 0;
}

void rota_job_table_remove(struct rota_job_table *table, uint32_t number)
{
    struct rota_job *job = rota_job_at(table, number);
    uint32_t *link = bucket_at(table, bucket_of(table, job->hash));
    while (*link != number)
        link = &rota_job_at(table, *link)->id_next;
    *link = job->id_next;
    leave_list(table, job);
    rota_job_table_drop_extra(table, number);
    job->state = ROTA_JOB_NO_JOB;
    rota_slab_give(&table->jobs, number);
    for (int i = 0;
         i < PLACES_MAX && PLACES_MAX * table->jobs.n_used < table->n_buckets + table->n_split; i++)
        shrink_index(table);
}

struct rota_job_extra *rota_job_table_need_extra(struct rota_job_table *table, uint32_t number)
{
    struct rota_job *job = rota_job_at(table, number);
    if (job->extra)
        return rota_job_extra_at(table, job->extra);
    struct rota_job_extra *extra = rota_slab_take(&table->extras, &job->extra);
    if (!extra)
        return NULL;
    *extra = (struct rota_job_extra){
        .job = number,
        .wait_until = ROTA_TIME_NEVER,
        .deadline_at = ROTA_TIME_NEVER,
        .attempt_until = ROTA_TIME_NEVER,
        .lease_until = ROTA_TIME_NEVER,
    };
    return extra;
}

void rota_job_table_drop_extra(struct rota_job_table *table, uint32_t number)
{
    struct rota_job *job = rota_job_at(table, number);
    if (job->extra)
        rota_slab_give(&table->extras, job->extra);
    job->extra = 0;
}

static uint32_t find_from(const struct rota_job_table *table, uint32_t number,
                          struct rota_job_id id)
{
    while (number) {
        const struct rota_job *job = rota_job_at(table, number);
        if (job->id.low == id.low && job->id.high == id.high)
            break;
        number = job->id_next;
    }
    return number;
}

uint32_t rota_job_table_find(const struct rota_job_table *table, struct rota_job_id id)
{
    if (table->n_buckets == 0)
        return 0;
    return find_from(table, *bucket_at(table, bucket_of(table, rota_job_table_hash(table, id))),
                     id);
}

uint32_t rota_job_table_find_next(const struct rota_job_table *table, uint32_t number)
{
    const struct rota_job *job = rota_job_at(table, number);
    return find_from(table, job->id_next, job->id);
}

void rota_job_table_foresee(struct rota_job_table *table, struct rota_job_id id)
{
    if (table->n_buckets == 0)
        return;
    unsigned at = table->n_foreseen++;
    uint32_t hash = rota_job_table_hash(table, id);
    __builtin_prefetch(bucket_at(table, bucket_of(table, hash)), 1);
    /* The bucket of the id half as far ahead is in the cache by now, and the first job of the
     * nearest. */
    prefetch_nth(table, bucket_of(table, table->foreseen[(at + HALF) % ROTA_JOB_FORESEEN]), 0);
    uint32_t *before = &table->foreseen[at % ROTA_JOB_FORESEEN];
    fetch_extra(table, bucket_of(table, *before));
    *before = hash;
}

void rota_job_table_fetch_place(const struct rota_job_table *table, uint32_t hash)
{
    if (table->n_buckets > 0)
        __builtin_prefetch(bucket_at(table, bucket_of(table, hash)), 1);
}

void rota_job_table_fetch_others(const struct rota_job_table *table, uint32_t hash)
{
    if (table->n_buckets > 0)
        prefetch_nth(table, bucket_of(table, hash), 0);
}

uint32_t rota_job_table_next(const struct rota_job_table *table, uint32_t number)
{
    do
        number = rota_slab_next(&table->jobs, number);
    while (number && rota_job_at(table, number)->state == ROTA_JOB_NO_JOB);
    return number;
}

void rota_job_table_put_newest(struct rota_job_table *table, uint32_t number, uint64_t record)
{
    struct rota_job *job = rota_job_at(table, number);
    leave_list(table, job);
    job->record = record;
    job->older = table->newest;
    if (table->newest)
        rota_job_at(table, table->newest)->newer = number;
    else
        table->oldest = number;
    table->newest = number;
}

size_t rota_job_table_bytes(const struct rota_job_table *table)
{
    return rota_slab_bytes(&table->jobs) + rota_slab_bytes(&table->extras) +
           rota_blocks_bytes(&table->blocks) + table->bytes +
           table->buckets.size * rota_job_block(PIECE * sizeof(uint32_t)) +
           table->buckets.capacity * sizeof *table->buckets.items;
}
