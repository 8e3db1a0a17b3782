/* How long a plan takes for a million partitions on ten thousand hosts, both
 * rings included: bench_plan [HOSTS [PARTITIONS]]. */
#include <rota/plan.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void build_rings(size_t n_hosts, struct rota_ring **before, struct rota_ring **after)
{
    struct rota_ring_host *hosts = calloc(n_hosts + 1, sizeof *hosts);
    char(*text)[32] = calloc(n_hosts + 1, sizeof *text);
    assert(hosts && text);
    for (size_t i = 0; i <= n_hosts; i++) {
        snprintf(text[i], sizeof text[i], "10.%zu.%zu.%zu:7000", i >> 16, i >> 8 & 255, i & 255);
        hosts[i].address = rota_str(text[i]);
    }
    enum rota_code code = rota_ring_new(hosts, n_hosts, 0, before, NULL);
    assert(code == ROTA_OK);
    code = rota_ring_new(hosts, n_hosts + 1, 0, after, NULL);
    assert(code == ROTA_OK);
    (void)code;
    free(hosts);
    free(text);
}

static void run(const char *what, size_t n_hosts, size_t n_queues, uint32_t n_partitions,
                struct rota_spread spread)
{
    struct rota_ring *before, *after;
    struct rota_plan *plan;
    double start = now_ms();
    build_rings(n_hosts, &before, &after);
    double built = now_ms();

    enum rota_code code =
        rota_plan_new(&(struct rota_plan_options){.before = before, .after = after}, &plan, NULL);
    assert(code == ROTA_OK);
    for (size_t i = 0; i < n_queues; i++) {
        char queue[32];
        snprintf(queue, sizeof queue, "queue-%zu", i);
        struct rota_plan_space space = {
            .namespace_id = rota_str("6a5b0f0e-5c0f-4b5e-9d0a-0d9f6c3b1a2e"),
            .queue = rota_str(queue),
            .type = ROTA_TASK_WORKFLOW,
            .before = {n_partitions, spread},
            .after = {n_partitions, spread},
        };
        code = rota_plan_add(plan, &space, NULL);
        assert(code == ROTA_OK);
    }
    (void)code;
    const struct rota_plan_result *result = rota_plan_result(plan);
    double end = now_ms();
    printf("%-36s rings %4.0f ms  plan %4.0f ms  total %4.0f ms  moved %llu, minimum %.1f\n", what,
           built - start, end - built, end - start, (unsigned long long)result->moved,
           result->minimum);
    rota_plan_free(plan);
    rota_ring_unref(before);
    rota_ring_unref(after);
}

int main(int argc, char **argv)
{
    size_t n_hosts = argc > 1 ? strtoul(argv[1], NULL, 10) : 10000;
    size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000000;
    struct rota_spread basic = {0}, lookup = {ROTA_SPREAD_LOOKUP, 32},
                       slots = {ROTA_SPREAD_SLOTS, 32};

    run("many queues x 32, basic", n_hosts, n / 32, 32, basic);
    run("many queues x 32, lookup 32", n_hosts, n / 32, 32, lookup);
    run("many queues x 32, slots 32", n_hosts, n / 32, 32, slots);
    run("one queue, basic", n_hosts, 1, (uint32_t)n, basic);
    run("one queue, lookup 32", n_hosts, 1, (uint32_t)n, lookup);
    run("one queue, slots 32", n_hosts, 1, (uint32_t)n, slots);
    return 0;
}
