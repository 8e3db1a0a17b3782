/* lease_inside: what the files of a lease share.
 *
 * lease.c has the machine and the life of a lease, lease_ask.c asks the store for it,
 * lease_serve.c tells others what is held. Only lease.c calls the machine: the others
 * hand it events. */
#pragma once

#include "base/metrics.h"
#include "base/vector.h"
#include "core/own/lease_fsm.h"

#include <rota/lease.h>
#include <rota/store.h>
#include <uv.h>

struct rota_lease_series {
    struct rota_gauge *held;
    struct rota_counter *gained, *unknown;
    struct rota_counter *stopped[ROTA_LEASE_WHY_SHUTDOWN + 1];
};

struct rota_lease {
    struct rota_lease_options options; /* its texts are in `texts` */
    struct rota_metrics *metrics;      /* our own, when none was given */
    struct rota_lease_series series;
    struct rota_store *store;
    struct rota_lease_fsm fsm;
    uv_timer_t timer;
    struct rota_lease_ask *asks;

    /* What has come while actions were being carried out: asks that could not be made, and
     * what callbacks wanted. */
    ROTA_VECTOR(uint64_t) failed;
    ROTA_VECTOR(struct rota_lease_event) seen;
    bool is_close_wanted;
    uint64_t former;     /* instance of this process' lease before; 0: none */
    uint32_t share;      /* to hold from now on; 0: as before */
    uint32_t share_most; /* after a death */
    bool is_driving;

    ROTA_VECTOR(struct rota_lease_action) pings; /* of this step, not asked yet */
    ROTA_VECTOR(struct rota_lease_action) lost;  /* by what is driven now */
    ROTA_VECTOR(struct rota_lease_event) heard;  /* of one answer */
    ROTA_VECTOR(struct rota_lease_row) rows;     /* of a list */
    char refusal[ROTA_ERROR_TEXT_MAX];           /* the last one; empty: the store takes claims */

    void (*on_closed)(void *data);
    void *closed_data;
    char texts[];
};

/* --- lease.c --- */

/* The one caller of the machine: all that one answer has brought, or one event. */
void rota_lease_drive(struct rota_lease *lease, const struct rota_lease_event *events, size_t n);

/* Like rota_lease_open(), after a lease of this process that had the instance `former` and is
 * closed. What that could not give back, for the store was away, is still in the table under
 * this instance; nobody serves it, so it is given back first, and need not be waited for. */
enum rota_code rota_lease_open_again(struct uv_loop_s *loop, struct rota_store *store,
                                     const struct rota_lease_options *options, uint64_t former,
                                     struct rota_lease **lease, struct rota_error *error);

/* Like rota_lease_set_wanted() for processes that divide all shards among themselves by shares.
 * When one of them dies the others take its shards at once, above their shares if need be. */
void rota_lease_set_share(struct rota_lease *lease, uint32_t share);

/* --- lease_ask.c --- */

/* Carry out an action that asks. What can't be asked was answered with UNKNOWN. A ping
 * waits for the others of its step, at most until rota_lease_ask_pings(). */
void rota_lease_ask(struct rota_lease *lease, const struct rota_lease_action *action);
void rota_lease_ask_pings(struct rota_lease *lease);

/* No answer comes any more. */
void rota_lease_ask_forget(struct rota_lease *lease);

struct rota_store_request rota_lease_request_of(const struct rota_lease *lease,
                                                const struct rota_lease_action *action);

/* --- lease_serve.c --- */

bool rota_lease_make_series(struct rota_lease *lease);
void rota_lease_start(struct rota_lease *lease, const struct rota_lease_action *action);
void rota_lease_extend(struct rota_lease *lease, const struct rota_lease_action *action);

/* Nothing is served any more when this returns; what follows from a loss comes with
 * rota_lease_tell_lost(). */
void rota_lease_stop(struct rota_lease *lease, const struct rota_lease_action *action);
void rota_lease_tell_lost(struct rota_lease *lease);

void rota_lease_log_shard(const struct rota_lease *lease, enum rota_log_level level,
                          const char *phrase, const struct rota_lease_action *action,
                          struct rota_log_fact more);
