#include "cli/own/group_show.h"

#include "base/json.h"
#include "cli/terminal.h"

enum { EXPLAIN_MAX = 2048 };

static const struct rota_table_column COLUMNS[] = {
    {"GROUP", "group", ROTA_TABLE_NAME, false},
    {"EPOCH", "epoch", ROTA_TABLE_NUMBER, false},
    {"SYNC EPOCH", "sync_epoch", ROTA_TABLE_TEXT, true},
    {"GENERATION", "generation", ROTA_TABLE_NUMBER, true},
    {"LEADER", "leader", ROTA_TABLE_NAME, false},
    {"PARTITIONS", "partitions", ROTA_TABLE_NUMBER, false},
    {"UNFINISHED", "unfinished", ROTA_TABLE_NUMBER, false},
    {"WATERMARK", "watermark", ROTA_TABLE_NUMBER, false},
    {"LOG FIRST", "log.first", ROTA_TABLE_NUMBER, true},
    {"LOG NEXT", "log.next", ROTA_TABLE_NUMBER, true},
    {"LOG END", "log.end", ROTA_TABLE_NUMBER, false},
    {"SKIPPED", "log.skipped", ROTA_TABLE_NUMBER, false},
};
static const struct rota_table_column TASK_COLUMNS[] = {
    {"TASK", "task", ROTA_TABLE_NAME, false},
    {"LEADER", "is_leader", ROTA_TABLE_FLAG, false},
    {"PARTITIONS", "partitions", ROTA_TABLE_NUMBER, false},
    {"LOAD", "load", ROTA_TABLE_NUMBER, false},
    {"LAG", "lag", ROTA_TABLE_NUMBER, false},
    {"INCARNATION", "incarnation", ROTA_TABLE_NUMBER, true},
};
static const struct rota_table_column OFFER_COLUMNS[] = {
    {"OFFERED", "partition", ROTA_TABLE_NAME, false},
    {"TO", "target", ROTA_TABLE_NAME, false},
    {"BY", "sharer", ROTA_TABLE_NAME, false},
};
static const struct rota_table PARTS[] = {ROTA_TABLE_PART("tasks", "task", TASK_COLUMNS),
                                          ROTA_TABLE_PART("offers", "offer", OFFER_COLUMNS)};
const struct rota_table rota_group_show_sheet = ROTA_TABLE_SHEET(COLUMNS, PARTS, 2);

void rota_group_show_explain(struct rota_buffer *buffer, const struct rota_group *group,
                             const char *partition)
{
    char text[EXPLAIN_MAX];
    rota_terminal_append(buffer, rota_str(partition));
    rota_buffer_append_text(buffer, ": ");
    rota_terminal_append(
        buffer, rota_str(rota_group_explain(group, rota_str(partition), text, sizeof text)));
    rota_buffer_append_char(buffer, '\n');
}

/* --- JSON --- */

struct writer {
    struct rota_json json;
    struct rota_group_status status;
};

static bool write_task(void *data, const struct rota_group_task_status *task)
{
    struct writer *writer = data;
    struct rota_json *json = &writer->json;
    rota_json_begin_object(json);
    rota_json_add_string(json, "task", task->task);
    rota_json_add_uint(json, "incarnation", task->incarnation);
    rota_json_add_bool(json, "is_leader", task->is_leader);
    rota_json_add_uint(json, "partitions", task->owned);
    rota_json_add_uint(json, "load", task->load);
    rota_json_key(json, "lag");
    if (task->has_lag)
        rota_json_uint(json, task->lag);
    else
        rota_json_null(json);
    rota_json_end_object(json);
    return true;
}

static bool write_offer(void *data, const struct rota_group_partition_status *partition)
{
    struct writer *writer = data;
    struct rota_json *json = &writer->json;
    if (partition->target.size == 0)
        return true;
    rota_json_begin_object(json);
    rota_json_add_string(json, "partition", partition->partition);
    rota_json_add_string(json, "target", partition->target);
    rota_json_key(json, "sharer");
    if (partition->sharer.size > 0)
        rota_json_string(json, partition->sharer);
    else
        rota_json_null(json);
    rota_json_end_object(json);
    return true;
}

static void write_log(struct writer *writer)
{
    struct rota_json *json = &writer->json;
    rota_json_add_object(json, "log");
    rota_json_add_uint(json, "first", writer->status.first);
    rota_json_add_uint(json, "next", writer->status.next);
    rota_json_add_uint(json, "end", writer->status.end);
    rota_json_add_uint(json, "skipped", writer->status.n_skipped);
    rota_json_end_object(json);
}

static void write_numbers(struct writer *writer)
{
    struct rota_json *json = &writer->json;
    const struct rota_group_status *status = &writer->status;
    rota_json_add_uint(json, "epoch", status->epoch);
    rota_json_add_string(json, "sync_epoch", rota_str(status->sync_epoch));
    rota_json_add_uint(json, "generation", status->generation);
    rota_json_key(json, "leader");
    if (status->leader.size > 0)
        rota_json_string(json, status->leader);
    else
        rota_json_null(json);
    rota_json_add_uint(json, "partitions", status->n_partitions);
    rota_json_add_uint(json, "unfinished", status->n_unfinished);
    rota_json_key(json, "watermark");
    if (status->has_watermark)
        rota_json_int(json, status->watermark);
    else
        rota_json_null(json);
}

void rota_group_show_json(struct rota_buffer *buffer, const struct rota_group *group,
                          const char *name, const char *explain)
{
    struct writer writer = {.json = {.buffer = buffer}};
    char text[EXPLAIN_MAX];
    rota_group_status(group, &writer.status);
    rota_json_begin_object(&writer.json);
    rota_json_add_string(&writer.json, "group", rota_str(name));
    write_numbers(&writer);
    write_log(&writer);
    rota_json_add_array(&writer.json, "tasks");
    rota_group_each_task(group, write_task, &writer);
    rota_json_end_array(&writer.json);
    rota_json_add_array(&writer.json, "offers");
    rota_group_each_partition(group, write_offer, &writer);
    rota_json_end_array(&writer.json);
    if (explain) {
        rota_json_add_string(&writer.json, "partition", rota_str(explain));
        rota_json_add_text(&writer.json, "explanation",
                           rota_group_explain(group, rota_str(explain), text, sizeof text));
    }
    rota_json_end_object(&writer.json);
    rota_buffer_append_char(buffer, '\n');
}
