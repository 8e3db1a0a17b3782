#include "io/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static void send_text(const char *text, int flags)
{
    const struct timeval limit = {.tv_sec = 1};
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = path ? strlen(path) : 0;
    if (size < 2 || size >= sizeof address.sun_path || !strchr("/@", path[0]))
        return;
    memcpy(address.sun_path, path, size);
    if (path[0] == '@') /* an abstract name, not a file */
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    ssize_t sent;
    do
        sent =
            sendto(fd, text, strlen(text), MSG_NOSIGNAL | flags, (const struct sockaddr *)&address,
                   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size));
    while (sent < 0 && errno == EINTR);
    close(fd);
}

void rota_notify(const char *text)
{
    send_text(text, 0);
}

void rota_notify_alive(void)
{
    send_text("WATCHDOG=1", MSG_DONTWAIT);
}

/* A number from the environment; 0 if there is none or it is invalid. */
static long long read_number(const char *name)
{
    const char *text = getenv(name);
    char *end;
    if (!text || *text < '0' || *text > '9')
        return 0;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    return errno || *end ? 0 : number;
}

rota_time rota_notify_watchdog(void)
{
    long long micros = read_number("WATCHDOG_USEC");
    if (getenv("WATCHDOG_PID") && read_number("WATCHDOG_PID") != (long long)getpid())
        return 0; /* meant for the process that started us */
    return micros > 0 && micros < ROTA_DAY / 1000 ? micros * 1000 : 0;
}
