#include "wire/record/journal_segment.h"

#include <assert.h>
#include <string.h>

/* --- the head --- */

/* magic 8, version 4, id 16, index 8, first 8, checksum of these 4; the lowest byte first */
static const char magic[8] = "rotaJRNL";

enum { AT_VERSION = 8, AT_ID = 12, AT_INDEX = 28, AT_FIRST = 36, AT_SUM = 44 };

static uint32_t head_sum(const char *bytes)
{
    struct rota_crc32c crc;
    rota_crc32c_init(&crc);
    return rota_crc32c_add(&crc, 0, rota_str_of(bytes, AT_SUM));
}

void rota_journal_segment_head_encode(const struct rota_journal_head *head,
                                      char bytes[ROTA_JOURNAL_HEAD_SIZE])
{
    memcpy(bytes, magic, sizeof magic);
    rota_journal_put_fixed(bytes + AT_VERSION, ROTA_JOURNAL_VERSION, 4);
    memcpy(bytes + AT_ID, head->id, sizeof head->id);
    rota_journal_put_fixed(bytes + AT_INDEX, head->index, 8);
    rota_journal_put_fixed(bytes + AT_FIRST, head->first, 8);
    rota_journal_put_fixed(bytes + AT_SUM, head_sum(bytes), 4);
}

/* --- frames --- */

/* The body of a frame that begins a batch: this, and then varints: the number of its first
 * record, the time, the attempt and the tag from which its records count. */
static const char batch_magic[4] = {0x7f, 'B', 'A', 'T'};

enum { BATCH_BODY_MAX = sizeof batch_magic + 4 * ROTA_JOURNAL_VARINT_MAX };

struct frame {
    struct rota_str length, body;
    uint32_t sum;
    size_t size;
};

/* Twice the size of the body, in two bytes; or that and 1, in four. */
static void put_length(char *at, size_t size, size_t length_size)
{
    rota_journal_put_fixed(at, (uint64_t)size << 1 | (length_size == 4), (int)length_size);
}

/* False when these bytes do not hold a frame, whatever its checksum. */
static bool find_frame(struct rota_str bytes, size_t at, struct frame *frame)
{
    const char *start = bytes.data + at;
    size_t left = bytes.size - at;
    if (left < 2)
        return false;
    size_t length_size = start[0] & 1 ? 4 : 2;
    if (left < length_size + 4)
        return false;
    size_t size = (size_t)rota_journal_get_fixed(start, (int)length_size) >> 1;
    if (size == 0 || size > ROTA_JOURNAL_BODY_MAX || size > left - length_size - 4)
        return false;
    frame->length = rota_str_of(start, length_size);
    frame->sum = (uint32_t)rota_journal_get_fixed(start + length_size, 4);
    frame->body = rota_str_of(start + length_size + 4, size);
    frame->size = length_size + 4 + size;
    return true;
}

static bool is_sealed(const struct rota_journal_reader *reader, const struct frame *frame,
                      uint64_t batch, uint64_t number)
{
    return rota_journal_seal_sum(&reader->seal, batch, number, frame->length, frame->body) ==
           frame->sum;
}

static bool is_batch(const struct frame *frame)
{
    return frame->body.size > sizeof batch_magic && frame->body.size <= BATCH_BODY_MAX &&
           memcmp(frame->body.data, batch_magic, sizeof batch_magic) == 0;
}

/* Read the frame of a batch; false if the bytes are not one. */
static bool read_batch(const struct rota_journal_reader *reader, const struct frame *frame,
                       struct rota_journal_batch *batch)
{
    uint64_t values[4] = {0};
    const char *at = frame->body.data + sizeof batch_magic;
    const char *end = frame->body.data + frame->body.size;
    if (!is_batch(frame))
        return false;
    for (int i = 0; i < 4; i++)
        if (!(at = rota_journal_get(at, end, &values[i])))
            return false;
    if (at != end || values[0] == 0 || !is_sealed(reader, frame, values[0], values[0]))
        return false;
    memset(batch, 0, sizeof *batch);
    batch->number = values[0];
    batch->at = (rota_time)rota_journal_unzigzag(0, values[1]);
    batch->attempt = values[2];
    batch->tag = values[3];
    return true;
}

/* --- writing --- */

void rota_journal_segment_writer_init(struct rota_journal_writer *writer,
                                      const unsigned char id[ROTA_JOURNAL_ID_SIZE])
{
    memset(writer, 0, sizeof *writer);
    rota_journal_seal_init(&writer->seal, id);
}

/* Grow by room for a frame whose body has at most `bound` bytes; returns where the body
 * goes, NULL when there is no memory. */
static char *begin_frame(struct rota_buffer *buffer, size_t bound, size_t *length_size)
{
    *length_size = bound < 1 << 15 ? 2 : 4;
    char *start = rota_buffer_extend(buffer, *length_size + 4 + bound);
    if (!start)
        return NULL;
    buffer->size = (size_t)(start - buffer->data);
    return start + *length_size + 4;
}

static void end_frame(struct rota_journal_writer *writer, uint64_t number, size_t length_size,
                      struct rota_str body, struct rota_buffer *buffer)
{
    char *start = buffer->data + buffer->size;
    put_length(start, body.size, length_size);
    rota_journal_put_fixed(start + length_size,
                           rota_journal_seal_sum(&writer->seal, writer->batch.number, number,
                                                 rota_str_of(start, length_size), body),
                           4);
    buffer->size += length_size + 4 + body.size;
    buffer->data[buffer->size] = '\0';
}

static void begin_batch(struct rota_journal_writer *writer, uint64_t number, rota_time at,
                        struct rota_buffer *buffer)
{
    size_t length_size;
    char *body = begin_frame(buffer, BATCH_BODY_MAX, &length_size);
    if (!body)
        return;
    memset(&writer->batch, 0, sizeof writer->batch);
    writer->batch.number = number;
    writer->batch.at = at;
    writer->batch.attempt = writer->attempt;
    writer->batch.tag = writer->tag;
    memcpy(body, batch_magic, sizeof batch_magic);
    char *end = rota_journal_put(body + sizeof batch_magic, number);
    end = rota_journal_put(end, rota_journal_zigzag(0, (uint64_t)at));
    end = rota_journal_put(end, writer->attempt);
    end = rota_journal_put(end, writer->tag);
    end_frame(writer, number, length_size, rota_str_of(body, (size_t)(end - body)), buffer);
}

/* The values that the next records are likely to be close to. */
static void learn_from_record(struct rota_journal_writer *writer,
                              const struct rota_work_record *record)
{
    if (record->type == ROTA_WORK_START)
        writer->attempt = record->attempt;
    if (record->type == ROTA_WORK_ADD)
        writer->tag = record->tag;
}

void rota_journal_segment_write(struct rota_journal_writer *writer,
                                const struct rota_work_record *record, struct rota_buffer *buffer)
{
    if (buffer->size == 0)
        begin_batch(writer, record->number, record->at, buffer);
    size_t length_size;
    char *body = begin_frame(buffer, rota_journal_record_bound(record), &length_size);
    if (!body)
        return;
    size_t size = rota_journal_record_encode(&writer->batch, record, buffer->data, body);
    end_frame(writer, record->number, length_size, rota_str_of(body, size), buffer);
    learn_from_record(writer, record);
}

void rota_journal_segment_write_mark(struct rota_journal_writer *writer, uint64_t number,
                                     struct rota_buffer *buffer)
{
    begin_batch(writer, number, 0, buffer);
}

/* --- reading --- */

void rota_journal_segment_reader_init(struct rota_journal_reader *reader)
{
    memset(reader, 0, sizeof *reader);
}

bool rota_journal_segment_may_begin(struct rota_str bytes)
{
    size_t size = bytes.size < sizeof magic ? bytes.size : sizeof magic, i = 0;
    while (i < size && bytes.data[i] == magic[i])
        i++;
    while (i < size && bytes.data[i] == 0)
        i++;
    return i == size;
}

static bool is_zero(struct rota_str bytes)
{
    return bytes.size == 0 ||
           (bytes.data[0] == 0 && memcmp(bytes.data, bytes.data + 1, bytes.size - 1) == 0);
}

static struct rota_str rest_from(const struct rota_journal_reader *reader, size_t at)
{
    return rota_str_of(reader->bytes.data + at, reader->bytes.size - at);
}

static enum rota_journal_found report_damaged(struct rota_journal_reader *reader, const char *why)
{
    reader->why = why;
    return ROTA_JOURNAL_DAMAGED;
}

static enum rota_journal_found report_newer(struct rota_journal_reader *reader, const char *why)
{
    reader->why = why;
    return ROTA_JOURNAL_NEWER;
}

/* A head that is truncated or blank, and nothing after it: it was never completed. */
static enum rota_journal_found bad_head(struct rota_journal_reader *reader, const char *why)
{
    struct rota_str bytes = reader->bytes;
    size_t size = bytes.size < ROTA_JOURNAL_HEAD_SIZE ? bytes.size : ROTA_JOURNAL_HEAD_SIZE;
    reader->why = why;
    return reader->is_last && is_zero(rest_from(reader, size)) ? ROTA_JOURNAL_TORN
                                                               : ROTA_JOURNAL_DAMAGED;
}

static enum rota_journal_found check_head(struct rota_journal_reader *reader,
                                          const struct rota_journal_head *head)
{
    if (reader->has_seal && memcmp(head->id, reader->id, sizeof head->id) != 0)
        return report_damaged(reader, "it belongs to another journal");
    if (head->first == 0 || head->index == 0)
        return report_damaged(reader, "its header has number 0");
    if (reader->index && head->index != reader->index)
        return report_damaged(reader, "it is not the expected segment");
    if (reader->next && head->first != reader->next)
        return report_damaged(reader, "records before this segment are missing");
    return ROTA_JOURNAL_FINE;
}

static void take_head(struct rota_journal_reader *reader, const struct rota_journal_head *head)
{
    if (!reader->has_seal) {
        memcpy(reader->id, head->id, sizeof head->id);
        rota_journal_seal_init(&reader->seal, head->id);
        reader->has_seal = true;
    }
    reader->next = reader->first = head->first;
    reader->index = head->index + 1;
}

static bool read_head(struct rota_str bytes, struct rota_journal_head *head)
{
    if (bytes.size < ROTA_JOURNAL_HEAD_SIZE ||
        rota_journal_get_fixed(bytes.data + AT_SUM, 4) != head_sum(bytes.data))
        return false;
    memcpy(head->id, bytes.data + AT_ID, sizeof head->id);
    head->index = rota_journal_get_fixed(bytes.data + AT_INDEX, 8);
    head->first = rota_journal_get_fixed(bytes.data + AT_FIRST, 8);
    return true;
}

enum rota_journal_found rota_journal_segment_reader_open(struct rota_journal_reader *reader,
                                                         struct rota_str bytes, bool is_last)
{
    struct rota_journal_head head;
    reader->bytes = bytes;
    reader->is_last = is_last;
    reader->at = 0;
    reader->ahead = 0;
    reader->batch_at = 0;
    reader->why = NULL;
    memset(&reader->batch, 0, sizeof reader->batch); /* it lies in the bytes of a segment */
    bool has_magic = bytes.size >= AT_ID && memcmp(bytes.data, magic, sizeof magic) == 0;
    reader->version = has_magic ? (uint32_t)rota_journal_get_fixed(bytes.data + AT_VERSION, 4) : 0;
    bool is_whole = read_head(bytes, &head);
    if (has_magic && reader->version > ROTA_JOURNAL_VERSION)
        return report_newer(reader, "its format version is higher");
    if (!has_magic || !is_whole || reader->version == 0)
        return bad_head(reader, has_magic ? "the checksum of its header does not match"
                                          : "it does not start with a journal header");
    enum rota_journal_found found = check_head(reader, &head);
    if (found)
        return found;
    take_head(reader, &head);
    reader->at = ROTA_JOURNAL_HEAD_SIZE;
    return ROTA_JOURNAL_FINE;
}

/* Where the next batch begins, at `from` or after it; the size of the bytes if there is none. */
static size_t find_batch(const struct rota_journal_reader *reader, size_t from,
                         struct rota_journal_batch *batch)
{
    enum { BEFORE = 2 + 4 }; /* its length and its checksum */
    struct frame frame;
    const char *data = reader->bytes.data;
    size_t size = reader->bytes.size;
    for (size_t at = from; size >= BEFORE && at < size - BEFORE; at++) {
        const char *hit = memchr(data + at + BEFORE, batch_magic[0], size - at - BEFORE);
        if (!hit)
            break;
        at = (size_t)(hit - data) - BEFORE;
        if (find_frame(reader->bytes, at, &frame) && frame.length.size == 2 &&
            read_batch(reader, &frame, batch))
            return at;
    }
    return size;
}

static enum rota_journal_found report_broken(struct rota_journal_reader *reader, const char *why)
{
    struct rota_journal_batch later;
    reader->why = why;
    if (reader->is_last && find_batch(reader, reader->at + 1, &later) == reader->bytes.size)
        return ROTA_JOURNAL_TORN;
    return ROTA_JOURNAL_DAMAGED;
}

/* Only zeros follow the last frame. */
static bool is_end(const struct rota_journal_reader *reader)
{
    struct rota_str rest = rest_from(reader, reader->at);
    return rest.size == 0 ||
           (rest.data[0] == 0 && (rest.size == 1 || rest.data[1] == 0) && is_zero(rest));
}

bool rota_journal_segment_reader_foresee(struct rota_journal_reader *reader, struct rota_job_id *id)
{
    struct frame frame;
    if (reader->ahead < reader->at)
        reader->ahead = reader->at;
    while (find_frame(reader->bytes, reader->ahead, &frame)) {
        reader->ahead += frame.size;
        if (rota_journal_record_peek(frame.body, id))
            return true;
    }
    return false;
}

enum rota_journal_found rota_journal_segment_reader_next(struct rota_journal_reader *reader,
                                                         struct rota_work_record *record)
{
    struct frame frame;
    struct rota_journal_batch batch;
    assert(reader->at >= ROTA_JOURNAL_HEAD_SIZE);
    for (;;) {
        if (is_end(reader))
            return ROTA_JOURNAL_END;
        if (!find_frame(reader->bytes, reader->at, &frame))
            return report_broken(reader, "a frame has an invalid length");
        if (!read_batch(reader, &frame, &batch))
            break;
        if (batch.number != reader->next)
            return report_damaged(reader, "records before this batch are missing");
        reader->batch = batch;
        reader->batch_at = reader->at;
        reader->at += frame.size;
    }
    if (!is_sealed(reader, &frame, reader->batch.number, reader->next))
        return report_broken(reader, "a checksum does not match");
    if (!rota_journal_record_is_known(frame.body))
        return report_newer(reader, "it has records of an unknown kind");
    if (!rota_journal_record_decode(&reader->batch, reader->bytes.data, frame.body, record,
                                    &reader->room))
        return report_damaged(reader, "a complete record cannot be decoded");
    record->number = reader->next++;
    reader->at += frame.size;
    return ROTA_JOURNAL_FINE;
}

/* --- skipping damage --- */

/* One record whose length is valid, since the next one of its batch, or another batch, follows. */
static bool pass_record(struct rota_journal_reader *reader)
{
    struct frame frame, after;
    struct rota_journal_batch batch;
    if (!find_frame(reader->bytes, reader->at, &frame) || read_batch(reader, &frame, &batch) ||
        !find_frame(reader->bytes, reader->at + frame.size, &after))
        return false;
    bool is_known = is_sealed(reader, &after, reader->batch.number, reader->next + 1) ||
                    (read_batch(reader, &after, &batch) && batch.number == reader->next + 1);
    if (!is_known)
        return false;
    reader->at += frame.size;
    reader->n_lost_bytes += frame.size;
    reader->n_lost++;
    reader->next++;
    return true;
}

/* Everything up to a batch that is later than the last one read. */
static bool pass_batch(struct rota_journal_reader *reader)
{
    struct rota_journal_batch batch = {0};
    size_t from = reader->at, size = reader->bytes.size;
    size_t at = from > ROTA_JOURNAL_HEAD_SIZE ? from : ROTA_JOURNAL_HEAD_SIZE;
    while ((at = at < size ? find_batch(reader, at, &batch) : size) < size &&
           batch.number < reader->next)
        at++;
    reader->at = at;
    reader->n_lost_bytes += at - from;
    if (at == size)
        return false;
    reader->n_lost += reader->next ? batch.number - reader->next : 0;
    reader->next = batch.number;
    return true;
}

/* A head that is whole, but not the one that should follow. */
static bool pass_head(struct rota_journal_reader *reader)
{
    struct rota_journal_head head;
    if (!read_head(reader->bytes, &head) || head.first == 0 || head.first < reader->next ||
        head.index == 0 || head.index < reader->index ||
        (reader->has_seal && memcmp(head.id, reader->id, sizeof head.id) != 0))
        return false;
    reader->n_lost += reader->next ? head.first - reader->next : 0;
    take_head(reader, &head);
    reader->at = ROTA_JOURNAL_HEAD_SIZE;
    return true;
}

bool rota_journal_segment_reader_pass_over(struct rota_journal_reader *reader)
{
    if (reader->at > 0)
        return pass_record(reader) || pass_batch(reader);
    if (pass_head(reader))
        return true;
    reader->index += reader->index > 0;
    reader->first = reader->next;
    if (reader->has_seal)
        return pass_batch(reader);
    reader->n_lost_bytes += reader->bytes.size;
    reader->at = reader->bytes.size;
    return false;
}
