#include "run/work/queue/queue_task.h"
#include "wire/grpc/grpc.h"

#include "base/buffer.h"
#include "io/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum { LEARNED_MAX = 4096 }; /* queues whose layout is requested; others use the default */

#define LEARN_EVERY  (10 * ROTA_SEC)
#define LEARN_URGENT (100 * ROTA_MSEC) /* when a job was refused */

/* A queue in use, whose layout is requested from a node now and then. */
struct learned {
    rota_time asked_at; /* monotonic */
    bool is_known;      /* or could not be, which is the same for the waiting caller */
    char name[];        /* the key in `learned` */
};

/* --- the end of a task --- */

static void on_closed(uv_handle_t *handle)
{
    struct rota_queue_task *task = handle->data;
    rota_buffer_deinit(&task->request);
    rota_buffer_deinit(&task->last);
    rota_arena_deinit(&task->memory);
    free(task);
}

void rota_queue_task_drop(struct rota_queue_task *task)
{
    struct rota_queue *queue = task->queue;
    if (task->call)
        rota_call_cancel(task->call);
    if (task->kind == ROTA_QUEUE_TASK_POLL)
        rota_picker_release(queue->picker, rota_clock_mono(), task->poll);
    rota_list_remove(&task->link);
    queue->n_tasks--;
    queue->n_asked -= task->kind != ROTA_QUEUE_TASK_LEARN;
    if (queue->is_awaited && queue->n_asked == 0) {
        queue->is_idle = true;
        uv_stop(queue->loop);
    }
    uv_close((uv_handle_t *)&task->timer, on_closed);
}

/* --- adds --- */

/* The request, which says if it may have been made before. */
static void write_adds(struct rota_queue_task *task)
{
    struct rota_queue_job_spec one, *specs = &one;
    if (task->is_batch)
        specs = rota_arena_take(&task->queue->arena, task->n_items * sizeof *specs);
    struct rota_queue_list list = {.items = {specs, 0}};
    for (size_t i = 0; specs && i < task->n_items; i++) {
        struct rota_queue_item *item = &task->items[i];
        if (item->is_over)
            continue;
        struct rota_queue_job_spec *spec = &specs[list.items.n++];
        *spec = item->spec;
        if (spec->idempotency_key.size == 0) {
            spec->id = rota_queue_message_id_write(item->id, item->bytes);
            spec->partition = item->partition; /* we may choose another one, with another id */
        }
        spec->is_again = task->tries.is_unknown;
    }
    struct rota_queue_add add = {.job = specs};
    rota_buffer_clear(&task->request);
    if (task->is_batch)
        rota_message_encode(&ROTA_QUEUE_ADD_BATCH, &list, &task->request);
    else
        rota_message_encode(&ROTA_QUEUE_ADD, &add, &task->request);
    task->request.failed |= !specs;
}

/* Any partition that new jobs go to, of a node that can be reached if there is one. */
static uint32_t choose_partition(struct rota_queue_task *task)
{
    enum { DRAWS = 16 };
    struct rota_queue *queue = task->queue;
    struct rota_broker_cluster *cluster = queue->cluster;
    uint32_t n = rota_work_broker_cluster_layout(cluster, task->name).write;
    int64_t any = 0;
    for (int i = 0; i < DRAWS; i++) {
        rota_picker_write(queue->picker, rota_str("default"), n, &queue->random, &any, NULL);
        struct rota_str owner = rota_work_broker_cluster_owner(cluster, task->name, (uint32_t)any);
        if (rota_work_broker_cluster_reach(cluster, owner) != ROTA_REACH_FAILING)
            break;
        rota_work_broker_cluster_connect(cluster, owner);
    }
    return (uint32_t)any;
}

static void place_item(struct rota_queue_task *task, struct rota_queue_item *item)
{
    struct rota_queue *queue = task->queue;
    item->partition =
        item->spec.unique.size > 0
            ? rota_work_broker_cluster_partition_of(queue->cluster, task->name, item->spec.unique)
            : choose_partition(task);
    item->id =
        rota_job_id_make(rota_clock_wall(), item->partition, rota_random_next(&queue->random));
    if (item->spec.idempotency_key.size > 0) { /* as the node derives it, without an answer */
        item->id = rota_job_id_of_key(task->name, item->spec.idempotency_key,
                                      rota_work_broker_cluster_n_partitions(queue->cluster));
        item->partition = rota_job_id_partition(item->id);
    }
}

/* Choose a partition and an id for each job that is not added yet, and write the request. */
static void place_items(struct rota_queue_task *task)
{
    for (size_t i = task->n_items; i-- > 0;) {
        struct rota_queue_item *item = &task->items[i];
        if (item->is_over)
            continue;
        place_item(task, item);
        task->partition = item->partition; /* of several: the first; its node passes others on */
        if (!task->is_batch)
            task->id = item->id;
    }
    write_adds(task);
}

/* --- tries --- */

static void begin_try(struct rota_queue_task *task);

static void on_again(uv_timer_t *timer)
{
    begin_try(timer->data);
}

static void report_retry(const struct rota_queue_task *task, enum rota_status status,
                         const char *text)
{
    const struct rota_queue_options *options = &task->queue->options;
    char name[ROTA_QUEUE_JOB_MAX];
    struct rota_queue_result last =
        rota_queue_reply_failure(task, rota_grpc_code_of_status(status), status, text, name);
    if (options->on_retry && task->kind != ROTA_QUEUE_TASK_LEARN)
        options->on_retry(options->data, &last, task->tries.n_tries);
}

/* A request that changes nothing has no unknown outcome. */
static bool has_outcome(const struct rota_queue_task *task)
{
    switch (task->kind) {
    case ROTA_QUEUE_TASK_PLAIN:
    case ROTA_QUEUE_TASK_ADD:
    case ROTA_QUEUE_TASK_POLL:
    case ROTA_QUEUE_TASK_WAIT: /* of the job */
        return true;
    case ROTA_QUEUE_TASK_LOOK:
    case ROTA_QUEUE_TASK_LIST:
    case ROTA_QUEUE_TASK_COUNT:
    case ROTA_QUEUE_TASK_PROBE:
    case ROTA_QUEUE_TASK_LEARN:
        return false;
    }
    return true;
}

static void handle_reply(struct rota_queue_task *task, enum rota_status status, bool is_undone,
                         const char *text, struct rota_str message)
{
    struct rota_queue *queue = task->queue;
    rota_time now = rota_clock_mono();
    bool is_probe = task->kind == ROTA_QUEUE_TASK_PROBE || task->kind == ROTA_QUEUE_TASK_LEARN;
    task->tries.is_eager = is_probe || (queue->options.fail_fast && !queue->has_answered);
    task->tries.is_alone = queue->n_nodes == 1;
    switch (rota_try_fsm_step(&task->tries, now, status, is_undone)) {
    case ROTA_TRY_DONE:
        rota_queue_reply_end(task, message);
        return;
    case ROTA_TRY_REFUSED:
        rota_queue_reply_fail(task, rota_grpc_code_of_status(status), status, text);
        return;
    case ROTA_TRY_FAILED:
        rota_queue_reply_fail(task, ROTA_ERR_UNAVAILABLE, status, text);
        return;
    case ROTA_TRY_UNKNOWN:
        rota_queue_reply_fail(task, has_outcome(task) ? ROTA_ERR_UNKNOWN : ROTA_ERR_UNAVAILABLE,
                              status, text);
        return;
    case ROTA_TRY_MOVE:
        place_items(task);
        if (task->is_batch) /* of one, the refusal says how many partitions there are */
            rota_queue_task_learn(queue, task->name, true);
        break;
    case ROTA_TRY_AGAIN:
        if (task->kind == ROTA_QUEUE_TASK_ADD)
            write_adds(task);
        break;
    }
    uv_timer_start(&task->timer, on_again, rota_queue_to_ms(task->tries.again_at - now), 0);
    report_retry(task, status, text);
}

/* A node reports that the queue has other partitions than we know of. */
static void learn_partitions(struct rota_queue_task *task, const struct rota_call_result *result)
{
    struct rota_broker_cluster *cluster = task->queue->cluster;
    struct rota_str value;
    char text[16];
    if (task->kind != ROTA_QUEUE_TASK_ADD ||
        !rota_metadata_get(result->metadata, result->n_metadata, ROTA_NOTE_PARTITIONS, &value))
        return;
    snprintf(text, sizeof text, "%.*s", (int)(value.size < 15 ? value.size : 15), value.data);
    unsigned long n = strtoul(text, NULL, 10);
    if (n < 1 || n > ROTA_JOB_PARTITIONS_MAX)
        return;
    struct rota_work_layout layout = rota_work_broker_cluster_layout(cluster, task->name);
    layout.wanted = layout.write = (uint32_t)n;
    uint32_t partitions = rota_work_broker_cluster_n_partitions(cluster);
    layout.read = layout.write > partitions ? layout.write : partitions;
    if (rota_work_broker_cluster_lay_out(cluster, task->name, &layout))
        task->tries.may_move = true; /* also with a unique key, which belongs to another now */
}

static void begin_tries(struct rota_queue_task *task, bool may_move)
{
    size_t n = rota_work_broker_cluster_n_peers(task->queue->cluster);
    rota_try_fsm_init(&task->tries, rota_clock_mono(), task->queue->options.patience, may_move);
    task->tries.n_nodes = (unsigned)n;
}

static void on_task_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct rota_queue_task *task = data;
    enum rota_status status = result->status;
    struct rota_str value;
    char text[ROTA_ERROR_TEXT_MAX];
    (void)call;
    task->call = NULL;
    task->queue->has_answered |= result->may_have_run;
    if (task->has_heard) /* it was healthy until now */
        begin_tries(task, false);
    bool is_undone =
        !result->may_have_run ||
        rota_metadata_get(result->metadata, result->n_metadata, ROTA_NOTE_ELSEWHERE, &value);
    snprintf(text, sizeof text, "%s: %.*s", rota_status_name(status),
             (int)(result->text.size < 400 ? result->text.size : 400), result->text.data);
    learn_partitions(task, result);
    if (status == ROTA_STATUS_OK && task->is_batch) {
        status = rota_queue_reply_settle(task, result->message, text);
        is_undone = status != ROTA_STATUS_INTERNAL;
    }
    handle_reply(task, status, is_undone, text, result->message);
}

static void on_message(void *data, struct rota_call *call, struct rota_str message)
{
    struct rota_queue_task *task = data;
    (void)call;
    task->has_heard = true;
    rota_buffer_clear(&task->last);
    rota_buffer_append_str(&task->last, message);
}

/* The owner first; other nodes, which forward the call, if that failed or is unreachable. */
static struct rota_str node_of(struct rota_queue_task *task)
{
    enum { NODES_MAX = 256 }; /* examined; of more, the first */
    struct rota_broker_cluster *cluster = task->queue->cluster;
    enum rota_reach nodes[NODES_MAX];
    size_t n = rota_work_broker_cluster_n_peers(cluster);
    if (task->kind == ROTA_QUEUE_TASK_PROBE)
        return rota_work_broker_cluster_peer(cluster, task->tries.n_tries % (n > 0 ? n : 1));
    struct rota_str owner = rota_work_broker_cluster_owner(cluster, task->name, task->partition);
    bool is_retry = task->tries.n_tries % 2 != 0;
    n = n < NODES_MAX ? n : NODES_MAX;
    if (n < 2 ||
        (!is_retry && rota_work_broker_cluster_reach(cluster, owner) != ROTA_REACH_FAILING))
        return owner;
    size_t of_owner = n;
    for (size_t i = 0; i < n; i++) {
        struct rota_str node = rota_work_broker_cluster_peer(cluster, i);
        nodes[i] = rota_work_broker_cluster_reach(cluster, node);
        if (rota_str_is_equal(node, owner))
            of_owner = i;
    }
    rota_work_broker_cluster_connect(cluster, owner);
    return rota_work_broker_cluster_peer(
        cluster,
        rota_reach_choose(nodes, n, of_owner, is_retry, rota_random_next(&task->queue->random)));
}

/* How long one try may take: a poll as long as it waits, and then as any call. */
static rota_time timeout_of(const struct rota_queue_task *task)
{
    if (task->kind == ROTA_QUEUE_TASK_WAIT)
        return ROTA_TIME_NEVER;
    return rota_time_add(task->wait, task->timeout);
}

/* The name of the node that is asked is kept, for the result. */
static enum rota_code note_node(struct rota_queue_task *task, struct rota_str node,
                                struct rota_error *error)
{
    if (task->node.size > 0 && rota_str_is_equal(node, task->node))
        return ROTA_OK;
    if (!rota_queue_task_keep(task, &node) || task->request.failed)
        return rota_error_no_memory(error, "for the request");
    task->node = node;
    return ROTA_OK;
}

static void begin_try(struct rota_queue_task *task)
{
    struct rota_error error;
    char text[ROTA_ERROR_TEXT_MAX + 16];
    task->has_heard = false;
    struct rota_call_options options = {
        .method = rota_str(task->method),
        .request = rota_buffer_str(&task->request),
        .timeout = timeout_of(task),
        .on_message = task->kind == ROTA_QUEUE_TASK_WAIT ? on_message : NULL,
        .on_end = on_task_end,
        .data = task,
    };
    enum rota_code code = note_node(task, node_of(task), &error);
    if (!code)
        code = rota_work_broker_cluster_call(task->queue->cluster, task->node, &options,
                                             &task->call, &error);
    if (code == ROTA_ERR_UNAVAILABLE) {
        snprintf(text, sizeof text, "%s: %s", rota_status_name(ROTA_STATUS_UNAVAILABLE),
                 error.text);
        handle_reply(task, ROTA_STATUS_UNAVAILABLE, true, text, rota_str(""));
    } else if (code) {
        rota_queue_reply_fail(task, code, ROTA_STATUS_UNKNOWN, error.text);
    }
}

/* --- beginning --- */

struct rota_queue_task *rota_queue_task_make(struct rota_queue *queue, enum rota_queue_kind kind,
                                             const char *method, struct rota_str name, void *data,
                                             struct rota_error *error)
{
    struct rota_queue_task *task =
        queue->n_tasks < ROTA_QUEUE_CALLS_MAX ? calloc(1, sizeof *task) : NULL;
    if (task)
        task->name = rota_arena_copy(&task->memory, name);
    if (!task || !task->name.data) {
        free(task);
        rota_error_set(error, ROTA_ERR_LIMIT,
                       "not enough memory for a call, or %d calls are already in flight",
                       ROTA_QUEUE_CALLS_MAX);
        return NULL;
    }
    task->queue = queue;
    task->kind = kind;
    task->method = method;
    task->data = data;
    task->timeout = queue->options.timeout;
    uv_timer_init(queue->loop, &task->timer);
    task->timer.data = task;
    rota_list_push(&queue->tasks, &task->link);
    queue->n_tasks++;
    queue->n_asked += kind != ROTA_QUEUE_TASK_LEARN;
    return task;
}

bool rota_queue_task_keep(struct rota_queue_task *task, struct rota_str *text)
{
    *text = rota_arena_copy(&task->memory, *text);
    return text->data;
}

enum rota_code rota_queue_task_begin(struct rota_queue_task *task, bool may_move)
{
    begin_tries(task, may_move);
    uv_timer_start(&task->timer, on_again, 0, 0);
    return ROTA_OK;
}

/* Without memory, or with too many queues, use the options. */
void rota_queue_task_learn(struct rota_queue *queue, struct rota_str name, bool is_urgent)
{
    rota_time now = rota_clock_mono();
    struct learned *learned = rota_map_get(&queue->learned, name);
    if (learned && now - learned->asked_at < (is_urgent ? LEARN_URGENT : LEARN_EVERY))
        return;
    if (!learned && queue->learned.size < LEARNED_MAX &&
        (learned = malloc(sizeof *learned + name.size + 1))) {
        learned->is_known = false;
        memcpy(learned->name, name.data, name.size);
        if (!rota_map_put(&queue->learned, rota_str_of(learned->name, name.size), learned)) {
            free(learned);
            learned = NULL;
        }
    }
    struct rota_queue_task *task =
        learned ? rota_queue_task_make(queue, ROTA_QUEUE_TASK_LEARN, "/rota.v1.Queue/Nodes", name,
                                       NULL, NULL)
                : NULL;
    if (!task) {
        if (learned) /* no answer will come */
            learned->is_known = true;
        return;
    }
    learned->asked_at = now;
    struct rota_queue_setting request = {.queue = name};
    rota_message_encode(&ROTA_QUEUE_PAUSE, &request, &task->request);
    rota_queue_task_begin(task, false);
}

void rota_queue_task_learned(struct rota_queue *queue, struct rota_str name)
{
    struct learned *learned = rota_map_get(&queue->learned, name);
    if (learned)
        learned->is_known = true;
    struct rota_list_node *next;
    for (struct rota_list_node *link = queue->tasks.next; link != &queue->tasks; link = next) {
        struct rota_queue_task *task = ROTA_LIST_ITEM(link, struct rota_queue_task, link);
        next = link->next;
        if (task->is_held && rota_str_is_equal(task->name, name))
            rota_queue_task_begin_add(task);
    }
}

enum rota_code rota_queue_task_begin_add(struct rota_queue_task *task)
{
    struct rota_queue *queue = task->queue;
    rota_queue_task_learn(queue, task->name, false);
    const struct learned *learned = rota_map_get(&queue->learned, task->name);
    task->is_held = learned && !learned->is_known;
    if (task->is_held)
        return ROTA_OK;
    place_items(task);
    return rota_queue_task_begin(task, task->items[0].spec.unique.size == 0);
}
