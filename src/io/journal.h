/* journal: a broker's records on disk, many with one sync.
 *
 * Records are appended on the loop, in the order of their numbers, and cost a copy. At the
 * end of a turn of the loop whatever waits becomes a batch, which a thread of its own
 * writes and syncs while the next one gathers; then `on_durable` tells how far the disk
 * has got. So a slow disk makes batches larger, not the loop slower.
 *
 *     append, append, ... --turn ends--> batch --write, sync--> on_durable(number)
 *
 * **What is told as durable is read again** by whoever opens the directory later: after a
 * crash of the process or of the machine, at whatever byte. What was appended and not
 * told may be read again too, from the front and without gaps.
 *
 * **A full disk** loses nothing: what waits goes on waiting and is tried again, `on_full`
 * says so, and a reserve is given up so that those who end work may go on while those who
 * bring it are refused. `on_room` ends it. The same two tell when more bytes wait than
 * ROTA_JOURNAL_BEHIND. When not even the reserve is enough, that is logged too (`journal stuck`),
 * and when it is over. **A disk that fails** ends it: `on_failed`, once, and nothing is
 * told as durable any more; whoever opens the directory next finds what was.
 *
 * docs/journal.md has the format and what to do with a damaged one. */
#pragma once

#include "io/journal_files.h"

#include <rota/log.h>

struct rota_journal;
struct uv_loop_s;

enum {
    ROTA_JOURNAL_BEHIND = 64 << 20,       /* bytes that wait: time to take in less */
    ROTA_JOURNAL_PENDING_MAX = 512 << 20, /* bytes that may wait */
    ROTA_JOURNAL_OLD = 8,                 /* segments that a view tells of */
    ROTA_JOURNAL_SEALED_MAX = 2,          /* batches that wait, beside the one that gathers */
};

#define ROTA_JOURNAL_RETRY (250 * ROTA_MSEC)
#define ROTA_JOURNAL_LATER (5 * ROTA_MSEC)

struct rota_journal_options {
    const char *directory;
    size_t segment_size, reserve_size;    /* 0: 64 MiB, 8 MiB or less */
    rota_time retry;                      /* how often a full disk is tried again; 0: 250 ms */
    rota_time later;                      /* how long what nobody waits for may wait; 0: 5 ms */
    bool repair;                          /* pass over what is damaged, and count it */
    const struct rota_journal_disk *disk; /* kept; NULL: the real one */
    const struct rota_log *log;           /* kept; may be NULL */

    /* Within rota_journal_open() only: what was written before. A code ends the opening. When
     * records were lost at the end, a FORGET of no job comes last, with the last number. */
    enum rota_code (*on_record)(void *data, const struct rota_work_record *record,
                                struct rota_error *error);
    /* A record about this job comes soon, unless it is damaged: a hint. May be NULL. */
    void (*on_ahead)(void *data, struct rota_job_id id);

    /* From the loop. */
    void (*on_durable)(void *data, uint64_t number); /* all records up to this one */
    void (*on_full)(void *data, const char *why);
    void (*on_room)(void *data);
    void (*on_changed)(void *data); /* segments were made, or have gone; may be NULL */
    void (*on_failed)(void *data, const struct rota_error *error);
    void *data; /* kept */
};

/* A segment: the size of its file, and the number of the first record behind it. */
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
    uint64_t n_free;     /* ... that are free on the disk; UINT64_MAX: who knows */
    size_t segment_size; /* of a new one */
    size_t reserve_size;
    bool has_reserve;
    bool has_sealed; /* batches that are not on disk */
    size_t n_segments;
    size_t n_waiting_bytes;     /* that are not on disk */
    uint64_t n_batches, n_lost; /* commits; records that a repair has passed over */
    bool is_full, is_failed;
};

/* Lock the directory and read what is there. Gives `*journal`; rota_journal_close() ends
 * it. Codes are those of rota_journal_files_open(). */
enum rota_code rota_journal_open(struct uv_loop_s *loop, const struct rota_journal_options *options,
                                 struct rota_journal **journal, struct rota_error *error);

/* Takes `journal`, which may be NULL, and returns at once: what waits is written if it can
 * be, then the lock is given back and `on_closed`, which may be NULL, is called. No other
 * callback comes after. */
void rota_journal_close(struct rota_journal *journal, void (*on_closed)(void *data), void *data);

/* Append a record, whose number is one above the last one's. ROTA_ERR_LIMIT when
 * ROTA_JOURNAL_PENDING_MAX bytes wait, ROTA_ERR_NO_MEMORY: nothing was done, and the same
 * record may be appended later. ROTA_ERR_IO once it has failed. */
enum rota_code rota_journal_append(struct rota_journal *journal,
                                   const struct rota_work_record *record, struct rota_error *error);

/* The same for one that nobody waits for: it is written with the next one that is waited for,
 * or after `later`, so that it costs no sync of its own. */
enum rota_code rota_journal_append_later(struct rota_journal *journal,
                                         const struct rota_work_record *record,
                                         struct rota_error *error);

/* What is appended after this goes to another batch than what was before: when there is no room
 * for the one, that is not for the other's sake. At most ROTA_JOURNAL_SEALED_MAX wait, beyond
 * that it does nothing. */
void rota_journal_seal(struct rota_journal *journal);

/* See that the newest segment can take `bytes` more than what is on disk, without giving up the
 * reserve for it. `on_changed` tells when it has become so; it may never. */
void rota_journal_make_room(struct rota_journal *journal, size_t bytes);

/* Jobs are refused for want of room, and the disk is looked at as if it were full; or no longer. */
void rota_journal_set_short(struct rota_journal *journal, bool is_short);

/* Records below `number` are not needed any more once all that was appended until now is
 * on disk: then segments that hold only such are removed. */
void rota_journal_drop_below(struct rota_journal *journal, uint64_t number);

struct rota_journal_view rota_journal_look(const struct rota_journal *journal);
