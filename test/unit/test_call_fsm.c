#include "call_world.h"

/* The rows E1 to E30 are the behaviours of the system that Rota is compatible
 * with; those about execution on several shards are in test_execute_fsm.c, and what
 * goes beyond them in test_call_retries.c and test_call_hedges.c. */

/* --- whom to choose --- */

static void e1_e11_choice_and_run_succeed(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2, 3));
    SCRIPT(&world, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.n_tried, 1);
    assert_int_equal(world.result_node, world.tried[0]);
    assert_int_equal(world.n_fresh, 0);
    teardown(&world);
}

static void e2_cached_leaders_fail_and_fresh_ones_serve(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1));
    set_map(&world.cached, NULL);
    world.cached_failure = ROTA_FAILURE_UNREACHABLE;
    SCRIPT(&world, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.n_cached, 1);
    assert_int_equal(world.n_fresh, 1);
    teardown(&world);
}

static void e3_e12_lookup_that_always_fails_ends_in_its_error(void **state)
{
    struct world world;
    (void)state;
    setup(&world, NULL);
    world.cached_failure = world.fresh_failure = ROTA_FAILURE_UNREACHABLE;
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_UNREACHABLE);
    assert_int_equal(world.n_fresh, ROTA_CALL_LOOKUPS_MAX);
    assert_int_equal(world.n_tried, 0);
    teardown(&world);
}

static void e4_e8_all_excluded_are_tried_again_after_a_refresh(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1));
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.n_tried, 2);
    assert_int_equal(world.n_fresh, 1); /* between the two */
    teardown(&world);
}

static void e5_e6_not_loaded_is_asked_about_once_each(void **state)
{
    struct world world;
    (void)state;
    setup(&world, NULL);
    world.cached_failure = world.fresh_failure = ROTA_FAILURE_NOT_LOADED;
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NOT_LOADED);
    assert_int_equal(world.n_cached, 1);
    assert_int_equal(world.n_fresh, 1);
    teardown(&world);
}

static void e7_no_leaders_after_a_refresh_is_an_error_and_clears_nothing(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1));
    set_map(&world.fresh, map_of(0, NULL, 0));
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_RETRIABLE); /* what the try met */
    assert_int_equal(world.n_tried, 1);
    assert_int_equal(world.fsm.n_excluded, 1);
    teardown(&world);

    setup(&world, map_of(0, NULL, 0));
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NO_REPLICA);
    teardown(&world);
}

static void e9_e10_serviceable_ones_are_preferred_and_others_stay_excluded(void **state)
{
    struct world world;
    (void)state;
    setup(&world, map_of(3, (int64_t[]){1, 2, 3}, 0x1)); /* 1 is not serviceable */
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.tried[2], 1); /* only when there is nobody else */
    assert_int_not_equal(world.tried[0], world.tried[1]);
    assert_int_equal(world.n_fresh, 0);
    assert_int_equal(world.fsm.n_excluded, 2);
    teardown(&world);
}

/* --- retries --- */

static void e13_client_errors_until_no_tries_are_left(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2, 3));
    world.is_unsent = true;
    SCRIPT(&world, ROTA_FAILURE_UNREACHABLE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_UNREACHABLE);
    assert_int_equal(world.n_tried, 3 + ROTA_CALL_RETRIES);
    teardown(&world);
}

static void e14_e15_one_error_then_another_replica_serves(void **state)
{
    static const enum rota_failure failures[] = {ROTA_FAILURE_UNREACHABLE, ROTA_FAILURE_BROKEN,
                                                 ROTA_FAILURE_RETRIABLE,   ROTA_FAILURE_INTERNAL,
                                                 ROTA_FAILURE_OVERLOAD,    ROTA_FAILURE_STALE,
                                                 ROTA_FAILURE_NOT_LOADED,  ROTA_FAILURE_TIMEOUT};
    (void)state;
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        struct world world;
        setup(&world, MAP(1, 2));
        SCRIPT(&world, failures[i], ROTA_FAILURE_NONE);
        assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
        assert_int_equal(world.n_tried, 2);
        assert_int_not_equal(world.tried[0], world.tried[1]);
        assert_int_equal(world.tried_at[1], 0); /* at once */
        teardown(&world);
    }
}

static void e16_cancel_and_deadline_are_distinguished(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1));
    start(&world, (struct rota_call_fsm_options){.deadline = ROTA_SEC});
    drive(&world, (struct rota_call_fsm_event){.type = ROTA_CALL_CANCEL});
    assert_int_equal(world.result, ROTA_FAILURE_CANCELLED);
    assert_int_equal(world.n_cancelled, 1);
    end_try(&world, 0, ROTA_FAILURE_NONE); /* too late */
    drive(&world, (struct rota_call_fsm_event){.type = ROTA_CALL_CANCEL});
    assert_int_equal(world.n_finished, 1);
    teardown(&world);

    setup(&world, MAP(1));
    assert_int_equal(run(&world, (struct rota_call_fsm_options){.deadline = ROTA_SEC}),
                     ROTA_FAILURE_DEADLINE);
    assert_int_equal(world.now, ROTA_SEC);
    assert_int_equal(world.n_cancelled, 1);
    teardown(&world);
}

static void e20_policy_name_chooses_the_balancer(void **state)
{
    enum rota_balancer_policy policy;
    (void)state;
    assert_int_equal(rota_balancer_policy_parse(rota_str("look_aside"), &policy, NULL), ROTA_OK);
    assert_int_equal(policy, ROTA_BALANCER_LOOK_ASIDE);
    /* The original takes look_aside for an unknown name; a typing mistake is
     * better told than guessed. */
    assert_int_equal(rota_balancer_policy_parse(rota_str("lookaside"), &policy, NULL),
                     ROTA_ERR_INVALID);
}

static void e21_reports_reach_the_balancer(void **state)
{
    struct world world;
    struct rota_balancer_view view;
    struct rota_cost cost = {5000, 1000, 3};
    (void)state;
    setup(&world, MAP(1));
    start(&world, IDEMPOTENT);
    world.now = ROTA_MSEC;
    drive(&world, (struct rota_call_fsm_event){
                      .type = ROTA_CALL_TRY_ENDED, .number = world.numbers[0], .cost = &cost});
    assert_true(rota_balancer_look(world.balancer, world.now, 1, &view));
    assert_int_equal(view.outcomes[ROTA_OUTCOME_OK], 1);
    assert_int_equal(view.reported_at, ROTA_MSEC);
    teardown(&world);
}

static struct rota_call_fsm_options preferring(int64_t node)
{
    return (struct rota_call_fsm_options){
        .repeat = ROTA_REPEAT_ANY, .has_preferred = true, .preferred = node};
}

static void e22_e25_preferred_replica_bypasses_the_balancer(void **state)
{
    struct world world;
    struct rota_balancer_view view;
    (void)state;
    for (int64_t node = 1; node <= 3; node++) {
        setup(&world, MAP(1, 2, 3));
        SCRIPT(&world, ROTA_FAILURE_NONE);
        run(&world, preferring(node));
        assert_int_equal(world.tried[0], node);
        assert_false(rota_balancer_look(world.balancer, 0, (uint64_t)node, &view));
        assert_int_equal(world.stats.n_preferred_hit, 1);
        teardown(&world);
    }
    setup(&world, MAP(1, 2));
    SCRIPT(&world, ROTA_FAILURE_NONE);
    run(&world, preferring(9));
    assert_int_equal(world.stats.n_preferred_miss, 1);
    teardown(&world);
}

static void e23_e25_preferred_replica_that_is_not_serviceable_is_skipped(void **state)
{
    struct world world;
    (void)state;
    setup(&world, map_of(2, (int64_t[]){1, 2}, 0x1));
    SCRIPT(&world, ROTA_FAILURE_NONE);
    run(&world, preferring(1));
    assert_int_equal(world.tried[0], 2);
    assert_int_equal(world.stats.n_preferred_unavailable, 1);
    teardown(&world);
}

static void e24_preferred_replica_that_fails_is_left_for_another(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, preferring(1)), ROTA_FAILURE_NONE);
    assert_int_equal(world.tried[0], 1);
    assert_int_equal(world.tried[1], 2);
    teardown(&world);
}

static void pinned_call_has_one_try_that_the_balancer_learns_from(void **state)
{
    struct world world;
    struct rota_balancer_view view;
    (void)state;
    setup(&world, map_of(2, (int64_t[]){1, 2}, 0x2));
    SCRIPT(&world, ROTA_FAILURE_UNREACHABLE, ROTA_FAILURE_NONE);
    world.is_unsent = true;
    struct rota_call_fsm_options options = preferring(2); /* although it is not serviceable */
    options.is_pinned = true;
    assert_int_equal(run(&world, options), ROTA_FAILURE_UNREACHABLE);
    assert_int_equal(world.n_tried, 1);
    assert_int_equal(world.tried[0], 2);
    assert_true(rota_balancer_look(world.balancer, 0, 2, &view));
    assert_int_equal(view.outcomes[ROTA_OUTCOME_UNAVAILABLE], 1);
    assert_false(rota_balancer_look(world.balancer, 0, 1, &view));
    teardown(&world);

    setup(&world, MAP(1)); /* alone it is not tried again either; and 2 is nobody */
    SCRIPT(&world, ROTA_FAILURE_UNREACHABLE, ROTA_FAILURE_NONE);
    options.preferred = 1;
    assert_int_equal(run(&world, options), ROTA_FAILURE_UNREACHABLE);
    teardown(&world);
    setup(&world, MAP(1));
    options.preferred = 2;
    assert_int_equal(run(&world, options), ROTA_FAILURE_NO_REPLICA);
    teardown(&world);
}

static void e26_retriable_errors_blacklist_no_replica(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.n_tried, 3);
    assert_int_equal(rota_blacklist_n_shards(&world.blacklist), 0);
    teardown(&world);
}

static void e27_another_sweep_is_allowed_when_all_have_failed(void **state)
{
    struct world world;
    struct rota_call_fsm_options options = {.repeat = ROTA_REPEAT_ANY, .retries = 2};
    (void)state;
    setup(&world, MAP(1, 2));
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE);
    assert_int_equal(run(&world, options), ROTA_FAILURE_RETRIABLE);
    assert_int_equal(world.n_tried, 4);
    assert_int_equal(world.tried[0] + world.tried[1], 3);
    assert_int_equal(world.tried[2] + world.tried[3], 3);
    teardown(&world);
}

static void e28_stale_cache_is_refreshed_and_the_new_replica_found(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1));
    set_map(&world.fresh, MAP(2));
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.result_node, 2);
    teardown(&world);
}

static void e29_broken_replica_is_blacklisted_for_other_calls(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    SCRIPT(&world, ROTA_FAILURE_INTERNAL, ROTA_FAILURE_NONE);
    run(&world, IDEMPOTENT);
    int64_t broken = world.tried[0];
    assert_true(rota_blacklist_has(&world.blacklist, 0, 1, CHANNEL, broken));
    for (int i = 0; i < 10; i++) {
        rota_call_fsm_deinit(&world.fsm, world.now);
        world.n_tried = world.n_finished = 0;
        SCRIPT(&world, ROTA_FAILURE_NONE);
        run(&world, IDEMPOTENT);
        assert_int_not_equal(world.tried[0], broken);
    }
    teardown(&world);
}

static void e30_input_error_is_one_run_and_no_replica_is_blamed(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    SCRIPT(&world, ROTA_FAILURE_INPUT);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_INPUT);
    assert_int_equal(world.n_tried, 1);
    assert_int_equal(rota_blacklist_n_shards(&world.blacklist), 0);
    assert_int_equal(world.n_reports, 0);
    teardown(&world);
}

/* --- what went wrong elsewhere --- */

static void calls_go_to_all_replicas_by_every_policy(void **state)
{
    enum { N_CALLS = 300 };
    (void)state;
    for (int policy = ROTA_BALANCER_ROTA; policy <= ROTA_BALANCER_RANDOM; policy++) {
        struct world world;
        int n_calls[4] = {0};
        setup_with(&world, MAP(1, 2, 3), (enum rota_balancer_policy)policy);
        SCRIPT(&world, ROTA_FAILURE_NONE);
        for (int call = 0; call < N_CALLS; call++) {
            world.n_tried = world.n_finished = 0;
            run(&world, IDEMPOTENT);
            n_calls[world.tried[0]]++;
            rota_call_fsm_deinit(&world.fsm, world.now);
        }
        for (int node = 1; node <= 3; node++) /* a third each, more or less */
            assert_in_range(n_calls[node], N_CALLS / 4, N_CALLS / 2);
        teardown(&world);
    }
}

static void shard_without_serviceable_replicas_is_served(void **state)
{
    struct world world;
    (void)state;
    setup(&world, map_of(2, (int64_t[]){1, 2}, 0x3)); /* all are on the move */
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.n_tried, 2);
    assert_int_equal(world.n_fresh, 0);
    teardown(&world);
}

static void shard_all_of_whose_replicas_are_blacklisted_is_served(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    rota_blacklist_add(&world.blacklist, 0, 1, CHANNEL, 1);
    rota_blacklist_add(&world.blacklist, 0, 1, CHANNEL, 2);
    SCRIPT(&world, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.n_fresh, 0); /* and the directory is not bothered */
    teardown(&world);
}

static void saturated_replicas_are_not_swept_again(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2, 3));
    SCRIPT(&world, ROTA_FAILURE_OVERLOAD);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_OVERLOAD);
    assert_int_equal(world.n_tried, 3);
    assert_int_equal(world.n_fresh, 0);
    assert_int_equal(world.n_reports, 0);
    teardown(&world);
}

/* Whoever else has failed and left meanwhile makes no difference. */
static void saturated_replicas_are_not_swept_again_after_a_refresh(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2, 3));
    set_map(&world.fresh, MAP(2, 3));
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_OVERLOAD);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_OVERLOAD);
    assert_int_equal(world.tried[0], 1);
    assert_int_equal(world.n_tried, 3);
    teardown(&world);
}

static void replica_that_answers_not_loaded_fast_is_not_liked_for_it(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    SCRIPT(&world, ROTA_FAILURE_NOT_LOADED, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.n_reports, 1); /* the map is dropped */
    struct rota_balancer_view view;
    assert_true(rota_balancer_look(world.balancer, 0, (uint64_t)world.tried[0], &view));
    assert_true(rota_outcome_is_failure(ROTA_OUTCOME_UNAVAILABLE));
    assert_int_equal(view.outcomes[ROTA_OUTCOME_UNAVAILABLE], 1);
    teardown(&world);
}

static void stale_replica_with_a_newer_claim_of_its_own_is_tried_again(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1));
    world.claim = (struct rota_replica){1, {"a:1", 3}, 2, true};
    SCRIPT(&world, ROTA_FAILURE_STALE, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.n_fresh, 0); /* the report has put the claim into the cache */
    assert_int_equal(world.n_reports, 1);
    assert_int_equal(world.report.node, 1);
    assert_int_equal(world.report.failure, ROTA_FAILURE_STALE);
    assert_int_equal(world.report.version, world.cached->version);
    assert_ptr_equal(world.report.claim, &world.claim);
    teardown(&world);
}

static void stale_replica_is_excluded_unless_its_own_claim_is_newer(void **state)
{
    const struct {
        int64_t node;
        uint64_t epoch;
        bool is_excluded;
    } rows[] = {{1, 2, false}, {1, 1, true}, {2, 2, true}, {0, 0, true}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct world world;
        setup(&world, MAP(1));
        world.claim = (struct rota_replica){rows[i].node, {"a:1", 3}, rows[i].epoch, true};
        start(&world, IDEMPOTENT);
        end_try(&world, 0, ROTA_FAILURE_STALE);
        assert_int_equal(world.n_fresh, rows[i].is_excluded);
        teardown(&world);
    }
}

static void replica_that_only_the_directory_knows_needs_no_other_sweep(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    set_map(&world.fresh, MAP(1, 3));
    world.shared.budget = &world.budget;
    rota_budget_init(&world.budget, 0, &(struct rota_budget_options){.per_second = 5});
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    assert_int_equal(world.result_node, 3);
    assert_int_equal(world.fsm.n_excluded, 2);
    assert_int_equal(world.budget.n_spent, 0);
    teardown(&world);
}

static void lookups_that_fail_are_counted_in_a_row(void **state)
{
    struct world world;
    (void)state;
    setup(&world, NULL);
    world.cached_failure = world.fresh_failure = ROTA_FAILURE_UNREACHABLE;
    start(&world, IDEMPOTENT);
    while (world.n_fresh < ROTA_CALL_LOOKUPS_MAX - 1)
        tick(&world, rota_call_fsm_deadline(&world.fsm));
    set_map(&world.fresh, MAP(1));
    tick(&world, rota_call_fsm_deadline(&world.fsm));
    assert_int_equal(world.n_tried, 1);
    set_map(&world.fresh, NULL); /* and now it fails as often once more, from a short wait on */
    end_try(&world, 0, ROTA_FAILURE_UNREACHABLE);
    assert_in_range(rota_call_fsm_deadline(&world.fsm) - world.now, ROTA_CALL_BACKOFF / 5 * 4,
                    ROTA_CALL_BACKOFF / 5 * 6);
    world.n_fresh = 1;
    while (!world.n_finished)
        tick(&world, rota_call_fsm_deadline(&world.fsm));
    assert_int_equal(world.n_fresh, ROTA_CALL_LOOKUPS_MAX);
    assert_int_equal(world.result, ROTA_FAILURE_UNREACHABLE);
    assert_int_equal(world.fsm.last, ROTA_FAILURE_UNREACHABLE);
    teardown(&world);
}

static void lookup_that_cannot_succeed_ends_the_call(void **state)
{
    const enum rota_failure failures[] = {ROTA_FAILURE_INPUT, ROTA_FAILURE_LOCAL};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world world;
        setup(&world, NULL);
        world.cached_failure = failures[i];
        assert_int_equal(run(&world, IDEMPOTENT), failures[i]);
        assert_int_equal(world.n_fresh, 0);
        teardown(&world);
    }
}

static void tries_are_one_for_each_leader_and_the_retries(void **state)
{
    struct world world;
    (void)state;
    for (int64_t retries = 1; retries <= 3; retries++) {
        setup(&world, MAP(1, 2));
        SCRIPT(&world, ROTA_FAILURE_RETRIABLE);
        run(&world, (struct rota_call_fsm_options){.repeat = ROTA_REPEAT_ANY, .retries = retries});
        assert_int_equal(world.n_tried, 2 + retries);
        teardown(&world);
    }
    /* A directory that shows fewer leaders later does not reduce the tries. */
    setup(&world, MAP(1, 2, 3));
    set_map(&world.fresh, MAP(1));
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE);
    run(&world, (struct rota_call_fsm_options){.repeat = ROTA_REPEAT_ANY, .retries = 1});
    assert_int_equal(world.n_tried, 4);
    teardown(&world);
}

static void answer_of_a_try_counts_at_the_deadline(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct world world;
        setup(&world, MAP(1));
        start(&world, (struct rota_call_fsm_options){.deadline = ROTA_SEC});
        world.now = ROTA_SEC - (i == 3);
        if (i == 1)
            world.numbers[0] += 7; /* of no try */
        end_try(&world, 0, i == 0 || i == 1 ? ROTA_FAILURE_NONE : ROTA_FAILURE_INPUT);
        assert_int_equal(world.result, i == 0   ? ROTA_FAILURE_NONE
                                       : i == 3 ? ROTA_FAILURE_INPUT
                                                : ROTA_FAILURE_DEADLINE);
        teardown(&world);
    }
}

static void end_that_the_other_side_calls_cancelled_is_a_timeout(void **state)
{
    const enum rota_failure failures[] = {ROTA_FAILURE_CANCELLED, ROTA_FAILURE_DEADLINE};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world world;
        setup(&world, MAP(1, 2));
        SCRIPT(&world, failures[i], ROTA_FAILURE_NONE);
        assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
        assert_int_equal(world.fsm.last, ROTA_FAILURE_TIMEOUT);
        assert_int_equal(world.n_tried, 2);
        teardown(&world);
    }
}

static void call_that_was_ended_from_outside_does_nothing_more(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2));
    start(&world, IDEMPOTENT);
    rota_call_fsm_deinit(&world.fsm, world.now);
    assert_int_equal(rota_call_fsm_deadline(&world.fsm), ROTA_TIME_NEVER);
    end_try(&world, 0, ROTA_FAILURE_NONE);
    tick(&world, ROTA_HOUR);
    assert_int_equal(world.n_finished, 0);
    assert_int_equal(world.n_tried, 1);
    assert_int_equal(world.stats.n_calls, 1);
    teardown(&world);
}

static void preference_is_counted_once_for_each_call(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1, 2, 3));
    SCRIPT(&world, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_RETRIABLE, ROTA_FAILURE_NONE);
    for (int64_t node = 1; node <= 4; node++) {
        world.n_tried = world.n_finished = 0;
        run(&world, preferring(node));
        rota_call_fsm_deinit(&world.fsm, world.now);
    }
    assert_int_equal(world.stats.n_preferred_hit, 3);
    assert_int_equal(world.stats.n_preferred_miss, 1);
    assert_int_equal(world.stats.n_preferred_unavailable, 0);
    assert_int_equal(world.stats.n_calls, 4);
    teardown(&world);
}

/* --- time and disorder --- */

static void call_that_starts_too_late_does_nothing(void **state)
{
    struct world world;
    (void)state;
    setup(&world, MAP(1));
    world.now = 5 * ROTA_SEC;
    start(&world, (struct rota_call_fsm_options){.deadline = ROTA_SEC});
    assert_int_equal(world.result, ROTA_FAILURE_DEADLINE);
    assert_int_equal(world.n_cached, 0);
    teardown(&world);
}

static void answer_to_an_older_question_is_ignored(void **state)
{
    struct world world;
    (void)state;
    setup(&world, NULL); /* the directory stays silent */
    start(&world, IDEMPOTENT);
    struct rota_shard_map *map = MAP(1);
    drive(&world,
          (struct rota_call_fsm_event){.type = ROTA_CALL_LEADERS, .number = 77, .map = map});
    assert_int_equal(world.n_tried, 0);
    drive(&world, (struct rota_call_fsm_event){.type = ROTA_CALL_LEADERS, .number = 1, .map = map});
    drive(&world, (struct rota_call_fsm_event){.type = ROTA_CALL_LEADERS, .number = 1, .map = map});
    drive(&world, (struct rota_call_fsm_event){.type = ROTA_CALL_START});
    assert_int_equal(world.n_tried, 1);
    end_try(&world, 0, ROTA_FAILURE_NONE);
    end_try(&world, 0, ROTA_FAILURE_NONE);
    assert_int_equal(world.n_finished, 1);
    rota_shard_map_drop(map);
    teardown(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e1_e11_choice_and_run_succeed),
        cmocka_unit_test(e2_cached_leaders_fail_and_fresh_ones_serve),
        cmocka_unit_test(e3_e12_lookup_that_always_fails_ends_in_its_error),
        cmocka_unit_test(e4_e8_all_excluded_are_tried_again_after_a_refresh),
        cmocka_unit_test(e5_e6_not_loaded_is_asked_about_once_each),
        cmocka_unit_test(e7_no_leaders_after_a_refresh_is_an_error_and_clears_nothing),
        cmocka_unit_test(e9_e10_serviceable_ones_are_preferred_and_others_stay_excluded),
        cmocka_unit_test(e13_client_errors_until_no_tries_are_left),
        cmocka_unit_test(e14_e15_one_error_then_another_replica_serves),
        cmocka_unit_test(e16_cancel_and_deadline_are_distinguished),
        cmocka_unit_test(e20_policy_name_chooses_the_balancer),
        cmocka_unit_test(e21_reports_reach_the_balancer),
        cmocka_unit_test(e22_e25_preferred_replica_bypasses_the_balancer),
        cmocka_unit_test(e23_e25_preferred_replica_that_is_not_serviceable_is_skipped),
        cmocka_unit_test(e24_preferred_replica_that_fails_is_left_for_another),
        cmocka_unit_test(pinned_call_has_one_try_that_the_balancer_learns_from),
        cmocka_unit_test(e26_retriable_errors_blacklist_no_replica),
        cmocka_unit_test(e27_another_sweep_is_allowed_when_all_have_failed),
        cmocka_unit_test(e28_stale_cache_is_refreshed_and_the_new_replica_found),
        cmocka_unit_test(e29_broken_replica_is_blacklisted_for_other_calls),
        cmocka_unit_test(e30_input_error_is_one_run_and_no_replica_is_blamed),
        cmocka_unit_test(calls_go_to_all_replicas_by_every_policy),
        cmocka_unit_test(shard_without_serviceable_replicas_is_served),
        cmocka_unit_test(shard_all_of_whose_replicas_are_blacklisted_is_served),
        cmocka_unit_test(saturated_replicas_are_not_swept_again),
        cmocka_unit_test(saturated_replicas_are_not_swept_again_after_a_refresh),
        cmocka_unit_test(replica_that_answers_not_loaded_fast_is_not_liked_for_it),
        cmocka_unit_test(stale_replica_with_a_newer_claim_of_its_own_is_tried_again),
        cmocka_unit_test(stale_replica_is_excluded_unless_its_own_claim_is_newer),
        cmocka_unit_test(replica_that_only_the_directory_knows_needs_no_other_sweep),
        cmocka_unit_test(lookups_that_fail_are_counted_in_a_row),
        cmocka_unit_test(lookup_that_cannot_succeed_ends_the_call),
        cmocka_unit_test(tries_are_one_for_each_leader_and_the_retries),
        cmocka_unit_test(answer_of_a_try_counts_at_the_deadline),
        cmocka_unit_test(end_that_the_other_side_calls_cancelled_is_a_timeout),
        cmocka_unit_test(call_that_was_ended_from_outside_does_nothing_more),
        cmocka_unit_test(preference_is_counted_once_for_each_call),
        cmocka_unit_test(call_that_starts_too_late_does_nothing),
        cmocka_unit_test(answer_to_an_older_question_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
