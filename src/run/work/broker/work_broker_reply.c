#include "run/work/broker/work_broker_reply.h"

#include "base/decimal.h"
#include "core/call/failure.h"
#include "run/work/broker/work_broker_inside.h"
#include "wire/grpc/call_notes.h"
#include "wire/grpc/grpc.h"

#include <stdio.h>

/* Whether a call with this error may succeed at another node or partition. */
static bool may_go_elsewhere(enum rota_code code)
{
    return code == ROTA_ERR_STALE || code == ROTA_ERR_UNAVAILABLE || code == ROTA_ERR_LIMIT;
}

static struct rota_metadata note_stale(void)
{
    return (struct rota_metadata){rota_str(ROTA_NOTE_FAILURE),
                                  rota_str(rota_failure_name(ROTA_FAILURE_STALE))};
}

static struct rota_metadata note_undone(void)
{
    return (struct rota_metadata){rota_str(ROTA_NOTE_ELSEWHERE), rota_str("1")};
}

void rota_work_broker_reply_finish(struct rota_server_call *call, enum rota_status status,
                                   const char *text, bool is_stale, bool is_undone)
{
    struct rota_metadata notes[2];
    size_t n = 0;
    if (is_stale)
        notes[n++] = note_stale();
    if (is_undone)
        notes[n++] = note_undone();
    rota_server_call_finish(call, status, text, notes, n);
}

void rota_work_broker_reply_error(struct rota_server_call *call, const struct rota_error *error,
                                  bool is_partition)
{
    bool is_stale = is_partition && error->code == ROTA_ERR_STALE;
    rota_work_broker_reply_finish(
        call, is_stale ? ROTA_STATUS_UNAVAILABLE : rota_grpc_status_of_code(error->code),
        error->text, is_stale, is_partition && may_go_elsewhere(error->code));
}

void rota_work_broker_reply_bad_add(const struct rota_work_broker *broker,
                                    struct rota_server_call *call, const struct rota_front_new *job,
                                    const struct rota_error *error, bool is_undone)
{
    char n[16], view[24];
    if (error->code != ROTA_ERR_STALE || !job) {
        rota_work_broker_reply_error(call, error, is_undone);
        return;
    }
    if (!is_undone) {
        rota_work_broker_reply_finish(call, ROTA_STATUS_UNAVAILABLE, error->text, true, false);
        return;
    }
    snprintf(n, sizeof n, "%u", rota_work_broker_cluster_layout(broker->cluster, job->queue).write);
    const char *end = rota_decimal_put(view, rota_work_broker_cluster_view(broker->cluster));
    const struct rota_metadata notes[] = {
        note_stale(),
        note_undone(),
        {rota_str(ROTA_NOTE_PARTITIONS), rota_str(n)},
        {rota_str(ROTA_NOTE_VIEW), rota_str_of(view, (size_t)(end - view))},
        {rota_str(ROTA_NOTE_OWNER),
         rota_work_broker_cluster_owner(broker->cluster, job->queue, job->partition)}};
    rota_server_call_finish(call, ROTA_STATUS_UNAVAILABLE, error->text, notes, 5);
}

struct rota_queue_added rota_work_broker_reply_failed_add(const struct rota_error *error,
                                                          bool is_undone)
{
    return (struct rota_queue_added){
        .status = error->code == ROTA_ERR_STALE ? ROTA_STATUS_UNAVAILABLE
                                                : rota_grpc_status_of_code(error->code),
        .error = rota_str(error->text),
        .may_go_elsewhere = is_undone && may_go_elsewhere(error->code)};
}

void rota_work_broker_reply_reason(struct rota_server_call *call, enum rota_front_reason reason,
                                   const char *text)
{
    const struct rota_front_refusal *refusal = rota_front_fsm_refusal(reason);
    rota_work_broker_reply_finish(call, refusal->status, text ? text : refusal->text,
                                  refusal->is_stale, refusal->is_undone);
}

void rota_work_broker_reply_no_memory(struct rota_server_call *call)
{
    rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED, "not enough memory for the reply",
                            NULL, 0);
}

void rota_work_broker_reply_buffer(struct rota_work_broker *broker, struct rota_server_call *call,
                                   uint64_t number)
{
    if (broker->front.buffer.failed)
        rota_work_broker_reply_no_memory(call);
    else
        rota_work_broker_answer(broker, call, number, rota_buffer_str(&broker->front.buffer));
}

void rota_work_broker_reply_message(struct rota_work_broker *broker, struct rota_server_call *call,
                                    uint64_t number, const struct rota_message_type *type,
                                    const void *message)
{
    rota_buffer_clear(&broker->front.buffer);
    if (type)
        rota_message_encode(type, message, &broker->front.buffer);
    rota_work_broker_reply_buffer(broker, call, number);
}

enum rota_code rota_work_broker_reply_read_id(const struct rota_queue_about *about,
                                              struct rota_job_id *id, struct rota_error *error)
{
    enum rota_code code = rota_job_queue_check(about->queue, error);
    if (!code)
        code = rota_queue_message_id_read(about->id, id, error);
    if (!code && rota_job_id_is_none(*id))
        code = rota_error_set(error, ROTA_ERR_INVALID, "the request has no job id");
    return code;
}

bool rota_work_broker_reply_read_job(struct rota_server_call *call,
                                     const struct rota_queue_about *about, struct rota_job_id *id)
{
    struct rota_error error;
    enum rota_code code = rota_work_broker_reply_read_id(about, id, &error);
    if (code)
        rota_work_broker_reply_error(call, &error, false);
    return !code;
}
