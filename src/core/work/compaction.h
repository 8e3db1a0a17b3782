/* compaction: when to write jobs anew, so that the old segments of a journal can go.
 *
 * A journal holds what became of every job, also of those that are long forgotten. When
 * most of it is such, all jobs whose last whole record is in an old segment are written
 * as they are now, a few at a time between other records, and then these segments hold
 * nothing that is needed:
 *
 *     if ((number = rota_compaction_step(&compaction, &look))) {
 *         size_t n_left = rota_broker_rewrite(broker, number, ROTA_COMPACTION_JOBS);
 *         if (rota_compaction_done(&compaction, n_left))
 *             rota_journal_drop_below(journal, number);
 *     }
 *
 * A journal of jobs that take `live` bytes is therefore at most twice as large and a few
 * segments, and each byte is written anew about once for each that is added. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROTA_COMPACTION_JOBS = 512,   /* that are written anew at one time */
    ROTA_COMPACTION_SEGMENTS = 4, /* a journal that is not larger is left alone */
};

struct rota_compaction {
    uint64_t number; /* jobs with records below it are written anew; 0: none are */
};

struct rota_compaction_look {
    uint64_t bytes; /* of the journal */
    uint64_t live;  /* that its jobs would take; what they take in memory is a fair guess */
    uint64_t edge;  /* the number of the first record in its newest segment */
    size_t segment_size;
    bool is_full;    /* the disk is: whatever can be had back is worth it */
    bool is_damaged; /* a repair has passed over something that is still there */
};

/* Below which number jobs are to be written anew now; 0: not now. */
uint64_t rota_compaction_step(struct rota_compaction *compaction,
                              const struct rota_compaction_look *look);

/* `n_left` are still to be written. True when that was all: drop what is below. */
bool rota_compaction_done(struct rota_compaction *compaction, size_t n_left);
