/* What jobs cost, and what happens when there is nothing left to pay with. */
#include "core/work/job/slab.h"
#include "work_bench.h"

#include <malloc.h>
#include <rota/experimental/random.h>
#include <stdio.h>
#include <stdlib.h>

static struct bench bench;

/* --- an allocator that counts, and fails when told to --- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_ALLOCATOR 0 /* the sanitizer has its own */
#else
#define HAS_ALLOCATOR 1
#endif

static long allocations_left = -1; /* below 0: any number */
static size_t n_allocations;

#if HAS_ALLOCATOR
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t size);

static bool may_allocate(void)
{
    n_allocations++;
    if (allocations_left < 0)
        return true;
    if (allocations_left == 0)
        return false;
    allocations_left--;
    return true;
}

void *malloc(size_t size)
{
    return may_allocate() ? __libc_malloc(size) : NULL;
}

void *calloc(size_t n, size_t size)
{
    return may_allocate() ? __libc_calloc(n, size) : NULL;
}

void *realloc(void *block, size_t size)
{
    return may_allocate() ? __libc_realloc(block, size) : NULL;
}
#endif

static size_t heap_in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* What the system gave malloc(). */
static size_t heap_of_system(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.arena + info.hblkhd;
}

/* --- what they cost --- */

static void add_many(size_t n, struct rota_job_id *ids)
{
    static char payload[100];
    struct rota_job_spec spec = {.queue = rota_str("q"),
                                 .payload = rota_str_of(payload, sizeof payload)};
    for (size_t i = 0; i < n; i++) {
        struct rota_job_id id;
        bench.now.wall += ROTA_USEC;
        if (rota_broker_add(bench.broker, bench.now, &spec, &id, &bench.is_new, &bench.number,
                            &bench.error))
            fail_msg("%s", bench.error.text);
        if (ids)
            ids[i] = id;
        if (i % 256 == 0) {
            rota_broker_durable(bench.broker, bench.now, bench.number);
            rota_broker_clear(bench.broker);
        }
    }
    rota_broker_durable(bench.broker, bench.now, bench.number);
    rota_broker_clear(bench.broker);
}

static void a_waiting_job_of_100_bytes_takes_at_most_220(void **state)
{
    enum { N = 1000000, BYTES = 220 };
    (void)state;
    bench_init(&bench);
    size_t before = heap_in_use();
    add_many(N, NULL);
    assert_int_equal(rota_broker_n_jobs(bench.broker), N);
    size_t counted = rota_broker_memory(bench.broker), real = heap_in_use() - before;
    print_message("# bytes per waiting job: %.1f counted, %.1f on the heap\n", (double)counted / N,
                  (double)real / N);
    assert_in_range(counted, 1, (size_t)BYTES * N);
    if (HAS_ALLOCATOR) {
        assert_in_range(real, 1, (size_t)BYTES * N);
        assert_in_range(counted, real - real / 50, real + real / 50); /* it tells the truth */
    }
    bench_deinit(&bench);
}

/* The index of unique keys is counted beside the keys themselves. */
static void unique_keys_are_counted(void **state)
{
    enum { N = 1000, KEY = 8 };
    size_t counted[2];
    (void)state;
    for (int is_unique = 0; is_unique < 2; is_unique++) {
        bench_init(&bench);
        for (int i = 0; i < N; i++) {
            char key[KEY + 1];
            snprintf(key, sizeof key, "%0*d", KEY, i);
            bench_add_spec(&bench,
                           (struct rota_job_spec){.payload = rota_str(key),
                                                  .not_before = bench.now.wall + ROTA_HOUR,
                                                  .unique = rota_str(is_unique ? key : "")});
        }
        counted[is_unique] = rota_broker_memory(bench.broker);
        bench_deinit(&bench);
    }
    assert_true(counted[1] - counted[0] >= (size_t)N * (KEY + 2 * sizeof(void *)));
}

static void an_emptied_queue_returns_its_memory(void **state)
{
    enum { N = 250000 };
    (void)state;
    struct rota_job_id *ids = calloc(N, sizeof *ids);
    bench.options.ended_max = 10;
    bench_init(&bench);
    add_many(N, ids);
    size_t full = rota_broker_memory(bench.broker);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(
            rota_broker_cancel(bench.broker, bench.now, rota_str("q"), ids[i], &bench.number, NULL),
            ROTA_OK);
        if (i % 256 == 0)
            rota_broker_clear(bench.broker);
    }
    rota_broker_clear(bench.broker);
    assert_int_equal(rota_broker_n_jobs(bench.broker), 0);
    assert_in_range(rota_broker_memory(bench.broker), 0, full / 20);
    assert_true(rota_broker_is_sound(bench.broker));
    free(ids);
    bench_deinit(&bench);
    bench.options.ended_max = 0;
}

static void the_life_of_a_job_allocates_nothing(void **state)
{
    enum { N = 20000, WARM = 5000 };
    (void)state;
    if (!HAS_ALLOCATOR)
        return; /* cmocka's skip() is a failure, to TAP */
    struct rota_str q = rota_str("q");
    struct rota_worker_spec worker = {
        .name = rota_str("w"), .slots = 1, .queues = &q, .n_queues = 1};
    uint64_t session;
    bench.options.ended_max = 100;
    bench_init(&bench);
    rota_broker_worker_open(bench.broker, bench.now, &worker, &session, NULL);
    size_t before = 0;
    for (int i = 0; i < N; i++) {
        struct rota_job_spec spec = {.queue = q, .payload = rota_str("payload")};
        struct rota_job_id id;
        size_t n;
        if (i == WARM)
            before = n_allocations;
        rota_broker_add(bench.broker, bench.now, &spec, &id, &bench.is_new, &bench.number, NULL);
        rota_broker_durable(bench.broker, bench.now, bench.number);
        const struct rota_work_effect *effects = rota_broker_effects(bench.broker, &n);
        struct rota_attempt_end end = {
            .queue = q, .id = id, .cause = ROTA_JOB_CAUSE_DONE, .bytes = rota_str("result")};
        for (size_t k = 0; k < n; k++)
            if (effects[k].type == ROTA_WORK_DO_DISPATCH)
                end.attempt = effects[k].attempt;
        assert_int_equal(rota_broker_end(bench.broker, bench.now, &end, &bench.number, NULL),
                         ROTA_OK);
        rota_broker_clear(bench.broker);
    }
    assert_in_range(n_allocations - before, 0, (N - WARM) / 100);
    bench_deinit(&bench);
    bench.options.ended_max = 0;
}

/* --- none left --- */

/* One step that anybody could take; with little memory it may fail, and must say so. */
static void step(struct rota_random *chance, struct rota_job_id *ids, size_t *n_ids,
                 uint64_t sessions[4])
{
    static const char *const capabilities[] = {"a", "b", "c"};
    struct rota_str q = rota_str("q"), can = rota_str(capabilities[rota_random_below(chance, 3)]);
    struct rota_job_id id, any = ids[rota_random_below(chance, *n_ids + 1)];
    struct rota_job_view view;
    char text[16];
    snprintf(text, sizeof text, "%d", (int)rota_random_below(chance, 1000));
    switch (rota_random_below(chance, 9)) {
    case 0:
    case 1: {
        struct rota_job_spec spec = {
            .queue = q, .capabilities = &can, .n_capabilities = 1, .payload = rota_str(text)};
        if (rota_random_chance(chance, 0.5))
            spec.unique = spec.key = spec.trace = rota_str(text);
        if (rota_broker_add(bench.broker, bench.now, &spec, &id, &bench.is_new, &bench.number,
                            NULL) == ROTA_OK)
            ids[(*n_ids)++] = id;
        break;
    }
    case 2: {
        struct rota_worker_spec spec = {.name = rota_str(text),
                                        .epoch = 1,
                                        .slots = 3,
                                        .queues = &q,
                                        .n_queues = 1,
                                        .capabilities = &can,
                                        .n_capabilities = 1,
                                        .is_poll = rota_random_chance(chance, 0.5),
                                        .lease = ROTA_SEC,
                                        .liveness = ROTA_SEC};
        rota_broker_worker_open(bench.broker, bench.now, &spec,
                                &sessions[rota_random_below(chance, 4)], NULL);
        break;
    }
    case 3:
        rota_broker_worker_close(bench.broker, bench.now, sessions[rota_random_below(chance, 4)]);
        break;
    case 4:
        rota_broker_cancel(bench.broker, bench.now, q, any, &bench.number, NULL);
        rota_broker_revive(bench.broker, bench.now, q, any, &bench.number, NULL);
        break;
    case 5:
    case 6:
        if (rota_broker_find(bench.broker, q, any, &view, NULL) == ROTA_OK) {
            struct rota_attempt_end end = {.queue = q,
                                           .id = any,
                                           .attempt = view.attempt,
                                           .cause = rota_random_chance(chance, 0.5)
                                                        ? ROTA_JOB_CAUSE_DONE
                                                        : ROTA_JOB_CAUSE_FAILED,
                                           .bytes = rota_str("r"),
                                           .reason = rota_str("why")};
            rota_broker_end(bench.broker, bench.now, &end, &bench.number, NULL);
        }
        break;
    case 7:
        rota_broker_durable(bench.broker, bench.now, rota_broker_last_number(bench.broker));
        rota_broker_rewrite(bench.broker, rota_broker_last_number(bench.broker), 3, SIZE_MAX);
        break;
    case 8:
        bench.now.boot += ROTA_SEC / 2;
        rota_broker_tick(bench.broker, bench.now);
        if (rota_random_chance(chance, 0.2)) {
            rota_broker_partition_close(bench.broker, bench.now, q, 0, NULL);
            rota_broker_partition_open(bench.broker, bench.now, q, 0, 1, NULL);
        }
        break;
    }
}

static void without_memory_the_invariants_hold(void **state)
{
    enum { STEPS = 300 };
    (void)state;
    if (!HAS_ALLOCATOR)
        return; /* cmocka's skip() is a failure, to TAP */
    size_t n_refused = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        static struct rota_job_id ids[STEPS + 1];
        uint64_t sessions[4] = {0};
        size_t n_ids = 0;
        struct rota_random chance;
        rota_random_init(&chance, seed);
        bench.options = (struct rota_broker_options){.seed = seed, .ended_max = 20};
        bench_init(&bench);
        for (int i = 0; i < STEPS; i++) {
            bool is_short = rota_random_chance(&chance, 0.5);
            allocations_left = is_short ? (long)rota_random_below(&chance, 12) : -1;
            step(&chance, ids, &n_ids, sessions);
            n_refused += allocations_left == 0;
            allocations_left = -1;
            if (!rota_broker_is_sound(bench.broker))
                fail_msg("seed %d, step %d", (int)seed, i);
            if (rota_random_chance(&chance, 0.5))
                bench_take(&bench); /* what effects point to is still there */
        }
        /* With memory all that was left undone is done by a tick, which was asked for. */
        bench_take(&bench);
        bool is_content = rota_broker_deadline(bench.broker) > bench.now.boot + 10 * ROTA_MSEC;
        rota_broker_tick(bench.broker, bench.now);
        size_t n_undone;
        rota_broker_effects(bench.broker, &n_undone);
        assert_true(!is_content || n_undone == 0);
        rota_broker_durable(bench.broker, bench.now, rota_broker_last_number(bench.broker));
        assert_true(rota_broker_is_sound(bench.broker));
        bench_take(&bench);
        size_t n_jobs = rota_broker_n_jobs(bench.broker);
        bench_restart(&bench); /* and the journal tells no other story */
        assert_int_equal(rota_broker_n_jobs(bench.broker), n_jobs);
        bench_deinit(&bench);
    }
    assert_true(n_refused > 1000);
    bench.options = (struct rota_broker_options){0};
}

/* Jobs end in another order than they came, and some in between stay. Their indexes are not in
 * chunks: a sixth may be left. */
static void memory_that_jobs_held_returns_to_the_system(void **state)
{
    enum { BYTES = 96 << 20, RUN = 64 };
    static const size_t SIZES[] = {1000000, 100000, 9000, 1200, 100};
    static char payload[1000000];
    static struct rota_job_id ids[BYTES / 100];
    (void)state;
    if (!HAS_ALLOCATOR)
        return; /* cmocka's skip() is a failure, to TAP */
    size_t before = heap_of_system();
    for (size_t k = 0; k < sizeof SIZES / sizeof *SIZES; k++) {
        struct rota_job_spec spec = {.queue = rota_str("q"),
                                     .payload = rota_str_of(payload, SIZES[k])};
        size_t n = BYTES / SIZES[k], n_kept = 0;
        bench.options.ended_max = 1;
        bench_init(&bench);
        for (size_t i = 0; i < n; i++) {
            if (rota_broker_add(bench.broker, bench.now, &spec, &ids[i], &bench.is_new,
                                &bench.number, &bench.error))
                fail_msg("%s", bench.error.text);
            rota_broker_durable(bench.broker, bench.now, bench.number);
            rota_broker_clear(bench.broker);
        }
        size_t held = heap_of_system() - before;
        if (held < BYTES)
            fail_msg("%zu bytes each: only %zu", SIZES[k], held);
        for (size_t first = 0; first < RUN; first++)
            for (size_t i = first; i < n; i += RUN) {
                if (i % (n / 4) == 0) {
                    n_kept++;
                    continue;
                }
                rota_broker_cancel(bench.broker, bench.now, rota_str("q"), ids[i], &bench.number,
                                   NULL);
                rota_broker_durable(bench.broker, bench.now, bench.number);
                rota_broker_clear(bench.broker);
            }
        assert_int_equal(rota_broker_n_jobs(bench.broker), n_kept);
        size_t left = heap_of_system() - before;
        print_message("# %zu bytes each: %.1f of %.1f MB are left\n", SIZES[k],
                      (double)left / (1 << 20), (double)held / (1 << 20));
        assert_in_range(left, 0, held / 6);
        bench_deinit(&bench);
    }
    bench.options.ended_max = 0;
}

int main(void)
{
    mallopt(M_MMAP_THRESHOLD, ROTA_SLAB_CHUNK_MIN); /* as a node does */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            memory_that_jobs_held_returns_to_the_system), /* before others use the heap */
        cmocka_unit_test(a_waiting_job_of_100_bytes_takes_at_most_220),
        cmocka_unit_test(unique_keys_are_counted),
        cmocka_unit_test(an_emptied_queue_returns_its_memory),
        cmocka_unit_test(the_life_of_a_job_allocates_nothing),
        cmocka_unit_test(without_memory_the_invariants_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
