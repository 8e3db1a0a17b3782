#include "core/work/broker/broker_inside.h"

#include "base/quote.h"

#include <string.h>

enum { ID_SIZE = 16 };

static bool is_same_id(struct rota_job_id a, struct rota_job_id b)
{
    return a.high == b.high && a.low == b.low;
}

static struct rota_str queue_name(const struct rota_broker *broker, uint32_t queue)
{
    return rota_broker_queue_name(broker->queues.all.items[queue]);
}

static size_t find_chunk(const struct rota_broker *broker, struct rota_job_id name)
{
    size_t i = 0;
    while (i < broker->chunks.sent.size && !is_same_id(broker->chunks.sent.items[i]->name, name))
        i++;
    return i;
}

static struct rota_work_chunk *chunk_of(const struct rota_broker *broker, struct rota_job_id name)
{
    size_t i = find_chunk(broker, name);
    return i < broker->chunks.sent.size ? broker->chunks.sent.items[i] : NULL;
}

static int compare_ids(const void *a, const void *b)
{
    const struct rota_job_id *x = a, *y = b;
    if (x->high != y->high)
        return x->high < y->high ? -1 : 1;
    return x->low < y->low ? -1 : x->low > y->low;
}

static struct rota_job_id *find_id(struct rota_work_chunk *chunk, struct rota_job_id id)
{
    return bsearch(&id, chunk->ids, chunk->n_ids, sizeof id, compare_ids);
}

static bool is_of(const struct rota_work_chunk *chunk, const struct rota_work_queue *queue,
                  uint32_t partition)
{
    return chunk->queue == queue->number && chunk->partition == partition;
}

size_t rota_broker_chunk_n_jobs(const struct rota_broker *broker,
                                const struct rota_work_queue *queue, uint32_t partition)
{
    size_t n = 0;
    for (size_t i = 0; i < broker->chunks.sent.size; i++)
        if (is_of(broker->chunks.sent.items[i], queue, partition))
            n += broker->chunks.sent.items[i]->n_ids;
    return n;
}

bool rota_broker_chunk_has(const struct rota_broker *broker, const struct rota_work_queue *queue,
                           struct rota_job_id id)
{
    for (size_t i = 0; i < broker->chunks.sent.size; i++)
        if (broker->chunks.sent.items[i]->queue == queue->number &&
            find_id(broker->chunks.sent.items[i], id))
            return true;
    return false;
}

/* --- records --- */

static void put_id(char *bytes, struct rota_job_id id)
{
    for (int i = 0; i < 8; i++) {
        bytes[i] = (char)(id.high >> 8 * i);
        bytes[8 + i] = (char)(id.low >> 8 * i);
    }
}

static struct rota_job_id get_id(const char *bytes)
{
    struct rota_job_id id = {0, 0};
    for (int i = 7; i >= 0; i--) {
        id.high = id.high << 8 | (unsigned char)bytes[i];
        id.low = id.low << 8 | (unsigned char)bytes[8 + i];
    }
    return id;
}

/* Record the state of a chunk; without its address when it `is_over`. False when there is no
 * memory. */
static bool write_chunk(struct rota_broker *broker, struct rota_work_chunk *chunk, bool is_over)
{
    size_t size = chunk->n_ids * ID_SIZE;
    struct rota_str to = rota_arena_copy(&broker->output.arena, rota_str(chunk->to));
    struct rota_str queue =
        rota_arena_copy(&broker->output.arena, queue_name(broker, chunk->queue));
    char *bytes = rota_arena_take(&broker->output.arena, size + 1);
    if (!to.data || !queue.data || !bytes || !rota_broker_ready(broker, NULL))
        return false;
    for (size_t i = 0; i < chunk->n_ids; i++)
        put_id(bytes + i * ID_SIZE, chunk->ids[i]);
    struct rota_work_record *record = rota_broker_write(broker, ROTA_WORK_CHUNK, NULL);
    record->id = chunk->name;
    record->queue = queue;
    record->partition = chunk->partition;
    record->key = is_over ? rota_str_of("", 0) : to;
    record->bytes = is_over ? rota_str_of("", 0) : rota_str_of(bytes, size);
    chunk->number = record->number;
    return true;
}

static void drop_chunk(struct rota_broker *broker, size_t index)
{
    free(broker->chunks.sent.items[index]->to);
    free(broker->chunks.sent.items[index]);
    broker->chunks.sent.items[index] = broker->chunks.sent.items[--broker->chunks.sent.size];
}

void rota_broker_chunk_free_all(struct rota_broker *broker)
{
    while (broker->chunks.sent.size > 0)
        drop_chunk(broker, 0);
    rota_vector_deinit(&broker->chunks.sent);
    rota_vector_deinit(&broker->chunks.taken);
    rota_vector_deinit(&broker->chunks.coming.ids);
}

static struct rota_work_chunk *make_chunk(struct rota_broker *broker, struct rota_str to, size_t n)
{
    struct rota_work_chunk *chunk = calloc(1, sizeof *chunk + n * sizeof *chunk->ids);
    char *copy = malloc(to.size + 1);
    if (!chunk || !copy || !rota_vector_push(&broker->chunks.sent, chunk)) {
        free(chunk);
        free(copy);
        return NULL;
    }
    if (to.size > 0)
        memcpy(copy, to.data, to.size);
    copy[to.size] = '\0';
    chunk->to = copy;
    return chunk;
}

/* --- sending --- */

static size_t size_of(const struct rota_broker *broker, const struct rota_job *job)
{
    const struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    struct rota_job_spec spec;
    rota_broker_job_fill_spec(broker, job, &spec);
    return spec.payload.size + (extra ? extra->result_size : 0);
}

/* Some jobs from where the last chunk ended, or from the first one if that was the end. */
static size_t choose_chunk_jobs(const struct rota_broker *broker,
                                const struct rota_work_queue *queue,
                                struct rota_work_partition *own, struct rota_job_id *ids)
{
    size_t n = 0, bytes = 0;
    for (int round = 0; round < 2 && n == 0; round++) {
        uint32_t i = round == 0 ? own->place : 0;
        while (n < ROTA_BROKER_CHUNK_JOBS_MAX && (i = rota_job_table_next(&broker->jobs, i))) {
            const struct rota_job *job = rota_job_at(&broker->jobs, i);
            if (rota_job_partition(&broker->jobs, job) != own->number ||
                rota_broker_queue_of(broker, job) != queue ||
                rota_broker_chunk_has(broker, queue, job->id))
                continue;
            bytes += size_of(broker, job);
            if (n > 0 && bytes > ROTA_BROKER_CHUNK_BYTES_MAX)
                break;
            ids[n++] = job->id;
            own->place = i;
        }
    }
    qsort(ids, n, sizeof *ids, compare_ids);
    return n;
}

enum rota_code rota_broker_chunk_begin(struct rota_broker *broker, struct rota_work_now now,
                                       struct rota_str queue, uint32_t partition,
                                       struct rota_str to, struct rota_job_id *name,
                                       struct rota_error *error)
{
    struct rota_job_id ids[ROTA_BROKER_CHUNK_JOBS_MAX];
    char quoted[ROTA_QUOTE_MAX];
    rota_broker_at(broker, now);
    const struct rota_work_queue *found = rota_broker_queue(broker, queue);
    struct rota_work_partition *own = found ? rota_broker_partition(found, partition) : NULL;
    if (to.size == 0 || to.size > ROTA_JOB_KEY_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "not the address of a node");
    if (own && own->is_open)
        return rota_error_set(error, ROTA_ERR_INVALID, "partition %u of queue %s is open",
                              partition, rota_quote(queue, quoted));
    if (broker->chunks.sent.size >= ROTA_BROKER_CHUNKS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "%d chunks of jobs are already in handover",
                              ROTA_BROKER_CHUNKS_MAX);
    size_t n = own && own->n_jobs > 0 ? choose_chunk_jobs(broker, found, own, ids) : 0;
    if (n == 0)
        return rota_error_set(error, ROTA_ERR_NOT_FOUND, "partition %u of queue %s has no jobs",
                              partition, rota_quote(queue, quoted));
    enum rota_code code = rota_broker_node_note_receiver(broker, to, error);
    if (code)
        return code;
    struct rota_work_chunk *chunk = make_chunk(broker, to, n);
    if (!chunk)
        return rota_error_no_memory(error, "for a chunk of jobs");
    chunk->name = rota_job_id_make(now.wall, partition, rota_random_next(&broker->random));
    chunk->queue = found->number;
    chunk->partition = partition;
    chunk->n_ids = n;
    memcpy(chunk->ids, ids, n * sizeof *ids);
    if (!write_chunk(broker, chunk, false)) {
        drop_chunk(broker, broker->chunks.sent.size - 1);
        return rota_error_no_memory(error, "for a chunk of jobs");
    }
    *name = chunk->name;
    return ROTA_OK;
}

bool rota_broker_chunk_next(const struct rota_broker *broker, struct rota_job_id name,
                            size_t *place, struct rota_work_record *record)
{
    const struct rota_work_chunk *chunk = chunk_of(broker, name);
    while (chunk && *place < chunk->n_ids) {
        uint32_t job = rota_broker_queue_find_job(broker, queue_name(broker, chunk->queue),
                                                  chunk->ids[(*place)++]);
        if (!job)
            continue; /* it had ended, and is forgotten */
        size_t before = job - 1;
        return rota_broker_partition_next(broker, queue_name(broker, chunk->queue),
                                          chunk->partition, &before, record);
    }
    return false;
}

enum rota_code rota_broker_chunk_taken(struct rota_broker *broker, struct rota_work_now now,
                                       struct rota_job_id name, struct rota_error *error)
{
    struct rota_work_chunk *chunk = chunk_of(broker, name);
    rota_broker_at(broker, now);
    if (!chunk)
        return rota_error_set(error, ROTA_ERR_NOT_FOUND, "no such chunk");
    /* It may have reported in between that it holds none, and have restarted since. */
    enum rota_code code = rota_broker_node_note_receiver(broker, rota_str(chunk->to), error);
    if (code)
        return code;
    for (; chunk->n_ids > 0; chunk->n_ids--) {
        uint32_t job = rota_broker_queue_find_job(broker, queue_name(broker, chunk->queue),
                                                  chunk->ids[chunk->n_ids - 1]);
        if (!job)
            continue;
        if (!rota_broker_ready(broker, NULL))
            return rota_error_no_memory(error, "to delete jobs");
        const struct rota_job *gone = rota_job_at(&broker->jobs, job);
        uint64_t number = rota_broker_write(broker, ROTA_WORK_FORGET, gone)->number;
        rota_broker_tell(broker, gone, number);
        rota_broker_job_erase(broker, job);
    }
    if (!write_chunk(broker, chunk, false))
        return rota_error_no_memory(error, "to end a chunk");
    return ROTA_OK;
}

enum rota_code rota_broker_chunk_end(struct rota_broker *broker, struct rota_work_now now,
                                     struct rota_job_id name, struct rota_error *error)
{
    size_t index = find_chunk(broker, name);
    rota_broker_at(broker, now);
    if (index == broker->chunks.sent.size)
        return rota_error_set(error, ROTA_ERR_NOT_FOUND, "no such chunk");
    if (!write_chunk(broker, broker->chunks.sent.items[index], true))
        return rota_error_no_memory(error, "to end a chunk");
    drop_chunk(broker, index);
    return ROTA_OK;
}

enum rota_code rota_broker_chunks_forget(struct rota_broker *broker, struct rota_work_now now,
                                         struct rota_str to, bool is_dry_run, size_t *n_chunks,
                                         size_t *n_jobs, struct rota_error *error)
{
    *n_chunks = *n_jobs = 0;
    for (size_t i = 0; i < broker->chunks.sent.size;) {
        const struct rota_work_chunk *chunk = broker->chunks.sent.items[i];
        size_t n = chunk->n_ids;
        if (!rota_str_is_equal(rota_str(chunk->to), to)) {
            i++;
            continue;
        }
        enum rota_code code =
            is_dry_run ? ROTA_OK : rota_broker_chunk_end(broker, now, chunk->name, error);
        if (code)
            return code;
        i += is_dry_run; /* else another took its place */
        ++*n_chunks;
        *n_jobs += n;
    }
    return ROTA_OK;
}

bool rota_broker_chunk_undo(struct rota_broker *broker, const struct rota_work_queue *queue,
                            struct rota_job_id job)
{
    for (size_t i = 0; i < broker->chunks.sent.size; i++) {
        struct rota_work_chunk *chunk = broker->chunks.sent.items[i];
        struct rota_job_id *id = chunk->queue == queue->number ? find_id(chunk, job) : NULL;
        if (!id)
            continue;
        size_t index = (size_t)(id - chunk->ids);
        memmove(id, id + 1, (--chunk->n_ids - index) * sizeof *id);
        if (write_chunk(broker, chunk, false))
            return true;
        memmove(id + 1, id, (chunk->n_ids++ - index) * sizeof *id);
        *id = job;
        return false;
    }
    return true;
}

bool rota_broker_next_chunk(const struct rota_broker *broker, size_t *place,
                            struct rota_chunk_view *view)
{
    if (*place >= broker->chunks.sent.size)
        return false;
    const struct rota_work_chunk *chunk = broker->chunks.sent.items[(*place)++];
    *view = (struct rota_chunk_view){
        .name = chunk->name,
        .queue = queue_name(broker, chunk->queue),
        .to = rota_str(chunk->to),
        .partition = chunk->partition,
        .n_jobs = chunk->n_ids,
        .is_taken = chunk->n_ids == 0,
        .number = chunk->number,
    };
    return true;
}

/* --- receiving --- */

/* The state of a chunk of another broker, in a record. */
enum { TAKEN_HERE, TAKEN_OVER, TAKEN_GONE, TAKEN_COMING };

static size_t find_taken(const struct rota_broker *broker, struct rota_job_id name)
{
    size_t i = 0;
    while (i < broker->chunks.taken.size && !is_same_id(broker->chunks.taken.items[i].name, name))
        i++;
    return i;
}

static void write_taken(struct rota_broker *broker, struct rota_work_taken *taken, unsigned state)
{
    struct rota_work_record *record = rota_broker_write(broker, ROTA_WORK_TAKEN, NULL);
    record->id = taken->name;
    record->partition = rota_job_id_partition(taken->name);
    record->state = (enum rota_job_state)state;
    if (state == TAKEN_OVER)
        record->since = taken->over_at;
    taken->number = record->number;
}

static void drop_old(struct rota_broker *broker)
{
    for (size_t i = 0; i < broker->chunks.taken.size;) {
        struct rota_work_taken *taken = &broker->chunks.taken.items[i];
        bool is_old = taken->over_at && broker->stamp - taken->over_at > ROTA_BROKER_TAKEN_KEEP;
        if (!is_old || !rota_broker_ready(broker, NULL)) {
            i++;
            continue;
        }
        write_taken(broker, taken, TAKEN_GONE);
        *taken = broker->chunks.taken.items[--broker->chunks.taken.size];
    }
}

bool rota_broker_has_adopted(const struct rota_broker *broker, struct rota_job_id name,
                             uint64_t *number)
{
    size_t i = find_taken(broker, name);
    if (i == broker->chunks.taken.size)
        return false;
    *number = broker->chunks.taken.items[i].number;
    return true;
}

enum rota_code rota_broker_adopting(struct rota_broker *broker, struct rota_work_now now,
                                    struct rota_job_id name, struct rota_error *error)
{
    struct rota_work_taken taken = {.name = name};
    rota_broker_at(broker, now);
    if (rota_job_id_is_none(name) || chunk_of(broker, name) ||
        find_taken(broker, name) < broker->chunks.taken.size)
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "the chunk of jobs has no name, was received already, or belongs to this node");
    drop_old(broker);
    if (broker->chunks.taken.size >= ROTA_BROKER_TAKEN_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "%d chunks of jobs are already being received",
                              ROTA_BROKER_TAKEN_MAX);
    if (!rota_broker_chunk_drop_coming(broker) || !rota_broker_node_note_coming_back(broker) ||
        !rota_broker_ready(broker, NULL) ||
        !rota_vector_reserve(&broker->chunks.taken, broker->chunks.taken.size + 1))
        return rota_error_no_memory(error, "for a chunk of jobs");
    write_taken(broker, &taken, TAKEN_COMING);
    broker->chunks.coming.name = name;
    return ROTA_OK;
}

bool rota_broker_chunk_note_coming(struct rota_broker *broker, const struct rota_job *job)
{
    if (rota_job_id_is_none(broker->chunks.coming.name))
        return true;
    broker->chunks.coming.queue = rota_broker_lane_of(broker, job)->queue;
    return rota_vector_push(&broker->chunks.coming.ids, job->id);
}

bool rota_broker_chunk_drop_coming(struct rota_broker *broker)
{
    struct rota_work_coming *coming = &broker->chunks.coming;
    struct rota_work_taken taken = {.name = coming->name};
    if (rota_job_id_is_none(coming->name))
        return true;
    for (; coming->ids.size > 0; coming->ids.size--) {
        uint32_t job = rota_broker_queue_find_job(broker, queue_name(broker, coming->queue),
                                                  coming->ids.items[coming->ids.size - 1]);
        if (!job)
            continue;
        if (!rota_broker_ready(broker, NULL))
            return false;
        rota_broker_write(broker, ROTA_WORK_FORGET, rota_job_at(&broker->jobs, job));
        rota_broker_job_erase(broker, job);
    }
    if (!rota_broker_ready(broker, NULL))
        return false;
    write_taken(broker, &taken, TAKEN_GONE);
    coming->name = (struct rota_job_id){0, 0};
    return true;
}

void rota_broker_adopt_none(struct rota_broker *broker, struct rota_work_now now)
{
    rota_broker_at(broker, now);
    rota_broker_chunk_drop_coming(broker); /* without memory the next chunk, or life, does it */
}

enum rota_code rota_broker_adopted(struct rota_broker *broker, struct rota_work_now now,
                                   struct rota_job_id name, uint64_t *number,
                                   struct rota_error *error)
{
    struct rota_work_taken taken = {.name = name};
    rota_broker_at(broker, now);
    if (!is_same_id(broker->chunks.coming.name, name) || rota_job_id_is_none(name))
        return rota_error_set(error, ROTA_ERR_INVALID, "the chunk of jobs has not been started");
    if (!rota_broker_ready(broker, NULL) || !rota_vector_push(&broker->chunks.taken, taken))
        return rota_error_no_memory(error, "for a chunk of jobs");
    write_taken(broker, &broker->chunks.taken.items[broker->chunks.taken.size - 1], TAKEN_HERE);
    broker->chunks.coming.name = (struct rota_job_id){0, 0};
    broker->chunks.coming.ids.size = 0;
    *number = broker->journal.last_number;
    return ROTA_OK;
}

enum rota_code rota_broker_adopted_over(struct rota_broker *broker, struct rota_work_now now,
                                        struct rota_job_id name, uint64_t *number,
                                        struct rota_error *error)
{
    size_t i = find_taken(broker, name);
    rota_broker_at(broker, now);
    *number = 0;
    if (i == broker->chunks.taken.size)
        return ROTA_OK;
    struct rota_work_taken *taken = &broker->chunks.taken.items[i];
    if (!taken->over_at) {
        if (!rota_broker_ready(broker, NULL))
            return rota_error_no_memory(error, "to end a chunk");
        taken->over_at = broker->stamp ? broker->stamp : 1;
        write_taken(broker, taken, TAKEN_OVER);
    }
    *number = taken->number;
    return ROTA_OK;
}

/* --- the journal --- */

static enum rota_code cant_be(const struct rota_work_record *record, struct rota_error *error)
{
    return rota_error_set(error, ROTA_ERR_INVALID, "record %llu (%s) is invalid",
                          (unsigned long long)record->number,
                          rota_job_work_record_name(record->type));
}

enum rota_code rota_broker_chunk_read(struct rota_broker *broker,
                                      const struct rota_work_record *record,
                                      struct rota_error *error)
{
    struct rota_work_queue *queue;
    size_t index = find_chunk(broker, record->id), n = record->bytes.size / ID_SIZE;
    if (rota_job_id_is_none(record->id) || record->bytes.size % ID_SIZE ||
        n > ROTA_BROKER_CHUNK_JOBS_MAX || record->key.size > ROTA_JOB_KEY_MAX ||
        record->partition >= ROTA_JOB_PARTITIONS_MAX ||
        broker->chunks.sent.size > ROTA_BROKER_CHUNKS_MAX)
        return cant_be(record, error);
    enum rota_code code = rota_broker_queue_need(broker, record->queue, &queue, error);
    if (code)
        return code;
    if (index < broker->chunks.sent.size)
        drop_chunk(broker, index);
    if (record->key.size == 0)
        return ROTA_OK;
    struct rota_work_chunk *chunk = make_chunk(broker, record->key, n);
    if (!chunk)
        return rota_error_no_memory(error, "for a chunk of jobs");
    chunk->name = record->id;
    chunk->queue = queue->number;
    chunk->partition = record->partition;
    chunk->number = record->number;
    chunk->n_ids = n;
    for (size_t i = 0; i < n; i++)
        chunk->ids[i] = get_id(record->bytes.data + i * ID_SIZE);
    qsort(chunk->ids, n, sizeof *chunk->ids, compare_ids);
    return ROTA_OK;
}

enum rota_code rota_broker_chunk_read_taken(struct rota_broker *broker,
                                            const struct rota_work_record *record,
                                            struct rota_error *error)
{
    size_t index = find_taken(broker, record->id);
    struct rota_work_taken taken = {.name = record->id, .number = record->number};
    if (rota_job_id_is_none(record->id) || (unsigned)record->state > TAKEN_COMING ||
        broker->chunks.taken.size > ROTA_BROKER_TAKEN_MAX)
        return cant_be(record, error);
    broker->chunks.coming.ids.size = 0;
    broker->chunks.coming.name = (struct rota_job_id){0, 0};
    if ((unsigned)record->state == TAKEN_COMING) {
        broker->chunks.coming.name = record->id;
        return ROTA_OK;
    }
    if (index < broker->chunks.taken.size)
        broker->chunks.taken.items[index] = broker->chunks.taken.items[--broker->chunks.taken.size];
    if ((unsigned)record->state == TAKEN_OVER)
        taken.over_at = record->since > 0 ? record->since : 1;
    if ((unsigned)record->state != TAKEN_GONE && !rota_vector_push(&broker->chunks.taken, taken))
        return rota_error_no_memory(error, "for a chunk of jobs");
    return ROTA_OK;
}

bool rota_broker_chunk_rewrite_all(struct rota_broker *broker)
{
    for (size_t i = 0; i < broker->chunks.sent.size; i++)
        if (!write_chunk(broker, broker->chunks.sent.items[i], false))
            return false;
    for (size_t i = 0; i < broker->chunks.taken.size; i++) {
        struct rota_work_taken *taken = &broker->chunks.taken.items[i];
        if (!rota_broker_ready(broker, NULL))
            return false;
        write_taken(broker, taken, taken->over_at ? TAKEN_OVER : TAKEN_HERE);
    }
    return true;
}

/* --- partitions --- */

bool rota_broker_next_partition(const struct rota_broker *broker, size_t *place,
                                struct rota_partition_view *view)
{
    enum { SHIFT = 20 }; /* of the queue's number; partitions of a queue are fewer */
    size_t queue = *place >> SHIFT, index = *place & ((1 << SHIFT) - 1);
    for (; queue < broker->queues.all.size; queue++, index = 0) {
        const struct rota_work_queue *own = broker->queues.all.items[queue];
        if (!own || index >= own->partitions.size)
            continue;
        const struct rota_work_partition *partition = &own->partitions.items[index];
        *view = (struct rota_partition_view){
            .queue = rota_broker_queue_name(own),
            .partition = partition->number,
            .epoch = partition->epoch,
            .is_open = partition->is_open,
            .n_jobs = partition->n_jobs,
            .n_chunked = rota_broker_chunk_n_jobs(broker, own, partition->number),
        };
        *place = (queue << SHIFT) + index + 1;
        return true;
    }
    return false;
}
