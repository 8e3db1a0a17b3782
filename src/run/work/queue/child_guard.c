#include "run/work/queue/child_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A group that begins is written as its number, one that is gone as the negative number. */
static void note_group(pid_t groups[ROTA_GUARD_GROUPS_MAX], size_t *n, int32_t word)
{
    pid_t group = word < 0 ? -word : word;
    size_t i = 0;
    while (i < *n && groups[i] != group)
        i++;
    if (word < 0 && i < *n)
        groups[i] = groups[--*n];
    else if (word > 0 && i == *n && *n < ROTA_GUARD_GROUPS_MAX)
        groups[(*n)++] = group;
}

static void close_all_but(int kept)
{
    int null = open("/dev/null", O_RDWR);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
    long max = sysconf(_SC_OPEN_MAX);
    for (int fd = STDERR_FILENO + 1; fd < (max > 4096 || max < 0 ? 4096 : max); fd++)
        if (fd != kept)
            close(fd);
}

static void watch_parent(int fd)
{
    static pid_t groups[ROTA_GUARD_GROUPS_MAX];
    int32_t words[256];
    size_t n = 0;
    ssize_t size;
    close_all_but(fd);
    do {
        size = read(fd, words, sizeof words);
        for (ssize_t i = 0; i < size / (ssize_t)sizeof *words; i++)
            note_group(groups, &n, words[i]);
    } while (size > 0 || (size < 0 && errno == EINTR));
    for (size_t i = 0; i < n; i++)
        kill(-groups[i], SIGKILL);
    _exit(0);
}

enum rota_code rota_child_guard_open(struct rota_child_guard *guard, struct rota_error *error)
{
    static const int PASSED[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGTSTP};
    int fds[2];
    if (pipe2(fds, O_CLOEXEC))
        return rota_error_set(error, ROTA_ERR_IO, "cannot create the guard's pipe: %s",
                              strerror(errno));
    pid_t pid = fork();
    if (pid < 0) {
        rota_error_set(error, ROTA_ERR_IO, "cannot start the guard process: %s", strerror(errno));
        close(fds[0]);
        close(fds[1]);
        return ROTA_ERR_IO;
    }
    if (pid == 0) {
        setpgid(0, 0);
        for (size_t i = 0; i < sizeof PASSED / sizeof *PASSED; i++)
            signal(PASSED[i], SIG_IGN);
        watch_parent(fds[0]);
    }
    setpgid(pid, pid); /* before a terminal can speak to it */
    close(fds[0]);
    *guard = (struct rota_child_guard){.fd = fds[1], .pid = pid};
    return ROTA_OK;
}

static int write_word(const struct rota_child_guard *guard, int32_t word)
{
    ssize_t size;
    do
        size = write(guard->fd, &word, sizeof word);
    while (size < 0 && errno == EINTR);
    return size == (ssize_t)sizeof word ? 0 : -1;
}

int rota_child_guard_add(const struct rota_child_guard *guard, pid_t group)
{
    return write_word(guard, group);
}

int rota_child_guard_remove(const struct rota_child_guard *guard, pid_t group)
{
    return write_word(guard, -group);
}

void rota_child_guard_close(struct rota_child_guard *guard)
{
    if (guard->pid == 0)
        return;
    close(guard->fd);
    while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    guard->pid = 0;
}
