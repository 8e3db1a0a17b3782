/* space_view: the machine of views of a space (core/own/view_fsm.h), driven.
 *
 * By views all nodes of a space agree on its members, its pins and its engine. space_view.c drives
 * the machine, space_view_ask.c sends its requests to the store. */
#pragma once

#include "base/buffer.h"
#include "base/vector.h"
#include "core/own/view_fsm.h"
#include "run/own/driver.h"

#include <rota/experimental/store_ask.h>

struct rota_space;

/* Events that arrived while the machine's actions were carried out. */
struct rota_space_late {
    enum rota_view_event_type type;
    uint64_t ask;
    uint32_t weight;
};

/* The machine of views, and what its driver keeps. */
struct rota_space_view {
    struct rota_view_fsm fsm;
    bool has_fsm;
    struct rota_driver driver;
    ROTA_VECTOR(struct rota_space_late) late;
    ROTA_VECTOR(struct rota_view_row) rows; /* of one answer */
    struct rota_buffer text, known_text;    /* of the request that is being made */
    struct rota_view_row row;               /* as last requested by the machine */
    uint64_t told, sent; /* the view that others know we have acked, and the one in flight */
    rota_time until;     /* of all that is held */
    bool is_over, is_leaving;
    bool is_row_there; /* perhaps */
    bool is_row_bad;   /* the space's row can't be read */
};

/* --- space_view_ask.c --- */

/* Carry out an ask of the machine; or one with this `acked`, which the machine does not
 * know of if its number is 0. */
void rota_space_view_ask(struct rota_space *space, const struct rota_view_ask *ask);
void rota_space_view_ask_store(struct rota_space *space, const struct rota_view_ask *wanted,
                               uint64_t acked);

/* Parse the view of a row, into an empty one; false, and reported as trouble, when it is
 * invalid. */
bool rota_space_view_ask_parse(struct rota_space *space, const struct rota_store_space *row,
                               struct rota_view *view);

/* --- space_view.c --- */

/* The one caller of the machine. */
void rota_space_view_drive(struct rota_space *space, const struct rota_view_event *event);

/* Passed to the machine after its current step. Without memory even for that, the machine waits
 * until it times out. */
void rota_space_view_later(struct rota_space *space, enum rota_view_event_type type, uint64_t ask);

void rota_space_view_open(struct rota_space *space);
void rota_space_view_deinit(struct rota_space *space);

/* Give the machine an event, now or after the current one. */
void rota_space_view_tell(struct rota_space *space, enum rota_view_event_type type);

/* A wish has to be sent. */
void rota_space_view_wish(struct rota_space *space);

/* Something has stopped: check whether others may know now. */
void rota_space_view_stopped(struct rota_space *space);

/* Until when claims may be held now. */
void rota_space_view_limit(struct rota_space *space);

/* Notify the user, if it waits for that. */
void rota_space_view_check_drained(struct rota_space *space);

/* Stop everything, leave, and call rota_space_finish(). */
void rota_space_view_close(struct rota_space *space);
