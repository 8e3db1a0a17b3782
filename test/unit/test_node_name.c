#include "core/place/node_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* --- names --- */

static bool is_valid(const char *name)
{
    return rota_node_name_is_valid(rota_str(name));
}

static void name_has_letters_digits_and_three_signs(void **state)
{
    char text[ROTA_NODE_NAME_MAX + 2];
    (void)state;
    assert_true(is_valid("a"));
    assert_true(is_valid("7"));
    assert_true(is_valid("box-2.example.org"));
    assert_true(is_valid("A_b"));
    assert_false(is_valid(""));
    assert_false(is_valid("-a")); /* an option of a command */
    assert_false(is_valid(".a"));
    assert_false(is_valid("_a"));
    assert_false(is_valid("a:1")); /* an address */
    assert_false(is_valid("a b"));
    assert_false(is_valid("a,b"));
    assert_false(is_valid("a/b"));
    assert_false(is_valid("b\xc3\xb6x"));
    assert_false(rota_node_name_is_valid(rota_str_of("a\0b", 3)));
    memset(text, 'x', sizeof text);
    assert_true(rota_node_name_is_valid(rota_str_of(text, ROTA_NODE_NAME_MAX)));
    assert_false(rota_node_name_is_valid(rota_str_of(text, ROTA_NODE_NAME_MAX + 1)));
}

static void check_default(const char *host, unsigned port, const char *wanted)
{
    char name[ROTA_NODE_NAME_MAX + 1];
    rota_node_name_default(rota_str(host), port, name);
    assert_string_equal(name, wanted);
}

static void default_is_the_host_and_an_unusual_port(void **state)
{
    char host[ROTA_NODE_NAME_MAX + 2] = "", wanted[ROTA_NODE_NAME_MAX + 1];
    (void)state;
    check_default("box", 7700, "box");
    check_default("box", 7701, "box-7701");
    check_default("box.example.org", 1, "box.example.org-1");
    check_default("", 7700, "");
    check_default("", 1, "");
    check_default("b x", 1, "");
    memset(host, 'x', ROTA_NODE_NAME_MAX);
    check_default(host, 7700, host);
    check_default(host, 7701, "");
    host[ROTA_NODE_NAME_MAX] = 'x';
    check_default(host, 7700, "");
    host[ROTA_NODE_NAME_MAX - 2] = '\0';
    snprintf(wanted, sizeof wanted, "%s-1", host);
    check_default(host, 1, wanted);
}

/* --- who has it --- */

static struct rota_store_member row(const char *address, const char *name, int heartbeat)
{
    return (struct rota_store_member){.address = rota_str(address),
                                      .name = rota_str(name),
                                      .ttl = 10 * ROTA_SEC,
                                      .heartbeat = heartbeat * ROTA_SEC};
}

static enum rota_node_name_verdict judge(struct rota_node_name_rival *rival,
                                         const struct rota_store_member *rows, size_t n, int now)
{
    return rota_node_name_judge(rival, rota_str("box"), rota_str("me:1"), rows, n, now * ROTA_SEC);
}

static void name_of_a_live_node_is_taken_when_it_beats(void **state)
{
    struct rota_node_name_rival rival = {0};
    struct rota_store_member rows[] = {row("a:1", "other", 100), row("b:1", "box", 100)};
    (void)state;
    assert_int_equal(judge(&rival, rows, 2, 101), ROTA_NODE_NAME_UNSURE);
    assert_string_equal(rival.address, "b:1");
    assert_int_equal(judge(&rival, rows, 2, 102), ROTA_NODE_NAME_UNSURE);
    rows[1].heartbeat = 103 * ROTA_SEC;
    assert_int_equal(judge(&rival, rows, 2, 104), ROTA_NODE_NAME_TAKEN);
    assert_string_equal(rival.address, "b:1");
}

static void name_of_a_dead_node_is_free_after_its_ttl(void **state)
{
    struct rota_node_name_rival rival = {0};
    struct rota_store_member rows[] = {row("b:1", "box", 100)};
    (void)state;
    assert_int_equal(judge(&rival, rows, 1, 110), ROTA_NODE_NAME_UNSURE);
    assert_int_equal(judge(&rival, rows, 1, 111), ROTA_NODE_NAME_FREE);
    assert_string_equal(rival.address, "");
    assert_int_equal(judge(&rival, rows, 0, 100), ROTA_NODE_NAME_FREE);
}

static void own_row_is_no_rival(void **state)
{
    struct rota_node_name_rival rival = {0};
    struct rota_store_member rows[] = {row("me:1", "box", 100), row("z:1", "", 100)};
    (void)state;
    assert_int_equal(judge(&rival, rows, 2, 100), ROTA_NODE_NAME_FREE);
}

/* One died while we looked, and another has the name. */
static void second_rival_is_looked_at_for_itself(void **state)
{
    struct rota_node_name_rival rival = {0};
    struct rota_store_member rows[] = {row("a:1", "box", 100), row("b:1", "box", 109)};
    (void)state;
    assert_int_equal(judge(&rival, rows, 2, 109), ROTA_NODE_NAME_UNSURE);
    assert_string_equal(rival.address, "a:1");
    assert_int_equal(judge(&rival, rows, 2, 111), ROTA_NODE_NAME_UNSURE);
    assert_string_equal(rival.address, "b:1");
    rows[1].heartbeat = 112 * ROTA_SEC;
    assert_int_equal(judge(&rival, rows, 2, 112), ROTA_NODE_NAME_TAKEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(name_has_letters_digits_and_three_signs),
        cmocka_unit_test(default_is_the_host_and_an_unusual_port),
        cmocka_unit_test(name_of_a_live_node_is_taken_when_it_beats),
        cmocka_unit_test(name_of_a_dead_node_is_free_after_its_ttl),
        cmocka_unit_test(own_row_is_no_rival),
        cmocka_unit_test(second_rival_is_looked_at_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
