/* The inside of balance.h's cluster: private to its files. */
#pragma once

#include "base/heap.h"
#include "base/histogram.h"
#include "base/list.h"
#include "core/call/hedge.h"
#include "sim/balance.h"
#include "sim/balance_rules.h"

enum { ROTA_BALANCE_OUT_MAX = 2, ROTA_BALANCE_EXCLUDED_MAX = 16 };

#define ROTA_BALANCE_DELAY (250 * ROTA_USEC) /* of the network, each way */

enum rota_balance_kind {
    ROTA_BALANCE_AT_ARRIVAL, /* of a call */
    ROTA_BALANCE_AT_TROUBLE, /* the scenario does something */
    ROTA_BALANCE_AT_HEDGE,   /* a call has been out for long */
    ROTA_BALANCE_AT_TIMEOUT, /* a try has been out for too long */
    ROTA_BALANCE_TO_SERVER,  /* a try arrives */
    ROTA_BALANCE_AT_SERVED,  /* a try has been served */
    ROTA_BALANCE_TO_CLIENT,  /* its answer arrives */
};

struct rota_balance_event {
    struct rota_heap_node heap; /* first, so that the heap's pointer is ours */
    enum rota_balance_kind kind;
};

struct rota_balance_call {
    struct rota_balance_event hedge; /* first */
    struct rota_balance_call *next_free;
    struct rota_balance_attempt *out[ROTA_BALANCE_OUT_MAX];
    uint32_t n_out, client, n_tries;
    bool is_counted, is_final, sweeps_again;
    rota_time began_at;
    uint64_t excluded[ROTA_BALANCE_EXCLUDED_MAX]; /* failed, or have it */
    uint32_t n_excluded;
};

/* A try: used by the client until it is reported, by the server until it is answered; freed when
 * neither uses it. */
struct rota_balance_attempt {
    struct rota_balance_event step; /* first */
    struct rota_balance_event timeout;
    struct rota_list_node link;     /* in a server's queue, or the free list */
    struct rota_balance_call *call; /* NULL: the client no longer waits */
    struct rota_try token;
    uint32_t server;
    bool is_at_server;
    rota_time sent_at, received_at, started_at, service;
    enum rota_outcome outcome;
    struct rota_cost cost;
};

struct rota_balance_server {
    uint32_t n_slots, n_busy, n_waiting, n_coming;
    struct rota_list_node waiting; /* attempts */
    double slowness;
    bool is_down, is_failing, is_flaky;
    rota_time frozen_at, frozen_until, cold_until;
    uint64_t n_tries;
};

struct rota_balance_client {
    struct rota_balancer *balancer;
    struct rota_hedge *hedge;
    struct rota_budget retries;
};

struct rota_balance_world {
    const struct rota_balance_options *options;
    const struct rota_balance_scenario *scenario;
    struct rota_heap events;
    uint64_t order;
    rota_time now;
    struct rota_random load, service, choice; /* apart, so that policies meet the same load */
    double rate;                              /* calls per second */
    uint32_t n_calls, n_arrived, n_live;
    struct rota_balance_event arrival, trouble;
    uint64_t n_troubles;
    struct rota_balance_server servers[ROTA_BALANCE_REPLICAS_MAX];
    uint64_t ids[ROTA_BALANCE_REPLICAS_MAX];
    struct rota_balance_client clients[ROTA_BALANCE_CLIENTS_MAX];
    struct rota_balance_call *free_calls;
    struct rota_list_node free_attempts;
    struct rota_balance_truth truth;
    struct rota_histogram latencies;
    bool is_out_of_memory;
    uint64_t n_counted, n_failed, n_wasted, n_hedged, n_tries, n_odd, n_final, n_final_ok;
    uint64_t n_final_tries, n_final_odd;
    uint64_t n_events;
};

/* --- events and tries --- */

void rota_balance_push(struct rota_balance_world *world, struct rota_balance_event *event,
                       enum rota_balance_kind kind, rota_time when);

/* Give a try back once neither side has it. */
void rota_balance_attempt_release(struct rota_balance_world *world,
                                  struct rota_balance_attempt *attempt);

/* --- servers and their troubles --- */

void rota_balance_servers_arrive_at(struct rota_balance_world *world,
                                    struct rota_balance_attempt *attempt);
void rota_balance_servers_end_service(struct rota_balance_world *world,
                                      struct rota_balance_attempt *attempt);

/* The client no longer needs it: remove it from the queue; a try being served continues. */
void rota_balance_servers_cancel(struct rota_balance_world *world,
                                 struct rota_balance_attempt *attempt);

/* What the oracle sees: how long a new try would take. */
double rota_balance_servers_expected_us(const void *world, uint64_t replica);

/* The next thing that happens to the replicas. */
void rota_balance_servers_strike(struct rota_balance_world *world);
