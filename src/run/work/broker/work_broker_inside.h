/* work_broker_inside: a broker that serves, and its parts: the front door (work_broker_front.h),
 * records and the answers that wait for them (work_broker_log.h), polls, watchers, connected
 * workers, the other nodes (work_broker_cluster.h, work_broker_forward.h, work_broker_handover.h,
 * work_broker_settings.h, work_broker_layout.h, work_broker_rows.h) and a store
 * (work_broker_store.h). work_broker.c runs their turns. Private to these. */
#pragma once

#include "run/work/broker/work_broker_front.h"
#include "run/work/broker/work_broker_log.h"
#include "run/work/broker/work_broker_poll.h"
#include "run/work/broker/work_broker_watch.h"
#include "run/work/cluster/work_broker_cluster.h"

#include <rota/experimental/broker.h>
#include <rota/log.h>
#include <uv.h>

struct rota_broker_forward;
struct rota_broker_handover;
struct rota_broker_layout_file;
struct rota_broker_layouts;
struct rota_broker_rows;
struct rota_broker_settings;
struct rota_broker_store;
struct rota_broker_workers;

struct rota_work_broker {
    struct rota_broker *core;
    struct rota_work_broker_options options;
    uv_check_t check; /* ends a turn */
    uv_idle_t idle;   /* keeps the loop from sleeping before it */
    uv_timer_t timer;
    unsigned n_handles; /* handles that are not closed */
    bool is_dirty, is_failed;
    uint64_t seed;
    rota_time swept_at; /* monotonic: when queues without jobs were last removed */
    uint64_t n_turns;
    bool has_past;  /* its journal is that of an earlier run */
    unsigned holds; /* bits of enum rota_broker_hold_reason */

    struct rota_broker_front front;
    struct rota_broker_log log;
    struct rota_broker_polls polls;
    struct rota_broker_watchers watchers;

    struct rota_broker_cluster *cluster;
    struct rota_broker_cluster_subscriber listing;
    bool was_listed;                       /* among the nodes */
    bool is_placed, was_placed;            /* now; at some time */
    struct rota_broker_forward *forward;   /* NULL: alone */
    struct rota_broker_handover *handover; /* NULL: nothing is handed over */
    struct rota_broker_settings *settings; /* NULL: alone, or jobs are in a store */
    struct rota_broker_rows *rows;         /* NULL: settings of queues are this node's own */
    struct rota_broker_layouts *layouts;
    struct rota_broker_layout_file *layout_file; /* NULL: none */
    struct rota_broker_store *store;             /* NULL: another sink is used */
    struct rota_broker_workers *workers;         /* NULL: workers can't connect */
};

struct rota_work_now rota_work_broker_now(void);

/* Carry out the machine's effects, in order. A record that the journal can't take stays, with
 * all that follow: then this returns false, and they are retried with the next turn. */
bool rota_work_broker_carry_out(struct rota_work_broker *broker);

/* Why nothing is handed out. */
enum rota_broker_hold_reason {
    ROTA_BROKER_HOLD_PEERS = 1, /* what they know is not known here */
    ROTA_BROKER_HOLD_STORE = 2, /* the jobs are in a store that is unreachable */
    ROTA_BROKER_HOLD_ROWS = 4,  /* the settings of queues are not read */
};
void rota_work_broker_hold(struct rota_work_broker *broker, enum rota_broker_hold_reason reason,
                           bool is_on);

/* Something has changed: a turn follows. */
void rota_work_broker_touch(struct rota_work_broker *broker);

/* Answer with `message` once record `number` is on disk. Takes `call`. */
void rota_work_broker_answer(struct rota_work_broker *broker, struct rota_server_call *call,
                             uint64_t number, struct rota_str message);

/* The same for a worker's end of an attempt; false when there is no memory. */
bool rota_work_broker_queue_verdict(struct rota_work_broker *broker, uint64_t connection,
                                    uint64_t number, struct rota_str verdict);

/* All records up to `number` are durable. */
void rota_work_broker_durable(struct rota_work_broker *broker, uint64_t number);

/* Answers that wait for a record fail: it is unknown whether it was written. */
void rota_work_broker_drop_answers(struct rota_work_broker *broker, const char *why);

/* The journal is lost: nothing is acknowledged from now on. */
void rota_work_broker_fail(struct rota_work_broker *broker, const struct rota_error *error);

/* One of its handles is closed; the last one frees it. */
void rota_work_broker_let_go(struct rota_work_broker *broker);

/* --- work_broker_news.c --- */

/* Report a record to people, if it is worth it. */
void rota_work_broker_news_report(struct rota_work_broker *broker,
                                  const struct rota_work_effect *effect);
