/* When a member of a group in Kafka may go from one round into the next.
 *
 * While a join is pending the coordinator accepts nothing else from us, and it is pending for as
 * long as a former member may still be alive. So that a dead member does not keep all others from
 * sending heartbeats for a whole session, we enter a new round only when all members of the last
 * one have reported, by their commits, that they are alive and ready, or are gone; until then we
 * stay in the last one, where our heartbeats count.
 *
 * If each of n members read the marks of all others the coordinator would have to send n * n of
 * them. So a few do, the checkers: the holders of the lowest partitions. The others wait for a
 * message of one of them, and become checkers themselves when none has arrived for a while, since
 * the checkers may be the dead ones.
 *
 * Only time depends on it: a member that leaves too early sends nothing for longer, and stops its
 * work in time as always. */
#include "io/log/sync_kafka_hold.h"
#include "io/clock.h"

#include <stdio.h>
#include <string.h>

enum { CHECKERS = 3, LOOK_MS = 20, LIST_EVERY_MS = 200 };

static size_t count_below(const struct rota_kafka_hold *hold, int32_t slot)
{
    size_t n = 0;
    for (size_t i = 0; i < hold->holders.size; i++)
        n += hold->holders.items[i].slot < slot;
    return n;
}

void rota_sync_kafka_hold_remember(struct rota_kafka_hold *hold,
                                   const struct rota_kafka_setup *setup,
                                   const struct rota_kafka_roster *roster, const char *id,
                                   int32_t slot)
{
    hold->holders.size = 0;
    for (size_t i = 0; i < roster->n_members; i++) {
        const char *other = roster->members[i].member_id;
        struct rota_kafka_holder holder = {.slot = rota_sync_kafka_coordinator_slot_of(
                                               &roster->members[i], setup->rebalance_topic)};
        if (strcmp(other, id) == 0 || strlen(other) >= sizeof holder.id || holder.slot < 0)
            continue;
        strcpy(holder.id, other);
        if (!rota_vector_push(&hold->holders, holder))
            break; /* then it is waited for less */
    }
    /* Which of us and the others are checkers. */
    hold->is_checker = slot >= 0 && count_below(hold, slot) < CHECKERS;
    for (size_t i = 0; i < hold->holders.size; i++) {
        int32_t other = hold->holders.items[i].slot;
        size_t n_below = count_below(hold, other) + (slot >= 0 && slot < other);
        hold->holders.items[i].is_checker = n_below < CHECKERS;
    }
}

/* With the checkers, which may be dead, or too new to know the other members. */
static rota_time patience_of(const struct rota_kafka_setup *setup)
{
    return setup->session / 10 < ROTA_SEC ? setup->session / 10 : ROTA_SEC;
}

/* Between two reads. */
static rota_time pause_of(const struct rota_kafka_hold *hold, bool is_checker)
{
    return (LOOK_MS + (is_checker ? 0 : (rota_time)hold->holders.size)) * ROTA_MSEC;
}

void rota_sync_kafka_hold_begin(struct rota_kafka_hold *hold, const struct rota_kafka_setup *setup,
                                int32_t generation)
{
    rota_time now = rota_clock_boot();
    snprintf(hold->ready, sizeof hold->ready, "ready %d", (int)generation);
    snprintf(hold->go, sizeof hold->go, "go %d", (int)generation);
    hold->may_go = false;
    hold->list_at = now;
    hold->check_at = hold->is_checker ? now : now + patience_of(setup);
    hold->look_at = hold->is_checker ? now : now + pause_of(hold, false);
    for (size_t i = 0; i < hold->holders.size; i++)
        hold->holders.items[i].is_ready = false;
}

static bool is_mark(const rd_kafka_topic_partition_t *found, const char *mark)
{
    return found->metadata_size == strlen(mark) && memcmp(found->metadata, mark, strlen(mark)) == 0;
}

static void see_mark(struct rota_kafka_hold *hold, const rd_kafka_topic_partition_t *found)
{
    bool is_go = is_mark(found, hold->go), is_ready = is_go || is_mark(found, hold->ready);
    hold->may_go |= is_go;
    for (size_t i = 0; is_ready && i < hold->holders.size; i++)
        if (hold->holders.items[i].slot == found->partition)
            hold->holders.items[i].is_ready = true;
}

/* The marks of members that are not ready, and of those whose message we wait for. */
static void see_marks(struct rota_kafka_hold *hold, rd_kafka_t *client,
                      const struct rota_kafka_setup *setup, bool is_checker)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)hold->holders.size);
    for (size_t i = 0; i < hold->holders.size; i++) {
        const struct rota_kafka_holder *holder = &hold->holders.items[i];
        if (is_checker ? !holder->is_ready : holder->is_checker)
            rd_kafka_topic_partition_list_add(list, setup->rebalance_topic, holder->slot);
    }
    if (list->cnt > 0 && !rd_kafka_committed(client, list, ROTA_KAFKA_ASK_MS))
        for (int i = 0; i < list->cnt; i++)
            see_mark(hold, &list->elems[i]);
    rd_kafka_topic_partition_list_destroy(list);
}

/* Members that are gone are not waited for. */
static void see_who_is_gone(struct rota_kafka_hold *hold, rd_kafka_t *client,
                            const struct rota_kafka_setup *setup)
{
    struct rota_kafka_roster roster;
    if (!rota_sync_kafka_coordinator_list_members(client, setup->group, &roster))
        return;
    for (size_t i = 0; i < hold->holders.size; i++)
        hold->holders.items[i].is_ready |=
            !rota_sync_kafka_coordinator_roster_has(&roster, hold->holders.items[i].id);
    rota_sync_kafka_coordinator_roster_free(&roster);
}

static bool is_everybody_ready(const struct rota_kafka_hold *hold)
{
    for (size_t i = 0; i < hold->holders.size; i++)
        if (!hold->holders.items[i].is_ready)
            return false;
    return true;
}

bool rota_sync_kafka_hold_may_proceed(struct rota_kafka_hold *hold, rd_kafka_t *client,
                                      const struct rota_kafka_setup *setup)
{
    rota_time now = rota_clock_boot();
    bool is_checker = now >= hold->check_at;
    if (hold->holders.size == 0)
        return true;
    if (now < hold->look_at)
        return false;
    if (is_checker && now >= hold->list_at) {
        hold->list_at = now + LIST_EVERY_MS * ROTA_MSEC;
        see_who_is_gone(hold, client, setup);
    }
    if (!is_everybody_ready(hold))
        see_marks(hold, client, setup, is_checker);
    hold->look_at = rota_clock_boot() + pause_of(hold, is_checker);
    return hold->may_go || (is_checker && is_everybody_ready(hold));
}
