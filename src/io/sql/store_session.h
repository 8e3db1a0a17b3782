/* store: the tables that a cluster shares, and the requests to them.
 *
 * One session is one connection. A request (<rota/store.h>) is carried out in one statement where
 * it can be, with the same outcome on SQLite, MariaDB and PostgreSQL; the texts are in
 * store_text.c, the tables in store_schema.c. All functions block, so they belong on a thread of
 * their own.
 *
 * Invariants: at most the row that is taken stays locked while a claim is open, so that a claim
 * never holds up a ping; a request that may have had an effect fails with ROTA_ERR_UNKNOWN; a
 * lost session stays lost, and a new one is opened. A session is also lost when its SQLite file
 * was moved, which is checked before each request. */
#pragma once

#include "base/buffer.h"
#include "io/sql/sql.h"

#include <rota/experimental/store_ask.h>

struct rota_store_session;

/* Connect, and prepare the tables: created when there are none, upgraded when they are older,
 * rejected with ROTA_ERR_INVALID when they are newer than this program; but not checked when
 * `options` say that it is a reader, which only runs SELECT. `url` is borrowed. Gives
 * `*session`; rota_store_session_close() ends it. */
enum rota_code rota_store_session_open(const struct rota_sql_url *url,
                                       const struct rota_sql_options *options,
                                       struct rota_store_session **session,
                                       struct rota_error *error);
void rota_store_session_close(struct rota_store_session *session); /* accepts NULL */

/* False once the connection is lost: every request is ROTA_ERR_UNAVAILABLE then. */
bool rota_store_session_is_alive(const struct rota_store_session *session);

/* The version that the tables had before this session upgraded them; 0: it did not. */
int rota_store_session_upgraded_from(const struct rota_store_session *session);

/* Whether the server has closed the connection since the last request: rota_sql_is_closed(). */
bool rota_store_session_is_closed(const struct rota_store_session *session);

/* A problem of the database's configuration, for the log: a grant that it may forget when its
 * machine fails is a promise that it can't keep. NULL: none. */
const char *rota_store_session_warning(const struct rota_store_session *session);

/* Reject a request without asking the database: a name that is empty, too long or not printable
 * UTF-8, a number out of range, an invalid table name. */
enum rota_code rota_store_check_request(const struct rota_store_request *request,
                                        struct rota_error *error);

/* Carry out a request that was checked. Fills `*answer`, also when it fails;
 * rota_store_session_answer_deinit() ends it. */
void rota_store_session_do(struct rota_store_session *session,
                           const struct rota_store_request *request,
                           struct rota_store_answer *answer);
void rota_store_session_answer_deinit(struct rota_store_answer *answer);

/* --- the schema --- */

/* What this program writes and reads. */
enum { ROTA_STORE_SCHEMA_VERSION = 12 };

/* The tables as SQL for one kind of database, as they are made on first use. */
void rota_store_schema_format(enum rota_sql_kind kind, struct rota_buffer *buffer);

/* The statements that upgrade the tables from an earlier version. */
void rota_store_schema_format_upgrade(enum rota_sql_kind kind, int from,
                                      struct rota_buffer *buffer);

/* What a role `rota` needs that does not make the tables itself, as statements of PostgreSQL. */
void rota_store_schema_format_grants(struct rota_buffer *buffer);

/* The same for people: a table in Markdown, as docs/store.md has it. */
void rota_store_schema_describe(struct rota_buffer *buffer);
