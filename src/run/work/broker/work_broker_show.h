/* broker_show: jobs for people. */
#pragma once

#include "wire/message/queue_message.h"

struct rota_work_broker;

enum rota_broker_shown {
    ROTA_BROKER_SHOW_NAME,
    ROTA_BROKER_SHOW_LIST, /* all but payload, result and events */
    ROTA_BROKER_SHOW_ALL,  /* all but the payload */
    ROTA_BROKER_SHOW_PAYLOAD,
};

/* A job for people. Pointers are into the arena or the broker; NULL without memory. */
const struct rota_queue_job_info *rota_work_broker_show_job(struct rota_work_broker *broker,
                                                            const struct rota_job_view *view,
                                                            enum rota_broker_shown shown);
