/* bench_call [--json] [--quick]: calls per second, latency, CPU and memory of
 * Rota's gRPC beside what else one could use, in one run on one machine.
 *
 * For every measurement a server is started on core 0 and a client on core 1,
 * afresh. What the programs do is in call/load.h. */
#include "call/spawn.h"
#include "rounds.h"

#include <stddef.h>
#include <stdio.h>

enum { N_IDLE = 1000 };

enum transport { ROTA, FENCED, CPP, CORE, RAW, ZMQ, N_TRANSPORTS };

static const struct {
    const char *program, *name, *packages;
    double goal_echo, goal_batch; /* of Rota's calls per second, at the cell of the goals */
} transports[N_TRANSPORTS] = {
    [ROTA] = {"call_rota", "rota", "", 0, 0},
    [FENCED] = {"call_fenced", "rota, fenced", "", 0, 0},
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
static unsigned warm_ms, window_ms;
static struct rounds rounds = {.n_peers = N_TRANSPORTS, .result_size = sizeof(struct spawn_result)};

/* --- running --- */

static bool run_one(int cell, int transport, void *result)
{
    const struct cell *c = &cells[cell];
    struct spawn_load load = {transports[transport].program,
                              c->is_batch,
                              c->n_calls,
                              c->n_connections,
                              warm_ms,
                              window_ms};
    return spawn_run(&load, result);
}

/* --- figures --- */

/* Each figure by its place in the result. */
#define FIGURE(name) offsetof(struct spawn_result, name)

static double median(int cell, int transport, size_t figure)
{
    return rounds_median(&rounds, cell, transport, figure);
}

static double lowest(int cell, int transport)
{
    return rounds_part(&rounds, cell, transport, FIGURE(rate), 0);
}

static double highest(int cell, int transport)
{
    return rounds_part(&rounds, cell, transport, FIGURE(rate), 1);
}

static double cpu(int cell, int transport)
{
    return median(cell, transport, FIGURE(client_cpu_us)) +
           median(cell, transport, FIGURE(server_cpu_us));
}

/* How many times as many calls per second Rota makes; 0 when not known. */
static double ratio(int cell, int transport)
{
    return rounds_ratio(median(cell, ROTA, FIGURE(rate)), median(cell, transport, FIGURE(rate)));
}

static double cpu_ratio(int cell, int transport)
{
    return rounds_ratio(cpu(cell, transport), cpu(cell, ROTA));
}

static double median_elsewhere(void)
{
    return rounds_median_of_all(&rounds, FIGURE(elsewhere));
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
        if (!rounds.is_there[t])
            continue;
        if (rounds.n_results[cell][t] == 0) {
            printf("  %-12s failed\n", transports[t].name);
            continue;
        }
        printf("  %-12s %9.0f %9.0f .. %8.0f %9.0f %9.0f %6.2f + %6.2f %5.1f / %5.1f",
               transports[t].name, median(cell, t, FIGURE(rate)), lowest(cell, t), highest(cell, t),
               median(cell, t, FIGURE(p50_us)), median(cell, t, FIGURE(p99_us)),
               median(cell, t, FIGURE(client_cpu_us)), median(cell, t, FIGURE(server_cpu_us)),
               median(cell, t, FIGURE(client_kb)) / 1024,
               median(cell, t, FIGURE(server_kb)) / 1024);
        if (t != ROTA)
            printf(" %8.2fx %8.2fx%s", ratio(cell, t), cpu_ratio(cell, t),
                   ratio(cell, t) < 1 ? "  loses" : "");
        printf("%s\n", rounds.n_failed[cell][t] ? "  (a run failed)" : "");
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
    for (int cell = 0; cell < rounds.n_cells; cell++)
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
        if (!rounds.is_there[t])
            rounds_print_missing(to, transports[t].name, transports[t].packages);
}

/* --- for programs --- */

static void json_cell(int cell)
{
    printf("\"call\":\"%s\",\"in_flight\":%u,\"connections\":%u",
           cells[cell].is_batch ? "batch" : "echo", cells[cell].n_calls, cells[cell].n_connections);
}

static void json_row(int cell, int t)
{
    printf("\"transport\":\"%s\",\"runs\":%d,\"failed\":%d,\"calls_per_s\":%.0f,"
           "\"lowest\":%.0f,\"highest\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,"
           "\"client_cpu_us\":%.3f,\"server_cpu_us\":%.3f,\"client_rss_kb\":%.0f,"
           "\"server_rss_kb\":%.0f,\"rota_ratio\":%.3f,\"rota_cpu_ratio\":%.3f",
           transports[t].name, rounds.n_results[cell][t], rounds.n_failed[cell][t],
           median(cell, t, FIGURE(rate)), lowest(cell, t), highest(cell, t),
           median(cell, t, FIGURE(p50_us)), median(cell, t, FIGURE(p99_us)),
           median(cell, t, FIGURE(client_cpu_us)), median(cell, t, FIGURE(server_cpu_us)),
           median(cell, t, FIGURE(client_kb)), median(cell, t, FIGURE(server_kb)), ratio(cell, t),
           cpu_ratio(cell, t));
}

static void print_json(const double idle_kb[N_TRANSPORTS])
{
    const char *comma = "";
    rounds_print_json(&rounds, "call", median_elsewhere(), json_cell, json_row);
    printf(",\"idle_connection_kb\":{");
    for (int t = 0; t < N_TRANSPORTS; t++) {
        if (idle_kb[t] <= 0)
            continue;
        printf("%s\"%s\":%.1f", comma, transports[t].name, idle_kb[t]);
        comma = ",";
    }
    printf("}}\n");
}

static void print_all(const double idle_kb[N_TRANSPORTS])
{
    for (int cell = 0; cell < rounds.n_cells; cell++)
        print_cell(cell);
    print_goals(idle_kb);
    printf("\nother programs used %.1f of 2 cores meanwhile; below some 1.3x a ratio says little\n",
           median_elsewhere());
    print_missing(stdout);
}

int main(int argc, char **argv)
{
    struct rounds_options options = rounds_parse(argc, argv, "bench_call");
    bool quick = options.quick;
    double idle_kb[N_TRANSPORTS] = {0};
    cells = quick ? quick_cells : full_cells;
    rounds.n_cells = (int)(quick ? sizeof quick_cells : sizeof full_cells) / (int)sizeof *cells;
    warm_ms = quick ? 100 : 150;
    window_ms = quick ? 400 : 600;
    for (int t = 0; t < N_TRANSPORTS; t++)
        rounds.is_there[t] = spawn_has(transports[t].program);
    print_missing(stderr);
    for (int cell = 0; cell < rounds.n_cells; cell++)
        rounds.n_rounds[cell] = cells[cell].rounds;
    rounds.run = run_one;
    rounds_run(&rounds);
    for (int t = 0; t < N_TRANSPORTS; t++)
        if (rounds.is_there[t] && t != ZMQ)
            idle_kb[t] = spawn_idle_kb(transports[t].program, t != RAW, N_IDLE);
    if (options.json)
        print_json(idle_kb);
    else
        print_all(idle_kb);
    rounds_deinit(&rounds);
    return 0;
}
