/* A Get: what it asks of whom, and what an answer is. */
#include "get_world.h"

#include <string.h>

static void a_get_of_nothing_succeeds_at_once(void **state)
{
    (void)state;
    start(ROTA_GET_MODE_ADAPTIVE, 0, 0, NULL);
    assert_well();
    assert_int_equal(world.n_sent, 0);
}

static void each_key_goes_to_every_replica_of_its_shard_and_to_no_other(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1, 2, 3, 5);
    assert_int_equal(world.n_sent, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct sent *sent = sent_to(i);
        assert_int_equal(sent->n_keys, i % 2 ? 3 : 2);
        assert_int_equal(sent->epoch, 10 + i);
        for (size_t k = 0; k < sent->n_keys; k++)
            assert_int_equal(world.keys[sent->keys[k]] % 2, i % 2);
    }
}

static void the_first_answer_wins_and_the_loser_is_cancelled_at_once(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1);
    uint64_t winner = sent_to(2)->number;
    answer(sent_to(2));
    assert_true(sent_to(0)->is_cancelled);
    assert_true(sent_to(2)->is_kept);
    assert_false(sent_to(1)->is_cancelled);
    assert_int_equal(world.n_finished, 0);
    answer(sent_to(1));
    assert_well();
    assert_true(sent_to(3)->is_cancelled);
    struct rota_get_fsm_result result = rota_get_fsm_result(&world.fsm, 0);
    assert_int_equal(result.number, winner);
    assert_int_equal(rota_get_fsm_try(&world.fsm, result.try)->number, winner);
    assert_int_equal(state_of(0), ROTA_GET_FOUND);
}

static void the_caller_is_called_as_soon_as_all_keys_are_there(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 2);
    answer(sent_to(0));
    assert_well();
}

static void a_late_answer_only_teaches_the_map(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0);
    struct sent late = *sent_to(2);
    answer(sent_to(0));
    assert_well();
    mismatch(&late, rota_interval_of(1, 2), 50);
    assert_int_equal(world.n_finished, 1);
    assert_int_equal(rota_interval_map_host(world.map, 2)->claims[0].interval.from, 1);
    assert_int_equal(rota_interval_map_host(world.map, 2)->epoch, 50);
}

static void an_answer_that_comes_twice_is_taken_once(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1);
    answer(sent_to(0));
    answer(sent_to(0));
    assert_int_equal(world.n_finished, 0);
    answer(sent_to(1));
    answer(sent_to(1));
    fail_try(sent_to(3), ROTA_FAILURE_BROKEN);
    tick_at(ROTA_SEC);
    assert_well();
}

static void a_key_asked_for_twice_is_sent_once_and_answered_twice(void **state)
{
    (void)state;
    world.ids[0] = world.ids[1] = world.ids[3] = 7;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 4, 4, 6, 4);
    assert_int_equal(sent_to(0)->n_keys, 2);
    answer(sent_to(0));
    assert_well();
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(state_of(i), ROTA_GET_FOUND);
    assert_int_equal(rota_get_fsm_result(&world.fsm, 3).entry,
                     rota_get_fsm_result(&world.fsm, 0).entry);
}

static void a_duplicate_that_is_missing_is_named_twice(void **state)
{
    (void)state;
    world.ids[0] = world.ids[1] = 7;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 4, 4);
    tick_at(ROTA_SEC);
    assert_missing(2, ROTA_FAILURE_DEADLINE);
}

static void the_same_id_in_two_shards_is_two_keys(void **state)
{
    (void)state;
    world.ids[0] = world.ids[1] = 7;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 4, 5);
    answer(sent_to(0));
    assert_int_equal(state_of(0), ROTA_GET_FOUND);
    assert_int_equal(state_of(1), ROTA_GET_PENDING);
    answer(sent_to(1));
    assert_well();
}

static void an_entry_that_was_not_asked_for_is_ignored(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1, 2);
    struct rota_get_fsm_event event = answer_of(sent_to(0));
    uint64_t ids[] = {999, 101, 102, 100}; /* unknown, the other shard's, and in disorder */
    event.ids = ids;
    event.n_ids = 4;
    step(event);
    assert_int_equal(state_of(0), ROTA_GET_FOUND);
    assert_int_equal(rota_get_fsm_result(&world.fsm, 0).entry, 3);
    assert_int_equal(rota_get_fsm_result(&world.fsm, 2).entry, 2);
    assert_int_equal(state_of(1), ROTA_GET_PENDING);
}

static void an_entry_that_is_missing_is_an_absent_value(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 2);
    struct rota_get_fsm_event event = answer_of(sent_to(0));
    event.n_ids = 1;
    step(event);
    assert_well();
    assert_int_equal(state_of(0), ROTA_GET_FOUND);
    assert_int_equal(state_of(1), ROTA_GET_ABSENT);
}

/* Also when another host is asked for it, which may be frozen. */
static void a_key_that_an_answer_leaves_out_is_asked_for_again_there(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 2, 4, 6);
    struct rota_get_fsm_event event = answer_of(sent_to(0));
    struct rota_get_fsm_problem left[] = {{102, true}, {103, true}};
    event.n_ids = 1;
    event.problems = left;
    event.n_problems = 2;
    step(event);
    assert_int_equal(state_of(0), ROTA_GET_FOUND);
    assert_int_equal(state_of(1), ROTA_GET_ABSENT);
    assert_int_equal(world.n_finished, 0);
    assert_int_equal(world.n_sent, 3);
    assert_int_equal(world.sent[2].index, 0);
    assert_int_equal(world.sent[2].n_keys, 2);
    assert_int_equal(world.budget.n_spent, 0); /* it is no retry */
    answer(&world.sent[2]);
    assert_well();
    assert_int_equal(state_of(3), ROTA_GET_FOUND);
    assert_true(sent_to(2)->is_cancelled);
}

static void a_host_that_leaves_out_all_has_failed(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_HEDGE, ROTA_SEC, 0, 2);
    struct rota_get_fsm_event event = answer_of(&world.sent[0]);
    struct rota_get_fsm_problem left[] = {{100, true}, {101, true}};
    event.n_ids = 0;
    event.problems = left;
    event.n_problems = 2;
    step(event);
    assert_int_equal(world.n_sent, 2);
    assert_int_not_equal(world.sent[1].index, world.sent[0].index);
    assert_int_equal(rota_get_fsm_try(&world.fsm, 0)->failure, ROTA_FAILURE_INTERNAL);
    answer(&world.sent[1]);
    assert_well();
}

/* Keys 0 and 2 of three have a value there, and key 1 has one that can't be given. */
static void refuse_key_1(const struct sent *sent)
{
    struct rota_get_fsm_event event = answer_of(sent);
    struct rota_get_fsm_problem problems[] = {{999, false}, {101, false}};
    uint64_t ids[] = {100, 102};
    event.ids = ids;
    event.n_ids = 2;
    event.problems = problems;
    event.n_problems = 2;
    step(event);
    assert_true(sent->is_kept);
}

static void an_unreturnable_value_is_missing_at_once_and_harms_no_other(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_HEDGE, ROTA_SEC, 0, 2, 4);
    refuse_key_1(&world.sent[0]);
    assert_missing(1, ROTA_FAILURE_INPUT);
    assert_int_equal(state_of(0), ROTA_GET_FOUND);
    assert_int_equal(state_of(1), ROTA_GET_REFUSED);
    assert_int_equal(rota_get_fsm_result(&world.fsm, 1).entry, 1);
    assert_int_equal(rota_get_fsm_result(&world.fsm, 2).entry, 1);
}

static void a_refused_key_may_still_be_answered_by_another_host(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 2, 4);
    refuse_key_1(sent_to(0));
    assert_int_equal(state_of(1), ROTA_GET_PENDING);
    assert_int_equal(world.n_sent, 2);
    answer(sent_to(2));
    assert_well();
    world.n_sent = 0;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 2, 4);
    refuse_key_1(sent_to(0));
    refuse_key_1(sent_to(2));
    assert_missing(1, ROTA_FAILURE_INPUT);
    assert_int_equal(state_of(1), ROTA_GET_REFUSED);
}

/* --- many keys --- */

static void a_dc_that_is_re_sharded_is_asked_by_its_new_shards(void **state)
{
    (void)state;
    list_hosts(6);
    teach(0, rota_interval_of(0, 4), 50);
    teach(1, rota_interval_of(1, 4), 51);
    teach(4, rota_interval_of(2, 4), 52); /* and nobody has 3 of 4 */
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1, 2, 3);
    assert_int_equal(sent_to(2)->n_keys, 2);
    assert_int_equal(sent_to(3)->n_keys, 2);
    assert_int_equal(sent_to(0)->n_keys, 1);
    assert_int_equal(sent_to(1)->n_keys, 1);
    assert_int_equal(sent_to(4)->n_keys, 1);
    assert_null(sent_to(5));
    answer(sent_to(2));
    assert_true(sent_to(0)->is_cancelled && sent_to(4)->is_cancelled);
    answer(sent_to(1));
    assert_int_equal(world.n_finished, 0);
    answer(sent_to(3));
    assert_well();
}

static void keys_of_one_host_travel_together(void **state)
{
    (void)state;
    teach(0, rota_interval_of(0, 4), 50);
    teach(1, rota_interval_of(2, 4), 51);
    for (int i = 0; i < 20; i++) {
        world.n_sent = 0;
        START(ROTA_GET_MODE_HEDGE, ROTA_SEC, 0, 2, 4, 6);
        assert_true(world.n_sent <= 2);
        for (size_t s = 0; s < world.n_sent; s++)
            if (world.n_finished == 0)
                answer(&world.sent[s]);
        assert_well();
    }
}

static void at_rest_nothing_is_allocated(void **state)
{
    const void *before[4] = {NULL}, *after[4];
    (void)state;
    for (int i = 0; i < 3; i++) {
        world.n_sent = 0;
        START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1, 2, 3, 4, 5, 6, 7);
        answer(&world.sent[0]);
        answer(&world.sent[1]);
        if (world.n_finished == 0)
            answer(&world.sent[2]);
        assert_well();
        const void *now[4] = {world.fsm.keys.items.items, world.fsm.lists.items,
                              world.fsm.tries.items, world.fsm.actions.items};
        memcpy(i == 0 ? before : after, now, sizeof now);
    }
    assert_memory_equal(before, after, sizeof before);
}

static void too_many_keys_are_refused(void **state)
{
    struct rota_error error;
    struct rota_get_fsm_options options = {.n_keys = ROTA_GET_KEYS_MAX + 1};
    (void)state;
    assert_int_equal(rota_get_fsm_start(&world.fsm, 0, &options, &error), ROTA_ERR_LIMIT);
    assert_true(rota_get_fsm_is_done(&world.fsm));
    START(ROTA_GET_MODE_HEDGE, ROTA_SEC, 0);
    answer(&world.sent[0]);
    assert_well();

    static uint64_t many[ROTA_GET_KEYS_MAX];
    options = (struct rota_get_fsm_options){.ids = many, .keys = many, .n_keys = ROTA_GET_KEYS_MAX};
    world.counted.n_gets++;
    world.counted.n_keys += ROTA_GET_KEYS_MAX;
    assert_int_equal(rota_get_fsm_start(&world.fsm, 0, &options, &error), ROTA_OK);
}

/* --- options and counts --- */

static const struct rota_get_fsm_options *options_after(struct rota_get_fsm_options options)
{
    options.ids = world.ids;
    options.keys = world.keys;
    options.n_keys = 1;
    options.mode = ROTA_GET_MODE_BROADCAST;
    rota_get_fsm_deinit(&world.fsm, world.now);
    assert_int_equal(rota_get_fsm_start(&world.fsm, world.now, &options, NULL), ROTA_OK);
    return &world.fsm.options;
}

static void options_have_defaults_and_bounds(void **state)
{
    static const struct {
        int32_t retries, wanted;
    } retries[] = {{0, ROTA_GET_RETRIES},
                   {-1, 0},
                   {INT32_MIN, 0},
                   {1, 1},
                   {5, 5},
                   {ROTA_GET_RETRIES_MAX, ROTA_GET_RETRIES_MAX},
                   {ROTA_GET_RETRIES_MAX + 1, ROTA_GET_RETRIES_MAX}};
    (void)state;
    world.now = 70 * ROTA_SEC;
    for (size_t i = 0; i < sizeof retries / sizeof *retries; i++)
        assert_int_equal(
            options_after((struct rota_get_fsm_options){.retries = retries[i].retries})->retries,
            retries[i].wanted);
    const struct rota_get_fsm_options *options = options_after((struct rota_get_fsm_options){0});
    assert_int_equal(options->deadline, ROTA_TIME_NEVER);
    assert_int_equal(options->ping_time, ROTA_GET_PING_TIME);
    assert_int_equal(options->host_timeout, ROTA_GET_HOST_TIMEOUT);
    options = options_after((struct rota_get_fsm_options){.ping_time = 1, .host_timeout = 1});
    assert_int_equal(options->ping_time, 1);
    assert_int_equal(options->host_timeout, 1);
    options = options_after((struct rota_get_fsm_options){.ping_time = -1, .host_timeout = -1});
    assert_int_equal(options->ping_time, ROTA_GET_PING_TIME);
    assert_int_equal(options->host_timeout, ROTA_GET_HOST_TIMEOUT);

    /* A host has a third of the time at most. */
    options = options_after((struct rota_get_fsm_options){.deadline = 70 * ROTA_SEC + 300});
    assert_int_equal(options->host_timeout, 100);
    options = options_after((struct rota_get_fsm_options){.deadline = 73 * ROTA_SEC + 3});
    assert_int_equal(options->host_timeout, ROTA_GET_HOST_TIMEOUT);
    options = options_after(
        (struct rota_get_fsm_options){.deadline = 70 * ROTA_SEC + 300, .host_timeout = 200});
    assert_int_equal(options->host_timeout, 200);
}

static void gets_are_counted_by_their_copies(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_HEDGE, 0, 0);
    answer(&world.sent[0]);
    START(ROTA_GET_MODE_BROADCAST, 0, 0);
    answer(sent_to(0));
    START(ROTA_GET_MODE_HEDGE, 0, 0);
    answer(&world.sent[world.n_sent - 1]);
    world.load.is_top = true;
    START(ROTA_GET_MODE_ADAPTIVE, 0, 0);
    answer(&world.sent[world.n_sent - 1]);
    assert_int_equal(world.stats.n_copies[ROTA_GET_ALL], 1);
    assert_int_equal(world.stats.n_copies[ROTA_GET_HEDGE], 2);
    assert_int_equal(world.stats.n_copies[ROTA_GET_ONE], 1);
    assert_int_equal(world.budget.n_calls, 4);
}

static void balancer_learns_of_each_choice_and_every_eighth_broadcast(void **state)
{
    (void)state;
    for (int i = 1; i <= 24; i++) {
        START(ROTA_GET_MODE_BROADCAST, 0, 0, 1);
        assert_int_equal(rota_balancer_n_tries(world.balancer), i % 8 ? 0 : 4);
        answer(sent_to(0));
        answer(sent_to(1));
    }
    START(ROTA_GET_MODE_HEDGE, 0, 0, 1);
    assert_int_equal(rota_balancer_n_tries(world.balancer), 2);
}

static void get_works_without_a_budget_hedges_and_a_load(void **state)
{
    (void)state;
    world.shared.budget = NULL;
    world.shared.hedge = NULL;
    world.shared.load = NULL;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1);
    fail_try(sent_to(0), ROTA_FAILURE_OVERLOAD);
    tick_at(rota_get_fsm_deadline(&world.fsm)); /* it is tried again, as often as one likes */
    assert_int_equal(world.n_sent, 5);
    answer(sent_to(0));
    answer(sent_to(1));
    assert_well();
    assert_int_equal(world.stats.n_retries, 1);
}

static void machine_that_was_given_up_can_begin_again(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1);
    rota_get_fsm_deinit(&world.fsm, world.now);
    assert_true(rota_get_fsm_is_done(&world.fsm));
    assert_int_equal(world.stats.n_running, 0);
    assert_int_equal(rota_get_fsm_n_tries(&world.fsm), 0);
    world.n_sent = 0;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1);
    answer(sent_to(0));
    answer(sent_to(1));
    assert_well();
}

/* --- what others learn from a Get --- */

static void hedges_learn_from_answers_and_from_those_that_lost(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1);
    world.now += 5 * ROTA_MSEC;
    answer(sent_to(0)); /* and 2 has lost */
    assert_int_equal(world.hedge.latest.count, 2);
    answer(sent_to(1)); /* and 3 */
    assert_well();
    assert_int_equal(world.hedge.latest.count, 4);
    assert_in_range(rota_histogram_quantile(&world.hedge.latest, 1), 4900, 5100);
    assert_int_equal(world.stats.n_cancelled, 2);

    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0);
    mismatch(sent_to(0), rota_interval_of(1, 2), 50);
    fail_try(sent_to(2), ROTA_FAILURE_BROKEN);
    step((struct rota_get_fsm_event){.type = ROTA_GET_CANCEL});
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1);
    step((struct rota_get_fsm_event){.type = ROTA_GET_CANCEL});
    assert_int_equal(world.hedge.latest.count, 4); /* from nothing else */
}

static void load_learns_from_answers_and_from_overloaded_servers(void **state)
{
    static const struct {
        enum rota_failure failure;
        bool is_pressed;
    } rows[] = {{ROTA_FAILURE_TIMEOUT, true},
                {ROTA_FAILURE_OVERLOAD, true},
                {ROTA_FAILURE_BROKEN, false},
                {ROTA_FAILURE_UNREACHABLE, false},
                {ROTA_FAILURE_INTERNAL, false}};
    struct rota_cost cost = {3000, 1000, 0};
    (void)state;
    world.now = ROTA_SEC;
    START(ROTA_GET_MODE_HEDGE, 0, 0);
    world.now += 5 * ROTA_MSEC;
    struct rota_get_fsm_event event = answer_of(&world.sent[0]);
    event.cost = &cost;
    step(event);
    assert_int_equal(world.load.n_samples, 1);
    assert_true(world.load.wait_us == 2000 && world.load.busy_us == 3000);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t before = world.load.n_samples;
        START(ROTA_GET_MODE_HEDGE, 0, 0);
        fail_try(&world.sent[world.n_sent - 1], rows[i].failure);
        step((struct rota_get_fsm_event){.type = ROTA_GET_CANCEL});
        assert_int_equal(world.load.n_samples - before, rows[i].is_pressed);
    }
}

static void map_learns_which_hosts_do_not_answer(void **state)
{
    static const struct {
        enum rota_failure failure;
        bool is_silent;
    } rows[] = {{ROTA_FAILURE_TIMEOUT, true},   {ROTA_FAILURE_UNREACHABLE, true},
                {ROTA_FAILURE_BROKEN, true},    {ROTA_FAILURE_OVERLOAD, false},
                {ROTA_FAILURE_INTERNAL, false}, {ROTA_FAILURE_INPUT, false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        teach(1, rota_interval_of(1, N_SHARDS), 20);
        for (int k = 0; k < ROTA_INTERVAL_FAILURES; k++) {
            assert_true(rota_interval_map_host(world.map, 1)->is_live);
            START(ROTA_GET_MODE_BROADCAST, 0, 1);
            fail_try(sent_to(1), rows[i].failure);
            step((struct rota_get_fsm_event){.type = ROTA_GET_CANCEL});
        }
        assert_int_equal(rota_interval_map_host(world.map, 1)->is_live, !rows[i].is_silent);
    }
}

static void trial_learns_from_adaptive_gets_that_have_all(void **state)
{
    (void)state;
    world.load.trial.n_left = 0; /* a trial begins */
    START(ROTA_GET_MODE_ADAPTIVE, 0, 0);
    size_t n = world.n_sent;
    world.now += 3 * ROTA_MSEC;
    answer(&world.sent[0]);
    const struct rota_get_trial *trial = &world.load.trial;
    assert_int_equal(trial->one.n + trial->all.n, 1);
    assert_true(trial->one.sum_us + trial->all.sum_us == 3000);
    assert_int_equal(n == 1 ? trial->one.n : trial->all.n, 1);
    START(ROTA_GET_MODE_HEDGE, 0, 0);
    answer(&world.sent[world.n_sent - 1]);
    START(ROTA_GET_MODE_ADAPTIVE, 0, 0);
    step((struct rota_get_fsm_event){.type = ROTA_GET_CANCEL});
    start(ROTA_GET_MODE_ADAPTIVE, 0, 0, NULL);
    assert_int_equal(trial->one.n + trial->all.n, 1);
}

static void useless_answers_are_counted_and_marked(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1);
    mismatch(sent_to(0), rota_interval_of(1, 2), 50);
    assert_int_equal(world.stats.n_mismatched, 1);
    assert_true(rota_get_fsm_try(&world.fsm, 0)->is_mismatch);
    struct rota_get_fsm_event event = answer_of(sent_to(1));
    world.claims[0].epoch = 1;
    step(event);
    assert_int_equal(world.stats.n_stale, 1);
    for (size_t i = 0; i < rota_get_fsm_n_tries(&world.fsm); i++) {
        const struct rota_get_fsm_try *try = rota_get_fsm_try(&world.fsm, i);
        assert_int_equal(try->is_mismatch, try->host == id_at(0));
        assert_int_equal(try->is_stale, try->host == id_at(1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_get_of_nothing_succeeds_at_once),
        TEST(each_key_goes_to_every_replica_of_its_shard_and_to_no_other),
        TEST(the_first_answer_wins_and_the_loser_is_cancelled_at_once),
        TEST(the_caller_is_called_as_soon_as_all_keys_are_there),
        TEST(a_late_answer_only_teaches_the_map),
        TEST(an_answer_that_comes_twice_is_taken_once),
        TEST(a_key_asked_for_twice_is_sent_once_and_answered_twice),
        TEST(a_duplicate_that_is_missing_is_named_twice),
        TEST(the_same_id_in_two_shards_is_two_keys),
        TEST(an_entry_that_was_not_asked_for_is_ignored),
        TEST(an_entry_that_is_missing_is_an_absent_value),
        TEST(a_key_that_an_answer_leaves_out_is_asked_for_again_there),
        TEST(a_host_that_leaves_out_all_has_failed),
        TEST(an_unreturnable_value_is_missing_at_once_and_harms_no_other),
        TEST(a_refused_key_may_still_be_answered_by_another_host),
        TEST(a_dc_that_is_re_sharded_is_asked_by_its_new_shards),
        TEST(keys_of_one_host_travel_together),
        TEST(at_rest_nothing_is_allocated),
        TEST(too_many_keys_are_refused),
        TEST(options_have_defaults_and_bounds),
        TEST(gets_are_counted_by_their_copies),
        TEST(balancer_learns_of_each_choice_and_every_eighth_broadcast),
        TEST(get_works_without_a_budget_hedges_and_a_load),
        TEST(machine_that_was_given_up_can_begin_again),
        TEST(hedges_learn_from_answers_and_from_those_that_lost),
        TEST(load_learns_from_answers_and_from_overloaded_servers),
        TEST(map_learns_which_hosts_do_not_answer),
        TEST(trial_learns_from_adaptive_gets_that_have_all),
        TEST(useless_answers_are_counted_and_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
