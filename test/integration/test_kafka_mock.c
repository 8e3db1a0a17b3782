/* Rare answers of brokers, given to the parts of the Kafka engine by the mock cluster of
 * librdkafka. It has no settings of topics and no list of members, so a whole group can't live on
 * it. */
#include "io/log/sync_kafka_hold.h"
#include "io/log/sync_kafka_member.h"

#include <librdkafka/rdkafka_mock.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

enum { TOPIC_PARTITIONS = 4, POLL_MS = 100, HANG_S = 60, COMMIT_API = 8 };

static char topic_name[] = "g_rebalance", group_name[] = "g";
static uv_loop_t loop;
static char words[ROTA_KAFKA_WORDS_MAX];
static struct rota_kafka_setup setup;
static rd_kafka_t *host; /* of the mock */
static rd_kafka_mock_cluster_t *cluster;
static rd_kafka_t *client; /* a member's */

static void open_member(void)
{
    static const struct rota_kafka_setting settings[] = {
        {"group.id", group_name},
        {"session.timeout.ms", "60000"}, /* the mock needs 3 s for its first round */
        {"enable.auto.commit", "false"},
    };
    struct rota_error error;
    if (rota_sync_kafka_topic_client_open(&setup, RD_KAFKA_CONSUMER, settings, 3, 0, &client,
                                          &error))
        fail_msg("%s", error.text);
    rd_kafka_poll_set_consumer(client);
}

static int set_up(void **state)
{
    char text[256], url[256];
    (void)state;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", "127.0.0.1:1", NULL, 0); /* not asked */
    rd_kafka_conf_set(conf, "log_level", "0", NULL, 0);
    host = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
    cluster = host ? rd_kafka_mock_cluster_new(host, 1) : NULL;
    assert_non_null(cluster);
    assert_int_equal(rd_kafka_mock_topic_create(cluster, topic_name, TOPIC_PARTITIONS, 1), 0);
    snprintf(url, sizeof url, "kafka://%s", rd_kafka_mock_cluster_bootstraps(cluster));
    setup = (struct rota_kafka_setup){
        .group = group_name, .rebalance_topic = topic_name, .words = words};
    assert_int_equal(rota_kafka_url_parse(rota_str(url), &setup.url, NULL), ROTA_OK);
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(rota_mailbox_open(&loop, 64, &setup.lines, NULL), ROTA_OK);
    open_member();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rd_kafka_consumer_close(client);
    rd_kafka_destroy(client);
    rota_mailbox_close(setup.lines, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    rota_kafka_url_deinit(&setup.url);
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(host);
    return 0;
}

static void join(struct rota_kafka_identity *identity)
{
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, topic_name, RD_KAFKA_PARTITION_UA);
    assert_int_equal(rd_kafka_subscribe(client, topics), 0);
    rd_kafka_topic_partition_list_destroy(topics);
    for (int i = 0; !rota_sync_kafka_coordinator_identify(client, identity); i++) {
        assert_true(i < HANG_S * 1000 / POLL_MS);
        rd_kafka_message_t *message = rd_kafka_consumer_poll(client, POLL_MS);
        if (message)
            rd_kafka_message_destroy(message);
    }
}

/* --- the coordinator --- */

static void a_process_that_has_not_joined_is_not_a_member(void **state)
{
    struct rota_kafka_identity identity;
    (void)state;
    assert_false(rota_sync_kafka_coordinator_identify(client, &identity));
    join(&identity);
    assert_true(identity.generation > 0);
    assert_true(strlen(identity.id) > 0);
}

static void assert_refused(rd_kafka_resp_err_t refusal)
{
    rd_kafka_mock_push_request_errors(cluster, COMMIT_API, 1, refusal);
    assert_int_equal(rota_sync_kafka_coordinator_commit(client, topic_name, 1, ""), refusal);
}

/* The outcome of a commit once a rebalance is over: a client that joins again may be in one. */
static rd_kafka_resp_err_t commit(void)
{
    for (int i = 0; i < HANG_S * 1000 / POLL_MS; i++) {
        rd_kafka_resp_err_t code =
            rota_sync_kafka_coordinator_commit(client, topic_name, 1, "ready 1");
        if (code != RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS)
            return code;
        rd_kafka_message_t *message = rd_kafka_consumer_poll(client, POLL_MS);
        if (message)
            rd_kafka_message_destroy(message);
    }
    fail_msg("the rebalance does not end");
    return 0;
}

/* Rare moments of a real one; none may be taken for a heartbeat. After the last of each
 * the client joins again. */
static void a_former_member_has_no_heartbeat(void **state)
{
    struct rota_kafka_identity identity;
    (void)state;
    join(&identity);
    assert_int_equal(commit(), 0);
    assert_refused(RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED);
    assert_refused(RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID);
}

static void a_member_of_another_generation_has_no_heartbeat(void **state)
{
    struct rota_kafka_identity identity;
    (void)state;
    join(&identity);
    assert_refused(RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION);
}

static void coordinator_that_does_not_list_is_not_one_without_members(void **state)
{
    struct rota_kafka_identity identity;
    struct rota_kafka_roster roster;
    (void)state;
    join(&identity);
    assert_false(rota_sync_kafka_coordinator_list_members(client, group_name, &roster));
}

/* --- topics --- */

static void errors_of_a_topic_are_permanent_or_temporary(void **state)
{
    static const struct {
        rd_kafka_resp_err_t said;
        enum rota_code code;
    } cases[] = {
        {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, ROTA_ERR_INVALID},
        {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, ROTA_ERR_NOT_FOUND},
        {RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, ROTA_ERR_UNAVAILABLE},
        {RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR, ROTA_ERR_UNAVAILABLE}, /* one is fenced */
        {RD_KAFKA_RESP_ERR_UNKNOWN, ROTA_ERR_UNAVAILABLE},
    };
    int n_partitions = 0, n_replicas = 0, n_brokers = 0;
    struct rota_error error;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rd_kafka_mock_topic_set_error(cluster, topic_name, cases[i].said);
        assert_int_equal(rota_sync_kafka_topic_find(client, topic_name, &n_partitions, &n_replicas,
                                                    &n_brokers, &error),
                         cases[i].code);
        assert_non_null(strstr(error.text, topic_name));
        assert_int_equal(n_partitions, 0);
    }
    rd_kafka_mock_topic_set_error(cluster, topic_name, RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_int_equal(rota_sync_kafka_topic_find(client, topic_name, &n_partitions, &n_replicas,
                                                &n_brokers, &error),
                     ROTA_OK);
    assert_int_equal(n_partitions, TOPIC_PARTITIONS);
    assert_int_equal(n_brokers, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_process_that_has_not_joined_is_not_a_member),
        TEST(a_former_member_has_no_heartbeat),
        TEST(a_member_of_another_generation_has_no_heartbeat),
        TEST(coordinator_that_does_not_list_is_not_one_without_members),
        TEST(errors_of_a_topic_are_permanent_or_temporary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
