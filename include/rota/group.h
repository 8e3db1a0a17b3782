/* Groups: partitions that several tasks own together, like a Kafka consumer group, and that split,
 * merge and end while they are read.
 *
 * The tasks of a group agree through an ordered log (docs/groups.md). Each partition has at most
 * one owner; a live task keeps its partitions; those of a dead task go to the least loaded; a child
 * is read only after its parents are finished.
 *
 *     on_start --rota_group_progress()*, rota_group_child()*--> rota_group_finish()
 *     on_start --> on_stop --> rota_group_stopped()
 *
 * Each grant has a token (fencing token), which grows with each owner of the partition. Send it
 * along with everything you do for the partition, so that the receiver can reject a lower one, and
 * call rota_group_is_current() right before each effect: a process can be paused anywhere, for any
 * time, and no timer fires before it continues.
 *
 * Processing is at-least-once: a reader starts from the last position in the log, and repeats what
 * was done after it. Use a group only on the loop's thread. */
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

/* An initial partition. */
struct rota_group_seed {
    struct rota_str name;
    int64_t mark;             /* progress as a number; see rota_group_progress() */
    struct rota_str position; /* where a reader starts */
};

/* A partition that this task owns from now on. Borrowed during the callback. */
struct rota_group_grant {
    struct rota_str partition;
    uint64_t token;
    int64_t mark; /* progress as a number; see rota_group_progress() */
    struct rota_str position;
    const struct rota_str *parents;
    size_t n_parents;
};

/* Notifications, for logs and display. */
enum rota_group_news_type {
    ROTA_GROUP_NEWS_READY,  /* read the log up to its end, `offset`; joins next */
    ROTA_GROUP_NEWS_JOINED, /* a round includes this task: `generation` */
    /* An epoch that includes this task is in force: `epoch`, `tasks`, `is_leader`. */
    ROTA_GROUP_NEWS_EPOCH,
    ROTA_GROUP_NEWS_OWN,       /* a record of ours counted at `offset`: we own a new partition */
    ROTA_GROUP_NEWS_SHARE,     /* ... it is offered to `target` */
    ROTA_GROUP_NEWS_TAKE,      /* ... we took what was offered to us */
    ROTA_GROUP_NEWS_PROGRESS,  /* ... a position is committed: `mark` */
    ROTA_GROUP_NEWS_FINISH,    /* ... it is read to its end */
    ROTA_GROUP_NEWS_REMOVE,    /* ... it is removed */
    ROTA_GROUP_NEWS_MOVE,      /* ... our partition is offered to `target` */
    ROTA_GROUP_NEWS_REFUSED,   /* a report about `partition` is invalid: `reason` */
    ROTA_GROUP_NEWS_WATERMARK, /* the group's watermark reached `mark` */
    /* Lost the log or the group: `reason`; all partitions are being stopped. */
    ROTA_GROUP_NEWS_LOST,
    ROTA_GROUP_NEWS_SKIPPED,     /* the record at `offset` is ignored: `reason` */
    ROTA_GROUP_NEWS_UNREACHABLE, /* the log does not answer: `reason`; reported once per outage */
};

struct rota_group_news {
    enum rota_group_news_type type;
    rota_time at; /* rota_clock_boot(), like every timestamp of a group */
    /* The number of this run of the task; for a record that counted, of the run that wrote it,
     * which may be over. */
    uint64_t incarnation;
    uint64_t epoch, generation, offset, token;
    struct rota_str partition, target;
    const struct rota_str *parents; /* for OWN and SHARE */
    size_t n_parents;
    const struct rota_str *tasks;
    size_t n_tasks;
    bool is_leader;
    int64_t mark;
    const char *reason;
};

/* "joined", "epoch", ... Any thread. */
const char *rota_group_news_name(enum rota_group_news_type type);

/* The strings are copied. */
struct rota_group_options {
    /* "sqlite:PATH", "postgres://USER:PASSWORD@HOST:PORT/DATABASE" or
     * "kafka://HOST:PORT[,HOST:PORT...]". */
    const char *log_url;
    const char *name; /* of the group: letters, digits, '.', '_', '-' */

    /* This task's name, stable across restarts: printable ASCII without blanks, quotes and
     * backslashes. NULL: observe only, never join; nothing is started. */
    const char *task;

    rota_time session; /* a task is dead after this long without a heartbeat; 0 means 6 s; the same
                          in all tasks */

    /* The longest time from on_stop to rota_group_stopped(); 0 means 1 s, or a quarter of a shorter
     * session; at most half of the session. If the log is lost, on_stop is called early enough for
     * this before the session can end. */
    rota_time stop_within;
    rota_time progress_every; /* how often positions are written to the log; 0 means 1 s */

    /* Off if 0. `withdraw_after`: an offer not taken for this long goes to another task.
     * `move_every`: how often running partitions move to a task with at least two fewer,
     * `moves_max` (0: 1) at a time. */
    rota_time withdraw_after, move_every;
    uint32_t moves_max;

    const struct rota_group_seed *seeds; /* initial partitions; the same in all tasks */
    size_t n_seeds;

    /* on_start: read the partition from its position on. on_stop: stop, then call
     * rota_group_stopped(), in the callback or later; until then the partition is not started here
     * again. A finished partition gets no on_stop. */
    void (*on_start)(void *data, const struct rota_group_grant *grant);
    void (*on_stop)(void *data, struct rota_str partition, uint64_t token);

    void (*on_news)(void *data, const struct rota_group_news *news); /* may be NULL */

    /* A partition of any task has changed, by a record written at `at` (wall clock). Called for all
     * records after the first READY, for observers too; a partition that is gone is reported once
     * more, as "removed". May be NULL. */
    void (*on_partition)(void *data, const struct rota_group_partition_status *partition,
                         rota_time at);

    /* A permanent failure: the log was truncated beyond its snapshot or became shorter, or the
     * engine refuses. All partitions got on_stop. Only rota_group_close() makes sense now. */
    void (*on_failed)(void *data, const struct rota_error *error);

    const struct rota_log *log;   /* kept; NULL: none */
    struct rota_metrics *metrics; /* kept; NULL: none */
    void *data;                   /* kept */

    void *reserved[4]; /* must be zero; room for future options */
};

/* Reads the log, then joins. `loop` is kept until the group is closed. An unreachable server is not
 * an error. Gives `*group`; close it with rota_group_close(). */
enum rota_code rota_group_open(struct uv_loop_s *loop, const struct rota_group_options *options,
                               struct rota_group **group, struct rota_error *error);

/* Takes `group`, which may be NULL. Every reader gets on_stop; when all have stopped, the task
 * leaves the group and `on_closed`, which may be NULL, is called from the loop. A callback may call
 * this. */
void rota_group_close(struct rota_group *group, void (*on_closed)(void *data), void *data);

/* Reports that the reader of the partition, started under `token`, is gone: the reply to every
 * on_stop. */
void rota_group_stopped(struct rota_group *group, struct rota_str partition, uint64_t token);

/* Reports a child of a partition that we read. `parents` are all its parents, including
 * `partition`. Any of several parents may report the child, and all may: a known child is ignored.
 * Fails with ROTA_ERR_INVALID or ROTA_ERR_LIMIT, without change. Here and below, calls under a
 * token that is not in force are ignored. */
struct rota_group_child {
    struct rota_str name;
    const struct rota_str *parents;
    size_t n_parents;
    int64_t mark;
    struct rota_str position;
};
enum rota_code rota_group_child(struct rota_group *group, struct rota_str partition, uint64_t token,
                                const struct rota_group_child *child, struct rota_error *error);

/* Adds a partition without parents that is not in the seeds. */
enum rota_code rota_group_add(struct rota_group *group, const struct rota_group_seed *seed,
                              struct rota_error *error);

/* Reports that everything up to `position` is done. `mark` is the progress as a number and never
 * decreases. The position is in the log within `progress_every`, or with the next record. */
enum rota_code rota_group_progress(struct rota_group *group, struct rota_str partition,
                                   uint64_t token, int64_t mark, struct rota_str position,
                                   struct rota_error *error);

/* Reports that the partition is completely processed and its reader is gone, which also answers an
 * on_stop. Its children must have been reported, or `is_end` says that it has none; otherwise the
 * call is rejected and may be repeated. */
enum rota_code rota_group_finish(struct rota_group *group, struct rota_str partition,
                                 uint64_t token, bool is_end, struct rota_error *error);

/* Whether this task owns the partition under this token, now: reads the clock at each call. */
bool rota_group_is_current(const struct rota_group *group, struct rota_str partition,
                           uint64_t token);

/* --- status; borrowed values are valid until the loop runs --- */

struct rota_group_status {
    const char *state; /* "start", "ready", "joining", "waiting", "working", "leaving", "done" */
    uint64_t incarnation, epoch, generation;
    const char *sync_epoch;    /* the epoch's label */
    struct rota_str leader;    /* empty: no epoch yet */
    uint64_t first, next, end; /* of the log: first offset, our next offset to read, end */
    size_t n_tasks, n_partitions, n_unfinished, n_offers, n_running; /* n_running: here */
    bool has_watermark;
    int64_t watermark;
    uint64_t n_skipped;  /* ignored records: foreign, future, malformed, oversized */
    const char *log;     /* its URL without the password */
    const char *trouble; /* why the log was unreachable at the last try; NULL: it was reachable */
};

void rota_group_status(const struct rota_group *group, struct rota_group_status *status);

struct rota_group_task_status {
    struct rota_str task;
    uint64_t incarnation;
    bool is_leader;
    bool has_lag;   /* false: it has not written since we started to read the log */
    uint64_t lag;   /* records that it had not read when it wrote its last one */
    uint32_t load;  /* unfinished partitions, owned by it or offered to it */
    uint32_t owned; /* unfinished partitions that it owns; 0 if out of memory */
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

/* Iterate over the members of the epoch in force, and over all partitions that are not removed.
 * Return false to stop. */
void rota_group_each_task(const struct rota_group *group,
                          bool (*each)(void *data, const struct rota_group_task_status *task),
                          void *data);
void rota_group_each_partition(const struct rota_group *group,
                               bool (*each)(void *data,
                                            const struct rota_group_partition_status *partition),
                               void *data);

/* Writes why a partition is, or is not, where it is: one sentence. Returns `text`. */
char *rota_group_explain(const struct rota_group *group, struct rota_str partition, char *text,
                         size_t size);

#ifdef __cplusplus
}
#endif
