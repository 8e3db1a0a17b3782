/* A space: a sharded resource, that is, a named set of shards, numbered from 0.
 *
 * Each shard is owned by one of the nodes that have opened the space, under an epoch (fencing
 * token) that grows with every new owner.
 *
 * Spaces are the way to own shards. The space's assignment engine decides which node owns which
 * shard. The engine is recorded in the store (<rota/store.h>), not in the program, so a space can
 * be migrated to another engine while it is in use.
 *
 *     static  a list of nodes (seats): shard N belongs to entry N modulo the length of the list,
 *             and has no owner while that node is down
 *     ring    consistent hashing over the live nodes
 *     lease   first come, first served, by a row of a table for each shard; see
 *             <rota/experimental/lease.h>
 *     group   divided evenly, agreed on in an ordered log; see <rota/group.h>
 *
 *     on_start --> on_stop --> rota_space_stopped()
 *
 * A start that takes time, or may fail, is answered (see `is_start_answered`).
 *
 * Send the epoch of the shard along with everything you do for it, so that the receiver can reject
 * a lower epoch, and call rota_space_is_current() right before each effect: a process can be paused
 * anywhere, for any time, and no timer fires before it continues.
 *
 * Invariants: a shard is not started before its former owner has reported that it stopped, or its
 * ownership has expired by its own clock; an epoch of a shard has one owner; a node that loses the
 * store stops all its shards in time.
 *
 * Use a space only on the loop's thread. */
#pragma once

#include <rota/error.h>
#include <rota/log.h>
#include <rota/metrics.h>
#include <rota/store.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rota_claims;  /* in <rota/experimental/claims.h> */
struct rota_members; /* in <rota/experimental/members.h> */
struct rota_space;
struct uv_loop_s;

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ROTA_SPACE_SHARDS_MAX = 131072, /* of a space; an engine may allow fewer */
    ROTA_SPACE_NODES_MAX = 65536,   /* addresses seen while the space is open */
    ROTA_SPACE_HISTORY_MAX = 4096,  /* changes kept per space */
    ROTA_SPACE_TEXT_MAX = 512,      /* bytes of an explanation */
    ROTA_SPACE_PROBLEM_MAX = 200,   /* bytes of the reason of a refusal; more are cut off */
};

#define ROTA_SPACE_RETRY_MAX ROTA_HOUR

/* Whether an engine of this name exists. Any thread. */
bool rota_space_has_engine(struct rota_str name);

/* The names of the engines, by index from 0; NULL after the last. Any thread. */
const char *rota_space_engine_name(size_t index);

/* The strings are copied. */
struct rota_space_options {
    const char *name; /* of the space: 1 to 200 letters, digits, '.', '_', '-' */

    /* This node's address, "host:port", as other nodes know it; unique among live processes. NULL:
     * observe only, own nothing. */
    const char *member;

    /* If the store has no space of this name, it is created with this engine and these shards;
     * otherwise the store's settings apply. NULL: wait until the space exists. */
    const char *engine;
    uint32_t n_shards; /* 1 to ROTA_SPACE_SHARDS_MAX; lease and group allow fewer */

    /* Addresses of the nodes of a static space that is created, separated by commas. NULL: only
     * this node. */
    const char *seats;

    /* Where to look up this node's weight by its address, and whether it is drained (not placed).
     * Kept; NULL: a weight of one. */
    struct rota_members *members;

    /* No other process can have our address now, because we hold its port or a lock. Then there is
     * no wait for shards of a former process at this address. */
    bool is_alone;

    rota_time ttl; /* a node without heartbeat is dead after this; 0 means 10 s; 200 ms to 1 h */

    /* The longest time from on_stop to rota_space_stopped(); 0 means 1 s, or a quarter of a shorter
     * ttl; at most half of the ttl. A node that loses the store calls on_stop early enough for this
     * before another node can take over. */
    rota_time stop_within;

    uint32_t wanted;     /* engine lease: most shards to hold; 0: all of the space */
    const char *log_url; /* engine group: as in <rota/group.h>; NULL: this engine is rejected */

    /* on_start: serve this shard from now on. After an outage of the store the epoch may be the one
     * stopped last; no other node has owned the shard in between.
     *
     * on_stop: stop, then call rota_space_stopped(), in the callback or later, once for each
     * on_stop. Start nothing new; work in progress may finish before `until` (on the clock of
     * rota_space_now(); 0: no time is left).
     *
     * Each may be NULL and may call any function of this header; a NULL on_stop counts as stopped
     * at once. */
    void (*on_start)(void *data, uint32_t shard, uint64_t epoch);
    void (*on_stop)(void *data, uint32_t shard, uint64_t epoch, rota_time until);

    /* The map, the engine, the migration or the trouble has changed. Called at most once per
     * iteration of the loop. May be NULL. */
    void (*on_change)(void *data);

    /* Kept up to date with the owners of all shards, here and elsewhere. The claims are in space
     * `name`; a shard's name is its number in decimal, a node's number is rota_space_node(). Kept;
     * NULL: none. */
    struct rota_claims *claims;

    const struct rota_log *log;   /* kept; NULL: none */
    struct rota_metrics *metrics; /* kept; NULL: none */
    void *data;                   /* kept */

    /* on_start only begins the start of a shard. Answer each with rota_space_started() or
     * rota_space_refuse(), in the callback or later. Until then this node owns the shard, and no
     * other node starts it, but its claim is not held: servers reject calls to the shard without
     * naming an owner, so that clients wait and try again. on_stop is also called for a shard that
     * is still starting, but not for one that was refused. */
    bool is_start_answered;

    /* The space has no shards (`n_shards` is 0, `engine` "ring" or NULL): its views name its nodes
     * with their weights and zones, and nothing is started or stopped. A node is in the space while
     * `members` has it as placed. */
    bool is_keyed;

    /* This node tries again to start a shard that it refused after this time, twice this after the
     * second failure, and so on, up to ROTA_SPACE_RETRY_MAX. 0 means 1 min. */
    rota_time retry_after;

    void *reserved[2]; /* must be zero; room for future options */
};

/* Reads the space from the store and joins it. `loop` and `store` are kept until the space is
 * closed. An unreachable database is not an error. Gives `*space`; close it with
 * rota_space_close(). */
enum rota_code rota_space_open(struct uv_loop_s *loop, struct rota_store *store,
                               const struct rota_space_options *options, struct rota_space **space,
                               struct rota_error *error);

/* For simple programs: runs the loop until the map is known and names the owner of a shard.
 * ROTA_ERR_UNAVAILABLE, with the reason, after `timeout`. Not from a callback of the loop. */
enum rota_code rota_space_wait(struct rota_space *space, rota_time timeout,
                               struct rota_error *error);

/* Gives up all shards and leaves the space. Takes `space`, which may be NULL. Every shard held
 * gets its on_stop. When all are stopped and the other nodes know, `on_closed`, which may be
 * NULL, is called from the loop. Keep store, members and claims open until then. A callback may
 * call this. */
void rota_space_close(struct rota_space *space, void (*on_closed)(void *data), void *data);

/* Gives up all shards and owns none until undrained, but keeps observing. `on_drained`, which may
 * be NULL, is called from the loop when this node holds no shard and the other nodes know; it is
 * not called if the space is undrained or closed first. */
void rota_space_drain(struct rota_space *space, void (*on_drained)(void *data), void *data);
void rota_space_undrain(struct rota_space *space);

/* The replies to an on_start, with `is_start_answered`: the shard is served from now on; or it
 * cannot be started, and nothing of it is in use here. Unexpected replies are ignored.
 *
 * A refused shard goes to another node: with `ring`, to the next one clockwise that has not refused
 * it. rota_space_explain() shows `problem`, a sentence, at every node. This node is tried again
 * after `retry_after`, sooner if all other nodes have refused the shard or left. With `static` the
 * shard has no owner until then. With `lease` and `group` it stays here, and is tried again after
 * 100 ms, 200 ms, and so on. */
void rota_space_started(struct rota_space *space, uint32_t shard, uint64_t epoch);
void rota_space_refuse(struct rota_space *space, uint32_t shard, uint64_t epoch,
                       const char *problem);

/* The reply to an on_stop. Unexpected replies are ignored. */
void rota_space_stopped(struct rota_space *space, uint32_t shard, uint64_t epoch);

/* Whether this node owns the shard under this epoch, now: reads the clock at each call. Call it
 * right before each effect. Between on_stop and rota_space_stopped() it stays true until the time
 * that on_stop gave. */
bool rota_space_is_current(const struct rota_space *space, uint32_t shard, uint64_t epoch);

/* The epoch under which this node owns the shard now; 0: it does not. */
uint64_t rota_space_epoch(const struct rota_space *space, uint32_t shard);

/* The number of a node in claims and maps, derived from its address. Any thread. */
int64_t rota_space_node(struct rota_str address);

/* The clock of `until`; it runs on while the machine is suspended. Any thread. */
rota_time rota_space_now(void);

/* --- the map --- */

enum rota_space_state {
    ROTA_SPACE_OWNED,
    ROTA_SPACE_MOVING,  /* `owner` is going to own it, and waits for the former owner; or, on the
                           owner itself, the shard is starting */
    ROTA_SPACE_UNOWNED, /* no owner, or none known */
};

#define ROTA_SPACE_NOBODY UINT32_MAX

struct rota_space_shard {
    uint64_t epoch; /* 0: it never had an owner */
    uint32_t owner; /* index into the map's nodes, or ROTA_SPACE_NOBODY */
    uint8_t state;  /* enum rota_space_state */
    bool is_pinned;
};

/* The phases of a migration; see rota_space_migrate(). */
enum rota_space_phase {
    ROTA_SPACE_STABLE,   /* no migration */
    ROTA_SPACE_SHADOW,   /* the new engine only computes; no node acts on it */
    ROTA_SPACE_STOPPING, /* owners by the old engine stop */
    ROTA_SPACE_STARTING, /* the new engine starts, with epochs above the old engine's */
};

/* "shadow" for ROTA_SPACE_SHADOW. Any thread. */
const char *rota_space_phase_name(enum rota_space_phase phase);

/* All claims of a space, as this node sees them. */
struct rota_space_map {
    struct rota_str name, engine; /* empty engine: the space is not known yet */
    uint64_t version;             /* grows with every change to the fields below, on this node */
    const struct rota_str *nodes; /* nodes that have left stay listed */
    size_t n_nodes;
    const struct rota_space_shard *shards;
    uint32_t n_shards, n_owned, n_moving, n_held; /* n_held: owned here */

    enum rota_space_phase phase;
    struct rota_str to;     /* the engine it is migrating to; empty: none */
    uint32_t n_differences; /* of a shadow: shards that would change owner */
    bool is_counted;        /* whether n_differences is known: only between ring and static */

    bool is_draining;
    /* Why this node cannot own anything now, as a sentence; NULL: no problem known. */
    const char *trouble;
};

/* The current map. Costs nothing. Borrowed until the loop runs or the space changes. */
const struct rota_space_map *rota_space_map(const struct rota_space *space);

/* Writes why a shard is where it is: one sentence, at most ROTA_SPACE_TEXT_MAX bytes with its NUL.
 * Returns `text`. A number beyond the shards also gets a sentence. */
char *rota_space_explain(const struct rota_space *space, uint32_t shard, char *text, size_t size);

/* A change of a shard, as this node saw it. */
struct rota_space_event {
    rota_time at; /* wall clock */
    uint32_t shard;
    uint64_t epoch;
    enum rota_space_state state;
    struct rota_str owner; /* empty: none */
};

/* Copies the latest changes of a shard into `events`, newest first, at most `n_max`; returns how
 * many. The strings are borrowed like the map. */
size_t rota_space_history(const struct rota_space *space, uint32_t shard,
                          struct rota_space_event *events, size_t n_max);

/* --- changes by operators --- */

struct rota_space_outcome {
    enum rota_code code;     /* ROTA_ERR_INVALID: rejected; repeating it won't help */
    struct rota_error error; /* if the code is not ROTA_OK */
    const char *text;        /* what was done, or would be, as a sentence */
};

/* Called once, from the loop, unless the space is closed first. The outcome is borrowed. */
typedef void rota_space_on_outcome(void *data, const struct rota_space_outcome *outcome);

/* Any process that has the space open may request the changes below, even without a `member`.
 *
 * Pins a shard to a node, given by its address, whatever the engine would choose; an empty address
 * unpins it. The node must have opened the space. The engines lease and group do not support
 * pinning. No other shard moves. The outcome comes when the pin is in the store; the shard follows.
 * A dry run only reports what would be done. If this returns an error, nothing was requested. */
enum rota_code rota_space_pin(struct rota_space *space, uint32_t shard, struct rota_str node,
                              bool is_dry_run, rota_space_on_outcome *on_outcome, void *data,
                              struct rota_error *error);

/* Sets the node list of a static space, or of a space that will become static. Otherwise like
 * rota_space_pin(). */
enum rota_code rota_space_reseat(struct rota_space *space, const char *seats, bool is_dry_run,
                                 rota_space_on_outcome *on_outcome, void *data,
                                 struct rota_error *error);

/* Migrates the space to another engine, on all nodes. First the new engine only computes, for
 * `shadow` (0 means one ttl), and the map shows the differences. Then all shards stop and start
 * again, under epochs above all earlier ones; between static and ring a shard that stays at its
 * node is started again at once. To end a shadow, migrate to the engine in force. A space without
 * a node list that becomes static gets its current nodes as its list. The outcome comes when the
 * shadow is in the store. This process carries out the rest; if it exits before the end, request
 * the migration again. */
enum rota_code rota_space_migrate(struct rota_space *space, struct rota_str engine,
                                  rota_time shadow, bool is_dry_run,
                                  rota_space_on_outcome *on_outcome, void *data,
                                  struct rota_error *error);

#ifdef __cplusplus
}
#endif
