/* What workers ask of rota.v1.Queue, but for polls: attempts end, or last longer. */
#include "run/work/broker/work_broker_inside.h"
#include "run/work/broker/work_broker_method.h"
#include "run/work/broker/work_broker_reply.h"
#include "wire/grpc/grpc.h"

static enum rota_code end_one(struct rota_work_broker *broker, struct rota_work_now now,
                              const struct rota_queue_about *about, enum rota_job_cause cause,
                              uint64_t *number, struct rota_error *error)
{
    bool is_done = cause == ROTA_JOB_CAUSE_DONE;
    struct rota_attempt_end end = {
        .queue = about->queue,
        .attempt = about->attempt,
        .session = ROTA_BROKER_NO_SESSION,
        .cause = cause,
        .bytes = is_done ? about->bytes : rota_str_of(NULL, 0),
        .reason = is_done ? about->log : about->bytes,
        .retry_after = rota_queue_from_ms(about->retry_after_ms),
    };
    enum rota_code code = rota_queue_message_id_read(about->id, &end.id, error);
    if (!code)
        code =
            cause == ROTA_JOB_CAUSE_LOST
                ? rota_broker_lose(broker->core, now, end.queue, end.id, end.attempt, number, error)
                : rota_broker_end(broker->core, now, &end, number, error);
    /* An invalid end is not found either: only then is it checked. */
    enum rota_code bad = code == ROTA_ERR_NOT_FOUND
                             ? rota_work_broker_reply_read_id(about, &end.id, error)
                             : ROTA_OK;
    return bad ? bad : code;
}

static void end_attempt(const struct rota_broker_request *request, enum rota_job_cause cause)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_server_call *call = request->call;
    const struct rota_queue_about *about = &request->as.about;
    struct rota_error error;
    uint64_t number;
    enum rota_code code = end_one(broker, rota_work_broker_now(), about, cause, &number, &error);
    rota_work_broker_touch(broker);
    if (code)
        rota_work_broker_reply_error(call, &error, false);
    else
        rota_work_broker_reply_message(broker, call, number, NULL, NULL);
}

void rota_work_broker_attempt_complete(struct rota_broker_request *request)
{
    end_attempt(request, ROTA_JOB_CAUSE_DONE);
}

/* A job that is not here may be at another node, or in a row that is not loaded. */
void rota_work_broker_attempt_complete_batch(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_server_call *call = request->call;
    const struct rota_queue_list *list = &request->as.list;
    const struct rota_queue_about *abouts = list->items.items;
    struct rota_work_now now = rota_work_broker_now();
    const struct rota_front_refusal *not_here =
        rota_front_fsm_refusal(ROTA_FRONT_NOT_HERE_IN_BATCH);
    bool denies = rota_front_fsm_denies(&broker->front.fsm);
    uint64_t last = 0, number = 0;
    rota_buffer_clear(&broker->front.buffer);
    for (size_t i = 0; i < list->items.n; i++) {
        struct rota_queue_added ended = {0};
        struct rota_error error;
        enum rota_code code =
            end_one(broker, now, &abouts[i], ROTA_JOB_CAUSE_DONE, &number, &error);
        if (code == ROTA_ERR_NOT_FOUND && !denies)
            ended = (struct rota_queue_added){.status = not_here->status,
                                              .error = rota_str(not_here->text),
                                              .may_go_elsewhere = not_here->is_undone};
        else if (code)
            ended = (struct rota_queue_added){.status = rota_grpc_status_of_code(code),
                                              .error = rota_str(error.text)};
        else
            last = number > last ? number : last;
        rota_message_encode_entry(&ROTA_QUEUE_COMPLETED, 1, &ended, &broker->front.buffer);
    }
    rota_work_broker_touch(broker);
    rota_work_broker_reply_buffer(broker, call, last);
}

void rota_work_broker_attempt_fail(struct rota_broker_request *request)
{
    const struct rota_queue_about *about = &request->as.about;
    if (about->is_final && about->is_given_back)
        rota_server_call_finish(request->call, ROTA_STATUS_INVALID_ARGUMENT,
                                "an attempt can be final or returned, not both", NULL, 0);
    else if (about->is_given_back)
        end_attempt(request, ROTA_JOB_CAUSE_GIVEN_BACK);
    else if (about->is_lost)
        end_attempt(request, ROTA_JOB_CAUSE_LOST);
    else
        end_attempt(request, about->is_final ? ROTA_JOB_CAUSE_REFUSED : ROTA_JOB_CAUSE_FAILED);
}

void rota_work_broker_attempt_extend(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_server_call *call = request->call;
    const struct rota_queue_about *about = &request->as.about;
    struct rota_job_id id;
    struct rota_error error;
    if (!rota_work_broker_reply_read_job(call, about, &id))
        return;
    enum rota_code code = rota_broker_extend(
        broker->core, rota_work_broker_now(), about->queue, id, about->attempt,
        ROTA_BROKER_NO_SESSION, rota_queue_from_ms(about->lease_ms), about->bytes, &error);
    rota_work_broker_touch(broker);
    struct rota_job_view view;
    const struct rota_metadata note = {rota_str(ROTA_NOTE_CANCELLED), rota_str("1")};
    bool is_cancelled = code == ROTA_ERR_STALE &&
                        !rota_broker_find(broker->core, about->queue, id, &view, NULL) &&
                        view.state == ROTA_JOB_CANCELLED;
    if (is_cancelled) /* the worker's node reports the reason */
        rota_server_call_finish(call, ROTA_STATUS_ABORTED, error.text, &note, 1);
    else if (code)
        rota_work_broker_reply_error(call, &error, false);
    else
        rota_work_broker_reply_message(broker, call, 0, NULL, NULL);
}
