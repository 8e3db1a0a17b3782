/* up: a cluster on this machine, for people to try and for scripts to use.
 *
 * The parts of `rota up`: where its files and programs are (up_place.c), the processes
 * (up_process.c), a sample load on them, of which all is looked at: jobs (up_load.c), Gets whose
 * values are known (up_gets.c), what the tasks of a group read (up_group.c) and what nodes hold of
 * a space (up_claims.c); these together and what they have seen (up_ledger.c); what is printed of
 * it first (up_show.c), and the whole (cmd_up.c). What must not be is the business of
 * demo/check.h. For these alone. */
#pragma once

#include "base/buffer.h"
#include "base/map.h"
#include "base/vector.h"
#include "cli/watch.h"
#include "core/call/backoff.h"
#include "demo/check_claims.h"
#include "demo/check_jobs.h"
#include "demo/check_rows.h"
#include "demo/node_chaos.h"
#include "run/work/queue/child.h"

#include <limits.h>
#include <rota/channel.h>

enum {
    ROTA_UP_NODES_MAX = 16,
    ROTA_UP_WORKERS_MAX = 8,
    ROTA_UP_JOBS_MAX = 4096, /* of the load that are not seen done; no more are added then */
    ROTA_UP_WORDS_MAX = 32,  /* of a command line */
    ROTA_UP_ZONES = 2,
    ROTA_UP_KEYS = 1000,      /* of the sample cache, each with a value */
    ROTA_UP_CACHE_SHARDS = 2, /* in each zone */
    ROTA_UP_VALUE_MAX = 80,
    ROTA_UP_GETS_MAX = 256,    /* under way; no more are begun then */
    ROTA_UP_SHARDS = 256,      /* of the sample space */
    ROTA_UP_ASKS_MAX = 100,    /* what one node holds, at one time; no more are put then */
    ROTA_UP_PARTITIONS = 3,    /* that the group begins with */
    ROTA_UP_ROWS_RATE = 2,     /* of each, per second */
    ROTA_UP_ROWS_MEAN = 40,    /* after which a partition ends, on average */
    ROTA_UP_LOG_MAX = 4 << 20, /* bytes of a log; then it becomes NAME.log.old */
};

/* A node that somebody has killed stays away for so long, which is longer than its ttl: the others
 * notice it and take over, and people can watch that. */
#define ROTA_UP_AWAY (15 * ROTA_SEC)

extern const char rota_up_queue[]; /* of the load; the cache and the group are called so, too */
extern const char rota_up_space[];

/* --- places: up_place.c --- */

/* This program; and `rotad`: where ROTA_ROTAD says, beside this one, or on PATH. */
void rota_up_find_programs(char rota[PATH_MAX], char rotad[PATH_MAX]);

/* Make `wanted` if it is not there, or, when that is NULL, a temporary directory; `path` is where
 * it is. Until this process ends no other one can use it. And remove one with all that is in it. */
enum rota_code rota_up_directory_make(const char *wanted, char path[PATH_MAX],
                                      struct rota_error *error);
void rota_up_directory_remove(const char *path);

/* Reserve free ports on 127.0.0.1 and write their addresses, in the order of the text: the
 * dashboard numbers nodes in this order, so a node gets the number that its name has. The sockets
 * keep the ports from other programs until this one ends, and nodes can still listen there. */
enum rota_code rota_up_reserve(char addresses[][ROTA_CHANNEL_TARGET_MAX], size_t n,
                               struct rota_error *error);

/* The value of key number `key`, "sample-KEY"; returns `text`. And write the files of the sample:
 * sample.tsv, which the nodes serve, and rotad.toml, their settings; by these they show the
 * ledger, too, if `has_ledger`. */
char *rota_up_value(unsigned key, char text[ROTA_UP_VALUE_MAX]);
enum rota_code rota_up_sample_write(const char *data, bool has_ledger, struct rota_error *error);

/* Whether there is a group in it, of an earlier run. */
bool rota_up_has_group(const char *data);

/* Write a file, whole or not at all: beside, and then moved into its place. */
enum rota_code rota_up_write_file(const char *path, const struct rota_buffer *content,
                                  struct rota_error *error);

/* --- a process: up_process.c --- */

/* A program that runs beside us and is started again when it ends. */
struct rota_up_process {
    char name[32];     /* "node-1" */
    const char *zone;  /* of a node; NULL: it is a worker or a task */
    const char *words; /* a worker's: see up_process.c; NULL: it is a task */
    const struct rota_child_guard *guard;
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
    rota_time started_at, struck_at; /* the latter: wall clock, when chaos did */

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

/* Start a new log if the current one is large, and keep that one beside it. */
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

struct rota_up_load;

/* Add jobs at all nodes, and look what becomes of them. `nodes` are `n` addresses, copied; `jobs`
 * is kept and told of it. Gives `*load`; rota_up_load_close() ends it. */
enum rota_code rota_up_load_open(uv_loop_t *loop, const char *const *nodes, size_t n,
                                 struct rota_check_jobs *jobs, struct rota_up_load **load,
                                 struct rota_error *error);

/* Add no more, see all to their end, have those that are done listed, and call `on_checked`; also
 * when nothing moves for long. */
void rota_up_load_finish(struct rota_up_load *load, void (*on_checked)(void *data), void *data);

/* Jobs that were acknowledged and not seen at their end. */
size_t rota_up_load_n_pending(const struct rota_up_load *load);

/* Takes `load`, which may be NULL. The loop has to run once more. */
void rota_up_load_close(struct rota_up_load *load);

/* --- Gets: up_gets.c --- */

struct rota_up_gets;

/* Ask for a few keys of the sample cache now and then, at all nodes. As of the load. */
enum rota_code rota_up_gets_open(uv_loop_t *loop, const char *const *nodes, size_t n,
                                 struct rota_check *check, struct rota_up_gets **gets,
                                 struct rota_error *error);

/* Ask no more but once for everything; `on_checked` comes when all is answered, or late. */
void rota_up_gets_finish(struct rota_up_gets *gets, void (*on_checked)(void *data), void *data);
uint64_t rota_up_gets_n(const struct rota_up_gets *gets); /* that were answered, so or so */
void rota_up_gets_close(struct rota_up_gets *gets);       /* accepts NULL */

/* --- claims: up_claims.c --- */

struct rota_up_claims;

/* Ask each node a few times per second what it holds of the sample space. As of the load. */
enum rota_code rota_up_claims_open(uv_loop_t *loop, const char *const *nodes, size_t n,
                                   struct rota_check_claims *claims, struct rota_up_claims **result,
                                   struct rota_error *error);
void rota_up_claims_close(struct rota_up_claims *claims); /* accepts NULL */

/* --- the group: up_group.c --- */

/* A new group begins with these partitions. */
void rota_up_group_begin(struct rota_check_rows *rows);

/* A task has printed a line. */
void rota_up_group_hear(struct rota_check_rows *rows, const char *line);

/* --- all of it: up_ledger.c --- */

/* What was done and seen, and what of it must not be. */
struct rota_up_ledger {
    struct rota_check check;
    struct rota_check_jobs jobs;
    struct rota_check_rows rows;
    struct rota_check_claims claims;
    struct rota_up_load *load;
    struct rota_up_gets *gets;
    struct rota_up_claims *watch; /* of who owns what; NULL: not checked */
    size_t n_unfinished;          /* jobs, when all was closed */
    uint64_t n_gets;              /* the same */
    uv_timer_t timer;             /* of the last wait */
    bool has_timer;
    rota_time finishing_since;
    void (*on_checked)(void *data);
    void *data;
};

/* A group that is new is known from its first row on. */
void rota_up_ledger_init(struct rota_up_ledger *ledger, bool is_new_group);
void rota_up_ledger_deinit(struct rota_up_ledger *ledger);

/* Put the load on these nodes, `n` of them with names, which are kept, and addresses; and, with
 * `has_claims`, look who owns what. rota_up_ledger_close() ends that; what was seen stays. */
enum rota_code rota_up_ledger_open(struct rota_up_ledger *ledger, uv_loop_t *loop,
                                   const char *const *names, const char *const *addresses, size_t n,
                                   bool has_claims, struct rota_error *error);
void rota_up_ledger_close(struct rota_up_ledger *ledger); /* also one that is not open */

/* All is well from now on: see everything to its end, judge it, and call `on_checked`. */
void rota_up_ledger_finish(struct rota_up_ledger *ledger, void (*on_checked)(void *data),
                           void *data);

/* Sums of what was seen, by name and in order; NULL ends them. */
const char *rota_up_ledger_sum(const struct rota_up_ledger *ledger, size_t i, uint64_t *sum);

/* What happens to the nodes, beside what was seen. */
struct rota_up_progress {
    rota_time since; /* wall clock */
    bool is_over;    /* no more faults are injected */
    uint64_t n_strikes;
    const struct rota_up_process *nodes;
    size_t n_nodes;
};

/* Write all of it into DATA/ledger.json, for the page. A disk that does not take it is no fault of
 * the cluster: the page shows how old it is. */
void rota_up_ledger_save(const struct rota_up_ledger *ledger,
                         const struct rota_up_progress *progress, const char *data);

/* --- what there is: up_show.c --- */

struct rota_up_run {
    size_t n_nodes;
    uint64_t n_kills, n_pauses;
    rota_time duration;
    bool is_kept; /* every promise was */
};

/* Print how the run ended: a row per promise. */
void rota_up_show_verdict(struct rota_watch *watch, const struct rota_up_ledger *ledger,
                          const struct rota_up_run *run);

/* Print where the nodes are and what to try, or the same as JSON; `data` is the directory of all,
 * `rota` this program. */
void rota_up_show(struct rota_watch *watch, const struct rota_up_process *nodes, size_t n_nodes,
                  const char *data, const char *rota, bool has_no_load);
