#include "base/hash.h"
#include "core/call/backoff.h"
#include "core/own/session_watch.h"
#include "io/clock.h"
#include "io/sync_sql_inside.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

/* After a file was closed its lock goes, and not a moment before: look so often, so long
 * after each other. */
static const rota_time look_delays[] = {20 * ROTA_MSEC, 100 * ROTA_MSEC, 400 * ROTA_MSEC};
enum { N_LOOKS = sizeof look_delays / sizeof *look_delays };

/* A statement that waits for a lock holds up all that could be read meanwhile. */
#define TIMEOUT_MIN (500 * ROTA_MSEC)

struct sql_sync {
    struct rota_sync base;
    uv_loop_t *loop;
    struct rota_sync_options options;
    char name[ROTA_SYNC_NAME_MAX + 1];
    uv_timer_t timer;
    uv_poll_t *poll; /* NULL: nothing wakes us */
    struct rota_thread *thread;
    struct rota_sync_session session; /* the thread's, while a turn is under way */
    struct rota_sync_signal *signal;
    struct rota_sync_turn turn;
    struct rota_backoff backoff;
    struct rota_random random;
    uint64_t hash_seed;

    bool is_busy;   /* a turn is under way, or is being told */
    bool is_wanted; /* there is news, or something to write */
    bool is_up, is_failed, is_closed;
    bool is_last_sent;  /* the turn after which the thread ends */
    bool is_log_told;   /* it was said already that it is away */
    bool is_deaf;       /* ... that nothing wakes us */
    rota_time retry_at; /* nothing is tried before */
    rota_time beat_at;  /* a look and a sign of life are due */
    bool is_full;       /* there was no place to join; try again with the next beat */
    rota_time look_at;  /* a process may have ended */
    int n_looks;
    int n_parts; /* of what has to end before it is freed */
    void (*on_closed)(void *data);
    void *closed_data;

    /* The log. */
    struct rota_sync_head head; /* that was told; `id` 0: none */
    bool is_reading;
    uint64_t next, n_reads;
    bool has_tail;
    uint64_t tail_offset, tail_hash;
    struct rota_sync_append *appends, **appends_end;
    size_t n_appends; /* with those of the turn */
    uint64_t trim_below;

    /* The group. */
    bool is_wished;
    char line[ROTA_SYNC_LINE_MAX];
    size_t line_size;
    uint64_t id; /* of the membership that is wished; 0: none yet */
    bool is_tried, is_joined;
    ROTA_VECTOR(uint64_t) owed; /* ids to be taken out of the table */
    uint64_t place, generation; /* of the last round that was told; 0: none */
    rota_time sign_at;          /* when the last sign of life that counted was sent */
    rota_time round_at;         /* no round before */
    struct rota_session_watch sessions;
};

#define CONTAINER(pointer, type, member)                                                           \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

static void advance(struct sql_sync *sync);

/* --- telling --- */

/* False when it was closed by who was told. */
static bool tell(struct sql_sync *sync, const struct rota_sync_event *event)
{
    sync->options.on_event(sync->options.data, event);
    return !sync->is_closed;
}

static void note(struct sql_sync *sync, enum rota_log_level level, const char *phrase,
                 const struct rota_error *error)
{
    rota_log(sync->options.log, rota_clock_wall(), level, phrase,
             ROTA_LOG_FACT("group", sync->name), ROTA_LOG_FACT("log", sync->base.name),
             ROTA_LOG_FACT("reason", error ? error->text : ""));
}

/* Answer the appends of a list, which is emptied; from `offset` on, or not at all. */
static bool answer_appends(struct sql_sync *sync, struct rota_sync_append **list, bool is_done,
                           uint64_t offset)
{
    while (*list) {
        struct rota_sync_append *append = *list;
        struct rota_sync_event event = {
            .type = is_done ? ROTA_SYNC_APPENDED : ROTA_SYNC_NOT_APPENDED,
            .number = append->number,
            .offset = is_done ? offset++ : 0,
        };
        *list = append->next;
        free(append);
        sync->n_appends--;
        if (!tell(sync, &event))
            return false;
    }
    return true;
}

/* Those that wait: they were meant for a log that is gone. */
static bool refuse_waiting(struct sql_sync *sync)
{
    struct rota_sync_append *waiting = sync->appends;
    sync->appends = NULL;
    sync->appends_end = &sync->appends;
    while (waiting) {
        struct rota_sync_append *append = waiting;
        waiting = append->next;
        append->next = NULL;
        if (!answer_appends(sync, &append, false, 0))
            break;
    }
    while (waiting) {
        struct rota_sync_append *append = waiting;
        waiting = append->next;
        free(append);
        sync->n_appends--;
    }
    return !sync->is_closed;
}

/* --- the group, as a turn has found it --- */

static void leave_table(struct sql_sync *sync)
{
    if (sync->id && sync->is_tried) {
        /* Without a place for it: its session ends it. */
        if (sync->owed.size < ROTA_SYNC_OWED_MAX)
            (void)rota_vector_push(&sync->owed, sync->id);
    }
    sync->id = 0;
    sync->is_tried = sync->is_joined = false;
    sync->place = sync->generation = 0;
}

static bool lose_group(struct sql_sync *sync, const char *why)
{
    struct rota_error error;
    bool is_told = sync->is_wished && sync->is_joined;
    leave_table(sync);
    sync->is_wished = false;
    if (!is_told)
        return true;
    rota_error_set(&error, ROTA_ERR_UNAVAILABLE, "%.200s: group %s: %s", sync->base.name,
                   sync->name, why);
    note(sync, ROTA_LOG_WARN, "group membership lost", &error);
    return tell(sync, &(struct rota_sync_event){.type = ROTA_SYNC_GROUP_LOST, .error = &error});
}

/* Take the list in: who is silent or dead, and where we are; `*place` stays 0 if we are
 * not in it. */
static bool see_members(struct sql_sync *sync, uint64_t *place)
{
    const struct rota_sync_turn *turn = &sync->turn;
    const struct rota_sql_result *members = &turn->members;
    ROTA_VECTOR(struct rota_session_row) rows = {0};
    bool is_well = rota_vector_reserve(&rows, members->n_rows);
    for (size_t i = 0; is_well && i < members->n_rows; i++) {
        uint64_t id = (uint64_t)rota_sql_int_at(members, i, ROTA_SYNC_MEMBER_ID);
        struct rota_session_row row = {
            .place = (uint64_t)rota_sql_int_at(members, i, ROTA_SYNC_MEMBER_PLACE),
            .pings = (uint64_t)rota_sql_int_at(members, i, ROTA_SYNC_MEMBER_PINGS),
            .session = ROTA_SYNC_SESSION_MAX,
            .is_dead = turn->dead.items[i],
        };
        int64_t ms = rota_sql_int_at(members, i, ROTA_SYNC_MEMBER_SESSION_MS);
        if (ms >= 0 && ms < ROTA_SYNC_SESSION_MAX / ROTA_MSEC)
            row.session = ms * ROTA_MSEC;
        if (id == 0)
            continue;
        if (id == sync->id)
            *place = row.place;
        rows.items[rows.size++] = row;
    }
    if (is_well)
        is_well = rota_session_watch_see(&sync->sessions, turn->heard_at, rows.items, rows.size);
    rota_vector_deinit(&rows);
    return is_well;
}

static bool tell_round(struct sql_sync *sync)
{
    const struct rota_sync_turn *turn = &sync->turn;
    const struct rota_sql_result *members = &turn->members;
    struct rota_str *lines = calloc(members->n_rows, sizeof *lines);
    if (!lines) {
        sync->generation = 0; /* at the next look */
        return true;
    }
    for (size_t i = 0; i < members->n_rows; i++)
        lines[i] = rota_sql_bytes_at(members, i, ROTA_SYNC_MEMBER_LINE);
    struct rota_sync_event event = {
        .type = ROTA_SYNC_ROUND,
        .generation = sync->generation,
        .members = lines,
        .n_members = members->n_rows,
        .is_leader = (uint64_t)rota_sql_int_at(members, 0, ROTA_SYNC_MEMBER_ID) == sync->id,
        .sent_at = sync->sign_at, /* not when it was read: that keeps nobody alive */
    };
    bool is_open = tell(sync, &event);
    free(lines);
    return is_open;
}

/* What the turn says of the group. */
static bool hear_group(struct sql_sync *sync)
{
    const struct rota_sync_turn *turn = &sync->turn;
    uint64_t place = 0;
    bool is_sign = false;
    if (turn->has_written && turn->join_id && turn->join_id == sync->id && !turn->is_full) {
        sync->is_joined = is_sign = true;
        note(sync, ROTA_LOG_INFO, "group joined", NULL);
    }
    if (turn->has_written && turn->ping_id && turn->ping_id == sync->id) {
        if (turn->is_ping_missed)
            return lose_group(sync, "we were removed, after a session without a sign of life");
        is_sign = true;
    }
    if (is_sign)
        sync->sign_at = turn->sent_at;
    if (turn->has_members && !see_members(sync, &place))
        return true; /* without memory: at the next look */
    if (turn->has_members && sync->is_joined && place == 0)
        return lose_group(sync, "we were removed, after a session without a sign of life");
    if (!sync->is_joined || !sync->is_wished)
        return true;
    if (turn->has_members && turn->head.generation != sync->generation &&
        turn->heard_at >= sync->round_at) {
        sync->place = place;
        sync->generation = turn->head.generation;
        if (!tell_round(sync))
            return false;
    }
    if (!is_sign || !sync->is_joined || !sync->generation)
        return true;
    return tell(sync,
                &(struct rota_sync_event){.type = ROTA_SYNC_GROUP_OK, .sent_at = turn->sent_at});
}

/* --- the log, as a turn has found it --- */

/* What was known is another's. Whoever was a member is none any more, and those that have
 * not heard of it yet have a session to stop. */
static bool lose_log(struct sql_sync *sync)
{
    struct rota_error error = {.code = ROTA_ERR_UNAVAILABLE};
    bool was_told = sync->head.id != 0;
    rota_error_set(&error, ROTA_ERR_UNAVAILABLE, "%.200s: group %s: %.250s", sync->base.name,
                   sync->name, sync->turn.error.text);
    bool is_same_log =
        sync->turn.head.id == sync->head.id && was_told && sync->turn.head.next >= sync->head.next;
    sync->head = (struct rota_sync_head){0};
    sync->is_reading = sync->has_tail = false;
    sync->trim_below = 0;
    sync->n_reads++;
    rota_session_watch_forget(&sync->sessions);
    if (!was_told)
        return true;
    note(sync, ROTA_LOG_WARN, "group log lost", &error);
    if (!refuse_waiting(sync))
        return false;
    if (!tell(sync, &(struct rota_sync_event){.type = ROTA_SYNC_LOST, .error = &error}))
        return false;
    if (is_same_log)
        return true;
    sync->round_at = rota_time_add(rota_clock_boot(), sync->options.session);
    return lose_group(sync, sync->turn.error.text);
}

static bool tell_record(struct sql_sync *sync, const struct rota_sql_result *chunk, size_t row)
{
    struct rota_sync_event event = {
        .type = ROTA_SYNC_RECORD,
        .offset = (uint64_t)rota_sql_int_at(chunk, row, ROTA_SYNC_RECORD_OFFSET),
        .size = (size_t)rota_sql_int_at(chunk, row, ROTA_SYNC_RECORD_SIZE),
        .bytes = rota_sql_bytes_at(chunk, row, ROTA_SYNC_RECORD_BYTES),
    };
    sync->next = event.offset + 1;
    sync->has_tail = event.bytes.size == event.size;
    sync->tail_offset = event.offset;
    sync->tail_hash = rota_hash_sip64(sync->hash_seed, event.bytes);
    return tell(sync, &event);
}

/* Tell the records, as long as nobody wants others, and that it was all. */
static bool hear_records(struct sql_sync *sync)
{
    const struct rota_sync_turn *turn = &sync->turn;
    uint64_t n_reads = sync->n_reads;
    if (!turn->has_read || !sync->is_reading || turn->from != sync->next)
        return true;
    for (size_t c = 0; c < turn->n_chunks; c++)
        for (size_t row = 0; row < turn->chunks[c].n_rows; row++) {
            if (!tell_record(sync, &turn->chunks[c], row))
                return false;
            if (sync->n_reads != n_reads)
                return true;
        }
    if (sync->next < turn->head.next) {
        sync->is_wanted = true;
        return true;
    }
    return tell(sync, &(struct rota_sync_event){
                          .type = ROTA_SYNC_OK, .end = turn->head.next, .sent_at = turn->sent_at});
}

static bool hear_head(struct sql_sync *sync)
{
    const struct rota_sync_turn *turn = &sync->turn;
    bool is_first = sync->head.id == 0;
    if (turn->head.id == 0)
        return true;
    sync->head = turn->head;
    if (!is_first)
        return true;
    sync->is_wanted = true; /* to write what waits */
    note(sync, ROTA_LOG_INFO, "group log open", NULL);
    return tell(sync, &(struct rota_sync_event){.type = ROTA_SYNC_OPENED,
                                                .first = turn->head.first,
                                                .end = turn->head.next,
                                                .sent_at = turn->sent_at});
}

/* --- what wakes us --- */

static void on_handle_freed(uv_handle_t *handle)
{
    free(handle);
}

static void stop_poll(struct sql_sync *sync)
{
    if (!sync->poll)
        return;
    uv_poll_stop(sync->poll); /* the thread may close its descriptor from now on */
    uv_close((uv_handle_t *)sync->poll, on_handle_freed);
    sync->poll = NULL;
}

static void on_heard(uv_poll_t *poll, int status, int events)
{
    struct sql_sync *sync = poll->data;
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
    advance(sync);
}

static void start_poll(struct sql_sync *sync)
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
    struct sql_sync *sync = CONTAINER(letter, struct sql_sync, turn.letter);
    rota_sync_turn_do(&sync->session, &sync->turn);
}

static bool is_final(const struct sql_sync *sync, enum rota_code code)
{
    return code == ROTA_ERR_INVALID || (code == ROTA_ERR_NOT_FOUND && sync->options.is_observer);
}

/* It will not get better by itself. */
static void fail(struct sql_sync *sync, const struct rota_error *error)
{
    struct rota_error copy = *error;
    note(sync, ROTA_LOG_ERROR, "group log failed", &copy);
    sync->is_failed = true;
    stop_poll(sync);
    if (!refuse_waiting(sync))
        return;
    tell(sync, &(struct rota_sync_event){.type = ROTA_SYNC_FAILED, .error = &copy});
}

/* What could not be done is tried again, later and later. */
static void hear_failure(struct sql_sync *sync)
{
    const struct rota_sync_turn *turn = &sync->turn;
    rota_time wait = rota_backoff_failed(&sync->backoff, &sync->random);
    sync->retry_at = rota_time_add(rota_clock_boot(), wait);
    sync->is_wanted = true;
    if (turn->is_connected) {
        note(sync, ROTA_LOG_DEBUG, "group log refuses", &turn->error);
        return;
    }
    if (sync->is_up || !sync->is_log_told)
        note(sync, ROTA_LOG_WARN, "group log away", &turn->error);
    sync->is_log_told = true;
    sync->is_up = false;
    rota_session_watch_forget(&sync->sessions); /* nobody could be heard of */
}

static void hear_success(struct sql_sync *sync)
{
    rota_backoff_succeeded(&sync->backoff);
    sync->is_up = true;
    sync->is_log_told = false;
    sync->retry_at = 0;
    if (sync->turn.is_full && !sync->is_full)
        note(sync, ROTA_LOG_WARN, "group full", NULL);
    if (sync->turn.join_id)
        sync->is_full = sync->turn.is_full;
}

/* Forget what is written. */
static void hear_written(struct sql_sync *sync)
{
    const struct rota_sync_turn *turn = &sync->turn;
    if (!turn->has_written)
        return;
    size_t n = turn->n_owed < sync->owed.size ? turn->n_owed : sync->owed.size;
    sync->owed.size -= n;
    for (size_t i = 0; i < sync->owed.size; i++)
        sync->owed.items[i] = sync->owed.items[i + n];
    if (turn->trim_below == 0 || turn->trim_below != sync->trim_below)
        return;
    if (turn->head.first >= turn->trim_below || turn->head.first >= turn->head.next)
        sync->trim_below = 0;
    else
        sync->is_wanted = true; /* that was a part */
}

/* In the order in which whoever listens needs it. Returns early when it was closed. */
static void hear_turn(struct sql_sync *sync)
{
    struct rota_sync_turn *turn = &sync->turn;
    bool is_appended = turn->has_written;
    if (turn->code)
        hear_failure(sync);
    else
        hear_success(sync);
    if (turn->signal_code && !sync->is_deaf)
        note(sync, ROTA_LOG_WARN, "group log not watched", &turn->signal_error);
    if (turn->opens_signal)
        sync->is_deaf = turn->signal_code;
    hear_written(sync);
    if (is_appended && turn->append_end > sync->head.next)
        sync->head.next = turn->append_end; /* it may never be shorter from now on */
    if (!answer_appends(sync, &turn->appends, is_appended, turn->append_at))
        return;
    if (is_final(sync, turn->code)) {
        fail(sync, &turn->error);
        return;
    }
    if (turn->is_other) {
        lose_log(sync);
        return;
    }
    if (turn->beats && turn->has_members && turn->has_written)
        sync->beat_at = rota_time_add(turn->sent_at, sync->options.ok_every * 3 / 4);
    if (!hear_head(sync) || !hear_records(sync))
        return;
    hear_group(sync);
}

static void send_last(struct sql_sync *sync);
static void end_thread(struct sql_sync *sync);

static void done_turn(struct rota_letter *letter, bool is_cancelled)
{
    struct sql_sync *sync = CONTAINER(letter, struct sql_sync, turn.letter);
    if (!is_cancelled && !sync->is_closed) {
        start_poll(sync);
        hear_turn(sync);
    }
    rota_sync_turn_clear(&sync->turn);
    sync->is_busy = false;
    if (sync->is_last_sent)
        end_thread(sync);
    else if (sync->is_closed)
        send_last(sync);
    else
        advance(sync);
}

static void post(struct sql_sync *sync)
{
    sync->is_busy = true;
    enum rota_code code = rota_thread_post(sync->thread, &sync->turn.letter);
    assert(!code);
    (void)code;
}

/* What has come up since the last turn. */
static void fill_group(struct sql_sync *sync, struct rota_sync_turn *turn)
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
        sync->id = rota_sync_random();
    sync->is_tried = true;
    turn->join_id = sync->id;
    turn->looks = true;
    turn->line_size = sync->line_size;
    memcpy(turn->line, sync->line, sync->line_size);
}

static void start_turn(struct sql_sync *sync, rota_time now)
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
        turn->appends = sync->appends;
        sync->appends = NULL;
        sync->appends_end = &sync->appends;
        fill_group(sync, turn);
    }
    sync->is_wanted = false;
    post(sync);
}

static void on_timer(uv_timer_t *timer)
{
    advance(timer->data);
}

static rota_time due_at(const struct sql_sync *sync)
{
    rota_time due = rota_time_min(sync->beat_at, sync->look_at);
    if (sync->is_joined)
        due = rota_time_min(due, rota_session_watch_deadline(&sync->sessions, sync->place));
    if (sync->is_wanted)
        due = ROTA_TIME_MIN;
    return due > sync->retry_at ? due : sync->retry_at;
}

/* Begin the next turn if it is time for one, or set the timer. */
static void advance(struct sql_sync *sync)
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
    struct sql_sync *sync = (struct sql_sync *)base;
    if (sync->head.id == 0)
        return; /* it is lost by now */
    sync->is_reading = true;
    sync->has_tail = false;
    sync->next = offset;
    sync->n_reads++;
    sync->is_wanted = true;
    advance(sync);
}

static enum rota_code sql_append(struct rota_sync *base, uint64_t number, struct rota_str bytes,
                                 struct rota_error *error)
{
    struct sql_sync *sync = (struct sql_sync *)base;
    if (sync->is_failed || sync->options.is_observer)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "%.200s: nothing is appended: %s",
                              base->name, sync->is_failed ? "the log has failed" : "we only look");
    if (sync->n_appends >= ROTA_SYNC_APPENDS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "%.200s: %d records are under way already",
                              base->name, ROTA_SYNC_APPENDS_MAX);
    struct rota_sync_append *append = malloc(sizeof *append + bytes.size);
    if (!append)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for a record of %zu bytes",
                              bytes.size);
    *append = (struct rota_sync_append){.number = number, .size = bytes.size};
    if (bytes.size > 0)
        memcpy(append->bytes, bytes.data, bytes.size);
    *sync->appends_end = append;
    sync->appends_end = &append->next;
    sync->n_appends++;
    sync->is_wanted = true;
    advance(sync);
    return ROTA_OK;
}

static void sql_join(struct rota_sync *base, struct rota_str line)
{
    struct sql_sync *sync = (struct sql_sync *)base;
    if (sync->options.is_observer)
        return;
    leave_table(sync);
    sync->is_wished = true;
    sync->line_size = line.size;
    if (line.size > 0)
        memcpy(sync->line, line.data, line.size);
    sync->is_wanted = true;
    advance(sync);
}

static void sql_leave(struct rota_sync *base)
{
    struct sql_sync *sync = (struct sql_sync *)base;
    leave_table(sync);
    sync->is_wished = false;
    sync->is_wanted = true;
    advance(sync);
}

static void sql_trim(struct rota_sync *base, uint64_t offset)
{
    struct sql_sync *sync = (struct sql_sync *)base;
    if (sync->options.is_observer || offset <= sync->trim_below)
        return;
    sync->trim_below = offset;
    sync->is_wanted = true;
    advance(sync);
}

/* --- the beginning and the end --- */

static void let_go(struct sql_sync *sync)
{
    if (--sync->n_parts > 0)
        return;
    void (*on_closed)(void *data) = sync->on_closed;
    void *data = sync->closed_data;
    rota_sql_close(sync->session.sql);
    if (sync->signal)
        sync->signal->kind->free(sync->signal);
    rota_sync_turn_clear(&sync->turn);
    while (sync->appends) {
        struct rota_sync_append *next = sync->appends->next;
        free(sync->appends);
        sync->appends = next;
    }
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
    let_go(data);
}

static void on_timer_closed(uv_handle_t *timer)
{
    let_go(timer->data);
}

static void end_thread(struct sql_sync *sync)
{
    rota_thread_close(sync->thread, on_thread_closed, sync);
}

static void send_last(struct sql_sync *sync)
{
    leave_table(sync);
    sync->turn.known = sync->head;
    for (size_t i = 0; i < sync->owed.size; i++)
        sync->turn.owed[sync->turn.n_owed++] = sync->owed.items[i];
    sync->turn.is_last = sync->is_last_sent = true;
    post(sync);
}

static void sql_close(struct rota_sync *base, void (*on_closed)(void *data), void *data)
{
    struct sql_sync *sync = (struct sql_sync *)base;
    sync->is_closed = true;
    sync->on_closed = on_closed;
    sync->closed_data = data;
    stop_poll(sync);
    uv_close((uv_handle_t *)&sync->timer, on_timer_closed);
    if (!sync->is_busy)
        send_last(sync);
}

static enum rota_code fill(struct sql_sync *sync, const struct rota_sync_options *options,
                           struct rota_error *error)
{
    char name[ROTA_SQL_URL_TEXT_MAX];
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
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for the log of a group");
    sync->appends_end = &sync->appends;
    sync->look_at = ROTA_TIME_NEVER;
    sync->is_wanted = true;
    sync->hash_seed = rota_sync_random();
    sync->backoff.first = 50 * ROTA_MSEC;
    sync->backoff.max =
        options->ok_every > sync->backoff.first ? options->ok_every : sync->backoff.first;
    rota_random_init(&sync->random, rota_sync_random());
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
    struct sql_sync *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for the log of a group");
    made->loop = loop;
    made->n_parts = 1;
    enum rota_code code = fill(made, options, error);
    if (!code)
        code = rota_thread_open(loop, &thread_options, &made->thread, error);
    if (code) {
        let_go(made);
        return code;
    }
    uv_timer_init(loop, &made->timer);
    made->timer.data = made;
    made->n_parts = 2;
    *sync = &made->base;
    advance(made);
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
