/* space_admin: creates and deletes spaces in the store, for operators.
 *
 * A space that programs open is created by the first of them. Here it is created before any of
 * them runs, and deleted when no process has it open. Both read the space first and then write
 * only if what was read still holds, so that two requests at once have one outcome. */
#pragma once

#include "base/buffer.h"

#include <rota/space.h>

enum { ROTA_SPACE_ADMIN_NAME_MAX = 200 };

/* One request, in the caller's memory until its outcome. */
struct rota_space_admin {
    struct rota_store *store;
    rota_space_on_outcome *on_outcome;
    void *data;
    bool is_deletion, is_dry_run;
    uint32_t n_shards;
    char engine[16];
    struct rota_buffer seats; /* separated by commas */
    char name[ROTA_SPACE_ADMIN_NAME_MAX + 1];
    char text[ROTA_SPACE_TEXT_MAX]; /* what is done, as a sentence */
};

/* Create a space without members; of the options name, engine, n_shards and seats count. A static
 * space without seats is rejected. on_outcome is called once, from the loop, unless the request is
 * forgotten first; ROTA_ERR_INVALID: there is such a space already. If this returns an error,
 * nothing was requested. */
enum rota_code rota_space_admin_create(struct rota_space_admin *admin, struct rota_store *store,
                                       const struct rota_space_options *options, bool is_dry_run,
                                       rota_space_on_outcome *on_outcome, void *data,
                                       struct rota_error *error);

/* Delete a space. ROTA_ERR_INVALID while a process has it open as a member, ROTA_ERR_NOT_FOUND if
 * there is none. Otherwise like rota_space_admin_create(). The rows of its leases stay: their
 * epochs are a lower bound for those of a later space of this name. */
enum rota_code rota_space_admin_delete(struct rota_space_admin *admin, struct rota_store *store,
                                       struct rota_str name, bool is_dry_run,
                                       rota_space_on_outcome *on_outcome, void *data,
                                       struct rota_error *error);

/* No outcome is reported after this; what was requested may still be done. */
void rota_space_admin_forget(struct rota_space_admin *admin);
