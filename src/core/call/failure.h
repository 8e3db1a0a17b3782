/* failure: how a try can end, and the consequences of each.
 *
 * There are few classes, each for something that the call plane does
 * differently. Cancelling a call, or reaching its deadline, says nothing about
 * the shard map or the replica: only the age of the try counts, for the balancer.
 * A stale rejection does not count against the replica either: the map was old.
 *
 * class       | to the shard map   | to the replica       | try | node  | to the
 *             |                    |                      | on  | acted | balancer
 * none        | nothing            | nothing              | no  | yes   | ok
 * input       | nothing            | nothing              | no  | no    | input
 * cancelled   | nothing            | nothing              | no  | maybe | cancelled
 * deadline    | nothing            | nothing              | no  | maybe | cancelled
 * timeout     | refreshed          | left out of the call | yes | maybe | timeout
 * unreachable | refreshed          | blacklisted          | yes | no    | unavailable
 * broken      | refreshed          | blacklisted          | yes | maybe | unavailable
 * stale       | claim put in, or   | left out of the call | yes | no    | input
 *             | dropped            |                      |     |       |
 * not_loaded  | dropped            | left out of the call | yes | no    | unavailable
 * overload    | nothing            | left out of the call | yes | no    | overload
 * retriable   | nothing            | left out of the call | yes | maybe | other
 * internal    | nothing            | blacklisted          | yes | maybe | other
 * no_replica  | nothing            | nothing              | no  | no    | cancelled
 * local       | nothing            | nothing              | no  | no    | cancelled
 *
 * An effect counts once: it names the version of the map that the try was
 * routed by, and does nothing to a map that is newer than that. */
#pragma once

#include <rota/experimental/balancer.h>
#include <rota/rpc.h>
#include <stdbool.h>

enum rota_failure {
    ROTA_FAILURE_NONE,        /* success */
    ROTA_FAILURE_INPUT,       /* the request is invalid, for any replica */
    ROTA_FAILURE_CANCELLED,   /* the caller gave up */
    ROTA_FAILURE_DEADLINE,    /* the call's time is over */
    ROTA_FAILURE_TIMEOUT,     /* the try's time is over, the call's is not */
    ROTA_FAILURE_UNREACHABLE, /* no connection: nothing was sent */
    ROTA_FAILURE_BROKEN,      /* the connection was lost with the try on it */
    ROTA_FAILURE_STALE,       /* the node does not lead the shard, or has a later epoch */
    ROTA_FAILURE_NOT_LOADED,  /* the node, or the directory, does not have the collection */
    ROTA_FAILURE_OVERLOAD,    /* the node's queue is full */
    ROTA_FAILURE_RETRIABLE,   /* the node asks to try again */
    ROTA_FAILURE_INTERNAL,    /* the node failed in another way */
    ROTA_FAILURE_NO_REPLICA,  /* the shard has no replica to call */
    ROTA_FAILURE_LOCAL,       /* a limit or the memory of this process */
};

enum { ROTA_FAILURES = ROTA_FAILURE_LOCAL + 1 };

enum rota_cache_effect {
    ROTA_CACHE_KEEP,       /* the map is not affected */
    ROTA_CACHE_REFRESH,    /* ask the directory; keep using the map meanwhile */
    ROTA_CACHE_APPLY,      /* put the claim of the answer into the map; drop it if there is none */
    ROTA_CACHE_INVALIDATE, /* drop the map: it is known to be wrong */
};

enum rota_replica_effect {
    ROTA_REPLICA_KEEP,
    ROTA_REPLICA_EXCLUDE,   /* not again in this call, before a refresh */
    ROTA_REPLICA_BLACKLIST, /* and not by other calls for a while */
};

/* "not_loaded" for ROTA_FAILURE_NOT_LOADED: for logs, metrics and the admin API. */
const char *rota_failure_name(enum rota_failure failure);

enum rota_cache_effect rota_failure_cache_effect(enum rota_failure failure);
enum rota_replica_effect rota_failure_replica_effect(enum rota_failure failure);

/* The outcome to report to a balancer. */
enum rota_outcome rota_failure_outcome(enum rota_failure failure);

/* Whether another replica may succeed. */
bool rota_failure_is_retried(enum rota_failure failure);

/* Whether the node is known not to have acted on the request, so that repeating it can't do it
 * twice. */
bool rota_failure_is_refusal(enum rota_failure failure);

/* The class of a reply by its status. `is_sent`: the node may have seen the request. `named` is
 * the class that the node itself named, which counts when a node can know it; empty or unknown:
 * none. */
enum rota_failure rota_failure_of_reply(enum rota_status status, bool is_sent,
                                        struct rota_str named);

/* The class of a directory's answer, or of an error of our own that prevented a question to it. */
enum rota_failure rota_failure_of_answer(enum rota_code code);

/* The status that a program gets for a call, when no node has reported a better one. */
enum rota_status rota_failure_status(enum rota_failure failure);

/* Whether a node that ended a try like this is healthy: it has answered, and the answer does not
 * indicate a problem of the node. */
bool rota_failure_is_heard(enum rota_failure failure);
