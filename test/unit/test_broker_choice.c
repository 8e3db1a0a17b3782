/* The rules of core/work/broker/broker.h, one test for each: which job goes to whom. */
#include "broker_rules.h"
#include "core/work/cluster/yield.h"

#include <stdio.h>

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

static void the_slots_of_a_worker_are_bounded(void **state)
{
    struct rota_worker_view view;
    size_t place = 0;
    (void)state;
    uint64_t session = bench_open(&bench, "w", 1);
    assert_true(rota_broker_worker_slots(bench.broker, bench.now, session, UINT32_MAX));
    bench_settle(&bench);
    assert_true(rota_broker_next_worker(bench.broker, &place, &view));
    assert_int_equal(view.slots, ROTA_WORKER_SLOTS_MAX);
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
 * them one after the other: how often lanes are checked. */
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

/* A worker does one job after the other; returns for how long none of them ran in the end. */
static rota_time run_for(rota_time span)
{
    for (rota_time end = bench.now.boot + span; bench.now.boot < end;) {
        struct rota_work_effect last = bench_last(&bench, ROTA_WORK_DO_DISPATCH);
        bench.now.boot += ROTA_SEC / 4;
        bench.now.wall += ROTA_SEC / 4;
        bench_look(&bench);
        assert_int_equal(bench_end(&bench, last.id, last.attempt, ROTA_JOB_CAUSE_DONE, ""),
                         ROTA_OK);
        if (bench_count(&bench, ROTA_WORK_DO_DISPATCH, BENCH_NONE) == 0)
            return rota_broker_deadline(bench.broker) - bench.now.boot;
    }
    return 0;
}

/* What forwarding tells other nodes, and whom it sends to them. */
static void idle_workers_are_found_by_queue_and_capability(void **state)
{
    (void)state;
    struct rota_str q = rota_str("q"), other = rota_str("other");
    struct rota_idle_worker found;
    struct rota_idle_view idle;
    size_t place = 0;
    bench_own(&bench, "other");
    uint64_t able = bench_open_for(&bench, "able", 3, "gpu");
    bench_open_spec(&bench,
                    (struct rota_worker_spec){
                        .name = rota_str("far"), .slots = 1, .queues = &other, .n_queues = 1});
    assert_true(rota_broker_find_idle(bench.broker, q, rota_str("gpu "), &found));
    assert_int_equal(found.session, able);
    assert_true(rota_str_is_equal(found.name, rota_str("able")));
    assert_true(found.slots == 3 && found.n_free == 3 && !found.is_poll);
    assert_false(rota_broker_find_idle(bench.broker, q, rota_str("disk "), &found));
    assert_false(rota_broker_find_idle(bench.broker, other, rota_str("gpu "), &found));
    assert_false(rota_broker_find_idle(bench.broker, rota_str("unknown"), rota_str(""), &found));

    size_t n_free[2] = {0};
    while (rota_broker_next_idle(bench.broker, &place, &idle)) {
        assert_int_equal(idle.n_queues, 1);
        bool is_other = rota_str_is_equal(idle.queues[0], other);
        assert_true(rota_str_is_equal(idle.can, rota_str(is_other ? "" : "gpu ")));
        n_free[is_other] += idle.n_free;
    }
    assert_true(n_free[0] == 3 && n_free[1] == 1);
}

static void only_jobs_that_wait_for_a_worker_are_offered(void **state)
{
    (void)state;
    struct rota_str q = rota_str("q");
    struct rota_waiting_view waiting;
    size_t place = 0;
    bench_open(&bench, "w", 1);
    struct rota_job_id running = bench_add(&bench, "x"), first = bench_add_for(&bench, "gpu");
    rota_time first_at = bench.now.wall;
    bench_tick(&bench, ROTA_SEC);
    bench_add_for(&bench, "gpu");
    struct rota_job_id delayed =
        bench_add_spec(&bench, (struct rota_job_spec){.not_before = bench.now.wall + ROTA_HOUR});
    assert_true(rota_broker_next_waiting(bench.broker, &place, &waiting));
    assert_true(rota_str_is_equal(waiting.queue, q));
    assert_true(rota_str_is_equal(waiting.can, rota_str("gpu ")));
    assert_int_equal(waiting.n_jobs, 2);
    assert_int_equal(waiting.first_at, first_at);
    assert_false(rota_broker_next_waiting(bench.broker, &place, &waiting));
    assert_true(rota_broker_waits_for_worker(bench.broker, q, first));
    assert_false(rota_broker_waits_for_worker(bench.broker, q, running));
    assert_false(rota_broker_waits_for_worker(bench.broker, q, delayed));

    rota_broker_pause(bench.broker, bench.now, q, true, &bench.number, NULL);
    bench_settle(&bench);
    place = 0;
    assert_false(rota_broker_next_waiting(bench.broker, &place, &waiting));
    assert_false(rota_broker_waits_for_worker(bench.broker, q, first));
}

static void shared_workers_that_are_never_idle_yield(void **state)
{
    (void)state;
    struct rota_idle_view idle;
    struct rota_idle_worker worker;
    size_t place = 0;
    for (int i = 0; i < 60; i++)
        bench_add(&bench, "x");
    uint64_t session = bench_open(&bench, "w", 1);
    assert_int_equal(run_for(4 * ROTA_SEC), 0); /* nobody else is there */
    rota_broker_share(bench.broker, bench.now, true);
    rota_time left = run_for(4 * ROTA_SEC);
    assert_in_range(left, 1, ROTA_SEC / 10);
    assert_true(rota_broker_next_idle(bench.broker, &place, &idle)); /* to others */
    assert_true(rota_broker_find_idle(bench.broker, rota_str("q"), rota_str(""), &worker));
    bench_tick(&bench, left);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_DISPATCH, BENCH_NONE), 1);

    assert_in_range(run_for(4 * ROTA_SEC), 1, ROTA_SEC / 10);
    assert_true(rota_broker_worker_slots(bench.broker, bench.now, session, 0)); /* it has gone */
    bench_tick(&bench, ROTA_SEC);
    assert_true(rota_broker_worker_slots(bench.broker, bench.now, session, 1));
    bench_settle(&bench);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_DISPATCH, BENCH_NONE), 1);

    assert_in_range(run_for(4 * ROTA_SEC), 1, ROTA_SEC / 10);
    uint64_t hasty = bench_open_spec(&bench, (struct rota_worker_spec){.name = rota_str("p"),
                                                                       .slots = 1,
                                                                       .lease = ROTA_SEC,
                                                                       .is_poll = true,
                                                                       .is_hasty = true});
    assert_int_equal(bench_last(&bench, ROTA_WORK_DO_DISPATCH).session, hasty);
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
        found += rota_str_is_equal(effect.key, rota_str(key));
        bench_done(&bench, effect.id);
    }
    return found;
}

static void keys_share_a_queue_regardless_of_demand(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        add_of("much");
    for (int i = 0; i < 10; i++)
        add_of("little");
    bench_open(&bench, "w", 1);
    assert_int_equal(run_counting(20, "little"), 10);
}

static void a_key_gets_its_share_by_weight(void **state)
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

static void a_weight_counts_for_jobs_that_are_added_from_then_on(void **state)
{
    (void)state;
    uint64_t number;
    for (int i = 0; i < 40; i++) {
        add_of("heavy");
        add_of("light");
    }
    assert_int_equal(rota_broker_set_weight(bench.broker, bench.now, rota_str("q"),
                                            rota_str("heavy"), 3000, &number, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    for (int i = 0; i < 80; i++) {
        add_of("heavy");
        add_of("light");
    }
    bench_open(&bench, "w", 1);
    assert_in_range(run_counting(40, "heavy"), 19, 21); /* of those that waited */
    bench_restart(&bench);
    bench_open(&bench, "w", 1);
    assert_in_range(run_counting(40, "heavy"), 19, 21);
    assert_in_range(run_counting(80, "heavy"), 59, 61); /* of those after them */
}

static void an_idle_key_saves_nothing_up(void **state)
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

static void invalid_weights_are_refused(void **state)
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

static size_t n_running(const struct rota_job_id *ids, size_t n)
{
    size_t n_found = 0;
    for (size_t i = 0; i < n; i++)
        n_found += bench_state(&bench, ids[i]) == ROTA_JOB_RUNNING;
    return n_found;
}

static uint64_t poll_for(const char *name, bool is_hasty)
{
    return bench_open_spec(&bench, (struct rota_worker_spec){.name = rota_str(name),
                                                             .slots = 1,
                                                             .lease = ROTA_HOUR,
                                                             .is_poll = true,
                                                             .is_hasty = is_hasty});
}

/* A class that was busy for long enough yields, with the only poll that it has. */
static void poll_yields_unless_it_is_hasty_or_not_the_only_one(void **state)
{
    enum { JOBS = 8 };
    struct rota_job_id ids[JOBS];
    (void)state;
    for (int i = 0; i < JOBS; i++)
        ids[i] = bench_add(&bench, "x");
    rota_broker_share(bench.broker, bench.now, true);
    poll_for("p", false);
    assert_int_equal(n_running(ids, JOBS), 1);
    bench_tick(&bench, ROTA_YIELD_EVERY - 1);
    poll_for("p", false);
    assert_int_equal(n_running(ids, JOBS), 2);
    bench_tick(&bench, 1);
    poll_for("p", true); /* it does not wait */
    assert_int_equal(n_running(ids, JOBS), 3);
    poll_for("p", false);
    assert_int_equal(n_running(ids, JOBS), 3);
    bench_tick(&bench, ROTA_YIELD_FOR - 1);
    assert_int_equal(n_running(ids, JOBS), 3);
    bench_tick(&bench, 1); /* the yield is over */
    assert_int_equal(n_running(ids, JOBS), 4);
    bench_tick(&bench, ROTA_YIELD_EVERY);
    poll_for("p", false);
    assert_int_equal(n_running(ids, JOBS), 4);
    poll_for("p", false); /* one of two is enough for other nodes */
    assert_int_equal(n_running(ids, JOBS), 5);
    rota_broker_share(bench.broker, bench.now, false); /* there are no others any more */
    bench_settle(&bench);
    assert_int_equal(n_running(ids, JOBS), 6);
}

/* Several classes yield, one a little after the other. */
static void each_class_yields_for_its_own_time(void **state)
{
    enum { CLASSES = 6 };
    static const char *const cans[CLASSES] = {"a", "b", "c", "d", "e", "f"};
    struct rota_job_id ids[2 * CLASSES];
    (void)state;
    rota_broker_share(bench.broker, bench.now, true);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < CLASSES; i++) {
            struct rota_str can = rota_str(cans[i]);
            ids[CLASSES * round + i] = bench_add_for(&bench, cans[i]);
            bench_open_spec(&bench, (struct rota_worker_spec){.name = rota_str("p"),
                                                              .slots = 1,
                                                              .lease = ROTA_HOUR,
                                                              .capabilities = &can,
                                                              .n_capabilities = 1,
                                                              .is_poll = true});
            bench_tick(&bench, ROTA_MSEC);
        }
        assert_int_equal(n_running(ids, CLASSES * (round + 1)), CLASSES);
        if (round == 0)
            bench_tick(&bench, ROTA_YIELD_EVERY - CLASSES * ROTA_MSEC);
    }
    for (int i = 0; i < CLASSES; i++) {
        rota_time until = rota_broker_deadline(bench.broker);
        bench_tick(&bench, i == 0 ? ROTA_YIELD_FOR - CLASSES * ROTA_MSEC : ROTA_MSEC);
        assert_int_equal(bench.now.boot, until);
        assert_int_equal(n_running(ids, 2 * CLASSES), CLASSES + i + 1);
        assert_int_equal(bench_state(&bench, ids[CLASSES + i]), ROTA_JOB_RUNNING);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(the_oldest_goes_first),
        RULE(the_highest_priority_goes_before_the_oldest),
        RULE(a_worker_gets_only_what_it_can_do),
        RULE(all_capabilities_are_needed_in_any_order),
        RULE(among_sets_the_oldest_goes_first),
        RULE(among_queues_the_oldest_goes_first),
        RULE(a_worker_gets_nothing_of_queues_it_does_not_serve),
        RULE(a_worker_never_has_more_than_its_slots),
        RULE(the_slots_of_a_worker_are_bounded),
        RULE(free_workers_take_turns),
        RULE(jobs_that_come_together_go_out_by_priority),
        RULE(a_choice_costs_as_much_with_hundreds_of_sets_as_with_few),
        RULE(idle_workers_are_found_by_queue_and_capability),
        RULE(only_jobs_that_wait_for_a_worker_are_offered),
        RULE(shared_workers_that_are_never_idle_yield),
        RULE(keys_share_a_queue_regardless_of_demand),
        RULE(a_key_gets_its_share_by_weight),
        RULE(a_weight_counts_for_jobs_that_are_added_from_then_on),
        RULE(an_idle_key_saves_nothing_up),
        RULE(invalid_weights_are_refused),
        RULE(poll_yields_unless_it_is_hasty_or_not_the_only_one),
        RULE(each_class_yields_for_its_own_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
