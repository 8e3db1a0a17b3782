/* The methods of rota.v1.Queue. */
#include "run/broker_method.h"

#include "core/call/failure.h"
#include "wire/call_notes.h"

#include <stdio.h>

/* --- refusals --- */

static enum rota_status status_of(enum rota_code code)
{
    switch (code) {
    case ROTA_OK:
        return ROTA_STATUS_OK;
    case ROTA_ERR_INVALID:
        return ROTA_STATUS_INVALID_ARGUMENT;
    case ROTA_ERR_NOT_FOUND:
        return ROTA_STATUS_NOT_FOUND;
    case ROTA_ERR_LIMIT:
    case ROTA_ERR_NO_MEMORY:
        return ROTA_STATUS_RESOURCE_EXHAUSTED;
    case ROTA_ERR_UNAVAILABLE:
    case ROTA_ERR_IO:
        return ROTA_STATUS_UNAVAILABLE;
    case ROTA_ERR_UNKNOWN:
        return ROTA_STATUS_UNKNOWN;
    case ROTA_ERR_STALE:
        return ROTA_STATUS_ABORTED;
    }
    return ROTA_STATUS_INTERNAL;
}

/* What is refused for where it went may go elsewhere. */
static bool may_go_elsewhere(enum rota_code code)
{
    return code == ROTA_ERR_STALE || code == ROTA_ERR_UNAVAILABLE || code == ROTA_ERR_LIMIT;
}

void rota_work_broker_refuse(struct rota_server_call *call, const struct rota_error *error,
                             bool is_partition)
{
    const struct rota_metadata notes[] = {
        {rota_str(ROTA_NOTE_ELSEWHERE), rota_str("1")},
        {rota_str(ROTA_NOTE_FAILURE), rota_str(rota_failure_name(ROTA_FAILURE_STALE))}};
    bool has_note = is_partition && may_go_elsewhere(error->code);
    if (is_partition && error->code == ROTA_ERR_STALE)
        rota_server_call_finish(call, ROTA_STATUS_UNAVAILABLE, error->text, notes, 2);
    else
        rota_server_call_finish(call, status_of(error->code), error->text, notes, has_note);
}

void rota_work_broker_refuse_add(const struct rota_work_broker *broker,
                                 struct rota_server_call *call, struct rota_str queue,
                                 const struct rota_error *error)
{
    char n[16];
    if (error->code != ROTA_ERR_STALE) {
        rota_work_broker_refuse(call, error, true);
        return;
    }
    snprintf(n, sizeof n, "%u", rota_broker_cluster_layout(broker->cluster, queue).write);
    const struct rota_metadata notes[] = {
        {rota_str(ROTA_NOTE_ELSEWHERE), rota_str("1")},
        {rota_str(ROTA_NOTE_FAILURE), rota_str(rota_failure_name(ROTA_FAILURE_STALE))},
        {rota_str(ROTA_NOTE_PARTITIONS), rota_str(n)}};
    rota_server_call_finish(call, ROTA_STATUS_UNAVAILABLE, error->text, notes, 3);
}

static void refuse_memory(struct rota_server_call *call)
{
    rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED, "no memory for the answer", NULL,
                            0);
}

/* Answer with a message once `number` is on disk. */
static void answer(struct rota_work_broker *broker, struct rota_server_call *call, uint64_t number,
                   const struct rota_message_type *type, const void *message)
{
    rota_buffer_clear(&broker->buffer);
    if (type)
        rota_message_encode(type, message, &broker->buffer);
    if (broker->buffer.failed)
        refuse_memory(call);
    else
        rota_work_broker_answer(broker, call, number, rota_buffer_str(&broker->buffer));
}

/* --- submitters --- */

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

/* Another node that has sent a job here may know of other partitions; but jobs with one key meet
 * in one, or a second one would not be found. */
static enum rota_code check_partition(const struct rota_work_broker *broker,
                                      const struct rota_queue_job_spec *message,
                                      const struct rota_job_spec *spec, bool is_carried,
                                      struct rota_error *error)
{
    struct rota_error why;
    if (is_carried && spec->unique.size == 0)
        return ROTA_OK;
    enum rota_code code =
        rota_work_broker_check_new(broker, spec->queue, spec->partition, spec->unique, &why);
    if (!code || (code == ROTA_ERR_STALE && message->is_sought))
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

static enum rota_code add(struct rota_work_broker *broker, struct rota_work_now now,
                          const struct rota_queue_job_spec *message, bool is_carried,
                          struct rota_job_id *id, bool *is_new, uint64_t *number,
                          struct rota_error *error)
{
    struct rota_job_spec spec;
    struct rota_job_view view;
    if (broker->is_draining)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "this broker is about to stop");
    enum rota_code code = rota_queue_spec_read(message, now.wall, &spec, error);
    if (!code && message->is_known) {
        *id = spec.id;
        *is_new = false;
        *number = 0;
        return ROTA_OK;
    }
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
        *id = spec.id; /* it was taken in before, and is about to be handed over */
        *is_new = false;
        *number = rota_broker_last_number(broker->core);
        return ROTA_OK;
    }
    code = open_partition(broker, &spec, error);
    return code ? code : rota_broker_add(broker->core, now, &spec, id, is_new, number, error);
}

static void handle_add(struct rota_work_broker *broker, struct rota_server_call *call,
                       const void *request)
{
    const struct rota_queue_add *message = request;
    struct rota_queue_added added = {0};
    struct rota_job_id id;
    struct rota_error error;
    uint64_t number;
    char bytes[ROTA_QUEUE_ID_SIZE];
    enum rota_code code =
        message->job ? add(broker, rota_work_broker_now(), message->job,
                           rota_work_broker_is_carried(call), &id, &added.is_new, &number, &error)
                     : rota_error_set(&error, ROTA_ERR_INVALID, "there is no job in the request");
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
    answer(broker, call, number, &ROTA_QUEUE_ADDED, &added);
}

static void handle_add_batch(struct rota_work_broker *broker, struct rota_server_call *call,
                             const void *request)
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
            add(broker, now, &jobs[i], is_carried, &id, &added.is_new, &number, &error);
        if (code) {
            added = (struct rota_queue_added){.status = status_of(code),
                                              .error = rota_str(error.text),
                                              .may_go_elsewhere = may_go_elsewhere(code)};
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
    if (broker->buffer.failed)
        refuse_memory(call);
    else
        rota_work_broker_answer(broker, call, last, rota_buffer_str(&broker->buffer));
}

/* Which job is meant. */
static enum rota_code read_id(const struct rota_queue_about *about, struct rota_job_id *id,
                              struct rota_error *error)
{
    enum rota_code code = rota_job_queue_check(about->queue, error);
    if (!code)
        code = rota_queue_id_read(about->id, id, error);
    if (!code && rota_job_id_is_none(*id))
        code = rota_error_set(error, ROTA_ERR_INVALID, "which job? The request has no id");
    return code;
}

/* ... and false when the call is refused. */
static bool read_job(struct rota_server_call *call, const struct rota_queue_about *about,
                     struct rota_job_id *id)
{
    struct rota_error error;
    enum rota_code code = read_id(about, id, &error);
    if (code)
        rota_work_broker_refuse(call, &error, false);
    return !code;
}

/* A job that is named and may not be changed so any more is no mistake in the request. */
static void refuse_change(struct rota_server_call *call, const struct rota_error *error)
{
    if (error->code == ROTA_ERR_INVALID)
        rota_server_call_finish(call, ROTA_STATUS_FAILED_PRECONDITION, error->text, NULL, 0);
    else
        rota_work_broker_refuse(call, error, true);
}

static void change(struct rota_work_broker *broker, struct rota_server_call *call,
                   const struct rota_queue_about *about,
                   enum rota_code (*make)(struct rota_broker *core, struct rota_work_now now,
                                          struct rota_str queue, struct rota_job_id id,
                                          uint64_t *number, struct rota_error *error))
{
    struct rota_job_id id;
    struct rota_error error;
    uint64_t number;
    if (!read_job(call, about, &id))
        return;
    enum rota_code code =
        make(broker->core, rota_work_broker_now(), about->queue, id, &number, &error);
    rota_work_broker_touch(broker);
    if (code)
        refuse_change(call, &error);
    else
        answer(broker, call, number, NULL, NULL);
}

static void handle_cancel(struct rota_work_broker *broker, struct rota_server_call *call,
                          const void *request)
{
    change(broker, call, request, rota_broker_cancel);
}

static void handle_retry(struct rota_work_broker *broker, struct rota_server_call *call,
                         const void *request)
{
    change(broker, call, request, rota_broker_revive);
}

static void handle_priority(struct rota_work_broker *broker, struct rota_server_call *call,
                            const void *request)
{
    const struct rota_queue_about *about = request;
    struct rota_job_id id;
    struct rota_error error;
    uint64_t number;
    if (!read_job(call, about, &id))
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
        answer(broker, call, number, NULL, NULL);
}

static void handle_describe(struct rota_work_broker *broker, struct rota_server_call *call,
                            const void *request)
{
    const struct rota_queue_about *about = request;
    struct rota_job_id id;
    struct rota_job_view view;
    struct rota_error error;
    char text[ROTA_ERROR_TEXT_MAX];
    if (!read_job(call, about, &id))
        return;
    if (rota_broker_find(broker->core, about->queue, id, &view, &error)) {
        rota_work_broker_refuse(call, &error, false);
        return;
    }
    struct rota_queue_description reply = {
        .job = rota_work_broker_info(
            broker, &view, about->with_payload ? ROTA_BROKER_SHOW_PAYLOAD : ROTA_BROKER_SHOW_ALL)};
    if (!reply.job) {
        refuse_memory(call);
        return;
    }
    rota_broker_explain(broker->core, rota_work_broker_now(), about->queue, id, text, sizeof text);
    if (view.state == ROTA_JOB_WAITING &&
        rota_broker_waits_for_worker(broker->core, about->queue, id))
        rota_work_broker_forward_explain(broker, about->queue, text, sizeof text);
    reply.explain = rota_str(text);
    /* That it has ended is true once that is on disk. */
    uint64_t number = view.state >= ROTA_JOB_DONE ? rota_broker_last_number(broker->core) : 0;
    broker->call_first = broker->durable + 1;
    answer(broker, call, number, &ROTA_QUEUE_DESCRIPTION, &reply);
}

static void handle_watch(struct rota_work_broker *broker, struct rota_server_call *call,
                         const void *request)
{
    rota_work_broker_watch(broker, call, request);
}

/* --- workers --- */

static void handle_poll(struct rota_work_broker *broker, struct rota_server_call *call,
                        const void *request)
{
    rota_work_broker_poll(broker, call, request);
}

static enum rota_code end_one(struct rota_work_broker *broker, struct rota_work_now now,
                              const struct rota_queue_about *about, enum rota_job_cause cause,
                              uint64_t *number, struct rota_error *error)
{
    bool is_done = cause == ROTA_JOB_CAUSE_DONE;
    struct rota_attempt_end end = {
        .queue = about->queue,
        .attempt = about->attempt,
        .cause = cause,
        .bytes = is_done ? about->bytes : rota_str_of(NULL, 0),
        .reason = is_done ? about->log : about->bytes,
        .retry_after = rota_queue_from_ms(about->retry_after_ms),
    };
    enum rota_code code = read_id(about, &end.id, error);
    return code ? code : rota_broker_end(broker->core, now, &end, number, error);
}

static void end_attempt(struct rota_work_broker *broker, struct rota_server_call *call,
                        const struct rota_queue_about *about, enum rota_job_cause cause)
{
    struct rota_error error;
    uint64_t number;
    enum rota_code code = end_one(broker, rota_work_broker_now(), about, cause, &number, &error);
    rota_work_broker_touch(broker);
    if (code)
        rota_work_broker_refuse(call, &error, false);
    else
        answer(broker, call, number, NULL, NULL);
}

static void handle_complete(struct rota_work_broker *broker, struct rota_server_call *call,
                            const void *request)
{
    end_attempt(broker, call, request, ROTA_JOB_CAUSE_DONE);
}

enum { AHEAD = ROTA_JOB_FORESEEN + 4 };

/* The jobs of a batch up to `n` will be asked for; those before `*at` were told. */
static void foresee(struct rota_work_broker *broker, const struct rota_queue_list *list, size_t *at,
                    size_t n)
{
    const struct rota_queue_about *abouts = list->items.items;
    struct rota_job_id id;
    for (; *at < n && *at < list->items.n; ++*at)
        if (!rota_queue_id_read(abouts[*at].id, &id, NULL))
            rota_broker_foresee(broker->core, id);
}

/* A job that is not here may be at another node, or in a row that is not loaded. */
static void handle_complete_batch(struct rota_work_broker *broker, struct rota_server_call *call,
                                  const void *request)
{
    const struct rota_queue_list *list = request;
    const struct rota_queue_about *abouts = list->items.items;
    struct rota_work_now now = rota_work_broker_now();
    bool has_others = broker->store || !rota_broker_cluster_is_alone(broker->cluster);
    uint64_t last = 0, number = 0;
    size_t foreseen = 0;
    rota_buffer_clear(&broker->buffer);
    for (size_t i = 0; i < list->items.n; i++) {
        struct rota_queue_added ended = {0};
        struct rota_error error;
        foresee(broker, list, &foreseen, i + 1 + AHEAD);
        enum rota_code code =
            end_one(broker, now, &abouts[i], ROTA_JOB_CAUSE_DONE, &number, &error);
        if (code)
            ended = (struct rota_queue_added){.status = status_of(code),
                                              .error = rota_str(error.text),
                                              .may_go_elsewhere =
                                                  has_others && code == ROTA_ERR_NOT_FOUND};
        else
            last = number > last ? number : last;
        rota_message_encode_entry(&ROTA_QUEUE_COMPLETED, 1, &ended, &broker->buffer);
    }
    rota_work_broker_touch(broker);
    if (broker->buffer.failed)
        refuse_memory(call);
    else
        rota_work_broker_answer(broker, call, last, rota_buffer_str(&broker->buffer));
}

static void handle_fail(struct rota_work_broker *broker, struct rota_server_call *call,
                        const void *request)
{
    const struct rota_queue_about *about = request;
    if (about->is_final && about->is_given_back)
        rota_server_call_finish(call, ROTA_STATUS_INVALID_ARGUMENT,
                                "an attempt is either final or given back, not both", NULL, 0);
    else if (about->is_given_back)
        end_attempt(broker, call, about, ROTA_JOB_CAUSE_GIVEN_BACK);
    else
        end_attempt(broker, call, about,
                    about->is_final ? ROTA_JOB_CAUSE_REFUSED : ROTA_JOB_CAUSE_FAILED);
}

static void handle_extend(struct rota_work_broker *broker, struct rota_server_call *call,
                          const void *request)
{
    const struct rota_queue_about *about = request;
    struct rota_job_id id;
    struct rota_error error;
    if (!read_job(call, about, &id))
        return;
    enum rota_code code =
        rota_broker_extend(broker->core, rota_work_broker_now(), about->queue, id, about->attempt,
                           rota_queue_from_ms(about->lease_ms), about->bytes, &error);
    rota_work_broker_touch(broker);
    if (code)
        rota_work_broker_refuse(call, &error, false);
    else
        answer(broker, call, 0, NULL, NULL);
}

/* --- operators --- */

static void handle_list(struct rota_work_broker *broker, struct rota_server_call *call,
                        const void *request)
{
    const struct rota_queue_list_request *list = request;
    size_t max = list->max_jobs ? (size_t)list->max_jobs : 100, place = (size_t)list->after, n = 0;
    struct rota_job_view view;
    struct rota_error error;
    if (rota_job_queue_check(list->queue, &error)) {
        rota_work_broker_refuse(call, &error, false);
        return;
    }
    rota_buffer_clear(&broker->buffer);
    for (; n < max && rota_broker_next_job(broker->core, list->queue,
                                           (enum rota_job_state)list->state, &place, &view);
         n++) {
        const struct rota_queue_job_info *info =
            rota_work_broker_info(broker, &view, ROTA_BROKER_SHOW_LIST);
        if (!info) {
            refuse_memory(call);
            return;
        }
        rota_message_encode_entry(&ROTA_QUEUE_JOB_INFO, 1, info, &broker->buffer);
    }
    struct rota_queue_list_reply rest = {.next = n == max ? place : 0};
    rota_message_encode(&ROTA_QUEUE_LIST_REPLY, &rest, &broker->buffer);
    if (broker->buffer.failed)
        refuse_memory(call);
    else
        rota_work_broker_answer(broker, call, 0, rota_buffer_str(&broker->buffer));
}

static void finish_setting(struct rota_work_broker *broker, struct rota_server_call *call,
                           enum rota_code code, uint64_t number, const struct rota_error *error)
{
    rota_work_broker_touch(broker);
    if (code)
        rota_work_broker_refuse(call, error, false);
    else
        answer(broker, call, number, NULL, NULL);
}

static void handle_pause(struct rota_work_broker *broker, struct rota_server_call *call,
                         const void *request)
{
    const struct rota_queue_setting *setting = request;
    struct rota_error error;
    uint64_t number = 0;
    enum rota_code code = rota_broker_pause(broker->core, rota_work_broker_now(), setting->queue,
                                            setting->is_paused, &number, &error);
    finish_setting(broker, call, code, number, &error);
}

static void handle_weight(struct rota_work_broker *broker, struct rota_server_call *call,
                          const void *request)
{
    const struct rota_queue_setting *setting = request;
    struct rota_error error;
    uint64_t number = 0;
    enum rota_code code =
        rota_broker_set_weight(broker->core, rota_work_broker_now(), setting->queue, setting->key,
                               (uint32_t)setting->weight, &number, &error);
    finish_setting(broker, call, code, number, &error);
}

static void handle_queues(struct rota_work_broker *broker, struct rota_server_call *call,
                          const void *request)
{
    const struct rota_queue_setting *asked = request;
    struct rota_queue_view view;
    rota_buffer_clear(&broker->buffer);
    for (size_t place = 0; rota_broker_next_queue(broker->core, &place, &view);) {
        struct rota_queue_info info = {
            .name = view.name,
            .is_paused = view.is_paused,
            .n_partitions = view.n_partitions,
            .n_waiting = view.counts[ROTA_JOB_WAITING],
            .n_delayed = view.counts[ROTA_JOB_DELAYED],
            .n_running = view.counts[ROTA_JOB_RUNNING],
            .n_done = view.counts[ROTA_JOB_DONE],
            .n_dead = view.counts[ROTA_JOB_DEAD],
            .n_cancelled = view.counts[ROTA_JOB_CANCELLED],
            .oldest_ms = rota_queue_to_ms(view.oldest_at),
            .added_total = view.n_added,
            .done_total = view.n_done,
            .dead_total = view.n_dead,
            .retries_total = view.n_retries,
            .n_workers = view.n_workers,
            .n_slots = view.n_slots,
            .n_free = view.n_free,
        };
        rota_work_broker_forward_info(broker, &info);
        rota_work_broker_layout_info(broker, &info);
        if (asked->queue.size == 0 || rota_str_is_equal(asked->queue, view.name))
            rota_message_encode_entry(&ROTA_QUEUE_INFO, 1, &info, &broker->buffer);
    }
    if (broker->buffer.failed)
        refuse_memory(call);
    else
        rota_work_broker_answer(broker, call, 0, rota_buffer_str(&broker->buffer));
}

static void handle_workers(struct rota_work_broker *broker, struct rota_server_call *call,
                           const void *request)
{
    struct rota_worker_view view;
    rota_time now = rota_work_broker_now().boot;
    (void)request;
    rota_buffer_clear(&broker->buffer);
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
        rota_message_encode_entry(&ROTA_QUEUE_WORKER_INFO, 1, &info, &broker->buffer);
    }
    if (broker->buffer.failed)
        refuse_memory(call);
    else
        rota_work_broker_answer(broker, call, 0, rota_buffer_str(&broker->buffer));
}

/* --- nodes --- */

static void handle_tell(struct rota_work_broker *broker, struct rota_server_call *call,
                        const void *request)
{
    rota_work_broker_forward_tell(broker, call, request);
}

static void handle_visit(struct rota_work_broker *broker, struct rota_server_call *call,
                         const void *request)
{
    rota_work_broker_forward_visit(broker, call, request);
}

static void handle_adopt(struct rota_work_broker *broker, struct rota_server_call *call,
                         const void *request)
{
    if (broker->store) /* it would be in no row */
        rota_server_call_finish(call, ROTA_STATUS_FAILED_PRECONDITION,
                                "this node keeps its jobs in a store and takes none over", NULL, 0);
    else
        rota_work_broker_adopt(broker, call, request);
}

static void handle_find(struct rota_work_broker *broker, struct rota_server_call *call,
                        const void *request)
{
    rota_work_broker_find_jobs(broker, call, request);
}

static void handle_nodes(struct rota_work_broker *broker, struct rota_server_call *call,
                         const void *request)
{
    rota_work_broker_nodes(broker, call, ((const struct rota_queue_setting *)request)->queue);
}

static void handle_forget(struct rota_work_broker *broker, struct rota_server_call *call,
                          const void *request)
{
    rota_work_broker_forget_node(broker, call, request);
}

static void handle_settings(struct rota_work_broker *broker, struct rota_server_call *call,
                            const void *request)
{
    (void)request;
    rota_work_broker_settings_tell(broker, call);
}

static void handle_set_layout(struct rota_work_broker *broker, struct rota_server_call *call,
                              const void *request)
{
    rota_work_broker_set_layout(broker, call, request);
}

static void handle_lay_out(struct rota_work_broker *broker, struct rota_server_call *call,
                           const void *request)
{
    rota_work_broker_lay_out(broker, call, request);
}

/* --- all of them --- */

#define WAITING(name, by_whom, of_type, handler, needs, on_cancel, on_room)                        \
    {                                                                                              \
        .path = "/rota.v1.Queue/" name, .by = ROTA_BROKER_BY_##by_whom, .type = (of_type),         \
        .handle = (handler), .need = ROTA_BROKER_NEEDS_##needs, .cancel = (on_cancel),             \
        .room = (on_room)                                                                          \
    }
#define METHOD(name, by_whom, of_type, handler, needs)                                             \
    WAITING(name, by_whom, of_type, handler, needs, NULL, NULL)

const struct rota_broker_method rota_work_broker_methods[] = {
    METHOD("Add", OWNER_OF_NEW, &ROTA_QUEUE_ADD, handle_add, ADD),
    METHOD("AddBatch", OWNERS_OF_NEW, &ROTA_QUEUE_ADD_BATCH, handle_add_batch, ADDS),
    METHOD("Adopt", THIS, &ROTA_QUEUE_ADOPT, handle_adopt, NOTHING),
    METHOD("Cancel", OWNER, &ROTA_QUEUE_NAME, handle_cancel, JOB),
    METHOD("Complete", OWNER, &ROTA_QUEUE_COMPLETE, handle_complete, JOB),
    METHOD("CompleteBatch", THIS, &ROTA_QUEUE_COMPLETE_BATCH, handle_complete_batch, NOTHING),
    METHOD("Describe", OWNER, &ROTA_QUEUE_DESCRIBE, handle_describe, JOB),
    METHOD("Extend", OWNER, &ROTA_QUEUE_EXTEND, handle_extend, JOB),
    METHOD("Fail", OWNER, &ROTA_QUEUE_FAIL, handle_fail, JOB),
    METHOD("Find", THIS, &ROTA_QUEUE_FIND, handle_find, NOTHING),
    METHOD("Forget", ALL_FORGETTING, &ROTA_QUEUE_FORGET, handle_forget, NOTHING),
    METHOD("LayOut", THIS, &ROTA_QUEUE_LAY_OUT, handle_lay_out, NOTHING),
    METHOD("List", ALL_IN_TURN, &ROTA_QUEUE_LIST, handle_list, ALL),
    METHOD("Nodes", THIS, &ROTA_QUEUE_PAUSE, handle_nodes, NOTHING),
    METHOD("Pause", ALL_ALIKE, &ROTA_QUEUE_PAUSE, handle_pause, NOTHING),
    WAITING("Poll", THIS, &ROTA_QUEUE_POLL, handle_poll, NOTHING, rota_work_broker_poll_cancel,
            NULL),
    METHOD("Queues", ALL_QUEUES, &ROTA_QUEUE_PAUSE, handle_queues, ALL),
    METHOD("Retry", OWNER, &ROTA_QUEUE_NAME, handle_retry, JOB),
    METHOD("SetLayout", THIS, &ROTA_QUEUE_SET_LAYOUT, handle_set_layout, NOTHING),
    METHOD("SetPriority", OWNER, &ROTA_QUEUE_PRIORITY, handle_priority, JOB),
    METHOD("SetWeight", ALL_ALIKE, &ROTA_QUEUE_WEIGHT, handle_weight, NOTHING),
    METHOD("Settings", THIS, NULL, handle_settings, NOTHING),
    METHOD("Tell", THIS, &ROTA_QUEUE_TELL, handle_tell, NOTHING),
    METHOD("Visit", THIS, &ROTA_QUEUE_VISIT, handle_visit, NOTHING),
    WAITING("Watch", OWNER_OR_ALL, &ROTA_QUEUE_NAME, handle_watch, JOB,
            rota_work_broker_watch_cancel, rota_work_broker_watch_room),
    METHOD("Workers", ALL_WORKERS, NULL, handle_workers, NOTHING),
};
_Static_assert(sizeof rota_work_broker_methods / sizeof *rota_work_broker_methods ==
                   ROTA_BROKER_METHODS,
               "one service for each");
