/* broker_method: what the methods of rota.v1.Queue are (broker_grpc.c), for who serves and routes
 * them (broker_service.c). */
#pragma once

#include "run/broker_inside.h"

/* Who answers a method where there are several nodes. */
enum rota_broker_answered_by {
    ROTA_BROKER_BY_THIS, /* node, the one that is asked */
    ROTA_BROKER_BY_OWNER_OF_NEW,
    ROTA_BROKER_BY_OWNERS_OF_NEW,
    ROTA_BROKER_BY_OWNER,
    ROTA_BROKER_BY_OWNER_OR_ALL, /* a stream */
    ROTA_BROKER_BY_ALL_IN_TURN,
    ROTA_BROKER_BY_ALL_QUEUES,
    ROTA_BROKER_BY_ALL_WORKERS,
    ROTA_BROKER_BY_ALL_ALIKE,
    ROTA_BROKER_BY_ALL_FORGETTING,
};

struct rota_broker_method {
    const char *path;
    enum rota_broker_answered_by by;
    const struct rota_message_type *type; /* NULL: the request is not looked at */
    void (*handle)(struct rota_work_broker *broker, struct rota_server_call *call,
                   const void *request);
    enum rota_broker_need need;

    /* Who asked is gone, or has room again; NULL: that changes nothing. */
    void (*cancel)(struct rota_work_broker *broker, struct rota_server_call *call);
    void (*room)(struct rota_work_broker *broker, struct rota_server_call *call);
};

extern const struct rota_broker_method rota_work_broker_methods[ROTA_BROKER_METHODS];
