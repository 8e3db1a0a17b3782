/* space_service: rota.v1.Space on a server, for the spaces that this process has open.
 *
 * It answers from the map that each space keeps (<rota/space.h>), so a query costs no request to
 * the store; pins and migrations are answered when they are written there. The functions that
 * fill messages are shared with modules that show the same in another form. */
#pragma once

#include "core/place/node_book.h"
#include "wire/message/space_message.h"

#include <rota/server.h>
#include <rota/space.h>

struct rota_space_service;

enum { ROTA_SPACE_SERVICE_HISTORY = 64 }; /* changes in an explanation */

/* `actor` has changed something, and `text` says what; may be NULL. */
typedef void rota_space_service_on_done(void *data, struct rota_str space, const char *text,
                                        const char *actor);

/* Serve; `server` and `store`, in which spaces are created and deleted, are kept. Gives `*service`;
 * rota_space_service_close() ends it. */
enum rota_code rota_space_service_open(struct rota_server *server, struct rota_store *store,
                                       rota_space_service_on_done *on_done, void *data,
                                       struct rota_space_service **service,
                                       struct rota_error *error);

/* Show the names of nodes next to their addresses and in sentences, and let requests use them;
 * `book` is kept. */
void rota_space_service_use_names(struct rota_space_service *service,
                                  const struct rota_node_book *book);

/* Takes `service`, which may be NULL, after the server was closed. */
void rota_space_service_close(struct rota_space_service *service);

/* A space, kept until the service is ended. ROTA_ERR_LIMIT from ROTA_SPACE_LIST_MAX on. */
enum rota_code rota_space_service_add(struct rota_space_service *service, struct rota_space *space,
                                      struct rota_error *error);

/* Forget a space before it is closed, because the store has it no longer. */
void rota_space_service_remove(struct rota_space_service *service, struct rota_str name);

/* Forget all spaces, before they are closed. Waiting and later calls are rejected. */
void rota_space_service_end(struct rota_space_service *service);

/* The space of this name; NULL when there is none. */
struct rota_space *rota_space_service_find(const struct rota_space_service *service,
                                           struct rota_str name);

/* --- as messages; texts are borrowed from the space, the rest is in the arena --- */

/* False: there is no memory. */
bool rota_space_service_info(const struct rota_space *space, struct rota_arena *arena,
                             struct rota_space_info *info);
bool rota_space_service_list(const struct rota_space_service *service, struct rota_arena *arena,
                             struct rota_space_list *list);
bool rota_space_service_explain(const struct rota_space_service *service,
                                const struct rota_space *space, uint32_t shard,
                                struct rota_arena *arena,
                                struct rota_space_explanation *explanation);

/* The space of this name that has a shard `shard`. Any other status but ROTA_STATUS_OK says why
 * it can't be described, and `text` has the sentence. */
enum rota_status rota_space_service_look_up(const struct rota_space_service *service,
                                            struct rota_str name, uint64_t shard,
                                            struct rota_space **space,
                                            char text[ROTA_SPACE_TEXT_MAX]);
