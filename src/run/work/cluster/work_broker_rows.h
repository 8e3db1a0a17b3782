/* broker_rows: settings of queues as rows of a store that all nodes share: the driver of
 * settings_fsm.h. Without a store the settings are this node's own, in its journal; functions that
 * take the rows accept NULL then. */
#pragma once

#include "run/work/broker/work_broker_front.h"

struct rota_setting_change;
struct rota_broker_rows;

/* Compute the layout that a change makes, in its edit, from what is in force. ROTA_ERR_STALE: the
 * change is no longer wanted. */
typedef enum rota_code rota_broker_layout_maker(struct rota_work_broker *broker,
                                                struct rota_str queue,
                                                struct rota_setting_change *change,
                                                struct rota_error *error);

/* The change is over: with ROTA_OK it is in force here, in the store, and at all nodes that answer
 * soon; without a store it is when record `number` is on disk. */
typedef void rota_broker_on_changed(struct rota_work_broker *broker, void *data,
                                    struct rota_str queue, const struct rota_setting_change *change,
                                    uint64_t number, const struct rota_error *error);

struct rota_setting_change {
    struct rota_setting_edit edit;
    rota_broker_layout_maker *make; /* of LAYOUT and RESET; else NULL */
    struct rota_layout_wish wish;   /* for `make` */
    rota_time before; /* the same: since when the layout is in force that is changed */
    rota_broker_on_changed *on_changed;
    void *data;
};

enum rota_code rota_work_broker_rows_open(struct rota_work_broker *broker,
                                          struct rota_error *error);
void rota_work_broker_rows_close(struct rota_broker_rows *rows);
void rota_work_broker_rows_turn(struct rota_broker_rows *rows, rota_time now);
rota_time rota_work_broker_rows_deadline(const struct rota_broker_rows *rows);

/* Whether jobs may be accepted and handed out by the settings that are in force here. */
bool rota_work_broker_rows_have_begun(const struct rota_broker_rows *rows);

/* The latest row that is in force here. */
uint64_t rota_work_broker_rows_version(const struct rota_broker_rows *rows);

/* Another node knows this version. */
void rota_work_broker_rows_hint(struct rota_broker_rows *rows, uint64_t version);

/* Change settings of a queue, for `author`. `change` is copied, with its texts. Its on_changed is
 * called once, maybe from inside, unless the broker closes. */
void rota_work_broker_rows_change(struct rota_work_broker *broker, struct rota_str queue,
                                  const struct rota_setting_change *change, const char *author);

/* The same for a call, which is answered with an empty message. Takes it. */
void rota_work_broker_rows_change_for(const struct rota_broker_request *request,
                                      struct rota_str queue, const struct rota_setting_edit *edit);

/* Another node has changed a row: answers when it is in force here, or can't be read soon. */
rota_broker_handler rota_work_broker_rows_hint_changed;
