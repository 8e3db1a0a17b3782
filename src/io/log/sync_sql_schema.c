#include "io/log/sync_sql_inside.h"

#include <sys/random.h>

/* By enum rota_sql_kind; MariaDB has none. Names compare byte by byte. */
static const char *const tables[][3] = {
    {
        "CREATE TABLE IF NOT EXISTS rota_group_head (name TEXT NOT NULL PRIMARY KEY, "
        "log_id BIGINT NOT NULL, first_offset BIGINT NOT NULL, next_offset BIGINT NOT NULL, "
        "generation BIGINT NOT NULL, joins BIGINT NOT NULL)",
        NULL,
        "CREATE TABLE IF NOT EXISTS rota_group_head (name TEXT COLLATE \"C\" NOT NULL PRIMARY KEY, "
        "log_id BIGINT NOT NULL, first_offset BIGINT NOT NULL, next_offset BIGINT NOT NULL, "
        "generation BIGINT NOT NULL, joins BIGINT NOT NULL)",
    },
    {
        "CREATE TABLE IF NOT EXISTS rota_group_record (name TEXT NOT NULL, place BIGINT NOT NULL, "
        "bytes BLOB NOT NULL, PRIMARY KEY (name, place))",
        NULL,
        "CREATE TABLE IF NOT EXISTS rota_group_record (name TEXT COLLATE \"C\" NOT NULL, "
        "place BIGINT NOT NULL, bytes BYTEA NOT NULL, PRIMARY KEY (name, place))",
    },
    {
        "CREATE TABLE IF NOT EXISTS rota_group_member (name TEXT NOT NULL, id BIGINT NOT NULL, "
        "place BIGINT NOT NULL, pings BIGINT NOT NULL, session_ms BIGINT NOT NULL, "
        "held BIGINT NOT NULL, line BLOB NOT NULL, PRIMARY KEY (name, id))",
        NULL,
        "CREATE TABLE IF NOT EXISTS rota_group_member (name TEXT COLLATE \"C\" NOT NULL, "
        "id BIGINT NOT NULL, place BIGINT NOT NULL, pings BIGINT NOT NULL, "
        "session_ms BIGINT NOT NULL, held BIGINT NOT NULL, line BYTEA NOT NULL, "
        "PRIMARY KEY (name, id))",
    },
    {
        "CREATE TABLE IF NOT EXISTS rota_group_schema (id BIGINT NOT NULL PRIMARY KEY, "
        "version BIGINT NOT NULL)",
        NULL,
        "CREATE TABLE IF NOT EXISTS rota_group_schema (id BIGINT NOT NULL PRIMARY KEY, "
        "version BIGINT NOT NULL)",
    },
};

uint64_t rota_sync_sql_schema_random(void)
{
    uint64_t number = 0;
    while (number == 0) {
        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
            number = 0;
        number >>= 2;
    }
    return number;
}

static enum rota_code run_statement(struct rota_sync_session *session, const char *text,
                                    struct rota_error *error)
{
    return rota_sql_run(session->sql, text, NULL, 0, NULL, error);
}

/* The version of the tables that are there; 0: none. */
static enum rota_code read_version(struct rota_sync_session *session, int64_t *version,
                                   struct rota_error *error)
{
    struct rota_sql_result result = {0};
    enum rota_code code =
        rota_sql_run(session->sql, "SELECT version FROM rota_group_schema WHERE id = 1", NULL, 0,
                     &result, error);
    if (!code)
        *version = result.n_rows == 1 ? rota_sql_int_at(&result, 0, 0) : 0;
    else if (code == ROTA_ERR_NOT_FOUND)
        *version = 0;
    rota_sql_result_deinit(&result);
    return code == ROTA_ERR_NOT_FOUND ? ROTA_OK : code;
}

static enum rota_code make_tables(struct rota_sync_session *session, struct rota_error *error)
{
    const struct rota_sql_value version = rota_sql_int(ROTA_SYNC_SCHEMA_VERSION);
    enum rota_code code = rota_sql_begin(session->sql, error);
    if (!code && session->url.kind == ROTA_SQL_POSTGRES)
        code = run_statement(session, "SELECT pg_advisory_xact_lock(7310582)", error);
    for (size_t i = 0; !code && i < sizeof tables / sizeof *tables; i++)
        code = run_statement(session, tables[i][session->url.kind], error);
    if (!code)
        code = rota_sql_run(session->sql,
                            "INSERT INTO rota_group_schema (id, version) VALUES (1, ?) "
                            "ON CONFLICT DO NOTHING",
                            &version, 1, NULL, error);
    if (!code)
        return rota_sql_commit(session->sql, error);
    rota_sql_rollback(session->sql);
    return code;
}

static enum rota_code open_tables(struct rota_sync_session *session, bool *is_made,
                                  struct rota_error *error)
{
    int64_t version = 0;
    enum rota_code code = read_version(session, &version, error);
    if (!code && version == 0 && !session->is_observer) {
        code = make_tables(session, error);
        *is_made = !code;
        if (!code)
            code = read_version(session, &version, error);
    }
    if (!code && version > ROTA_SYNC_SCHEMA_VERSION)
        code = rota_error_set(error, ROTA_ERR_INVALID,
                              "the group tables have version %lld, but this program supports "
                              "version %d: install the newer Rota that upgraded them",
                              (long long)version, ROTA_SYNC_SCHEMA_VERSION);
    return code;
}

/* Delete the remains of a former log of the group. */
static enum rota_code sweep_old_log(struct rota_sync_session *session, const char *text,
                                    bool *is_any, struct rota_error *error)
{
    const struct rota_sql_value name = rota_sql_bytes(rota_str(session->name));
    struct rota_sql_result result = {0};
    enum rota_code code = rota_sql_run(session->sql, text, &name, 1, &result, error);
    *is_any |= !code && result.n_affected > 0;
    rota_sql_result_deinit(&result);
    return code;
}

/* Of a group that never existed, or was deleted: a new log. */
static enum rota_code make_head(struct rota_sync_session *session, bool *is_left,
                                struct rota_error *error)
{
    const struct rota_sql_value values[] = {rota_sql_bytes(rota_str(session->name)),
                                            rota_sql_int((int64_t)rota_sync_sql_schema_random())};
    struct rota_sql_result result = {0};
    enum rota_code code = rota_sql_begin(session->sql, error);
    if (!code)
        code = rota_sql_run(session->sql,
                            "INSERT INTO rota_group_head (name, log_id, first_offset, next_offset, "
                            "generation, joins) VALUES (?, ?, 0, 0, 0, 0) ON CONFLICT DO NOTHING",
                            values, 2, &result, error);
    bool is_new = !code && result.n_affected > 0;
    rota_sql_result_deinit(&result);
    if (is_new)
        code =
            sweep_old_log(session, "DELETE FROM rota_group_record WHERE name = ?", is_left, error);
    if (is_new && !code)
        code =
            sweep_old_log(session, "DELETE FROM rota_group_member WHERE name = ?", is_left, error);
    if (!code)
        return rota_sql_commit(session->sql, error);
    rota_sql_rollback(session->sql);
    return code;
}

enum rota_code rota_sync_sql_schema_open(struct rota_sync_session *session, bool *is_forgotten,
                                         struct rota_error *error)
{
    const struct rota_sync_signal_kind *kind = session->signal->kind;
    bool is_made = false, is_left = false;
    const struct rota_sql_value name = rota_sql_bytes(rota_str(session->name));
    struct rota_sql_result result = {0};
    enum rota_code code = open_tables(session, &is_made, error);
    if (!code)
        code = rota_sql_run(session->sql, "SELECT 1 FROM rota_group_head WHERE name = ?", &name, 1,
                            &result, error);
    bool is_there = !code && result.n_rows > 0;
    rota_sql_result_deinit(&result);
    if (code == ROTA_ERR_NOT_FOUND || (!code && !is_there && session->is_observer)) {
        char text[ROTA_SQL_URL_TEXT_MAX];
        return rota_error_set(error, ROTA_ERR_NOT_FOUND, "%.200s: there is no group \"%s\"",
                              rota_sql_url_format(&session->url, text), session->name);
    }
    if (code || is_there)
        return code;
    bool is_known = kind->is_known(session->signal, session->sql, is_made);
    code = make_head(session, &is_left, error);
    *is_forgotten = is_left || is_known;
    return code;
}
