/* What becomes of a group whose tasks run out of memory: each stops what it reads and is done, and
 * when it comes back as another incarnation, the group reads everything to its end. */
#include "no_memory.h"

#include "core/own/group_fsm.h"

#define rota_group_fsm_step(...) NO_MEMORY_IN(rota_group_fsm_step(__VA_ARGS__))
#include "group_bench.c" /* compiled here for the call above */

#include <stdio.h>

enum { TASKS = 2 };

static const struct rota_group_seed SEEDS[] = {{.name = {"p", 1}}};

static const struct rota_group_fsm_options OPTIONS = {
    .seeds = SEEDS, .n_seeds = 1, .snapshot_records = 4};

/* Those that failed begin again, and there is memory again. */
static void recover(struct bench *bench)
{
    bool is_changed = false;
    for (int i = 0; i < TASKS; i++) {
        struct bench_task *task = &bench->tasks[i];
        if (!task->is_failed)
            continue;
        assert_true(no_memory_has_failed());
        assert_int_equal(task->failure, ROTA_GROUP_OUT_OF_MEMORY);
        assert_int_equal(task->fsm.state, ROTA_GROUP_AT_DONE);
        for (size_t j = 0; j < task->n_runs; j++)
            assert_false(rota_group_fsm_is_current(
                &task->fsm, bench->now, rota_str(task->runs[j].name), task->runs[j].token));
        no_memory_end();
        bench_open_with(bench, i, OPTIONS);
        is_changed = true;
    }
    if (is_changed) {
        bench_settle(bench);
        bench_round(bench, "01");
    }
}

/* A report that is refused is made again. */
static void report_child(struct bench *bench, int i, const char *name)
{
    enum rota_code code = bench_child(bench, i, "p", name, NULL);
    if (code) {
        assert_true(code == ROTA_ERR_NO_MEMORY && no_memory_has_failed());
        no_memory_end();
        assert_int_equal(bench_child(bench, i, "p", name, NULL), ROTA_OK);
    }
}

/* Whatever runs is read to its end; `p` has two children. */
static void read_all(struct bench *bench)
{
    for (int i = 0; i < TASKS; i++) {
        struct bench_task *task = &bench->tasks[i];
        while (task->n_runs > 0 && !task->is_failed) {
            char name[64];
            snprintf(name, sizeof name, "%s", task->runs[0].name);
            bench_progress(bench, i, name, 5);
            if (strcmp(name, "p") == 0) {
                report_child(bench, i, "left");
                report_child(bench, i, "right");
            }
            bench_finish(bench, i, name, strcmp(name, "p") != 0);
        }
    }
    bench_settle(bench);
}

static void read_a_group(void)
{
    struct bench *bench = bench_new();
    for (int i = 0; i < TASKS; i++)
        bench_open_with(bench, i, OPTIONS);
    bench_settle(bench);
    recover(bench);
    bench_round(bench, "01");
    recover(bench);
    for (int i = 0; i < 6; i++) {
        read_all(bench);
        recover(bench);
        bench_tick(bench, ROTA_SEC);
        bench_settle(bench);
        recover(bench);
    }
    static const char *const NAMES[] = {"p", "left", "right"};
    for (int i = 0; i < TASKS; i++) {
        assert_int_equal(bench->tasks[i].fsm.state, ROTA_GROUP_AT_WORKING);
        for (size_t j = 0; j < sizeof NAMES / sizeof *NAMES; j++)
            assert_true(bench_life(bench, i, NAMES[j]) >= ROTA_GROUP_FINISHED);
    }
    bench_free(bench);
}

static void make_a_task(void)
{
    struct rota_group_fsm fsm;
    struct rota_group_fsm_options options = OPTIONS;
    options.task = rota_str("t");
    enum rota_code code = NO_MEMORY_IN(rota_group_fsm_init(&fsm, &options, NULL));
    assert_true(code == ROTA_OK || (code == ROTA_ERR_NO_MEMORY && no_memory_has_failed()));
    if (!code)
        rota_group_fsm_deinit(&fsm);
}

static void a_group_reads_on_when_there_is_memory_again(void **state)
{
    (void)state;
    no_memory_everywhere(make_a_task);
    no_memory_everywhere(read_a_group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_reads_on_when_there_is_memory_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
