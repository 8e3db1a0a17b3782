/* compaction: when to rewrite jobs, so that old segments of a journal can be deleted.
 *
 * A journal holds the history of every job, including those that are long forgotten. When most of
 * it is obsolete, the jobs whose last whole record is in its oldest segment are rewritten in their
 * current state, a few at a time between other records; then nothing in this segment is needed and
 * it is deleted, and the next one is the oldest:
 *
 *     todo = rota_compaction_step(&compaction, now, &look, broker);
 *     if (todo.want)
 *         rota_journal_make_room(journal, todo.want);
 *     ... append the records that the broker emits, as a separate batch
 *     if (todo.drop_below)
 *         rota_journal_drop_below(journal, todo.drop_below);
 *
 * A journal of jobs that take `live` bytes is therefore at most twice as large and a few segments,
 * and for each byte that is added about one is rewritten.
 *
 * **It never blocks other work.** Rewritten records use only room that is already allocated, and
 * a segment is started only when everything that must be rewritten before it can be deleted
 * fits: beyond the reserve; or, on a full disk and when that frees more than it takes, into half
 * of the room left, also with several segments at a time, so that one that is fully needed does
 * not keep others that are not. So a full disk becomes less full, or stays as it is for records
 * that end work. */
#pragma once

#include "core/work/broker/room.h"

#include <rota/time.h>

struct rota_broker;

enum {
    ROTA_COMPACTION_JOBS = 512,      /* rewritten at a time, and ... */
    ROTA_COMPACTION_BYTES = 1 << 20, /* ... bytes, or one job that is larger */
    ROTA_COMPACTION_SEGMENTS = 4,    /* a journal that is not larger is left alone */
    ROTA_COMPACTION_OLD = 8,         /* segments that may be deleted at a time */
};

#define ROTA_COMPACTION_AGAIN (250 * ROTA_MSEC) /* until a retry when there was no room */
#define ROTA_COMPACTION_DROPPED                                                                    \
    (10 * ROTA_SEC) /* until a segment that still exists is dropped again */

struct rota_compaction {
    uint64_t number;    /* jobs with records below it are rewritten; 0: none are */
    uint64_t until;     /* all segments below it are to be deleted; 0: none */
    uint64_t dropped;   /* what is below it is no longer needed */
    uint64_t left;      /* room in the newest segment when it was too little */
    bool is_waiting;    /* for room, or for a segment to be deleted ... */
    rota_time again_at; /* ... and when to try again */
    bool is_mended;     /* all damaged segments are to be deleted, or are gone */
};

/* An old segment: the disk space that deleting it frees, and the first record after it. */
struct rota_compaction_segment {
    uint64_t bytes, end;
};

struct rota_compaction_look {
    uint64_t bytes; /* of the journal */
    uint64_t live;  /* that its jobs would take, estimated by their size in memory */
    uint64_t edge;  /* the number of the first record in its newest segment */
    struct rota_compaction_segment old[ROTA_COMPACTION_OLD]; /* the oldest first; not the newest */
    size_t n_old;
    size_t segment_size;
    struct rota_room_look room;
    bool is_full;    /* the disk is full: any space is worth reclaiming */
    bool is_damaged; /* a repair has skipped something */
    bool is_busy;    /* rewritten records are not on disk yet */
};

struct rota_compaction_todo {
    size_t want;         /* let the newest segment reserve this many bytes; 0: it has them */
    uint64_t drop_below; /* records below are not needed once everything is on disk; 0: they are */
    bool has_written;    /* `broker` has records to be appended */
};

/* Check whether to rewrite jobs, and let `broker` do so. */
struct rota_compaction_todo rota_compaction_step(struct rota_compaction *compaction, rota_time now,
                                                 const struct rota_compaction_look *look,
                                                 struct rota_broker *broker);

/* When to check again at the latest; or ROTA_TIME_NEVER. */
rota_time rota_compaction_deadline(const struct rota_compaction *compaction);
