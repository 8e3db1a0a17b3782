#include "group_bench.h"

#include <stdio.h>

static const struct rota_group_seed one[] = {{.name = {"p", 1}, .mark = 10}};
static const struct rota_group_seed six[] = {{.name = {"p0", 2}}, {.name = {"p1", 2}},
                                             {.name = {"p2", 2}}, {.name = {"p3", 2}},
                                             {.name = {"p4", 2}}, {.name = {"p5", 2}}};

/* All that read the log to its end see the same. */
static void assert_agreed(struct bench *bench, const char *tasks)
{
    const struct rota_group_fold *fold = &bench->tasks[tasks[0] - '0'].fsm.fold;
    for (; *tasks; tasks++)
        assert_true(rota_group_fold_digest(&bench->tasks[*tasks - '0'].fsm.fold) ==
                    rota_group_fold_digest(fold));
}

static void log_is_read_before_the_group_is_joined(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_open(bench, 0, one, 1);
    assert_int_equal(bench->tasks[0].fsm.state, ROTA_GROUP_AT_START);
    assert_int_equal(bench->tasks[0].n_joins, 0);
    bench_ok(bench, 0);
    assert_int_equal(bench->tasks[0].fsm.state, ROTA_GROUP_AT_JOINING);
    assert_int_equal(bench->tasks[0].n_joins, 1);
    bench_round_to(bench, "0", "0");
    assert_int_equal(bench->tasks[0].fsm.state, ROTA_GROUP_AT_WAITING);
    assert_int_equal(bench->tasks[0].n_runs, 0);
    bench_settle(bench);
    assert_int_equal(bench->tasks[0].fsm.state, ROTA_GROUP_AT_WORKING);
    assert_true(bench_runs(bench, 0, "p"));
    assert_int_equal(bench->tasks[0].runs[0].mark, 10);
    bench_free(bench);
}

static void first_partitions_are_spread_and_made_once(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 3, six, 6);
    for (int i = 0; i < 3; i++)
        assert_int_equal(bench->tasks[i].n_runs, 2);
    assert_agreed(bench, "012");
    bench_round(bench, "120"); /* another leader makes none again */
    assert_int_equal(bench->tasks[1].fsm.fold.n_partitions, 6);
    for (int i = 0; i < 3; i++)
        assert_int_equal(bench->tasks[i].n_starts, 2);
    bench_free(bench);
}

static void child_goes_to_the_least_loaded_and_starts_after_its_parent(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 2, one, 1);
    int with = bench_runner(bench, "p"), other = 1 - with;
    assert_int_equal(bench_child(bench, with, "p", "c1", NULL), ROTA_OK);
    bench_settle(bench);
    assert_int_equal(bench_find(bench, 0, "c1")->owner, bench->tasks[0].fsm.me == 0 ? other : with);
    assert_int_equal(bench_life(bench, 0, "c1"), ROTA_GROUP_CREATED);
    assert_int_equal(bench_runner(bench, "c1"), -1);
    bench_finish(bench, with, "p", false);
    bench_settle(bench);
    assert_int_equal(bench_runner(bench, "c1"), other);
    assert_int_equal(bench_find(bench, 0, "c1")->sharer, 0); /* cleared by who shared it */
    bench_finish(bench, other, "c1", true);
    bench_settle(bench);
    assert_int_equal(bench_life(bench, 0, "p"), ROTA_GROUP_REMOVED);
    assert_int_equal(bench_life(bench, 0, "c1"), ROTA_GROUP_REMOVED);
    assert_agreed(bench, "01");
    bench_free(bench);
}

static void position_is_published_now_and_then_and_handed_on(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 2, one, 1);
    int with = bench_runner(bench, "p"), other = 1 - with;
    size_t n_log = bench->n_log;
    for (int i = 0; i < 5; i++)
        bench_progress(bench, with, "p", 11 + i);
    bench_settle(bench);
    assert_int_equal(bench->n_log, n_log);
    bench_tick(bench, ROTA_GROUP_PROGRESS_EVERY);
    bench_settle(bench);
    assert_int_equal(bench->n_log, n_log + 1);
    assert_int_equal(bench_find(bench, other, "p")->mark, 15);
    bench->tasks[with].is_cut_off = true;
    bench->tasks[with].n_runs = 0; /* killed */
    bench_round(bench, other ? "1" : "0");
    assert_int_equal(bench_runner(bench, "p"), other);
    assert_int_equal(bench->tasks[other].runs[0].mark, 15);
    bench_free(bench);
}

/* A label is what people search the log for. */
static void every_record_carries_the_label_of_its_epoch(void **state)
{
    struct bench *bench = bench_new();
    const char *label = "";
    size_t n_labels = 0, n_others = 0;
    (void)state;
    bench_begin(bench, 2, six, 6);
    bench_round(bench, "10");
    bench_finish(bench, bench_runner(bench, "p0"), "p0", true);
    bench_settle(bench);
    for (size_t i = 0; i < bench->n_log; i++) {
        const struct rota_group_record *record = bench->log[i];
        if (record->kind == ROTA_GROUP_EPOCH) {
            assert_string_not_equal(record->sync_epoch, label);
            label = record->sync_epoch;
            n_labels++;
            continue;
        }
        assert_string_equal(record->sync_epoch, label);
        n_others += n_labels > 0;
    }
    assert_int_equal(n_labels, 2);
    assert_true(n_others > 0);
    assert_string_equal(bench->tasks[0].fsm.fold.sync_epoch, label);
    bench_free(bench);
}

static void token_is_current_only_while_it_can_be_shown(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 1, one, 1);
    struct rota_group_fsm *fsm = &bench->tasks[0].fsm;
    uint64_t token = bench->tasks[0].runs[0].token;
    assert_true(rota_group_fsm_is_current(fsm, bench->now, rota_str("p"), token));
    assert_false(rota_group_fsm_is_current(fsm, bench->now, rota_str("p"), token + 1));
    assert_false(rota_group_fsm_is_current(fsm, bench->now, rota_str("q"), token));
    assert_false(
        rota_group_fsm_is_current(fsm, bench->now + ROTA_GROUP_FENCE_AFTER, rota_str("p"), token));
    bench_free(bench);
}

static void partition_runs_until_it_is_stopped_or_finished(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 1, six, 6);
    struct bench_task *task = &bench->tasks[0];
    uint64_t token = bench_find_run(task, rota_str("p0"))->token;
    assert_int_equal(rota_group_fsm_running(&task->fsm), 6);
    bench_finish(bench, 0, "p0", true);
    bench_settle(bench);
    assert_int_equal(rota_group_fsm_running(&task->fsm), 5);
    assert_false(rota_group_fsm_is_current(&task->fsm, bench->now, rota_str("p0"), token));
    bench_step(bench, 0, (struct rota_group_event){.type = ROTA_GROUP_LEAVE});
    assert_int_equal(task->n_stops, 5); /* the finished one has no reader to stop */
    assert_int_equal(rota_group_fsm_running(&task->fsm), 0);
    bench_settle(bench);
    assert_int_equal(task->fsm.state, ROTA_GROUP_AT_DONE);
    assert_int_equal(rota_group_fsm_running(&task->fsm), 0);
    bench_free(bench);
}

/* Only one of the two is confirmed, for as long as it takes. */
static void check_fence(bool is_log_well)
{
    struct bench *bench = bench_new();
    bench_begin(bench, 1, one, 1);
    rota_time started_at = bench->now;
    while (bench->tasks[0].n_runs > 0) {
        assert_true(bench->now < started_at + ROTA_GROUP_FENCE_AFTER);
        bench->now += 100 * ROTA_MSEC;
        bench_step(bench, 0,
                   (struct rota_group_event){
                       .type = is_log_well ? ROTA_GROUP_LOG_OK : ROTA_GROUP_GROUP_OK,
                       .sent_at = bench->now,
                       .end = bench->n_log,
                   });
    }
    assert_int_equal(bench->now, started_at + ROTA_GROUP_FENCE_AFTER);
    assert_int_equal(bench->tasks[0].n_leaves, 0); /* the reader has not stopped yet */
    uint64_t incarnation = bench->tasks[0].incarnation;
    size_t n_joins = bench->tasks[0].n_joins;
    bench_stopped(bench, 0);
    assert_int_equal(bench->tasks[0].n_leaves, 1);
    assert_int_equal(bench->tasks[0].n_joins, n_joins + is_log_well); /* not without the log */
    bench_settle(bench);
    assert_int_equal(bench->tasks[0].n_joins, n_joins + 1);
    assert_true(bench->tasks[0].incarnation > incarnation); /* another life */
    bench_round(bench, "0");
    assert_true(bench_runs(bench, 0, "p"));
    bench_free(bench);
}

static void b14_without_the_log_or_the_group_everything_stops_in_time(void **state)
{
    (void)state;
    check_fence(true);
    check_fence(false);
}

static void deadline_is_the_fence_when_nothing_else_is_due(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 1, one, 1);
    assert_int_equal(rota_group_fsm_deadline(&bench->tasks[0].fsm),
                     bench->now + ROTA_GROUP_FENCE_AFTER);
    bench_progress(bench, 0, "p", 12);
    assert_int_equal(rota_group_fsm_deadline(&bench->tasks[0].fsm),
                     bench->now + ROTA_GROUP_PROGRESS_EVERY);
    bench_free(bench);
}

static rota_time wait_of(const struct bench *bench)
{
    return rota_group_fsm_deadline(&bench->tasks[0].fsm) - bench->now;
}

static void deadline_is_what_ends_each_state(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_open_with(
        bench, 0,
        (struct rota_group_fsm_options){.seeds = one, .n_seeds = 1, .fence_after = 40 * ROTA_SEC});
    assert_int_equal(rota_group_fsm_deadline(&bench->tasks[0].fsm), ROTA_TIME_NEVER);
    bench_settle(bench);
    assert_int_equal(bench->tasks[0].fsm.state, ROTA_GROUP_AT_JOINING);
    assert_int_equal(wait_of(bench), ROTA_GROUP_WAIT_MAX);
    bench->now += ROTA_SEC;
    bench_round_to(bench, "0", "0");
    assert_int_equal(bench->tasks[0].fsm.state, ROTA_GROUP_AT_WAITING);
    assert_int_equal(wait_of(bench), ROTA_GROUP_WAIT_MAX);
    bench_append(bench, 0, false, false); /* the epoch */
    assert_int_equal(wait_of(bench), ROTA_GROUP_RETRY_FIRST);
    bench_tick(bench, ROTA_GROUP_RETRY_FIRST);
    bench_settle(bench);
    assert_int_equal(bench->tasks[0].fsm.state, ROTA_GROUP_AT_WORKING);
    assert_int_equal(wait_of(bench), 40 * ROTA_SEC);
    bench_child(bench, 0, "p", "c", NULL);
    assert_int_equal(wait_of(bench), 40 * ROTA_SEC); /* its record is in flight */
    bench_append(bench, 0, false, false);
    assert_int_equal(wait_of(bench), ROTA_GROUP_RETRY_FIRST);
    bench_tick(bench, ROTA_GROUP_RETRY_FIRST);
    bench_settle(bench);
    bench->now += ROTA_SEC;
    bench->tasks[0].stops_late = true;
    bench_step(bench, 0, (struct rota_group_event){.type = ROTA_GROUP_LEAVE});
    bench->now += ROTA_SEC;
    bench_ok(bench, 0);
    assert_int_equal(bench->tasks[0].fsm.state, ROTA_GROUP_AT_LEAVING);
    assert_int_equal(wait_of(bench), 39 * ROTA_SEC); /* from when it was told to */
    bench_stopped(bench, 0);
    bench_settle(bench);
    assert_int_equal(bench->tasks[0].fsm.state, ROTA_GROUP_AT_DONE);
    assert_int_equal(rota_group_fsm_deadline(&bench->tasks[0].fsm), ROTA_TIME_NEVER);
    bench_free(bench);
}

static void deadline_is_the_next_move_or_the_end_of_an_offer(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    for (int i = 0; i < 2; i++)
        bench_open_with(bench, i,
                        (struct rota_group_fsm_options){.seeds = one,
                                                        .n_seeds = 1,
                                                        .withdraw_after = ROTA_SEC,
                                                        .move_every = i ? 0 : 2 * ROTA_SEC});
    bench_settle(bench);
    bench_round(bench, "0");
    bench_tick(bench, ROTA_SEC);
    bench_ok(bench, 0);
    assert_int_equal(wait_of(bench), ROTA_SEC);
    bench_tick(bench, ROTA_SEC);
    bench_ok(bench, 0);
    assert_int_equal(wait_of(bench), 2 * ROTA_SEC);
    bench_round(bench, "01");
    assert_true(bench_runs(bench, 0, "p"));
    bench->tasks[1].is_cut_off = true;
    bench_child(bench, 0, "p", "c", NULL); /* offered to the other, which has nothing to do */
    bench_settle(bench);
    assert_int_equal(bench_find(bench, 0, "c")->target, bench->tasks[1].fsm.me);
    assert_int_equal(wait_of(bench), ROTA_SEC);
    bench_free(bench);
}

static void append_of_unknown_outcome_is_made_again_and_counts_once(void **state)
{
    for (int is_written = 0; is_written < 2; is_written++) {
        struct bench *bench = bench_new();
        (void)state;
        bench_begin(bench, 1, one, 1);
        bench_child(bench, 0, "p", "c", NULL);
        assert_int_equal(bench->tasks[0].n_appends, 1);
        bench_append(bench, 0, is_written, false);
        assert_int_equal(bench->tasks[0].n_appends, 0);
        bench_tick(bench, ROTA_GROUP_RETRY_FIRST);
        assert_int_equal(bench->tasks[0].n_appends, 1);
        bench_settle(bench);
        assert_int_equal(bench_life(bench, 0, "c"), ROTA_GROUP_CREATED);
        assert_int_equal(bench->tasks[0].fsm.fold.counts.verdicts[ROTA_GROUP_REPEATED], is_written);
        assert_int_equal(bench->tasks[0].fsm.fold.counts.refusals[ROTA_GROUP_IS_KNOWN], 0);
        bench_free(bench);
    }
}

static void record_that_did_not_count_is_written_again(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 2, six, 6);
    int with = bench_runner(bench, "p0"), leader = 1 - with;
    char tasks[3] = {(char)('0' + leader), (char)('0' + with), 0};
    bench_finish(bench, with, "p0", true); /* in flight, in the old epoch */
    bench_round_to(bench, tasks, tasks);
    bench_append(bench, leader, true, true); /* the epoch comes before it */
    bench_settle(bench);
    assert_int_equal(bench->tasks[leader].fsm.fold.counts.verdicts[ROTA_GROUP_OLD_EPOCH], 1);
    assert_int_equal(bench_life(bench, leader, "p0"), ROTA_GROUP_REMOVED);
    bench_free(bench);
}

static void record_that_counts_after_a_loss_is_reported_by_its_task(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 2, six, 6);
    for (int n_losses = 1; n_losses <= 2; n_losses++) { /* before it joins again, or as the next */
        int with = bench_runner(bench, n_losses == 1 ? "p0" : "p1");
        bench->may_overlap = true;
        bench_finish(bench, with, n_losses == 1 ? "p0" : "p1", true);
        uint64_t before = bench->tasks[with].counted_finishes;
        bench_step(bench, with, (struct rota_group_event){.type = ROTA_GROUP_GROUP_LOST});
        bench_stopped(bench, with);
        if (n_losses == 2)
            bench_ok(bench, with); /* joins as another incarnation */
        bench_append(bench, with, true, true);
        bench_settle(bench);
        assert_int_equal(bench->tasks[with].counted_finishes, before + 1);
        bench_round(bench, "01");
    }
    bench_free(bench);
}

static void leaving_task_writes_its_last_positions_first(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 2, one, 1);
    int with = bench_runner(bench, "p"), other = 1 - with;
    bench->tasks[with].stops_late = true;
    bench_step(bench, with, (struct rota_group_event){.type = ROTA_GROUP_LEAVE});
    bench_progress(bench, with, "p", 99);
    bench_settle(bench);
    assert_int_equal(bench->tasks[with].fsm.state, ROTA_GROUP_AT_LEAVING);
    bench_stopped(bench, with);
    bench_settle(bench);
    assert_int_equal(bench->tasks[with].fsm.state, ROTA_GROUP_AT_DONE);
    assert_int_equal(bench->tasks[with].n_leaves, 1);
    bench_round(bench, other ? "1" : "0");
    assert_int_equal(bench->tasks[other].runs[0].mark, 99);
    bench_free(bench);
}

/* Other tasks must not be given what still stops here. */
static void task_that_is_done_leaves_the_group_once_everything_has_stopped(void **state)
{
    struct bench *bench = bench_new();
    struct bench_task *task = &bench->tasks[0];
    (void)state;
    bench_begin(bench, 1, six, 6);
    task->stops_late = true;
    bench_step(bench, 0, (struct rota_group_event){.type = ROTA_GROUP_LOG_LOST});
    bench_step(bench, 0, (struct rota_group_event){.type = ROTA_GROUP_LEAVE});
    assert_int_equal(task->fsm.state, ROTA_GROUP_AT_DONE);
    assert_int_equal(task->n_stopping, 6);
    assert_int_equal(task->n_leaves, 0);
    bench_stopped(bench, 0);
    assert_int_equal(task->n_leaves, 1);
    bench_free(bench);
}

/* A newcomer takes over what is offered first: the others' partitions are not stopped meanwhile. */
static void hand_off_waits_for_an_interval_after_each_round(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    for (int i = 0; i < 2; i++)
        bench_open_with(bench, i,
                        (struct rota_group_fsm_options){
                            .seeds = six, .n_seeds = 6, .move_every = 2 * ROTA_SEC});
    bench_settle(bench);
    bench_round(bench, "0");
    assert_int_equal(bench->tasks[0].n_runs, 6);
    for (int second = 0; second < 2; second++) {
        bench_tick(bench, ROTA_SEC);
        bench_ok(bench, 0);
    }
    bench_tick(bench, ROTA_SEC);
    bench_ok(bench, 0);
    bench_round(bench, "01");
    bench_tick(bench, ROTA_SEC);
    bench_ok(bench, 0);
    bench_settle(bench);
    assert_int_equal(bench->tasks[0].n_runs, 6); /* it would be due without the round */
    bench_tick(bench, ROTA_SEC);
    bench_ok(bench, 0);
    bench_settle(bench);
    assert_int_equal(bench->tasks[0].n_runs, 5);
    bench_free(bench);
}

/* ... at once if nothing runs: no other event need follow. */
static void task_without_partitions_leaves_the_group_at_once(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 1, one, 1);
    bench_finish(bench, 0, "p", true);
    bench_settle(bench);
    bench_step(bench, 0, (struct rota_group_event){.type = ROTA_GROUP_LEAVE});
    assert_int_equal(bench->tasks[0].fsm.state, ROTA_GROUP_AT_DONE);
    assert_int_equal(bench->tasks[0].n_leaves, 1);
    bench_free(bench);
}

static void task_that_leaves_before_it_may_run_leaves_the_group_at_once(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_open(bench, 0, one, 1);
    bench_settle(bench);
    bench_round_to(bench, "0", "0");
    assert_int_equal(bench->tasks[0].fsm.state, ROTA_GROUP_AT_WAITING);
    bench_step(bench, 0, (struct rota_group_event){.type = ROTA_GROUP_LEAVE});
    assert_int_equal(bench->tasks[0].fsm.state, ROTA_GROUP_AT_DONE);
    assert_int_equal(bench->tasks[0].n_leaves, 1);
    bench_free(bench);
}

/* Between a round and its epoch a child can't be made known. A position behind it would lose it. */
static void leaving_task_drops_positions_after_an_unwritten_child(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 2, one, 1);
    int with = bench_runner(bench, "p"), other = 1 - with;
    bench_progress(bench, with, "p", 50);
    bench_tick(bench, ROTA_GROUP_PROGRESS_EVERY);
    bench_settle(bench);
    bench_round_to(bench, with ? "01" : "10", with ? "1" : "0");
    assert_int_equal(bench_child(bench, with, "p", "child", NULL), ROTA_OK);
    bench_progress(bench, with, "p", 99);
    bench_step(bench, with, (struct rota_group_event){.type = ROTA_GROUP_LEAVE});
    bench_settle(bench);
    assert_int_equal(bench->tasks[with].fsm.state, ROTA_GROUP_AT_DONE);
    assert_int_equal(bench->tasks[with].fsm.n_children, 0);
    assert_int_equal(bench->tasks[with].n_leaves, 1);
    bench_round(bench, other ? "1" : "0");
    assert_int_equal(bench->tasks[other].n_runs, 1);
    assert_int_equal(bench->tasks[other].runs[0].mark, 50);
    bench_free(bench);
}

/* Also when everything before that was cut off meanwhile. */
static void log_that_comes_back_is_read_from_where_it_was_left(void **state)
{
    (void)state;
    for (int is_cut = 0; is_cut < 2; is_cut++) {
        struct bench *bench = bench_new();
        struct bench_task *task = &bench->tasks[0];
        bench_begin(bench, 1, one, 1);
        bench_step(bench, 0, (struct rota_group_event){.type = ROTA_GROUP_LOG_LOST});
        bench_stopped(bench, 0);
        task->reads_at = UINT64_MAX; /* whoever delivers records has forgotten us */
        bench->first = is_cut ? bench->n_log : 0;
        bench_step(bench, 0,
                   (struct rota_group_event){
                       .type = ROTA_GROUP_OPENED, .first = bench->first, .end = bench->n_log});
        assert_int_equal(task->reads_at, bench->n_log);
        assert_false(task->is_failed);
        bench_settle(bench);
        bench_round(bench, "0");
        assert_int_equal(task->n_runs, 1);
        bench_free(bench);
    }
}

static void missing_epoch_leads_to_joining_again(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 2, six, 6);
    bench_round_to(bench, "10", "0"); /* the leader hears of nothing */
    assert_int_equal(bench->tasks[0].fsm.state, ROTA_GROUP_AT_WAITING);
    assert_int_equal(bench->tasks[0].n_runs, 3); /* what runs continues */
    for (rota_time waited = 0; waited < ROTA_GROUP_WAIT_MAX; waited += ROTA_SEC) {
        assert_int_equal(bench->tasks[0].n_joins, 1);
        bench_tick(bench, ROTA_SEC);
        bench_ok(bench, 0);
        bench_ok(bench, 1);
    }
    bench_settle(bench);
    assert_int_equal(bench->tasks[0].n_joins, 2);
    bench_free(bench);
}

static void snapshot_is_written_and_a_newcomer_begins_from_it(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    for (int i = 0; i < 2; i++)
        bench_open_with(
            bench, i,
            (struct rota_group_fsm_options){.seeds = six, .n_seeds = 6, .snapshot_records = 40});
    bench_settle(bench);
    bench_round(bench, "01");
    for (int i = 0; i < 60; i++) {
        int with = bench_runner(bench, "p1");
        bench_progress(bench, with, "p1", i);
        bench_tick(bench, ROTA_GROUP_PROGRESS_EVERY);
        bench_settle(bench);
    }
    uint64_t from = bench->tasks[1].fsm.fold.replay_from;
    assert_true(from > 0);
    bench->first = from; /* the rest is cut off */
    bench_open(bench, 2, six, 6);
    bench_settle(bench);
    assert_true(bench->tasks[2].is_joined);
    assert_agreed(bench, "012");
    bench_round(bench, "012");
    assert_agreed(bench, "012");
    assert_int_equal(bench->tasks[0].n_starts + bench->tasks[1].n_starts, 6);
    bench_free(bench);
}

static void snapshot_is_given_up_when_a_piece_of_it_does_not_count(void **state)
{
    enum { N = 600, LONG = 500 }; /* more than ROTA_GROUP_CHUNK_MAX */
    static char names[N][LONG + 1];
    struct rota_group_seed seeds[N] = {0};
    struct bench *bench = bench_new();
    (void)state;
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "%0*d", LONG, i);
        seeds[i].name = rota_str(names[i]);
    }
    bench_begin(bench, 2, seeds, N);
    struct rota_group_fsm *leader = &bench->tasks[0].fsm;
    assert_int_equal(leader->fold.leader, leader->me);
    leader->fold.n_records = 1 << 20; /* as if there were so many */
    bench_ok(bench, 0);
    assert_int_equal(bench->tasks[0].n_appends, 1); /* the first piece is in flight */
    assert_non_null(leader->snapshot);
    bench_round_to(bench, "10", "10");
    bench_append(bench, 1, true, true); /* the epoch comes before it */
    bench_settle(bench);
    assert_int_equal(leader->fold.counts.verdicts[ROTA_GROUP_OLD_EPOCH], 1);
    assert_null(leader->snapshot);
    assert_int_equal(leader->fold.replay_from, 0);
    bench_free(bench);
}

static void check_room(const char *parent)
{
    struct bench *bench = bench_new();
    struct bench_task *task = &bench->tasks[0];
    bench_open_with(bench, 0,
                    (struct rota_group_fsm_options){
                        .seeds = one, .n_seeds = 1, .progress_every = 3 * ROTA_SEC});
    bench_settle(bench);
    bench_round(bench, "0");
    bench->n_more = ROTA_GROUP_PARTITIONS_MAX;
    bench_child(bench, 0, parent, "c", NULL);
    bench_settle(bench);
    assert_int_equal(task->n_refused, 1);
    assert_int_equal(task->refusal, ROTA_GROUP_IS_FULL);
    assert_int_equal(wait_of(bench), 3 * ROTA_SEC);
    bench->n_more = 0;
    bench_tick(bench, 3 * ROTA_SEC - 1);
    bench_settle(bench);
    assert_null(bench_find(bench, 0, "c"));
    assert_int_equal(wait_of(bench), 1);
    bench_tick(bench, 1);
    bench_settle(bench);
    assert_non_null(bench_find(bench, 0, "c"));
    assert_int_equal(task->n_refused, 1);
    bench_free(bench);
}

static void partitions_are_created_once_the_group_has_room(void **state)
{
    (void)state;
    check_room("p");
    check_room(""); /* of no parent */
}

/* Two tasks with the six partitions, and as many snapshots as asked for. */
static struct bench *bench_of_snapshots(int n_snapshots)
{
    struct bench *bench = bench_new();
    for (int i = 0; i < 2; i++)
        bench_open_with(
            bench, i,
            (struct rota_group_fsm_options){.seeds = six, .n_seeds = 6, .snapshot_records = 20});
    bench_settle(bench);
    bench_round(bench, "01");
    for (int i = 0, n = 0; n < n_snapshots; i++) {
        uint64_t from = bench->tasks[0].fsm.fold.replay_from;
        bench_progress(bench, bench_runner(bench, "p1"), "p1", i);
        bench_tick(bench, ROTA_GROUP_PROGRESS_EVERY);
        bench_settle(bench);
        n += bench->tasks[0].fsm.fold.replay_from > from;
    }
    return bench;
}

/* A newcomer starts, from what is left of the log. */
static void assert_starts(struct bench *bench)
{
    bench_open(bench, 2, six, 6);
    bench_settle(bench);
    assert_false(bench->tasks[2].is_failed);
    assert_true(bench->tasks[2].is_joined);
    assert_agreed(bench, "012");
}

static void start_searches_past_records_of_others(void **state)
{
    struct bench *bench = bench_of_snapshots(1);
    (void)state;
    bench->first = bench->tasks[0].fsm.fold.replay_from;
    bench->n_log += 20 * ROTA_GROUP_TAIL; /* records that nobody can read */
    bench_settle(bench);
    assert_starts(bench);
    bench_free(bench);
}

/* What can't be read between the records of a snapshot is not counted as something else. */
static void record_skipped_before_a_snapshot_keeps_its_reason(void **state)
{
    struct bench *bench = bench_of_snapshots(1);
    struct rota_group_fsm *fsm = &bench->tasks[2].fsm;
    uint64_t from = bench->tasks[0].fsm.fold.replay_from;
    (void)state;
    bench_open(bench, 2, six, 6);
    while (bench_read(bench, 2)) {
    }
    bench_ok(bench, 2);
    assert_int_equal(fsm->replay, ROTA_GROUP_REPLAY_COLLECT);
    bench_step(bench, 2,
               (struct rota_group_event){.type = ROTA_GROUP_RECORD,
                                         .offset = from,
                                         .size = 2000000,
                                         .why = ROTA_GROUP_OVERSIZED});
    for (uint64_t i = from; i < bench->n_log; i++) /* each one further */
        bench_step(bench, 2,
                   (struct rota_group_event){
                       .type = ROTA_GROUP_RECORD, .offset = i + 1, .record = bench->log[i]});
    assert_int_equal(fsm->replay, ROTA_GROUP_REPLAY_FOLD);
    assert_int_equal(fsm->fold.counts.verdicts[ROTA_GROUP_OVERSIZED], 1);
    assert_int_equal(fsm->fold.counts.verdicts[ROTA_GROUP_FOREIGN], 0);
    bench_free(bench);
}

static void task_that_ends_while_it_reads_a_snapshot_frees_the_pieces(void **state)
{
    struct bench *bench = bench_of_snapshots(1);
    struct rota_group_fsm *fsm = &bench->tasks[2].fsm;
    (void)state;
    bench_open(bench, 2, six, 6);
    while (fsm->collected.size == 0)
        if (!bench_read(bench, 2))
            bench_ok(bench, 2);
    assert_int_equal(fsm->replay, ROTA_GROUP_REPLAY_COLLECT);
    bench_free(bench);
}

static void start_finds_a_snapshot_that_no_record_names(void **state)
{
    struct bench *bench = bench_of_snapshots(2);
    const struct rota_group_record *last = bench->log[bench->n_log - 1];
    (void)state;
    while (last->kind != ROTA_GROUP_SNAPSHOT || last->index + 1 < last->count) {
        rota_group_record_unref(bench->log[--bench->n_log]);
        last = bench->log[bench->n_log - 1];
    }
    assert_true(last->replay_from < last->next);
    bench->first = last->next;
    bench_open(bench, 2, six, 6);
    for (int i = 0; i < 4; i++) { /* the tail, the pieces, the rest */
        while (bench_read(bench, 2)) {
        }
        bench_ok(bench, 2);
    }
    assert_false(bench->tasks[2].is_failed);
    assert_int_equal(bench->tasks[2].fsm.fold.next, bench->n_log);
    assert_int_equal(bench->tasks[2].fsm.fold.n_partitions, 6);
    bench_free(bench);
}

/* Piece 0 of the snapshot for `next` can't be read. */
/* Its first piece is missing, or contradicts itself. */
static void break_snapshot(struct bench *bench, uint64_t next, bool is_wrong)
{
    for (size_t i = 0; i < bench->n_log; i++) {
        struct rota_group_record *record = bench->log[i];
        if (!record || record->kind != ROTA_GROUP_SNAPSHOT || record->next != next ||
            record->index > 0)
            continue;
        if (is_wrong) {
            record->leader = (uint32_t)record->n_tasks;
            continue;
        }
        rota_group_record_unref(record);
        bench->log[i] = NULL;
    }
}

static void start_takes_an_earlier_snapshot_when_one_is_broken(void **state)
{
    for (int i = 0; i < 4; i++) {
        int n_broken = 1 + i % 2;
        bool is_wrong = i >= 2;
        struct bench *bench = bench_of_snapshots(2);
        const struct rota_group_fold *fold = &bench->tasks[0].fsm.fold;
        (void)state;
        bench->first = fold->replay_before;
        assert_true(bench->first > 0 && bench->first < fold->replay_from);
        break_snapshot(bench, fold->replay_from, is_wrong);
        if (n_broken == 2)
            break_snapshot(bench, fold->replay_before, is_wrong);
        bench_open(bench, 2, six, 6);
        bench_settle(bench);
        assert_int_equal(bench->tasks[2].is_failed, n_broken == 2);
        assert_int_equal(bench->tasks[2].failure,
                         n_broken == 2 ? ROTA_GROUP_SNAPSHOT_BROKEN : ROTA_GROUP_NO_FAILURE);
        assert_int_equal(bench->tasks[2].n_joins, n_broken == 2 ? 0 : 1);
        bench_free(bench);
    }
}

static void leader_trims_the_log_before_the_last_snapshot_but_one(void **state)
{
    struct bench *bench = bench_of_snapshots(1);
    (void)state;
    assert_true(bench->tasks[0].fsm.fold.replay_from > 0);
    assert_int_equal(rota_group_fsm_trim_below(&bench->tasks[0].fsm), 0);
    bench_free(bench);

    bench = bench_of_snapshots(2);
    uint64_t below = rota_group_fsm_trim_below(&bench->tasks[0].fsm);
    assert_true(below > 0 && below < bench->tasks[0].fsm.fold.replay_from);
    assert_int_equal(rota_group_fsm_trim_below(&bench->tasks[1].fsm), 0); /* it does not lead */
    bench->first = below;
    assert_starts(bench);
    bench_round(bench, "201");
    /* Who has begun from a snapshot knows as much. */
    assert_int_equal(rota_group_fsm_trim_below(&bench->tasks[2].fsm), below);
    bench_round_to(bench, "201", "2");
    bench_step(bench, 2, (struct rota_group_event){.type = ROTA_GROUP_GROUP_LOST});
    assert_int_equal(rota_group_fsm_trim_below(&bench->tasks[2].fsm), 0);
    bench_free(bench);
}

static void observer_reads_and_never_joins(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 2, six, 6);
    bench_open_with(bench, 2, (struct rota_group_fsm_options){.is_observer = true});
    bench_settle(bench);
    bench_tick(bench, 10 * ROTA_GROUP_WAIT_MAX);
    bench_settle(bench);
    assert_int_equal(bench->tasks[2].n_joins, 0);
    assert_int_equal(bench->tasks[2].n_appends, 0);
    assert_int_equal(bench->tasks[2].fsm.state, ROTA_GROUP_AT_READY);
    assert_int_equal(bench->tasks[2].fsm.fold.n_partitions, 6);
    bench_step(bench, 2, (struct rota_group_event){.type = ROTA_GROUP_LEAVE});
    assert_int_equal(bench->tasks[2].fsm.state, ROTA_GROUP_AT_DONE);
    assert_int_equal(bench->tasks[2].n_leaves, 0);
    bench_free(bench);
}

static void loss_is_reported_with_its_reason(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 2, six, 6);
    assert_true(bench->tasks[0].n_rounds > 0);
    assert_int_equal(bench->tasks[0].loss, ROTA_GROUP_NO_LOSS);
    bench_step(bench, 0, (struct rota_group_event){.type = ROTA_GROUP_GROUP_LOST});
    assert_int_equal(bench->tasks[0].loss, ROTA_GROUP_EXPELLED);
    bench_round(bench, "1"); /* the others know it, too */
    bench_settle(bench);
    bench_tick(bench, ROTA_GROUP_FENCE_AFTER);
    assert_int_equal(bench->tasks[1].loss, ROTA_GROUP_FENCED);
    bench_settle(bench);
    bench_round(bench, "01");
    bench->may_overlap = true; /* no session was waited for */
    bench_round_to(bench, "1", "1");
    bench_settle(bench);
    assert_int_equal(bench->tasks[0].loss, ROTA_GROUP_UNLISTED);
    bench_step(bench, 1, (struct rota_group_event){.type = ROTA_GROUP_LOG_LOST});
    assert_int_equal(bench->tasks[1].loss, ROTA_GROUP_LOGLESS);
    bench_tick(bench, ROTA_GROUP_WAIT_MAX);
    assert_int_equal(bench->tasks[0].loss, ROTA_GROUP_WAITED);
    bench_free(bench);
}

/* It says nothing about now: others may have been given everything since. */
static void late_round_is_not_a_membership(void **state)
{
    struct bench *bench = bench_new();
    struct bench_task *task = &bench->tasks[0];
    (void)state;
    bench_open(bench, 0, one, 1);
    bench_settle(bench);
    assert_int_equal(task->fsm.state, ROTA_GROUP_AT_JOINING);
    struct rota_group_member member = {rota_blob_str(task->fsm.name), task->incarnation};
    rota_time asked_at = bench->now;
    bench->now += ROTA_GROUP_FENCE_AFTER;
    bench_step(bench, 0,
               (struct rota_group_event){
                   .type = ROTA_GROUP_LOG_OK, .sent_at = bench->now, .end = bench->n_log});
    bench_step(bench, 0,
               (struct rota_group_event){.type = ROTA_GROUP_REBALANCED,
                                         .generation = ++bench->generation,
                                         .members = &member,
                                         .n_members = 1,
                                         .is_leader = true,
                                         .sent_at = asked_at});
    assert_int_equal(task->loss, ROTA_GROUP_FENCED);
    assert_int_equal(task->n_rounds, 0);
    bench_settle(bench);
    assert_int_equal(task->n_joins, 2); /* as another incarnation */
    assert_true(task->incarnation != member.incarnation);
    bench_free(bench);
}

static void report_under_another_token_is_ignored(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 1, one, 1);
    uint64_t token = bench->tasks[0].runs[0].token;
    struct rota_group_event event = {.type = ROTA_GROUP_FINISHED_READING,
                                     .partition = rota_str("p"),
                                     .token = token + 1,
                                     .is_end = true};
    bench_step(bench, 0, event);
    bench_settle(bench);
    assert_int_equal(bench_life(bench, 0, "p"), ROTA_GROUP_RUNNING);
    event.token = token;
    bench_step(bench, 0, event);
    bench_settle(bench);
    assert_int_equal(bench_life(bench, 0, "p"), ROTA_GROUP_REMOVED);
    bench_free(bench);
}

static void fence_leaves_time_to_stop(void **state)
{
    (void)state;
    assert_int_equal(rota_group_fsm_fence_after(8 * ROTA_SEC, 2 * ROTA_SEC), 5 * ROTA_SEC);
    assert_int_equal(rota_group_fsm_fence_after(8 * ROTA_SEC, 5 * ROTA_SEC), 0);
    assert_int_equal(rota_group_fsm_fence_after(8 * ROTA_SEC, 80 * ROTA_SEC), 0);
    for (rota_time stop = 0; stop < 10 * ROTA_SEC; stop += ROTA_MSEC)
        assert_true(rota_group_fsm_fence_after(6 * ROTA_SEC, stop) == 0 ||
                    rota_group_fsm_fence_after(6 * ROTA_SEC, stop) + stop < 6 * ROTA_SEC);
}

static void hand_off_is_off_unless_asked_for_and_bounded_then(void **state)
{
    for (int is_on = 0; is_on < 2; is_on++) {
        struct bench *bench = bench_new();
        (void)state;
        for (int i = 0; i < 2; i++)
            bench_open_with(bench, i,
                            (struct rota_group_fsm_options){
                                .seeds = six, .n_seeds = 6, .move_every = is_on * ROTA_SEC});
        bench_settle(bench);
        bench_round(bench, "0");
        assert_int_equal(bench->tasks[0].n_runs, 6);
        bench_round(bench, "01");
        for (int second = 0; second < 10; second++) {
            size_t n_stops = bench->tasks[0].n_stops;
            bench_tick(bench, ROTA_SEC);
            bench_settle(bench);
            assert_true(bench->tasks[0].n_stops <= n_stops + 1);
        }
        assert_int_equal(bench->tasks[1].n_runs, is_on ? 3 : 0);
        assert_int_equal(bench->tasks[0].n_runs, is_on ? 3 : 6);
        bench_free(bench);
    }
}

static void user_reports_are_checked(void **state)
{
    struct bench *bench = bench_new();
    struct rota_group_fsm fsm;
    static char long_name[ROTA_GROUP_NAME_MAX + 2];
    (void)state;
    memset(long_name, 'x', sizeof long_name - 1);
    bench_begin(bench, 1, one, 1);
    assert_int_equal(bench_child(bench, 0, "p", long_name, NULL), ROTA_ERR_INVALID);
    assert_int_equal(bench_child(bench, 0, "p", "\xff", NULL), ROTA_ERR_INVALID);
    assert_int_equal(bench_child(bench, 0, "p", "", NULL), ROTA_ERR_INVALID);
    assert_int_equal(bench_child(bench, 0, "p", "p", NULL), ROTA_ERR_INVALID);
    assert_int_equal(bench_child(bench, 0, "p", "c", "c"), ROTA_ERR_INVALID);
    assert_int_equal(bench_child(bench, 0, "p", "c", long_name), ROTA_ERR_INVALID);
    assert_int_equal(bench_child(bench, 0, "p", "c", ""), ROTA_ERR_INVALID);
    assert_int_equal(bench_child(bench, 0, "", "c", "p"), ROTA_ERR_INVALID);
    assert_int_equal(bench_child(bench, 0, "elsewhere", "c", NULL),
                     ROTA_OK); /* not ours: nothing */
    assert_int_equal(bench_child(bench, 0, "", "root", NULL), ROTA_OK);
    assert_int_equal(bench_step(bench, 0,
                                (struct rota_group_event){.type = ROTA_GROUP_PROGRESS_MADE,
                                                          .partition = rota_str("p"),
                                                          .mark = 9, /* it began at 10 */
                                                          .position = rota_str("")}),
                     ROTA_ERR_INVALID);
    bench_settle(bench);
    assert_true(bench_runs(bench, 0, "root"));
    assert_null(bench_find(bench, 0, "c"));
    bench_free(bench);
    assert_int_equal(
        rota_group_fsm_init(&fsm, &(struct rota_group_fsm_options){.task = rota_str("two words")},
                            NULL),
        ROTA_ERR_INVALID);
    assert_int_equal(
        rota_group_fsm_init(&fsm, &(struct rota_group_fsm_options){.task = rota_str("")}, NULL),
        ROTA_ERR_INVALID);
}

static void explain_says_why(void **state)
{
    struct bench *bench = bench_new();
    char text[512];
    (void)state;
    bench_begin(bench, 1, one, 1);
    struct rota_group_fsm *fsm = &bench->tasks[0].fsm;
    assert_non_null(strstr(rota_group_fsm_explain(fsm, rota_str("p"), text, sizeof text),
                           "task t0 owns it with fencing token"));
    bench_child(bench, 0, "p", "c", NULL);
    bench_settle(bench);
    assert_non_null(strstr(rota_group_fsm_explain(fsm, rota_str("c"), text, sizeof text),
                           "its parent p is not finished"));
    assert_non_null(strstr(rota_group_fsm_explain(fsm, rota_str("x"), text, sizeof text),
                           "no task has reported it"));
    bench_child(bench, 0, "p", "d", "y"); /* which has another parent */
    bench_finish(bench, 0, "p", false);
    bench_settle(bench);
    assert_non_null(strstr(rota_group_fsm_explain(fsm, rota_str("p"), text, sizeof text),
                           "it is finished; 2 of its child partitions are not"));
    assert_non_null(strstr(rota_group_fsm_explain(fsm, rota_str("d"), text, sizeof text),
                           "it waits, with t0, because its parent y is unknown so far"));
    assert_non_null(strstr(rota_group_fsm_explain(fsm, rota_str("y"), text, sizeof text),
                           "it has child partitions, but no task has reported it yet"));
    bench->tasks[0].stops_late = true;
    bench_step(bench, 0, (struct rota_group_event){.type = ROTA_GROUP_LEAVE});
    assert_non_null(strstr(rota_group_fsm_explain(fsm, rota_str("c"), text, sizeof text),
                           "; its reader on this task is stopping"));
    bench_free(bench);
}

static void explain_names_the_task_that_must_act(void **state)
{
    struct bench *bench = bench_new();
    char text[512];
    (void)state;
    bench_begin(bench, 2, one, 1);
    int with = bench_runner(bench, "p"), other = 1 - with;
    struct rota_group_fsm *fsm = &bench->tasks[with].fsm;
    bench->tasks[other].is_cut_off = true;
    bench_child(bench, with, "p", "c", NULL);
    bench_settle(bench);
    char waits[64], offered[64];
    snprintf(waits, sizeof waits, "it waits, offered to t%d, because its parent p", other);
    snprintf(offered, sizeof offered, "it is offered to t%d, which has not accepted it", other);
    assert_non_null(strstr(rota_group_fsm_explain(fsm, rota_str("c"), text, sizeof text), waits));
    bench_finish(bench, with, "p", false);
    bench_settle(bench);
    assert_non_null(strstr(rota_group_fsm_explain(fsm, rota_str("c"), text, sizeof text), offered));
    bench->tasks[other].is_cut_off = false;
    bench_settle(bench);
    bench_finish(bench, other, "c", true);
    bench_append(bench, other, true, true);
    while (bench_read(bench, with)) {
    }
    snprintf(offered, sizeof offered, "it is finished; t%d will remove it", other);
    assert_string_equal(rota_group_fsm_explain(fsm, rota_str("c"), text, sizeof text), offered);
    bench_settle(bench);
    assert_string_equal(rota_group_fsm_explain(fsm, rota_str("c"), text, sizeof text),
                        "it is finished and removed");
    bench_free(bench);
}

static void states_losses_and_failures_have_names(void **state)
{
    (void)state;
    assert_string_equal(rota_group_fsm_state_name(ROTA_GROUP_AT_START), "start");
    assert_string_equal(rota_group_fsm_state_name(ROTA_GROUP_AT_DONE), "done");
    assert_string_equal(rota_group_fsm_state_name(ROTA_GROUP_AT_DONE + 1), "unknown");
    assert_string_equal(rota_group_fsm_loss_name(ROTA_GROUP_NO_LOSS), "none");
    assert_string_equal(rota_group_fsm_loss_name(ROTA_GROUP_LOGLESS), "log_lost");
    assert_string_equal(rota_group_fsm_loss_name(ROTA_GROUP_LOGLESS + 1), "unknown");
    assert_string_equal(rota_group_fsm_failure_name(ROTA_GROUP_NO_FAILURE), "none");
    assert_string_equal(rota_group_fsm_failure_name(ROTA_GROUP_OUT_OF_MEMORY), "out_of_memory");
    assert_string_equal(rota_group_fsm_failure_name(ROTA_GROUP_OUT_OF_MEMORY + 1), "unknown");
}

static enum rota_code open_with(struct rota_group_fsm *fsm, const struct rota_group_seed *seeds,
                                size_t n)
{
    struct rota_group_fsm_options options = {.task = rota_str("t"), .seeds = seeds, .n_seeds = n};
    return rota_group_fsm_init(fsm, &options, NULL);
}

static void initial_partitions_are_copied_and_checked(void **state)
{
    static char large[ROTA_GROUP_POSITION_MAX + 1];
    char texts[] = "onetwofirst";
    struct rota_group_fsm fsm;
    (void)state;
    memset(large, 'x', sizeof large);
    struct rota_group_seed seeds[] = {
        {.name = rota_str_of(texts, 3), .mark = 5, .position = rota_str_of(texts + 6, 5)},
        {.name = rota_str_of(texts + 3, 3), .mark = -7},
        {.name = rota_str_of(large, 9), .position = rota_str_of(large, ROTA_GROUP_POSITION_MAX)},
    };
    assert_int_equal(open_with(&fsm, seeds, 3), ROTA_OK);
    memset(texts, '-', sizeof texts);
    assert_true(rota_str_is_equal(fsm.seeds[0].name, rota_str("one")));
    assert_true(rota_str_is_equal(fsm.seeds[0].position, rota_str("first")));
    assert_int_equal(fsm.seeds[0].mark, 5);
    assert_true(rota_str_is_equal(fsm.seeds[1].name, rota_str("two")));
    assert_int_equal(fsm.seeds[1].position.size, 0);
    assert_int_equal(fsm.seeds[1].mark, -7);
    assert_int_equal(fsm.seeds[2].position.size, ROTA_GROUP_POSITION_MAX);
    rota_group_fsm_deinit(&fsm);

    seeds[1].position = rota_str_of(large, ROTA_GROUP_POSITION_MAX + 1);
    assert_int_equal(open_with(&fsm, seeds, 2), ROTA_ERR_INVALID);
    seeds[0].name = rota_str("");
    assert_int_equal(open_with(&fsm, seeds, 1), ROTA_ERR_INVALID);
    assert_int_equal(open_with(&fsm, seeds, ROTA_GROUP_PARTITIONS_MAX + 1), ROTA_ERR_LIMIT);
}

static void options_of_a_task_have_defaults(void **state)
{
    struct rota_group_fsm fsm;
    struct rota_group_fsm_options options = {.task = rota_str("t")};
    (void)state;
    assert_int_equal(rota_group_fsm_init(&fsm, &options, NULL), ROTA_OK);
    assert_int_equal(fsm.options.fence_after, ROTA_GROUP_FENCE_AFTER);
    assert_int_equal(fsm.options.progress_every, ROTA_GROUP_PROGRESS_EVERY);
    assert_int_equal(fsm.options.wait_max, ROTA_GROUP_WAIT_MAX);
    assert_int_equal(fsm.options.snapshot_records, ROTA_GROUP_SNAPSHOT_RECORDS);
    assert_int_equal(fsm.options.snapshot_bytes, ROTA_GROUP_SNAPSHOT_BYTES);
    rota_group_fsm_deinit(&fsm);
    options = (struct rota_group_fsm_options){.task = rota_str("t"),
                                              .fence_after = 1,
                                              .progress_every = 1,
                                              .wait_max = 1,
                                              .snapshot_records = 1,
                                              .snapshot_bytes = 1};
    assert_int_equal(rota_group_fsm_init(&fsm, &options, NULL), ROTA_OK);
    assert_int_equal(fsm.options.fence_after + fsm.options.progress_every + fsm.options.wait_max,
                     3);
    assert_int_equal(fsm.options.snapshot_records + fsm.options.snapshot_bytes, 2);
    rota_group_fsm_deinit(&fsm);
    options.task = rota_str("a b");
    assert_int_equal(rota_group_fsm_init(&fsm, &options, NULL), ROTA_ERR_INVALID);
    options.is_observer = true;
    options.task = rota_str("");
    assert_int_equal(rota_group_fsm_init(&fsm, &options, NULL), ROTA_OK);
    rota_group_fsm_deinit(&fsm);
}

static void append_that_fails_again_and_again_is_made_less_and_less_often(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 1, one, 1);
    bench_child(bench, 0, "p", "c", NULL);
    for (rota_time after = ROTA_GROUP_RETRY_FIRST, i = 0; i < 9; i++) {
        assert_int_equal(bench->tasks[0].n_appends, 1);
        bench_append(bench, 0, false, false);
        bench_ok(bench, 0);
        bench_tick(bench, after - 1);
        assert_int_equal(bench->tasks[0].n_appends, 0);
        bench_tick(bench, 1);
        after = 2 * after < ROTA_GROUP_RETRY_MAX ? 2 * after : ROTA_GROUP_RETRY_MAX;
    }
    bench_free(bench);
}

static void more_children_than_a_record_holds_take_several_records(void **state)
{
    enum { CHILDREN = 3000, LONG = 200 };
    struct bench *bench = bench_new();
    char name[LONG + 1];
    (void)state;
    bench_begin(bench, 2, one, 1);
    int with = bench_runner(bench, "p");
    size_t n_before = bench->n_log;
    for (int i = 0; i < CHILDREN; i++) {
        snprintf(name, sizeof name, "%0*d", LONG, i);
        bench_child(bench, with, "p", name, NULL);
    }
    bench_settle(bench);
    assert_in_range(bench->n_log - n_before, CHILDREN * LONG / ROTA_GROUP_CHUNK_MAX,
                    CHILDREN / 50); /* and not one for each */
    for (int task = 0; task < 2; task++)
        for (int i = 0; i < CHILDREN; i++) {
            snprintf(name, sizeof name, "%0*d", LONG, i);
            assert_int_equal(bench_life(bench, task, name), ROTA_GROUP_CREATED);
        }
    bench_free(bench);
}

static void position_after_children_that_do_not_fit_is_written_after_them(void **state)
{
    enum { CHILDREN = 500, LONG = 500 }; /* more than ROTA_GROUP_CHUNK_MAX */
    struct bench *bench = bench_new();
    char name[LONG + 1];
    (void)state;
    bench_begin(bench, 1, one, 1);
    for (int i = 0; i < CHILDREN; i++) {
        snprintf(name, sizeof name, "%0*d", LONG, i);
        bench_child(bench, 0, "p", name, NULL);
    }
    bench_finish(bench, 0, "p", true);
    bench_settle(bench);
    for (int i = 0; i < CHILDREN; i++) {
        snprintf(name, sizeof name, "%0*d", LONG, i);
        enum rota_group_life life = bench_life(bench, 0, name);
        assert_true(life == ROTA_GROUP_READY || life == ROTA_GROUP_RUNNING);
    }
    bench_free(bench);
}

static void positions_that_do_not_fit_into_one_record_are_written_in_several(void **state)
{
    enum { N = 2 * ROTA_GROUP_CHUNK_MAX / ROTA_GROUP_POSITION_MAX }; /* more than a record holds */
    static char position[ROTA_GROUP_POSITION_MAX], names[N][8];
    struct rota_group_seed seeds[N] = {0};
    struct bench *bench = bench_new();
    (void)state;
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        seeds[i].name = rota_str(names[i]);
    }
    bench_begin(bench, 1, seeds, N);
    size_t n_before = bench->n_log;
    for (int i = 0; i < N; i++)
        bench_step(bench, 0,
                   (struct rota_group_event){.type = ROTA_GROUP_PROGRESS_MADE,
                                             .partition = rota_str(names[i]),
                                             .mark = 1 + i,
                                             .position = rota_str_of(position, sizeof position)});
    bench_tick(bench, ROTA_GROUP_PROGRESS_EVERY);
    bench_settle(bench);
    assert_in_range(bench->n_log - n_before, 3, N / 5); /* and not one for each */
    for (int i = 0; i < N; i++)
        assert_int_equal(bench_find(bench, 0, names[i])->mark, 1 + i);
    bench_free(bench);
}

static void whole_log_is_read_when_no_snapshot_is_valid(void **state)
{
    (void)state;
    for (int is_wrong = 0; is_wrong < 2; is_wrong++) {
        struct bench *bench = bench_of_snapshots(2);
        const struct rota_group_fold *fold = &bench->tasks[0].fsm.fold;
        uint64_t from = fold->replay_from, before = fold->replay_before;
        break_snapshot(bench, from, is_wrong);
        break_snapshot(bench, before, is_wrong);
        bench_open(bench, 2, six, 6);
        bench_settle(bench);
        assert_true(bench->tasks[2].is_joined && !bench->tasks[2].is_failed);
        assert_int_equal(bench->tasks[2].fsm.fold.next, fold->next);
        for (int j = 0; j < 6; j++)
            assert_int_equal(bench_life(bench, 2, six[j].name.data),
                             bench_life(bench, 0, six[j].name.data));
        bench_free(bench);
    }
}

/* More broken snapshots than a start tries, in a log that has lost its beginning. */
static void start_does_not_search_for_snapshots_forever(void **state)
{
    struct bench *bench = bench_of_snapshots(ROTA_GROUP_BEGINS_MAX + 3);
    uint64_t first = 0;
    (void)state;
    for (size_t i = 0; i < bench->n_log; i++) {
        struct rota_group_record *record = bench->log[i];
        if (!record || record->kind != ROTA_GROUP_SNAPSHOT || record->index > 0)
            continue;
        if (first == 0)
            first = record->next; /* that of the first one is valid */
        else if (record->next != first)
            record->leader = (uint32_t)record->n_tasks;
    }
    assert_true(first > 0);
    bench->first = first;
    bench_open(bench, 2, six, 6);
    bench_settle(bench);
    assert_true(bench->tasks[2].is_failed);
    assert_int_equal(bench->tasks[2].failure, ROTA_GROUP_SNAPSHOT_BROKEN);
    bench_free(bench);
}

static void children_that_wait_for_the_log_are_bounded(void **state)
{
    struct bench *bench = bench_new();
    char name[16];
    (void)state;
    bench_begin(bench, 1, one, 1);
    for (int i = 0; i < ROTA_GROUP_CHILDREN_MAX; i++) {
        snprintf(name, sizeof name, "c%d", i);
        assert_int_equal(bench_child(bench, 0, "p", name, NULL), ROTA_OK);
    }
    assert_int_equal(bench_child(bench, 0, "p", "one more", NULL), ROTA_ERR_LIMIT);
    bench_free(bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_is_read_before_the_group_is_joined),
        cmocka_unit_test(first_partitions_are_spread_and_made_once),
        cmocka_unit_test(child_goes_to_the_least_loaded_and_starts_after_its_parent),
        cmocka_unit_test(position_is_published_now_and_then_and_handed_on),
        cmocka_unit_test(every_record_carries_the_label_of_its_epoch),
        cmocka_unit_test(token_is_current_only_while_it_can_be_shown),
        cmocka_unit_test(partition_runs_until_it_is_stopped_or_finished),
        cmocka_unit_test(b14_without_the_log_or_the_group_everything_stops_in_time),
        cmocka_unit_test(deadline_is_the_fence_when_nothing_else_is_due),
        cmocka_unit_test(deadline_is_what_ends_each_state),
        cmocka_unit_test(deadline_is_the_next_move_or_the_end_of_an_offer),
        cmocka_unit_test(append_of_unknown_outcome_is_made_again_and_counts_once),
        cmocka_unit_test(record_that_did_not_count_is_written_again),
        cmocka_unit_test(record_that_counts_after_a_loss_is_reported_by_its_task),
        cmocka_unit_test(leaving_task_writes_its_last_positions_first),
        cmocka_unit_test(task_that_is_done_leaves_the_group_once_everything_has_stopped),
        cmocka_unit_test(hand_off_waits_for_an_interval_after_each_round),
        cmocka_unit_test(task_without_partitions_leaves_the_group_at_once),
        cmocka_unit_test(task_that_leaves_before_it_may_run_leaves_the_group_at_once),
        cmocka_unit_test(leaving_task_drops_positions_after_an_unwritten_child),
        cmocka_unit_test(log_that_comes_back_is_read_from_where_it_was_left),
        cmocka_unit_test(missing_epoch_leads_to_joining_again),
        cmocka_unit_test(snapshot_is_given_up_when_a_piece_of_it_does_not_count),
        cmocka_unit_test(partitions_are_created_once_the_group_has_room),
        cmocka_unit_test(snapshot_is_written_and_a_newcomer_begins_from_it),
        cmocka_unit_test(start_searches_past_records_of_others),
        cmocka_unit_test(record_skipped_before_a_snapshot_keeps_its_reason),
        cmocka_unit_test(task_that_ends_while_it_reads_a_snapshot_frees_the_pieces),
        cmocka_unit_test(start_finds_a_snapshot_that_no_record_names),
        cmocka_unit_test(start_takes_an_earlier_snapshot_when_one_is_broken),
        cmocka_unit_test(leader_trims_the_log_before_the_last_snapshot_but_one),
        cmocka_unit_test(observer_reads_and_never_joins),
        cmocka_unit_test(loss_is_reported_with_its_reason),
        cmocka_unit_test(late_round_is_not_a_membership),
        cmocka_unit_test(report_under_another_token_is_ignored),
        cmocka_unit_test(fence_leaves_time_to_stop),
        cmocka_unit_test(hand_off_is_off_unless_asked_for_and_bounded_then),
        cmocka_unit_test(user_reports_are_checked),
        cmocka_unit_test(explain_says_why),
        cmocka_unit_test(explain_names_the_task_that_must_act),
        cmocka_unit_test(states_losses_and_failures_have_names),
        cmocka_unit_test(initial_partitions_are_copied_and_checked),
        cmocka_unit_test(options_of_a_task_have_defaults),
        cmocka_unit_test(append_that_fails_again_and_again_is_made_less_and_less_often),
        cmocka_unit_test(more_children_than_a_record_holds_take_several_records),
        cmocka_unit_test(position_after_children_that_do_not_fit_is_written_after_them),
        cmocka_unit_test(positions_that_do_not_fit_into_one_record_are_written_in_several),
        cmocka_unit_test(whole_log_is_read_when_no_snapshot_is_valid),
        cmocka_unit_test(start_does_not_search_for_snapshots_forever),
        cmocka_unit_test(children_that_wait_for_the_log_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
