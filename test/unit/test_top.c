/* A live view: order, keys, and what is drawn. */
#include "cli/node/top.h"

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

static void texts_sort_ascending_numbers_descending_and_r_reverses(void **state)
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

/* cpu_ms counts milliseconds of CPU time: 1250 in 2.5 s are half a processor. */
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

static void sizes_and_durations_have_a_fitting_unit(void **state)
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
    expect_order("cbad"); /* the only one that grew; a was counted again, d was not there */
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
                                              {rota_str("is_paused"), rota_str("false")},
                                              {rota_str("why"), rota_str("null")},
                                              {rota_str("n_done"), rota_str("7")}};
    (void)state;
    take(0, THREE, 3);
    feed("\r");
    assert_true(top.is_detail);
    assert_string_equal(top.chosen, "a");
    rota_top_draw(&top, "title", 0, details, 4, &screen);
    assert_string_equal(line(2), "a");
    assert_string_equal(line(3), "  name       a");
    assert_string_equal(line(4), "  is_paused  no");
    assert_string_equal(line(5), "  why        -");
    assert_string_equal(line(6), "  n_done     7");
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
    assert_non_null(strstr(line(21), "q0018"));
    feed("G");
    draw();
    assert_non_null(strstr(line(21), "> q2999"));
    assert_non_null(strstr(line(1), "3000 rows"));
}

static void the_last_line_of_a_table_has_totals(void **state)
{
    static const struct queue LATER[] = {{"b", "5", "140"}, {"a", "10", "70"}, {"c", "9", ""}};
    (void)state;
    take(0, THREE, 3);
    take(2 * ROTA_SEC, LATER, 3);
    cells[1] = rota_str("true");
    cells[rota_top_views[top.view].n_columns + 1] = rota_str("false");
    rota_top_take(&top, 4 * ROTA_SEC, cells, 3);
    draw();
    char words[8][16];
    assert_int_equal(sscanf(line(22), "%15s %15s %15s %15s %15s %15s", words[0], words[1], words[2],
                            words[3], words[4], words[5]),
                     6);
    assert_string_equal(words[0], "TOTAL");
    assert_string_equal(words[1], "24"); /* nothing is said of PAUSED */
    assert_string_equal(words[2], "-");  /* no row has a number */
    assert_string_equal(words[5], "0.0");
    assert_int_equal(screen.lines[22].mark, ROTA_TOP_HEAD);
    assert_non_null(strstr(line(3), "no "));  /* a */
    assert_non_null(strstr(line(4), "yes ")); /* b */
    take(4 * ROTA_SEC, NULL, 0);
    draw();
    assert_string_equal(line(22), "");
}

static void an_empty_view_says_why(void **state)
{
    (void)state;
    draw();
    assert_non_null(strstr(line(3), "loading"));
    rota_top_refuse(&top, "this node shows no calls");
    draw();
    assert_string_equal(line(3), "  this node shows no calls");
    take(0, NULL, 0);
    draw();
    assert_non_null(strstr(line(3), "  none"));
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
    assert_int_equal(strncmp(out.data, "\033[6;1H", 6), 0); /* c's line ... */
    const char *totals = strchr(out.data + 6, 'H');
    assert_non_null(totals);
    assert_int_equal(strncmp(totals - 6, "\033[23;1H", 7), 0); /* ... and the totals, alone */
    assert_null(strchr(totals + 1, 'H'));
    assert_null(strstr(out.data, "\033[0m")); /* without colour */
    rota_buffer_clear(&out);
    rota_top_paint(NULL, &screen, true, &out);
    rota_buffer_append_char(&out, '\0');
    assert_non_null(strstr(out.data, "\033[7m"));
    rota_buffer_deinit(&out);
    rota_top_screen_deinit(&before);
}

/* --- keys --- */

/* Forty rows q00 .. q39, of which q20 is chosen. */
static void take_forty(void)
{
    static char names[40][8];
    struct queue rows[40];
    for (int i = 0; i < 40; i++) {
        snprintf(names[i], sizeof names[i], "q%02d", i);
        rows[i] = (struct queue){names[i], "", ""};
    }
    take(0, rows, 40);
    snprintf(top.chosen, sizeof top.chosen, "q20");
}

static void each_key_chooses_a_row(void **state)
{
    static const struct {
        const char *keys, *chosen;
    } CASES[] = {
        {"\033[A", "q19"},   {"\033OA", "q19"},   {"k", "q19"},       {"\033[B", "q21"},
        {"\033OB", "q21"},   {"j", "q21"},        {"\033[5~", "q02"}, {"\033[6~", "q38"},
        {" ", "q38"},        {"\033[H", "q00"},   {"\033OH", "q00"},  {"\033[1~", "q00"},
        {"g", "q00"},        {"\033[F", "q39"},   {"\033OF", "q39"},  {"\033[4~", "q39"},
        {"G", "q39"},        {"\033[Ak", "q18"},  {"x", "q20"},       {"\033[3~", "q20"},
        {"\033[3~j", "q21"}, {"\033[1;2", "q20"}, {"\033[@j", "q21"}, {"\033[~j", "q21"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        take_forty();
        assert_false(feed(CASES[i].keys));
        assert_string_equal(top.chosen, CASES[i].chosen);
    }
    static const struct {
        int height;
        const char *chosen;
    } PAGES[] = {{24, "q02"}, {8, "q18"}, {7, "q19"}, {6, "q19"}};
    for (size_t i = 0; i < sizeof PAGES / sizeof *PAGES; i++) {
        top.height = PAGES[i].height;
        take_forty();
        feed("\033[5~");
        assert_string_equal(top.chosen, PAGES[i].chosen);
    }
}

static void each_key_changes_the_column_or_the_state(void **state)
{
    static const struct {
        const char *keys;
        size_t column;
    } CASES[] = {{"\033[C", 3}, {"\033OC", 3}, {">", 3},    {"\033[D", 1},
                 {"\033OD", 1}, {"<", 1},      {"<<<", 10}, {"\033[C\033[C\033[D", 3}};
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        top.sorted_by[2] = 2;
        feed(CASES[i].keys);
        assert_int_equal(top.sorted_by[2], CASES[i].column);
    }
    take(0, THREE, 3);
    feed("p");
    assert_true(top.is_paused);
    feed("p");
    assert_false(top.is_paused);
    feed("h");
    assert_true(top.is_help);
    feed("h?");
    assert_true(top.is_help);
    feed("?");
    assert_false(top.is_help);
    static const char *const BACK[] = {"\033", "\177", "\b"};
    for (size_t i = 0; i < 3; i++) {
        feed("\n");
        assert_true(top.is_detail);
        top.scroll = 3;
        feed("?\r"); /* what is open below the help stays as it is */
        assert_true(top.is_help && top.is_detail);
        assert_int_equal(top.scroll, 3);
        feed(BACK[i]);
        assert_true(top.is_detail && !top.is_help);
        assert_int_equal(top.scroll, 0);
        top.scroll = 3;
        feed("\r");
        assert_int_equal(top.scroll, 3);
        feed(BACK[i]);
        assert_false(top.is_detail);
        assert_int_equal(top.scroll, 0);
    }
    top.scroll = 5;
    feed("\r");
    assert_int_equal(top.scroll, 0);
    feed("3");
    assert_false(top.is_detail);
    feed("Q");
    assert_true(top.is_over);
}

static void another_view_starts_over(void **state)
{
    (void)state;
    take(0, THREE, 3);
    feed("j\r?");
    top.scroll = 2;
    assert_false(feed("3"));
    assert_false(top.is_detail || top.is_help);
    assert_int_equal(top.scroll, 0);
    assert_string_equal(top.chosen, "b");
    assert_true(feed("4"));
    assert_int_equal(top.view, 3);
    assert_string_equal(top.chosen, "");
    assert_false(top.has_rows);
    assert_false(feed("0"));
    assert_int_equal(top.view, 3);
}

static void details_scroll_to_their_end_and_no_further(void **state)
{
    struct rota_top_detail details[30];
    static char names[30][8];
    (void)state;
    for (int i = 0; i < 30; i++) {
        snprintf(names[i], sizeof names[i], "f%02d", i);
        details[i] = (struct rota_top_detail){rota_str(names[i]), rota_str("x")};
    }
    take(0, THREE, 3);
    feed("\rj");
    rota_top_draw(&top, "title", 0, details, 30, &screen);
    assert_string_equal(top.chosen, "a");
    assert_string_equal(line(3), "  f01  x");
    feed("\033[6~");
    rota_top_draw(&top, "title", 0, details, 30, &screen);
    assert_int_equal(top.scroll, 10); /* 20 of 30 fit */
    assert_string_equal(line(3), "  f10  x");
    assert_string_equal(line(22), "  f29  x");
    feed("k");
    rota_top_draw(&top, "title", 0, details, 30, &screen);
    assert_string_equal(line(3), "  f09  x");
    feed("G");
    assert_int_equal(top.scroll, 9);
    feed("g");
    assert_int_equal(top.scroll, 0);
    rota_top_draw(&top, "title", 0, details, 20, &screen);
    assert_string_equal(line(22), "  f19  x");
    feed("j");
    rota_top_draw(&top, "title", 0, details, 20, &screen);
    assert_int_equal(top.scroll, 0);
    assert_string_equal(line(3), "  f00  x");
}

/* --- rows --- */

static void numbers_are_read_whole_or_count_as_zero(void **state)
{
    static const struct {
        const char *text;
        double value;
    } CASES[] = {
        {"", 0},
        {"7", 7},
        {"-2.5", -2.5},
        {"7x", 0},
        {"true", 0},
        {"000000000000000000000000000000000000012", 12}, /* 39 bytes */
        {"0000000000000000000000000000000000000012", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        take(0, &(struct queue){"a", CASES[i].text, ""}, 1);
        assert_true(top.rows.items[0].values[WAITING] == CASES[i].value);
    }
}

static void long_names_and_too_many_rows_are_cut(void **state)
{
    static char name[ROTA_TOP_NAME_MAX + 1];
    static struct rota_str none[(ROTA_TOP_ROWS_MAX + 1) * ROTA_TOP_COLUMNS_MAX];
    (void)state;
    memset(name, 'n', ROTA_TOP_NAME_MAX - 1);
    take(0, &(struct queue){name, "", ""}, 1);
    assert_int_equal(strlen(top.rows.items[0].name), ROTA_TOP_NAME_MAX - 1);
    name[ROTA_TOP_NAME_MAX - 1] = 'n';
    take(0, &(struct queue){name, "", ""}, 1);
    assert_int_equal(strlen(top.rows.items[0].name), ROTA_TOP_NAME_MAX - 1);
    rota_top_take(&top, 0, none, ROTA_TOP_ROWS_MAX);
    assert_int_equal(top.rows.size, ROTA_TOP_ROWS_MAX);
    rota_top_take(&top, 0, none, ROTA_TOP_ROWS_MAX + 1);
    assert_int_equal(top.rows.size, ROTA_TOP_ROWS_MAX);
}

/* The moment of the oldest job is the smallest; 0 means that there is none. */
static void ages_are_sorted_from_the_oldest_and_unknown_ones_come_last(void **state)
{
    enum { OLDEST = 8 };
    static const char *const MOMENTS[] = {"0", "300", "", "100", "200"};
    size_t n_columns = rota_top_views[2].n_columns;
    (void)state;
    for (size_t i = 0; i < 5 * n_columns; i++)
        cells[i] = rota_str("");
    for (size_t i = 0; i < 5; i++) {
        cells[i * n_columns] = rota_str_of("abcde" + i, 1);
        cells[i * n_columns + OLDEST] = rota_str(MOMENTS[i]);
    }
    top.sorted_by[2] = OLDEST;
    rota_top_take(&top, 0, cells, 5);
    expect_order("debac");
    feed("r");
    expect_order("acbed");
}

static void rates_follow_the_name_and_the_time_between(void **state)
{
    (void)state;
    take(5 * ROTA_SEC, THREE, 3);
    take(5 * ROTA_SEC, (const struct queue[]){{"b", "5", "300"}}, 1); /* no time has passed */
    assert_true(top.rows.items[0].rates[ADDED] == 0);
    take(7 * ROTA_SEC, (const struct queue[]){{"x", "", "1"}, {"y", "", "2"}, {"b", "", "300"}}, 3);
    assert_true(top.rows.items[0].rates[ADDED] == 0); /* b is the first in their order */
    take(9 * ROTA_SEC, (const struct queue[]){{"y", "", "8"}, {"x", "", "2"}, {"b", "", "301"}}, 3);
    assert_true(top.rows.items[0].rates[ADDED] == 0.5);
    assert_true(top.rows.items[1].rates[ADDED] == 0.5);
    assert_true(top.rows.items[2].rates[ADDED] == 3);
    rota_top_refuse(&top, "gone");
    take(11 * ROTA_SEC, (const struct queue[]){{"y", "", "10"}}, 1);
    assert_true(top.rows.items[0].rates[ADDED] == 0);
}

static void any_number_of_rows_is_sorted(void **state)
{
    static char texts[64][8];
    struct queue rows[64] = {{"a", "", ""}};
    (void)state;
    top.sorted_by[2] = WAITING;
    for (size_t n = 0; n <= 64; n++) {
        for (size_t i = 0; i < n; i++) {
            snprintf(texts[i], sizeof texts[i], "%zu", i * 37 % 16);
            rows[i] = (struct queue){"a", texts[i], ""};
        }
        take(0, rows, n);
        for (size_t i = 1; i < n; i++) {
            const struct rota_top_row *a = &top.rows.items[i - 1], *b = &top.rows.items[i];
            assert_true(a->values[WAITING] > b->values[WAITING] ||
                        (a->values[WAITING] == b->values[WAITING] && a->place < b->place));
        }
    }
}

/* --- whole screens --- */

/* All lines but the footer and the empty ones, each with a letter for its mark. */
static const char *drawn(const struct rota_top_detail *details, size_t n)
{
    static char text[20000];
    size_t end = 0;
    rota_top_draw(&top, "title", 100000000, details, n, &screen);
    assert_int_equal(screen.n, top.height);
    assert_int_equal(screen.lines[screen.n - 1].mark, ROTA_TOP_DIM);
    assert_int_equal(strstr(line(screen.n - 1), "paused") != NULL, top.is_paused);
    for (size_t i = 0; i < screen.n - 1; i++)
        if (screen.lines[i].size > 0)
            end += (size_t)snprintf(text + end, sizeof text - end, "%c|%s\n",
                                    ".HCBD"[screen.lines[i].mark], line(i));
    return text;
}

static void take_nodes(rota_time now, const char *cpu, const char *calls)
{
    static const char *const ROWS[][11] = {
        {"127.0.0.1:7001", "live", "east", "", "512", "12", "3", "1.25", "", "99999500", "0"},
        {"\xc3\xa4\"b", "dead", "", "", "10240", "", "0", "7", "", "40000000", ""},
        {"dead", "open", "\033w", "", "1610612736", "5", "-1", "", "", "1000", "99990000"},
        {"z", "evicted", "silent", "", "", "0", "100000", "8", "", "100000001", "98200000"},
    };
    for (size_t i = 0; i < 44; i++)
        cells[i] = rota_str(ROWS[i / 11][i % 11]);
    cells[3] = cells[25] = rota_str(cpu);
    cells[8] = cells[19] = rota_str(calls);
    rota_top_take(&top, now, cells, 4);
}

static void tables_look_like_this(void **state)
{
    (void)state;
    top.view = 0;
    top.width = 120;
    top.height = 10;
    take_nodes(0, "1000", "50");
    take_nodes(2 * ROTA_SEC, "1500", "90");
    assert_string_equal(drawn(NULL, 0), "H|title\n"
                                        ".| [1 nodes]  2 shards   3 queues   4 calls   4 rows\n"
                                        "H|  NODEv           STATE    ZONE       CPU   MEMORY   "
                                        "JOBS     RUN   SHARDS   CALLS/S     UP   "
                                        "SEEN\n"
                                        "C|> 127.0.0.1:7001  live     east     25.0%      512     "
                                        "12       3     1.25        20  500ms   "
                                        "   -\n"
                                        "B|  dead            open     \\u001bw  25.0%     1.5G     "
                                        " 5      -1        -         -   1.2d   "
                                        " 10s\n"
                                        "B|  z               evicted  silent       -        -      "
                                        "0  100000        8         -    0ms  "
                                        "30min\n"
                                        "B|  \303\244\"b             dead                  -      "
                                        "10K      -       0        7        20    "
                                        "17h      -\n"
                                        "H|  TOTAL                             50.0%     1.5G     "
                                        "17  100002    16.25        40      -   "
                                        "   -\n");
    top.is_reversed[0] = true;
    top.sorted_by[0] = 4;
    top.width = 60;
    top.is_paused = true;
    rota_top_feed(&top, rota_str("rr"));
    assert_string_equal(drawn(NULL, 0),
                        "H|title\n"
                        ".| [1 nodes]  2 shards   3 queues   4 calls   4 rows\n"
                        "H|  NODE            STATE    ZONE       CPU  MEMORY^   JOBS\n"
                        "C|> z               evicted  silent       -        -      0\n"
                        ".|  127.0.0.1:7001  live     east     25.0%      512     12\n"
                        "B|  \303\244\"b             dead                  -      10K      -\n"
                        "B|  dead            open     \\u001bw  25.0%     1.5G      5\n"
                        "H|  TOTAL                             50.0%     1.5G     17\n");
    top.width = 20;
    top.height = 7;
    feed("G");
    assert_string_equal(drawn(NULL, 0), "H|title\n"
                                        ".| [1 nodes]  2 shard~\n"
                                        "H|  NODE   STATE \n"
                                        "B|  \303\244\"b    dead  \n"
                                        "C|> dead   open  \n"
                                        "H|  TOTAL        \n");
    top.width = 8;
    top.height = 0;
    assert_string_equal(drawn(NULL, 0), "H|title\n"
                                        ".| [1 nod~\n"
                                        "H|  NODE \n"
                                        "C|> dead \n"
                                        "H|  TOTAL\n");
    assert_int_equal(top.height, 6);
}

static void help_and_details_look_like_this(void **state)
{
    static const struct rota_top_detail DETAILS[] = {
        {{"a", 1}, {"1", 1}},
        {{"state\033", 6}, {"a text that is too long for one line of this screen", 51}},
        {{"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn", 40}, {"", 0}},
    };
    (void)state;
    top.width = 50;
    top.height = 12;
    take(0, THREE, 3);
    feed("j\r");
    assert_string_equal(drawn(DETAILS, 3), "H|title\n"
                                           ".|  1 nodes   2 shards  [3 queues]  4 calls   3 rows\n"
                                           "H|b\n"
                                           ".|  a       1\n"
                                           ".|  state~  a text that is too long for one line of~\n"
                                           ".|  nnnnn~  \n");
    top.width = 12;
    assert_string_equal(drawn(DETAILS, 2), "H|title\n"
                                           ".|  1 nodes  ~\n"
                                           "H|b\n"
                                           ".|  a       1\n"
                                           ".|  state~  a~\n");
    feed("?");
    top.width = 80;
    for (top.height = 5; top.height < 24; top.height++) {
        int n_lines = 0;
        for (const char *at = drawn(DETAILS, 2); *at; at++)
            n_lines += *at == '\n';
        assert_int_equal(n_lines, 3 + (top.height < 11 ? top.height - 4 : 7));
        assert_string_equal(line(2), "keys");
        assert_non_null(strstr(line(3), "1 2 3 4"));
        assert_int_equal(screen.lines[2].mark, ROTA_TOP_HEAD);
        assert_int_equal(screen.lines[3].mark, ROTA_TOP_PLAIN);
    }
}

static void screen_is_bounded(void **state)
{
    (void)state;
    take(0, THREE, 3);
    top.width = ROTA_TOP_WIDTH_MAX + 1;
    top.height = ROTA_TOP_HEIGHT_MAX + 1;
    draw();
    assert_int_equal(top.width, ROTA_TOP_WIDTH_MAX);
    assert_int_equal(top.height, ROTA_TOP_HEIGHT_MAX);
    assert_int_equal(screen.n, ROTA_TOP_HEIGHT_MAX);
}

static void each_mark_has_its_color(void **state)
{
    struct rota_top_screen before = {0};
    struct rota_buffer out = {0};
    (void)state;
    top.view = 0;
    top.width = 14;
    top.height = 9;
    take_nodes(0, "", "");
    draw();
    rota_top_paint(NULL, &screen, true, &out);
    rota_buffer_append_char(&out, '\0');
    assert_string_equal(out.data, "\033[H\033[2J\033[1;1H\033[1mtitle\033[0m\033[K"
                                  "\033[2;1H [1 nodes]  2~\033[K"
                                  "\033[3;1H\033[1m  NODEv       \033[0m\033[K"
                                  "\033[4;1H\033[7m> 127.0.0.1:7~\033[0m\033[K"
                                  "\033[5;1H\033[31m  dead        \033[0m\033[K"
                                  "\033[6;1H\033[31m  z           \033[0m\033[K"
                                  "\033[7;1H\033[31m  \303\244\"b         \033[0m\033[K"
                                  "\033[8;1H\033[1m  TOTAL       \033[0m\033[K"
                                  "\033[9;1H\033[2m ? keys   q q~\033[0m\033[K");

    rota_top_draw(&top, "title", 1000000, NULL, 0, &before);
    before.lines[4].mark = ROTA_TOP_PLAIN; /* another mark is another line */
    before.lines[5].size--;
    before.n = 7; /* and so is one that is not there yet */
    rota_buffer_clear(&out);
    rota_top_paint(&before, &screen, false, &out);
    rota_buffer_append_char(&out, '\0');
    assert_string_equal(out.data, "\033[5;1H  dead        \033[K"
                                  "\033[6;1H  z           \033[K"
                                  "\033[8;1H  TOTAL       \033[K\033[9;1H ? keys   q q~\033[K");
    rota_buffer_deinit(&out);
    rota_top_screen_deinit(&before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(texts_sort_ascending_numbers_descending_and_r_reverses),
        TEST(cpu_is_a_percentage_of_one_processor),
        TEST(sizes_and_durations_have_a_fitting_unit),
        TEST(rates_are_what_was_added_in_a_second),
        TEST(chosen_row_stays_chosen_in_another_order),
        TEST(choosing_ends_at_both_ends),
        TEST(views_change_by_number_and_tab),
        TEST(enter_goes_in_and_escape_comes_back),
        TEST(any_bytes_may_be_typed),
        TEST(table_is_as_wide_as_the_screen),
        TEST(long_tables_scroll_with_the_chosen_row),
        TEST(the_last_line_of_a_table_has_totals),
        TEST(an_empty_view_says_why),
        TEST(only_what_has_changed_is_painted),
        TEST(each_key_chooses_a_row),
        TEST(each_key_changes_the_column_or_the_state),
        TEST(another_view_starts_over),
        TEST(details_scroll_to_their_end_and_no_further),
        TEST(numbers_are_read_whole_or_count_as_zero),
        TEST(long_names_and_too_many_rows_are_cut),
        TEST(ages_are_sorted_from_the_oldest_and_unknown_ones_come_last),
        TEST(rates_follow_the_name_and_the_time_between),
        TEST(any_number_of_rows_is_sorted),
        TEST(tables_look_like_this),
        TEST(help_and_details_look_like_this),
        TEST(screen_is_bounded),
        TEST(each_mark_has_its_color),
    };
    return cmocka_run_group_tests_name("top", tests, NULL, NULL);
}
