/* broker_method: the table of methods of rota.v1.Queue and rota.peer.v1.QueuePeer. */
#pragma once

#include "run/work/broker/work_broker_front.h"

/* Which node answers a method where there are several. */
enum rota_broker_answered_by {
    ROTA_BROKER_BY_THIS,         /* the node that receives the call */
    ROTA_BROKER_BY_OWNER_OF_NEW, /* of each job to be added */
    ROTA_BROKER_BY_OWNER,        /* of a job; without one, as the next */
    ROTA_BROKER_BY_ALL,
};

struct rota_broker_method {
    const char *path;
    enum rota_broker_answered_by by;
    const struct rota_message_type *type; /* NULL: the request is not decoded */
    rota_broker_handler *handle;
    uint32_t roles; /* that a caller needs, as in <rota/server.h> */

    /* BY_ALL: how their answers become one, which nodes they are, and whether each has to know all
     * jobs that existed when it started. */
    rota_broker_handler *gather;
    enum rota_front_others others;
    bool needs_jobs;

    /* The caller has disconnected, or has room again; NULL: no effect. */
    void (*cancel)(struct rota_work_broker *broker, struct rota_server_call *call);
    void (*room)(struct rota_work_broker *broker, struct rota_server_call *call);
};

extern const struct rota_broker_method rota_broker_method_all[ROTA_BROKER_METHODS];

/* --- the methods of clients that are in no other header --- */

/* work_broker_submit.c */
rota_broker_handler rota_work_broker_submit_add, rota_work_broker_submit_add_batch,
    rota_work_broker_submit_cancel, rota_work_broker_submit_retry, rota_work_broker_submit_priority;

/* work_broker_describe.c */
rota_broker_handler rota_work_broker_describe_job;

/* work_broker_attempt.c */
rota_broker_handler rota_work_broker_attempt_complete, rota_work_broker_attempt_complete_batch,
    rota_work_broker_attempt_fail, rota_work_broker_attempt_extend;

/* work_broker_operate.c */
rota_broker_handler rota_work_broker_operate_list, rota_work_broker_operate_pause,
    rota_work_broker_operate_weight, rota_work_broker_operate_quarantine,
    rota_work_broker_operate_queues, rota_work_broker_operate_workers,
    rota_work_broker_operate_delete;

/* work_broker_gather.c: all nodes answer; and what a node reports about itself and the others. */
rota_broker_handler rota_work_broker_gather_set, rota_work_broker_gather_watch,
    rota_work_broker_gather_workers, rota_work_broker_gather_delete, rota_work_broker_gather_forget,
    rota_work_broker_gather_queues, rota_work_broker_gather_list, rota_work_broker_gather_nodes;
