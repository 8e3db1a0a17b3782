/* The rules of core/work/broker/broker.h, one test for each: workers and their sessions. */
#include "broker_rules.h"
#include "core/work/broker/broker_inside.h"

#include <stdio.h>
#include <string.h>

/* --- workers --- */

static void a_worker_without_heartbeat_is_lost_and_its_jobs_go_elsewhere(void **state)
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
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED); /* it may have killed it */
    bench_tick(&bench, 2 * ROTA_JOB_BACKOFF_FIRST);
    assert_int_equal(bench_session_of(&bench, id), other);
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
    bench_tick(&bench, 2 * ROTA_JOB_BACKOFF_FIRST);
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

static void a_new_session_may_continue_attempts_of_the_older_one(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    open_epoch("w", 1);
    uint64_t attempt = bench_view(&bench, id).attempt;
    uint64_t newer = bench_open_running(&bench, "w", id, attempt, 2);
    assert_int_equal(bench_view(&bench, id).attempt, attempt);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_CANCEL, BENCH_NONE), 0);
    assert_int_equal(bench_count(&bench, ROTA_WORK_TELL_LOST, BENCH_NONE), 1);
    rota_broker_worker_close(bench.broker, bench.now, newer);
    bench_settle(&bench);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_WAITING);
}

static void no_worker_can_claim_anothers_attempt(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    uint64_t owner = open_epoch("owner", 1);
    uint64_t thief = bench_open_running(&bench, "thief", id, bench_view(&bench, id).attempt, 1);
    struct rota_work_effect told = bench_last(&bench, ROTA_WORK_DO_CANCEL);
    assert_int_equal(told.session, thief);
    assert_true(rota_str_is_equal(told.queue, rota_str("q")) && bench_id_is(told.id, id));
    assert_int_equal(told.attempt, bench_view(&bench, id).attempt);
    assert_int_equal(told.cause, ROTA_JOB_CAUSE_LOST);
    assert_true(rota_str_is_equal(bench_view(&bench, id).worker, rota_str("owner")));
    rota_broker_worker_close(bench.broker, bench.now, owner);
    bench_settle(&bench);
    assert_int_equal(bench_session_of(&bench, id), thief);
}

static void a_job_that_did_not_reach_its_worker_is_handed_out_again(void **state)
{
    (void)state;
    struct rota_job_id came = bench_add(&bench, "x"), lost = bench_add(&bench, "y");
    uint64_t session = bench_open(&bench, "w", 2);
    uint64_t up_to = bench_last(&bench, ROTA_WORK_DO_DISPATCH).handed;
    uint64_t attempt = bench_view(&bench, lost).attempt;
    struct rota_worker_running held = {rota_str("q"), came, bench_view(&bench, came).attempt};
    assert_int_equal(
        rota_broker_worker_holds(bench.broker, bench.now, session, up_to - 1, &held, 1, NULL),
        ROTA_OK); /* what was sent after the question is not judged */
    assert_int_equal(bench_view(&bench, lost).attempt, attempt);
    assert_int_equal(
        rota_broker_worker_holds(bench.broker, bench.now, session, up_to, &held, 1, NULL), ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(bench_view(&bench, came).attempt, held.attempt);
    assert_int_equal(bench_state(&bench, lost), ROTA_JOB_RUNNING);
    assert_true(bench_view(&bench, lost).attempt > attempt);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_CANCEL, BENCH_NONE), 0);
    assert_int_equal(
        rota_broker_worker_holds(bench.broker, bench.now, session + 1, up_to, NULL, 0, NULL),
        ROTA_ERR_NOT_FOUND);
}

static void an_attempt_that_a_worker_should_not_have_is_cancelled_again(void **state)
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

static void a_worker_that_repeats_its_capabilities_keeps_attempts_in_flight(void **state)
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
                                        bench_view(&bench, a).attempt, 0, 0, rota_str("half"),
                                        NULL),
                     ROTA_OK);
    bench_settle(&bench);
    assert_true(rota_str_is_equal(bench_view(&bench, a).progress, rota_str("half")));
    bench_tick(&bench, 9 * ROTA_SEC);
    assert_int_equal(bench_state(&bench, a), ROTA_JOB_RUNNING);
    bench_tick(&bench, ROTA_SEC);
    assert_int_equal(bench_state(&bench, a), ROTA_JOB_DELAYED);
    bench_tick(&bench, 2 * ROTA_JOB_BACKOFF_FIRST);
    assert_int_equal(bench_state(&bench, a), ROTA_JOB_WAITING);
    bench_look(&bench);
    bench_open_spec(&bench, poll); /* both at once, and it is gone */
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_DISPATCH, BENCH_NONE), 2);
    bench_done(&bench, a);
}

static void invalid_workers_are_refused(void **state)
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

/* What a worker brings back was handed out before it came, not when the broker began. */
static void a_returning_worker_is_not_judged_by_an_older_question(void **state)
{
    (void)state;
    for (int is_known = 0; is_known < 2; is_known++) {
        struct rota_job_id id = bench_add(&bench, "x");
        bench_open(&bench, "w", 1);
        uint64_t attempt = bench_view(&bench, id).attempt;
        size_t n_kept = bench.journal.size;
        while (!is_known && bench.journal.items[n_kept - 1].type != ROTA_WORK_ADD)
            n_kept--; /* the start was not on disk */
        bench_crash(&bench, n_kept);
        assert_int_equal(
            rota_broker_pause(bench.broker, bench.now, rota_str("q"), true, &bench.number, NULL),
            ROTA_OK);
        bench_own(&bench, "r");
        for (int i = 0; i < 2; i++)
            bench_add_spec(&bench, (struct rota_job_spec){.queue = rota_str("r")});
        struct rota_str queue = rota_str("r");
        bench_open_spec(
            &bench, (struct rota_worker_spec){
                        .name = rota_str("other"), .slots = 2, .queues = &queue, .n_queues = 1});
        uint64_t handed = bench_last(&bench, ROTA_WORK_DO_DISPATCH).handed;
        assert_int_equal(handed, 2);
        uint64_t session = bench_open_running(&bench, "w", id, attempt, 0);
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
        assert_int_equal(bench_view(&bench, id).n_attempts, 1);
        const struct rota_work_record *last = &bench.journal.items[bench.journal.size - 1];
        while (last->type != ROTA_WORK_START || !bench_id_is(last->id, id))
            last--;
        assert_int_equal(last->n_attempts, 1); /* what the next life reads */
        assert_int_equal(last->attempt, attempt);
        assert_int_equal(
            rota_broker_worker_holds(bench.broker, bench.now, session, handed - 1, NULL, 0, NULL),
            ROTA_OK);
        bench_settle(&bench);
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
        assert_int_equal(bench_view(&bench, id).attempt, attempt);
        assert_int_equal(
            rota_broker_worker_holds(bench.broker, bench.now, session, handed, NULL, 0, NULL),
            ROTA_OK);
        bench_settle(&bench);
        assert_int_not_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
        bench_deinit(&bench);
        bench_init(&bench);
    }
}

static void polls_of_many_workers_end_in_any_order(void **state)
{
    static const size_t ORDERS[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {0, 2, 1}, {1, 2, 0}};
    static const char *const NAMES[] = {"a", "b", "c"};
    (void)state;
    for (size_t i = 0; i < sizeof ORDERS / sizeof *ORDERS; i++) {
        uint64_t sessions[3];
        for (size_t k = 0; k < 3; k++)
            sessions[k] = bench_open_spec(
                &bench,
                (struct rota_worker_spec){
                    .name = rota_str(NAMES[k]), .slots = 1, .lease = ROTA_SEC, .is_poll = true});
        for (size_t k = 0; k < 3; k++) {
            rota_broker_worker_close(bench.broker, bench.now, sessions[ORDERS[i][k]]);
            bench_settle(&bench);
            struct rota_queue_view view;
            struct rota_str after = {0};
            assert_true(rota_broker_next_queue(bench.broker, &after, &view));
            assert_int_equal(view.n_workers, 2 - k);
        }
    }
}

static void sessions_of_another_life_are_others(void **state)
{
    (void)state;
    uint64_t before = bench_open(&bench, "w", 1);
    bench_restart(&bench);
    uint64_t after = bench_open(&bench, "w", 1);
    assert_true(after != before);
    assert_true(after != bench_open(&bench, "v", 1));
    assert_false(rota_broker_worker_heard(bench.broker, bench.now, before));
    assert_true(rota_broker_worker_heard(bench.broker, bench.now, after));
}

static void workers_at_the_bounds_are_welcome(void **state)
{
    static char texts[ROTA_WORKER_CAPABILITIES_MAX][8], name[ROTA_WORKER_NAME_MAX];
    static struct rota_str names[ROTA_WORKER_CAPABILITIES_MAX];
    uint64_t session;
    (void)state;
    memset(name, 'n', sizeof name);
    for (size_t i = 0; i < ROTA_WORKER_CAPABILITIES_MAX; i++) {
        snprintf(texts[i], sizeof texts[i], "c%zu", i);
        names[i] = rota_str(texts[i]);
    }
    struct rota_worker_spec spec = {.name = rota_str_of(name, sizeof name),
                                    .slots = ROTA_WORKER_SLOTS_MAX,
                                    .queues = names,
                                    .n_queues = ROTA_WORKER_QUEUES_MAX,
                                    .capabilities = names,
                                    .n_capabilities = ROTA_WORKER_CAPABILITIES_MAX};
    assert_int_equal(bench_try_open(&bench, &spec, &session), ROTA_OK);
    spec.is_poll = true;
    assert_int_equal(bench_try_open(&bench, &spec, &session), ROTA_ERR_INVALID);
    spec.lease = 1;
    assert_int_equal(bench_try_open(&bench, &spec, &session), ROTA_OK);
    struct rota_str twice[] = {rota_str("q"), rota_str("q")};
    struct rota_queue_view view;
    session = bench_open_spec(
        &bench, (struct rota_worker_spec){
                    .name = rota_str("w"), .slots = 1, .queues = twice, .n_queues = 2});
    assert_true(rota_broker_find_queue(bench.broker, rota_str("q"), &view));
    assert_int_equal(view.n_workers, 1); /* said twice, there once */
    rota_broker_worker_close(bench.broker, bench.now, session);
    bench_settle(&bench);
    assert_true(rota_broker_find_queue(bench.broker, rota_str("q"), &view));
    assert_int_equal(view.n_workers, 0);
}

static void report_about_attempts_never_handed_out_loses_nothing(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    uint64_t session = bench_open(&bench, "w", 1), attempt = bench_view(&bench, id).attempt;
    assert_int_equal(rota_broker_worker_holds(bench.broker, bench.now, session, 0, NULL, 0, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(bench_view(&bench, id).attempt, attempt);
    assert_int_equal(
        rota_broker_worker_holds(bench.broker, bench.now, session, UINT64_MAX, NULL, 0, NULL),
        ROTA_OK);
    bench_settle(&bench);
    assert_true(bench_view(&bench, id).attempt > attempt);
}

static void queue_that_a_worker_names_twice_counts_once(void **state)
{
    (void)state;
    struct rota_str queues[] = {rota_str("q"), rota_str("r"), rota_str("q"), rota_str("p")};
    uint64_t session = bench_open_spec(
        &bench, (struct rota_worker_spec){
                    .name = rota_str("w"), .slots = 1, .queues = queues, .n_queues = 4});
    const struct rota_work_class *class = rota_broker_worker(bench.broker, session)->class;
    assert_int_equal(class->n_queues, 3);
    uint64_t again = bench_open_spec(
        &bench,
        (struct rota_worker_spec){.name = rota_str("v"),
                                  .slots = 1,
                                  .queues = (struct rota_str[]){queues[3], queues[2], queues[1]},
                                  .n_queues = 3});
    assert_ptr_equal(rota_broker_worker(bench.broker, again)->class, class);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(a_worker_without_heartbeat_is_lost_and_its_jobs_go_elsewhere),
        RULE(a_lost_job_goes_before_younger_ones),
        RULE(a_session_ends_the_older_one_of_its_name),
        RULE(names_without_an_epoch_are_not_kept_to_one),
        RULE(a_new_session_may_continue_attempts_of_the_older_one),
        RULE(no_worker_can_claim_anothers_attempt),
        RULE(a_job_that_did_not_reach_its_worker_is_handed_out_again),
        RULE(an_attempt_that_a_worker_should_not_have_is_cancelled_again),
        RULE(a_worker_that_repeats_its_capabilities_keeps_attempts_in_flight),
        RULE(a_poll_is_one_request_and_its_attempts_live_by_their_lease),
        RULE(invalid_workers_are_refused),
        RULE(a_returning_worker_is_not_judged_by_an_older_question),
        RULE(polls_of_many_workers_end_in_any_order),
        RULE(sessions_of_another_life_are_others),
        RULE(workers_at_the_bounds_are_welcome),
        RULE(report_about_attempts_never_handed_out_loses_nothing),
        RULE(queue_that_a_worker_names_twice_counts_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
