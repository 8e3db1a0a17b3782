/* The role "queue": a broker of the cluster's queues. */
#include "node/node_inside.h"

#include "base/json.h"
#include "io/clock.h"

#include <rota/broker.h>
#include <stdio.h>
#include <stdlib.h>

struct queue_role {
    struct rota_node *node;
    struct rota_work_broker *broker;
    char directory[4200];
    char reach[300];
};

static void on_failed(void *data, const struct rota_error *error)
{
    struct queue_role *role = data;
    rota_log(role->node->log, rota_clock_wall(), ROTA_LOG_ERROR, "queues can't go on",
             ROTA_LOG_FACT("error", error->text));
    rota_node_step(role->node, ROTA_NODE_FAILED);
}

static enum rota_code open_role(struct rota_node *node, void **role_data, struct rota_error *error)
{
    const struct rota_node_settings *settings = node->settings;
    struct queue_role *role = calloc(1, sizeof *role);
    struct rota_members_source *members;
    if (!role)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for queues");
    role->node = node;
    snprintf(role->directory, sizeof role->directory, "%s/jobs", settings->data);
    enum rota_code code =
        rota_store_members_new(node->store, "queue", settings->ttl / 10, &members, error);
    if (code) {
        free(role);
        return code;
    }
    struct rota_work_broker_options options = {
        .directory = settings->durability == ROTA_NODE_DURABILITY_JOURNAL ? role->directory : NULL,
        .store = settings->durability == ROTA_NODE_DURABILITY_STORE ? settings->store : NULL,
        .is_memory = settings->durability == ROTA_NODE_DURABILITY_MEMORY,
        .workers_address = settings->workers,
        .workers_key_file = settings->workers_key,
        .workers_file = settings->workers_list,
        .is_insecure = settings->insecure,
        .members = members,
        .advertise = node->advertise,
        .partitions = (uint32_t)settings->partitions,
        .bytes_max = (size_t)settings->memory,
        .on_failed = on_failed,
        .data = role,
        .log = node->log,
    };
    code = rota_work_broker_open(node->loop, node->server, &options, &role->broker, error);
    if (code) {
        free(role);
        return code;
    }
    snprintf(role->reach, sizeof role->reach, "zmq=%s",
             rota_work_broker_workers_address(role->broker));
    *role_data = role;
    return ROTA_OK;
}

static void drain(void *data)
{
    rota_work_broker_drain(((struct queue_role *)data)->broker);
}

static void restore(void *data)
{
    rota_work_broker_restore(((struct queue_role *)data)->broker);
}

/* What waits is on disk, or has been handed over; what runs has to end. */
static bool is_idle(const void *data)
{
    return rota_work_broker_counts(((const struct queue_role *)data)->broker).running == 0;
}

static void close_role(void *data)
{
    struct queue_role *role = data;
    rota_work_broker_close(role->broker);
    free(role);
}

static void show(const void *data, struct rota_json *json)
{
    struct rota_work_broker_counts counts =
        rota_work_broker_counts(((const struct queue_role *)data)->broker);
    rota_json_key(json, "jobs");
    rota_json_uint(json, counts.jobs);
    rota_json_key(json, "running");
    rota_json_uint(json, counts.running);
    rota_json_key(json, "polls");
    rota_json_uint(json, counts.polls);
    rota_json_key(json, "jobs_memory");
    rota_json_uint(json, counts.memory);
}

static const char *reach(const void *data)
{
    return ((const struct queue_role *)data)->reach;
}

const struct rota_role rota_role_queue = {
    .name = "queue",
    .open = open_role,
    .drain = drain,
    .is_idle = is_idle,
    .restore = restore,
    .close = close_role,
    .show = show,
    .reach = reach,
};
