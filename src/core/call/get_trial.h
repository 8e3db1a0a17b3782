/* get_trial: whether to ask all replicas is worth it.
 *
 * Copies are work for the servers and for the client. They buy time where a replica is
 * quick at one moment and slow at the next; where all are about equally quick, or where
 * they share what is scarce, they buy nothing. No number that a server sends tells the
 * one from the other, so both ways are tried: blocks of Gets that are broadcast take
 * turns with blocks that are not, until it is clear whether a broadcast saves a fifth
 * of the mean time. What is not shown is not so.
 *
 * It is blocks, and not every other Get, because what a broadcast leaves behind
 * delays those that follow, and that is to count against it.
 *
 * After a trial its finding stands for 16 times as many Gets as it took; each time that
 * it found the same again for twice as many, up to 256 times. So a trial that finds
 * nothing costs about one copy for each 30 Gets at first, and 500 later. */
#pragma once

#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROTA_GET_TRIAL_FIRST = 64, /* Gets before the first trial: connections are made */
    ROTA_GET_TRIAL_BLOCK = 32, /* Gets at least */
    ROTA_GET_TRIAL_BLOCK_MAX = 512,
    ROTA_GET_TRIAL_ENOUGH = 64, /* of each kind, before anything is clear */
    ROTA_GET_TRIAL_MANY = 512,  /* of each kind: it won't become clear */
    ROTA_GET_TRIAL_MAX = 16384, /* Gets, if few of them end well */
    ROTA_GET_TRIAL_REST = 16,
    ROTA_GET_TRIAL_REST_MAX = 256,
};

/* What Gets of one kind have taken. */
struct rota_get_trial_kind {
    double sum_us, squares;
    uint32_t n;
};

struct rota_get_trial {
    bool is_worth;   /* what the last trial found */
    bool is_running; /* or the last finding stands */
    bool is_all;     /* the block at hand is broadcast */
    uint32_t n_left; /* Gets of the block, or for which the finding stands */
    uint32_t n_begun;
    uint32_t rest; /* for how many times as many Gets the next finding stands */
    rota_time began_at;
    struct rota_get_trial_kind one, all;
};

/* Copies are worth it until it was tried. */
void rota_get_trial_init(struct rota_get_trial *trial);

/* Whether the next Get is to be broadcast; `in_flight`: tries that are out. */
bool rota_get_trial_choose(struct rota_get_trial *trial, rota_time now, size_t in_flight);

/* A Get that was begun then, broadcast or not, has all its values now. */
void rota_get_trial_ended(struct rota_get_trial *trial, rota_time now, rota_time started_at,
                          bool is_all);

/* There can't be a trial now; the last finding stands until there can. */
void rota_get_trial_abandon(struct rota_get_trial *trial);
