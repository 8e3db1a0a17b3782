/* broker_method: the table of methods of rota.v1.Queue (broker_grpc.c), for broker_service.c,
 * which serves and routes them. */
#pragma once

#include "run/work/broker_inside.h"
#include "wire/grpc/grpc.h"

/* Which node answers a method where there are several. */
enum rota_broker_answered_by {
    ROTA_BROKER_BY_THIS, /* the node that receives the call */
    ROTA_BROKER_BY_OWNER_OF_NEW,
    ROTA_BROKER_BY_OWNERS_OF_NEW,
    ROTA_BROKER_BY_OWNER,
    ROTA_BROKER_BY_OWNER_OR_ALL, /* a stream */
    ROTA_BROKER_BY_ALL_IN_TURN,
    ROTA_BROKER_BY_ALL_QUEUES,
    ROTA_BROKER_BY_ALL_WORKERS,
    ROTA_BROKER_BY_ALL_ALIKE,
    ROTA_BROKER_BY_ALL_FORGETTING,
    ROTA_BROKER_BY_ALL_DELETING,
};

struct rota_broker_method {
    const char *path;
    enum rota_broker_answered_by by;
    const struct rota_message_type *type; /* NULL: the request is not decoded */
    rota_broker_handler *handle;
    enum rota_broker_need need;
    uint32_t roles; /* that a caller needs, as in <rota/server.h> */

    /* The caller has disconnected, or has room again; NULL: no effect. */
    void (*cancel)(struct rota_work_broker *broker, struct rota_server_call *call);
    void (*room)(struct rota_work_broker *broker, struct rota_server_call *call);
};

extern const struct rota_broker_method rota_work_broker_methods[ROTA_BROKER_METHODS];

/* --- shared by several methods: broker_grpc.c --- */

/* Whether a call with this error may succeed at another node or partition. */
bool rota_work_broker_may_go_elsewhere(enum rota_code code);

/* The job that a request names; and the same for a call, false when that was rejected. */
enum rota_code rota_work_broker_read_id(const struct rota_queue_about *about,
                                        struct rota_job_id *id, struct rota_error *error);
bool rota_work_broker_read_job(struct rota_server_call *call, const struct rota_queue_about *about,
                               struct rota_job_id *id);

/* --- the methods themselves --- */

/* broker_submit.c */
rota_broker_handler rota_work_broker_handle_add, rota_work_broker_handle_add_batch,
    rota_work_broker_handle_cancel, rota_work_broker_handle_retry, rota_work_broker_handle_priority;

/* broker_describe.c */
rota_broker_handler rota_work_broker_handle_describe;

/* broker_attempt.c */
rota_broker_handler rota_work_broker_handle_complete, rota_work_broker_handle_complete_batch,
    rota_work_broker_handle_fail, rota_work_broker_handle_extend;

/* broker_operate.c */
rota_broker_handler rota_work_broker_handle_list, rota_work_broker_handle_pause,
    rota_work_broker_handle_weight, rota_work_broker_handle_quarantine,
    rota_work_broker_handle_queues, rota_work_broker_handle_workers, rota_work_broker_handle_delete;
