/* Queues and their jobs, as rota.v1.Queue has them. */
#include "node/api/api.h"

#include "wire/message/message_json.h"
#include "wire/message/queue_message.h"

/* The job named by the two stars of the path. False: it is not a job, and the call was refused. */
static bool read_job(struct rota_api_call *call, struct rota_queue_about *about)
{
    struct rota_job_id id;
    struct rota_error error;
    char *bytes = rota_arena_take(&call->arena, ROTA_QUEUE_ID_SIZE);
    if (!bytes) {
        rota_api_refuse(call, 503, "not enough memory for the request");
        return false;
    }
    if (rota_job_id_parse(call->names[1], &id, &error)) {
        rota_api_refuse(call, 400, error.text);
        return false;
    }
    *about = (struct rota_queue_about){.queue = call->names[0],
                                       .id = rota_queue_message_id_write(id, bytes)};
    return true;
}

void rota_api_queues(struct rota_api_call *call)
{
    struct rota_queue_page page = {0};
    rota_http_target_find(call->target, "after", &page.after);
    if (rota_api_number(call, "max", ROTA_QUEUE_PAGE_MAX, 0, &page.max_queues))
        rota_api_ask(call, "Queues", &ROTA_QUEUE_PAGE, &page, &ROTA_QUEUE_QUEUES_REPLY);
}

void rota_api_queue(struct rota_api_call *call)
{
    struct rota_queue_about one = {.queue = call->names[0]};
    rota_api_ask_one(call, "Queues", &ROTA_QUEUE_NAME, &one, &ROTA_QUEUE_QUEUES_REPLY,
                     "no such queue");
}

static void set_paused(struct rota_api_call *call, bool is_paused)
{
    struct rota_queue_setting setting = {.queue = call->names[0], .is_paused = is_paused};
    rota_api_ask(call, "Pause", &ROTA_QUEUE_PAUSE, &setting, NULL);
}

void rota_api_queue_pause(struct rota_api_call *call)
{
    set_paused(call, true);
}

void rota_api_queue_resume(struct rota_api_call *call)
{
    set_paused(call, false);
}

/* The state by its name; the first one without. */
static bool read_state(struct rota_api_call *call, uint64_t *state)
{
    struct rota_str text;
    *state = ROTA_JOB_WAITING;
    if (!rota_http_target_find(call->target, "state", &text))
        return true;
    for (int i = 0; i < ROTA_JOB_STATES; i++)
        if (rota_str_is_equal(text, rota_str(rota_job_state_name((enum rota_job_state)i)))) {
            *state = (uint64_t)i;
            return true;
        }
    rota_api_refuse(call, 400, "state must be waiting, delayed, running, done, dead or cancelled");
    return false;
}

void rota_api_jobs(struct rota_api_call *call)
{
    struct rota_queue_list_request list = {.queue = call->names[0]};
    if (read_state(call, &list.state) &&
        rota_api_number(call, "max", ROTA_QUEUE_LIST_MAX, 100, &list.max_jobs) &&
        rota_api_number(call, "after", UINT64_MAX, 0, &list.after))
        rota_api_ask(call, "List", &ROTA_QUEUE_LIST, &list, &ROTA_QUEUE_LIST_REPLY);
}

void rota_api_job_add(struct rota_api_call *call)
{
    struct rota_queue_job_spec spec;
    struct rota_error error;
    if (rota_message_json_read(&ROTA_QUEUE_JOB_SPEC, rota_http_body(call->request), &spec,
                               &call->arena, &error)) {
        rota_api_refuse(call, 400, error.text);
        return;
    }
    if (spec.queue.size > 0 && !rota_str_is_equal(spec.queue, call->names[0])) {
        rota_api_refuse(call, 400, "the job names a different queue than the path");
        return;
    }
    spec.queue = call->names[0];
    struct rota_queue_add add = {.job = &spec};
    rota_api_ask(call, "Add", &ROTA_QUEUE_ADD, &add, &ROTA_QUEUE_ADDED);
}

void rota_api_job(struct rota_api_call *call)
{
    struct rota_queue_about about;
    if (!read_job(call, &about))
        return;
    about.with_payload = about.asks_nodes = true;
    rota_api_ask(call, "Describe", &ROTA_QUEUE_DESCRIBE, &about, &ROTA_QUEUE_DESCRIPTION);
}

void rota_api_job_cancel(struct rota_api_call *call)
{
    struct rota_queue_about about;
    if (!read_job(call, &about))
        return;
    rota_node_note(call->node, ROTA_EVENT_OPERATOR, call->names[1], "of %.*s is cancelled",
                   ROTA_STR_ARGS(call->names[0]));
    rota_api_ask(call, "Cancel", &ROTA_QUEUE_NAME, &about, NULL);
}

void rota_api_job_retry(struct rota_api_call *call)
{
    struct rota_queue_about about;
    if (!read_job(call, &about))
        return;
    rota_api_ask(call, "Retry", &ROTA_QUEUE_NAME, &about, NULL);
}

void rota_api_workers(struct rota_api_call *call)
{
    rota_api_ask(call, "Workers", NULL, NULL, &ROTA_QUEUE_WORKERS_REPLY);
}
