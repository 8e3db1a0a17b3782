/* What nodes tell each other about rows: that one was changed, and that it is in force. */
#include "run/work/broker/work_broker_reply.h"
#include "run/work/cluster/work_broker_ask.h"
#include "run/work/cluster/work_broker_layout.h"
#include "run/work/cluster/work_broker_rows_inside.h"

#include <stdlib.h>
#include <string.h>

static const char CHANGED[] = "/rota.peer.v1.QueuePeer/Changed";

/* A node that is being notified of a change. */
struct tell {
    struct rota_broker_ask ask;
    struct rota_broker_pending_change *pending;
};

/* A node that waits for us to read. */
struct waiting {
    struct rota_list_node link;
    struct rota_server_call *call;
    rota_time until;
    uint64_t version;
    size_t queue_size;
    char queue[ROTA_JOB_QUEUE_NAME_MAX];
};

/* --- telling --- */

static void on_told(struct rota_broker_ask *ask, const struct rota_call_result *result)
{
    static const struct rota_error none;
    struct rota_broker_pending_change *pending = ROTA_LIST_ITEM(ask, struct tell, ask)->pending;
    (void)result;
    if (--pending->n_told > 0)
        return;
    rota_list_remove(&pending->link);
    rota_work_broker_rows_finish(pending, 0, &none);
}

/* Nodes that are not reached read it on their own. */
static void tell_peer(struct rota_broker_rows *rows, struct rota_broker_pending_change *pending,
                      struct rota_str peer, struct rota_str request)
{
    const struct rota_call_options options = {
        .method = rota_str(CHANGED), .request = request, .timeout = 2 * ROTA_BROKER_ROWS_SOON};
    struct tell *tell = malloc(sizeof *tell);
    if (!tell)
        return;
    *tell = (struct tell){.ask.on_end = on_told, .pending = pending};
    pending->n_told++;
    if (rota_work_broker_ask(rows->broker->cluster, &rows->asks, &tell->ask, peer, &options, NULL))
        pending->n_told--;
}

void rota_work_broker_rows_hint_peers(struct rota_broker_rows *rows,
                                      struct rota_broker_pending_change *pending)
{
    static const struct rota_error none;
    const struct rota_broker_cluster *cluster = rows->broker->cluster;
    struct rota_queue_changed message = {.version = pending->version};
    struct rota_buffer request = {0};
    rota_message_encode(&ROTA_QUEUE_CHANGED, &message, &request);
    rota_list_push(&rows->told, &pending->link);
    for (size_t i = 0; !request.failed && i < rota_work_broker_cluster_n_peers(cluster); i++)
        tell_peer(rows, pending, rota_work_broker_cluster_peer(cluster, i),
                  rota_buffer_str(&request));
    rota_buffer_deinit(&request);
    if (pending->n_told > 0)
        return;
    rota_list_remove(&pending->link);
    rota_work_broker_rows_finish(pending, 0, &none);
}

/* --- nodes that wait for us to read --- */

static void answer_changed(struct rota_broker_rows *rows, struct rota_server_call *call,
                           struct rota_str queue)
{
    struct rota_work_broker *broker = rows->broker;
    struct rota_queue_changed_reply reply = {.version = rows->fsm.known};
    struct rota_buffer records = {0};
    if (queue.size > 0)
        rota_work_broker_layout_report(broker, queue, &reply, &records);
    if (records.failed)
        rota_work_broker_reply_no_memory(call);
    else
        rota_work_broker_reply_message(broker, call, rota_broker_last_number(broker->core),
                                       &ROTA_QUEUE_CHANGED_REPLY, &reply);
    rota_buffer_deinit(&records);
}

void rota_work_broker_rows_hint_changed(struct rota_broker_request *request)
{
    struct rota_broker_rows *rows = request->broker->rows;
    const struct rota_queue_changed *message = &request->as.changed;
    struct rota_error error;
    struct waiting *waiting = NULL;
    if (message->queue.size > 0 && rota_job_queue_check(message->queue, &error)) {
        rota_work_broker_reply_error(request->call, &error, false);
        return;
    }
    if (!rows) {
        rota_server_call_finish(request->call, ROTA_STATUS_FAILED_PRECONDITION,
                                "this node has no store for settings of queues", NULL, 0);
        return;
    }
    rota_work_broker_rows_hint(rows, message->version);
    if (message->version > rows->fsm.known)
        waiting = malloc(sizeof *waiting);
    if (!waiting) {
        answer_changed(rows, request->call, message->queue);
        return;
    }
    *waiting = (struct waiting){.call = request->call,
                                .until = rota_work_broker_now().boot + ROTA_BROKER_ROWS_SOON,
                                .version = message->version,
                                .queue_size = message->queue.size};
    if (message->queue.size > 0)
        memcpy(waiting->queue, message->queue.data, message->queue.size);
    rota_list_push(&rows->waiting, &waiting->link);
    rota_work_broker_touch(request->broker);
}

void rota_work_broker_rows_hint_turn(struct rota_broker_rows *rows, rota_time now)
{
    ROTA_LIST_EACH (waiting, &rows->waiting, struct waiting, link) {
        if (waiting->version > rows->fsm.known && now < waiting->until)
            continue;
        rota_list_remove(&waiting->link);
        answer_changed(rows, waiting->call, rota_str_of(waiting->queue, waiting->queue_size));
        free(waiting);
    }
}

rota_time rota_work_broker_rows_hint_deadline(const struct rota_broker_rows *rows)
{
    rota_time at = ROTA_TIME_NEVER;
    ROTA_LIST_EACH (waiting, &rows->waiting, const struct waiting, link)
        at = rota_time_min(at, waiting->until);
    return at;
}

void rota_work_broker_rows_hint_close(struct rota_broker_rows *rows, const struct rota_error *error)
{
    rota_work_broker_ask_drop_all(&rows->asks);
    ROTA_LIST_DRAIN (pending, &rows->told, struct rota_broker_pending_change, link) {
        rota_list_remove(&pending->link);
        rota_work_broker_rows_finish(pending, 0, error);
    }
    ROTA_LIST_DRAIN (waiting, &rows->waiting, struct waiting, link) {
        rota_list_remove(&waiting->link);
        rota_work_broker_reply_error(waiting->call, error, false);
        free(waiting);
    }
}
