/* check_rows: whether the tasks of a group read every row of every partition, one at a time.
 *
 * A partition has rows, from where it was made up to its end; a reader has it under a token and
 * says which rows it reads, when. Each row has to be read, and by nobody after somebody began
 * under a higher token. Rows that were read and not committed before their reader died are read
 * again by the next, which is no fault; those that were committed are not.
 *
 * What there has to be is told from outside (made, ended) and not taken from the readers. Their
 * lines come late and in no order with those of others, so what takes two readers to see is
 * judged in the end. All moments are of one clock. */
#pragma once

#include "base/map.h"
#include "base/vector.h"
#include "core/node/check.h"

#include <rota/time.h>

enum {
    ROTA_CHECK_PARTITIONS_MAX = 100000, /* more are UNCHECKED */
    ROTA_CHECK_READERS_MAX = 1000,      /* of a partition; the same */
    ROTA_CHECK_PARENTS_MAX = 2,
};

struct rota_check_reader {
    uint64_t token, who;
    rota_time start_at, last_at;      /* the latter: of its last row */
    int64_t mark, reached, committed; /* rows: where it began, is, and can't be begun below */
    bool is_late;                     /* which was told */
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

void rota_check_rows_init(struct rota_check_rows *rows, struct rota_check *check); /* keeps it */
void rota_check_rows_deinit(struct rota_check_rows *rows);

/* There is a partition that begins where one of its parents ends, and not before all have ended;
 * or, without parents, at row 0. */
void rota_check_rows_made(struct rota_check_rows *rows, const char *name,
                          const char *const *parents, size_t n_parents);

/* It has no row from this one on. */
void rota_check_rows_ended(struct rota_check_rows *rows, const char *name, int64_t row);

/* Reader `who` has it under `token`, from row `mark` on; has read the rows before `to`; its having
 * read those before `mark` counts for all. */
void rota_check_rows_start(struct rota_check_rows *rows, const char *name, uint64_t token,
                           uint64_t who, int64_t mark, rota_time at);
void rota_check_rows_read(struct rota_check_rows *rows, const char *name, uint64_t token,
                          uint64_t who, int64_t from, int64_t to, rota_time at);
void rota_check_rows_progress(struct rota_check_rows *rows, const char *name, uint64_t token,
                              int64_t mark);

/* All is well from now on: each partition that can be read now has to be read on. `n_awaited` are
 * left. */
void rota_check_rows_await(struct rota_check_rows *rows);

/* All lines are there. To be asked once. */
void rota_check_rows_judge(struct rota_check_rows *rows);
