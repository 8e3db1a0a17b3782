#include "spawn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_SIZE = 256, START_MS = 10000, PATH_SIZE = 4200 };

struct process {
    pid_t pid;
    int out; /* its stdout */
};

static void path_of(const char *program, char path[PATH_SIZE])
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    snprintf(path, PATH_SIZE, "%s/call/%s", dirname(self), program);
}

bool spawn_has(const char *program)
{
    char path[PATH_SIZE];
    path_of(program, path);
    return access(path, X_OK) == 0;
}

/* --- processes --- */

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

static bool start(struct process *process, int core, char *const arguments[])
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

static void stop(struct process *process)
{
    kill(process->pid, SIGKILL);
    waitpid(process->pid, NULL, 0);
    close(process->out);
}

/* One line within the time; both programs write theirs in one piece. */
static bool read_line(const struct process *process, int timeout_ms, char line[LINE_MAX_SIZE])
{
    struct pollfd ready = {.fd = process->out, .events = POLLIN};
    if (poll(&ready, 1, timeout_ms) != 1)
        return false;
    ssize_t n = read(process->out, line, LINE_MAX_SIZE - 1);
    if (n <= 0 || line[n - 1] != '\n')
        return false;
    line[n - 1] = '\0';
    return true;
}

static bool start_server(const char *program, struct process *server, char address[LINE_MAX_SIZE])
{
    char path[PATH_SIZE], line[LINE_MAX_SIZE], word[] = "server";
    char *arguments[] = {path, word, NULL};
    path_of(program, path);
    if (!start(server, 0, arguments))
        return false;
    if (read_line(server, START_MS, line) && sscanf(line, "ready %255s", address) == 1)
        return true;
    fprintf(stderr, "\n%s server did not start\n", program);
    stop(server);
    return false;
}

/* --- the machine --- */

/* Jiffies of all processes on all cores, what the host took away included. */
static double busy_seconds(void)
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

static double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu_seconds(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
        return 0;
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* --- a measurement --- */

static bool parse(const char *line, struct spawn_result *result)
{
    double calls, ns, p50, p99, client, server;
    if (sscanf(line, "%lf %lf %lf %lf %lf %lf %lf %lf", &calls, &ns, &p50, &p99, &client, &server,
               &result->client_kb, &result->server_kb) != 8 ||
        calls < 1)
        return false;
    result->rate = calls / ns * 1e9;
    result->p50_us = p50 / 1e3;
    result->p99_us = p99 / 1e3;
    result->client_cpu_us = client / calls / 1e3;
    result->server_cpu_us = server / calls / 1e3;
    return true;
}

static bool run_client(const struct spawn_load *load, char *address, pid_t server,
                       struct spawn_result *result)
{
    char path[PATH_SIZE], line[LINE_MAX_SIZE], numbers[5][16], mode[] = "client";
    char kind[8];
    snprintf(kind, sizeof kind, "%s", load->is_batch ? "batch" : "echo");
    snprintf(numbers[0], sizeof *numbers, "%u", load->n_calls);
    snprintf(numbers[1], sizeof *numbers, "%u", load->n_connections);
    snprintf(numbers[2], sizeof *numbers, "%u", load->warm_ms);
    snprintf(numbers[3], sizeof *numbers, "%u", load->window_ms);
    snprintf(numbers[4], sizeof *numbers, "%d", server);
    char *arguments[] = {path,       mode,       address,    kind,       numbers[0],
                         numbers[1], numbers[2], numbers[3], numbers[4], NULL};
    struct process client;
    struct rusage before, after;
    path_of(load->program, path);
    getrusage(RUSAGE_CHILDREN, &before);
    if (!start(&client, 1, arguments))
        return false;
    bool is_right = read_line(&client, (int)(START_MS + load->warm_ms + load->window_ms), line) &&
                    parse(line, result);
    stop(&client);
    getrusage(RUSAGE_CHILDREN, &after);
    result->elsewhere = -(double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) -
                        (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec) / 1e6 -
                        (double)(after.ru_stime.tv_sec - before.ru_stime.tv_sec) -
                        (double)(after.ru_stime.tv_usec - before.ru_stime.tv_usec) / 1e6;
    return is_right;
}

bool spawn_run(const struct spawn_load *load, struct spawn_result *result)
{
    char address[LINE_MAX_SIZE];
    struct process server;
    if (!start_server(load->program, &server, address))
        return false;
    double started = now_seconds(), busy = busy_seconds(), cpu = cpu_seconds(server.pid);
    bool is_right = run_client(load, address, server.pid, result);
    /* What was used, less what the two used, over the time it took. */
    result->elsewhere += busy_seconds() - busy - (cpu_seconds(server.pid) - cpu);
    result->elsewhere /= now_seconds() - started;
    if (result->elsewhere < 0)
        result->elsewhere = 0; /* jiffies are coarse */
    stop(&server);
    if (!is_right)
        fprintf(stderr, "\n%s: a measurement failed\n", load->program);
    return is_right;
}

/* --- idle connections --- */

static double resident_kb(pid_t pid)
{
    char path[64];
    long n_pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    if (fscanf(file, "%*d %ld", &n_pages) != 1)
        n_pages = 0;
    fclose(file);
    return (double)n_pages * (double)sysconf(_SC_PAGESIZE) / 1024;
}

/* HTTP/2's first words, with empty settings, and the server's answer. */
static bool say_hello(int fd)
{
    static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    static const char acknowledged[] = "\0\0\0\4\1\0\0\0\0";
    struct timeval patience = {.tv_sec = 5};
    char heard[4096];
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return send(fd, hello, sizeof hello - 1, MSG_NOSIGNAL) == sizeof hello - 1 &&
           recv(fd, heard, sizeof heard, 0) > 0 &&
           send(fd, acknowledged, sizeof acknowledged - 1, MSG_NOSIGNAL) == sizeof acknowledged - 1;
}

static int connect_to(const char *address, bool is_http2)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *colon = strrchr(address, ':');
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_port = htons((uint16_t)atoi(colon ? colon + 1 : "0"));
    if (fd >= 0 && !connect(fd, (struct sockaddr *)&to, sizeof to) && (!is_http2 || say_hello(fd)))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* The first few pay for what all share, and do not count. */
double spawn_idle_kb(const char *program, bool is_http2, int n)
{
    enum { UNCOUNTED = 16 };
    char address[LINE_MAX_SIZE];
    struct process server;
    struct rlimit files;
    struct timespec rest = {.tv_nsec = 300000000};
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    int *fds = calloc((size_t)n + UNCOUNTED, sizeof *fds);
    if (!fds || !start_server(program, &server, address)) {
        free(fds);
        return 0;
    }
    double before = 0;
    int n_open = 0;
    while (n_open < n + UNCOUNTED) {
        if (n_open == UNCOUNTED) {
            nanosleep(&rest, NULL);
            before = resident_kb(server.pid);
        }
        fds[n_open] = connect_to(address, is_http2);
        if (fds[n_open] < 0)
            break;
        n_open++;
    }
    nanosleep(&rest, NULL);
    double grown = resident_kb(server.pid) - before;
    stop(&server);
    for (int i = 0; i < n_open; i++)
        close(fds[i]);
    free(fds);
    return n_open == n + UNCOUNTED ? grown / n : 0;
}
