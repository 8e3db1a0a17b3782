/* What a restart and a hand-over must not change: attempts stay fenced, times go on, keys stay
 * unique. Each of these was wrong once, and found by sim_work. */
#include "work_bench.h"

static struct bench bench, taker;

static const struct rota_str q = {"q", 1};

/* All jobs of partition 0 go from `bench` to `taker`, which has owned it before or not. */
static void hand_over(uint64_t epoch)
{
    struct rota_work_record record;
    size_t place = 0;
    uint64_t number;
    assert_int_equal(rota_broker_partition_close(bench.broker, bench.now, q, 0, NULL), ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(rota_broker_partition_open(taker.broker, taker.now, q, 0, epoch, NULL),
                     ROTA_OK);
    while (rota_broker_partition_next(bench.broker, q, 0, &place, &record))
        assert_int_equal(rota_broker_adopt(taker.broker, taker.now, &record, &number, NULL),
                         ROTA_OK);
    bench_settle(&taker);
}

static void deinit(void)
{
    bench_deinit(&bench);
    if (taker.broker)
        bench_deinit(&taker);
}

static void attempts_are_above_those_of_the_former_owner(void **state)
{
    (void)state;
    bench_init(&bench);
    bench_init(&taker);
    struct rota_job_id id = bench_add(&bench, "x");
    for (int i = 0; i < 3; i++)
        bench_restart(&bench);
    bench_open(&bench, "w", 1);
    uint64_t former = bench_view(&bench, id).attempt;
    hand_over(2);
    bench_open(&taker, "v", 1);
    assert_true(bench_view(&taker, id).attempt > former);
    assert_int_equal(bench_end(&taker, id, former, ROTA_JOB_CAUSE_DONE, ""), ROTA_ERR_STALE);
    bench_done(&taker, id);
    bench_restart(&taker); /* no record contradicts another */
    assert_int_equal(bench_state(&taker, id), ROTA_JOB_DONE);
    deinit();
}

/* Two brokers that were never restarted. */
static void attempts_are_of_a_later_life_than_those_of_the_former_owner(void **state)
{
    (void)state;
    bench_init(&bench);
    bench_init(&taker);
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open(&bench, "w", 1);
    uint64_t former = bench_view(&bench, id).attempt;
    hand_over(2);
    bench_open(&taker, "v", 1);
    assert_true(bench_view(&taker, id).attempt >> 32 > former >> 32);
    deinit();
}

static void an_attempt_of_which_nothing_is_left_is_fenced_too(void **state)
{
    (void)state;
    bench_init(&bench);
    bench_init(&taker);
    struct rota_job_id id = bench_add(&bench, "x");
    size_t n_kept = bench.journal.size;
    bench_open(&bench, "w", 1);
    uint64_t former = bench_view(&bench, id).attempt;
    bench_crash(&bench, n_kept); /* its START is lost */
    hand_over(2);
    bench_open(&taker, "v", 1);
    assert_true(bench_view(&taker, id).attempt != former);
    assert_int_equal(bench_end(&taker, id, former, ROTA_JOB_CAUSE_DONE, ""), ROTA_ERR_STALE);
    deinit();
}

static void assert_same(struct rota_str a, struct rota_str b)
{
    assert_true(rota_str_is_equal(a, b));
}

static void every_setting_of_a_job_survives_a_restart_and_a_hand_over(void **state)
{
    (void)state;
    struct rota_str can[] = {rota_str("big"), rota_str("gpu")};
    bench_init(&bench);
    bench_init(&taker);
    const struct rota_job_spec spec = {.id = rota_job_id_make(BENCH_WALL, 0, 7),
                                       .queue = q,
                                       .capabilities = can,
                                       .n_capabilities = 2,
                                       .payload = rota_str("payload"),
                                       .priority = -3,
                                       .not_before = BENCH_WALL + ROTA_HOUR,
                                       .deadline = BENCH_WALL + 5 * ROTA_HOUR,
                                       .timeout = 11 * ROTA_SEC,
                                       .max_attempts = 13,
                                       .backoff = 17 * ROTA_SEC,
                                       .backoff_max = 19 * ROTA_MIN,
                                       .unique = rota_str("unique"),
                                       .key = rota_str("key"),
                                       .trace = rota_str("trace")};
    struct rota_job_id id = bench_add_spec(&bench, spec);
    bench_restart(&bench);
    hand_over(2);
    const struct bench *benches[] = {&bench, &taker};
    for (size_t i = 0; i < 2; i++) {
        struct rota_job_view view;
        assert_int_equal(rota_broker_find(benches[i]->broker, q, id, &view, NULL), ROTA_OK);
        assert_int_equal(view.spec.n_capabilities, 2);
        for (size_t j = 0; j < 2; j++)
            assert_same(view.spec.capabilities[j], can[j]);
        assert_same(view.spec.payload, spec.payload);
        assert_same(view.spec.unique, spec.unique);
        assert_same(view.spec.key, spec.key);
        assert_same(view.spec.trace, spec.trace);
        assert_int_equal(view.spec.priority, spec.priority);
        assert_int_equal(view.not_before, spec.not_before);
        assert_int_equal(view.spec.deadline, spec.deadline);
        assert_int_equal(view.spec.timeout, spec.timeout);
        assert_int_equal(view.spec.max_attempts, spec.max_attempts);
        assert_int_equal(view.spec.backoff, spec.backoff);
        assert_int_equal(view.spec.backoff_max, spec.backoff_max);
    }
    deinit();
}

/* It comes from another node, which may be wrong. */
static void only_a_whole_job_is_adopted(void **state)
{
    (void)state;
    bench_init(&bench);
    struct rota_job_spec spec = {.queue = q, .id = rota_job_id_make(BENCH_WALL, 0, 7)};
    struct rota_job_spec nameless = {.queue = q};
    struct rota_job_spec astray = {.queue = q, .id = spec.id, .partition = ROTA_JOB_PARTITIONS_MAX};
    const struct rota_work_record records[] = {
        {.type = ROTA_WORK_ADD, .spec = &spec},
        {.type = ROTA_WORK_JOB},
        {.type = ROTA_WORK_JOB, .spec = &nameless},
        {.type = ROTA_WORK_JOB, .spec = &astray},
    };
    uint64_t number;
    for (size_t i = 0; i < sizeof records / sizeof *records; i++)
        assert_int_equal(rota_broker_adopt(bench.broker, bench.now, &records[i], &number, NULL),
                         ROTA_ERR_INVALID);
    assert_int_equal(rota_broker_n_jobs(bench.broker), 0);
    bench_deinit(&bench);
}

static void no_attempt_follows_the_last_life(void **state)
{
    (void)state;
    bench_init(&bench);
    struct rota_job_spec spec = {.queue = q, .id = rota_job_id_make(BENCH_WALL, 0, 7)};
    struct rota_work_record record = {.type = ROTA_WORK_JOB, .spec = &spec, .epoch = UINT32_MAX};
    uint64_t number;
    assert_int_equal(rota_broker_adopt(bench.broker, bench.now, &record, &number, NULL),
                     ROTA_ERR_INVALID);
    record.epoch = UINT32_MAX - 1;
    assert_int_equal(rota_broker_adopt(bench.broker, bench.now, &record, &number, NULL), ROTA_OK);
    bench_settle(&bench);
    bench_restart(&bench);
    deinit();
}

/* Also if the journal has lost that it began. */
static void an_attempt_that_is_taken_over_after_a_restart_has_a_timeout(void **state)
{
    (void)state;
    for (int is_known = 0; is_known < 2; is_known++) {
        bench_init(&bench);
        struct rota_job_id id =
            bench_add_spec(&bench, (struct rota_job_spec){.timeout = 10 * ROTA_SEC});
        size_t n_kept = bench.journal.size;
        bench_open(&bench, "w", 1);
        uint64_t attempt = bench_view(&bench, id).attempt;
        bench_crash(&bench, is_known ? bench.journal.size : n_kept);
        bench_open_running(&bench, "w", id, attempt, 0);
        assert_int_equal(bench_view(&bench, id).attempt, attempt);
        bench_tick(&bench, 9 * ROTA_SEC + ROTA_JOB_TIMEOUT_GRACE);
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
        bench_tick(&bench, ROTA_SEC);
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
        deinit();
    }
}

static void a_retry_after_the_deadline_can_be_read_again(void **state)
{
    (void)state;
    bench_init(&bench);
    bench_init(&taker);
    struct rota_job_id id =
        bench_add_spec(&bench, (struct rota_job_spec){.deadline = BENCH_WALL + 10 * ROTA_SEC,
                                                      .backoff = ROTA_MIN,
                                                      .backoff_max = ROTA_MIN});
    bench_open(&bench, "w", 1);
    bench_end_now(&bench, id, ROTA_JOB_CAUSE_FAILED, "");
    uint64_t from = rota_broker_last_number(bench.broker) + 1;
    assert_int_equal(rota_broker_rewrite(bench.broker, from, 100, SIZE_MAX), 0);
    bench_settle(&bench);
    bench_restart(&bench);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
    hand_over(2);
    assert_int_equal(bench_state(&taker, id), ROTA_JOB_DELAYED);
    bench_tick(&taker, 11 * ROTA_SEC);
    assert_int_equal(bench_state(&taker, id), ROTA_JOB_DEAD);
    deinit();
}

static void an_ended_job_does_not_hold_its_unique_key(void **state)
{
    (void)state;
    struct rota_job_spec spec = {.unique = rota_str("u")};
    bench_init(&bench);
    uint64_t session = bench_open(&bench, "w", 1);
    struct rota_job_id first = bench_add_spec(&bench, spec);
    bench_done(&bench, first);
    rota_broker_worker_close(bench.broker, bench.now, session);
    bench_settle(&bench);
    struct rota_job_id second = bench_add_spec(&bench, spec);
    /* The one that has ended is written again, and is read after the other. */
    uint64_t from = rota_broker_last_number(bench.broker) + 1;
    assert_int_equal(rota_broker_rewrite(bench.broker, from, 1, SIZE_MAX), 1);
    bench_settle(&bench);
    bench_restart(&bench);
    assert_true(bench_id_is(bench_add_spec(&bench, spec), second));
    assert_false(bench.is_new);
    deinit();
}

static void a_closed_partition_has_no_deadlines(void **state)
{
    (void)state;
    bench_init(&bench);
    struct rota_job_id late =
        bench_add_spec(&bench, (struct rota_job_spec){.deadline = BENCH_WALL + 10 * ROTA_SEC});
    struct rota_job_id early =
        bench_add_spec(&bench, (struct rota_job_spec){.not_before = BENCH_WALL + 10 * ROTA_SEC});
    assert_int_equal(rota_broker_partition_close(bench.broker, bench.now, q, 0, NULL), ROTA_OK);
    bench_settle(&bench);
    bench_look(&bench);
    bench_tick(&bench, 11 * ROTA_SEC);
    assert_int_equal(bench_count(&bench, ROTA_WORK_TELL_ENDED, BENCH_NONE), 0);
    assert_int_equal(bench_state(&bench, late), ROTA_JOB_WAITING);
    assert_int_equal(bench_state(&bench, early), ROTA_JOB_DELAYED);
    assert_int_equal(rota_broker_deadline(bench.broker), ROTA_TIME_NEVER);

    assert_int_equal(rota_broker_partition_open(bench.broker, bench.now, q, 0, 2, NULL), ROTA_OK);
    bench_settle(&bench);
    bench_tick(&bench, 0);
    assert_int_equal(bench_state(&bench, late), ROTA_JOB_DEAD);
    assert_int_equal(bench_state(&bench, early), ROTA_JOB_WAITING);
    deinit();
}

static struct rota_queue_view queue_of(const struct bench *at)
{
    struct rota_queue_view view;
    struct rota_str place = {0};
    assert_true(rota_broker_next_queue(at->broker, &place, &view));
    return view;
}

static void totals_count_events_of_this_node_since_its_start(void **state)
{
    (void)state;
    bench_init(&bench);
    bench_init(&taker);
    bench_open(&bench, "w", 3);
    struct rota_job_id done = bench_add(&bench, "x"), dead = bench_add(&bench, "y");
    struct rota_job_id late = bench_add_spec(
        &bench, (struct rota_job_spec){.backoff = ROTA_MIN, .backoff_max = ROTA_MIN});
    bench_done(&bench, done);
    bench_end_now(&bench, dead, ROTA_JOB_CAUSE_REFUSED, "");
    bench_end_now(&bench, late, ROTA_JOB_CAUSE_FAILED, "");
    struct rota_queue_view view = queue_of(&bench);
    assert_int_equal(view.n_added, 3);
    assert_int_equal(view.n_done, 1);
    assert_int_equal(view.n_dead, 1);
    assert_int_equal(view.n_retries, 1);

    bench_restart(&bench);
    hand_over(2);
    const struct bench *const others[] = {&bench, &taker};
    for (size_t i = 0; i < 2; i++) {
        view = queue_of(others[i]);
        assert_int_equal(view.n_added + view.n_done + view.n_dead + view.n_retries, 0);
        assert_int_equal(view.counts[ROTA_JOB_DONE], 1);
        assert_int_equal(view.counts[ROTA_JOB_DEAD], 1);
    }
    deinit();
}

/* Takes over the first job of a closed partition of `from`, which then forgets it. */
static enum rota_code move_first(struct bench *from, struct bench *to, uint32_t partition)
{
    struct rota_work_record record;
    size_t place = 0;
    uint64_t number;
    assert_true(rota_broker_partition_next(from->broker, q, partition, &place, &record));
    struct rota_job_id id = record.spec->id;
    enum rota_code code = rota_broker_adopt(to->broker, to->now, &record, &number, NULL);
    bench_settle(to);
    if (!code)
        assert_int_equal(rota_broker_forget(from->broker, from->now, q, id, &number, NULL),
                         ROTA_OK);
    bench_settle(from);
    return code;
}

static void two_full_brokers_can_exchange_partitions(void **state)
{
    (void)state;
    struct bench *both[2] = {&bench, &taker};
    struct rota_job_spec spec = {.queue = q, .payload = rota_str("x")};
    struct rota_job_id id;
    for (uint32_t i = 0; i < 2; i++) {
        both[i]->options.jobs_max = 2;
        bench_init(both[i]);
        assert_int_equal(rota_broker_partition_open(both[i]->broker, both[i]->now, q, i, 2, NULL),
                         ROTA_OK);
        spec.partition = i;
        for (uint64_t k = 1; k <= 2; k++) {
            spec.id = rota_job_id_make(BENCH_WALL, i, k);
            bench_add_spec(both[i], spec);
        }
    }
    assert_int_equal(rota_broker_partition_close(bench.broker, bench.now, q, 0, NULL), ROTA_OK);
    assert_int_equal(move_first(&bench, &taker, 0), ROTA_ERR_LIMIT); /* it has its own to do */
    assert_int_equal(rota_broker_partition_close(taker.broker, taker.now, q, 1, NULL), ROTA_OK);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(
            rota_broker_partition_open(both[i]->broker, both[i]->now, q, 1 - i, 3, NULL), ROTA_OK);
    assert_int_equal(move_first(&bench, &taker, 0), ROTA_OK);
    assert_int_equal(rota_broker_n_jobs(taker.broker), 3);
    spec.partition = 0;
    spec.id = rota_job_id_make(BENCH_WALL, 0, 3);
    assert_int_equal(bench_try_add(&taker, &spec, &id), ROTA_ERR_LIMIT); /* new ones have to wait */
    assert_true(rota_broker_has_room(taker.broker, 1));
    assert_false(rota_broker_has_room(taker.broker, 2));
    assert_false(rota_broker_has_room(taker.broker, SIZE_MAX));
    assert_int_equal(move_first(&bench, &taker, 0), ROTA_OK);
    assert_false(rota_broker_has_room(taker.broker, 1));
    assert_int_equal(move_first(&taker, &bench, 1), ROTA_OK);
    assert_int_equal(move_first(&taker, &bench, 1), ROTA_OK);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(rota_broker_n_jobs(both[i]->broker), 2);
    deinit();
}

/* Tags of jobs that come count from where the queue has got to here. */
static void tags_of_jobs_that_come_begin_at_the_present(void **state)
{
    (void)state;
    bench_init(&bench);
    bench_init(&taker);
    bench_open(&taker, "w", 1);
    for (int i = 0; i < 5; i++)
        bench_done(&taker, bench_add(&taker, "x"));
    struct rota_job_id last = bench_add(&taker, "x"); /* runs: its tag is the present */
    struct rota_work_record record;
    assert_true(rota_broker_job_record(taker.broker, q, last, &record));
    uint64_t present = record.tag;
    assert_true(present > 0);
    for (uint64_t tag = 0; tag < 3; tag++) {
        struct rota_job_spec spec = {.id = {0x4000, tag + 1}, .queue = q};
        struct rota_work_record job = {.type = ROTA_WORK_JOB,
                                       .id = spec.id,
                                       .spec = &spec,
                                       .at = taker.now.wall,
                                       .tag = tag == 2 ? UINT64_MAX : tag};
        uint64_t number;
        assert_int_equal(rota_broker_adopt(taker.broker, taker.now, &job, &number, NULL), ROTA_OK);
        bench_settle(&taker);
        assert_true(rota_broker_job_record(taker.broker, q, spec.id, &record));
        assert_int_equal(record.tag, tag == 2 ? UINT64_MAX : present + tag);
    }
    deinit();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attempts_are_above_those_of_the_former_owner),
        cmocka_unit_test(attempts_are_of_a_later_life_than_those_of_the_former_owner),
        cmocka_unit_test(an_attempt_of_which_nothing_is_left_is_fenced_too),
        cmocka_unit_test(every_setting_of_a_job_survives_a_restart_and_a_hand_over),
        cmocka_unit_test(only_a_whole_job_is_adopted),
        cmocka_unit_test(no_attempt_follows_the_last_life),
        cmocka_unit_test(an_attempt_that_is_taken_over_after_a_restart_has_a_timeout),
        cmocka_unit_test(a_retry_after_the_deadline_can_be_read_again),
        cmocka_unit_test(an_ended_job_does_not_hold_its_unique_key),
        cmocka_unit_test(a_closed_partition_has_no_deadlines),
        cmocka_unit_test(two_full_brokers_can_exchange_partitions),
        cmocka_unit_test(totals_count_events_of_this_node_since_its_start),
        cmocka_unit_test(tags_of_jobs_that_come_begin_at_the_present),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
