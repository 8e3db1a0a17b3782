/* sync_kafka_topic: clients of librdkafka and the topics of the Kafka engine. Any thread. */
#pragma once

#include "io/log/sync_inside.h"
#include "io/mailbox.h"
#include "wire/text/kafka_url.h"

#include <librdkafka/rdkafka.h>

enum {
    ROTA_KAFKA_ASK_MS = 2000, /* one request, at most; so long a close() may take */
    ROTA_KAFKA_APPEND_MS = 5000,

    /* Of the largest message: a record and Kafka's overhead. */
    ROTA_KAFKA_MESSAGE_MAX = ROTA_SYNC_RECORD_MAX + 4096,

    /* Each member should hold a partition of the rebalance topic: see
     * sync_kafka_hold.c. */
    ROTA_KAFKA_REBALANCE_PARTITIONS = 128,
};

/* What all clients are made from. It does not change, and outlives them. */
struct rota_kafka_setup {
    struct rota_kafka_url url;
    char *group, *sync_topic, *rebalance_topic;
    rota_time session, ok_every;
    bool is_observer;
    struct rota_mailbox *lines; /* log lines of librdkafka */
    char *words;                /* and its last error message; the loop's */
    const struct rota_log *log;
};

enum { ROTA_KAFKA_WORDS_MAX = 256 };

struct rota_kafka_setting {
    const char *name, *value;
};

/* Whether librdkafka takes the properties of the URL. */
enum rota_code rota_sync_kafka_topic_client_check(const struct rota_kafka_setup *setup,
                                                  struct rota_error *error);

/* Give a client; rd_kafka_destroy() frees it. ROTA_ERR_INVALID if the URL has an invalid
 * property. */
enum rota_code rota_sync_kafka_topic_client_open(const struct rota_kafka_setup *setup,
                                                 rd_kafka_type_t type,
                                                 const struct rota_kafka_setting *settings,
                                                 size_t n_settings, int events, rd_kafka_t **client,
                                                 struct rota_error *error);

/* An error that retrying won't cure: permissions, a password. */
bool rota_sync_kafka_topic_is_refusal(rd_kafka_resp_err_t code);

/* Whether there is such a topic, and with how many partitions: ROTA_ERR_NOT_FOUND when
 * not, ROTA_ERR_INVALID when we may not know, ROTA_ERR_UNAVAILABLE otherwise. */
enum rota_code rota_sync_kafka_topic_find(rd_kafka_t *client, const char *name, int *n_partitions,
                                          int *n_replicas, int *n_brokers,
                                          struct rota_error *error);

/* Create it, if it does not exist by now. Codes as above. */
enum rota_code rota_sync_kafka_topic_make(rd_kafka_t *client, const char *name, int n_partitions,
                                          int n_replicas, const struct rota_kafka_setting *settings,
                                          size_t n_settings, struct rota_error *error);

/* The sync topic: created if allowed, and checked. ROTA_ERR_INVALID says what to change. */
enum rota_code rota_sync_kafka_topic_open(rd_kafka_t *client, const struct rota_kafka_setup *setup,
                                          bool may_make, struct rota_error *error);

/* Delete records below `offset`. */
enum rota_code rota_sync_kafka_topic_trim(rd_kafka_t *client, const char *name, uint64_t offset,
                                          struct rota_error *error);
