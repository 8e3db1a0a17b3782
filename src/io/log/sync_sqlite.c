/* The signal of a log in SQLite: a small file beside the database, PATH-group.
 *
 * A process that has committed writes a byte into it, and the others, which watch it with inotify,
 * read the database. The database's own files are not watched: the log of its transactions changes
 * with each of them, heartbeats included, and before their commit; and we must not open them
 * besides SQLite, whose locks on them would be lost when we close them again.
 *
 * Each member holds a lock on one byte of the file, at the number that is its id. The kernel
 * releases it when the process ends, for whatever reason, and also reports that a file was
 * closed; so the others check at once, and a free byte shows that the process has ended, even if
 * its pid was reused. A paused process keeps its lock until its session expires. A member's row
 * says on which file, and since which boot of the machine, it has its lock: a file that was
 * deleted and recreated proves nothing. */
#include "base/hash.h"
#include "io/log/sync_sql_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

struct signal {
    struct rota_sync_signal base;
    bool is_observer;
    char database[ROTA_SQL_URL_PATH_MAX];
    char path[ROTA_SQL_URL_PATH_MAX + 8];

    int file_fd, inotify_fd, hold_fd; /* -1: none */
    struct stat file;                 /* of file_fd */
    uint64_t boot;                    /* identifies a boot of the machine */
};

static uint64_t read_boot(void)
{
    char text[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text);
    if (fd >= 0)
        close(fd);
    return rota_hash_farm32(rota_str_of(text, size > 0 ? (size_t)size : 0));
}

static enum rota_code sqlite_new(const struct rota_sql_url *url,
                                 const struct rota_sync_options *options,
                                 struct rota_sync_signal **signal, struct rota_error *error)
{
    struct signal *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for the log of a group");
    made->base.kind = &rota_sync_sqlite;
    made->is_observer = options->is_observer;
    made->file_fd = made->inotify_fd = made->hold_fd = -1;
    made->boot = read_boot();
    snprintf(made->database, sizeof made->database, "%s", url->path);
    snprintf(made->path, sizeof made->path, "%s-group", url->path);
    *signal = &made->base;
    return ROTA_OK;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void sqlite_free(struct rota_sync_signal *base)
{
    struct signal *signal = (struct signal *)base;
    close_fd(&signal->inotify_fd);
    close_fd(&signal->file_fd);
    close_fd(&signal->hold_fd);
    free(signal);
}

/* SQLite would only report that it is unable to open a file; and it would create one for a
 * reader. */
static enum rota_code sqlite_check(struct rota_sync_signal *base, struct rota_error *error)
{
    struct signal *signal = (struct signal *)base;
    char folder[sizeof signal->database];
    struct stat status;
    if (stat(signal->database, &status) == 0) {
        if (S_ISREG(status.st_mode))
            return ROTA_OK;
        return rota_error_set(error, ROTA_ERR_INVALID, "sqlite:%.300s: not a regular file",
                              signal->database);
    }
    if (errno == ENOENT && signal->is_observer)
        return rota_error_set(error, ROTA_ERR_NOT_FOUND, "sqlite:%.300s: no such file",
                              signal->database);
    snprintf(folder, sizeof folder, "%s", signal->database);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    if (access(slash ? folder : ".", W_OK | X_OK) == 0)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "sqlite:%.200s: cannot be created in '%.200s': %s", signal->database,
                          slash ? folder : ".", strerror(errno));
}

/* --- to listen --- */

/* Whether the file that is open still has its name. */
static bool is_there(const struct signal *signal)
{
    struct stat status;
    return stat(signal->path, &status) == 0 && status.st_dev == signal->file.st_dev &&
           status.st_ino == signal->file.st_ino;
}

/* Users of the database may use the file. */
static int open_file(struct signal *signal)
{
    struct stat status;
    int flags = (signal->is_observer ? O_RDONLY : O_RDWR) | O_CLOEXEC;
    int fd = open(signal->path, flags);
    if (fd >= 0 || errno != ENOENT || signal->is_observer)
        return fd;
    mode_t mode = stat(signal->database, &status) == 0 ? status.st_mode & 0666 : 0600;
    fd = open(signal->path, flags | O_CREAT | O_EXCL, mode);
    if (fd >= 0) {
        fchmod(fd, mode);
        return fd;
    }
    return errno == EEXIST ? open(signal->path, flags) : -1;
}

static enum rota_code report_failure(const struct signal *signal, const char *what,
                                     struct rota_error *error)
{
    return rota_error_set(error, errno == EACCES ? ROTA_ERR_INVALID : ROTA_ERR_IO, "%.300s: %s: %s",
                          signal->path, what, strerror(errno));
}

static enum rota_code sqlite_open(struct rota_sync_signal *base, struct rota_error *error)
{
    struct signal *signal = (struct signal *)base;
    close_fd(&signal->inotify_fd);
    close_fd(&signal->file_fd);
    signal->file_fd = open_file(signal);
    if (signal->file_fd < 0 || fstat(signal->file_fd, &signal->file))
        return report_failure(signal, "the file that notifies other processes cannot be opened",
                              error);
    signal->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (signal->inotify_fd < 0 || inotify_add_watch(signal->inotify_fd, signal->path,
                                                    IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB) < 0) {
        enum rota_code code = report_failure(signal, "cannot be watched", error);
        close_fd(&signal->inotify_fd);
        return code;
    }
    return ROTA_OK;
}

static int sqlite_fd(const struct rota_sync_signal *base)
{
    return ((const struct signal *)base)->inotify_fd;
}

static int sqlite_hear(struct rota_sync_signal *base)
{
    struct signal *signal = (struct signal *)base;
    _Alignas(struct inotify_event) char bytes[4096];
    int heard = 0;
    for (;;) {
        ssize_t size = read(signal->inotify_fd, bytes, sizeof bytes);
        if (size <= 0) {
            bool is_over = size == 0 || (errno != EAGAIN && errno != EINTR);
            return is_over ? heard | ROTA_SYNC_HEARD_LOST : heard;
        }
        for (ssize_t at = 0; at < size;) {
            const struct inotify_event *event = (const void *)(bytes + at);
            if (event->mask & (IN_MODIFY | IN_Q_OVERFLOW))
                heard |= ROTA_SYNC_HEARD_NEWS;
            if (event->mask & (IN_CLOSE_WRITE | IN_Q_OVERFLOW))
                heard |= ROTA_SYNC_HEARD_DEATH;
            if ((event->mask & IN_ATTRIB) && !is_there(signal))
                heard |= ROTA_SYNC_HEARD_LOST;
            if (event->mask & (IN_IGNORED | IN_UNMOUNT))
                heard |= ROTA_SYNC_HEARD_LOST;
            at += (ssize_t)(sizeof *event + event->len);
        }
    }
}

/* Others also check by themselves, so a byte that can't be written only costs time. */
static void sqlite_told(struct rota_sync_signal *base)
{
    struct signal *signal = (struct signal *)base;
    if (signal->file_fd >= 0 && pwrite(signal->file_fd, "", 1, 0) != 1)
        return;
}

/* --- live processes --- */

/* The file, and the start of the machine, in which a lock means something. */
static uint64_t where_of(const struct signal *signal, const struct stat *file)
{
    uint64_t words[] = {signal->boot, (uint64_t)file->st_dev, (uint64_t)file->st_ino, 0};
    uint64_t low = rota_hash_farm32(rota_str_of(words, sizeof words));
    words[3] = 1;
    uint64_t high = rota_hash_farm32(rota_str_of(words, sizeof words));
    return (high >> 2 << 32 | low) + 1; /* 0 means that no lock is held */
}

static struct flock lock_of(uint64_t id)
{
    return (struct flock){
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)id, .l_len = 1};
}

/* With a separate descriptor, so that the kernel reports it apart from those of readers. */
static enum rota_code sqlite_hold(struct rota_sync_signal *base, uint64_t id, uint64_t *where,
                                  struct rota_error *error)
{
    struct signal *signal = (struct signal *)base;
    struct flock lock = lock_of(id);
    struct stat status;
    close_fd(&signal->hold_fd);
    signal->hold_fd = open_file(signal);
    if (signal->hold_fd < 0 || fstat(signal->hold_fd, &status))
        return report_failure(signal, "cannot be opened", error);
    if (fcntl(signal->hold_fd, F_OFD_SETLK, &lock)) {
        *where = 0; /* a file system without locks: only the session counts */
        close_fd(&signal->hold_fd);
        return ROTA_OK;
    }
    *where = where_of(signal, &status);
    return ROTA_OK;
}

static void sqlite_drop(struct rota_sync_signal *base)
{
    close_fd(&((struct signal *)base)->hold_fd);
}

static bool sqlite_is_dead(struct rota_sync_signal *base, uint64_t id, uint64_t where)
{
    struct signal *signal = (struct signal *)base;
    struct flock lock = lock_of(id);
    if (signal->file_fd < 0 || where != where_of(signal, &signal->file))
        return false;
    return fcntl(signal->file_fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

/* A lock does not name its group, so it proves something only on a new file. A missing file has
 * no locks. */
static bool sqlite_is_known(struct rota_sync_signal *base, struct rota_sql *sql, bool is_made)
{
    struct signal *signal = (struct signal *)base;
    (void)sql;
    if (!is_made)
        return false;
    struct flock lock = lock_of(0);
    lock.l_len = 0; /* all of it */
    int fd = open(signal->path, O_RDWR | O_CLOEXEC);
    bool is_held = fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    close_fd(&fd);
    return is_held;
}

const struct rota_sync_signal_kind rota_sync_sqlite = {
    .new = sqlite_new,
    .free = sqlite_free,
    .check = sqlite_check,
    .open = sqlite_open,
    .fd = sqlite_fd,
    .hear = sqlite_hear,
    .told = sqlite_told,
    .hold = sqlite_hold,
    .drop = sqlite_drop,
    .is_dead = sqlite_is_dead,
    .is_known = sqlite_is_known,
};
