/* Rules of every engine of a space: the same checks, run over all of them.
 *
 * Nodes are in one process, each on a loop of its own: one whose loop is not run is as good as a
 * process that was stopped. Whatever is started is held against the truth, which knows of all
 * nodes: an epoch has one owner, epochs only grow, and no node starts a shard while another may
 * still believe that it owns it. */
#pragma once

#include "database.h"
#include "io/clock.h"
#include "io/sql/sql.h"
#include "wire/grpc/call_notes.h"

#include <rota/experimental/channel.h>
#include <rota/server.h>
#include <rota/space.h>
#include <rota/store.h>

#include <uv.h>

enum { NODES = 3, SHARDS = 12, WAIT_MAX_S = 120 };

struct kind {
    const char *engine;
    bool can_pin;
    bool is_replaced; /* what a dead node had goes to others; else it waits for the node */
};

struct node {
    const char *address;
    uv_loop_t loop;
    uv_timer_t ticking; /* so that its loop never waits for long */
    struct rota_store *store;
    struct rota_claims *claims;
    struct rota_space *space;
    bool is_open, is_frozen;
    bool is_slow;             /* it answers a stop only when told to */
    uint64_t stops[SHARDS];   /* not answered: their epochs */
    uint64_t started[SHARDS]; /* the epochs under which they are held; 0: they are not */
    size_t n_held, n_starts, n_stops, n_changes, n_drained, n_closed, n_outcomes;
    struct rota_space_outcome outcome;
    char text[ROTA_SPACE_TEXT_MAX];
};

extern struct node nodes[NODES];

/* By shard: the highest epoch that was ever started, and by whom. */
extern struct truth {
    uint64_t epoch;
    const struct node *owner;
} truth[SHARDS];

extern const struct kind *kind;

/* Wait until a loop has something to do, and let them all do it. */
void run_some(void);

/* Run all until it is so. */
#define AWAIT(condition)                                                                           \
    do {                                                                                           \
        rota_time late = rota_clock_boot() + WAIT_MAX_S * ROTA_SEC;                                \
        while (!(condition)) {                                                                     \
            if (rota_clock_boot() > late)                                                          \
                fail_msg("engine %s: waited in vain for: %s", kind->engine, #condition);           \
            run_some();                                                                            \
        }                                                                                          \
    } while (0)

void node_on_outcome(void *data, const struct rota_space_outcome *outcome);
size_t n_held(void);
bool all_know_all(void);
void world_open(const struct kind *of, rota_time with_ttl);
void world_close(void);
void check_one_owner_each(void);
void check_explain(void);
void check_stale_epoch_is_refused(void);
void check_drain_owns_nothing(void);

/* A user that takes its time is waited for, and may end what it does. */
void check_stop_is_waited_for(void);

void check_loss_of_the_store_stops_everything(void);
void check_dead_node_is_replaced_and_refused(void);
void check_pin_moves_one_shard_only(void);
void check_dry_run_changes_nothing(void);
