/* front_fsm: which node answers a call about jobs, and what the node that receives it does.
 *
 *     about a job:   HERE, if it is here
 *                    else ASK_OWNER of its partition --not there--> ASK_OTHERS --> PASS an answer
 *                    nowhere: ASK_OTHERS, and the owner, once more
 *     new jobs:      each HERE or ASK_OWNER, by its partition
 *     ... again:     ASK_OTHERS, twice; one that a node has is known, any other is new
 *     all jobs:      ASK_OTHERS, if there are any, else HERE
 *     any of these:  WAIT until partitions of a store are loaded, then the call begins again
 *                    REFUSE, for a reason that says whether another node may accept it
 *
 * A job is at one node, which follows from its partition, unless it is being handed over or is at a
 * node with another list of nodes. So a node reports that a job does not exist only if every node
 * that may hold jobs, including those that are down, has said so twice, and this node knows these
 * nodes: a job that is moving may be seen at neither node the first time. A received job stays for
 * at least ROTA_HANDOVER_HOLD, so that twice is enough when both rounds take less than that. Where
 * nodes share a store, the node that has the partition open, or owns it and has read it since,
 * speaks for all.
 *
 * The add of a job whose first add had no answer is *repeated*: a former owner may have accepted
 * it, and still have it, or have it in flight. So the nodes search for it in the same way before
 * one adds it.
 *
 * A call that another node has routed here is *carried*: it is answered here or refused, never
 * routed again.
 *
 * Invariants: a repeated add never becomes a second job, and no job that exists is denied; when in
 * doubt, the node refuses the call as unavailable. A refusal that lets the caller go elsewhere
 * means that nothing was done here.
 *
 * It asks a broker and the partitions of a store, which the caller supplies, and is pure, too. */
#pragma once

#include "core/work/broker/broker.h"
#include "core/work/cluster/layout.h"
#include "core/work/cluster/partition_fsm.h"
#include "core/work/cluster/refresh.h"
#include "core/work/job/lookup.h"

#include <rota/experimental/random.h>
#include <rota/rpc.h>

#define ROTA_FRONT_SEARCH_MAX (2000 * ROTA_MSEC) /* of both rounds: below ROTA_HANDOVER_HOLD */

/* The node that has a partition according to the route. */
struct rota_front_owner {
    enum rota_partition_owner whose;
    struct rota_str address; /* of another node; borrowed until the route changes */
};

/* Which other nodes. */
enum rota_front_others {
    ROTA_FRONT_LISTED,
    ROTA_FRONT_HOLDERS, /* ... and those that are down and may hold jobs */
};

struct rota_front_options {
    struct rota_broker *broker;            /* kept */
    struct rota_partition_fsm *partitions; /* kept; NULL: each node has jobs of its own */
    bool is_alone;                         /* there is no other node, and none will join */
    uint32_t n_partitions;                 /* of a queue, initially: ids are placed by it */

    struct rota_front_owner (*owner)(void *data, struct rota_str queue, uint32_t partition);
    struct rota_work_layout (*layout)(void *data, struct rota_str queue);
    size_t (*n_others)(void *data, enum rota_front_others which);

    /* Whether this node knows which nodes may hold jobs: after its start it has to learn it. */
    bool (*is_told)(void *data);
    void *data; /* kept */
    uint64_t seed;
};

struct rota_front_fsm {
    struct rota_front_options options;
    struct rota_random random;

    /* The caller's to set. */
    bool is_draining;   /* no jobs are accepted or handed out */
    bool is_closing;    /* nothing is answered */
    bool is_store_down; /* unreachable for too long */
    bool is_unread;     /* the settings of queues are not known: no jobs are accepted */
};

struct rota_front_call {
    bool is_carried;
    rota_time since; /* monotonic: it has waited since then; 0: it has just arrived */
    struct rota_refresh_call refresh;
    struct rota_str owner; /* that a later view names; empty: none. Borrowed */
};

enum rota_front_do {
    ROTA_FRONT_HERE, /* handle it */
    ROTA_FRONT_WAIT,
    ROTA_FRONT_ASK_OWNER,  /* the node at `owner` */
    ROTA_FRONT_ASK_OTHERS, /* all that the call is about, but for those asked before */
    ROTA_FRONT_PASS,       /* the answer of node `index` is that of the call */
    ROTA_FRONT_REFUSE,     /* for `reason` */
};

enum rota_front_reason {
    ROTA_FRONT_NO_REASON,
    ROTA_FRONT_CLOSING,
    ROTA_FRONT_STORE_AWAY,       /* it would wait for a store that is unreachable */
    ROTA_FRONT_STORE_AWAY_NEW,   /* ... and accept a new job */
    ROTA_FRONT_STORE_AWAY_AGAIN, /* ... or one that may exist already */
    ROTA_FRONT_UNREAD,           /* the settings of queues are not known here */
    ROTA_FRONT_UNREAD_AGAIN,     /* ... and the job may exist already */
    ROTA_FRONT_NOT_TOLD,         /* other nodes may have the job: it is not known which */
    ROTA_FRONT_NOT_TOLD_AGAIN,   /* ... of a repeated add */
    ROTA_FRONT_SILENT,    /* a node that may have the job of a repeated add does not answer */
    ROTA_FRONT_LATE,      /* the nodes took too long to report that they do not have it */
    ROTA_FRONT_MOVED,     /* the job came here while other nodes were asked */
    ROTA_FRONT_NOT_OWNED, /* another node owns the partition, or will */
    ROTA_FRONT_NOT_HERE,  /* of a carried call: another node may have the job */
    ROTA_FRONT_NOT_HERE_IN_BATCH, /* the same, of several: one call for each searches it */
};

struct rota_front_action {
    enum rota_front_do what;
    enum rota_front_reason reason;
    size_t index;
    bool is_unsure; /* another node knows other nodes: learn which, soon */
    struct rota_str owner;
};

/* The form in which a reason is reported to the caller. */
struct rota_front_refusal {
    enum rota_status status;
    bool is_stale;    /* the route that led here is old */
    bool is_undone;   /* nothing was done: another node or partition may accept it */
    const char *text; /* NULL: that of the node or broker that said so */
};
const struct rota_front_refusal *rota_front_fsm_refusal(enum rota_front_reason reason);

void rota_front_fsm_init(struct rota_front_fsm *fsm, const struct rota_front_options *options);

/* --- any call --- */

/* A poll: it gets jobs from this node, which asks others for more. */
struct rota_front_action rota_front_fsm_poll(const struct rota_front_fsm *fsm);

/* A call about all jobs, queues or nodes. `needs_jobs`: those of a store have to be loaded. */
struct rota_front_action rota_front_fsm_all(const struct rota_front_fsm *fsm,
                                            const struct rota_front_call *call,
                                            enum rota_front_others which, bool needs_jobs);

/* --- a job --- */

/* All nodes are asked, from `now` on. */
struct rota_front_search {
    unsigned n_rounds; /* that have ended */
    rota_time until;
    uint64_t nodes; /* rota_broker_nodes_hash(): whom it asks. One that is learned of later was not
                       asked, or not twice */
};
struct rota_front_search rota_front_fsm_begin_search(const struct rota_front_fsm *fsm,
                                                     rota_time now);

/* `id` is not none. ASK_OWNER, or ASK_OTHERS when there is no other owner. */
struct rota_front_action rota_front_fsm_job(const struct rota_front_fsm *fsm,
                                            const struct rota_front_call *call,
                                            struct rota_str queue, struct rota_job_id id);

/* How a node that was asked has answered. */
struct rota_front_answer {
    enum rota_status status;
    bool is_stale;  /* it does not have the partition */
    bool has_nodes; /* it has reported ... */
    uint64_t nodes; /* ... rota_broker_nodes_hash() */
};
enum rota_lookup_word rota_front_fsm_word(const struct rota_front_fsm *fsm,
                                          const struct rota_front_answer *answer);

/* The owner has answered, or was UNASKED; `has_sent`: it sent a part of the answer before that.
 * PASS it, or ASK_OTHERS. */
struct rota_front_action rota_front_fsm_owner_said(const struct rota_front_fsm *fsm,
                                                   enum rota_lookup_word word, bool has_sent);

/* All have answered; the owner, or UNASKED, is the first. ASK_OTHERS: all of them again. PASS the
 * first, when none was asked: then no node has it. */
struct rota_front_action rota_front_fsm_others_said(const struct rota_front_fsm *fsm,
                                                    struct rota_front_search *search, rota_time now,
                                                    struct rota_str queue, struct rota_job_id id,
                                                    const enum rota_lookup_word *words, size_t n);

/* Whether a job that is not here does not exist, without any further question. */
bool rota_front_fsm_denies(const struct rota_front_fsm *fsm);

/* --- new jobs --- */

struct rota_front_new {
    struct rota_str queue, unique; /* borrowed; the queue's name is valid */
    struct rota_job_id id;         /* or none */
    uint32_t asked;                /* the partition that the caller has chosen; 0: any */
    bool is_keyed;                 /* its id follows from its idempotency key */
    bool is_again;                 /* it may have been added before */
    bool is_sought;                /* ... and no node has it */
    bool is_known;                 /* ... and a node has it */
    bool is_found;                 /* while nodes are asked: one of them has it, or this one had */

    /* Decided here. */
    bool is_placed;     /* its id alone says where it goes, under any layout of its queue */
    bool has_partition; /* and it may go there */
    uint32_t partition;
};

/* Set `is_placed`, before anything else is asked. */
void rota_front_fsm_read(struct rota_front_new *job, bool is_carried);

/* Decide which partition the job goes to, and whether this node or its owner adds it. Without any
 * preference it stays here, if a partition is ours. ROTA_ERR_INVALID: it can't go where it is to;
 * ROTA_ERR_STALE: new jobs no longer go there. */
enum rota_code rota_front_fsm_route(struct rota_front_fsm *fsm, const struct rota_front_call *call,
                                    struct rota_front_new *job, struct rota_front_action *action,
                                    struct rota_error *error);

/* Why it takes no jobs, while it `is_unread`. */
enum rota_front_reason rota_front_fsm_unread(bool may_be_there);

/* With a store: whether it takes jobs; `may_be_there`: one of them may have been added before. And
 * whether a job has to wait for its partition, which is wanted from now on if it is ours. */
struct rota_front_action rota_front_fsm_accept(const struct rota_front_fsm *fsm, bool may_be_there);
bool rota_front_fsm_must_wait(struct rota_front_fsm *fsm, const struct rota_front_call *call,
                              const struct rota_front_new *job);

/* Whether it is one that may have been added before. */
static inline bool rota_front_new_may_be_there(const struct rota_front_new *job)
{
    return job->is_again || job->is_sought || job->is_known;
}

/* Whether an add that this node refuses is certainly not there. Where nodes share a store, another
 * one may have accepted it, or this one before it left the partition: no node was asked. */
bool rota_front_fsm_is_undone(const struct rota_front_fsm *fsm, const struct rota_front_new *job);

struct rota_front_added {
    struct rota_job_id id;
    bool is_new;
    uint64_t number; /* the record to wait for; 0: none */
};

/* Add a job, of which `spec` is the rest. ROTA_ERR_UNAVAILABLE: it is new, and this node accepts no
 * new jobs. */
enum rota_code rota_front_fsm_add(struct rota_front_fsm *fsm, struct rota_work_now now,
                                  const struct rota_front_call *call, struct rota_front_new *job,
                                  struct rota_job_spec *spec, struct rota_front_added *added,
                                  struct rota_error *error);

/* --- repeated adds --- */

/* Whether nodes have to be asked for jobs that may have been added before. */
bool rota_front_fsm_must_search(const struct rota_front_fsm *fsm,
                                const struct rota_front_call *call);

/* Whether a job is here. */
bool rota_front_fsm_has(const struct rota_front_fsm *fsm, struct rota_str queue,
                        struct rota_job_id id);

/* `n_sought` jobs are not here. HERE: there is nothing to search. */
struct rota_front_action rota_front_fsm_search(const struct rota_front_fsm *fsm,
                                               struct rota_front_search *search, rota_time now,
                                               size_t n_sought);

/* Whether a node that reports this rota_broker_nodes_hash() knows other nodes: it may have sent a
 * job to one that this node does not ask. 0: it knows none. */
bool rota_front_fsm_knows_others(const struct rota_front_fsm *fsm, uint64_t nodes);

/* All nodes were asked. `is_in_doubt`: one of the jobs was not found; `is_silent`: a node did not
 * answer; `is_unsure`: one knows others. HERE: each job is known or new. */
struct rota_front_action rota_front_fsm_searched(const struct rota_front_fsm *fsm,
                                                 struct rota_front_search *search, rota_time now,
                                                 bool is_in_doubt, bool is_silent, bool is_unsure);

/* The search is over: the job is sought or known, and no longer repeated. */
void rota_front_fsm_settle(const struct rota_front_fsm *fsm, struct rota_front_new *job);
