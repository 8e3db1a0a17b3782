/* watch_fsm: from which directory a client gets the map of a space.
 *
 *     IDLE --start--> WATCHING --ended, silent, doubted--> WATCHING at the next, or
 *     PAUSED, when all have failed --the pause is over--> WATCHING
 *
 * Directories are nodes that know the same. One that ends the watch, does not send the map within
 * ROTA_WATCH_FIRST_WITHIN, or has sent nothing new for ROTA_WATCH_DOUBT while a call waits for
 * that, is left for the next: it may be cut off from the store. NOT_FOUND is the store's word:
 * calls that wait fail.
 *
 * Invariants: at most one watch at a time; what belongs to an earlier one changes nothing; while
 * calls wait there is a watch, or a deadline after which there is one. */
#pragma once

#include "core/call/backoff.h"

#include <rota/rpc.h>
#include <stdbool.h>
#include <stddef.h>

#define ROTA_WATCH_FIRST_WITHIN (3 * ROTA_SEC)
#define ROTA_WATCH_DOUBT        (2 * ROTA_SEC)
#define ROTA_WATCH_DOUBT_MAX    (10 * ROTA_SEC)
#define ROTA_WATCH_PAUSE        (100 * ROTA_MSEC)
#define ROTA_WATCH_PAUSE_MAX    (2 * ROTA_SEC)

enum rota_watch_state { ROTA_WATCH_IDLE, ROTA_WATCH_WATCHING, ROTA_WATCH_PAUSED };

struct rota_watch_fsm {
    enum rota_watch_state state;
    size_t n_nodes, node;             /* the current one */
    uint64_t number;                  /* of the last watch */
    size_t n_failed;                  /* nodes in a row */
    bool is_known;                    /* there was a map, ever */
    rota_time first_by, paused_until; /* while it watches; while it pauses */
    rota_time doubted_at;             /* since when a call waits; ROTA_TIME_NEVER: none */
    rota_time doubt;  /* how long that may last; grows each time that no node proved better than the
                         doubted one */
    size_t n_doubted; /* nodes in a row */
    struct rota_backoff backoff;
};

enum rota_watch_event_type {
    ROTA_WATCH_START,  /* a call needs the map */
    ROTA_WATCH_UPDATE, /* of watch `number` */
    ROTA_WATCH_ENDED,  /* watch `number`, with `status` */
    ROTA_WATCH_WAITED, /* a call waits for a change */
    ROTA_WATCH_SERVED, /* a call that waited has another claim to go by */
    ROTA_WATCH_TICK,
};

struct rota_watch_event {
    enum rota_watch_event_type type;
    uint64_t number;
    bool is_whole;
    bool is_waited; /* of SERVED: other calls still wait */
    enum rota_status status;
};

/* In this order. */
struct rota_watch_actions {
    bool cancel;       /* the watch before */
    bool tell_missing; /* fail the calls that wait: there is no such space */
    bool start;        /* watch `number` at `node` */
    uint64_t number;
    size_t node;
};

void rota_watch_fsm_init(struct rota_watch_fsm *fsm, size_t n_nodes, size_t first);
struct rota_watch_actions rota_watch_fsm_step(struct rota_watch_fsm *fsm, rota_time now,
                                              const struct rota_watch_event *event,
                                              struct rota_random *random);
rota_time rota_watch_fsm_deadline(const struct rota_watch_fsm *fsm);
