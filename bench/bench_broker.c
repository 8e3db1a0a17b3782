/* bench_broker [--json]: what a job costs in a broker without any I/O: from its add over the
 * disk's word and a worker to its result, while few or a million others wait; and the bytes
 * of one that waits. */
#include "core/work/broker.h"
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_LIVES = 20000, N_SLOTS = 64, ROUNDS = 11 };

struct subject {
    struct rota_broker *broker;
    struct rota_work_now now;
    struct rota_job_spec spec;
};

static void require(enum rota_code code)
{
    if (code)
        abort();
}

static void add(struct subject *subject)
{
    struct rota_job_id id;
    bool is_new;
    uint64_t number;
    subject->now.boot += ROTA_USEC;
    subject->now.wall += ROTA_USEC;
    require(rota_broker_add(subject->broker, subject->now, &subject->spec, &id, &is_new, &number,
                            NULL));
}

static void sync(struct subject *subject)
{
    rota_broker_durable(subject->broker, subject->now, rota_broker_last_number(subject->broker));
}

/* What was handed out is done, and for each that is done another one is added. */
static void live(void *data)
{
    struct subject *subject = data;
    struct rota_attempt_end ends[2 * N_SLOTS];
    for (size_t n_done = 0; n_done < N_LIVES;) {
        size_t n, n_ends = 0;
        const struct rota_work_effect *effects = rota_broker_effects(subject->broker, &n);
        for (size_t i = 0; i < n; i++)
            if (effects[i].type == ROTA_WORK_DO_DISPATCH)
                ends[n_ends++] = (struct rota_attempt_end){.queue = subject->spec.queue,
                                                           .id = effects[i].id,
                                                           .attempt = effects[i].attempt,
                                                           .cause = ROTA_JOB_CAUSE_DONE};
        rota_broker_clear(subject->broker);
        for (size_t i = 0; i < n_ends; i++) {
            uint64_t number;
            require(rota_broker_end(subject->broker, subject->now, &ends[i], &number, NULL));
            add(subject);
        }
        sync(subject);
        n_done += n_ends;
    }
}

/* A broker with `n` jobs of 100 bytes; returns the bytes of the heap for each. */
static double fill(struct subject *subject, size_t n)
{
    static char payload[100];
    struct rota_broker_options options = {.seed = 1};
    struct rota_str queue = rota_str("q");
    size_t before = measure_heap();
    *subject =
        (struct subject){.now = {ROTA_SEC, 1700000000 * ROTA_SEC},
                         .spec = {.queue = queue, .payload = rota_str_of(payload, sizeof payload)}};
    require(rota_broker_new(&options, &subject->broker, NULL));
    rota_broker_begin(subject->broker, subject->now);
    require(rota_broker_partition_open(subject->broker, subject->now, queue, 0, 1, NULL));
    for (size_t i = 0; i < n; i++) {
        add(subject);
        if (i % 256 == 0 || i + 1 == n) {
            sync(subject);
            rota_broker_clear(subject->broker);
        }
    }
    double bytes = (double)(measure_heap() - before) / (double)n;
    struct rota_worker_spec worker = {
        .name = rota_str("w"), .queues = &queue, .n_queues = 1, .slots = N_SLOTS};
    uint64_t session;
    require(rota_broker_worker_open(subject->broker, subject->now, &worker, &session, NULL));
    return bytes;
}

int main(int argc, char **argv)
{
    static const size_t waiting[] = {1000, 1000000};
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !json) {
        fprintf(stderr, "usage: bench_broker [--json]\n");
        return 2;
    }
    if (json)
        printf("{\"bench\":\"broker\",\"rows\":[");
    else
        printf("%-14s %12s %18s %16s\n", "jobs waiting", "ns per life", "10 % .. 90 %",
               "bytes per job");
    for (size_t i = 0; i < 2; i++) {
        struct subject subject;
        double bytes = fill(&subject, waiting[i]);
        struct measure life = measure_run(live, &subject, N_LIVES, ROUNDS);
        if (json)
            printf("%s{\"waiting\":%zu,\"life_ns\":%.1f,\"low_ns\":%.1f,\"high_ns\":%.1f,"
                   "\"bytes\":%.1f}",
                   i > 0 ? "," : "", waiting[i], life.median, life.low, life.high, bytes);
        else
            printf("%-14zu %12.0f %8.0f .. %6.0f %16.1f\n", waiting[i], life.median, life.low,
                   life.high, bytes);
        rota_broker_free(subject.broker);
    }
    if (json)
        printf("]}\n");
    return 0;
}
