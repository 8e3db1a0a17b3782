/* sync_inside: what the engines of a group's log share. Only src/io/log/sync*.c includes it. */
#pragma once

#include "io/log/sync.h"

/* The functions of sync.h, for one kind of log. `open` gets checked options: a valid name, a
 * session within its bounds, `ok_every` set. */
struct rota_sync_engine {
    enum rota_code (*open)(struct uv_loop_s *loop, const struct rota_sync_options *options,
                           struct rota_sync **sync, struct rota_error *error);
    void (*close)(struct rota_sync *sync, void (*on_closed)(void *data), void *data);
    void (*read)(struct rota_sync *sync, uint64_t offset);
    enum rota_code (*append)(struct rota_sync *sync, uint64_t number, struct rota_str bytes,
                             struct rota_error *error);
    void (*join)(struct rota_sync *sync, struct rota_str line);
    void (*leave)(struct rota_sync *sync);
    void (*trim)(struct rota_sync *sync, uint64_t offset);
};

/* What every engine's object begins with. */
struct rota_sync {
    const struct rota_sync_engine *engine;
    char *name;                /* the URL without its password; the engine's */
    struct rota_error trouble; /* why it could not be reached at the last try; empty: it was */
};

extern const struct rota_sync_engine rota_sync_sql;   /* sqlite:, postgres: */
extern const struct rota_sync_engine rota_sync_kafka; /* kafka: */
