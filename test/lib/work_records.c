#include "work_records.h"

static bool work_chance(struct work_room *room, double probability)
{
    return rota_random_chance(&room->random, probability);
}

/* A text of a few that come again and again, or of any bytes. */
static struct rota_str work_name(struct work_room *room)
{
    static const char *const names[] = {"mail",
                                        "video",
                                        "worker-1",
                                        "worker-2",
                                        "gpu",
                                        "eu",
                                        "a-queue-with-a-much-longer-name-than-the-others"};
    if (work_chance(room, 0.8))
        return rota_str(names[rota_random_below(&room->random, sizeof names / sizeof *names)]);
    char *text = room->text + room->used;
    size_t size = 1 + (size_t)rota_random_below(&room->random, 60);
    for (size_t i = 0; i < size; i++)
        text[i] = (char)(unsigned char)rota_random_next(&room->random);
    room->used += size;
    return rota_str_of(text, size);
}

static struct rota_str work_bytes(struct work_room *room, size_t max)
{
    char *text = room->text + room->used;
    size_t size = work_chance(room, 0.3) ? 0 : (size_t)rota_random_below(&room->random, max + 1);
    for (size_t i = 0; i < size; i++)
        text[i] = (char)(unsigned char)(rota_random_next(&room->random) >> 11);
    room->used += size;
    return rota_str_of(text, size);
}

rota_time work_time(struct work_room *room)
{
    if (work_chance(room, 0.3))
        return 0;
    if (work_chance(room, 0.05))
        return (rota_time)rota_random_next(&room->random);
    return 1780000000 * ROTA_SEC + (rota_time)rota_random_below(&room->random, ROTA_SEC);
}

uint64_t work_number(struct work_room *room, uint64_t max)
{
    return work_chance(room, 0.5) ? 0 : rota_random_below(&room->random, max);
}

static void work_spec_make(struct work_room *room, const struct rota_work_record *record)
{
    struct rota_job_spec *spec = &room->spec;
    *spec = (struct rota_job_spec){.id = record->id, .queue = record->queue};
    spec->partition = record->partition;
    spec->n_capabilities = (size_t)work_number(room, ROTA_JOB_CAPABILITIES_MAX + 1);
    for (size_t i = 0; i < spec->n_capabilities; i++)
        room->capabilities[i] = work_name(room);
    spec->capabilities = spec->n_capabilities ? room->capabilities : NULL;
    spec->payload = work_bytes(room, work_chance(room, 0.05) ? 40000 : 200);
    spec->priority = (int16_t)work_number(room, 65536);
    spec->not_before = work_time(room);
    spec->deadline = work_time(room);
    spec->timeout = work_time(room);
    spec->max_attempts = (uint32_t)work_number(room, ROTA_JOB_ATTEMPTS_MAX);
    spec->backoff = work_time(room);
    spec->backoff_max = work_time(room);
    spec->unique = work_bytes(room, ROTA_JOB_KEY_MAX);
    spec->key = work_chance(room, 0.5) ? work_name(room) : rota_str("");
    spec->trace = work_bytes(room, 20);
}

struct rota_work_record work_record_make(struct work_room *room, enum rota_work_record_type type,
                                         uint64_t number)
{
    room->used = 0;
    struct rota_work_record record = {.type = type, .number = number};
    record.id.high = work_number(room, UINT64_MAX);
    record.id.low = work_number(room, UINT64_MAX);
    record.at = work_time(room);
    record.since = work_time(room);
    record.attempt = work_number(room, UINT64_MAX);
    record.n_attempts = (uint32_t)work_number(room, 1000);
    record.state = (enum rota_job_state)work_number(room, ROTA_JOB_STATES);
    record.cause = (enum rota_job_cause)work_number(room, ROTA_JOB_CAUSE_HANDED_OVER + 1);
    record.not_before = work_time(room);
    record.priority = (int16_t)work_number(room, 65536);
    record.is_paused = work_chance(room, 0.3);
    record.weight = (uint32_t)work_number(room, UINT32_MAX);
    record.partition = work_chance(room, 0.5) ? rota_job_id_partition(record.id)
                                              : (uint32_t)work_number(room, UINT32_MAX);
    record.epoch = work_number(room, UINT64_MAX);
    record.tag = work_number(room, UINT64_MAX);
    record.lost = (uint32_t)work_number(room, ROTA_JOB_KEY_MAX);
    record.queue = work_chance(room, 0.9) ? work_name(room) : rota_str("");
    record.key = work_chance(room, 0.3) ? work_name(room) : rota_str("");
    record.worker = work_chance(room, 0.3) ? work_name(room) : rota_str("");
    record.reason = work_bytes(room, 100);
    record.bytes = work_bytes(room, 100);
    if (type == ROTA_WORK_ADD || type == ROTA_WORK_JOB) {
        work_spec_make(room, &record);
        record.spec = &room->spec;
    }
    if (type == ROTA_WORK_LAYOUT) {
        uint32_t n = 1 + (uint32_t)work_number(room, 1000);
        room->layout = (struct rota_work_layout){
            .wanted = n, .write = n, .read = n + (uint32_t)work_number(room, 100)};
        room->layout.spread.batch = (uint32_t)work_number(room, 64);
        if (work_chance(room, 0.5))
            room->layout.change = (struct rota_layout_change){
                .from = {.mode = work_chance(room, 0.5) ? ROTA_SPREAD_SLOTS : ROTA_SPREAD_LOOKUP,
                         .batch = (uint32_t)work_number(room, 64)},
                .start = 1 + (rota_time)work_number(room, UINT32_MAX),
                .end = (rota_time)UINT32_MAX + 2};
        record.layout = &room->layout;
    }
    return record;
}

static bool work_id_is_equal(struct rota_job_id a, struct rota_job_id b)
{
    return a.high == b.high && a.low == b.low;
}

static bool work_spec_is_equal(const struct rota_job_spec *a, const struct rota_job_spec *b)
{
    if (!a || !b)
        return a == b;
    for (size_t i = 0; i < a->n_capabilities && i < b->n_capabilities; i++)
        if (!rota_str_is_equal(a->capabilities[i], b->capabilities[i]))
            return false;
    return work_id_is_equal(a->id, b->id) && rota_str_is_equal(a->queue, b->queue) &&
           a->partition == b->partition && a->n_capabilities == b->n_capabilities &&
           rota_str_is_equal(a->payload, b->payload) && a->priority == b->priority &&
           a->not_before == b->not_before && a->deadline == b->deadline &&
           a->timeout == b->timeout && a->max_attempts == b->max_attempts &&
           a->backoff == b->backoff && a->backoff_max == b->backoff_max &&
           rota_str_is_equal(a->unique, b->unique) && rota_str_is_equal(a->key, b->key) &&
           rota_str_is_equal(a->trace, b->trace);
}

static bool work_layout_is_equal(const struct rota_work_layout *a, const struct rota_work_layout *b)
{
    return a && b ? rota_layout_is_equal(a, b) : a == b;
}

bool work_record_is_equal(const struct rota_work_record *a, const struct rota_work_record *b)
{
    return a->type == b->type && a->number == b->number && work_id_is_equal(a->id, b->id) &&
           work_spec_is_equal(a->spec, b->spec) && work_layout_is_equal(a->layout, b->layout) &&
           a->at == b->at && a->since == b->since && a->attempt == b->attempt &&
           a->n_attempts == b->n_attempts && a->state == b->state && a->cause == b->cause &&
           a->not_before == b->not_before && a->priority == b->priority &&
           a->is_paused == b->is_paused && a->weight == b->weight && a->partition == b->partition &&
           a->epoch == b->epoch && a->lost == b->lost && a->tag == b->tag &&
           rota_str_is_equal(a->queue, b->queue) && rota_str_is_equal(a->key, b->key) &&
           rota_str_is_equal(a->worker, b->worker) && rota_str_is_equal(a->reason, b->reason) &&
           rota_str_is_equal(a->bytes, b->bytes);
}
