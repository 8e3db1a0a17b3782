/* Calls of a broker with a store: about what is not loaded yet they wait. */
#include "run/broker_store.h"

#include "io/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum verdict { GO_ON, WAIT };

/* Also while nobody is known, ourselves neither. */
static bool is_ours(const struct rota_broker_store *store, struct rota_str queue, uint32_t number)
{
    struct rota_broker_cluster *cluster = store->broker->cluster;
    return rota_broker_cluster_is_ours(cluster, queue, number) ||
           rota_broker_cluster_owner(cluster, queue, number).size == 0;
}

bool rota_work_broker_store_is_loaded(const struct rota_work_broker *broker)
{
    const struct rota_broker_store *store = broker->store;
    return !store || (store->is_looked && store->n_in[ROTA_BROKER_HELD_WANTED] == 0 &&
                      store->n_in[ROTA_BROKER_HELD_TAKING] == 0 &&
                      store->n_in[ROTA_BROKER_HELD_LOADING] == 0);
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
    struct rota_broker_held *part = rota_broker_store_part(store, queue, number);
    if (part && part->state >= ROTA_BROKER_HELD_OPEN)
        return GO_ON;
    if (!part && !is_ours(store, queue, number))
        return GO_ON;
    if (!part && rota_broker_cluster_is_ours(broker->cluster, queue, number) &&
        !rota_broker_store_want(store, queue, number))
        return GO_ON;
    return WAIT;
}

/* Which job is meant; false: none can be. */
static bool read_job(const struct rota_queue_about *about, struct rota_job_id *id)
{
    return !rota_job_queue_check(about->queue, NULL) && !rota_queue_id_read(about->id, id, NULL) &&
           !rota_job_id_is_none(*id);
}

static bool is_known(const struct rota_broker_store *store, struct rota_str queue,
                     struct rota_job_id id)
{
    struct rota_job_view view;
    return !rota_broker_find(store->broker->core, queue, id, &view, NULL);
}

/* Whether all partitions were looked at since the call came that is handled now. */
static bool is_fresh(const struct rota_broker_store *store)
{
    return store->is_looked && store->resumed_at > 0 && store->looked_at >= store->resumed_at;
}

/* About a job that is there: its partition is ours as soon as it is found to be. A job that is not
 * known here is denied only when the table has said, since the call came, that the partition is
 * still ours, or that it does not exist: another node may have taken it and the job with it. */
static enum verdict admit_job(struct rota_broker_store *store, const struct rota_queue_about *about)
{
    struct rota_job_id id;
    if (!read_job(about, &id) || is_known(store, about->queue, id))
        return GO_ON;
    uint32_t place = rota_broker_cluster_place(store->broker->cluster, id);
    const struct rota_broker_held *part = rota_broker_store_part(store, about->queue, place);
    if (part && part->state < ROTA_BROKER_HELD_OPEN)
        return WAIT;
    if (part ? part->state == ROTA_BROKER_HELD_OPEN : is_ours(store, about->queue, place))
        return is_fresh(store) ? GO_ON : WAIT;
    return GO_ON;
}

bool rota_work_broker_store_vouches(const struct rota_work_broker *broker,
                                    const struct rota_queue_about *about)
{
    const struct rota_broker_store *store = broker->store;
    struct rota_job_id id;
    if (!store || !read_job(about, &id) || is_known(store, about->queue, id))
        return true;
    uint32_t place = rota_broker_cluster_place(broker->cluster, id);
    const struct rota_broker_held *part = rota_broker_store_part(store, about->queue, place);
    return part ? part->state == ROTA_BROKER_HELD_OPEN
                : rota_broker_cluster_is_ours(broker->cluster, about->queue, place);
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

/* Whether a job is added that may have been taken in before: to refuse it says nothing of that. */
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

static enum rota_code admit(struct rota_broker_store *store, enum rota_broker_need need,
                            const void *request, enum verdict *verdict, struct rota_error *error)
{
    const struct rota_queue_add *add = request;
    const struct rota_queue_list *list = request;
    const struct rota_queue_about *about = request;
    bool is_add = need == ROTA_BROKER_NEEDS_ADD || need == ROTA_BROKER_NEEDS_ADDS;
    enum rota_code code = ROTA_OK;
    *verdict = GO_ON;
    if (is_add && store->is_away)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "%s, the store is away: %.300s",
                              may_be_here(need, request)
                                  ? "it is not known whether this was written"
                                  : "no job is taken in",
                              store->why.text);
    switch (need) {
    case ROTA_BROKER_NEEDS_NOTHING:
        break;
    case ROTA_BROKER_NEEDS_ALL: /* people may look also while the store is away */
        *verdict = store->is_settled ? GO_ON : WAIT;
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

static enum rota_code park(struct rota_broker_store *store, struct rota_broker_service *service,
                           struct rota_server_call *call, struct rota_error *error)
{
    if (store->is_away)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "the store is away: %.300s",
                              store->why.text);
    struct rota_broker_parked *parked =
        store->n_parked < ROTA_BROKER_STORE_PARKED_MAX ? calloc(1, sizeof *parked) : NULL;
    if (!parked)
        return rota_error_set(error, ROTA_ERR_LIMIT, "too many calls wait for a partition");
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
    enum rota_code code = admit(store, need, request, &verdict, &error);
    if (!code && verdict == GO_ON)
        return true;
    if (!code)
        code = park(store, service, call, &error);
    if (code)
        rota_work_broker_refuse(call, &error, !may_be_here(need, request));
    return false;
}

bool rota_work_broker_store_is_away(const struct rota_work_broker *broker, const char **why)
{
    const struct rota_broker_store *store = broker->store;
    *why = store ? store->why.text : "";
    return store && store->is_away;
}

void rota_broker_store_unpark(struct rota_broker_store *store, const char *why)
{
    struct rota_list_node waiting, *first;
    if (rota_list_is_empty(&store->parked))
        return;
    rota_list_init(&waiting);
    while ((first = rota_list_first(&store->parked))) {
        rota_list_remove(first);
        rota_list_push(&waiting, first);
    }
    store->n_parked = 0;
    while ((first = rota_list_first(&waiting))) { /* some may wait anew */
        struct rota_broker_parked parked = *ROTA_LIST_ITEM(first, struct rota_broker_parked, link);
        rota_list_remove(first);
        free(ROTA_LIST_ITEM(first, struct rota_broker_parked, link));
        if (why)
            rota_server_call_finish(parked.call, ROTA_STATUS_UNAVAILABLE, why, NULL, 0);
        else {
            store->resumed_at = parked.at;
            rota_work_broker_call(parked.service, parked.call, true);
            store->resumed_at = 0;
        }
    }
}
