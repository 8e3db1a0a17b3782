/* A picker: which partition of a queue a call goes to.
 *
 * Writes go anywhere, all partitions alike. A poll goes where the fewest polls
 * of this picker are outstanding, so that no partition is left without one
 * while another has two. It is counted when it is picked and has to be released
 * when it ends, however it ends.
 *
 * A release counts once. The poll names a slot and the serial number of its
 * pick: a second release, or one that comes after its partition was given up
 * and taken back, can't take away what another poll holds.
 *
 * The counts are this process's own, they are not shared with others. Ties go
 * to the first partition at or after a random one, cyclically, as in Temporal. */
#pragma once

#include <rota/error.h>
#include <rota/partition.h>
#include <rota/random.h>
#include <rota/str.h>
#include <rota/time.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ROTA_POLLS_MAX = 1 << 20,             /* outstanding polls of one picker */
    ROTA_PICKER_QUEUES_MAX = 65536,       /* queues with counts */
    ROTA_PICKER_PARTITIONS_MAX = 1 << 24, /* partitions of all these queues together */
    ROTA_PICKER_FORCED_MAX = 64,          /* forced choices at once */
};

/* A queue without outstanding polls is forgotten when unused for so long. */
#define ROTA_PICKER_IDLE (10 * ROTA_MIN)

struct rota_picker;

/* One outstanding poll, to be released once. Zeroed it is none: releasing that
 * is refused. */
struct rota_poll {
    int64_t partition;
    uint64_t serial;
    uint32_t slot;
};

/* `seed` guards the table of queues against chosen names. Gives `*picker`;
 * rota_picker_free() ends it, outstanding polls included; it accepts NULL. */
enum rota_code rota_picker_new(uint64_t seed, struct rota_picker **picker,
                               struct rota_error *error);
void rota_picker_free(struct rota_picker *picker);

/* A partition to write to: any of `n`, where n < 1 means 1. More than
 * ROTA_PARTITIONS_MAX are refused. */
enum rota_code rota_picker_write(const struct rota_picker *picker, struct rota_str namespace_id,
                                 int64_t n, struct rota_random *random, int64_t *partition,
                                 struct rota_error *error);

/* A partition to poll: the one of `n` with the fewest outstanding polls, where n
 * is as above. `queue` is of the normal kind and its id is ignored; `now` is on
 * the monotonic clock.
 *
 * Counts start at 0 when n has grown; when it has shrunk those beyond are
 * forgotten. Gives `*poll`, counted; on failure nothing is counted. At a bound
 * the queue that was idle longest makes room; if none is idle the pick is
 * refused with ROTA_ERR_LIMIT. */
enum rota_code rota_picker_read(struct rota_picker *picker, rota_time now,
                                const struct rota_partition *queue, int64_t n,
                                struct rota_random *random, struct rota_poll *poll,
                                struct rota_error *error);

/* A poll has ended at `now`, from when on its queue may be idle. False, and
 * nothing done, when it was released before. */
bool rota_picker_release(struct rota_picker *picker, rota_time now, struct rota_poll poll);

/* Forget the queues that are idle for too long; and when that is next needed. */
void rota_picker_step(struct rota_picker *picker, rota_time now);
rota_time rota_picker_deadline(const struct rota_picker *picker);

/* --- looking inside --- */

size_t rota_picker_n_queues(const struct rota_picker *picker);
size_t rota_picker_n_polls(const struct rota_picker *picker);

/* The outstanding polls of each partition of `queue`, the first `size` of them
 * into `counts`. Returns how many partitions have a count; 0 for a queue that
 * is not known. */
size_t rota_picker_counts(const struct rota_picker *picker, const struct rota_partition *queue,
                          uint32_t *counts, size_t size);

/* --- for tests: the choice of a partition, taken out of chance's hands --- */

enum rota_picker_side {
    ROTA_PICKER_WRITE,
    ROTA_PICKER_READ,
};

/* Pick `partition` on this side from now on, for the namespace or, where
 * `namespace_id` is NULL, for all that have no choice of their own. It may lie
 * beyond the partitions that the queue has; negative or ROTA_PARTITIONS_MAX and
 * more is refused. A forced poll is counted like any other. */
enum rota_code rota_picker_force(struct rota_picker *picker, enum rota_picker_side side,
                                 const struct rota_str *namespace_id, int64_t partition,
                                 struct rota_error *error);

/* Leave it to chance again; false when nothing was forced there. */
bool rota_picker_unforce(struct rota_picker *picker, enum rota_picker_side side,
                         const struct rota_str *namespace_id);

#ifdef __cplusplus
}
#endif
