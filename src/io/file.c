#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *kind_of(mode_t mode)
{
    if (S_ISDIR(mode))
        return "a directory";
    if (S_ISFIFO(mode))
        return "a pipe";
    if (S_ISSOCK(mode))
        return "a socket";
    return "a device";
}

static enum rota_code refuse_errno(const char *path, struct rota_error *error)
{
    enum rota_code code = errno == ENOENT || errno == ENOTDIR ? ROTA_ERR_NOT_FOUND : ROTA_ERR_IO;
    return rota_error_set(error, code, "cannot read %s: %s", path, strerror(errno));
}

static enum rota_code check_kind(int fd, const char *path, struct rota_error *error)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return refuse_errno(path, error);
    if (!S_ISREG(status.st_mode))
        return rota_error_set(error, ROTA_ERR_INVALID, "%s is %s, not a file", path,
                              kind_of(status.st_mode));
    return ROTA_OK;
}

/* Do not trust the size that a file reports: it may grow, and under /proc it is 0. */
static enum rota_code read_whole_file(int fd, const char *path, size_t size_max,
                                      struct rota_buffer *content, struct rota_error *error)
{
    char piece[16384];
    for (;;) {
        ssize_t size = read(fd, piece, sizeof piece);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0)
            return refuse_errno(path, error);
        if (size == 0)
            return ROTA_OK;
        if ((size_t)size > size_max - content->size)
            return rota_error_set(error, ROTA_ERR_LIMIT, "%s: larger than the allowed %zu bytes",
                                  path, size_max);
        rota_buffer_append(content, piece, (size_t)size);
        if (content->failed)
            return rota_error_no_memory(error, "to read %s", path);
    }
}

enum rota_code rota_file_read(const char *path, size_t size_max, struct rota_buffer *content,
                              struct rota_error *error)
{
    /* Without O_NONBLOCK, opening a pipe would block before we could reject it. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENXIO)
        return rota_error_set(error, ROTA_ERR_INVALID, "%s is a socket, not a file", path);
    if (fd < 0)
        return refuse_errno(path, error);

    enum rota_code code = check_kind(fd, path, error);
    if (!code)
        code = rota_file_read_fd(fd, path, size_max, content, error);
    close(fd);
    return code;
}

enum rota_code rota_file_read_fd(int fd, const char *name, size_t size_max,
                                 struct rota_buffer *content, struct rota_error *error)
{
    struct rota_buffer made = {0};
    enum rota_code code = read_whole_file(fd, name, size_max, &made, error);
    if (code)
        rota_buffer_deinit(&made);
    else
        *content = made;
    return code;
}

enum rota_code rota_file_check_secret(const char *path, bool group_may, struct rota_error *error)
{
    struct stat status;
    mode_t refused = S_IROTH | S_IWOTH;
    if (stat(path, &status) != 0)
        return refuse_errno(path, error);
    bool is_ours = status.st_uid == geteuid();
    if (is_ours && !group_may)
        refused |= S_IRGRP | S_IWGRP;
    if (!(status.st_mode & refused))
        return ROTA_OK;
    bool is_read = status.st_mode & refused & (S_IROTH | S_IRGRP);
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "%s: other users can %s the secret in it (mode %04o); run chmod %s %s",
                          path, is_read ? "read" : "change", (unsigned)status.st_mode & 07777,
                          is_ours ? "600" : "640", path);
}

enum rota_code rota_file_lock(const char *path, int *fd, long *holder, struct rota_error *error)
{
    char text[32] = "";
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return rota_error_set(error, ROTA_ERR_IO, "cannot open %.1000s: %s", path, strerror(errno));
    bool is_ours = flock(file, LOCK_EX | LOCK_NB) == 0;
    int reason = errno;
    *holder = pread(file, text, sizeof text - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;
    if (!is_ours) {
        close(file);
        if (reason != EWOULDBLOCK)
            return rota_error_set(error, ROTA_ERR_IO, "cannot lock %.1000s: %s", path,
                                  strerror(reason));
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                              "another process (%ld) has locked %.1000s", *holder, path);
    }
    int size = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(file, 0) || pwrite(file, text, (size_t)size, 0) != size) {
        /* On a full disk the lock still holds; it only does not name its owner. */
    }
    *fd = file;
    return ROTA_OK;
}
