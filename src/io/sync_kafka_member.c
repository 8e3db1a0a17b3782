/* A member of a group in Kafka: a consumer of the rebalance topic that reads nothing.
 *
 * It lives on a thread from join() to leave(). The round is the consumer group's
 * generation, the leader is who holds partition 0, and the lines are the clients' ids,
 * which the coordinator tells to whoever asks.
 *
 * A sign of life is an offset commit. Unlike a heartbeat of librdkafka's own, we know
 * when it was sent and what the coordinator said of our generation; it counts as a
 * heartbeat there. It proves something only if we were the same member of the same
 * generation before and after, since a client that was thrown out commits as nobody,
 * which an empty group allows.
 *
 * Hold. While a join is pending the coordinator hears nothing else from us, and it is
 * pending for as long as somebody who was a member may still be alive. So that one that
 * has died does not take the sign of life from all others for a whole session, we go
 * into a new round only when all members of the last one have said, by what they commit,
 * that they are alive and ready, or are gone; until then we stay in the last one, where
 * our signs of life count. */
#include "io/clock.h"
#include "io/sync_kafka_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLICE_MS = 100, HOLD_SLICE_MS = 20, ID_MAX = 1024 };

/* We stop waiting for a description much earlier. librdkafka 2.0.2 must not: it aborts when
 * an answer comes after it has given up. */
enum { DESCRIBE_MS = 60000 };

/* Who we are at the coordinator; "" and -1 when nobody. */
struct identity {
    int32_t generation;
    char id[ID_MAX];
};

/* Another member of the round, and the partition on which it says that it is ready. */
struct holder {
    char id[ID_MAX];
    int32_t slot;
    bool is_ready;
};

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
    bool is_holding; /* asked to go into a new round, and not yet willing */
    int32_t slot;    /* a partition that we hold; -1: none */
    struct identity identity;
    ROTA_VECTOR(struct holder) holders;
    rota_time hold_until, round_at, prove_at;
    uint64_t n_posted;
    rota_time posted_at;
};

/* --- lines and ids --- */

static void escape(struct rota_str line, char *text)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < line.size && i < ROTA_SYNC_LINE_MAX; i++) {
        unsigned char c = (unsigned char)line.data[i];
        if (c > ' ' && c < 0x7f && c != '%') {
            *text++ = (char)c;
        } else {
            *text++ = '%';
            *text++ = digits[c >> 4];
            *text++ = digits[c & 15];
        }
    }
    *text = '\0';
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Into `line`, which has room for it; what we have not written is taken as it is. */
static size_t unescape(const char *text, char *line)
{
    size_t size = 0;
    for (; *text; text++) {
        int high = text[0] == '%' ? digit_of(text[1]) : -1;
        int low = high >= 0 ? digit_of(text[2]) : -1;
        line[size++] = (char)(low >= 0 ? high * 16 + low : *text);
        text += low >= 0 ? 2 : 0;
    }
    return size;
}

/* Whether both are lives of one task: what stands behind the '/' is the same. */
static bool is_same_task(const char *a, const char *b)
{
    const char *end_a = strchr(a, '/'), *end_b = strchr(b, '/');
    return end_a && end_b && strcmp(end_a, end_b) == 0;
}

/* librdkafka shows the generation only in what it writes of a consumer's metadata: seven
 * bytes that name the format, the generation, the group and the member. */
static bool identify(struct rota_kafka_member *member, struct identity *identity)
{
    static const char magic[] = "CGMDv2:";
    size_t size = 0, at = strlen(magic) + sizeof identity->generation;
    void *bytes = NULL;
    bool is_known = false;
    rd_kafka_consumer_group_metadata_t *metadata = rd_kafka_consumer_group_metadata(member->client);
    rd_kafka_error_t *failure =
        metadata ? rd_kafka_consumer_group_metadata_write(metadata, &bytes, &size) : NULL;
    if (metadata && !failure && size > at && memcmp(bytes, magic, strlen(magic)) == 0) {
        const char *text = bytes;
        const char *end = memchr(text + at, '\0', size - at);
        const char *id = end ? end + 1 : text + size;
        size_t id_size = strnlen(id, (size_t)(text + size - id));
        is_known = id_size < ID_MAX;
        *identity = (struct identity){0};
        memcpy(&identity->generation, text + strlen(magic), sizeof identity->generation);
        memcpy(identity->id, id, is_known ? id_size : 0);
    }
    if (failure)
        rd_kafka_error_destroy(failure);
    if (bytes)
        rd_kafka_mem_free(NULL, bytes);
    if (metadata)
        rd_kafka_consumer_group_metadata_destroy(metadata);
    return is_known && identity->generation >= 0 && identity->id[0];
}

static bool is_same(const struct identity *a, const struct identity *b)
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

/* The lines of `n` members and their bytes go behind the note. */
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
    return member->is_over || rota_thread_is_closing(member->thread);
}

/* Takes `note`. A full mailbox is waited for: a round must not be lost. */
static void post(struct rota_kafka_member *member, struct rota_kafka_note *note)
{
    const struct timespec moment = {.tv_nsec = 10000000};
    note->number = ++member->n_posted;
    member->posted_at = rota_clock_boot();
    while (rota_mailbox_post(member->options.notes, &note->letter)) {
        if (rota_thread_is_closing(member->thread)) {
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
    post(member, note);
}

static void tell_end(struct rota_kafka_member *member, enum rota_sync_event_type type,
                     const struct rota_error *error)
{
    struct rota_kafka_note *note = member->is_over ? NULL : new_note(member, type, 0, 0);
    member->is_over = true;
    if (!note)
        return;
    note->error = *error;
    post(member, note);
}

static void lose(struct rota_kafka_member *member, const char *why)
{
    struct rota_error error;
    rota_error_set(&error, ROTA_ERR_UNAVAILABLE, "the group %s in Kafka: %s",
                   member->options.setup->group, why);
    tell_end(member, ROTA_SYNC_GROUP_LOST, &error);
}

/* --- what the coordinator says --- */

enum proof {
    PROOF_GIVEN,
    PROOF_NONE,    /* nobody knows */
    PROOF_AGAINST, /* we are no member */
};

static rd_kafka_resp_err_t commit(struct rota_kafka_member *member, const char *mark)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_t *partition = rd_kafka_topic_partition_list_add(
        list, member->options.setup->rebalance_topic, member->slot >= 0 ? member->slot : 0);
    partition->offset = 0;
    if (mark[0] && member->slot >= 0) {
        partition->metadata = strdup(mark);
        partition->metadata_size = partition->metadata ? strlen(mark) : 0;
    }
    rd_kafka_queue_t *queue = rd_kafka_queue_new(member->client);
    rd_kafka_resp_err_t result = rd_kafka_commit_queue(member->client, list, queue, NULL, NULL);
    rd_kafka_event_t *event = result ? NULL : rd_kafka_queue_poll(queue, ROTA_KAFKA_ASK_MS);
    if (event) {
        rd_kafka_topic_partition_list_t *answer = rd_kafka_event_topic_partition_list(event);
        result = rd_kafka_event_error(event);
        if (!result && (!answer || answer->cnt != 1))
            result = RD_KAFKA_RESP_ERR__BAD_MSG;
        if (!result)
            result = answer->elems[0].err;
        rd_kafka_event_destroy(event);
    } else if (!result) {
        result = RD_KAFKA_RESP_ERR__TIMED_OUT;
    }
    rd_kafka_queue_destroy(queue);
    rd_kafka_topic_partition_list_destroy(list);
    return result;
}

/* Show the coordinator that we live, and what it says of us. */
static enum proof prove(struct rota_kafka_member *member, const char *mark, rota_time *sent_at)
{
    struct identity before, after;
    if (!identify(member, &before) || !is_same(&before, &member->identity))
        return PROOF_NONE;
    rota_time now = rota_clock_boot();
    rd_kafka_resp_err_t result = commit(member, mark);
    if (!identify(member, &after) || !is_same(&before, &after))
        return PROOF_NONE;
    if (result == RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID ||
        result == RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID)
        return PROOF_AGAINST;
    if (result)
        return PROOF_NONE;
    *sent_at = now;
    return PROOF_GIVEN;
}

/* Ask for the group; rd_kafka_event_destroy() ends what is given. */
static const rd_kafka_ConsumerGroupDescription_t *describe(struct rota_kafka_member *member,
                                                           rd_kafka_event_t **event)
{
    char text[128];
    size_t n = 0;
    const char *group = member->options.setup->group;
    const rd_kafka_ConsumerGroupDescription_t **groups = NULL;
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(member->client, RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS);
    rd_kafka_AdminOptions_set_request_timeout(options, DESCRIBE_MS, text, sizeof text);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(member->client);
    rd_kafka_DescribeConsumerGroups(member->client, &group, 1, options, queue);
    *event = rd_kafka_queue_poll(queue, 2 * ROTA_KAFKA_ASK_MS);
    rd_kafka_queue_destroy(queue);
    rd_kafka_AdminOptions_destroy(options);
    if (*event && !rd_kafka_event_error(*event))
        groups = rd_kafka_DescribeConsumerGroups_result_groups(
            rd_kafka_event_DescribeConsumerGroups_result(*event), &n);
    if (n == 1 && !rd_kafka_ConsumerGroupDescription_error(groups[0]))
        return groups[0];
    if (*event)
        rd_kafka_event_destroy(*event);
    *event = NULL;
    return NULL;
}

static const rd_kafka_MemberDescription_t *find_member(
    const rd_kafka_ConsumerGroupDescription_t *group, const char *id)
{
    size_t n = rd_kafka_ConsumerGroupDescription_member_count(group);
    for (size_t i = 0; i < n; i++) {
        const rd_kafka_MemberDescription_t *found =
            rd_kafka_ConsumerGroupDescription_member(group, i);
        if (strcmp(rd_kafka_MemberDescription_consumer_id(found), id) == 0)
            return found;
    }
    return NULL;
}

/* --- rounds --- */

static int32_t slot_of(const struct rota_kafka_member *member,
                       const rd_kafka_topic_partition_list_t *partitions)
{
    int32_t slot = -1;
    for (int i = 0; partitions && i < partitions->cnt; i++)
        if (strcmp(partitions->elems[i].topic, member->options.setup->rebalance_topic) == 0 &&
            (slot < 0 || partitions->elems[i].partition < slot))
            slot = partitions->elems[i].partition;
    return slot;
}

static void tell_round(struct rota_kafka_member *member,
                       const rd_kafka_ConsumerGroupDescription_t *group, rota_time sent_at)
{
    size_t n = rd_kafka_ConsumerGroupDescription_member_count(group), bytes = 0;
    if (n > ROTA_SYNC_MEMBERS_MAX)
        return;
    for (size_t i = 0; i < n; i++)
        bytes += strlen(rd_kafka_MemberDescription_client_id(
            rd_kafka_ConsumerGroupDescription_member(group, i)));
    struct rota_kafka_note *note = new_note(member, ROTA_SYNC_ROUND, n, bytes);
    if (!note)
        return;
    char *text = (char *)(note->members + n);
    note->n_members = n;
    note->generation = (uint64_t)member->identity.generation;
    note->is_leader = member->is_leader;
    note->sent_at = sent_at;
    member->holders.size = 0;
    for (size_t i = 0; i < n; i++) {
        const rd_kafka_MemberDescription_t *found =
            rd_kafka_ConsumerGroupDescription_member(group, i);
        size_t size = unescape(rd_kafka_MemberDescription_client_id(found), text);
        note->members[i] = rota_str_of(text, size);
        text += size;

        struct holder holder = {
            .slot = slot_of(member, rd_kafka_MemberAssignment_partitions(
                                        rd_kafka_MemberDescription_assignment(found)))};
        const char *id = rd_kafka_MemberDescription_consumer_id(found);
        if (strcmp(id, member->identity.id) != 0 && strlen(id) < ID_MAX && holder.slot >= 0) {
            strcpy(holder.id, id);
            (void)rota_vector_push(&member->holders, holder); /* without it we hold for less */
        }
    }
    member->has_round = true;
    post(member, note);
}

/* Find out who is in the round, and that we are. */
static void seek_round(struct rota_kafka_member *member)
{
    struct identity after;
    rota_time sent_at = 0;
    rd_kafka_event_t *event = NULL;
    member->round_at = rota_clock_boot() + HOLD_SLICE_MS * ROTA_MSEC;
    if (!identify(member, &member->identity))
        return;
    enum proof proof = prove(member, "", &sent_at);
    if (proof == PROOF_AGAINST)
        lose(member, "the coordinator does not know us any more");
    if (proof != PROOF_GIVEN)
        return;
    const rd_kafka_ConsumerGroupDescription_t *group = describe(member, &event);
    if (!group)
        return;
    if (rd_kafka_ConsumerGroupDescription_state(group) == RD_KAFKA_CONSUMER_GROUP_STATE_STABLE &&
        find_member(group, member->identity.id) && identify(member, &after) &&
        is_same(&after, &member->identity)) {
        tell_round(member, group, sent_at);
        member->prove_at = sent_at + member->options.setup->ok_every / 2;
    }
    rd_kafka_event_destroy(event);
}

/* A sign of life, if it is time for one. One whose loop takes nothing is not alive. */
static void show_life(struct rota_kafka_member *member, const char *mark)
{
    rota_time now = rota_clock_boot(), sent_at = 0;
    if (now < member->prove_at)
        return;
    member->prove_at = now + member->options.setup->ok_every / 2;
    if (atomic_load(member->options.taken) != member->n_posted) {
        if (now - member->posted_at > member->options.setup->session)
            lose(member, "the loop of this process did not run for a session");
        return;
    }
    switch (prove(member, mark, &sent_at)) {
    case PROOF_GIVEN:
        tell_ok(member, sent_at);
        break;
    case PROOF_AGAINST:
        lose(member, "the coordinator does not know us any more");
        break;
    case PROOF_NONE:
        break;
    }
}

/* --- hold --- */

static void see_marks(struct rota_kafka_member *member, const char *mark)
{
    char text[128];
    size_t n = 0;
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)member->holders.size);
    for (size_t i = 0; i < member->holders.size; i++)
        rd_kafka_topic_partition_list_add(list, member->options.setup->rebalance_topic,
                                          member->holders.items[i].slot);
    rd_kafka_ListConsumerGroupOffsets_t *request =
        rd_kafka_ListConsumerGroupOffsets_new(member->options.setup->group, list);
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(member->client, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS);
    rd_kafka_AdminOptions_set_request_timeout(options, ROTA_KAFKA_ASK_MS, text, sizeof text);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(member->client);
    rd_kafka_ListConsumerGroupOffsets(member->client, &request, 1, options, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, 2 * ROTA_KAFKA_ASK_MS);
    const rd_kafka_group_result_t **groups = NULL;
    if (event && !rd_kafka_event_error(event))
        groups = rd_kafka_ListConsumerGroupOffsets_result_groups(
            rd_kafka_event_ListConsumerGroupOffsets_result(event), &n);
    const rd_kafka_topic_partition_list_t *found =
        n == 1 ? rd_kafka_group_result_partitions(groups[0]) : NULL;
    for (int i = 0; found && i < found->cnt; i++)
        for (size_t k = 0; k < member->holders.size; k++)
            if (member->holders.items[k].slot == found->elems[i].partition &&
                found->elems[i].metadata_size == strlen(mark) &&
                memcmp(found->elems[i].metadata, mark, strlen(mark)) == 0)
                member->holders.items[k].is_ready = true;
    if (event)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ListConsumerGroupOffsets_destroy(request);
    rd_kafka_topic_partition_list_destroy(list);
}

/* All members of the last round are ready or gone. */
static bool is_everybody_ready(struct rota_kafka_member *member, const char *mark)
{
    rd_kafka_event_t *event = NULL;
    size_t n_missing = 0;
    if (member->holders.size == 0)
        return true;
    see_marks(member, mark);
    for (size_t i = 0; i < member->holders.size; i++)
        n_missing += !member->holders.items[i].is_ready;
    if (n_missing == 0)
        return true;
    const rd_kafka_ConsumerGroupDescription_t *group = describe(member, &event);
    if (!group)
        return false;
    for (size_t i = 0; i < member->holders.size; i++)
        n_missing -=
            !member->holders.items[i].is_ready && !find_member(group, member->holders.items[i].id);
    rd_kafka_event_destroy(event);
    return n_missing == 0;
}

static void rejoin(struct rota_kafka_member *member)
{
    member->is_holding = member->is_assigned = member->has_round = false;
    rd_kafka_assign(member->client, NULL);
}

static void hold(struct rota_kafka_member *member)
{
    char mark[32];
    snprintf(mark, sizeof mark, "ready %d", (int)member->identity.generation);
    if (rd_kafka_assignment_lost(member->client)) {
        lose(member, "our session is over");
        return;
    }
    if (member->has_round)
        show_life(member, mark);
    if (!member->is_over &&
        (rota_clock_boot() >= member->hold_until || is_everybody_ready(member, mark)))
        rejoin(member);
}

static void begin_hold(struct rota_kafka_member *member)
{
    rota_time now = rota_clock_boot();
    member->is_holding = true;
    member->hold_until = member->has_round ? now + member->options.setup->session : now;
    member->prove_at = now; /* with the mark */
    for (size_t i = 0; i < member->holders.size; i++)
        member->holders.items[i].is_ready = false;
}

/* --- what librdkafka says --- */

static void on_rebalance(struct rota_kafka_member *member, rd_kafka_event_t *event)
{
    if (rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        rd_kafka_topic_partition_list_t *nothing = rd_kafka_topic_partition_list_new(0);
        member->slot = slot_of(member, rd_kafka_event_topic_partition_list(event));
        member->is_leader = member->slot == 0;
        member->is_assigned = true;
        member->has_round = member->is_holding = false;
        member->round_at = 0;
        rd_kafka_assign(member->client, nothing); /* we are in, and read none of them */
        rd_kafka_topic_partition_list_destroy(nothing);
    } else if (rd_kafka_assignment_lost(member->client)) {
        rejoin(member);
        lose(member, "our session is over");
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
                       "Kafka refuses a session of %lld ms for the group %s: choose one between "
                       "its brokers' group.min.session.timeout.ms and "
                       "group.max.session.timeout.ms, or change these",
                       (long long)(setup->session / ROTA_MSEC), setup->group);
        tell_end(member, ROTA_SYNC_FAILED, &error);
    } else if (code == RD_KAFKA_RESP_ERR_INCONSISTENT_GROUP_PROTOCOL) {
        rota_error_set(&error, ROTA_ERR_INVALID,
                       "the group %s in Kafka has members that are not Rota's: give the group "
                       "another name",
                       setup->group);
        tell_end(member, ROTA_SYNC_FAILED, &error);
    } else if (rota_kafka_is_refusal(code)) {
        rota_error_set(&error, ROTA_ERR_INVALID, "join the group %s in Kafka: %s: %s", setup->group,
                       rd_kafka_err2str(code), rd_kafka_event_error_string(event));
        tell_end(member, ROTA_SYNC_FAILED, &error);
    } else if (code == RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED || code == RD_KAFKA_RESP_ERR__FATAL) {
        lose(member, rd_kafka_event_error_string(event));
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

static void wait(struct rota_kafka_member *member, int ms)
{
    rd_kafka_event_t *event = rd_kafka_queue_poll(member->news, ms);
    if (event)
        on_event(member, event);
}

static enum rota_code open_client(struct rota_kafka_member *member, struct rota_error *error)
{
    const struct rota_kafka_setup *setup = member->options.setup;
    rota_time session = setup->session / ROTA_MSEC, beat = session / 20 < 500 ? session / 20 : 500;
    char session_ms[24], beat_ms[24], join_ms[24];
    snprintf(session_ms, sizeof session_ms, "%lld", (long long)session);
    snprintf(beat_ms, sizeof beat_ms, "%lld", (long long)beat);
    /* So long the others wait for us when there is a new round: longer than we hold. */
    snprintf(join_ms, sizeof join_ms, "%lld", (long long)(2 * session + 5000));
    const struct rota_kafka_setting settings[] = {
        {"client.id", member->client_id},   {"group.id", setup->group},
        {"session.timeout.ms", session_ms}, {"heartbeat.interval.ms", beat_ms},
        {"max.poll.interval.ms", join_ms},  {"partition.assignment.strategy", "range"},
        {"enable.auto.commit", "false"},    {"enable.auto.offset.store", "false"},
    };
    enum rota_code code = rota_kafka_client_open(
        setup, RD_KAFKA_CONSUMER, settings, sizeof settings / sizeof *settings,
        RD_KAFKA_EVENT_REBALANCE | RD_KAFKA_EVENT_ERROR, &member->client, error);
    if (code)
        return code;
    rd_kafka_poll_set_consumer(member->client);
    member->news = rd_kafka_queue_get_consumer(member->client);
    return ROTA_OK;
}

/* The topic by which the group is formed; what is in it does not matter. */
static enum rota_code make_topic(struct rota_kafka_member *member, struct rota_error *error)
{
    int n_partitions = 0, n_replicas = 0, n_brokers = 1;
    const char *topic = member->options.setup->rebalance_topic;
    enum rota_code code =
        rota_kafka_topic_find(member->client, topic, &n_partitions, &n_replicas, &n_brokers, error);
    if (code != ROTA_ERR_NOT_FOUND)
        return code;
    code = rota_kafka_topic_make(member->client, topic, ROTA_KAFKA_REBALANCE_PARTITIONS,
                                 n_brokers < 3 ? n_brokers : 3, NULL, 0, error);
    return code ? code : ROTA_ERR_UNAVAILABLE; /* it is looked for again */
}

static void subscribe(struct rota_kafka_member *member)
{
    struct rota_error error;
    enum rota_code code = ROTA_ERR_UNAVAILABLE;
    while (!is_ending(member) && (code = make_topic(member, &error)) && code != ROTA_ERR_INVALID)
        wait(member, SLICE_MS);
    if (code == ROTA_ERR_INVALID)
        tell_end(member, ROTA_SYNC_FAILED, &error);
    if (is_ending(member))
        return;
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, member->options.setup->rebalance_topic,
                                      RD_KAFKA_PARTITION_UA);
    rd_kafka_subscribe(member->client, topics);
    rd_kafka_topic_partition_list_destroy(topics);
    member->needs_topic = false;
}

/* A former life of the same task that Kafka still believes in would be waited for by all
 * members if we came now; so we wait alone until it is gone. Two tasks that have one name
 * at the same time are a mistake that others tell. */
static void await_former_life(struct rota_kafka_member *member)
{
    rota_time give_up_at = rota_clock_boot() + 2 * member->options.setup->session;
    bool is_there = true;
    while (is_there && !is_ending(member) && rota_clock_boot() < give_up_at) {
        rd_kafka_event_t *event = NULL;
        const rd_kafka_ConsumerGroupDescription_t *group = describe(member, &event);
        size_t n = group ? rd_kafka_ConsumerGroupDescription_member_count(group) : 0;
        is_there = !group;
        for (size_t i = 0; i < n; i++)
            is_there |= is_same_task(member->client_id,
                                     rd_kafka_MemberDescription_client_id(
                                         rd_kafka_ConsumerGroupDescription_member(group, i)));
        if (event)
            rd_kafka_event_destroy(event);
        if (is_there)
            wait(member, SLICE_MS);
    }
}

static void turn(struct rota_kafka_member *member)
{
    rota_time now = rota_clock_boot(), at = now + SLICE_MS * ROTA_MSEC;
    if (member->is_holding)
        at = now + HOLD_SLICE_MS * ROTA_MSEC;
    else if (member->is_assigned && !member->has_round && member->round_at < at)
        at = member->round_at;
    else if (member->is_assigned && member->has_round && member->prove_at < at)
        at = member->prove_at;
    wait(member, at <= now ? 0 : (int)((at - now + ROTA_MSEC - 1) / ROTA_MSEC));

    if (member->is_over)
        return;
    if (member->needs_topic)
        subscribe(member);
    else if (member->is_holding)
        hold(member);
    else if (member->is_assigned && member->has_round)
        show_life(member, "");
    else if (member->is_assigned && rota_clock_boot() >= member->round_at)
        seek_round(member);
}

static void live(struct rota_letter *letter)
{
    struct rota_kafka_member *member = (struct rota_kafka_member *)letter;
    struct rota_error error;
    if (open_client(member, &error)) {
        tell_end(member, ROTA_SYNC_FAILED, &error);
        return;
    }
    await_former_life(member);
    subscribe(member);
    while (!is_ending(member))
        turn(member);
    rd_kafka_queue_destroy(member->news);
    rd_kafka_consumer_close(member->client);
    rd_kafka_destroy(member->client);
}

static void on_lived(struct rota_letter *letter, bool is_cancelled)
{
    (void)letter, (void)is_cancelled;
}

enum rota_code rota_kafka_member_open(const struct rota_kafka_member_options *options,
                                      struct rota_kafka_member **member, struct rota_error *error)
{
    struct rota_kafka_member *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "a member of %s", options->setup->group);
    made->options = *options;
    made->letter = (struct rota_letter){.work = live, .done = on_lived};
    made->slot = -1;
    escape(options->line, made->client_id);
    enum rota_code code = rota_thread_open(
        options->loop, &(struct rota_thread_options){.name = "rota-member"}, &made->thread, error);
    if (code) {
        free(made);
        return code;
    }
    code = rota_thread_post(made->thread, &made->letter);
    (void)code; /* it has room for the first */
    *member = made;
    return ROTA_OK;
}

static void on_thread_closed(void *data)
{
    struct rota_kafka_member *member = data;
    void (*on_closed)(void *data) = member->on_closed;
    void *closed_data = member->closed_data;
    rota_vector_deinit(&member->holders);
    free(member);
    on_closed(closed_data);
}

void rota_kafka_member_close(struct rota_kafka_member *member, void (*on_closed)(void *data),
                             void *data)
{
    member->on_closed = on_closed;
    member->closed_data = data;
    rota_thread_close(member->thread, on_thread_closed, member);
}
