/* Many leases kept by one statement. */
#include "io/sql/store_inside.h"

static bool push_value(struct rota_store_session *session, struct rota_sql_value value)
{
    return rota_vector_push(&session->values, value);
}

/* "shard IN (?, ...)" of all pings. The list is filled up to a power of two with the last
 * of them, so that few texts are prepared. */
static bool append_shards(struct rota_store_session *session,
                          const struct rota_store_request *request)
{
    rota_buffer_append_text(&session->text, "shard IN (");
    for (size_t i = 0; i < request->n_pings || (i & (i - 1)) != 0; i++) {
        size_t at = i < request->n_pings ? i : request->n_pings - 1;
        rota_buffer_append_text(&session->text, i ? ", ?" : "?");
        if (!push_value(session, rota_sql_int(request->pings[at].shard)))
            return false;
    }
    rota_buffer_append_char(&session->text, ')');
    return true;
}

/* To each shard its epoch; filled up in the same way. */
static bool append_epochs(struct rota_store_session *session,
                          const struct rota_store_request *request)
{
    rota_buffer_append_text(&session->text, " AND epoch = CASE shard");
    for (size_t i = 0; i < request->n_pings || (i & (i - 1)) != 0; i++) {
        const struct rota_store_ping *ping =
            &request->pings[i < request->n_pings ? i : request->n_pings - 1];
        rota_buffer_append_text(&session->text, " WHEN ? THEN ?");
        if (!push_value(session, rota_sql_int(ping->shard)) ||
            !push_value(session, rota_sql_int((int64_t)ping->epoch)))
            return false;
    }
    rota_buffer_append_text(&session->text, " END ");
    return true;
}

static void begin_statement(struct rota_store_session *session, const char *text)
{
    rota_store_text_begin(session);
    rota_store_text_expand(session->kind, text, &session->text);
}

static enum rota_code ping_all(struct rota_store_session *session,
                               const struct rota_store_request *request,
                               struct rota_sql_result *result, struct rota_error *error)
{
    begin_statement(session, "UPDATE rota_leases SET last_ping = $mark_now, ttl_ms = ?, "
                             "pings = pings + 1 WHERE space = ? AND dc = ? AND instance = ? AND ");
    bool is_written = push_value(session, rota_sql_int(request->ttl / ROTA_MSEC)) &&
                      push_value(session, rota_sql_bytes(request->space)) &&
                      push_value(session, rota_sql_bytes(request->dc)) &&
                      push_value(session, rota_sql_int((int64_t)request->instance)) &&
                      append_shards(session, request) && append_epochs(session, request);
    rota_store_text_expand(session->kind, "$returning_ping", &session->text);
    return rota_store_text_run(session, is_written, result, error);
}

static enum rota_code read_leases(struct rota_store_session *session,
                                  const struct rota_store_request *request,
                                  struct rota_sql_result *result, struct rota_error *error)
{
    begin_statement(session, "SELECT shard, host, instance, epoch FROM rota_leases "
                             "WHERE space = ? AND dc = ? AND ");
    bool is_written = push_value(session, rota_sql_bytes(request->space)) &&
                      push_value(session, rota_sql_bytes(request->dc)) &&
                      append_shards(session, request);
    rota_buffer_append_text(&session->text, " ORDER BY shard");
    return rota_store_text_run(session, is_written, result, error);
}

static struct rota_store_holder holder_of(const struct rota_store_request *request,
                                          const struct rota_store_ping *ping,
                                          const struct rota_sql_result *result, size_t row)
{
    uint64_t instance = (uint64_t)rota_sql_int_at(result, row, 2);
    uint64_t epoch = (uint64_t)rota_sql_int_at(result, row, 3);
    return (struct rota_store_holder){.is_ours =
                                          instance == request->instance && epoch == ping->epoch,
                                      .host = rota_sql_bytes_at(result, row, 1),
                                      .instance = instance,
                                      .epoch = epoch};
}

/* Some rows were not updated: each row shows its holder. One that is ours was updated, since
 * another's row does not become ours again; if more are ours than were updated that does not
 * hold. */
static enum rota_code hear_some(struct rota_store_session *session,
                                const struct rota_store_request *request, size_t n_met,
                                struct rota_store_answer *answer)
{
    struct rota_sql_result rows = {0};
    size_t n_ours = 0, row = 0;
    enum rota_code code = rota_store_text_now(session, &answer->db_now, &answer->error);
    if (!code)
        code = read_leases(session, request, &rows, &answer->error);
    size_t n_rows = rows.n_rows, n_columns = rows.n_columns;
    const struct rota_sql_result view = {
        .n_rows = n_rows, .n_columns = n_columns, .values = rows.values};
    struct rota_store_holder *holders =
        code ? NULL
             : rota_store_session_answer_rows(answer, request->n_pings, sizeof *answer->holders,
                                              &rows);
    rota_sql_result_deinit(&rows);
    if (!holders)
        return ROTA_ERR_UNKNOWN; /* some may have been kept */
    for (size_t i = 0; i < request->n_pings; i++) {
        const struct rota_store_ping *ping = &request->pings[i];
        while (row < n_rows && rota_sql_int_at(&view, row, 0) < (int64_t)ping->shard)
            row++;
        if (row < n_rows && rota_sql_int_at(&view, row, 0) == (int64_t)ping->shard)
            holders[i] = holder_of(request, ping, &view, row);
        n_ours += holders[i].is_ours;
    }
    if (n_ours > n_met)
        return rota_error_set(&answer->error, ROTA_ERR_UNKNOWN, "leases changed during the query");
    answer->holders = holders;
    answer->n_holders = request->n_pings;
    return ROTA_OK;
}

static enum rota_code hear_all(const struct rota_store_request *request,
                               struct rota_store_answer *answer)
{
    struct rota_sql_result none = {0};
    struct rota_store_holder *holders =
        rota_store_session_answer_rows(answer, request->n_pings, sizeof *answer->holders, &none);
    if (!holders)
        return ROTA_ERR_UNKNOWN;
    for (size_t i = 0; i < request->n_pings; i++)
        holders[i] = (struct rota_store_holder){
            .is_ours = true, .instance = request->instance, .epoch = request->pings[i].epoch};
    answer->holders = holders;
    answer->n_holders = request->n_pings;
    return ROTA_OK;
}

enum rota_code rota_store_pings_do(struct rota_store_session *session,
                                   const struct rota_store_request *request,
                                   struct rota_store_answer *answer)
{
    struct rota_sql_result result = {0};
    enum rota_code code = ping_all(session, request, &result, &answer->error);
    size_t n_met = result.n_rows ? result.n_rows : (size_t)result.n_affected;
    answer->db_now =
        rota_store_time(result.n_rows ? rota_sql_int_at(&result, 0, 0) : result.last_id);
    rota_sql_result_deinit(&result);
    if (code)
        return code;
    if (n_met == request->n_pings)
        return hear_all(request, answer);
    return hear_some(session, request, n_met, answer);
}
