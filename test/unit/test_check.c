/* Histories of a cluster: each violation is reported by its name, and correct histories pass. */
#include "demo/check_claims.h"
#include "demo/check_jobs.h"
#include "demo/check_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { A, B, C };

static const char *const NODES[] = {"node-1", "node-2", "node-3"};
static const char *const P0[] = {"p0"};

static struct rota_check check;
static struct rota_check_jobs jobs;
static struct rota_check_rows rows;
static struct rota_check_claims claims;

static int set_up(void **state)
{
    (void)state;
    check = (struct rota_check){.n_told = 0};
    rota_check_jobs_init(&jobs, &check);
    rota_check_rows_init(&rows, &check);
    return rota_check_claims_init(&claims, &check, "shards", NODES, 3, 4) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    rota_check_jobs_deinit(&jobs);
    rota_check_rows_deinit(&rows);
    rota_check_claims_deinit(&claims);
    return 0;
}

/* Nothing but `n` of this. */
static void assert_told(enum rota_check_fault fault, uint64_t n)
{
    assert_int_equal(check.n[fault], n);
    assert_int_equal(rota_check_n_faults(&check), n);
    for (size_t i = 0; i < check.n_told; i++)
        assert_int_equal(check.told[i].fault, fault);
}

static void assert_nothing_told(void)
{
    assert_int_equal(rota_check_n_faults(&check), 0);
    assert_int_equal(check.n_told, 0);
}

/* --- jobs --- */

static struct rota_job_id job(uint64_t n)
{
    return (struct rota_job_id){.high = n % 3, .low = n};
}

static void end_job(uint64_t n)
{
    rota_check_jobs_ended(&jobs, job(n), ROTA_JOB_DONE, 1, true);
}

static void acknowledge(uint64_t n)
{
    for (uint64_t i = 1; i <= n; i++)
        assert_true(rota_check_jobs_acknowledged(&jobs, job(i), (rota_time)i));
}

static void list(const uint64_t *numbers, size_t n, rota_time since)
{
    rota_check_jobs_list_begin(&jobs);
    for (size_t i = 0; i < n; i++)
        rota_check_jobs_listed(&jobs, job(numbers[i]));
    rota_check_jobs_list_end(&jobs, since);
    rota_check_jobs_judge(&jobs);
}

static void jobs_done_once_pass(void **state)
{
    (void)state;
    acknowledge(4);
    for (uint64_t i = 1; i <= 3; i++) {
        rota_check_jobs_ended(&jobs, job(i), ROTA_JOB_RUNNING, 0, false);
        end_job(i);
        end_job(i); /* seen by two looks */
    }
    rota_check_jobs_ended(&jobs, job(4), ROTA_JOB_CANCELLED, 0, false);
    end_job(99); /* nobody's promise */
    list((uint64_t[]){3, 99, 1, 2}, 4, 0);
    assert_nothing_told();
    assert_int_equal(jobs.n_acknowledged, 4);
    assert_int_equal(jobs.n_done, 3);
    assert_int_equal(jobs.n_cancelled, 1);
}

static void job_without_an_end_is_lost(void **state)
{
    char text[ROTA_JOB_ID_TEXT];
    (void)state;
    acknowledge(2);
    end_job(1);
    list((uint64_t[]){1}, 1, 0);
    assert_told(ROTA_CHECK_JOB_LOST, 1);
    assert_non_null(strstr(check.told[0].text, rota_job_id_format(job(2), text)));
}

static void job_that_was_done_and_is_nowhere_is_lost(void **state)
{
    (void)state;
    acknowledge(3);
    for (uint64_t i = 1; i <= 3; i++)
        end_job(i);
    list((uint64_t[]){3}, 1, 2); /* the first is so old that it may be forgotten */
    assert_told(ROTA_CHECK_JOB_LOST, 1);
}

static void job_that_is_done_twice_is_reported(void **state)
{
    (void)state;
    acknowledge(2);
    rota_check_jobs_ended(&jobs, job(1), ROTA_JOB_DONE, 2, true);
    assert_told(ROTA_CHECK_JOB_TWICE, 1);
    end_job(2);
    list((uint64_t[]){1, 2, 2, 2}, 4, 0);
    assert_told(ROTA_CHECK_JOB_TWICE, 2);
}

static void restarted_list_counts_alone(void **state)
{
    (void)state;
    acknowledge(1);
    end_job(1);
    rota_check_jobs_list_begin(&jobs);
    rota_check_jobs_listed(&jobs, job(1));
    list((uint64_t[]){1}, 1, 0);
    assert_nothing_told();
}

static void dead_job_is_reported(void **state)
{
    (void)state;
    acknowledge(1);
    rota_check_jobs_ended(&jobs, job(1), ROTA_JOB_DEAD, 0, false);
    list(NULL, 0, 0);
    assert_told(ROTA_CHECK_JOB_DEAD, 1);
}

static void wrong_result_is_reported(void **state)
{
    (void)state;
    acknowledge(1);
    rota_check_jobs_ended(&jobs, job(1), ROTA_JOB_DONE, 1, false);
    assert_told(ROTA_CHECK_JOB_WRONG, 1);
}

/* --- Gets --- */

static void answer(enum rota_get_state state, const char *value, const char *expected)
{
    const struct rota_get_item item = {.state = state, .value = rota_str(value)};
    rota_check_get(&check, "key", &item, expected);
}

static void right_answers_pass(void **state)
{
    (void)state;
    answer(ROTA_GET_KEY_FOUND, "value", "value");
    answer(ROTA_GET_KEY_ABSENT, "", NULL);
    assert_nothing_told();
}

static void a_counter_counts_one_by_one(void **state)
{
    (void)state;
    uint64_t value = rota_check_count(&check, "c", 0, rota_str("7")); /* from an earlier run */
    value = rota_check_count(&check, "c", value, rota_str("8"));
    assert_int_equal(rota_check_count(&check, "c", value, rota_str("9")), 9);
    assert_nothing_told();
}

static void a_counter_that_jumps_or_falls_is_reported(void **state)
{
    (void)state;
    rota_check_count(&check, "c", 7, rota_str("7"));
    rota_check_count(&check, "c", 7, rota_str("9"));
    rota_check_count(&check, "c", 7, rota_str("3"));
    rota_check_count(&check, "c", 0, rota_str("nothing"));
    assert_told(ROTA_CHECK_COUNT_WRONG, 4);
}

static void wrong_value_is_reported(void **state)
{
    (void)state;
    answer(ROTA_GET_KEY_FOUND, "other", "value");
    answer(ROTA_GET_KEY_FOUND, "value", NULL);
    answer(ROTA_GET_KEY_ABSENT, "", "value");
    assert_told(ROTA_CHECK_GET_WRONG, 3);
}

static void unanswered_get_is_reported(void **state)
{
    (void)state;
    answer(ROTA_GET_KEY_MISSING, "", "value");
    answer(ROTA_GET_KEY_MISSING, "", NULL);
    assert_told(ROTA_CHECK_GET_UNANSWERED, 2);
}

/* --- rows --- */

static void seed(const char *name)
{
    rota_check_rows_made(&rows, name, NULL, 0);
}

static void start(const char *name, uint64_t token, uint64_t who, int64_t mark, rota_time at)
{
    rota_check_rows_start(&rows, name, token, who, mark, at);
}

static void read_rows(const char *name, uint64_t token, uint64_t who, int64_t from, int64_t to,
                      rota_time at)
{
    rota_check_rows_read(&rows, name, token, who, from, to, at);
}

static void rows_read_in_order_pass(void **state)
{
    (void)state;
    seed("p0");
    /* The lines of the second reader come before the last one of the first. */
    start("p0", 1, A, 0, 10);
    read_rows("p0", 1, A, 0, 5, 11);
    rota_check_rows_progress(&rows, "p0", 1, 4);
    start("p0", 7, B, 4, 20); /* who reads row 4 again: the first died before that counted */
    read_rows("p0", 7, B, 4, 8, 21);
    read_rows("p0", 1, A, 5, 6, 12);
    rota_check_rows_ended(&rows, "p0", 8);
    rota_check_rows_made(&rows, "p0.0", P0, 1);
    start("p0.0", 9, A, 8, 22);
    rota_check_rows_await(&rows);
    assert_int_equal(rows.n_awaited, 1);
    read_rows("p0.0", 9, A, 8, 9, 23);
    assert_int_equal(rows.n_awaited, 0);
    rota_check_rows_judge(&rows);
    assert_nothing_told();
    assert_int_equal(rows.n_rows, 9);
}

static void two_become_one_where_either_ends(void **state)
{
    static const char *const BOTH[] = {"p0", "p1"};
    (void)state;
    seed("p0");
    seed("p1");
    start("p0", 1, A, 0, 1);
    start("p1", 1, A, 0, 1);
    read_rows("p0", 1, A, 0, 5, 2);
    read_rows("p1", 1, A, 0, 7, 2);
    rota_check_rows_ended(&rows, "p0", 5);
    rota_check_rows_made(&rows, "both", BOTH, 2);
    rota_check_rows_await(&rows);
    assert_int_equal(rows.n_awaited, 1); /* p1: the child can't be read yet */
    rota_check_rows_ended(&rows, "p1", 7);
    start("both", 4, B, 5, 3);
    rota_check_rows_judge(&rows);
    assert_nothing_told();
}

static void row_that_a_reader_leaves_out_is_lost(void **state)
{
    (void)state;
    seed("p0");
    start("p0", 1, A, 0, 10);
    read_rows("p0", 1, A, 0, 2, 11);
    read_rows("p0", 1, A, 3, 4, 12);
    rota_check_rows_judge(&rows);
    assert_told(ROTA_CHECK_ROW_LOST, 1);
}

static void row_between_two_readers_is_lost(void **state)
{
    (void)state;
    seed("p0");
    start("p0", 1, A, 0, 10);
    read_rows("p0", 1, A, 0, 2, 11);
    start("p0", 2, B, 3, 20);
    rota_check_rows_judge(&rows);
    assert_told(ROTA_CHECK_ROW_LOST, 1);
    assert_string_equal(check.told[0].text, "rows 2 to 2 of partition p0 were skipped");
}

static void rows_before_the_first_reader_are_lost(void **state)
{
    (void)state;
    seed("p0");
    start("p0", 1, A, 2, 10);
    rota_check_rows_judge(&rows);
    assert_told(ROTA_CHECK_ROW_LOST, 1);
}

static void child_that_begins_above_its_parents_has_lost_rows(void **state)
{
    (void)state;
    seed("p0");
    start("p0", 1, A, 0, 1);
    read_rows("p0", 1, A, 0, 5, 2);
    rota_check_rows_ended(&rows, "p0", 5);
    rota_check_rows_made(&rows, "p0.0", P0, 1);
    rota_check_rows_made(&rows, "p0.1", P0, 1);
    start("p0.0", 3, A, 6, 3);
    rota_check_rows_judge(&rows);
    assert_told(ROTA_CHECK_ROW_LOST, 1);
}

static void row_that_a_reader_repeats_is_reported(void **state)
{
    (void)state;
    seed("p0");
    start("p0", 1, A, 0, 10);
    read_rows("p0", 1, A, 0, 2, 11);
    read_rows("p0", 1, A, 1, 3, 12);
    rota_check_rows_judge(&rows);
    assert_told(ROTA_CHECK_ROW_TWICE, 1);
}

static void row_that_had_counted_is_read_once(void **state)
{
    (void)state;
    seed("p0");
    start("p0", 1, A, 0, 10);
    read_rows("p0", 1, A, 0, 5, 11);
    start("p0", 2, B, 3, 20);
    rota_check_rows_progress(&rows, "p0", 1, 4); /* told late */
    rota_check_rows_judge(&rows);
    assert_told(ROTA_CHECK_ROW_TWICE, 1);
}

static void row_after_the_end_is_reported(void **state)
{
    (void)state;
    seed("p0");
    start("p0", 1, A, 0, 10);
    read_rows("p0", 1, A, 0, 5, 11);
    rota_check_rows_ended(&rows, "p0", 5);
    read_rows("p0", 1, A, 5, 6, 12);
    rota_check_rows_judge(&rows);
    assert_told(ROTA_CHECK_ROW_TWICE, 1);
}

static void earlier_reader_that_continues_is_late_in_either_order(void **state)
{
    (void)state;
    seed("p0");
    seed("p1");
    start("p0", 1, A, 0, 10);
    start("p0", 2, B, 0, 20);
    read_rows("p0", 1, A, 0, 1, 20); /* the same moment is none after */
    assert_nothing_told();
    read_rows("p0", 1, A, 1, 2, 21);
    read_rows("p0", 1, A, 2, 3, 22);
    assert_told(ROTA_CHECK_ROW_LATE, 1);
    start("p1", 1, A, 0, 10);
    read_rows("p1", 1, A, 0, 1, 21);
    start("p1", 2, B, 0, 20);
    assert_told(ROTA_CHECK_ROW_LATE, 2);
}

static void reader_between_two_others_is_late_too(void **state)
{
    (void)state;
    seed("p0");
    start("p0", 3, C, 0, 30);
    start("p0", 1, A, 0, 10);
    start("p0", 2, B, 0, 20);
    read_rows("p0", 1, A, 0, 1, 25); /* before the last one began, after the second */
    assert_told(ROTA_CHECK_ROW_LATE, 1);
}

static void token_of_two_readers_is_reported(void **state)
{
    (void)state;
    seed("p0");
    start("p0", 1, A, 0, 10);
    start("p0", 1, B, 0, 11);
    assert_told(ROTA_CHECK_TWO_READERS, 1);
    read_rows("p0", 1, B, 0, 1, 12);
    read_rows("p0", 2, B, 0, 1, 12); /* which nobody was given */
    assert_told(ROTA_CHECK_TWO_READERS, 3);
}

static void child_that_begins_early_is_reported(void **state)
{
    (void)state;
    seed("p0");
    start("p0", 1, A, 0, 10);
    read_rows("p0", 1, A, 0, 5, 30);
    rota_check_rows_ended(&rows, "p0", 5);
    rota_check_rows_made(&rows, "p0.0", P0, 1);
    start("p0.0", 2, B, 5, 20);
    rota_check_rows_judge(&rows);
    assert_told(ROTA_CHECK_PARTITION_EARLY, 1);
}

static void partition_without_a_reader_is_reported(void **state)
{
    (void)state;
    seed("p0");
    seed("p1");
    start("p0", 1, A, 0, 10);
    read_rows("p0", 1, A, 0, 5, 11);
    rota_check_rows_ended(&rows, "p0", 5);
    rota_check_rows_made(&rows, "p0.0", P0, 1);
    rota_check_rows_made(&rows, "p0.1", P0, 1);
    start("p0.0", 2, B, 5, 20);
    read_rows("p0.0", 2, B, 5, 6, 21);
    rota_check_rows_await(&rows);
    assert_int_equal(rows.n_awaited, 3); /* also the one that was read before */
    read_rows("p0.0", 2, B, 6, 7, 22);
    rota_check_rows_judge(&rows);
    assert_told(ROTA_CHECK_PARTITION_FORGOTTEN, 2);
}

static void group_that_was_there_before_is_followed_from_where_it_is(void **state)
{
    static const char *const BOTH[] = {"p0", "p1"};
    (void)state;
    start("p0", 9, A, 70, 10);
    read_rows("p0", 9, A, 70, 75, 11);
    rota_check_rows_ended(&rows, "p0", 75);
    rota_check_rows_made(&rows, "both", BOTH, 2); /* p1 had ended when we came */
    start("both", 12, A, 75, 12);
    rota_check_rows_await(&rows);
    rota_check_rows_judge(&rows);
    assert_nothing_told();
}

static void partitions_beyond_the_limit_are_reported(void **state)
{
    char name[32];
    (void)state;
    for (size_t i = 0; i < ROTA_CHECK_PARTITIONS_MAX; i++) {
        snprintf(name, sizeof name, "p%zu", i);
        seed(name);
    }
    assert_nothing_told();
    seed("one more");
    assert_told(ROTA_CHECK_UNCHECKED, 1);
    start("one more", 1, A, 0, 1);
    assert_told(ROTA_CHECK_UNCHECKED, 2);
}

/* --- claims --- */

static uint64_t asked(void)
{
    return rota_check_claims_asked(&claims);
}

static void hold(uint32_t shard, uint32_t owner, uint64_t epoch)
{
    rota_check_claims_held(&claims, shard, owner, epoch, asked());
}

static void successive_owners_pass(void **state)
{
    (void)state;
    hold(0, A, 1);
    uint64_t before = asked();
    hold(0, B, 2);
    rota_check_claims_held(&claims, 0, A, 1, before);         /* may have been so before B had it */
    rota_check_claims_reported(&claims, 0, C, A, 1, asked()); /* C has not heard of it yet */
    rota_check_claims_reported(&claims, 0, C, B, 2, asked());
    hold(0, A, 3);
    hold(1, A, 1);
    assert_nothing_told();
    assert_int_equal(claims.n_moves, 2);
}

static void two_owners_of_an_epoch_are_reported(void **state)
{
    (void)state;
    hold(0, A, 7);
    hold(0, B, 7);
    hold(0, B, 7);
    assert_told(ROTA_CHECK_TWO_OWNERS, 1);
    hold(0, B, 8);
    rota_check_claims_reported(&claims, 0, C, A, 8, asked());
    assert_told(ROTA_CHECK_TWO_OWNERS, 2);
    assert_string_equal(check.told[0].text,
                        "shard 0 of shards has two owners, node-1 and node-2, under epoch 7");
}

static void owner_of_an_older_epoch_is_reported(void **state)
{
    (void)state;
    hold(0, A, 1);
    hold(0, B, 2);
    hold(0, A, 1);
    assert_told(ROTA_CHECK_OLD_OWNER, 1);
    hold(0, A, 1); /* the same again */
    assert_told(ROTA_CHECK_OLD_OWNER, 1);
}

static void owner_is_old_by_the_first_that_was_later(void **state)
{
    (void)state;
    hold(0, A, 1);
    hold(0, B, 2);
    uint64_t before = asked();
    hold(0, C, 3);
    rota_check_claims_held(&claims, 0, A, 1, before);
    assert_told(ROTA_CHECK_OLD_OWNER, 1);
}

static void epoch_that_falls_is_reported(void **state)
{
    (void)state;
    uint64_t before = asked();
    rota_check_claims_reported(&claims, 0, C, SIZE_MAX, 5, before);
    rota_check_claims_reported(&claims, 0, C, SIZE_MAX, 4, before); /* an answer in flight */
    assert_nothing_told();
    rota_check_claims_reported(&claims, 0, C, SIZE_MAX, 4, asked());
    assert_told(ROTA_CHECK_EPOCH_FELL, 1);
    rota_check_claims_reported(&claims, 0, B, SIZE_MAX, 4, asked()); /* another may be behind */
    assert_told(ROTA_CHECK_EPOCH_FELL, 1);
}

static void shard_without_an_owner_at_the_end_is_reported(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        hold(i, A, 1);
    rota_check_claims_await(&claims);
    assert_int_equal(claims.n_awaited, 4);
    for (uint32_t i = 0; i < 3; i++)
        hold(i, A, 1);
    hold(0, A, 1);
    assert_int_equal(claims.n_awaited, 1);
    rota_check_claims_judge(&claims);
    assert_told(ROTA_CHECK_SHARD_UNOWNED, 1);
}

/* --- faults --- */

static void each_fault_has_a_name_and_the_first_have_sentences(void **state)
{
    (void)state;
    for (int i = 0; i < ROTA_CHECK_FAULTS; i++)
        for (int n = 0; n < i; n++)
            assert_string_not_equal(rota_check_fault_name((enum rota_check_fault)i),
                                    rota_check_fault_name((enum rota_check_fault)n));
    for (int i = 0; i < 2 * ROTA_CHECK_TOLD_EACH; i++)
        rota_check_report_fault(&check, ROTA_CHECK_JOB_LOST, "number %d", i);
    assert_int_equal(check.n_told, ROTA_CHECK_TOLD_EACH);
    assert_int_equal(rota_check_n_faults(&check), 2 * ROTA_CHECK_TOLD_EACH);
}

/* --- bounds, and what is counted --- */

static void checks_remember_events_before_and_after_a_list(void **state)
{
    (void)state;
    acknowledge(9); /* ids of three halves, not in order */
    for (uint64_t i = 1; i <= 9; i += 2)
        end_job(i);
    rota_check_jobs_list_begin(&jobs);
    for (uint64_t i = 2; i <= 9; i += 2)
        end_job(i);
    assert_true(rota_check_jobs_acknowledged(&jobs, job(10), 10));
    assert_true(rota_check_jobs_acknowledged(&jobs, job(0), 10)); /* goes before all others */
    end_job(10);
    end_job(0);
    assert_int_equal(jobs.n_done, 11);
    list((uint64_t[]){10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, 11, 0);
    assert_nothing_told();
}

static void one_job_alone_is_found(void **state)
{
    (void)state;
    rota_check_jobs_list_begin(&jobs); /* of none */
    rota_check_jobs_listed(&jobs, job(1));
    acknowledge(1);
    rota_check_jobs_list_begin(&jobs);
    end_job(1);
    list((uint64_t[]){1}, 1, 0);
    assert_nothing_told();
    assert_int_equal(jobs.n_done, 1);
}

static void job_is_forgotten_when_it_is_older_than_asked_for(void **state)
{
    (void)state;
    acknowledge(3);
    for (uint64_t i = 1; i <= 3; i++)
        end_job(i);
    list(NULL, 0, 3);
    assert_told(ROTA_CHECK_JOB_LOST, 1); /* the one that was acknowledged just then */
}

static void texts_are_kept_up_to_a_number_and_all_are_counted(void **state)
{
    (void)state;
    for (int i = 0; i < ROTA_CHECK_TOLD_EACH + 1; i++)
        answer(ROTA_GET_KEY_MISSING, "", NULL);
    assert_int_equal(check.n_told, ROTA_CHECK_TOLD_EACH);
    assert_told(ROTA_CHECK_GET_UNANSWERED, ROTA_CHECK_TOLD_EACH + 1);
}

static void every_await_counts_from_the_start(void **state)
{
    (void)state;
    seed("p0");
    seed("p1");
    for (int i = 0; i < 2; i++) {
        rota_check_rows_await(&rows);
        assert_int_equal(rows.n_awaited, 2);
    }
    rota_check_rows_ended(&rows, "p0", 0);
    assert_int_equal(rows.n_awaited, 1);
    rota_check_rows_ended(&rows, "p0", 0); /* once */
    assert_int_equal(rows.n_awaited, 1);
    rota_check_rows_await(&rows);
    assert_int_equal(rows.n_awaited, 1);
    start("p1", 1, A, 0, 1);
    read_rows("p1", 1, A, 0, 1, 2);
    read_rows("p1", 1, A, 1, 2, 3);
    assert_int_equal(rows.n_awaited, 0);
}

static void child_begins_where_one_of_its_parents_ends(void **state)
{
    static const char *const BOTH[] = {"p0", "p1"};
    static const struct {
        int64_t ends[2], mark;
        enum rota_check_fault fault; /* UNCHECKED: none */
    } CASES[] = {
        {{5, 7}, 5, ROTA_CHECK_UNCHECKED}, {{5, 7}, 7, ROTA_CHECK_UNCHECKED},
        {{7, 5}, 4, ROTA_CHECK_ROW_TWICE}, {{5, 7}, 4, ROTA_CHECK_ROW_TWICE},
        {{7, 5}, 6, ROTA_CHECK_ROW_LOST},  {{5, 7}, 8, ROTA_CHECK_ROW_LOST},
        {{0, 0}, 0, ROTA_CHECK_UNCHECKED},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        tear_down(state);
        set_up(state);
        seed("p0");
        seed("p1");
        for (size_t k = 0; k < 2; k++) {
            start(BOTH[k], 1, A, 0, 1);
            if (CASES[i].ends[k] > 0)
                read_rows(BOTH[k], 1, A, 0, CASES[i].ends[k], 2);
            rota_check_rows_ended(&rows, BOTH[k], CASES[i].ends[k]);
        }
        rota_check_rows_made(&rows, "both", BOTH, 2);
        start("both", 2, B, CASES[i].mark, 2);
        rota_check_rows_judge(&rows);
        if (CASES[i].fault == ROTA_CHECK_UNCHECKED)
            assert_nothing_told();
        else
            assert_told(CASES[i].fault, 1);
    }
}

static void child_of_a_parent_that_has_not_ended_is_early(void **state)
{
    (void)state;
    seed("p0");
    rota_check_rows_made(&rows, "p0.0", P0, 1);
    start("p0.0", 2, B, 0, 20);
    rota_check_rows_judge(&rows);
    assert_told(ROTA_CHECK_PARTITION_EARLY, 1);
}

static void committed_rows_count_for_all_later_readers(void **state)
{
    (void)state;
    seed("p0");
    start("p0", 1, A, 0, 10);
    read_rows("p0", 1, A, 0, 5, 11);
    rota_check_rows_progress(&rows, "p0", 1, 5);
    rota_check_rows_progress(&rows, "p0", 1, 3); /* does not go back */
    start("p0", 2, B, 5, 20);
    start("p0", 3, C, 4, 30);
    rota_check_rows_judge(&rows);
    assert_told(ROTA_CHECK_ROW_TWICE, 1);
    rota_check_rows_progress(&rows, "p0", 9, 7); /* of no reader */
    assert_told(ROTA_CHECK_ROW_TWICE, 1);
}

static void readers_of_a_partition_are_bounded(void **state)
{
    (void)state;
    seed("p0");
    for (uint64_t i = ROTA_CHECK_READERS_MAX; i > 0; i--)
        start("p0", i, A, 0, (rota_time)i);
    assert_nothing_told();
    start("p0", ROTA_CHECK_READERS_MAX + 1, A, 0, 1);
    assert_told(ROTA_CHECK_UNCHECKED, 1);
    read_rows("p0", ROTA_CHECK_READERS_MAX, A, 0, 1, ROTA_CHECK_READERS_MAX);
    read_rows("p0", 1, A, 0, 1, 2);
    assert_told(ROTA_CHECK_UNCHECKED, 1);
    assert_int_equal(rows.n_rows, 1);
}

static void range_that_goes_back_is_reported(void **state)
{
    (void)state;
    seed("p0");
    start("p0", 1, A, 0, 10);
    read_rows("p0", 1, A, 0, 3, 11);
    read_rows("p0", 1, A, 3, 2, 12);
    assert_told(ROTA_CHECK_ROW_TWICE, 1);
    read_rows("p0", 1, A, 3, 3, 13);
    assert_told(ROTA_CHECK_ROW_TWICE, 1);
    assert_int_equal(rows.n_rows, 3);
}

static void epochs_that_come_late_keep_their_order(void **state)
{
    (void)state;
    hold(0, C, 9);
    hold(1, A, 1); /* another shard */
    uint64_t before = asked();
    assert_int_equal(claims.n_claims, 2);
    rota_check_claims_held(&claims, 0, A, 3, 0);
    rota_check_claims_held(&claims, 0, B, 5, 0);
    assert_int_equal(claims.n_claims, 4);
    assert_int_equal(claims.n_moves, 2);
    assert_nothing_told();
    rota_check_claims_held(&claims, 0, B, 3, 0);
    assert_told(ROTA_CHECK_TWO_OWNERS, 1);
    rota_check_claims_held(&claims, 0, B, 5, before);
    assert_int_equal(check.n[ROTA_CHECK_OLD_OWNER], 1);
}

static void epoch_that_is_reported_again_has_not_fallen(void **state)
{
    (void)state;
    rota_check_claims_reported(&claims, 0, C, SIZE_MAX, 5, asked());
    uint64_t before = asked();
    rota_check_claims_reported(&claims, 0, C, SIZE_MAX, 5, asked());
    assert_nothing_told();
    rota_check_claims_reported(&claims, 0, C, SIZE_MAX, 4, before); /* 5 was known by then */
    assert_told(ROTA_CHECK_EPOCH_FELL, 1);
    rota_check_claims_reported(&claims, 1, C, SIZE_MAX, 4, asked());
    rota_check_claims_reported(&claims, 0, A, 7, 4, asked()); /* not a known node */
    assert_told(ROTA_CHECK_EPOCH_FELL, 1);
    assert_int_equal(claims.n_claims, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(jobs_done_once_pass),
        TEST(job_without_an_end_is_lost),
        TEST(job_that_was_done_and_is_nowhere_is_lost),
        TEST(job_that_is_done_twice_is_reported),
        TEST(restarted_list_counts_alone),
        TEST(dead_job_is_reported),
        TEST(wrong_result_is_reported),
        TEST(right_answers_pass),
        TEST(a_counter_counts_one_by_one),
        TEST(a_counter_that_jumps_or_falls_is_reported),
        TEST(wrong_value_is_reported),
        TEST(unanswered_get_is_reported),
        TEST(rows_read_in_order_pass),
        TEST(two_become_one_where_either_ends),
        TEST(row_that_a_reader_leaves_out_is_lost),
        TEST(row_between_two_readers_is_lost),
        TEST(rows_before_the_first_reader_are_lost),
        TEST(child_that_begins_above_its_parents_has_lost_rows),
        TEST(row_that_a_reader_repeats_is_reported),
        TEST(row_that_had_counted_is_read_once),
        TEST(row_after_the_end_is_reported),
        TEST(earlier_reader_that_continues_is_late_in_either_order),
        TEST(reader_between_two_others_is_late_too),
        TEST(token_of_two_readers_is_reported),
        TEST(child_that_begins_early_is_reported),
        TEST(partition_without_a_reader_is_reported),
        TEST(group_that_was_there_before_is_followed_from_where_it_is),
        TEST(partitions_beyond_the_limit_are_reported),
        TEST(successive_owners_pass),
        TEST(two_owners_of_an_epoch_are_reported),
        TEST(owner_of_an_older_epoch_is_reported),
        TEST(owner_is_old_by_the_first_that_was_later),
        TEST(epoch_that_falls_is_reported),
        TEST(shard_without_an_owner_at_the_end_is_reported),
        TEST(each_fault_has_a_name_and_the_first_have_sentences),
        TEST(checks_remember_events_before_and_after_a_list),
        TEST(one_job_alone_is_found),
        TEST(job_is_forgotten_when_it_is_older_than_asked_for),
        TEST(texts_are_kept_up_to_a_number_and_all_are_counted),
        TEST(every_await_counts_from_the_start),
        TEST(child_begins_where_one_of_its_parents_ends),
        TEST(child_of_a_parent_that_has_not_ended_is_early),
        TEST(committed_rows_count_for_all_later_readers),
        TEST(readers_of_a_partition_are_bounded),
        TEST(range_that_goes_back_is_reported),
        TEST(epochs_that_come_late_keep_their_order),
        TEST(epoch_that_is_reported_again_has_not_fallen),
    };
    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
