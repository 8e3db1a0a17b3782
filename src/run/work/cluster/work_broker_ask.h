/* broker_ask: a call to another node that ends with its owner at the latest.
 *
 * The data for its end follows a struct rota_broker_ask, in one block. The asks of an owner are
 * in a list: when the owner closes it drops them, and their on_end is not called. */
#pragma once

#include "base/list.h"

#include <rota/experimental/channel.h>

struct rota_broker_cluster;

struct rota_broker_ask {
    struct rota_list_node link;
    struct rota_call *call;

    /* The call has ended, and is no longer in a list; it is freed afterwards. */
    void (*on_end)(struct rota_broker_ask *ask, const struct rota_call_result *result);
};

/* Call a node, as rota_work_broker_cluster_call() does; `options` has no callback. Takes `ask`,
 * from malloc(), with its `on_end`; on failure it is freed, and on_end is not called. */
enum rota_code rota_work_broker_ask(struct rota_broker_cluster *cluster,
                                    struct rota_list_node *asks, struct rota_broker_ask *ask,
                                    struct rota_str peer, const struct rota_call_options *options,
                                    struct rota_error *error);

/* Drop all of them; their on_end is not called. */
void rota_work_broker_ask_drop_all(struct rota_list_node *asks);
