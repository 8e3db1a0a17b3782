/* bench_work [--json] [--quick]: the whole life of jobs of 100 bytes, from the submitter over
 * the broker to one of four workers and back, with Rota and with the queues that Debian
 * has, each with what it promises when it acknowledges a job; then what a waiting job takes,
 * and how long a broker that was killed takes until it has all of them again.
 *
 * For every measurement a broker is started afresh on core 0, in a directory under the current
 * one, and a client on core 1. What the clients do is in work/load.h. */
#include "process.h"
#include "rounds.h"
#include "work/servers.h"

#include <stdlib.h>
#include <string.h>

enum { CLIENT_MS = 30000, FILL_MS = 600000, N_PEERS = 13, ARGUMENT_SIZE = 64 };

/* --- what is measured --- */

static const struct servers_peer peers[N_PEERS] = {
    {"rota", ROTA, MEMORY, "--log-level error --durability memory", false},
    {"rota polls", ROTA, MEMORY, "--log-level error --durability memory", true},
    {"redis lists", REDIS, MEMORY, "--appendonly no", false},
    {"gearmand", GEARMAND, MEMORY, "--threads=1", false},
    {"beanstalkd", BEANSTALKD, MEMORY, "", false},
    {"nats memory", NATS, MEMORY, "memory", false},
    {"redis everysec", REDIS, LATER, "--appendonly yes --appendfsync everysec", false},
    {"beanstalkd 50 ms", BEANSTALKD, LATER, "-b", false},
    {"nats file", NATS, LATER, "file", false},
    {"rota", ROTA, FSYNC, "--log-level error --data", false},
    {"rota polls", ROTA, FSYNC, "--log-level error --data", true},
    {"redis always", REDIS, FSYNC, "--appendonly yes --appendfsync always", false},
    {"beanstalkd fsync", BEANSTALKD, FSYNC, "-f 0 -b", false},
};

struct result {
    double rate; /* jobs per second */
    double p50_us, p99_us;
    double client_us, server_us; /* CPU for one job */
};

struct filled {
    double rate;     /* jobs per second */
    double bytes;    /* of memory, for one that waits */
    double recovery; /* seconds; 0: it has none, or it failed */
};

static const unsigned full_windows[] = {1, 64, 1000}, quick_windows[] = {64, 1000};
static const unsigned *windows;
static unsigned warm_ms, window_ms;
static size_t n_filled;
static struct rounds rounds = {.n_peers = N_PEERS, .result_size = sizeof(struct result)};
static struct filled filled[N_PEERS];

/* --- running --- */

/* Start the client of a server with `what`, its addresses and these arguments; its line. */
static bool run_client(const struct servers_server *server, const char *what,
                       const char (*words)[ARGUMENT_SIZE], int n_words, int timeout_ms,
                       char line[PROCESS_LINE_SIZE])
{
    char path[PROCESS_PATH_SIZE], copies[8][ARGUMENT_SIZE];
    char *arguments[10] = {path};
    struct process client;
    int n = 0;
    process_path("work", servers_program(server->peer->system), path);
    snprintf(copies[n++], ARGUMENT_SIZE, "%s", what);
    for (int i = 0; i < server->n_addresses; i++)
        snprintf(copies[n++], ARGUMENT_SIZE, "%.*s", ARGUMENT_SIZE - 1, server->addresses[i]);
    for (int i = 0; i < n_words; i++)
        snprintf(copies[n++], ARGUMENT_SIZE, "%.*s", ARGUMENT_SIZE - 1, words[i]);
    for (int i = 0; i < n; i++)
        arguments[i + 1] = copies[i];
    if (!process_start(&client, 1, arguments))
        return false;
    bool is_well = process_read_line(&client, timeout_ms, line);
    process_stop(&client);
    return is_well;
}

static bool parse(const char *line, struct result *result)
{
    double jobs, ns, p50, p99, client, server;
    if (sscanf(line, "%lf %lf %lf %lf %lf %lf", &jobs, &ns, &p50, &p99, &client, &server) != 6 ||
        jobs < 1)
        return false;
    *result = (struct result){
        .rate = jobs / ns * 1e9,
        .p50_us = p50 / 1e3,
        .p99_us = p99 / 1e3,
        .client_us = client / jobs / 1e3,
        .server_us = server / jobs / 1e3,
    };
    return true;
}

static bool run_live(int cell, int peer, void *result)
{
    struct servers_server server;
    char words[4][ARGUMENT_SIZE], line[PROCESS_LINE_SIZE];
    bool is_well = servers_start(&server, &peers[peer]);
    snprintf(words[0], ARGUMENT_SIZE, "%u", windows[cell]);
    snprintf(words[1], ARGUMENT_SIZE, "%u", warm_ms);
    snprintf(words[2], ARGUMENT_SIZE, "%u", window_ms);
    snprintf(words[3], ARGUMENT_SIZE, "%d", (int)server.process.pid);
    is_well = is_well && run_client(&server, "live", (const char(*)[ARGUMENT_SIZE])words, 4,
                                    CLIENT_MS + (int)(warm_ms + window_ms), line);
    servers_stop(&server);
    return is_well && parse(line, result);
}

/* How workers come makes no difference; nor does when beanstalkd syncs, but for the hours that
 * a million syncs take. */
static void run_fill(int peer)
{
    struct servers_server server;
    char words[1][ARGUMENT_SIZE], line[PROCESS_LINE_SIZE];
    double ns;
    bool has_disk = peers[peer].durability != MEMORY;
    if (peers[peer].is_polling ||
        (peers[peer].system == BEANSTALKD && peers[peer].durability == FSYNC))
        return;
    bool is_well = servers_start(&server, &peers[peer]);
    double before = servers_resident(&server);
    snprintf(words[0], ARGUMENT_SIZE, "%zu", n_filled);
    if (is_well &&
        run_client(&server, "fill", (const char(*)[ARGUMENT_SIZE])words, 1, FILL_MS, line) &&
        sscanf(line, "filled %lf", &ns) == 1) {
        filled[peer].rate = (double)n_filled / ns * 1e9;
        filled[peer].bytes = (servers_resident(&server) - before) / (double)n_filled;
        if (has_disk)
            filled[peer].recovery = servers_restart(&server, n_filled);
    }
    servers_stop(&server);
}

static void run_fills(void)
{
    for (int peer = 0; peer < N_PEERS; peer++) {
        fprintf(stderr, "\rfilling %d of %d ", peer + 1, N_PEERS);
        if (rounds.is_there[peer])
            run_fill(peer);
    }
    fprintf(stderr, "\r%30s\r", "");
}

/* --- figures --- */

#define FIGURE(name) offsetof(struct result, name)

static double median(int cell, int peer, size_t figure)
{
    return rounds_median(&rounds, cell, peer, figure);
}

static bool is_rota(int peer)
{
    return peers[peer].system == ROTA;
}

/* The peer that does best at this durability, ours left out; -1 when there is none. */
static int best_peer(int cell, enum servers_durability durability)
{
    int best = -1;
    for (int i = 0; i < N_PEERS; i++)
        if (!is_rota(i) && peers[i].durability == durability &&
            median(cell, i, FIGURE(rate)) > (best < 0 ? 0 : median(cell, best, FIGURE(rate))))
            best = i;
    return best;
}

/* Of ours, the faster of those that promise the same; what is on disk later is promised by none
 * of ours, and is set beside what promises more. */
static int rota_of(int cell, enum servers_durability durability)
{
    enum servers_durability promised = durability == LATER ? FSYNC : durability;
    int best = -1;
    for (int i = 0; i < N_PEERS; i++)
        if (is_rota(i) && peers[i].durability == promised &&
            (best < 0 || median(cell, i, FIGURE(rate)) > median(cell, best, FIGURE(rate))))
            best = i;
    return best;
}

/* The one of ours that was filled. */
static int filled_of(enum servers_durability durability)
{
    int found = 0;
    for (int i = 0; i < N_PEERS; i++)
        if (is_rota(i) && !peers[i].is_polling && peers[i].durability == durability)
            found = i;
    return found;
}

/* --- for people --- */

static void print_cell(int cell)
{
    printf("\n%u under way\n", windows[cell]);
    printf("  %-8s %-17s %9s %19s %9s %9s %16s\n", "safe in", "", "jobs/s", "lowest .. highest",
           "p50 us", "p99 us", "CPU us cl + srv");
    for (int peer = 0; peer < N_PEERS; peer++) {
        if (!rounds.is_there[peer])
            continue;
        printf("  %-8s %-17s", servers_durability_name(peers[peer].durability), peers[peer].name);
        if (rounds.n_results[cell][peer] == 0) {
            printf("  all runs failed\n");
            continue;
        }
        double rate = median(cell, peer, FIGURE(rate));
        printf(" %9.0f %8.0f .. %7.0f %9.0f %9.0f %7.2f + %6.2f", rate,
               rounds_part(&rounds, cell, peer, FIGURE(rate), 0),
               rounds_part(&rounds, cell, peer, FIGURE(rate), 1),
               median(cell, peer, FIGURE(p50_us)), median(cell, peer, FIGURE(p99_us)),
               median(cell, peer, FIGURE(client_us)), median(cell, peer, FIGURE(server_us)));
        double ratio =
            rounds_ratio(median(cell, rota_of(cell, peers[peer].durability), FIGURE(rate)), rate);
        if (!is_rota(peer) && ratio > 0)
            printf("  rota is %.2fx%s%s", ratio,
                   peers[peer].durability == LATER ? " with fsync" : "",
                   ratio < 1 ? ", loses" : "");
        printf("%s\n", rounds.n_failed[cell][peer] ? "  (a run failed)" : "");
    }
}

static void print_fills(void)
{
    printf("\n%zu jobs that wait\n  %-8s %-17s %12s %14s %18s\n", n_filled, "safe in", "",
           "added per s", "bytes for each", "s to recover");
    for (int peer = 0; peer < N_PEERS; peer++) {
        if (filled[peer].rate == 0)
            continue;
        printf("  %-8s %-17s %12.0f %14.0f", servers_durability_name(peers[peer].durability),
               peers[peer].name, filled[peer].rate, filled[peer].bytes);
        if (filled[peer].recovery > 0)
            printf(" %18.2f\n", filled[peer].recovery);
        else
            printf(" %18s\n", peers[peer].durability == MEMORY ? "-" : "failed");
    }
}

static void print_goal(const char *what, double is, double goal, bool is_least)
{
    if (is > 0)
        printf("  %-64s %8.2f  goal %s %.0f  %s\n", what, is, is_least ? "at least" : "at most ",
               goal, (is_least ? is >= goal : is <= goal) ? "met" : "NOT MET");
}

static void print_goals(void)
{
    int cell = rounds.n_cells - 1;
    static const struct {
        enum servers_durability durability;
        double goal;
    } rates[] = {{FSYNC, 3}, {MEMORY, 2}};
    printf("\ngoals, %u under way\n", windows[cell]);
    for (int i = 0; i < 2; i++) {
        int best = best_peer(cell, rates[i].durability);
        char what[100];
        if (best < 0)
            continue;
        snprintf(what, sizeof what, "%s: jobs/s, to %s",
                 servers_durability_name(rates[i].durability), peers[best].name);
        print_goal(what,
                   rounds_ratio(median(cell, rota_of(cell, rates[i].durability), FIGURE(rate)),
                                median(cell, best, FIGURE(rate))),
                   rates[i].goal, true);
    }
    if (n_filled < 1000000)
        return;
    print_goal("bytes of a job that waits, in memory", filled[filled_of(MEMORY)].bytes, 220, false);
    print_goal("seconds until a million jobs are there again", filled[filled_of(FSYNC)].recovery, 1,
               false);
}

static void print_missing(FILE *to)
{
    for (int system = 0; system < N_SYSTEMS; system++)
        if (!servers_has(system))
            rounds_print_missing(to, servers_program(system), servers_packages(system));
}

static void print_all(double elsewhere)
{
    for (int cell = 0; cell < rounds.n_cells; cell++)
        print_cell(cell);
    print_fills();
    print_goals();
    printf("\nother programs used %.1f cores meanwhile; below some 1.3x a ratio says little\n",
           elsewhere);
    print_missing(stdout);
}

/* --- for programs --- */

static void json_cell(int cell)
{
    printf("\"under_way\":%u", windows[cell]);
}

static void json_row(int cell, int peer)
{
    printf("\"broker\":\"%s\",\"durability\":\"%s\",\"runs\":%d,\"failed\":%d,\"jobs_per_s\":%.0f,"
           "\"lowest\":%.0f,\"highest\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,"
           "\"client_cpu_us\":%.2f,\"server_cpu_us\":%.2f",
           peers[peer].name, servers_durability_name(peers[peer].durability),
           rounds.n_results[cell][peer], rounds.n_failed[cell][peer],
           median(cell, peer, FIGURE(rate)), rounds_part(&rounds, cell, peer, FIGURE(rate), 0),
           rounds_part(&rounds, cell, peer, FIGURE(rate), 1), median(cell, peer, FIGURE(p50_us)),
           median(cell, peer, FIGURE(p99_us)), median(cell, peer, FIGURE(client_us)),
           median(cell, peer, FIGURE(server_us)));
}

static void json_fills(void)
{
    const char *comma = "";
    printf(",\"filled\":{\"jobs\":%zu,\"rows\":[", n_filled);
    for (int peer = 0; peer < N_PEERS; peer++) {
        if (filled[peer].rate == 0)
            continue;
        printf("%s{\"broker\":\"%s\",\"durability\":\"%s\",\"added_per_s\":%.0f,"
               "\"bytes_per_job\":%.1f,\"recovery_s\":",
               comma, peers[peer].name, servers_durability_name(peers[peer].durability),
               filled[peer].rate, filled[peer].bytes);
        if (filled[peer].recovery > 0)
            printf("%.3f}", filled[peer].recovery);
        else
            printf("null}");
        comma = ",";
    }
    printf("]}}\n");
}

int main(int argc, char **argv)
{
    struct rounds_options options = rounds_parse(argc, argv, "bench_work");
    bool quick = options.quick;
    windows = quick ? quick_windows : full_windows;
    rounds.n_cells = quick ? 2 : 3;
    warm_ms = quick ? 300 : 400;
    window_ms = quick ? 700 : 1000;
    n_filled = quick ? 100000 : 1000000;
    struct process_moment since = process_moment();
    print_missing(stderr);
    for (int cell = 0; cell < rounds.n_cells; cell++)
        rounds.n_rounds[cell] = quick ? 1 : 3;
    if (!quick) /* the goals are about the last one */
        rounds.n_rounds[rounds.n_cells - 1] = 9;
    for (int peer = 0; peer < N_PEERS; peer++)
        rounds.is_there[peer] = servers_has(peers[peer].system);
    rounds.run = run_live;
    rounds_run(&rounds);
    run_fills();
    double elsewhere = process_cores_elsewhere(&since);
    if (options.json) {
        rounds_print_json(&rounds, "work", elsewhere, json_cell, json_row);
        json_fills();
    } else {
        print_all(elsewhere);
    }
    rounds_deinit(&rounds);
    return 0;
}
