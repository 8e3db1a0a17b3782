/* pool_fsm: connections to nodes, a pool for each, made when first needed.
 *
 *     NEW --first get, or warm--> OPENING --all opened--> READY
 *     OPENING --one failed--> NEW        READY --idle and no leader--> gone
 *
 * A pool opens all of its first connections or none: a call waits for all of them or gets the
 * failure. Then calls use its connections round-robin. The pool grows when its connections carry
 * many calls and shrinks when they carry few; a connection with calls on it is never closed: it
 * gets no new ones and is closed when the last has left. A node that returns under another address
 * gets new connections.
 *
 * Actions are taken out with rota_pool_fsm_next() after every other call. Time is monotonic. */
#pragma once

#include <rota/error.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    ROTA_POOL_NODES_MAX = 65536,
    ROTA_POOL_CONNECTIONS_MAX = 64, /* of one pool */
    ROTA_POOL_WAITERS_MAX = 65536,  /* of all pools, for connections that open */
    ROTA_POOL_ADDRESS_MAX = 1024,
    ROTA_POOL_SIZE = 10,    /* connections that a pool opens first */
    ROTA_POOL_GROW_AT = 64, /* calls per connection at which one is added */
};

#define ROTA_POOL_PURGE_EVERY  (600 * ROTA_SEC)
#define ROTA_POOL_EXPIRY       (60 * ROTA_MIN)
#define ROTA_POOL_SHRINK_EVERY (60 * ROTA_SEC)
#define ROTA_POOL_REDIAL_AFTER ROTA_SEC

/* Zero means the default above; a size below 1 means 1, as in the original. */
struct rota_pool_options {
    uint64_t seed;
    int64_t size;                /* at first; 0 means ROTA_POOL_SIZE, negative means 1 */
    uint32_t size_min, size_max; /* 0 means 1, ROTA_POOL_CONNECTIONS_MAX */
    uint32_t grow_at;
    rota_time purge_every, expiry, shrink_every;
};

enum rota_pool_state {
    ROTA_POOL_NONE, /* the node has no pool */
    ROTA_POOL_NEW,
    ROTA_POOL_OPENING,
    ROTA_POOL_READY,
};

enum rota_pool_action_type {
    ROTA_POOL_OPEN,  /* connect to `address`, then report opened or failed */
    ROTA_POOL_CLOSE, /* end the connection, whatever it is doing */
    ROTA_POOL_TELL,  /* a waiter's answer: `connection`, or failed when that is 0 */
};

struct rota_pool_action {
    enum rota_pool_action_type type;
    uint64_t connection; /* a number that is never reused */
    int64_t node;
    struct rota_str address; /* of an open; valid until the next call */
    uint64_t waiter;         /* of a TELL */
};

struct rota_pool_fsm;

enum rota_code rota_pool_fsm_new(const struct rota_pool_options *options,
                                 struct rota_pool_fsm **pools, struct rota_error *error);
void rota_pool_fsm_free(struct rota_pool_fsm *pools); /* accepts NULL; emits no actions */

/* A connection to `node` for one call; release it when the call ends. Gives its number, or
 * leaves 0 in `*connection`: then the waiter is answered later. */
enum rota_code rota_pool_fsm_get(struct rota_pool_fsm *pools, rota_time now, int64_t node,
                                 struct rota_str address, uint64_t waiter, uint64_t *connection,
                                 struct rota_error *error);
void rota_pool_fsm_release(struct rota_pool_fsm *pools, rota_time now, uint64_t connection);

/* The waiter gets no answer; false when it does not wait. */
bool rota_pool_fsm_cancel(struct rota_pool_fsm *pools, uint64_t waiter);

/* Open the pool before a call needs it. */
enum rota_code rota_pool_fsm_warm(struct rota_pool_fsm *pools, rota_time now, int64_t node,
                                  struct rota_str address, struct rota_error *error);

/* The state of a connection: it is open; it could not be opened or has broken. Nothing needs to
 * be closed after the latter. */
void rota_pool_fsm_opened(struct rota_pool_fsm *pools, rota_time now, uint64_t connection);
void rota_pool_fsm_failed(struct rota_pool_fsm *pools, rota_time now, uint64_t connection);

/* Close all pools: waiters get a failure, and nothing is left. */
void rota_pool_fsm_close_all(struct rota_pool_fsm *pools);

/* Whether a node still leads a shard; such a pool is never purged. */
typedef bool rota_pool_is_leader(void *data, int64_t node);

/* Let time pass: shrink pools with little load, purge expired ones. */
void rota_pool_fsm_step(struct rota_pool_fsm *pools, rota_time now, rota_pool_is_leader *is_leader,
                        void *data);
rota_time rota_pool_fsm_deadline(const struct rota_pool_fsm *pools);

bool rota_pool_fsm_next(struct rota_pool_fsm *pools, struct rota_pool_action *action);

/* --- inspection --- */

enum rota_pool_state rota_pool_fsm_state(const struct rota_pool_fsm *pools, int64_t node);
size_t rota_pool_fsm_n_pools(const struct rota_pool_fsm *pools);

/* Connections of the node's pool, without draining ones; and of all pools, all that are not
 * closed yet. */
size_t rota_pool_fsm_size(const struct rota_pool_fsm *pools, int64_t node);
size_t rota_pool_fsm_n_connections(const struct rota_pool_fsm *pools);
