#include "cli/lines.h"

#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct reader {
    const struct rota_lines_file *file;
    int fd;
    char *bytes; /* size_max + 1: a whole line and its newline */
    size_t size;
    unsigned long long n_lines; /* already handed over */
};

/* Hand over the complete lines in the buffer and keep the rest; at the end of the input the rest is
 * a line too. */
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
            if (!reader->file->on_lines(reader->file->data, lines, n))
                return false;
            n = 0;
        }
    }
    reader->n_lines += n;
    if (n > 0 && !reader->file->on_lines(reader->file->data, lines, n))
        return false;
    reader->size -= from;
    memmove(reader->bytes, reader->bytes + from, reader->size);
    return true;
}

static int read_all(struct reader *reader)
{
    const struct rota_lines_file *file = reader->file;
    const char *name = rota_cli_file_name(file->path);
    struct stat status;
    bool is_file = fstat(reader->fd, &status) == 0 && S_ISREG(status.st_mode);

    if (file->on_start)
        file->on_start(file->data, is_file ? (uint64_t)status.st_size : 0);
    for (;;) {
        if (!is_file) { /* it may block */
            fflush(stdout);
            if (!rota_cli_can_print())
                return ROTA_CLI_OK;
        }
        ssize_t got =
            read(reader->fd, reader->bytes + reader->size, file->size_max + 1 - reader->size);
        bool is_cut = got < 0 && errno == EINTR;
        if ((is_cut || got == 0) && file->is_over && file->is_over(file->data))
            return ROTA_CLI_OK; /* drop an incomplete line then */
        if (is_cut)
            continue;
        if (got < 0)
            return rota_cli_fail(ROTA_CLI_BAD, "cannot read %s: %s", name, strerror(errno));
        reader->size += (size_t)got;
        if (!hand_over(reader, got == 0) || got == 0)
            return ROTA_CLI_OK;
        if (reader->size > file->size_max)
            return rota_cli_fail(ROTA_CLI_BAD, "%s: line %llu is longer than %zu bytes", name,
                                 reader->n_lines + 1, file->size_max);
    }
}

int rota_lines_read_file(const struct rota_lines_file *file)
{
    struct reader reader = {.file = file, .fd = STDIN_FILENO};
    bool is_input = strcmp(file->path, "-") == 0;
    reader.bytes = malloc(file->size_max + 1);
    if (!reader.bytes)
        return rota_cli_fail(ROTA_CLI_NO, "not enough memory to read %s",
                             rota_cli_file_name(file->path));
    if (!is_input)
        reader.fd = open(file->path, O_RDONLY | O_CLOEXEC);
    int code = reader.fd < 0
                   ? rota_cli_fail(ROTA_CLI_BAD, "cannot read %s: %s", file->path, strerror(errno))
                   : read_all(&reader);
    if (!is_input && reader.fd >= 0)
        close(reader.fd);
    free(reader.bytes);
    return code;
}

int rota_lines_read(bool (*on_lines)(void *data, const struct rota_str *lines, size_t n),
                    void *data)
{
    struct rota_lines_file file = {
        .path = "-", .size_max = ROTA_LINES_SIZE_MAX, .on_lines = on_lines, .data = data};
    return rota_lines_read_file(&file);
}
