/* The thread of a log in Kafka: everything that blocks, for a bounded time. */
#include "io/clock.h"
#include "io/log/sync_kafka_inside.h"

#include <stdio.h>
#include <stdlib.h>

/* From librdkafka's threads. */
static void on_queue(rd_kafka_t *client, void *data)
{
    struct rota_kafka *kafka = data;
    (void)client;
    uv_async_send(&kafka->wake);
}

static rd_kafka_queue_t *watch_queue(struct rota_kafka *kafka, rd_kafka_queue_t *queue)
{
    rd_kafka_queue_cb_event_enable(queue, on_queue, kafka);
    return queue;
}

static void unwatch_queue(rd_kafka_queue_t **queue)
{
    if (!*queue)
        return;
    rd_kafka_queue_cb_event_enable(*queue, NULL, NULL);
    rd_kafka_queue_destroy(*queue);
    *queue = NULL;
}

static enum rota_code open_reader(struct rota_kafka *kafka, struct rota_error *error)
{
    static const struct rota_kafka_setting settings[] = {
        {"enable.partition.eof", "true"},
        {"auto.offset.reset", "error"},
        {"isolation.level", "read_uncommitted"},
        {"check.crcs", "true"},
        /* A request for the log's end waits until a fetch is done. */
        {"fetch.wait.max.ms", "50"},
        {"fetch.error.backoff.ms", "50"},
        {"queued.max.messages.kbytes", "16384"},
    };
    enum rota_code code = rota_sync_kafka_topic_client_open(
        &kafka->setup, RD_KAFKA_CONSUMER, settings, sizeof settings / sizeof *settings,
        RD_KAFKA_EVENT_ERROR, &kafka->reader, error);
    if (code)
        return code;
    kafka->reader_news = watch_queue(kafka, rd_kafka_queue_get_main(kafka->reader));
    kafka->reader_topic = rd_kafka_topic_new(kafka->reader, kafka->setup.sync_topic, NULL);
    return kafka->reader_topic
               ? ROTA_OK
               : rota_error_set(error, ROTA_ERR_INVALID, "Kafka's topic %s: %s",
                                kafka->setup.sync_topic, rd_kafka_err2str(rd_kafka_last_error()));
}

static enum rota_code open_producer(struct rota_kafka *kafka, struct rota_error *error)
{
    char timeout[16], bound[16];
    snprintf(timeout, sizeof timeout, "%d", ROTA_KAFKA_APPEND_MS);
    snprintf(bound, sizeof bound, "%d", ROTA_KAFKA_MESSAGE_MAX);
    const struct rota_kafka_setting settings[] = {
        {"acks", "all"},
        {"enable.idempotence", "true"},
        {"message.timeout.ms", timeout},
        {"message.max.bytes", bound},
        {"linger.ms", "0"},
        {"retry.backoff.ms", "50"},
    };
    enum rota_code code = rota_sync_kafka_topic_client_open(
        &kafka->setup, RD_KAFKA_PRODUCER, settings, sizeof settings / sizeof *settings,
        RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_DR, &kafka->producer, error);
    if (code)
        return code;
    kafka->producer_news = watch_queue(kafka, rd_kafka_queue_get_main(kafka->producer));
    kafka->producer_topic = rd_kafka_topic_new(kafka->producer, kafka->setup.sync_topic, NULL);
    return kafka->producer_topic
               ? ROTA_OK
               : rota_error_set(error, ROTA_ERR_INVALID, "Kafka's topic %s: %s",
                                kafka->setup.sync_topic, rd_kafka_err2str(rd_kafka_last_error()));
}

static void close_producer(struct rota_kafka *kafka)
{
    unwatch_queue(&kafka->producer_news);
    if (kafka->producer_topic)
        rd_kafka_topic_destroy(kafka->producer_topic);
    if (kafka->producer) {
        rd_kafka_purge(kafka->producer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        rd_kafka_destroy(kafka->producer);
    }
    kafka->producer_topic = NULL;
    kafka->producer = NULL;
}

static void stop_read(struct rota_kafka *kafka)
{
    if (kafka->records)
        rd_kafka_consume_stop(kafka->reader_topic, 0);
    unwatch_queue(&kafka->records);
}

static void close_clients(struct rota_kafka *kafka)
{
    stop_read(kafka);
    unwatch_queue(&kafka->reader_news);
    if (kafka->reader_topic)
        rd_kafka_topic_destroy(kafka->reader_topic);
    if (kafka->reader)
        rd_kafka_destroy(kafka->reader);
    kafka->reader_topic = NULL;
    kafka->reader = NULL;
    close_producer(kafka);
}

/* The log's beginning or end, as `which` says. rd_kafka_query_watermark_offsets() would ask for
 * both, but for as long as the broker is unreachable, whatever its timeout. */
static enum rota_code ask_end(struct rota_kafka *kafka, int64_t which, uint64_t *offset,
                              struct rota_error *error)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_t *partition =
        rd_kafka_topic_partition_list_add(list, kafka->setup.sync_topic, 0);
    partition->offset = which;
    rd_kafka_resp_err_t result = rd_kafka_offsets_for_times(kafka->reader, list, ROTA_KAFKA_ASK_MS);
    if (!result)
        result = list->elems[0].err;
    int64_t found = list->elems[0].offset;
    rd_kafka_topic_partition_list_destroy(list);
    if (!result && found < 0)
        result = RD_KAFKA_RESP_ERR__TIMED_OUT;
    if (result) {
        bool is_gone = result == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
                       result == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION ||
                       result == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
        return rota_error_set(error, is_gone ? ROTA_ERR_NOT_FOUND : ROTA_ERR_UNAVAILABLE,
                              "cannot query the offsets of Kafka's topic %s: %s",
                              kafka->setup.sync_topic, rd_kafka_err2str(result));
    }
    *offset = (uint64_t)found;
    return ROTA_OK;
}

static enum rota_code ask_log_end(struct rota_kafka *kafka, struct rota_kafka_job *job)
{
    job->sent_at = rota_clock_boot();
    return ask_end(kafka, RD_KAFKA_OFFSET_END, &job->end, &job->error);
}

/* The producer is opened last and closed first: brokers create a topic that a producer asks for,
 * with settings of their own. */
static enum rota_code look_up_topic(struct rota_kafka *kafka, struct rota_kafka_job *job)
{
    enum rota_code code = ROTA_OK;
    stop_read(kafka);
    close_producer(kafka);
    if (!kafka->reader)
        code = open_reader(kafka, &job->error);
    if (!code)
        code = rota_sync_kafka_topic_open(kafka->reader, &kafka->setup,
                                          !kafka->setup.is_observer && !kafka->has_opened,
                                          &job->error);
    if (!code)
        code = ask_end(kafka, RD_KAFKA_OFFSET_BEGINNING, &job->first, &job->error);
    if (!code)
        code = ask_log_end(kafka, job);
    if (!code && job->end < job->first) /* it was cut between the two */
        code = rota_error_set(&job->error, ROTA_ERR_UNAVAILABLE, "Kafka's topic %s is changing",
                              kafka->setup.sync_topic);
    if (!code && !kafka->setup.is_observer)
        code = open_producer(kafka, &job->error);
    return code;
}

static enum rota_code start_read(struct rota_kafka *kafka, struct rota_kafka_job *job)
{
    stop_read(kafka);
    kafka->records = watch_queue(kafka, rd_kafka_queue_new(kafka->reader));
    if (rd_kafka_consume_start_queue(kafka->reader_topic, 0, (int64_t)job->offset,
                                     kafka->records) == 0)
        return ROTA_OK;
    rd_kafka_resp_err_t result = rd_kafka_last_error();
    unwatch_queue(&kafka->records);
    return rota_error_set(&job->error, ROTA_ERR_UNAVAILABLE, "cannot read Kafka's topic %s: %s",
                          kafka->setup.sync_topic, rd_kafka_err2str(result));
}

void rota_sync_kafka_job_work(struct rota_letter *letter)
{
    struct rota_kafka *kafka = rota_kafka_job_owner(letter);
    struct rota_kafka_job *job = &kafka->job;
    switch (job->type) {
    case ROTA_KAFKA_LOOK:
        job->code = look_up_topic(kafka, job);
        break;
    case ROTA_KAFKA_START:
        job->code = start_read(kafka, job);
        break;
    case ROTA_KAFKA_ASK:
        job->code = ask_log_end(kafka, job);
        break;
    case ROTA_KAFKA_TRIM:
        job->code = rota_sync_kafka_topic_trim(kafka->reader, kafka->setup.sync_topic, job->offset,
                                               &job->error);
        break;
    case ROTA_KAFKA_RENEW:
        close_producer(kafka);
        job->code = open_producer(kafka, &job->error);
        break;
    case ROTA_KAFKA_END:
        close_clients(kafka);
        job->code = ROTA_OK;
        break;
    }
}
