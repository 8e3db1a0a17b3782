/* Calls of a broker with a store wait for partitions that are not loaded yet. */
#include "run/work/broker_store.h"

#include "io/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum verdict { GO_ON, WAIT };

bool rota_work_broker_store_is_loaded(const struct rota_work_broker *broker)
{
    const struct rota_broker_store *store = broker->store;
    return !store || rota_partition_fsm_is_loaded(&store->fsm);
}

/* About a partition that a job is to be added to: it is taken if it is ours. */
static enum verdict admit_add(struct rota_broker_store *store,
                              const struct rota_queue_job_spec *message, uint32_t number)
{
    struct rota_work_broker *broker = store->broker;
    struct rota_str queue = message->queue;
    if (rota_job_queue_check(queue, NULL) ||
        rota_work_broker_check_new(broker, message, number, NULL) == ROTA_ERR_INVALID)
        return GO_ON; /* and be refused */
    return rota_partition_fsm_must_wait_to_add(&store->fsm, queue, number) ? WAIT : GO_ON;
}

/* Which job is meant; false: none can be. */
static bool read_job(const struct rota_queue_about *about, struct rota_job_id *id)
{
    return !rota_job_queue_check(about->queue, NULL) && !rota_queue_id_read(about->id, id, NULL) &&
           !rota_job_id_is_none(*id);
}

static bool is_known_job(const struct rota_broker_store *store, struct rota_str queue,
                         struct rota_job_id id)
{
    struct rota_job_view view;
    return !rota_broker_find(store->broker->core, queue, id, &view, NULL);
}

/* About an existing job: another node may have taken its partition, and the job with it. */
static enum verdict admit_job(struct rota_broker_store *store, const struct rota_queue_about *about)
{
    struct rota_job_id id;
    if (!read_job(about, &id) || is_known_job(store, about->queue, id))
        return GO_ON;
    uint32_t place = rota_broker_cluster_place(store->broker->cluster, id);
    return rota_partition_fsm_must_wait(&store->fsm, about->queue, place, store->resumed_at)
               ? WAIT
               : GO_ON;
}

bool rota_work_broker_store_vouches(const struct rota_work_broker *broker,
                                    const struct rota_queue_about *about)
{
    const struct rota_broker_store *store = broker->store;
    struct rota_job_id id;
    if (!store || !read_job(about, &id) || is_known_job(store, about->queue, id))
        return true;
    uint32_t place = rota_broker_cluster_place(broker->cluster, id);
    return rota_partition_fsm_vouches(&store->fsm, about->queue, place);
}

static enum rota_code check_size(const struct rota_broker_store *store, struct rota_str bytes,
                                 const char *what, struct rota_error *error)
{
    if (bytes.size <= store->bytes_max || bytes.size > ROTA_JOB_PAYLOAD_MAX)
        return ROTA_OK; /* above the bound of all brokers it is refused as there */
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "%s of %zu bytes: the database takes at most %zu (max_allowed_packet)",
                          what, bytes.size, store->bytes_max);
}

static enum rota_code admit_spec(struct rota_broker_store *store,
                                 const struct rota_queue_job_spec *message, enum verdict *verdict,
                                 struct rota_error *error)
{
    struct rota_job_spec spec;
    if (rota_queue_spec_read(message, rota_work_broker_now().wall, &spec, NULL) ||
        rota_work_broker_place(store->broker, message, true, spec.id, &spec.partition, NULL))
        return ROTA_OK;
    if (admit_add(store, message, spec.partition) == WAIT)
        *verdict = WAIT;
    return check_size(store, spec.payload, "a payload", error);
}

/* Whether the job may have been added before: a rejection does not tell. */
static bool may_be_here(enum rota_broker_need need, const void *request)
{
    const struct rota_queue_add *add = request;
    const struct rota_queue_list *list = request;
    bool is_batch = need == ROTA_BROKER_NEEDS_ADDS;
    if (!is_batch && need != ROTA_BROKER_NEEDS_ADD)
        return false;
    const struct rota_queue_job_spec *jobs = is_batch ? list->items.items : add->job;
    for (size_t i = 0; jobs && i < (is_batch ? list->items.n : 1); i++)
        if (jobs[i].is_again || jobs[i].is_sought || jobs[i].is_known)
            return true;
    return false;
}

static enum rota_code admit_request(struct rota_broker_store *store, enum rota_broker_need need,
                                    const void *request, enum verdict *verdict,
                                    struct rota_error *error)
{
    const struct rota_queue_add *add = request;
    const struct rota_queue_list *list = request;
    const struct rota_queue_about *about = request;
    bool is_add = need == ROTA_BROKER_NEEDS_ADD || need == ROTA_BROKER_NEEDS_ADDS;
    enum rota_code code = ROTA_OK;
    *verdict = GO_ON;
    if (is_add && store->is_away)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "%s, " ROTA_BROKER_STORE_AWAY,
                              may_be_here(need, request) ? "the outcome of this write is unknown"
                                                         : "the node accepts no new jobs");
    switch (need) {
    case ROTA_BROKER_NEEDS_NOTHING:
        break;
    case ROTA_BROKER_NEEDS_ALL: /* people may read even while the store is unreachable */
        *verdict = store->fsm.is_settled ? GO_ON : WAIT;
        break;
    case ROTA_BROKER_NEEDS_JOB:
        *verdict = admit_job(store, about);
        return check_size(store, about->bytes, "a result", error);
    case ROTA_BROKER_NEEDS_ADD:
        return add->job ? admit_spec(store, add->job, verdict, error) : ROTA_OK;
    case ROTA_BROKER_NEEDS_ADDS:
        for (size_t i = 0; !code && i < list->items.n; i++)
            code = admit_spec(store, (const struct rota_queue_job_spec *)list->items.items + i,
                              verdict, error);
        break;
    }
    return code;
}

static enum rota_code park_call(struct rota_broker_store *store,
                                struct rota_broker_service *service, struct rota_server_call *call,
                                struct rota_error *error)
{
    if (store->is_away)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE, ROTA_BROKER_STORE_AWAY);
    struct rota_broker_parked *parked =
        store->n_parked < ROTA_BROKER_STORE_PARKED_MAX ? calloc(1, sizeof *parked) : NULL;
    if (!parked)
        return rota_error_set(error, ROTA_ERR_LIMIT, "too many calls are waiting for a partition");
    parked->call = call;
    parked->service = service;
    parked->at = store->resumed_at ? store->resumed_at : rota_clock_boot();
    rota_list_push(&store->parked, &parked->link);
    store->n_parked++;
    rota_broker_store_look_soon(store);
    rota_work_broker_touch(store->broker);
    return ROTA_OK;
}

bool rota_work_broker_store_admit(struct rota_broker_service *service,
                                  struct rota_server_call *call, enum rota_broker_need need,
                                  const void *request)
{
    struct rota_broker_store *store = service->broker->store;
    enum verdict verdict;
    struct rota_error error;
    if (!store)
        return true;
    enum rota_code code = admit_request(store, need, request, &verdict, &error);
    if (!code && verdict == GO_ON)
        return true;
    if (!code)
        code = park_call(store, service, call, &error);
    if (code)
        rota_work_broker_refuse(call, &error, !may_be_here(need, request));
    return false;
}

bool rota_work_broker_store_is_away(const struct rota_work_broker *broker)
{
    return broker->store && broker->store->is_away;
}

void rota_broker_store_unpark(struct rota_broker_store *store, const char *why)
{
    struct rota_list_node waiting;
    rota_list_take(&waiting, &store->parked);
    store->n_parked = 0;
    ROTA_LIST_DRAIN (first, &waiting, struct rota_broker_parked, link) { /* some may wait again */
        struct rota_broker_parked parked = *first;
        rota_list_remove(&first->link);
        free(first);
        if (why)
            rota_server_call_finish(parked.call, ROTA_STATUS_UNAVAILABLE, why, NULL, 0);
        else {
            store->resumed_at = parked.at;
            rota_work_broker_call(parked.service, parked.call, true);
            store->resumed_at = 0;
        }
    }
}
