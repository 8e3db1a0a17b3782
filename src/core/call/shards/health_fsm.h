/* health_fsm: which node to check, and when.
 *
 *     WELL --failures--> UNAVAILABLE --more failures--> DROPPED
 *       ^______________________|___________________________|
 *                           success
 *
 * Every listed node is checked for as long as it is listed, each on a schedule of its own: one that
 * hangs does not delay the others. A node that answered a call recently is healthy and is not
 * checked. A dropped one is checked less and less often, at jittered times, and returns with one
 * success.
 *
 * Failures belong to a listing: a node that is removed and added again starts over.
 *
 * Invariant: a listed node has exactly one next deadline, at which it is either checked or its
 * check times out; so none is forgotten while it is listed. */
#pragma once

#include "base/heap.h"
#include "base/map.h"

#include <rota/error.h>
#include <rota/experimental/random.h>
#include <rota/experimental/shard.h>
#include <rota/time.h>

enum { ROTA_HEALTH_NODES_MAX = 65536 };

struct rota_health_options {
    rota_time interval;     /* from check to check; 0 means 1 s */
    rota_time timeout;      /* no answer by then is a failure; 0 means 3 s */
    uint32_t n_unavailable; /* failures in a row to be unavailable; 0 means 3 */
    uint32_t n_dropped;     /* and to be dropped; 0 means 5 */
    rota_time interval_max; /* for dropped nodes; 0 means 30 s */
    uint64_t seed;
};

enum rota_health_event_type {
    ROTA_HEALTH_TICK,     /* time has passed */
    ROTA_HEALTH_ANSWERED, /* a check has ended, successfully or not; also when it couldn't begin */
    ROTA_HEALTH_HEARD,    /* a call to the node was answered */
};

struct rota_health_event {
    enum rota_health_event_type type;
    uint64_t node;
    uint64_t check; /* ANSWERED: the number of the action */
    bool is_healthy;
};

/* The actions: at most one check, at most one change. */
struct rota_health_actions {
    bool ask;  /* begin check `check` of `node`; its end is an event */
    bool tell; /* the state of `node` has changed to `state` */
    uint64_t node, check;
    enum rota_health_state state;
};

struct rota_health_fsm {
    struct rota_health_options options; /* defaults filled in */
    struct rota_map nodes;
    struct rota_heap moments;
    struct rota_random random;
    uint64_t n_checks;
};

void rota_health_fsm_init(struct rota_health_fsm *fsm, const struct rota_health_options *options);
void rota_health_fsm_deinit(struct rota_health_fsm *fsm);

/* List a node, which is assumed to be healthy, or remove it. Listing it twice changes nothing. */
enum rota_code rota_health_fsm_add(struct rota_health_fsm *fsm, rota_time now, uint64_t node,
                                   struct rota_error *error);
void rota_health_fsm_remove(struct rota_health_fsm *fsm, uint64_t node);

/* One action at a time: tick again while the deadline has passed. Events about nodes that are
 * not listed and late answers do nothing. */
struct rota_health_actions rota_health_fsm_step(struct rota_health_fsm *fsm, rota_time now,
                                                const struct rota_health_event *event);

/* When the next tick is due. */
rota_time rota_health_fsm_deadline(const struct rota_health_fsm *fsm);

/* --- inspection --- */

/* False when the node is not listed. */
bool rota_health_fsm_look(const struct rota_health_fsm *fsm, uint64_t node,
                          enum rota_health_state *state, uint32_t *n_failures);
