/* bench_get [--json] [--quick]: Gets of many keys with Rota, over 2 data centers of 4
 * shards, beside memcached's multi-get over 4 servers, in one run on one machine; all
 * well, and with one server that is stopped as the measuring begins.
 *
 * The servers are started once, on core 0; for every measurement a client is started
 * afresh on core 1. What the clients do is in get/load.h. */
#include "process.h"
#include "rounds.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    N_SHARDS = 4,
    SERVERS_MAX = 2 * N_SHARDS,
    STOPPED = 1, /* which server stops */
    START_MS = 20000,
    RECOVER_MS = 300,
};

/* --- what is measured --- */

enum system { ROTA, MEMCACHED, N_SYSTEMS };
enum peer { ADAPTIVE, BROADCAST, HEDGE, DEFAULT, TUNED, N_PEERS };

static const struct {
    const char *name, *mode;
    enum system system;
} peers[N_PEERS] = {
    [ADAPTIVE] = {"rota adaptive", "adaptive", ROTA},
    [BROADCAST] = {"rota broadcast", "broadcast", ROTA},
    [HEDGE] = {"rota hedge", "hedge", ROTA},
    [DEFAULT] = {"memcached", "default", MEMCACHED},
    [TUNED] = {"memcached tuned", "tuned", MEMCACHED},
};

/* The window with a stopped server is longer than libmemcached's patience. */
struct cell {
    unsigned n_keys, n_gets;
    bool is_stopped;
    unsigned window_ms;
};

static const struct cell full_cells[] = {
    {1, 1, false, 1000},  {10, 1, false, 1000},  {100, 1, false, 1000},
    {1, 16, false, 1000}, {10, 16, false, 1000}, {100, 16, false, 1000},
    {1, 16, true, 6000},  {10, 16, true, 6000},  {100, 16, true, 6000},
};
static const struct cell quick_cells[] = {
    {1, 16, false, 500},
    {100, 16, false, 500},
    {1, 16, true, 5500},
    {100, 16, true, 5500},
};

struct result {
    double gets, incomplete; /* incomplete: a part of all, 0 to 1 */
    double rate, per_core;   /* keys per second; per second of CPU, all processes together */
    double p50, p99, p999, returned_p99;
    double client_cpu, server_cpu; /* us for one Get */
};

static const struct cell *cells;
static unsigned warm_ms;
static bool has_memcached;
static struct rounds rounds = {.n_peers = N_PEERS, .result_size = sizeof(struct result)};

/* --- servers --- */

static struct process servers[N_SYSTEMS][SERVERS_MAX];
static char addresses[N_SYSTEMS][SERVERS_MAX][PROCESS_LINE_SIZE];
static int n_servers[N_SYSTEMS];

static void fail(const char *what)
{
    fprintf(stderr, "\nbench_get: %s\n", what);
    exit(1); /* the processes end with this one */
}

static void rest(unsigned ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

static bool can_run(const char *program)
{
    char path[PROCESS_PATH_SIZE];
    process_path("get", program, path);
    return access(path, X_OK) == 0;
}

static void start_rota(void)
{
    char path[PROCESS_PATH_SIZE], line[PROCESS_LINE_SIZE], word[] = "server", shard[8], of[8];
    char *arguments[] = {path, word, shard, of, NULL};
    process_path("get", "get_rota", path);
    snprintf(of, sizeof of, "%d", N_SHARDS);
    for (int i = 0; i < 2 * N_SHARDS; i++) {
        struct process *server = &servers[ROTA][n_servers[ROTA]];
        snprintf(shard, sizeof shard, "%d", i % N_SHARDS);
        if (!process_start(server, 0, arguments) || !process_read_line(server, START_MS, line) ||
            sscanf(line, "ready %500s", addresses[ROTA][n_servers[ROTA]++]) != 1)
            fail("a server of Rota does not start");
    }
}

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) ||
        getsockname(fd, (struct sockaddr *)&address, &size))
        fail("there is no free port");
    close(fd);
    return ntohs(address.sin_port);
}

static bool is_listening(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is = fd >= 0 && !connect(fd, (struct sockaddr *)&address, sizeof address);
    if (fd >= 0)
        close(fd);
    return is;
}

static const char memcached_path[] = "/usr/bin/memcached";

/* One thread each, as Rota's servers have. It complains of each client that has gone
 * before it was let in, as those of a stopped server do. */
static void start_memcached(void)
{
    char shell[] = "/bin/sh", option[] = "-c", command[256];
    char *arguments[] = {shell, option, command, NULL};
    for (int i = 0; i < N_SHARDS; i++) {
        int number = free_port(), tries = 0;
        snprintf(command, sizeof command,
                 "exec %s -l 127.0.0.1 -p %d -U 0 -t 1 -m 64 %s 2>/dev/null", memcached_path,
                 number, geteuid() == 0 ? "-u root" : "");
        snprintf(addresses[MEMCACHED][i], PROCESS_LINE_SIZE, "127.0.0.1:%d", number);
        if (!process_start(&servers[MEMCACHED][n_servers[MEMCACHED]++], 0, arguments))
            fail("memcached does not start");
        while (!is_listening(number)) {
            if (++tries == START_MS / 10)
                fail("memcached does not listen");
            rest(10);
        }
    }
}

static void fill_memcached(void)
{
    char path[PROCESS_PATH_SIZE], line[PROCESS_LINE_SIZE], word[] = "fill";
    char *arguments[3 + N_SHARDS] = {path, word};
    struct process client;
    process_path("get", "get_memcached", path);
    for (int i = 0; i < N_SHARDS; i++)
        arguments[2 + i] = addresses[MEMCACHED][i];
    if (!process_start(&client, 1, arguments) || !process_read_line(&client, START_MS, line) ||
        strcmp(line, "ready") != 0)
        fail("memcached can't be filled");
    process_stop(&client);
}

static void start_servers(void)
{
    has_memcached = can_run("get_memcached") && access(memcached_path, X_OK) == 0;
    start_rota();
    if (!has_memcached)
        return;
    start_memcached();
    fill_memcached();
}

static void stop_servers(void)
{
    for (int system = 0; system < N_SYSTEMS; system++)
        for (int i = 0; i < n_servers[system]; i++)
            process_stop(&servers[system][i]);
}

/* --- running --- */

static bool parse(const char *line, struct result *r)
{
    double gets, incomplete, keys, ns, p[4], client, server;
    if (sscanf(line, "%lf %lf %lf %lf %lf %lf %lf %lf %lf %lf", &gets, &incomplete, &keys, &ns,
               &p[0], &p[1], &p[2], &p[3], &client, &server) != 10)
        return false;
    *r = (struct result){
        .gets = gets,
        .incomplete = gets > 0 ? incomplete / gets : 1,
        .rate = keys / ns * 1e9,
        .per_core = keys / (client + server) * 1e9,
        .p50 = p[0] / 1e3,
        .p99 = p[1] / 1e3,
        .p999 = p[2] / 1e3,
        .returned_p99 = p[3] / 1e3,
        .client_cpu = gets > 0 ? client / gets / 1e3 : 0,
        .server_cpu = gets > 0 ? server / gets / 1e3 : 0,
    };
    return true;
}

static bool run_client(int cell, int peer, void *result)
{
    const struct cell *c = &cells[cell];
    enum system system = peers[peer].system;
    char path[PROCESS_PATH_SIZE], line[PROCESS_LINE_SIZE], word[] = "client", mode[16];
    char numbers[5][16], pids[SERVERS_MAX][16];
    char *arguments[9 + 2 * SERVERS_MAX] = {path, word, mode};
    struct process client;
    int n = 3;
    pid_t stopped = c->is_stopped ? servers[system][STOPPED].pid : 0;
    process_path("get", system == ROTA ? "get_rota" : "get_memcached", path);
    snprintf(mode, sizeof mode, "%s", peers[peer].mode);
    snprintf(numbers[0], sizeof *numbers, "%u", c->n_keys);
    snprintf(numbers[1], sizeof *numbers, "%u", c->n_gets);
    snprintf(numbers[2], sizeof *numbers, "%u", warm_ms);
    snprintf(numbers[3], sizeof *numbers, "%u", c->window_ms);
    snprintf(numbers[4], sizeof *numbers, "%d", stopped);
    for (int i = 0; i < 5; i++)
        arguments[n++] = numbers[i];
    for (int i = 0; i < n_servers[system]; i++) {
        snprintf(pids[i], sizeof pids[i], "%d", servers[system][i].pid);
        arguments[n++] = addresses[system][i];
        arguments[n++] = pids[i];
    }
    if (!process_start(&client, 1, arguments))
        return false;
    bool is_right = process_read_line(&client, (int)(START_MS + warm_ms + c->window_ms), line) &&
                    parse(line, result);
    process_stop(&client);
    if (stopped) {
        kill(stopped, SIGCONT);
        rest(RECOVER_MS);
    }
    return is_right;
}

/* --- figures --- */

/* Each figure by its place in struct result. */
#define FIGURE(name) offsetof(struct result, name)

static double median(int cell, int peer, size_t figure)
{
    return rounds_median(&rounds, cell, peer, figure);
}

static double of_rounds(int cell, int peer, size_t figure, double part)
{
    return rounds_part(&rounds, cell, peer, figure, part);
}

/* --- for people --- */

static void print_cell(int cell)
{
    const struct cell *c = &cells[cell];
    printf("\n%u key%s, %u under way%s\n", c->n_keys, c->n_keys > 1 ? "s" : "", c->n_gets,
           c->is_stopped ? ", one server stopped" : "");
    printf("  %-16s %9s %9s %19s %8s %8s %9s %10s %10s %14s\n", "", "keys/s", "per core",
           "lowest .. highest", "p50 us", "p99 us", "p99.9 us", "incomplete", "p99 return",
           "CPU us cl + srv");
    for (int peer = 0; peer < N_PEERS; peer++) {
        if (rounds.n_results[cell][peer] == 0)
            continue;
        printf("  %-16s %9.0f %9.0f %8.0f .. %7.0f %8.0f %8.0f %9.0f %9.1f%% %10.0f %6.1f + %6.1f",
               peers[peer].name, median(cell, peer, FIGURE(rate)),
               median(cell, peer, FIGURE(per_core)), of_rounds(cell, peer, FIGURE(per_core), 0),
               of_rounds(cell, peer, FIGURE(per_core), 1), median(cell, peer, FIGURE(p50)),
               median(cell, peer, FIGURE(p99)), median(cell, peer, FIGURE(p999)),
               100 * median(cell, peer, FIGURE(incomplete)),
               median(cell, peer, FIGURE(returned_p99)), median(cell, peer, FIGURE(client_cpu)),
               median(cell, peer, FIGURE(server_cpu)));
        double per_core = rounds_ratio(median(cell, ADAPTIVE, FIGURE(per_core)),
                                       median(cell, peer, FIGURE(per_core)));
        if (peers[peer].system != ROTA && per_core > 0)
            printf("  rota is %.2fx per core%s", per_core, per_core < 1 ? ", loses" : "");
        printf("%s\n", rounds.n_failed[cell][peer] ? "  (a run failed)" : "");
    }
}

static int find_cell(unsigned n_keys, unsigned n_gets, bool is_stopped)
{
    for (int i = 0; i < rounds.n_cells; i++)
        if (cells[i].n_keys == n_keys && cells[i].n_gets == n_gets &&
            cells[i].is_stopped == is_stopped)
            return i;
    return -1;
}

static void print_goal(const char *what, double is, double goal, bool is_least)
{
    if (is > 0)
        printf("  %-62s %9.2fx  goal %s %.1fx  %s\n", what, is, is_least ? "at least" : "at most ",
               goal, (is_least ? is >= goal : is <= goal) ? "met" : "NOT MET");
}

static void print_goals(void)
{
    int well = find_cell(100, 16, false), stopped = find_cell(100, 16, true);
    printf("\ngoals, rota adaptive, 16 under way\n");
    for (int peer = DEFAULT; peer <= TUNED; peer++) {
        char what[80];
        snprintf(what, sizeof what, "100 keys: keys/s per core, to %s", peers[peer].name);
        print_goal(what,
                   rounds_ratio(median(well, ADAPTIVE, FIGURE(per_core)),
                                median(well, peer, FIGURE(per_core))),
                   1, true);
    }
    for (int peer = DEFAULT; peer <= TUNED; peer++) {
        char what[80];
        snprintf(what, sizeof what, "100 keys, one server stopped: p99 of %s to Rota's",
                 peers[peer].name);
        print_goal(what,
                   rounds_ratio(median(stopped, peer, FIGURE(p99)),
                                median(stopped, ADAPTIVE, FIGURE(p99))),
                   50, true);
    }
    printf("  %-62s %9.2fx\n", "the same, when memcached tuned may return without the values",
           rounds_ratio(median(stopped, TUNED, FIGURE(returned_p99)),
                        median(stopped, ADAPTIVE, FIGURE(p99))));
    for (int i = 0; i < rounds.n_cells; i++) {
        char what[80];
        int healthy = find_cell(cells[i].n_keys, cells[i].n_gets, false);
        if (!cells[i].is_stopped || healthy < 0)
            continue;
        snprintf(what, sizeof what, "%u keys: p99 with one server stopped to p99 when all is well",
                 cells[i].n_keys);
        print_goal(
            what,
            rounds_ratio(median(i, ADAPTIVE, FIGURE(p99)), median(healthy, ADAPTIVE, FIGURE(p99))),
            1.5, false);
    }
}

static void print_missing(FILE *to)
{
    if (!has_memcached)
        rounds_print_missing(to, "memcached", "memcached libmemcached-dev");
}

/* --- for programs --- */

static void json_cell(int cell)
{
    printf("\"keys\":%u,\"under_way\":%u,\"server_stopped\":%s", cells[cell].n_keys,
           cells[cell].n_gets, cells[cell].is_stopped ? "true" : "false");
}

static void json_row(int cell, int peer)
{
    printf("\"client\":\"%s\",\"runs\":%d,\"failed\":%d,\"keys_per_s\":%.0f,"
           "\"keys_per_s_per_core\":%.0f,\"lowest\":%.0f,\"highest\":%.0f,"
           "\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"incomplete\":%.4f,"
           "\"returned_p99_us\":%.1f,\"client_cpu_us\":%.2f,\"server_cpu_us\":%.2f",
           peers[peer].name, rounds.n_results[cell][peer], rounds.n_failed[cell][peer],
           median(cell, peer, FIGURE(rate)), median(cell, peer, FIGURE(per_core)),
           of_rounds(cell, peer, FIGURE(per_core), 0), of_rounds(cell, peer, FIGURE(per_core), 1),
           median(cell, peer, FIGURE(p50)), median(cell, peer, FIGURE(p99)),
           median(cell, peer, FIGURE(p999)), median(cell, peer, FIGURE(incomplete)),
           median(cell, peer, FIGURE(returned_p99)), median(cell, peer, FIGURE(client_cpu)),
           median(cell, peer, FIGURE(server_cpu)));
}

static void print_all(double elsewhere)
{
    for (int cell = 0; cell < rounds.n_cells; cell++)
        print_cell(cell);
    print_goals();
    printf("\nother programs used %.1f cores meanwhile; below some 1.3x a ratio says little\n",
           elsewhere);
    print_missing(stdout);
}

int main(int argc, char **argv)
{
    struct rounds_options options = rounds_parse(argc, argv, "bench_get");
    bool quick = options.quick;
    cells = quick ? quick_cells : full_cells;
    rounds.n_cells = (int)(quick ? sizeof quick_cells : sizeof full_cells) / (int)sizeof *cells;
    warm_ms = quick ? 300 : 500;
    struct process_moment since = process_moment();
    start_servers();
    print_missing(stderr);
    for (int cell = 0; cell < rounds.n_cells; cell++)
        rounds.n_rounds[cell] = quick ? 1 : 3;
    for (int peer = 0; peer < N_PEERS; peer++)
        rounds.is_there[peer] = peers[peer].system == ROTA || has_memcached;
    rounds.run = run_client;
    rounds_run(&rounds);
    stop_servers();
    double elsewhere = process_cores_elsewhere(&since);
    if (options.json) {
        rounds_print_json(&rounds, "get", elsewhere, json_cell, json_row);
        printf("}\n");
    } else {
        print_all(elsewhere);
    }
    rounds_deinit(&rounds);
    return 0;
}
