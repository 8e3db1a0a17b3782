/* queue_fsm: what is in force for one live queue, and what is to be told of it.
 *
 * The configuration says what is wanted, rota_counts how much of it is safe for
 * the number of partitions, flips_fsm when which partition is routed otherwise.
 * This machine puts the three together: the partitions that may flip are those
 * that are read.
 *
 * Invariants: a configuration that is refused has changed nothing. News of
 * counts come before flips, so that nobody hears of a partition he does not
 * know. */
#pragma once

#include "core/place/flips_fsm.h"

#include <rota/counts.h>

struct rota_queue_fsm {
    struct rota_partition queue;
    char *names; /* what the queue's strings point into */
    struct rota_queue_config config;
    struct rota_counts counts;
    int64_t told_write, told_read;
    struct rota_flips_fsm flips;
};

enum rota_queue_news_type {
    ROTA_QUEUE_COUNTS, /* other counts are in force */
    ROTA_QUEUE_FLIP,   /* a partition is routed otherwise */
};

struct rota_queue_news {
    enum rota_queue_news_type type;
    int64_t write, read;   /* the counts in force */
    struct rota_flip flip; /* of a flip */
};

/* Begin with what `config` says in force, of which no news tell. The names of
 * `queue` are copied, its id is ignored; one that is invalid or not of the
 * normal kind is refused. `now` is the wall clock, here and below. */
enum rota_code rota_queue_fsm_init(struct rota_queue_fsm *fsm, rota_time now,
                                   const struct rota_partition *queue,
                                   const struct rota_queue_config *config,
                                   struct rota_error *error);
void rota_queue_fsm_deinit(struct rota_queue_fsm *fsm);

/* Want what another configuration says. */
enum rota_code rota_queue_fsm_want(struct rota_queue_fsm *fsm, rota_time now,
                                   const struct rota_queue_config *config,
                                   struct rota_error *error);

/* See rota_counts_report_empty(). */
void rota_queue_fsm_report_empty(struct rota_queue_fsm *fsm, rota_time now, int64_t partition,
                                 bool is_empty);

/* The next piece of news, or false when there is none: to be called until it
 * returns false. */
bool rota_queue_fsm_step(struct rota_queue_fsm *fsm, rota_time now, struct rota_queue_news *news);

/* When the next step is needed, as in flips_fsm. */
rota_time rota_queue_fsm_deadline(const struct rota_queue_fsm *fsm);

/* What the configuration says, with the counts that are in force. */
struct rota_queue_config rota_queue_fsm_config(const struct rota_queue_fsm *fsm);
