/* A few tasks of a group on one log, moved by hand: what each wants is carried out
 * when the test says so. Partitions are read by no reader, but what is running is
 * noted, and no two ever run the same. */
#pragma once

#include "core/own/group_fsm.h"

#include "vectors.h"

enum { BENCH_TASKS = 8, BENCH_LOG = 65536, BENCH_RUNS = 512, BENCH_APPENDS = 64 };

struct bench_run {
    char name[64];
    uint64_t token;
    int64_t mark;
};

struct bench_append {
    uint64_t number;
    struct rota_group_record *record;
};

struct bench_task {
    struct rota_group_fsm fsm;
    bool is_open, is_joined, is_failed;
    bool is_cut_off; /* from the log: nothing is read, nothing is written */
    bool stops_late; /* STOPPED does not come by itself */
    uint64_t incarnation, reads_at;
    struct bench_run runs[BENCH_RUNS];
    size_t n_runs;
    char stopping[BENCH_RUNS][64];
    size_t n_stopping;
    struct bench_append appends[BENCH_APPENDS]; /* in flight */
    size_t n_appends;
    uint64_t counted_finishes; /* in records of ours that counted */
    size_t n_joins, n_leaves, n_rounds, n_epochs, n_refused, n_starts, n_stops;
    enum rota_group_refusal refusal;
    enum rota_group_loss loss; /* the last */
    enum rota_group_failure failure;
};

struct bench {
    rota_time now;
    uint64_t generation, first;
    struct rota_group_record *log[BENCH_LOG];
    size_t n_log;
    struct bench_task tasks[BENCH_TASKS];
    size_t n_more;    /* partitions that tasks count without having them */
    bool may_overlap; /* who is cut off may not have noticed yet */
};

void bench_free(struct bench *bench);
struct bench *bench_new(void);
struct bench_run *bench_find_run(struct bench_task *task, struct rota_str name);
bool bench_runs(struct bench *bench, int i, const char *name);
int bench_runner(struct bench *bench, const char *name);

/* One step of task `i`. */
enum rota_code bench_step(struct bench *bench, int i, struct rota_group_event event);

void bench_open_with(struct bench *bench, int i, struct rota_group_fsm_options options);
void bench_open(struct bench *bench, int i, const struct rota_group_seed *seeds, size_t n_seeds);

/* The first append in flight: `is_written` puts it into the log, and `is_known` says
 * how it went. */
bool bench_append(struct bench *bench, int i, bool is_written, bool is_known);

/* One more record is read. */
bool bench_read(struct bench *bench, int i);

void bench_stopped(struct bench *bench, int i);

/* Both the log and the group are well now. */
void bench_ok(struct bench *bench, int i);

/* Carry everything out until nothing moves. */
void bench_settle(struct bench *bench);

/* A round with these tasks; the first one leads. It is told to `told`. */
void bench_round_to(struct bench *bench, const char *tasks, const char *told);

void bench_round(struct bench *bench, const char *tasks);

/* Start tasks 0 to n - 1 and bring them to WORKING. */
void bench_begin(struct bench *bench, int n, const struct rota_group_seed *seeds, size_t n_seeds);

enum rota_code bench_child(struct bench *bench, int i, const char *partition, const char *name,
                           const char *second_parent);
void bench_progress(struct bench *bench, int i, const char *partition, int64_t mark);
void bench_finish(struct bench *bench, int i, const char *partition, bool is_end);
void bench_tick(struct bench *bench, rota_time by);
const struct rota_group_partition *bench_find(struct bench *bench, int i, const char *name);
enum rota_group_life bench_life(struct bench *bench, int i, const char *name);
