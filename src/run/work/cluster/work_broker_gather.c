/* Calls that all nodes answer together: lists, sums, and deleting a queue.
 *
 * This node is asked like any other, so that there is one way to ask. A node that does not
 * answer is named in the answer, whose data is then incomplete. */
#include "run/work/broker/work_broker_inside.h"
#include "run/work/broker/work_broker_method.h"
#include "run/work/broker/work_broker_reply.h"
#include "run/work/cluster/work_broker_errand.h"
#include "run/work/cluster/work_broker_layout.h"
#include "run/work/cluster/work_broker_rows.h"
#include "run/work/cluster/work_broker_settings.h"

#include "core/work/cluster/tally.h"

#include <stdio.h>
#include <stdlib.h>

static const char NO_MEMORY[] = "not enough memory for the replies of all nodes";

static void refuse_memory(struct rota_broker_errand *errand)
{
    rota_work_broker_errand_refuse(errand, ROTA_STATUS_RESOURCE_EXHAUSTED, NO_MEMORY, false, false);
}

/* --- nodes: the listed ones, and this one in any case, by address. After them, where jobs
 * matter, those that are down and may hold some --- */

static size_t n_listed(const struct rota_work_broker *broker)
{
    return rota_work_broker_cluster_n_peers(broker->cluster) + 1;
}

static size_t n_nodes(const struct rota_work_broker *broker)
{
    return n_listed(broker) + rota_work_broker_settings_n_absent(broker, false);
}

static struct rota_str node_at(const struct rota_work_broker *broker, size_t rank)
{
    struct rota_str self = rota_work_broker_cluster_self(broker->cluster);
    size_t n = rota_work_broker_cluster_n_peers(broker->cluster), n_before = 0;
    while (n_before < n &&
           rota_str_compare(rota_work_broker_cluster_peer(broker->cluster, n_before), self) < 0)
        n_before++;
    if (rank > n)
        return rota_work_broker_settings_absent(broker, false, rank - n - 1);
    if (rank == n_before)
        return self;
    return rota_work_broker_cluster_peer(broker->cluster, rank < n_before ? rank : rank - 1);
}

/* NULL without memory: then the call is rejected. */
static struct rota_broker_errand *begin_errand(const struct rota_broker_request *request,
                                               size_t n_parts,
                                               void (*on_done)(struct rota_broker_errand *errand))
{
    struct rota_broker_errand *errand = rota_work_broker_errand_new(
        request->broker, request->call, request->method->path, n_parts, on_done);
    if (!errand)
        rota_server_call_finish(request->call, ROTA_STATUS_RESOURCE_EXHAUSTED, NO_MEMORY, NULL, 0);
    return errand;
}

/* The first `n` nodes: listed ones come first. */
static void ask_first(const struct rota_broker_request *request, size_t n, bool is_stream,
                      void (*on_done)(struct rota_broker_errand *errand))
{
    struct rota_broker_errand *errand = begin_errand(request, n, on_done);
    if (!errand)
        return;
    errand->is_stream = errand->ends_with_first = is_stream;
    for (size_t i = 0; i < n; i++)
        rota_work_broker_errand_ask(errand, i, node_at(request->broker, i),
                                    rota_server_call_request(request->call));
    rota_work_broker_errand_begin(errand);
}

static void ask_all_listed(const struct rota_broker_request *request, bool is_stream,
                           void (*on_done)(struct rota_broker_errand *errand))
{
    ask_first(request, n_listed(request->broker), is_stream, on_done);
}

/* The first part that failed, NULL if there is none. */
static const struct rota_broker_part *find_failed(const struct rota_broker_errand *errand)
{
    for (size_t i = 0; i < errand->n_parts; i++)
        if (errand->parts[i].status != ROTA_STATUS_OK)
            return &errand->parts[i];
    return NULL;
}

static bool is_silent(const struct rota_broker_part *part)
{
    return part->status == ROTA_STATUS_UNAVAILABLE || part->status == ROTA_STATUS_DEADLINE_EXCEEDED;
}

/* A rejection by a node that answered is the answer: the request is wrong everywhere. */
static bool pass_refusal(struct rota_broker_errand *errand)
{
    for (size_t i = 0; i < errand->n_parts; i++)
        if (errand->parts[i].status != ROTA_STATUS_OK && !is_silent(&errand->parts[i])) {
            rota_work_broker_errand_pass(errand, &errand->parts[i]);
            return true;
        }
    return false;
}

/* If none of the first `n` parts has an answer, there is no sum. */
static bool pass_silence(struct rota_broker_errand *errand, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (errand->parts[i].status == ROTA_STATUS_OK)
            return false;
    rota_work_broker_errand_pass(errand, &errand->parts[0]);
    return true;
}

/* Append the nodes that did not answer one of the first `n` parts, and the errors. */
static void append_missing_of(const struct rota_broker_errand *errand, size_t n,
                              struct rota_buffer *buffer)
{
    for (size_t i = 0; i < n; i++) {
        struct rota_str address = rota_str(errand->parts[i].address);
        struct rota_str why = rota_str(errand->parts[i].text);
        struct rota_queue_missing missing = {{&address, 1}, {&why, 1}};
        if (errand->parts[i].status != ROTA_STATUS_OK)
            rota_message_encode(&ROTA_QUEUE_MISSING, &missing, buffer);
    }
}

static void append_missing(const struct rota_broker_errand *errand, struct rota_buffer *buffer)
{
    append_missing_of(errand, errand->n_parts, buffer);
}

static void reply_gathered(struct rota_broker_errand *errand, struct rota_buffer *buffer)
{
    if (buffer->failed)
        refuse_memory(errand);
    else
        rota_work_broker_errand_reply(errand, rota_buffer_str(buffer));
}

/* --- deleting a queue: on all nodes, or the answer names the others --- */

static void on_deleted(struct rota_broker_errand *errand)
{
    const struct rota_broker_part *failed = find_failed(errand);
    struct rota_queue_deleted sum = {0}, part;
    if (failed) {
        rota_work_broker_errand_pass(errand, failed);
        return;
    }
    rota_arena_clear(&errand->broker->front.arena);
    for (size_t i = 0; i < errand->n_parts; i++)
        if (!rota_message_decode(&ROTA_QUEUE_DELETED, rota_buffer_str(&errand->parts[i].message),
                                 &part, &errand->broker->front.arena, NULL))
            sum.n_jobs += part.n_jobs;
    rota_buffer_clear(&errand->broker->front.buffer);
    rota_message_encode(&ROTA_QUEUE_DELETED, &sum, &errand->broker->front.buffer);
    reply_gathered(errand, &errand->broker->front.buffer);
}

static void ask_all_to_delete(struct rota_broker_request *request, bool is_dry_run);

/* The settings are gone: now the jobs. */
static void on_reset(struct rota_work_broker *broker, void *data, struct rota_str queue,
                     const struct rota_setting_change *change, uint64_t number,
                     const struct rota_error *error)
{
    struct rota_broker_request *kept = data;
    (void)broker;
    (void)queue;
    (void)change;
    (void)number;
    if (error->code)
        rota_work_broker_reply_error(kept->call, error, false);
    else
        ask_all_to_delete(kept, false);
    rota_work_broker_front_drop(kept);
}

/* No node has refused it, and all have answered: only now is anything changed. */
static void on_may_delete(struct rota_broker_errand *errand)
{
    const struct rota_broker_part *failed = find_failed(errand);
    struct rota_setting_change change = {.edit.type = ROTA_SETTING_RESET,
                                         .make = rota_work_broker_layout_make_usual,
                                         .on_changed = on_reset};
    char actor[ROTA_SERVER_ACTOR_MAX];
    if (failed) {
        rota_work_broker_errand_pass(errand, failed);
        return;
    }
    if (errand->is_dry_run) {
        on_deleted(errand);
        return;
    }
    struct rota_broker_request *kept = errand->request;
    struct rota_work_broker *broker = errand->broker;
    errand->request = NULL;
    rota_work_broker_errand_end(errand);
    change.data = kept;
    rota_work_broker_rows_change(broker, kept->as.delete.queue, &change,
                                 rota_server_call_actor(kept->call, actor));
}

/* Absent nodes may have it, too. */
static void ask_all_to_delete(struct rota_broker_request *request, bool is_dry_run)
{
    struct rota_work_broker *broker = request->broker;
    size_t n = n_nodes(broker);
    struct rota_queue_delete ask = {.queue = request->as.delete.queue, .is_dry_run = is_dry_run};
    struct rota_buffer message = {0};
    struct rota_broker_errand *errand =
        begin_errand(request, n, is_dry_run ? on_may_delete : on_deleted);
    if (!errand)
        return;
    errand->is_dry_run = request->as.delete.is_dry_run;
    rota_message_encode(&ROTA_QUEUE_DELETE, &ask, &message);
    if (is_dry_run)
        errand->request = rota_work_broker_front_keep(request);
    if (message.failed || (is_dry_run && !errand->request)) {
        rota_buffer_deinit(&message);
        refuse_memory(errand);
        return;
    }
    for (size_t i = 0; i < n; i++)
        rota_work_broker_errand_ask(errand, i, node_at(broker, i), rota_buffer_str(&message));
    rota_buffer_deinit(&message);
    rota_work_broker_errand_begin(errand);
}

/* First the settings are reset, and jobs deleted only after that. */
void rota_work_broker_gather_delete(struct rota_broker_request *request)
{
    ask_all_to_delete(request, true);
}

/* --- a node that is lost --- */

/* It is enough that one knows the node; one that did not answer may. */
static void excuse_unknowing(struct rota_broker_errand *errand)
{
    bool is_known = false;
    for (size_t i = 0; i < errand->n_parts; i++)
        is_known =
            is_known || errand->parts[i].status == ROTA_STATUS_OK || is_silent(&errand->parts[i]);
    for (size_t i = 0; i < errand->n_parts && is_known; i++)
        if (errand->parts[i].status == ROTA_STATUS_NOT_FOUND) {
            errand->parts[i].status = ROTA_STATUS_OK;
            rota_buffer_clear(&errand->parts[i].message);
        }
}

static void on_forgotten(struct rota_broker_errand *errand)
{
    struct rota_buffer *buffer = &errand->broker->front.buffer;
    struct rota_queue_forgotten sum = {0}, part;
    excuse_unknowing(errand);
    if (pass_refusal(errand) || pass_silence(errand, errand->n_parts))
        return;
    rota_arena_clear(&errand->broker->front.arena);
    for (size_t i = 0; i < errand->n_parts; i++) {
        if (errand->parts[i].status != ROTA_STATUS_OK ||
            rota_message_decode(&ROTA_QUEUE_FORGOTTEN, rota_buffer_str(&errand->parts[i].message),
                                &part, &errand->broker->front.arena, NULL))
            continue;
        sum.n_chunks += part.n_chunks;
        sum.n_jobs += part.n_jobs;
    }
    rota_buffer_clear(buffer);
    rota_message_encode(&ROTA_QUEUE_FORGOTTEN, &sum, buffer);
    append_missing(errand, buffer);
    reply_gathered(errand, buffer);
}

void rota_work_broker_gather_forget(struct rota_broker_request *request)
{
    ask_all_listed(request, false, on_forgotten);
}

/* --- watching a queue: until one of the nodes ends its stream --- */

static void on_watched(struct rota_broker_errand *errand)
{
    const struct rota_broker_part *failed = find_failed(errand);
    rota_work_broker_errand_pass(errand, failed ? failed : &errand->parts[0]);
}

void rota_work_broker_gather_watch(struct rota_broker_request *request)
{
    rota_server_call_head(request->call, NULL, 0, NULL);
    ask_all_listed(request, true, on_watched);
}

/* --- workers --- */

static void on_workers(struct rota_broker_errand *errand)
{
    struct rota_buffer *buffer = &errand->broker->front.buffer;
    if (pass_refusal(errand) || pass_silence(errand, errand->n_parts))
        return;
    rota_buffer_clear(buffer);
    for (size_t i = 0; i < errand->n_parts; i++)
        rota_buffer_append_str(buffer, rota_buffer_str(&errand->parts[i].message));
    append_missing(errand, buffer);
    reply_gathered(errand, buffer);
}

void rota_work_broker_gather_workers(struct rota_broker_request *request)
{
    ask_all_listed(request, false, on_workers);
}

/* --- queues --- */

static void add_up(struct rota_queue_info *sum, const struct rota_queue_info *info)
{
    sum->is_paused |= info->is_paused;
    sum->n_partitions += info->n_partitions;
    sum->n_waiting += info->n_waiting;
    sum->n_delayed += info->n_delayed;
    sum->n_running += info->n_running;
    sum->n_done += info->n_done;
    sum->n_dead += info->n_dead;
    sum->n_cancelled += info->n_cancelled;
    if (info->oldest_ms && (!sum->oldest_ms || info->oldest_ms < sum->oldest_ms))
        sum->oldest_ms = info->oldest_ms;
    sum->added_total += info->added_total;
    sum->done_total += info->done_total;
    sum->dead_total += info->dead_total;
    sum->retries_total += info->retries_total;
    sum->quarantined_total += info->quarantined_total;
    sum->worker_deaths = info->worker_deaths ? info->worker_deaths : sum->worker_deaths;
    sum->fetched_total += info->fetched_total;
    sum->lent_total += info->lent_total;
}

struct sums {
    struct rota_map by_name; /* of what is in `arena` */
    struct rota_arena arena;
    ROTA_VECTOR(struct rota_queue_info *) rows;
    struct rota_str
        until; /* all nodes have named their queues up to this one; empty: all of them */
};

static bool add_queue(struct sums *sums, const struct rota_queue_info *info)
{
    struct rota_queue_info *sum = rota_map_get(&sums->by_name, info->name);
    if (sum) {
        add_up(sum, info);
        return true;
    }
    if (!(sum = rota_arena_take(&sums->arena, sizeof *sum)))
        return false;
    *sum = *info;
    return rota_map_put(&sums->by_name, sum->name, sum) && rota_vector_push(&sums->rows, sum);
}

static bool add_part(struct sums *sums, const struct rota_broker_part *part)
{
    struct rota_queue_list list;
    if (part->status != ROTA_STATUS_OK)
        return true;
    if (rota_message_decode(&ROTA_QUEUE_QUEUES_REPLY, rota_buffer_str(&part->message), &list,
                            &sums->arena, NULL))
        return false;
    const struct rota_queue_info *infos = list.items.items;
    for (size_t i = 0; i < list.items.n; i++)
        if (!add_queue(sums, &infos[i]))
            return false;
    if (list.next.size > 0 &&
        (sums->until.size == 0 || rota_str_compare(list.next, sums->until) < 0))
        sums->until = list.next;
    return true;
}

static int compare_rows(const void *a, const void *b)
{
    const struct rota_queue_info *const *one = a, *const *other = b;
    return rota_str_compare((*one)->name, (*other)->name);
}

/* The page: the first `max` by name of those that are complete. */
static void cut_rows(struct sums *sums, size_t max)
{
    if (sums->rows.size > 0)
        qsort(sums->rows.items, sums->rows.size, sizeof *sums->rows.items, compare_rows);
    while (sums->until.size > 0 && sums->rows.size > 0 &&
           rota_str_compare(sums->rows.items[sums->rows.size - 1]->name, sums->until) > 0)
        sums->rows.size--;
    if (sums->rows.size > max) {
        sums->rows.size = max;
        sums->until = sums->rows.items[max - 1]->name;
    }
}

/* The workers of one node; of a node that has not answered, none. */
static bool add_workers(struct rota_tally *tally, struct rota_broker_errand *errand, size_t node)
{
    const struct rota_broker_part *part = &errand->parts[errand->n_parts / 2 + node];
    struct rota_queue_list list;
    rota_arena_clear(&errand->broker->front.arena);
    if (part->status != ROTA_STATUS_OK)
        return true;
    if (rota_message_decode(&ROTA_QUEUE_WORKERS_REPLY, rota_buffer_str(&part->message), &list,
                            &errand->broker->front.arena, NULL))
        return false;
    const struct rota_queue_worker_info *workers = list.items.items;
    for (size_t i = 0; i < list.items.n; i++)
        for (size_t j = 0; j < workers[i].queues.n; j++)
            if (!rota_tally_add(tally, node, workers[i].queues.items[j], workers[i].name,
                                workers[i].slots, workers[i].n_running))
                return false;
    return true;
}

static bool count_workers(struct sums *sums, struct rota_broker_errand *errand)
{
    struct rota_tally tally;
    bool is_fine = true;
    rota_tally_init(&tally, errand->broker->seed);
    for (size_t i = 0; is_fine && i < errand->n_parts / 2; i++)
        is_fine = add_workers(&tally, errand, i);
    for (size_t i = 0; is_fine && i < sums->rows.size; i++) {
        struct rota_queue_info *row = sums->rows.items[i];
        struct rota_tally_sum sum = rota_tally_of(&tally, row->name);
        row->n_workers = sum.n_workers;
        row->n_slots = sum.n_slots;
        row->n_free = sum.n_free;
    }
    rota_tally_deinit(&tally);
    return is_fine;
}

/* Half of the parts are the nodes' queues, the other half their workers. */
static void on_queues(struct rota_broker_errand *errand)
{
    struct rota_buffer *buffer = &errand->broker->front.buffer;
    struct sums sums = {0};
    bool is_fine = true;
    if (pass_refusal(errand) || pass_silence(errand, errand->n_parts / 2))
        return;
    rota_map_init(&sums.by_name, errand->broker->seed);
    for (size_t i = 0; is_fine && i < errand->n_parts / 2; i++)
        is_fine = add_part(&sums, &errand->parts[i]);
    cut_rows(&sums, errand->max);
    is_fine = is_fine && count_workers(&sums, errand);
    rota_buffer_clear(buffer);
    for (size_t i = 0; i < sums.rows.size; i++) {
        rota_work_broker_layout_info(errand->broker, sums.rows.items[i]);
        rota_message_encode_entry(&ROTA_QUEUE_INFO, 1, sums.rows.items[i], buffer);
    }
    struct rota_queue_list rest = {.next = sums.until};
    rota_message_encode(&ROTA_QUEUE_QUEUES_REPLY, &rest, buffer);
    append_missing_of(errand, errand->n_parts / 2, buffer);
    rota_vector_deinit(&sums.rows);
    rota_map_deinit(&sums.by_name);
    rota_arena_deinit(&sums.arena);
    if (is_fine)
        reply_gathered(errand, buffer);
    else
        refuse_memory(errand);
}

void rota_work_broker_gather_queues(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    const struct rota_queue_page *page = &request->as.page;
    size_t n = n_nodes(broker);
    struct rota_broker_errand *errand = begin_errand(request, 2 * n, on_queues);
    if (!errand)
        return;
    errand->max = page->max_queues ? page->max_queues : ROTA_QUEUE_PAGE_MAX;
    for (size_t i = 0; i < n; i++)
        rota_work_broker_errand_ask(errand, i, node_at(broker, i),
                                    rota_server_call_request(request->call));
    errand->method = "/rota.v1.Queue/Workers";
    for (size_t i = 0; i < n_listed(broker); i++) /* no worker is at a node that is down */
        rota_work_broker_errand_ask(errand, n + i, node_at(broker, i), rota_str(""));
    rota_work_broker_errand_begin(errand);
}

/* --- lists: one node after the other, until there are enough --- */

enum { RANK_SHIFT = 40 }; /* of `after`: the node's place above, the place at that node below */

static void ask_next(struct rota_broker_errand *errand, uint64_t place)
{
    struct rota_work_broker *broker = errand->broker;
    struct rota_queue_list_request request = errand->request->as.jobs_of;
    rota_buffer_clear(&broker->front.buffer);
    request.after = place;
    request.max_jobs = errand->max;
    rota_message_encode(&ROTA_QUEUE_LIST, &request, &broker->front.buffer);
    if (broker->front.buffer.failed) {
        refuse_memory(errand);
        return;
    }
    rota_work_broker_errand_ask(errand, 0, node_at(broker, errand->rank),
                                rota_buffer_str(&broker->front.buffer));
    rota_work_broker_errand_begin(errand);
}

static void end_list(struct rota_broker_errand *errand, uint64_t next)
{
    struct rota_queue_list_reply rest = {.next = next};
    rota_message_encode(&ROTA_QUEUE_LIST_REPLY, &rest, &errand->reply);
    reply_gathered(errand, &errand->reply);
}

static void on_list(struct rota_broker_errand *errand)
{
    struct rota_work_broker *broker = errand->broker;
    struct rota_queue_list_reply part = {0};
    if (pass_refusal(errand))
        return;
    append_missing(errand, &errand->reply);
    rota_arena_clear(&broker->front.arena);
    if (errand->parts[0].status == ROTA_STATUS_OK &&
        rota_message_decode(&ROTA_QUEUE_LIST_REPLY, rota_buffer_str(&errand->parts[0].message),
                            &part, &broker->front.arena, NULL)) {
        refuse_memory(errand);
        return;
    }
    errand->has_answer = errand->has_answer || errand->parts[0].status == ROTA_STATUS_OK;
    const struct rota_queue_job_info *jobs = part.jobs.items;
    for (size_t i = 0; i < part.jobs.n; i++)
        rota_message_encode_entry(&ROTA_QUEUE_JOB_INFO, 1, &jobs[i], &errand->reply);
    errand->max -= part.jobs.n < errand->max ? part.jobs.n : errand->max;
    if (part.next == 0)
        errand->rank++;
    bool is_last = errand->rank >= n_nodes(broker);
    if (is_last && !errand->has_answer)
        rota_work_broker_errand_pass(errand, &errand->parts[0]);
    else if (is_last || errand->max == 0)
        end_list(errand, is_last ? 0 : errand->rank << RANK_SHIFT | part.next);
    else
        ask_next(errand, part.next);
}

void rota_work_broker_gather_list(struct rota_broker_request *request)
{
    const struct rota_queue_list_request *list = &request->as.jobs_of;
    struct rota_broker_errand *errand = begin_errand(request, 1, on_list);
    if (!errand)
        return;
    errand->rank = list->after >> RANK_SHIFT;
    errand->max = list->max_jobs ? list->max_jobs : 100;
    errand->has_answer = list->after > 0; /* of the call before */
    errand->request = rota_work_broker_front_keep(request);
    if (!errand->request)
        refuse_memory(errand);
    else if (errand->rank >= n_nodes(request->broker))
        end_list(errand, 0);
    else
        ask_next(errand, list->after & (((uint64_t)1 << RANK_SHIFT) - 1));
}

/* --- nodes --- */

static void count_jobs(struct rota_work_broker *broker, struct rota_queue_nodes *nodes)
{
    struct rota_broker_cluster *cluster = broker->cluster;
    struct rota_partition_view view;
    for (size_t place = 0; rota_broker_next_partition(broker->core, &place, &view);) {
        nodes->n_jobs += view.n_jobs;
        if (!rota_work_broker_cluster_is_ours(cluster, view.queue, view.partition))
            nodes->n_leaving += view.n_jobs;
    }
}

void rota_work_broker_gather_nodes(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_server_call *call = request->call;
    struct rota_str queue = request->as.setting.queue;
    size_t n = rota_work_broker_cluster_n_peers(broker->cluster), n_known = 0;
    size_t n_absent = rota_work_broker_settings_n_absent(broker, false);
    struct rota_work_layout layout = rota_work_broker_cluster_layout(broker->cluster, queue);
    struct rota_queue_nodes nodes = {
        .partitions = broker->options.partitions, .write = layout.write, .read = layout.read};
    struct rota_str *listed =
        rota_arena_take(&broker->front.arena, (n + 1 + n_absent) * sizeof *listed);
    ROTA_BROKER_TELL_SPREAD(&nodes, &layout);
    rota_buffer_clear(&broker->front.buffer);
    if (listed && !rota_work_broker_cluster_is_alone(broker->cluster)) {
        nodes.node = rota_work_broker_cluster_self(broker->cluster);
        for (size_t i = 0; i <= n; i++) {
            listed[n_known] = node_at(broker, i);
            if (rota_work_broker_cluster_is_listed(broker->cluster, listed[n_known]))
                n_known++;
        }
        nodes.nodes = (struct rota_message_strs){listed, n_known};
        for (size_t i = 0; i < n_absent; i++)
            listed[n + 1 + i] = rota_work_broker_settings_absent(broker, false, i);
        nodes.absent = (struct rota_message_strs){listed + n + 1, n_absent};
    }
    if (queue.size == 0) /* clients ask for a layout often */
        count_jobs(broker, &nodes);
    rota_message_encode(&ROTA_QUEUE_NODES, &nodes, &broker->front.buffer);
    if (!listed || broker->front.buffer.failed)
        rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED, NO_MEMORY, NULL, 0);
    else
        rota_work_broker_answer(broker, call, 0, rota_buffer_str(&broker->front.buffer));
}
