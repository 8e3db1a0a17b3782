/* When a node asks its peers, begins and leaves. */
#include "core/work/cluster/exchange_fsm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { LISTED = true, UNLISTED = false, WAITING = true, ANSWERED = false };

static const rota_time START = 100 * ROTA_SEC;
static struct rota_exchange_fsm fsm;

static int setup(void **state)
{
    (void)state;
    rota_exchange_fsm_init(&fsm, START);
    return 0;
}

/* --- asking --- */

static void peers_are_asked_at_once_and_then_from_time_to_time(void **state)
{
    (void)state;
    assert_true(rota_exchange_fsm_ask(&fsm, START));
    assert_false(rota_exchange_fsm_ask(&fsm, START));
    assert_false(rota_exchange_fsm_ask(&fsm, START + ROTA_EXCHANGE_INTERVAL - 1));
    assert_true(rota_exchange_fsm_ask(&fsm, START + ROTA_EXCHANGE_INTERVAL));
}

static void a_changed_list_is_a_reason_to_ask(void **state)
{
    (void)state;
    assert_true(rota_exchange_fsm_ask(&fsm, START));
    rota_exchange_fsm_ask_now(&fsm);
    assert_true(rota_exchange_fsm_ask(&fsm, START + 1));
}

static void calls_can_make_it_ask_soon_but_not_all_the_time(void **state)
{
    (void)state;
    assert_true(rota_exchange_fsm_ask(&fsm, START));
    rota_exchange_fsm_ask_soon(&fsm);
    assert_false(rota_exchange_fsm_ask(&fsm, START + ROTA_EXCHANGE_SOON - 1));
    assert_true(rota_exchange_fsm_ask(&fsm, START + ROTA_EXCHANGE_SOON));
}

static void a_call_does_not_put_off_what_is_due_earlier(void **state)
{
    (void)state;
    assert_true(rota_exchange_fsm_ask(&fsm, START));
    rota_exchange_fsm_ask_now(&fsm);
    rota_exchange_fsm_ask_soon(&fsm);
    assert_true(rota_exchange_fsm_ask(&fsm, START + 1));
}

/* --- beginning --- */

static void a_node_begins_once_it_is_listed_and_all_peers_have_answered(void **state)
{
    (void)state;
    assert_false(rota_exchange_fsm_begin(&fsm, START, UNLISTED, ANSWERED));
    assert_false(rota_exchange_fsm_begin(&fsm, START + 1, LISTED, WAITING));
    assert_false(rota_exchange_fsm_has_begun(&fsm));
    assert_true(rota_exchange_fsm_begin(&fsm, START + 2, LISTED, ANSWERED));
    assert_true(rota_exchange_fsm_has_begun(&fsm));
    assert_false(rota_exchange_fsm_begin(&fsm, START + 3, LISTED, ANSWERED)); /* once */
}

static void a_peer_that_does_not_answer_is_not_waited_for_long(void **state)
{
    const rota_time listed_at = START + ROTA_SEC;
    (void)state;
    assert_false(rota_exchange_fsm_begin(&fsm, listed_at, LISTED, WAITING));
    assert_int_equal(rota_exchange_fsm_deadline(&fsm), 0); /* no peer was asked yet */
    assert_true(rota_exchange_fsm_ask(&fsm, listed_at));
    assert_int_equal(rota_exchange_fsm_deadline(&fsm), listed_at + ROTA_EXCHANGE_ANSWERS);
    assert_false(
        rota_exchange_fsm_begin(&fsm, listed_at + ROTA_EXCHANGE_ANSWERS - 1, LISTED, WAITING));
    assert_true(rota_exchange_fsm_begin(&fsm, listed_at + ROTA_EXCHANGE_ANSWERS, LISTED, WAITING));
}

static void a_node_that_is_never_listed_begins_after_a_while(void **state)
{
    (void)state;
    assert_true(rota_exchange_fsm_ask(&fsm, START + 1));
    assert_int_equal(rota_exchange_fsm_deadline(&fsm), START + ROTA_EXCHANGE_HOLD_MAX);
    assert_false(
        rota_exchange_fsm_begin(&fsm, START + ROTA_EXCHANGE_HOLD_MAX - 1, UNLISTED, ANSWERED));
    assert_true(rota_exchange_fsm_begin(&fsm, START + ROTA_EXCHANGE_HOLD_MAX, UNLISTED, ANSWERED));
    assert_int_equal(rota_exchange_fsm_deadline(&fsm), START + 1 + ROTA_EXCHANGE_INTERVAL);
}

/* --- leaving --- */

static const struct rota_exchange_sight GONE = {
    .is_draining = true, .has_others = true, .is_empty = true};

static void a_node_says_goodbye_once_when_it_holds_nothing(void **state)
{
    struct rota_exchange_sight sight = GONE;
    (void)state;
    sight.is_empty = false;
    assert_false(rota_exchange_fsm_leave(&fsm, &sight));
    assert_true(rota_exchange_fsm_leave(&fsm, &GONE));
    assert_false(rota_exchange_fsm_leave(&fsm, &GONE));
    assert_false(rota_exchange_fsm_has_left(&fsm, &GONE, WAITING));
    assert_true(rota_exchange_fsm_has_left(&fsm, &GONE, ANSWERED));
}

static void a_node_does_not_say_goodbye_while_it_may_get_jobs(void **state)
{
    const struct rota_exchange_sight serving = {.has_others = true, .is_empty = true};
    struct rota_exchange_sight placed = GONE, alone = GONE;
    (void)state;
    placed.is_placed = true;
    alone.has_others = false;
    assert_false(rota_exchange_fsm_leave(&fsm, &serving));
    assert_false(rota_exchange_fsm_leave(&fsm, &placed));
    assert_false(rota_exchange_fsm_leave(&fsm, &alone));
}

static void jobs_that_arrive_after_the_goodbye_take_it_back(void **state)
{
    (void)state;
    assert_true(rota_exchange_fsm_ask(&fsm, START));
    assert_false(rota_exchange_fsm_take_back(&fsm));
    assert_false(rota_exchange_fsm_ask(&fsm, START + 1));
    assert_true(rota_exchange_fsm_leave(&fsm, &GONE));
    assert_true(rota_exchange_fsm_take_back(&fsm));
    assert_true(rota_exchange_fsm_ask(&fsm, START + 1));
    assert_false(rota_exchange_fsm_has_left(&fsm, &GONE, ANSWERED));
    assert_true(rota_exchange_fsm_leave(&fsm, &GONE)); /* again, once these are gone, too */
}

static void a_node_that_can_hand_over_nothing_need_not_wait(void **state)
{
    struct rota_exchange_sight sight = GONE;
    (void)state;
    sight.is_empty = false;
    assert_false(rota_exchange_fsm_has_left(&fsm, &sight, ANSWERED));
    sight.has_others = false; /* no node could take them */
    assert_true(rota_exchange_fsm_has_left(&fsm, &sight, ANSWERED));
    sight.has_others = sight.is_placed = true; /* its partitions stay with it ... */
    assert_true(rota_exchange_fsm_has_left(&fsm, &sight, ANSWERED));
    sight.delists = true; /* ... or will go soon */
    assert_false(rota_exchange_fsm_has_left(&fsm, &sight, ANSWERED));
    sight.is_draining = false;
    assert_true(rota_exchange_fsm_has_left(&fsm, &sight, ANSWERED));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(peers_are_asked_at_once_and_then_from_time_to_time, setup),
        cmocka_unit_test_setup(a_changed_list_is_a_reason_to_ask, setup),
        cmocka_unit_test_setup(calls_can_make_it_ask_soon_but_not_all_the_time, setup),
        cmocka_unit_test_setup(a_call_does_not_put_off_what_is_due_earlier, setup),
        cmocka_unit_test_setup(a_node_begins_once_it_is_listed_and_all_peers_have_answered, setup),
        cmocka_unit_test_setup(a_peer_that_does_not_answer_is_not_waited_for_long, setup),
        cmocka_unit_test_setup(a_node_that_is_never_listed_begins_after_a_while, setup),
        cmocka_unit_test_setup(a_node_says_goodbye_once_when_it_holds_nothing, setup),
        cmocka_unit_test_setup(a_node_does_not_say_goodbye_while_it_may_get_jobs, setup),
        cmocka_unit_test_setup(jobs_that_arrive_after_the_goodbye_take_it_back, setup),
        cmocka_unit_test_setup(a_node_that_can_hand_over_nothing_need_not_wait, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
