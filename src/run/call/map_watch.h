/* map_watch: the map of a space, watched at one of several directories.
 *
 * watch_fsm decides at which, space_table keeps the map; a watch that starts again at the same
 * directory gets only what has changed since. */
#pragma once

#include "core/call/service/space_table.h"
#include "core/call/service/watch_fsm.h"

#include <rota/experimental/channel.h>

/* A dead connection to a directory is detected within these, while a watch delivers nothing. */
#define ROTA_MAP_WATCH_KEEPALIVE         (10 * ROTA_SEC)
#define ROTA_MAP_WATCH_KEEPALIVE_TIMEOUT (5 * ROTA_SEC)

/* The directories, which all know the same; kept. */
struct rota_map_watch_nodes {
    struct rota_channel *const *channels;
    size_t n;
    struct rota_random *random;
};

struct rota_map_watch_handler {
    /* From the loop: an update, which has changed the table or not, or the watch has ended. */
    void (*on_news)(void *data, bool is_changed);

    /* The store has no such space, `text` says. */
    void (*on_missing)(void *data, const char *text);

    /* Step it with ROTA_WATCH_TICK then; ROTA_TIME_NEVER: no need. */
    void (*on_deadline)(void *data, rota_time at);
};

struct rota_map_watch {
    struct rota_str name; /* kept */
    const struct rota_map_watch_nodes *nodes;
    const struct rota_map_watch_handler *handler; /* kept */
    void *data;
    struct rota_space_table table;
    struct rota_watch_fsm fsm;
    struct rota_call *rpc;
    uint64_t number;                   /* of the watch */
    size_t node;                       /* that was asked last */
    char problem[ROTA_ERROR_TEXT_MAX]; /* why the last watch ended; "": none has */
};

/* It begins with ROTA_WATCH_START. */
void rota_map_watch_init(struct rota_map_watch *watch, struct rota_str name,
                         const struct rota_map_watch_nodes *nodes,
                         const struct rota_map_watch_handler *handler, void *data);
void rota_map_watch_deinit(struct rota_map_watch *watch);

/* End the watch; what is known stays. */
void rota_map_watch_cancel(struct rota_map_watch *watch);

/* Step its machine, and carry out the actions. */
void rota_map_watch_step(struct rota_map_watch *watch, struct rota_watch_event event);

/* The address of the directory that was asked last. */
const char *rota_map_watch_node(const struct rota_map_watch *watch);

/* Apply a WatchSpaceReply or GetSpaceReply. After an error the next one must be a snapshot. */
enum rota_code rota_map_watch_apply(struct rota_space_table *table, struct rota_str reply,
                                    bool *is_whole, struct rota_error *error);
