/* space_change: the changes that operators request of a space. */
#pragma once

#include "base/buffer.h"
#include "base/vector.h"
#include "core/own/view_fsm.h"

#include <rota/space.h>
#include <uv.h>

/* An operator's request: a wish to the machine, at most one at a time. */
struct rota_space_change {
    bool is_new, is_sent,
        is_dry;                 /* the wish is to be sent; was sent; only its outcome is reported */
    struct rota_view_wish wish; /* its texts are in `names` */
    struct rota_buffer names;
    ROTA_VECTOR(struct rota_str) seats;
    rota_space_on_outcome *on_outcome;
    void *data;
    char text[ROTA_SPACE_TEXT_MAX];
    uv_timer_t dry_timer;

    /* A migration: the duration of its shadow, and what comes after it. */
    rota_time shadow;
    enum rota_view_engine to;
    bool is_commit_wanted;
    uv_timer_t shadow_timer;
};

/* The wish to be sent now; false when there is none. */
bool rota_space_change_next(struct rota_space *space, struct rota_view_wish *wish);
void rota_space_change_hear(struct rota_space *space, const struct rota_view_outcome *outcome);
