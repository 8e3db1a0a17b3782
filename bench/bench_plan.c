/* bench_plan [--json]: how long a plan takes for a million partitions on ten
 * thousand hosts to which one is added. Building both rings is part of it. */
#include "measure.h"

#include <rota/experimental/plan.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_HOSTS = 10000, N_PARTITIONS = 1000000, ROUNDS = 5 };

struct subject {
    const char *name;
    uint32_t n_queues, n_partitions; /* of each */
    struct rota_spread spread;
    uint64_t moved; /* what came out */
    double minimum;
};

static char addresses[N_HOSTS + 1][32];
static struct rota_ring_host hosts[N_HOSTS + 1];

static void make_hosts(void)
{
    for (unsigned i = 0; i <= N_HOSTS; i++) {
        snprintf(addresses[i], sizeof addresses[i], "10.0.%u.%u:7000", i >> 8, i & 255);
        hosts[i].address = rota_str(addresses[i]);
    }
}

static void must(enum rota_code code)
{
    if (code) {
        fprintf(stderr, "bench_plan: %s\n", rota_code_name(code));
        exit(1);
    }
}

static void make_plan(void *data)
{
    struct subject *subject = data;
    struct rota_ring *before, *after;
    struct rota_plan *plan;

    must(rota_ring_new(hosts, N_HOSTS, 0, &before, NULL));
    must(rota_ring_new(hosts, N_HOSTS + 1, 0, &after, NULL));
    must(rota_plan_new(&(struct rota_plan_options){.before = before, .after = after}, &plan, NULL));
    for (uint32_t i = 0; i < subject->n_queues; i++) {
        char queue[32];
        snprintf(queue, sizeof queue, "queue-%u", i);
        struct rota_plan_space space = {
            .namespace_id = rota_str("6a5b0f0e-5c0f-4b5e-9d0a-0d9f6c3b1a2e"),
            .queue = rota_str(queue),
            .type = ROTA_TASK_WORKFLOW,
            .before = {subject->n_partitions, subject->spread},
            .after = {subject->n_partitions, subject->spread},
        };
        must(rota_plan_add(plan, &space, NULL));
    }
    subject->moved = rota_plan_result(plan)->moved;
    subject->minimum = rota_plan_result(plan)->minimum;
    rota_plan_free(plan);
    rota_ring_unref(before);
    rota_ring_unref(after);
}

int main(int argc, char **argv)
{
    struct subject subjects[] = {
        {"31,250 queues, basic", N_PARTITIONS / 32, 32, {ROTA_SPREAD_LOOKUP, 0}, 0, 0},
        {"31,250 queues, lookup 32", N_PARTITIONS / 32, 32, {ROTA_SPREAD_LOOKUP, 32}, 0, 0},
        {"31,250 queues, slots 32", N_PARTITIONS / 32, 32, {ROTA_SPREAD_SLOTS, 32}, 0, 0},
        {"one queue, basic", 1, N_PARTITIONS, {ROTA_SPREAD_LOOKUP, 0}, 0, 0},
        {"one queue, lookup 32", 1, N_PARTITIONS, {ROTA_SPREAD_LOOKUP, 32}, 0, 0},
        {"one queue, slots 32", 1, N_PARTITIONS, {ROTA_SPREAD_SLOTS, 32}, 0, 0},
    };
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !json) {
        fprintf(stderr, "usage: bench_plan [--json]\n");
        return 2;
    }
    make_hosts();
    if (json)
        printf("{\"bench\":\"plan\",\"hosts\":%d,\"partitions\":%d,\"rows\":[", N_HOSTS,
               N_PARTITIONS);
    else
        printf("%-26s %10s %18s %8s %8s\n", "1,000,000 partitions", "median", "10 % .. 90 %",
               "moved", "minimum");
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        struct subject *subject = &subjects[i];
        struct measure took = measure_run(make_plan, subject, 1, ROUNDS);
        if (json)
            printf("%s{\"name\":\"%s\",\"median_ms\":%.1f,\"low_ms\":%.1f,\"high_ms\":%.1f,"
                   "\"moved\":%llu,\"minimum\":%.1f}",
                   i ? "," : "", subject->name, took.median / 1e6, took.low / 1e6, took.high / 1e6,
                   (unsigned long long)subject->moved, subject->minimum);
        else
            printf("%-26s %7.0f ms %7.0f .. %4.0f ms %8llu %8.1f\n", subject->name,
                   took.median / 1e6, took.low / 1e6, took.high / 1e6,
                   (unsigned long long)subject->moved, subject->minimum);
        fflush(stdout);
    }
    if (json)
        printf("]}\n");
    return 0;
}
