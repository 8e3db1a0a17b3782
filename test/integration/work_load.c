/* Submitters and workers over gRPC, for test_work_processes.py; work_serve.c has workers over
 * ZeroMQ, and test/lib/work_lines.h what all of them write.
 *
 *     work_load submit NODE[,NODE...] QUEUE N PER_SECOND SEED LARGE_PER_MILLE LARGE_SIZE
 *     work_load work NODE[,NODE...] QUEUE NAME SEED SLOTS LEASE_MS CAPABILITY...
 *
 * A submitter ends when N jobs are acknowledged: an add whose outcome is not known is made again
 * with the same id, one that was refused with another.
 *
 * An end whose outcome is not known is told again. Some jobs take a while, some fail, some are
 * held until their lease is over. SIGTERM ends a worker. */
#include "base/arena.h"
#include "base/buffer.h"
#include "base/list.h"
#include "io/clock.h"
#include "wire/message/queue_message.h"
#include "work_lines.h"

#include <rota/experimental/channel.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum {
    NODES_MAX = 8,
    BATCH_MAX = 64,
    WINDOW = 8,
    PARTITIONS = 16,
    CAPABILITIES_MAX = 8,
    SMALL_SIZE = 100,
    LARGE_MAX = 1 << 20,
    PAUSE_MS = 50, /* before something is tried again */
};

#define CALL_TIMEOUT (5 * ROTA_SEC)
#define POLL_WAIT    (2 * ROTA_SEC)

static const char *const CAPABILITIES[] = {"", "go", "chess", "draughts"};
enum { N_CAPABILITIES = 4 };

static uv_loop_t loop;
static uv_timer_t timer;
static uv_check_t check;
static uv_signal_t terminate;
static struct rota_channel *nodes[NODES_MAX];
static size_t n_nodes;
static struct rota_str queue;

static void on_check(uv_check_t *handle)
{
    (void)handle;
    flush_lines();
}

/* --- calls --- */

/* Whether a status leaves open what became of a request. */
static bool is_open(enum rota_status status)
{
    return status == ROTA_STATUS_CANCELLED || status == ROTA_STATUS_UNKNOWN ||
           status == ROTA_STATUS_DEADLINE_EXCEEDED || status == ROTA_STATUS_INTERNAL ||
           status == ROTA_STATUS_UNAVAILABLE || status == ROTA_STATUS_DATA_LOSS;
}

/* False: nothing was started. */
static bool start(size_t node, const char *method, const struct rota_message_type *type,
                  const void *message, rota_time timeout,
                  void (*on_end)(void *data, struct rota_call *call,
                                 const struct rota_call_result *result),
                  void *data)
{
    static struct rota_buffer request;
    char path[64];
    snprintf(path, sizeof path, "/rota.v1.Queue/%s", method);
    rota_buffer_clear(&request);
    rota_message_encode(type, message, &request);
    flush_lines();
    struct rota_call_options options = {.method = rota_str(path),
                                        .request = rota_buffer_str(&request),
                                        .timeout = timeout,
                                        .on_end = on_end,
                                        .data = data};
    return rota_channel_call(nodes[node], &options, NULL, NULL) == ROTA_OK;
}

static void open_nodes(char *list)
{
    struct rota_channel_options options = {
        .message_max = 32 << 20, .backoff_first = 20 * ROTA_MSEC, .backoff_max = 200 * ROTA_MSEC};
    struct rota_error error;
    for (char *rest = list, *name; n_nodes < NODES_MAX && (name = strsep(&rest, ","));)
        if (rota_channel_open(&loop, name, &options, &nodes[n_nodes++], &error))
            give_up(name, error.text);
}

/* --- submitting --- */

struct batch {
    size_t n;
    struct rota_queue_job_spec specs[BATCH_MAX];
    struct rota_job_id numbers[BATCH_MAX];
    char ids[BATCH_MAX][ROTA_QUEUE_ID_SIZE];
    struct rota_str can[BATCH_MAX];
    bool is_doubtful; /* a try of it may have been carried out */
    bool is_waiting;  /* for another try */
    size_t node;
};

static struct batch batches[WINDOW];
static size_t n_wanted, n_made, n_acknowledged; /* those that were refused are made again */
static uint64_t per_second;
static rota_time began_at;
static uint64_t large_per_mille, large_size;
static bool is_over;

static void send_batch(struct batch *batch);

static void make_batch(struct batch *batch)
{
    batch->n = 0;
    batch->is_doubtful = false;
    batch->node = rota_random_below(&chance, n_nodes);
    size_t want = 1 + rota_random_below(&chance, BATCH_MAX);
    size_t n_due = 1 + (size_t)((double)(rota_clock_mono() - began_at) / ROTA_SEC * per_second);
    for (; batch->n < want && n_made < n_wanted && n_made < n_due; n_made++) {
        size_t i = batch->n++;
        uint32_t partition = (uint32_t)rota_random_below(&chance, PARTITIONS);
        bool is_large = rota_random_below(&chance, 1000) < large_per_mille;
        size_t size = is_large ? (size_t)large_size : SMALL_SIZE;
        const char *can = CAPABILITIES[rota_random_below(&chance, N_CAPABILITIES)];
        batch->numbers[i] =
            rota_job_id_make(rota_clock_wall(), partition, rota_random_next(&chance));
        char *payload = malloc(size);
        if (!payload)
            give_up("payload", "no memory");
        fill_payload(batch->numbers[i], payload, size);
        batch->can[i] = rota_str(can);
        batch->specs[i] = (struct rota_queue_job_spec){
            .queue = queue,
            .payload = rota_str_of(payload, size),
            .id = rota_queue_message_id_write(batch->numbers[i], batch->ids[i]),
            .can = {&batch->can[i], *can ? 1 : 0},
            .partition = partition,
            .priority = (int64_t)rota_random_below(&chance, 5) - 2,
            .max_attempts = ROTA_JOB_ATTEMPTS_MAX,
            .backoff_ms = 10,
            .backoff_max_ms = 200,
        };
        log_job("add", batch->numbers[i]);
        rota_buffer_print(&lines, " %s %zu\n", *can ? can : "-", size);
    }
}

/* What is left of a batch: those that are not settled. */
static void keep_job(struct batch *batch, size_t *n_kept, size_t i)
{
    size_t to = (*n_kept)++;
    batch->numbers[to] = batch->numbers[i];
    batch->can[to] = batch->can[i];
    memmove(batch->ids[to], batch->ids[i], sizeof batch->ids[i]);
    batch->specs[to] = batch->specs[i];
    batch->specs[to].id.data = batch->ids[to];
    batch->specs[to].can.items = &batch->can[to];
}

/* True when all went well. */
static bool settle(struct batch *batch, const struct rota_queue_added *added, size_t n)
{
    size_t n_kept = 0, n_refused = 0, n_before = batch->n;
    for (size_t i = 0; i < n_before; i++) {
        enum rota_status status = i < n ? (enum rota_status)added[i].status : ROTA_STATUS_UNKNOWN;
        if (status == ROTA_STATUS_OK) {
            log_job("ack", batch->numbers[i]);
            rota_buffer_append_char(&lines, '\n');
            n_acknowledged++;
        } else if (!batch->is_doubtful && !is_open(status)) {
            log_job("no", batch->numbers[i]);
            rota_buffer_print(&lines, " %s\n", rota_status_name(status));
            if (status != ROTA_STATUS_RESOURCE_EXHAUSTED)
                give_up("a job was refused", rota_status_name(status));
            n_made--;
            n_refused++;
        } else {
            log_job("doubt", batch->numbers[i]);
            rota_buffer_append_char(&lines, '\n');
            batch->specs[i].is_again = true;
            keep_job(batch, &n_kept, i);
            continue;
        }
        free((void *)(uintptr_t)batch->specs[i].payload.data);
    }
    batch->n = n_kept;
    batch->is_waiting = n_kept > 0 || n_made < n_wanted;
    return n_kept == 0 && n_refused == 0;
}

static void on_added(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct batch *batch = data;
    struct rota_arena arena = {0};
    struct rota_queue_list reply;
    (void)call;
    if (result->status != ROTA_STATUS_OK) {
        if (!is_open(result->status))
            give_up("a batch was refused", rota_status_name(result->status));
        batch->is_doubtful = batch->is_doubtful || result->may_have_run;
        if (result->may_have_run)
            settle(batch, NULL, 0);
        batch->is_waiting = true;
        batch->node = (batch->node + 1) % n_nodes;
    } else if (rota_message_decode(&ROTA_QUEUE_ADD_BATCH_REPLY, result->message, &reply, &arena,
                                   NULL)) {
        give_up("AddBatch", "the reply is malformed");
    } else {
        if (settle(batch, reply.items.items, reply.items.n) && batch->is_waiting) {
            batch->is_waiting = false;
            send_batch(batch);
        }
    }
    rota_arena_deinit(&arena);
    is_over = n_acknowledged >= n_wanted;
    if (is_over)
        uv_stop(&loop);
}

static void send_batch(struct batch *batch)
{
    if (batch->n == 0)
        make_batch(batch);
    if (batch->n == 0) {
        batch->is_waiting = true;
        return;
    }
    struct rota_queue_list request = {.items = {batch->specs, batch->n}};
    if (!start(batch->node, "AddBatch", &ROTA_QUEUE_ADD_BATCH, &request, CALL_TIMEOUT, on_added,
               batch)) {
        batch->is_waiting = true;
        batch->node = (batch->node + 1) % n_nodes;
    }
}

static void on_submit_time(uv_timer_t *handle)
{
    (void)handle;
    for (size_t i = 0; i < WINDOW; i++)
        if (batches[i].is_waiting) {
            batches[i].is_waiting = false;
            send_batch(&batches[i]);
        }
}

static int submit(int argc, char **argv)
{
    if (argc != 5)
        give_up("submit", "N PER_SECOND SEED LARGE_PER_MILLE LARGE_SIZE");
    n_wanted = strtoull(argv[0], NULL, 10);
    per_second = strtoull(argv[1], NULL, 10);
    rota_random_init(&chance, strtoull(argv[2], NULL, 10));
    large_per_mille = strtoull(argv[3], NULL, 10);
    large_size = strtoull(argv[4], NULL, 10);
    began_at = rota_clock_mono();
    if (large_size > LARGE_MAX)
        give_up("submit", "too large");
    for (size_t i = 0; i < WINDOW; i++)
        batches[i].is_waiting = true;
    uv_check_start(&check, on_check);
    uv_timer_start(&timer, on_submit_time, 0, PAUSE_MS);
    while (!is_over)
        uv_run(&loop, UV_RUN_DEFAULT);
    flush_lines();
    return 0;
}

/* --- working --- */

struct task {
    struct rota_list_node link;
    struct rota_job_id id;
    uint64_t attempt;
    size_t node;
    rota_time due; /* when to say how it went; ROTA_TIME_NEVER: it is said */
    bool is_failing;
};

static struct rota_list_node tasks;
static size_t n_tasks, slots;
static struct rota_str name, cans[CAPABILITIES_MAX];
static size_t n_cans;
static bool is_polling[NODES_MAX], is_leaving;

static void on_told(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct task *task = data;
    (void)call;
    if (is_open(result->status)) {
        task->due = rota_clock_mono() + PAUSE_MS * ROTA_MSEC;
        task->node = (task->node + 1) % n_nodes;
        return;
    }
    if (result->status == ROTA_STATUS_OK)
        log_attempt("ok", task->id, task->attempt);
    else if (result->status == ROTA_STATUS_ABORTED)
        log_attempt("stale", task->id, task->attempt);
    else if (result->status == ROTA_STATUS_NOT_FOUND)
        log_attempt("gone", task->id, task->attempt);
    else
        give_up("an end was refused", rota_status_name(result->status));
    rota_list_remove(&task->link);
    free(task);
    n_tasks--;
}

static void tell(struct task *task)
{
    char id[ROTA_QUEUE_ID_SIZE];
    struct rota_queue_about about = {.queue = queue,
                                     .id = rota_queue_message_id_write(task->id, id),
                                     .attempt = task->attempt,
                                     .bytes = name,
                                     .retry_after_ms = task->is_failing ? 20 : 0};
    task->due = ROTA_TIME_NEVER;
    if (!start(task->node, task->is_failing ? "Fail" : "Complete",
               task->is_failing ? &ROTA_QUEUE_FAIL : &ROTA_QUEUE_COMPLETE, &about, CALL_TIMEOUT,
               on_told, task)) {
        task->due = rota_clock_mono() + PAUSE_MS * ROTA_MSEC;
        task->node = (task->node + 1) % n_nodes;
    }
}

static struct task *take(size_t node, const struct rota_queue_handed *job, rota_time now)
{
    struct task *task = calloc(1, sizeof *task);
    if (!task || rota_queue_message_id_read(job->id, &task->id, NULL))
        give_up("a job", "it has no id");
    task->attempt = job->attempt;
    task->node = node;
    task->due = now;
    task->due += choose_fate(&task->is_failing);
    log_got(task->id, task->attempt, job->payload, task->is_failing);
    rota_list_push(&tasks, &task->link);
    n_tasks++;
    return task;
}

static void on_polled(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    size_t node = (size_t)((bool *)data - is_polling);
    struct rota_arena arena = {0};
    struct rota_queue_list reply;
    static struct task *taken[ROTA_QUEUE_POLL_MAX];
    (void)call;
    is_polling[node] = false;
    if (result->status != ROTA_STATUS_OK)
        return;
    if (rota_message_decode(&ROTA_QUEUE_POLL_REPLY, result->message, &reply, &arena, NULL))
        give_up("Poll", "the reply is malformed");
    const struct rota_queue_handed *jobs = reply.items.items;
    rota_time now = rota_clock_mono();
    for (size_t i = 0; i < reply.items.n; i++)
        taken[i] = take(node, &jobs[i], now);
    for (size_t i = 0; i < reply.items.n; i++)
        if (taken[i]->due <= now)
            tell(taken[i]);
    rota_arena_deinit(&arena);
}

static void poll_all(void)
{
    for (size_t i = 0; i < n_nodes && !is_leaving; i++) {
        if (is_polling[i] || n_tasks >= slots)
            continue;
        struct rota_queue_poll request = {.queues = {&queue, 1},
                                          .can = {cans, n_cans},
                                          .max_jobs = slots - n_tasks,
                                          .lease_ms = lease_ms,
                                          .wait_ms = rota_queue_to_ms(POLL_WAIT),
                                          .worker = name};
        is_polling[i] = start(i, "Poll", &ROTA_QUEUE_POLL, &request, POLL_WAIT + CALL_TIMEOUT,
                              on_polled, &is_polling[i]);
    }
}

static void on_work_check(uv_check_t *handle)
{
    flush_lines();
    if (is_leaving && n_tasks == 0)
        uv_stop(handle->loop);
    poll_all();
}

static void on_work_time(uv_timer_t *handle)
{
    rota_time now = rota_clock_mono();
    (void)handle;
    for (struct rota_list_node *node = tasks.next, *next; node != &tasks; node = next) {
        next = node->next;
        struct task *task = ROTA_LIST_ITEM(node, struct task, link);
        if (task->due <= now)
            tell(task);
    }
}

static void on_terminate(uv_signal_t *handle, int number)
{
    (void)handle;
    (void)number;
    is_leaving = true;
}

static int work(int argc, char **argv)
{
    if (argc < 4 || argc > 4 + CAPABILITIES_MAX)
        give_up("work", "NAME SEED SLOTS LEASE_MS CAPABILITY...");
    name = rota_str(argv[0]);
    rota_random_init(&chance, strtoull(argv[1], NULL, 10));
    slots = strtoull(argv[2], NULL, 10);
    lease_ms = strtoull(argv[3], NULL, 10);
    rota_buffer_append_text(&lines, "can");
    for (int i = 4; i < argc; i++) {
        cans[n_cans++] = rota_str(argv[i]);
        rota_buffer_print(&lines, " %s", argv[i]);
    }
    rota_buffer_append_char(&lines, '\n');
    rota_list_init(&tasks);
    uv_signal_init(&loop, &terminate);
    uv_signal_start(&terminate, on_terminate, SIGTERM);
    uv_check_start(&check, on_work_check);
    uv_timer_start(&timer, on_work_time, 0, PAUSE_MS);
    uv_run(&loop, UV_RUN_DEFAULT);
    flush_lines();
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4 || uv_loop_init(&loop))
        give_up("arguments", "submit|work NODES QUEUE ...");
    open_nodes(argv[2]);
    queue = rota_str(argv[3]);
    uv_timer_init(&loop, &timer);
    uv_check_init(&loop, &check);
    return strcmp(argv[1], "submit") == 0 ? submit(argc - 4, argv + 4) : work(argc - 4, argv + 4);
}
