/* Which node answers a call: this one, the one that has the job, or all of them together.
 *
 * A job is at one node, which follows from its partition, except for a job that is being handed
 * over or is at a node with another list. So a job is searched here, then at the owner of its
 * partition, then everywhere, also at nodes that are down and may hold jobs; only when every
 * node has answered that it does not have it, it does not exist. */
#include "core/work/job/lookup.h"
#include "run/work/broker_errand.h"
#include "run/work/broker_inside.h"

#include <stdio.h>
#include <stdlib.h>

static const char NO_MEMORY[] = "not enough memory to ask other nodes";
static const char NOT_TOLD[] = "this node does not know yet which other nodes may have the job; "
                               "try again";

static void refuse_memory(struct rota_server_call *call)
{
    rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED, NO_MEMORY, NULL, 0);
}

/* --- one node --- */

static void pass_errand(struct rota_broker_errand *errand)
{
    rota_broker_errand_pass(errand, &errand->parts[0]);
}

static enum rota_lookup_word word_of(const struct rota_broker_part *part)
{
    const struct rota_broker *core = part->errand->broker->core;
    if (part->status == ROTA_STATUS_OK)
        return ROTA_LOOKUP_FOUND;
    if (part->status == ROTA_STATUS_NOT_FOUND)
        return part->has_nodes && part->nodes != rota_broker_nodes_hash(core) ? ROTA_LOOKUP_UNSURE
                                                                              : ROTA_LOOKUP_NONE;
    if (part->status == ROTA_STATUS_UNAVAILABLE && part->is_stale)
        return ROTA_LOOKUP_UNOWNED;
    return part->status == ROTA_STATUS_UNAVAILABLE || part->status == ROTA_STATUS_DEADLINE_EXCEEDED
               ? ROTA_LOOKUP_SILENT
               : ROTA_LOOKUP_REFUSED;
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
    rota_broker_errand_pass(errand, part);
}

static void on_searched(struct rota_broker_errand *errand)
{
    struct rota_work_broker *broker = errand->broker;
    rota_arena_clear(&broker->arena);
    enum rota_lookup_word *words = rota_arena_take(&broker->arena, errand->n_parts * sizeof *words);
    if (!words) {
        rota_broker_errand_refuse(errand, ROTA_STATUS_RESOURCE_EXHAUSTED, NO_MEMORY, false, false);
        return;
    }
    for (size_t i = 0; i < errand->n_parts; i++)
        words[i] = errand->parts[i].address[0] ? word_of(&errand->parts[i]) : ROTA_LOOKUP_UNASKED;
    size_t chosen = rota_lookup_choose(words, errand->n_parts, broker->store != NULL);
    bool is_none = chosen == SIZE_MAX ? !broker->store : words[chosen] == ROTA_LOOKUP_NONE;
    bool is_unsure = chosen != SIZE_MAX && words[chosen] == ROTA_LOOKUP_UNSURE;
    if (is_unsure)
        rota_work_broker_settings_ask_soon(broker->settings);
    if (is_unsure || (is_none && !rota_work_broker_settings_are_told(broker->settings)))
        rota_broker_errand_refuse(errand, ROTA_STATUS_UNAVAILABLE, NOT_TOLD, false, true);
    else if (chosen != SIZE_MAX)
        pass_word(errand, &errand->parts[chosen]);
    else if (is_none)
        rota_broker_errand_pass(errand, &errand->parts[0]);
    else
        rota_work_broker_refuse_unowned(rota_broker_errand_end(errand));
}

/* Every other node that may have a job, whether it is listed or not, by number from 0. */
static size_t n_others(const struct rota_work_broker *broker)
{
    return rota_broker_cluster_n_peers(broker->cluster) + rota_work_broker_n_absent(broker, false);
}

static struct rota_str other_at(const struct rota_work_broker *broker, size_t index)
{
    size_t n = rota_broker_cluster_n_peers(broker->cluster);
    return index < n ? rota_broker_cluster_peer(broker->cluster, index)
                     : rota_work_broker_absent(broker, false, index - n);
}

/* The owner does not have it, or not the partition: ask all others but this node, which was asked
 * first. */
static void on_owner(struct rota_broker_errand *errand)
{
    const struct rota_work_broker *broker = errand->broker;
    struct rota_broker_part *owner = &errand->parts[0];
    size_t n = n_others(broker);
    enum rota_lookup_word word = word_of(owner);
    bool is_settled = broker->store ? word != ROTA_LOOKUP_UNOWNED
                                    : word != ROTA_LOOKUP_NONE && word != ROTA_LOOKUP_UNSURE;
    if (owner->address[0] && (is_settled || owner->has_sent)) {
        pass_word(errand, owner);
        return;
    }
    errand->on_done = on_searched;
    for (size_t i = 0; i < n && i + 1 < errand->n_parts; i++) {
        struct rota_str address = other_at(broker, i);
        if (!rota_str_is_equal(address, rota_str(owner->address)))
            rota_broker_errand_ask(errand, i + 1, address, rota_server_call_request(errand->call));
    }
    rota_broker_errand_begin(errand);
}

/* The node that would have a job of this partition; empty: this one, as far as is known. */
static struct rota_str owner_of(struct rota_work_broker *broker, struct rota_str queue,
                                uint32_t partition)
{
    if (rota_broker_cluster_is_ours(broker->cluster, queue, partition))
        return rota_str("");
    return rota_broker_cluster_owner(broker->cluster, queue, partition);
}

bool rota_work_broker_route_job(struct rota_work_broker *broker, struct rota_server_call *call,
                                const char *method, const struct rota_queue_about *about,
                                bool is_stream)
{
    struct rota_job_id id;
    struct rota_job_view view;
    if (rota_job_queue_check(about->queue, NULL) || rota_queue_id_read(about->id, &id, NULL) ||
        rota_job_id_is_none(id) || !rota_broker_find(broker->core, about->queue, id, &view, NULL) ||
        (broker->store && rota_work_broker_store_vouches(broker, about)))
        return false; /* it is here, or can't be anywhere */
    size_t n = n_others(broker);
    struct rota_str owner =
        owner_of(broker, about->queue, rota_broker_cluster_place(broker->cluster, id));
    if (n == 0 && (broker->store || rota_work_broker_settings_are_told(broker->settings)))
        return false;
    struct rota_broker_errand *errand =
        rota_broker_errand_new(broker, call, method, n + 1, on_owner);
    if (!errand) {
        refuse_memory(call);
        return true;
    }
    errand->is_stream = is_stream;
    errand->parts[0].status = ROTA_STATUS_NOT_FOUND; /* when no node can be asked */
    snprintf(errand->parts[0].text, sizeof errand->parts[0].text, "no such job in the queue");
    if (owner.size > 0)
        rota_broker_errand_ask(errand, 0, owner, rota_server_call_request(call));
    rota_broker_errand_begin(errand);
    return true;
}

/* --- adds --- */

enum rota_code rota_work_broker_place(const struct rota_work_broker *broker,
                                      const struct rota_queue_job_spec *message, bool is_carried,
                                      struct rota_job_id id, uint32_t *partition,
                                      struct rota_error *error)
{
    const struct rota_broker_cluster *cluster = broker->cluster;
    char text[ROTA_JOB_ID_TEXT];
    uint32_t asked = (uint32_t)message->partition;
    bool has_id = !rota_job_id_is_none(id);
    uint32_t place = has_id ? rota_broker_cluster_place(cluster, id) : asked;
    if (message->unique.size > 0 && !rota_broker_cluster_is_alone(cluster) && !has_id)
        place = rota_broker_cluster_partition_of(cluster, message->queue, message->unique);
    if (is_carried && asked > 0)
        place = asked; /* the sender has determined it */
    if (has_id && asked > 0 && asked != place)
        return rota_error_set(error, ROTA_ERR_INVALID, "job %s belongs to partition %u, not %u",
                              rota_job_id_format(id, text), place, asked);
    *partition = place;
    return ROTA_OK;
}

enum rota_code rota_work_broker_check_new(const struct rota_work_broker *broker,
                                          const struct rota_queue_job_spec *message,
                                          uint32_t partition, struct rota_error *error)
{
    const struct rota_broker_cluster *cluster = broker->cluster;
    struct rota_str queue = message->queue, unique = message->unique;
    struct rota_work_layout layout = rota_broker_cluster_layout(cluster, queue);
    uint32_t n = rota_broker_cluster_n_partitions(cluster);
    if (message->id.size == 0 && partition >= (layout.read > n ? layout.read : n))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "queues have %u partitions here; there is no partition %u", n,
                              partition);
    bool has_place = unique.size == 0 || rota_broker_cluster_is_alone(cluster);
    uint32_t of_key =
        has_place ? partition : rota_broker_cluster_partition_of(cluster, queue, unique);
    if (partition != of_key && rota_layout_write(&layout, partition) != of_key)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the unique key of this job belongs to partition %u, its id to %u",
                              of_key, partition);
    if ((partition < layout.write && partition == of_key) || message->is_sought ||
        message->is_placed)
        return ROTA_OK;
    return rota_error_set(
        error, ROTA_ERR_STALE,
        "new jobs of this queue go to its first %u partitions, not to partition %u", layout.write,
        partition);
}

/* Where a job goes: by its id or, with a unique key, by this key; else by its partition. One
 * without any of these stays here, if a partition is ours. */
static enum rota_code choose_partition(struct rota_work_broker *broker,
                                       struct rota_queue_job_spec *spec, struct rota_error *error)
{
    struct rota_broker_cluster *cluster = broker->cluster;
    uint32_t n = rota_broker_cluster_layout(cluster, spec->queue).write;
    struct rota_job_id id;
    enum rota_code code = rota_queue_id_read(spec->id, &id, error);
    if (!code)
        code = rota_queue_key_check(spec, error);
    if (code)
        return code;
    uint32_t partition;
    code = rota_work_broker_place(broker, spec, false, id, &partition, error);
    if (code)
        return code;
    spec->partition = partition;
    if (!spec->is_known)
        code = rota_work_broker_check_new(broker, spec, partition, error);
    if (code)
        return code;
    if (spec->partition > 0 || spec->unique.size > 0 || !rota_job_id_is_none(id))
        return ROTA_OK;
    uint32_t any = (uint32_t)(rota_random_next(&broker->random) % n);
    spec->partition = any;
    for (uint32_t i = 0; i < n; i++)
        if (rota_broker_cluster_is_ours(cluster, spec->queue, (any + i) % n)) {
            spec->partition = (any + i) % n;
            break;
        }
    return ROTA_OK;
}

/* Whether this node has to answer: the partition is its own, or the very job is here. */
static bool is_here(struct rota_work_broker *broker, const struct rota_queue_job_spec *spec,
                    struct rota_str *owner)
{
    struct rota_job_id id;
    struct rota_job_view view;
    *owner = owner_of(broker, spec->queue, (uint32_t)spec->partition);
    if (owner->size == 0)
        return true;
    return !rota_queue_id_read(spec->id, &id, NULL) && !rota_job_id_is_none(id) &&
           !rota_broker_find(broker->core, spec->queue, id, &view, NULL);
}

bool rota_work_broker_route_add(struct rota_work_broker *broker, struct rota_server_call *call,
                                const char *method, struct rota_queue_add *add)
{
    struct rota_queue_job_spec *spec;
    struct rota_str owner;
    struct rota_error error;
    if (!add->job ||
        rota_job_queue_check(((const struct rota_queue_job_spec *)add->job)->queue, NULL))
        return false;
    if (!(spec = rota_arena_take(&broker->arena, sizeof *spec))) {
        refuse_memory(call);
        return true;
    }
    *spec = *(const struct rota_queue_job_spec *)add->job;
    add->job = spec;
    if (choose_partition(broker, spec, &error)) {
        rota_work_broker_refuse_add(broker, call, spec->queue, &error);
        return true;
    }
    if (spec->is_known || is_here(broker, spec, &owner))
        return false;
    rota_buffer_clear(&broker->buffer);
    rota_message_encode(&ROTA_QUEUE_ADD, add, &broker->buffer);
    struct rota_broker_errand *errand =
        broker->buffer.failed ? NULL : rota_broker_errand_new(broker, call, method, 1, pass_errand);
    if (!errand) {
        refuse_memory(call);
        return true;
    }
    rota_broker_errand_ask(errand, 0, owner, rota_buffer_str(&broker->buffer));
    rota_broker_errand_begin(errand);
    return true;
}

/* --- batches --- */

/* The error of a part, for each of its jobs. */
static struct rota_queue_added failed_part(const struct rota_broker_part *part)
{
    return (struct rota_queue_added){
        .status = part->status == ROTA_STATUS_OK ? ROTA_STATUS_INTERNAL : part->status,
        .error = rota_str(part->status == ROTA_STATUS_OK ? "its node replied for other jobs"
                                                         : part->text),
        .may_go_elsewhere = part->is_undone};
}

/* The answers of all parts, each job in its place. */
static void on_batch(struct rota_broker_errand *errand)
{
    struct rota_work_broker *broker = errand->broker;
    size_t n_of = errand->n_parts;
    rota_arena_clear(&broker->arena);
    rota_buffer_clear(&broker->buffer);
    struct rota_queue_list *lists = rota_arena_take(&broker->arena, n_of * sizeof *lists);
    size_t *at = rota_arena_take(&broker->arena, n_of * sizeof *at);
    if (!lists || !at) {
        rota_broker_errand_refuse(errand, ROTA_STATUS_RESOURCE_EXHAUSTED,
                                  "not enough memory for the reply", false, false);
        return;
    }
    for (size_t i = 0; i < n_of; i++) {
        at[i] = 0;
        lists[i] = (struct rota_queue_list){0};
        if (errand->parts[i].status == ROTA_STATUS_OK &&
            rota_message_decode(&ROTA_QUEUE_ADD_BATCH_REPLY,
                                rota_buffer_str(&errand->parts[i].message), &lists[i],
                                &broker->arena, NULL))
            lists[i].items.n = 0;
    }
    for (size_t i = 0; i < errand->n_jobs; i++) {
        uint32_t of = errand->parts_of[i];
        const struct rota_queue_added *items = lists[of].items.items;
        struct rota_queue_added added =
            at[of] < lists[of].items.n ? items[at[of]++] : failed_part(&errand->parts[of]);
        rota_message_encode_entry(&ROTA_QUEUE_ADDED, 1, &added, &broker->buffer);
    }
    if (broker->buffer.failed)
        rota_broker_errand_refuse(errand, ROTA_STATUS_RESOURCE_EXHAUSTED,
                                  "not enough memory for the reply", false, false);
    else
        rota_broker_errand_reply(errand, rota_buffer_str(&broker->buffer));
}

/* The jobs of part `index`, as a request of their own. */
static bool ask_batch(struct rota_broker_errand *errand, size_t index, struct rota_str owner,
                      const struct rota_queue_job_spec *jobs)
{
    struct rota_buffer *buffer = &errand->broker->buffer;
    rota_buffer_clear(buffer);
    for (size_t i = 0; i < errand->n_jobs; i++)
        if (errand->parts_of[i] == index)
            rota_message_encode_entry(&ROTA_QUEUE_JOB_SPEC, 1, &jobs[i], buffer);
    if (buffer->failed)
        return false;
    rota_broker_errand_ask(errand, index, owner, rota_buffer_str(buffer));
    return true;
}

/* The node of each job, by the number of its part; `owners` has their addresses. Returns how
 * many there are; 0: all jobs are for this node. An invalid job is for this node, which rejects
 * it. */
static size_t part_jobs(struct rota_work_broker *broker, struct rota_queue_job_spec *jobs,
                        size_t n_jobs, uint32_t *parts_of, struct rota_str *owners)
{
    size_t n_owners = 0;
    bool is_all_here = true;
    for (size_t i = 0; i < n_jobs; i++) {
        struct rota_str owner = rota_str("");
        bool is_bad =
            rota_job_queue_check(jobs[i].queue, NULL) || choose_partition(broker, &jobs[i], NULL);
        if (is_bad || jobs[i].is_known || is_here(broker, &jobs[i], &owner))
            owner = rota_broker_cluster_self(broker->cluster);
        else
            is_all_here = false;
        size_t of = 0;
        while (of < n_owners && !rota_str_is_equal(owners[of], owner))
            of++;
        if (of == n_owners)
            owners[n_owners++] = owner;
        parts_of[i] = (uint32_t)of;
    }
    return is_all_here ? 0 : n_owners;
}

bool rota_work_broker_route_batch(struct rota_work_broker *broker, struct rota_server_call *call,
                                  const char *method, struct rota_queue_list *list)
{
    size_t n_jobs = list->items.n;
    size_t n_owners_max = rota_broker_cluster_n_peers(broker->cluster) + 2;
    struct rota_broker_errand *errand = NULL;
    struct rota_queue_job_spec *jobs = rota_arena_take(&broker->arena, (n_jobs + 1) * sizeof *jobs);
    struct rota_str *owners = rota_arena_take(&broker->arena, n_owners_max * sizeof *owners);
    uint32_t *parts_of = malloc((n_jobs + 1) * sizeof *parts_of);
    if (n_jobs == 0 || !jobs || !owners || !parts_of) {
        free(parts_of);
        if (n_jobs > 0)
            refuse_memory(call);
        return n_jobs > 0;
    }
    memcpy(jobs, list->items.items, n_jobs * sizeof *jobs);
    size_t n_parts = part_jobs(broker, jobs, n_jobs, parts_of, owners);
    list->items.items = jobs;
    if (n_parts == 0) {
        free(parts_of);
        return false;
    }
    errand = rota_broker_errand_new(broker, call, method, n_parts, on_batch);
    if (!errand) {
        free(parts_of);
        refuse_memory(call);
        return true;
    }
    errand->parts_of = parts_of;
    errand->n_jobs = n_jobs;
    for (size_t i = 0; i < n_parts; i++)
        if (!ask_batch(errand, i, owners[i], jobs)) {
            errand->parts[i].status = ROTA_STATUS_RESOURCE_EXHAUSTED;
            snprintf(errand->parts[i].text, sizeof errand->parts[i].text, "%s", NO_MEMORY);
        }
    rota_broker_errand_begin(errand);
    return true;
}
