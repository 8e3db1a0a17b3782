#include "kafka_admin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KAFKA_ADMIN_MS = AWAIT_MAX_MS / 2 };

static rd_kafka_t *kafka_admin; /* a producer */

void kafka_admin_open(const char *url)
{
    char text[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    assert_int_equal(
        rd_kafka_conf_set(conf, "bootstrap.servers", url + strlen("kafka://"), text, sizeof text),
        RD_KAFKA_CONF_OK);
    assert_int_equal(rd_kafka_conf_set(conf, "message.max.bytes", "4000000", text, sizeof text),
                     RD_KAFKA_CONF_OK);
    assert_int_equal(rd_kafka_conf_set(conf, "log_level", "0", text, sizeof text),
                     RD_KAFKA_CONF_OK); /* brokers come and go */
    kafka_admin = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
    assert_non_null(kafka_admin);
}

void kafka_admin_close(void)
{
    rd_kafka_destroy(kafka_admin);
}

static rd_kafka_event_t *kafka_admin_await(rd_kafka_queue_t *queue)
{
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, KAFKA_ADMIN_MS);
    assert_non_null(event);
    if (rd_kafka_event_error(event))
        fail_msg("%s", rd_kafka_event_error_string(event));
    rd_kafka_queue_destroy(queue);
    return event;
}

bool kafka_admin_create_new(const char *topic, int n_partitions, const char *const *settings)
{
    char text[256];
    size_t n;
    rd_kafka_NewTopic_t *made = rd_kafka_NewTopic_new(topic, n_partitions, 1, text, sizeof text);
    for (size_t i = 0; settings[i]; i += 2)
        rd_kafka_NewTopic_set_config(made, settings[i], settings[i + 1]);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(kafka_admin);
    rd_kafka_CreateTopics(kafka_admin, &made, 1, NULL, queue);
    rd_kafka_event_t *event = kafka_admin_await(queue);
    const rd_kafka_topic_result_t **results =
        rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &n);
    rd_kafka_resp_err_t code = rd_kafka_topic_result_error(results[0]);
    if (code && code != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
        fail_msg("%s: %s", topic, rd_kafka_topic_result_error_string(results[0]));
    rd_kafka_event_destroy(event);
    rd_kafka_NewTopic_destroy(made);
    return !code;
}

void kafka_admin_create(const char *topic, int n_partitions, const char *const *settings)
{
    assert_true(kafka_admin_create_new(topic, n_partitions, settings));
}

void kafka_admin_delete(const char *topic)
{
    size_t n;
    rd_kafka_DeleteTopic_t *gone = rd_kafka_DeleteTopic_new(topic);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(kafka_admin);
    rd_kafka_DeleteTopics(kafka_admin, &gone, 1, NULL, queue);
    rd_kafka_event_t *event = kafka_admin_await(queue);
    const rd_kafka_topic_result_t **results =
        rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event), &n);
    assert_int_equal(rd_kafka_topic_result_error(results[0]), 0);
    rd_kafka_event_destroy(event);
    rd_kafka_DeleteTopic_destroy(gone);
}

void kafka_admin_cut(const char *topic, int64_t offset)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, 0)->offset = offset;
    rd_kafka_DeleteRecords_t *records = rd_kafka_DeleteRecords_new(list);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(kafka_admin);
    rd_kafka_DeleteRecords(kafka_admin, &records, 1, NULL, queue);
    rd_kafka_event_destroy(kafka_admin_await(queue));
    rd_kafka_DeleteRecords_destroy(records);
    rd_kafka_topic_partition_list_destroy(list);
}

void kafka_admin_write(const char *topic, int size)
{
    char *bytes = malloc(size > 0 ? (size_t)size : 1);
    assert_non_null(bytes);
    memset(bytes, 'f', size > 0 ? (size_t)size : 1);
    rd_kafka_topic_t *handle = rd_kafka_topic_new(kafka_admin, topic, NULL);
    assert_int_equal(rd_kafka_produce(handle, 0, RD_KAFKA_MSG_F_COPY, size < 0 ? NULL : bytes,
                                      size < 0 ? 0 : (size_t)size, "key", 3, NULL),
                     0);
    assert_int_equal(rd_kafka_flush(kafka_admin, KAFKA_ADMIN_MS), 0);
    rd_kafka_topic_destroy(handle);
    free(bytes);
}

void kafka_admin_await_in_sync(int n)
{
    bool is_in_sync = false;
    uint64_t give_up_at = uv_hrtime() + AWAIT_MAX_MS * (uint64_t)1000000;
    while (!is_in_sync) {
        const struct rd_kafka_metadata *metadata;
        assert_true(uv_hrtime() < give_up_at);
        usleep(50000); /* between two looks: a broker tells nobody of it */
        if (rd_kafka_metadata(kafka_admin, 1, NULL, &metadata, KAFKA_ADMIN_MS))
            continue;
        is_in_sync = metadata->broker_cnt == n;
        for (int i = 0; i < metadata->topic_cnt; i++)
            for (int k = 0; k < metadata->topics[i].partition_cnt; k++)
                is_in_sync &= metadata->topics[i].partitions[k].isr_cnt ==
                              metadata->topics[i].partitions[k].replica_cnt;
        rd_kafka_metadata_destroy(metadata);
    }
}
