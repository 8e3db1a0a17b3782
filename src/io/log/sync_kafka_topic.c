/* Clients of Kafka, and the topics of a group. Everything here blocks, for a bounded
 * time. */
#include "io/log/sync_kafka_topic.h"
#include "io/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- clients --- */

struct line {
    struct rota_letter letter;
    const struct rota_kafka_setup *setup;
    enum rota_log_level level;
    bool is_trouble; /* the last of these is part of why the brokers can't be reached */
    char text[ROTA_LOG_VALUE_MAX];
};

static void on_line(struct rota_letter *letter, bool is_cancelled)
{
    struct line *line = (struct line *)letter;
    if (!is_cancelled) {
        rota_log(line->setup->log, rota_clock_wall(), line->level, "kafka says",
                 ROTA_LOG_FACT("text", line->text));
        if (line->is_trouble)
            snprintf(line->setup->words, ROTA_KAFKA_WORDS_MAX, "%.*s", ROTA_KAFKA_WORDS_MAX - 1,
                     line->text);
    }
    free(line);
}

/* From librdkafka's threads. If there are too many lines, the rest is dropped. */
static void on_client_log(const rd_kafka_t *client, int level, const char *facility,
                          const char *text)
{
    const struct rota_kafka_setup *setup = client ? rd_kafka_opaque(client) : NULL;
    /* librdkafka reports a broken connection for each broker and each try: we report it once,
     * ourselves. */
    bool is_trouble = level <= 4, is_loud = is_trouble && strcmp(facility, "FAIL") != 0;
    enum rota_log_level ours = is_loud ? ROTA_LOG_WARN : ROTA_LOG_DEBUG;
    bool is_heard = setup && (is_trouble || rota_log_is_on(setup->log, ours));
    struct line *line = is_heard ? malloc(sizeof *line) : NULL;
    if (!line)
        return;
    *line = (struct line){
        .letter.done = on_line, .setup = setup, .level = ours, .is_trouble = is_trouble};
    snprintf(line->text, sizeof line->text, "%s: %s", facility, text);
    if (rota_mailbox_post(setup->lines, &line->letter))
        free(line);
}

/* librdkafka's own message may show the value, which may be a secret. */
static enum rota_code set_property(rd_kafka_conf_t *conf, const char *name, const char *value,
                                   struct rota_error *error)
{
    char text[256];
    switch (rd_kafka_conf_set(conf, name, value, text, sizeof text)) {
    case RD_KAFKA_CONF_OK:
        return ROTA_OK;
    case RD_KAFKA_CONF_UNKNOWN:
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the log's URL: librdkafka %s has no property %s",
                              rd_kafka_version_str(), name);
    case RD_KAFKA_CONF_INVALID:
        break;
    }
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "the log's URL: librdkafka %s rejects the value of the property %s",
                          rd_kafka_version_str(), name);
}

static enum rota_code set_all(rd_kafka_conf_t *conf, const struct rota_kafka_setup *setup,
                              struct rota_error *error)
{
    static const struct rota_kafka_setting common[] = {
        {"socket.keepalive.enable", "true"},
        {"socket.timeout.ms", "5000"},
        {"reconnect.backoff.ms", "50"},
        {"reconnect.backoff.max.ms", "1000"},
        {"topic.metadata.refresh.interval.ms", "10000"},
    };
    enum rota_code code = set_property(conf, "bootstrap.servers", setup->url.hosts, error);
    for (size_t i = 0; i < sizeof common / sizeof *common && !code; i++)
        code = set_property(conf, common[i].name, common[i].value, error);
    for (size_t i = 0; i < setup->url.n_properties && !code; i++)
        code = set_property(conf, setup->url.properties[i].name, setup->url.properties[i].value,
                            error);
    return code;
}

enum rota_code rota_sync_kafka_topic_client_check(const struct rota_kafka_setup *setup,
                                                  struct rota_error *error)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    enum rota_code code = set_all(conf, setup, error);
    rd_kafka_conf_destroy(conf);
    return code;
}

enum rota_code rota_sync_kafka_topic_client_open(const struct rota_kafka_setup *setup,
                                                 rd_kafka_type_t type,
                                                 const struct rota_kafka_setting *settings,
                                                 size_t n_settings, int events, rd_kafka_t **client,
                                                 struct rota_error *error)
{
    char text[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    enum rota_code code = set_all(conf, setup, error);
    for (size_t i = 0; i < n_settings && !code; i++)
        code = set_property(conf, settings[i].name, settings[i].value, error);
    if (code)
        goto fail;
    rd_kafka_conf_set_opaque(conf, (void *)setup);
    rd_kafka_conf_set_log_cb(conf, on_client_log);
    rd_kafka_conf_set_events(conf, events);
    rd_kafka_t *made = rd_kafka_new(type, conf, text, sizeof text);
    if (!made) {
        code = rota_error_set(error, ROTA_ERR_INVALID,
                              "the log's URL: librdkafka %s rejects this combination of properties",
                              rd_kafka_version_str());
        goto fail;
    }
    *client = made;
    return ROTA_OK;

fail:
    rd_kafka_conf_destroy(conf);
    return code;
}

/* A replication factor is not: a topic gets no more replicas than there are brokers, but one of
 * them may be fenced just then, or not be registered yet. */
bool rota_sync_kafka_topic_is_refusal(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR__AUTHENTICATION ||
           code == RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED ||
           code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
           code == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED ||
           code == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED ||
           code == RD_KAFKA_RESP_ERR_POLICY_VIOLATION || code == RD_KAFKA_RESP_ERR_INVALID_CONFIG ||
           code == RD_KAFKA_RESP_ERR__SSL;
}

static enum rota_code code_of(rd_kafka_resp_err_t code)
{
    if (code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
        code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC || code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION)
        return ROTA_ERR_NOT_FOUND;
    return rota_sync_kafka_topic_is_refusal(code) ? ROTA_ERR_INVALID : ROTA_ERR_UNAVAILABLE;
}

/* --- topics --- */

enum rota_code rota_sync_kafka_topic_find(rd_kafka_t *client, const char *name, int *n_partitions,
                                          int *n_replicas, int *n_brokers, struct rota_error *error)
{
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, name, NULL);
    if (!topic)
        return rota_error_set(error, ROTA_ERR_INVALID, "Kafka's topic %s: %s", name,
                              rd_kafka_err2str(rd_kafka_last_error()));
    rd_kafka_resp_err_t result = rd_kafka_metadata(client, 0, topic, &metadata, ROTA_KAFKA_ASK_MS);
    rd_kafka_topic_destroy(topic);
    enum rota_code code = ROTA_OK;
    if (!result && metadata->topic_cnt != 1)
        result = RD_KAFKA_RESP_ERR__BAD_MSG;
    if (!result)
        result = metadata->topics[0].err;
    if (!result && metadata->topics[0].partition_cnt == 0)
        result = RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE;
    if (metadata)
        *n_brokers = metadata->broker_cnt;
    if (result) {
        code = rota_error_set(error, code_of(result), "cannot query Kafka's topic %s: %s", name,
                              rd_kafka_err2str(result));
    } else {
        *n_partitions = metadata->topics[0].partition_cnt;
        *n_replicas = metadata->topics[0].partitions[0].replica_cnt;
    }
    if (metadata)
        rd_kafka_metadata_destroy(metadata);
    return code;
}

/* The answer to a request that was sent with `queue`, or the error. */
static enum rota_code await_result(rd_kafka_queue_t *queue, const char *what, const char *name,
                                   rd_kafka_event_t **event, struct rota_error *error)
{
    rd_kafka_event_t *answer = rd_kafka_queue_poll(queue, 2 * ROTA_KAFKA_ASK_MS);
    rd_kafka_resp_err_t result =
        answer ? rd_kafka_event_error(answer) : RD_KAFKA_RESP_ERR__TIMED_OUT;
    if (!result) {
        *event = answer;
        return ROTA_OK;
    }
    enum rota_code code = rota_error_set(error, code_of(result), "%s Kafka's topic %s: %s", what,
                                         name, rd_kafka_err2str(result));
    if (answer)
        rd_kafka_event_destroy(answer);
    return code;
}

static rd_kafka_AdminOptions_t *new_options(rd_kafka_t *client, rd_kafka_admin_op_t operation)
{
    char text[128];
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(client, operation);
    rd_kafka_AdminOptions_set_request_timeout(options, ROTA_KAFKA_ASK_MS, text, sizeof text);
    return options;
}

enum rota_code rota_sync_kafka_topic_make(rd_kafka_t *client, const char *name, int n_partitions,
                                          int n_replicas, const struct rota_kafka_setting *settings,
                                          size_t n_settings, struct rota_error *error)
{
    char text[256];
    rd_kafka_event_t *event = NULL;
    rd_kafka_NewTopic_t *topic =
        rd_kafka_NewTopic_new(name, n_partitions, n_replicas, text, sizeof text);
    if (!topic)
        return rota_error_set(error, ROTA_ERR_INVALID, "cannot create Kafka's topic %s: %s", name,
                              text);
    for (size_t i = 0; i < n_settings; i++)
        rd_kafka_NewTopic_set_config(topic, settings[i].name, settings[i].value);

    rd_kafka_AdminOptions_t *options = new_options(client, RD_KAFKA_ADMIN_OP_CREATETOPICS);
    rd_kafka_AdminOptions_set_operation_timeout(options, ROTA_KAFKA_ASK_MS, text, sizeof text);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_CreateTopics(client, &topic, 1, options, queue);
    enum rota_code code = await_result(queue, "make", name, &event, error);
    if (!code) {
        size_t n;
        const rd_kafka_topic_result_t **results =
            rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &n);
        rd_kafka_resp_err_t result =
            n == 1 ? rd_kafka_topic_result_error(results[0]) : RD_KAFKA_RESP_ERR__BAD_MSG;
        if (result && result != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
            code = rota_error_set(error, code_of(result), "cannot create Kafka's topic %s: %s",
                                  name, rd_kafka_err2str(result));
        rd_kafka_event_destroy(event);
    }
    rd_kafka_queue_destroy(queue);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_NewTopic_destroy(topic);
    return code;
}

enum rota_code rota_sync_kafka_topic_trim(rd_kafka_t *client, const char *name, uint64_t offset,
                                          struct rota_error *error)
{
    rd_kafka_event_t *event = NULL;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, name, 0)->offset = (int64_t)offset;
    rd_kafka_DeleteRecords_t *records = rd_kafka_DeleteRecords_new(list);
    rd_kafka_AdminOptions_t *options = new_options(client, RD_KAFKA_ADMIN_OP_DELETERECORDS);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);

    rd_kafka_DeleteRecords(client, &records, 1, options, queue);
    enum rota_code code = await_result(queue, "trim", name, &event, error);
    if (!code) {
        const rd_kafka_topic_partition_list_t *offsets =
            rd_kafka_DeleteRecords_result_offsets(rd_kafka_event_DeleteRecords_result(event));
        rd_kafka_resp_err_t result =
            offsets->cnt == 1 ? offsets->elems[0].err : RD_KAFKA_RESP_ERR__BAD_MSG;
        if (result)
            code = rota_error_set(error, code_of(result), "cannot trim Kafka's topic %s: %s", name,
                                  rd_kafka_err2str(result));
        rd_kafka_event_destroy(event);
    }
    rd_kafka_queue_destroy(queue);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_DeleteRecords_destroy(records);
    rd_kafka_topic_partition_list_destroy(list);
    return code;
}

/* --- the sync topic --- */

static enum rota_code reject_topic(const char *topic, const char *name, const char *value,
                                   const char *wanted, const char *why, struct rota_error *error)
{
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "Kafka's topic %s has %s=%s, but a group needs %s: %s; change it with "
                          "kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type "
                          "topics --entity-name %s --add-config %s=%s",
                          topic, name, value, wanted, why, topic, name, wanted);
}

static enum rota_code check_setting(const char *topic, const char *name, const char *value,
                                    int n_replicas, struct rota_error *error)
{
    char wanted[16];
    if (strcmp(name, "cleanup.policy") == 0 && strcmp(value, "delete") != 0)
        return reject_topic(topic, name, value, "delete", "every record is needed", error);
    if ((strcmp(name, "retention.ms") == 0 || strcmp(name, "retention.bytes") == 0) &&
        strcmp(value, "-1") != 0)
        return reject_topic(topic, name, value, "-1",
                            "only the group knows which records can be deleted", error);
    if (strcmp(name, "max.message.bytes") == 0 && atoll(value) < ROTA_KAFKA_MESSAGE_MAX) {
        snprintf(wanted, sizeof wanted, "%d", ROTA_KAFKA_MESSAGE_MAX);
        return reject_topic(topic, name, value, wanted, "its records can be that large", error);
    }
    if (strcmp(name, "unclean.leader.election.enable") == 0 && strcmp(value, "false") != 0)
        return reject_topic(topic, name, value, "false", "acknowledged records must survive",
                            error);
    if (strcmp(name, "min.insync.replicas") == 0 && atoll(value) > n_replicas) {
        snprintf(wanted, sizeof wanted, "%d", n_replicas);
        return reject_topic(topic, name, value, wanted, "it has only that many replicas", error);
    }
    return ROTA_OK;
}

static enum rota_code check_settings(rd_kafka_t *client, const char *topic, int n_replicas,
                                     struct rota_error *error)
{
    size_t n_resources = 0, n_entries = 0;
    rd_kafka_event_t *event = NULL;
    rd_kafka_ConfigResource_t *resource =
        rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
    rd_kafka_AdminOptions_t *options = new_options(client, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);

    rd_kafka_DescribeConfigs(client, &resource, 1, options, queue);
    enum rota_code code = await_result(queue, "look at the settings of", topic, &event, error);
    if (!code) {
        const rd_kafka_ConfigResource_t **found = rd_kafka_DescribeConfigs_result_resources(
            rd_kafka_event_DescribeConfigs_result(event), &n_resources);
        rd_kafka_resp_err_t result =
            n_resources == 1 ? rd_kafka_ConfigResource_error(found[0]) : RD_KAFKA_RESP_ERR__BAD_MSG;
        if (result)
            code = rota_error_set(error, code_of(result),
                                  "cannot query the settings of Kafka's topic %s: %s", topic,
                                  rd_kafka_err2str(result));
        const rd_kafka_ConfigEntry_t **entries =
            result ? NULL : rd_kafka_ConfigResource_configs(found[0], &n_entries);
        for (size_t i = 0; i < n_entries && !code; i++) {
            const char *value = rd_kafka_ConfigEntry_value(entries[i]);
            code = check_setting(topic, rd_kafka_ConfigEntry_name(entries[i]), value ? value : "",
                                 n_replicas, error);
        }
        rd_kafka_event_destroy(event);
    }
    rd_kafka_queue_destroy(queue);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ConfigResource_destroy(resource);
    return code;
}

enum rota_code rota_sync_kafka_topic_open(rd_kafka_t *client, const struct rota_kafka_setup *setup,
                                          bool may_make, struct rota_error *error)
{
    int n_partitions = 0, n_replicas = 0, n_brokers = 0;
    const char *topic = setup->sync_topic;
    enum rota_code code =
        rota_sync_kafka_topic_find(client, topic, &n_partitions, &n_replicas, &n_brokers, error);
    if (code == ROTA_ERR_NOT_FOUND && may_make) {
        char bound[16];
        snprintf(bound, sizeof bound, "%d", ROTA_KAFKA_MESSAGE_MAX);
        const struct rota_kafka_setting settings[] = {
            {"cleanup.policy", "delete"},
            {"retention.ms", "-1"},
            {"retention.bytes", "-1"},
            {"max.message.bytes", bound},
            {"unclean.leader.election.enable", "false"},
            {"min.insync.replicas", n_brokers >= 3 ? "2" : "1"},
        };
        code = rota_sync_kafka_topic_make(client, topic, 1, n_brokers < 3 ? n_brokers : 3, settings,
                                          sizeof settings / sizeof *settings, error);
        if (!code) /* not all brokers know it at once */
            code = rota_sync_kafka_topic_find(client, topic, &n_partitions, &n_replicas, &n_brokers,
                                              error);
        if (code == ROTA_ERR_NOT_FOUND)
            code = ROTA_ERR_UNAVAILABLE;
    }
    if (code)
        return code;
    if (n_partitions != 1)
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "Kafka's topic %s has %d partitions, but the log of a group must have one: delete the "
            "topic if it is not needed (kafka-topics.sh --bootstrap-server HOST:PORT --delete "
            "--topic %s), or give the group another name",
            topic, n_partitions, topic);
    code = check_settings(client, topic, n_replicas, error);
    return code == ROTA_ERR_NOT_FOUND ? ROTA_ERR_UNAVAILABLE : code; /* just made */
}
