/* guard: sees that no command outlives the process that has started it.
 *
 * A process of its own that holds the end of a pipe: a command names its process group to it
 * before it becomes the command, and who started it says when all of the group is gone. When
 * the pipe closes, however that came about, the guard kills every group that is left. It
 * keeps itself out of the way of signals that a terminal sends. */
#pragma once

#include <rota/error.h>
#include <sys/types.h>

enum { ROTA_GUARD_GROUPS_MAX = 4096 };

struct rota_guard {
    int fd; /* where groups are named */
    pid_t pid;
};

/* Fills `*guard`; rota_guard_close() ends it. Before there are threads. */
enum rota_code rota_guard_open(struct rota_guard *guard, struct rota_error *error);

/* A group begins, or is gone. Safe in a process that has just been forked; -1 when the guard
 * is not there. */
int rota_guard_add(const struct rota_guard *guard, pid_t group);
int rota_guard_remove(const struct rota_guard *guard, pid_t group);

/* What is left is killed. */
void rota_guard_close(struct rota_guard *guard);
