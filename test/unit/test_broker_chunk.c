/* Chunks of jobs that go from broker to broker: through compaction, and when the receiver is
 * lost. How they go otherwise is shown by sim_handover. */
#include "work_bench.h"

#include <string.h>

enum { N_JOBS = 5 };

static struct bench bench, taker;
static struct rota_job_id ids[N_JOBS];

static const struct rota_str q = {"q", 1};

static int set_up(void **state)
{
    (void)state;
    bench_init(&bench);
    bench_init(&taker);
    for (size_t i = 0; i < N_JOBS; i++)
        ids[i] = bench_add(&bench, "x");
    assert_int_equal(rota_broker_partition_close(bench.broker, bench.now, q, 0, NULL), ROTA_OK);
    bench_settle(&bench);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bench_deinit(&bench);
    bench_deinit(&taker);
    return 0;
}

/* All jobs are in flight. */
static struct rota_job_id begin(const char *to)
{
    struct rota_job_id name;
    assert_int_equal(
        rota_broker_chunk_begin(bench.broker, bench.now, q, 0, rota_str(to), &name, NULL), ROTA_OK);
    bench_settle(&bench);
    return name;
}

static void take_in(struct rota_job_id name)
{
    struct rota_work_record record;
    uint64_t number;
    assert_int_equal(rota_broker_adopting(taker.broker, taker.now, name, NULL), ROTA_OK);
    for (size_t place = 0; rota_broker_chunk_next(bench.broker, name, &place, &record);)
        assert_int_equal(rota_broker_adopt(taker.broker, taker.now, &record, &number, NULL),
                         ROTA_OK);
    assert_int_equal(rota_broker_adopted(taker.broker, taker.now, name, &number, NULL), ROTA_OK);
    bench_settle(&taker);
}

/* Everything is written again; then the journal begins there, and is read. */
static void compact(struct bench *at)
{
    uint64_t from = rota_broker_last_number(at->broker) + 1;
    size_t n_old = at->journal.size;
    while (rota_broker_rewrite(at->broker, from, 2, SIZE_MAX) > 0)
        bench_settle(at);
    bench_settle(at);
    memmove(at->journal.items, at->journal.items + n_old,
            (at->journal.size - n_old) * sizeof *at->journal.items);
    bench_crash(at, at->journal.size - n_old);
}

static size_t count_chunks(struct rota_chunk_view *last)
{
    size_t n = 0;
    for (size_t place = 0; rota_broker_next_chunk(bench.broker, &place, last);)
        n++;
    return n;
}

static enum rota_code open_again(void)
{
    enum rota_code code = rota_broker_partition_open(bench.broker, bench.now, q, 0, 1, NULL);
    bench_settle(&bench);
    return code;
}

static size_t n_jobs(const struct bench *at)
{
    return rota_broker_n_jobs(at->broker);
}

static void compaction_keeps_jobs_in_handover(void **state)
{
    (void)state;
    struct rota_chunk_view view;
    struct rota_work_record record;
    struct rota_job_id name = begin("far:1");
    compact(&bench);
    assert_int_equal(count_chunks(&view), 1);
    assert_true(bench_id_is(view.name, name));
    assert_true(rota_str_is_equal(view.to, rota_str("far:1")));
    assert_int_equal(view.n_jobs, N_JOBS);
    assert_false(view.is_taken);
    size_t n = 0;
    for (size_t place = 0; rota_broker_chunk_next(bench.broker, name, &place, &record); n++)
        assert_int_equal(record.type, ROTA_WORK_JOB);
    assert_int_equal(n, N_JOBS);
    assert_int_equal(open_again(), ROTA_ERR_UNAVAILABLE);
}

static void compaction_keeps_received_chunks_on_both_sides(void **state)
{
    (void)state;
    struct rota_chunk_view view;
    uint64_t number;
    struct rota_job_id name = begin("far:1");
    take_in(name);
    compact(&taker);
    assert_true(rota_broker_has_adopted(taker.broker, name, &number));
    assert_int_equal(n_jobs(&taker), N_JOBS);
    assert_int_equal(rota_broker_adopting(taker.broker, taker.now, name, NULL), ROTA_ERR_INVALID);
    assert_int_equal(rota_broker_chunk_taken(bench.broker, bench.now, name, NULL), ROTA_OK);
    bench_settle(&bench);
    compact(&bench);
    assert_int_equal(count_chunks(&view), 1); /* the receiver is not told yet */
    assert_true(view.is_taken);
    assert_int_equal(n_jobs(&bench), 0);
    assert_int_equal(rota_broker_adopted_over(taker.broker, taker.now, name, &number, NULL),
                     ROTA_OK);
    bench_settle(&taker);
    compact(&taker);
    assert_true(rota_broker_has_adopted(taker.broker, name, &number)); /* for a late message */
    bench_tick(&taker, 2 * ROTA_BROKER_TAKEN_KEEP);
    assert_int_equal(
        rota_broker_adopting(taker.broker, taker.now, (struct rota_job_id){1, 1}, NULL), ROTA_OK);
    rota_broker_adopt_none(taker.broker, taker.now);
    bench_settle(&taker);
    compact(&taker);
    assert_false(rota_broker_has_adopted(taker.broker, name, &number));
}

static void compaction_forgets_chunks_that_have_ended(void **state)
{
    (void)state;
    struct rota_chunk_view view;
    struct rota_job_id name = begin("far:1");
    assert_int_equal(rota_broker_chunk_end(bench.broker, bench.now, name, NULL), ROTA_OK);
    bench_settle(&bench);
    compact(&bench);
    assert_int_equal(count_chunks(&view), 0);
    assert_int_equal(open_again(), ROTA_OK);
    bench_open(&bench, "w", N_JOBS);
    for (size_t i = 0; i < N_JOBS; i++)
        bench_done(&bench, ids[i]);
}

static void jobs_in_handover_to_a_lost_broker_are_reclaimed(void **state)
{
    (void)state;
    struct rota_chunk_view view;
    size_t n_chunks, n_taken_back;
    begin("lost:1");
    assert_int_equal(rota_broker_chunks_forget(bench.broker, bench.now, rota_str("other:1"), false,
                                               &n_chunks, &n_taken_back, NULL),
                     ROTA_OK);
    assert_int_equal(n_chunks, 0);
    assert_int_equal(rota_broker_chunks_forget(bench.broker, bench.now, rota_str("lost:1"), true,
                                               &n_chunks, &n_taken_back, NULL),
                     ROTA_OK);
    assert_int_equal(n_taken_back, N_JOBS);
    assert_int_equal(open_again(), ROTA_ERR_UNAVAILABLE); /* it was only asked */
    assert_int_equal(rota_broker_chunks_forget(bench.broker, bench.now, rota_str("lost:1"), false,
                                               &n_chunks, &n_taken_back, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(n_chunks, 1);
    assert_int_equal(n_taken_back, N_JOBS);
    bench_restart(&bench); /* it is on disk */
    assert_int_equal(count_chunks(&view), 0);
    assert_int_equal(open_again(), ROTA_OK);
    bench_open(&bench, "w", N_JOBS);
    for (size_t i = 0; i < N_JOBS; i++)
        bench_done(&bench, ids[i]);
}

/* The receiver sends the jobs back before its first answer has arrived. */
static void job_that_returns_is_not_lost_with_the_chunk_that_it_left_in(void **state)
{
    (void)state;
    struct rota_chunk_view view;
    struct rota_work_record record;
    struct rota_job_id name = begin("far:1"), back;
    uint64_t number;
    take_in(name);
    assert_int_equal(rota_broker_partition_close(taker.broker, taker.now, q, 0, NULL), ROTA_OK);
    assert_int_equal(
        rota_broker_chunk_begin(taker.broker, taker.now, q, 0, rota_str("near:1"), &back, NULL),
        ROTA_OK);
    bench_settle(&taker);
    assert_int_equal(rota_broker_adopting(bench.broker, bench.now, back, NULL), ROTA_OK);
    size_t n = 0;
    for (size_t place = 0; rota_broker_chunk_next(taker.broker, back, &place, &record); n++) {
        assert_int_equal(rota_broker_adopt(bench.broker, bench.now, &record, &number, NULL),
                         ROTA_OK);
        assert_int_equal(count_chunks(&view), 1);
        assert_int_equal(view.n_jobs, N_JOBS - 1 - n);
        assert_int_equal(n_jobs(&bench), N_JOBS);
    }
    assert_int_equal(n, N_JOBS);
    assert_int_equal(rota_broker_adopted(bench.broker, bench.now, back, &number, NULL), ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(rota_broker_chunk_taken(bench.broker, bench.now, name, NULL), ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(n_jobs(&bench), N_JOBS);
    bench_restart(&bench);
    assert_int_equal(n_jobs(&bench), N_JOBS);
    for (size_t i = 0; i < N_JOBS; i++)
        assert_int_equal(bench_state(&bench, ids[i]), ROTA_JOB_WAITING);
}

static void chunk_needs_an_address_and_a_start(void **state)
{
    static char address[ROTA_JOB_KEY_MAX + 1];
    struct rota_job_id name = {5, 5}, none = {0, 0};
    uint64_t number;
    (void)state;
    memset(address, 'a', sizeof address);
    assert_int_equal(
        rota_broker_chunk_begin(bench.broker, bench.now, q, 0, rota_str(""), &name, NULL),
        ROTA_ERR_INVALID);
    assert_int_equal(rota_broker_chunk_begin(bench.broker, bench.now, q, 0,
                                             rota_str_of(address, sizeof address), &name, NULL),
                     ROTA_ERR_INVALID);
    bench_own(&bench, "open"); /* whose jobs may run here any time */
    bench_add_spec(&bench, (struct rota_job_spec){.queue = rota_str("open")});
    assert_int_equal(rota_broker_chunk_begin(bench.broker, bench.now, rota_str("open"), 0,
                                             rota_str("far:1"), &name, NULL),
                     ROTA_ERR_INVALID);
    name = begin("far:1");
    assert_int_equal(rota_broker_adopting(bench.broker, bench.now, name, NULL), ROTA_ERR_INVALID);
    assert_int_equal(rota_broker_adopting(taker.broker, taker.now, none, NULL), ROTA_ERR_INVALID);
    assert_int_equal(rota_broker_adopted(taker.broker, taker.now, none, &number, NULL),
                     ROTA_ERR_INVALID);
    assert_int_equal(rota_broker_adopted(taker.broker, taker.now, name, &number, NULL),
                     ROTA_ERR_INVALID);
    assert_int_equal(rota_broker_adopting(taker.broker, taker.now, name, NULL), ROTA_OK);
    assert_int_equal(
        rota_broker_adopted(taker.broker, taker.now, (struct rota_job_id){6, 6}, &number, NULL),
        ROTA_ERR_INVALID);
    assert_int_equal(rota_broker_adopted(taker.broker, taker.now, name, &number, NULL), ROTA_OK);
    assert_int_equal(number, rota_broker_last_number(taker.broker));
}

static struct rota_job_id receive_empty(uint64_t low)
{
    struct rota_job_id name = {9, low};
    uint64_t number;
    assert_int_equal(rota_broker_adopting(taker.broker, taker.now, name, NULL), ROTA_OK);
    assert_int_equal(rota_broker_adopted(taker.broker, taker.now, name, &number, NULL), ROTA_OK);
    bench_settle(&taker);
    return name;
}

static void name_of_a_chunk_is_kept_for_an_hour_after_it_is_over(void **state)
{
    struct rota_job_id names[4];
    uint64_t number, again;
    (void)state;
    for (uint64_t i = 0; i < 4; i++)
        names[i] = receive_empty(i + 1);
    for (int i = 1; i < 3; i++)
        assert_int_equal(rota_broker_adopted_over(taker.broker, taker.now, names[i], &number, NULL),
                         ROTA_OK);
    assert_int_equal(number, rota_broker_last_number(taker.broker));
    assert_int_equal(rota_broker_adopted_over(taker.broker, taker.now, names[2], &again, NULL),
                     ROTA_OK); /* said again */
    assert_int_equal(again, number);
    bench_settle(&taker);
    bench_tick(&taker, ROTA_BROKER_TAKEN_KEEP);
    receive_empty(5);
    assert_true(rota_broker_has_adopted(taker.broker, names[1], &number));
    bench_tick(&taker, 1);
    assert_int_equal(rota_broker_adopted_over(taker.broker, taker.now, names[0], &number, NULL),
                     ROTA_OK);
    receive_empty(6);
    for (int i = 0; i < 4; i++)
        assert_int_equal(rota_broker_has_adopted(taker.broker, names[i], &number),
                         i == 0 || i == 3);
    bench_restart(&taker);
    for (int i = 0; i < 4; i++)
        assert_int_equal(rota_broker_has_adopted(taker.broker, names[i], &number),
                         i == 0 || i == 3);
}

/* Its sender begins again, under another name: what had arrived goes, and nothing is refused. */
static void chunk_that_did_not_arrive_whole_makes_room_for_the_next(void **state)
{
    struct rota_work_record record;
    uint64_t number;
    size_t place = 0;
    (void)state;
    struct rota_job_id name = begin("taker:1");
    assert_int_equal(rota_broker_adopting(taker.broker, taker.now, name, NULL), ROTA_OK);
    assert_true(rota_broker_chunk_next(bench.broker, name, &place, &record));
    assert_int_equal(rota_broker_adopt(taker.broker, taker.now, &record, &number, NULL), ROTA_OK);
    bench_settle(&taker);
    assert_int_equal(n_jobs(&taker), 1);
    assert_int_equal(
        rota_broker_adopting(taker.broker, taker.now, (struct rota_job_id){5, 6}, NULL), ROTA_OK);
    bench_settle(&taker);
    assert_int_equal(n_jobs(&taker), 0);
    rota_broker_adopt_none(taker.broker, taker.now);
    bench_settle(&taker);
    take_in(name);
    assert_int_equal(n_jobs(&taker), N_JOBS);
}

static void chunks_in_handover_are_bounded(void **state)
{
    struct rota_job_id name;
    (void)state;
    assert_int_equal(open_again(), ROTA_OK);
    for (size_t i = 0; i < (size_t)ROTA_BROKER_CHUNKS_MAX; i++) {
        struct rota_job_spec spec = {.id = rota_job_id_make(bench.now.wall, (uint32_t)i + 1, 7),
                                     .partition = (uint32_t)i + 1};
        assert_int_equal(
            rota_broker_partition_open(bench.broker, bench.now, q, spec.partition, 1, NULL),
            ROTA_OK);
        bench_add_spec(&bench, spec);
        assert_int_equal(
            rota_broker_partition_close(bench.broker, bench.now, q, spec.partition, NULL), ROTA_OK);
        assert_int_equal(rota_broker_chunk_begin(bench.broker, bench.now, q, spec.partition,
                                                 rota_str("far:1"), &name, NULL),
                         ROTA_OK);
        bench_take(&bench);
    }
    assert_int_equal(rota_broker_partition_close(bench.broker, bench.now, q, 0, NULL), ROTA_OK);
    assert_int_equal(
        rota_broker_chunk_begin(bench.broker, bench.now, q, 0, rota_str("far:1"), &name, NULL),
        ROTA_ERR_LIMIT);
}

int main(void)
{
#define RULE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        RULE(compaction_keeps_jobs_in_handover),
        RULE(compaction_keeps_received_chunks_on_both_sides),
        RULE(compaction_forgets_chunks_that_have_ended),
        RULE(jobs_in_handover_to_a_lost_broker_are_reclaimed),
        RULE(job_that_returns_is_not_lost_with_the_chunk_that_it_left_in),
        RULE(chunk_needs_an_address_and_a_start),
        RULE(name_of_a_chunk_is_kept_for_an_hour_after_it_is_over),
        RULE(chunk_that_did_not_arrive_whole_makes_room_for_the_next),
        RULE(chunks_in_handover_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
