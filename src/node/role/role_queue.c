/* The role "queue": a broker of the cluster's queues. */
#include "node/node_inside.h"

#include "base/arena.h"
#include "base/metrics.h"
#include "io/clock.h"
#include "node/rules/node_memory.h"
#include "run/own/space_members.h"
#include "run/store/store_members.h"
#include "run/work/cluster/work_broker_settings.h"
#include "wire/message/nodes_message.h"

#include <rota/experimental/broker.h>
#include <stdio.h>
#include <stdlib.h>

enum { NEWS_PER_SECOND = 20 }; /* of jobs; more are counted */

struct queue_role {
    struct rota_node *node;
    rota_time news_second; /* the one that news are counted in */
    size_t n_news;
    struct rota_space_members *members; /* the broker's */
    struct rota_work_broker *broker;
    char directory[4200];
    char reach[300];
};

static void on_failed(void *data, const struct rota_error *error)
{
    struct queue_role *role = data;
    rota_log(role->node->log, rota_clock_wall(), ROTA_LOG_ERROR, "queues failed",
             ROTA_LOG_FACT("error", error->text));
    rota_node_step(role->node, ROTA_NODE_FAILED);
}

static void on_listed(void *data)
{
    struct queue_role *role = data;
    if (role->broker) /* it is open */
        rota_node_open_look_ready(role->node);
}

/* A row that is neither live nor draining or evicted was left by a node that died. */
static void hear_rows(void *data, const struct rota_store_answer *answer)
{
    struct queue_role *role = data;
    rota_time ahead = answer->db_now - rota_clock_wall();
    for (size_t i = 0; role->broker && i < answer->n_members; i++) {
        const struct rota_store_member *member = &answer->members[i];
        if (member->state == ROTA_STORE_MEMBER_IN &&
            !rota_store_member_is_listed(member, rota_str(""), answer->db_now))
            rota_work_broker_settings_was_alive(role->broker, member->address,
                                                member->heartbeat - ahead);
    }
}

/* Many jobs may die at once, and earlier events should stay visible. */
static void on_news(void *data, bool is_job, const char *about, const char *what)
{
    struct queue_role *role = data;
    rota_time second = rota_clock_wall() / ROTA_SEC;
    if (!is_job) {
        rota_node_note(role->node, ROTA_EVENT_QUEUE, rota_str(about), "%s", what);
        return;
    }
    if (second != role->news_second) {
        if (role->n_news > NEWS_PER_SECOND)
            rota_node_note(role->node, ROTA_EVENT_JOB, rota_str(role->node->advertise),
                           "has events of %zu more jobs", role->n_news - NEWS_PER_SECOND);
        role->news_second = second;
        role->n_news = 0;
    }
    if (++role->n_news <= NEWS_PER_SECOND)
        rota_node_note(role->node, ROTA_EVENT_JOB, rota_str(about), "%s", what);
}

static uint64_t view_number(void *data)
{
    return rota_space_members_number(((const struct queue_role *)data)->members);
}

static void hint_view(void *data)
{
    rota_space_members_hint(((struct queue_role *)data)->members);
}

static enum rota_code open_role(struct rota_node *node, void **role_data, struct rota_error *error)
{
    const struct rota_node_settings *settings = node->settings;
    struct queue_role *role = calloc(1, sizeof *role);
    if (!role)
        return rota_error_no_memory(error, "for queues");
    role->node = node;
    snprintf(role->directory, sizeof role->directory, "%s/jobs", settings->data);
    enum rota_code code = rota_space_members_new(&role->members, error);
    if (code) {
        free(role);
        return code;
    }
    struct rota_work_broker_options options = {
        .directory = settings->durability == ROTA_DURABILITY_JOURNAL ? role->directory : NULL,
        .store = settings->durability == ROTA_DURABILITY_STORE ? settings->store : NULL,
        .is_memory = settings->durability == ROTA_DURABILITY_MEMORY,
        .repair = settings->repair,
        .segment_size = (size_t)settings->segment,
        .workers_address = settings->workers[0] ? settings->workers : NULL,
        .workers_key_file = settings->workers_key,
        .workers_file = settings->workers_list,
        .is_insecure = settings->insecure,
        .token = node->secret,
        .members = rota_space_members_source(role->members),
        .advertise = node->advertise,
        .view = view_number,
        .on_later_view = hint_view,
        .drain_delists = true,
        .tls = node->peers_tls,
        .partitions = (uint32_t)settings->partitions,
        .settings_file = settings->queue_settings,
        .settings_store = node->store,
        .settings_interval = settings->ttl / 10,
        .bytes_max = (size_t)rota_node_memory_split((uint64_t)settings->memory).jobs,
        .on_failed = on_failed,
        .on_news = on_news,
        .on_listed = on_listed,
        .data = role,
        .log = node->log,
    };
    code = rota_work_broker_open(node->loop, node->server, &options, &role->broker, error);
    if (code) {
        free(role);
        return code;
    }
    if (settings->workers[0])
        snprintf(role->reach, sizeof role->reach, "zmq=%s",
                 rota_work_broker_workers_address(role->broker));
    node->queue_members = role->members;
    *role_data = role;
    return ROTA_OK;
}

static void refresh_members(void *data)
{
    rota_space_members_hint(((struct queue_role *)data)->members);
}

static bool is_ready(const void *data)
{
    return rota_work_broker_is_listed(((const struct queue_role *)data)->broker);
}

static void drain_queues(void *data)
{
    rota_work_broker_drain(((struct queue_role *)data)->broker);
}

static void restore_queues(void *data)
{
    rota_work_broker_restore(((struct queue_role *)data)->broker);
}

static bool is_idle(const void *data)
{
    return rota_work_broker_is_drained(((const struct queue_role *)data)->broker);
}

static void close_role(void *data)
{
    struct queue_role *role = data;
    role->node->queue_members = NULL;
    rota_work_broker_close(role->broker);
    free(role);
}

static void report_queues(const void *data, struct rota_arena *arena,
                          struct rota_nodes_report *report)
{
    struct rota_work_broker_counts counts =
        rota_work_broker_counts(((const struct queue_role *)data)->broker);
    struct rota_nodes_queue *queue = rota_arena_take(arena, sizeof *queue);
    if (queue)
        *queue = (struct rota_nodes_queue){.jobs = counts.jobs,
                                           .running = counts.running,
                                           .polls = counts.polls,
                                           .jobs_memory = counts.memory};
    report->queue = queue;
}

struct series {
    const char *name, *help;
    uint64_t value;
};

static void measure_queues(const void *data, struct rota_metrics *metrics)
{
    struct rota_work_broker_counts counts =
        rota_work_broker_counts(((const struct queue_role *)data)->broker);
    const struct series GAUGES[] = {
        {"rota_broker_jobs", "Jobs that have not ended.", counts.jobs},
        {"rota_broker_running", "Running jobs.", counts.running},
        {"rota_queues_waiting", "Waiting jobs of all queues on the node.", counts.waiting},
        {"rota_queues_dead", "Dead jobs of all queues on the node.", counts.dead},
        {"rota_broker_polls", "gRPC polls waiting for a job.", counts.polls},
        {"rota_broker_watchers", "Watches of jobs and queues.", counts.watchers},
        {"rota_broker_memory_bytes", "Memory of payloads and results.", counts.memory},
        {"rota_broker_remote", "Jobs of other nodes running on this node.", counts.remote},
        {"rota_broker_unreachable", "Unreachable nodes.", counts.unreachable},
    };
    const struct series COUNTERS[] = {
        {"rota_broker_records_total", "Journal records written.", counts.records_total},
        {"rota_broker_durable_total", "Journal records stored durably.", counts.durable_total},
        {"rota_broker_visits_total", "Steals: idle workers that took jobs of other nodes.",
         counts.visits_total},
        {"rota_broker_fetched_total", "Jobs of other nodes completed on this node.",
         counts.fetched_total},
        {"rota_broker_lent_total", "Jobs of this node completed on other nodes.",
         counts.lent_total},
        {"rota_broker_sends_refused_total", "Messages to workers dropped because a queue was full.",
         counts.sends_refused_total},
        {"rota_broker_dropped_total", "Messages to workers whose session had ended.",
         counts.dropped_total},
        {"rota_broker_malformed_total", "Malformed messages from workers.", counts.malformed_total},
        {"rota_broker_turned_away_total", "Rejected workers.", counts.turned_away_total},
        {"rota_broker_keys_refused_total", "Connections of workers with an unknown key.",
         counts.keys_refused_total},
    };
    for (size_t i = 0; i < sizeof GAUGES / sizeof GAUGES[0]; i++)
        rota_gauge_set(rota_metrics_gauge(metrics, GAUGES[i].name, GAUGES[i].help, NULL, 0),
                       (int64_t)GAUGES[i].value);
    for (size_t i = 0; i < sizeof COUNTERS / sizeof COUNTERS[0]; i++) {
        struct rota_counter *counter =
            rota_metrics_counter(metrics, COUNTERS[i].name, COUNTERS[i].help, NULL, 0);
        rota_counter_add(counter, COUNTERS[i].value - rota_counter_get(counter));
    }
}

static const char *reach_of_queues(const void *data)
{
    const struct queue_role *role = data;
    return role->reach[0] ? role->reach : NULL;
}

const struct rota_role rota_role_queue = {
    .name = "queue",
    .open = open_role,
    .is_ready = is_ready,
    .look = refresh_members,
    .hear_rows = hear_rows,
    .drain = drain_queues,
    .is_idle = is_idle,
    .restore = restore_queues,
    .close = close_role,
    .report = report_queues,
    .measure = measure_queues,
    .reach = reach_of_queues,
};
