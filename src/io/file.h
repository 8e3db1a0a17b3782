/* Whole files, read in one go and never more of them than was allowed. */
#pragma once

#include "base/buffer.h"

#include <rota/error.h>
#include <stdbool.h>

/* Read all of the regular file `path`, at most `size_max` bytes. Fills
 * `*content`; rota_buffer_deinit() ends it. ROTA_ERR_NOT_FOUND when there is no
 * such file, ROTA_ERR_LIMIT when it is too large. What is no file, such as a
 * directory, a pipe or a device, is refused without waiting for it. Any thread. */
enum rota_code rota_file_read(const char *path, size_t size_max, struct rota_buffer *content,
                              struct rota_error *error);

/* The same from what is open already, whatever it is: a pipe is read to its end,
 * and waited for. `name` is what it is called in messages. Any thread. */
enum rota_code rota_file_read_fd(int fd, const char *name, size_t size_max,
                                 struct rota_buffer *content, struct rota_error *error);

/* Whether the secret in the file `path` is one: ROTA_ERR_INVALID, with what cures it, when
 * everybody can read or change the file, or the group of our own file, unless `group_may`. That of
 * another owner may be there for a group that we are in. Any thread. */
enum rota_code rota_file_check_secret(const char *path, bool group_may, struct rota_error *error);

/* Make the file `path` and lock it, with the number of this process in it, so that one process
 * has what it stands for; closing `*fd`, or the end of the process, unlocks it. `*holder` is the
 * number that was in it, 0 without one: when that process still has it ROTA_ERR_UNAVAILABLE, else
 * it ended without emptying the file. */
enum rota_code rota_file_lock(const char *path, int *fd, long *holder, struct rota_error *error);
