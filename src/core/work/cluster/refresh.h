/* refresh: what a node does about calls that follow another view of the space than its own.
 *
 * Each call between nodes carries the number of the sender's view. A node that hears of a later
 * view than its own reads the store at once. A call that is to be answered by the owner of a
 * partition waits until the node knows the view that the call follows:
 *
 *     carried here:   WAIT while our view is earlier, then serve it, or refuse it with the owner
 *     refused there:  PASS the refusal, unless that node's view is later than the route:
 *                     AGAIN, if ours is as late by now
 *                     ASK the owner that it names, at most ROTA_REFRESH_HOPS_MAX times in a row
 *                     WAIT until ours is as late, then AGAIN
 *
 * No call waits longer than ROTA_REFRESH_WAIT_MAX: while the store is unreachable a node continues
 * under the last view it knows. */
#pragma once

#include <rota/time.h>
#include <stdbool.h>
#include <stdint.h>

enum { ROTA_REFRESH_HOPS_MAX = 3 };

#define ROTA_REFRESH_WAIT_MAX   (1 * ROTA_SEC)
#define ROTA_REFRESH_LOOK_EVERY (50 * ROTA_MSEC) /* at the store, for one number */

/* Of a node; zero: it knows no view. */
struct rota_refresh {
    uint64_t number; /* of the view in force here; the caller's to set */
    uint64_t heard;  /* the latest of other nodes */
    rota_time looked_at;
};

/* Of a call; zero: it has just arrived. */
struct rota_refresh_call {
    uint64_t wanted; /* the view to wait for; 0: any */
    uint64_t route;  /* the view by which it was last sent on */
    rota_time since; /* when it first waited, or was refused; 0: not yet */
    unsigned n_hops;
};

/* Another node has this number; true: read the store now. */
bool rota_refresh_hear(struct rota_refresh *refresh, rota_time now, uint64_t number);

/* Whether the call waits for the view that it wants. */
bool rota_refresh_must_wait(const struct rota_refresh *refresh, rota_time now,
                            struct rota_refresh_call *call);

/* How the node that it was sent to has refused it. */
struct rota_refresh_refusal {
    bool is_stale, is_undone;
    uint64_t number; /* of the view there; 0: not known */
    bool has_owner;  /* it names an owner other than us */
};

enum rota_refresh_do {
    ROTA_REFRESH_PASS,  /* give the refusal to the caller */
    ROTA_REFRESH_ASK,   /* send it to the owner that the refusal names */
    ROTA_REFRESH_AGAIN, /* route it again, after rota_refresh_must_wait() */
};

enum rota_refresh_do rota_refresh_refused(const struct rota_refresh *refresh, rota_time now,
                                          struct rota_refresh_call *call,
                                          const struct rota_refresh_refusal *refusal);
