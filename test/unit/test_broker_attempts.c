/* The rules of core/work/broker/broker.h, one test for each: disks, attempts and clocks. */
#include "broker_rules.h"
#include "core/work/broker/broker_inside.h"

#include <string.h>

/* --- durability --- */

static void a_job_goes_out_only_when_it_is_on_disk(void **state)
{
    (void)state;
    bench_open(&bench, "w", 2);
    bench.is_slow = true;
    struct rota_job_id a = bench_add(&bench, "a"), b = bench_add(&bench, "b");
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_DISPATCH, BENCH_NONE), 0);
    rota_broker_durable(bench.broker, bench.now, bench.number - 1);
    bench_settle(&bench);
    assert_int_equal(bench_state(&bench, a), ROTA_JOB_RUNNING);
    assert_int_equal(bench_state(&bench, b), ROTA_JOB_WAITING);
    rota_broker_durable(bench.broker, bench.now, UINT64_MAX); /* what was never written */
    bench_settle(&bench);
    assert_int_equal(bench_state(&bench, b), ROTA_JOB_RUNNING);
    bench_add(&bench, "c");
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_DISPATCH, BENCH_NONE), 2);
}

static void nothing_goes_out_before_the_life_is_on_disk(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    bench.is_slow = true;
    bench_restart(&bench);
    bench_open(&bench, "w", 1);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_WAITING);
    bench_sync(&bench);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
}

static void an_end_is_reported_with_the_record_to_wait_for(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open(&bench, "w", 1);
    bench_end_now(&bench, id, ROTA_JOB_CAUSE_DONE, "result");
    struct rota_work_effect told = bench_last(&bench, ROTA_WORK_TELL_ENDED);
    assert_true(bench_id_is(told.id, id));
    assert_int_equal(told.number, bench.number);
    assert_int_equal(bench.journal.items[bench.journal.size - 1].number, bench.number);
    struct rota_job_view view = bench_view(&bench, id);
    assert_int_equal(view.state, ROTA_JOB_DONE);
    assert_true(rota_str_is_equal(view.result, rota_str("result")));
}

static void a_full_disk_takes_no_jobs_and_serves_the_others(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x"), again;
    rota_broker_refuse_adds(bench.broker, "the disk is full");
    struct rota_job_spec spec = {.queue = rota_str("q")};
    assert_int_equal(bench_try_add(&bench, &spec, &again), ROTA_ERR_LIMIT);
    assert_non_null(strstr(bench.error.text, "the disk is full"));
    spec.id = id; /* this one is there */
    spec.payload = rota_str("x");
    assert_int_equal(bench_try_add(&bench, &spec, &again), ROTA_OK);
    assert_false(bench.is_new);
    bench_open(&bench, "w", 1);
    bench_done(&bench, id);
    rota_broker_refuse_adds(bench.broker, NULL);
    bench_add(&bench, "y");
}

static void jobs_are_accepted_while_there_is_room(void **state)
{
    (void)state;
    static char payload[1000];
    struct rota_job_spec large = {.queue = rota_str("q")}, small = large;
    struct rota_job_id id;
    large.payload = rota_str_of(payload, sizeof payload);
    rota_broker_allow_adds(bench.broker, 2500);
    assert_int_equal(bench_try_add(&bench, &large, &id), ROTA_OK);
    assert_int_equal(bench_try_add(&bench, &large, &id), ROTA_OK);
    assert_false(rota_broker_is_short(bench.broker));
    assert_int_equal(bench_try_add(&bench, &large, &id), ROTA_ERR_LIMIT);
    assert_non_null(strstr(bench.error.text, "the disk is full"));
    assert_true(rota_broker_is_short(bench.broker));
    assert_int_equal(bench_try_add(&bench, &small, &id), ROTA_ERR_LIMIT); /* nobody slips in */
    rota_broker_allow_adds(bench.broker, 2500);
    assert_false(rota_broker_is_short(bench.broker));
    assert_int_equal(bench_try_add(&bench, &small, &id), ROTA_OK);
    bench_open(&bench, "w", 1);
    rota_broker_allow_adds(bench.broker, 0);
    bench_done(&bench, bench_last(&bench, ROTA_WORK_DO_DISPATCH).id);
    rota_broker_allow_adds(bench.broker, UINT64_MAX);
    for (int i = 0; i < 10; i++)
        assert_int_equal(bench_try_add(&bench, &large, &id), ROTA_OK);
}

/* --- attempts --- */

static void only_the_attempt_that_runs_may_end_or_extend_a_job(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open(&bench, "w", 1);
    uint64_t attempt = bench_view(&bench, id).attempt;
    assert_true(attempt >> 32 == 1);
    struct rota_str q = rota_str("q"), none = rota_str("");
    assert_int_equal(bench_end(&bench, id, attempt + 1, ROTA_JOB_CAUSE_DONE, ""), ROTA_ERR_STALE);
    assert_int_equal(bench_end(&bench, id, 0, ROTA_JOB_CAUSE_FAILED, ""), ROTA_ERR_STALE);
    assert_int_equal(
        rota_broker_extend(bench.broker, bench.now, q, id, attempt - 1, 0, 0, none, &bench.error),
        ROTA_ERR_STALE);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    bench_done(&bench, id);
    assert_int_equal(
        rota_broker_extend(bench.broker, bench.now, q, id, attempt, 0, 0, none, &bench.error),
        ROTA_ERR_STALE);
    assert_int_equal(
        bench_end(&bench, (struct rota_job_id){1 << 16, 1}, attempt, ROTA_JOB_CAUSE_DONE, ""),
        ROTA_ERR_NOT_FOUND);
}

static void a_repeated_report_is_not_an_error(void **state)
{
    (void)state;
    struct rota_job_id a = bench_add(&bench, "a"), b = bench_add(&bench, "b");
    bench_open(&bench, "w", 2);
    uint64_t first = bench_view(&bench, a).attempt, failed = bench_view(&bench, b).attempt;
    assert_int_equal(bench_end(&bench, a, first, ROTA_JOB_CAUSE_DONE, "r"), ROTA_OK);
    assert_int_equal(bench_end(&bench, b, failed, ROTA_JOB_CAUSE_FAILED, "r"), ROTA_OK);
    uint64_t number = bench.number;
    assert_int_equal(bench_end(&bench, a, first, ROTA_JOB_CAUSE_DONE, "r"), ROTA_OK);
    assert_int_equal(bench.number, number - 1);
    assert_int_equal(bench_end(&bench, b, failed, ROTA_JOB_CAUSE_FAILED, "r"), ROTA_OK);
    assert_int_equal(bench.number, number);
    assert_int_equal(bench_end(&bench, a, first, ROTA_JOB_CAUSE_FAILED, "r"), ROTA_ERR_STALE);
    bench_tick(&bench, 2 * ROTA_SEC); /* it runs again, and the old word is still no error */
    assert_int_equal(bench_state(&bench, b), ROTA_JOB_RUNNING);
    assert_int_equal(bench_end(&bench, b, failed, ROTA_JOB_CAUSE_FAILED, "r"), ROTA_OK);
    assert_int_equal(bench_state(&bench, b), ROTA_JOB_RUNNING);
    bench_restart(&bench);
    assert_int_equal(bench_end(&bench, a, first, ROTA_JOB_CAUSE_DONE, "r"), ROTA_OK);
    assert_int_equal(bench.number, number - 1);
    assert_int_equal(bench_count(&bench, ROTA_WORK_TELL_ENDED, BENCH_NONE), 0);
}

static void attempts_are_never_used_twice(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    size_t n_records = bench.journal.size;
    bench_open(&bench, "w", 1);
    uint64_t attempt = bench_view(&bench, id).attempt;
    bench_crash(&bench, n_records); /* START was lost */
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_WAITING);
    bench_open(&bench, "other", 1);
    assert_true(bench_view(&bench, id).attempt >> 32 > attempt >> 32);
    assert_int_equal(bench_end(&bench, id, attempt, ROTA_JOB_CAUSE_DONE, ""), ROTA_ERR_STALE);
}

static void after_a_restart_a_worker_may_come_back_and_name_its_attempt(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open(&bench, "w", 1);
    uint64_t attempt = bench_view(&bench, id).attempt;
    bench_restart(&bench);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    bench_open(&bench, "other", 1); /* nobody else gets it meanwhile */
    bench_tick(&bench, ROTA_BROKER_GRACE - 1);
    bench_open_running(&bench, "w", id, attempt, 0);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_CANCEL, BENCH_NONE), 0);
    bench_tick(&bench, ROTA_MIN);
    assert_int_equal(bench_view(&bench, id).attempt, attempt);
    assert_int_equal(bench_end(&bench, id, attempt, ROTA_JOB_CAUSE_DONE, ""), ROTA_OK);
}

static void an_extension_after_a_restart_names_its_duration(void **state)
{
    (void)state;
    struct rota_str q = rota_str("q"), none = rota_str("");
    struct rota_worker_spec poll = {.name = rota_str("p"),
                                    .queues = &q,
                                    .n_queues = 1,
                                    .slots = 2,
                                    .is_poll = true,
                                    .lease = 60 * ROTA_SEC};
    struct rota_job_id told = bench_add(&bench, "a"), not_told = bench_add(&bench, "b");
    bench_open_spec(&bench, poll);
    bench_restart(&bench);
    struct rota_job_id ids[] = {told, not_told};
    for (int i = 0; i < 2; i++)
        assert_int_equal(rota_broker_extend(bench.broker, bench.now, q, ids[i],
                                            bench_view(&bench, ids[i]).attempt, 0,
                                            i ? 0 : poll.lease, none, NULL),
                         ROTA_OK);
    bench_tick(&bench, 2 * ROTA_BROKER_GRACE);
    assert_int_equal(bench_state(&bench, told), ROTA_JOB_RUNNING);
    assert_int_not_equal(bench_state(&bench, not_told), ROTA_JOB_RUNNING);
    bench_tick(&bench, poll.lease);
    assert_int_not_equal(bench_state(&bench, told), ROTA_JOB_RUNNING);
}

static void after_the_grace_it_is_lost_like_any_other(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open(&bench, "w", 1);
    uint64_t attempt = bench_view(&bench, id).attempt;
    bench_restart(&bench);
    bench_open(&bench, "other", 1);
    bench_tick(&bench, ROTA_BROKER_GRACE - 1);
    assert_int_equal(bench_view(&bench, id).attempt, attempt);
    assert_int_equal(rota_broker_deadline(bench.broker), bench.now.boot + 1);
    bench_tick(&bench, 1);
    assert_true(bench_view(&bench, id).attempt > attempt); /* in the same step */
    bench_open_running(&bench, "w", id, attempt, 0);
    struct rota_work_effect told = bench_last(&bench, ROTA_WORK_DO_CANCEL);
    assert_int_equal(told.attempt, attempt);
    assert_int_equal(told.cause, ROTA_JOB_CAUSE_LOST);
}

static void an_attempt_whose_start_was_lost_is_resumed(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    size_t n_records = bench.journal.size;
    bench_open(&bench, "w", 1);
    uint64_t attempt = bench_view(&bench, id).attempt;
    bench_crash(&bench, n_records);
    bench_open_running(&bench, "w", id, attempt, 0);
    assert_int_equal(bench_view(&bench, id).attempt, attempt);
    assert_int_equal(bench_end(&bench, id, attempt, ROTA_JOB_CAUSE_DONE, ""), ROTA_OK);
    bench_restart(&bench); /* its START was written again */
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DONE);
}

static void an_unknown_attempt_is_not_resumed(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add_for(&bench, "gpu");
    uint64_t life = bench.journal.items[0].attempt;
    bench_open_running(&bench, "w", id, (life + 1) << 32 | 1, 0);
    bench_open_running(&bench, "v", id, life << 32 | 77, 0);
    bench_open_running(&bench, "u", id, 5, 0);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_CANCEL, id), 3);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_WAITING);
}

static void a_failing_job_waits_longer_each_time_and_then_is_dead(void **state)
{
    (void)state;
    struct rota_job_spec spec = {
        .max_attempts = 4, .backoff = 10 * ROTA_SEC, .backoff_max = 25 * ROTA_SEC};
    struct rota_job_id id = bench_add_spec(&bench, spec);
    static const rota_time waits[] = {10 * ROTA_SEC, 20 * ROTA_SEC, 25 * ROTA_SEC};
    bench_open(&bench, "w", 1);
    for (int i = 0; i < 3; i++) {
        bench_end_now(&bench, id, ROTA_JOB_CAUSE_FAILED, "no");
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
        rota_time wait = rota_broker_deadline(bench.broker) - bench.now.boot;
        assert_in_range(wait, waits[i] / 5 * 4, i == 2 ? waits[i] : waits[i] / 5 * 6);
        assert_int_equal(bench_view(&bench, id).not_before, bench.now.wall + wait);
        bench_tick(&bench, wait - 1);
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
        bench_tick(&bench, 1);
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
        assert_int_equal(bench_view(&bench, id).n_attempts, i + 2);
    }
    bench_end_now(&bench, id, ROTA_JOB_CAUSE_FAILED, "never");
    struct rota_job_view view = bench_view(&bench, id);
    assert_int_equal(view.state, ROTA_JOB_DEAD);
    assert_true(rota_str_is_equal(view.reason, rota_str("never")));
    assert_int_equal(bench_count(&bench, ROTA_WORK_TELL_ENDED, id), 1);
}

static void a_worker_may_choose_the_retry_delay(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open(&bench, "w", 1);
    struct rota_attempt_end end = {.queue = rota_str("q"),
                                   .id = id,
                                   .attempt = bench_view(&bench, id).attempt,
                                   .cause = ROTA_JOB_CAUSE_FAILED,
                                   .retry_after = ROTA_HOUR};
    assert_int_equal(rota_broker_end(bench.broker, bench.now, &end, &bench.number, NULL), ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(rota_broker_deadline(bench.broker), bench.now.boot + ROTA_HOUR);
}

static void a_refused_job_is_dead_at_once(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open(&bench, "w", 1);
    bench_end_now(&bench, id, ROTA_JOB_CAUSE_REFUSED, "nonsense");
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DEAD);
}

static void a_returned_job_does_not_count_and_keeps_its_age(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    uint64_t session = bench_open(&bench, "w", 1);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(bench_view(&bench, id).n_attempts, 1);
        bench_end_now(&bench, id, ROTA_JOB_CAUSE_GIVEN_BACK, "stopping");
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED); /* or it would spin */
        bench_tick(&bench, ROTA_JOB_BACKOFF_FIRST / 2);
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
        bench_tick(&bench, ROTA_JOB_BACKOFF_FIRST);
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    }
    rota_broker_worker_slots(bench.broker, bench.now, session, 0);
    bench_end_now(&bench, id, ROTA_JOB_CAUSE_GIVEN_BACK, "stopping");
    bench_tick(&bench, 2 * ROTA_JOB_BACKOFF_FIRST);
    struct rota_job_id younger = bench_add(&bench, "y");
    bench_look(&bench);
    rota_broker_worker_slots(bench.broker, bench.now, session, 1);
    bench_settle(&bench);
    assert_int_equal(bench_state(&bench, younger), ROTA_JOB_WAITING);
    assert_int_equal(bench_session_of(&bench, id), session);
}

static void after_its_timeout_an_attempt_is_its_workers_to_end_for_a_while(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add_spec(&bench, (struct rota_job_spec){.timeout = ROTA_SEC});
    bench_open(&bench, "w", 2);
    bench_tick(&bench, ROTA_SEC + ROTA_JOB_TIMEOUT_GRACE - 1);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_CANCEL, id), 0);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_DISPATCH, id), 1);
    uint64_t attempt = bench_view(&bench, id).attempt;
    assert_int_equal(bench_end(&bench, id, attempt, ROTA_JOB_CAUSE_FAILED, "its log"), ROTA_OK);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
}

static void an_attempt_that_takes_too_long_is_stopped(void **state)
{
    (void)state;
    struct rota_job_id id =
        bench_add_spec(&bench, (struct rota_job_spec){.timeout = 10 * ROTA_SEC});
    uint64_t session = bench_open(&bench, "w", 1);
    assert_int_equal(bench_last(&bench, ROTA_WORK_DO_DISPATCH).timeout, 10 * ROTA_SEC);
    uint64_t attempt = bench_view(&bench, id).attempt;
    bench_tick(&bench, 10 * ROTA_SEC + ROTA_JOB_TIMEOUT_GRACE);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
    struct rota_work_effect told = bench_last(&bench, ROTA_WORK_DO_CANCEL);
    assert_int_equal(told.session, session);
    assert_int_equal(told.attempt, attempt);
    assert_int_equal(told.cause, ROTA_JOB_CAUSE_TIMED_OUT);
    assert_int_equal(bench_end(&bench, id, attempt, ROTA_JOB_CAUSE_DONE, ""), ROTA_ERR_STALE);
}

static void after_its_deadline_a_job_neither_starts_nor_continues(void **state)
{
    (void)state;
    struct rota_job_spec spec = {.deadline = bench.now.wall + 10 * ROTA_SEC, .timeout = ROTA_HOUR};
    struct rota_job_id runs = bench_add_spec(&bench, spec), waits = bench_add_spec(&bench, spec);
    bench_open(&bench, "w", 1);
    assert_int_equal(bench_last(&bench, ROTA_WORK_DO_DISPATCH).timeout, 10 * ROTA_SEC);
    bench_tick(&bench, 10 * ROTA_SEC);
    assert_int_equal(bench_state(&bench, runs), ROTA_JOB_DEAD);
    assert_int_equal(bench_state(&bench, waits), ROTA_JOB_DEAD);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_CANCEL, runs), 1);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_DISPATCH, waits), 0);
    assert_int_equal(bench_view(&bench, waits).events[1].cause, ROTA_JOB_CAUSE_DEADLINE);

    struct rota_str gpu = rota_str("gpu"); /* also one that nobody could have begun */
    spec.deadline = bench.now.wall + ROTA_SEC;
    spec.capabilities = &gpu;
    spec.n_capabilities = 1;
    struct rota_job_id alone = bench_add_spec(&bench, spec);
    bench_tick(&bench, ROTA_SEC);
    assert_int_equal(bench_state(&bench, alone), ROTA_JOB_DEAD);
    spec.n_capabilities = 0;

    /* ... and when a slot comes free before the tick does. */
    spec.deadline = bench.now.wall + ROTA_SEC;
    struct rota_job_id holds = bench_add(&bench, "x"), late = bench_add_spec(&bench, spec);
    bench.now.boot += ROTA_SEC;
    bench_done(&bench, holds);
    assert_int_equal(bench_state(&bench, late), ROTA_JOB_DEAD);
}

static void a_job_is_not_started_before_its_time(void **state)
{
    (void)state;
    struct rota_job_spec spec = {.not_before = bench.now.wall + ROTA_MIN};
    bench_open(&bench, "w", 1);
    struct rota_job_id id = bench_add_spec(&bench, spec);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
    assert_int_equal(rota_broker_deadline(bench.broker), bench.now.boot + ROTA_MIN);
    bench_tick(&bench, ROTA_MIN - 1);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
    bench_tick(&bench, 1);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
}

/* --- clocks --- */

static void a_jump_of_the_wall_clock_neither_shortens_nor_lengthens_a_delay(void **state)
{
    (void)state;
    static const rota_time jumps[] = {ROTA_DAY, -2 * ROTA_DAY, ROTA_TIME_MIN / 2};
    for (size_t i = 0; i < 3; i++) {
        struct rota_job_spec spec = {.not_before = bench.now.wall + ROTA_MIN};
        struct rota_job_id id = bench_add_spec(&bench, spec);
        bench.now.wall += jumps[i];
        bench_tick(&bench, ROTA_MIN - 1);
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
        bench_tick(&bench, 1);
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_WAITING);
        bench.now.wall = BENCH_WALL + (rota_time)i * ROTA_DAY;
    }
}

static void the_enqueue_time_never_goes_back(void **state)
{
    (void)state;
    struct rota_job_id first = bench_add(&bench, "x");
    bench.now.wall -= ROTA_DAY;
    struct rota_job_id second = bench_add(&bench, "y");
    assert_true(bench_view(&bench, second).enqueued_at >= bench_view(&bench, first).enqueued_at);
    bench_restart(&bench);
    struct rota_job_id third = bench_add(&bench, "z");
    assert_true(bench_view(&bench, third).enqueued_at >= bench_view(&bench, first).enqueued_at);
    bench_open(&bench, "w", 1);
    bench_done(&bench, first);
    bench_done(&bench, second);
    bench_done(&bench, third);
}

static void a_monotonic_clock_that_goes_back_is_not_believed(void **state)
{
    (void)state;
    bench_open(&bench, "w", 1);
    bench_tick(&bench, ROTA_SEC);
    bench.now.boot -= ROTA_HOUR;
    struct rota_job_id id = bench_add_spec(&bench, (struct rota_job_spec){.timeout = ROTA_MIN});
    bench.now.boot += ROTA_HOUR;
    bench_tick(&bench, ROTA_MIN + ROTA_JOB_TIMEOUT_GRACE - 1);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    bench_tick(&bench, 1);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
}

static void each_dispatch_carries_the_number_of_attempts(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open(&bench, "w", 1);
    for (uint32_t i = 1; i <= 3; i++) {
        assert_int_equal(bench_last(&bench, ROTA_WORK_DO_DISPATCH).n_attempts, i);
        assert_int_equal(bench_last(&bench, ROTA_WORK_DO_DISPATCH).attempt,
                         bench_view(&bench, id).attempt);
        bench_end_now(&bench, id, ROTA_JOB_CAUSE_FAILED, "oh");
        bench_tick(&bench, ROTA_HOUR);
    }
}

static void job_that_just_fits_on_the_disk_is_accepted(void **state)
{
    (void)state;
    struct rota_job_spec spec = {.queue = rota_str("q"), .payload = rota_str("payload")};
    struct rota_job_id id;
    size_t size = rota_broker_add_spec_size(&spec);
    rota_broker_allow_adds(bench.broker, 2 * size);
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK);
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK);
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_ERR_LIMIT);
    rota_broker_allow_adds(bench.broker, size - 1);
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(a_job_goes_out_only_when_it_is_on_disk),
        RULE(nothing_goes_out_before_the_life_is_on_disk),
        RULE(an_end_is_reported_with_the_record_to_wait_for),
        RULE(a_full_disk_takes_no_jobs_and_serves_the_others),
        RULE(jobs_are_accepted_while_there_is_room),
        RULE(only_the_attempt_that_runs_may_end_or_extend_a_job),
        RULE(a_repeated_report_is_not_an_error),
        RULE(attempts_are_never_used_twice),
        RULE(after_a_restart_a_worker_may_come_back_and_name_its_attempt),
        RULE(an_extension_after_a_restart_names_its_duration),
        RULE(after_the_grace_it_is_lost_like_any_other),
        RULE(an_attempt_whose_start_was_lost_is_resumed),
        RULE(an_unknown_attempt_is_not_resumed),
        RULE(a_failing_job_waits_longer_each_time_and_then_is_dead),
        RULE(a_worker_may_choose_the_retry_delay),
        RULE(a_refused_job_is_dead_at_once),
        RULE(a_returned_job_does_not_count_and_keeps_its_age),
        RULE(after_its_timeout_an_attempt_is_its_workers_to_end_for_a_while),
        RULE(an_attempt_that_takes_too_long_is_stopped),
        RULE(after_its_deadline_a_job_neither_starts_nor_continues),
        RULE(a_job_is_not_started_before_its_time),
        RULE(a_jump_of_the_wall_clock_neither_shortens_nor_lengthens_a_delay),
        RULE(the_enqueue_time_never_goes_back),
        RULE(a_monotonic_clock_that_goes_back_is_not_believed),
        RULE(each_dispatch_carries_the_number_of_attempts),
        RULE(job_that_just_fits_on_the_disk_is_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
