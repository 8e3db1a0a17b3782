/* Counts: how many partitions of a live queue are written and read.
 *
 * Raising is safe at once. Lowering is not: jobs may still lie in the
 * partitions that go. So write is lowered at once, and read follows from the
 * top down, past one partition after the other, as each is known to be empty.
 *
 * A partition is known to be empty when its owner says so at a time when nobody
 * writes to it any more; what it said before counts for nothing, for a job may
 * have come since. Whoever reports has to have seen the lowered write count
 * reach all who write.
 *
 * Invariants: 1 <= write <= read; write is what was last wanted; read is what
 * was last wanted or, while lowering, more; read never drops below a partition
 * that is not known to be empty.
 *
 * <rota/queue_watch.h> keeps them for a queue of a configuration that is
 * watched; who learns the wanted counts otherwise holds them here. */
#pragma once

#include <rota/error.h>
#include <rota/partition.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* To be read by all, changed by the functions below alone. */
struct rota_counts {
    int64_t write, read;    /* in force */
    int64_t wanted_read;    /* at most `read` */
    unsigned char *empties; /* a bit for each partition: known to be empty */
    size_t size;            /* of `empties`, in bytes */
};

/* Refuses counts below 1 or above ROTA_PARTITIONS_MAX, and fewer read than
 * written. Any thread. */
enum rota_code rota_counts_check(int64_t write, int64_t read, struct rota_error *error);

/* Begin with these counts in force; refuses what rota_counts_check() does. */
enum rota_code rota_counts_init(struct rota_counts *counts, int64_t write, int64_t read,
                                struct rota_error *error);
void rota_counts_deinit(struct rota_counts *counts);

/* Want other counts. When rota_counts_check() refuses them nothing changes. */
enum rota_code rota_counts_want(struct rota_counts *counts, int64_t write, int64_t read,
                                struct rota_error *error);

/* Partition `partition` was found to hold no job, or to hold some. Any number
 * is allowed; what does not matter is ignored. */
void rota_counts_report_empty(struct rota_counts *counts, int64_t partition, bool is_empty);

/* Whether read is still above what is wanted; and the partition whose report
 * the next step waits for, -1 when there is none. */
bool rota_counts_is_lowering(const struct rota_counts *counts);
int64_t rota_counts_waits_for(const struct rota_counts *counts);

#ifdef __cplusplus
}
#endif
