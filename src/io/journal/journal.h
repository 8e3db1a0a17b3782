/* journal: a broker's records on disk, many with one sync.
 *
 * Records are appended on the loop, in the order of their numbers, and cost a copy. At the end of a
 * turn of the loop pending records become a batch, which a separate thread writes and syncs while
 * the next one is collected; then `on_durable` reports what is on disk. So a slow disk makes
 * batches larger, not the loop slower.
 *
 *     append, append, ... --turn ends--> batch --write, sync--> on_durable(number)
 *
 * **What was reported as durable is read again** by the next process that opens the directory:
 * after a crash of the process or of the machine, at any byte. What was appended and not reported
 * may be read again too, from the front and without gaps.
 *
 * **A full disk** loses nothing: pending records stay pending and are retried, `on_full` reports
 * it, and a reserve is released so that work can end while new work is rejected. `on_room` ends it.
 * The same two are called when more bytes are pending than ROTA_JOURNAL_BEHIND. It is also logged
 * when even the reserve is not enough (`journal stuck`), and when that is over. **A disk that
 * fails** ends it: `on_failed`, once, and nothing is reported as durable after that; the next
 * process that opens the directory finds out which records were durable.
 *
 * docs/journal.md has the format and what to do with a damaged one. */
#pragma once

#include "io/journal/journal_files.h"

#include <rota/log.h>

struct rota_journal;
struct uv_loop_s;

enum {
    ROTA_JOURNAL_BEHIND = 64 << 20,       /* pending bytes: time to accept less */
    ROTA_JOURNAL_PENDING_MAX = 512 << 20, /* bytes that may wait */
    ROTA_JOURNAL_OLD = 8,                 /* segments in a view */
    ROTA_JOURNAL_SEALED_MAX = 2,          /* waiting batches, in addition to the one being filled */
};

#define ROTA_JOURNAL_RETRY (250 * ROTA_MSEC)
#define ROTA_JOURNAL_LATER (5 * ROTA_MSEC)

struct rota_journal_options {
    const char *directory;
    size_t segment_size, reserve_size; /* 0: 64 MiB, 8 MiB or less */
    rota_time retry;                   /* how often a full disk is tried again; 0: 250 ms */
    rota_time later; /* how long a record that nothing waits for may be delayed; 0: 5 ms */
    bool repair;     /* skip what is damaged, and count it */
    const struct rota_journal_disk *disk; /* kept; NULL: the real one */
    const struct rota_log *log;           /* kept; may be NULL */

    /* Within rota_journal_open() only: the records of the journal. A code ends the opening. When
     * records were lost at the end, a FORGET of no job comes last, with the last number. */
    enum rota_code (*on_record)(void *data, const struct rota_work_record *record,
                                struct rota_error *error);
    /* A hint: a record about this job comes soon, unless it is damaged. May be NULL. */
    void (*on_ahead)(void *data, struct rota_job_id id);

    /* From the loop. */
    void (*on_durable)(void *data, uint64_t number); /* all records up to this one */
    void (*on_full)(void *data, const char *why);
    void (*on_room)(void *data);
    void (*on_changed)(void *data); /* segments were made, or deleted; may be NULL */
    void (*on_failed)(void *data, const struct rota_error *error);
    void *data; /* kept */
};

/* A segment: the size of its file, and the number of the first record after it. */
struct rota_journal_segment {
    uint64_t bytes, end;
};

struct rota_journal_view {
    uint64_t last, durable; /* numbers; of what was appended, of what is on disk */
    uint64_t bytes;         /* of all segments */
    uint64_t edge;          /* the first number of the newest segment */
    struct rota_journal_segment old[ROTA_JOURNAL_OLD]; /* the oldest ones, without the newest */
    size_t n_old;
    uint64_t n_left;     /* bytes that the newest segment may still take */
    uint64_t n_free;     /* ... that are free on the disk; UINT64_MAX: not known */
    size_t segment_size; /* of a new one */
    size_t reserve_size;
    bool has_reserve;
    bool has_sealed; /* batches that are not on disk */
    size_t n_segments;
    size_t n_waiting_bytes;     /* that are not on disk */
    uint64_t n_batches, n_lost; /* commits; records that a repair skipped */
    bool is_full, is_failed;
};

/* Lock the directory and read its content. Gives `*journal`; rota_journal_close() ends it. Codes
 * are those of rota_journal_files_open(). */
enum rota_code rota_journal_open(struct uv_loop_s *loop, const struct rota_journal_options *options,
                                 struct rota_journal **journal, struct rota_error *error);

/* Takes `journal`, which may be NULL, and returns at once: pending records are written if
 * possible, then the lock is released and `on_closed`, which may be NULL, is called. No other
 * callback is called after this. */
void rota_journal_close(struct rota_journal *journal, void (*on_closed)(void *data), void *data);

/* Append a record, whose number is one above the last one's. ROTA_ERR_LIMIT when
 * ROTA_JOURNAL_PENDING_MAX bytes are pending, ROTA_ERR_NO_MEMORY: nothing was done, and the same
 * record may be appended later. ROTA_ERR_IO once it has failed. */
enum rota_code rota_journal_append(struct rota_journal *journal,
                                   const struct rota_work_record *record, struct rota_error *error);

/* The same for a record that nothing waits for: it is written with the next record that something
 * waits for, or after `later`, so that it needs no separate sync. */
enum rota_code rota_journal_append_later(struct rota_journal *journal,
                                         const struct rota_work_record *record,
                                         struct rota_error *error);

/* Records appended after this go to another batch than those before: if there is no room for
 * one, that does not affect the other. At most ROTA_JOURNAL_SEALED_MAX are pending, beyond that
 * it does nothing. */
void rota_journal_seal(struct rota_journal *journal);

/* Make sure that the newest segment can take `bytes` more than what is on disk, without
 * releasing the reserve for it. `on_changed` reports when it can; that may never happen. */
void rota_journal_make_room(struct rota_journal *journal, size_t bytes);

/* Jobs are rejected for lack of room, and the disk is checked as if it were full; or no longer. */
void rota_journal_set_short(struct rota_journal *journal, bool is_short);

/* Records below `number` are not needed once everything appended until now is on disk: then
 * segments that hold only such records are deleted. */
void rota_journal_drop_below(struct rota_journal *journal, uint64_t number);

struct rota_journal_view rota_journal_look(const struct rota_journal *journal);
