/* sql: one way to talk to SQLite, MariaDB and PostgreSQL.
 *
 * A connection runs one statement at a time and blocks, never longer than its timeouts. Statements
 * are prepared on their first use and remembered by their text; arguments are `?`, in every
 * dialect. Values are integers, bytes and NULL.
 *
 * Invariants: a statement that failed had no effect, unless it returns ROTA_ERR_UNKNOWN; that
 * one was in flight when the connection was lost. After a lost connection or a timeout the
 * object returns only errors: close it, and open another. No message contains the password. Each
 * session reads what is committed (READ COMMITTED; SQLite is serial), and an UPDATE counts the
 * rows it found, changed or not. */
#pragma once

#include "wire/text/sql_url.h"

#include <rota/error.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rota_sql;

enum {
    ROTA_SQL_STATEMENTS_MAX = 64,    /* prepared ones that a connection remembers */
    ROTA_SQL_TEXT_MAX = 1 << 20,     /* bytes of a statement */
    ROTA_SQL_ARGUMENTS_MAX = 8192,   /* of a statement */
    ROTA_SQL_COLUMNS_MAX = 64,       /* of a result */
    ROTA_SQL_ROWS_MAX = 1 << 20,     /* of a result */
    ROTA_SQL_RESULT_MAX = 128 << 20, /* bytes of all values of a result */
};

#define ROTA_SQL_TIMEOUT (5 * ROTA_SEC)

struct rota_sql_options {
    rota_time connect_timeout, statement_timeout; /* durations; 0: ROTA_SQL_TIMEOUT */
    bool is_reader; /* a file of SQLite that is not there is not made: ROTA_ERR_NOT_FOUND */
};

enum rota_sql_type {
    ROTA_SQL_NULL,
    ROTA_SQL_INT,
    ROTA_SQL_BYTES, /* texts too */
};

struct rota_sql_value {
    enum rota_sql_type type;
    int64_t number;
    struct rota_str bytes;
};

static inline struct rota_sql_value rota_sql_null(void)
{
    return (struct rota_sql_value){.type = ROTA_SQL_NULL};
}

static inline struct rota_sql_value rota_sql_int(int64_t number)
{
    return (struct rota_sql_value){.type = ROTA_SQL_INT, .number = number};
}

static inline struct rota_sql_value rota_sql_bytes(struct rota_str bytes)
{
    return (struct rota_sql_value){.type = ROTA_SQL_BYTES, .bytes = bytes};
}

/* The result. Starts zeroed; rota_sql_result_deinit() ends it. */
struct rota_sql_result {
    size_t n_columns, n_rows;
    uint64_t n_affected;           /* rows that an INSERT, UPDATE or DELETE has matched */
    int64_t last_id;               /* of MariaDB: LAST_INSERT_ID() of this statement */
    struct rota_sql_value *values; /* row by row */
    void *memory;                  /* what they point into */
};

/* Connect. Gives `*sql`; rota_sql_close() ends it. ROTA_ERR_INVALID when it will fail
 * again: a wrong password, no such database, a server that is too old, a library that
 * was not built in. */
enum rota_code rota_sql_open(const struct rota_sql_url *url, const struct rota_sql_options *options,
                             struct rota_sql **sql, struct rota_error *error);
void rota_sql_close(struct rota_sql *sql); /* accepts NULL */

enum rota_sql_kind rota_sql_kind(const struct rota_sql *sql);

/* False once the connection is lost. */
bool rota_sql_is_alive(const struct rota_sql *sql);

/* Whether the URL still names what was opened: the file of SQLite may have been moved, removed
 * or replaced, which a process that has it open would not notice. If it does not, the connection
 * is lost, with ROTA_ERR_UNAVAILABLE. Not inside a transaction. */
enum rota_code rota_sql_look(struct rota_sql *sql, struct rota_error *error);

/* Whether the server has closed the idle connection, as one that is restarted does. Nothing is
 * sent to find out. Not inside a transaction. */
bool rota_sql_is_closed(struct rota_sql *sql);

/* Whether an error means that a disk of this machine failed, which needs an operator: another
 * attempt may succeed, since SQLite writes again whatever was not synced, but the disk can't be
 * trusted. Servers report their own disks. */
static inline bool rota_sql_is_disk_failure(enum rota_sql_kind kind, const struct rota_error *error)
{
    return kind == ROTA_SQL_SQLITE && error->code == ROTA_ERR_UNKNOWN;
}

/* Whether the library of this kind of database was built in. */
bool rota_sql_is_built(enum rota_sql_kind kind);

/* After a LISTEN, which PostgreSQL alone has: the descriptor that is readable when a
 * notification has arrived; elsewhere -1. */
int rota_sql_fd(const struct rota_sql *sql);

/* Receive notifications, without waiting; no statement may be in flight. `*n_notices` is how
 * many NOTIFY were among them. */
enum rota_code rota_sql_receive_notices(struct rota_sql *sql, size_t *n_notices,
                                        struct rota_error *error);

/* Run one statement. `result`, which may be NULL, is emptied and filled. A result above the bounds
 * is ROTA_ERR_LIMIT, and the statement's effects remain.
 *
 * ROTA_ERR_NOT_FOUND: there is no such table or column. ROTA_ERR_INVALID: not allowed, not
 * well-formed, or a value that does not fit. ROTA_ERR_UNAVAILABLE: a lock, a deadlock or a
 * timeout, or there is no connection. */
enum rota_code rota_sql_run(struct rota_sql *sql, const char *text,
                            const struct rota_sql_value *arguments, size_t n_arguments,
                            struct rota_sql_result *result, struct rota_error *error);

/* Several statements with a ';' between them, sent together and answered together: one round
 * trip for a transaction. The result is that of the last. When one fails, those after it are not
 * run, and the transaction is rolled back. For MariaDB only, whose single statements can do
 * less: elsewhere it is ROTA_ERR_INVALID. */
enum rota_code rota_sql_script(struct rota_sql *sql, const char *text,
                               const struct rota_sql_value *arguments, size_t n_arguments,
                               struct rota_sql_result *result, struct rota_error *error);

/* Several statements as one: begin, then commit or roll back. Of SQLite it is a
 * writer from the start (BEGIN IMMEDIATE). A commit may be ROTA_ERR_UNKNOWN. */
enum rota_code rota_sql_begin(struct rota_sql *sql, struct rota_error *error);
enum rota_code rota_sql_commit(struct rota_sql *sql, struct rota_error *error);
void rota_sql_rollback(struct rota_sql *sql);

void rota_sql_result_deinit(struct rota_sql_result *result);

/* The value in `row` and `column`, both from 0 and in range. */
static inline struct rota_sql_value rota_sql_at(const struct rota_sql_result *result, size_t row,
                                                size_t column)
{
    return result->values[row * result->n_columns + column];
}

/* The same as a number: 0 if it is not one. */
static inline int64_t rota_sql_int_at(const struct rota_sql_result *result, size_t row,
                                      size_t column)
{
    return rota_sql_at(result, row, column).number;
}

/* The same as bytes: empty if there are none. */
static inline struct rota_str rota_sql_bytes_at(const struct rota_sql_result *result, size_t row,
                                                size_t column)
{
    struct rota_sql_value value = rota_sql_at(result, row, column);
    return value.type == ROTA_SQL_BYTES ? value.bytes : rota_str_of("", 0);
}
