/* Which worker may end an attempt, how often, and what an invalid end does. */
#include "broker_rules.h"

#include <string.h>

static enum rota_code end_of(uint64_t session, struct rota_job_id id, enum rota_job_cause cause,
                             struct rota_str result, struct rota_str reason)
{
    struct rota_attempt_end end = {.queue = rota_str("q"),
                                   .id = id,
                                   .attempt = bench_view(&bench, id).attempt,
                                   .session = session,
                                   .cause = cause,
                                   .bytes = result,
                                   .reason = reason};
    bench.number = 0;
    enum rota_code code =
        rota_broker_end(bench.broker, bench.now, &end, &bench.number, &bench.error);
    bench_settle(&bench);
    return code;
}

static struct rota_str reason_of(struct rota_job_id id)
{
    return bench_view(&bench, id).reason;
}

/* --- who --- */

static void only_the_session_that_has_an_attempt_ends_it(void **state)
{
    (void)state;
    struct rota_str none = rota_str("");
    struct rota_job_id id = bench_add(&bench, "x");
    uint64_t victim = bench_open(&bench, "victim", 1), thief = bench_open(&bench, "thief", 1);
    assert_int_equal(bench_session_of(&bench, id), victim);
    assert_int_equal(end_of(thief, id, ROTA_JOB_CAUSE_DONE, rota_str("stolen"), none),
                     ROTA_ERR_STALE);
    assert_int_equal(end_of(thief, id, ROTA_JOB_CAUSE_FAILED, none, none), ROTA_ERR_STALE);
    assert_int_equal(rota_broker_extend(bench.broker, bench.now, rota_str("q"), id,
                                        bench_view(&bench, id).attempt, thief, 0, rota_str("mine"),
                                        NULL),
                     ROTA_ERR_STALE);
    assert_int_equal(end_of(ROTA_BROKER_NO_SESSION, id, ROTA_JOB_CAUSE_DONE, rota_str("x"), none),
                     ROTA_ERR_STALE);
    assert_int_equal(rota_broker_extend(bench.broker, bench.now, rota_str("q"), id,
                                        bench_view(&bench, id).attempt, ROTA_BROKER_NO_SESSION, 0,
                                        rota_str("mine"), NULL),
                     ROTA_ERR_STALE);
    assert_int_equal(rota_broker_lose(bench.broker, bench.now, rota_str("q"), id,
                                      bench_view(&bench, id).attempt, &bench.number, NULL),
                     ROTA_ERR_STALE);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    assert_int_equal(bench_view(&bench, id).progress.size, 0);
    assert_int_equal(end_of(victim, id, ROTA_JOB_CAUSE_DONE, rota_str("real"), none), ROTA_OK);
    assert_true(rota_str_is_equal(bench_view(&bench, id).result, rota_str("real")));
    assert_true(rota_str_is_equal(bench_view(&bench, id).worker, rota_str("victim")));
}

static void a_caller_without_a_session_ends_the_attempt_of_a_poll(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open_spec(
        &bench, (struct rota_worker_spec){
                    .name = rota_str("poller"), .slots = 1, .lease = ROTA_SEC, .is_poll = true});
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
    assert_int_equal(
        end_of(ROTA_BROKER_NO_SESSION, id, ROTA_JOB_CAUSE_DONE, rota_str("x"), rota_str("")),
        ROTA_OK);
}

static void after_a_restart_no_worker_takes_over_another_names_attempt(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open(&bench, "victim", 1);
    uint64_t attempt = bench_view(&bench, id).attempt;
    bench_restart(&bench);
    uint64_t thief = bench_open_running(&bench, "thief", id, attempt, 1);
    assert_int_equal(bench_last(&bench, ROTA_WORK_DO_CANCEL).session, thief);
    assert_true(rota_str_is_equal(bench_view(&bench, id).worker, rota_str("victim")));
    uint64_t victim = bench_open_running(&bench, "victim", id, attempt, 1);
    assert_int_equal(end_of(victim, id, ROTA_JOB_CAUSE_DONE, rota_str("real"), rota_str("")),
                     ROTA_OK);
}

static void an_attempt_is_not_guessed_from_others(void **state)
{
    enum { N = 512 };
    static uint64_t attempts[2][N];
    (void)state;
    for (size_t round = 0; round < 2; round++) {
        bench_deinit(&bench);
        bench.options = (struct rota_broker_options){.seed = 7, .secret = 1000 + round};
        bench_init(&bench);
        bench_open(&bench, "w", N);
        for (size_t i = 0; i < N; i++)
            attempts[round][i] = bench_view(&bench, bench_add(&bench, "x")).attempt;
    }
    bool seen[128] = {false};
    size_t n_seen = 0, n_same = 0, n_above = 0;
    for (size_t i = 0; i < N; i++) {
        uint32_t low = (uint32_t)attempts[0][i];
        assert_int_equal(attempts[0][i] >> 32, 1);
        assert_true(low >> 24 < 128);
        n_seen += !seen[low >> 24];
        seen[low >> 24] = true;
        n_same += attempts[0][i] == attempts[1][i];
        n_above += i > 0 && attempts[0][i] > attempts[0][i - 1];
    }
    assert_true(n_seen > 100);   /* all of the range is used */
    assert_int_equal(n_same, 0); /* by the secret alone */
    assert_true(n_above > N / 4 && n_above < N / 4 * 3);
}

static void the_attempts_of_a_job_grow_by_steps_that_are_not_guessed(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    bench_open(&bench, "v", 1);
    bench_open(&bench, "w", 1);
    uint64_t last = 0, life = 0, session = 0;
    for (int i = 0; i < 600; i++) {
        /* The two workers take turns, also when another life begins. */
        assert_int_not_equal(bench_session_of(&bench, id), session);
        session = bench_session_of(&bench, id);
        uint64_t attempt = bench_view(&bench, id).attempt;
        assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
        assert_true(attempt > last);
        life = attempt >> 32;
        last = attempt;
        struct rota_attempt_end end = {.queue = rota_str("q"),
                                       .id = id,
                                       .attempt = attempt,
                                       .cause = ROTA_JOB_CAUSE_GIVEN_BACK,
                                       .retry_after = ROTA_MSEC};
        assert_int_equal(rota_broker_end(bench.broker, bench.now, &end, &bench.number, NULL),
                         ROTA_OK);
        bench_tick(&bench, ROTA_MSEC);
    }
    assert_true(life > 1 && life < 10); /* when too few steps were left another life began */
}

/* --- again --- */

static void a_repeated_end_with_other_bytes_is_refused(void **state)
{
    (void)state;
    struct rota_job_id done = bench_add(&bench, "a"), failed = bench_add(&bench, "b");
    bench_open(&bench, "w", 2);
    uint64_t attempts[] = {bench_view(&bench, done).attempt, bench_view(&bench, failed).attempt};
    bench_end_now(&bench, done, ROTA_JOB_CAUSE_DONE, "result");
    bench_end_now(&bench, failed, ROTA_JOB_CAUSE_FAILED, "reason");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(bench_end(&bench, done, attempts[0], ROTA_JOB_CAUSE_DONE, "result"),
                         ROTA_OK);
        assert_int_equal(bench_end(&bench, done, attempts[0], ROTA_JOB_CAUSE_DONE, "resulT"),
                         ROTA_ERR_STALE);
        assert_int_equal(bench_end(&bench, done, attempts[0], ROTA_JOB_CAUSE_DONE, ""),
                         ROTA_ERR_STALE);
        assert_int_equal(bench_end(&bench, failed, attempts[1], ROTA_JOB_CAUSE_FAILED, "reason"),
                         ROTA_OK);
        assert_int_equal(bench_end(&bench, failed, attempts[1], ROTA_JOB_CAUSE_FAILED, "reasons"),
                         ROTA_ERR_STALE);
        bench_restart(&bench);
    }
    assert_true(rota_str_is_equal(bench_view(&bench, done).result, rota_str("result")));
    assert_true(rota_str_is_equal(reason_of(failed), rota_str("reason")));
}

/* --- ends that can't be --- */

static void an_invalid_end_fails_its_attempt_and_no_other(void **state)
{
    (void)state;
    static char large[ROTA_JOB_PAYLOAD_MAX + 1];
    struct rota_str none = rota_str("");
    struct rota_job_id heavy = bench_add(&bench, "a"), odd = bench_add(&bench, "b"),
                       neighbour = bench_add(&bench, "c");
    uint64_t session = bench_open(&bench, "w", 3);
    assert_int_equal(
        end_of(session, heavy, ROTA_JOB_CAUSE_DONE, rota_str_of(large, sizeof large), none),
        ROTA_ERR_INVALID);
    assert_true(bench.number > 0);
    assert_int_equal(bench_state(&bench, heavy), ROTA_JOB_DELAYED);
    assert_true(rota_str_is_equal(reason_of(heavy),
                                  rota_str("the result has 16777217 bytes, more than 16777216")));
    assert_int_equal(end_of(session, odd, (enum rota_job_cause)99, none, none), ROTA_ERR_INVALID);
    assert_int_equal(bench_state(&bench, odd), ROTA_JOB_DELAYED);
    assert_true(bench_view(&bench, odd).not_before >= bench.now.wall + ROTA_JOB_BACKOFF_FIRST / 2);
    assert_true(reason_of(odd).size > 0);
    assert_int_equal(end_of(session, odd, (enum rota_job_cause)99, none, none), ROTA_ERR_INVALID);
    assert_int_equal(bench.number, 0); /* said again it changes nothing */
    assert_int_equal(bench_state(&bench, neighbour), ROTA_JOB_RUNNING);
    assert_int_equal(end_of(session, neighbour, ROTA_JOB_CAUSE_DONE, none, none), ROTA_OK);
}

static void without_a_session_an_invalid_end_changes_nothing(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "a");
    uint64_t other;
    bench_open(&bench, "w", 1);
    other = bench_open(&bench, "other", 1);
    assert_int_equal(end_of(0, id, ROTA_JOB_CAUSE_LOST, rota_str(""), rota_str("")),
                     ROTA_ERR_INVALID);
    assert_int_equal(end_of(other, id, ROTA_JOB_CAUSE_LOST, rota_str(""), rota_str("")),
                     ROTA_ERR_INVALID);
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_RUNNING);
}

static void a_long_reason_is_cut_and_marked(void **state)
{
    (void)state;
    static const char MARK[] = "... (cut)";
    char text[ROTA_JOB_REASON_MAX + 9];
    memset(text, 'x', sizeof text);
    for (size_t i = ROTA_JOB_REASON_MAX - 40; i + 1 < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xa4", 2); /* characters of two bytes */
    struct rota_str given = rota_str_of(text, sizeof text);
    struct rota_job_id id = bench_add(&bench, "a");
    uint64_t session = bench_open(&bench, "w", 1);
    assert_int_equal(rota_broker_extend(bench.broker, bench.now, rota_str("q"), id,
                                        bench_view(&bench, id).attempt, session, 0, given, NULL),
                     ROTA_OK);
    assert_int_equal(bench_view(&bench, id).progress.size, ROTA_JOB_REASON_MAX - 1);
    uint64_t attempt = bench_view(&bench, id).attempt;
    for (int i = 0; i < 2; i++) { /* the same reason, cut the same */
        struct rota_attempt_end end = {.queue = rota_str("q"),
                                       .id = id,
                                       .attempt = attempt,
                                       .cause = ROTA_JOB_CAUSE_FAILED,
                                       .reason = given};
        assert_int_equal(rota_broker_end(bench.broker, bench.now, &end, &bench.number, NULL),
                         ROTA_OK);
        bench_settle(&bench);
    }
    struct rota_str reason = reason_of(id);
    assert_int_equal(reason.size, ROTA_JOB_REASON_MAX - 1);
    size_t kept = reason.size - (sizeof MARK - 1);
    assert_memory_equal(reason.data + kept, MARK, sizeof MARK - 1);
    assert_memory_equal(reason.data, text, kept);
    assert_int_equal((unsigned char)reason.data[kept - 1], 0xa4); /* no half character */
    bench_restart(&bench);
    assert_int_equal(reason_of(id).size, ROTA_JOB_REASON_MAX - 1);
}

static void end_with_a_negative_delay_fails_the_attempt(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    uint64_t session = bench_open(&bench, "w", 1);
    struct rota_attempt_end end = {.queue = rota_str("q"),
                                   .id = id,
                                   .attempt = bench_view(&bench, id).attempt,
                                   .session = session,
                                   .cause = ROTA_JOB_CAUSE_FAILED,
                                   .retry_after = -1};
    assert_int_equal(rota_broker_end_attempt_check(&end, &bench.error), ROTA_ERR_INVALID);
    assert_string_equal(bench.error.text, "retry_after is negative");
    end.retry_after = 0;
    assert_int_equal(rota_broker_end_attempt_check(&end, &bench.error), ROTA_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(only_the_session_that_has_an_attempt_ends_it),
        RULE(a_caller_without_a_session_ends_the_attempt_of_a_poll),
        RULE(after_a_restart_no_worker_takes_over_another_names_attempt),
        RULE(an_attempt_is_not_guessed_from_others),
        RULE(the_attempts_of_a_job_grow_by_steps_that_are_not_guessed),
        RULE(a_repeated_end_with_other_bytes_is_refused),
        RULE(an_invalid_end_fails_its_attempt_and_no_other),
        RULE(without_a_session_an_invalid_end_changes_nothing),
        RULE(a_long_reason_is_cut_and_marked),
        RULE(end_with_a_negative_delay_fails_the_attempt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
