#include "io/local_token.h"

#include "io/net/address.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDERS = 3, PATH_SIZE = 4200 };

/* The folder with this number; false when there is none. */
static bool name_folder(int number, char path[PATH_SIZE])
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    switch (number) {
    case 0:
        snprintf(path, PATH_SIZE, "/run/rota");
        return true;
    case 1:
        return runtime && runtime[0] == '/' &&
               snprintf(path, PATH_SIZE, "%.4000s/rota", runtime) > 0;
    default:
        snprintf(path, PATH_SIZE, "/tmp/rota-%ld", (long)geteuid());
        return true;
    }
}

/* In /tmp anyone can make a folder of our name: it has to be ours. */
static bool is_safe(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) &&
           (status.st_uid == geteuid() || status.st_uid == 0 || geteuid() == 0) &&
           (status.st_mode & 022) == 0;
}

/* By the whole address, which has to be a loopback one: at the same port of another address
 * another user's process may listen. A node that listens at all addresses is found at
 * 127.0.0.1. */
static bool name_file(const char *folder, const char *address, char path[PATH_SIZE])
{
    struct rota_address parsed;
    struct sockaddr_storage resolved;
    char text[ROTA_ADDRESS_TEXT_MAX];
    if (rota_address_parse(address, &parsed, NULL))
        return false;
    if (strcmp(parsed.host, "0.0.0.0") == 0 || strcmp(parsed.host, "::") == 0)
        snprintf(parsed.host, sizeof parsed.host, "127.0.0.1");
    return rota_address_resolve(&parsed, &resolved) &&
           rota_address_is_loopback((const struct sockaddr *)&resolved) &&
           snprintf(path, PATH_SIZE, "%.3900s/%s.token", folder,
                    rota_address_format((const struct sockaddr *)&resolved, text)) < PATH_SIZE;
}

/* The folder may be another user's when we are root: the file must be ours alone. */
static bool is_own_file(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1 &&
           status.st_uid == geteuid();
}

static bool write_token(int fd, const char *token)
{
    size_t size = strlen(token);
    return fchmod(fd, 0600) == 0 && ftruncate(fd, 0) == 0 &&
           pwrite(fd, token, size, 0) == (ssize_t)size;
}

static int open_locked(const char *folder, const char *address, const char *token)
{
    char path[PATH_SIZE];
    if ((mkdir(folder, 0755) && errno != EEXIST) || !is_safe(folder) ||
        !name_file(folder, address, path))
        return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd >= 0 && (!is_own_file(fd) || flock(fd, LOCK_EX | LOCK_NB) || !write_token(fd, token))) {
        close(fd);
        return -1;
    }
    return fd;
}

enum rota_code rota_local_token_write(const char *address, const char *token, int *fd,
                                      struct rota_error *error)
{
    char folder[PATH_SIZE], path[PATH_SIZE];
    *fd = -1;
    if (!name_file("", address, path))
        return ROTA_OK; /* it has no loopback address */
    for (int i = 0; i < FOLDERS; i++)
        if (name_folder(i, folder) && (*fd = open_locked(folder, address, token)) >= 0)
            return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_IO,
                          "cannot publish the token of %.270s for commands on this machine in "
                          "/run/rota, $XDG_RUNTIME_DIR/rota or /tmp/rota-%ld: %s",
                          address, (long)geteuid(), strerror(errno));
}

void rota_local_token_remove(const char *address, int fd)
{
    char folder[PATH_SIZE], path[PATH_SIZE];
    struct stat ours, there;
    if (fd < 0)
        return;
    for (int i = 0; i < FOLDERS && fstat(fd, &ours) == 0; i++)
        if (name_folder(i, folder) && name_file(folder, address, path) &&
            lstat(path, &there) == 0 && there.st_ino == ours.st_ino && there.st_dev == ours.st_dev)
            unlink(path);
    close(fd);
}

/* A node that lives has it locked. */
static bool read_locked(const char *path, char token[ROTA_LOCAL_TOKEN_MAX + 1])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool is_live = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    ssize_t size = is_live ? pread(fd, token, ROTA_LOCAL_TOKEN_MAX, 0) : 0;
    close(fd);
    token[size > 0 ? size : 0] = '\0';
    return size > 0;
}

bool rota_local_token_read(const char *address, char token[ROTA_LOCAL_TOKEN_MAX + 1])
{
    char folder[PATH_SIZE], path[PATH_SIZE];
    for (int i = 0; i < FOLDERS; i++)
        if (name_folder(i, folder) && is_safe(folder) && name_file(folder, address, path) &&
            read_locked(path, token))
            return true;
    return false;
}
