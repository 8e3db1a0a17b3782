/* sync_kafka_hold: from one round into the next. On the member's thread. */
#pragma once

#include "base/vector.h"
#include "io/log/sync_kafka_coordinator.h"

/* Another member of the round, and the partition on which it reports that it is ready. */
struct rota_kafka_holder {
    char id[ROTA_KAFKA_ID_MAX];
    int32_t slot;
    bool is_checker; /* it reports when all are ready */
    bool is_ready;   /* or removed */
};

struct rota_kafka_hold {
    ROTA_VECTOR(struct rota_kafka_holder) holders;
    bool is_checker;
    char ready[32], go[32]; /* marks of this hold: I am ready; all are */
    bool may_go;
    rota_time look_at, list_at, check_at;
};

/* The members of the round, which will be waited for; `id` and `slot` are ours. */
void rota_sync_kafka_hold_remember(struct rota_kafka_hold *hold,
                                   const struct rota_kafka_setup *setup,
                                   const struct rota_kafka_roster *roster, const char *id,
                                   int32_t slot);
/* The round is over. */
void rota_sync_kafka_hold_begin(struct rota_kafka_hold *hold, const struct rota_kafka_setup *setup,
                                int32_t generation);
/* Whether we may proceed; asks the coordinator, not before `look_at`. When it says so without
 * `may_go`, the others have not been notified yet. */
bool rota_sync_kafka_hold_may_proceed(struct rota_kafka_hold *hold, rd_kafka_t *client,
                                      const struct rota_kafka_setup *setup);
