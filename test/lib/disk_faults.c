/* A disk that fails when a test says so, for one process: loaded before the C library
 * (LD_PRELOAD), it reads from the file ROTA_TEST_DISK, which the test may change at any time,
 * three numbers of four bytes: what fails (1 writes, 2 syncs, 4 taking room, or a sum of them),
 * with which errno, and how many go well before. Only writes at a place fail, which is how a
 * journal writes; what goes to a terminal or a socket does not. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WRITES = 1, SYNCS = 2, ROOM = 4 };

struct plan {
    _Atomic int32_t what, why, n_left;
};

static struct plan none;
static struct plan *plan = &none;

__attribute__((constructor)) static void map_plan(void)
{
    const char *path = getenv("ROTA_TEST_DISK");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *shared =
        fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) {
        fprintf(stderr, "disk_faults: no ROTA_TEST_DISK\n");
        _exit(2);
    }
    close(fd);
    plan = shared;
}

static bool fails(int what)
{
    if (!(atomic_load(&plan->what) & what) || atomic_fetch_sub(&plan->n_left, 1) > 0)
        return false;
    errno = atomic_load(&plan->why);
    return true;
}

/* With the width of off_t that the program has, too: pwrite64. */
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at)
{
    return fails(WRITES) ? -1 : syscall(SYS_pwrite64, fd, bytes, size, at);
}

int fdatasync(int fd)
{
    return fails(SYNCS) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    return fails(SYNCS) ? -1 : (int)syscall(SYS_fsync, fd);
}

int fallocate(int fd, int mode, off_t at, off_t size)
{
    return fails(ROOM) ? -1 : (int)syscall(SYS_fallocate, fd, mode, at, size);
}
