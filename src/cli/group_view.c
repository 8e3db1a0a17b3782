#include "cli/group_view.h"

#include "base/json.h"
#include "cli/terminal.h"

enum { EXPLAIN_MAX = 2048, NAME_COLUMNS_MAX = 40 };

/* --- for people --- */

struct table {
    struct rota_buffer *buffer;
    struct rota_group_status status;
    int width; /* of the names */
};

static bool measure(void *data, const struct rota_group_task_status *task)
{
    struct table *table = data;
    int columns = rota_terminal_columns(task->task);
    if (columns > table->width)
        table->width = columns < NAME_COLUMNS_MAX ? columns : NAME_COLUMNS_MAX;
    return true;
}

static void pad(struct rota_buffer *buffer, int columns)
{
    for (; columns > 0; columns--)
        rota_buffer_append_char(buffer, ' ');
}

static bool append_task(void *data, const struct rota_group_task_status *task)
{
    struct table *table = data;
    struct rota_buffer *buffer = table->buffer;
    rota_terminal_append(buffer, task->task);
    pad(buffer, table->width - rota_terminal_columns(task->task));
    rota_buffer_print(buffer, "  %-6s  %10u  %6u  ", task->is_leader ? "leader" : "",
                      (unsigned)task->owned, (unsigned)task->load);
    if (task->has_lag)
        rota_buffer_print(buffer, "%8llu", (unsigned long long)task->lag);
    else
        rota_buffer_print(buffer, "%8s", "-");
    rota_buffer_print(buffer, "  %llu\n", (unsigned long long)task->incarnation);
    return true;
}

static bool append_offer(void *data, const struct rota_group_partition_status *partition)
{
    struct rota_buffer *buffer = data;
    if (partition->target.size == 0)
        return true;
    rota_buffer_append_text(buffer, "offered: ");
    rota_terminal_append(buffer, partition->partition);
    rota_buffer_append_text(buffer, " to ");
    rota_terminal_append(buffer, partition->target);
    if (partition->sharer.size > 0) {
        rota_buffer_append_text(buffer, " by ");
        rota_terminal_append(buffer, partition->sharer);
    }
    rota_buffer_append_char(buffer, '\n');
    return true;
}

static void append_head(struct table *table, const char *name)
{
    struct rota_buffer *buffer = table->buffer;
    const struct rota_group_status *status = &table->status;
    rota_buffer_append_text(buffer, "group ");
    rota_terminal_append(buffer, rota_str(name));
    rota_buffer_print(buffer,
                      ": epoch %llu, %zu task%s, %zu partition%s (%zu unfinished, %zu "
                      "offered)\n",
                      (unsigned long long)status->epoch, status->n_tasks,
                      status->n_tasks == 1 ? "" : "s", status->n_partitions,
                      status->n_partitions == 1 ? "" : "s", status->n_unfinished, status->n_offers);
    rota_buffer_print(buffer, "log: offsets %llu to %llu, %llu not read yet, %llu skipped\n",
                      (unsigned long long)status->first, (unsigned long long)status->end,
                      (unsigned long long)(status->end - status->next),
                      (unsigned long long)status->n_skipped);
    if (status->has_watermark)
        rota_buffer_print(buffer, "watermark: %lld\n", (long long)status->watermark);
    else
        rota_buffer_append_text(buffer, "watermark: none\n");
}

void rota_group_view_text(struct rota_buffer *buffer, const struct rota_group *group,
                          const char *name, const char *explain)
{
    struct table table = {.buffer = buffer, .width = 4};
    char text[EXPLAIN_MAX];
    if (explain) {
        rota_terminal_append(buffer, rota_str(explain));
        rota_buffer_append_text(buffer, ": ");
        rota_terminal_append(
            buffer, rota_str(rota_group_explain(group, rota_str(explain), text, sizeof text)));
        rota_buffer_append_char(buffer, '\n');
        return;
    }
    rota_group_status(group, &table.status);
    append_head(&table, name);
    rota_group_each_task(group, measure, &table);
    rota_buffer_append_text(buffer, "\nTASK");
    pad(buffer, table.width - 4);
    rota_buffer_print(buffer, "  %-6s  %10s  %6s  %8s  %s\n", "", "PARTITIONS", "LOAD", "LAG",
                      "INCARNATION");
    rota_group_each_task(group, append_task, &table);
    rota_group_each_partition(group, append_offer, buffer);
}

/* --- JSON --- */

struct writer {
    struct rota_json json;
    struct rota_group_status status;
};

static void add_str(struct rota_json *json, const char *key, struct rota_str value)
{
    rota_json_key(json, key);
    rota_json_string(json, value);
}

static void add_uint(struct rota_json *json, const char *key, uint64_t value)
{
    rota_json_key(json, key);
    rota_json_uint(json, value);
}

static bool write_task(void *data, const struct rota_group_task_status *task)
{
    struct writer *writer = data;
    struct rota_json *json = &writer->json;
    rota_json_begin_object(json);
    add_str(json, "task", task->task);
    add_uint(json, "incarnation", task->incarnation);
    rota_json_key(json, "is_leader");
    rota_json_bool(json, task->is_leader);
    add_uint(json, "partitions", task->owned);
    add_uint(json, "load", task->load);
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
    add_str(json, "partition", partition->partition);
    add_str(json, "target", partition->target);
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
    rota_json_key(json, "log");
    rota_json_begin_object(json);
    add_uint(json, "first", writer->status.first);
    add_uint(json, "next", writer->status.next);
    add_uint(json, "end", writer->status.end);
    add_uint(json, "skipped", writer->status.n_skipped);
    rota_json_end_object(json);
}

static void write_numbers(struct writer *writer)
{
    struct rota_json *json = &writer->json;
    const struct rota_group_status *status = &writer->status;
    add_uint(json, "epoch", status->epoch);
    add_str(json, "sync_epoch", rota_str(status->sync_epoch));
    add_uint(json, "generation", status->generation);
    rota_json_key(json, "leader");
    if (status->leader.size > 0)
        rota_json_string(json, status->leader);
    else
        rota_json_null(json);
    add_uint(json, "partitions", status->n_partitions);
    add_uint(json, "unfinished", status->n_unfinished);
    rota_json_key(json, "watermark");
    if (status->has_watermark)
        rota_json_int(json, status->watermark);
    else
        rota_json_null(json);
}

void rota_group_view_json(struct rota_buffer *buffer, const struct rota_group *group,
                          const char *name, const char *explain)
{
    struct writer writer = {.json = {.buffer = buffer}};
    char text[EXPLAIN_MAX];
    rota_group_status(group, &writer.status);
    rota_json_begin_object(&writer.json);
    add_str(&writer.json, "group", rota_str(name));
    write_numbers(&writer);
    write_log(&writer);
    rota_json_key(&writer.json, "tasks");
    rota_json_begin_array(&writer.json);
    rota_group_each_task(group, write_task, &writer);
    rota_json_end_array(&writer.json);
    rota_json_key(&writer.json, "offers");
    rota_json_begin_array(&writer.json);
    rota_group_each_partition(group, write_offer, &writer);
    rota_json_end_array(&writer.json);
    if (explain) {
        add_str(&writer.json, "partition", rota_str(explain));
        rota_json_key(&writer.json, "explanation");
        rota_json_text(&writer.json,
                       rota_group_explain(group, rota_str(explain), text, sizeof text));
    }
    rota_json_end_object(&writer.json);
    rota_buffer_append_char(buffer, '\n');
}
