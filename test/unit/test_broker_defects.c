/* Twelve ways in which a broker of another system lost, doubled or forgot jobs, or could be
 * brought down; none of them can happen to this one. Those that are about sockets (10: a
 * sleep that makes deaf; 11: peers that get no message) are seen from where the core is. */
#include "broker_rules.h"

static void d1_jobs_of_one_instant_are_all_kept(void **state)
{
    (void)state;
    struct rota_job_id ids[100];
    for (int i = 0; i < 100; i++) /* no time passes */
        ids[i] = bench_add(&bench, "x");
    for (int i = 0; i < 100; i += 7) /* nor between those that are put first */
        assert_int_equal(rota_broker_set_priority(bench.broker, bench.now, rota_str("q"), ids[i],
                                                  INT16_MAX, &bench.number, NULL),
                         ROTA_OK);
    bench_settle(&bench);
    bench_open(&bench, "w", 1);
    for (int i = 0; i < 100; i += 7)
        bench_done(&bench, ids[i]);
    for (int i = 0; i < 100; i++)
        if (i % 7 != 0)
            bench_done(&bench, ids[i]);
}

static void d2_a_cancelled_running_job_does_not_run_again(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    uint64_t session = bench_open(&bench, "w", 2);
    uint64_t attempt = bench_view(&bench, id).attempt;
    assert_int_equal(
        rota_broker_cancel(bench.broker, bench.now, rota_str("q"), id, &bench.number, NULL),
        ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(bench_last(&bench, ROTA_WORK_DO_CANCEL).session, session);
    bench_tick(&bench, ROTA_HOUR / 2);
    bench_restart(&bench);
    bench_open(&bench, "v", 2);
    bench_tick(&bench, ROTA_MIN);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_DISPATCH, BENCH_NONE), 0);
    assert_int_equal(bench_end(&bench, id, attempt, ROTA_JOB_CAUSE_DONE, ""), ROTA_ERR_STALE);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_CANCELLED);
}

static void d3_after_a_loss_or_a_cancel_idle_workers_are_asked(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    uint64_t first = bench_open(&bench, "first", 1), idle = bench_open(&bench, "idle", 1);
    rota_broker_worker_close(bench.broker, bench.now, first);
    bench_settle(&bench);
    assert_int_equal(bench_session_of(&bench, id), idle);

    struct rota_job_id next = bench_add(&bench, "y");
    assert_int_equal(bench_state(&bench, next), ROTA_JOB_WAITING);
    rota_broker_cancel(bench.broker, bench.now, rota_str("q"), id, &bench.number, NULL);
    bench_settle(&bench);
    assert_int_equal(bench_session_of(&bench, next), idle);
}

static void d4_a_new_job_does_not_overtake_older_ones(void **state)
{
    (void)state;
    struct rota_job_id first = bench_add(&bench, "1"), old = bench_add(&bench, "2");
    uint64_t lost = bench_open(&bench, "lost", 1);
    bench.is_slow = true;
    struct rota_job_id fresh = bench_add(&bench, "3");
    rota_broker_worker_close(bench.broker, bench.now, lost);
    bench_sync(&bench);
    bench_open(&bench, "w", 1);
    bench_done(&bench, first);
    bench_done(&bench, old);
    bench_sync(&bench);
    bench_done(&bench, fresh);
}

static void d5_a_late_result_ends_neither_its_own_job_nor_another(void **state)
{
    (void)state;
    struct rota_job_id a = bench_add(&bench, "a"), b = bench_add(&bench, "b");
    uint64_t slow = bench_open(&bench, "slow", 1);
    uint64_t late = bench_view(&bench, a).attempt;
    rota_broker_worker_close(bench.broker, bench.now, slow);
    bench_open(&bench, "other", 1);
    assert_int_equal(bench_end(&bench, a, late, ROTA_JOB_CAUSE_DONE, "late"), ROTA_ERR_STALE);
    assert_int_equal(bench_end(&bench, b, late, ROTA_JOB_CAUSE_DONE, "late"), ROTA_ERR_STALE);
    assert_int_equal(bench_state(&bench, a), ROTA_JOB_RUNNING);
    assert_int_equal(bench_state(&bench, b), ROTA_JOB_WAITING);
    bench_end_now(&bench, a, ROTA_JOB_CAUSE_DONE, "good");
    assert_int_equal(bench_count(&bench, ROTA_WORK_TELL_ENDED, a), 1);
    assert_true(rota_str_is_equal(bench_view(&bench, a).result, rota_str("good")));
}

static void d6_a_worker_that_restarts_at_once_does_not_hang_its_job(void **state)
{
    (void)state;
    struct rota_worker_spec spec = {
        .name = rota_str("w"), .slots = 1, .epoch = 1, .liveness = 30 * ROTA_SEC};
    struct rota_job_id id = bench_add(&bench, "x");
    struct rota_job_id other = bench_add_spec(&bench, (struct rota_job_spec){.timeout = ROTA_MIN});
    bench_open_spec(&bench, spec);
    uint64_t attempt = bench_view(&bench, id).attempt;
    spec.epoch = 2; /* within its liveness */
    uint64_t session = bench_open_spec(&bench, spec);
    assert_int_equal(bench_session_of(&bench, other), session);
    bench_done(&bench, other);
    bench_tick(&bench, 2 * ROTA_JOB_BACKOFF_FIRST);
    assert_int_equal(bench_session_of(&bench, id), session);
    assert_int_equal(bench_end(&bench, id, attempt, ROTA_JOB_CAUSE_DONE, ""), ROTA_ERR_STALE);
    bench_done(&bench, id);
    other = bench_add_spec(&bench, (struct rota_job_spec){.timeout = ROTA_MIN});

    /* ... and one that lives but never ends its job is stopped. */
    assert_int_equal(bench_state(&bench, other), ROTA_JOB_RUNNING);
    for (rota_time t = 0; t < ROTA_MIN + ROTA_JOB_TIMEOUT_GRACE; t += 10 * ROTA_SEC) {
        rota_broker_worker_heard(bench.broker, bench.now, session);
        bench_tick(&bench, 10 * ROTA_SEC);
    }
    assert_int_equal(bench_state(&bench, other), ROTA_JOB_DELAYED);
}

static void d7_a_job_that_no_worker_can_run_is_kept(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add_for(&bench, "rare");
    uint64_t only = bench_open_for(&bench, "only", 1, "rare");
    rota_broker_worker_close(bench.broker, bench.now, only);
    for (int i = 0; i < 100; i++)
        bench_tick(&bench, ROTA_DAY);
    assert_int_equal(rota_broker_set_priority(bench.broker, bench.now, rota_str("q"), id, 9,
                                              &bench.number, NULL),
                     ROTA_OK);
    bench_tick(&bench, ROTA_DAY);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_WAITING);
    bench_open_for(&bench, "again", 1, "rare");
    bench_done(&bench, id);
}

static void d8_views_have_timestamps(void **state)
{
    (void)state;
    size_t place = 0;
    struct rota_worker_view worker;
    struct rota_job_id id = bench_add(&bench, "x");
    uint64_t session = bench_open(&bench, "w", 1);
    bench_tick(&bench, ROTA_SEC);
    rota_broker_worker_heard(bench.broker, bench.now, session);
    assert_true(rota_broker_next_worker(bench.broker, &place, &worker));
    assert_int_equal(worker.heard_at, bench.now.boot);
    assert_int_equal(bench_view(&bench, id).events[1].at, bench.now.wall - ROTA_SEC);
    bench_done(&bench, id);
    assert_int_equal(bench_view(&bench, id).ended_at, bench.now.wall);
}

static void d9_a_cancel_names_its_job_and_attempt(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x"), next = bench_add(&bench, "y");
    uint64_t session = bench_open(&bench, "w", 1);
    uint64_t attempt = bench_view(&bench, id).attempt;
    rota_broker_cancel(bench.broker, bench.now, rota_str("q"), id, &bench.number, NULL);
    bench_settle(&bench);
    struct rota_work_effect told = bench_last(&bench, ROTA_WORK_DO_CANCEL);
    assert_true(bench_id_is(told.id, id));
    assert_int_equal(told.attempt, attempt);
    assert_int_equal(bench_session_of(&bench, next), session);
    assert_true(bench_view(&bench, next).attempt != attempt);
}

static void d10_a_wait_blocks_no_other(void **state)
{
    (void)state;
    struct rota_job_id fails = bench_add(&bench, "x"), next = bench_add(&bench, "y");
    bench_open(&bench, "w", 1);
    bench_end_now(&bench, fails, ROTA_JOB_CAUSE_FAILED, "later");
    assert_int_equal(bench_state(&bench, fails), ROTA_JOB_DELAYED);
    assert_int_equal(bench_state(&bench, next), ROTA_JOB_RUNNING); /* without a tick */
}

static void d11_a_dispatch_that_never_arrives_is_lost_in_time(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open_spec(&bench, (struct rota_worker_spec){
                                .name = rota_str("deaf"), .slots = 1, .liveness = 3 * ROTA_SEC});
    bench_tick(&bench, 3 * ROTA_SEC - 1);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    assert_int_equal(rota_broker_deadline(bench.broker), bench.now.boot + 1);
    bench_tick(&bench, 1);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
    struct rota_job_id leased = bench_add(&bench, "y");
    bench_open_spec(&bench, (struct rota_worker_spec){
                                .name = rota_str("heard"), .slots = 2, .lease = ROTA_SEC});
    bench_tick(&bench, 5 * ROTA_SEC / 2); /* it lives, but knows nothing of the job */
    assert_int_equal(bench_view(&bench, leased).n_attempts, 2);
}

static void d12_everything_has_a_bound(void **state)
{
    (void)state;
    static char huge[ROTA_JOB_PAYLOAD_MAX + 1];
    bench_deinit(&bench);
    bench.options.jobs_max = 10;
    bench.options.bytes_max = 100;
    bench.options.ended_max = 10;
    bench_init(&bench);
    struct rota_job_spec spec = {.queue = rota_str("q"), .payload = rota_str_of(huge, 11)};
    struct rota_job_id id;
    for (int i = 0; i < 9; i++)
        assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK);
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_ERR_LIMIT); /* bytes */
    spec.payload.size = 0;
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK);
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_ERR_LIMIT); /* jobs */
    spec.payload.size = sizeof huge;
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_ERR_INVALID);
    bench_open(&bench, "w", 1);
    for (int i = 0; i < 50; i++) {
        struct rota_work_effect effect = bench_last(&bench, ROTA_WORK_DO_DISPATCH);
        bench_done(&bench, effect.id);
        bench_add(&bench, "x");
    }
    struct rota_str place = {0};
    struct rota_queue_view view;
    assert_true(rota_broker_next_queue(bench.broker, &place, &view));
    assert_int_equal(view.counts[ROTA_JOB_DONE], 10);
    struct rota_attempt_end end = {.queue = rota_str("q"),
                                   .id = bench_last(&bench, ROTA_WORK_DO_DISPATCH).id,
                                   .attempt = bench_last(&bench, ROTA_WORK_DO_DISPATCH).attempt,
                                   .cause = ROTA_JOB_CAUSE_DONE,
                                   .bytes = rota_str_of(huge, sizeof huge)};
    assert_int_equal(rota_broker_end(bench.broker, bench.now, &end, &bench.number, NULL),
                     ROTA_ERR_INVALID);
}

int main(void)
{
#define RULE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        RULE(d1_jobs_of_one_instant_are_all_kept),
        RULE(d2_a_cancelled_running_job_does_not_run_again),
        RULE(d3_after_a_loss_or_a_cancel_idle_workers_are_asked),
        RULE(d4_a_new_job_does_not_overtake_older_ones),
        RULE(d5_a_late_result_ends_neither_its_own_job_nor_another),
        RULE(d6_a_worker_that_restarts_at_once_does_not_hang_its_job),
        RULE(d7_a_job_that_no_worker_can_run_is_kept),
        RULE(d8_views_have_timestamps),
        RULE(d9_a_cancel_names_its_job_and_attempt),
        RULE(d10_a_wait_blocks_no_other),
        RULE(d11_a_dispatch_that_never_arrives_is_lost_in_time),
        RULE(d12_everything_has_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
