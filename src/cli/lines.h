/* lines: read a file or standard input line by line, in bounded memory.
 *
 * Lines are any bytes up to a newline; the last one may lack it. Callers get as many lines at a
 * time as one read returned, so that they can process groups. Standard output is flushed before a
 * read that may block. */
#pragma once

#include <rota/str.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROTA_LINES_SIZE_MAX = 1 << 20, /* bytes of one line */
    ROTA_LINES_GROUP_MAX = 1024,   /* lines of one call */
};

/* Read all of standard input. `on_lines` gets 1 to ROTA_LINES_GROUP_MAX lines at a time, borrowed,
 * and returns false to stop. Returns an exit code. A line that is too long ends it with a message,
 * after all lines before it were handed over. */
int rota_lines_read(bool (*on_lines)(void *data, const struct rota_str *lines, size_t n),
                    void *data);

struct rota_lines_file {
    const char *path; /* `-` is standard input */
    size_t size_max;  /* bytes of one line */
    bool (*on_lines)(void *data, const struct rota_str *lines, size_t n);

    /* Optional: called first, with the size in bytes, 0 if unknown. */
    void (*on_start)(void *data, uint64_t total);

    /* Optional: called when a signal interrupts a read, and at the end; true stops. */
    bool (*is_over)(void *data);
    void *data;
};

/* The same for any file. A group of lines has at most `size_max` bytes plus one line. */
int rota_lines_read_file(const struct rota_lines_file *file);
