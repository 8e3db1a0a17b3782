/* broker_cluster: the nodes that hold the queues together, and which of them has what.
 *
 * A *node* is a broker that serves; it has an address, and its peers are the other nodes
 * that are listed. Partition p of a queue belongs to the node that the ring of the listed
 * nodes gives for it; everybody who has the same list says the same, without asking. While
 * lists differ two nodes may both hold a partition for theirs; whoever acts on a route has
 * to be right all the same.
 *
 * Without a source of members a node is alone, has no peers, and everything is its own. A
 * node that is not listed has nothing; that is how it is emptied.
 *
 * All of it lives on the loop's thread; callbacks come from the loop. */
#pragma once

#include "core/call/list.h"
#include "core/work/job.h"
#include "core/work/reach.h"

#include <rota/channel.h>
#include <rota/log.h>
#include <rota/members.h>
#include <rota/route.h>

struct rota_broker_cluster;

/* Partitions of a queue are spread sixteen at a time, as `rota route --batch 16 --mode slots`
 * shows, unless its layout says otherwise: each node gets its share of every queue, and little
 * moves when nodes come and go. */
enum { ROTA_BROKER_CLUSTER_BATCH = 16 };
#define ROTA_BROKER_CLUSTER_SPREAD                                                                 \
    ((struct rota_spread){.mode = ROTA_SPREAD_SLOTS, .batch = ROTA_BROKER_CLUSTER_BATCH})

#define ROTA_BROKER_CLUSTER_TIMEOUT (10 * ROTA_SEC) /* of a call to a peer that says none */

struct rota_broker_cluster_options {
    struct rota_members_source *source; /* of the nodes; taken, also on failure; NULL: alone */
    const char *self;                   /* our address as it is listed; may be NULL when alone */
    uint32_t partitions;                /* of each queue that has no layout */
    struct rota_tls *tls;               /* to peers, kept; NULL: plain text */
    bool insecure;                      /* plain text to peers on other machines */
    const char *token;                  /* of calls to peers, as in <rota/channel.h>; kept */
    bool is_client;                     /* no node itself: its calls may be carried on */
    const struct rota_log *log;         /* kept; NULL: none */
};

/* Gives `*cluster`; rota_broker_cluster_close() ends it. A list of nodes that is at hand, as
 * that of a file, is known when this returns. */
enum rota_code rota_broker_cluster_open(struct uv_loop_s *loop,
                                        const struct rota_broker_cluster_options *options,
                                        struct rota_broker_cluster **cluster,
                                        struct rota_error *error);

/* Takes `cluster`, which may be NULL. Calls to peers are dropped, and no callback comes
 * after. The loop has to run once more to free everything. */
void rota_broker_cluster_close(struct rota_broker_cluster *cluster);

/* --- the route --- */

bool rota_broker_cluster_is_alone(const struct rota_broker_cluster *cluster);
struct rota_str rota_broker_cluster_self(const struct rota_broker_cluster *cluster);
uint32_t rota_broker_cluster_n_partitions(const struct rota_broker_cluster *cluster);

/* How every queue is laid out to begin with. */
struct rota_work_layout rota_broker_cluster_default(uint32_t partitions);

/* Another number of partitions that every queue begins with: of a client, which has learned it. */
void rota_broker_cluster_set_partitions(struct rota_broker_cluster *cluster, uint32_t partitions);

/* Partitions and spread of a queue: those that were set, or those that all begin with. */
struct rota_work_layout rota_broker_cluster_layout(const struct rota_broker_cluster *cluster,
                                                   struct rota_str queue);

/* The queue is laid out so from now on; false without memory, or for one too many. Who has changed
 * some tells it. */
bool rota_broker_cluster_lay_out(struct rota_broker_cluster *cluster, struct rota_str queue,
                                 const struct rota_work_layout *layout);
void rota_broker_cluster_laid_out(struct rota_broker_cluster *cluster);

/* The address of the node that has the partition, borrowed until the route changes; empty
 * when no node is known. One that the queue does not have belongs to the owner of one that it
 * has. */
struct rota_str rota_broker_cluster_owner(struct rota_broker_cluster *cluster,
                                          struct rota_str queue, uint32_t partition);
bool rota_broker_cluster_is_ours(struct rota_broker_cluster *cluster, struct rota_str queue,
                                 uint32_t partition);

/* The owners of all `n` partitions of a queue on any ring, as numbers of its hosts. */
void rota_broker_cluster_route(const struct rota_ring *ring, struct rota_str queue,
                               struct rota_spread spread, uint32_t n, uint32_t *hosts);

/* Grows with every change of the route. */
uint64_t rota_broker_cluster_version(const struct rota_broker_cluster *cluster);

/* The one partition of the queue where jobs with this unique key go. It stays the same when the
 * queue gets more partitions; fewer than all begin with move some keys. */
uint32_t rota_broker_cluster_partition_of(const struct rota_broker_cluster *cluster,
                                          struct rota_str queue, struct rota_str unique);

/* The partition of a job with this id, whatever the layout of its queue: rota_job_id_place(). */
uint32_t rota_broker_cluster_place(const struct rota_broker_cluster *cluster,
                                   struct rota_job_id id);

/* Be told of every change of the route, after it has happened. The struct is the caller's
 * and stays until it unsubscribes, which it may do at any time, also from inside. */
struct rota_broker_cluster_subscriber {
    void (*on_route)(void *data);
    void *data;
    struct rota_list_node link;
};
void rota_broker_cluster_subscribe(struct rota_broker_cluster *cluster,
                                   struct rota_broker_cluster_subscriber *subscriber);
void rota_broker_cluster_unsubscribe(struct rota_broker_cluster_subscriber *subscriber);

/* --- peers --- */

/* The address of a peer that is listed, by number from 0, in the order of the addresses;
 * borrowed until the route changes. Empty for a number that is too high. */
struct rota_str rota_broker_cluster_peer(const struct rota_broker_cluster *cluster, size_t index);
size_t rota_broker_cluster_n_peers(const struct rota_broker_cluster *cluster);

/* A node that is listed, this one included, by number from 0; `is_placed`: it has partitions.
 * False for a number that is too high. */
bool rota_broker_cluster_member(const struct rota_broker_cluster *cluster, size_t index,
                                struct rota_str *address, bool *is_placed);

/* Whether a node is listed, this one included. */
bool rota_broker_cluster_is_listed(const struct rota_broker_cluster *cluster,
                                   struct rota_str address);

/* Call a method of the node at `address`, as rota_channel_call() does. The call says that it
 * comes from a node and is not to be carried on: see rota_broker_cluster_is_carried(). A
 * `timeout` of 0 is ROTA_BROKER_CLUSTER_TIMEOUT, ROTA_TIME_NEVER is none. A peer that is not
 * listed any more may still be called. */
enum rota_code rota_broker_cluster_call(struct rota_broker_cluster *cluster,
                                        struct rota_str address,
                                        const struct rota_call_options *options,
                                        struct rota_call **call, struct rota_error *error);

/* Whether the node at `address` can be reached, as far as is known; and try to, if it is not known
 * or it could not be. */
enum rota_reach rota_broker_cluster_reach(const struct rota_broker_cluster *cluster,
                                          struct rota_str address);
void rota_broker_cluster_connect(struct rota_broker_cluster *cluster, struct rota_str address);

/* Whether the metadata of a call says that it comes from a node: it is answered here, or
 * refused. */
#define ROTA_NOTE_HOPS "rota-hops"

/* In a refusal: nothing was done, and another partition may do. */
#define ROTA_NOTE_ELSEWHERE "rota-elsewhere"

/* With NOT_FOUND, between nodes: a hash of those that may hold jobs, as the one that answers knows
 * them (rota_broker_nodes_hash). */
#define ROTA_NOTE_NODES "rota-nodes"

/* ... of so many, from 0: new jobs of the queue go to these. */
#define ROTA_NOTE_PARTITIONS "rota-partitions"

/* In a refusal: the attempt is over because the job was cancelled. */
#define ROTA_NOTE_CANCELLED "rota-cancelled"

bool rota_broker_cluster_is_carried(const struct rota_metadata *metadata, size_t n);
