/* journal_record: one record of the work plane as the body of a frame, and back.
 *
 * A body is the type of the record, a mask that says which fields follow, and these fields in the
 * order of the mask; a field that is zero or empty is left out. Numbers are varints. Times,
 * attempts and tags are written as the difference to the batch's first values, and names (of
 * queues, workers, capabilities, keys) once in a batch, later as the place of the name: so a record
 * is small when there are many, and a batch needs nothing before it. docs/journal.md has the table.
 *
 * In ADD and JOB the id, the queue and the partition of the record are those of its spec.
 *
 * The reader is strict and bounded: sizes, counts and enums are those of job.h, every byte must
 * have been used. */
#pragma once

#include "base/buffer.h"
#include "core/work/job/job.h"

enum {
    ROTA_JOURNAL_NAMES = 63, /* that a batch remembers; others are written out */
    /* A body: a payload, a result, and all the rest at its largest. */
    ROTA_JOURNAL_BODY_MAX = 2 * ROTA_JOB_PAYLOAD_MAX + 16384,
};

/* What the records of one batch share. Names lie in the bytes of the batch itself. */
struct rota_journal_batch {
    uint64_t number; /* of its first record */
    rota_time at;
    uint64_t attempt, tag;
    struct {
        size_t offset, size; /* size 0: none yet */
    } names[ROTA_JOURNAL_NAMES];
};

/* Room for what a record points to. */
struct rota_journal_room {
    struct rota_job_spec spec;
    struct rota_work_layout layout;
    struct rota_str capabilities[ROTA_JOB_CAPABILITIES_MAX];
};

/* How many bytes the body will have, at most. */
size_t rota_journal_record_bound(const struct rota_work_record *record);

/* Write a body at `body`, which has room for it, in the bytes `base` of a batch; returns
 * its size. */
size_t rota_journal_record_encode(struct rota_journal_batch *batch,
                                  const struct rota_work_record *record, const char *base,
                                  char *body);

/* Is the record in a frame's body of a kind that we know? */
bool rota_journal_record_is_known(struct rota_str body);

/* Decode the body at the bytes `base`. Fills all of `*record` but its number; it points into
 * `base` and `room`. False when it is malformed. */
bool rota_journal_record_decode(struct rota_journal_batch *batch, const char *base,
                                struct rota_str body, struct rota_work_record *record,
                                struct rota_journal_room *room);

/* The job it is about, without decoding the rest; false when there is none. */
bool rota_journal_record_peek(struct rota_str body, struct rota_job_id *id);

/* --- varints: seven bits a byte, the lowest first; as short as can be --- */

enum { ROTA_JOURNAL_VARINT_MAX = 10 };

static inline char *rota_journal_put(char *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (char)(unsigned char)(value | 0x80);
    *at++ = (char)value;
    return at;
}

/* Read one; returns what follows it, NULL when it is truncated or longer than needed. */
static inline const char *rota_journal_get(const char *at, const char *end, uint64_t *value)
{
    uint64_t sum = 0;
    for (unsigned shift = 0; at < end && shift < 64; shift += 7) {
        unsigned char byte = (unsigned char)*at++;
        sum |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            bool is_fine = (byte > 0 || shift == 0) && (shift < 63 || byte == 1);
            *value = sum;
            return is_fine ? at : NULL;
        }
    }
    return NULL;
}

/* A number in `size` bytes, the lowest first. */
static inline void rota_journal_put_fixed(char *at, uint64_t value, int size)
{
    for (int i = 0; i < size; i++)
        at[i] = (char)(unsigned char)(value >> 8 * i);
}

static inline uint64_t rota_journal_get_fixed(const char *at, int size)
{
    uint64_t value = 0;
    for (int i = 0; i < size; i++)
        value |= (uint64_t)(unsigned char)at[i] << 8 * i;
    return value;
}

/* A distance, which may be negative, so that small ones are short. */
static inline uint64_t rota_journal_zigzag(uint64_t from, uint64_t to)
{
    uint64_t distance = to - from;
    return distance << 1 ^ -(distance >> 63);
}

static inline uint64_t rota_journal_unzigzag(uint64_t from, uint64_t zigzag)
{
    return from + (zigzag >> 1 ^ -(zigzag & 1));
}
