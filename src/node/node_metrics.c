/* What a node measures, for Prometheus.
 *
 * What is counted as it happens (calls, requests) is in the registry already; all else is looked
 * at when somebody asks: the process, its disk, the store, members, this node's part of the
 * queues, spaces. So nothing is measured that nobody reads. */
#include "node/api.h"

#include "base/metrics.h"
#include "node/peers.h"
#include "node/stream.h"
#include "node/topics.h"
#include "run/broker_cluster.h"
#include "wire/json_rows.h"
#include "wire/queue_message.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#define ASK_TIMEOUT (2 * ROTA_SEC)

/* --- series --- */

static void set(struct rota_metrics *metrics, const char *name, const char *help, int64_t value)
{
    rota_gauge_set(rota_metrics_gauge(metrics, name, help, NULL, 0), value);
}

/* What another counts: ours follows it, and never goes back. */
static void follow(struct rota_counter *counter, uint64_t value)
{
    uint64_t known = rota_counter_get(counter);
    if (value > known)
        rota_counter_add(counter, value - known);
}

static void count(struct rota_metrics *metrics, const char *name, const char *help, uint64_t value)
{
    follow(rota_metrics_counter(metrics, name, help, NULL, 0), value);
}

/* --- the process --- */

static size_t n_open_files(void)
{
    DIR *directory = opendir("/proc/self/fd");
    size_t n = 0;
    while (directory && readdir(directory))
        n++;
    if (directory)
        closedir(directory);
    return n > 3 ? n - 3 : 0; /* ".", "..", and the one that looks */
}

static void measure_process(const struct rota_node *node)
{
    struct rota_metrics *metrics = node->metrics;
    struct rusage usage;
    struct rlimit limit;
    size_t memory;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        count(metrics, "rota_node_cpu_milliseconds_total", "Processor time that the node has used.",
              (uint64_t)((usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
                         (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000));
    if (uv_resident_set_memory(&memory) == 0)
        set(metrics, "rota_node_memory_bytes", "Memory that the node has.", (int64_t)memory);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        set(metrics, "rota_node_files_max", "Files that it may have open.",
            (int64_t)limit.rlim_cur);
    set(metrics, "rota_node_files", "Files that it has open.", (int64_t)n_open_files());
    set(metrics, "rota_server_held_bytes",
        "Bytes of requests over gRPC that are not answered and of replies that are not read.",
        (int64_t)rota_server_counts(node->server).held);
    set(metrics, "rota_node_started_seconds", "When it was started, since 1970.",
        node->started_at / ROTA_SEC);
}

static void measure_disk(const struct rota_node *node)
{
    struct statvfs disk;
    if (statvfs(node->settings->data, &disk))
        return;
    set(node->metrics, "rota_node_disk_free_bytes",
        "Room on the disk of the data directory that the node may use.",
        (int64_t)(disk.f_bavail * disk.f_frsize));
    set(node->metrics, "rota_node_disk_bytes", "Size of the disk of the data directory.",
        (int64_t)(disk.f_blocks * disk.f_frsize));
}

static void measure_state(const struct rota_node *node)
{
    for (int i = ROTA_NODE_STARTING; i <= ROTA_NODE_ENDED; i++) {
        struct rota_label label = {"state",
                                   rota_str(rota_node_state_name((enum rota_node_state)i))};
        rota_gauge_set(rota_metrics_gauge(node->metrics, "rota_node_state",
                                          "1 for the state that the node is in.", &label, 1),
                       (int)node->fsm.state == i);
    }
    set(node->metrics, "rota_store_up", "1 when the store can be reached.",
        rota_store_is_up(node->store));
    set(node->metrics, "rota_node_shards", "Shards of all spaces that the node has.",
        (int64_t)node->n_shards);
    set(node->metrics, "rota_http_streams", "Pages and programs that listen to the stream.",
        (int64_t)rota_streams_n_clients(node->streams));
    count(node->metrics, "rota_events_total", "Events that the node knows of.", node->events.n);
    for (size_t i = 0; i < node->n_roles; i++)
        if (node->roles[i].role->measure)
            node->roles[i].role->measure(node->roles[i].data, node->metrics);
}

/* --- members --- */

enum fate { PLACED, DRAINING, EVICTED, DEAD, FATES };

static enum fate fate_of(const struct rota_store_member *row, rota_time db_now)
{
    if (row->state == ROTA_STORE_MEMBER_EVICTED)
        return EVICTED;
    if (rota_time_add(row->heartbeat, row->ttl) < db_now)
        return DEAD;
    return row->state == ROTA_STORE_MEMBER_DRAINING ? DRAINING : PLACED;
}

/* Those that were not heard of for an hour are forgotten. */
static void measure_members(const struct rota_node *node, const struct rota_store_answer *answer)
{
    static const char *const NAMES[FATES] = {"in", "draining", "evicted", "dead"};
    int64_t counts[FATES] = {0};
    for (size_t i = 0; i < answer->n_members; i++)
        if (answer->db_now - answer->members[i].heartbeat <= ROTA_PEERS_DEAD &&
            rota_peers_is_node(&answer->members[i]))
            counts[fate_of(&answer->members[i], answer->db_now)]++;
    for (int i = 0; i < FATES; i++) {
        struct rota_label label = {"state", rota_str(NAMES[i])};
        rota_gauge_set(rota_metrics_gauge(node->metrics, "rota_members",
                                          "Nodes in the store, by their state; dead ones for an "
                                          "hour.",
                                          &label, 1),
                       counts[i]);
    }
}

/* --- queues --- */

struct gauge {
    const char *name, *help;
    size_t offset; /* of the number in struct rota_queue_info */
};

#define OF(member) offsetof(struct rota_queue_info, member)

static const struct gauge STATES[] = {
    {"waiting", NULL, OF(n_waiting)}, {"delayed", NULL, OF(n_delayed)},
    {"running", NULL, OF(n_running)}, {"done", NULL, OF(n_done)},
    {"dead", NULL, OF(n_dead)},       {"cancelled", NULL, OF(n_cancelled)},
};

static const struct gauge TOTALS[] = {
    {"rota_queue_added_total", "Jobs that were added.", OF(added_total)},
    {"rota_queue_done_total", "Jobs that were done.", OF(done_total)},
    {"rota_queue_dead_total", "Jobs that died.", OF(dead_total)},
    {"rota_queue_retries_total", "Attempts that failed and were made again.", OF(retries_total)},
    {"rota_queue_quarantined_total", "Jobs that died because they killed too many workers.",
     OF(quarantined_total)},
};

static uint64_t number_of(const struct rota_queue_info *info, const struct gauge *gauge)
{
    return *(const uint64_t *)((const char *)info + gauge->offset);
}

static void measure_queue(struct rota_metrics *metrics, const struct rota_queue_info *info,
                          rota_time now)
{
    struct rota_label labels[] = {{"queue", info->name}, {"state", rota_str("")}};
    for (size_t i = 0; i < sizeof STATES / sizeof STATES[0]; i++) {
        labels[1].value = rota_str(STATES[i].name);
        rota_gauge_set(rota_metrics_gauge(metrics, "rota_queue_jobs",
                                          "Jobs that the node has, by their state.", labels, 2),
                       (int64_t)number_of(info, &STATES[i]));
    }
    for (size_t i = 0; i < sizeof TOTALS / sizeof TOTALS[0]; i++)
        follow(rota_metrics_counter(metrics, TOTALS[i].name, TOTALS[i].help, labels, 1),
               number_of(info, &TOTALS[i]));
    rota_time oldest = (rota_time)info->oldest_ms * ROTA_MSEC;
    rota_gauge_set(rota_metrics_gauge(metrics, "rota_queue_oldest_seconds",
                                      "How long the oldest job that could run has waited.", labels,
                                      1),
                   info->oldest_ms > 0 && now > oldest ? (now - oldest) / ROTA_SEC : 0);
    rota_gauge_set(
        rota_metrics_gauge(metrics, "rota_queue_paused", "1 while it is paused.", labels, 1),
        info->is_paused);
}

static bool is_among(const struct rota_queue_info *infos, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (rota_str_is_equal(infos[i].name, rota_str(name)))
            return true;
    return false;
}

/* A queue that went to other nodes has no jobs here any more. */
static void measure_queues(struct rota_node *node, const struct rota_queue_info *infos, size_t n)
{
    rota_time now = rota_clock_wall();
    int64_t waiting = 0, dead = 0;
    for (size_t i = 0; i < node->n_measured; i++)
        if (!is_among(infos, n, node->measured[i]))
            measure_queue(node->metrics,
                          &(struct rota_queue_info){.name = rota_str(node->measured[i])}, now);
    for (size_t i = 0; i < n; i++) {
        char name[ROTA_NODE_MEASURED_NAME];
        waiting += (int64_t)infos[i].n_waiting;
        dead += (int64_t)infos[i].n_dead;
        snprintf(name, sizeof name, "%.*s", ROTA_STR_ARGS(infos[i].name));
        bool is_known = false;
        for (size_t k = 0; k < node->n_measured && !is_known; k++)
            is_known = strcmp(node->measured[k], name) == 0;
        if (!is_known && node->n_measured < ROTA_NODE_MEASURED_MAX)
            memcpy(node->measured[node->n_measured++], name, sizeof name);
        else if (!is_known)
            continue;
        measure_queue(node->metrics, &infos[i], now);
    }
    set(node->metrics, "rota_queues_waiting", "Jobs of all queues that wait at the node.", waiting);
    set(node->metrics, "rota_queues_dead", "Jobs of all queues that are dead at the node.", dead);
}

/* --- spaces --- */

static uint64_t number(struct rota_str cell)
{
    char text[24];
    snprintf(text, sizeof text, "%.*s", (int)(cell.size < 20 ? cell.size : 20), cell.data);
    return strtoull(text, NULL, 10);
}

static void measure_spaces(struct rota_node *node, struct rota_str document)
{
    static const char *const FIELDS[] = {"name", "n_shards", "n_owned", "n_moving"};
    static const char *const NAMES[] = {NULL, "rota_space_shards", "rota_space_owned",
                                        "rota_space_moving"};
    static const char *const HELPS[] = {NULL, "Shards of a space.", "Shards that have an owner.",
                                        "Shards on their way."};
    struct rota_rows rows = {0};
    uint64_t unowned = 0;
    if (document.size > 0)
        rota_rows_read(document, "spaces", FIELDS, 4, &rows, NULL);
    for (size_t i = 0; i < rows.n_rows; i++) {
        struct rota_label label = {"space", rota_rows_cell(&rows, i, 0)};
        uint64_t shards = number(rota_rows_cell(&rows, i, 1));
        uint64_t owned = number(rota_rows_cell(&rows, i, 2));
        unowned += shards > owned ? shards - owned : 0;
        for (size_t k = 1; k < 4; k++)
            rota_gauge_set(rota_metrics_gauge(node->metrics, NAMES[k], HELPS[k], &label, 1),
                           (int64_t)number(rota_rows_cell(&rows, i, k)));
    }
    set(node->metrics, "rota_spaces_unowned", "Shards of all spaces that have no owner.",
        (int64_t)unowned);
    rota_rows_deinit(&rows);
}

/* --- one after the other --- */

static void answer(struct rota_api_call *call)
{
    size_t size;
    measure_process(call->node);
    measure_disk(call->node);
    measure_state(call->node);
    char *text = rota_metrics_text(call->node->metrics, &size);
    if (text)
        rota_api_answer(call, 200, "text/plain; version=0.0.4; charset=utf-8",
                        rota_str_of(text, size));
    else
        rota_api_refuse(call, 503, "there is no memory for the metrics");
    free(text);
}

static void on_members(void *data, const struct rota_store_answer *members)
{
    struct rota_api_call *call = data;
    if (!members->code)
        measure_members(call->node, members);
    answer(call);
}

static void on_spaces(void *data, const struct rota_error *error, struct rota_str json)
{
    struct rota_api_call *call = data;
    const struct rota_store_request request = {.verb = ROTA_STORE_MEMBERS};
    if (!error)
        measure_spaces(call->node, json);
    if (!rota_store_is_up(call->node->store) ||
        rota_store_ask(call->node->store, &request, on_members, call, NULL))
        answer(call);
}

static void ask_spaces(struct rota_api_call *call)
{
    const struct rota_topic *spaces = rota_topic_find(rota_str("spaces"));
    if (spaces)
        rota_topic_ask(call->node, spaces, on_spaces, call);
    else
        on_spaces(call, NULL, rota_str(""));
}

static void on_queues(void *data, struct rota_call *made, const struct rota_call_result *result)
{
    struct rota_api_call *call = data;
    struct rota_queue_list list;
    (void)made;
    if (result->status == ROTA_STATUS_OK &&
        !rota_message_decode(&ROTA_QUEUE_QUEUES_REPLY, result->message, &list, &call->arena, NULL))
        measure_queues(call->node, list.items.items, list.items.n);
    ask_spaces(call);
}

/* This node's part of the queues: a call that says it comes from a node is not carried on. */
void rota_api_metrics(struct rota_api_call *call)
{
    const struct rota_metadata alone = {rota_str(ROTA_NOTE_HOPS), rota_str("1")};
    struct rota_call_options options = {.method = rota_str("/rota.v1.Queue/Queues"),
                                        .metadata = &alone,
                                        .n_metadata = 1,
                                        .timeout = ASK_TIMEOUT,
                                        .on_end = on_queues,
                                        .data = call};
    if (rota_channel_call(call->node->self, &options, NULL, NULL))
        ask_spaces(call);
}
