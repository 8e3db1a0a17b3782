/* process: the programs that a benchmark starts, each pinned to a core, and what the
 * machine has done meanwhile. None of them outlives the benchmark. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

enum { PROCESS_LINE_SIZE = 512, PROCESS_PATH_SIZE = 4400 };

struct process {
    pid_t pid;
    int out; /* its stdout */
};

/* Where a program is that stands in `folder` beside this one. */
void process_path(const char *folder, const char *program, char path[PROCESS_PATH_SIZE]);

/* Start arguments[0], and stop it, whatever it does. */
bool process_start(struct process *process, int core, char *const arguments[]);
void process_stop(struct process *process);

/* One line of its output within the time; it writes the line in one piece. */
bool process_read_line(const struct process *process, int timeout_ms, char line[PROCESS_LINE_SIZE]);

/* Of all processes on all cores, what the host took away included; in jiffies. */
double process_busy_seconds(void);

double process_now_seconds(void);

/* A moment, and what the machine and our children that have ended had done by then: the shell that
 * became this program may have had some, too. */
struct process_moment {
    double at, busy, children; /* seconds */
};
struct process_moment process_moment(void);

/* Of the cores, what other programs used since then; when all children have ended. */
double process_cores_elsewhere(const struct process_moment *since);

/* That a process has used so far. */
double process_cpu_seconds(pid_t pid);
