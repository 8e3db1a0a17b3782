/* PostgreSQL as a database of io/sql/sql.h. */
#include "io/clock.h"
#include "io/sql/sql_inside.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

/* PostgreSQL's type numbers. */
enum { OID_BYTEA = 17, OID_INT8 = 20, OID_INT2 = 21, OID_INT4 = 23 };

struct pg {
    PGconn *conn;
    rota_time patience; /* longer than the server may take */
    uint64_t n_statements;
    bool is_lost;
};

struct statement {
    char name[24];
    size_t n_arguments;
    Oid types[]; /* that the server expects */
};

/* --- failures --- */

static bool is_state(const char *state, const char *prefix)
{
    return strncmp(state, prefix, strlen(prefix)) == 0;
}

static enum rota_code code_of(const char *state)
{
    if (is_state(state, "42P01") || is_state(state, "42703") || is_state(state, "3F000"))
        return ROTA_ERR_NOT_FOUND;
    if (is_state(state, "08") || is_state(state, "57P"))
        return ROTA_ERR_UNKNOWN; /* the connection ends with it */
    if (is_state(state, "57014") || is_state(state, "55P03") || is_state(state, "40") ||
        is_state(state, "53300") || is_state(state, "25006"))
        return ROTA_ERR_UNAVAILABLE; /* timed out, locked, or read-only until it leads */
    if (is_state(state, "53") || is_state(state, "58") || is_state(state, "XX"))
        return ROTA_ERR_IO;
    return ROTA_ERR_INVALID;
}

static enum rota_code report_lost(struct pg *self, const char *why, struct rota_error *error)
{
    self->is_lost = true;
    return rota_error_set(error, ROTA_ERR_UNKNOWN, "the connection was lost: %.300s", why);
}

static enum rota_code report_failure(struct pg *self, const PGresult *result,
                                     struct rota_error *error)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (!state || PQstatus(self->conn) == CONNECTION_BAD)
        return report_lost(self, PQerrorMessage(self->conn), error);
    enum rota_code code = code_of(state);
    if (code == ROTA_ERR_UNKNOWN)
        self->is_lost = true;

    /* The table was changed under a prepared statement: start over. */
    if (is_state(state, "0A000") && text && strstr(text, "cached plan")) {
        self->is_lost = true;
        code = ROTA_ERR_UNAVAILABLE;
    }
    return rota_error_set(error, code, "%s", text ? text : PQresultErrorMessage(result));
}

/* --- waiting, with a limit --- */

static bool wait_for(struct pg *self, short events, rota_time give_up_at)
{
    struct pollfd poll_fd = {.fd = PQsocket(self->conn), .events = events};
    for (;;) {
        rota_time left = give_up_at - rota_clock_mono();
        if (left <= 0)
            return false;
        int n = poll(&poll_fd, 1, (int)((left + ROTA_MSEC - 1) / ROTA_MSEC));
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
    }
}

/* Send the statement, and wait until a result can be taken without waiting. */
static enum rota_code await_result(struct pg *self, rota_time give_up_at, struct rota_error *error)
{
    for (;;) {
        int unsent = PQflush(self->conn);
        if (unsent < 0)
            return report_lost(self, PQerrorMessage(self->conn), error);
        if (!unsent && !PQisBusy(self->conn))
            return ROTA_OK;
        short events = unsent ? POLLIN | POLLOUT : POLLIN;
        if (!wait_for(self, events, give_up_at))
            return report_lost(self, "the server did not respond in time", error);
        if (!PQconsumeInput(self->conn))
            return report_lost(self, PQerrorMessage(self->conn), error);
    }
}

static enum rota_code read_row(const PGresult *result, int row, struct rota_sql_rows *rows,
                               struct rota_error *error);

/* Take all results of the statement. */
static enum rota_code take_results(struct pg *self, struct rota_sql_rows *rows,
                                   struct rota_error *error)
{
    rota_time give_up_at = rota_time_add(rota_clock_mono(), self->patience);
    enum rota_code code = ROTA_OK;
    for (;;) {
        enum rota_code waited = await_result(self, give_up_at, error);
        if (waited)
            return waited;
        PGresult *result = PQgetResult(self->conn);
        if (!result)
            return code;
        ExecStatusType status = PQresultStatus(result);
        if (status == PGRES_SINGLE_TUPLE || status == PGRES_TUPLES_OK) {
            rows->result->n_columns = (size_t)PQnfields(result);
            for (int i = 0; !code && i < PQntuples(result); i++)
                code = read_row(result, i, rows, error);
        } else if (status != PGRES_COMMAND_OK && !code) {
            code = report_failure(self, result, error);
        }
        if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
            rows->result->n_affected = strtoull(PQcmdTuples(result), NULL, 10);
        PQclear(result);
        if (code == ROTA_ERR_LIMIT || code == ROTA_ERR_NO_MEMORY) {
            self->is_lost = true; /* rather than reading an unknown amount */
            return code;
        }
    }
}

static enum rota_code pg_tell(void *data, const char *text, struct rota_error *error)
{
    struct pg *self = data;
    struct rota_sql_result unwanted = {0};
    struct rota_sql_rows rows = {.result = &unwanted};
    if (!PQsendQuery(self->conn, text))
        return report_lost(self, PQerrorMessage(self->conn), error);
    enum rota_code code = take_results(self, &rows, error);
    rota_sql_result_deinit(&unwanted);
    return code;
}

/* --- connections --- */

static void on_notice(void *data, const PGresult *result)
{
    (void)data, (void)result;
}

static void pg_close(void *data)
{
    struct pg *self = data;
    PQfinish(self->conn);
    free(self);
}

/* A rejection by a working server is permanent. There is no code for it. */
static enum rota_code code_of_refusal(const char *text)
{
    static const char *const passing[] = {"starting up", "shutting down",    "recovery",
                                          "too many",    "connection slots", "not yet accepting"};
    if (!strstr(text, "FATAL:"))
        return ROTA_ERR_UNAVAILABLE;
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
        if (strstr(text, passing[i]))
            return ROTA_ERR_UNAVAILABLE;
    return ROTA_ERR_INVALID;
}

static PGconn *connect_(const struct rota_sql_url *url, const struct rota_sql_options *options)
{
    static const char *const tls_modes[] = {"disable", "require", "verify-full"};
    char port[8] = "", timeout[16];
    const char *names[16], *values[16];
    size_t n = 0;
    rota_time whole = options->connect_timeout / ROTA_SEC + 1;

    snprintf(timeout, sizeof timeout, "%d", whole < 86400 ? (int)whole : 86400);
    if (url->port)
        snprintf(port, sizeof port, "%u", (unsigned)url->port);
#define ADD(name, value) (names[n] = (name), values[n++] = (value))
    ADD("host", url->path[0] ? url->path : url->host);
    ADD("port", port);
    ADD("user", url->user);
    ADD("password", url->password);
    ADD("dbname", url->database);
    ADD("connect_timeout", timeout);
    ADD("sslmode", tls_modes[url->tls]);
    ADD("sslrootcert", url->ca);
    ADD("client_encoding", "UTF8");
    ADD("application_name", "rota");
    ADD(NULL, NULL);
#undef ADD
    return PQconnectdbParams(names, values, 0); /* 0: a database's name is only that */
}

/* What we rely on, whatever the server's defaults are. */
static enum rota_code set_up_session(struct pg *self, rota_time timeout, struct rota_error *error)
{
    char text[768];
    long long ms = timeout / ROTA_MSEC < INT32_MAX ? timeout / ROTA_MSEC : INT32_MAX;
    if (PQserverVersion(self->conn) < 100000)
        return rota_error_set(error, ROTA_ERR_INVALID, "Rota needs PostgreSQL 10 or later");
    snprintf(text, sizeof text,
             "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED; "
             "SET statement_timeout = %lld; SET lock_timeout = %lld; "
             "SET idle_in_transaction_session_timeout = %lld; "
             "SELECT set_config('synchronous_commit', 'on', false) "
             "WHERE current_setting('synchronous_commit') = 'off'; "
             "SET bytea_output = hex; SET TimeZone = 'UTC'; SET client_min_messages = error",
             ms ? ms : 1, ms ? ms : 1, 2 * (ms ? ms : 1));
    return pg_tell(self, text, error);
}

static enum rota_code pg_open(const struct rota_sql_url *url,
                              const struct rota_sql_options *options, void **data,
                              struct rota_error *error)
{
    struct pg *self = calloc(1, sizeof *self);
    if (!self)
        return rota_error_no_memory(error, "for a database connection");
    self->patience = rota_time_add(options->statement_timeout, ROTA_SEC);
    self->conn = connect_(url, options);

    enum rota_code code = ROTA_OK;
    if (!self->conn) {
        code = rota_error_no_memory(error, "for a database connection");
    } else if (PQstatus(self->conn) != CONNECTION_OK) {
        const char *text = PQerrorMessage(self->conn);
        code = rota_error_set(error, code_of_refusal(text), "%s", text);
    } else {
        PQsetNoticeReceiver(self->conn, on_notice, NULL);
        PQsetnonblocking(self->conn, 1);
        code = set_up_session(self, options->statement_timeout, error);
    }
    if (code) {
        pg_close(self);
        return code;
    }
    *data = self;
    return ROTA_OK;
}

/* --- statements --- */

/* Write `text` with its `?` numbered, as PostgreSQL requires; those inside quotes are unchanged.
 * NULL without memory. */
static char *number_arguments(const char *text, size_t *n_arguments)
{
    size_t size = strlen(text), n = 0, at = 0;
    char *numbered = malloc(size * 6 + 1);
    char quote = '\0';
    if (!numbered)
        return NULL;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (quote ? c == quote : c == '\'' || c == '"')
            quote = quote ? '\0' : c;
        if (c == '?' && !quote)
            at += (size_t)snprintf(numbered + at, 6, "$%zu", ++n % 10000);
        else
            numbered[at++] = c;
    }
    numbered[at] = '\0';
    *n_arguments = n;
    return numbered;
}

static enum rota_code describe_statement(struct pg *self, struct statement *statement,
                                         struct rota_error *error)
{
    rota_time give_up_at = rota_time_add(rota_clock_mono(), self->patience);
    enum rota_code code = ROTA_OK;
    if (!PQsendDescribePrepared(self->conn, statement->name))
        return report_lost(self, PQerrorMessage(self->conn), error);
    for (;;) {
        enum rota_code waited = await_result(self, give_up_at, error);
        if (waited)
            return waited;
        PGresult *result = PQgetResult(self->conn);
        if (!result)
            return code;
        if (PQresultStatus(result) != PGRES_COMMAND_OK)
            code = report_failure(self, result, error);
        for (int i = 0; !code && i < (int)statement->n_arguments && i < PQnparams(result); i++)
            statement->types[i] = PQparamtype(result, i);
        PQclear(result);
    }
}

static void pg_unprepare(void *data, void *prepared, bool is_ending)
{
    struct pg *self = data;
    struct statement *statement = prepared;
    char text[48];
    snprintf(text, sizeof text, "DEALLOCATE %s", statement->name);
    if (!self->is_lost && !is_ending)
        pg_tell(self, text, NULL);
    free(statement);
}

static enum rota_code send_prepare(struct pg *self, struct statement *statement, const char *text,
                                   const struct rota_sql_value *arguments, struct rota_error *error)
{
    struct rota_sql_result unwanted = {0};
    struct rota_sql_rows rows = {.result = &unwanted};
    for (size_t i = 0; i < statement->n_arguments; i++)
        statement->types[i] = arguments[i].type == ROTA_SQL_INT ? OID_INT8 : 0;
    if (!PQsendPrepare(self->conn, statement->name, text, (int)statement->n_arguments,
                       statement->types))
        return report_lost(self, PQerrorMessage(self->conn), error);
    enum rota_code code = take_results(self, &rows, error);
    return code ? code : describe_statement(self, statement, error);
}

static enum rota_code pg_prepare(void *data, const char *text,
                                 const struct rota_sql_value *arguments, size_t n_arguments,
                                 void **prepared, struct rota_error *error)
{
    struct pg *self = data;
    size_t n_found = 0;
    char *numbered = number_arguments(text, &n_found);
    struct statement *statement =
        calloc(1, sizeof *statement + n_arguments * sizeof statement->types[0]);
    enum rota_code code = ROTA_OK;
    if (!numbered || !statement) {
        code = rota_error_no_memory(error, "for a statement");
    } else if (n_found != n_arguments) {
        code = rota_error_set(error, ROTA_ERR_INVALID,
                              "a statement with the wrong number of arguments");
    } else {
        statement->n_arguments = n_arguments;
        snprintf(statement->name, sizeof statement->name, "r%llu",
                 (unsigned long long)++self->n_statements);
        code = send_prepare(self, statement, numbered, arguments, error);
    }
    free(numbered);
    if (code) {
        free(statement);
        return code;
    }
    *prepared = statement;
    return ROTA_OK;
}

/* The format of arguments. Numbers are texts; bytes are sent as such where the server expects
 * bytes, and as texts elsewhere, which have no NUL in PostgreSQL. */
struct sent {
    const char *values[ROTA_SQL_ARGUMENTS_MAX];
    int sizes[ROTA_SQL_ARGUMENTS_MAX];
    int formats[ROTA_SQL_ARGUMENTS_MAX];
};

static enum rota_code fill_argument(struct sent *sent, size_t i, Oid type,
                                    const struct rota_sql_value *value,
                                    struct rota_sql_rows *copies, struct rota_error *error)
{
    char number[24];
    struct rota_str text = value->bytes;
    switch (value->type) {
    case ROTA_SQL_NULL:
        return ROTA_OK;
    case ROTA_SQL_INT:
        snprintf(number, sizeof number, "%lld", (long long)value->number);
        text = rota_str(number);
        break;
    case ROTA_SQL_BYTES:
        break;
    }
    if (text.size > INT32_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "a value with more than 2^31 bytes");
    sent->sizes[i] = (int)text.size;
    if (type == OID_BYTEA && value->type == ROTA_SQL_BYTES) {
        sent->values[i] = text.size ? text.data : "";
        sent->formats[i] = 1;
        return ROTA_OK;
    }
    if (text.size && memchr(text.data, '\0', text.size))
        return rota_error_set(error, ROTA_ERR_INVALID, "a text with a NUL byte");
    char *copy = rota_sql_rows_bytes(copies, text.size + 1, error);
    if (!copy)
        return error->code;
    if (text.size)
        memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    sent->values[i] = copy;
    return ROTA_OK;
}

static enum rota_code read_bytea(const char *text, struct rota_sql_rows *rows,
                                 struct rota_sql_value *value, struct rota_error *error)
{
    size_t size = 0;
    unsigned char *bytes = PQunescapeBytea((const unsigned char *)text, &size);
    char *copy = bytes ? rota_sql_rows_bytes(rows, size, error) : NULL;
    if (copy) {
        memcpy(copy, bytes, size);
        *value = rota_sql_bytes(rota_str_of(copy, size));
    }
    PQfreemem(bytes);
    if (copy)
        return ROTA_OK;
    return bytes ? error->code : rota_error_no_memory(error, "for a value");
}

static enum rota_code read_row(const PGresult *result, int row, struct rota_sql_rows *rows,
                               struct rota_error *error)
{
    size_t n_columns = (size_t)PQnfields(result);
    struct rota_sql_value *values = rota_sql_rows_add(rows, n_columns, error);
    enum rota_code code = ROTA_OK;
    if (!values)
        return error->code;
    for (int i = 0; !code && i < (int)n_columns; i++) {
        Oid type = PQftype(result, i);
        const char *text = PQgetvalue(result, row, i);
        size_t size = (size_t)PQgetlength(result, row, i);
        if (PQgetisnull(result, row, i))
            continue;
        if (type == OID_INT8 || type == OID_INT4 || type == OID_INT2) {
            values[i] = rota_sql_int(strtoll(text, NULL, 10));
            continue;
        }
        if (type == OID_BYTEA) {
            code = read_bytea(text, rows, &values[i], error);
            continue;
        }
        char *copy = rota_sql_rows_bytes(rows, size, error);
        if (!copy)
            return error->code;
        memcpy(copy, text, size);
        values[i] = rota_sql_bytes(rota_str_of(copy, size));
    }
    return code;
}

static enum rota_code pg_run(void *data, void *prepared, const struct rota_sql_value *arguments,
                             size_t n_arguments, struct rota_sql_rows *rows,
                             struct rota_error *error)
{
    struct pg *self = data;
    struct statement *statement = prepared;
    struct rota_sql_result memory = {0};
    struct rota_sql_rows copies = {.result = &memory};
    enum rota_code code = ROTA_OK;
    struct sent *sent = calloc(1, sizeof *sent);
    if (!sent)
        return rota_error_no_memory(error, "for a statement");

    for (size_t i = 0; !code && i < n_arguments; i++)
        code = fill_argument(sent, i, statement->types[i], &arguments[i], &copies, error);
    if (!code && !PQsendQueryPrepared(self->conn, statement->name, (int)n_arguments, sent->values,
                                      sent->sizes, sent->formats, 0))
        code = report_lost(self, PQerrorMessage(self->conn), error);
    if (!code) {
        PQsetSingleRowMode(self->conn);
        code = take_results(self, rows, error);
    }
    rota_sql_result_deinit(&memory);
    free(sent);
    return code;
}

static bool pg_is_alive(void *data)
{
    struct pg *self = data;
    return !self->is_lost;
}

/* A server that stops reports it before it closes the connection: all of that is read. */
static bool pg_is_closed(void *data)
{
    enum { READS_MAX = 8 };
    struct pg *self = data;
    struct pollfd poll_fd = {.fd = PQsocket(self->conn), .events = POLLIN};
    for (int i = 0; i < READS_MAX && !self->is_lost && poll(&poll_fd, 1, 0) > 0; i++)
        self->is_lost = !PQconsumeInput(self->conn) || PQstatus(self->conn) != CONNECTION_OK;
    return self->is_lost;
}

static int pg_fd(void *data)
{
    struct pg *self = data;
    return PQsocket(self->conn);
}

static enum rota_code pg_hear(void *data, size_t *n_notices, struct rota_error *error)
{
    struct pg *self = data;
    PGnotify *notice;
    size_t n = 0;
    if (!PQconsumeInput(self->conn))
        return report_lost(self, PQerrorMessage(self->conn), error);
    while ((notice = PQnotifies(self->conn))) {
        PQfreemem(notice);
        n++;
    }
    *n_notices = n;
    return ROTA_OK;
}

const struct rota_sql_driver rota_sql_pg = {
    .open = pg_open,
    .close = pg_close,
    .prepare = pg_prepare,
    .unprepare = pg_unprepare,
    .run = pg_run,
    .tell = pg_tell,
    .is_alive = pg_is_alive,
    .is_closed = pg_is_closed,
    .fd = pg_fd,
    .hear = pg_hear,
    .begin = "BEGIN",
};
