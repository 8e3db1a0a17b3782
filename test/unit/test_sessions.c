/* The workers of a broker: one session per name, and a session without a heartbeat is dead. */
#include "core/work/worker/sessions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static struct rota_sessions table;

static int setup(void **state)
{
    (void)state;
    rota_sessions_init(&table, (struct rota_beat){ROTA_SEC, 3}, 3, 100, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rota_sessions_deinit(&table);
    return 0;
}

static void add(struct rota_session *session, const char *route, const char *name, uint64_t epoch,
                rota_time now)
{
    *session =
        (struct rota_session){.route = rota_str(route), .name = rota_str(name), .epoch = epoch};
    assert_true(rota_sessions_add(&table, session, now));
}

static void a_higher_epoch_takes_over_and_others_are_stale(void **state)
{
    struct rota_session first, second, *replaced = NULL;
    (void)state;
    assert_int_equal(rota_sessions_judge(&table, rota_str("a"), 5, &replaced), ROTA_SESSION_NEW);
    assert_null(replaced);
    add(&first, "r1", "a", 5, 0);
    assert_int_equal(first.number, 101);
    assert_int_equal(rota_sessions_judge(&table, rota_str("a"), 5, &replaced), ROTA_SESSION_STALE);
    assert_int_equal(rota_sessions_judge(&table, rota_str("a"), 4, &replaced), ROTA_SESSION_STALE);
    assert_int_equal(rota_sessions_judge(&table, rota_str("a"), 6, &replaced), ROTA_SESSION_NEW);
    assert_ptr_equal(replaced, &first);
    rota_sessions_remove(&table, &first);
    add(&second, "r2", "a", 6, 0);
    assert_int_equal(second.number, 102);
    assert_ptr_equal(rota_sessions_find(&table, rota_str("r2")), &second);
    assert_null(rota_sessions_find(&table, rota_str("r1")));
    rota_sessions_remove(&table, &second);
    assert_int_equal(rota_sessions_judge(&table, rota_str("a"), 1, &replaced), ROTA_SESSION_NEW);
}

static void epoch_0_is_not_kept_to_one(void **state)
{
    struct rota_session first, second, *replaced = NULL;
    (void)state;
    add(&first, "r1", "a", 0, 0);
    assert_int_equal(rota_sessions_judge(&table, rota_str("a"), 0, &replaced), ROTA_SESSION_NEW);
    assert_null(replaced);
    add(&second, "r2", "a", 0, 0);
    assert_int_equal(rota_sessions_n(&table), 2);
    rota_sessions_remove(&table, &first);
    rota_sessions_remove(&table, &second);
}

static void a_full_table_accepts_only_replacements(void **state)
{
    struct rota_session sessions[3], *replaced = NULL;
    char routes[3][8], names[3][8];
    (void)state;
    for (int i = 0; i < 3; i++) {
        snprintf(routes[i], sizeof routes[i], "r%d", i);
        snprintf(names[i], sizeof names[i], "n%d", i);
        add(&sessions[i], routes[i], names[i], 1, 0);
    }
    assert_int_equal(rota_sessions_judge(&table, rota_str("n3"), 1, &replaced), ROTA_SESSION_FULL);
    assert_int_equal(rota_sessions_judge(&table, rota_str("n0"), 2, &replaced), ROTA_SESSION_NEW);
    assert_ptr_equal(replaced, &sessions[0]);
}

static void the_oldest_heartbeat_expires_first(void **state)
{
    struct rota_session a, b;
    (void)state;
    add(&a, "r1", "a", 1, 0);
    add(&b, "r2", "b", 1, 0);
    rota_sessions_listened(&table, ROTA_SEC);
    rota_sessions_heard(&table, &a, 2 * ROTA_SEC);
    assert_true(rota_sessions_listened(&table, 3 * ROTA_SEC));
    assert_ptr_equal(rota_sessions_next_dead(&table, 3 * ROTA_SEC), &b);
    rota_sessions_remove(&table, &b);
    assert_null(rota_sessions_next_dead(&table, 3 * ROTA_SEC));
    assert_true(rota_sessions_listened(&table, 5 * ROTA_SEC));
    assert_ptr_equal(rota_sessions_next_dead(&table, 5 * ROTA_SEC), &a);
}

static void a_paused_broker_declares_no_worker_dead_at_once(void **state)
{
    struct rota_session a;
    (void)state;
    add(&a, "r1", "a", 1, 0);
    assert_false(rota_sessions_listened(&table, ROTA_HOUR));
    assert_null(rota_sessions_next_dead(&table, ROTA_HOUR));
    assert_int_equal(rota_sessions_deadline(&table), ROTA_SEC); /* a beat is due */
    rota_sessions_sent(&table, &a, ROTA_HOUR);
    assert_int_equal(rota_sessions_deadline(&table), ROTA_HOUR + ROTA_SEC);
    rota_sessions_listened(&table, ROTA_HOUR + ROTA_SEC);
    assert_ptr_equal(rota_sessions_next_dead(&table, ROTA_HOUR + ROTA_SEC), &a);
}

static void a_session_lost_during_our_pause_is_excused(void **state)
{
    struct rota_session before, after;
    (void)state;
    rota_sessions_listened(&table, 0);
    add(&before, "r1", "a", 1, 0);
    rota_sessions_listened(&table, 2 * ROTA_SEC);
    assert_int_equal(rota_sessions_judge_end(&table, &before, 2 * ROTA_SEC), ROTA_SESSION_DIED);
    /* Nobody has listened for a while, also when that is noticed by an end. */
    assert_int_equal(rota_sessions_judge_end(&table, &before, 4 * ROTA_SEC), ROTA_SESSION_DIED);
    assert_int_equal(rota_sessions_judge_end(&table, &before, 4 * ROTA_SEC + 1),
                     ROTA_SESSION_EXCUSED);
    rota_sessions_listened(&table, 10 * ROTA_SEC);
    rota_sessions_listened(&table, 11 * ROTA_SEC);
    add(&after, "r2", "b", 1, 11 * ROTA_SEC);
    assert_int_equal(rota_sessions_judge_end(&table, &before, 12 * ROTA_SEC), ROTA_SESSION_EXCUSED);
    assert_int_equal(rota_sessions_judge_end(&table, &after, 12 * ROTA_SEC), ROTA_SESSION_DIED);
    rota_sessions_listened(&table, 13 * ROTA_SEC);
    assert_int_equal(rota_sessions_judge_end(&table, &before, 13 * ROTA_SEC), ROTA_SESSION_DIED);
}

static void the_session_sent_to_longest_ago_gets_the_next_heartbeat(void **state)
{
    struct rota_session a, b;
    (void)state;
    add(&a, "r1", "a", 1, 0);
    add(&b, "r2", "b", 1, 0);
    rota_sessions_sent(&table, &a, ROTA_SEC / 2);
    assert_ptr_equal(rota_sessions_next_heartbeat(&table, ROTA_SEC), &b);
    rota_sessions_sent(&table, &b, ROTA_SEC);
    assert_null(rota_sessions_next_heartbeat(&table, ROTA_SEC));
    assert_int_equal(rota_sessions_deadline(&table), ROTA_SEC + ROTA_SEC / 2);
}

static void an_empty_table_waits_for_nothing(void **state)
{
    (void)state;
    assert_int_equal(rota_sessions_deadline(&table), ROTA_TIME_NEVER);
    assert_null(rota_sessions_next_dead(&table, ROTA_HOUR));
    assert_null(rota_sessions_next_heartbeat(&table, ROTA_HOUR));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(a_higher_epoch_takes_over_and_others_are_stale),
        TEST(epoch_0_is_not_kept_to_one),
        TEST(a_full_table_accepts_only_replacements),
        TEST(the_oldest_heartbeat_expires_first),
        TEST(a_paused_broker_declares_no_worker_dead_at_once),
        TEST(a_session_lost_during_our_pause_is_excused),
        TEST(the_session_sent_to_longest_ago_gets_the_next_heartbeat),
        TEST(an_empty_table_waits_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
