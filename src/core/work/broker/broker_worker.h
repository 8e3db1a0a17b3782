/* broker_worker: workers with sessions. */
#pragma once

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/vector.h"
#include "core/work/broker/broker.h"

/* How an attempt was lost. */
enum rota_work_loss {
    ROTA_LOSS_LEFT, /* its worker left cleanly, or never received it */
    ROTA_LOSS_DIED, /* its worker is dead, perhaps because of this job */
    ROTA_LOSS_OURS, /* this broker was not running and does not know: it does not count */
};

struct rota_work_worker {
    struct rota_heap_node alarm; /* when to check its heartbeats */
    uint64_t session, epoch;
    struct rota_work_name *name;
    struct rota_work_class *class;
    struct rota_work_poller *poller; /* of a poll */
    struct rota_list_node link;      /* of those that are free */
    uint32_t slots, n_running, n_free;
    uint32_t running; /* the first of its jobs; 0: none */
    rota_time liveness, lease, heard_at;
    bool is_poll, is_hasty, is_free;
    bool is_gone; /* lost or closed, but its jobs are not returned yet */
    bool is_told; /* ... and that will be reported */
    enum rota_work_loss loss;
};

struct rota_broker_workers {
    ROTA_VECTOR(struct rota_work_worker *) all; /* by the low bits of a session */
    ROTA_VECTOR(uint32_t) free_numbers;         /* preallocated */
    struct rota_map by_name;                    /* those with an epoch */
    ROTA_VECTOR(struct rota_work_poller *) pollers;
    struct rota_heap alarms;
    size_t n_gone;
    uint32_t serial;
    rota_time spare_until; /* we were not running: none is lost before */
};

struct rota_work_worker *rota_broker_worker(const struct rota_broker *broker, uint64_t session);

/* A worker has a running attempt from now on, or no longer. */
void rota_broker_worker_take(struct rota_broker *broker, struct rota_work_worker *worker,
                             uint32_t job_number);
void rota_broker_worker_release(struct rota_broker *broker, uint32_t job_number);
void rota_broker_worker_detach(struct rota_broker *broker, struct rota_work_worker *worker);

/* Workers without a heartbeat are lost; workers that are gone lose their jobs. */
void rota_broker_worker_lose_all(struct rota_broker *broker);
void rota_broker_worker_free(struct rota_broker *broker, struct rota_work_worker *worker);
