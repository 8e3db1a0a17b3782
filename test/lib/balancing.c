#include "balancing.h"

struct bench bench_new(struct rota_balancer_options options, size_t n)
{
    struct bench bench = {.now = 1000 * ROTA_SEC, .n = n};
    options.seed = 7;
    assert_int_equal(rota_balancer_new(&options, &bench.balancer, NULL), ROTA_OK);
    rota_random_init(&bench.random, 1);
    for (size_t i = 0; i < n; i++)
        bench.replicas[i] = i + 1;
    return bench;
}

void bench_free(struct bench *bench)
{
    rota_balancer_free(bench->balancer);
}

struct rota_try bench_select(struct bench *bench)
{
    struct rota_try chosen;
    struct rota_error error;
    struct rota_choice choice = {.replicas = bench->replicas, .n_replicas = bench->n};
    if (rota_balancer_select(bench->balancer, bench->now, &choice, &bench->random, &chosen, &error))
        fail_msg("%s", error.text);
    return chosen;
}

struct rota_try bench_try(struct bench *bench, uint64_t replica, int64_t work)
{
    struct rota_try chosen;
    struct rota_choice choice = {.replicas = &replica, .n_replicas = 1, .work = work};
    assert_int_equal(
        rota_balancer_select(bench->balancer, bench->now, &choice, &bench->random, &chosen, NULL),
        ROTA_OK);
    return chosen;
}

void bench_end(struct bench *bench, struct rota_try ended, enum rota_outcome outcome)
{
    assert_true(rota_balancer_report(bench->balancer, bench->now, ended, outcome, NULL));
}

void bench_run(struct bench *bench, uint64_t replica, rota_time after, enum rota_outcome outcome)
{
    struct rota_try ended = bench_try(bench, replica, 1);
    bench->now += after;
    bench_end(bench, ended, outcome);
}

void bench_tell(struct bench *bench, uint64_t replica, int64_t response_us, int64_t service_us,
                int64_t waiting)
{
    struct rota_cost cost = {response_us, service_us, waiting};
    struct rota_try ended = bench_try(bench, replica, 1);
    bench->now += response_us * ROTA_USEC;
    assert_true(rota_balancer_report(bench->balancer, bench->now, ended, ROTA_OUTCOME_OK, &cost));
}

struct rota_balancer_view bench_look(const struct bench *bench, uint64_t replica)
{
    struct rota_balancer_view view;
    assert_true(rota_balancer_look(bench->balancer, bench->now, replica, &view));
    return view;
}

void bench_count(struct bench *bench, size_t n, size_t counts[65])
{
    memset(counts, 0, 65 * sizeof *counts);
    for (size_t i = 0; i < n; i++)
        counts[bench_select(bench).replica]++;
}

void bench_count_ended(struct bench *bench, size_t n, size_t counts[65])
{
    memset(counts, 0, 65 * sizeof *counts);
    for (size_t i = 0; i < n; i++) {
        struct rota_try chosen = bench_select(bench);
        counts[chosen.replica]++;
        bench_end(bench, chosen, ROTA_OUTCOME_OK);
    }
}
