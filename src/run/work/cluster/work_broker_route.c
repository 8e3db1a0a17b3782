/* Calls that other nodes answer, one or several, as core/work/cluster/front_fsm.h decides. */
#include "io/clock.h"
#include "run/work/broker/work_broker_inside.h"
#include "run/work/broker/work_broker_method.h"
#include "run/work/broker/work_broker_reply.h"
#include "run/work/cluster/work_broker_errand.h"
#include "run/work/cluster/work_broker_refresh.h"
#include "run/work/cluster/work_broker_settings.h"

#include <stdio.h>
#include <stdlib.h>

static const char NO_MEMORY[] = "not enough memory to ask other nodes";

static void refuse_memory(struct rota_server_call *call)
{
    rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED, NO_MEMORY, NULL, 0);
}

/* --- a job --- */

static enum rota_lookup_word word_of(const struct rota_broker_part *part)
{
    const struct rota_front_answer answer = {.status = part->status,
                                             .is_stale = part->is_stale,
                                             .has_nodes = part->has_nodes,
                                             .nodes = part->nodes};
    return part->address[0] ? rota_front_fsm_word(&part->errand->broker->front.fsm, &answer)
                            : ROTA_LOOKUP_UNASKED;
}

/* Forward a node's answer. A node that can't answer about the job is named with the consequence:
 * the text begins with "node ADDRESS: ". */
static void pass_word(struct rota_broker_errand *errand, struct rota_broker_part *part)
{
    char text[ROTA_BROKER_ERRAND_TEXT_MAX];
    size_t before = strlen("node ") + strlen(part->address);
    if (word_of(part) == ROTA_LOOKUP_SILENT && strlen(part->text) > before) {
        snprintf(text, sizeof text, "node %s may have the job%s", part->address,
                 part->text + before);
        snprintf(part->text, sizeof part->text, "%s", text);
    }
    rota_work_broker_errand_pass(errand, part);
}

/* Once more: a job that moves may have been seen nowhere. */
static void ask_again(struct rota_broker_errand *errand)
{
    for (size_t i = 0; i < errand->n_parts; i++) {
        char address[ROTA_ADDRESS_MAX + 1]; /* asking writes the part's own */
        snprintf(address, sizeof address, "%s", errand->parts[i].address);
        if (address[0])
            rota_work_broker_errand_ask(errand, i, rota_str(address),
                                        rota_server_call_request(errand->call));
    }
    rota_work_broker_errand_begin(errand);
}

static void on_searched(struct rota_broker_errand *errand)
{
    struct rota_work_broker *broker = errand->broker;
    const struct rota_queue_about *about = &errand->request->as.about;
    struct rota_job_id id;
    rota_arena_clear(&broker->front.arena);
    enum rota_lookup_word *words =
        rota_arena_take(&broker->front.arena, errand->n_parts * sizeof *words);
    if (!words) {
        rota_work_broker_errand_refuse(errand, ROTA_STATUS_RESOURCE_EXHAUSTED, NO_MEMORY, false,
                                       false);
        return;
    }
    for (size_t i = 0; i < errand->n_parts; i++)
        words[i] = word_of(&errand->parts[i]);
    rota_work_broker_reply_read_id(about, &id, NULL);
    struct rota_front_action action =
        rota_front_fsm_others_said(&broker->front.fsm, &errand->search, rota_clock_boot(),
                                   about->queue, id, words, errand->n_parts);
    if (action.is_unsure)
        rota_work_broker_settings_ask_soon(broker->settings);
    if (action.what == ROTA_FRONT_ASK_OTHERS)
        ask_again(errand);
    else if (action.what == ROTA_FRONT_PASS)
        pass_word(errand, &errand->parts[action.index]);
    else
        rota_work_broker_errand_refuse_for(errand, action.reason, NULL);
}

/* Every other node that may have a job, whether it is listed or not, by number from 0. */
static size_t n_others(const struct rota_work_broker *broker)
{
    return rota_work_broker_cluster_n_peers(broker->cluster) +
           rota_work_broker_settings_n_absent(broker, false);
}

static struct rota_str other_at(const struct rota_work_broker *broker, size_t index)
{
    size_t n = rota_work_broker_cluster_n_peers(broker->cluster);
    return index < n ? rota_work_broker_cluster_peer(broker->cluster, index)
                     : rota_work_broker_settings_absent(broker, false, index - n);
}

/* This node, and the owner if there was one, do not have it. */
static void on_owner(struct rota_broker_errand *errand)
{
    const struct rota_work_broker *broker = errand->broker;
    struct rota_broker_part *owner = &errand->parts[0];
    size_t n = n_others(broker);
    struct rota_front_action action =
        rota_front_fsm_owner_said(&broker->front.fsm, word_of(owner), owner->has_sent);
    if (action.what == ROTA_FRONT_PASS) {
        pass_word(errand, owner);
        return;
    }
    errand->on_done = on_searched;
    for (size_t i = 0; i < n && i + 1 < errand->n_parts; i++) {
        struct rota_str address = other_at(broker, i);
        if (!rota_str_is_equal(address, rota_str(owner->address)))
            rota_work_broker_errand_ask(errand, i + 1, address,
                                        rota_server_call_request(errand->call));
    }
    rota_work_broker_errand_begin(errand);
}

void rota_work_broker_route_job(struct rota_broker_request *request,
                                const struct rota_front_action *action)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_broker_errand *errand = rota_work_broker_errand_new(
        broker, request->call, request->method->path, n_others(broker) + 1, on_owner);
    if (errand)
        errand->request = rota_work_broker_front_keep(request);
    if (!errand || !errand->request) {
        if (errand)
            rota_work_broker_errand_end(errand);
        refuse_memory(request->call);
        return;
    }
    errand->search = rota_front_fsm_begin_search(&broker->front.fsm, rota_clock_boot());
    errand->is_stream = request->method->room != NULL;
    errand->parts[0].status = ROTA_STATUS_NOT_FOUND; /* when no node can be asked */
    snprintf(errand->parts[0].text, sizeof errand->parts[0].text, "no such job in the queue");
    if (action->what == ROTA_FRONT_ASK_OWNER)
        rota_work_broker_errand_ask(errand, 0, action->owner,
                                    rota_server_call_request(request->call));
    rota_work_broker_errand_begin(errand);
}

/* --- an add --- */

static void on_added(struct rota_broker_errand *errand)
{
    if (!rota_work_broker_refresh_again(errand, &errand->parts[0]))
        rota_work_broker_errand_pass(errand, &errand->parts[0]);
}

/* A job in the form in which its node adds it. */
static struct rota_queue_job_spec placed_spec(const struct rota_broker_request *request,
                                              size_t index)
{
    const struct rota_front_new *job = &request->jobs[index];
    struct rota_queue_job_spec spec = request->specs[index];
    spec.partition = job->partition;
    spec.is_again = job->is_again;
    spec.is_known = job->is_known;
    return spec;
}

void rota_work_broker_route_add(struct rota_broker_request *request, struct rota_str owner)
{
    struct rota_buffer *buffer = &request->broker->front.buffer;
    const struct rota_queue_job_spec spec = placed_spec(request, 0);
    rota_buffer_clear(buffer);
    rota_message_encode(&ROTA_QUEUE_ADD, &(struct rota_queue_add){.job = &spec}, buffer);
    struct rota_broker_errand *errand =
        buffer->failed ? NULL
                       : rota_work_broker_errand_new(request->broker, request->call,
                                                     request->method->path, 1, on_added);
    if (!errand) {
        refuse_memory(request->call);
        return;
    }
    errand->of = request->method;
    errand->front = request->front;
    if (request->front.owner.size == 0)
        errand->front.refresh.route = rota_work_broker_cluster_view(request->broker->cluster);
    errand->front.owner = rota_str("");
    rota_work_broker_errand_ask(errand, 0, owner, rota_buffer_str(buffer));
    rota_work_broker_errand_begin(errand);
}

/* --- batches --- */

enum { NO_PART = UINT32_MAX };

/* The error of a part, for each of its jobs. */
static struct rota_queue_added failed_part(const struct rota_broker_part *part)
{
    return (struct rota_queue_added){
        .status = part->status == ROTA_STATUS_OK ? ROTA_STATUS_INTERNAL : part->status,
        .error = rota_str(part->status == ROTA_STATUS_OK ? "its node replied for other jobs"
                                                         : part->text),
        .may_go_elsewhere = part->is_undone};
}

/* A job that can't go anywhere: no node is asked to add it. */
static struct rota_queue_added refuse_job(struct rota_broker_request *request, size_t index,
                                          struct rota_error *error)
{
    struct rota_front_action action;
    if (!rota_work_broker_front_route(request, index, &action, error))
        rota_error_set(error, ROTA_ERR_STALE,
                       "the partitions of this queue have changed; try again");
    return rota_work_broker_reply_failed_add(
        error, rota_front_fsm_is_undone(&request->broker->front.fsm, &request->jobs[index]));
}

/* The answers of all parts, each job in its place. */
static void on_batch(struct rota_broker_errand *errand)
{
    struct rota_arena *arena = &errand->broker->front.arena;
    struct rota_buffer *buffer = &errand->broker->front.buffer;
    size_t n_of = errand->n_parts;
    rota_arena_clear(arena);
    rota_buffer_clear(buffer);
    struct rota_queue_list *lists = rota_arena_take(arena, n_of * sizeof *lists);
    size_t *at = rota_arena_take(arena, n_of * sizeof *at);
    if (!lists || !at) {
        rota_work_broker_errand_refuse(errand, ROTA_STATUS_RESOURCE_EXHAUSTED,
                                       "not enough memory for the reply", false, false);
        return;
    }
    for (size_t i = 0; i < n_of; i++) {
        at[i] = 0;
        lists[i] = (struct rota_queue_list){0};
        if (errand->parts[i].status == ROTA_STATUS_OK &&
            rota_message_decode(&ROTA_QUEUE_ADD_BATCH_REPLY,
                                rota_buffer_str(&errand->parts[i].message), &lists[i], arena, NULL))
            lists[i].items.n = 0;
    }
    for (size_t i = 0; i < errand->request->n_jobs; i++) {
        uint32_t of = errand->parts_of[i];
        struct rota_error error;
        if (of == NO_PART) {
            struct rota_queue_added refused = refuse_job(errand->request, i, &error);
            rota_message_encode_entry(&ROTA_QUEUE_ADDED, 1, &refused, buffer);
            continue;
        }
        const struct rota_queue_added *items = lists[of].items.items;
        struct rota_queue_added added =
            at[of] < lists[of].items.n ? items[at[of]++] : failed_part(&errand->parts[of]);
        rota_message_encode_entry(&ROTA_QUEUE_ADDED, 1, &added, buffer);
    }
    if (buffer->failed)
        rota_work_broker_errand_refuse(errand, ROTA_STATUS_RESOURCE_EXHAUSTED,
                                       "not enough memory for the reply", false, false);
    else
        rota_work_broker_errand_reply(errand, rota_buffer_str(buffer));
}

/* The jobs of part `index`, as a request of their own. */
static bool ask_batch(struct rota_broker_errand *errand, const struct rota_broker_request *request,
                      size_t index, struct rota_str owner)
{
    struct rota_buffer *buffer = &errand->broker->front.buffer;
    rota_buffer_clear(buffer);
    for (size_t i = 0; i < request->n_jobs; i++)
        if (errand->parts_of[i] == index) {
            const struct rota_queue_job_spec spec = placed_spec(request, i);
            rota_message_encode_entry(&ROTA_QUEUE_JOB_SPEC, 1, &spec, buffer);
        }
    if (buffer->failed)
        return false;
    rota_work_broker_errand_ask(errand, index, owner, rota_buffer_str(buffer));
    return true;
}

/* The part of each job; `owners` has the addresses of the nodes. Returns how many there are.
 * This node adds what the other nodes do not, and is asked like any other. */
static size_t part_jobs(const struct rota_broker_request *request,
                        const struct rota_front_action *actions, uint32_t *parts_of,
                        struct rota_str *owners)
{
    size_t n_owners = 0;
    for (size_t i = 0; i < request->n_jobs; i++) {
        struct rota_str owner = actions[i].what == ROTA_FRONT_ASK_OWNER
                                    ? actions[i].owner
                                    : rota_work_broker_cluster_self(request->broker->cluster);
        size_t of = 0;
        parts_of[i] = NO_PART;
        if (actions[i].what == ROTA_FRONT_REFUSE)
            continue;
        while (of < n_owners && !rota_str_is_equal(owners[of], owner))
            of++;
        if (of == n_owners)
            owners[n_owners++] = owner;
        parts_of[i] = (uint32_t)of;
    }
    return n_owners;
}

void rota_work_broker_route_batch(struct rota_broker_request *request,
                                  const struct rota_front_action *actions)
{
    struct rota_work_broker *broker = request->broker;
    size_t n_owners_max = rota_work_broker_cluster_n_peers(broker->cluster) + 2, n_parts = 0;
    struct rota_broker_errand *errand = NULL;
    struct rota_str *owners = rota_arena_take(&broker->front.arena, n_owners_max * sizeof *owners);
    uint32_t *parts_of = calloc(request->n_jobs + 1, sizeof *parts_of);
    if (owners && parts_of) {
        n_parts = part_jobs(request, actions, parts_of, owners);
        errand = rota_work_broker_errand_new(broker, request->call, request->method->path, n_parts,
                                             on_batch);
    }
    if (!errand) {
        free(parts_of);
        refuse_memory(request->call);
        return;
    }
    errand->parts_of = parts_of;
    errand->request = rota_work_broker_front_keep(request);
    if (!errand->request) {
        rota_work_broker_errand_refuse(errand, ROTA_STATUS_RESOURCE_EXHAUSTED, NO_MEMORY, false,
                                       false);
        return;
    }
    for (size_t i = 0; i < n_parts; i++)
        if (!ask_batch(errand, request, i, owners[i])) {
            errand->parts[i].status = ROTA_STATUS_RESOURCE_EXHAUSTED;
            snprintf(errand->parts[i].text, sizeof errand->parts[i].text, "%s", NO_MEMORY);
        }
    rota_work_broker_errand_begin(errand);
}
