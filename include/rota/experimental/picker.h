/* A picker: chooses the partition of a queue for a call.
 *
 * Writes go to any partition with equal probability. A poll goes to the partition with the fewest
 * outstanding polls of this picker, so that no partition is without a poll while another has two.
 * The poll is counted when it is picked; release it when it ends, however it ends.
 *
 * A release counts once. The poll names a slot and the serial number of its pick: a second release,
 * or one that comes after its partition was removed and added again, cannot take a count from
 * another poll.
 *
 * The counts are local to this process. Ties go to the first partition at or after a random one,
 * cyclically, as in Temporal. */
#pragma once

#include <rota/error.h>
#include <rota/experimental/partition.h>
#include <rota/experimental/random.h>
#include <rota/str.h>
#include <rota/time.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ROTA_POLLS_MAX = 1 << 20,             /* outstanding polls of one picker */
    ROTA_PICKER_QUEUES_MAX = 65536,       /* queues with counts */
    ROTA_PICKER_PARTITIONS_MAX = 1 << 24, /* partitions of all these queues together */
    ROTA_PICKER_FORCED_MAX = 64,          /* concurrent forced choices */
};

/* A queue without outstanding polls is forgotten after this time without use. */
#define ROTA_PICKER_IDLE (10 * ROTA_MIN)

struct rota_picker;

/* An outstanding poll, to be released once. A zeroed one is not a poll: its release is rejected. */
struct rota_poll {
    int64_t partition;
    uint64_t serial;
    uint32_t slot;
};

/* `seed` protects the hash table of queues against chosen names. Gives `*picker`; free it with
 * rota_picker_free(), even with outstanding polls; it accepts NULL. */
enum rota_code rota_picker_new(uint64_t seed, struct rota_picker **picker,
                               struct rota_error *error);
void rota_picker_free(struct rota_picker *picker);

/* Picks a partition to write to: any of `n`, where n < 1 means 1. Rejects more than
 * ROTA_PARTITIONS_MAX. */
enum rota_code rota_picker_write(const struct rota_picker *picker, struct rota_str namespace_id,
                                 int64_t n, struct rota_random *random, int64_t *partition,
                                 struct rota_error *error);

/* Picks a partition to poll: the one of `n` (as above) with the fewest outstanding polls. `queue`
 * must be of the normal kind; its id is ignored. `now` is on the monotonic clock.
 *
 * If n has grown, new counts start at 0; if it has shrunk, the counts beyond are forgotten. Gives
 * `*poll`, counted; on failure nothing is counted. At a limit, the queue that was idle longest
 * makes room; if none is idle, the pick fails with ROTA_ERR_LIMIT. */
enum rota_code rota_picker_read(struct rota_picker *picker, rota_time now,
                                const struct rota_partition *queue, int64_t n,
                                struct rota_random *random, struct rota_poll *poll,
                                struct rota_error *error);

/* Releases a poll that ended at `now`; its queue may be idle from then on. Returns false, without
 * effect, if the poll was released before. */
bool rota_picker_release(struct rota_picker *picker, rota_time now, struct rota_poll poll);

/* Forgets queues that were idle for too long; and when that is needed next. */
void rota_picker_step(struct rota_picker *picker, rota_time now);
rota_time rota_picker_deadline(const struct rota_picker *picker);

/* --- introspection --- */

size_t rota_picker_n_queues(const struct rota_picker *picker);
size_t rota_picker_n_polls(const struct rota_picker *picker);

/* Copies the outstanding polls of the first `size` partitions of `queue` into `counts`. Returns the
 * number of partitions with a count; 0 for an unknown queue. */
size_t rota_picker_counts(const struct rota_picker *picker, const struct rota_partition *queue,
                          uint32_t *counts, size_t size);

/* --- for tests: forced choices --- */

enum rota_picker_side {
    ROTA_PICKER_WRITE,
    ROTA_PICKER_READ,
};

/* Always picks `partition` on this side from now on, for the namespace or, if `namespace_id` is
 * NULL, for all namespaces without a choice of their own. It may be beyond the partitions of the
 * queue; negative values, and ROTA_PARTITIONS_MAX and above, are rejected. A forced poll is counted
 * like any other. */
enum rota_code rota_picker_force(struct rota_picker *picker, enum rota_picker_side side,
                                 const struct rota_str *namespace_id, int64_t partition,
                                 struct rota_error *error);

/* Ends a forced choice; false if there was none. */
bool rota_picker_unforce(struct rota_picker *picker, enum rota_picker_side side,
                         const struct rota_str *namespace_id);

#ifdef __cplusplus
}
#endif
