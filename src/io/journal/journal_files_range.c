#include "io/journal/journal_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- reading --- */

/* Read what there is, the rest of `file` is zeros; -1 with errno, 0 when it is not a regular
 * file. */
static int load_range(const char *path, char file[ROTA_JOURNAL_RANGE_FILE])
{
    struct stat status;
    size_t at = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -1;
    bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    memset(file, 0, ROTA_JOURNAL_RANGE_FILE);
    while (is_file && at < ROTA_JOURNAL_RANGE_FILE) {
        ssize_t n = pread(fd, file + at, ROTA_JOURNAL_RANGE_FILE - at, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int why = errno;
            close(fd);
            errno = why;
            return -1;
        }
        if (n == 0)
            break;
        at += (size_t)n;
    }
    close(fd);
    return is_file;
}

static enum rota_code refuse_damage(const char *path, struct rota_error *error)
{
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "%s: damaged at byte 0: it does not list the segments; restore the "
                          "directory from a backup, or repair it with `rotad --repair`",
                          path);
}

enum rota_code rota_journal_files_range_read(struct rota_journal_files *files, bool repair,
                                             struct rota_error *error)
{
    char path[ROTA_JOURNAL_PATH_MAX], file[ROTA_JOURNAL_RANGE_FILE];
    struct rota_journal_range range = {0};
    rota_journal_files_path_of(files, "range", path);
    int is_file = load_range(path, file);
    if (is_file < 0 && errno == ENOENT)
        return ROTA_OK;
    if (is_file < 0 && errno != ELOOP && !repair)
        return rota_journal_files_refuse(path, "cannot be read", error);
    enum rota_journal_range_found found =
        is_file > 0 ? rota_journal_range_decode(file, &range) : ROTA_JOURNAL_RANGE_DAMAGED;
    files->has_bad_range = found == ROTA_JOURNAL_RANGE_DAMAGED;
    files->is_range_torn = found == ROTA_JOURNAL_RANGE_TORN;
    files->range = range;
    return files->has_bad_range && !repair ? refuse_damage(path, error) : ROTA_OK;
}

/* --- writing --- */

static int write_to(struct rota_journal_files *files, int fd,
                    const struct rota_journal_range *range)
{
    char bytes[ROTA_JOURNAL_RANGE_SIZE];
    bool is_new = files->range.sequence == 0;
    size_t place = rota_journal_range_encode(range, bytes);
    if (is_new && rota_journal_files_allocate(files, fd, ROTA_JOURNAL_RANGE_FILE))
        return -1;
    if (rota_journal_files_put(files, fd, rota_str_of(bytes, sizeof bytes), place) ||
        rota_journal_files_sync(files, fd))
        return -1;
    return is_new ? files->disk->sync_directory(files->disk->data, files->directory) : 0;
}

int rota_journal_files_range_put(struct rota_journal_files *files, struct rota_journal_range range)
{
    char path[ROTA_JOURNAL_PATH_MAX];
    rota_journal_files_path_of(files, "range", path);
    if (files->has_bad_range && files->disk->unlink(files->disk->data, path) && errno != ENOENT)
        return -1;
    files->has_bad_range = false;
    range.sequence = files->range.sequence + 1;
    int fd = files->disk->open(files->disk->data, path);
    if (fd < 0 && errno == ENOENT)
        fd = files->disk->create(files->disk->data, path);
    if (fd < 0)
        return -1;
    int failed = write_to(files, fd, &range), why = errno;
    close(fd);
    errno = why;
    if (!failed)
        files->range = range;
    return failed;
}
