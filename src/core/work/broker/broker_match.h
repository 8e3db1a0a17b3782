/* broker_match: hands out jobs. */
#pragma once

#include "core/work/broker/broker_worker.h"
#include "core/work/job/lane.h"

/* An attempt that waits for its START to be written, to be sent to its worker. */
struct rota_work_start {
    struct rota_job_id id;
    uint64_t attempt, session, handed;
    uint64_t number; /* of the record that it waits for: of a poll, the last one of its jobs */
};

struct rota_broker_matching {
    uint64_t n_attempts; /* attempts numbered so far */
    uint64_t chances;    /* random parts of the last of them, and of the next */
    uint64_t n_handed;   /* attempts handed out */
    ROTA_VECTOR(struct rota_work_start) starts; /* in this order */
    uint64_t n_looks;                           /* lanes examined to choose jobs */
    bool is_on_hold;
    bool is_shared;     /* workers are shared with other nodes */
    rota_time yield_at; /* when the first yield is over; 0: there is none */
};

void rota_broker_match_mark_dirty(struct rota_broker *broker, struct rota_lane *lane);

/* Hand out jobs that entered lanes, while there are free workers. */
void rota_broker_match(struct rota_broker *broker);

/* Hand jobs to one worker, as long as it is free. It may be freed by this. */
void rota_broker_match_serve(struct rota_broker *broker, struct rota_work_worker *worker);

/* A worker begins an attempt of a job that is in no lane: the START is on record. */
void rota_broker_match_start(struct rota_broker *broker, struct rota_work_worker *worker,
                             uint32_t job_number, uint64_t attempt);

/* Send the attempts whose START is written. */
void rota_broker_match_send_starts(struct rota_broker *broker);

/* The next rota_broker_match() examines everything that waits. */
void rota_broker_match_offer_all(struct rota_broker *broker);

/* The next rota_broker_match() examines what waits for such a worker, which has become free. */
void rota_broker_match_offer(struct rota_broker *broker, const struct rota_work_worker *worker);

/* End yields whose time is over. */
void rota_broker_match_end_yields(struct rota_broker *broker);
