/* The store: what the nodes of a cluster have to agree on, in a SQL database.
 *
 * Leases, members, spaces and a history of claims, in SQLite, MariaDB or
 * PostgreSQL. A store asks one request after the other on a thread of its own
 * and answers on the loop. docs/store.md has the tables.
 *
 * Invariants: every answer says what the database's clock showed; what was answered
 * as done stays done when the database is restarted; a request whose connection was lost on the way
 * is neither done nor not done, ROTA_ERR_UNKNOWN; the password is in no message. */
#pragma once

#include <rota/error.h>
#include <rota/lease.h>
#include <rota/log.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rota_store;
struct uv_loop_s;

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ROTA_STORE_NAME_MAX = 255,     /* bytes of a space, dc, host, address, zone, engine */
    ROTA_STORE_TEXT_MAX = 4 << 20, /* bytes of a space's configuration; roles have 1,024 */
    ROTA_STORE_ROLES_MAX = 1024,   /* bytes of a member's roles */
    ROTA_STORE_SHARDS_MAX = ROTA_LEASE_SHARDS_MAX,
    ROTA_STORE_PINGS_MAX = 256,       /* leases kept by one request */
    ROTA_STORE_KEYS_MAX = 1023,       /* keys of one select; addresses beside the first */
    ROTA_STORE_KEY_MAX = 4096,        /* bytes of a key */
    ROTA_STORE_VALUE_MAX = 16 << 20,  /* bytes of a value */
    ROTA_STORE_ANSWER_MAX = 64 << 20, /* bytes of an answer */
    ROTA_STORE_HISTORY_MAX = 1000,    /* entries kept, and answered, of a space */
    ROTA_STORE_ROWS_MAX = 1 << 20,    /* rows of an answer */
    ROTA_STORE_PENDING_MAX = 1024,    /* requests at one time */
};

/* What may be asked, and which fields of the request belong to it. All
 * but SELECT have `db_now` in their answer. */
enum rota_store_verb {
    /* Take a shard of `space` and `dc` for `host`, `instance` and `ttl`, one of `shards`.
     * `claim` says what more there is to know. Answer: `claimed`. */
    ROTA_STORE_CLAIM,

    /* Keep `shard`, held under `instance` and `epoch`, for another `ttl`; or give it
     * back. Answer: `holder`. A lease that has expired and that nobody took is kept. */
    ROTA_STORE_PING,
    ROTA_STORE_RELEASE,

    /* Keep all of `pings` at once, held under `instance`, each with an outcome of its own.
     * Answer: `holders`, in the order of `pings`. */
    ROTA_STORE_PINGS,

    /* All leases of `space`, of `dc` only when one is named. Answer: `leases`, by dc
     * and shard. */
    ROTA_STORE_LEASES,

    /* Grants and releases in `space`, the newest first. Answer: `history`. */
    ROTA_STORE_HISTORY,

    /* The number of shards of each dc of `space`. Answer: `dcs`, by name. */
    ROTA_STORE_DCS,

    /* No claim in `space` (empty: in any) for `span` from now on; 0 ends it. For the
     * time after a fail-over to a replica that may lack the last writes. Answer:
     * `hold_until`. */
    ROTA_STORE_HOLD,

    /* Say that `member` is well, and likewise at each address in `keys`. Its state is not
     * touched. */
    ROTA_STORE_BEAT,

    /* All members, by address. Answer: `members`. */
    ROTA_STORE_MEMBERS,

    /* Set the state of `member`, by its address, or take it out of the list; likewise those
     * with the addresses in `keys`. Answer: `is_done`, false when there is no such member. */
    ROTA_STORE_MEMBER_STATE,
    ROTA_STORE_MEMBER_REMOVE,

    /* Write `config`, whose `version` is that of the one which it replaces, 0 when
     * there must be none. Answer: `is_done`, and `spaces` has the one there is now. */
    ROTA_STORE_SPACE_PUT,

    /* The space with the name `space`, or all when that is empty. Answer: `spaces`, by
     * name; none is no error. */
    ROTA_STORE_SPACES,

    /* Take part in `space` as `node`: its row is written if there is none of its name, or
     * it is of the instance `former`. Answer: `is_done`. */
    ROTA_STORE_SPACE_JOIN,

    /* Say that `node` is well, with all that it says of itself; or take its row away. Only
     * if the row has its instance. Answer: `is_done`. */
    ROTA_STORE_SPACE_BEAT,
    ROTA_STORE_SPACE_LEAVE,

    /* Take the row of `node` away if it has just these instance and pings: nobody keeps it
     * up. Answer: `is_done`. */
    ROTA_STORE_SPACE_EVICT,

    /* At one moment: `space` in `spaces`, with an empty text when its version is `known` and
     * its text is `known_text`; all that take part in it, in `nodes`, by name; and the highest
     * epoch of its leases in `highest`. */
    ROTA_STORE_SPACE_READ,

    /* Write `config` with its very version, in place of the one with version `known` and text
     * `known_text`, or where there is none if `known` is 0. Answer: `is_done`. */
    ROTA_STORE_SPACE_PROPOSE,

    /* The secret with the name `config.name`, of which there is one in the store: `config.text`
     * becomes it if there is none yet. Answer: `values`, with that one. */
    ROTA_STORE_SECRET,

    /* The rows of a foreign table with one of `keys`. Answer: `values`, in no order; a
     * key that is not there has none. For one that the column's type can't be, like "x"
     * where numbers are, a server may refuse all of them: ask for each alone then. */
    ROTA_STORE_SELECT,
};

/* The last holder's name stays when it is gone, so that it is preferred. */
struct rota_store_lease {
    struct rota_str dc, host;
    uint32_t shard, shards;         /* number, and of how many it was claimed */
    uint64_t instance;              /* 0: nobody holds it */
    uint64_t epoch;                 /* of its last holder, 0: it had none */
    uint64_t pings;                 /* grows with each claim, ping and release */
    rota_time locked_at, last_ping; /* database's clock */
    rota_time ttl;                  /* span */
};

struct rota_store_event {
    struct rota_str dc, host;
    uint32_t shard, shards; /* number, and of how many; 0: not known */
    uint64_t epoch;
    bool is_release; /* otherwise a grant */
    rota_time at;    /* database's clock */
};

struct rota_store_dc {
    struct rota_str name;
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
    uint32_t weight;                    /* in thousandths; 0 means ROTA_WEIGHT_ONE */
    rota_time start_at, stop_at;        /* wall clock, see struct rota_host; 0: no bound */
    rota_time ttl;                      /* span */
    enum rota_store_member_state state; /* an operator's; BEAT leaves it alone */
    rota_time heartbeat;                /* database's clock; of an answer */
};

struct rota_store_space {
    struct rota_str name, engine, text;
    uint64_t version;
};

/* One that takes part in a space. */
struct rota_store_node {
    struct rota_str name;
    uint64_t instance; /* of this life of it; not 0 */
    uint64_t pings;    /* another with each sign of life, by chance */
    rota_time ttl;     /* span */
    uint64_t acked, highest;
    uint32_t weight; /* in thousandths; 0 means ROTA_WEIGHT_ONE */
    bool is_draining;
};

struct rota_store_value {
    struct rota_str key, value;
    bool is_too_large; /* it has more than ROTA_STORE_VALUE_MAX bytes, and is left out */
};

/* Which rows a claim may take, and in what order; within one the row that was
 * pinged longest ago comes first, then the lowest shard:
 *
 * 1. this host was the last to hold it, and it is free; or another instance of this
 *    host still does, and `is_alone`;
 * 2. this host was the last to hold it, and it is dead: it is in `dead`, with this very
 *    epoch and number of pings, and the database's clock agrees: its last ping is longer
 *    ago than its holder's ttl, or further in the future than that, for the clock may
 *    have been set back;
 * 3. it is free;
 * 4. it is dead, and another host held it.
 *
 * Never one that this very instance holds. The epoch granted is the highest of the
 * row's + 1, `floor` + 1 and the database's clock in milliseconds: it grows even when
 * the database is older than we are. */
struct rota_store_claim {
    uint64_t floor;  /* the highest epoch seen in this space */
    bool is_alone;   /* no other process with this host's name can be alive */
    bool is_reshard; /* make `shards` the dc's number, if it has another */
    const struct rota_lease_dead *dead;
    size_t n_dead; /* at most ROTA_LEASE_DEAD_MAX */
};

struct rota_store_ping {
    uint32_t shard;
    uint64_t epoch;
};

/* Zero what the verb does not name. All is copied. */
struct rota_store_request {
    enum rota_store_verb verb;
    struct rota_str space, dc, host;
    uint32_t shard, shards;
    uint64_t instance, epoch; /* not 0 where they are asked for; an epoch is below 2^62 */
    rota_time ttl;            /* span, of whole milliseconds */
    rota_time span;           /* of a HOLD */
    struct rota_store_claim claim;
    const struct rota_store_ping *pings; /* by shard, each once */
    size_t n_pings;                      /* from 1 to ROTA_STORE_PINGS_MAX */
    struct rota_store_member member;
    struct rota_store_space config;
    struct rota_store_node node;
    uint64_t former, known;
    struct rota_str known_text; /* what version `known` says; empty if that is 0 */

    /* Of SELECT: a name of letters, digits and underscores, or two with a dot
     * between; the columns are "key" and "value" when they have no names. */
    struct rota_str table, key_column, value_column;
    const struct rota_str *keys; /* or further addresses of a member, each once */
    size_t n_keys;
};

enum rota_store_claim_result {
    ROTA_STORE_CLAIM_GRANTED,
    ROTA_STORE_CLAIM_NONE,    /* no row may be taken now */
    ROTA_STORE_CLAIM_ON_HOLD, /* none until `hold_until` of the answer */
};

struct rota_store_claimed {
    enum rota_store_claim_result result;
    uint32_t shard, shards; /* of a grant, like the epoch */
    uint64_t epoch;

    /* The claim has changed the dc's number of shards: what it was, and how many shards
     * were held at that moment, by processes that go by the old one. 0: it has not. */
    uint32_t shards_before, n_held;
};

/* Who holds it now. `is_ours`: the request was carried out, so it is held with a new
 * ttl, or released. Otherwise host, instance and epoch are those of the row, which
 * may be free; all 0 when there is no row. */
struct rota_store_holder {
    bool is_ours;
    struct rota_str host;
    uint64_t instance, epoch;
};

struct rota_store_answer {
    /* ROTA_ERR_UNAVAILABLE: surely not done, and may be asked again.
     * ROTA_ERR_UNKNOWN: it may be done or not, or will be yet.
     * ROTA_ERR_INVALID: refused; the same request will be again. */
    enum rota_code code;
    struct rota_error error; /* of a code that is not ROTA_OK, and nothing else counts then */

    /* Own clock (rota_clock_boot): just before the request was sent to the database,
     * and just after its answer had come. */
    rota_time sent_at, heard_at;
    rota_time db_now; /* database's clock at a moment between these two */

    struct rota_store_claimed claimed;
    struct rota_store_holder holder;
    const struct rota_store_holder *holders;
    rota_time hold_until; /* database's clock; 0: there is no hold */
    bool is_done;

    const struct rota_store_lease *leases;
    const struct rota_store_event *history;
    const struct rota_store_dc *dcs;
    const struct rota_store_member *members;
    const struct rota_store_space *spaces;
    const struct rota_store_node *nodes;
    const struct rota_store_value *values;
    size_t n_holders, n_leases, n_history, n_dcs, n_members, n_spaces, n_nodes, n_values;
    uint64_t highest;

    void *memory; /* the store's own: what the pointers above lead into */
};

/* Told on the loop; the answer is borrowed. Any function of this header may be
 * called. */
typedef void rota_store_on_answer(void *data, const struct rota_store_answer *answer);

struct rota_store_options {
    /* "sqlite:PATH", "mysql://USER:PASSWORD@HOST:PORT/DATABASE" for MariaDB, or
     * "postgres://USER:PASSWORD@HOST:PORT/DATABASE". */
    const char *url;

    /* How long the database may take for a connection and for a statement; 0 means
     * 5 s for both. */
    rota_time connect_timeout, statement_timeout;

    /* Only ROTA_STORE_SELECT is asked: nothing is made, neither the store's own tables nor
     * a file of SQLite. */
    bool is_reader;

    const struct rota_log *log; /* kept; NULL: none */
    const char *purpose; /* what the connection is for, in the log: "leases"; kept, may be NULL */

    /* A connection was made, the tables are there and can be used; or there is none
     * now, each time that one was lost or could not be made. Either may be NULL. */
    void (*on_up)(void *data);
    void (*on_down)(void *data, const struct rota_error *error);
    void *data; /* kept */
};

/* Open a store on `loop`, which is kept. It connects by itself, again and again with
 * a growing delay, and makes its tables if they are missing; so a database that is
 * away is no error, but a URL that can't be read is. Gives `*store`;
 * rota_store_close() ends it. */
enum rota_code rota_store_open(struct uv_loop_s *loop, const struct rota_store_options *options,
                               struct rota_store **store, struct rota_error *error);

/* Takes `store`, which may be NULL; no callback comes after, and a callback may call
 * it. The loop frees it when the request under way has ended. */
void rota_store_close(struct rota_store *store);

/* Ask the database; `on_answer` is called once, later, from the loop. Requests are
 * carried out in the order in which they were made; without a connection they fail
 * with ROTA_ERR_UNAVAILABLE, after the attempt to connect that is under way. An error here means
 * that nothing was asked: ROTA_ERR_INVALID, or ROTA_ERR_LIMIT with ROTA_STORE_PENDING_MAX under
 * way. */
enum rota_code rota_store_ask(struct rota_store *store, const struct rota_store_request *request,
                              rota_store_on_answer *on_answer, void *data,
                              struct rota_error *error);

/* No answer that was asked for with this `data` will come; what was asked is done all
 * the same. */
void rota_store_forget(struct rota_store *store, const void *data);

bool rota_store_is_up(const struct rota_store *store);

/* The URL without its password, borrowed until the store is closed. */
const char *rota_store_name(const struct rota_store *store);

#ifdef __cplusplus
}
#endif
