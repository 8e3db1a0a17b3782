/* broker_rows_inside: what the files of broker_rows share. Private to them. */
#pragma once

#include "core/work/cluster/settings_fsm.h"
#include "run/work/broker/work_broker_inside.h"
#include "run/work/cluster/work_broker_rows.h"

#include <rota/experimental/store_ask.h>

#define ROTA_BROKER_ROWS_SOON                                                                      \
    (1 * ROTA_SEC) /* for other nodes to read a row, before a change is answered */

struct rota_broker_pending_change {
    struct rota_settings_change base;
    struct rota_broker_rows *rows;
    struct rota_setting_change change;
    struct rota_error error;
    uint64_t version; /* it is written as */
    size_t n_told;    /* nodes that have not answered */
    bool is_import;   /* of what this node had before, not of one queue */
    struct rota_list_node link;
    size_t queue_size;
    char queue[ROTA_JOB_QUEUE_NAME_MAX], key[ROTA_JOB_KEY_MAX];
    char author[ROTA_STORE_NAME_MAX + 1];
};

struct rota_broker_rows {
    struct rota_work_broker *broker;
    struct rota_store *store;
    struct rota_settings_fsm fsm;
    struct rota_buffer bytes; /* of the row that is being written */
    struct rota_broker_pending_change *written;
    bool is_reading_all;

    /* The store has no settings yet: it gets those that this node had before. */
    bool is_importing, has_import;              /* ... by a change that has not ended */
    struct rota_setting_place import, imported; /* the next ones; those after the write in flight */

    struct rota_list_node told, asks, waiting;
};

/* --- work_broker_rows.c --- */

/* Call its on_changed, and free it. */
void rota_work_broker_rows_finish(struct rota_broker_pending_change *pending, uint64_t number,
                                  const struct rota_error *error);

/* --- work_broker_rows_hint.c --- */

/* Tell all peers that a change is in the store, and finish it when they have answered. */
void rota_work_broker_rows_hint_peers(struct rota_broker_rows *rows,
                                      struct rota_broker_pending_change *pending);

/* Answer nodes that wait for us to read. */
void rota_work_broker_rows_hint_turn(struct rota_broker_rows *rows, rota_time now);
rota_time rota_work_broker_rows_hint_deadline(const struct rota_broker_rows *rows);

/* The broker stops: changes end, and nodes are answered, with this error. */
void rota_work_broker_rows_hint_close(struct rota_broker_rows *rows,
                                      const struct rota_error *error);
