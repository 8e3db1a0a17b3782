/* A few nodes that own a space by views, in steps: the machine of core/own/view_fsm.h,
 * and a store that answers at once. */
#pragma once

#include "core/own/view_fsm.h"
#include "view_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { SHARDS = 32, NODES = 3 };

#define TTL (8 * ROTA_SEC)

/* The store: rows as in a simulation, and the view as it is. All answers come at once,
 * unless the store is unreachable or somebody is deaf. */
struct node {
    struct rota_view_fsm fsm;
    bool is_deaf;  /* its asks are lost */
    bool is_blind; /* its reads are */
    uint64_t serving[SHARDS];
    size_t n_stopped, n_started; /* in the last tick */
    size_t n_halts;
    bool is_running;
    uint64_t floor;
    struct rota_view_outcome outcome;
    const struct rota_view_wish *late; /* arrives between its next proposal and the answer */
    bool went_back, is_done;
};

extern struct view_table table;
extern struct rota_view stored;
extern struct node nodes[NODES];
extern rota_time now;
extern uint64_t unix_ms;
extern bool is_keyed; /* the space has no shards; for nodes opened from now on */

void drive(struct node *node, struct rota_view_event event);
void open_node(int i, struct rota_view_fsm_options options);
void open_plain(int i);

/* Let time pass, for all that are there. */
void pass(rota_time span);

int set_up(void **state);
int tear_down(void **state);
uint32_t n_served(int i);
uint32_t n_served_in_all(void);
void wish(int i, struct rota_view_wish made);
