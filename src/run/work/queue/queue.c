#include <rota/queue.h>

#include "io/clock.h"
#include "run/work/queue/queue_task.h"

#include <stdlib.h>

/* --- adding --- */

enum rota_code rota_queue_check(const struct rota_queue_job *job, struct rota_error *error)
{
    struct rota_job_spec spec = {.queue = job->queue,
                                 .payload = job->payload,
                                 .capabilities = job->can,
                                 .n_capabilities = job->n_can,
                                 .priority = job->priority,
                                 .timeout = job->timeout,
                                 .max_attempts = job->max_attempts,
                                 .backoff = job->backoff,
                                 .backoff_max = job->backoff_max,
                                 .unique = job->unique,
                                 .key = job->key,
                                 .trace = job->trace};
    enum rota_code code = rota_job_spec_check(&spec, error);
    if (!code && job->idempotency_key.size > ROTA_JOB_KEY_MAX)
        code = rota_error_set(error, ROTA_ERR_INVALID, "idempotency_key has 1 to %d bytes, not %zu",
                              ROTA_JOB_KEY_MAX, job->idempotency_key.size);
    if (!code && job->idempotency_key.size > 0 && job->unique.size > 0)
        code = rota_error_set(error, ROTA_ERR_INVALID,
                              "a job can have an idempotency_key or a unique key, not both");
    if (!code && job->deadline != 0 && job->deadline <= rota_clock_wall())
        code = rota_error_set(error, ROTA_ERR_INVALID, "the deadline of the job has passed");
    return code;
}

static bool keep_all(struct rota_queue_task *task, const struct rota_str *items, size_t n,
                     struct rota_message_strs *kept)
{
    struct rota_str *copies = rota_arena_take(&task->memory, (n + 1) * sizeof *copies);
    bool is_fine = copies;
    for (size_t i = 0; is_fine && i < n; i++) {
        copies[i] = items[i];
        is_fine = rota_queue_task_keep(task, &copies[i]);
    }
    *kept = (struct rota_message_strs){copies, is_fine ? n : 0};
    return is_fine;
}

static bool keep_job(struct rota_queue_task *task, const struct rota_queue_job *job,
                     struct rota_queue_item *item)
{
    struct rota_queue_job_spec *spec = &item->spec;
    *item = (struct rota_queue_item){.spec = {.queue = task->name,
                                              .payload = job->payload,
                                              .priority = job->priority,
                                              .delay_ms = rota_queue_to_ms(job->delay),
                                              .timeout_ms = rota_queue_to_ms(job->timeout),
                                              .max_attempts = job->max_attempts,
                                              .backoff_ms = rota_queue_to_ms(job->backoff),
                                              .backoff_max_ms = rota_queue_to_ms(job->backoff_max),
                                              .deadline_ms = rota_queue_to_ms(job->deadline),
                                              .unique = job->unique,
                                              .key = job->key,
                                              .trace = job->trace,
                                              .idempotency_key = job->idempotency_key}};
    return rota_queue_task_keep(task, &spec->payload) &&
           rota_queue_task_keep(task, &spec->unique) && rota_queue_task_keep(task, &spec->key) &&
           rota_queue_task_keep(task, &spec->trace) &&
           rota_queue_task_keep(task, &spec->idempotency_key) &&
           keep_all(task, job->can, job->n_can, &spec->can);
}

static enum rota_code make_adds(struct rota_queue *queue, const struct rota_queue_job *jobs,
                                size_t n, const char *method, void *data,
                                struct rota_queue_task **made, struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    if (n < 1 || n > ROTA_QUEUE_ADDS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "add 1 to %d jobs at a time, not %zu",
                              ROTA_QUEUE_ADDS_MAX, n);
    for (size_t i = 0; !code && i < n; i++) {
        code = rota_queue_check(&jobs[i], error);
        if (!code && !rota_str_is_equal(jobs[i].queue, jobs[0].queue))
            code = rota_error_set(error, ROTA_ERR_INVALID, "add jobs of one queue at a time");
    }
    if (code)
        return code;
    struct rota_queue_task *task =
        rota_queue_task_make(queue, ROTA_QUEUE_TASK_ADD, method, jobs[0].queue, data, error);
    if (!task)
        return ROTA_ERR_LIMIT;
    task->items = rota_arena_take(&task->memory, n * sizeof *task->items);
    bool is_fine = task->items;
    for (size_t i = 0; is_fine && i < n; i++)
        is_fine = keep_job(task, &jobs[i], &task->items[i]);
    if (!is_fine) {
        rota_queue_task_drop(task);
        return rota_error_no_memory(error, "for a job");
    }
    task->n_items = n;
    *made = task;
    return ROTA_OK;
}

enum rota_code rota_queue_add(struct rota_queue *queue, const struct rota_queue_job *job,
                              rota_queue_on_result *on_added, void *data, struct rota_error *error)
{
    struct rota_queue_task *task;
    enum rota_code code = make_adds(queue, job, 1, "/rota.v1.Queue/Add", data, &task, error);
    if (code)
        return code;
    task->on_result = on_added;
    return rota_queue_task_begin_add(task);
}

enum rota_code rota_queue_add_all(struct rota_queue *queue, const struct rota_queue_job *jobs,
                                  size_t n, rota_queue_on_results *on_added, void *data,
                                  struct rota_error *error)
{
    struct rota_queue_task *task;
    enum rota_code code = make_adds(queue, jobs, n, "/rota.v1.Queue/AddBatch", data, &task, error);
    if (code)
        return code;
    task->is_batch = true;
    task->on_results = on_added;
    return rota_queue_task_begin_add(task);
}

/* --- jobs that exist --- */

/* A task about one job that is named. */
static struct rota_queue_task *make_about(struct rota_queue *queue, enum rota_queue_kind kind,
                                          const char *method, const char *job, void *data,
                                          struct rota_queue_about *about,
                                          char id[ROTA_QUEUE_ID_SIZE], struct rota_error *error)
{
    const char *slash = strchr(job, '/');
    struct rota_job_id number;
    if (!slash) {
        rota_error_set(error, ROTA_ERR_INVALID, "a job is named QUEUE/ID");
        return NULL;
    }
    struct rota_str name = rota_str_of(job, (size_t)(slash - job));
    if (rota_job_queue_check(name, error) || rota_job_id_parse(rota_str(slash + 1), &number, error))
        return NULL;
    struct rota_queue_task *task = rota_queue_task_make(queue, kind, method, name, data, error);
    if (task) {
        task->id = number;
        task->partition = rota_work_broker_cluster_place(queue->cluster, number);
        about->queue = task->name;
        about->id = rota_queue_message_id_write(number, id);
    }
    return task;
}

static enum rota_code ask_about(struct rota_queue *queue, enum rota_queue_kind kind,
                                const char *method, const struct rota_message_type *type,
                                const char *job, struct rota_queue_about about,
                                rota_queue_on_result *on_done, void *data, struct rota_error *error)
{
    char id[ROTA_QUEUE_ID_SIZE];
    struct rota_error why = {.code = ROTA_ERR_NO_MEMORY};
    struct rota_queue_task *task = make_about(queue, kind, method, job, data, &about, id, &why);
    if (!task)
        return rota_error_set(error, why.code, "%s", why.text);
    task->on_result = on_done;
    if (about.lease_ms > 0)
        task->timeout = rota_time_min(task->timeout, rota_queue_from_ms(about.lease_ms) / 4);
    rota_message_encode(type, &about, &task->request);
    return rota_queue_task_begin(task, false);
}

enum rota_code rota_queue_look(struct rota_queue *queue, const char *job,
                               rota_queue_on_result *on_seen, void *data, struct rota_error *error)
{
    return ask_about(queue, ROTA_QUEUE_TASK_LOOK, "/rota.v1.Queue/Describe", &ROTA_QUEUE_DESCRIBE,
                     job, (struct rota_queue_about){0}, on_seen, data, error);
}

enum rota_code rota_queue_describe(struct rota_queue *queue, const char *job, bool with_payload,
                                   rota_queue_on_result *on_seen, void *data,
                                   struct rota_error *error)
{
    return ask_about(queue, ROTA_QUEUE_TASK_LOOK, "/rota.v1.Queue/Describe", &ROTA_QUEUE_DESCRIBE,
                     job,
                     (struct rota_queue_about){.with_payload = with_payload, .asks_nodes = true},
                     on_seen, data, error);
}

enum rota_code rota_queue_wait(struct rota_queue *queue, const char *job,
                               rota_queue_on_result *on_ended, void *data, struct rota_error *error)
{
    return ask_about(queue, ROTA_QUEUE_TASK_WAIT, "/rota.v1.Queue/Watch", &ROTA_QUEUE_NAME, job,
                     (struct rota_queue_about){0}, on_ended, data, error);
}

static enum rota_code change_job(struct rota_queue *queue, const char *method,
                                 const struct rota_message_type *type, const char *job,
                                 struct rota_queue_about about, rota_queue_on_result *on_done,
                                 void *data, struct rota_error *error)
{
    return ask_about(queue, ROTA_QUEUE_TASK_PLAIN, method, type, job, about, on_done, data, error);
}

enum rota_code rota_queue_cancel(struct rota_queue *queue, const char *job,
                                 rota_queue_on_result *on_done, void *data,
                                 struct rota_error *error)
{
    return change_job(queue, "/rota.v1.Queue/Cancel", &ROTA_QUEUE_NAME, job,
                      (struct rota_queue_about){0}, on_done, data, error);
}

enum rota_code rota_queue_retry(struct rota_queue *queue, const char *job,
                                rota_queue_on_result *on_done, void *data, struct rota_error *error)
{
    return change_job(queue, "/rota.v1.Queue/Retry", &ROTA_QUEUE_NAME, job,
                      (struct rota_queue_about){0}, on_done, data, error);
}

enum rota_code rota_queue_set_priority(struct rota_queue *queue, const char *job, int16_t priority,
                                       rota_queue_on_result *on_done, void *data,
                                       struct rota_error *error)
{
    return change_job(queue, "/rota.v1.Queue/SetPriority", &ROTA_QUEUE_PRIORITY, job,
                      (struct rota_queue_about){.priority = priority}, on_done, data, error);
}

/* --- queues --- */

enum rota_code rota_queue_list(struct rota_queue *queue, struct rota_str name,
                               enum rota_queue_state state, uint32_t max, uint64_t after,
                               rota_queue_on_results *on_listed, void *data,
                               struct rota_error *error)
{
    struct rota_queue_list_request request = {
        .queue = name, .state = (uint64_t)state, .max_jobs = max, .after = after};
    enum rota_code code = rota_job_queue_check(name, error);
    struct rota_queue_task *task =
        code ? NULL
             : rota_queue_task_make(queue, ROTA_QUEUE_TASK_LIST, "/rota.v1.Queue/List", name, data,
                                    error);
    if (!task)
        return code ? code : ROTA_ERR_LIMIT;
    task->on_results = on_listed;
    rota_message_encode(&ROTA_QUEUE_LIST, &request, &task->request);
    return rota_queue_task_begin(task, false);
}

enum rota_code rota_queue_count(struct rota_queue *queue, struct rota_str name,
                                rota_queue_on_result *on_counted, void *data,
                                struct rota_error *error)
{
    struct rota_queue_page request = {.queue = name};
    enum rota_code code = rota_job_queue_check(name, error);
    struct rota_queue_task *task =
        code ? NULL
             : rota_queue_task_make(queue, ROTA_QUEUE_TASK_COUNT, "/rota.v1.Queue/Queues", name,
                                    data, error);
    if (!task)
        return code ? code : ROTA_ERR_LIMIT;
    task->on_result = on_counted;
    rota_message_encode(&ROTA_QUEUE_PAGE, &request, &task->request);
    return rota_queue_task_begin(task, false);
}

/* --- work --- */

enum rota_code rota_queue_finish(struct rota_queue *queue, const char *job, uint64_t attempt,
                                 const struct rota_queue_outcome *outcome,
                                 rota_queue_on_result *on_done, void *data,
                                 struct rota_error *error)
{
    bool is_done = outcome->how == ROTA_QUEUE_END_DONE;
    return change_job(
        queue, is_done ? "/rota.v1.Queue/Complete" : "/rota.v1.Queue/Fail",
        is_done ? &ROTA_QUEUE_COMPLETE : &ROTA_QUEUE_FAIL, job,
        (struct rota_queue_about){.attempt = attempt,
                                  .bytes = outcome->result,
                                  .log = outcome->log,
                                  .is_final = outcome->how == ROTA_QUEUE_END_FINAL,
                                  .is_given_back = outcome->how == ROTA_QUEUE_END_RETURNED,
                                  .retry_after_ms = rota_queue_to_ms(outcome->retry_after)},
        on_done, data, error);
}

enum rota_code rota_queue_complete(struct rota_queue *queue, const char *job, uint64_t attempt,
                                   struct rota_str result, rota_queue_on_result *on_done,
                                   void *data, struct rota_error *error)
{
    const struct rota_queue_outcome outcome = {.how = ROTA_QUEUE_END_DONE, .result = result};
    return rota_queue_finish(queue, job, attempt, &outcome, on_done, data, error);
}

enum rota_code rota_queue_fail(struct rota_queue *queue, const char *job, uint64_t attempt,
                               struct rota_str reason, bool is_final, rota_queue_on_result *on_done,
                               void *data, struct rota_error *error)
{
    const struct rota_queue_outcome outcome = {
        .how = is_final ? ROTA_QUEUE_END_FINAL : ROTA_QUEUE_END_FAILED, .result = reason};
    return rota_queue_finish(queue, job, attempt, &outcome, on_done, data, error);
}

enum rota_code rota_queue_extend(struct rota_queue *queue, const char *job, uint64_t attempt,
                                 rota_time lease, struct rota_str progress,
                                 rota_queue_on_result *on_done, void *data,
                                 struct rota_error *error)
{
    return change_job(queue, "/rota.v1.Queue/Extend", &ROTA_QUEUE_EXTEND, job,
                      (struct rota_queue_about){.attempt = attempt,
                                                .bytes = progress,
                                                .lease_ms = rota_queue_to_ms(lease)},
                      on_done, data, error);
}

static enum rota_code make_poll(struct rota_queue *queue, const struct rota_queue_wanted *wanted,
                                struct rota_queue_task *task, struct rota_error *error)
{
    struct rota_partition of = {
        .namespace_id = rota_str("default"), .queue = wanted->queue, .type = ROTA_TASK_WORKFLOW};
    struct rota_str *queues = rota_arena_take(&task->memory, (wanted->n_more + 1) * sizeof *queues);
    if (!queues)
        return rota_error_no_memory(error, "for a poll");
    queues[0] = wanted->queue;
    for (size_t i = 0; i < wanted->n_more; i++)
        queues[i + 1] = wanted->more[i];
    struct rota_queue_poll request = {
        .queues = {queues, wanted->n_more + 1},
        .can = {wanted->can, wanted->n_can},
        .max_jobs = wanted->max_jobs,
        .lease_ms = rota_queue_to_ms(wanted->lease),
        .wait_ms = rota_queue_to_ms(wanted->wait ? wanted->wait : 30 * ROTA_SEC),
        .worker = wanted->worker,
    };
    rota_message_encode(&ROTA_QUEUE_POLL, &request, &task->request);
    task->wait = rota_queue_from_ms(request.wait_ms);
    return rota_picker_read(queue->picker, rota_clock_mono(), &of,
                            rota_work_broker_cluster_layout(queue->cluster, wanted->queue).read,
                            &queue->random, &task->poll, error);
}

enum rota_code rota_queue_poll(struct rota_queue *queue, const struct rota_queue_wanted *wanted,
                               rota_queue_on_work *on_work, void *data, struct rota_error *error)
{
    enum rota_code code = rota_job_queue_check(wanted->queue, error);
    struct rota_queue_task *task =
        code ? NULL
             : rota_queue_task_make(queue, ROTA_QUEUE_TASK_PLAIN, "/rota.v1.Queue/Poll",
                                    wanted->queue, data, error);
    if (!task)
        return code ? code : ROTA_ERR_LIMIT;
    if (rota_work_broker_cluster_n_peers(queue->cluster) > 1) /* there is a choice */
        rota_queue_task_learn(queue, wanted->queue, false);
    code = make_poll(queue, wanted, task, error);
    if (code) {
        rota_queue_task_drop(task);
        return code;
    }
    task->kind = ROTA_QUEUE_TASK_POLL; /* from now on there is a partition to give back */
    task->partition = (uint32_t)task->poll.partition;
    task->on_work = on_work;
    return rota_queue_task_begin(task, false);
}

void rota_queue_stop_polls(struct rota_queue *queue)
{
    struct rota_list_node *next;
    for (struct rota_list_node *link = queue->tasks.next; link != &queue->tasks; link = next) {
        struct rota_queue_task *task = ROTA_LIST_ITEM(link, struct rota_queue_task, link);
        next = link->next;
        if (task->kind == ROTA_QUEUE_TASK_POLL)
            rota_queue_task_drop(task);
    }
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
        return rota_error_no_memory(error, "for a queue client");
    made->loop = loop;
    made->options = *options;
    if (!options->timeout)
        made->options.timeout = 10 * ROTA_SEC;
    if (!options->patience)
        made->options.patience = 30 * ROTA_SEC;
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
        code = rota_work_broker_cluster_open(loop, &with, &made->cluster, error);
    if (code)
        rota_queue_close(made);
    else
        *queue = made;
    return code;
}

void rota_queue_close(struct rota_queue *queue)
{
    if (!queue)
        return;
    ROTA_LIST_DRAIN (task, &queue->tasks, struct rota_queue_task, link)
        rota_queue_task_drop(task);
    rota_map_deinit_values(&queue->learned);
    rota_work_broker_cluster_close(queue->cluster);
    rota_picker_free(queue->picker);
    rota_arena_deinit(&queue->arena);
    free(queue);
}

enum rota_code rota_queue_probe(struct rota_queue *queue, rota_queue_on_result *on_done, void *data,
                                struct rota_error *error)
{
    struct rota_queue_task *task = rota_queue_task_make(
        queue, ROTA_QUEUE_TASK_PROBE, "/rota.v1.Queue/Nodes", rota_str("probe"), data, error);
    if (!task)
        return ROTA_ERR_LIMIT;
    task->on_result = on_done;
    return rota_queue_task_begin(task, false);
}

void rota_queue_await(struct rota_queue *queue)
{
    queue->is_awaited = true;
    do {
        queue->is_idle = queue->n_asked == 0;
        if (!queue->is_idle)
            uv_run(queue->loop, UV_RUN_DEFAULT);
    } while (queue->is_idle && queue->n_asked > 0); /* a callback has asked for more */
    queue->is_awaited = false;
}
