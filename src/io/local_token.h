/* local_token: how a command finds the token of a node on the same machine.
 *
 * A node leaves its token where only its own user can read it, in a file named after its loopback
 * address, and keeps the file locked while it lives. A command that calls a node at that very
 * address reads the file. It does so only while the file is locked: after the node has stopped,
 * another process may listen at its port, and must not receive the token.
 *
 * The first of these folders that can be used: /run/rota, $XDG_RUNTIME_DIR/rota, /tmp/rota-UID. */
#pragma once

#include <rota/error.h>
#include <stdbool.h>

enum { ROTA_LOCAL_TOKEN_MAX = 256 }; /* bytes */

/* Leave `token` for the node that listens at `address`, "host:port". Gives `*fd`, which holds the
 * lock; rota_local_token_remove() ends it. -1 for an address that is not a loopback one: nothing is
 * left then. */
enum rota_code rota_local_token_write(const char *address, const char *token, int *fd,
                                      struct rota_error *error);

/* Takes `fd`, which may be -1. */
void rota_local_token_remove(const char *address, int fd);

/* The token of a live node at `address`, a loopback one; false when there is none, or not for
 * us. */
bool rota_local_token_read(const char *address, char token[ROTA_LOCAL_TOKEN_MAX + 1]);
