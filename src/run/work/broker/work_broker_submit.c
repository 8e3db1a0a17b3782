/* Methods of rota.v1.Queue for submitters: add, read and change jobs. */
#include "run/work/broker/work_broker_inside.h"
#include "run/work/broker/work_broker_method.h"
#include "run/work/broker/work_broker_reply.h"

/* --- adding --- */

/* Whether an add was refused because its id is that of another job. */
static bool is_taken(const struct rota_work_broker *broker,
                     const struct rota_queue_job_spec *message, enum rota_code code)
{
    struct rota_job_spec spec;
    return code == ROTA_ERR_INVALID && message &&
           !rota_queue_message_spec_read(message, 0, &spec, NULL) &&
           !rota_job_spec_check(&spec, NULL) &&
           rota_broker_check_same(broker->core, &spec, NULL) != ROTA_OK;
}

static enum rota_code add_job(struct rota_broker_request *request, struct rota_work_now now,
                              size_t index, struct rota_front_added *added,
                              struct rota_error *error)
{
    struct rota_broker_front *front = &request->broker->front;
    struct rota_job_spec spec;
    enum rota_code code =
        rota_queue_message_spec_read(&request->specs[index], now.wall, &spec, error);
    if (!code)
        code = rota_front_fsm_add(&front->fsm, now, &request->front, &request->jobs[index], &spec,
                                  added, error);
    if (!code && added->number && added->number < front->call_first)
        front->call_first = added->number; /* it exists, and may not be written yet */
    return code;
}

void rota_work_broker_submit_add(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    const struct rota_queue_job_spec *spec = request->specs;
    struct rota_front_added done;
    struct rota_error error;
    char bytes[ROTA_QUEUE_ID_SIZE];
    enum rota_code code = spec ? add_job(request, rota_work_broker_now(), 0, &done, &error)
                               : rota_error_set(&error, ROTA_ERR_INVALID, "the request has no job");
    rota_work_broker_touch(broker);
    if (is_taken(broker, spec, code)) {
        rota_server_call_finish(request->call, ROTA_STATUS_ALREADY_EXISTS, error.text, NULL, 0);
    } else if (code) {
        rota_work_broker_reply_bad_add(
            broker, request->call, spec ? request->jobs : NULL, &error,
            !spec || rota_front_fsm_is_undone(&broker->front.fsm, request->jobs));
    } else {
        struct rota_queue_added added = {.id = rota_queue_message_id_write(done.id, bytes),
                                         .is_new = done.is_new};
        rota_work_broker_reply_message(broker, request->call, done.number, &ROTA_QUEUE_ADDED,
                                       &added);
    }
}

void rota_work_broker_submit_add_batch(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_work_now now = rota_work_broker_now();
    uint64_t last = 0;
    rota_buffer_clear(&broker->front.buffer);
    for (size_t i = 0; i < request->n_jobs; i++) {
        struct rota_queue_added added = {0};
        struct rota_front_added done;
        struct rota_error error;
        char bytes[ROTA_QUEUE_ID_SIZE];
        enum rota_code code = add_job(request, now, i, &done, &error);
        if (code) {
            added = rota_work_broker_reply_failed_add(
                &error, rota_front_fsm_is_undone(&broker->front.fsm, &request->jobs[i]));
            if (is_taken(broker, &request->specs[i], code))
                added.status = ROTA_STATUS_ALREADY_EXISTS;
        } else {
            added.id = rota_queue_message_id_write(done.id, bytes);
            added.is_new = done.is_new;
            last = done.number > last ? done.number : last;
        }
        rota_message_encode_entry(&ROTA_QUEUE_ADDED, 1, &added, &broker->front.buffer);
    }
    rota_work_broker_touch(broker);
    rota_work_broker_reply_buffer(broker, request->call, last);
}

/* --- one job --- */

/* The job exists but its state does not allow the change: the request is not wrong. */
static void reply_change(const struct rota_broker_request *request, enum rota_code code,
                         uint64_t number, const struct rota_error *error)
{
    struct rota_server_call *call = request->call;
    rota_work_broker_touch(request->broker);
    if (code == ROTA_OK)
        rota_work_broker_reply_message(request->broker, call, number, NULL, NULL);
    else if (error->code == ROTA_ERR_INVALID)
        rota_server_call_finish(call, ROTA_STATUS_FAILED_PRECONDITION, error->text, NULL, 0);
    else
        rota_work_broker_reply_error(call, error, true);
}

static void change_job(const struct rota_broker_request *request,
                       enum rota_code (*make)(struct rota_broker *core, struct rota_work_now now,
                                              struct rota_str queue, struct rota_job_id id,
                                              uint64_t *number, struct rota_error *error))
{
    const struct rota_queue_about *about = &request->as.about;
    struct rota_job_id id;
    struct rota_error error;
    uint64_t number = 0;
    if (!rota_work_broker_reply_read_job(request->call, about, &id))
        return;
    enum rota_code code =
        make(request->broker->core, rota_work_broker_now(), about->queue, id, &number, &error);
    reply_change(request, code, number, &error);
}

void rota_work_broker_submit_cancel(struct rota_broker_request *request)
{
    change_job(request, rota_broker_cancel);
}

void rota_work_broker_submit_retry(struct rota_broker_request *request)
{
    change_job(request, rota_broker_revive);
}

void rota_work_broker_submit_priority(struct rota_broker_request *request)
{
    struct rota_server_call *call = request->call;
    const struct rota_queue_about *about = &request->as.about;
    struct rota_job_id id;
    struct rota_error error;
    uint64_t number = 0;
    if (!rota_work_broker_reply_read_job(call, about, &id))
        return;
    if (rota_queue_message_priority_check(about->priority, &error)) {
        rota_work_broker_reply_error(call, &error, false);
        return;
    }
    enum rota_code code =
        rota_broker_set_priority(request->broker->core, rota_work_broker_now(), about->queue, id,
                                 (int16_t)about->priority, &number, &error);
    reply_change(request, code, number, &error);
}
