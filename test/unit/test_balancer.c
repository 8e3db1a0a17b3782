#include "balancing.h"

static enum rota_code select_with(struct bench *bench, struct rota_choice choice,
                                  struct rota_try *chosen)
{
    return rota_balancer_select(bench->balancer, bench->now, &choice, &bench->random, chosen, NULL);
}

/* --- tries --- */

static void a_try_is_reported_once(void **state)
{
    struct bench bench = bench_new((struct rota_balancer_options){0}, 3);
    (void)state;
    struct rota_try first = bench_select(&bench), second = bench_select(&bench);
    assert_int_equal(rota_balancer_n_tries(bench.balancer), 2);
    bench_end(&bench, first, ROTA_OUTCOME_CANCELLED);
    assert_false(
        rota_balancer_report(bench.balancer, bench.now, first, ROTA_OUTCOME_CANCELLED, NULL));
    assert_int_equal(rota_balancer_n_tries(bench.balancer), 1);

    /* Its slot is taken again; the old name does not reach the new try. */
    struct rota_try third = bench_select(&bench);
    assert_int_equal(third.slot, first.slot);
    assert_false(rota_balancer_report(bench.balancer, bench.now, first, ROTA_OUTCOME_OK, NULL));
    bench_end(&bench, second, ROTA_OUTCOME_OK);
    bench_end(&bench, third, ROTA_OUTCOME_OK);
    assert_int_equal(rota_balancer_n_tries(bench.balancer), 0);
    bench_free(&bench);
}

static void a_try_that_never_was_is_refused(void **state)
{
    struct bench bench = bench_new((struct rota_balancer_options){0}, 1);
    (void)state;
    struct rota_try none = {0}, wild = {.replica = 1, .serial = 9, .slot = UINT32_MAX};
    assert_false(rota_balancer_report(bench.balancer, 0, none, ROTA_OUTCOME_OK, NULL));
    assert_false(rota_balancer_report(bench.balancer, 0, wild, ROTA_OUTCOME_OK, NULL));
    struct rota_try real = bench_select(&bench);
    assert_false(
        rota_balancer_report(bench.balancer, 0, real, (enum rota_outcome)ROTA_OUTCOMES, NULL));
    bench_end(&bench, real, ROTA_OUTCOME_OK);
    for (uint32_t n = 1; n <= 64; n++) { /* with room behind the last one, and without */
        bench_select(&bench);
        struct rota_try beyond = {.replica = 1, .serial = n, .slot = n};
        assert_false(rota_balancer_report(bench.balancer, 0, beyond, ROTA_OUTCOME_OK, NULL));
    }
    bench_free(&bench);
}

static void every_outcome_ends_the_try_and_is_counted(void **state)
{
    struct bench bench = bench_new((struct rota_balancer_options){0}, 1);
    (void)state;
    for (int outcome = 0; outcome < ROTA_OUTCOMES; outcome++) {
        bench_run(&bench, 1, ROTA_MSEC, (enum rota_outcome)outcome);
        struct rota_balancer_view view = bench_look(&bench, 1);
        assert_int_equal(view.n_tries, 0);
        assert_int_equal(view.work, 0);
        assert_int_equal(view.outcomes[outcome], 1);
    }
    bench_free(&bench);
}

static void work_and_the_oldest_try_are_seen(void **state)
{
    struct bench bench = bench_new((struct rota_balancer_options){0}, 1);
    (void)state;
    rota_time began = bench.now;
    struct rota_try a = bench_try(&bench, 1, 5);
    bench.now += ROTA_SEC;
    struct rota_try b = bench_try(&bench, 1, 0);
    bench.now += ROTA_SEC;
    struct rota_try c = bench_try(&bench, 1, 2);
    assert_int_equal(bench_look(&bench, 1).work, 8);
    assert_int_equal(bench_look(&bench, 1).n_tries, 3);
    assert_int_equal(bench_look(&bench, 1).oldest_at, began);
    bench_end(&bench, b, ROTA_OUTCOME_OK);
    assert_int_equal(bench_look(&bench, 1).oldest_at, began);
    bench_end(&bench, a, ROTA_OUTCOME_OK);
    assert_int_equal(bench_look(&bench, 1).oldest_at, began + 2 * ROTA_SEC);
    bench_end(&bench, c, ROTA_OUTCOME_OK);
    assert_int_equal(bench_look(&bench, 1).oldest_at, ROTA_TIME_NEVER);
    bench_free(&bench);
}

static void latencies_are_counted_in_buckets(void **state)
{
    struct bench bench = bench_new((struct rota_balancer_options){0}, 1);
    (void)state;
    uint64_t wanted[ROTA_BALANCER_LATENCIES] = {0};
    bench_run(&bench, 1, 0, ROTA_OUTCOME_OK);
    for (size_t i = 0; i < ROTA_BALANCER_LATENCIES + 2; i++) { /* both ends of each bucket */
        bench_run(&bench, 1, ((rota_time)1 << i) * ROTA_USEC, ROTA_OUTCOME_OK);
        bench_run(&bench, 1, ((rota_time)2 << i) * ROTA_USEC - 1, ROTA_OUTCOME_OK);
        wanted[i < ROTA_BALANCER_LATENCIES ? i : ROTA_BALANCER_LATENCIES - 1] += 2;
    }
    wanted[0]++;
    bench_run(&bench, 1, ROTA_SEC, ROTA_OUTCOME_OTHER);
    assert_memory_equal(bench_look(&bench, 1).latencies, wanted, sizeof wanted);
    bench_free(&bench);
}

static void the_mean_latency_moves_by_an_eighth(void **state)
{
    struct bench bench = bench_new((struct rota_balancer_options){0}, 1);
    (void)state;
    assert_false(rota_balancer_look(bench.balancer, 0, 1, NULL));
    bench_run(&bench, 1, ROTA_SEC, ROTA_OUTCOME_TIMEOUT); /* not an answer */
    assert_int_equal(bench_look(&bench, 1).latency_us, 0);
    bench_run(&bench, 1, 800 * ROTA_USEC, ROTA_OUTCOME_OK);
    assert_int_equal(bench_look(&bench, 1).latency_us, 800);
    bench_run(&bench, 1, 1600 * ROTA_USEC, ROTA_OUTCOME_OK);
    assert_int_equal(bench_look(&bench, 1).latency_us, 900);
    bench_run(&bench, 1, 100 * ROTA_USEC, ROTA_OUTCOME_OK);
    assert_int_equal(bench_look(&bench, 1).latency_us, 800);
    bench_free(&bench);
}

static void latency_counts_from_the_sending(void **state)
{
    struct bench bench = bench_new((struct rota_balancer_options){0}, 1);
    (void)state;
    struct rota_try sent = bench_try(&bench, 1, 1), other = bench_try(&bench, 1, 1);
    bench.now += ROTA_SEC;
    rota_balancer_sent(bench.balancer, bench.now, sent);
    rota_balancer_sent(bench.balancer, bench.now, (struct rota_try){.serial = 9, .slot = 9});
    assert_int_equal(bench_look(&bench, 1).oldest_at, bench.now);
    bench.now += ROTA_MSEC;
    bench_end(&bench, sent, ROTA_OUTCOME_OK);
    assert_int_equal(bench_look(&bench, 1).latency_us, 1000);
    assert_int_equal(bench_look(&bench, 1).oldest_at, bench.now - ROTA_MSEC - ROTA_SEC);
    bench_end(&bench, other, ROTA_OUTCOME_OK);
    assert_int_equal(bench_look(&bench, 1).latency_us, 1000 + ROTA_SEC / ROTA_USEC / 8);
    bench_free(&bench);
}

static void time_that_goes_back_is_ignored(void **state)
{
    struct bench bench = bench_new((struct rota_balancer_options){0}, 1);
    rota_time began = bench.now;
    (void)state;
    struct rota_try a = bench_try(&bench, 1, 1);
    bench.now -= ROTA_SEC;
    struct rota_try b = bench_try(&bench, 1, 1);
    bench_end(&bench, a, ROTA_OUTCOME_OK);
    assert_int_equal(bench_look(&bench, 1).latency_us, 0);
    assert_int_equal(bench_look(&bench, 1).oldest_at, began);
    rota_balancer_sent(bench.balancer, bench.now, b);
    assert_int_equal(bench_look(&bench, 1).oldest_at, began);
    bench_free(&bench);
}

static void tries_leave_from_any_place(void **state)
{
    struct bench bench = bench_new((struct rota_balancer_options){0}, 1);
    struct rota_try tries[8] = {0};
    rota_time began_at[8];
    int64_t works[8];
    (void)state;
    for (int i = 0; i < 2000; i++) {
        size_t at = rota_random_below(&bench.random, 8), n = 0;
        int64_t work = 0;
        rota_time oldest = ROTA_TIME_NEVER;
        if (tries[at].serial) {
            bench_end(&bench, tries[at], ROTA_OUTCOME_OK);
            tries[at].serial = 0;
        } else {
            works[at] = i % 5 + 1;
            began_at[at] = ++bench.now;
            tries[at] = bench_try(&bench, 1, works[at]);
        }
        for (size_t k = 0; k < 8; k++) {
            if (tries[k].serial == 0)
                continue;
            n++;
            work += works[k];
            oldest = rota_time_min(oldest, began_at[k]);
        }
        struct rota_balancer_view view = bench_look(&bench, 1);
        assert_int_equal(view.n_tries, n);
        assert_int_equal(view.work, work);
        assert_int_equal(view.oldest_at, oldest);
        assert_int_equal(rota_balancer_n_tries(bench.balancer), n);
    }
    bench_free(&bench);
}

/* --- choices --- */

static void an_excluded_replica_is_not_chosen(void **state)
{
    (void)state;
    for (int policy = 0; policy <= ROTA_BALANCER_RANDOM; policy++) {
        struct bench bench = bench_new(
            (struct rota_balancer_options){.policy = (enum rota_balancer_policy)policy}, 3);
        const uint64_t excluded[] = {3, 1, 77};
        struct rota_choice choice = {bench.replicas, 3, excluded, 3, 0};
        struct rota_try chosen;
        for (int i = 0; i < 50; i++) {
            assert_int_equal(select_with(&bench, choice, &chosen), ROTA_OK);
            assert_int_equal(chosen.replica, 2);
        }
        bench_free(&bench);
    }
}

static void row_r1_without_a_candidate_there_is_no_choice(void **state)
{
    (void)state;
    for (int policy = 0; policy <= ROTA_BALANCER_RANDOM; policy++) {
        struct bench bench = bench_new(
            (struct rota_balancer_options){.policy = (enum rota_balancer_policy)policy}, 2);
        struct rota_try chosen = {.replica = 55};
        assert_int_equal(select_with(&bench, (struct rota_choice){0}, &chosen),
                         ROTA_ERR_UNAVAILABLE);
        struct rota_choice all = {bench.replicas, 2, bench.replicas, 2, 0};
        assert_int_equal(select_with(&bench, all, &chosen), ROTA_ERR_UNAVAILABLE);
        assert_int_equal(chosen.replica, 55);
        assert_int_equal(rota_balancer_n_tries(bench.balancer), 0);
        bench_free(&bench);
    }
}

static void row_r2_the_choice_is_on_the_list(void **state)
{
    (void)state;
    for (int policy = 0; policy <= ROTA_BALANCER_RANDOM; policy++) {
        struct bench bench = bench_new(
            (struct rota_balancer_options){.policy = (enum rota_balancer_policy)policy}, 5);
        size_t counts[65];
        bench_count(&bench, 100, counts);
        assert_int_equal(counts[1] + counts[2] + counts[3] + counts[4] + counts[5], 100);
        for (int i = 1; i <= 5; i++)
            assert_true(counts[i] >= 5);
        bench_free(&bench);
    }
}

static void row_r3_a_single_replica_is_always_chosen(void **state)
{
    (void)state;
    for (int policy = 0; policy <= ROTA_BALANCER_RANDOM; policy++) {
        struct bench bench = bench_new(
            (struct rota_balancer_options){.policy = (enum rota_balancer_policy)policy}, 1);
        for (int i = 0; i < 20; i++) {
            struct rota_try chosen = bench_select(&bench);
            assert_int_equal(chosen.replica, 1);
            bench_end(&bench, chosen, i % 2 ? ROTA_OUTCOME_OK : ROTA_OUTCOME_UNAVAILABLE);
        }
        bench_free(&bench);
    }
}

static void impossible_choices_are_refused(void **state)
{
    struct bench bench = bench_new((struct rota_balancer_options){0}, 1);
    struct rota_try chosen;
    (void)state;
    struct rota_choice choice = {.replicas = bench.replicas, .n_replicas = 1, .work = -1};
    assert_int_equal(select_with(&bench, choice, &chosen), ROTA_ERR_INVALID);
    choice.work = ROTA_BALANCER_WORK_MAX + 1;
    assert_int_equal(select_with(&bench, choice, &chosen), ROTA_ERR_INVALID);
    choice.work = ROTA_BALANCER_WORK_MAX;
    assert_int_equal(select_with(&bench, choice, &chosen), ROTA_OK);
    static uint64_t many[ROTA_BALANCER_CANDIDATES_MAX + 1];
    choice = (struct rota_choice){.replicas = many, .n_replicas = ROTA_BALANCER_CANDIDATES_MAX + 1};
    assert_int_equal(select_with(&bench, choice, &chosen), ROTA_ERR_LIMIT);
    choice.n_replicas--;
    assert_int_equal(select_with(&bench, choice, &chosen), ROTA_OK);
    choice = (struct rota_choice){bench.replicas, 1, many, ROTA_BALANCER_CANDIDATES_MAX + 1, 0};
    assert_int_equal(select_with(&bench, choice, &chosen), ROTA_ERR_LIMIT);
    choice.n_excluded--;
    assert_int_equal(select_with(&bench, choice, &chosen), ROTA_OK);
    bench_free(&bench);
}

static void the_tries_in_flight_are_bounded(void **state)
{
    struct bench bench =
        bench_new((struct rota_balancer_options){.policy = ROTA_BALANCER_RANDOM}, 1);
    struct rota_choice choice = {.replicas = bench.replicas, .n_replicas = 1};
    struct rota_try first = bench_select(&bench), chosen;
    (void)state;
    for (size_t i = 1; i < ROTA_TRIES_MAX; i++)
        bench_select(&bench);
    assert_int_equal(select_with(&bench, choice, &chosen), ROTA_ERR_LIMIT);
    bench_end(&bench, first, ROTA_OUTCOME_OK);
    assert_int_equal(select_with(&bench, choice, &chosen), ROTA_OK);
    bench_free(&bench);
}

static void options_have_defaults_and_bounds(void **state)
{
    struct bench bench = bench_new((struct rota_balancer_options){0}, 1);
    struct rota_balancer *balancer;
    (void)state;
    assert_int_equal(bench.balancer->options.expires, ROTA_SEC);
    assert_int_equal(bench.balancer->options.check_every, 10);
    assert_int_equal(bench.balancer->options.tolerance_ppm, 100000);
    bench_free(&bench);
    bench = bench_new(
        (struct rota_balancer_options){.expires = 1, .check_every = 1, .tolerance_ppm = 1}, 1);
    assert_int_equal(bench.balancer->options.expires, 1);
    assert_int_equal(bench.balancer->options.check_every, 1);
    assert_int_equal(bench.balancer->options.tolerance_ppm, 1);
    bench_free(&bench);
    bench = bench_new((struct rota_balancer_options){.expires = ROTA_DAY}, 1);
    bench_free(&bench);
    assert_int_equal(rota_balancer_new(&(struct rota_balancer_options){.expires = ROTA_DAY + 1},
                                       &balancer, NULL),
                     ROTA_ERR_INVALID);
    rota_balancer_free(NULL);
}

static void outcomes_and_circuits_have_names(void **state)
{
    const char *const outcomes[] = {"ok",      "input",     "overload", "unavailable",
                                    "timeout", "cancelled", "other",    "unknown"};
    const char *const circuits[] = {"closed", "open", "half-open", "unknown"};
    (void)state;
    for (int i = 0; i <= ROTA_OUTCOMES; i++) {
        assert_string_equal(rota_outcome_name((enum rota_outcome)i), outcomes[i]);
        assert_int_equal(rota_outcome_is_failure((enum rota_outcome)i), i == 3 || i == 4 || i == 6);
    }
    for (int i = 0; i < 4; i++)
        assert_string_equal(rota_circuit_name((enum rota_circuit)i), circuits[i]);
    assert_string_equal(rota_balancer_policy_name((enum rota_balancer_policy)9), "unknown");
}

static void names_are_parsed_and_others_refused(void **state)
{
    (void)state;
    for (int policy = 0; policy <= ROTA_BALANCER_RANDOM; policy++) {
        enum rota_balancer_policy parsed;
        const char *name = rota_balancer_policy_name((enum rota_balancer_policy)policy);
        assert_int_equal(rota_balancer_policy_parse(rota_str(name), &parsed, NULL), ROTA_OK);
        assert_int_equal(parsed, policy);
    }
    enum rota_balancer_policy parsed;
    assert_int_equal(rota_balancer_policy_parse(rota_str("best"), &parsed, NULL), ROTA_ERR_INVALID);
    struct rota_balancer *balancer;
    struct rota_balancer_options options = {.policy = (enum rota_balancer_policy)9};
    assert_int_equal(rota_balancer_new(&options, &balancer, NULL), ROTA_ERR_INVALID);
    options = (struct rota_balancer_options){.expires = -1};
    assert_int_equal(rota_balancer_new(&options, &balancer, NULL), ROTA_ERR_INVALID);
}

/* --- round robin, random, marks --- */

static void round_robin_goes_round_in_order(void **state)
{
    struct bench bench =
        bench_new((struct rota_balancer_options){.policy = ROTA_BALANCER_ROUND_ROBIN}, 3);
    (void)state;
    for (uint64_t i = 0; i < 30; i++)
        assert_int_equal(bench_select(&bench).replica, i % 3 + 1);

    /* The order of the list is nothing to it. */
    bench.replicas[0] = 3;
    bench.replicas[2] = 1;
    for (uint64_t i = 0; i < 30; i++)
        assert_int_equal(bench_select(&bench).replica, i % 3 + 1);
    bench_free(&bench);
}

static void round_robin_is_fair_when_the_list_changes(void **state)
{
    struct bench bench =
        bench_new((struct rota_balancer_options){.policy = ROTA_BALANCER_ROUND_ROBIN}, 4);
    struct rota_random random;
    size_t counts[5] = {0};
    (void)state;
    rota_random_init(&random, 3);
    for (int i = 0; i < 4000; i++) {
        uint64_t gone = rota_random_below(&random, 4) + 1;
        struct rota_choice choice = {bench.replicas, 4, &gone, 1, 0};
        struct rota_try chosen;
        assert_int_equal(select_with(&bench, choice, &chosen), ROTA_OK);
        counts[chosen.replica]++;
    }
    for (int i = 1; i <= 4; i++)
        assert_in_range(counts[i], 960, 1040);

    /* One that joins late gets its turns, not those that it has missed. */
    bench.n = 5;
    bench.replicas[4] = 5;
    size_t joined[65];
    bench_count(&bench, 100, joined);
    assert_in_range(joined[5], 20, 21);
    bench_free(&bench);
}

static void an_unavailable_replica_is_the_last_resort(void **state)
{
    const enum rota_balancer_policy policies[] = {ROTA_BALANCER_ROTA, ROTA_BALANCER_ROUND_ROBIN,
                                                  ROTA_BALANCER_RANDOM};
    (void)state;
    for (int p = 0; p < 3; p++) {
        struct bench bench = bench_new((struct rota_balancer_options){.policy = policies[p]}, 3);
        size_t counts[65];
        bench_count_ended(&bench, 3, counts);
        assert_int_equal(rota_balancer_mark(bench.balancer, bench.now, 2, false, NULL), ROTA_OK);
        assert_false(bench_look(&bench, 2).is_available);
        bench_count_ended(&bench, 60, counts);
        assert_int_equal(counts[2], 0);

        assert_int_equal(rota_balancer_mark(bench.balancer, bench.now, 1, false, NULL), ROTA_OK);
        assert_int_equal(rota_balancer_mark(bench.balancer, bench.now, 3, false, NULL), ROTA_OK);
        bench_select(&bench); /* all are, and one is taken all the same */

        bench_run(&bench, 2, ROTA_MSEC, ROTA_OUTCOME_OK);
        assert_true(bench_look(&bench, 2).is_available);
        bench_free(&bench);
    }
}

/* --- memory --- */

static void a_forgotten_replica_leaves_its_tries_reportable(void **state)
{
    struct bench bench = bench_new((struct rota_balancer_options){0}, 2);
    struct rota_balancer_view view;
    (void)state;
    struct rota_try a = bench_try(&bench, 1, 3), b = bench_try(&bench, 1, 1);
    rota_balancer_forget(bench.balancer, 1);
    rota_balancer_forget(bench.balancer, 1);
    assert_false(rota_balancer_look(bench.balancer, bench.now, 1, &view));
    struct rota_try c = bench_try(&bench, 1, 7);
    bench_end(&bench, a, ROTA_OUTCOME_UNAVAILABLE);
    bench_end(&bench, b, ROTA_OUTCOME_OK);
    assert_int_equal(bench_look(&bench, 1).work, 7);
    assert_int_equal(bench_look(&bench, 1).outcomes[ROTA_OUTCOME_UNAVAILABLE], 0);
    bench_end(&bench, c, ROTA_OUTCOME_OK);
    assert_int_equal(rota_balancer_n_tries(bench.balancer), 0);
    bench_free(&bench);
}

static void an_unused_replica_is_forgotten_in_time(void **state)
{
    struct bench bench = bench_new((struct rota_balancer_options){0}, 3);
    uint64_t left[4];
    (void)state;
    assert_int_equal(rota_balancer_deadline(bench.balancer), ROTA_TIME_NEVER);
    bench_end(&bench, bench_try(&bench, 1, 1), ROTA_OUTCOME_OK);
    struct rota_try held = bench_try(&bench, 2, 1);
    for (int i = 0; i < 12; i++) {
        bench.now += ROTA_MIN;
        bench_end(&bench, bench_try(&bench, 3, 1), ROTA_OUTCOME_OK);
        if (rota_balancer_deadline(bench.balancer) <= bench.now)
            rota_balancer_step(bench.balancer, bench.now);
    }
    assert_int_equal(rota_balancer_replicas(bench.balancer, left, 4), 2);
    assert_int_equal(left[0] + left[1], 2 + 3);
    bench_end(&bench, held, ROTA_OUTCOME_OK);
    bench.now += ROTA_DAY;
    rota_balancer_step(bench.balancer, bench.now);
    assert_int_equal(rota_balancer_replicas(bench.balancer, left, 4), 0);
    assert_int_equal(rota_balancer_deadline(bench.balancer), ROTA_TIME_NEVER);
    bench_free(&bench);
}

static void the_replicas_of_a_balancer_are_bounded(void **state)
{
    struct bench bench = bench_new((struct rota_balancer_options){0}, 1);
    (void)state;
    for (uint64_t i = 0; i < ROTA_BALANCER_REPLICAS_MAX; i++)
        bench_end(&bench, bench_try(&bench, i + 1, 1), ROTA_OUTCOME_OK);
    uint64_t id = UINT64_MAX;
    struct rota_try chosen;
    struct rota_choice choice = {.replicas = &id, .n_replicas = 1};
    assert_int_equal(select_with(&bench, choice, &chosen), ROTA_ERR_LIMIT);
    bench.now++;
    assert_int_equal(select_with(&bench, choice, &chosen),
                     ROTA_OK); /* in the place of an idle one */
    assert_int_equal(rota_balancer_replicas(bench.balancer, NULL, 0), ROTA_BALANCER_REPLICAS_MAX);
    bench_free(&bench);
}

static void the_replica_that_was_idle_longest_makes_room(void **state)
{
    struct bench bench = bench_new((struct rota_balancer_options){0}, 1);
    struct rota_balancer_view view;
    (void)state;
    struct rota_try held = bench_try(&bench, 1, 1);
    for (uint64_t i = 1; i < ROTA_BALANCER_REPLICAS_MAX; i++) {
        bench.now++;
        bench_end(&bench, bench_try(&bench, i + 1, 1), ROTA_OUTCOME_OK);
    }
    bench_end(&bench, bench_try(&bench, 2, 1), ROTA_OUTCOME_OK); /* used again */
    bench.now++;
    for (uint64_t i = 0; i < 3; i++) {
        bench_try(&bench, UINT64_MAX - i, 1);
        for (uint64_t id = 1; id <= 6; id++)
            assert_int_equal(rota_balancer_look(bench.balancer, bench.now, id, &view),
                             id <= 2 || id > 3 + i);
    }
    bench_end(&bench, held, ROTA_OUTCOME_OK);
    bench_free(&bench);
}

static void an_idle_replica_is_forgotten_when_its_time_is_over(void **state)
{
    struct bench bench = bench_new((struct rota_balancer_options){0}, 2);
    uint64_t left[2] = {0, 77};
    (void)state;
    rota_time first_at = bench.now;
    bench_run(&bench, 1, 0, ROTA_OUTCOME_OK);
    assert_int_equal(rota_balancer_deadline(bench.balancer), first_at + ROTA_BALANCER_IDLE);
    bench.now += ROTA_SEC;
    bench_run(&bench, 2, 0, ROTA_OUTCOME_OK);
    assert_int_equal(rota_balancer_deadline(bench.balancer), first_at + ROTA_BALANCER_IDLE);
    rota_balancer_step(bench.balancer, first_at + ROTA_BALANCER_IDLE - 1);
    assert_int_equal(rota_balancer_replicas(bench.balancer, left, 1), 2);
    assert_int_equal(left[1], 77);
    bench.now = first_at + ROTA_BALANCER_IDLE;
    rota_balancer_step(bench.balancer, bench.now);
    assert_int_equal(rota_balancer_replicas(bench.balancer, left, 2), 1);
    assert_int_equal(left[0], 2);
    assert_int_equal(rota_balancer_deadline(bench.balancer), bench.now + ROTA_MIN);

    /* A candidate and a report are both a use. */
    bench.now += ROTA_MIN;
    struct rota_try held = bench_try(&bench, 2, 1);
    bench.now += ROTA_MIN;
    bench_end(&bench, held, ROTA_OUTCOME_OK);
    rota_balancer_step(bench.balancer, bench.now + ROTA_BALANCER_IDLE - 1);
    assert_int_equal(rota_balancer_replicas(bench.balancer, left, 2), 1);
    bench_free(&bench);
}

static void a_mark_creates_state_only_for_the_unavailable(void **state)
{
    struct bench bench = bench_new((struct rota_balancer_options){0}, 2);
    (void)state;
    assert_int_equal(rota_balancer_mark(bench.balancer, bench.now, 1, true, NULL), ROTA_OK);
    assert_int_equal(rota_balancer_replicas(bench.balancer, NULL, 0), 0);
    assert_int_equal(rota_balancer_mark(bench.balancer, bench.now, 1, false, NULL), ROTA_OK);
    assert_false(bench_look(&bench, 1).is_available);
    bench_run(&bench, 1, 0, ROTA_OUTCOME_INPUT);
    assert_false(bench_look(&bench, 1).is_available);
    assert_int_equal(rota_balancer_mark(bench.balancer, bench.now, 1, true, NULL), ROTA_OK);
    assert_true(bench_look(&bench, 1).is_available);
    rota_balancer_mark(bench.balancer, bench.now + ROTA_SEC, 1, false, NULL);
    bench_run(&bench, 1, 0, ROTA_OUTCOME_OK);
    assert_true(bench_look(&bench, 1).is_available);
    bench_free(&bench);
}

static void old_values_decay_by_halves(void **state)
{
    const struct {
        rota_time age;
        double left;
    } rows[] = {{-5, 64},  {0, 64},   {50, 48}, {100, 32},
                {150, 24}, {200, 16}, {500, 2}, {5900, 64 / (double)((uint64_t)1 << 59)},
                {6000, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(rota_balancer_fade(64, rows[i].age, 100) == rows[i].left);
    assert_true(rota_balancer_fade(0, 100, 100) == 0);
}

/* --- what a rule hears --- */

static struct {
    struct rota_balancer_end end;
    struct rota_cost cost;
} heard;

static size_t choose_first(struct rota_balancer *balancer, rota_time now,
                           const struct rota_balancer_field *field)
{
    (void)balancer;
    (void)now;
    (void)field;
    return 0;
}

static void hear(struct rota_balancer *balancer, rota_time now,
                 struct rota_balancer_replica *replica, const struct rota_balancer_end *end)
{
    (void)now;
    (void)replica;
    assert_ptr_equal(balancer->rule_data, &heard);
    heard.end = *end;
    if (end->cost)
        heard.cost = *end->cost;
}

static void a_rule_gets_plausible_costs(void **state)
{
    const int64_t most = ROTA_HOUR / ROTA_USEC;
    const struct {
        struct rota_cost sent, heard;
    } rows[] = {
        {{5, 3, 2}, {5, 3, 2}},
        {{5, 5, 0}, {5, 5, 0}},
        {{5, 7, 1}, {7, 7, 1}},
        {{5, 0, -1}, {5, 0, 0}},
        {{-5, -7, 1}, {0, 0, 1}},
        {{most, most, 1}, {most, most, 1}},
        {{most + 1, most - 1, 1}, {most, most - 1, 1}},
        {{1, most + 1, INT64_MAX}, {most, most, INT64_MAX}},
    };
    static const struct rota_balancer_rule rule = {
        .name = "first", .choose = choose_first, .on_end = hear};
    struct bench bench = {.now = 7, .n = 1, .replicas = {1}};
    (void)state;
    assert_int_equal(rota_balancer_new_with(&(struct rota_balancer_options){0}, &rule, &heard,
                                            &bench.balancer, NULL),
                     ROTA_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rota_try chosen = bench_select(&bench);
        bench.now += 3;
        enum rota_outcome outcome = i % 2 ? ROTA_OUTCOME_OK : ROTA_OUTCOME_INPUT;
        assert_true(
            rota_balancer_report(bench.balancer, bench.now, chosen, outcome, &rows[i].sent));
        assert_memory_equal(&heard.cost, &rows[i].heard, sizeof heard.cost);
        assert_int_equal(heard.end.outcome, outcome);
        assert_int_equal(heard.end.latency, 3);
        assert_int_equal(heard.end.serial, chosen.serial);
        if (i == 0) /* only with an answer */
            assert_int_equal(bench_look(&bench, 1).reported_at, ROTA_TIME_MIN);
        else
            assert_int_equal(bench_look(&bench, 1).reported_at, bench.now - (i % 2 ? 0 : 3));
    }
    bench_run(&bench, 1, 5, ROTA_OUTCOME_OK);
    assert_null(heard.end.cost);
    assert_int_equal(bench_look(&bench, 1).reported_at, bench.now - 5);
    bench_free(&bench);
}

static void hostile_costs_do_no_harm(void **state)
{
    const int64_t wild[] = {INT64_MIN, -1, 0, 1, INT64_MAX};
    (void)state;
    for (int policy = 0; policy <= ROTA_BALANCER_RANDOM; policy++) {
        struct bench bench = bench_new(
            (struct rota_balancer_options){.policy = (enum rota_balancer_policy)policy}, 3);
        for (int i = 0; i < 5 * 5 * 5; i++) {
            struct rota_cost cost = {wild[i % 5], wild[i / 5 % 5], wild[i / 25]};
            struct rota_try chosen = bench_select(&bench);
            assert_true(rota_balancer_report(bench.balancer, bench.now, chosen,
                                             (enum rota_outcome)(i % ROTA_OUTCOMES), &cost));
            bench.now += i % 2 ? ROTA_MSEC : -ROTA_MSEC;
        }
        for (uint64_t r = 1; r <= 3; r++)
            assert_true(bench_look(&bench, r).score >= 0);
        bench_free(&bench);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_try_is_reported_once),
        cmocka_unit_test(a_try_that_never_was_is_refused),
        cmocka_unit_test(every_outcome_ends_the_try_and_is_counted),
        cmocka_unit_test(work_and_the_oldest_try_are_seen),
        cmocka_unit_test(latencies_are_counted_in_buckets),
        cmocka_unit_test(the_mean_latency_moves_by_an_eighth),
        cmocka_unit_test(latency_counts_from_the_sending),
        cmocka_unit_test(time_that_goes_back_is_ignored),
        cmocka_unit_test(tries_leave_from_any_place),
        cmocka_unit_test(an_excluded_replica_is_not_chosen),
        cmocka_unit_test(row_r1_without_a_candidate_there_is_no_choice),
        cmocka_unit_test(row_r2_the_choice_is_on_the_list),
        cmocka_unit_test(row_r3_a_single_replica_is_always_chosen),
        cmocka_unit_test(impossible_choices_are_refused),
        cmocka_unit_test(the_tries_in_flight_are_bounded),
        cmocka_unit_test(options_have_defaults_and_bounds),
        cmocka_unit_test(outcomes_and_circuits_have_names),
        cmocka_unit_test(names_are_parsed_and_others_refused),
        cmocka_unit_test(round_robin_goes_round_in_order),
        cmocka_unit_test(round_robin_is_fair_when_the_list_changes),
        cmocka_unit_test(an_unavailable_replica_is_the_last_resort),
        cmocka_unit_test(a_forgotten_replica_leaves_its_tries_reportable),
        cmocka_unit_test(an_unused_replica_is_forgotten_in_time),
        cmocka_unit_test(the_replicas_of_a_balancer_are_bounded),
        cmocka_unit_test(the_replica_that_was_idle_longest_makes_room),
        cmocka_unit_test(an_idle_replica_is_forgotten_when_its_time_is_over),
        cmocka_unit_test(a_mark_creates_state_only_for_the_unavailable),
        cmocka_unit_test(old_values_decay_by_halves),
        cmocka_unit_test(a_rule_gets_plausible_costs),
        cmocka_unit_test(hostile_costs_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
