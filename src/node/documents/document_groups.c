/* The groups that this node watches. */
#include "node/documents/document.h"

#include "node/node_inside.h"
#include "node/role/role_group.h"

static void add_watermark(const struct rota_group_status *status, struct rota_json *json)
{
    rota_json_key(json, "watermark");
    if (status->has_watermark)
        rota_json_int(json, status->watermark);
    else
        rota_json_null(json);
}

/* --- all groups --- */

static void add_group(const struct rota_watched_group *watched, struct rota_json *json)
{
    struct rota_group_status status = {.log = ""};
    const char *trouble = watched->trouble[0] ? watched->trouble : NULL;
    if (watched->group) {
        rota_group_status(watched->group, &status);
        trouble = trouble ? trouble : status.trouble;
    }
    rota_json_begin_object(json);
    rota_json_add_string(json, "name", rota_str(watched->name));
    rota_json_add_string(json, "log", rota_str(status.log));
    rota_json_add_uint(json, "epoch", status.epoch);
    rota_json_add_uint(json, "n_tasks", status.n_tasks);
    rota_json_add_uint(json, "n_partitions", status.n_partitions);
    rota_json_add_uint(json, "n_unfinished", status.n_unfinished);
    add_watermark(&status, json);
    rota_json_key(json, "why_away");
    if (trouble)
        rota_json_text(json, trouble);
    else
        rota_json_null(json);
    rota_json_end_object(json);
}

void rota_document_groups_write(struct rota_node *node, struct rota_json *json)
{
    const struct rota_watched_group *watched;
    rota_json_begin_object(json);
    rota_json_add_array(json, "groups");
    for (size_t i = 0; (watched = rota_role_group_at(node, i)); i++)
        add_group(watched, json);
    rota_json_end_array(json);
    rota_json_end_object(json);
}

/* --- one group --- */

static bool add_task(void *data, const struct rota_group_task_status *task)
{
    struct rota_json *json = data;
    rota_json_begin_object(json);
    rota_json_add_string(json, "name", task->task);
    rota_json_add_uint(json, "incarnation", task->incarnation);
    rota_json_add_uint(json, "n_partitions", task->owned);
    rota_json_add_uint(json, "load", task->load);
    rota_json_add_bool(json, "is_leader", task->is_leader);
    rota_json_end_object(json);
    return true;
}

static void add_moment(struct rota_json *json, const char *key, rota_time at)
{
    rota_json_key(json, key);
    if (at)
        rota_json_int(json, at / ROTA_MSEC);
    else
        rota_json_null(json);
}

static void add_partition(const struct rota_watched_partition *partition, struct rota_json *json)
{
    const char *parent = partition->parents;
    rota_json_begin_object(json);
    rota_json_add_string(json, "name", rota_str(partition->name));
    rota_json_add_array(json, "parents");
    for (size_t i = 0; i < partition->n_parents; i++, parent += strlen(parent) + 1)
        rota_json_text(json, parent);
    rota_json_end_array(json);
    rota_json_add_string(json, "state", rota_str(partition->state));
    rota_json_add_string(json, "owner", rota_str(partition->owner ? partition->owner : ""));
    rota_json_add_uint(json, "token", partition->token);
    rota_json_add_int(json, "mark", partition->mark);
    rota_json_add_string(json, "position",
                         rota_str(partition->position ? partition->position : ""));
    add_moment(json, "started_ms", partition->started_at);
    add_moment(json, "ended_ms", partition->ended_at);
    rota_json_end_object(json);
}

void rota_document_groups_write_one(const struct rota_watched_group *watched,
                                    struct rota_json *json)
{
    struct rota_group_status status = {0};
    if (watched->group)
        rota_group_status(watched->group, &status);
    rota_json_begin_object(json);
    rota_json_add_string(json, "name", rota_str(watched->name));
    rota_json_add_uint(json, "epoch", status.epoch);
    add_watermark(&status, json);
    rota_json_add_array(json, "tasks");
    if (watched->group)
        rota_group_each_task(watched->group, add_task, json);
    rota_json_end_array(json);
    rota_json_add_array(json, "partitions");
    for (size_t i = 0; i < watched->partitions.size; i++)
        add_partition(watched->partitions.items[i], json);
    rota_json_end_array(json);
    rota_json_add_uint(json, "n_left_out", watched->n_left_out);
    rota_json_end_object(json);
}
