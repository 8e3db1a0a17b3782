/* tree_fsm: how idle workers of one node find the jobs of another.
 *
 * A job stays with the node that has its partition; whoever is idle goes and fetches it. For
 * that two sorts of *words* climb the tree that the partitions of a queue form
 * (<rota/partition.h>), from node to node: a *want*, "I have so many idle slots that can do
 * this", and an *offer*, "so many of my jobs need this, and nobody here is free". Where a want
 * and an offer meet that fit, the node of the want is sent on a *visit*: it polls the node of
 * the offer, directly, and is handed jobs as any poll is. Nothing here hands out a job, so
 * nothing here can hand it out twice: a word that is wrong costs a visit in vain.
 *
 * **The tree.** The parent of a node is who has the parent of its lowest partition; a node
 * without any begins at a partition by chance. Each step leads to a lower partition, so
 * there are no circles while nodes agree on the route; while they do not, a word ends after
 * ROTA_TREE_HOPS. A parent that can't be reached is passed over: the next is the parent's
 * parent, and beyond the root partitions 1, 2, ... in turn, and nodes by their address when all
 * who have partitions are away; so that those who can reach each other meet at one node. Who was
 * passed over is told at every refresh all the same, and is the parent again when it answers.
 *
 * **Belief.** What is said is believed until it is used up by a visit, denied, or 3 refreshes
 * old. A word is said when there is something to say that is not believed already; when the
 * last slot is taken or the last job is gone nothing is said, so that a queue whose workers
 * are now idle, now busy costs no messages. Who is sent on a visit, or visited, knows that its
 * word is used up, and says how it is now; in vain: takes back what is not so any more. Every
 * ROTA_TREE_REFRESH all is said anew, and an offer that is over is denied once: the node that sends
 * visitors adds to an offer when a visitor does not go, so it may believe more than was said.
 *
 * **The bound.** With `d` the steps from a node to where the tree is entered by both (at most
 * the depth of the partition tree: 1 for up to 21 partitions, 2 for up to 421) a job that
 * waits while a worker that can take it is idle, anywhere, is handed out within
 *
 *     d + 2 round trips                              when what is believed is true,
 *     + 1 visit, which is another d + 2, and ROTA_TREE_PAUSE
 *                                                    for every belief that was out of date,
 *     + 3 ROTA_TREE_REFRESH and the time-out of one call
 *                                                    after messages or nodes were lost.
 *
 * (An offer climbs d, the visitor is told and comes: d + 2 one-way. It may have to wait for a
 * visit that is on its way, for that has used the last word up, and goes then: twice as
 * much.) What a visitor took with it to its death comes back when the lease is over.
 *
 * Events may be late, twice, out of order or lost. Everything that grows is bounded; beyond
 * the bound words are not taken in, and counted. */
#pragma once

#include "base/map.h"
#include "base/vector.h"

#include <rota/error.h>
#include <rota/random.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROTA_TREE_DEGREE = 20,
    ROTA_TREE_HOPS = 8,          /* more than any tree is deep */
    ROTA_TREE_PARENTS_MAX = 16,  /* that are tried */
    ROTA_TREE_WORDS_MAX = 16384, /* that are believed, of all queues */
    ROTA_TREE_VISITS_MAX = 4096, /* under way that we have caused */
    ROTA_TREE_NODE_MAX = 256,    /* bytes of an address */
    ROTA_TREE_CAN_MAX = 16640,   /* bytes of a list of capabilities: 256 of 64, and blanks */
};

#define ROTA_TREE_REFRESH (1 * ROTA_SEC)
#define ROTA_TREE_PAUSE   (20 * ROTA_MSEC) /* after a visit in vain */

enum rota_tree_kind {
    ROTA_TREE_WANT,  /* `n` slots of `node` are idle and can do `can` */
    ROTA_TREE_OFFER, /* `n` jobs of `node` wait, and need `can` */
};

/* What a node says of itself; `n` of 0 takes it back. `can` is names in order, each with a
 * blank behind. All is borrowed. */
struct rota_tree_word {
    enum rota_tree_kind kind;
    struct rota_str node, queue, can;
    uint64_t stamp; /* grows with every word of a node */
    uint32_t n;
    uint32_t hops; /* that it has made */
    rota_time age; /* span: since when the oldest waits */
};

enum rota_tree_action_type {
    ROTA_TREE_DO_TELL,  /* tell `to` the word */
    ROTA_TREE_DO_VISIT, /* have `to` (maybe ourselves) visit `word.node` for up to `word.n` jobs
                           of `word.queue` that need `word.can`; answer with `visit` */
};

/* What it points to stays until rota_tree_fsm_clear(). */
struct rota_tree_action {
    enum rota_tree_action_type type;
    struct rota_str to;
    struct rota_tree_word word;
    uint64_t visit; /* number, never 0 */
};

struct rota_tree_fsm;

struct rota_tree_options {
    struct rota_str self; /* our address; copied */
    uint64_t stamp;       /* above all of a former life: the wall clock will do */
    uint64_t seed;
    uint32_t partitions; /* of a queue */
    uint32_t degree;     /* 0: ROTA_TREE_DEGREE */

    /* Who has a partition; empty: nobody knows. Borrowed until the route changes. */
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

/* --- how it is here --- */

/* All idle slots and all waiting jobs of ours, between a begin and an end; what is not named
 * there is none. A worker of several queues is named with each. `oldest` is by the clock of
 * `now`. */
void rota_tree_fsm_begin(struct rota_tree_fsm *fsm, rota_time now);
void rota_tree_fsm_have(struct rota_tree_fsm *fsm, enum rota_tree_kind kind, struct rota_str queue,
                        struct rota_str can, uint32_t n, rota_time oldest);
void rota_tree_fsm_end(struct rota_tree_fsm *fsm);

/* We were sent on a visit for a queue, and `n` slots go. */
void rota_tree_fsm_sent(struct rota_tree_fsm *fsm, rota_time now, struct rota_str queue,
                        uint32_t n);

/* Somebody polled us for a queue and was given `n` jobs. */
void rota_tree_fsm_visited(struct rota_tree_fsm *fsm, rota_time now, struct rota_str queue,
                           uint32_t n);

/* Another route. */
void rota_tree_fsm_routed(struct rota_tree_fsm *fsm, rota_time now);

/* --- others --- */

/* A word has come. One that can't be is dropped, and counted. */
void rota_tree_fsm_hear(struct rota_tree_fsm *fsm, rota_time now,
                        const struct rota_tree_word *word);

/* What became of a VISIT, when it is over: `n` slots went; `is_lost` when they found nobody
 * there. Said of every one, also of one whose call failed. */
void rota_tree_fsm_answered(struct rota_tree_fsm *fsm, rota_time now, uint64_t visit, uint32_t n,
                            bool is_lost);

/* A call to a node failed, or went well. */
void rota_tree_fsm_failed(struct rota_tree_fsm *fsm, rota_time now, struct rota_str node);
void rota_tree_fsm_reached(struct rota_tree_fsm *fsm, rota_time now, struct rota_str node);

/* --- time --- */

void rota_tree_fsm_tick(struct rota_tree_fsm *fsm, rota_time now);
rota_time rota_tree_fsm_deadline(const struct rota_tree_fsm *fsm);

/* --- questions --- */

/* Whom words of a queue are told; empty when words end here. */
struct rota_str rota_tree_fsm_parent(struct rota_tree_fsm *fsm, struct rota_str queue);

struct rota_tree_counts {
    size_t words;               /* that are believed, ours included */
    size_t visits;              /* under way */
    size_t down;                /* nodes that can't be reached */
    uint64_t said_total;        /* words of ours */
    uint64_t passed_total;      /* of others, to our parent */
    uint64_t visits_total;      /* caused */
    uint64_t visits_vain_total; /* ... that nobody went on */
    uint64_t dropped_total;     /* words, for want of room or sense */
};
struct rota_tree_counts rota_tree_fsm_counts(const struct rota_tree_fsm *fsm);

/* Whether all of `needed` is in `offered`, both as in a word. */
bool rota_tree_can(struct rota_str offered, struct rota_str needed);
