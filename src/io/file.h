/* Whole files, read in one go and never more of them than was allowed. */
#pragma once

#include "base/buffer.h"

#include <rota/error.h>
#include <stdbool.h>

/* Read all of the regular file `path`, at most `size_max` bytes. Fills `*content`;
 * rota_buffer_deinit() ends it. ROTA_ERR_NOT_FOUND when there is no such file, ROTA_ERR_LIMIT
 * when it is too large. Anything that is not a regular file, such as a directory, a pipe or a
 * device, is rejected without waiting for it. Any thread. */
enum rota_code rota_file_read(const char *path, size_t size_max, struct rota_buffer *content,
                              struct rota_error *error);

/* The same from an open descriptor of any kind: a pipe is read to its end, and waited for.
 * `name` is its name in messages. Any thread. */
enum rota_code rota_file_read_fd(int fd, const char *name, size_t size_max,
                                 struct rota_buffer *content, struct rota_error *error);

/* Whether the file `path` is safe for a secret: ROTA_ERR_INVALID, with the cure, when every user
 * can read or change the file, or the group of our own file, unless `group_may`. That of another
 * owner may be there for a group that we are in. Any thread. */
enum rota_code rota_file_check_secret(const char *path, bool group_may, struct rota_error *error);

/* Create the file `path` and lock it, with the number of this process in it, so that only one
 * process uses what it protects; closing `*fd`, or the end of the process, unlocks it. `*holder`
 * is the number that was in it, 0 without one: when that process still holds the lock
 * ROTA_ERR_UNAVAILABLE, else it ended without emptying the file. */
enum rota_code rota_file_lock(const char *path, int *fd, long *holder, struct rota_error *error);
