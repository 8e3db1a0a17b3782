/* pairs: a file of keys and values (wire/text/pairs_file.h), open to be read by key.
 *
 * Opening reads the file once and remembers where its keys are; a value is read when it is
 * requested. So replace the file by another of its name, do not change it in place: a process that
 * has it open continues with the old one. A change in place is detected by the lines, as far as
 * possible.
 *
 * All functions block, so they belong on a worker thread. An open file does not change: any
 * number of threads may read it at a time. */
#pragma once

#include "base/buffer.h"

#include <rota/error.h>
#include <stdint.h>

struct rota_pairs_file;

/* Open the regular file `path`; `seed` guards against chosen keys. A syntax error is reported as
 * "FILE:LINE: ...". ROTA_ERR_UNAVAILABLE when it was changed meanwhile. Gives `*file`;
 * rota_pairs_file_close() ends it and accepts NULL. */
enum rota_code rota_pairs_file_open(const char *path, uint64_t seed, struct rota_pairs_file **file,
                                    struct rota_error *error);
void rota_pairs_file_close(struct rota_pairs_file *file);

/* Does the name still refer to this very file, unchanged? `file` may be NULL: is there no such
 * file? */
bool rota_pairs_file_is_current(const struct rota_pairs_file *file, const char *path);

size_t rota_pairs_file_n_keys(const struct rota_pairs_file *file);

/* False when its last line has no end: perhaps it is being written. */
bool rota_pairs_file_is_whole(const struct rota_pairs_file *file);

/* Append the value of a key to `value`; `*is_found` is false when there is none.
 * ROTA_ERR_UNAVAILABLE when the file was changed in place; ROTA_ERR_LIMIT, and nothing
 * is read, when `value` is not empty and would have more than `size_max` bytes. */
enum rota_code rota_pairs_file_get(const struct rota_pairs_file *file, struct rota_str key,
                                   size_t size_max, struct rota_buffer *value, bool *is_found,
                                   struct rota_error *error);
