/* The methods of rota.v1.Queue, and what all of them need to answer. */
#include "run/broker_method.h"

#include "core/call/failure.h"
#include "wire/call_notes.h"

#include <stdio.h>

/* --- answers --- */

enum rota_status rota_work_broker_status_of(enum rota_code code)
{
    switch (code) {
    case ROTA_OK:
        return ROTA_STATUS_OK;
    case ROTA_ERR_INVALID:
        return ROTA_STATUS_INVALID_ARGUMENT;
    case ROTA_ERR_NOT_FOUND:
        return ROTA_STATUS_NOT_FOUND;
    case ROTA_ERR_LIMIT:
    case ROTA_ERR_NO_MEMORY:
        return ROTA_STATUS_RESOURCE_EXHAUSTED;
    case ROTA_ERR_UNAVAILABLE:
    case ROTA_ERR_IO:
        return ROTA_STATUS_UNAVAILABLE;
    case ROTA_ERR_UNKNOWN:
        return ROTA_STATUS_UNKNOWN;
    case ROTA_ERR_STALE:
        return ROTA_STATUS_ABORTED;
    }
    return ROTA_STATUS_INTERNAL;
}

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
        rota_server_call_finish(call, rota_work_broker_status_of(error->code), error->text, notes,
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
    rota_error_set(&error, ROTA_ERR_STALE,
                   "this node does not have the partition of the job, which may be changing hands; "
                   "try again");
    rota_work_broker_refuse(call, &error, true);
}

void rota_work_broker_refuse_memory(struct rota_server_call *call)
{
    rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED, "no memory for the answer", NULL,
                            0);
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
        code = rota_error_set(error, ROTA_ERR_INVALID, "which job? The request has no id");
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

/* --- methods of other files --- */

static void handle_watch(struct rota_work_broker *broker, struct rota_server_call *call,
                         const void *request)
{
    rota_work_broker_watch(broker, call, request);
}

static void handle_poll(struct rota_work_broker *broker, struct rota_server_call *call,
                        const void *request)
{
    rota_work_broker_poll(broker, call, request);
}

static void handle_tell(struct rota_work_broker *broker, struct rota_server_call *call,
                        const void *request)
{
    rota_work_broker_forward_tell(broker, call, request);
}

static void handle_visit(struct rota_work_broker *broker, struct rota_server_call *call,
                         const void *request)
{
    rota_work_broker_forward_visit(broker, call, request);
}

static void handle_adopt(struct rota_work_broker *broker, struct rota_server_call *call,
                         const void *request)
{
    if (broker->store) /* it would be in no row */
        rota_server_call_finish(call, ROTA_STATUS_FAILED_PRECONDITION,
                                "this node keeps its jobs in a store and takes none over", NULL, 0);
    else
        rota_work_broker_adopt(broker, call, request);
}

static void handle_find(struct rota_work_broker *broker, struct rota_server_call *call,
                        const void *request)
{
    rota_work_broker_find_jobs(broker, call, request);
}

static void handle_nodes(struct rota_work_broker *broker, struct rota_server_call *call,
                         const void *request)
{
    rota_work_broker_nodes(broker, call, ((const struct rota_queue_setting *)request)->queue);
}

static void handle_forget(struct rota_work_broker *broker, struct rota_server_call *call,
                          const void *request)
{
    rota_work_broker_forget_node(broker, call, request);
}

static void handle_settings(struct rota_work_broker *broker, struct rota_server_call *call,
                            const void *request)
{
    rota_work_broker_settings_tell(broker, call, request);
}

static void handle_set_layout(struct rota_work_broker *broker, struct rota_server_call *call,
                              const void *request)
{
    rota_work_broker_set_layout(broker, call, request);
}

static void handle_lay_out(struct rota_work_broker *broker, struct rota_server_call *call,
                           const void *request)
{
    rota_work_broker_lay_out(broker, call, request);
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
    PEER("Adopt", &ROTA_QUEUE_ADOPT, handle_adopt),
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
    PEER("Find", &ROTA_QUEUE_FIND, handle_find),
    OPERATION("Forget", ALL_FORGETTING, &ROTA_QUEUE_FORGET, handle_forget),
    PEER("LayOut", &ROTA_QUEUE_LAY_OUT, handle_lay_out),
    METHOD("List", ALL_IN_TURN, &ROTA_QUEUE_LIST, rota_work_broker_handle_list, ALL),
    METHOD("Nodes", THIS, &ROTA_QUEUE_PAUSE, handle_nodes, NOTHING),
    OPERATION("Pause", ALL_ALIKE, &ROTA_QUEUE_PAUSE, rota_work_broker_handle_pause),
    WAITING("Poll", THIS, &ROTA_QUEUE_POLL, handle_poll, NOTHING, rota_work_broker_poll_cancel,
            NULL),
    METHOD("Queues", ALL_QUEUES, &ROTA_QUEUE_PAUSE, rota_work_broker_handle_queues, ALL),
    METHOD("Retry", OWNER, &ROTA_QUEUE_NAME, rota_work_broker_handle_retry, JOB),
    OPERATION("SetLayout", THIS, &ROTA_QUEUE_SET_LAYOUT, handle_set_layout),
    METHOD("SetPriority", OWNER, &ROTA_QUEUE_PRIORITY, rota_work_broker_handle_priority, JOB),
    OPERATION("SetQuarantine", ALL_ALIKE, &ROTA_QUEUE_QUARANTINE,
              rota_work_broker_handle_quarantine),
    OPERATION("SetWeight", ALL_ALIKE, &ROTA_QUEUE_WEIGHT, rota_work_broker_handle_weight),
    PEER("Settings", &ROTA_QUEUE_SETTINGS_REQUEST, handle_settings),
    PEER("Tell", &ROTA_QUEUE_TELL, handle_tell),
    PEER("Visit", &ROTA_QUEUE_VISIT, handle_visit),
    WAITING("Watch", OWNER_OR_ALL, &ROTA_QUEUE_NAME, handle_watch, JOB,
            rota_work_broker_watch_cancel, rota_work_broker_watch_room),
    METHOD("Workers", ALL_WORKERS, NULL, rota_work_broker_handle_workers, NOTHING),
};
_Static_assert(sizeof rota_work_broker_methods / sizeof *rota_work_broker_methods ==
                   ROTA_BROKER_METHODS,
               "one service for each");
