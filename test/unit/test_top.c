/* A live view: order, keys, and what is drawn. */
#include "core/node/top.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct rota_top top;
static struct rota_top_screen screen;
static struct rota_str cells[4000 * ROTA_TOP_COLUMNS_MAX];

static int set_up(void **state)
{
    (void)state;
    rota_top_init(&top);
    top.view = 2; /* queues */
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_top_deinit(&top);
    rota_top_screen_deinit(&screen);
    screen = (struct rota_top_screen){0};
    return 0;
}

/* A queue with its waiting jobs and how many were added in all. */
struct queue {
    const char *name, *waiting, *added;
};

enum { NAME, WAITING = 2, ADDED = 6 };

static void take(rota_time now, const struct queue *queues, size_t n)
{
    size_t n_columns = rota_top_views[top.view].n_columns;
    for (size_t i = 0; i < n * n_columns; i++)
        cells[i] = rota_str("");
    for (size_t i = 0; i < n; i++) {
        cells[i * n_columns + NAME] = rota_str(queues[i].name);
        cells[i * n_columns + WAITING] = rota_str(queues[i].waiting);
        cells[i * n_columns + ADDED] = rota_str(queues[i].added);
    }
    rota_top_take(&top, now, cells, n);
}

static const struct queue THREE[] = {{"b", "5", "100"}, {"a", "10", "50"}, {"c", "9", "0"}};

static void expect_order(const char *names)
{
    assert_int_equal(top.rows.size, strlen(names));
    for (size_t i = 0; i < top.rows.size; i++)
        assert_int_equal(top.rows.items[i].name[0], names[i]);
}

static bool feed(const char *keys)
{
    return rota_top_feed(&top, rota_str(keys));
}

static const char *line(size_t i)
{
    static char text[4 * ROTA_TOP_WIDTH_MAX];
    assert_true(i < screen.n);
    snprintf(text, sizeof text, "%.*s", (int)screen.lines[i].size,
             screen.text.data + screen.lines[i].at);
    return text;
}

static void draw(void)
{
    rota_top_draw(&top, "title", 1000000, NULL, 0, &screen);
}

static void texts_go_up_and_numbers_down_and_r_turns_round(void **state)
{
    (void)state;
    take(0, THREE, 3);
    expect_order("abc");
    feed("r");
    expect_order("cba");
    feed("r>>");
    assert_int_equal(top.sorted_by[2], WAITING);
    expect_order("acb"); /* 10, 9, 5: not as texts */
    feed("r");
    expect_order("bca");
    feed("r<<<"); /* round, to the last column, where all are alike: as they came */
    assert_int_equal(top.sorted_by[2], rota_top_views[2].n_columns - 1);
    expect_order("bac");
}

/* cpu_ms counts milliseconds of processor time: 1250 in 2.5 s are half a processor. */
static void cpu_is_a_percentage_of_one_processor(void **state)
{
    (void)state;
    top.view = 0;
    const struct rota_top_view *nodes = &rota_top_views[top.view];
    size_t cpu = 0;
    while (nodes->columns[cpu].kind != ROTA_TOP_CPU)
        assert_true(++cpu < nodes->n_columns);
    for (size_t i = 0; i < nodes->n_columns; i++)
        cells[i] = rota_str("");
    cells[NAME] = rota_str("a");
    cells[cpu] = rota_str("1000");
    rota_top_take(&top, ROTA_SEC, cells, 1);
    cells[cpu] = rota_str("2250");
    rota_top_take(&top, 3500 * ROTA_MSEC, cells, 1);
    draw();
    bool is_drawn = false;
    for (size_t i = 0; i < screen.n; i++)
        is_drawn = is_drawn || strstr(line(i), " 50.0% ");
    assert_true(is_drawn);
}

static void sizes_and_spans_have_the_unit_that_fits(void **state)
{
    static const struct {
        const char *memory, *started_ms, *shown_memory, *shown_age;
    } CASES[] = {
        {"512", "999500", " 512 ", " 500ms"},    {"1024", "940000", " 1.0K ", " 1.0min"},
        {"1536", "995500", " 1.5K ", " 4.5s"},   {"20971520", "400000", " 20M ", " 10min"},
        {"3221225472", "1", " 3.0G ", " 17min"},
    };
    (void)state;
    top.view = 0;
    const struct rota_top_view *nodes = &rota_top_views[top.view];
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        for (size_t j = 0; j < nodes->n_columns; j++)
            cells[j] = rota_str("");
        cells[NAME] = rota_str("a");
        for (size_t j = 0; j < nodes->n_columns; j++)
            if (nodes->columns[j].kind == ROTA_TOP_BYTES)
                cells[j] = rota_str(CASES[i].memory);
            else if (nodes->columns[j].kind == ROTA_TOP_AGE)
                cells[j] = rota_str(CASES[i].started_ms);
        rota_top_take(&top, (rota_time)i * ROTA_SEC, cells, 1);
        draw(); /* at 1000000 ms */
        bool has_memory = false, has_age = false;
        for (size_t j = 0; j < screen.n; j++) {
            has_memory = has_memory || strstr(line(j), CASES[i].shown_memory);
            has_age = has_age || strstr(line(j), CASES[i].shown_age);
        }
        assert_true(has_memory);
        assert_true(has_age);
    }
}

static void rates_are_what_was_added_in_a_second(void **state)
{
    const struct queue later[] = {
        {"c", "9", "7"}, {"b", "5", "100"}, {"a", "1", "40"}, {"d", "", "9"}};
    (void)state;
    for (int i = 0; i < ADDED; i++)
        feed(">");
    take(1 * ROTA_SEC, THREE, 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(top.rows.items[i].rates[ADDED] == 0);
    take(3 * ROTA_SEC, later, 4);
    expect_order("cbad"); /* the only one that grew; a was counted anew, d was not there */
    assert_true(top.rows.items[0].rates[ADDED] == 3.5);
    assert_true(top.rows.items[3].rates[ADDED] == 0);
}

static void chosen_row_stays_chosen_in_another_order(void **state)
{
    (void)state;
    take(0, THREE, 3);
    assert_int_equal(rota_top_chosen(&top), 1); /* a, the first */
    feed("\033[B");
    assert_string_equal(top.chosen, "b");
    feed("r");
    assert_int_equal(rota_top_chosen(&top), 0);
    take(1, (const struct queue[]){{"a", "", ""}, {"b", "", ""}}, 2);
    assert_int_equal(rota_top_chosen(&top), 1);
    take(2, THREE + 2, 1); /* it is gone */
    assert_int_equal(rota_top_chosen(&top), 0);
    take(3, NULL, 0);
    assert_true(rota_top_chosen(&top) == SIZE_MAX);
    feed("jjkkgG\r \033[5~");
    assert_false(top.is_detail);
}

static void choosing_ends_at_both_ends(void **state)
{
    (void)state;
    take(0, THREE, 3);
    feed("kkk");
    assert_string_equal(top.chosen, "a");
    feed("jjjjjj");
    assert_string_equal(top.chosen, "c");
    feed("g");
    assert_string_equal(top.chosen, "a");
    feed("\033OF");
    assert_string_equal(top.chosen, "c");
    feed("\033[5~");
    assert_string_equal(top.chosen, "a");
}

static void views_change_by_number_and_tab(void **state)
{
    (void)state;
    take(0, THREE, 3);
    assert_false(feed("3"));
    assert_int_equal(top.rows.size, 3);
    assert_true(feed("1"));
    assert_int_equal(top.view, 0);
    assert_int_equal(top.rows.size, 0);
    assert_true(feed("\t"));
    assert_int_equal(top.view, 1);
    assert_true(feed("\t\t\t"));
    assert_int_equal(top.view, 0);
    assert_false(feed("5"));
}

static void enter_goes_in_and_escape_comes_back(void **state)
{
    const struct rota_top_detail details[] = {{rota_str("name"), rota_str("\"a\"")},
                                              {rota_str("n_done"), rota_str("7")}};
    (void)state;
    take(0, THREE, 3);
    feed("\r");
    assert_true(top.is_detail);
    assert_string_equal(top.chosen, "a");
    rota_top_draw(&top, "title", 0, details, 2, &screen);
    assert_string_equal(line(2), "a");
    assert_string_equal(line(3), "  name    \"a\"");
    assert_string_equal(line(4), "  n_done  7");
    feed("\033[15~"); /* F5 is not an escape, and not three keys */
    assert_true(top.is_detail && top.view == 2);
    feed("\033");
    assert_false(top.is_detail);
    feed("\r?");
    assert_true(top.is_help);
    feed("\033\033");
    assert_false(top.is_help || top.is_detail);
    feed("q1");
    assert_true(top.is_over);
    assert_int_equal(top.view, 2);
}

static void any_bytes_may_be_typed(void **state)
{
    char bytes[3];
    (void)state;
    take(0, THREE, 3);
    for (int i = 0; i < 256 * 256; i++) {
        bytes[0] = (char)(i >> 8);
        bytes[1] = (char)i;
        bytes[2] = '\033';
        rota_top_feed(&top, rota_str_of(bytes, (size_t)(1 + i % 3)));
        top.is_over = false;
        if (i % 1000 == 0)
            draw();
        if (top.view != 2) {
            feed("3");
            take(i, THREE, 3);
        }
    }
    feed("\033[999;999;999");
}

static void table_is_as_wide_as_the_screen(void **state)
{
    const struct queue rows[] = {
        {"a-queue-with-a-name-that-is-quite-long-and-goes-on", "12345", "6"},
        {"\033[2Jx\xff", "1", "1"}};
    (void)state;
    for (top.width = 40; top.width <= 200; top.width++) {
        take(0, rows, 2);
        draw();
        assert_int_equal(screen.n, 24);
        for (size_t i = 0; i < screen.n; i++) {
            assert_true((int)screen.lines[i].size <= top.width);
            assert_null(memchr(line(i), '\033', screen.lines[i].size));
        }
    }
    assert_non_null(strstr(line(2), "QUEUEv"));
    assert_non_null(strstr(line(2), "WAITING"));
    assert_non_null(strstr(line(4), "goes-on")); /* whole, now that there is room */
    assert_int_equal(strncmp(line(3), "> ", 2), 0);
    assert_int_equal(screen.lines[3].mark, ROTA_TOP_CHOSEN);
    assert_int_equal(screen.lines[4].mark, ROTA_TOP_PLAIN);
}

static void long_tables_scroll_with_the_chosen_row(void **state)
{
    static char names[3000][8];
    static struct queue many[3000];
    (void)state;
    for (int i = 0; i < 3000; i++) {
        snprintf(names[i], sizeof names[i], "q%04d", i);
        many[i] = (struct queue){names[i], "", ""};
    }
    take(0, many, 3000);
    draw();
    assert_non_null(strstr(line(3), "> q0000"));
    assert_non_null(strstr(line(22), "q0019"));
    feed("G");
    draw();
    assert_non_null(strstr(line(22), "> q2999"));
    assert_non_null(strstr(line(1), "3000 rows"));
}

static void why_there_is_nothing_is_said(void **state)
{
    (void)state;
    draw();
    assert_non_null(strstr(line(3), "one moment"));
    rota_top_refuse(&top, "  this node shows no calls");
    draw();
    assert_string_equal(line(3), "  this node shows no calls");
    take(0, NULL, 0);
    draw();
    assert_non_null(strstr(line(3), "there are none"));
}

static void only_what_has_changed_is_painted(void **state)
{
    struct rota_top_screen before = {0};
    struct rota_buffer out = {0};
    (void)state;
    take(0, THREE, 3);
    rota_top_draw(&top, "title", 0, NULL, 0, &before);
    rota_top_paint(NULL, &before, false, &out);
    assert_int_equal(strncmp(out.data, "\033[H\033[2J", 7), 0);
    rota_buffer_clear(&out);
    draw();
    rota_top_paint(&before, &screen, false, &out);
    assert_int_equal(out.size, 0);
    take(1, (const struct queue[]){{"b", "5", "100"}, {"a", "10", "50"}, {"c", "8", "0"}}, 3);
    draw();
    rota_top_paint(&before, &screen, false, &out);
    rota_buffer_append_char(&out, '\0');
    assert_int_equal(strncmp(out.data, "\033[6;1H", 6), 0); /* c's line alone */
    assert_null(strchr(out.data + 6, 'H'));
    assert_null(strstr(out.data, "\033[0m")); /* without colour */
    rota_buffer_clear(&out);
    rota_top_paint(NULL, &screen, true, &out);
    rota_buffer_append_char(&out, '\0');
    assert_non_null(strstr(out.data, "\033[7m"));
    rota_buffer_deinit(&out);
    rota_top_screen_deinit(&before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(texts_go_up_and_numbers_down_and_r_turns_round),
        TEST(cpu_is_a_percentage_of_one_processor),
        TEST(sizes_and_spans_have_the_unit_that_fits),
        TEST(rates_are_what_was_added_in_a_second),
        TEST(chosen_row_stays_chosen_in_another_order),
        TEST(choosing_ends_at_both_ends),
        TEST(views_change_by_number_and_tab),
        TEST(enter_goes_in_and_escape_comes_back),
        TEST(any_bytes_may_be_typed),
        TEST(table_is_as_wide_as_the_screen),
        TEST(long_tables_scroll_with_the_chosen_row),
        TEST(why_there_is_nothing_is_said),
        TEST(only_what_has_changed_is_painted),
    };
    return cmocka_run_group_tests_name("top", tests, NULL, NULL);
}
