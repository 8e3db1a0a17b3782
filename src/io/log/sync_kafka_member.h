/* sync_kafka_member: the membership in the group, from join() to leave(), on a separate thread,
 * which posts what happened. */
#pragma once

#include "io/log/sync_kafka_topic.h"

#include <stdatomic.h>
#include <uv.h>

struct rota_kafka_member;

/* A member's report; borrowed. */
struct rota_kafka_note {
    struct rota_letter letter;
    void (*on_note)(void *owner, const struct rota_kafka_note *note);
    void *owner;
    uint64_t member; /* its number */
    uint64_t number; /* among the notes of the member */
    enum rota_sync_event_type type;
    uint64_t generation;
    rota_time sent_at;
    bool is_leader;
    struct rota_str *members;  /* followed by their text */
    size_t n_members, n_slots; /* the latter hold partitions of the rebalance topic */
    struct rota_error error;
};

struct rota_kafka_member_options {
    const struct rota_kafka_setup *setup; /* kept */
    struct uv_loop_s *loop;               /* kept */
    struct rota_mailbox *notes;           /* kept: where its notes go */
    uint64_t number;
    struct rota_str line; /* copied */

    /* Of each note, on the loop; frees nothing. */
    void (*on_note)(void *owner, const struct rota_kafka_note *note);
    void *owner; /* kept */

    const atomic_uint_fast64_t *taken; /* kept: the number of the last note that was handled */
};

enum rota_code rota_sync_kafka_member_open(const struct rota_kafka_member_options *options,
                                           struct rota_kafka_member **member,
                                           struct rota_error *error);

/* Leave and close; `on_closed` is called from the loop. Notes may arrive meanwhile. */
void rota_sync_kafka_member_close(struct rota_kafka_member *member, void (*on_closed)(void *data),
                                  void *data);
