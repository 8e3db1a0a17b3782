#include "load.h"

#include "base/histogram.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

struct slot {
    uint32_t turn; /* how many jobs it has had */
    bool is_added, is_taken, is_ended;
    int64_t begun_at;
};

static const char *name;
static struct load *load;
static struct slot slots[LOAD_SLOTS_MAX];
static struct rota_histogram latencies;
static clockid_t server_clock;
static int64_t warm_until, window_until, window, window_at;
static int64_t client_cpu, server_cpu; /* at the begin of the window */
static uint64_t n_jobs, n_begun;       /* of a fill */
static char filler[LOAD_PAYLOAD_SIZE];

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

static int64_t number(const char *text, int64_t min, int64_t max)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    if (*end || value < min || value > max)
        load_fail("%s is not between %" PRId64 " and %" PRId64, text, min, max);
    return value;
}

void load_parse(int argc, char **argv, int n_addresses, struct load *the_load)
{
    name = argv[0];
    load = the_load;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing outlives the benchmark */
    memset(filler, 'x', sizeof filler);
    int at = 2 + n_addresses;
    load->is_fill = argc == at + 1 && strcmp(argv[1], "fill") == 0;
    if (!load->is_fill && (argc != at + 4 || strcmp(argv[1], "live") != 0))
        load_fail("live ADDRESS... SLOTS WARM_MS WINDOW_MS SERVER_PID, or fill ADDRESS... JOBS");
    for (int i = 0; i < n_addresses; i++)
        snprintf(load->addresses[i], LOAD_ADDRESS_SIZE, "%s", argv[2 + i]);
    if (load->is_fill) {
        load->n_slots = LOAD_FILL_SLOTS;
        n_jobs = (uint64_t)number(argv[at], LOAD_FILL_SLOTS, INT32_MAX);
        return;
    }
    load->n_slots = (unsigned)number(argv[at], 1, LOAD_SLOTS_MAX);
    warm_until = number(argv[at + 1], 1, 60000) * INT64_C(1000000);
    window = number(argv[at + 2], 1, 60000) * INT64_C(1000000);
    if (clock_getcpuclockid((pid_t)number(argv[at + 3], 1, INT32_MAX), &server_clock))
        load_fail("process %s has no clock", argv[at + 3]);
}

/* --- slots --- */

static void begin(unsigned index, int64_t now)
{
    struct slot *slot = &slots[index];
    char payload[LOAD_PAYLOAD_SIZE + 1];
    memcpy(payload, filler, LOAD_PAYLOAD_SIZE);
    *slot = (struct slot){.turn = slot->turn + 1, .begun_at = now};
    snprintf(payload, LOAD_RESULT_SIZE + 1, "%08x/%08x", index, slot->turn);
    payload[LOAD_RESULT_SIZE] = 'x';
    n_begun++;
    load->add(index, payload);
}

void load_start(struct load *the_load)
{
    int64_t now = read_clock(CLOCK_MONOTONIC);
    (void)the_load;
    window_at = now;
    warm_until += now;
    for (unsigned i = 0; i < load->n_slots; i++)
        begin(i, now);
}

unsigned load_share(void)
{
    return (load->n_slots + LOAD_WORKERS - 1) / LOAD_WORKERS;
}

unsigned load_slot(struct rota_str payload)
{
    char front[LOAD_RESULT_SIZE + 1];
    unsigned index = UINT32_MAX, turn = 0;
    if (payload.size < LOAD_RESULT_SIZE)
        load_fail("a short payload");
    memcpy(front, payload.data, LOAD_RESULT_SIZE);
    front[LOAD_RESULT_SIZE] = '\0';
    front[8] = '\0';
    index = (unsigned)strtoul(front, NULL, 16);
    turn = (unsigned)strtoul(front + 9, NULL, 16);
    if (index >= load->n_slots || slots[index].turn != turn)
        load_fail("a job that nobody waits for");
    return index;
}

unsigned load_take(struct rota_str payload)
{
    unsigned index = load_slot(payload);
    if (payload.size != LOAD_PAYLOAD_SIZE ||
        memcmp(payload.data + LOAD_RESULT_SIZE, filler, LOAD_PAYLOAD_SIZE - LOAD_RESULT_SIZE) != 0)
        load_fail("a wrong payload");
    if (slots[index].is_taken)
        load_fail("a job was handed out twice");
    slots[index].is_taken = true;
    return index;
}

/* --- the window --- */

static void report(int64_t now)
{
    printf("%" PRIu64 " %" PRId64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 "\n",
           latencies.count, now - window_at, rota_histogram_quantile(&latencies, 0.5),
           rota_histogram_quantile(&latencies, 0.99),
           read_clock(CLOCK_PROCESS_CPUTIME_ID) - client_cpu,
           read_clock(server_clock) - server_cpu);
    fflush(stdout);
    _exit(0);
}

static void count(const struct slot *slot, int64_t now)
{
    if (window_until == 0) {
        if (now < warm_until)
            return;
        window_at = now;
        window_until = now + window;
        client_cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID);
        server_cpu = read_clock(server_clock);
        return;
    }
    rota_histogram_record(&latencies, now - slot->begun_at);
    if (now >= window_until)
        report(now);
}

static void fill_next(unsigned index, int64_t now)
{
    static uint64_t n_filled;
    if (++n_filled == n_jobs) {
        printf("filled %" PRId64 "\n", now - window_at);
        fflush(stdout);
        _exit(0);
    }
    if (n_begun < n_jobs)
        begin(index, now);
}

static void look(unsigned index)
{
    struct slot *slot = &slots[index];
    if (!slot->is_added || !slot->is_ended)
        return;
    int64_t now = read_clock(CLOCK_MONOTONIC);
    count(slot, now);
    begin(index, now);
}

void load_added(unsigned index)
{
    if (slots[index].is_added)
        load_fail("a job was acknowledged twice");
    slots[index].is_added = true;
    if (load->is_fill)
        fill_next(index, read_clock(CLOCK_MONOTONIC));
    else
        look(index);
}

void load_ended(unsigned index)
{
    if (!slots[index].is_taken || slots[index].is_ended)
        load_fail("a job ended that was not taken, or twice");
    slots[index].is_ended = true;
    look(index);
}
