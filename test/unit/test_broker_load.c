/* Partitions whose jobs are kept elsewhere: they come with their jobs, and go with them. */
#include "work_bench.h"

#include <string.h>

static struct bench bench, taker;

static const struct rota_str q = {"q", 1};

/* The taker has had partition 0 and given it up, and nothing else. */
static void set_up_both(void)
{
    bench_init(&bench);
    bench_init(&taker);
    assert_int_equal(rota_broker_partition_drop(taker.broker, taker.now, q, 0, NULL), ROTA_OK);
    bench_settle(&taker);
}

static void deinit(void)
{
    bench_deinit(&bench);
    bench_deinit(&taker);
}

static void load_one(struct rota_job_id id)
{
    struct rota_work_record record;
    assert_true(rota_broker_job_record(bench.broker, q, id, &record));
    assert_int_equal(rota_broker_load(taker.broker, taker.now, &record, NULL), ROTA_OK);
}

static void open_loaded(uint64_t epoch)
{
    assert_int_equal(rota_broker_raise_life(taker.broker, taker.now, epoch, NULL), ROTA_OK);
    assert_int_equal(rota_broker_partition_open(taker.broker, taker.now, q, 0, epoch, NULL),
                     ROTA_OK);
    bench_settle(&taker);
    assert_true(rota_broker_is_sound(taker.broker));
}

static void a_partition_comes_with_its_jobs_and_their_order(void **state)
{
    (void)state;
    struct rota_job_id ids[3];
    set_up_both();
    for (int i = 0; i < 3; i++)
        ids[i] = bench_add(&bench, "x");
    for (int i = 2; i >= 0; i--) /* rows come in an order of their own */
        load_one(ids[i]);
    size_t n_before = taker.journal.size;
    bench_open(&taker, "w", 1);
    assert_int_equal(bench_state(&taker, ids[0]), ROTA_JOB_WAITING); /* it is not open yet */
    open_loaded(9);
    assert_int_equal(bench_state(&taker, ids[0]), ROTA_JOB_RUNNING);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(bench_state(&taker, ids[i]), ROTA_JOB_RUNNING);
        assert_int_equal(bench_view(&taker, ids[i]).attempt >> 32, 9);
        bench_done(&taker, ids[i]);
    }
    for (size_t i = n_before; i < taker.journal.size; i++)
        assert_int_not_equal(taker.journal.items[i].type, ROTA_WORK_JOB);
    deinit();
}

static void tags_count_from_where_the_queue_is(void **state)
{
    (void)state;
    set_up_both();
    bench_own(&taker, "q");
    struct rota_job_id here[20], there[5];
    bench_open(&taker, "w", 1);
    for (int i = 0; i < 20; i++) { /* time goes on here */
        here[i] = bench_add(&taker, "x");
        bench_done(&taker, here[i]);
    }
    for (int i = 0; i < 5; i++)
        there[i] = bench_add(&bench, "x");
    assert_int_equal(rota_broker_partition_drop(taker.broker, taker.now, q, 0, NULL), ROTA_OK);
    for (int i = 0; i < 5; i++)
        load_one(there[i]);
    open_loaded(9);
    struct rota_job_id late = bench_add(&taker, "late");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(bench_state(&taker, late), ROTA_JOB_WAITING);
        bench_done(&taker, there[i]);
    }
    assert_int_equal(bench_state(&taker, late), ROTA_JOB_RUNNING);
    deinit();
}

static void a_running_job_has_its_grace_and_may_be_ended(void **state)
{
    (void)state;
    set_up_both();
    struct rota_job_id ended = bench_add(&bench, "x"), lost = bench_add(&bench, "y");
    bench_open(&bench, "w", 2);
    uint64_t attempt = bench_view(&bench, ended).attempt;
    bench_own(&taker, "other");
    bench_add_spec(&taker, (struct rota_job_spec){.queue = rota_str("other")});
    load_one(ended);
    load_one(lost);
    taker.now.boot += ROTA_HOUR; /* that it took long to load is not its fault */
    open_loaded(9);
    assert_int_equal(bench_state(&taker, ended), ROTA_JOB_RUNNING);
    assert_int_equal(bench_end(&taker, ended, attempt, ROTA_JOB_CAUSE_DONE, ""), ROTA_OK);
    bench_tick(&taker, ROTA_BROKER_GRACE);
    assert_int_not_equal(bench_state(&taker, lost), ROTA_JOB_RUNNING);
    deinit();
}

static void ended_jobs_are_remembered(void **state)
{
    (void)state;
    set_up_both();
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open(&bench, "w", 1);
    uint64_t attempt = bench_view(&bench, id).attempt;
    bench_done(&bench, id);
    load_one(id);
    bench_tick(&taker, ROTA_SEC); /* also while they are loaded */
    open_loaded(9);
    assert_int_equal(bench_state(&taker, id), ROTA_JOB_DONE);
    assert_int_equal(bench_end(&taker, id, attempt, ROTA_JOB_CAUSE_DONE, ""), ROTA_OK);
    deinit();
}

static void a_drop_forgets_all_jobs_and_cancels_running_ones(void **state)
{
    (void)state;
    bench_init(&bench);
    struct rota_job_id running = bench_add(&bench, "x");
    uint64_t session = bench_open(&bench, "w", 1);
    struct rota_job_id waiting = bench_add(&bench, "y");
    struct rota_job_view view;
    size_t n_forgotten = 0;
    assert_int_equal(bench_state(&bench, running), ROTA_JOB_RUNNING);
    assert_int_equal(rota_broker_partition_drop(bench.broker, bench.now, q, 0, NULL), ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_CANCEL, running), 1);
    assert_true(session > 0);
    assert_int_equal(rota_broker_find(bench.broker, q, running, &view, NULL), ROTA_ERR_NOT_FOUND);
    assert_int_equal(rota_broker_find(bench.broker, q, waiting, &view, NULL), ROTA_ERR_NOT_FOUND);
    assert_int_equal(rota_broker_n_jobs(bench.broker), 0);
    assert_true(rota_broker_is_sound(bench.broker));
    for (size_t i = 0; i < bench.journal.size; i++)
        n_forgotten += bench.journal.items[i].type == ROTA_WORK_FORGET;
    assert_int_equal(n_forgotten, 0);
    bench_deinit(&bench);
}

static void a_drop_leaves_the_jobs_of_other_partitions_and_queues(void **state)
{
    (void)state;
    struct rota_job_spec specs[] = {{.queue = q, .partition = 3},
                                    {.queue = q},
                                    {.queue = rota_str("other")},
                                    {.queue = q},
                                    {.queue = q, .partition = 3}};
    enum { N = sizeof specs / sizeof specs[0] };
    struct rota_job_id ids[N];
    struct rota_job_view view;
    bench_init(&bench);
    bench_own(&bench, "other");
    assert_int_equal(rota_broker_partition_open(bench.broker, bench.now, q, 3, 1, NULL), ROTA_OK);
    for (size_t i = 0; i < N; i++)
        ids[i] = bench_add_spec(&bench, specs[i]);
    assert_int_equal(rota_broker_partition_drop(bench.broker, bench.now, q, 0, NULL), ROTA_OK);
    bench_settle(&bench);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(rota_broker_find(bench.broker, specs[i].queue, ids[i], &view, NULL),
                         i % 2 ? ROTA_ERR_NOT_FOUND : ROTA_OK);
    assert_true(rota_broker_is_sound(bench.broker));
    bench_deinit(&bench);
}

static void on_hold_nothing_is_handed_out(void **state)
{
    (void)state;
    bench_init(&bench);
    rota_broker_hold(bench.broker, bench.now, true);
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open(&bench, "w", 1);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_WAITING);
    rota_broker_hold(bench.broker, bench.now, false); /* which waits for no other event */
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    bench_settle(&bench);
    bench_deinit(&bench);
}

static void job_that_is_rewritten_before_it_is_on_disk_holds_up_no_other(void **state)
{
    (void)state;
    bench_init(&bench);
    bench.is_slow = true;
    struct rota_job_id first = bench_add(&bench, "x"), second = bench_add(&bench, "y");
    uint64_t number = rota_broker_last_number(bench.broker); /* above that of the first alone */
    assert_int_equal(rota_broker_rewrite(bench.broker, number, 10, SIZE_MAX), 0);
    bench_open(&bench, "w", 2);
    assert_int_equal(bench_state(&bench, first), ROTA_JOB_WAITING);
    bench_sync(&bench);
    assert_int_equal(bench_state(&bench, first), ROTA_JOB_RUNNING);
    assert_int_equal(bench_state(&bench, second), ROTA_JOB_RUNNING);
    bench.is_slow = false;
    bench_deinit(&bench);
}

static void an_invalid_job_is_not_loaded(void **state)
{
    (void)state;
    bench_init(&bench);
    struct rota_job_spec spec = {.queue = q, .id = rota_job_id_make(BENCH_WALL, 3, 7)};
    spec.partition = ROTA_JOB_PARTITIONS_MAX;
    struct rota_work_record record = {.type = ROTA_WORK_JOB, .spec = &spec};
    assert_int_equal(rota_broker_load(bench.broker, bench.now, &record, &bench.error),
                     ROTA_ERR_INVALID);
    assert_non_null(strstr(bench.error.text, "must be complete")); /* nothing was made for it */
    spec.partition = 3;
    record.state = (enum rota_job_state)77;
    assert_int_equal(rota_broker_load(bench.broker, bench.now, &record, NULL), ROTA_ERR_INVALID);
    record.state = ROTA_JOB_WAITING;
    assert_int_equal(rota_broker_load(bench.broker, bench.now, &record, NULL), ROTA_OK);
    assert_int_equal(rota_broker_load(bench.broker, bench.now, &record, NULL), ROTA_OK); /* again */
    assert_int_equal(rota_broker_n_jobs(bench.broker), 1);
    spec = (struct rota_job_spec){.queue = q, .id = rota_job_id_make(BENCH_WALL, 0, 7)};
    assert_int_equal(rota_broker_load(bench.broker, bench.now, &record, NULL), ROTA_ERR_STALE);
    assert_int_equal(
        rota_broker_raise_life(bench.broker, bench.now, (uint64_t)UINT32_MAX + 1, NULL),
        ROTA_ERR_LIMIT);
    bench_deinit(&bench);
}

static size_t n_records(enum rota_work_record_type type)
{
    size_t n = 0;
    for (size_t i = 0; i < bench.journal.size; i++)
        n += bench.journal.items[i].type == type;
    return n;
}

/* Rows of jobs go when the broker forgets them, which only a record says. */
static void a_forgotten_job_is_reported_if_it_has_a_row(void **state)
{
    (void)state;
    for (int is_told = 0; is_told < 2; is_told++) {
        bench.options =
            (struct rota_broker_options){.has_rows = is_told, .ended_max = 2, .keep = ROTA_MIN};
        bench_init(&bench);
        bench_open(&bench, "w", 1);
        struct rota_job_id ids[3];
        for (int i = 0; i < 3; i++) {
            ids[i] = bench_add(&bench, "x");
            bench_done(&bench, ids[i]);
        }
        assert_int_equal(n_records(ROTA_WORK_FORGET), is_told);
        if (is_told) {
            const struct rota_work_record *last = &bench.journal.items[bench.journal.size - 1];
            assert_int_equal(last->type, ROTA_WORK_FORGET);
            assert_true(bench_id_is(last->id, ids[0])); /* the oldest */
        }
        bench_tick(&bench, ROTA_MIN);
        assert_int_equal(n_records(ROTA_WORK_FORGET), 3 * is_told);
        struct rota_job_view view;
        assert_int_equal(rota_broker_find(bench.broker, q, ids[2], &view, NULL),
                         ROTA_ERR_NOT_FOUND);
        bench_deinit(&bench);
    }
    bench.options = (struct rota_broker_options){0};
}

static void life_is_raised_and_never_set_again(void **state)
{
    (void)state;
    bench_init(&bench);
    size_t n = n_records(ROTA_WORK_LIFE);
    assert_int_equal(rota_broker_raise_life(bench.broker, bench.now, 9, NULL), ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(n_records(ROTA_WORK_LIFE), n + 1);
    assert_int_equal(bench.journal.items[bench.journal.size - 1].attempt, 9);
    for (uint64_t life = 0; life <= 9; life++)
        assert_int_equal(rota_broker_raise_life(bench.broker, bench.now, life, NULL), ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(n_records(ROTA_WORK_LIFE), n + 1);
    assert_int_equal(rota_broker_raise_life(bench.broker, bench.now, UINT32_MAX, NULL), ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(n_records(ROTA_WORK_LIFE), n + 2);
    struct rota_work_record record;
    assert_false(rota_broker_job_record(bench.broker, q, (struct rota_job_id){1, 2}, &record));
    bench_deinit(&bench);
}

/* Rows, and jobs of other brokers, that a broker never writes. */
static void invalid_row_is_refused(void **state)
{
    static char reason[ROTA_JOB_REASON_MAX + 1], result[ROTA_JOB_PAYLOAD_MAX + 1];
    static char name[ROTA_WORKER_NAME_MAX + 1];
    struct rota_work_record record, bad;
    struct rota_job_spec spec;
    uint64_t number;
    (void)state;
    memset(name, 'w', sizeof name);
    set_up_both();
    assert_true(rota_broker_job_record(bench.broker, q, bench_add(&bench, "x"), &record));
    spec = *record.spec;
    record.spec = &spec;
#define REFUSED(field, value)                                                                      \
    do {                                                                                           \
        bad = record;                                                                              \
        bad.field = (value);                                                                       \
        assert_int_equal(rota_broker_load(taker.broker, taker.now, &bad, NULL), ROTA_ERR_INVALID); \
    } while (0)
    REFUSED(type, ROTA_WORK_ADD);
    REFUSED(spec, NULL);
    REFUSED(state, (enum rota_job_state)ROTA_JOB_STATES);
    REFUSED(cause, (enum rota_job_cause)(ROTA_JOB_CAUSE_HANDED_OVER + 1));
    REFUSED(reason, rota_str_of(reason, sizeof reason));
    REFUSED(bytes, rota_str_of(result, sizeof result));
    REFUSED(worker, rota_str_of(name, sizeof name));
    spec.partition = ROTA_JOB_PARTITIONS_MAX;
    REFUSED(spec, &spec);
    assert_int_equal(rota_broker_adopt(taker.broker, taker.now, &record, &number, NULL),
                     ROTA_ERR_INVALID);
    assert_int_equal(
        rota_broker_partition_open(taker.broker, taker.now, q, ROTA_JOB_PARTITIONS_MAX, 1, NULL),
        ROTA_ERR_INVALID);
    assert_int_equal(bench_try_add(&bench, &spec, &spec.id), ROTA_ERR_INVALID);
    spec.partition = ROTA_JOB_PARTITIONS_MAX - 1;
    record.reason = rota_str_of(reason, ROTA_JOB_REASON_MAX);
    record.worker = rota_str_of(name, ROTA_WORKER_NAME_MAX);
    assert_int_equal(rota_broker_load(taker.broker, taker.now, &record, NULL), ROTA_OK);
    spec.id = (struct rota_job_id){0, 0};
    REFUSED(spec, &spec);
    assert_int_equal(rota_broker_adopt(taker.broker, taker.now, &record, &number, NULL),
                     ROTA_ERR_INVALID);
    deinit();
}

/* --- rows that the next owner reads --- */

static void set_up_rows(void)
{
    bench.options = (struct rota_broker_options){.has_rows = true};
    taker.options = bench.options;
    set_up_both();
    bench.is_slow = true;
}

static uint64_t open_poll(uint32_t slots)
{
    return bench_open_spec(&bench, (struct rota_worker_spec){.name = rota_str("poll"),
                                                             .slots = slots,
                                                             .lease = 10 * ROTA_SEC,
                                                             .is_poll = true});
}

static size_t n_sent(struct rota_job_id id)
{
    return bench_count(&bench, ROTA_WORK_DO_DISPATCH, id);
}

static void write_up_to(uint64_t number)
{
    rota_broker_durable(bench.broker, bench.now, number);
    bench_take(&bench);
    assert_true(rota_broker_is_sound(bench.broker));
}

static void a_worker_gets_a_job_when_its_start_is_written(void **state)
{
    (void)state;
    set_up_rows();
    struct rota_job_id id = bench_add(&bench, "x");
    bench_sync(&bench);
    uint64_t session = bench_open(&bench, "w", 1);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    assert_int_equal(n_sent(id), 0);
    bench_sync(&bench);
    assert_int_equal(n_sent(id), 1);
    assert_int_equal(bench_session_of(&bench, id), session);
    bench_sync(&bench);
    assert_int_equal(n_sent(id), 1);
    bench_done(&bench, id);
    deinit();
}

static void a_poll_gets_all_its_jobs_at_once(void **state)
{
    struct rota_job_id ids[3];
    (void)state;
    set_up_rows();
    for (int i = 0; i < 3; i++)
        ids[i] = bench_add(&bench, "x");
    bench_sync(&bench);
    uint64_t before = rota_broker_last_number(bench.broker), session = open_poll(3);
    assert_false(rota_broker_worker_is_open(bench.broker, session));
    for (uint64_t number = before; number < before + 3; number++) {
        write_up_to(number);
        assert_int_equal(n_sent(BENCH_NONE), 0);
    }
    write_up_to(before + 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(bench_session_of(&bench, ids[i]), session);
    assert_int_equal(n_sent(BENCH_NONE), 3);
    deinit();
}

/* The next owner has the row as it was before, and may hand the job out. */
static void a_job_is_not_sent_once_its_partition_is_lost(void **state)
{
    (void)state;
    set_up_rows();
    bench_add(&bench, "x");
    bench_sync(&bench);
    uint64_t session = open_poll(1);
    assert_int_equal(rota_broker_partition_drop(bench.broker, bench.now, q, 0, NULL), ROTA_OK);
    bench_sync(&bench);
    assert_int_equal(n_sent(BENCH_NONE), 0);
    assert_int_equal(bench_last(&bench, ROTA_WORK_TELL_LOST).session, session);
    deinit();
}

/* What a worker has keeps running, and what it has not got yet waits. */
static void a_partition_goes_with_its_attempts(void **state)
{
    (void)state;
    set_up_rows();
    struct rota_job_id sent = bench_add(&bench, "x");
    bench_sync(&bench);
    open_poll(1);
    bench_sync(&bench);
    struct rota_job_id unsent = bench_add(&bench, "x");
    bench_sync(&bench);
    open_poll(1);
    assert_int_equal(n_sent(sent), 1);
    assert_int_equal(bench_state(&bench, unsent), ROTA_JOB_RUNNING);
    uint64_t attempt = bench_view(&bench, sent).attempt;
    assert_int_equal(rota_broker_partition_close(bench.broker, bench.now, q, 0, NULL), ROTA_OK);
    bench_sync(&bench);
    assert_int_equal(n_sent(unsent), 0);
    assert_int_equal(bench_state(&bench, sent), ROTA_JOB_RUNNING);
    assert_int_equal(bench_state(&bench, unsent), ROTA_JOB_WAITING);
    assert_int_equal(bench_view(&bench, unsent).n_attempts, 0);

    load_one(sent);
    load_one(unsent);
    open_loaded(2);
    bench_open(&taker, "other", 2);
    assert_int_equal(bench_session_of(&taker, sent), 0);
    assert_int_equal(bench_count(&taker, ROTA_WORK_DO_DISPATCH, unsent), 1);
    struct rota_attempt_end end = {.queue = q,
                                   .id = sent,
                                   .attempt = attempt,
                                   .session = ROTA_BROKER_NO_SESSION,
                                   .cause = ROTA_JOB_CAUSE_DONE};
    assert_int_equal(rota_broker_end(taker.broker, taker.now, &end, &taker.number, NULL), ROTA_OK);
    assert_int_equal(bench_view(&taker, sent).n_attempts, 1);
    deinit();
}

/* Its lease and its timeout begin when it is sent; a worker that is gone by then never had it. */
static void what_was_not_sent_costs_no_attempt(void **state)
{
    (void)state;
    set_up_rows();
    struct rota_job_id id = bench_add_spec(&bench, (struct rota_job_spec){.timeout = ROTA_SEC});
    bench_sync(&bench);
    open_poll(1);
    bench_tick(&bench, ROTA_MIN);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    bench_sync(&bench);
    assert_int_equal(n_sent(id), 1);
    bench_end_now(&bench, id, ROTA_JOB_CAUSE_GIVEN_BACK, "");
    bench_sync(&bench);
    uint64_t session = bench_open(&bench, "w", 1);
    bench_tick(&bench, ROTA_MIN); /* it waits again */
    assert_int_equal(bench_view(&bench, id).n_attempts, 1);
    rota_broker_worker_lost(bench.broker, bench.now, session, false);
    bench_sync(&bench);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_WAITING);
    assert_int_equal(bench_view(&bench, id).n_attempts, 0);
    assert_int_equal(n_sent(id), 1);
    deinit();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_partition_comes_with_its_jobs_and_their_order),
        cmocka_unit_test(tags_count_from_where_the_queue_is),
        cmocka_unit_test(a_running_job_has_its_grace_and_may_be_ended),
        cmocka_unit_test(ended_jobs_are_remembered),
        cmocka_unit_test(a_drop_forgets_all_jobs_and_cancels_running_ones),
        cmocka_unit_test(a_drop_leaves_the_jobs_of_other_partitions_and_queues),
        cmocka_unit_test(on_hold_nothing_is_handed_out),
        cmocka_unit_test(job_that_is_rewritten_before_it_is_on_disk_holds_up_no_other),
        cmocka_unit_test(an_invalid_job_is_not_loaded),
        cmocka_unit_test(a_forgotten_job_is_reported_if_it_has_a_row),
        cmocka_unit_test(life_is_raised_and_never_set_again),
        cmocka_unit_test(invalid_row_is_refused),
        cmocka_unit_test(a_worker_gets_a_job_when_its_start_is_written),
        cmocka_unit_test(a_poll_gets_all_its_jobs_at_once),
        cmocka_unit_test(a_job_is_not_sent_once_its_partition_is_lost),
        cmocka_unit_test(a_partition_goes_with_its_attempts),
        cmocka_unit_test(what_was_not_sent_costs_no_attempt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
