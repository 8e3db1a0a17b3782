/* broker_class: classes of workers. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "core/work/broker/broker_worker.h"
#include "core/work/cluster/yield.h"
#include "core/work/job/capability.h"
#include "core/work/job/choice.h"

struct rota_work_class {
    struct rota_capability_list capabilities;
    uint32_t queues[ROTA_WORKER_QUEUES_MAX];
    size_t n_queues;
    struct rota_choice *choices;    /* one for each queue: the lanes that its workers can serve */
    ROTA_VECTOR(uint64_t) has_lane; /* a bit for each lane */
    size_t n_workers, n_slots, n_free;
    size_t n_polls, n_pollers; /* of the workers; and names among these */
    size_t n_leased;           /* attempts of polls that have ended */
    struct rota_list_node free_workers;
    struct rota_list_node link; /* of those with a free worker */
    rota_time free_since;       /* while there is one */
    struct rota_yield yield;
    bool is_away; /* without a worker */
    char *text;   /* its key */
    size_t text_size;
};

struct rota_broker_classes {
    struct rota_map by_key;
    struct rota_list_node free; /* those with a free worker */
    size_t n_away;              /* those without a worker */
};

/* The class of a worker's queues and capabilities, made if needed; it is removed when
 * rota_broker_class_settle() finds neither a worker nor a leased attempt in it. */
enum rota_code rota_broker_class_need(struct rota_broker *broker,
                                      const struct rota_worker_spec *spec,
                                      struct rota_work_class **class, struct rota_error *error);
void rota_broker_class_settle(struct rota_broker *broker, struct rota_work_class *class);

/* The choice of the class that a lane belongs to; NULL when it does not serve the queue. */
struct rota_choice *rota_broker_class_choice(const struct rota_work_class *class, uint32_t queue);

/* Reserve room for a lane that fits the class; then add the lane. False when there is no memory. */
bool rota_broker_class_reserve_lane(struct rota_work_class *class, const struct rota_lane *lane,
                                    uint32_t number);
void rota_broker_class_add_lane(struct rota_work_class *class, struct rota_lane *lane,
                                uint32_t number);

/* Whether its workers serve the queue of a lane, and have the capabilities that its jobs need. */
bool rota_broker_class_fits(const struct rota_broker *broker, const struct rota_work_class *class,
                            const struct rota_lane *lane);

static inline bool rota_broker_class_has(const struct rota_work_class *class, uint32_t lane)
{
    return lane / 64 < class->has_lane.size && (class->has_lane.items[lane / 64] >> lane % 64 & 1);
}

/* A worker has free slots, or its last one was filled. */
void rota_broker_class_put_free(struct rota_broker *broker, struct rota_work_worker *worker);
void rota_broker_class_take_free(struct rota_work_worker *worker);

/* It has received a job: other workers, and other classes, are served before it next time. */
void rota_broker_class_turn(struct rota_broker *broker, struct rota_work_worker *worker);
