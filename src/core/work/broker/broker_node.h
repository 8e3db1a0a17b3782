/* broker_node: nodes that may hold jobs. */
#pragma once

#include "core/work/broker/broker.h"

/* Another node, or ourselves. */
struct rota_work_node {
    enum rota_broker_node_state state;
    rota_time at;      /* wall clock: since when */
    rota_time left_at; /* monotonic: when it was last listed, in this process */
    bool is_listed, is_placed, is_seen;
    bool is_left; /* of ourselves: we have reported that we hold none */
    size_t size;
    char address[];
};

/* Jobs are about to be sent to this node. */
enum rota_code rota_broker_node_note_receiver(struct rota_broker *broker, struct rota_str address,
                                              struct rota_error *error);

/* Jobs arrive: if we have reported that we hold none, revoke that. False without memory. */
bool rota_broker_node_note_coming_back(struct rota_broker *broker);
enum rota_code rota_broker_node_read(struct rota_broker *broker,
                                     const struct rota_work_record *record,
                                     struct rota_error *error);
bool rota_broker_node_rewrite_all(struct rota_broker *broker);
void rota_broker_node_free_all(struct rota_broker *broker);
