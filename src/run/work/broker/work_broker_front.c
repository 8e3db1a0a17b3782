#include "run/work/broker/work_broker_front.h"

#include "run/work/broker/work_broker_inside.h"
#include "run/work/broker/work_broker_method.h"
#include "run/work/broker/work_broker_reply.h"
#include "run/work/cluster/work_broker_errand.h"
#include "run/work/cluster/work_broker_refresh.h"
#include "run/work/cluster/work_broker_settings.h"
#include "run/work/store/work_broker_store.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what the machine asks --- */

static struct rota_front_owner owner_of(void *data, struct rota_str queue, uint32_t partition)
{
    const struct rota_work_broker *broker = data;
    return rota_work_broker_cluster_whose(broker->cluster, queue, partition);
}

static struct rota_work_layout layout_of(void *data, struct rota_str queue)
{
    const struct rota_work_broker *broker = data;
    return rota_work_broker_cluster_layout(broker->cluster, queue);
}

static size_t n_others(void *data, enum rota_front_others which)
{
    const struct rota_work_broker *broker = data;
    size_t n = rota_work_broker_cluster_n_peers(broker->cluster);
    return which == ROTA_FRONT_LISTED ? n : n + rota_work_broker_settings_n_absent(broker, false);
}

static bool is_told(void *data)
{
    const struct rota_work_broker *broker = data;
    return rota_work_broker_settings_are_told(broker->settings);
}

/* --- reading --- */

/* Whether it comes from a node that has routed it to us. */
static bool is_carried(struct rota_server_call *call)
{
    size_t n;
    const struct rota_metadata *metadata = rota_server_call_metadata(call, &n);
    return rota_work_broker_cluster_is_carried(metadata, n) &&
           (rota_server_call_roles(call) & ROTA_ROLE_NODE); /* anyone can write the note */
}

/* For operators: who requested a change. The change itself is another event. */
static void note_operation(const struct rota_broker_request *request)
{
    const struct rota_work_broker *broker = request->broker;
    const struct rota_broker_method *method = request->method;
    char actor[ROTA_SERVER_ACTOR_MAX], subject[ROTA_JOB_QUEUE_NAME_MAX + 1], what[256];
    bool is_dry_run = (method->type == &ROTA_QUEUE_SET_LAYOUT && request->as.lay_out.is_dry_run) ||
                      (method->type == &ROTA_QUEUE_FORGET && request->as.forget.is_dry_run) ||
                      (method->type == &ROTA_QUEUE_DELETE && request->as.delete.is_dry_run);
    if (!broker->options.on_news || !(method->roles & ROTA_ROLE_OPERATOR) || is_dry_run ||
        request->front.is_carried)
        return;
    snprintf(subject, sizeof subject, "%.*s", ROTA_STR_ARGS(request->as.setting.queue));
    snprintf(what, sizeof what, "received a %s request by %.200s", strrchr(method->path, '/') + 1,
             rota_server_call_actor(request->call, actor));
    broker->options.on_news(broker->options.data, false, subject, what);
}

/* One job to be added: its id follows from its key, and fields that only nodes may set count only
 * if a node has set them. False without memory. */
static bool read_new(struct rota_broker_front *front, struct rota_queue_job_spec *spec,
                     bool is_from_node, struct rota_front_new *job)
{
    if (!is_from_node)
        spec->is_known = false;
    if (spec->idempotency_key.size > 0) {
        char *id = rota_arena_take(&front->arena, ROTA_QUEUE_ID_SIZE);
        if (!id)
            return false;
        spec->is_keyed = is_from_node && spec->id.size == ROTA_QUEUE_ID_SIZE;
        rota_queue_message_spec_name(spec, front->fsm.options.n_partitions, id);
    }
    *job = (struct rota_front_new){
        .queue = spec->queue,
        .unique = spec->unique,
        .asked = (uint32_t)spec->partition,
        .is_keyed = spec->is_keyed,
        .is_again = spec->is_again,
        .is_known = spec->is_known,
    };
    if (rota_queue_message_id_read(spec->id, &job->id, NULL))
        job->id = (struct rota_job_id){0}; /* it is refused when it is added */
    rota_front_fsm_read(job, is_from_node);
    return true;
}

static bool read_new_jobs(struct rota_broker_request *request)
{
    struct rota_broker_front *front = &request->broker->front;
    bool is_batch = request->method->type == &ROTA_QUEUE_ADD_BATCH;
    const void *specs = is_batch ? request->as.list.items.items : request->as.add.job;
    request->n_jobs = is_batch ? request->as.list.items.n : specs != NULL;
    request->specs = (struct rota_queue_job_spec *)(uintptr_t)specs; /* of our arena */
    request->jobs = rota_arena_take(&front->arena, (request->n_jobs + 1) * sizeof *request->jobs);
    bool is_read = request->jobs != NULL;
    for (size_t i = 0; is_read && i < request->n_jobs; i++)
        is_read = read_new(front, &request->specs[i], request->front.is_carried, &request->jobs[i]);
    return is_read;
}

/* --- deciding --- */

static void handle(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    broker->front.call_first = rota_broker_last_number(broker->core) + 1;
    request->method->handle(request);
}

/* Another node searches a job that is not here. The answer includes the nodes that this one knows:
 * it may have sent the job to one that the other does not know of. */
static void refuse_unknown(const struct rota_broker_request *request, struct rota_job_id id)
{
    const struct rota_broker *core = request->broker->core;
    struct rota_job_view view;
    struct rota_error error;
    char hash[20];
    rota_broker_find(core, request->as.about.queue, id, &view, &error);
    snprintf(hash, sizeof hash, "%llx", (unsigned long long)rota_broker_nodes_hash(core));
    rota_server_call_finish(request->call, ROTA_STATUS_NOT_FOUND, error.text,
                            &(struct rota_metadata){rota_str(ROTA_NOTE_NODES), rota_str(hash)}, 1);
}

/* Handle it here, after a wait, or not at all. */
static void carry_out(struct rota_broker_request *request, const struct rota_front_action *action)
{
    if (action->what == ROTA_FRONT_WAIT)
        rota_work_broker_store_gate_park(request);
    else if (action->what == ROTA_FRONT_REFUSE)
        rota_work_broker_reply_reason(request->call, action->reason, NULL);
    else
        handle(request);
}

static void serve_job(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    const struct rota_front_fsm *fsm = &broker->front.fsm;
    const struct rota_queue_about *about = &request->as.about;
    struct rota_job_id id;
    struct rota_error error;
    if (rota_work_broker_store_gate_check_size(broker, about->bytes, "a result", &error)) {
        rota_work_broker_reply_error(request->call, &error, true);
        return;
    }
    if ((rota_front_fsm_denies(fsm) && !request->front.is_carried) ||
        rota_work_broker_reply_read_id(about, &id, NULL)) {
        handle(request);
        return;
    }
    struct rota_front_action action = rota_front_fsm_job(fsm, &request->front, about->queue, id);
    if (action.what == ROTA_FRONT_ASK_OWNER || action.what == ROTA_FRONT_ASK_OTHERS)
        rota_work_broker_route_job(request, &action);
    else if (action.what == ROTA_FRONT_REFUSE && action.reason == ROTA_FRONT_NOT_HERE)
        refuse_unknown(request, id);
    else
        carry_out(request, &action);
}

static void serve_all(struct rota_broker_request *request)
{
    const struct rota_broker_method *method = request->method;
    struct rota_front_action action = rota_front_fsm_all(
        &request->broker->front.fsm, &request->front, method->others, method->needs_jobs);
    if (action.what == ROTA_FRONT_ASK_OTHERS)
        method->gather(request);
    else
        carry_out(request, &action);
}

/* The jobs are to be added here: a store has to be reachable, and their partitions loaded. An
 * invalid job is refused when it is added. */
static void accept_new(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_front_fsm *fsm = &broker->front.fsm;
    bool may_be_there = false;
    if (!broker->store) {
        handle(request);
        return;
    }
    for (size_t i = 0; i < request->n_jobs; i++)
        may_be_there = may_be_there || rota_front_new_may_be_there(&request->jobs[i]);
    struct rota_front_action action = rota_front_fsm_accept(fsm, may_be_there);
    rota_time now = rota_work_broker_now().wall;
    for (size_t i = 0; action.what != ROTA_FRONT_REFUSE && i < request->n_jobs; i++) {
        struct rota_job_spec spec;
        struct rota_error error;
        if (rota_queue_message_spec_read(&request->specs[i], now, &spec, NULL) ||
            rota_job_queue_check(spec.queue, NULL))
            continue;
        if (rota_work_broker_store_gate_check_size(broker, spec.payload, "a payload", &error)) {
            rota_work_broker_reply_error(request->call, &error, !may_be_there);
            return;
        }
        if (rota_front_fsm_must_wait(fsm, &request->front, &request->jobs[i]))
            action.what = ROTA_FRONT_WAIT;
    }
    carry_out(request, &action);
}

enum rota_code rota_work_broker_front_route(struct rota_broker_request *request, size_t index,
                                            struct rota_front_action *action,
                                            struct rota_error *error)
{
    struct rota_front_fsm *fsm = &request->broker->front.fsm;
    const struct rota_queue_job_spec *spec = &request->specs[index];
    struct rota_job_id id;
    enum rota_code code = rota_job_queue_check(spec->queue, error);
    if (!code)
        code = rota_queue_message_id_read(spec->id, &id, error);
    if (!code)
        code = rota_queue_message_key_check(spec, error);
    return code ? code
                : rota_front_fsm_route(fsm, &request->front, &request->jobs[index], action, error);
}

static void serve_batch(struct rota_broker_request *request)
{
    struct rota_front_action *actions =
        rota_arena_take(&request->broker->front.arena, (request->n_jobs + 1) * sizeof *actions);
    bool is_all_here = true;
    if (!actions) {
        rota_work_broker_reply_no_memory(request->call);
        return;
    }
    for (size_t i = 0; i < request->n_jobs; i++) {
        if (rota_work_broker_front_route(request, i, &actions[i], NULL))
            actions[i].what = ROTA_FRONT_REFUSE;
        is_all_here = is_all_here && actions[i].what != ROTA_FRONT_ASK_OWNER;
    }
    if (is_all_here)
        accept_new(request);
    else
        rota_work_broker_route_batch(request, actions);
}

static void serve_add(struct rota_broker_request *request)
{
    struct rota_front_action action;
    struct rota_error error;
    if (request->n_jobs == 0)
        accept_new(request);
    else if (rota_work_broker_front_route(request, 0, &action, &error))
        rota_work_broker_reply_bad_add(
            request->broker, request->call, request->jobs, &error,
            rota_front_fsm_is_undone(&request->broker->front.fsm, request->jobs));
    else if (request->front.owner.size > 0)
        rota_work_broker_route_add(request, request->front.owner);
    else if (action.what == ROTA_FRONT_ASK_OWNER)
        rota_work_broker_route_add(request, action.owner);
    else
        accept_new(request);
}

static void serve_new(struct rota_broker_request *request)
{
    const struct rota_front_fsm *fsm = &request->broker->front.fsm;
    bool is_again = false;
    for (size_t i = 0; i < request->n_jobs; i++)
        is_again = is_again || request->jobs[i].is_again;
    if (fsm->is_unread) {
        rota_work_broker_reply_reason(request->call, rota_front_fsm_unread(is_again), NULL);
        return;
    }
    bool may_route = !fsm->options.is_alone && !request->front.is_carried;
    if (is_again && rota_front_fsm_must_search(fsm, &request->front))
        rota_work_broker_again_search(request);
    else if (!may_route)
        accept_new(request);
    else if (request->method->type == &ROTA_QUEUE_ADD_BATCH)
        serve_batch(request);
    else
        serve_add(request);
}

static void serve(struct rota_broker_request *request)
{
    if (request->broker->front.fsm.is_closing) {
        rota_work_broker_reply_reason(request->call, ROTA_FRONT_CLOSING, NULL);
        return;
    }
    switch (request->method->by) {
    case ROTA_BROKER_BY_THIS:
        handle(request);
        break;
    case ROTA_BROKER_BY_OWNER_OF_NEW:
        serve_new(request);
        break;
    case ROTA_BROKER_BY_OWNER:
        if (request->as.about.id.size == 0 && request->method->gather)
            serve_all(request);
        else
            serve_job(request);
        break;
    case ROTA_BROKER_BY_ALL:
        serve_all(request);
        break;
    }
}

/* --- keeping --- */

struct rota_broker_request *rota_work_broker_front_keep(struct rota_broker_request *request)
{
    struct rota_broker_front *front = &request->broker->front;
    struct rota_broker_request *kept = malloc(sizeof *kept);
    if (!kept)
        return NULL;
    *kept = *request;
    kept->arena = front->arena;
    front->arena = (struct rota_arena){0};
    if (kept->front.owner.size > 0) /* without memory it is routed by the view that is known */
        kept->front.owner = rota_arena_copy(&kept->arena, kept->front.owner);
    return kept;
}

void rota_work_broker_front_drop(struct rota_broker_request *kept)
{
    if (kept)
        rota_arena_deinit(&kept->arena);
    free(kept);
}

/* It may be kept again, with its arena. */
void rota_work_broker_front_resume(struct rota_broker_request *kept)
{
    struct rota_broker_request request = *kept;
    struct rota_broker_front *front = &request.broker->front;
    struct rota_arena own = front->arena;
    front->arena = kept->arena;
    free(kept);
    serve(&request);
    rota_arena_deinit(&front->arena);
    front->arena = own;
}

/* --- calls --- */

void rota_work_broker_front_begin(struct rota_work_broker *broker,
                                  const struct rota_broker_method *method,
                                  struct rota_server_call *call,
                                  const struct rota_front_call *about)
{
    struct rota_broker_front *front = &broker->front;
    const struct rota_message_type *type = method->type;
    struct rota_broker_request request = {
        .broker = broker, .method = method, .call = call, .front = *about};
    struct rota_error error;
    rota_arena_clear(&front->arena);
    assert(!type || type->size <= sizeof request.as);
    if (front->fsm.is_closing) {
        rota_work_broker_reply_reason(call, ROTA_FRONT_CLOSING, NULL);
    } else if (type && rota_message_decode(type, rota_server_call_request(call), &request.as,
                                           &front->arena, &error)) {
        if (error.code == ROTA_ERR_LIMIT) /* however often it is tried */
            error.code = ROTA_ERR_INVALID;
        rota_work_broker_reply_error(call, &error, false);
    } else if (method->by == ROTA_BROKER_BY_OWNER_OF_NEW && !read_new_jobs(&request)) {
        rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED,
                                "not enough memory for the request", NULL, 0);
    } else {
        note_operation(&request);
        serve(&request);
    }
}

static void on_call(void *data, struct rota_server_call *call)
{
    const struct rota_broker_service *service = data;
    struct rota_front_call front = {.is_carried = is_carried(call)};
    rota_server_call_set_data(call, NULL);
    if (front.is_carried)
        rota_work_broker_refresh_hear(service->broker, call, &front);
    if (front.refresh.wanted == 0 || service->method->by != ROTA_BROKER_BY_OWNER_OF_NEW ||
        !rota_work_broker_refresh_park(service->broker, service->method, call, &front))
        rota_work_broker_front_begin(service->broker, service->method, call, &front);
}

static void on_cancel(void *data, struct rota_server_call *call)
{
    const struct rota_broker_service *service = data;
    if (rota_work_broker_errand_cancel(service->broker, call))
        return;
    if (service->method->cancel)
        service->method->cancel(service->broker, call);
}

static void on_room(void *data, struct rota_server_call *call)
{
    const struct rota_broker_service *service = data;
    if (!rota_work_broker_errand_room(service->broker, call) && service->method->room)
        service->method->room(service->broker, call);
}

/* --- life --- */

enum rota_code rota_work_broker_front_open(struct rota_work_broker *broker,
                                           struct rota_server *server, struct rota_error *error)
{
    struct rota_broker_front *front = &broker->front;
    const struct rota_front_options options = {
        .broker = broker->core,
        .partitions = rota_work_broker_store_gate_partitions(broker),
        .is_alone = rota_work_broker_cluster_is_alone(broker->cluster),
        .n_partitions = rota_work_broker_cluster_n_partitions(broker->cluster),
        .owner = owner_of,
        .layout = layout_of,
        .n_others = n_others,
        .is_told = is_told,
        .data = broker,
        .seed = broker->seed,
    };
    enum rota_code code = ROTA_OK;
    rota_front_fsm_init(&front->fsm, &options);
    rota_list_init(&front->parked);
    for (size_t i = 0; !code && i < ROTA_BROKER_METHODS; i++) {
        const struct rota_broker_method *method = &rota_broker_method_all[i];
        front->services[i] = (struct rota_broker_service){broker, method};
        code = rota_server_add(server,
                               &(struct rota_server_method){.path = method->path,
                                                            .on_call = on_call,
                                                            .on_cancel = on_cancel,
                                                            .on_room = on_room,
                                                            .data = &front->services[i],
                                                            .roles = method->roles},
                               error);
    }
    return code;
}

void rota_work_broker_front_deinit(struct rota_broker_front *front)
{
    rota_map_deinit(&front->errands);
    rota_arena_deinit(&front->arena);
    rota_buffer_deinit(&front->buffer);
}
