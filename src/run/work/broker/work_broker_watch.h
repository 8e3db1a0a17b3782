/* broker_watch: watchers of a job or a queue. Those of a job get its latest state, not each step on
 * the way; those of a queue each change, as far as the client keeps up. */
#pragma once

#include "base/list.h"
#include "base/vector.h"
#include "run/work/broker/work_broker_front.h"

/* A watcher of a job, or of a queue if there is no id. */
struct rota_broker_watcher {
    struct rota_server_call *call;
    struct rota_job_id id;
    struct rota_str queue;       /* of its call's memory */
    struct rota_list_node link;  /* next to others of the same job, or in `of_queues` */
    struct rota_list_node dirty; /* in `dirty` when there is something to send */
    uint64_t number;             /* ... once this is on disk */
    uint64_t n_missed;
    bool is_full; /* the client is slow: wait for on_room */
    char name[];
};

struct rota_broker_watched {
    struct rota_job_id id; /* the key in `of_jobs` */
    struct rota_list_node watchers;
};

/* A change of a queue, sent to its watchers once `number` is on disk. */
struct rota_broker_change {
    uint64_t number;
    struct rota_job_id id;
    enum rota_job_state state;
    enum rota_job_cause cause;
    uint64_t attempt;
    uint32_t n_attempts;
    char queue[ROTA_JOB_QUEUE_NAME_MAX + 1];
};

enum { ROTA_BROKER_CHANGES_MAX = 100000 }; /* pending; more are counted as missed */

struct rota_broker_watchers {
    ROTA_VECTOR(struct rota_broker_change) changes;
    struct rota_map of_jobs; /* by id */
    struct rota_list_node of_queues, dirty;
    size_t n;
};

void rota_work_broker_watch_init(struct rota_broker_watchers *watchers, uint64_t seed);
void rota_work_broker_watch_deinit(struct rota_broker_watchers *watchers);

rota_broker_handler rota_work_broker_watch_open;
void rota_work_broker_watch_cancel(struct rota_work_broker *broker, struct rota_server_call *call);
void rota_work_broker_watch_room(struct rota_work_broker *broker, struct rota_server_call *call);
void rota_work_broker_watch_tell(struct rota_work_broker *broker,
                                 const struct rota_work_effect *effect);
void rota_work_broker_watch_added(struct rota_work_broker *broker,
                                  const struct rota_work_record *record);
void rota_work_broker_watch_flush(struct rota_work_broker *broker);

/* The partition has another owner: pending changes of it are dropped, since their outcome is
 * unknown. */
void rota_work_broker_watch_lost(struct rota_work_broker *broker, struct rota_str queue,
                                 uint32_t partition);
void rota_work_broker_watch_end(struct rota_work_broker *broker);
