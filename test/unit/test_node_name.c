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

static enum rota_node_name_action look(struct rota_node_name_seek *seek,
                                       const struct rota_store_member *rows, size_t n, int now)
{
    return rota_node_name_step(seek, rows, n, now * ROTA_SEC);
}

static void name_of_a_node_with_heartbeats_is_taken(void **state)
{
    struct rota_node_name_seek seek = {.name = "box", .address = "me:1"};
    struct rota_store_member rows[] = {row("a:1", "other", 100), row("b:1", "box", 100)};
    (void)state;
    assert_int_equal(look(&seek, rows, 2, 101), ROTA_NODE_NAME_WAIT);
    assert_string_equal(seek.rival, "b:1");
    assert_int_equal(look(&seek, rows, 2, 102), ROTA_NODE_NAME_WAIT);
    rows[1].heartbeat = 103 * ROTA_SEC;
    assert_int_equal(look(&seek, rows, 2, 104), ROTA_NODE_NAME_YIELD);
    assert_string_equal(seek.rival, "b:1");
}

static void name_of_a_dead_node_is_free_after_its_ttl(void **state)
{
    struct rota_node_name_seek seek = {.name = "box", .address = "me:1"};
    struct rota_store_member rows[] = {row("b:1", "box", 100)};
    (void)state;
    assert_int_equal(look(&seek, rows, 1, 110), ROTA_NODE_NAME_WAIT);
    assert_int_equal(look(&seek, rows, 1, 111), ROTA_NODE_NAME_WRITE);
    assert_string_equal(seek.rival, "");
    assert_int_equal(look(&seek, rows, 1, 112), ROTA_NODE_NAME_WAIT); /* not written yet */
    rows[0] = row("me:1", "box", 112);
    assert_int_equal(look(&seek, rows, 1, 113), ROTA_NODE_NAME_HOLD);
}

/* A ttl may be minutes, and the node does not start before it has a name or does without. */
static void default_name_of_another_is_not_waited_for_without_end(void **state)
{
    struct rota_node_name_seek seek = {.name = "box", .address = "me:1", .is_default = true};
    struct rota_node_name_seek chosen = {.name = "box", .address = "me:1"};
    struct rota_store_member rows[] = {row("b:1", "box", 100)};
    (void)state;
    rows[0].ttl = 300 * ROTA_SEC;
    assert_int_equal(look(&seek, rows, 1, 101), ROTA_NODE_NAME_WAIT);
    assert_int_equal(look(&chosen, rows, 1, 101), ROTA_NODE_NAME_WAIT);
    assert_int_equal(look(&seek, rows, 1, 115), ROTA_NODE_NAME_WAIT);
    assert_int_equal(look(&seek, rows, 1, 116), ROTA_NODE_NAME_YIELD);
    assert_string_equal(seek.rival, "b:1");
    assert_int_equal(look(&chosen, rows, 1, 400), ROTA_NODE_NAME_WAIT);
    assert_int_equal(look(&chosen, rows, 1, 401), ROTA_NODE_NAME_WRITE);
}

/* Its earlier process has written it, and nobody could take it meanwhile. */
static void restarted_node_has_its_name_at_once(void **state)
{
    struct rota_node_name_seek seek = {.name = "box", .address = "me:1"};
    struct rota_store_member rows[] = {row("me:1", "box", 100), row("z:1", "", 100)};
    (void)state;
    assert_int_equal(look(&seek, rows, 2, 110), ROTA_NODE_NAME_HOLD);
    seek = (struct rota_node_name_seek){.name = "box", .address = "me:1"};
    assert_int_equal(look(&seek, rows, 2, 111), ROTA_NODE_NAME_WRITE); /* it was dead */
    seek = (struct rota_node_name_seek){.name = "new", .address = "me:1"};
    assert_int_equal(look(&seek, rows, 2, 110), ROTA_NODE_NAME_WRITE);
}

/* One died while we looked, and another has the name. */
static void second_rival_is_judged_on_its_own(void **state)
{
    struct rota_node_name_seek seek = {.name = "box", .address = "me:1"};
    struct rota_store_member rows[] = {row("a:1", "box", 100), row("b:1", "box", 109)};
    (void)state;
    assert_int_equal(look(&seek, rows, 2, 109), ROTA_NODE_NAME_WAIT);
    assert_string_equal(seek.rival, "a:1");
    assert_int_equal(look(&seek, rows, 2, 111), ROTA_NODE_NAME_WAIT);
    assert_string_equal(seek.rival, "b:1");
    rows[1].heartbeat = 112 * ROTA_SEC;
    assert_int_equal(look(&seek, rows, 2, 112), ROTA_NODE_NAME_YIELD);
}

/* Two nodes of one name start together. In every order of their looks and writes at most one keeps
 * it, and one that does not has seen the other. */
static void two_never_hold_one_name(void **state)
{
    enum { NODES = 2, STEPS = 3 }; /* a look, a write, a look */
    static const char *const ADDRESSES[] = {"a:1", "b:1"};
    (void)state;
    for (unsigned order = 0; order < 1u << (NODES * STEPS); order++) {
        struct rota_node_name_seek seeks[NODES] = {{.name = "box", .address = "a:1"},
                                                   {.name = "box", .address = "b:1"}};
        enum rota_node_name_action last[NODES] = {ROTA_NODE_NAME_WAIT, ROTA_NODE_NAME_WAIT};
        struct rota_store_member rows[NODES];
        int steps[NODES] = {0};
        size_t n = 0;
        for (int i = 0; i < NODES * STEPS; i++) {
            unsigned who = order >> i & 1;
            int step = steps[who]++;
            if (step == 1 && last[who] == ROTA_NODE_NAME_WRITE)
                rows[n++] = row(ADDRESSES[who], "box", 100 + i);
            else if (step != 1 && last[who] != ROTA_NODE_NAME_YIELD)
                last[who] = look(&seeks[who], rows, n, 100 + i);
        }
        assert_false(last[0] == ROTA_NODE_NAME_HOLD && last[1] == ROTA_NODE_NAME_HOLD);
        for (int who = 0; who < NODES; who++)
            if (last[who] == ROTA_NODE_NAME_YIELD)
                assert_string_equal(seeks[who].rival, ADDRESSES[1 - who]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(name_has_letters_digits_and_three_signs),
        cmocka_unit_test(default_is_the_host_and_an_unusual_port),
        cmocka_unit_test(name_of_a_node_with_heartbeats_is_taken),
        cmocka_unit_test(name_of_a_dead_node_is_free_after_its_ttl),
        cmocka_unit_test(default_name_of_another_is_not_waited_for_without_end),
        cmocka_unit_test(restarted_node_has_its_name_at_once),
        cmocka_unit_test(second_rival_is_judged_on_its_own),
        cmocka_unit_test(two_never_hold_one_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
