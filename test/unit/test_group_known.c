/* How groups of this kind are known to have failed, B1 to B15 in practice and H1 to
 * H11 by reading, each as a scenario that does not fail here. */
#include "group_bench.h"

#include <stdio.h>

static const struct rota_group_seed one[] = {{.name = {"p", 1}, .mark = 10}};
static const struct rota_group_seed six[] = {{.name = {"p0", 2}}, {.name = {"p1", 2}},
                                             {.name = {"p2", 2}}, {.name = {"p3", 2}},
                                             {.name = {"p4", 2}}, {.name = {"p5", 2}}};

static void assert_agreed(struct bench *bench, const char *tasks)
{
    const struct rota_group_fold *fold = &bench->tasks[tasks[0] - '0'].fsm.fold;
    for (; *tasks; tasks++)
        assert_true(rota_group_fold_digest(&bench->tasks[*tasks - '0'].fsm.fold) ==
                    rota_group_fold_digest(fold));
}

/* Everything that is to be read is read, by one. */
static void assert_all_run(struct bench *bench, size_t n)
{
    size_t n_runs = 0;
    for (int i = 0; i < BENCH_TASKS; i++)
        n_runs += bench->tasks[i].n_runs;
    assert_int_equal(n_runs, n);
}

/* Killed: it says and reads nothing any more. */
static void kill_task(struct bench *bench, int i)
{
    bench->tasks[i].is_cut_off = true;
    bench->tasks[i].n_runs = 0;
}

static void b1_lone_leader_is_not_confused_by_its_own_records(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 1, six, 6);
    for (int i = 0; i < 5; i++) {
        bench_round_to(bench, "0", "0");
        bench_round_to(bench, "0", "0"); /* again before the epoch of the first is read */
        bench_settle(bench);
        assert_int_equal(bench->tasks[0].fsm.state, ROTA_GROUP_AT_WORKING);
    }
    assert_int_equal(bench->tasks[0].n_starts, 6);
    assert_int_equal(bench->tasks[0].n_stops, 0);
    bench_free(bench);
}

static void b2_epoch_of_an_earlier_round_is_applied_by_a_task_that_knows_a_later_one(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 4, six, 6);
    kill_task(bench, 3);
    bench_round_to(bench, "012", "012");
    bench_append(bench, 0, true, true); /* the epoch of this round is in the log ... */
    kill_task(bench, 2);
    bench_round_to(bench, "10", "10"); /* ... and the next has begun */
    bench_settle(bench);
    assert_agreed(bench, "01");
    assert_all_run(bench, 6);
    bench_free(bench);
}

static void b3_offer_to_a_living_task_is_not_offered_again(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 3, one, 1);
    int with = bench_runner(bench, "p"), to = -1, third;
    bench->tasks[(with + 1) % 3].is_cut_off = bench->tasks[(with + 2) % 3].is_cut_off = true;
    bench_child(bench, with, "p", "c", NULL);
    bench_settle(bench);
    for (int i = 0; i < 3; i++)
        if (bench_find(bench, with, "c")->target == bench->tasks[i].fsm.me)
            to = i; /* places are the same in all: none has come or gone */
    assert_in_range(to, 0, 2);
    third = 3 - with - to;
    char tasks[3] = {(char)('0' + third), (char)('0' + to), 0};
    kill_task(bench, with); /* the sharer is gone, the offer is not */
    bench->tasks[to].is_cut_off = bench->tasks[third].is_cut_off = false;
    bench_settle(bench);
    bench_round(bench, tasks);
    const struct rota_group_partition *child = bench_find(bench, third, "c");
    assert_int_equal(child->owner, bench->tasks[to].fsm.me);
    assert_agreed(bench, tasks);
    bench_free(bench);
}

static void b4_epoch_of_a_round_that_is_over_enables_no_sharing(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 2, one, 1);
    int with = bench_runner(bench, "p");
    char tasks[3] = {(char)('0' + 1 - with), (char)('0' + with), 0};
    bench_round_to(bench, tasks, tasks);
    bench_append(bench, 1 - with, true, true);
    bench_round_to(bench, tasks, tasks + 1); /* the next round, told to one of them only */
    bench_child(bench, with, "p", "c", NULL);
    bench_settle(bench);
    assert_int_equal(bench->tasks[with].fsm.state, ROTA_GROUP_AT_WAITING);
    assert_null(bench_find(bench, with, "c"));
    bench->generation--;
    bench_round_to(bench, tasks, tasks); /* now the other hears of it, too */
    bench_settle(bench);
    assert_int_equal(bench->tasks[with].fsm.state, ROTA_GROUP_AT_WORKING);
    assert_non_null(bench_find(bench, with, "c"));
    bench_free(bench);
}

static void b5_nothing_is_shared_between_a_round_and_its_epoch(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 2, one, 1);
    int with = bench_runner(bench, "p");
    char tasks[3] = {(char)('0' + 1 - with), (char)('0' + with), 0};
    bench_round_to(bench, tasks, tasks + 1);
    bench_child(bench, with, "p", "c", NULL);
    bench_progress(bench, with, "p", 50);
    bench_tick(bench, ROTA_GROUP_PROGRESS_EVERY);
    bench->tasks[1 - with].n_appends = 0;
    bench_settle(bench);
    assert_null(bench_find(bench, with, "c"));
    assert_int_equal(bench_find(bench, with, "p")->mark, 10); /* nor what comes after it */
    assert_true(bench_runs(bench, with, "p"));
    bench->generation--;
    bench_round_to(bench, tasks, tasks);
    bench_settle(bench);
    bench_tick(bench, ROTA_GROUP_PROGRESS_EVERY);
    bench_settle(bench);
    assert_non_null(bench_find(bench, with, "c"));
    assert_int_equal(bench_find(bench, with, "p")->mark, 50);
    bench_free(bench);
}

static void b6_epoch_of_a_deposed_leader_does_not_count(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 3, six, 6);
    bench_round_to(bench, "012", "012"); /* 0 leads, its epoch is in flight */
    bench_round_to(bench, "102", "102"); /* 1 leads, and is quicker */
    bench_append(bench, 1, true, true);
    bench_settle(bench);
    for (int i = 0; i < 3; i++) {
        const struct rota_group_fold *fold = &bench->tasks[i].fsm.fold;
        assert_int_equal(fold->counts.verdicts[ROTA_GROUP_BROKEN_CHAIN], 1);
        assert_int_equal(fold->generation, bench->generation);
        assert_int_equal(bench->tasks[i].fsm.state, ROTA_GROUP_AT_WORKING);
    }
    assert_all_run(bench, 6);
    assert_int_equal(bench->tasks[0].n_stops + bench->tasks[1].n_stops, 0);
    bench_free(bench);
}

static void b7_leader_that_learns_of_its_round_last_needs_no_answers(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 3, six, 6);
    kill_task(bench, 2);
    bench_round_to(bench, "01", "1"); /* says what it has to say before there is a leader */
    bench_settle(bench);
    bench->generation--;
    size_t n_log = bench->n_log;
    bench_round_to(bench, "01", "0");
    bench_append(bench, 0, true, true);
    assert_int_equal(bench->n_log, n_log + 1); /* one record, and all is said */
    bench_settle(bench);
    assert_all_run(bench, 6);
    bench_free(bench);
}

static void b8_h3_living_task_that_is_not_in_the_epoch_stops_everything(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 3, six, 6);
    uint64_t incarnation = bench->tasks[2].incarnation;
    bench->may_overlap = true; /* the leader is wrong about who lives: not what it may be */
    bench_round_to(bench, "01", "01");
    bench_append(bench, 0, true, true);
    while (bench_read(bench, 2)) {
    }
    assert_int_equal(bench->tasks[2].n_runs, 0); /* on reading it, before anything else */
    assert_int_equal(bench->tasks[2].n_leaves, 0);
    bench_stopped(bench, 2);
    assert_int_equal(bench->tasks[2].n_leaves, 1); /* and not before the last reader is gone */
    bench->may_overlap = false;
    bench_settle(bench);
    assert_true(bench->tasks[2].incarnation > incarnation);
    bench_round(bench, "012");
    assert_all_run(bench, 6);
    assert_agreed(bench, "012");
    bench_free(bench);
}

static void b9_dead_tasks_do_not_come_back_in_a_replay(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 3, six, 6);
    kill_task(bench, 2);
    bench_round(bench, "01");
    bench_open(bench, 3, six, 6);
    bench_settle(bench);
    assert_agreed(bench, "013");
    assert_int_equal(bench->tasks[3].fsm.fold.n_tasks, 2);
    assert_int_equal(bench->tasks[3].n_runs, 0);
    bench_free(bench);
}

static void b10_replay_ends_at_the_end_whatever_the_last_records_are(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 1, one, 1);
    bench->log[bench->n_log++] = rota_group_record_ref(bench->log[1]); /* counts no more */
    bench->log[bench->n_log++] = NULL;                                 /* is no record at all */
    bench_open(bench, 1, one, 1);
    bench_settle(bench);
    assert_true(bench->tasks[1].is_joined);
    assert_agreed(bench, "01");
    bench_free(bench);
}

static void b12_position_comes_with_the_partition(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 1, one, 1);
    bench_progress(bench, 0, "p", 77);
    bench_tick(bench, ROTA_GROUP_PROGRESS_EVERY);
    bench_settle(bench);
    kill_task(bench, 0);
    bench_open(bench, 1, NULL, 0);
    bench_settle(bench);
    bench_round(bench, "1");
    assert_int_equal(bench->tasks[1].runs[0].mark, 77); /* nobody is asked, nobody waits */
    bench_free(bench);
}

static void b13_partition_does_not_start_before_its_last_reader_has_stopped(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 1, one, 1);
    bench->tasks[0].stops_late = true;
    bench_step(bench, 0, (struct rota_group_event){.type = ROTA_GROUP_GROUP_LOST});
    bench_settle(bench);
    assert_int_equal(bench->tasks[0].n_joins, 1); /* not joined again either */
    assert_int_equal(bench->tasks[0].n_starts, 1);
    bench_stopped(bench, 0);
    assert_int_equal(bench->tasks[0].n_joins, 2);
    bench_round(bench, "0");
    assert_int_equal(bench->tasks[0].n_starts, 2); /* and it is read again */
    bench_free(bench);
}

static void b14_lost_log_stops_everything(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 1, six, 6);
    bench_step(bench, 0, (struct rota_group_event){.type = ROTA_GROUP_LOG_LOST});
    assert_int_equal(bench->tasks[0].n_runs, 0);
    assert_int_equal(bench->tasks[0].fsm.state, ROTA_GROUP_AT_START);
    bench_settle(bench);
    assert_int_equal(bench->tasks[0].n_joins, 1);
    bench_step(bench, 0, (struct rota_group_event){.type = ROTA_GROUP_OPENED, .end = bench->n_log});
    bench_settle(bench);
    assert_int_equal(bench->tasks[0].n_joins, 2);
    bench_round(bench, "0");
    assert_all_run(bench, 6);
    bench_free(bench);
}

static void b15_end_without_children_is_a_finish_only_if_declared(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 1, one, 1);
    bench_finish(bench, 0, "p", false);
    bench_settle(bench);
    assert_int_equal(bench->tasks[0].n_refused, 1);
    assert_int_equal(bench->tasks[0].refusal, ROTA_GROUP_UNPROVEN);
    assert_int_equal(bench_life(bench, 0, "p"), ROTA_GROUP_RUNNING);
    bench_child(bench, 0, "p", "c", NULL);
    bench_finish(bench, 0, "p", false);
    bench_settle(bench);
    assert_int_equal(bench_life(bench, 0, "p"), ROTA_GROUP_FINISHED); /* kept: c refers to it */
    assert_true(bench_runs(bench, 0, "c"));
    bench_finish(bench, 0, "c", true);
    bench_settle(bench);
    assert_int_equal(bench->tasks[0].fsm.fold.n_partitions, 0); /* no pile of finished ones */
    bench_free(bench);
}

static void h1_rounds_that_count_from_one_again_are_followed(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench->generation = 57;
    bench_begin(bench, 2, six, 6);
    for (int i = 0; i < 2; i++)
        bench_step(bench, i, (struct rota_group_event){.type = ROTA_GROUP_GROUP_LOST});
    bench_settle(bench);
    bench->generation = 0;
    bench_round(bench, "10");
    assert_int_equal(bench->tasks[0].fsm.fold.generation, 1);
    assert_int_equal(bench->tasks[0].fsm.state, ROTA_GROUP_AT_WORKING);
    assert_int_equal(bench->tasks[1].fsm.state, ROTA_GROUP_AT_WORKING);
    assert_all_run(bench, 6);
    bench_free(bench);
}

static void h2_task_that_slept_past_its_session_stops_before_it_does_anything(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 2, six, 6);
    char name[64];
    snprintf(name, sizeof name, "%s", bench->tasks[0].runs[0].name);
    bench->tasks[0].is_cut_off = true; /* stopped by a signal */
    struct bench_run slept[BENCH_RUNS];
    size_t n_slept = bench->tasks[0].n_runs;
    memcpy(slept, bench->tasks[0].runs, sizeof slept);
    bench->tasks[0].n_runs = 0; /* asleep: it reads nothing */
    bench->now += 10 * ROTA_SEC;
    bench_step(bench, 1, (struct rota_group_event){.type = ROTA_GROUP_TICK});
    bench_settle(bench);
    bench_round(bench, "1");
    assert_all_run(bench, 6);
    memcpy(bench->tasks[0].runs, slept, sizeof slept);
    bench->tasks[0].n_runs = n_slept;
    /* It wakes with a report of its reader, of all things. */
    bench_finish(bench, 0, name, true);
    assert_int_equal(bench->tasks[0].n_runs, 0);
    assert_int_equal(bench->tasks[0].n_appends, 0);
    bench->tasks[0].is_cut_off = false;
    bench_settle(bench);
    assert_int_equal(bench_life(bench, 1, name), ROTA_GROUP_RUNNING);
    bench_round(bench, "10");
    assert_all_run(bench, 6);
    bench_free(bench);
}

static void h4_states_of_one_instant_are_distinguished(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 1, one, 1);
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "c%d", i);
        bench_child(bench, 0, "p", name, NULL);
        bench_settle(bench);
    }
    assert_int_equal(bench->tasks[0].fsm.fold.n_partitions, 4);
    bench_free(bench);
}

static void h5_merged_child_with_a_removed_parent_is_read(void **state)
{
    static const struct rota_group_seed two[] = {{.name = {"a", 1}}, {.name = {"b", 1}}};
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 2, two, 2);
    int with_a = bench_runner(bench, "a"), with_b = bench_runner(bench, "b");
    bench_finish(bench, with_a, "a", true); /* does not know of the child */
    bench_settle(bench);
    assert_int_equal(bench_life(bench, 0, "a"), ROTA_GROUP_REMOVED);
    bench_child(bench, with_b, "b", "c", "a");
    bench_settle(bench);
    bench_finish(bench, with_b, "b", false);
    bench_settle(bench);
    assert_in_range(bench_runner(bench, "c"), 0, 1);
    bench_free(bench);
}

static void h6_acknowledged_record_that_the_log_lost_is_written_again(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 2, one, 1);
    int with = bench_runner(bench, "p"), other = 1 - with;
    bench_child(bench, with, "p", "c", NULL);
    bench_append(bench, with, false, true); /* acknowledged, and not there */
    bench_child(bench, other, "", "root", NULL);
    bench_settle(bench); /* another record is at its offset */
    bench_tick(bench, ROTA_GROUP_RETRY_FIRST);
    bench_settle(bench);
    assert_non_null(bench_find(bench, with, "c"));
    bench_step(bench, with, (struct rota_group_event){.type = ROTA_GROUP_LOG_LOST});
    bench_step(bench, with,
               (struct rota_group_event){.type = ROTA_GROUP_OPENED, .end = bench->n_log - 1});
    assert_int_equal(bench->tasks[with].failure, ROTA_GROUP_LOG_SHRANK);
    bench_free(bench);
}

static void h7_log_that_is_cut_beyond_its_snapshot_is_refused(void **state)
{
    for (int is_empty = 0; is_empty < 2; is_empty++) {
        struct bench *bench = bench_new();
        (void)state;
        bench_begin(bench, 1, one, 1);
        kill_task(bench, 0);
        bench->first = is_empty ? bench->n_log : 1;
        bench_open(bench, 1, one, 1);
        bench_settle(bench);
        assert_true(bench->tasks[1].is_failed);
        assert_int_equal(bench->tasks[1].failure, ROTA_GROUP_LOG_CUT);
        assert_int_equal(bench->tasks[1].n_joins, 0);
        bench_free(bench);
    }
}

static void h8_offer_that_is_not_taken_waits_or_moves_if_configured(void **state)
{
    for (int is_on = 0; is_on < 2; is_on++) {
        struct bench *bench = bench_new();
        (void)state;
        for (int i = 0; i < 3; i++)
            bench_open_with(bench, i,
                            (struct rota_group_fsm_options){
                                .seeds = one, .n_seeds = 1, .withdraw_after = is_on * ROTA_SEC});
        bench_settle(bench);
        bench_round(bench, "012");
        int with = bench_runner(bench, "p"), to = -1;
        bench_child(bench, with, "p", "c", NULL);
        bench_append(bench, with, true, true);
        while (bench_read(bench, with)) {
        }
        for (int i = 0; i < 3; i++)
            if (bench_find(bench, with, "c")->target == bench->tasks[i].fsm.me)
                to = i;
        assert_in_range(to, 0, 2);
        bench->tasks[to].is_cut_off = true; /* it lives, but takes nothing */
        for (int i = 0; i < 3; i++) {
            bench_tick(bench, ROTA_SEC);
            bench_ok(bench, to);
            bench_settle(bench);
        }
        const struct rota_group_partition *child = bench_find(bench, with, "c");
        if (is_on)
            assert_true(child->owner != ROTA_GROUP_NOBODY &&
                        child->owner != bench->tasks[to].fsm.me);
        else
            assert_int_equal(child->target, bench->tasks[to].fsm.me);
        bench_free(bench);
    }
}

/* Bytes of the record, as an upper bound; WITHDRAW changes are counted. */
static size_t record_size(const struct rota_group_record *record, size_t *n_withdrawn)
{
    size_t size = 0;
    for (size_t i = 0; record && i < record->n_changes; i++) {
        size += rota_group_change_size_max(&record->changes[i]);
        *n_withdrawn += record->changes[i].type == ROTA_GROUP_WITHDRAW;
    }
    return size;
}

static void h11_offers_that_are_not_taken_move_in_records_of_bounded_size(void **state)
{
    enum { CHILDREN = 3000, LONG = 200 };
    struct bench *bench = bench_new();
    char name[LONG + 1];
    (void)state;
    for (int i = 0; i < 3; i++)
        bench_open_with(bench, i,
                        (struct rota_group_fsm_options){
                            .seeds = one, .n_seeds = 1, .withdraw_after = ROTA_SEC});
    bench_settle(bench);
    bench_round(bench, "012");
    int with = bench_runner(bench, "p"), to = (with + 1) % 3;
    bench->tasks[to].is_cut_off = true; /* it lives, but takes nothing */
    for (int i = 0; i < CHILDREN; i++) {
        snprintf(name, sizeof name, "%0*d", LONG, i);
        bench_child(bench, with, "p", name, NULL);
    }
    bench_settle(bench);
    size_t n_before = bench->n_log, n_withdrawn = 0;
    bench_tick(bench, ROTA_SEC);
    bench_ok(bench, to);
    bench_settle(bench);
    for (size_t i = n_before; i < bench->n_log; i++)
        assert_true(record_size(bench->log[i], &n_withdrawn) <= ROTA_GROUP_CHUNK_MAX);
    assert_true(n_withdrawn > CHILDREN / 4);
    for (int i = 0; i < CHILDREN; i++) {
        snprintf(name, sizeof name, "%0*d", LONG, i);
        const struct rota_group_partition *child = bench_find(bench, with, name);
        assert_true(child->owner != ROTA_GROUP_NOBODY);
        assert_true(child->owner != bench->tasks[to].fsm.me);
    }
    bench_free(bench);
}

static void h9_many_sharers_do_not_all_bury_the_same_task(void **state)
{
    struct bench *bench = bench_new();
    char tasks[] = "01234567", name[16];
    size_t least = SIZE_MAX, most = 0;
    (void)state;
    bench_begin(bench, 7, six, 6);
    bench_open(bench, 7, six, 6);
    bench_settle(bench);
    bench_round(bench, tasks);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 7; i++) { /* all at once: nobody knows of the others' offers */
            if (bench->tasks[i].n_runs == 0)
                continue;
            char parent[64];
            snprintf(parent, sizeof parent, "%s", bench->tasks[i].runs[0].name);
            for (int j = 0; j < 4; j++) {
                snprintf(name, sizeof name, "c%d.%d.%d", round, i, j);
                bench_child(bench, i, parent, name, NULL);
            }
            bench_finish(bench, i, parent, false);
        }
        bench_settle(bench);
    }
    for (int i = 0; i < 8; i++) {
        least = bench->tasks[i].n_runs < least ? bench->tasks[i].n_runs : least;
        most = bench->tasks[i].n_runs > most ? bench->tasks[i].n_runs : most;
    }
    assert_true(least > 0 && most <= 3 * least);
    bench_free(bench);
}

/* Tell `i` of a round with these tasks, which it leads; asked for at `sent_at`. */
static void tell_leader(struct bench *bench, int i, const char *tasks, uint64_t generation,
                        rota_time sent_at)
{
    struct rota_group_member members[BENCH_TASKS];
    size_t n = strlen(tasks);
    for (size_t k = 0; k < n; k++)
        members[k] =
            (struct rota_group_member){rota_blob_str(bench->tasks[tasks[k] - '0'].fsm.name),
                                       bench->tasks[tasks[k] - '0'].incarnation};
    bench_step(bench, i,
               (struct rota_group_event){.type = ROTA_GROUP_REBALANCED,
                                         .generation = generation,
                                         .members = members,
                                         .n_members = n,
                                         .is_leader = true,
                                         .sent_at = sent_at});
}

static void h10_late_round_does_not_remove_tasks_that_joined_since(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench_begin(bench, 2, six, 6);
    uint64_t late = ++bench->generation; /* 0 leads this round, and does not hear of it yet */
    bench_open(bench, 2, NULL, 0);
    bench_settle(bench);
    rota_time asked_at = bench->now;
    bench_tick(bench, ROTA_MSEC);
    bench->tasks[0].is_cut_off = true;  /* the group's word does not reach it */
    bench_round_to(bench, "120", "12"); /* meanwhile 2 has joined, and 1 leads */
    bench_settle(bench);
    while (bench_read(bench, 0)) {
    }
    size_t n_epochs = bench->tasks[2].n_epochs;
    assert_int_equal(bench->tasks[0].fsm.fold.generation, bench->generation);
    while (bench_append(bench, 0, true, true)) { /* what it says in the later epoch */
    }
    tell_leader(bench, 0, "01", late, asked_at);
    while (bench_append(bench, 0, true, true)) {
    }
    bench_settle(bench);
    assert_int_equal(bench->tasks[2].n_epochs, n_epochs);
    assert_int_equal(bench->tasks[2].n_leaves, 0);

    bench->tasks[0].is_cut_off = false;
    bench->generation--;
    bench_round_to(bench, "120", "0"); /* it hears of the later round, too */
    bench_settle(bench);
    assert_int_equal(bench->tasks[0].fsm.state, ROTA_GROUP_AT_WORKING);
    assert_int_equal(bench->tasks[2].n_epochs, n_epochs);
    assert_all_run(bench, 6);
    bench_free(bench);
}

static void h10_lower_round_counts_once_the_group_confirms_it(void **state)
{
    struct bench *bench = bench_new();
    (void)state;
    bench->generation = 57;
    bench_begin(bench, 2, six, 6);
    rota_time asked_at = bench->now;
    bench_tick(bench, ROTA_MSEC);
    bench->tasks[0].is_cut_off = true;
    bench_round_to(bench, "10", "1");
    bench_settle(bench); /* 0 reads its epoch after it asked for a round of its own */
    while (bench_read(bench, 0)) {
    }
    while (bench_append(bench, 0, true, true)) {
    }
    while (bench_read(bench, 0)) {
    }
    tell_leader(bench, 0, "01", 1, asked_at);
    bench_append(bench, 0, true, true);
    assert_int_equal(bench->tasks[0].n_appends, 0);
    bench_step(bench, 0,
               (struct rota_group_event){.type = ROTA_GROUP_GROUP_OK, .sent_at = bench->now});
    assert_int_equal(bench->tasks[0].n_appends, 1);
    bench_append(bench, 0, true, true);
    while (bench_read(bench, 0)) {
    }
    assert_int_equal(bench->tasks[0].fsm.fold.generation, 1);
    assert_int_equal(bench->tasks[0].fsm.state, ROTA_GROUP_AT_WORKING);
    bench_free(bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b1_lone_leader_is_not_confused_by_its_own_records),
        cmocka_unit_test(b2_epoch_of_an_earlier_round_is_applied_by_a_task_that_knows_a_later_one),
        cmocka_unit_test(b3_offer_to_a_living_task_is_not_offered_again),
        cmocka_unit_test(b4_epoch_of_a_round_that_is_over_enables_no_sharing),
        cmocka_unit_test(b5_nothing_is_shared_between_a_round_and_its_epoch),
        cmocka_unit_test(b6_epoch_of_a_deposed_leader_does_not_count),
        cmocka_unit_test(b7_leader_that_learns_of_its_round_last_needs_no_answers),
        cmocka_unit_test(b8_h3_living_task_that_is_not_in_the_epoch_stops_everything),
        cmocka_unit_test(b9_dead_tasks_do_not_come_back_in_a_replay),
        cmocka_unit_test(b10_replay_ends_at_the_end_whatever_the_last_records_are),
        cmocka_unit_test(b12_position_comes_with_the_partition),
        cmocka_unit_test(b13_partition_does_not_start_before_its_last_reader_has_stopped),
        cmocka_unit_test(b14_lost_log_stops_everything),
        cmocka_unit_test(b15_end_without_children_is_a_finish_only_if_declared),
        cmocka_unit_test(h1_rounds_that_count_from_one_again_are_followed),
        cmocka_unit_test(h2_task_that_slept_past_its_session_stops_before_it_does_anything),
        cmocka_unit_test(h4_states_of_one_instant_are_distinguished),
        cmocka_unit_test(h5_merged_child_with_a_removed_parent_is_read),
        cmocka_unit_test(h6_acknowledged_record_that_the_log_lost_is_written_again),
        cmocka_unit_test(h7_log_that_is_cut_beyond_its_snapshot_is_refused),
        cmocka_unit_test(h8_offer_that_is_not_taken_waits_or_moves_if_configured),
        cmocka_unit_test(h9_many_sharers_do_not_all_bury_the_same_task),
        cmocka_unit_test(h11_offers_that_are_not_taken_move_in_records_of_bounded_size),
        cmocka_unit_test(h10_late_round_does_not_remove_tasks_that_joined_since),
        cmocka_unit_test(h10_lower_round_counts_once_the_group_confirms_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
