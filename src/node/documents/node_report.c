#include "node/documents/node_report.h"

#include "node/documents/peers.h"
#include "node/node_inside.h"
#include "node/role/role_cache.h"
#include "run/call/space_directory.h"
#include "wire/message/message_json.h"

#include <string.h>
#include <sys/resource.h>

/* --- the node --- */

static uint64_t cpu_ms(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
    return (uint64_t)((usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
                      (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000);
}

static struct rota_nodes_node *report_node(const struct rota_node *node, struct rota_arena *arena)
{
    struct rota_server_counts counts = rota_server_counts(node->server);
    struct rota_nodes_node *report = rota_arena_take(arena, sizeof *report);
    size_t memory;
    if (!report)
        return NULL;
    *report = (struct rota_nodes_node){
        .http = rota_str(rota_http_address(node->http)),
        .started_ms = (uint64_t)(node->started_at / ROTA_MSEC),
        .cpu_ms = cpu_ms(),
        .memory = uv_resident_set_memory(&memory) == 0 ? memory : 0,
        .calls = counts.calls,
        .calls_total = counts.calls_total,
        .shards = node->n_shards,
        .collections = rota_space_directory_n_spaces(node->space_directory),
        .watchers = rota_space_directory_n_watchers(node->space_directory),
    };
    return report;
}

/* --- its calls to the replicas of each collection --- */

static bool add_latencies(const struct rota_get_view *view, struct rota_arena *arena,
                          struct rota_nodes_calls *calls)
{
    struct rota_nodes_latency *latencies =
        rota_arena_take(arena, ROTA_BALANCER_LATENCIES * sizeof *latencies);
    if (!latencies)
        return false;
    for (size_t i = 0; i < ROTA_BALANCER_LATENCIES; i++)
        if (view->latencies[i] > 0)
            latencies[calls->latencies.n++] = (struct rota_nodes_latency){i, view->latencies[i]};
    calls->latencies.items = latencies;
    return true;
}

static bool report_replica(const char *collection, const struct rota_get_view *view,
                           struct rota_arena *arena, struct rota_nodes_calls *calls)
{
    struct rota_nodes_replica *replica = rota_arena_take(arena, sizeof *replica);
    *calls = (struct rota_nodes_calls){.replica = replica};
    if (!replica || !add_latencies(view, arena, calls))
        return false;
    *replica = (struct rota_nodes_replica){
        .collection = rota_str(collection),
        .replica = rota_arena_copy(arena, view->address),
        .zone = rota_arena_copy(arena, view->dc),
        .n_shards = view->n_shards,
        .is_connected = view->is_connected,
        .n_calls = view->n_calls,
        .n_failed = view->n_failed,
        .n_cancelled = view->n_cancelled,
        .n_hedged = view->n_hedges,
        .n_hedges_won = view->n_hedges_won,
        .in_flight = view->n_running,
        .score = view->score,
        .circuit = rota_str(rota_circuit_name(view->circuit)),
    };
    return true;
}

/* The next replica of any collection; others are on standby. */
static const struct rota_node_cache *next_replica(const struct rota_node *node, size_t *collection,
                                                  size_t *place, struct rota_get_view *view)
{
    const struct rota_node_cache *cache;
    const struct rota_get *get;
    for (; (cache = rota_role_cache_at(node, *collection, &get)); (*collection)++, *place = 0)
        while (rota_get_next_host(get, place, view))
            if (view->n_shards > 0 || view->n_calls > 0)
                return cache;
    return NULL;
}

static void report_calls(const struct rota_node *node, struct rota_arena *arena,
                         struct rota_nodes_report *report)
{
    struct rota_get_view view;
    const struct rota_node_cache *cache;
    size_t n = 0, collection = 0, place = 0;
    while (n < ROTA_NODES_CALLS_MAX && next_replica(node, &collection, &place, &view))
        n++;
    struct rota_nodes_calls *calls = n > 0 ? rota_arena_take(arena, n * sizeof *calls) : NULL;
    collection = place = 0;
    for (size_t i = 0; calls && i < n; i++) {
        cache = next_replica(node, &collection, &place, &view);
        if (!report_replica(cache->name, &view, arena, &calls[i]))
            break;
        report->calls = (struct rota_message_list){calls, i + 1};
    }
}

/* --- all of it --- */

void rota_node_report_make(const struct rota_node *node, bool with_calls, struct rota_arena *arena,
                           struct rota_nodes_report *report)
{
    *report = (struct rota_nodes_report){
        .state = rota_str(rota_node_fsm_state_name(node->fsm.state)),
        .node = report_node(node, arena),
        .life = (uint64_t)(node->started_at / ROTA_MSEC),
    };
    for (size_t i = 0; i < node->n_roles; i++)
        node->roles[i].role->report(node->roles[i].data, arena, report);
    if (with_calls)
        report_calls(node, arena, report);
}

void rota_node_report_add_events(const struct rota_node *node, const struct rota_nodes_ask *known,
                                 struct rota_arena *arena, struct rota_nodes_report *report)
{
    uint64_t after = known->life == report->life ? known->events_after : 0;
    struct rota_nodes_event *events =
        rota_arena_take(arena, ROTA_NODES_EVENTS_MAX * sizeof *events);
    const struct rota_event *event;
    size_t n = 0;
    while (events && n < ROTA_NODES_EVENTS_MAX &&
           (event = rota_events_next(&node->events, after))) {
        after = event->number;
        if (event->node[0])
            continue;
        events[n++] = (struct rota_nodes_event){
            .number = event->number,
            .at_ms = (uint64_t)(event->at / ROTA_MSEC),
            .kind = rota_str(rota_event_kind_name(event->kind)),
            .subject = rota_str(event->subject),
            .text = rota_str(event->text),
        };
    }
    report->events = (struct rota_message_list){events, n};
}

const struct rota_nodes_report *rota_node_report_of(const struct rota_node *node,
                                                    const struct rota_peer *peer,
                                                    struct rota_arena *arena,
                                                    struct rota_nodes_report *own)
{
    if (!peer->is_self)
        return &peer->report;
    rota_node_report_make(node, false, arena, own);
    return own;
}

void rota_node_report_write(const struct rota_nodes_report *report, struct rota_json *json)
{
    const struct {
        const struct rota_message_type *type;
        const void *part;
    } PARTS[] = {{&ROTA_NODES_NODE, report->node},
                 {&ROTA_NODES_QUEUE, report->queue},
                 {&ROTA_NODES_CACHE, report->cache},
                 {&ROTA_NODES_GROUP, report->group}};
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++)
        if (PARTS[i].part)
            rota_message_json_write_members(PARTS[i].type, PARTS[i].part, json);
}
