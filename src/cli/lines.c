#include "cli/lines.h"

#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct reader {
    char *bytes; /* ROTA_LINES_SIZE_MAX + 1: a whole line and its newline */
    size_t size;
    unsigned long long n_lines; /* handed over */
    bool (*on_lines)(void *data, const struct rota_str *lines, size_t n);
    void *data;
};

/* Hand over the whole lines of the buffer and keep the rest; at the end of the
 * input the rest is a line too. */
static bool hand_over(struct reader *reader, bool is_end)
{
    struct rota_str lines[ROTA_LINES_GROUP_MAX];
    size_t n = 0, from = 0;

    while (from < reader->size) {
        const char *start = reader->bytes + from;
        const char *newline = memchr(start, '\n', reader->size - from);
        if (!newline && !is_end)
            break;
        size_t size = newline ? (size_t)(newline - start) : reader->size - from;
        lines[n++] = rota_str_of(start, size);
        from += size + (newline ? 1 : 0);
        if (n == ROTA_LINES_GROUP_MAX) {
            reader->n_lines += n;
            if (!reader->on_lines(reader->data, lines, n))
                return false;
            n = 0;
        }
    }
    reader->n_lines += n;
    if (n > 0 && !reader->on_lines(reader->data, lines, n))
        return false;
    reader->size -= from;
    memmove(reader->bytes, reader->bytes + from, reader->size);
    return true;
}

static int read_all(struct reader *reader)
{
    struct stat status;
    bool may_wait = fstat(STDIN_FILENO, &status) != 0 || !S_ISREG(status.st_mode);

    for (;;) {
        if (may_wait) {
            fflush(stdout);
            if (!rota_cli_can_print())
                return ROTA_CLI_OK;
        }
        ssize_t got = read(STDIN_FILENO, reader->bytes + reader->size,
                           ROTA_LINES_SIZE_MAX + 1 - reader->size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return rota_cli_fail(ROTA_CLI_BAD, "standard input can't be read: %s", strerror(errno));
        reader->size += (size_t)got;
        if (!hand_over(reader, got == 0) || got == 0)
            return ROTA_CLI_OK;
        if (reader->size > ROTA_LINES_SIZE_MAX)
            return rota_cli_fail(ROTA_CLI_BAD, "standard input: line %llu is longer than %d bytes",
                                 reader->n_lines + 1, ROTA_LINES_SIZE_MAX);
    }
}

int rota_lines_read(bool (*on_lines)(void *data, const struct rota_str *lines, size_t n),
                    void *data)
{
    struct reader reader = {.on_lines = on_lines, .data = data};
    reader.bytes = malloc(ROTA_LINES_SIZE_MAX + 1);
    if (!reader.bytes)
        return rota_cli_fail(ROTA_CLI_NO, "no memory to read standard input");
    int code = read_all(&reader);
    free(reader.bytes);
    return code;
}
