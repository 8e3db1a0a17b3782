/* broker_poller: workers that poll, and hold jobs by leases. */
#pragma once

#include "core/work/broker/broker_worker.h"
#include "core/work/job/job_table.h"

/* A poller: all polls of one name and class, and the attempts they have received. */
struct rota_work_poller {
    struct rota_work_class *class;
    struct rota_work_name *name; /* referenced by its polls and attempts */
    struct rota_work_poller *next;
    uint32_t n_polls, n_leased;
    size_t place; /* among all */
    rota_time heard_at;
};

/* A poll begins, or ends; false when there is no memory. */
bool rota_broker_poller_begin(struct rota_broker *broker, struct rota_work_worker *worker);
void rota_broker_poller_end(struct rota_broker *broker, struct rota_work_worker *worker);

/* The poller has the attempt, until rota_broker_poller_unlease(), which may find no poller.
 * `poller` may be NULL. */
void rota_broker_poller_lease(struct rota_work_poller *poller, struct rota_job_extra *extra);
void rota_broker_poller_unlease(struct rota_broker *broker, struct rota_job_extra *extra);
