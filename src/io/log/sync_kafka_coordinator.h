/* sync_kafka_coordinator: the coordinator's view of the group. Any thread. */
#pragma once

#include "io/log/sync_kafka_topic.h"

enum { ROTA_KAFKA_ID_MAX = 1024 };

/* Our identity at the coordinator. */
struct rota_kafka_identity {
    int32_t generation;
    char id[ROTA_KAFKA_ID_MAX];
};

/* False when we are not a member. */
bool rota_sync_kafka_coordinator_identify(rd_kafka_t *client, struct rota_kafka_identity *identity);

/* Commit an offset, with `mark` as its metadata, as the member that we are. */
rd_kafka_resp_err_t rota_sync_kafka_coordinator_commit(rd_kafka_t *client, const char *topic,
                                                       int32_t slot, const char *mark);

struct rota_kafka_roster {
    const struct rd_kafka_group_list *list;
    const struct rd_kafka_group_member_info *members; /* borrowed from it */
    size_t n_members;
    bool is_stable;
};

/* Gives the members of the group; false when they are unknown.
 * rota_sync_kafka_coordinator_roster_free() ends it. */
bool rota_sync_kafka_coordinator_list_members(rd_kafka_t *client, const char *group,
                                              struct rota_kafka_roster *roster);
void rota_sync_kafka_coordinator_roster_free(struct rota_kafka_roster *roster);
bool rota_sync_kafka_coordinator_roster_has(const struct rota_kafka_roster *roster, const char *id);

/* The lowest partition of `topic` that a member of a stable group holds; -1: none. */
int32_t rota_sync_kafka_coordinator_slot_of(const struct rd_kafka_group_member_info *member,
                                            const char *topic);
