/* broker_cluster: the nodes that hold the queues together, and which of them owns which partition.
 *
 * A *node* is a broker that serves; it has an address, and its peers are the other listed nodes.
 * Partition p of a queue belongs to the node that the ring of the listed nodes gives for it; nodes
 * with the same list agree without asking. While lists differ, two nodes may both consider a
 * partition theirs; code that acts on a route has to be correct nevertheless.
 *
 * Without a source of members a node is alone, has no peers, and owns everything. A node that is
 * not listed owns nothing; that is how it is drained.
 *
 * Everything runs on the loop's thread; callbacks are called from the loop. */
#pragma once

#include "base/list.h"
#include "core/work/cluster/front_fsm.h"
#include "core/work/cluster/reach.h"
#include "core/work/job/job.h"

#include <rota/experimental/channel.h>
#include <rota/experimental/members.h>
#include <rota/experimental/route.h>
#include <rota/log.h>

struct rota_broker_cluster;

/* Partitions of a queue are spread sixteen at a time, as `rota route --batch 16 --mode slots`
 * shows, unless its layout says otherwise: each node gets its share of every queue, and little
 * moves when nodes join and leave. */
enum { ROTA_BROKER_CLUSTER_BATCH = 16 };
#define ROTA_BROKER_CLUSTER_SPREAD                                                                 \
    ((struct rota_spread){.mode = ROTA_SPREAD_SLOTS, .batch = ROTA_BROKER_CLUSTER_BATCH})

#define ROTA_BROKER_CLUSTER_TIMEOUT (10 * ROTA_SEC) /* of a call to a peer without its own */

struct rota_broker_cluster_options {
    struct rota_members_source *source; /* of the nodes; taken, also on failure; NULL: alone */
    const char *self;                   /* our address as it is listed; may be NULL when alone */
    uint32_t partitions;                /* of each queue without a layout */
    struct rota_tls *tls;               /* to peers, kept; NULL: plain text */
    bool insecure;                      /* plain text to peers on other machines */
    const char *token;            /* of calls to peers, as in <rota/experimental/channel.h>; kept */
    bool is_client;               /* not a node itself: other nodes may forward its calls */
    uint64_t (*view)(void *data); /* number of the view of the list; NULL: it has none */
    void *data;                   /* kept */
    const struct rota_log *log;   /* kept; NULL: none */
};

/* Gives `*cluster`; rota_work_broker_cluster_close() ends it. A list of nodes that is available at
 * once, such as a file's, is known when this returns. */
enum rota_code rota_work_broker_cluster_open(struct uv_loop_s *loop,
                                             const struct rota_broker_cluster_options *options,
                                             struct rota_broker_cluster **cluster,
                                             struct rota_error *error);

/* Takes `cluster`, which may be NULL. Calls to peers are dropped, and no callback is called
 * after this. The loop has to run once more to free everything. */
void rota_work_broker_cluster_close(struct rota_broker_cluster *cluster);

/* --- the route --- */

bool rota_work_broker_cluster_is_alone(const struct rota_broker_cluster *cluster);
struct rota_str rota_work_broker_cluster_self(const struct rota_broker_cluster *cluster);
uint32_t rota_work_broker_cluster_n_partitions(const struct rota_broker_cluster *cluster);

/* The initial layout of every queue. */
struct rota_work_layout rota_work_broker_cluster_default(uint32_t partitions);

/* Change the initial number of partitions of every queue: for a client, which has learned it. */
void rota_work_broker_cluster_set_partitions(struct rota_broker_cluster *cluster,
                                             uint32_t partitions);

/* Partitions and spread of a queue: those that were set, or the initial ones. */
struct rota_work_layout rota_work_broker_cluster_layout(const struct rota_broker_cluster *cluster,
                                                        struct rota_str queue);

/* The file of dynamic settings, which decides about queues whose layout was not set; NULL: none.
 * `set` takes it. */
const struct rota_config *rota_work_broker_cluster_config(
    const struct rota_broker_cluster *cluster);
void rota_work_broker_cluster_set_config(struct rota_broker_cluster *cluster,
                                         struct rota_config *config);

/* Route the queue by `layout` from now on; false without memory, or when a bound is reached. The
 * caller calls rota_work_broker_cluster_laid_out() after its last change; the cluster itself
 * reports partitions that change gradually. */
bool rota_work_broker_cluster_lay_out(struct rota_broker_cluster *cluster, struct rota_str queue,
                                      const struct rota_work_layout *layout);
void rota_work_broker_cluster_laid_out(struct rota_broker_cluster *cluster);

/* The address of the node that has the partition, borrowed until the route changes; empty when
 * no node is known. A partition that the queue does not have belongs to the owner of one that it
 * has. */
struct rota_str rota_work_broker_cluster_owner(struct rota_broker_cluster *cluster,
                                               struct rota_str queue, uint32_t partition);
bool rota_work_broker_cluster_is_ours(struct rota_broker_cluster *cluster, struct rota_str queue,
                                      uint32_t partition);
struct rota_front_owner rota_work_broker_cluster_whose(struct rota_broker_cluster *cluster,
                                                       struct rota_str queue, uint32_t partition);

/* The one partition of the queue where jobs with this unique key go. It stays the same when the
 * queue gets more partitions; going below the initial number moves some keys. */
uint32_t rota_work_broker_cluster_partition_of(const struct rota_broker_cluster *cluster,
                                               struct rota_str queue, struct rota_str unique);

/* The partition of a job with this id, under any layout of its queue: rota_job_id_place(). */
uint32_t rota_work_broker_cluster_place(const struct rota_broker_cluster *cluster,
                                        struct rota_job_id id);

/* Be notified of every change of the route, after it has happened. The struct is the caller's
 * and stays until it unsubscribes, which it may do at any time, also from inside the callback. */
struct rota_broker_cluster_subscriber {
    void (*on_route)(void *data);
    void *data;
    struct rota_list_node link;
};
void rota_work_broker_cluster_subscribe(struct rota_broker_cluster *cluster,
                                        struct rota_broker_cluster_subscriber *subscriber);
void rota_work_broker_cluster_unsubscribe(struct rota_broker_cluster_subscriber *subscriber);

/* --- peers --- */

/* The address of a listed peer, by number from 0, in the order of the addresses; borrowed until
 * the route changes. Empty for a number that is too high. */
struct rota_str rota_work_broker_cluster_peer(const struct rota_broker_cluster *cluster,
                                              size_t index);
size_t rota_work_broker_cluster_n_peers(const struct rota_broker_cluster *cluster);

/* A listed node, this one included, by number from 0; `is_placed`: it has partitions. False for
 * a number that is too high. */
bool rota_work_broker_cluster_member(const struct rota_broker_cluster *cluster, size_t index,
                                     struct rota_str *address, bool *is_placed);

/* Whether this node has partitions. */
bool rota_work_broker_cluster_is_placed(const struct rota_broker_cluster *cluster);

/* Whether a node is listed, this one included. */
bool rota_work_broker_cluster_is_listed(const struct rota_broker_cluster *cluster,
                                        struct rota_str address);

/* Call a method of the node at `address`, as rota_channel_call() does. The call is marked as
 * coming from a node, so that it is not forwarded again: see rota_work_broker_cluster_is_carried().
 * A `timeout` of 0 is ROTA_BROKER_CLUSTER_TIMEOUT, ROTA_TIME_NEVER means no timeout. A peer that
 * is no longer listed may still be called. */
enum rota_code rota_work_broker_cluster_call(struct rota_broker_cluster *cluster,
                                             struct rota_str address,
                                             const struct rota_call_options *options,
                                             struct rota_call **call, struct rota_error *error);

/* Whether the node at `address` is reachable, as far as is known; and try to connect, if it is
 * unknown or was unreachable. */
enum rota_reach rota_work_broker_cluster_reach(const struct rota_broker_cluster *cluster,
                                               struct rota_str address);
void rota_work_broker_cluster_connect(struct rota_broker_cluster *cluster, struct rota_str address);

/* Whether the metadata of a call says that it comes from a node: it is answered here, or
 * rejected. */
#define ROTA_NOTE_HOPS "rota-hops"

/* The number of the view that the call follows: the sender's, unless its options have a later one.
 * In a rejection also the owner of the partition by that view. */
#define ROTA_NOTE_VIEW  "rota-view"
#define ROTA_NOTE_OWNER "rota-owner"

/* In a rejection: nothing was done, and another partition may accept it. */
#define ROTA_NOTE_ELSEWHERE "rota-elsewhere"

/* With NOT_FOUND, between nodes: a hash of the nodes that may hold jobs, as the answering node
 * knows them (rota_broker_nodes_hash). */
#define ROTA_NOTE_NODES "rota-nodes"

/* ... one of this many, from 0: new jobs of the queue go to these. */
#define ROTA_NOTE_PARTITIONS "rota-partitions"

/* In a rejection: the attempt is over because the job was cancelled. */
#define ROTA_NOTE_CANCELLED "rota-cancelled"

bool rota_work_broker_cluster_is_carried(const struct rota_metadata *metadata, size_t n);

/* The number of the view that is known here, and of the sender of metadata; 0: none. */
uint64_t rota_work_broker_cluster_view(const struct rota_broker_cluster *cluster);
uint64_t rota_work_broker_cluster_view_of(const struct rota_metadata *metadata, size_t n);
