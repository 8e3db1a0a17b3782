/* The methods of rota.v1.Queue, and helpers for their answers. */
#include "run/work/broker_method.h"

#include "core/call/failure.h"
#include "wire/grpc/call_notes.h"

#include <stdio.h>

/* --- answers --- */

bool rota_work_broker_may_go_elsewhere(enum rota_code code)
{
    return code == ROTA_ERR_STALE || code == ROTA_ERR_UNAVAILABLE || code == ROTA_ERR_LIMIT;
}

void rota_work_broker_refuse(struct rota_server_call *call, const struct rota_error *error,
                             bool is_partition)
{
    const struct rota_metadata notes[] = {
        {rota_str(ROTA_NOTE_ELSEWHERE), rota_str("1")},
        {rota_str(ROTA_NOTE_FAILURE), rota_str(rota_failure_name(ROTA_FAILURE_STALE))}};
    bool has_note = is_partition && rota_work_broker_may_go_elsewhere(error->code);
    if (is_partition && error->code == ROTA_ERR_STALE)
        rota_server_call_finish(call, ROTA_STATUS_UNAVAILABLE, error->text, notes, 2);
    else
        rota_server_call_finish(call, rota_grpc_status_of_code(error->code), error->text, notes,
                                has_note);
}

void rota_work_broker_refuse_add(const struct rota_work_broker *broker,
                                 struct rota_server_call *call, struct rota_str queue,
                                 const struct rota_error *error)
{
    char n[16];
    if (error->code != ROTA_ERR_STALE) {
        rota_work_broker_refuse(call, error, true);
        return;
    }
    snprintf(n, sizeof n, "%u", rota_broker_cluster_layout(broker->cluster, queue).write);
    const struct rota_metadata notes[] = {
        {rota_str(ROTA_NOTE_ELSEWHERE), rota_str("1")},
        {rota_str(ROTA_NOTE_FAILURE), rota_str(rota_failure_name(ROTA_FAILURE_STALE))},
        {rota_str(ROTA_NOTE_PARTITIONS), rota_str(n)}};
    rota_server_call_finish(call, ROTA_STATUS_UNAVAILABLE, error->text, notes, 3);
}

void rota_work_broker_refuse_unowned(struct rota_server_call *call)
{
    struct rota_error error;
    rota_error_set(
        &error, ROTA_ERR_STALE,
        "this node does not own the job's partition, which may be in handover; try again");
    rota_work_broker_refuse(call, &error, true);
}

void rota_work_broker_refuse_memory(struct rota_server_call *call)
{
    rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED, "not enough memory for the reply",
                            NULL, 0);
}

void rota_work_broker_reply_buffer(struct rota_work_broker *broker, struct rota_server_call *call,
                                   uint64_t number)
{
    if (broker->buffer.failed)
        rota_work_broker_refuse_memory(call);
    else
        rota_work_broker_answer(broker, call, number, rota_buffer_str(&broker->buffer));
}

void rota_work_broker_reply(struct rota_work_broker *broker, struct rota_server_call *call,
                            uint64_t number, const struct rota_message_type *type,
                            const void *message)
{
    rota_buffer_clear(&broker->buffer);
    if (type)
        rota_message_encode(type, message, &broker->buffer);
    rota_work_broker_reply_buffer(broker, call, number);
}

/* --- requests --- */

enum rota_code rota_work_broker_read_id(const struct rota_queue_about *about,
                                        struct rota_job_id *id, struct rota_error *error)
{
    enum rota_code code = rota_job_queue_check(about->queue, error);
    if (!code)
        code = rota_queue_id_read(about->id, id, error);
    if (!code && rota_job_id_is_none(*id))
        code = rota_error_set(error, ROTA_ERR_INVALID, "the request has no job id");
    return code;
}

bool rota_work_broker_read_job(struct rota_server_call *call, const struct rota_queue_about *about,
                               struct rota_job_id *id)
{
    struct rota_error error;
    enum rota_code code = rota_work_broker_read_id(about, id, &error);
    if (code)
        rota_work_broker_refuse(call, &error, false);
    return !code;
}

/* --- all of them --- */

#define WAITING(name, by_whom, of_type, handler, needs, on_cancel, on_room)                        \
    {                                                                                              \
        .path = "/rota.v1.Queue/" name, .by = ROTA_BROKER_BY_##by_whom, .type = (of_type),         \
        .handle = (handler), .need = ROTA_BROKER_NEEDS_##needs, .cancel = (on_cancel),             \
        .room = (on_room)                                                                          \
    }
#define METHOD(name, by_whom, of_type, handler, needs)                                             \
    WAITING(name, by_whom, of_type, handler, needs, NULL, NULL)

/* These change how the cluster works; a node passes them on to others. */
#define OPERATION(name, by_whom, of_type, handler)                                                 \
    {                                                                                              \
        .path = "/rota.v1.Queue/" name, .by = ROTA_BROKER_BY_##by_whom, .type = (of_type),         \
        .handle = (handler), .need = ROTA_BROKER_NEEDS_NOTHING,                                    \
        .roles = ROTA_ROLE_OPERATOR | ROTA_ROLE_NODE                                               \
    }
/* Only nodes call these. */
#define PEER(name, of_type, handler)                                                               \
    {                                                                                              \
        .path = "/rota.peer.v1.QueuePeer/" name, .by = ROTA_BROKER_BY_THIS, .type = (of_type),     \
        .handle = (handler), .need = ROTA_BROKER_NEEDS_NOTHING, .roles = ROTA_ROLE_NODE            \
    }

const struct rota_broker_method rota_work_broker_methods[] = {
    METHOD("Add", OWNER_OF_NEW, &ROTA_QUEUE_ADD, rota_work_broker_handle_add, ADD),
    METHOD("AddBatch", OWNERS_OF_NEW, &ROTA_QUEUE_ADD_BATCH, rota_work_broker_handle_add_batch,
           ADDS),
    PEER("Adopt", &ROTA_QUEUE_ADOPT, rota_work_broker_adopt),
    METHOD("Cancel", OWNER, &ROTA_QUEUE_NAME, rota_work_broker_handle_cancel, JOB),
    METHOD("Complete", OWNER, &ROTA_QUEUE_COMPLETE, rota_work_broker_handle_complete, JOB),
    METHOD("CompleteBatch", THIS, &ROTA_QUEUE_COMPLETE_BATCH,
           rota_work_broker_handle_complete_batch, NOTHING),
    {.path = "/rota.v1.Queue/DeleteQueue",
     .by = ROTA_BROKER_BY_ALL_DELETING,
     .type = &ROTA_QUEUE_DELETE,
     .handle = rota_work_broker_handle_delete,
     .need = ROTA_BROKER_NEEDS_ALL, /* or jobs that are not loaded yet would not be seen */
     .roles = ROTA_ROLE_OPERATOR | ROTA_ROLE_NODE},
    METHOD("Describe", OWNER, &ROTA_QUEUE_DESCRIBE, rota_work_broker_handle_describe, JOB),
    METHOD("Extend", OWNER, &ROTA_QUEUE_EXTEND, rota_work_broker_handle_extend, JOB),
    METHOD("Fail", OWNER, &ROTA_QUEUE_FAIL, rota_work_broker_handle_fail, JOB),
    PEER("Find", &ROTA_QUEUE_FIND, rota_work_broker_find_jobs),
    OPERATION("Forget", ALL_FORGETTING, &ROTA_QUEUE_FORGET, rota_work_broker_forget_node),
    PEER("LayOut", &ROTA_QUEUE_LAY_OUT, rota_work_broker_lay_out),
    METHOD("List", ALL_IN_TURN, &ROTA_QUEUE_LIST, rota_work_broker_handle_list, ALL),
    METHOD("Nodes", THIS, &ROTA_QUEUE_PAUSE, rota_work_broker_nodes, NOTHING),
    OPERATION("Pause", ALL_ALIKE, &ROTA_QUEUE_PAUSE, rota_work_broker_handle_pause),
    WAITING("Poll", THIS, &ROTA_QUEUE_POLL, rota_work_broker_poll, NOTHING,
            rota_work_broker_poll_cancel, NULL),
    METHOD("Queues", ALL_QUEUES, &ROTA_QUEUE_PAGE, rota_work_broker_handle_queues, ALL),
    METHOD("Retry", OWNER, &ROTA_QUEUE_NAME, rota_work_broker_handle_retry, JOB),
    OPERATION("SetLayout", THIS, &ROTA_QUEUE_SET_LAYOUT, rota_work_broker_set_layout),
    METHOD("SetPriority", OWNER, &ROTA_QUEUE_PRIORITY, rota_work_broker_handle_priority, JOB),
    OPERATION("SetQuarantine", ALL_ALIKE, &ROTA_QUEUE_QUARANTINE,
              rota_work_broker_handle_quarantine),
    OPERATION("SetWeight", ALL_ALIKE, &ROTA_QUEUE_WEIGHT, rota_work_broker_handle_weight),
    PEER("Settings", &ROTA_QUEUE_SETTINGS_REQUEST, rota_work_broker_settings_tell),
    PEER("Tell", &ROTA_QUEUE_TELL, rota_work_broker_forward_tell),
    PEER("Visit", &ROTA_QUEUE_VISIT, rota_work_broker_forward_visit),
    WAITING("Watch", OWNER_OR_ALL, &ROTA_QUEUE_NAME, rota_work_broker_watch, JOB,
            rota_work_broker_watch_cancel, rota_work_broker_watch_room),
    METHOD("Workers", ALL_WORKERS, NULL, rota_work_broker_handle_workers, NOTHING),
};
_Static_assert(sizeof rota_work_broker_methods / sizeof *rota_work_broker_methods ==
                   ROTA_BROKER_METHODS,
               "one service for each");
