/* journal_files: the directory of a journal: a lock, segments NNN.journal, a reserve, and a range.
 *
 * All functions block, and belong to one thread at a time: the one that opens it, and then the
 * thread that writes. The promise: when rota_journal_files_write() has returned ROTA_OK, what was
 * written is read again when the directory is opened later, whatever happened in between except
 * damage to the disk.
 *
 * - A new segment is allocated as a whole, and its head and its name are on disk before
 *   anything else is written to it. So a sync has no sizes to write. Now and then zeros are
 *   written ahead of the batches: what was only allocated costs a file system a change of its
 *   own records with each sync, and what was written before costs none.
 * - A segment that is no longer written to is truncated to its content.
 * - Segments are deleted one after the other, the oldest first and each durably before the next.
 *   So what is left is always without a gap.
 * - The range says which segments must exist, so that none goes missing unnoticed. A
 *   segment is in it before anything is acknowledged that it holds, and no longer when it is
 *   removed: there may be others below and above, but never fewer.
 * - When a directory is opened, its last batch is written and synced once
 *   more: the process that wrote it may have died, or failed, before its sync, and
 *   what is in memory only must not count as durable.
 * - The reserve is released when the disk is full, so that work in progress can still
 *   end. */
#pragma once

#include "base/vector.h"
#include "io/journal/journal_disk.h"
#include "wire/record/journal_range.h"
#include "wire/record/journal_segment.h"

enum {
    ROTA_JOURNAL_SEGMENT = 64 << 20,
    ROTA_JOURNAL_SEGMENT_MIN = 4096,
    ROTA_JOURNAL_SEGMENT_MAX = 1 << 30, /* also of a file that is read */
    ROTA_JOURNAL_RESERVE = 8 << 20,     /* or an eighth of a smaller disk */
    ROTA_JOURNAL_AHEAD = 512 << 10,     /* zeros before the batches */
};

struct rota_journal_files_options {
    const char *directory;                /* is made when it is not there */
    size_t segment_size, reserve_size;    /* 0: the defaults */
    bool repair;                          /* skip what is damaged */
    const struct rota_journal_disk *disk; /* kept; NULL: the real one */

    /* A record, in the order of their numbers; borrowed. A code ends the opening. */
    enum rota_code (*on_record)(void *data, const struct rota_work_record *record,
                                struct rota_error *error);
    /* A hint: a record about this job comes soon, unless it is damaged. May be NULL. */
    void (*on_ahead)(void *data, struct rota_job_id id);
    void *data;
};

struct rota_journal_part {
    uint64_t index, first; /* number of its first record */
    size_t used, size;     /* bytes; of the file */
};

struct rota_journal_files {
    char *directory;
    size_t segment_size, reserve_size;
    const struct rota_journal_disk *disk;
    int lock_fd;
    int fd;       /* of the last segment; -1: the next write makes one */
    size_t size;  /* that is allocated for it */
    size_t ready; /* up to here it was written before, if only with zeros */
    ROTA_VECTOR(struct rota_journal_part) parts;
    bool has_id;
    unsigned char id[ROTA_JOURNAL_ID_SIZE];
    uint64_t index;                  /* of the next segment */
    bool is_full;                    /* the reserve was given up */
    bool is_open;                    /* all users may list the directory */
    struct rota_journal_range range; /* the content of the file */
    bool has_bad_range;              /* it could not be read, and is recreated */
    bool is_range_torn;              /* the last write of it was cut off, or is damaged */

    /* What was found when it was opened. */
    uint64_t n_records, last; /* number of the last record; 0: none */
    uint64_t had;             /* a record that there was before, says `lock`; 0: it does not know */
    uint64_t n_lost;          /* records that were skipped */
    size_t n_lost_bytes;      /* ... and bytes */
    uint64_t n_missing;       /* segments that were not there */
    size_t n_cut_bytes;       /* that were written but never acknowledged */
    char cut_path[64];        /* the file that was truncated, without its directory */
    size_t cut_at;
};

/* Lock `options->directory` and read its content. Gives `*files`; rota_journal_files_close()
 * ends it. ROTA_ERR_UNAVAILABLE when another process has it, ROTA_ERR_INVALID when it can't be
 * read: damaged, newer, or not a journal. */
enum rota_code rota_journal_files_open(const struct rota_journal_files_options *options,
                                       struct rota_journal_files **files, struct rota_error *error);
void rota_journal_files_close(struct rota_journal_files *files); /* may be NULL */

/* Whether it would be rejected for its modes and owners, or those of its segments, without reading
 * them: the errors of rota_journal_files_open(). ROTA_OK if it does not exist. */
enum rota_code rota_journal_read_files_check(const char *directory, struct rota_error *error);

/* Make a batch durable whose first record is `first`. ROTA_ERR_LIMIT when there is no room: try
 * again with the same bytes, or more of them. ROTA_ERR_IO: nothing may be written from now on,
 * since it is unknown what is on disk. */
enum rota_code rota_journal_files_write(struct rota_journal_files *files, struct rota_str batch,
                                        uint64_t first, struct rota_error *error);

/* Everything is written, and `next` is the number of the next record: a reader must find all
 * records before it. The next write invalidates this. If it can't be written, the journal reads
 * like one that was not closed. */
void rota_journal_files_end(struct rota_journal_files *files, uint64_t next);

/* Remove segments that hold nothing but records below `number`; never the last one. */
enum rota_code rota_journal_files_drop(struct rota_journal_files *files, uint64_t number,
                                       struct rota_error *error);

/* Make the last segment, or a new one if needed, take `need` bytes more, without the reserve.
 * ROTA_ERR_LIMIT when there is no room. */
enum rota_code rota_journal_files_make_room(struct rota_journal_files *files, size_t need,
                                            struct rota_error *error);

/* Whether there is a reserve, or room for it again. A reserve that was given up is restored only if
 * half as much again is free, or the next batch would give it up again. */
bool rota_journal_files_find_room(struct rota_journal_files *files);

/* Bytes that the last segment may still take, and that are free on the disk; UINT64_MAX: not
 * known. */
size_t rota_journal_files_left(const struct rota_journal_files *files);
uint64_t rota_journal_files_free(const struct rota_journal_files *files);

/* Bytes of all records, and the number of the first one in the last segment. */
uint64_t rota_journal_files_bytes(const struct rota_journal_files *files);
uint64_t rota_journal_files_edge(const struct rota_journal_files *files);

/* --- shared by its sources --- */

enum { ROTA_JOURNAL_PATH_MAX = 4096 };

/* The path of a segment, or of `name`. Returns `path`. */
char *rota_journal_files_path(const struct rota_journal_files *files, uint64_t index,
                              char path[ROTA_JOURNAL_PATH_MAX]);
char *rota_journal_files_path_of(const struct rota_journal_files *files, const char *name,
                                 char path[ROTA_JOURNAL_PATH_MAX]);

/* The error for a path, from errno; names the owner when that is the cause. */
enum rota_code rota_journal_files_refuse(const char *path, const char *what,
                                         struct rota_error *error);

/* Write all of it, over interruptions and short writes; -1 with errno. */
int rota_journal_files_put(struct rota_journal_files *files, int fd, struct rota_str bytes,
                           size_t at);
int rota_journal_files_sync(struct rota_journal_files *files, int fd);

/* Reserve room for a file, where the file system can. */
int rota_journal_files_allocate(struct rota_journal_files *files, int fd, size_t size);

/* Check the directory itself, and note whether it is open to all users. */
enum rota_code rota_journal_files_check_directory(struct rota_journal_files *files,
                                                  struct rota_error *error);

/* Read all segments, and make the last one ready to be written to. */
enum rota_code rota_journal_read_files(struct rota_journal_files *files,
                                       const struct rota_journal_files_options *options,
                                       struct rota_error *error);

/* Fill `files->range` from the file, which may not be there. One that is damaged is refused, or
 * with `repair` taken for none. */
enum rota_code rota_journal_files_range_read(struct rota_journal_files *files, bool repair,
                                             struct rota_error *error);

/* Write another one durably; sets its sequence. -1 with errno: the old one holds, or this one. */
int rota_journal_files_range_put(struct rota_journal_files *files, struct rota_journal_range range);
