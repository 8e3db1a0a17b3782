/* Methods of rota.v1.Queue for operators: lists, and settings of queues. */
#include "run/work/broker/work_broker_inside.h"
#include "run/work/broker/work_broker_method.h"
#include "run/work/broker/work_broker_reply.h"
#include "run/work/broker/work_broker_show.h"
#include "run/work/cluster/work_broker_forward.h"
#include "run/work/cluster/work_broker_layout.h"
#include "run/work/cluster/work_broker_rows.h"
#include "run/work/store/work_broker_store.h"

void rota_work_broker_operate_list(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_server_call *call = request->call;
    const struct rota_queue_list_request *list = &request->as.jobs_of;
    size_t max = list->max_jobs ? (size_t)list->max_jobs : 100, place = (size_t)list->after, n = 0;
    struct rota_job_view view;
    struct rota_error error;
    if (rota_job_queue_check(list->queue, &error)) {
        rota_work_broker_reply_error(call, &error, false);
        return;
    }
    rota_buffer_clear(&broker->front.buffer);
    for (; n < max && rota_broker_next_job(broker->core, list->queue,
                                           (enum rota_job_state)list->state, &place, &view);
         n++) {
        const struct rota_queue_job_info *info =
            rota_work_broker_show_job(broker, &view, ROTA_BROKER_SHOW_LIST);
        if (!info) {
            rota_work_broker_reply_no_memory(call);
            return;
        }
        rota_message_encode_entry(&ROTA_QUEUE_JOB_INFO, 1, info, &broker->front.buffer);
    }
    struct rota_queue_list_reply rest = {.next = n == max ? place : 0};
    rota_message_encode(&ROTA_QUEUE_LIST_REPLY, &rest, &broker->front.buffer);
    rota_work_broker_reply_buffer(broker, call, 0);
}

void rota_work_broker_operate_pause(struct rota_broker_request *request)
{
    const struct rota_queue_setting *setting = &request->as.setting;
    rota_work_broker_rows_change_for(
        request, setting->queue,
        &(struct rota_setting_edit){.type = ROTA_SETTING_PAUSE, .is_paused = setting->is_paused});
}

static uint32_t clamp(uint64_t number)
{
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

void rota_work_broker_operate_weight(struct rota_broker_request *request)
{
    const struct rota_queue_setting *setting = &request->as.setting;
    rota_work_broker_rows_change_for(request, setting->queue,
                                     &(struct rota_setting_edit){.type = ROTA_SETTING_WEIGHT,
                                                                 .key = setting->key,
                                                                 .number = clamp(setting->weight)});
}

void rota_work_broker_operate_quarantine(struct rota_broker_request *request)
{
    const struct rota_queue_setting *setting = &request->as.setting;
    rota_work_broker_rows_change_for(
        request, setting->queue,
        &(struct rota_setting_edit){.type = ROTA_SETTING_KILLS, .number = clamp(setting->weight)});
}

static void append_queue(struct rota_work_broker *broker, const struct rota_queue_view *view)
{
    struct rota_queue_info info = {
        .name = view->name,
        .is_paused = view->is_paused,
        .n_partitions = view->n_partitions,
        .n_waiting = view->counts[ROTA_JOB_WAITING],
        .n_delayed = view->counts[ROTA_JOB_DELAYED],
        .n_running = view->counts[ROTA_JOB_RUNNING],
        .n_done = view->counts[ROTA_JOB_DONE],
        .n_dead = view->counts[ROTA_JOB_DEAD],
        .n_cancelled = view->counts[ROTA_JOB_CANCELLED],
        .oldest_ms = rota_queue_to_ms(view->oldest_at),
        .added_total = view->n_added,
        .done_total = view->n_done,
        .dead_total = view->n_dead,
        .retries_total = view->n_retries,
        .n_workers = view->n_workers,
        .n_slots = view->n_slots,
        .n_free = view->n_free,
        .quarantined_total = view->n_quarantined,
        .worker_deaths = view->kills_max,
    };
    rota_work_broker_forward_info(broker, &info);
    rota_work_broker_layout_info(broker, &info);
    rota_message_encode_entry(&ROTA_QUEUE_INFO, 1, &info, &broker->front.buffer);
}

void rota_work_broker_operate_queues(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_server_call *call = request->call;
    const struct rota_queue_page *asked = &request->as.page;
    struct rota_str after = asked->after;
    struct rota_queue_view view;
    rota_buffer_clear(&broker->front.buffer);
    if (asked->queue.size > 0) {
        if (rota_broker_find_queue(broker->core, asked->queue, &view))
            append_queue(broker, &view);
    } else {
        uint64_t left = asked->max_queues ? asked->max_queues : ROTA_QUEUE_PAGE_MAX;
        for (; left > 0 && rota_broker_next_queue(broker->core, &after, &view); left--)
            append_queue(broker, &view);
        struct rota_queue_list rest = {.next = after};
        if (left == 0 && rota_broker_next_queue(broker->core, &after, &view))
            rota_message_encode(&ROTA_QUEUE_QUEUES_REPLY, &rest, &broker->front.buffer);
    }
    rota_work_broker_reply_buffer(broker, call, 0);
}

/* A node that does not have the queue has nothing to delete. */
static void delete_here(const struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_server_call *call = request->call;
    const struct rota_queue_delete *asked = &request->as.delete;
    struct rota_queue_deleted deleted = {0};
    struct rota_error error;
    size_t n_live, n_ended;
    uint64_t number;
    enum rota_code code =
        rota_broker_delete_queue(broker->core, rota_work_broker_now(), asked->queue,
                                 asked->is_dry_run, &n_live, &n_ended, &number, &error);
    if (!code && !asked->is_dry_run)
        rota_work_broker_store_parts_delete(broker, asked->queue);
    rota_work_broker_touch(broker);
    deleted.n_jobs = n_ended;
    if (code == ROTA_ERR_INVALID && n_live > 0)
        rota_server_call_finish(call, ROTA_STATUS_FAILED_PRECONDITION, error.text, NULL, 0);
    else if (code && code != ROTA_ERR_NOT_FOUND)
        rota_work_broker_reply_error(call, &error, false);
    else
        rota_work_broker_reply_message(broker, call, number, &ROTA_QUEUE_DELETED, &deleted);
}

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
        delete_here(kept);
    rota_work_broker_front_drop(kept);
}

/* Of this node alone, or for the one that asks all: that one resets the settings. */
void rota_work_broker_operate_delete(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    const struct rota_queue_delete *asked = &request->as.delete;
    struct rota_setting_change change = {.edit.type = ROTA_SETTING_RESET,
                                         .make = rota_work_broker_layout_make_usual,
                                         .on_changed = on_reset};
    char actor[ROTA_SERVER_ACTOR_MAX];
    struct rota_error error;
    size_t n_live, n_ended;
    uint64_t number;
    if (asked->is_dry_run || request->front.is_carried ||
        rota_broker_delete_queue(broker->core, rota_work_broker_now(), asked->queue, true, &n_live,
                                 &n_ended, &number, &error)) {
        delete_here(request);
        return;
    }
    struct rota_broker_request *kept = rota_work_broker_front_keep(request);
    if (!kept) {
        rota_work_broker_reply_no_memory(request->call);
        return;
    }
    change.data = kept;
    rota_work_broker_rows_change(broker, kept->as.delete.queue, &change,
                                 rota_server_call_actor(kept->call, actor));
}

void rota_work_broker_operate_workers(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_server_call *call = request->call;
    struct rota_worker_view view;
    rota_time now = rota_work_broker_now().boot;
    rota_buffer_clear(&broker->front.buffer);
    for (size_t place = 0; rota_broker_next_worker(broker->core, &place, &view);) {
        struct rota_queue_worker_info info = {
            .name = view.name,
            .session = view.session,
            .epoch = view.epoch,
            .slots = view.slots,
            .n_running = view.n_running,
            .silent_ms = rota_queue_to_ms(now - view.heard_at),
            .can = {view.can, view.n_can},
            .queues = {view.queues, view.n_queues},
        };
        rota_message_encode_entry(&ROTA_QUEUE_WORKER_INFO, 1, &info, &broker->front.buffer);
    }
    rota_work_broker_reply_buffer(broker, call, 0);
}
