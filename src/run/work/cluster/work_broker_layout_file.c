/* The driver of layout_file.h. A new file is compared with the layouts of all queues that have jobs
 * or settings here, a slice of them in each turn, and changes those that differ; only then does it
 * decide about the others, which have nothing to move. Every node does this: with the same file the
 * first one changes a layout, and the others find it changed. A layout that arrives later, from a
 * node that still has another file, is left alone: two nodes with different files do not overwrite
 * each other's layouts forever. */
#include "run/work/cluster/work_broker_layout_file.h"
#include "run/work/broker/work_broker_inside.h"
#include "run/work/cluster/work_broker_layout.h"
#include "run/work/cluster/work_broker_settings.h"
#include "run/work/store/work_broker_store.h"

#include <rota/experimental/config_watch.h>
#include <rota/experimental/store_ask.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLICE = 256,                 /* queues in a turn */
    CHANGES_MAX = 64,            /* of layouts, at a time */
    ORIGIN_SIZE = PATH_MAX + 16, /* of "FILE:LINE" */
};

#define RETRY (5 * ROTA_SEC) /* of changes for which the store was not there */

static const char SUBSCRIPTION[] = "queues";

struct rota_broker_layout_file {
    struct rota_work_broker *broker;
    struct rota_config_watch *watch;
    struct rota_config *next;                /* is compared with the queues; NULL: that is done */
    char after[ROTA_JOB_QUEUE_NAME_MAX + 1]; /* the last queue that was compared */
    size_t n_changing;                       /* layouts */
    bool has_failed;                         /* one of them could not be changed */
    rota_time retry_at;                      /* 0: not waited for */
    char partitions_from[ORIGIN_SIZE], spread_from[ORIGIN_SIZE];
};

static void log_failure(const struct rota_work_broker *broker, struct rota_str queue,
                        const struct rota_error *error)
{
    rota_log(broker->options.log, rota_work_broker_now().wall, ROTA_LOG_WARN,
             "queue settings not applied", ROTA_LOG_FACT("queue", queue),
             ROTA_LOG_FACT("file", broker->options.settings_file),
             ROTA_LOG_FACT("error", error->text));
}

/* The layout that the queue has when the new file is in force and nothing is done. */
static struct rota_work_layout foresee(const struct rota_work_broker *broker, struct rota_str queue,
                                       const struct rota_layout_file *says)
{
    const struct rota_work_layout usual =
        rota_work_broker_cluster_default(rota_work_broker_cluster_n_partitions(broker->cluster));
    struct rota_work_layout set;
    rota_time at;
    bool is_set =
        rota_broker_layout(broker->core, queue, &set, &at) && !rota_layout_is_equal(&set, &usual);
    return is_set ? set : rota_layout_file_usual(says, &usual);
}

static enum rota_code make_filed(struct rota_work_broker *broker, struct rota_str queue,
                                 struct rota_setting_change *change, struct rota_error *error)
{
    const struct rota_broker_layout_file *file = broker->layout_file;
    const struct rota_work_layout layout = rota_work_broker_layout_of(broker, queue);
    if (!file || !file->next)
        return rota_error_set(error, ROTA_ERR_STALE, "the file is in force already");
    const struct rota_layout_file says = rota_layout_file_of(file->next, queue);
    const struct rota_work_layout otherwise = foresee(broker, queue, &says);
    enum rota_code code = rota_layout_file_want(&says, &layout, rota_work_broker_now().wall,
                                                &change->edit.layout, error);
    if (!code && rota_layout_is_equal(&change->edit.layout, &otherwise))
        code = rota_error_set(error, ROTA_ERR_STALE, "the layout is as the file says");
    return code;
}

static void on_filed(struct rota_work_broker *broker, void *data, struct rota_str queue,
                     const struct rota_setting_change *change, uint64_t number,
                     const struct rota_error *error)
{
    struct rota_broker_layout_file *file = data;
    (void)change;
    (void)number;
    file->n_changing--;
    file->has_failed = file->has_failed || error->code == ROTA_ERR_UNAVAILABLE;
    if (error->code && error->code != ROTA_ERR_STALE)
        log_failure(broker, queue, error);
}

static void compare_queue(struct rota_broker_layout_file *file, struct rota_str queue)
{
    struct rota_work_broker *broker = file->broker;
    struct rota_setting_change change = {
        .edit.type = ROTA_SETTING_LAYOUT, .make = make_filed, .on_changed = on_filed, .data = file};
    struct rota_error error;
    char author[ROTA_STORE_NAME_MAX + 1];
    enum rota_code code = make_filed(broker, queue, &change, &error);
    if (code && code != ROTA_ERR_STALE)
        log_failure(broker, queue, &error);
    if (code)
        return;
    snprintf(author, sizeof author, "file %.200s", broker->options.settings_file);
    file->n_changing++;
    rota_work_broker_rows_change(broker, queue, &change, author);
}

/* Layouts that other nodes or the store know come before the file. */
static bool is_ready(const struct rota_work_broker *broker)
{
    return rota_work_broker_store_gate_is_loaded(broker) &&
           rota_work_broker_settings_are_told(broker->settings) &&
           rota_work_broker_rows_have_begun(broker->rows);
}

static void begin_comparison(struct rota_broker_layout_file *file)
{
    file->after[0] = '\0';
    file->has_failed = false;
    file->retry_at = 0;
}

/* All queues are compared, and what is to be changed is changed. */
static void finish_comparison(struct rota_broker_layout_file *file, rota_time now)
{
    if (file->has_failed) {
        begin_comparison(file);
        file->retry_at = rota_time_add(now, RETRY);
        return;
    }
    rota_work_broker_cluster_set_config(file->broker->cluster, file->next);
    file->next = NULL;
    rota_work_broker_cluster_laid_out(file->broker->cluster);
}

void rota_work_broker_layout_file_turn(struct rota_broker_layout_file *file,
                                       struct rota_work_now now)
{
    struct rota_queue_view view;
    if (!file || !file->next || now.boot < file->retry_at)
        return;
    file->retry_at = 0;
    if (!is_ready(file->broker))
        return;
    for (size_t i = 0; i < SLICE; i++) {
        struct rota_str after = rota_str(file->after);
        if (file->n_changing >= CHANGES_MAX)
            return; /* a turn follows the end of each */
        if (!rota_broker_next_queue(file->broker->core, &after, &view)) {
            if (file->n_changing == 0)
                finish_comparison(file, now.boot);
            return;
        }
        snprintf(file->after, sizeof file->after, "%.*s", ROTA_STR_ARGS(after));
        compare_queue(file, rota_str(file->after));
    }
    rota_work_broker_touch(file->broker);
}

rota_time rota_work_broker_layout_file_deadline(const struct rota_broker_layout_file *file)
{
    return file && file->next && file->retry_at ? file->retry_at : ROTA_TIME_NEVER;
}

static void take_config(struct rota_broker_layout_file *file, struct rota_config *config)
{
    rota_config_unref(file->next);
    file->next = config;
    begin_comparison(file);
    rota_work_broker_touch(file->broker);
}

static void on_config(void *data, const struct rota_config *config)
{
    struct rota_broker_layout_file *file = data;
    (void)config;
    take_config(file, rota_config_watch_get(file->watch));
}

/* --- who decides --- */

enum rota_code rota_work_broker_layout_file_permit(const struct rota_broker_layout_file *file,
                                                   struct rota_str queue,
                                                   const struct rota_layout_wish *wish,
                                                   struct rota_error *error)
{
    uint32_t line;
    if (!file)
        return ROTA_OK;
    const struct rota_layout_file says =
        rota_layout_file_of(rota_work_broker_cluster_config(file->broker->cluster), queue);
    if (!rota_layout_file_decides(&says, wish, &line))
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "%s:%u sets this for queue \"%.*s\"; change it there",
                          file->broker->options.settings_file, line, ROTA_STR_ARGS(queue));
}

static struct rota_str name_origin(const struct rota_broker_layout_file *file, uint32_t line,
                                   bool is_set, char text[ORIGIN_SIZE])
{
    if (!file || line == 0)
        return rota_str(is_set ? "set" : "default");
    snprintf(text, ORIGIN_SIZE, "%s:%u", file->broker->options.settings_file, line);
    return rota_str(text);
}

void rota_work_broker_layout_file_info(const struct rota_work_broker *broker,
                                       struct rota_queue_info *info)
{
    const struct rota_work_layout usual =
        rota_work_broker_cluster_default(rota_work_broker_cluster_n_partitions(broker->cluster));
    const struct rota_work_layout layout =
        rota_work_broker_cluster_layout(broker->cluster, info->name);
    const struct rota_layout_file says =
        rota_layout_file_of(rota_work_broker_cluster_config(broker->cluster), info->name);
    struct rota_broker_layout_file *file = broker->layout_file;
    bool is_spread =
        layout.spread.batch != usual.spread.batch || layout.spread.mode != usual.spread.mode;
    info->partitions_from = name_origin(file, says.partitions_line, layout.wanted != usual.wanted,
                                        file ? file->partitions_from : NULL);
    info->spread_from = name_origin(file, says.batch_line ? says.batch_line : says.mode_line,
                                    is_spread, file ? file->spread_from : NULL);
}

/* --- life --- */

enum rota_code rota_work_broker_layout_file_open(struct rota_work_broker *broker,
                                                 struct rota_error *error)
{
    const struct rota_config_watch_options options = {.path = broker->options.settings_file,
                                                      .log = broker->options.log};
    if (!options.path)
        return ROTA_OK;
    struct rota_broker_layout_file *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for the settings of queues");
    made->broker = broker;
    broker->layout_file = made;
    enum rota_code code = rota_config_watch_open(broker->timer.loop, &options, &made->watch, error);
    if (!code)
        code = rota_config_watch_subscribe(made->watch, SUBSCRIPTION, on_config, made, error);
    if (code)
        return code;
    rota_work_broker_cluster_set_config(broker->cluster, rota_config_watch_get(made->watch));
    take_config(made, rota_config_watch_get(made->watch));
    return ROTA_OK;
}

void rota_work_broker_layout_file_close(struct rota_broker_layout_file *file)
{
    if (!file)
        return;
    rota_config_watch_close(file->watch);
    rota_config_unref(file->next);
    free(file);
}
