/* broker_forward: work stealing: workers of this node run jobs of others, and vice versa.
 *
 * tree_fsm decides which messages to send, and which node visits which; work_broker_forward.c
 * reports this node's state to it and executes its actions. A visit keeps slots of idle workers
 * (work_broker_fetch.c), polls the other node for them, and passes the answer to a poll that waits
 * here, or jobs to a worker that is connected; remote_fsm (work_broker_remote.c) tracks the
 * attempts of the latter, extends their leases and returns their results. A worker that polls does
 * that itself: its calls are forwarded to the node that has the job. */
#pragma once

#include "core/work/cluster/remote_fsm.h"
#include "core/work/cluster/tree_fsm.h"
#include "run/work/broker/work_broker_inside.h"
#include "run/work/cluster/work_broker_ask.h"

enum { ROTA_BROKER_WORDS_BYTES = 1 << 20 }; /* pending for one node; more are sent later */

#define ROTA_BROKER_TELL_TIMEOUT  (2 * ROTA_SEC)
#define ROTA_BROKER_FETCH_TIMEOUT (5 * ROTA_SEC)
#define ROTA_BROKER_VISIT_TIMEOUT (7 * ROTA_SEC)

/* A visit that our workers are on. */
struct rota_broker_trip {
    struct rota_list_node link;
    struct rota_server_call *call; /* of the node that has sent them; NULL: ourselves */
    uint64_t visit;                /* then: its number */
    uint32_t n, n_left;
    bool is_lost;
};

/* A call to another node. */
struct rota_broker_sent {
    struct rota_broker_ask ask;
    struct rota_broker_forward *forward;
    void (*on_end)(struct rota_broker_sent *sent, const struct rota_call_result *result);

    uint64_t number; /* of a visit that we have caused; of a session, for a fetch */
    uint32_t n;      /* slots of a fetch */
    bool is_poll;
    rota_time lease;
    struct rota_broker_trip *trip;
    struct rota_job_id id; /* of an attempt */
    uint64_t attempt;
    char node[ROTA_ADDRESS_MAX + 1];
    char queue[ROTA_JOB_QUEUE_NAME_MAX + 1];
};

/* A name that fits, with a NUL; one that does not is not a valid name. */
static inline void rota_broker_sent_name(char *to, size_t size, struct rota_str name)
{
    size_t n = name.size < size ? name.size : 0;
    if (n > 0)
        memcpy(to, name.data, n);
    to[n] = '\0';
}

/* Counters of a queue. */
struct rota_broker_traffic {
    uint64_t n_fetched, n_lent;
    size_t name_size;
    char name[];
};

struct rota_broker_forward {
    struct rota_work_broker *broker;
    struct rota_tree_fsm *tree;
    struct rota_remote_fsm remote;
    struct rota_broker_cluster_subscriber subscriber;
    struct rota_map listeners; /* by address: pending messages */
    struct rota_map traffic;   /* by queue */
    struct rota_list_node sent, trips;
    uint64_t n_fetched, n_lent, n_given_back;
};

/* --- work_broker_forward.c --- */

/* Call another node; `sent` is copied, except for its ask. False when that is not possible: then
 * on_end is not called. */
bool rota_work_broker_forward_send(struct rota_broker_forward *forward,
                                   const struct rota_broker_sent *sent, const char *method,
                                   struct rota_str request, rota_time timeout);

/* Whether a node is listed: workers steal from no other node, whatever the words say. */
bool rota_work_broker_forward_is_peer(const struct rota_broker_forward *forward,
                                      struct rota_str address);

/* Count a job of a queue. */
void rota_work_broker_forward_count(struct rota_broker_forward *forward, struct rota_str queue,
                                    uint32_t n_fetched, uint32_t n_lent);

/* --- work_broker_fetch.c --- */

/* Idle workers fetch jobs of `queue` that need `can`, at most `n`; the sender gets the result
 * when they are back. Takes `call`. */
void rota_work_broker_fetch_visit(struct rota_broker_forward *forward,
                                  struct rota_server_call *call, uint64_t number,
                                  const struct rota_tree_word *offer);

/* --- work_broker_remote.c --- */

/* Execute the actions of remote_fsm; true when there were any. */
bool rota_work_broker_remote_drive(struct rota_broker_forward *forward);

/* --- what the rest of a broker asks of it --- */

enum rota_code rota_work_broker_forward_open(struct rota_work_broker *broker,
                                             struct rota_error *error);
void rota_work_broker_forward_close(struct rota_work_broker *broker);
void rota_work_broker_forward_turn(struct rota_work_broker *broker, struct rota_work_now now);
rota_time rota_work_broker_forward_deadline(const struct rota_work_broker *broker);

/* The methods of nodes. */
rota_broker_handler rota_work_broker_forward_hear;
rota_broker_handler rota_work_broker_forward_visit;

/* Another node has polled us, and received `n` jobs. */
void rota_work_broker_forward_visited(struct rota_work_broker *broker, struct rota_str queue,
                                      size_t n);

/* Additional information for people. */
void rota_work_broker_forward_info(const struct rota_work_broker *broker,
                                   struct rota_queue_info *info);
void rota_work_broker_forward_counts(const struct rota_work_broker *broker,
                                     struct rota_work_broker_counts *counts);
void rota_work_broker_forward_explain(struct rota_work_broker *broker, struct rota_str queue,
                                      char *text, size_t size);
