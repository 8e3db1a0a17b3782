/* Calls of rota.v1.Queue: each is read, and handled here or carried to other nodes. */
#include "run/work/broker_method.h"

#include "run/work/broker_errand.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Room for any request of ours. Those of operators begin with a name. */
union request {
    struct rota_queue_add add;
    struct rota_queue_list list;
    struct rota_queue_about about;
    struct rota_queue_list_request jobs;
    struct rota_queue_page page;
    struct rota_queue_setting setting;
    struct rota_queue_poll poll;
    struct rota_queue_word word;
    struct rota_queue_adopt adopt;
    struct rota_queue_forget forget;
    struct rota_queue_delete delete;
    struct rota_queue_settings settings;
    struct rota_queue_lay_out lay_out;
};

bool rota_work_broker_is_carried(struct rota_server_call *call)
{
    size_t n;
    const struct rota_metadata *metadata = rota_server_call_metadata(call, &n);
    return rota_broker_cluster_is_carried(metadata, n) &&
           (rota_server_call_roles(call) & ROTA_ROLE_NODE); /* anyone can write the note */
}

/* For people: who requested a change. The change itself is another event. */
static void note_operation(struct rota_work_broker *broker, struct rota_server_call *call,
                           const struct rota_broker_method *method, const union request *request)
{
    char actor[ROTA_SERVER_ACTOR_MAX], subject[ROTA_JOB_QUEUE_NAME_MAX + 1], what[256];
    bool is_dry_run = (method->type == &ROTA_QUEUE_SET_LAYOUT && request->lay_out.is_dry_run) ||
                      (method->type == &ROTA_QUEUE_FORGET && request->forget.is_dry_run) ||
                      (method->type == &ROTA_QUEUE_DELETE && request->delete.is_dry_run);
    if (!broker->options.on_news || !(method->roles & ROTA_ROLE_OPERATOR) || is_dry_run ||
        rota_work_broker_is_carried(call))
        return;
    snprintf(subject, sizeof subject, "%.*s", ROTA_STR_ARGS(request->setting.queue));
    snprintf(what, sizeof what, "%s, by %.200s", strrchr(method->path, '/') + 1,
             rota_server_call_actor(call, actor));
    broker->options.on_news(broker->options.data, false, subject, what);
}

static bool is_for_others(const struct rota_work_broker *broker, struct rota_server_call *call)
{
    return !rota_broker_cluster_is_alone(broker->cluster) && !rota_work_broker_is_carried(call);
}

/* Where no other node is listed all nodes are this one, which need not be able to reach itself. */
static bool has_others(const struct rota_work_broker *broker)
{
    return rota_broker_cluster_n_peers(broker->cluster) > 0;
}

/* ... which is different if nodes are down whose journals may hold jobs. */
static bool has_other_jobs(const struct rota_work_broker *broker)
{
    return has_others(broker) || rota_work_broker_n_absent(broker, false) > 0;
}

/* True when other nodes answer it; else `request` is to be handled here. */
static bool route_request(struct rota_work_broker *broker, struct rota_server_call *call,
                          const struct rota_broker_method *method, union request *request)
{
    switch (method->by) {
    case ROTA_BROKER_BY_THIS:
        return false;
    case ROTA_BROKER_BY_OWNER_OF_NEW:
        return rota_work_broker_route_add(broker, call, method->path, &request->add);
    case ROTA_BROKER_BY_OWNERS_OF_NEW:
        return rota_work_broker_route_batch(broker, call, method->path, &request->list);
    case ROTA_BROKER_BY_OWNER:
        return rota_work_broker_route_job(broker, call, method->path, &request->about, false);
    case ROTA_BROKER_BY_OWNER_OR_ALL:
        if (request->about.id.size > 0)
            return rota_work_broker_route_job(broker, call, method->path, &request->about, true);
        if (has_others(broker))
            rota_work_broker_gather_watch(broker, call, method->path);
        return has_others(broker);
    case ROTA_BROKER_BY_ALL_IN_TURN:
        if (has_other_jobs(broker))
            rota_work_broker_gather_list(broker, call, method->path, &request->jobs);
        return has_other_jobs(broker);
    case ROTA_BROKER_BY_ALL_QUEUES:
        if (has_other_jobs(broker))
            rota_work_broker_gather_queues(broker, call, method->path, &request->page);
        return has_other_jobs(broker);
    case ROTA_BROKER_BY_ALL_WORKERS:
        if (has_others(broker))
            rota_work_broker_gather_workers(broker, call, method->path);
        return has_others(broker);
    case ROTA_BROKER_BY_ALL_ALIKE:
        if (has_others(broker))
            rota_work_broker_gather_set(broker, call, method->path);
        return has_others(broker);
    case ROTA_BROKER_BY_ALL_DELETING:
        if (has_other_jobs(broker))
            rota_work_broker_gather_delete(broker, call, method->path, &request->delete);
        return has_other_jobs(broker);
    case ROTA_BROKER_BY_ALL_FORGETTING:
        if (has_others(broker))
            rota_work_broker_gather_forget(broker, call, method->path);
        return has_others(broker);
    }
    return false;
}

/* The jobs of an add or a batch, which are the arena's. */
static struct rota_queue_job_spec *new_jobs(const struct rota_broker_method *method,
                                            const union request *request)
{
    const void *jobs =
        method->by == ROTA_BROKER_BY_OWNERS_OF_NEW ? request->list.items.items : request->add.job;
    return (struct rota_queue_job_spec *)(uintptr_t)jobs;
}

bool rota_work_broker_name_jobs(struct rota_work_broker *broker, struct rota_queue_job_spec *jobs,
                                size_t n, bool is_carried)
{
    uint32_t partitions = rota_broker_cluster_n_partitions(broker->cluster);
    for (size_t i = 0; i < n; i++) {
        if (jobs[i].idempotency_key.size == 0)
            continue;
        jobs[i].is_keyed = is_carried && jobs[i].id.size == ROTA_QUEUE_ID_SIZE;
        char *id = rota_arena_take(&broker->arena, ROTA_QUEUE_ID_SIZE);
        if (!id)
            return false;
        rota_queue_spec_name(&jobs[i], partitions, id);
    }
    return true;
}

static void refuse_memory(struct rota_server_call *call)
{
    rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED,
                            "not enough memory for the request", NULL, 0);
}

/* True when an add may have been made before, and all nodes are asked for its job. */
static bool search_added_job(struct rota_broker_service *service, struct rota_server_call *call,
                             const union request *request)
{
    if (service->method->by == ROTA_BROKER_BY_OWNERS_OF_NEW)
        return rota_work_broker_search(service, call, &request->list, true);
    if (service->method->by != ROTA_BROKER_BY_OWNER_OF_NEW || !request->add.job)
        return false;
    struct rota_queue_list one = {.items = {request->add.job, 1}};
    return rota_work_broker_search(service, call, &one, false);
}

/* Another node searches a job. True when it is not here; the answer includes the nodes that this
 * one knows: it may have sent the job to one that the other does not know of. */
static bool refuse_unknown(struct rota_work_broker *broker, struct rota_server_call *call,
                           const struct rota_queue_about *about)
{
    struct rota_job_id id;
    struct rota_job_view view;
    struct rota_error error;
    char hash[20];
    if (rota_work_broker_read_id(about, &id, NULL) ||
        !rota_broker_find(broker->core, about->queue, id, &view, &error))
        return false;
    snprintf(hash, sizeof hash, "%llx", (unsigned long long)rota_broker_nodes_hash(broker->core));
    rota_server_call_finish(call, rota_grpc_status_of_code(error.code), error.text,
                            &(struct rota_metadata){rota_str(ROTA_NOTE_NODES), rota_str(hash)}, 1);
    return true;
}

/* A call about a job waits here before the job is searched elsewhere; where a new job goes is
 * known after routing. */
static bool is_admitted(struct rota_broker_service *service, struct rota_server_call *call,
                        union request *request)
{
    struct rota_work_broker *broker = service->broker;
    enum rota_broker_need need = service->method->need;
    if (need == ROTA_BROKER_NEEDS_JOB &&
        !rota_work_broker_store_admit(service, call, need, request))
        return false;
    if (is_for_others(broker, call) && (search_added_job(service, call, request) ||
                                        route_request(broker, call, service->method, request)))
        return false;
    if (need != ROTA_BROKER_NEEDS_JOB)
        return rota_work_broker_store_admit(service, call, need, request);
    if (!rota_work_broker_store_vouches(broker, &request->about)) {
        rota_work_broker_refuse_unowned(call);
        return false;
    }
    return !rota_work_broker_is_carried(call) || broker->store ||
           !refuse_unknown(broker, call, &request->about);
}

/* Whether the id alone decides where a job goes, under any layout of its queue, so that a
 * repeated add finds it. A client that gives both an id and a partition can choose another of
 * each. */
static bool is_placed(const struct rota_queue_job_spec *job, bool is_carried)
{
    struct rota_job_id id;
    if (job->is_keyed || rota_queue_id_read(job->id, &id, NULL) || rota_job_id_is_none(id))
        return job->is_keyed;
    return is_carried ? rota_job_id_partition(id) != job->partition : job->partition == 0;
}

/* Ignore fields that only nodes may set, and derive ids from keys. False without memory. */
static bool read_new_jobs(struct rota_broker_service *service, struct rota_server_call *call,
                          const union request *request)
{
    const struct rota_broker_method *method = service->method;
    bool is_batch = method->by == ROTA_BROKER_BY_OWNERS_OF_NEW;
    if (!is_batch && (method->by != ROTA_BROKER_BY_OWNER_OF_NEW || !request->add.job))
        return true;
    struct rota_queue_job_spec *jobs = new_jobs(method, request);
    size_t n = is_batch ? request->list.items.n : 1;
    bool is_carried = rota_work_broker_is_carried(call);
    for (size_t i = 0; !is_carried && i < n; i++)
        jobs[i].is_known = false;
    if (!rota_work_broker_name_jobs(service->broker, jobs, n, is_carried))
        return false;
    for (size_t i = 0; i < n; i++)
        jobs[i].is_placed = is_placed(&jobs[i], is_carried);
    return true;
}

static void serve_request(struct rota_broker_service *service, struct rota_server_call *call,
                          union request *request)
{
    struct rota_work_broker *broker = service->broker;
    if (!is_admitted(service, call, request))
        return;
    broker->call_first = rota_broker_last_number(broker->core) + 1;
    service->method->handle(broker, call, request);
}

void rota_work_broker_call(struct rota_broker_service *service, struct rota_server_call *call,
                           bool is_resumed)
{
    struct rota_work_broker *broker = service->broker;
    const struct rota_message_type *type = service->method->type;
    union request request = {0};
    struct rota_error error;
    rota_server_call_set_data(call, NULL);
    rota_arena_clear(&broker->arena);
    if (broker->is_closing) {
        rota_server_call_finish(call, ROTA_STATUS_UNAVAILABLE, "this broker is stopping", NULL, 0);
        return;
    }
    assert(!type || type->size <= sizeof request);
    if (type && rota_message_decode(type, rota_server_call_request(call), &request, &broker->arena,
                                    &error)) {
        if (error.code == ROTA_ERR_LIMIT) /* however often it is tried */
            error.code = ROTA_ERR_INVALID;
        rota_work_broker_refuse(call, &error, false);
    } else if (!read_new_jobs(service, call, &request)) {
        refuse_memory(call);
    } else {
        if (!is_resumed)
            note_operation(broker, call, service->method, &request);
        serve_request(service, call, &request);
    }
}

void rota_work_broker_call_known(struct rota_broker_service *service, struct rota_server_call *call,
                                 const uint32_t *known, size_t n)
{
    struct rota_work_broker *broker = service->broker;
    union request request = {0};
    struct rota_error error;
    rota_arena_clear(&broker->arena);
    if (rota_message_decode(service->method->type, rota_server_call_request(call), &request,
                            &broker->arena, &error)) {
        rota_work_broker_refuse(call, &error, false);
        return;
    }
    if (!read_new_jobs(service, call, &request)) {
        refuse_memory(call);
        return;
    }
    struct rota_queue_job_spec *jobs = new_jobs(service->method, &request);
    for (size_t i = 0; i < n; i++) {
        jobs[i].is_sought = jobs[i].is_again;
        jobs[i].is_again = false;
        jobs[i].is_known = known[i];
    }
    serve_request(service, call, &request);
}

static void on_call(void *data, struct rota_server_call *call)
{
    rota_work_broker_call(data, call, false);
}

static void on_cancel(void *data, struct rota_server_call *call)
{
    const struct rota_broker_service *service = data;
    if (rota_broker_errand_cancel(service->broker, call))
        return;
    if (service->method->cancel)
        service->method->cancel(service->broker, call);
}

static void on_room(void *data, struct rota_server_call *call)
{
    const struct rota_broker_service *service = data;
    if (!rota_broker_errand_room(service->broker, call) && service->method->room)
        service->method->room(service->broker, call);
}

enum rota_code rota_work_broker_serve(struct rota_work_broker *broker, struct rota_server *server,
                                      struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; !code && i < ROTA_BROKER_METHODS; i++) {
        broker->services[i] = (struct rota_broker_service){broker, &rota_work_broker_methods[i]};
        struct rota_server_method method = {.path = rota_work_broker_methods[i].path,
                                            .on_call = on_call,
                                            .on_cancel = on_cancel,
                                            .on_room = on_room,
                                            .data = &broker->services[i],
                                            .roles = rota_work_broker_methods[i].roles};
        code = rota_server_add(server, &method, error);
    }
    return code;
}
