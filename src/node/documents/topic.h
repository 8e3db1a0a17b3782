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

    /* What this node has, an object. NULL: `method` answers for all nodes. */
    void (*write)(struct rota_node *node, struct rota_json *json);

    /* The array of the object that has an entry for each thing of this node. NULL: one node
     * writes the whole document. */
    const char *key;

    /* Combine the parts in another way than concatenation; NULL: concatenate. */
    void (*write_whole)(struct rota_node *node, struct rota_json *json);

    const char *method; /* of rota.v1.Queue, and the type of its reply */
    const struct rota_message_type *reply_type;
};
