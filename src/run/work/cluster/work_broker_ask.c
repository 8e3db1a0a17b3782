#include "run/work/cluster/work_broker_ask.h"

#include "run/work/cluster/work_broker_cluster.h"

#include <stdlib.h>

static void on_call_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct rota_broker_ask *ask = data;
    (void)call;
    rota_list_remove(&ask->link);
    ask->on_end(ask, result);
    free(ask);
}

enum rota_code rota_work_broker_ask(struct rota_broker_cluster *cluster,
                                    struct rota_list_node *asks, struct rota_broker_ask *ask,
                                    struct rota_str peer, const struct rota_call_options *options,
                                    struct rota_error *error)
{
    struct rota_call_options own = *options;
    own.on_end = on_call_end;
    own.data = ask;
    enum rota_code code = rota_work_broker_cluster_call(cluster, peer, &own, &ask->call, error);
    if (code) {
        free(ask);
        return code;
    }
    rota_list_push(asks, &ask->link);
    return ROTA_OK;
}

void rota_work_broker_ask_drop_all(struct rota_list_node *asks)
{
    ROTA_LIST_DRAIN (ask, asks, struct rota_broker_ask, link) {
        rota_list_remove(&ask->link);
        rota_call_cancel(ask->call);
        free(ask);
    }
}
