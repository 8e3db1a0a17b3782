/* A Get while shards are elsewhere than the map says. */
#include "get_world.h"

static void a_false_all_matched_is_not_retried_there(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0);
    mismatch(sent_to(0), rota_interval_of(0, 2), 10); /* it says so, and yet */
    mismatch(sent_to(2), rota_interval_of(0, 2), 12);
    assert_int_equal(world.n_sent, 2);
    for (rota_time now = 0; now < 9 * ROTA_SEC; now += 100 * ROTA_MSEC)
        tick_at(now);
    assert_int_equal(world.n_sent, 2);
    tick_at(10 * ROTA_SEC);
    assert_missing(1, ROTA_FAILURE_DEADLINE);
    assert_int_equal(state_of(0), ROTA_GET_NO_SHARD);
}

static void a_false_all_matched_teaches_and_moves_the_keys(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_HEDGE, 10 * ROTA_SEC, 0);
    assert_int_equal(world.n_sent, 1);
    struct sent first = world.sent[0];
    mismatch(&first, rota_interval_of(1, 2), 99);
    assert_int_equal(rota_interval_map_find(world.map, first.host)->epoch, 99);
    assert_int_equal(world.n_sent, 2);
    assert_int_equal(world.sent[1].index, first.index == 0 ? 2 : 0);
    answer(&world.sent[1]);
    assert_well();
}

static void a_host_that_has_taken_the_shard_since_is_asked(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0);
    mismatch(sent_to(0), rota_interval_of(1, 2), 20);
    mismatch(sent_to(2), rota_interval_of(1, 2), 21);
    assert_true(rota_get_fsm_wants_news(&world.fsm));
    teach(0, rota_interval_of(0, 2), 30); /* from another Get or a ping */
    step((struct rota_get_fsm_event){.type = ROTA_GET_MAP_CHANGED});
    assert_int_equal(world.n_sent, 3);
    assert_int_equal(world.sent[2].index, 0);
    assert_int_equal(world.sent[2].epoch, 30);
    answer(&world.sent[2]);
    assert_well();
}

/* A host that never makes up its mind does not get a request for each answer. */
static void a_host_that_keeps_changing_its_shard_is_not_asked_forever(void **state)
{
    (void)state;
    list_hosts(1);
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0);
    for (uint64_t epoch = 100; epoch < 200 && world.n_sent <= 100; epoch++)
        mismatch(&world.sent[world.n_sent - 1], rota_interval_of(0, 2), epoch);
    assert_int_equal(world.n_sent, ROTA_GET_HOST_TRIES_MAX);
}

static void a_replica_that_is_learned_of_later_joins_a_broadcast(void **state)
{
    (void)state;
    list_hosts(5);
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0, 1, 2);
    assert_null(sent_to(4));
    answer(sent_to(1));
    teach(4, rota_interval_of(0, 1), 60); /* all keys, in the dc of hosts 0 and 1 */
    step((struct rota_get_fsm_event){.type = ROTA_GET_MAP_CHANGED});
    assert_int_equal(world.n_sent, 5);
    assert_int_equal(sent_to(4)->n_keys, 2); /* what is still out */
    step((struct rota_get_fsm_event){.type = ROTA_GET_MAP_CHANGED});
    assert_int_equal(world.n_sent, 5);
    answer(sent_to(4));
    assert_well();
    assert_true(sent_to(0)->is_cancelled && sent_to(2)->is_cancelled);
}

static void a_replica_that_is_not_live_or_is_of_a_hedge_does_not_join(void **state)
{
    (void)state;
    list_hosts(5);
    START(ROTA_GET_MODE_HEDGE, 10 * ROTA_SEC, 0);
    teach(4, rota_interval_of(0, 1), 60);
    assert_false(rota_get_fsm_wants_news(&world.fsm));
    step((struct rota_get_fsm_event){.type = ROTA_GET_MAP_CHANGED});
    assert_int_equal(world.n_sent, 1);
    answer(&world.sent[0]);
    for (int i = 0; i < ROTA_INTERVAL_FAILURES; i++)
        rota_interval_map_failed(world.map, id_at(4));
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0);
    step((struct rota_get_fsm_event){.type = ROTA_GET_MAP_CHANGED});
    assert_int_equal(world.n_sent, 3);
    answer(&world.sent[2]);
    assert_well();
}

static void a_key_without_a_shard_waits_a_ping_time_and_looks_again(void **state)
{
    (void)state;
    rota_interval_map_set_hosts(world.map, NULL, 0, NULL);
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0);
    assert_int_equal(world.n_sent, 0);
    assert_int_equal(rota_get_fsm_deadline(&world.fsm), 500 * ROTA_MSEC);
    list_hosts(1);
    teach(0, rota_interval_of(0, 2), 20); /* and nobody says that the map has changed */
    tick_at(500 * ROTA_MSEC);
    assert_int_equal(world.n_sent, 1);
    answer(&world.sent[0]);
    assert_well();
}

static void the_wait_for_a_shard_ends_with_the_deadline(void **state)
{
    (void)state;
    rota_interval_map_set_hosts(world.map, NULL, 0, NULL);
    START(ROTA_GET_MODE_BROADCAST, 300 * ROTA_MSEC, 0);
    assert_int_equal(rota_get_fsm_deadline(&world.fsm), 300 * ROTA_MSEC);
    tick_at(300 * ROTA_MSEC);
    assert_missing(1, ROTA_FAILURE_DEADLINE);
    assert_int_equal(state_of(0), ROTA_GET_NO_SHARD);
}

static void without_a_deadline_the_waits_end_too(void **state)
{
    (void)state;
    rota_interval_map_set_hosts(world.map, NULL, 0, NULL);
    START(ROTA_GET_MODE_BROADCAST, 0, 0);
    for (int i = 0; i < 1000 && world.n_finished == 0; i++)
        tick_at(rota_get_fsm_deadline(&world.fsm));
    assert_int_equal(world.n_finished, 1);
    assert_in_range(world.now, 100 * ROTA_SEC, 200 * ROTA_SEC);
}

static void keys_with_a_shard_do_not_wait_for_those_without(void **state)
{
    (void)state;
    list_hosts(1);
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1, 2);
    assert_int_equal(world.n_sent, 1);
    answer(&world.sent[0]);
    assert_int_equal(world.n_finished, 0);
    tick_at(ROTA_SEC);
    assert_missing(1, ROTA_FAILURE_DEADLINE);
    assert_int_equal(state_of(0), ROTA_GET_FOUND); /* what is there is given */
    assert_int_equal(state_of(1), ROTA_GET_NO_SHARD);
}

static void a_key_that_the_answering_shard_does_not_have_is_not_answered(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_HEDGE, ROTA_SEC, 0, 2);
    struct rota_get_fsm_event event = answer_of(&world.sent[0]);
    world.claims[0].interval =
        rota_interval_of(0, 4); /* has key 0 and not key 2, whatever it says */
    world.claims[0].epoch = 50;
    step(event);
    assert_int_equal(state_of(0), ROTA_GET_FOUND);
    assert_int_equal(state_of(1), ROTA_GET_PENDING);
    assert_int_equal(world.n_sent, 2);
    assert_int_not_equal(world.sent[1].index, world.sent[0].index);
}

static void a_stale_epoch_is_refused(void **state)
{
    (void)state;
    list_hosts(5);
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0);
    assert_int_equal(world.n_sent, 2);
    teach(4, rota_interval_of(0, 2), 60); /* another host of the same dc has it now */
    struct rota_get_fsm_event event = answer_of(sent_to(0));
    step(event);
    assert_int_equal(state_of(0), ROTA_GET_PENDING);
    assert_int_equal(world.stats.n_stale, 1);
    answer(sent_to(2)); /* the other dc has epochs of its own */
    assert_well();
}

static void a_host_that_has_left_is_not_believed(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 1);
    struct rota_get_fsm_event event = answer_of(sent_to(3));
    list_hosts(3);
    step(event);
    assert_int_equal(state_of(0), ROTA_GET_PENDING);
    answer(sent_to(1));
    assert_well();
}

static void an_answer_without_a_valid_shard_is_a_failure(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0);
    struct rota_get_fsm_event event = answer_of(sent_to(0));
    world.claims[0].interval = (struct rota_interval){9, 3, 0};
    step(event);
    event = answer_of(sent_to(2));
    event.n_claims = 0;
    step(event);
    assert_int_equal(state_of(0), ROTA_GET_PENDING);
    assert_int_equal(rota_get_fsm_try(&world.fsm, 0)->failure, ROTA_FAILURE_INTERNAL);
    assert_int_equal(rota_get_fsm_try(&world.fsm, 1)->failure, ROTA_FAILURE_INTERNAL);
}

static void hold_both(size_t index, uint64_t first_epoch, uint64_t second_epoch)
{
    struct rota_interval_claim claims[] = {{rota_interval_of(0, 2), first_epoch},
                                           {rota_interval_of(1, 2), second_epoch}};
    struct rota_interval_lesson lesson = {rota_interval_map_number(world.map), claims, 2};
    rota_interval_map_learn(world.map, id_at(index), &lesson);
}

static void a_host_with_several_shards_is_asked_once_for_all_its_keys(void **state)
{
    (void)state;
    list_hosts(2);
    hold_both(0, 10, 20);
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0, 1, 2, 3);
    assert_int_equal(world.n_sent, 1);
    assert_int_equal(world.sent[0].n_keys, 4);
    assert_int_equal(world.sent[0].epoch, 20);
    answer(&world.sent[0]);
    assert_well();
}

static void an_answer_counts_for_its_current_shards(void **state)
{
    (void)state;
    list_hosts(2);
    hold_both(0, 10, 20);
    START(ROTA_GET_MODE_HEDGE, 10 * ROTA_SEC, 0, 1);
    struct rota_get_fsm_event event = answer_of(&world.sent[0]);
    teach(1, rota_interval_of(1, 2), 30); /* another host has it by now */
    step(event);
    assert_int_equal(state_of(0), ROTA_GET_FOUND);
    assert_int_equal(state_of(1), ROTA_GET_PENDING);
    assert_int_equal(world.n_sent, 2);
    assert_int_equal(world.sent[1].index, 1);
    answer(&world.sent[1]);
    assert_well();
    assert_int_equal(world.stats.n_stale, 1);
}

static void a_host_that_lost_one_shard_is_asked_again_for_the_other(void **state)
{
    (void)state;
    list_hosts(2);
    hold_both(0, 10, 20);
    START(ROTA_GET_MODE_HEDGE, 10 * ROTA_SEC, 0, 1);
    mismatch(&world.sent[0], rota_interval_of(0, 2), 10);
    assert_int_equal(world.n_sent, 2);
    assert_int_equal(world.sent[1].index, 0);
    assert_int_equal(world.sent[1].n_keys, 1);
    answer(&world.sent[1]);
    assert_int_equal(state_of(0), ROTA_GET_FOUND);
    teach(1, rota_interval_of(1, 2), 30);
    step((struct rota_get_fsm_event){.type = ROTA_GET_MAP_CHANGED});
    answer(&world.sent[2]);
    assert_well();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_false_all_matched_is_not_retried_there),
        TEST(a_false_all_matched_teaches_and_moves_the_keys),
        TEST(a_host_that_has_taken_the_shard_since_is_asked),
        TEST(a_host_that_keeps_changing_its_shard_is_not_asked_forever),
        TEST(a_replica_that_is_learned_of_later_joins_a_broadcast),
        TEST(a_replica_that_is_not_live_or_is_of_a_hedge_does_not_join),
        TEST(a_key_without_a_shard_waits_a_ping_time_and_looks_again),
        TEST(the_wait_for_a_shard_ends_with_the_deadline),
        TEST(without_a_deadline_the_waits_end_too),
        TEST(keys_with_a_shard_do_not_wait_for_those_without),
        TEST(a_key_that_the_answering_shard_does_not_have_is_not_answered),
        TEST(a_stale_epoch_is_refused),
        TEST(a_host_that_has_left_is_not_believed),
        TEST(an_answer_without_a_valid_shard_is_a_failure),
        TEST(a_host_with_several_shards_is_asked_once_for_all_its_keys),
        TEST(an_answer_counts_for_its_current_shards),
        TEST(a_host_that_lost_one_shard_is_asked_again_for_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
