/* The log and the members of a group in a real Kafka, of one broker or of three. */
#include "database.h"
#include "kafka_admin.h"
#include "sync_checks.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char topic[128];

static const char *topic_name(void)
{
    snprintf(topic, sizeof topic, "%s_connector_sync", sync_group);
    return topic;
}

static void start(struct peer *peer, rota_time session)
{
    peer_start(peer, &sync_loop, sync_checks.url, sync_group, session, false);
}

/* It fails with a sentence that has `words` in it. */
static void await_failure(struct peer *peer, const char *words)
{
    await(&sync_loop, &peer->n_failed, 1);
    if (!strstr(peer->error, words))
        fail_msg("'%s' is not in: %s", words, peer->error);
}

/* --- topics --- */

static void wrong_settings_are_refused_with_what_to_change(void **state)
{
    static const char *const settings[][3] = {
        {"cleanup.policy", "compact", NULL},
        {"retention.ms", "86400000", NULL},
        {"retention.bytes", "1000000", NULL},
        {"max.message.bytes", "1000000", NULL},
        {"unclean.leader.election.enable", "true", NULL},
        {"min.insync.replicas", "2", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const char *good[] = {"retention.ms", "-1", "max.message.bytes", "2000000", settings[i][0],
                              settings[i][1], NULL};
        char words[128];
        sync_new_group();
        if (strncmp(settings[i][0], good[0], 12) == 0 || strcmp(settings[i][0], good[2]) == 0)
            good[strcmp(settings[i][0], good[2]) == 0 ? 3 : 1] = settings[i][1];
        kafka_admin_create(topic_name(), 1, good);
        start(&sync_a, ROTA_SYNC_SESSION_MAX);
        snprintf(words, sizeof words, "--add-config %s=", settings[i][0]);
        await_failure(&sync_a, words);
        assert_non_null(strstr(sync_a.error, topic));
        assert_int_equal(sync_a.n_opened, 0);
        peer_close(&sync_a);
    }
}

static void log_of_two_partitions_is_refused(void **state)
{
    static const char *const settings[] = {"retention.ms", "-1", NULL};
    (void)state;
    kafka_admin_create(topic_name(), 2, settings);
    start(&sync_a, ROTA_SYNC_SESSION_MAX);
    await_failure(&sync_a, "has 2 partitions");
}

static void observer_does_not_create_a_missing_group(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        peer_start(&sync_a, &sync_loop, sync_checks.url, sync_group, ROTA_SYNC_SESSION_MAX, true);
        await_failure(&sync_a, "no such group");
        peer_close(&sync_a);
    }
}

static void deleted_topic_is_the_end(void **state)
{
    (void)state;
    sync_open(&sync_a);
    peer_write(&sync_a, 0, "x");
    peer_await_end(&sync_a, 1);
    kafka_admin_delete(topic_name());
    await(&sync_loop, &sync_a.n_failed, 1); /* gone, or made by a broker in its own way */
    assert_int_equal(sync_a.n_lost, 1);
    assert_int_equal(sync_a.n_opened, 1);
}

static void recreated_topic_is_a_loss(void **state)
{
    static const char *const settings[] = {"retention.ms", "-1", "max.message.bytes", "2000000",
                                           NULL};
    (void)state;
    sync_open(&sync_a);
    for (uint64_t i = 0; i < 3; i++)
        peer_write(&sync_a, i, "x");
    peer_await_end(&sync_a, 3);
    kafka_admin_delete(topic_name());
    /* A broker may have made it first, in its own way, because a client still asked for it: that
     * is another one as well. */
    kafka_admin_create_new(topic, 1, settings);
    kafka_admin_write(topic, 1);
    /* Whoever knew more sees that it is another, once the broker itself has. */
    await(&sync_loop, &sync_a.n_lost, 1);
    while (sync_a.n_failed == 0 && (sync_a.n_opened < 2 || sync_a.end >= 3))
        await(&sync_loop, &sync_a.n_events, sync_a.n_events + 1);
}

/* --- records --- */

/* Append until it is known to be there: while a leader is elected it may not be, and is
 * tried again when the log was heard of. Returns its offset. */
static uint64_t write_at_last(struct peer *peer, uint64_t *number, const char *text)
{
    while (true) {
        peer_append(peer, ++*number, text, strlen(text));
        await(&sync_loop, &peer->n_answered, peer->n_answered + 1);
        if (peer->offsets[*number] != UINT64_MAX)
            return peer->offsets[*number];
        rota_time refused_at = rota_clock_boot();
        while (peer->ok_sent_at < refused_at)
            await(&sync_loop, &peer->n_ok, peer->n_ok + 1);
    }
}

static void trimmed_log_does_not_begin_at_0(void **state)
{
    (void)state;
    sync_open(&sync_a);
    for (uint64_t i = 0; i < 6; i++)
        peer_write(&sync_a, i, "x");
    peer_await_end(&sync_a, 6);
    kafka_admin_cut(topic_name(), 4);
    sync_open(&sync_b);
    assert_int_equal(sync_b.first, 4);
    assert_int_equal(sync_b.end, 6);
    peer_await_end(&sync_b, 6);
    assert_int_equal(sync_b.n_records, 2);

    sync_b.is_deaf = true; /* what is not there is not silently skipped */
    peer_read(&sync_b, 1);
    await(&sync_loop, &sync_b.n_lost, 1);
    assert_int_equal(sync_b.n_records, 0);
    await(&sync_loop, &sync_b.n_opened, 2);
    assert_int_equal(sync_b.first, 4);
}

static void foreign_records_are_delivered_unchanged(void **state)
{
    static const char *const settings[] = {"retention.ms", "-1", "max.message.bytes", "4000000",
                                           NULL};
    (void)state;
    kafka_admin_create(topic_name(), 1, settings);
    kafka_admin_write(topic, 5);
    kafka_admin_write(topic, 2 << 20);
    kafka_admin_write(topic, -1);
    kafka_admin_write(topic, 0);
    sync_open(&sync_a);
    peer_await_end(&sync_a, 4);
    assert_int_equal(sync_a.n_records, 4);
    sync_assert_text(&sync_a, 0, "fffff");
    assert_int_equal(sync_a.records.items[1].size, 2 << 20);
    assert_false(sync_a.records.items[1].is_whole);
    assert_int_equal(sync_a.records.items[2].size, 0);
    assert_int_equal(peer_write(&sync_a, 0, "ours"), 4);
}

/* The broker answers where the log ends, then a record comes, and only then does the loop hear of
 * the answer: the log has not become shorter. */
static void end_requested_before_a_record_came_is_not_a_loss(void **state)
{
    enum { RECORDS = 2000 };
    (void)state;
    sync_a.ok_every = 2 * ROTA_MSEC;
    sync_open(&sync_a);
    sync_open(&sync_b);
    for (uint64_t i = 0; i < RECORDS; i++)
        peer_write(&sync_b, i, "x");
    peer_await_end(&sync_a, RECORDS);
    assert_int_equal(sync_a.n_lost, 0);
}

static void restart_of_the_broker_loses_nothing(void **state)
{
    (void)state;
    sync_open_two();
    peer_write(&sync_a, 0, "before");
    database_do("kill");
    peer_append(&sync_a, 1, "meanwhile", 9);
    database_do("start");
    await(&sync_loop, &sync_a.n_answered, 2);
    uint64_t number = 2, offset = write_at_last(&sync_b, &number, "after");
    peer_await_end(&sync_a, offset + 1);
    sync_assert_text(&sync_a, sync_a.n_records - 1, "after");
    rota_time before = rota_clock_boot();
    while (sync_a.group_ok_sent_at < before)
        await(&sync_loop, &sync_a.n_group_ok, sync_a.n_group_ok + 1);
    assert_int_equal(sync_a.n_failed + sync_b.n_failed, 0);
    assert_int_equal(sync_a.n_group_lost + sync_b.n_group_lost, 0);
}

/* --- members --- */

static void session_that_brokers_reject_is_reported(void **state)
{
    (void)state;
    start(&sync_a, ROTA_SEC);
    peer_join(&sync_a, "1/a");
    await_failure(&sync_a, "group.min.session.timeout.ms");
}

/* Who is dead is waited for as long as its session is; meanwhile the living are told that they
 * are, not once but again and again. In the join of a round they would be told nothing. */
static void await_successor(const char *line)
{
    size_t n_before = sync_a.n_group_ok;
    while (!peer_has_member(&sync_a, line) || sync_a.members.size != 2)
        await(&sync_loop, &sync_a.n_rounds, sync_a.n_rounds + 1);
    assert_false(peer_has_member(&sync_a, "2/b"));
    assert_int_equal(sync_a.n_group_lost, 0);
    assert_true(sync_a.n_group_ok >= n_before + 3);
}

static void dead_member_does_not_stop_the_heartbeats_of_others(void **state)
{
    const rota_time session = 8 * ROTA_SEC;
    (void)state;
    start(&sync_a, session);
    start(&sync_b, session);
    peer_join(&sync_a, "1/a");
    struct sync_member member = sync_member_start("2/b", session);
    peer_await_members(&sync_a, 2);
    assert_int_equal(sync_member_hear(&member), 'K');
    sync_member_end(&member);
    peer_join(&sync_b, "3/c"); /* who wants a round at once */
    await_successor("3/c");
}

/* A heartbeat that was in flight when it was stopped may still be told, but no other. */
static void stopped_member_learns_only_of_its_loss(void **state)
{
    char letter = '\0';
    int n_ok = 0;
    (void)state;
    sync_open(&sync_a);
    peer_join(&sync_a, "1/a");
    struct sync_member member = sync_member_enter(&sync_a, "2/b");
    kill(member.pid, SIGSTOP);
    peer_await_members(&sync_a, 1);
    assert_int_equal(fcntl(member.from_fd, F_SETFL, O_NONBLOCK), 0);
    while (read(member.from_fd, &letter, 1) == 1)
        assert_int_equal(letter, 'K'); /* from before */
    assert_int_equal(fcntl(member.from_fd, F_SETFL, 0), 0);
    kill(member.pid, SIGCONT);
    while (read(member.from_fd, &letter, 1) == 1 && letter == 'K')
        n_ok++;
    assert_int_equal(letter, 'L');
    assert_true(n_ok <= 1);
    sync_member_end(&member);
}

static void next_incarnation_waits_for_the_end_of_the_last(void **state)
{
    const rota_time session = 8 * ROTA_SEC;
    (void)state;
    start(&sync_a, session);
    peer_join(&sync_a, "1/a");
    struct sync_member member = sync_member_start("2/b", session);
    peer_await_members(&sync_a, 2);
    assert_int_equal(sync_member_hear(&member), 'K');
    sync_member_end(&member);
    member = sync_member_start("3/b", session);
    await_successor("3/b");
    sync_member_end(&member);
}

static void on_moment(uv_timer_t *timer)
{
    ++*(size_t *)timer->data;
}

static void pass_moment(uint64_t ms)
{
    uv_timer_t timer;
    size_t n = 0;
    uv_timer_init(&sync_loop, &timer);
    timer.data = &n;
    uv_timer_start(&timer, on_moment, ms, 0);
    await(&sync_loop, &n, 1);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&sync_loop, UV_RUN_NOWAIT);
}

/* For a moment the coordinator has given it an id and it has not come back with it. Nobody sees
 * that moment, so it leaves at many of them; its session is of minutes. */
static void member_that_leaves_while_it_joins_is_not_waited_for(void **state)
{
    enum { MOMENTS = 60, MOMENT_MS = 2 };
    char line[32];
    (void)state;
    sync_open(&sync_a);
    sync_open(&sync_b);
    sync_open(&sync_c);
    peer_join(&sync_a, "1/a");
    peer_await_members(&sync_a, 1);
    for (int i = 0; i < MOMENTS; i++) {
        snprintf(line, sizeof line, "%d/b%d", i + 2, i);
        peer_join(&sync_b, line);
        pass_moment((uint64_t)i * MOMENT_MS);
        peer_leave(&sync_b);
    }
    peer_join(&sync_c, "99/c");
    while (!peer_has_member(&sync_c, "1/a") || sync_c.members.size != 2)
        await(&sync_loop, &sync_c.n_rounds, sync_c.n_rounds + 1);
}

/* They are alive by a commit that is not taken for the mark of another: nobody waits for
 * its session, which is of minutes. */
static void members_without_a_partition_do_not_hold_others_up(void **state)
{
    static const char *const settings[] = {NULL};
    char name[128];
    (void)state;
    snprintf(name, sizeof name, "%s_rebalance", sync_group);
    kafka_admin_create(name, 1, settings);
    sync_open(&sync_a);
    sync_open(&sync_b);
    sync_open(&sync_c);
    peer_join(&sync_a, "1/a");
    peer_join(&sync_b, "2/b");
    for (int i = 0; i < 5; i++) { /* who hears first of a round is a matter of chance */
        peer_join(&sync_c, "3/c");
        peer_await_members(&sync_a, 3);
        peer_await_members(&sync_b, 3);
        peer_leave(&sync_c);
        peer_await_members(&sync_a, 2);
        peer_await_members(&sync_b, 2);
    }
    assert_int_equal(sync_a.n_group_lost + sync_b.n_group_lost, 0);
}

static void reason_for_unreachable_brokers_is_known(void **state)
{
    (void)state;
    peer_start(&sync_a, &sync_loop, "kafka://127.0.0.1:1", sync_group, 0, false);
    assert_null(rota_sync_trouble(sync_a.sync));
    while (!rota_sync_trouble(sync_a.sync))
        uv_run(&sync_loop, UV_RUN_ONCE);
    assert_non_null(strstr(rota_sync_trouble(sync_a.sync), topic_name()));
    assert_non_null(strstr(rota_sync_trouble(sync_a.sync), "Connection refused"));
    await(&sync_loop, &sync_a.n_unreachable, 1);
    peer_close(&sync_a);
    sync_open(&sync_a);
    assert_null(rota_sync_trouble(sync_a.sync));
}

static void properties_are_checked_at_open(void **state)
{
    struct rota_sync_options options = {.name = "g", .on_event = peer_on_event, .data = &sync_a};
    struct rota_error error;
    (void)state;
    sync_a.loop = &sync_loop;
    options.url = "kafka://127.0.0.1:1?no.such=geheim";
    assert_int_equal(rota_sync_open(&sync_loop, &options, &sync_a.sync, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "no.such"));
    assert_null(strstr(error.text, "geheim"));
    options.url = "kafka://127.0.0.1:1?security.protocol=geheim";
    assert_int_equal(rota_sync_open(&sync_loop, &options, &sync_a.sync, &error), ROTA_ERR_INVALID);
    assert_null(strstr(error.text, "geheim"));
    options.url = "kafka://127.0.0.1:1?acks=0";
    assert_int_equal(rota_sync_open(&sync_loop, &options, &sync_a.sync, &error), ROTA_ERR_INVALID);
    options.url = "kafka://127.0.0.1:1?sasl.password=geheim"; /* nobody is there: no error */
    assert_int_equal(rota_sync_open(&sync_loop, &options, &sync_a.sync, &error), ROTA_OK);
    assert_null(strstr(rota_sync_name(sync_a.sync), "geheim"));
    rota_sync_join(sync_a.sync, rota_str("1/a"));
    for (int i = 0; i < 20; i++)
        uv_run(&sync_loop, UV_RUN_NOWAIT);
    assert_int_equal(sync_a.n_opened + sync_a.n_failed, 0);
}

/* --- three brokers --- */

static void each_broker_may_die(void **state)
{
    static const char *const kill_words[] = {"kill 1", "kill 2", "kill 3"};
    static const char *const start_words[] = {"start 1", "start 2", "start 3"};
    (void)state;
    sync_open_two();
    uint64_t number = 0;
    for (int i = 0; i < 3; i++) {
        database_do(kill_words[i]);
        /* The log continues, after an election if it was its leader. */
        uint64_t offset = write_at_last(&sync_a, &number, "one is dead");
        peer_await_end(&sync_b, offset + 1);
        rota_time before = rota_clock_boot();
        while (sync_a.group_ok_sent_at < before)
            await(&sync_loop, &sync_a.n_group_ok, sync_a.n_group_ok + 1);
        while (sync_b.group_ok_sent_at < before)
            await(&sync_loop, &sync_b.n_group_ok, sync_b.n_group_ok + 1);
        database_do(start_words[i]);
        kafka_admin_await_in_sync(3); /* two of three are needed for a record */
        write_at_last(&sync_b, &number, "all are there");
    }
    assert_int_equal(sync_a.n_lost + sync_b.n_lost, 0);
    assert_int_equal(sync_a.n_group_lost + sync_b.n_group_lost, 0);
}

/* clang-format off */
#define KAFKA_CHECKS                                                                               \
    SYNC_CHECK(wrong_settings_are_refused_with_what_to_change),                                    \
    SYNC_CHECK(log_of_two_partitions_is_refused),                                                  \
    SYNC_CHECK(observer_does_not_create_a_missing_group),                                \
    SYNC_CHECK(deleted_topic_is_the_end),                                                          \
    SYNC_CHECK(recreated_topic_is_a_loss),                                                           \
    SYNC_CHECK(trimmed_log_does_not_begin_at_0),                                              \
    SYNC_CHECK(foreign_records_are_delivered_unchanged),                                                \
    SYNC_CHECK(end_requested_before_a_record_came_is_not_a_loss),                            \
    SYNC_CHECK(session_that_brokers_reject_is_reported),                                               \
    SYNC_CHECK(stopped_member_learns_only_of_its_loss),                                       \
    SYNC_CHECK(dead_member_does_not_stop_the_heartbeats_of_others),                                           \
    SYNC_CHECK(next_incarnation_waits_for_the_end_of_the_last),                                           \
    SYNC_CHECK(members_without_a_partition_do_not_hold_others_up),                                 \
    SYNC_CHECK(member_that_leaves_while_it_joins_is_not_waited_for),                               \
    SYNC_CHECK(reason_for_unreachable_brokers_is_known),                                              \
    SYNC_CHECK(properties_are_checked_at_open)
/* clang-format on */

int main(int argc, char **argv)
{
    /* Brokers that were killed look through all partitions before they serve again, and each
     * group has hundreds: so that comes first. */
    const struct CMUnitTest one_broker[] = {
        SYNC_CHECK(restart_of_the_broker_loses_nothing),
        SYNC_CHECKS,
        KAFKA_CHECKS,
    };
    const struct CMUnitTest three_brokers[] = {
        SYNC_CHECK(each_broker_may_die),
        SYNC_CHECK(round_is_told_to_all_with_the_whole_list),
    };
    if (argc > 1)
        return sync_member_main(argc, argv);
    if (getenv("ROTA_TEST_FILTER"))
        cmocka_set_test_filter(getenv("ROTA_TEST_FILTER"));
    sync_checks.url = database_text("ROTA_TEST_URL");
    bool is_three = strchr(sync_checks.url, ',');
    /* As short as test/lib/kafka.py allows; an election may take longer on a busy machine. */
    sync_checks.session = (is_three ? 10 : 2) * ROTA_SEC;
    kafka_admin_open(sync_checks.url);
    int result = is_three ? cmocka_run_group_tests(three_brokers, NULL, NULL)
                          : cmocka_run_group_tests(one_broker, NULL, NULL);
    kafka_admin_close();
    return result;
}
