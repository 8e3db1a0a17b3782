#include "io/journal/journal_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int create_file(void *data, const char *path)
{
    (void)data;
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static int open_file(void *data, const char *path)
{
    (void)data;
    return open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
}

/* glibc's posix_fallocate() would write zeros where the file system can't allocate: that saves
 * nothing. */
static int allocate_blocks(void *data, int fd, off_t size)
{
    (void)data;
    return fallocate(fd, 0, 0, size);
}

static int truncate_file(void *data, int fd, off_t size)
{
    (void)data;
    return ftruncate(fd, size);
}

static ssize_t write_at(void *data, int fd, const void *bytes, size_t size, off_t at)
{
    (void)data;
    return pwrite(fd, bytes, size, at);
}

static int sync_file(void *data, int fd)
{
    (void)data;
    return fdatasync(fd);
}

static int sync_directory(void *data, const char *path)
{
    (void)data;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int failed = fsync(fd), why = errno;
    close(fd);
    errno = why;
    return failed;
}

static int unlink_file(void *data, const char *path)
{
    (void)data;
    return unlink(path);
}

static int find_room(void *data, const char *path, uint64_t *bytes)
{
    struct statvfs disk;
    (void)data;
    if (statvfs(path, &disk))
        return -1;
    *bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    return 0;
}

const struct rota_journal_disk rota_journal_disk_real = {
    .create = create_file,
    .open = open_file,
    .allocate = allocate_blocks,
    .truncate = truncate_file,
    .pwrite = write_at,
    .sync = sync_file,
    .sync_directory = sync_directory,
    .unlink = unlink_file,
    .room = find_room,
};
