/* A clock that no other program can hold up, for a test on one thread: it counts the time that the
 * thread computes, and the time that it wants to sleep. A short sleep takes no other time.
 *
 * All clocks of the process show it, also in shared libraries: the functions below stand in for
 * those of the C library. Include it in one file, of a test whose events all come from its own
 * thread. */
#pragma once

#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Who sleeps longer than a test's own timers waits for the kernel. */
enum { THREAD_CLOCK_SHORT_MS = 10 };

static long long thread_clock_slept_ms;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    long code = syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, now);
    now->tv_sec += 3600 + thread_clock_slept_ms / 1000; /* an hour after the start of all time */
    now->tv_nsec += thread_clock_slept_ms % 1000 * 1000000;
    if (now->tv_nsec >= 1000000000) {
        now->tv_nsec -= 1000000000;
        now->tv_sec++;
    }
    return (int)code;
}

int epoll_pwait(int fd, struct epoll_event *events, int n_max, int timeout_ms,
                const sigset_t *signals)
{
    bool is_short = timeout_ms > 0 && timeout_ms <= THREAD_CLOCK_SHORT_MS;
    int n = (int)syscall(SYS_epoll_pwait, fd, events, n_max, is_short ? 0 : timeout_ms, signals, 8);
    if (n == 0 && timeout_ms > 0)
        thread_clock_slept_ms += timeout_ms;
    return n;
}

int epoll_wait(int fd, struct epoll_event *events, int n_max, int timeout_ms)
{
    return epoll_pwait(fd, events, n_max, timeout_ms, NULL);
}
