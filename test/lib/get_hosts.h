/* Hosts that serve Gets, in the process of the test: the value of "key" is
 * "key@NAME" with the name of the host, and keys that begin with '-' have none. */
#pragma once

#include "await.h"

#include <rota/experimental/get.h>
#include <rota/server.h>

enum { GET_KEPT_MAX = 64 };

struct get_host {
    const char *name;
    uv_loop_t *loop;
    struct rota_server *server;
    struct rota_get_server *gets;
    char address[64];
    size_t n_batches, n_keys, n_cancelled, n_kept;
    struct rota_get_batch *kept[GET_KEPT_MAX];
    bool is_keeping; /* answers when it is told to */
    bool is_failing, is_large;
    bool has_lost; /* and has not noticed */
};

/* Answer all that are kept. */
void get_host_release(struct get_host *host);

/* Shard `shard` of `of`; none when `of` is 0. */
void get_host_hold(struct get_host *host, uint64_t shard, uint64_t of, uint64_t epoch);

void get_host_open_with(struct get_host *host, uv_loop_t *loop, const char *name,
                        const char *address, struct rota_server_options options);
void get_host_open(struct get_host *host, uv_loop_t *loop, const char *name);
void get_host_close(struct get_host *host);

/* Close those that are not yet, and the loop, on which nothing else is open any more. */
void get_hosts_close(struct get_host *hosts, size_t n, uv_loop_t *loop);
