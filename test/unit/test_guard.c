/* Which requests may read, and which may change something. */
#include "node/rules/guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct rota_str names[] = {{"rota.example", 12}, {"10.0.0.7:7780", 13}};

static struct rota_guard guard = {.token = {"secret", 6}, .names = names, .n_names = 2};

static enum rota_guard_verdict look(const char *host)
{
    struct rota_guard_request request = {.host = rota_str(host), .origin = rota_str("")};
    return rota_guard_judge(&guard, &request);
}

static enum rota_guard_verdict change(const char *host, const char *origin, const char *token,
                                      const char *type)
{
    struct rota_guard_request request = {
        .is_change = true,
        .has_body = type != NULL,
        .host = rota_str(host),
        .origin = rota_str(origin),
        .authorization = rota_str(token),
        .content_type = rota_str(type ? type : ""),
    };
    return rota_guard_judge(&guard, &request);
}

static void any_client_may_read_under_a_name_of_the_node(void **state)
{
    static const char *const own[] = {"localhost",      "localhost:7780",    "LocalHost:1",
                                      "127.0.0.1:7780", "[::1]:7780",        "[::1]",
                                      "rota.example",   "rota.example:1234", "10.0.0.7:7780"};
    static const char *const foreign[] = {"",
                                          "evil.example",
                                          "evil.example:7780",
                                          "localhost.evil.example",
                                          "127.0.0.1.evil.example:7780",
                                          "10.0.0.7",
                                          "10.0.0.7:80",
                                          "[::2]:7780",
                                          "[::1",
                                          "127.0.0.1:1@evil",
                                          "localhost:x",
                                          "[::1]evil",
                                          "[::1]@evil:1",
                                          ":7780"};
    (void)state;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        assert_int_equal(look(own[i]), ROTA_GUARD_ALLOWED);
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        assert_int_equal(look(foreign[i]), ROTA_GUARD_WRONG_HOST);
}

static void change_needs_the_token(void **state)
{
    (void)state;
    assert_int_equal(change("localhost", "", "Bearer secret", NULL), ROTA_GUARD_ALLOWED);
    assert_int_equal(change("localhost", "", "bearer secret", NULL), ROTA_GUARD_ALLOWED);
    assert_int_equal(change("localhost", "", "", NULL), ROTA_GUARD_NO_TOKEN);
    assert_int_equal(change("localhost", "", "secret", NULL), ROTA_GUARD_NO_TOKEN);
    assert_int_equal(change("localhost", "", "Bearer ", NULL), ROTA_GUARD_NO_TOKEN);
    assert_int_equal(change("localhost", "", "Basic secret", NULL), ROTA_GUARD_NO_TOKEN);
    assert_int_equal(change("localhost", "", "Bearer secre", NULL), ROTA_GUARD_WRONG_TOKEN);
    assert_int_equal(change("localhost", "", "Bearer secret ", NULL), ROTA_GUARD_WRONG_TOKEN);
    assert_int_equal(change("localhost", "", "Bearer Secret", NULL), ROTA_GUARD_WRONG_TOKEN);
    struct rota_guard none = {.token = rota_str("")};
    struct rota_guard_request request = {
        .is_change = true, .host = rota_str("localhost"), .authorization = rota_str("Bearer x")};
    assert_int_equal(rota_guard_judge(&none, &request), ROTA_GUARD_WRONG_TOKEN);
}

static void preview_needs_no_token_and_is_for_no_other_site(void **state)
{
    struct rota_guard_request request = {.is_change = true,
                                         .is_preview = true,
                                         .has_body = true,
                                         .host = rota_str("localhost"),
                                         .origin = rota_str(""),
                                         .authorization = rota_str(""),
                                         .content_type = rota_str("application/json")};
    (void)state;
    assert_int_equal(rota_guard_judge(&guard, &request), ROTA_GUARD_ALLOWED);
    request.authorization = rota_str("Bearer wrong");
    assert_int_equal(rota_guard_judge(&guard, &request), ROTA_GUARD_ALLOWED);
    request.origin = rota_str("http://evil.example");
    assert_int_equal(rota_guard_judge(&guard, &request), ROTA_GUARD_WRONG_ORIGIN);
    request.origin = rota_str("");
    request.content_type = rota_str("text/plain");
    assert_int_equal(rota_guard_judge(&guard, &request), ROTA_GUARD_WRONG_TYPE);
    request.host = rota_str("evil.example");
    assert_int_equal(rota_guard_judge(&guard, &request), ROTA_GUARD_WRONG_HOST);
}

static void page_of_another_site_changes_nothing(void **state)
{
    static const char token[] = "Bearer secret";
    (void)state;
    assert_int_equal(change("localhost:7780", "http://localhost:7780", token, NULL),
                     ROTA_GUARD_ALLOWED);
    assert_int_equal(change("rota.example", "https://rota.example", token, NULL),
                     ROTA_GUARD_ALLOWED);
    assert_int_equal(change("localhost:7780", "http://localhost:8080", token, NULL),
                     ROTA_GUARD_WRONG_ORIGIN);
    assert_int_equal(change("localhost:7780", "http://evil.example", token, NULL),
                     ROTA_GUARD_WRONG_ORIGIN);
    assert_int_equal(change("localhost:7780", "null", token, NULL), ROTA_GUARD_WRONG_ORIGIN);
    assert_int_equal(change("localhost:7780", "http://", token, NULL), ROTA_GUARD_WRONG_ORIGIN);
    assert_int_equal(change("evil.example", "http://evil.example", token, NULL),
                     ROTA_GUARD_WRONG_HOST);
}

static void body_is_json_or_refused(void **state)
{
    static const char token[] = "Bearer secret";
    (void)state;
    assert_int_equal(change("localhost", "", token, "application/json"), ROTA_GUARD_ALLOWED);
    assert_int_equal(change("localhost", "", token, "application/json; charset=utf-8"),
                     ROTA_GUARD_ALLOWED);
    assert_int_equal(change("localhost", "", token, ""), ROTA_GUARD_WRONG_TYPE);
    assert_int_equal(change("localhost", "", token, "text/plain"), ROTA_GUARD_WRONG_TYPE);
    assert_int_equal(change("localhost", "", token, "application/jsonp"), ROTA_GUARD_WRONG_TYPE);
}

static void every_refusal_has_a_status_and_a_sentence(void **state)
{
    (void)state;
    for (int i = ROTA_GUARD_WRONG_HOST; i <= ROTA_GUARD_WRONG_TYPE; i++) {
        assert_in_range(rota_guard_status((enum rota_guard_verdict)i), 400, 499);
        assert_in_range(strlen(rota_guard_text((enum rota_guard_verdict)i)), 20, 120);
    }
}

static void token_has_all_of_the_chance(void **state)
{
    unsigned char chance[32] = {0};
    char token[ROTA_GUARD_TOKEN_SIZE + 1], other[ROTA_GUARD_TOKEN_SIZE + 1];
    (void)state;
    assert_string_equal(rota_guard_token(chance, token),
                        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    for (size_t i = 0; i < 256; i++) {
        chance[i / 8] ^= (unsigned char)(1u << i % 8);
        assert_string_not_equal(rota_guard_token(chance, other), token);
        assert_int_equal(strlen(other), ROTA_GUARD_TOKEN_SIZE);
        chance[i / 8] ^= (unsigned char)(1u << i % 8);
    }
}

static void statuses_are_those_of_http(void **state)
{
    (void)state;
    assert_int_equal(rota_guard_status(ROTA_GUARD_ALLOWED), 200);
    assert_int_equal(rota_guard_status(ROTA_GUARD_WRONG_HOST), 403);
    assert_int_equal(rota_guard_status(ROTA_GUARD_WRONG_ORIGIN), 403);
    assert_int_equal(rota_guard_status(ROTA_GUARD_NO_TOKEN), 401);
    assert_int_equal(rota_guard_status(ROTA_GUARD_WRONG_TOKEN), 401);
    assert_int_equal(rota_guard_status(ROTA_GUARD_WRONG_TYPE), 415);
}

static void ports_have_any_digits_and_names_any_case(void **state)
{
    (void)state;
    assert_int_equal(look("localhost:0123456789"), ROTA_GUARD_ALLOWED);
    assert_int_equal(look("localhost:"), ROTA_GUARD_ALLOWED);
    assert_int_equal(look("localhost:/"), ROTA_GUARD_WRONG_HOST);
    assert_int_equal(look("localhost::"), ROTA_GUARD_WRONG_HOST);
    assert_int_equal(look("ROTA.EXAMPLE"), ROTA_GUARD_ALLOWED);
    assert_int_equal(look("rota.examplez"), ROTA_GUARD_WRONG_HOST);
    names[0] = rota_str("AZ[`az{@");
    assert_int_equal(look("az[`AZ{@"), ROTA_GUARD_ALLOWED);
    assert_int_equal(look("az{`AZ{@"), ROTA_GUARD_WRONG_HOST); /* these are no letters */
    assert_int_equal(look("az[`AZ{`"), ROTA_GUARD_WRONG_HOST);
    names[0] = rota_str("rota.example");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_client_may_read_under_a_name_of_the_node),
        cmocka_unit_test(change_needs_the_token),
        cmocka_unit_test(preview_needs_no_token_and_is_for_no_other_site),
        cmocka_unit_test(page_of_another_site_changes_nothing),
        cmocka_unit_test(body_is_json_or_refused),
        cmocka_unit_test(every_refusal_has_a_status_and_a_sentence),
        cmocka_unit_test(token_has_all_of_the_chance),
        cmocka_unit_test(statuses_are_those_of_http),
        cmocka_unit_test(ports_have_any_digits_and_names_any_case),
    };
    return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
