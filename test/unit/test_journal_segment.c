#include "wire/record/journal_segment.h"

#include "vectors.h"
#include "work_records.h"

#include <stdio.h>
#include <string.h>

enum { SEGMENTS = 3, BATCHES = 2, PER_BATCH = 4, SLACK = 100 };
enum { PER_SEGMENT = BATCHES * PER_BATCH, RECORDS = SEGMENTS * PER_SEGMENT };

static struct work_room made;
static struct rota_journal_writer writer;
static struct rota_journal_reader reader;
static const unsigned char id[ROTA_JOURNAL_ID_SIZE] = "0123456789abcdef";

/* A journal, and where its batches and records end. */
struct book {
    struct rota_buffer segments[SEGMENTS];
    size_t used[SEGMENTS];
    size_t batch_at[SEGMENTS * BATCHES], record_at[RECORDS + 1];
};

static struct book book;

static struct rota_work_record record_of(uint64_t number)
{
    rota_random_init(&made.random, number);
    struct rota_work_record record =
        work_record_make(&made, (enum rota_work_record_type)(number % ROTA_WORK_RECORDS), number);
    if (record.spec && record.spec->payload.size > 100)
        made.spec.payload.size = 100; /* so that every bit can be tried */
    return record;
}

static void write_head(struct rota_buffer *buffer, uint64_t index, uint64_t first)
{
    struct rota_journal_head head = {.index = index, .first = first};
    memcpy(head.id, id, sizeof id);
    rota_journal_segment_head_encode(&head, rota_buffer_extend(buffer, ROTA_JOURNAL_HEAD_SIZE));
}

static void make_book(void)
{
    uint64_t number = 1;
    struct rota_buffer batch = {0};
    rota_journal_segment_writer_init(&writer, id);
    for (int s = 0; s < SEGMENTS; s++) {
        rota_buffer_clear(&book.segments[s]);
        write_head(&book.segments[s], 5 + (uint64_t)s, number);
        for (int b = 0; b < BATCHES; b++) {
            rota_buffer_clear(&batch);
            book.batch_at[s * BATCHES + b] = book.segments[s].size;
            for (int i = 0; i < PER_BATCH; i++, number++) {
                struct rota_work_record record = record_of(number);
                rota_journal_segment_write(&writer, &record, &batch);
                book.record_at[number] = book.segments[s].size + batch.size; /* its end */
            }
            rota_buffer_append_str(&book.segments[s], rota_buffer_str(&batch));
        }
        book.used[s] = book.segments[s].size;
        memset(rota_buffer_extend(&book.segments[s], SLACK), 0, SLACK);
    }
    rota_buffer_deinit(&batch);
}

struct outcome {
    enum rota_journal_found found;
    uint64_t n; /* records that were read, all of them as they were written */
};

/* Read all of it, over damage when `repair`. */
static struct outcome read_book(bool repair)
{
    struct outcome outcome = {.found = ROTA_JOURNAL_END};
    rota_journal_segment_reader_init(&reader);
    for (int s = 0; s < SEGMENTS; s++) {
        struct rota_work_record record;
        bool is_last = s == SEGMENTS - 1;
        outcome.found =
            rota_journal_segment_reader_open(&reader, rota_buffer_str(&book.segments[s]), is_last);
        for (;;) {
            if (outcome.found == ROTA_JOURNAL_DAMAGED && repair) {
                outcome.found = ROTA_JOURNAL_END;
                if (!rota_journal_segment_reader_pass_over(&reader))
                    break;
            } else if (outcome.found) {
                break;
            }
            outcome.found = rota_journal_segment_reader_next(&reader, &record);
            if (outcome.found)
                continue;
            struct rota_work_record original = record_of(record.number);
            assert_true(work_record_is_equal(&record, &original));
            outcome.n++;
        }
        if (outcome.found != ROTA_JOURNAL_END)
            return outcome;
    }
    return outcome;
}

static void assert_outcome(enum rota_journal_found found, uint64_t n)
{
    struct outcome outcome = read_book(false);
    assert_int_equal(outcome.found, found);
    assert_int_equal(outcome.n, n);
    if (found == ROTA_JOURNAL_DAMAGED || found == ROTA_JOURNAL_TORN)
        assert_non_null(reader.why);
}

static int set_up(void **state)
{
    (void)state;
    make_book();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int s = 0; s < SEGMENTS; s++)
        rota_buffer_deinit(&book.segments[s]);
    return 0;
}

static void all_is_read_in_order(void **state)
{
    (void)state;
    assert_outcome(ROTA_JOURNAL_END, RECORDS);
    assert_int_equal(reader.next, RECORDS + 1);
    assert_int_equal(reader.at, book.used[2]);
    assert_int_equal(reader.batch_at, book.batch_at[SEGMENTS * BATCHES - 1]);
    book.segments[2].size = book.used[2]; /* without zeros after it */
    assert_outcome(ROTA_JOURNAL_END, RECORDS);
}

/* How many records end before this place of the last segment. */
static uint64_t n_before(size_t at)
{
    uint64_t n = RECORDS - PER_SEGMENT;
    while (n < RECORDS && book.record_at[n + 1] <= at)
        n++;
    return n;
}

static void the_jobs_that_come_are_foreseen(void **state)
{
    struct rota_job_id ahead;
    (void)state;
    make_book();
    rota_journal_segment_reader_init(&reader);
    assert_int_equal(
        rota_journal_segment_reader_open(&reader, rota_buffer_str(&book.segments[0]), false),
        ROTA_JOURNAL_FINE);
    for (uint64_t number = 1; number <= PER_SEGMENT; number++) {
        struct rota_work_record record = record_of(number);
        if (rota_job_id_is_none(record.id))
            continue;
        assert_true(rota_journal_segment_reader_foresee(&reader, &ahead));
        assert_memory_equal(&ahead, &record.id, sizeof ahead);
    }
    assert_false(rota_journal_segment_reader_foresee(&reader, &ahead));
    struct rota_work_record record;
    for (uint64_t number = 1; number <= PER_SEGMENT; number++) /* and nothing has changed */
        assert_int_equal(rota_journal_segment_reader_next(&reader, &record), ROTA_JOURNAL_FINE);
}

static void wherever_the_last_segment_ends_whole_records_stay(void **state)
{
    (void)state;
    for (size_t cut = book.used[2]; cut-- > ROTA_JOURNAL_HEAD_SIZE;) {
        uint64_t n = n_before(cut);
        book.segments[2].size = cut; /* the file ends here */
        struct outcome outcome = read_book(false);
        assert_true(outcome.found == ROTA_JOURNAL_TORN || outcome.found == ROTA_JOURNAL_END);
        assert_int_equal(outcome.n, n);
        book.segments[2].data[cut] = 0; /* or the rest was never written */
        book.segments[2].size = book.used[2] + SLACK;
        outcome = read_book(false);
        assert_true(outcome.found == ROTA_JOURNAL_TORN || outcome.found == ROTA_JOURNAL_END);
        assert_in_range(outcome.n, n, RECORDS); /* a frame may end in a zero */
        assert_true(outcome.n <= n + 1);
    }
}

static void a_segment_that_was_being_made_holds_nothing(void **state)
{
    (void)state;
    for (size_t cut = 0; cut < ROTA_JOURNAL_HEAD_SIZE; cut++) {
        make_book();
        struct rota_buffer *last = &book.segments[SEGMENTS - 1];
        memset(last->data + cut, 0, last->size - cut);
        uint64_t n = RECORDS - PER_SEGMENT;
        struct outcome outcome = read_book(false);
        if (outcome.found != ROTA_JOURNAL_END) /* the sum of a head may end in zeros */
            assert_int_equal(outcome.found, ROTA_JOURNAL_TORN);
        assert_int_equal(outcome.n, n);
        last->size = cut;
        assert_outcome(ROTA_JOURNAL_TORN, n);
    }
}

static void elsewhere_an_early_end_is_damage(void **state)
{
    (void)state;
    book.segments[1].size = book.record_at[PER_SEGMENT + 2];
    assert_outcome(ROTA_JOURNAL_DAMAGED, PER_SEGMENT + 2);
    assert_string_equal(reader.why, "records before this segment are missing");
    book.segments[1].size = book.record_at[PER_SEGMENT + 2] + 3;
    assert_outcome(ROTA_JOURNAL_DAMAGED, PER_SEGMENT + 2);
    book.segments[1].size = 0;
    assert_outcome(ROTA_JOURNAL_DAMAGED, PER_SEGMENT);
}

/* Never is anything read that was not written, nor anything skipped in silence. */
static void every_flipped_bit_is_found(void **state)
{
    (void)state;
    for (int s = 0; s < SEGMENTS; s++)
        for (size_t at = 0; at < book.used[s]; at++)
            for (int bit = 0; bit < 8; bit += at % 4 ? 8 : 1) {
                book.segments[s].data[at] ^= (char)(1 << bit);
                struct outcome outcome = read_book(false);
                bool is_last_batch =
                    s == SEGMENTS - 1 && at >= book.batch_at[SEGMENTS * BATCHES - 1];
                if (outcome.found != ROTA_JOURNAL_NEWER)
                    assert_int_equal(outcome.found,
                                     is_last_batch ? ROTA_JOURNAL_TORN : ROTA_JOURNAL_DAMAGED);
                else
                    assert_true(at >= 8 && at < 12);
                book.segments[s].data[at] ^= (char)(1 << bit);
            }
    assert_outcome(ROTA_JOURNAL_END, RECORDS);
}

static void repair_loses_only_damaged_records(void **state)
{
    (void)state;
    for (int s = 0; s < SEGMENTS; s++)
        for (size_t at = 0; at < book.batch_at[SEGMENTS * BATCHES - 1] && at < book.used[s]; at++) {
            book.segments[s].data[at] ^= 0x10;
            struct outcome outcome = read_book(true);
            bool is_newer = at >= 8 && at < 12;
            if (!is_newer) {
                bool is_first_head = s == 0 && at < ROTA_JOURNAL_HEAD_SIZE;
                assert_int_equal(outcome.found, ROTA_JOURNAL_END);
                assert_int_equal(reader.next, RECORDS + 1);
                assert_in_range(outcome.n, RECORDS - (is_first_head ? PER_SEGMENT : PER_BATCH),
                                RECORDS);
                assert_true(is_first_head || outcome.n + reader.n_lost == RECORDS);
                assert_true(reader.n_lost_bytes > 0);
            }
            book.segments[s].data[at] ^= 0x10;
        }
    book.segments[1].data[book.record_at[PER_SEGMENT + 2] - 1] ^= 1;
    assert_int_equal(read_book(true).n, RECORDS - 1);
    assert_int_equal(reader.n_lost, 1);
}

static void frames_in_the_wrong_place_are_found(void **state)
{
    struct rota_work_record record = {.type = ROTA_WORK_FORGET, .queue = rota_str("q")};
    struct rota_buffer *segment = &book.segments[SEGMENTS - 1];
    size_t ends[4];
    char frames[2][64];
    (void)state;
    /* Four records of one size, so that one could stand where another does. */
    segment->size = ROTA_JOURNAL_HEAD_SIZE;
    struct rota_buffer batch = {0};
    for (uint64_t i = 0; i < 4; i++) {
        record.number = RECORDS - PER_SEGMENT + 1 + i;
        record.id = (struct rota_job_id){1, 77 + i};
        rota_journal_segment_write(&writer, &record, &batch);
        ends[i] = segment->size + batch.size;
    }
    rota_buffer_append_str(segment, rota_buffer_str(&batch));
    rota_buffer_clear(&batch);
    rota_journal_segment_write_mark(&writer, record.number + 1, &batch);
    rota_buffer_append_str(segment, rota_buffer_str(&batch));
    rota_buffer_deinit(&batch);

    size_t size = ends[2] - ends[1];
    assert_int_equal(ends[3] - ends[2], size);
    memcpy(frames[0], segment->data + ends[1], size);
    memcpy(frames[1], segment->data + ends[2], size);
    memcpy(segment->data + ends[2], frames[0], size); /* one twice */
    rota_journal_segment_reader_init(&reader);
    assert_int_equal(rota_journal_segment_reader_open(&reader, rota_buffer_str(segment), true), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(rota_journal_segment_reader_next(&reader, &record), ROTA_JOURNAL_FINE);
    assert_int_equal(rota_journal_segment_reader_next(&reader, &record), ROTA_JOURNAL_DAMAGED);
    memcpy(segment->data + ends[1], frames[1], size); /* both in the other's place */
    rota_journal_segment_reader_init(&reader);
    assert_int_equal(rota_journal_segment_reader_open(&reader, rota_buffer_str(segment), true), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(rota_journal_segment_reader_next(&reader, &record), ROTA_JOURNAL_FINE);
    assert_int_equal(rota_journal_segment_reader_next(&reader, &record), ROTA_JOURNAL_DAMAGED);
}

/* Pages of one write reach the disk in any order. */
static void a_hole_in_the_last_batch_is_torn(void **state)
{
    size_t at = book.batch_at[SEGMENTS * BATCHES - 1];
    (void)state;
    memset(book.segments[2].data + at, 0, 20);
    assert_outcome(ROTA_JOURNAL_TORN, RECORDS - PER_BATCH);
    assert_int_equal(reader.at, at);
    make_book();
    memset(book.segments[2].data + book.record_at[RECORDS - 3], 0, 12);
    assert_outcome(ROTA_JOURNAL_TORN, RECORDS - 3);
}

static void a_mark_makes_the_last_batch_safe_from_being_cut(void **state)
{
    struct rota_buffer mark = {0};
    (void)state;
    book.segments[2].size = book.used[2];
    rota_journal_segment_write_mark(&writer, RECORDS + 1, &mark);
    rota_buffer_append_str(&book.segments[2], rota_buffer_str(&mark));
    rota_buffer_deinit(&mark);
    assert_outcome(ROTA_JOURNAL_END, RECORDS);
    book.segments[2].data[book.used[2] - 1] ^= 1;
    assert_outcome(ROTA_JOURNAL_DAMAGED, RECORDS - 1);
}

static void a_newer_version_is_not_read(void **state)
{
    (void)state;
    book.segments[2].data[8] = ROTA_JOURNAL_VERSION + 1;
    assert_outcome(ROTA_JOURNAL_NEWER, RECORDS - PER_SEGMENT);
    assert_int_equal(reader.version, ROTA_JOURNAL_VERSION + 1);
    assert_int_equal(read_book(true).found, ROTA_JOURNAL_NEWER);
}

/* A later program may write kinds of records that we do not know: nothing is damaged then. */
static void a_record_of_an_unknown_kind_is_newer(void **state)
{
    struct rota_work_record record = {
        .type = ROTA_WORK_FORGET, .queue = rota_str("q"), .number = RECORDS - PER_SEGMENT + 1};
    struct rota_buffer *segment = &book.segments[SEGMENTS - 1];
    struct rota_buffer batch = {0};
    (void)state;
    rota_journal_segment_write_mark(&writer, record.number, &batch);
    size_t start =
        batch.size; /* of the record's frame: a length of two bytes, a checksum, a body */
    rota_journal_segment_write(&writer, &record, &batch);
    struct rota_str length = {batch.data + start, 2};
    struct rota_str body = {batch.data + start + 6, batch.size - start - 6};
    batch.data[start + 6] = ROTA_WORK_RECORDS;
    rota_journal_put_fixed(
        batch.data + start + 2,
        rota_journal_seal_sum(&writer.seal, record.number, record.number, length, body), 4);
    segment->size = ROTA_JOURNAL_HEAD_SIZE;
    rota_buffer_append_str(segment, rota_buffer_str(&batch));
    rota_buffer_deinit(&batch);
    assert_outcome(ROTA_JOURNAL_NEWER, RECORDS - PER_SEGMENT);
    assert_string_equal(reader.why, "it has records of an unknown kind");
}

static void segments_that_do_not_follow_are_damage(void **state)
{
    struct rota_buffer other = book.segments[1];
    (void)state;
    book.segments[1] = book.segments[2]; /* one is missing */
    assert_outcome(ROTA_JOURNAL_DAMAGED, PER_SEGMENT);
    book.segments[1] = other;

    struct rota_journal_head head = {.id = "another journal", .index = 6, .first = PER_SEGMENT + 1};
    rota_journal_segment_head_encode(&head, book.segments[1].data);
    assert_outcome(ROTA_JOURNAL_DAMAGED, PER_SEGMENT);
    assert_string_equal(reader.why, "it belongs to another journal");
    struct outcome outcome = read_book(true);
    assert_int_equal(outcome.n, RECORDS); /* its records are ours all the same */

    make_book();
    book.segments[0].data[0] = 'R';
    assert_outcome(ROTA_JOURNAL_DAMAGED, 0);
    assert_string_equal(reader.why, "it does not start with a journal header");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(all_is_read_in_order),
        TEST(the_jobs_that_come_are_foreseen),
        TEST(wherever_the_last_segment_ends_whole_records_stay),
        TEST(a_segment_that_was_being_made_holds_nothing),
        TEST(elsewhere_an_early_end_is_damage),
        TEST(every_flipped_bit_is_found),
        TEST(repair_loses_only_damaged_records),
        TEST(frames_in_the_wrong_place_are_found),
        TEST(a_hole_in_the_last_batch_is_torn),
        TEST(a_mark_makes_the_last_batch_safe_from_being_cut),
        TEST(a_newer_version_is_not_read),
        TEST(a_record_of_an_unknown_kind_is_newer),
        TEST(segments_that_do_not_follow_are_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
