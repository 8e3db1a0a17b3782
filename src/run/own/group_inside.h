/* group_inside: what the files of the group's driver share. */
#pragma once

#include "base/metrics.h"
#include "base/vector.h"
#include "core/own/group_fsm.h"
#include "io/log/sync.h"
#include "run/own/driver.h"

enum { ROTA_GROUP_WHYS = ROTA_GROUP_OVERSIZED + 1 }; /* verdicts of bytes that are not a record */

struct rota_group_series {
    struct rota_gauge *running, *epoch, *lag, *watermark;
    struct rota_counter *started, *stopped, *written, *unwritten;
    struct rota_counter *lost[ROTA_GROUP_LOSSES];
    struct rota_counter *skipped[ROTA_GROUP_WHYS];
};

/* A partition that the user was asked to read. */
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
    struct rota_driver driver;

    /* Readers that were started and have not ended: name -> struct rota_group_reader. */
    struct rota_map readers;

    /* Actions still to be carried out, from `n_done` on. A callback may make the machine step
     * again: the resulting actions are appended. */
    ROTA_VECTOR(struct rota_group_action) todo;
    size_t n_done;
    bool is_failed, is_closing, is_ended;

    struct rota_buffer buffer;
    ROTA_VECTOR(struct rota_str) tasks;
    ROTA_VECTOR(struct rota_group_member) members;
    uint64_t incarnation;         /* the last one that joined */
    uint64_t end;                 /* of the log, as far as known */
    uint64_t skipped_next;        /* what was skipped before it was reported */
    uint64_t trimmed;             /* the log was asked to trim below it */
    bool has_watermark, has_mark; /* there is one; one was reported */
    int64_t watermark, told_mark;
    char loss[ROTA_ERROR_TEXT_MAX]; /* the last error of the log or the engine */

    void (*on_fence)(void *data); /* its ownership deadline has changed; or NULL */
    void (*on_closed)(void *data);
    void *closed_data;
    char texts[];
};

/* --- group_driver.c --- */

/* One step of the machine; its actions wait for rota_group_driver_work(), to which the function
 * that is carrying out actions returns. `drive` is both. */
enum rota_code rota_group_driver_try(struct rota_group *group, const struct rota_group_event *event,
                                     struct rota_error *error);
void rota_group_driver_step(struct rota_group *group, const struct rota_group_event *event);
void rota_group_driver_work(struct rota_group *group);
void rota_group_driver_drive(struct rota_group *group, const struct rota_group_event *event);

/* Stop whatever runs, and report it once; the second for lack of memory. */
void rota_group_driver_fail(struct rota_group *group, const struct rota_error *error);
void rota_group_driver_starve(struct rota_group *group);

/* NULL when no reader was started under this token, or it has ended. */
struct rota_group_reader *rota_group_driver_reader_find(const struct rota_group *group,
                                                        struct rota_str partition, uint64_t token);
void rota_group_driver_reader_end(struct rota_group *group, struct rota_group_reader *reader);

/* --- group_hear.c --- */

/* The on_event of the log; `data` is the group. */
void rota_group_hear_event(void *data, const struct rota_sync_event *event);

/* --- group_view.c --- */

/* What the last record has changed. */
void rota_group_view_tell_touched(struct rota_group *group, rota_time at);

/* --- group_news.c --- */

bool rota_group_news_make_series(struct rota_group *group);

/* Report an event: to the log, the metrics and the user. */
void rota_group_news_tell_start(struct rota_group *group, const struct rota_group_action *action);
void rota_group_news_tell_stop(struct rota_group *group, struct rota_str partition, uint64_t token);
void rota_group_news_tell_round(struct rota_group *group);
void rota_group_news_tell_epoch(struct rota_group *group);
void rota_group_news_tell_counted(struct rota_group *group, const struct rota_group_action *action);
void rota_group_news_tell_refused(struct rota_group *group, const struct rota_group_action *action);
void rota_group_news_tell_lost(struct rota_group *group, enum rota_group_loss loss);
void rota_group_news_tell_skipped(struct rota_group *group, uint64_t offset,
                                  enum rota_group_verdict why, const char *reason);
void rota_group_news_tell_ready(struct rota_group *group);
void rota_group_news_tell_unreachable(struct rota_group *group, const struct rota_error *error);
void rota_group_news_tell_failed(struct rota_group *group, const struct rota_error *error);

/* All of the log was read: report the state. */
void rota_group_news_tell_whole(struct rota_group *group);
