/* The driver of layout_fsm: layouts of queues are applied to the route, and completed step by step
 * by the node that has partition 0 of the queue: it asks the others how far they are. */
#include "run/work/cluster/work_broker_layout.h"
#include "run/work/broker/work_broker_inside.h"
#include "run/work/broker/work_broker_reply.h"
#include "run/work/cluster/work_broker_ask.h"
#include "run/work/cluster/work_broker_layout_file.h"
#include "run/work/cluster/work_broker_rows.h"
#include "run/work/store/work_broker_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char CHANGED[] = "/rota.peer.v1.QueuePeer/Changed";

/* A queue whose layout is changing. */
struct lead {
    struct rota_list_node link;
    struct rota_layout_fsm fsm;
    struct rota_work_layout step; /* the next one, ... */
    bool is_stepping;             /* ... while it is being written */
    size_t name_size;
    char name[ROTA_JOB_QUEUE_NAME_MAX];
};

/* A node that is being asked. */
struct asking {
    struct rota_broker_ask ask;
    struct rota_broker_layouts *layouts;
    struct lead *lead; /* NULL: it has ended */
    uint64_t round;
};

struct rota_broker_layouts {
    struct rota_work_broker *broker;
    struct rota_list_node leads, askings;
    uint64_t n_known; /* of layouts that were set */
    struct rota_broker_cluster_subscriber subscriber;
};

static struct rota_str name_of(const struct lead *lead)
{
    return rota_str_of(lead->name, lead->name_size);
}

/* --- asking --- */

/* The one layout that is there, of this queue. */
static bool read_layout(struct rota_str records, struct rota_str queue,
                        struct rota_work_record *record, struct rota_journal_room *room)
{
    struct rota_journal_batch batch = {0};
    size_t place = 0;
    return rota_queue_message_read_jobs(&batch, records, &place, record, room) &&
           place == records.size && record->type == ROTA_WORK_LAYOUT && record->layout &&
           rota_str_is_equal(record->queue, queue);
}

/* A node that obeys a later layout than ours knows a later row. */
static void on_layout_answer(struct rota_broker_ask *ask, const struct rota_call_result *result)
{
    const struct asking *asking = ROTA_LIST_ITEM(ask, struct asking, ask);
    struct lead *lead = asking->lead;
    struct rota_work_broker *broker = asking->layouts->broker;
    struct rota_queue_changed_reply told = {0};
    struct rota_journal_room room;
    struct rota_work_record record;
    rota_arena_clear(&broker->front.arena);
    bool is_answered = result->status == ROTA_STATUS_OK &&
                       !rota_message_decode(&ROTA_QUEUE_CHANGED_REPLY, result->message, &told,
                                            &broker->front.arena, NULL);
    bool is_told = is_answered && lead && read_layout(told.records, name_of(lead), &record, &room);
    if (lead)
        rota_layout_fsm_answer(&lead->fsm, asking->round, is_told ? record.layout : NULL,
                               is_told ? record.at : 0, told.has_beyond);
    rota_work_broker_rows_hint(broker->rows, told.version);
    rota_work_broker_touch(broker);
}

/* False when it did not even begin. */
static bool ask_peer(struct rota_broker_layouts *layouts, struct lead *lead, struct rota_str peer,
                     struct rota_str request)
{
    const struct rota_call_options options = {.method = rota_str(CHANGED), .request = request};
    struct asking *asking = malloc(sizeof *asking);
    if (!asking)
        return false;
    *asking = (struct asking){
        .ask.on_end = on_layout_answer, .layouts = layouts, .lead = lead, .round = lead->fsm.round};
    return !rota_work_broker_ask(layouts->broker->cluster, &layouts->askings, &asking->ask, peer,
                                 &options, NULL);
}

/* Ask all peers how far they are with the layout. */
static void ask_all_peers(struct rota_broker_layouts *layouts, struct lead *lead)
{
    struct rota_work_broker *broker = layouts->broker;
    struct rota_buffer request = {0};
    const struct rota_queue_changed message = {
        .version = rota_work_broker_rows_version(broker->rows), .queue = name_of(lead)};
    rota_message_encode(&ROTA_QUEUE_CHANGED, &message, &request);
    for (size_t i = 0; i < rota_work_broker_cluster_n_peers(broker->cluster); i++)
        if (request.failed ||
            !ask_peer(layouts, lead, rota_work_broker_cluster_peer(broker->cluster, i),
                      rota_buffer_str(&request)))
            rota_layout_fsm_answer(&lead->fsm, lead->fsm.round, NULL, 0, 0);
    rota_buffer_deinit(&request);
}

/* --- leading --- */

static struct lead *find_lead(const struct rota_broker_layouts *layouts, struct rota_str queue)
{
    ROTA_LIST_EACH (lead, &layouts->leads, struct lead, link) {
        if (rota_str_is_equal(name_of(lead), queue))
            return lead;
    }
    return NULL;
}

/* False when there is no memory. */
static bool follow_queue(struct rota_broker_layouts *layouts, struct rota_str queue)
{
    if (find_lead(layouts, queue))
        return true;
    struct lead *lead = calloc(1, sizeof *lead);
    if (!lead)
        return false;
    lead->name_size = queue.size;
    memcpy(lead->name, queue.data, queue.size);
    rota_list_init(&lead->link);
    rota_list_push(&layouts->leads, &lead->link);
    return true;
}

static void leave_lead(struct rota_broker_layouts *layouts, struct lead *lead)
{
    ROTA_LIST_EACH (asking, &layouts->askings, struct asking, ask.link) {
        if (asking->lead == lead)
            asking->lead = NULL;
    }
    rota_list_remove(&lead->link);
    free(lead);
}

/* A partition that is not loaded yet may have any job. */
static bool has_beyond(const struct rota_work_broker *broker, struct rota_str queue,
                       const struct rota_work_layout *layout)
{
    return !rota_work_broker_store_gate_is_loaded(broker) ||
           rota_broker_has_beyond(broker->core, queue, layout);
}

/* Only if it still follows from what is in force. */
static enum rota_code make_step(struct rota_work_broker *broker, struct rota_str queue,
                                struct rota_setting_change *change, struct rota_error *error)
{
    const struct lead *lead = find_lead(broker->layouts, queue);
    struct rota_work_layout layout;
    rota_time at;
    if (!lead || !rota_broker_layout(broker->core, queue, &layout, &at) || at != change->before)
        return rota_error_set(error, ROTA_ERR_STALE, "another layout came before this step");
    change->edit.layout = lead->step;
    change->edit.at = rota_time_add(at, 1);
    return ROTA_OK;
}

static void on_stepped(struct rota_work_broker *broker, void *data, struct rota_str queue,
                       const struct rota_setting_change *change, uint64_t number,
                       const struct rota_error *error)
{
    struct lead *lead = broker->layouts ? find_lead(broker->layouts, queue) : NULL;
    (void)data;
    (void)change;
    (void)number;
    (void)error; /* it is tried again after the next round */
    if (lead)
        lead->is_stepping = false;
}

static void take_step(struct rota_broker_layouts *layouts, struct lead *lead, rota_time at)
{
    struct rota_work_broker *broker = layouts->broker;
    char author[ROTA_ADDRESS_MAX + 8];
    const struct rota_setting_change change = {.edit.type = ROTA_SETTING_LAYOUT,
                                               .make = make_step,
                                               .before = at,
                                               .on_changed = on_stepped};
    struct rota_str self = rota_work_broker_cluster_self(broker->cluster);
    snprintf(author, sizeof author, "node %.*s", ROTA_STR_ARGS(self));
    lead->is_stepping = true;
    rota_work_broker_rows_change(broker, name_of(lead), &change, author);
}

/* True when a step was made. */
static bool drive(struct rota_broker_layouts *layouts, struct lead *lead, struct rota_work_now now)
{
    struct rota_work_broker *broker = layouts->broker;
    struct rota_work_layout layout;
    rota_time at;
    if (lead->is_stepping)
        return false;
    if (!rota_broker_layout(broker->core, name_of(lead), &layout, &at) ||
        rota_layout_is_settled(&layout)) {
        leave_lead(layouts, lead);
        return false;
    }
    if (!rota_work_broker_cluster_is_ours(broker->cluster, name_of(lead), 0)) {
        rota_layout_fsm_rest(&lead->fsm); /* another node leads it */
        return false;
    }
    rota_layout_fsm_follow_layout(&lead->fsm, now.boot, &layout, at);
    if (rota_layout_fsm_ask(&lead->fsm, now.boot,
                            rota_work_broker_cluster_n_peers(broker->cluster)))
        ask_all_peers(layouts, lead);
    if (!rota_layout_fsm_is_answered(&lead->fsm) || /* our own jobs are counted only if needed */
        !rota_layout_fsm_step(&lead->fsm, now.boot, has_beyond(broker, name_of(lead), &layout),
                              &lead->step))
        return false;
    take_step(layouts, lead, at);
    return true;
}

/* Route by the layouts that were set. True when the route changed; a layout that fails for lack
 * of memory is retried in the next turn. */
static bool take_over_layouts(struct rota_broker_layouts *layouts)
{
    struct rota_work_broker *broker = layouts->broker;
    struct rota_setting_place place = {0};
    struct rota_work_record record;
    bool is_changed = false;
    layouts->n_known = rota_broker_n_layouts(broker->core);
    while (rota_broker_next_setting(broker->core, &place, &record)) {
        if (record.type != ROTA_WORK_LAYOUT)
            continue;
        struct rota_work_layout known =
            rota_work_broker_cluster_layout(broker->cluster, record.queue);
        if (!rota_layout_is_settled(record.layout) && !follow_queue(layouts, record.queue))
            layouts->n_known = 0;
        if (rota_layout_is_equal(&known, record.layout))
            continue;
        if (!rota_work_broker_cluster_lay_out(broker->cluster, record.queue, record.layout)) {
            layouts->n_known = 0;
            continue;
        }
        is_changed = true;
        rota_log(
            broker->options.log, rota_work_broker_now().wall, ROTA_LOG_INFO, "queue layout changed",
            ROTA_LOG_FACT("queue", record.queue), ROTA_LOG_FACT("wanted", record.layout->wanted),
            ROTA_LOG_FACT("write", record.layout->write),
            ROTA_LOG_FACT("read", record.layout->read),
            ROTA_LOG_FACT("batch", record.layout->spread.batch),
            ROTA_LOG_FACT("mode", rota_spread_mode_name(record.layout->spread.mode)),
            ROTA_LOG_FACT("gradual_ms",
                          (record.layout->change.end - record.layout->change.start) / ROTA_MSEC));
    }
    if (is_changed)
        rota_work_broker_cluster_laid_out(broker->cluster);
    return is_changed;
}

bool rota_work_broker_layout_turn(struct rota_broker_layouts *layouts, struct rota_work_now now)
{
    bool has_more = false;
    if (!layouts)
        return false;
    if (layouts->n_known != rota_broker_n_layouts(layouts->broker->core))
        has_more = take_over_layouts(layouts);
    ROTA_LIST_EACH (lead, &layouts->leads, struct lead, link)
        has_more |= drive(layouts, lead, now);
    return has_more;
}

rota_time rota_work_broker_layout_deadline(const struct rota_broker_layouts *layouts)
{
    rota_time at = ROTA_TIME_NEVER;
    if (!layouts)
        return at;
    ROTA_LIST_EACH (lead, &layouts->leads, struct lead, link)
        at = rota_time_min(at, rota_layout_fsm_deadline(&lead->fsm));
    return at;
}

/* --- methods --- */

struct rota_work_layout rota_work_broker_layout_of(const struct rota_work_broker *broker,
                                                   struct rota_str queue)
{
    const struct rota_work_layout usual =
        rota_work_broker_cluster_default(rota_work_broker_cluster_n_partitions(broker->cluster));
    const struct rota_layout_file says =
        rota_layout_file_of(rota_work_broker_cluster_config(broker->cluster), queue);
    struct rota_work_layout layout;
    rota_time at;
    bool is_set = rota_broker_layout(broker->core, queue, &layout, &at) &&
                  !rota_layout_is_equal(&layout, &usual);
    return is_set ? layout : rota_layout_file_usual(&says, &usual);
}

/* The layout of the queue after a request, in whole milliseconds, so that clients get exactly the
 * same times. The same request again changes nothing, not even since when the layout is in force.
 */
static enum rota_code make_wished(struct rota_work_broker *broker, struct rota_str queue,
                                  struct rota_setting_change *change, struct rota_error *error)
{
    const struct rota_work_layout now = rota_work_broker_layout_of(broker, queue);
    struct rota_work_layout *next = &change->edit.layout, known;
    rota_time wall = rota_work_broker_now().wall, at;
    enum rota_code code =
        rota_work_broker_layout_file_permit(broker->layout_file, queue, &change->wish, error);
    if (!code)
        code = rota_layout_want(&now, &change->wish, wall - wall % ROTA_MSEC, next, error);
    bool is_same = !code && rota_broker_layout(broker->core, queue, &known, &at) &&
                   rota_layout_is_equal(&known, next);
    change->edit.at = is_same ? at : 0;
    return code;
}

enum rota_code rota_work_broker_layout_make_usual(struct rota_work_broker *broker,
                                                  struct rota_str queue,
                                                  struct rota_setting_change *change,
                                                  struct rota_error *error)
{
    const struct rota_work_layout usual =
        rota_work_broker_cluster_default(rota_work_broker_cluster_n_partitions(broker->cluster));
    const struct rota_layout_wish wish = {
        .wanted = usual.wanted, .has_spread = true, .spread = usual.spread};
    struct rota_work_layout layout;
    rota_time at;
    change->edit.layout = usual;
    return rota_broker_layout(broker->core, queue, &layout, &at)
               ? rota_layout_want(&layout, &wish, rota_work_broker_now().wall, &change->edit.layout,
                                  error)
               : ROTA_OK;
}

static void reply_layout(struct rota_work_broker *broker, struct rota_server_call *call,
                         uint64_t number, const struct rota_work_layout *layout)
{
    struct rota_queue_laid_out reply = {
        .wanted = layout->wanted, .write = layout->write, .read = layout->read};
    ROTA_BROKER_TELL_SPREAD(&reply, layout);
    rota_work_broker_reply_message(broker, call, number, &ROTA_QUEUE_LAID_OUT, &reply);
    rota_work_broker_touch(broker);
}

static void on_set(struct rota_work_broker *broker, void *data, struct rota_str queue,
                   const struct rota_setting_change *change, uint64_t number,
                   const struct rota_error *error)
{
    (void)queue;
    if (error->code)
        rota_work_broker_reply_error(data, error, false);
    else
        reply_layout(broker, data, number, &change->edit.layout);
}

void rota_work_broker_layout_set(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    const struct rota_queue_lay_out *message = &request->as.lay_out;
    char actor[ROTA_SERVER_ACTOR_MAX];
    struct rota_error error;
    struct rota_setting_change change = {
        .edit.type = ROTA_SETTING_LAYOUT,
        .make = make_wished,
        .wish = {.wanted = (uint32_t)message->partitions,
                 .has_spread = message->has_spread,
                 .spread = {.mode = message->is_slots ? ROTA_SPREAD_SLOTS : ROTA_SPREAD_LOOKUP,
                            .batch = (uint32_t)message->batch},
                 .gradual = (rota_time)message->gradual_ms * ROTA_MSEC},
        .on_changed = on_set,
        .data = request->call};
    enum rota_code code = rota_job_queue_check(message->queue, &error);
    if (!code)
        code = make_wished(broker, message->queue, &change, &error);
    if (code)
        rota_work_broker_reply_error(request->call, &error, false);
    else if (message->is_dry_run)
        reply_layout(broker, request->call, 0, &change.edit.layout);
    else
        rota_work_broker_rows_change(broker, message->queue, &change,
                                     rota_server_call_actor(request->call, actor));
}

void rota_work_broker_layout_info(const struct rota_work_broker *broker,
                                  struct rota_queue_info *info)
{
    struct rota_work_layout layout = rota_work_broker_cluster_layout(broker->cluster, info->name);
    info->wanted = layout.wanted;
    info->write = layout.write;
    info->read = layout.read;
    ROTA_BROKER_TELL_SPREAD(info, &layout);
    rota_work_broker_layout_file_info(broker, info);
}

void rota_work_broker_layout_report(const struct rota_work_broker *broker, struct rota_str queue,
                                    struct rota_queue_changed_reply *reply,
                                    struct rota_buffer *records)
{
    struct rota_journal_batch batch = {0};
    struct rota_work_layout layout;
    struct rota_work_record record = {.type = ROTA_WORK_LAYOUT, .queue = queue, .layout = &layout};
    if (!rota_broker_layout(broker->core, queue, &layout, &record.at))
        return;
    rota_queue_message_write_jobs(&batch, &record, records);
    reply->records = rota_buffer_str(records);
    reply->has_beyond = has_beyond(broker, queue, &layout);
}

/* --- life --- */

/* We may lead other queues now. */
static void on_route(void *data)
{
    rota_work_broker_touch(((struct rota_broker_layouts *)data)->broker);
}

enum rota_code rota_work_broker_layout_open(struct rota_work_broker *broker,
                                            struct rota_error *error)
{
    struct rota_broker_layouts *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for the layouts of queues");
    made->broker = broker;
    rota_list_init(&made->leads);
    rota_list_init(&made->askings);
    made->subscriber = (struct rota_broker_cluster_subscriber){.on_route = on_route, .data = made};
    rota_work_broker_cluster_subscribe(broker->cluster, &made->subscriber);
    broker->layouts = made;
    take_over_layouts(made);
    return ROTA_OK;
}

void rota_work_broker_layout_close(struct rota_broker_layouts *layouts)
{
    if (!layouts)
        return;
    rota_work_broker_ask_drop_all(&layouts->askings);
    rota_work_broker_cluster_unsubscribe(&layouts->subscriber);
    ROTA_LIST_DRAIN (lead, &layouts->leads, struct lead, link)
        leave_lead(layouts, lead);
    free(layouts);
}
