/* up: a cluster on this machine, for people to try and for scripts to use.
 *
 * The parts of `rota up`: where its files and programs are (up_place.c), the processes
 * (up_process.c), a sample load on them that keeps a ledger of every job that was acknowledged
 * (up_load.c), Gets whose values are known (up_gets.c), tasks of a group whose every row is
 * looked at (up_group.c), and the whole (cmd_up.c). For these alone. */
#pragma once

#include "base/buffer.h"
#include "base/map.h"
#include "base/vector.h"
#include "cli/watch.h"
#include "core/call/backoff.h"
#include "core/node/node_chaos.h"
#include "core/work/job.h"
#include "run/child.h"

#include <limits.h>
#include <rota/channel.h>

enum {
    ROTA_UP_NODES_MAX = 16,
    ROTA_UP_WORKERS_MAX = 8,
    ROTA_UP_JOBS_MAX = 4096,     /* of the load that are not seen done; no more are added then */
    ROTA_UP_LISTED_MAX = 500000, /* jobs that are looked at in the end */
    ROTA_UP_TOLD_MAX = 10,       /* jobs that are named when something is wrong with them */
    ROTA_UP_WORDS_MAX = 32,      /* of a command line */
    ROTA_UP_KEYS = 1000,         /* of the sample cache, each with a value */
    ROTA_UP_VALUE_MAX = 80,
    ROTA_UP_GETS_MAX = 256,          /* under way; no more are begun then */
    ROTA_UP_PARTITIONS_MAX = 100000, /* of the group that are looked at */
    ROTA_UP_GAPS_MAX = 8,            /* in what was read of a partition, at one time */
    ROTA_UP_LOG_MAX = 4 << 20,       /* bytes of a log; then it becomes NAME.log.old */
};

/* A node that somebody has killed stays away for so long, which is longer than its ttl: the others
 * notice it and take over, and people can watch that. */
#define ROTA_UP_AWAY (15 * ROTA_SEC)

extern const char rota_up_queue[]; /* of the load; the cache and the group are called so, too */

/* --- places: up_place.c --- */

/* This program; and `rotad`: where ROTA_ROTAD says, beside this one, or on PATH. */
void rota_up_find_programs(char rota[PATH_MAX], char rotad[PATH_MAX]);

/* Make `wanted` if it is not there, or, when that is NULL, a temporary directory; `path` is where
 * it is. And remove one with all that is in it. */
enum rota_code rota_up_directory_make(const char *wanted, char path[PATH_MAX],
                                      struct rota_error *error);
void rota_up_directory_remove(const char *path);

/* The value of key number `key`, "sample-KEY"; returns `text`. And write the files of the sample:
 * sample.tsv, which the nodes serve, and rotad.toml, their settings. */
char *rota_up_value(unsigned key, char text[ROTA_UP_VALUE_MAX]);
enum rota_code rota_up_sample_write(const char *data, struct rota_error *error);

/* --- a process: up_process.c --- */

/* A program that runs beside us and is started again when it ends. */
struct rota_up_process {
    char name[32];     /* "node-1" */
    const char *zone;  /* of a node; NULL: it is a worker or a task */
    const char *words; /* a worker's: see up_process.c; NULL: it is a task */
    const struct rota_guard *guard;
    uv_loop_t *loop;
    const char *data, *program; /* the directory of all; what is run */
    const char *nodes;          /* for workers: the addresses of all */
    struct rota_child *child;   /* NULL: does not run */
    long pid;
    bool is_ready, is_stopped;
    bool is_held; /* not to be started by itself */
    char grpc[ROTA_CHANNEL_TARGET_MAX], zmq[ROTA_CHANNEL_TARGET_MAX], http[ROTA_CHANNEL_TARGET_MAX];
    uv_timer_t timer; /* to its next start */
    struct rota_backoff backoff;
    struct rota_random random;
    rota_time started_at;

    /* A node serves; at its first start it has its addresses from then on. */
    void (*on_ready)(void *data, struct rota_up_process *process);

    /* It has ended, with a code or by a signal, and is started again after `pause` unless it is
     * held. */
    void (*on_ended)(void *data, struct rota_up_process *process, int exit_code, int signal,
                     rota_time pause);
    /* A task has printed a line. */
    void (*on_line)(void *data, struct rota_up_process *process, const char *line);
    void *callback_data;
};

/* Begin its log anew if that has become large; the one before is kept beside it. */
void rota_up_process_trim_log(const struct rota_up_process *process);

enum rota_code rota_up_process_start(struct rota_up_process *process, struct rota_error *error);

/* Start one that has ended; when that fails, it is tried again after a pause. */
void rota_up_process_restart(struct rota_up_process *process);

/* Stop it with SIGSTOP while it does not write to the store, which others need; or let it go
 * on. */
void rota_up_process_freeze(struct rota_up_process *process);
void rota_up_process_thaw(struct rota_up_process *process);

/* The last line of its log; "" when there is none. Returns `line`. */
enum { ROTA_UP_LINE_MAX = 512 };
char *rota_up_process_last_line(const struct rota_up_process *process, char line[ROTA_UP_LINE_MAX]);

/* --- the load: up_load.c --- */

/* What became of the jobs that were acknowledged. */
struct rota_up_ledger {
    uint64_t n_acknowledged, n_done;
    uint64_t n_cancelled;     /* by somebody */
    uint64_t n_dead, n_twice; /* wrong, like what is still pending */
    size_t n_pending;
    char told[ROTA_UP_TOLD_MAX][ROTA_JOB_ID_TEXT + 64]; /* what is wrong with whom */
    size_t n_told;
};

struct rota_up_load;

/* Add jobs at all nodes, and look what becomes of them. `nodes` are `n` addresses, copied. Gives
 * `*load`; rota_up_load_close() ends it. */
enum rota_code rota_up_load_open(uv_loop_t *loop, const char *const *nodes, size_t n,
                                 struct rota_up_load **load, struct rota_error *error);

/* Add no more, see all to their end, look whether one was done twice, and call `on_checked`; also
 * when nothing moves for long. */
void rota_up_load_finish(struct rota_up_load *load, void (*on_checked)(void *data), void *data);

const struct rota_up_ledger *rota_up_load_ledger(struct rota_up_load *load);

/* Takes `load`, which may be NULL. The loop has to run once more. */
void rota_up_load_close(struct rota_up_load *load);

/* --- Gets: up_gets.c --- */

struct rota_up_gets_ledger {
    uint64_t n_gets;
    uint64_t n_wrong, n_unanswered; /* keys */
    size_t n_pending;               /* Gets */
    char told[ROTA_UP_TOLD_MAX][160];
    size_t n_told;
};

struct rota_up_gets;

/* Ask for a few keys of the sample cache now and then, at all nodes. As of the load. */
enum rota_code rota_up_gets_open(uv_loop_t *loop, const char *const *nodes, size_t n,
                                 struct rota_up_gets **gets, struct rota_error *error);

/* Ask no more but once for everything; `on_checked` comes when all is answered, or late. */
void rota_up_gets_finish(struct rota_up_gets *gets, void (*on_checked)(void *data), void *data);
const struct rota_up_gets_ledger *rota_up_gets_ledger(const struct rota_up_gets *gets);
void rota_up_gets_close(struct rota_up_gets *gets); /* accepts NULL */

/* --- the group: up_group.c --- */

/* Rows that were read, of one partition. */
struct rota_up_rows {
    char *name;
    struct {
        int64_t from, to;
    } parts[ROTA_UP_GAPS_MAX]; /* in order, apart from each other */
    size_t n_parts;
    uint64_t token;  /* the highest that has read, */
    rota_time since; /* and when it did so first */
    bool is_lost;    /* more gaps than can be noted */
};

/* What the tasks say that they do, and what is wrong with it: a row that was passed over, a
 * reader that goes on after a later one has begun. */
struct rota_up_group {
    struct rota_map by_name;
    ROTA_VECTOR(struct rota_up_rows *) partitions;
    uint64_t n_reads, n_overlaps;
    size_t n_lost; /* partitions with rows that nobody has read; by rota_up_group_judge() */
    char told[ROTA_UP_TOLD_MAX][ROTA_UP_LINE_MAX];
    size_t n_told;
};

void rota_up_group_init(struct rota_up_group *group);
void rota_up_group_deinit(struct rota_up_group *group);
void rota_up_group_hear(struct rota_up_group *group, const char *line);
void rota_up_group_judge(struct rota_up_group *group);
