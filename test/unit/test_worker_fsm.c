#include "core/work/worker/worker_fsm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* A worker, and what it was to do at the last look, by kind. */
struct world {
    struct rota_worker_fsm fsm;
    rota_time now;
    size_t n[ROTA_WORKER_DO_FORGET + 1];
    struct rota_worker_action last[ROTA_WORKER_DO_FORGET + 1];
    size_t n_running;
};

static void look(struct world *world)
{
    struct rota_worker_action action;
    size_t place = 0;
    memset(world->n, 0, sizeof world->n);
    while (rota_worker_fsm_next(&world->fsm, world->now, &place, &action)) {
        world->n[action.type]++;
        world->last[action.type] = action;
    }
}

static void look_at(struct world *world, rota_time at)
{
    world->now = at;
    look(world);
}

static void begin(struct world *world, struct rota_worker_fsm_options options)
{
    *world = (struct world){0};
    assert_true(rota_worker_fsm_init(&world->fsm, &options));
    look(world);
}

static uint32_t take(struct world *world, uint32_t node, rota_time timeout, bool is_to_start)
{
    bool starts;
    uint32_t attempt = rota_worker_fsm_taken(&world->fsm, world->now, node, timeout, &starts);
    assert_int_not_equal(attempt, ROTA_WORKER_FSM_NONE);
    assert_int_equal(starts, is_to_start);
    return attempt;
}

/* The poll of a node brings jobs, which begin. Returns the last one. */
static uint32_t bring(struct world *world, uint32_t node, size_t n_jobs)
{
    uint32_t attempt = ROTA_WORKER_FSM_NONE;
    rota_worker_fsm_polled(&world->fsm, world->now, node, ROTA_WORKER_YES, n_jobs);
    for (size_t i = 0; i < n_jobs; i++)
        attempt = take(world, node, 0, true);
    look(world);
    return attempt;
}

static void end(struct world *world, uint32_t attempt, int exit_code, int signal)
{
    rota_worker_fsm_ended(&world->fsm, world->now, attempt, exit_code, signal);
    look(world);
}

static void leave(struct world *world)
{
    rota_worker_fsm_stop(&world->fsm, world->now);
    look(world);
}

static void free_world(struct world *world)
{
    rota_worker_fsm_deinit(&world->fsm);
}

/* --- slots --- */

static void a_node_is_asked_for_as_many_as_there_are_free_slots(void **state)
{
    struct world world;
    (void)state;
    begin(&world, (struct rota_worker_fsm_options){.slots = 3});
    assert_int_equal(world.n[ROTA_WORKER_DO_POLL], 1);
    assert_int_equal(world.last[ROTA_WORKER_DO_POLL].n_jobs, 3);
    uint32_t attempt = bring(&world, 0, 2);
    assert_int_equal(world.last[ROTA_WORKER_DO_POLL].n_jobs, 1);
    bring(&world, 0, 1);
    assert_int_equal(world.n[ROTA_WORKER_DO_POLL], 0);
    end(&world, attempt, 0, 0);
    assert_int_equal(world.n[ROTA_WORKER_DO_POLL], 1); /* also before it was answered */
    free_world(&world);
}

static void jobs_above_the_slots_are_returned_at_once(void **state)
{
    struct world world;
    (void)state;
    begin(&world, (struct rota_worker_fsm_options){.slots = 1, .n_nodes = 2});
    assert_int_equal(world.n[ROTA_WORKER_DO_POLL], 2);
    bring(&world, 0, 1);
    rota_worker_fsm_polled(&world.fsm, 0, 1, ROTA_WORKER_YES, 1);
    uint32_t surplus = take(&world, 1, 0, false);
    look(&world);
    assert_int_equal(world.n[ROTA_WORKER_DO_SAY], 1);
    assert_int_equal(world.last[ROTA_WORKER_DO_SAY].attempt, surplus);
    assert_int_equal(world.last[ROTA_WORKER_DO_SAY].cause, ROTA_JOB_CAUSE_GIVEN_BACK);
    assert_int_equal(world.n[ROTA_WORKER_DO_POLL], 0);
    free_world(&world);
}

static void a_failing_node_is_asked_again_later_and_others_at_once(void **state)
{
    struct world world;
    (void)state;
    begin(&world, (struct rota_worker_fsm_options){.slots = 2, .n_nodes = 2});
    rota_worker_fsm_polled(&world.fsm, 0, 0, ROTA_WORKER_UNKNOWN, 0);
    look(&world);
    assert_int_equal(world.n[ROTA_WORKER_DO_POLL], 0);
    bring(&world, 1, 1);
    assert_int_equal(world.last[ROTA_WORKER_DO_POLL].node, 1);
    look_at(&world, rota_worker_fsm_deadline(&world.fsm));
    assert_int_equal(world.last[ROTA_WORKER_DO_POLL].node, 0);
    free_world(&world);
}

static void a_command_that_cannot_start_costs_no_attempt_and_causes_a_pause(void **state)
{
    struct world world;
    (void)state;
    begin(&world, (struct rota_worker_fsm_options){.slots = 1});
    rota_worker_fsm_polled(&world.fsm, 0, 0, ROTA_WORKER_YES, 1);
    rota_worker_fsm_not_started(&world.fsm, 0, take(&world, 0, 0, true));
    look(&world);
    assert_int_equal(world.last[ROTA_WORKER_DO_SAY].cause, ROTA_JOB_CAUSE_GIVEN_BACK);
    assert_int_equal(world.n[ROTA_WORKER_DO_POLL], 0);
    look_at(&world, rota_worker_fsm_deadline(&world.fsm));
    assert_int_equal(world.n[ROTA_WORKER_DO_POLL], 1);
    free_world(&world);
}

/* --- how it ended --- */

static void the_exit_code_decides(void **state)
{
    static const struct {
        int exit_code, signal;
        enum rota_job_cause cause;
        bool is_later;
    } CASES[] = {
        {0, 0, ROTA_JOB_CAUSE_DONE, false},     {1, 0, ROTA_JOB_CAUSE_FAILED, false},
        {255, 0, ROTA_JOB_CAUSE_FAILED, false}, {65, 0, ROTA_JOB_CAUSE_REFUSED, false},
        {0, 9, ROTA_JOB_CAUSE_FAILED, false},   {75, 0, ROTA_JOB_CAUSE_GIVEN_BACK, true},
        {65, 6, ROTA_JOB_CAUSE_FAILED, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct world world;
        begin(&world, (struct rota_worker_fsm_options){.retry_after = 7 * ROTA_SEC});
        end(&world, bring(&world, 0, 1), CASES[i].exit_code, CASES[i].signal);
        assert_int_equal(world.last[ROTA_WORKER_DO_SAY].cause, CASES[i].cause);
        assert_int_equal(world.last[ROTA_WORKER_DO_SAY].retry_after,
                         CASES[i].is_later ? 7 * ROTA_SEC : 0);
        free_world(&world);
    }
}

static void an_end_is_repeated_until_it_is_answered(void **state)
{
    struct world world;
    (void)state;
    begin(&world, (struct rota_worker_fsm_options){0});
    uint32_t attempt = bring(&world, 0, 1);
    end(&world, attempt, 0, 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(world.n[ROTA_WORKER_DO_SAY], 1);
        rota_worker_fsm_said(&world.fsm, world.now, attempt, ROTA_WORKER_UNKNOWN);
        rota_time wait = world.fsm.attempts[attempt].say_at - world.now;
        assert_true(wait > 0 && wait <= 6 * ROTA_SEC);
        look_at(&world, world.now + wait);
    }
    rota_worker_fsm_said(&world.fsm, world.now, attempt, ROTA_WORKER_OVER);
    look(&world);
    assert_int_equal(world.n[ROTA_WORKER_DO_SAY], 0);
    assert_int_equal(world.n[ROTA_WORKER_DO_FORGET], 1);
    free_world(&world);
}

static void a_number_is_not_used_again_while_a_call_names_it(void **state)
{
    struct world world;
    (void)state;
    begin(&world, (struct rota_worker_fsm_options){.slots = 2});
    uint32_t attempt = bring(&world, 0, 1);
    look_at(&world, ROTA_WORKER_FSM_EXTEND);
    assert_int_equal(world.n[ROTA_WORKER_DO_EXTEND], 1);
    end(&world, attempt, 0, 0);
    rota_worker_fsm_said(&world.fsm, world.now, attempt, ROTA_WORKER_YES);
    look(&world);
    assert_int_equal(world.n[ROTA_WORKER_DO_FORGET], 0);
    assert_int_not_equal(bring(&world, 0, 1), attempt);
    rota_worker_fsm_extended(&world.fsm, world.now, attempt, 0, ROTA_WORKER_OVER);
    look(&world);
    assert_int_equal(world.n[ROTA_WORKER_DO_FORGET], 1);
    free_world(&world);
}

/* --- being stopped --- */

static void an_attempt_that_is_over_is_stopped_and_not_reported(void **state)
{
    struct world world;
    (void)state;
    begin(&world, (struct rota_worker_fsm_options){.kill_after = 5 * ROTA_SEC});
    uint32_t attempt = bring(&world, 0, 1);
    look_at(&world, ROTA_WORKER_FSM_EXTEND);
    rota_worker_fsm_extended(&world.fsm, world.now, attempt, 0, ROTA_WORKER_OVER);
    look(&world);
    assert_int_equal(world.n[ROTA_WORKER_DO_TELL_END], 1);
    assert_int_equal(world.n[ROTA_WORKER_DO_KILL], 0);
    look_at(&world, world.now + 5 * ROTA_SEC - 1);
    assert_int_equal(world.n[ROTA_WORKER_DO_KILL] + world.n[ROTA_WORKER_DO_EXTEND], 0);
    look_at(&world, world.now + 1);
    assert_int_equal(world.n[ROTA_WORKER_DO_KILL], 1);
    assert_int_equal(world.n[ROTA_WORKER_DO_POLL], 0); /* the slot is taken until it has ended */
    end(&world, attempt, 0, 9);
    assert_int_equal(world.n[ROTA_WORKER_DO_SAY], 0);
    assert_int_equal(world.n[ROTA_WORKER_DO_FORGET], 1);
    assert_int_equal(world.n[ROTA_WORKER_DO_POLL], 1);
    free_world(&world);
}

static void a_command_that_times_out_has_failed_whatever_its_exit_code(void **state)
{
    struct world world;
    (void)state;
    begin(&world, (struct rota_worker_fsm_options){.timeout = 10 * ROTA_SEC});
    rota_worker_fsm_polled(&world.fsm, 0, 0, ROTA_WORKER_YES, 1);
    uint32_t attempt = take(&world, 0, 3 * ROTA_SEC, true); /* the job's own is shorter */
    look_at(&world, 3 * ROTA_SEC - 1);
    assert_int_equal(world.n[ROTA_WORKER_DO_TELL_END], 0);
    look_at(&world, 3 * ROTA_SEC);
    assert_int_equal(world.n[ROTA_WORKER_DO_TELL_END], 1);
    end(&world, attempt, 0, 0);
    assert_int_equal(world.last[ROTA_WORKER_DO_SAY].cause, ROTA_JOB_CAUSE_FAILED);
    free_world(&world);
}

static void after_the_jobs_timeout_a_command_is_dead_before_another_attempt_begins(void **state)
{
    struct world world;
    (void)state;
    begin(&world, (struct rota_worker_fsm_options){.kill_after = ROTA_MIN, .lease = ROTA_HOUR});
    rota_worker_fsm_polled(&world.fsm, 0, 0, ROTA_WORKER_YES, 1);
    uint32_t attempt = take(&world, 0, 3 * ROTA_SEC, true);
    look_at(&world, 3 * ROTA_SEC);
    assert_int_equal(world.n[ROTA_WORKER_DO_TELL_END], 1);
    assert_int_equal(world.n[ROTA_WORKER_DO_KILL], 0);
    look_at(&world, 3 * ROTA_SEC + ROTA_JOB_TIMEOUT_GRACE / 2);
    assert_int_equal(world.n[ROTA_WORKER_DO_KILL], 1);
    end(&world, attempt, 0, 9);
    assert_int_equal(world.last[ROTA_WORKER_DO_SAY].cause, ROTA_JOB_CAUSE_FAILED);
    free_world(&world);
}

static void a_result_without_end_is_a_failure(void **state)
{
    struct world world;
    (void)state;
    begin(&world, (struct rota_worker_fsm_options){0});
    uint32_t attempt = bring(&world, 0, 1);
    rota_worker_fsm_overflowed(&world.fsm, 0, attempt);
    rota_worker_fsm_overflowed(&world.fsm, 0, attempt);
    look(&world);
    assert_int_equal(world.n[ROTA_WORKER_DO_TELL_END], 1);
    end(&world, attempt, 0, 0);
    assert_int_equal(world.last[ROTA_WORKER_DO_SAY].cause, ROTA_JOB_CAUSE_FAILED);
    free_world(&world);
}

static void a_command_is_dead_before_its_lease_can_be_over(void **state)
{
    struct world world;
    (void)state;
    begin(&world,
          (struct rota_worker_fsm_options){.lease = 60 * ROTA_SEC, .kill_after = 5 * ROTA_SEC});
    uint32_t attempt = bring(&world, 0, 1);
    rota_time extended_at = 0;
    look_at(&world, ROTA_WORKER_FSM_EXTEND);
    assert_int_equal(world.n[ROTA_WORKER_DO_EXTEND], 1);
    extended_at = world.now;
    rota_worker_fsm_extended(&world.fsm, world.now + ROTA_SEC, attempt, extended_at,
                             ROTA_WORKER_YES);
    bool is_told = false, is_killed = false;
    while (!is_killed) { /* nobody answers any more */
        look_at(&world, rota_worker_fsm_deadline(&world.fsm));
        is_told |= world.n[ROTA_WORKER_DO_TELL_END] > 0;
        is_killed = world.n[ROTA_WORKER_DO_KILL] > 0;
        if (world.n[ROTA_WORKER_DO_EXTEND] > 0)
            rota_worker_fsm_extended(&world.fsm, world.now, attempt, world.now,
                                     ROTA_WORKER_UNKNOWN);
        assert_true(world.now <= extended_at + 60 * ROTA_SEC);
    }
    assert_true(is_told && world.now == extended_at + 60 * ROTA_SEC);
    end(&world, attempt, 0, 9);
    assert_int_equal(world.last[ROTA_WORKER_DO_SAY].cause, ROTA_JOB_CAUSE_GIVEN_BACK);
    free_world(&world);
}

static void a_short_lease_is_extended_in_its_first_quarter(void **state)
{
    struct world world;
    (void)state;
    begin(&world,
          (struct rota_worker_fsm_options){.lease = 4 * ROTA_SEC, .kill_after = ROTA_SEC / 10});
    bring(&world, 0, 1);
    look_at(&world, ROTA_SEC - 1);
    assert_int_equal(world.n[ROTA_WORKER_DO_EXTEND], 0);
    look_at(&world, ROTA_SEC);
    assert_int_equal(world.n[ROTA_WORKER_DO_EXTEND], 1);
    free_world(&world);
}

static void the_lease_is_counted_from_the_poll_or_the_extension(void **state)
{
    struct world world;
    (void)state;
    begin(&world, (struct rota_worker_fsm_options){.lease = 60 * ROTA_SEC});
    uint32_t attempt = bring(&world, 0, 1);
    assert_true(world.fsm.attempts[attempt].lease_until < 60 * ROTA_SEC);
    rota_worker_fsm_extended(&world.fsm, 9 * ROTA_SEC, attempt, 2 * ROTA_SEC, ROTA_WORKER_YES);
    assert_int_equal(world.fsm.attempts[attempt].lease_until, 62 * ROTA_SEC);
    free_world(&world);
}

/* --- leaving --- */

static void leaving_finishes_running_commands_and_stops_polling(void **state)
{
    struct world world;
    (void)state;
    begin(&world, (struct rota_worker_fsm_options){.slots = 2, .drain = 30 * ROTA_SEC});
    uint32_t attempt = bring(&world, 0, 1);
    leave(&world);
    assert_int_equal(world.n[ROTA_WORKER_DO_UNPOLL], 1);
    assert_int_equal(world.n[ROTA_WORKER_DO_TELL_END], 0);
    assert_false(rota_worker_fsm_is_over(&world.fsm, world.now));
    take(&world, 0, 0, false); /* it crossed the word that nothing is wanted */
    end(&world, attempt, 0, 0);
    assert_int_equal(world.n[ROTA_WORKER_DO_POLL], 0);
    assert_int_equal(world.n[ROTA_WORKER_DO_SAY], 2);
    rota_worker_fsm_said(&world.fsm, world.now, 0, ROTA_WORKER_YES);
    rota_worker_fsm_said(&world.fsm, world.now, 1, ROTA_WORKER_YES);
    look(&world);
    assert_true(rota_worker_fsm_is_over(&world.fsm, world.now));
    free_world(&world);
}

static void jobs_not_done_in_time_are_returned(void **state)
{
    struct world world;
    (void)state;
    begin(&world, (struct rota_worker_fsm_options){.drain = 30 * ROTA_SEC});
    uint32_t attempt = bring(&world, 0, 1);
    leave(&world);
    look_at(&world, 30 * ROTA_SEC);
    assert_int_equal(world.n[ROTA_WORKER_DO_TELL_END], 1);
    end(&world, attempt, 0, 0); /* it was told to stop: that is no success */
    assert_int_equal(world.last[ROTA_WORKER_DO_SAY].cause, ROTA_JOB_CAUSE_GIVEN_BACK);
    free_world(&world);
}

static void a_second_signal_kills_all_and_shortens_patience(void **state)
{
    struct world world;
    (void)state;
    begin(&world, (struct rota_worker_fsm_options){.slots = 3, .drain = ROTA_HOUR});
    bring(&world, 0, 3);
    leave(&world);
    world.now = ROTA_SEC;
    leave(&world);
    assert_int_equal(world.n[ROTA_WORKER_DO_KILL], 3);
    assert_int_equal(world.n[ROTA_WORKER_DO_TELL_END], 0);
    assert_false(rota_worker_fsm_is_over(&world.fsm, world.now));
    assert_true(rota_worker_fsm_is_over(&world.fsm, world.now + ROTA_WORKER_FSM_HURRY));
    leave(&world); /* a third time changes nothing */
    assert_int_equal(world.n[ROTA_WORKER_DO_KILL], 0);
    free_world(&world);
}

/* Whatever happens in whatever order: no more commands than slots, every attempt comes to
 * its end, and nothing is asked for twice. */
static void by_chance(uint64_t seed)
{
    enum { SLOTS = 3, NODES = 2, PLACES = SLOTS * (NODES + 2) };
    struct world world;
    struct rota_random random;
    bool runs[PLACES] = {0}, extends[PLACES] = {0}, says[PLACES] = {0}, polls[NODES] = {0};
    size_t n_running = 0;
    rota_random_init(&random, seed);
    world = (struct world){0};
    assert_true(
        rota_worker_fsm_init(&world.fsm, &(struct rota_worker_fsm_options){.slots = SLOTS,
                                                                           .n_nodes = NODES,
                                                                           .timeout = 20 * ROTA_SEC,
                                                                           .drain = 5 * ROTA_SEC,
                                                                           .seed = seed}));
    for (int step = 0; step < 2000 && !rota_worker_fsm_is_over(&world.fsm, world.now); step++) {
        struct rota_worker_action action;
        for (size_t place = 0; rota_worker_fsm_next(&world.fsm, world.now, &place, &action);)
            switch (action.type) {
            case ROTA_WORKER_DO_POLL:
                assert_true(!polls[action.node] && action.n_jobs > 0 && !world.fsm.is_leaving);
                polls[action.node] = true;
                break;
            case ROTA_WORKER_DO_UNPOLL:
                assert_true(polls[action.node]);
                polls[action.node] = false;
                break;
            case ROTA_WORKER_DO_EXTEND:
                assert_true(runs[action.attempt] && !extends[action.attempt]);
                extends[action.attempt] = true;
                break;
            case ROTA_WORKER_DO_TELL_END:
            case ROTA_WORKER_DO_KILL:
                assert_true(runs[action.attempt]);
                break;
            case ROTA_WORKER_DO_SAY:
                assert_true(!runs[action.attempt] && !says[action.attempt]);
                says[action.attempt] = true;
                break;
            case ROTA_WORKER_DO_FORGET:
                assert_false(runs[action.attempt] || extends[action.attempt] ||
                             says[action.attempt]);
                break;
            }
        assert_true(rota_worker_fsm_deadline(&world.fsm) > world.now);
        world.now += (rota_time)rota_random_below(&random, 2 * ROTA_SEC);
        enum rota_worker_answer answer = (enum rota_worker_answer)rota_random_below(&random, 3);
        uint32_t node = (uint32_t)rota_random_below(&random, NODES),
                 attempt = (uint32_t)rota_random_below(&random, PLACES);
        if (polls[node] && rota_random_below(&random, 3) == 0) {
            size_t n = answer == ROTA_WORKER_YES ? world.fsm.nodes[node].n_asked : 0;
            polls[node] = false;
            rota_worker_fsm_polled(&world.fsm, world.now, node, answer, n);
            for (bool starts; n > 0; n--) {
                uint32_t taken = rota_worker_fsm_taken(&world.fsm, world.now, node, 0, &starts);
                assert_int_not_equal(taken, ROTA_WORKER_FSM_NONE);
                runs[taken] = starts;
                n_running += starts;
            }
            assert_true(n_running <= SLOTS);
        } else if (extends[attempt]) {
            extends[attempt] = false;
            rota_worker_fsm_extended(&world.fsm, world.now, attempt, world.now, answer);
        } else if (says[attempt]) {
            says[attempt] = false;
            rota_worker_fsm_said(&world.fsm, world.now, attempt, answer);
        } else if (runs[attempt]) {
            runs[attempt] = false;
            n_running--;
            rota_worker_fsm_ended(&world.fsm, world.now, attempt, (int)answer, 0);
        } else if (rota_random_below(&random, 300) == 0) {
            rota_worker_fsm_stop(&world.fsm, world.now);
        }
    }
    free_world(&world);
}

static void nothing_is_lost_or_doubled_by_chance(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++)
        by_chance(seed);
}

static void zero_options_mean_the_defaults(void **state)
{
    struct world world;
    (void)state;
    begin(&world, (struct rota_worker_fsm_options){0});
    assert_int_equal(world.fsm.options.slots, 1);
    assert_int_equal(world.fsm.options.n_nodes, 1);
    assert_int_equal(world.fsm.options.lease, 60 * ROTA_SEC);
    assert_int_equal(world.fsm.options.kill_after, 5 * ROTA_SEC);
    assert_int_equal(world.fsm.options.retry_after, 10 * ROTA_SEC);
    assert_int_equal(world.fsm.n_places, 3);
    free_world(&world);
    begin(&world, (struct rota_worker_fsm_options){.slots = 4,
                                                   .n_nodes = 2,
                                                   .lease = 8 * ROTA_SEC,
                                                   .kill_after = ROTA_SEC,
                                                   .retry_after = 1});
    assert_int_equal(world.fsm.options.lease, 8 * ROTA_SEC);
    assert_int_equal(world.fsm.options.kill_after, ROTA_SEC);
    assert_int_equal(world.fsm.options.retry_after, 1);
    assert_int_equal(world.fsm.n_places, 16);
    for (size_t i = 0; i < ROTA_WORKER_FSM_NODES_MAX; i++)
        assert_true(world.fsm.nodes[i].backoff.max > 0);
    free_world(&world);
}

static void reasons_to_stop_a_command_have_words(void **state)
{
    (void)state;
    assert_null(rota_worker_fsm_stop_text(ROTA_WORKER_STOP_NONE));
    assert_string_equal(rota_worker_fsm_stop_text(ROTA_WORKER_STOP_OVER), "the attempt is over");
    assert_string_equal(rota_worker_fsm_stop_text(ROTA_WORKER_STOP_TIMEOUT), "it timed out");
    assert_string_equal(rota_worker_fsm_stop_text(ROTA_WORKER_STOP_LEASE),
                        "its node was unreachable");
    assert_string_equal(rota_worker_fsm_stop_text(ROTA_WORKER_STOP_LEAVING),
                        "its worker is stopping");
    assert_string_equal(rota_worker_fsm_stop_text(ROTA_WORKER_STOP_RESULT),
                        "its output exceeds the maximum size of a result");
}

static void attempt_that_is_over_while_it_is_stopped_is_not_reported(void **state)
{
    struct world world;
    (void)state;
    begin(&world, (struct rota_worker_fsm_options){.n_nodes = 1, .slots = 1});
    rota_worker_fsm_polled(&world.fsm, world.now, 0, ROTA_WORKER_YES, 1);
    uint32_t attempt = take(&world, 0, ROTA_SEC, true);
    look_at(&world, ROTA_SEC); /* it has timed out */
    assert_int_equal(world.fsm.attempts[attempt].why, ROTA_WORKER_STOP_TIMEOUT);
    rota_worker_fsm_extended(&world.fsm, world.now, attempt, 0, ROTA_WORKER_OVER);
    assert_int_equal(world.fsm.attempts[attempt].why, ROTA_WORKER_STOP_OVER);
    end(&world, attempt, 0, 15);
    assert_int_equal(world.n[ROTA_WORKER_DO_SAY], 0);
    free_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_is_asked_for_as_many_as_there_are_free_slots),
        cmocka_unit_test(jobs_above_the_slots_are_returned_at_once),
        cmocka_unit_test(a_failing_node_is_asked_again_later_and_others_at_once),
        cmocka_unit_test(a_command_that_cannot_start_costs_no_attempt_and_causes_a_pause),
        cmocka_unit_test(the_exit_code_decides),
        cmocka_unit_test(an_end_is_repeated_until_it_is_answered),
        cmocka_unit_test(a_number_is_not_used_again_while_a_call_names_it),
        cmocka_unit_test(an_attempt_that_is_over_is_stopped_and_not_reported),
        cmocka_unit_test(a_command_that_times_out_has_failed_whatever_its_exit_code),
        cmocka_unit_test(after_the_jobs_timeout_a_command_is_dead_before_another_attempt_begins),
        cmocka_unit_test(a_result_without_end_is_a_failure),
        cmocka_unit_test(a_command_is_dead_before_its_lease_can_be_over),
        cmocka_unit_test(a_short_lease_is_extended_in_its_first_quarter),
        cmocka_unit_test(the_lease_is_counted_from_the_poll_or_the_extension),
        cmocka_unit_test(leaving_finishes_running_commands_and_stops_polling),
        cmocka_unit_test(jobs_not_done_in_time_are_returned),
        cmocka_unit_test(a_second_signal_kills_all_and_shortens_patience),
        cmocka_unit_test(nothing_is_lost_or_doubled_by_chance),
        cmocka_unit_test(zero_options_mean_the_defaults),
        cmocka_unit_test(reasons_to_stop_a_command_have_words),
        cmocka_unit_test(attempt_that_is_over_while_it_is_stopped_is_not_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
