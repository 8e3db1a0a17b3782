/* A wall clock that a test can put forward and back, for one process: loaded before
 * the C library (LD_PRELOAD), it adds to CLOCK_REALTIME the nanoseconds in the file
 * ROTA_TEST_CLOCK, which the test may change at any time. The monotonic clocks stay as
 * they are; with ROTA_TEST_CLOCK_ALL set they jump, too, which is how a program would
 * fare that measures time by the wall clock. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t SECOND = 1000000000;

static _Atomic int64_t none;
static _Atomic int64_t *shift = &none;
static bool is_shifting_all;

__attribute__((constructor)) static void map_shift(void)
{
    const char *path = getenv("ROTA_TEST_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *shared = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) {
        fprintf(stderr, "wall_clock: no ROTA_TEST_CLOCK\n");
        _exit(2);
    }
    close(fd);
    shift = shared;
    is_shifting_all = getenv("ROTA_TEST_CLOCK_ALL") != NULL;
}

static bool is_shifted(clockid_t clock)
{
    bool is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    bool is_monotonic = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE;
    return is_wall || (is_monotonic && is_shifting_all);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (syscall(SYS_clock_gettime, clock, time) != 0)
        return -1;
    if (is_shifted(clock)) {
        int64_t shifted = time->tv_sec * SECOND + time->tv_nsec + atomic_load(shift);
        time->tv_sec = shifted / SECOND;
        time->tv_nsec = shifted % SECOND;
    }
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *time = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *result)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result)
        *result = now.tv_sec;
    return now.tv_sec;
}
