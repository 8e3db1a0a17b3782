#include "run/work/broker/work_broker_reply.h"
#include "run/work/cluster/work_broker_rows_inside.h"
#include "run/work/store/work_broker_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMPORT_MAX = 1 + ROTA_STORE_KEYS_MAX / 2 }; /* queues of one request */

#define INTERVAL (1 * ROTA_SEC)

static void drive(struct rota_broker_rows *rows, struct rota_settings_event event);

static struct rota_str queue_of(const struct rota_broker_pending_change *pending)
{
    return rota_str_of(pending->queue, pending->queue_size);
}

/* --- rows as bytes --- */

struct source {
    struct rota_journal_batch batch;
    struct rota_journal_room room;
    struct rota_str bytes;
    size_t place;
};

static bool next_setting(void *data, struct rota_work_record *setting)
{
    struct source *source = data;
    return rota_queue_message_read_jobs(&source->batch, source->bytes, &source->place, setting,
                                        &source->room);
}

static bool is_readable(struct rota_str bytes)
{
    struct source source = {.bytes = bytes};
    struct rota_work_record setting;
    while (next_setting(&source, &setting))
        ;
    return source.place == bytes.size;
}

static void append_edited(struct rota_broker_rows *rows, struct rota_str queue,
                          const struct rota_setting_edit *edit)
{
    struct rota_journal_batch batch = {0};
    struct rota_work_record setting;
    size_t place = 0;
    while (rota_broker_next_edited(rows->broker->core, rota_work_broker_now(), queue, edit, &place,
                                   &setting))
        rota_queue_message_write_jobs(&batch, &setting, &rows->bytes);
}

/* One that is invalid, for a newer program wrote it, or for which there is no room is left out.
 * False: try it again. */
static bool apply_row(struct rota_broker_rows *rows, struct rota_str queue, struct rota_str bytes)
{
    struct rota_work_broker *broker = rows->broker;
    struct source source = {.bytes = bytes};
    struct rota_error error = {0};
    enum rota_code code = is_readable(bytes)
                              ? rota_broker_put_settings(broker->core, rota_work_broker_now(),
                                                         queue, next_setting, &source, &error)
                              : rota_error_set(&error, ROTA_ERR_INVALID, "the row is not readable");
    if (code)
        rota_log(broker->options.log, rota_work_broker_now().wall, ROTA_LOG_WARN,
                 "settings of queue not applied", ROTA_LOG_FACT("queue", queue),
                 ROTA_LOG_FACT("why", error.text));
    return code != ROTA_ERR_NO_MEMORY;
}

/* --- reading --- */

/* The queue whose settings come next, other than the defaults. */
static bool next_own(struct rota_broker_rows *rows, struct rota_setting_place *place,
                     struct rota_str *queue)
{
    const struct rota_broker *core = rows->broker->core;
    struct rota_work_record setting;
    while (rota_broker_next_setting(core, place, &setting)) {
        place->queue++;
        place->inner = 0;
        *queue = setting.queue;
        if (rota_broker_has_settings(core, setting.queue))
            return true;
    }
    return false;
}

/* Queues without a row have the defaults. */
static bool reset_others(struct rota_broker_rows *rows, const struct rota_store_answer *answer)
{
    struct rota_map named;
    struct rota_setting_place place = {0};
    struct rota_str queue;
    bool is_done = true;
    rota_map_init(&named, rows->broker->seed);
    for (size_t i = 0; is_done && i < answer->n_queues; i++)
        is_done = rota_map_put(&named, answer->queues[i].name, rows);
    while (is_done && next_own(rows, &place, &queue))
        if (!rota_map_get(&named, queue))
            is_done = apply_row(rows, queue, rota_str(""));
    rota_map_deinit(&named);
    return is_done;
}

static bool apply_rows(struct rota_broker_rows *rows, const struct rota_store_answer *answer)
{
    for (size_t i = 0; i < answer->n_queues; i++)
        if (!apply_row(rows, answer->queues[i].name, answer->queues[i].settings))
            return false;
    if (!rows->is_reading_all)
        return true;
    if (answer->highest == 0 && !rows->is_importing) {
        rows->is_importing = true;
        rows->import = (struct rota_setting_place){0};
    }
    return rows->is_importing || reset_others(rows, answer);
}

static void on_imported(struct rota_work_broker *broker, void *data, struct rota_str queue,
                        const struct rota_setting_change *change, uint64_t number,
                        const struct rota_error *error)
{
    struct rota_broker_rows *rows = data;
    (void)broker;
    (void)queue;
    (void)change;
    (void)number;
    rows->has_import = false;
    if (!error->code)
        rows->import = rows->imported; /* a next write finds whether there are more */
    else if (error->code != ROTA_ERR_UNAVAILABLE)
        rows->is_importing = false;
}

/* Before any change that waits: after that the store would have settings, and not these. */
static void import_settings(struct rota_broker_rows *rows)
{
    struct rota_broker_pending_change *made;
    if (!rows->is_importing || rows->has_import || !(made = calloc(1, sizeof *made)))
        return;
    rows->has_import = true;
    made->rows = rows;
    made->is_import = true;
    made->change.on_changed = on_imported;
    made->change.data = rows;
    snprintf(made->author, sizeof made->author, "upgrade");
    drive(rows, (struct rota_settings_event){
                    .type = ROTA_SETTINGS_CHANGE, .change = &made->base, .is_first = true});
}

static enum rota_settings_event_type failure_of(const struct rota_store_answer *answer)
{
    return answer->code == ROTA_ERR_UNKNOWN ? ROTA_SETTINGS_LOST : ROTA_SETTINGS_FAILED;
}

static void on_read(void *data, const struct rota_store_answer *answer)
{
    struct rota_broker_rows *rows = data;
    struct rota_settings_event event = {.type = failure_of(answer), .version = answer->highest};
    if (!answer->code && apply_rows(rows, answer))
        event.type = ROTA_SETTINGS_READ;
    import_settings(rows);
    drive(rows, event);
    rota_work_broker_touch(rows->broker);
}

/* --- writing --- */

static void on_written(void *data, const struct rota_store_answer *answer)
{
    struct rota_broker_rows *rows = data;
    struct rota_settings_event event = {
        .type = failure_of(answer), .version = answer->highest, .previous = answer->previous};
    struct rota_broker_pending_change *pending = rows->written;
    rows->written = NULL;
    if (!answer->code && answer->is_done) {
        event.type = ROTA_SETTINGS_WRITTEN;
        pending->version = answer->highest;
        event.is_applied =
            pending->is_import || apply_row(rows, queue_of(pending), rota_buffer_str(&rows->bytes));
    } else if (!answer->code) {
        event.type = ROTA_SETTINGS_CONFLICT;
    }
    drive(rows, event);
    rota_work_broker_touch(rows->broker);
}

static enum rota_code put_row(struct rota_broker_rows *rows,
                              struct rota_broker_pending_change *pending,
                              struct rota_store_request *request)
{
    struct rota_setting_change *change = &pending->change;
    struct rota_error *error = &pending->error;
    enum rota_code code =
        change->make ? change->make(rows->broker, queue_of(pending), change, error) : ROTA_OK;
    if (!code)
        code = rota_broker_edit_check(&change->edit, error);
    if (code)
        return code;
    append_edited(rows, queue_of(pending), &change->edit);
    if (rows->bytes.failed)
        return rota_error_no_memory(error, "for the settings of a queue");
    request->config.name = queue_of(pending);
    request->config.text = rota_buffer_str(&rows->bytes);
    return rota_store_ask(rows->store, request, on_written, rows, error);
}

/* Settings that this node had before there were rows, in one write: another node has all of them,
 * or none. */
static enum rota_code put_own(struct rota_broker_rows *rows,
                              struct rota_broker_pending_change *pending,
                              struct rota_store_request *request)
{
    static const struct rota_setting_edit none = {.type = ROTA_SETTING_NONE};
    struct rota_arena *arena = &rows->broker->front.arena;
    struct rota_setting_place place = rows->import;
    size_t ends[IMPORT_MAX], n = 0;
    rota_arena_clear(arena);
    struct rota_str *pairs = rota_arena_take(arena, 2 * IMPORT_MAX * sizeof *pairs);
    if (place.queue == 0 && rows->fsm.known > 0)
        return rota_error_set(&pending->error, ROTA_ERR_STALE, "the store has settings by now");
    for (; pairs && n < IMPORT_MAX && next_own(rows, &place, &pairs[2 * n]); n++) {
        append_edited(rows, pairs[2 * n], &none);
        ends[n] = rows->bytes.size;
    }
    if (!pairs || rows->bytes.failed)
        return rota_error_no_memory(&pending->error, "for the settings of queues");
    if (n == 0)
        return rota_error_set(&pending->error, ROTA_ERR_STALE, "all settings are written");
    for (size_t i = 0, begin = 0; i < n; begin = ends[i++])
        pairs[2 * i + 1] = rota_str_of(rows->bytes.data + begin, ends[i] - begin);
    request->config.name = pairs[0];
    request->config.text = pairs[1];
    request->keys = pairs + 2;
    request->n_keys = 2 * (n - 1);
    rows->imported = place;
    return rota_store_ask(rows->store, request, on_written, rows, &pending->error);
}

/* Without an answer to come, what happened instead. */
static bool write_row(struct rota_broker_rows *rows, struct rota_broker_pending_change *pending,
                      uint64_t known, struct rota_settings_event *event)
{
    struct rota_store_request request = {
        .verb = ROTA_STORE_QUEUE_PUT, .known = known, .host = rota_str(pending->author)};
    rota_buffer_clear(&rows->bytes);
    enum rota_code code =
        pending->is_import ? put_own(rows, pending, &request) : put_row(rows, pending, &request);
    event->type = ROTA_SETTINGS_REFUSED;
    if (!code)
        rows->written = pending;
    return code == ROTA_OK;
}

/* --- the end of a change --- */

void rota_work_broker_rows_finish(struct rota_broker_pending_change *pending, uint64_t number,
                                  const struct rota_error *error)
{
    const struct rota_setting_change *change = &pending->change;
    struct rota_work_broker *broker = pending->rows->broker;
    if (change->on_changed)
        change->on_changed(broker, change->data, queue_of(pending), change, number, error);
    free(pending);
}

static void end_change(struct rota_broker_rows *rows, struct rota_broker_pending_change *pending,
                       enum rota_settings_end how)
{
    struct rota_error *error = &pending->error;
    switch (how) {
    case ROTA_SETTINGS_DONE:
        rota_work_broker_rows_hint_peers(rows, pending);
        return;
    case ROTA_SETTINGS_INVALID:
        break;
    case ROTA_SETTINGS_UNREACHABLE:
        rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                       "nothing was changed: settings of queues are in the store, which is "
                       "unreachable; see the log of this node");
        break;
    case ROTA_SETTINGS_UNKNOWN:
        rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                       "the store did not confirm the change, which may have been made; repeat it");
        break;
    }
    rota_work_broker_rows_finish(pending, 0, error);
}

/* --- driving --- */

static void begin_jobs(struct rota_broker_rows *rows)
{
    struct rota_work_broker *broker = rows->broker;
    broker->front.fsm.is_unread = false;
    rota_work_broker_hold(broker, ROTA_BROKER_HOLD_ROWS, false);
    if (!rows->fsm.has_read)
        rota_log(broker->options.log, rota_work_broker_now().wall, ROTA_LOG_WARN,
                 "settings of queues not read, as of the last run",
                 ROTA_LOG_FACT("store", rota_store_name(rows->store)));
    if (broker->was_placed && broker->options.on_listed)
        broker->options.on_listed(broker->options.data);
}

static bool ask_rows(struct rota_broker_rows *rows, const struct rota_settings_actions *todo)
{
    uint64_t from = todo->from > 0 ? todo->from : 1; /* before any row */
    const struct rota_store_request request = {.verb = ROTA_STORE_QUEUES,
                                               .known = todo->is_all ? 0 : from};
    rows->is_reading_all = todo->is_all;
    return !rota_store_ask(rows->store, &request, on_read, rows, NULL);
}

/* False when no event follows from it. */
static bool carry_out(struct rota_broker_rows *rows, const struct rota_settings_actions *todo,
                      struct rota_settings_event *event)
{
    bool has_event = false;
    *event = (struct rota_settings_event){.type = ROTA_SETTINGS_FAILED};
    if (todo->begin)
        begin_jobs(rows);
    if (todo->read)
        has_event = !ask_rows(rows, todo);
    else if (todo->write)
        has_event =
            !write_row(rows, ROTA_CONTAINER(todo->write, struct rota_broker_pending_change, base),
                       todo->known, event);
    if (todo->ended)
        end_change(rows, ROTA_CONTAINER(todo->ended, struct rota_broker_pending_change, base),
                   todo->how);
    return has_event;
}

/* The one caller of the machine. The end of a change may begin another one. */
static void drive(struct rota_broker_rows *rows, struct rota_settings_event event)
{
    bool has_event = true;
    while (has_event) {
        rota_time now = rota_work_broker_now().boot;
        struct rota_settings_actions todo = rota_settings_fsm_step(&rows->fsm, now, &event);
        has_event = carry_out(rows, &todo, &event);
        if (!has_event && rota_settings_fsm_deadline(&rows->fsm) <= now) {
            event = (struct rota_settings_event){.type = ROTA_SETTINGS_TICK};
            has_event = true;
        }
    }
}

/* --- changing --- */

/* Without a store. */
static enum rota_code change_here(struct rota_work_broker *broker, struct rota_str queue,
                                  struct rota_setting_change *change, uint64_t *number,
                                  struct rota_error *error)
{
    const struct rota_setting_edit *edit = &change->edit;
    struct rota_work_now now = rota_work_broker_now();
    enum rota_code code = change->make ? change->make(broker, queue, change, error) : ROTA_OK;
    if (code)
        return code;
    switch (edit->type) {
    case ROTA_SETTING_PAUSE:
        return rota_broker_pause(broker->core, now, queue, edit->is_paused, number, error);
    case ROTA_SETTING_KILLS:
        return rota_broker_set_kills(broker->core, now, queue, edit->number, number, error);
    case ROTA_SETTING_WEIGHT:
        return rota_broker_set_weight(broker->core, now, queue, edit->key, edit->number, number,
                                      error);
    case ROTA_SETTING_LAYOUT:
        return rota_broker_set_layout(broker->core, now, queue, &edit->layout, edit->at, number,
                                      error);
    case ROTA_SETTING_RESET: /* with the jobs of the queue */
    case ROTA_SETTING_NONE:
        break;
    }
    return ROTA_OK;
}

/* NULL: the change can't be made, for the reason in `error`. */
static struct rota_broker_pending_change *new_pending(struct rota_broker_rows *rows,
                                                      struct rota_str queue,
                                                      const struct rota_setting_change *change,
                                                      const char *author, struct rota_error *error)
{
    enum rota_code code = rota_job_queue_check(queue, error);
    if (!code && !change->make)
        code = rota_broker_edit_check(&change->edit, error);
    if (!code && rows && !rota_settings_fsm_has_room(&rows->fsm))
        code = rota_error_set(error, ROTA_ERR_LIMIT, "%d changes of queues are waiting already",
                              ROTA_SETTINGS_CHANGES_MAX);
    struct rota_broker_pending_change *made = code ? NULL : calloc(1, sizeof *made);
    if (!made) {
        if (!code)
            rota_error_no_memory(error, "to change a queue");
        return NULL;
    }
    made->rows = rows;
    made->change = *change;
    made->queue_size = queue.size;
    memcpy(made->queue, queue.data, queue.size);
    if (change->edit.key.size > 0)
        memcpy(made->key, change->edit.key.data, change->edit.key.size);
    made->change.edit.key = rota_str_of(made->key, change->edit.key.size);
    snprintf(made->author, sizeof made->author, "%s", author);
    return made;
}

void rota_work_broker_rows_change(struct rota_work_broker *broker, struct rota_str queue,
                                  const struct rota_setting_change *change, const char *author)
{
    struct rota_setting_change own = *change;
    struct rota_error error = {0};
    uint64_t number = 0;
    struct rota_broker_pending_change *made =
        broker->rows ? new_pending(broker->rows, queue, change, author, &error) : NULL;
    if (made) {
        drive(broker->rows,
              (struct rota_settings_event){.type = ROTA_SETTINGS_CHANGE, .change = &made->base});
        rota_work_broker_touch(broker);
        return;
    }
    if (!broker->rows)
        change_here(broker, queue, &own, &number, &error);
    if (change->on_changed)
        change->on_changed(broker, change->data, queue, &own, number, &error);
    rota_work_broker_touch(broker);
}

static void on_changed_for(struct rota_work_broker *broker, void *data, struct rota_str queue,
                           const struct rota_setting_change *change, uint64_t number,
                           const struct rota_error *error)
{
    (void)queue;
    (void)change;
    if (error->code)
        rota_work_broker_reply_error(data, error, false);
    else
        rota_work_broker_reply_message(broker, data, number, NULL, NULL);
}

void rota_work_broker_rows_change_for(const struct rota_broker_request *request,
                                      struct rota_str queue, const struct rota_setting_edit *edit)
{
    char actor[ROTA_SERVER_ACTOR_MAX];
    const struct rota_setting_change change = {
        .edit = *edit, .on_changed = on_changed_for, .data = request->call};
    rota_work_broker_rows_change(request->broker, queue, &change,
                                 rota_server_call_actor(request->call, actor));
}

/* --- life --- */

bool rota_work_broker_rows_have_begun(const struct rota_broker_rows *rows)
{
    return !rows || rows->fsm.has_begun;
}

uint64_t rota_work_broker_rows_version(const struct rota_broker_rows *rows)
{
    return rows ? rows->fsm.known : 0;
}

void rota_work_broker_rows_hint(struct rota_broker_rows *rows, uint64_t version)
{
    if (rows)
        drive(rows, (struct rota_settings_event){.type = ROTA_SETTINGS_HINT, .version = version});
}

void rota_work_broker_rows_turn(struct rota_broker_rows *rows, rota_time now)
{
    if (!rows)
        return;
    if (rota_settings_fsm_deadline(&rows->fsm) <= now)
        drive(rows, (struct rota_settings_event){.type = ROTA_SETTINGS_TICK});
    import_settings(rows);
    rota_work_broker_rows_hint_turn(rows, now);
}

rota_time rota_work_broker_rows_deadline(const struct rota_broker_rows *rows)
{
    if (!rows)
        return ROTA_TIME_NEVER;
    return rota_time_min(rota_settings_fsm_deadline(&rows->fsm),
                         rota_work_broker_rows_hint_deadline(rows));
}

enum rota_code rota_work_broker_rows_open(struct rota_work_broker *broker, struct rota_error *error)
{
    struct rota_store *store = rota_work_broker_store_handle(broker);
    rota_time interval = broker->options.settings_interval;
    if (!store)
        store = broker->options.settings_store;
    if (!store)
        return ROTA_OK;
    struct rota_broker_rows *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for the settings of queues");
    made->broker = broker;
    made->store = store;
    rota_list_init(&made->told);
    rota_list_init(&made->asks);
    rota_list_init(&made->waiting);
    rota_settings_fsm_init(&made->fsm, rota_work_broker_now().boot, interval ? interval : INTERVAL,
                           broker->has_past);
    broker->rows = made;
    broker->front.fsm.is_unread = true;
    rota_work_broker_hold(broker, ROTA_BROKER_HOLD_ROWS, true);
    drive(made, (struct rota_settings_event){.type = ROTA_SETTINGS_TICK});
    return ROTA_OK;
}

void rota_work_broker_rows_close(struct rota_broker_rows *rows)
{
    struct rota_settings_change *change;
    struct rota_error error;
    if (!rows)
        return;
    rota_error_set(&error, ROTA_ERR_UNAVAILABLE,
                   "this node is stopping; the change may have been made");
    rota_store_forget(rows->store, rows);
    rota_work_broker_rows_hint_close(rows, &error);
    while ((change = rota_settings_fsm_drop(&rows->fsm)))
        rota_work_broker_rows_finish(
            ROTA_CONTAINER(change, struct rota_broker_pending_change, base), 0, &error);
    rota_buffer_deinit(&rows->bytes);
    free(rows);
}
