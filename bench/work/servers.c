#include "servers.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { START_SECONDS = 120, COMMAND_SIZE = PROCESS_PATH_SIZE + 400, REPLY_SIZE = 16 << 10 };

/* What each is, and how it says that it has so many jobs. */
static const struct {
    const char *path, *program, *packages;
    const char *question, *answer; /* to one that has just begun */
    const char *count, *counted;   /* how many jobs it has; %zu is their number */
} systems[N_SYSTEMS] = {
    [ROTA] = {.program = "work_rota"},
    [REDIS] = {"/usr/bin/redis-server", "work_redis", "redis-server", "PING\r\n", "+PONG",
               "LLEN q\r\n", ":%zu\r\n"},
    [BEANSTALKD] = {"/usr/bin/beanstalkd", "work_beanstalkd", "beanstalkd", "use default\r\n",
                    "USING", "stats-tube default\r\n", "current-jobs-ready: %zu\n"},
    [GEARMAND] = {"/usr/sbin/gearmand", "work_gearmand", "gearman-job-server", "version\n", "OK",
                  "version\n", "OK"},
    [NATS] = {"/usr/sbin/nats-server", "work_nats", "nats-server",
              "CONNECT {}\r\nSUB x 1\r\nPUB $JS.API.INFO x 0\r\n\r\n",
              "\"memory\":", "CONNECT {}\r\nSUB x 1\r\nPUB $JS.API.STREAM.INFO.W x 0\r\n\r\n",
              "\"messages\":%zu,"},
};

const char *servers_program(enum servers_system system)
{
    return systems[system].program;
}

const char *servers_packages(enum servers_system system)
{
    return systems[system].packages;
}

const char *servers_durability_name(enum servers_durability durability)
{
    static const char *const names[N_DURABILITIES] = {"memory", "later", "fsync"};
    return names[durability];
}

static void rota_path(char path[PROCESS_PATH_SIZE])
{
    process_path("../src/cli", "rota", path);
}

bool servers_has(enum servers_system system)
{
    char path[PROCESS_PATH_SIZE];
    if (system == ROTA)
        rota_path(path);
    else
        snprintf(path, sizeof path, "%s", systems[system].path);
    return access(path, X_OK) == 0;
}

/* --- asking --- */

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_well = fd >= 0 && !bind(fd, (struct sockaddr *)&address, sizeof address) &&
                   !getsockname(fd, (struct sockaddr *)&address, &size);
    if (fd >= 0)
        close(fd);
    return is_well ? ntohs(address.sin_port) : 0;
}

/* Whether it answers a question with something that has this in it. */
static bool is_answered(const char *address, const char *question, const char *answer)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 1};
    char reply[REPLY_SIZE];
    size_t n = 0;
    bool is = false;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    to.sin_port = htons((uint16_t)atoi(strchr(address, ':') + 1));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
        send(fd, question, strlen(question), MSG_NOSIGNAL) > 0) {
        ssize_t got;
        while (!is && n < sizeof reply - 1 &&
               (got = recv(fd, reply + n, sizeof reply - 1 - n, 0)) > 0) {
            n += (size_t)got;
            reply[n] = '\0';
            is = strstr(reply, answer) != NULL || (reply[0] == '-' && strchr(reply, '\n'));
        }
        is = n > 0 && strstr(reply, answer) != NULL;
    }
    close(fd);
    return is;
}

static bool await(const char *address, const char *question, const char *answer)
{
    double until = process_now_seconds() + START_SECONDS;
    while (process_now_seconds() < until) {
        struct timespec rest = {.tv_nsec = 2000000};
        if (is_answered(address, question, answer))
            return true;
        nanosleep(&rest, NULL);
    }
    return false;
}

/* --- starting --- */

static void write_command(const struct servers_server *server, int port, char *command)
{
    const char *directory = server->directory, *options = server->peer->options;
    const char *path = systems[server->peer->system].path;
    char rota[PROCESS_PATH_SIZE];
    switch (server->peer->system) {
    case ROTA:
        rota_path(rota);
        snprintf(command, COMMAND_SIZE,
                 "exec %s broker --listen 127.0.0.1:0 --workers 127.0.0.1:0 %s %s", rota, options,
                 server->peer->durability == MEMORY ? "" : directory);
        return;
    case REDIS:
        snprintf(command, COMMAND_SIZE,
                 "exec %s --port %d --bind 127.0.0.1 --save '' --dir %s %s "
                 "--auto-aof-rewrite-percentage 0 >/dev/null 2>&1",
                 path, port, directory, options);
        return;
    case BEANSTALKD:
        snprintf(command, COMMAND_SIZE, "exec %s -l 127.0.0.1 -p %d %s %s >/dev/null 2>&1", path,
                 port, options, server->peer->durability == MEMORY ? "" : directory);
        return;
    case GEARMAND:
        snprintf(command, COMMAND_SIZE, "exec %s -L 127.0.0.1 -p %d -l %s/log %s >/dev/null 2>&1",
                 path, port, directory, options);
        return;
    case NATS:
        snprintf(command, COMMAND_SIZE, "exec %s -a 127.0.0.1 -p %d -js -sd %s >/dev/null 2>&1",
                 path, port, directory);
        return;
    case N_SYSTEMS:
        break;
    }
}

/* Rota says where it is when it is ready. */
static bool hear_rota(struct servers_server *server)
{
    char line[PROCESS_LINE_SIZE];
    server->n_addresses = 2;
    if (!process_read_line(&server->process, START_SECONDS * 1000, line) ||
        sscanf(line, "ready grpc=%63s zmq=%63s", server->addresses[0], server->addresses[1]) != 2)
        return false;
    if (server->peer->is_polling)
        snprintf(server->addresses[1], sizeof server->addresses[1], "polls");
    return true;
}

static bool launch(struct servers_server *server)
{
    char shell[] = "/bin/sh", option[] = "-c", command[COMMAND_SIZE];
    char *arguments[] = {shell, option, command, NULL};
    int port = free_port();
    write_command(server, port, command);
    if (!process_start(&server->process, 0, arguments))
        return false;
    if (server->peer->system == ROTA)
        return hear_rota(server);
    snprintf(server->addresses[0], sizeof server->addresses[0], "127.0.0.1:%d", port);
    snprintf(server->addresses[1], sizeof server->addresses[1], "%s", server->peer->options);
    server->n_addresses = server->peer->system == NATS ? 2 : 1;
    return true;
}

bool servers_start(struct servers_server *server, const struct servers_peer *peer)
{
    *server = (struct servers_server){.peer = peer, .directory = "bench-work.XXXXXX"};
    if (!mkdtemp(server->directory))
        return false;
    if (!launch(server))
        return false;
    return peer->system == ROTA || await(server->addresses[0], systems[peer->system].question,
                                         systems[peer->system].answer);
}

/* --- what it has --- */

static bool has_rota(const struct servers_server *server, size_t n_jobs)
{
    char command[COMMAND_SIZE], path[PROCESS_PATH_SIZE], text[REPLY_SIZE], expected[64];
    rota_path(path);
    snprintf(command, sizeof command, "%s queue list --json --node %s", path, server->addresses[0]);
    snprintf(expected, sizeof expected, "\"waiting\":%zu,", n_jobs);
    FILE *out = popen(command, "r");
    if (!out)
        return false;
    size_t n = fread(text, 1, sizeof text - 1, out), kept = 0;
    pclose(out);
    for (size_t i = 0; i < n; i++)
        if (text[i] != ' ')
            text[kept++] = text[i];
    text[kept] = '\0';
    return strstr(text, expected) != NULL;
}

static void kill_it(struct servers_server *server)
{
    if (server->process.pid > 0)
        process_stop(&server->process);
    server->process.pid = 0;
}

double servers_restart(struct servers_server *server, size_t n_jobs)
{
    char expected[64];
    enum servers_system system = server->peer->system;
    kill_it(server);
    double began = process_now_seconds();
    if (!launch(server))
        return 0;
    if (system == ROTA) {
        double seconds = process_now_seconds() - began;
        return has_rota(server, n_jobs) ? seconds : 0;
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* from the table above */
    snprintf(expected, sizeof expected, systems[system].counted, n_jobs);
#pragma GCC diagnostic pop
    return await(server->addresses[0], systems[system].count, expected)
               ? process_now_seconds() - began
               : 0;
}

void servers_stop(struct servers_server *server)
{
    char command[128];
    kill_it(server);
    snprintf(command, sizeof command, "rm -rf %s", server->directory);
    if (system(command))
        fprintf(stderr, "\n%s is left\n", server->directory);
}

double servers_resident(const struct servers_server *server)
{
    char path[64];
    long pages = 0, resident = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)server->process.pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    int n = fscanf(file, "%ld %ld", &pages, &resident);
    fclose(file);
    return n == 2 ? (double)resident * (double)sysconf(_SC_PAGESIZE) : 0;
}
