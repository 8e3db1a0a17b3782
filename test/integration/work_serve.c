/* A worker over ZeroMQ, for test_work_processes.py: it is connected to all brokers, and writes the
 * lines of test/lib/work_lines.h.
 *
 *     work_serve ADDRESS[,ADDRESS...] QUEUE NAME SEED SLOTS LEASE_MS CAPABILITY...
 *
 * An end is repeated, also in later sessions, until the broker that handed out the job has answered
 * it. SIGTERM ends it, when there is nothing left that it would have to say. */
#include "base/list.h"
#include "io/clock.h"
#include "wire/message/worker_frame.h"
#include "work_lines.h"

#include <rota/experimental/connector.h>
#include <signal.h>
#include <stdlib.h>
#include <uv.h>

enum {
    NODES_MAX = 8,
    CAPABILITIES_MAX = 8,
    TICK_MS = 50,
    AGAIN_MS = 1000, /* until an end that was not answered is said again */
};

struct node {
    struct rota_connector *connector;
    struct rota_connector_peer *broker; /* NULL: there is no session */
    uint32_t ready, ends, slots, holds;
    struct rota_buffer out;
    struct rota_list_node tasks; /* that it is waiting for */
    size_t n_tasks;
};

struct task {
    struct rota_list_node link;
    struct rota_job_id id;
    uint64_t attempt;
    rota_time due; /* when to say how it went, for the first time or once more */
    bool is_failing;
};

static uv_loop_t loop;
static uv_timer_t timer;
static uv_check_t check;
static uv_signal_t terminate;
static struct node nodes[NODES_MAX];
static size_t n_nodes, n_open, n_tasks;
static struct rota_str queue, cans[CAPABILITIES_MAX];
static size_t n_cans;
static uint32_t n_slots;
static bool is_leaving;
static struct rota_worker_running held[ROTA_WORKER_HELD_MAX];

/* What it was told is on record before anybody hears of it. A session that is over is noticed
 * by itself, and all is said again in the next. */
static void say(struct node *node, uint32_t type)
{
    flush_lines();
    if (node->out.failed)
        give_up("a message", "no memory");
    if (node->broker)
        rota_connector_send(node->connector, node->broker, type, rota_buffer_str(&node->out), NULL);
    rota_buffer_clear(&node->out);
}

static size_t list_held(const struct node *node)
{
    size_t n = 0;
    for (struct rota_list_node *link = node->tasks.next; link != &node->tasks; link = link->next) {
        const struct task *task = ROTA_LIST_ITEM(link, struct task, link);
        if (n == ROTA_WORKER_HELD_MAX)
            give_up("jobs", "more than there are slots");
        held[n++] = (struct rota_worker_running){queue, task->id, task->attempt};
    }
    return n;
}

static void say_slots(struct node *node)
{
    rota_worker_batch_slots_write(is_leaving ? 0 : n_slots, &node->out);
    say(node, node->slots);
}

static void say_ends(struct node *node, rota_time now)
{
    size_t n = 0;
    for (struct rota_list_node *link = node->tasks.next;
         node->broker && link != &node->tasks && n < ROTA_WORKER_BATCH_MAX; link = link->next) {
        struct task *task = ROTA_LIST_ITEM(link, struct task, link);
        struct rota_attempt_end end = {
            .queue = queue,
            .id = task->id,
            .attempt = task->attempt,
            .cause = task->is_failing ? ROTA_JOB_CAUSE_FAILED : ROTA_JOB_CAUSE_DONE,
            .retry_after = task->is_failing ? 20 * ROTA_MSEC : 0,
        };
        if (task->due > now)
            continue;
        task->due = now + AGAIN_MS * ROTA_MSEC;
        rota_worker_batch_end_write(&end, &node->out);
        n++;
    }
    if (n > 0)
        say(node, node->ends);
}

/* --- what the broker says --- */

static void on_connected(void *data, struct rota_connector_peer *peer)
{
    struct node *node = data;
    struct rota_worker_ready ready = {.capabilities = cans,
                                      .n_capabilities = n_cans,
                                      .queues = &queue,
                                      .n_queues = 1,
                                      .running = held,
                                      .n_running = list_held(node),
                                      .takes_ended_with_jobs = true};
    node->broker = peer;
    ready.slots = n_slots > ready.n_running ? n_slots : (uint32_t)ready.n_running;
    rota_worker_batch_ready_write(&ready, &node->out);
    say(node, node->ready);
    say_slots(node);
    for (struct rota_list_node *link = node->tasks.next; link != &node->tasks; link = link->next) {
        struct task *task = ROTA_LIST_ITEM(link, struct task, link);
        task->due = rota_time_min(task->due, rota_clock_mono() + TICK_MS * ROTA_MSEC);
    }
}

static void on_disconnected(void *data, struct rota_connector_peer *peer,
                            const struct rota_error *why)
{
    (void)peer, (void)why;
    ((struct node *)data)->broker = NULL;
}

static struct task *find(const struct node *node, const struct rota_worker_verdict *verdict)
{
    for (struct rota_list_node *link = node->tasks.next; link != &node->tasks; link = link->next) {
        struct task *task = ROTA_LIST_ITEM(link, struct task, link);
        if (task->attempt == verdict->attempt && task->id.high == verdict->id.high &&
            task->id.low == verdict->id.low)
            return task;
    }
    return NULL;
}

static void take_verdicts(struct node *node, struct rota_worker_batch batch)
{
    struct rota_worker_verdict verdict;
    struct rota_error error;
    enum rota_code code;
    while (rota_worker_batch_verdict_next(&batch, &verdict, &code, &error)) {
        struct task *task = find(node, &verdict);
        if (!task)
            continue; /* it was said twice */
        if (verdict.code == ROTA_OK)
            log_attempt("ok", task->id, task->attempt);
        else if (verdict.code == ROTA_ERR_STALE)
            log_attempt("stale", task->id, task->attempt);
        else if (verdict.code == ROTA_ERR_NOT_FOUND)
            log_attempt("gone", task->id, task->attempt);
        else
            give_up("an end was refused", rota_code_name(verdict.code));
        rota_list_remove(&task->link);
        free(task);
        node->n_tasks--;
        n_tasks--;
    }
    if (code)
        give_up("ended", error.text);
}

static void on_ended(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    (void)from;
    take_verdicts(data, rota_worker_batch(message));
}

static void on_jobs(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct node *node = data;
    struct rota_worker_batch batch = rota_worker_batch(message);
    struct rota_worker_job job;
    struct rota_error error;
    enum rota_code code;
    rota_time now = rota_clock_mono();
    (void)from;
    take_verdicts(node, rota_worker_ended_batch(message));
    while (rota_worker_batch_job_next(&batch, &job, &code, &error)) {
        struct task *task = calloc(1, sizeof *task);
        if (!task)
            give_up("a job", "no memory");
        task->id = job.id;
        task->attempt = job.attempt;
        task->due = now + choose_fate(&task->is_failing);
        log_got(task->id, task->attempt, job.payload, task->is_failing);
        rota_list_push(&node->tasks, &task->link);
        node->n_tasks++;
        n_tasks++;
    }
    if (code)
        give_up("jobs", error.text);
    say_ends(node, now);
}

static void on_check(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct node *node = data;
    struct rota_worker_holds holds = {.held = held,
                                      .n_held = list_held(node),
                                      .has_slots = true,
                                      .slots = is_leaving ? 0 : n_slots};
    struct rota_worker_check question;
    struct rota_error error;
    (void)from;
    if (rota_worker_batch_check_read(message, &question, &error))
        give_up("check", error.text);
    holds.up_to = question.up_to;
    holds.round = question.round;
    rota_worker_batch_holds_write(&holds, &node->out);
    say(node, node->holds);
}

/* --- life --- */

static void on_turn(uv_check_t *handle)
{
    flush_lines();
    if (is_leaving && n_tasks == 0)
        uv_stop(handle->loop);
}

static void on_time(uv_timer_t *handle)
{
    rota_time now = rota_clock_mono();
    (void)handle;
    for (size_t i = 0; i < n_nodes; i++)
        say_ends(&nodes[i], now);
}

static void on_terminate(uv_signal_t *handle, int number)
{
    (void)handle, (void)number;
    is_leaving = true;
    for (size_t i = 0; i < n_nodes; i++)
        say_slots(&nodes[i]);
}

static void hear(struct node *node, const char *type, rota_connector_on_message *on_message)
{
    struct rota_error error;
    uint32_t number;
    if (rota_connector_register(node->connector, type, &number, &error) ||
        rota_connector_register_handler_async(node->connector, number, on_message, node, &error))
        give_up(type, error.text);
}

static uint32_t name_type(struct node *node, const char *type)
{
    struct rota_error error;
    uint32_t number = 0;
    if (rota_connector_register(node->connector, type, &number, &error))
        give_up(type, error.text);
    return number;
}

static void open_node(struct node *node, const char *address, const char *name)
{
    struct rota_error error;
    struct rota_connector_options options = {.address = address,
                                             .name = name,
                                             .loop = &loop,
                                             .reconnect_first = 20 * ROTA_MSEC,
                                             .reconnect_max = 200 * ROTA_MSEC,
                                             .on_connected = on_connected,
                                             .on_disconnected = on_disconnected,
                                             .data = node};
    rota_list_init(&node->tasks);
    if (rota_connector_open_worker(&options, &node->connector, &error))
        give_up(address, error.text);
    node->ready = name_type(node, ROTA_WORKER_READY);
    node->ends = name_type(node, ROTA_WORKER_ENDS);
    node->slots = name_type(node, ROTA_WORKER_SLOTS);
    node->holds = name_type(node, ROTA_WORKER_HOLDS);
    hear(node, ROTA_WORKER_JOBS, on_jobs);
    hear(node, ROTA_WORKER_ENDED, on_ended);
    hear(node, ROTA_WORKER_CHECK, on_check);
    if (rota_connector_start(node->connector, &error))
        give_up(address, error.text);
}

static void on_closed(void *data)
{
    (void)data;
    if (--n_open == 0)
        uv_stop(&loop);
}

int main(int argc, char **argv)
{
    if (argc < 7 || argc > 7 + CAPABILITIES_MAX || uv_loop_init(&loop))
        give_up("arguments", "ADDRESSES QUEUE NAME SEED SLOTS LEASE_MS CAPABILITY...");
    queue = rota_str(argv[2]);
    rota_random_init(&chance, strtoull(argv[4], NULL, 10));
    n_slots = (uint32_t)strtoul(argv[5], NULL, 10);
    lease_ms = strtoull(argv[6], NULL, 10);
    rota_buffer_append_text(&lines, "can");
    for (int i = 7; i < argc; i++) {
        cans[n_cans++] = rota_str(argv[i]);
        rota_buffer_print(&lines, " %s", argv[i]);
    }
    rota_buffer_append_char(&lines, '\n');
    for (char *rest = argv[1], *address; n_nodes < NODES_MAX && (address = strsep(&rest, ","));)
        open_node(&nodes[n_nodes++], address, argv[3]);
    uv_signal_init(&loop, &terminate);
    uv_signal_start(&terminate, on_terminate, SIGTERM);
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, on_time, TICK_MS, TICK_MS);
    uv_check_init(&loop, &check);
    uv_check_start(&check, on_turn);
    uv_run(&loop, UV_RUN_DEFAULT);
    flush_lines();
    uv_check_stop(&check);
    n_open = n_nodes;
    for (size_t i = 0; i < n_nodes; i++)
        rota_connector_close(nodes[i].connector, on_closed, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    return 0;
}
