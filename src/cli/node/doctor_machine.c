/* Checks of the machine: clock, limits, disk. */
#include "cli/node/doctor.h"

#include "io/clock.h"
#include "io/memory.h"
#include "node/rules/node_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/timex.h>
#include <unistd.h>

/* --- clock and limits --- */

void rota_doctor_clock(struct rota_doctor *doctor)
{
    static const char *const FIX = "Run chrony or systemd-timesyncd. Leases do not depend on the "
                                   "clock, but deadlines, delays and "
                                   "scheduled changes do.";
    enum { ERROR_MAX_US = 500000 };
    struct timex look = {0};
    int state = adjtimex(&look);
    if (state < 0)
        rota_cmd_doctor_find(doctor, "clock", ROTA_VERDICT_WARN, FIX,
                             "cannot find out whether the clock is synchronized: %s",
                             strerror(errno));
    else if (state == TIME_ERROR || look.status & STA_UNSYNC)
        rota_cmd_doctor_find(doctor, "clock", ROTA_VERDICT_WARN, FIX,
                             "the system clock is not synchronized (no NTP)");
    else if (look.esterror > ERROR_MAX_US)
        rota_cmd_doctor_find(doctor, "clock", ROTA_VERDICT_WARN, FIX,
                             "the clock may be off by %ld ms, by its own estimate",
                             look.esterror / 1000);
    else
        rota_cmd_doctor_find(doctor, "clock", ROTA_VERDICT_OK, NULL,
                             "the clock is synchronized to %ld us, by its own estimate",
                             look.esterror);
}

static void look_at_descriptors(struct rota_doctor *doctor)
{
    enum { WANTED = 16384 };
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    rota_cmd_doctor_find(
        doctor, "file descriptors", limit.rlim_max < WANTED ? ROTA_VERDICT_WARN : ROTA_VERDICT_OK,
        limit.rlim_max < WANTED
            ? "Raise the hard limit with `ulimit -Hn 65536`, or LimitNOFILE=65536 in the unit: "
              "every connection needs one."
            : NULL,
        "up to %llu can be open at a time", (unsigned long long)limit.rlim_max);
}

static void look_at_memory(struct rota_doctor *doctor, uint64_t allowed)
{
    enum { MIB_WANTED = 256 };
    static const char *const FIXES[] = {
        [ROTA_MEMORY_ENOUGH] = "A million waiting jobs take about 220 MB; raise the limit of the "
                               "control group or `ulimit -v`, or keep fewer.",
        [ROTA_MEMORY_LESS_THAN_ALLOWED] =
            "Set `memory` lower in the node's settings, for jobs and for each cache, or raise the "
            "limit of the control group (MemoryMax=) or `ulimit -v`: at the limit the kernel kills "
            "the node.",
        [ROTA_MEMORY_TOO_LITTLE] =
            "A node needs more than this: raise the limit of the control group (MemoryMax=) or "
            "`ulimit -v`.",
    };
    struct rota_memory memory = rota_memory_look();
    struct rota_node_memory parts = rota_node_memory_split(allowed);
    if (allowed > 0) /* requests use an eighth of it, or more if it is small */
        allowed = parts.jobs + parts.grpc + parts.http;
    enum rota_memory_verdict verdict = rota_memory_judge(&memory, allowed);
    bool is_small = verdict != ROTA_MEMORY_ENOUGH || memory.bytes >> 20 < MIB_WANTED;
    rota_cmd_doctor_find(
        doctor, "memory",
        verdict == ROTA_MEMORY_TOO_LITTLE ? ROTA_VERDICT_FAIL
        : is_small                        ? ROTA_VERDICT_WARN
                                          : ROTA_VERDICT_OK,
        is_small ? FIXES[verdict] : NULL, "%llu MiB available, limited by %s%s",
        (unsigned long long)(memory.bytes >> 20), rota_memory_bound_name(memory.bound),
        verdict == ROTA_MEMORY_LESS_THAN_ALLOWED ? ", which is less than --memory" : "");
}

void rota_doctor_limits(struct rota_doctor *doctor, uint64_t allowed)
{
    look_at_descriptors(doctor);
    look_at_memory(doctor, allowed);
}

/* --- disk --- */

static int compare_times(const void *a, const void *b)
{
    rota_time x = *(const rota_time *)a, y = *(const rota_time *)b;
    return (x > y) - (x < y);
}

/* The median of a few appends with fdatasync(), as a journal does them; -1 and errno on failure. */
static rota_time measure_sync(int fd)
{
    enum { TIMES = 33 };
    static char block[4096];
    rota_time took[TIMES];
    memset(block, 'r', sizeof block);
    for (int i = 0; i < TIMES; i++) {
        rota_time before = rota_clock_boot();
        ssize_t n = write(fd, block, sizeof block);
        if (n != (ssize_t)sizeof block) {
            if (n >= 0)
                errno = ENOSPC;
            return -1;
        }
        if (fdatasync(fd))
            return -1;
        took[i] = rota_clock_boot() - before;
    }
    qsort(took, TIMES, sizeof took[0], compare_times);
    return took[TIMES / 2];
}

static void judge_sync(struct rota_doctor *doctor, const char *directory, rota_time took,
                       bool is_memory)
{
    char text[ROTA_TIME_TEXT_MAX];
    const char *fix = NULL;
    if (took > 20 * ROTA_MSEC)
        fix = "Jobs are acknowledged after a sync: put the data on an SSD or NVMe disk of its own.";
    else if (took < 20 * ROTA_USEC && !is_memory)
        fix = "No disk is that fast: a cache reports writes that have not reached the "
              "disk. Make sure that the volume honors flushes.";
    rota_cmd_doctor_find(doctor, "disk sync", fix ? ROTA_VERDICT_WARN : ROTA_VERDICT_OK, fix,
                         "a write and its sync in %.200s take %s (median)", directory,
                         rota_cmd_doctor_span(took, text));
}

static void look_at_room(struct rota_doctor *doctor, const char *directory,
                         const struct statfs *look)
{
    enum { MIB_LOW = 1024, MIB_NONE = 64 };
    unsigned long long mib =
        (unsigned long long)look->f_bavail * (unsigned long)look->f_bsize >> 20;
    enum rota_verdict verdict = mib < MIB_NONE  ? ROTA_VERDICT_FAIL
                                : mib < MIB_LOW ? ROTA_VERDICT_WARN
                                                : ROTA_VERDICT_OK;
    rota_cmd_doctor_find(doctor, "disk space", verdict,
                         verdict ? "Free some space: a node on a full disk rejects new jobs."
                                 : NULL,
                         "%llu MiB are free in %.200s", mib, directory);
}

static void look_at_kind(struct rota_doctor *doctor, const char *directory,
                         const struct statfs *look)
{
    if (look->f_type == TMPFS_MAGIC)
        rota_cmd_doctor_find(
            doctor, "disk", ROTA_VERDICT_WARN,
            "Use a directory on a disk, unless all data may be lost with the machine.",
            "%.200s is in memory (tmpfs)", directory);
    else if (look->f_type == NFS_SUPER_MAGIC || look->f_type == SMB2_SUPER_MAGIC)
        rota_cmd_doctor_find(
            doctor, "disk", ROTA_VERDICT_WARN,
            "Use a local disk: locks and syncs are not reliable on a network file system.",
            "%.200s is on a network file system", directory);
    else
        rota_cmd_doctor_find(doctor, "disk", ROTA_VERDICT_OK, NULL, "%.200s can be written",
                             directory);
}

void rota_doctor_disk(struct rota_doctor *doctor, const char *directory)
{
    char path[4096];
    struct statfs look;
    snprintf(path, sizeof path, "%s/.rota-doctor-XXXXXX", directory);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        rota_cmd_doctor_find(
            doctor, "disk", ROTA_VERDICT_FAIL,
            "Create the directory if it is missing, and let the user that runs Rota write to it.",
            "%.200s cannot be written: %s", directory, strerror(errno));
        return;
    }
    unlink(path);
    if (fstatfs(fd, &look) == 0) {
        look_at_kind(doctor, directory, &look);
        look_at_room(doctor, directory, &look);
    }
    rota_time took = measure_sync(fd);
    if (took < 0)
        rota_cmd_doctor_find(doctor, "disk sync", ROTA_VERDICT_FAIL,
                             "Free some space, or check the disk for errors (dmesg).",
                             "writing in %.200s failed: %s", directory, strerror(errno));
    else
        judge_sync(doctor, directory, took, look.f_type == TMPFS_MAGIC);
    close(fd);
}
