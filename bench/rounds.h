/* rounds: the frame of a benchmark that sets several programs beside each other.
 *
 * There are *cells*, which are what is measured, and *peers*, which are measured. A
 * round goes through all of both in a new random order, so that what else the machine
 * does meets all alike; a figure is the median of its rounds. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { ROUNDS_MAX = 9, ROUNDS_CELLS_MAX = 16, ROUNDS_PEERS_MAX = 13 };

struct rounds_options {
    bool json, quick;
};

struct rounds {
    int n_cells, n_peers;
    int n_rounds[ROUNDS_CELLS_MAX];
    bool is_there[ROUNDS_PEERS_MAX]; /* or it can't be compared */

    /* One measurement; false when it failed. Results are structs of doubles. */
    bool (*run)(int cell, int peer, void *result);
    size_t result_size;

    /* Made by rounds_run(). */
    char *results;
    int n_results[ROUNDS_CELLS_MAX][ROUNDS_PEERS_MAX];
    int n_failed[ROUNDS_CELLS_MAX][ROUNDS_PEERS_MAX];
};

/* [--json] [--quick]; anything else ends the program. */
struct rounds_options rounds_parse(int argc, char **argv, const char *name);

/* All rounds; says on stderr how far it is. */
void rounds_run(struct rounds *rounds);
void rounds_deinit(struct rounds *rounds);

/* --- figures, each by its place in the result; 0 when there is none --- */

/* Of the rounds, which part from 0 to 1: 0.5 is the median. */
double rounds_part(const struct rounds *rounds, int cell, int peer, size_t figure, double part);
double rounds_median(const struct rounds *rounds, int cell, int peer, size_t figure);

/* Over all cells and peers. */
double rounds_median_of_all(const struct rounds *rounds, size_t figure);

/* 0 when it can't be known. */
double rounds_ratio(double a, double b);

/* --- output --- */

/* An object without its end: "bench", "cores_used_elsewhere" and "cells", each with what
 * `print_cell` says of it and with "rows", one for each peer that is there. */
void rounds_print_json(const struct rounds *rounds, const char *name, double elsewhere,
                       void (*print_cell)(int cell), void (*print_row)(int cell, int peer));

/* Say how a peer that is not there can be had. */
void rounds_print_missing(FILE *to, const char *name, const char *packages);
