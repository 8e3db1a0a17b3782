/* space_inside: what the files of a space share, and what an engine is.
 *
 * space.c opens and closes a space and calls its user back, space_map.c has the state of all
 * shards, space_change.c the changes that operators request. view.c drives the machine of views
 * (core/own/view_fsm.h), and view_ask.c sends its requests to the store; by these views all nodes
 * of a space agree on its members, its pins and its engine. `ring` and `static` need nothing else.
 * The other assignment engines, in engine_*.c, find owners by their own means, while the machine
 * lets them.
 *
 * A user may take time to stop, which the machine does not know: until all stops are answered,
 * view_ask.c neither reports to the others that we have stopped, nor leaves or joins.
 *
 * Invariants: a shard is started once and stopped once per epoch, even if an engine repeats
 * itself, and not started before its last stop was answered; what an engine reports about other
 * owners never lowers a known epoch. */
#pragma once

#include "base/buffer.h"
#include "base/map.h"
#include "base/metrics.h"
#include "base/vector.h"
#include "core/own/view_fsm.h"
#include "run/own/driver.h"

#include <rota/space.h>

/* An engine: how the shards of a space find their owners. `state` is its own. One without `open`
 * follows from views alone. */
struct rota_engine {
    const char *name;
    enum rota_view_engine kind;
    uint32_t n_shards_max;
    bool keeps_claims; /* of the shards it holds: it sets and drops them itself */

    /* Whether this node could own shards with it: a sentence if not. May be NULL. */
    enum rota_code (*check)(const struct rota_space *space, struct rota_error *error);

    /* Begin to observe the owners, and report them. Gives `*state`. */
    enum rota_code (*open)(struct rota_space *space, void **state, struct rota_error *error);

    /* Stop observing. Takes `state`, which does not run. */
    void (*close)(void *state);

    /* Own shards, with epochs above `floor`. */
    enum rota_code (*run)(void *state, uint64_t floor, struct rota_error *error);

    /* Stop owning: rota_space_engine_stop_all() has been called. When all stops are answered and
     * others may own the shards, call rota_space_engine_halted(), from the loop. */
    void (*halt)(void *state);

    /* The user's answer to a stop. May be NULL. */
    void (*stopped)(void *state, uint32_t shard, uint64_t epoch);

    /* By the clock, for a shard that was started and not stopped. */
    bool (*is_current)(const void *state, uint32_t shard, uint64_t epoch);

    /* On the boot clock: nothing is owned from then on. May be NULL. */
    rota_time (*until)(const void *state);

    /* One sentence. */
    void (*explain)(const void *state, uint32_t shard, char *text, size_t size);
};

extern const struct rota_engine rota_engine_static, rota_engine_ring, rota_engine_lease,
    rota_engine_group;

/* NULL: there is none of this name. */
const struct rota_engine *rota_engine_find(struct rota_str name);

/* The state of a shard towards the user. */
enum rota_space_mine_state { ROTA_SPACE_NOT_MINE, ROTA_SPACE_STARTED, ROTA_SPACE_STOPS };

struct rota_space_mine {
    uint64_t epoch;
    uint64_t next;   /* of one that stops: the epoch to start it with afterwards; 0: do not */
    rota_time until; /* of one that stops */
    enum rota_space_mine_state state;
    bool is_pinned; /* by the view */
};

struct rota_space_note {
    rota_time at;
    uint64_t epoch;
    uint32_t shard, owner;
    uint8_t state;
};

struct rota_space_series {
    struct rota_gauge *held;
    struct rota_counter *started, *stopped;
};

/* Events that arrived while the machine's actions were carried out. */
struct rota_space_late {
    enum rota_view_event_type type;
    uint64_t ask;
    uint32_t weight;
};

/* The machine of views, and what its driver keeps. */
struct rota_space_view {
    struct rota_view_fsm fsm;
    bool has_fsm;
    struct rota_driver driver;
    ROTA_VECTOR(struct rota_space_late) late;
    ROTA_VECTOR(struct rota_view_row) rows; /* of one answer */
    struct rota_buffer text, known_text;    /* of the request that is being made */
    struct rota_view_row row;               /* as last requested by the machine */
    uint64_t told, sent; /* the view that others know we have acked, and the one in flight */
    rota_time until;     /* of all that is held */
    bool is_over, is_leaving;
    bool is_row_there; /* perhaps */
    bool is_row_bad;   /* the space's row can't be read */
};

/* An operator's request: a wish to the machine, at most one at a time. */
struct rota_space_change {
    bool is_new, is_sent,
        is_dry;                 /* the wish is to be sent; was sent; only its outcome is reported */
    struct rota_view_wish wish; /* its texts are in `names` */
    struct rota_buffer names;
    ROTA_VECTOR(struct rota_str) seats;
    rota_space_on_outcome *on_outcome;
    void *data;
    char text[ROTA_SPACE_TEXT_MAX];
    uv_timer_t dry_timer;

    /* A migration: the duration of its shadow, and what comes after it. */
    rota_time shadow;
    enum rota_view_engine to;
    bool is_commit_wanted;
    uv_timer_t shadow_timer;
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
    void *state; /* of an engine that observes by itself */
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
    uv_timer_t change_timer;

    struct rota_space_change change;

    uint32_t weight; /* of this node */
    char subscription[32];
    bool is_draining;  /* requested by the user */
    bool is_displaced; /* according to the members */
    bool is_drained, is_closing, is_finished;
    void (*on_drained)(void *data);
    void *drained_data;
    void (*on_closed)(void *data);
    void *closed_data;
    uint32_t n_handles;
    char texts[];
};

/* --- space.c: called by engines --- */

/* The shard is ours from now on; or no longer, and work in progress may be finished before
 * `until`, 0: at once. */
void rota_space_engine_start(struct rota_space *space, uint32_t shard, uint64_t epoch);
void rota_space_engine_stop(struct rota_space *space, uint32_t shard, uint64_t epoch,
                            rota_time until);
void rota_space_engine_stop_all(struct rota_space *space, rota_time until);
void rota_space_engine_halted(struct rota_space *space);

/* Why nothing can be owned now, because of the store or the engine; NULL: no trouble. */
void rota_space_trouble(struct rota_space *space, const char *text);
void rota_space_engine_trouble(struct rota_space *space, const char *text);

/* The machine says: own, own nothing, this is the engine. */
void rota_space_run(struct rota_space *space, uint64_t floor);
void rota_space_halt(struct rota_space *space, rota_time until);
void rota_space_set_engine(struct rota_space *space);

/* Whether a stop has no answer yet, or an engine has not halted. */
bool rota_space_is_stopping(const struct rota_space *space);

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
uint32_t rota_space_node_index(struct rota_space *space, struct rota_str address);

/* The current state of a shard. An epoch below the known one is ignored. */
void rota_space_engine_see(struct rota_space *space, uint32_t shard, struct rota_space_shard seen);

/* All shards, as in the known view; its engine and phase. */
void rota_space_map_view(struct rota_space *space);

/* The map has changed. */
void rota_space_changed(struct rota_space *space);

/* Update the claims for what is held here. */
void rota_space_claim(struct rota_space *space, uint32_t shard, uint64_t epoch);
void rota_space_unclaim(struct rota_space *space, uint32_t shard, uint64_t epoch);

/* --- space_change.c --- */

/* The wish to be sent now; false when there is none. */
bool rota_space_change_next(struct rota_space *space, struct rota_view_wish *wish);
void rota_space_change_hear(struct rota_space *space, const struct rota_view_outcome *outcome);

/* --- view_ask.c --- */

/* Carry out an ask of the machine; or one with this `acked`, which the machine does not
 * know of if its number is 0. */
void rota_space_ask(struct rota_space *space, const struct rota_view_ask *ask);
void rota_space_ask_store(struct rota_space *space, const struct rota_view_ask *wanted,
                          uint64_t acked);

/* Parse the view of a row, into an empty one; false, and reported as trouble, when it is
 * invalid. */
bool rota_space_ask_parse(struct rota_space *space, const struct rota_store_space *row,
                          struct rota_view *view);

/* --- view.c --- */

/* The one caller of the machine. */
void rota_space_view_drive(struct rota_space *space, const struct rota_view_event *event);

/* Passed to the machine after its current step. Without memory even for that, the machine waits
 * until it times out. */
void rota_space_view_later(struct rota_space *space, enum rota_view_event_type type, uint64_t ask);

void rota_space_view_open(struct rota_space *space);
void rota_space_view_deinit(struct rota_space *space);

/* Give the machine an event, now or after the current one. */
void rota_space_view_tell(struct rota_space *space, enum rota_view_event_type type);

/* A wish has to be sent. */
void rota_space_view_wish(struct rota_space *space);

/* Something has stopped: check whether others may know now. */
void rota_space_view_stopped(struct rota_space *space);

/* Until when claims may be held now. */
void rota_space_view_limit(struct rota_space *space);

/* Notify the user, if it waits for that. */
void rota_space_view_check_drained(struct rota_space *space);

/* Stop everything, leave, and call rota_space_finish(). */
void rota_space_view_close(struct rota_space *space);
