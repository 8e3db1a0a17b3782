#include "spawn.h"

#include "../process.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { START_MS = 10000 };

static void path_of(const char *program, char path[PROCESS_PATH_SIZE])
{
    process_path("call", program, path);
}

bool spawn_has(const char *program)
{
    char path[PROCESS_PATH_SIZE];
    path_of(program, path);
    return access(path, X_OK) == 0;
}

static bool start_server(const char *program, struct process *server,
                         char address[PROCESS_LINE_SIZE])
{
    char path[PROCESS_PATH_SIZE], line[PROCESS_LINE_SIZE], word[] = "server";
    char *arguments[] = {path, word, NULL};
    path_of(program, path);
    if (!process_start(server, 0, arguments))
        return false;
    if (process_read_line(server, START_MS, line) && sscanf(line, "ready %255s", address) == 1)
        return true;
    fprintf(stderr, "\n%s server did not start\n", program);
    process_stop(server);
    return false;
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
    char path[PROCESS_PATH_SIZE], line[PROCESS_LINE_SIZE], numbers[5][16], mode[] = "client";
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
    if (!process_start(&client, 1, arguments))
        return false;
    bool is_right =
        process_read_line(&client, (int)(START_MS + load->warm_ms + load->window_ms), line) &&
        parse(line, result);
    process_stop(&client);
    getrusage(RUSAGE_CHILDREN, &after);
    result->elsewhere = -(double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) -
                        (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec) / 1e6 -
                        (double)(after.ru_stime.tv_sec - before.ru_stime.tv_sec) -
                        (double)(after.ru_stime.tv_usec - before.ru_stime.tv_usec) / 1e6;
    return is_right;
}

bool spawn_run(const struct spawn_load *load, struct spawn_result *result)
{
    char address[PROCESS_LINE_SIZE];
    struct process server;
    if (!start_server(load->program, &server, address))
        return false;
    double started = process_now_seconds(), busy = process_busy_seconds(),
           cpu = process_cpu_seconds(server.pid);
    bool is_right = run_client(load, address, server.pid, result);
    /* What was used, less what the two used, over the time it took. */
    result->elsewhere += process_busy_seconds() - busy - (process_cpu_seconds(server.pid) - cpu);
    result->elsewhere /= process_now_seconds() - started;
    if (result->elsewhere < 0)
        result->elsewhere = 0; /* jiffies are coarse */
    process_stop(&server);
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
    char address[PROCESS_LINE_SIZE];
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
    process_stop(&server);
    for (int i = 0; i < n_open; i++)
        close(fds[i]);
    free(fds);
    return n_open == n + UNCOUNTED ? grown / n : 0;
}
