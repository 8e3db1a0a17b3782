/* Counts: how many partitions of a live queue are written and read.
 *
 * Raising a count is safe at once. Lowering it is not, because the partitions to be removed may
 * still hold jobs. So the write count is lowered at once, and the read count follows from the top,
 * one partition after the other, as each becomes known to be empty.
 *
 * A partition is known to be empty when its owner reports so at a time when no process writes to
 * it; earlier reports do not count, as a job may have arrived since. Report a partition only after
 * all writers have seen the lowered write count.
 *
 * Invariants: 1 <= write <= read; write is the last target; read is the last target or, while it is
 * being lowered, more; read never drops below a partition that is not known to be empty.
 *
 * <rota/experimental/queue_watch.h> maintains the counts for a queue of a watched configuration. If
 * your targets come from elsewhere, use this header. */
#pragma once

#include <rota/error.h>
#include <rota/experimental/partition.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Read the fields as you like; change them only with the functions below. */
struct rota_counts {
    int64_t write, read;    /* in force */
    int64_t wanted_read;    /* at most `read` */
    unsigned char *empties; /* one bit per partition: known to be empty */
    size_t size;            /* of `empties`, in bytes */
};

/* Rejects counts below 1 or above ROTA_PARTITIONS_MAX, and a read count below the write count. Any
 * thread. */
enum rota_code rota_counts_check(int64_t write, int64_t read, struct rota_error *error);

/* Starts with these counts in force; fails like rota_counts_check(). */
enum rota_code rota_counts_init(struct rota_counts *counts, int64_t write, int64_t read,
                                struct rota_error *error);
void rota_counts_deinit(struct rota_counts *counts);

/* Sets new target counts. If rota_counts_check() rejects them nothing changes. */
enum rota_code rota_counts_want(struct rota_counts *counts, int64_t write, int64_t read,
                                struct rota_error *error);

/* Reports whether a partition was found empty. Any number is allowed; irrelevant ones are
 * ignored. */
void rota_counts_report_empty(struct rota_counts *counts, int64_t partition, bool is_empty);

/* Whether read is still above its target; and the partition whose report the next step waits for,
 * -1 if there is none. */
bool rota_counts_is_lowering(const struct rota_counts *counts);
int64_t rota_counts_waits_for(const struct rota_counts *counts);

#ifdef __cplusplus
}
#endif
