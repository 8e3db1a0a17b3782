#include "cli/up.h"

#include "base/arena.h"
#include "base/buffer.h"
#include "base/vector.h"
#include "io/clock.h"
#include "wire/queue_message.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define TICK        (250 * ROTA_MSEC) /* a job is added */
#define CALL_LIMIT  (15 * ROTA_SEC)
#define STUCK_AFTER (120 * ROTA_SEC) /* without any job's end */
#define SURELY_KEPT (ROTA_JOB_KEEP - 10 * ROTA_MIN)

enum { LOOKS_PER_TICK = 16, PAYLOAD_MAX = 64 };

const char rota_up_queue[] = "sample";

struct pending {
    struct rota_job_id id;
    uint64_t number;
    bool is_asked;
};

enum finish { WORKING, SEEING_TO_THE_END, LISTING, CHECKED };

struct ask;

struct rota_up_load {
    uv_timer_t timer;
    struct ask *asks; /* all calls under way */
    struct rota_channel *channels[ROTA_UP_NODES_MAX];
    size_t n_channels, next_channel, next_look;
    uint64_t n_added;
    ROTA_VECTOR(struct pending) pending;
    struct rota_check_jobs *jobs;

    enum finish finish;
    rota_time moved_at; /* when a job was seen done last */
    bool is_asking;     /* a question of the finish is under way */
    void (*on_checked)(void *data);
    void *data;
};

/* A call that is under way. */
struct ask {
    struct ask *next;
    struct rota_up_load *load;
    struct rota_job_id id; /* of a look */
    uint64_t number;       /* of an add */
    void (*on_end)(struct ask *ask, const struct rota_call_result *result);
};

/* --- calls --- */

static void on_call_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct ask *ask = data;
    struct ask **place = &ask->load->asks;
    (void)call;
    while (*place != ask)
        place = &(*place)->next;
    *place = ask->next;
    ask->on_end(ask, result);
    free(ask);
}

/* Ask one node after another; false when it was not even begun. */
static bool call(struct rota_up_load *load, const char *method,
                 const struct rota_message_type *type, const void *message, struct rota_job_id id,
                 void (*on_end)(struct ask *ask, const struct rota_call_result *result))
{
    struct rota_buffer buffer = {0};
    char path[64];
    struct ask *ask = calloc(1, sizeof *ask);
    rota_message_encode(type, message, &buffer);
    if (!ask || buffer.failed) {
        rota_buffer_deinit(&buffer);
        free(ask);
        return false;
    }
    *ask = (struct ask){.load = load, .id = id, .number = load->n_added, .on_end = on_end};
    snprintf(path, sizeof path, "/rota.v1.Queue/%s", method);
    struct rota_call_options options = {.method = rota_str(path),
                                        .request = rota_buffer_str(&buffer),
                                        .timeout = CALL_LIMIT,
                                        .on_end = on_call_end,
                                        .data = ask};
    struct rota_channel *channel = load->channels[load->next_channel++ % load->n_channels];
    enum rota_code code = rota_channel_call(channel, &options, NULL, NULL);
    rota_buffer_deinit(&buffer);
    if (code) {
        free(ask);
        return false;
    }
    ask->next = load->asks;
    load->asks = ask;
    return true;
}

/* --- adding --- */

/* One whose answer is lost is not acknowledged: nothing was promised. */
static void on_added(struct ask *ask, const struct rota_call_result *result)
{
    struct rota_up_load *load = ask->load;
    struct rota_arena arena = {0};
    struct rota_queue_added added;
    struct pending pending = {.number = ask->number};
    if (result->status == ROTA_STATUS_OK &&
        !rota_message_decode(&ROTA_QUEUE_ADDED, result->message, &added, &arena, NULL) &&
        !rota_queue_id_read(added.id, &pending.id, NULL) &&
        rota_check_jobs_acknowledged(load->jobs, pending.id, rota_clock_boot()) &&
        rota_vector_reserve(&load->pending, load->pending.size + 1))
        load->pending.items[load->pending.size++] = pending;
    rota_arena_deinit(&arena);
}

static char *write_payload(uint64_t number, char payload[PAYLOAD_MAX])
{
    snprintf(payload, PAYLOAD_MAX, "job number %llu of the sample\n", (unsigned long long)number);
    return payload;
}

static void add_job(struct rota_up_load *load)
{
    static const char *const KINDS[] = {"count", "upper"}; /* as the workers can */
    char payload[PAYLOAD_MAX];
    write_payload(++load->n_added, payload);
    struct rota_str can = rota_str(KINDS[load->n_added % 2]);
    struct rota_queue_job_spec spec = {.queue = rota_str(rota_up_queue),
                                       .payload = rota_str(payload),
                                       .can = {&can, 1},
                                       .max_attempts = ROTA_JOB_ATTEMPTS_MAX};
    struct rota_queue_add request = {.job = &spec};
    call(load, "Add", &ROTA_QUEUE_ADD, &request, (struct rota_job_id){0, 0}, on_added);
}

/* --- looking --- */

static bool is_equal(struct rota_job_id a, struct rota_job_id b)
{
    return a.high == b.high && a.low == b.low;
}

/* What a worker makes of the job: see WORKERS in cmd_up.c. */
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

/* Whether a job is at its end; then it is in the books. */
static bool note_end(struct rota_up_load *load, const struct pending *pending,
                     const struct rota_queue_job_info *info)
{
    const struct rota_queue_event *events = info->events.items;
    size_t n_done = 0;
    if (info->state < ROTA_JOB_DONE || info->state > ROTA_JOB_CANCELLED)
        return false;
    for (size_t i = 0; i < info->events.n; i++)
        n_done += events[i].state == ROTA_JOB_DONE;
    rota_check_jobs_ended(load->jobs, pending->id, (enum rota_job_state)info->state, n_done,
                          is_result(pending->number, info->result));
    return true;
}

static void on_looked(struct ask *ask, const struct rota_call_result *result)
{
    struct rota_up_load *load = ask->load;
    struct rota_arena arena = {0};
    struct rota_queue_description description = {0};
    size_t i = 0;
    while (i < load->pending.size && !is_equal(load->pending.items[i].id, ask->id))
        i++;
    if (i == load->pending.size)
        return;
    load->pending.items[i].is_asked = false;
    if (result->status == ROTA_STATUS_OK &&
        !rota_message_decode(&ROTA_QUEUE_DESCRIPTION, result->message, &description, &arena,
                             NULL) &&
        description.job && note_end(load, &load->pending.items[i], description.job)) {
        load->pending.items[i] = load->pending.items[--load->pending.size];
        load->moved_at = rota_clock_boot();
    }
    rota_arena_deinit(&arena);
}

static void look(struct rota_up_load *load)
{
    for (size_t n = 0; n < LOOKS_PER_TICK && n < load->pending.size; n++) {
        char bytes[ROTA_QUEUE_ID_SIZE];
        struct pending *pending = &load->pending.items[load->next_look++ % load->pending.size];
        struct rota_queue_about about = {.queue = rota_str(rota_up_queue),
                                         .id = rota_queue_id_write(pending->id, bytes)};
        if (!pending->is_asked)
            pending->is_asked =
                call(load, "Describe", &ROTA_QUEUE_DESCRIBE, &about, pending->id, on_looked);
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

/* Returns false when the answer can't be read, or a node was missing. */
static bool take_list(struct rota_up_load *load, struct rota_str message, uint64_t *next)
{
    struct rota_arena arena = {0};
    struct rota_queue_list_reply reply;
    struct rota_queue_missing missing = {0};
    bool is_whole = !rota_message_decode(&ROTA_QUEUE_LIST_REPLY, message, &reply, &arena, NULL) &&
                    !rota_message_decode(&ROTA_QUEUE_MISSING, message, &missing, &arena, NULL) &&
                    missing.nodes.n == 0;
    const struct rota_queue_job_info *jobs = is_whole ? reply.jobs.items : NULL;
    for (size_t i = 0; is_whole && i < reply.jobs.n; i++) {
        const struct rota_queue_job_spec *spec = jobs[i].spec;
        struct rota_job_id id;
        if (spec && !rota_queue_id_read(spec->id, &id, NULL))
            rota_check_jobs_listed(load->jobs, id);
    }
    *next = is_whole ? reply.next : 0;
    rota_arena_deinit(&arena);
    return is_whole;
}

static void on_listed(struct ask *ask, const struct rota_call_result *result)
{
    struct rota_up_load *load = ask->load;
    uint64_t next;
    load->is_asking = false;
    if (result->status != ROTA_STATUS_OK || !take_list(load, result->message, &next))
        return; /* from the beginning, at the next tick */
    if (next) {
        load->next_channel--; /* the same node goes on */
        list_after(load, next);
        return;
    }
    rota_check_jobs_list_end(load->jobs, rota_clock_boot() - SURELY_KEPT);
    be_checked(load);
}

static void list_after(struct rota_up_load *load, uint64_t after)
{
    struct rota_queue_list_request request = {.queue = rota_str(rota_up_queue),
                                              .state = ROTA_JOB_DONE,
                                              .max_jobs = ROTA_QUEUE_LIST_MAX,
                                              .after = after};
    if (after == 0)
        rota_check_jobs_list_begin(load->jobs);
    load->is_asking =
        call(load, "List", &ROTA_QUEUE_LIST, &request, (struct rota_job_id){0, 0}, on_listed);
}

/* Nothing waits or runs: no second copy of a job that is still to be done. */
static void on_queue(struct ask *ask, const struct rota_call_result *result)
{
    struct rota_up_load *load = ask->load;
    struct rota_arena arena = {0};
    struct rota_queue_list reply;
    struct rota_queue_missing missing = {0};
    load->is_asking = false;
    if (result->status == ROTA_STATUS_OK &&
        !rota_message_decode(&ROTA_QUEUE_QUEUES_REPLY, result->message, &reply, &arena, NULL) &&
        !rota_message_decode(&ROTA_QUEUE_MISSING, result->message, &missing, &arena, NULL) &&
        missing.nodes.n == 0) {
        const struct rota_queue_info *info = reply.items.n > 0 ? reply.items.items : NULL;
        if (!info || info->n_waiting + info->n_delayed + info->n_running == 0)
            load->finish = LISTING;
    }
    rota_arena_deinit(&arena);
}

static void finish(struct rota_up_load *load)
{
    struct rota_queue_setting request = {.queue = rota_str(rota_up_queue)};
    if (rota_clock_boot() - load->moved_at > STUCK_AFTER)
        be_checked(load);
    else if (load->pending.size > 0 || load->is_asking)
        return;
    else if (load->finish == LISTING)
        list_after(load, 0);
    else
        load->is_asking =
            call(load, "Queues", &ROTA_QUEUE_PAUSE, &request, (struct rota_job_id){0, 0}, on_queue);
}

/* --- doors --- */

static void on_tick(uv_timer_t *timer)
{
    struct rota_up_load *load = timer->data;
    look(load);
    if (load->finish != WORKING)
        finish(load);
    else if (load->pending.size < ROTA_UP_JOBS_MAX)
        add_job(load);
}

enum rota_code rota_up_load_open(uv_loop_t *loop, const char *const *nodes, size_t n,
                                 struct rota_check_jobs *jobs, struct rota_up_load **load,
                                 struct rota_error *error)
{
    struct rota_channel_options options = {.backoff_max = ROTA_SEC, .message_max = 32 << 20};
    struct rota_up_load *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for a load");
    made->jobs = jobs;
    uv_timer_init(loop, &made->timer);
    made->timer.data = made;
    for (; made->n_channels < n; made->n_channels++) {
        enum rota_code code = rota_channel_open(loop, nodes[made->n_channels], &options,
                                                &made->channels[made->n_channels], error);
        if (code) {
            rota_up_load_close(made);
            return code;
        }
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
    return load->pending.size;
}

static void on_closed(uv_handle_t *handle)
{
    struct rota_up_load *load = handle->data;
    rota_vector_deinit(&load->pending);
    free(load);
}

void rota_up_load_close(struct rota_up_load *load)
{
    if (!load)
        return;
    for (size_t i = 0; i < load->n_channels; i++)
        rota_channel_close(load->channels[i]); /* its calls are dropped */
    while (load->asks) {
        struct ask *ask = load->asks;
        load->asks = ask->next;
        free(ask);
    }
    uv_close((uv_handle_t *)&load->timer, on_closed);
}
