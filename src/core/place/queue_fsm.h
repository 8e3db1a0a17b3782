/* queue_fsm: what is in force for one live queue, and which changes to report.
 *
 * The configuration says what is wanted, rota_counts how much of it is safe for the number of
 * partitions, flips_fsm when the routing of which partition changes. This machine combines the
 * three: only partitions that are read may flip.
 *
 * Invariants: a configuration that is refused has changed nothing. Changes of counts are
 * reported before flips, so that no flip names a partition the receiver does not know. */
#pragma once

#include "core/place/flips_fsm.h"

#include <rota/experimental/counts.h>

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
    ROTA_QUEUE_FLIP,   /* the routing of a partition has changed */
};

struct rota_queue_news {
    enum rota_queue_news_type type;
    int64_t write, read;   /* the counts in force */
    struct rota_flip flip; /* of a flip */
};

/* Begin with what `config` says, which is not reported. The names of `queue` are copied, its id
 * is ignored; a queue that is invalid or not of the normal kind is refused. `now` is the wall
 * clock, here and below. */
enum rota_code rota_queue_fsm_init(struct rota_queue_fsm *fsm, rota_time now,
                                   const struct rota_partition *queue,
                                   const struct rota_queue_config *config,
                                   struct rota_error *error);
void rota_queue_fsm_deinit(struct rota_queue_fsm *fsm);

/* Apply another configuration. */
enum rota_code rota_queue_fsm_want(struct rota_queue_fsm *fsm, rota_time now,
                                   const struct rota_queue_config *config,
                                   struct rota_error *error);

/* See rota_counts_report_empty(). */
void rota_queue_fsm_report_empty(struct rota_queue_fsm *fsm, rota_time now, int64_t partition,
                                 bool is_empty);

/* The next report, or false when there is none. Call it until it returns false. */
bool rota_queue_fsm_step(struct rota_queue_fsm *fsm, rota_time now, struct rota_queue_news *news);

/* When the next step is needed, as in flips_fsm. */
rota_time rota_queue_fsm_deadline(const struct rota_queue_fsm *fsm);

/* What the configuration says, with the counts that are in force. */
struct rota_queue_config rota_queue_fsm_config(const struct rota_queue_fsm *fsm);
