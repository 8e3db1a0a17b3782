/* Settings of queues as rows, in a real database; test/lib/databases.py says in which. */
#include "store.h"

#include <stdio.h>
#include <string.h>

static struct rota_store_session *ours, *theirs;

static int set_up(void **state)
{
    (void)state;
    store_clear();
    ours = store_open();
    theirs = store_open();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_store_session_close(ours);
    rota_store_session_close(theirs);
    return 0;
}

/* The version that is written; 0: another one was there. */
static uint64_t put(struct rota_store_session *session, const char *queue, struct rota_str settings,
                    uint64_t known, uint64_t *previous)
{
    struct rota_store_answer answer = {0};
    struct rota_store_request request = {.verb = ROTA_STORE_QUEUE_PUT, .known = known};
    request.config.name = rota_str(queue);
    request.config.text = settings;
    request.host = rota_str("somebody");
    store_must(session, &request, &answer);
    uint64_t version = answer.is_done ? answer.highest : 0;
    if (previous)
        *previous = answer.previous;
    rota_store_session_answer_deinit(&answer);
    return version;
}

static void read_from(uint64_t known, struct rota_store_answer *answer)
{
    const struct rota_store_request request = {.verb = ROTA_STORE_QUEUES, .known = known};
    store_must(theirs, &request, answer);
}

static void a_row_is_read_as_it_was_written(void **state)
{
    struct rota_store_answer answer = {0};
    const struct rota_str bytes = rota_str_of("a\0\xff'\\", 5);
    (void)state;
    read_from(0, &answer);
    assert_int_equal(answer.n_queues, 0);
    assert_int_equal(answer.highest, 0);
    uint64_t version = put(ours, "q", bytes, 0, NULL);
    read_from(0, &answer);
    assert_int_equal(answer.n_queues, 1);
    assert_int_equal(answer.highest, version);
    assert_int_equal(answer.queues[0].version, version);
    assert_true(rota_str_is_equal(answer.queues[0].name, rota_str("q")));
    assert_true(rota_str_is_equal(answer.queues[0].settings, bytes));
    assert_true(rota_str_is_equal(answer.queues[0].changed_by, rota_str("somebody")));
    assert_true(answer.queues[0].changed_at > 0);
    rota_store_session_answer_deinit(&answer);
}

static void later_rows_are_read_in_the_order_of_their_versions(void **state)
{
    struct rota_store_answer answer = {0};
    uint64_t versions[3], previous;
    (void)state;
    versions[0] = put(ours, "b", rota_str("1"), 0, &previous);
    assert_int_equal(previous, 0);
    versions[1] = put(theirs, "a", rota_str("2"), 0, &previous);
    assert_int_equal(previous, versions[0]);
    versions[2] = put(ours, "b", rota_str("3"), versions[1], &previous);
    assert_int_equal(previous, versions[1]);
    assert_true(versions[0] < versions[1] && versions[1] < versions[2]);
    read_from(versions[0], &answer);
    assert_int_equal(answer.n_queues, 2);
    assert_true(rota_str_is_equal(answer.queues[0].name, rota_str("a")));
    assert_true(rota_str_is_equal(answer.queues[1].settings, rota_str("3")));
    read_from(versions[2], &answer);
    assert_int_equal(answer.n_queues, 0);
    assert_int_equal(answer.highest, versions[2]);
    rota_store_session_answer_deinit(&answer);
}

static void a_row_that_has_changed_is_not_overwritten(void **state)
{
    struct rota_store_answer answer = {0};
    (void)state;
    uint64_t first = put(ours, "q", rota_str("1"), 0, NULL);
    uint64_t other = put(ours, "other", rota_str("x"), 0, NULL);
    uint64_t second = put(theirs, "q", rota_str("2"), first, NULL);
    assert_true(second > other);
    assert_int_equal(put(ours, "q", rota_str("3"), other, NULL), 0);
    assert_int_equal(put(ours, "q", rota_str("3"), 0, NULL), 0);
    read_from(0, &answer);
    assert_int_equal(answer.highest, second); /* nor is a version used for it */
    assert_true(put(ours, "q", rota_str("3"), second, NULL) > second);
    rota_store_session_answer_deinit(&answer);
}

/* Settings of several queues are written together, or not at all. */
static void rows_of_one_request_are_all_written_or_none(void **state)
{
    struct rota_store_answer answer = {0};
    struct rota_store_request request = {.verb = ROTA_STORE_QUEUE_PUT};
    const struct rota_str keys[] = {rota_str("b"), rota_str("2"), rota_str("c"), rota_str("3")};
    (void)state;
    request.config.name = rota_str("a");
    request.config.text = rota_str("1");
    request.keys = keys;
    request.n_keys = 4;
    put(theirs, "c", rota_str("other"), 0, NULL);
    store_must(ours, &request, &answer);
    assert_false(answer.is_done);
    read_from(0, &answer);
    assert_int_equal(answer.n_queues, 1);
    request.known = answer.highest;
    store_must(ours, &request, &answer);
    assert_true(answer.is_done);
    read_from(request.known, &answer);
    assert_int_equal(answer.n_queues, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(answer.queues[i].version, answer.highest);
    rota_store_session_answer_deinit(&answer);
}

static void a_row_that_says_nothing_is_deleted_after_a_while(void **state)
{
    (void)state;
    uint64_t version = put(ours, "q", rota_str(""), 0, NULL);
    put(ours, "other", rota_str("x"), version, NULL);
    assert_int_equal(store_sql(ours->sql, "SELECT COUNT(*) FROM rota_queue_settings"), 3);
    store_sql(ours->sql, "UPDATE rota_queue_settings SET changed_at = changed_at - 3700000000");
    put(ours, "third", rota_str("y"), 0, NULL);
    assert_int_equal(
        store_sql(ours->sql, "SELECT COUNT(*) FROM rota_queue_settings WHERE queue = 'q'"), 0);
    assert_int_equal(store_sql(ours->sql, "SELECT COUNT(*) FROM rota_queue_settings"), 3);
}

/* The clock is beyond every version that the database had before. */
static void versions_of_a_database_that_was_restored_are_not_used_again(void **state)
{
    (void)state;
    uint64_t first = put(ours, "q", rota_str("1"), 0, NULL), latest = first;
    for (int i = 0; i < 3; i++)
        latest = put(ours, "q", rota_str("2"), latest, NULL);
    store_sql(ours->sql, "DELETE FROM rota_queue_settings WHERE queue = 'q'");
    store_sql(ours->sql, "UPDATE rota_queue_settings SET version = 5");
    assert_true(put(ours, "q", rota_str("3"), 5, NULL) >= first);
}

static void what_does_not_fit_is_refused(void **state)
{
    struct rota_store_request request = {.verb = ROTA_STORE_QUEUE_PUT};
    (void)state;
    assert_int_equal(rota_store_check_request(&request, NULL), ROTA_ERR_INVALID); /* no name */
    request.config.name = rota_str("q");
    assert_int_equal(rota_store_check_request(&request, NULL), ROTA_OK);
    request.config.text = rota_str_of("x", ROTA_STORE_TEXT_MAX + 1);
    assert_int_equal(rota_store_check_request(&request, NULL), ROTA_ERR_LIMIT);
    request.config.text = rota_str("");
    request.keys = &request.config.name;
    request.n_keys = 1;
    assert_int_equal(rota_store_check_request(&request, NULL), ROTA_ERR_INVALID);
    request.n_keys = 0;
    request.known = UINT64_MAX;
    assert_int_equal(rota_store_check_request(&request, NULL), ROTA_ERR_INVALID);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_row_is_read_as_it_was_written),
        TEST(later_rows_are_read_in_the_order_of_their_versions),
        TEST(a_row_that_has_changed_is_not_overwritten),
        TEST(rows_of_one_request_are_all_written_or_none),
        TEST(a_row_that_says_nothing_is_deleted_after_a_while),
        TEST(versions_of_a_database_that_was_restored_are_not_used_again),
        TEST(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
