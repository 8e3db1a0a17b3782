/* The signal of a log in PostgreSQL: NOTIFY in the transaction that writes, so that it arrives with
 * the commit and never without; LISTEN on a connection of its own, so that it is received while no
 * statement runs.
 *
 * Nothing here shows that a process is dead. A closed connection, and a server lock released
 * with it, may as well mean that the network or the server failed, and the process continues for
 * as long as its session lasts. So only the session decides. But an existing lock shows that a
 * process has the log open, which outlives the tables: without one, a group is new and was not
 * dropped. */
#include "base/hash.h"
#include "io/log/sync_sql_inside.h"

#include <stdio.h>
#include <stdlib.h>

enum { LOCK_CLASS = 7310583 }; /* of the advisory locks, which never block */

struct signal {
    struct rota_sync_signal base;
    const struct rota_sql_url *url;
    bool is_observer;
    uint32_t hash; /* of the group */
    char channel[32];
    struct rota_sql *sql; /* NULL: not open */
};

static enum rota_code pg_new(const struct rota_sql_url *url,
                             const struct rota_sync_options *options,
                             struct rota_sync_signal **signal, struct rota_error *error)
{
    if (!rota_sql_is_built(ROTA_SQL_POSTGRES))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "this Rota was built without libpq, so it cannot use PostgreSQL");
    struct signal *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for the log of a group");
    made->base.kind = &rota_sync_pg;
    made->url = url;
    made->is_observer = options->is_observer;
    made->hash = rota_hash_farm32(rota_str(options->name));
    snprintf(made->channel, sizeof made->channel, "rota_group_%08x", (unsigned)made->hash);
    *signal = &made->base;
    return ROTA_OK;
}

static void pg_free(struct rota_sync_signal *base)
{
    struct signal *signal = (struct signal *)base;
    rota_sql_close(signal->sql);
    free(signal);
}

static enum rota_code pg_open(struct rota_sync_signal *base, struct rota_error *error)
{
    struct signal *signal = (struct signal *)base;
    /* A process that can't listen still reads from time to time, which is better than blocking
     * here. */
    struct rota_sql_options options = {.connect_timeout = ROTA_SEC, .statement_timeout = ROTA_SEC};
    char text[64];
    rota_sql_close(signal->sql);
    signal->sql = NULL;
    enum rota_code code = rota_sql_open(signal->url, &options, &signal->sql, error);
    if (code)
        return code;
    snprintf(text, sizeof text, "LISTEN %s", signal->channel);
    code = rota_sql_run(signal->sql, text, NULL, 0, NULL, error);
    snprintf(text, sizeof text, "SELECT pg_advisory_lock_shared(%d, %ld)", LOCK_CLASS,
             (long)(int32_t)signal->hash);
    if (!code && !signal->is_observer)
        code = rota_sql_run(signal->sql, text, NULL, 0, NULL, error);
    if (code) {
        rota_sql_close(signal->sql);
        signal->sql = NULL;
    }
    return code;
}

static int pg_fd(const struct rota_sync_signal *base)
{
    const struct signal *signal = (const struct signal *)base;
    return signal->sql ? rota_sql_fd(signal->sql) : -1;
}

static int pg_hear(struct rota_sync_signal *base)
{
    struct signal *signal = (struct signal *)base;
    size_t n = 0;
    if (rota_sql_receive_notices(signal->sql, &n, NULL))
        return ROTA_SYNC_HEARD_LOST;
    return n > 0 ? ROTA_SYNC_HEARD_NEWS : 0;
}

/* PostgreSQL delivers equal notifications of one transaction once. */
static enum rota_code pg_tell(struct rota_sync_signal *base, struct rota_sql *sql,
                              const struct rota_sync_head *head, struct rota_error *error)
{
    struct signal *signal = (struct signal *)base;
    char text[64];
    snprintf(text, sizeof text, "%llu %llu", (unsigned long long)head->next,
             (unsigned long long)head->generation);
    const struct rota_sql_value values[] = {rota_sql_bytes(rota_str(signal->channel)),
                                            rota_sql_bytes(rota_str(text))};
    return rota_sql_run(sql, "SELECT pg_notify(?, ?)", values, 2, NULL, error);
}

/* If that is unknown, assume that there was one. */
static bool pg_is_known(struct rota_sync_signal *base, struct rota_sql *sql, bool is_made)
{
    struct signal *signal = (struct signal *)base;
    const struct rota_sql_value values[] = {rota_sql_int(LOCK_CLASS), rota_sql_int(signal->hash)};
    struct rota_sql_result result = {0};
    (void)is_made;
    enum rota_code code = rota_sql_run(
        sql,
        "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
        "AND CAST(classid AS BIGINT) = ? AND CAST(objid AS BIGINT) = ? LIMIT 1",
        values, 2, &result, NULL);
    bool is_known = code || result.n_rows > 0;
    rota_sql_result_deinit(&result);
    return is_known;
}

const struct rota_sync_signal_kind rota_sync_pg = {
    .new = pg_new,
    .free = pg_free,
    .open = pg_open,
    .fd = pg_fd,
    .hear = pg_hear,
    .tell = pg_tell,
    .is_known = pg_is_known,
};
