#include "wire/text/view_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define HEAD "rota-view 1\nnumber 9\nbase 3\nengine ring\nto ring\nphase stable\nshards 8\n"
#define TEXT                                                                                       \
    HEAD "seat b c\n"                                                                              \
         "member 3 5 1000 7 a\nmember 5 0 1000 8 a\nmember 4 0 2500 18446744073709551615 b c\n"    \
         "pin 9 0 0 a\npin 3 4 7 b c\nend\n"

static enum rota_code parse(const char *text, struct rota_error *error)
{
    struct rota_view view = {0};
    enum rota_code code = rota_view_text_parse(rota_str(text), &view, error);
    assert_true(code == ROTA_OK || view.number == 0);
    rota_view_deinit(&view);
    return code;
}

/* Replaces the first `from` in the whole text. */
static void assert_refused(const char *from, const char *to, const char *because)
{
    struct rota_error error = {0};
    struct rota_buffer text = {0};
    const char *at = strstr(TEXT, from);
    assert_non_null(at);
    rota_buffer_append(&text, TEXT, (size_t)(at - TEXT));
    rota_buffer_append_text(&text, to);
    rota_buffer_append_text(&text, at + strlen(from));
    assert_int_not_equal(parse(text.data, &error), ROTA_OK);
    if (!strstr(error.text, because))
        fail_msg("\"%s\" is refused with: %s", to, error.text);
    rota_buffer_deinit(&text);
}

static void text_is_written_as_it_was_read(void **state)
{
    (void)state;
    struct rota_view view = {0};
    struct rota_buffer text = {0};
    assert_int_equal(rota_view_text_parse(rota_str(TEXT), &view, NULL), ROTA_OK);
    assert_int_equal(view.number, 9);
    assert_int_equal(view.base, 3);
    assert_int_equal(view.n_shards, 8);
    assert_int_equal(view.members.size, 3);
    assert_true(view.members.items[2].instance == UINT64_MAX);
    assert_true(rota_str_is_equal(view.members.items[2].name, rota_str("b c")));
    assert_int_equal(view.pins.items[1].shard, 7);
    rota_view_text_format(&view, &text);
    assert_string_equal(text.data, TEXT);
    rota_buffer_deinit(&text);
    rota_view_deinit(&view);
}

static void truncated_text_is_refused(void **state)
{
    (void)state;
    struct rota_view view = {0};
    for (size_t size = 0; size < strlen(TEXT); size++)
        assert_int_equal(rota_view_text_parse(rota_str_of(TEXT, size), &view, NULL),
                         ROTA_ERR_INVALID);
    assert_int_equal(parse(TEXT "\n", NULL), ROTA_ERR_INVALID);
}

static void numbers_are_plain_and_within_bounds(void **state)
{
    (void)state;
    assert_refused("number 9", "number 09", "view:2: ");
    assert_refused("number 9", "number +9", "view:2: ");
    assert_refused("number 9", "number  9", "view:2: ");
    assert_refused("number 9", "number 4611686018427387904", "view:2: ");
    assert_refused("number 9", "number 99999999999999999999999", "view:2: ");
    assert_refused("base 3", "base 0", "out of bounds");
    assert_refused("base 3", "base 10", "out of bounds");
    assert_refused("shards 8", "shards 131073", "view:7: ");
    assert_refused("shards 8", "shards 7", "pin of shard 7");
    assert_refused("member 3 5 1000 7 a", "member 3 5 9 7 a", "weight");
    assert_refused("member 3 5 1000 7 a", "member 3 5 100001 7 a", "view:9: ");
    assert_refused("member 3 5 1000 7 a", "member 3 5 1000 0 a", "instance");
}

static void unknown_words_are_refused(void **state)
{
    (void)state;
    assert_refused("rota-view 1", "rota-view 0", "rota-view 1");
    assert_refused("rota-view 1", "rota-view 2", "version 2 is for views with refusals");
    assert_refused("rota-view 1", "rota-view 4", "written by a newer version");
    assert_refused("engine ring", "engine rings", "view:4: ");
    assert_refused("phase stable", "phase", "view:6: ");
    assert_refused("phase stable", "phase shadow", "phase shadow");
    assert_refused("to ring", "to lease", "ring to lease");
    assert_refused("seat b c\n", "seat \n", "view:8: the name is missing");
    assert_refused("seat b c\n", "seat b\tc\n", "view:8: the name is missing");
    assert_refused("seat b c\n", "chair b\n", "view:8: ");
    assert_refused("end\n", "seat z\nend\n", "in this order");
}

static void no_name_appears_twice_at_a_time(void **state)
{
    (void)state;
    assert_refused("member 5 0 1000 8 a", "member 4 0 1000 8 a", "a duplicate");
    assert_refused("member 5 0 1000 8 a", "member 3 0 1000 8 a", "a duplicate");
    assert_refused("member 3 5", "member 5 3", "or range");
    assert_refused("member 3 5", "member 2 5", "or range");
    assert_refused("member 5 0", "member 10 0", "or range");
    assert_refused("pin 3 4 7", "pin 3 4 0", "a duplicate");
}

static void too_much_is_refused(void **state)
{
    (void)state;
    struct rota_error error;
    struct rota_view view = {0};
    struct rota_buffer text = {0};
    char *large = calloc(1, ROTA_VIEW_TEXT_MAX + 1);
    assert_int_equal(
        rota_view_text_parse(rota_str_of(large, ROTA_VIEW_TEXT_MAX + 1), &view, &error),
        ROTA_ERR_LIMIT);
    free(large);
    rota_buffer_append_text(&text, HEAD);
    for (int i = 0; i <= ROTA_VIEW_SEATS_MAX; i++)
        rota_buffer_append_text(&text, "seat a\n");
    rota_buffer_append_text(&text, "end\n");
    assert_int_equal(parse(text.data, &error), ROTA_ERR_LIMIT);
    assert_non_null(strstr(error.text, "too many seats"));

    rota_buffer_clear(&text);
    rota_buffer_append_text(&text, "rota-view 1\nnumber 900\nbase 1\nengine ring\nto ring\n"
                                   "phase stable\nshards 8\n");
    for (int i = 0; i < 100; i++)
        rota_buffer_print(&text, "member %d 0 1000 1 m%03d\n", i + 1, i);
    rota_buffer_append_text(&text, "end\n");
    assert_int_equal(parse(text.data, &error), ROTA_ERR_LIMIT);
    assert_non_null(strstr(error.text, "changes since its base"));
    rota_buffer_deinit(&text);
}

static void refusals_make_it_version_2(void **state)
{
    (void)state;
    static const char head[] = "rota-view 2\nnumber 9\nbase 3\nengine ring\nto ring\n"
                               "phase stable\nshards 8\nmember 4 0 1000 18 b c\n";
    static const char *const wrong[] = {"refusal 5 0 1 4 b c broken", "refusal 5 0 1 3 b c ",
                                        "refusal 5 0 8 3 b c broken", "refusal 5 0 1 3 b c",
                                        "refusal 2 0 1 3 b c broken"};
    struct rota_view view = {0};
    struct rota_buffer text = {0}, again = {0};
    rota_buffer_print(&text, "%srefusal 5 0 1 3 b c the file is broken\nend\n", head);
    assert_int_equal(rota_view_text_parse(rota_buffer_str(&text), &view, NULL), ROTA_OK);
    assert_true(rota_str_is_equal(view.refusals.items[0].name, rota_str("b c")));
    assert_true(rota_str_is_equal(view.refusals.items[0].why, rota_str("the file is broken")));
    rota_view_text_format(&view, &again);
    assert_string_equal(again.data, text.data);
    rota_view_deinit(&view);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        rota_buffer_clear(&text);
        rota_buffer_print(&text, "%s%s\nend\n", head, wrong[i]);
        assert_int_equal(parse(text.data, NULL), ROTA_ERR_INVALID);
    }
    rota_buffer_deinit(&text);
    rota_buffer_deinit(&again);
}

static void keyed_space_makes_it_version_3(void **state)
{
    (void)state;
    static const char head[] = "rota-view 3\nnumber 9\nbase 3\nengine ring\nto ring\n"
                               "phase stable\nshards 0\n";
    static const char *const wrong[] = {
        "seat a\n",
        "member 3 0 1000 7 b c\n",
        "member 3 0 1000 7 3 b c \n",
        "member 3 0 1000 7 4 b c\n",
        "member 3 0 1000 7 0  east\n",
        "member 3 0 1000 7 2 b c\teast\n",
        "member 3 0 1000 7 3 b c\npin 4 0 0 b c\n",
        "member 3 0 1000 7 3 b c\nrefusal 4 0 0 3 b c broken\n",
    };
    static const char *const heads[][2] = {
        {"rota-view 3", "rota-view 1"},
        {"shards 0", "shards 1"},
        {"engine ring", "engine static"},
        {"to ring", "to static"},
    };
    struct rota_view view = {0};
    struct rota_buffer text = {0}, again = {0};
    rota_buffer_print(&text, "%smember 3 0 1000 7 3 b c east 1\nmember 4 8 500 8 1 d\nend\n", head);
    assert_int_equal(rota_view_text_parse(rota_buffer_str(&text), &view, NULL), ROTA_OK);
    assert_true(rota_view_is_keyed(&view));
    assert_true(rota_str_is_equal(view.members.items[0].name, rota_str("b c")));
    assert_true(rota_str_is_equal(view.members.items[0].zone, rota_str("east 1")));
    assert_true(rota_str_is_equal(view.members.items[1].name, rota_str("d")));
    assert_int_equal(view.members.items[1].zone.size, 0);
    rota_view_text_format(&view, &again);
    assert_string_equal(again.data, text.data);
    rota_view_deinit(&view);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        rota_buffer_clear(&again);
        rota_buffer_print(&again, "%s%send\n", head, wrong[i]);
        assert_int_equal(parse(again.data, NULL), ROTA_ERR_INVALID);
    }
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        const char *at = strstr(text.data, heads[i][0]);
        rota_buffer_clear(&again);
        rota_buffer_print(&again, "%.*s%s%s", (int)(at - text.data), text.data, heads[i][1],
                          at + strlen(heads[i][0]));
        assert_int_equal(parse(again.data, NULL), ROTA_ERR_INVALID);
    }
    rota_buffer_deinit(&text);
    rota_buffer_deinit(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_written_as_it_was_read),
        cmocka_unit_test(truncated_text_is_refused),
        cmocka_unit_test(numbers_are_plain_and_within_bounds),
        cmocka_unit_test(unknown_words_are_refused),
        cmocka_unit_test(no_name_appears_twice_at_a_time),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(refusals_make_it_version_2),
        cmocka_unit_test(keyed_space_makes_it_version_3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
