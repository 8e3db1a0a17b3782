/* bench_broker [--json]: what a job costs in a broker without any I/O: from its add over the
 * disk's word and a worker to its result, while few or a million others wait, for one and the
 * same or for hundreds of sets of capabilities; and the bytes of one that waits. */
#include "core/work/broker/broker.h"
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_LIVES = 20000,
    N_SLOTS = 64,
    ROUNDS = 11,
    N_NAMES = 33, /* of capabilities */
    N_SETS = 500, /* each a pair of names; fewer than there are pairs */
};

struct row {
    size_t n_waiting, n_sets; /* 0: nothing is needed */
};

struct subject {
    struct rota_broker *broker;
    struct rota_work_now now;
    struct rota_job_spec spec;
    struct rota_str names[N_NAMES], sets[N_SETS][2];
    char texts[N_NAMES][8];
    size_t n_sets, n_added;
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
    if (subject->n_sets)
        subject->spec.capabilities = subject->sets[subject->n_added++ % subject->n_sets];
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

static void name_sets(struct subject *subject, size_t n_sets)
{
    for (size_t i = 0; i < N_NAMES; i++) {
        snprintf(subject->texts[i], sizeof subject->texts[i], "c%zu", i);
        subject->names[i] = rota_str(subject->texts[i]);
    }
    for (size_t a = 0, n = 0; a < N_NAMES; a++)
        for (size_t b = a + 1; b < N_NAMES && n < n_sets; b++, n++) {
            subject->sets[n][0] = subject->names[a];
            subject->sets[n][1] = subject->names[b];
        }
    subject->n_sets = n_sets;
    subject->spec.n_capabilities = n_sets ? 2 : 0;
}

/* A broker with jobs of 100 bytes; returns the bytes of the heap for each. */
static double fill(struct subject *subject, const struct row *row)
{
    static char payload[100];
    size_t n = row->n_waiting;
    struct rota_broker_options options = {.seed = 1};
    struct rota_str queue = rota_str("q");
    size_t before = measure_heap();
    *subject =
        (struct subject){.now = {ROTA_SEC, 1700000000 * ROTA_SEC},
                         .spec = {.queue = queue, .payload = rota_str_of(payload, sizeof payload)}};
    name_sets(subject, row->n_sets);
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
    struct rota_worker_spec worker = {.name = rota_str("w"),
                                      .queues = &queue,
                                      .n_queues = 1,
                                      .capabilities = subject->names,
                                      .n_capabilities = row->n_sets ? N_NAMES : 0,
                                      .slots = N_SLOTS};
    uint64_t session;
    require(rota_broker_worker_open(subject->broker, subject->now, &worker, &session, NULL));
    return bytes;
}

int main(int argc, char **argv)
{
    static const struct row rows[] = {{1000, 0}, {1000000, 0}, {1000000, N_SETS}};
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !json) {
        fprintf(stderr, "usage: bench_broker [--json]\n");
        return 2;
    }
    if (json)
        printf("{\"bench\":\"broker\",\"rows\":[");
    else
        printf("%-14s %6s %12s %18s %16s\n", "jobs waiting", "sets", "ns per life", "10 % .. 90 %",
               "bytes per job");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static struct subject subject;
        double bytes = fill(&subject, &rows[i]);
        struct measure life = measure_run(live, &subject, N_LIVES, ROUNDS);
        if (json)
            printf("%s{\"waiting\":%zu,\"sets\":%zu,\"life_ns\":%.1f,\"low_ns\":%.1f,"
                   "\"high_ns\":%.1f,\"bytes\":%.1f}",
                   i > 0 ? "," : "", rows[i].n_waiting, rows[i].n_sets, life.median, life.low,
                   life.high, bytes);
        else
            printf("%-14zu %6zu %12.0f %8.0f .. %6.0f %16.1f\n", rows[i].n_waiting, rows[i].n_sets,
                   life.median, life.low, life.high, bytes);
        rota_broker_free(subject.broker);
    }
    if (json)
        printf("]}\n");
    return 0;
}
