#include "core/call/shards/pool_fsm.h"

#include "base/list.h"
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>

struct connection {
    uint64_t number;
    struct pool *pool; /* NULL: it drains, and no pool hands it out */
    bool is_ready;
    uint32_t n_calls;
    struct rota_list_node todo; /* to be opened, or to be closed */
};

struct pool {
    int64_t node;
    enum rota_pool_state state;
    struct connection *connections[ROTA_POOL_CONNECTIONS_MAX];
    uint32_t n_connections, n_wanted;
    uint32_t turn;
    uint32_t n_calls, n_calls_peak; /* now; since the pool was last swept */
    struct rota_list_node waiters;
    struct rota_list_node link; /* of all pools */
    rota_time active_at, redial_at;
    size_t address_size;
    char address[ROTA_POOL_ADDRESS_MAX];
};

struct waiter {
    uint64_t number, connection;
    int64_t node;
    struct rota_list_node link; /* of the pool's, then of those to be answered */
};

struct rota_pool_fsm {
    struct rota_pool_options options;
    struct rota_map by_node, by_number, by_waiter;
    struct rota_list_node pools, opens, closes, tells;
    uint64_t number;
    rota_time sweep_at, purge_at;
};

static rota_time or_default(rota_time span, rota_time normal)
{
    return span > 0 ? span : normal;
}

static uint32_t clamp(int64_t value, int64_t from, int64_t to)
{
    return (uint32_t)(value < from ? from : value > to ? to : value);
}

enum rota_code rota_pool_fsm_new(const struct rota_pool_options *options,
                                 struct rota_pool_fsm **pools, struct rota_error *error)
{
    struct rota_pool_fsm *p = calloc(1, sizeof *p);
    if (!p)
        return rota_error_no_memory(error, "for connection pools");
    p->options = *options;
    struct rota_pool_options *own = &p->options;
    own->size_max = clamp(own->size_max ? own->size_max : ROTA_POOL_CONNECTIONS_MAX, 1,
                          ROTA_POOL_CONNECTIONS_MAX);
    own->size_min = clamp(own->size_min, 1, own->size_max);
    own->size = clamp(own->size ? own->size : ROTA_POOL_SIZE, own->size_min, own->size_max);
    own->grow_at = own->grow_at ? own->grow_at : ROTA_POOL_GROW_AT;
    own->purge_every = or_default(own->purge_every, ROTA_POOL_PURGE_EVERY);
    own->expiry = or_default(own->expiry, ROTA_POOL_EXPIRY);
    own->shrink_every = or_default(own->shrink_every, ROTA_POOL_SHRINK_EVERY);
    rota_map_init(&p->by_node, options->seed);
    rota_map_init(&p->by_number, options->seed);
    rota_map_init(&p->by_waiter, options->seed);
    rota_list_init(&p->pools);
    rota_list_init(&p->opens);
    rota_list_init(&p->closes);
    rota_list_init(&p->tells);
    p->sweep_at = p->purge_at = ROTA_TIME_NEVER;
    *pools = p;
    return ROTA_OK;
}

static struct pool *find_pool(const struct rota_pool_fsm *pools, int64_t node)
{
    return rota_map_get(&pools->by_node, rota_str_of(&node, sizeof node));
}

static struct rota_str number_key(const uint64_t *number)
{
    return rota_str_of(number, sizeof *number);
}

/* --- connections --- */

/* The connection is no longer known; it is closed if it was ever started. */
static void drop_connection(struct rota_pool_fsm *pools, struct connection *connection,
                            bool is_closed)
{
    bool is_begun = !connection->todo.next;
    rota_map_remove(&pools->by_number, number_key(&connection->number));
    rota_list_remove(&connection->todo);
    connection->pool = NULL;
    if (is_begun && is_closed)
        rota_list_push(&pools->closes, &connection->todo);
    else
        free(connection);
}

/* Take the connection out of its pool's row. */
static void unlist_connection(struct connection *connection)
{
    struct pool *pool = connection->pool;
    for (uint32_t i = 0; i < pool->n_connections; i++)
        if (pool->connections[i] == connection) {
            pool->n_connections--;
            memmove(&pool->connections[i], &pool->connections[i + 1],
                    (pool->n_connections - i) * sizeof *pool->connections);
            break;
        }
    pool->n_calls -= connection->n_calls;
    connection->pool = NULL;
}

/* Do not hand it out again: it is closed when the last call has left. */
static void drain_connection(struct rota_pool_fsm *pools, struct connection *connection)
{
    unlist_connection(connection);
    if (connection->n_calls == 0)
        drop_connection(pools, connection, true);
}

static bool open_one(struct rota_pool_fsm *pools, struct pool *pool)
{
    struct connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return false;
    connection->number = pools->number + 1;
    connection->pool = pool;
    if (!rota_map_put(&pools->by_number, number_key(&connection->number), connection)) {
        free(connection);
        return false;
    }
    pools->number++;
    pool->connections[pool->n_connections++] = connection;
    rota_list_push(&pools->opens, &connection->todo);
    return true;
}

static void drain_all(struct rota_pool_fsm *pools, struct pool *pool)
{
    while (pool->n_connections > 0)
        drain_connection(pools, pool->connections[pool->n_connections - 1]);
    pool->state = ROTA_POOL_NEW;
}

static bool open_all(struct rota_pool_fsm *pools, struct pool *pool)
{
    pool->n_wanted = (uint32_t)pools->options.size;
    while (pool->n_connections < pool->n_wanted)
        if (!open_one(pools, pool)) {
            drain_all(pools, pool);
            return false;
        }
    pool->state = ROTA_POOL_OPENING;
    return true;
}

static uint32_t n_ready(const struct pool *pool)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < pool->n_connections; i++)
        n += pool->connections[i]->is_ready;
    return n;
}

/* The next open connection in turn; there is one. */
static struct connection *pick_connection(struct pool *pool)
{
    struct connection *connection;
    do {
        pool->turn = (pool->turn + 1) % pool->n_connections;
        connection = pool->connections[pool->turn];
    } while (!connection->is_ready);
    connection->n_calls++;
    pool->n_calls++;
    if (pool->n_calls > pool->n_calls_peak)
        pool->n_calls_peak = pool->n_calls;
    return connection;
}

/* Add a connection when the existing ones carry many calls, or some are missing; one at a time,
 * and not right after a failure. */
static void grow_pool(struct rota_pool_fsm *pools, struct pool *pool, rota_time now)
{
    if (n_ready(pool) < pool->n_connections || now < pool->redial_at)
        return;
    uint64_t n_carried = (uint64_t)pools->options.grow_at * pool->n_connections;
    if (pool->n_calls > n_carried && pool->n_wanted == pool->n_connections &&
        pool->n_wanted < pools->options.size_max)
        pool->n_wanted++;
    if (pool->n_connections < pool->n_wanted)
        open_one(pools, pool);
}

static void answer_waiters(struct rota_pool_fsm *pools, struct pool *pool)
{
    ROTA_LIST_DRAIN (waiter, &pool->waiters, struct waiter, link) {
        waiter->connection = pool->state == ROTA_POOL_READY ? pick_connection(pool)->number : 0;
        rota_list_remove(&waiter->link);
        rota_list_push(&pools->tells, &waiter->link);
    }
}

static void waiter_free(struct rota_pool_fsm *pools, struct waiter *waiter)
{
    rota_map_remove(&pools->by_waiter, number_key(&waiter->number));
    rota_list_remove(&waiter->link);
    free(waiter);
}

static enum rota_code add_waiter(struct rota_pool_fsm *pools, struct pool *pool, uint64_t number,
                                 struct rota_error *error)
{
    struct waiter *waiter = calloc(1, sizeof *waiter);
    if (!waiter)
        return rota_error_no_memory(error, "for the connections to node %lld",
                                    (long long)pool->node);
    waiter->number = number;
    waiter->node = pool->node;
    if (!rota_map_put(&pools->by_waiter, number_key(&waiter->number), waiter)) {
        free(waiter);
        return rota_error_no_memory(error, "for the connections to node %lld",
                                    (long long)pool->node);
    }
    rota_list_push(&pool->waiters, &waiter->link);
    return ROTA_OK;
}

/* --- pools --- */

static void remove_pool(struct rota_pool_fsm *pools, struct pool *pool)
{
    while (pool->n_connections > 0) {
        struct connection *connection = pool->connections[pool->n_connections - 1];
        unlist_connection(connection);
        drop_connection(pools, connection, true);
    }
    pool->state = ROTA_POOL_NEW;
    answer_waiters(pools, pool);
    rota_map_remove(&pools->by_node, rota_str_of(&pool->node, sizeof pool->node));
    rota_list_remove(&pool->link);
    free(pool);
    if (pools->by_node.size == 0)
        pools->sweep_at = pools->purge_at = ROTA_TIME_NEVER;
}

void rota_pool_fsm_close_all(struct rota_pool_fsm *pools)
{
    ROTA_LIST_DRAIN (pool, &pools->pools, struct pool, link)
        remove_pool(pools, pool);
    for (size_t place = 0; place < pools->by_number.capacity;) {
        struct connection *connection = pools->by_number.entries[place].value;
        if (connection)
            drop_connection(pools, connection,
                            true); /* which was still draining; the place is filled again */
        else
            place++;
    }
}

void rota_pool_fsm_free(struct rota_pool_fsm *pools)
{
    if (!pools)
        return;
    rota_pool_fsm_close_all(pools);
    assert(pools->by_number.size == 0);
    ROTA_LIST_DRAIN (waiter, &pools->tells, struct waiter, link)
        waiter_free(pools, waiter);
    ROTA_LIST_EACH (connection, &pools->closes, struct connection, todo)
        free(connection);
    rota_map_deinit(&pools->by_node);
    rota_map_deinit(&pools->by_number);
    rota_map_deinit(&pools->by_waiter);
    free(pools);
}

static struct pool *add_pool(struct rota_pool_fsm *pools, rota_time now, int64_t node)
{
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->node = node;
    pool->state = ROTA_POOL_NEW;
    pool->redial_at = ROTA_TIME_MIN;
    rota_list_init(&pool->waiters);
    if (!rota_map_put(&pools->by_node, rota_str_of(&pool->node, sizeof pool->node), pool)) {
        free(pool);
        return NULL;
    }
    rota_list_push(&pools->pools, &pool->link);
    if (pools->purge_at == ROTA_TIME_NEVER) {
        pools->purge_at = rota_time_add(now, pools->options.purge_every);
        pools->sweep_at = rota_time_add(now, pools->options.shrink_every);
    }
    return pool;
}

/* The node's pool at this address, opening at least. */
static enum rota_code ready_pool(struct rota_pool_fsm *pools, rota_time now, int64_t node,
                                 struct rota_str address, struct pool **found,
                                 struct rota_error *error)
{
    struct pool *pool = find_pool(pools, node);
    if (address.size == 0 || address.size > ROTA_POOL_ADDRESS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "pool of node %lld: its address has %zu bytes; 1 to %d are allowed",
                              (long long)node, address.size, ROTA_POOL_ADDRESS_MAX);
    if (!pool && pools->by_node.size == ROTA_POOL_NODES_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "more than %d nodes have a pool",
                              ROTA_POOL_NODES_MAX);
    if (!pool)
        pool = add_pool(pools, now, node);
    if (!pool)
        return rota_error_no_memory(error, "for the connections to node %lld", (long long)node);

    pool->active_at = now;
    if (!rota_str_is_equal(rota_str_of(pool->address, pool->address_size), address)) {
        drain_all(pools, pool); /* it returned under another address */
        answer_waiters(pools, pool);
        memcpy(pool->address, address.data, address.size);
        pool->address_size = address.size;
        pool->redial_at = ROTA_TIME_MIN;
    }
    if (pool->state == ROTA_POOL_NEW && !open_all(pools, pool))
        return rota_error_no_memory(error, "for the connections to node %lld", (long long)node);
    *found = pool;
    return ROTA_OK;
}

enum rota_code rota_pool_fsm_get(struct rota_pool_fsm *pools, rota_time now, int64_t node,
                                 struct rota_str address, uint64_t waiter, uint64_t *connection,
                                 struct rota_error *error)
{
    struct pool *pool;
    if (rota_map_get(&pools->by_waiter, number_key(&waiter)))
        return rota_error_set(error, ROTA_ERR_INVALID, "pools: waiter %llu is already waiting",
                              (unsigned long long)waiter);
    if (pools->by_waiter.size == ROTA_POOL_WAITERS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "pools: more than %d waiters",
                              ROTA_POOL_WAITERS_MAX);
    enum rota_code code = ready_pool(pools, now, node, address, &pool, error);
    if (code)
        return code;
    if (pool->state == ROTA_POOL_OPENING) {
        code = add_waiter(pools, pool, waiter, error);
        if (!code)
            *connection = 0;
        return code;
    }
    *connection = pick_connection(pool)->number;
    grow_pool(pools, pool, now);
    return ROTA_OK;
}

enum rota_code rota_pool_fsm_warm(struct rota_pool_fsm *pools, rota_time now, int64_t node,
                                  struct rota_str address, struct rota_error *error)
{
    struct pool *pool;
    return ready_pool(pools, now, node, address, &pool, error);
}

void rota_pool_fsm_release(struct rota_pool_fsm *pools, rota_time now, uint64_t number)
{
    struct connection *connection = rota_map_get(&pools->by_number, number_key(&number));
    if (!connection || connection->n_calls == 0)
        return;
    connection->n_calls--;
    if (connection->pool) {
        connection->pool->n_calls--;
        connection->pool->active_at = now;
    } else if (connection->n_calls == 0) {
        drop_connection(pools, connection, true);
    }
}

bool rota_pool_fsm_cancel(struct rota_pool_fsm *pools, uint64_t number)
{
    struct waiter *waiter = rota_map_get(&pools->by_waiter, number_key(&number));
    if (!waiter)
        return false;
    struct pool *pool = find_pool(pools, waiter->node);
    if (waiter->connection)
        rota_pool_fsm_release(pools, pool ? pool->active_at : 0, waiter->connection);
    waiter_free(pools, waiter);
    return true;
}

/* --- connections open and fail --- */

void rota_pool_fsm_opened(struct rota_pool_fsm *pools, rota_time now, uint64_t number)
{
    struct connection *connection = rota_map_get(&pools->by_number, number_key(&number));
    (void)now;
    if (!connection || connection->is_ready || connection->todo.next)
        return;
    connection->is_ready = true;
    struct pool *pool = connection->pool;
    if (pool && pool->state == ROTA_POOL_OPENING && n_ready(pool) == pool->n_connections) {
        pool->state = ROTA_POOL_READY;
        answer_waiters(pools, pool);
    }
}

void rota_pool_fsm_failed(struct rota_pool_fsm *pools, rota_time now, uint64_t number)
{
    struct connection *connection = rota_map_get(&pools->by_number, number_key(&number));
    if (!connection || connection->todo.next)
        return;
    struct pool *pool = connection->pool;
    bool was_ready = connection->is_ready;
    if (pool)
        unlist_connection(connection);
    drop_connection(pools, connection, false);
    if (!pool)
        return;
    if (pool->state == ROTA_POOL_OPENING || n_ready(pool) == 0) {
        drain_all(pools, pool);
        answer_waiters(pools, pool);
        return;
    }
    if (!was_ready)
        pool->redial_at = rota_time_add(now, ROTA_POOL_REDIAL_AFTER);
    grow_pool(pools, pool, now);
}

/* --- closing --- */

static bool has_expired(const struct rota_pool_fsm *pools, const struct pool *pool, rota_time now)
{
    return now > rota_time_add(pool->active_at, pools->options.expiry) && pool->n_calls == 0 &&
           rota_list_is_empty(&pool->waiters);
}

/* Close the connection with the fewest calls if the others could have carried the maximum since
 * the last check. */
static void shrink_pool(struct rota_pool_fsm *pools, struct pool *pool)
{
    uint64_t n_needed =
        ((uint64_t)pool->n_calls_peak + pools->options.grow_at - 1) / pools->options.grow_at;
    pool->n_calls_peak = pool->n_calls;
    if (pool->state != ROTA_POOL_READY || n_ready(pool) < pool->n_connections ||
        pool->n_connections <= pools->options.size_min || pool->n_connections <= n_needed)
        return;
    struct connection *least = pool->connections[0];
    for (uint32_t i = 1; i < pool->n_connections; i++)
        if (pool->connections[i]->n_calls < least->n_calls)
            least = pool->connections[i];
    drain_connection(pools, least);
    pool->n_wanted = pool->n_connections;
}

void rota_pool_fsm_step(struct rota_pool_fsm *pools, rota_time now, rota_pool_is_leader *is_leader,
                        void *data)
{
    bool is_swept = now >= pools->sweep_at, is_purged = now >= pools->purge_at;
    if (!is_swept && !is_purged)
        return;
    if (is_swept)
        pools->sweep_at = rota_time_add(now, pools->options.shrink_every);
    if (is_purged)
        pools->purge_at = rota_time_add(now, pools->options.purge_every);
    ROTA_LIST_EACH (pool, &pools->pools, struct pool, link) {
        if (is_purged && has_expired(pools, pool, now) && !is_leader(data, pool->node))
            remove_pool(pools, pool);
        else if (is_swept)
            shrink_pool(pools, pool);
    }
}

rota_time rota_pool_fsm_deadline(const struct rota_pool_fsm *pools)
{
    return rota_time_min(pools->sweep_at, pools->purge_at);
}

bool rota_pool_fsm_next(struct rota_pool_fsm *pools, struct rota_pool_action *action)
{
    struct waiter *waiter = ROTA_LIST_FIRST(&pools->tells, struct waiter, link);
    struct connection *open = ROTA_LIST_FIRST(&pools->opens, struct connection, todo), *closed;
    if (waiter) {
        *action = (struct rota_pool_action){.type = ROTA_POOL_TELL,
                                            .waiter = waiter->number,
                                            .node = waiter->node,
                                            .connection = waiter->connection};
        waiter_free(pools, waiter);
        return true;
    }
    if (open) {
        const struct pool *pool = open->pool;
        *action =
            (struct rota_pool_action){.type = ROTA_POOL_OPEN,
                                      .connection = open->number,
                                      .node = pool->node,
                                      .address = rota_str_of(pool->address, pool->address_size)};
        rota_list_remove(&open->todo);
        return true;
    }
    closed = ROTA_LIST_FIRST(&pools->closes, struct connection, todo);
    if (!closed)
        return false;
    *action = (struct rota_pool_action){.type = ROTA_POOL_CLOSE, .connection = closed->number};
    rota_list_remove(&closed->todo);
    free(closed);
    return true;
}

/* --- looking inside --- */

enum rota_pool_state rota_pool_fsm_state(const struct rota_pool_fsm *pools, int64_t node)
{
    const struct pool *pool = find_pool(pools, node);
    return pool ? pool->state : ROTA_POOL_NONE;
}

size_t rota_pool_fsm_n_pools(const struct rota_pool_fsm *pools)
{
    return pools->by_node.size;
}

size_t rota_pool_fsm_size(const struct rota_pool_fsm *pools, int64_t node)
{
    const struct pool *pool = find_pool(pools, node);
    return pool ? pool->n_connections : 0;
}

size_t rota_pool_fsm_n_connections(const struct rota_pool_fsm *pools)
{
    return pools->by_number.size;
}
