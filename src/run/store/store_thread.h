/* store_thread: letters of another module on a store's thread, with its connection.
 *
 * The store connects, reconnects and logs; the module runs operations that a request can't express.
 * Private to Rota. */
#pragma once

#include "io/mailbox.h"

#include <rota/experimental/store_ask.h>

struct rota_store_session;

/* Thread. A new connection; NULL: none. An error means that it can't be used. */
typedef enum rota_code rota_store_on_session(void *data, struct rota_store_session *session,
                                             struct rota_error *error);

/* Like rota_store_open(), but waits for the first connection, so that a permanent error is
 * returned; an unreachable database is not an error. `on_session` gets the data of the options and
 * runs on the caller's thread this first time. */
enum rota_code rota_store_open_now(struct uv_loop_s *loop, const struct rota_store_options *options,
                                   rota_store_on_session *on_session, struct rota_store **store,
                                   struct rota_error *error);

/* Like rota_store_close(), and calls `on_closed` when nothing runs. */
void rota_store_close_then(struct rota_store *store, void (*on_closed)(void *data), void *data);

/* Run a letter on the thread, also without a connection. At most ROTA_STORE_LETTERS_MAX are in
 * progress at one time. */
enum { ROTA_STORE_LETTERS_MAX = 8 };
void rota_store_post(struct rota_store *store, struct rota_letter *letter);

/* A letter has failed: connect again, after a delay. */
void rota_store_fail(struct rota_store *store, const struct rota_error *error);
