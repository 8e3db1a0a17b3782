/* The servers of sim_get: two data centres of hosts that hold shards by lease.
 *
 * A table says who holds which shard of a dc, under which epoch; it is the truth.
 * A server believes for as long after its last renewal as the lease lasts, by its
 * own clock, checks each request against what it holds as it takes it up, and
 * answers when the work is done: which may be late, if it was stopped meanwhile. Now
 * and then it has no room for all values, and leaves some keys out.
 * A row whose holder has not renewed for longer goes to a host that is free. */
#pragma once

#include "sim/sim.h"

#include <rota/balancer.h>
#include <rota/interval.h>

enum {
    FIRST_SERVER = 1,
    N_DCS = 2,
    N_HOSTS = 8, /* of a dc */
    N_SERVERS = N_DCS * N_HOSTS,
    N_NODES = FIRST_SERVER + N_SERVERS,
    SHARDS_MAX = 8,
    REQUEST_KEYS_MAX = 16,
    QUEUE_MAX = 256,
    SLOTS_MAX = 4,
    TIMER_RENEW = SLOTS_MAX,
};

#define LEASE_TTL    (150 * ROTA_MSEC)
#define LEASE_RENEW  (50 * ROTA_MSEC)
#define LEASE_FREE   (200 * ROTA_MSEC) /* after the last renewal */
#define ASSIGN_EVERY (50 * ROTA_MSEC)

enum message_type { REQUEST, RESPONSE, REFUSAL, CANCEL };

struct message {
    enum message_type type;
    bool is_ping, has_shard, all_matched;
    uint32_t slot, n;
    uint32_t n_left;         /* of a response: keys that it leaves out, behind the entries */
    uint64_t serial, number; /* of the Get, of the request */
    struct rota_interval shard;
    uint64_t epoch;
    struct rota_cost cost;
    struct message_entry {
        uint64_t id, key; /* of a response: the value */
    } entries[REQUEST_KEYS_MAX];
};

/* Without the entries that are not there. */
static inline struct rota_str message_bytes(const struct message *message)
{
    return rota_str_of(message, offsetof(struct message, entries) +
                                    (message->n + message->n_left) * sizeof(struct message_entry));
}

struct job {
    struct message message; /* the request, then the response */
    rota_time came_at, began_at;
};

struct server {
    uint32_t dc;
    bool has_shard;
    struct rota_interval shard;
    uint64_t epoch;
    rota_time believes_until; /* by its own clock */
    rota_time service;        /* mean */
    bool is_confused;         /* it says that nothing matches */
    struct job queue[QUEUE_MAX];
    size_t first, n_queued;
    struct job running[SLOTS_MAX];
    bool is_running[SLOTS_MAX];
};

struct row {
    uint32_t holder; /* a node, 0: nobody yet */
    uint64_t epoch;
    uint64_t of;
    rota_time renewed_at; /* true time */
};

struct cluster {
    struct rota_sim *sim;
    struct rota_random random;
    uint32_t n_slots;
    bool is_steady; /* all work takes as long as the mean */
    bool leaves_out;
    uint64_t n_shards[N_DCS];
    struct row rows[N_DCS][SHARDS_MAX];
    struct server servers[N_NODES]; /* by node */
    uint64_t epoch;
};

/* Whether there is a value under the sharding key, and which. */
static inline bool cluster_has(uint64_t key)
{
    return key % 8 != 7;
}

static inline uint64_t cluster_value(uint64_t id, uint64_t key)
{
    return id * 31 + key;
}

/* --- leases --- */

static inline void cluster_grant(struct cluster *cluster, uint32_t node, uint64_t shard)
{
    struct server *server = &cluster->servers[node];
    struct row *row = &cluster->rows[server->dc][shard];
    uint64_t of = cluster->n_shards[server->dc];
    *row = (struct row){node, ++cluster->epoch, of, rota_sim_now(cluster->sim)};
    server->has_shard = true;
    server->shard = rota_interval_of(shard, of);
    server->epoch = row->epoch;
    server->believes_until = rota_sim_mono(cluster->sim, node) + LEASE_TTL;
    rota_sim_note(cluster->sim, node, "holds shard %d of %d, epoch %d", (int)shard, (int)of,
                  (int)row->epoch);
}

static inline bool cluster_is_free(const struct cluster *cluster, uint32_t node, uint32_t dc)
{
    return cluster->servers[node].dc == dc && !cluster->servers[node].has_shard &&
           rota_sim_is_up(cluster->sim, node) && !rota_sim_is_paused(cluster->sim, node);
}

/* Rows that are free, or whose holder comes back, find a holder. */
static inline void cluster_assign(struct cluster *cluster)
{
    for (uint32_t dc = 0; dc < N_DCS; dc++)
        for (uint64_t shard = 0; shard < cluster->n_shards[dc]; shard++) {
            struct row *row = &cluster->rows[dc][shard];
            if (row->holder && cluster_is_free(cluster, row->holder, dc)) {
                cluster_grant(cluster, row->holder, shard);
                continue;
            }
            if (row->holder && rota_sim_now(cluster->sim) < row->renewed_at + LEASE_FREE)
                continue;
            for (uint32_t node = FIRST_SERVER; node < N_NODES; node++)
                if (cluster_is_free(cluster, node, dc)) {
                    cluster_grant(cluster, node, shard);
                    break;
                }
        }
}

static inline void server_stop(struct server *server)
{
    server->has_shard = false;
}

static inline void server_renew(struct cluster *cluster, uint32_t node)
{
    struct server *server = &cluster->servers[node];
    rota_time now = rota_sim_mono(cluster->sim, node);
    rota_sim_set_timer(cluster->sim, node, TIMER_RENEW, ROTA_SIM_MONO, now + LEASE_RENEW);
    if (!server->has_shard)
        return;
    struct row *row = &cluster->rows[server->dc][server->shard.from];
    if (row->holder != node || row->epoch != server->epoch) {
        server_stop(server);
        return;
    }
    row->renewed_at = rota_sim_now(cluster->sim);
    server->believes_until = now + LEASE_TTL;
}

/* --- requests --- */

static inline void server_start(struct cluster *cluster, uint32_t node)
{
    struct server *server = &cluster->servers[node];
    uint32_t dc = (node - FIRST_SERVER) / N_HOSTS;
    server->dc = dc;
    server->has_shard = false;
    server->first = server->n_queued = 0;
    for (size_t i = 0; i < SLOTS_MAX; i++)
        server->is_running[i] = false;
    server_renew(cluster, node);
}

/* What it will answer, by what it holds as it begins. */
static inline void server_check(struct cluster *cluster, uint32_t node, struct message *message)
{
    struct server *server = &cluster->servers[node];
    uint32_t n = 0;
    if (server->has_shard && rota_sim_mono(cluster->sim, node) >= server->believes_until)
        server_stop(server);
    message->type = RESPONSE;
    message->has_shard = message->all_matched = server->has_shard;
    message->shard = server->shard;
    message->epoch = server->epoch;
    if (server->is_confused && message->n > 0)
        message->all_matched = false;
    for (uint32_t i = 0; i < message->n; i++)
        if (!rota_interval_has(&server->shard, message->entries[i].key))
            message->all_matched = false;
    if (message->all_matched && message->n > 1 && cluster->leaves_out &&
        rota_random_chance(&cluster->random, 0.1))
        message->n_left = 1 + (uint32_t)rota_random_below(&cluster->random, message->n - 1);
    for (uint32_t i = 0; i < message->n - message->n_left && message->all_matched; i++) {
        struct message_entry entry = message->entries[i];
        if (cluster_has(entry.key))
            message->entries[n++] =
                (struct message_entry){entry.id, cluster_value(entry.id, entry.key)};
    }
    memmove(&message->entries[n], &message->entries[message->n - message->n_left],
            message->n_left * sizeof *message->entries);
    message->n = n;
}

static inline void server_begin(struct cluster *cluster, uint32_t node)
{
    struct server *server = &cluster->servers[node];
    rota_time now = rota_sim_mono(cluster->sim, node);
    for (uint32_t i = 0; i < cluster->n_slots && server->n_queued > 0; i++) {
        if (server->is_running[i])
            continue;
        struct job *job = &server->running[i];
        *job = server->queue[server->first];
        server->first = (server->first + 1) % QUEUE_MAX;
        server->n_queued--;
        job->began_at = now;
        server->is_running[i] = true;
        server_check(cluster, node, &job->message);
        rota_time span = cluster->is_steady
                             ? server->service
                             : rota_sim_exponential(&cluster->random, server->service);
        rota_sim_set_timer(cluster->sim, node, i, ROTA_SIM_MONO, now + span);
    }
}

static inline void server_end(struct cluster *cluster, uint32_t node, uint32_t slot)
{
    struct server *server = &cluster->servers[node];
    struct job *job = &server->running[slot];
    rota_time now = rota_sim_mono(cluster->sim, node);
    job->message.cost = (struct rota_cost){
        .response_us = (now - job->came_at) / ROTA_USEC,
        .service_us = (now - job->began_at) / ROTA_USEC,
        .waiting = (int64_t)server->n_queued,
    };
    rota_sim_send(cluster->sim, node, 0, message_bytes(&job->message));
    server->is_running[slot] = false;
    server_begin(cluster, node);
}

/* A request that is cancelled while it waits is not begun; one that runs ends. */
static inline void server_cancel(struct server *server, uint64_t number)
{
    size_t kept = 0;
    for (size_t i = 0; i < server->n_queued; i++) {
        struct job *job = &server->queue[(server->first + i) % QUEUE_MAX];
        if (job->message.number != number)
            server->queue[(server->first + kept++) % QUEUE_MAX] = *job;
    }
    server->n_queued = kept;
}

static inline void server_take(struct cluster *cluster, uint32_t node,
                               const struct message *request)
{
    struct server *server = &cluster->servers[node];
    if (request->type == CANCEL) {
        server_cancel(server, request->number);
        return;
    }
    struct job job = {.message = *request, .came_at = rota_sim_mono(cluster->sim, node)};
    if (request->is_ping) { /* needs no work */
        server_check(cluster, node, &job.message);
        rota_sim_send(cluster->sim, node, 0, message_bytes(&job.message));
    } else if (server->n_queued == QUEUE_MAX) {
        struct message refusal = {.type = REFUSAL,
                                  .slot = request->slot,
                                  .serial = request->serial,
                                  .number = request->number};
        rota_sim_send(cluster->sim, node, 0, message_bytes(&refusal));
    } else {
        server->queue[(server->first + server->n_queued++) % QUEUE_MAX] = job;
        server_begin(cluster, node);
    }
}
