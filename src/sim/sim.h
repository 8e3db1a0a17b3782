/* sim: a world on virtual time, in which machines are tested.
 *
 * The one idea: everything that happens is an event in one queue, and all randomness comes from one
 * seed. The same seed and the same code give the same events in the same order, on every machine,
 * so every failure can be replayed. Days of a cluster pass in a second, since nothing waits.
 *
 * There are nodes 0 .. n-1. Each has clocks that are wrong, timers by those clocks, and a network
 * that delays, loses, repeats and reorders. Nodes crash, restart, and pause for a while without
 * noticing. The user supplies what runs on a node: callbacks that turn events into steps of pure
 * machines, and actions into rota_sim_send() and rota_sim_set_timer(). After every event all checks
 * are called; the first that returns a sentence ends the run.
 *
 *     static void on_start(void *data, uint32_t node)       // fresh state
 *     {
 *         drive(data, node, (struct event){.type = TICK});
 *     }
 *     static void drive(struct world *w, uint32_t node, struct event event)
 *     {
 *         rota_time now = rota_sim_mono(w->sim, node);
 *         struct actions todo = fsm_step(&w->fsm[node], now, &event);
 *         rota_sim_set_timer(w->sim, node, 0, ROTA_SIM_MONO, fsm_deadline(&w->fsm[node]));
 *         if (todo.ask)
 *             rota_sim_send(w->sim, node, SERVER, rota_str_of(&ask, sizeof ask));
 *     }
 *     static const char *at_most_one(void *data)
 *     {
 *         return holders(data) > 1 ? "two nodes hold the lease" : NULL;
 *     }
 *     ...
 *     rota_sim_new(&(struct rota_sim_options){.seed = seed, .n_nodes = 5, ...}, &w.sim, &error);
 *     rota_sim_add_check(w.sim, at_most_one, &w);
 *     rota_sim_chaos_start(&w.chaos, w.sim, &faults);
 *     bool is_fine = rota_sim_run(w.sim, 600 * ROTA_SEC);
 *     rota_sim_free(w.sim);
 *
 * test/sim/sim_world.c is a whole one, with the runner of test/lib/sim_main.h.
 *
 * The rules of this world:
 *  - True time starts at 0 and is known to checks only. A node's clocks start
 *    with a skew and drift from the seed. The wall clock jumps on request.
 *  - The monotonic clock starts at another value after each restart, so a
 *    reading that is kept across a restart or sent to others shows as an error.
 *  - A crash ends all timers of the node and the messages it had received but
 *    not handled. Messages still in flight arrive at the node that is up then: a
 *    restarted node gets messages to its former incarnation. While it is down they
 *    vanish.
 *  - A paused node gets no events. When it resumes it gets all that came
 *    due, in the order in which it did, at clocks that went on.
 *  - A cut between two nodes loses what is sent during it; what was in flight
 *    before still arrives. A message to oneself is never lost or repeated.
 *  - A timer is due as soon as its clock shows its time or
 *    more; a jump of the wall clock moves its timers with it.
 *  - Callbacks of the world run on no node and are never delayed.
 *
 * The user manages durable state: what on_crash does not clear is what a disk would keep, so
 * on_crash is also the place to lose what was not yet synced.
 *
 * A mistake of the simulation itself (too many events, too large a message, no memory, time that
 * is stuck) ends the run the way a check does. */
#pragma once

#include "sim/sim_clock.h"
#include <rota/experimental/random.h>

#include <rota/error.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROTA_SIM_NODES_MAX = 4096,
    ROTA_SIM_TIMERS_MAX = 4096,           /* of one node */
    ROTA_SIM_CHECKS_MAX = 16,             /* of one world */
    ROTA_SIM_PENDING_MAX = 1 << 20,       /* pending events */
    ROTA_SIM_MESSAGE_MAX = 1 << 20,       /* bytes */
    ROTA_SIM_INSTANT_EVENTS_MAX = 200000, /* at one time; then time does not advance */
    ROTA_SIM_TEXT_MAX = 256,              /* of a sentence or a line, with its NUL */
};

/* Events later than this never happen. */
#define ROTA_SIM_TIME_MAX (36500 * ROTA_DAY)

/* What the wall clock shows, without skew, at the start: 2026-01-01T00:00:00Z. */
#define ROTA_SIM_WALL_START (1767225600 * ROTA_SEC)

#define ROTA_SIM_NO_NODE UINT32_MAX

struct rota_sim;

/* How messages travel. The delay is `delay_min` and an exponential tail with
 * the given mean in all, cut at `delay_max`; all three 0: 1, 5 and 200 ms.
 * Reordering falls out of the delay. */
struct rota_sim_link {
    rota_time delay_min, delay_mean, delay_max;
    double loss;        /* the probability that a message is lost */
    double duplication; /* the probability that it arrives twice, each with its own delay */
};

enum rota_sim_kind {
    ROTA_SIM_STARTED, /* number: which life of the node, from 1 */
    ROTA_SIM_CRASHED, /* number: the life that ended */
    ROTA_SIM_PAUSED,
    ROTA_SIM_RESUMED,  /* number: how many events had arrived meanwhile */
    ROTA_SIM_JUMPED,   /* number: by how much, of the wall clock, as an int64_t */
    ROTA_SIM_DRIFTED,  /* number: ppm, as an int64_t */
    ROTA_SIM_SPLIT,    /* number: the group of `node` from now on */
    ROTA_SIM_BLOCKED,  /* number: 1, or 0 when opened again; `node` to `peer` */
    ROTA_SIM_HEALED,   /* all splits and blocks */
    ROTA_SIM_LOST,     /* on sending, from `node` to `peer`; bytes */
    ROTA_SIM_MESSAGE,  /* at `node`, from `peer`; bytes */
    ROTA_SIM_VANISHED, /* the same, but the node is down */
    ROTA_SIM_TIMER,    /* number: of the timer */
    ROTA_SIM_CALL,     /* number: the caller's */
    ROTA_SIM_NOTE,     /* bytes: text */
};

/* One line of the trace. */
struct rota_sim_event {
    rota_time at; /* true time */
    enum rota_sim_kind kind;
    uint32_t node, peer; /* ROTA_SIM_NO_NODE: none */
    uint64_t number;
    struct rota_str bytes;
};

struct rota_sim_options {
    uint64_t seed;
    uint32_t n_nodes; /* 1 .. ROTA_SIM_NODES_MAX; all start at time 0 */

    struct rota_sim_link link; /* of every pair without one of its own */
    rota_time skew_max;        /* wall clocks start within this of the truth */
    int32_t drift_max_ppm;     /* and all clocks drift by no more than this */

    /* A node starts; forget what was in memory, read the disk. */
    void (*on_start)(void *data, uint32_t node);
    /* A node has crashed: it can't send or set timers. May be NULL. */
    void (*on_crash)(void *data, uint32_t node);
    void (*on_message)(void *data, uint32_t node, uint32_t from, struct rota_str message);
    void (*on_timer)(void *data, uint32_t node, uint32_t timer);
    void *data; /* kept */

    /* Receives everything that happens; changes nothing. May be NULL. */
    void (*on_trace)(void *data, const struct rota_sim_event *event);
    void *trace_data; /* kept */
};

/* Make a world; nothing happens before rota_sim_run(). Gives `*sim`. Refuses
 * too many nodes, a link or a clock out of bounds. */
enum rota_code rota_sim_new(const struct rota_sim_options *options, struct rota_sim **sim,
                            struct rota_error *error);
void rota_sim_free(struct rota_sim *sim);

/* Run until `until`; with ROTA_TIME_NEVER, until no event is left. False when a check failed,
 * now or before. */
bool rota_sim_run(struct rota_sim *sim, rota_time until);

/* Let the next event happen; false when there is none or a check spoke up. */
bool rota_sim_step(struct rota_sim *sim);

/* --- checks --- */

/* Ask `check` after every event; a sentence, copied at once, ends the run. */
void rota_sim_add_check(struct rota_sim *sim, const char *(*check)(void *data), void *data);

/* End the run with a sentence: for what only a callback can see, or for what
 * must be true at the end. The first sentence is kept. */
void rota_sim_fail(struct rota_sim *sim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The sentence that ended the run, or NULL. */
const char *rota_sim_violation(const struct rota_sim *sim);

/* --- questions --- */

rota_time rota_sim_now(const struct rota_sim *sim);       /* true time, from 0 */
rota_time rota_sim_true_wall(const struct rota_sim *sim); /* a perfect wall clock */
uint64_t rota_sim_n_events(const struct rota_sim *sim);   /* how many have happened */
uint64_t rota_sim_trace_hash(const struct rota_sim *sim); /* of all that happened so far */
uint64_t rota_sim_seed(const struct rota_sim *sim);
uint32_t rota_sim_n_nodes(const struct rota_sim *sim);

/* Chance for the user; the world itself draws from elsewhere, so that drawing
 * here more or less often changes no fault and no delay by itself. */
struct rota_random *rota_sim_random(struct rota_sim *sim);

/* --- nodes and their clocks --- */

bool rota_sim_is_up(const struct rota_sim *sim, uint32_t node);
bool rota_sim_is_paused(const struct rota_sim *sim, uint32_t node);
uint32_t rota_sim_life(const struct rota_sim *sim, uint32_t node); /* 0: not started yet */

rota_time rota_sim_mono(const struct rota_sim *sim, uint32_t node);
rota_time rota_sim_wall(const struct rota_sim *sim, uint32_t node);

enum rota_sim_clock_kind { ROTA_SIM_MONO, ROTA_SIM_WALL };

/* Set the node's timer number `timer`, again if it was set; ROTA_TIME_NEVER unsets it. A time
 * that has passed is due at once. The node is up. */
void rota_sim_set_timer(struct rota_sim *sim, uint32_t node, uint32_t timer,
                        enum rota_sim_clock_kind clock, rota_time at);

/* Send a copy of `message`. The node `from` is up. */
void rota_sim_send(struct rota_sim *sim, uint32_t from, uint32_t to, struct rota_str message);

/* Call back at true time `at`: for faults, operators, load. `number` is the
 * caller's and in the trace; `data` is kept. */
void rota_sim_call(struct rota_sim *sim, rota_time at, void (*call)(void *data, uint64_t number),
                   void *data, uint64_t number);

/* A line for the trace; costs nothing without one. */
void rota_sim_note(struct rota_sim *sim, uint32_t node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* --- faults: at once, and no-ops where they make no sense --- */

/* A node must not crash itself in the middle of a callback. */
void rota_sim_crash(struct rota_sim *sim, uint32_t node);
void rota_sim_start(struct rota_sim *sim, uint32_t node);
void rota_sim_pause(struct rota_sim *sim, uint32_t node);
void rota_sim_resume(struct rota_sim *sim, uint32_t node);

void rota_sim_jump_wall(struct rota_sim *sim, uint32_t node, rota_time by);
void rota_sim_set_wall(struct rota_sim *sim, uint32_t node, rota_time wall);
/* Set the wall clock as right as it was at the start, when it had its skew. */
void rota_sim_sync_wall(struct rota_sim *sim, uint32_t node);
void rota_sim_set_drift(struct rota_sim *sim, uint32_t node, int32_t drift_ppm);

/* Lose, or no longer lose, all that `from` sends to `to`. */
void rota_sim_block(struct rota_sim *sim, uint32_t from, uint32_t to, bool is_blocked);

/* Let only nodes of the same group reach each other: `groups[node]`. */
void rota_sim_split(struct rota_sim *sim, const uint8_t *groups);

/* Undo every block and split. */
void rota_sim_heal(struct rota_sim *sim);

/* Give one direction of one pair a link of its own; NULL: the common one. */
void rota_sim_set_link(struct rota_sim *sim, uint32_t from, uint32_t to,
                       const struct rota_sim_link *link);

/* --- helpers --- */

/* A duration with an exponential distribution; integer arithmetic, so that it is the same on
 * every machine. */
rota_time rota_sim_exponential(struct rota_random *random, rota_time mean);

/* A trace line as text, without a newline. Returns `text`. */
char *rota_sim_event_format(const struct rota_sim_event *event, char text[ROTA_SIM_TEXT_MAX]);
