/* Repeated adds: the node that has the job answers before it is added again.
 * core/work/cluster/front_fsm.h decides which nodes to ask, and how often. */
#include "run/work/broker/work_broker_inside.h"
#include "run/work/broker/work_broker_reply.h"
#include "run/work/cluster/work_broker_errand.h"
#include "run/work/cluster/work_broker_settings.h"

#include "io/clock.h"

static const char FIND[] = "/rota.peer.v1.QueuePeer/Find";

void rota_work_broker_again_find(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    const struct rota_queue_list *list = &request->as.list;
    const struct rota_queue_about *names = list->items.items;
    struct rota_buffer *buffer = &broker->front.buffer;
    struct rota_job_id id;
    rota_buffer_clear(buffer);
    for (size_t i = 0; i < list->items.n; i++)
        if (!rota_work_broker_reply_read_id(&names[i], &id, NULL) &&
            rota_front_fsm_has(&broker->front.fsm, names[i].queue, id))
            rota_message_encode_entry(&ROTA_QUEUE_NAME, 1, &names[i], buffer);
    const struct rota_queue_list found = {.nodes = rota_broker_nodes_hash(broker->core)};
    rota_message_encode(&ROTA_QUEUE_FOUND, &found, buffer);
    /* A job that is not on disk yet may be lost, but then its add was not answered. */
    rota_work_broker_reply_buffer(broker, request->call, rota_broker_last_number(broker->core));
}

/* --- the search --- */

static void ask_all_peers(struct rota_broker_errand *errand)
{
    struct rota_broker_cluster *cluster = errand->broker->cluster;
    size_t n = rota_work_broker_cluster_n_peers(cluster), i = 0;
    for (; i < n && i < errand->n_parts; i++)
        rota_work_broker_errand_ask(errand, i, rota_work_broker_cluster_peer(cluster, i),
                                    rota_buffer_str(&errand->reply));
    for (size_t k = 0; i < errand->n_parts; i++, k++) {
        struct rota_str absent = rota_work_broker_settings_absent(errand->broker, true, k);
        errand->parts[i].status = ROTA_STATUS_OK;
        if (absent.size > 0)
            rota_work_broker_errand_ask(errand, i, absent, rota_buffer_str(&errand->reply));
    }
}

/* Mark the jobs of the errand that this reply names. `is_unsure` becomes true if its node knows
 * other nodes. */
static bool note_found(struct rota_broker_errand *errand, struct rota_str message, bool *is_unsure)
{
    const struct rota_broker_request *request = errand->request;
    struct rota_queue_list found;
    if (rota_message_decode(&ROTA_QUEUE_FOUND, message, &found, &errand->broker->front.arena, NULL))
        return false;
    *is_unsure = *is_unsure || rota_front_fsm_knows_others(&errand->broker->front.fsm, found.nodes);
    const struct rota_queue_about *names = found.items.items;
    size_t n = request->n_jobs, at = 0; /* in the order of the request */
    for (size_t i = 0; i < found.items.n; i++)
        for (size_t k = 0; k < n; k++) {
            size_t job = (at + k) % n;
            if (!rota_str_is_equal(names[i].id, request->specs[job].id) ||
                !rota_str_is_equal(names[i].queue, request->specs[job].queue))
                continue;
            request->jobs[job].is_found = true;
            at = job + 1;
            break;
        }
    return true;
}

static void go_on(struct rota_broker_errand *errand)
{
    struct rota_broker_request *request = errand->request;
    errand->request = NULL;
    rota_work_broker_errand_end(errand);
    for (size_t i = 0; i < request->n_jobs; i++)
        rota_front_fsm_settle(&request->broker->front.fsm, &request->jobs[i]);
    rota_work_broker_front_resume(request);
}

static void carry_out(struct rota_broker_errand *errand, const struct rota_front_action *action,
                      const char *silent)
{
    if (action->what == ROTA_FRONT_ASK_OTHERS) {
        ask_all_peers(errand);
        rota_work_broker_errand_begin(errand);
    } else if (action->what == ROTA_FRONT_REFUSE) {
        rota_work_broker_errand_refuse_for(errand, action->reason, silent);
    } else {
        go_on(errand);
    }
}

static void on_round(struct rota_broker_errand *errand)
{
    const struct rota_broker_request *request = errand->request;
    const char *silent = NULL;
    bool is_in_doubt = false, is_unsure = false;
    rota_arena_clear(&errand->broker->front.arena);
    for (size_t i = 0; i < errand->n_parts; i++) {
        const struct rota_broker_part *part = &errand->parts[i];
        if (part->status != ROTA_STATUS_OK ||
            !note_found(errand, rota_buffer_str(&part->message), &is_unsure))
            silent = part->text;
    }
    for (size_t i = 0; i < request->n_jobs; i++)
        is_in_doubt = is_in_doubt || (request->jobs[i].is_again && !request->jobs[i].is_found);
    struct rota_front_action action =
        rota_front_fsm_searched(&request->broker->front.fsm, &errand->search, rota_clock_boot(),
                                is_in_doubt, silent != NULL, is_unsure);
    if (action.is_unsure)
        rota_work_broker_settings_ask_soon(request->broker->settings);
    carry_out(errand, &action, silent);
}

/* All jobs that may have been added and are not here, as a request for the others. */
static size_t write_names(const struct rota_broker_request *request, struct rota_buffer *buffer)
{
    size_t n = 0;
    for (size_t i = 0; i < request->n_jobs; i++) {
        struct rota_front_new *job = &request->jobs[i];
        struct rota_queue_about name = {.queue = job->queue, .id = request->specs[i].id};
        if (!job->is_again || rota_job_id_is_none(job->id) ||
            rota_job_queue_check(job->queue, NULL))
            continue;
        job->is_found = rota_front_fsm_has(&request->broker->front.fsm, job->queue, job->id);
        if (job->is_found)
            continue;
        rota_message_encode_entry(&ROTA_QUEUE_NAME, 1, &name, buffer);
        n++;
    }
    return n;
}

void rota_work_broker_again_search(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    size_t n_parts = rota_work_broker_cluster_n_peers(broker->cluster) +
                     rota_work_broker_settings_n_absent(broker, true);
    struct rota_broker_errand *errand =
        rota_work_broker_errand_new(broker, request->call, FIND, n_parts, on_round);
    if (errand)
        errand->request = rota_work_broker_front_keep(request);
    if (!errand || !errand->request) {
        if (errand)
            rota_work_broker_errand_end(errand);
        rota_server_call_finish(request->call, ROTA_STATUS_RESOURCE_EXHAUSTED,
                                "not enough memory to ask other nodes", NULL, 0);
        return;
    }
    size_t n = write_names(errand->request, &errand->reply);
    struct rota_front_action action =
        rota_front_fsm_search(&broker->front.fsm, &errand->search, rota_clock_boot(), n);
    carry_out(errand, &action, NULL);
}
