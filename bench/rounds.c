#include "rounds.h"

#include <rota/experimental/random.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct rounds_options rounds_parse(int argc, char **argv, const char *name)
{
    struct rounds_options options = {0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            options.json = true;
        } else if (strcmp(argv[i], "--quick") == 0) {
            options.quick = true;
        } else {
            fprintf(stderr, "usage: %s [--json] [--quick]\n", name);
            exit(2);
        }
    }
    return options;
}

/* --- running --- */

static char *result_at(const struct rounds *rounds, int cell, int peer, int round)
{
    size_t row = (size_t)(cell * rounds->n_peers + peer);
    return rounds->results + (row * ROUNDS_MAX + (size_t)round) * rounds->result_size;
}

static void run_one(struct rounds *rounds, int cell, int peer)
{
    int *n = &rounds->n_results[cell][peer];
    if (rounds->run(cell, peer, result_at(rounds, cell, peer, *n)))
        ++*n;
    else
        rounds->n_failed[cell][peer]++;
}

static void run_round(struct rounds *rounds, struct rota_random *random, int round)
{
    int order[ROUNDS_CELLS_MAX * ROUNDS_PEERS_MAX], n = 0;
    for (int cell = 0; cell < rounds->n_cells; cell++)
        for (int peer = 0; peer < rounds->n_peers; peer++)
            if (rounds->is_there[peer] && round < rounds->n_rounds[cell])
                order[n++] = cell * rounds->n_peers + peer;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)rota_random_below(random, (uint64_t)i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (int i = 0; i < n; i++) {
        fprintf(stderr, "\rround %d: %d of %d ", round + 1, i + 1, n);
        run_one(rounds, order[i] / rounds->n_peers, order[i] % rounds->n_peers);
    }
}

void rounds_run(struct rounds *rounds)
{
    struct rota_random random;
    rota_random_init(&random, (uint64_t)time(NULL));
    rounds->results =
        calloc((size_t)(rounds->n_cells * rounds->n_peers * ROUNDS_MAX), rounds->result_size);
    if (!rounds->results) {
        fprintf(stderr, "no memory for the results\n");
        exit(1);
    }
    for (int round = 0; round < ROUNDS_MAX; round++)
        run_round(rounds, &random, round);
    fprintf(stderr, "\r%30s\r", "");
}

void rounds_deinit(struct rounds *rounds)
{
    free(rounds->results);
    rounds->results = NULL;
}

/* --- figures --- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double part_of(double *values, int n, double part)
{
    if (n == 0)
        return 0;
    qsort(values, (size_t)n, sizeof *values, compare);
    double at = part * (n - 1);
    int low = (int)at, high = low + (at > low);
    return (values[low] + values[high]) / 2;
}

/* Returns how many there are. */
static int collect(const struct rounds *rounds, int cell, int peer, size_t figure, double *values)
{
    int n = rounds->n_results[cell][peer];
    for (int i = 0; i < n; i++)
        memcpy(&values[i], result_at(rounds, cell, peer, i) + figure, sizeof *values);
    return n;
}

double rounds_part(const struct rounds *rounds, int cell, int peer, size_t figure, double part)
{
    double values[ROUNDS_MAX];
    return part_of(values, collect(rounds, cell, peer, figure, values), part);
}

double rounds_median(const struct rounds *rounds, int cell, int peer, size_t figure)
{
    return rounds_part(rounds, cell, peer, figure, 0.5);
}

double rounds_median_of_all(const struct rounds *rounds, size_t figure)
{
    double values[ROUNDS_CELLS_MAX * ROUNDS_PEERS_MAX * ROUNDS_MAX];
    int n = 0;
    for (int cell = 0; cell < rounds->n_cells; cell++)
        for (int peer = 0; peer < rounds->n_peers; peer++)
            n += collect(rounds, cell, peer, figure, values + n);
    return part_of(values, n, 0.5);
}

double rounds_ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

/* --- output --- */

void rounds_print_json(const struct rounds *rounds, const char *name, double elsewhere,
                       void (*print_cell)(int cell), void (*print_row)(int cell, int peer))
{
    printf("{\"bench\":\"%s\",\"cores_used_elsewhere\":%.2f,\"cells\":[", name, elsewhere);
    for (int cell = 0; cell < rounds->n_cells; cell++) {
        const char *comma = "";
        printf("%s{", cell ? "," : "");
        print_cell(cell);
        printf(",\"rows\":[");
        for (int peer = 0; peer < rounds->n_peers; peer++) {
            if (!rounds->is_there[peer])
                continue;
            printf("%s{", comma);
            print_row(cell, peer);
            printf("}");
            comma = ",";
        }
        printf("]}");
    }
    printf("]");
}

void rounds_print_missing(FILE *to, const char *name, const char *packages)
{
    fprintf(to, "not compared: %s; to have it: apt-get install %s, and build anew\n", name,
            packages);
}
