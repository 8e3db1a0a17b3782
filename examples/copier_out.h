/* Where the copier's lines go: a file that checks fencing tokens.
 *
 * Its first line is the highest token of all writers so far. A writer with a lower token is
 * rejected: it was replaced and does not know it yet. A database does the same with a column beside
 * the data. */
#pragma once

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { TOKEN_WIDTH = 20, LINE_SIZE = 1024 };

/* Returns the file's descriptor; -1: see errno. */
static inline int out_open(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
}

/* Appends the line unless a writer with a higher token was here before. */
static inline bool out_write(int out, uint64_t token, const char *line)
{
    char text[LINE_SIZE + 2] = "";
    flock(out, LOCK_EX); /* concurrent writers take turns */
    ssize_t n = pread(out, text, TOKEN_WIDTH, 0);
    bool is_written = n <= 0 || strtoull(text, NULL, 10) <= token;
    if (is_written) {
        int size = snprintf(text, sizeof text, "%0*" PRIu64 "\n", TOKEN_WIDTH, token);
        is_written = pwrite(out, text, (size_t)size, 0) == size && lseek(out, 0, SEEK_END) > 0;
        size = snprintf(text, sizeof text, "%.*s\n", LINE_SIZE, line);
        is_written = is_written && write(out, text, (size_t)size) == size;
    }
    flock(out, LOCK_UN);
    return is_written;
}
