/* MariaDB as a database of io/sql/sql.h. */
#include "base/buffer.h"
#include "io/sql/sql_inside.h"

#include <assert.h>
#include <errmsg.h>
#include <mysql.h>
#include <mysqld_error.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    VERSION_MIN = 100600, /* knows SKIP LOCKED */
    ER_STATEMENT_TIMEOUT_ = 1969,
    ER_CONNECTION_KILLED_ = 1927,
};

enum { SHORT_MAX = 64 }; /* bytes of a number with a fraction or a time, as text */

struct mysql {
    MYSQL *mysql;
    bool is_lost;
};

struct statement {
    MYSQL_STMT *stmt;
    size_t n_columns;
    bool is_short[ROTA_SQL_COLUMNS_MAX]; /* a text of up to SHORT_MAX bytes */
    bool is_int[ROTA_SQL_COLUMNS_MAX];
    bool is_unsigned[ROTA_SQL_COLUMNS_MAX];
};

static bool is_lost(unsigned number)
{
    switch (number) {
    case ER_SERVER_SHUTDOWN:
    case ER_CONNECTION_KILLED_:
    case ER_NEW_ABORTING_CONNECTION:
        return true;
    }
    return number >= CR_MIN_ERROR && number <= CR_MYSQL_LAST_ERROR;
}

static enum rota_code code_of(unsigned number)
{
    switch (number) {
    case ER_NO_SUCH_TABLE:
    case ER_BAD_FIELD_ERROR:
        return ROTA_ERR_NOT_FOUND;
    case ER_LOCK_WAIT_TIMEOUT:
    case ER_LOCK_DEADLOCK:
    case ER_STATEMENT_TIMEOUT_:
    case ER_QUERY_INTERRUPTED:
    case ER_OPTION_PREVENTS_STATEMENT: /* read-only, until an operator makes it the leader */
    case ER_CON_COUNT_ERROR:
    case ER_TOO_MANY_USER_CONNECTIONS:
        return ROTA_ERR_UNAVAILABLE;
    case ER_OUTOFMEMORY:
    case ER_OUT_OF_RESOURCES:
    case ER_DISK_FULL:
    case ER_RECORD_FILE_FULL:
    case ER_GET_ERRNO:
        return ROTA_ERR_IO;
    case CR_OUT_OF_MEMORY:
        return ROTA_ERR_NO_MEMORY;
    case CR_NET_PACKET_TOO_LARGE:
        return ROTA_ERR_LIMIT;
    }
    return is_lost(number) ? ROTA_ERR_UNKNOWN : ROTA_ERR_INVALID;
}

static enum rota_code report_failure(struct mysql *self, unsigned number, const char *text,
                                     struct rota_error *error)
{
    enum rota_code code = code_of(number);
    if (is_lost(number))
        self->is_lost = true;
    return rota_error_set(error, code, "%s", text);
}

static enum rota_code mysql_tell(void *data, const char *text, struct rota_error *error)
{
    struct mysql *self = data;
    if (mysql_query(self->mysql, text) == 0)
        return ROTA_OK;
    return report_failure(self, mysql_errno(self->mysql), mysql_error(self->mysql), error);
}

/* --- connections --- */

static unsigned to_whole_seconds(rota_time span)
{
    rota_time whole = span / ROTA_SEC + (span % ROTA_SEC != 0);
    return whole < 86400 ? (unsigned)whole : 86400;
}

static void set_options(MYSQL *mysql, const struct rota_sql_url *url,
                        const struct rota_sql_options *options)
{
    unsigned connect_timeout = to_whole_seconds(options->connect_timeout);
    unsigned patience =
        to_whole_seconds(options->statement_timeout) + 1; /* the server ends it first */
    size_t packet_max = ROTA_SQL_RESULT_MAX;
    unsigned protocol = url->path[0] ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
    unsigned local_infile = 0;
    my_bool is_enforced = url->tls != ROTA_SQL_TLS_OFF;
    my_bool is_verified = url->tls == ROTA_SQL_TLS_VERIFY;
    my_bool no = 0;

    mysql_options(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &connect_timeout);
    mysql_options(mysql, MYSQL_OPT_READ_TIMEOUT, &patience);
    mysql_options(mysql, MYSQL_OPT_WRITE_TIMEOUT, &patience);
    mysql_options(mysql, MYSQL_OPT_MAX_ALLOWED_PACKET, &packet_max);
    mysql_options(mysql, MYSQL_OPT_PROTOCOL, &protocol);
    mysql_options(mysql, MYSQL_OPT_LOCAL_INFILE, &local_infile);
    mysql_options(mysql, MYSQL_OPT_RECONNECT, &no);
    mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_options(mysql, MYSQL_OPT_SSL_ENFORCE, &is_enforced);
    mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &is_verified);
    if (url->ca[0])
        mysql_options(mysql, MYSQL_OPT_SSL_CA, url->ca);

    /* A server that is not verified never gets the password in plaintext. */
    if (url->tls == ROTA_SQL_TLS_OFF && !url->path[0])
        mysql_options(mysql, MARIADB_OPT_RESTRICTED_AUTH,
                      "mysql_native_password,client_ed25519,caching_sha2_password");
}

/* What we rely on, whatever the server's defaults are. */
static enum rota_code set_up_session(struct mysql *self, const struct rota_sql_options *options,
                                     struct rota_error *error)
{
    char text[512];
    unsigned long version = mysql_get_server_version(self->mysql);
    const char *info = mysql_get_server_info(self->mysql);
    if (version < VERSION_MIN || !info || !strstr(info, "MariaDB"))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the server is %.60s, but Rota needs MariaDB 10.6 or later",
                              info ? info : "unknown");

    unsigned whole = to_whole_seconds(options->statement_timeout);
    snprintf(text, sizeof text,
             "SET SESSION autocommit = 1, time_zone = '+00:00', "
             "sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', "
             "innodb_lock_wait_timeout = %u, lock_wait_timeout = %u, "
             "idle_transaction_timeout = %u, max_statement_time = %.3f",
             whole, whole, 2 * whole, (double)options->statement_timeout / (double)ROTA_SEC);
    enum rota_code code = mysql_tell(self, text, error);
    if (code)
        return code;
    return mysql_tell(self, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", error);
}

static void mysql_close_(void *data)
{
    struct mysql *self = data;
    if (self->mysql)
        mysql_close(self->mysql);
    free(self);
}

static enum rota_code connect_(struct mysql *self, const struct rota_sql_url *url,
                               struct rota_error *error)
{
    /* An update counts a row that it finds, even when the value stays the same. */
    if (mysql_real_connect(self->mysql, url->path[0] ? NULL : url->host, url->user, url->password,
                           url->database, url->port, url->path[0] ? url->path : NULL,
                           CLIENT_FOUND_ROWS | CLIENT_MULTI_STATEMENTS))
        return ROTA_OK;
    unsigned number = mysql_errno(self->mysql);
    bool is_down = number == CR_CONNECTION_ERROR || number == CR_CONN_HOST_ERROR;
    return rota_error_set(error, code_of(number), "%s%s", mysql_error(self->mysql),
                          is_down ? "; is MariaDB running there?" : "");
}

static enum rota_code mysql_open(const struct rota_sql_url *url,
                                 const struct rota_sql_options *options, void **data,
                                 struct rota_error *error)
{
    struct mysql *self = calloc(1, sizeof *self);
    if (!self || !(self->mysql = mysql_init(NULL))) {
        free(self);
        return rota_error_no_memory(error, "for a database connection");
    }
    set_options(self->mysql, url, options);
    enum rota_code code = connect_(self, url, error);
    if (!code)
        code = set_up_session(self, options, error);
    if (code) {
        mysql_close_(self);
        return code;
    }
    *data = self;
    return ROTA_OK;
}

/* --- statements --- */

static void mysql_unprepare(void *data, void *prepared, bool is_ending)
{
    struct statement *statement = prepared;
    (void)data, (void)is_ending;
    if (statement->stmt)
        mysql_stmt_close(statement->stmt);
    free(statement);
}

static bool is_int_type(enum enum_field_types type)
{
    return type == MYSQL_TYPE_TINY || type == MYSQL_TYPE_SHORT || type == MYSQL_TYPE_LONG ||
           type == MYSQL_TYPE_INT24 || type == MYSQL_TYPE_LONGLONG || type == MYSQL_TYPE_YEAR;
}

/* They arrive in binary and become texts here, of a size that is known only then. */
static bool is_short_type(enum enum_field_types type)
{
    return type == MYSQL_TYPE_FLOAT || type == MYSQL_TYPE_DOUBLE || type == MYSQL_TYPE_DATE ||
           type == MYSQL_TYPE_TIME || type == MYSQL_TYPE_DATETIME || type == MYSQL_TYPE_TIMESTAMP;
}

static enum rota_code learn_columns(struct statement *statement, struct rota_error *error)
{
    MYSQL_RES *columns = mysql_stmt_result_metadata(statement->stmt);
    if (!columns)
        return ROTA_OK; /* it returns no rows */
    statement->n_columns = mysql_num_fields(columns);
    enum rota_code code = ROTA_OK;
    if (statement->n_columns > ROTA_SQL_COLUMNS_MAX)
        code = rota_error_set(error, ROTA_ERR_LIMIT, "a result with more than %d columns",
                              ROTA_SQL_COLUMNS_MAX);
    for (size_t i = 0; !code && i < statement->n_columns; i++) {
        MYSQL_FIELD *field = mysql_fetch_field_direct(columns, (unsigned)i);
        statement->is_int[i] = is_int_type(field->type);
        statement->is_short[i] = is_short_type(field->type);
        statement->is_unsigned[i] = field->flags & UNSIGNED_FLAG;
    }
    mysql_free_result(columns);
    return code;
}

static enum rota_code mysql_prepare_(void *data, const char *text,
                                     const struct rota_sql_value *arguments, size_t n_arguments,
                                     void **prepared, struct rota_error *error)
{
    struct mysql *self = data;
    struct statement *statement = calloc(1, sizeof *statement);
    enum rota_code code = ROTA_OK;
    (void)arguments;
    if (!statement || !(statement->stmt = mysql_stmt_init(self->mysql)))
        code = rota_error_no_memory(error, "for a statement");
    else if (mysql_stmt_prepare(statement->stmt, text, strlen(text)))
        code = report_failure(self, mysql_stmt_errno(statement->stmt),
                              mysql_stmt_error(statement->stmt), error);
    else if (mysql_stmt_param_count(statement->stmt) != n_arguments)
        code = rota_error_set(error, ROTA_ERR_INVALID,
                              "a statement with the wrong number of arguments");
    else
        code = learn_columns(statement, error);
    if (code) {
        if (statement)
            mysql_unprepare(self, statement, false);
        return code;
    }
    *prepared = statement;
    return ROTA_OK;
}

static void bind_arguments(MYSQL_BIND *binds, const struct rota_sql_value *arguments, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct rota_sql_value *value = &arguments[i];
        switch (value->type) {
        case ROTA_SQL_NULL:
            binds[i].buffer_type = MYSQL_TYPE_NULL;
            break;
        case ROTA_SQL_INT:
            binds[i].buffer_type = MYSQL_TYPE_LONGLONG;
            binds[i].buffer = (void *)&value->number;
            break;
        case ROTA_SQL_BYTES:
            binds[i].buffer_type = MYSQL_TYPE_STRING;
            binds[i].buffer = (void *)(value->bytes.size ? value->bytes.data : "");
            binds[i].buffer_length = value->bytes.size;
            break;
        }
    }
}

static enum rota_code stmt_failed(struct mysql *self, MYSQL_STMT *stmt, struct rota_error *error)
{
    unsigned number = mysql_stmt_errno(stmt);
    if (number)
        return report_failure(self, number, mysql_stmt_error(stmt), error);

    /* Between two rows the library does not report it, or only on the connection. */
    number = mysql_errno(self->mysql);
    if (number)
        return report_failure(self, number, mysql_error(self->mysql), error);
    return report_failure(self, CR_SERVER_LOST, "the rows ended early", error);
}

static enum rota_code execute_statement(struct mysql *self, struct statement *statement,
                                        const struct rota_sql_value *arguments, size_t n_arguments,
                                        struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    MYSQL_BIND *binds = calloc(n_arguments ? n_arguments : 1, sizeof *binds);
    if (!binds)
        return rota_error_no_memory(error, "for a statement");
    bind_arguments(binds, arguments, n_arguments);
    if (mysql_stmt_bind_param(statement->stmt, binds) || mysql_stmt_execute(statement->stmt))
        code = stmt_failed(self, statement->stmt, error);
    free(binds);
    return code;
}

/* Buffers for a row: numbers and converted texts at once, bytes when their size is known. */
struct cells {
    MYSQL_BIND binds[ROTA_SQL_COLUMNS_MAX];
    int64_t numbers[ROTA_SQL_COLUMNS_MAX];
    char texts[ROTA_SQL_COLUMNS_MAX][SHORT_MAX];
    unsigned long sizes[ROTA_SQL_COLUMNS_MAX];
    my_bool is_null[ROTA_SQL_COLUMNS_MAX];
};

static enum rota_code read_row(struct mysql *self, struct statement *statement, struct cells *cells,
                               struct rota_sql_rows *rows, struct rota_error *error)
{
    struct rota_sql_value *row = rota_sql_rows_add(rows, statement->n_columns, error);
    if (!row)
        return error->code;
    for (size_t i = 0; i < statement->n_columns; i++) {
        if (cells->is_null[i])
            continue;
        if (statement->is_int[i]) {
            if (statement->is_unsigned[i] && cells->numbers[i] < 0)
                return rota_error_set(error, ROTA_ERR_LIMIT, "a number above 2^63");
            row[i] = rota_sql_int(cells->numbers[i]);
            continue;
        }
        size_t size = cells->sizes[i];
        char *copy = rota_sql_rows_bytes(rows, size + 1, error);
        if (!copy)
            return error->code;
        row[i] = rota_sql_bytes(rota_str_of(copy, size));
        if (statement->is_short[i] && size <= SHORT_MAX) {
            memcpy(copy, cells->texts[i], size);
            continue;
        }
        MYSQL_BIND cell = {.buffer_type = MYSQL_TYPE_STRING,
                           .buffer = copy,
                           .buffer_length = size + 1,
                           .length = &cells->sizes[i],
                           .is_null = &cells->is_null[i]};
        if (size > 0 && mysql_stmt_fetch_column(statement->stmt, &cell, (unsigned)i, 0))
            return stmt_failed(self, statement->stmt, error);
    }
    return ROTA_OK;
}

static enum rota_code fetch_rows(struct mysql *self, struct statement *statement,
                                 struct rota_sql_rows *rows, struct rota_error *error)
{
    struct cells cells = {0};
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; i < statement->n_columns; i++) {
        bool is_int = statement->is_int[i], is_short = statement->is_short[i];
        cells.binds[i] = (MYSQL_BIND){
            .buffer_type = is_int ? MYSQL_TYPE_LONGLONG : MYSQL_TYPE_STRING,
            .buffer = is_int     ? (void *)&cells.numbers[i]
                      : is_short ? cells.texts[i]
                                 : NULL,
            .buffer_length = is_int     ? sizeof cells.numbers[i]
                             : is_short ? SHORT_MAX
                                        : 0,
            .length = &cells.sizes[i],
            .is_null = &cells.is_null[i],
            .is_unsigned = statement->is_unsigned[i],
        };
    }
    if (mysql_stmt_bind_result(statement->stmt, cells.binds))
        return stmt_failed(self, statement->stmt, error);
    while (!code) {
        int result = mysql_stmt_fetch(statement->stmt);
        if (result == MYSQL_NO_DATA)
            break;
        if (result == 0 || result == MYSQL_DATA_TRUNCATED)
            code = read_row(self, statement, &cells, rows, error);
        else
            code = stmt_failed(self, statement->stmt, error);
    }
    mysql_stmt_free_result(statement->stmt);
    return code;
}

static enum rota_code mysql_run(void *data, void *prepared, const struct rota_sql_value *arguments,
                                size_t n_arguments, struct rota_sql_rows *rows,
                                struct rota_error *error)
{
    struct mysql *self = data;
    struct statement *statement = prepared;
    enum rota_code code = execute_statement(self, statement, arguments, n_arguments, error);
    if (code)
        return code;
    rows->result->n_columns = statement->n_columns;
    if (statement->n_columns > 0)
        return fetch_rows(self, statement, rows, error);
    rows->result->n_affected = mysql_stmt_affected_rows(statement->stmt);
    rows->result->last_id = (int64_t)mysql_stmt_insert_id(statement->stmt);
    return ROTA_OK;
}

/* --- several statements at once --- */

/* Write the statements with their arguments in place. A string is written as the hex of
 * its bytes: there is nothing in it that could end it. */
static void write_script(struct rota_buffer *script, const char *text,
                         const struct rota_sql_value *arguments, size_t n_arguments)
{
    size_t n = 0;
    for (; *text; text++) {
        if (*text != '?' || n == n_arguments) {
            rota_buffer_append_char(script, *text);
            continue;
        }
        const struct rota_sql_value *value = &arguments[n++];
        switch (value->type) {
        case ROTA_SQL_NULL:
            rota_buffer_append_text(script, "NULL");
            break;
        case ROTA_SQL_INT:
            rota_buffer_print(script, "%lld", (long long)value->number);
            break;
        case ROTA_SQL_BYTES:
            rota_buffer_append_text(script, "_utf8mb4 x'");
            for (size_t i = 0; i < value->bytes.size; i++)
                rota_buffer_print(script, "%02x", (unsigned char)value->bytes.data[i]);
            rota_buffer_append_char(script, '\'');
            break;
        }
    }
}

static enum rota_code read_text_rows(struct mysql *self, MYSQL_RES *answer,
                                     struct rota_sql_rows *rows, struct rota_error *error)
{
    size_t n_columns = mysql_num_fields(answer);
    const MYSQL_FIELD *fields = mysql_fetch_fields(answer);
    MYSQL_ROW texts;
    while ((texts = mysql_fetch_row(answer))) {
        const unsigned long *sizes = mysql_fetch_lengths(answer);
        struct rota_sql_value *row = rota_sql_rows_add(rows, n_columns, error);
        if (!row)
            return error->code;
        for (size_t i = 0; i < n_columns; i++) {
            if (!texts[i])
                continue;
            if (is_int_type(fields[i].type)) {
                row[i] = rota_sql_int(strtoll(texts[i], NULL, 10));
                continue;
            }
            char *copy = rota_sql_rows_bytes(rows, sizes[i], error);
            if (!copy)
                return error->code;
            memcpy(copy, texts[i], sizes[i]);
            row[i] = rota_sql_bytes(rota_str_of(copy, sizes[i]));
        }
    }
    if (mysql_errno(self->mysql))
        return report_failure(self, mysql_errno(self->mysql), mysql_error(self->mysql), error);
    return ROTA_OK;
}

static enum rota_code take_answers(struct mysql *self, struct rota_sql_rows *rows,
                                   struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    for (int more = 0; more == 0; more = mysql_next_result(self->mysql)) {
        MYSQL_RES *answer = mysql_store_result(self->mysql);
        if (!answer && mysql_field_count(self->mysql) > 0 && !code)
            code = report_failure(self, mysql_errno(self->mysql), mysql_error(self->mysql), error);
        if (!answer)
            continue;                         /* it returns no rows */
        rota_sql_result_deinit(rows->result); /* only the last counts */
        *rows = (struct rota_sql_rows){.result = rows->result};
        if (!code)
            code = read_text_rows(self, answer, rows, error);
        mysql_free_result(answer);
    }
    if (!code && mysql_errno(self->mysql))
        code = report_failure(self, mysql_errno(self->mysql), mysql_error(self->mysql), error);
    return code;
}

static enum rota_code mysql_script(void *data, const char *text,
                                   const struct rota_sql_value *arguments, size_t n_arguments,
                                   struct rota_sql_rows *rows, struct rota_error *error)
{
    struct mysql *self = data;
    struct rota_buffer script = {0};
    enum rota_code code = ROTA_OK;
    write_script(&script, text, arguments, n_arguments);
    if (script.failed)
        code = rota_error_no_memory(error, "for a statement");
    else if (mysql_real_query(self->mysql, script.data, script.size))
        code = report_failure(self, mysql_errno(self->mysql), mysql_error(self->mysql), error);
    else
        code = take_answers(self, rows, error);
    rota_buffer_deinit(&script);
    return code;
}

static bool mysql_is_alive(void *data)
{
    struct mysql *self = data;
    return !self->is_lost;
}

/* A server sends nothing unasked, except at the end. */
static bool mysql_is_closed(void *data)
{
    struct mysql *self = data;
    struct pollfd poll_fd = {.fd = mysql_get_socket(self->mysql), .events = POLLIN};
    self->is_lost |= poll(&poll_fd, 1, 0) > 0;
    return self->is_lost;
}

const struct rota_sql_driver rota_sql_mysql = {
    .open = mysql_open,
    .close = mysql_close_,
    .prepare = mysql_prepare_,
    .unprepare = mysql_unprepare,
    .run = mysql_run,
    .script = mysql_script,
    .tell = mysql_tell,
    .is_alive = mysql_is_alive,
    .is_closed = mysql_is_closed,
    .begin = "START TRANSACTION",
};
