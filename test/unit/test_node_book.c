#include "core/place/node_book.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static struct rota_node_book book;

static int set_up(void **state)
{
    (void)state;
    rota_node_book_init(&book, 1);
    rota_node_book_note(&book, rota_str("10.0.0.7:7700"), rota_str("box"), 1);
    rota_node_book_note(&book, rota_str("10.0.0.7:77001"), rota_str("far"), 1);
    rota_node_book_note(&book, rota_str("[::1]:7700"), rota_str("six"), 1);
    rota_node_book_note(&book, rota_str("old:1"), rota_str(""), 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_node_book_deinit(&book);
    return 0;
}

static void check_name(const char *address, const char *name)
{
    assert_true(rota_str_is_equal(rota_node_book_name(&book, rota_str(address)), rota_str(name)));
}

static void check_address(const char *name, const char *address)
{
    assert_true(
        rota_str_is_equal(rota_node_book_address(&book, rota_str(name)), rota_str(address)));
}

static void book_finds_both_ways(void **state)
{
    (void)state;
    check_name("10.0.0.7:7700", "box");
    check_name("old:1", "old:1");
    check_name("unknown:1", "unknown:1");
    check_name("", "");
    check_address("box", "10.0.0.7:7700");
    check_address("10.0.0.7:7700", "10.0.0.7:7700");
    check_address("unknown", "unknown");
    check_address("", "");
    rota_node_book_note(&book, rota_str("10.0.0.7:7700"), rota_str("renamed"), 2);
    check_name("10.0.0.7:7700", "renamed");
    check_address("box", "box");
}

static void latest_of_one_name_is_meant(void **state)
{
    (void)state;
    rota_node_book_note(&book, rota_str("10.0.0.8:7700"), rota_str("box"), 2);
    check_address("box", "10.0.0.8:7700");
    rota_node_book_note(&book, rota_str("10.0.0.7:7700"), rota_str("box"), 3);
    check_address("box", "10.0.0.7:7700");
    check_name("10.0.0.8:7700", "box"); /* as it was called */
}

static void book_is_bounded(void **state)
{
    char address[32];
    (void)state;
    for (int i = 0; i < 2 * ROTA_NODE_BOOK_MAX; i++) {
        snprintf(address, sizeof address, "many:%d", i);
        rota_node_book_note(&book, rota_str(address), rota_str("x"), 0);
    }
    assert_int_equal(book.by_address.size, ROTA_NODE_BOOK_MAX);
    check_name("10.0.0.7:7700", "box");
    check_name(address, address);
}

static void check_rewritten(const char *text, const char *wanted)
{
    struct rota_buffer buffer = {0};
    rota_node_book_rewrite(&book, rota_str(text), &buffer);
    assert_string_equal(buffer.data ? buffer.data : "", wanted);
    rota_buffer_deinit(&buffer);
}

static void sentences_get_names(void **state)
{
    (void)state;
    check_rewritten("", "");
    check_rewritten("from 10.0.0.7:7700 to [::1]:7700.", "from box to six.");
    check_rewritten("10.0.0.7:7700: gone", "box: gone");
    check_rewritten("(10.0.0.7:77001), 10.0.0.7:770011", "(far), 10.0.0.7:770011");
    check_rewritten("x10.0.0.7:7700 ... 10.0.0.7:7700...", "x10.0.0.7:7700 ... box...");
    check_rewritten("old:1 is \xc3\xb6", "old:1 is \xc3\xb6");
}

static void lists_get_addresses(void **state)
{
    struct rota_buffer buffer = {0};
    (void)state;
    rota_node_book_resolve(&book, rota_str("six,10.0.0.7:7700,,far,x"), 5, &buffer);
    assert_string_equal(buffer.data, "[::1]:7700,10.0.0.7:7700,,10.0.0.7:77001,x");
    rota_buffer_clear(&buffer);
    rota_node_book_resolve(&book, rota_str("six,far,x"), 2, &buffer);
    assert_string_equal(buffer.data, "[::1]:7700,10.0.0.7:77001");
    rota_buffer_deinit(&buffer);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(book_finds_both_ways), TEST(latest_of_one_name_is_meant), TEST(book_is_bounded),
        TEST(sentences_get_names),  TEST(lists_get_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
