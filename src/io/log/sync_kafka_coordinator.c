/* The view of a Kafka group's coordinator of its members. Everything here blocks, for a bounded
 * time.
 *
 * librdkafka's admin requests to a coordinator (DescribeConsumerGroups and its kin) abort the
 * process when a connection breaks at the wrong moment, as was seen with 2.0.2 when a broker
 * started; so this file asks the same questions with older requests. */
#include "io/log/sync_kafka_coordinator.h"

#include <stdlib.h>
#include <string.h>

enum { LIST_MS = 1000 }; /* how long to wait for an unreachable broker */

/* librdkafka shows the generation only in its encoding of a consumer's metadata: seven bytes
 * that name the format, the generation, the group and the member. */
bool rota_sync_kafka_coordinator_identify(rd_kafka_t *client, struct rota_kafka_identity *identity)
{
    static const char magic[] = "CGMDv2:";
    size_t size = 0, at = strlen(magic) + sizeof identity->generation;
    void *bytes = NULL;
    bool is_known = false;
    rd_kafka_consumer_group_metadata_t *metadata = rd_kafka_consumer_group_metadata(client);
    rd_kafka_error_t *failure =
        metadata ? rd_kafka_consumer_group_metadata_write(metadata, &bytes, &size) : NULL;
    if (metadata && !failure && size > at && memcmp(bytes, magic, strlen(magic)) == 0) {
        const char *text = bytes;
        const char *end = memchr(text + at, '\0', size - at);
        const char *id = end ? end + 1 : text + size;
        size_t id_size = strnlen(id, (size_t)(text + size - id));
        is_known = id_size < ROTA_KAFKA_ID_MAX;
        *identity = (struct rota_kafka_identity){0};
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

rd_kafka_resp_err_t rota_sync_kafka_coordinator_commit(rd_kafka_t *client, const char *topic,
                                                       int32_t slot, const char *mark)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_t *partition = rd_kafka_topic_partition_list_add(list, topic, slot);
    partition->offset = 0;
    if (mark[0]) {
        partition->metadata = strdup(mark);
        partition->metadata_size = partition->metadata ? strlen(mark) : 0;
    }
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_resp_err_t result = rd_kafka_commit_queue(client, list, queue, NULL, NULL);
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

bool rota_sync_kafka_coordinator_list_members(rd_kafka_t *client, const char *group,
                                              struct rota_kafka_roster *roster)
{
    const struct rd_kafka_group_list *list = NULL;
    rd_kafka_resp_err_t result = rd_kafka_list_groups(client, group, &list, LIST_MS);
    int n_found = 0;
    *roster = (struct rota_kafka_roster){0};
    if (result && result != RD_KAFKA_RESP_ERR__PARTIAL)
        return false;
    for (int i = 0; list && i < list->group_cnt; i++)
        if (!list->groups[i].err && strcmp(list->groups[i].group, group) == 0) {
            roster->members = list->groups[i].members;
            roster->n_members = (size_t)list->groups[i].member_cnt;
            roster->is_stable = strcmp(list->groups[i].state, "Stable") == 0;
            n_found++;
        }
    roster->list = list;
    /* If two claim to be the coordinator one is wrong; if none does, it may not have answered. */
    if (n_found == 1 || (n_found == 0 && !result))
        return true;
    rota_sync_kafka_coordinator_roster_free(roster);
    return false;
}

void rota_sync_kafka_coordinator_roster_free(struct rota_kafka_roster *roster)
{
    if (roster->list)
        rd_kafka_group_list_destroy(roster->list);
    *roster = (struct rota_kafka_roster){0};
}

bool rota_sync_kafka_coordinator_roster_has(const struct rota_kafka_roster *roster, const char *id)
{
    for (size_t i = 0; i < roster->n_members; i++)
        if (strcmp(roster->members[i].member_id, id) == 0)
            return true;
    return false;
}

/* --- the assignment, as consumers exchange it --- */

struct reader {
    const unsigned char *bytes;
    size_t size;
};

/* A big-endian number of `n` bytes; -1 after the end. */
static int64_t read_number(struct reader *reader, size_t n)
{
    int64_t number = 0;
    if (reader->size < n) {
        reader->size = 0;
        return -1;
    }
    for (size_t i = 0; i < n; i++)
        number = number << 8 | reader->bytes[i];
    reader->bytes += n;
    reader->size -= n;
    return number;
}

/* Version, and of each topic its name and its partitions. */
int32_t rota_sync_kafka_coordinator_slot_of(const struct rd_kafka_group_member_info *member,
                                            const char *topic)
{
    struct reader reader = {member->member_assignment, (size_t)member->member_assignment_size};
    int32_t slot = -1;
    if (!reader.bytes || member->member_assignment_size <= 0)
        return -1;
    read_number(&reader, 2);
    int64_t n_topics = read_number(&reader, 4);
    for (int64_t i = 0; i < n_topics && reader.size > 0; i++) {
        int64_t size = read_number(&reader, 2);
        if (size < 0 || (size_t)size > reader.size)
            return -1;
        bool is_ours =
            (size_t)size == strlen(topic) && memcmp(reader.bytes, topic, strlen(topic)) == 0;
        reader.bytes += size;
        reader.size -= (size_t)size;
        int64_t n_partitions = read_number(&reader, 4);
        for (int64_t k = 0; k < n_partitions && reader.size > 0; k++) {
            int64_t partition = read_number(&reader, 4);
            if (is_ours && partition >= 0 && partition <= INT32_MAX &&
                (slot < 0 || partition < slot))
                slot = (int32_t)partition;
        }
    }
    return slot;
}
