/* The driver of layout_fsm: layouts of queues are applied to the route, sent to all nodes, and
 * completed step by step by the node that has partition 0 of the queue. */
#include "run/work/cluster/work_broker_layout.h"
#include "run/work/broker/work_broker_inside.h"
#include "run/work/broker/work_broker_reply.h"
#include "run/work/cluster/work_broker_ask.h"
#include "run/work/cluster/work_broker_errand.h"
#include "run/work/cluster/work_broker_layout_file.h"
#include "run/work/cluster/work_broker_settings.h"
#include "run/work/store/work_broker_store.h"

#include <stdlib.h>
#include <string.h>

static const char LAY_OUT[] = "/rota.peer.v1.QueuePeer/LayOut";

/* A queue whose layout is changing. */
struct lead {
    struct rota_list_node link;
    struct rota_layout_fsm fsm;
    size_t name_size;
    char name[ROTA_JOB_QUEUE_NAME_MAX];
};

/* A node that is being asked. */
struct asking {
    struct rota_broker_ask ask;
    struct rota_broker_layouts *layouts;
    struct lead *lead; /* NULL: only sent */
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

/* The one layout that is there, of this queue if it is named. */
static bool read_layout(struct rota_str records, struct rota_str queue,
                        struct rota_work_record *record, struct rota_journal_room *room)
{
    struct rota_journal_batch batch = {0};
    size_t place = 0;
    return rota_queue_message_read_jobs(&batch, records, &place, record, room) &&
           place == records.size && record->type == ROTA_WORK_LAYOUT && record->layout &&
           (queue.size == 0 || rota_str_is_equal(record->queue, queue));
}

static void write_layout(const struct rota_work_broker *broker, struct rota_str queue,
                         struct rota_buffer *records)
{
    struct rota_journal_batch batch = {0};
    struct rota_work_layout layout;
    struct rota_work_record record = {.type = ROTA_WORK_LAYOUT, .queue = queue, .layout = &layout};
    if (rota_broker_layout(broker->core, queue, &layout, &record.at))
        rota_queue_message_write_jobs(&batch, &record, records);
}

/* A node whose layout takes precedence over ours answers with it, and we adopt it. */
static void on_layout_answer(struct rota_broker_ask *ask, const struct rota_call_result *result)
{
    const struct asking *asking = ROTA_LIST_ITEM(ask, struct asking, ask);
    struct lead *lead = asking->lead;
    struct rota_work_broker *broker = asking->layouts->broker;
    struct rota_queue_lies_so told = {0};
    struct rota_journal_room room;
    struct rota_work_record record;
    rota_arena_clear(&broker->front.arena);
    bool is_told = result->status == ROTA_STATUS_OK &&
                   !rota_message_decode(&ROTA_QUEUE_LIES_SO, result->message, &told,
                                        &broker->front.arena, NULL) &&
                   read_layout(told.records, lead ? name_of(lead) : rota_str(""), &record, &room);
    if (lead)
        rota_layout_fsm_answer(&lead->fsm, asking->round, is_told ? record.layout : NULL,
                               is_told ? record.at : 0, told.has_beyond);
    if (is_told)
        rota_broker_take_setting(broker->core, rota_work_broker_now(), &record, NULL);
    rota_work_broker_touch(broker);
}

/* False when it did not even begin. */
static bool ask_peer(struct rota_broker_layouts *layouts, struct lead *lead, struct rota_str peer,
                     struct rota_str request)
{
    const struct rota_call_options options = {.method = rota_str(LAY_OUT), .request = request};
    struct asking *asking = malloc(sizeof *asking);
    if (!asking)
        return false;
    *asking = (struct asking){.ask.on_end = on_layout_answer,
                              .layouts = layouts,
                              .lead = lead,
                              .round = lead ? lead->fsm.round : 0};
    return !rota_work_broker_ask(layouts->broker->cluster, &layouts->askings, &asking->ask, peer,
                                 &options, NULL);
}

/* Send all peers the layout of a queue; the leader learns from the answers how far they are. */
static void ask_all_peers(struct rota_broker_layouts *layouts, struct rota_str queue,
                          struct lead *lead)
{
    struct rota_work_broker *broker = layouts->broker;
    struct rota_buffer records = {0}, request = {0};
    write_layout(broker, queue, &records);
    struct rota_queue_settings message = {.records = rota_buffer_str(&records), .queue = queue};
    rota_message_encode(&ROTA_QUEUE_LAY_OUT, &message, &request);
    bool is_well = records.size > 0 && !records.failed && !request.failed;
    for (size_t i = 0; i < rota_work_broker_cluster_n_peers(broker->cluster); i++)
        if ((!is_well || !ask_peer(layouts, lead, rota_work_broker_cluster_peer(broker->cluster, i),
                                   rota_buffer_str(&request))) &&
            lead)
            rota_layout_fsm_answer(&lead->fsm, lead->fsm.round, NULL, 0, 0);
    rota_buffer_deinit(&records);
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

/* True when a step was made. */
static bool drive(struct rota_broker_layouts *layouts, struct lead *lead, struct rota_work_now now)
{
    struct rota_work_broker *broker = layouts->broker;
    struct rota_work_layout layout;
    rota_time at;
    uint64_t number;
    if (!rota_broker_layout(broker->core, name_of(lead), &layout, &at) ||
        rota_layout_is_settled(&layout)) {
        leave_lead(layouts, lead);
        return false;
    }
    if (!rota_work_broker_cluster_is_ours(broker->cluster, name_of(lead), 0)) {
        rota_layout_fsm_rest(&lead->fsm); /* another node leads it, or will report the result */
        return false;
    }
    rota_layout_fsm_follow_layout(&lead->fsm, now.boot, &layout, at);
    if (rota_layout_fsm_ask(&lead->fsm, now.boot,
                            rota_work_broker_cluster_n_peers(broker->cluster)))
        ask_all_peers(layouts, name_of(lead), lead);
    if (!rota_layout_fsm_is_answered(&lead->fsm) || /* our own jobs are counted only if needed */
        !rota_layout_fsm_step(&lead->fsm, now.boot, has_beyond(broker, name_of(lead), &layout),
                              &layout))
        return false;
    if (rota_broker_set_layout(broker->core, now, name_of(lead), &layout, rota_time_add(at, 1),
                               &number, NULL))
        return false;
    ask_all_peers(layouts, name_of(lead), NULL);
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

enum rota_code rota_work_broker_layout_put(struct rota_work_broker *broker, struct rota_str queue,
                                           const struct rota_work_layout *layout, uint64_t *number,
                                           struct rota_error *error)
{
    enum rota_code code = rota_broker_set_layout(broker->core, rota_work_broker_now(), queue,
                                                 layout, 0, number, error);
    if (!code)
        ask_all_peers(broker->layouts, queue, NULL);
    return code;
}

/* The layout of the queue after this request. */
static enum rota_code make_layout(const struct rota_work_broker *broker,
                                  const struct rota_queue_lay_out *request,
                                  struct rota_work_layout *layout, struct rota_error *error)
{
    enum rota_code code = rota_job_queue_check(request->queue, error);
    if (code)
        return code;
    const struct rota_work_layout now =
        rota_work_broker_cluster_layout(broker->cluster, request->queue);
    const struct rota_layout_wish wish = {
        .wanted = (uint32_t)request->partitions,
        .has_spread = request->has_spread,
        .spread = {.mode = request->is_slots ? ROTA_SPREAD_SLOTS : ROTA_SPREAD_LOOKUP,
                   .batch = (uint32_t)request->batch},
        .gradual = (rota_time)request->gradual_ms * ROTA_MSEC};
    code = rota_work_broker_layout_file_permit(broker->layout_file, request->queue, &wish, error);
    if (code)
        return code;
    rota_time wall = rota_work_broker_now().wall;
    /* Whole milliseconds, so that clients get exactly the same times. */
    return rota_layout_want(&now, &wish, wall - wall % ROTA_MSEC, layout, error);
}

void rota_work_broker_layout_set(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_server_call *call = request->call;
    const struct rota_queue_lay_out *message = &request->as.lay_out;
    struct rota_work_layout layout;
    struct rota_error error;
    uint64_t number = 0;
    enum rota_code code = make_layout(broker, message, &layout, &error);
    if (!code && !message->is_dry_run)
        code = rota_work_broker_layout_put(broker, message->queue, &layout, &number, &error);
    if (code) {
        rota_work_broker_reply_error(call, &error, false);
        return;
    }
    struct rota_queue_laid_out reply = {
        .wanted = layout.wanted, .write = layout.write, .read = layout.read};
    ROTA_BROKER_TELL_SPREAD(&reply, &layout);
    rota_work_broker_reply_message(broker, call, number, &ROTA_QUEUE_LAID_OUT, &reply);
    rota_work_broker_touch(broker);
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

static enum rota_code take_settings(struct rota_work_broker *broker,
                                    const struct rota_queue_settings *request,
                                    struct rota_error *error)
{
    struct rota_journal_room room;
    struct rota_work_record record;
    enum rota_code code = rota_job_queue_check(request->queue, error);
    if (!code && !read_layout(request->records, request->queue, &record, &room))
        code = rota_error_set(error, ROTA_ERR_INVALID, "not a layout of the queue");
    return code ? code
                : rota_broker_take_setting(broker->core, rota_work_broker_now(), &record, error);
}

void rota_work_broker_layout_lay_out(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_server_call *call = request->call;
    const struct rota_queue_settings *message = &request->as.settings;
    struct rota_work_layout layout;
    struct rota_queue_lies_so reply = {0};
    struct rota_buffer records = {0};
    struct rota_error error;
    rota_time at;
    if (take_settings(broker, message, &error)) {
        rota_work_broker_reply_error(call, &error, false);
        return;
    }
    if (rota_broker_layout(broker->core, message->queue, &layout, &at))
        reply.has_beyond = has_beyond(broker, message->queue, &layout);
    write_layout(broker, message->queue, &records);
    reply.records = rota_buffer_str(&records);
    if (records.failed)
        rota_work_broker_reply_no_memory(call);
    else
        rota_work_broker_reply_message(broker, call, rota_broker_last_number(broker->core),
                                       &ROTA_QUEUE_LIES_SO, &reply);
    rota_buffer_deinit(&records);
    rota_work_broker_touch(broker);
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
