/* A group: the machine of core/own/group_fsm.h, fed by a log, an engine that says who
 * is alive (io/sync.h) and a timer. */
#include <rota/group.h>

#include "io/clock.h"
#include "run/group_inside.h"
#include "wire/group_record.h"

#include <stdio.h>

#define STOP_WITHIN (1 * ROTA_SEC)

/* A partition that the user was told to read. */
struct reader {
    struct rota_group_def *def;
    uint64_t token;
    bool is_stopping;
};

static void reader_end(struct rota_group *group, struct reader *reader)
{
    rota_map_remove(&group->readers, reader->def->name.text);
    rota_group_def_unref(reader->def);
    free(reader);
    rota_gauge_set(group->series.running, (int64_t)group->readers.size);
}

static struct reader *reader_find(const struct rota_group *group, struct rota_str partition,
                                  uint64_t token)
{
    struct reader *reader = rota_map_get(&group->readers, partition);
    return reader && reader->token == token ? reader : NULL;
}

/* --- the end by failure --- */

static void reader_stop(struct rota_group *group, struct reader *reader)
{
    struct rota_group_def *def = rota_group_def_ref(reader->def);
    reader->is_stopping = true;
    rota_group_tell_stop(group, def->name.text, reader->token);
    rota_group_def_unref(def);
}

static struct reader *find_running(const struct rota_group *group)
{
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(&group->readers, &place));) {
        struct reader *reader = entry->value;
        if (!reader->is_stopping)
            return reader;
    }
    return NULL;
}

/* Stop whatever runs, and say so once. */
static void fail(struct rota_group *group, const struct rota_error *error)
{
    struct reader *reader;
    if (group->is_failed)
        return;
    group->is_failed = true;
    while ((reader = find_running(group)))
        reader_stop(group, reader);
    if (!group->is_closing)
        rota_group_tell_failed(group, error);
}

static void fail_without_memory(struct rota_group *group)
{
    struct rota_error error;
    rota_error_set(&error, ROTA_ERR_NO_MEMORY, "group %s: no memory", group->options.name);
    fail(group, &error);
}

static void fail_for(struct rota_group *group, enum rota_group_failure failure)
{
    const char *name = group->options.name, *log = rota_sync_name(group->sync);
    struct rota_error error;
    switch (failure) {
    case ROTA_GROUP_LOG_CUT:
        rota_error_set(&error, ROTA_ERR_INVALID,
                       "group %s: the log %s begins at offset %llu, after what tells who has what: "
                       "its beginning was removed; bring it back, or begin a group of another name",
                       name, log, (unsigned long long)group->fsm.first);
        break;
    case ROTA_GROUP_LOG_SHRANK:
        rota_error_set(&error, ROTA_ERR_INVALID,
                       "group %s: the log %s ends at offset %llu, but was read up to %llu: records "
                       "are gone from its end, as after an older copy was put in its place",
                       name, log, (unsigned long long)group->fsm.end,
                       (unsigned long long)group->fsm.fold.next);
        break;
    case ROTA_GROUP_SNAPSHOT_BROKEN:
        rota_error_set(&error, ROTA_ERR_INVALID,
                       "group %s: the log %s begins at offset %llu and has no whole snapshot to "
                       "begin with; bring its beginning back, or begin a group of another name",
                       name, log, (unsigned long long)group->fsm.first);
        break;
    case ROTA_GROUP_NO_FAILURE:
    case ROTA_GROUP_OUT_OF_MEMORY:
        fail_without_memory(group);
        return;
    }
    fail(group, &error);
}

/* --- actions --- */

static void step(struct rota_group *group, const struct rota_group_event *event);

static void append(struct rota_group *group, const struct rota_group_action *action)
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
        step(group,
             &(struct rota_group_event){.type = ROTA_GROUP_NOT_APPENDED, .number = action->number});
}

static void join(struct rota_group *group, uint64_t incarnation)
{
    char line[ROTA_GROUP_METADATA_MAX];
    const struct rota_group_member self = {rota_str(group->options.task), incarnation};
    group->incarnation = incarnation;
    group->loss[0] = '\0';
    rota_sync_join(group->sync, rota_str(rota_group_metadata_format(self, line)));
}

static void start(struct rota_group *group, const struct rota_group_action *action)
{
    struct reader *reader = calloc(1, sizeof *reader);
    if (!reader || !rota_map_put(&group->readers, action->def->name.text, reader)) {
        free(reader);
        fail_without_memory(group);
        return;
    }
    reader->def = rota_group_def_ref(action->def);
    reader->token = action->token;
    rota_gauge_set(group->series.running, (int64_t)group->readers.size);
    rota_group_tell_start(group, action);
}

/* A reader that is at its end was not told to stop: it has. */
static void stop(struct rota_group *group, const struct rota_group_action *action)
{
    struct reader *reader = reader_find(group, action->def->name.text, action->token);
    if (!reader)
        step(group, &(struct rota_group_event){.type = ROTA_GROUP_STOPPED,
                                               .partition = action->def->name.text,
                                               .token = action->token});
    else if (!reader->is_stopping)
        reader_stop(group, reader);
}

static void counted(struct rota_group *group, const struct rota_group_action *action)
{
    uint64_t below = rota_group_fsm_trim_below(&group->fsm);
    rota_group_tell_counted(group, action);
    if (action->record->kind != ROTA_GROUP_SNAPSHOT || below <= group->trimmed)
        return;
    group->trimmed = below;
    rota_sync_trim(group->sync, below);
}

static void carry_out(struct rota_group *group, const struct rota_group_action *action)
{
    switch (action->type) {
    case ROTA_GROUP_DO_READ:
        rota_sync_read(group->sync, action->offset);
        break;
    case ROTA_GROUP_DO_APPEND:
        append(group, action);
        break;
    case ROTA_GROUP_DO_JOIN:
        join(group, action->incarnation);
        break;
    case ROTA_GROUP_DO_LEAVE:
        rota_sync_leave(group->sync);
        break;
    case ROTA_GROUP_DO_START:
        start(group, action);
        break;
    case ROTA_GROUP_DO_STOP:
        stop(group, action);
        break;
    case ROTA_GROUP_TELL_ROUND:
        rota_group_tell_round(group);
        break;
    case ROTA_GROUP_TELL_EPOCH:
        rota_group_tell_epoch(group);
        break;
    case ROTA_GROUP_TELL_COUNTED:
        counted(group, action);
        break;
    case ROTA_GROUP_TELL_REFUSED:
        rota_group_tell_refused(group, action);
        break;
    case ROTA_GROUP_TELL_LOST:
        rota_group_tell_lost(group, action->loss);
        break;
    case ROTA_GROUP_FAIL:
        fail_for(group, action->failure);
        break;
    }
}

/* Whoever has failed lets go, and does nothing else. */
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
        fail_without_memory(group);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        rota_group_record_ref(actions[i].record);
        rota_group_def_ref(actions[i].def);
        rota_blob_ref(actions[i].position);
        group->todo.items[group->todo.size++] = actions[i];
    }
}

static void action_deinit(const struct rota_group_action *action)
{
    rota_group_record_unref(action->record);
    rota_group_def_unref(action->def);
    rota_blob_unref(action->position);
}

static enum rota_code try_step(struct rota_group *group, const struct rota_group_event *event,
                               struct rota_error *error)
{
    enum rota_code code = rota_group_fsm_step(&group->fsm, rota_clock_boot(), event, error);
    take_actions(group);
    return code;
}

static void step(struct rota_group *group, const struct rota_group_event *event)
{
    (void)try_step(group, event, NULL);
}

static void group_free(struct rota_group *group)
{
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(&group->readers, &place));) {
        struct reader *reader = entry->value;
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
    uv_close((uv_handle_t *)&group->timer, on_timer_closed);
}

static void drive(struct rota_group *group, const struct rota_group_event *event);

static void on_timer(uv_timer_t *timer)
{
    drive(timer->data, &(struct rota_group_event){.type = ROTA_GROUP_TICK});
}

static void arm(struct rota_group *group)
{
    rota_time now = rota_clock_boot(), at = rota_group_fsm_deadline(&group->fsm);
    if (at == ROTA_TIME_NEVER)
        uv_timer_stop(&group->timer);
    else
        uv_timer_start(&group->timer, on_timer,
                       at > now ? (uint64_t)((at - now) / ROTA_MSEC + 1) : 0, 0);
}

/* The group is left when the last reader has stopped, and not before. */
static void end_if_over(struct rota_group *group)
{
    if (group->is_ended || !group->is_closing || group->fsm.state != ROTA_GROUP_AT_DONE ||
        group->readers.size > 0)
        return;
    group->is_ended = true;
    uv_timer_stop(&group->timer);
    rota_sync_close(group->sync, on_sync_closed, group);
}

/* Carry out what there is to do. Callbacks may add to it, and even close the group:
 * that too is a step, and its end comes here. */
static void work(struct rota_group *group)
{
    if (group->is_driving)
        return;
    group->is_driving = true;
    while (group->n_done < group->todo.size) {
        struct rota_group_action action = group->todo.items[group->n_done++];
        if (is_allowed(group, action.type))
            carry_out(group, &action);
        action_deinit(&action);
    }
    group->todo.size = group->n_done = 0;
    group->is_driving = false;
    if (!group->is_ended)
        arm(group);
    end_if_over(group);
}

static void drive(struct rota_group *group, const struct rota_group_event *event)
{
    step(group, event);
    work(group);
}

/* --- what the log and the engine say --- */

static void hear_record(struct rota_group *group, const struct rota_sync_event *event)
{
    struct rota_group_event heard = {.type = ROTA_GROUP_RECORD,
                                     .offset = event->offset,
                                     .size = event->size ? event->size : event->bytes.size,
                                     .why = ROTA_GROUP_OVERSIZED};
    struct rota_error error;
    bool is_tail = group->fsm.replay == ROTA_GROUP_REPLAY_TAIL; /* will be read again */
    rota_error_set(&error, ROTA_ERR_LIMIT, "a record of %zu bytes, at most %d are read", heard.size,
                   ROTA_GROUP_RECORD_MAX);
    if (event->offset >= group->end)
        group->end = event->offset + 1;
    if (event->bytes.data &&
        rota_group_record_parse(event->bytes, &heard.record, &heard.why, &error)) {
        fail_without_memory(group);
        return;
    }
    if (!heard.record && !is_tail && event->offset >= group->skipped_next) {
        group->skipped_next = event->offset + 1;
        rota_group_tell_skipped(group, event->offset, heard.why, error.text);
    }
    drive(group, &heard);
    rota_group_record_unref(heard.record);
}

static void hear_round(struct rota_group *group, const struct rota_sync_event *event)
{
    size_t n = 0;
    if (!rota_vector_reserve(&group->members, event->n_members + 1)) {
        fail_without_memory(group);
        return;
    }
    for (size_t i = 0; i < event->n_members; i++)
        if (!rota_group_metadata_parse(event->members[i], &group->members.items[n]))
            n++; /* else it is somebody else's, who has no business here */
    drive(group, &(struct rota_group_event){.type = ROTA_GROUP_REBALANCED,
                                            .generation = event->generation,
                                            .members = group->members.items,
                                            .n_members = n,
                                            .is_leader = event->is_leader,
                                            .sent_at = event->sent_at});
}

static void hear_end(struct rota_group *group, const struct rota_sync_event *event)
{
    bool was_starting = group->fsm.state == ROTA_GROUP_AT_START;
    if (event->end > group->end)
        group->end = event->end;
    drive(group, &(struct rota_group_event){
                     .type = ROTA_GROUP_LOG_OK, .end = event->end, .sent_at = event->sent_at});
    bool is_known = group->fsm.replay == ROTA_GROUP_REPLAY_FOLD && !group->is_ended;
    if (is_known)
        rota_group_tell_whole(group);
    if (is_known && was_starting && group->fsm.state != ROTA_GROUP_AT_START && !group->is_closing)
        rota_group_tell_ready(group);
}

static void hear_append(struct rota_group *group, const struct rota_sync_event *event)
{
    bool is_done = event->type == ROTA_SYNC_APPENDED;
    rota_counter_add(is_done ? group->series.written : group->series.unwritten, 1);
    drive(group, &(struct rota_group_event){.type = is_done ? ROTA_GROUP_APPENDED
                                                            : ROTA_GROUP_NOT_APPENDED,
                                            .number = event->number,
                                            .offset = event->offset});
}

static void hear_loss(struct rota_group *group, const struct rota_sync_event *event,
                      enum rota_group_event_type type)
{
    snprintf(group->loss, sizeof group->loss, "%s", event->error ? event->error->text : "");
    drive(group, &(struct rota_group_event){.type = type});
}

static void hear_failure(struct rota_group *group, const struct rota_sync_event *event)
{
    struct rota_error error = {0};
    if (event->error)
        error = *event->error;
    hear_loss(group, event, ROTA_GROUP_LOG_LOST);
    fail(group, &error);
    work(group);
}

static void on_event(void *data, const struct rota_sync_event *event)
{
    struct rota_group *group = data;
    if (group->is_failed)
        return;
    switch (event->type) {
    case ROTA_SYNC_OPENED:
        group->end = event->end;
        drive(group, &(struct rota_group_event){
                         .type = ROTA_GROUP_OPENED, .first = event->first, .end = event->end});
        break;
    case ROTA_SYNC_RECORD:
        hear_record(group, event);
        break;
    case ROTA_SYNC_OK:
        hear_end(group, event);
        break;
    case ROTA_SYNC_LOST:
        hear_loss(group, event, ROTA_GROUP_LOG_LOST);
        break;
    case ROTA_SYNC_APPENDED:
    case ROTA_SYNC_NOT_APPENDED:
        hear_append(group, event);
        break;
    case ROTA_SYNC_ROUND:
        hear_round(group, event);
        break;
    case ROTA_SYNC_GROUP_OK:
        drive(group,
              &(struct rota_group_event){.type = ROTA_GROUP_GROUP_OK, .sent_at = event->sent_at});
        break;
    case ROTA_SYNC_GROUP_LOST:
        hear_loss(group, event, ROTA_GROUP_GROUP_LOST);
        break;
    case ROTA_SYNC_FAILED:
        hear_failure(group, event);
        break;
    }
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
    rota_time fence_after = rota_group_fence_after(o->session, stop_within(o));
    char session[ROTA_TIME_TEXT_MAX], stop[ROTA_TIME_TEXT_MAX];
    if (failed)
        return rota_error_set(error, ROTA_ERR_IO, "group %s: no random number: %s", o->name,
                              uv_strerror(failed));
    if (fence_after == 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "group %s: readers that need %s to stop are too slow for a session "
                              "of %s: at most half of it",
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

static size_t size_of(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

/* Copy `text` to `*to`, which moves on. */
static const char *keep(char **to, const char *text)
{
    if (!text)
        return NULL;
    size_t size = strlen(text) + 1;
    char *copy = memcpy(*to, text, size);
    *to += size;
    return copy;
}

static struct rota_group *group_new(const struct rota_group_options *options)
{
    size_t size = size_of(options->name) + size_of(options->task);
    struct rota_group *group = calloc(1, sizeof *group + size + 1);
    if (!group)
        return NULL;
    char *to = group->texts;
    group->options = *options;
    group->options.log_url = NULL; /* it may hold a password */
    group->options.name = keep(&to, options->name);
    group->options.task = keep(&to, options->task);
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
        .on_event = on_event,
        .log = o->log,
        .data = group,
    };
    return rota_sync_open(loop, &options, &group->sync, error);
}

enum rota_code rota_group_open(struct uv_loop_s *loop, const struct rota_group_options *options,
                               struct rota_group **result, struct rota_error *error)
{
    if (!options->log_url || !options->name)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "group: a log and the group's name have to be given");
    if (options->task && (!options->on_start || !options->on_stop))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "group %s: a task needs on_start and on_stop", options->name);
    struct rota_group *group = group_new(options);
    if (!group)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "group %s: no memory", options->name);
    enum rota_code code = init_fsm(group, error);
    if (!code && !rota_group_make_series(group))
        code = rota_error_set(error, ROTA_ERR_NO_MEMORY, "group %s: no memory", options->name);
    if (!code)
        code = open_sync(group, loop, options->log_url, error);
    if (code) {
        group_free(group);
        return code;
    }
    group->options.seeds = NULL; /* the machine has its own */
    uv_timer_init(loop, &group->timer);
    group->timer.data = group;
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
    drive(group, &(struct rota_group_event){.type = ROTA_GROUP_LEAVE});
}

/* --- what the user says --- */

void rota_group_stopped(struct rota_group *group, struct rota_str partition, uint64_t token)
{
    struct reader *reader = reader_find(group, partition, token);
    if (!reader || !reader->is_stopping)
        return;
    const struct rota_group_event event = {
        .type = ROTA_GROUP_STOPPED, .partition = partition, .token = token};
    reader_end(group, reader);
    drive(group, &event);
}

static enum rota_code report(struct rota_group *group, const struct rota_group_event *event,
                             struct rota_error *error)
{
    enum rota_code code = try_step(group, event, error);
    work(group);
    return code;
}

static enum rota_code report_child(struct rota_group *group, struct rota_str partition,
                                   uint64_t token, const struct rota_group_child *child,
                                   struct rota_error *error)
{
    if (child->n_parents > ROTA_GROUP_PARENTS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a partition of %zu parents, at most %d are allowed",
                              child->n_parents, ROTA_GROUP_PARENTS_MAX);
    if (!rota_group_is_name(child->name))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a partition's name is UTF-8 of 1 to %d bytes", ROTA_GROUP_NAME_MAX);
    struct rota_group_def *def =
        rota_group_def_new(child->name, child->parents, child->n_parents, rota_str(""));
    if (!def)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "a new partition");
    enum rota_code code = report(group,
                                 &(struct rota_group_event){.type = ROTA_GROUP_CHILD,
                                                            .partition = partition,
                                                            .token = token,
                                                            .child = def,
                                                            .mark = child->mark,
                                                            .position = child->position},
                                 error);
    rota_group_def_unref(def);
    return code;
}

enum rota_code rota_group_child(struct rota_group *group, struct rota_str partition, uint64_t token,
                                const struct rota_group_child *child, struct rota_error *error)
{
    if (partition.size == 0 || token == 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a child is reported by a partition under its token");
    return report_child(group, partition, token, child, error);
}

enum rota_code rota_group_add(struct rota_group *group, const struct rota_group_seed *seed,
                              struct rota_error *error)
{
    const struct rota_group_child root = {
        .name = seed->name, .mark = seed->mark, .position = seed->position};
    return report_child(group, rota_str(""), 0, &root, error);
}

/* Token 0 is nobody's; to the machine it would mean any. */
enum rota_code rota_group_progress(struct rota_group *group, struct rota_str partition,
                                   uint64_t token, int64_t mark, struct rota_str position,
                                   struct rota_error *error)
{
    if (token == 0)
        return ROTA_OK;
    return report(group,
                  &(struct rota_group_event){.type = ROTA_GROUP_PROGRESS_MADE,
                                             .partition = partition,
                                             .token = token,
                                             .mark = mark,
                                             .position = position},
                  error);
}

enum rota_code rota_group_finish(struct rota_group *group, struct rota_str partition,
                                 uint64_t token, bool is_end, struct rota_error *error)
{
    if (token == 0)
        return ROTA_OK;
    enum rota_code code = try_step(group,
                                   &(struct rota_group_event){.type = ROTA_GROUP_FINISHED_READING,
                                                              .partition = partition,
                                                              .token = token,
                                                              .mark = INT64_MIN,
                                                              .is_end = is_end},
                                   error);
    struct reader *reader = reader_find(group, partition, token);
    if (!code && reader) {
        bool was_stopping = reader->is_stopping;
        reader_end(group, reader);
        if (was_stopping)
            step(group, &(struct rota_group_event){
                            .type = ROTA_GROUP_STOPPED, .partition = partition, .token = token});
    }
    work(group);
    return code;
}
