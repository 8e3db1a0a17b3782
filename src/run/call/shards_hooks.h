/* shards_hooks: the shards client for a service client (service_client.c), whose replicas come from
 * elsewhere. */
#pragma once

#include "run/call/shards_inside.h"

/* Where the calls of a service client differ (service_client.c): each is a run with one call and
 * without an execution, whose replicas, and the shard itself, come from these. */
struct rota_shards_hooks {
    /* Answer the question, now or later, by a note of LEADERS. */
    void (*ask)(void *data, struct rota_shards_call *call, uint64_t number);
    void (*report)(void *data, struct rota_shards_call *call, rota_time now,
                   const struct rota_call_fsm_action *action);
    void (*start)(void *data, struct rota_shards_call *call, const struct rota_replica *replica);
    void (*tell)(void *data, struct rota_shards_call *call); /* the call has ended */
    void (*free)(void *data, struct rota_shards_call *call);
    void *data;
};

/* Begin a call with hooks; metadata is kept, `request` is copied. NULL without memory. Cancel it:
 * it ends without a result. */
struct rota_shards_call *rota_shards_call_begin(struct rota_shards *shards,
                                                const struct rota_shards_request *request,
                                                int64_t collection, void *user,
                                                const struct rota_metadata *metadata,
                                                size_t n_metadata);
void rota_shards_call_cancel(struct rota_shards_call *call);

/* The status of a call that has ended, and the sentence about it. */
enum rota_status rota_shards_status_of(enum rota_failure failure,
                                       const struct rota_shards_call *call);
struct rota_str rota_shards_text_of(struct rota_shards *shards, enum rota_failure failure,
                                    const struct rota_shards_call *call);
