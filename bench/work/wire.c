#include "wire.h"

#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WIRES_MAX = 16, READ_SIZE = 256 << 10 };

static int epoll = -1;
static struct wire *wires[WIRES_MAX];
static int n_wires;

void wire_open(struct wire *wire, const char *address, unsigned number,
               size_t (*on_bytes)(struct wire *wire, struct rota_str bytes))
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = wire};
    unsigned port;
    int one = 1;
    if (sscanf(address, "127.0.0.1:%u", &port) != 1)
        load_fail("%s is no address", address);
    to.sin_port = htons((uint16_t)port);
    *wire = (struct wire){.number = number, .on_bytes = on_bytes};
    if (epoll < 0)
        epoll = epoll_create1(EPOLL_CLOEXEC);
    wire->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (wire->fd < 0 || connect(wire->fd, (struct sockaddr *)&to, sizeof to) ||
        setsockopt(wire->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, wire->fd, &event) || n_wires == WIRES_MAX)
        load_fail("no connection to %s: %s", address, strerror(errno));
    wires[n_wires++] = wire;
}

static void watch(struct wire *wire, bool is_blocked)
{
    struct epoll_event event = {.events = EPOLLIN | (is_blocked ? EPOLLOUT : 0), .data.ptr = wire};
    if (is_blocked != wire->is_blocked)
        epoll_ctl(epoll, EPOLL_CTL_MOD, wire->fd, &event);
    wire->is_blocked = is_blocked;
}

static void flush(struct wire *wire)
{
    if (wire->out.failed)
        load_fail("no memory");
    if (wire->out.size == 0)
        return;
    ssize_t n = send(wire->fd, wire->out.data, wire->out.size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN)
        load_fail("the peer is gone: %s", strerror(errno));
    size_t sent = n > 0 ? (size_t)n : 0;
    memmove(wire->out.data, wire->out.data + sent, wire->out.size - sent);
    wire->out.size -= sent;
    watch(wire, wire->out.size > 0);
}

static void hear(struct wire *wire)
{
    size_t before = wire->in.size;
    char *room = rota_buffer_extend(&wire->in, READ_SIZE);
    if (!room)
        load_fail("no memory");
    ssize_t n = recv(wire->fd, room, READ_SIZE, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        load_fail("the peer is gone");
    wire->in.size = before + (n > 0 ? (size_t)n : 0);
    size_t done = wire->on_bytes(wire, rota_buffer_str(&wire->in));
    if (done > 0)
        memmove(wire->in.data, wire->in.data + done, wire->in.size - done);
    wire->in.size -= done;
}

void wire_run(void)
{
    for (;;) {
        struct epoll_event events[WIRES_MAX];
        for (int i = 0; i < n_wires; i++)
            flush(wires[i]);
        int n = epoll_wait(epoll, events, WIRES_MAX, -1);
        for (int i = 0; i < n; i++)
            if (events[i].events & ~(unsigned)EPOLLOUT)
                hear(events[i].data.ptr);
    }
}

bool wire_line(struct rota_str bytes, struct rota_str *line)
{
    const char *end = bytes.size ? memchr(bytes.data, '\n', bytes.size) : NULL;
    if (!end)
        return false;
    size_t size = (size_t)(end - bytes.data);
    if (size == 0 || end[-1] != '\r')
        load_fail("a line that does not end as it should");
    *line = rota_str_of(bytes.data, size - 1);
    return true;
}
