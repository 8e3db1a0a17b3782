/* lease_inside: what the files of a lease share.
 *
 * lease.c has the machine, open and close, lease_ask.c its requests to the store, lease_serve.c
 * the claims and callbacks. Only lease.c calls the machine: the others pass events to it. */
#pragma once

#include "base/metrics.h"
#include "base/vector.h"
#include "core/own/lease_fsm.h"
#include "run/own/driver.h"

#include <rota/experimental/lease.h>

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
    struct rota_driver driver;

    /* What arrived while actions were carried out: asks that could not be made, and requests
     * from callbacks. */
    ROTA_VECTOR(struct rota_lease_event) late;
    bool is_close_wanted;
    uint64_t former;     /* instance of this process' previous lease; 0: none */
    uint32_t share;      /* to hold from now on; 0: unchanged */
    uint32_t share_most; /* after a death */

    ROTA_VECTOR(struct rota_lease_action) pings; /* of this step, not asked yet */
    ROTA_VECTOR(struct rota_lease_action) lost;  /* in the current drive */
    ROTA_VECTOR(struct rota_lease_event) heard;  /* of one answer */
    ROTA_VECTOR(struct rota_lease_row) rows;     /* of a list */
    char refusal[ROTA_ERROR_TEXT_MAX];           /* the last one; empty: the store accepts claims */

    /* Whether a shard that is held is served, and its claim may be; NULL: all are. Gets the data of
     * the options. */
    bool (*is_served)(void *data, uint32_t shard, uint64_t epoch);

    void (*on_closed)(void *data);
    void *closed_data;
    char texts[];
};

/* --- lease.c --- */

/* The one caller of the machine: all events of one answer, or one event. */
void rota_lease_drive(struct rota_lease *lease, const struct rota_lease_event *events, size_t n);

/* Like rota_lease_open(), after a lease of this process that had the instance `former` and is
 * closed. Shards that it could not release, because the store was unreachable, are still in the
 * table under this instance; no process serves them, so they are released first, and need not
 * time out. */
enum rota_code rota_lease_open_again(struct uv_loop_s *loop, struct rota_store *store,
                                     const struct rota_lease_options *options, uint64_t former,
                                     struct rota_lease **lease, struct rota_error *error);

/* Like rota_lease_set_wanted() for processes that divide all shards among themselves by shares.
 * When one of them dies the others take its shards at once, above their shares if needed. */
void rota_lease_set_share(struct rota_lease *lease, uint32_t share);

/* --- lease_ask.c --- */

/* Carry out an action that asks. An ask that can't be sent is answered with UNKNOWN. A ping
 * waits for the others of its step, at most until rota_lease_ask_pings(). */
void rota_lease_ask(struct rota_lease *lease, const struct rota_lease_action *action);
void rota_lease_ask_pings(struct rota_lease *lease);

struct rota_store_request rota_lease_ask_request_of(const struct rota_lease *lease,
                                                    const struct rota_lease_action *action);

/* --- lease_serve.c --- */

bool rota_lease_serve_make_series(struct rota_lease *lease);
void rota_lease_serve_start(struct rota_lease *lease, const struct rota_lease_action *action);
/* The answer of `is_served` has changed. */
void rota_lease_serve_update_claim(struct rota_lease *lease, uint32_t shard, uint64_t epoch);
void rota_lease_serve_extend(struct rota_lease *lease, const struct rota_lease_action *action);

/* When this returns nothing is served; rota_lease_serve_tell_lost() reports the loss. */
void rota_lease_serve_stop(struct rota_lease *lease, const struct rota_lease_action *action);
void rota_lease_serve_tell_lost(struct rota_lease *lease);

void rota_lease_serve_log_shard(const struct rota_lease *lease, enum rota_log_level level,
                                const char *phrase, const struct rota_lease_action *action,
                                struct rota_log_fact more);
