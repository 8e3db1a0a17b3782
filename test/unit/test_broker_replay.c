/* The journal: the emitted records, replayed, give the same broker; wherever it was cut, every
 * acknowledged job is there; written again, it says the same in fewer records. */
#include "core/work/job/fair.h"
#include "work_bench.h"

#include <rota/experimental/random.h>
#include <stdio.h>
#include <string.h>

static struct bench bench;
static struct rota_random chance;

enum { N_JOBS = 400, N_WORKERS = 6 };

/* What a submitter or a worker was told, and when that was true for good. */
struct promise {
    struct rota_job_id id;
    uint64_t added, ended; /* numbers of records; 0: not yet */
    size_t n_dones;        /* accepted as done */
};

static struct promise promises[N_JOBS];
static size_t n_promises;
static bool may_rewrite;

static struct rota_str pick_name(const char *const *names, size_t n)
{
    return rota_str(names[rota_random_below(&chance, n)]);
}

static void random_add(void)
{
    static const char *const capabilities[] = {"a", "b", "c", "d"};
    static const char *const keys[] = {"", "", "k1", "k2", "k3"};
    static const char *const queues[] = {"q", "q", "r"};
    struct rota_str needed[3];
    char unique[16];
    size_t n = rota_random_below(&chance, 4);
    if (n_promises == N_JOBS)
        return;
    for (size_t i = 0; i < n; i++)
        needed[i] = pick_name(capabilities, 4);
    snprintf(unique, sizeof unique, "u%d", (int)rota_random_below(&chance, 50));
    struct rota_job_spec spec = {
        .queue = pick_name(queues, 3),
        .capabilities = needed,
        .n_capabilities = n,
        .payload = rota_str_of("payload of some length", rota_random_below(&chance, 23)),
        .priority = (int16_t)rota_random_range(&chance, -1, 1),
        .key = pick_name(keys, 5),
    };
    if (rota_random_chance(&chance, 0.2))
        spec.not_before = bench.now.wall + (rota_time)rota_random_below(&chance, 20 * ROTA_SEC);
    if (rota_random_chance(&chance, 0.1))
        spec.deadline = spec.not_before + bench.now.wall * (spec.not_before == 0) + 30 * ROTA_SEC;
    if (rota_random_chance(&chance, 0.2))
        spec.timeout = 5 * ROTA_SEC;
    if (rota_random_chance(&chance, 0.3))
        spec.max_attempts = 1 + (uint32_t)rota_random_below(&chance, 4);
    if (rota_random_chance(&chance, 0.2))
        spec.unique = rota_str(unique);
    if (rota_random_chance(&chance, 0.2))
        spec.trace = rota_str("trace");
    if (rota_random_chance(&chance, 0.2)) {
        spec.backoff = (1 + (rota_time)rota_random_below(&chance, 4)) * ROTA_SEC;
        spec.backoff_max = 2 * spec.backoff;
    }
    if (rota_random_chance(&chance, 0.2)) /* like a UUID: it names a partition that nobody has */
        spec.id =
            (struct rota_job_id){rota_random_next(&chance) | 0x4000, rota_random_next(&chance)};
    struct rota_job_id id;
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK);
    if (bench.is_new)
        promises[n_promises++] = (struct promise){.id = id, .added = bench.number};
}

static bool find_any(struct rota_job_id id, struct rota_job_view *view)
{
    return rota_broker_find(bench.broker, rota_str("q"), id, view, NULL) == ROTA_OK ||
           rota_broker_find(bench.broker, rota_str("r"), id, view, NULL) == ROTA_OK;
}

static struct promise *random_promise(struct rota_job_view *view)
{
    if (n_promises == 0)
        return NULL;
    struct promise *promise = &promises[rota_random_below(&chance, n_promises)];
    return find_any(promise->id, view) ? promise : NULL;
}

static void random_end(void)
{
    struct rota_job_view view;
    struct promise *promise = random_promise(&view);
    static const enum rota_job_cause causes[] = {ROTA_JOB_CAUSE_DONE, ROTA_JOB_CAUSE_DONE,
                                                 ROTA_JOB_CAUSE_FAILED, ROTA_JOB_CAUSE_REFUSED,
                                                 ROTA_JOB_CAUSE_GIVEN_BACK};
    if (!promise)
        return;
    bool was_done = view.state == ROTA_JOB_DONE;
    struct rota_attempt_end end = {
        .queue = view.spec.queue,
        .id = promise->id,
        .attempt = view.attempt - (rota_random_chance(&chance, 0.1) ? 1 : 0),
        .cause = causes[rota_random_below(&chance, 5)],
        .bytes = rota_str("a result"),
        .reason = rota_str("a reason"),
    };
    enum rota_code code = rota_broker_end(bench.broker, bench.now, &end, &bench.number, NULL);
    assert_true(code == ROTA_OK || code == ROTA_ERR_STALE);
    if (!code && end.cause == ROTA_JOB_CAUSE_DONE && !was_done) {
        promise->n_dones++;
        promise->ended = bench.number;
    }
    bench_settle(&bench);
}

static void random_command(void)
{
    struct rota_job_view view;
    struct promise *promise = random_promise(&view);
    uint64_t number;
    if (!promise)
        return;
    switch (rota_random_below(&chance, 5)) {
    case 0:
        rota_broker_cancel(bench.broker, bench.now, view.spec.queue, view.id, &number, NULL);
        break;
    case 1:
    case 2:
        rota_broker_revive(bench.broker, bench.now, view.spec.queue, view.id, &number, NULL);
        break;
    case 3:
        rota_broker_set_priority(bench.broker, bench.now, view.spec.queue, view.id,
                                 (int16_t)rota_random_range(&chance, -2, 2), &number, NULL);
        break;
    case 4:
        rota_broker_extend(bench.broker, bench.now, view.spec.queue, view.id, view.attempt, 0, 0,
                           rota_str("progress"), NULL);
        break;
    }
    bench_settle(&bench);
}

static uint64_t sessions[N_WORKERS];

static void random_worker(void)
{
    static const char *const names[N_WORKERS] = {"w0", "w1", "w2", "w3", "w4", "w5"};
    static uint64_t epoch;
    struct rota_job_view view;
    struct rota_worker_running running = {0};
    bool has_running = rota_random_chance(&chance, 0.5) && random_promise(&view);
    if (has_running)
        running = (struct rota_worker_running){view.spec.queue, view.id, view.attempt};
    struct rota_str queues[] = {rota_str("q"), rota_str("r")};
    struct rota_str can[] = {rota_str("a"), rota_str("b"), rota_str("c"), rota_str("d")};
    size_t i = rota_random_below(&chance, N_WORKERS);
    switch (rota_random_below(&chance, 6)) {
    case 0:
        rota_broker_worker_close(bench.broker, bench.now, sessions[i]);
        break;
    case 1:
        rota_broker_worker_lost(bench.broker, bench.now, sessions[i],
                                rota_random_chance(&chance, 0.3));
        break;
    case 2:
        rota_broker_worker_slots(bench.broker, bench.now, sessions[i],
                                 (uint32_t)rota_random_below(&chance, 4));
        break;
    default:
        sessions[i] = bench_open_spec(
            &bench, (struct rota_worker_spec){
                        .name = rota_str(names[i]),
                        .epoch = i % 2 ? ++epoch : 0,
                        .slots = 1 + (uint32_t)rota_random_below(&chance, 3),
                        .queues = queues + i % 2,
                        .n_queues = i % 2 ? 1 : 2,
                        .capabilities = can,
                        .n_capabilities = rota_random_below(&chance, 5),
                        .liveness = rota_random_chance(&chance, 0.5) ? 4 * ROTA_SEC : 0,
                        .lease = rota_random_chance(&chance, 0.5) ? 3 * ROTA_SEC : 0,
                        .running = &running,
                        .n_running = has_running,
                    });
    }
    bench_settle(&bench);
}

static void random_setting(void)
{
    static const char *const queues[] = {"q", "r"}, *const keys[] = {"k1", "k2", ""};
    struct rota_str queue = pick_name(queues, 2);
    static uint64_t epoch = 1;
    uint64_t number;
    switch (rota_random_below(&chance, 5)) {
    case 4:
        rota_broker_set_kills(bench.broker, bench.now, queue,
                              (uint32_t)rota_random_below(&chance, 4), &number, NULL);
        break;
    case 0:
        rota_broker_pause(bench.broker, bench.now, queue, rota_random_chance(&chance, 0.3), &number,
                          NULL);
        break;
    case 1:
        rota_broker_set_weight(bench.broker, bench.now, queue, pick_name(keys, 3),
                               500 * (1 + (uint32_t)rota_random_below(&chance, 4)), &number, NULL);
        break;
    case 2:
        rota_broker_partition_close(bench.broker, bench.now, queue, 0, NULL);
        rota_broker_partition_open(bench.broker, bench.now, queue, 0, ++epoch, NULL);
        break;
    case 3:
        if (may_rewrite)
            rota_broker_rewrite(bench.broker, rota_broker_last_number(bench.broker) / 2,
                                rota_random_below(&chance, 20), SIZE_MAX);
        break;
    }
    bench_settle(&bench);
}

static void random_step(void)
{
    double which = rota_random_unit(&chance);
    if (which < 0.35)
        random_add();
    else if (which < 0.7)
        random_end();
    else if (which < 0.8)
        random_command();
    else if (which < 0.88)
        random_worker();
    else if (which < 0.9)
        random_setting();
    else
        bench_tick(&bench, (rota_time)rota_random_below(&chance, 3 * ROTA_SEC));
    if (bench.is_slow && rota_random_chance(&chance, 0.3))
        bench_sync(&bench);
}

static void random_init(uint64_t seed)
{
    rota_random_init(&chance, seed);
    n_promises = 0;
    memset(sessions, 0, sizeof sessions);
    bench.options = (struct rota_broker_options){.seed = seed};
    bench_init(&bench);
    bench_own(&bench, "r");
    bench.is_slow = seed % 2;
    may_rewrite = seed % 3 == 0;
}

/* --- comparing --- */

static void assert_same_str(struct rota_str a, struct rota_str b)
{
    if (!rota_str_is_equal(a, b))
        fail_msg("%.*s is not %.*s", ROTA_STR_ARGS(a), ROTA_STR_ARGS(b));
}

static void assert_same_spec(const struct rota_job_spec *a, const struct rota_job_spec *b)
{
    assert_same_str(a->queue, b->queue);
    assert_same_str(a->payload, b->payload);
    assert_same_str(a->unique, b->unique);
    assert_same_str(a->key, b->key);
    assert_same_str(a->trace, b->trace);
    assert_int_equal(a->priority, b->priority);
    assert_int_equal(a->deadline, b->deadline);
    assert_int_equal(a->timeout, b->timeout);
    assert_int_equal(a->max_attempts, b->max_attempts);
    assert_int_equal(a->backoff, b->backoff);
    assert_int_equal(a->backoff_max, b->backoff_max);
    assert_int_equal(a->partition, b->partition);
    assert_int_equal(a->n_capabilities, b->n_capabilities);
    for (size_t i = 0; i < a->n_capabilities; i++)
        assert_same_str(a->capabilities[i], b->capabilities[i]);
}

static void assert_same_story(const struct rota_job_view *a, const struct rota_job_view *b)
{
    assert_int_equal(a->n_events, b->n_events);
    for (size_t i = 0; i < a->n_events; i++) {
        assert_int_equal(a->events[i].at, b->events[i].at);
        assert_int_equal(a->events[i].state, b->events[i].state);
        assert_int_equal(a->events[i].cause, b->events[i].cause);
        assert_int_equal(a->events[i].attempt, b->events[i].attempt);
        assert_same_str(a->events[i].worker, b->events[i].worker);
        assert_same_str(a->events[i].reason, b->events[i].reason);
    }
}

static void assert_same_job(const struct rota_job_view *a, const struct rota_job_view *b,
                            bool with_story)
{
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->enqueued_at, b->enqueued_at);
    assert_int_equal(a->ended_at, b->ended_at);
    assert_int_equal(a->not_before, b->not_before);
    assert_int_equal(a->attempt, b->attempt);
    assert_int_equal(a->n_attempts, b->n_attempts);
    assert_same_str(a->worker, b->worker);
    assert_same_str(a->reason, b->reason);
    assert_same_str(a->result, b->result);
    assert_same_spec(&a->spec, &b->spec);
    if (with_story)
        assert_same_story(a, b);
    assert_int_equal(a->n_events > 0, b->n_events > 0);
    if (a->n_events > 0 && a->state < ROTA_JOB_DONE) { /* what it was last is kept */
        const struct rota_job_event *last_a = &a->events[a->n_events - 1],
                                    *last_b = &b->events[b->n_events - 1];
        assert_int_equal(last_a->at, last_b->at);
        assert_same_str(last_a->reason, last_b->reason);
    }
}

static void assert_same_queues(const struct rota_broker *a, const struct rota_broker *b)
{
    struct rota_queue_view left, right;
    struct rota_str place_a = {0};
    while (rota_broker_next_queue(a, &place_a, &left)) {
        struct rota_str place_b = {0};
        bool is_there = false;
        while (!is_there && rota_broker_next_queue(b, &place_b, &right))
            is_there = rota_str_is_equal(left.name, right.name);
        assert_true(is_there);
        assert_int_equal(left.is_paused, right.is_paused);
        assert_int_equal(left.n_partitions, right.n_partitions);
        assert_int_equal(left.oldest_at, right.oldest_at);
        assert_memory_equal(left.counts, right.counts, sizeof left.counts);
    }
}

/* What another broker would be given of a job. */
static void assert_same_record(const struct rota_broker *a, const struct rota_broker *b,
                               const struct rota_job_view *job)
{
    struct rota_work_record left, right;
    assert_true(rota_broker_job_record(a, job->spec.queue, job->id, &left));
    assert_true(rota_broker_job_record(b, job->spec.queue, job->id, &right));
    assert_int_equal(left.at, right.at);
    assert_int_equal(left.since, right.since);
    assert_int_equal(left.attempt, right.attempt);
    assert_int_equal(left.n_attempts, right.n_attempts);
    assert_int_equal(left.state, right.state);
    assert_int_equal(left.cause, right.cause);
    assert_int_equal(left.not_before, right.not_before);
    assert_int_equal(left.weight, right.weight);
    assert_int_equal(left.lost, right.lost);
    assert_int_equal(left.tag, right.tag);
    assert_same_str(left.key, right.key);
    assert_same_str(left.worker, right.worker);
    assert_same_str(left.reason, right.reason);
    assert_same_str(left.bytes, right.bytes);
}

static void assert_same_settings(const struct rota_broker *a, const struct rota_broker *b)
{
    struct rota_setting_place place_a = {0};
    struct rota_work_record left, right;
    while (rota_broker_next_setting(a, &place_a, &left)) {
        struct rota_setting_place place_b = {0};
        bool is_there = false;
        while (!is_there && rota_broker_next_setting(b, &place_b, &right))
            is_there = left.type == right.type && rota_str_is_equal(left.queue, right.queue) &&
                       rota_str_is_equal(left.key, right.key);
        assert_true(is_there);
        assert_int_equal(left.at, right.at);
        assert_int_equal(left.weight, right.weight);
        assert_int_equal(left.is_paused, right.is_paused);
    }
}

static void assert_same(const struct rota_broker *a, const struct rota_broker *b, bool with_story)
{
    static const char *const queues[] = {"q", "r"};
    struct rota_job_view left, right;
    assert_same_queues(a, b);
    assert_same_settings(a, b);
    for (int i = 0; i < 2; i++)
        for (int state = 0; state < ROTA_JOB_STATES; state++)
            for (size_t place = 0; rota_broker_next_job(
                     a, rota_str(queues[i]), (enum rota_job_state)state, &place, &left);) {
                assert_int_equal(rota_broker_find(b, rota_str(queues[i]), left.id, &right, NULL),
                                 ROTA_OK);
                assert_same_job(&left, &right, with_story);
                assert_same_record(a, b, &left);
            }
}

/* A broker that has read the first `n` records from the one numbered `from` on. */
static struct rota_broker *read_journal(uint64_t from, size_t n, struct rota_work_now now)
{
    struct rota_broker *broker;
    assert_int_equal(rota_broker_new(&bench.options, &broker, NULL), ROTA_OK);
    for (size_t i = from - 1; i < n; i++)
        if (rota_broker_replay(broker, &bench.journal.items[i], &bench.error))
            fail_msg("%s", bench.error.text);
    rota_broker_begin(broker, now);
    rota_broker_durable(broker, now, rota_broker_last_number(broker));
    assert_true(rota_broker_is_sound(broker));
    return broker;
}

/* Jobs whose time has come go from DELAYED to WAITING with a tick; let both have it. */
static void settle_time(void)
{
    bench_tick(&bench, 0);
    bench_sync(&bench);
}

static bool was_rewritten(void)
{
    for (size_t i = 0; i < bench.journal.size; i++)
        if (bench.journal.items[i].type == ROTA_WORK_JOB)
            return true;
    return false;
}

static void the_journal_gives_the_same_broker(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        random_init(seed);
        for (int i = 0; i < 600; i++)
            random_step();
        settle_time();
        struct rota_broker *other = read_journal(1, bench.journal.size, bench.now);
        assert_same(bench.broker, other, !was_rewritten());
        assert_int_equal(rota_broker_n_jobs(bench.broker), rota_broker_n_jobs(other));
        rota_broker_free(other);
        bench_deinit(&bench);
    }
}

static void the_next_steps_are_the_same_too(void **state)
{
    (void)state;
    struct rota_str queue = rota_str("q"),
                    can[] = {rota_str("a"), rota_str("b"), rota_str("c"), rota_str("d")};
    for (uint64_t seed = 101; seed <= 110; seed++) {
        random_init(seed);
        for (int i = 0; i < 400; i++)
            random_step();
        settle_time();
        for (int i = 0; i < N_WORKERS; i++)
            rota_broker_worker_close(bench.broker, bench.now, sessions[i]);
        bench_sync(&bench);
        struct rota_broker *brokers[2] = {bench.broker,
                                          read_journal(1, bench.journal.size, bench.now)};
        rota_broker_clear(brokers[1]);
        struct rota_worker_spec spec = {.name = rota_str("all"),
                                        .slots = 4096,
                                        .queues = &queue,
                                        .n_queues = 1,
                                        .capabilities = can,
                                        .n_capabilities = 4};
        ROTA_VECTOR(struct rota_job_id) order[2] = {{0}};
        for (int k = 0; k < 2; k++) {
            uint64_t session, number;
            size_t n;
            rota_broker_pause(brokers[k], bench.now, queue, false, &number, NULL);
            rota_broker_worker_open(brokers[k], bench.now, &spec, &session, NULL);
            const struct rota_work_effect *effects = rota_broker_effects(brokers[k], &n);
            for (size_t i = 0; i < n; i++)
                if (effects[i].type == ROTA_WORK_DO_DISPATCH)
                    assert_true(rota_vector_push(&order[k], effects[i].id));
            rota_broker_clear(brokers[k]);
        }
        assert_int_equal(order[0].size, order[1].size);
        for (size_t i = 0; i < order[0].size && !was_rewritten(); i++) /* else ties may differ */
            assert_true(bench_id_is(order[0].items[i], order[1].items[i]));
        for (int k = 0; k < 2; k++)
            rota_vector_deinit(&order[k]);
        rota_broker_free(brokers[1]);
        bench_deinit(&bench);
    }
}

static void after_a_crash_all_that_was_acknowledged_is_there(void **state)
{
    (void)state;
    for (uint64_t seed = 201; seed <= 210; seed++) {
        random_init(seed);
        for (int i = 0; i < 300; i++)
            random_step();
        settle_time();
        for (size_t cut = 3; cut <= bench.journal.size; cut += 1 + cut / 16) {
            struct rota_broker *other = read_journal(1, cut, bench.now);
            for (size_t i = 0; i < n_promises; i++) {
                const struct promise *promise = &promises[i];
                struct rota_job_view view;
                bool is_there =
                    rota_broker_find(other, rota_str("q"), promise->id, &view, NULL) == ROTA_OK ||
                    rota_broker_find(other, rota_str("r"), promise->id, &view, NULL) == ROTA_OK;
                assert_int_equal(is_there, promise->added <= cut);
                assert_in_range(promise->n_dones, 0, 1);
                if (promise->ended && promise->ended <= cut) /* it never runs again */
                    assert_int_equal(view.state, ROTA_JOB_DONE);
            }
            rota_broker_free(other);
        }
        bench_deinit(&bench);
    }
}

static void a_broker_that_crashes_again_and_again_ends_each_job_once(void **state)
{
    (void)state;
    for (uint64_t seed = 301; seed <= 315; seed++) {
        random_init(seed);
        bench.is_slow = false; /* all that was acknowledged is on disk */
        for (int i = 0; i < 800; i++) {
            random_step();
            if (rota_random_chance(&chance, 0.02)) {
                bench_restart(&bench);
                assert_true(rota_broker_is_sound(bench.broker));
            }
        }
        for (size_t i = 0; i < n_promises; i++)
            assert_in_range(promises[i].n_dones, 0, 1);
        bench_deinit(&bench);
    }
}

static void old_records_of_rewritten_jobs_are_not_needed(void **state)
{
    (void)state;
    for (uint64_t seed = 401; seed <= 415; seed++) {
        random_init(seed);
        for (int i = 0; i < 400; i++)
            random_step();
        settle_time();
        uint64_t from = rota_broker_last_number(bench.broker) + 1;
        size_t left = SIZE_MAX;
        for (int round = 0; left > 0; round++) { /* work goes on meanwhile */
            size_t now_left = rota_broker_rewrite(bench.broker, from, 5, SIZE_MAX);
            assert_true(now_left < left || round > 200);
            left = now_left;
            bench_settle(&bench);
            for (int i = 0; i < 3; i++)
                random_step();
        }
        settle_time();
        assert_int_equal(rota_broker_rewrite(bench.broker, from, 5, SIZE_MAX), 0);
        struct rota_broker *other = read_journal(from, bench.journal.size, bench.now);
        assert_same(bench.broker, other, false);
        assert_int_equal(rota_broker_n_jobs(bench.broker), rota_broker_n_jobs(other));
        rota_broker_free(other);
        bench_deinit(&bench);
    }
}

static void lives_are_not_lost_with_old_records(void **state)
{
    (void)state;
    random_init(1);
    bench.is_slow = false;
    struct rota_job_id id = bench_add(&bench, "x");
    bench_restart(&bench);
    bench_restart(&bench);
    bench_open(&bench, "w", 1);
    uint64_t attempt = bench_view(&bench, id).attempt;
    uint64_t from = rota_broker_last_number(bench.broker) + 1;
    assert_int_equal(rota_broker_rewrite(bench.broker, from, 100, SIZE_MAX), 0);
    bench_settle(&bench);
    bench_end_now(&bench, id, ROTA_JOB_CAUSE_GIVEN_BACK, "");
    struct rota_broker *other = read_journal(from, bench.journal.size, bench.now);
    rota_broker_free(bench.broker);
    bench.broker = other;
    rota_broker_clear(other);
    bench.is_slow = true;
    bench_open(&bench, "v", 1);
    rota_broker_tick(bench.broker,
                     (struct rota_work_now){bench.now.boot + ROTA_MIN, bench.now.wall + ROTA_MIN});
    assert_true(bench_view(&bench, id).attempt >> 32 > attempt >> 32);
    rota_broker_clear(other);
    bench_deinit(&bench);
}

/* --- hand-over --- */

static void a_partition_is_handed_over_without_loss_or_double(void **state)
{
    (void)state;
    for (uint64_t seed = 501; seed <= 510; seed++) {
        random_init(seed);
        bench.is_slow = false;
        for (int i = 0; i < 300; i++)
            random_step();
        settle_time();
        struct rota_str q = rota_str("q");
        uint64_t number;
        rota_broker_pause(bench.broker, bench.now, q, false, &number, NULL);
        assert_int_equal(rota_broker_partition_close(bench.broker, bench.now, q, 0, NULL), ROTA_OK);
        bench_sync(&bench);

        struct rota_broker *taker;
        assert_int_equal(rota_broker_new(&bench.options, &taker, NULL), ROTA_OK);
        rota_broker_begin(taker, bench.now);
        struct rota_work_record record;
        size_t place = 0, n = 0;
        assert_true(rota_broker_partition_next(bench.broker, q, 0, &place, &record));
        assert_int_equal(rota_broker_adopt(taker, bench.now, &record, &number, NULL), ROTA_OK);
        assert_int_equal(rota_broker_partition_open(taker, bench.now, q, 0, 1000, NULL), ROTA_OK);
        place = 0;
        while (rota_broker_partition_next(bench.broker, q, 0, &place, &record)) {
            uint64_t again;
            struct rota_job_view left, right;
            assert_int_equal(rota_broker_adopt(taker, bench.now, &record, &number, NULL), ROTA_OK);
            assert_int_equal(rota_broker_adopt(taker, bench.now, &record, &again, NULL), ROTA_OK);
            assert_int_equal(again, number);
            assert_int_equal(rota_broker_find(bench.broker, q, record.id, &left, NULL), ROTA_OK);
            assert_int_equal(rota_broker_find(taker, q, record.id, &right, NULL), ROTA_OK);
            assert_same_job(&left, &right, false);
            n++;
        }
        assert_true(n > 10);
        rota_broker_durable(taker, bench.now, rota_broker_last_number(taker));
        assert_true(rota_broker_is_sound(taker));
        for (size_t i = 0; i < n_promises; i++)
            rota_broker_forget(bench.broker, bench.now, q, promises[i].id, &number, NULL);
        bench_settle(&bench);
        place = 0;
        assert_false(rota_broker_partition_next(bench.broker, q, 0, &place, &record));
        bench_restart(&bench); /* they do not come back */
        place = 0;
        assert_false(rota_broker_partition_next(bench.broker, q, 0, &place, &record));
        rota_broker_free(taker);
        bench_deinit(&bench);
    }
}

static void keys_still_share_after_a_handover(void **state)
{
    (void)state;
    struct rota_str q = rota_str("q");
    struct rota_broker *taker;
    struct rota_work_record record;
    uint64_t number, session;
    random_init(3);
    bench.is_slow = false;
    for (int i = 0; i < 20; i++)
        bench_add_spec(&bench, (struct rota_job_spec){.key = rota_str("much")});
    for (int i = 0; i < 3; i++)
        bench_add_spec(&bench, (struct rota_job_spec){.key = rota_str("little")});
    rota_broker_partition_close(bench.broker, bench.now, q, 0, NULL);
    bench_settle(&bench);
    assert_int_equal(rota_broker_new(&bench.options, &taker, NULL), ROTA_OK);
    rota_broker_begin(taker, bench.now);
    assert_int_equal(rota_broker_partition_open(taker, bench.now, q, 0, 9, NULL), ROTA_OK);
    for (size_t place = 0; rota_broker_partition_next(bench.broker, q, 0, &place, &record);)
        assert_int_equal(rota_broker_adopt(taker, bench.now, &record, &number, NULL), ROTA_OK);
    rota_broker_durable(taker, bench.now, number);
    rota_broker_clear(taker);
    struct rota_worker_spec spec = {.name = rota_str("w"), .slots = 6, .queues = &q, .n_queues = 1};
    assert_int_equal(rota_broker_worker_open(taker, bench.now, &spec, &session, NULL), ROTA_OK);
    size_t n, n_little = 0;
    const struct rota_work_effect *effects = rota_broker_effects(taker, &n);
    for (size_t i = 0; i < n; i++)
        n_little += effects[i].type == ROTA_WORK_DO_DISPATCH &&
                    rota_str_is_equal(effects[i].key, rota_str("little"));
    assert_int_equal(n_little, 3);
    rota_broker_free(taker);
    bench_deinit(&bench);
}

static void an_unfinished_job_of_ours_cannot_be_forgotten(void **state)
{
    (void)state;
    uint64_t number;
    random_init(2);
    struct rota_job_id id = bench_add(&bench, "x");
    assert_int_equal(rota_broker_forget(bench.broker, bench.now, rota_str("q"), id, &number, NULL),
                     ROTA_ERR_INVALID);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_WAITING);
    bench_deinit(&bench);
}

/* --- journals that can't be --- */

static void contradictory_records_are_skipped(void **state)
{
    (void)state;
    random_init(2);
    bench.is_slow = false;
    struct rota_job_id id = bench_add(&bench, "x");
    struct rota_broker *broker;
    assert_int_equal(rota_broker_new(&bench.options, &broker, NULL), ROTA_OK);
    struct rota_work_record add = {0};
    for (size_t i = 0; i < bench.journal.size; i++) {
        assert_int_equal(rota_broker_replay(broker, &bench.journal.items[i], NULL), ROTA_OK);
        if (bench.journal.items[i].type == ROTA_WORK_ADD)
            add = bench.journal.items[i];
    }
    uint64_t number = bench.journal.size;
    struct rota_job_spec bare = *add.spec, foreign = *add.spec;
    bare.id = (struct rota_job_id){0};
    foreign.partition = ROTA_JOB_PARTITIONS_MAX;
    const struct rota_work_record bad[] = {
        add,                                                    /* an old number */
        {.type = ROTA_WORK_ADD, .spec = add.spec},              /* twice */
        {.type = ROTA_WORK_ADD},                                /* of nothing */
        {.type = ROTA_WORK_ADD, .spec = &bare},                 /* without an id */
        {.type = ROTA_WORK_JOB, .spec = &foreign},              /* of no partition */
        {.type = ROTA_WORK_JOB, .spec = add.spec, .state = 77}, /* in no state */
        {.type = ROTA_WORK_RETRY, .id = id, .attempt = 5},      /* of what does not run */
        {.type = ROTA_WORK_END, .id = id, .state = ROTA_JOB_DONE, .attempt = 5},
        {.type = ROTA_WORK_END, .id = id, .state = ROTA_JOB_WAITING},
        {.type = ROTA_WORK_START, .id = id, .attempt = 0},
        {.type = ROTA_WORK_START, .id = id, .attempt = 1, .cause = 99},
        {.type = ROTA_WORK_REVIVE, .id = id},
        {.type = ROTA_WORK_LIFE, .attempt = 0},
        {.type = ROTA_WORK_OWN, .partition = UINT32_MAX, .epoch = 1},
        {.type = ROTA_WORK_WEIGHT, .weight = 0},
        {.type = (enum rota_work_record_type)99},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rota_work_record record = bad[i];
        if (i > 0)
            record.number = ++number;
        record.queue = rota_str("q");
        bench.error.text[0] = '\0';
        assert_int_equal(rota_broker_replay(broker, &record, &bench.error), ROTA_ERR_INVALID);
        assert_true(strlen(bench.error.text) > 10);
    }
    /* What is left of a job that is not known any more says nothing. */
    struct rota_work_record gone = {.type = ROTA_WORK_END,
                                    .number = ++number,
                                    .queue = rota_str("q"),
                                    .id = {1, 2},
                                    .state = ROTA_JOB_DONE};
    assert_int_equal(rota_broker_replay(broker, &gone, NULL), ROTA_OK);
    rota_broker_begin(broker, bench.now);
    assert_int_equal(rota_broker_n_jobs(broker), 1);
    assert_true(rota_broker_is_sound(broker));
    rota_broker_free(broker);
    bench_deinit(&bench);
}

static void refuse_record(struct rota_broker *broker, struct rota_work_record record,
                          const char *phrase)
{
    record.number = rota_broker_last_number(broker) + 1;
    record.queue = rota_str("q");
    assert_int_equal(rota_broker_replay(broker, &record, &bench.error), ROTA_ERR_INVALID);
    if (!strstr(bench.error.text, phrase))
        fail_msg("%s", bench.error.text);
}

static void replay_record(struct rota_broker *broker, struct rota_work_record record)
{
    record.number = rota_broker_last_number(broker) + 1;
    record.queue = rota_str("q");
    if (rota_broker_replay(broker, &record, &bench.error))
        fail_msg("%s", bench.error.text);
}

/* The largest that can be is read, what is above it is passed over. */
static void settings_of_a_journal_are_held_to_their_bounds(void **state)
{
    static char bytes[ROTA_JOB_KEY_MAX + 1];
    struct rota_broker *broker;
    struct rota_queue_view view;
    (void)state;
    random_init(2);
    memset(bytes, 'k', sizeof bytes);
    struct rota_str key = rota_str_of(bytes, ROTA_JOB_KEY_MAX);
    assert_int_equal(rota_broker_new(&bench.options, &broker, NULL), ROTA_OK);
#define GOOD(...)        replay_record(broker, (struct rota_work_record){__VA_ARGS__})
#define BAD(phrase, ...) refuse_record(broker, (struct rota_work_record){__VA_ARGS__}, phrase)
    GOOD(.type = ROTA_WORK_WEIGHT, .weight = ROTA_FAIR_WEIGHT_MAX, .key = key);
    key.size++;
    BAD("weight of a key", .type = ROTA_WORK_WEIGHT, .weight = 1, .key = key);
    BAD("weight of a key", .type = ROTA_WORK_WEIGHT, .weight = ROTA_FAIR_WEIGHT_MAX + 1);
    BAD("layout of a queue", .type = ROTA_WORK_LAYOUT);
    GOOD(.type = ROTA_WORK_OWN, .partition = ROTA_JOB_PARTITIONS_MAX - 1, .epoch = 5);
    GOOD(.type = ROTA_WORK_OWN, .partition = ROTA_JOB_PARTITIONS_MAX - 1);
    BAD("the epoch went backwards", .type = ROTA_WORK_OWN, .partition = ROTA_JOB_PARTITIONS_MAX - 1,
        .epoch = 4);
    GOOD(.type = ROTA_WORK_OWN, .partition = ROTA_JOB_PARTITIONS_MAX - 1, .epoch = 5);
    BAD("unknown partition", .type = ROTA_WORK_OWN, .partition = ROTA_JOB_PARTITIONS_MAX);
    GOOD(.type = ROTA_WORK_PAUSE, .is_paused = true, .weight = ROTA_JOB_ATTEMPTS_MAX);
    struct rota_str after = {0};
    assert_true(rota_broker_next_queue(broker, &after, &view));
    assert_true(view.is_paused);
    assert_int_equal(view.kills_max, ROTA_JOB_ATTEMPTS_MAX);
    GOOD(.type = ROTA_WORK_PAUSE, .weight = ROTA_JOB_ATTEMPTS_MAX + 1);
    after = rota_str("");
    assert_true(rota_broker_next_queue(broker, &after, &view));
    assert_false(view.is_paused);
    assert_int_equal(view.kills_max, 0);
    rota_broker_free(broker);
    bench_deinit(&bench);
}

static void chunks_of_a_journal_are_held_to_their_bounds(void **state)
{
    static char key[ROTA_JOB_KEY_MAX + 1], ids[16 * (ROTA_BROKER_CHUNK_JOBS_MAX + 1)];
    struct rota_broker *broker;
    struct rota_job_id name = {1, 2};
    (void)state;
    random_init(2);
    memset(key, 'k', sizeof key);
    assert_int_equal(rota_broker_new(&bench.options, &broker, NULL), ROTA_OK);
    struct rota_work_record chunk = {.type = ROTA_WORK_CHUNK,
                                     .id = name,
                                     .key = rota_str_of(key, ROTA_JOB_KEY_MAX),
                                     .bytes = rota_str_of(ids, sizeof ids - 16),
                                     .partition = ROTA_JOB_PARTITIONS_MAX - 1};
    replay_record(broker, chunk);
    chunk.id = (struct rota_job_id){0};
    refuse_record(broker, chunk, "is invalid");
    chunk.id = name;
    chunk.key.size++;
    refuse_record(broker, chunk, "is invalid");
    chunk.key.size--;
    chunk.bytes.size++;
    refuse_record(broker, chunk, "is invalid");
    chunk.bytes.size += 15;
    refuse_record(broker, chunk, "is invalid");
    chunk.bytes.size -= 16;
    chunk.partition++;
    refuse_record(broker, chunk, "is invalid");
    struct rota_work_record taken = {
        .type = ROTA_WORK_TAKEN, .id = name, .state = (enum rota_job_state)3};
    replay_record(broker, taken);
    taken.state = (enum rota_job_state)4;
    refuse_record(broker, taken, "is invalid");
    taken = (struct rota_work_record){.type = ROTA_WORK_TAKEN};
    refuse_record(broker, taken, "is invalid");
    rota_broker_free(broker);
    bench_deinit(&bench);
}

/* Each record of it counts once, in the order in which things can happen. */
static void a_job_of_a_journal_starts_and_ends_in_order(void **state)
{
    struct rota_broker *broker;
    (void)state;
    random_init(2);
    bench.is_slow = false;
    struct rota_job_id id = bench_add(&bench, "x");
    assert_int_equal(rota_broker_new(&bench.options, &broker, NULL), ROTA_OK);
    for (size_t i = 0; i < bench.journal.size; i++)
        replay_record(broker, bench.journal.items[i]);
    GOOD(.type = ROTA_WORK_START, .id = id, .attempt = 3);
    BAD("the job cannot start", .type = ROTA_WORK_START, .id = id, .attempt = 4);
    BAD("not running", .type = ROTA_WORK_RETRY, .id = id, .attempt = 2);
    GOOD(.type = ROTA_WORK_RETRY, .id = id, .attempt = 3, .cause = ROTA_JOB_CAUSE_FAILED);
    BAD("not running", .type = ROTA_WORK_RETRY, .id = id, .attempt = 3);
    BAD("the job cannot start", .type = ROTA_WORK_START, .id = id, .attempt = 2);
    BAD("this attempt is not running", .type = ROTA_WORK_END, .id = id, .attempt = 3,
        .state = ROTA_JOB_DONE);
    GOOD(.type = ROTA_WORK_START, .id = id, .attempt = 4);
    BAD("this attempt is not running", .type = ROTA_WORK_END, .id = id, .attempt = 3,
        .state = ROTA_JOB_DONE);
    BAD("not a final state", .type = ROTA_WORK_END, .id = id, .attempt = 4,
        .state = ROTA_JOB_RUNNING);
    BAD("the job is not dead", .type = ROTA_WORK_REVIVE, .id = id);
    GOOD(.type = ROTA_WORK_END, .id = id, .attempt = 4, .state = ROTA_JOB_DONE);
    BAD("the job has already ended", .type = ROTA_WORK_END, .id = id, .attempt = 4,
        .state = ROTA_JOB_DONE);
    BAD("the job cannot start", .type = ROTA_WORK_START, .id = id, .attempt = 5);
    BAD("the job is not dead", .type = ROTA_WORK_REVIVE, .id = id);
    rota_broker_free(broker);
    bench_deinit(&bench);
}

/* The bounds hold for what is remembered; a journal has more to tell. */
static void a_journal_may_contain_more_sets_than_the_limit(void **state)
{
    struct rota_job_id id;
    struct rota_job_view view;
    char name[16];
    (void)state;
    bench.options = (struct rota_broker_options){.keep = ROTA_MIN};
    bench_init(&bench);
    for (int i = 0; i < ROTA_BROKER_SETS_MAX + 100; i++) {
        snprintf(name, sizeof name, "c%d", i);
        id = bench_add_for(&bench, name);
        assert_int_equal(
            rota_broker_cancel(bench.broker, bench.now, rota_str("q"), id, &bench.number, NULL),
            ROTA_OK);
        bench_tick(&bench, ROTA_SEC);
    }
    bench_restart(&bench);
    assert_int_equal(rota_broker_find(bench.broker, rota_str("q"), id, &view, NULL), ROTA_OK);
    assert_true(rota_broker_is_sound(bench.broker));
    bench_deinit(&bench);
}

static void jobs_that_go_meanwhile_are_not_waited_for(void **state)
{
    struct rota_str r = rota_str("r");
    size_t n_live, n_ended;
    (void)state;
    random_init(2);
    bench.is_slow = false;
    for (int i = 0; i < 3; i++) {
        struct rota_job_id id = bench_add_spec(&bench, (struct rota_job_spec){.queue = r});
        assert_int_equal(rota_broker_cancel(bench.broker, bench.now, r, id, &bench.number, NULL),
                         ROTA_OK);
    }
    for (int i = 0; i < 2; i++)
        bench_add(&bench, "x");
    uint64_t from = rota_broker_last_number(bench.broker) + 1;
    assert_int_equal(rota_broker_rewrite(bench.broker, from, 1, SIZE_MAX), 4);
    bench_settle(&bench);
    assert_int_equal(rota_broker_delete_queue(bench.broker, bench.now, r, false, &n_live, &n_ended,
                                              &bench.number, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(n_ended, 3);
    assert_int_equal(rota_broker_rewrite(bench.broker, from, 0, SIZE_MAX), 2);
    assert_int_equal(rota_broker_rewrite(bench.broker, from, 2, SIZE_MAX), 0);
    bench_settle(&bench);
    bench_deinit(&bench);
}

static void added_job_has_no_history_whatever_its_record_contains(void **state)
{
    const struct rota_job_spec spec = {.id = {0x4000, 1}, .queue = rota_str("q")};
    const struct rota_work_record added = {.type = ROTA_WORK_ADD,
                                           .number = 1,
                                           .id = spec.id,
                                           .spec = &spec,
                                           .at = BENCH_WALL,
                                           .attempt = 5,
                                           .n_attempts = 3,
                                           .state = ROTA_JOB_DEAD,
                                           .cause = ROTA_JOB_CAUSE_FAILED,
                                           .not_before = BENCH_WALL + ROTA_HOUR};
    const struct rota_work_now now = {ROTA_SEC, BENCH_WALL};
    struct rota_work_record record;
    struct rota_broker *broker;
    (void)state;
    assert_int_equal(rota_broker_new(&(struct rota_broker_options){0}, &broker, NULL), ROTA_OK);
    assert_int_equal(rota_broker_replay(broker, &added, NULL), ROTA_OK);
    rota_broker_begin(broker, now);
    assert_true(rota_broker_job_record(broker, rota_str("q"), spec.id, &record));
    assert_int_equal(record.state, ROTA_JOB_WAITING);
    assert_int_equal(record.attempt, 0);
    assert_int_equal(record.n_attempts, 0);
    assert_int_equal(record.cause, ROTA_JOB_CAUSE_NONE);
    assert_int_equal(record.not_before, 0);
    rota_broker_free(broker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_journal_gives_the_same_broker),
        cmocka_unit_test(the_next_steps_are_the_same_too),
        cmocka_unit_test(after_a_crash_all_that_was_acknowledged_is_there),
        cmocka_unit_test(a_broker_that_crashes_again_and_again_ends_each_job_once),
        cmocka_unit_test(old_records_of_rewritten_jobs_are_not_needed),
        cmocka_unit_test(lives_are_not_lost_with_old_records),
        cmocka_unit_test(a_partition_is_handed_over_without_loss_or_double),
        cmocka_unit_test(keys_still_share_after_a_handover),
        cmocka_unit_test(an_unfinished_job_of_ours_cannot_be_forgotten),
        cmocka_unit_test(a_journal_may_contain_more_sets_than_the_limit),
        cmocka_unit_test(contradictory_records_are_skipped),
        cmocka_unit_test(settings_of_a_journal_are_held_to_their_bounds),
        cmocka_unit_test(chunks_of_a_journal_are_held_to_their_bounds),
        cmocka_unit_test(a_job_of_a_journal_starts_and_ends_in_order),
        cmocka_unit_test(jobs_that_go_meanwhile_are_not_waited_for),
        cmocka_unit_test(added_job_has_no_history_whatever_its_record_contains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
