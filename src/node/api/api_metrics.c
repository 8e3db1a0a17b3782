/* The metrics of a node, for Prometheus.
 *
 * What is counted as it happens (calls, requests) is in the registry already; everything else is
 * measured on request: the process, its disk, the store, members, this node's part of the queues,
 * spaces. So only values that someone reads are measured. */
#include "node/api/api.h"

#include "base/metrics.h"
#include "node/api/api_stream.h"
#include "node/documents/peers.h"
#include "node/documents/topics.h"
#include "run/work/cluster/work_broker_cluster.h"
#include "wire/message/queue_message.h"
#include "wire/text/json_rows.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#define ASK_TIMEOUT (2 * ROTA_SEC)

/* --- series --- */

static void set_gauge(struct rota_metrics *metrics, const char *name, const char *help,
                      int64_t value)
{
    rota_gauge_set(rota_metrics_gauge(metrics, name, help, NULL, 0), value);
}

/* A counter of another module: ours follows it, and never goes back. */
static void follow_counter(struct rota_counter *counter, uint64_t value)
{
    uint64_t known = rota_counter_get(counter);
    if (value > known)
        rota_counter_add(counter, value - known);
}

static void set_counter(struct rota_metrics *metrics, const char *name, const char *help,
                        uint64_t value)
{
    follow_counter(rota_metrics_counter(metrics, name, help, NULL, 0), value);
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
    return n > 3 ? n - 3 : 0; /* ".", "..", and the one that is open */
}

static void measure_process(const struct rota_node *node)
{
    struct rota_metrics *metrics = node->metrics;
    struct rusage usage;
    struct rlimit limit;
    size_t memory;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        set_counter(metrics, "rota_node_cpu_milliseconds_total", "CPU time used.",
                    (uint64_t)((usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
                               (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000));
    if (uv_resident_set_memory(&memory) == 0)
        set_gauge(metrics, "rota_node_memory_bytes", "Memory in use.", (int64_t)memory);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        set_gauge(metrics, "rota_node_files_max", "Maximum number of open files.",
                  (int64_t)limit.rlim_cur);
    set_gauge(metrics, "rota_node_files", "Open files.", (int64_t)n_open_files());
    set_gauge(metrics, "rota_server_held_bytes",
              "Bytes of unanswered gRPC requests and unread replies.",
              (int64_t)rota_server_counts(node->server).held);
    set_gauge(metrics, "rota_node_started_seconds", "Start time, in seconds since 1970.",
              node->started_at / ROTA_SEC);
}

static void measure_disk(const struct rota_node *node)
{
    struct statvfs disk;
    if (statvfs(node->settings->data, &disk))
        return;
    set_gauge(node->metrics, "rota_node_disk_free_bytes",
              "Disk space available to the node in its data directory.",
              (int64_t)(disk.f_bavail * disk.f_frsize));
    set_gauge(node->metrics, "rota_node_disk_bytes", "Size of the disk of the data directory.",
              (int64_t)(disk.f_blocks * disk.f_frsize));
}

static void measure_state(const struct rota_node *node)
{
    const struct rota_label about[] = {{"node_name", rota_str(rota_node_naming_name(node))},
                                       {"address", rota_str(node->advertise)}};
    if (node->is_named)
        rota_gauge_set(rota_metrics_gauge(node->metrics, "rota_node_info",
                                          "1, with the node's name and address.", about, 2),
                       1);
    for (int i = ROTA_NODE_STARTING; i <= ROTA_NODE_ENDED; i++) {
        struct rota_label label = {"state",
                                   rota_str(rota_node_fsm_state_name((enum rota_node_state)i))};
        rota_gauge_set(rota_metrics_gauge(node->metrics, "rota_node_state",
                                          "1 for the node's current state.", &label, 1),
                       (int)node->fsm.state == i);
    }
    set_gauge(node->metrics, "rota_store_up", "1 if the store is reachable.",
              rota_store_is_up(node->store));
    set_gauge(node->metrics, "rota_node_shards", "Shards that the node owns, of all spaces.",
              (int64_t)node->n_shards);
    set_gauge(node->metrics, "rota_http_streams", "Clients of the event stream.",
              (int64_t)rota_api_stream_n_clients(node->streams));
    set_counter(node->metrics, "rota_events_total", "Events known to the node.", node->events.n);
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

/* Members without a heartbeat for an hour are forgotten. */
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
        rota_gauge_set(rota_metrics_gauge(
                           node->metrics, "rota_members",
                           "Nodes in the store, by state; dead nodes stay for an hour.", &label, 1),
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
    {"rota_queue_added_total", "Jobs added.", OF(added_total)},
    {"rota_queue_done_total", "Jobs completed.", OF(done_total)},
    {"rota_queue_dead_total", "Jobs moved to the dead-letter state.", OF(dead_total)},
    {"rota_queue_retries_total", "Failed attempts that were retried.", OF(retries_total)},
    {"rota_queue_quarantined_total", "Jobs quarantined because they killed too many workers.",
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
        rota_gauge_set(rota_metrics_gauge(metrics, "rota_queue_jobs", "Jobs on the node, by state.",
                                          labels, 2),
                       (int64_t)number_of(info, &STATES[i]));
    }
    for (size_t i = 0; i < sizeof TOTALS / sizeof TOTALS[0]; i++)
        follow_counter(rota_metrics_counter(metrics, TOTALS[i].name, TOTALS[i].help, labels, 1),
                       number_of(info, &TOTALS[i]));
    rota_time oldest = (rota_time)info->oldest_ms * ROTA_MSEC;
    rota_gauge_set(rota_metrics_gauge(metrics, "rota_queue_oldest_seconds",
                                      "Age of the oldest runnable job.", labels, 1),
                   info->oldest_ms > 0 && now > oldest ? (now - oldest) / ROTA_SEC : 0);
    rota_gauge_set(
        rota_metrics_gauge(metrics, "rota_queue_paused", "1 while the queue is paused.", labels, 1),
        info->is_paused);
}

static bool is_among(const struct rota_queue_info *infos, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (rota_str_is_equal(infos[i].name, rota_str(name)))
            return true;
    return false;
}

/* The first queues by name have series; those of others are removed. */
static void measure_queues(struct rota_node *node, const struct rota_queue_info *infos, size_t n)
{
    rota_time now = rota_clock_wall();
    for (size_t i = 0; i < node->n_measured; i++)
        if (!is_among(infos, n, node->measured[i]))
            rota_metrics_forget(node->metrics,
                                &(struct rota_label){"queue", rota_str(node->measured[i])});
    node->n_measured = n < ROTA_NODE_MEASURED_MAX ? n : ROTA_NODE_MEASURED_MAX;
    for (size_t i = 0; i < node->n_measured; i++) {
        snprintf(node->measured[i], sizeof node->measured[i], "%.*s", ROTA_STR_ARGS(infos[i].name));
        measure_queue(node->metrics, &infos[i], now);
    }
}

/* --- spaces --- */

static uint64_t parse_number(struct rota_str cell)
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
    static const char *const HELPS[] = {NULL, "Shards of a space.", "Shards with an owner.",
                                        "Shards that are moving."};
    struct rota_rows rows = {0};
    uint64_t unowned = 0;
    if (document.size > 0)
        rota_json_rows_read(document, "spaces", FIELDS, 4, &rows, NULL);
    for (size_t i = 0; i < rows.n_rows; i++) {
        struct rota_label label = {"space", rota_rows_cell(&rows, i, 0)};
        uint64_t shards = parse_number(rota_rows_cell(&rows, i, 1));
        uint64_t owned = parse_number(rota_rows_cell(&rows, i, 2));
        unowned += shards > owned ? shards - owned : 0;
        for (size_t k = 1; k < 4; k++)
            rota_gauge_set(rota_metrics_gauge(node->metrics, NAMES[k], HELPS[k], &label, 1),
                           (int64_t)parse_number(rota_rows_cell(&rows, i, k)));
    }
    set_gauge(node->metrics, "rota_spaces_unowned", "Shards without an owner, of all spaces.",
              (int64_t)unowned);
    rota_json_rows_deinit(&rows);
}

/* --- one after the other --- */

static void answer_metrics(struct rota_api_call *call)
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
        rota_api_refuse(call, 503, "not enough memory for the metrics");
    free(text);
}

static void on_members(void *data, const struct rota_store_answer *members)
{
    struct rota_api_call *call = data;
    if (!members->code)
        measure_members(call->node, members);
    answer_metrics(call);
}

static void on_spaces(void *data, const struct rota_error *error, struct rota_str json)
{
    struct rota_api_call *call = data;
    const struct rota_store_request request = {.verb = ROTA_STORE_MEMBERS};
    if (!error)
        measure_spaces(call->node, json);
    if (!rota_store_is_up(call->node->store) ||
        rota_store_ask(call->node->store, &request, on_members, call, NULL))
        answer_metrics(call);
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

/* This node's part of the queues: a call that is marked as coming from a node is not forwarded. */
void rota_api_metrics(struct rota_api_call *call)
{
    const struct rota_metadata alone = {rota_str(ROTA_NOTE_HOPS), rota_str("1")};
    const struct rota_queue_page page = {.max_queues = ROTA_NODE_MEASURED_MAX};
    struct rota_buffer request = {0};
    rota_message_encode(&ROTA_QUEUE_PAGE, &page, &request);
    struct rota_call_options options = {.method = rota_str("/rota.v1.Queue/Queues"),
                                        .request = rota_buffer_str(&request),
                                        .metadata = &alone,
                                        .n_metadata = 1,
                                        .timeout = ASK_TIMEOUT,
                                        .on_end = on_queues,
                                        .data = call};
    if (request.failed || rota_channel_call(call->node->self, &options, NULL, NULL))
        ask_spaces(call);
    rota_buffer_deinit(&request);
}
