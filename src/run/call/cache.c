#include "run/call/cache.h"

#include "io/clock.h"
#include "wire/grpc/grpc.h"

#include <stdlib.h>

struct rota_cache {
    struct rota_cache_options options;
    struct rota_lru lru;
    struct rota_loads loads;
    struct rota_list_node reads;
    uint32_t generation;
    uint64_t n_failed;
    bool is_pumping;
    ROTA_VECTOR(struct rota_str) hits; /* scratch: cached values of a batch */
};

/* A batch that waits for some of its keys. */
struct job {
    struct rota_load_asker asker;
    struct rota_get_batch *batch;
    size_t n_bytes;
};

static const char NONE[] = ""; /* in the place of a value: there is none, or not yet */

/* --- batches --- */

static struct job *job_of(struct rota_load_asker *asker)
{
    return (struct job *)(void *)((char *)asker - offsetof(struct job, asker));
}

static void end_job(struct job *job)
{
    struct rota_get_batch *batch = job->batch;
    free(job);
    rota_get_batch_finish(batch);
}

static void fail_job(struct rota_cache *cache, struct job *job, enum rota_status status,
                     const char *text)
{
    struct rota_get_batch *batch = job->batch;
    rota_loads_forget(&cache->loads, &job->asker);
    free(job);
    rota_get_batch_fail(batch, status, text);
}

/* The answer is full: its client requests the rest again. */
static void end_full(struct rota_cache *cache, struct job *job)
{
    rota_loads_forget(&cache->loads, &job->asker);
    rota_get_batch_leave_rest(job->batch);
    end_job(job);
}

static bool fits_answer(size_t n_bytes, struct rota_str value)
{
    return n_bytes == 0 ||
           (n_bytes <= ROTA_CACHE_ANSWER_MAX && value.size <= ROTA_CACHE_ANSWER_MAX - n_bytes);
}

/* A value for one key of a waiting job; false when there is no room for it. */
static bool give_value(struct job *job, uint32_t index, struct rota_str value)
{
    if (!fits_answer(job->n_bytes, value))
        return false;
    job->n_bytes += value.size;
    rota_get_batch_put(job->batch, index, rota_get_batch_copy(job->batch, value));
    return true;
}

/* --- reads --- */

static void end_read(struct rota_cache_read *read)
{
    rota_list_remove(&read->link);
    free(read);
}

static void pump_loads(struct rota_cache *cache)
{
    struct rota_load_read *load;
    if (cache->is_pumping)
        return; /* a source that answers at once; the loop below continues */
    cache->is_pumping = true;
    while ((load = rota_loads_begin(&cache->loads))) {
        struct rota_cache_read *read = calloc(1, sizeof *read);
        struct rota_cache_read failed = {.cache = cache, .read = load};
        if (read) {
            *read = failed;
            read->generation = cache->generation;
            load->data = read;
            rota_list_push(&cache->reads, &read->link);
            cache->options.source->read(cache->options.source, read);
            continue;
        }
        struct rota_str name;
        uint32_t index;
        struct rota_load_asker *asker;
        while ((asker = rota_loads_next_asker_left(&cache->loads, load, &name, &index)))
            fail_job(cache, job_of(asker), ROTA_STATUS_RESOURCE_EXHAUSTED,
                     "not enough memory to read");
        rota_loads_end(&cache->loads, load);
    }
    cache->is_pumping = false;
}

static void keep_value(struct rota_cache_read *read, struct rota_str key,
                       const struct rota_str *value)
{
    struct rota_cache *cache = read->cache;
    rota_time span = cache->options.keep;
    if (span == 0 || read->generation != cache->generation)
        return;
    if (!value && span != ROTA_TIME_NEVER)
        span /= ROTA_CACHE_ABSENT_PART;
    rota_lru_put(&cache->lru, key, value, rota_time_add(rota_clock_mono(), span));
}

void rota_cache_read_value(struct rota_cache_read *read, struct rota_str key, struct rota_str value)
{
    struct rota_cache *cache = read->cache;
    struct rota_load_asker *asker;
    uint32_t index;
    keep_value(read, key, &value);
    while ((asker = rota_loads_next_asker(&cache->loads, read->read, key, &index))) {
        if (!give_value(job_of(asker), index, value))
            end_full(cache, job_of(asker));
        else if (asker->n_waiting == 0)
            end_job(job_of(asker));
    }
}

void rota_cache_read_refuse(struct rota_cache_read *read, struct rota_str key, const char *text)
{
    struct rota_cache *cache = read->cache;
    struct rota_load_asker *asker;
    uint32_t index;
    while ((asker = rota_loads_next_asker(&cache->loads, read->read, key, &index))) {
        rota_get_batch_refuse(job_of(asker)->batch, index, text);
        if (asker->n_waiting == 0)
            end_job(job_of(asker));
    }
}

/* The key itself is wrong, and any replica would reject it. */
static bool is_refusal(const struct rota_error *error)
{
    return error->code == ROTA_ERR_LIMIT || error->code == ROTA_ERR_INVALID;
}

/* Settle the askers of keys without an answer: they are absent, or the read has failed. */
static void settle_rest(struct rota_cache_read *read, const struct rota_error *error)
{
    struct rota_cache *cache = read->cache;
    struct rota_load_asker *asker;
    struct rota_str name, kept = {NONE, 0};
    uint32_t index;
    while ((asker = rota_loads_next_asker_left(&cache->loads, read->read, &name, &index))) {
        if (error && !is_refusal(error)) {
            /* Whatever happened, the read can be repeated elsewhere. */
            enum rota_code code =
                error->code == ROTA_ERR_NO_MEMORY ? error->code : ROTA_ERR_UNAVAILABLE;
            fail_job(cache, job_of(asker), rota_grpc_status_of_code(code), error->text);
            continue;
        }
        if (error)
            rota_get_batch_refuse(job_of(asker)->batch, index, error->text);
        else if (kept.data != name.data)
            keep_value(read, name, NULL);
        kept = name;
        if (asker->n_waiting == 0)
            end_job(job_of(asker));
    }
}

/* A key that a database can't even compare fails the whole read, as does one whose value leaves
 * no room for the others: then each is read alone. */
static bool is_splitting(const struct rota_cache_read *read, const struct rota_error *error)
{
    return error && is_refusal(error) && read->read->keys.size > 1;
}

void rota_cache_read_done(struct rota_cache_read *read, const struct rota_error *error)
{
    struct rota_cache *cache = read->cache;
    cache->n_failed += error != NULL;
    if (is_splitting(read, error)) {
        rota_loads_split(&cache->loads, read->read);
    } else {
        settle_rest(read, error);
        rota_loads_end(&cache->loads, read->read);
    }
    end_read(read);
    pump_loads(cache);
}

/* --- the cache --- */

enum rota_code rota_cache_open(const struct rota_cache_options *options, struct rota_cache **cache,
                               struct rota_error *error)
{
    struct rota_loads_options bounds = {.waits_max = ROTA_CACHE_WAITS_MAX,
                                        .keys_max = ROTA_CACHE_READ_KEYS_MAX,
                                        .reads_max = ROTA_CACHE_READS_MAX};
    struct rota_cache *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for a cache");
    made->options = *options;
    rota_lru_init(&made->lru, options->memory, 0, options->seed);
    rota_loads_init(&made->loads, &bounds, options->seed);
    rota_list_init(&made->reads);
    *cache = made;
    return ROTA_OK;
}

void rota_cache_close(struct rota_cache *cache)
{
    if (!cache)
        return;
    for (struct rota_list_node *link; (link = rota_list_first(&cache->reads));) {
        struct rota_cache_read *read = ROTA_LIST_ITEM(link, struct rota_cache_read, link);
        rota_loads_end(&cache->loads, read->read);
        end_read(read);
    }
    rota_loads_deinit(&cache->loads);
    rota_lru_deinit(&cache->lru);
    rota_vector_deinit(&cache->hits);
    free(cache);
}

static struct rota_str key_at(const struct rota_get_batch *batch, size_t index)
{
    return *(const struct rota_str *)rota_get_batch_key(batch, index);
}

/* Look all keys up in memory; returns how many are missing, whose place in `hits` is NULL. A key
 * that is too long is rejected, and not read. */
static size_t look_up_batch(struct rota_cache *cache, struct rota_get_batch *batch)
{
    size_t n = rota_get_batch_n_keys(batch), n_misses = 0;
    rota_time now = rota_clock_mono();
    for (size_t i = 0; i < n; i++) {
        struct rota_str value = {NONE, 0};
        if (key_at(batch, i).size > ROTA_CACHE_KEY_MAX) {
            rota_get_batch_refuse(batch, i, "a key has more than 4096 bytes");
            cache->hits.items[i] = value;
            continue;
        }
        switch (rota_lru_get(&cache->lru, now, key_at(batch, i), &value)) {
        case ROTA_LRU_VALUE:
        case ROTA_LRU_ABSENT:
            break;
        case ROTA_LRU_MISS:
            value.data = NULL;
            n_misses++;
            break;
        }
        cache->hits.items[i] = value;
    }
    return n_misses;
}

/* All is in memory. Values stay where they are until the answer is written, which is
 * now. */
static void answer_hits(struct rota_cache *cache, struct rota_get_batch *batch)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < rota_get_batch_n_keys(batch); i++) {
        struct rota_str value = cache->hits.items[i];
        if (value.data == NONE)
            continue;
        if (!fits_answer(n_bytes, value)) {
            rota_get_batch_leave_rest(batch);
            break;
        }
        n_bytes += value.size;
        rota_get_batch_put(batch, i, value);
    }
    rota_get_batch_finish(batch);
}

/* Cached values are copied, since they may be evicted before the rest arrives. */
static void answer_later(struct rota_cache *cache, struct rota_get_batch *batch)
{
    struct job *job = calloc(1, sizeof *job);
    const char *problem = job ? NULL : "not enough memory for the reply";
    bool is_full = false;
    if (!job) {
        rota_get_batch_fail(batch, ROTA_STATUS_RESOURCE_EXHAUSTED, problem);
        return;
    }
    job->batch = batch;
    rota_get_batch_set_data(batch, job);
    for (size_t i = 0; !problem && !is_full && i < rota_get_batch_n_keys(batch); i++) {
        struct rota_str value = cache->hits.items[i];
        if (!value.data &&
            rota_loads_ask(&cache->loads, key_at(batch, i), &job->asker, (uint32_t)i))
            problem = "too many keys are pending here";
        is_full = value.data && value.data != NONE && !give_value(job, (uint32_t)i, value);
    }
    if (problem)
        fail_job(cache, job, ROTA_STATUS_RESOURCE_EXHAUSTED, problem);
    else if (is_full)
        end_full(cache, job);
    else
        pump_loads(cache);
}

void rota_cache_answer(struct rota_cache *cache, struct rota_get_batch *batch)
{
    size_t n = rota_get_batch_n_keys(batch);
    rota_get_batch_set_data(batch, NULL);
    if (!rota_vector_reserve(&cache->hits, n)) {
        rota_get_batch_fail(batch, ROTA_STATUS_RESOURCE_EXHAUSTED,
                            "not enough memory for the reply");
        return;
    }
    if (look_up_batch(cache, batch) == 0)
        answer_hits(cache, batch);
    else
        answer_later(cache, batch);
}

void rota_cache_cancel(struct rota_cache *cache, struct rota_get_batch *batch)
{
    struct job *job = rota_get_batch_data(batch);
    if (job)
        fail_job(cache, job, ROTA_STATUS_CANCELLED, "the caller disconnected");
}

void rota_cache_outdate(struct rota_cache *cache)
{
    cache->generation++;
    rota_lru_outdate(&cache->lru);
}

struct rota_cache_counts rota_cache_counts(const struct rota_cache *cache)
{
    return (struct rota_cache_counts){
        .memory = cache->lru.stats,
        .n_entries = rota_lru_n_entries(&cache->lru),
        .n_bytes = rota_lru_n_bytes(&cache->lru),
        .n_asked = cache->loads.n_asked,
        .n_loaded = cache->loads.n_loaded,
        .n_failed = cache->n_failed,
    };
}
