/* A segment of a journal, a record in it, and the file that says which segments there are: the
 * reader stops within its bounds whatever it is given, passes over damage without going back,
 * and what it reads is the same when it is written and read again. */
#include "wire/record/journal_range.h"
#include "wire/record/journal_segment.h"

#include "../lib/work_records.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As the only record of a new journal. */
static void check_again(struct rota_work_record record)
{
    static const unsigned char id[ROTA_JOURNAL_ID_SIZE] = "an id by chance";
    static struct rota_journal_writer writer;
    static struct rota_journal_reader reader;
    struct rota_journal_head head = {.index = 1, .first = 1};
    struct rota_buffer batch = {0}, segment = {0};
    struct rota_work_record again;
    record.number = 1;
    memcpy(head.id, id, sizeof id);
    rota_journal_segment_writer_init(&writer, id);
    rota_journal_segment_write(&writer, &record, &batch);
    rota_journal_segment_head_encode(&head, rota_buffer_extend(&segment, ROTA_JOURNAL_HEAD_SIZE));
    rota_buffer_append_str(&segment, rota_buffer_str(&batch));
    rota_journal_segment_reader_init(&reader);
    assert(rota_journal_segment_reader_open(&reader, rota_buffer_str(&segment), true) == 0);
    assert(rota_journal_segment_reader_next(&reader, &again) == ROTA_JOURNAL_FINE);
    assert(work_record_is_equal(&record, &again));
    assert(rota_journal_segment_reader_next(&reader, &again) == ROTA_JOURNAL_END);
    rota_buffer_deinit(&batch);
    rota_buffer_deinit(&segment);
}

static void read_segment(struct rota_str bytes, bool is_last)
{
    static struct rota_journal_reader reader;
    struct rota_work_record record;
    rota_journal_segment_reader_init(&reader);
    enum rota_journal_found found = rota_journal_segment_reader_open(&reader, bytes, is_last);
    while (found == ROTA_JOURNAL_FINE || found == ROTA_JOURNAL_DAMAGED) {
        size_t at = reader.at;
        if (found == ROTA_JOURNAL_DAMAGED) {
            uint64_t number = reader.next;
            assert(reader.why);
            if (!rota_journal_segment_reader_pass_over(&reader))
                break;
            assert(reader.next >= number);
            /* Where a batch is behind a gap in the numbers, it stands where it stood. */
            assert(reader.at > at || reader.next > number);
        }
        found = rota_journal_segment_reader_next(&reader, &record);
        assert(reader.at >= at && reader.at <= bytes.size);
        if (found == ROTA_JOURNAL_FINE)
            check_again(record);
    }
    assert(found != ROTA_JOURNAL_TORN || is_last);
}

/* The first half of the bytes for its first place, the rest for its second; the checksums are
 * made right in turn, which chance would not find. */
static void read_range(const uint8_t *data, size_t size)
{
    enum { SUMMED = ROTA_JOURNAL_RANGE_SIZE - 4 };
    struct rota_journal_range range = {0}, again = {0};
    if (size > 2 * ROTA_JOURNAL_RANGE_SIZE)
        return; /* that is a segment */
    for (int how = 0; how < 4; how++) {
        char file[ROTA_JOURNAL_RANGE_FILE] = {0};
        for (int i = 0; i < 2; i++) {
            char *place = file + i * ROTA_JOURNAL_RANGE_PLACE;
            size_t from = i * size / 2, n = size / 2;
            if (n > 0)
                memcpy(place, data + from, n);
            struct rota_crc32c crc;
            rota_crc32c_init(&crc);
            if (how >> i & 1)
                rota_journal_put_fixed(place + SUMMED,
                                       rota_crc32c_add(&crc, 0, rota_str_of(place, SUMMED)), 4);
        }
        enum rota_journal_range_found found = rota_journal_range_decode(file, &range);
        if (found != ROTA_JOURNAL_RANGE_FINE && found != ROTA_JOURNAL_RANGE_TORN)
            continue;
        assert(range.lowest > 0 && range.lowest <= range.last);
        memset(file, 0, sizeof file);
        char bytes[ROTA_JOURNAL_RANGE_SIZE];
        size_t place = rota_journal_range_encode(&range, bytes);
        memcpy(file + place, bytes, sizeof bytes);
        assert(rota_journal_range_decode(file, &again) == ROTA_JOURNAL_RANGE_FINE);
        assert(memcmp(&range, &again, sizeof range) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rota_journal_room room;
    struct rota_str bytes = rota_str_of(data, size);
    struct rota_journal_batch batch = {0};
    struct rota_work_record record;
    read_segment(bytes, true);
    read_segment(bytes, false);
    read_range(data, size);
    if (rota_journal_record_decode(&batch, bytes.data, bytes, &record, &room))
        check_again(record);
    return 0;
}
