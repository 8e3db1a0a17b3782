#include "load.h"

#include "base/histogram.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct slot {
    uint64_t id;
    int64_t started_at;
};

static const char *name;
static struct slot slots[LOAD_CALLS_MAX];
static uint64_t last_id;
static struct rota_histogram latencies;
static clockid_t server_clock;
static int server_pid;
static int64_t window, window_at; /* 0 until the first call ends */
static int64_t warm, window_end, client_cpu, server_cpu;

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

static int64_t read_clock(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t))
        load_fail("a clock can't be read");
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static long resident_kb(int pid)
{
    char path[64];
    long n_pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%*d %ld", &n_pages) != 1)
        load_fail("%s can't be read", path);
    fclose(file);
    return n_pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void report(int64_t now)
{
    client_cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID) - client_cpu;
    server_cpu = read_clock(server_clock) - server_cpu;
    printf("%" PRIu64 " %" PRId64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %ld %ld\n",
           latencies.count, now - window_at, rota_histogram_quantile(&latencies, 0.5),
           rota_histogram_quantile(&latencies, 0.99), client_cpu, server_cpu, resident_kb(getpid()),
           resident_kb(server_pid));
    fflush(stdout);
    _exit(0);
}

uint64_t load_begin(struct load *load, unsigned slot)
{
    struct slot *s = &slots[slot];
    (void)load;
    s->id = ++last_id;
    if (s->started_at == 0)
        s->started_at = read_clock(CLOCK_MONOTONIC);
    return s->id;
}

/* One look at the clock serves the end of a call and the begin of the next. */
void load_end(struct load *load, unsigned slot, bool is_right)
{
    int64_t now = read_clock(CLOCK_MONOTONIC);
    (void)load;
    if (!is_right)
        load_fail("a wrong reply to call %" PRIu64, slots[slot].id);
    if (window_at == 0) {
        window_at = now + warm;
        window_end = window_at + window;
    }
    if (now >= window_at && client_cpu == 0) {
        window_at = now;
        window_end = now + window;
        client_cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID);
        server_cpu = read_clock(server_clock);
    } else if (now >= window_at) {
        rota_histogram_record(&latencies, now - slots[slot].started_at);
        if (now >= window_end)
            report(now);
    }
    slots[slot].started_at = now;
}

void load_payload(uint64_t id, char payload[LOAD_PAYLOAD_SIZE])
{
    memset(payload, (int)(id & 0xff), LOAD_PAYLOAD_SIZE);
    memcpy(payload, &id, sizeof id);
}

void load_key(uint64_t id, unsigned index, char key[LOAD_KEY_SIZE])
{
    uint64_t mixed = (id + index) * 0x9e3779b97f4a7c15u;
    memcpy(key, &id, 8);
    memcpy(key + 8, &mixed, 8);
}

void load_value(const char key[LOAD_KEY_SIZE], char value[LOAD_VALUE_SIZE])
{
    uint64_t a, b;
    memcpy(&a, key, 8);
    memcpy(&b, key + 8, 8);
    b ^= a << 7;
    memcpy(value, &b, 8);
    memcpy(value + 8, &a, 4);
}

void load_ready(const char *address)
{
    printf("ready %s\n", address);
    fflush(stdout);
}

static unsigned number(const char *text, unsigned min, unsigned max)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*end || value < min || value > max)
        load_fail("%s is not between %u and %u", text, min, max);
    return (unsigned)value;
}

static void be_client(char **arguments, const struct load_transport *transport)
{
    struct load load = {
        .address = arguments[0],
        .is_batch = strcmp(arguments[1], "batch") == 0,
        .n_calls = number(arguments[2], 1, LOAD_CALLS_MAX),
        .n_connections = number(arguments[3], 1, LOAD_CONNECTIONS_MAX),
    };
    warm = number(arguments[4], 1, 60000) * INT64_C(1000000);
    window = number(arguments[5], 1, 60000) * INT64_C(1000000);
    server_pid = (int)number(arguments[6], 1, INT32_MAX);
    if (clock_getcpuclockid(server_pid, &server_clock))
        load_fail("process %d has no clock", server_pid);
    transport->drive(&load);
    load_fail("the connection was lost");
}

int load_main(int argc, char **argv, const struct load_transport *transport)
{
    struct rlimit files;
    name = transport->name;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing outlives the benchmark */
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (argc == 2 && strcmp(argv[1], "server") == 0) {
        transport->serve();
        load_fail("the server has ended");
    }
    if (argc == 9 && strcmp(argv[1], "client") == 0)
        be_client(argv + 2, transport);
    fprintf(stderr,
            "usage: %s server\n"
            "       %s client ADDRESS echo|batch CALLS CONNECTIONS WARM_MS WINDOW_MS SERVER_PID\n",
            name, name);
    return 2;
}
