/* A client of two data centers of two shards, whose hosts are in the process of the
 * test: real sockets, and one Get at a time to look at. */
#pragma once

#include "get_hosts.h"

enum { DCS = 2, SHARDS = 2, HOSTS = DCS * SHARDS, KEYS_MAX = 64 };

/* Host DC * SHARDS + SHARD holds that shard in that data center. */
extern const char *const names[HOSTS];

struct world {
    uv_loop_t loop;
    struct get_host hosts[HOSTS];
    struct rota_get_host list[HOSTS + 1];
    size_t n_list;
    struct rota_get *get;

    /* Of the last Get. */
    char room[KEYS_MAX][32];
    struct rota_str keys[KEYS_MAX];
    struct rota_get_result *result;
    struct rota_error error;
    size_t n_done;
    enum rota_code code;
};

void hosts_open(struct world *world);
void client_open(struct world *world, struct rota_get_options options);
void world_open(struct world *world, enum rota_get_mode mode);
void world_close(struct world *world);

/* "PREFIX0", "PREFIX1" ...: as keys of the next Get. */
void name_keys(struct world *world, const char *prefix, size_t n);

enum rota_code get_keys(struct world *world, size_t n, rota_time timeout);
void assert_all_found(const struct world *world, size_t n);

/* Has the client learned what each host holds, and has it a connection there? */
void await_holders(struct world *world, size_t wanted);

void await_shard(struct world *world, size_t host, uint64_t from, uint64_t of);
struct rota_get_run *start(struct world *world, size_t n_keys);
