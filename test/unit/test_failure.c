#include "core/call/failure.h"
#include "vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void every_class_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int a = 0; a < ROTA_FAILURES; a++)
        for (int b = 0; b < a; b++)
            assert_string_not_equal(rota_failure_name((enum rota_failure)a),
                                    rota_failure_name((enum rota_failure)b));
    assert_string_equal(rota_failure_name(ROTA_FAILURE_NOT_LOADED), "not_loaded");
}

static void failures_not_tried_elsewhere_count_against_no_replica(void **state)
{
    (void)state;
    for (int i = 0; i < ROTA_FAILURES; i++) {
        enum rota_failure failure = (enum rota_failure)i;
        if (rota_failure_is_retried(failure)) {
            assert_int_not_equal(rota_failure_replica_effect(failure), ROTA_REPLICA_KEEP);
            continue;
        }
        assert_int_equal(rota_failure_replica_effect(failure), ROTA_REPLICA_KEEP);
        assert_int_equal(rota_failure_cache_effect(failure), ROTA_CACHE_KEEP);
        assert_false(rota_outcome_is_failure(rota_failure_outcome(failure)));
    }
}

static void overload_and_stale_do_not_count_against_the_replica(void **state)
{
    (void)state;
    assert_int_equal(rota_failure_replica_effect(ROTA_FAILURE_OVERLOAD), ROTA_REPLICA_EXCLUDE);
    assert_int_equal(rota_failure_cache_effect(ROTA_FAILURE_OVERLOAD), ROTA_CACHE_KEEP);
    assert_false(rota_outcome_is_failure(rota_failure_outcome(ROTA_FAILURE_STALE)));
}

static void status_gives_the_class_unless_the_node_names_one(void **state)
{
    struct rota_str none = {"", 0};
    (void)state;
    assert_int_equal(rota_failure_of_reply(ROTA_STATUS_OK, true, rota_str("stale")),
                     ROTA_FAILURE_NONE);
    assert_int_equal(rota_failure_of_reply(ROTA_STATUS_UNAVAILABLE, false, none),
                     ROTA_FAILURE_UNREACHABLE);
    assert_int_equal(rota_failure_of_reply(ROTA_STATUS_UNAVAILABLE, true, none),
                     ROTA_FAILURE_BROKEN);
    assert_int_equal(rota_failure_of_reply(ROTA_STATUS_NOT_FOUND, true, none), ROTA_FAILURE_INPUT);
    assert_int_equal(rota_failure_of_reply(ROTA_STATUS_NOT_FOUND, true, rota_str("not_loaded")),
                     ROTA_FAILURE_NOT_LOADED);
    assert_int_equal(
        rota_failure_of_reply(ROTA_STATUS_FAILED_PRECONDITION, true, rota_str("stale")),
        ROTA_FAILURE_STALE);
    assert_int_equal(rota_failure_of_reply((enum rota_status)99, true, none),
                     ROTA_FAILURE_INTERNAL);
}

static void node_cannot_name_a_class_that_only_the_client_sees(void **state)
{
    static const char *const names[] = {"none",        "cancelled",  "deadline", "timeout",
                                        "unreachable", "no_replica", "local",    "nonsense"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(rota_failure_of_reply(ROTA_STATUS_ABORTED, true, rota_str(names[i])),
                         ROTA_FAILURE_RETRIABLE);
    assert_int_equal(rota_failure_of_reply(ROTA_STATUS_UNAVAILABLE, false, rota_str("stale")),
                     ROTA_FAILURE_UNREACHABLE);
}

static void node_can_name_a_class_that_only_it_knows(void **state)
{
    static const enum rota_failure named[] = {ROTA_FAILURE_INPUT,      ROTA_FAILURE_STALE,
                                              ROTA_FAILURE_NOT_LOADED, ROTA_FAILURE_OVERLOAD,
                                              ROTA_FAILURE_RETRIABLE,  ROTA_FAILURE_INTERNAL};
    (void)state;
    for (int failure = 0; failure < ROTA_FAILURES; failure++) {
        bool is_named = false;
        for (size_t i = 0; i < sizeof named / sizeof *named; i++)
            is_named |= (int)named[i] == failure;
        struct rota_str name = rota_str(rota_failure_name((enum rota_failure)failure));
        assert_int_equal(rota_failure_of_reply(ROTA_STATUS_UNAVAILABLE, true, name),
                         is_named ? failure : ROTA_FAILURE_BROKEN);
        assert_int_equal(rota_failure_of_reply(ROTA_STATUS_OK, true, name), ROTA_FAILURE_NONE);
    }
}

static void every_class_has_a_status_and_only_none_is_ok(void **state)
{
    (void)state;
    for (int i = 0; i < ROTA_FAILURES; i++)
        assert_int_equal(rota_failure_status((enum rota_failure)i) == ROTA_STATUS_OK,
                         i == ROTA_FAILURE_NONE);
    assert_int_equal(rota_failure_status(ROTA_FAILURE_DEADLINE), ROTA_STATUS_DEADLINE_EXCEEDED);
}

static void unreachable_directory_is_not_a_missing_collection(void **state)
{
    (void)state;
    assert_int_equal(rota_failure_of_answer(ROTA_ERR_NOT_FOUND), ROTA_FAILURE_NOT_LOADED);
    assert_int_equal(rota_failure_of_answer(ROTA_ERR_UNAVAILABLE), ROTA_FAILURE_UNREACHABLE);
    assert_int_equal(rota_failure_of_answer(ROTA_ERR_STALE), ROTA_FAILURE_STALE);
}

static void failing_node_does_not_count_as_healthy(void **state)
{
    (void)state;
    assert_true(rota_failure_is_heard(ROTA_FAILURE_NONE));
    assert_true(rota_failure_is_heard(ROTA_FAILURE_INPUT));
    assert_true(rota_failure_is_heard(ROTA_FAILURE_OVERLOAD));
    assert_false(rota_failure_is_heard(ROTA_FAILURE_INTERNAL));
    assert_false(rota_failure_is_heard(ROTA_FAILURE_TIMEOUT));
    assert_false(rota_failure_is_heard(ROTA_FAILURE_CANCELLED));
}

/* The page shows the table row by row; each row is looked for there. */
static void page_shows_the_table(void **state)
{
    static const char *const caches[] = {"nothing", "refreshed", "claim put in, or dropped",
                                         "dropped"};
    static const char *const replicas[] = {"nothing", "left out of the call", "blacklisted"};
    static char page[1 << 16];
    FILE *file = fopen(TEST_DATA "/../../docs/calls.md", "r");
    (void)state;
    assert_non_null(file);
    size_t size = fread(page, 1, sizeof page - 1, file);
    fclose(file);
    page[size] = '\0';
    for (int i = 0; i < ROTA_FAILURES; i++) {
        enum rota_failure failure = (enum rota_failure)i;
        char row[256];
        snprintf(row, sizeof row, "| `%s` | %s | %s | %s | %s | %s |\n", rota_failure_name(failure),
                 caches[rota_failure_cache_effect(failure)],
                 replicas[rota_failure_replica_effect(failure)],
                 rota_failure_is_retried(failure) ? "yes" : "no",
                 failure == ROTA_FAILURE_NONE       ? "yes"
                 : rota_failure_is_refusal(failure) ? "no"
                                                    : "maybe",
                 rota_outcome_name(rota_failure_outcome(failure)));
        if (!strstr(page, row))
            fail_msg("docs/calls.md lacks the row %s", row);
    }
}

static void every_status_of_a_reply_has_its_class(void **state)
{
    static const struct {
        enum rota_status status;
        enum rota_failure failure;
    } CASES[] = {
        {ROTA_STATUS_OK, ROTA_FAILURE_NONE},
        {ROTA_STATUS_INVALID_ARGUMENT, ROTA_FAILURE_INPUT},
        {ROTA_STATUS_NOT_FOUND, ROTA_FAILURE_INPUT},
        {ROTA_STATUS_ALREADY_EXISTS, ROTA_FAILURE_INPUT},
        {ROTA_STATUS_PERMISSION_DENIED, ROTA_FAILURE_INPUT},
        {ROTA_STATUS_FAILED_PRECONDITION, ROTA_FAILURE_INPUT},
        {ROTA_STATUS_OUT_OF_RANGE, ROTA_FAILURE_INPUT},
        {ROTA_STATUS_UNIMPLEMENTED, ROTA_FAILURE_INPUT},
        {ROTA_STATUS_UNAUTHENTICATED, ROTA_FAILURE_INPUT},
        {ROTA_STATUS_CANCELLED, ROTA_FAILURE_TIMEOUT},
        {ROTA_STATUS_DEADLINE_EXCEEDED, ROTA_FAILURE_TIMEOUT},
        {ROTA_STATUS_RESOURCE_EXHAUSTED, ROTA_FAILURE_OVERLOAD},
        {ROTA_STATUS_ABORTED, ROTA_FAILURE_RETRIABLE},
        {ROTA_STATUS_UNAVAILABLE, ROTA_FAILURE_BROKEN},
        {ROTA_STATUS_UNKNOWN, ROTA_FAILURE_INTERNAL},
        {ROTA_STATUS_INTERNAL, ROTA_FAILURE_INTERNAL},
        {ROTA_STATUS_DATA_LOSS, ROTA_FAILURE_INTERNAL},
        {(enum rota_status)99, ROTA_FAILURE_INTERNAL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        assert_int_equal(rota_failure_of_reply(CASES[i].status, true, rota_str("")),
                         CASES[i].failure);
}

static void every_code_of_the_directory_has_its_class(void **state)
{
    static const struct {
        enum rota_code code;
        enum rota_failure failure;
    } CASES[] = {
        {ROTA_OK, ROTA_FAILURE_NONE},
        {ROTA_ERR_INVALID, ROTA_FAILURE_INPUT},
        {ROTA_ERR_NOT_FOUND, ROTA_FAILURE_NOT_LOADED},
        {ROTA_ERR_STALE, ROTA_FAILURE_STALE},
        {ROTA_ERR_UNAVAILABLE, ROTA_FAILURE_UNREACHABLE},
        {ROTA_ERR_IO, ROTA_FAILURE_UNREACHABLE},
        {ROTA_ERR_UNKNOWN, ROTA_FAILURE_BROKEN},
        {ROTA_ERR_LIMIT, ROTA_FAILURE_LOCAL},
        {ROTA_ERR_NO_MEMORY, ROTA_FAILURE_LOCAL},
        {(enum rota_code)99, ROTA_FAILURE_INTERNAL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        assert_int_equal(rota_failure_of_answer(CASES[i].code), CASES[i].failure);
    assert_int_equal(rota_failure_status((enum rota_failure)99), ROTA_STATUS_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_class_has_a_name_of_its_own),
        cmocka_unit_test(failures_not_tried_elsewhere_count_against_no_replica),
        cmocka_unit_test(overload_and_stale_do_not_count_against_the_replica),
        cmocka_unit_test(status_gives_the_class_unless_the_node_names_one),
        cmocka_unit_test(node_cannot_name_a_class_that_only_the_client_sees),
        cmocka_unit_test(node_can_name_a_class_that_only_it_knows),
        cmocka_unit_test(every_class_has_a_status_and_only_none_is_ok),
        cmocka_unit_test(unreachable_directory_is_not_a_missing_collection),
        cmocka_unit_test(failing_node_does_not_count_as_healthy),
        cmocka_unit_test(page_shows_the_table),
        cmocka_unit_test(every_status_of_a_reply_has_its_class),
        cmocka_unit_test(every_code_of_the_directory_has_its_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
