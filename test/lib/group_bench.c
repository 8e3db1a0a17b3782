#include "group_bench.h"

#include <stdio.h>
#include <stdlib.h>

void bench_free(struct bench *bench)
{
    for (int i = 0; i < BENCH_TASKS; i++) {
        struct bench_task *task = &bench->tasks[i];
        for (size_t j = 0; j < task->n_appends; j++)
            rota_group_record_unref(task->appends[j].record);
        if (task->is_open)
            rota_group_fsm_deinit(&task->fsm);
    }
    for (size_t i = 0; i < bench->n_log; i++)
        rota_group_record_unref(bench->log[i]);
    free(bench);
}

struct bench *bench_new(void)
{
    struct bench *bench = calloc(1, sizeof *bench);
    assert_non_null(bench);
    bench->now = 1000 * ROTA_SEC;
    return bench;
}

struct bench_run *bench_find_run(struct bench_task *task, struct rota_str name)
{
    for (size_t i = 0; i < task->n_runs; i++)
        if (rota_str_is_equal(rota_str(task->runs[i].name), name))
            return &task->runs[i];
    return NULL;
}

bool bench_runs(struct bench *bench, int i, const char *name)
{
    return bench_find_run(&bench->tasks[i], rota_str(name)) != NULL;
}

int bench_runner(struct bench *bench, const char *name)
{
    for (int i = 0; i < BENCH_TASKS; i++)
        if (bench_runs(bench, i, name))
            return i;
    return -1;
}

static void bench_start(struct bench *bench, struct bench_task *task,
                        const struct rota_group_action *action)
{
    for (int i = 0; i < BENCH_TASKS && !bench->may_overlap; i++)
        assert_null(bench_find_run(&bench->tasks[i], action->def->name.text));
    struct bench_run *run = &task->runs[task->n_runs++];
    assert_true(task->n_runs < BENCH_RUNS);
    snprintf(run->name, sizeof run->name, "%.*s", ROTA_STR_ARGS(action->def->name.text));
    run->token = action->token;
    run->mark = action->mark;
    task->n_starts++;
}

static void bench_stop(struct bench_task *task, const struct rota_group_action *action)
{
    struct bench_run *run = bench_find_run(task, action->def->name.text);
    snprintf(task->stopping[task->n_stopping++], 64, "%.*s", ROTA_STR_ARGS(action->def->name.text));
    if (run) /* else it is at its end */
        *run = task->runs[--task->n_runs];
    task->n_stops++;
}

static void bench_do(struct bench *bench, struct bench_task *task,
                     const struct rota_group_action *action)
{
    switch (action->type) {
    case ROTA_GROUP_DO_READ:
        task->reads_at = action->offset;
        break;
    case ROTA_GROUP_DO_APPEND:
        assert_true(task->n_appends < BENCH_APPENDS);
        task->appends[task->n_appends++] =
            (struct bench_append){action->number, rota_group_record_ref(action->record)};
        break;
    case ROTA_GROUP_DO_JOIN:
        task->is_joined = true;
        task->incarnation = action->incarnation;
        task->n_joins++;
        break;
    case ROTA_GROUP_DO_LEAVE:
        task->is_joined = false;
        task->n_leaves++;
        break;
    case ROTA_GROUP_DO_START:
        bench_start(bench, task, action);
        break;
    case ROTA_GROUP_DO_STOP:
        bench_stop(task, action);
        break;
    case ROTA_GROUP_TELL_ROUND:
        task->n_rounds++;
        break;
    case ROTA_GROUP_TELL_EPOCH:
        task->n_epochs++;
        break;
    case ROTA_GROUP_TELL_LOST:
        task->loss = action->loss;
        break;
    case ROTA_GROUP_TELL_COUNTED:
        for (size_t i = 0; i < action->record->n_changes; i++)
            task->counted_finishes += action->record->changes[i].type == ROTA_GROUP_FINISH;
        break;
    case ROTA_GROUP_TELL_REFUSED:
        task->n_refused++;
        task->refusal = action->refusal;
        break;
    case ROTA_GROUP_FAIL:
        task->is_failed = true;
        task->failure = action->failure;
        break;
    }
}

enum rota_code bench_step(struct bench *bench, int i, struct rota_group_event event)
{
    struct bench_task *task = &bench->tasks[i];
    size_t n;
    task->fsm.fold.n_partitions += bench->n_more;
    enum rota_code code = rota_group_fsm_step(&task->fsm, bench->now, &event, NULL);
    task->fsm.fold.n_partitions -= bench->n_more;
    const struct rota_group_action *actions = rota_group_fsm_actions(&task->fsm, &n);
    for (size_t j = 0; j < n; j++)
        bench_do(bench, task, &actions[j]);
    assert_true(rota_group_fold_is_sound(&task->fsm.fold));
    return code;
}

void bench_open_with(struct bench *bench, int i, struct rota_group_fsm_options options)
{
    struct bench_task *task = &bench->tasks[i];
    static const char *const names[BENCH_TASKS] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"};
    if (task->is_open)
        rota_group_fsm_deinit(&task->fsm);
    for (size_t j = 0; j < task->n_appends; j++)
        rota_group_record_unref(task->appends[j].record);
    memset(task, 0, sizeof *task);
    options.task = rota_str(names[i]);
    options.seed = (uint64_t)i * 1000 + bench->n_log + 1;
    assert_int_equal(rota_group_fsm_init(&task->fsm, &options, NULL), ROTA_OK);
    task->is_open = true;
    bench_step(bench, i,
               (struct rota_group_event){
                   .type = ROTA_GROUP_OPENED, .first = bench->first, .end = bench->n_log});
}

void bench_open(struct bench *bench, int i, const struct rota_group_seed *seeds, size_t n_seeds)
{
    bench_open_with(bench, i, (struct rota_group_fsm_options){.seeds = seeds, .n_seeds = n_seeds});
}

bool bench_append(struct bench *bench, int i, bool is_written, bool is_known)
{
    struct bench_task *task = &bench->tasks[i];
    if (task->n_appends == 0)
        return false;
    struct bench_append append = task->appends[0];
    memmove(task->appends, task->appends + 1, --task->n_appends * sizeof *task->appends);
    uint64_t offset = bench->n_log;
    assert_true(bench->n_log < BENCH_LOG);
    if (is_written)
        bench->log[bench->n_log++] = append.record;
    else
        rota_group_record_unref(append.record);
    bench_step(bench, i,
               (struct rota_group_event){
                   .type = is_known ? ROTA_GROUP_APPENDED : ROTA_GROUP_NOT_APPENDED,
                   .number = append.number,
                   .offset = offset,
               });
    return true;
}

bool bench_read(struct bench *bench, int i)
{
    struct bench_task *task = &bench->tasks[i];
    if (task->reads_at >= bench->n_log)
        return false;
    uint64_t offset = task->reads_at++;
    bench_step(bench, i,
               (struct rota_group_event){.type = ROTA_GROUP_RECORD,
                                         .offset = offset,
                                         .record = bench->log[offset],
                                         .size = 200,
                                         .why = ROTA_GROUP_FOREIGN});
    return true;
}

void bench_stopped(struct bench *bench, int i)
{
    struct bench_task *task = &bench->tasks[i];
    while (task->n_stopping > 0) {
        char name[64];
        snprintf(name, sizeof name, "%s", task->stopping[--task->n_stopping]);
        bench_step(
            bench, i,
            (struct rota_group_event){.type = ROTA_GROUP_STOPPED, .partition = rota_str(name)});
    }
}

void bench_ok(struct bench *bench, int i)
{
    bench_step(bench, i,
               (struct rota_group_event){
                   .type = ROTA_GROUP_LOG_OK, .sent_at = bench->now, .end = bench->n_log});
    bench_step(bench, i,
               (struct rota_group_event){.type = ROTA_GROUP_GROUP_OK, .sent_at = bench->now});
}

static bool bench_can_move(const struct bench_task *task)
{
    return task->is_open && !task->is_failed && !task->is_cut_off;
}

void bench_settle(struct bench *bench)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < BENCH_TASKS; i++) {
            struct bench_task *task = &bench->tasks[i];
            if (!bench_can_move(task))
                continue;
            if (!task->stops_late && task->n_stopping > 0) {
                bench_stopped(bench, i);
                moved = true;
            }
            while (bench_append(bench, i, true, true))
                moved = true;
            if (!bench_read(bench, i)) {
                uint64_t reads_at = task->reads_at;
                bench_ok(bench, i);
                moved = moved || reads_at != task->reads_at;
            } else {
                moved = true;
            }
        }
    }
}

void bench_round_to(struct bench *bench, const char *tasks, const char *told)
{
    struct rota_group_member members[BENCH_TASKS];
    size_t n = strlen(tasks);
    bench->generation++;
    for (size_t i = 0; i < n; i++) {
        int at = tasks[i] - '0';
        members[i] = (struct rota_group_member){rota_blob_str(bench->tasks[at].fsm.name),
                                                bench->tasks[at].incarnation};
    }
    for (const char *at = told; *at; at++)
        bench_step(bench, *at - '0',
                   (struct rota_group_event){.type = ROTA_GROUP_REBALANCED,
                                             .generation = bench->generation,
                                             .members = members,
                                             .n_members = n,
                                             .is_leader = *at == tasks[0],
                                             .sent_at = bench->now});
}

void bench_round(struct bench *bench, const char *tasks)
{
    bench_round_to(bench, tasks, tasks);
    bench_settle(bench);
}

void bench_begin(struct bench *bench, int n, const struct rota_group_seed *seeds, size_t n_seeds)
{
    char tasks[BENCH_TASKS + 1] = "01234567";
    for (int i = 0; i < n; i++)
        bench_open(bench, i, seeds, n_seeds);
    bench_settle(bench);
    tasks[n] = '\0';
    bench_round(bench, tasks);
    for (int i = 0; i < n; i++)
        assert_int_equal(bench->tasks[i].fsm.state, ROTA_GROUP_AT_WORKING);
}

enum rota_code bench_child(struct bench *bench, int i, const char *partition, const char *name,
                           const char *second_parent)
{
    struct rota_str parents[2] = {rota_str(partition),
                                  rota_str(second_parent ? second_parent : "")};
    size_t n = (partition[0] != '\0') + (second_parent != NULL);
    struct rota_group_def *def = rota_group_def_new(rota_str(name), parents, n, rota_str(""));
    enum rota_code code = bench_step(bench, i,
                                     (struct rota_group_event){.type = ROTA_GROUP_CHILD,
                                                               .partition = rota_str(partition),
                                                               .child = def,
                                                               .position = rota_str("")});
    rota_group_def_unref(def);
    return code;
}

void bench_progress(struct bench *bench, int i, const char *partition, int64_t mark)
{
    bench_step(bench, i,
               (struct rota_group_event){.type = ROTA_GROUP_PROGRESS_MADE,
                                         .partition = rota_str(partition),
                                         .mark = mark,
                                         .position = rota_str("at")});
}

void bench_finish(struct bench *bench, int i, const char *partition, bool is_end)
{
    bench_step(bench, i,
               (struct rota_group_event){.type = ROTA_GROUP_FINISHED_READING,
                                         .partition = rota_str(partition),
                                         .position = rota_str(""),
                                         .is_end = is_end});
    struct bench_run *run = bench_find_run(&bench->tasks[i], rota_str(partition));
    if (run) /* the reader is at its end, whatever becomes of the report */
        *run = bench->tasks[i].runs[--bench->tasks[i].n_runs];
}

void bench_tick(struct bench *bench, rota_time by)
{
    bench->now += by;
    for (int i = 0; i < BENCH_TASKS; i++)
        if (bench_can_move(&bench->tasks[i]))
            bench_step(bench, i, (struct rota_group_event){.type = ROTA_GROUP_TICK});
}

const struct rota_group_partition *bench_find(struct bench *bench, int i, const char *name)
{
    struct rota_group_name key = {rota_str(name), rota_group_hash(rota_str(name))};
    return rota_group_fold_find(&bench->tasks[i].fsm.fold, key);
}

enum rota_group_life bench_life(struct bench *bench, int i, const char *name)
{
    const struct rota_group_partition *partition = bench_find(bench, i, name);
    return partition ? rota_group_fold_life(partition) : ROTA_GROUP_NAMED;
}
