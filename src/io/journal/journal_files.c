#include "io/journal/journal_files.h"

#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* --- paths and sentences --- */

char *rota_journal_files_path_of(const struct rota_journal_files *files, const char *name,
                                 char path[ROTA_JOURNAL_PATH_MAX])
{
    snprintf(path, ROTA_JOURNAL_PATH_MAX, "%s/%s", files->directory, name);
    return path;
}

char *rota_journal_files_path(const struct rota_journal_files *files, uint64_t index,
                              char path[ROTA_JOURNAL_PATH_MAX])
{
    char name[64];
    snprintf(name, sizeof name, "%08" PRIu64 ".journal", index);
    return rota_journal_files_path_of(files, name, path);
}

enum rota_code rota_journal_files_refuse(const char *path, const char *what,
                                         struct rota_error *error)
{
    int why = errno;
    struct stat status;
    bool is_owner = why == EACCES || why == EPERM;
    if (is_owner && lstat(path, &status) == 0)
        return rota_error_set(error, ROTA_ERR_IO,
                              "%s: %s: %s: it belongs to user %u, and this process runs as user %u",
                              path, what, strerror(why), (unsigned)status.st_uid,
                              (unsigned)geteuid());
    return rota_error_set(error, ROTA_ERR_IO, "%s: %s: %s", path, what, strerror(why));
}

/* EFBIG: a limit of this process (ulimit -f), or of the file system. */
static bool is_no_room(int why)
{
    return why == ENOSPC || why == EDQUOT || why == EFBIG;
}

/* --- writing --- */

int rota_journal_files_put(struct rota_journal_files *files, int fd, struct rota_str bytes,
                           size_t at)
{
    while (bytes.size > 0) {
        ssize_t n = files->disk->pwrite(files->disk->data, fd, bytes.data, bytes.size, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO; /* it writes nothing, and gives no reason */
        if (n <= 0)
            return -1;
        at += (size_t)n;
        bytes = rota_str_of(bytes.data + n, bytes.size - (size_t)n);
    }
    return 0;
}

int rota_journal_files_sync(struct rota_journal_files *files, int fd)
{
    int failed;
    do
        failed = files->disk->sync(files->disk->data, fd);
    while (failed && errno == EINTR);
    return failed;
}

static int sync_directory(struct rota_journal_files *files)
{
    return files->disk->sync_directory(files->disk->data, files->directory);
}

int rota_journal_files_allocate(struct rota_journal_files *files, int fd, size_t size)
{
    int failed;
    do
        failed = files->disk->allocate(files->disk->data, fd, (off_t)size);
    while (failed && errno == EINTR);
    return failed && (errno == EOPNOTSUPP || errno == ENOSYS) ? 0 : failed;
}

/* Create a file with a head; on failure nothing is left of it. */
static int make_segment(struct rota_journal_files *files, const char *path, uint64_t first,
                        size_t size)
{
    struct rota_journal_head head = {.index = files->index, .first = first};
    char bytes[ROTA_JOURNAL_HEAD_SIZE];
    int fd = files->disk->create(files->disk->data, path);
    if (fd < 0)
        return -1;
    memcpy(head.id, files->id, sizeof head.id);
    rota_journal_segment_head_encode(&head, bytes);
    if (rota_journal_files_allocate(files, fd, size) ||
        rota_journal_files_put(files, fd, rota_str_of(bytes, sizeof bytes), 0) ||
        rota_journal_files_sync(files, fd) || sync_directory(files)) {
        int why = errno;
        close(fd);
        files->disk->unlink(files->disk->data, path);
        errno = why;
        return -1;
    }
    return fd;
}

static void give_up_reserve(struct rota_journal_files *files)
{
    char path[ROTA_JOURNAL_PATH_MAX];
    files->is_full = true;
    files->disk->unlink(files->disk->data, rota_journal_files_path_of(files, "reserve", path));
    sync_directory(files);
}

/* Create one of the full size, or half of that, and so on, down to `least`: on a full disk, too, a
 * segment should hold many batches, not just one. */
static int make_some_segment(struct rota_journal_files *files, const char *path, uint64_t first,
                             size_t least, size_t *size)
{
    *size = files->is_full ? files->reserve_size / 2 : files->segment_size;
    for (;; *size /= 2) {
        if (*size < least)
            *size = least;
        int fd = make_segment(files, path, first, *size);
        if (fd >= 0 || !is_no_room(errno) || *size == least)
            return fd;
    }
}

enum { MARK_ROOM = 64 }; /* for the mark of a clean close */

/* Nothing more is written to the last segment: the space after its content is freed, if
 * possible. A crash may undo that without harm: there are zeros. */
static void leave_segment(struct rota_journal_files *files)
{
    if (files->fd < 0)
        return;
    struct rota_journal_part *part = &files->parts.items[files->parts.size - 1];
    if (part->used < files->size &&
        files->disk->truncate(files->disk->data, files->fd, (off_t)part->used) == 0)
        part->size = part->used;
    close(files->fd);
}

/* Begin a segment for at least `need` bytes. ROTA_ERR_LIMIT when there is no room; before that
 * the reserve is released for it, if allowed. */
static enum rota_code begin_segment(struct rota_journal_files *files, uint64_t first, size_t need,
                                    bool may_use_reserve, struct rota_error *error)
{
    char path[ROTA_JOURNAL_PATH_MAX];
    size_t least = ROTA_JOURNAL_HEAD_SIZE + need + MARK_ROOM, size;
    struct rota_journal_part part = {files->index, first, ROTA_JOURNAL_HEAD_SIZE, 0};
    if (files->parts.size >= ROTA_JOURNAL_SEGMENTS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "%s: has %d segments already",
                              files->directory, ROTA_JOURNAL_SEGMENTS_MAX);
    if (!rota_vector_reserve(&files->parts, files->parts.size + 1))
        return rota_error_set(error, ROTA_ERR_LIMIT, "%s: not enough memory for another segment",
                              files->directory);
    rota_journal_files_path(files, files->index, path);
    int fd = make_some_segment(files, path, first, least, &size);
    if (fd < 0 && is_no_room(errno) && may_use_reserve && !files->is_full) {
        give_up_reserve(files);
        fd = make_some_segment(files, path, first, least, &size);
    }
    if (fd < 0 && !is_no_room(errno))
        return rota_journal_files_refuse(path, "cannot be created", error);
    if (fd < 0)
        return rota_error_set(error, ROTA_ERR_LIMIT, "%s: no space left for %zu bytes",
                              files->directory, need);
    leave_segment(files);
    files->fd = fd;
    files->size = size;
    files->ready = 0;
    files->index++;
    part.size = size;
    (void)rota_vector_push(&files->parts, part);
    return ROTA_OK;
}

/* Make the range include the segments from the `place`th on. */
static enum rota_code tell_range(struct rota_journal_files *files, size_t place,
                                 struct rota_error *error)
{
    char path[ROTA_JOURNAL_PATH_MAX];
    const struct rota_journal_part *lowest = &files->parts.items[place];
    struct rota_journal_range range = {.lowest = lowest->index, .first = lowest->first};
    range.last = files->parts.items[files->parts.size - 1].index;
    if (files->range.sequence && range.lowest == files->range.lowest &&
        range.last == files->range.last && files->range.ended == 0)
        return ROTA_OK;
    int failed = rota_journal_files_range_put(files, range);
    if (failed && is_no_room(errno) && !files->is_full) {
        give_up_reserve(files);
        failed = rota_journal_files_range_put(files, range);
    }
    if (!failed)
        return ROTA_OK;
    rota_journal_files_path_of(files, "range", path);
    if (is_no_room(errno))
        return rota_error_set(error, ROTA_ERR_LIMIT, "%s: no space left", path);
    return rota_journal_files_refuse(path, "cannot be written", error);
}

/* Zeros that take `size` bytes of a file from `at` on; -1 with errno. */
static int put_zeros(struct rota_journal_files *files, int fd, size_t at, size_t size)
{
    static const char zeros[65536];
    for (size_t end = at + size, n; at < end; at += n) {
        n = end - at < sizeof zeros ? end - at : sizeof zeros;
        if (rota_journal_files_put(files, fd, rota_str_of(zeros, n), at))
            return -1;
    }
    return 0;
}

/* Write blocks after `end` before they are needed. Errors do not matter: this is only for speed. */
static void write_ahead(struct rota_journal_files *files, size_t end)
{
    size_t size = end < files->size ? files->size - end : 0;
    if (files->is_full || end <= files->ready || size == 0)
        return;
    if (size > ROTA_JOURNAL_AHEAD)
        size = ROTA_JOURNAL_AHEAD;
    files->ready = put_zeros(files, files->fd, end, size) ? files->size : end + size;
}

enum rota_code rota_journal_files_write(struct rota_journal_files *files, struct rota_str batch,
                                        uint64_t first, struct rota_error *error)
{
    char path[ROTA_JOURNAL_PATH_MAX];
    if (files->fd < 0 || batch.size > rota_journal_files_left(files)) {
        enum rota_code code = begin_segment(files, first, batch.size, true, error);
        if (code)
            return code;
    }
    enum rota_code code = tell_range(files, 0, error);
    if (code)
        return code;
    struct rota_journal_part *part = &files->parts.items[files->parts.size - 1];
    rota_journal_files_path(files, part->index, path);
    int failed = rota_journal_files_put(files, files->fd, batch, part->used);
    if (failed && is_no_room(errno) && !files->is_full) {
        give_up_reserve(files);
        failed = rota_journal_files_put(files, files->fd, batch, part->used);
    }
    if (failed && is_no_room(errno))
        return rota_error_set(error, ROTA_ERR_LIMIT, "%s: no space left for %zu bytes", path,
                              batch.size);
    if (failed)
        return rota_journal_files_refuse(path, "cannot be written", error);
    write_ahead(files, part->used + batch.size);
    /* After a failed sync it is unknown what is on disk: the system may have dropped what it
     * could not write, and a second sync would not report it. */
    if (rota_journal_files_sync(files, files->fd))
        return rota_journal_files_refuse(path, "cannot be synced", error);
    part->used += batch.size;
    return ROTA_OK;
}

enum rota_code rota_journal_files_drop(struct rota_journal_files *files, uint64_t number,
                                       struct rota_error *error)
{
    char path[ROTA_JOURNAL_PATH_MAX];
    size_t n = 0, n_old = 0;
    while (n_old + 1 < files->parts.size && files->parts.items[n_old + 1].first <= number)
        n_old++;
    enum rota_code code = n_old > 0 ? tell_range(files, n_old, error) : ROTA_OK;
    while (!code && n < n_old) {
        rota_journal_files_path(files, files->parts.items[n].index, path);
        if (files->disk->unlink(files->disk->data, path) && errno != ENOENT)
            code = rota_journal_files_refuse(path, "cannot be removed", error);
        else if (sync_directory(files))
            code = rota_journal_files_refuse(files->directory, "cannot be synced", error);
        else
            n++;
    }
    if (n > 0) {
        files->parts.size -= n;
        memmove(files->parts.items, files->parts.items + n,
                files->parts.size * sizeof *files->parts.items);
    }
    return code;
}

enum rota_code rota_journal_files_make_room(struct rota_journal_files *files, size_t need,
                                            struct rota_error *error)
{
    if (rota_journal_files_left(files) >= need)
        return ROTA_OK;
    return begin_segment(files, files->last + 1, need, false, error);
}

/* Where the file system can't reserve room, write zeros. */
static int fill_reserve(struct rota_journal_files *files, int fd)
{
    int failed;
    do
        failed = files->disk->allocate(files->disk->data, fd, (off_t)files->reserve_size);
    while (failed && errno == EINTR);
    if (!failed || (errno != EOPNOTSUPP && errno != ENOSYS))
        return failed;
    return put_zeros(files, fd, 0, files->reserve_size);
}

bool rota_journal_files_find_room(struct rota_journal_files *files)
{
    char path[ROTA_JOURNAL_PATH_MAX];
    struct stat status;
    rota_journal_files_path_of(files, "reserve", path);
    if (files->is_full && rota_journal_files_free(files) < files->reserve_size / 2 * 3)
        return false;
    if (!files->is_full && stat(path, &status) == 0 &&
        (size_t)status.st_size >= files->reserve_size)
        return true;
    files->disk->unlink(files->disk->data, path);
    int fd = files->disk->create(files->disk->data, path);
    bool is_there = fd >= 0 && fill_reserve(files, fd) == 0;
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && !is_there)
        files->disk->unlink(files->disk->data, path);
    files->is_full = !is_there;
    return is_there;
}

size_t rota_journal_files_left(const struct rota_journal_files *files)
{
    return files->fd >= 0 ? files->size - files->parts.items[files->parts.size - 1].used : 0;
}

uint64_t rota_journal_files_free(const struct rota_journal_files *files)
{
    uint64_t bytes;
    if (!files->disk->room || files->disk->room(files->disk->data, files->directory, &bytes))
        return UINT64_MAX;
    return bytes;
}

uint64_t rota_journal_files_bytes(const struct rota_journal_files *files)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < files->parts.size; i++)
        bytes += files->parts.items[i].used;
    return bytes;
}

uint64_t rota_journal_files_edge(const struct rota_journal_files *files)
{
    return files->parts.size ? files->parts.items[files->parts.size - 1].first : 0;
}

/* --- opening --- */

enum rota_code rota_journal_files_check_directory(struct rota_journal_files *files,
                                                  struct rota_error *error)
{
    struct stat status;
    if (stat(files->directory, &status) != 0)
        return rota_journal_files_refuse(files->directory, "cannot be examined", error);
    if (!S_ISDIR(status.st_mode))
        return rota_error_set(error, ROTA_ERR_INVALID, "%s: is not a directory", files->directory);
    if (status.st_mode & S_IWOTH)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "%s: every user can write to it; fix that with chmod o-w",
                              files->directory);
    files->is_open = status.st_mode & S_IXOTH;
    return ROTA_OK;
}

/* Create the directory durably, if it does not exist. */
static enum rota_code make_directory(struct rota_journal_files *files, struct rota_error *error)
{
    char parent[ROTA_JOURNAL_PATH_MAX];
    if (mkdir(files->directory, 0700) == 0) {
        snprintf(parent, sizeof parent, "%s/..", files->directory);
        if (files->disk->sync_directory(files->disk->data, parent))
            return rota_journal_files_refuse(parent, "cannot be synced", error);
    } else if (errno != EEXIST) {
        return rota_journal_files_refuse(files->directory, "cannot be created", error);
    }
    return rota_journal_files_check_directory(files, error);
}

/* On a small disk a small one: it must leave room for what it protects. */
static size_t choose_reserve(const struct rota_journal_files *files)
{
    struct statvfs disk;
    if (statvfs(files->directory, &disk) != 0 || disk.f_blocks == 0 || disk.f_frsize == 0 ||
        disk.f_blocks / 8 >= ROTA_JOURNAL_RESERVE / disk.f_frsize)
        return ROTA_JOURNAL_RESERVE;
    size_t size = (size_t)(disk.f_blocks * disk.f_frsize / 8);
    return size > ROTA_JOURNAL_SEGMENT_MIN ? size : ROTA_JOURNAL_SEGMENT_MIN;
}

/* The last record, beside the process, where those who remove or empty segments leave it alone. It
 * is not synced: after a crash an older number is there, or none. */
static void note_last(const struct rota_journal_files *files, uint64_t number)
{
    char text[64];
    int size = snprintf(text, sizeof text, "%ld\nrecord %" PRIu64 "\n", (long)getpid(), number);
    if (number == 0 || pwrite(files->lock_fd, text, (size_t)size, 0) != size ||
        ftruncate(files->lock_fd, size)) {
        /* An emptied journal is noticed if there is a range or a reserve. */
    }
}

static uint64_t read_last(const char *path)
{
    char text[64] = "";
    uint64_t number = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const char *found =
        fd >= 0 && pread(fd, text, sizeof text - 1, 0) > 0 ? strchr(text, '\n') : NULL;
    if (found && strncmp(found, "\nrecord ", 8) == 0)
        number = strtoull(found + 8, NULL, 10);
    if (fd >= 0)
        close(fd);
    return number;
}

static enum rota_code lock_directory(struct rota_journal_files *files, struct rota_error *error)
{
    char path[ROTA_JOURNAL_PATH_MAX];
    long holder;
    rota_journal_files_path_of(files, "lock", path);
    files->had = read_last(path);
    enum rota_code code = rota_file_lock(path, &files->lock_fd, &holder, error);
    if (code == ROTA_ERR_UNAVAILABLE && holder > 0)
        rota_error_set(error, code, "%s: process %ld uses this journal; only one process may",
                       files->directory, holder);
    else if (code == ROTA_ERR_UNAVAILABLE)
        rota_error_set(error, code, "%s: another process uses this journal; only one process may",
                       files->directory);
    if (!code)
        note_last(files, files->had); /* it is needed again if the journal is refused */
    return code;
}

static enum rota_code check_options(const struct rota_journal_files_options *options,
                                    struct rota_error *error)
{
    if (!options->directory || !options->directory[0] ||
        strlen(options->directory) > ROTA_JOURNAL_PATH_MAX - 64)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a journal needs a directory, whose path "
                              "has at most %d bytes",
                              ROTA_JOURNAL_PATH_MAX - 64);
    size_t size = options->segment_size;
    if (size && (size < ROTA_JOURNAL_SEGMENT_MIN || size > ROTA_JOURNAL_SEGMENT_MAX))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the segment size is %zu bytes; it must be between %d and %d", size,
                              ROTA_JOURNAL_SEGMENT_MIN, ROTA_JOURNAL_SEGMENT_MAX);
    return ROTA_OK;
}

/* The first segment of a new journal, so that an error shows now. One without a readable head is
 * a new one too, after the old one. */
static enum rota_code begin_journal(struct rota_journal_files *files, struct rota_error *error)
{
    if (getrandom(files->id, sizeof files->id, 0) != (ssize_t)sizeof files->id)
        return rota_error_set(error, ROTA_ERR_IO, "%s: no random bytes for an id: %s",
                              files->directory, strerror(errno));
    if (files->index == 0)
        files->index = 1;
    return begin_segment(files, 1, 0, true, error);
}

enum rota_code rota_journal_files_open(const struct rota_journal_files_options *options,
                                       struct rota_journal_files **files, struct rota_error *error)
{
    enum rota_code code = check_options(options, error);
    if (code)
        return code;
    struct rota_journal_files *made = calloc(1, sizeof *made);
    if (!made || !(made->directory = strdup(options->directory))) {
        free(made);
        return rota_error_no_memory(error, "for a journal");
    }
    made->lock_fd = made->fd = -1;
    made->disk = options->disk ? options->disk : &rota_journal_disk_real;
    made->segment_size = options->segment_size ? options->segment_size : ROTA_JOURNAL_SEGMENT;
    code = make_directory(made, error);
    made->reserve_size = options->reserve_size ? options->reserve_size : choose_reserve(made);
    if (!code)
        code = lock_directory(made, error);
    if (!code)
        code = rota_journal_read_files(made, options, error);
    if (!code && !made->has_id)
        code = begin_journal(made, error);
    if (!code)
        code = tell_range(made, 0, error);
    if (code == ROTA_ERR_LIMIT && made->parts.size > 0)
        code = ROTA_OK; /* the existing records can be served: the next write tries again */
    if (code) {
        rota_journal_files_close(made);
        return code;
    }
    note_last(made, made->last);
    rota_journal_files_find_room(made);
    *files = made;
    return ROTA_OK;
}

void rota_journal_files_end(struct rota_journal_files *files, uint64_t next)
{
    struct rota_journal_range range = files->range;
    range.ended = next;
    if (range.sequence)
        (void)rota_journal_files_range_put(files, range);
    note_last(files, next - 1);
}

void rota_journal_files_close(struct rota_journal_files *files)
{
    if (!files)
        return;
    if (files->fd >= 0)
        close(files->fd);
    if (files->lock_fd >= 0)
        close(files->lock_fd);
    rota_vector_deinit(&files->parts);
    free(files->directory);
    free(files);
}
