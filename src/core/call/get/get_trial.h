/* get_trial: whether asking all replicas is worth it.
 *
 * Copies cost the servers and the client work. They save time where the latency of a replica
 * varies; where all are about equally fast, or share a bottleneck, they save nothing. No number
 * that a server sends distinguishes the two, so both ways are tried: blocks of Gets that are
 * broadcast alternate with blocks that are not, until it is clear whether a broadcast saves a fifth
 * of the mean time. Without evidence it does not.
 *
 * Blocks, and not every other Get, because the leftovers of a broadcast delay the Gets after it,
 * and that has to count against it.
 *
 * The result of a trial holds for 16 times as many Gets as the trial took; each time the same
 * result is found again, for twice as many, up to 256 times. So a trial that finds nothing costs
 * about one copy for each 30 Gets at first, and 500 later. */
#pragma once

#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROTA_GET_TRIAL_FIRST = 64, /* Gets before the first trial: connections are being made */
    ROTA_GET_TRIAL_BLOCK = 32, /* Gets, minimum */
    ROTA_GET_TRIAL_BLOCK_MAX = 512,
    ROTA_GET_TRIAL_ENOUGH = 64, /* of each kind, before a result can be clear */
    ROTA_GET_TRIAL_MANY = 512,  /* of each kind: the result won't become clear */
    ROTA_GET_TRIAL_MAX = 16384, /* Gets, if few of them succeed */
    ROTA_GET_TRIAL_REST = 16,
    ROTA_GET_TRIAL_REST_MAX = 256,
};

/* The time that Gets of one kind have taken. */
struct rota_get_trial_kind {
    double sum_us, squares;
    uint32_t n;
};

struct rota_get_trial {
    bool is_worth;   /* the result of the last trial */
    bool is_running; /* false: the last result holds */
    bool is_all;     /* the current block is broadcast */
    uint32_t n_left; /* Gets left in the block, or for which the result holds */
    uint32_t n_begun;
    uint32_t rest; /* for how many times as many Gets the next result holds */
    rota_time began_at;
    struct rota_get_trial_kind one, all;
};

/* Copies count as worth it until the first trial. */
void rota_get_trial_init(struct rota_get_trial *trial);

/* Whether to broadcast the next Get; `in_flight`: tries in flight. */
bool rota_get_trial_choose(struct rota_get_trial *trial, rota_time now, size_t in_flight);

/* A Get that began then, broadcast or not, has all its values now. */
void rota_get_trial_ended(struct rota_get_trial *trial, rota_time now, rota_time started_at,
                          bool is_all);

/* A trial is not possible now; the last result holds until it is. */
void rota_get_trial_abandon(struct rota_get_trial *trial);
