/* fair: tags, by which the keys of a queue share it (start-time fair queueing).
 *
 * Virtual time in a queue is counted in work handed out, not in seconds: it is the highest tag
 * handed out. A key's next job begins where its last one ends or at the present, whichever is
 * later, and takes one step, which is shorter for a heavier key. So a key with many jobs runs ahead
 * into the future, and one with few is always served near the present; an idle key saves up
 * nothing.
 *
 * A key is known while it has jobs, a weight of its own, or is ahead of the present, and while
 * its weight setting is remembered; when keys run out, those that are only ahead, or have the
 * default weight, are forgotten first. Jobs without a key share one: the empty key. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "core/work/job/job.h"

enum {
    ROTA_FAIR_WEIGHT = 1000,        /* the default */
    ROTA_FAIR_WEIGHT_MAX = 1000000, /* a thousand times as much */
};

struct rota_fair_key {
    struct rota_fair_queue *queue;
    struct rota_list_node link; /* resting: without jobs and weight, but ahead */
    uint64_t ahead;             /* where its next job begins at the earliest */
    size_t n_jobs;              /* that have not ended */
    rota_time weighed_at;       /* wall clock: when its weight was set; 0: never */
    uint32_t weight;
    uint16_t size;
    char name[];
};

struct rota_fair_queue {
    struct rota_fair *fair;
    struct rota_map keys;
    uint64_t present; /* the highest tag that was handed out */
    uint64_t ahead;   /* of the empty key */
    rota_time weighed_at;
    uint32_t weight;
};

/* What all queues of a broker share. */
struct rota_fair {
    struct rota_list_node resting; /* keys, the oldest first */
    size_t n_keys, keys_max;
    void (*on_free)(void *data, void *block); /* frees the memory of a key, sooner or later */
    void *data;
};

void rota_fair_queue_init(struct rota_fair_queue *queue, struct rota_fair *fair, uint64_t seed);
void rota_fair_queue_deinit(struct rota_fair_queue *queue);

/* The key of this name, which is not empty, made if needed; ROTA_ERR_LIMIT when there are too
 * many. One without references is removed by the next call for a key. */
enum rota_code rota_fair_key(struct rota_fair_queue *queue, struct rota_str name,
                             struct rota_fair_key **key, struct rota_error *error);
/* Whether a weight is set that is not the default. */
bool rota_fair_is_weighed(const struct rota_fair_queue *queue);

struct rota_fair_key *rota_fair_find(const struct rota_fair_queue *queue, struct rota_str name);

/* A job of `key` (NULL: none) arrives, or has ended. */
void rota_fair_hold(struct rota_fair_key *key);
void rota_fair_let_go(struct rota_fair_key *key);

/* The tag of a new job. */
uint64_t rota_fair_tag(struct rota_fair_queue *queue, struct rota_fair_key *key);

/* A job with this tag, from another broker, is here. */
void rota_fair_seen(struct rota_fair_queue *queue, struct rota_fair_key *key, uint64_t tag);

/* A job with this tag was handed out. */
static inline void rota_fair_hand_out(struct rota_fair_queue *queue, uint64_t tag)
{
    if (tag > queue->present)
        queue->present = tag;
}

/* The weight of a key (NULL: the empty one), and since when. */
void rota_fair_set_weight(struct rota_fair_queue *queue, struct rota_fair_key *key, uint32_t weight,
                          rota_time at);
