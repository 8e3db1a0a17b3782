/* A Get while hosts fail or are slow, and its time. */
#include "get_world.h"

static void a_host_that_fails_is_tried_once_more_apart_from_the_others(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0);
    fail_try(sent_to(0), ROTA_FAILURE_UNREACHABLE);
    assert_int_equal(world.n_sent, 2); /* not at once */
    tick_at(rota_get_fsm_deadline(&world.fsm));
    assert_int_equal(world.n_sent, 3);
    assert_int_equal(world.sent[2].index, 0);
    fail_try(sent_to(0), ROTA_FAILURE_UNREACHABLE);
    tick_at(90 * ROTA_MSEC);
    assert_int_equal(world.n_sent, 3);
    answer(sent_to(2));
    assert_well();
}

/* Keys that another host has answered meanwhile are not sent again. */
static void a_host_is_tried_once_more_for_what_is_missing(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0, 2, 4);
    assert_int_equal(sent_to(0)->n_keys, 3);
    fail_try(sent_to(0), ROTA_FAILURE_UNREACHABLE);
    struct rota_get_fsm_event event = answer_of(sent_to(2));
    event.n_ids = 2;
    const struct rota_get_fsm_problem left = {.id = world.ids[2], .is_left = true};
    event.problems = &left; /* the third had no room */
    event.n_problems = 1;
    step(event);
    rota_time until = ROTA_SEC;
    while (world.sent[world.n_sent - 1].index != 0 && world.now < until)
        tick_at(rota_get_fsm_deadline(&world.fsm));
    assert_int_equal(sent_to(0)->n_keys, 1);
    assert_int_equal(sent_to(0)->keys[0], 2);
    answer(sent_to(0));
    assert_well();
}

static void a_host_that_does_not_answer_in_time_is_cancelled_and_tried_again(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0);
    assert_int_equal(sent_to(0)->deadline, 100 * ROTA_MSEC);
    struct sent first = *sent_to(0);
    tick_at(100 * ROTA_MSEC);
    assert_true(world.sent[0].is_cancelled);
    assert_true(world.sent[1].is_cancelled);
    tick_at(150 * ROTA_MSEC);
    assert_int_equal(world.n_sent, 4);
    answer(&first); /* too late: its try is over */
    assert_int_equal(world.n_finished, 0);
    answer(sent_to(0));
    assert_well();
}

static void a_key_is_not_forgotten_when_its_host_dies(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_HEDGE, 10 * ROTA_SEC, 0, 2);
    assert_int_equal(world.n_sent, 1);
    fail_try(&world.sent[0], ROTA_FAILURE_BROKEN);
    assert_int_equal(world.n_sent, 2); /* the other replica, at once */
    assert_int_not_equal(world.sent[1].index, world.sent[0].index);
    fail_try(&world.sent[1], ROTA_FAILURE_BROKEN);
    tick_at(50 * ROTA_MSEC);
    assert_int_equal(world.n_sent, 3); /* one of them once more */
    answer(&world.sent[2]);
    assert_well();
}

static void when_all_have_failed_they_are_asked_again_after_a_while(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0);
    for (size_t i = 0; world.n_sent < 6 && world.now < 9 * ROTA_SEC; i++) {
        while (i < world.n_sent)
            fail_try(&world.sent[i++], ROTA_FAILURE_UNREACHABLE);
        i = world.n_sent - 1;
        tick_at(rota_get_fsm_deadline(&world.fsm));
    }
    assert_true(world.n_sent >= 6);
    assert_int_equal(world.n_finished, 0);
    answer(&world.sent[world.n_sent - 1]);
    assert_well();
}

/* Of a Get of keys 0, 1 and 2: both holders of the even keys fail, and there is no token. */
static void lose_shard_0_without_tokens(void)
{
    rota_budget_init(&world.budget, 0, &(struct rota_budget_options){0});
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0, 1, 2);
    fail_try(sent_to(0), ROTA_FAILURE_BROKEN);
    fail_try(sent_to(2), ROTA_FAILURE_UNREACHABLE);
    answer(sent_to(1));
}

static void without_tokens_a_get_asks_no_host_again_until_its_deadline(void **state)
{
    rota_time pause = 0;
    (void)state;
    lose_shard_0_without_tokens();
    while (world.n_finished == 0) {
        rota_time at = rota_get_fsm_deadline(&world.fsm);
        assert_true(at > world.now && at <= 10 * ROTA_SEC);
        pause = at - world.now > pause ? at - world.now : pause;
        tick_at(at);
    }
    assert_int_equal(world.now, 10 * ROTA_SEC);
    assert_in_range(pause, ROTA_GET_BACKOFF_MAX / 2, ROTA_GET_BACKOFF_MAX); /* it grows */
    assert_int_equal(world.n_sent, 4);
    assert_missing(2, ROTA_FAILURE_DEADLINE);
    assert_int_equal(state_of(0), ROTA_GET_NO_ANSWER);
    assert_int_equal(state_of(1), ROTA_GET_FOUND);
    assert_int_equal(rota_get_fsm_result(&world.fsm, 2).failure, ROTA_FAILURE_UNREACHABLE);
}

static void a_get_continues_when_there_is_a_token(void **state)
{
    (void)state;
    lose_shard_0_without_tokens();
    tick_at(rota_get_fsm_deadline(&world.fsm));
    tick_at(rota_get_fsm_deadline(&world.fsm));
    assert_int_equal(world.n_sent, 4);
    rota_budget_init(&world.budget, world.now, &(struct rota_budget_options){.per_second = 1});
    tick_at(rota_get_fsm_deadline(&world.fsm));
    assert_int_equal(world.n_sent, 6);
    assert_int_equal(world.budget.n_spent, 1);
    answer(sent_to(2));
    assert_well();
}

static void a_host_that_answers_again_ends_the_pause(void **state)
{
    (void)state;
    lose_shard_0_without_tokens();
    for (int i = 0; i < ROTA_INTERVAL_FAILURES; i++)
        rota_interval_map_failed(world.map, id_at(0));
    step((struct rota_get_fsm_event){.type = ROTA_GET_MAP_CHANGED}); /* it is not of them */
    assert_int_equal(world.n_sent, 4);
    rota_budget_init(&world.budget, world.now, &(struct rota_budget_options){.per_second = 1});
    uint64_t version = rota_interval_map_version(world.map);
    teach(0, rota_interval_of(0, 2), 10); /* a ping: it is there, as it was */
    assert_int_not_equal(rota_interval_map_version(world.map), version);
    step((struct rota_get_fsm_event){.type = ROTA_GET_MAP_CHANGED});
    assert_true(world.n_sent > 4);
    assert_int_equal(world.budget.n_spent, 1);
    answer(sent_to(0));
    assert_well();
}

static void a_wrong_request_is_not_sent_elsewhere(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_HEDGE, 10 * ROTA_SEC, 0, 1);
    fail_try(&world.sent[0], ROTA_FAILURE_INPUT);
    assert_int_equal(world.n_sent, 2);
    answer(&world.sent[1]);
    assert_missing(1, ROTA_FAILURE_INPUT);
}

static void no_try_begins_at_the_deadline_and_none_outlives_it(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, 150 * ROTA_MSEC, 0);
    tick_at(100 * ROTA_MSEC);
    tick_at(130 * ROTA_MSEC);
    assert_int_equal(world.n_sent, 4);
    assert_int_equal(sent_to(0)->deadline, 150 * ROTA_MSEC);
    tick_at(150 * ROTA_MSEC);
    assert_missing(1, ROTA_FAILURE_DEADLINE);
    assert_true(world.sent[2].is_cancelled && world.sent[3].is_cancelled);
    assert_int_equal(rota_get_fsm_result(&world.fsm, 0).failure, ROTA_FAILURE_TIMEOUT);
    assert_int_equal(rota_get_fsm_deadline(&world.fsm), ROTA_TIME_NEVER);
}

static void a_get_that_begins_too_late_sends_nothing(void **state)
{
    (void)state;
    world.now = ROTA_SEC;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0);
    assert_int_equal(world.n_sent, 0);
    assert_int_equal(world.n_finished, 1);
    assert_int_equal(world.n_missing, 1);
}

static void a_get_that_is_cancelled_says_so(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0);
    step((struct rota_get_fsm_event){.type = ROTA_GET_CANCEL});
    assert_missing(1, ROTA_FAILURE_CANCELLED);
    assert_true(world.sent[0].is_cancelled && world.sent[1].is_cancelled);
    step((struct rota_get_fsm_event){.type = ROTA_GET_CANCEL});
}

static void a_host_that_is_not_live_is_asked_only_when_no_other_is_left(void **state)
{
    (void)state;
    for (int i = 0; i < ROTA_INTERVAL_FAILURES; i++)
        rota_interval_map_failed(world.map, id_at(0));
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0);
    assert_int_equal(world.n_sent, 1);
    assert_int_equal(world.sent[0].index, 2);
    mismatch(&world.sent[0], rota_interval_of(1, 2), 50);
    assert_int_equal(world.n_sent, 2);
    assert_int_equal(world.sent[1].index, 0);
    answer(&world.sent[1]);
    assert_well();
}

/* --- hedges --- */

static void know_what_is_usual(void)
{
    for (int i = 0; i < 100; i++)
        rota_hedge_record(&world.hedge, 0, 5 * ROTA_MSEC);
    for (int i = 0; i < 100; i++)
        rota_hedge_begin(&world.hedge, 0, ROTA_TIME_NEVER);
}

static void hedge_sends_one_copy_and_another_when_it_is_slow(void **state)
{
    (void)state;
    know_what_is_usual();
    START(ROTA_GET_MODE_HEDGE, ROTA_SEC, 0, 2);
    assert_int_equal(world.n_sent, 1);
    rota_time at = rota_get_fsm_deadline(&world.fsm);
    assert_in_range(at, 4 * ROTA_MSEC, 6 * ROTA_MSEC);
    tick_at(at);
    assert_int_equal(world.n_sent, 2);
    assert_true(world.sent[1].is_hedge);
    assert_int_not_equal(world.sent[1].index, world.sent[0].index);
    tick_at(90 * ROTA_MSEC); /* a hedge is not hedged */
    assert_int_equal(world.n_sent, 2);
    answer(&world.sent[1]);
    assert_well();
    assert_true(world.sent[0].is_cancelled);
}

/* It is stuck, and those that took the tokens were only a little slow. */
static void a_slow_try_without_a_token_asks_for_one_again(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++)
        rota_hedge_record(&world.hedge, 0, 5 * ROTA_MSEC);
    START(ROTA_GET_MODE_HEDGE, ROTA_SEC, 0);
    rota_time delay = world.hedge.delay;
    tick_at(delay);
    assert_int_equal(world.n_sent, 1);
    assert_int_equal(rota_get_fsm_deadline(&world.fsm), 2 * delay);
    for (int i = 0; i < 40; i++)
        rota_budget_earn(&world.hedge.budget);
    tick_at(2 * delay);
    assert_int_equal(world.n_sent, 2);
    assert_true(world.sent[1].is_hedge);
    answer(&world.sent[1]);
    assert_well();
}

/* Frozen: it accepts all, and answers nothing. */
static void a_host_that_loses_to_hedges_three_times_in_a_row_is_not_live(void **state)
{
    (void)state;
    know_what_is_usual();
    for (int i = 0; i < ROTA_INTERVAL_FAILURES; i++) {
        assert_true(rota_interval_map_host(world.map, 0)->is_live);
        for (int j = 0; j < ROTA_INTERVAL_FAILURES; j++) /* so that it is not asked first */
            rota_interval_map_failed(world.map, id_at(2));
        world.n_sent = 0;
        START(ROTA_GET_MODE_HEDGE, ROTA_TIME_NEVER, 0);
        assert_int_equal(world.sent[0].index, 0);
        tick_at(rota_get_fsm_deadline(&world.fsm));
        assert_int_equal(world.n_sent, 2);
        answer(&world.sent[1]);
        assert_true(world.sent[0].is_cancelled);
    }
    assert_false(rota_interval_map_host(world.map, 0)->is_live);
    for (int i = 0; i < 20; i++) {
        world.n_sent = 0;
        START(ROTA_GET_MODE_HEDGE, ROTA_TIME_NEVER, 0);
        assert_int_equal(world.sent[0].index, 2);
        answer(&world.sent[0]);
    }
    teach(0, rota_interval_of(0, N_SHARDS), 20); /* a ping was answered */
    assert_true(rota_interval_map_host(world.map, 0)->is_live);
}

/* Slower than another at one moment is not frozen. */
static void a_host_that_answers_between_its_losses_stays_live(void **state)
{
    (void)state;
    for (int i = 0; i < 3 * ROTA_INTERVAL_FAILURES; i++) {
        know_what_is_usual();
        for (int j = 0; j < ROTA_INTERVAL_FAILURES; j++)
            rota_interval_map_failed(world.map, id_at(2));
        world.n_sent = 0;
        START(ROTA_GET_MODE_HEDGE, ROTA_TIME_NEVER, 0);
        assert_int_equal(world.sent[0].index, 0);
        tick_at(rota_get_fsm_deadline(&world.fsm));
        answer(&world.sent[i % 2]);
        assert_well();
    }
    assert_true(rota_interval_map_host(world.map, 0)->is_live);
}

static void a_hedge_needs_a_token(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        rota_hedge_record(&world.hedge, 0, 5 * ROTA_MSEC);
    START(ROTA_GET_MODE_HEDGE, ROTA_SEC, 0);
    tick_at(rota_get_fsm_deadline(&world.fsm));
    assert_int_equal(world.n_sent, 1);
    assert_int_equal(world.stats.n_unbudgeted, 1);
    answer(&world.sent[0]);
    assert_well();
}

static void adaptive_does_what_the_load_allows(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_ADAPTIVE, ROTA_SEC, 0);
    assert_int_equal(world.n_sent, 2);
    answer(&world.sent[0]);
    world.load.step = 0;
    START(ROTA_GET_MODE_ADAPTIVE, 2 * ROTA_SEC, 0);
    assert_int_equal(world.n_sent, 3);
    answer(&world.sent[2]);
    assert_well();
}

/* Each Get has its own rounds. */
static void get_without_a_deadline_waits_so_often(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        uint64_t before = world.stats.n_waits;
        rota_budget_init(&world.budget, world.now, &(struct rota_budget_options){0});
        START(ROTA_GET_MODE_BROADCAST, 0, 0);
        fail_try(sent_to(0), ROTA_FAILURE_BROKEN);
        fail_try(sent_to(2), ROTA_FAILURE_BROKEN);
        int n_rounds = 0;
        for (; world.n_finished == 0; n_rounds++)
            tick_at(rota_get_fsm_deadline(&world.fsm));
        assert_int_equal(n_rounds, ROTA_GET_ROUNDS_MAX + 1);
        assert_missing(1, ROTA_FAILURE_DEADLINE);
        assert_int_equal(rota_get_fsm_result(&world.fsm, 0).failure, ROTA_FAILURE_BROKEN);
        assert_int_equal(world.stats.n_waits - before, 1);
    }
}

static void hedge_of_one_copy_comes_three_times_later(void **state)
{
    (void)state;
    know_what_is_usual();
    rota_time delay = world.hedge.delay;
    START(ROTA_GET_MODE_HEDGE, ROTA_SEC, 0);
    assert_int_equal(rota_get_fsm_deadline(&world.fsm), delay);
    answer(&world.sent[0]);
    world.load.is_top = true;
    START(ROTA_GET_MODE_ADAPTIVE, ROTA_SEC, 0);
    assert_int_equal(rota_get_fsm_deadline(&world.fsm), 3 * delay);
    while (rota_hedge_spend(&world.hedge, 0))
        ;
    tick_at(3 * delay);
    assert_int_equal(rota_get_fsm_deadline(&world.fsm), 6 * delay);
    answer(&world.sent[1]);
    assert_well();
}

static void keys_that_move_leave_those_of_other_tries_alone(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_HEDGE, 10 * ROTA_SEC, 0, 1, 3, 5, 7);
    size_t moved = world.sent[0].n_keys == 4 ? 0 : 1;
    fail_try(&world.sent[moved], ROTA_FAILURE_BROKEN);
    assert_int_equal(world.n_sent, 3);
    assert_int_equal(world.sent[2].n_keys, 4);
    answer(&world.sent[1 - moved]);
    assert_int_equal(state_of(0), ROTA_GET_FOUND);
    assert_int_equal(state_of(1), ROTA_GET_PENDING);
    answer(&world.sent[2]);
    assert_well();
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(state_of(i), ROTA_GET_FOUND);
}

static void long_get_does_not_leak(void **state)
{
    (void)state;
    rota_budget_init(&world.budget, 0, &(struct rota_budget_options){0, 1000000, 1000000});
    START(ROTA_GET_MODE_HEDGE, ROTA_HOUR, 0, 2, 4, 6);
    for (size_t i = 0; i < 60; i++) {
        fail_try(&world.sent[world.n_sent - 1], ROTA_FAILURE_BROKEN);
        for (size_t n = world.n_sent; world.n_sent == n;)
            tick_at(rota_get_fsm_deadline(&world.fsm));
    }
    assert_true(world.fsm.lists.size <= 8);
    answer(&world.sent[world.n_sent - 1]);
    assert_well();
}

/* With more hosts than the table of visits begins with. */
static void key_with_many_replicas_is_asked_of_each_once(void **state)
{
    (void)state;
    list_hosts(HOSTS_MAX);
    for (size_t i = 0; i < HOSTS_MAX; i++)
        teach(i, rota_interval_of(0, 1), 50);
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1);
    assert_int_equal(world.n_sent, HOSTS_MAX);
    for (size_t i = 0; i < HOSTS_MAX; i++)
        assert_int_equal(sent_to(i)->n_keys, 2);
    for (size_t i = 1; i < HOSTS_MAX; i++)
        fail_try(sent_to(i), ROTA_FAILURE_INTERNAL);
    answer(sent_to(0));
    assert_well();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_host_that_fails_is_tried_once_more_apart_from_the_others),
        TEST(a_host_is_tried_once_more_for_what_is_missing),
        TEST(a_host_that_does_not_answer_in_time_is_cancelled_and_tried_again),
        TEST(a_key_is_not_forgotten_when_its_host_dies),
        TEST(when_all_have_failed_they_are_asked_again_after_a_while),
        TEST(without_tokens_a_get_asks_no_host_again_until_its_deadline),
        TEST(a_get_continues_when_there_is_a_token),
        TEST(a_host_that_answers_again_ends_the_pause),
        TEST(a_wrong_request_is_not_sent_elsewhere),
        TEST(no_try_begins_at_the_deadline_and_none_outlives_it),
        TEST(a_get_that_begins_too_late_sends_nothing),
        TEST(a_get_that_is_cancelled_says_so),
        TEST(a_host_that_is_not_live_is_asked_only_when_no_other_is_left),
        TEST(hedge_sends_one_copy_and_another_when_it_is_slow),
        TEST(a_slow_try_without_a_token_asks_for_one_again),
        TEST(a_host_that_loses_to_hedges_three_times_in_a_row_is_not_live),
        TEST(a_host_that_answers_between_its_losses_stays_live),
        TEST(a_hedge_needs_a_token),
        TEST(adaptive_does_what_the_load_allows),
        TEST(get_without_a_deadline_waits_so_often),
        TEST(hedge_of_one_copy_comes_three_times_later),
        TEST(keys_that_move_leave_those_of_other_tries_alone),
        TEST(long_get_does_not_leak),
        TEST(key_with_many_replicas_is_asked_of_each_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
