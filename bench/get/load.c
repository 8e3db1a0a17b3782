#include "load.h"

#include "base/histogram.h"

#include <inttypes.h>
#include <pthread.h>
#include <rota/experimental/random.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

struct slot {
    pthread_mutex_t mutex; /* only the end of the window disturbs a slot */
    struct rota_random random;
    int64_t started_at;
    uint64_t n_values, n_incomplete;
    struct rota_histogram latencies, returned;
};

struct rota_str load_keys[LOAD_KEYS + LOAD_BATCH_MAX];
char load_values[LOAD_KEYS][LOAD_VALUE_SIZE];

static const char *name;
static char texts[LOAD_KEYS][LOAD_KEY_SIZE + 1];
static struct slot slots[LOAD_SLOTS_MAX];
static unsigned n_slots;
static clockid_t server_clocks[LOAD_SERVERS_MAX];
static unsigned n_servers;
static int stopped_pid;
static int64_t warm, window;
static _Atomic int64_t window_at = INT64_MAX; /* when the window begins */

void load_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(1);
}

void load_init(const char *the_name)
{
    struct rota_random random;
    name = the_name;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing outlives the benchmark */
    rota_random_init(&random, 1);
    for (unsigned i = 0; i < LOAD_KEYS; i++) {
        snprintf(texts[i], sizeof texts[i], "key/%016u", i);
        for (unsigned j = 0; j < LOAD_VALUE_SIZE; j++)
            load_values[i][j] = (char)rota_random_below(&random, 256);
    }
    for (unsigned i = 0; i < LOAD_KEYS + LOAD_BATCH_MAX; i++)
        load_keys[i] = rota_str_of(texts[i % LOAD_KEYS], LOAD_KEY_SIZE);
}

static int64_t read_clock(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t))
        load_fail("a clock can't be read");
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* --- the window --- */

static void rest(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&t, NULL);
}

static int64_t servers_cpu(void)
{
    int64_t sum = 0;
    for (unsigned i = 0; i < n_servers; i++)
        sum += read_clock(server_clocks[i]);
    return sum;
}

static void report(int64_t ns, int64_t client_cpu, int64_t server_cpu)
{
    static struct rota_histogram latencies, returned;
    uint64_t n_values = 0, n_incomplete = 0;
    int64_t now = read_clock(CLOCK_MONOTONIC);
    for (unsigned i = 0; i < n_slots; i++) {
        pthread_mutex_lock(&slots[i].mutex); /* for ever */
        rota_histogram_merge(&latencies, &slots[i].latencies);
        rota_histogram_merge(&returned, &slots[i].returned);
        rota_histogram_record(&latencies, now - slots[i].started_at);
        n_values += slots[i].n_values;
        n_incomplete += slots[i].n_incomplete;
    }
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRIu64 " %" PRIu64 " %" PRIu64
           " %" PRIu64 " %" PRId64 " %" PRId64 "\n",
           returned.count, n_incomplete, n_values, ns, rota_histogram_quantile(&latencies, 0.5),
           rota_histogram_quantile(&latencies, 0.99), rota_histogram_quantile(&latencies, 0.999),
           rota_histogram_quantile(&returned, 0.99), client_cpu, server_cpu);
    fflush(stdout);
    _exit(0);
}

/* A thread of its own, for a client may be stuck; it sleeps but for three moments. */
static void *watch(void *unused)
{
    (void)unused;
    rest(warm);
    int64_t client_cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID), server_cpu = servers_cpu();
    int64_t started_at = read_clock(CLOCK_MONOTONIC);
    window_at = started_at;
    if (stopped_pid && kill(stopped_pid, SIGSTOP))
        load_fail("process %d can't be stopped", stopped_pid);
    rest(window);
    report(read_clock(CLOCK_MONOTONIC) - started_at,
           read_clock(CLOCK_PROCESS_CPUTIME_ID) - client_cpu, servers_cpu() - server_cpu);
    return NULL;
}

static int64_t number(const char *text, int64_t min, int64_t max)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    if (*end || value < min || value > max)
        load_fail("%s is not between %" PRId64 " and %" PRId64, text, min, max);
    return value;
}

void load_parse(int n, char **arguments, struct load *load)
{
    pthread_t watcher;
    if (n < 8 || n % 2)
        load_fail("MODE KEYS SLOTS WARM_MS WINDOW_MS PID-TO-STOP (ADDRESS PID)...");
    load->mode = arguments[0];
    load->n_keys = (unsigned)number(arguments[1], 1, LOAD_BATCH_MAX);
    load->n_slots = n_slots = (unsigned)number(arguments[2], 1, LOAD_SLOTS_MAX);
    warm = number(arguments[3], 1, 60000) * INT64_C(1000000);
    window = number(arguments[4], 1, 60000) * INT64_C(1000000);
    stopped_pid = (int)number(arguments[5], 0, INT32_MAX);
    for (int i = 6; i < n; i += 2) {
        if (n_servers == LOAD_SERVERS_MAX)
            load_fail("too many servers");
        load->servers[n_servers] = arguments[i];
        int pid = (int)number(arguments[i + 1], 1, INT32_MAX);
        if (clock_getcpuclockid(pid, &server_clocks[n_servers++]))
            load_fail("process %d has no clock", pid);
    }
    load->n_servers = n_servers;
    for (unsigned i = 0; i < n_slots; i++) {
        pthread_mutex_init(&slots[i].mutex, NULL);
        rota_random_init(&slots[i].random, i + 1);
    }
    if (pthread_create(&watcher, NULL, watch, NULL))
        load_fail("no thread for the window");
}

/* --- slots --- */

unsigned load_begin(unsigned slot)
{
    slots[slot].started_at = read_clock(CLOCK_MONOTONIC);
    return (unsigned)rota_random_below(&slots[slot].random, LOAD_KEYS);
}

void load_end(const struct load *load, unsigned slot, unsigned n_values)
{
    struct slot *s = &slots[slot];
    int64_t now = read_clock(CLOCK_MONOTONIC), elapsed = now - s->started_at;
    int64_t timeout = LOAD_TIMEOUT_MS * INT64_C(1000000);
    bool is_whole = n_values == load->n_keys;
    if (now < window_at)
        return;
    pthread_mutex_lock(&s->mutex);
    s->n_values += n_values;
    s->n_incomplete += !is_whole;
    rota_histogram_record(&s->returned, elapsed);
    rota_histogram_record(&s->latencies, is_whole || elapsed > timeout ? elapsed : timeout);
    pthread_mutex_unlock(&s->mutex);
}

bool load_is_right(unsigned index, struct rota_str value)
{
    return value.size == LOAD_VALUE_SIZE &&
           memcmp(value.data, load_values[index], LOAD_VALUE_SIZE) == 0;
}
