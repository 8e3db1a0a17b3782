#include <rota/queue.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/map.h"
#include "core/call/list.h"
#include "core/work/try_fsm.h"
#include "io/clock.h"
#include "run/broker_cluster.h"
#include "wire/queue_message.h"

#include <rota/picker.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

enum { LEARNED_MAX = 4096 }; /* queues whose layout is asked for; of others the default holds */

#define LEARN_EVERY (10 * ROTA_SEC)

/* A queue in use, whose layout a node is asked for now and then. */
struct learned {
    rota_time asked_at; /* monotonic */
    char name[];        /* the key in `learned` */
};

struct rota_queue {
    uv_loop_t *loop;
    struct rota_broker_cluster *cluster;
    struct rota_picker *picker;
    struct rota_random random;
    rota_time timeout, patience;
    struct rota_map learned; /* by name */
    struct rota_list_node tasks;
    size_t n_tasks;
    struct rota_arena arena; /* of one answer */
};

typedef void on_work_function(void *data, const struct rota_queue_result *result,
                              const struct rota_queue_work *works, size_t n);

/* One thing that was asked for, over all its tries. */
struct task {
    struct rota_queue *queue;
    struct rota_list_node link;
    struct rota_try_fsm tries;
    uv_timer_t timer; /* closed last: the task is freed with it */
    struct rota_call *call;
    const char *method;
    struct rota_buffer request, last; /* `last`: of a stream, what was heard last */
    struct rota_queue_job_spec spec;  /* of an add: all it points to is in `memory` */
    struct rota_arena memory;
    struct rota_str name;  /* of the queue */
    struct rota_poll poll; /* of a poll */
    struct rota_job_id id;
    uint32_t partition;
    bool is_add, is_poll, is_stream, is_look, is_probe, is_learning;
    rota_time wait; /* of a poll */
    bool has_heard; /* something, in this try */
    rota_queue_on_result *on_result;
    on_work_function *on_work;
    void *data;
};

/* --- the end of a task --- */

static void on_closed(uv_handle_t *handle)
{
    struct task *task = handle->data;
    rota_buffer_deinit(&task->request);
    rota_buffer_deinit(&task->last);
    rota_arena_deinit(&task->memory);
    free(task);
}

static void drop(struct task *task)
{
    if (task->call)
        rota_call_cancel(task->call);
    if (task->is_poll)
        rota_picker_release(task->queue->picker, rota_clock_mono(), task->poll);
    rota_list_remove(&task->link);
    task->queue->n_tasks--;
    uv_close((uv_handle_t *)&task->timer, on_closed);
}

static char *format_name(struct rota_str queue, struct rota_job_id id,
                         char name[ROTA_QUEUE_JOB_MAX])
{
    char text[ROTA_JOB_ID_TEXT];
    snprintf(name, ROTA_QUEUE_JOB_MAX, "%.*s/%s", ROTA_STR_ARGS(queue),
             rota_job_id_format(id, text));
    return name;
}

/* The callback is last, for it may close the client. */
static void end(struct task *task, const struct rota_queue_result *result,
                const struct rota_queue_work *works, size_t n)
{
    rota_queue_on_result *on_result = task->on_result;
    on_work_function *on_work = task->on_work;
    void *data = task->data;
    drop(task);
    if (on_work)
        on_work(data, result, works, n);
    else if (on_result)
        on_result(data, result);
}

static void fail(struct task *task, enum rota_code code, const char *text)
{
    char name[ROTA_QUEUE_JOB_MAX] = "";
    struct rota_queue_result result = {.code = code, .text = text, .job = name};
    if (!rota_job_id_is_none(task->id))
        format_name(task->name, task->id, name);
    end(task, &result, NULL, 0);
}

static enum rota_code code_of(enum rota_status status)
{
    switch (status) {
    case ROTA_STATUS_OK:
        return ROTA_OK;
    case ROTA_STATUS_INVALID_ARGUMENT:
    case ROTA_STATUS_FAILED_PRECONDITION:
    case ROTA_STATUS_OUT_OF_RANGE:
    case ROTA_STATUS_ALREADY_EXISTS:
    case ROTA_STATUS_UNIMPLEMENTED:
        return ROTA_ERR_INVALID;
    case ROTA_STATUS_NOT_FOUND:
        return ROTA_ERR_NOT_FOUND;
    case ROTA_STATUS_ABORTED:
        return ROTA_ERR_STALE;
    case ROTA_STATUS_RESOURCE_EXHAUSTED:
        return ROTA_ERR_LIMIT;
    case ROTA_STATUS_UNAVAILABLE:
    case ROTA_STATUS_PERMISSION_DENIED:
    case ROTA_STATUS_UNAUTHENTICATED:
        return ROTA_ERR_UNAVAILABLE;
    case ROTA_STATUS_CANCELLED:
    case ROTA_STATUS_UNKNOWN:
    case ROTA_STATUS_DEADLINE_EXCEEDED:
    case ROTA_STATUS_INTERNAL:
    case ROTA_STATUS_DATA_LOSS:
        return ROTA_ERR_UNKNOWN;
    }
    return ROTA_ERR_UNKNOWN;
}

/* --- what is answered --- */

static void end_add(struct task *task, struct rota_str message)
{
    struct rota_queue_added added;
    char name[ROTA_QUEUE_JOB_MAX];
    struct rota_queue_result result = {.text = "", .job = name};
    if (rota_message_decode(&ROTA_QUEUE_ADDED, message, &added, &task->queue->arena, NULL) ||
        rota_queue_id_read(added.id, &task->id, NULL)) {
        fail(task, ROTA_ERR_UNKNOWN, "malformed reply: expected a job");
        return;
    }
    result.is_new = added.is_new;
    format_name(task->name, task->id, name);
    end(task, &result, NULL, 0);
}

static void end_seen(struct task *task, const struct rota_queue_job_info *info)
{
    char name[ROTA_QUEUE_JOB_MAX];
    if (!info || info->state >= ROTA_JOB_STATES) {
        fail(task, ROTA_ERR_UNKNOWN, "malformed reply: expected a job");
        return;
    }
    struct rota_queue_result result = {
        .text = "",
        .job = format_name(task->name, task->id, name),
        .state = (enum rota_queue_state)info->state,
        .result = info->result,
        .progress = info->progress,
        .reason = info->reason,
    };
    end(task, &result, NULL, 0);
}

static void end_look(struct task *task, struct rota_str message)
{
    struct rota_queue_description seen;
    if (rota_message_decode(&ROTA_QUEUE_DESCRIPTION, message, &seen, &task->queue->arena, NULL))
        seen.job = NULL;
    end_seen(task, seen.job);
}

static void end_wait(struct task *task)
{
    struct rota_queue_news news;
    struct rota_buffer last = task->last; /* outlives the task, which the callback may not */
    task->last = (struct rota_buffer){0};
    if (rota_message_decode(&ROTA_QUEUE_NEWS, rota_buffer_str(&last), &news, &task->queue->arena,
                            NULL))
        news.job = NULL;
    end_seen(task, news.job);
    rota_buffer_deinit(&last);
}

static void end_poll(struct task *task, struct rota_str message)
{
    struct rota_arena *arena = &task->queue->arena;
    struct rota_queue_result result = {.text = "", .job = ""};
    struct rota_queue_list list;
    if (rota_message_decode(&ROTA_QUEUE_POLL_REPLY, message, &list, arena, NULL)) {
        fail(task, ROTA_ERR_UNKNOWN, "malformed reply: expected jobs");
        return;
    }
    const struct rota_queue_handed *handed = list.items.items;
    struct rota_queue_work *works = rota_arena_take(arena, (list.items.n + 1) * sizeof *works);
    char(*names)[ROTA_QUEUE_JOB_MAX] = rota_arena_take(arena, (list.items.n + 1) * sizeof *names);
    if (!works || !names) { /* their leases run out, and others do them */
        fail(task, ROTA_ERR_NO_MEMORY, "no memory for the work");
        return;
    }
    for (size_t i = 0; i < list.items.n; i++) {
        struct rota_job_id id = {0, 0};
        rota_queue_id_read(handed[i].id, &id, NULL);
        works[i] = (struct rota_queue_work){
            .job = format_name(handed[i].queue, id, names[i]),
            .attempt = handed[i].attempt,
            .payload = handed[i].payload,
            .key = handed[i].key,
            .trace = handed[i].trace,
            .n_attempts = (uint32_t)handed[i].n_attempts,
            .timeout = rota_queue_from_ms(handed[i].timeout_ms),
        };
    }
    end(task, &result, works, list.items.n);
}

/* The number of partitions and their spread, as the nodes have them. */
static void end_learning(struct task *task, struct rota_str message)
{
    struct rota_broker_cluster *cluster = task->queue->cluster;
    struct rota_queue_result result = {.text = "", .job = ""};
    struct rota_queue_nodes nodes = {0};
    bool is_good =
        !rota_message_decode(&ROTA_QUEUE_NODES, message, &nodes, &task->queue->arena, NULL) &&
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
        rota_broker_cluster_set_partitions(cluster, (uint32_t)nodes.partitions);
        rota_broker_cluster_lay_out(cluster, task->name, &layout);
    }
    end(task, &result, NULL, 0);
}

static void end_well(struct task *task, struct rota_str message)
{
    char name[ROTA_QUEUE_JOB_MAX];
    struct rota_queue_result result = {.text = "", .job = name};
    rota_arena_clear(&task->queue->arena);
    if (task->is_add) {
        end_add(task, message);
    } else if (task->is_learning) {
        end_learning(task, message);
    } else if (task->is_poll) {
        end_poll(task, message);
    } else if (task->is_stream) {
        end_wait(task);
    } else if (task->is_look) {
        end_look(task, message);
    } else {
        format_name(task->name, task->id, name);
        end(task, &result, NULL, 0);
    }
}

/* --- tries --- */

static void begin_try(struct task *task);

static void on_again(uv_timer_t *timer)
{
    begin_try(timer->data);
}

/* The request, which says when it may have been made before. */
static void write_add(struct task *task)
{
    struct rota_queue_add add = {.job = &task->spec};
    char id[ROTA_QUEUE_ID_SIZE];
    if (task->spec.idempotency_key.size == 0) {
        task->spec.id = rota_queue_id_write(task->id, id);
        task->spec.partition = task->partition; /* we may choose another one, with another id */
    }
    task->spec.is_again = task->tries.is_unknown;
    rota_buffer_clear(&task->request);
    rota_message_encode(&ROTA_QUEUE_ADD, &add, &task->request);
    task->spec.id = rota_str("");
}

/* Any partition that new jobs go to, of a node that can be reached if there is one. */
static uint32_t choose_partition(struct task *task)
{
    enum { DRAWS = 16 };
    struct rota_queue *queue = task->queue;
    struct rota_broker_cluster *cluster = queue->cluster;
    uint32_t n = rota_broker_cluster_layout(cluster, task->name).write;
    int64_t any = 0;
    for (int i = 0; i < DRAWS; i++) {
        rota_picker_write(queue->picker, rota_str("default"), n, &queue->random, &any, NULL);
        struct rota_str owner = rota_broker_cluster_owner(cluster, task->name, (uint32_t)any);
        if (rota_broker_cluster_reach(cluster, owner) != ROTA_REACH_FAILING)
            break;
        rota_broker_cluster_connect(cluster, owner);
    }
    return (uint32_t)any;
}

/* Another partition and, with it, another id. */
static void choose(struct task *task)
{
    struct rota_queue *queue = task->queue;
    task->partition =
        task->spec.unique.size > 0
            ? rota_broker_cluster_partition_of(queue->cluster, task->name, task->spec.unique)
            : choose_partition(task);
    task->id =
        rota_job_id_make(rota_clock_wall(), task->partition, rota_random_next(&queue->random));
    if (task->spec.idempotency_key.size > 0) { /* as the node will do, which is not told */
        task->id = rota_job_id_of_key(task->name, task->spec.idempotency_key,
                                      rota_broker_cluster_n_partitions(queue->cluster));
        task->partition = rota_job_id_partition(task->id);
    }
    write_add(task);
}

static void hear(struct task *task, enum rota_status status, bool is_undone, const char *text,
                 struct rota_str message)
{
    rota_time now = rota_clock_mono();
    if (task->is_probe && status != ROTA_STATUS_OK &&
        task->tries.n_tries + 1 >= rota_broker_cluster_n_peers(task->queue->cluster)) {
        fail(task, ROTA_ERR_UNAVAILABLE, text);
        return;
    }
    switch (rota_try_fsm_step(&task->tries, now, status, is_undone)) {
    case ROTA_TRY_DONE:
        end_well(task, message);
        return;
    case ROTA_TRY_REFUSED:
        fail(task, code_of(status), text);
        return;
    case ROTA_TRY_FAILED:
        fail(task, ROTA_ERR_UNAVAILABLE, text);
        return;
    case ROTA_TRY_UNKNOWN:
        fail(task, ROTA_ERR_UNKNOWN, text);
        return;
    case ROTA_TRY_MOVE:
        choose(task);
        break;
    case ROTA_TRY_AGAIN:
        if (task->is_add)
            write_add(task);
        break;
    }
    uv_timer_start(&task->timer, on_again, rota_queue_to_ms(task->tries.again_at - now), 0);
}

/* A node says that the queue has other partitions than we know of. */
static void learn(struct task *task, const struct rota_call_result *result)
{
    struct rota_broker_cluster *cluster = task->queue->cluster;
    struct rota_str value;
    char text[16];
    if (!task->is_add ||
        !rota_metadata_get(result->metadata, result->n_metadata, ROTA_NOTE_PARTITIONS, &value))
        return;
    snprintf(text, sizeof text, "%.*s", (int)(value.size < 15 ? value.size : 15), value.data);
    unsigned long n = strtoul(text, NULL, 10);
    if (n < 1 || n > ROTA_JOB_PARTITIONS_MAX)
        return;
    struct rota_work_layout layout = rota_broker_cluster_layout(cluster, task->name);
    layout.wanted = layout.write = (uint32_t)n;
    uint32_t partitions = rota_broker_cluster_n_partitions(cluster);
    layout.read = layout.write > partitions ? layout.write : partitions;
    if (rota_broker_cluster_lay_out(cluster, task->name, &layout))
        task->tries.may_move = true; /* also with a unique key, which belongs to another now */
}

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct task *task = data;
    struct rota_str value;
    char text[ROTA_ERROR_TEXT_MAX];
    (void)call;
    task->call = NULL;
    if (task->has_heard) /* it was well until now */
        rota_try_fsm_init(&task->tries, rota_clock_mono(), task->queue->patience, false);
    bool is_undone =
        !result->may_have_run ||
        rota_metadata_get(result->metadata, result->n_metadata, ROTA_NOTE_ELSEWHERE, &value);
    snprintf(text, sizeof text, "%s: %.*s", rota_status_name(result->status),
             (int)(result->text.size < 400 ? result->text.size : 400), result->text.data);
    learn(task, result);
    hear(task, result->status, is_undone, text, result->message);
}

static void on_message(void *data, struct rota_call *call, struct rota_str message)
{
    struct task *task = data;
    (void)call;
    task->has_heard = true;
    rota_buffer_clear(&task->last);
    rota_buffer_append_str(&task->last, message);
}

/* The owner first; others, which carry the call on, when that did not do or can't be reached. */
static struct rota_str node_of(struct task *task)
{
    enum { NODES_MAX = 256 }; /* that are looked at; of more the first */
    struct rota_broker_cluster *cluster = task->queue->cluster;
    enum rota_reach nodes[NODES_MAX];
    size_t n = rota_broker_cluster_n_peers(cluster);
    if (task->is_probe)
        return rota_broker_cluster_peer(cluster, task->tries.n_tries % (n > 0 ? n : 1));
    struct rota_str owner = rota_broker_cluster_owner(cluster, task->name, task->partition);
    bool is_retry = task->tries.n_tries % 2 != 0;
    n = n < NODES_MAX ? n : NODES_MAX;
    if (n < 2 || (!is_retry && rota_broker_cluster_reach(cluster, owner) != ROTA_REACH_FAILING))
        return owner;
    size_t of_owner = n;
    for (size_t i = 0; i < n; i++) {
        struct rota_str node = rota_broker_cluster_peer(cluster, i);
        nodes[i] = rota_broker_cluster_reach(cluster, node);
        if (rota_str_is_equal(node, owner))
            of_owner = i;
    }
    rota_broker_cluster_connect(cluster, owner);
    return rota_broker_cluster_peer(
        cluster,
        rota_reach_choose(nodes, n, of_owner, is_retry, rota_random_next(&task->queue->random)));
}

/* How long one try may take: a poll as long as it waits, and then as any call. */
static rota_time timeout_of(const struct task *task)
{
    if (task->is_stream)
        return ROTA_TIME_NEVER;
    return rota_time_add(task->wait, task->queue->timeout);
}

static void begin_try(struct task *task)
{
    struct rota_error error;
    char path[64];
    task->has_heard = false;
    snprintf(path, sizeof path, "/rota.v1.Queue/%s", task->method);
    struct rota_call_options options = {
        .method = rota_str(path),
        .request = rota_buffer_str(&task->request),
        .timeout = timeout_of(task),
        .on_message = task->is_stream ? on_message : NULL,
        .on_end = on_end,
        .data = task,
    };
    enum rota_code code =
        task->request.failed
            ? rota_error_set(&error, ROTA_ERR_NO_MEMORY, "no memory for the request")
            : rota_broker_cluster_call(task->queue->cluster, node_of(task), &options, &task->call,
                                       &error);
    if (code == ROTA_ERR_UNAVAILABLE)
        hear(task, ROTA_STATUS_UNAVAILABLE, true, error.text, rota_str(""));
    else if (code)
        fail(task, code, error.text);
}

/* --- beginning --- */

static struct task *make(struct rota_queue *queue, const char *method, void *data,
                         struct rota_error *error)
{
    struct task *task = queue->n_tasks < ROTA_QUEUE_CALLS_MAX ? calloc(1, sizeof *task) : NULL;
    if (!task) {
        rota_error_set(error, ROTA_ERR_LIMIT, "no memory for a call, or %d are under way",
                       ROTA_QUEUE_CALLS_MAX);
        return NULL;
    }
    task->queue = queue;
    task->method = method;
    task->data = data;
    uv_timer_init(queue->loop, &task->timer);
    task->timer.data = task;
    rota_list_push(&queue->tasks, &task->link);
    queue->n_tasks++;
    return task;
}

/* From the loop, as all that follows. */
static enum rota_code begin(struct task *task, bool may_move)
{
    rota_try_fsm_init(&task->tries, rota_clock_mono(), task->queue->patience, may_move);
    uv_timer_start(&task->timer, on_again, 0, 0);
    return ROTA_OK;
}

/* A copy in the task's memory; false when there is none. */
static bool keep(struct task *task, struct rota_str *text)
{
    *text = rota_arena_copy(&task->memory, *text);
    return text->data;
}

static bool keep_all(struct task *task, const struct rota_str *items, size_t n,
                     struct rota_message_strs *kept)
{
    struct rota_str *copies = rota_arena_take(&task->memory, (n + 1) * sizeof *copies);
    bool is_fine = copies;
    for (size_t i = 0; is_fine && i < n; i++) {
        copies[i] = items[i];
        is_fine = keep(task, &copies[i]);
    }
    *kept = (struct rota_message_strs){copies, is_fine ? n : 0};
    return is_fine;
}

/* Ask how the queue is laid out, when nobody has for a while. Without memory, or with too many
 * queues, what the options say has to do. */
static void learn_layout(struct rota_queue *queue, struct rota_str name)
{
    rota_time now = rota_clock_mono();
    struct learned *learned = rota_map_get(&queue->learned, name);
    if (learned && now - learned->asked_at < LEARN_EVERY)
        return;
    if (!learned && queue->learned.size < LEARNED_MAX &&
        (learned = malloc(sizeof *learned + name.size + 1))) {
        memcpy(learned->name, name.data, name.size);
        if (!rota_map_put(&queue->learned, rota_str_of(learned->name, name.size), learned)) {
            free(learned);
            learned = NULL;
        }
    }
    struct task *task = learned ? make(queue, "Nodes", NULL, NULL) : NULL;
    if (!task)
        return;
    learned->asked_at = now;
    struct rota_queue_setting request = {.queue = name};
    task->name = name;
    task->is_learning = true;
    rota_message_encode(&ROTA_QUEUE_PAUSE, &request, &task->request);
    if (keep(task, &task->name))
        begin(task, false);
    else
        drop(task);
}

enum rota_code rota_queue_probe(struct rota_queue *queue, rota_queue_on_result *on_done, void *data,
                                struct rota_error *error)
{
    struct task *task = make(queue, "Nodes", data, error);
    if (!task)
        return ROTA_ERR_LIMIT;
    task->name = rota_str("probe");
    task->is_probe = true;
    task->on_result = on_done;
    return begin(task, false);
}

enum rota_code rota_queue_add(struct rota_queue *queue, const struct rota_queue_job *job,
                              rota_queue_on_result *on_added, void *data, struct rota_error *error)
{
    struct rota_job_spec check = {.queue = job->queue,
                                  .payload = job->payload,
                                  .capabilities = job->can,
                                  .n_capabilities = job->n_can,
                                  .timeout = job->timeout,
                                  .max_attempts = job->max_attempts,
                                  .unique = job->unique,
                                  .key = job->key,
                                  .trace = job->trace};
    enum rota_code code = rota_job_spec_check(&check, error);
    if (!code && job->idempotency_key.size > ROTA_JOB_KEY_MAX)
        code = rota_error_set(error, ROTA_ERR_INVALID, "idempotency_key has 1 to %d bytes, not %zu",
                              ROTA_JOB_KEY_MAX, job->idempotency_key.size);
    if (!code && job->idempotency_key.size > 0 && job->unique.size > 0)
        code = rota_error_set(error, ROTA_ERR_INVALID,
                              "a job has an idempotency_key or a unique key, not both");
    struct task *task = code ? NULL : make(queue, "Add", data, error);
    if (!task)
        return code ? code : ROTA_ERR_LIMIT;
    task->spec = (struct rota_queue_job_spec){
        .queue = job->queue,
        .payload = job->payload,
        .priority = job->priority,
        .delay_ms = rota_queue_to_ms(job->delay),
        .timeout_ms = rota_queue_to_ms(job->timeout),
        .max_attempts = job->max_attempts,
        .unique = job->unique,
        .key = job->key,
        .trace = job->trace,
        .idempotency_key = job->idempotency_key,
    };
    if (!keep(task, &task->spec.queue) || !keep(task, &task->spec.payload) ||
        !keep(task, &task->spec.unique) || !keep(task, &task->spec.key) ||
        !keep(task, &task->spec.trace) || !keep(task, &task->spec.idempotency_key) ||
        !keep_all(task, job->can, job->n_can, &task->spec.can)) {
        drop(task);
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for a job");
    }
    task->name = task->spec.queue;
    learn_layout(queue, job->queue);
    task->is_add = true;
    task->on_result = on_added;
    choose(task);
    return begin(task, job->unique.size == 0);
}

/* A task about one job that is named. */
static struct task *make_about(struct rota_queue *queue, const char *method, const char *job,
                               void *data, struct rota_queue_about *about,
                               char id[ROTA_QUEUE_ID_SIZE], struct rota_error *error)
{
    const char *slash = strchr(job, '/');
    struct rota_job_id number;
    if (!slash) {
        rota_error_set(error, ROTA_ERR_INVALID, "jobs are named QUEUE/ID");
        return NULL;
    }
    struct rota_str name = rota_str_of(job, (size_t)(slash - job));
    if (rota_job_queue_check(name, error) || rota_job_id_parse(rota_str(slash + 1), &number, error))
        return NULL;
    struct task *task = make(queue, method, data, error);
    if (task && !keep(task, &name)) {
        drop(task);
        rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for a call");
        return NULL;
    }
    if (task) {
        task->name = name;
        task->id = number;
        task->partition = rota_broker_cluster_place(queue->cluster, number);
        about->queue = name;
        about->id = rota_queue_id_write(number, id);
    }
    return task;
}

static enum rota_code ask_about(struct rota_queue *queue, const char *method,
                                const struct rota_message_type *type, const char *job,
                                struct rota_queue_about about, rota_queue_on_result *on_done,
                                void *data, struct rota_error *error)
{
    char id[ROTA_QUEUE_ID_SIZE];
    struct rota_error why = {.code = ROTA_ERR_NO_MEMORY};
    struct task *task = make_about(queue, method, job, data, &about, id, &why);
    if (!task)
        return rota_error_set(error, why.code, "%s", why.text);
    task->on_result = on_done;
    task->is_look = type == &ROTA_QUEUE_DESCRIBE;
    task->is_stream = strcmp(method, "Watch") == 0;
    rota_message_encode(type, &about, &task->request);
    return begin(task, false);
}

enum rota_code rota_queue_look(struct rota_queue *queue, const char *job,
                               rota_queue_on_result *on_seen, void *data, struct rota_error *error)
{
    return ask_about(queue, "Describe", &ROTA_QUEUE_DESCRIBE, job, (struct rota_queue_about){0},
                     on_seen, data, error);
}

enum rota_code rota_queue_wait(struct rota_queue *queue, const char *job,
                               rota_queue_on_result *on_ended, void *data, struct rota_error *error)
{
    return ask_about(queue, "Watch", &ROTA_QUEUE_NAME, job, (struct rota_queue_about){0}, on_ended,
                     data, error);
}

enum rota_code rota_queue_cancel(struct rota_queue *queue, const char *job,
                                 rota_queue_on_result *on_done, void *data,
                                 struct rota_error *error)
{
    return ask_about(queue, "Cancel", &ROTA_QUEUE_NAME, job, (struct rota_queue_about){0}, on_done,
                     data, error);
}

enum rota_code rota_queue_complete(struct rota_queue *queue, const char *job, uint64_t attempt,
                                   struct rota_str result, rota_queue_on_result *on_done,
                                   void *data, struct rota_error *error)
{
    return ask_about(queue, "Complete", &ROTA_QUEUE_COMPLETE, job,
                     (struct rota_queue_about){.attempt = attempt, .bytes = result}, on_done, data,
                     error);
}

enum rota_code rota_queue_fail(struct rota_queue *queue, const char *job, uint64_t attempt,
                               struct rota_str reason, bool is_final, rota_queue_on_result *on_done,
                               void *data, struct rota_error *error)
{
    return ask_about(
        queue, "Fail", &ROTA_QUEUE_FAIL, job,
        (struct rota_queue_about){.attempt = attempt, .bytes = reason, .is_final = is_final},
        on_done, data, error);
}

enum rota_code rota_queue_extend(struct rota_queue *queue, const char *job, uint64_t attempt,
                                 rota_time lease, struct rota_str progress,
                                 rota_queue_on_result *on_done, void *data,
                                 struct rota_error *error)
{
    return ask_about(queue, "Extend", &ROTA_QUEUE_EXTEND, job,
                     (struct rota_queue_about){.attempt = attempt,
                                               .bytes = progress,
                                               .lease_ms = rota_queue_to_ms(lease)},
                     on_done, data, error);
}

enum rota_code rota_queue_poll(struct rota_queue *queue, const struct rota_queue_wanted *wanted,
                               void (*on_work)(void *data, const struct rota_queue_result *result,
                                               const struct rota_queue_work *works, size_t n),
                               void *data, struct rota_error *error)
{
    struct rota_partition of = {
        .namespace_id = rota_str("default"), .queue = wanted->queue, .type = ROTA_TASK_WORKFLOW};
    enum rota_code code = rota_job_queue_check(wanted->queue, error);
    struct task *task = code ? NULL : make(queue, "Poll", data, error);
    if (!task)
        return code ? code : ROTA_ERR_LIMIT;
    struct rota_queue_poll request = {
        .queues = {&wanted->queue, 1},
        .can = {wanted->can, wanted->n_can},
        .max_jobs = wanted->max_jobs,
        .lease_ms = rota_queue_to_ms(wanted->lease),
        .wait_ms = rota_queue_to_ms(wanted->wait ? wanted->wait : 30 * ROTA_SEC),
        .worker = wanted->worker,
    };
    task->name = wanted->queue;
    if (!keep(task, &task->name)) {
        drop(task);
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for a poll");
    }
    learn_layout(queue, wanted->queue);
    code = rota_picker_read(queue->picker, rota_clock_mono(), &of,
                            rota_broker_cluster_layout(queue->cluster, wanted->queue).read,
                            &queue->random, &task->poll, error);
    if (code) {
        drop(task);
        return code;
    }
    task->is_poll = true;
    task->wait = rota_queue_from_ms(request.wait_ms);
    task->partition = (uint32_t)task->poll.partition;
    task->on_work = on_work;
    rota_message_encode(&ROTA_QUEUE_POLL, &request, &task->request);
    return begin(task, false);
}

/* --- life --- */

enum rota_code rota_queue_open(struct uv_loop_s *loop, const struct rota_queue_options *options,
                               struct rota_queue **queue, struct rota_error *error)
{
    struct rota_broker_cluster_options with = {.partitions =
                                                   options->partitions ? options->partitions : 16,
                                               .tls = options->tls,
                                               .insecure = options->insecure,
                                               .is_client = true};
    struct rota_queue *made = calloc(1, sizeof *made);
    uint64_t seed = uv_hrtime();
    uv_random(NULL, NULL, &seed, sizeof seed, 0, NULL);
    if (!made)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for a client of queues");
    made->loop = loop;
    made->timeout = options->timeout ? options->timeout : 10 * ROTA_SEC;
    made->patience = options->patience ? options->patience : 30 * ROTA_SEC;
    rota_random_init(&made->random, seed);
    rota_list_init(&made->tasks);
    rota_map_init(&made->learned, seed);
    enum rota_code code = ROTA_OK;
    if (with.partitions > ROTA_JOB_PARTITIONS_MAX)
        code = rota_error_set(error, ROTA_ERR_INVALID, "a queue has at most %d partitions",
                              ROTA_JOB_PARTITIONS_MAX);
    if (!code)
        code = rota_picker_new(seed, &made->picker, error);
    if (!code)
        code = rota_hosts_list_new(options->nodes ? options->nodes : "", &with.source, error);
    if (!code)
        code = rota_broker_cluster_open(loop, &with, &made->cluster, error);
    if (code)
        rota_queue_close(made);
    else
        *queue = made;
    return code;
}

void rota_queue_close(struct rota_queue *queue)
{
    struct rota_list_node *link;
    if (!queue)
        return;
    while ((link = rota_list_first(&queue->tasks)))
        drop(ROTA_LIST_ITEM(link, struct task, link));
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(&queue->learned, &place));)
        free(entry->value);
    rota_map_deinit(&queue->learned);
    rota_broker_cluster_close(queue->cluster);
    rota_picker_free(queue->picker);
    rota_arena_deinit(&queue->arena);
    free(queue);
}
