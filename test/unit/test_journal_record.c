#include "wire/record/journal_record.h"

#include "vectors.h"
#include "work_records.h"

#include <string.h>

static struct work_room made;
static struct rota_journal_room room;

/* Many records of one batch, one behind the other, as they stand in a segment. */
static void records_of_every_type_come_back_as_they_were(void **state)
{
    enum { ROUNDS = 200, N = 60 };
    static char bytes[N << 17];
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct rota_journal_batch batch = {0};
        size_t size = 0, ends[N];
        rota_random_init(&made.random, seed);
        batch.at = work_time(&made);
        batch.attempt = work_number(&made, UINT64_MAX);
        batch.tag = work_number(&made, UINT64_MAX);
        struct rota_journal_batch read = batch;
        for (uint64_t i = 0; i < N; i++) {
            struct rota_work_record record =
                work_record_make(&made, (enum rota_work_record_type)(i % ROTA_WORK_RECORDS), i);
            size_t bound = rota_journal_record_bound(&record);
            size_t written = rota_journal_record_encode(&batch, &record, bytes, bytes + size);
            assert_true(written <= bound);
            ends[i] = size += written;
        }
        rota_random_init(&made.random, seed);
        work_time(&made);
        work_number(&made, UINT64_MAX);
        work_number(&made, UINT64_MAX);
        for (uint64_t i = 0; i < N; i++) {
            struct rota_work_record again,
                record =
                    work_record_make(&made, (enum rota_work_record_type)(i % ROTA_WORK_RECORDS), i);
            size_t start = i ? ends[i - 1] : 0;
            struct rota_str body = rota_str_of(bytes + start, ends[i] - start);
            assert_true(rota_journal_record_decode(&read, bytes, body, &again, &room));
            again.number = record.number;
            assert_true(work_record_is_equal(&again, &record));
        }
    }
}

static void a_field_comes_back_by_itself(void **state)
{
    static const struct rota_work_layout layout = {
        .wanted = 2, .write = 2, .read = 4, .spread = {ROTA_SPREAD_SLOTS, 8}};
    const struct rota_work_record records[] = {
        {.id = {1, 2}},
        {.at = 5},
        {.since = 6},
        {.attempt = 7},
        {.n_attempts = 8},
        {.state = ROTA_JOB_DONE},
        {.cause = ROTA_JOB_CAUSE_HANDED_OVER},
        {.not_before = 9},
        {.priority = -10},
        {.is_paused = true},
        {.weight = 11},
        {.partition = 12},
        {.epoch = 13},
        {.tag = 14},
        {.queue = rota_str("queue")},
        {.key = rota_str("key")},
        {.worker = rota_str("worker")},
        {.reason = rota_str("reason")},
        {.bytes = rota_str("bytes")},
        {.layout = &layout},
        {.lost = ROTA_WORK_LOST_KILLED + ROTA_JOB_KEY_MAX},
    };
    (void)state;
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        struct rota_journal_batch written = {0}, read = {0};
        struct rota_work_record record = records[i], again;
        char bytes[4096];
        record.type = ROTA_WORK_PAUSE;
        size_t size = rota_journal_record_encode(&written, &record, bytes, bytes);
        assert_true(
            rota_journal_record_decode(&read, bytes, rota_str_of(bytes, size), &again, &room));
        assert_true(work_record_is_equal(&again, &record));
    }
}

static void a_part_of_a_record_is_not_a_record(void **state)
{
    static char bytes[1 << 17], copy[1 << 17];
    (void)state;
    rota_random_init(&made.random, 7);
    for (uint64_t i = 0; i < 400; i++) {
        struct rota_journal_batch batch = {0};
        struct rota_work_record again,
            record =
                work_record_make(&made, (enum rota_work_record_type)(i % ROTA_WORK_RECORDS), i);
        size_t size = rota_journal_record_encode(&batch, &record, bytes, bytes);
        for (size_t cut = 0; cut < size; cut += 1 + size / 200) {
            struct rota_journal_batch fresh = {0};
            memcpy(copy, bytes, cut);
            assert_false(
                rota_journal_record_decode(&fresh, copy, rota_str_of(copy, cut), &again, &room));
        }
        struct rota_journal_batch fresh = {0};
        bytes[size] = 0;
        assert_false(
            rota_journal_record_decode(&fresh, bytes, rota_str_of(bytes, size + 1), &again, &room));
    }
}

static bool decode(const char *text, size_t size)
{
    struct rota_journal_batch batch = {0};
    struct rota_work_record record;
    return rota_journal_record_decode(&batch, text, rota_str_of(text, size), &record, &room);
}

#define DECODE(text) decode(text, sizeof text - 1)

static void invalid_values_are_refused(void **state)
{
    (void)state;
    assert_true(DECODE("\x0a\x00"));                              /* life, without anything */
    assert_true(DECODE("\x0f\x00"));                              /* node, without anything */
    assert_false(DECODE("\x10\x00"));                             /* no such type */
    assert_false(DECODE("\x0a\x80\x80\x40"));                     /* a field of another version */
    assert_true(DECODE("\x0e\x80\x80\x20\x08\x08\x10\x10\x01"));  /* 8, 8 and 16 partitions */
    assert_false(DECODE("\x0e\x80\x80\x20\x08\x08\x10\x10\x02")); /* no such mode */
    assert_false(DECODE("\x0a\x80\x00"));                         /* a number longer than needed */
    assert_true(DECODE("\x04\x80\x01\x05"));                      /* end, cancelled */
    assert_false(DECODE("\x04\x80\x01\x06"));                     /* no such state */
    assert_true(DECODE("\x04\x80\x02\x0a"));                      /* end, handed over */
    assert_false(DECODE("\x04\x80\x02\x0b"));                     /* no such cause */
    assert_true(DECODE("\x07\x02\x00\x01q"));                     /* pause of q */
    assert_true(DECODE("\x07\x02\x01\x01q"));             /* ... which has the place 0 now */
    assert_false(DECODE("\x07\x02\x02"));                 /* a name that nobody gave */
    assert_false(DECODE("\x07\x02\x00\x00"));             /* a name without letters */
    assert_false(DECODE("\x07\x02\x7f\x01q"));            /* a place that is none */
    assert_false(DECODE("\x03\x22\x01\x01q\x01\x01w"));   /* a place given twice */
    assert_false(DECODE("\x04\x80\x04\x81\x80\x80\x08")); /* a result of 16 MiB and a byte */
    assert_false(DECODE("\x00\x00\x02\x11"));             /* 17 capabilities */
    assert_false(DECODE(""));
}

static struct rota_work_record life_of(struct rota_job_spec *spec, enum rota_work_record_type type,
                                       uint64_t number)
{
    struct rota_work_record record = {.type = type, .number = number, .id = spec->id};
    record.queue = spec->queue;
    record.at = 1780000000 * ROTA_SEC + (rota_time)number * 3000;
    record.attempt = type == ROTA_WORK_ADD ? 0 : (7ull << 32) + number;
    record.n_attempts = type == ROTA_WORK_ADD ? 0 : 1;
    if (type == ROTA_WORK_ADD) {
        record.spec = spec;
        record.tag = number << 10;
    } else if (type == ROTA_WORK_START) {
        record.worker = rota_str("worker-17.example");
    } else {
        record.state = ROTA_JOB_DONE;
        record.cause = ROTA_JOB_CAUSE_DONE;
    }
    return record;
}

/* What a job costs in a batch of many: the promise of docs/journal.md. */
static void records_are_small(void **state)
{
    static char bytes[1 << 16], payload[100];
    struct rota_journal_batch batch = {.at = 1780000000 * ROTA_SEC, .attempt = 7ull << 32};
    struct rota_job_spec spec = {.id = rota_job_id_make(1780000000 * ROTA_SEC, 3, UINT64_MAX / 3),
                                 .queue = rota_str("thumbnails"),
                                 .partition = 3,
                                 .payload = rota_str_of(payload, sizeof payload)};
    enum rota_work_record_type types[] = {ROTA_WORK_ADD, ROTA_WORK_START, ROTA_WORK_END};
    size_t bounds[] = {134, 30, 32}, at = 0;
    (void)state;
    for (uint64_t number = 0; number < 64; number++)
        for (int i = 0; i < 3; i++) {
            struct rota_work_record record = life_of(&spec, types[i], number);
            record.partition = 3;
            size_t size = rota_journal_record_encode(&batch, &record, bytes, bytes + at);
            if (number > 0)
                assert_in_range(size, 1, bounds[i]);
            at += size;
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_of_every_type_come_back_as_they_were),
        cmocka_unit_test(a_field_comes_back_by_itself),
        cmocka_unit_test(a_part_of_a_record_is_not_a_record),
        cmocka_unit_test(invalid_values_are_refused),
        cmocka_unit_test(records_are_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
