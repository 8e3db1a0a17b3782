/* Paths and queries. */
#include "wire/grpc/http_target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct rota_http_target target;
static struct rota_error error;

static void check(const char *text, const char *parts, const char *pairs)
{
    char got[1000] = "";
    if (rota_http_target_parse(rota_str(text), &target, &error))
        fail_msg("%s: %s", text, error.text);
    for (size_t i = 0; i < target.n_parts; i++) {
        strncat(got, target.parts[i].data, target.parts[i].size);
        strcat(got, "|");
    }
    assert_string_equal(got, parts);
    got[0] = '\0';
    for (size_t i = 0; i < target.n_pairs; i++) {
        strncat(got, target.pairs[i].name.data, target.pairs[i].name.size);
        strcat(got, "=");
        strncat(got, target.pairs[i].value.data, target.pairs[i].value.size);
        strcat(got, "|");
    }
    assert_string_equal(got, pairs);
}

static void check_refused(const char *text, const char *why)
{
    assert_int_equal(rota_http_target_parse(rota_str(text), &target, &error), ROTA_ERR_INVALID);
    if (!strstr(error.text, why))
        fail_msg("%s: %s, not %s", text, error.text, why);
}

static void paths_are_cut_before_escapes_are_undone(void **state)
{
    (void)state;
    check("/", "", "");
    check("/api/v1", "api|v1|", "");
    check("/api/v1/", "api|v1|", "");
    check("/queues/a%2Fb%20c+d/jobs", "queues|a/b c+d|jobs|", "");
    check("/%C3%A4", "\xc3\xa4|", "");
    check("/a?", "a|", "");
}

static void queries_have_names_and_values(void **state)
{
    struct rota_str value;
    (void)state;
    check("/a?x=1&y=&z&&x=2", "a|", "x=1|y=|z=|x=2|");
    check("/?q=a%26b+c%3d", "", "q=a&b c=|");
    check("/?a=b=c?d/e", "", "a=b=c?d/e|");
    assert_true(rota_http_target_find(&target, "a", &value));
    assert_true(rota_str_is_equal(value, rota_str("b=c?d/e")));
    assert_false(rota_http_target_find(&target, "b", &value));
}

static void misleading_paths_are_refused(void **state)
{
    char many[200] = "";
    (void)state;
    check_refused("", "does not start");
    check_refused("a/b", "does not start");
    check_refused("http://x/y", "does not start");
    check_refused("//a", "empty");
    check_refused("/a//b", "empty");
    check_refused("/a/../b", "..");
    check_refused("/a/%2e%2E", "..");
    check_refused("/a/.", "part . or ..");
    check_refused("/%", "two hexadecimal digits");
    check_refused("/a%2", "two hexadecimal digits");
    check_refused("/?a=%zz", "two hexadecimal digits");
    check_refused("/a%00", "control");
    check_refused("/?a=%0a", "control");
    check_refused("/%ff", "UTF-8");
    for (int i = 0; i < ROTA_HTTP_TARGET_PARTS_MAX; i++)
        strcat(many, "/a");
    check(many, "a|a|a|a|a|a|a|a|a|a|a|a|a|a|a|a|", "");
    strcat(many, "/a");
    check_refused(many, "too many parts");
    strcpy(many, "/?");
    for (int i = 0; i < ROTA_HTTP_TARGET_PAIRS_MAX + 1; i++)
        strcat(many, "a&");
    check_refused(many, "too many values");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_cut_before_escapes_are_undone),
        cmocka_unit_test(queries_have_names_and_values),
        cmocka_unit_test(misleading_paths_are_refused),
    };
    return cmocka_run_group_tests_name("http_target", tests, NULL, NULL);
}
