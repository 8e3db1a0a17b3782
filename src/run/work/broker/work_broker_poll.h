/* broker_poll: polls for jobs over gRPC. A poll is a session of the broker that ends with the first
 * jobs it gets. */
#pragma once

#include "base/heap.h"
#include "base/list.h"
#include "base/vector.h"
#include "run/work/broker/work_broker_front.h"

/* A poll that waits for jobs. */
struct rota_broker_poll {
    struct rota_server_call *call;
    uint64_t session; /* the key in `by_session` */
    struct rota_heap_node until;
    struct rota_list_node ready; /* in `ready` when it has received something */
    rota_time until_at;          /* `until`, unless another node is asked for it */
    uint32_t kept;               /* its slots, while another node is asked; 0: none is */
    char *visited;               /* the queue, when another node polls for its workers; freed */
    struct rota_buffer reply;
    size_t n_jobs;
};

/* An attempt that was given to a worker and can't be sent. */
struct rota_broker_return {
    struct rota_job_id id;
    uint64_t attempt;
    char queue[ROTA_JOB_QUEUE_NAME_MAX + 1];
};

struct rota_broker_polls {
    struct rota_map by_session;
    struct rota_broker_poll *last; /* the last one looked up: it often gets many jobs in a row */
    struct rota_heap until;
    struct rota_list_node ready;
    uint64_t n_total;
    ROTA_VECTOR(struct rota_broker_return) returns;
};

void rota_work_broker_poll_init(struct rota_broker_polls *polls, uint64_t seed);
void rota_work_broker_poll_deinit(struct rota_broker_polls *polls);

rota_broker_handler rota_work_broker_poll_open;
void rota_work_broker_poll_cancel(struct rota_work_broker *broker, struct rota_server_call *call);
void rota_work_broker_poll_hand(struct rota_work_broker *broker,
                                const struct rota_work_effect *effect);
void rota_work_broker_poll_lost(struct rota_work_broker *broker, uint64_t session);

/* Ask another node for the poll, for at most this long: it receives no jobs here meanwhile. False
 * when there is no such poll. Afterwards release it; or answer it with the other node's reply, `n`
 * jobs, unless it has ended. */
bool rota_work_broker_poll_keep(struct rota_work_broker *broker, uint64_t session, uint32_t slots,
                                rota_time timeout);
void rota_work_broker_poll_release(struct rota_work_broker *broker, uint64_t session);
bool rota_work_broker_poll_fetched(struct rota_work_broker *broker, uint64_t session,
                                   struct rota_str reply, size_t n);

/* Return jobs that could not be sent; true when something changed. */
bool rota_work_broker_poll_return(struct rota_work_broker *broker);

/* Answer polls that have jobs, or waited long enough; all, when `is_over`. */
void rota_work_broker_poll_flush(struct rota_work_broker *broker, rota_time now, bool is_over);
