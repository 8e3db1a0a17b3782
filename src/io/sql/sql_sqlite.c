/* SQLite as a database of io/sql/sql.h: a file of this machine. */
#include "base/sha256.h"
#include "io/clock.h"
#include "io/sql/sql_inside.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_AGAIN_US = 5000 };

struct sqlite {
    sqlite3 *db;
    dev_t device;         /* of the file; SQLite itself remembers only its number there */
    rota_time give_up_at; /* monotonic; of the current statement */
    rota_time timeout;
};

static enum rota_code code_of(int result)
{
    switch (result & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_INTERRUPT:
        return ROTA_ERR_UNAVAILABLE;
    case SQLITE_NOMEM:
        return ROTA_ERR_NO_MEMORY;
    case SQLITE_TOOBIG:
        return ROTA_ERR_LIMIT;
    case SQLITE_ERROR:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_MISUSE:
    case SQLITE_RANGE:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return ROTA_ERR_INVALID;
    case SQLITE_IOERR: /* the disk failed, perhaps in the middle of a commit */
        return ROTA_ERR_UNKNOWN;
    }
    return ROTA_ERR_IO;
}

static enum rota_code report_failure(struct sqlite *self, int result, struct rota_error *error)
{
    enum rota_code code = code_of(result);
    const char *text = sqlite3_errmsg(self->db);
    if (strncmp(text, "no such table", 13) == 0 || strncmp(text, "no such column", 14) == 0)
        code = ROTA_ERR_NOT_FOUND;
    if (code == ROTA_ERR_UNAVAILABLE)
        return rota_error_set(error, code, "another process has kept it locked for too long (%s)",
                              text);
    if (code == ROTA_ERR_UNKNOWN)
        return rota_error_set(error, code, "%s: the disk failed; check it, and the kernel's log",
                              text);
    if ((result & 0xff) == SQLITE_NOTADB || (result & 0xff) == SQLITE_CORRUPT)
        return rota_error_set(error, code,
                              "%s: either this is not the file of a store (check the path), or it "
                              "is damaged (stop the nodes and restore a backup)",
                              text);
    return rota_error_set(error, code, "%s", text);
}

/* --- SQL functions --- */

/* The wall clock in microseconds: SQLite uses the machine's clock. */
static void sql_now(sqlite3_context *context, int n_arguments, sqlite3_value **arguments)
{
    (void)n_arguments, (void)arguments;
    sqlite3_result_int64(context, rota_clock_wall() / ROTA_USEC);
}

static void sql_sha256(sqlite3_context *context, int n_arguments, sqlite3_value **arguments)
{
    char digest[ROTA_SHA256_TEXT_SIZE];
    (void)n_arguments;
    const void *text = sqlite3_value_text(arguments[0]); /* before its size is read */
    rota_sha256_format(rota_str_of(text, (size_t)sqlite3_value_bytes(arguments[0])), digest);
    sqlite3_result_text(context, digest, -1, SQLITE_TRANSIENT);
}

/* Called now and then while a statement runs; not 0 ends it. */
static int on_progress(void *data)
{
    struct sqlite *self = data;
    return rota_clock_mono() > self->give_up_at;
}

/* --- connections --- */

static enum rota_code sqlite_tell(void *data, const char *text, struct rota_error *error)
{
    struct sqlite *self = data;
    self->give_up_at = rota_time_add(rota_clock_mono(), 2 * self->timeout);
    int result = sqlite3_exec(self->db, text, NULL, NULL, NULL);
    return result == SQLITE_OK ? ROTA_OK : report_failure(self, result, error);
}

static void sqlite_close(void *data)
{
    struct sqlite *self = data;
    sqlite3_close(self->db);
    free(self);
}

static enum rota_code set_up_session(struct sqlite *self, bool is_reader, struct rota_error *error)
{
    sqlite3_extended_result_codes(self->db, 1);
    sqlite3_busy_timeout(self->db, (int)(self->timeout / ROTA_MSEC));
    sqlite3_progress_handler(self->db, 10000, on_progress, self);
    /* A missing column is an error, not a text in the wrong quotes. */
    sqlite3_db_config(self->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
    sqlite3_limit(self->db, SQLITE_LIMIT_LENGTH, ROTA_SQL_RESULT_MAX);
    int result =
        sqlite3_create_function(self->db, "rota_now", 0, SQLITE_UTF8, NULL, sql_now, NULL, NULL);
    if (result == SQLITE_OK)
        result =
            sqlite3_create_function(self->db, "rota_sha256", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                                    NULL, sql_sha256, NULL, NULL);
    if (result != SQLITE_OK)
        return report_failure(self, result, error);
    if (is_reader)
        return ROTA_OK; /* the file stays as it is */

    /* Readers do not block the writer, and what is committed is on the disk. Several processes
     * that create the file at once block each other, and SQLite does not wait for them by itself
     * here. */
    rota_time give_up_at = rota_time_add(rota_clock_mono(), self->timeout);
    enum rota_code code;
    while ((code = sqlite_tell(self, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL",
                               error)) == ROTA_ERR_UNAVAILABLE &&
           rota_clock_mono() < give_up_at)
        usleep(LOOK_AGAIN_US);
    return code;
}

/* SQLite itself would let every user read the file, in which a node keeps a secret. The files that
 * SQLite later creates next to it have the same mode. */
static void make_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0660);
    if (fd >= 0)
        close(fd); /* otherwise it exists, or SQLite reports why not */
}

static enum rota_code sqlite_open(const struct rota_sql_url *url,
                                  const struct rota_sql_options *options, void **data,
                                  struct rota_error *error)
{
    char path[ROTA_SQL_URL_PATH_MAX + 2];
    struct sqlite *self = calloc(1, sizeof *self);
    if (!self)
        return rota_error_no_memory(error, "for a database connection");
    rota_time timeout = options->statement_timeout;
    self->timeout = timeout < INT32_MAX * ROTA_MSEC ? timeout : INT32_MAX * ROTA_MSEC;

    /* A path is a path, and neither ":memory:" nor a URI. */
    snprintf(path, sizeof path, "%s%s", url->path[0] == '/' ? "" : "./", url->path);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    if (!options->is_reader) {
        flags |= SQLITE_OPEN_CREATE;
        make_file(path);
    }
    int result = sqlite3_open_v2(path, &self->db, flags, NULL);
    struct stat status;
    enum rota_code code = ROTA_OK;
    if (!self->db)
        code = rota_error_no_memory(error, "for a database connection");
    else if (result != SQLITE_OK && options->is_reader && stat(path, &status) != 0)
        code = rota_error_set(error, ROTA_ERR_NOT_FOUND, "there is no such file");
    else if (result != SQLITE_OK)
        code = report_failure(self, result, error);
    else
        code = set_up_session(self, options->is_reader, error);
    if (!code && stat(sqlite3_db_filename(self->db, "main"), &status) == 0)
        self->device =
            status.st_dev; /* otherwise it was removed already, which is_moved() reports */
    if (code) {
        sqlite_close(self);
        return code;
    }
    *data = self;
    return ROTA_OK;
}

/* An open file stays open, whatever happens to its name. */
static bool sqlite_is_moved(void *data)
{
    struct sqlite *self = data;
    struct stat status;
    int is_moved = 0;
    sqlite3_file_control(self->db, "main", SQLITE_FCNTL_HAS_MOVED, &is_moved);
    return is_moved || stat(sqlite3_db_filename(self->db, "main"), &status) != 0 ||
           status.st_dev != self->device;
}

/* --- statements --- */

static enum rota_code sqlite_prepare(void *data, const char *text,
                                     const struct rota_sql_value *arguments, size_t n_arguments,
                                     void **statement, struct rota_error *error)
{
    struct sqlite *self = data;
    sqlite3_stmt *made = NULL;
    (void)arguments;
    self->give_up_at = rota_time_add(rota_clock_mono(), 2 * self->timeout);
    int result = sqlite3_prepare_v3(self->db, text, -1, SQLITE_PREPARE_PERSISTENT, &made, NULL);
    if (result != SQLITE_OK)
        return report_failure(self, result, error);
    if ((size_t)sqlite3_bind_parameter_count(made) != n_arguments) {
        sqlite3_finalize(made);
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a statement with the wrong number of "
                              "arguments");
    }
    *statement = made;
    return ROTA_OK;
}

static void sqlite_unprepare(void *data, void *statement, bool is_ending)
{
    (void)data, (void)is_ending;
    sqlite3_finalize(statement);
}

/* Bytes are bound as text, so that they compare with columns of text; a value with a NUL byte or
 * of a BLOB column is distinguished by its type when it is read. */
static int bind_value(sqlite3_stmt *statement, int index, const struct rota_sql_value *value)
{
    switch (value->type) {
    case ROTA_SQL_NULL:
        return sqlite3_bind_null(statement, index);
    case ROTA_SQL_INT:
        return sqlite3_bind_int64(statement, index, value->number);
    case ROTA_SQL_BYTES:
        break;
    }
    return sqlite3_bind_text64(statement, index, value->bytes.size ? value->bytes.data : "",
                               value->bytes.size, SQLITE_STATIC, SQLITE_UTF8);
}

static enum rota_code read_row(sqlite3_stmt *statement, struct rota_sql_rows *rows,
                               struct rota_error *error)
{
    size_t n_columns = (size_t)sqlite3_column_count(statement);
    struct rota_sql_value *row = rota_sql_rows_add(rows, n_columns, error);
    if (!row)
        return error->code;
    for (size_t i = 0; i < n_columns; i++) {
        int type = sqlite3_column_type(statement, (int)i);
        if (type == SQLITE_NULL)
            continue;
        if (type == SQLITE_INTEGER) {
            row[i] = rota_sql_int(sqlite3_column_int64(statement, (int)i));
            continue;
        }
        const void *bytes = type == SQLITE_BLOB
                                ? sqlite3_column_blob(statement, (int)i)
                                : (const void *)sqlite3_column_text(statement, (int)i);
        size_t size = (size_t)sqlite3_column_bytes(statement, (int)i);
        char *copy = rota_sql_rows_bytes(rows, size, error);
        if (!copy)
            return error->code;
        if (size > 0)
            memcpy(copy, bytes, size);
        row[i] = rota_sql_bytes(rota_str_of(copy, size));
    }
    return ROTA_OK;
}

static enum rota_code sqlite_run(void *data, void *prepared, const struct rota_sql_value *arguments,
                                 size_t n_arguments, struct rota_sql_rows *rows,
                                 struct rota_error *error)
{
    struct sqlite *self = data;
    sqlite3_stmt *statement = prepared;
    enum rota_code code = ROTA_OK;
    int result = SQLITE_OK;

    self->give_up_at = rota_time_add(rota_clock_mono(), 2 * self->timeout);
    for (size_t i = 0; i < n_arguments && result == SQLITE_OK; i++)
        result = bind_value(statement, (int)i + 1, &arguments[i]);
    if (result == SQLITE_OK) {
        while (!code && (result = sqlite3_step(statement)) == SQLITE_ROW)
            code = read_row(statement, rows, error);
    }
    if (!code && result != SQLITE_DONE)
        code = report_failure(self, result, error);
    rows->result->n_columns = (size_t)sqlite3_column_count(statement);
    if (!sqlite3_stmt_readonly(statement))
        rows->result->n_affected = (uint64_t)sqlite3_changes64(self->db);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return code;
}

static bool sqlite_is_alive(void *data)
{
    (void)data;
    return true;
}

const struct rota_sql_driver rota_sql_sqlite = {
    .open = sqlite_open,
    .close = sqlite_close,
    .prepare = sqlite_prepare,
    .unprepare = sqlite_unprepare,
    .run = sqlite_run,
    .tell = sqlite_tell,
    .is_alive = sqlite_is_alive,
    .is_moved = sqlite_is_moved,
    .begin = "BEGIN IMMEDIATE",
};
