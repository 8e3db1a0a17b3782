/* The rules of core/work/broker/broker.h, one test for each: what it says when it is asked. */
#include "broker_rules.h"

#include <stdio.h>
#include <string.h>

/* --- questions --- */

static const char *why(struct rota_job_id id)
{
    static char text[256];
    return rota_broker_explain(bench.broker, bench.now, rota_str("q"), id, text, sizeof text);
}

static void a_view_explains_why_a_job_waits(void **state)
{
    (void)state;
    struct rota_job_id gpu = bench_add_for(&bench, "gpu"), id = bench_add(&bench, "x");
    assert_string_equal(why(id), "waiting: no worker serves queue q");
    bench_open(&bench, "w", 1);
    assert_string_equal(why(gpu), "waiting: no worker of queue q has gpu");
    const struct rota_str both[] = {rota_str("gpu"), rota_str("big")};
    struct rota_job_spec needy = {.capabilities = both, .n_capabilities = 2};
    assert_string_equal(why(bench_add_spec(&bench, needy)),
                        "waiting: no single worker of queue q has all of big, gpu");
    assert_string_equal(why(id), "running: attempt 1 of 5, on worker \"w\"");
    struct rota_job_id next = bench_add(&bench, "y");
    assert_string_equal(why(next), "waiting: 1 capable worker, but no free slot (1 slot)");
    bench_end_now(&bench, id, ROTA_JOB_CAUSE_FAILED, "oh");
    assert_non_null(strstr(why(id), "delayed: attempt 1 failed; the next starts in "));
    struct rota_job_spec later = {.not_before = bench.now.wall + ROTA_MIN};
    assert_string_equal(why(bench_add_spec(&bench, later)),
                        "delayed: starts in 1m at the earliest");
    bench_end_now(&bench, next, ROTA_JOB_CAUSE_REFUSED, "no \"such\" thing");
    assert_string_equal(why(next), "dead: attempt 1 refused: \"no \\\"such\\\" thing\"");
    assert_string_equal(why((struct rota_job_id){1, 1}), "no such job on this node");
    rota_broker_pause(bench.broker, bench.now, rota_str("q"), true, &bench.number, NULL);
    assert_string_equal(why(gpu), "waiting: queue q is paused");
    bench.is_slow = true;
    assert_string_equal(why(bench_add(&bench, "z")), "waiting: its record is not on disk yet");
}

static void a_view_shows_that_a_worker_returned_a_job(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open(&bench, "w", 1);
    struct rota_attempt_end end = {.queue = rota_str("q"),
                                   .id = id,
                                   .attempt = bench_view(&bench, id).attempt,
                                   .cause = ROTA_JOB_CAUSE_GIVEN_BACK,
                                   .retry_after = ROTA_MIN};
    assert_int_equal(rota_broker_end(bench.broker, bench.now, &end, &bench.number, NULL), ROTA_OK);
    assert_string_equal(why(id), "delayed: its worker returned it; the next attempt starts in 1m");
}

static void a_view_shows_whether_a_dead_job_was_ever_started(void **state)
{
    (void)state;
    struct rota_job_spec spec = {.deadline = bench.now.wall + 10 * ROTA_SEC};
    struct rota_job_id runs = bench_add_spec(&bench, spec), back = bench_add_spec(&bench, spec);
    struct rota_job_id waits = bench_add_spec(&bench, spec);
    bench_open(&bench, "w", 2);
    rota_broker_pause(bench.broker, bench.now, rota_str("q"), true, &bench.number, NULL);
    bench_end_now(&bench, back, ROTA_JOB_CAUSE_GIVEN_BACK, "no time");
    bench_tick(&bench, 10 * ROTA_SEC);
    assert_string_equal(why(waits), "dead: its deadline passed before the first attempt started");
    assert_string_equal(why(back), "dead: its deadline passed before a counted attempt started");
    assert_string_equal(why(runs), "dead: its deadline passed after attempt 1 started");
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

static void after_a_restart_a_view_shows_which_worker_may_return_and_until_when(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    poll("p", 1, "");
    assert_string_equal(why(id), "running: attempt 1 of 5, on worker \"p\"");
    uint64_t attempt = bench_view(&bench, id).attempt;
    bench_restart(&bench);
    assert_string_equal(why(id), "running: worker \"p\" had it when the node stopped; the worker "
                                 "has 5s left to reconnect");
    assert_int_equal(rota_broker_extend(bench.broker, bench.now, rota_str("q"), id, attempt, 0,
                                        ROTA_MIN, rota_str(""), NULL),
                     ROTA_OK); /* it has, over gRPC, where it is in no session */
    assert_string_equal(why(id), "running: attempt 1 of 5, on worker \"p\"");
}

static void a_job_waits_for_workers_that_poll_and_are_busy(void **state)
{
    (void)state;
    struct rota_job_id first = bench_add(&bench, "x"), second = bench_add(&bench, "y");
    poll("p", 1, "");
    assert_string_equal(why(second), "waiting: 1 capable worker, but no free slot (1 slot)");
    bench_done(&bench, first);
    assert_string_equal(why(second), "waiting: no worker serves queue q");
}

static void an_incapable_poll_does_not_hide_busy_capable_workers(void **state)
{
    (void)state;
    struct rota_job_id first = bench_add_for(&bench, "gpu"), second = bench_add_for(&bench, "gpu");
    poll("able", 1, "gpu");
    uint64_t simple = poll("simple", 1, "");
    assert_int_equal(bench_state(&bench, first), ROTA_JOB_RUNNING);
    assert_string_equal(why(second), "waiting: 1 capable worker, but no free slot (1 slot)");
    bench_tick(&bench, 12 * ROTA_SEC); /* the lease is over, and the job waits again */
    assert_string_equal(why(first), "waiting: no worker of queue q has gpu");
    rota_broker_worker_close(bench.broker, bench.now, simple);
    assert_string_equal(why(first), "waiting: no worker serves queue q");
}

static void after_a_restart_a_busy_worker_has_the_capabilities_of_its_job(void **state)
{
    (void)state;
    bench_add_for(&bench, "gpu");
    struct rota_job_id second = bench_add_for(&bench, "gpu"), other = bench_add_for(&bench, "cpu");
    poll("able", 1, "gpu");
    bench_restart(&bench);
    poll("simple", 1, "");
    assert_string_equal(why(second),
                        "waiting: every capable worker is busy (1 such job is running)");
    assert_string_equal(why(other), "waiting: no worker of queue q has cpu");
}

static struct rota_queue_view view_queue(void)
{
    struct rota_str place = {0};
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

static void a_worker_is_shown_with_capabilities_and_queues(void **state)
{
    (void)state;
    const struct rota_str can[] = {rota_str("big"), rota_str("gpu")};
    const struct rota_str queues[] = {rota_str("q"), rota_str("other")};
    struct rota_worker_view worker;
    size_t place = 0;
    bench_own(&bench, "other");
    bench_open_spec(&bench, (struct rota_worker_spec){.name = rota_str("w"),
                                                      .slots = 1,
                                                      .capabilities = can,
                                                      .n_capabilities = 2,
                                                      .queues = queues,
                                                      .n_queues = 2});
    assert_true(rota_broker_next_worker(bench.broker, &place, &worker));
    assert_int_equal(worker.n_can, 2);
    assert_true(rota_str_is_equal(worker.can[0], rota_str("big")));
    assert_true(rota_str_is_equal(worker.can[1], rota_str("gpu")));
    assert_int_equal(worker.n_queues, 2);
    assert_true(rota_str_is_equal(worker.queues[0], rota_str("q")));
    assert_true(rota_str_is_equal(worker.queues[1], rota_str("other")));
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

static void a_job_has_a_history(void **state)
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

static void the_history_of_a_delayed_job_begins_with_its_delay(void **state)
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

static void a_history_is_bounded(void **state)
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
    struct rota_str place = {0};
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
    size_t n = 0, job_place = 0;
    while (rota_broker_next_job(bench.broker, rota_str("q"), ROTA_JOB_WAITING, &job_place, &job))
        n++;
    assert_int_equal(n, 2);
}

static void broker_on_hold_is_explained(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    rota_broker_hold(bench.broker, bench.now, true);
    bench_settle(&bench);
    assert_string_equal(why(id), "waiting: this node hands out no jobs now");
    rota_broker_hold(bench.broker, bench.now, false);
    bench_settle(&bench);
    assert_null(strstr(why(id), "hands out no jobs"));
}

static void job_that_died_of_something_else_is_not_in_quarantine(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open(&bench, "w", 1);
    bench_end_now(&bench, id, ROTA_JOB_CAUSE_REFUSED, "killed by its owner");
    assert_null(strstr(why(id), "quarantine"));
    assert_non_null(strstr(why(id), "dead"));
}

static void queues_are_listed_by_name_from_any_name(void **state)
{
    enum { N = 200 };
    struct rota_queue_view view;
    struct rota_str after = {0};
    char name[16], expected[16];
    (void)state;
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "%04d", i * 37 % N);
        bench_own(&bench, name);
        bench_add_spec(&bench, (struct rota_job_spec){.queue = rota_str(name)});
    }
    assert_int_equal(rota_broker_n_in_state(bench.broker, ROTA_JOB_WAITING), N);
    for (int i = 0; i < N; i++) {
        snprintf(expected, sizeof expected, "%04d", i);
        assert_true(rota_broker_next_queue(bench.broker, &after, &view));
        assert_true(rota_str_is_equal(view.name, rota_str(expected)));
    }
    assert_true(rota_broker_next_queue(bench.broker, &after, &view)); /* of every bench: q */
    assert_false(rota_broker_next_queue(bench.broker, &after, &view));
    after = rota_str("0100x"); /* which is none */
    assert_true(rota_broker_next_queue(bench.broker, &after, &view));
    assert_true(rota_str_is_equal(view.name, rota_str("0101")));
}

static void a_view_shows_how_a_job_ended(void **state)
{
    (void)state;
    struct rota_job_id once = bench_add(&bench, "x"), twice = bench_add(&bench, "y");
    struct rota_job_id waits = bench_add_for(&bench, "gpu");
    struct rota_job_id lost = bench_add_spec(&bench, (struct rota_job_spec){.max_attempts = 1});
    uint64_t session = bench_open(&bench, "w", 3);
    bench_done(&bench, once);
    assert_string_equal(why(once), "done after 1 attempt");
    bench_end_now(&bench, twice, ROTA_JOB_CAUSE_FAILED, "oh");
    bench_tick(&bench, ROTA_HOUR);
    bench_done(&bench, twice);
    assert_string_equal(why(twice), "done after 2 attempts");
    assert_int_equal(
        rota_broker_cancel(bench.broker, bench.now, rota_str("q"), waits, &bench.number, NULL),
        ROTA_OK);
    assert_string_equal(why(waits), "cancelled after 0 attempts");
    rota_broker_worker_close(bench.broker, bench.now, session);
    bench_settle(&bench);
    assert_non_null(strstr(why(lost), "dead: attempt 1 was lost: "));
}

static void a_view_shows_when_this_node_is_the_reason(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    rota_broker_hold(bench.broker, bench.now, true);
    assert_string_equal(why(id), "waiting: this node hands out no jobs now");
    rota_broker_hold(bench.broker, bench.now, false);
    assert_int_equal(rota_broker_partition_close(bench.broker, bench.now, rota_str("q"), 0, NULL),
                     ROTA_OK);
    assert_string_equal(why(id),
                        "waiting: this node does not own partition 0, or is handing it over");
}

/* Also when its record has been written again, with the time of the next attempt. */
static void job_that_failed_was_not_delayed_when_it_was_added(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open(&bench, "w", 1);
    bench_end_now(&bench, id, ROTA_JOB_CAUSE_FAILED, "oh");
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
    uint64_t from = rota_broker_last_number(bench.broker) + 1;
    while (rota_broker_rewrite(bench.broker, from, 100, SIZE_MAX) > 0)
        bench_settle(&bench);
    bench_settle(&bench);
    bench_restart(&bench);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DELAYED);
    assert_int_equal(bench_view(&bench, id).events[0].state, ROTA_JOB_WAITING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(a_view_explains_why_a_job_waits),
        RULE(a_view_shows_that_a_worker_returned_a_job),
        RULE(a_view_shows_whether_a_dead_job_was_ever_started),
        RULE(after_a_restart_a_view_shows_which_worker_may_return_and_until_when),
        RULE(a_job_waits_for_workers_that_poll_and_are_busy),
        RULE(an_incapable_poll_does_not_hide_busy_capable_workers),
        RULE(after_a_restart_a_busy_worker_has_the_capabilities_of_its_job),
        RULE(workers_that_poll_are_counted_by_name_also_while_they_work),
        RULE(a_worker_is_shown_with_capabilities_and_queues),
        RULE(too_many_kinds_of_workers_that_poll_are_not_remembered),
        RULE(a_job_has_a_history),
        RULE(the_history_of_a_delayed_job_begins_with_its_delay),
        RULE(a_history_is_bounded),
        RULE(queues_are_counted),
        RULE(broker_on_hold_is_explained),
        RULE(job_that_died_of_something_else_is_not_in_quarantine),
        RULE(queues_are_listed_by_name_from_any_name),
        RULE(a_view_shows_how_a_job_ended),
        RULE(a_view_shows_when_this_node_is_the_reason),
        RULE(job_that_failed_was_not_delayed_when_it_was_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
