/* topic: the name of a document, and how it is made. topics.h has the table of all. */
#pragma once

#include "base/json.h"
#include "wire/message/message.h"

enum {
    ROTA_TOPIC_CLUSTER, /* the first of the table: the nodes themselves */
    ROTA_TOPICS_MAX = 16,
};

struct rota_node;

struct rota_topic {
    const char *name;

    /* Write the document, an object. NULL: `method` answers. */
    void (*write)(struct rota_node *node, struct rota_json *json);

    bool is_of_all, with_calls; /* made of what the other nodes report, and of their calls */

    const char *method; /* of rota.v1.Queue, and the type of its reply */
    const struct rota_message_type *reply_type;
};
