/* A space: a named set of shards, 0 .. n-1, each owned by one of the nodes that have
 * opened it, under an epoch that grows with every new owner.
 *
 * This is the one way to own shards. What decides who owns which is the space's engine,
 * and that is in the store (<rota/store.h>), not in the program: a space can be moved to
 * another engine while it is used.
 *
 *     static  a list of seats, each a node's address: shard N is at seat N modulo their
 *             number, and nobody's while that node is away
 *     ring    consistent hashing of the nodes that are alive
 *     lease   whoever comes first, a row of a table for each shard (<rota/lease.h>)
 *     group   shared out evenly, agreed on in an ordered log (<rota/group.h>)
 *
 *     on_start --> on_stop --> rota_space_stopped()
 *
 * What is done for a shard carries its epoch, so that whoever receives it can refuse a
 * lower one; and right before each effect rota_space_is_current() is asked, for a process
 * may be stopped anywhere, for any time, and no timer fires before it goes on.
 *
 * Invariants: a shard is started nowhere before its former owner has said that it stopped
 * or can't believe any more that it owns it; an epoch of a shard has one owner; without
 * the store everything is stopped in time.
 *
 * All of this belongs to the loop's thread. */
#pragma once

#include <rota/claims.h>
#include <rota/error.h>
#include <rota/log.h>
#include <rota/members.h>
#include <rota/metrics.h>
#include <rota/store.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rota_space;
struct uv_loop_s;

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ROTA_SPACE_SHARDS_MAX = 131072, /* of a space; engines may take fewer, and say so */
    ROTA_SPACE_NODES_MAX = 65536,   /* addresses that are met while it is open */
    ROTA_SPACE_HISTORY_MAX = 4096,  /* changes that are remembered of a space */
    ROTA_SPACE_TEXT_MAX = 512,      /* bytes of a sentence */
};

/* Whether there is an engine of this name. Any thread. */
bool rota_space_has_engine(struct rota_str name);

/* The engines' names, by number from 0; NULL ends them. Any thread. */
const char *rota_space_engine_name(size_t index);

/* The texts are copied. */
struct rota_space_options {
    const char *name; /* of the space: 1 to 200 letters, digits, '.', '_', '-' */

    /* This node's address, "host:port", by which others know it. NULL: only look, own
     * nothing. No two processes may have the same at one time. */
    const char *member;

    /* The space is made with these when the store has none of this name; else what the
     * store says counts. No engine: it is waited for. */
    const char *engine;
    uint32_t n_shards; /* 1 .. ROTA_SPACE_SHARDS_MAX */

    /* The seats of a static space that is made, with commas between them. NULL: this node
     * alone. */
    const char *seats;

    /* What is said there of this node, by its address, counts: its weight, and that it is
     * drained while it is not placed. Kept; NULL: a weight of one. */
    struct rota_members *members;

    /* No other process can have our address now, because we hold its port or a lock: then
     * what a former life of it had need not be waited for. */
    bool is_alone;

    rota_time ttl; /* a silent node is given up after; 0 means 10 s; from 200 ms to an hour */

    /* How long it takes at most from on_stop to rota_space_stopped(); 0 means 1 s, or a
     * quarter of a shorter ttl; at most half of it. Everything is stopped by ourselves
     * early enough for that before somebody else can take it. */
    rota_time stop_within;

    uint32_t wanted;     /* engine lease: shards to hold at most; 0: all of the space */
    const char *log_url; /* engine group: as <rota/group.h> has it; NULL: it is refused */

    /* Serve this shard from now on. After the store was unreachable for a while the epoch may be
     * the one that was stopped last: nobody else has had it in between. Stop, and then say
     * rota_space_stopped(): in the callback or later, once for each on_stop. What is under way may
     * be ended before `until` (rota_space_now(); 0: nothing may be done any more); nothing new is
     * begun. Each may be NULL, and may call any function of this header; a NULL on_stop is answered
     * at once. */
    void (*on_start)(void *data, uint32_t shard, uint64_t epoch);
    void (*on_stop)(void *data, uint32_t shard, uint64_t epoch, rota_time until);

    /* The map is another one, or the engine, the migration, the trouble is. Told once per
     * turn of the loop, however much changed. May be NULL. */
    void (*on_change)(void *data);

    /* Kept up to date with the owners of all shards, those held here and the others: of
     * `name`, the shard's name is its number in decimal, the node's number is
     * rota_space_node(). Kept; NULL: none. */
    struct rota_claims *claims;

    const struct rota_log *log;   /* kept; NULL: none */
    struct rota_metrics *metrics; /* kept; NULL: nothing is counted for others */
    void *data;                   /* kept */
};

/* Begin: read what the store says of the space, and take part in it. `loop` and `store` are
 * kept until the space is closed. A database that is away is no error. Gives `*space`;
 * rota_space_close() ends it. */
enum rota_code rota_space_open(struct uv_loop_s *loop, struct rota_store *store,
                               const struct rota_space_options *options, struct rota_space **space,
                               struct rota_error *error);

/* Own nothing any more, and then leave. Takes `space`, which may be NULL. Every shard held
 * gets its on_stop; when the last has been answered, and others were told so,
 * `on_closed`, which may be NULL, is called from the loop. Until then store, members and
 * claims have to stay. A callback may call this. */
void rota_space_close(struct rota_space *space, void (*on_closed)(void *data), void *data);

/* Own nothing until undrained, but go on to look. `on_drained`, which may be NULL, is called
 * from the loop when nothing is held here and others were told so; it is not called when
 * the space is undrained or closed before. */
void rota_space_drain(struct rota_space *space, void (*on_drained)(void *data), void *data);
void rota_space_undrain(struct rota_space *space);

/* The answer to an on_stop. One that is not waited for is ignored. */
void rota_space_stopped(struct rota_space *space, uint32_t shard, uint64_t epoch);

/* Whether the shard is ours under this epoch, now: reads the clock at each call. Ask it right
 * before each effect. Between on_stop and rota_space_stopped() it still is, until the
 * time that on_stop named. */
bool rota_space_is_current(const struct rota_space *space, uint32_t shard, uint64_t epoch);

/* The epoch under which the shard is ours now; 0: it is not. */
uint64_t rota_space_epoch(const struct rota_space *space, uint32_t shard);

/* The number that a node has in claims and maps, made of its address. Any thread. */
int64_t rota_space_node(struct rota_str address);

/* The clock of `until`: goes on while the machine is suspended. Any thread. */
rota_time rota_space_now(void);

/* --- the map --- */

enum rota_space_state {
    ROTA_SPACE_OWNED,
    ROTA_SPACE_MOVING,  /* `owner` is to have it, and waits for the one before */
    ROTA_SPACE_UNOWNED, /* nobody has it, or nobody knows */
};

#define ROTA_SPACE_NOBODY UINT32_MAX

struct rota_space_shard {
    uint64_t epoch; /* 0: it had no owner yet */
    uint32_t owner; /* index into the map's nodes, or ROTA_SPACE_NOBODY */
    uint8_t state;  /* enum rota_space_state */
    bool is_pinned;
};

/* A migration goes through these; see rota_space_migrate(). */
enum rota_space_phase {
    ROTA_SPACE_STABLE,   /* there is none */
    ROTA_SPACE_SHADOW,   /* the new engine computes beside the old one; nobody acts on it */
    ROTA_SPACE_STOPPING, /* whoever owns by the old engine stops */
    ROTA_SPACE_STARTING, /* the new engine begins, with epochs above the old one's */
};

/* "shadow" for ROTA_SPACE_SHADOW. Any thread. */
const char *rota_space_phase_name(enum rota_space_phase phase);

/* All claims of a space, as this node knows them. */
struct rota_space_map {
    struct rota_str name, engine; /* empty engine: the space is not known yet */
    uint64_t version;             /* grows with every change of what follows, here */
    const struct rota_str *nodes; /* one that has gone stays listed */
    size_t n_nodes;
    const struct rota_space_shard *shards;
    uint32_t n_shards, n_owned, n_moving, n_held; /* the last: owned here */

    enum rota_space_phase phase;
    struct rota_str to;     /* the engine that it is moved to; empty: none */
    uint32_t n_differences; /* of a shadow: shards that would change their owner */
    bool is_counted;        /* ... which is known between ring and static alone */

    bool is_draining;
    const char *trouble; /* why nothing can be owned here now: a sentence; NULL: nothing is
                          * known to be in the way */
};

/* Costs nothing: it is the one that is kept. Borrowed until the loop goes on or the space
 * is changed. */
const struct rota_space_map *rota_space_map(const struct rota_space *space);

/* Write why a shard is where it is: one sentence, of at most ROTA_SPACE_TEXT_MAX bytes
 * with its end. Returns `text`. A number beyond the shards gets a sentence too. */
char *rota_space_explain(const struct rota_space *space, uint32_t shard, char *text, size_t size);

/* What became of a shard, as seen from here. */
struct rota_space_event {
    rota_time at; /* wall clock */
    uint32_t shard;
    uint64_t epoch;
    enum rota_space_state state;
    struct rota_str owner; /* empty: nobody */
};

/* The newest changes of a shard into `events`, `n_max` at most, the newest first; returns
 * how many. The texts are borrowed like the map. */
size_t rota_space_history(const struct rota_space *space, uint32_t shard,
                          struct rota_space_event *events, size_t n_max);

/* --- changes by people --- */

struct rota_space_outcome {
    enum rota_code code;     /* ROTA_ERR_INVALID: refused, and will be again */
    struct rota_error error; /* of a code that is not ROTA_OK */
    const char *text;        /* what was done, or would be: a sentence */
};

/* Told once, from the loop; not when the space is closed before. The outcome is borrowed. */
typedef void rota_space_on_outcome(void *data, const struct rota_space_outcome *outcome);

/* The changes below may be asked of any process that has the space open, also of one without a
 * `member`.
 *
 * Keep a shard at a node, by its address, whatever the engine would say; an empty one ends
 * that. One that has not opened the space is refused, as is an engine that can't: lease and
 * group. Nothing else moves. Is done when it is in the store: the shard follows. A dry run
 * only says what would be done. An error here means that nothing was asked. */
enum rota_code rota_space_pin(struct rota_space *space, uint32_t shard, struct rota_str node,
                              bool is_dry_run, rota_space_on_outcome *on_outcome, void *data,
                              struct rota_error *error);

/* Other seats for a static space, or one that is to become static; the same way. */
enum rota_code rota_space_reseat(struct rota_space *space, const char *seats, bool is_dry_run,
                                 rota_space_on_outcome *on_outcome, void *data,
                                 struct rota_error *error);

/* Move the space to another engine, all nodes together. First the new one only computes,
 * for `shadow` (0 means one ttl), and the differences are in the map; then all stop, and
 * start under epochs above every one before; between static and ring what stays at its node
 * is started again at once. Asking for the engine that is in force ends a shadow. A space without
 * seats that becomes static gets its present nodes. Is done when the shadow is in the store: this
 * process goes on from there, and if it ends before, whoever asks again does. */
enum rota_code rota_space_migrate(struct rota_space *space, struct rota_str engine,
                                  rota_time shadow, bool is_dry_run,
                                  rota_space_on_outcome *on_outcome, void *data,
                                  struct rota_error *error);

#ifdef __cplusplus
}
#endif
