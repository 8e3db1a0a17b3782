/* All about a job, and why it is where it is.
 *
 * A worker of another node may take a waiting job: if the caller asks for it, the other nodes
 * are asked for their workers, but not for long. */
#include "run/work/broker/work_broker_inside.h"
#include "run/work/broker/work_broker_method.h"

#include "core/work/broker/elsewhere.h"
#include "run/work/broker/work_broker_reply.h"
#include "run/work/broker/work_broker_show.h"
#include "run/work/cluster/work_broker_errand.h"
#include "run/work/cluster/work_broker_forward.h"
#include "run/work/store/work_broker_store.h"

#define ASK_TIMEOUT (1 * ROTA_SEC)

static bool waits_for_worker(const struct rota_work_broker *broker, struct rota_str queue,
                             const struct rota_job_view *view)
{
    return view->state == ROTA_JOB_WAITING &&
           rota_broker_waits_for_worker(broker->core, queue, view->id);
}

/* --- workers of other nodes --- */

static bool add_part(struct rota_elsewhere *elsewhere, struct rota_broker_errand *errand, size_t i)
{
    const struct rota_broker_part *part = &errand->parts[i];
    struct rota_arena *arena = &errand->broker->front.arena;
    struct rota_queue_list list;
    if (part->status != ROTA_STATUS_OK) {
        rota_elsewhere_add_silent(elsewhere, rota_str(part->address));
        return true;
    }
    if (rota_message_decode(&ROTA_QUEUE_WORKERS_REPLY, rota_buffer_str(&part->message), &list,
                            arena, NULL))
        return false;
    const struct rota_queue_worker_info *infos = list.items.items;
    struct rota_elsewhere_worker *workers =
        rota_arena_take(arena, (list.items.n + 1) * sizeof *workers);
    for (size_t j = 0; workers && j < list.items.n; j++)
        workers[j] = (struct rota_elsewhere_worker){
            .name = infos[j].name,
            .slots = infos[j].slots,
            .n_running = infos[j].n_running,
            .can = infos[j].can.items,
            .n_can = infos[j].can.n,
            .queues = infos[j].queues.items,
            .n_queues = infos[j].queues.n,
        };
    return workers &&
           rota_elsewhere_add(elsewhere, i, rota_str(part->address), workers, list.items.n);
}

/* Append their answers to `text`; without memory for it, that the job is offered. */
static void explain_elsewhere(struct rota_broker_errand *errand, struct rota_str queue,
                              const struct rota_job_view *view, char *text, size_t size)
{
    struct rota_elsewhere elsewhere;
    bool is_fine = true;
    rota_elsewhere_init(&elsewhere, errand->broker->seed, queue, view->spec.capabilities,
                        view->spec.n_capabilities);
    for (size_t i = 0; is_fine && i < errand->n_parts; i++)
        is_fine = add_part(&elsewhere, errand, i);
    if (!is_fine || rota_elsewhere_is_able(&elsewhere))
        rota_work_broker_forward_explain(errand->broker, queue, text, size);
    size_t used = strlen(text);
    if (is_fine && used + 1 < size) {
        const char *joint = rota_elsewhere_is_able(&elsewhere) ? ": " : " on this node; ";
        used += (size_t)snprintf(text + used, size - used, "%s", joint);
    }
    if (is_fine && used < size)
        rota_elsewhere_explain(&elsewhere, text + used, size - used);
    rota_elsewhere_deinit(&elsewhere);
}

/* --- the answer --- */

/* `errand` is NULL when no other node was asked. Takes both. */
static void answer_describe(struct rota_work_broker *broker, struct rota_server_call *call,
                            struct rota_broker_errand *errand, const struct rota_queue_about *about,
                            struct rota_job_id id)
{
    struct rota_job_view view;
    struct rota_error error;
    char text[2 * ROTA_ERROR_TEXT_MAX];
    enum rota_code code = rota_broker_find(broker->core, about->queue, id, &view, &error);
    if (!code)
        rota_broker_explain(broker->core, rota_work_broker_now(), about->queue, id, text,
                            sizeof text);
    if (!code && waits_for_worker(broker, about->queue, &view)) {
        if (errand)
            explain_elsewhere(errand, about->queue, &view, text, sizeof text);
        else
            rota_work_broker_forward_explain(broker, about->queue, text, sizeof text);
    }
    bool is_down = broker->front.fsm.is_store_down;
    size_t used = code ? 0 : strlen(text);
    if (!code && is_down && view.state == ROTA_JOB_WAITING && used < sizeof text)
        snprintf(text + used, sizeof text - used, ", %s", ROTA_BROKER_STORE_AWAY);
    if (errand)
        rota_work_broker_errand_end(errand);
    if (!code && view.state >= ROTA_JOB_DONE && is_down &&
        !rota_work_broker_store_turn_is_written(broker, about->queue, id))
        code = rota_error_set(&error, ROTA_ERR_UNAVAILABLE,
                              "the end of this job is not stored yet, " ROTA_BROKER_STORE_AWAY);
    if (code) {
        rota_work_broker_reply_error(call, &error, false);
        return;
    }
    struct rota_queue_description reply = {
        .explain = rota_str(text),
        .job = rota_work_broker_show_job(
            broker, &view, about->with_payload ? ROTA_BROKER_SHOW_PAYLOAD : ROTA_BROKER_SHOW_ALL)};
    if (!reply.job) {
        rota_work_broker_reply_no_memory(call);
        return;
    }
    /* That it has ended is true once that is on disk. */
    bool is_known = view.state < ROTA_JOB_DONE ||
                    rota_work_broker_store_turn_is_written(broker, about->queue, id);
    uint64_t number = is_known ? 0 : rota_broker_last_number(broker->core);
    broker->front.call_first = broker->log.durable + 1;
    rota_work_broker_reply_message(broker, call, number, &ROTA_QUEUE_DESCRIPTION, &reply);
}

/* The job may have changed meanwhile: it is read again. */
static void on_asked(struct rota_broker_errand *errand)
{
    struct rota_broker_request *request = errand->request;
    struct rota_job_id id;
    errand->request = NULL;
    rota_arena_clear(&request->broker->front.arena);
    rota_work_broker_reply_read_id(&request->as.about, &id, NULL);
    answer_describe(request->broker, request->call, errand, &request->as.about, id);
    rota_work_broker_front_drop(request);
}

/* False when there is no node to ask, or no memory for it. */
static bool ask_nodes(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    size_t n = broker->forward ? rota_work_broker_cluster_n_peers(broker->cluster) : 0;
    struct rota_broker_errand *errand =
        n > 0 ? rota_work_broker_errand_new(broker, request->call, "/rota.v1.Queue/Workers", n,
                                            on_asked)
              : NULL;
    if (!errand)
        return false;
    errand->request = rota_work_broker_front_keep(request);
    if (!errand->request) {
        rota_work_broker_errand_end(errand);
        return false;
    }
    errand->timeout_max = ASK_TIMEOUT;
    for (size_t i = 0; i < n; i++)
        rota_work_broker_errand_ask(errand, i, rota_work_broker_cluster_peer(broker->cluster, i),
                                    rota_str(""));
    rota_work_broker_errand_begin(errand);
    return true;
}

void rota_work_broker_describe_job(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_server_call *call = request->call;
    const struct rota_queue_about *about = &request->as.about;
    struct rota_job_id id;
    struct rota_job_view view;
    if (!rota_work_broker_reply_read_job(call, about, &id))
        return;
    bool asks = about->asks_nodes &&
                !rota_broker_find(broker->core, about->queue, id, &view, NULL) &&
                waits_for_worker(broker, about->queue, &view);
    if (!asks || !ask_nodes(request))
        answer_describe(broker, call, NULL, about, id);
}
