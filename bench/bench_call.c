/* bench_call [--json] [--quick]: calls per second, latency, CPU and memory of
 * Rota's gRPC beside what else one could use, in one run on one machine.
 *
 * For every measurement a server is started on core 0 and a client on core 1,
 * afresh. Rounds go through all measurements in a new random order; a figure is
 * the median of its rounds. What the programs do is in call/load.h. */
#include "call/spawn.h"

#include <rota/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS_MAX = 9, CELLS_MAX = 16, N_IDLE = 1000 };

enum transport { ROTA, CPP, CORE, RAW, ZMQ, N_TRANSPORTS };

static const struct {
    const char *program, *name, *packages;
    double goal_echo, goal_batch; /* of Rota's calls per second, at the cell of the goals */
} transports[N_TRANSPORTS] = {
    [ROTA] = {"call_rota", "rota", "", 0, 0},
    [CPP] = {"call_cpp", "gRPC C++",
             "g++ libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc", 10, 6},
    [CORE] = {"call_core", "gRPC C core", "libgrpc-dev", 7, 0},
    [RAW] = {"call_raw", "raw epoll", "", 0.35, 0},
    [ZMQ] = {"call_zmq", "ZeroMQ", "libzmq3-dev", 0, 0},
};

struct cell {
    bool is_batch;
    unsigned n_calls, n_connections;
    int rounds;
};

static const struct cell full_cells[] = {
    {false, 128, 1, 5},  {true, 128, 1, 5},  {false, 1, 1, 3},   {false, 16, 1, 3},
    {false, 1024, 1, 3}, {false, 16, 4, 3},  {false, 128, 4, 3}, {false, 1024, 4, 3},
    {true, 1, 1, 3},     {true, 16, 1, 3},   {true, 1024, 1, 3}, {true, 16, 4, 3},
    {true, 128, 4, 3},   {true, 1024, 4, 3},
};
static const struct cell quick_cells[] = {{false, 128, 1, 3}, {true, 128, 1, 3}, {false, 16, 1, 3}};

static const struct cell *cells;
static int n_cells;
static unsigned warm_ms, window_ms;
static bool is_there[N_TRANSPORTS];
static struct spawn_result results[CELLS_MAX][N_TRANSPORTS][ROUNDS_MAX];
static int n_results[CELLS_MAX][N_TRANSPORTS], n_failed[CELLS_MAX][N_TRANSPORTS];
static double elsewhere[CELLS_MAX * N_TRANSPORTS * ROUNDS_MAX];
static size_t n_runs;

/* --- running --- */

static void run_one(int cell, int transport)
{
    const struct cell *c = &cells[cell];
    struct spawn_load load = {transports[transport].program,
                              c->is_batch,
                              c->n_calls,
                              c->n_connections,
                              warm_ms,
                              window_ms};
    struct spawn_result result;
    if (!spawn_run(&load, &result)) {
        n_failed[cell][transport]++;
        return;
    }
    results[cell][transport][n_results[cell][transport]++] = result;
    elsewhere[n_runs++] = result.elsewhere;
}

static void run_round(struct rota_random *random, int round)
{
    int order[CELLS_MAX * N_TRANSPORTS], n = 0;
    for (int cell = 0; cell < n_cells; cell++)
        for (int t = 0; t < N_TRANSPORTS; t++)
            if (is_there[t] && round < cells[cell].rounds)
                order[n++] = cell * N_TRANSPORTS + t;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)rota_random_below(random, (uint64_t)i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (int i = 0; i < n; i++) {
        fprintf(stderr, "\rround %d: %d of %d ", round + 1, i + 1, n);
        run_one(order[i] / N_TRANSPORTS, order[i] % N_TRANSPORTS);
    }
}

/* --- figures --- */

enum figure { RATE, P50, P99, CLIENT_CPU, SERVER_CPU, CLIENT_KB, SERVER_KB };

static double figure_of(const struct spawn_result *r, enum figure figure)
{
    switch (figure) {
    case RATE:
        return r->rate;
    case P50:
        return r->p50_us;
    case P99:
        return r->p99_us;
    case CLIENT_CPU:
        return r->client_cpu_us;
    case SERVER_CPU:
        return r->server_cpu_us;
    case CLIENT_KB:
        return r->client_kb;
    case SERVER_KB:
        return r->server_kb;
    }
    return 0;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct spread {
    double median, low, high;
};

static struct spread spread_of(int cell, int transport, enum figure figure)
{
    double values[ROUNDS_MAX];
    int n = n_results[cell][transport];
    if (n == 0)
        return (struct spread){0, 0, 0};
    for (int i = 0; i < n; i++)
        values[i] = figure_of(&results[cell][transport][i], figure);
    qsort(values, (size_t)n, sizeof *values, compare);
    return (struct spread){(values[(n - 1) / 2] + values[n / 2]) / 2, values[0], values[n - 1]};
}

static double median(int cell, int transport, enum figure figure)
{
    return spread_of(cell, transport, figure).median;
}

static double cpu(int cell, int transport)
{
    return median(cell, transport, CLIENT_CPU) + median(cell, transport, SERVER_CPU);
}

/* How many times as many calls per second Rota makes; 0 when not known. */
static double ratio(int cell, int transport)
{
    double theirs = median(cell, transport, RATE);
    return theirs > 0 ? median(cell, ROTA, RATE) / theirs : 0;
}

static double cpu_ratio(int cell, int transport)
{
    double ours = cpu(cell, ROTA);
    return ours > 0 ? cpu(cell, transport) / ours : 0;
}

static double median_elsewhere(void)
{
    qsort(elsewhere, n_runs, sizeof *elsewhere, compare);
    return n_runs ? elsewhere[n_runs / 2] : 0;
}

/* --- for people --- */

static void print_cell(int cell)
{
    const struct cell *c = &cells[cell];
    printf("\n%s, %u in flight, %u connection%s\n", c->is_batch ? "100 keys" : "echo 100 B",
           c->n_calls, c->n_connections, c->n_connections > 1 ? "s" : "");
    printf("  %-12s %9s %21s %9s %9s %15s %13s %9s %9s\n", "", "calls/s", "lowest .. highest",
           "p50 us", "p99 us", "CPU us cl + srv", "RSS MB c / s", "rota is", "in CPU");
    for (int t = 0; t < N_TRANSPORTS; t++) {
        struct spread rate = spread_of(cell, t, RATE);
        if (!is_there[t])
            continue;
        if (n_results[cell][t] == 0) {
            printf("  %-12s failed\n", transports[t].name);
            continue;
        }
        printf("  %-12s %9.0f %9.0f .. %8.0f %9.0f %9.0f %6.2f + %6.2f %5.1f / %5.1f",
               transports[t].name, rate.median, rate.low, rate.high, median(cell, t, P50),
               median(cell, t, P99), median(cell, t, CLIENT_CPU), median(cell, t, SERVER_CPU),
               median(cell, t, CLIENT_KB) / 1024, median(cell, t, SERVER_KB) / 1024);
        if (t != ROTA)
            printf(" %8.2fx %8.2fx%s", ratio(cell, t), cpu_ratio(cell, t),
                   ratio(cell, t) < 1 ? "  loses" : "");
        printf("%s\n", n_failed[cell][t] ? "  (a run failed)" : "");
    }
}

static void print_goal(int cell, int transport, double goal)
{
    double is = ratio(cell, transport);
    if (goal > 0 && is > 0)
        printf("  %-10s %5.2fx %-12s goal %5.2fx  %s\n", cells[cell].is_batch ? "100 keys" : "echo",
               is, transports[transport].name, goal, is >= goal ? "met" : "NOT MET");
}

static void print_goals(const double idle_kb[N_TRANSPORTS])
{
    printf("\ngoals, 128 in flight, 1 connection\n");
    for (int cell = 0; cell < n_cells; cell++)
        for (int t = 0; t < N_TRANSPORTS; t++)
            if (cells[cell].n_calls == 128 && cells[cell].n_connections == 1)
                print_goal(cell, t,
                           cells[cell].is_batch ? transports[t].goal_batch
                                                : transports[t].goal_echo);
    printf("  one idle connection at the server, KB:");
    for (int t = 0; t < N_TRANSPORTS; t++)
        if (idle_kb[t] > 0)
            printf(" %s %.1f", transports[t].name, idle_kb[t]);
    printf("; goal 20  %s\n", idle_kb[ROTA] > 0 && idle_kb[ROTA] < 20 ? "met" : "NOT MET");
}

static void print_missing(FILE *to)
{
    for (int t = 0; t < N_TRANSPORTS; t++)
        if (!is_there[t])
            fprintf(to, "not compared: %s; to have it: apt-get install %s, and build anew\n",
                    transports[t].name, transports[t].packages);
}

/* --- for programs --- */

static void json_transport(int cell, int t)
{
    struct spread rate = spread_of(cell, t, RATE);
    printf("{\"transport\":\"%s\",\"runs\":%d,\"failed\":%d,\"calls_per_s\":%.0f,"
           "\"lowest\":%.0f,\"highest\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,"
           "\"client_cpu_us\":%.3f,\"server_cpu_us\":%.3f,\"client_rss_kb\":%.0f,"
           "\"server_rss_kb\":%.0f,\"rota_ratio\":%.3f,\"rota_cpu_ratio\":%.3f}",
           transports[t].name, n_results[cell][t], n_failed[cell][t], rate.median, rate.low,
           rate.high, median(cell, t, P50), median(cell, t, P99), median(cell, t, CLIENT_CPU),
           median(cell, t, SERVER_CPU), median(cell, t, CLIENT_KB), median(cell, t, SERVER_KB),
           ratio(cell, t), cpu_ratio(cell, t));
}

static void print_json(const double idle_kb[N_TRANSPORTS])
{
    const char *comma = "";
    printf("{\"bench\":\"call\",\"cores_used_elsewhere\":%.2f,\"cells\":[", median_elsewhere());
    for (int cell = 0; cell < n_cells; cell++) {
        printf("%s{\"call\":\"%s\",\"in_flight\":%u,\"connections\":%u,\"rows\":[", cell ? "," : "",
               cells[cell].is_batch ? "batch" : "echo", cells[cell].n_calls,
               cells[cell].n_connections);
        comma = "";
        for (int t = 0; t < N_TRANSPORTS; t++) {
            if (!is_there[t])
                continue;
            fputs(comma, stdout);
            json_transport(cell, t);
            comma = ",";
        }
        printf("]}");
    }
    printf("],\"idle_connection_kb\":{");
    comma = "";
    for (int t = 0; t < N_TRANSPORTS; t++) {
        if (idle_kb[t] <= 0)
            continue;
        printf("%s\"%s\":%.1f", comma, transports[t].name, idle_kb[t]);
        comma = ",";
    }
    printf("}}\n");
}

int main(int argc, char **argv)
{
    bool json = false, quick = false;
    struct rota_random random;
    double idle_kb[N_TRANSPORTS] = {0};
    int rounds = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--quick") == 0)
            quick = true;
        else {
            fprintf(stderr, "usage: bench_call [--json] [--quick]\n");
            return 2;
        }
    }
    cells = quick ? quick_cells : full_cells;
    n_cells = (int)(quick ? sizeof quick_cells : sizeof full_cells) / (int)sizeof *cells;
    warm_ms = quick ? 100 : 150;
    window_ms = quick ? 400 : 600;
    rota_random_init(&random, (uint64_t)time(NULL));
    for (int t = 0; t < N_TRANSPORTS; t++)
        is_there[t] = spawn_has(transports[t].program);
    print_missing(stderr);
    for (int cell = 0; cell < n_cells; cell++)
        rounds = cells[cell].rounds > rounds ? cells[cell].rounds : rounds;
    for (int round = 0; round < rounds; round++)
        run_round(&random, round);
    for (int t = 0; t < N_TRANSPORTS; t++)
        if (is_there[t] && t != ZMQ)
            idle_kb[t] = spawn_idle_kb(transports[t].program, t != RAW, N_IDLE);
    fprintf(stderr, "\r%30s\r", "");
    if (json) {
        print_json(idle_kb);
        return 0;
    }
    for (int cell = 0; cell < n_cells; cell++)
        print_cell(cell);
    print_goals(idle_kb);
    printf("\nother programs used %.1f of 2 cores meanwhile; below some 1.3x a ratio says little\n",
           median_elsewhere());
    print_missing(stdout);
    return 0;
}
