#include "base/text.h"
#include "run/work/queue/queue_task.h"
#include "wire/grpc/grpc.h"

#include <stdio.h>

static const char *format_name(struct rota_str queue, struct rota_job_id id,
                               char name[ROTA_QUEUE_JOB_MAX])
{
    char *to = name;
    name[0] = '\0';
    if (!rota_job_id_is_none(id)) {
        rota_text_put(&to, rota_text_cut(&queue, ROTA_QUEUE_JOB_MAX - 1 - ROTA_JOB_ID_TEXT));
        *to++ = '/';
        rota_job_id_format(id, to);
    }
    return name;
}

/* The same in the memory of the reply; "" without memory. */
static const char *keep_name(struct rota_queue *queue, struct rota_str name, struct rota_job_id id)
{
    char *text = rota_arena_take(&queue->arena, ROTA_QUEUE_JOB_MAX);
    return text ? format_name(name, id, text) : "";
}

/* --- the end of a task --- */

/* The callback is last, since it may close the client; what it gets may be the task's, which is
 * freed by the loop. */
static void end_task(struct rota_queue_task *task, const struct rota_queue_result *result,
                     const struct rota_queue_result *items, const struct rota_queue_work *works,
                     size_t n)
{
    rota_queue_on_result *on_result = task->on_result;
    rota_queue_on_results *on_results = task->on_results;
    rota_queue_on_work *on_work = task->on_work;
    void *data = task->data;
    rota_queue_task_drop(task);
    if (task->kind == ROTA_QUEUE_TASK_LEARN) /* it is freed by the loop */
        rota_queue_task_learned(task->queue, task->name);
    else if (on_work)
        on_work(data, result, works, n);
    else if (on_results)
        on_results(data, result, items, n);
    else if (on_result)
        on_result(data, result);
}

struct rota_queue_result rota_queue_reply_failure(const struct rota_queue_task *task,
                                                  enum rota_code code, enum rota_status status,
                                                  const char *text, char name[ROTA_QUEUE_JOB_MAX])
{
    return (struct rota_queue_result){.code = code,
                                      .status = status,
                                      .text = text,
                                      .node = task->node.size > 0 ? task->node.data : "",
                                      .job = format_name(task->name, task->id, name)};
}

/* A result for each job; those that are not over have failed as `result` has. */
static void end_adds(struct rota_queue_task *task, const struct rota_queue_result *result)
{
    struct rota_queue *queue = task->queue;
    struct rota_queue_result *results =
        rota_arena_take(&queue->arena, (task->n_items + 1) * sizeof *results);
    for (size_t i = 0; results && i < task->n_items; i++) {
        const struct rota_queue_item *item = &task->items[i];
        results[i] = *result;
        results[i].job = keep_name(queue, task->name, item->id);
        results[i].is_new = item->is_new;
        results[i].is_ours = item->is_ours;
        if (item->is_over) {
            results[i].code = item->code;
            results[i].status = item->status;
            results[i].text = item->text;
        }
    }
    end_task(task, task->is_batch || !results ? result : &results[0], results, NULL,
             results ? task->n_items : 0);
}

void rota_queue_reply_fail(struct rota_queue_task *task, enum rota_code code,
                           enum rota_status status, const char *text)
{
    char name[ROTA_QUEUE_JOB_MAX];
    struct rota_queue_result result = rota_queue_reply_failure(task, code, status, text, name);
    rota_arena_clear(&task->queue->arena);
    if (task->kind == ROTA_QUEUE_TASK_ADD)
        end_adds(task, &result);
    else
        end_task(task, &result, NULL, NULL, 0);
}

static void fail_malformed(struct rota_queue_task *task, const char *text)
{
    rota_queue_reply_fail(task, ROTA_ERR_UNKNOWN, ROTA_STATUS_INTERNAL, text);
}

/* --- adds --- */

static bool note_added(struct rota_queue_item *item, const struct rota_queue_added *added)
{
    struct rota_job_id id;
    if (added->id.size == 0 || rota_queue_message_id_read(added->id, &id, NULL))
        return false;
    item->is_over = true;
    item->is_new = added->is_new;
    item->is_ours = added->is_new || (id.high == item->id.high && id.low == item->id.low);
    item->id = id;
    item->text = "";
    return true;
}

static const char *keep_text(struct rota_queue_task *task, struct rota_str text)
{
    return rota_queue_task_keep(task, &text) ? text.data : "";
}

enum rota_status rota_queue_reply_settle(struct rota_queue_task *task, struct rota_str message,
                                         char text[ROTA_ERROR_TEXT_MAX])
{
    enum rota_status status = ROTA_STATUS_OK;
    struct rota_queue_list reply;
    size_t n = 0, next = 0;
    snprintf(text, ROTA_ERROR_TEXT_MAX, "malformed reply: expected jobs");
    for (size_t i = 0; i < task->n_items; i++)
        n += !task->items[i].is_over;
    rota_arena_clear(&task->queue->arena);
    if (rota_message_decode(&ROTA_QUEUE_ADD_BATCH_REPLY, message, &reply, &task->queue->arena,
                            NULL) ||
        reply.items.n != n)
        return ROTA_STATUS_INTERNAL;
    const struct rota_queue_added *added = reply.items.items;
    for (size_t i = 0; i < task->n_items; i++) {
        struct rota_queue_item *item = &task->items[i];
        const struct rota_queue_added *it = &added[next];
        if (item->is_over)
            continue;
        next++;
        if (it->status == ROTA_STATUS_OK) {
            if (!note_added(item, it))
                return ROTA_STATUS_INTERNAL;
        } else if (it->may_go_elsewhere) {
            /* If one of them is not full, moving the others is worth it, too. */
            if (status == ROTA_STATUS_OK || status == ROTA_STATUS_RESOURCE_EXHAUSTED)
                status = it->status == ROTA_STATUS_RESOURCE_EXHAUSTED
                             ? ROTA_STATUS_RESOURCE_EXHAUSTED
                             : ROTA_STATUS_UNAVAILABLE;
            snprintf(text, ROTA_ERROR_TEXT_MAX, "%.*s", ROTA_STR_ARGS(it->error));
        } else {
            item->is_over = true;
            item->status = (enum rota_status)it->status;
            item->code = rota_grpc_code_of_status(item->status);
            item->text = keep_text(task, it->error);
        }
    }
    return status; /* the outcome of an earlier try stays unknown: these keep their ids */
}

static void end_add(struct rota_queue_task *task, struct rota_str message)
{
    struct rota_queue_result result = {.text = "", .node = task->node.data, .job = ""};
    struct rota_queue_added added;
    if (!task->is_batch &&
        (rota_message_decode(&ROTA_QUEUE_ADDED, message, &added, &task->queue->arena, NULL) ||
         !note_added(&task->items[0], &added)))
        fail_malformed(task, "malformed reply: expected a job");
    else
        end_adds(task, &result);
}

/* --- jobs that exist --- */

static const char *cause_text(uint64_t cause)
{
    if (cause == ROTA_JOB_CAUSE_NONE)
        return NULL;
    return cause <= ROTA_JOB_CAUSE_HANDED_OVER ? rota_job_cause_text((enum rota_job_cause)cause)
                                               : "unknown";
}

static void read_entries(struct rota_arena *arena, const struct rota_queue_job_info *info,
                         struct rota_queue_details *details)
{
    const struct rota_queue_event *events = info->events.items;
    struct rota_queue_entry *entries =
        rota_arena_take(arena, (info->events.n + 1) * sizeof *entries);
    for (size_t i = 0; entries && i < info->events.n; i++)
        entries[i] = (struct rota_queue_entry){.at = rota_queue_from_ms(events[i].at_ms),
                                               .state = (enum rota_queue_state)events[i].state,
                                               .cause = cause_text(events[i].cause),
                                               .attempt = events[i].attempt,
                                               .worker = events[i].worker,
                                               .reason = events[i].reason};
    details->entries = entries;
    details->n_entries = entries ? info->events.n : 0;
}

static struct rota_queue_job read_spec(const struct rota_queue_job_spec *spec)
{
    return (struct rota_queue_job){.queue = spec->queue,
                                   .payload = spec->payload,
                                   .can = spec->can.items,
                                   .n_can = spec->can.n,
                                   .priority = (int16_t)spec->priority,
                                   .timeout = rota_queue_from_ms(spec->timeout_ms),
                                   .max_attempts = (uint32_t)spec->max_attempts,
                                   .backoff = rota_queue_from_ms(spec->backoff_ms),
                                   .backoff_max = rota_queue_from_ms(spec->backoff_max_ms),
                                   .deadline = rota_queue_from_ms(spec->deadline_ms),
                                   .unique = spec->unique,
                                   .key = spec->key,
                                   .trace = spec->trace};
}

/* A job as it is; false if it is not one, or without memory. */
static bool read_job(struct rota_queue *queue, const struct rota_queue_job_info *info,
                     struct rota_str explain, struct rota_queue_result *result)
{
    const struct rota_queue_job_spec *spec = info ? info->spec : NULL;
    struct rota_queue_details *details = rota_arena_take(&queue->arena, sizeof *details);
    struct rota_job_id id;
    if (!spec || !details || info->state >= ROTA_JOB_STATES ||
        rota_queue_message_id_read(spec->id, &id, NULL))
        return false;
    *details = (struct rota_queue_details){.job = read_spec(spec),
                                           .explain = explain,
                                           .added_at = rota_queue_from_ms(info->enqueued_ms),
                                           .not_before = rota_queue_from_ms(info->not_before_ms),
                                           .ended_at = rota_queue_from_ms(info->ended_ms),
                                           .n_attempts = (uint32_t)info->n_attempts,
                                           .worker = info->worker};
    read_entries(&queue->arena, info, details);
    *result = (struct rota_queue_result){.text = "",
                                         .node = "",
                                         .job = keep_name(queue, spec->queue, id),
                                         .state = (enum rota_queue_state)info->state,
                                         .result = info->result,
                                         .progress = info->progress,
                                         .reason = info->reason,
                                         .details = details};
    return true;
}

static void end_seen(struct rota_queue_task *task, const struct rota_queue_job_info *info,
                     struct rota_str explain)
{
    struct rota_queue_result result;
    if (!read_job(task->queue, info, explain, &result)) {
        fail_malformed(task, "malformed reply: expected a job");
        return;
    }
    result.node = task->node.data;
    end_task(task, &result, NULL, NULL, 0);
}

static void end_look(struct rota_queue_task *task, struct rota_str message)
{
    struct rota_queue_description seen;
    if (rota_message_decode(&ROTA_QUEUE_DESCRIPTION, message, &seen, &task->queue->arena, NULL))
        seen = (struct rota_queue_description){0};
    end_seen(task, seen.job, seen.explain);
}

static void end_wait(struct rota_queue_task *task)
{
    struct rota_queue_news news;
    struct rota_buffer last = task->last; /* outlives the task, which the callback may not */
    task->last = (struct rota_buffer){0};
    if (rota_message_decode(&ROTA_QUEUE_NEWS, rota_buffer_str(&last), &news, &task->queue->arena,
                            NULL))
        news.job = NULL;
    end_seen(task, news.job, rota_str(""));
    rota_buffer_deinit(&last);
}

static bool read_missing(struct rota_queue *queue, struct rota_str message,
                         struct rota_queue_result *result)
{
    struct rota_queue_missing missing;
    if (rota_message_decode(&ROTA_QUEUE_MISSING, message, &missing, &queue->arena, NULL))
        return false;
    result->missing = missing.nodes.items;
    result->n_missing = missing.nodes.n;
    if (missing.why.n == missing.nodes.n)
        result->missing_why = missing.why.items;
    return true;
}

static void end_list(struct rota_queue_task *task, struct rota_str message)
{
    struct rota_queue *queue = task->queue;
    struct rota_queue_result result = {.text = "", .node = task->node.data, .job = ""};
    struct rota_queue_list_reply reply;
    bool is_good =
        !rota_message_decode(&ROTA_QUEUE_LIST_REPLY, message, &reply, &queue->arena, NULL) &&
        read_missing(queue, message, &result);
    const struct rota_queue_job_info *jobs = is_good ? reply.jobs.items : NULL;
    size_t n = is_good ? reply.jobs.n : 0;
    struct rota_queue_result *items = rota_arena_take(&queue->arena, (n + 1) * sizeof *items);
    is_good = is_good && items;
    for (size_t i = 0; is_good && i < n; i++)
        is_good = read_job(queue, &jobs[i], rota_str(""), &items[i]);
    if (!is_good) {
        fail_malformed(task, "malformed reply: expected jobs");
        return;
    }
    result.next = reply.next;
    end_task(task, &result, items, NULL, n);
}

static void end_count(struct rota_queue_task *task, struct rota_str message)
{
    struct rota_queue *queue = task->queue;
    struct rota_queue_result result = {.text = "", .node = task->node.data, .job = ""};
    struct rota_queue_list list;
    if (rota_message_decode(&ROTA_QUEUE_QUEUES_REPLY, message, &list, &queue->arena, NULL) ||
        !read_missing(queue, message, &result)) {
        fail_malformed(task, "malformed reply: expected a queue");
        return;
    }
    const struct rota_queue_info *info = list.items.n > 0 ? list.items.items : NULL;
    result.is_known = info;
    if (info)
        result.counts = (struct rota_queue_counts){.waiting = info->n_waiting,
                                                   .delayed = info->n_delayed,
                                                   .running = info->n_running,
                                                   .done = info->n_done,
                                                   .dead = info->n_dead,
                                                   .cancelled = info->n_cancelled,
                                                   .workers = info->n_workers,
                                                   .is_paused = info->is_paused};
    end_task(task, &result, NULL, NULL, 0);
}

/* --- work --- */

static void end_poll(struct rota_queue_task *task, struct rota_str message)
{
    struct rota_queue *queue = task->queue;
    struct rota_queue_result result = {.text = "", .node = task->node.data, .job = ""};
    struct rota_queue_list list;
    if (rota_message_decode(&ROTA_QUEUE_POLL_REPLY, message, &list, &queue->arena, NULL)) {
        fail_malformed(task, "malformed reply: expected jobs");
        return;
    }
    const struct rota_queue_handed *handed = list.items.items;
    struct rota_queue_work *works =
        rota_arena_take(&queue->arena, (list.items.n + 1) * sizeof *works);
    if (!works) { /* their leases expire, and other workers run them */
        rota_queue_reply_fail(task, ROTA_ERR_NO_MEMORY, ROTA_STATUS_UNKNOWN,
                              "not enough memory for the jobs of a poll");
        return;
    }
    for (size_t i = 0; i < list.items.n; i++) {
        struct rota_job_id id = {0, 0};
        rota_queue_message_id_read(handed[i].id, &id, NULL);
        works[i] = (struct rota_queue_work){
            .job = keep_name(queue, handed[i].queue, id),
            .attempt = handed[i].attempt,
            .payload = handed[i].payload,
            .key = handed[i].key,
            .trace = handed[i].trace,
            .n_attempts = (uint32_t)handed[i].n_attempts,
            .timeout = rota_queue_from_ms(handed[i].timeout_ms),
        };
    }
    end_task(task, &result, NULL, works, list.items.n);
}

/* The number of partitions and their spread, as the nodes have them. */
static void end_learning(struct rota_queue_task *task, struct rota_str message)
{
    struct rota_queue *queue = task->queue;
    struct rota_queue_result result = {.text = "", .node = task->node.data, .job = ""};
    struct rota_queue_nodes nodes = {0};
    bool is_good = !rota_message_decode(&ROTA_QUEUE_NODES, message, &nodes, &queue->arena, NULL) &&
                   nodes.partitions > 0 && nodes.read > 0;
    struct rota_work_layout layout = {
        .wanted = (uint32_t)nodes.read,
        .write = (uint32_t)nodes.write,
        .read = (uint32_t)nodes.read,
        .spread = {.mode = nodes.is_slots ? ROTA_SPREAD_SLOTS : ROTA_SPREAD_LOOKUP,
                   .batch = (uint32_t)nodes.batch},
        .change = {.from = {.mode =
                                nodes.change_from_slots ? ROTA_SPREAD_SLOTS : ROTA_SPREAD_LOOKUP,
                            .batch = (uint32_t)nodes.change_from_batch},
                   .start = rota_queue_from_ms(nodes.change_start_ms),
                   .end = rota_queue_from_ms(nodes.change_end_ms)},
    };
    if (is_good && !rota_layout_check(&layout, NULL)) {
        queue->n_nodes = nodes.nodes.n > 0 ? nodes.nodes.n : 1;
        rota_work_broker_cluster_set_partitions(queue->cluster, (uint32_t)nodes.partitions);
        rota_work_broker_cluster_lay_out(queue->cluster, task->name, &layout);
    }
    end_task(task, &result, NULL, NULL, 0);
}

static void end_plain(struct rota_queue_task *task)
{
    char name[ROTA_QUEUE_JOB_MAX];
    struct rota_queue_result result =
        rota_queue_reply_failure(task, ROTA_OK, ROTA_STATUS_OK, "", name);
    end_task(task, &result, NULL, NULL, 0);
}

void rota_queue_reply_end(struct rota_queue_task *task, struct rota_str message)
{
    rota_arena_clear(&task->queue->arena);
    switch (task->kind) {
    case ROTA_QUEUE_TASK_ADD:
        end_add(task, message);
        break;
    case ROTA_QUEUE_TASK_POLL:
        end_poll(task, message);
        break;
    case ROTA_QUEUE_TASK_WAIT:
        end_wait(task);
        break;
    case ROTA_QUEUE_TASK_LOOK:
        end_look(task, message);
        break;
    case ROTA_QUEUE_TASK_LIST:
        end_list(task, message);
        break;
    case ROTA_QUEUE_TASK_COUNT:
        end_count(task, message);
        break;
    case ROTA_QUEUE_TASK_LEARN:
        end_learning(task, message);
        break;
    case ROTA_QUEUE_TASK_PLAIN:
    case ROTA_QUEUE_TASK_PROBE:
        end_plain(task);
        break;
    }
}
