#include "io/sql/sql.h"

#include "base/map.h"
#include "io/sql/sql_inside.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { PIECE_SIZE = 16384, SECRET_MIN = 4 };

struct statement {
    char *text;
    void *prepared;
    uint64_t used_at; /* counted in statements */
};

struct rota_sql {
    const struct rota_sql_driver *driver;
    void *self;
    enum rota_sql_kind kind;
    char password[ROTA_SQL_URL_NAME_MAX];

    struct rota_map statements; /* by text */
    uint64_t n_runs;
    bool is_lost;
};

/* --- results --- */

/* Memory is handed out from pieces, which are freed together. */
struct rota_sql_piece {
    struct rota_sql_piece *next;
    size_t used, size;
    char bytes[];
};

struct rota_sql_value *rota_sql_rows_add(struct rota_sql_rows *rows, size_t n_columns,
                                         struct rota_error *error)
{
    struct rota_sql_result *result = rows->result;
    if (n_columns > ROTA_SQL_COLUMNS_MAX || result->n_rows >= ROTA_SQL_ROWS_MAX) {
        rota_error_set(error, ROTA_ERR_LIMIT, "a result with more than %d columns or %d rows",
                       ROTA_SQL_COLUMNS_MAX, ROTA_SQL_ROWS_MAX);
        return NULL;
    }
    size_t wanted = (result->n_rows + 1) * n_columns;
    if (wanted > rows->capacity) {
        size_t grown = wanted + wanted / 2 + 8;
        struct rota_sql_value *moved = realloc(result->values, grown * sizeof *moved);
        if (!moved) {
            rota_error_no_memory(error, "for a result");
            return NULL;
        }
        result->values = moved;
        rows->capacity = grown;
    }
    result->n_columns = n_columns;
    struct rota_sql_value *row = result->values + result->n_rows++ * n_columns;
    for (size_t i = 0; i < n_columns; i++)
        row[i] = rota_sql_null();
    return row;
}

char *rota_sql_rows_bytes(struct rota_sql_rows *rows, size_t size, struct rota_error *error)
{
    struct rota_sql_piece *piece = rows->pieces;
    if (size > ROTA_SQL_RESULT_MAX - rows->size) {
        rota_error_set(error, ROTA_ERR_LIMIT, "a result with more than %d bytes",
                       ROTA_SQL_RESULT_MAX);
        return NULL;
    }
    if (!piece || size > piece->size - piece->used) {
        size_t room = size > PIECE_SIZE ? size : PIECE_SIZE;
        piece = malloc(sizeof *piece + room);
        if (!piece) {
            rota_error_no_memory(error, "for a result");
            return NULL;
        }
        *piece = (struct rota_sql_piece){.next = rows->pieces, .size = room};
        rows->pieces = piece;
        rows->result->memory = piece;
    }
    char *bytes = piece->bytes + piece->used;
    piece->used += size;
    rows->size += size;
    return bytes;
}

void rota_sql_result_deinit(struct rota_sql_result *result)
{
    struct rota_sql_piece *piece = result->memory;
    while (piece) {
        struct rota_sql_piece *next = piece->next;
        free(piece);
        piece = next;
    }
    free(result->values);
    *result = (struct rota_sql_result){0};
}

/* --- messages --- */

/* A server or a library may repeat its input: remove the password from messages. One that is
 * shorter than a word can't be distinguished from other text. */
static void hide_password(char *text, const char *password)
{
    size_t size = strlen(password);
    if (size < SECRET_MIN)
        return;
    for (char *found; (found = strstr(text, password));) {
        *found = '*';
        memmove(found + 1, found + size, strlen(found + size) + 1);
    }
}

/* Make a driver's sentence fit to be shown: one line, without the password. Only errors of
 * connecting contain the URL: those of a statement may be shown to our callers, who need not
 * know where the database is. */
static void clean_error(struct rota_error *inner, const char *password)
{
    hide_password(inner->text, password);
    size_t size = strlen(inner->text);
    while (size > 0 && (inner->text[size - 1] == '\n' || inner->text[size - 1] == '.'))
        inner->text[--size] = '\0';
    for (char *c = inner->text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
}

static enum rota_code report_failure(struct rota_sql *sql, enum rota_code code,
                                     struct rota_error *inner, struct rota_error *error)
{
    if (!sql->driver->is_alive(sql->self))
        sql->is_lost = true;
    clean_error(inner, sql->password);
    return rota_error_set(error, code, "%s", inner->text);
}

static enum rota_code check_alive(struct rota_sql *sql, struct rota_error *error)
{
    if (!sql->is_lost)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "the connection to the store was lost");
}

/* --- connections --- */

static const struct rota_sql_driver *driver_of(enum rota_sql_kind kind)
{
    switch (kind) {
    case ROTA_SQL_SQLITE:
        return &rota_sql_sqlite;
    case ROTA_SQL_MYSQL:
        return &rota_sql_mysql;
    case ROTA_SQL_POSTGRES:
        return &rota_sql_pg;
    }
    return NULL;
}

enum rota_code rota_sql_open(const struct rota_sql_url *url, const struct rota_sql_options *options,
                             struct rota_sql **sql, struct rota_error *error)
{
    struct rota_sql_options filled = options ? *options : (struct rota_sql_options){0};
    struct rota_error inner = {0};
    struct rota_sql *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for a database connection");
    if (filled.connect_timeout <= 0)
        filled.connect_timeout = ROTA_SQL_TIMEOUT;
    if (filled.statement_timeout <= 0)
        filled.statement_timeout = ROTA_SQL_TIMEOUT;
    made->kind = url->kind;
    made->driver = driver_of(url->kind);
    snprintf(made->password, sizeof made->password, "%s", url->password);
    rota_map_init(&made->statements, 0); /* the texts are our own */

    enum rota_code code = made->driver->open(url, &filled, &made->self, &inner);
    if (code) {
        if (code == ROTA_ERR_UNKNOWN) /* nothing was asked yet */
            code = ROTA_ERR_UNAVAILABLE;
        char name[ROTA_SQL_URL_TEXT_MAX];
        clean_error(&inner, made->password);
        rota_error_set(error, code, "%.200s: %s", rota_sql_url_format(url, name), inner.text);
        rota_sql_close(made);
        return code;
    }
    *sql = made;
    return ROTA_OK;
}

static void forget_statement(struct rota_sql *sql, struct statement *statement, bool is_ending)
{
    rota_map_remove(&sql->statements, rota_str(statement->text));
    sql->driver->unprepare(sql->self, statement->prepared, is_ending);
    free(statement->text);
    free(statement);
}

void rota_sql_close(struct rota_sql *sql)
{
    if (!sql)
        return;
    for (;;) {
        size_t place = 0;
        const struct rota_map_entry *entry = rota_map_next(&sql->statements, &place);
        if (!entry)
            break;
        forget_statement(sql, entry->value, true);
    }
    rota_map_deinit(&sql->statements);
    if (sql->self)
        sql->driver->close(sql->self);
    explicit_bzero(sql->password, sizeof sql->password);
    free(sql);
}

enum rota_sql_kind rota_sql_kind(const struct rota_sql *sql)
{
    return sql->kind;
}

bool rota_sql_is_alive(const struct rota_sql *sql)
{
    return !sql->is_lost;
}

enum rota_code rota_sql_look(struct rota_sql *sql, struct rota_error *error)
{
    enum rota_code code = check_alive(sql, error);
    if (code || !sql->driver->is_moved || !sql->driver->is_moved(sql->self))
        return code;
    sql->is_lost = true;
    return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "the file was moved, removed or replaced");
}

bool rota_sql_is_closed(struct rota_sql *sql)
{
    if (!sql->is_lost && sql->driver->is_closed && sql->driver->is_closed(sql->self))
        sql->is_lost = true;
    return sql->is_lost;
}

bool rota_sql_is_built(enum rota_sql_kind kind)
{
    const struct rota_sql_driver *driver = driver_of(kind);
    return driver && driver->run;
}

int rota_sql_fd(const struct rota_sql *sql)
{
    return sql->driver->fd && !sql->is_lost ? sql->driver->fd(sql->self) : -1;
}

enum rota_code rota_sql_receive_notices(struct rota_sql *sql, size_t *n_notices,
                                        struct rota_error *error)
{
    struct rota_error inner = {0};
    enum rota_code code = check_alive(sql, error);
    if (code)
        return code;
    if (!sql->driver->hear)
        return rota_error_set(error, ROTA_ERR_INVALID, "this database sends no notifications");
    code = sql->driver->hear(sql->self, n_notices, &inner);
    return code ? report_failure(sql, code, &inner, error) : ROTA_OK;
}

/* --- statements --- */

/* Make room for one more: the least recently used is dropped. */
static void forget_oldest(struct rota_sql *sql)
{
    struct statement *oldest = NULL;
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(&sql->statements, &place));) {
        struct statement *statement = entry->value;
        if (!oldest || statement->used_at < oldest->used_at)
            oldest = statement;
    }
    if (oldest)
        forget_statement(sql, oldest, false);
}

static enum rota_code prepare_statement(struct rota_sql *sql, const char *text,
                                        const struct rota_sql_value *arguments, size_t n_arguments,
                                        struct statement **statement, struct rota_error *error)
{
    if (sql->statements.size >= ROTA_SQL_STATEMENTS_MAX)
        forget_oldest(sql);
    struct statement *made = calloc(1, sizeof *made);
    char *copy = strdup(text);
    if (!made || !copy) {
        free(made);
        free(copy);
        return rota_error_no_memory(error, "for a statement");
    }
    made->text = copy;
    enum rota_code code =
        sql->driver->prepare(sql->self, text, arguments, n_arguments, &made->prepared, error);
    if (!code && !rota_map_put(&sql->statements, rota_str(copy), made)) {
        sql->driver->unprepare(sql->self, made->prepared, false);
        code = rota_error_no_memory(error, "for a statement");
    }
    if (code) {
        free(made);
        free(copy);
        return code;
    }
    *statement = made;
    return ROTA_OK;
}

enum rota_code rota_sql_run(struct rota_sql *sql, const char *text,
                            const struct rota_sql_value *arguments, size_t n_arguments,
                            struct rota_sql_result *result, struct rota_error *error)
{
    struct rota_sql_result unwanted = {0};
    struct rota_sql_rows rows = {.result = result ? result : &unwanted};
    struct rota_error inner = {0};
    rota_sql_result_deinit(rows.result);

    enum rota_code code = check_alive(sql, error);
    if (code)
        return code;
    if (n_arguments > ROTA_SQL_ARGUMENTS_MAX || strlen(text) > ROTA_SQL_TEXT_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "a statement is too long");

    struct statement *statement = rota_map_get(&sql->statements, rota_str(text));
    if (!statement) {
        code = prepare_statement(sql, text, arguments, n_arguments, &statement, &inner);
        if (code == ROTA_ERR_UNKNOWN) /* nothing was changed */
            code = ROTA_ERR_UNAVAILABLE;
    }
    if (!code) {
        statement->used_at = ++sql->n_runs;
        code =
            sql->driver->run(sql->self, statement->prepared, arguments, n_arguments, &rows, &inner);
    }
    if (code) {
        rota_sql_result_deinit(rows.result);
        return report_failure(sql, code, &inner, error);
    }
    rota_sql_result_deinit(&unwanted);
    return ROTA_OK;
}

enum rota_code rota_sql_script(struct rota_sql *sql, const char *text,
                               const struct rota_sql_value *arguments, size_t n_arguments,
                               struct rota_sql_result *result, struct rota_error *error)
{
    struct rota_sql_rows rows = {.result = result};
    struct rota_error inner = {0};
    rota_sql_result_deinit(result);

    enum rota_code code = check_alive(sql, error);
    if (code)
        return code;
    if (!sql->driver->script)
        return rota_error_set(error, ROTA_ERR_INVALID, "the database runs one statement at a time");
    code = sql->driver->script(sql->self, text, arguments, n_arguments, &rows, &inner);
    if (!code)
        return ROTA_OK;
    rota_sql_result_deinit(result);
    code = report_failure(sql, code, &inner, error);
    if (!sql->is_lost)
        rota_sql_rollback(sql);
    return code;
}

static enum rota_code run_plain(struct rota_sql *sql, const char *text, struct rota_error *error)
{
    struct rota_error inner = {0};
    enum rota_code code = check_alive(sql, error);
    if (code)
        return code;
    code = sql->driver->tell(sql->self, text, &inner);
    return code ? report_failure(sql, code, &inner, error) : ROTA_OK;
}

enum rota_code rota_sql_begin(struct rota_sql *sql, struct rota_error *error)
{
    enum rota_code code = run_plain(sql, sql->driver->begin, error);
    return code == ROTA_ERR_UNKNOWN ? ROTA_ERR_UNAVAILABLE : code;
}

enum rota_code rota_sql_commit(struct rota_sql *sql, struct rota_error *error)
{
    return run_plain(sql, "COMMIT", error);
}

void rota_sql_rollback(struct rota_sql *sql)
{
    run_plain(sql, "ROLLBACK", NULL);
}
