/* Calls of a broker with a store wait for partitions that are not loaded yet. */
#include "run/work/store/work_broker_store_inside.h"

#include "io/clock.h"
#include "run/work/broker/work_broker_reply.h"

#include <stdlib.h>

struct rota_partition_fsm *rota_work_broker_store_gate_partitions(
    const struct rota_work_broker *broker)
{
    return broker->store ? &broker->store->fsm : NULL;
}

bool rota_work_broker_store_gate_is_loaded(const struct rota_work_broker *broker)
{
    const struct rota_broker_store *store = broker->store;
    return !store || rota_partition_fsm_is_loaded(&store->fsm);
}

enum rota_code rota_work_broker_store_gate_check_size(const struct rota_work_broker *broker,
                                                      struct rota_str bytes, const char *what,
                                                      struct rota_error *error)
{
    const struct rota_broker_store *store = broker->store;
    if (!store || bytes.size <= store->bytes_max || bytes.size > ROTA_JOB_PAYLOAD_MAX)
        return ROTA_OK; /* beyond the bound of all brokers it is rejected as there */
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "%s has %zu bytes; the database accepts at most %zu (max_allowed_packet)",
                          what, bytes.size, store->bytes_max);
}

static bool may_be_there(const struct rota_broker_request *request)
{
    bool may = false;
    for (size_t i = 0; i < request->n_jobs; i++)
        may = may || rota_front_new_may_be_there(&request->jobs[i]);
    return may;
}

void rota_work_broker_store_gate_park(struct rota_broker_request *request)
{
    struct rota_broker_store *store = request->broker->store;
    struct rota_broker_parked *parked =
        store->n_parked < ROTA_BROKER_STORE_PARKED_MAX ? calloc(1, sizeof *parked) : NULL;
    if (!request->front.since)
        request->front.since = rota_clock_boot();
    if (parked)
        parked->request = rota_work_broker_front_keep(request);
    if (!parked || !parked->request) {
        struct rota_error error;
        free(parked);
        rota_error_set(&error, ROTA_ERR_LIMIT, "too many calls are waiting for a partition");
        rota_work_broker_reply_error(request->call, &error, !may_be_there(request));
        return;
    }
    rota_list_push(&store->parked, &parked->link);
    store->n_parked++;
    rota_work_broker_store_look_soon(store);
    rota_work_broker_touch(store->broker);
}

void rota_work_broker_store_gate_unpark(struct rota_broker_store *store, const char *why)
{
    struct rota_list_node waiting;
    rota_list_take(&waiting, &store->parked);
    store->n_parked = 0;
    ROTA_LIST_DRAIN (first, &waiting, struct rota_broker_parked, link) { /* some may wait again */
        struct rota_broker_request *request = first->request;
        rota_list_remove(&first->link);
        free(first);
        if (why) {
            rota_server_call_finish(request->call, ROTA_STATUS_UNAVAILABLE, why, NULL, 0);
            rota_work_broker_front_drop(request);
        } else {
            rota_work_broker_front_resume(request);
        }
    }
}
