#include <rota/experimental/queue_watch.h>

#include "core/place/queue_fsm.h"
#include "io/clock.h"
#include "run/place/wall_wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

struct rota_queue_watch {
    struct rota_queue_watch_options options;
    struct rota_config_watch *config;
    struct rota_queue_fsm fsm;
    uv_timer_t timer;
    char name[48]; /* as a subscriber of `config` */
    bool is_telling, is_closed;
};

/* --- telling --- */

static void tell_counts(const struct rota_queue_watch *watch, int64_t write, int64_t read)
{
    rota_log(watch->options.log, rota_clock_wall(), ROTA_LOG_INFO, "queue counts changed",
             ROTA_LOG_FACT("namespace", watch->fsm.queue.namespace_id),
             ROTA_LOG_FACT("queue", watch->fsm.queue.queue),
             ROTA_LOG_FACT("type", rota_task_type_name(watch->fsm.queue.type)),
             ROTA_LOG_FACT("write", write), ROTA_LOG_FACT("read", read),
             ROTA_LOG_FACT("waits_for", rota_counts_waits_for(&watch->fsm.counts)));
    if (watch->options.on_counts)
        watch->options.on_counts(watch->options.data, write, read);
}

static void tell_flip(const struct rota_queue_watch *watch, const struct rota_flip *flip)
{
    rota_log(watch->options.log, rota_clock_wall(), ROTA_LOG_DEBUG, "partition changed",
             ROTA_LOG_FACT("namespace", watch->fsm.queue.namespace_id),
             ROTA_LOG_FACT("queue", watch->fsm.queue.queue),
             ROTA_LOG_FACT("type", rota_task_type_name(watch->fsm.queue.type)),
             ROTA_LOG_FACT("partition", flip->partition),
             ROTA_LOG_FACT("batch", flip->new_spread.batch),
             ROTA_LOG_FACT("mode", rota_spread_mode_name(flip->new_spread.mode)));
    if (watch->options.on_flip)
        watch->options.on_flip(watch->options.data, flip->partition, flip->old_spread,
                               flip->new_spread);
}

static void on_timer(uv_timer_t *timer);

static void set_timer(struct rota_queue_watch *watch)
{
    rota_time deadline = rota_queue_fsm_deadline(&watch->fsm);
    if (deadline == ROTA_TIME_NEVER)
        uv_timer_stop(&watch->timer);
    else
        uv_timer_start(&watch->timer, on_timer, rota_wall_wait_ms(rota_clock_wall(), deadline), 0);
}

/* Report all changes. A callback may cause more, which the same loop reports, or close us, which
 * frees nothing before the loop continues. */
static void drive(struct rota_queue_watch *watch)
{
    struct rota_queue_news news;
    if (watch->is_telling)
        return;
    watch->is_telling = true;
    while (!watch->is_closed && rota_queue_fsm_step(&watch->fsm, rota_clock_wall(), &news)) {
        switch (news.type) {
        case ROTA_QUEUE_COUNTS:
            tell_counts(watch, news.write, news.read);
            break;
        case ROTA_QUEUE_FLIP:
            tell_flip(watch, &news.flip);
            break;
        }
    }
    watch->is_telling = false;
    if (!watch->is_closed)
        set_timer(watch);
}

static void on_timer(uv_timer_t *timer)
{
    drive(timer->data);
}

/* --- following the configuration --- */

static struct rota_queue_config watched_queue(const struct rota_config *config,
                                              const struct rota_queue_watch_options *options)
{
    return rota_config_queue(config, options->namespace_id, options->queue, options->type);
}

static void on_config(void *data, const struct rota_config *config)
{
    struct rota_queue_watch *watch = data;
    struct rota_queue_config next = watched_queue(config, &watch->options);
    struct rota_error error;

    if (rota_queue_fsm_want(&watch->fsm, rota_clock_wall(), &next, &error)) {
        rota_log(watch->options.log, rota_clock_wall(), ROTA_LOG_WARN, "queue not updated",
                 ROTA_LOG_FACT("namespace", watch->fsm.queue.namespace_id),
                 ROTA_LOG_FACT("queue", watch->fsm.queue.queue),
                 ROTA_LOG_FACT("error", error.text));
        if (watch->options.on_error)
            watch->options.on_error(watch->options.data, &error);
        return;
    }
    drive(watch);
}

/* --- life --- */

static void on_timer_closed(uv_handle_t *handle)
{
    struct rota_queue_watch *watch = handle->data;
    rota_queue_fsm_deinit(&watch->fsm);
    free(watch);
}

/* Start the machine with the current configuration. */
static enum rota_code start_fsm(struct rota_queue_watch *watch, struct rota_error *error)
{
    struct rota_queue_watch_options *options = &watch->options;
    struct rota_partition queue = {
        .namespace_id = options->namespace_id, .queue = options->queue, .type = options->type};
    struct rota_config *config = rota_config_watch_get(watch->config);
    struct rota_queue_config now = watched_queue(config, options);
    rota_config_unref(config);

    enum rota_code code = rota_queue_fsm_init(&watch->fsm, rota_clock_wall(), &queue, &now, error);
    if (code)
        return code;
    options->namespace_id = watch->fsm.queue.namespace_id;
    options->queue = watch->fsm.queue.queue;
    snprintf(watch->name, sizeof watch->name, "queue watch %p", (void *)watch);
    code = rota_config_watch_subscribe(watch->config, watch->name, on_config, watch, error);
    if (code)
        rota_queue_fsm_deinit(&watch->fsm);
    return code;
}

enum rota_code rota_queue_watch_open(struct uv_loop_s *loop, struct rota_config_watch *config,
                                     const struct rota_queue_watch_options *options,
                                     struct rota_queue_watch **watch, struct rota_error *error)
{
    struct rota_queue_watch *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "to watch a queue");
    made->options = *options;
    made->config = config;
    enum rota_code code = start_fsm(made, error);
    if (code) {
        free(made);
        return code;
    }
    uv_timer_init(loop, &made->timer);
    made->timer.data = made;
    set_timer(made);
    *watch = made;
    return ROTA_OK;
}

void rota_queue_watch_close(struct rota_queue_watch *watch)
{
    if (!watch || watch->is_closed)
        return;
    watch->is_closed = true;
    rota_config_watch_unsubscribe(watch->config, watch->name);
    uv_close((uv_handle_t *)&watch->timer, on_timer_closed);
}

/* --- queries and reports of users --- */

struct rota_queue_config rota_queue_watch_config(const struct rota_queue_watch *watch)
{
    return rota_queue_fsm_config(&watch->fsm);
}

struct rota_spread rota_queue_watch_spread(const struct rota_queue_watch *watch, int64_t partition)
{
    return rota_flips_fsm_spread(&watch->fsm.flips, partition);
}

void rota_queue_watch_report_empty(struct rota_queue_watch *watch, int64_t partition, bool is_empty)
{
    rota_queue_fsm_report_empty(&watch->fsm, rota_clock_wall(), partition, is_empty);
    drive(watch);
}

int64_t rota_queue_watch_waits_for(const struct rota_queue_watch *watch)
{
    return rota_counts_waits_for(&watch->fsm.counts);
}
