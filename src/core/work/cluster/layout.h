/* layout: how many partitions a queue has and how they are spread over nodes, and how that is
 * changed while in use.
 *
 * A queue is *written* to partitions 0 to write - 1 and *read* from 0 to read - 1; `wanted` is what
 * both are to become. Nodes learn of a change one after the other, so it is made in steps, and
 * between two nodes that are one step apart no job is out of reach:
 *
 *     more:   read = wanted;  when all nodes know that: write = wanted
 *     fewer:  write = wanted; when all nodes know that, and none has a job beyond: read = wanted
 *
 * The node that receives the request makes the first step, the one node that *leads* the queue
 * (that has its partition 0) the second: it asks all others repeatedly, and layout_fsm below says
 * when it has enough answers. A change of batch or mode moves partitions, as a change of the nodes
 * does. They change at once, or gradually: each partition then changes at an instant of its own,
 * which every node computes from the layout and the wall clock (<rota/experimental/gradual.h>).
 * Such a change needs nothing but the layout to continue, so it outlives the node that received the
 * request.
 *
 * A layout is one of the settings of its queue (settings_fsm.h): all nodes have the one of its row.
 * Its time distinguishes it from other layouts; a step is one tick later than the layout that it
 * follows from, and is dropped if another one was put in force meanwhile.
 *
 * A job for a partition beyond those that are written, which a client may choose that knows of
 * more, is put where rota_layout_write() says; one beyond those that are read belongs where
 * rota_layout_read() says. So every number has a place at any time.
 *
 * Invariant: 1 <= write <= wanted <= read. */
#pragma once

#include <rota/error.h>
#include <rota/experimental/config.h>
#include <rota/experimental/route.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROTA_LAYOUT_CHANGE_MAX (24 * ROTA_HOUR) /* the maximum duration of a gradual change */

/* A gradual change to the spread of a layout. All zero: there is none. */
struct rota_layout_change {
    struct rota_spread from;
    rota_time start, end; /* wall clock */
};

struct rota_work_layout {
    uint32_t wanted, write, read; /* partitions */
    struct rota_spread spread;
    struct rota_layout_change change; /* kept after its end, when it has no effect */
};

/* ROTA_ERR_INVALID: it breaks the invariants, or is out of bounds. */
enum rota_code rota_layout_check(const struct rota_work_layout *layout, struct rota_error *error);

bool rota_layout_is_equal(const struct rota_work_layout *a, const struct rota_work_layout *b);

struct rota_layout_wish {
    uint32_t wanted; /* partitions; 0: unchanged */
    bool has_spread; /* otherwise the spread, and a change of it in progress, stay */
    struct rota_spread spread;
    rota_time gradual; /* duration of the change of the spread, from now on; 0: at once */
    struct rota_layout_change change; /* the change itself, instead of that; all zero: none */
};

/* The first step from what is in force at `now` (wall clock) to the request: `*next`.
 *
 * A gradual change to another spread than the one in progress, or at other times than given, is
 * rejected with ROTA_ERR_INVALID: the partitions that changed already would jump. An immediate
 * change ends one in progress, and a request for the same change leaves it alone, so it may be
 * repeated. */
enum rota_code rota_layout_want(const struct rota_work_layout *layout,
                                const struct rota_layout_wish *wish, rota_time now,
                                struct rota_work_layout *next, struct rota_error *error);

/* Whether partitions of it still have to change at `now` (wall clock). */
bool rota_layout_is_changing(const struct rota_work_layout *layout, rota_time now);

/* Batch and mode as gradual settings. */
struct rota_queue_config rota_layout_config(const struct rota_work_layout *layout);

/* Partition `partition` of `queue` as the ring knows it. */
struct rota_partition rota_layout_partition(struct rota_str queue, uint32_t partition);

/* The owners of the first `n` partitions of `queue` at `now` (wall clock), as numbers of hosts of
 * `ring`. */
void rota_layout_route(const struct rota_work_layout *layout, const struct rota_ring *ring,
                       struct rota_str queue, rota_time now, uint32_t n, uint32_t *hosts);

/* Whether nothing is left to do. */
bool rota_layout_is_settled(const struct rota_work_layout *layout);

/* The partition that a new job of `partition` goes to, and the one that reads a job of it. */
uint32_t rota_layout_write(const struct rota_work_layout *layout, uint32_t partition);
uint32_t rota_layout_read(const struct rota_work_layout *layout, uint32_t partition);

/* --- the second step --- */

#define ROTA_LAYOUT_ASK (500 * ROTA_MSEC) /* between two rounds */

/* In fewer rounds a job that moves from one node to another between the answers might be seen at
 * neither. */
enum { ROTA_LAYOUT_ROUNDS = 2 };

/* Initially zeroed. */
struct rota_layout_fsm {
    struct rota_work_layout layout;
    rota_time at;      /* of the layout; 0: nothing is known */
    rota_time ask_at;  /* the clock of `now` */
    uint64_t round;    /* the current one or the last */
    size_t n_awaited;  /* answers */
    bool is_asking;    /* a round is in progress */
    bool is_known;     /* by all nodes that have answered in it */
    bool is_empty;     /* the same: no node has a job beyond */
    unsigned n_rounds; /* in a row in which both were true */
};

/* This is in force, since `at`. A new layout starts over: answers about the former one do not
 * count. */
void rota_layout_fsm_follow_layout(struct rota_layout_fsm *fsm, rota_time now,
                                   const struct rota_work_layout *layout, rota_time at);

/* Another node leads it: do not ask, and forget earlier answers. */
void rota_layout_fsm_rest(struct rota_layout_fsm *fsm);

/* Whether to ask all others now, `n` of them; then a round begins, whose number goes with each
 * answer. */
bool rota_layout_fsm_ask(struct rota_layout_fsm *fsm, rota_time now, size_t n);

/* A node reports its layout, when that was made, and how many jobs beyond the written partitions
 * it has. NULL for a node that does not answer. Answers of former rounds are ignored. */
void rota_layout_fsm_answer(struct rota_layout_fsm *fsm, uint64_t round,
                            const struct rota_work_layout *layout, rota_time at, uint64_t n_beyond);

/* Whether all have answered: a step may be due. */
bool rota_layout_fsm_is_answered(const struct rota_layout_fsm *fsm);

/* True when the next step is due, with the layout that it makes; it is to be put in force one
 * tick after the present one. `n_beyond` are our own jobs. */
bool rota_layout_fsm_step(struct rota_layout_fsm *fsm, rota_time now, uint64_t n_beyond,
                          struct rota_work_layout *next);

/* When to check again; ROTA_TIME_NEVER: an answer or another layout has to come first. */
rota_time rota_layout_fsm_deadline(const struct rota_layout_fsm *fsm);
