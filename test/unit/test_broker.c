/* The rules of core/work/broker/broker.h, one test for each: submitters, queues and bounds. */
#include "broker_rules.h"
#include "core/work/broker/broker_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- submitters --- */

static void a_repeated_add_is_made_once(void **state)
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

static void any_id_is_kept_and_its_job_is_where_it_was_put(void **state)
{
    (void)state;
    struct rota_str q = rota_str("q");
    struct rota_job_spec spec = {.queue = q, .id = {0x7c9e6679742540de, 0x944be07fc1f90ae7}};
    struct rota_job_id id;
    assert_int_equal(rota_broker_partition_open(bench.broker, bench.now, q, 5, 1, NULL), ROTA_OK);
    spec.partition = 5;
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK);
    assert_true(bench.is_new && bench_id_is(id, spec.id));
    assert_int_equal(bench_view(&bench, id).spec.partition, 5);
    bench_restart(&bench);
    assert_int_equal(bench_view(&bench, id).spec.partition, 5);
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK);
    assert_false(bench.is_new);
    assert_int_equal(rota_broker_partition_close(bench.broker, bench.now, q, 5, NULL), ROTA_OK);
    bench_open(&bench, "w", 1);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_WAITING); /* not ours */
    assert_int_equal(rota_broker_partition_open(bench.broker, bench.now, q, 5, 2, NULL), ROTA_OK);
    bench_settle(&bench);
    bench_done(&bench, id);
    assert_true(rota_broker_is_sound(bench.broker));
}

static void an_add_with_a_known_key_is_the_first_job_whatever_its_spec(void **state)
{
    (void)state;
    struct rota_str q = rota_str("q"), key = rota_str("order 17");
    struct rota_job_spec spec = {.queue = q,
                                 .id = rota_job_id_of_key(q, key, 1),
                                 .payload = rota_str("first"),
                                 .is_keyed = true};
    struct rota_job_id first, second;
    assert_int_equal(bench_try_add(&bench, &spec, &first), ROTA_OK);
    spec.payload = rota_str("second");
    spec.deadline = bench.now.wall + ROTA_HOUR; /* as who counts it from now would have it */
    assert_int_equal(bench_try_add(&bench, &spec, &second), ROTA_OK);
    assert_true(!bench.is_new && bench_id_is(first, second));
    bench_open(&bench, "w", 1);
    bench_done(&bench, first);
    assert_int_equal(bench_try_add(&bench, &spec, &second), ROTA_OK);
    assert_true(!bench.is_new && bench_id_is(first, second));
    bench_tick(&bench, ROTA_JOB_KEEP + ROTA_SEC); /* it is forgotten, and so is the key */
    spec.deadline = 0;
    assert_int_equal(bench_try_add(&bench, &spec, &second), ROTA_OK);
    assert_true(bench.is_new);
}

static void assert_other(struct rota_job_spec spec, const char *difference)
{
    struct rota_job_id id = {0, 7};
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_ERR_INVALID);
    assert_non_null(strstr(bench.error.text, difference));
    assert_true(id.high == 0 && id.low == 7);
}

static void assert_settings_count(const struct rota_job_spec spec)
{
    struct rota_job_spec other;
    assert_other((other = spec, other.n_capabilities = 1, other), "capabilities");
    assert_other((other = spec, other.capabilities++, other.n_capabilities = 1, other),
                 "capabilities");
    assert_other((other = spec, other.unique = rota_str(""), other), "unique key");
    assert_other((other = spec, other.key = rota_str("u"), other), "a different key");
    assert_other((other = spec, other.deadline = bench.now.wall + ROTA_DAY, other), "deadline");
    assert_other((other = spec, other.timeout = 1, other), "timeout");
    assert_other((other = spec, other.max_attempts = 1, other), "attempts");
    assert_other((other = spec, other.backoff = 1, other), "backoff");
    assert_other((other = spec, other.backoff_max = ROTA_DAY, other), "backoff");
}

static void assert_payload_counts(const struct rota_job_spec spec)
{
    struct rota_job_spec other = spec;
    assert_other((other.payload = rota_str("y"), other), "a different payload");
    assert_other((other.payload = rota_str("xx"), other), "a different payload");
    assert_other((other.payload = rota_str(""), other), "a different payload");
}

static void assert_is_there(struct rota_job_spec spec)
{
    struct rota_job_id id;
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK);
    assert_true(!bench.is_new && bench_id_is(id, spec.id));
}

/* A worker comes, does the job and goes. */
static void run(const struct rota_job_spec *spec)
{
    uint64_t session =
        bench_open_spec(&bench, (struct rota_worker_spec){.name = rota_str("w"),
                                                          .slots = 1,
                                                          .capabilities = spec->capabilities,
                                                          .n_capabilities = spec->n_capabilities});
    bench_done(&bench, spec->id);
    rota_broker_worker_close(bench.broker, bench.now, session);
    bench_settle(&bench);
}

/* Waiting and done, before and after a restart. */
static void an_id_is_that_of_one_job(void **state)
{
    (void)state;
    struct rota_str names[] = {rota_str("a"), rota_str("b"), rota_str("a")};
    const struct rota_job_spec spec = {.queue = rota_str("q"),
                                       .id = rota_job_id_make(bench.now.wall, 0, 42),
                                       .payload = rota_str("x"),
                                       .capabilities = names,
                                       .n_capabilities = 2,
                                       .unique = rota_str("u"),
                                       .key = rota_str("k")};
    struct rota_job_spec other;
    struct rota_job_id id;
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK);
    assert_true(bench.is_new);
    for (int life = 0; life < 4; life++) {
        assert_settings_count(spec);
        assert_payload_counts(spec);
        /* The same in other words, and what may have changed since. */
        other = spec;
        other.capabilities = names + 1;
        other.max_attempts = ROTA_JOB_ATTEMPTS_DEFAULT;
        other.backoff = ROTA_JOB_BACKOFF_FIRST;
        other.backoff_max = ROTA_JOB_BACKOFF_MAX;
        other.priority = 7;
        other.not_before = bench.now.wall + ROTA_SEC;
        other.trace = rota_str("t");
        assert_is_there(other);
        if (life == 1)
            run(&spec);
        else
            bench_restart(&bench);
    }
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DONE);
}

static void of_one_that_came_as_done_the_payload_is_not_known(void **state)
{
    (void)state;
    struct rota_str name = rota_str("a");
    struct rota_job_spec spec = {.queue = rota_str("q"),
                                 .id = rota_job_id_make(bench.now.wall, 0, 42),
                                 .payload = rota_str("x"),
                                 .capabilities = &name,
                                 .n_capabilities = 1};
    struct rota_job_id id;
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK);
    run(&spec);
    assert_payload_counts(spec);
    assert_int_equal(rota_broker_rewrite(bench.broker, UINT64_MAX, SIZE_MAX, SIZE_MAX), 0);
    bench_settle(&bench);
    assert_payload_counts(spec);
    bench_restart(&bench); /* the last that it reads of the job is that it is done */
    spec.payload = rota_str("another");
    assert_is_there(spec);
    assert_other((spec.n_capabilities = 0, spec), "capabilities");
}

/* No payload is one as well. */
static void an_empty_payload_is_known_when_it_is_gone(void **state)
{
    (void)state;
    struct rota_job_spec spec = {.queue = rota_str("q"),
                                 .id = rota_job_id_make(bench.now.wall, 0, 42)};
    struct rota_job_id id;
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK);
    run(&spec);
    assert_is_there(spec);
    assert_other((spec.payload = rota_str("x"), spec), "a different payload");
}

static void an_add_finds_its_job_also_when_a_retry_took_its_deadline(void **state)
{
    (void)state;
    const struct rota_job_spec spec = {.queue = rota_str("q"),
                                       .id = rota_job_id_make(bench.now.wall, 0, 42),
                                       .deadline = bench.now.wall + ROTA_SEC};
    struct rota_job_id id;
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK);
    bench_tick(&bench, ROTA_MIN);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_DEAD);
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK);
    assert_int_equal(
        rota_broker_revive(bench.broker, bench.now, spec.queue, id, &bench.number, NULL), ROTA_OK);
    bench_settle(&bench);
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK);
    assert_true(!bench.is_new && bench_id_is(id, spec.id));
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

static void invalid_specs_are_refused(void **state)
{
    (void)state;
    static char huge[ROTA_JOB_PAYLOAD_MAX + 1];
    struct rota_job_id id = {9, 9};
    struct rota_str names[17], bad = rota_str("a b");
    for (int i = 0; i < 17; i++)
        names[i] = rota_str("x");
    struct rota_job_spec good = {.queue = rota_str("q")};
    struct rota_job_spec specs[15];
    for (int i = 0; i < 15; i++)
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
    for (int i = 0; i < 15; i++) {
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
    assert_int_equal(view.events[2].state, ROTA_JOB_DEAD);
    assert_true(rota_str_is_equal(view.events[2].worker, rota_str("w")));
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

/* --- without a journal --- */

static size_t n_records(enum rota_work_record_type type)
{
    size_t n = 0;
    for (size_t i = 0; i < bench.journal.size; i++)
        n += bench.journal.items[i].type == type;
    return n;
}

static void without_a_journal_the_usual_records_are_not_emitted(void **state)
{
    (void)state;
    bench_deinit(&bench);
    bench.options.is_volatile = true;
    bench_init(&bench);
    rota_broker_set_watched(bench.broker, false);
    bench_open(&bench, "w", 1);
    struct rota_job_id id = bench_add(&bench, "x");
    uint64_t added = bench.number;
    bench_end_now(&bench, id, ROTA_JOB_CAUSE_DONE, "result");
    assert_true(bench.number > added);
    struct rota_job_view view = bench_view(&bench, id);
    assert_int_equal(view.state, ROTA_JOB_DONE);
    assert_int_equal(view.result.size, 6);
    assert_memory_equal(view.result.data, "result", 6);
    assert_int_equal(view.n_attempts, 1);
    assert_int_equal(
        n_records(ROTA_WORK_ADD) + n_records(ROTA_WORK_START) + n_records(ROTA_WORK_END), 0);

    struct rota_job_id dead = bench_add(&bench, "y"); /* what people want to know is told */
    bench_end_now(&bench, dead, ROTA_JOB_CAUSE_REFUSED, "no");
    assert_int_equal(n_records(ROTA_WORK_END), 1);
    rota_broker_set_watched(bench.broker, true);
    bench_add(&bench, "z");
    assert_int_equal(n_records(ROTA_WORK_ADD), 1);
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

/* No retry helps, so the code is not that of a broker that is full. */
static void a_payload_that_never_fits_is_invalid(void **state)
{
    (void)state;
    static char bytes[1001];
    bench_deinit(&bench);
    bench.options.bytes_max = 1000;
    bench_init(&bench);
    struct rota_job_spec spec = {.queue = rota_str("q"),
                                 .payload = rota_str_of(bytes, sizeof bytes)};
    struct rota_job_id id;
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_ERR_INVALID);
    spec.payload.size--;
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK);
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_ERR_LIMIT);
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

enum { QUEUES = 1024 };

static void unused_lanes_sets_and_queues_make_room(void **state)
{
    (void)state;
    bench_deinit(&bench);
    bench.options.queues_max = QUEUES;
    bench_init(&bench);
    bench.options.queues_max = 0;
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
    for (int i = 0; i < 2 * QUEUES; i++) {
        snprintf(name, sizeof name, "queue%d", i);
        struct rota_str queue = rota_str(name);
        uint64_t session = bench_open_spec(
            &bench, (struct rota_worker_spec){
                        .name = rota_str("w"), .slots = 1, .queues = &queue, .n_queues = 1});
        rota_broker_worker_close(bench.broker, bench.now, session);
    }
    bench_settle(&bench);
}

static size_t n_queues(void)
{
    struct rota_queue_view view;
    size_t n = 0;
    for (struct rota_str place = {0}; rota_broker_next_queue(bench.broker, &place, &view);)
        n++;
    return n;
}

/* Without a look at all of it after each step, which the bench would have. */
static enum rota_code add_to(struct rota_broker *broker, const char *name, struct rota_job_id *id)
{
    struct rota_job_spec spec = {.queue = rota_str(name)};
    uint64_t number;
    bool is_new;
    enum rota_code code =
        rota_broker_partition_open(broker, bench.now, spec.queue, 0, 1, &bench.error);
    if (!code)
        code = rota_broker_add(broker, bench.now, &spec, id, &is_new, &number, &bench.error);
    rota_broker_durable(broker, bench.now, rota_broker_last_number(broker));
    rota_broker_clear(broker);
    return code;
}

static void a_hundred_thousand_queues_have_jobs_and_leave_nothing_behind(void **state)
{
    (void)state;
    enum { N = ROTA_BROKER_QUEUES_MAX };
    struct rota_job_id *ids = calloc(N, sizeof *ids), more;
    struct rota_broker *broker, *kept = bench.broker;
    char name[32];
    uint64_t number;
    assert_int_equal(N, 100000);
    assert_int_equal(rota_broker_new(&bench.options, &broker, NULL), ROTA_OK);
    rota_broker_begin(broker, bench.now);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "tenant%d", i);
        assert_int_equal(add_to(broker, name, &ids[i]), ROTA_OK);
    }
    assert_int_equal(add_to(broker, "one-too-many", &more), ROTA_ERR_LIMIT);
    assert_true(rota_broker_is_sound(broker));
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "tenant%d", i);
        assert_int_equal(
            rota_broker_cancel(broker, bench.now, rota_str(name), ids[i], &number, NULL), ROTA_OK);
        rota_broker_clear(broker);
    }
    bench.now.boot += ROTA_JOB_KEEP + ROTA_SEC;
    bench.now.wall += ROTA_JOB_KEEP + ROTA_SEC;
    rota_broker_tick(broker, bench.now); /* and they are forgotten */
    assert_true(rota_broker_has_empty(broker));
    rota_broker_forget_empty(broker, bench.now);
    assert_false(rota_broker_has_empty(broker));
    bench.broker = broker;
    assert_int_equal(n_queues(), 0);
    bench.broker = kept;
    assert_true(rota_broker_is_sound(broker));
    assert_int_equal(add_to(broker, "one-too-many", &more), ROTA_OK);
    rota_broker_free(broker);
    free(ids);
}

static void a_queue_is_forgotten_with_all_its_lanes(void **state)
{
    static const char *const needed[] = {"cpu", "gpu"};
    uint64_t number;
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(rota_broker_cancel(bench.broker, bench.now, rota_str("q"),
                                            bench_add_for(&bench, needed[i]), &number, NULL),
                         ROTA_OK);
    bench_settle(&bench);
    bench_tick(&bench, ROTA_JOB_KEEP + ROTA_SEC);
    rota_broker_forget_empty(bench.broker, bench.now);
    assert_int_equal(n_queues(), 0);
    assert_true(rota_broker_is_sound(bench.broker));
}

static void a_queue_with_a_setting_is_not_forgotten(void **state)
{
    (void)state;
    uint64_t number;
    struct rota_str q = rota_str("other");
    assert_int_equal(rota_broker_pause(bench.broker, bench.now, q, true, &number, NULL), ROTA_OK);
    bench_settle(&bench);
    bench_restart(&bench);
    bench_tick(&bench, ROTA_HOUR);
    rota_broker_forget_empty(bench.broker, bench.now);
    assert_int_equal(n_queues(), 1); /* that of the bench is gone */
    assert_int_equal(rota_broker_pause(bench.broker, bench.now, q, false, &number, NULL), ROTA_OK);
    bench_settle(&bench);
    bench_restart(&bench);
    rota_broker_forget_empty(bench.broker, bench.now);
    assert_int_equal(n_queues(), 0);
}

static void a_queue_is_deleted_when_its_jobs_have_ended(void **state)
{
    (void)state;
    struct rota_str q = rota_str("q");
    struct rota_job_view view;
    size_t n_live, n_ended;
    uint64_t number;
    struct rota_job_id done = bench_add(&bench, "x"), waits = bench_add(&bench, "y");
    bench_open(&bench, "w", 1);
    bench_done(&bench, done);
    assert_int_equal(
        rota_broker_set_weight(bench.broker, bench.now, q, rota_str("k"), 300, &number, NULL),
        ROTA_OK);
    assert_int_equal(rota_broker_delete_queue(bench.broker, bench.now, q, false, &n_live, &n_ended,
                                              &number, &bench.error),
                     ROTA_ERR_INVALID);
    assert_int_equal(n_live, 1);
    assert_int_equal(n_ended, 1);
    bench_done(&bench, waits);
    assert_int_equal(rota_broker_delete_queue(bench.broker, bench.now, q, true, &n_live, &n_ended,
                                              &number, &bench.error),
                     ROTA_OK);
    assert_int_equal(n_ended, 2);
    assert_int_equal(number, 0);                                /* there is no record to wait for */
    assert_int_equal(bench_state(&bench, done), ROTA_JOB_DONE); /* it was only looked at */
    assert_int_equal(rota_broker_delete_queue(bench.broker, bench.now, q, false, &n_live, &n_ended,
                                              &number, &bench.error),
                     ROTA_OK);
    bench_settle(&bench);
    bench_restart(&bench);
    assert_int_equal(rota_broker_find(bench.broker, q, done, &view, NULL), ROTA_ERR_NOT_FOUND);
    rota_broker_forget_empty(bench.broker, bench.now);
    bench_settle(&bench);
    assert_int_equal(n_queues(), 0);
    assert_int_equal(rota_broker_delete_queue(bench.broker, bench.now, q, false, &n_live, &n_ended,
                                              &number, &bench.error),
                     ROTA_ERR_NOT_FOUND);
}

/* A row with `n` pauses. */
struct paused {
    struct rota_str queue;
    int n;
};

static bool next_paused(void *data, struct rota_work_record *setting)
{
    struct paused *paused = data;
    *setting = (struct rota_work_record){
        .type = ROTA_WORK_PAUSE, .queue = paused->queue, .is_paused = true, .at = bench.now.wall};
    return paused->n-- > 0;
}

static void default_settings_do_not_restore_a_deleted_queue(void **state)
{
    (void)state;
    struct rota_str q = rota_str("q");
    struct rota_queue_view view;
    size_t n_live, n_ended;
    uint64_t number;
    struct rota_job_id job = bench_add(&bench, "x");
    assert_int_equal(rota_broker_cancel(bench.broker, bench.now, q, job, &number, NULL), ROTA_OK);
    assert_int_equal(rota_broker_pause(bench.broker, bench.now, q, true, &number, NULL), ROTA_OK);
    assert_int_equal(rota_broker_delete_queue(bench.broker, bench.now, q, false, &n_live, &n_ended,
                                              &number, &bench.error),
                     ROTA_OK);
    bench_settle(&bench);
    assert_false(rota_broker_find_queue(bench.broker, q, &view));
    struct paused paused = {.queue = q};
    for (int i = 0; i < 2; i++) {
        paused.n = 0;
        assert_int_equal(rota_broker_put_settings(bench.broker, bench.now, paused.queue,
                                                  next_paused, &paused, NULL),
                         ROTA_OK);
        bench_settle(&bench);
        assert_false(rota_broker_find_queue(bench.broker, paused.queue, &view));
        paused.queue = rota_str("never"); /* nor is one made */
    }
    rota_broker_forget_empty(bench.broker, bench.now);
    assert_int_equal(n_queues(), 0);
    paused.n = 1;
    assert_int_equal(
        rota_broker_put_settings(bench.broker, bench.now, paused.queue, next_paused, &paused, NULL),
        ROTA_OK);
    assert_true(rota_broker_find_queue(bench.broker, paused.queue, &view));
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
    capability = rota_str("cap7"); /* what is known continues */
    assert_int_equal(bench_try_add(&bench, &spec, &id), ROTA_OK);
}

static void states_are_not_reported_while_jobs_are_not_watched(void **state)
{
    (void)state;
    bench_open(&bench, "w", 1);
    struct rota_job_id id = bench_add(&bench, "x");
    assert_true(bench_count(&bench, ROTA_WORK_TELL_STATE, id) > 0);
    bench_done(&bench, id);
    bench_look(&bench);
    rota_broker_set_watched(bench.broker, false);
    bench_done(&bench, bench_add(&bench, "y"));
    assert_int_equal(bench_count(&bench, ROTA_WORK_TELL_STATE, BENCH_NONE), 0);
    assert_int_equal(bench_count(&bench, ROTA_WORK_TELL_ENDED, BENCH_NONE), 0);
    assert_int_equal(bench_count(&bench, ROTA_WORK_DO_DISPATCH, BENCH_NONE), 1);
}

/* A reported state is true once the record with its number is on disk. */
static void state_is_reported_with_its_record_cause_and_session(void **state)
{
    (void)state;
    uint64_t session = bench_open(&bench, "w", 1);
    struct rota_job_id id = bench_add(&bench, "x");
    struct rota_work_effect told = bench_last(&bench, ROTA_WORK_TELL_STATE);
    assert_int_equal(told.session, session);
    assert_int_equal(told.number, 0); /* that it runs is true now */
    bench_end_now(&bench, id, ROTA_JOB_CAUSE_FAILED, "broken");
    told = bench_last(&bench, ROTA_WORK_TELL_STATE);
    assert_int_equal(told.number, bench.number);
    assert_int_equal(told.cause, ROTA_JOB_CAUSE_FAILED);
    assert_int_equal(rota_broker_extend(bench.broker, bench.now, rota_str("q"), id, 1, 0, 0,
                                        rota_str("half"), NULL),
                     ROTA_ERR_STALE);
}

static void attempt_that_takes_too_long_is_followed_by_the_backoff(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add_spec(&bench, (struct rota_job_spec){.timeout = 2 * ROTA_SEC,
                                                                          .backoff = 40 * ROTA_SEC,
                                                                          .backoff_max = ROTA_MIN});
    bench_open(&bench, "w", 1);
    bench_tick(&bench, 2 * ROTA_SEC + ROTA_JOB_TIMEOUT_GRACE - 1);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    bench_tick(&bench, 1);
    struct rota_job_view view = bench_view(&bench, id);
    assert_int_equal(view.state, ROTA_JOB_DELAYED);
    assert_true(view.not_before >= bench.now.wall + 30 * ROTA_SEC);
    assert_true(rota_str_is_equal(view.events[view.n_events - 1].reason,
                                  rota_str("the attempt timed out")));
    const struct rota_work_record *last = &bench.journal.items[bench.journal.size - 1];
    assert_int_equal(last->type, ROTA_WORK_RETRY);
    assert_true(rota_str_is_equal(last->reason, rota_str("the attempt timed out")));
}

/* Whatever a record holds of a job, and of all that is not a job, takes room in a journal. */
static void size_of_a_rewrite_counts_all_that_there_is(void **state)
{
    (void)state;
    const struct rota_str names[] = {rota_str("gpu"), rota_str("eu")};
    const struct rota_job_spec plain = {.payload = rota_str("x")};
    struct rota_job_spec specs[] = {plain, plain, plain, plain, plain, plain, plain, plain, plain};
    static const uint64_t MORE[] = {0, 3, 5, 7, 10, 10, 10, 10, 3 + 2};
    specs[1].unique = rota_str("one");
    specs[2].key = rota_str("fifth");
    specs[3].trace = rota_str("seventh");
    specs[4].timeout = ROTA_SEC;
    specs[5].deadline = bench.now.wall + ROTA_HOUR;
    specs[6].backoff = ROTA_SEC;
    specs[7].not_before = bench.now.wall + ROTA_MIN;
    specs[8].capabilities = names;
    specs[8].n_capabilities = 2;
    uint64_t first = 0;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        uint64_t before = rota_broker_rewrite_size(bench.broker, UINT64_MAX, SIZE_MAX, UINT64_MAX);
        bench_add_spec(&bench, specs[i]);
        uint64_t more =
            rota_broker_rewrite_size(bench.broker, UINT64_MAX, SIZE_MAX, UINT64_MAX) - before;
        if (i == 0)
            first = more;
        assert_true(more >= first + MORE[i]);
        assert_true(more <= first + MORE[i] + 2 * 4);
        assert_in_range(first, 20, 200);
    }
    uint64_t before = rota_broker_rewrite_size(bench.broker, UINT64_MAX, SIZE_MAX, UINT64_MAX);
    assert_int_equal(rota_broker_partition_close(bench.broker, bench.now, rota_str("q"), 0, NULL),
                     ROTA_OK);
    struct rota_job_id name;
    assert_int_equal(rota_broker_chunk_begin(bench.broker, bench.now, rota_str("q"), 0,
                                             rota_str("far.example:1"), &name, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    uint64_t more = rota_broker_rewrite_size(bench.broker, UINT64_MAX, SIZE_MAX, UINT64_MAX);
    assert_in_range(more - before, 9 * sizeof name + 2 * 13, 1000); /* the chunk and its node */
}

static void queue_removed_while_paused_takes_its_lanes_along(void **state)
{
    static const char *const NAMES[] = {"x", "y"};
    struct rota_job_id id;
    size_t n_live, n_ended;
    (void)state;
    rota_broker_hold(bench.broker, bench.now, true);
    for (size_t i = 0; i < 2; i++) {
        bench_own(&bench, NAMES[i]);
        id = bench_add_spec(&bench, (struct rota_job_spec){.queue = rota_str(NAMES[i])});
        if (i == 0) {
            assert_int_equal(
                rota_broker_cancel(bench.broker, bench.now, rota_str("x"), id, &bench.number, NULL),
                ROTA_OK);
            bench_settle(&bench);
            assert_int_equal(rota_broker_delete_queue(bench.broker, bench.now, rota_str("x"), false,
                                                      &n_live, &n_ended, &bench.number, NULL),
                             ROTA_OK);
            bench_settle(&bench);
            rota_broker_forget_empty(bench.broker, bench.now);
            bench_settle(&bench);
        }
    }
    struct rota_str queue = rota_str("y");
    uint64_t session = bench_open_spec(
        &bench, (struct rota_worker_spec){
                    .name = rota_str("w"), .slots = 2, .queues = &queue, .n_queues = 1});
    rota_broker_hold(bench.broker, bench.now, false);
    bench_settle(&bench);
    assert_int_equal(bench_session_of(&bench, id), session);
}

/* Whatever is asked of it, and whether that can be done or not, a broker knows the time then. */
static void every_call_brings_the_time(void **state)
{
    struct rota_broker *broker = bench.broker;
    struct rota_str q = rota_str("q"), none = rota_str("none");
    struct rota_job_id id = {1, 2}, made;
    struct rota_job_spec spec = {.id = id, .queue = none};
    struct rota_work_record job = {.type = ROTA_WORK_JOB, .id = id, .spec = &spec};
    struct paused paused = {.queue = q};
    struct rota_broker_node_view node = {rota_str("b:1"), true, 0};
    struct rota_attempt_end end = {.queue = q, .id = id};
    struct rota_worker_spec worker = {.name = none};
    uint64_t number;
    size_t n, m;
    bool is_new;
    (void)state;
#define AT_NEXT(call)                                                                              \
    do {                                                                                           \
        bench.now.boot += ROTA_SEC;                                                                \
        bench.now.wall += ROTA_SEC;                                                                \
        (void)call;                                                                                \
        assert_int_equal(broker->now.boot, bench.now.boot);                                        \
        assert_int_equal(broker->now.wall, bench.now.wall);                                        \
        bench_take(&bench);                                                                        \
    } while (0)
    AT_NEXT(rota_broker_durable(broker, bench.now, 0));
    AT_NEXT(rota_broker_tick(broker, bench.now));
    AT_NEXT(rota_broker_add(broker, bench.now, &spec, &made, &is_new, &number, NULL));
    AT_NEXT(rota_broker_cancel(broker, bench.now, q, id, &number, NULL));
    AT_NEXT(rota_broker_revive(broker, bench.now, q, id, &number, NULL));
    AT_NEXT(rota_broker_set_priority(broker, bench.now, q, id, 1, &number, NULL));
    AT_NEXT(rota_broker_pause(broker, bench.now, q, false, &number, NULL));
    AT_NEXT(rota_broker_set_kills(broker, bench.now, q, 1, &number, NULL));
    AT_NEXT(rota_broker_set_weight(broker, bench.now, q, none, 2000, &number, NULL));
    AT_NEXT(rota_broker_delete_queue(broker, bench.now, none, false, &n, &m, &number, NULL));
    AT_NEXT(rota_broker_put_settings(broker, bench.now, q, next_paused, &paused, NULL));
    AT_NEXT(rota_broker_forget_empty(broker, bench.now));
    AT_NEXT(rota_broker_partition_open(broker, bench.now, none, 0, 1, NULL));
    AT_NEXT(rota_broker_partition_close(broker, bench.now, none, 1, NULL));
    AT_NEXT(rota_broker_partition_drop(broker, bench.now, none, 1, NULL));
    AT_NEXT(rota_broker_forget(broker, bench.now, q, id, &number, NULL));
    AT_NEXT(rota_broker_load(broker, bench.now, &job, NULL));
    AT_NEXT(rota_broker_raise_life(broker, bench.now, 0, NULL));
    AT_NEXT(rota_broker_hold(broker, bench.now, false));
    AT_NEXT(rota_broker_share(broker, bench.now, true));
    AT_NEXT(rota_broker_chunk_begin(broker, bench.now, none, 0, rota_str("b:1"), &made, NULL));
    AT_NEXT(rota_broker_chunk_taken(broker, bench.now, id, NULL));
    AT_NEXT(rota_broker_chunk_end(broker, bench.now, id, NULL));
    AT_NEXT(rota_broker_adopted_over(broker, bench.now, id, &number, NULL));
    AT_NEXT(rota_broker_adopting(broker, bench.now, id, NULL));
    AT_NEXT(rota_broker_adopt(broker, bench.now, &job, &number, NULL));
    AT_NEXT(rota_broker_adopted(broker, bench.now, id, &number, NULL));
    AT_NEXT(rota_broker_adopting(broker, bench.now, (struct rota_job_id){3, 4}, NULL));
    AT_NEXT(rota_broker_adopt_none(broker, bench.now));
    AT_NEXT(rota_broker_node_self(broker, bench.now, rota_str("a:1"), NULL));
    AT_NEXT(rota_broker_nodes_begin(broker, bench.now));
    rota_broker_nodes_end(broker);
    AT_NEXT(rota_broker_node_forget(broker, bench.now, rota_str("c:1"), &number, NULL));
    AT_NEXT(rota_broker_node_speak(broker, bench.now, true, &node, NULL));
    AT_NEXT(rota_broker_take_node(broker, bench.now, &node, NULL));
    AT_NEXT(rota_broker_worker_open(broker, bench.now, &worker, &number, NULL));
    AT_NEXT(rota_broker_worker_close(broker, bench.now, 7));
    AT_NEXT(rota_broker_worker_lost(broker, bench.now, 7, false));
    AT_NEXT(rota_broker_worker_heard(broker, bench.now, 7));
    AT_NEXT(rota_broker_worker_slots(broker, bench.now, 7, 1));
    AT_NEXT(rota_broker_worker_holds(broker, bench.now, 7, 0, NULL, 0, NULL));
    AT_NEXT(rota_broker_end(broker, bench.now, &end, &number, NULL));
    AT_NEXT(rota_broker_lose(broker, bench.now, q, id, 1, &number, NULL));
    AT_NEXT(rota_broker_extend(broker, bench.now, q, id, 1, 0, 0, none, NULL));
#undef AT_NEXT
    bench_settle(&bench);
}

/* The monotonic clock does not go back; the wall clock may. */
static void older_time_does_not_turn_the_clock_back(void **state)
{
    struct rota_work_now before = bench.now;
    (void)state;
    bench_tick(&bench, ROTA_MIN);
    rota_broker_tick(bench.broker, before);
    assert_int_equal(bench.broker->now.boot, bench.now.boot);
    assert_int_equal(bench.broker->now.wall, before.wall);
    assert_int_equal(bench.broker->stamp, bench.now.wall);
}

static void zero_options_mean_the_defaults_and_others_stay(void **state)
{
    (void)state;
    assert_int_equal(bench.broker->options.grace, ROTA_BROKER_GRACE);
    bench_deinit(&bench);
    bench.options = (struct rota_broker_options){
        .grace = 1, .jobs_max = 1, .queues_max = 1, .bytes_max = 1, .ended_max = 1, .keep = 1};
    bench_init(&bench);
    assert_int_equal(bench.broker->options.grace, 1);
    assert_int_equal(bench.broker->options.jobs_max, 1);
    assert_int_equal(bench.broker->options.queues_max, 1);
    assert_int_equal(bench.broker->options.bytes_max, 1);
    assert_int_equal(bench.broker->options.ended_max, 1);
    assert_int_equal(bench.broker->options.keep, 1);
    bench_deinit(&bench);
    bench.options = (struct rota_broker_options){0};
    bench_init(&bench);
}

static void queues_that_come_and_go_do_not_leak(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        char name[16];
        size_t n_live, n_ended;
        snprintf(name, sizeof name, "queue-%d", i);
        bench_own(&bench, name);
        struct rota_job_id id =
            bench_add_spec(&bench, (struct rota_job_spec){.queue = rota_str(name)});
        assert_int_equal(
            rota_broker_cancel(bench.broker, bench.now, rota_str(name), id, &bench.number, NULL),
            ROTA_OK);
        bench_settle(&bench);
        assert_int_equal(rota_broker_delete_queue(bench.broker, bench.now, rota_str(name), false,
                                                  &n_live, &n_ended, &bench.number, NULL),
                         ROTA_OK);
        bench_settle(&bench);
        rota_broker_forget_empty(bench.broker, bench.now);
        bench_settle(&bench);
        assert_null(rota_broker_queue(bench.broker, rota_str(name)));
    }
    assert_true(bench.broker->queues.all.size <= 2);
    assert_true(bench.broker->lanes.all.size <= 2);
}

/* More sets of capabilities than there may be at a time, each for a while, at one worker. */
static void sets_of_capabilities_come_and_go_while_a_worker_has_them_all(void **state)
{
    enum { NAMES = 50 };
    static char names[NAMES][8];
    struct rota_str all[NAMES], need[2];
    size_t n_done = 0;
    (void)state;
    for (int i = 0; i < NAMES; i++) {
        snprintf(names[i], sizeof names[i], "can%d", i);
        all[i] = rota_str(names[i]);
    }
    bench_open_spec(&bench, (struct rota_worker_spec){.name = rota_str("w"),
                                                      .slots = 1,
                                                      .capabilities = all,
                                                      .n_capabilities = NAMES});
    for (int i = 0; i < NAMES; i++)
        for (int j = 0; j < i; j++, n_done++) {
            need[0] = all[i], need[1] = all[j];
            struct rota_job_id id = bench_add_spec(
                &bench, (struct rota_job_spec){.capabilities = need, .n_capabilities = 2});
            assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
            bench_done(&bench, id);
            bench_tick(&bench, 30 * ROTA_DAY); /* and is forgotten */
        }
    assert_true(n_done > ROTA_BROKER_SETS_MAX);
}

static bool is_kept(const char *name)
{
    rota_broker_queue_note_empty(bench.broker, rota_broker_queue(bench.broker, rota_str(name)));
    bench_tick(&bench, ROTA_SEC);
    rota_broker_forget_empty(bench.broker, bench.now);
    bench_settle(&bench);
    return rota_broker_queue(bench.broker, rota_str(name)) != NULL;
}

static void empty_queue_is_kept_while_something_is_set_or_a_worker_serves_it(void **state)
{
    struct rota_broker *broker = bench.broker;
    struct rota_str x = rota_str("x");
    uint64_t number;
    (void)state;
    for (int is_on = 1; is_on >= 0; is_on--) {
        rota_broker_pause(broker, bench.now, x, is_on, &number, NULL);
        assert_int_equal(is_kept("x"), is_on);
    }
    for (int is_on = 1; is_on >= 0; is_on--) {
        rota_broker_set_kills(broker, bench.now, x, is_on ? 7 : 0, &number, NULL);
        assert_int_equal(is_kept("x"), is_on);
    }
    for (int is_on = 1; is_on >= 0; is_on--) {
        rota_broker_set_weight(broker, bench.now, x, rota_str("k"), is_on ? 7 : 1000, &number,
                               NULL);
        assert_int_equal(is_kept("x"), is_on);
    }
    uint64_t session = bench_open_spec(
        &bench,
        (struct rota_worker_spec){.name = rota_str("w"), .slots = 1, .queues = &x, .n_queues = 1});
    rota_broker_worker_heard(broker, bench.now, session);
    assert_true(is_kept("x"));
}

static void workers_that_come_and_go_do_not_leak(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        uint64_t first = bench_open(&bench, "v", 1), second = bench_open(&bench, "w", 1);
        assert_true(first != second);
        rota_broker_worker_close(bench.broker, bench.now, first);
        rota_broker_worker_close(bench.broker, bench.now, second);
        bench_settle(&bench);
        assert_null(rota_broker_worker(bench.broker, first));
        assert_null(rota_broker_worker(bench.broker, second));
    }
    assert_true(bench.broker->workers.all.size <= 2);
    assert_int_equal(bench.broker->classes.by_key.size, 0);
    assert_int_equal(bench.broker->names.size, 0);
}

static void queue_that_was_never_used_goes_when_it_is_deleted(void **state)
{
    size_t n_live, n_ended;
    (void)state;
    bench_own(&bench, "z");
    rota_broker_forget_empty(bench.broker, bench.now);
    assert_non_null(rota_broker_queue(bench.broker, rota_str("z")));
    assert_int_equal(rota_broker_delete_queue(bench.broker, bench.now, rota_str("z"), false,
                                              &n_live, &n_ended, &bench.number, NULL),
                     ROTA_OK);
    assert_true(rota_broker_has_empty(bench.broker));
    rota_broker_forget_empty(bench.broker, bench.now);
    bench_settle(&bench);
    assert_null(rota_broker_queue(bench.broker, rota_str("z")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(a_repeated_add_is_made_once),
        RULE(an_id_is_that_of_one_job),
        RULE(any_id_is_kept_and_its_job_is_where_it_was_put),
        RULE(an_add_with_a_known_key_is_the_first_job_whatever_its_spec),
        RULE(of_one_that_came_as_done_the_payload_is_not_known),
        RULE(an_empty_payload_is_known_when_it_is_gone),
        RULE(an_add_finds_its_job_also_when_a_retry_took_its_deadline),
        RULE(a_unique_key_is_held_while_its_job_waits_or_runs),
        RULE(invalid_specs_are_refused),
        RULE(a_cancelled_job_does_not_run),
        RULE(a_dead_job_can_be_revived_with_all_its_attempts),
        RULE(a_priority_can_be_changed),
        RULE(a_paused_queue_hands_nothing_out),
        RULE(a_partition_that_is_not_ours_is_not_served),
        RULE(without_a_journal_the_usual_records_are_not_emitted),
        RULE(there_are_no_more_jobs_than_the_bound),
        RULE(results_make_room_for_payloads),
        RULE(a_payload_that_never_fits_is_invalid),
        RULE(ended_jobs_are_forgotten_in_time_and_dead_ones_are_not),
        RULE(unused_lanes_sets_and_queues_make_room),
        RULE(a_hundred_thousand_queues_have_jobs_and_leave_nothing_behind),
        RULE(a_queue_is_forgotten_with_all_its_lanes),
        RULE(a_queue_with_a_setting_is_not_forgotten),
        RULE(a_queue_is_deleted_when_its_jobs_have_ended),
        RULE(default_settings_do_not_restore_a_deleted_queue),
        RULE(sets_beyond_the_bound_are_refused),
        RULE(states_are_not_reported_while_jobs_are_not_watched),
        RULE(state_is_reported_with_its_record_cause_and_session),
        RULE(attempt_that_takes_too_long_is_followed_by_the_backoff),
        RULE(size_of_a_rewrite_counts_all_that_there_is),
        RULE(queue_removed_while_paused_takes_its_lanes_along),
        RULE(every_call_brings_the_time),
        RULE(older_time_does_not_turn_the_clock_back),
        RULE(zero_options_mean_the_defaults_and_others_stay),
        RULE(queues_that_come_and_go_do_not_leak),
        RULE(sets_of_capabilities_come_and_go_while_a_worker_has_them_all),
        RULE(empty_queue_is_kept_while_something_is_set_or_a_worker_serves_it),
        RULE(workers_that_come_and_go_do_not_leak),
        RULE(queue_that_was_never_used_goes_when_it_is_deleted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
