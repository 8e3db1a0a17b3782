#include "base/hash.h"
#include "io/clock.h"
#include "io/log/sync_sql_state.h"

#include <stdlib.h>

/* --- telling --- */

/* False when the callback closed it. */
static bool report_event(struct rota_sync_sql *sync, const struct rota_sync_event *event)
{
    sync->options.on_event(sync->options.data, event);
    return !sync->is_closed;
}

static void log_event(struct rota_sync_sql *sync, enum rota_log_level level, const char *phrase,
                      const struct rota_error *error)
{
    rota_log(sync->options.log, rota_clock_wall(), level, phrase,
             ROTA_LOG_FACT("group", sync->name), ROTA_LOG_FACT("log", sync->base.name),
             ROTA_LOG_FACT("reason", error ? error->text : ""));
}

/* Answer the appends of a list, which is emptied; from `offset` on, or not at all. */
static bool answer_appends(struct rota_sync_sql *sync, struct rota_list_node *list, bool is_done,
                           uint64_t offset)
{
    ROTA_LIST_DRAIN (append, list, struct rota_sync_append, link) {
        struct rota_sync_event event = {
            .type = is_done ? ROTA_SYNC_APPENDED : ROTA_SYNC_NOT_APPENDED,
            .number = append->number,
            .offset = is_done ? offset++ : 0,
        };
        rota_list_remove(&append->link);
        free(append);
        sync->n_appends--;
        if (!report_event(sync, &event))
            return false;
    }
    return true;
}

/* Pending appends: they were meant for a log that is gone. */
static bool refuse_waiting(struct rota_sync_sql *sync)
{
    struct rota_list_node waiting;
    rota_list_take(&waiting, &sync->appends);
    bool is_open = answer_appends(sync, &waiting, false, 0);
    rota_sync_sql_turn_appends_free(&waiting);
    return is_open;
}

/* --- the group, as a turn has found it --- */

void rota_sync_sql_hear_leave(struct rota_sync_sql *sync)
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

static bool lose_group(struct rota_sync_sql *sync, const char *why)
{
    struct rota_error error;
    bool is_told = sync->is_wished && sync->is_joined;
    rota_sync_sql_hear_leave(sync);
    sync->is_wished = false;
    if (!is_told)
        return true;
    rota_error_set(&error, ROTA_ERR_UNAVAILABLE, "%.200s: group %s: %s", sync->base.name,
                   sync->name, why);
    log_event(sync, ROTA_LOG_WARN, "group membership lost", &error);
    return report_event(sync,
                        &(struct rota_sync_event){.type = ROTA_SYNC_GROUP_LOST, .error = &error});
}

/* Handle the list: which members are unresponsive or dead, and our place; `*place` stays 0 if we
 * are not in it. */
static bool see_members(struct rota_sync_sql *sync, uint64_t *place)
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
        is_well =
            rota_session_watch_see_rows(&sync->sessions, turn->heard_at, rows.items, rows.size);
    rota_vector_deinit(&rows);
    return is_well;
}

static bool tell_round(struct rota_sync_sql *sync)
{
    const struct rota_sync_turn *turn = &sync->turn;
    const struct rota_sql_result *members = &turn->members;
    struct rota_str *lines = calloc(members->n_rows, sizeof *lines);
    if (!lines) {
        sync->generation = 0; /* at the next read */
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
        .sent_at = sync->sign_at, /* not when it was read: that is not a heartbeat */
    };
    bool is_open = report_event(sync, &event);
    free(lines);
    return is_open;
}

/* The turn's result about the group. */
static bool hear_group(struct rota_sync_sql *sync)
{
    const struct rota_sync_turn *turn = &sync->turn;
    uint64_t place = 0;
    bool is_sign = false;
    if (turn->has_written && turn->join_id && turn->join_id == sync->id && !turn->is_full) {
        sync->is_joined = is_sign = true;
        log_event(sync, ROTA_LOG_INFO, "group joined", NULL);
    }
    if (turn->has_written && turn->ping_id && turn->ping_id == sync->id) {
        if (turn->is_ping_missed)
            return lose_group(sync, "this task was removed after a session without a heartbeat");
        is_sign = true;
    }
    if (is_sign)
        sync->sign_at = turn->sent_at;
    if (turn->has_members && !see_members(sync, &place))
        return true; /* without memory: at the next read */
    if (turn->has_members && sync->is_joined && place == 0)
        return lose_group(sync, "this task was removed after a session without a heartbeat");
    if (!sync->is_joined || !sync->is_wished)
        return true;
    if (turn->has_members && turn->head.generation != sync->generation &&
        turn->heard_at >= sync->round_at) {
        sync->place = place;
        sync->generation = turn->head.generation;
        if (!tell_round(sync))
            return false;
    }
    /* Without the list we can't say that there is no later round. */
    if (!is_sign || !turn->has_members || !sync->is_joined || !sync->generation)
        return true;
    return report_event(
        sync, &(struct rota_sync_event){.type = ROTA_SYNC_GROUP_OK, .sent_at = turn->sent_at});
}

/* --- the log, as a turn has found it --- */

/* The log was replaced. Its members are no longer members, and those that do not know yet have a
 * session to stop. */
static bool lose_log(struct rota_sync_sql *sync)
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
    log_event(sync, ROTA_LOG_WARN, "group log lost", &error);
    if (!refuse_waiting(sync))
        return false;
    if (!report_event(sync, &(struct rota_sync_event){.type = ROTA_SYNC_LOST, .error = &error}))
        return false;
    if (is_same_log)
        return true;
    sync->round_at = rota_time_add(rota_clock_boot(), sync->options.session);
    return lose_group(sync, sync->turn.error.text);
}

static bool tell_record(struct rota_sync_sql *sync, const struct rota_sql_result *chunk, size_t row)
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
    return report_event(sync, &event);
}

/* Deliver the records, until another read is requested, and report the end. */
static bool hear_records(struct rota_sync_sql *sync)
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
    return report_event(sync, &(struct rota_sync_event){.type = ROTA_SYNC_OK,
                                                        .end = turn->head.next,
                                                        .sent_at = turn->sent_at});
}

static bool hear_head(struct rota_sync_sql *sync)
{
    const struct rota_sync_turn *turn = &sync->turn;
    bool is_first = sync->head.id == 0;
    if (turn->head.id == 0)
        return true;
    sync->head = turn->head;
    if (!is_first)
        return true;
    sync->is_wanted = true; /* to write what is pending */
    if (turn->is_forgotten) /* the former members have a session to notice it and stop */
        sync->round_at = rota_time_add(rota_clock_boot(), sync->options.session);
    log_event(sync, ROTA_LOG_INFO, "group log open", NULL);
    return report_event(sync, &(struct rota_sync_event){.type = ROTA_SYNC_OPENED,
                                                        .first = turn->head.first,
                                                        .end = turn->head.next,
                                                        .sent_at = turn->sent_at});
}

/* --- all of it --- */

static bool is_final(const struct rota_sync_sql *sync, enum rota_code code)
{
    return code == ROTA_ERR_INVALID || (code == ROTA_ERR_NOT_FOUND && sync->options.is_observer);
}

/* It will not fix itself. */
static void fail_sync(struct rota_sync_sql *sync, const struct rota_error *error)
{
    struct rota_error copy = *error;
    sync->is_failed = true;
    if (!refuse_waiting(sync))
        return;
    report_event(sync, &(struct rota_sync_event){.type = ROTA_SYNC_FAILED, .error = &copy});
}

/* A failed turn is retried, with growing delays. Whether to report it. */
static bool hear_failure(struct rota_sync_sql *sync)
{
    const struct rota_sync_turn *turn = &sync->turn;
    rota_time wait = rota_backoff_failed(&sync->backoff, &sync->random);
    sync->retry_at = rota_time_add(rota_clock_boot(), wait);
    sync->is_wanted = true;
    if (turn->is_connected) {
        log_event(sync, ROTA_LOG_DEBUG, "group log rejected a request", &turn->error);
        return false;
    }
    bool is_news = sync->is_up || !sync->is_log_told;
    if (is_news)
        log_event(sync, ROTA_LOG_WARN, "group log unreachable", &turn->error);
    sync->base.trouble = turn->error;
    sync->is_log_told = true;
    sync->is_up = false;
    rota_session_watch_forget(&sync->sessions); /* heartbeats could not be seen */
    return is_news;
}

static void hear_success(struct rota_sync_sql *sync)
{
    rota_backoff_succeeded(&sync->backoff);
    sync->base.trouble = (struct rota_error){0};
    sync->is_up = true;
    sync->is_log_told = false;
    sync->retry_at = 0;
    if (sync->turn.is_full && !sync->is_full)
        log_event(sync, ROTA_LOG_WARN, "group full", NULL);
    if (sync->turn.join_id)
        sync->is_full = sync->turn.is_full;
}

/* Drop what is written. */
static void hear_written(struct rota_sync_sql *sync)
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

/* In the order that the listener needs. Returns early when it was closed. */
void rota_sync_sql_hear(struct rota_sync_sql *sync)
{
    struct rota_sync_turn *turn = &sync->turn;
    bool is_appended = turn->has_written;
    bool is_unreachable = turn->code && hear_failure(sync);
    if (!turn->code)
        hear_success(sync);
    if (turn->signal_code && !sync->is_deaf)
        log_event(sync, ROTA_LOG_WARN, "group log not watched", &turn->signal_error);
    if (turn->opens_signal)
        sync->is_deaf = turn->signal_code;
    hear_written(sync);
    if (is_appended && turn->append_end > sync->head.next)
        sync->head.next = turn->append_end; /* it may never be shorter from now on */
    if (!answer_appends(sync, &turn->appends, is_appended, turn->append_at))
        return;
    if (is_unreachable &&
        !report_event(
            sync, &(struct rota_sync_event){.type = ROTA_SYNC_UNREACHABLE, .error = &turn->error}))
        return;
    if (is_final(sync, turn->code)) {
        fail_sync(sync, &turn->error);
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
