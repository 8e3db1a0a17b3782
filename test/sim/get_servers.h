/* The servers of sim_get: two data centers of hosts that hold shards by lease.
 *
 * A table says who holds which shard of a dc, under which epoch; it is the truth.
 * A server believes for as long after its last renewal as the lease lasts, by its
 * own clock, checks each request against what it holds as it takes it up, and
 * answers when the work is done: which may be late, if it was stopped meanwhile. Now
 * and then it has no room for all values, and leaves some keys out.
 * A row whose holder has not renewed for longer goes to a host that may hold more. */
#pragma once

#include "sim/sim.h"

#include <rota/experimental/balancer.h>
#include <rota/experimental/interval.h>

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

#define ASSIGN_EVERY (50 * ROTA_MSEC)

enum message_type { REQUEST, RESPONSE, REFUSAL, CANCEL };

struct message {
    enum message_type type;
    bool is_ping, all_matched;
    uint32_t slot, n;
    uint32_t n_left;         /* of a response: keys that it leaves out, behind the entries */
    uint64_t serial, number; /* of the Get, of the request */
    struct rota_interval_claim claims[SHARDS_MAX];
    size_t n_claims;
    struct rota_cost cost;
    struct message_entry {
        uint64_t id, key; /* of a response: the value */
    } entries[REQUEST_KEYS_MAX];
};

/* Without the entries that are not there. */
struct rota_str message_bytes(const struct message *message);

struct job {
    struct message message; /* the request, then the response */
    rota_time came_at, began_at;
};

struct server {
    uint32_t dc;
    struct rota_interval_claim claims[SHARDS_MAX];
    rota_time believes_until[SHARDS_MAX]; /* in each of them, by its own clock */
    size_t n_claims;
    rota_time service; /* mean */
    bool is_confused;  /* it says that nothing matches */
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
    uint32_t n_each; /* shards that a host may hold */
    bool is_steady;  /* all work takes as long as the mean */
    bool leaves_out;
    uint64_t n_shards[N_DCS];
    struct row rows[N_DCS][SHARDS_MAX];
    struct server servers[N_NODES]; /* by node */
    uint64_t epoch;
};

/* Whether there is a value under the sharding key, and which. */
bool cluster_has(uint64_t key);
uint64_t cluster_value(uint64_t id, uint64_t key);

/* Rows that are free, or whose holder comes back, find a holder. */
void cluster_assign(struct cluster *cluster);
void server_renew(struct cluster *cluster, uint32_t node);
void server_start(struct cluster *cluster, uint32_t node);
void server_end(struct cluster *cluster, uint32_t node, uint32_t slot);
void server_take(struct cluster *cluster, uint32_t node, const struct message *request);
