/* Which peers are alive, and when a worker connects and reconnects. */
#include "core/work/worker/join_fsm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct rota_beat BEAT = {ROTA_SEC, 3};

/* --- beats --- */

static void any_message_counts_as_a_heartbeat(void **state)
{
    struct rota_peer_fsm fsm;
    (void)state;
    rota_peer_fsm_init(&fsm, BEAT, 0);
    assert_false(rota_peer_fsm_is_silent(&fsm, 3 * ROTA_SEC - 1));
    assert_true(rota_peer_fsm_is_silent(&fsm, 3 * ROTA_SEC));
    rota_peer_fsm_heard(&fsm, 2 * ROTA_SEC);
    assert_false(rota_peer_fsm_is_silent(&fsm, 5 * ROTA_SEC - 1));
}

static void a_heartbeat_is_due_when_nothing_else_was_sent(void **state)
{
    struct rota_peer_fsm fsm;
    (void)state;
    rota_peer_fsm_init(&fsm, BEAT, 0);
    assert_int_equal(rota_peer_fsm_deadline(&fsm), ROTA_SEC);
    assert_true(rota_peer_fsm_is_heartbeat_due(&fsm, ROTA_SEC));
    rota_peer_fsm_sent(&fsm, ROTA_SEC - 1);
    assert_false(rota_peer_fsm_is_heartbeat_due(&fsm, ROTA_SEC));
}

static void heartbeats_are_clamped_to_their_bounds(void **state)
{
    (void)state;
    struct rota_beat beat = rota_peer_fsm_clamp_heartbeat((struct rota_beat){0, 0});
    assert_int_equal(beat.interval, ROTA_PEER_INTERVAL);
    assert_int_equal(beat.missed_max, ROTA_PEER_MISSED_MAX);
    beat = rota_peer_fsm_clamp_heartbeat((struct rota_beat){1, UINT32_MAX});
    assert_int_equal(beat.interval, ROTA_PEER_INTERVAL_MIN);
    assert_int_equal(beat.missed_max, ROTA_PEER_MISSED_LIMIT);
    beat = rota_peer_fsm_clamp_heartbeat((struct rota_beat){INT64_MAX, 1});
    assert_int_equal(beat.interval, ROTA_PEER_INTERVAL_MAX);
}

static void a_process_that_was_paused_judges_no_peer(void **state)
{
    struct rota_attention attention = {0};
    (void)state;
    assert_true(rota_peer_fsm_attention_listened(&attention, 2 * ROTA_SEC, &BEAT));
    assert_false(rota_peer_fsm_attention_listened(&attention, 100 * ROTA_SEC, &BEAT));
    assert_false(rota_peer_fsm_attention_listened(&attention, 101 * ROTA_SEC - 1, &BEAT));
    assert_true(rota_peer_fsm_attention_listened(&attention, 101 * ROTA_SEC, &BEAT));
}

/* --- joining --- */

static struct rota_join_actions step(struct rota_join_fsm *fsm, rota_time now,
                                     enum rota_join_event_type type)
{
    struct rota_join_event event = {
        .type = type, .is_drained = true, .beat = BEAT, .wall = 1000 * ROTA_SEC + now};
    return rota_join_fsm_step(fsm, now, &event);
}

static void init(struct rota_join_fsm *fsm)
{
    struct rota_join_options options = {.seed = 1};
    rota_join_fsm_init(fsm, &options, 0);
}

static void join(struct rota_join_fsm *fsm, rota_time now)
{
    assert_true(step(fsm, now, ROTA_JOIN_TICK).open);
    assert_true(step(fsm, now, ROTA_JOIN_WELCOME).tell_up);
}

static void assert_nothing(struct rota_join_actions todo)
{
    assert_false(todo.tell_down || todo.tell_failed || todo.is_silent || todo.close || todo.open ||
                 todo.tell_up || todo.beat);
    assert_int_equal(todo.wait, 0);
}

static void a_worker_tries_at_once_and_is_up_when_welcome(void **state)
{
    struct rota_join_fsm fsm;
    (void)state;
    init(&fsm);
    assert_int_equal(rota_join_fsm_deadline(&fsm), 0);
    join(&fsm, 0);
    assert_int_equal(fsm.state, ROTA_JOIN_JOINED);
    assert_true(step(&fsm, ROTA_SEC, ROTA_JOIN_TICK).beat);
}

static void a_repeated_welcome_only_sets_the_heartbeat(void **state)
{
    struct rota_join_fsm fsm;
    (void)state;
    init(&fsm);
    join(&fsm, 0);
    struct rota_join_event event = {.type = ROTA_JOIN_WELCOME, .beat = {5 * ROTA_SEC, 2}};
    assert_false(rota_join_fsm_step(&fsm, ROTA_SEC, &event).tell_up);
    assert_int_equal(fsm.peer.beat.interval, 5 * ROTA_SEC);
    assert_false(step(&fsm, 4 * ROTA_SEC, ROTA_JOIN_TICK).beat);
}

static void without_a_welcome_in_time_the_try_has_failed(void **state)
{
    struct rota_join_fsm fsm;
    (void)state;
    init(&fsm);
    assert_true(step(&fsm, 0, ROTA_JOIN_TICK).open);
    assert_int_equal(rota_join_fsm_deadline(&fsm), ROTA_JOIN_TIMEOUT);
    struct rota_join_actions todo = step(&fsm, ROTA_JOIN_TIMEOUT, ROTA_JOIN_TICK);
    assert_true(todo.tell_failed && todo.close && !todo.tell_down);
    assert_true(todo.wait > 0);
    assert_false(step(&fsm, ROTA_JOIN_TIMEOUT + todo.wait, ROTA_JOIN_WELCOME).tell_up ||
                 fsm.state != ROTA_JOIN_WAITING);
}

static void the_wait_grows_and_is_bounded(void **state)
{
    struct rota_join_fsm fsm;
    rota_time now = 0, last = 0;
    (void)state;
    init(&fsm);
    for (int i = 0; i < 20; i++) {
        assert_true(step(&fsm, now, ROTA_JOIN_TICK).open);
        struct rota_join_actions todo = step(&fsm, now, ROTA_JOIN_LOST);
        assert_true(todo.tell_failed);
        assert_true(todo.wait <= ROTA_BACKOFF_MAX);
        if (i < 5)
            assert_true(todo.wait > last);
        last = todo.wait;
        assert_false(step(&fsm, now + todo.wait - 1, ROTA_JOIN_TICK).open);
        now += todo.wait;
    }
    assert_true(last > ROTA_BACKOFF_MAX / 2);
}

static void a_session_that_lasted_starts_over_and_one_that_did_not_does_not(void **state)
{
    struct rota_join_fsm fsm;
    rota_time now = 0;
    (void)state;
    init(&fsm);
    for (int i = 0; i < 20; i++) { /* as two that fight over a name */
        join(&fsm, now);
        now += step(&fsm, now, ROTA_JOIN_LOST).wait;
    }
    assert_true(now > 20 * ROTA_SEC);
    join(&fsm, now);
    step(&fsm, now + ROTA_HOUR, ROTA_JOIN_HEARD);
    assert_true(step(&fsm, now + ROTA_HOUR, ROTA_JOIN_LOST).wait < 2 * ROTA_BACKOFF_FIRST);
}

static void a_timeout_ends_a_session_only_after_all_messages_were_read(void **state)
{
    struct rota_join_fsm fsm;
    (void)state;
    init(&fsm);
    join(&fsm, 0);
    struct rota_join_event deaf = {.type = ROTA_JOIN_TICK};
    step(&fsm, 2 * ROTA_SEC, ROTA_JOIN_TICK);
    assert_false(rota_join_fsm_step(&fsm, 3 * ROTA_SEC, &deaf).tell_down);
    struct rota_join_actions todo = step(&fsm, 3 * ROTA_SEC, ROTA_JOIN_TICK);
    assert_true(todo.tell_down && todo.is_silent && todo.close);
}

static void a_paused_worker_gives_its_broker_another_interval(void **state)
{
    struct rota_join_fsm fsm;
    (void)state;
    init(&fsm);
    join(&fsm, 0);
    assert_false(step(&fsm, ROTA_HOUR, ROTA_JOIN_TICK).tell_down);
    assert_true(rota_join_fsm_deadline(&fsm) <= ROTA_HOUR + ROTA_SEC);
    assert_true(step(&fsm, ROTA_HOUR + ROTA_SEC, ROTA_JOIN_TICK).tell_down);
}

static void epochs_grow_also_when_the_clock_goes_back(void **state)
{
    struct rota_join_fsm fsm;
    rota_time now = 0, walls[] = {1000 * ROTA_SEC, 10 * ROTA_SEC, -5, 2000 * ROTA_SEC};
    uint64_t last = 0;
    (void)state;
    init(&fsm);
    for (int i = 0; i < 4; i++) {
        struct rota_join_event event = {.type = ROTA_JOIN_TICK, .wall = walls[i]};
        assert_true(rota_join_fsm_step(&fsm, now, &event).open);
        assert_true(fsm.epoch > last);
        last = fsm.epoch;
        now += step(&fsm, now, ROTA_JOIN_LOST).wait;
    }
    assert_int_equal(last, 2000 * 1000000);
}

static void a_stopped_machine_does_nothing(void **state)
{
    struct rota_join_fsm fsm;
    (void)state;
    init(&fsm);
    join(&fsm, 0);
    struct rota_join_actions todo = step(&fsm, 1, ROTA_JOIN_STOP);
    assert_true(todo.tell_down && todo.close);
    assert_int_equal(rota_join_fsm_deadline(&fsm), ROTA_TIME_NEVER);
    assert_nothing(step(&fsm, ROTA_HOUR, ROTA_JOIN_TICK));
    assert_nothing(step(&fsm, ROTA_HOUR, ROTA_JOIN_LOST));
    assert_nothing(step(&fsm, ROTA_HOUR, ROTA_JOIN_STOP));
}

static void session_begins_with_the_welcome(void **state)
{
    struct rota_join_fsm fsm;
    (void)state;
    init(&fsm);
    assert_true(step(&fsm, 0, ROTA_JOIN_TICK).open);
    step(&fsm, 4 * ROTA_SEC, ROTA_JOIN_WELCOME);
    assert_int_equal(rota_join_fsm_deadline(&fsm), 5 * ROTA_SEC); /* the first beat */
    assert_false(step(&fsm, 5 * ROTA_SEC - 1, ROTA_JOIN_TICK).beat);
    assert_true(step(&fsm, 5 * ROTA_SEC, ROTA_JOIN_TICK).beat);
    step(&fsm, 5 * ROTA_SEC, ROTA_JOIN_SENT);
    assert_false(step(&fsm, 6 * ROTA_SEC - 1, ROTA_JOIN_TICK).beat);
    step(&fsm, 6 * ROTA_SEC, ROTA_JOIN_HEARD);
    step(&fsm, 8 * ROTA_SEC, ROTA_JOIN_TICK);
    assert_false(step(&fsm, 9 * ROTA_SEC - 1, ROTA_JOIN_TICK).tell_down);
    assert_true(step(&fsm, 9 * ROTA_SEC, ROTA_JOIN_TICK).tell_down);
}

static void options_replace_the_defaults(void **state)
{
    struct rota_join_options options = {.beat = {2 * ROTA_SEC, 5},
                                        .timeout = 7 * ROTA_SEC,
                                        .wait_first = 50 * ROTA_SEC,
                                        .wait_max = 60 * ROTA_SEC};
    struct rota_join_fsm fsm;
    (void)state;
    rota_join_fsm_init(&fsm, &options, 3 * ROTA_SEC);
    assert_int_equal(rota_join_fsm_deadline(&fsm), 3 * ROTA_SEC);
    assert_int_equal(fsm.beat.interval, 2 * ROTA_SEC);
    assert_int_equal(fsm.beat.missed_max, 5);
    assert_false(step(&fsm, 3 * ROTA_SEC - 1, ROTA_JOIN_TICK).open);
    assert_true(step(&fsm, 3 * ROTA_SEC, ROTA_JOIN_TICK).open);
    assert_int_equal(rota_join_fsm_deadline(&fsm), 10 * ROTA_SEC);
    struct rota_join_actions todo = step(&fsm, 10 * ROTA_SEC - 1, ROTA_JOIN_TICK);
    assert_false(todo.close);
    todo = step(&fsm, 10 * ROTA_SEC, ROTA_JOIN_TICK);
    assert_true(todo.close && todo.is_silent);
    assert_in_range(todo.wait, 40 * ROTA_SEC, 60 * ROTA_SEC);
    assert_int_equal(rota_join_fsm_deadline(&fsm), 10 * ROTA_SEC + todo.wait);
}

static void waits_differ_by_the_seed(void **state)
{
    rota_time waits[2];
    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        struct rota_join_fsm fsm;
        rota_join_fsm_init(&fsm, &(struct rota_join_options){.seed = i}, 0);
        step(&fsm, 0, ROTA_JOIN_TICK);
        waits[i] = step(&fsm, 0, ROTA_JOIN_LOST).wait;
    }
    assert_true(waits[0] != waits[1]);
}

/* Lasting means: for as long as a silent one would have lasted. */
static void session_counts_as_lasting_after_a_heartbeat_timeout(void **state)
{
    (void)state;
    for (int is_short = 0; is_short < 2; is_short++) {
        struct rota_join_fsm fsm;
        init(&fsm);
        rota_time now = 0, waited = 0;
        for (int i = 0; i < 6; i++) {
            join(&fsm, now);
            now += 3 * ROTA_SEC - is_short;
            struct rota_join_actions todo = step(&fsm, now, ROTA_JOIN_LOST);
            assert_true(todo.tell_down && todo.close && !todo.is_silent && !todo.tell_failed);
            waited = todo.wait;
            now += waited;
        }
        assert_int_equal(waited > 2 * ROTA_BACKOFF_FIRST, is_short);
    }
}

static void only_what_is_open_is_closed(void **state)
{
    struct rota_join_fsm fsm;
    struct rota_join_actions todo;
    (void)state;
    init(&fsm);
    assert_nothing(step(&fsm, 0, ROTA_JOIN_LOST)); /* nothing was opened */
    assert_nothing(step(&fsm, 0, ROTA_JOIN_HEARD));
    assert_nothing(step(&fsm, 0, ROTA_JOIN_SENT));
    assert_nothing(step(&fsm, 0, ROTA_JOIN_WELCOME));
    assert_int_equal(fsm.state, ROTA_JOIN_WAITING);
    assert_nothing(step(&fsm, 0, ROTA_JOIN_STOP));
    assert_nothing(step(&fsm, 0, ROTA_JOIN_WELCOME));
    assert_int_equal(fsm.state, ROTA_JOIN_STOPPED);
    init(&fsm);
    step(&fsm, 0, ROTA_JOIN_TICK);
    todo = step(&fsm, 0, ROTA_JOIN_STOP);
    assert_true(todo.close && !todo.tell_down);
}

static void a_paused_worker_sends_heartbeats_while_it_waits_for_its_broker(void **state)
{
    struct rota_join_fsm fsm;
    (void)state;
    init(&fsm);
    join(&fsm, 0);
    assert_true(step(&fsm, ROTA_HOUR, ROTA_JOIN_TICK).beat);
    step(&fsm, ROTA_HOUR, ROTA_JOIN_SENT);
    assert_int_equal(rota_join_fsm_deadline(&fsm), ROTA_HOUR + ROTA_SEC);
    step(&fsm, ROTA_HOUR, ROTA_JOIN_HEARD);
    assert_int_equal(rota_join_fsm_deadline(&fsm), ROTA_HOUR + ROTA_SEC);
    assert_false(step(&fsm, ROTA_HOUR + ROTA_SEC, ROTA_JOIN_TICK).tell_down);
}

static void epoch_is_the_time_or_one_more_than_the_last(void **state)
{
    struct rota_join_fsm fsm;
    rota_time now = 0, walls[] = {0, 5 * ROTA_USEC, 5 * ROTA_USEC, 3 * ROTA_USEC, -1};
    uint64_t epochs[] = {1, 5, 6, 7, 8};
    (void)state;
    init(&fsm);
    for (int i = 0; i < 5; i++) {
        struct rota_join_event event = {.type = ROTA_JOIN_TICK, .wall = walls[i]};
        assert_true(rota_join_fsm_step(&fsm, now, &event).open);
        assert_int_equal(fsm.epoch, epochs[i]);
        now += step(&fsm, now, ROTA_JOIN_LOST).wait;
    }
}

static void bounds_of_a_heartbeat_are_inclusive(void **state)
{
    static const struct {
        struct rota_beat beat, held;
    } CASES[] = {
        {{ROTA_PEER_INTERVAL_MIN, 1}, {ROTA_PEER_INTERVAL_MIN, 1}},
        {{ROTA_PEER_INTERVAL_MIN + 1, 2}, {ROTA_PEER_INTERVAL_MIN + 1, 2}},
        {{ROTA_PEER_INTERVAL_MIN - 1, 100}, {ROTA_PEER_INTERVAL_MIN, 100}},
        {{ROTA_PEER_INTERVAL_MAX, 101}, {ROTA_PEER_INTERVAL_MAX, 100}},
        {{ROTA_PEER_INTERVAL_MAX + 1, 99}, {ROTA_PEER_INTERVAL_MAX, 99}},
        {{-1, 0}, {ROTA_PEER_INTERVAL_MIN, ROTA_PEER_MISSED_MAX}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct rota_beat beat = rota_peer_fsm_clamp_heartbeat(CASES[i].beat);
        assert_int_equal(beat.interval, CASES[i].held.interval);
        assert_int_equal(beat.missed_max, CASES[i].held.missed_max);
    }
}

static void absence_is_more_than_two_intervals(void **state)
{
    struct rota_attention attention = {.listened_at = ROTA_SEC};
    (void)state;
    assert_true(rota_peer_fsm_attention_listened(&attention, 3 * ROTA_SEC, &BEAT));
    assert_int_equal(attention.excuse_until, 0);
    assert_false(rota_peer_fsm_attention_listened(&attention, 5 * ROTA_SEC + 1, &BEAT));
    assert_int_equal(attention.spare_until, 6 * ROTA_SEC + 1);
    assert_int_equal(attention.excuse_until, 8 * ROTA_SEC + 1);
}

static void deadline_is_the_earlier_of_timeout_and_heartbeat(void **state)
{
    struct rota_peer_fsm fsm;
    (void)state;
    rota_peer_fsm_init(&fsm, (struct rota_beat){0, 0}, 10 * ROTA_SEC);
    assert_int_equal(fsm.beat.interval, ROTA_PEER_INTERVAL);
    assert_int_equal(rota_peer_fsm_deadline(&fsm), 11 * ROTA_SEC);
    rota_peer_fsm_sent(&fsm, 12500 * ROTA_MSEC);
    assert_int_equal(rota_peer_fsm_deadline(&fsm), 13 * ROTA_SEC);
    rota_peer_fsm_heard(&fsm, 11 * ROTA_SEC);
    assert_int_equal(rota_peer_fsm_deadline(&fsm), 13500 * ROTA_MSEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_message_counts_as_a_heartbeat),
        cmocka_unit_test(a_heartbeat_is_due_when_nothing_else_was_sent),
        cmocka_unit_test(heartbeats_are_clamped_to_their_bounds),
        cmocka_unit_test(a_process_that_was_paused_judges_no_peer),
        cmocka_unit_test(a_worker_tries_at_once_and_is_up_when_welcome),
        cmocka_unit_test(a_repeated_welcome_only_sets_the_heartbeat),
        cmocka_unit_test(without_a_welcome_in_time_the_try_has_failed),
        cmocka_unit_test(the_wait_grows_and_is_bounded),
        cmocka_unit_test(a_session_that_lasted_starts_over_and_one_that_did_not_does_not),
        cmocka_unit_test(a_timeout_ends_a_session_only_after_all_messages_were_read),
        cmocka_unit_test(a_paused_worker_gives_its_broker_another_interval),
        cmocka_unit_test(epochs_grow_also_when_the_clock_goes_back),
        cmocka_unit_test(a_stopped_machine_does_nothing),
        cmocka_unit_test(session_begins_with_the_welcome),
        cmocka_unit_test(options_replace_the_defaults),
        cmocka_unit_test(waits_differ_by_the_seed),
        cmocka_unit_test(session_counts_as_lasting_after_a_heartbeat_timeout),
        cmocka_unit_test(only_what_is_open_is_closed),
        cmocka_unit_test(a_paused_worker_sends_heartbeats_while_it_waits_for_its_broker),
        cmocka_unit_test(epoch_is_the_time_or_one_more_than_the_last),
        cmocka_unit_test(bounds_of_a_heartbeat_are_inclusive),
        cmocka_unit_test(absence_is_more_than_two_intervals),
        cmocka_unit_test(deadline_is_the_earlier_of_timeout_and_heartbeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
