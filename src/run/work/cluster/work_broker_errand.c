#include "run/work/cluster/work_broker_errand.h"

#include "base/decimal.h"
#include "core/call/failure.h"
#include "run/work/broker/work_broker_inside.h"
#include "run/work/broker/work_broker_reply.h"
#include "wire/grpc/call_notes.h"

#include <stdio.h>
#include <stdlib.h>

static struct rota_str key_of(struct rota_server_call *const *call)
{
    return rota_str_of((const char *)call, sizeof *call);
}

struct rota_broker_errand *rota_work_broker_errand_new(
    struct rota_work_broker *broker, struct rota_server_call *call, const char *method,
    size_t n_parts, void (*on_done)(struct rota_broker_errand *errand))
{
    struct rota_broker_errand *errand = calloc(1, sizeof *errand + n_parts * sizeof *errand->parts);
    if (!errand)
        return NULL;
    errand->broker = broker;
    errand->call = call;
    errand->method = method;
    errand->on_done = on_done;
    errand->n_parts = n_parts;
    for (size_t i = 0; i < n_parts; i++)
        errand->parts[i].errand = errand;
    if (!rota_map_put(&broker->front.errands, key_of(&errand->call), errand)) {
        free(errand);
        return NULL;
    }
    return errand;
}

struct rota_server_call *rota_work_broker_errand_end(struct rota_broker_errand *errand)
{
    struct rota_server_call *call = errand->call;
    rota_map_remove(&errand->broker->front.errands, key_of(&errand->call));
    rota_list_remove(&errand->link);
    for (size_t i = 0; i < errand->n_parts; i++) {
        if (errand->parts[i].call)
            rota_call_cancel(errand->parts[i].call);
        rota_buffer_deinit(&errand->parts[i].message);
    }
    rota_buffer_deinit(&errand->reply);
    free(errand->parts_of);
    rota_work_broker_front_drop(errand->request);
    free(errand);
    return call;
}

/* --- answers --- */

void rota_work_broker_errand_reply(struct rota_broker_errand *errand, struct rota_str message)
{
    rota_server_call_reply(errand->call, message);
    rota_work_broker_errand_end(errand);
}

void rota_work_broker_errand_refuse(struct rota_broker_errand *errand, enum rota_status status,
                                    const char *text, bool is_stale, bool is_undone)
{
    char copy[ROTA_BROKER_ERRAND_TEXT_MAX];
    snprintf(copy, sizeof copy, "%s", text); /* it may be of a part */
    rota_work_broker_reply_finish(rota_work_broker_errand_end(errand), status, copy, is_stale,
                                  is_undone);
}

void rota_work_broker_errand_refuse_for(struct rota_broker_errand *errand,
                                        enum rota_front_reason reason, const char *text)
{
    const struct rota_front_refusal *refusal = rota_front_fsm_refusal(reason);
    rota_work_broker_errand_refuse(errand, refusal->status, text ? text : refusal->text,
                                   refusal->is_stale, refusal->is_undone);
}

void rota_work_broker_errand_pass(struct rota_broker_errand *errand,
                                  const struct rota_broker_part *part)
{
    if (part->status == ROTA_STATUS_OK && !errand->is_stream)
        rota_work_broker_errand_reply(errand, rota_buffer_str(&part->message));
    else
        rota_work_broker_errand_refuse(errand, part->status, part->text, part->is_stale,
                                       part->is_undone);
}

/* --- asking --- */

static void part_done(struct rota_broker_part *part)
{
    struct rota_broker_errand *errand = part->errand;
    part->call = NULL;
    if (--errand->n_left == 0 || errand->ends_with_first)
        errand->on_done(errand);
}

/* A node's message is kept; a node that did not answer is named. */
static void note_end(struct rota_broker_part *part, enum rota_status status, struct rota_str text)
{
    bool is_silent = status == ROTA_STATUS_UNAVAILABLE || status == ROTA_STATUS_DEADLINE_EXCEEDED;
    part->status = status;
    snprintf(part->text, sizeof part->text, "%s%s%s%.*s", is_silent ? "node " : "",
             is_silent ? part->address : "", is_silent ? ": " : "", (int)text.size, text.data);
}

static void note_view(struct rota_broker_part *part, const struct rota_call_result *result)
{
    struct rota_str owner = rota_str("");
    part->view = rota_work_broker_cluster_view_of(result->metadata, result->n_metadata);
    rota_metadata_get(result->metadata, result->n_metadata, ROTA_NOTE_OWNER, &owner);
    snprintf(part->owner, sizeof part->owner, "%.*s", ROTA_STR_ARGS(owner));
}

static void on_part_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct rota_broker_part *part = data;
    struct rota_str value;
    char text[20];
    (void)call;
    note_end(part, result->status, result->text);
    part->is_stale =
        rota_metadata_get(result->metadata, result->n_metadata, ROTA_NOTE_FAILURE, &value) &&
        rota_str_is_equal(value, rota_str(rota_failure_name(ROTA_FAILURE_STALE)));
    part->is_undone =
        !result->may_have_run ||
        rota_metadata_get(result->metadata, result->n_metadata, ROTA_NOTE_ELSEWHERE, &value);
    part->has_nodes =
        rota_metadata_get(result->metadata, result->n_metadata, ROTA_NOTE_NODES, &value) &&
        value.size < sizeof text;
    if (part->has_nodes) {
        snprintf(text, sizeof text, "%.*s", ROTA_STR_ARGS(value));
        part->nodes = strtoull(text, NULL, 16);
    }
    if (part->is_stale)
        note_view(part, result);
    if (result->status == ROTA_STATUS_OK && !part->errand->is_stream) {
        rota_buffer_append_str(&part->message, result->message);
        if (part->message.failed)
            note_end(
                part, ROTA_STATUS_RESOURCE_EXHAUSTED,
                rota_str("the request succeeded, but there is not enough memory for the reply"));
    }
    part_done(part);
}

/* A client that is slow holds its node back. */
static void on_message(void *data, struct rota_call *call, struct rota_str message)
{
    struct rota_broker_part *part = data;
    part->has_sent = true;
    if (rota_server_call_send(part->errand->call, message) != ROTA_ERR_LIMIT)
        return;
    rota_buffer_append_str(&part->message, message);
    rota_call_pause(call);
}

static rota_time timeout_of(const struct rota_broker_errand *errand)
{
    rota_time left = rota_server_call_time_left(errand->call);
    rota_time max = errand->timeout_max ? errand->timeout_max : ROTA_BROKER_CLUSTER_TIMEOUT;
    if (errand->is_stream)
        return left;
    return left < max ? (left > 0 ? left : 1) : max;
}

/* It follows a later view than ours: that of the node that named the owner. */
static bool is_redirected(const struct rota_broker_errand *errand)
{
    return errand->front.refresh.route > rota_work_broker_cluster_view(errand->broker->cluster);
}

void rota_work_broker_errand_ask(struct rota_broker_errand *errand, size_t index,
                                 struct rota_str address, struct rota_str request)
{
    struct rota_broker_part *part = &errand->parts[index];
    struct rota_error error;
    char number[24];
    const char *end = rota_decimal_put(number, errand->front.refresh.route);
    const struct rota_metadata note = {rota_str(ROTA_NOTE_VIEW),
                                       rota_str_of(number, (size_t)(end - number))};
    struct rota_call_options options = {
        .method = rota_str(errand->method),
        .request = request,
        .metadata = &note,
        .n_metadata = is_redirected(errand),
        .timeout = timeout_of(errand),
        .on_message = errand->is_stream ? on_message : NULL,
        .on_end = on_part_end,
        .data = part,
    };
    snprintf(part->address, sizeof part->address, "%.*s", (int)address.size, address.data);
    part->has_sent = part->is_stale = part->is_undone = part->has_nodes = false;
    part->view = 0;
    part->owner[0] = '\0';
    rota_buffer_clear(&part->message);
    if (rota_work_broker_cluster_call(errand->broker->cluster, rota_str(part->address), &options,
                                      &part->call, &error)) {
        part->call = NULL;
        part->status = ROTA_STATUS_UNAVAILABLE;
        part->is_undone = true;
        snprintf(part->text, sizeof part->text, "%s", error.text);
    } else {
        errand->n_left++;
    }
}

void rota_work_broker_errand_begin(struct rota_broker_errand *errand)
{
    if (errand->n_left == 0)
        errand->on_done(errand);
}

/* --- the caller --- */

bool rota_work_broker_errand_cancel(struct rota_work_broker *broker, struct rota_server_call *call)
{
    struct rota_broker_errand *errand = rota_map_get(&broker->front.errands, key_of(&call));
    if (errand)
        rota_work_broker_reply_finish(rota_work_broker_errand_end(errand), ROTA_STATUS_CANCELLED,
                                      "the caller disconnected", false, false);
    return errand;
}

bool rota_work_broker_errand_room(struct rota_work_broker *broker, struct rota_server_call *call)
{
    struct rota_broker_errand *errand = rota_map_get(&broker->front.errands, key_of(&call));
    for (size_t i = 0; errand && i < errand->n_parts; i++) {
        struct rota_broker_part *part = &errand->parts[i];
        if (part->message.size == 0 || !part->call)
            continue;
        if (rota_server_call_send(call, rota_buffer_str(&part->message)) == ROTA_ERR_LIMIT)
            break;
        rota_buffer_clear(&part->message);
        rota_call_resume(part->call);
    }
    return errand;
}

void rota_work_broker_errand_end_all(struct rota_work_broker *broker)
{
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(&broker->front.errands, &place)); place = 0)
        rota_work_broker_reply_finish(rota_work_broker_errand_end(entry->value),
                                      ROTA_STATUS_UNAVAILABLE, "this node is stopping", false,
                                      false);
}
