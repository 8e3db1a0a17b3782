/* tree_fsm: work stealing: how idle workers of one node find the jobs of another.
 *
 * A job stays with the node that has its partition; idle nodes fetch it. For that two kinds of
 * messages (*words*) climb the tree that the partitions of a queue form
 * (<rota/experimental/partition.h>), from node to node: demand (a *want*), "I have N idle slots
 * with these capabilities", and supply (an *offer*), "N of my jobs need these, and no worker here
 * is free". Where a want and an offer meet that match, the node of the want is sent to steal (a
 * *visit*): it polls the node of the offer, directly, and receives jobs like any poll. This machine
 * hands out no job, so it can't hand one out twice: a wrong word costs a useless visit.
 *
 * **The tree.** The parent of a node is the owner of the parent of its lowest partition; a node
 * without partitions begins at a random one. Each step leads to a lower partition, so there are no
 * cycles while nodes agree on the route; while they do not, a word ends after ROTA_TREE_HOPS. An
 * unreachable parent is skipped: the next is the parent's parent, and beyond the root partitions 1,
 * 2, ... in turn, and nodes by their address when all owners of partitions are unreachable; so that
 * nodes that can reach each other meet at one node. Skipped nodes still get a message at every
 * refresh, and one that answers is the parent again. So one word may arrive by several ways: a node
 * passes on only the first copy, or one with fewer hops, or copies would multiply at every hop.
 *
 * **Belief.** A receiver believes a word until a visit uses it up, it is revoked, or it is 3
 * refreshes old. A node sends a word when the receiver does not believe it already; when the last
 * slot is taken or the last job is gone it sends nothing, so that a queue whose workers alternate
 * between idle and busy costs no messages. A node that is sent on a visit, or visited, knows that
 * its word is used up, and sends its current state; after a useless visit it revokes words that are
 * no longer true. Every ROTA_TREE_REFRESH everything is sent again, and an offer that is over is
 * revoked once: the node that sends visitors adds to an offer when a visitor does not go, so it may
 * believe more than was sent.
 *
 * **The bound.** With `d` the steps from a node to where the tree is entered by both (at most the
 * depth of the partition tree: 1 for up to 21 partitions, 2 for up to 421) a job that waits while a
 * suitable worker is idle, on any node, is handed out within
 *
 *     d + 2 round trips                              when what is believed is true,
 *     + 1 visit, which is another d + 2, and ROTA_TREE_PAUSE
 *                                                    for every belief that was out of date,
 *     + 3 ROTA_TREE_REFRESH and the time-out of one call
 *                                                    after messages or nodes were lost.
 *
 * (An offer climbs d, the visitor is notified and polls: d + 2 one-way. It may have to wait for a
 * visit in flight, which has used the last word up, and starts then: twice as much.) Jobs that a
 * visitor took before it died return when the lease expires.
 *
 * Events may be late, repeated, out of order or lost. Everything that grows is bounded; beyond
 * the bound words are dropped, and counted. */
#pragma once

#include "base/map.h"
#include "base/vector.h"

#include <rota/error.h>
#include <rota/experimental/random.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROTA_TREE_DEGREE = 20,
    ROTA_TREE_HOPS = 8,          /* more than any tree is deep */
    ROTA_TREE_PARENTS_MAX = 16,  /* that are tried */
    ROTA_TREE_WORDS_MAX = 16384, /* believed, of all queues */
    ROTA_TREE_VISITS_MAX = 4096, /* in flight that we have caused */
    ROTA_TREE_NODE_MAX = 256,    /* bytes of an address */
    ROTA_TREE_CAN_MAX = 16640,   /* bytes of a list of capabilities: 256 of 64, and blanks */
};

#define ROTA_TREE_REFRESH (1 * ROTA_SEC)
#define ROTA_TREE_PAUSE   (20 * ROTA_MSEC) /* after a useless visit */

enum rota_tree_kind {
    ROTA_TREE_WANT,  /* `n` slots of `node` are idle and have `can` */
    ROTA_TREE_OFFER, /* `n` jobs of `node` wait, and need `can` */
};

/* What a node reports about itself; `n` of 0 revokes it. `can` is names in order, each followed
 * by a blank. Everything is borrowed. */
struct rota_tree_word {
    enum rota_tree_kind kind;
    struct rota_str node, queue, can;
    uint64_t stamp; /* grows with every word of a node */
    uint32_t n;
    uint32_t hops; /* so far */
    rota_time age; /* duration: how long the oldest has waited */
};

enum rota_tree_action_type {
    ROTA_TREE_DO_TELL,  /* send `to` the word */
    ROTA_TREE_DO_VISIT, /* let `to` (maybe ourselves) visit `word.node` for up to `word.n` jobs of
                           `word.queue` that need `word.can`; answer with `visit` */
};

/* Pointers are valid until rota_tree_fsm_clear(). */
struct rota_tree_action {
    enum rota_tree_action_type type;
    struct rota_str to;
    struct rota_tree_word word;
    uint64_t visit; /* its number, never 0 */
};

struct rota_tree_fsm;

struct rota_tree_options {
    struct rota_str self; /* our address; copied */
    uint64_t stamp;       /* above all of a former run: the wall clock will do */
    uint64_t seed;
    uint32_t partitions; /* of a queue */
    uint32_t degree;     /* 0: ROTA_TREE_DEGREE */

    /* The owner of a partition; empty: unknown. Borrowed until the route changes. */
    struct rota_str (*owner)(void *data, struct rota_str queue, uint32_t partition);
    /* All nodes in the order of their addresses, with or without us; empty ends it. */
    struct rota_str (*node)(void *data, size_t index);
    void *data; /* kept */
};

/* Gives `*fsm`; NULL without memory. */
struct rota_tree_fsm *rota_tree_fsm_new(const struct rota_tree_options *options, rota_time now);
void rota_tree_fsm_free(struct rota_tree_fsm *fsm);

/* What to do, in this order; borrowed until the next call. */
const struct rota_tree_action *rota_tree_fsm_actions(const struct rota_tree_fsm *fsm, size_t *n);
void rota_tree_fsm_clear(struct rota_tree_fsm *fsm);

/* --- our own state --- */

/* All our idle slots and waiting jobs, between a begin and an end; what is not named there is
 * gone. A worker of several queues is named with each. `oldest` is by the clock of `now`. */
void rota_tree_fsm_begin(struct rota_tree_fsm *fsm, rota_time now);
void rota_tree_fsm_have(struct rota_tree_fsm *fsm, enum rota_tree_kind kind, struct rota_str queue,
                        struct rota_str can, uint32_t n, rota_time oldest);
void rota_tree_fsm_end(struct rota_tree_fsm *fsm);

/* We were sent on a visit for a queue, with `n` slots. */
void rota_tree_fsm_sent(struct rota_tree_fsm *fsm, rota_time now, struct rota_str queue,
                        uint32_t n);

/* Another node polled us for a queue and received `n` jobs. */
void rota_tree_fsm_visited(struct rota_tree_fsm *fsm, rota_time now, struct rota_str queue,
                           uint32_t n);

/* The route changed. */
void rota_tree_fsm_routed(struct rota_tree_fsm *fsm, rota_time now);

/* --- others --- */

/* A word has arrived. An invalid one is dropped, and counted. */
void rota_tree_fsm_hear(struct rota_tree_fsm *fsm, rota_time now,
                        const struct rota_tree_word *word);

/* The result of a VISIT, when it is over: `n` slots went; `is_lost` when they did not reach the
 * node. Reported for each, also for one whose call failed. */
void rota_tree_fsm_answered(struct rota_tree_fsm *fsm, rota_time now, uint64_t visit, uint32_t n,
                            bool is_lost);

/* A call to a node failed, or succeeded. */
void rota_tree_fsm_failed(struct rota_tree_fsm *fsm, rota_time now, struct rota_str node);
void rota_tree_fsm_reached(struct rota_tree_fsm *fsm, rota_time now, struct rota_str node);

/* --- time --- */

void rota_tree_fsm_tick(struct rota_tree_fsm *fsm, rota_time now);
rota_time rota_tree_fsm_deadline(const struct rota_tree_fsm *fsm);

/* --- queries --- */

/* The node that gets the words of a queue; empty when words end here. */
struct rota_str rota_tree_parents_one(struct rota_tree_fsm *fsm, struct rota_str queue);

struct rota_tree_counts {
    size_t words;               /* believed, ours included */
    size_t visits;              /* in flight */
    size_t down;                /* unreachable nodes */
    uint64_t said_total;        /* words of ours */
    uint64_t passed_total;      /* of others, to our parent */
    uint64_t visits_total;      /* caused */
    uint64_t visits_vain_total; /* ... on which no node went */
    uint64_t dropped_total;     /* words, for lack of room or because they are invalid */
};
struct rota_tree_counts rota_tree_fsm_counts(const struct rota_tree_fsm *fsm);

/* Whether all of `needed` is in `offered`, both as in a word. */
bool rota_tree_words_can(struct rota_str offered, struct rota_str needed);
