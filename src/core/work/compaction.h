/* compaction: when to write jobs anew, so that the old segments of a journal can go.
 *
 * A journal holds what became of every job, also of those that are long forgotten. When
 * most of it is such, the jobs whose last whole record is in its oldest segment are written as
 * they are now, a few at a time between other records; then this segment holds nothing that is
 * needed and goes, and the next one is the oldest:
 *
 *     todo = rota_compaction_step(&compaction, now, &look, broker);
 *     if (todo.want)
 *         rota_journal_make_room(journal, todo.want);
 *     ... append what the broker wants to have written, as a batch of its own
 *     if (todo.drop_below)
 *         rota_journal_drop_below(journal, todo.drop_below);
 *
 * A journal of jobs that take `live` bytes is therefore at most twice as large and a few
 * segments, and each byte is written anew about once for each that is added.
 *
 * **Nobody waits for it.** What is written anew goes only to where room is taken for it already,
 * and a segment is begun with only when all that must be written before it can go fits: beyond
 * the reserve; or, on a full disk and when that has more back than it takes, into half of what
 * there is, also with several segments at one time: one that is all needed does not keep others
 * that are not. So a disk that is full becomes less so, or is left as it is for who ends work. */
#pragma once

#include "core/work/room.h"

#include <rota/time.h>

struct rota_broker;

enum {
    ROTA_COMPACTION_JOBS = 512,      /* that are written anew at one time, and ... */
    ROTA_COMPACTION_BYTES = 1 << 20, /* ... bytes, or one job that is larger */
    ROTA_COMPACTION_SEGMENTS = 4,    /* a journal that is not larger is left alone */
    ROTA_COMPACTION_OLD = 8,         /* segments that may go at one time */
};

#define ROTA_COMPACTION_AGAIN   (250 * ROTA_MSEC) /* until what did not fit is looked at again */
#define ROTA_COMPACTION_DROPPED (10 * ROTA_SEC)   /* until a segment that stays is dropped again */

struct rota_compaction {
    uint64_t number;    /* jobs with records below it are written anew; 0: none are */
    uint64_t until;     /* all segments below it are to go; 0: none has to */
    uint64_t dropped;   /* what is below it is no longer needed */
    uint64_t left;      /* in the newest segment, when that was too little */
    bool is_waiting;    /* for room, or for a segment to go ... */
    rota_time again_at; /* ... and when that was in vain */
    bool is_mended;     /* all that was damaged is to go, or is gone */
};

/* An old segment: what the disk has back without it, and the first record that is not in it. */
struct rota_compaction_segment {
    uint64_t bytes, end;
};

struct rota_compaction_look {
    uint64_t bytes; /* of the journal */
    uint64_t live;  /* that its jobs would take; what they take in memory is a fair guess */
    uint64_t edge;  /* the number of the first record in its newest segment */
    struct rota_compaction_segment old[ROTA_COMPACTION_OLD]; /* the oldest first; not the newest */
    size_t n_old;
    size_t segment_size;
    struct rota_room_look room;
    bool is_full;    /* the disk is: whatever can be had back is worth it */
    bool is_damaged; /* a repair has passed over something */
    bool is_busy;    /* what was written anew before is not on disk yet */
};

struct rota_compaction_todo {
    size_t want;         /* have the newest segment take so many bytes; 0: it does */
    uint64_t drop_below; /* records below are not needed once all is on disk; 0: they are */
    bool has_written;    /* `broker` has records to be appended */
};

/* Look whether jobs are to be written anew, and have `broker` do so. */
struct rota_compaction_todo rota_compaction_step(struct rota_compaction *compaction, rota_time now,
                                                 const struct rota_compaction_look *look,
                                                 struct rota_broker *broker);

/* When to look again, whatever happens; or ROTA_TIME_NEVER. */
rota_time rota_compaction_deadline(const struct rota_compaction *compaction);
