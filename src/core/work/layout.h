/* layout: how many partitions a queue has and how they are spread over nodes, and how that is
 * changed while jobs come and go.
 *
 * A queue is *written* to partitions 0 to write - 1 and *read* from 0 to read - 1; `wanted` is
 * what both are to become. Nodes learn of a change one after the other, so it is made in steps,
 * and between two nodes that are one step apart no job is out of reach:
 *
 *     more:   read = wanted;  when all nodes know that: write = wanted
 *     fewer:  write = wanted; when all nodes know that, and none has a job beyond: read = wanted
 *
 * The first step is made by whoever is asked, the second by the one node that *leads* the queue
 * (that has its partition 0): it asks all others again and again, and layout_fsm below says when
 * it has heard enough. Batch and mode move partitions as another list of nodes does. They change
 * at once, or gradually: each partition then changes at an instant of its own, which every node
 * computes from the layout and the wall clock (<rota/gradual.h>). Nothing but the layout has to
 * survive for such a change to go on, so it outlives the node that was asked for it.
 *
 * Every layout has a time. Of two the later one counts, and of two that were made at the same
 * time the one with the higher numbers, so that all nodes end up with the same; a step is one tick
 * later than the layout that it follows from, so that whatever is wished meanwhile counts more than
 * it.
 *
 * A job whose number is beyond those that are written, as a client may choose that knows of
 * more, is put where rota_layout_write() says; one that is beyond those that are read belongs to
 * whom rota_layout_read() says. So every number has a place at any time.
 *
 * Invariant: 1 <= write <= wanted <= read. */
#pragma once

#include <rota/config.h>
#include <rota/error.h>
#include <rota/route.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROTA_LAYOUT_CHANGE_MAX (24 * ROTA_HOUR) /* how long a gradual change may take */

/* A gradual change to the spread of a layout. All zero: there is none. */
struct rota_layout_change {
    struct rota_spread from;
    rota_time start, end; /* wall clock */
};

struct rota_work_layout {
    uint32_t wanted, write, read; /* partitions */
    struct rota_spread spread;
    struct rota_layout_change change; /* kept after its end: it says nothing then */
};

/* ROTA_ERR_INVALID: it breaks the invariants, or is out of bounds. */
enum rota_code rota_layout_check(const struct rota_work_layout *layout, struct rota_error *error);

bool rota_layout_is_equal(const struct rota_work_layout *a, const struct rota_work_layout *b);

/* Whether `a` counts more than `b`, given when they were made. */
bool rota_layout_is_later(const struct rota_work_layout *a, rota_time a_at,
                          const struct rota_work_layout *b, rota_time b_at);

struct rota_layout_wish {
    uint32_t wanted; /* partitions; 0: as many as before */
    bool has_spread; /* otherwise the spread, and a change of it that is under way, stay */
    struct rota_spread spread;
    rota_time gradual; /* how long the change of the spread takes; 0: none, it happens at once */
};

/* The first step from what is in force at `now` (wall clock) to what is wished: `*next`.
 *
 * A gradual change to another spread than the one under way is refused with ROTA_ERR_INVALID: the
 * partitions that changed already would jump. A change at once ends one that is under way, and a
 * wish for the same spread leaves it alone, so it may be repeated. */
enum rota_code rota_layout_want(const struct rota_work_layout *layout,
                                const struct rota_layout_wish *wish, rota_time now,
                                struct rota_work_layout *next, struct rota_error *error);

/* Whether partitions of it have yet to change at `now` (wall clock). */
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

/* Where a new job of `partition` goes, and who reads a job of it. */
uint32_t rota_layout_write(const struct rota_work_layout *layout, uint32_t partition);
uint32_t rota_layout_read(const struct rota_work_layout *layout, uint32_t partition);

/* --- the second step --- */

#define ROTA_LAYOUT_ASK (500 * ROTA_MSEC) /* between two rounds */

/* In fewer rounds a job that moves from one node to another while they are asked might be at
 * neither. */
enum { ROTA_LAYOUT_ROUNDS = 2 };

/* Zeroed to begin with. */
struct rota_layout_fsm {
    struct rota_work_layout layout;
    rota_time at;      /* of the layout; 0: nothing is known */
    rota_time ask_at;  /* the clock of `now` */
    uint64_t round;    /* that is under way or was the last */
    size_t n_awaited;  /* answers */
    bool is_asking;    /* a round is under way */
    bool is_known;     /* by all who have answered in it */
    bool is_empty;     /* the same: nobody has a job beyond */
    unsigned n_rounds; /* in a row, in which both were so */
};

/* This is in force, since `at`. Another one than before begins from the start: what was heard
 * of the former says nothing. */
void rota_layout_fsm_look(struct rota_layout_fsm *fsm, rota_time now,
                          const struct rota_work_layout *layout, rota_time at);

/* Another node leads it: nothing is asked, and what was heard does not count any more. */
void rota_layout_fsm_rest(struct rota_layout_fsm *fsm);

/* Whether to ask all others now, `n` of them; then a round begins, whose number goes with each
 * answer. */
bool rota_layout_fsm_ask(struct rota_layout_fsm *fsm, rota_time now, size_t n);

/* A node says what layout it has, of when, and how many jobs beyond those that are written. One
 * that does not answer has none: NULL. Answers of former rounds are passed over. */
void rota_layout_fsm_answer(struct rota_layout_fsm *fsm, uint64_t round,
                            const struct rota_work_layout *layout, rota_time at, uint64_t n_beyond);

/* Whether all have answered: a step may be due. */
bool rota_layout_fsm_is_answered(const struct rota_layout_fsm *fsm);

/* True when the next step is due, with the layout that it makes; it is to be put in force one
 * tick after the present one. `n_beyond` are our own jobs. */
bool rota_layout_fsm_step(struct rota_layout_fsm *fsm, rota_time now, uint64_t n_beyond,
                          struct rota_work_layout *next);

/* When to look again; ROTA_TIME_NEVER: an answer or another layout has to come first. */
rota_time rota_layout_fsm_deadline(const struct rota_layout_fsm *fsm);
