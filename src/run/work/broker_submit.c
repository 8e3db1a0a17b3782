/* Methods of rota.v1.Queue for submitters: add, read and change jobs. */
#include "run/work/broker_method.h"

/* --- adding --- */

/* A partition that is ours is opened with its first job. */
static enum rota_code open_partition(struct rota_work_broker *broker,
                                     const struct rota_job_spec *spec, struct rota_error *error)
{
    struct rota_broker_cluster *cluster = broker->cluster;
    if (!rota_broker_cluster_is_ours(cluster, spec->queue, spec->partition)) {
        struct rota_str owner = rota_broker_cluster_owner(cluster, spec->queue, spec->partition);
        return rota_error_set(error, ROTA_ERR_STALE, "partition %u of this queue belongs to %.*s",
                              spec->partition, (int)owner.size,
                              owner.size ? owner.data : "no node");
    }
    return rota_broker_partition_open(broker->core, rota_work_broker_now(), spec->queue,
                                      spec->partition, 1, error);
}

/* Another node that has sent a job here may know of other partitions; but jobs with one key
 * belong in one, or a second one would not be found. */
static enum rota_code check_partition(const struct rota_work_broker *broker,
                                      const struct rota_queue_job_spec *message,
                                      const struct rota_job_spec *spec, bool is_carried,
                                      struct rota_error *error)
{
    struct rota_error why;
    if (is_carried && spec->unique.size == 0)
        return ROTA_OK;
    enum rota_code code = rota_work_broker_check_new(broker, message, spec->partition, &why);
    if (!code)
        return ROTA_OK;
    return rota_error_set(error, is_carried ? ROTA_ERR_STALE : code, "%s", why.text);
}

/* Whether an add was refused because its id is that of another job. */
static bool is_taken(const struct rota_work_broker *broker,
                     const struct rota_queue_job_spec *message, enum rota_code code)
{
    struct rota_job_spec spec;
    return code == ROTA_ERR_INVALID && message && !rota_queue_spec_read(message, 0, &spec, NULL) &&
           !rota_job_spec_check(&spec, NULL) &&
           rota_broker_check_same(broker->core, &spec, NULL) != ROTA_OK;
}

static enum rota_code add_job(struct rota_work_broker *broker, struct rota_work_now now,
                              const struct rota_queue_job_spec *message, bool is_carried,
                              struct rota_job_id *id, bool *is_new, uint64_t *number,
                              struct rota_error *error)
{
    struct rota_job_spec spec;
    struct rota_job_view view;
    if (broker->is_draining)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                              "this node is drained or stopping, and accepts no new jobs");
    enum rota_code code = rota_queue_spec_read(message, now.wall, &spec, error);
    if (!code && message->is_known) {
        *id = spec.id;
        *is_new = false;
        *number = 0;
        return ROTA_OK;
    }
    if (!code)
        code = rota_work_broker_place(broker, message, is_carried, spec.id, &spec.partition, error);
    if (!code)
        code = check_partition(broker, message, &spec, is_carried, error);
    if (code)
        return code;
    code = rota_broker_add(broker->core, now, &spec, id, is_new, number, error);
    if (!code && *number < broker->call_first)
        broker->call_first = *number; /* it is there, and may not be written yet */
    if (code != ROTA_ERR_STALE || broker->store)
        return code;
    if (!rota_job_id_is_none(spec.id) &&
        !rota_broker_find(broker->core, spec.queue, spec.id, &view, NULL)) {
        code = rota_broker_check_same(broker->core, &spec, error);
        if (code)
            return code;
        *id = spec.id; /* it was added before, and is about to be handed over */
        *is_new = false;
        *number = rota_broker_last_number(broker->core);
        return ROTA_OK;
    }
    code = open_partition(broker, &spec, error);
    return code ? code : rota_broker_add(broker->core, now, &spec, id, is_new, number, error);
}

void rota_work_broker_handle_add(struct rota_work_broker *broker, struct rota_server_call *call,
                                 const void *request)
{
    const struct rota_queue_add *message = request;
    struct rota_queue_added added = {0};
    struct rota_job_id id;
    struct rota_error error;
    uint64_t number;
    char bytes[ROTA_QUEUE_ID_SIZE];
    enum rota_code code =
        message->job
            ? add_job(broker, rota_work_broker_now(), message->job,
                      rota_work_broker_is_carried(call), &id, &added.is_new, &number, &error)
            : rota_error_set(&error, ROTA_ERR_INVALID, "the request has no job");
    rota_work_broker_touch(broker);
    if (is_taken(broker, message->job, code)) {
        rota_server_call_finish(call, ROTA_STATUS_ALREADY_EXISTS, error.text, NULL, 0);
        return;
    }
    if (code) {
        rota_work_broker_refuse_add(
            broker, call,
            message->job ? ((const struct rota_queue_job_spec *)message->job)->queue : rota_str(""),
            &error);
        return;
    }
    added.id = rota_queue_id_write(id, bytes);
    rota_work_broker_reply(broker, call, number, &ROTA_QUEUE_ADDED, &added);
}

void rota_work_broker_handle_add_batch(struct rota_work_broker *broker,
                                       struct rota_server_call *call, const void *request)
{
    const struct rota_queue_list *list = request;
    const struct rota_queue_job_spec *jobs = list->items.items;
    struct rota_work_now now = rota_work_broker_now();
    uint64_t last = 0, number = 0;
    bool is_carried = rota_work_broker_is_carried(call);
    rota_buffer_clear(&broker->buffer);
    for (size_t i = 0; i < list->items.n; i++) {
        struct rota_queue_added added = {0};
        struct rota_job_id id;
        struct rota_error error;
        char bytes[ROTA_QUEUE_ID_SIZE];
        enum rota_code code =
            add_job(broker, now, &jobs[i], is_carried, &id, &added.is_new, &number, &error);
        if (code) {
            added = (struct rota_queue_added){.status = rota_grpc_status_of_code(code),
                                              .error = rota_str(error.text),
                                              .may_go_elsewhere =
                                                  rota_work_broker_may_go_elsewhere(code)};
            if (code == ROTA_ERR_STALE)
                added.status = ROTA_STATUS_UNAVAILABLE;
            else if (is_taken(broker, &jobs[i], code))
                added.status = ROTA_STATUS_ALREADY_EXISTS;
        } else {
            added.id = rota_queue_id_write(id, bytes);
            last = number > last ? number : last;
        }
        rota_message_encode_entry(&ROTA_QUEUE_ADDED, 1, &added, &broker->buffer);
    }
    rota_work_broker_touch(broker);
    rota_work_broker_reply_buffer(broker, call, last);
}

/* --- one job --- */

/* The job exists but its state does not allow the change: the request is not wrong. */
static void refuse_change(struct rota_server_call *call, const struct rota_error *error)
{
    if (error->code == ROTA_ERR_INVALID)
        rota_server_call_finish(call, ROTA_STATUS_FAILED_PRECONDITION, error->text, NULL, 0);
    else
        rota_work_broker_refuse(call, error, true);
}

static void change_job(struct rota_work_broker *broker, struct rota_server_call *call,
                       const struct rota_queue_about *about,
                       enum rota_code (*make)(struct rota_broker *core, struct rota_work_now now,
                                              struct rota_str queue, struct rota_job_id id,
                                              uint64_t *number, struct rota_error *error))
{
    struct rota_job_id id;
    struct rota_error error;
    uint64_t number;
    if (!rota_work_broker_read_job(call, about, &id))
        return;
    enum rota_code code =
        make(broker->core, rota_work_broker_now(), about->queue, id, &number, &error);
    rota_work_broker_touch(broker);
    if (code)
        refuse_change(call, &error);
    else
        rota_work_broker_reply(broker, call, number, NULL, NULL);
}

void rota_work_broker_handle_cancel(struct rota_work_broker *broker, struct rota_server_call *call,
                                    const void *request)
{
    change_job(broker, call, request, rota_broker_cancel);
}

void rota_work_broker_handle_retry(struct rota_work_broker *broker, struct rota_server_call *call,
                                   const void *request)
{
    change_job(broker, call, request, rota_broker_revive);
}

void rota_work_broker_handle_priority(struct rota_work_broker *broker,
                                      struct rota_server_call *call, const void *request)
{
    const struct rota_queue_about *about = request;
    struct rota_job_id id;
    struct rota_error error;
    uint64_t number;
    if (!rota_work_broker_read_job(call, about, &id))
        return;
    if (rota_queue_priority_check(about->priority, &error)) {
        rota_work_broker_refuse(call, &error, false);
        return;
    }
    enum rota_code code =
        rota_broker_set_priority(broker->core, rota_work_broker_now(), about->queue, id,
                                 (int16_t)about->priority, &number, &error);
    rota_work_broker_touch(broker);
    if (code)
        refuse_change(call, &error);
    else
        rota_work_broker_reply(broker, call, number, NULL, NULL);
}
