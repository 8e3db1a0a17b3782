#include "node/change/node_moves.h"

#include "io/clock.h"
#include "node/documents/node_queues.h"
#include "node/documents/node_report.h"
#include "node/node_inside.h"
#include "run/work/cluster/work_broker_cluster.h"

#include <rota/ring.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTITIONS_MAX = 65536, NAMED_MAX = 8, SAMPLES = 1 << 16 };

/* A node that is alive. */
struct rota_node_moves_host {
    struct rota_str address, zone, name; /* the name as people read it */
    uint32_t weight;
    bool is_before, is_after; /* it gets work */
    bool has_queues;
};

/* --- sentences --- */

static void report_moves(struct rota_node_moves *moves, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void report_moves(struct rota_node_moves *moves, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    struct rota_str kept = rota_arena_copy(&moves->arena, rota_str(text));
    if (kept.size > 0 && moves->n < ROTA_NODES_PLAN_MAX)
        moves->plan[moves->n++] = kept;
}

static struct rota_str name_of(const struct rota_node_moves *moves, struct rota_str address)
{
    size_t i = 0;
    while (!rota_str_is_equal(moves->hosts[i].address, address))
        i++;
    return moves->hosts[i].name;
}

/* "3 to a:1, 2 to b:1"; more than a few are counted. */
static void name_targets(const struct rota_node_moves *moves, const struct rota_ring *ring,
                         const uint32_t *counts, uint32_t total, bool is_share, char *text,
                         size_t size)
{
    size_t at = 0, n_named = 0, n_more = 0;
    for (uint32_t i = 0; i < rota_ring_size(ring); i++) {
        if (counts[i] == 0)
            continue;
        if (n_named == NAMED_MAX) {
            n_more++;
            continue;
        }
        struct rota_str name = name_of(moves, rota_ring_host(ring, i).address);
        const char *comma = n_named++ > 0 ? ", " : "";
        int n = is_share ? snprintf(text + at, size - at, "%s%.1f %% to %.*s", comma,
                                    100.0 * counts[i] / total, ROTA_STR_ARGS(name))
                         : snprintf(text + at, size - at, "%s%u to %.*s", comma, counts[i],
                                    ROTA_STR_ARGS(name));
        if (n < 0 || (at += (size_t)n) >= size)
            return;
    }
    if (n_more > 0)
        snprintf(text + at, size - at, ", and some to %zu more nodes", n_more);
}

/* --- before and after --- */

/* The ring of the nodes that get work. NULL: there is no memory. */
static struct rota_ring *ring_of(const struct rota_node_moves *moves, bool is_after,
                                 bool is_of_queues)
{
    struct rota_ring *ring = NULL;
    struct rota_ring_host *hosts = calloc(moves->n_hosts + 1, sizeof *hosts);
    size_t n = 0;
    for (size_t i = 0; hosts && i < moves->n_hosts; i++) {
        const struct rota_node_moves_host *host = &moves->hosts[i];
        if ((is_after ? host->is_after : host->is_before) && (host->has_queues || !is_of_queues))
            hosts[n++] = (struct rota_ring_host){
                .address = host->address, .zone = host->zone, .weight = host->weight};
    }
    if (hosts)
        rota_ring_new(hosts, n, 0, &ring, NULL);
    free(hosts);
    return ring;
}

/* Count what moves, by its receiver; returns the total. */
static uint32_t count_moves(const struct rota_ring *before, const struct rota_ring *after,
                            const uint32_t *from, const uint32_t *to, uint32_t n, uint32_t *counts)
{
    uint32_t n_moved = 0;
    memset(counts, 0, rota_ring_size(after) * sizeof *counts);
    for (uint32_t i = 0; i < n; i++) {
        if (to[i] == ROTA_RING_NONE)
            continue;
        bool is_same =
            from[i] != ROTA_RING_NONE && rota_str_is_equal(rota_ring_host(before, from[i]).address,
                                                           rota_ring_host(after, to[i]).address);
        if (!is_same) {
            counts[to[i]]++;
            n_moved++;
        }
    }
    return n_moved;
}

struct rings {
    struct rota_node_moves *moves;
    struct rota_ring *before, *after;
    uint32_t *counts, *from, *to;
    uint32_t n_left; /* partitions that may still be compared */
};

static void tell_ring(struct rota_node_moves *moves, struct rings *rings)
{
    char targets[700] = "";
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint32_t hash = (uint32_t)(((uint64_t)i << 32) / SAMPLES);
        rings->from[i] = rota_ring_lookup_hash(rings->before, hash);
        rings->to[i] = rota_ring_lookup_hash(rings->after, hash);
    }
    uint32_t n =
        count_moves(rings->before, rings->after, rings->from, rings->to, SAMPLES, rings->counts);
    if (n == 0)
        return;
    name_targets(moves, rings->after, rings->counts, SAMPLES, true, targets, sizeof targets);
    report_moves(moves, "about %.1f %% of the ring moves: %s", 100.0 * n / SAMPLES, targets);
}

static enum rota_code tell_queue(void *data, const struct rota_node_queue *queue,
                                 struct rota_error *error)
{
    struct rings *rings = data;
    struct rota_node_moves *moves = rings->moves;
    const struct rota_work_layout *layout = &queue->layout;
    const rota_time now = rota_clock_wall();
    char targets[700] = "";
    if (layout->read > rings->n_left || moves->n == ROTA_NODES_PLAN_MAX - 1) {
        report_moves(moves, "queues from %.*s on have too many partitions to list what moves",
                     ROTA_STR_ARGS(queue->name));
        return rota_error_set(error, ROTA_ERR_LIMIT, "too many partitions");
    }
    rings->n_left -= layout->read;
    for (uint32_t i = 0; i < layout->read; i++)
        rings->from[i] = rings->to[i] = ROTA_RING_NONE;
    if (rota_ring_size(rings->before) > 0)
        rota_layout_route(layout, rings->before, queue->name, now, layout->read, rings->from);
    if (rota_ring_size(rings->after) > 0)
        rota_layout_route(layout, rings->after, queue->name, now, layout->read, rings->to);
    uint32_t n = count_moves(rings->before, rings->after, rings->from, rings->to, layout->read,
                             rings->counts);
    if (n == 0)
        return ROTA_OK;
    name_targets(moves, rings->after, rings->counts, layout->read, false, targets, sizeof targets);
    report_moves(moves, "queue %.*s: %u of its %u partitions move: %s", ROTA_STR_ARGS(queue->name),
                 n, layout->read, targets);
    return ROTA_OK;
}

static void tell_moves(struct rota_node_moves *moves, bool is_of_queues)
{
    struct rings rings = {.moves = moves,
                          .before = ring_of(moves, false, is_of_queues),
                          .after = ring_of(moves, true, is_of_queues),
                          .from = calloc(PARTITIONS_MAX, sizeof(uint32_t)),
                          .to = calloc(PARTITIONS_MAX, sizeof(uint32_t)),
                          .n_left = ROTA_NODE_MOVES_PARTITIONS_MAX};
    if (rings.after)
        rings.counts = calloc(rota_ring_size(rings.after) + 1, sizeof(uint32_t));
    if (rings.before && rings.counts && rings.from && rings.to) {
        if (is_of_queues)
            rota_node_queues_each(moves->queues, tell_queue, &rings, NULL);
        else if (rota_ring_size(rings.after) == 0)
            report_moves(moves, "no other node can take over its work: no node would serve it");
        else
            tell_ring(moves, &rings);
    }
    rota_ring_unref(rings.before);
    rota_ring_unref(rings.after);
    free(rings.counts);
    free(rings.from);
    free(rings.to);
}

void rota_node_moves_work_out(struct rota_node_moves *moves)
{
    if (!moves->is_needed)
        return;
    tell_moves(moves, false);
    tell_moves(moves, true);
}

/* --- the node itself --- */

static void tell_held(struct rota_node_moves *moves, const struct rota_node *node,
                      const struct rota_peer *peer, bool is_drain)
{
    struct rota_arena arena = {0};
    struct rota_nodes_report own;
    const struct rota_nodes_report *report = rota_node_report_of(node, peer, &arena, &own);
    const struct rota_nodes_node *held = report->node;
    const struct rota_nodes_queue *queue = report->queue;
    if (queue && queue->jobs > 0)
        report_moves(moves, "it has %llu jobs, of which %llu are running: %s",
                     (unsigned long long)queue->jobs, (unsigned long long)queue->running,
                     is_drain ? "those finish there, the others move with their partitions"
                              : "they stay on its disk and wait until it is undrained");
    if (held && held->shards > 0)
        report_moves(moves, "it has %llu shards: other nodes take them over%s",
                     (unsigned long long)held->shards, is_drain ? "" : " when its leases expire");
    rota_arena_deinit(&arena);
}

static void tell_change(struct rota_node_moves *moves, const struct rota_peer *peer,
                        enum rota_store_member_state state)
{
    bool is_alive = rota_peer_is_alive(peer);
    switch (state) {
    case ROTA_STORE_MEMBER_IN:
        report_moves(moves, "%s gets work again%s", rota_peer_name(peer),
                     is_alive ? "" : " when it is back; it is dead now");
        break;
    case ROTA_STORE_MEMBER_DRAINING:
        report_moves(moves,
                     is_alive ? "%s hands over its work and gets nothing new"
                              : "%s is dead now; it gets no work when it restarts",
                     rota_peer_name(peer));
        break;
    case ROTA_STORE_MEMBER_EVICTED:
        report_moves(moves,
                     "%s is marked as dead, regardless of its heartbeats, until it is undrained",
                     rota_peer_name(peer));
        break;
    }
}

/* --- life --- */

static bool add_host(struct rota_node_moves *moves, const struct rota_peer *peer,
                     enum rota_store_member_state after)
{
    struct rota_node_moves_host *host = &moves->hosts[moves->n_hosts++];
    *host = (struct rota_node_moves_host){
        .address = rota_arena_copy(&moves->arena, rota_str(peer->address)),
        .zone = rota_arena_copy(&moves->arena, rota_str(peer->zone)),
        .name = rota_arena_copy(&moves->arena, rota_str(rota_peer_name(peer))),
        .weight = peer->weight,
        .is_before = peer->state == ROTA_STORE_MEMBER_IN,
        .is_after = after == ROTA_STORE_MEMBER_IN,
        .has_queues = rota_peer_has_role(peer, "queue")};
    return host->address.data && host->zone.data && host->name.data;
}

static bool copy_hosts(struct rota_node_moves *moves, const struct rota_peers *peers,
                       const struct rota_peer *changed, enum rota_store_member_state state)
{
    size_t n_peers = rota_peers_n(peers);
    bool is_well = true;
    moves->hosts = rota_arena_take(&moves->arena, (n_peers + 1) * sizeof *moves->hosts);
    if (!moves->hosts)
        return false;
    for (size_t i = 0; is_well && i < n_peers; i++) {
        const struct rota_peer *peer = rota_peers_at(peers, i);
        if (rota_peer_is_alive(peer))
            is_well = add_host(moves, peer, peer == changed ? state : peer->state);
    }
    return is_well;
}

bool rota_node_moves_init(struct rota_node_moves *moves, const struct rota_node *node,
                          const struct rota_peer *peer, enum rota_store_member_state state,
                          struct rota_str queues)
{
    *moves = (struct rota_node_moves){0};
    moves->plan = rota_arena_take(&moves->arena, ROTA_NODES_PLAN_MAX * sizeof *moves->plan);
    if (!moves->plan)
        return false;
    if (peer->state == state) {
        static const char *const ALREADY[] = {"is already serving", "is already drained",
                                              "is already evicted"};
        report_moves(moves, "%s %s: nothing changes", rota_peer_name(peer), ALREADY[state]);
        return true;
    }
    tell_change(moves, peer, state);
    moves->is_needed = rota_peer_is_alive(peer);
    if (!moves->is_needed)
        return true;
    if (state != ROTA_STORE_MEMBER_IN)
        tell_held(moves, node, peer, state == ROTA_STORE_MEMBER_DRAINING);
    moves->queues = rota_arena_copy(&moves->arena, queues);
    return moves->queues.data && copy_hosts(moves, node->peers, peer, state);
}

void rota_node_moves_deinit(struct rota_node_moves *moves)
{
    rota_arena_deinit(&moves->arena);
}
