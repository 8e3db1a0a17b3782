/* view_fsm: what this node owns of a space that is owned by views, and when.
 *
 *     OUT --joined--> IN --out of time, gone, shutdown--> OUT
 *
 * One machine per node and space. A node is in while it has a row of its own, which it renews with
 * heartbeats (beats); it relies on the row for `ttl` less a guard, counted by its own boot clock
 * from when it sent the last confirmed heartbeat. After that time it stops everything on its own.
 * Others watch the row (core/own/session_watch.h): one whose `pings` stays the same for its ttl, by
 * the watcher's own clock and in observed time, is evicted, if the row still has this very value
 * when the store removes it. So a missing row means that its node owns nothing, with certainty.
 * `pings` is not a counter but a new random number with each heartbeat: a store that fell back
 * would count to the same number twice.
 *
 * A view (core/own/view.h) is proposed by any node that sees rows, wishes or a migration that the
 * present view does not answer to; the store takes the one that names the number it replaces. A
 * node that receives a view stops at once what it has lost, and acknowledges that with its next
 * heartbeat (`acked`); what it keeps continues. It starts what it has gained when all previous
 * owners have acked a view in which they do not own it, or no longer have a row.
 *
 * An observer never has a row, and a node whose name is taken has none for now. It follows the
 * views, and proposes an operator's change based on a fresh read. That is as safe as a member's
 * proposal, since the store takes it only on top of the view that it was made from. It never makes
 * the first view.
 *
 * The store has two tables: views (space: number, text) and members (space, name: instance, pings,
 * ttl, weight, zone, acked, highest, is_draining). What the driver does for each ask, each a
 * transaction:
 *
 *  - JOIN: our row becomes the ask's, if there is none of our name, or it has the
 *    instance `former`. Then JOINED; else TAKEN.
 *  - BEAT: if the row of our name has our instance it becomes the ask's: pings, acked,
 *    highest, weight, zone, is_draining, ttl. Then BEATEN; else GONE.
 *  - LEAVE: the row of our name is removed if it has our instance. LEFT, either way.
 *  - EVICT: the row of `name` is removed if it has just these `instance` and `pings`.
 *    EVICTED, either way: the next read shows the result.
 *  - READ: the view, and THEN all rows of the space, or both in one transaction; never
 *    the rows first, for a row that is missing counts as the end of its node. SIGHT,
 *    with `view` (number 0 when there is no row; NULL when it is the known view, so that
 *    the text need not be read again: the same number alone does not show that), the rows,
 *    the store's wall clock in milliseconds, and the highest epoch that the store knows of
 *    the space under its other engines (a lease table's), or 0.
 *  - PROPOSE: the space's row becomes `view`, written by rota_view_text_format(), if the row
 *    holds the known view (`known` is 0: if there is none). PROPOSED; or REFUSED, another
 *    was faster.
 *
 * Every ask has a number and is done at most once: no driver repeats one on its own. It ends with
 * one answer, at the latest when its connection is closed: UNKNOWN is neither success nor failure,
 * and the store may still carry it out later. A text that can't be read is UNKNOWN too, and logged:
 * we keep what we have, and no other node takes it.
 *
 * Spaces with another engine (lease, group) are run by the same rows and views: the machine says
 * when the engine may RUN, with epochs above `floor`, and when it has to HALT, which like a STOP is
 * complete when the call returns: it no longer serves anything. The driver reports each epoch that
 * such an engine starts a shard with (rota_view_fsm_note_epoch), so that the next engine begins
 * above it.
 *
 * If the store falls back to an earlier state, nodes that know a later view stop everything, wait
 * until every other node can have noticed, and start nothing before there is a view whose base is
 * above it. Numbers are at least the store's wall clock, so that nodes that know nothing do not
 * reuse one. If its clock is set back too, so that a number returns with another view, nodes that
 * know the number with the former view notice that as well.
 *
 * Invariants: STOPs and HALT come before the ask that reports them. After each step all that is
 * held has time left. A shard is held only under the epoch that the view known here gives it. An
 * answer to an ask that is not open changes nothing. */
#pragma once

#include "core/own/session_watch.h"
#include "core/own/view.h"

#include <rota/error.h>
#include <rota/experimental/random.h>
#include <rota/time.h>

enum {
    ROTA_VIEW_WISHES_MAX = 64, /* pending; one more is rejected at once */
    ROTA_VIEW_ASKS_MAX = 16,   /* of one step */
    ROTA_VIEW_ROWS_MAX = 4096, /* of a read; more are rejected */
};

#define ROTA_VIEW_TTL_MIN (100 * ROTA_MSEC)
#define ROTA_VIEW_TTL_MAX ROTA_HOUR

/* The strings are copied. */
struct rota_view_fsm_options {
    struct rota_str space;
    struct rota_str name;         /* of the node, as others call it */
    struct rota_str zone;         /* of the node, in a keyed space; may be empty */
    uint32_t n_shards;            /* 1 .. ROTA_VIEW_SHARDS_MAX; as all nodes have it; 0: keyed */
    enum rota_view_engine engine; /* of the first view; later the view's counts */
    const struct rota_str *seats; /* the same; of a static space */
    size_t n_seats;
    uint32_t weight;  /* in thousandths; 0 means ROTA_WEIGHT_ONE */
    rota_time ttl;    /* how long a heartbeat lasts; 0 means 10 s */
    bool is_alone;    /* no other process can have our name now */
    bool is_observer; /* it never has a row, and owns nothing */
    uint64_t seed;    /* random; instances are derived from it */
};

/* A member's row, as a READ shows it. A row with impossible values only counts as present. */
struct rota_view_row {
    struct rota_str name;
    uint64_t instance; /* of this incarnation of the node; random like `pings`, within an int64_t */
    uint64_t pings;    /* a new random number with each heartbeat */
    rota_time ttl;
    uint64_t acked; /* the latest view after which it has stopped everything that it does not own */
    uint64_t highest; /* the highest epoch that an engine other than views gave it */
    uint32_t weight;
    struct rota_str zone;
    bool is_draining; /* it wants to own nothing */
};

enum rota_view_event_type {
    ROTA_VIEW_TICK,     /* time has passed */
    ROTA_VIEW_JOINED,   /* answers JOIN */
    ROTA_VIEW_TAKEN,    /* answers JOIN: another process has our name */
    ROTA_VIEW_BEATEN,   /* answers BEAT */
    ROTA_VIEW_GONE,     /* answers BEAT: our row is missing, or another's */
    ROTA_VIEW_LEFT,     /* answers LEAVE */
    ROTA_VIEW_EVICTED,  /* answers EVICT */
    ROTA_VIEW_SIGHT,    /* answers READ: view, rows, unix_ms, highest */
    ROTA_VIEW_PROPOSED, /* answers PROPOSE: it is the view now */
    ROTA_VIEW_REFUSED,  /* answers PROPOSE: the store has another number */
    ROTA_VIEW_UNKNOWN,  /* answers any: it may have been done, or not, or may still be done */
    ROTA_VIEW_HINT,     /* another source reports a change: read now */
    ROTA_VIEW_DRAIN,    /* own nothing, from now on; the row stays */
    ROTA_VIEW_UNDRAIN,
    ROTA_VIEW_WEIGH,    /* our weight is `weight`, our zone `zone` from now on */
    ROTA_VIEW_WISH,     /* an operator asks for another view: wish */
    ROTA_VIEW_SHUTDOWN, /* stop everything, and leave; drain first to be gentle */
};

enum rota_view_wish_type {
    ROTA_VIEW_PIN,     /* shard, name */
    ROTA_VIEW_UNPIN,   /* shard */
    ROTA_VIEW_RESEAT,  /* seats: those of a static space become these */
    ROTA_VIEW_MIGRATE, /* to: begin a shadow of another engine; seats, of a static one: the former
                          ones if it is empty, or else the members by name */
    ROTA_VIEW_REFUSE,  /* shard, name, why: this member can't start it, and others have to */
    ROTA_VIEW_RETRY,   /* shard, name: it tries again */
    ROTA_VIEW_COMMIT,  /* to: the shadow becomes the engine */
    ROTA_VIEW_CANCEL,  /* end the shadow */
};

/* An operator's request, or a member's. The strings are copied. */
struct rota_view_wish {
    enum rota_view_wish_type type;
    uint64_t id; /* the caller's: returned with the outcome */
    uint32_t shard;
    struct rota_str name, why;
    const struct rota_str *seats;
    size_t n_seats;
    enum rota_view_engine to;
};

struct rota_view_event {
    enum rota_view_event_type type;
    uint64_t ask;                 /* of an answer: the number that the ask had */
    const struct rota_view *view; /* borrowed; NULL: it is still the known one */
    const struct rota_view_row *rows;
    size_t n_rows;
    uint64_t unix_ms; /* of the store's clock; 0: not known */
    uint64_t highest;
    uint32_t weight;
    struct rota_str zone; /* copied */
    struct rota_view_wish wish;
};

enum rota_view_ask_type {
    ROTA_VIEW_JOIN,    /* row, former */
    ROTA_VIEW_BEAT,    /* row */
    ROTA_VIEW_LEAVE,   /* row */
    ROTA_VIEW_EVICT,   /* row: name, instance, pings */
    ROTA_VIEW_READ,    /* known */
    ROTA_VIEW_PROPOSE, /* known, view */
};

struct rota_view_ask {
    enum rota_view_ask_type type;
    uint64_t number;
    struct rota_view_row row; /* ours, except in EVICT */
    uint64_t former; /* the instance of our previous incarnation, which may be replaced; 0: none */
    uint64_t known;  /* the number of the view that we know, rota_view_fsm_view(); 0: none */
    const struct rota_view *view; /* to be written */
};

/* Why shards are no longer held, for people. */
enum rota_view_why {
    ROTA_VIEW_WHY_MOVED,     /* a later view gives them to others, or a later epoch */
    ROTA_VIEW_WHY_EXPIRED,   /* no heartbeat was confirmed in time */
    ROTA_VIEW_WHY_GONE,      /* our row was removed */
    ROTA_VIEW_WHY_WENT_BACK, /* the store shows an earlier state */
    ROTA_VIEW_WHY_SHUTDOWN,
};

struct rota_view_shard {
    uint32_t shard;
    uint64_t epoch;
};

/* The outcome of a wish. */
struct rota_view_outcome {
    uint64_t id;
    enum rota_code
        code; /* OK; INVALID: not possible now; LIMIT: too many; UNAVAILABLE: we are shut down */
    uint64_t number; /* of the view that has it */
};

/* To be done in this order; borrowed until the next step. */
struct rota_view_actions {
    const struct rota_view_shard *stops; /* stop holding these, before anything else; with the epoch
                                            under which each was held */
    size_t n_stops;
    enum rota_view_why why; /* of the stops and the halt */
    bool has_halt;          /* the engine that was allowed to RUN stops everything, the same way */

    const struct rota_view_ask *asks;
    size_t n_asks;

    const struct rota_view_shard *starts; /* hold: shard, epoch */
    size_t n_starts;
    bool has_run; /* `engine` may hold shards, with epochs above `floor` */
    enum rota_view_engine engine;
    uint64_t floor;

    /* All that is held, and the engine that runs, may go on until then, on the boot clock; 0:
     * nothing is held. Set in every step: a higher value extends it. */
    rota_time until;

    const struct rota_view_outcome *outcomes; /* of wishes */
    size_t n_outcomes;
    bool is_changed; /* there is another view: modules that show it or route by it read it again */
    bool went_back;  /* for the log: the store shows an earlier state */
    bool is_done;    /* the shutdown is complete, or timed out; nothing follows */
};

/* A node that owned a shard in an earlier view and may still hold it. */
struct rota_view_move {
    uint32_t shard;
    uint32_t who;     /* into `lives` */
    uint64_t lost_at; /* the shard is free once this number is acked */
};

/* A member of this or an earlier view, and the state in its row. */
struct rota_view_life {
    struct rota_str name; /* in the machine's arena */
    uint64_t instance;
    uint64_t acked;
    bool is_dead; /* by the last read: it has no row */
};

enum rota_view_standing {
    ROTA_VIEW_OUT,     /* no row, as far as we know */
    ROTA_VIEW_IN,      /* with a row that we renew */
    ROTA_VIEW_CLOSING, /* everything is stopped; our row is being removed */
    ROTA_VIEW_OVER,
};

/* A wish that waits for a view that contains it. */
struct rota_view_waiting {
    struct rota_view_wish wish; /* strings in the machine's arena */
    bool is_proposed;           /* the proposal contains it */
};

struct rota_view_fsm {
    struct rota_view_fsm_options options; /* defaults filled in; strings in `texts` */
    struct rota_arena texts;
    char zone[ROTA_VIEW_NAME_MAX];
    rota_time guard;
    struct rota_random random;
    struct rota_session_watch watch;
    uint32_t *hashes; /* by shard */

    /* The view that is known, and what follows from it. */
    struct rota_view view;
    uint32_t *owners;  /* by shard: into `lives`, or ROTA_VIEW_NOBODY */
    uint64_t *epochs;  /* by shard */
    uint32_t *scratch; /* by shard */
    bool *is_taken;    /* by shard: a former owner may still hold it */
    ROTA_VECTOR(struct rota_view_life) lives;
    struct rota_arena names;                  /* of `lives` */
    uint32_t me;                              /* into `lives`, or ROTA_VIEW_NOBODY */
    ROTA_VECTOR(struct rota_view_move) moves; /* former owners that may still hold shards */
    uint64_t known_since;                     /* the moves of all views from here on are known */
    bool is_barred;                           /* a node may be at a view from before that */
    uint64_t floor;                           /* the highest number known, of any view */
    uint64_t lost;                            /* the same when the store last went back; 0: never */
    bool is_on_hold;                          /* until `hold_until`: the store went back */
    rota_time hold_until;

    /* The rows by name, as of a read that came with the view or after it. */
    bool has_rows;
    ROTA_VECTOR(struct rota_view_row) rows;
    struct rota_arena row_names;
    uint64_t unix_ms, store_highest;

    /* Ourselves. */
    enum rota_view_standing standing;
    uint64_t instance;    /* of our row, or of the attempt to create one */
    bool may_join;        /* our name is free, or held by `join_former` */
    uint64_t join_former; /* 0: none */
    bool is_draining;
    uint64_t highest;
    rota_time until; /* what we hold is ours until then */
    uint64_t *held;  /* by shard: the epoch under which we hold it; 0: we do not */
    uint32_t n_held, n_ours;
    bool is_running; /* an engine other than views runs, by our permission */
    uint64_t acked;  /* the view that our row shows as acked */

    /* At most one ask about our row, and one read or proposal, is in flight at a time; besides
     * these, evictions, whose answers are ignored. */
    uint64_t n_asked;
    uint64_t own_ask; /* 0: none is in flight */
    enum rota_view_ask_type own_type;
    uint64_t own_acked; /* what it says */
    bool is_row_old;    /* our row has to be updated */
    rota_time own_sent_at, own_at;
    uint64_t seek_ask;
    enum rota_view_ask_type seek_type;
    rota_time read_at;
    rota_time propose_at;      /* ROTA_TIME_NEVER: nothing to propose */
    struct rota_view proposal; /* the view to follow the known one */
    rota_time give_up_at;

    ROTA_VECTOR(struct rota_view_waiting) wishes;
    struct rota_arena wish_texts;

    /* Of one step. */
    struct rota_view_shard *stops, *starts; /* room for all shards */
    struct rota_view_ask asks[ROTA_VIEW_ASKS_MAX];
    struct rota_view_outcome outcomes[ROTA_VIEW_WISHES_MAX + 1];
    struct rota_view_actions actions;
};

/* Refuses names, shards, weights, seats or a ttl out of bounds. */
enum rota_code rota_view_fsm_init(struct rota_view_fsm *fsm, rota_time now,
                                  const struct rota_view_fsm_options *options,
                                  struct rota_error *error);
void rota_view_fsm_deinit(struct rota_view_fsm *fsm);

struct rota_view_actions rota_view_fsm_step(struct rota_view_fsm *fsm, rota_time now,
                                            const struct rota_view_event *event);

/* When the next tick is due. */
rota_time rota_view_fsm_deadline(const struct rota_view_fsm *fsm);

/* The epoch under which we hold the shard at `now`; 0: we do not. Ask right before each effect:
 * a timer does not help a process that was paused. */
uint64_t rota_view_fsm_epoch(const struct rota_view_fsm *fsm, rota_time now, uint32_t shard);

/* Whether another engine that was allowed to RUN may go on at `now`. */
bool rota_view_fsm_is_running(const struct rota_view_fsm *fsm, rota_time now);

/* Another engine has started a shard with this epoch, here. */
void rota_view_fsm_note_epoch(struct rota_view_fsm *fsm, uint64_t epoch);

/* The view that is known here; number 0: none is. Borrowed until the next step. */
const struct rota_view *rota_view_fsm_view(const struct rota_view_fsm *fsm);

/* The owner of a shard by the view that is known here, and since which epoch; false when it has
 * none. `is_moving`: another node may still hold it, as far as is known. Borrowed until the next
 * step. */
struct rota_view_owner {
    struct rota_str name;
    uint64_t instance, epoch;
    bool is_moving, is_pinned;
};
bool rota_view_fsm_owner(const struct rota_view_fsm *fsm, uint32_t shard,
                         struct rota_view_owner *owner);

/* The rows of the space, as of the last read: those of members, and of nodes that drain or join.
 * Borrowed until the next step. */
const struct rota_view_row *rota_view_fsm_rows(const struct rota_view_fsm *fsm, size_t *n);

/* In a shadow of ring or static: how many shards would have another owner. */
enum rota_code rota_view_fsm_differences(const struct rota_view_fsm *fsm, uint32_t *n,
                                         struct rota_error *error);

/* Whether we are drained: we asked to own nothing, and the others know that we do not. */
bool rota_view_fsm_is_drained(const struct rota_view_fsm *fsm);

/* "went back" for ROTA_VIEW_WHY_WENT_BACK. Any thread. */
const char *rota_view_fsm_look_why_text(enum rota_view_why why);
