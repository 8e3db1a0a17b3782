/* driver: what the drivers of a lease, a view and a group have in common.
 *
 * A driver is the only caller of its machine. After an event it carries out the actions and sets
 * the timer to the machine's deadline. Requests to the store are kept until they are answered, so
 * that a driver that ends can drop the answers. While `is_driving`, an event that a callback causes
 * is kept for later: the machine never gets one in the middle of another. */
#pragma once

#include "base/list.h"
#include "io/clock.h"
#include "io/timer.h"

#include <rota/experimental/store_ask.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROTA_DRIVER_SHARD_MAX = 16 };

/* The name of a shard where names are texts. */
static inline struct rota_str rota_driver_shard_text(uint32_t shard,
                                                     char text[ROTA_DRIVER_SHARD_MAX])
{
    snprintf(text, ROTA_DRIVER_SHARD_MAX, "%u", (unsigned)shard);
    return rota_str(text);
}

struct rota_driver {
    uv_timer_t timer;           /* its data is the owner */
    struct rota_list_node asks; /* those that are not answered yet */
    bool is_driving;
};

/* What a request to the store begins with; from malloc(). */
struct rota_driver_ask {
    struct rota_list_node link;
};

static inline void rota_driver_init(struct rota_driver *driver, struct uv_loop_s *loop, void *owner)
{
    uv_timer_init(loop, &driver->timer);
    driver->timer.data = owner;
    rota_list_init(&driver->asks);
}

static inline void rota_driver_arm(struct rota_driver *driver, uv_timer_cb on_time, rota_time at)
{
    rota_timer_set(&driver->timer, on_time, rota_clock_boot(), at);
}

/* Takes `ask`: `on_answer` gets it, out of the list, and frees it; on failure it is freed here. */
static inline enum rota_code rota_driver_ask(struct rota_driver *driver, struct rota_store *store,
                                             const struct rota_store_request *request,
                                             rota_store_on_answer *on_answer,
                                             struct rota_driver_ask *ask, struct rota_error *error)
{
    enum rota_code code = rota_store_ask(store, request, on_answer, ask, error);
    if (code)
        free(ask);
    else
        rota_list_push(&driver->asks, &ask->link);
    return code;
}

/* Drop all answers. */
static inline void rota_driver_forget(struct rota_driver *driver, struct rota_store *store)
{
    ROTA_LIST_DRAIN (ask, &driver->asks, struct rota_driver_ask, link) {
        rota_store_forget(store, ask);
        rota_list_remove(&ask->link);
        free(ask);
    }
}
