/* A group: the machine of core/own/group_fsm.h, driven by a log, a membership engine
 * (io/log/sync.h) and a timer. */
#include <rota/group.h>

#include "base/text.h"
#include "io/clock.h"
#include "run/own/group_inside.h"
#include "wire/record/group_record.h"

#include <stdio.h>

#define STOP_WITHIN (1 * ROTA_SEC)

void rota_group_driver_reader_end(struct rota_group *group, struct rota_group_reader *reader)
{
    rota_map_remove(&group->readers, reader->def->name.text);
    rota_group_def_unref(reader->def);
    free(reader);
    rota_gauge_set(group->series.running, (int64_t)group->readers.size);
}

struct rota_group_reader *rota_group_driver_reader_find(const struct rota_group *group,
                                                        struct rota_str partition, uint64_t token)
{
    struct rota_group_reader *reader = rota_map_get(&group->readers, partition);
    return reader && reader->token == token ? reader : NULL;
}

/* --- the end by failure --- */

static void reader_stop(struct rota_group *group, struct rota_group_reader *reader)
{
    struct rota_group_def *def = rota_group_def_ref(reader->def);
    reader->is_stopping = true;
    rota_group_news_tell_stop(group, def->name.text, reader->token);
    rota_group_def_unref(def);
}

/* From `*place` on, which is moved after it. */
static struct rota_group_reader *find_running(const struct rota_group *group, size_t *place)
{
    const struct rota_map_entry *entry;
    while ((entry = rota_map_next(&group->readers, place))) {
        struct rota_group_reader *reader = entry->value;
        if (!reader->is_stopping)
            return reader;
    }
    return NULL;
}

/* A callback may remove readers, and others then take their places: so this repeats until none
 * is left, usually after two passes. */
static void stop_readers(struct rota_group *group)
{
    struct rota_group_reader *reader;
    for (size_t place = 0, n = 1; n > 0; place = 0)
        for (n = 0; (reader = find_running(group, &place)); n++)
            reader_stop(group, reader);
}

void rota_group_driver_fail(struct rota_group *group, const struct rota_error *error)
{
    if (group->is_failed)
        return;
    group->is_failed = true;
    stop_readers(group);
    if (!group->is_closing)
        rota_group_news_tell_failed(group, error);
}

void rota_group_driver_starve(struct rota_group *group)
{
    struct rota_error error;
    rota_error_no_memory(&error, "for group %s", group->options.name);
    rota_group_driver_fail(group, &error);
}

static void fail_for(struct rota_group *group, enum rota_group_failure failure)
{
    const char *name = group->options.name, *log = rota_sync_name(group->sync);
    struct rota_error error;
    switch (failure) {
    case ROTA_GROUP_LOG_CUT:
        rota_error_set(
            &error, ROTA_ERR_INVALID,
            "group %s: the log %s starts at offset %llu, after the last snapshot of the owners: "
            "its start was removed; restore it, or start a group with another name",
            name, log, (unsigned long long)group->fsm.first);
        break;
    case ROTA_GROUP_LOG_SHRANK:
        rota_error_set(&error, ROTA_ERR_INVALID,
                       "group %s: the log %s ends at offset %llu, but was read up to %llu: its "
                       "last records are missing, as after restoring an older copy",
                       name, log, (unsigned long long)group->fsm.end,
                       (unsigned long long)group->fsm.fold.next);
        break;
    case ROTA_GROUP_SNAPSHOT_BROKEN:
        rota_error_set(&error, ROTA_ERR_INVALID,
                       "group %s: the log %s starts at offset %llu and has no complete snapshot to "
                       "start from; restore its start, or start a group with another name",
                       name, log, (unsigned long long)group->fsm.first);
        break;
    case ROTA_GROUP_NO_FAILURE:
    case ROTA_GROUP_OUT_OF_MEMORY:
        rota_group_driver_starve(group);
        return;
    }
    rota_group_driver_fail(group, &error);
}

/* --- actions --- */

static void append_record(struct rota_group *group, const struct rota_group_action *action)
{
    struct rota_error error;
    action->record->timestamp = rota_clock_wall();
    rota_buffer_clear(&group->buffer);
    enum rota_code code = rota_group_record_format(action->record, &group->buffer, &error);
    if (!code && group->buffer.failed)
        code = ROTA_ERR_NO_MEMORY;
    if (!code)
        code =
            rota_sync_append(group->sync, action->number, rota_buffer_str(&group->buffer), &error);
    if (code) /* nothing was sent: it is tried again a little later */
        rota_group_driver_step(group, &(struct rota_group_event){.type = ROTA_GROUP_NOT_APPENDED,
                                                                 .number = action->number});
}

static void join_group(struct rota_group *group, uint64_t incarnation)
{
    char line[ROTA_GROUP_METADATA_MAX];
    const struct rota_group_member self = {rota_str(group->options.task), incarnation};
    group->incarnation = incarnation;
    group->loss[0] = '\0';
    rota_sync_join(group->sync, rota_str(rota_group_record_metadata_format(self, line)));
}

static void start_reader(struct rota_group *group, const struct rota_group_action *action)
{
    struct rota_group_reader *reader = calloc(1, sizeof *reader);
    if (!reader || !rota_map_put(&group->readers, action->def->name.text, reader)) {
        free(reader);
        rota_group_driver_starve(group);
        return;
    }
    reader->def = rota_group_def_ref(action->def);
    reader->token = action->token;
    rota_gauge_set(group->series.running, (int64_t)group->readers.size);
    rota_group_news_tell_start(group, action);
}

/* A reader that has ended need not be stopped. */
static void stop_reader(struct rota_group *group, const struct rota_group_action *action)
{
    struct rota_group_reader *reader =
        rota_group_driver_reader_find(group, action->def->name.text, action->token);
    if (!reader)
        rota_group_driver_step(group,
                               &(struct rota_group_event){.type = ROTA_GROUP_STOPPED,
                                                          .partition = action->def->name.text,
                                                          .token = action->token});
    else if (!reader->is_stopping)
        reader_stop(group, reader);
}

static void on_counted(struct rota_group *group, const struct rota_group_action *action)
{
    uint64_t below = rota_group_fsm_trim_below(&group->fsm);
    rota_group_news_tell_counted(group, action);
    if (action->record->kind != ROTA_GROUP_SNAPSHOT || below <= group->trimmed)
        return;
    group->trimmed = below;
    rota_sync_trim(group->sync, below);
}

static void execute_action(struct rota_group *group, const struct rota_group_action *action)
{
    switch (action->type) {
    case ROTA_GROUP_DO_READ:
        rota_sync_read(group->sync, action->offset);
        break;
    case ROTA_GROUP_DO_APPEND:
        append_record(group, action);
        break;
    case ROTA_GROUP_DO_JOIN:
        join_group(group, action->incarnation);
        break;
    case ROTA_GROUP_DO_LEAVE:
        rota_sync_leave(group->sync);
        break;
    case ROTA_GROUP_DO_START:
        start_reader(group, action);
        break;
    case ROTA_GROUP_DO_STOP:
        stop_reader(group, action);
        break;
    case ROTA_GROUP_TELL_ROUND:
        rota_group_news_tell_round(group);
        break;
    case ROTA_GROUP_TELL_EPOCH:
        rota_group_news_tell_epoch(group);
        break;
    case ROTA_GROUP_TELL_COUNTED:
        on_counted(group, action);
        break;
    case ROTA_GROUP_TELL_REFUSED:
        rota_group_news_tell_refused(group, action);
        break;
    case ROTA_GROUP_TELL_LOST:
        rota_group_news_tell_lost(group, action->loss);
        break;
    case ROTA_GROUP_FAIL:
        fail_for(group, action->failure);
        break;
    }
}

/* After a failure the group only stops. */
static bool is_allowed(const struct rota_group *group, enum rota_group_action_type type)
{
    return !group->is_failed || type == ROTA_GROUP_DO_STOP || type == ROTA_GROUP_DO_LEAVE;
}

/* --- the machine --- */

static void take_actions(struct rota_group *group)
{
    size_t n;
    const struct rota_group_action *actions = rota_group_fsm_actions(&group->fsm, &n);
    if (!rota_vector_reserve(&group->todo, group->todo.size + n)) {
        rota_group_driver_starve(group);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        rota_group_record_ref(actions[i].record);
        rota_group_def_ref(actions[i].def);
        rota_group_blob_ref(actions[i].position);
        group->todo.items[group->todo.size++] = actions[i];
    }
}

static void action_deinit(const struct rota_group_action *action)
{
    rota_group_record_unref(action->record);
    rota_group_def_unref(action->def);
    rota_group_blob_unref(action->position);
}

enum rota_code rota_group_driver_try(struct rota_group *group, const struct rota_group_event *event,
                                     struct rota_error *error)
{
    rota_time fence_at = rota_group_fsm_fence_at(&group->fsm);
    enum rota_code code = rota_group_fsm_step(&group->fsm, rota_clock_boot(), event, error);
    if (group->on_fence && rota_group_fsm_fence_at(&group->fsm) != fence_at)
        group->on_fence(group->options.data);
    take_actions(group);
    return code;
}

void rota_group_driver_step(struct rota_group *group, const struct rota_group_event *event)
{
    (void)rota_group_driver_try(group, event, NULL);
}

static void group_free(struct rota_group *group)
{
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(&group->readers, &place));) {
        struct rota_group_reader *reader = entry->value;
        rota_group_def_unref(reader->def);
        free(reader);
    }
    for (size_t i = group->n_done; i < group->todo.size; i++)
        action_deinit(&group->todo.items[i]);
    rota_map_deinit(&group->readers);
    rota_vector_deinit(&group->todo);
    rota_vector_deinit(&group->tasks);
    rota_vector_deinit(&group->members);
    rota_buffer_deinit(&group->buffer);
    rota_group_fsm_deinit(&group->fsm);
    rota_metrics_free(group->metrics);
    free(group);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct rota_group *group = handle->data;
    void (*on_closed)(void *data) = group->on_closed;
    void *data = group->closed_data;
    group_free(group);
    if (on_closed)
        on_closed(data);
}

static void on_sync_closed(void *data)
{
    struct rota_group *group = data;
    uv_close((uv_handle_t *)&group->driver.timer, on_timer_closed);
}

static void on_timer(uv_timer_t *timer)
{
    rota_group_driver_drive(timer->data, &(struct rota_group_event){.type = ROTA_GROUP_TICK});
}

/* The group is left when the last reader has stopped, and not before. */
static void end_if_over(struct rota_group *group)
{
    if (group->is_ended || !group->is_closing || group->fsm.state != ROTA_GROUP_AT_DONE ||
        group->readers.size > 0)
        return;
    group->is_ended = true;
    uv_timer_stop(&group->driver.timer);
    rota_sync_close(group->sync, on_sync_closed, group);
}

/* Carry out the actions. Callbacks may add to them, and even close the group: that is a step,
 * too, and its end comes here. */
void rota_group_driver_work(struct rota_group *group)
{
    if (group->driver.is_driving)
        return;
    group->driver.is_driving = true;
    while (group->n_done < group->todo.size) {
        struct rota_group_action action = group->todo.items[group->n_done++];
        if (is_allowed(group, action.type))
            execute_action(group, &action);
        action_deinit(&action);
    }
    group->todo.size = group->n_done = 0;
    group->driver.is_driving = false;
    if (!group->is_ended)
        rota_driver_arm(&group->driver, on_timer, rota_group_fsm_deadline(&group->fsm));
    end_if_over(group);
}

void rota_group_driver_drive(struct rota_group *group, const struct rota_group_event *event)
{
    rota_group_driver_step(group, event);
    rota_group_driver_work(group);
}

/* --- the life of a group --- */

static rota_time stop_within(const struct rota_group_options *options)
{
    if (options->stop_within > 0)
        return options->stop_within;
    return rota_time_min(STOP_WITHIN, options->session / 4);
}

static enum rota_code init_fsm(struct rota_group *group, struct rota_error *error)
{
    const struct rota_group_options *o = &group->options;
    uint64_t chance = 0;
    int failed = uv_random(NULL, NULL, &chance, sizeof chance, 0, NULL);
    rota_time fence_after = rota_group_fsm_fence_after(o->session, stop_within(o));
    char session[ROTA_TIME_TEXT_MAX], stop[ROTA_TIME_TEXT_MAX];
    if (failed)
        return rota_error_set(error, ROTA_ERR_IO, "group %s: no random number: %s", o->name,
                              uv_strerror(failed));
    if (fence_after == 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "group %s: readers that take %s to stop are too slow for a session "
                              "of %s: at most half of it is allowed",
                              o->name, rota_span_format(stop_within(o), stop),
                              rota_span_format(o->session, session));
    const struct rota_group_fsm_options options = {
        .task = rota_str(o->task ? o->task : ""),
        .is_observer = !o->task,
        .fence_after = fence_after,
        .progress_every = o->progress_every,
        .withdraw_after = o->withdraw_after,
        .move_every = o->move_every,
        .moves_max = o->moves_max,
        .seeds = o->seeds,
        .n_seeds = o->n_seeds,
        .seed = chance,
    };
    return rota_group_fsm_init(&group->fsm, &options, error);
}

static struct rota_group *group_new(const struct rota_group_options *options)
{
    size_t size = rota_text_size(options->name) + rota_text_size(options->task);
    struct rota_group *group = calloc(1, sizeof *group + size + 1);
    if (!group)
        return NULL;
    char *to = group->texts;
    group->options = *options;
    group->options.log_url = NULL; /* it may hold a password */
    group->options.name = rota_text_keep(&to, options->name);
    group->options.task = rota_text_keep(&to, options->task);
    if (group->options.session <= 0)
        group->options.session = ROTA_SYNC_SESSION;
    rota_map_init(&group->readers, 0);
    return group;
}

static enum rota_code open_sync(struct rota_group *group, struct uv_loop_s *loop, const char *url,
                                struct rota_error *error)
{
    const struct rota_group_options *o = &group->options;
    const struct rota_sync_options options = {
        .url = url,
        .name = o->name,
        .session = o->session,
        .is_observer = !o->task,
        .on_event = rota_group_hear_event,
        .log = o->log,
        .data = group,
    };
    return rota_sync_open(loop, &options, &group->sync, error);
}

enum rota_code rota_group_open(struct uv_loop_s *loop, const struct rota_group_options *options,
                               struct rota_group **result, struct rota_error *error)
{
    if (!options->log_url || !options->name)
        return rota_error_set(error, ROTA_ERR_INVALID, "group: the log and the name are required");
    if (options->task && (!options->on_start || !options->on_stop))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "group %s: a task needs on_start and on_stop", options->name);
    struct rota_group *group = group_new(options);
    if (!group)
        return rota_error_no_memory(error, "for group %s", options->name);
    enum rota_code code = init_fsm(group, error);
    if (!code && !rota_group_news_make_series(group))
        code = rota_error_no_memory(error, "for group %s", options->name);
    if (!code)
        code = open_sync(group, loop, options->log_url, error);
    if (code) {
        group_free(group);
        return code;
    }
    group->options.seeds = NULL; /* the machine has its own */
    rota_driver_init(&group->driver, loop, group);
    *result = group;
    return ROTA_OK;
}

void rota_group_close(struct rota_group *group, void (*on_closed)(void *data), void *data)
{
    if (!group || group->is_closing)
        return;
    group->on_closed = on_closed;
    group->closed_data = data;
    group->is_closing = true;
    rota_group_driver_drive(group, &(struct rota_group_event){.type = ROTA_GROUP_LEAVE});
}
