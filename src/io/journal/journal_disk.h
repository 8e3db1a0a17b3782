/* journal_disk: the system calls of a journal, so that a test can replace them: record what was
 * done in which order, fail it, or skip it.
 *
 * Every function returns like the system call of its name, -1 with errno set when it fails.
 * Reads do not use this. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rota_journal_disk {
    int (*create)(void *data, const char *path); /* a new file for writing; gives its fd */
    int (*open)(void *data, const char *path);   /* an existing one, for writing */
    int (*allocate)(void *data, int fd, off_t size);
    int (*truncate)(void *data, int fd, off_t size);
    ssize_t (*pwrite)(void *data, int fd, const void *bytes, size_t size, off_t at);
    int (*sync)(void *data, int fd);                     /* fdatasync: bytes, and the size */
    int (*sync_directory)(void *data, const char *path); /* names in it */
    int (*unlink)(void *data, const char *path);
    int (*room)(void *data, const char *path, uint64_t *bytes); /* that are free; NULL: not known */
    void *data;                                                 /* kept */
};

extern const struct rota_journal_disk rota_journal_disk_real;
