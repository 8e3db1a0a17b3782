/* journal_disk: what a journal asks of the disk, so that a test can stand in for it: note
 * what was done in which order, fail it, or leave it undone.
 *
 * Every function returns as the call of the system does that it is named for, -1 with errno
 * set when it fails. What only reads does not come this way. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rota_journal_disk {
    int (*create)(void *data, const char *path); /* a new file for writing; gives its fd */
    int (*open)(void *data, const char *path);   /* one that is there, for writing */
    int (*allocate)(void *data, int fd, off_t size);
    int (*truncate)(void *data, int fd, off_t size);
    ssize_t (*pwrite)(void *data, int fd, const void *bytes, size_t size, off_t at);
    int (*sync)(void *data, int fd);                     /* fdatasync: bytes, and the size */
    int (*sync_directory)(void *data, const char *path); /* names in it */
    int (*unlink)(void *data, const char *path);
    int (*room)(void *data, const char *path, uint64_t *bytes); /* that are free; NULL: who knows */
    void *data;                                                 /* kept */
};

extern const struct rota_journal_disk rota_journal_disk_real;
