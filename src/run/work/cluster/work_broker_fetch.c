/* Idle workers of this node steal jobs of another. Their slots are kept meanwhile, so that none
 * gets a job here too. */
#include "run/work/broker/work_broker_poll.h"
#include "run/work/broker/work_broker_reply.h"
#include "run/work/broker/work_broker_workers.h"
#include "run/work/cluster/work_broker_forward.h"
#include "run/work/cluster/work_broker_settings.h"

#include <stdio.h>
#include <stdlib.h>

/* --- trips --- */

/* All workers sent to steal are back, or none was sent. */
static void end_trip(struct rota_broker_forward *forward, struct rota_broker_trip *trip)
{
    struct rota_work_broker *broker = forward->broker;
    const struct rota_queue_visited visited = {.n = trip->n, .is_lost = trip->is_lost};
    if (trip->n_left > 0)
        return;
    if (trip->call) {
        rota_buffer_clear(&broker->front.buffer);
        rota_message_encode(&ROTA_QUEUE_VISITED, &visited, &broker->front.buffer);
        rota_work_broker_answer(broker, trip->call, 0, rota_buffer_str(&broker->front.buffer));
    } else {
        rota_tree_fsm_answered(forward->tree, rota_work_broker_now().boot, trip->visit, trip->n,
                               trip->is_lost);
    }
    rota_list_remove(&trip->link);
    free(trip);
}

/* --- slots --- */

static bool keep_worker(struct rota_work_broker *broker, const struct rota_idle_worker *idle,
                        uint32_t n)
{
    if (idle->is_poll)
        return rota_work_broker_poll_keep(broker, idle->session, idle->slots,
                                          ROTA_BROKER_FETCH_TIMEOUT);
    return rota_work_broker_workers_keep(broker->workers, idle->session, n);
}

static void release_worker(struct rota_work_broker *broker, bool is_poll, uint64_t session,
                           uint32_t n)
{
    if (n > 0 && is_poll)
        rota_work_broker_poll_release(broker, session);
    else if (n > 0)
        rota_work_broker_workers_release(broker->workers, session, n);
}

/* --- fetched jobs --- */

/* No worker can take it now: return it to the other node, or let its lease expire. */
static void return_job(const struct rota_broker_sent *from, const struct rota_queue_handed *job)
{
    struct rota_buffer *buffer = &from->forward->broker->front.buffer;
    struct rota_broker_sent sent = {0};
    const struct rota_queue_about about = {
        .queue = job->queue,
        .id = job->id,
        .attempt = job->attempt,
        .bytes = rota_str("the poller disconnected"),
        .is_given_back = true,
        .retry_after_ms = 1,
    };
    rota_broker_sent_name(sent.node, sizeof sent.node, rota_str(from->node));
    rota_buffer_clear(buffer);
    rota_message_encode(&ROTA_QUEUE_FAIL, &about, buffer);
    if (!buffer->failed)
        rota_work_broker_forward_send(from->forward, &sent, "/rota.v1.Queue/Fail",
                                      rota_buffer_str(buffer), ROTA_BROKER_FETCH_TIMEOUT);
    from->forward->n_given_back++;
}

/* A job for a worker that is connected. */
static bool hand_job(const struct rota_broker_sent *sent, const struct rota_queue_handed *job)
{
    struct rota_work_broker *broker = sent->forward->broker;
    struct rota_job_id id;
    if (rota_queue_message_id_read(job->id, &id, NULL) || rota_job_queue_check(job->queue, NULL))
        return false;
    const struct rota_work_effect effect = {
        .type = ROTA_WORK_DO_DISPATCH,
        .session = sent->number,
        .queue = job->queue,
        .id = id,
        .attempt = job->attempt,
        .n_attempts = (uint32_t)job->n_attempts,
        .timeout = rota_queue_from_ms(job->timeout_ms),
        .priority = (int16_t)job->priority,
        .payload = job->payload,
        .key = job->key,
        .trace = job->trace,
    };
    return rota_work_broker_workers_hand_other(broker->workers, rota_str(sent->node), sent->lease,
                                               &effect);
}

/* Returns how many were taken. */
static uint32_t take_jobs(const struct rota_broker_sent *sent, struct rota_str message)
{
    struct rota_work_broker *broker = sent->forward->broker;
    struct rota_queue_list list;
    uint32_t n = 0;
    rota_arena_clear(&broker->front.arena);
    if (rota_message_decode(&ROTA_QUEUE_POLL_REPLY, message, &list, &broker->front.arena, NULL))
        return 0;
    const struct rota_queue_handed *jobs = list.items.items;
    bool is_passed_on = sent->is_poll && list.items.n > 0 &&
                        rota_work_broker_poll_fetched(broker, sent->number, message, list.items.n);
    for (size_t i = 0; i < list.items.n; i++)
        if (is_passed_on || (!sent->is_poll && n < sent->n && hand_job(sent, &jobs[i])))
            n++;
        else
            return_job(sent, &jobs[i]);
    return n;
}

static void on_fetched(struct rota_broker_sent *sent, const struct rota_call_result *result)
{
    struct rota_broker_forward *forward = sent->forward;
    uint32_t n = result->status == ROTA_STATUS_OK ? take_jobs(sent, result->message) : 0;
    rota_work_broker_forward_count(forward, rota_str(sent->queue), n, 0);
    release_worker(forward->broker, sent->is_poll, sent->number, sent->n > n ? sent->n - n : 0);
    sent->trip->n_left--;
    sent->trip->is_lost = sent->trip->is_lost || result->status != ROTA_STATUS_OK;
    end_trip(forward, sent->trip);
}

/* --- going --- */

/* Its name, and where it is. */
static struct rota_str full_name(const struct rota_work_broker *broker,
                                 const struct rota_idle_worker *idle,
                                 char text[ROTA_WORKER_NAME_MAX + 1])
{
    struct rota_str self = rota_work_broker_cluster_self(broker->cluster);
    if (idle->name.size + self.size + 1 > (size_t)ROTA_WORKER_NAME_MAX)
        return idle->name;
    int size = snprintf(text, ROTA_WORKER_NAME_MAX + 1, "%.*s@%.*s", ROTA_STR_ARGS(idle->name),
                        ROTA_STR_ARGS(self));
    return rota_str_of(text, (size_t)size);
}

static size_t split_names(struct rota_str can, struct rota_str names[ROTA_WORKER_CAPABILITIES_MAX])
{
    size_t n = 0, from = 0;
    for (size_t i = 0; i < can.size && n < ROTA_WORKER_CAPABILITIES_MAX; i++)
        if (can.data[i] == ' ') {
            names[n++] = rota_str_of(can.data + from, i - from);
            from = i + 1;
        }
    return n;
}

static bool write_poll(const struct rota_work_broker *broker, const struct rota_idle_worker *idle,
                       struct rota_str queue, uint32_t n, rota_time lease,
                       struct rota_buffer *buffer)
{
    struct rota_str names[ROTA_WORKER_CAPABILITIES_MAX];
    char name[ROTA_WORKER_NAME_MAX + 1];
    const struct rota_queue_poll poll = {
        .queues = {&queue, 1},
        .can = {names, split_names(idle->can, names)},
        .max_jobs = n,
        .lease_ms = rota_queue_to_ms(lease),
        .worker = full_name(broker, idle, name),
    };
    rota_buffer_clear(buffer);
    rota_message_encode(&ROTA_QUEUE_POLL, &poll, buffer);
    return !buffer->failed;
}

/* One worker goes, with `n` slots. */
static bool fetch_jobs(struct rota_broker_forward *forward, struct rota_broker_trip *trip,
                       const struct rota_idle_worker *idle, uint32_t n,
                       const struct rota_tree_word *offer)
{
    struct rota_work_broker *broker = forward->broker;
    struct rota_broker_sent sent = {
        .on_end = on_fetched,
        .number = idle->session,
        .n = n,
        .is_poll = idle->is_poll,
        .lease = idle->is_poll ? idle->lease : ROTA_REMOTE_LEASE,
        .trip = trip,
    };
    rota_broker_sent_name(sent.node, sizeof sent.node, offer->node);
    rota_broker_sent_name(sent.queue, sizeof sent.queue, offer->queue);
    if (!write_poll(broker, idle, offer->queue, n, sent.lease, &broker->front.buffer) ||
        !keep_worker(broker, idle, n))
        return false;
    if (rota_work_broker_forward_send(forward, &sent, "/rota.v1.Queue/Poll",
                                      rota_buffer_str(&broker->front.buffer),
                                      ROTA_BROKER_FETCH_TIMEOUT))
        return true;
    trip->is_lost = true;
    release_worker(broker, idle->is_poll, idle->session, n);
    return false;
}

void rota_work_broker_fetch_visit(struct rota_broker_forward *forward,
                                  struct rota_server_call *call, uint64_t number,
                                  const struct rota_tree_word *offer)
{
    struct rota_broker_trip *trip = calloc(1, sizeof *trip);
    struct rota_idle_worker idle;
    rota_time now = rota_work_broker_now().boot;
    if (!trip) {
        if (call)
            rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED,
                                    "not enough memory for work stealing", NULL, 0);
        else
            rota_tree_fsm_answered(forward->tree, now, number, 0, false);
        return;
    }
    trip->call = call;
    trip->visit = number;
    rota_list_push(&forward->trips, &trip->link);
    trip->is_lost = !rota_work_broker_forward_is_peer(forward, offer->node);
    while (trip->n < offer->n && !trip->is_lost && !forward->broker->front.fsm.is_draining &&
           rota_broker_find_idle(forward->broker->core, offer->queue, offer->can, &idle)) {
        uint32_t left = offer->n - trip->n, n = idle.n_free < left ? idle.n_free : left;
        if (!fetch_jobs(forward, trip, &idle, n, offer))
            break;
        trip->n += n;
        trip->n_left++;
    }
    rota_tree_fsm_sent(forward->tree, now, offer->queue, trip->n);
    rota_work_broker_touch(forward->broker);
    end_trip(forward, trip);
}
