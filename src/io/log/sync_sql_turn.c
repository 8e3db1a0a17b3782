#include "base/hash.h"
#include "io/clock.h"
#include "io/log/sync_sql_inside.h"

#include <stdlib.h>

#define HEAD_COLUMNS "log_id, first_offset, next_offset, generation"

/* A row at the head's end or after it is not part of the log. */
#define OVERWRITE "ON CONFLICT (name, place) DO UPDATE SET bytes = excluded.bytes"

/* SQLite lets a value have any type, and counts the characters of a text, up to a NUL. */
#define SELECT_RECORDS(size, value)                                                                \
    "SELECT place, " size ", CASE WHEN " size " <= ? THEN " value " END FROM rota_group_record "   \
    "WHERE name = ? AND place >= ? AND place < ? ORDER BY place LIMIT ?"

/* The statements that the dialects write differently, by enum rota_sql_kind. */
static const char *const select_to_write[] = {
    "SELECT " HEAD_COLUMNS ", joins FROM rota_group_head WHERE name = ?",
    NULL,
    "SELECT " HEAD_COLUMNS ", joins FROM rota_group_head WHERE name = ? FOR UPDATE",
};
static const char *const insert_record[] = {
    "INSERT INTO rota_group_record (name, place, bytes) VALUES (?, ?, CAST(? AS BLOB)) " OVERWRITE,
    NULL,
    "INSERT INTO rota_group_record (name, place, bytes) VALUES (?, ?, ?) " OVERWRITE,
};
static const char *const select_records[] = {
    SELECT_RECORDS("CASE TYPEOF(bytes) WHEN 'blob' THEN LENGTH(bytes) "
                   "ELSE LENGTH(CAST(bytes AS BLOB)) END",
                   "CAST(bytes AS BLOB)"),
    NULL,
    SELECT_RECORDS("LENGTH(bytes)", "bytes"),
};
static const char *const insert_member[] = {
    "INSERT INTO rota_group_member (name, id, place, pings, session_ms, held, line) "
    "VALUES (?, ?, ?, 1, ?, ?, CAST(? AS BLOB))",
    NULL,
    "INSERT INTO rota_group_member (name, id, place, pings, session_ms, held, line) "
    "VALUES (?, ?, ?, 1, ?, ?, ?)",
};

struct writing {
    struct rota_sync_head head;
    uint64_t joins;
    bool is_changed; /* the head is */
};

static enum rota_code run_statement(struct rota_sync_session *session, const char *text,
                                    const struct rota_sql_value *values, size_t n_values,
                                    struct rota_sql_result *result, struct rota_error *error)
{
    return rota_sql_run(session->sql, text, values, n_values, result, error);
}

static struct rota_sql_value name_of(const struct rota_sync_session *session)
{
    return rota_sql_bytes(rota_str(session->name));
}

/* Run a statement that changes rows; `*n` is how many. */
static enum rota_code change_rows(struct rota_sync_session *session, const char *text,
                                  const struct rota_sql_value *values, size_t n_values, uint64_t *n,
                                  struct rota_error *error)
{
    struct rota_sql_result result = {0};
    enum rota_code code = run_statement(session, text, values, n_values, &result, error);
    *n = result.n_affected;
    rota_sql_result_deinit(&result);
    return code;
}

/* --- whether it is still the same log --- */

static struct rota_sync_head head_at(const struct rota_sql_result *result)
{
    return (struct rota_sync_head){
        .id = (uint64_t)rota_sql_int_at(result, 0, 0),
        .first = (uint64_t)rota_sql_int_at(result, 0, 1),
        .next = (uint64_t)rota_sql_int_at(result, 0, 2),
        .generation = (uint64_t)rota_sql_int_at(result, 0, 3),
    };
}

static enum rota_code report_other_log(struct rota_sync_turn *turn, const char *why)
{
    turn->is_other = true;
    return rota_error_set(&turn->error, ROTA_ERR_UNAVAILABLE, "%s", why);
}

static enum rota_code compare_heads(struct rota_sync_turn *turn, const struct rota_sync_head *head)
{
    const struct rota_sync_head *known = &turn->known;
    if (known->id == 0)
        return ROTA_OK;
    if (head->id != known->id)
        return report_other_log(turn,
                                "the log of the group was deleted and replaced by another one");
    if (head->next < known->next)
        return report_other_log(turn, "the log of the group became shorter");
    if (turn->reads && head->first > turn->from)
        return report_other_log(turn, "the log of the group was trimmed beyond the read position");
    return ROTA_OK;
}

/* A table that was restored to an earlier state and has grown since looks valid, except for its
 * content. A restore does not happen under an open connection. */
static enum rota_code compare_tail(struct rota_sync_session *session, struct rota_sync_turn *turn)
{
    const struct rota_sql_value values[] = {name_of(session),
                                            rota_sql_int((int64_t)turn->tail_offset)};
    struct rota_sql_result result = {0};
    enum rota_code code =
        run_statement(session, "SELECT bytes FROM rota_group_record WHERE name = ? AND place = ?",
                      values, 2, &result, &turn->error);
    if (!code && result.n_rows == 1 &&
        rota_hash_sip64(turn->hash_seed, rota_sql_bytes_at(&result, 0, 0)) != turn->tail_hash)
        code = report_other_log(
            turn, "the log of the group has a different record where one was read before");
    rota_sql_result_deinit(&result);
    return code;
}

/* --- connecting --- */

static void disconnect_session(struct rota_sync_session *session)
{
    rota_sql_close(session->sql);
    session->sql = NULL;
}

static enum rota_code connect_now(struct rota_sync_session *session, struct rota_sync_turn *turn)
{
    const struct rota_sync_signal_kind *kind = session->signal->kind;
    struct rota_sql_options options = {.statement_timeout = session->timeout,
                                       .is_reader = session->is_observer};
    enum rota_code code = ROTA_OK;
    if (kind->check)
        code = kind->check(session->signal, &turn->error);
    if (!code)
        code = rota_sql_open(&session->url, &options, &session->sql, &turn->error);
    if (code)
        return code;
    turn->is_new = true;
    code = rota_sync_sql_schema_open(session, &turn->is_forgotten, &turn->error);
    if (!code && turn->known.id != 0 && turn->has_tail)
        code = compare_tail(session, turn);
    return code;
}

/* --- writing --- */

static enum rota_code write_leaves(struct rota_sync_session *session, struct rota_sync_turn *turn,
                                   struct writing *writing)
{
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; !code && i < turn->n_owed; i++) {
        const struct rota_sql_value values[] = {name_of(session),
                                                rota_sql_int((int64_t)turn->owed[i])};
        uint64_t n = 0;
        code = change_rows(session, "DELETE FROM rota_group_member WHERE name = ? AND id = ?",
                           values, 2, &n, &turn->error);
        writing->is_changed |= n > 0;
        writing->head.generation += n > 0;
    }
    return code;
}

static enum rota_code write_removes(struct rota_sync_session *session, struct rota_sync_turn *turn,
                                    struct writing *writing)
{
    enum rota_code code = ROTA_OK;
    bool is_any = false;
    for (size_t i = 0; !code && i < turn->removes.size; i++) {
        const struct rota_sync_remove *remove = &turn->removes.items[i];
        const struct rota_sql_value values[] = {name_of(session),
                                                rota_sql_int((int64_t)remove->place),
                                                rota_sql_int((int64_t)remove->pings)};
        uint64_t n = 0;
        code = change_rows(
            session, "DELETE FROM rota_group_member WHERE name = ? AND place = ? AND pings = ?",
            values, 3, &n, &turn->error);
        is_any |= n > 0;
    }
    writing->is_changed |= is_any;
    writing->head.generation += is_any;
    return code;
}

static enum rota_code write_ping(struct rota_sync_session *session, struct rota_sync_turn *turn,
                                 uint64_t id)
{
    const struct rota_sql_value values[] = {name_of(session), rota_sql_int((int64_t)id)};
    uint64_t n = 0;
    enum rota_code code = change_rows(
        session, "UPDATE rota_group_member SET pings = pings + 1 WHERE name = ? AND id = ?", values,
        2, &n, &turn->error);
    turn->is_ping_missed = !code && n == 0;
    return code;
}

/* Whether the member exists already, from a turn with an unknown outcome; and how many there
 * are. */
static enum rota_code count_members(struct rota_sync_session *session, struct rota_sync_turn *turn,
                                    int64_t *n_ours, int64_t *n)
{
    const struct rota_sql_value values[] = {rota_sql_int((int64_t)turn->join_id), name_of(session)};
    struct rota_sql_result result = {0};
    enum rota_code code = run_statement(session,
                                        "SELECT COUNT(CASE WHEN id = ? THEN 1 END), COUNT(*) "
                                        "FROM rota_group_member WHERE name = ?",
                                        values, 2, &result, &turn->error);
    if (!code) {
        *n_ours = rota_sql_int_at(&result, 0, 0);
        *n = rota_sql_int_at(&result, 0, 1);
    }
    rota_sql_result_deinit(&result);
    return code;
}

static enum rota_code write_join(struct rota_sync_session *session, struct rota_sync_turn *turn,
                                 struct writing *writing)
{
    const struct rota_sync_signal_kind *kind = session->signal->kind;
    int64_t n_ours = 0, n = 0;
    uint64_t held = 0;
    enum rota_code code = count_members(session, turn, &n_ours, &n);
    if (!code && n_ours > 0) /* only a heartbeat that was written counts */
        code = write_ping(session, turn, turn->join_id);
    if (code || n_ours > 0)
        return code;
    if (n >= ROTA_SYNC_MEMBERS_MAX) {
        turn->is_full = true;
        return ROTA_OK;
    }
    if (kind->hold)
        code = kind->hold(session->signal, turn->join_id, &held, &turn->error);
    if (code)
        return code;
    const struct rota_sql_value values[] = {
        name_of(session),
        rota_sql_int((int64_t)turn->join_id),
        rota_sql_int((int64_t)++writing->joins),
        rota_sql_int(session->session / ROTA_MSEC),
        rota_sql_int((int64_t)held),
        rota_sql_bytes(rota_str_of(turn->line, turn->line_size)),
    };
    writing->is_changed = true;
    writing->head.generation++;
    return run_statement(session, insert_member[session->url.kind], values, 6, NULL, &turn->error);
}

static enum rota_code write_appends(struct rota_sync_session *session, struct rota_sync_turn *turn,
                                    struct writing *writing)
{
    enum rota_code code = ROTA_OK;
    turn->append_at = writing->head.next;
    ROTA_LIST_EACH (a, &turn->appends, const struct rota_sync_append, link) {
        const struct rota_sql_value values[] = {name_of(session),
                                                rota_sql_int((int64_t)writing->head.next++),
                                                rota_sql_bytes(rota_str_of(a->bytes, a->size))};
        code =
            run_statement(session, insert_record[session->url.kind], values, 3, NULL, &turn->error);
        writing->is_changed = true;
        if (code)
            break;
    }
    turn->append_end = writing->head.next;
    return code;
}

/* Never beyond the end, and a part at a time. */
static enum rota_code write_trim(struct rota_sync_session *session, struct rota_sync_turn *turn,
                                 struct writing *writing)
{
    uint64_t below = turn->trim_below, first = writing->head.first;
    if (below > writing->head.next)
        below = writing->head.next;
    if (below <= first)
        return ROTA_OK;
    if (below - first > ROTA_SYNC_TRIM_MAX)
        below = first + ROTA_SYNC_TRIM_MAX;
    const struct rota_sql_value values[] = {name_of(session), rota_sql_int((int64_t)below)};
    writing->head.first = below;
    writing->is_changed = true;
    return run_statement(session, "DELETE FROM rota_group_record WHERE name = ? AND place < ?",
                         values, 2, NULL, &turn->error);
}

static enum rota_code write_head(struct rota_sync_session *session, struct rota_sync_turn *turn,
                                 const struct writing *writing)
{
    const struct rota_sync_head *head = &writing->head;
    const struct rota_sql_value values[] = {
        rota_sql_int((int64_t)head->first),
        rota_sql_int((int64_t)head->next),
        rota_sql_int((int64_t)head->generation),
        rota_sql_int((int64_t)writing->joins),
        name_of(session),
    };
    return run_statement(
        session,
        "UPDATE rota_group_head SET first_offset = ?, next_offset = ?, generation = ?, "
        "joins = ? WHERE name = ?",
        values, 5, NULL, &turn->error);
}

/* Lock the head and check that it is ours. */
static enum rota_code lock_head(struct rota_sync_session *session, struct rota_sync_turn *turn,
                                struct writing *writing)
{
    const struct rota_sql_value name = name_of(session);
    struct rota_sql_result result = {0};
    enum rota_code code =
        run_statement(session, select_to_write[session->url.kind], &name, 1, &result, &turn->error);
    if (!code && result.n_rows != 1) {
        code = report_other_log(turn, "the log of the group was deleted");
    } else if (!code) {
        writing->head = head_at(&result);
        writing->joins = (uint64_t)rota_sql_int_at(&result, 0, 4);
        code = compare_heads(turn, &writing->head);
        if (code)
            turn->head = writing->head;
    }
    rota_sql_result_deinit(&result);
    return code;
}

static enum rota_code write_inside(struct rota_sync_session *session, struct rota_sync_turn *turn,
                                   struct writing *writing)
{
    const struct rota_sync_signal_kind *kind = session->signal->kind;
    enum rota_code code = lock_head(session, turn, writing);
    if (!code)
        code = write_leaves(session, turn, writing);
    if (!code && turn->join_id)
        code = write_join(session, turn, writing);
    if (!code && turn->ping_id)
        code = write_ping(session, turn, turn->ping_id);
    if (!code)
        code = write_removes(session, turn, writing);
    if (!code)
        code = write_appends(session, turn, writing);
    if (!code && turn->trim_below)
        code = write_trim(session, turn, writing);
    if (!code && writing->is_changed)
        code = write_head(session, turn, writing);
    if (!code && writing->is_changed && kind->tell)
        code = kind->tell(session->signal, session->sql, &writing->head, &turn->error);
    return code;
}

/* All writes, in one transaction: all of it, or nothing. */
static enum rota_code write_all(struct rota_sync_session *session, struct rota_sync_turn *turn)
{
    const struct rota_sync_signal_kind *kind = session->signal->kind;
    struct writing writing = {0};
    bool is_more = turn->n_owed > 0 || turn->join_id || turn->removes.size > 0 ||
                   !rota_list_is_empty(&turn->appends) || turn->trim_below > turn->known.first;
    enum rota_code code = ROTA_OK;
    if (!is_more) {
        if (turn->ping_id)
            code = write_ping(session, turn, turn->ping_id);
        turn->has_written = !code;
        return code;
    }
    code = rota_sql_begin(session->sql, &turn->error);
    if (code)
        return code;
    code = write_inside(session, turn, &writing);
    if (code) {
        rota_sql_rollback(session->sql);
        return code;
    }
    code = rota_sql_commit(session->sql, &turn->error);
    if (code && code != ROTA_ERR_UNKNOWN)
        rota_sql_rollback(session->sql);
    if (!code && writing.is_changed && kind->told)
        kind->told(session->signal);
    turn->has_written = !code;
    return code;
}

/* --- reading --- */

static enum rota_code read_members(struct rota_sync_session *session, struct rota_sync_turn *turn)
{
    const struct rota_sql_value name = name_of(session);
    enum rota_code code = run_statement(
        session,
        "SELECT h.log_id, h.first_offset, h.next_offset, h.generation, m.id, m.place, m.pings, "
        "m.session_ms, m.held, m.line FROM rota_group_head h "
        "LEFT JOIN rota_group_member m ON m.name = h.name WHERE h.name = ? ORDER BY m.place",
        &name, 1, &turn->members, &turn->error);
    if (!code && turn->members.n_rows == 0)
        code = report_other_log(turn, "the log of the group was deleted");
    if (code)
        return code;
    turn->head = head_at(&turn->members);
    turn->has_members = true;
    return ROTA_OK;
}

/* The head; and if the members are requested, or have changed, these with it, from the same
 * snapshot. */
static enum rota_code read_head(struct rota_sync_session *session, struct rota_sync_turn *turn)
{
    const struct rota_sql_value name = name_of(session);
    struct rota_sql_result result = {0};
    enum rota_code code = ROTA_OK;
    if (!turn->looks) {
        code = run_statement(session, "SELECT " HEAD_COLUMNS " FROM rota_group_head WHERE name = ?",
                             &name, 1, &result, &turn->error);
        if (!code && result.n_rows != 1)
            code = report_other_log(turn, "the log of the group was deleted");
        else if (!code)
            turn->head = head_at(&result);
        rota_sql_result_deinit(&result);
    }
    if (!code && (turn->looks || turn->head.generation != turn->known.generation))
        code = read_members(session, turn);
    return code ? code : compare_heads(turn, &turn->head);
}

static bool find_dead(struct rota_sync_session *session, struct rota_sync_turn *turn)
{
    const struct rota_sync_signal_kind *kind = session->signal->kind;
    for (size_t i = 0; i < turn->members.n_rows; i++) {
        uint64_t id = (uint64_t)rota_sql_int_at(&turn->members, i, ROTA_SYNC_MEMBER_ID);
        uint64_t held = (uint64_t)rota_sql_int_at(&turn->members, i, ROTA_SYNC_MEMBER_HELD);
        bool is_dead = kind->is_dead && id && kind->is_dead(session->signal, id, held);
        if (!rota_vector_push(&turn->dead, is_dead))
            return false;
    }
    return true;
}

/* Records below the head's end were committed before the head was read. */
static enum rota_code read_records(struct rota_sync_session *session, struct rota_sync_turn *turn)
{
    uint64_t at = turn->from;
    size_t size = 0;
    while (at < turn->head.next && turn->n_chunks < ROTA_SYNC_CHUNKS_MAX &&
           size < ROTA_SYNC_BATCH_BYTES) {
        struct rota_sql_result *chunk = &turn->chunks[turn->n_chunks];
        const struct rota_sql_value values[] = {
            rota_sql_int(ROTA_SYNC_RECORD_MAX), name_of(session), rota_sql_int((int64_t)at),
            rota_sql_int((int64_t)turn->head.next), rota_sql_int(ROTA_SYNC_CHUNK)};
        enum rota_code code = run_statement(session, select_records[session->url.kind], values, 5,
                                            chunk, &turn->error);
        if (code)
            return code;
        turn->n_chunks++;
        for (size_t i = 0; i < chunk->n_rows; i++) {
            if ((uint64_t)rota_sql_int_at(chunk, i, ROTA_SYNC_RECORD_OFFSET) != at)
                return report_other_log(turn, "records are missing from the log of the group");
            size += rota_sql_bytes_at(chunk, i, ROTA_SYNC_RECORD_BYTES).size;
            at++;
        }
        if (chunk->n_rows == 0)
            return report_other_log(turn, "records are missing from the log of the group");
    }
    turn->has_read = true;
    return ROTA_OK;
}

/* --- the turn --- */

/* Whether the connection is to what the URL names. If not, others may know another log. */
static enum rota_code check_same_log(struct rota_sync_session *session, struct rota_sync_turn *turn)
{
    if (!rota_sql_is_alive(session->sql) || !rota_sql_look(session->sql, NULL))
        return ROTA_OK;
    return report_other_log(turn, "the file with the log of the group was replaced or removed");
}

static enum rota_code do_all(struct rota_sync_session *session, struct rota_sync_turn *turn)
{
    const struct rota_sync_signal_kind *kind = session->signal->kind;
    enum rota_code code = ROTA_OK;
    if (!session->sql)
        code = connect_now(session, turn);
    if (!code)
        code = check_same_log(session, turn);
    if (code)
        return code;
    if (turn->opens_signal)
        turn->signal_code = kind->open(session->signal, &turn->signal_error);

    /* A process that can't write may still read. */
    enum rota_code write_code = turn->known.id ? write_all(session, turn) : ROTA_OK;
    if (turn->is_other || !rota_sql_is_alive(session->sql) ||
        (write_code && write_code != ROTA_ERR_UNAVAILABLE))
        return write_code;
    struct rota_error write_error = turn->error;
    code = read_head(session, turn);
    if (!code && turn->has_members && !find_dead(session, turn))
        code = rota_error_no_memory(&turn->error, "for a list of members");
    if (!code && turn->reads)
        code = read_records(session, turn);
    if (!code && write_code)
        turn->error = write_error;
    return code ? code : write_code;
}

/* The last turn: leave, if that takes little effort. */
static void do_last(struct rota_sync_session *session, struct rota_sync_turn *turn)
{
    const struct rota_sync_signal_kind *kind = session->signal->kind;
    if (session->sql && turn->known.id && turn->n_owed > 0 && !check_same_log(session, turn))
        write_all(session, turn);
    disconnect_session(session);
    if (kind->drop)
        kind->drop(session->signal);
}

void rota_sync_sql_turn_do(struct rota_sync_session *session, struct rota_sync_turn *turn)
{
    turn->sent_at = rota_clock_boot();
    if (turn->is_last) {
        do_last(session, turn);
        return;
    }
    turn->code = do_all(session, turn);
    turn->heard_at = rota_clock_boot();
    if (turn->code && !turn->is_other && session->sql && check_same_log(session, turn))
        turn->code = ROTA_ERR_UNAVAILABLE;

    /* A lock or a timeout would be the same on another connection; for the rest a new one shows
     * what is possible. */
    bool is_bad = turn->code && turn->code != ROTA_ERR_UNAVAILABLE;
    if (session->sql && (is_bad || turn->is_other || !rota_sql_is_alive(session->sql)))
        disconnect_session(session);
    turn->is_connected = session->sql;
}

void rota_sync_sql_turn_appends_free(struct rota_list_node *appends)
{
    ROTA_LIST_DRAIN (append, appends, struct rota_sync_append, link) {
        rota_list_remove(&append->link);
        free(append);
    }
}

void rota_sync_sql_turn_clear(struct rota_sync_turn *turn)
{
    rota_sql_result_deinit(&turn->members);
    for (size_t i = 0; i < turn->n_chunks; i++)
        rota_sql_result_deinit(&turn->chunks[i]);
    rota_sync_sql_turn_appends_free(&turn->appends);
    rota_vector_deinit(&turn->removes);
    rota_vector_deinit(&turn->dead);
    *turn = (struct rota_sync_turn){.letter = turn->letter};
    rota_list_init(&turn->appends);
}
