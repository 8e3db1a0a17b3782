/* broker_ended: ended jobs, kept for a while. */
#pragma once

#include "core/work/broker/broker.h"

struct rota_ended_list {
    uint32_t first, last; /* numbers of extras, not of jobs */
    uint32_t hint; /* the last one that was not put at the end: the next such is often near it */
};

struct rota_broker_ended {
    struct rota_ended_list dead, others;
    size_t n;
};

/* Forget ended jobs until both bounds hold with `bytes` more, and those that are too old. */
void rota_broker_ended_forget(struct rota_broker *broker, size_t bytes);

/* While a journal is read none is too old, as later records may refer to it. Forget those that
 * the broker which wrote it had forgotten at `wall`; false when there are none. */
bool rota_broker_ended_forget_read(struct rota_broker *broker, rota_time wall);

/* When the first of them is too old. */
rota_time rota_broker_ended_forgets_at(const struct rota_broker *broker);

/* The oldest is about to be removed and is not in the cache: prefetch it, and the next ones.
 * Only for speed. */
void rota_broker_ended_fetch_oldest(const struct rota_broker *broker);
void rota_broker_ended_list_push(struct rota_broker *broker, uint32_t number);
void rota_broker_ended_list_remove(struct rota_broker *broker, uint32_t number);
