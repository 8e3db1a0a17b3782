/* bench_journal [--json] [DIRECTORY]: jobs of 100 bytes in a journal on a real disk: bytes
 * of one life (add, start, end), records made durable in a second while 1, 64 or 1000 wait,
 * and how long a million jobs take to be read again, by the reader alone and into a broker.
 * The directory is made, and removed when all is done. */
#include "core/work/broker/broker.h"
#include "io/clock.h"
#include "io/journal/journal.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

enum { JOBS = 1000000, PAYLOAD = 100, LIVES = 100000 };

#define WALL (1780000000 * ROTA_SEC)
#define RUN  (2 * ROTA_SEC) /* of one window */

static uv_loop_t loop;
static const char *directory = "bench-journal.data";
static struct rota_journal *journal;
static struct rota_broker *broker; /* that reads; NULL: none does */
static bool is_closed;
static uint64_t n_sent, n_durable, window;
static char payload[PAYLOAD];

static void must(enum rota_code code, const struct rota_error *error)
{
    if (code) {
        fprintf(stderr, "bench_journal: %s\n", error->text);
        exit(1);
    }
}

static void remove_all(void)
{
    char path[1024];
    DIR *entries = opendir(directory);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        unlink(path);
    }
    if (entries)
        closedir(entries);
    rmdir(directory);
}

/* --- a job, its start, its end --- */

static void append(enum rota_work_record_type type, uint64_t job)
{
    struct rota_error error;
    struct rota_job_spec spec = {.queue = rota_str("thumbnails"), .partition = 3};
    uint64_t chance = job;
    spec.id = rota_job_id_make(WALL + (rota_time)job * 1000, 3, rota_random_mix(&chance));
    spec.payload = rota_str_of(payload, sizeof payload);
    struct rota_work_record record = {.type = type, .number = ++n_sent, .id = spec.id};
    record.queue = spec.queue;
    record.partition = 3;
    record.at = WALL + (rota_time)n_sent * 1000;
    if (type == ROTA_WORK_ADD) {
        record.spec = &spec;
        record.tag = job << 10;
    } else {
        record.attempt = (1ull << 32) + job;
        record.n_attempts = 1;
    }
    if (type == ROTA_WORK_START)
        record.worker = rota_str("worker-17");
    if (type == ROTA_WORK_END) {
        record.state = ROTA_JOB_DONE;
        record.cause = ROTA_JOB_CAUSE_DONE;
        record.bytes = rota_str("ok");
    }
    must(rota_journal_append(journal, &record, &error), &error);
}

static enum rota_code on_record(void *data, const struct rota_work_record *record,
                                struct rota_error *error)
{
    (void)data;
    return broker ? rota_broker_replay(broker, record, error) : ROTA_OK;
}

static void on_ahead(void *data, struct rota_job_id id)
{
    (void)data;
    if (broker)
        rota_broker_foresee(broker, id);
}

static void on_durable(void *data, uint64_t number)
{
    (void)data;
    n_durable = number;
    while (window > 0 && n_sent < n_durable + window)
        append(ROTA_WORK_ADD, n_sent + 1);
}

static void on_closed(void *data)
{
    (void)data;
    is_closed = true;
}

static void open_journal(void)
{
    struct rota_error error;
    struct rota_journal_options options = {.directory = directory,
                                           .on_record = on_record,
                                           .on_ahead = on_ahead,
                                           .on_durable = on_durable};
    must(rota_journal_open(&loop, &options, &journal, &error), &error);
    n_sent = n_durable = rota_journal_look(journal).last;
}

static void close_journal(void)
{
    is_closed = false;
    rota_journal_close(journal, on_closed, NULL);
    while (!is_closed)
        uv_run(&loop, UV_RUN_ONCE);
}

/* --- what is measured --- */

struct rate {
    double per_s, per_batch;
};

static struct rate measure_window(uint64_t n)
{
    remove_all();
    open_journal();
    window = n;
    rota_time began = rota_clock_mono();
    for (uint64_t i = 0; i < n; i++)
        append(ROTA_WORK_ADD, i + 1);
    while (rota_clock_mono() - began < RUN)
        uv_run(&loop, UV_RUN_ONCE);
    double seconds = (double)(rota_clock_mono() - began) / (double)ROTA_SEC;
    struct rota_journal_view view = rota_journal_look(journal);
    window = 0;
    close_journal();
    return (struct rate){(double)view.durable / seconds,
                         (double)view.durable / (double)view.n_batches};
}

/* Bytes of one life, in batches of 64 jobs or of one. */
static double measure_life(uint64_t n, uint64_t per_batch)
{
    remove_all();
    open_journal();
    uint64_t before = rota_journal_look(journal).bytes;
    for (uint64_t i = 1; i <= n; i++) {
        append(ROTA_WORK_ADD, i);
        append(ROTA_WORK_START, i);
        append(ROTA_WORK_END, i);
        while (i % per_batch == 0 && n_durable < n_sent)
            uv_run(&loop, UV_RUN_ONCE);
    }
    double bytes = (double)(rota_journal_look(journal).bytes - before) / (double)n;
    close_journal();
    return bytes;
}

static void write_jobs(void)
{
    remove_all();
    open_journal();
    for (uint64_t i = 1; i <= JOBS; i++) {
        append(ROTA_WORK_ADD, i);
        while (i % 1000 == 0 && n_durable < n_sent)
            uv_run(&loop, UV_RUN_ONCE);
    }
    close_journal();
}

struct recovery {
    double wall, cpu; /* seconds */
};

static struct recovery measure_recovery(bool has_broker)
{
    struct rota_error error;
    struct rota_broker_options options = {.seed = 1, .jobs_max = 2 * JOBS};
    if (has_broker)
        must(rota_broker_new(&options, &broker, &error), &error);
    rota_time began = rota_clock_mono();
    clock_t used = clock();
    open_journal();
    if (has_broker)
        rota_broker_begin(broker, (struct rota_work_now){.boot = ROTA_SEC, .wall = WALL});
    struct recovery recovery = {(double)(rota_clock_mono() - began) / (double)ROTA_SEC,
                                (double)(clock() - used) / CLOCKS_PER_SEC};
    if (has_broker && rota_broker_n_jobs(broker) != JOBS)
        must(ROTA_ERR_INVALID, &(struct rota_error){.text = "jobs are missing"});
    close_journal();
    rota_broker_free(broker);
    broker = NULL;
    return recovery;
}

int main(int argc, char **argv)
{
    bool is_json = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            is_json = true;
        else
            directory = argv[i];
    }
    uv_loop_init(&loop);
    struct rate one = measure_window(1), some = measure_window(64), many = measure_window(1000);
    double life = measure_life(LIVES, 64), alone = measure_life(500, 1);
    write_jobs();
    struct recovery reader = measure_recovery(false), whole = measure_recovery(true);
    remove_all();
    uv_loop_close(&loop);
    if (is_json)
        printf("{\"bench\": \"journal\", \"appends_per_s\": {\"1\": %.0f, \"64\": %.0f, "
               "\"1000\": %.0f}, \"bytes_per_life\": %.1f, \"bytes_per_life_alone\": %.1f, "
               "\"read_1m_s\": %.3f, \"read_1m_cpu_s\": %.3f, \"recover_1m_s\": %.3f, "
               "\"recover_1m_cpu_s\": %.3f}\n",
               one.per_s, some.per_s, many.per_s, life, alone, reader.wall, reader.cpu, whole.wall,
               whole.cpu);
    else
        printf("records made durable in a second, while so many wait (and in one batch)\n"
               "       1: %8.0f (%.1f)\n      64: %8.0f (%.1f)\n    1000: %8.0f (%.1f)\n"
               "bytes of the life of a job of %d bytes: %.1f, alone %.1f\n"
               "a million jobs are read in %.3f s (%.3f s of a processor), and are in a broker in "
               "%.3f s (%.3f s)\n",
               one.per_s, one.per_batch, some.per_s, some.per_batch, many.per_s, many.per_batch,
               PAYLOAD, life, alone, reader.wall, reader.cpu, whole.wall, whole.cpu);
    return 0;
}
