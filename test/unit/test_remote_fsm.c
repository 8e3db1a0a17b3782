/* Attempts at jobs of other nodes. */
#include "core/work/cluster/remote_fsm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LEASE (9 * ROTA_SEC)

static struct rota_job_id id_of(uint64_t number)
{
    return (struct rota_job_id){1, number};
}

static void take(struct rota_remote_fsm *fsm, rota_time now, uint64_t session, uint64_t number)
{
    struct rota_worker_running running = {rota_str("mail"), id_of(number), 10 * number};
    assert_int_equal(
        rota_remote_fsm_take(fsm, now, session, rota_str("there"), &running, LEASE, NULL), ROTA_OK);
}

static enum rota_code end(struct rota_remote_fsm *fsm, rota_time now, uint64_t number)
{
    enum rota_code code;
    char result[] = "result";
    struct rota_attempt_end said = {.queue = rota_str("mail"),
                                    .id = id_of(number),
                                    .attempt = 10 * number,
                                    .cause = ROTA_JOB_CAUSE_DONE,
                                    .bytes = rota_str(result)};
    bool is_known = rota_remote_fsm_end(fsm, now, &said, &code);
    memset(result, '-', sizeof result - 1); /* the machine has its own copy */
    return is_known ? code : ROTA_ERR_NOT_FOUND;
}

static void answered(struct rota_remote_fsm *fsm, rota_time now, uint64_t number,
                     enum rota_code code)
{
    rota_remote_fsm_answered(fsm, now, id_of(number), 10 * number, code, false);
}

/* The one action there is. */
static struct rota_remote_action only(const struct rota_remote_fsm *fsm)
{
    size_t n;
    const struct rota_remote_action *actions = rota_remote_fsm_actions(fsm, &n);
    assert_int_equal(n, 1);
    return actions[0];
}

static bool is_quiet(const struct rota_remote_fsm *fsm)
{
    size_t n;
    rota_remote_fsm_actions(fsm, &n);
    return n == 0;
}

static int set_up(void **state)
{
    *state = malloc(sizeof(struct rota_remote_fsm));
    rota_remote_fsm_init(*state, 1);
    return 0;
}

static int tear_down(void **state)
{
    rota_remote_fsm_deinit(*state);
    free(*state);
    return 0;
}

static void a_lease_is_extended_three_times(void **state)
{
    struct rota_remote_fsm *fsm = *state;
    take(fsm, 0, 7, 1);
    for (int i = 1; i < 5; i++) {
        assert_int_equal(rota_remote_fsm_deadline(fsm), i * LEASE / 3);
        rota_remote_fsm_tick(fsm, i * LEASE / 3);
        assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_EXTEND);
        assert_true(rota_str_is_equal(only(fsm).node, rota_str("there")));
        assert_true(rota_str_is_equal(only(fsm).end.queue, rota_str("mail")));
        rota_remote_fsm_clear(fsm);
        rota_remote_fsm_tick(fsm, i * LEASE / 3); /* one call at a time */
        assert_true(is_quiet(fsm));
        answered(fsm, i * LEASE / 3, 1, ROTA_OK);
    }
}

static void an_end_is_repeated_until_it_is_answered(void **state)
{
    struct rota_remote_fsm *fsm = *state;
    take(fsm, 0, 7, 1);
    assert_int_equal(end(fsm, 1, 1), ROTA_OK);
    assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_END);
    assert_true(rota_str_is_equal(only(fsm).end.bytes, rota_str("result")));
    rota_remote_fsm_clear(fsm);
    assert_int_equal(end(fsm, 2, 1), ROTA_ERR_STALE); /* said before */
    answered(fsm, 3, 1, ROTA_ERR_UNAVAILABLE);
    assert_true(is_quiet(fsm));
    rota_remote_fsm_tick(fsm, rota_remote_fsm_deadline(fsm));
    assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_END);
    assert_true(rota_str_is_equal(only(fsm).end.bytes, rota_str("result")));
    rota_remote_fsm_clear(fsm);
    answered(fsm, ROTA_SEC, 1, ROTA_OK);
    assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_TELL);
    assert_int_equal(only(fsm).session, 7);
    assert_int_equal(only(fsm).code, ROTA_OK);
    rota_remote_fsm_clear(fsm);
    assert_int_equal(end(fsm, ROTA_SEC, 1), ROTA_ERR_NOT_FOUND);
    assert_int_equal(rota_remote_fsm_deadline(fsm), ROTA_TIME_NEVER);
}

static void an_end_waits_for_an_extension_in_flight(void **state)
{
    struct rota_remote_fsm *fsm = *state;
    take(fsm, 0, 7, 1);
    rota_remote_fsm_tick(fsm, LEASE / 3);
    rota_remote_fsm_clear(fsm);
    assert_int_equal(end(fsm, LEASE / 3 + 1, 1), ROTA_OK);
    assert_true(is_quiet(fsm));
    answered(fsm, LEASE / 3 + 2, 1, ROTA_OK);
    assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_END);
}

static void an_attempt_that_is_over_there_is_cancelled_here(void **state)
{
    struct rota_remote_fsm *fsm = *state;
    take(fsm, 0, 7, 1);
    rota_remote_fsm_tick(fsm, LEASE / 3);
    rota_remote_fsm_clear(fsm);
    answered(fsm, LEASE / 3, 1, ROTA_ERR_STALE);
    assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_CANCEL);
    assert_int_equal(only(fsm).end.cause, ROTA_JOB_CAUSE_LOST); /* nobody cancelled it */
    rota_remote_fsm_clear(fsm);
    answered(fsm, LEASE / 3, 1, ROTA_ERR_STALE);
    assert_true(is_quiet(fsm));
    assert_int_equal(fsm->n_refused, 1);
}

static void the_jobs_of_a_lost_worker_are_reported_at_once(void **state)
{
    struct rota_remote_fsm *fsm = *state;
    take(fsm, 0, 7, 1);
    take(fsm, 0, 8, 2);
    assert_int_equal(rota_remote_fsm_lost(fsm, 1, 7, ROTA_JOB_CAUSE_LOST), 1);
    assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_END);
    assert_int_equal(only(fsm).end.cause, ROTA_JOB_CAUSE_LOST);
    assert_int_equal(only(fsm).end.retry_after, 0); /* it may have killed the worker */
    rota_remote_fsm_clear(fsm);
    answered(fsm, 2, 1, ROTA_OK);
    assert_true(is_quiet(fsm)); /* nobody is there to be told */
}

static void an_attempt_that_a_worker_does_not_have_is_returned(void **state)
{
    struct rota_remote_fsm *fsm = *state;
    struct rota_worker_running held[] = {{rota_str("mail"), id_of(1), 10},
                                         {rota_str("mail"), id_of(9), 90}};
    size_t n_held = 2;
    take(fsm, 0, 7, 1);
    take(fsm, 0, 7, 2);
    uint64_t n_taken = fsm->n_taken;
    take(fsm, 0, 7, 3); /* in flight when it was asked */
    assert_int_equal(rota_remote_fsm_holds(fsm, 1, 7, n_taken, held, &n_held), 1);
    assert_int_equal(n_held, 1); /* one that is no job of another node */
    assert_int_equal(held[0].attempt, 90);
    assert_int_equal(only(fsm).end.cause, ROTA_JOB_CAUSE_GIVEN_BACK);
    assert_int_equal(only(fsm).end.attempt, 20);
    assert_int_equal(rota_remote_fsm_move(fsm, 7, 8), 2);
    uint64_t session = 0;
    assert_true(rota_remote_fsm_has(fsm, id_of(3), 30, &session));
    assert_int_equal(session, 8);
}

static void progress_is_carried_with_an_extension(void **state)
{
    struct rota_remote_fsm *fsm = *state;
    take(fsm, 0, 7, 1);
    assert_true(rota_remote_fsm_progress(fsm, 1, id_of(1), 10, rota_str("half")));
    assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_EXTEND);
    assert_true(rota_str_is_equal(only(fsm).end.reason, rota_str("half")));
    assert_false(rota_remote_fsm_progress(fsm, 1, id_of(1), 11, rota_str("half")));
}

static void an_action_names_all_of_the_attempt(void **state)
{
    struct rota_remote_fsm *fsm = *state;
    take(fsm, 0, 7, 3);
    rota_remote_fsm_tick(fsm, LEASE / 3 - 1);
    assert_true(is_quiet(fsm));
    rota_remote_fsm_tick(fsm, LEASE / 3);
    struct rota_remote_action action = only(fsm);
    assert_int_equal(action.session, 7);
    assert_true(rota_str_is_equal(action.node, rota_str("there")));
    assert_true(rota_str_is_equal(action.end.queue, rota_str("mail")));
    assert_int_equal(action.end.id.high, 1);
    assert_int_equal(action.end.id.low, 3);
    assert_int_equal(action.end.attempt, 30);
    assert_int_equal(action.end.reason.size, 0);
}

static void a_call_that_fails_is_made_again_with_growing_pauses(void **state)
{
    static const rota_time PAUSES[] = {250, 500, 1000, 2000, 3000, 3000};
    struct rota_remote_fsm *fsm = *state;
    rota_time now = LEASE / 3;
    take(fsm, 0, 7, 1);
    rota_remote_fsm_tick(fsm, now);
    for (size_t i = 0; i < sizeof PAUSES / sizeof *PAUSES; i++) {
        assert_int_equal(rota_remote_fsm_deadline(fsm), ROTA_TIME_NEVER); /* it is in flight */
        rota_remote_fsm_clear(fsm);
        answered(fsm, now, 1, ROTA_ERR_UNAVAILABLE);
        now += PAUSES[i] * ROTA_MSEC;
        assert_int_equal(rota_remote_fsm_deadline(fsm), now);
        rota_remote_fsm_tick(fsm, now);
        assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_EXTEND);
    }
    rota_remote_fsm_clear(fsm);
    answered(fsm, now, 1, ROTA_OK);
    assert_int_equal(rota_remote_fsm_deadline(fsm), now + LEASE / 3);
    now += LEASE / 3;
    rota_remote_fsm_tick(fsm, now);
    rota_remote_fsm_clear(fsm);
    answered(fsm, now, 1, ROTA_ERR_LIMIT);
    assert_int_equal(rota_remote_fsm_deadline(fsm), now + ROTA_REMOTE_AGAIN); /* from the first */
}

static void each_final_answer_ends_the_attempt_and_is_counted(void **state)
{
    static const enum rota_code CODES[] = {ROTA_OK, ROTA_ERR_STALE, ROTA_ERR_NOT_FOUND,
                                           ROTA_ERR_INVALID};
    struct rota_remote_fsm *fsm = *state;
    uint64_t session;
    for (uint64_t i = 0; i < 4; i++) {
        take(fsm, 0, 7, i + 1);
        assert_int_equal(end(fsm, 1, i + 1), ROTA_OK);
        rota_remote_fsm_clear(fsm);
        answered(fsm, 2, i + 1, CODES[i]);
        assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_TELL);
        assert_int_equal(only(fsm).code, CODES[i]);
        assert_false(rota_remote_fsm_has(fsm, id_of(i + 1), 10 * (i + 1), &session));
        assert_int_equal(fsm->n_done, 1);
        assert_int_equal(fsm->n_refused, i);
        rota_remote_fsm_clear(fsm);
    }
    assert_int_equal(fsm->n_lost, 0);
}

static void one_that_was_cancelled_there_is_cancelled_here(void **state)
{
    struct rota_remote_fsm *fsm = *state;
    take(fsm, 0, 7, 1);
    rota_remote_fsm_answered(fsm, 1, id_of(1), 10, ROTA_ERR_STALE, true); /* no call is in flight */
    assert_true(is_quiet(fsm));
    rota_remote_fsm_tick(fsm, LEASE);
    rota_remote_fsm_clear(fsm);
    rota_remote_fsm_answered(fsm, LEASE, id_of(1), 10, ROTA_ERR_STALE, true);
    assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_CANCEL);
    assert_int_equal(only(fsm).end.cause, ROTA_JOB_CAUSE_CANCELLED);
    assert_int_equal(only(fsm).session, 7);
}

static void a_leaving_worker_returns_its_jobs_at_once(void **state)
{
    struct rota_remote_fsm *fsm = *state;
    take(fsm, 0, 7, 1);
    take(fsm, 0, 7, 2);
    take(fsm, 0, 8, 3);
    assert_int_equal(end(fsm, 1, 2), ROTA_OK);
    rota_remote_fsm_clear(fsm);
    assert_int_equal(rota_remote_fsm_lost(fsm, 1, 7, ROTA_JOB_CAUSE_GIVEN_BACK), 2);
    assert_int_equal(only(fsm).end.attempt, 10); /* the other one has said its end */
    assert_int_equal(only(fsm).end.cause, ROTA_JOB_CAUSE_GIVEN_BACK);
    assert_int_equal(only(fsm).end.retry_after, ROTA_MSEC);
    assert_int_equal(only(fsm).session, 0);
    assert_int_equal(fsm->n_lost, 1);
    assert_int_equal(rota_remote_fsm_lost(fsm, 1, 7, ROTA_JOB_CAUSE_LOST), 0);
}

static void progress_goes_with_one_extension_or_waits_for_it(void **state)
{
    struct rota_remote_fsm *fsm = *state;
    take(fsm, 0, 7, 1);
    assert_true(rota_remote_fsm_progress(fsm, 1, id_of(1), 10, rota_str("one")));
    rota_remote_fsm_clear(fsm);
    assert_true(rota_remote_fsm_progress(fsm, 2, id_of(1), 10, rota_str("two")));
    assert_true(is_quiet(fsm)); /* the first is in flight */
    answered(fsm, 3, 1, ROTA_OK);
    rota_remote_fsm_tick(fsm, 3 + LEASE / 3);
    assert_true(rota_str_is_equal(only(fsm).end.reason, rota_str("two")));
    rota_remote_fsm_clear(fsm);
    assert_int_equal(end(fsm, 4, 1), ROTA_OK);
    assert_true(rota_remote_fsm_progress(fsm, 5, id_of(1), 10, rota_str("late")));
    answered(fsm, 5, 1, ROTA_OK);
    assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_END);
    assert_true(rota_str_is_equal(only(fsm).end.bytes, rota_str("result")));
    assert_int_equal(only(fsm).end.reason.size, 0);
}

static void an_attempt_is_taken_once_and_there_is_a_bound(void **state)
{
    struct rota_remote_fsm *fsm = *state;
    struct rota_worker_running running = {rota_str("mail"), id_of(1), 10};
    take(fsm, 0, 7, 1);
    assert_int_equal(rota_remote_fsm_take(fsm, 0, 8, rota_str("there"), &running, LEASE, NULL),
                     ROTA_ERR_NO_MEMORY);
    for (uint64_t i = 2; i <= ROTA_REMOTE_ATTEMPTS_MAX; i++)
        take(fsm, 0, 7, i);
    running.id = id_of(ROTA_REMOTE_ATTEMPTS_MAX + 1);
    assert_int_equal(rota_remote_fsm_take(fsm, 0, 7, rota_str("there"), &running, LEASE, NULL),
                     ROTA_ERR_LIMIT);
}

#define RULE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

static enum rota_code claim(struct rota_remote_fsm *fsm, rota_time now, uint64_t session,
                            uint64_t number, bool *is_running)
{
    struct rota_worker_running running = {rota_str("mail"), id_of(number), 10 * number};
    return rota_remote_fsm_claim(fsm, now, session, rota_str("there"), &running, is_running, NULL);
}

static void a_returning_worker_continues_if_its_node_agrees(void **state)
{
    struct rota_remote_fsm *fsm = *state;
    bool is_running;
    assert_int_equal(claim(fsm, 0, 7, 1, &is_running), ROTA_OK);
    assert_true(is_running);
    assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_EXTEND);
    rota_remote_fsm_clear(fsm);
    assert_int_equal(claim(fsm, 0, 8, 1, &is_running), ROTA_ERR_STALE); /* another has it */
    answered(fsm, 1, 1, ROTA_OK);
    assert_true(is_quiet(fsm));
    assert_int_equal(claim(fsm, 2, 7, 2, &is_running), ROTA_OK);
    rota_remote_fsm_clear(fsm);
    answered(fsm, 3, 2, ROTA_ERR_STALE);
    assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_CANCEL);
    assert_int_equal(only(fsm).session, 7);
}

static void a_worker_that_returns_while_its_loss_is_reported_continues(void **state)
{
    struct rota_remote_fsm *fsm = *state;
    bool is_running;
    take(fsm, 0, 7, 1);
    rota_remote_fsm_lost(fsm, 1, 7, ROTA_JOB_CAUSE_LOST);
    assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_END);
    rota_remote_fsm_clear(fsm);
    assert_int_equal(claim(fsm, 2, 8, 1, &is_running), ROTA_OK);
    assert_true(is_running && is_quiet(fsm)); /* one call at a time */
    answered(fsm, 3, 1, ROTA_OK);
    assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_EXTEND);
    rota_remote_fsm_clear(fsm);
    answered(fsm, 4, 1, ROTA_OK);
    assert_int_equal(end(fsm, 5, 1), ROTA_OK);
    assert_int_equal(only(fsm).end.cause, ROTA_JOB_CAUSE_DONE);
}

static void the_end_of_a_returned_worker_is_not_mistaken_for_its_loss(void **state)
{
    struct rota_remote_fsm *fsm = *state;
    bool is_running;
    take(fsm, 0, 7, 1);
    rota_remote_fsm_lost(fsm, 1, 7, ROTA_JOB_CAUSE_LOST);
    rota_remote_fsm_clear(fsm);
    claim(fsm, 2, 8, 1, &is_running);
    assert_int_equal(end(fsm, 3, 1), ROTA_OK);
    answered(fsm, 4, 1, ROTA_OK); /* to the loss */
    assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_END);
    assert_int_equal(only(fsm).end.cause, ROTA_JOB_CAUSE_DONE);
    rota_remote_fsm_clear(fsm);
    answered(fsm, 5, 1, ROTA_OK);
    assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_TELL);
    assert_int_equal(only(fsm).session, 8);
}

static void an_end_that_was_not_confirmed_is_confirmed_to_the_next_session(void **state)
{
    struct rota_remote_fsm *fsm = *state;
    bool is_running = true;
    take(fsm, 0, 7, 1);
    end(fsm, 1, 1);
    rota_remote_fsm_clear(fsm);
    rota_remote_fsm_lost(fsm, 2, 7, ROTA_JOB_CAUSE_LOST);
    assert_int_equal(claim(fsm, 3, 8, 1, &is_running), ROTA_OK);
    assert_false(is_running);
    answered(fsm, 4, 1, ROTA_OK);
    assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_TELL);
    assert_int_equal(only(fsm).session, 8);
}

static void an_orphaned_attempt_is_extended_and_then_returned(void **state)
{
    struct rota_remote_fsm *fsm = *state;
    bool is_running;
    take(fsm, 0, 7, 1);
    take(fsm, 0, 7, 2);
    rota_remote_fsm_adrift(fsm, 7, LEASE / 2);
    assert_true(is_quiet(fsm));
    assert_int_equal(claim(fsm, 1, 8, 2, &is_running), ROTA_OK);
    assert_true(is_running);
    rota_remote_fsm_clear(fsm);
    rota_remote_fsm_tick(fsm, LEASE / 3);
    assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_EXTEND);
    rota_remote_fsm_clear(fsm);
    answered(fsm, LEASE / 3, 1, ROTA_OK);
    rota_remote_fsm_tick(fsm, 2 * LEASE / 3);
    assert_int_equal(only(fsm).type, ROTA_REMOTE_DO_END);
    assert_int_equal(only(fsm).end.cause, ROTA_JOB_CAUSE_GIVEN_BACK);
}

static void each_answer_of_a_worker_is_judged_alone(void **state)
{
    struct rota_remote_fsm *fsm = *state;
    take(fsm, 0, 7, 1);
    struct rota_worker_running held = {rota_str("mail"), id_of(1), 10};
    size_t n_held = 1;
    assert_int_equal(rota_remote_fsm_holds(fsm, 1, 7, 1, &held, &n_held), 0);
    n_held = 0; /* it had the attempt, and does not any more */
    assert_int_equal(rota_remote_fsm_holds(fsm, 2, 7, 1, &held, &n_held), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(a_lease_is_extended_three_times),
        RULE(an_end_is_repeated_until_it_is_answered),
        RULE(an_end_waits_for_an_extension_in_flight),
        RULE(an_attempt_that_is_over_there_is_cancelled_here),
        RULE(the_jobs_of_a_lost_worker_are_reported_at_once),
        RULE(an_attempt_that_a_worker_does_not_have_is_returned),
        RULE(progress_is_carried_with_an_extension),
        RULE(an_action_names_all_of_the_attempt),
        RULE(a_call_that_fails_is_made_again_with_growing_pauses),
        RULE(each_final_answer_ends_the_attempt_and_is_counted),
        RULE(one_that_was_cancelled_there_is_cancelled_here),
        RULE(a_leaving_worker_returns_its_jobs_at_once),
        RULE(progress_goes_with_one_extension_or_waits_for_it),
        RULE(an_attempt_is_taken_once_and_there_is_a_bound),
        RULE(a_returning_worker_continues_if_its_node_agrees),
        RULE(a_worker_that_returns_while_its_loss_is_reported_continues),
        RULE(the_end_of_a_returned_worker_is_not_mistaken_for_its_loss),
        RULE(an_end_that_was_not_confirmed_is_confirmed_to_the_next_session),
        RULE(an_orphaned_attempt_is_extended_and_then_returned),
        RULE(each_answer_of_a_worker_is_judged_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
