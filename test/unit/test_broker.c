/* The rules of core/work/broker.h, one test for each. */
#include "work_bench.h"

static struct bench bench;

static int set_up(void **state)
{
    (void)state;
    bench.options = (struct rota_broker_options){.seed = 7};
    bench_init(&bench);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bench_deinit(&bench);
    return 0;
}

/* --- choice --- */

static void the_oldest_goes_first(void **state)
{
    (void)state;
    struct rota_job_id ids[5];
    for (int i = 0; i < 5; i++)
        ids[i] = bench_add(&bench, "x");
    bench_open(&bench, "w", 1);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(bench_state(&bench, ids[i]), ROTA_JOB_RUNNING);
        bench_done(&bench, ids[i]);
    }
}

static void the_highest_priority_goes_before_the_oldest(void **state)
{
    (void)state;
    struct rota_job_id low = bench_add_spec(&bench, (struct rota_job_spec){.priority = -5});
    struct rota_job_id usual = bench_add(&bench, "x");
    struct rota_job_id high = bench_add_spec(&bench, (struct rota_job_spec){.priority = 5});
    bench_open(&bench, "w", 1);
    bench_done(&bench, high);
    bench_done(&bench, usual);
    bench_done(&bench, low);
}

static void a_worker_gets_only_what_it_can_do(void **state)
{
    (void)state;
    struct rota_job_id gpu = bench_add_for(&bench, "gpu"), plain = bench_add(&bench, "x");
    uint64_t simple = bench_open(&bench, "simple", 10);
    assert_int_equal(bench_session_of(&bench, plain), simple);
    assert_int_equal(bench_state(&bench, gpu), ROTA_JOB_WAITING);
    uint64_t able = bench_open_for(&bench, "able", 1, "gpu");
    assert_int_equal(bench_session_of(&bench, gpu), able);
}

static void all_capabilities_are_needed_in_any_order(void **state)
{
    (void)state;
    struct rota_str needed[] = {rota_str("b"), rota_str("a"), rota_str("b")};
    struct rota_job_id id =
        bench_add_spec(&bench, (struct rota_job_spec){.capabilities = needed, .n_capabilities = 3});
    bench_open_for(&bench, "only-a", 1, "a");
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_WAITING);
    struct rota_str has[] = {rota_str("c"), rota_str("a"), rota_str("b")};
    bench_open_spec(&bench, (struct rota_worker_spec){.name = rota_str("both"),
                                                      .slots = 1,
                                                      .capabilities = has,
                                                      .n_capabilities = 3});
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    struct rota_job_view view = bench_view(&bench, id);
    assert_int_equal(view.spec.n_capabilities, 2);
    assert_true(rota_str_is_equal(view.spec.capabilities[0], rota_str("a")));
}

static void among_sets_the_oldest_goes_first(void **state)
{
    (void)state;
    struct rota_str can[] = {rota_str("a"), rota_str("b")};
    struct rota_job_id ids[6];
    for (int i = 0; i < 6; i++)
        ids[i] =
            i % 3 == 0 ? bench_add(&bench, "x") : bench_add_for(&bench, i % 3 == 1 ? "a" : "b");
    bench_open_spec(
        &bench, (struct rota_worker_spec){
                    .name = rota_str("w"), .slots = 1, .capabilities = can, .n_capabilities = 2});
    for (int i = 0; i < 6; i++)
        bench_done(&bench, ids[i]);
}

static void among_queues_the_oldest_goes_first(void **state)
{
    (void)state;
    struct rota_str queues[] = {rota_str("q"), rota_str("other")};
    bench_own(&bench, "other");
    for (int i = 0; i < 20; i++) /* one queue has handed out far more than the other */
        bench_add(&bench, "x");
    uint64_t only = bench_open(&bench, "only", 20);
    rota_broker_worker_close(bench.broker, bench.now, only);
    bench_settle(&bench);
    bench_tick(&bench, ROTA_SEC);
    struct rota_job_id young =
        bench_add_spec(&bench, (struct rota_job_spec){.queue = rota_str("other")});
    bench_open_spec(&bench,
                    (struct rota_worker_spec){
                        .name = rota_str("w"), .slots = 20, .queues = queues, .n_queues = 2});
    struct rota_job_view view;
    assert_int_equal(rota_broker_find(bench.broker, queues[1], young, &view, NULL), ROTA_OK);
    assert_int_equal(view.state, ROTA_JOB_WAITING);
}

static void a_worker_gets_nothing_of_queues_it_does_not_serve(void **state)
{
    (void)state;
    struct rota_str other = rota_str("other");
    bench_own(&bench, "other");
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open_spec(&bench,
                    (struct rota_worker_spec){
                        .name = rota_str("w"), .slots = 1, .queues = &other, .n_queues = 1});
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_WAITING);
}

static void a_worker_never_has_more_than_its_slots(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        bench_add(&bench, "x");
    uint64_t session = bench_open(&bench, "w", 3);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_DISPATCH, BENCH_NONE), 3);
    assert_true(rota_broker_worker_slots(bench.broker, bench.now, session, 4));
    bench_settle(&bench);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_DISPATCH, BENCH_NONE), 4);
    assert_true(rota_broker_worker_slots(bench.broker, bench.now, session, 0));
    bench_settle(&bench);
    bench_done(&bench, bench_last(&bench, ROTA_WORK_DO_DISPATCH).id);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_DISPATCH, BENCH_NONE), 4);
}

static void free_workers_take_turns(void **state)
{
    (void)state;
    uint64_t sessions[3];
    char name[16];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "w%d", i);
        sessions[i] = bench_open_for(&bench, name, 5, i == 2 ? "more" : "some");
    }
    for (int i = 0; i < 6; i++)
        bench_add(&bench, "x");
    for (int i = 0; i < 3; i++) {
        size_t n = 0;
        for (size_t k = 0; k < bench.done.size; k++)
            n += bench.done.items[k].type == ROTA_WORK_DO_DISPATCH &&
                 bench.done.items[k].session == sessions[i];
        assert_in_range(n, 1, 3);
    }
}

static void jobs_that_come_together_go_out_by_priority(void **state)
{
    (void)state;
    bench.is_slow = true;
    bench_open(&bench, "w", 1);
    bench_sync(&bench);
    struct rota_job_id low = bench_add(&bench, "low");
    struct rota_job_id high = bench_add_spec(&bench, (struct rota_job_spec){.priority = 1});
    bench_sync(&bench);
    assert_int_equal(bench_state(&bench, high), ROTA_JOB_RUNNING);
    assert_int_equal(bench_state(&bench, low), ROTA_JOB_WAITING);
}

/* Jobs of `n_sets` pairs of capabilities, three of each, and one that has all of these and does
 * them one after the other: how often lanes are looked at. */
static uint64_t looks_of(size_t n_sets)
{
    enum { N_NAMES = 24 };
    static char texts[N_NAMES][8];
    struct rota_str names[N_NAMES];
    uint64_t before = rota_broker_n_looks(bench.broker);
    for (int i = 0; i < N_NAMES; i++) {
        snprintf(texts[i], sizeof texts[i], "c%d", i);
        names[i] = rota_str(texts[i]);
    }
    for (size_t n = 0; n < 3 * n_sets;)
        for (int a = 0; a < N_NAMES; a++)
            for (int b = a + 1; b < N_NAMES && n < 3 * n_sets; b++, n++)
                bench_add_spec(&bench, (struct rota_job_spec){
                                           .capabilities = (struct rota_str[]){names[a], names[b]},
                                           .n_capabilities = 2});
    uint64_t session = bench_open_spec(
        &bench,
        (struct rota_worker_spec){
            .name = rota_str("w"), .slots = 1, .capabilities = names, .n_capabilities = N_NAMES});
    for (size_t i = 0; i < 3 * n_sets; i++)
        bench_done(&bench, bench_last(&bench, ROTA_WORK_DO_DISPATCH).id);
    rota_broker_worker_close(bench.broker, bench.now, session);
    bench_settle(&bench);
    return rota_broker_n_looks(bench.broker) - before;
}

static void a_choice_costs_as_much_with_hundreds_of_sets_as_with_few(void **state)
{
    (void)state;
    assert_in_range(looks_of(4), 12, 3 * 12);
    assert_in_range(looks_of(200), 600, 3 * 600);
}

/* --- keys --- */

static struct rota_job_id add_of(const char *key)
{
    return bench_add_spec(&bench, (struct rota_job_spec){.key = rota_str(key)});
}

/* Run `n` jobs one by one; how many of them were of `key`. */
static size_t run_counting(size_t n, const char *key)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        struct rota_work_effect effect = bench_last(&bench, ROTA_WORK_DO_DISPATCH);
        found += rota_str_is_equal(effect.spec->key, rota_str(key));
        bench_done(&bench, effect.id);
    }
    return found;
}

static void keys_share_a_queue_whoever_asks_for_more(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        add_of("much");
    for (int i = 0; i < 10; i++)
        add_of("little");
    bench_open(&bench, "w", 1);
    assert_int_equal(run_counting(20, "little"), 10);
}

static void a_key_gets_what_it_weighs(void **state)
{
    (void)state;
    uint64_t number;
    assert_int_equal(rota_broker_set_weight(bench.broker, bench.now, rota_str("q"),
                                            rota_str("heavy"), 3000, &number, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    for (int i = 0; i < 80; i++) {
        add_of("heavy");
        add_of("light");
    }
    bench_open(&bench, "w", 1);
    assert_in_range(run_counting(80, "heavy"), 59, 61);
    bench_restart(&bench); /* weights and tags are kept */
    bench_open(&bench, "w", 1);
    assert_in_range(run_counting(20, "heavy"), 14, 17);
}

static void a_key_that_was_away_has_saved_nothing_up(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        add_of("always");
    bench_open(&bench, "w", 1);
    run_counting(50, "always");
    for (int i = 0; i < 20; i++)
        add_of("new");
    assert_in_range(run_counting(21, "new"), 9, 11);
}

static void weights_that_can_not_be_are_refused(void **state)
{
    (void)state;
    uint64_t number;
    static char long_key[ROTA_JOB_KEY_MAX + 1];
    struct rota_str q = rota_str("q"), key = rota_str("k");
    assert_int_equal(rota_broker_set_weight(bench.broker, bench.now, q, key, 0, &number, NULL),
                     ROTA_ERR_INVALID);
    assert_int_equal(
        rota_broker_set_weight(bench.broker, bench.now, q, key, UINT32_MAX, &number, NULL),
        ROTA_ERR_INVALID);
    assert_int_equal(rota_broker_set_weight(bench.broker, bench.now, q,
                                            rota_str_of(long_key, sizeof long_key), 1, &number,
                                            NULL),
                     ROTA_ERR_INVALID);
}

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

static void what_ended_is_told_with_the_record_to_wait_for(void **state)
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
    assert_int_equal(bench_try_add(&bench, &spec, &again), ROTA_OK);
    assert_false(bench.is_new);
    bench_open(&bench, "w", 1);
    bench_done(&bench, id);
    rota_broker_refuse_adds(bench.broker, NULL);
    bench_add(&bench, "y");
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
        rota_broker_extend(bench.broker, bench.now, q, id, attempt - 1, 0, none, &bench.error),
        ROTA_ERR_STALE);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    bench_done(&bench, id);
    assert_int_equal(
        rota_broker_extend(bench.broker, bench.now, q, id, attempt, 0, none, &bench.error),
        ROTA_ERR_STALE);
    assert_int_equal(
        bench_end(&bench, (struct rota_job_id){1 << 16, 1}, attempt, ROTA_JOB_CAUSE_DONE, ""),
        ROTA_ERR_NOT_FOUND);
}

static void what_is_said_twice_is_no_error(void **state)
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

static uint64_t open_running(const char *name, struct rota_job_id id, uint64_t attempt,
                             uint64_t epoch)
{
    struct rota_worker_running running = {rota_str("q"), id, attempt};
    return bench_open_spec(&bench, (struct rota_worker_spec){.name = rota_str(name),
                                                             .epoch = epoch,
                                                             .slots = 1,
                                                             .running = &running,
                                                             .n_running = 1});
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
    open_running("w", id, attempt, 0);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_CANCEL, BENCH_NONE), 0);
    bench_tick(&bench, ROTA_MIN);
    assert_int_equal(bench_view(&bench, id).attempt, attempt);
    assert_int_equal(bench_end(&bench, id, attempt, ROTA_JOB_CAUSE_DONE, ""), ROTA_OK);
}

static void who_extends_after_a_restart_says_for_how_long(void **state)
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
                                            bench_view(&bench, ids[i]).attempt, i ? 0 : poll.lease,
                                            none, NULL),
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
    open_running("w", id, attempt, 0);
    struct rota_work_effect told = bench_last(&bench, ROTA_WORK_DO_CANCEL);
    assert_int_equal(told.attempt, attempt);
    assert_int_equal(told.cause, ROTA_JOB_CAUSE_LOST);
}

static void an_attempt_whose_start_was_lost_is_taken_up(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    size_t n_records = bench.journal.size;
    bench_open(&bench, "w", 1);
    uint64_t attempt = bench_view(&bench, id).attempt;
    bench_crash(&bench, n_records);
    open_running("w", id, attempt, 0);
    assert_int_equal(bench_view(&bench, id).attempt, attempt);
    assert_int_equal(bench_end(&bench, id, attempt, ROTA_JOB_CAUSE_DONE, ""), ROTA_OK);
    bench_restart(&bench); /* its START was written again */
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DONE);
}

static void an_attempt_that_never_was_is_not_taken_up(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add_for(&bench, "gpu");
    uint64_t life = bench.journal.items[0].attempt;
    open_running("w", id, (life + 1) << 32 | 1, 0);
    open_running("v", id, life << 32 | 77, 0);
    open_running("u", id, 5, 0);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_CANCEL, id), 3);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_WAITING);
}

static void what_fails_waits_longer_each_time_and_then_is_dead(void **state)
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

static void a_worker_may_say_when_to_try_again(void **state)
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

static void what_is_refused_is_dead_at_once(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open(&bench, "w", 1);
    bench_end_now(&bench, id, ROTA_JOB_CAUSE_REFUSED, "nonsense");
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DEAD);
}

static void what_is_given_back_does_not_count_and_keeps_its_age(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x"), younger = bench_add(&bench, "y");
    uint64_t session = bench_open(&bench, "w", 1);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(bench_view(&bench, id).n_attempts, 1);
        bench_end_now(&bench, id, ROTA_JOB_CAUSE_GIVEN_BACK, "stopping");
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING); /* the oldest still */
    }
    assert_int_equal(bench_state(&bench, younger), ROTA_JOB_WAITING);
    assert_int_equal(bench_session_of(&bench, id), session);
}

static void an_attempt_that_takes_too_long_is_stopped(void **state)
{
    (void)state;
    struct rota_job_id id =
        bench_add_spec(&bench, (struct rota_job_spec){.timeout = 10 * ROTA_SEC});
    uint64_t session = bench_open(&bench, "w", 1);
    assert_int_equal(bench_last(&bench, ROTA_WORK_DO_DISPATCH).timeout, 10 * ROTA_SEC);
    uint64_t attempt = bench_view(&bench, id).attempt;
    bench_tick(&bench, 10 * ROTA_SEC);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
    struct rota_work_effect told = bench_last(&bench, ROTA_WORK_DO_CANCEL);
    assert_int_equal(told.session, session);
    assert_int_equal(told.attempt, attempt);
    assert_int_equal(told.cause, ROTA_JOB_CAUSE_TIMED_OUT);
    assert_int_equal(bench_end(&bench, id, attempt, ROTA_JOB_CAUSE_DONE, ""), ROTA_ERR_STALE);
}

static void after_its_deadline_a_job_is_neither_begun_nor_goes_on(void **state)
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

static void a_job_is_not_begun_before_its_time(void **state)
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
    bench_tick(&bench, ROTA_MIN - 1);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    bench_tick(&bench, 1);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
}

/* --- workers --- */

static void a_worker_that_is_not_heard_is_lost_and_its_jobs_go_elsewhere(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x"), younger = bench_add(&bench, "y");
    uint64_t quiet = bench_open_spec(
        &bench,
        (struct rota_worker_spec){.name = rota_str("quiet"), .slots = 1, .liveness = 3 * ROTA_SEC});
    uint64_t attempt = bench_view(&bench, id).attempt;
    bench_tick(&bench, 2 * ROTA_SEC);
    assert_true(rota_broker_worker_heard(bench.broker, bench.now, quiet));
    bench_tick(&bench, 2 * ROTA_SEC);
    assert_int_equal(bench_count(&bench, ROTA_WORK_TELL_LOST, BENCH_NONE), 0);
    uint64_t other = bench_open_for(&bench, "other", 1, "x");
    assert_int_equal(bench_session_of(&bench, younger), other);
    bench_done(&bench, younger);
    bench_look(&bench);
    bench_tick(&bench, ROTA_SEC);
    assert_int_equal(bench_last(&bench, ROTA_WORK_TELL_LOST).session, quiet);
    assert_int_equal(bench_session_of(&bench, id), other); /* in the same step */
    assert_int_equal(bench_end(&bench, id, attempt, ROTA_JOB_CAUSE_DONE, ""), ROTA_ERR_STALE);
    assert_false(rota_broker_worker_heard(bench.broker, bench.now, quiet));
    assert_int_equal(bench_view(&bench, id).n_attempts, 2);
}

static void a_lost_job_goes_before_younger_ones(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x"), younger = bench_add(&bench, "y");
    uint64_t session = bench_open(&bench, "w", 1);
    rota_broker_worker_close(bench.broker, bench.now, session);
    bench_settle(&bench);
    assert_int_equal(bench_count(&bench, ROTA_WORK_TELL_LOST, BENCH_NONE), 0); /* it said so */
    bench_open(&bench, "v", 1);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    assert_int_equal(bench_state(&bench, younger), ROTA_JOB_WAITING);
}

static uint64_t open_epoch(const char *name, uint64_t epoch)
{
    return bench_open_spec(
        &bench, (struct rota_worker_spec){.name = rota_str(name), .slots = 1, .epoch = epoch});
}

static void a_session_ends_the_older_one_of_its_name(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    uint64_t older = open_epoch("w", 1);
    uint64_t attempt = bench_view(&bench, id).attempt;
    uint64_t newer = open_epoch("w", 2);
    assert_int_equal(bench_last(&bench, ROTA_WORK_TELL_LOST).session, older);
    assert_int_equal(bench_session_of(&bench, id), newer);
    assert_true(bench_view(&bench, id).attempt > attempt);

    struct rota_str q = rota_str("q");
    struct rota_worker_spec late = {
        .name = rota_str("w"), .epoch = 1, .slots = 1, .queues = &q, .n_queues = 1};
    uint64_t session;
    assert_int_equal(bench_try_open(&bench, &late, &session), ROTA_ERR_STALE);
    assert_true(rota_broker_worker_heard(bench.broker, bench.now, newer));
    assert_false(rota_broker_worker_heard(bench.broker, bench.now, older));
}

static void names_without_an_epoch_are_not_kept_to_one(void **state)
{
    (void)state;
    uint64_t a = bench_open(&bench, "w", 1), b = bench_open(&bench, "w", 1);
    assert_true(a != b);
    assert_true(rota_broker_worker_heard(bench.broker, bench.now, a));
    assert_true(rota_broker_worker_heard(bench.broker, bench.now, b));
}

static void a_new_session_may_go_on_with_what_the_older_one_ran(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    open_epoch("w", 1);
    uint64_t attempt = bench_view(&bench, id).attempt;
    uint64_t newer = open_running("w", id, attempt, 2);
    assert_int_equal(bench_view(&bench, id).attempt, attempt);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_CANCEL, BENCH_NONE), 0);
    assert_int_equal(bench_count(&bench, ROTA_WORK_TELL_LOST, BENCH_NONE), 1);
    rota_broker_worker_close(bench.broker, bench.now, newer);
    bench_settle(&bench);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_WAITING);
}

static void nobody_can_name_what_another_runs(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    uint64_t owner = open_epoch("owner", 1);
    uint64_t thief = open_running("thief", id, bench_view(&bench, id).attempt, 1);
    struct rota_work_effect told = bench_last(&bench, ROTA_WORK_DO_CANCEL);
    assert_int_equal(told.session, thief);
    assert_true(rota_str_is_equal(bench_view(&bench, id).worker, rota_str("owner")));
    rota_broker_worker_close(bench.broker, bench.now, owner);
    bench_settle(&bench);
    assert_int_equal(bench_session_of(&bench, id), thief);
}

static void what_did_not_come_to_a_worker_is_handed_out_again(void **state)
{
    (void)state;
    struct rota_job_id came = bench_add(&bench, "x"), lost = bench_add(&bench, "y");
    uint64_t session = bench_open(&bench, "w", 2);
    uint64_t up_to = bench_view(&bench, lost).attempt;
    struct rota_worker_running held = {rota_str("q"), came, bench_view(&bench, came).attempt};
    assert_int_equal(
        rota_broker_worker_holds(bench.broker, bench.now, session, up_to - 1, &held, 1, NULL),
        ROTA_OK); /* what was sent after the question is not judged */
    assert_int_equal(bench_view(&bench, lost).attempt, up_to);
    assert_int_equal(
        rota_broker_worker_holds(bench.broker, bench.now, session, up_to, &held, 1, NULL), ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(bench_view(&bench, came).attempt, held.attempt);
    assert_int_equal(bench_state(&bench, lost), ROTA_JOB_RUNNING);
    assert_true(bench_view(&bench, lost).attempt > up_to);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_CANCEL, BENCH_NONE), 0);
    assert_int_equal(
        rota_broker_worker_holds(bench.broker, bench.now, session + 1, up_to, NULL, 0, NULL),
        ROTA_ERR_NOT_FOUND);
}

static void what_a_worker_should_not_have_is_cancelled_again(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x"), done = bench_add(&bench, "y");
    uint64_t session = bench_open(&bench, "w", 2), number;
    struct rota_worker_running held[] = {
        {rota_str("q"), id, bench_view(&bench, id).attempt},
        {rota_str("q"), done, bench_view(&bench, done).attempt},
        {rota_str("nowhere"), id, 7},
    };
    assert_int_equal(rota_broker_cancel(bench.broker, bench.now, rota_str("q"), id, &number, NULL),
                     ROTA_OK);
    bench_done(&bench, done); /* of which it will hear */
    assert_int_equal(
        rota_broker_worker_holds(bench.broker, bench.now, session, UINT64_MAX, held, 3, NULL),
        ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_CANCEL, BENCH_NONE), 2);
}

static void a_worker_that_says_anew_what_it_can_do_keeps_what_is_on_its_way(void **state)
{
    (void)state;
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        struct rota_job_id id = bench_add(&bench, "x"), gpu = bench_add_for(&bench, "gpu");
        struct rota_str can = rota_str("gpu");
        struct rota_worker_spec spec = {.name = rota_str("w"),
                                        .slots = 2,
                                        .epoch = epoch,
                                        .capabilities = &can,
                                        .n_capabilities = 1};
        uint64_t older = bench_open_spec(&bench, spec);
        uint64_t attempt = bench_view(&bench, id).attempt;
        spec.n_capabilities = 0;
        spec.older = older;
        uint64_t newer = bench_open_spec(&bench, spec);
        assert_int_equal(bench_view(&bench, id).attempt, attempt);
        assert_int_equal(bench_state(&bench, gpu), ROTA_JOB_WAITING);
        assert_int_equal(bench_last(&bench, ROTA_WORK_DO_CANCEL).session, newer);
        assert_false(rota_broker_worker_heard(bench.broker, bench.now, older));
        bench_done(&bench, id);
        rota_broker_worker_close(bench.broker, bench.now, newer);
        bench_settle(&bench);
    }
}

static void a_poll_is_one_request_and_its_attempts_live_by_their_lease(void **state)
{
    (void)state;
    struct rota_str q = rota_str("q");
    struct rota_worker_spec poll = {
        .name = rota_str("p"), .queues = &q, .n_queues = 1, .slots = 2, .is_poll = true};
    uint64_t session;
    assert_int_equal(bench_try_open(&bench, &poll, &session), ROTA_ERR_INVALID);
    poll.lease = 10 * ROTA_SEC;
    session = bench_open_spec(&bench, poll);
    assert_true(rota_broker_worker_heard(bench.broker, bench.now, session)); /* nothing yet */
    struct rota_job_id a = bench_add(&bench, "a"), b = bench_add(&bench, "b");
    assert_int_equal(bench_session_of(&bench, a), session);
    assert_false(rota_broker_worker_heard(bench.broker, bench.now, session));
    assert_int_equal(bench_state(&bench, b), ROTA_JOB_WAITING);

    bench_tick(&bench, 9 * ROTA_SEC);
    assert_int_equal(rota_broker_extend(bench.broker, bench.now, q, a,
                                        bench_view(&bench, a).attempt, 0, rota_str("half"), NULL),
                     ROTA_OK);
    bench_settle(&bench);
    assert_true(rota_str_is_equal(bench_view(&bench, a).progress, rota_str("half")));
    bench_tick(&bench, 9 * ROTA_SEC);
    assert_int_equal(bench_state(&bench, a), ROTA_JOB_RUNNING);
    bench_tick(&bench, ROTA_SEC);
    assert_int_equal(bench_state(&bench, a), ROTA_JOB_WAITING);
    bench_look(&bench);
    bench_open_spec(&bench, poll); /* both at once, and it is gone */
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_DISPATCH, BENCH_NONE), 2);
    bench_done(&bench, a);
}

static void workers_that_can_not_be_are_refused(void **state)
{
    (void)state;
    struct rota_str q = rota_str("q"), bad = rota_str("a b"), many[300];
    uint64_t session;
    for (int i = 0; i < 300; i++)
        many[i] = q;
    struct rota_worker_spec good = {.name = rota_str("w"), .queues = &q, .n_queues = 1, .slots = 1};
    struct rota_worker_spec specs[12];
    for (int i = 0; i < 12; i++)
        specs[i] = good;
    specs[0].name = rota_str("");
    specs[1].name = rota_str_of("a\0b", 3);
    specs[2].name = rota_str("\xff");
    specs[3].n_queues = 0;
    specs[4].queues = many;
    specs[4].n_queues = ROTA_WORKER_QUEUES_MAX + 1;
    specs[5].queues = &bad;
    specs[6].capabilities = many;
    specs[6].n_capabilities = ROTA_WORKER_CAPABILITIES_MAX + 1;
    specs[7].capabilities = &bad;
    specs[7].n_capabilities = 1;
    specs[8].slots = ROTA_WORKER_SLOTS_MAX + 1;
    specs[9].liveness = -1;
    specs[10].lease = -1;
    specs[11].n_running = ROTA_WORKER_SLOTS_MAX + 1;
    for (int i = 0; i < 12; i++) {
        bench.error.text[0] = '\0';
        assert_int_equal(bench_try_open(&bench, &specs[i], &session), ROTA_ERR_INVALID);
        assert_true(strlen(bench.error.text) > 10);
    }
    size_t place = 0;
    struct rota_worker_view view;
    assert_false(rota_broker_next_worker(bench.broker, &place, &view));
}

/* --- submitters --- */

static void an_add_is_made_once_however_often_it_is_said(void **state)
{
    (void)state;
    struct rota_job_spec spec = {.queue = rota_str("q"),
                                 .id = rota_job_id_make(bench.now.wall, 0, 42)};
    struct rota_job_id id;
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK);
    assert_true(bench.is_new && bench_id_is(id, spec.id));
    uint64_t number = bench.number;
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK);
    assert_true(!bench.is_new && bench.number == number);
    bench_open(&bench, "w", 1);
    bench_done(&bench, id);
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK); /* also when it has ended */
    assert_false(bench.is_new);
    assert_int_equal(rota_broker_n_jobs(bench.broker), 0);
}

static void a_unique_key_is_held_while_its_job_waits_or_runs(void **state)
{
    (void)state;
    struct rota_job_spec spec = {.unique = rota_str("u")};
    struct rota_job_id first = bench_add_spec(&bench, spec);
    assert_true(bench_id_is(bench_add_spec(&bench, spec), first));
    assert_false(bench.is_new);
    bench_own(&bench, "other");
    spec.queue = rota_str("other"); /* another queue, another key */
    bench_add_spec(&bench, spec);
    assert_true(bench.is_new);
    spec.queue = rota_str("");
    bench_open(&bench, "w", 1);
    bench_add_spec(&bench, spec);
    assert_false(bench.is_new);
    bench_restart(&bench);
    bench_add_spec(&bench, spec);
    assert_false(bench.is_new);
    bench_done(&bench, first);
    struct rota_job_id second = bench_add_spec(&bench, spec);
    assert_true(bench.is_new && !bench_id_is(first, second));
}

static void specs_that_can_not_be_are_refused(void **state)
{
    (void)state;
    static char huge[ROTA_JOB_PAYLOAD_MAX + 1];
    struct rota_job_id id = {9, 9};
    struct rota_str names[17], bad = rota_str("a b");
    for (int i = 0; i < 17; i++)
        names[i] = rota_str("x");
    struct rota_job_spec good = {.queue = rota_str("q")};
    struct rota_job_spec specs[16];
    for (int i = 0; i < 16; i++)
        specs[i] = good;
    specs[0].queue = rota_str("");
    specs[1].queue = rota_str_of("q\0", 2);
    specs[2].payload = rota_str_of(huge, sizeof huge);
    specs[3].unique = rota_str_of(huge, ROTA_JOB_KEY_MAX + 1);
    specs[4].key = specs[3].unique;
    specs[5].trace = specs[3].unique;
    specs[6].capabilities = names;
    specs[6].n_capabilities = 17;
    specs[7].capabilities = &bad;
    specs[7].n_capabilities = 1;
    specs[8].partition = ROTA_JOB_PARTITIONS_MAX;
    specs[9].max_attempts = ROTA_JOB_ATTEMPTS_MAX + 1;
    specs[10].timeout = -1;
    specs[11].not_before = -1;
    specs[12].backoff = ROTA_TIME_MIN;
    specs[13].deadline = bench.now.wall - 1;
    specs[14].deadline = specs[14].not_before = bench.now.wall + ROTA_HOUR;
    specs[15].id = rota_job_id_make(bench.now.wall, 3, 1); /* of another partition */
    for (int i = 0; i < 16; i++) {
        bench.error.text[0] = '\0';
        assert_int_equal(bench_try_add(&bench, &specs[i], &id), ROTA_ERR_INVALID);
        assert_true(strlen(bench.error.text) > 10);
    }
    assert_true(id.high == 9 && id.low == 9);
    assert_int_equal(rota_broker_n_jobs(bench.broker), 0);
}

static void a_cancelled_job_does_not_run(void **state)
{
    (void)state;
    struct rota_str q = rota_str("q");
    struct rota_job_id waits = bench_add(&bench, "x");
    struct rota_job_id delayed =
        bench_add_spec(&bench, (struct rota_job_spec){.not_before = bench.now.wall + ROTA_SEC});
    assert_int_equal(rota_broker_cancel(bench.broker, bench.now, q, waits, &bench.number, NULL),
                     ROTA_OK);
    assert_int_equal(rota_broker_cancel(bench.broker, bench.now, q, delayed, &bench.number, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    bench_open(&bench, "w", 5);
    bench_tick(&bench, ROTA_MIN);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_DISPATCH, BENCH_NONE), 0);
    assert_int_equal(rota_broker_cancel(bench.broker, bench.now, q, waits, &bench.number, NULL),
                     ROTA_ERR_INVALID);
    assert_int_equal(
        rota_broker_cancel(bench.broker, bench.now, rota_str("no"), waits, &bench.number, NULL),
        ROTA_ERR_NOT_FOUND);
    bench_restart(&bench);
    assert_int_equal(bench_state(&bench, waits), ROTA_JOB_CANCELLED);
}

static void a_dead_job_can_be_revived_with_all_its_attempts(void **state)
{
    (void)state;
    struct rota_str q = rota_str("q");
    struct rota_job_spec spec = {
        .max_attempts = 1, .unique = rota_str("u"), .key = rota_str("k"), .payload = rota_str("p")};
    struct rota_job_id id = bench_add_spec(&bench, spec);
    uint64_t session = bench_open(&bench, "w", 1);
    bench_end_now(&bench, id, ROTA_JOB_CAUSE_FAILED, "once");
    rota_broker_worker_close(bench.broker, bench.now, session);
    assert_int_equal(rota_broker_revive(bench.broker, bench.now, q, id, &bench.number, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    struct rota_job_view view = bench_view(&bench, id);
    assert_int_equal(view.state, ROTA_JOB_WAITING);
    assert_int_equal(view.n_attempts, 0);
    assert_true(rota_str_is_equal(view.spec.payload, rota_str("p")));
    assert_int_equal(rota_broker_revive(bench.broker, bench.now, q, id, &bench.number, NULL),
                     ROTA_ERR_INVALID);
    bench_open(&bench, "w", 1);
    bench_end_now(&bench, id, ROTA_JOB_CAUSE_FAILED, "twice");
    bench_add_spec(&bench, spec); /* another one has its unique key by now */
    assert_int_equal(
        rota_broker_revive(bench.broker, bench.now, q, id, &bench.number, &bench.error),
        ROTA_ERR_INVALID);
    bench_restart(&bench);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DEAD);
    assert_int_equal(bench_view(&bench, id).n_events, 6);
}

static void a_priority_can_be_changed(void **state)
{
    (void)state;
    struct rota_job_id first = bench_add(&bench, "x"), second = bench_add(&bench, "y");
    assert_int_equal(rota_broker_set_priority(bench.broker, bench.now, rota_str("q"), second, 1,
                                              &bench.number, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    bench_restart(&bench);
    bench_open(&bench, "w", 1);
    bench_done(&bench, second);
    bench_done(&bench, first);
    assert_int_equal(rota_broker_set_priority(bench.broker, bench.now, rota_str("q"), second, 1,
                                              &bench.number, NULL),
                     ROTA_ERR_INVALID);
}

/* --- queues --- */

static void a_paused_queue_hands_nothing_out(void **state)
{
    (void)state;
    struct rota_str q = rota_str("q");
    assert_int_equal(rota_broker_pause(bench.broker, bench.now, q, true, &bench.number, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    bench_open(&bench, "w", 1);
    struct rota_job_id id = bench_add(&bench, "x");
    bench_restart(&bench);
    bench_open(&bench, "w", 1);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_WAITING);
    assert_int_equal(rota_broker_pause(bench.broker, bench.now, q, false, &bench.number, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
}

static void a_partition_that_is_not_ours_is_not_served(void **state)
{
    (void)state;
    struct rota_str q = rota_str("q");
    struct rota_job_spec spec = {.queue = q, .partition = 5};
    struct rota_job_id id, runs = bench_add(&bench, "x"), waits = bench_add(&bench, "y");
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_ERR_STALE);
    uint64_t session = bench_open(&bench, "w", 1);
    uint64_t attempt = bench_view(&bench, runs).attempt;
    assert_int_equal(rota_broker_partition_close(bench.broker, bench.now, q, 0, NULL), ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(bench_last(&bench, ROTA_WORK_DO_CANCEL).session, session);
    assert_int_equal(bench_state(&bench, runs), ROTA_JOB_WAITING);
    assert_int_equal(bench_view(&bench, runs).n_attempts, 0);
    assert_int_equal(bench_end(&bench, runs, attempt, ROTA_JOB_CAUSE_DONE, ""), ROTA_ERR_STALE);
    assert_int_equal(rota_broker_cancel(bench.broker, bench.now, q, waits, &bench.number, NULL),
                     ROTA_ERR_STALE);
    spec.partition = 0;
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_ERR_STALE);

    bench_restart(&bench); /* and stays so */
    bench_open(&bench, "w", 1);
    assert_int_equal(bench_state(&bench, runs), ROTA_JOB_WAITING);
    assert_int_equal(rota_broker_partition_open(bench.broker, bench.now, q, 0, 3, NULL), ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(bench_state(&bench, runs), ROTA_JOB_RUNNING);
    assert_int_equal(rota_broker_partition_open(bench.broker, bench.now, q, 0, 2, NULL),
                     ROTA_ERR_STALE);
    assert_int_equal(rota_broker_partition_open(bench.broker, bench.now, q, 0, 0, NULL),
                     ROTA_ERR_INVALID);
    assert_int_equal(rota_broker_partition_close(bench.broker, bench.now, q, 9, NULL),
                     ROTA_ERR_NOT_FOUND);
}

/* --- bounds --- */

static void there_are_no_more_jobs_than_the_bound(void **state)
{
    (void)state;
    bench_deinit(&bench);
    bench.options.jobs_max = 2;
    bench_init(&bench);
    struct rota_job_spec spec = {.queue = rota_str("q")};
    struct rota_job_id id = bench_add(&bench, "x"), other;
    bench_add(&bench, "y");
    assert_int_equal(bench_try_add(&bench, &spec, &other), ROTA_ERR_LIMIT);
    bench_open(&bench, "w", 1);
    bench_done(&bench, id);
    assert_int_equal(bench_try_add(&bench, &spec, &other), ROTA_OK);
}

static void results_make_room_for_payloads(void **state)
{
    (void)state;
    static char bytes[600];
    bench_deinit(&bench);
    bench.options.bytes_max = 1000;
    bench_init(&bench);
    struct rota_job_spec spec = {.queue = rota_str("q"),
                                 .payload = rota_str_of(bytes, sizeof bytes)};
    struct rota_job_id id = bench_add_spec(&bench, spec), other;
    assert_int_equal(bench_try_add(&bench, &spec, &other), ROTA_ERR_LIMIT);
    bench_open(&bench, "w", 1);
    memset(bytes, 'r', sizeof bytes - 1);
    bench_end_now(&bench, id, ROTA_JOB_CAUSE_DONE, bytes);
    assert_int_equal(bench_view(&bench, id).result.size, sizeof bytes - 1);
    assert_int_equal(bench_try_add(&bench, &spec, &other), ROTA_OK);
    struct rota_job_view view;
    assert_int_equal(rota_broker_find(bench.broker, rota_str("q"), id, &view, NULL),
                     ROTA_ERR_NOT_FOUND);
}

static void ended_jobs_are_forgotten_in_time_and_dead_ones_are_not(void **state)
{
    (void)state;
    bench_deinit(&bench);
    bench.options.keep = ROTA_MIN;
    bench.options.ended_max = 3;
    bench_init(&bench);
    struct rota_job_id done = bench_add(&bench, "x"), dead = bench_add(&bench, "y");
    struct rota_job_view view;
    bench_open(&bench, "w", 1);
    bench_done(&bench, done);
    bench_end_now(&bench, dead, ROTA_JOB_CAUSE_REFUSED, "no");
    assert_int_equal(rota_broker_deadline(bench.broker), bench.now.boot + ROTA_MIN);
    bench_restart(&bench);
    assert_int_equal(rota_broker_deadline(bench.broker), bench.now.boot + ROTA_MIN);
    bench_tick(&bench, ROTA_MIN);
    assert_int_equal(rota_broker_find(bench.broker, rota_str("q"), done, &view, NULL),
                     ROTA_ERR_NOT_FOUND);
    assert_int_equal(bench_state(&bench, dead), ROTA_JOB_DEAD);
    bench_open(&bench, "w", 1);
    for (int i = 0; i < 3; i++)
        bench_done(&bench, bench_add(&bench, "z"));
    assert_int_equal(rota_broker_find(bench.broker, rota_str("q"), dead, &view, NULL),
                     ROTA_ERR_NOT_FOUND);
}

static void lanes_sets_and_queues_that_nobody_uses_make_room(void **state)
{
    (void)state;
    char name[32];
    uint64_t number;
    for (int i = 0; i < 2 * ROTA_BROKER_SETS_MAX; i++) {
        snprintf(name, sizeof name, "cap%d", i);
        struct rota_job_id id = bench_add_for(&bench, name);
        assert_int_equal(
            rota_broker_cancel(bench.broker, bench.now, rota_str("q"), id, &number, NULL), ROTA_OK);
        assert_int_equal(
            rota_broker_forget(bench.broker, bench.now, rota_str("q"), id, &number, NULL), ROTA_OK);
    }
    for (int i = 0; i < 2 * ROTA_BROKER_QUEUES_MAX; i++) {
        snprintf(name, sizeof name, "queue%d", i);
        struct rota_str queue = rota_str(name);
        uint64_t session = bench_open_spec(
            &bench, (struct rota_worker_spec){
                        .name = rota_str("w"), .slots = 1, .queues = &queue, .n_queues = 1});
        rota_broker_worker_close(bench.broker, bench.now, session);
    }
    bench_settle(&bench);
}

static void sets_beyond_the_bound_are_refused(void **state)
{
    (void)state;
    char name[32];
    struct rota_str capability;
    struct rota_job_id id;
    struct rota_job_spec spec = {
        .queue = rota_str("q"), .capabilities = &capability, .n_capabilities = 1};
    bench.is_slow = true;
    for (int i = 0; i < ROTA_BROKER_SETS_MAX - 1; i++) { /* the empty one is there */
        snprintf(name, sizeof name, "cap%d", i);
        capability = rota_str(name);
        assert_int_equal(rota_broker_add(bench.broker, bench.now, &spec, &id, &bench.is_new,
                                         &bench.number, &bench.error),
                         ROTA_OK);
    }
    bench_sync(&bench);
    capability = rota_str("one-too-many");
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_ERR_LIMIT);
    capability = rota_str("cap7"); /* what is known goes on */
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK);
}

/* --- questions --- */

static const char *why(struct rota_job_id id)
{
    static char text[256];
    return rota_broker_explain(bench.broker, bench.now, rota_str("q"), id, text, sizeof text);
}

static void it_says_why_a_job_waits(void **state)
{
    (void)state;
    struct rota_job_id gpu = bench_add_for(&bench, "gpu"), id = bench_add(&bench, "x");
    assert_string_equal(why(id), "waiting: no worker serves queue q");
    bench_open(&bench, "w", 1);
    assert_string_equal(why(gpu), "waiting: no worker of queue q has gpu");
    assert_string_equal(why(id), "running: attempt 1 of 5, on worker \"w\"");
    struct rota_job_id next = bench_add(&bench, "y");
    assert_string_equal(why(next),
                        "waiting: none of the 1 worker that can take it is free (1 slot)");
    bench_end_now(&bench, id, ROTA_JOB_CAUSE_FAILED, "oh");
    assert_non_null(strstr(why(id), "delayed: attempt 1 failed, the next begins in "));
    struct rota_job_spec later = {.not_before = bench.now.wall + ROTA_MIN};
    assert_string_equal(why(bench_add_spec(&bench, later)), "delayed: not before 1m from now");
    bench_end_now(&bench, next, ROTA_JOB_CAUSE_REFUSED, "no \"such\" thing");
    assert_string_equal(why(next), "dead: refused in attempt 1, for \"no \\\"such\\\" thing\"");
    assert_string_equal(why((struct rota_job_id){1, 1}), "there is no such job here");
    rota_broker_pause(bench.broker, bench.now, rota_str("q"), true, &bench.number, NULL);
    assert_string_equal(why(gpu), "waiting: queue q is paused");
    bench.is_slow = true;
    assert_string_equal(why(bench_add(&bench, "z")), "waiting: its record is not on disk yet");
}

/* One request for jobs; `can` may be empty. */
static uint64_t poll(const char *name, uint32_t slots, const char *can)
{
    struct rota_str capability = rota_str(can);
    return bench_open_spec(&bench, (struct rota_worker_spec){.name = rota_str(name),
                                                             .capabilities = &capability,
                                                             .n_capabilities = capability.size > 0,
                                                             .slots = slots,
                                                             .is_poll = true,
                                                             .lease = 10 * ROTA_SEC});
}

static void a_job_waits_for_workers_that_poll_and_are_busy(void **state)
{
    (void)state;
    struct rota_job_id first = bench_add(&bench, "x"), second = bench_add(&bench, "y");
    poll("p", 1, "");
    assert_string_equal(why(second),
                        "waiting: none of the 1 worker that can take it is free (1 slot)");
    bench_done(&bench, first);
    assert_string_equal(why(second), "waiting: no worker serves queue q");
}

static void who_polls_without_a_capability_does_not_hide_those_at_work_that_have_it(void **state)
{
    (void)state;
    struct rota_job_id first = bench_add_for(&bench, "gpu"), second = bench_add_for(&bench, "gpu");
    poll("able", 1, "gpu");
    uint64_t simple = poll("simple", 1, "");
    assert_int_equal(bench_state(&bench, first), ROTA_JOB_RUNNING);
    assert_string_equal(why(second),
                        "waiting: none of the 1 worker that can take it is free (1 slot)");
    bench_tick(&bench, 10 * ROTA_SEC); /* the lease is over; and the job waits again */
    assert_string_equal(why(first), "waiting: no worker of queue q has gpu");
    rota_broker_worker_close(bench.broker, bench.now, simple);
    assert_string_equal(why(first), "waiting: no worker serves queue q");
}

static void after_a_restart_who_works_can_do_what_its_job_needs(void **state)
{
    (void)state;
    bench_add_for(&bench, "gpu");
    struct rota_job_id second = bench_add_for(&bench, "gpu"), other = bench_add_for(&bench, "cpu");
    poll("able", 1, "gpu");
    bench_restart(&bench);
    poll("simple", 1, "");
    assert_string_equal(why(second),
                        "waiting: no worker that can take it is free (1 job like it runs)");
    assert_string_equal(why(other), "waiting: no worker of queue q has cpu");
}

static struct rota_queue_view view_queue(void)
{
    size_t place = 0;
    struct rota_queue_view view;
    assert_true(rota_broker_next_queue(bench.broker, &place, &view));
    return view;
}

static void workers_that_poll_are_counted_by_name_also_while_they_work(void **state)
{
    (void)state;
    struct rota_worker_view worker;
    struct rota_job_id ids[3];
    for (int i = 0; i < 3; i++)
        ids[i] = bench_add(&bench, "x");
    poll("p", 2, "");
    poll("other", 1, "");
    poll("p", 2, "");
    assert_int_equal(view_queue().n_workers, 2);
    assert_int_equal(view_queue().n_slots, 5);
    assert_int_equal(view_queue().n_free, 2);
    size_t n_leased = 0, n_sessions = 0;
    for (size_t place = 0; rota_broker_next_worker(bench.broker, &place, &worker);) {
        n_sessions += worker.session != 0;
        n_leased += worker.session ? 0 : worker.n_running;
    }
    assert_int_equal(n_sessions, 1);
    assert_int_equal(n_leased, 3);
    for (int i = 0; i < 3; i++)
        bench_done(&bench, ids[i]);
    assert_int_equal(view_queue().n_workers, 1); /* the one that still polls */
    assert_int_equal(view_queue().n_slots, 2);
}

static void a_worker_tells_what_it_can_and_serves(void **state)
{
    (void)state;
    struct rota_worker_view worker;
    size_t place = 0;
    poll("p", 1, "gpu");
    assert_true(rota_broker_next_worker(bench.broker, &place, &worker));
    assert_int_equal(worker.n_can, 1);
    assert_true(rota_str_is_equal(worker.can[0], rota_str("gpu")));
    assert_int_equal(worker.n_queues, 1);
    assert_true(rota_str_is_equal(worker.queues[0], view_queue().name));
}

static void too_many_kinds_of_workers_that_poll_are_not_remembered(void **state)
{
    (void)state;
    char name[32];
    for (int i = 0; i < ROTA_BROKER_AWAY_MAX + 2; i++) {
        bench_add(&bench, "x");
        snprintf(name, sizeof name, "cap%d", i);
        poll("p", 1, name);
    }
    assert_int_equal(view_queue().counts[ROTA_JOB_RUNNING], ROTA_BROKER_AWAY_MAX + 2);
    assert_int_equal(view_queue().n_slots, ROTA_BROKER_AWAY_MAX);
}

static void a_job_tells_its_story(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open(&bench, "w", 1);
    bench_end_now(&bench, id, ROTA_JOB_CAUSE_FAILED, "first");
    bench_tick(&bench, 2 * ROTA_SEC);
    bench_done(&bench, id);
    for (int i = 0; i < 2; i++, bench_restart(&bench)) { /* the journal tells the same */
        struct rota_job_view view = bench_view(&bench, id);
        static const enum rota_job_state states[] = {
            ROTA_JOB_WAITING, ROTA_JOB_RUNNING, ROTA_JOB_DELAYED, ROTA_JOB_RUNNING, ROTA_JOB_DONE};
        assert_int_equal(view.n_events, 5);
        for (int k = 0; k < 5; k++)
            assert_int_equal(view.events[k].state, states[k]);
        assert_true(rota_str_is_equal(view.events[2].reason, rota_str("first")));
        assert_true(rota_str_is_equal(view.events[3].worker, rota_str("w")));
        assert_int_equal(view.events[4].at, view.ended_at);
    }
}

static void the_story_of_a_job_that_is_put_off_begins_so(void **state)
{
    (void)state;
    struct rota_job_id late =
        bench_add_spec(&bench, (struct rota_job_spec){.not_before = bench.now.wall + ROTA_SEC});
    struct rota_job_id past =
        bench_add_spec(&bench, (struct rota_job_spec){.not_before = bench.now.wall - ROTA_SEC});
    struct rota_job_view view = bench_view(&bench, late);
    assert_int_equal(view.events[0].state, ROTA_JOB_DELAYED);
    assert_true(
        rota_str_is_equal(view.events[0].reason, rota_str("not before 2023-11-14T22:13:21Z")));
    assert_int_equal(bench_view(&bench, past).events[0].state, ROTA_JOB_WAITING);
    bench_open(&bench, "w", 2);
    bench_end_now(&bench, past, ROTA_JOB_CAUSE_FAILED, "");
    bench_tick(&bench, 2 * ROTA_SEC);
    bench_end_now(&bench, late, ROTA_JOB_CAUSE_FAILED, "");
    for (int i = 0; i < 2; i++, bench_restart(&bench)) {
        view = bench_view(&bench, late);
        assert_int_equal(view.events[0].state, ROTA_JOB_DELAYED);
        assert_int_equal(view.events[0].reason.size, 0);
        assert_int_equal(bench_view(&bench, past).events[0].state, ROTA_JOB_WAITING);
    }
}

static void a_story_is_bounded(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add_spec(&bench, (struct rota_job_spec){.max_attempts = 1000});
    bench_open(&bench, "w", 1);
    for (int i = 0; i < 100; i++) {
        bench_end_now(&bench, id, ROTA_JOB_CAUSE_FAILED, "again");
        bench_tick(&bench, 20 * ROTA_MIN);
    }
    assert_int_equal(bench_view(&bench, id).n_events, ROTA_JOB_STORY_MAX);
}

static void queues_are_counted(void **state)
{
    (void)state;
    struct rota_queue_view view;
    size_t place = 0;
    struct rota_job_id done = bench_add(&bench, "a");
    bench_tick(&bench, ROTA_SEC);
    bench_open(&bench, "w", 1);
    bench_done(&bench, done);
    bench_add(&bench, "runs");
    rota_time oldest = bench.now.wall;
    bench_add(&bench, "waits");
    bench_tick(&bench, ROTA_SEC);
    bench_add_spec(&bench, (struct rota_job_spec){.priority = 9}); /* first, but not oldest */
    assert_true(rota_broker_next_queue(bench.broker, &place, &view));
    assert_int_equal(view.counts[ROTA_JOB_WAITING], 2);
    assert_int_equal(view.counts[ROTA_JOB_RUNNING], 1);
    assert_int_equal(view.counts[ROTA_JOB_DONE], 1);
    assert_int_equal(view.n_added, 4);
    assert_int_equal(view.n_done, 1);
    assert_int_equal(view.oldest_at, oldest);
    assert_int_equal(view.n_partitions, 1);
    assert_int_equal(view.n_workers, 1);
    assert_int_equal(view.n_slots, 1);
    assert_int_equal(view.n_free, 0);
    assert_false(rota_broker_next_queue(bench.broker, &place, &view));

    struct rota_job_view job;
    size_t n = 0;
    place = 0;
    while (rota_broker_next_job(bench.broker, rota_str("q"), ROTA_JOB_WAITING, &place, &job))
        n++;
    assert_int_equal(n, 2);
}

int main(void)
{
#define RULE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        RULE(the_oldest_goes_first),
        RULE(the_highest_priority_goes_before_the_oldest),
        RULE(a_worker_gets_only_what_it_can_do),
        RULE(all_capabilities_are_needed_in_any_order),
        RULE(among_sets_the_oldest_goes_first),
        RULE(among_queues_the_oldest_goes_first),
        RULE(a_worker_gets_nothing_of_queues_it_does_not_serve),
        RULE(a_worker_never_has_more_than_its_slots),
        RULE(free_workers_take_turns),
        RULE(jobs_that_come_together_go_out_by_priority),
        RULE(a_choice_costs_as_much_with_hundreds_of_sets_as_with_few),
        RULE(keys_share_a_queue_whoever_asks_for_more),
        RULE(a_key_gets_what_it_weighs),
        RULE(a_key_that_was_away_has_saved_nothing_up),
        RULE(weights_that_can_not_be_are_refused),
        RULE(a_job_goes_out_only_when_it_is_on_disk),
        RULE(nothing_goes_out_before_the_life_is_on_disk),
        RULE(what_ended_is_told_with_the_record_to_wait_for),
        RULE(a_full_disk_takes_no_jobs_and_serves_the_others),
        RULE(only_the_attempt_that_runs_may_end_or_extend_a_job),
        RULE(what_is_said_twice_is_no_error),
        RULE(attempts_are_never_used_twice),
        RULE(after_a_restart_a_worker_may_come_back_and_name_its_attempt),
        RULE(who_extends_after_a_restart_says_for_how_long),
        RULE(after_the_grace_it_is_lost_like_any_other),
        RULE(an_attempt_whose_start_was_lost_is_taken_up),
        RULE(an_attempt_that_never_was_is_not_taken_up),
        RULE(what_fails_waits_longer_each_time_and_then_is_dead),
        RULE(a_worker_may_say_when_to_try_again),
        RULE(what_is_refused_is_dead_at_once),
        RULE(what_is_given_back_does_not_count_and_keeps_its_age),
        RULE(an_attempt_that_takes_too_long_is_stopped),
        RULE(after_its_deadline_a_job_is_neither_begun_nor_goes_on),
        RULE(a_job_is_not_begun_before_its_time),
        RULE(a_jump_of_the_wall_clock_neither_shortens_nor_lengthens_a_delay),
        RULE(the_enqueue_time_never_goes_back),
        RULE(a_monotonic_clock_that_goes_back_is_not_believed),
        RULE(a_worker_that_is_not_heard_is_lost_and_its_jobs_go_elsewhere),
        RULE(a_lost_job_goes_before_younger_ones),
        RULE(a_session_ends_the_older_one_of_its_name),
        RULE(names_without_an_epoch_are_not_kept_to_one),
        RULE(a_new_session_may_go_on_with_what_the_older_one_ran),
        RULE(nobody_can_name_what_another_runs),
        RULE(what_did_not_come_to_a_worker_is_handed_out_again),
        RULE(what_a_worker_should_not_have_is_cancelled_again),
        RULE(a_worker_that_says_anew_what_it_can_do_keeps_what_is_on_its_way),
        RULE(a_poll_is_one_request_and_its_attempts_live_by_their_lease),
        RULE(workers_that_can_not_be_are_refused),
        RULE(an_add_is_made_once_however_often_it_is_said),
        RULE(a_unique_key_is_held_while_its_job_waits_or_runs),
        RULE(specs_that_can_not_be_are_refused),
        RULE(a_cancelled_job_does_not_run),
        RULE(a_dead_job_can_be_revived_with_all_its_attempts),
        RULE(a_priority_can_be_changed),
        RULE(a_paused_queue_hands_nothing_out),
        RULE(a_partition_that_is_not_ours_is_not_served),
        RULE(there_are_no_more_jobs_than_the_bound),
        RULE(results_make_room_for_payloads),
        RULE(ended_jobs_are_forgotten_in_time_and_dead_ones_are_not),
        RULE(lanes_sets_and_queues_that_nobody_uses_make_room),
        RULE(sets_beyond_the_bound_are_refused),
        RULE(it_says_why_a_job_waits),
        RULE(a_job_waits_for_workers_that_poll_and_are_busy),
        RULE(who_polls_without_a_capability_does_not_hide_those_at_work_that_have_it),
        RULE(after_a_restart_who_works_can_do_what_its_job_needs),
        RULE(workers_that_poll_are_counted_by_name_also_while_they_work),
        RULE(a_worker_tells_what_it_can_and_serves),
        RULE(too_many_kinds_of_workers_that_poll_are_not_remembered),
        RULE(a_job_tells_its_story),
        RULE(the_story_of_a_job_that_is_put_off_begins_so),
        RULE(a_story_is_bounded),
        RULE(queues_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
