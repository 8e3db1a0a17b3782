/* Attempts that are lost: when the job waits, when it is dead, which worker may continue it, and
 * which losses are the broker's own fault. */
#include "broker_rules.h"

#include <string.h>

static struct rota_str q;

/* The worker that has the job dies. */
static void die_at(struct rota_job_id id, const char *name)
{
    bench_look(&bench);
    uint64_t session = bench_open(&bench, name, 1);
    bench_tick(&bench, ROTA_JOB_BACKOFF_MAX);
    assert_int_equal(bench_session_of(&bench, id), session);
    rota_broker_worker_lost(bench.broker, bench.now, session, false);
    bench_settle(&bench);
}

static char *why(struct rota_job_id id)
{
    static char text[512];
    return rota_broker_explain(bench.broker, bench.now, q, id, text, sizeof text);
}

static int begin(void **state)
{
    q = rota_str("q");
    return set_up(state);
}

/* --- deaths --- */

static void a_job_whose_worker_dies_waits_as_if_it_had_failed(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    uint64_t first = bench_open(&bench, "a", 1);
    bench_open(&bench, "b", 1);
    rota_broker_worker_lost(bench.broker, bench.now, first, false);
    bench_settle(&bench);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
    bench_tick(&bench, ROTA_JOB_BACKOFF_FIRST / 2);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
    bench_tick(&bench, ROTA_JOB_BACKOFF_FIRST);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    assert_int_equal(bench_view(&bench, id).n_attempts, 2);
}

static void a_job_that_kills_three_workers_is_dead_and_names_them(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    die_at(id, "A");
    bench_restart(&bench); /* the count is kept */
    die_at(id, "B");
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
    rota_broker_rewrite(bench.broker, UINT64_MAX, SIZE_MAX, SIZE_MAX); /* also so */
    bench_settle(&bench);
    bench_restart(&bench);
    die_at(id, "C");
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DEAD);
    assert_true(
        rota_str_is_equal(bench_view(&bench, id).reason, rota_str("killed 3 workers: A, B, C")));
    assert_string_equal(why(id), "dead: quarantined because it killed 3 workers: A, B, C; run it "
                                 "again with `rota job retry`");
    struct rota_queue_view queue;
    struct rota_str place = {0};
    assert_true(rota_broker_next_queue(bench.broker, &place, &queue));
    assert_int_equal(queue.n_quarantined, 1);
    bench_restart(&bench);
    assert_string_equal(why(id), "dead: quarantined because it killed 3 workers: A, B, C; run it "
                                 "again with `rota job retry`");

    /* It is released as any dead job is, and may kill three more. */
    assert_int_equal(rota_broker_revive(bench.broker, bench.now, q, id, &bench.number, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    die_at(id, "D");
    die_at(id, "E");
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
    bench_open(&bench, "F", 1);
    bench_tick(&bench, ROTA_JOB_BACKOFF_MAX);
    bench_done(&bench, id);
}

static void the_quarantine_limit_is_set_per_queue(void **state)
{
    (void)state;
    struct rota_job_id id =
        bench_add_spec(&bench, (struct rota_job_spec){.payload = rota_str("x"), .max_attempts = 9});
    assert_int_equal(rota_broker_set_kills(bench.broker, bench.now, q, 5, &bench.number, NULL),
                     ROTA_OK);
    assert_int_equal(
        rota_broker_set_kills(bench.broker, bench.now, q, 1001, &bench.number, &bench.error),
        ROTA_ERR_INVALID);
    assert_int_equal(rota_broker_pause(bench.broker, bench.now, q, true, &bench.number, NULL),
                     ROTA_OK);
    assert_int_equal(rota_broker_pause(bench.broker, bench.now, q, false, &bench.number, NULL),
                     ROTA_OK); /* leaves it as it is */
    bench_settle(&bench);
    bench_restart(&bench);
    for (int i = 0; i < 4; i++)
        die_at(id, "w");
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
    die_at(id, "w");
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DEAD);
    assert_true(rota_str_is_equal(bench_view(&bench, id).reason,
                                  rota_str("killed 5 workers: w, w, w, w, w")));
}

static bool next_limit(void *data, struct rota_work_record *setting)
{
    int *n = data;
    *setting = (struct rota_work_record){
        .type = ROTA_WORK_PAUSE, .queue = q, .weight = 1, .at = bench.now.wall};
    return (*n)-- > 0;
}

static void quarantine_limit_of_a_row_holds(void **state)
{
    int n = 1;
    (void)state;
    assert_int_equal(rota_broker_put_settings(bench.broker, bench.now, q, next_limit, &n, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    struct rota_job_id id = bench_add(&bench, "x");
    die_at(id, "A");
    assert_true(rota_str_is_equal(bench_view(&bench, id).reason, rota_str("killed 1 worker: A")));
}

static void names_that_do_not_fit_are_left_out_with_a_mark(void **state)
{
    (void)state;
    char name[ROTA_WORKER_NAME_MAX + 1];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    struct rota_job_id id = bench_add(&bench, "x");
    for (int i = 0; i < 3; i++)
        die_at(id, name);
    struct rota_str reason = bench_view(&bench, id).reason;
    assert_int_equal(reason.size, strlen("killed 3 workers: ") + strlen(name) + 5); /* once */
    assert_memory_equal(reason.data + reason.size - 5, ", ...", 5);
}

/* The broker hears of it before its next tick. */
static void a_death_is_dated_by_its_report(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    uint64_t session = bench_open(&bench, "w", 1);
    bench.now.boot += ROTA_HOUR;
    bench.now.wall += ROTA_HOUR;
    rota_broker_worker_lost(bench.broker, bench.now, session, false);
    bench_settle(&bench);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
    assert_true(bench_view(&bench, id).not_before > bench.now.wall);
}

static void a_worker_that_leaves_cleanly_is_not_a_death(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    for (int i = 0; i < 4; i++) {
        uint64_t session = bench_open(&bench, "w", 1);
        assert_int_equal(bench_session_of(&bench, id), session);
        rota_broker_worker_close(bench.broker, bench.now, session);
        bench_settle(&bench);
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_WAITING); /* for others, at once */
    }
}

static void a_lease_that_runs_out_again_and_again_is_a_death_each_time(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    for (int i = 0; i < 3; i++) {
        bench_open_spec(&bench, (struct rota_worker_spec){.name = rota_str("poller"),
                                                          .slots = 1,
                                                          .lease = ROTA_SEC,
                                                          .is_poll = true});
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
        bench_tick(&bench, 10 * ROTA_SEC);
    }
    assert_true(rota_str_is_equal(bench_view(&bench, id).reason,
                                  rota_str("killed 3 workers: poller, poller, poller")));
}

static void a_worker_that_is_late_has_not_died(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add_spec(
        &bench,
        (struct rota_job_spec){.max_attempts = 20, .backoff = ROTA_SEC, .backoff_max = ROTA_SEC});
    for (int i = 0; i < 8; i++) {
        uint64_t before = bench_view(&bench, id).attempt;
        bench_open_spec(
            &bench, (struct rota_worker_spec){
                        .name = rota_str("slow"), .slots = 1, .lease = ROTA_SEC, .is_poll = true});
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
        const struct rota_attempt_end end = {
            .queue = q, .id = id, .attempt = before, .cause = ROTA_JOB_CAUSE_DONE};
        if (i > 0 && i < 6)
            assert_int_equal(
                i % 2 ? rota_broker_end(bench.broker, bench.now, &end, &bench.number, NULL)
                      : rota_broker_extend(bench.broker, bench.now, q, id, before, 0, 0,
                                           rota_str(""), NULL),
                ROTA_ERR_STALE);
        bench_tick(&bench, 10 * ROTA_SEC);
    }
    assert_true(rota_str_is_equal(bench_view(&bench, id).reason,
                                  rota_str("killed 3 workers: slow, slow, slow")));
}

static void a_node_may_report_the_death_of_its_worker(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open_spec(&bench,
                    (struct rota_worker_spec){
                        .name = rota_str("w"), .slots = 1, .lease = ROTA_SEC, .is_poll = true});
    uint64_t attempt = bench_view(&bench, id).attempt, number;
    assert_int_equal(
        rota_broker_lose(bench.broker, bench.now, q, id, attempt + 1, &bench.number, NULL),
        ROTA_ERR_STALE);
    assert_int_equal(rota_broker_lose(bench.broker, bench.now, q, id, attempt, &number, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
    assert_int_equal(rota_broker_lose(bench.broker, bench.now, q, id, attempt, &bench.number, NULL),
                     ROTA_OK);
    assert_int_equal(bench.number, number); /* said again */
}

/* --- who continues --- */

static void a_lost_attempt_continues_when_its_worker_returns(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    die_at(id, "A");
    die_at(id, "B");
    uint64_t attempt = bench_view(&bench, id).attempt;
    for (int i = 0; i < 4; i++) { /* also when the broker was restarted, or its journal cut */
        uint64_t thief = bench_open_running(&bench, "thief", id, attempt, 0);
        assert_int_equal(bench_last(&bench, ROTA_WORK_DO_CANCEL).session, thief);
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
        rota_broker_worker_close(bench.broker, bench.now, thief);
        uint64_t session = bench_open_running(&bench, "B", id, attempt, 0);
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
        assert_int_equal(bench_view(&bench, id).attempt, attempt);
        assert_int_equal(bench_view(&bench, id).n_attempts, 2); /* it counts once */
        assert_true(bench_view(&bench, id).is_attempt_open);
        if (i % 2)
            bench_restart(&bench);
        if (i % 2)
            session = bench_open_running(&bench, "B", id, attempt, 0);
        /* It dies in truth; had the first one counted this would be the third. */
        rota_broker_worker_lost(bench.broker, bench.now, session, false);
        bench_settle(&bench);
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
        if (i == 2)
            bench_restart(&bench);
    }
    bench_open(&bench, "other", 1);
    bench_tick(&bench, ROTA_JOB_BACKOFF_MAX); /* it is another's now */
    bench_look(&bench);
    bench_open_running(&bench, "B", id, attempt, 0);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_CANCEL, id), 1);
    assert_int_equal(bench_view(&bench, id).n_attempts, 3);
    bench_done(&bench, id);
}

/* A job as a whole, in place of its records, tells as much of the attempt as these did. */
static void write_anew(void)
{
    rota_broker_rewrite(bench.broker, UINT64_MAX, SIZE_MAX, SIZE_MAX);
    bench_settle(&bench);
    bench_restart(&bench);
}

static void a_lost_attempt_continues_after_its_job_was_rewritten(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    die_at(id, "A");
    die_at(id, "B");
    uint64_t attempt = bench_view(&bench, id).attempt;
    for (int i = 0; i < 3; i++) {
        write_anew();
        uint64_t thief = bench_open_running(&bench, "thief", id, attempt, 0);
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
        rota_broker_worker_close(bench.broker, bench.now, thief);
        uint64_t session = bench_open_running(&bench, "B", id, attempt, 0);
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
        assert_int_equal(bench_view(&bench, id).n_attempts, 2);
        /* It dies in truth; had the first one counted this would be the third. */
        rota_broker_worker_lost(bench.broker, bench.now, session, false);
        bench_settle(&bench);
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
    }
    die_at(id, "C");
    assert_true(
        rota_str_is_equal(bench_view(&bench, id).reason, rota_str("killed 3 workers: A, B, C")));
}

static void a_lost_attempt_is_ended_or_extended_by_its_worker(void **state)
{
    (void)state;
    struct rota_worker_spec poll = {
        .name = rota_str("p"), .slots = 1, .lease = ROTA_SEC, .is_poll = true};
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open_spec(&bench, poll);
    uint64_t attempt = bench_view(&bench, id).attempt;
    bench_tick(&bench, ROTA_SEC);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
    assert_int_equal(rota_broker_extend(bench.broker, bench.now, q, id, attempt, 0, ROTA_SEC,
                                        rota_str("half"), NULL),
                     ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    bench_tick(&bench, 10 * ROTA_SEC);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_WAITING); /* lost again; nobody wants it */
    bench_restart(&bench);
    uint64_t zmq = bench_open_for(&bench, "z", 0, "none");
    struct rota_attempt_end end = {
        .queue = q, .id = id, .attempt = attempt, .session = zmq, .cause = ROTA_JOB_CAUSE_DONE};
    assert_int_equal(rota_broker_end(bench.broker, bench.now, &end, &bench.number, NULL),
                     ROTA_ERR_STALE); /* who has a session claims it first */
    assert_int_equal(bench_end(&bench, id, attempt, ROTA_JOB_CAUSE_DONE, "late"), ROTA_OK);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DONE);
    bench_restart(&bench);
    assert_true(rota_str_is_equal(bench_view(&bench, id).result, rota_str("late")));
    assert_int_equal(bench_view(&bench, id).n_attempts, 1);
}

static void a_job_released_from_quarantine_has_no_worker(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    for (int i = 0; i < 3; i++)
        die_at(id, "w");
    uint64_t attempt = bench_view(&bench, id).attempt;
    assert_int_equal(rota_broker_revive(bench.broker, bench.now, q, id, &bench.number, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(bench_end(&bench, id, attempt, ROTA_JOB_CAUSE_DONE, ""), ROTA_ERR_STALE);
}

/* Another broker takes over all jobs. */
static void hand_over(struct bench *taker)
{
    struct rota_work_record record;
    size_t place = 0;
    taker->options.seed = 8;
    bench_init(taker);
    assert_int_equal(rota_broker_partition_close(bench.broker, bench.now, q, 0, NULL), ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(rota_broker_partition_open(taker->broker, taker->now, q, 0, 2, NULL), ROTA_OK);
    while (rota_broker_partition_next(bench.broker, q, 0, &place, &record))
        assert_int_equal(
            rota_broker_adopt(taker->broker, taker->now, &record, &taker->number, NULL), ROTA_OK);
    bench_settle(taker);
}

static void a_lost_attempt_continues_at_the_next_owner_of_its_job(void **state)
{
    (void)state;
    struct bench taker = {0};
    struct rota_job_id ids[2] = {bench_add(&bench, "x"), bench_add(&bench, "y")};
    struct rota_job_id withdrawn = bench_add(&bench, "z");
    uint64_t session = bench_open(&bench, "w", 2), attempts[2];
    for (int i = 0; i < 2; i++)
        attempts[i] = bench_view(&bench, ids[i]).attempt;
    rota_broker_worker_lost(bench.broker, bench.now, session, false);
    bench_settle(&bench);
    bench_open(&bench, "v", 1);
    uint64_t cancelled = bench_view(&bench, withdrawn).attempt;
    assert_int_not_equal(cancelled, 0);
    hand_over(&taker);
    for (int i = 0; i < 2; i++)
        assert_int_equal(bench_end(&bench, ids[i], attempts[i], ROTA_JOB_CAUSE_DONE, ""),
                         ROTA_ERR_STALE); /* it is not the former owner's to take */
    assert_int_equal(bench_end(&taker, withdrawn, cancelled, ROTA_JOB_CAUSE_DONE, ""),
                     ROTA_ERR_STALE); /* the move cancelled it */
    assert_int_equal(bench_end(&taker, ids[0], attempts[0], ROTA_JOB_CAUSE_DONE, "late"), ROTA_OK);
    assert_int_equal(bench_state(&taker, ids[0]), ROTA_JOB_DONE);
    bench_tick(&taker, ROTA_JOB_BACKOFF_MAX);
    bench_open(&taker, "other", 2); /* has the rest from now on */
    assert_int_equal(bench_end(&taker, ids[1], attempts[1], ROTA_JOB_CAUSE_DONE, ""),
                     ROTA_ERR_STALE);
    bench_restart(&taker); /* no record contradicts another */
    assert_int_equal(bench_state(&taker, ids[0]), ROTA_JOB_DONE);
    bench_deinit(&taker);
}

/* --- our own fault --- */

static void an_excused_worker_has_time_to_return(void **state)
{
    (void)state;
    struct rota_job_id id =
        bench_add_spec(&bench, (struct rota_job_spec){.payload = rota_str("x"), .max_attempts = 1});
    uint64_t session = bench_open(&bench, "w", 1);
    uint64_t attempt = bench_view(&bench, id).attempt;
    rota_broker_worker_lost(bench.broker, bench.now, session, true);
    bench_settle(&bench);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    bench_tick(&bench, ROTA_BROKER_GRACE - ROTA_MSEC);
    session = bench_open_running(&bench, "w", id, attempt, 0);
    bench_tick(&bench, ROTA_MIN);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    rota_broker_worker_lost(bench.broker, bench.now, session, true);
    bench_tick(&bench, ROTA_BROKER_GRACE); /* it never comes: that costs no attempt */
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_WAITING);
    assert_int_equal(bench_view(&bench, id).n_attempts, 0);
    bench_open_running(&bench, "w", id, attempt, 0);
    assert_int_equal(bench_view(&bench, id).attempt, attempt);
    assert_int_equal(bench_view(&bench, id).n_attempts, 1);
    bench_done(&bench, id);
}

static void an_uncounted_attempt_is_counted_when_it_continues_elsewhere(void **state)
{
    (void)state;
    struct bench taker = {0};
    struct rota_job_id id = bench_add(&bench, "x");
    uint64_t session = bench_open(&bench, "w", 1);
    uint64_t attempt = bench_view(&bench, id).attempt;
    rota_broker_worker_lost(bench.broker, bench.now, session, true);
    bench_tick(&bench, ROTA_BROKER_GRACE);
    assert_int_equal(bench_view(&bench, id).n_attempts, 0);
    bench_restart(&bench);
    assert_int_equal(
        rota_broker_extend(bench.broker, bench.now, q, id, attempt, 0, 0, rota_str(""), NULL),
        ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(bench_view(&bench, id).n_attempts, 1);
    bench_tick(&bench, ROTA_BROKER_GRACE); /* lost again by our fault */
    assert_int_equal(bench_view(&bench, id).n_attempts, 0);
    hand_over(&taker);
    assert_int_equal(bench_end(&taker, id, attempt, ROTA_JOB_CAUSE_GIVEN_BACK, ""), ROTA_OK);
    assert_int_equal(bench_view(&taker, id).n_attempts, 0);
    bench_deinit(&taker);
}

/* The second attempt: the count does not tell that it was not counted. */
static void an_uncounted_attempt_is_counted_after_its_job_was_rewritten(void **state)
{
    (void)state;
    struct bench taker = {0};
    struct rota_job_id id = bench_add(&bench, "x");
    die_at(id, "A");
    bench_tick(&bench, ROTA_JOB_BACKOFF_MAX);
    uint64_t session = bench_open(&bench, "w", 1);
    uint64_t attempt = bench_view(&bench, id).attempt;
    rota_broker_worker_lost(bench.broker, bench.now, session, true);
    bench_tick(&bench, ROTA_BROKER_GRACE);
    assert_int_equal(bench_view(&bench, id).n_attempts, 1);
    write_anew();
    session = bench_open_running(&bench, "w", id, attempt, 0);
    assert_int_equal(bench_view(&bench, id).n_attempts, 2);
    rota_broker_worker_lost(bench.broker, bench.now, session, true);
    bench_tick(&bench, ROTA_BROKER_GRACE); /* lost again by our fault */
    assert_int_equal(bench_view(&bench, id).n_attempts, 1);
    hand_over(&taker);
    bench_open_running(&taker, "thief", id, attempt, 0);
    assert_int_not_equal(bench_view(&taker, id).attempt, attempt);
    bench_deinit(&taker);
}

static void a_paused_broker_gives_all_workers_time_for_a_heartbeat(void **state)
{
    (void)state;
    struct rota_job_id leased =
        bench_add_spec(&bench, (struct rota_job_spec){.payload = rota_str("x"), .max_attempts = 1});
    struct rota_job_id held =
        bench_add_spec(&bench, (struct rota_job_spec){.payload = rota_str("y"), .max_attempts = 1});
    bench_open_spec(&bench,
                    (struct rota_worker_spec){
                        .name = rota_str("p"), .slots = 1, .lease = 2 * ROTA_SEC, .is_poll = true});
    uint64_t session = bench_open_spec(
        &bench,
        (struct rota_worker_spec){.name = rota_str("w"), .slots = 1, .liveness = 2 * ROTA_SEC});
    assert_int_equal(bench_state(&bench, held), ROTA_JOB_RUNNING);
    bench_stall(&bench, 10 * ROTA_SEC);
    assert_int_equal(bench_state(&bench, leased), ROTA_JOB_RUNNING);
    assert_int_equal(bench_state(&bench, held), ROTA_JOB_RUNNING);
    bench_tick(&bench, ROTA_BROKER_GRACE - ROTA_MSEC);
    assert_int_equal(rota_broker_extend(bench.broker, bench.now, q, leased,
                                        bench_view(&bench, leased).attempt, 0, 0, rota_str(""),
                                        NULL),
                     ROTA_OK);
    assert_true(rota_broker_worker_heard(bench.broker, bench.now, session));
    bench_tick(&bench, ROTA_SEC);
    assert_int_equal(bench_state(&bench, leased), ROTA_JOB_RUNNING);
    assert_int_equal(bench_state(&bench, held), ROTA_JOB_RUNNING);
    bench_tick(&bench, 2 * ROTA_SEC); /* who is unresponsive all the same is lost */
    assert_int_equal(bench_state(&bench, leased), ROTA_JOB_DEAD);
    assert_int_equal(bench_state(&bench, held), ROTA_JOB_DEAD);
}

/* The lease has hardly expired when we are back. */
static void a_pause_slightly_longer_than_a_lease_is_not_a_death(void **state)
{
    (void)state;
    struct rota_job_id id =
        bench_add_spec(&bench, (struct rota_job_spec){.payload = rota_str("x"), .max_attempts = 1});
    bench_open_spec(&bench,
                    (struct rota_worker_spec){
                        .name = rota_str("p"), .slots = 1, .lease = 2 * ROTA_SEC, .is_poll = true});
    bench_tick(&bench, 100 * ROTA_MSEC);
    bench.now.boot += 2 * ROTA_SEC;
    bench.now.wall += 2 * ROTA_SEC;
    bench_add(&bench, "y"); /* which comes before the tick */
    bench_stall(&bench, 0);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    bench_tick(&bench, ROTA_BROKER_GRACE);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DEAD);
}

static void a_slightly_late_tick_excuses_no_worker(void **state)
{
    (void)state;
    struct rota_job_id id =
        bench_add_spec(&bench, (struct rota_job_spec){.payload = rota_str("x"), .max_attempts = 1});
    bench_open_spec(&bench,
                    (struct rota_worker_spec){
                        .name = rota_str("p"), .slots = 1, .lease = 2 * ROTA_SEC, .is_poll = true});
    bench_tick(&bench, 2 * ROTA_SEC - 1);
    bench_stall(&bench, ROTA_BROKER_STALL);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DEAD);
}

int main(void)
{
#define LOSS(name) cmocka_unit_test_setup_teardown(name, begin, tear_down)
    const struct CMUnitTest tests[] = {
        LOSS(a_job_whose_worker_dies_waits_as_if_it_had_failed),
        LOSS(a_job_that_kills_three_workers_is_dead_and_names_them),
        LOSS(the_quarantine_limit_is_set_per_queue),
        LOSS(quarantine_limit_of_a_row_holds),
        LOSS(names_that_do_not_fit_are_left_out_with_a_mark),
        LOSS(a_death_is_dated_by_its_report),
        LOSS(a_worker_that_leaves_cleanly_is_not_a_death),
        LOSS(a_lease_that_runs_out_again_and_again_is_a_death_each_time),
        LOSS(a_worker_that_is_late_has_not_died),
        LOSS(a_node_may_report_the_death_of_its_worker),
        LOSS(a_lost_attempt_continues_when_its_worker_returns),
        LOSS(a_lost_attempt_continues_after_its_job_was_rewritten),
        LOSS(an_uncounted_attempt_is_counted_after_its_job_was_rewritten),
        LOSS(a_lost_attempt_is_ended_or_extended_by_its_worker),
        LOSS(a_job_released_from_quarantine_has_no_worker),
        LOSS(a_lost_attempt_continues_at_the_next_owner_of_its_job),
        LOSS(an_excused_worker_has_time_to_return),
        LOSS(an_uncounted_attempt_is_counted_when_it_continues_elsewhere),
        LOSS(a_paused_broker_gives_all_workers_time_for_a_heartbeat),
        LOSS(a_pause_slightly_longer_than_a_lease_is_not_a_death),
        LOSS(a_slightly_late_tick_excuses_no_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
