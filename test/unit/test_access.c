/* What a caller may do, by what it can prove. */
#include "node/rules/access.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bool has_name(const void *data, const char *name)
{
    return data && strcmp(data, name) == 0;
}

static const struct rota_access ACCESS = {
    .token = {"token-of-the-node", 17},
    .secret = {"secret-of-cluster", 17}, /* as long as the token: neither passes for the other */
    .operators = {{"ops", "sre"}, 2},
    .nodes = {{"node-1"}, 1},
};

static struct rota_access_caller caller(const char *authorization, const char *certificate)
{
    return (struct rota_access_caller){.authorization = rota_str(authorization),
                                       .address = "127.0.0.1:4711",
                                       .is_named = has_name,
                                       .data = certificate};
}

static uint32_t roles(const char *authorization, const char *certificate)
{
    struct rota_access_caller who = caller(authorization, certificate);
    return rota_access_roles(&ACCESS, &who);
}

static void a_secret_or_a_certificate_makes_a_role(void **state)
{
    (void)state;
    assert_int_equal(roles("Bearer token-of-the-node", NULL), ROTA_ROLE_OPERATOR);
    assert_int_equal(roles("bearer secret-of-cluster", NULL), ROTA_ROLE_NODE);
    assert_int_equal(roles("", "sre"), ROTA_ROLE_OPERATOR);
    assert_int_equal(roles("", "node-1"), ROTA_ROLE_NODE);
    assert_int_equal(roles("Bearer token-of-the-node", "node-1"),
                     ROTA_ROLE_OPERATOR | ROTA_ROLE_NODE);
}

static void anything_else_gives_no_role(void **state)
{
    static const char *const WRONG[] = {
        "",
        "Bearer ",
        "Bearer token-of-the-nodf",
        "Bearer token-of-the-nod",
        "Bearer token-of-the-node ",
        "Bearer  token-of-the-node",
        "Basic token-of-the-node",
        "Bear",
        "Bearers token-of-the-node",
        "Bearex token-of-the-node",
        "token-of-the-node",
    };
    (void)state;
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++)
        assert_int_equal(roles(WRONG[i], "op"), 0);
}

static void a_secret_that_is_not_known_yet_fits_nothing(void **state)
{
    const struct rota_access unknown = {.token = {"t", 1}};
    struct rota_access_caller who = caller("Bearer ", NULL);
    (void)state;
    assert_int_equal(rota_access_roles(&unknown, &who), 0);
}

static void an_event_names_the_caller(void **state)
{
    char text[ROTA_SERVER_ACTOR_MAX];
    struct rota_access_caller who = caller("Bearer token-of-the-node", NULL);
    (void)state;
    assert_string_equal(rota_access_actor(&ACCESS, &who, text),
                        "an operator with the token, from 127.0.0.1:4711");
    who = caller("", "ops");
    assert_string_equal(rota_access_actor(&ACCESS, &who, text),
                        "certificate ops, from 127.0.0.1:4711");
    who = caller("", "node-1");
    assert_string_equal(rota_access_actor(&ACCESS, &who, text), "a node, from 127.0.0.1:4711");
    who = caller("", NULL);
    assert_string_equal(rota_access_actor(&ACCESS, &who, text), "a client, from 127.0.0.1:4711");
}

static void only_a_node_may_name_another_caller(void **state)
{
    char text[ROTA_SERVER_ACTOR_MAX];
    struct rota_access_caller who = caller("Bearer secret-of-cluster", NULL);
    (void)state;
    who.actor = rota_str("certificate ops,\nfrom 10.0.0.1:1");
    assert_string_equal(rota_access_actor(&ACCESS, &who, text), "certificate ops,?from 10.0.0.1:1");
    who.authorization = rota_str("Bearer token-of-the-node");
    assert_string_equal(rota_access_actor(&ACCESS, &who, text),
                        "an operator with the token, from 127.0.0.1:4711");
}

static void lists_are_names_with_commas(void **state)
{
    struct rota_access_list list;
    char good[] = "ops,sre", none[] = "", gap[] = "ops,,sre", end[] = "ops,";
    char many[2 * ROTA_ACCESS_NAMES_MAX + 4], size[ROTA_ACCESS_NAME_MAX + 2];
    (void)state;
    assert_true(rota_access_list_parse(good, &list));
    assert_int_equal(list.n, 2);
    assert_string_equal(list.names[1], "sre");
    assert_true(rota_access_list_parse(none, &list));
    assert_int_equal(list.n, 0);
    assert_false(rota_access_list_parse(gap, &list));
    assert_false(rota_access_list_parse(end, &list));
    for (size_t i = 0; i < sizeof many - 1; i++)
        many[i] = i % 2 ? ',' : 'a';
    many[2 * ROTA_ACCESS_NAMES_MAX + 1] = '\0';
    assert_false(rota_access_list_parse(many, &list));
    for (size_t i = 0; i < 2 * ROTA_ACCESS_NAMES_MAX - 1; i++)
        many[i] = i % 2 ? ',' : 'a';
    many[2 * ROTA_ACCESS_NAMES_MAX - 1] = '\0';
    assert_true(rota_access_list_parse(many, &list));
    assert_int_equal(list.n, ROTA_ACCESS_NAMES_MAX);
    memset(size, 'a', sizeof size);
    size[sizeof size - 1] = '\0';
    assert_false(rota_access_list_parse(size, &list));
    size[sizeof size - 2] = '\0';
    assert_true(rota_access_list_parse(size, &list));
    assert_true(rota_access_list_parse(NULL, &list));
    assert_int_equal(list.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_secret_or_a_certificate_makes_a_role),
        cmocka_unit_test(anything_else_gives_no_role),
        cmocka_unit_test(a_secret_that_is_not_known_yet_fits_nothing),
        cmocka_unit_test(an_event_names_the_caller),
        cmocka_unit_test(only_a_node_may_name_another_caller),
        cmocka_unit_test(lists_are_names_with_commas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
