/* Polls for jobs over gRPC. A poll is a session of the broker that ends with the first jobs it
 * gets. */
#include "base/container.h"
#include "run/work/broker/work_broker_inside.h"
#include "run/work/broker/work_broker_reply.h"
#include "run/work/cluster/work_broker_forward.h"

#include "run/rpc/server_call.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    REPLY_MAX = 24 << 20, /* bytes of jobs in one answer; the first job is always sent */
    REPLY_JOBS = 1,       /* the field of PollReply */
};

#define LEASE_DEFAULT (30 * ROTA_SEC)
#define LEASE_MAX     ROTA_DAY
#define WAIT_MAX      (10 * ROTA_MIN)

void rota_work_broker_poll_init(struct rota_broker_polls *polls, uint64_t seed)
{
    rota_map_init(&polls->by_session, seed);
    rota_list_init(&polls->ready);
}

void rota_work_broker_poll_deinit(struct rota_broker_polls *polls)
{
    rota_map_deinit(&polls->by_session);
    rota_heap_deinit(&polls->until);
    rota_vector_deinit(&polls->returns);
}

static struct rota_str key_of(const uint64_t *session)
{
    return rota_str_of(session, sizeof *session);
}

static struct rota_broker_poll *find_poll(struct rota_work_broker *broker, uint64_t session)
{
    if (!broker->polls.last || broker->polls.last->session != session)
        broker->polls.last = rota_map_get(&broker->polls.by_session, key_of(&session));
    return broker->polls.last;
}

static void forget_poll(struct rota_work_broker *broker, struct rota_broker_poll *poll)
{
    if (broker->polls.last == poll)
        broker->polls.last = NULL;
    rota_map_remove(&broker->polls.by_session, key_of(&poll->session));
    rota_heap_remove(&broker->polls.until, &poll->until);
    rota_list_remove(&poll->ready);
    rota_buffer_deinit(&poll->reply);
    free(poll->visited);
    free(poll);
}

static bool keep_poll(struct rota_work_broker *broker, struct rota_broker_poll *poll)
{
    if (!rota_map_put(&broker->polls.by_session, key_of(&poll->session), poll))
        return false;
    if (rota_heap_push(&broker->polls.until, &poll->until))
        return true;
    rota_map_remove(&broker->polls.by_session, key_of(&poll->session));
    return false;
}

static enum rota_code open_poll(struct rota_work_broker *broker, struct rota_broker_poll *poll,
                                const struct rota_queue_poll *request, struct rota_error *error)
{
    struct rota_work_now now = rota_work_broker_now();
    rota_time lease = rota_queue_from_ms(request->lease_ms),
              wait = rota_queue_from_ms(request->wait_ms);
    struct rota_worker_spec spec = {
        .name = request->worker.size ? request->worker : rota_str("poll"),
        .capabilities = request->can.items,
        .n_capabilities = request->can.n,
        .queues = request->queues.items,
        .n_queues = request->queues.n,
        .slots = request->max_jobs ? (uint32_t)request->max_jobs : 1,
        .lease = lease ? lease : LEASE_DEFAULT,
        .is_poll = true,
        .is_hasty = wait == 0,
    };
    if (lease > LEASE_MAX || wait > WAIT_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a poll waits at most 10 minutes, and its lease lasts at most a day");
    if (broker->polls.by_session.size >= ROTA_WORK_BROKER_POLLS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "%d polls are already waiting, the maximum",
                              ROTA_WORK_BROKER_POLLS_MAX);
    enum rota_code code = rota_broker_worker_open(broker->core, now, &spec, &poll->session, error);
    if (code)
        return code;
    poll->until.at = poll->until_at = rota_time_add(now.boot, wait);
    poll->until.order = ++broker->polls.n_total;
    if (keep_poll(broker, poll))
        return ROTA_OK;
    rota_broker_worker_close(broker->core, now, poll->session);
    return rota_error_no_memory(error, "for a poll");
}

/* A poll of another node, for its workers: forwarding needs its result. */
static char *visited_queue(const struct rota_broker_request *request)
{
    const struct rota_message_strs *queues = &request->as.poll.queues;
    if (!request->broker->forward || !request->front.is_carried || queues->n != 1)
        return NULL;
    char *queue = malloc(queues->items[0].size + 1);
    if (queue)
        snprintf(queue, queues->items[0].size + 1, "%.*s", ROTA_STR_ARGS(queues->items[0]));
    return queue;
}

void rota_work_broker_poll_open(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_server_call *call = request->call;
    const struct rota_queue_poll *message = &request->as.poll;
    struct rota_error error;
    struct rota_front_action action = rota_front_fsm_poll(&broker->front.fsm);
    if (action.what == ROTA_FRONT_REFUSE) {
        rota_work_broker_reply_reason(call, action.reason, NULL);
        return;
    }
    struct rota_broker_poll *poll = calloc(1, sizeof *poll);
    enum rota_code code = poll ? open_poll(broker, poll, message, &error)
                               : rota_error_no_memory(&error, "for a poll");
    rota_work_broker_touch(broker);
    if (code) {
        free(poll);
        rota_work_broker_reply_error(call, &error, false);
        return;
    }
    poll->call = call;
    poll->visited = visited_queue(request);
    rota_server_call_set_data(call, poll);
}

void rota_work_broker_poll_cancel(struct rota_work_broker *broker, struct rota_server_call *call)
{
    struct rota_broker_poll *poll = rota_server_call_data(call);
    if (!poll)
        return;
    rota_broker_worker_close(broker->core, rota_work_broker_now(), poll->session);
    forget_poll(broker, poll);
    rota_server_call_finish(call, ROTA_STATUS_CANCELLED, "the caller disconnected", NULL, 0);
    rota_work_broker_touch(broker);
}

/* It can't be sent: it waits again at once, not only after the lease has expired. */
static void return_job(struct rota_work_broker *broker, const struct rota_work_effect *effect)
{
    struct rota_broker_return back = {.id = effect->id, .attempt = effect->attempt};
    snprintf(back.queue, sizeof back.queue, "%.*s", ROTA_STR_ARGS(effect->queue));
    if (!rota_vector_push(&broker->polls.returns, back))
        rota_log(broker->options.log, rota_work_broker_now().wall, ROTA_LOG_WARN,
                 "job waits until its lease expires", ROTA_LOG_FACT("queue", effect->queue));
}

/* The first job starts the answer. */
static void begin_reply(struct rota_broker_poll *poll)
{
    if (poll->reply.size == 0)
        rota_server_call_begin_reply(poll->call, &poll->reply);
}

void rota_work_broker_poll_hand(struct rota_work_broker *broker,
                                const struct rota_work_effect *effect)
{
    struct rota_broker_poll *poll = find_poll(broker, effect->session);
    char id[ROTA_QUEUE_ID_SIZE];
    if (!poll ||
        (poll->n_jobs > 0 && poll->reply.size + effect->payload.size > (size_t)REPLY_MAX)) {
        return_job(broker, effect);
        return;
    }
    struct rota_queue_handed handed = {
        .queue = effect->queue,
        .id = rota_queue_message_id_write(effect->id, id),
        .attempt = effect->attempt,
        .payload = effect->payload,
        .n_attempts = effect->n_attempts,
        .timeout_ms = rota_queue_to_ms(effect->timeout),
        .priority = effect->priority,
        .key = effect->key,
        .trace = effect->trace,
    };
    begin_reply(poll);
    size_t before = poll->reply.size;
    rota_message_encode_entry(&ROTA_QUEUE_HANDED, REPLY_JOBS, &handed, &poll->reply);
    if (poll->reply.failed) {
        poll->reply.failed = false;
        poll->reply.size = before;
        return_job(broker, effect);
        return;
    }
    poll->n_jobs++;
    if (!poll->ready.next)
        rota_list_push(&broker->polls.ready, &poll->ready);
}

void rota_work_broker_poll_lost(struct rota_work_broker *broker, uint64_t session)
{
    struct rota_broker_poll *poll = find_poll(broker, session);
    if (poll && !poll->ready.next)
        rota_list_push(&broker->polls.ready, &poll->ready);
}

/* --- while another node is asked --- */

/* Its place in the heap stays reserved. */
static void set_until(struct rota_work_broker *broker, struct rota_broker_poll *poll, rota_time at)
{
    rota_heap_remove(&broker->polls.until, &poll->until);
    poll->until.at = at;
    rota_heap_push(&broker->polls.until, &poll->until);
}

bool rota_work_broker_poll_keep(struct rota_work_broker *broker, uint64_t session, uint32_t slots,
                                rota_time timeout)
{
    struct rota_broker_poll *poll = find_poll(broker, session);
    struct rota_work_now now = rota_work_broker_now();
    if (!poll || poll->kept || slots == 0)
        return false;
    poll->kept = slots;
    if (poll->until.at < now.boot + 2 * timeout)
        set_until(broker, poll, now.boot + 2 * timeout);
    rota_broker_worker_slots(broker->core, now, session, 0);
    return true;
}

void rota_work_broker_poll_release(struct rota_work_broker *broker, uint64_t session)
{
    struct rota_broker_poll *poll = find_poll(broker, session);
    if (!poll || !poll->kept)
        return;
    set_until(broker, poll, poll->until_at);
    rota_broker_worker_slots(broker->core, rota_work_broker_now(), session, poll->kept);
    poll->kept = 0;
    rota_work_broker_touch(broker);
}

bool rota_work_broker_poll_fetched(struct rota_work_broker *broker, uint64_t session,
                                   struct rota_str reply, size_t n)
{
    struct rota_broker_poll *poll = find_poll(broker, session);
    if (!poll || !poll->kept || poll->n_jobs > 0)
        return false;
    begin_reply(poll);
    rota_buffer_append_str(&poll->reply, reply);
    if (poll->reply.failed) {
        rota_buffer_clear(&poll->reply);
        return false;
    }
    poll->n_jobs = n;
    poll->kept = 0;
    rota_broker_worker_close(broker->core, rota_work_broker_now(), session);
    if (!poll->ready.next)
        rota_list_push(&broker->polls.ready, &poll->ready);
    rota_work_broker_touch(broker);
    return true;
}

bool rota_work_broker_poll_return(struct rota_work_broker *broker)
{
    bool has_any = broker->polls.returns.size > 0;
    for (size_t i = 0; i < broker->polls.returns.size; i++) {
        const struct rota_broker_return *back = &broker->polls.returns.items[i];
        struct rota_attempt_end end = {
            .queue = rota_str(back->queue),
            .id = back->id,
            .attempt = back->attempt,
            .cause = ROTA_JOB_CAUSE_GIVEN_BACK,
            .reason = rota_str("it could not be sent"),
            .retry_after = ROTA_MSEC,
        };
        uint64_t number;
        rota_broker_end(broker->core, rota_work_broker_now(), &end, &number, NULL);
    }
    broker->polls.returns.size = 0;
    return has_any;
}

static void answer_poll(struct rota_work_broker *broker, struct rota_broker_poll *poll)
{
    struct rota_server_call *call = poll->call;
    if (poll->visited)
        rota_work_broker_forward_visited(broker, rota_str(poll->visited), poll->n_jobs);
    rota_server_call_set_data(call, NULL);
    if (poll->reply.size > 0)
        rota_server_call_reply_buffer(call, &poll->reply);
    else
        rota_server_call_reply(call, rota_str(""));
    forget_poll(broker, poll);
}

void rota_work_broker_poll_flush(struct rota_work_broker *broker, rota_time now, bool is_over)
{
    struct rota_heap_node *first;
    ROTA_LIST_DRAIN (poll, &broker->polls.ready, struct rota_broker_poll, ready)
        answer_poll(broker, poll);
    while ((first = rota_heap_first(&broker->polls.until)) && (is_over || first->at <= now)) {
        struct rota_broker_poll *poll = ROTA_CONTAINER(first, struct rota_broker_poll, until);
        if (!is_over && !rota_broker_worker_is_open(broker->core, poll->session)) {
            set_until(broker, poll, ROTA_TIME_NEVER); /* its jobs are on the way */
            continue;
        }
        rota_broker_worker_close(broker->core, rota_work_broker_now(), poll->session);
        answer_poll(broker, poll);
        rota_work_broker_touch(broker);
    }
}
