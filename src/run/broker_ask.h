/* broker_ask: a call to another node that ends at the latest with whoever makes it.
 *
 * What its end has to know stands behind a struct rota_broker_ask, in one block. The asks of an
 * owner are in a list: when the owner closes it drops them, and no end is told. */
#pragma once

#include "core/call/list.h"

#include <rota/channel.h>

struct rota_broker_cluster;

struct rota_broker_ask {
    struct rota_list_node link;
    struct rota_call *call;

    /* It has ended, and is in no list any more; it is freed afterwards. */
    void (*on_end)(struct rota_broker_ask *ask, const struct rota_call_result *result);
};

/* Call a node, as rota_broker_cluster_call() does; `options` has no callback. Takes `ask`, which is
 * malloc's, with its `on_end`; without success it is freed, and on_end does not come. */
enum rota_code rota_broker_ask(struct rota_broker_cluster *cluster, struct rota_list_node *asks,
                               struct rota_broker_ask *ask, struct rota_str peer,
                               const struct rota_call_options *options, struct rota_error *error);

/* All of them are over, and their ends not told. */
void rota_broker_asks_drop(struct rota_list_node *asks);
