/* handover_fsm: which partitions are opened and closed as the route changes, and what is sent
 * to whom so that their jobs follow.
 *
 *     ours:       open as soon as none of its jobs are on their way
 *     another's:  close, then a chunk of its jobs after the other, each
 *                 written down -> SEND -> taken -> forgotten -> SEND_OVER -> ended
 *
 * How a chunk goes and why no job is lost or doubled on the way is in core/work/broker.h;
 * here is when. The route needs not be the same everywhere: whoever is sent jobs takes them,
 * and what is another's in its eyes is served for a while before it goes on. So brokers that
 * disagree for long pass jobs to and fro, but get them done.
 *
 * A chunk that its receiver may have stays with it until that one has said so, also when the
 * partition has gone to a third; one that nobody can have seen is given up at once. What is
 * not answered is sent again, with growing pauses.
 *
 * It steers a broker that is given to it, and is as pure as that. */
#pragma once

#include "base/vector.h"
#include "core/work/broker.h"

#define ROTA_HANDOVER_HOLD        (2 * ROTA_SEC) /* jobs that came in are served at least so long */
#define ROTA_HANDOVER_RETRY_FIRST (100 * ROTA_MSEC)
#define ROTA_HANDOVER_RETRY_MAX   (2 * ROTA_SEC)

enum { ROTA_HANDOVER_HOLDS_MAX = 4096 };

enum rota_handover_whose {
    ROTA_HANDOVER_NOBODYS, /* as far as is known: nothing changes */
    ROTA_HANDOVER_OURS,
    ROTA_HANDOVER_ANOTHERS,
};

struct rota_handover_options {
    struct rota_broker *broker; /* kept; it has begun */

    /* Who has a partition by the route; `*owner` is the address of another, borrowed. */
    enum rota_handover_whose (*whose)(void *data, struct rota_str queue, uint32_t partition,
                                      struct rota_str *owner);
    void *data; /* kept */
};

enum rota_handover_event_type {
    ROTA_HANDOVER_LOOK,    /* the route is another, or it is time */
    ROTA_HANDOVER_DURABLE, /* records up to `number` are on disk */
    ROTA_HANDOVER_CAME,    /* jobs of `partition` of `queue` were adopted */
    ROTA_HANDOVER_TAKEN,   /* what was sent of chunk `name` is there on disk */
    ROTA_HANDOVER_UNSEEN,  /* ... can't have got there */
    ROTA_HANDOVER_UNKNOWN, /* ... or may have */
};

struct rota_handover_event {
    enum rota_handover_event_type type;
    struct rota_job_id name;
    uint64_t number;
    struct rota_str queue;
    uint32_t partition;
};

/* Send chunk `name`, with its jobs, or the word that it is over; then say what came of it. */
struct rota_handover_send {
    struct rota_job_id name;
    struct rota_str to; /* the broker's, until that changes */
    bool is_over;
};

/* What is known of a chunk in this life. */
struct rota_handover_trip {
    struct rota_job_id name;
    bool is_seen; /* its receiver may have it */
    bool is_sent; /* and no answer came yet */
    rota_time again_at, pause;
    bool is_there; /* the chunk still is: of the last look */
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
 * memory less is done, and the rest with the next look. */
const struct rota_handover_send *rota_handover_fsm_step(struct rota_handover_fsm *fsm,
                                                        struct rota_work_now now,
                                                        const struct rota_handover_event *event,
                                                        size_t *n_sends);

/* When it has to look again, on the monotonic clock; ROTA_TIME_NEVER: after an event only. */
rota_time rota_handover_fsm_deadline(const struct rota_handover_fsm *fsm);

/* Whether jobs are on their way, or about to be. */
bool rota_handover_fsm_is_busy(const struct rota_handover_fsm *fsm);
