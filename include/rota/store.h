/* The store: the shared state of a cluster, in a SQL database.
 *
 * Leases, members, spaces and a history of claims, in SQLite, MariaDB or PostgreSQL. You open a
 * store and pass it to what uses it: a space, a service server. docs/store.md has the tables.
 * No message contains the password. */
#pragma once

#include <rota/error.h>
#include <rota/log.h>
#include <rota/time.h>
#include <stdbool.h>

struct rota_store;
struct uv_loop_s;

#ifdef __cplusplus
extern "C" {
#endif

struct rota_store_options {
    /* "sqlite:PATH", "mysql://USER:PASSWORD@HOST:PORT/DATABASE" for MariaDB, or
     * "postgres://USER:PASSWORD@HOST:PORT/DATABASE". */
    const char *url;

    /* Timeouts for connecting and for a statement; 0 means 5 s each. */
    rota_time connect_timeout, statement_timeout;

    /* Only ROTA_STORE_SELECT (<rota/experimental/store_ask.h>) is allowed: no tables are created,
     * and no SQLite file. */
    bool is_reader;

    const struct rota_log *log; /* kept; NULL: none */
    const char *purpose; /* purpose of the connection, for the log: "leases"; kept, may be NULL */

    /* on_up: connected, and the tables are ready. on_down: a connection was lost or an attempt to
     * connect failed, each time. Either may be NULL. */
    void (*on_up)(void *data);
    void (*on_down)(void *data, const struct rota_error *error);
    void *data; /* kept */

    void *reserved[4]; /* must be zero; room for future options */
};

/* Opens a store on `loop`, which is kept. The store connects in the background, retries with a
 * growing delay, and creates missing tables; so an unreachable database is not an error, but an
 * invalid URL is. Gives `*store`; close it with rota_store_close(). */
enum rota_code rota_store_open(struct uv_loop_s *loop, const struct rota_store_options *options,
                               struct rota_store **store, struct rota_error *error);

/* Takes `store`, which may be NULL. No callback is called afterwards; a callback may call this. The
 * loop frees the store when the request in progress has ended. */
void rota_store_close(struct rota_store *store);

bool rota_store_is_up(const struct rota_store *store);

/* The URL without its password, borrowed until the store is closed. */
const char *rota_store_name(const struct rota_store *store);

#ifdef __cplusplus
}
#endif
