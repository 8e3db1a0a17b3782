#include "process.h"

#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void process_path(const char *folder, const char *program, char path[PROCESS_PATH_SIZE])
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    snprintf(path, PROCESS_PATH_SIZE, "%s/%s/%s", dirname(self), folder, program);
}

/* Pinned, and ahead of whatever else the machine does, as far as we may: the
 * kernel weighs sessions before it looks at the processes in them. */
static void settle(int core)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    sched_setaffinity(0, sizeof cores, &cores);
    setsid();
    setpriority(PRIO_PROCESS, 0, -15);
    int group = open("/proc/self/autogroup", O_WRONLY);
    if (group >= 0) {
        ssize_t n = write(group, "-15", 3);
        (void)n;
        close(group);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

bool process_start(struct process *process, int core, char *const arguments[])
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return false;
    process->pid = fork();
    if (process->pid == 0) {
        settle(core);
        dup2(ends[1], STDOUT_FILENO);
        execv(arguments[0], arguments);
        _exit(127);
    }
    close(ends[1]);
    process->out = ends[0];
    return process->pid > 0;
}

void process_stop(struct process *process)
{
    kill(process->pid, SIGKILL);
    waitpid(process->pid, NULL, 0);
    close(process->out);
}

bool process_read_line(const struct process *process, int timeout_ms, char line[PROCESS_LINE_SIZE])
{
    struct pollfd ready = {.fd = process->out, .events = POLLIN};
    if (poll(&ready, 1, timeout_ms) != 1)
        return false;
    ssize_t n = read(process->out, line, PROCESS_LINE_SIZE - 1);
    if (n <= 0 || line[n - 1] != '\n')
        return false;
    line[n - 1] = '\0';
    return true;
}

/* --- the machine --- */

double process_busy_seconds(void)
{
    uint64_t t[8] = {0};
    FILE *file = fopen("/proc/stat", "r");
    if (!file)
        return 0;
    int n = fscanf(file,
                   "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                   " %" SCNu64 " %" SCNu64,
                   &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]);
    fclose(file);
    if (n != 8)
        return 0;
    return (double)(t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) / (double)sysconf(_SC_CLK_TCK);
}

double process_now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct process_moment process_moment(void)
{
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    return (struct process_moment){
        .at = process_now_seconds(),
        .busy = process_busy_seconds(),
        .children = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                    (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6,
    };
}

double process_cores_elsewhere(const struct process_moment *since)
{
    struct process_moment now = process_moment();
    double elsewhere = now.busy - since->busy - (now.children - since->children);
    return elsewhere < 0 ? 0 : elsewhere / (now.at - since->at); /* jiffies are coarse */
}

double process_cpu_seconds(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
        return 0;
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
