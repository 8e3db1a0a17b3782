/* Settings of queues as rows, of which the one without a name has the latest version of all. Before
 * any was written, the tables count that older programs had. */
#include "io/sql/store_inside.h"

#define KEEP (1 * ROTA_HOUR) /* a row that says nothing, for nodes that have to learn of it */

/* --- reading --- */

static struct rota_store_queue queue_at(const struct rota_sql_result *result, size_t row)
{
    return (struct rota_store_queue){
        .name = rota_sql_bytes_at(result, row, 0),
        .version = (uint64_t)rota_sql_int_at(result, row, 1),
        .settings = rota_sql_bytes_at(result, row, 2),
        .changed_by = rota_sql_bytes_at(result, row, 3),
        .changed_at = rota_store_time(rota_sql_int_at(result, row, 4)),
    };
}

/* One statement, and so one snapshot: no row has a later version than the latest. */
static enum rota_code read_queues(struct rota_store_session *session,
                                  const struct rota_store_request *request,
                                  struct rota_store_answer *answer)
{
    const struct rota_store_argument arguments[] = {ROTA_STORE_INT("known", request->known)};
    struct rota_sql_result result = {0};
    enum rota_code code = rota_store_text_now(session, &answer->db_now, &answer->error);
    if (!code)
        code = rota_store_run(
            session,
            "SELECT queue, version, settings, changed_by, changed_at FROM rota_queue_settings "
            "WHERE version > :known OR queue = '' ORDER BY version",
            arguments, &result, &answer->error);
    if (code)
        return code == ROTA_ERR_UNKNOWN ? ROTA_ERR_UNAVAILABLE : code; /* it only reads */
    const struct rota_sql_result rows = result; /* the values stay where they are */
    struct rota_store_queue *queues =
        rota_store_session_answer_rows(answer, rows.n_rows, sizeof *queues, &result);
    if (!queues) {
        rota_sql_result_deinit(&result);
        return ROTA_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < rows.n_rows; i++) {
        struct rota_store_queue queue = queue_at(&rows, i);
        if (queue.name.size > 0)
            queues[answer->n_queues++] = queue;
        else
            answer->highest = queue.version;
    }
    answer->queues = queues;
    if (request->known > 0 || answer->highest > 0)
        return ROTA_OK;
    rota_store_session_answer_clear(answer);
    return rota_store_former_read(session, answer);
}

/* --- writing --- */

#define INSERT                                                                                     \
    "$insert_new rota_queue_settings (queue, version, settings, changed_by, changed_at) VALUES "

/* The latest version, whose row is locked until the commit: writes come one after the other, and
 * become visible in the order of their versions. */
static enum rota_code lock_latest(struct rota_store_session *session, uint64_t *latest,
                                  struct rota_error *error)
{
    struct rota_sql_result result = {0};
    enum rota_code code = rota_store_text_run_n(
        session, "SELECT version FROM rota_queue_settings WHERE queue = '' $for_update", NULL, 0,
        &result, error);
    bool is_there = !code && result.n_rows == 1;
    *latest = is_there ? (uint64_t)rota_sql_int_at(&result, 0, 0) : 0;
    rota_sql_result_deinit(&result);
    if (code || is_there)
        return code;
    return rota_store_text_run_n(session,
                                 INSERT "('', 0, $bytes_from''$bytes_to, '', $now) $or_nothing",
                                 NULL, 0, NULL, error);
}

static enum rota_code run_counted(struct rota_store_session *session, const char *text,
                                  const struct rota_store_argument *arguments, size_t n_arguments,
                                  bool *is_done, struct rota_error *error)
{
    struct rota_sql_result result = {0};
    enum rota_code code =
        rota_store_text_run_n(session, text, arguments, n_arguments, &result, error);
    *is_done = !code && result.n_affected > 0;
    rota_sql_result_deinit(&result);
    return code;
}

static enum rota_code change_row(struct rota_store_session *session,
                                 const struct rota_store_request *request, struct rota_str queue,
                                 struct rota_str settings, uint64_t version, bool *is_done,
                                 struct rota_error *error)
{
    const struct rota_store_argument arguments[] = {
        ROTA_STORE_STR("queue", queue),          ROTA_STORE_INT("version", version),
        ROTA_STORE_STR("settings", settings),    ROTA_STORE_STR("author", request->host),
        ROTA_STORE_INT("known", request->known),
    };
    const size_t n = sizeof arguments / sizeof *arguments;
    enum rota_code code = run_counted(
        session,
        "UPDATE rota_queue_settings SET version = :version, "
        "settings = $bytes_from:settings$bytes_to, changed_by = :author, changed_at = $now "
        "WHERE queue = :queue AND version <= :known",
        arguments, n, is_done, error);
    if (code || *is_done)
        return code;
    return run_counted(session,
                       INSERT "(:queue, :version, $bytes_from:settings$bytes_to, :author, $now) "
                              "$or_nothing",
                       arguments, n, is_done, error);
}

static enum rota_code finish_change(struct rota_store_session *session, uint64_t version,
                                    struct rota_error *error)
{
    const struct rota_store_argument arguments[] = {
        ROTA_STORE_INT("version", version),
        ROTA_STORE_INT("keep", rota_store_us(KEEP)),
    };
    enum rota_code code = rota_store_text_run_n(
        session, "UPDATE rota_queue_settings SET version = :version WHERE queue = ''", arguments, 1,
        NULL, error);
    return code ? code
                : rota_store_text_run_n(session,
                                        "DELETE FROM rota_queue_settings WHERE queue <> '' AND "
                                        "LENGTH(settings) = 0 AND changed_at < $now - :keep",
                                        arguments, 2, NULL, error);
}

/* Versions follow the clock, so that those of a database that was restored from a backup are not
 * used again. */
static enum rota_code put_queue(struct rota_store_session *session,
                                const struct rota_store_request *request,
                                struct rota_store_answer *answer)
{
    uint64_t latest = 0, version = 0;
    enum rota_code code = rota_store_text_now(session, &answer->db_now, &answer->error);
    if (!code)
        code = rota_sql_begin(session->sql, &answer->error);
    if (code)
        return code == ROTA_ERR_UNKNOWN ? ROTA_ERR_UNAVAILABLE : code;
    code = lock_latest(session, &latest, &answer->error);
    if (!code) {
        uint64_t clock = (uint64_t)(answer->db_now / ROTA_MSEC);
        version = latest + 1 > clock ? latest + 1 : clock;
        code = change_row(session, request, request->config.name, request->config.text, version,
                          &answer->is_done, &answer->error);
    }
    for (size_t i = 0; !code && answer->is_done && i < request->n_keys; i += 2)
        code = change_row(session, request, request->keys[i], request->keys[i + 1], version,
                          &answer->is_done, &answer->error);
    if (!code && answer->is_done)
        code = finish_change(session, version, &answer->error);
    answer->highest = version;
    answer->previous = latest;
    if (!code && answer->is_done)
        return rota_sql_commit(session->sql, &answer->error);
    rota_sql_rollback(session->sql);
    return code;
}

enum rota_code rota_store_settings_do(struct rota_store_session *session,
                                      const struct rota_store_request *request,
                                      struct rota_store_answer *answer)
{
    return request->verb == ROTA_STORE_QUEUES ? read_queues(session, request, answer)
                                              : put_queue(session, request, answer);
}
