/* Whole files, read in one go and never more of them than was allowed. */
#pragma once

#include "base/buffer.h"

#include <rota/error.h>

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
