/* spawn: starts the two sides of a call as processes, each on a core of its
 * own, and gathers what they report. */
#pragma once

#include <stdbool.h>

struct spawn_load {
    const char *program; /* beside this one, in call/ */
    bool is_batch;
    unsigned n_calls, n_connections, warm_ms, window_ms;
};

struct spawn_result {
    double rate; /* calls per second */
    double p50_us, p99_us;
    double client_cpu_us, server_cpu_us; /* for one call */
    double client_kb, server_kb;         /* resident at the end */
    double elsewhere;                    /* cores that other programs used meanwhile */
};

/* Was it built? */
bool spawn_has(const char *program);

/* One measurement; false, with a word on stderr, when it failed. */
bool spawn_run(const struct spawn_load *load, struct spawn_result *result);

/* By how much the server's memory grows for one of `n` connections that say
 * hello (HTTP/2's, when `is_http2`) and then nothing; 0 when that failed. */
double spawn_idle_kb(const char *program, bool is_http2, int n);
