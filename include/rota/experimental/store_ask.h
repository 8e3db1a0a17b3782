/* Requests to a store: what spaces, leases and members ask of it.
 *
 * A store executes one request after the other on its own thread and answers on the loop.
 *
 * Invariants: every answer has the time of the database's clock; what was answered as done survives
 * a restart of the database; a request whose connection was lost in flight may or may not be done,
 * ROTA_ERR_UNKNOWN. */
#pragma once

#include <rota/error.h>
#include <rota/experimental/lease.h>
#include <rota/store.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ROTA_STORE_NAME_MAX = 255,     /* bytes of a space, dc, host, address, zone, engine */
    ROTA_STORE_TEXT_MAX = 4 << 20, /* bytes of a space's configuration */
    ROTA_STORE_ROLES_MAX = 1024,   /* bytes of a member's roles */
    ROTA_STORE_SHARDS_MAX = ROTA_LEASE_SHARDS_MAX,
    ROTA_STORE_PINGS_MAX = 256,       /* leases renewed by one request */
    ROTA_STORE_KEYS_MAX = 1023,       /* keys of one select; further addresses of a member */
    ROTA_STORE_KEY_MAX = 4096,        /* bytes of a key */
    ROTA_STORE_VALUE_MAX = 16 << 20,  /* bytes of a value */
    ROTA_STORE_ANSWER_MAX = 64 << 20, /* bytes of an answer */
    ROTA_STORE_HISTORY_MAX = 1000,    /* entries kept, and returned, per space */
    ROTA_STORE_ROWS_MAX = 1 << 20,    /* rows of an answer */
    ROTA_STORE_PENDING_MAX = 1024,    /* requests in progress */
};

/* The requests, and the fields of the request that they use. All answers but that of SELECT have
 * `db_now`. */
enum rota_store_verb {
    /* Claims one of the `shards` shards of `space` and `dc`, for `host` and `instance`, for `ttl`.
     * `claim` has further conditions. Answer: `claimed`. */
    ROTA_STORE_CLAIM,

    /* Renews `shard`, held under `instance` and `epoch`, for another `ttl`; or releases it. Answer:
     * `holder`. An expired lease that was not taken by another process is renewed. */
    ROTA_STORE_PING,
    ROTA_STORE_RELEASE,

    /* Renews all of `pings`, held under `instance`, each with its own outcome. Answer: `holders`,
     * in the order of `pings`. */
    ROTA_STORE_PINGS,

    /* All leases of `space`, or only of `dc` if given. Answer: `leases`, by dc and shard. */
    ROTA_STORE_LEASES,

    /* Grants and releases in `space`, newest first. Answer: `history`. */
    ROTA_STORE_HISTORY,

    /* The number of shards of each dc of `space`, or of all spaces if that is empty. Answer: `dcs`,
     * by space and name. */
    ROTA_STORE_DCS,

    /* Freezes claims in `space` (empty: in all spaces) for `span` from now on; 0 ends the freeze.
     * For use after a failover to a replica that may lack the last writes. Answer: `hold_until`. */
    ROTA_STORE_HOLD,

    /* Sends a heartbeat of `member`, and of each address in `keys`: then it has no name. Does not
     * change the state. */
    ROTA_STORE_BEAT,

    /* All members, by address. Answer: `members`. */
    ROTA_STORE_MEMBERS,

    /* Sets the state of `member`, given by its address, or removes it from the list; likewise the
     * members with the addresses in `keys`. Answer: `is_done`, false if there is no such member. */
    ROTA_STORE_MEMBER_STATE,
    ROTA_STORE_MEMBER_REMOVE,

    /* Writes `config`, whose `version` is that of the configuration it replaces, 0 if there must be
     * none. Answer: `is_done`; `spaces` has the current configuration. */
    ROTA_STORE_SPACE_PUT,

    /* The space named `space`, or all, without their texts, if that is empty. Answer: `spaces`, by
     * name; finding none is not an error. */
    ROTA_STORE_SPACES,

    /* Joins `space` as `node`: writes its row if there is none of that name, or if that row is of
     * the instance `former`. Answer: `is_done`. */
    ROTA_STORE_SPACE_JOIN,

    /* Sends a heartbeat of `node`, with all its fields; or deletes its row. Only if the row has its
     * instance. Answer: `is_done`. */
    ROTA_STORE_SPACE_BEAT,
    ROTA_STORE_SPACE_LEAVE,

    /* Deletes the row of `node` if it has exactly this instance and these pings, that is, if it is
     * no longer renewed. Answer: `is_done`. */
    ROTA_STORE_SPACE_EVICT,

    /* A consistent snapshot: `space` in `spaces`, without its text if its version is `known` and
     * its text is `known_text`; its nodes in `nodes`, by name; and the highest epoch of its leases
     * in `highest`. */
    ROTA_STORE_SPACE_READ,

    /* Writes `config` with the version it has, in place of the one with version `known` and text
     * `known_text`; `known` = 0: only if there is none. Answer: `is_done`. */
    ROTA_STORE_SPACE_PROPOSE,

    /* The secret named `config.name`, one per store: `config.text` becomes the secret if there is
     * none yet. Answer: `values`, with the secret in force. */
    ROTA_STORE_SECRET,

    /* Reads the rows of a foreign table with one of `keys`. Answer: `values`, unordered; a key that
     * does not exist has none. If a key does not fit the column's type, like "x" in a column of
     * numbers, a server may reject the whole request: then ask for each key alone. */
    ROTA_STORE_SELECT,

    /* Deletes `space` if it has version `known` with text `known_text`, and no nodes. Answer:
     * `is_done`. */
    ROTA_STORE_SPACE_DELETE,

    /* The settings of queues whose version is above `known`, or of all queues if that is 0. Answer:
     * `queues`, by version; `highest`, the latest version of all. Before any was written, 0 gets
     * those that an older program has left, with version 0. */
    ROTA_STORE_QUEUES,

    /* Writes the settings `config.text` of the queue `config.name`, changed by `host`; and those of
     * further queues, whose names and settings alternate in `keys`. Unless one of them has settings
     * of a version above `known`. Answer: `is_done`; then `highest` is their version, and
     * `previous` the latest of all queues before it. */
    ROTA_STORE_QUEUE_PUT,
};

/* The host stays recorded after a release, because the last holder is preferred. */
struct rota_store_lease {
    struct rota_str dc, host;
    uint32_t shard, shards;         /* number, and number of shards when it was claimed */
    uint64_t instance;              /* 0: it is free */
    uint64_t epoch;                 /* of its last holder; 0: never held */
    uint64_t pings;                 /* grows with each claim, ping and release */
    rota_time locked_at, last_ping; /* database clock */
    rota_time ttl;                  /* duration */
};

struct rota_store_event {
    struct rota_str dc, host;
    uint32_t shard, shards; /* number, and number of shards; 0: unknown */
    uint64_t epoch;
    bool is_release; /* otherwise a grant */
    rota_time at;    /* database clock */
};

struct rota_store_dc {
    struct rota_str space, name;
    uint32_t shards;
};

enum rota_store_member_state {
    ROTA_STORE_MEMBER_IN,
    ROTA_STORE_MEMBER_DRAINING,
    ROTA_STORE_MEMBER_EVICTED,
};

/* Alive until `heartbeat` + `ttl` on the database's clock. */
struct rota_store_member {
    struct rota_str address, roles, zone;
    struct rota_str name; /* unique among live nodes; empty: none, and the address serves as one */
    uint32_t weight;      /* in thousandths; 0 means ROTA_WEIGHT_ONE */
    rota_time start_at, stop_at;        /* wall clock, see struct rota_host; 0: no bound */
    rota_time ttl;                      /* duration */
    enum rota_store_member_state state; /* set by an operator; not changed by BEAT */
    rota_time heartbeat;                /* database clock; only in answers */
    /* Only for MEMBER_STATE, with the state IN: the member drains after this duration, unless its
     * state is set again before; 0: it does not. */
    rota_time drain_in;
};

struct rota_store_space {
    struct rota_str name, engine, text;
    uint64_t version;
};

/* The settings of a queue, as bytes; empty: the defaults. */
struct rota_store_queue {
    struct rota_str name, settings, changed_by;
    uint64_t version;     /* numbered through all queues */
    rota_time changed_at; /* database clock */
};

/* A node of a space. */
struct rota_store_node {
    struct rota_str name;
    uint64_t instance; /* of this run of the node; not 0 */
    uint64_t pings;    /* a new random number with each heartbeat */
    rota_time ttl;     /* duration */
    uint64_t acked, highest;
    uint32_t weight; /* in thousandths; 0 means ROTA_WEIGHT_ONE */
    bool is_draining;
    struct rota_str zone; /* may be empty */
};

struct rota_store_value {
    struct rota_str key, value;
    bool is_too_large; /* more than ROTA_STORE_VALUE_MAX bytes; left out */
};

/* The rows that a claim may take, in order of preference. Within each class the row that was pinged
 * longest ago comes first, then the lowest shard:
 *
 * 1. this host was the last to hold it, and it is free; or another instance of this host
 *    still holds it, and `is_alone`;
 * 2. this host was the last to hold it, and it is dead: it is in `dead`, with exactly this epoch
 *    and number of pings, and the database's clock agrees: its last ping is longer ago than its
 *    holder's ttl, or further in the future than that, as the clock may have been set back;
 * 3. it is free;
 * 4. it is dead, and another host held it.
 *
 * Never a row that this very instance holds. The granted epoch is the highest of the row's epoch +
 * 1, `floor` + 1 and the database's clock in milliseconds, so it grows even if the database was
 * restored from an older state. */
struct rota_store_claim {
    uint64_t floor;  /* the highest epoch seen in this space */
    bool is_alone;   /* no other process with this host's name can be alive */
    bool is_reshard; /* change the dc's number of shards to `shards` */
    const struct rota_lease_dead *dead;
    size_t n_dead; /* at most ROTA_LEASE_DEAD_MAX */
};

struct rota_store_ping {
    uint32_t shard;
    uint64_t epoch;
};

/* Zero the fields that the verb does not use. Everything is copied. */
struct rota_store_request {
    enum rota_store_verb verb;
    struct rota_str space, dc, host;
    uint32_t shard, shards;
    uint64_t instance, epoch; /* not 0 where used; an epoch is below 2^62 */
    rota_time ttl;            /* duration, in whole milliseconds */
    rota_time span;           /* duration, for HOLD */
    struct rota_store_claim claim;
    const struct rota_store_ping *pings; /* by shard, no duplicates */
    size_t n_pings;                      /* 1 to ROTA_STORE_PINGS_MAX */
    struct rota_store_member member;
    struct rota_store_space config;
    struct rota_store_node node;
    uint64_t former, known;
    struct rota_str known_text; /* what version `known` says; empty if that is 0 */

    /* For SELECT: a name of letters, digits and underscores, or two such names with a dot between
     * them. The columns are "key" and "value" by default. */
    struct rota_str table, key_column, value_column;
    const struct rota_str *keys; /* or further addresses of a member; no duplicates. Or queues */
    size_t n_keys;
};

enum rota_store_claim_result {
    ROTA_STORE_CLAIM_GRANTED,
    ROTA_STORE_CLAIM_NONE,    /* no row can be taken now */
    ROTA_STORE_CLAIM_ON_HOLD, /* claims are frozen until `hold_until` */
};

struct rota_store_claimed {
    enum rota_store_claim_result result;
    uint32_t shard, shards; /* of a grant, like the epoch */
    uint64_t epoch;

    /* If the claim changed the dc's number of shards: the former number, and how many shards were
     * held then by processes that use it. 0: it did not. */
    uint32_t shards_before, n_held;
};

/* The current holder. `is_ours`: the request was carried out, so the lease is renewed or released.
 * Otherwise host, instance and epoch are those of the row, which may be free; all 0 if there is no
 * row. */
struct rota_store_holder {
    bool is_ours;
    struct rota_str host;
    uint64_t instance, epoch;
};

struct rota_store_answer {
    /* ROTA_ERR_UNAVAILABLE: certainly not done; retry. ROTA_ERR_UNKNOWN: may be done, not done, or
     * done later. ROTA_ERR_INVALID: rejected; a retry will be, too. */
    enum rota_code code;
    struct rota_error error; /* if the code is not ROTA_OK; the other fields are then unset */

    /* On this process's clock (rota_clock_boot): just before the request was sent to the database,
     * and just after the answer arrived. */
    rota_time sent_at, heard_at;
    rota_time db_now; /* the database's clock, between these two */

    struct rota_store_claimed claimed;
    struct rota_store_holder holder;
    const struct rota_store_holder *holders;
    rota_time hold_until; /* database clock; 0: no freeze */
    bool is_done;

    const struct rota_store_lease *leases;
    const struct rota_store_event *history;
    const struct rota_store_dc *dcs;
    const struct rota_store_member *members;
    const struct rota_store_space *spaces;
    const struct rota_store_node *nodes;
    const struct rota_store_value *values;
    const struct rota_store_queue *queues;
    size_t n_holders, n_leases, n_history, n_dcs, n_members, n_spaces, n_nodes, n_values, n_queues;
    uint64_t highest, previous;

    void *memory; /* internal: owns what the pointers above refer to */
};

/* Called on the loop; the answer is borrowed. May call any function of this header. */
typedef void rota_store_on_answer(void *data, const struct rota_store_answer *answer);

/* Sends a request; `on_answer` is called once, later, from the loop. Requests are executed in
 * order. Without a connection they fail with ROTA_ERR_UNAVAILABLE, after the attempt to connect
 * that is in progress. If this returns an error, nothing was sent: ROTA_ERR_INVALID, or
 * ROTA_ERR_LIMIT if ROTA_STORE_PENDING_MAX requests are in progress. */
enum rota_code rota_store_ask(struct rota_store *store, const struct rota_store_request *request,
                              rota_store_on_answer *on_answer, void *data,
                              struct rota_error *error);

/* Suppresses the answers to all requests made with this `data`; the requests are still executed. */
void rota_store_forget(struct rota_store *store, const void *data);

#ifdef __cplusplus
}
#endif
