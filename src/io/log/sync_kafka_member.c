/* A member of a group in Kafka: a consumer of the rebalance topic that reads nothing.
 *
 * It runs on a thread from join() to leave(). The round is the consumer group's generation, the
 * leader is the holder of partition 0, and the lines are the clients' ids, which the coordinator
 * returns on request.
 *
 * Our heartbeat is an offset commit. Unlike with librdkafka's own heartbeat, we know when it was
 * sent and the coordinator's answer about our generation; it counts as a heartbeat there. It
 * proves something only if we were the same member of the same generation before and after,
 * since an expelled client commits without an identity, which an empty group allows.
 * sync_kafka_hold.c decides when we may go from one round into the next. */
#include "io/log/sync_kafka_member.h"

#include "base/percent.h"
#include "io/clock.h"
#include "io/log/sync_kafka_hold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLICE_MS = 100, SEEK_MS = 20, PLACE_MS = 10, EVENTS_MAX = 1000 };

struct rota_kafka_member {
    struct rota_letter letter;
    struct rota_kafka_member_options options;
    struct rota_thread *thread;
    void (*on_closed)(void *data);
    void *closed_data;
    char client_id[3 * ROTA_SYNC_LINE_MAX + 1]; /* the line, escaped */

    /* The thread's. */
    rd_kafka_t *client;
    rd_kafka_queue_t *news;
    bool is_over;
    bool is_assigned, is_leader, has_round, needs_topic;
    bool is_subscribed;
    bool is_holding; /* asked to enter a new round, and not yet ready */
    bool is_marked;  /* and the others can see that we are ready */
    int32_t slot;    /* the first of the partitions that we hold; -1: none */
    int32_t place;   /* roughly how many members hold the partitions before it */
    struct rota_kafka_identity identity;
    struct rota_kafka_hold hold;
    rota_time hold_until, round_at, prove_at, beat_at;
    uint64_t n_posted;
    rota_time posted_at;
};

/* --- lines and ids --- */

static void escape_line(struct rota_str line, char *text)
{
    for (size_t i = 0; i < line.size && i < ROTA_SYNC_LINE_MAX; i++) {
        unsigned char c = (unsigned char)line.data[i];
        if (c > ' ' && c < 0x7f && c != '%')
            *text++ = (char)c;
        else
            text = rota_percent_encode(text, c);
    }
    *text = '\0';
}

/* Into `line`, which has room for it; foreign text is taken as it is. */
static size_t unescape_line(struct rota_str text, char *line)
{
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        int c = rota_percent_decode(text, &i);
        line[size++] = (char)(c >= 0 ? c : '%');
    }
    return size;
}

/* Whether both are incarnations of one task: the text after the '/' is the same. */
static bool is_same_task(const char *a, const char *b)
{
    const char *end_a = strchr(a, '/'), *end_b = strchr(b, '/');
    return end_a && end_b && strcmp(end_a, end_b) == 0;
}

static bool is_same_identity(const struct rota_kafka_identity *a,
                             const struct rota_kafka_identity *b)
{
    return a->generation == b->generation && strcmp(a->id, b->id) == 0;
}

/* --- telling --- */

static void on_note_done(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_kafka_note *note = (struct rota_kafka_note *)letter;
    if (!is_cancelled)
        note->on_note(note->owner, note);
    free(note);
}

/* The lines of `n` members and their bytes follow the note. */
static struct rota_kafka_note *new_note(struct rota_kafka_member *member,
                                        enum rota_sync_event_type type, size_t n, size_t bytes)
{
    struct rota_kafka_note *note = calloc(1, sizeof *note + n * sizeof *note->members + bytes);
    if (!note)
        return NULL;
    note->letter.done = on_note_done;
    note->on_note = member->options.on_note;
    note->owner = member->options.owner;
    note->member = member->options.number;
    note->type = type;
    note->members = (struct rota_str *)(note + 1);
    return note;
}

static bool is_ending(const struct rota_kafka_member *member)
{
    return member->is_over || rota_mailbox_thread_is_closing(member->thread);
}

/* Takes `note`. A full mailbox is waited for: a round must not be lost. */
static void post_note(struct rota_kafka_member *member, struct rota_kafka_note *note)
{
    const struct timespec moment = {.tv_nsec = 10000000};
    note->number = ++member->n_posted;
    member->posted_at = rota_clock_boot();
    while (rota_mailbox_post(member->options.notes, &note->letter)) {
        if (rota_mailbox_thread_is_closing(member->thread)) {
            free(note);
            return;
        }
        nanosleep(&moment, NULL);
    }
}

static void tell_ok(struct rota_kafka_member *member, rota_time sent_at)
{
    struct rota_kafka_note *note = new_note(member, ROTA_SYNC_GROUP_OK, 0, 0);
    if (!note)
        return;
    note->sent_at = sent_at;
    note->generation = (uint64_t)member->identity.generation;
    post_note(member, note);
}

static void tell_end(struct rota_kafka_member *member, enum rota_sync_event_type type,
                     const struct rota_error *error)
{
    struct rota_kafka_note *note = member->is_over ? NULL : new_note(member, type, 0, 0);
    member->is_over = true;
    if (type == ROTA_SYNC_FAILED)
        member->is_subscribed = false; /* we were never admitted */
    if (!note)
        return;
    note->error = *error;
    post_note(member, note);
}

static void lose_session(struct rota_kafka_member *member, const char *why)
{
    struct rota_error error;
    rota_error_set(&error, ROTA_ERR_UNAVAILABLE, "the group %s in Kafka: %s",
                   member->options.setup->group, why);
    tell_end(member, ROTA_SYNC_GROUP_LOST, &error);
}

/* --- answers of the coordinator --- */

enum proof {
    PROOF_GIVEN,
    PROOF_NONE,    /* not known */
    PROOF_AGAINST, /* we are not a member */
};

/* Send the coordinator a heartbeat, and evaluate its answer. A member without a partition, in a
 * group larger than the topic, has no place for a mark: those of the topic belong to others. */
static enum proof prove_membership(struct rota_kafka_member *member, const char *mark,
                                   rota_time *sent_at)
{
    struct rota_kafka_identity before, after;
    if (!rota_sync_kafka_coordinator_identify(member->client, &before) ||
        !is_same_identity(&before, &member->identity))
        return PROOF_NONE;
    rota_time now = rota_clock_boot();
    const struct rota_kafka_setup *setup = member->options.setup;
    rd_kafka_resp_err_t result =
        member->slot >= 0
            ? rota_sync_kafka_coordinator_commit(member->client, setup->rebalance_topic,
                                                 member->slot, mark)
            : rota_sync_kafka_coordinator_commit(member->client, setup->sync_topic, 0, "");
    if (!rota_sync_kafka_coordinator_identify(member->client, &after) ||
        !is_same_identity(&before, &after))
        return PROOF_NONE;
    if (result == RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID ||
        result == RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID)
        return PROOF_AGAINST;
    if (result)
        return PROOF_NONE;
    *sent_at = now;
    return PROOF_GIVEN;
}

/* --- rounds --- */

/* Our partitions of the rebalance topic are consecutive, and others have as many. */
static void take_slot(struct rota_kafka_member *member,
                      const rd_kafka_topic_partition_list_t *partitions)
{
    int32_t slot = -1, n = 0;
    for (int i = 0; partitions && i < partitions->cnt; i++) {
        if (strcmp(partitions->elems[i].topic, member->options.setup->rebalance_topic) != 0)
            continue;
        n++;
        if (slot < 0 || partitions->elems[i].partition < slot)
            slot = partitions->elems[i].partition;
    }
    member->slot = slot;
    member->place = n > 0 ? slot / n : 0;
    member->is_leader = slot == 0;
}

static void tell_round(struct rota_kafka_member *member, const struct rota_kafka_roster *roster,
                       rota_time sent_at)
{
    size_t n = roster->n_members, bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += strlen(roster->members[i].client_id);
    struct rota_kafka_note *note =
        n > ROTA_SYNC_MEMBERS_MAX ? NULL : new_note(member, ROTA_SYNC_ROUND, n, bytes);
    if (!note)
        return;
    char *text = (char *)(note->members + n);
    note->n_members = n;
    note->generation = (uint64_t)member->identity.generation;
    note->is_leader = member->is_leader;
    note->sent_at = sent_at;
    for (size_t i = 0; i < n; i++) {
        note->n_slots += rota_sync_kafka_coordinator_slot_of(
                             &roster->members[i], member->options.setup->rebalance_topic) >= 0;
        size_t size = unescape_line(rota_str(roster->members[i].client_id), text);
        note->members[i] = rota_str_of(text, size);
        text += size;
    }
    rota_sync_kafka_hold_remember(&member->hold, member->options.setup, roster, member->identity.id,
                                  member->slot);
    member->has_round = true;
    member->prove_at = sent_at + member->options.setup->ok_every / 2;
    post_note(member, note);
}

static bool has_leader(const struct rota_kafka_member *member,
                       const struct rota_kafka_roster *roster)
{
    for (size_t i = 0; i < roster->n_members; i++)
        if (rota_sync_kafka_coordinator_slot_of(&roster->members[i],
                                                member->options.setup->rebalance_topic) == 0)
            return true;
    return false;
}

/* The member that assigned the partitions did not know the new topic yet. When it does, there is
 * another round; until then we are alive. */
static void pass_over_round(struct rota_kafka_member *member, rota_time sent_at)
{
    member->round_at = sent_at + SLICE_MS * ROTA_MSEC;
    bool is_first = member->n_posted == 0; /* then our membership was not reported yet */
    if (is_first || sent_at < member->prove_at ||
        atomic_load(member->options.taken) != member->n_posted)
        return;
    member->prove_at = sent_at + member->options.setup->ok_every / 2;
    tell_ok(member, sent_at);
}

/* Find out the members of the round, and that we are one. */
static void seek_round(struct rota_kafka_member *member)
{
    struct rota_kafka_identity after;
    struct rota_kafka_roster roster;
    rota_time sent_at = 0;
    member->round_at = rota_clock_boot() + SEEK_MS * ROTA_MSEC;
    if (!rota_sync_kafka_coordinator_identify(member->client, &member->identity))
        return;
    enum proof proof = prove_membership(member, "", &sent_at);
    if (proof == PROOF_AGAINST)
        lose_session(member, "the coordinator no longer knows this task");
    if (proof != PROOF_GIVEN || !rota_sync_kafka_coordinator_list_members(
                                    member->client, member->options.setup->group, &roster))
        return;
    if (roster.is_stable && rota_sync_kafka_coordinator_roster_has(&roster, member->identity.id) &&
        rota_sync_kafka_coordinator_identify(member->client, &after) &&
        is_same_identity(&after, &member->identity)) {
        if (has_leader(member, &roster))
            tell_round(member, &roster, sent_at);
        else
            pass_over_round(member, sent_at);
    }
    rota_sync_kafka_coordinator_roster_free(&roster);
}

/* A heartbeat, if it is due. A member whose loop does not respond is not alive. */
static void show_life(struct rota_kafka_member *member, const char *mark)
{
    rota_time now = rota_clock_boot(), sent_at = 0;
    if (now < member->prove_at)
        return;
    member->prove_at = now + member->options.setup->ok_every / 2;
    if (atomic_load(member->options.taken) != member->n_posted) {
        if (now - member->posted_at > member->options.setup->session)
            lose_session(member, "the event loop of this process did not run for a session");
        member->prove_at = now + SEEK_MS * ROTA_MSEC;
        return;
    }
    switch (prove_membership(member, mark, &sent_at)) {
    case PROOF_GIVEN:
        member->is_marked = mark[0] != '\0';
        if (member->has_round)
            tell_ok(member, sent_at);
        break;
    case PROOF_AGAINST:
        lose_session(member, "the coordinator no longer knows this task");
        break;
    case PROOF_NONE:
        break;
    }
}

/* --- hold --- */

static void rejoin_group(struct rota_kafka_member *member)
{
    member->is_holding = member->is_assigned = member->has_round = false;
    rd_kafka_assign(member->client, NULL);
}

/* Checkers notify the others, which would learn it later if this were lost. */
static void tell_go(struct rota_kafka_member *member)
{
    rota_time sent_at = 0;
    if (!member->hold.may_go)
        prove_membership(member, member->hold.go, &sent_at);
}

static void hold_membership(struct rota_kafka_member *member)
{
    if (rd_kafka_assignment_lost(member->client)) {
        lose_session(member, "our session has ended");
        return;
    }
    show_life(member, member->hold.ready);
    if (member->is_over)
        return;
    bool is_over = rota_clock_boot() >= member->hold_until;
    if (!is_over && member->is_marked && member->has_round) {
        is_over =
            rota_sync_kafka_hold_may_proceed(&member->hold, member->client, member->options.setup);
        if (is_over)
            tell_go(member);
    }
    if (is_over || (member->is_marked && !member->has_round))
        rejoin_group(member);
}

/* A member that does not know the others yet does not wait for them, but they may wait for it. */
static void begin_hold(struct rota_kafka_member *member)
{
    rota_time now = rota_clock_boot();
    if (!member->has_round)
        rota_sync_kafka_coordinator_identify(member->client, &member->identity);
    member->is_holding = true;
    member->is_marked = false;
    member->hold_until = now + member->options.setup->session;
    member->prove_at = now; /* with the mark */
    rota_sync_kafka_hold_begin(&member->hold, member->options.setup, member->identity.generation);
}

/* --- events of librdkafka --- */

/* How long to wait before asking for the members of the round. The leader is first, since the
 * others wait for its epoch; if all asked at once it would be late. */
static rota_time delay_of(const struct rota_kafka_member *member)
{
    rota_time delay = member->place * PLACE_MS * ROTA_MSEC, most = member->options.setup->ok_every;
    return delay < most ? delay : most;
}

static void on_rebalance(struct rota_kafka_member *member, rd_kafka_event_t *event)
{
    if (rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        rd_kafka_topic_partition_list_t *nothing = rd_kafka_topic_partition_list_new(0);
        take_slot(member, rd_kafka_event_topic_partition_list(event));
        member->is_assigned = true;
        member->has_round = member->is_holding = false;
        member->round_at = rota_clock_boot() + delay_of(member);
        rd_kafka_assign(member->client, nothing); /* we are in, and read none of them */
        rd_kafka_topic_partition_list_destroy(nothing);
    } else if (rd_kafka_assignment_lost(member->client)) {
        member->is_holding = true; /* librdkafka would join again if we answered */
        lose_session(member, "our session has ended");
    } else {
        begin_hold(member);
    }
}

static void on_error(struct rota_kafka_member *member, rd_kafka_event_t *event)
{
    struct rota_error error;
    const struct rota_kafka_setup *setup = member->options.setup;
    rd_kafka_resp_err_t code = rd_kafka_event_error(event);
    if (code == RD_KAFKA_RESP_ERR_INVALID_SESSION_TIMEOUT) {
        rota_error_set(&error, ROTA_ERR_INVALID,
                       "Kafka rejects a session of %lld ms for the group %s: choose one between "
                       "group.min.session.timeout.ms and group.max.session.timeout.ms of its "
                       "brokers, or change these",
                       (long long)(setup->session / ROTA_MSEC), setup->group);
        tell_end(member, ROTA_SYNC_FAILED, &error);
    } else if (code == RD_KAFKA_RESP_ERR_INCONSISTENT_GROUP_PROTOCOL) {
        rota_error_set(&error, ROTA_ERR_INVALID,
                       "the group %s in Kafka has members that are not Rota tasks: give the group "
                       "another name",
                       setup->group);
        tell_end(member, ROTA_SYNC_FAILED, &error);
    } else if (rota_sync_kafka_topic_is_refusal(code)) {
        rota_error_set(&error, ROTA_ERR_INVALID, "cannot join the group %s in Kafka: %s: %s",
                       setup->group, rd_kafka_err2str(code), rd_kafka_event_error_string(event));
        tell_end(member, ROTA_SYNC_FAILED, &error);
    } else if (code == RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED || code == RD_KAFKA_RESP_ERR__FATAL) {
        lose_session(member, rd_kafka_event_error_string(event));
    } else if (code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) {
        member->needs_topic = true;
    }
}

static void on_event(struct rota_kafka_member *member, rd_kafka_event_t *event)
{
    switch (rd_kafka_event_type(event)) {
    case RD_KAFKA_EVENT_REBALANCE:
        on_rebalance(member, event);
        break;
    case RD_KAFKA_EVENT_ERROR:
        on_error(member, event);
        break;
    default:
        break;
    }
    rd_kafka_event_destroy(event);
}

/* --- its life --- */

/* For news, at most so long; everything that has arrived by then is handled. */
static void wait_for_news(struct rota_kafka_member *member, int ms)
{
    rd_kafka_event_t *event = rd_kafka_queue_poll(member->news, ms);
    for (int n = 0; event; n++) {
        on_event(member, event);
        event = n < EVENTS_MAX ? rd_kafka_queue_poll(member->news, 0) : NULL;
    }
}

/* How often we learn, at best, whether there is a new round. */
static rota_time heartbeat_interval(const struct rota_kafka_setup *setup)
{
    rota_time beat = setup->session / 60, least = 50 * ROTA_MSEC, most = 500 * ROTA_MSEC;
    return beat < least ? least : beat > most ? most : beat;
}

static enum rota_code open_client(struct rota_kafka_member *member, struct rota_error *error)
{
    const struct rota_kafka_setup *setup = member->options.setup;
    rota_time session = setup->session / ROTA_MSEC;
    char session_ms[24], beat_ms[24], join_ms[24];
    snprintf(session_ms, sizeof session_ms, "%lld", (long long)session);
    snprintf(beat_ms, sizeof beat_ms, "%lld", (long long)(heartbeat_interval(setup) / ROTA_MSEC));
    /* How long the others wait for us when there is a new round: longer than we hold. */
    snprintf(join_ms, sizeof join_ms, "%lld", (long long)(2 * session + 5000));
    const struct rota_kafka_setting settings[] = {
        {"client.id", member->client_id},   {"group.id", setup->group},
        {"session.timeout.ms", session_ms}, {"heartbeat.interval.ms", beat_ms},
        {"max.poll.interval.ms", join_ms},  {"partition.assignment.strategy", "range"},
        {"enable.auto.commit", "false"},    {"enable.auto.offset.store", "false"},
    };
    enum rota_code code = rota_sync_kafka_topic_client_open(
        setup, RD_KAFKA_CONSUMER, settings, sizeof settings / sizeof *settings,
        RD_KAFKA_EVENT_REBALANCE | RD_KAFKA_EVENT_ERROR, &member->client, error);
    if (code)
        return code;
    rd_kafka_poll_set_consumer(member->client);
    member->news = rd_kafka_queue_get_consumer(member->client);
    return ROTA_OK;
}

/* The topic by which the group is formed; its content does not matter. */
static enum rota_code make_topic(struct rota_kafka_member *member, struct rota_error *error)
{
    int n_partitions = 0, n_replicas = 0, n_brokers = 1;
    const char *topic = member->options.setup->rebalance_topic;
    enum rota_code code = rota_sync_kafka_topic_find(member->client, topic, &n_partitions,
                                                     &n_replicas, &n_brokers, error);
    if (code != ROTA_ERR_NOT_FOUND)
        return code;
    code = rota_sync_kafka_topic_make(member->client, topic, ROTA_KAFKA_REBALANCE_PARTITIONS,
                                      n_brokers < 3 ? n_brokers : 3, NULL, 0, error);
    return code ? code : ROTA_ERR_UNAVAILABLE; /* it is looked up again */
}

static void subscribe_group(struct rota_kafka_member *member)
{
    struct rota_error error;
    enum rota_code code = ROTA_ERR_UNAVAILABLE;
    while (!is_ending(member) && (code = make_topic(member, &error)) && code != ROTA_ERR_INVALID)
        wait_for_news(member, SLICE_MS);
    if (code == ROTA_ERR_INVALID)
        tell_end(member, ROTA_SYNC_FAILED, &error);
    if (is_ending(member))
        return;
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, member->options.setup->rebalance_topic,
                                      RD_KAFKA_PARTITION_UA);
    rd_kafka_subscribe(member->client, topics);
    rd_kafka_topic_partition_list_destroy(topics);
    member->is_subscribed = true;
    member->needs_topic = false;
}

/* If Kafka still counts a former incarnation of the same task as a member, all members would
 * wait for it if we joined now; so we wait alone until it is removed. Two tasks with one name at
 * the same time are a mistake that others report. */
static void await_former_life(struct rota_kafka_member *member)
{
    rota_time give_up_at = rota_clock_boot() + 2 * member->options.setup->session;
    bool is_there = true;
    while (is_there && !is_ending(member) && rota_clock_boot() < give_up_at) {
        struct rota_kafka_roster roster;
        bool is_known = rota_sync_kafka_coordinator_list_members(
            member->client, member->options.setup->group, &roster);
        is_there = !is_known;
        for (size_t i = 0; is_known && i < roster.n_members; i++)
            is_there |= is_same_task(member->client_id, roster.members[i].client_id);
        rota_sync_kafka_coordinator_roster_free(&roster);
        if (is_there)
            wait_for_news(member, SLICE_MS);
    }
}

/* librdkafka checks whether a heartbeat is due twice a second, and whenever its thread has
 * something to do. To learn of a new round sooner we give it something to do; members of a large
 * group less often, since all of them do. */
static void hasten_heartbeat(struct rota_kafka_member *member)
{
    struct rota_kafka_identity identity;
    rota_time now = rota_clock_boot(), beat = heartbeat_interval(member->options.setup);
    rota_time share = (rota_time)member->hold.holders.size * 2 * ROTA_MSEC;
    if (now < member->beat_at)
        return;
    member->beat_at = now + (beat > share ? beat : share);
    rota_sync_kafka_coordinator_identify(member->client, &identity);
}

static void stay_member(struct rota_kafka_member *member)
{
    show_life(member, "");
    hasten_heartbeat(member);
}

static rota_time earlier_time(rota_time a, rota_time b)
{
    return a < b ? a : b;
}

static void run_turn(struct rota_kafka_member *member)
{
    rota_time now = rota_clock_boot(), at = now + SLICE_MS * ROTA_MSEC;
    if (member->is_holding)
        at = earlier_time(at, member->is_marked ? member->hold.look_at : member->prove_at);
    else if (member->is_assigned && !member->has_round)
        at = earlier_time(at, member->round_at);
    else if (member->is_assigned)
        at = earlier_time(at, earlier_time(member->prove_at, member->beat_at));
    wait_for_news(member, at <= now ? 0 : (int)((at - now + ROTA_MSEC - 1) / ROTA_MSEC));

    if (member->is_over)
        return;
    if (member->needs_topic)
        subscribe_group(member);
    else if (member->is_holding)
        hold_membership(member);
    else if (member->is_assigned && member->has_round)
        stay_member(member);
    else if (member->is_assigned && rota_clock_boot() >= member->round_at)
        seek_round(member);
}

/* The coordinator gives a new member its id at once and expects it to join with that id within a
 * session. Until then it is not listed, but all joining members wait for it. So librdkafka must
 * not join again after the end, and a member that leaves while it joins has to know its id in
 * order to leave. */
static void leave_group(struct rota_kafka_member *member)
{
    rota_time until = rota_clock_boot() + ROTA_KAFKA_ASK_MS * ROTA_MSEC;
    struct rota_kafka_identity identity = {0};
    if (member->is_holding) {
        rd_kafka_unsubscribe(member->client);
        rd_kafka_assign(member->client, NULL);
    } else if (member->is_subscribed && !member->is_assigned) {
        rota_sync_kafka_coordinator_identify(member->client, &identity);
        while (!identity.id[0] && rota_clock_boot() < until) {
            wait_for_news(member, PLACE_MS);
            rota_sync_kafka_coordinator_identify(member->client, &identity);
        }
    }
    rd_kafka_queue_destroy(member->news);
    rd_kafka_consumer_close(member->client);
    rd_kafka_destroy(member->client);
}

static void run_member(struct rota_letter *letter)
{
    struct rota_kafka_member *member = (struct rota_kafka_member *)letter;
    struct rota_error error;
    if (open_client(member, &error)) {
        tell_end(member, ROTA_SYNC_FAILED, &error);
        return;
    }
    await_former_life(member);
    subscribe_group(member);
    while (!is_ending(member))
        run_turn(member);
    leave_group(member);
}

static void on_lived(struct rota_letter *letter, bool is_cancelled)
{
    (void)letter, (void)is_cancelled;
}

enum rota_code rota_sync_kafka_member_open(const struct rota_kafka_member_options *options,
                                           struct rota_kafka_member **member,
                                           struct rota_error *error)
{
    struct rota_kafka_member *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for a member of %s", options->setup->group);
    made->options = *options;
    made->letter = (struct rota_letter){.work = run_member, .done = on_lived};
    made->slot = -1;
    escape_line(options->line, made->client_id);
    enum rota_code code = rota_mailbox_thread_open(
        options->loop, &(struct rota_thread_options){.name = "rota-member"}, &made->thread, error);
    if (code) {
        free(made);
        return code;
    }
    code = rota_mailbox_thread_post(made->thread, &made->letter);
    (void)code; /* it has room for the first */
    *member = made;
    return ROTA_OK;
}

static void on_thread_closed(void *data)
{
    struct rota_kafka_member *member = data;
    void (*on_closed)(void *data) = member->on_closed;
    void *closed_data = member->closed_data;
    rota_vector_deinit(&member->hold.holders);
    free(member);
    on_closed(closed_data);
}

void rota_sync_kafka_member_close(struct rota_kafka_member *member, void (*on_closed)(void *data),
                                  void *data)
{
    member->on_closed = on_closed;
    member->closed_data = data;
    rota_mailbox_thread_close(member->thread, on_thread_closed, member);
}
