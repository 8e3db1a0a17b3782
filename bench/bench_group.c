/* bench_group [--json] [--quick]: from kill -9 of a member of a group until every partition
 * has an owner again, and how many partitions have moved; for Rota's groups on SQLite,
 * PostgreSQL and Kafka, and on the same Kafka for librdkafka's own consumer groups, range
 * (eager) and cooperative-sticky, with the same session. And the bytes that Rota's log
 * takes for a change of state.
 *
 * Each member is a process of its own, on core 0 or 1 in turn. For each round a group is
 * made afresh, all partitions are shared among its members, and one of them, at random, is
 * killed. A figure is the median of its rounds. What the members do is in group/. */
#include "group/engine.h"
#include "process.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS_MAX = 5, CELLS_MAX = 8, MESSAGE_SIZE = 512 };

static const char *const engines[N_ENGINES] = {"sqlite", "postgres", "kafka"};

static const struct cell full_cells[] = {{3, 100},   {10, 100},   {50, 100},
                                         {3, 10000}, {10, 10000}, {50, 10000}};
static const struct cell quick_cells[] = {{3, 100}, {10, 100}};

static const struct cell *cells;
static int n_cells, n_rounds;
static struct result results[CELLS_MAX][N_PEERS][ROUNDS_MAX];
static int n_results[CELLS_MAX][N_PEERS], n_failed[CELLS_MAX][N_PEERS];
static struct bytes bytes;
static char absent[N_ENGINES][MESSAGE_SIZE];

/* --- all engines --- */

static void take_line(enum engine engine, const char *line)
{
    int cell, peer, is_right;
    struct result r;
    if (sscanf(line, "result %d %d %d %lf %lf %lf %lf", &cell, &peer, &is_right, &r.ms, &r.had,
               &r.moved, &r.interrupted) == 7) {
        if (is_right && n_results[cell][peer] < ROUNDS_MAX)
            results[cell][peer][n_results[cell][peer]++] = r;
        else
            n_failed[cell][peer]++;
    } else if (sscanf(line, "1..0 # SKIP %500[^\n]", absent[engine]) != 1) {
        sscanf(line, "bytes %lf %lf %lf %lf %lf", &bytes.changes, &bytes.records, &bytes.bytes,
               &bytes.snapshot_bytes, &bytes.largest);
    }
}

/* The server is started by what starts it for the tests, and runs this program again. */
static void run_with_server(enum engine engine, bool is_quick)
{
    char command[3 * 4096], self[4096], line[1024];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    const char *starter = engine == KAFKA ? "kafka.py" : "databases.py";
    snprintf(command, sizeof command, "exec python3 -B '%s/test/lib/%s' %s%s '%s' --engine %d%s",
             BENCH_SOURCE, starter, engine == KAFKA ? "--large '" BENCH_KAFKA "' 1" : "",
             engine == KAFKA ? "" : engines[engine], self, engine, is_quick ? " --quick" : "");
    FILE *out = popen(command, "re");
    while (out && fgets(line, sizeof line, out))
        take_line(engine, line);
    if (!out || pclose(out) != 0)
        snprintf(absent[engine], MESSAGE_SIZE, "its run did not end well");
}

/* --- figures --- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#define FIGURE(name) offsetof(struct result, name)

/* Of the rounds, which part from 0 to 1: 0.5 is the median. */
static double of_rounds(int cell, int peer, size_t figure, double part)
{
    double values[ROUNDS_MAX];
    int n = n_results[cell][peer];
    if (n == 0)
        return 0;
    for (int i = 0; i < n; i++)
        memcpy(&values[i], (const char *)&results[cell][peer][i] + figure, sizeof *values);
    qsort(values, (size_t)n, sizeof *values, compare);
    double at = part * (n - 1);
    int low = (int)at, high = low + (at > low);
    return (values[low] + values[high]) / 2;
}

static double median(int cell, int peer, size_t figure)
{
    return of_rounds(cell, peer, figure, 0.5);
}

static double divide(double a, double b)
{
    return b > 0 ? a / b : 0;
}

/* --- for people --- */

static void print_cell(int cell)
{
    printf("\n%d members, %d partitions\n", cells[cell].n_members, cells[cell].n_partitions);
    printf("  %-24s %10s %19s %10s %8s %12s\n", "", "ms", "lowest .. highest", "it had", "moved",
           "interrupted");
    for (int peer = 0; peer < N_PEERS; peer++) {
        if (n_results[cell][peer] + n_failed[cell][peer] == 0)
            continue;
        printf("  %-24s %10.0f %8.0f .. %7.0f %10.0f %8.0f %12.0f", peers[peer].name,
               median(cell, peer, FIGURE(ms)), of_rounds(cell, peer, FIGURE(ms), 0),
               of_rounds(cell, peer, FIGURE(ms), 1), median(cell, peer, FIGURE(had)),
               median(cell, peer, FIGURE(moved)), median(cell, peer, FIGURE(interrupted)));
        double ratio = divide(median(cell, peer, FIGURE(ms)), median(cell, ROTA_KAFKA, FIGURE(ms)));
        if (peers[peer].assignor && ratio > 0)
            printf("  rota on Kafka is %.2fx as fast%s", ratio, ratio < 1 ? ", loses" : "");
        if (n_failed[cell][peer])
            printf("  (%d failed)", n_failed[cell][peer]);
        printf("\n");
    }
}

static void print_goal(const char *what, double is, const char *unit, double goal, bool is_met)
{
    printf("  %-62s %9.2f%s  goal at most %.1f%s  %s\n", what, is, unit, goal, unit,
           is_met ? "met" : "NOT MET");
}

static void print_goals(void)
{
    double slowest[N_PEERS] = {0}, needless = 0;
    for (int cell = 0; cell < n_cells; cell++) {
        for (int peer = RANGE; peer < N_PEERS; peer++) {
            double ratio =
                divide(median(cell, ROTA_KAFKA, FIGURE(ms)), median(cell, peer, FIGURE(ms)));
            slowest[peer] = ratio > slowest[peer] ? ratio : slowest[peer];
        }
        for (int peer = 0; peer < RANGE; peer++)
            for (int i = 0; i < n_results[cell][peer]; i++)
                needless += results[cell][peer][i].moved - results[cell][peer][i].had +
                            results[cell][peer][i].interrupted;
    }
    printf("\ngoals\n");
    for (int peer = RANGE; peer < N_PEERS; peer++) {
        char what[80];
        snprintf(what, sizeof what, "time on Kafka, to that of %s, in the worst cell",
                 peers[peer].name);
        if (slowest[peer] > 0)
            print_goal(what, slowest[peer], "x", 1, slowest[peer] <= 1);
    }
    print_goal("moved or interrupted beyond what the dead member had", needless, "", 0,
               needless == 0);
    if (bytes.changes > 0)
        print_goal("bytes of the log for a change of state, 10,000 partitions",
                   bytes.bytes / bytes.changes, "", 1024, bytes.bytes / bytes.changes <= 1024);
}

static void print_bytes(void)
{
    if (bytes.changes == 0)
        return;
    printf("\n3 members, 10,000 partitions, splits one after the other: %.0f changes in %.0f "
           "records\n  %.0f bytes per change, %.0f per record, the largest %.0f; snapshots "
           "meanwhile %.0f bytes\n",
           bytes.changes, bytes.records, bytes.bytes / bytes.changes,
           divide(bytes.bytes, bytes.records), bytes.largest, bytes.snapshot_bytes);
}

static void print_missing(FILE *to)
{
    for (int engine = 0; engine < N_ENGINES; engine++)
        if (absent[engine][0])
            fprintf(to, "not measured: %s: %s\n", engines[engine], absent[engine]);
}

/* --- for programs --- */

static void print_json(double elsewhere)
{
    printf("{\"bench\":\"group\",\"session_ms\":%d,\"cores_used_elsewhere\":%.2f,\"cells\":[",
           GROUP_SESSION_MS, elsewhere);
    for (int cell = 0; cell < n_cells; cell++) {
        const char *comma = "";
        printf("%s{\"members\":%d,\"partitions\":%d,\"rows\":[", cell ? "," : "",
               cells[cell].n_members, cells[cell].n_partitions);
        for (int peer = 0; peer < N_PEERS; peer++) {
            if (n_results[cell][peer] + n_failed[cell][peer] == 0)
                continue;
            printf("%s{\"group\":\"%s\",\"runs\":%d,\"failed\":%d,\"ms\":%.1f,\"lowest_ms\":%.1f,"
                   "\"highest_ms\":%.1f,\"had\":%.1f,\"moved\":%.1f,\"interrupted\":%.1f}",
                   comma, peers[peer].name, n_results[cell][peer], n_failed[cell][peer],
                   median(cell, peer, FIGURE(ms)), of_rounds(cell, peer, FIGURE(ms), 0),
                   of_rounds(cell, peer, FIGURE(ms), 1), median(cell, peer, FIGURE(had)),
                   median(cell, peer, FIGURE(moved)), median(cell, peer, FIGURE(interrupted)));
            comma = ",";
        }
        printf("]}");
    }
    printf("],\"log\":{\"partitions\":10000,\"changes\":%.0f,\"records\":%.0f,"
           "\"bytes_per_change\":%.1f,\"largest_record\":%.0f,\"snapshot_bytes\":%.0f},"
           "\"not_measured\":[",
           bytes.changes, bytes.records, divide(bytes.bytes, bytes.changes), bytes.largest,
           bytes.snapshot_bytes);
    for (int engine = 0, n = 0; engine < N_ENGINES; engine++)
        if (absent[engine][0])
            printf("%s\"%s\"", n++ ? "," : "", engines[engine]);
    printf("]}\n");
}

int main(int argc, char **argv)
{
    bool json = false, quick = false;
    int engine = -1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--quick") == 0)
            quick = true;
        else if (strcmp(argv[i], "--engine") == 0 && i + 1 < argc)
            engine = atoi(argv[++i]);
        else {
            fprintf(stderr, "usage: bench_group [--json] [--quick]\n");
            return 2;
        }
    }
    cells = quick ? quick_cells : full_cells;
    n_cells = (int)(quick ? sizeof quick_cells : sizeof full_cells) / (int)sizeof *cells;
    n_rounds = quick ? 1 : 3;
    if (engine >= 0)
        return engine_run(engine, getenv("ROTA_TEST_URL"), cells, n_cells, n_rounds);
    struct process_moment since = process_moment();
    for (int i = 0; i < N_ENGINES; i++)
        run_with_server(i, quick);
    double elsewhere = process_cores_elsewhere(&since);
    fprintf(stderr, "\r%70s\r", "");
    print_missing(stderr);
    if (json) {
        print_json(elsewhere);
        return 0;
    }
    for (int cell = 0; cell < n_cells; cell++)
        print_cell(cell);
    print_bytes();
    print_goals();
    printf("\nother programs used %.1f cores meanwhile\n", elsewhere);
    print_missing(stdout);
    return 0;
}
