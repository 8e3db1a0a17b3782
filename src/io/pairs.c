#include "io/pairs.h"

#include "base/error_at.h"
#include "base/quote.h"
#include "wire/text/pairs_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 20 }; /* bytes of one read */

struct rota_pairs_file {
    int fd;
    char *path;
    struct stat status;
    struct rota_pairs pairs;
    bool is_whole;
};

static enum rota_code refuse_errno(const char *path, struct rota_error *error)
{
    enum rota_code code = errno == ENOENT || errno == ENOTDIR ? ROTA_ERR_NOT_FOUND : ROTA_ERR_IO;
    return rota_error_set(error, code, "cannot read %s: %s", path, strerror(errno));
}

static bool is_same_moment(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           is_same_moment(a->st_mtim, b->st_mtim);
}

/* --- opening --- */

static enum rota_code read_pieces(struct rota_pairs_file *file, struct rota_pairs_reader *reader,
                                  char *piece, struct rota_error *error)
{
    ssize_t size;
    file->is_whole = true;
    while ((size = read(file->fd, piece, PIECE)) != 0) {
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0)
            return refuse_errno(file->path, error);
        file->is_whole = piece[size - 1] == '\n';
        enum rota_code code =
            rota_pairs_file_reader_feed(reader, rota_str_of(piece, (size_t)size), error);
        if (code)
            return code;
    }
    return rota_pairs_file_reader_finish(reader, error);
}

static enum rota_code read_places(struct rota_pairs_file *file, struct rota_error *error)
{
    struct rota_pairs_reader reader;
    char *piece = malloc(PIECE);
    if (!piece)
        return rota_error_no_memory(error, "to read %s", file->path);
    rota_pairs_file_reader_init(&reader, file->path, &file->pairs);
    enum rota_code code = read_pieces(file, &reader, piece, error);
    rota_pairs_file_reader_deinit(&reader);
    free(piece);
    return code;
}

/* Read the line at `place` into `line`, and its pair. */
static enum rota_code read_line(const struct rota_pairs_file *file,
                                const struct rota_pair_place *place, struct rota_buffer *line,
                                struct rota_buffer *scratch, struct rota_pair *pair,
                                struct rota_error *error)
{
    rota_buffer_clear(line);
    char *bytes = rota_buffer_extend(line, place->size);
    if (!bytes)
        return rota_error_no_memory(error, "for a line of %s", file->path);
    size_t n = 0;
    while (n < place->size) {
        ssize_t size = pread(file->fd, bytes + n, place->size - n, (off_t)(place->offset + n));
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0)
            return refuse_errno(file->path, error);
        if (size == 0)
            break; /* it was truncated */
        n += (size_t)size;
    }
    if (n < place->size ||
        rota_pairs_file_parse_pair(rota_buffer_str(line), file->path, place->line, scratch, pair,
                                   NULL) ||
        pair->key.size == 0)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                              "%s was changed in place; replace the whole file instead",
                              file->path);
    return ROTA_OK;
}

static enum rota_code check_twins(const struct rota_pairs_file *file,
                                  const struct rota_pair_place *first,
                                  const struct rota_pair_place *second, struct rota_error *error)
{
    struct rota_buffer lines[2] = {0}, scratch[2] = {0};
    struct rota_pair a, b;
    char quoted[ROTA_QUOTE_MAX];
    enum rota_code code = read_line(file, first, &lines[0], &scratch[0], &a, error);
    if (!code)
        code = read_line(file, second, &lines[1], &scratch[1], &b, error);
    if (!code && rota_str_is_equal(a.key, b.key))
        code = rota_error_set_at(error, ROTA_ERR_INVALID, file->path, second->line,
                                 "the key %s is already on line %u", rota_quote(a.key, quoted),
                                 first->line);
    for (int i = 0; i < 2; i++) {
        rota_buffer_deinit(&lines[i]);
        rota_buffer_deinit(&scratch[i]);
    }
    return code;
}

static enum rota_code read_pairs(struct rota_pairs_file *file, struct rota_error *error)
{
    struct rota_pair_place first, second;
    struct stat after;
    size_t index = 0;
    if (fstat(file->fd, &file->status) != 0)
        return refuse_errno(file->path, error);
    if (!S_ISREG(file->status.st_mode))
        return rota_error_set(error, ROTA_ERR_INVALID, "%s: is not a file", file->path);
    enum rota_code code = read_places(file, error);
    while (!code && rota_pairs_file_next_twins(&file->pairs, &index, &first, &second))
        code = check_twins(file, &first, &second, error);
    if (fstat(file->fd, &after) != 0 || !is_same_file(&file->status, &after))
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "%s: was changed while it was read",
                              file->path);
    return code;
}

enum rota_code rota_pairs_file_open(const char *path, uint64_t seed, struct rota_pairs_file **file,
                                    struct rota_error *error)
{
    struct rota_pairs_file *made = calloc(1, sizeof *made);
    char *copy = strdup(path);
    enum rota_code code;
    if (!made || !copy) {
        free(made);
        free(copy);
        return rota_error_no_memory(error, "to read %s", path);
    }
    made->path = copy;
    made->pairs.seed = seed;
    made->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    code = made->fd < 0 ? refuse_errno(path, error) : read_pairs(made, error);
    if (code) {
        rota_pairs_file_close(made);
        return code;
    }
    *file = made;
    return ROTA_OK;
}

void rota_pairs_file_close(struct rota_pairs_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    rota_pairs_file_deinit(&file->pairs);
    free(file->path);
    free(file);
}

/* --- asking --- */

bool rota_pairs_file_is_current(const struct rota_pairs_file *file, const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return !file;
    return file && is_same_file(&file->status, &status);
}

size_t rota_pairs_file_n_keys(const struct rota_pairs_file *file)
{
    return file->pairs.places.size;
}

bool rota_pairs_file_is_whole(const struct rota_pairs_file *file)
{
    return file->is_whole;
}

static enum rota_code get_at(const struct rota_pairs_file *file,
                             const struct rota_pair_place *place, struct rota_str key,
                             struct rota_buffer *value, bool *is_found, struct rota_error *error)
{
    struct rota_buffer line = {0}, scratch = {0};
    struct rota_pair pair;
    enum rota_code code = read_line(file, place, &line, &scratch, &pair, error);
    if (!code && rota_str_is_equal(pair.key, key)) {
        rota_buffer_append_str(value, pair.value);
        *is_found = true;
        if (value->failed)
            code = rota_error_no_memory(error, "for a value of %s", file->path);
    }
    rota_buffer_deinit(&line);
    rota_buffer_deinit(&scratch);
    return code;
}

/* A key that is not at its place, although no other one has its hash, was removed. */
enum rota_code rota_pairs_file_get(const struct rota_pairs_file *file, struct rota_str key,
                                   size_t size_max, struct rota_buffer *value, bool *is_found,
                                   struct rota_error *error)
{
    size_t n = 0;
    const struct rota_pair_place *places = rota_pairs_file_find(&file->pairs, key, &n);
    enum rota_code code = ROTA_OK;
    *is_found = false;
    for (size_t i = 0; !code && !*is_found && i < n; i++) {
        if (value->size > 0 && (value->size > size_max || places[i].size > size_max - value->size))
            return rota_error_set(error, ROTA_ERR_LIMIT, "%s: the values have more than %zu bytes",
                                  file->path, size_max);
        code = get_at(file, &places[i], key, value, is_found, error);
    }
    return code;
}
