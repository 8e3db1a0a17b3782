/* A member of Kafka's own consumer group, with librdkafka:
 * `group_kafka BROKERS GROUP TOPIC ASSIGNOR SESSION_MS`, which tallies (tally.h); or
 * `group_kafka BROKERS create TOPIC PARTITIONS`, which makes the topic.
 *
 * Sessions and heartbeats are as Rota's are. Nothing is fetched: the topic is empty and
 * the partitions are paused, so what is measured is who has what, and when. */
#include "tally.h"

#include <librdkafka/rdkafka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POLL_MS = 20, CREATE_MS = 200000, AT_ONCE_MAX = 2500 };

static volatile sig_atomic_t is_base_wanted;

static void on_signal(int number)
{
    (void)number;
    is_base_wanted = 1;
}

static void set(rd_kafka_conf_t *settings, const char *name, const char *value)
{
    char text[256];
    if (rd_kafka_conf_set(settings, name, value, text, sizeof text) != RD_KAFKA_CONF_OK)
        tally_fail("%s", text);
}

static rd_kafka_t *open_client(rd_kafka_type_t type, rd_kafka_conf_t *settings)
{
    char text[256];
    rd_kafka_t *client = rd_kafka_new(type, settings, text, sizeof text);
    if (!client)
        tally_fail("%s", text);
    return client;
}

static void tally(const rd_kafka_topic_partition_list_t *list, void (*each)(size_t partition))
{
    for (int i = 0; i < list->cnt; i++)
        each((size_t)list->elems[i].partition);
}

static void on_rebalance(rd_kafka_t *client, rd_kafka_resp_err_t what,
                         rd_kafka_topic_partition_list_t *list, void *data)
{
    bool is_cooperative = strcmp(rd_kafka_rebalance_protocol(client), "COOPERATIVE") == 0;
    (void)data;
    if (what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        if (is_cooperative)
            rd_kafka_error_destroy(rd_kafka_incremental_assign(client, list));
        else
            rd_kafka_assign(client, list);
        rd_kafka_pause_partitions(client, list);
        tally(list, tally_start);
    } else {
        tally(list, tally_stop);
        if (is_cooperative)
            rd_kafka_error_destroy(rd_kafka_incremental_unassign(client, list));
        else
            rd_kafka_assign(client, NULL);
    }
}

/* The answer to what was asked of the brokers. */
static void await_answer(rd_kafka_queue_t *queue, const char *topic)
{
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, CREATE_MS);
    const rd_kafka_topic_result_t **topics = NULL;
    size_t n = 0;
    if (event && rd_kafka_event_type(event) == RD_KAFKA_EVENT_CREATETOPICS_RESULT)
        topics = rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &n);
    else if (event)
        topics = rd_kafka_CreatePartitions_result_topics(
            rd_kafka_event_CreatePartitions_result(event), &n);
    if (n != 1 || rd_kafka_topic_result_error(topics[0]))
        tally_fail("%s: %s", topic,
                   n ? rd_kafka_topic_result_error_string(topics[0]) : "no answer");
    rd_kafka_event_destroy(event);
}

/* A broker makes less than 10,000 partitions at once. */
static int create(const char *brokers, const char *topic, int n_partitions)
{
    rd_kafka_conf_t *settings = rd_kafka_conf_new();
    char text[256];
    set(settings, "bootstrap.servers", brokers);
    rd_kafka_t *client = open_client(RD_KAFKA_PRODUCER, settings);
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(client, RD_KAFKA_ADMIN_OP_ANY);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    int n_first = n_partitions < AT_ONCE_MAX ? n_partitions : AT_ONCE_MAX;
    rd_kafka_NewTopic_t *made = rd_kafka_NewTopic_new(topic, n_first, 1, text, sizeof text);
    if (!made || rd_kafka_AdminOptions_set_request_timeout(options, CREATE_MS, text, sizeof text))
        tally_fail("%s", text);
    rd_kafka_CreateTopics(client, &made, 1, options, queue);
    await_answer(queue, topic);
    for (int n = n_first; n < n_partitions;) {
        n = n + AT_ONCE_MAX < n_partitions ? n + AT_ONCE_MAX : n_partitions;
        rd_kafka_NewPartitions_t *more =
            rd_kafka_NewPartitions_new(topic, (size_t)n, text, sizeof text);
        if (!more)
            tally_fail("%s", text);
        rd_kafka_CreatePartitions(client, &more, 1, options, queue);
        await_answer(queue, topic);
    }
    printf("made\n");
    return 0; /* the process ends with the client */
}

int main(int argc, char **argv)
{
    char heartbeat[16];
    if (argc == 5 && strcmp(argv[2], "create") == 0)
        return create(argv[1], argv[3], atoi(argv[4]));
    if (argc != 6)
        tally_fail("usage: group_kafka BROKERS GROUP TOPIC ASSIGNOR SESSION_MS");
    rd_kafka_conf_t *settings = rd_kafka_conf_new();
    snprintf(heartbeat, sizeof heartbeat, "%d", atoi(argv[5]) / 20);
    set(settings, "bootstrap.servers", argv[1]);
    set(settings, "group.id", argv[2]);
    set(settings, "partition.assignment.strategy", argv[4]);
    set(settings, "session.timeout.ms", argv[5]);
    set(settings, "heartbeat.interval.ms", heartbeat);
    set(settings, "enable.auto.commit", "false");
    set(settings, "auto.offset.reset", "latest");
    rd_kafka_conf_set_rebalance_cb(settings, on_rebalance);
    rd_kafka_t *client = open_client(RD_KAFKA_CONSUMER, settings);
    rd_kafka_poll_set_consumer(client);
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, argv[3], RD_KAFKA_PARTITION_UA);
    signal(SIGUSR1, on_signal);
    if (rd_kafka_subscribe(client, topics))
        tally_fail("%s: no subscription", argv[3]);
    for (;;) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(client, POLL_MS);
        if (message)
            rd_kafka_message_destroy(message);
        if (is_base_wanted) {
            is_base_wanted = 0;
            tally_base();
        }
        tally_print();
    }
}
