/* handover_fsm: which partitions are opened and closed as the route changes, and which jobs are
 * sent to which node.
 *
 *     ours:       open as soon as none of its jobs are in flight
 *     another's:  close, then one chunk of its jobs after the other, each
 *                 recorded -> SEND -> taken -> forgotten -> SEND_OVER -> ended
 *
 * core/work/broker/broker.h says how a chunk moves and why no job is lost or duplicated; this
 * machine decides when. The nodes may disagree about the route: a receiver takes the jobs it is
 * sent, and serves those that belong elsewhere by its own route for a while before it passes them
 * on. So brokers that disagree for long pass jobs back and forth, but get them done.
 *
 * A chunk that its receiver may have is repeated there until it answers, even when the partition
 * has moved to a third node; one that the receiver can't have seen is given up at once. Unanswered
 * messages are repeated, with growing pauses.
 *
 * It drives a broker that the caller supplies, and is pure, too. */
#pragma once

#include "base/vector.h"
#include "core/work/broker/broker.h"

#define ROTA_HANDOVER_HOLD        (2 * ROTA_SEC) /* received jobs stay at least this long */
#define ROTA_HANDOVER_RETRY_FIRST (100 * ROTA_MSEC)
#define ROTA_HANDOVER_RETRY_MAX   (2 * ROTA_SEC)

enum { ROTA_HANDOVER_HOLDS_MAX = 4096 };

enum rota_handover_whose {
    ROTA_HANDOVER_NOBODYS, /* not known: nothing changes */
    ROTA_HANDOVER_OURS,
    ROTA_HANDOVER_ANOTHERS,
};

struct rota_handover_options {
    struct rota_broker *broker; /* kept; it has begun */

    /* The owner of a partition by the route; `*owner` is the address of another node, borrowed. */
    enum rota_handover_whose (*whose)(void *data, struct rota_str queue, uint32_t partition,
                                      struct rota_str *owner);
    void *data; /* kept */
};

enum rota_handover_event_type {
    ROTA_HANDOVER_LOOK,    /* the route changed, or the deadline has come */
    ROTA_HANDOVER_DURABLE, /* records up to `number` are on disk */
    ROTA_HANDOVER_CAME,    /* jobs of `partition` of `queue` were adopted */
    ROTA_HANDOVER_TAKEN,   /* chunk `name` is on the receiver's disk */
    ROTA_HANDOVER_UNSEEN,  /* ... can't have arrived */
    ROTA_HANDOVER_UNKNOWN, /* ... may have arrived */
};

struct rota_handover_event {
    enum rota_handover_event_type type;
    struct rota_job_id name;
    uint64_t number;
    struct rota_str queue;
    uint32_t partition;
};

/* Send chunk `name`, with its jobs, or the message that it is over; then report the result. */
struct rota_handover_send {
    struct rota_job_id name;
    struct rota_str to; /* valid until the broker changes */
    bool is_over;
};

/* What is known about a chunk in this process. */
struct rota_handover_trip {
    struct rota_job_id name;
    bool is_seen; /* its receiver may have it */
    bool is_sent; /* sent, and not answered yet */
    rota_time again_at, pause;
    bool is_there; /* the chunk still exists, at the last look */
};

struct rota_handover_hold {
    rota_time until;
    uint32_t partition;
    char queue[ROTA_JOB_QUEUE_NAME_MAX + 1];
};

struct rota_handover_fsm {
    struct rota_handover_options options;
    uint64_t durable;
    rota_time deadline;
    ROTA_VECTOR(struct rota_handover_trip) trips;
    ROTA_VECTOR(struct rota_handover_hold) holds;
    ROTA_VECTOR(struct rota_handover_send) sends;
};

void rota_handover_fsm_init(struct rota_handover_fsm *fsm,
                            const struct rota_handover_options *options);
void rota_handover_fsm_deinit(struct rota_handover_fsm *fsm);

/* Gives what to send, borrowed until the next step; the broker has effects of its own. Without
 * memory less is done, and the rest at the next look. */
const struct rota_handover_send *rota_handover_fsm_step(struct rota_handover_fsm *fsm,
                                                        struct rota_work_now now,
                                                        const struct rota_handover_event *event,
                                                        size_t *n_sends);

/* When it has to look again, on the monotonic clock; ROTA_TIME_NEVER: after an event only. */
rota_time rota_handover_fsm_deadline(const struct rota_handover_fsm *fsm);

/* Whether jobs are in flight, or about to be. */
bool rota_handover_fsm_is_busy(const struct rota_handover_fsm *fsm);
