/* Groups: partitions that this process owns together with others, which split, merge
 * and end while they are read.
 *
 * The tasks of a group agree through an ordered log (docs/groups.md): each partition
 * has one owner at most, what a living task owns stays with it, what a dead one had
 * goes to the least loaded, and a child is read only after its parents are finished.
 *
 *     on_start --rota_group_progress()*, rota_group_child()*--> rota_group_finish()
 *     on_start --> on_stop --> rota_group_stopped()
 *
 * Each grant has a token, which grows with each owner of the partition. What is done
 * for a partition carries it, so that whoever receives it can refuse a lower one; and
 * right before each effect rota_group_is_current() is asked, for a process may be
 * stopped anywhere, for any time, and no timer fires before it goes on.
 *
 * Work is done at least once: a reader starts from the last position that is in the
 * log, and what was done after it is done again. All of this belongs to the loop's
 * thread. */
#pragma once

#include <rota/error.h>
#include <rota/log.h>
#include <rota/metrics.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rota_group;
struct rota_group_partition_status;
struct uv_loop_s;

#ifdef __cplusplus
extern "C" {
#endif

/* A partition to begin with. */
struct rota_group_seed {
    struct rota_str name;
    int64_t mark;
    struct rota_str position;
};

/* A partition that is ours from now on. Borrowed while the callback runs. */
struct rota_group_grant {
    struct rota_str partition;
    uint64_t token;
    int64_t mark; /* how far the position is */
    struct rota_str position;
    const struct rota_str *parents;
    size_t n_parents;
};

/* What happened, for logs and people. */
enum rota_group_news_type {
    ROTA_GROUP_NEWS_READY,       /* the log was read up to `offset`, its end; then we join */
    ROTA_GROUP_NEWS_JOINED,      /* a round has us: `generation` */
    ROTA_GROUP_NEWS_EPOCH,       /* one that has us is in force: `epoch`, `tasks`, `is_leader` */
    ROTA_GROUP_NEWS_OWN,         /* what we said counted at `offset`: a new partition is ours */
    ROTA_GROUP_NEWS_SHARE,       /* ... is offered to `target` */
    ROTA_GROUP_NEWS_TAKE,        /* ... what was offered to us is ours */
    ROTA_GROUP_NEWS_PROGRESS,    /* ... a position is committed: `mark` */
    ROTA_GROUP_NEWS_FINISH,      /* ... it is read to its end */
    ROTA_GROUP_NEWS_REMOVE,      /* ... it is gone */
    ROTA_GROUP_NEWS_MOVE,        /* ... what we had is offered to `target` */
    ROTA_GROUP_NEWS_REFUSED,     /* what was reported of `partition` can't be: `reason` */
    ROTA_GROUP_NEWS_WATERMARK,   /* of the group has come to `mark` */
    ROTA_GROUP_NEWS_LOST,        /* the log or the group: `reason`; everything is being stopped */
    ROTA_GROUP_NEWS_SKIPPED,     /* the record at `offset` is not believed: `reason` */
    ROTA_GROUP_NEWS_UNREACHABLE, /* the log does not answer: `reason`; told once until it does */
};

struct rota_group_news {
    enum rota_group_news_type type;
    rota_time at;         /* rota_clock_boot(), like every time of a group */
    uint64_t incarnation; /* ours: the number of this life of the task; of what counted: the life
                             that wrote it, which may be over */
    uint64_t epoch, generation, offset, token;
    struct rota_str partition, target;
    const struct rota_str *parents; /* of OWN and SHARE */
    size_t n_parents;
    const struct rota_str *tasks;
    size_t n_tasks;
    bool is_leader;
    int64_t mark;
    const char *reason;
};

/* "joined", "epoch", ... Any thread. */
const char *rota_group_news_name(enum rota_group_news_type type);

/* The texts are copied. */
struct rota_group_options {
    /* "sqlite:PATH", "postgres://USER:PASSWORD@HOST:PORT/DATABASE" or
     * "kafka://HOST:PORT[,HOST:PORT...]". */
    const char *log_url;
    const char *name; /* of the group: letters, digits, '.', '_', '-' */

    /* This task's name: printable ASCII without blanks, quotes and backslashes, the same
     * after a restart. NULL: only look, never join; nothing is started. */
    const char *task;

    rota_time session; /* a silent task is given up after; 0 means 6 s; the same in all tasks */

    /* How long a reader needs at most between on_stop and rota_group_stopped(); 0 means
     * 1 s, or a quarter of a shorter session; at most half of it. Everything is stopped by
     * ourselves early enough for that before the session of ours can be over. */
    rota_time stop_within;
    rota_time progress_every; /* positions go to the log this often; 0 means 1 s */

    /* Off when 0. An offer not taken for so long goes to another; a running partition
     * is handed to a task with at least two fewer, so often and `moves_max` (0: 1) at
     * once. */
    rota_time withdraw_after, move_every;
    uint32_t moves_max;

    const struct rota_group_seed *seeds; /* the same in all tasks */
    size_t n_seeds;

    /* Read the partition from its position on. Stop, and then say rota_group_stopped():
     * in the callback or later; until then nobody else starts it here. A partition that
     * was finished gets no on_stop. */
    void (*on_start)(void *data, const struct rota_group_grant *grant);
    void (*on_stop)(void *data, struct rota_str partition, uint64_t token);

    void (*on_news)(void *data, const struct rota_group_news *news); /* may be NULL */

    /* Somebody's partition is no longer as it was, by a record that was made at `at` (wall
     * clock). Told of all records from the first READY on, to those who only look, too; a
     * partition that is gone is told once more, as "removed". May be NULL. */
    void (*on_partition)(void *data, const struct rota_group_partition_status *partition,
                         rota_time at);

    /* The end: the log was cut beyond its snapshot or has become shorter, the engine
     * refuses. Everything was told to stop. Only rota_group_close() makes sense now. */
    void (*on_failed)(void *data, const struct rota_error *error);

    const struct rota_log *log;   /* kept; NULL: none */
    struct rota_metrics *metrics; /* kept; NULL: nothing is counted for others */
    void *data;                   /* kept */
};

/* Begin: read the log, then join. `loop` is kept until the group is closed. A server that
 * is away is no error. Gives `*group`; rota_group_close() ends it. */
enum rota_code rota_group_open(struct uv_loop_s *loop, const struct rota_group_options *options,
                               struct rota_group **group, struct rota_error *error);

/* Takes `group`, which may be NULL. Every reader is told to stop; when the last one has
 * said that it did, the group is left and `on_closed`, which may be NULL, is called from
 * the loop. A callback may call this. */
void rota_group_close(struct rota_group *group, void (*on_closed)(void *data), void *data);

/* The reader of the partition, which was started under `token`, is gone: the answer to
 * every on_stop. */
void rota_group_stopped(struct rota_group *group, struct rota_str partition, uint64_t token);

/* The partition that we read has a child, or this is one of several parents of it.
 * `parents` are all of them, `partition` included. It is ignored when it is known
 * already: of several parents any reports it, and all may. Refused with
 * ROTA_ERR_INVALID or ROTA_ERR_LIMIT and nothing is changed. What is said under a token
 * that is not in force is ignored, here and below. */
struct rota_group_child {
    struct rota_str name;
    const struct rota_str *parents;
    size_t n_parents;
    int64_t mark;
    struct rota_str position;
};
enum rota_code rota_group_child(struct rota_group *group, struct rota_str partition, uint64_t token,
                                const struct rota_group_child *child, struct rota_error *error);

/* A partition without parents that the group did not begin with. */
enum rota_code rota_group_add(struct rota_group *group, const struct rota_group_seed *seed,
                              struct rota_error *error);

/* All up to `position` is done; `mark` says how far that is, and never goes back. It is
 * in the log within `progress_every`, or with whatever is written before. */
enum rota_code rota_group_progress(struct rota_group *group, struct rota_str partition,
                                   uint64_t token, int64_t mark, struct rota_str position,
                                   struct rota_error *error);

/* All of it is read and done, and the reader is gone, which answers an on_stop too. Its
 * children were reported, or `is_end` says that there are none: else it is refused, and
 * may be said again. */
enum rota_code rota_group_finish(struct rota_group *group, struct rota_str partition,
                                 uint64_t token, bool is_end, struct rota_error *error);

/* Whether the partition is ours under this token, now: reads the clock at each call. */
bool rota_group_is_current(const struct rota_group *group, struct rota_str partition,
                           uint64_t token);

/* --- questions; what is borrowed is valid until the loop goes on --- */

struct rota_group_status {
    const char *state; /* "start", "ready", "joining", "waiting", "working", "leaving", "done" */
    uint64_t incarnation, epoch, generation;
    const char *sync_epoch;    /* the epoch's label */
    struct rota_str leader;    /* empty: there was no epoch yet */
    uint64_t first, next, end; /* the log: its first offset, ours to read, its end */
    size_t n_tasks, n_partitions, n_unfinished, n_offers, n_running; /* the last: here */
    bool has_watermark;
    int64_t watermark;
    uint64_t n_skipped;  /* records that are not believed: foreign, future, malformed, oversized */
    const char *log;     /* its URL without the password */
    const char *trouble; /* why the log could not be reached at the last try; NULL: it was */
};

void rota_group_status(const struct rota_group *group, struct rota_group_status *status);

struct rota_group_task_status {
    struct rota_str task;
    uint64_t incarnation;
    bool is_leader;
    bool has_lag;   /* false: it has not written since we began to read the log */
    uint64_t lag;   /* records before the last one it wrote that it had not read by then */
    uint32_t load;  /* unfinished partitions, its own and offered to it */
    uint32_t owned; /* unfinished partitions that it has; 0 without memory to count */
};

struct rota_group_partition_status {
    struct rota_str partition;
    const char *life; /* "created", "ready", "running", "finished"; and "removed" */
    struct rota_str owner, target, sharer; /* empty: none */
    uint64_t token;
    int64_t mark;
    struct rota_str position;
    const struct rota_str *parents;
    size_t n_parents;
};

/* Members of the epoch in force; partitions that are not removed. Return false to end. */
void rota_group_each_task(const struct rota_group *group,
                          bool (*each)(void *data, const struct rota_group_task_status *task),
                          void *data);
void rota_group_each_partition(const struct rota_group *group,
                               bool (*each)(void *data,
                                            const struct rota_group_partition_status *partition),
                               void *data);

/* Write why a partition is, or is not, where it is: one sentence. Returns `text`. */
char *rota_group_explain(const struct rota_group *group, struct rota_str partition, char *text,
                         size_t size);

#ifdef __cplusplus
}
#endif
