/* journal_segment: the bytes of one file of a journal, written and read.
 *
 *     segment: head, frames, and zeros to the end of the file
 *     frame:   length of the body (2 bytes, or 4), checksum (4), body
 *     batch:   a frame that begins it, and the frames of its records
 *
 * A *batch* is what was written at once and then made durable at once; the next one is written only
 * after that. So everything before the beginning of a batch had been on disk, and may have been
 * acknowledged: an error there is damage. An error after the last beginning of a batch in the last
 * segment is the *torn* end of a write that was never acknowledged, and can be truncated. Nothing
 * else distinguishes the two.
 *
 * Numbers are not written with the records: they count from the head of the segment, and each
 * checksum covers the number, so that no frame fits in another's place.
 *
 * The reader accepts any bytes. It holds only positions, and reads each byte a bounded number of
 * times. */
#pragma once

#include "wire/record/journal_record.h"
#include "wire/record/journal_seal.h"

enum {
    /* Raise it with every new kind or field of records: an older program then rejects what it
     * would otherwise report as damaged. 2: layouts, nodes, counts of lost workers. 3: gradual
     * layouts. */
    ROTA_JOURNAL_VERSION = 3,
    ROTA_JOURNAL_HEAD_SIZE = 48,
};

/* --- the head --- */

struct rota_journal_head {
    unsigned char id[ROTA_JOURNAL_ID_SIZE]; /* of the journal, random */
    uint64_t index;                         /* of the segment; grows by one */
    uint64_t first;                         /* the number of its first record */
};

void rota_journal_segment_head_encode(const struct rota_journal_head *head,
                                      char bytes[ROTA_JOURNAL_HEAD_SIZE]);

/* --- writing --- */

struct rota_journal_writer {
    struct rota_journal_seal seal;
    struct rota_journal_batch batch;
    uint64_t attempt, tag; /* seen last: where the next batch counts from */
};

void rota_journal_segment_writer_init(struct rota_journal_writer *writer,
                                      const unsigned char id[ROTA_JOURNAL_ID_SIZE]);

/* Append a record to a batch; an empty `buffer` begins one. Whether there was memory is
 * asked of the buffer. */
void rota_journal_segment_write(struct rota_journal_writer *writer,
                                const struct rota_work_record *record, struct rota_buffer *buffer);

/* An empty batch before record `number`: it shows that everything before it was on disk, and is
 * written when a journal is closed. */
void rota_journal_segment_write_mark(struct rota_journal_writer *writer, uint64_t number,
                                     struct rota_buffer *buffer);

/* --- reading --- */

enum rota_journal_found {
    ROTA_JOURNAL_FINE,    /* a head, or a record */
    ROTA_JOURNAL_END,     /* all was read, and is whole */
    ROTA_JOURNAL_TORN,    /* valid up to `at`; what follows was never acknowledged */
    ROTA_JOURNAL_DAMAGED, /* at `at`: `why` */
    ROTA_JOURNAL_NEWER,   /* written by a later version: not read at all */
};

struct rota_journal_reader {
    struct rota_str bytes; /* of the segment */
    bool is_last;          /* no segment follows */
    size_t at;             /* the next frame begins here */
    size_t ahead;          /* how far rota_journal_segment_reader_foresee() has looked */
    uint64_t next;         /* the number of the next record; 0: not known */
    uint64_t index;        /* of the next segment; 0: not known */
    uint64_t first;        /* the number of the first record of this segment */
    uint32_t version;      /* of the segment */
    size_t batch_at;       /* where the last batch begins; 0: none in this segment */
    const char *why;       /* of DAMAGED, TORN and NEWER: constant */

    uint64_t n_lost;     /* records that were skipped */
    size_t n_lost_bytes; /* ... and bytes */

    bool has_seal;
    unsigned char id[ROTA_JOURNAL_ID_SIZE];
    struct rota_journal_seal seal;
    struct rota_journal_batch batch;
    struct rota_journal_room room;
};

void rota_journal_segment_reader_init(struct rota_journal_reader *reader);

/* Whether a file that begins like this may be a segment with a truncated head: its first bytes
 * do not belong to another format. */
bool rota_journal_segment_may_begin(struct rota_str bytes);

/* Read the head of the next segment; `bytes` is kept until the segment after it. TORN, only of
 * the last one: it was being created, and is empty. DAMAGED also when it does not follow what
 * was read before. */
enum rota_journal_found rota_journal_segment_reader_open(struct rota_journal_reader *reader,
                                                         struct rota_str bytes, bool is_last);

/* The job of a record some way after `at`, as far as it is known without a check: only a hint.
 * Each call returns the next one; false when there is none. */
bool rota_journal_segment_reader_foresee(struct rota_journal_reader *reader,
                                         struct rota_job_id *id);

/* Read on. The record is borrowed until the next call. */
enum rota_journal_found rota_journal_segment_reader_next(struct rota_journal_reader *reader,
                                                         struct rota_work_record *record);

/* After DAMAGED: continue after the damage, and count it. A damaged head is skipped when another
 * segment has given the journal's id. False when nothing more can be read of this segment. */
bool rota_journal_segment_reader_pass_over(struct rota_journal_reader *reader);
