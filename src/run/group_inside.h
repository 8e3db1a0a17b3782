/* What the files of the group's driver share. */
#pragma once

#include "base/metrics.h"
#include "base/vector.h"
#include "core/own/group_fsm.h"
#include "io/sync.h"

#include <uv.h>

enum { ROTA_GROUP_WHYS = ROTA_GROUP_OVERSIZED + 1 }; /* verdicts of what is no record */

struct rota_group_series {
    struct rota_gauge *running, *epoch, *lag, *watermark;
    struct rota_counter *started, *stopped, *written, *unwritten;
    struct rota_counter *lost[ROTA_GROUP_LOSSES];
    struct rota_counter *skipped[ROTA_GROUP_WHYS];
};

/* A partition that the user was told to read. */
struct rota_group_reader {
    struct rota_group_def *def;
    uint64_t token;
    bool is_stopping;
};

struct rota_group {
    struct rota_group_options options; /* its texts are in `texts` */
    struct rota_metrics *metrics;      /* our own, when none was given */
    struct rota_group_series series;
    struct rota_sync *sync;
    struct rota_group_fsm fsm;
    uv_timer_t timer;

    /* Who was told to start and has not ended: name -> struct rota_group_reader. */
    struct rota_map readers;

    /* Actions that are still to be carried out, from `n_done` on. A callback may make
     * the machine step again: what follows from it goes behind the rest. */
    ROTA_VECTOR(struct rota_group_action) todo;
    size_t n_done;
    bool is_driving, is_failed, is_closing, is_ended;

    struct rota_buffer buffer;
    ROTA_VECTOR(struct rota_str) tasks;
    ROTA_VECTOR(struct rota_group_member) members;
    uint64_t incarnation;         /* the last one that joined */
    uint64_t end;                 /* of the log, as far as known */
    uint64_t skipped_next;        /* what was skipped before it was told */
    uint64_t trimmed;             /* below it the log was told to go */
    bool has_watermark, has_mark; /* there is one; one was told */
    int64_t watermark, told_mark;
    char loss[ROTA_ERROR_TEXT_MAX]; /* what the log or the engine said last */

    void (*on_closed)(void *data);
    void *closed_data;
    char texts[];
};

/* --- group.c --- */

/* One step of the machine; what it wants done waits for rota_group_driver_work(), which
 * whoever carries something out just now will come back to. `drive` is both. */
enum rota_code rota_group_driver_try(struct rota_group *group, const struct rota_group_event *event,
                                     struct rota_error *error);
void rota_group_driver_step(struct rota_group *group, const struct rota_group_event *event);
void rota_group_driver_work(struct rota_group *group);
void rota_group_driver_drive(struct rota_group *group, const struct rota_group_event *event);

/* Stop whatever runs, and say so once; the second for want of memory. */
void rota_group_driver_fail(struct rota_group *group, const struct rota_error *error);
void rota_group_driver_starve(struct rota_group *group);

/* NULL when no reader was told to start under this token, or it has ended. */
struct rota_group_reader *rota_group_reader_find(const struct rota_group *group,
                                                 struct rota_str partition, uint64_t token);
void rota_group_reader_end(struct rota_group *group, struct rota_group_reader *reader);

/* --- group_hear.c --- */

/* The on_event of the log; `data` is the group. */
void rota_group_driver_hear(void *data, const struct rota_sync_event *event);

/* --- group_view.c --- */

/* What the last record has changed. */
void rota_group_tell_touched(struct rota_group *group, rota_time at);

/* --- group_news.c --- */

bool rota_group_make_series(struct rota_group *group);

/* What happened: to the log, the metrics and the user. */
void rota_group_tell_start(struct rota_group *group, const struct rota_group_action *action);
void rota_group_tell_stop(struct rota_group *group, struct rota_str partition, uint64_t token);
void rota_group_tell_round(struct rota_group *group);
void rota_group_tell_epoch(struct rota_group *group);
void rota_group_tell_counted(struct rota_group *group, const struct rota_group_action *action);
void rota_group_tell_refused(struct rota_group *group, const struct rota_group_action *action);
void rota_group_tell_lost(struct rota_group *group, enum rota_group_loss loss);
void rota_group_tell_skipped(struct rota_group *group, uint64_t offset, enum rota_group_verdict why,
                             const char *reason);
void rota_group_tell_ready(struct rota_group *group);
void rota_group_tell_unreachable(struct rota_group *group, const struct rota_error *error);
void rota_group_tell_failed(struct rota_group *group, const struct rota_error *error);

/* All of the log was read: how do things stand? */
void rota_group_tell_whole(struct rota_group *group);
