/* Attempts at jobs of other nodes, by workers that are connected here. */
#include "run/broker_forward.h"

#include <string.h>

static enum rota_code code_of(enum rota_status status)
{
    switch (status) {
    case ROTA_STATUS_OK:
        return ROTA_OK;
    case ROTA_STATUS_ABORTED:
        return ROTA_ERR_STALE;
    case ROTA_STATUS_NOT_FOUND:
        return ROTA_ERR_NOT_FOUND;
    case ROTA_STATUS_INVALID_ARGUMENT:
    case ROTA_STATUS_FAILED_PRECONDITION:
        return ROTA_ERR_INVALID;
    case ROTA_STATUS_CANCELLED:
    case ROTA_STATUS_UNKNOWN:
    case ROTA_STATUS_DEADLINE_EXCEEDED:
    case ROTA_STATUS_ALREADY_EXISTS:
    case ROTA_STATUS_PERMISSION_DENIED:
    case ROTA_STATUS_RESOURCE_EXHAUSTED:
    case ROTA_STATUS_OUT_OF_RANGE:
    case ROTA_STATUS_UNIMPLEMENTED:
    case ROTA_STATUS_INTERNAL:
    case ROTA_STATUS_UNAVAILABLE:
    case ROTA_STATUS_DATA_LOSS:
    case ROTA_STATUS_UNAUTHENTICATED:
        return ROTA_ERR_UNAVAILABLE;
    }
    return ROTA_ERR_UNAVAILABLE;
}

static void on_answered(struct rota_broker_sent *sent, const struct rota_call_result *result)
{
    bool is_cancelled = false;
    for (size_t i = 0; i < result->n_metadata; i++)
        is_cancelled |= rota_str_is_equal(result->metadata[i].name, rota_str(ROTA_NOTE_CANCELLED));
    rota_remote_fsm_answered(&sent->forward->remote, rota_work_broker_now().boot, sent->id,
                             sent->attempt, code_of(result->status), is_cancelled);
}

static void call(struct rota_broker_forward *forward, const struct rota_remote_action *action)
{
    const struct rota_attempt_end *end = &action->end;
    struct rota_buffer *buffer = &forward->broker->buffer;
    bool is_end = action->type == ROTA_REMOTE_DO_END,
         is_done = is_end && end->cause == ROTA_JOB_CAUSE_DONE;
    char id[ROTA_QUEUE_ID_SIZE];
    const struct rota_queue_about about = {
        .queue = end->queue,
        .id = rota_queue_id_write(end->id, id),
        .attempt = end->attempt,
        .bytes = is_done ? end->bytes : end->reason,
        .log = is_done ? end->reason : rota_str(""),
        .is_final = is_end && end->cause == ROTA_JOB_CAUSE_REFUSED,
        .is_given_back = is_end && end->cause == ROTA_JOB_CAUSE_GIVEN_BACK,
        .is_lost = is_end && end->cause == ROTA_JOB_CAUSE_LOST,
        .retry_after_ms = rota_queue_to_ms(end->retry_after),
        .lease_ms = rota_queue_to_ms(ROTA_REMOTE_LEASE),
    };
    struct rota_broker_sent sent = {.on_end = on_answered, .id = end->id, .attempt = end->attempt};
    const char *method = is_done  ? "/rota.v1.Queue/Complete"
                         : is_end ? "/rota.v1.Queue/Fail"
                                  : "/rota.v1.Queue/Extend";
    rota_broker_sent_name(sent.node, sizeof sent.node, action->node);
    rota_buffer_clear(buffer);
    rota_message_encode(is_done  ? &ROTA_QUEUE_COMPLETE
                        : is_end ? &ROTA_QUEUE_FAIL
                                 : &ROTA_QUEUE_EXTEND,
                        &about, buffer);
    if (buffer->failed || !rota_broker_forward_send(forward, &sent, method, rota_buffer_str(buffer),
                                                    ROTA_BROKER_FETCH_TIMEOUT))
        rota_remote_fsm_answered(&forward->remote, rota_work_broker_now().boot, end->id,
                                 end->attempt, ROTA_ERR_UNAVAILABLE, false);
}

static void tell_verdict(struct rota_work_broker *broker, const struct rota_remote_action *action)
{
    const struct rota_worker_verdict verdict = {.queue = action->end.queue,
                                                .id = action->end.id,
                                                .attempt = action->end.attempt,
                                                .code = action->code};
    rota_buffer_clear(&broker->buffer);
    rota_worker_verdict_write(&verdict, &broker->buffer);
    if (!broker->buffer.failed)
        rota_work_broker_workers_tell(broker->workers, action->session,
                                      rota_buffer_str(&broker->buffer));
}

static void cancel(struct rota_work_broker *broker, const struct rota_remote_action *action)
{
    const struct rota_work_effect effect = {
        .type = ROTA_WORK_DO_CANCEL,
        .session = action->session,
        .queue = action->end.queue,
        .id = action->end.id,
        .attempt = action->end.attempt,
        .cause = action->end.cause,
    };
    rota_work_broker_workers_cancel(broker->workers, &effect);
    rota_work_broker_workers_release(broker->workers, action->session, 1);
}

bool rota_broker_forward_remote(struct rota_broker_forward *forward)
{
    size_t n, i = 0;
    const struct rota_remote_action *actions = rota_remote_fsm_actions(&forward->remote, &n);
    for (; i < n; i++) {
        struct rota_remote_action action = actions[i];
        switch (action.type) {
        case ROTA_REMOTE_DO_EXTEND:
        case ROTA_REMOTE_DO_END:
            call(forward, &action);
            break;
        case ROTA_REMOTE_DO_CANCEL:
            cancel(forward->broker, &action);
            break;
        case ROTA_REMOTE_DO_TELL:
            tell_verdict(forward->broker, &action);
            break;
        }
        actions = rota_remote_fsm_actions(&forward->remote, &n); /* it may have moved */
    }
    rota_remote_fsm_clear(&forward->remote);
    if (i > 0)
        rota_work_broker_workers_flush(forward->broker->workers);
    return i > 0;
}

bool rota_work_broker_remote_end(struct rota_work_broker *broker, uint64_t session,
                                 const struct rota_attempt_end *end)
{
    enum rota_code code;
    uint64_t of;
    struct rota_error why;
    struct rota_attempt_end said = *end;
    if (!broker->forward ||
        !rota_remote_fsm_has(&broker->forward->remote, end->id, end->attempt, &of) || of != session)
        return false;
    if (rota_attempt_end_check(end, &why)) { /* as rota_broker_end() takes it */
        said.cause = ROTA_JOB_CAUSE_FAILED;
        said.bytes = rota_str("");
        said.reason = rota_str(why.text);
        said.retry_after = 0;
    }
    if (!rota_remote_fsm_end(&broker->forward->remote, rota_work_broker_now().boot, &said, &code))
        return false;
    if (!code)
        rota_work_broker_workers_release(broker->workers, session, 1);
    return true;
}

bool rota_work_broker_remote_progress(struct rota_work_broker *broker, uint64_t session,
                                      const struct rota_worker_step *step)
{
    uint64_t of;
    return broker->forward &&
           rota_remote_fsm_has(&broker->forward->remote, step->id, step->attempt, &of) &&
           of == session &&
           rota_remote_fsm_progress(&broker->forward->remote, rota_work_broker_now().boot, step->id,
                                    step->attempt, step->text);
}

void rota_work_broker_remote_lost(struct rota_work_broker *broker, uint64_t session,
                                  enum rota_session_end how)
{
    enum rota_job_cause cause = how == ROTA_SESSION_DIED   ? ROTA_JOB_CAUSE_LOST
                                : how == ROTA_SESSION_LEFT ? ROTA_JOB_CAUSE_FAILED
                                                           : ROTA_JOB_CAUSE_GIVEN_BACK;
    if (broker->forward && session)
        rota_remote_fsm_lost(&broker->forward->remote, rota_work_broker_now().boot, session, cause);
}

uint64_t rota_work_broker_remote_n_taken(const struct rota_work_broker *broker)
{
    return broker->forward ? broker->forward->remote.n_taken : 0;
}

uint32_t rota_work_broker_remote_move(struct rota_work_broker *broker, uint64_t session,
                                      uint64_t to)
{
    return broker->forward && session ? rota_remote_fsm_move(&broker->forward->remote, session, to)
                                      : 0;
}

uint32_t rota_work_broker_remote_holds(struct rota_work_broker *broker, uint64_t session,
                                       uint64_t n_taken, struct rota_worker_running *held,
                                       size_t *n_held)
{
    if (!broker->forward)
        return 0;
    return rota_remote_fsm_holds(&broker->forward->remote, rota_work_broker_now().boot, session,
                                 n_taken, held, n_held);
}
