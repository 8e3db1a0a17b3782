/* Where the connector's lines go: a file that trusts tokens, not tasks.
 *
 * Its first line is the highest token that has written here. Whoever comes with a lower one
 * is refused: it has been replaced and does not know it yet. A database does the same with
 * a column beside the data. */
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

/* The file's descriptor; -1: errno tells. */
static inline int out_open(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
}

/* Append the line unless a higher token has written here. */
static inline bool out_write(int out, uint64_t token, const char *line)
{
    char text[LINE_SIZE + 2] = "";
    flock(out, LOCK_EX); /* two writers at once: one after the other */
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
