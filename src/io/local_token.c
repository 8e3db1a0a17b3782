#include "io/local_token.h"

#include "io/address.h"

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

static bool name_file(const char *folder, const char *address, char path[PATH_SIZE])
{
    const char *colon = strrchr(address, ':');
    return colon && colon[1] >= '0' && colon[1] <= '9' && strlen(colon) <= sizeof ":65535" - 1 &&
           snprintf(path, PATH_SIZE, "%.4100s/%s.token", folder, colon + 1) < PATH_SIZE;
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
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) || !write_token(fd, token))) {
        close(fd);
        return -1;
    }
    return fd;
}

enum rota_code rota_local_token_write(const char *address, const char *token, int *fd,
                                      struct rota_error *error)
{
    char folder[PATH_SIZE];
    for (int i = 0; i < FOLDERS; i++)
        if (name_folder(i, folder) && (*fd = open_locked(folder, address, token)) >= 0)
            return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_IO,
                          "cannot leave the token of %.270s for commands on this machine in "
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
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    bool is_live = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    ssize_t size = is_live ? pread(fd, token, ROTA_LOCAL_TOKEN_MAX, 0) : 0;
    close(fd);
    token[size > 0 ? size : 0] = '\0';
    return size > 0;
}

static bool is_loopback(const char *address)
{
    struct rota_address parsed;
    struct sockaddr_storage resolved;
    return !rota_address_parse(address, &parsed, NULL) &&
           (strcmp(parsed.host, "localhost") == 0 ||
            (rota_address_resolve(&parsed, &resolved) &&
             rota_address_is_loopback((const struct sockaddr *)&resolved)));
}

bool rota_local_token_read(const char *address, char token[ROTA_LOCAL_TOKEN_MAX + 1])
{
    char folder[PATH_SIZE], path[PATH_SIZE];
    if (!is_loopback(address))
        return false;
    for (int i = 0; i < FOLDERS; i++)
        if (name_folder(i, folder) && is_safe(folder) && name_file(folder, address, path) &&
            read_locked(path, token))
            return true;
    return false;
}
