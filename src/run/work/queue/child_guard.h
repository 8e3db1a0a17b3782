/* guard: makes sure that no command outlives the process that has started it.
 *
 * A separate process that holds the end of a pipe: each child names its process group to it
 * before it executes the command, and the parent reports when the whole group is gone. When the
 * pipe closes, for whatever reason, the guard kills every group that is left. It ignores the
 * signals that a terminal sends. */
#pragma once

#include <rota/error.h>
#include <sys/types.h>

enum { ROTA_GUARD_GROUPS_MAX = 4096 };

struct rota_child_guard {
    int fd; /* to which groups are reported */
    pid_t pid;
};

/* Fills `*guard`; rota_child_guard_close() ends it. Call it before there are threads. */
enum rota_code rota_child_guard_open(struct rota_child_guard *guard, struct rota_error *error);

/* A group begins, or is gone. Safe in a freshly forked process; -1 when the guard is not
 * running. */
int rota_child_guard_add(const struct rota_child_guard *guard, pid_t group);
int rota_child_guard_remove(const struct rota_child_guard *guard, pid_t group);

/* Remaining groups are killed. */
void rota_child_guard_close(struct rota_child_guard *guard);
