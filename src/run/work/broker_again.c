/* Repeated adds: the node that has the job answers before it is added again.
 *
 * The owner of a partition knows the jobs that it received. A job whose add had no answer may
 * have been accepted by a former owner, and still be there, or be in flight. So all nodes are
 * asked, including those that are down and may hold jobs; and a second time, because a job that
 * was moving from one node to another may have been seen at neither. A received job stays for at
 * least two seconds (broker_handover), so that twice is enough when it is quicker. A node that
 * has just started does not know yet which nodes to ask, and rejects the add until its peers
 * have reported. */
#include "run/work/broker_errand.h"
#include "run/work/broker_inside.h"

#include "io/clock.h"

#include <stdio.h>
#include <stdlib.h>

#define SEARCH_MAX (2 * ROTA_SEC) /* of both rounds */

static const char NOT_TOLD[] = "this node does not know yet which other nodes may already have the "
                               "job; try again";
static const char FIND[] = "/rota.peer.v1.QueuePeer/Find";

/* --- local jobs --- */

static bool is_here(struct rota_work_broker *broker, struct rota_str queue, struct rota_str bytes)
{
    struct rota_job_id id;
    struct rota_job_view view;
    return !rota_job_queue_check(queue, NULL) && !rota_queue_id_read(bytes, &id, NULL) &&
           !rota_job_id_is_none(id) && !rota_broker_find(broker->core, queue, id, &view, NULL);
}

void rota_work_broker_find_jobs(struct rota_work_broker *broker, struct rota_server_call *call,
                                const void *message)
{
    const struct rota_queue_list *request = message;
    const struct rota_queue_about *names = request->items.items;
    rota_buffer_clear(&broker->buffer);
    for (size_t i = 0; i < request->items.n; i++)
        if (is_here(broker, names[i].queue, names[i].id))
            rota_message_encode_entry(&ROTA_QUEUE_NAME, 1, &names[i], &broker->buffer);
    /* A job that is not on disk yet may be lost, but then its add was not answered. */
    rota_work_broker_reply_buffer(broker, call, rota_broker_last_number(broker->core));
}

/* --- the search --- */

static void ask_all_peers(struct rota_broker_errand *errand)
{
    struct rota_broker_cluster *cluster = errand->broker->cluster;
    size_t n = rota_broker_cluster_n_peers(cluster), i = 0;
    for (; i < n && i < errand->n_parts; i++)
        rota_broker_errand_ask(errand, i, rota_broker_cluster_peer(cluster, i),
                               rota_buffer_str(&errand->reply));
    for (size_t k = 0; i < errand->n_parts; i++, k++) {
        struct rota_str absent = rota_work_broker_absent(errand->broker, true, k);
        errand->parts[i].status = ROTA_STATUS_OK;
        if (absent.size > 0)
            rota_broker_errand_ask(errand, i, absent, rota_buffer_str(&errand->reply));
    }
}

/* Mark the jobs of the errand that this reply names. */
static bool note_found(struct rota_broker_errand *errand, const struct rota_queue_list *jobs,
                       struct rota_str message)
{
    struct rota_queue_list found;
    const struct rota_queue_job_spec *specs = jobs->items.items;
    if (rota_message_decode(&ROTA_QUEUE_FIND, message, &found, &errand->broker->arena, NULL))
        return false;
    const struct rota_queue_about *names = found.items.items;
    size_t n = jobs->items.n, at = 0; /* in the order of the request */
    for (size_t i = 0; i < found.items.n; i++)
        for (size_t k = 0; k < n; k++) {
            size_t job = (at + k) % n;
            if (!rota_str_is_equal(names[i].id, specs[job].id) ||
                !rota_str_is_equal(names[i].queue, specs[job].queue))
                continue;
            errand->parts_of[job] = 1;
            at = job + 1;
            break;
        }
    return true;
}

/* The jobs of an add or a batch, in the arena; false when there is no memory. */
static bool read_jobs(struct rota_work_broker *broker, struct rota_server_call *call, bool is_batch,
                      struct rota_queue_list *jobs)
{
    struct rota_queue_add add;
    rota_arena_clear(&broker->arena);
    if (is_batch) {
        if (rota_message_decode(&ROTA_QUEUE_ADD_BATCH, rota_server_call_request(call), jobs,
                                &broker->arena, NULL))
            return false;
    } else {
        if (rota_message_decode(&ROTA_QUEUE_ADD, rota_server_call_request(call), &add,
                                &broker->arena, NULL))
            return false;
        *jobs = (struct rota_queue_list){.items = {add.job, add.job != NULL}};
    }
    return rota_work_broker_name_jobs(
        broker, (struct rota_queue_job_spec *)(uintptr_t)jobs->items.items, jobs->items.n, false);
}

static void on_round(struct rota_broker_errand *errand)
{
    const struct rota_broker_part *silent = NULL;
    const struct rota_queue_job_spec *specs;
    struct rota_queue_list jobs;
    if (!read_jobs(errand->broker, errand->call, errand->max, &jobs)) {
        rota_broker_errand_refuse(errand, ROTA_STATUS_RESOURCE_EXHAUSTED,
                                  "not enough memory to ask other nodes", false, false);
        return;
    }
    for (size_t i = 0; i < errand->n_parts; i++) {
        const struct rota_broker_part *part = &errand->parts[i];
        if (part->status != ROTA_STATUS_OK ||
            !note_found(errand, &jobs, rota_buffer_str(&part->message)))
            silent = part;
    }
    bool is_in_doubt = false;
    specs = jobs.items.items;
    for (size_t i = 0; i < jobs.items.n; i++)
        is_in_doubt |= specs[i].is_again && !errand->parts_of[i];
    if (is_in_doubt && silent) {
        rota_broker_errand_refuse(errand, ROTA_STATUS_UNAVAILABLE, silent->text, false, false);
    } else if (is_in_doubt && errand->rank++ == 0) {
        ask_all_peers(errand);
        rota_broker_errand_begin(errand);
    } else if (is_in_doubt && rota_clock_boot() > errand->until) {
        rota_broker_errand_refuse(
            errand, ROTA_STATUS_UNAVAILABLE,
            "the other nodes did not confirm in time that none of them has the job", false, false);
    } else {
        struct rota_broker_service *service = errand->service;
        size_t n = errand->n_jobs;
        uint32_t *known = errand->parts_of;
        errand->parts_of = NULL;
        rota_work_broker_call_known(service, rota_broker_errand_end(errand), known, n);
        free(known);
    }
}

/* All jobs that may have been added and are not here, as a request for the others. */
static size_t write_names(struct rota_work_broker *broker, const struct rota_queue_list *jobs,
                          struct rota_broker_errand *errand)
{
    const struct rota_queue_job_spec *specs = jobs->items.items;
    size_t n = 0;
    for (size_t i = 0; i < jobs->items.n; i++) {
        struct rota_queue_about name = {.queue = specs[i].queue, .id = specs[i].id};
        bool is_asked = specs[i].is_again && specs[i].id.size > 0;
        errand->parts_of[i] = is_asked && is_here(broker, specs[i].queue, specs[i].id);
        if (!is_asked || errand->parts_of[i])
            continue;
        rota_message_encode_entry(&ROTA_QUEUE_NAME, 1, &name, &errand->reply);
        n++;
    }
    return n;
}

bool rota_work_broker_search(struct rota_broker_service *service, struct rota_server_call *call,
                             const struct rota_queue_list *jobs, bool is_batch)
{
    struct rota_work_broker *broker = service->broker;
    size_t n_parts = rota_broker_cluster_n_peers(broker->cluster);
    const struct rota_queue_job_spec *specs = jobs->items.items;
    bool is_again = false;
    for (size_t i = 0; i < jobs->items.n; i++)
        is_again |= specs[i].is_again;
    if (!is_again || broker->store)
        return false;
    n_parts += rota_work_broker_n_absent(broker, true);
    struct rota_broker_errand *errand =
        rota_broker_errand_new(broker, call, FIND, n_parts, on_round);
    uint32_t *parts_of = calloc(jobs->items.n, sizeof *parts_of);
    if (!errand || !parts_of) {
        free(parts_of);
        if (errand)
            rota_broker_errand_end(errand);
        rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED,
                                "not enough memory to ask other nodes", NULL, 0);
        return true;
    }
    errand->service = service;
    errand->parts_of = parts_of;
    errand->n_jobs = jobs->items.n;
    errand->max = is_batch;
    errand->until = rota_clock_boot() + SEARCH_MAX;
    if (write_names(broker, jobs, errand) > 0) {
        if (!rota_work_broker_settings_are_told(broker->settings)) {
            rota_broker_errand_refuse(errand, ROTA_STATUS_UNAVAILABLE, NOT_TOLD, false, false);
            return true;
        }
        ask_all_peers(errand);
    }
    rota_broker_errand_begin(errand);
    return true;
}
