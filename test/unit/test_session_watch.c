#include "core/own/session_watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SESSION (6 * ROTA_SEC)
#define GAP     (2 * ROTA_SEC)

static struct rota_session_watch watch;

static int set_up(void **state)
{
    (void)state;
    rota_session_watch_init(&watch, GAP, ROTA_SEC, 300 * ROTA_SEC);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_session_watch_deinit(&watch);
    return 0;
}

static struct rota_session_row row(uint64_t place, uint64_t pings)
{
    return (struct rota_session_row){.place = place, .pings = pings, .session = SESSION};
}

#define SEE(now, ...)                                                                              \
    do {                                                                                           \
        const struct rota_session_row rows_[] = {__VA_ARGS__};                                     \
        assert_true(                                                                               \
            rota_session_watch_see_rows(&watch, (now), rows_, sizeof rows_ / sizeof *rows_));      \
    } while (0)

/* The places that `ours` removes, as the digits of a number. */
static uint64_t removed(uint64_t ours)
{
    const struct rota_session_row *found;
    size_t place = 0;
    uint64_t digits = 0;
    while ((found = rota_session_watch_next(&watch, ours, &place)))
        digits = digits * 10 + found->place;
    return digits;
}

static void unresponsive_member_is_dead_after_its_session_and_not_before(void **state)
{
    (void)state;
    for (rota_time now = 0; now < SESSION; now += ROTA_SEC) {
        SEE(now, row(1, 10 + (uint64_t)now), row(2, 7));
        assert_int_equal(removed(1), 0);
        assert_int_equal(rota_session_watch_deadline(&watch, 1), SESSION);
    }
    SEE(SESSION - 1, row(1, 99), row(2, 7));
    assert_int_equal(removed(1), 0);
    SEE(SESSION, row(1, 99), row(2, 7));
    assert_int_equal(removed(1), 2);
}

static void heartbeat_restarts_the_count(void **state)
{
    (void)state;
    for (rota_time now = 0; now < 10 * SESSION; now += ROTA_SEC) {
        SEE(now, row(1, 0), row(2, (uint64_t)(now / (5 * ROTA_SEC))));
        assert_int_equal(removed(1), 0);
    }
}

/* As of a machine that slept: the others slept too. */
static void unobserved_time_is_not_counted(void **state)
{
    (void)state;
    SEE(0, row(1, 0), row(2, 7));
    SEE(ROTA_SEC, row(1, 0), row(2, 7));
    SEE(ROTA_HOUR, row(1, 0), row(2, 7));
    assert_int_equal(removed(1), 0); /* 1 s and 2 s are counted, of 6 */
    assert_int_equal(rota_session_watch_deadline(&watch, 1), ROTA_HOUR + 3 * ROTA_SEC);
    SEE(ROTA_HOUR + 2 * ROTA_SEC, row(1, 0), row(2, 7));
    assert_int_equal(removed(1), 0);
    SEE(ROTA_HOUR + 3 * ROTA_SEC, row(1, 0), row(2, 7));
    assert_int_equal(removed(1), 2);
}

static void clock_that_jumps_removes_no_member(void **state)
{
    const rota_time jumps[] = {INT64_MAX, INT64_MIN, 0, INT64_MAX, -5, INT64_MIN + 1};
    (void)state;
    SEE(0, row(1, 0), row(2, 7));
    for (size_t i = 0; i < 2; i++) { /* each jump forward counts for 2 s at most */
        SEE(jumps[i], row(1, 0), row(2, 7));
        assert_int_equal(removed(1), 0);
    }
    for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++)
        SEE(jumps[i], row(1, 0), row(2, 8 + i));
    assert_int_equal(removed(1), 0);
}

static void member_known_to_be_dead_is_removed_at_once(void **state)
{
    struct rota_session_row dead = row(2, 7);
    (void)state;
    dead.is_dead = true;
    SEE(0, row(1, 0), dead, row(3, 0));
    assert_int_equal(removed(1), 2);
    assert_int_equal(rota_session_watch_deadline(&watch, 1), 0);
    SEE(1, row(1, 0), row(3, 0));
    assert_int_equal(removed(1), 0);
}

static void first_of_the_living_acts_first_and_the_others_if_it_does_not(void **state)
{
    struct rota_session_row dead = row(1, 7);
    (void)state;
    dead.is_dead = true;
    SEE(0, dead, row(2, 0), row(3, 0), row(4, 0));
    assert_int_equal(removed(2), 1); /* the dead one is not before us */
    assert_int_equal(removed(3), 0);
    assert_int_equal(rota_session_watch_deadline(&watch, 3), ROTA_SESSION_RANK_DELAY);
    assert_int_equal(rota_session_watch_deadline(&watch, 4), 2 * ROTA_SESSION_RANK_DELAY);
    SEE(ROTA_SESSION_RANK_DELAY, dead, row(2, 0), row(3, 0), row(4, 0));
    assert_int_equal(removed(3), 1);
    assert_int_equal(removed(4), 0);
    SEE(2 * ROTA_SESSION_RANK_DELAY, dead, row(2, 0), row(3, 0), row(4, 0));
    assert_int_equal(removed(4), 1);
}

/* Two that died together do not wait for each other. */
static void several_members_are_removed_together(void **state)
{
    (void)state;
    for (rota_time now = 0; now <= SESSION; now += ROTA_SEC)
        SEE(now, row(1, 5), row(2, 6), row(3, (uint64_t)now), row(4, 9));
    assert_int_equal(removed(3), 124);
}

static void a_member_does_not_judge_itself_and_a_stranger_judges_nothing(void **state)
{
    (void)state;
    for (rota_time now = 0; now <= 2 * SESSION; now += ROTA_SEC)
        SEE(now, row(1, 5), row(2, 6));
    assert_int_equal(removed(1), 2);
    assert_int_equal(removed(2), 1);
    assert_int_equal(removed(3), 0);
    assert_int_equal(rota_session_watch_deadline(&watch, 3), ROTA_TIME_NEVER);
}

static void new_member_has_a_whole_session(void **state)
{
    (void)state;
    for (rota_time now = 0; now < SESSION; now += ROTA_SEC)
        SEE(now, row(2, (uint64_t)now), row(5, 1));
    SEE(SESSION, row(2, 1), row(4, 1), row(5, 1), row(6, 1));
    assert_int_equal(removed(2), 5);
    assert_int_equal(watch.sights.items[1].silent, 0);
    assert_int_equal(watch.sights.items[3].silent, 0);
}

/* Somebody wrote odd numbers into the table: the others are counted all the same. */
static void order_of_the_places_does_not_matter(void **state)
{
    (void)state;
    for (rota_time now = 0; now <= SESSION; now += ROTA_SEC)
        if (now % (2 * ROTA_SEC))
            SEE(now, row(9, (uint64_t)now), row(1, (uint64_t)now), row(5, 0), row(2, 0));
        else
            SEE(now, row(2, 0), row(9, (uint64_t)now), row(1, (uint64_t)now), row(5, 0));
    assert_int_equal(removed(9), 25);
}

static void after_a_pause_all_counts_restart(void **state)
{
    (void)state;
    for (rota_time now = 0; now < SESSION; now += ROTA_SEC)
        SEE(now, row(1, 0), row(2, 7));
    rota_session_watch_forget(&watch);
    assert_int_equal(rota_session_watch_deadline(&watch, 1), ROTA_TIME_NEVER);
    SEE(SESSION, row(1, 0), row(2, 7));
    assert_int_equal(removed(1), 0);
    assert_int_equal(rota_session_watch_deadline(&watch, 1), 2 * SESSION);
}

/* Whatever stands in the table. */
static void sessions_are_held_within_their_bounds(void **state)
{
    struct rota_session_row none = row(2, 0), endless = row(3, 0);
    (void)state;
    none.session = INT64_MIN;
    endless.session = INT64_MAX;
    SEE(0, row(1, 0), none, endless);
    assert_int_equal(removed(1), 0);
    SEE(ROTA_SEC, row(1, 1), none, endless);
    assert_int_equal(removed(1), 2);
    for (rota_time now = 2 * ROTA_SEC; now <= 300 * ROTA_SEC; now += ROTA_SEC)
        SEE(now, row(1, (uint64_t)now), endless);
    assert_int_equal(removed(1), 3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(unresponsive_member_is_dead_after_its_session_and_not_before),
        TEST(heartbeat_restarts_the_count),
        TEST(unobserved_time_is_not_counted),
        TEST(clock_that_jumps_removes_no_member),
        TEST(member_known_to_be_dead_is_removed_at_once),
        TEST(first_of_the_living_acts_first_and_the_others_if_it_does_not),
        TEST(several_members_are_removed_together),
        TEST(a_member_does_not_judge_itself_and_a_stranger_judges_nothing),
        TEST(new_member_has_a_whole_session),
        TEST(order_of_the_places_does_not_matter),
        TEST(after_a_pause_all_counts_restart),
        TEST(sessions_are_held_within_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
