/* wire: connections of a client to a peer with a protocol of its own, on epoll. What is
 * written in a turn goes out when the turn ends, with one call for each connection. */
#pragma once

#include "base/buffer.h"

struct wire {
    int fd;
    unsigned number; /* the user's */
    struct rota_buffer out, in;
    bool is_blocked; /* its other side does not take more now */

    /* What has come; returns how many bytes of it are done with. */
    size_t (*on_bytes)(struct wire *wire, struct rota_str bytes);
};

/* Connect to "127.0.0.1:4711"; ends the program when that fails. */
void wire_open(struct wire *wire, const char *address, unsigned number,
               size_t (*on_bytes)(struct wire *wire, struct rota_str bytes));

/* For ever. */
void wire_run(void) __attribute__((noreturn));

/* The first line in `bytes`, without its "\r\n"; false when it has not come. */
bool wire_line(struct rota_str bytes, struct rota_str *line);
