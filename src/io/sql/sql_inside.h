/* sql_inside: what a library has to implement to be a database of io/sql/sql.h.
 *
 * Only sql.c and the sql_*.c of the libraries use this. A driver fills `code` and a sentence;
 * sql.c removes the password from it and prefixes the database's name. */
#pragma once

#include "io/sql/sql.h"

/* A result in the making. */
struct rota_sql_rows {
    struct rota_sql_result *result; /* NULL: not needed */
    size_t capacity;                /* values that there is room for */
    size_t size;                    /* bytes of all values so far */
    struct rota_sql_piece *pieces;  /* memory of the values; the result's own */
};

/* The next row has `n_columns` values: where to put them, or NULL and an error when
 * the bounds or the memory do not allow it. */
struct rota_sql_value *rota_sql_rows_add(struct rota_sql_rows *rows, size_t n_columns,
                                         struct rota_error *error);

/* Room for a value of `size` bytes, as long as the result lives. */
char *rota_sql_rows_bytes(struct rota_sql_rows *rows, size_t size, struct rota_error *error);

/* A driver: one for each library. `self` is the result of its open(). */
struct rota_sql_driver {
    enum rota_code (*open)(const struct rota_sql_url *url, const struct rota_sql_options *options,
                           void **self, struct rota_error *error);
    void (*close)(void *self);

    /* Gives a prepared statement. The arguments only supply the types. */
    enum rota_code (*prepare)(void *self, const char *text, const struct rota_sql_value *arguments,
                              size_t n_arguments, void **statement, struct rota_error *error);
    void (*unprepare)(void *self, void *statement, bool is_ending); /* the connection too? */
    enum rota_code (*run)(void *self, void *statement, const struct rota_sql_value *arguments,
                          size_t n_arguments, struct rota_sql_rows *rows, struct rota_error *error);

    /* Several at once; may be NULL. */
    enum rota_code (*script)(void *self, const char *text, const struct rota_sql_value *arguments,
                             size_t n_arguments, struct rota_sql_rows *rows,
                             struct rota_error *error);

    /* A statement without arguments and rows that is not prepared. */
    enum rota_code (*tell)(void *self, const char *text, struct rota_error *error);
    bool (*is_alive)(void *self);
    bool (*is_moved)(void *self); /* the file that was opened was moved; may be NULL: never */

    /* The server has closed an idle connection; may be NULL: never. */
    bool (*is_closed)(void *self);

    /* Notifications; both may be NULL. */
    int (*fd)(void *self);
    enum rota_code (*hear)(void *self, size_t *n_notices, struct rota_error *error);

    const char *begin;
};

extern const struct rota_sql_driver rota_sql_sqlite, rota_sql_mysql, rota_sql_pg;
