/* Attempts at jobs of other nodes, by workers that are connected here. */
#include "run/work/broker/work_broker_workers.h"
#include "run/work/cluster/work_broker_forward.h"
#include "wire/grpc/grpc.h"
#include "wire/message/worker_frame.h"

#include <string.h>

static void on_answered(struct rota_broker_sent *sent, const struct rota_call_result *result)
{
    bool is_cancelled = false;
    enum rota_code code = result->status == ROTA_STATUS_UNIMPLEMENTED
                              ? ROTA_ERR_UNAVAILABLE /* a node that has no queues now */
                              : rota_grpc_code_of_status(result->status);
    for (size_t i = 0; i < result->n_metadata; i++)
        is_cancelled |= rota_str_is_equal(result->metadata[i].name, rota_str(ROTA_NOTE_CANCELLED));
    rota_remote_fsm_answered(&sent->forward->remote, rota_work_broker_now().boot, sent->id,
                             sent->attempt, code, is_cancelled);
}

/* A worker that returned before the members were known has claimed an attempt whose owner was not
 * known either: the route names it now, or still does not. */
static struct rota_str node_of(struct rota_broker_forward *forward,
                               const struct rota_remote_action *action)
{
    struct rota_broker_cluster *cluster = forward->broker->cluster;
    if (action->node.size > 0)
        return action->node;
    return rota_work_broker_cluster_owner(cluster, action->end.queue,
                                          rota_work_broker_cluster_place(cluster, action->end.id));
}

static void call_owner(struct rota_broker_forward *forward, const struct rota_remote_action *action)
{
    const struct rota_attempt_end *end = &action->end;
    struct rota_str node = node_of(forward, action);
    if (rota_str_is_equal(node, rota_work_broker_cluster_self(forward->broker->cluster))) {
        /* The job was not here when the worker claimed it. */
        rota_remote_fsm_answered(&forward->remote, rota_work_broker_now().boot, end->id,
                                 end->attempt, ROTA_ERR_NOT_FOUND, false);
        return;
    }
    struct rota_buffer *buffer = &forward->broker->front.buffer;
    bool is_end = action->type == ROTA_REMOTE_DO_END,
         is_done = is_end && end->cause == ROTA_JOB_CAUSE_DONE;
    char id[ROTA_QUEUE_ID_SIZE];
    const struct rota_queue_about about = {
        .queue = end->queue,
        .id = rota_queue_message_id_write(end->id, id),
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
    rota_broker_sent_name(sent.node, sizeof sent.node, node);
    rota_buffer_clear(buffer);
    rota_message_encode(is_done  ? &ROTA_QUEUE_COMPLETE
                        : is_end ? &ROTA_QUEUE_FAIL
                                 : &ROTA_QUEUE_EXTEND,
                        &about, buffer);
    if (buffer->failed ||
        !rota_work_broker_forward_send(forward, &sent, method, rota_buffer_str(buffer),
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
    rota_buffer_clear(&broker->front.buffer);
    rota_worker_batch_verdict_write(&verdict, &broker->front.buffer);
    if (!broker->front.buffer.failed)
        rota_work_broker_workers_tell(broker->workers, action->session,
                                      rota_buffer_str(&broker->front.buffer));
}

static void cancel_at_worker(struct rota_work_broker *broker,
                             const struct rota_remote_action *action)
{
    const struct rota_work_effect effect = {
        .type = ROTA_WORK_DO_CANCEL,
        .session = action->session,
        .queue = action->end.queue,
        .id = action->end.id,
        .attempt = action->end.attempt,
        .cause = action->end.cause,
    };
    rota_work_broker_workers_cancel(broker->workers, &effect, 1);
}

bool rota_work_broker_remote_drive(struct rota_broker_forward *forward)
{
    size_t n, i = 0;
    const struct rota_remote_action *actions = rota_remote_fsm_actions(&forward->remote, &n);
    for (; i < n; i++) {
        struct rota_remote_action action = actions[i];
        switch (action.type) {
        case ROTA_REMOTE_DO_EXTEND:
        case ROTA_REMOTE_DO_END:
            call_owner(forward, &action);
            break;
        case ROTA_REMOTE_DO_CANCEL:
            cancel_at_worker(forward->broker, &action);
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
