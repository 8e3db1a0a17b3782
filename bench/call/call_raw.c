/* The floor: length-prefixed frames on epoll, nothing else. A frame is {size,
 * slot, timeout in ms, method} and the message; the deadline travels and is not
 * watched. Flushed after so many calls, so many bytes, or the end of input. */
#include "messages.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct header {
    uint32_t size, slot, timeout_ms, method;
};

enum { IN_SIZE = 64 << 10, EVENTS_MAX = 64 };

struct peer {
    int fd;
    struct rota_buffer out;
    size_t in_size, out_at;
    unsigned n_unsent; /* frames since the last flush */
    bool waits;        /* for the kernel to take more */
    char in[IN_SIZE];
};

static int epoll;
static void (*on_frame)(struct peer *peer, const struct header *header, struct rota_str message);

static void watch(struct peer *peer, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = peer};
    if (epoll_ctl(epoll, operation, peer->fd, &event))
        load_fail("epoll_ctl: %s", strerror(errno));
}

static struct peer *peer_new(int fd)
{
    struct peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        load_fail("no memory");
    peer->fd = fd;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    watch(peer, EPOLL_CTL_ADD, EPOLLIN);
    return peer;
}

static void flush(struct peer *peer)
{
    peer->n_unsent = 0;
    while (peer->out_at < peer->out.size) {
        ssize_t n = send(peer->fd, peer->out.data + peer->out_at, peer->out.size - peer->out_at,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) {
            rota_buffer_clear(&peer->out); /* it is gone; reading will tell */
            peer->out_at = 0;
            return;
        }
        if (n < 0) {
            if (!peer->waits)
                watch(peer, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
            peer->waits = true;
            return;
        }
        peer->out_at += (size_t)n;
    }
    rota_buffer_clear(&peer->out);
    peer->out_at = 0;
    if (peer->waits)
        watch(peer, EPOLL_CTL_MOD, EPOLLIN);
    peer->waits = false;
}

static void put_frame(struct peer *peer, struct header header, struct rota_str message)
{
    header.size = (uint32_t)message.size;
    rota_buffer_append(&peer->out, &header, sizeof header);
    rota_buffer_append_str(&peer->out, message);
    if (peer->out.failed)
        load_fail("no memory");
    if (!peer->waits &&
        (++peer->n_unsent >= LOAD_FLUSH_CALLS || peer->out.size - peer->out_at >= LOAD_FLUSH_SIZE))
        flush(peer);
}

/* False when the peer is gone. */
static bool take_input(struct peer *peer)
{
    ssize_t n = recv(peer->fd, peer->in + peer->in_size, IN_SIZE - peer->in_size, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return true;
    if (n <= 0)
        return false;
    size_t at = 0, size = peer->in_size + (size_t)n;
    struct header header;
    while (size - at >= sizeof header) {
        memcpy(&header, peer->in + at, sizeof header);
        if (header.size > IN_SIZE - sizeof header)
            load_fail("a frame of %u bytes", header.size);
        if (size - at < sizeof header + header.size)
            break;
        on_frame(peer, &header, rota_str_of(peer->in + at + sizeof header, header.size));
        at += sizeof header + header.size;
    }
    peer->in_size = size - at;
    memmove(peer->in, peer->in + at, peer->in_size);
    if (!peer->waits)
        flush(peer);
    return true;
}

static void on_event(const struct epoll_event *event)
{
    struct peer *peer = event->data.ptr;
    if (event->events & EPOLLOUT)
        flush(peer);
    if ((event->events & ~EPOLLOUT) && !take_input(peer)) {
        close(peer->fd);
        rota_buffer_deinit(&peer->out);
        free(peer);
    }
}

static void run_epoll(int listener)
{
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int n = epoll_wait(epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr)
                on_event(&events[i]);
            else
                peer_new(accept(listener, NULL, NULL));
        }
    }
}

/* --- the server --- */

static void on_request(struct peer *peer, const struct header *header, struct rota_str message)
{
    static struct rota_buffer reply;
    rota_buffer_clear(&reply);
    if (!messages_answer(header->method, message, &reply))
        load_fail("a malformed request");
    put_frame(peer, *header, rota_buffer_str(&reply));
}

static void serve(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    struct epoll_event event = {.events = EPOLLIN};
    char text[32];
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    epoll = epoll_create1(0);
    on_frame = on_request;
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1024) ||
        getsockname(listener, (struct sockaddr *)&address, &size) ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event))
        load_fail("listen: %s", strerror(errno));
    snprintf(text, sizeof text, "127.0.0.1:%d", ntohs(address.sin_port));
    load_ready(text);
    run_epoll(listener);
}

/* --- the client --- */

static struct load *load;
static uint64_t ids[LOAD_CALLS_MAX];

static void begin(struct peer *peer, unsigned slot)
{
    static struct rota_buffer request;
    ids[slot] = load_begin(load, slot);
    messages_ask(load->is_batch, ids[slot], &request);
    struct header header = {.slot = slot, .timeout_ms = LOAD_TIMEOUT_MS, .method = load->is_batch};
    put_frame(peer, header, rota_buffer_str(&request));
}

static void on_reply(struct peer *peer, const struct header *header, struct rota_str message)
{
    if (header->slot >= load->n_calls)
        load_fail("a reply to no call");
    load_end(load, header->slot, messages_is_right(load->is_batch, ids[header->slot], message));
    begin(peer, header->slot);
}

static void drive(struct load *the_load)
{
    struct peer *peers[LOAD_CONNECTIONS_MAX];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    load = the_load;
    epoll = epoll_create1(0);
    on_frame = on_reply;
    address.sin_port = htons((uint16_t)atoi(strrchr(load->address, ':') + 1));
    for (unsigned i = 0; i < load->n_connections; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof address))
            load_fail("connect: %s", strerror(errno));
        peers[i] = peer_new(fd);
    }
    for (unsigned i = 0; i < load->n_calls; i++)
        begin(peers[i % load->n_connections], i);
    for (unsigned i = 0; i < load->n_connections; i++)
        flush(peers[i]);
    run_epoll(-1);
}

int main(int argc, char **argv)
{
    return load_main(argc, argv, &(struct load_transport){"call_raw", serve, drive});
}
