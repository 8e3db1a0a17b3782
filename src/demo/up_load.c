#include "demo/up.h"

#include "io/clock.h"

#include <ctype.h>
#include <rota/queue.h>
#include <stdio.h>
#include <stdlib.h>

#define TICK        (250 * ROTA_MSEC) /* a job is added */
#define CALL_LIMIT  (15 * ROTA_SEC)
#define STUCK_AFTER (120 * ROTA_SEC) /* without the end of any job */
#define SURELY_KEPT (ROTA_JOB_KEEP - 10 * ROTA_MIN)

enum { LOOKS_PER_TICK = 16, PAYLOAD_MAX = 64, LIST_MAX = 1000 };

const char rota_up_queue[] = "sample";

/* A job from its add to its end. */
struct pending {
    struct rota_up_load *load;
    char job[ROTA_QUEUE_JOB_MAX]; /* empty: not acknowledged yet */
    uint64_t number;              /* 0: the slot is free */
    bool is_asked;
};

enum finish { WORKING, SEEING_TO_THE_END, LISTING, CHECKED };

struct rota_up_load {
    uv_timer_t timer;
    struct rota_queue *queue;
    uint64_t n_added;
    struct pending pending[ROTA_UP_JOBS_MAX];
    size_t n_pending, next_look;
    struct rota_check_jobs *jobs;

    enum finish finish;
    rota_time moved_at; /* when a job was last seen done */
    bool is_asking;     /* a question of the final check is in flight */
    void (*on_checked)(void *data);
    void *data;
};

static bool read_id(const char *job, struct rota_job_id *id)
{
    const char *slash = strchr(job, '/');
    return slash && !rota_job_id_parse(rota_str(slash + 1), id, NULL);
}

static void forget(struct pending *pending)
{
    pending->load->n_pending--;
    pending->number = 0;
}

/* --- adding --- */

/* If the answer was lost, the job is not acknowledged: nothing was promised. */
static void on_added(void *data, const struct rota_queue_result *result)
{
    struct pending *pending = data;
    struct rota_job_id id;
    if (!result->code && read_id(result->job, &id) &&
        rota_check_jobs_acknowledged(pending->load->jobs, id, rota_clock_boot()))
        snprintf(pending->job, sizeof pending->job, "%s", result->job);
    else
        forget(pending);
}

static char *write_payload(uint64_t number, char payload[PAYLOAD_MAX])
{
    snprintf(payload, PAYLOAD_MAX, "job number %llu of the sample\n", (unsigned long long)number);
    return payload;
}

static void add_job(struct rota_up_load *load)
{
    static const char *const KINDS[] = {"count", "upper"}; /* matches what the workers can do */
    char payload[PAYLOAD_MAX];
    struct pending *pending = load->pending;
    while (pending->number)
        pending++;
    *pending = (struct pending){.load = load, .number = ++load->n_added};
    struct rota_str can = rota_str(KINDS[load->n_added % 2]);
    struct rota_queue_job job = {.queue = rota_str(rota_up_queue),
                                 .payload = rota_str(write_payload(load->n_added, payload)),
                                 .can = &can,
                                 .n_can = 1,
                                 .max_attempts = ROTA_JOB_ATTEMPTS_MAX};
    load->n_pending++;
    if (rota_queue_add(load->queue, &job, on_added, pending, NULL))
        forget(pending);
}

/* --- looking --- */

/* The result a worker computes: see WORKERS in cmd_up.c. */
static bool is_result(uint64_t number, struct rota_str result)
{
    char expected[PAYLOAD_MAX];
    write_payload(number, expected);
    if (number % 2 == 0)
        snprintf(expected, sizeof expected, "%zu\n", strlen(expected));
    for (char *at = expected; *at; at++)
        *at = (char)toupper((unsigned char)*at);
    return rota_str_is_equal(result, rota_str(expected));
}

/* Record a job that has ended. */
static void on_looked(void *data, const struct rota_queue_result *result)
{
    struct pending *pending = data;
    struct rota_up_load *load = pending->load;
    struct rota_job_id id;
    size_t n_done = 0;
    pending->is_asked = false;
    if (result->code || result->state < ROTA_QUEUE_DONE || !read_id(pending->job, &id))
        return;
    for (size_t i = 0; i < result->details->n_entries; i++)
        n_done += result->details->entries[i].state == ROTA_QUEUE_DONE;
    rota_check_jobs_ended(load->jobs, id, (enum rota_job_state)result->state, n_done,
                          is_result(pending->number, result->result));
    forget(pending);
    load->moved_at = rota_clock_boot();
}

static void describe_pending(struct rota_up_load *load)
{
    size_t n = 0;
    for (size_t i = 0; i < ROTA_UP_JOBS_MAX && n < LOOKS_PER_TICK; i++) {
        struct pending *pending = &load->pending[load->next_look++ % ROTA_UP_JOBS_MAX];
        if (!pending->number || !pending->job[0])
            continue;
        n++;
        if (!pending->is_asked)
            pending->is_asked =
                !rota_queue_look(load->queue, pending->job, on_looked, pending, NULL);
    }
}

/* --- the end --- */

static void be_checked(struct rota_up_load *load)
{
    load->finish = CHECKED;
    uv_timer_stop(&load->timer);
    load->on_checked(load->data);
}

static void list_after(struct rota_up_load *load, uint64_t after);

/* If a node was missing: start over at the next tick. */
static void on_listed(void *data, const struct rota_queue_result *result,
                      const struct rota_queue_result *jobs, size_t n)
{
    struct rota_up_load *load = data;
    load->is_asking = false;
    if (result->code || result->n_missing > 0)
        return;
    for (size_t i = 0; i < n; i++) {
        struct rota_job_id id;
        if (read_id(jobs[i].job, &id))
            rota_check_jobs_listed(load->jobs, id);
    }
    if (result->next) {
        list_after(load, result->next);
        return;
    }
    rota_check_jobs_list_end(load->jobs, rota_clock_boot() - SURELY_KEPT);
    be_checked(load);
}

static void list_after(struct rota_up_load *load, uint64_t after)
{
    if (after == 0)
        rota_check_jobs_list_begin(load->jobs);
    load->is_asking = !rota_queue_list(load->queue, rota_str(rota_up_queue), ROTA_QUEUE_DONE,
                                       LIST_MAX, after, on_listed, load, NULL);
}

/* Nothing waits or runs: no second copy of a job is left to run. */
static void on_counted(void *data, const struct rota_queue_result *result)
{
    struct rota_up_load *load = data;
    const struct rota_queue_counts *counts = &result->counts;
    load->is_asking = false;
    if (!result->code && result->n_missing == 0 &&
        counts->waiting + counts->delayed + counts->running == 0)
        load->finish = LISTING;
}

static void finish(struct rota_up_load *load)
{
    if (rota_clock_boot() - load->moved_at > STUCK_AFTER)
        be_checked(load);
    else if (load->n_pending > 0 || load->is_asking)
        return;
    else if (load->finish == LISTING)
        list_after(load, 0);
    else
        load->is_asking =
            !rota_queue_count(load->queue, rota_str(rota_up_queue), on_counted, load, NULL);
}

/* --- doors --- */

static void on_tick(uv_timer_t *timer)
{
    struct rota_up_load *load = timer->data;
    describe_pending(load);
    if (load->finish != WORKING)
        finish(load);
    else if (load->n_pending < ROTA_UP_JOBS_MAX)
        add_job(load);
}

enum rota_code rota_up_load_open(uv_loop_t *loop, const char *const *nodes, size_t n,
                                 struct rota_check_jobs *jobs, struct rota_up_load **load,
                                 struct rota_error *error)
{
    struct rota_buffer list = {0};
    struct rota_queue_options options = {.timeout = CALL_LIMIT, .patience = CALL_LIMIT};
    struct rota_up_load *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for a load");
    made->jobs = jobs;
    uv_timer_init(loop, &made->timer);
    made->timer.data = made;
    for (size_t i = 0; i < n; i++)
        rota_buffer_print(&list, "%s%s", i > 0 ? "," : "", nodes[i]);
    options.nodes = list.data;
    enum rota_code code = list.failed ? rota_error_no_memory(error, "for a load")
                                      : rota_queue_open(loop, &options, &made->queue, error);
    rota_buffer_deinit(&list);
    if (code) {
        rota_up_load_close(made);
        return code;
    }
    uv_timer_start(&made->timer, on_tick, 0, (uint64_t)(TICK / ROTA_MSEC));
    *load = made;
    return ROTA_OK;
}

void rota_up_load_finish(struct rota_up_load *load, void (*on_checked)(void *data), void *data)
{
    load->on_checked = on_checked;
    load->data = data;
    load->finish = SEEING_TO_THE_END;
    load->moved_at = rota_clock_boot();
}

size_t rota_up_load_n_pending(const struct rota_up_load *load)
{
    return load->n_pending;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void rota_up_load_close(struct rota_up_load *load)
{
    if (!load)
        return;
    rota_queue_close(load->queue);
    uv_close((uv_handle_t *)&load->timer, on_closed);
}
