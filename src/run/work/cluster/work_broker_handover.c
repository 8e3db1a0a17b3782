/* The driver of handover_fsm: chunks of jobs to other nodes, and from them. */
#include "run/work/cluster/work_broker_handover.h"
#include "run/work/broker/work_broker_inside.h"
#include "run/work/broker/work_broker_reply.h"
#include "run/work/cluster/work_broker_ask.h"
#include "run/work/cluster/work_broker_settings.h"

#include "base/quote.h"
#include "core/work/cluster/handover_fsm.h"

#include <stdlib.h>

static const char ADOPT[] = "/rota.peer.v1.QueuePeer/Adopt";

/* A chunk, or the message that it is over, in flight. */
struct sending {
    struct rota_broker_ask ask;
    struct rota_broker_handover *handover;
    struct rota_job_id name;
};

struct rota_broker_handover {
    struct rota_work_broker *broker;
    struct rota_handover_fsm fsm;
    struct rota_broker_cluster_subscriber subscriber;
    struct rota_list_node sendings;
    uint64_t durable; /* that the machine knows of */
};

static void drive(struct rota_broker_handover *handover, struct rota_handover_event event);

/* --- sending --- */

static void log_unanswered(const struct rota_broker_handover *handover, struct rota_str to,
                           const char *why)
{
    rota_log(handover->broker->options.log, rota_work_broker_now().wall, ROTA_LOG_WARN,
             "jobs not handed over yet", ROTA_LOG_FACT("to", to), ROTA_LOG_FACT("why", why));
}

/* The receiver holds jobs, whatever it reported before. */
static void note_receiver(struct rota_work_broker *broker, struct rota_str message)
{
    struct rota_queue_holders reply;
    rota_arena_clear(&broker->front.arena);
    if (!rota_message_decode(&ROTA_QUEUE_ADOPT_REPLY, message, &reply, &broker->front.arena,
                             NULL) &&
        reply.self)
        rota_work_broker_settings_take_node(broker, reply.self, NULL);
}

static void on_send_end(struct rota_broker_ask *ask, const struct rota_call_result *result)
{
    const struct sending *sending = ROTA_LIST_ITEM(ask, struct sending, ask);
    struct rota_broker_handover *handover = sending->handover;
    struct rota_handover_event event = {.name = sending->name, .type = ROTA_HANDOVER_UNKNOWN};
    if (result->status == ROTA_STATUS_OK) {
        note_receiver(handover->broker, result->message);
        event.type = ROTA_HANDOVER_TAKEN;
    } else if (!result->may_have_run)
        event.type = ROTA_HANDOVER_UNSEEN;
    if (result->status != ROTA_STATUS_OK)
        log_unanswered(handover, result->text, rota_status_name(result->status));
    drive(handover, event);
}

/* Append the request; false when there is no memory. */
static bool write_request(struct rota_work_broker *broker, const struct rota_handover_send *send,
                          struct rota_buffer *buffer)
{
    struct rota_buffer jobs = {0};
    struct rota_journal_batch batch = {0};
    struct rota_work_record record;
    char name[ROTA_QUEUE_ID_SIZE];
    struct rota_queue_adopt request = {.name = rota_queue_message_id_write(send->name, name),
                                       .is_over = send->is_over};
    struct rota_chunk_view chunk;
    for (size_t place = 0;
         !send->is_over && rota_broker_chunk_next(broker->core, send->name, &place, &record);)
        rota_queue_message_write_jobs(&batch, &record, &jobs);
    for (size_t place = 0; rota_broker_next_chunk(broker->core, &place, &chunk);)
        if (chunk.name.high == send->name.high && chunk.name.low == send->name.low) {
            request.queue = chunk.queue;
            request.partition = chunk.partition;
        }
    request.jobs = rota_buffer_str(&jobs);
    rota_message_encode(&ROTA_QUEUE_ADOPT, &request, buffer);
    bool is_fine = !jobs.failed && !buffer->failed;
    rota_buffer_deinit(&jobs);
    return is_fine;
}

/* False when it did not even begin. */
static bool begin_send(struct rota_broker_handover *handover, const struct rota_handover_send *send)
{
    struct rota_work_broker *broker = handover->broker;
    struct rota_error error;
    rota_buffer_clear(&broker->front.buffer);
    if (!write_request(broker, send, &broker->front.buffer))
        return false;
    const struct rota_call_options options = {.method = rota_str(ADOPT),
                                              .request = rota_buffer_str(&broker->front.buffer)};
    struct sending *sending = malloc(sizeof *sending);
    if (!sending)
        return false;
    *sending =
        (struct sending){.ask.on_end = on_send_end, .handover = handover, .name = send->name};
    if (rota_work_broker_ask(broker->cluster, &handover->sendings, &sending->ask, send->to,
                             &options, &error)) {
        log_unanswered(handover, send->to, error.text);
        return false;
    }
    return true;
}

/* The one caller of the machine. A failure to send is an answer, too. */
static void drive(struct rota_broker_handover *handover, struct rota_handover_event event)
{
    struct rota_work_now now = rota_work_broker_now();
    ROTA_VECTOR(struct rota_job_id) failed = {0};
    for (bool is_last = false; !is_last;) {
        size_t n;
        const struct rota_handover_send *sends =
            rota_handover_fsm_step(&handover->fsm, now, &event, &n);
        for (size_t i = 0; i < n; i++)
            if (!begin_send(handover, &sends[i]) && !rota_vector_push(&failed, sends[i].name))
                break; /* it counts as sent until the broker restarts */
        is_last = failed.size == 0;
        if (!is_last)
            event = (struct rota_handover_event){.type = ROTA_HANDOVER_UNSEEN,
                                                 .name = failed.items[--failed.size]};
    }
    rota_vector_deinit(&failed);
    rota_work_broker_touch(handover->broker);
}

bool rota_work_broker_handover_turn(struct rota_broker_handover *handover, struct rota_work_now now)
{
    if (!handover)
        return false;
    struct rota_work_broker *broker = handover->broker;
    bool is_due = rota_handover_fsm_deadline(&handover->fsm) <= now.boot;
    bool has_news =
        rota_handover_fsm_is_busy(&handover->fsm) && handover->durable < broker->log.durable;
    if (!is_due && !has_news)
        return false;
    uint64_t before = rota_broker_last_number(broker->core);
    handover->durable = broker->log.durable;
    drive(handover, (struct rota_handover_event){.type = ROTA_HANDOVER_DURABLE,
                                                 .number = broker->log.durable});
    return rota_broker_last_number(broker->core) != before;
}

rota_time rota_work_broker_handover_deadline(const struct rota_broker_handover *handover)
{
    return handover ? rota_handover_fsm_deadline(&handover->fsm) : ROTA_TIME_NEVER;
}

/* --- the route --- */

static enum rota_handover_whose find_owner(void *data, struct rota_str queue, uint32_t partition,
                                           struct rota_str *owner)
{
    struct rota_broker_cluster *cluster = ((struct rota_broker_handover *)data)->broker->cluster;
    if (rota_work_broker_cluster_is_ours(cluster, queue, partition))
        return ROTA_HANDOVER_OURS;
    *owner = rota_work_broker_cluster_owner(cluster, queue, partition);
    return owner->size > 0 ? ROTA_HANDOVER_ANOTHERS : ROTA_HANDOVER_NOBODYS;
}

static void on_route(void *data)
{
    drive(data, (struct rota_handover_event){.type = ROTA_HANDOVER_LOOK});
}

enum rota_code rota_work_broker_handover_open(struct rota_work_broker *broker,
                                              struct rota_error *error)
{
    struct rota_broker_handover *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "to hand jobs over");
    struct rota_handover_options options = {
        .broker = broker->core, .whose = find_owner, .data = made};
    made->broker = broker;
    made->subscriber = (struct rota_broker_cluster_subscriber){.on_route = on_route, .data = made};
    rota_list_init(&made->sendings);
    rota_handover_fsm_init(&made->fsm, &options);
    rota_work_broker_cluster_subscribe(broker->cluster, &made->subscriber);
    broker->handover = made;
    on_route(made);
    return ROTA_OK;
}

void rota_work_broker_handover_close(struct rota_broker_handover *handover)
{
    if (!handover)
        return;
    rota_work_broker_ask_drop_all(&handover->sendings);
    rota_work_broker_cluster_unsubscribe(&handover->subscriber);
    rota_handover_fsm_deinit(&handover->fsm);
    free(handover);
}

/* --- receiving --- */

/* Every job is checked before the first is adopted: a chunk is adopted as a whole. */
static enum rota_code check_jobs(const struct rota_queue_adopt *request, size_t *n_jobs,
                                 struct rota_error *error)
{
    struct rota_journal_batch batch = {0};
    struct rota_journal_room room;
    struct rota_work_record record;
    size_t place = 0, n = 0;
    for (; rota_queue_message_read_jobs(&batch, request->jobs, &place, &record, &room); n++)
        if (record.type != ROTA_WORK_JOB || record.spec->partition != request->partition ||
            !rota_str_is_equal(record.spec->queue, request->queue) ||
            rota_job_spec_check(record.spec, NULL))
            return rota_error_set(
                error, ROTA_ERR_INVALID,
                "a record is not a valid job of the partition that the request names");
    if (place < request->jobs.size || n > ROTA_BROKER_CHUNK_JOBS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "malformed jobs, or too many of them");
    *n_jobs = n;
    return ROTA_OK;
}

static enum rota_code adopt_all(struct rota_work_broker *broker, struct rota_work_now now,
                                const struct rota_queue_adopt *request, struct rota_job_id name,
                                uint64_t *number, struct rota_error *error)
{
    struct rota_journal_batch batch = {0};
    struct rota_journal_room room;
    struct rota_work_record record;
    size_t n_jobs;
    enum rota_code code = check_jobs(request, &n_jobs, error);
    if (!code && !rota_broker_has_room(broker->core, n_jobs))
        code = rota_error_set(error, ROTA_ERR_LIMIT, "there is no room for %zu jobs", n_jobs);
    if (!code)
        code = rota_broker_adopting(broker->core, now, name, error);
    if (code)
        return code;
    for (size_t place = 0;
         !code && rota_queue_message_read_jobs(&batch, request->jobs, &place, &record, &room);)
        code = rota_broker_adopt(broker->core, now, &record, number, error);
    if (!code)
        code = rota_broker_adopted(broker->core, now, name, number, error);
    if (code)
        rota_broker_adopt_none(broker->core, now);
    return code;
}

void rota_work_broker_handover_adopt(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_server_call *call = request->call;
    const struct rota_queue_adopt *message = &request->as.adopt;
    struct rota_work_now now = rota_work_broker_now();
    struct rota_job_id name;
    struct rota_error error;
    uint64_t number = 0;
    if (broker->store) { /* they would be in no row */
        rota_server_call_finish(call, ROTA_STATUS_FAILED_PRECONDITION,
                                "this node keeps its jobs in the store and accepts no handover",
                                NULL, 0);
        return;
    }
    enum rota_code code = rota_queue_message_id_read(message->name, &name, &error);
    if (!code && rota_job_id_is_none(name))
        code = rota_error_set(&error, ROTA_ERR_INVALID, "the chunk of jobs has no name");
    if (!code && message->is_over)
        code = rota_broker_adopted_over(broker->core, now, name, &number, &error);
    /* Even while it drains: its sender can't give the chunk to another node, and it is passed
     * on. */
    else if (!code && !rota_broker_has_adopted(broker->core, name, &number))
        code = adopt_all(broker, now, message, name, &number, &error);
    struct rota_queue_node self;
    struct rota_queue_holders reply = {.self = NULL};
    if (!code && !message->is_over) {
        reply.self = rota_work_broker_settings_speak(broker, true, &self);
        rota_work_broker_settings_take_back(broker->settings);
    }
    if (code)
        rota_work_broker_reply_error(call, &error, false);
    else
        rota_work_broker_reply_message(broker, call, number, &ROTA_QUEUE_ADOPT_REPLY, &reply);
    rota_work_broker_touch(broker);
    if (!code && !message->is_over && broker->handover)
        drive(broker->handover,
              (struct rota_handover_event){.type = ROTA_HANDOVER_CAME,
                                           .queue = message->queue,
                                           .partition = (uint32_t)message->partition});
}

/* --- a node that is lost --- */

static enum rota_code check_forget(const struct rota_work_broker *broker,
                                   const struct rota_queue_forget *request,
                                   struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    if (request->node.size == 0 || request->node.size > ROTA_ADDRESS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "%s is not the address of a node",
                              rota_quote(request->node, quoted));
    if (rota_work_broker_cluster_is_listed(broker->cluster, request->node) ||
        rota_str_is_equal(rota_work_broker_cluster_self(broker->cluster), request->node))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "node %s is still listed: first remove it with `rota node "
                              "remove`, or from the hosts file",
                              rota_quote(request->node, quoted));
    if (!broker->handover)
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "this node hands over no jobs: it is the only one, or keeps its jobs in the store");
    if (!rota_broker_node_is_known(broker->core, request->node))
        return rota_error_set(
            error, ROTA_ERR_NOT_FOUND,
            "no node of this cluster was ever at %s; `rota queue nodes` shows the "
            "nodes that are missing, with their addresses",
            rota_quote(request->node, quoted));
    return ROTA_OK;
}

static void answer_forgotten(struct rota_work_broker *broker, struct rota_server_call *call,
                             size_t n_chunks, size_t n_jobs)
{
    struct rota_queue_forgotten reply = {.n_chunks = n_chunks, .n_jobs = n_jobs};
    rota_work_broker_reply_message(broker, call, rota_broker_last_number(broker->core),
                                   &ROTA_QUEUE_FORGOTTEN, &reply);
}

void rota_work_broker_handover_forget_node(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_server_call *call = request->call;
    const struct rota_queue_forget *message = &request->as.forget;
    struct rota_error error;
    size_t n_chunks = 0, n_jobs = 0;
    uint64_t number;
    enum rota_code code = check_forget(broker, message, &error);
    if (code) {
        rota_server_call_finish(call,
                                code == ROTA_ERR_NOT_FOUND ? ROTA_STATUS_NOT_FOUND
                                                           : ROTA_STATUS_FAILED_PRECONDITION,
                                error.text, NULL, 0);
        return;
    }
    if (rota_broker_chunks_forget(broker->core, rota_work_broker_now(), message->node,
                                  message->is_dry_run, &n_chunks, &n_jobs, &error) ||
        (!message->is_dry_run && rota_broker_node_forget(broker->core, rota_work_broker_now(),
                                                         message->node, &number, &error))) {
        rota_work_broker_reply_error(call, &error, false);
        return;
    }
    answer_forgotten(broker, call, n_chunks, n_jobs);
    if (message->is_dry_run)
        return;
    rota_log(broker->options.log, rota_work_broker_now().wall, ROTA_LOG_WARN,
             "node forgotten, jobs in handover to it reclaimed",
             ROTA_LOG_FACT("node", message->node), ROTA_LOG_FACT("jobs", n_jobs));
    drive(broker->handover, (struct rota_handover_event){.type = ROTA_HANDOVER_LOOK});
}
