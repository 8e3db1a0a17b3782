#include "io/clock.h"
#include "io/log/sync_sql_state.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* After a file was closed its lock is released, and not before: check this often, at these
 * intervals. */
static const rota_time look_delays[] = {20 * ROTA_MSEC, 100 * ROTA_MSEC, 400 * ROTA_MSEC};
enum { N_LOOKS = sizeof look_delays / sizeof *look_delays };

/* A statement that waits for a lock holds up all that could be read meanwhile. */
#define TIMEOUT_MIN (500 * ROTA_MSEC)

static void advance_turn(struct rota_sync_sql *sync);

/* --- wake-ups --- */

static void on_handle_freed(uv_handle_t *handle)
{
    free(handle);
}

static void stop_poll(struct rota_sync_sql *sync)
{
    if (!sync->poll)
        return;
    uv_poll_stop(sync->poll); /* the thread may close its descriptor from now on */
    uv_close((uv_handle_t *)sync->poll, on_handle_freed);
    sync->poll = NULL;
}

static void on_heard(uv_poll_t *poll, int status, int events)
{
    struct rota_sync_sql *sync = poll->data;
    (void)events;
    int heard = status ? ROTA_SYNC_HEARD_LOST : sync->signal->kind->hear(sync->signal);
    if (heard & ROTA_SYNC_HEARD_LOST)
        stop_poll(sync);
    if (heard & ROTA_SYNC_HEARD_DEATH) {
        sync->n_looks = 0;
        sync->look_at = rota_clock_boot();
    }
    if (heard & (ROTA_SYNC_HEARD_NEWS | ROTA_SYNC_HEARD_LOST))
        sync->is_wanted = true;
    advance_turn(sync);
}

static void start_poll(struct rota_sync_sql *sync)
{
    int fd = sync->signal->kind->fd(sync->signal);
    if (fd < 0 || sync->poll)
        return;
    uv_poll_t *poll = calloc(1, sizeof *poll);
    if (!poll)
        return;
    if (uv_poll_init(sync->loop, poll, fd)) {
        free(poll);
        return;
    }
    poll->data = sync;
    sync->poll = poll;
    uv_poll_start(poll, UV_READABLE, on_heard);
}

/* --- turns --- */

static void work_turn(struct rota_letter *letter)
{
    struct rota_sync_sql *sync = ROTA_CONTAINER(letter, struct rota_sync_sql, turn.letter);
    rota_sync_sql_turn_do(&sync->session, &sync->turn);
}

static void send_last(struct rota_sync_sql *sync);
static void end_thread(struct rota_sync_sql *sync);

static void done_turn(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_sync_sql *sync = ROTA_CONTAINER(letter, struct rota_sync_sql, turn.letter);
    if (!is_cancelled && !sync->is_closed) {
        start_poll(sync);
        rota_sync_sql_hear(sync);
        if (sync->is_failed)
            stop_poll(sync);
    }
    rota_sync_sql_turn_clear(&sync->turn);
    sync->is_busy = false;
    if (sync->is_last_sent)
        end_thread(sync);
    else if (sync->is_closed)
        send_last(sync);
    else
        advance_turn(sync);
}

static void post_turn(struct rota_sync_sql *sync)
{
    sync->is_busy = true;
    enum rota_code code = rota_mailbox_thread_post(sync->thread, &sync->turn.letter);
    assert(!code);
    (void)code;
}

/* Requests since the last turn. */
static void fill_group(struct rota_sync_sql *sync, struct rota_sync_turn *turn)
{
    size_t at = 0;
    const struct rota_session_row *row;
    for (size_t i = 0; i < sync->owed.size; i++)
        turn->owed[turn->n_owed++] = sync->owed.items[i];
    if (!sync->is_wished)
        return;
    if (sync->is_joined) {
        turn->ping_id = turn->beats ? sync->id : 0;
        while ((row = rota_session_watch_next(&sync->sessions, sync->place, &at)))
            if (!rota_vector_push(&turn->removes,
                                  ((struct rota_sync_remove){row->place, row->pings})))
                break;
        return;
    }
    if (sync->is_full && !turn->beats)
        return;
    if (sync->id == 0)
        sync->id = rota_sync_sql_schema_random();
    sync->is_tried = true;
    turn->join_id = sync->id;
    turn->looks = true;
    turn->line_size = sync->line_size;
    memcpy(turn->line, sync->line, sync->line_size);
}

static void start_turn(struct rota_sync_sql *sync, rota_time now)
{
    struct rota_sync_turn *turn = &sync->turn;
    turn->known = sync->head;
    turn->known.generation = sync->is_joined ? sync->generation : sync->head.generation;
    turn->beats = now >= sync->beat_at;
    turn->looks = turn->beats || now >= sync->look_at ||
                  now >= rota_session_watch_deadline(&sync->sessions, sync->place);
    if (now >= sync->look_at)
        sync->look_at = sync->n_looks < N_LOOKS ? rota_time_add(now, look_delays[sync->n_looks++])
                                                : ROTA_TIME_NEVER;
    turn->opens_signal = !sync->poll && (turn->beats || !sync->is_deaf);
    turn->reads = sync->is_reading;
    turn->from = sync->next;
    turn->has_tail = sync->has_tail && sync->is_reading;
    turn->tail_offset = sync->tail_offset;
    turn->tail_hash = sync->tail_hash;
    turn->hash_seed = sync->hash_seed;
    turn->trim_below = sync->trim_below;
    if (sync->head.id) {
        rota_list_take(&turn->appends, &sync->appends);
        fill_group(sync, turn);
    }
    sync->is_wanted = false;
    post_turn(sync);
}

static void on_timer(uv_timer_t *timer)
{
    advance_turn(timer->data);
}

static rota_time due_at(const struct rota_sync_sql *sync)
{
    rota_time due = rota_time_min(sync->beat_at, sync->look_at);
    if (sync->is_joined)
        due = rota_time_min(due, rota_session_watch_deadline(&sync->sessions, sync->place));
    if (sync->is_wanted)
        due = ROTA_TIME_MIN;
    return due > sync->retry_at ? due : sync->retry_at;
}

/* Start the next turn if it is due, or set the timer. */
static void advance_turn(struct rota_sync_sql *sync)
{
    if (sync->is_busy || sync->is_failed || sync->is_closed)
        return;
    rota_time now = rota_clock_boot(), due = due_at(sync);
    if (due <= now) {
        uv_timer_stop(&sync->timer);
        start_turn(sync, now);
        return;
    }
    rota_time ms = (due - now + ROTA_MSEC - 1) / ROTA_MSEC;
    uv_timer_start(&sync->timer, on_timer, (uint64_t)ms, 0);
}

/* --- wishes --- */

static void sql_read(struct rota_sync *base, uint64_t offset)
{
    struct rota_sync_sql *sync = (struct rota_sync_sql *)base;
    if (sync->head.id == 0)
        return; /* it is lost by now */
    sync->is_reading = true;
    sync->has_tail = false;
    sync->next = offset;
    sync->n_reads++;
    sync->is_wanted = true;
    advance_turn(sync);
}

static enum rota_code sql_append(struct rota_sync *base, uint64_t number, struct rota_str bytes,
                                 struct rota_error *error)
{
    struct rota_sync_sql *sync = (struct rota_sync_sql *)base;
    if (sync->is_failed || sync->options.is_observer)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "%.200s: cannot append: %s", base->name,
                              sync->is_failed ? "the log has failed"
                                              : "this process only observes");
    if (sync->n_appends >= ROTA_SYNC_APPENDS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "%.200s: %d records are already being written",
                              base->name, ROTA_SYNC_APPENDS_MAX);
    struct rota_sync_append *append = malloc(sizeof *append + bytes.size);
    if (!append)
        return rota_error_no_memory(error, "for a record of %zu bytes", bytes.size);
    *append = (struct rota_sync_append){.number = number, .size = bytes.size};
    if (bytes.size > 0)
        memcpy(append->bytes, bytes.data, bytes.size);
    rota_list_push(&sync->appends, &append->link);
    sync->n_appends++;
    sync->is_wanted = true;
    advance_turn(sync);
    return ROTA_OK;
}

static void sql_join(struct rota_sync *base, struct rota_str line)
{
    struct rota_sync_sql *sync = (struct rota_sync_sql *)base;
    if (sync->options.is_observer)
        return;
    rota_sync_sql_hear_leave(sync);
    sync->is_wished = true;
    sync->line_size = line.size;
    if (line.size > 0)
        memcpy(sync->line, line.data, line.size);
    sync->is_wanted = true;
    advance_turn(sync);
}

static void sql_leave(struct rota_sync *base)
{
    struct rota_sync_sql *sync = (struct rota_sync_sql *)base;
    rota_sync_sql_hear_leave(sync);
    sync->is_wished = false;
    sync->is_wanted = true;
    advance_turn(sync);
}

static void sql_trim(struct rota_sync *base, uint64_t offset)
{
    struct rota_sync_sql *sync = (struct rota_sync_sql *)base;
    if (sync->options.is_observer || offset <= sync->trim_below)
        return;
    sync->trim_below = offset;
    sync->is_wanted = true;
    advance_turn(sync);
}

/* --- the beginning and the end --- */

static void release_part(struct rota_sync_sql *sync)
{
    if (--sync->n_parts > 0)
        return;
    void (*on_closed)(void *data) = sync->on_closed;
    void *data = sync->closed_data;
    rota_sql_close(sync->session.sql);
    if (sync->signal)
        sync->signal->kind->free(sync->signal);
    rota_sync_sql_turn_clear(&sync->turn);
    rota_sync_sql_turn_appends_free(&sync->appends);
    rota_vector_deinit(&sync->owed);
    rota_session_watch_deinit(&sync->sessions);
    explicit_bzero(&sync->session.url, sizeof sync->session.url);
    free(sync->base.name);
    free(sync);
    if (on_closed)
        on_closed(data);
}

static void on_thread_closed(void *data)
{
    release_part(data);
}

static void on_timer_closed(uv_handle_t *timer)
{
    release_part(timer->data);
}

static void end_thread(struct rota_sync_sql *sync)
{
    rota_mailbox_thread_close(sync->thread, on_thread_closed, sync);
}

static void send_last(struct rota_sync_sql *sync)
{
    rota_sync_sql_hear_leave(sync);
    sync->turn.known = sync->head;
    for (size_t i = 0; i < sync->owed.size; i++)
        sync->turn.owed[sync->turn.n_owed++] = sync->owed.items[i];
    sync->turn.is_last = sync->is_last_sent = true;
    post_turn(sync);
}

static void sql_close(struct rota_sync *base, void (*on_closed)(void *data), void *data)
{
    struct rota_sync_sql *sync = (struct rota_sync_sql *)base;
    sync->is_closed = true;
    sync->on_closed = on_closed;
    sync->closed_data = data;
    stop_poll(sync);
    uv_close((uv_handle_t *)&sync->timer, on_timer_closed);
    if (!sync->is_busy)
        send_last(sync);
}

static enum rota_code fill_sync(struct rota_sync_sql *sync, const struct rota_sync_options *options,
                                struct rota_error *error)
{
    char name[ROTA_SQL_URL_TEXT_MAX];
    rota_list_init(&sync->appends);
    rota_list_init(&sync->turn.appends);
    enum rota_code code = rota_sql_url_parse(rota_str(options->url), &sync->session.url, error);
    if (code)
        return code;
    sync->options = *options;
    sync->options.url = NULL; /* the caller's; and it has the password */
    sync->options.name = NULL;
    snprintf(sync->name, sizeof sync->name, "%s", options->name);
    sync->base.engine = &rota_sync_sql;
    sync->base.name = strdup(rota_sql_url_format(&sync->session.url, name));
    if (!sync->base.name)
        return rota_error_no_memory(error, "for the log of a group");
    sync->look_at = ROTA_TIME_NEVER;
    sync->is_wanted = true;
    sync->hash_seed = rota_sync_sql_schema_random();
    sync->backoff.first = 50 * ROTA_MSEC;
    sync->backoff.max =
        options->ok_every > sync->backoff.first ? options->ok_every : sync->backoff.first;
    rota_random_init(&sync->random, rota_sync_sql_schema_random());
    rota_session_watch_init(&sync->sessions, 2 * options->ok_every, ROTA_SYNC_SESSION_MIN,
                            ROTA_SYNC_SESSION_MAX);
    sync->turn.letter = (struct rota_letter){.work = work_turn, .done = done_turn};
    const struct rota_sync_signal_kind *kind =
        sync->session.url.kind == ROTA_SQL_SQLITE ? &rota_sync_sqlite : &rota_sync_pg;
    code = kind->new (&sync->session.url, options, &sync->signal, error);
    sync->session.name = sync->name;
    sync->session.session = options->session;
    sync->session.is_observer = options->is_observer;
    sync->session.signal = sync->signal;
    sync->session.timeout = rota_time_min(options->session / 3, ROTA_SQL_TIMEOUT);
    if (sync->session.timeout < TIMEOUT_MIN)
        sync->session.timeout = TIMEOUT_MIN;
    return code;
}

static enum rota_code sql_open(struct uv_loop_s *loop, const struct rota_sync_options *options,
                               struct rota_sync **sync, struct rota_error *error)
{
    static const struct rota_thread_options thread_options = {.name = "rota-group-log",
                                                              .pending_max = 1};
    struct rota_sync_sql *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for the log of a group");
    made->loop = loop;
    made->n_parts = 1;
    enum rota_code code = fill_sync(made, options, error);
    if (!code)
        code = rota_mailbox_thread_open(loop, &thread_options, &made->thread, error);
    if (code) {
        release_part(made);
        return code;
    }
    uv_timer_init(loop, &made->timer);
    made->timer.data = made;
    made->n_parts = 2;
    *sync = &made->base;
    advance_turn(made);
    return ROTA_OK;
}

const struct rota_sync_engine rota_sync_sql = {
    .open = sql_open,
    .close = sql_close,
    .read = sql_read,
    .append = sql_append,
    .join = sql_join,
    .leave = sql_leave,
    .trim = sql_trim,
};
