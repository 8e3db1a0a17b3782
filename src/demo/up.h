/* up: a cluster on this machine, for people to try and for scripts to use.
 *
 * The parts of `rota up`: where its files and programs are (up_place.c); the processes
 * (up_process.c); a sample load, every part of which is checked: jobs (up_load.c), Gets of known
 * values (up_gets.c), the rows that tasks of a group read (up_group.c), the shards of a space that
 * nodes own (up_claims.c) and the counters of an example (up_counts.c); all of these and what they
 * saw (up_ledger.c). demo/check.h knows what must not happen. The command and what it prints are
 * in cli. */
#pragma once

#include "base/buffer.h"
#include "base/map.h"
#include "base/vector.h"
#include "core/call/backoff.h"
#include "demo/check_claims.h"
#include "demo/check_jobs.h"
#include "demo/check_rows.h"
#include "demo/node_chaos.h"
#include "run/work/queue/child.h"

#include <limits.h>
#include <rota/experimental/channel.h>

enum {
    ROTA_UP_NODES_MAX = 16,
    ROTA_UP_WORKERS_MAX = 12, /* tasks and servers included */
    ROTA_UP_JOBS_MAX = 4096,  /* jobs not seen done; beyond that, none is added */
    ROTA_UP_WORDS_MAX = 32,   /* of a command line */
    ROTA_UP_ZONES = 2,
    ROTA_UP_KEYS = 1000,      /* of the sample cache, each with a value */
    ROTA_UP_CACHE_SHARDS = 2, /* in each zone */
    ROTA_UP_VALUE_MAX = 80,
    ROTA_UP_GETS_MAX = 256,    /* in flight; beyond that, none is started */
    ROTA_UP_SHARDS = 256,      /* of the sample space */
    ROTA_UP_ASKS_MAX = 100,    /* questions about one node in flight; beyond that, none is sent */
    ROTA_UP_PARTITIONS = 3,    /* that the group starts with */
    ROTA_UP_ROWS_RATE = 2,     /* of each, per second */
    ROTA_UP_ROWS_MEAN = 40,    /* average time until a partition ends */
    ROTA_UP_LOG_MAX = 4 << 20, /* bytes of a log; then it becomes NAME.log.old */
};

/* How long a node that was killed by hand stays down. That is longer than its ttl: the others
 * notice and take over, and you can watch that. */
#define ROTA_UP_AWAY (15 * ROTA_SEC)

extern const char rota_up_queue[]; /* of the load; also the name of the cache and the group */
extern const char rota_up_space[];

/* --- places: up_place.c --- */

/* The path of this program; and of `rotad`: at ROTA_ROTAD, next to this program, or on PATH. */
void rota_up_find_programs(char rota[PATH_MAX], char rotad[PATH_MAX]);

/* The server of examples/counter: at ROTA_COUNTER_SERVER, or where it is built or installed with
 * `rota`. */
enum rota_code rota_up_find_counter(const char *rota, char path[PATH_MAX],
                                    struct rota_error *error);

/* Create `wanted` if it does not exist, or a temporary directory if it is NULL; `path` is the
 * result. No other process can use it until this one ends. The second removes a directory with
 * everything in it. */
enum rota_code rota_up_directory_make(const char *wanted, char path[PATH_MAX],
                                      struct rota_error *error);
void rota_up_directory_remove(const char *path);

/* Reserve free ports on 127.0.0.1 and write their addresses, sorted as text: the dashboard numbers
 * nodes in this order, so that a node's number matches its name. The sockets keep the ports from
 * other programs until this one ends, and nodes can still listen there. */
enum rota_code rota_up_reserve(char addresses[][ROTA_CHANNEL_TARGET_MAX], size_t n,
                               struct rota_error *error);

/* The value of key number `key`, "sample-KEY"; returns `text`. The second writes the files of the
 * sample: sample.tsv, which the nodes serve, and rotad.toml, their settings, which also make them
 * show the ledger if `has_ledger`. */
char *rota_up_value(unsigned key, char text[ROTA_UP_VALUE_MAX]);
enum rota_code rota_up_sample_write(const char *data, bool has_ledger, struct rota_error *error);

/* Whether it has a group from an earlier run. */
bool rota_up_has_group(const char *data);

/* Write a file atomically: write a temporary one, then rename it. */
enum rota_code rota_up_write_file(const char *path, const struct rota_buffer *content,
                                  struct rota_error *error);

/* --- a process: up_process.c --- */

/* A child process that is restarted when it ends. */
struct rota_up_process {
    char name[32];     /* "node-1" */
    const char *zone;  /* of a node; NULL: it is a worker, a server or a task */
    const char *words; /* a worker's: see up_process.c */
    bool is_server;    /* of an example; otherwise, without `words`, it is a task */
    const struct rota_child_guard *guard;
    uv_loop_t *loop;
    const char *data, *program; /* the directory of all processes; the program */
    const char *nodes;          /* for workers: the addresses of all */
    struct rota_child *child;   /* NULL: not running */
    long pid;
    bool is_ready, is_stopped;
    bool is_held; /* do not restart it automatically */
    char grpc[ROTA_CHANNEL_TARGET_MAX], zmq[ROTA_CHANNEL_TARGET_MAX], http[ROTA_CHANNEL_TARGET_MAX];
    uv_timer_t timer; /* before its next start */
    struct rota_backoff backoff;
    struct rota_random random;
    rota_time started_at, struck_at; /* the latter: wall clock, when chaos stopped it */

    /* A node serves; its addresses are known from its first start on. */
    void (*on_ready)(void *data, struct rota_up_process *process);

    /* It has ended, with a code or by a signal, and is restarted after `pause` unless it is
     * held. */
    void (*on_ended)(void *data, struct rota_up_process *process, int exit_code, int signal,
                     rota_time pause);
    /* A task has printed a line. */
    void (*on_line)(void *data, struct rota_up_process *process, const char *line);
    void *callback_data;
};

/* Start a new log if the current one is large, and keep the old one. */
void rota_up_process_trim_log(const struct rota_up_process *process);

enum rota_code rota_up_process_start(struct rota_up_process *process, struct rota_error *error);

/* Start one that has ended. If that fails, it is tried again after a pause. */
void rota_up_process_restart(struct rota_up_process *process);

/* Stop it with SIGSTOP, but not while it writes to the store, which others need; or resume it. */
void rota_up_process_freeze(struct rota_up_process *process);
void rota_up_process_thaw(struct rota_up_process *process);

/* The last line of its log; "" if there is none. Returns `line`. */
enum { ROTA_UP_LINE_MAX = 512 };
char *rota_up_process_last_line(const struct rota_up_process *process, char line[ROTA_UP_LINE_MAX]);

/* --- the load: up_load.c --- */

struct rota_up_load;

/* Add jobs at all nodes, and check what becomes of them. `nodes` are `n` addresses, copied; `jobs`
 * must stay valid and gets the reports. Gives `*load`; rota_up_load_close() frees it. */
enum rota_code rota_up_load_open(uv_loop_t *loop, const char *const *nodes, size_t n,
                                 struct rota_check_jobs *jobs, struct rota_up_load **load,
                                 struct rota_error *error);

/* Add no more jobs, wait until all have ended, list the done ones, and call `on_checked`; also if
 * nothing happens for a long time. */
void rota_up_load_finish(struct rota_up_load *load, void (*on_checked)(void *data), void *data);

/* Jobs that were acknowledged and not seen to end. */
size_t rota_up_load_n_pending(const struct rota_up_load *load);

/* Frees `load`, which may be NULL. Then run the loop once more. */
void rota_up_load_close(struct rota_up_load *load);

/* --- Gets: up_gets.c --- */

struct rota_up_gets;

/* Get a few keys of the sample cache now and then, at all nodes. Otherwise like the load. */
enum rota_code rota_up_gets_open(uv_loop_t *loop, const char *const *nodes, size_t n,
                                 struct rota_check *check, struct rota_up_gets **gets,
                                 struct rota_error *error);

/* Get everything once more and then nothing; `on_checked` is called when all is answered, or after
 * a timeout. */
void rota_up_gets_finish(struct rota_up_gets *gets, void (*on_checked)(void *data), void *data);
uint64_t rota_up_gets_n(const struct rota_up_gets *gets); /* answered, right or wrong */
void rota_up_gets_close(struct rota_up_gets *gets);       /* accepts NULL */

/* --- counters: up_counts.c --- */

struct rota_up_counts;

/* Add 1 to each counter of examples/counter now and then. Otherwise like the load. */
enum rota_code rota_up_counts_open(uv_loop_t *loop, const char *const *nodes, size_t n,
                                   struct rota_check *check, struct rota_up_counts **counts,
                                   struct rota_error *error);

/* Stop adding jobs; `on_checked` is called when all is answered, or after a timeout. */
void rota_up_counts_finish(struct rota_up_counts *counts, void (*on_checked)(void *data),
                           void *data);
uint64_t rota_up_counts_n(const struct rota_up_counts *counts); /* answered */
void rota_up_counts_close(struct rota_up_counts *counts);       /* accepts NULL */

/* --- claims: up_claims.c --- */

struct rota_up_claims;

/* Ask each node a few times per second which shards of the sample space it owns. Otherwise like the
 * load. */
enum rota_code rota_up_claims_open(uv_loop_t *loop, const char *const *nodes, size_t n,
                                   struct rota_check_claims *claims, struct rota_up_claims **result,
                                   struct rota_error *error);
void rota_up_claims_close(struct rota_up_claims *claims); /* accepts NULL */

/* --- the group: up_group.c --- */

/* A new group starts with these partitions. */
void rota_up_group_begin(struct rota_check_rows *rows);

/* A task has printed a line. */
void rota_up_group_read_line(struct rota_check_rows *rows, const char *line);

/* --- all of it: up_ledger.c --- */

/* What was done and seen, and the violations in it. */
struct rota_up_ledger {
    struct rota_check check;
    struct rota_check_jobs jobs;
    struct rota_check_rows rows;
    struct rota_check_claims claims;
    struct rota_up_load *load;
    struct rota_up_gets *gets;
    struct rota_up_counts *counts; /* NULL: there is no example */
    struct rota_up_claims *watch;  /* about owners; NULL: not checked */
    size_t n_unfinished;           /* jobs left when everything was closed */
    uint64_t n_gets, n_counts;     /* the same */
    bool has_counts;
    uv_timer_t timer; /* of the last wait */
    bool has_timer;
    rota_time finishing_since;
    void (*on_checked)(void *data);
    void *data;
};

/* A new group is known from its first row on. */
void rota_up_ledger_init(struct rota_up_ledger *ledger, bool is_new_group);
void rota_up_ledger_deinit(struct rota_up_ledger *ledger);

/* Put the load on these `n` nodes, whose names must stay valid; with `has_claims`, also check the
 * owners, with `has_counts` the counters. rota_up_ledger_close() ends that; what was seen stays. */
enum rota_code rota_up_ledger_open(struct rota_up_ledger *ledger, uv_loop_t *loop,
                                   const char *const *names, const char *const *addresses, size_t n,
                                   bool has_claims, bool has_counts, struct rota_error *error);
void rota_up_ledger_close(struct rota_up_ledger *ledger); /* also if it is not open */

/* All is well from now on: wait for the end of everything, judge it, and call `on_checked`. */
void rota_up_ledger_finish(struct rota_up_ledger *ledger, void (*on_checked)(void *data),
                           void *data);

/* Sums of what was seen, by name and in order; NULL ends the list. */
const char *rota_up_ledger_sum(const struct rota_up_ledger *ledger, size_t i, uint64_t *sum);

/* What was done to the nodes. */
struct rota_up_progress {
    rota_time since; /* wall clock */
    bool is_over;    /* the last fault was injected */
    uint64_t n_strikes;
    const struct rota_up_process *nodes;
    size_t n_nodes;
};

/* Write all of it to DATA/ledger.json, for the dashboard. A failed write is not a fault of the
 * cluster: the page shows how old the file is. */
void rota_up_ledger_save(const struct rota_up_ledger *ledger,
                         const struct rota_up_progress *progress, const char *data);
