/* space_inside: what the files of a space share.
 *
 * space.c opens and closes a space and calls its user back, space_start.c has the starts that take
 * time or fail, space_map.c the state of all shards, space_change.c the changes that operators
 * request. space_view.c drives the machine of views (core/own/view_fsm.h), and space_view_ask.c
 * sends its requests to the store; by these views all nodes of a space agree on its members, its
 * pins and its engine. `ring` and `static` need nothing else. The other assignment engines, in
 * engine_*.c, find owners by their own means, while the machine lets them.
 *
 * A user may take time to stop, which the machine does not know: until all stops are answered,
 * space_view_ask.c neither reports to the others that we have stopped, nor leaves or joins.
 *
 * Invariants: a shard is started once and stopped once per epoch, even if an engine repeats
 * itself, and not started before its last stop was answered; what an engine reports about other
 * owners never lowers a known epoch. */
#pragma once

#include "base/map.h"
#include "base/metrics.h"
#include "run/own/engine.h"
#include "run/own/space_change.h"
#include "run/own/space_start.h"
#include "run/own/space_view.h"

/* The state of a shard towards the user. */
enum rota_space_mine_state { ROTA_SPACE_NOT_MINE, ROTA_SPACE_STARTED, ROTA_SPACE_STOPS };

/* How far the start of a shard that is started is. */
enum rota_space_progress {
    ROTA_SPACE_SERVED,
    ROTA_SPACE_STARTING_UP, /* on_start has no answer yet */
    ROTA_SPACE_FAILED, /* the user has started nothing of it; on_start comes again, or it is stopped
                        */
};

struct rota_space_mine {
    uint64_t epoch;
    uint64_t next;    /* of one that stops: the epoch to start it with afterwards; 0: do not */
    rota_time until;  /* of one that stops */
    rota_time try_at; /* after a failed start: when to try again; 0: not known yet, or no failure */
    char *problem;    /* of the last start, which failed; NULL: none */
    enum rota_space_mine_state state;
    enum rota_space_progress progress;
    uint8_t n_failures;              /* in a row */
    bool is_pinned;                  /* by the view */
    bool has_refused;                /* the view says so, as far as we know */
    bool wants_refusal, wants_retry; /* wishes to send */
};

struct rota_space_note {
    rota_time at;
    uint64_t epoch;
    uint32_t shard, owner;
    uint8_t state;
};

struct rota_space_series {
    struct rota_gauge *held;
    struct rota_counter *started, *stopped, *failed;
};

struct rota_space {
    struct rota_space_options options; /* its texts are in `texts` */
    struct rota_metrics *metrics;      /* our own, when none was given */
    struct rota_space_series series;
    uv_loop_t *loop;
    struct rota_store *store;
    struct rota_space_view view;

    /* The engine of the known view; NULL: none. */
    const struct rota_engine *engine;
    void *state; /* of an engine that observes the owners itself */
    bool is_running, is_halting;
    bool is_run_wanted; /* once it has halted */
    uint64_t floor;

    struct rota_space_map map;
    struct rota_space_shard *shards;
    struct rota_space_mine *mine;
    uint32_t n_mine; /* started, or not stopped yet */
    uint32_t self;   /* index of this node, or ROTA_SPACE_NOBODY */
    struct rota_map node_numbers;
    ROTA_VECTOR(struct rota_str) nodes; /* texts of their own */
    struct rota_space_note *notes;
    size_t n_notes; /* ever made */
    char trouble[ROTA_ERROR_TEXT_MAX], engine_trouble[ROTA_ERROR_TEXT_MAX];
    uv_timer_t change_timer, start_timer;
    uint32_t n_failed, n_wishes; /* shards whose start failed; wishes to send */

    struct rota_space_change change;
    struct rota_space_members *follower; /* of a keyed space; NULL: none */

    uint32_t weight; /* of this node */
    char zone[ROTA_ADDRESS_MAX + 1];
    char subscription[32];
    bool is_draining;  /* requested by the user */
    bool is_displaced; /* according to the members */
    bool is_listed;    /* they have this node, or had it */
    bool is_drained, is_closing, is_finished;
    void (*on_drained)(void *data);
    void *drained_data;
    void (*on_closed)(void *data);
    void *closed_data;
    uint32_t n_handles;
    char texts[];
};

/* --- space.c --- */

/* Why nothing can be owned now, because of the store; NULL: no trouble. */
void rota_space_trouble(struct rota_space *space, const char *text);

/* The machine says: own, own nothing, this is the engine. */
void rota_space_run(struct rota_space *space, uint64_t floor);
void rota_space_halt(struct rota_space *space, rota_time until);
void rota_space_set_engine(struct rota_space *space);

/* Whether a stop has no answer yet, or an engine has not halted. */
bool rota_space_is_stopping(const struct rota_space *space);

/* The map shows our shards, and how far their starts are. */
void rota_space_see_mine(struct rota_space *space, uint32_t shard);

/* The machine is done: close what is left. */
void rota_space_finish(struct rota_space *space);

rota_time rota_space_stop_within(const struct rota_space *space);
rota_time rota_space_ttl(const struct rota_space *space);

/* --- space_map.c --- */

/* Room for the shards. */
enum rota_code rota_space_map_init(struct rota_space *space, uint32_t n_shards,
                                   struct rota_error *error);
void rota_space_map_deinit(struct rota_space *space);

/* The number of a node, added if needed; ROTA_SPACE_NOBODY when there is no room, or for an
 * empty address. */
uint32_t rota_space_map_node_index(struct rota_space *space, struct rota_str address);

/* All shards, as in the known view; its engine and phase. */
void rota_space_map_view(struct rota_space *space);

/* The map has changed. */
void rota_space_map_changed(struct rota_space *space);

/* Update the claims for the shards that are held here. One that is starting names no address, so
 * that clients are not sent here in circles. */
void rota_space_map_claim(struct rota_space *space, uint32_t shard, uint64_t epoch);
void rota_space_map_unclaim(struct rota_space *space, uint32_t shard, uint64_t epoch);
