#include "balancing.h"

static struct bench rota(size_t n)
{
    return bench_new((struct rota_balancer_options){0}, n);
}

/* Each replica answers `rounds` times: the first after `first`, the others after 10 ms. */
static void warm_up(struct bench *bench, rota_time first, int rounds)
{
    for (int i = 0; i < rounds; i++)
        for (uint64_t r = 1; r <= bench->n; r++)
            bench_run(bench, r, r == 1 ? first : 10 * ROTA_MSEC, ROTA_OUTCOME_OK);
}

static void fail_often(struct bench *bench, uint64_t replica, int n)
{
    for (int i = 0; i < n; i++)
        bench_run(bench, replica, 0, ROTA_OUTCOME_UNAVAILABLE);
}

static enum rota_circuit circuit(const struct bench *bench, uint64_t replica)
{
    return bench_look(bench, replica).circuit;
}

/* How many of `n` choices, each over after `latency`, fall on replica 1. */
static size_t share(struct bench *bench, size_t n, rota_time latency)
{
    size_t on_first = 0;
    for (size_t i = 0; i < n; i++) {
        struct rota_try chosen = bench_select(bench);
        on_first += chosen.replica == 1;
        bench->now += latency;
        bench_end(bench, chosen, ROTA_OUTCOME_OK);
    }
    return on_first;
}

/* --- the score --- */

static void equal_replicas_take_turns(void **state)
{
    struct bench bench = rota(3);
    size_t counts[65];
    (void)state;
    warm_up(&bench, 10 * ROTA_MSEC, 20);
    bench_count_ended(&bench, 300, counts);
    for (int i = 1; i <= 3; i++)
        assert_in_range(counts[i], 97, 103);
    bench_free(&bench);
}

static void own_tries_count_at_once(void **state)
{
    struct bench bench = rota(4);
    size_t counts[65];
    (void)state;
    warm_up(&bench, 10 * ROTA_MSEC, 20);
    bench_count(&bench, 40, counts);
    for (int i = 1; i <= 4; i++)
        assert_in_range(counts[i], 9, 11);
    bench_free(&bench);
}

static void slow_first_answer_costs_nothing(void **state)
{
    struct bench bench = rota(3);
    (void)state;
    bench_run(&bench, 1, 100 * ROTA_MSEC, ROTA_OUTCOME_OK);
    bench_run(&bench, 2, ROTA_MSEC, ROTA_OUTCOME_OK);
    bench_run(&bench, 3, ROTA_MSEC, ROTA_OUTCOME_OK);
    assert_in_range(share(&bench, 300, ROTA_MSEC), 97, 103);
    bench_free(&bench);
}

static void tries_that_meet_one_pause_together_are_one_sample(void **state)
{
    struct bench bench = rota(3);
    struct rota_try together[6];
    (void)state;
    for (int i = 0; i < 6; i++)
        together[i] = bench_try(&bench, 1, 1);
    bench.now += 100 * ROTA_MSEC;
    for (int i = 0; i < 6; i++)
        bench_end(&bench, together[i], ROTA_OUTCOME_OK);
    for (int i = 0; i < 20; i++)
        for (uint64_t r = 2; r <= 3; r++)
            bench_run(&bench, r, ROTA_MSEC, ROTA_OUTCOME_OK);
    assert_in_range(share(&bench, 300, ROTA_MSEC), 95, 105);
    bench_free(&bench);
}

static void slow_replica_is_avoided_from_its_fourth_answer_on(void **state)
{
    struct bench bench = rota(3);
    (void)state;
    warm_up(&bench, 80 * ROTA_MSEC, 4);
    assert_in_range(share(&bench, 100, 10 * ROTA_MSEC), 0, 5);
    bench_free(&bench);
}

static void time_before_a_try_is_sent_is_not_service_time(void **state)
{
    struct bench bench = rota(1);
    (void)state;
    struct rota_try opening = bench_try(&bench, 1, 1);
    bench.now += 50 * ROTA_MSEC;
    rota_balancer_sent(bench.balancer, bench.now, opening);
    assert_true(bench_look(&bench, 1).oldest_at == bench.now);
    bench.now += ROTA_MSEC;
    bench_end(&bench, opening, ROTA_OUTCOME_OK);
    assert_int_equal(bench_look(&bench, 1).service_us, 1000);
    rota_balancer_sent(bench.balancer, bench.now, opening); /* too late: it changes nothing */
    bench_free(&bench);
}

static void replica_that_answers_others_is_not_unresponsive(void **state)
{
    struct bench bench = rota(2);
    (void)state;
    warm_up(&bench, 10 * ROTA_MSEC, 20);
    bench_try(&bench, 1, 1); /* one try is stuck */
    bench.now += 200 * ROTA_MSEC;
    int64_t silent = bench_look(&bench, 1).score;
    bench_run(&bench, 1, 10 * ROTA_MSEC, ROTA_OUTCOME_OK);
    assert_true(bench_look(&bench, 1).score < silent / 4);
    bench_free(&bench);
}

static void a_slow_replica_is_avoided_but_sampled(void **state)
{
    struct bench bench = rota(3);
    size_t n = 0;
    (void)state;
    warm_up(&bench, 50 * ROTA_MSEC, 40);
    for (int i = 0; i < 3000; i++) {
        struct rota_try chosen = bench_select(&bench);
        n += chosen.replica == 1;
        bench.now += chosen.replica == 1 ? 50 * ROTA_MSEC : 10 * ROTA_MSEC;
        bench_end(&bench, chosen, ROTA_OUTCOME_OK);
    }
    assert_in_range(n, 10, 60); /* about one in a hundred */
    bench_free(&bench);
}

/* One choice in a hundred explores, and finds the one that was not heard of for longest. */
static void slow_replicas_are_sampled_in_turn(void **state)
{
    struct bench bench = rota(4);
    size_t n[5] = {0};
    (void)state;
    for (int i = 0; i < 40; i++)
        for (uint64_t r = 1; r <= 4; r++)
            bench_run(&bench, r, r < 4 ? 50 * ROTA_MSEC : 10 * ROTA_MSEC, ROTA_OUTCOME_OK);
    for (int i = 0; i < 6000; i++) {
        struct rota_try chosen = bench_select(&bench);
        n[chosen.replica]++;
        bench.now += chosen.replica < 4 ? 50 * ROTA_MSEC : 10 * ROTA_MSEC;
        bench_end(&bench, chosen, ROTA_OUTCOME_OK);
    }
    assert_true(n[1] >= 10);
    assert_in_range(n[2], n[1] - 1, n[1] + 1);
    assert_in_range(n[3], n[1] - 1, n[1] + 1);
    bench_free(&bench);
}

/* With four samples of each, three times as slow may be chance; with twenty it is not. */
static void few_samples_need_a_larger_difference(void **state)
{
    static const struct {
        int rounds;
        size_t least, most;
    } CASES[] = {{4, 3, 3}, {20, 0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct bench bench = rota(3);
        warm_up(&bench, 30 * ROTA_MSEC, CASES[i].rounds);
        assert_in_range(share(&bench, 9, 10 * ROTA_MSEC), CASES[i].least, CASES[i].most);
        bench_free(&bench);
    }
}

static void a_slow_replica_that_becomes_quick_is_found(void **state)
{
    struct bench bench = rota(3);
    (void)state;
    warm_up(&bench, 50 * ROTA_MSEC, 40);
    share(&bench, 2000, 10 * ROTA_MSEC);
    assert_in_range(share(&bench, 300, 10 * ROTA_MSEC), 90, 110);
    bench_free(&bench);
}

static void noise_within_the_dead_band_changes_no_choice(void **state)
{
    struct bench bench = rota(2);
    (void)state;
    warm_up(&bench, 15 * ROTA_MSEC, 40);
    assert_in_range(share(&bench, 100, 10 * ROTA_MSEC), 45, 55);
    bench_free(&bench);
}

static void the_queue_of_others_counts_and_fades(void **state)
{
    struct bench bench = rota(2);
    (void)state;
    warm_up(&bench, 10 * ROTA_MSEC, 20);
    bench_tell(&bench, 1, 20000, 10000, 10);
    int64_t told = bench_look(&bench, 1).score;
    for (int i = 0; i < 10; i++) {
        struct rota_try chosen = bench_select(&bench);
        assert_int_equal(chosen.replica, 2);
        bench_end(&bench, chosen, ROTA_OUTCOME_CANCELLED);
    }
    bench.now += 100 * ROTA_MSEC;
    assert_true(bench_look(&bench, 1).score < told * 2 / 3);
    bench.now += ROTA_SEC;
    assert_true(bench_look(&bench, 1).score < told / 8);
    bench_free(&bench);
}

static void work_counts_even_if_reported_queues_take_no_time(void **state)
{
    struct bench bench = rota(2);
    size_t counts[65];
    (void)state;
    for (int i = 0; i < 100; i++) {
        bench_tell(&bench, 1, 10000, 10000, 50);
        bench_tell(&bench, 2, 10000, 10000, 50);
    }
    bench_try(&bench, 1, 100);
    bench_count(&bench, 50, counts);
    assert_true(counts[1] <= 1);
    bench_free(&bench);
}

static void an_unknown_replica_is_average(void **state)
{
    struct bench bench = rota(4);
    size_t counts[65];
    (void)state;
    bench.n = 3;
    warm_up(&bench, 10 * ROTA_MSEC, 20);
    bench.n = 4;
    bench_count(&bench, 40, counts);  /* nothing ends */
    assert_in_range(counts[4], 1, 5); /* tried out, but not swamped */
    bench_free(&bench);
}

static void an_unknown_replica_gets_its_share_once_it_answers(void **state)
{
    struct bench bench = rota(4);
    size_t counts[65];
    (void)state;
    bench.n = 3;
    warm_up(&bench, 10 * ROTA_MSEC, 20);
    bench.n = 4;
    for (int i = 0; i < 8; i++)
        bench_run(&bench, 4, 10 * ROTA_MSEC, ROTA_OUTCOME_OK);
    bench_count(&bench, 40, counts);
    assert_in_range(counts[4], 9, 11);
    bench_free(&bench);
}

/* --- silence --- */

static void a_frozen_replica_is_found_by_its_oldest_try(void **state)
{
    struct bench bench = rota(2);
    (void)state;
    warm_up(&bench, 10 * ROTA_MSEC, 20);
    struct rota_try frozen = bench_try(&bench, 1, 1);
    bench.now += 200 * ROTA_MSEC;
    for (int i = 0; i < 10; i++)
        assert_int_equal(bench_select(&bench).replica, 2); /* ten wait there, and it is better */
    bench_end(&bench, frozen, ROTA_OUTCOME_OK);
    assert_int_equal(bench_select(&bench).replica, 1);
    bench_free(&bench);
}

static void a_slow_try_is_remembered_when_it_is_cancelled(void **state)
{
    struct bench bench = rota(2);
    (void)state;
    warm_up(&bench, 10 * ROTA_MSEC, 20);
    bench_run(&bench, 1, 200 * ROTA_MSEC, ROTA_OUTCOME_CANCELLED);
    assert_int_equal(share(&bench, 20, 10 * ROTA_MSEC), 0);
    bench.now += 10 * ROTA_SEC; /* not forever */
    assert_in_range(share(&bench, 20, 10 * ROTA_MSEC), 8, 12);
    bench_free(&bench);
}

static void a_try_cancelled_at_once_proves_nothing(void **state)
{
    struct bench bench = rota(2);
    (void)state;
    warm_up(&bench, 10 * ROTA_MSEC, 20);
    int64_t before = bench_look(&bench, 1).score;
    bench_run(&bench, 1, ROTA_MSEC, ROTA_OUTCOME_CANCELLED);
    assert_int_equal(bench_look(&bench, 1).score, before);
    bench_free(&bench);
}

/* --- failures --- */

static void a_failing_replica_is_ejected_and_probed_alone(void **state)
{
    struct bench bench = rota(3);
    (void)state;
    warm_up(&bench, 10 * ROTA_MSEC, 20);
    fail_often(&bench, 1, 2);
    assert_int_equal(circuit(&bench, 1), ROTA_CIRCUIT_CLOSED);
    fail_often(&bench, 1, 1);
    assert_int_equal(circuit(&bench, 1), ROTA_CIRCUIT_OPEN);
    assert_int_equal(share(&bench, 100, 10 * ROTA_MSEC), 0);

    bench.now = bench_look(&bench, 1).open_until - 1;
    assert_int_equal(circuit(&bench, 1), ROTA_CIRCUIT_OPEN);
    bench.now++;
    assert_int_equal(circuit(&bench, 1), ROTA_CIRCUIT_HALF_OPEN);
    struct rota_try probe = bench_select(&bench);
    assert_int_equal(probe.replica, 1);
    assert_int_equal(circuit(&bench, 1), ROTA_CIRCUIT_HALF_OPEN);
    for (int i = 0; i < 50; i++) { /* one at a time */
        struct rota_try other = bench_select(&bench);
        assert_int_not_equal(other.replica, 1);
        bench_end(&bench, other, ROTA_OUTCOME_CANCELLED);
    }
    bench.now += 10 * ROTA_MSEC;
    bench_end(&bench, probe, ROTA_OUTCOME_OK);
    assert_int_equal(circuit(&bench, 1), ROTA_CIRCUIT_CLOSED);
    assert_true(share(&bench, 60, 10 * ROTA_MSEC) >= 10);
    bench_free(&bench);
}

static void the_delay_to_the_next_probe_grows_up_to_a_bound(void **state)
{
    struct bench bench = rota(3);
    rota_time longest = 0, last = 0;
    (void)state;
    warm_up(&bench, 10 * ROTA_MSEC, 20);
    fail_often(&bench, 1, 3);
    for (int i = 0; i < 12; i++) {
        last = bench_look(&bench, 1).open_until - bench.now;
        longest = last > longest ? last : longest;
        assert_true(last >= ROTA_SEC / 2);
        bench.now += last;
        struct rota_try probe = bench_select(&bench);
        assert_int_equal(probe.replica, 1);
        bench_end(&bench, probe, ROTA_OUTCOME_UNAVAILABLE);
        assert_int_equal(circuit(&bench, 1), ROTA_CIRCUIT_OPEN);
    }
    assert_true(last >= 16 * ROTA_SEC);
    assert_true(longest <= 48 * ROTA_SEC);
    assert_int_equal(bench_look(&bench, 1).n_ejections, 13);
    bench_free(&bench);
}

static void a_cancelled_probe_is_made_again(void **state)
{
    struct bench bench = rota(3);
    (void)state;
    warm_up(&bench, 10 * ROTA_MSEC, 20);
    fail_often(&bench, 1, 3);
    for (int i = 0; i < 5; i++) {
        assert_true(bench_look(&bench, 1).open_until <= bench.now + 3 * ROTA_SEC / 2);
        bench.now = bench_look(&bench, 1).open_until;
        struct rota_try probe = bench_select(&bench);
        assert_int_equal(probe.replica, 1);
        bench_end(&bench, probe, ROTA_OUTCOME_CANCELLED);
    }
    bench_free(&bench);
}

static void a_retry_is_not_a_probe(void **state)
{
    struct bench bench = rota(3);
    (void)state;
    warm_up(&bench, 10 * ROTA_MSEC, 20);
    fail_often(&bench, 1, 3);
    bench.now = bench_look(&bench, 1).open_until;
    const uint64_t excluded = 2;
    struct rota_choice choice = {bench.replicas, 3, &excluded, 1, 0};
    struct rota_try chosen;
    assert_int_equal(
        rota_balancer_select(bench.balancer, bench.now, &choice, &bench.random, &chosen, NULL),
        ROTA_OK);
    assert_int_equal(chosen.replica, 3);
    bench_free(&bench);
}

static void one_of_two_can_be_ejected_but_not_both(void **state)
{
    struct bench bench = rota(2);
    (void)state;
    warm_up(&bench, 10 * ROTA_MSEC, 20);
    fail_often(&bench, 1, 3);
    assert_int_equal(share(&bench, 50, 10 * ROTA_MSEC), 0);
    fail_often(&bench, 2, 3);
    size_t counts[65] = {0};
    for (int i = 0; i < 50; i++)
        counts[bench_select(&bench).replica]++;
    assert_true(counts[1] > 0 && counts[2] > 0);
    assert_true(rota_balancer_n_panics(bench.balancer) >= 50);
    bench_free(&bench);
}

static void the_one_that_works_is_preferred_in_panic(void **state)
{
    struct bench bench = rota(5);
    size_t counts[65] = {0};
    (void)state;
    warm_up(&bench, 10 * ROTA_MSEC, 20);
    for (uint64_t r = 1; r <= 4; r++)
        fail_often(&bench, r, 3);
    bench_count_ended(&bench, 50, counts);
    assert_int_equal(counts[5], 50);
    bench_free(&bench);
}

static void a_success_in_panic_closes_the_circuit(void **state)
{
    struct bench bench = rota(1);
    (void)state;
    fail_often(&bench, 1, 3);
    struct rota_try after = bench_select(&bench);
    bench_end(&bench, after, ROTA_OUTCOME_OK);
    assert_int_equal(circuit(&bench, 1), ROTA_CIRCUIT_CLOSED);
    bench_free(&bench);
}

static void an_answer_from_before_the_ejection_proves_nothing(void **state)
{
    struct bench bench = rota(3);
    (void)state;
    struct rota_try early = bench_try(&bench, 1, 1);
    fail_often(&bench, 1, 3);
    bench_end(&bench, early, ROTA_OUTCOME_OK);
    assert_int_equal(circuit(&bench, 1), ROTA_CIRCUIT_OPEN);
    bench_free(&bench);
}

static void input_errors_never_count_against_a_replica(void **state)
{
    struct bench bench = rota(2);
    (void)state;
    warm_up(&bench, 10 * ROTA_MSEC, 20);
    int64_t before = bench_look(&bench, 1).score;
    for (int i = 0; i < 20; i++)
        bench_run(&bench, 1, 0, ROTA_OUTCOME_INPUT);
    assert_int_equal(bench_look(&bench, 1).score, before);
    assert_int_equal(circuit(&bench, 1), ROTA_CIRCUIT_CLOSED);
    bench_free(&bench);
}

static void overload_moves_the_call_and_ejects_no_replica(void **state)
{
    struct bench bench = rota(2);
    (void)state;
    warm_up(&bench, 10 * ROTA_MSEC, 20);
    for (int i = 0; i < 20; i++)
        bench_run(&bench, 1, 0, ROTA_OUTCOME_OVERLOAD);
    assert_int_equal(circuit(&bench, 1), ROTA_CIRCUIT_CLOSED);
    assert_int_equal(share(&bench, 20, 10 * ROTA_MSEC), 0);
    bench.now += 20 * ROTA_SEC;
    assert_in_range(share(&bench, 20, 10 * ROTA_MSEC), 8, 12);
    bench_free(&bench);
}

/* --- what is learned, number by number --- */

static struct rota_policy_rota *own(struct bench *bench, uint64_t id)
{
    struct rota_balancer_replica *replica =
        rota_map_get(&bench->balancer->replicas, rota_str_of(&id, sizeof id));
    assert_non_null(replica);
    return &replica->rota;
}

static void service_time_is_learned_from_samples(void **state)
{
    struct bench bench = rota(1);
    double wanted = 0;
    (void)state;
    const rota_time samples[] = {900, 300, 600, 400, 5000, 300, 1, 800};
    for (uint32_t i = 0; i < 30; i++) {
        double sample = (double)samples[i % 8];
        bench_run(&bench, 1, samples[i % 8] * ROTA_USEC, ROTA_OUTCOME_OK);
        uint32_t n = i + 1 < 20 ? i + 1 : 20;
        if (i < 3)
            wanted = i == 0 || sample < wanted ? sample : wanted;
        else
            wanted += ((sample > 3 * wanted ? 3 * wanted : sample) - wanted) / n;
        assert_true(own(&bench, 1)->service_us == wanted);
        assert_int_equal(own(&bench, 1)->n_samples, n);
        assert_int_equal(own(&bench, 1)->service_at, bench.now);
        assert_int_equal(bench_look(&bench, 1).service_us, (int64_t)wanted);
    }
    /* After 300 service times without one, half a second at most, a sample counts for a fifth. */
    for (int i = 0; i < 2; i++) {
        bench.now += (rota_time)(300 * wanted * ROTA_USEC);
        bench_run(&bench, 1, 0, ROTA_OUTCOME_OK);
        wanted += (1 - wanted) / 20;
        assert_true(own(&bench, 1)->service_us == wanted);
        bench.now += (rota_time)(300 * wanted * ROTA_USEC) + 1;
        bench_run(&bench, 1, 0, ROTA_OUTCOME_OK);
        wanted += (1 - wanted) / 5;
        assert_true(own(&bench, 1)->service_us == wanted);
    }
    own(&bench, 1)->service_us = wanted = 10000;
    bench.now += 500 * ROTA_MSEC;
    bench_run(&bench, 1, 0, ROTA_OUTCOME_OK);
    wanted += (1 - wanted) / 20;
    assert_true(own(&bench, 1)->service_us == wanted);
    bench.now += 500 * ROTA_MSEC + 1;
    bench_run(&bench, 1, 0, ROTA_OUTCOME_OK);
    wanted += (1 - wanted) / 5;
    assert_true(own(&bench, 1)->service_us == wanted);
    bench_free(&bench);
}

static void wait_in_a_queue_is_not_service_time(void **state)
{
    struct bench bench = rota(1);
    (void)state;
    bench_tell(&bench, 1, 5000, 1000, 0);
    assert_true(own(&bench, 1)->service_us == 1000);
    struct rota_cost cost = {5000, 1000, 0};
    struct rota_try quick = bench_try(&bench, 1, 1);
    bench.now += ROTA_MSEC; /* less than it says that it waited */
    rota_balancer_report(bench.balancer, bench.now, quick, ROTA_OUTCOME_OK, &cost);
    assert_true(own(&bench, 1)->service_us == 1);
    bench_free(&bench);
}

static void drain_of_a_queue_is_learned(void **state)
{
    struct bench bench = rota(1);
    double wait = 0, waiting = 0;
    (void)state;
    const struct {
        int64_t wait_us, waiting, times;
    } rows[] = {{500, 1, 5},    {1000, 2, 30}, {100, 9, 100},
                {9000, 1, 200}, {0, 50, 300},  {0, 0, 400}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int64_t k = 0; k < rows[i].times; k++) {
            bench_tell(&bench, 1, 1000 + rows[i].wait_us, 1000, rows[i].waiting);
            wait += ((double)rows[i].wait_us - wait) / 100;
            waiting += ((double)rows[i].waiting - waiting) / 100;
            /* The queue is learned first, with the service time of before. */
            double work = waiting * (i + (size_t)k == 0 ? 0 : 1000), part = 1;
            if (waiting > 0.1 && wait < work)
                part = wait / work > 1.0 / 32 ? wait / work : 1.0 / 32;
            double error = own(&bench, 1)->part - part;
            assert_true(error < 1e-9 && error > -1e-9);
            assert_true(own(&bench, 1)->waiting == (double)rows[i].waiting);
            assert_int_equal(own(&bench, 1)->waiting_at, bench.now);
        }
    bench_free(&bench);
}

/* With 1 ms of service, known for sure, and answers enough. */
static void be_known(struct bench *bench, uint64_t id)
{
    for (int i = 0; i < 20; i++)
        bench_run(bench, id, ROTA_MSEC, ROTA_OUTCOME_OK);
}

static void score_is_the_expected_wait(void **state)
{
    struct bench bench = rota(1);
    (void)state;
    be_known(&bench, 1);
    assert_int_equal(bench_look(&bench, 1).score, 1000);
    struct rota_try a = bench_try(&bench, 1, 3);
    assert_int_equal(bench_look(&bench, 1).score, 4000);
    bench_end(&bench, a, ROTA_OUTCOME_INPUT); /* as if it had not been */
    assert_int_equal(bench_look(&bench, 1).score, 1000);

    struct rota_policy_rota *rota = own(&bench, 1);
    rota->part = 0.5;
    rota->waiting = 8;
    rota->waiting_at = bench.now;
    assert_int_equal(bench_look(&bench, 1).score, 1000 * (1 + 4));
    bench.now += 100 * ROTA_MSEC;
    assert_int_equal(bench_look(&bench, 1).score, 1000 * (1 + 2));
    rota->waiting = 0;
    rota->penalty = 4;
    rota->penalty_at = bench.now;
    assert_int_equal(bench_look(&bench, 1).score, 1000 * (1 + 4));
    bench.now += 2 * ROTA_SEC;
    assert_int_equal(bench_look(&bench, 1).score, 1000 * (1 + 2));
    rota->penalty = 0;
    rota->silence_us = 6000;
    rota->silence_at = bench.now;
    assert_int_equal(bench_look(&bench, 1).score, 1000 + 6000);
    bench.now += ROTA_SEC;
    assert_int_equal(bench_look(&bench, 1).score, 1000 + 3000);
    rota->silence_us = 0;

    /* A replica to be tried out counts its work four times. */
    rota->n_answers = 7;
    rota->part = 1;
    bench_try(&bench, 1, 2);
    assert_int_equal(bench_look(&bench, 1).score, 1000 * (1 + 8));
    rota->n_answers = 8;
    assert_int_equal(bench_look(&bench, 1).score, 1000 * (1 + 2));
    bench_free(&bench);
}

static void unresponsive_means_more_than_three_service_times(void **state)
{
    struct bench bench = rota(1);
    (void)state;
    be_known(&bench, 1);
    struct rota_try stuck = bench_try(&bench, 1, 1), other;
    bench.now += 3 * ROTA_MSEC;
    assert_int_equal(bench_look(&bench, 1).score, 2000);
    bench.now += 2 * ROTA_MSEC;
    assert_int_equal(bench_look(&bench, 1).score, 2000 + 2000);
    other = bench_try(&bench, 1, 1);
    bench_end(&bench, other, ROTA_OUTCOME_OK); /* it answers others */
    own(&bench, 1)->service_us = 1000;
    assert_int_equal(bench_look(&bench, 1).score, 2000);
    bench.now += 5 * ROTA_MSEC;
    assert_int_equal(bench_look(&bench, 1).score, 2000 + 2000);
    bench.now += 10 * ROTA_MSEC;
    bench_end(&bench, stuck, ROTA_OUTCOME_CANCELLED); /* after 20 ms, and it is remembered */
    assert_true(own(&bench, 1)->silence_us == 17000);
    assert_int_equal(own(&bench, 1)->silence_at, bench.now);
    assert_int_equal(bench_look(&bench, 1).score, 1000 + 17000);
    bench_run(&bench, 1, 0, ROTA_OUTCOME_CANCELLED); /* a quick one changes nothing */
    assert_true(own(&bench, 1)->silence_us == 17000);
    bench_run(&bench, 1, 0, ROTA_OUTCOME_OK); /* an answer does */
    assert_true(own(&bench, 1)->silence_us == 0);
    bench_free(&bench);
}

static void failures_add_up_and_answers_halve_them(void **state)
{
    struct bench bench = rota(1);
    (void)state;
    be_known(&bench, 1);
    const struct {
        enum rota_outcome outcome;
        double penalty;
        uint32_t n_failures;
    } rows[] = {
        {ROTA_OUTCOME_OVERLOAD, 4, 0},       {ROTA_OUTCOME_UNAVAILABLE, 24, 1},
        {ROTA_OUTCOME_OTHER, 44, 2},         {ROTA_OUTCOME_OK, 22, 0},
        {ROTA_OUTCOME_TIMEOUT, 42, 1},       {ROTA_OUTCOME_INPUT, 21, 0}, /* an answer, too */
        {ROTA_OUTCOME_OVERLOAD, 14.5, 0},    {ROTA_OUTCOME_CANCELLED, 14.5, 0},
        {ROTA_OUTCOME_UNAVAILABLE, 34.5, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bench_run(&bench, 1, 0, rows[i].outcome);
        assert_true(own(&bench, 1)->penalty == rows[i].penalty);
        assert_int_equal(own(&bench, 1)->n_failures, rows[i].n_failures);
    }
    bench.now += 2 * ROTA_SEC;
    bench_run(&bench, 1, 0, ROTA_OUTCOME_UNAVAILABLE); /* what fades does so first */
    assert_true(own(&bench, 1)->penalty == 17.25 + 20);
    assert_int_equal(own(&bench, 1)->penalty_at, bench.now);
    bench_free(&bench);
}

static void circuit_opens_with_the_third_failure_in_a_row(void **state)
{
    struct bench bench = rota(3);
    (void)state;
    fail_often(&bench, 1, 2);
    bench_run(&bench, 1, 0, ROTA_OUTCOME_OK);
    fail_often(&bench, 1, 2);
    assert_int_equal(circuit(&bench, 1), ROTA_CIRCUIT_CLOSED);
    fail_often(&bench, 1, 1);
    assert_int_equal(circuit(&bench, 1), ROTA_CIRCUIT_OPEN);
    assert_int_equal(bench_look(&bench, 1).n_ejections, 1);
    rota_time until = bench_look(&bench, 1).open_until;
    assert_in_range(until - bench.now, 500 * ROTA_MSEC, 1500 * ROTA_MSEC);
    bench.now = until - 1;
    assert_int_equal(circuit(&bench, 1), ROTA_CIRCUIT_OPEN);
    bench.now = until;
    assert_int_equal(circuit(&bench, 1), ROTA_CIRCUIT_HALF_OPEN);
    struct rota_try probe = bench_select(&bench);
    assert_int_equal(probe.replica, 1);
    assert_true(own(&bench, 1)->probe == probe.serial);
    bench_end(&bench, probe, ROTA_OUTCOME_OK);
    assert_int_equal(circuit(&bench, 1), ROTA_CIRCUIT_CLOSED);
    assert_true(own(&bench, 1)->probe == 0 && own(&bench, 1)->penalty == 0);
    assert_true(own(&bench, 1)->n_opened == 0 && own(&bench, 1)->n_answers == 1);
    bench_free(&bench);
}

/* A panic does not end the probe, nor does its own failure leave it out forever. */
static void probe_that_fails_opens_the_circuit_for_longer(void **state)
{
    struct bench bench = rota(3);
    (void)state;
    fail_often(&bench, 1, 3);
    for (uint32_t n = 1; n <= 3; n++) {
        assert_int_equal(own(&bench, 1)->n_opened, n);
        bench.now = bench_look(&bench, 1).open_until;
        struct rota_try probe = bench_select(&bench), other = bench_try(&bench, 1, 1);
        assert_int_equal(probe.replica, 1);
        bench_end(&bench, other, ROTA_OUTCOME_UNAVAILABLE); /* not the probe */
        assert_true(own(&bench, 1)->probe == probe.serial);
        assert_int_equal(own(&bench, 1)->n_opened, n);
        bench_end(&bench, probe, n == 3 ? ROTA_OUTCOME_CANCELLED : ROTA_OUTCOME_UNAVAILABLE);
        assert_true(own(&bench, 1)->probe == 0);
        assert_int_equal(circuit(&bench, 1), ROTA_CIRCUIT_OPEN);
        rota_time delay = ROTA_SEC << (n == 3 ? n - 1 : n);
        assert_in_range(bench_look(&bench, 1).open_until - bench.now, delay / 2, delay / 2 * 3);
    }
    assert_int_equal(own(&bench, 1)->n_opened, 3);
    bench_free(&bench);
}

/* Replica 1 has the best average; how far may 2 be from it to be as good? */
static void band_is_wider_with_few_samples(void **state)
{
    static const struct {
        uint32_t n_best, n_other;
        double service_us;
        bool is_even;
    } rows[] = {
        {20, 20, 1599, true}, {20, 20, 1601 * 1.3, false}, {20, 10, 2600, false},
        {20, 9, 1770, true},  {20, 5, 3190, true},         {20, 5, 3210 * 1.3, false},
        {5, 20, 3190, true},  {5, 20, 3210 * 1.3, false},  {4, 5, 3990, true},
        {20, 2, 99999, true}, {10, 20, 2600, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bench bench = rota(2);
        size_t n = 0;
        be_known(&bench, 1);
        be_known(&bench, 2);
        own(&bench, 1)->n_samples = rows[i].n_best;
        own(&bench, 1)->service_us = 1000;
        own(&bench, 2)->n_samples = rows[i].n_other;
        own(&bench, 2)->service_us = rows[i].service_us;
        for (int k = 0; k < 2; k++) { /* do they take turns? */
            struct rota_try chosen = bench_select(&bench);
            n += chosen.replica == 2;
            bench_end(&bench, chosen, ROTA_OUTCOME_CANCELLED);
        }
        assert_int_equal(n, rows[i].is_even);
        bench_free(&bench);
    }
}

/* The one that is heard of least comes after others, which are heard of all the time or busy. */
static void slow_replica_is_sampled_at_any_position(void **state)
{
    struct bench bench = rota(4);
    size_t n = 0;
    (void)state;
    for (int i = 0; i < 40; i++)
        for (uint64_t r = 1; r <= 4; r++)
            bench_run(&bench, r, r == 4 ? 50 * ROTA_MSEC : 10 * ROTA_MSEC, ROTA_OUTCOME_OK);
    for (int i = 0; i < 3000; i++) {
        struct rota_try chosen = bench_select(&bench);
        n += chosen.replica == 4;
        bench.now += chosen.replica == 4 ? 50 * ROTA_MSEC : 10 * ROTA_MSEC;
        bench_end(&bench, chosen, ROTA_OUTCOME_OK);
    }
    assert_in_range(n, 5, 60);
    bench_free(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_replicas_take_turns),
        cmocka_unit_test(own_tries_count_at_once),
        cmocka_unit_test(slow_first_answer_costs_nothing),
        cmocka_unit_test(tries_that_meet_one_pause_together_are_one_sample),
        cmocka_unit_test(slow_replica_is_avoided_from_its_fourth_answer_on),
        cmocka_unit_test(time_before_a_try_is_sent_is_not_service_time),
        cmocka_unit_test(replica_that_answers_others_is_not_unresponsive),
        cmocka_unit_test(a_slow_replica_is_avoided_but_sampled),
        cmocka_unit_test(slow_replicas_are_sampled_in_turn),
        cmocka_unit_test(few_samples_need_a_larger_difference),
        cmocka_unit_test(a_slow_replica_that_becomes_quick_is_found),
        cmocka_unit_test(noise_within_the_dead_band_changes_no_choice),
        cmocka_unit_test(the_queue_of_others_counts_and_fades),
        cmocka_unit_test(work_counts_even_if_reported_queues_take_no_time),
        cmocka_unit_test(an_unknown_replica_is_average),
        cmocka_unit_test(an_unknown_replica_gets_its_share_once_it_answers),
        cmocka_unit_test(a_frozen_replica_is_found_by_its_oldest_try),
        cmocka_unit_test(a_slow_try_is_remembered_when_it_is_cancelled),
        cmocka_unit_test(a_try_cancelled_at_once_proves_nothing),
        cmocka_unit_test(a_failing_replica_is_ejected_and_probed_alone),
        cmocka_unit_test(the_delay_to_the_next_probe_grows_up_to_a_bound),
        cmocka_unit_test(a_cancelled_probe_is_made_again),
        cmocka_unit_test(a_retry_is_not_a_probe),
        cmocka_unit_test(one_of_two_can_be_ejected_but_not_both),
        cmocka_unit_test(the_one_that_works_is_preferred_in_panic),
        cmocka_unit_test(a_success_in_panic_closes_the_circuit),
        cmocka_unit_test(an_answer_from_before_the_ejection_proves_nothing),
        cmocka_unit_test(input_errors_never_count_against_a_replica),
        cmocka_unit_test(overload_moves_the_call_and_ejects_no_replica),
        cmocka_unit_test(service_time_is_learned_from_samples),
        cmocka_unit_test(wait_in_a_queue_is_not_service_time),
        cmocka_unit_test(drain_of_a_queue_is_learned),
        cmocka_unit_test(score_is_the_expected_wait),
        cmocka_unit_test(unresponsive_means_more_than_three_service_times),
        cmocka_unit_test(failures_add_up_and_answers_halve_them),
        cmocka_unit_test(circuit_opens_with_the_third_failure_in_a_row),
        cmocka_unit_test(probe_that_fails_opens_the_circuit_for_longer),
        cmocka_unit_test(band_is_wider_with_few_samples),
        cmocka_unit_test(slow_replica_is_sampled_at_any_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
