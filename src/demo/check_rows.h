/* check_rows: whether the tasks of a group read every row of every partition, one at a time.
 *
 * A partition has rows, from where it was made up to its end; a reader has it under a token and
 * reports which rows it reads, when. Each row has to be read, and not by a reader after another
 * began under a higher token. Rows that were read and not committed before their reader died are
 * read again by the next, which is not a fault; committed rows are not.
 *
 * The caller says which rows exist (made, ended), not the readers. Readers' reports arrive late
 * and out of order with those of others, so faults between two readers are judged at the end.
 * All timestamps are of one clock. */
#pragma once

#include "base/map.h"
#include "base/vector.h"
#include "demo/check.h"

#include <rota/time.h>

enum {
    ROTA_CHECK_PARTITIONS_MAX = 100000, /* more are UNCHECKED */
    ROTA_CHECK_READERS_MAX = 1000,      /* of a partition; the same */
    ROTA_CHECK_PARENTS_MAX = 2,
};

struct rota_check_reader {
    uint64_t token, who;
    rota_time start_at, last_at;      /* the latter: of its last row */
    int64_t mark, reached, committed; /* rows: where it began, where it is, and where its successor
                                         may begin at the earliest */
    bool is_late;                     /* already reported */
};

struct rota_check_partition {
    char *name;
    struct rota_check_partition *parents[ROTA_CHECK_PARENTS_MAX];
    size_t n_parents;
    ROTA_VECTOR(struct rota_check_reader) readers; /* by token */
    int64_t reached, end;                          /* rows; -1: none, not known */
    bool is_made;                                  /* we know where it begins */
    bool is_awaited;                               /* to be read, since rota_check_rows_await() */
};

struct rota_check_rows {
    struct rota_check *check;
    struct rota_map by_name;
    ROTA_VECTOR(struct rota_check_partition *) partitions;
    uint64_t n_rows; /* that were read, each counted once */
    size_t n_awaited;
};

void rota_check_rows_init(struct rota_check_rows *rows,
                          struct rota_check *check); /* keeps `check` */
void rota_check_rows_deinit(struct rota_check_rows *rows);

/* A partition exists that begins where one of its parents ends, and not before all have ended;
 * or, without parents, at row 0. */
void rota_check_rows_made(struct rota_check_rows *rows, const char *name,
                          const char *const *parents, size_t n_parents);

/* It has no row from this one on. */
void rota_check_rows_ended(struct rota_check_rows *rows, const char *name, int64_t row);

/* Reader `who` has it under `token`, from row `mark` on; has read the rows before `to`; has
 * committed those before `mark`. */
void rota_check_rows_start(struct rota_check_rows *rows, const char *name, uint64_t token,
                           uint64_t who, int64_t mark, rota_time at);
void rota_check_rows_read(struct rota_check_rows *rows, const char *name, uint64_t token,
                          uint64_t who, int64_t from, int64_t to, rota_time at);
void rota_check_rows_progress(struct rota_check_rows *rows, const char *name, uint64_t token,
                              int64_t mark);

/* All nodes are well from now on: each partition that can be read has to make progress.
 * `n_awaited` are left. */
void rota_check_rows_await(struct rota_check_rows *rows);

/* All reports have arrived. Call it once. */
void rota_check_rows_judge(struct rota_check_rows *rows);
