#include "get_servers.h"

#include "core/call/get/interval_map.h"

#include <string.h>

#define LEASE_TTL   (150 * ROTA_MSEC)
#define LEASE_RENEW (50 * ROTA_MSEC)
#define LEASE_FREE  (200 * ROTA_MSEC) /* after the last renewal */

struct rota_str message_bytes(const struct message *message)
{
    return rota_str_of(message, offsetof(struct message, entries) +
                                    (message->n + message->n_left) * sizeof(struct message_entry));
}

bool cluster_has(uint64_t key)
{
    return key % 8 != 7;
}

uint64_t cluster_value(uint64_t id, uint64_t key)
{
    return id * 31 + key;
}

/* --- leases --- */

static void cluster_grant(struct cluster *cluster, uint32_t node, uint64_t shard)
{
    struct server *server = &cluster->servers[node];
    struct row *row = &cluster->rows[server->dc][shard];
    uint64_t of = cluster->n_shards[server->dc];
    *row = (struct row){node, ++cluster->epoch, of, rota_sim_now(cluster->sim)};
    server->claims[server->n_claims] =
        (struct rota_interval_claim){rota_interval_of(shard, of), row->epoch};
    server->believes_until[server->n_claims++] = rota_sim_mono(cluster->sim, node) + LEASE_TTL;
    rota_sim_note(cluster->sim, node, "holds shard %d of %d, epoch %d", (int)shard, (int)of,
                  (int)row->epoch);
}

static bool cluster_is_free(const struct cluster *cluster, uint32_t node, uint32_t dc)
{
    return cluster->servers[node].dc == dc && cluster->servers[node].n_claims < cluster->n_each &&
           rota_sim_is_up(cluster->sim, node) && !rota_sim_is_paused(cluster->sim, node);
}

static bool server_has(const struct server *server, uint64_t epoch)
{
    for (size_t i = 0; i < server->n_claims; i++)
        if (server->claims[i].epoch == epoch)
            return true;
    return false;
}

void cluster_assign(struct cluster *cluster)
{
    for (uint32_t dc = 0; dc < N_DCS; dc++)
        for (uint64_t shard = 0; shard < cluster->n_shards[dc]; shard++) {
            struct row *row = &cluster->rows[dc][shard];
            bool is_held = row->holder && server_has(&cluster->servers[row->holder], row->epoch);
            if (row->holder && !is_held && cluster_is_free(cluster, row->holder, dc)) {
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

static void server_stop(struct server *server, size_t claim)
{
    server->n_claims--;
    for (size_t i = claim; i < server->n_claims; i++) {
        server->claims[i] = server->claims[i + 1];
        server->believes_until[i] = server->believes_until[i + 1];
    }
}

void server_renew(struct cluster *cluster, uint32_t node)
{
    struct server *server = &cluster->servers[node];
    rota_time now = rota_sim_mono(cluster->sim, node);
    rota_sim_set_timer(cluster->sim, node, TIMER_RENEW, ROTA_SIM_MONO, now + LEASE_RENEW);
    for (size_t i = server->n_claims; i-- > 0;) {
        struct row *row = &cluster->rows[server->dc][server->claims[i].interval.from];
        if (row->holder != node || row->epoch != server->claims[i].epoch) {
            server_stop(server, i);
            continue;
        }
        row->renewed_at = rota_sim_now(cluster->sim);
        server->believes_until[i] = now + LEASE_TTL;
    }
}

/* --- requests --- */

void server_start(struct cluster *cluster, uint32_t node)
{
    struct server *server = &cluster->servers[node];
    uint32_t dc = (node - FIRST_SERVER) / N_HOSTS;
    server->dc = dc;
    server->n_claims = 0;
    server->first = server->n_queued = 0;
    for (size_t i = 0; i < SLOTS_MAX; i++)
        server->is_running[i] = false;
    server_renew(cluster, node);
}

/* What it will answer, by what it holds as it begins. */
static void server_check(struct cluster *cluster, uint32_t node, struct message *message)
{
    struct server *server = &cluster->servers[node];
    uint32_t n = 0;
    for (size_t i = server->n_claims; i-- > 0;)
        if (rota_sim_mono(cluster->sim, node) >= server->believes_until[i])
            server_stop(server, i);
    message->type = RESPONSE;
    message->all_matched = server->n_claims > 0;
    message->n_claims = server->n_claims;
    memcpy(message->claims, server->claims, sizeof message->claims);
    if (server->is_confused && message->n > 0)
        message->all_matched = false;
    for (uint32_t i = 0; i < message->n; i++)
        if (!rota_interval_find_claim(server->claims, server->n_claims, message->entries[i].key))
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

static void server_begin(struct cluster *cluster, uint32_t node)
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

void server_end(struct cluster *cluster, uint32_t node, uint32_t slot)
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
static void server_cancel(struct server *server, uint64_t number)
{
    size_t kept = 0;
    for (size_t i = 0; i < server->n_queued; i++) {
        struct job *job = &server->queue[(server->first + i) % QUEUE_MAX];
        if (job->message.number != number)
            server->queue[(server->first + kept++) % QUEUE_MAX] = *job;
    }
    server->n_queued = kept;
}

void server_take(struct cluster *cluster, uint32_t node, const struct message *request)
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
